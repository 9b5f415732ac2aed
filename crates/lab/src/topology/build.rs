//! From a topology to a network that runs, with its hosts, its traffic and those
//! who watch over it.
//!
//! ```text
//!   Topology ─▶ nodes (engines audited: no nonce twice) ─┐
//!            ─▶ hosts with their parts of the traffic ───┼─ links, watched: no clear text
//!            ─▶ disturbances ────────────────────────────┘  outside
//! ```

use super::{Kind, LinkEnd, Topology, Traffic};
use crate::check::nonce::{Audited, NonceLedger};
use crate::check::oracle::Oracle;
use crate::check::watch::{Line, SharedOracle, Watch};
use crate::check::{Findings, Invariant};
use crate::host::{FLOWS_MAX, Flow, Host, HostConfig, Outcome, Schedule, payload};
use crate::link::{Direction, LinkSpec};
use crate::network::{DeviceId, End, LabError, LinkId, Network, StationId};
use crate::placing;
use crate::random::stream;
use ferrule_base::{Duration, Instant};

/// Hosts greet each other before their traffic starts, so that all on the way
/// have found their neighbours.
const GREETING: Instant = Instant::from_millis(40);
/// From one greeting to the next.
const GREETING_GAP: Duration = Duration::from_millis(30);
/// Greetings of a traffic entry.
const GREETINGS: u64 = 4;
/// Octets of a greeting's frame.
const GREETING_FRAME: usize = 98;
/// Time within which frames arrive that are under way when the traffic ends.
const LAST: Duration = Duration::from_secs(30);
/// Steps in which it passes.
const LAST_STEPS: u32 = 100;

/// Parameters of a run of a topology.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The seed of everything random.
    pub seed: u64,
    /// Time for which hosts send.
    pub length: Duration,
}

/// A topology in virtual time.
pub struct Lab {
    /// The network.
    pub network: Network,
    /// Its nodes, in the topology's order.
    pub devices: Vec<DeviceId>,
    /// Its hosts, in the topology's order.
    pub hosts: Vec<StationId>,
    /// Its links, in the topology's order.
    pub links: Vec<LinkId>,
    /// Broken invariants.
    pub findings: Findings,
    /// Every nonce.
    pub nonces: NonceLedger,
    length: Duration,
    flows: usize,
    loads: Vec<[f64; 2]>,
}

impl Topology {
    /// A network in virtual time, ready to run.
    pub fn build(&self, setting: Setting) -> Result<Lab, LabError> {
        let mut network = Network::new(setting.seed);
        let (findings, nonces) = (Findings::default(), NonceLedger::default());
        let names: Vec<String> = self.nodes.iter().map(|node| node.name.clone()).collect();
        let (ledger, found) = (nonces.clone(), findings.clone());
        network.engine_of(move |device, _, config, profile| {
            let name = names.get(device.0).map_or("?", String::as_str);
            Box::new(Audited::new(placing::engine(config, profile), name, &ledger, &found))
        });
        let mut devices = Vec::new();
        for node in &self.nodes {
            devices.push(network.node(&node.name, node.config.clone(), node.profile.clone())?);
        }
        let all: Vec<usize> = (0..self.traffic.len()).collect();
        let (hosts, links) = self.attach(&mut network, &devices, setting, &all)?;
        // The replay oracle remembers every packet: it is for the search by seed,
        // whose runs are short. Here it knows no device.
        let oracle = Oracle::new(&findings);
        let watch =
            Watch::new(self.lines(&devices), &payload::MARK, &SharedOracle::new(oracle), &findings);
        network.observe(Box::new(watch));
        for entry in &self.disturbances {
            network.at(entry.at, entry.what.change());
        }
        let (length, flows) = (setting.length, self.traffic.len());
        Ok(Lab {
            network,
            devices,
            hosts,
            links,
            findings,
            nonces,
            length,
            flows,
            loads: Vec::new(),
        })
    }

    /// Adds hosts with the traffic entries of `flows`, and links, to a network
    /// that has the nodes.
    pub(super) fn attach(
        &self,
        network: &mut Network,
        devices: &[DeviceId],
        setting: Setting,
        flows: &[usize],
    ) -> Result<(Vec<StationId>, Vec<LinkId>), LabError> {
        let mut hosts: Vec<Host> = self.hosts(setting.seed);
        for &flow in flows {
            if let Some(entry) = self.traffic.get(flow) {
                add(&mut hosts, flow as u32, entry, setting.length);
            }
        }
        let plans = self.hosts.iter().zip(hosts);
        let stations: Vec<StationId> =
            plans.map(|(plan, host)| network.station(&plan.name, Box::new(host))).collect();
        let mut links = Vec::new();
        for link in &self.links {
            let end = |end: &'_ LinkEnd| match end {
                LinkEnd::Host(host) => (None, stations.get(*host).copied()),
                LinkEnd::Node(node, _) => (devices.get(*node).copied(), None),
            };
            let [a, b] = [0, 1].map(|at| match (&link.ends[at], end(&link.ends[at])) {
                (LinkEnd::Node(_, port), (Some(device), _)) => Ok(End::Device(device, port)),
                (LinkEnd::Host(_), (_, Some(station))) => Ok(End::Station(station, 0)),
                (LinkEnd::Node(node, _), _) => Err(LabError::Unknown("device", *node)),
                (LinkEnd::Host(host), _) => Err(LabError::Unknown("station", *host)),
            });
            links.push(network.link(link.spec.clone(), a?, b?)?);
        }
        Ok((stations, links))
    }

    /// The hosts, without traffic.
    fn hosts(&self, seed: u64) -> Vec<Host> {
        let each = self.hosts.iter().enumerate().map(|(at, plan)| {
            let rate = self.link_of(at).and_then(|spec| spec.rate);
            Host::new(HostConfig {
                mac: plan.mac,
                addresses: plan.addresses.clone(),
                gateways: plan.gateways.clone(),
                mtu: plan.mtu,
                rate,
                seed: stream(seed, &plan.name, "host").next_u64(),
            })
        });
        each.collect()
    }

    fn link_of(&self, host: usize) -> Option<&LinkSpec> {
        let has = |end: &LinkEnd| *end == LinkEnd::Host(host);
        self.links.iter().find(|link| link.ends.iter().any(has)).map(|link| &link.spec)
    }

    /// The links, as the checkers know them.
    pub(super) fn lines(&self, devices: &[DeviceId]) -> Vec<Line> {
        let sender = |end: &LinkEnd| match end {
            LinkEnd::Host(_) => None,
            LinkEnd::Node(node, port) => {
                let ports = &self.nodes.get(*node)?.config.ports;
                let port = ports.iter().position(|p| p.name == *port)?;
                Some((*devices.get(*node)?, port))
            }
        };
        let each = self.links.iter().map(|link| Line {
            name: link.name.clone(),
            outside: link.outside,
            senders: [sender(&link.ends[0]), sender(&link.ends[1])],
        });
        each.collect()
    }
}

/// Gives both hosts of a traffic entry their parts.
fn add(hosts: &mut [Host], number: u32, entry: &Traffic, length: Duration) {
    let Traffic { kind, from, to, address, start, stop, count, window } = entry;
    let end = Instant::ZERO + length;
    let stop = stop.map_or(end, |stop| stop.min(end));
    let flow = Flow { number, to: *address };
    let (from, to) = (*from, *to);
    if from >= hosts.len() || to >= hosts.len() {
        return;
    }
    if *start > GREETING {
        let flow = Flow { number: number + FLOWS_MAX, ..flow };
        let until = GREETING + GREETING_GAP * GREETINGS as u32;
        let when =
            Schedule::every(GREETING_GAP).within(GREETING, until.min(*start), Some(GREETINGS));
        hosts[from].ping(flow, GREETING_FRAME, when);
    }
    match kind {
        Kind::Ping(size, schedule) => {
            hosts[from].ping(flow, *size, schedule.within(*start, stop, *count));
        }
        Kind::Udp(size, schedule) => {
            hosts[from].send_datagrams(flow, *size, schedule.within(*start, stop, *count));
            hosts[to].count_datagrams(flow);
        }
        Kind::Tcp(bytes) => {
            hosts[from].send_stream(flow, (*start, stop), *bytes, *window);
            hosts[to].take_stream(flow, *window);
        }
        Kind::Http(bytes, count) => {
            hosts[from].fetch(flow, (*start, stop), (*bytes, *count), *window);
            hosts[to].serve(flow, *window);
        }
    }
}

impl Lab {
    /// Lets hosts send for their time, and what is under way arrive.
    pub fn run(&mut self) {
        self.network.advance(Instant::ZERO + self.length);
        self.finish();
    }

    /// Lets what is under way arrive, and checks what must hold in every run.
    /// True if the network came to rest.
    pub fn finish(&mut self) -> bool {
        self.finish_unless(|| false)
    }

    /// The same, without waiting for what is under way once `stopped` is true.
    pub fn finish_unless(&mut self, stopped: impl Fn() -> bool) -> bool {
        self.loads = self.links.iter().map(|link| self.load_now(*link)).collect();
        let network = &mut self.network;
        let mut steps = 0..LAST_STEPS;
        let rest = steps.any(|_| !stopped() && network.run_until_idle(LAST / LAST_STEPS));
        if let Err(e) = self.network.audit() {
            self.findings.add(Invariant::Conservation, self.network.now(), &e.place, e.what);
        }
        for &id in &self.devices {
            let device = self.network.device(id);
            for failure in device.report().failures {
                let now = self.network.now();
                self.findings.add(Invariant::NodeWorks, now, device.name(), failure);
            }
        }
        rest
    }

    fn load_now(&self, link: LinkId) -> [f64; 2] {
        let (stats, now) = (self.network.link_stats(link), self.network.now());
        Direction::BOTH.map(|way| stats.of(way).load(now))
    }

    /// Load of each link, in the topology's order, by direction: the share of the time until hosts
    /// stopped sending for which frames had the line. Empty before the run is finished.
    pub fn loads(&self) -> &[[f64; 2]] {
        &self.loads
    }

    /// Results of the traffic entries, in the topology's order.
    pub fn outcomes(&mut self) -> Vec<Option<Outcome>> {
        outcomes(&mut self.network, &self.hosts, self.flows)
    }
}

/// Results of traffic entries, joined from the counts of both hosts.
pub(super) fn outcomes(
    network: &mut Network,
    hosts: &[StationId],
    flows: usize,
) -> Vec<Option<Outcome>> {
    let mut all: Vec<Option<Outcome>> = vec![None; flows];
    for &id in hosts {
        let Some(host) = network.station_mut::<Host>(id) else { continue };
        for (flow, place) in all.iter_mut().enumerate() {
            *place =
                place.take().into_iter().chain(host.outcome(flow as u32)).reduce(Outcome::join);
        }
    }
    all
}
