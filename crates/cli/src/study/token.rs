//! Live measurements for the study of key stream made ahead: a key inside SoftHSM, each exchange
//! slowed down to the study's card.
//!
//! ```text
//!   this process ── softhsm2-util: a fresh token in a folder of its own
//!        └─ study-token (hidden, SOFTHSM2_CONF set) ─ PKCS#11 ─▶ key agreed inside
//!                 what the model runs, on the token ([`super::phone`]), side by side
//! ```
//!
//! A module reads its settings from the environment, which a program sets for a
//! program that it starts, not for itself. Each part waits for a card of its own most
//! of the time, so they run side by side and all take as long as the longest.

use super::ends::{self, Keys};
use super::phone::OnToken;
use crate::demo::is_root;
use crate::process::{Fault, Folder, Runner};
use crate::softhsm::{self, Hsm};
use clap::Args;
use ferrule_base::Secret;
use ferrule_crypto::Aes;
use ferrule_engines::token::{Login, Pkcs11Token};
use ferrule_studies::options::Seed;
use ferrule_studies::prebuffered_ctr::live::{
    CALL, CALL_QUICK, Live, Measured, PACKETS, PACKETS_QUICK, SHARE_QUICK,
};
use ferrule_studies::prebuffered_ctr::published::Study;
use ferrule_studies::prebuffered_ctr::token::KEY_LABEL;
use ferrule_studies::prebuffered_ctr::{model, order, voip};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

/// Of a token that lives for a minute and holds one key that nobody else has.
const PIN: &str = "577251";
const TOKEN_LABEL: &str = "study";
/// The label of the key from the gateway, where there is one.
const BACK_LABEL: &str = "back";
/// Time limit of the whole measurement: beyond it something hangs.
const LIMIT: Duration = Duration::from_secs(150);
/// So long the machine is busy filling the rings of the drain curves; what is measured
/// in milliseconds comes afterwards.
const FILLING: Duration = Duration::from_secs(8);
/// The same of smaller rings.
const FILLING_QUICK: Duration = Duration::from_secs(2);
/// Letters of a reason that stands in a table at most.
const REASON_MAX: usize = 60;

const NOTE: &str = "a key that was agreed upon inside SoftHSM 2 and never left it; each exchange \
    takes what the study's card takes. Rings were filled without that delay, which how they run \
    empty does not depend on. Packets go from memory to memory, as fast as the study's network \
    lets them.";

/// Measures; or why not.
pub fn run(quick: bool, say: &mut dyn FnMut(&str)) -> Result<Live, String> {
    let module = softhsm::module().ok_or("not run: no PKCS#11 module (softhsm2)")?;
    say("live: a key in SoftHSM, as slow as the study's card");
    let reason = |fault: &Fault, say: &mut dyn FnMut(&str)| {
        // All of it for who looks on, one line for a cell of a table.
        say(&format!("live: {fault}"));
        format!("not run: {}", fault.reason(REASON_MAX))
    };
    let hsm = Stand::new(module).map_err(|fault| reason(&fault, say))?;
    let measured = hsm.measure(quick).map_err(|fault| reason(&fault, say))?;
    let nodes = match is_root() {
        true => {
            ends::run(&hsm.runner, &hsm.keys(), quick, say).map_err(|fault| reason(&fault, say))
        }
        false => Err("not run: needs root".into()),
    };
    Ok(Live { note: NOTE.into(), measured, nodes })
}

/// A token in a folder, which goes with it.
struct Stand {
    runner: Runner,
    hsm: Hsm,
    _folder: Folder,
}

impl Stand {
    fn new(module: &'static str) -> Result<Self, Fault> {
        let runner = Runner::new().map_err(|e| Fault::failed("signals", e))?;
        let out = std::env::temp_dir().join(format!("ferrule-token-{}", std::process::id()));
        let folder = Folder::new(out, false)?;
        let hsm = Hsm::new(&runner, module, folder.path(), [TOKEN_LABEL, PIN])?;
        Ok(Self { runner, hsm, _folder: folder })
    }

    /// The token's parameters that nodes are configured with.
    fn keys(&self) -> Keys {
        Keys {
            module: self.hsm.module.into(),
            config: self.hsm.config(),
            token: TOKEN_LABEL.into(),
            pin: self.hsm.pin(),
            labels: [KEY_LABEL, BACK_LABEL],
        }
    }

    /// Runs the companion.
    fn measure(&self, quick: bool) -> Result<Measured, Fault> {
        let program = std::env::current_exe().map_err(|e| Fault::failed("our own path", e))?;
        let mut command = Command::new(program);
        command.args(["study-token", "--module", self.hsm.module]);
        self.hsm.known_to(&mut command);
        if quick {
            command.arg("--quick");
        }
        let said = self.runner.done(&mut command, LIMIT)?;
        serde_json::from_str(&said).map_err(|e| Fault::failed("the companion's result", e))
    }
}

/// Arguments of the companion.
#[derive(Debug, Args)]
pub struct TokenArgs {
    /// The PKCS#11 module
    #[arg(long)]
    module: PathBuf,
    /// Smaller buffers, shorter calls
    #[arg(long)]
    quick: bool,
}

impl TokenArgs {
    /// The companion: what the study measures in the engine, as JSON.
    pub fn run(self) -> ExitCode {
        match self.measure() {
            Ok(measured) => {
                println!("{}", serde_json::to_string(&measured).unwrap_or_default());
                ExitCode::SUCCESS
            }
            Err(what) => {
                eprintln!("{what}");
                ExitCode::FAILURE
            }
        }
    }

    fn measure(&self) -> Result<Measured, String> {
        let pin = Secret::new(PIN.as_bytes().to_vec());
        let login = Login { module: self.module.clone(), token: TOKEN_LABEL.into(), pin };
        let mut token = Pkcs11Token::new(&login).map_err(|e| e.to_string())?;
        // Both ends of the agreement are this token: the key is born in it.
        token.make_agreement_pair("own").map_err(|e| e.to_string())?;
        for label in [KEY_LABEL, BACK_LABEL] {
            let peer = token.make_agreement_pair(&format!("peer-{label}"));
            let agreed = token.agree(label, Aes::Aes128, "own", &peer.map_err(|e| e.to_string())?);
            agreed.map_err(|e| e.to_string())?;
        }
        let study = Study::read();
        let sizes = study.throughput.iter().map(|row| row.packet_bytes);
        // The machine is idle for what is as fast as it goes.
        let free = sizes.map(|size| model::unlimited_pps(&mut OnToken::new(&login)?, size));
        let unlimited_pps = free.collect::<Result<_, _>>()?;
        let (share, span, packets) = match self.quick {
            true => (SHARE_QUICK, CALL_QUICK, PACKETS_QUICK),
            false => (1.0, CALL, PACKETS),
        };
        let (login, study) = (&login, &study);
        let token = || OnToken::new(login);
        let quiet = || {
            thread::sleep(if self.quick { FILLING_QUICK } else { FILLING });
            OnToken::new(login)
        };
        let kbps = model::network_kbps(study);
        thread::scope(|scope| {
            let rows = study.throughput.iter().map(|row| row.packet_bytes);
            let rows: Vec<_> = rows
                .map(|size| scope.spawn(move || model::throughput(&mut token()?, size, kbps)))
                .collect();
            let plain = scope.spawn(move || voip::plain(study, &mut quiet()?, span));
            let calls = voip::rings(study).into_iter();
            let calls: Vec<_> = calls
                .map(|ring| scope.spawn(move || voip::buffered(study, &mut quiet()?, ring, span)))
                .collect();
            let filled = scope.spawn(move || voip::filled_per_second(&mut quiet()?));
            let drained = scope.spawn(move || model::drains(study, &mut token()?, false, share));
            let shaped = scope.spawn(move || model::drains(study, &mut token()?, true, share));
            let sizes = study.empty_time.buffer_mib.iter();
            let sizes: Vec<_> = sizes
                .map(|&mib| scope.spawn(move || model::sized(study, &mut token()?, mib, share)))
                .collect();
            let order = order::CASES.iter();
            let order: Vec<_> = order
                .map(|case| {
                    scope.spawn(move || order::run(&mut quiet()?, case, packets, Seed::OWN))
                })
                .collect();
            Ok(Measured {
                share,
                rows: all(rows)?,
                unlimited_pps,
                calls: all([plain].into_iter().chain(calls))?,
                filled_per_second: one(filled)?,
                drained: one(drained)?,
                shaped: one(shaped)?,
                sizes: all(sizes)?,
                order: all(order)?,
            })
        })
    }
}

type Part<'a, T> = ScopedJoinHandle<'a, Result<T, String>>;

fn one<T>(part: Part<'_, T>) -> Result<T, String> {
    part.join().unwrap_or_else(|_| Err("a part of the measurement broke off".into()))
}

fn all<'a, T: 'a>(parts: impl IntoIterator<Item = Part<'a, T>>) -> Result<Vec<T>, String> {
    parts.into_iter().map(one).collect()
}
