//! Cost of the security policy: the whole ESP tunnel outbound behind 1, 120 and 10,000 entries, and
//! the memory of 100,000 SAs.
//!
//! Every packet is of another flow than the one before, chosen at random, so nothing
//! that remembers a flow helps. The entry that a packet meets is the last of its list,
//! one of all at random, or the only one; the tunnel is one.

use ferrule_base::Rng;
use ferrule_benches::dut::{Dut, Setting};
use ferrule_benches::traffic::{ETHERNET, Flow, Frames, ipv4};
use ferrule_benches::{Case, ROUNDS, bare, heading, interleave, ratio, row};
use ferrule_crypto::Backend;
use std::fmt::Write;

/// Packets of a round: more than flows, so that a policy is in the caches as it is where
/// nothing else goes on, and not as the case before has left them.
const PACKETS: usize = 16_384;

/// Different flows that take turns.
const FLOWS: usize = 8192;

/// Throughput with 10,000 entries that is to be reached, relative to one entry.
const REACH: f64 = 1.0 / 1.3;

/// Kinds of policies, as they are found.
#[derive(Clone, Copy)]
enum Kind {
    /// One network here, many networks elsewhere.
    Hub,
    /// Every network with every other.
    Mesh,
    /// Pairs of hosts.
    Hosts,
    /// Networks of any size, some wide, with protocols and ports.
    Mixed,
}

/// An entry's traffic: local and remote network, and the range of UDP ports.
struct Entry {
    local: (u32, u8),
    remote: (u32, u8),
    ports: Option<(u16, u16)>,
}

impl Kind {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Hub, "hub: 10/8 to 10,000 networks of length 24"),
        (Self::Mesh, "mesh: 100 networks with 100 others"),
        (Self::Hosts, "hosts: 10,000 pairs of addresses"),
        (Self::Mixed, "mixed: lengths 8 to 32, half of them with ports"),
    ];

    fn entry(self, rng: &mut Rng, n: u32) -> Entry {
        let net = |bits: u32, len: u8| {
            (bits & u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0), len)
        };
        let any = |local, remote| Entry { local, remote, ports: None };
        match self {
            Self::Hub => any((10 << 24, 8), (20 << 24 | n << 8, 24)),
            Self::Mesh => any((10 << 24 | (n % 100) << 16, 16), (20 << 24 | (n / 100) << 16, 16)),
            Self::Hosts => {
                let host = rng.next_u64();
                any((10 << 24 | (host as u32 >> 8), 32), (20 << 24 | (host >> 40) as u32, 32))
            }
            Self::Mixed => {
                let mut some = |first: u32| {
                    let len = if rng.one_in(8) { 8 + rng.below(8) } else { 16 + rng.below(17) };
                    net(first << 24 | rng.below(1 << 24) as u32, len as u8)
                };
                let (local, remote) = (some(10), some(20));
                let low = rng.below(60_000) as u16;
                let ports =
                    [None, Some((low, low)), None, Some((low, low + rng.below(5000) as u16))];
                Entry { local, remote, ports: ports[n as usize % 4] }
            }
        }
    }
}

fn dotted(bits: u32) -> std::net::Ipv4Addr {
    bits.into()
}

fn config(entries: &[Entry]) -> String {
    let mut text = r#"
[node]
name = "bench"
lab = true
[[port]]
name = "a"
driver = "wire"
[[port]]
name = "b"
driver = "wire"
mtu = 1600
[[interface]]
port = "a"
address = ["10.1.0.1/24"]
[[interface]]
port = "b"
address = ["192.0.2.1/24"]
[[route]]
prefix = "20.0.0.0/8"
via = "192.0.2.2"
[[tunnel]]
name = "t"
local = "192.0.2.1"
remote = "192.0.2.2"
suite = "aes-gcm-128"
out = { spi = 4097, key = "gcm:1" }
in = { spi = 4098, key = "gcm:3" }
"#
    .to_owned();
    for e in entries {
        let (local, remote) = (dotted(e.local.0), dotted(e.remote.0));
        let (l, r) = (e.local.1, e.remote.1);
        text += "[[policy]]\ninterface = \"b\"\naction = \"protect\"\ntunnel = \"t\"\n";
        let _ = writeln!(text, "local = \"{local}/{l}\"\nremote = \"{remote}/{r}\"");
        if let Some((low, high)) = e.ports {
            let _ = writeln!(text, "protocol = \"udp\"\nremote-ports = \"{low}-{high}\"");
        }
    }
    text
}

/// A frame of an entry's traffic, 64 octets of IP in it.
fn frame(rng: &mut Rng, e: &Entry) -> Vec<u8> {
    const LEN: usize = 64;
    let mut within = |(bits, len): (u32, u8)| {
        let host = u32::MAX.checked_shr(len.into()).unwrap_or(0);
        bits | rng.next_u64() as u32 & host
    };
    let (src, dst) = (within(e.local), within(e.remote));
    let (low, high) = e.ports.unwrap_or((0, u16::MAX));
    let to = low + rng.below(u64::from(high - low) + 1) as u16;
    let flow = Flow { src: src.into(), dst: dst.into(), port: rng.next_u64() as u16, to };
    ipv4(rng, flow, ETHERNET + LEN)
}

fn frames(seed: u64, entries: &[Entry]) -> Frames {
    let mut picks = Rng::new(seed);
    Frames::new(FLOWS, |_, rng| {
        let entry = &entries[picks.below(entries.len() as u64) as usize];
        frame(rng, entry)
    })
}

fn case(backend: Backend, entries: &[Entry], frames: &Frames) -> (Case<'static>, f64) {
    let start = std::time::Instant::now();
    let setting = Setting { backend, hops: &["192.0.2.2"], ..Setting::default() };
    let dut = Dut::new(&config(entries), &setting);
    let built = start.elapsed().as_secs_f64();
    let name = match entries.len() {
        1 => "1 entry".into(),
        n => format!("{n} entries"),
    };
    (Case::measured(name, dut.carrying(frames.clone())), built)
}

fn cost(backend: Backend, kind: Kind, title: &str) {
    let mut rng = Rng::new(4301);
    let many: Vec<Entry> = (0..10_000).map(|n| kind.entry(&mut rng, n)).collect();
    let all = [Entry { local: (10 << 24, 8), remote: (20 << 24, 8), ports: None }];
    let (flows, few) = (frames(1, &many), frames(2, &many[..120]));
    let (one, _) = case(backend, &all, &flows);
    let (some, _) = case(backend, &many[..120], &few);
    let (full, built) = case(backend, &many, &flows);
    let single = Frames::new(1, |_, _| flows.at(0));
    let (mut alone, _) = case(backend, &many, &single);
    alone.name += ", one flow";
    let mut cases = [one, some, full, alone];
    interleave(&mut cases, PACKETS);
    heading(&format!("{title} ({}, {} flows, {})", backend.name(), FLOWS, "inner length 64"));
    row(&cases[0], None, None);
    row(&cases[1], Some(&cases[0]), None);
    row(&cases[2], Some(&cases[0]), Some(REACH));
    row(&cases[3], Some(&cases[0]), None);
    println!(
        "  10,000 entries cost {:.2} times one; the node was built of their text in {built:.2} s",
        1.0 / ratio(&cases[2], &cases[0]),
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|a| a == "--test") {
        return;
    }
    println!("ESP tunnel out, whole graph, memory to memory, one core.");
    println!("Median of {ROUNDS} interleaved rounds of {PACKETS} packets; clocks are the TSC's.");
    for backend in [Some(Backend::Aws), bare::kernel()].into_iter().flatten() {
        for (kind, title) in Kind::ALL {
            cost(backend, kind, title);
        }
    }
}
