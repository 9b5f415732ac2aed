//! The laboratory: how many node visits a second one core makes, each with a
//! real seal or open, and what a thousand nodes take of memory.
//!
//! ```text
//!   source ── [seal] ── [open] ── [seal] ── [open] ── … ── sink
//! ```

use ferrule_base::{Duration, Instant, Ledger, MacAddr};
use ferrule_benches::{median, on_core};
use ferrule_lab::{DeviceId, End, Io, LinkSpec, Network, Profile, Station};
use ferrule_node::config::named_key;
use ferrule_node::{Config, made_mac};
use ferrule_pipeline::Packet;
use std::any::Any;

/// Rounds of which the median is taken.
const ROUNDS: usize = 11;

/// Nodes of a chain.
const NODES: usize = 16;

/// Node visits of a round.
const VISITS: u64 = 400_000;

/// Visits a second that are to be reached.
const REACH: f64 = 1e6;

const HOST_A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const HOST_B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);

/// Sends a frame every microsecond, for ever.
struct Source {
    frame: Vec<u8>,
    at: Instant,
    ledger: Ledger,
}

impl Station for Source {
    fn receive(&mut self, io: &mut Io<'_>, _port: usize, packet: Packet) {
        self.ledger.received += 1;
        self.ledger.consumed += 1;
        io.cache.recycle(packet);
    }

    fn wake(&mut self, io: &mut Io<'_>) {
        self.at += Duration::from_micros(1);
        let Some(packet) = io.cache.packet_from(&self.frame) else { return };
        io.sent.push((0, packet));
        self.ledger.made += 1;
        self.ledger.sent += 1;
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.at)
    }

    fn ledger(&self) -> Ledger {
        self.ledger
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Takes what comes, and answers ARP.
struct Sink {
    ip: [u8; 4],
    ledger: Ledger,
}

impl Station for Sink {
    fn receive(&mut self, io: &mut Io<'_>, _port: usize, mut packet: Packet) {
        self.ledger.received += 1;
        let frame = packet.data_mut();
        if frame.get(12..14) != Some(&[8, 6]) || frame.get(38..42) != Some(&self.ip) {
            self.ledger.consumed += 1;
            return io.cache.recycle(packet);
        }
        frame.copy_within(6..12, 0);
        frame.copy_within(22..32, 32);
        frame[21] = 2;
        frame[6..12].copy_from_slice(&HOST_B.0);
        frame[22..28].copy_from_slice(&HOST_B.0);
        frame[28..32].copy_from_slice(&self.ip);
        io.sent.push((0, packet));
        self.ledger.sent += 1;
    }

    fn wake(&mut self, _io: &mut Io<'_>) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn ledger(&self) -> Ledger {
        self.ledger
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

fn config(text: &str) -> Config {
    match Config::parse("bench.toml", text, &mut named_key) {
        Ok(config) => config,
        Err(e) => panic!("{e}"),
    }
}

fn ports(name: &str, mtus: [usize; 2]) -> String {
    let [a, b] = mtus;
    format!(
        "[node]\nname = \"{name}\"\nlab = true\n\
         [[port]]\nname = \"a\"\ndriver = \"wire\"\nmtu = {a}\n\
         [[port]]\nname = \"b\"\ndriver = \"wire\"\nmtu = {b}\n"
    )
}

/// Bridge `at` of a chain: it seals towards the next if it is even, otherwise it
/// opens what the one before sealed.
fn bridge(at: usize) -> Config {
    let (name, even) = (format!("n{at}"), at.is_multiple_of(2));
    let (port, peer) = if even { ("b", at + 1) } else { ("a", at - 1) };
    let peer_port = if even { "a" } else { "b" };
    let (own_key, peer_key) = if even { (5, 7) } else { (7, 5) };
    config(&format!(
        r#"{}
[[bridge]]
name = "br"
member = [{{ port = "a" }}, {{ port = "b" }}]
[[macsec]]
port = "{port}"
sci = "{}/1"
transmit = [{{ key = "sak:{own_key}", an = 0 }}]
receive = [{{ sci = "{}/1", key = "sak:{peer_key}", an = 0 }}]
"#,
        ports(&name, if even { [1600, 1632] } else { [1632, 1600] }),
        made_mac(&name, port),
        made_mac(&format!("n{peer}"), peer_port),
    ))
}

/// Gateway `at` of a chain: the even ones seal what goes to 10.255.0.0/16 into a
/// tunnel to the next, the odd ones open it and route it on.
fn gateway(at: usize) -> Config {
    let (even, left, right) = (at.is_multiple_of(2), at, at + 1);
    let (local, remote) = if even { ("1", "2") } else { ("2", "1") };
    let (link, out, inn) = if even { (right, 1, 7) } else { (left, 7, 1) };
    let (ours, theirs) =
        if even { ("10.1.0.0/16", "10.255.0.0/16") } else { ("10.255.0.0/16", "10.1.0.0/16") };
    config(&format!(
        r#"{}
[[interface]]
port = "a"
address = ["10.0.{left}.2/24"]
[[interface]]
port = "b"
address = ["10.0.{right}.1/24"]
[[route]]
prefix = "10.255.0.0/16"
via = "10.0.{right}.2"
[[route]]
prefix = "10.1.0.0/16"
via = "10.0.{left}.1"
[[tunnel]]
name = "t"
local = "10.0.{link}.{local}"
remote = "10.0.{link}.{remote}"
suite = "aes-gcm-128"
mtu = 1500
out = {{ spi = {}, key = "gcm:{out}" }}
in = {{ spi = {}, key = "gcm:{inn}" }}
[[policy]]
interface = "{}"
action = "protect"
tunnel = "t"
local = "{ours}"
remote = "{theirs}"
"#,
        ports(&format!("n{at}"), [1600, 1600]),
        0x1000 + out,
        0x1000 + inn,
        if even { "b" } else { "a" },
    ))
}

/// An IPv4 UDP packet of `len` octets from 10.1.0.9 to 10.255.0.9, in a frame to
/// the first node. Enough hops for a chain.
fn ipv4(len: usize) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 255, 17, 0, 0, 10, 1, 0, 9, 10, 255, 0, 9];
    p[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    let sum: u32 = p.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    p[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    p.extend([0, 7, 0, 9]);
    p.extend((len as u16 - 20).to_be_bytes());
    p.resize(len, 0);
    [&made_mac("n0", "a").0[..], &HOST_A.0, &[8, 0], &p].concat()
}

/// A frame for a bridge, of `len` octets without FCS.
fn bridged(len: usize) -> Vec<u8> {
    [&HOST_B.0[..], &HOST_A.0, &[0x88, 0xb5], &vec![0; len - 14]].concat()
}

/// A chain of nodes with a source and a sink.
fn chain(nodes: usize, node: fn(usize) -> Config, frame: Vec<u8>) -> Network {
    let mut network = Network::with_buffers(1, 4096);
    let source = Source { frame, at: Instant::from_millis(1), ledger: Ledger::default() };
    let source = network.station("source", Box::new(source));
    let ip = [10, 0, nodes as u8, 2];
    let sink = network.station("sink", Box::new(Sink { ip, ledger: Ledger::default() }));
    let spec = LinkSpec {
        rate: Some(100_000_000_000),
        delay: Duration::from_micros(1),
        ..LinkSpec::default()
    };
    let mut before = End::Station(source, 0);
    for at in 0..nodes {
        let name = format!("n{at}");
        let device = network.node(&name, node(at), Profile::ideal()).expect("builds");
        network.link(spec.clone(), before, End::Device(device, "a")).expect("links");
        before = End::Device(device, "b");
    }
    network.link(spec, before, End::Station(sink, 0)).expect("links");
    network
}

fn visits(name: &str, node: fn(usize) -> Config, frame: Vec<u8>) {
    let mut network = chain(NODES, node, frame);
    // Neighbours and addresses are learned, memory is warm.
    network.run_until(Instant::from_millis(20));
    let sealed = |network: &Network| network.device(DeviceId(0)).report().work.sealed.packets;
    let step = Duration::from_nanos(VISITS / NODES as u64 * 1000);
    let mut rates = Vec::new();
    let before = (network.visits(), sealed(&network), network.now());
    let start = std::time::Instant::now();
    for _ in 0..ROUNDS {
        let (begin, visits) = (on_core(&start), network.visits());
        network.run_until(network.now() + step);
        rates.push((network.visits() - visits) as f64 * 1e9 / (on_core(&start) - begin));
    }
    // Every frame of the source was sealed by the first node.
    let micros = (network.now() - before.2).as_micros() as u64;
    assert!(sealed(&network) - before.1 >= micros - 1, "frames were lost");
    let rate = median(&rates);
    rates.sort_by(f64::total_cmp);
    println!(
        "  {name:<44} {:>8.3} {:>9.0} {:>8.3} {:>8.3}  (reach {})",
        rate / 1e6,
        1e9 / rate,
        rates[0] / 1e6,
        rates[ROUNDS - 1] / 1e6,
        REACH / 1e6,
    );
}

/// Resident memory of this process, in octets.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:"));
    let kib = line.and_then(|l| l.split_whitespace().nth(1)).and_then(|n| n.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// A thousand gateways that carry traffic.
fn memory(nodes: usize) {
    let before = resident();
    let start = std::time::Instant::now();
    let mut network = Network::with_buffers(1, 65_536);
    for pair in 0..nodes / 2 {
        let frame = ipv4(1420);
        let source = Source { frame, at: Instant::from_millis(1), ledger: Ledger::default() };
        let source = network.station(&format!("s{pair}"), Box::new(source));
        let sink = Sink { ip: [10, 0, 2, 2], ledger: Ledger::default() };
        let sink = network.station(&format!("d{pair}"), Box::new(sink));
        let node = |network: &mut Network, at| {
            let name = format!("p{pair}n{at}");
            network.node(&name, gateway(at), Profile::ideal()).expect("builds")
        };
        let (a, b) = (node(&mut network, 0), node(&mut network, 1));
        let spec = LinkSpec { delay: Duration::from_micros(5), ..LinkSpec::default() };
        let mut link = |x, y| network.link(spec.clone(), x, y).expect("links");
        link(End::Station(source, 0), End::Device(a, "a"));
        link(End::Device(a, "b"), End::Device(b, "a"));
        link(End::Device(b, "b"), End::Station(sink, 0));
    }
    let built = start.elapsed();
    network.run_until(Instant::from_millis(3));
    let used = resident() - before;
    println!("\n{nodes} gateways with ESP, after {} visits", network.visits());
    println!(
        "  {:.2} GiB resident (reach 4), {:.0} KiB a node; built in {:.2} s",
        used as f64 / (1u64 << 30) as f64,
        used as f64 / 1024.0 / nodes as f64,
        built.as_secs_f64(),
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` passes this; measuring is for `cargo bench`.
    if arguments.iter().any(|a| a == "--test") {
        return;
    }
    let wanted = |part: &str| {
        let mut names = arguments.iter().filter(|a| !a.starts_with('-')).peekable();
        names.peek().is_none() || names.any(|n| part.contains(n.as_str()))
    };
    println!("The laboratory, one core: node visits, each with a real seal or open.");
    println!(
        "Median of {ROUNDS} rounds of {VISITS} visits in a chain of {NODES} nodes; time on the core.\n"
    );
    println!("  {:<44} {:>8} {:>9} {:>8} {:>8}", "", "M/s", "ns/visit", "least", "most");
    for len in [64, 1420] {
        if wanted(&format!("esp-{len}")) {
            visits(&format!("ESP tunnel, AES-GCM-128, inner IP {len}"), gateway, ipv4(len));
        }
        if wanted(&format!("macsec-{len}")) {
            visits(&format!("bridge, MACsec GCM-AES-128, frame {len}"), bridge, bridged(len));
        }
    }
    if wanted("memory") {
        memory(1000);
    }
}
