//! Every command that answers does so with `--json`, too, and then an error is an object.

use serde_json::Value;
use std::process::{Command, Output};

/// Commands without `--json`, and why.
const WITHOUT: [(&str, &str); 5] = [
    ("completions", "prints a shell's script"),
    ("config schema", "prints JSON anyway"),
    ("config reference", "prints Markdown; `config schema` is for machines"),
    ("lab show", "prints a file"),
    ("man", "prints a manual page"),
];

fn ferrule(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrule"));
    command.args(arguments).current_dir(std::env::temp_dir());
    command.output().expect("it runs")
}

/// The commands below a command, as its help lists them.
fn below(command: &[&str]) -> Vec<String> {
    let help = ferrule(&[command, &["--help"]].concat());
    let text = String::from_utf8(help.stdout).expect("text");
    let Some((_, list)) = text.split_once("Commands:\n") else { return Vec::new() };
    let list = list.split("\n\n").next().unwrap_or_default();
    let names = list.lines().filter_map(|line| {
        let name = line.strip_prefix("  ")?.split_whitespace().next()?;
        line.chars().nth(2).is_some_and(|c| c.is_ascii_lowercase()).then(|| name.to_owned())
    });
    names.filter(|name| name != "help").collect()
}

/// Every command without others below it.
fn leaves(command: &[&str]) -> Vec<String> {
    let inner = below(command);
    if inner.is_empty() {
        return vec![command.join(" ")];
    }
    inner.iter().flat_map(|name| leaves(&[command, &[name.as_str()]].concat())).collect()
}

#[test]
fn every_command_that_answers_has_json() {
    let all = leaves(&[]);
    assert!(all.len() > 35, "{all:?}");
    for command in &all {
        let words: Vec<&str> = command.split(' ').collect();
        let help = ferrule(&[&words[..], &["--help"]].concat());
        let has = String::from_utf8_lossy(&help.stdout).contains("--json");
        let without = WITHOUT.iter().any(|(known, _)| known == command);
        assert!(has != without, "`ferrule {command}`: --json {has}");
    }
}

/// The errors of a command that fails, and its exit code.
fn errors(arguments: &[&str]) -> (i32, Vec<Value>) {
    let said = ferrule(arguments);
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let object: Value = serde_json::from_str(&text)
        .unwrap_or_else(|e| panic!("{arguments:?}: {e}\n{text}{:?}", said.stderr));
    assert_eq!(object["exit"], said.status.code().expect("an exit code"), "{arguments:?}");
    let errors = object["errors"].as_array().expect("a list").clone();
    assert!(!errors.is_empty(), "{arguments:?}");
    for error in &errors {
        for key in ["file", "line", "column", "what", "remedy"] {
            assert!(error.get(key).is_some(), "{arguments:?}: no {key}: {error}");
        }
        assert_ne!(error["what"], "", "{arguments:?}");
    }
    (said.status.code().unwrap_or_default(), errors)
}

#[test]
fn errors_are_objects_with_file_line_what_and_remedy() {
    let folder = std::env::temp_dir().join(format!("ferrule-json-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("bad.toml");
    std::fs::write(&path, "[node]\nname = \"n\"\nnmae = 1\n[[port]]\nmtu = 3\n").expect("written");
    let bad = path.to_str().expect("text");
    for command in [vec!["check"], vec!["run"], vec!["apply"], vec!["state", "create"]] {
        let (exit, errors) = errors(&[&command[..], &[bad, "--json"]].concat());
        assert_eq!(exit, 2, "{command:?}");
        assert_eq!((&errors[0]["file"], &errors[0]["line"]), (&bad.into(), &3.into()));
        assert!(errors.len() > 1, "all at once: {errors:?}");
    }
    std::fs::remove_dir_all(&folder).expect("removed");
    let socket = ["--socket", "/no/such.sock", "--json"];
    for command in [&["show", "ports"][..], &["stop"], &["card", "reset", "x"], &["trace"]] {
        let (exit, errors) = errors(&[command, &socket].concat());
        assert_eq!(exit, 3, "{command:?}");
        assert!(errors[0]["remedy"].as_str().is_some_and(|r| !r.is_empty()), "{command:?}");
    }
    for (command, exit) in [
        (&["overhead", "--json", "esp no-such-suite"][..], 2),
        (&["lab", "run", "no-such-topology", "--json"], 2),
        (&["lab", "down", "no-such-lab", "--json"], 1),
        (&["study", "no-such-study", "--json"], 2),
        (&["init", "key", "no-such-suite", "x.key", "--json"], 2),
        (&["token", "show", "/no/such.toml", "x", "--json"], 3),
        (&["rekey", "/no/a.toml", "/no/b.toml", "--json"], 3),
        (&["show", "no-such-table", "--json"], 2),
        (&["no-such-command", "--json"], 2),
    ] {
        assert_eq!(errors(command).0, exit, "{command:?}");
    }
}

#[test]
fn answers_are_objects() {
    let folder = std::env::temp_dir().join(format!("ferrule-answers-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let place = folder.to_str().expect("text");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrule"));
    command.args(["init", "gateway", "--pair", "--json", "--dir", place]);
    let done =
        command.env("FERRULE_USED_KEYS", folder.join("used-keys")).output().expect("it runs");
    let told: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(told["wrote"].as_array().map(Vec::len), Some(4), "{told}");
    let (a, b) = (format!("{place}/gw-a.toml"), format!("{place}/gw-b.toml"));
    let checked = ferrule(&["check", "--only-file", "--json", &a]);
    let told: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    assert_eq!((&told["accepted"], &told["node"]), (&true.into(), &"gw-a".into()), "{told}");
    let planned = ferrule(&["rekey", &a, &b, "--json"]);
    let told: Value = serde_json::from_slice(&planned.stdout).expect("JSON");
    assert_eq!(told["steps"].as_array().map(Vec::len), Some(3), "{told}");
    for step in told["steps"].as_array().into_iter().flatten() {
        for command in step["commands"].as_array().into_iter().flatten() {
            let file = command["file"].as_str().expect("a file");
            let checked = ferrule(&["check", "--only-file", file]);
            assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        }
    }
    std::fs::remove_dir_all(&folder).expect("removed");
}
