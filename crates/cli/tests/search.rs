//! `ferrule lab run --check` as a process: what it finds, writes down and repeats.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Two bridges with a cable between them that is said to be untrusted, and
/// nothing that protects it.
const CLEAR: &str = r#"
name = "clear"
about = "a payload in clear on an untrusted cable"
[host.h1]
address = ["10.0.0.1/24"]
[host.h2]
address = ["10.0.0.2/24"]
[node.one]
config = "bridge.toml"
[node.two]
config = "bridge.toml"
[[link]]
ends = ["h1", "one:lan"]
[[link]]
ends = ["one:wan", "two:wan"]
outside = true
[[link]]
ends = ["two:lan", "h2"]
[[traffic]]
kind = "udp"
from = "h1"
to = "h2"
rate = "1000pps"
size = 200
[[traffic]]
kind = "ping"
from = "h2"
to = "h1"
every = "5ms"
"#;

const BRIDGE: &str = r#"
port = [{ name = "lan" }, { name = "wan" }]
bridge = [{ name = "br", member = [{ port = "lan" }, { port = "wan" }] }]
"#;

fn ferrule(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrule"));
    command.current_dir(folder).args(["lab", "run"]).args(arguments);
    command.output().expect("the command runs")
}

fn text(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).expect("UTF-8")
}

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[test]
fn check_exits_0_where_every_promise_holds_and_counts_what_it_looked_at() {
    let folder = folder("search-holds");
    let arguments = ["ten-nodes", "--check", "--seeds", "4", "--send-for", "60ms"];
    let output = ferrule(&folder, &arguments);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{out}{}", text(&output.stderr));
    assert!(out.starts_with("ten-nodes: every promise holds under 4 seeds\n"), "{out}");
    assert!(out.contains("               40  inbound SAs compared"), "{out}");
    assert!(output.stderr.is_empty() && !out.contains('\u{1b}'), "no progress in a pipe");
    assert_eq!(fs::read_dir(&folder).expect("it is there").count(), 0, "nothing to record");
}

#[test]
fn check_exits_1_with_a_recording_that_lab_run_repeats() {
    let folder = folder("search-finds");
    fs::write(folder.join("clear.toml"), CLEAR).expect("written");
    fs::write(folder.join("bridge.toml"), BRIDGE).expect("written");
    let options = ["--check", "--seeds", "50", "--send-for", "40ms", "--jobs", "3"];
    let output = ferrule(&folder, &[&["clear.toml"][..], &options].concat());
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{out}{}", text(&output.stderr));
    assert!(out.starts_with("clear: seed 0 breaks `no-clear-text`\n"), "{out}");
    assert!(out.contains("a host's payload in clear"), "{out}");
    assert!(out.contains("1 of "), "one traffic entry is enough: {out}");

    // The recording stands alone: the topology and its files are in it.
    fs::remove_file(folder.join("clear.toml")).expect("removed");
    fs::remove_file(folder.join("bridge.toml")).expect("removed");
    let recording = folder.join("clear-seed-0/recording.toml");
    let captures = ["h1-one", "one-two", "two-h2"];
    for capture in captures {
        let octets = fs::read(folder.join(format!("clear-seed-0/{capture}.pcapng")));
        let octets = octets.unwrap_or_else(|e| panic!("{capture}: {e}"));
        assert_eq!(octets[..4], [0x0a, 0x0d, 0x0d, 0x0a], "a pcapng file");
        assert!(octets.len() > 300, "with frames in it");
    }
    let again = ferrule(&folder, &["clear-seed-0/recording.toml"]);
    let out = text(&again.stdout);
    assert_eq!(again.status.code(), Some(1), "{out}{}", text(&again.stderr));
    assert!(out.starts_with("the same breaks again\n"), "{out}");

    // Mended, it breaks no more.
    let mended = fs::read_to_string(&recording).expect("it is there");
    fs::write(&recording, mended.replace("outside = true", "outside = false")).expect("written");
    let again = ferrule(&folder, &["clear-seed-0/recording.toml"]);
    assert_eq!(again.status.code(), Some(0));
    assert!(text(&again.stdout).starts_with("nothing breaks any more\n"));
    fs::write(&recording, "[recording]\nversion = 9\n").expect("written");
    let wrong = ferrule(&folder, &["clear-seed-0/recording.toml"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong.stderr));
}

#[test]
fn check_tells_programs_in_json() {
    let folder = folder("search-json");
    fs::write(folder.join("clear.toml"), CLEAR).expect("written");
    fs::write(folder.join("bridge.toml"), BRIDGE).expect("written");
    let options = ["--check", "--seeds", "3", "--send-for", "40ms", "--json"];
    let output = ferrule(&folder, &[&["clear.toml"][..], &options].concat());
    assert_eq!(output.status.code(), Some(1));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["schema"], "ferrule-check/1");
    assert_eq!(value["finding"]["invariant"], "no-clear-text");
    assert_eq!(value["seed"], 0);
    assert!(value["recording"].as_str().is_some_and(|path| path.ends_with("recording.toml")));
}

#[test]
fn check_refuses_options_that_go_nowhere() {
    let folder = folder("search-usage");
    for arguments in [
        &["two-gateways", "--seeds", "5"][..],
        &["two-gateways", "--check", "--send-for", "soon"],
        &["two-gatewys", "--check"],
    ] {
        let output = ferrule(&folder, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}
