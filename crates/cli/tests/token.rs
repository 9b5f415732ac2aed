//! `ferrule token`: keys come to a token wrapped, whatever octets they are. Where
//! SoftHSM is not installed (Debian: softhsm2) what needs it says so and does nothing.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const MODULES: [&str; 3] = [
    "/usr/lib/softhsm/libsofthsm2.so",
    "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
    "/usr/lib64/pkcs11/libsofthsm2.so",
];
const PIN: &str = "48151623";

/// A token with its configuration, in a folder that goes with the test.
struct Token(PathBuf);

impl Token {
    fn new(name: &str) -> Option<Self> {
        let Some(module) = MODULES.into_iter().find(|path| Path::new(path).exists()) else {
            eprintln!("no SoftHSM here: install softhsm2");
            return None;
        };
        let token = Self::folder(name);
        fs::create_dir(token.path("tokens")).unwrap();
        let tokens = token.path("tokens");
        let text = format!("directories.tokendir = {}\nlog.level = ERROR\n", tokens.display());
        fs::write(token.path("softhsm2.conf"), text).unwrap();
        token.private("pin", PIN.as_bytes());
        let text = format!("[token]\nmodule = \"{module}\"\ntoken = \"t\"\npin-file = \"pin\"\n");
        fs::write(token.path("gw.toml"), text).unwrap();
        let mut make = Command::new("softhsm2-util");
        make.args(["--init-token", "--free", "--label", "t", "--so-pin", PIN, "--pin", PIN]);
        let made = make.env("SOFTHSM2_CONF", token.path("softhsm2.conf")).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Some(token)
    }

    fn folder(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("ferrule-token-cli-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn private(&self, name: &str, octets: &[u8]) {
        fs::write(self.path(name), octets).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn run(&self, words: &[&str], input: &[u8]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferrule"));
        command.arg("token").args(words).current_dir(&self.0);
        command.env("SOFTHSM2_CONF", self.path("softhsm2.conf"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        // A command that does not read its input may have ended.
        let _ = child.stdin.take().expect("a pipe").write_all(input);
        child.wait_with_output().expect("it ends")
    }

    fn done(&self, words: &[&str], input: &[u8]) -> String {
        let output = self.run(words, input);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8(output.stdout).expect("text")
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The last word: the key's name.
fn name(said: &str) -> &str {
    said.split_whitespace().last().unwrap_or_default()
}

#[test]
fn keys_with_octets_of_zero_come_to_the_token_wrapped_and_whole() {
    let Some(token) = Token::new("zeros") else { return };
    let public = token.done(&["pair", "gw.toml", "pair"], &[]);
    fs::write(token.path("pair.pem"), public).unwrap();
    let kek = [0, 9, 0, 0, 5, 6, 7, 8, 0, 1, 2, 3, 4, 5, 6, 0];
    token.private("kek", &kek);
    token.done(&["wrap", "kek", "--with", "pair.pem", "--wrapped", "kek.w"], &[]);
    let as_kek = ["import", "gw.toml", "kek", "--unwraps", "--with", "pair", "--wrapped", "kek.w"];
    token.done(&[&as_kek[..], &["--keep-pair"]].concat(), &[]);
    let mut keys: Vec<Vec<u8>> = vec![vec![0; 16], vec![0; 32]];
    for at in [0, 1, 7, 15] {
        let mut key: Vec<u8> = (0x20..0x30).collect();
        key[at] = 0;
        keys.push(key);
    }
    let mut names = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        let bits = (8 * key.len()).to_string();
        for (by, with, on_token) in [("rsa-oaep", "pair.pem", "pair"), ("aes-kw", "kek", "kek")] {
            let (label, file) = (format!("{by}-{at}"), format!("{by}-{at}.w"));
            // By a pipe once, from a file once; never as a word.
            token.private("key", key);
            let from = if by == "aes-kw" { "key" } else { "-" };
            let wrap = ["wrap", from, "--by", by, "--with", with, "--wrapped", &file];
            let ours = token.done(&wrap, key);
            let import = ["import", "gw.toml", &label, "--by", by, "--with", on_token];
            let theirs = token.done(
                &[&import[..], &["--wrapped", &file, "--bits", &bits, "--keep-pair"]].concat(),
                &[],
            );
            assert_eq!(name(&ours), name(&theirs), "{label}: the whole key is there");
            names.push(name(&theirs).to_owned());
        }
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), keys.len(), "none was cut to another");
}

#[test]
fn token_wrap_takes_no_key_that_others_may_read_and_says_nothing_of_it() {
    let token = Token::folder("private");
    token.private("kek", &[7; 16]);
    let key = b"cipher 31415926535897932384626433832795\n";
    fs::write(token.path("open.key"), key).unwrap();
    fs::set_permissions(token.path("open.key"), fs::Permissions::from_mode(0o644)).unwrap();
    let words = ["--by", "aes-kw", "--with", "kek", "--wrapped", "w"];
    let refused = token.run(&[&["wrap", "open.key"], &words[..]].concat(), &[]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("chmod 600"), "{said}");
    assert!(!token.path("w").exists());
    token.private("key", key);
    let said = token.done(&[&["wrap", "key"], &words[..]].concat(), &[]);
    assert!(said.starts_with("AES-128  ") && !said.contains("3141"), "{said}");
    assert_eq!(fs::read(token.path("w")).unwrap().len(), 24);
    let again = token.run(&[&["wrap", "key"], &words[..]].concat(), &[]);
    assert!(!again.status.success(), "what is there is not written over");
}

#[test]
fn a_pair_made_for_an_import_is_destroyed_by_it_unless_it_is_to_be_kept() {
    let Some(token) = Token::new("pair") else { return };
    token.private("key", &[0x99; 32]);
    fs::write(token.path("p.pem"), token.done(&["pair", "gw.toml", "p"], &[])).unwrap();
    token.done(&["wrap", "key", "--with", "p.pem", "--wrapped", "w"], &[]);
    let import = |label, more: &[&str]| {
        let words = ["import", "gw.toml", label, "--with", "p", "--wrapped", "w"];
        token.run(&[&words[..], more].concat(), &[])
    };
    let said = |output: Output| String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(import("one", &["--bits", "256", "--keep-pair"]).status.success());
    assert!(import("two", &["--bits", "256"]).status.success(), "the pair was kept");
    let gone = said(import("three", &["--bits", "256"]));
    assert!(gone.contains("`p`"), "{gone}");
    let again = token.done(&["pair", "gw.toml", "p"], &[]);
    assert!(again.contains("BEGIN PUBLIC KEY"), "no half of it is left");
}

#[test]
fn a_key_of_256_bits_is_not_used_as_one_of_128_and_an_absent_one_is_said_to_be() {
    let Some(token) = Token::new("bits") else { return };
    token.private("key", &[0x99; 32]);
    fs::write(token.path("p.pem"), token.done(&["pair", "gw.toml", "p"], &[])).unwrap();
    token.done(&["wrap", "key", "--with", "p.pem", "--wrapped", "w"], &[]);
    let words = ["import", "gw.toml", "long", "--with", "p", "--wrapped", "w", "--bits"];
    let said = |output: Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let short = said(token.run(&[&words[..], &["128"]].concat(), &[]));
    assert!(short.contains("`long` has 256 bits, 128 are needed"), "{short}");
    token.done(&[&words[..], &["256"]].concat(), &[]);
    let wrong = said(token.run(&["show", "gw.toml", "long", "--bits", "128"], &[]));
    assert!(wrong.contains("`long` has 256 bits, 128 are needed"), "{wrong}");
    let none = said(token.run(&["show", "gw.toml", "nine"], &[]));
    assert!(none.contains("no AES key `nine`"), "{none}");
}
