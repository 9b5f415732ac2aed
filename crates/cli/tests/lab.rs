//! `ferrule lab`: what a person sees, files that are the same twice, exit codes.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

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
    let output = ferrule(&["lab", "run", "two-gateways", "--for", "1300ms"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for part in [
        "all 4 traffic entries arrived whole; every invariant held",
        "ping h1 > h2",
        "gw1 > gw2 (outside)",
        "every packet accounted for",
        "none twice",
        "ferrule lab run two-gateways --seed 1 --for 1300ms",
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
            "600ms",
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
    let output = ferrule(&["lab", "run", &file, "--for", "1300ms"]);
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

/// A host on each side of a cable with `link`, and `traffic` from one to the other.
fn cable(folder: &Folder, link: &str, traffic: &str) -> String {
    let file = folder.path("cable.toml");
    let text = format!(
        r#"
name = "cable"
about = "two hosts"
for = "1200ms"
[host.h1]
address = ["10.0.0.1/24"]
[host.h2]
address = ["10.0.0.2/24"]
[[link]]
ends = ["h1", "h2"]
{link}
[[traffic]]
from = "h1"
to = "h2"
{traffic}
"#
    );
    fs::write(&file, text).expect("a file");
    file
}

/// The first row of a table that begins with `name`, in words.
fn row<'a>(said: &'a str, name: &str) -> Vec<&'a str> {
    let line = said.lines().find(|line| line.trim_start().starts_with(name));
    line.unwrap_or_else(|| panic!("no {name} in\n{said}")).split_whitespace().collect()
}

#[test]
fn lab_run_in_which_nothing_is_sent_is_no_success() {
    let output = ferrule(&["lab", "run", "two-gateways", "--for", "100ms"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("0 of 4 traffic entries arrived whole, 4 entries sent nothing"),
        "{said}"
    );
    let output = ferrule(&["lab", "run", "two-gateways", "--for", "300ms"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("3 of 4 traffic entries arrived whole, 1 entry sent nothing"), "{said}");
    assert!(said.contains("Sent nothing: ping6 h2 > h1"), "{said}");
}

#[test]
fn lab_run_tells_copies_from_losses() {
    let folder = Folder::new("copies");
    let file = cable(&folder, "duplicate = \"50%\"", "kind = \"udp\"");
    let output = ferrule(&["lab", "run", &file]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("0 of 1 traffic entries arrived whole, 1 with copies;"), "{said}");
}

#[test]
fn lab_run_shows_the_rate_that_was_sent_and_no_line_above_its_own() {
    let folder = Folder::new("rates");
    let traffic = "kind = \"udp\"\nrate = \"1000pps\"\ncount = 7";
    let said = text(&ferrule(&["lab", "run", &cable(&folder, "", traffic)]));
    assert_eq!(row(&said, "udp h1 > h2").last(), Some(&"8.0"), "{said}");
    let traffic = "kind = \"udp\"\nrate = \"20Mbit/s\"\nsize = 1000";
    let file = cable(&folder, "rate = \"10Mbit/s\"\nqueue = 10000", traffic);
    let said = text(&ferrule(&["lab", "run", &file]));
    let load = row(&said, "h1 > h2").last().and_then(|text| text.parse::<f64>().ok());
    assert!(load.is_some_and(|load| load > 80.0 && load <= 100.0), "{load:?} in\n{said}");
}

#[test]
fn lab_run_refuses_what_means_nothing_to_a_search() {
    let folder = Folder::new("search");
    let capture = format!("h1-gw1={}", folder.path("a.pcapng"));
    let refused: [&[&str]; 9] = [
        &["--seed", "7"],
        &["--packets"],
        &["--trace"],
        &["--web"],
        &["--capture", &capture],
        &["--report", "page.html"],
        &["--for", "1s", "--send-for", "1s"],
        &["--seeds", "0"],
        &["--seeds", "3", "--first-seed", "18446744073709551615"],
    ];
    for args in refused {
        let output = ferrule(&[&["lab", "run", "two-gateways", "--check"], args].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(args[0]) || said.contains("--first-seed"), "{args:?}: {said}");
    }
    let wrong =
        ferrule(&["lab", "run", "two-gateways", "--check", "--seeds", "1", "--for", "soon"]);
    assert_eq!(wrong.status.code(), Some(2));
    let whole =
        ferrule(&["lab", "run", "two-gateways", "--check", "--seeds", "1", "--for", "40ms"]);
    let short = ["lab", "run", "two-gateways", "--check", "--seeds", "1", "--send-for", "40ms"];
    let counts = |output: &Output| text(output).lines().skip(2).take(3).collect::<String>();
    assert_eq!(counts(&whole), counts(&ferrule(&short)), "--for is for how long hosts send");
}

#[test]
fn lab_run_captures_every_link_into_a_file_of_its_own() {
    let folder = Folder::new("one-file");
    let file = folder.path("z.pcapng");
    let other = folder.path("./z.pcapng");
    let (one, two) = (format!("gw1-gw2={file}"), format!("h1-gw1={other}"));
    let output = ferrule(&["lab", "run", "two-gateways", "--capture", &one, "--capture", &two]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("captured into {other}")), "{said}");
}

#[test]
fn lab_run_that_is_stopped_gives_what_it_has_and_exit_code_3() {
    let folder = Folder::new("stopped");
    let file = folder.path("cut.pcapng");
    let capture = format!("gw1-gw2={file}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrule"));
    command.args(["lab", "run", "two-gateways", "--for", "3600s", "--capture", &capture]);
    let child = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let id = child.id().to_string();
    // It takes SIGINT from a certain time on.
    for _ in 0..1000 {
        let status = fs::read_to_string(format!("/proc/{id}/status")).expect("a process");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
        if caught.is_some_and(|signals| signals & 2 != 0) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let sent = Command::new("kill").args(["-INT", &id]).status().expect("kill");
    assert!(sent.success());
    let output = child.wait_with_output().expect("it ends");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("stopped at ") && said.contains("partial"), "{said}");
    assert!(fs::read(&file).is_ok_and(|octets| octets.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a])));
}

#[test]
fn answers_that_cannot_be_written_are_no_success() {
    let commands: [&[&str]; 8] = [
        &["lab", "run", "two-gateways", "--for", "1300ms", "--json"],
        &["lab", "run", "two-gateways", "--for", "1300ms", "--packets"],
        &["lab", "list"],
        &["lab", "run", "two-gateways", "--check", "--seeds", "1", "--json"],
        &["overhead", "--json"],
        &["config", "schema"],
        &["study", "list"],
        &["--help"],
    ];
    for args in commands {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferrule"));
        let output = command.args(args).stdout(full).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{args:?}: {said}");
        assert_eq!(said.matches("error: standard output: No space left").count(), 1, "{said}");
    }
    // A reader that went away is no failure.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrule"));
    let output = command.args(["lab", "list"]).stdout(writer).output().expect("it runs");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn lab_run_says_once_that_an_address_is_taken() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let output = ferrule(&["lab", "run", "two-gateways", "--web", &address]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.starts_with(&format!("error: --web {address}: ")), "{said}");
    assert_eq!(said.matches("error").count() - said.matches("os error").count(), 1, "{said}");
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
