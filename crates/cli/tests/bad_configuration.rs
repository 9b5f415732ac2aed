//! Every kind of bad configuration gets one clear error: the file, the line,
//! what is wrong, what helps, and the right exit code.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Change that breaks a configuration, and the error that it must give.
struct Case {
    name: &'static str,
    /// Text of the configuration and what stands in its place.
    change: (&'static str, &'static str),
    /// The line that has to be named is the one with this text.
    line: &'static str,
    what: &'static str,
    remedy: &'static str,
    exit: i32,
}

const CASES: &[Case] = &[
    Case {
        name: "unknown key",
        change: (
            "driver = \"af-packet\"\ndevice = \"lo\"",
            "drivr = \"af-packet\"\ndevice = \"lo\"",
        ),
        line: "drivr",
        what: "unknown field `drivr`",
        remedy: "expected",
        exit: 2,
    },
    Case {
        name: "key of the wrong length",
        change: ("key = \"ga-to-gb.key\"", "key = \"short.key\""),
        line: "short.key",
        what: "`cipher` has 15 octets, 16 are needed",
        remedy: "32 hexadecimal digits",
        exit: 2,
    },
    Case {
        name: "one key for both directions",
        change: ("key = \"gb-to-ga.key\"", "key = \"ga-to-gb.key\""),
        line: "[tunnel.in]+2",
        what: "one key for both directions",
        remedy: "ferrule init key",
        exit: 2,
    },
    Case {
        name: "a replay window smaller than the standards know",
        change: ("suite = \"aes-gcm-128\"", "window = 31\nsuite = \"aes-gcm-128\""),
        line: "window = 31",
        what: "a window of 31 is smaller than any that is allowed",
        remedy: "use 32 or more, or 0",
        exit: 2,
    },
    Case {
        name: "DES, which is for studies",
        change: ("suite = \"aes-gcm-128\"", "suite = \"des-cbc hmac-sha1-96\""),
        line: "des-cbc",
        what: "des-cbc protects nothing today",
        remedy: "use aes-gcm-128; a study sets lab = true in [node]",
        exit: 2,
    },
    Case {
        name: "triple DES",
        change: ("suite = \"aes-gcm-128\"", "suite = \"3des-cbc hmac-sha256-128\""),
        line: "3des-cbc",
        what: "3des-cbc protects nothing today",
        remedy: "use aes-gcm-128",
        exit: 2,
    },
    Case {
        name: "HMAC-MD5 beside a good cipher",
        change: ("suite = \"aes-gcm-128\"", "suite = \"aes-cbc-256 hmac-md5-96\""),
        line: "hmac-md5-96",
        what: "hmac-md5-96 protects nothing today",
        remedy: "use aes-gcm-128",
        exit: 2,
    },
    Case {
        name: "an MTU that cannot fit",
        change: ("suite = \"aes-gcm-128\"", "suite = \"aes-gcm-128\"\nmtu = 1499"),
        line: "mtu = 1499",
        what: "inner packets of 1499 octets do not fit",
        remedy: "use at most",
        exit: 2,
    },
    Case {
        name: "more numbers reserved than a restart may skip",
        change: ("reserve = 1048576", "reserve = 1048577"),
        line: "reserve = 1048577",
        what: "reserve cannot be 1048577",
        remedy: "use a number from 256 to 1048576",
        exit: 2,
    },
    Case {
        name: "missing key file",
        change: ("key = \"ga-to-gb.key\"", "key = \"nowhere.key\""),
        line: "nowhere.key",
        what: "is not there",
        remedy: "ferrule init key",
        exit: 2,
    },
    Case {
        name: "key file that others may read",
        change: ("key = \"ga-to-gb.key\"", "key = \"open.key\""),
        line: "open.key",
        what: "may be read by others (mode 0644)",
        remedy: "chmod 600",
        exit: 2,
    },
    Case {
        name: "missing interface",
        change: ("device = \"lo\"", "device = \"nosuch0\""),
        line: "nosuch0",
        what: "no interface is called \"nosuch0\"",
        remedy: "ip link",
        exit: 3,
    },
    Case {
        name: "missing user",
        change: ("[node]", "[node]\nuser = \"nosuchuser\""),
        line: "nosuchuser",
        what: "no user is `nosuchuser`",
        remedy: "useradd",
        exit: 3,
    },
];

/// A gateway's configuration and keys in a folder of a test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Self::with(name, "aes-gcm-128")
    }

    /// With this suite.
    fn with(name: &str, suite: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ferrule-bad-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        let folder = Self(path);
        let init = folder.ferrule(&[
            "init",
            "gateway",
            "--dir",
            ".",
            "--name",
            "ga",
            "--peer-name",
            "gb",
            "--lan",
            "lan0",
            "--wan",
            "lo",
            "--driver",
            "af-packet",
            "--suite",
            suite,
        ]);
        assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
        // Every machine has `lo`, and few a second device.
        let lan = "driver = \"af-packet\"\ndevice = \"lan0\"";
        folder.write(&folder.text().replacen(lan, "driver = \"wire\"", 1));
        fs::copy(folder.0.join("ga-to-gb.key"), folder.0.join("open.key")).unwrap();
        fs::set_permissions(folder.0.join("open.key"), Permissions::from_mode(0o644)).unwrap();
        let short = format!("cipher {}\nsalt 00112233\n", "5a".repeat(15));
        fs::write(folder.0.join("short.key"), short).unwrap();
        fs::set_permissions(folder.0.join("short.key"), Permissions::from_mode(0o600)).unwrap();
        folder
    }

    fn ferrule(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferrule"));
        command.args(args).current_dir(&self.0).output().unwrap()
    }

    fn text(&self) -> String {
        fs::read_to_string(self.0.join("ga.toml")).unwrap()
    }

    fn write(&self, text: &str) {
        fs::write(self.0.join("ga.toml"), text).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The number of the line with this text (`+n`: so many lines below).
fn line_of(text: &str, mark: &str) -> usize {
    let (mark, below) = mark.split_once('+').unwrap_or((mark, "0"));
    let at = text.lines().position(|l| l.contains(mark));
    at.unwrap_or_else(|| panic!("no line has {mark}")) + 1 + below.parse::<usize>().unwrap()
}

fn check_error(name: &str, output: &Output, at: &str, what: &str, remedy: &str, exit: i32) {
    let error = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(exit), "{name}: {error}");
    assert_eq!(error.matches("error:").count(), 1, "{name}: one error\n{error}");
    assert!(error.starts_with(at), "{name}: not at {at}\n{error}");
    assert!(error.contains(what) && error.contains(remedy), "{name}:\n{error}");
}

#[test]
fn bad_configuration_gets_one_error_with_line_remedy_and_exit_code() {
    let folder = Folder::new("cases");
    let good = folder.text();
    assert!(folder.ferrule(&["state", "create", "ga.toml"]).status.success());
    for case in CASES {
        let (from, to) = case.change;
        assert!(good.contains(from), "{}: {from} is not in\n{good}", case.name);
        let text = good.replacen(from, to, 1);
        folder.write(&text);
        for command in ["check", "run"] {
            let output = folder.ferrule(&[command, "ga.toml"]);
            let at = format!("ga.toml:{}:", line_of(&text, case.line));
            check_error(case.name, &output, &at, case.what, case.remedy, case.exit);
        }
    }
}

/// AES-CTR and GMAC fall with a nonce that comes twice, as GCM does; CBC does not.
#[test]
fn bad_configuration_one_key_for_both_directions_with_every_counter_mode() {
    for (suite, refused) in [
        ("aes-ctr-128 hmac-sha1-96", true),
        ("aes-gmac-256", true),
        ("chacha20-poly1305-iiv", true),
        ("aes-cbc-192 hmac-sha384-192", false),
        ("null hmac-sha512-256", false),
    ] {
        let folder = Folder::with("nonces", suite);
        let text = folder.text().replace("gb-to-ga.key", "ga-to-gb.key");
        folder.write(&text);
        assert!(folder.ferrule(&["state", "create", "ga.toml"]).status.success() != refused);
        let output = folder.ferrule(&["check", "ga.toml"]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(if refused { 2 } else { 0 }), "{suite}: {error}");
        assert_eq!(error.contains("one key for both directions"), refused, "{suite}: {error}");
    }
}

#[test]
fn bad_configuration_two_sas_with_one_spi() {
    let folder = Folder::new("spi");
    let good = folder.text();
    let start = good.find("[[tunnel]]").unwrap();
    let end = good[start..].find("# In order").unwrap() + start;
    let second = good[start..end].replace("site-to-site", "second");
    let text = good.clone() + "\n" + &second;
    folder.write(&text);
    let output = folder.ferrule(&["check", "ga.toml"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("is tunnel `site-to-site`'s already"), "{error}");
    assert!(error.contains("give every inbound SA an SPI of its own"), "{error}");
    let line = text.lines().count() - text.lines().rev().position(|l| l.contains("spi =")).unwrap();
    assert!(error.contains(&format!("ga.toml:{line}:")), "{error}");
}

#[test]
fn bad_configuration_an_inbound_sa_that_is_there_twice() {
    let folder = Folder::new("also-in");
    let good = folder.text();
    let own = &good[good.find("[tunnel.in]").expect("an inbound SA")..];
    let line = |word: &str| own.lines().find(|l| l.starts_with(word)).expect("it is there");
    let value = |word: &str| line(word).split('#').next().unwrap_or_default().trim().to_owned();
    let also = format!("also-in = [{{ {}, {} }}]", value("spi ="), value("key ="));
    let twice = good.replacen("[tunnel.", &format!("{also}\n[tunnel."), 1);
    folder.write(&twice);
    let output = folder.ferrule(&["check", "ga.toml"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains(&format!("ga.toml:{}:", line_of(&twice, "also-in ="))), "{error}");
    assert!(error.contains("give every inbound SA an SPI of its own"), "{error}");
    assert!(error.contains("has one key for two SAs"), "{error}");
}

#[test]
fn bad_configuration_missing_counter_state() {
    let folder = Folder::new("counter");
    let text = folder.text();
    // `init` begins the counters of the keys that it made.
    let _ = fs::remove_dir_all(folder.0.join("ga.state"));
    for command in ["check", "run"] {
        let output = folder.ferrule(&[command, "ga.toml"]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{error}");
        assert!(error.contains("ferrule state create"), "{error}");
    }
    assert!(folder.ferrule(&["state", "create", "ga.toml"]).status.success());
    for entry in fs::read_dir(folder.0.join("ga.state")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some() {
            fs::remove_file(path).unwrap();
        }
    }
    let at = format!("ga.toml:{}:", line_of(&text, "name = \"site-to-site\""));
    for command in ["check", "run"] {
        let output = folder.ferrule(&[command, "ga.toml"]);
        check_error(command, &output, &at, "no counter state for", "ferrule state create", 3);
    }
}

#[test]
fn bad_configuration_no_permission() {
    let folder = Folder::new("permission");
    let text = "[node]\nname = \"plain\"\ncontrol = \"plain.socket\"\n[[port]]\nname = \"a\"\n\
                driver = \"af-packet\"\ndevice = \"lo\"\n";
    folder.write(text);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrule"));
    command.args(["run", "ga.toml"]).current_dir(&folder.0);
    if fs::metadata("/proc/self").map(|m| std::os::unix::fs::MetadataExt::uid(&m)).ok() == Some(0) {
        chown(&folder.0, Some(65534), Some(65534)).unwrap();
        // The program must be within reach of nobody in particular.
        let program = folder.0.join("ferrule");
        // By a process of its own: while a test beside this one forks, no descriptor that
        // writes the program may be open here, or it cannot be run (ETXTBSY).
        let cp = Command::new("cp").arg(env!("CARGO_BIN_EXE_ferrule")).arg(&program).status();
        assert!(cp.unwrap().success());
        command = Command::new(program);
        command.args(["run", "ga.toml"]).current_dir(&folder.0).uid(65534).gid(65534);
    }
    let output = command.output().unwrap();
    check_error("run", &output, "ga.toml:7:", "not permitted", "Start as root", 3);
}

#[test]
fn check_says_what_it_understood() {
    let folder = Folder::new("good");
    let output = folder.ferrule(&["check", "--only-file", "ga.toml"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for part in ["node ga: 1 worker", "port wan: af-packet lo", "tunnel site-to-site", "SPI out 0x"]
    {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}
