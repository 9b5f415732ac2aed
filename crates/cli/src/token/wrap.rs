//! `ferrule token wrap`: what is done where the key is, so that it can be brought to
//! a token. Needs neither the token nor its configuration.

use super::{By, FILE_MAX, Told, pem, read};
use clap::Args;
use ferrule_base::Secret;
use ferrule_daemon::load::private_file;
use ferrule_daemon::token::Problem;
use ferrule_daemon::{Blame, Fault};
use ferrule_engines::token::wrap::{self, Wrapper};
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The first word of a key's line in a key file.
const CIPHER: &str = "cipher";

#[derive(Args)]
pub struct WrapArgs {
    /// The key: a file of 16 or 32 octets, or a key file with a line `cipher`; `-` reads
    /// it from the standard input.
    key: PathBuf,
    /// The file with the public half of the token's pair; with `--by aes-kw` the file
    /// with the key-encryption key.
    #[arg(long)]
    with: PathBuf,
    /// How it is wrapped, as `import` is told.
    #[arg(long, value_enum, default_value = "rsa-oaep")]
    by: By,
    /// The file that is written, for `import`.
    #[arg(long)]
    wrapped: PathBuf,
}

impl WrapArgs {
    pub(super) fn run(self) -> Result<Told, Fault> {
        let key = key_at(&self.key)?;
        let wrapped = match self.by {
            By::RsaOaep => {
                let text = String::from_utf8_lossy(&read(&self.with)?).into_owned();
                let der = pem::der(&text).ok_or_else(|| {
                    let what = format!("{}: no public key", self.with.display());
                    wrong(&what, "give the file that `ferrule token pair` printed")
                })?;
                wrap::wrap(&key, &Wrapper::Public(&der))
            }
            By::AesKw => wrap::wrap(&key, &Wrapper::Kek(&key_at(&self.with)?)),
        };
        write(&self.wrapped, &wrapped.problem()?)?;
        let name = wrap::name(&key).problem()?;
        Ok(Told::key(None, &(8 * key.len()).to_string(), &name))
    }
}

fn wrong(what: &str, remedy: &str) -> Fault {
    Fault::new(Blame::Configuration, what, remedy)
}

/// The key in a file that only its owner may read, or from the standard input.
fn key_at(path: &Path) -> Result<Secret, Fault> {
    if path == Path::new("-") {
        let mut octets = Vec::with_capacity(FILE_MAX as usize);
        let done = io::stdin().lock().take(FILE_MAX).read_to_end(&mut octets);
        let text = Secret::new(octets);
        done.map_err(|e| Fault::environment(format!("standard input: {e}"), "pipe the key in"))?;
        return key_in(&text).map_err(|e| wrong(&format!("standard input: {e}"), REMEDY));
    }
    let text = private_file("key file", path).map_err(|e| {
        let (what, remedy) = e.split_once('\n').unwrap_or((&e, "check the path"));
        Fault::environment(what, remedy)
    })?;
    key_in(&text).map_err(|e| wrong(&format!("{}: {e}", path.display()), REMEDY))
}

const REMEDY: &str = "give 16 or 32 octets, or a key file: `cipher` and hexadecimal digits";

/// The key in octets that are the key, or the text of a key file. What is wrong is
/// said without them.
fn key_in(octets: &Secret) -> Result<Secret, &'static str> {
    let raw = octets.expose();
    // The key of a key file: a line in which `cipher` is the first word.
    let line = raw.split(|c| *c == b'\n').find_map(|line| {
        let rest = line.trim_ascii_start().strip_prefix(CIPHER.as_bytes())?;
        let first = rest.first()?;
        (first.is_ascii_whitespace() || *first == b'=').then_some(rest)
    });
    if let Some(line) = line {
        let line = line.split(|c| *c == b'#').next().unwrap_or_default();
        let line = std::str::from_utf8(line).map_err(|_| "is not text")?;
        let hex = line.trim_start_matches(|c: char| c.is_whitespace() || c == '=');
        return Secret::from_hex(hex);
    }
    // 32 digits are more likely a key of 128 bits than one of 256.
    let text = raw.iter().all(|c| c.is_ascii_hexdigit() || c.is_ascii_whitespace());
    match raw.len() {
        16 | 32 if !text => Ok(octets.clone()),
        _ if text => Err("hexadecimal digits alone"),
        _ => Err("neither a key nor a key file"),
    }
}

fn write(path: &Path, octets: &[u8]) -> Result<(), Fault> {
    let written = OpenOptions::new().write(true).create_new(true).open(path);
    written.and_then(|mut file| file.write_all(octets)).map_err(|e| {
        let remedy = "name a file that is not there yet, in a folder that is";
        Fault::environment(format!("{}: {e}", path.display()), remedy)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(octets: &[u8]) -> Result<Vec<u8>, &'static str> {
        key_in(&Secret::new(octets.to_vec())).map(|key| key.expose().to_vec())
    }

    #[test]
    fn a_key_with_octets_of_zero_is_read_whole_wherever_they_stand() {
        for at in 0..32 {
            let mut key: Vec<u8> = (1..=32).collect();
            key[at] = 0;
            assert_eq!(read(&key), Ok(key));
        }
        assert_eq!(read(&[0; 16]), Ok(vec![0; 16]));
        let with_a_line_end: Vec<u8> = (0..16).collect();
        assert_eq!(read(&with_a_line_end), Ok(with_a_line_end));
    }

    #[test]
    fn a_key_file_gives_its_cipher_key_and_what_could_be_either_is_refused() {
        let file = b"# made\n cipher = 00ff:10 # c\nsalt 01020304\n";
        assert_eq!(read(file), Ok(vec![0, 0xff, 0x10]));
        assert!(read(b"00112233445566778899aabbccddeeff").is_err(), "128 bits as text");
        assert!(read(b"salt 01020304\n").is_err());
        assert!(read(&[7; 17]).is_err());
    }
}
