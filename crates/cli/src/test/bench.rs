//! Benches on which trials are run: over real ports (opened here, a thread for each side, the
//! clock) or in virtual time (see `virtual_time.rs`).

use super::device;
use super::outlook::Outlook;
use ferrule_base::{Instant, MacAddr};
use ferrule_daemon::{Blame, Fault};
use ferrule_ports::xdp::XdpMode;
use ferrule_ports::{Link, OpenError, OpenFault, Opener, PortSpec, Umem, region};
use ferrule_tester::live::LEAD;
use ferrule_tester::responder::{Home, Responder, answer, question};
use ferrule_tester::trial::PortResult;
use ferrule_tester::{About, Bench, BenchError, Leg, Side, Tally, Trial, TrialResult, TrialSpec};
use std::io::{IsTerminal, Write};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Chunks that an AF_XDP port keeps ready for receiving.
const BUDGET: usize = 2048;
/// Octets of a chunk that are no frame's.
const CHUNK_SPARE: usize = 512;
/// How often, and for how long, an address is asked for.
const ASK_EVERY: Duration = Duration::from_millis(300);
const ASK_TIMES: u32 = 10;
/// Interval at which progress is shown.
const PROGRESS: Duration = Duration::from_millis(500);

/// A port as it is named on the command line: `af-xdp:eth0`, `af-xdp:eth0:1`,
/// `af-packet:eth0`.
#[derive(Clone, Debug)]
pub struct PortName {
    text: String,
    interface: String,
    spec: PortSpec,
}

impl std::str::FromStr for PortName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` is no port: write af-xdp:NAME, af-xdp:NAME:QUEUE or af-packet:NAME")
        };
        let (driver, rest) = text.split_once(':').ok_or_else(wrong)?;
        let (interface, queue) = match rest.split_once(':') {
            Some((name, queue)) => (name, Some(queue.parse().map_err(|_| wrong())?)),
            None => (rest, None),
        };
        let interface = interface.to_owned();
        let spec = match (driver, queue) {
            _ if interface.is_empty() => return Err(wrong()),
            ("af-xdp", queue) => PortSpec::Xdp {
                interface: interface.clone(),
                queue: queue.unwrap_or(0),
                mode: XdpMode::Auto,
                budget: BUDGET,
            },
            ("af-packet", None) => {
                PortSpec::Packet { interface: interface.clone(), promiscuous: true }
            }
            _ => return Err(wrong()),
        };
        Ok(Self { text: text.into(), interface, spec })
    }
}

pub fn fault(error: &OpenError) -> Fault {
    let blame = match error.fault {
        OpenFault::MissingInterface => Blame::Configuration,
        _ => Blame::Environment,
    };
    let said = error.source.as_ref().map_or(String::new(), |s| format!(": {s}"));
    Fault::new(blame, format!("{}{said}", error.what), &error.remedy)
}

/// Kind of reset.
#[derive(Clone, Debug)]
pub enum ResetBy {
    /// In the lab: this node ends, and starts again so much later.
    Node {
        /// Its name.
        name: String,
        /// How long it is down.
        down: Duration,
    },
    /// A command of the shell resets the device.
    Command(String),
}

/// A bench that knows its ports' addresses.
pub trait Instrument: Bench {
    /// The ports' own.
    fn macs(&self) -> Vec<MacAddr>;

    /// From and to which IP address frames go if nothing is said.
    fn ends(&self) -> Option<(IpAddr, IpAddr)> {
        None
    }

    /// Next hop at a port for the way from one address to another, if none is given; nothing: the
    /// other port is next.
    fn next_hop(&mut self, _port: usize, _from: IpAddr, _to: IpAddr) -> Option<IpAddr> {
        None
    }

    /// Gives the bench the outlook, from which it shows the remaining time where trials are long.
    fn show(&mut self, _outlook: &Outlook) {}

    /// Trials are of this piece of the work from now on.
    fn begin(&mut self, _piece: u64) {}

    /// Sets the addresses behind each port, for which the tester answers ARP and neighbour
    /// solicitations.
    fn answer_for(&mut self, homes: Vec<Vec<Home>>);

    /// Says what a reset is.
    fn reset_by(&mut self, by: &ResetBy) -> Result<(), Fault>;

    /// Asks at a port who has `wanted`; `own` is the address that asks.
    fn resolve(&mut self, port: usize, own: IpAddr, wanted: IpAddr) -> Result<MacAddr, Fault>;
}

/// Fault of a port where no answer came.
pub fn silent(port: &str, wanted: IpAddr) -> Fault {
    Fault::environment(
        format!("nobody at {port} answers for {wanted}"),
        "see whether the device under test is up, or give --dst-mac",
    )
}

/// A command that resets the device when its time comes.
struct Resetting {
    at: std::time::Instant,
    command: String,
    state: Reset,
}

enum Reset {
    Due,
    Running(Child),
    Done,
    Failed(String),
}

impl Resetting {
    /// Looks after the reset; true if it failed.
    fn fails(&mut self) -> bool {
        match &mut self.state {
            Reset::Due if std::time::Instant::now() >= self.at => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &self.command]).stdin(Stdio::null());
                // The command's output is no part of the answer.
                shell.stdout(Stdio::null()).stderr(Stdio::inherit());
                self.state = match shell.spawn() {
                    Ok(child) => Reset::Running(child),
                    Err(e) => Reset::Failed(format!("sh: {e}")),
                };
            }
            Reset::Running(child) => match child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) if status.success() => self.state = Reset::Done,
                Ok(Some(status)) => self.state = Reset::Failed(status.to_string()),
                Err(e) => self.state = Reset::Failed(e.to_string()),
            },
            _ => {}
        }
        matches!(self.state, Reset::Failed(_))
    }

    /// Waits for its end.
    fn done(mut self) -> Result<(), BenchError> {
        let failed = |how: &str| {
            BenchError::Broken(format!("`{}`, which resets the device: {how}", self.command))
        };
        match &mut self.state {
            Reset::Due => Err(failed("the trial ended before its time")),
            Reset::Failed(how) => Err(failed(how)),
            Reset::Done => Ok(()),
            Reset::Running(child) => match child.wait() {
                Ok(status) if status.success() => Ok(()),
                Ok(status) => Err(failed(&status.to_string())),
                Err(e) => Err(failed(&e.to_string())),
            },
        }
    }
}

/// Options of the command line for the ports' threads, lines and frames.
#[derive(Clone, Copy, Debug)]
pub struct Wiring {
    /// One thread for all ports, or one for each.
    pub threads: usize,
    /// The rate of the lines in bit/s.
    pub line: Option<u64>,
    /// The longest frame that is sent, with FCS.
    pub longest: usize,
}

/// Octets of a frame beside what an MTU counts, and of a VLAN tag.
const AROUND: usize = 18;
const TAG: usize = 4;

/// Note about frames that the tester's own port does not pass on whole.
fn too_long(port: &str, mtu: usize, longest: usize) -> Option<String> {
    (longest > mtu + AROUND + TAG).then(|| {
        format!(
            "Frames of up to {longest} octets are longer than the MTU of {port} ({mtu}) lets pass: the \
             tester's own interface cuts or refuses them. Raise it on both ends."
        )
    })
}

/// Real ports, and what stands behind them.
pub struct LiveBench {
    sides: Vec<Side>,
    start: std::time::Instant,
    epoch: u16,
    about: About,
    macs: Vec<MacAddr>,
    homes: Vec<Vec<Home>>,
    stop: Arc<AtomicBool>,
    shows_progress: bool,
    command: Option<String>,
    reset_at: Option<Duration>,
    outlook: Outlook,
    /// Result of a trial that was stopped early.
    stopped: Option<TrialResult>,
}

impl LiveBench {
    /// Opens the ports.
    pub fn open(names: &[PortName], wiring: Wiring, stop: Arc<AtomicBool>) -> Result<Self, Fault> {
        let chunk = (wiring.longest + CHUNK_SPARE).max(2048).next_power_of_two();
        let chunks = names.len() * BUDGET * 4;
        let (pool, _) = region::pool(chunks, chunk.min(32_768)).map_err(|e| {
            Fault::environment(
                format!("{chunks} buffers of {chunk} octets: {e}"),
                "free some memory",
            )
        })?;
        let umem = Umem::new(&pool);
        let (mut opener, mut ports, mut macs) = (Opener::new(), Vec::new(), Vec::new());
        let mut notes = Vec::new();
        for name in names {
            let link = Link::by_name(&name.interface).map_err(|e| fault(&e))?;
            macs.push(link.mac);
            notes.extend(too_long(&name.text, link.mtu as usize, wiring.longest));
            let port = opener.open(&name.spec).and_then(|opened| opened.start(&umem));
            ports.push(port.map_err(|e| fault(&e))?);
        }
        let sides = if wiring.threads > 1 {
            ports.into_iter().map(|port| Side::new(vec![port], pool.cache())).collect()
        } else {
            vec![Side::new(ports, pool.cache())]
        };
        let interfaces: Vec<&str> = names.iter().map(|n| n.interface.as_str()).collect();
        let about = About {
            device: device::between(&interfaces),
            notes,
            ports: names.iter().map(|n| n.text.clone()).collect(),
            line: wiring.line,
            clock: "the monotonic clock of this machine, for both ends".into(),
            is_virtual: false,
        };
        Ok(Self {
            sides,
            start: std::time::Instant::now(),
            epoch: 0,
            about,
            homes: vec![Vec::new(); names.len()],
            macs,
            stop,
            shows_progress: std::io::stderr().is_terminal(),
            command: None,
            reset_at: None,
            outlook: Outlook::default(),
            stopped: None,
        })
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    fn counts(&self) -> Vec<PortResult> {
        self.sides.iter().flat_map(Side::counts).collect()
    }

    /// Drives all sides, each in a thread, and shows progress meanwhile.
    ///
    /// Runs the command that resets the device meanwhile, if its time comes.
    fn drive(
        &mut self,
        legs: &mut [Leg],
        spec: &TrialSpec,
        mut reset: Option<Resetting>,
    ) -> Result<Tally, BenchError> {
        let tally = Tally::new(self.sides.len());
        let start = self.start;
        let clock = move || Instant::from_nanos(start.elapsed().as_nanos() as u64);
        let each = if self.sides.len() > 1 { 1 } else { legs.len() };
        let (stop, shows, outlook) = (&self.stop, self.shows_progress, &self.outlook);
        let long = spec.timing.total() > Duration::from_secs(2);
        std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .sides
                .iter_mut()
                .zip(legs.chunks_mut(each))
                .map(|(side, legs)| {
                    let tally = &tally;
                    scope.spawn(move || side.drive(legs, tally, clock, std::hint::spin_loop))
                })
                .collect();
            let (begun, mut shown) = (std::time::Instant::now(), Duration::ZERO);
            while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                if stop.load(Ordering::Relaxed) {
                    tally.stop();
                }
                if reset.as_mut().is_some_and(Resetting::fails) {
                    tally.stop();
                }
                std::thread::sleep(Duration::from_millis(2));
                if shows && long && begun.elapsed() >= shown + PROGRESS {
                    shown = begun.elapsed();
                    let (sent, arrived) = tally.progress();
                    let secs = shown.as_secs();
                    let left = outlook.words();
                    eprint!("\r\x1b[K  {secs:>4} s  {sent} frames sent, {arrived} arrived{left}");
                    let _ = std::io::stderr().flush();
                }
            }
            if shown > Duration::ZERO {
                eprint!("\r\x1b[K");
            }
        });
        reset.map_or(Ok(()), Resetting::done)?;
        Ok(tally)
    }
}

impl Instrument for LiveBench {
    fn macs(&self) -> Vec<MacAddr> {
        self.macs.clone()
    }

    fn show(&mut self, outlook: &Outlook) {
        self.outlook = outlook.clone();
    }

    fn reset_by(&mut self, by: &ResetBy) -> Result<(), Fault> {
        let ResetBy::Command(command) = by else {
            let remedy = "give the command that resets the device with --command";
            return Err(Fault::new(Blame::Configuration, "real ports have no nodes", remedy));
        };
        self.command = Some(command.clone());
        Ok(())
    }

    fn answer_for(&mut self, homes: Vec<Vec<Home>>) {
        self.homes = homes;
        self.homes.resize_with(self.about.ports.len(), Vec::new);
    }

    fn resolve(&mut self, port: usize, own: IpAddr, wanted: IpAddr) -> Result<MacAddr, Fault> {
        let missing = || silent(&self.about.ports[port], wanted);
        let mac = self.macs[port];
        let question = question(mac, own, wanted).ok_or_else(missing)?;
        let (side, place) = if self.sides.len() > 1 { (port, 0) } else { (0, port) };
        for _ in 0..ASK_TIMES {
            let until = self.now() + ASK_EVERY;
            let now = self.now();
            self.sides[side].send(now, place, &question);
            while self.now() < until && !self.stop.load(Ordering::Relaxed) {
                let (now, mut found) = (self.now(), None);
                self.sides[side].look(now, place, |frame| found = found.or(answer(frame, wanted)));
                if let Some(mac) = found {
                    return Ok(mac);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Err(silent(&self.about.ports[port], wanted))
    }
}

impl Bench for LiveBench {
    fn about(&self) -> About {
        self.about.clone()
    }

    fn interrupted(&mut self) -> Option<TrialResult> {
        self.stopped.take()
    }

    fn reset_at(&mut self, after: Duration) -> Result<(), BenchError> {
        if self.command.is_none() {
            return Err(BenchError::Broken("no command is named that resets the device".into()));
        }
        self.reset_at = Some(after);
        Ok(())
    }

    fn trial(&mut self, spec: &TrialSpec) -> Result<TrialResult, BenchError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(BenchError::Stopped);
        }
        if !self.sides.iter().all(Side::is_up) {
            let ports = self.about.ports.join(", ");
            return Err(BenchError::Broken(format!("a port is down, one of {ports}")));
        }
        self.epoch = self.epoch.wrapping_add(1);
        let answers = self.homes.iter().map(|h| Responder::new(h.clone())).collect();
        let mut trial = Trial::new(spec, self.about.ports.len(), self.epoch, answers)?;
        let now = self.now();
        self.sides.iter_mut().for_each(|side| side.flush(now));
        let before = self.counts();
        let begin = self.start.elapsed() + LEAD;
        trial.start(Instant::ZERO + begin);
        let reset = self.reset_at.take().zip(self.command.clone());
        let reset = reset.map(|(after, command)| {
            let at = self.start + begin + spec.timing.warm_up + after;
            Resetting { at, command, state: Reset::Due }
        });
        let mut legs = trial.take_legs();
        let tally = self.drive(&mut legs, spec, reset)?;
        let measured = self.start.elapsed().saturating_sub(begin + spec.timing.warm_up);
        let mut result = trial.finish_legs(legs);
        let counts = self.counts().into_iter().zip(before);
        let since = |(now, then): (PortResult, PortResult)| PortResult {
            tx_failed: now.tx_failed.saturating_sub(then.tx_failed),
            rx_missed: now.rx_missed.saturating_sub(then.rx_missed),
        };
        result.ports = counts.map(since).collect();
        if tally.is_stopped() {
            self.stopped = (!measured.is_zero()).then(|| result.until(measured));
            return Err(BenchError::Stopped);
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_longer_than_the_testers_own_mtu_are_told_of() {
        assert_eq!(too_long("af-packet:a", 1500, 1518), None);
        assert_eq!(too_long("af-packet:a", 1500, 1522), None, "a VLAN tag is no part of it");
        let note = too_long("af-packet:a", 1400, 1518).expect("a note");
        assert!(note.contains("af-packet:a (1400)"), "{note}");
    }

    #[test]
    fn ports_are_named_by_driver_interface_and_queue() {
        let port: PortName = "af-xdp:eth0:3".parse().unwrap();
        assert!(matches!(port.spec, PortSpec::Xdp { queue: 3, .. }));
        assert!("af-packet:eth0".parse::<PortName>().is_ok());
        for bad in ["", "eth0", "af-xdp:", "af-packet:eth0:1", "dpdk:eth0", "af-xdp:eth0:x"] {
            assert!(bad.parse::<PortName>().is_err(), "{bad}");
        }
    }
}
