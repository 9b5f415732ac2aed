//! `ferrule test mka`: a station that agrees on keys with a device, and says clause by clause
//! what the device did.
//!
//! ```text
//!   join ─▶ watch ─▶ new SAKs, if this station is key server ─▶ break rules, with --hostile
//! ```
//!
//! The station has no SecY: it says that it receives and transmits, and does neither.

mod checks;
mod station;

pub use station::{Agreed, Station};

use crate::test::args::duration;
use crate::test::clauses::{self, Check, Found, Subject};
use crate::test::line::{self, Line};
use crate::{interrupt, results};
use checks::Device;
use clap::Args;
use ferrule_base::{Duration, MacAddr, Secret};
use ferrule_control::Core;
use ferrule_control::mka::config::LIFE;
use ferrule_control::mka::{Command, Config, Keys, Suite};
use ferrule_daemon::{Blame, Fault, load};
use ferrule_node::config;
use ferrule_report::Report;
use ferrule_wire::Sci;
use ferrule_wire::eapol::{BODY_AT, PAE_GROUP};
use ferrule_wire::ethernet;
use ferrule_wire::mkpdu::{Ckn, ICV_LEN, Repr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "Examples:
  sudo ferrule test mka --interface eth0 --cak cak.key --ckn 0011223344556677
  sudo ferrule test mka --interface eth0 --cak cak.key --ckn 0011223344556677 \\
      --priority 200 --hostile --report mka.html

cak.key is a key file, as a node's [[macsec]] has it: a line `cak HEX` with 32 or 64 digits, which
nobody else may read (chmod 600).
The interface carries EAPOL to 01:80:c2:00:00:03, which bridges do not forward: the device has to
be next, or --destination another group that both use.

Exit: 0 no rule was seen broken, 1 one was, or the device is not live, 2 the command line is wrong,
3 the machine lacks something, or it was stopped.";

/// Words of `ferrule test mka`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct MkaArgs {
    /// The interface to the device.
    #[arg(long, value_name = "NAME")]
    interface: String,
    /// The key file of the CAK.
    #[arg(long, value_name = "FILE")]
    cak: PathBuf,
    /// The name of the CAK, in hexadecimal digits.
    #[arg(long, value_name = "HEX", value_parser = ckn)]
    ckn: Ckn,
    /// Key server priority of this station: the lowest serves; 255 never.
    #[arg(long, value_name = "N", default_value_t = 16)]
    priority: u8,
    /// Suite of SAKs, as key server: gcm-aes-128, gcm-aes-256, gcm-aes-xpn-128, gcm-aes-xpn-256.
    #[arg(long, value_name = "NAME", value_parser = suite, default_value = "gcm-aes-128")]
    suite: Suite,
    /// Destination of messages.
    #[arg(long, value_name = "MAC", default_value_t = MacAddr(PAE_GROUP))]
    destination: MacAddr,
    /// Time to become live and agree on a SAK.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "15s")]
    wait: Duration,
    /// Time that is watched then.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    duration: Duration,
    /// New SAKs, as key server.
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(0..=1000))]
    rekeys: u32,
    /// Break rules, too: wrong ICVs, repeated messages, contradictory lengths, unknown sets.
    #[arg(long)]
    hostile: bool,
    /// Print JSON (schema ferrule-report/1) instead of the table.
    #[arg(long)]
    json: bool,
    /// Write one HTML page.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

fn octets(text: &str) -> Result<Secret, String> {
    Secret::from_hex(text).map_err(str::to_owned)
}

pub fn ckn(text: &str) -> Result<Ckn, String> {
    let octets = octets(text)?;
    Ckn::new(octets.expose()).ok_or_else(|| "a CKN has 1 to 32 octets".into())
}

pub fn suite(text: &str) -> Result<Suite, String> {
    match text {
        "gcm-aes-128" => Ok(Suite::GcmAes128),
        "gcm-aes-256" => Ok(Suite::GcmAes256),
        "gcm-aes-xpn-128" => Ok(Suite::GcmAesXpn128),
        "gcm-aes-xpn-256" => Ok(Suite::GcmAesXpn256),
        other => {
            Err(format!("`{other}` is no suite here: gcm-aes-128, or -256, -xpn-128, -xpn-256"))
        }
    }
}

fn cak(path: &Path) -> Result<Secret, Fault> {
    let remedy = "name the key file that has it: --cak FILE, with a line `cak HEX`";
    let wrong = |what: String| Fault::new(Blame::Configuration, what, remedy);
    let file = load::private_file("CAK", path).map_err(|e| {
        let (what, remedy) = e.split_once('\n').unwrap_or((&e, remedy));
        Fault::new(Blame::Configuration, what, remedy)
    })?;
    config::cak(&file).map_err(|e| wrong(format!("CAK `{}`: {e}", path.display())))
}

/// A rule that is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Probe {
    WrongIcv,
    Repeated,
    Short,
    OtherName,
    UnknownSet,
}

impl Probe {
    const ALL: [Self; 5] =
        [Self::WrongIcv, Self::Repeated, Self::Short, Self::OtherName, Self::UnknownSet];

    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::WrongIcv => ("9.4.1", "a message with a wrong ICV is dropped"),
            Self::Repeated => ("9.4.2", "a message that comes again is dropped"),
            Self::Short => ("11.11.2", "a message longer than its frame is dropped"),
            Self::OtherName => ("11.11.2", "a message by an unknown CKN is dropped"),
            Self::UnknownSet => ("11.11.2", "unknown parameter sets are skipped"),
        }
    }
}

/// A message with something changed, and its ICV made good.
fn altered(frame: &[u8], keys: &Keys, change: impl FnOnce(&mut Repr)) -> Option<Vec<u8>> {
    let (mut repr, _) = Repr::parse(frame.get(BODY_AT..)?).ok()?;
    let (ethernet, _) = ethernet::Repr::parse(frame).ok()?;
    change(&mut repr);
    Some(keys.frame(ethernet, &repr))
}

/// The station, and the interface to the device.
struct Beside {
    station: Station,
    line: Line,
}

impl Beside {
    fn open(args: &MkaArgs) -> Result<Self, Fault> {
        let line = Line::open(&args.interface, std::time::Instant::now())?;
        let config = Config {
            priority: args.priority,
            suite: args.suite,
            destination: args.destination,
            ..Config::new(Sci::new(line.link.mac, Sci::PORT_END_STATION))
        };
        Ok(Self { station: Station::join(&args.cak, args.ckn, config)?, line })
    }

    /// Takes what came, does what is due.
    fn turn(&mut self) {
        let station = &mut self.station;
        self.line.receive(|now, frame| station.take(now, frame));
        station.turn(&mut self.line);
    }

    /// Goes on until something is so, or for so long; true if it is so.
    fn until(&mut self, limit: Duration, is_so: impl Fn(&Station) -> bool) -> Result<bool, Fault> {
        let stop = interrupt::flag()?;
        let end = self.line.now() + limit;
        loop {
            self.turn();
            if is_so(&self.station) {
                return Ok(true);
            }
            let now = self.line.now();
            if now >= end || stop.load(std::sync::atomic::Ordering::Relaxed) {
                return Ok(false);
            }
            let due = self.station.kay.poll_timeout().map_or(end, |due| due.min(end));
            let longest = Duration::from_millis(100);
            line::wait(&[&self.line], due.since(now).min(longest))?;
        }
    }

    /// Has the device take a new SAK.
    fn rekey(&mut self) -> Result<bool, Fault> {
        // The old one has to be gone.
        self.until(2 * LIFE, |station| station.kay.view().saks.len() == 1)?;
        let before = self.station.kay.view().saks.first().map(|sak| sak.key);
        let now = self.line.now();
        self.station.kay.handle_command(now, Command::Rekey);
        self.until(LIFE, |station| {
            let latest = station.kay.view().saks.first().map(|sak| sak.key);
            latest != before && station.is_secured()
        })
    }

    /// Breaks a rule; what came of it.
    fn probe(&mut self, probe: Probe) -> Result<Found, Fault> {
        let last = self.station.sent[0].clone();
        let number = Repr::parse(last.get(BODY_AT..).unwrap_or_default());
        let number = number.map_or(0, |(repr, _)| repr.actor.mn);
        let ahead = number.saturating_add(1000);
        let forged =
            altered(&last, &self.station.keys, |repr| repr.actor.mn = ahead).unwrap_or_default();
        let frame = match probe {
            Probe::WrongIcv => {
                let mut frame = forged;
                frame.last_mut().into_iter().for_each(|octet| *octet ^= 1);
                frame
            }
            Probe::Repeated => self.station.sent[1].clone(),
            Probe::Short => forged[..forged.len().saturating_sub(ICV_LEN)].to_vec(),
            Probe::OtherName => altered(&last, &self.station.keys, |repr| {
                repr.actor.mn = ahead;
                repr.ckn = Ckn::new(b"another name").unwrap_or(repr.ckn);
            })
            .unwrap_or_default(),
            Probe::UnknownSet => Vec::new(),
        };
        self.station.adds_set = probe == Probe::UnknownSet;
        if !frame.is_empty() {
            self.line.send(&frame);
        }
        // Two hellos of either side.
        self.until(Duration::from_secs(5), |_| false)?;
        self.station.adds_set = false;
        let echoed = self.station.device.echoed;
        let is_live = !self.station.kay.view().peers.is_empty();
        Ok(match probe {
            _ if !is_live => Found::Broken("this station is no longer live for it".into()),
            Probe::UnknownSet if echoed <= number => {
                Found::Broken("messages with one were not taken".into())
            }
            _ if echoed >= ahead => Found::Broken("it was taken".into()),
            _ if echoed < number => Found::Broken(format!("it went back to message {echoed}")),
            _ => Found::Holds("it goes on".into()),
        })
    }
}

impl MkaArgs {
    /// Tests.
    pub fn run(&self) -> Result<ExitCode, Fault> {
        let mut beside = Beside::open(self)?;
        let say = |what: &str| {
            if !self.json {
                eprintln!("{what} …");
            }
        };
        say("joining");
        beside.until(self.wait, Station::is_secured)?;
        let secured = beside.station.is_secured();
        say("watching");
        beside.until(self.duration, |_| false)?;
        let mut checks = beside.station.device.checks();
        let view = beside.station.kay.view();
        let serves = view.saks.first().is_some_and(|sak| sak.made);
        let found = match (secured, view.saks.first()) {
            (true, Some(sak)) => Found::Holds(format!("{}, AN {}", sak.key, sak.an)),
            _ if view.peers.is_empty() => Found::NotSeen("it is not live".into()),
            _ => Found::Broken("not within the time".into()),
        };
        checks.push(Check::new("12.4", "a SAK is in use by both", found));
        if serves && secured && self.rekeys > 0 {
            say("new SAKs");
            let mut done = 0;
            for _ in 0..self.rekeys {
                done += u32::from(beside.rekey()?);
            }
            let words = format!("{done} of {} within 6 s each", self.rekeys);
            let found = if done == self.rekeys { Found::Holds } else { Found::Broken };
            let rule = "the device follows this key server to a new SAK";
            checks.push(Check::new("9.8", rule, found(words)));
        }
        if self.hostile && !beside.station.kay.view().peers.is_empty() {
            for probe in Probe::ALL {
                let (clause, rule) = probe.words();
                say(rule);
                checks.push(Check::new(clause, rule, beside.probe(probe)?));
            }
        }
        let device = &beside.station.device;
        let report = report(device, &checks);
        results::Files { report: self.report.as_deref(), folder: None, index: None }
            .give(&report, self.json)?;
        Ok(clauses::code(&checks, device.live.is_some()))
    }
}

fn report(device: &Device, checks: &[Check]) -> Report {
    let subject = Subject {
        title: "MKA, clause by clause",
        question: "Does the device agree on MACsec keys as 802.1X-2020 says?",
        standard: "Clauses of 802.1X-2020",
        device: match device.sci {
            Some(sci) => Ok(sci.to_string()),
            None => Err("Nobody was heard by this CKN."),
        },
        also: "",
    };
    subject.report(checks)
}
