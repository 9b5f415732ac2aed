//! A live node over AF_XDP, against AF_XDP alone.
//!
//! ```text
//!   generator ─ veth ─▶ [ port │ forwarder │ port ] ─ veth ─▶ sink
//! ```
//!
//! Two such paths stand side by side in a network namespace of their own. In
//! one the forwarder moves batches from port to port and does nothing else; in
//! the other it is a node with a bridge. Only the forwarder's time is counted,
//! the kernel's part of receiving and sending included. Needs root.

use ferrule_base::{Instant, MacAddr};
use ferrule_benches::{Case, NODE, PEER, ROUNDS, heading, row};
use ferrule_crypto::Software;
use ferrule_node::config::named_key;
use ferrule_node::{Config, Control, Environment, Volatile, Worker, build};
use ferrule_pipeline::{Batch, PoolCache, Port};
use ferrule_ports::tsc::tsc;
use ferrule_ports::xdp::{BUDGET, XdpMode};
use ferrule_ports::{Opener, PortSpec, Umem, region};
use std::process::{Command, ExitCode};

/// Bursts of a round.
const BURSTS: usize = 200;
/// Frames of a burst.
const BURST: usize = 64;

/// The same namespace for both: made here, and gone with the process.
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--test") {
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|a| a == "--inside") {
        measure(64);
        measure(1500);
        return ExitCode::SUCCESS;
    }
    let namespace = format!("bench-{}", std::process::id());
    if !ip(&["netns", "add", &namespace]) {
        println!("live: a network namespace needs root; not measured");
        return ExitCode::SUCCESS;
    }
    let own = std::env::current_exe().expect("this program has a path");
    let status =
        Command::new("ip").args(["netns", "exec", &namespace]).arg(own).arg("--inside").status();
    ip(&["netns", "del", &namespace]);
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).status().is_ok_and(|s| s.success())
}

/// Two veth pairs, and the ports on their four ends.
struct Path {
    generator: Box<dyn Port>,
    sink: Box<dyn Port>,
    cache: PoolCache,
    frame: Vec<u8>,
    now: Instant,
}

/// Makes a path; the ports between, and their memory, go to the forwarder.
fn path(name: &str, len: usize) -> (Path, [Box<dyn Port>; 2], Umem) {
    for side in ["a", "b"] {
        let (outer, inner) = (format!("{name}{side}0"), format!("{name}{side}1"));
        assert!(ip(&["link", "add", &outer, "type", "veth", "peer", "name", &inner]));
        for end in [outer, inner] {
            let quiet = format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6");
            let _ = std::fs::write(quiet, "1");
            assert!(ip(&["link", "set", "dev", &end, "up"]));
        }
    }
    let memory = || Umem::new(&region::pool(8192, 2048).expect("memory").0);
    let mut opener = Opener::new();
    let mut open = |device: String, umem: &Umem| {
        let mode = XdpMode::Auto;
        let spec = PortSpec::Xdp { interface: device, queue: 0, mode, budget: BUDGET };
        opener.open(&spec).and_then(|o| o.start(umem)).unwrap_or_else(|e| panic!("{e}"))
    };
    let (outside, inside) = (memory(), memory());
    let generator = open(format!("{name}a0"), &outside);
    let sink = open(format!("{name}b0"), &outside);
    let ports = [open(format!("{name}a1"), &inside), open(format!("{name}b1"), &inside)];
    let to = MacAddr([2, 0, 0x30, 0, 0, 3]);
    let mut frame = [&to.0[..], &PEER.0, &[0x88, 0xb5]].concat();
    frame.resize(len, 0);
    let cache = outside.pool().cache();
    (Path { generator, sink, cache, frame, now: Instant::ZERO }, ports, inside)
}

impl Path {
    /// Sends a burst, lets `forward` work, and counts what arrives.
    fn burst(&mut self, mut forward: impl FnMut(Instant)) -> usize {
        self.now += std::time::Duration::from_micros(100);
        let mut batch = Batch::new();
        while !batch.is_full() {
            let Some(packet) = self.cache.packet_from(&self.frame) else { break };
            batch.push(packet);
        }
        self.generator.transmit(self.now, &mut self.cache, &mut batch);
        batch.clear();
        let mut got = 0;
        for _ in 0..4 {
            forward(self.now);
            self.sink.receive(self.now, &mut self.cache, &mut batch);
            got += batch.iter().filter(|p| p.data().get(12..14) == Some(&[0x88, 0xb5])).count();
            batch.drain(..).for_each(|p| self.cache.recycle(p));
            if got >= BURST {
                break;
            }
        }
        got
    }
}

/// A node that bridges the two ports.
fn node(ports: [Box<dyn Port>; 2], umem: &Umem) -> (Control, Worker<Software>) {
    const TEXT: &str = r#"
node = { name = "bench", lab = true }
port = [{ name = "a", driver = "wire" }, { name = "b", driver = "wire" }]
bridge = [{ name = "br", member = [{ port = "a" }, { port = "b" }] }]
"#;
    let config =
        Config::parse("bench.toml", TEXT, &mut named_key).unwrap_or_else(|e| panic!("{e}"));
    let environment = Environment {
        secret: [0; 2],
        entropy: Box::new(ferrule_base::Rng::new(1)),
        macs: vec![NODE; 2],
        pool: umem.pool().clone(),
        store: Box::new(Volatile::default()),
        now: Instant::ZERO,
    };
    let built = build(config, environment, |_| Software::default());
    let (mut control, mut workers) = built.unwrap_or_else(|e| panic!("{e}"));
    for (index, port) in ports.into_iter().enumerate() {
        control.attach_port(index, port).expect("attaches");
    }
    (control, workers.remove(0))
}

fn measure(len: usize) {
    let (mut path_a, [mut rx, mut tx], umem_a) = path(&format!("x{len}"), len);
    let mut cache = umem_a.pool().cache();
    let alone = move |now: Instant| {
        let mut batch = Batch::new();
        rx.receive(now, &mut cache, &mut batch);
        tx.transmit(now, &mut cache, &mut batch);
        // The other direction is looked at as well, as a node does.
        tx.receive(now, &mut cache, &mut batch);
        rx.transmit(now, &mut cache, &mut batch);
    };
    let (mut path_b, ports, umem_b) = path(&format!("n{len}"), len);
    let (_control, mut worker) = node(ports, &umem_b);
    let bridge = move |now: Instant| {
        worker.turn(now);
    };
    let mut cases = [
        timed("AF_XDP alone, port to port", &mut path_a, alone),
        timed("node with a bridge over AF_XDP", &mut path_b, bridge),
    ];
    for round in 0..=ROUNDS {
        for case in &mut cases {
            case.round(BURSTS * BURST, round > 0);
        }
    }
    heading(&format!("Live on veth, one core, frames of {len} without FCS"));
    row(&cases[0], None, None);
    row(&cases[1], Some(&cases[0]), Some(0.9));
}

/// A case in which only the forwarder's time counts.
fn timed<'a>(name: &str, path: &'a mut Path, mut forward: impl FnMut(Instant) + 'a) -> Case<'a> {
    Case::measured(name, move |packets| {
        let (mut done, mut nanos, mut clocks) = (0, 0.0, 0.0);
        for _ in 0..packets / BURST {
            done += path.burst(|now| {
                let (time, begin) = (std::time::Instant::now(), tsc());
                forward(now);
                clocks += (tsc() - begin) as f64;
                nanos += time.elapsed().as_nanos() as f64;
            });
        }
        assert!(done > packets * 9 / 10, "{done} of {packets} frames arrived");
        (done, nanos, clocks)
    })
}
