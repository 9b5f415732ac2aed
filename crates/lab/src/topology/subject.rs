//! A topology for the search by seed: the case says which traffic runs and what
//! is done to links and nodes; the topology's own impairments and disturbances
//! stay out of it.

use super::build::outcomes;
use super::{Setting, Topology};
use crate::check::{Built, Case, FlowSeen, NodePlan, Shape, Subject};
use crate::host::{Host, Outcome, payload};
use crate::impair::Impairments;
use crate::network::{DeviceId, LabError, Network, StationId};
use ferrule_base::{Duration, Instant};

/// Hosts do not begin before this: no address is tentative any more, and soon
/// afterwards the edge of each replay window is kept.
const SETTLED: Instant = Instant::from_millis(2980);

/// A topology that is checked.
pub struct TopologySubject {
    topology: Topology,
    plans: Vec<NodePlan>,
    protected: bool,
    length: Duration,
}

impl TopologySubject {
    /// Hosts send for `length` in each run.
    pub fn new(mut topology: Topology, length: Duration) -> Self {
        for link in &mut topology.links {
            (link.spec.impairments, link.spec.back) = (Impairments::default(), None);
        }
        topology.disturbances.clear();
        let plans = topology.nodes.iter().map(|node| NodePlan {
            name: node.name.clone(),
            config: node.config.clone(),
            profile: node.profile.clone(),
        });
        let (plans, protected) = (plans.collect(), topology.is_protected());
        Self { topology, plans, protected, length }
    }

    /// The topology.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }
}

impl Subject for TopologySubject {
    fn nodes(&self) -> &[NodePlan] {
        &self.plans
    }

    fn shape(&self) -> Shape {
        let starts = self.topology.traffic.iter().map(|entry| entry.start.as_nanos());
        Shape {
            start_ns: starts.max().unwrap_or(0).max(SETTLED.as_nanos()),
            length_ns: u64::try_from(self.length.as_nanos()).unwrap_or(u64::MAX),
            flows: self.topology.traffic.len(),
            links: self.topology.inner_links(),
            nodes: (0..self.plans.len()).collect(),
        }
    }

    fn build(
        &self,
        case: &Case,
        network: &mut Network,
        nodes: &[DeviceId],
    ) -> Result<Built, LabError> {
        let length = Duration::from_nanos(case.start_ns.saturating_add(case.length_ns));
        let setting = Setting { seed: case.seed, length };
        let start = Instant::from_nanos(case.start_ns);
        let mut topology = self.topology.clone();
        for entry in &mut topology.traffic {
            (entry.start, entry.stop) = (start, None);
        }
        topology.attach(network, nodes, setting, &case.flows)?;
        Ok(Built { lines: self.topology.lines(nodes), mark: payload::MARK.to_vec() })
    }

    fn flows(&self, case: &Case, network: &mut Network) -> Vec<FlowSeen> {
        let hosts: Vec<StationId> = (0..self.topology.hosts.len()).map(StationId).collect();
        let all = outcomes(network, &hosts, self.topology.traffic.len());
        let seen = case.flows.iter().map(|&flow| {
            let mut seen = FlowSeen {
                name: self.topology.traffic_name(flow),
                protected: self.protected,
                ..FlowSeen::default()
            };
            match all.get(flow).copied().flatten() {
                Some(Outcome::Ping(p)) => {
                    (seen.received, seen.duplicates) = (p.received, p.duplicates);
                }
                Some(Outcome::Udp(u)) => {
                    (seen.received, seen.duplicates) = (u.received, u.duplicates);
                    (seen.reordered, seen.broken) = (u.reordered, u.broken);
                }
                Some(Outcome::Tcp(t)) => {
                    // A stream has no packets that its receiver could count.
                    (seen.received, seen.broken) = ((t.received > 0).into(), t.broken.into());
                }
                Some(Outcome::Http(h)) => (seen.received, seen.broken) = (h.intact, h.broken),
                None => {}
            }
            seen
        });
        seen.collect()
    }

    fn delivered(&self, _: &Case, network: &mut Network) -> u64 {
        let of = |host: usize| network.station_mut::<Host>(StationId(host)).map(|h| h.delivered());
        (0..self.topology.hosts.len()).filter_map(of).sum()
    }
}

impl Topology {
    /// The links between nodes: a host's own cable is not impaired, for nothing
    /// protects it.
    fn inner_links(&self) -> Vec<usize> {
        let host =
            |link: &super::Link| link.ends.iter().any(|end| matches!(end, super::LinkEnd::Host(_)));
        (0..self.links.len()).filter(|&at| !host(&self.links[at])).collect()
    }

    /// True if a host's payload is protected wherever a seed may do something to it: on an
    /// untrusted link nothing passes in clear, and the protection includes replay protection.
    fn is_protected(&self) -> bool {
        self.inner_links().into_iter().all(|at| self.links[at].outside)
    }
}
