//! A topology on real interfaces, looked at: `ferrule lab up --web`.
//!
//! Each node is a process of its own and is asked over its management socket, as
//! `ferrule show` does; links are known by what the nodes' ports at their ends
//! count. A link between two hosts counts nothing that we see.

use super::view::{end, host, tunnels};
use ferrule_daemon::api::{Client, Reply, Request};
use ferrule_daemon::report::{PortView, Report};
use ferrule_daemon::watch;
use ferrule_dashboard::state::{Event, Kind, Link, LinkKind, Node, SCHEMA, State, Way};
use ferrule_dashboard::{Command, Dashboard, Refusal, Source};
use ferrule_lab::topology::{LinkEnd, Topology};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long it waits for questions at a time.
const WAIT: Duration = Duration::from_millis(100);
/// Events that are kept at most.
const EVENTS_MAX: usize = 100;

/// A network that stands.
pub struct Site<'a> {
    /// Its topology.
    pub topology: &'a Topology,
    /// The management socket of each node, in the topology's order.
    pub sockets: Vec<PathBuf>,
    /// The two ends of each link, in the topology's order: namespace and device.
    pub cables: Vec<[(String, String); 2]>,
}

struct Desk<'a> {
    site: Site<'a>,
    begun: Instant,
    events: VecDeque<Event>,
    number: u64,
}

/// Serves a dashboard until the process is told to stop. The network stays.
pub fn watch(site: Site<'_>, listener: TcpListener, say: impl FnOnce(&str)) -> io::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let mut dashboard = Dashboard::serve(listener, || ())?;
    say(&dashboard.address());
    let mut desk = Desk { site, begun: Instant::now(), events: VecDeque::new(), number: 0 };
    while !stop.load(Ordering::Relaxed) {
        dashboard.turn_within(&mut desk, WAIT);
    }
    Ok(())
}

impl Desk<'_> {
    /// Report of each node; nothing for one that does not answer.
    fn reports(&self) -> Vec<Option<Report>> {
        let ask = |socket: &PathBuf| match Client::connect(socket).ok()?.ask(&Request::Show {}) {
            Ok(Reply::Report(report)) => Some(*report),
            _ => None,
        };
        self.site.sockets.iter().map(ask).collect()
    }

    fn link(&self, at: usize, reports: &[Option<Report>]) -> Option<Link> {
        let cable = self.site.topology.links.get(at)?;
        let port = |end: &LinkEnd| -> Option<Option<PortView>> {
            let LinkEnd::Node(node, port) = end else { return None };
            let report = reports.get(*node)?.as_ref();
            Some(report.and_then(|r| r.ports.iter().find(|p| p.name == *port).cloned()))
        };
        let [a, b] = [0, 1].map(|i| port(&cable.ends[i]));
        // A node that is there says more than one that is not.
        let up = [&a, &b].into_iter().flatten().all(|p| p.as_ref().is_some_and(|p| p.up));
        let [a, b] = [a.flatten(), b.flatten()];
        let way = |from: &Option<PortView>, to: &Option<PortView>| {
            let (packets, octets) = match (to, from) {
                (Some(to), _) => (to.rx_packets, to.rx_octets),
                (None, Some(from)) => (from.tx_packets, from.tx_octets),
                (None, None) => (0, 0),
            };
            let missed = to.as_ref().map_or(0, |p| p.rx_missed);
            let failed = from.as_ref().map_or(0, |p| p.tx_failed);
            Way { packets, octets, lost: missed + failed, queued: 0 }
        };
        Some(Link {
            name: cable.name.clone(),
            kind: LinkKind::Wire,
            ends: [0, 1].map(|i| end(self.site.topology, &cable.ends[i])),
            up,
            outside: cable.outside,
            rate_bps: None,
            delay_ns: None,
            loss: None,
            ways: [way(&a, &b), way(&b, &a)],
        })
    }

    /// Takes the device of a node's end down or up: a host's would lose its routes.
    fn set(&mut self, name: &str, up: bool) -> Result<(), Refusal> {
        let topology = self.site.topology;
        let at = topology.links.iter().position(|l| l.name == name);
        let at = at.ok_or_else(|| Refusal(format!("there is no link `{name}`")))?;
        let ends = topology.links[at].ends.iter().zip(&self.site.cables[at]);
        let mut nodes = ends.filter(|(end, _)| matches!(end, LinkEnd::Node(..)));
        let Some((_, (space, device))) = nodes.next() else {
            return Err(Refusal("no node is at this link".into()));
        };
        let way = if up { "up" } else { "down" };
        let ip = ["-n", space, "link", "set", "dev", device, way];
        let done = std::process::Command::new("ip").args(ip).output();
        match done {
            Ok(done) if done.status.success() => {}
            Ok(done) => return Err(Refusal(String::from_utf8_lossy(&done.stderr).into_owned())),
            Err(e) => return Err(Refusal(format!("ip: {e}"))),
        }
        self.number += 1;
        let at_ns = u64::try_from(self.begun.elapsed().as_nanos()).ok();
        let text = format!("link {name} goes {way}");
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(Event { number: self.number, at_ns, text });
        Ok(())
    }
}

/// A node that answers, or one that does not.
fn node(config: &ferrule_node::Config, name: &str, report: Option<&Report>) -> Node {
    let blank = Report { node: name.into(), ..Report::default() };
    let mut node = watch::node(report.unwrap_or(&blank), config);
    node.name = name.into();
    node.up = report.is_some();
    node
}

impl Source for Desk<'_> {
    fn state(&mut self) -> State {
        let topology = self.site.topology;
        let reports = self.reports();
        let mut nodes: Vec<Node> = topology.hosts.iter().map(host).collect();
        let (mut sas, mut drops) = (Vec::new(), Vec::new());
        for (plan, report) in topology.nodes.iter().zip(&reports) {
            nodes.push(node(&plan.config, &plan.name, report.as_ref()));
            if let Some(report) = report {
                sas.extend(watch::sas(report, &plan.config));
                drops.extend(watch::drops(report));
            }
        }
        let wires = (0..topology.links.len()).filter_map(|at| self.link(at, &reports));
        let mut links: Vec<Link> = wires.collect();
        links.extend(tunnels(topology, &sas));
        State {
            schema: SCHEMA.into(),
            kind: Kind::Live,
            name: topology.name.clone(),
            about: format!("{}, on real interfaces", topology.about),
            now_ns: u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX),
            run: None,
            commands: vec!["link".into()],
            nodes,
            links,
            sas,
            drops,
            histograms: Vec::new(),
            flows: Vec::new(),
            events: self.events.iter().cloned().collect(),
        }
    }

    fn command(&mut self, command: Command) -> Result<(), Refusal> {
        match command {
            Command::Link { link, up: Some(up), loss: None, delay_ns: None } => self.set(&link, up),
            _ => Err(Refusal("on real interfaces a link is taken down or brought up".into())),
        }
    }
}
