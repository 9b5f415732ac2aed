//! The instrument in virtual time: a station that runs a trial, and a bench of it.
//!
//! ```text
//!        ┌──────────── tester: one station ────────────┐
//!        │ port 0                               port 1 │
//!        └───┼─────────────────────────────────────┼───┘
//!            └── link ── [ what is tested ] ── link ┘
//! ```
//!
//! The trial is the value that `ferrule test` drives over real ports: only the
//! clock differs. It stands here, and not beside the studies, because whatever
//! builds a network (a topology, a study, a test of a link) wants to put the
//! instrument into it; the tester itself knows nothing of the laboratory.

use crate::change::Change;
use crate::network::{DeviceId, End, LabError, Network, StationId};
use crate::observe::{Observer, Sighting};
use crate::station::{Io, Station};
use crate::topology::{HostPlan, LinkEnd, Topology};
use ferrule_base::{Duration, Instant, Ledger, MacAddr};
use ferrule_pipeline::{Batch, Packet};
use ferrule_tester::responder::{Home, Responder, answer, question};
use ferrule_tester::sink::is_fragment;
use ferrule_tester::trial::LINGER;
use ferrule_tester::{About, Bench, BenchError, Trial, TrialResult, TrialSpec};
use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// From the call to the first frame that is due.
const LEAD: Duration = Duration::from_millis(1);
/// Interval at which a trial checks if it was stopped.
const STOP_LOOK: Duration = Duration::from_millis(10);
/// Interval at which a trial checks if every frame is accounted for.
const LOOK: Duration = Duration::from_millis(1);

/// Time between requests for an address, and their number.
const ASK: Duration = Duration::from_millis(100);
const ASK_TIMES: u32 = 5;
/// Packet buffers of a network with a tester in it.
const BUFFERS: usize = 1 << 16;

/// A question for an address, before any trial.
struct Asking {
    port: usize,
    frame: Vec<u8>,
    wanted: IpAddr,
    is_sent: bool,
    found: Option<MacAddr>,
}

/// A station that runs trials.
#[derive(Default)]
pub struct TesterStation {
    trial: Option<Trial>,
    asking: Option<Asking>,
    ports: usize,
    batch: Batch,
    now: Instant,
    ledger: Ledger,
}

impl TesterStation {
    /// With so many ports, each to be linked.
    pub fn new(ports: usize) -> Self {
        Self { ports, ..Self::default() }
    }

    /// Starts a trial.
    fn begin(&mut self, trial: Trial, now: Instant) {
        self.trial = Some(trial);
        self.now = now;
    }
}

impl Station for TesterStation {
    fn receive(&mut self, io: &mut Io<'_>, port: usize, packet: Packet) {
        self.now = io.now;
        self.ledger.received += 1;
        self.ledger.consumed += 1;
        if let Some(trial) = &mut self.trial {
            trial.handle(io.now, port, &packet);
        } else if let Some(asking) = self.asking.as_mut().filter(|a| a.port == port) {
            asking.found = asking.found.or(answer(packet.data(), asking.wanted));
        }
        io.cache.recycle(packet);
    }

    fn wake(&mut self, io: &mut Io<'_>) {
        self.now = io.now;
        if let Some(asking) = self.asking.as_mut().filter(|a| !a.is_sent) {
            asking.is_sent = true;
            if let Some(packet) = io.cache.packet_from(&asking.frame) {
                (self.ledger.made, self.ledger.sent) = (self.ledger.made + 1, self.ledger.sent + 1);
                io.sent.push((asking.port, packet));
            }
        }
        let Some(trial) = &mut self.trial else { return };
        for port in 0..self.ports {
            // Whatever is due now leaves now, however many frames that are.
            loop {
                trial.emit(io.now, port, io.cache, &mut self.batch);
                if self.batch.is_empty() {
                    break;
                }
                self.ledger.made += self.batch.len() as u64;
                self.ledger.sent += self.batch.len() as u64;
                io.sent.extend(self.batch.drain(..).map(|packet| (port, packet)));
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.asking.as_ref().is_some_and(|a| !a.is_sent) {
            return Some(self.now);
        }
        self.trial.as_ref()?.poll_timeout(self.now)
    }

    fn ledger(&self) -> Ledger {
        self.ledger
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// A network with a tester in it, as a bench.
pub struct LabBench {
    network: Network,
    tester: StationId,
    ports: Vec<String>,
    line: Option<u64>,
    homes: Vec<Vec<Home>>,
    epoch: u16,
    /// Reset of the device under test: the device that ends, and the time after which it starts
    /// again.
    resets: Option<(DeviceId, Duration)>,
    /// In the next trial, so long after its measurement begins.
    reset_at: Option<Duration>,
    device: String,
    /// Set to end the trial early.
    stop: Arc<AtomicBool>,
    /// Result of a trial that was stopped early.
    stopped: Option<TrialResult>,
}

/// Counts the fragments of IP packets on all links.
#[derive(Default)]
struct Cuts(u64);

impl Observer for Cuts {
    fn sent(&mut self, _: &Sighting, frame: &[u8]) {
        self.0 += u64::from(is_fragment(frame));
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

impl LabBench {
    /// `tester` is a [`TesterStation`] of the network whose ports have these
    /// names and lead to lines of this rate.
    pub fn new(
        mut network: Network,
        tester: StationId,
        ports: Vec<String>,
        line: Option<u64>,
    ) -> Self {
        network.observe(Box::new(Cuts::default()));
        let nodes: Vec<_> = network.devices().iter().map(|d| d.name().to_owned()).collect();
        let device = match &nodes[..] {
            [] => "lines alone, in virtual time".into(),
            nodes => format!("{} in virtual time", nodes.join(", ")),
        };
        Self {
            network,
            tester,
            homes: vec![Vec::new(); ports.len()],
            ports,
            line,
            epoch: 0,
            resets: None,
            reset_at: None,
            device,
            stop: Arc::default(),
            stopped: None,
        }
    }

    /// Trials end soon after `stop` becomes true.
    pub fn stop_when(&mut self, stop: Arc<AtomicBool>) {
        self.stop = stop;
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Lets time go on until then; false if the trial was stopped before.
    fn run(&mut self, until: Instant) -> bool {
        while self.network.now() < until && !self.is_stopped() {
            self.network.advance((self.network.now() + STOP_LOOK).min(until));
        }
        self.network.run_until(self.network.now());
        !self.is_stopped()
    }

    /// The network of a topology, with the tester's ports in place of hosts (by
    /// index, one port each). The other hosts and the traffic are left out.
    pub fn between(topology: &Topology, seed: u64, hosts: &[usize]) -> Result<Self, LabError> {
        let mut network = Network::with_buffers(seed, BUFFERS);
        let mut devices = Vec::new();
        for node in &topology.nodes {
            devices.push(network.node(&node.name, node.config.clone(), node.profile.clone())?);
        }
        let tester = network.station("tester", Box::new(TesterStation::new(hosts.len())));
        let mut line = None;
        for link in &topology.links {
            let place = |end: &'_ LinkEnd| match end {
                LinkEnd::Node(node, _) => devices.get(*node).copied().ok_or(None),
                LinkEnd::Host(host) => Err(hosts.iter().position(|h| h == host)),
            };
            let [a, b] = [0, 1].map(|i| match (place(&link.ends[i]), &link.ends[i]) {
                (Ok(device), LinkEnd::Node(_, port)) => Some(End::Device(device, port)),
                (Err(Some(port)), _) => Some(End::Station(tester, port)),
                _ => None,
            });
            if let (Some(a), Some(b)) = (a, b) {
                if matches!(a, End::Station(..)) || matches!(b, End::Station(..)) {
                    line = line.max(link.spec.rate);
                }
                network.link(link.spec.clone(), a, b)?;
            }
        }
        let name = |&host: &usize| topology.hosts.get(host).map_or("?", |h| h.name.as_str());
        let ports = hosts.iter().map(|host| name(host).to_owned()).collect();
        let mut bench = Self::new(network, tester, ports, line);
        let variant = topology.variant.as_ref().map_or(String::new(), |v| format!(", {v}"));
        bench.device = format!("network {}{variant}: {}", topology.name, bench.device);
        Ok(bench)
    }

    /// Asks at a port who has `wanted`; nothing if no answer comes.
    pub fn resolve(
        &mut self,
        port: usize,
        (mac, own): (MacAddr, IpAddr),
        wanted: IpAddr,
    ) -> Result<Option<MacAddr>, BenchError> {
        let Some(frame) = question(mac, own, wanted) else { return Ok(None) };
        for _ in 0..ASK_TIMES {
            let now = self.network.now();
            let station = self.station()?;
            let (frame, is_sent, found) = (frame.clone(), false, None);
            station.now = now;
            station.asking = Some(Asking { port, frame, wanted, is_sent, found });
            self.network.run_until(now + ASK);
            let asked = self.station()?.asking.take();
            if let Some(mac) = asked.and_then(|a| a.found) {
                return Ok(Some(mac));
            }
        }
        Ok(None)
    }

    /// Sets the addresses behind each port, for which the tester answers ARP and neighbour
    /// solicitations.
    pub fn answer_for(&mut self, homes: Vec<Vec<Home>>) {
        self.homes = homes;
    }

    /// A reset, when one is asked for, ends the node of this name as `kill -9`
    /// does; it starts again so much later. Whether there is such a node.
    pub fn reset_node(&mut self, name: &str, down: Duration) -> bool {
        let found = self.network.devices().iter().position(|device| device.name() == name);
        self.resets = found.map(|place| (DeviceId(place), down));
        found.is_some()
    }

    /// The network.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    fn cut(&mut self) -> u64 {
        self.network.observer::<Cuts>().map_or(0, |cuts| cuts.0)
    }

    fn station(&mut self) -> Result<&mut TesterStation, BenchError> {
        let found = self.network.station_mut::<TesterStation>(self.tester);
        found.ok_or_else(|| BenchError::Broken("the station is no tester".into()))
    }
}

impl Bench for LabBench {
    fn about(&self) -> About {
        About {
            device: self.device.clone(),
            notes: Vec::new(),
            ports: self.ports.clone(),
            line: self.line,
            clock: "virtual time".into(),
            is_virtual: true,
        }
    }

    fn reset_at(&mut self, after: Duration) -> Result<(), BenchError> {
        if self.resets.is_none() {
            return Err(BenchError::Broken("no node is named that a reset ends".into()));
        }
        self.reset_at = Some(after);
        Ok(())
    }

    fn interrupted(&mut self) -> Option<TrialResult> {
        self.stopped.take()
    }

    fn trial(&mut self, spec: &TrialSpec) -> Result<TrialResult, BenchError> {
        if self.is_stopped() {
            return Err(BenchError::Stopped);
        }
        let cut = self.cut();
        self.epoch = self.epoch.wrapping_add(1);
        let answers = self.homes.iter().map(|h| Responder::new(h.clone())).collect();
        let mut trial = Trial::new(spec, self.ports.len(), self.epoch, answers)?;
        let now = self.network.now();
        trial.start(now + LEAD);
        self.station()?.begin(trial, now);
        if let (Some(after), Some((device, down))) = (self.reset_at.take(), self.resets) {
            let at = now + LEAD + spec.timing.warm_up + after;
            self.network.at(at, Change::Restart(device, down));
        }
        let sent = now + LEAD + spec.timing.warm_up + spec.timing.duration + spec.timing.grace;
        let over = sent + spec.timing.drain;
        let stopped = !self.run(sent);
        let measured = self.network.now().since(now + LEAD + spec.timing.warm_up);
        if let Some(trial) = self.station()?.trial.as_mut().filter(|_| stopped) {
            trial.end();
        }
        let over = if stopped { self.network.now() + spec.timing.drain } else { over };
        while self.network.now() < over {
            if self.station()?.trial.as_ref().is_some_and(Trial::is_settled) {
                let linger = (self.network.now() + LINGER).min(over);
                self.network.run_until(linger);
                break;
            }
            let next = (self.network.now() + LOOK).min(over);
            self.network.advance(next);
        }
        let gone = || BenchError::Broken("the trial is gone".into());
        let mut result = self.station()?.trial.take().map(Trial::finish).ok_or_else(gone)?;
        result.cut = self.cut() - cut;
        if !stopped {
            return Ok(result);
        }
        self.stopped = (!measured.is_zero()).then(|| result.until(measured));
        Err(BenchError::Stopped)
    }
}

/// Next hop of a host on the way to an address.
pub fn next_hop(from: &HostPlan, own: IpAddr, to: IpAddr) -> Option<IpAddr> {
    let len = from.addresses.iter().find(|a| a.0 == own).map_or(0, |a| a.1);
    let near = match (own, to) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            (a.to_bits() ^ b.to_bits()).leading_zeros() >= u32::from(len)
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            (a.to_bits() ^ b.to_bits()).leading_zeros() >= u32::from(len)
        }
        _ => return None,
    };
    if near {
        return Some(to);
    }
    from.gateways.iter().find(|g| g.is_ipv4() == own.is_ipv4()).copied()
}
