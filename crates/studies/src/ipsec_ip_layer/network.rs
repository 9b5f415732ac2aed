//! The study's network, as configurations of Ferrule's nodes.
//!
//! ```text
//!   ┌─ a machine of 2001 ──────┐                       ┌──────────────────────────┐
//!   │ program, TCP ── node ────┼── 10 Mbit/s, shared ──┼──── node ── TCP, program │
//!   └──────────────────────────┘                       └──────────────────────────┘
//! ```
//!
//! A node does IPsec in its host's place (RFC 4301 section 3.3, a bump in the stack, as
//! the study's new-buffer processing is); what a machine's stack, card and module cost is
//! its profile. Program and TCP take no time of their own, and the way between them and
//! the node none either.

use super::cases::{Application, Mode, Protection, Way};
use super::scripts;
use crate::options::Seed;
use ferrule_base::{Duration, Instant, MacAddr, Work};
use ferrule_lab::host::dialogue::{Behaviour, Party};
use ferrule_lab::host::{Flow, Host, HostConfig, Schedule};
use ferrule_lab::profile::{Sizes, Spent};
use ferrule_lab::topology::LabKeys;
use ferrule_lab::{DeviceId, Direction, End, LinkId, LinkSpec, Network, Profile, StationId};
use ferrule_node::Config;
use ferrule_node::config::Written;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

/// Bits a second of the study's Ethernet.
pub const RATE: u64 = 10_000_000;
/// Octets of an Ethernet packet.
pub const MTU: usize = 1500;
/// MTU of a line that takes any sealed packet whole.
pub const MTU_ROOM: usize = 1600;
/// Windows of Linux 2.0.
pub const WINDOW: usize = 32_767;
/// A tick of its clock, on which acknowledgements wait for company.
pub const TICK: Duration = Duration::from_millis(10);

const SEED: u64 = 2001;
/// Packet buffers, and one more for so many octets of a window: to make more than are
/// needed takes longer than a small transfer.
const BUFFERS: usize = 1024;
const WINDOW_OF_BUFFER: usize = 256;
/// Octets of the windows of a TCP that waits for nothing, at most.
const WINDOW_MAX: u64 = 1 << 20;
const QUEUE: usize = 1 << 14;
/// Hosts and nodes have found each other by then, and none of them says or asks anything
/// more on the line.
const START: Instant = Instant::from_secs(3);
const BEFORE: Instant = Instant::from_nanos(2_999_999_999);
/// A transfer that is not over by then never will be.
const LAST: Duration = Duration::from_secs(20_000);
const SPI: u32 = 0x2001;

/// Circumstances of a transfer.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Protection and mode of the packets.
    pub way: Way,
    /// Costs of the machine.
    pub machine: Profile,
    /// Behaviour of its TCP.
    pub behaviour: Behaviour,
    /// Octets of the line's packets.
    pub mtu: usize,
    /// Seed of the network and of the hosts.
    pub seed: Seed,
}

/// Times of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// From the client's first timed line to its last, in microseconds.
    pub response_us: f64,
    /// Work of both nodes meanwhile.
    pub work: Work,
    /// Frames that the nodes took.
    pub frames: u64,
    /// Octets of them.
    pub octets: u64,
    /// For how long the busier node was busy, in microseconds.
    pub busy_us: f64,
    /// Frames on the line.
    pub on_line: u64,
    /// Frames lost in front of a node or the line.
    pub lost: u64,
}

/// TCP as in Linux 2.0.
pub const fn tcp_of_2001() -> Behaviour {
    Behaviour { window: WINDOW, slow_start: true, nagle: true, ack_delay: Some(TICK) }
}

/// TCP that waits for nothing, for so many octets.
pub fn tcp_unbounded(octets: u64) -> Behaviour {
    let window = (octets + 2 * WINDOW as u64).min(WINDOW_MAX) as usize;
    Behaviour { window, slow_start: false, nagle: false, ack_delay: None }
}

struct Built {
    network: Network,
    nodes: [DeviceId; 2],
    hosts: [StationId; 2],
    line: LinkId,
}

fn address(side: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, side as u8 + 1, 0, 9)
}

fn build(setting: &Setting, application: Application, octets: u64) -> Built {
    let buffers = BUFFERS + setting.behaviour.window / WINDOW_OF_BUFFER;
    let mut network = Network::with_buffers(setting.seed.of(SEED), buffers);
    let nodes = [0, 1].map(|side| {
        let text = machine(side, setting);
        let name = ["left", "right"][side];
        network
            .node(name, config(name, &text), setting.machine.clone())
            .expect("a node that builds")
    });
    let flow = |side: usize| Flow { number: 1, to: IpAddr::from(address(1 - side)) };
    let hosts = [0, 1].map(|side| {
        let mut host = Host::new(HostConfig {
            mac: MacAddr([2, 0x20, 1, 0, side as u8 + 1, 9]),
            addresses: vec![(address(side).into(), 24)],
            gateways: vec![Ipv4Addr::new(10, side as u8 + 1, 0, 1).into()],
            mtu: MTU,
            rate: None,
            seed: setting.seed.of(SEED + side as u64),
        });
        // As the study's hosts: what is too long is cut.
        host.allow_fragments();
        let greeting = Schedule::every(Duration::from_millis(100));
        let greeting = greeting.within(Instant::from_millis(100), START, Some(3));
        host.ping(Flow { number: 2 + side as u32, ..flow(side) }, 98, greeting);
        let party = [Party::Client, Party::Server][side];
        let script = scripts::script(application, octets);
        host.converse(flow(side), party, START, script, &setting.behaviour);
        network.station(["client", "server"][side], Box::new(host))
    });
    for side in [0, 1] {
        let inside = LinkSpec { queue: QUEUE, ..LinkSpec::default() };
        network
            .link(inside, End::Station(hosts[side], 0), End::Device(nodes[side], "lan"))
            .expect("a free port");
    }
    let ethernet = LinkSpec { rate: Some(RATE), queue: QUEUE, shared: true, ..LinkSpec::default() };
    let ends = nodes.map(|node| End::Device(node, "wan"));
    let line = network.link(ethernet, ends[0], ends[1]).expect("free ports");
    Built { network, nodes, hosts, line }
}

/// Makes a transfer. The server is on the right.
///
/// # Panics
/// If it does not come to its end: that is a bug.
pub fn run(setting: &Setting, application: Application, octets: u64) -> Run {
    let Built { mut network, nodes, hosts, line } = build(setting, application, octets);
    network.run_until(BEFORE);
    let before = nodes.map(|node| network.device(node).report());
    let line_before = network.link_stats(line);
    let result = loop {
        let moved = network.step(START + LAST);
        let client = network.station_mut::<Host>(hosts[0]).and_then(|host| host.dialogue(1));
        let client = client.unwrap_or_default();
        assert!(moved && !client.broken, "{application:?} {octets} {:?}: {client:?}", setting.way);
        if client.ended.is_some() {
            break client;
        }
    };
    let after = nodes.map(|node| network.device(node).report());
    let mut run =
        Run { response_us: micros(result.response().unwrap_or_default()), ..Run::default() };
    for (before, after) in before.iter().zip(&after) {
        let flow = (before.stats.arrived, after.stats.arrived);
        let spent = Spent::since(Sizes::default(), flow.1, &after.work, &before.work);
        run.work.merge(&spent.work);
        run.frames += flow.1.packets - flow.0.packets;
        run.octets += flow.1.octets - flow.0.octets;
        let busy_ps = after.stats.busy_ps - before.stats.busy_ps;
        run.busy_us = run.busy_us.max(busy_ps as f64 / 1e6);
        run.lost += after.stats.input_full - before.stats.input_full;
    }
    let line_after = network.link_stats(line);
    for way in Direction::BOTH {
        let (before, after) = (line_before.of(way), line_after.of(way));
        run.on_line += after.offered.packets - before.offered.packets;
        run.lost += after.queue_full - before.queue_full;
    }
    run
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}

fn config(name: &str, text: &str) -> Config {
    let problem = |problems: Vec<_>| -> Config { panic!("{name}: {problems:#?}\n{text}") };
    let written = match Written::parse(text) {
        Ok(written) => written,
        Err(problems) => return problem(problems),
    };
    Config::of_lab(name, &written, &mut LabKeys::default()).unwrap_or_else(problem)
}

/// The node of a machine.
fn machine(side: usize, setting: &Setting) -> String {
    let (own, far) = (side + 1, 2 - side);
    let mut text = format!(
        "[[port]]\nname = \"lan\"\n[[port]]\nname = \"wan\"\nmtu = {}\n\
         [[interface]]\nname = \"lan\"\nport = \"lan\"\naddress = [\"10.{own}.0.1/24\"]\n\
         [[interface]]\nname = \"wan\"\nport = \"wan\"\naddress = [\"192.0.2.{own}/24\"]\n\
         [[route]]\nprefix = \"10.{far}.0.0/24\"\nvia = \"192.0.2.{far}\"\n",
        setting.mtu
    );
    let Way { protection, mode } = setting.way;
    let Some(suite) = protection.suite() else {
        if protection == Protection::Bypass {
            text += "[[policy]]\ninterface = \"wan\"\naction = \"bypass\"\n";
        }
        return text;
    };
    let kind = mode.name();
    let (local, remote) = match mode {
        Mode::Transport => (format!("10.{own}.0.9"), format!("10.{far}.0.9")),
        Mode::Tunnel => (format!("192.0.2.{own}"), format!("192.0.2.{far}")),
    };
    let protocol = if protection.is_ah() { "ah" } else { "esp" };
    let suite = suite.ah_name().filter(|_| protection.is_ah()).unwrap_or(suite.name());
    let _ = write!(
        text,
        "[[{kind}]]\nname = \"study\"\nlocal = \"{local}\"\nremote = \"{remote}\"\n\
         protocol = \"{protocol}\"\nsuite = \"{suite}\"\n"
    );
    let _ = write!(
        text,
        "[{kind}.out]\nspi = {}\nkey = \"lab:2001-{own}-{far}\"\n\
         [{kind}.in]\nspi = {}\nkey = \"lab:2001-{far}-{own}\"\n\
         [[policy]]\ninterface = \"wan\"\naction = \"protect\"\n{kind} = \"study\"\n",
        SPI + own as u32,
        SPI + far as u32
    );
    if mode == Mode::Tunnel {
        let _ = write!(text, "local = \"10.{own}.0.0/24\"\nremote = \"10.{far}.0.0/24\"\n");
    }
    text
}
