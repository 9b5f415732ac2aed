//! `ferrule test mka`: a station that agrees on keys with a device, and says clause by clause
//! what the device did.
//!
//! ```text
//!   join ─▶ watch ─▶ new SAKs, if this station is key server ─▶ break rules, with --hostile
//! ```
//!
//! The station has no SecY: it says that it receives and transmits, and does neither.

mod checks;

use crate::test::args::duration;
use crate::{interrupt, machine, results};
use checks::{Check, Device, Found};
use clap::Args;
use ferrule_base::{Duration, Instant, MacAddr, Secret};
use ferrule_control::mka::config::LIFE;
use ferrule_control::mka::{Cak, Command, Config, Event, Kay, Keys, PortState, Suite};
use ferrule_daemon::entropy::OfMachine;
use ferrule_daemon::{Blame, Fault, load};
use ferrule_node::config;
use ferrule_pipeline::{Batch, PoolCache, Port};
use ferrule_ports::os::PollSet;
use ferrule_ports::{Link, OpenError, Opener, PortSpec, Umem, region};
use ferrule_report::{Column, Report, Section, Table};
use ferrule_wire::Sci;
use ferrule_wire::eapol::{BODY_AT, PAE_GROUP};
use ferrule_wire::ethernet;
use ferrule_wire::mkpdu::{Ckn, ICV_LEN, Mi, Repr, Set};
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

fn ckn(text: &str) -> Result<Ckn, String> {
    let octets = octets(text)?;
    Ckn::new(octets.expose()).ok_or_else(|| "a CKN has 1 to 32 octets".into())
}

fn suite(text: &str) -> Result<Suite, String> {
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

/// The station.
struct Station {
    kay: Kay,
    keys: Keys,
    ckn: Ckn,
    port: Box<dyn Port>,
    cache: PoolCache,
    start: std::time::Instant,
    device: Device,
    /// Its last message, and the one before.
    sent: [Vec<u8>; 2],
    /// Messages get a set that nobody knows.
    adds_set: bool,
}

impl Station {
    fn open(args: &MkaArgs) -> Result<Self, Fault> {
        let key = cak(&args.cak)?;
        let wrong = |e: &OpenError| super::bench::fault(e);
        let link = Link::by_name(&args.interface).map_err(|e| wrong(&e))?;
        let (pool, _) = region::pool(1024, 2048)
            .map_err(|e| Fault::environment(format!("1024 buffers: {e}"), "free some memory"))?;
        let spec = PortSpec::Packet { interface: args.interface.clone(), promiscuous: true };
        let opened = Opener::new().open(&spec);
        let port = opened.and_then(|opened| opened.start(&Umem::new(&pool)));
        let port = port.map_err(|e| wrong(&e))?;
        let sci = Sci::new(link.mac, Sci::PORT_END_STATION);
        let config = Config {
            priority: args.priority,
            suite: args.suite,
            destination: args.destination,
            ..Config::new(sci)
        };
        let lost =
            || Fault::new(Blame::Configuration, "a CAK of another length", "16 or 32 octets");
        let keys = Keys::new(key.clone(), &args.ckn).ok_or_else(lost)?;
        let cak = Cak::new(args.ckn, key).ok_or_else(lost)?;
        let mut kay = Kay::new(config, Box::new(OfMachine));
        kay.handle_command(Instant::ZERO, Command::Join(cak));
        let device = Device::new(Instant::ZERO, (args.ckn, keys.clone()), (sci, args.priority));
        Ok(Self {
            kay,
            keys,
            ckn: args.ckn,
            port,
            cache: pool.cache(),
            start: std::time::Instant::now(),
            device,
            sent: [Vec::new(), Vec::new()],
            adds_set: false,
        })
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    fn mi(&self) -> Option<Mi> {
        let view = self.kay.view();
        view.own.into_iter().find(|(ckn, _)| *ckn == self.ckn).map(|(_, mi)| mi)
    }

    fn send(&mut self, frame: &[u8]) {
        let mut batch = Batch::new();
        if let Some(packet) = self.cache.packet_from(frame) {
            batch.push(packet);
        }
        let now = self.now();
        self.port.transmit(now, &mut self.cache, &mut batch);
        batch.drain(..).for_each(|packet| self.cache.recycle(packet));
    }

    /// Takes what came, does what is due.
    fn turn(&mut self) {
        let mut batch = Batch::new();
        self.port.receive(self.now(), &mut self.cache, &mut batch);
        let mi = self.mi();
        for packet in batch.drain(..) {
            let now = self.now();
            self.device.note(now, packet.data(), mi);
            let _ = self.kay.handle_message(now, packet.data());
            self.cache.recycle(packet);
        }
        let now = self.now();
        if self.kay.poll_timeout().is_some_and(|due| due <= now) {
            self.kay.handle_timeout(now);
        }
        while let Some((token, _)) = self.kay.poll_order() {
            self.kay.handle_event(self.now(), Event::Done(token, Ok(())));
        }
        while self.kay.poll_news().is_some() {}
        while let Some(frame) = self.kay.poll_transmit() {
            let unknown = Set::Other { kind: 200, flags: 0, body: vec![0x5a; 7] };
            let with_set = self
                .adds_set
                .then(|| altered(&frame, &self.keys, |repr| repr.sets.insert(0, unknown)));
            let frame = with_set.flatten().unwrap_or(frame);
            self.send(&frame);
            self.sent.swap(0, 1);
            self.sent[0] = frame;
        }
    }

    /// Goes on until something is so, or for so long; true if it is so.
    fn until(&mut self, limit: Duration, is_so: impl Fn(&Self) -> bool) -> Result<bool, Fault> {
        let stop = interrupt::flag()?;
        let end = self.now() + limit;
        let mut set = PollSet::new();
        loop {
            self.turn();
            if is_so(self) {
                return Ok(true);
            }
            let now = self.now();
            if now >= end || stop.load(std::sync::atomic::Ordering::Relaxed) {
                return Ok(false);
            }
            let due = self.kay.poll_timeout().map_or(end, |due| due.min(end));
            let longest = Duration::from_millis(100);
            set.clear();
            self.port.wait_fd().into_iter().for_each(|fd| {
                set.add(fd, false);
            });
            set.wait(Some(due.since(now).min(longest)))
                .map_err(|e| Fault::environment(format!("waiting: {e}"), "see what it says"))?;
        }
    }

    /// True if both use the latest SAK.
    fn is_secured(&self) -> bool {
        let view = self.kay.view();
        let both = view.peers.iter().any(|peer| peer.receives && peer.transmits);
        view.port == PortState::Secured && both
    }

    /// Has the device take a new SAK.
    fn rekey(&mut self) -> Result<bool, Fault> {
        // The old one has to be gone.
        self.until(2 * LIFE, |station| station.kay.view().saks.len() == 1)?;
        let before = self.kay.view().saks.first().map(|sak| sak.key);
        let now = self.now();
        self.kay.handle_command(now, Command::Rekey);
        self.until(LIFE, |station| {
            let latest = station.kay.view().saks.first().map(|sak| sak.key);
            latest != before && station.is_secured()
        })
    }

    /// Breaks a rule; what came of it.
    fn probe(&mut self, probe: Probe) -> Result<Found, Fault> {
        let last = self.sent[0].clone();
        let number = Repr::parse(last.get(BODY_AT..).unwrap_or_default());
        let number = number.map_or(0, |(repr, _)| repr.actor.mn);
        let ahead = number.saturating_add(1000);
        let forged = altered(&last, &self.keys, |repr| repr.actor.mn = ahead).unwrap_or_default();
        let frame = match probe {
            Probe::WrongIcv => {
                let mut frame = forged;
                frame.last_mut().into_iter().for_each(|octet| *octet ^= 1);
                frame
            }
            Probe::Repeated => self.sent[1].clone(),
            Probe::Short => forged[..forged.len().saturating_sub(ICV_LEN)].to_vec(),
            Probe::OtherName => altered(&last, &self.keys, |repr| {
                repr.actor.mn = ahead;
                repr.ckn = Ckn::new(b"another name").unwrap_or(repr.ckn);
            })
            .unwrap_or_default(),
            Probe::UnknownSet => Vec::new(),
        };
        self.adds_set = probe == Probe::UnknownSet;
        if !frame.is_empty() {
            self.send(&frame);
        }
        // Two hellos of either side.
        self.until(Duration::from_secs(5), |_| false)?;
        self.adds_set = false;
        let echoed = self.device.echoed;
        let is_live = !self.kay.view().peers.is_empty();
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
        let mut station = Station::open(self)?;
        let say = |what: &str| {
            if !self.json {
                eprintln!("{what} …");
            }
        };
        say("joining");
        station.until(self.wait, Station::is_secured)?;
        let secured = station.is_secured();
        say("watching");
        station.until(self.duration, |_| false)?;
        let mut checks = station.device.checks();
        let view = station.kay.view();
        let serves = view.saks.first().is_some_and(|sak| sak.made);
        checks.push(Check {
            clause: "12.4",
            rule: "a SAK is in use by both",
            found: match (secured, view.saks.first()) {
                (true, Some(sak)) => Found::Holds(format!("{}, AN {}", sak.key, sak.an)),
                _ if view.peers.is_empty() => Found::NotSeen("it is not live".into()),
                _ => Found::Broken("not within the time".into()),
            },
        });
        if serves && secured && self.rekeys > 0 {
            say("new SAKs");
            let mut done = 0;
            for _ in 0..self.rekeys {
                done += u32::from(station.rekey()?);
            }
            let words = format!("{done} of {} within 6 s each", self.rekeys);
            let found = if done == self.rekeys { Found::Holds } else { Found::Broken };
            let rule = "the device follows this key server to a new SAK";
            checks.push(Check { clause: "9.8", rule, found: found(words) });
        }
        if self.hostile && !station.kay.view().peers.is_empty() {
            for probe in Probe::ALL {
                let (clause, rule) = probe.words();
                say(rule);
                let found = station.probe(probe)?;
                checks.push(Check { clause, rule, found });
            }
        }
        let partial = interrupt::wanted();
        let report = report(&station, &checks, partial);
        results::Files { report: self.report.as_deref(), folder: None }.give(&report, self.json)?;
        let broken = checks.iter().any(|check| matches!(check.found, Found::Broken(_)));
        Ok(match (partial, broken || station.device.live.is_none()) {
            (true, _) => ExitCode::from(interrupt::PARTIAL),
            (false, true) => ExitCode::FAILURE,
            (false, false) => ExitCode::SUCCESS,
        })
    }
}

fn report(station: &Station, checks: &[Check], partial: bool) -> Report {
    let count = |is: fn(&Found) -> bool| checks.iter().filter(|check| is(&check.found)).count();
    let holds = count(|found| matches!(found, Found::Holds(_)));
    let broken = count(|found| matches!(found, Found::Broken(_)));
    let device = station.device.sci.map_or("nobody".into(), |sci| sci.to_string());
    let question = "Does the device agree on MACsec keys as 802.1X-2020 says?";
    let mut report = Report::new("MKA, clause by clause", question);
    report.answer = match station.device.sci {
        None => "Nobody was heard by this CKN.".into(),
        Some(_) => format!(
            "{device}: of {} rules {holds} were seen to hold, {broken} to be broken; of {} nothing \
             was seen.",
            checks.len(),
            checks.len() - holds - broken
        ),
    };
    report.device = device;
    report.program = machine::program();
    report.machine = machine::describe();
    report.command = machine::command();
    report.date = machine::date();
    report.partial = partial;
    let words = |found: &Found| match found {
        Found::Holds(words) => ("holds", words.clone()),
        Found::Broken(words) => ("broken", words.clone()),
        Found::NotSeen(words) => ("not seen", words.clone()),
    };
    let table = Table::new("clauses", "What was seen")
        .column(Column::words("clause", checks.iter().map(|check| check.clause)))
        .column(Column::words("rule", checks.iter().map(|check| check.rule)))
        .column(Column::words("seen", checks.iter().map(|check| words(&check.found).0)))
        .column(Column::words("by", checks.iter().map(|check| words(&check.found).1)));
    report.sections.push(Section::new("Clauses of 802.1X-2020").table(table));
    report
}
