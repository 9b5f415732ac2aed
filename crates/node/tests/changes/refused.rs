//! Keys of the configuration that an engine does not take: people are told whose they are,
//! nothing passes by them or in clear, and the next configuration orders them again.

use crate::net::{Host, Net, ethernet, mac, udp4};
use crate::windows::bridge;
use crate::{HOST_A, HOST_B, data, frame, gateway, pair, protect, two};
use ferrule_base::Instant;
use ferrule_crypto::key::InstallError;
use ferrule_crypto::{Engine, Jobs, KeyId, KeySpec, Software};
use ferrule_node::Incident;
use ferrule_pipeline::Packet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An engine whose table of keys may be full.
struct Bounded {
    engine: Software,
    is_full: Arc<AtomicBool>,
}

impl Engine<Packet> for Bounded {
    fn install(&mut self, spec: &KeySpec) -> Result<KeyId, InstallError> {
        match self.is_full.load(Ordering::Relaxed) {
            true => Err(InstallError::Full),
            false => Engine::<Packet>::install(&mut self.engine, spec),
        }
    }

    fn retire(&mut self, key: KeyId) {
        Engine::<Packet>::retire(&mut self.engine, key);
    }

    fn submit(&mut self, now: Instant, jobs: &mut Jobs<Packet>) {
        self.engine.submit(now, jobs);
    }

    fn collect(&mut self, now: Instant, done: &mut Jobs<Packet>) {
        self.engine.collect(now, done);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Engine::<Packet>::poll_timeout(&self.engine)
    }

    fn in_flight(&self) -> usize {
        Engine::<Packet>::in_flight(&self.engine)
    }
}

fn bounded() -> (Net, Arc<AtomicBool>) {
    let is_full = Arc::new(AtomicBool::new(false));
    let of = is_full.clone();
    let make = move |_: &_, _: &_, _| -> Box<dyn Engine<Packet>> {
        Box::new(Bounded { engine: Software::default(), is_full: of.clone() })
    };
    (Net::with_engines(false, make), is_full)
}

/// Applies a configuration whose keys are refused; SAs that people are told of.
fn apply_refused(net: &mut Net, node: usize, text: &str, is_full: &AtomicBool) -> Vec<String> {
    net.settle();
    net.members[node].control.take_incidents();
    is_full.store(true, Ordering::Relaxed);
    net.apply(node, text);
    net.settle();
    is_full.store(false, Ordering::Relaxed);
    let incidents = net.members[node].control.take_incidents().into_iter();
    let refused = incidents.map(|incident| match incident {
        Incident::SaRefused { sa, why } => {
            assert_eq!(why, "the engine's key table is full");
            sa
        }
        other => panic!("{other}"),
    });
    refused.collect()
}

fn send(net: &mut Net, from: &mut Host, frame: &[u8], to: &mut Host) -> usize {
    for _ in 0..10 {
        from.send(frame);
    }
    net.settle();
    data(to).len()
}

#[test]
fn saks_that_a_worker_refuses_are_told_of_not_used_and_ordered_again() {
    let (mut net, is_full) = bounded();
    let text = |tx, rx| bridge("a", "b", (tx, rx), "");
    let a = net.node(&text("sak:1", "sak:2"));
    let b = net.node(&bridge("b", "a", ("sak:4", "sak:3"), ""));
    net.join((a, "wan"), (b, "wan"));
    let (mut near, mut far) = (net.host(a, "lan"), net.host(b, "lan"));
    let there =
        ethernet(HOST_B, HOST_A, 0x0800, &udp4([10, 1, 0, 9], [10, 1, 0, 8], (7, 9), 90, 7));
    let back = ethernet(HOST_A, HOST_B, 0x0800, &udp4([10, 1, 0, 8], [10, 1, 0, 9], (9, 7), 90, 7));
    let mut told = apply_refused(&mut net, a, &text("sak:3", "sak:4"), &is_full);
    told.sort();
    let sci = u64::from_be_bytes({
        let [x, y, z, u, v, w] = mac("b", "wan").0;
        [x, y, z, u, v, w, 0, 1]
    });
    let receiving = format!("MACsec on port wan, receiving SCI {sci:016x}, AN 0");
    assert_eq!(told, [receiving.as_str(), "MACsec on port wan, transmitting AN 0"]);
    assert_eq!(send(&mut net, &mut near, &there, &mut far), 0);
    assert_eq!(send(&mut net, &mut far, &back, &mut near), 0);
    // The same file again, to an engine that has room.
    net.apply(a, &text("sak:3", "sak:4"));
    net.settle();
    assert!(net.members[a].control.take_incidents().is_empty());
    assert_eq!(send(&mut net, &mut near, &there, &mut far), 10);
    assert_eq!(send(&mut net, &mut far, &back, &mut near), 10);
    net.assert_conserved();
}

/// One end of a tunnel between the gateways, whose keys have these numbers out and in.
fn tunnel(own: u8, keys: (u8, u8)) -> String {
    let way = |key: u8| format!("spi = {}, key = \"gcm:{key}\"", 0x1000 + u32::from(key));
    let net = |n: u8| format!("10.{n}.0.0/24");
    let pairs = pair("t", own, 3 - own, [&way(keys.0), &way(keys.1)], "suite = \"aes-gcm-128\"");
    let name = if own == 1 { "a" } else { "b" };
    gateway(name, own, 3 - own, &(pairs + &protect("t", &net(own), &net(3 - own))), "")
}

#[test]
fn sas_that_a_worker_refuses_are_told_of_not_used_and_ordered_again() {
    let (mut net, is_full) = bounded();
    let first = |own: u8, _| tunnel(own, if own == 1 { (1, 2) } else { (4, 3) });
    let (mut near, mut far) = two(&mut net, first);
    let back = udp4([10, 2, 0, 9], [10, 1, 0, 9], (9, 7), 90, 7);
    let back = ethernet(mac("b", "lan"), HOST_B, 0x0800, &back);
    let mut told = apply_refused(&mut net, 0, &tunnel(1, (3, 4)), &is_full);
    told.sort();
    let want = ["tunnel t, inbound SPI 0x00001004", "tunnel t, outbound SPI 0x00001003"];
    assert_eq!(told, want);
    assert_eq!(send(&mut net, &mut near, &frame(1), &mut far), 0);
    assert_eq!(send(&mut net, &mut far, &back, &mut near), 0);
    net.apply(0, &tunnel(1, (3, 4)));
    net.settle();
    assert!(net.members[0].control.take_incidents().is_empty());
    assert_eq!(send(&mut net, &mut near, &frame(1), &mut far), 10);
    assert_eq!(send(&mut net, &mut far, &back, &mut near), 10);
    net.assert_conserved();
}
