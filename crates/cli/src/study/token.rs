//! What the study of key stream made ahead measures live: a key inside SoftHSM, each
//! exchange slowed down to the study's card.
//!
//! ```text
//!   this process ── softhsm2-util: a fresh token in a folder of its own
//!        └─ study-token (hidden, SOFTHSM2_CONF set) ─ PKCS#11 ─▶ key agreed inside
//!                 TokenEngine ─ Live line ─ profile: 12 and 16 ms
//! ```
//!
//! A module reads its settings from the environment, which a program sets for a
//! program that it starts, not for itself.

use crate::process::{Folder, Runner, is_installed, write};
use clap::Args;
use ferrule_base::{Instant, Secret};
use ferrule_crypto::{Aes, Engine, Jobs, KeyId, Op, Verdict};
use ferrule_engines::token::{
    Ask, Exchange, Line, Live as LiveLine, Login, Pkcs11Token, Settings, TokenEngine, TokenProfile,
};
use ferrule_studies::prebuffered_ctr::live::{Live, LiveRow};
use ferrule_studies::prebuffered_ctr::token::{Packet, TOKEN, blocks, packet, profile, spec};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant as Clock};

/// Where SoftHSM is.
const MODULES: [&str; 3] = [
    "/usr/lib/softhsm/libsofthsm2.so",
    "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
    "/usr/lib64/pkcs11/libsofthsm2.so",
];
/// Of a token that lives for a minute and holds one key that nobody else has.
const PIN: &str = "577251";
const TOKEN_LABEL: &str = "study";
const KEY_LABEL: &str = "traffic";
/// Both take less than this, or something hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// Letters of a reason that stands in a table at most.
const REASON_MAX: usize = 60;

/// Octets of packets: those of table 1.
const OCTETS: [usize; 2] = [1024, 128];
/// Blocks of the ring: full within a second.
const RING: usize = 4096;
/// How long packets are sent once it is empty.
const AFTER: Duration = Duration::from_millis(1500);
/// Packets that ask the token one by one.
const PLAIN: u32 = 20;
/// Nothing is this late, or the engine has lost it.
const LATE: Duration = Duration::from_secs(5);

const NOTE: &str = "Live: a key that was agreed upon inside SoftHSM 2 and never left it; each \
    exchange takes what the study's card takes. Packets go from memory to memory, so before the \
    buffer is empty no network limits them, only this machine.";

/// Measures; or why not.
pub fn run(say: &mut dyn FnMut(&str)) -> Result<Live, String> {
    let module = MODULES.into_iter().find(|path| Path::new(path).exists());
    let module = module.filter(|_| is_installed("softhsm2-util"));
    let module = module.ok_or("not run: no PKCS#11 module (softhsm2)")?;
    say("live: a key in SoftHSM, as slow as the study's card");
    measure(module).map(|rows| Live { note: NOTE.into(), rows, order: None }).map_err(|what| {
        say(&format!("live: {what}"));
        let last = what.lines().last().unwrap_or_default().trim().chars();
        format!("not run: {}", last.take(REASON_MAX).collect::<String>())
    })
}

fn measure(module: &str) -> Result<Vec<LiveRow>, String> {
    let runner = Runner::new().map_err(|e| e.to_string())?;
    let out = std::env::temp_dir().join(format!("ferrule-token-{}", std::process::id()));
    let folder = Folder::new(out, false).map_err(|fault| fault.to_string())?;
    let tokens = folder.path().join("tokens");
    std::fs::create_dir(&tokens).map_err(|e| e.to_string())?;
    let config = folder.path().join("softhsm2.conf");
    let text = format!("directories.tokendir = {}\nlog.level = ERROR\n", tokens.display());
    write(&config, text.as_bytes()).map_err(|fault| fault.to_string())?;
    let done = |command: &mut Command| {
        command.env("SOFTHSM2_CONF", &config);
        runner.done(command, LIMIT).map_err(|fault| fault.to_string())
    };
    let mut make = Command::new("softhsm2-util");
    make.args(["--init-token", "--free", "--label", TOKEN_LABEL, "--so-pin", PIN, "--pin", PIN]);
    done(&mut make)?;
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let said = done(Command::new(program).args(["study-token", "--module", module]))?;
    let rows: Vec<Row> = serde_json::from_str(&said).map_err(|e| e.to_string())?;
    Ok(rows.into_iter().map(Row::into).collect())
}

/// Arguments of the companion.
#[derive(Debug, Args)]
pub struct TokenArgs {
    /// The PKCS#11 module
    #[arg(long)]
    module: PathBuf,
}

/// What the companion prints.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    packet_bytes: usize,
    before_pps: f64,
    after_pps: f64,
    plain_pps: f64,
}

impl From<Row> for LiveRow {
    fn from(row: Row) -> Self {
        let Row { packet_bytes, before_pps, after_pps, plain_pps } = row;
        Self { packet_bytes, before_pps, after_pps, plain_pps }
    }
}

impl TokenArgs {
    /// The companion: table 1, as JSON.
    pub fn run(self) -> ExitCode {
        match self.measure() {
            Ok(rows) => {
                println!("{}", serde_json::to_string(&rows).unwrap_or_default());
                ExitCode::SUCCESS
            }
            Err(what) => {
                eprintln!("{what}");
                ExitCode::FAILURE
            }
        }
    }

    fn measure(&self) -> Result<Vec<Row>, String> {
        let pin = Secret::new(PIN.as_bytes().to_vec());
        let login = Login { module: self.module.clone(), token: TOKEN_LABEL.into(), pin };
        let mut token = Pkcs11Token::new(&login).map_err(|e| e.to_string())?;
        // Both ends of the agreement are this token: the key is born in it.
        token.make_agreement_pair("own").map_err(|e| e.to_string())?;
        let peer = token.make_agreement_pair("peer").map_err(|e| e.to_string())?;
        let agreed = token.agree(KEY_LABEL, Aes::Aes128, "own", &peer);
        agreed.map_err(|e| e.to_string())?;
        let (token, card) = (Arc::new(Mutex::new(token)), profile(TOKEN));
        let line = || LiveLine::start(token.clone(), card.clone(), 0).map_err(|e| e.to_string());
        let mut rows = Vec::new();
        for octets in OCTETS {
            let (before_pps, after_pps) = Stand::new(line()?, &card)?.drain(octets)?;
            let plain_pps = plain(line()?, &card, octets)?;
            rows.push(Row { packet_bytes: octets, before_pps, after_pps, plain_pps });
        }
        Ok(rows)
    }
}

/// An engine on the token, and a clock.
struct Stand {
    engine: TokenEngine<Packet>,
    key: KeyId,
    exchange: u64,
    begun: Clock,
    number: u64,
}

impl Stand {
    fn new(line: LiveLine, card: &TokenProfile) -> Result<Self, String> {
        let settings = Settings { blocks: RING, behind: 0, ..Settings::default() };
        let most = card.blocks_max();
        let engine = TokenEngine::new(Box::new(line), most, settings);
        let mut engine = engine.map_err(|e| e.to_string())?;
        let key = engine.install(&spec(Op::Seal, KEY_LABEL)).map_err(|e| e.to_string())?;
        Ok(Self { engine, key, exchange: most as u64, begun: Clock::now(), number: 1 })
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.begun.elapsed().as_nanos() as u64)
    }

    fn ahead(&self) -> u64 {
        self.engine.ahead(self.key).unwrap_or(0)
    }

    /// Packets a second before the ring is empty, and after it.
    fn drain(&mut self, octets: usize) -> Result<(f64, f64), String> {
        let from = Clock::now();
        while self.ahead() + self.exchange <= RING as u64 {
            self.look()?;
            if from.elapsed() > LATE {
                return Err("the token does not fill the ring".into());
            }
        }
        let (from, mut count) = (Clock::now(), 0_u32);
        while self.ahead() >= self.exchange {
            self.one(octets)?;
            count += 1;
        }
        let before = f64::from(count) / from.elapsed().as_secs_f64();
        let (from, mut count) = (Clock::now(), 0_u32);
        while from.elapsed() < AFTER {
            self.one(octets)?;
            count += 1;
        }
        Ok((before, f64::from(count) / from.elapsed().as_secs_f64()))
    }

    /// One packet, there and back.
    fn one(&mut self, octets: usize) -> Result<(), String> {
        let mut jobs = Jobs::new();
        jobs.push(packet(self.key, self.number, octets));
        self.number += 1;
        let (now, from) = (self.now(), Clock::now());
        self.engine.submit(now, &mut jobs);
        while jobs.is_empty() {
            jobs = self.look()?;
            if from.elapsed() > LATE {
                return Err("the engine lost a packet".into());
            }
        }
        match jobs.pop().map(|job| job.verdict) {
            Some(Verdict::Done) => Ok(()),
            verdict => Err(format!("a packet was not sealed: {verdict:?}")),
        }
    }

    /// Waits until there may be something, and takes it.
    fn look(&mut self) -> Result<Jobs<Packet>, String> {
        let (now, due) = (self.now(), self.engine.poll_timeout());
        if let Some(wait) = due.filter(|due| *due > now).map(|due| due.since(now)) {
            std::thread::sleep(wait.min(Duration::from_millis(20)));
        }
        let (mut done, now) = (Jobs::new(), self.now());
        self.engine.collect(now, &mut done);
        Ok(done)
    }
}

/// Packets a second if each asks the token for its own blocks.
fn plain(mut line: LiveLine, card: &TokenProfile, octets: usize) -> Result<f64, String> {
    line.open(7, KEY_LABEL, Aes::Aes128);
    let most = card.blocks_max();
    let exchange = Exchange::new(most, true).map_err(|e| e.to_string())?;
    let (mut exchange, begun) = (Box::new(exchange), Clock::now());
    let now = || Instant::from_nanos(begun.elapsed().as_nanos() as u64);
    for number in 0..PLAIN {
        exchange.key = 7;
        exchange.used = blocks(octets).min(most);
        exchange.ask = Ask::Counting(u128::from(number) * 4096);
        line.begin(now(), exchange).map_err(|_| "the line is busy".to_owned())?;
        let from = Clock::now();
        exchange = loop {
            if let Some(done) = line.end(now()) {
                break done;
            }
            if from.elapsed() > LATE {
                return Err("the token does not answer".into());
            }
            std::thread::sleep(Duration::from_micros(200));
        };
        exchange.result.clone().map_err(|e| e.to_string())?;
    }
    Ok(f64::from(PLAIN) / begun.elapsed().as_secs_f64())
}
