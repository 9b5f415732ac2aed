//! `ferrule init` as a person runs it, and `ferrule check` over what it wrote.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ferrule-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).expect("a new folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn ferrule(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrule"));
    command.current_dir(folder).args(words).output().expect("it runs")
}

#[test]
fn init_then_check_passes_on_both_sides_of_every_kind() {
    for (kind, names) in
        [("gateway", ["gw-a", "gw-b"]), ("ce", ["ce-a", "ce-b"]), ("pe", ["pe-a", "pe-b"])]
    {
        let folder = Folder::new(&format!("init-{kind}"));
        let said = ferrule(&folder.0, &["init", kind, "--pair"]);
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.status.success(), "{kind}: {}", String::from_utf8_lossy(&said.stderr));
        for name in names {
            assert!(text.contains(&format!("wrote ./{name}.toml")), "{text}");
            let file = format!("{name}.toml");
            let said = ferrule(&folder.0, &["check", "--only-file", &file]);
            let fault = String::from_utf8_lossy(&said.stderr).into_owned();
            assert!(said.status.success(), "{kind} {name}: {fault}");
        }
    }
}

#[test]
fn init_again_is_an_error_of_the_environment_and_changes_nothing() {
    let folder = Folder::new("init-again");
    assert!(ferrule(&folder.0, &["init", "gateway"]).status.success());
    let before = std::fs::read(folder.0.join("gw-a.toml")).expect("written");
    let again = ferrule(&folder.0, &["init", "gateway", "--suite", "aes-gcm-256"]);
    assert_eq!(again.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&again.stderr).contains("--force"));
    assert_eq!(before, std::fs::read(folder.0.join("gw-a.toml")).expect("written"));
    let wrong = ferrule(&folder.0, &["init", "key", "aes-gcm-127", "k"]);
    assert_eq!(wrong.status.code(), Some(2));
}
