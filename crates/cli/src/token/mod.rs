//! `ferrule token`: how keys come to the token of a configuration.

pub mod pem;
mod wrap;

use crate::answer::Form;
use clap::{Args, Subcommand, ValueEnum};
use ferrule_base::Secret;
use ferrule_crypto::Aes;
use ferrule_daemon::token::{self, Problem};
use ferrule_daemon::{Blame, Fault};
use ferrule_engines::token::Pkcs11Token;
use ferrule_engines::token::provision::{Purpose, Wrapping};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bring keys to the token of a configuration; no key is ever in a file there.
///
/// Wrapped: the token makes a pair, the peer's owner encrypts the key with its
/// public half (RSA-OAEP with SHA-1), the token unwraps it.
///
///   ferrule token pair gw.toml from-hq >from-hq.pem
///   ferrule token wrap key.bin --with from-hq.pem --wrapped key.wrapped   # where the key is
///   ferrule token import gw.toml hq-in --with from-hq --wrapped key.wrapped
///
/// `wrap` and `import` print the same name, if it is the same key. The pair is
/// destroyed then; `--keep-pair` keeps it for more keys.
///
/// Many keys: a key that unwraps is brought once like that, the others under it
/// (AES key wrap, RFC 3394).
///
///   ferrule token import gw.toml kek --unwraps --bits 256 --with from-hq --wrapped kek.wrapped
///   ferrule token wrap key.bin --by aes-kw --with kek.bin --wrapped key.wrapped
///   ferrule token import gw.toml hq-in --by aes-kw --with kek --wrapped key.wrapped
///
/// Agreed: two tokens each make a pair on P-256, and derive the same key.
///
///   ferrule token pair gw.toml mine --agree >mine.hex     # bring it to the peer
///   ferrule token agree gw.toml hq-in --with mine --peer theirs.hex
///
/// In the configuration the key is then called key = "token:hq-in".
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct TokenArgs {
    #[command(subcommand)]
    action: Action,
    /// Answer with one JSON object, errors included.
    #[arg(long, global = true)]
    json: bool,
}

/// An answer, for people and for machines.
struct Told {
    text: String,
    object: Value,
}

impl Told {
    /// A key, with half of its name, for two people to compare.
    fn key(label: Option<&str>, bits: &str, name: &Secret) -> Self {
        let half = hex(name.expose().get(..8).unwrap_or_default());
        let place = label.map_or(String::new(), |label| format!("token:{label}  "));
        Self {
            text: format!("{place}AES-{bits}  {half}\n"),
            object: json!({ "label": label, "bits": bits, "name": half }),
        }
    }

    /// The public half of a pair.
    fn public(label: &str, text: String) -> Self {
        let object = json!({ "label": label, "public": text.trim_end() });
        Self { text, object }
    }
}

#[derive(Subcommand)]
enum Action {
    /// Make a pair in the token, and print its public half.
    Pair {
        /// The node's configuration, with a table [token].
        config: PathBuf,
        /// Label for the pair.
        label: String,
        /// For `agree`, not for `import`.
        #[arg(long)]
        agree: bool,
    },
    /// Wrap a key for a token, where the key is: prints its name.
    Wrap(wrap::WrapArgs),
    /// Unwrap a key in the token.
    Import {
        /// The node's configuration, with a table [token].
        config: PathBuf,
        /// Label for the key.
        label: String,
        /// The pair's label; with `--by aes-kw` that of a key on the token.
        #[arg(long)]
        with: String,
        /// The file with the wrapped key.
        #[arg(long)]
        wrapped: PathBuf,
        /// How it was wrapped.
        #[arg(long, value_enum, default_value = "rsa-oaep")]
        by: By,
        /// The pair stays on the token, for more keys; otherwise it is destroyed.
        #[arg(long)]
        keep_pair: bool,
        /// The key is no traffic key, but unwraps others for `--by aes-kw`.
        #[arg(long)]
        unwraps: bool,
        /// Bits of the key.
        #[arg(long, default_value = "128", value_parser = ["128", "256"])]
        bits: String,
    },
    /// Derive a key in the token from our pair and the peer's public half.
    Agree {
        /// The node's configuration, with a table [token].
        config: PathBuf,
        /// Label for the key.
        label: String,
        /// Our pair's label.
        #[arg(long)]
        with: String,
        /// The file with the peer's public half, as `pair --agree` prints it.
        #[arg(long)]
        peer: PathBuf,
        /// Bits of the key.
        #[arg(long, default_value = "128", value_parser = ["128", "256"])]
        bits: String,
    },
    /// Say whether a key is there and can be used, and its name: equal at both ends.
    Show {
        /// The node's configuration, with a table [token].
        config: PathBuf,
        /// Label of the key.
        label: String,
        /// Bits of the key.
        #[arg(long, default_value = "128", value_parser = ["128", "256"])]
        bits: String,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum By {
    RsaOaep,
    AesKw,
}

/// Octets of a wrapped key or a public half at most.
const FILE_MAX: u64 = 4096;

impl TokenArgs {
    /// Runs the command, and prints its error.
    pub fn run(self) -> ExitCode {
        let Self { action, json } = self;
        let form = Form { json };
        crate::live::finish(action.run().map(|told| form.give(told.object, || told.text)))
    }
}

impl Action {
    fn run(self) -> Result<Told, Fault> {
        match self {
            Self::Pair { config, label, agree } => {
                let mut token = open(&config)?;
                if agree {
                    let point = token.make_agreement_pair(&label).problem()?;
                    return Ok(Told::public(&label, hex(&point) + "\n"));
                }
                let public = pem::pem(&token.make_import_pair(&label).problem()?);
                Ok(Told::public(&label, public))
            }
            Self::Wrap(args) => args.run(),
            Self::Import { config, label, with, wrapped, by, keep_pair, unwraps, bits } => {
                let wrapped = read(&wrapped)?;
                let by = match by {
                    By::RsaOaep => Wrapping::RsaOaep,
                    By::AesKw => Wrapping::AesKeyWrap,
                };
                let mut token = open(&config)?;
                let purpose = if unwraps { Purpose::Unwrapping } else { Purpose::Traffic };
                token.import(&label, aes(&bits), purpose, &with, by, &wrapped).problem()?;
                if by == Wrapping::RsaOaep && !keep_pair {
                    token.destroy_pair(&with).problem()?;
                }
                if unwraps {
                    return Ok(Told {
                        text: format!("token:{label}  AES-{bits}  unwraps keys\n"),
                        object: json!({ "label": label, "bits": bits, "unwraps": true }),
                    });
                }
                there(&mut token, &label, &bits)
            }
            Self::Agree { config, label, with, peer, bits } => {
                let text = String::from_utf8_lossy(&read(&peer)?).into_owned();
                let point = Secret::from_hex(&text).map_err(|e| {
                    let remedy = "give the file that `ferrule token pair --agree` made";
                    Fault::new(Blame::Configuration, format!("{}: {e}", peer.display()), remedy)
                })?;
                let mut token = open(&config)?;
                token.agree(&label, aes(&bits), &with, point.expose()).problem()?;
                there(&mut token, &label, &bits)
            }
            Self::Show { config, label, bits } => there(&mut open(&config)?, &label, &bits),
        }
    }
}

/// The key is there.
fn there(token: &mut Pkcs11Token, label: &str, bits: &str) -> Result<Told, Fault> {
    let name = token.identity(label, aes(bits)).problem()?;
    Ok(Told::key(Some(label), bits, &name))
}

fn open(config: &Path) -> Result<Pkcs11Token, Fault> {
    token::of_config(config)
}

fn aes(bits: &str) -> Aes {
    if bits == "256" { Aes::Aes256 } else { Aes::Aes128 }
}

fn read(path: &Path) -> Result<Vec<u8>, Fault> {
    use std::io::Read;
    let mut octets = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(FILE_MAX).read_to_end(&mut octets))
        .map_err(|e| Fault::environment(format!("{}: {e}", path.display()), "check the path"))?;
    Ok(octets)
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}
