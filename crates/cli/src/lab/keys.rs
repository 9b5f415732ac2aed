//! Keys of a lab on real interfaces: fresh, in files for those that have them in
//! software, and brought to a token of its own for each node that has one.
//!
//! ```text
//!   fresh octets ─┬─▶ NAME.key   the other end's
//!                 ├─▶ NAME.rest  salt and integrity key beside a token
//!                 └─▶ wrap ─▶ `ferrule token import` ─▶ SoftHSM
//! ```
//!
//! They come to the token as from any peer, wrapped with its public key: SoftHSM's own
//! way to bring keys reads them as text, and cuts those that hold an octet of zero.

use crate::process::{Fault, Runner, write};
use crate::softhsm::{self, Hsm};
use crate::token::pem;
use ferrule_base::Secret;
use ferrule_crypto::random;
use ferrule_engines::token::wrap::{self, Wrapper};
use ferrule_lab::topology::live::{LiveSetting, LiveToken};
use ferrule_lab::topology::{Node, Topology, key_file};
use ferrule_node::config::LAB_KEY;
use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The word of a key that may be on a token.
const CIPHER: &str = "cipher";
/// The label of a lab's tokens.
const TOKEN: &str = "lab";
/// The label of the pair that keys are wrapped with.
const PAIR: &str = "lab";
/// An RSA pair takes a second or some, on a slow machine more.
const LIMIT: Duration = Duration::from_secs(60);

/// Fresh octets for each word of each key.
#[derive(Default)]
pub struct Fresh(BTreeMap<(String, String), Secret>);

impl Fresh {
    /// For every key of a topology, and each in the files where nodes look for it.
    pub fn write(topology: &Topology, setting: &LiveSetting<'_>) -> Result<Self, Fault> {
        let mut fresh = Self::default();
        for key in topology.keys() {
            let words = key.words.iter().map(|(word, len)| {
                let octets = fresh.octets(&key.name, word, *len)?;
                Ok((word.as_str(), octets.expose().to_vec()))
            });
            let words: Vec<_> = words.collect::<Result<_, Fault>>()?;
            let path = if key.rest { setting.rest(&key.name) } else { setting.key(&key.name) };
            write(&path, key_file(words.into_iter()).expose())?;
        }
        Ok(fresh)
    }

    /// Octets of a word of a key, the same at every call.
    fn octets(&mut self, name: &str, word: &str, len: usize) -> Result<Secret, Fault> {
        let place = (name.to_owned(), word.to_owned());
        if let Some(octets) = self.0.get(&place).filter(|octets| octets.len() == len) {
            return Ok(octets.clone());
        }
        let mut octets = vec![0; len];
        random::fill(&mut octets).map_err(|e| Fault::failed("a key", e))?;
        let octets = Secret::new(octets);
        self.0.insert(place, octets.clone());
        Ok(octets)
    }

    /// Brings a node's keys to its token, each wrapped.
    pub fn bring(
        &mut self,
        runner: &Runner,
        token: &NodeToken,
        node: &Node,
        config: &Path,
    ) -> Result<(), Fault> {
        if node.on_token.is_empty() {
            return Ok(());
        }
        let public = token.ferrule(runner, &["pair".as_ref(), config, PAIR.as_ref()])?;
        let public = pem::der(&public)
            .ok_or_else(|| Fault::failed(format!("{}: the token's pair", node.name), public))?;
        for (at, (label, len)) in node.on_token.iter().enumerate() {
            let key = self.octets(&format!("{LAB_KEY}{label}"), CIPHER, *len)?;
            let failed = |e| Fault::failed(format!("{}: key token:{label}", node.name), e);
            let wrapped = wrap::wrap(&key, &Wrapper::Public(&public)).map_err(failed)?;
            let file = token.folder.join(format!("{at}.wrapped"));
            write(&file, &wrapped)?;
            let bits = (8 * len).to_string();
            let words = ["--with", PAIR, "--bits", &bits, "--wrapped"];
            // The pair goes with the last of them.
            let last = at + 1 == node.on_token.len();
            let keep: &[&Path] = if last { &[] } else { &["--keep-pair".as_ref()] };
            let begin: [&Path; 3] = ["import".as_ref(), config, label.as_ref()];
            let words = words.map(Path::new);
            token.ferrule(runner, &[&begin[..], &words, &[&file], keep].concat())?;
        }
        Ok(())
    }
}

/// A node's token.
pub struct NodeToken {
    hsm: Hsm,
    folder: PathBuf,
    pin: PathBuf,
}

impl NodeToken {
    /// A fresh one in the lab's folder, if the node has a token.
    pub fn of(runner: &Runner, node: &Node, lab: &Path) -> Result<Option<Self>, Fault> {
        if node.config.token.is_none() {
            return Ok(None);
        }
        let module = softhsm::module().ok_or_else(|| {
            let what = format!("{} has its keys on a token: SoftHSM is not installed", node.name);
            Fault::Missing(what, "apt-get install softhsm2".into())
        })?;
        let folder = lab.join(format!("{}.token", node.name));
        let made = DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(|e| Fault::failed(folder.display().to_string(), e))?;
        let mut digits = [0; 8];
        random::fill(&mut digits).map_err(|e| Fault::failed("a PIN", e))?;
        let pin: String = digits.iter().map(|octet| char::from(b'0' + octet % 10)).collect();
        let hsm = Hsm::new(runner, module, &folder, [TOKEN, &pin])?;
        Ok(Some(Self { pin: hsm.pin(), hsm, folder }))
    }

    /// The token as the node's configuration names it.
    pub fn told(&self) -> LiveToken<'_> {
        LiveToken { module: self.hsm.module, label: TOKEN, pin_file: &self.pin }
    }

    /// A program that finds it.
    pub fn known_to(&self, command: &mut Command) {
        self.hsm.known_to(command);
    }

    fn ferrule(&self, runner: &Runner, words: &[&Path]) -> Result<String, Fault> {
        let program = std::env::current_exe().map_err(|e| Fault::failed("our own path", e))?;
        let mut command = Command::new(program);
        command.arg("token").args(words);
        self.known_to(&mut command);
        runner.done(&mut command, LIMIT)
    }
}
