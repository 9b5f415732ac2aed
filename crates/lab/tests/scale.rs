//! A thousand nodes.

mod bench;

use bench::{Schedule, Sink, Source, frame, gateway, secured_bridge};
use ferrule_base::Duration;
use ferrule_lab::{End, LinkSpec, Network, Profile};

/// Nodes of the network.
const NODES: usize = 1000;

/// Octets that each may take: a quarter of what 4 GiB would allow.
const NODE_MAX: u64 = 1 << 20;

/// Resident memory of this process, in octets, where the system says it.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

#[test]
fn a_thousand_nodes_fit_and_carry_frames_end_to_end() {
    let before = resident();
    let mut network = Network::with_buffers(1, 8192);
    let source = Source::new(frame(100), 50, Schedule::Every(Duration::from_micros(20)));
    let source = network.station("source", source);
    let sink = network.station("sink", Sink::new());
    // Every second link is secured: each node seals or opens.
    let mut last = End::Station(source, 0);
    for at in 0..NODES {
        let (name, even) = (format!("n{at}"), at % 2 == 0);
        let peer = format!("n{}", if even { at + 1 } else { at - 1 });
        let keys = if even { (5, 6) } else { (6, 5) };
        let config = secured_bridge(&name, &peer, keys);
        let device = network.node(&name, config, Profile::ideal()).unwrap();
        let ports = if even { ["lan", "wan"] } else { ["wan", "lan"] };
        network.link(LinkSpec::default(), last, End::Device(device, ports[0])).unwrap();
        last = End::Device(device, ports[1]);
    }
    network.link(LinkSpec::default(), last, End::Station(sink, 0)).unwrap();
    assert!(network.run_until_idle(Duration::from_secs(1)));
    assert_eq!(network.station_mut::<Sink>(sink).unwrap().arrivals.len(), 50);
    assert_eq!(network.visits(), 50 * NODES as u64);
    // Gateways with routes, policies and SAs stand beside them.
    for at in 0..20 {
        network.node(&format!("g{at}"), gateway("g", 1, 2, 2), Profile::ideal()).unwrap();
    }
    if let (Some(before), Some(after)) = (before, resident()) {
        let each = after.saturating_sub(before) / NODES as u64;
        assert!(each < NODE_MAX, "{} KiB a node", each >> 10);
    }
}
