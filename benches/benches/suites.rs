//! ESP with every suite, tunnel and transport mode, whole graph, memory to memory, on
//! one core.
//!
//! ```text
//!   out   packet ─▶ IP ─▶ policy ─▶ ESP out ─▶ frame
//!   in    frame  ─▶ IP ─▶ ESP in ─▶ IP ─▶ packet      (sealed anew for each round)
//! ```
//!
//! 512 flows; sizes are those of the clear IP packet; in transport mode the hosts at both ends are
//! behind their nodes. The old suites, which a node refuses
//! outside a laboratory, are here for what they cost.

use ferrule_benches::dut::{Dut, Setting};
use ferrule_benches::traffic::{ETHERNET, Flow, Frames, Size, TO};
use ferrule_benches::{Case, NODE, PEER};
use ferrule_crypto::{Backend, Suite};

const SIZES: [usize; 6] = [64, 128, 256, 512, 1024, 1420];

/// Flows that take turns.
const FLOWS: usize = 512;

/// Packets that are opened before those that count, which were sealed just now.
const WARM: usize = 256;

/// Packets of a round, and rounds of which the median is taken: fewer than elsewhere,
/// for there are many suites.
const PACKETS: usize = 512;
const ROUNDS: usize = 15;

/// Ports, interfaces, and the way to both sites.
const NETWORK: &str = r#"
[node]
name = "bench"
lab = true
[[port]]
name = "red"
driver = "wire"
[[port]]
name = "black"
driver = "wire"
mtu = 1600
"#;

#[derive(Clone, Copy)]
enum Mode {
    Tunnel,
    Transport,
}

impl Mode {
    /// The table of the configuration.
    fn word(self) -> &'static str {
        match self {
            Self::Tunnel => "tunnel",
            Self::Transport => "transport",
        }
    }

    /// Prefix whose packets are sealed: a site's, or one host's.
    fn clear(self, site: usize) -> String {
        match self {
            Self::Tunnel => format!("10.{site}.0.0/16"),
            Self::Transport => self.end(site),
        }
    }

    /// Outer address of the sealing end: the gateway, or the host behind it.
    fn end(self, site: usize) -> String {
        match self {
            Self::Tunnel => format!("192.0.2.{site}"),
            Self::Transport => format!("10.{site}.0.9"),
        }
    }
}

/// A node: its own site (1 or 2), the other's, SPIs of both ways.
fn gateway(mode: Mode, suite: Suite, here: usize, there: usize) -> String {
    let (table, local, remote) = (mode.word(), mode.end(here), mode.end(there));
    let spi = |from: usize| 4096 + from;
    let way = |from: usize| format!("{{ spi = {}, key = \"{suite}:{from}\" }}", spi(from));
    format!(
        r#"{NETWORK}
[[interface]]
port = "red"
address = ["198.18.{here}.1/24"]
[[interface]]
port = "black"
address = ["192.0.2.{here}/24"]
[[route]]
prefix = "10.{here}.0.0/16"
via = "198.18.{here}.2"
[[route]]
prefix = "10.{there}.0.0/16"
via = "192.0.2.{there}"
[[{table}]]
name = "t"
local = "{local}"
remote = "{remote}"
suite = "{suite}"
out = {}
in = {}
[[policy]]
interface = "black"
action = "protect"
{table} = "t"
local = "{}"
remote = "{}"
"#,
        way(here * 2),
        way(there * 2),
        mode.clear(here),
        mode.clear(there)
    )
}

/// Flows between hosts of the sites; in transport mode between one on each side.
fn flow(mode: Mode, i: usize) -> Flow {
    let n = (i % FLOWS) as u16;
    let [high, low] = match mode {
        Mode::Tunnel => n.to_be_bytes(),
        Mode::Transport => [0, 9],
    };
    let (src, dst) = ([10, 1, high, low].into(), [10, 2, high, low].into());
    Flow { src, dst, port: 1024 + n, to: TO }
}

/// Sealing, and opening what was sealed.
fn both_ways(backend: Backend, mode: Mode, suite: Suite, len: usize) -> [Case<'static>; 2] {
    let hops = ["192.0.2.1", "192.0.2.2", "198.18.1.2", "198.18.2.2"];
    let dut = |here, there, ports| {
        let setting = Setting { backend, hops: &hops, ports, ..Setting::default() };
        Dut::new(&gateway(mode, suite, here, there), &setting)
    };
    let size = Size::Of(ETHERNET + len);
    let clear = Frames::ipv4(FLOWS, size, |i, _| flow(mode, i));
    let out = dut(1, 2, ["red", "black"]);
    let (mut far, mut inn) = (dut(1, 2, ["red", "black"]), dut(2, 1, ["black", "red"]));
    let frames = clear.clone();
    let open = move |packets| {
        let mut sealed = Frames::default();
        far.carry(&frames, 0, WARM + packets, |frame| {
            sealed.push(&[&NODE.0[..], &PEER.0, &frame[12..]].concat());
        });
        assert_eq!(sealed.len(), WARM + packets, "all are sealed: {}", far.drops());
        inn.timed(&sealed, 0, WARM);
        inn.timed(&sealed, WARM, packets)
    };
    [Case::measured("out", out.carrying(clear)), Case::measured("in", open)]
}

/// Million packets a second, out and in.
fn rates(backend: Backend, mode: Mode, suite: Suite, len: usize) -> [f64; 2] {
    let mut cases = both_ways(backend, mode, suite, len);
    for round in 0..=ROUNDS {
        cases.iter_mut().for_each(|case| case.round(PACKETS, round > 0));
    }
    cases.map(|case| 1000.0 / case.nanos())
}

fn table(backend: Backend, mode: Mode, title: &str, suites: impl Iterator<Item = Suite>) {
    println!("\n{title}, {} mode: million packets a second, out / in", mode.word());
    let sizes = SIZES.map(|size| format!("{:>15}", format!("{size} B")));
    println!("  {:<32}{}", "", sizes.concat());
    for suite in suites {
        let cells = SIZES.map(|size| {
            let [out, inn] = rates(backend, mode, suite, size);
            format!("{:>15}", format!("{out:.2} / {inn:.2}"))
        });
        println!("  {:<32}{}", suite.name(), cells.concat());
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` passes this; measuring is for `cargo bench`.
    if arguments.iter().any(|a| a == "--test") {
        return;
    }
    let wanted = |suite: &Suite| {
        let mut names = arguments.iter().filter(|a| !a.starts_with('-')).peekable();
        names.peek().is_none() || names.any(|n| suite.name().contains(n.as_str()))
    };
    let backend = Backend::best();
    println!("ESP over IPv4, extended numbers, one core, backend {}.", backend.name());
    println!("Median of {ROUNDS} rounds of {PACKETS} packets.");
    for mode in [Mode::Tunnel, Mode::Transport] {
        table(backend, mode, "Suites", Suite::ALL.into_iter().filter(wanted));
        table(backend, mode, "For studies alone", Suite::OLD.into_iter().filter(wanted));
    }
}
