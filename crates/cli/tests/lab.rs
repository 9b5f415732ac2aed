//! `ferrule lab`: what a person sees, files that are the same twice, exit codes.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn ferrule(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrule"));
    command.args(args).output().expect("it runs")
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ferrule-lab-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn lab_run_two_gateways_needs_no_privilege_and_gives_verdict_and_tables() {
    let output = ferrule(&["lab", "run", "two-gateways", "--for", "500ms"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for part in [
        "traffic entries arrived whole; every invariant held",
        "ping h1 > h2",
        "gw1 > gw2 (outside)",
        "every packet accounted for",
        "none twice",
        "ferrule lab run two-gateways --seed 1 --for 500ms",
    ] {
        assert!(said.contains(part), "no `{part}` in\n{said}");
    }
}

#[test]
fn lab_run_prints_packets_in_virtual_time_layer_by_layer() {
    let output = ferrule(&["lab", "run", "two-gateways", "--for", "210ms", "--packets"]);
    let said = text(&output);
    let echo = said.lines().find(|line| line.contains("h1 > gw1") && line.contains("echo request"));
    assert!(echo.is_some_and(|line| line.contains("IPv4 10.1.0.2 > 10.2.0.2 ICMP")), "{said}");
    let sealed = said.lines().find(|line| line.contains("gw1 > gw2") && line.contains("ESP spi"));
    let sealed = sealed.unwrap_or_else(|| panic!("nothing sealed in\n{said}"));
    assert!(sealed.trim_start().starts_with("0.0400"), "{sealed}");
}

#[test]
fn lab_run_traces_packets_through_the_stages_of_every_node() {
    let output = ferrule(&["lab", "run", "two-gateways", "--for", "210ms", "--trace", "2"]);
    let said = text(&output);
    let has = |node: &str, place: &str, what: &str| {
        let line = |l: &&str| l.contains(node) && l.contains(place) && l.contains(what);
        assert!(said.lines().any(|l| line(&l)), "no {node} {place} {what} in\n{said}");
    };
    has("gw1", "received lan", "10.1.0.2 > 10.2.0.2");
    has("gw1", "esp-out", "IPv4 10.1.0.2 > 10.2.0.2");
    has("gw2", "esp-in", "ESP spi 0x00001001");
    has("gw2", "transmit", "10.1.0.2 > 10.2.0.2");
}

#[test]
fn lab_run_with_one_seed_gives_the_same_report_and_capture_twice() {
    let folder = Folder::new("twice");
    let run = |seed: &str, name: &str| {
        let capture = format!("p-pe2={}", folder.path(name));
        let output = ferrule(&[
            "lab",
            "run",
            "two-sites",
            "--variant",
            "macsec",
            "--for",
            "300ms",
            "--seed",
            seed,
            "--capture",
            &capture,
            "--json",
        ]);
        assert_eq!(output.status.code(), Some(0));
        let octets = fs::read(folder.path(name)).expect("a capture");
        let said = text(&output).replace(name, "FILE");
        assert!(said.contains("\"schema\": \"ferrule-report/1\""), "{said}");
        (said, octets)
    };
    let (first, again) = (run("5", "a.pcapng"), run("5", "b.pcapng"));
    assert!(first == again, "one seed, two results");
    assert!(first.1.len() > 10_000 && first.1.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]), "pcapng");
    // TCP begins with numbers of the seed.
    assert!(first.1 != run("6", "c.pcapng").1);
}

#[test]
fn lab_list_and_show_name_every_shipped_topology() {
    let list = text(&ferrule(&["lab", "list"]));
    for name in ["two-gateways", "two-sites", "campus", "ten-nodes", "--variant esp-cbc-sha1"] {
        assert!(list.contains(name), "{list}");
    }
    let folder = Folder::new("show");
    let file = folder.path("mine.toml");
    fs::write(&file, ferrule(&["lab", "show", "campus"]).stdout).expect("a file");
    let output = ferrule(&["lab", "run", &file, "--for", "300ms"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let json = text(&ferrule(&["lab", "list", "--json"]));
    assert!(json.contains("\"name\": \"macsec\""), "{json}");
}

#[test]
fn lab_errors_have_a_remedy_and_exit_code_2() {
    let folder = Folder::new("errors");
    let file = folder.path("bad.toml");
    let good = text(&ferrule(&["lab", "show", "two-gateways"]));
    fs::write(&file, good.replace("\"gw1:wan\", ", "\"gv1:wan\", ")).expect("a file");
    let cases: [(&[&str], &str); 5] = [
        (&["lab", "run", "two-gatway"], "did you mean `two-gateways`?"),
        (&["lab", "run", &file], "bad.toml:"),
        (&["lab", "run", "two-sites", "--variant", "macsce"], "did you mean `macsec`?"),
        (&["lab", "run", "campus", "--capture", "x=y"], "there are h1-sw1"),
        (&["lab", "run", "campus", "--for", "5"], "write it as 250us"),
    ];
    for (args, remedy) in cases {
        let output = ferrule(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(remedy), "{args:?}: {said}");
    }
}

/// Anyone can compute a key of the laboratory: no live node may have one, not even if a file of
/// that name lies there.
#[test]
fn lab_keys_are_refused_by_run_and_check() {
    let folder = Folder::new("keys");
    let dir = folder.0.display().to_string();
    let made = ferrule(&["init", "gateway", "--dir", &dir, "--pair", "--name", "ga"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let file = folder.path("ga.toml");
    let good = fs::read_to_string(&file).expect("a configuration");
    let key = good.lines().find_map(|l| l.trim().strip_prefix("key = \"")?.split('"').next());
    let key = key.expect("a key").to_owned();
    let name = "lab:word";
    fs::copy(folder.path(&key), folder.path(name)).expect("a file of that name");
    fs::write(&file, good.replacen(&key, name, 1)).expect("the configuration");
    for command in ["run", "check"] {
        let output = ferrule(&[command, &file]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("exists in the laboratory alone"), "{said}");
        assert!(said.contains("name a key file") && said.contains("ga.toml:"), "{said}");
    }
}
