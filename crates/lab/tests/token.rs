//! A node whose keys are on a token, in virtual time: the shipped topology, and what
//! its engine says of itself.

use ferrule_base::{Duration, Instant};
use ferrule_crypto::EngineReport;
use ferrule_lab::host::Outcome;
use ferrule_lab::topology::{Lab, Setting, Shipped, Topology};

fn topology(variant: &str) -> Topology {
    let shipped = Shipped::named("token-gateway").expect("it is shipped");
    shipped.topology(Some(variant)).unwrap_or_else(|e| panic!("{e}"))
}

fn run(topology: &Topology, millis: u64) -> Lab {
    let setting = Setting { seed: 5, length: Duration::from_millis(millis) };
    let mut lab = topology.build(setting).unwrap_or_else(|e| panic!("{e}"));
    lab.network.advance(Instant::ZERO + setting.length);
    assert!(lab.finish(), "it comes to rest");
    assert_eq!(lab.findings.all(), []);
    lab
}

/// The report of a node's token engine.
fn token(lab: &Lab, node: usize) -> EngineReport {
    let report = lab.network.device(lab.devices[node]).report();
    report.engines.into_iter().find(|e| e.place == "token").expect("it has a token")
}

fn count(report: &EngineReport, name: &str) -> u64 {
    let found = report.counters.iter().find(|(counter, _)| *counter == name);
    found.unwrap_or_else(|| panic!("no counter {name}")).1
}

#[test]
fn token_node_in_the_lab_carries_a_call_that_the_plain_token_could_not() {
    for variant in ["implicit", "linux", "study"] {
        let mut lab = run(&topology(variant), 3000);
        for outcome in lab.outcomes().into_iter().flatten() {
            assert!(outcome.is_whole(), "{variant}: {outcome:?}");
            if let Outcome::Udp(call) = outcome {
                assert_eq!((call.sent, call.received), (140, 140), "{variant}: 2.8 s of a call");
            }
        }
        let report = token(&lab, 0);
        assert_eq!((report.with.as_str(), report.state, report.keys), ("microsd", "works", 2));
        // One exchange for each packet would have taken longer than there was time.
        let packets = count(&report, "hits") + count(&report, "waits");
        assert!(packets * 12 > 3000, "{variant}: {packets} packets");
        assert!(count(&report, "hits") > packets * 9 / 10, "{variant}: {report:?}");
        assert_eq!((count(&report, "gone"), count(&report, "failed")), (0, 0), "{variant}");
        let exchange = report.latencies.iter().find(|(of, _)| *of == "exchange").unwrap().1;
        assert!(exchange.count > 100, "{variant}: {exchange:?}");
        assert!(exchange.most <= Duration::from_millis(17), "{variant}: {exchange:?}");
        for ring in &report.rings {
            assert!(ring.filled > 0 && ring.filled <= ring.size, "{variant}: {ring:?}");
            assert!(ring.start == ring.size / 2 && ring.stop <= ring.size, "{ring:?}");
        }
        let ways: Vec<_> = report.rings.iter().map(|r| (r.key.as_str(), r.op)).collect();
        assert_eq!(ways, [("gw1-to-gw2", "seal"), ("gw2-to-gw1", "open")]);
    }
}

#[test]
fn token_node_and_software_node_put_the_same_octets_on_the_wire() {
    let captured = |software: bool| {
        let mut topology = topology("implicit");
        // The call alone: what it sends does not depend on when it arrives.
        topology.traffic.truncate(1);
        if software {
            let config = topology.nodes[1].config.clone();
            let keys = (
                config.tunnels[0].inbound[0].keys.clone(),
                config.tunnels[0].outbound[0].keys.clone(),
            );
            let tunnel = &mut topology.nodes[0].config.tunnels[0];
            (tunnel.outbound[0].keys, tunnel.inbound[0].keys) = keys;
        }
        let setting = Setting { seed: 9, length: Duration::from_millis(1500) };
        let mut lab = topology.build(setting).unwrap_or_else(|e| panic!("{e}"));
        let link = topology.links.iter().position(|link| link.outside).expect("one is");
        let tap = lab.network.tap(lab.links[link], None).expect("a link");
        lab.run();
        assert_eq!(lab.findings.all(), []);
        lab.network.take_capture(tap)
    };
    let (token, software) = (sealed(&captured(false)), sealed(&captured(true)));
    assert!(token.len() > 50, "{} packets of a call", token.len());
    assert!(token == software, "times and octets of every sealed frame");
}

/// The ESP packets of a pcapng file: its enhanced packet blocks from their time on.
fn sealed(mut file: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let Some((head, _)) = file.split_first_chunk::<8>() {
        let [kind, len] = [0, 4].map(|at| u32::from_le_bytes(head[at..at + 4].try_into().unwrap()));
        let (block, rest) = file.split_at(len as usize);
        // IPv4 behind Ethernet, with protocol 50.
        if kind == 6 && block[40..42] == [8, 0] && block[51] == 50 {
            found.push(block[12..].to_vec());
        }
        file = rest;
    }
    found
}
