//! Trials in virtual time: a topology, with the tester in place of its hosts.

use super::bench::{Instrument, ResetBy, silent};
use ferrule_base::MacAddr;
use ferrule_daemon::{Blame, Fault, Finding};
use ferrule_lab::tester::{LabBench, next_hop};
use ferrule_lab::topology::{HostPlan, Shipped, Topology, TopologyError};
use ferrule_tester::responder::Home;
use ferrule_tester::{About, Bench, BenchError, TrialResult, TrialSpec};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A topology with the tester's ports in it.
pub struct VirtualBench {
    bench: LabBench,
    hosts: Vec<HostPlan>,
}

fn wrong(what: impl std::fmt::Display, remedy: &str) -> Fault {
    Fault::new(Blame::Configuration, what, remedy)
}

/// A topology by its name or its file.
fn topology(name: &str, variant: Option<&str>) -> Result<Topology, Fault> {
    let told = |e: Box<TopologyError>| {
        Fault::told(
            Blame::Configuration,
            format!("{e}\n"),
            e.files.iter().flat_map(Finding::all_of).collect(),
        )
    };
    if let Some(shipped) = Shipped::named(name) {
        return shipped.topology(variant).map_err(told);
    }
    let text = std::fs::read_to_string(name)
        .map_err(|e| wrong(format!("{name}: {e}"), "name a topology or its file"))?;
    let folder = Path::new(name).parent().unwrap_or(Path::new("")).to_owned();
    let mut beside =
        |file: &str| std::fs::read_to_string(folder.join(file)).map_err(|e| format!("{file}: {e}"));
    Topology::parse(name, &text, &mut beside, variant).map_err(told)
}

impl VirtualBench {
    /// Builds a topology; `ports` are the hosts whose places the tester takes,
    /// nothing: the first of them for the first port, the last for the second.
    pub fn build(
        name: &str,
        variant: Option<&str>,
        seed: u64,
        ports: &[Option<&String>],
        stop: Arc<AtomicBool>,
    ) -> Result<Self, Fault> {
        let topology = topology(name, variant)?;
        let last = topology.hosts.len().saturating_sub(1);
        if last == 0 {
            return Err(wrong(
                format!("{name} has no two hosts"),
                "the tester stands in for hosts",
            ));
        }
        let place = |host: &String| {
            topology.hosts.iter().position(|h| h.name == *host).ok_or_else(|| {
                let names: Vec<_> = topology.hosts.iter().map(|h| h.name.as_str()).collect();
                let what = format!("{name} has no host {host}");
                wrong(what, &format!("in the lab, --tx and --rx are hosts: {}", names.join(", ")))
            })
        };
        let any = |port: usize| if port == 0 { 0 } else { last };
        let named = ports.iter().enumerate();
        let chosen = named.map(|(port, name)| name.map_or(Ok(any(port)), place));
        let chosen = chosen.collect::<Result<Vec<_>, Fault>>()?;
        if (1..chosen.len()).any(|i| chosen[..i].contains(&chosen[i])) {
            return Err(wrong("one host is named twice", "--tx, --rx and --monitor are different"));
        }
        let bench = LabBench::between(&topology, seed, &chosen);
        let mut bench = bench.map_err(|e| wrong(format!("{name}: {e}"), "mend the topology"))?;
        bench.stop_when(stop);
        let hosts = chosen.iter().map(|&i| topology.hosts[i].clone()).collect();
        Ok(Self { bench, hosts })
    }
}

impl Bench for VirtualBench {
    fn about(&self) -> About {
        self.bench.about()
    }

    fn trial(&mut self, spec: &TrialSpec) -> Result<TrialResult, BenchError> {
        self.bench.trial(spec)
    }

    fn interrupted(&mut self) -> Option<TrialResult> {
        self.bench.interrupted()
    }

    fn reset_at(&mut self, after: std::time::Duration) -> Result<(), BenchError> {
        self.bench.reset_at(after)
    }
}

impl Instrument for VirtualBench {
    fn macs(&self) -> Vec<MacAddr> {
        self.hosts.iter().map(|h| h.mac).collect()
    }

    fn ends(&self) -> Option<(IpAddr, IpAddr)> {
        let to = &self.hosts.get(1)?.addresses;
        let pair =
            |&(a, _): &(IpAddr, u8)| Some((a, to.iter().find(|b| b.0.is_ipv4() == a.is_ipv4())?.0));
        self.hosts.first()?.addresses.iter().find_map(pair)
    }

    fn next_hop(&mut self, port: usize, from: IpAddr, to: IpAddr) -> Option<IpAddr> {
        next_hop(self.hosts.get(port)?, from, to).filter(|hop| *hop != to)
    }

    fn reset_by(&mut self, by: &ResetBy) -> Result<(), Fault> {
        let ResetBy::Node { name, down } = by else {
            return Err(wrong("in the lab a node is reset", "name it with --node"));
        };
        if self.bench.reset_node(name, *down) {
            return Ok(());
        }
        let devices = self.bench.network().devices();
        let names: Vec<_> = devices.iter().map(|d| d.name().to_owned()).collect();
        Err(wrong(format!("there is no node {name}"), &format!("there are {}", names.join(", "))))
    }

    fn answer_for(&mut self, homes: Vec<Vec<Home>>) {
        self.bench.answer_for(homes);
    }

    fn resolve(&mut self, port: usize, own: IpAddr, wanted: IpAddr) -> Result<MacAddr, Fault> {
        let host = &self.hosts[port];
        let found = self.bench.resolve(port, (host.mac, own), wanted);
        found.ok().flatten().ok_or_else(|| silent(&host.name, wanted))
    }
}
