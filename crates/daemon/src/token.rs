//! The token of a configuration: its PIN from a file, the name of each key when
//! the configuration is read, and the engine of each worker.

use crate::fault::{Blame, Fault};
use crate::load::private_file;
use ferrule_base::Secret;
use ferrule_crypto::Aes;
use ferrule_engines::placed::Away;
use ferrule_engines::token::{
    Live, Login, Pkcs11Token, Settings, Shared, TokenEngine, TokenError, TokenProfile,
};
use ferrule_node::config::TokenConfig;
use ferrule_pipeline::Packet;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Error of a token as a fault of the machine.
pub trait Problem<T> {
    /// Says what helps.
    fn problem(self) -> Result<T, Fault>;
}

impl<T> Problem<T> for Result<T, TokenError> {
    fn problem(self) -> Result<T, Fault> {
        self.map_err(|e| Fault::environment(&e, remedy(&e)))
    }
}

/// The token of a configuration, of which no more is read than where it is: its
/// keys may still have to be brought there.
pub fn of_config(path: &Path) -> Result<Pkcs11Token, Fault> {
    let source = crate::load::source(path)?;
    let mut values = ["module", "token", "pin-file"].map(|word| source.value("token", word));
    let Some([module, token, pin_file]) = all(&mut values) else {
        let what = format!("{}: no table [token] with module, token and pin-file", path.display());
        return Err(Fault::new(Blame::Configuration, what, "see docs/token.md for one"));
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    fault(open_at(module, token, pin_file, folder))
}

fn all<'a>(values: &mut [Option<&'a str>; 3]) -> Option<[&'a str; 3]> {
    let [a, b, c] = values;
    Some([(*a)?, (*b)?, (*c)?])
}

fn fault<T>(done: Result<T, String>) -> Result<T, Fault> {
    done.map_err(|e| {
        let (what, remedy) = e.split_once('\n').unwrap_or((&e, "check [token]"));
        Fault::environment(what, remedy)
    })
}

/// Logs in to the token of a configuration in this folder.
pub fn open(table: &TokenConfig, folder: &Path) -> Result<Pkcs11Token, String> {
    open_at(&table.module, &table.token, &table.pin_file, folder)
}

fn open_at(module: &str, token: &str, pin: &str, folder: &Path) -> Result<Pkcs11Token, String> {
    let pin = private_file("PIN file", &folder.join(pin))?;
    let pin = Secret::new(pin.expose().trim_ascii_end().to_vec());
    let login = Login { module: folder.join(module), token: token.to_owned(), pin };
    Pkcs11Token::new(&login).map_err(|e| format!("{e}\n{}", remedy(&e)))
}

/// The name of a key on the token, `len` octets long.
pub fn identity(token: &mut Pkcs11Token, label: &str, len: usize) -> Result<Secret, String> {
    let aes = if len == Aes::Aes128.key_len() { Aes::Aes128 } else { Aes::Aes256 };
    token.identity(label, aes).map_err(|e| format!("{e}\n{}", remedy(&e)))
}

/// Remedy for an error of a token.
fn remedy(error: &TokenError) -> &'static str {
    match error {
        TokenError::NoKey(_) => "`ferrule token import --help` shows how a key gets there",
        TokenError::Length(..) => "give the suite, or --bits, that the key has, or import it anew",
        TokenError::Pin(_) => {
            "correct the PIN file before you start again: tokens lock themselves after some tries"
        }
        TokenError::ManyKeys(_) => "give each key on the token a label of its own",
        TokenError::Unfit(..) => "import it again with `ferrule token import`",
        TokenError::NoToken(_) => "check module and token in [token]",
        TokenError::Call(..) | TokenError::Gone => "check the PIN file, and the module by itself",
    }
}

/// A token that all workers of a node share.
pub(crate) fn shared(table: &TokenConfig) -> Result<Shared, Fault> {
    let token = fault(open(table, Path::new("")))?;
    Ok(Arc::new(Mutex::new(token)))
}

/// The engine of one worker.
pub(crate) fn engine(
    table: &TokenConfig,
    token: Shared,
    worker: usize,
) -> Result<Away<Packet>, Fault> {
    let failed =
        |e| Fault::environment(format!("starting the token engine: {e}"), "see `ulimit -l`");
    let profile = TokenProfile::shipped(&table.profile).unwrap_or_else(TokenProfile::none);
    let blocks = profile.blocks_max();
    let line = Live::start(token, profile, worker as u8).map_err(failed)?;
    let engine = TokenEngine::new(Box::new(line), blocks, settings(table, true));
    Ok(Box::new(engine.map_err(failed)?))
}

/// From the configuration's words to the engine's.
pub fn settings(table: &TokenConfig, locked: bool) -> Settings {
    Settings {
        name: table.profile.clone(),
        blocks: table.blocks,
        reach: table.reach,
        behind: table.behind,
        drop_gone: table.drop_gone,
        locked,
        delays: table.delays.clone(),
        keep: table.keep,
    }
}
