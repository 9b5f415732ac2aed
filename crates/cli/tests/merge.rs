//! `--shard` and `ferrule merge`: parts make the same report as one run; and what is stopped
//! before its end says what it has.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Neither a build with checks nor a busy machine is as slow as this.
const PATIENCE: Duration = Duration::from_secs(240);

fn ferrule(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrule"));
    command.args(words).current_dir(env!("CARGO_TARGET_TMPDIR"));
    command
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// The parts of a command, each in a file.
fn parts(folder: &Path, words: &[&str], count: usize) -> Vec<String> {
    let part = |index: usize| {
        let shard = format!("{index}/{count}");
        let output = ferrule(&[words, &["--shard", &shard]].concat()).output().expect("it runs");
        let file = folder.join(format!("{index}.json"));
        assert!(!output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::write(&file, &output.stdout).expect("a file");
        file.display().to_string()
    };
    (0..count).map(part).collect()
}

fn merged(files: &[String], more: &[&str]) -> Output {
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    ferrule(&[&["merge"], &files[..], more].concat()).output().expect("it runs")
}

/// Everything but when it was, which of these is the program's path, and `--json`, which
/// went to the parts.
fn compared(text: &str) -> serde_json::Value {
    let mut value: serde_json::Value = serde_json::from_str(text).expect("JSON");
    let report = value["report"].as_object_mut().expect("a report");
    report.remove("date");
    let command = report.remove("command").expect("a command");
    let command = command.as_str().expect("text").split_once(" test ").expect("a test").1;
    assert!(!command.contains("shard"), "{command}");
    value
}

#[test]
fn merged_tests_are_the_report_of_one_run() {
    let folder = folder("merge-test");
    let lab = ["--lab", "two-gateways", "--drain", "20ms", "--json", "--quick"];
    let throughput = "test throughput --size 64 --size 512 --size 1280 --size 1518 --duration 10ms \
                      --max 300kpps --resolution 10%";
    let latency = "test latency --size 64 --size imix --size 64-512/64 --duration 10ms --both-ways \
                   --at 50kpps";
    let mlrsearch = "test mlrsearch --size 256 --size 1518 --duration 10ms --max 300kpps \
                     --resolution 10%";
    let [throughput, latency, mlrsearch] =
        [throughput, latency, mlrsearch].map(|words| words.split_whitespace().collect::<Vec<_>>());
    for words in [&throughput[..], &latency[..], &mlrsearch[..]] {
        let words = [words, &lab[..]].concat();
        let whole = ferrule(&words).output().expect("it runs");
        let files = parts(&folder, &words, 3);
        let all = merged(&files, &["--json"]);
        assert_eq!(
            all.status.code(),
            whole.status.code(),
            "{}",
            String::from_utf8_lossy(&all.stderr)
        );
        assert_eq!(compared(&said(&all)), compared(&said(&whole)), "{words:?}");
        // The order of the files is none of the work's.
        let mixed: Vec<String> = files.iter().rev().cloned().collect();
        assert_eq!(compared(&said(&merged(&mixed, &["--json"]))), compared(&said(&whole)));
        let missing = merged(&files[..2], &["--json"]);
        assert_eq!(missing.status.code(), Some(2));
        let text = said(&missing);
        assert!(text.contains("part 2/3 is missing"), "{text}");
    }
}

#[test]
fn merged_searches_are_the_report_of_one_search() {
    let folder = folder("merge-search");
    let words = [
        "lab",
        "run",
        "two-gateways",
        "--check",
        "--seeds",
        "10",
        "--first-seed",
        "3",
        "--send-for",
        "20ms",
        "--json",
    ];
    let whole = ferrule(&words).output().expect("it runs");
    assert_eq!(whole.status.code(), Some(0), "{}", said(&whole));
    let files = parts(&folder, &words, 4);
    let all = merged(&files, &["--json"]);
    assert_eq!((said(&all), all.status.code()), (said(&whole), Some(0)));
    let text = said(&merged(&files, &[]));
    assert!(text.starts_with("two-gateways: every promise holds under 10 seeds\n"), "{text}");
}

#[test]
fn merged_parts_of_other_work_are_refused_with_what_is_wrong() {
    let folder = folder("merge-refused");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let other = file("other.json", "{\"schema\":\"something\"}");
    let broken = file("broken.json", "{");
    let search = file("search.json", "{\"schema\":\"ferrule-check/1\",\"topology\":1}");
    for (files, said) in [
        (vec![other.clone()], "is no part of anything"),
        (vec![broken], "broken.json: EOF"),
        (vec![search.clone(), other], "is of another kind than"),
        (vec![search], "search.json: invalid type"),
        (vec![folder.join("none.json").display().to_string()], "none.json: No such file"),
    ] {
        let output = merged(&files, &[]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(said), "{files:?}: {text}");
        assert_eq!(output.status.code(), Some(2), "{text}");
    }
    for (words, said) in [
        (&["study", "toe-ipsec", "--json", "--shard", "0/2"][..], "a study is not divided"),
        (&["study", "all", "--json", "--shard", "2/2"], "`2/2` is no part"),
        (&["test", "loss", "--lab", "campus", "--shard", "0/2"], "--json"),
    ] {
        let output = ferrule(words).output().expect("it runs");
        // With `--json` errors are the answer.
        let said_at = if words.contains(&"--json") { &output.stdout } else { &output.stderr };
        let text = String::from_utf8_lossy(said_at).into_owned();
        assert!(text.contains(said) && output.status.code() == Some(2), "{words:?}: {text}");
    }
}

/// Lets a command run for a while, interrupts it, and waits.
fn interrupted(words: &[&str], after: Duration) -> (Option<i32>, String) {
    let mut command = ferrule(words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs");
    std::thread::sleep(after);
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill").success());
    finished(child)
}

fn finished(mut child: Child) -> (Option<i32>, String) {
    let mut out = child.stdout.take().expect("its output");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    let begun = Instant::now();
    while child.try_wait().expect("a status").is_none() {
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let status = child.wait().expect("a status");
    (status.code(), reader.join().expect("a reader").expect("UTF-8"))
}

#[test]
fn a_search_by_seed_that_is_interrupted_says_what_it_has() {
    let words = [
        "lab",
        "run",
        "two-gateways",
        "--check",
        "--seeds",
        "100000000",
        "--send-for",
        "5ms",
        "--json",
    ];
    let (code, text) = interrupted(&words, Duration::from_secs(4));
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((code, &value["partial"]), (Some(3), &true.into()), "{text}");
    let seeds = value["score"]["seeds"].as_u64().expect("a count");
    assert!(seeds > 0 && value["holds"] == true, "{text}");
    let (code, text) = interrupted(&words[..words.len() - 1], Duration::from_secs(4));
    assert_eq!(code, Some(3));
    assert!(text.contains("stopped: every promise holds under"), "{text}");
}

#[test]
fn a_test_that_is_interrupted_says_what_it_has() {
    let lab = ["--lab", "two-gateways", "--size", "64", "--json", "--drain", "50ms"];
    let forever = ["--duration", "100000s"];
    // A search with many repeats, and one trial that never ends.
    let throughput = [
        "test",
        "throughput",
        "--duration",
        "10ms",
        "--confirm",
        "0s",
        "--repeats",
        "1000",
        "--resolution",
        "10%",
    ];
    let mlrsearch = ["test", "mlrsearch", "--duration", "10ms", "--sum", "1000s"];
    let soak = ["test", "soak", "--at", "1kpps"];
    for words in [&throughput[..], &mlrsearch, &[&soak[..], &forever].concat()] {
        let words = [words, &lab[..]].concat();
        let (code, text) = interrupted(&words, Duration::from_secs(5));
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let report = &value["report"];
        assert_eq!((code, &report["partial"]), (Some(3), &true.into()), "{words:?}: {text}");
        let answer = report["answer"].as_str().expect("an answer");
        assert!(answer.starts_with("Stopped before the end. "), "{answer}");
        assert!(text.contains("\"value\""), "numbers: {text}");
    }
}
