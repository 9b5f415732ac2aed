//! Tokens of SoftHSM, for the laboratory: each in a folder of its own, which goes
//! with it.
//!
//! A module reads its settings from the environment, which a program sets for the
//! programs that it starts, not for itself: [`Hsm::known_to`].

use crate::process::{Fault, Runner, is_installed, write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Paths at which the module may be.
const MODULES: [&str; 3] = [
    "/usr/lib/softhsm/libsofthsm2.so",
    "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
    "/usr/lib64/pkcs11/libsofthsm2.so",
];
/// The program that makes tokens.
const UTIL: &str = "softhsm2-util";
/// Making one takes less.
const LIMIT: Duration = Duration::from_secs(20);

/// The module, if SoftHSM is installed.
pub fn module() -> Option<&'static str> {
    let module = MODULES.into_iter().find(|path| Path::new(path).exists());
    module.filter(|_| is_installed(UTIL))
}

/// A token that is there as long as its folder.
pub struct Hsm {
    pub module: &'static str,
    folder: PathBuf,
}

impl Hsm {
    /// A fresh token of this label, in an empty folder that only its owner can open: a PIN that is
    /// seen on the way is of no use.
    pub fn new(
        runner: &Runner,
        module: &'static str,
        folder: &Path,
        [label, pin]: [&str; 2],
    ) -> Result<Self, Fault> {
        let hsm = Self { module, folder: folder.to_owned() };
        let tokens = folder.join("tokens");
        std::fs::create_dir(&tokens).map_err(|e| Fault::failed("a folder for the token", e))?;
        let text = format!("directories.tokendir = {}\nlog.level = ERROR\n", tokens.display());
        write(&hsm.config(), text.as_bytes())?;
        write(&hsm.pin(), pin.as_bytes())?;
        let mut make = Command::new(UTIL);
        make.args(["--init-token", "--free", "--label", label, "--so-pin", pin, "--pin", pin]);
        hsm.known_to(&mut make);
        runner.done(&mut make, LIMIT)?;
        Ok(hsm)
    }

    /// The file that nodes have the PIN from.
    pub fn pin(&self) -> PathBuf {
        self.folder.join("pin")
    }

    /// The module's settings.
    pub fn config(&self) -> PathBuf {
        self.folder.join("softhsm2.conf")
    }

    /// A program that finds this token and no other.
    pub fn known_to(&self, command: &mut Command) {
        command.env("SOFTHSM2_CONF", self.config());
    }
}
