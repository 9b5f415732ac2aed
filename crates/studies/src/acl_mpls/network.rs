//! The study's networks, as configurations of Ferrule's nodes, and one load on one of them.
//!
//! ```text
//!   IP      tester ── router ── tester
//!   MPLS    tester ── PE1 ══ label ══ PE2 ── tester      one VRF, labels of the VPN
//! ```

use super::published::Study;
use ferrule_base::DropReason;
use ferrule_base::{Duration, MacAddr};
use ferrule_lab::tester::{LabBench, TesterStation};
use ferrule_lab::topology::LabKeys;
use ferrule_lab::{DeviceId, DeviceReport, End, LinkSpec, Network, Profile};
use ferrule_node::Config;
use ferrule_node::config::Written;
use ferrule_tester::layers::Field;
use ferrule_tester::responder::Home;
use ferrule_tester::vary::{Change, Vary};
use ferrule_tester::{Bench, Datagram, Layers, Plan, Rate, Stream, Timing, TrialSpec};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

/// Where the list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum List {
    /// Nowhere.
    None,
    /// Where the customer's frames come in.
    In,
    /// Where they leave.
    Out,
}

impl List {
    /// In the order of the limits.
    pub const ALL: [Self; 3] = [Self::None, Self::In, Self::Out];
}

/// What joins the customer's sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Core {
    /// A router.
    Ip,
    /// Two provider edges and a label.
    Mpls,
}

/// A system of the study's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct System {
    /// What joins the sites.
    pub core: Core,
    /// Where the list is.
    pub list: List,
    /// Both sites send.
    pub both_ways: bool,
}

const fn system(core: Core, list: List, both_ways: bool) -> System {
    System { core, list, both_ways }
}

impl System {
    /// In the order of the tables.
    pub const ALL: [Self; 7] = [
        system(Core::Ip, List::None, false),
        system(Core::Ip, List::None, true),
        system(Core::Ip, List::In, false),
        system(Core::Ip, List::Out, false),
        system(Core::Mpls, List::None, false),
        system(Core::Mpls, List::Out, false),
        system(Core::Mpls, List::In, false),
    ];

    /// As the study's file calls it.
    pub const fn key(self) -> &'static str {
        match (self.core, self.list, self.both_ways) {
            (Core::Ip, List::None, false) => "ip, no acl, one way",
            (Core::Ip, List::None, true) => "ip, no acl, both ways",
            (Core::Ip, List::In, _) => "ip, 120 acl inbound",
            (Core::Ip, List::Out, _) => "ip, 120 acl outbound",
            (Core::Mpls, List::None, _) => "mpls, no acl",
            (Core::Mpls, List::Out, _) => "mpls, 120 acl outbound",
            (Core::Mpls, List::In, _) => "mpls, 120 acl inbound",
        }
    }

    /// The same without its list.
    pub const fn unlisted(self) -> Self {
        Self { list: List::None, ..self }
    }
}

/// All lines.
pub const RATE: u64 = 1_000_000_000;
/// Octets of a frame on the line beside those of the frame and its FCS: preamble, start, gap.
pub const LINE_OVERHEAD: usize = ferrule_tester::rate::LINE_OVERHEAD - FCS;
const FCS: usize = ferrule_tester::rate::FCS;
/// Octets of a label.
pub const LABEL: usize = 4;
/// Frames that wait for a line at most.
const QUEUE: usize = 512;
const SEED: u64 = 2001;
const BUFFERS: usize = 8192;
/// Sent before anything is measured.
const WARM_UP: Duration = Duration::from_millis(2);
/// Frames a second that teach addresses.
const LEARNING: f64 = 20_000.0;
/// Waited for late frames.
const DRAIN: Duration = Duration::from_millis(20);
/// The first address of a site's hosts, to which streams go.
const HOSTS: u8 = 10;

const LAN_MAC: [MacAddr; 2] = [MacAddr([2, 15, 227, 1, 1, 1]), MacAddr([2, 15, 227, 2, 1, 1])];
const END_MAC: [MacAddr; 2] = [MacAddr([2, 15, 227, 1, 2, 1]), MacAddr([2, 15, 227, 2, 2, 1])];

fn line() -> LinkSpec {
    LinkSpec { rate: Some(RATE), queue: QUEUE, ..LinkSpec::default() }
}

fn host(side: usize, number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, side as u8 + 1, number)
}

/// Entries 1 to 89 deny a stream each, the next ones what nobody sends, the last one permits
/// the last stream.
fn list(study: &Study) -> String {
    let (streams, entries) = (study.setup.streams as u8, study.setup.acl_entries);
    let mut text = String::from("[[access-list]]\nname = \"study\"\nentry = [\n");
    for number in 1..entries {
        let to = match number < usize::from(streams) {
            true => host(1, HOSTS + number as u8 - 1),
            false => Ipv4Addr::new(10, 9, 9, number as u8),
        };
        let _ = writeln!(text, "{{ action = \"deny\", to = \"{to}\" }},");
    }
    let last = host(1, HOSTS + streams - 1);
    text + &format!("{{ action = \"permit\", to = \"{last}\" }},\n]\n")
}

fn config(name: &str, text: &str) -> Config {
    let problem = |problems: Vec<_>| -> Config { panic!("{name}: {problems:#?}\n{text}") };
    let written = match Written::parse(text) {
        Ok(written) => written,
        Err(problems) => return problem(problems),
    };
    Config::of_lab(name, &written, &mut LabKeys::default()).unwrap_or_else(problem)
}

/// A site's port and interface.
fn site(side: usize, more: &str) -> String {
    let number = side + 1;
    format!(
        "[[port]]\nname = \"site{number}\"\nmac = \"{}\"\n\
         [[interface]]\nport = \"site{number}\"\naddress = [\"10.0.{number}.1/24\"]\n{more}",
        LAN_MAC[side]
    )
}

fn router(system: System, study: &Study) -> String {
    let (acl_in, acl_out) = match system.list {
        List::None => ("", ""),
        List::In => ("acl-in = \"study\"\n", ""),
        List::Out => ("", "acl-out = \"study\"\n"),
    };
    let list = if system.list == List::None { String::new() } else { list(study) };
    site(0, acl_in) + &site(1, acl_out) + &list
}

fn edge(system: System, side: usize, study: &Study) -> String {
    let acl = match (system.list, side) {
        (List::In, 0) => "acl-in = \"study\"\n",
        (List::Out, 1) => "acl-out = \"study\"\n",
        _ => "",
    };
    let (own, far) = (side + 1, 2 - side);
    let core = format!(
        "[[port]]\nname = \"core\"\nmtu = 1600\n[[interface]]\nport = \"core\"\nmpls = true\n\
         address = [\"192.0.2.{own}/24\"]\n[[route]]\nprefix = \"10.0.{far}.0/24\"\nvrf = \"vpn1\"\n\
         via = \"192.0.2.{far}\"\nlabels = [{}]\n[[label]]\nlabel = {}\nvrf = \"vpn1\"\n",
        17_000 + far,
        17_000 + own
    );
    let list = if acl.is_empty() { String::new() } else { list(study) };
    site(side, &format!("vrf = \"vpn1\"\n{acl}")) + &core + &list
}

/// What became of a load, in frames a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Point {
    /// Octets of a frame, with FCS.
    pub octets: usize,
    /// Offered, each way.
    pub offered: f64,
    /// Taken by the device that has the list, or by the first one.
    pub processed: f64,
    /// Denied by the list.
    pub denied: f64,
    /// That reached the other site.
    pub forwarded: f64,
}

/// Frames a second that a line carries.
pub fn line_rate(octets: usize) -> f64 {
    RATE as f64 / (8 * (octets + LINE_OVERHEAD)) as f64
}

/// Offers so many frames a second for about so many frames.
pub fn measure(
    system: System,
    study: &Study,
    device: Profile,
    (octets, per_second): (usize, f64),
    frames: u64,
) -> Point {
    let mut network = Network::with_buffers(SEED, BUFFERS);
    let mut node = |name: &str, text: &str, profile: Profile| {
        network.node(name, config(name, text), profile).expect("a node that builds")
    };
    let (ends, listed): ([DeviceId; 2], DeviceId) = match system.core {
        Core::Ip => {
            let router = node("router", &router(system, study), device);
            ([router; 2], router)
        }
        Core::Mpls => {
            let at = usize::from(system.list == List::Out);
            let ends = [0, 1].map(|side| {
                let profile = if side == at { device.clone() } else { Profile::ideal() };
                node(&format!("pe{}", side + 1), &edge(system, side, study), profile)
            });
            let cores = ends.map(|device| End::Device(device, "core"));
            network.link(line(), cores[0], cores[1]).expect("free ports");
            (ends, ends[at])
        }
    };
    let tester = network.station("tester", Box::new(TesterStation::new(2)));
    for (side, (device, port)) in ends.into_iter().zip(["site1", "site2"]).enumerate() {
        let (tester, device) = (End::Station(tester, side), End::Device(device, port));
        network.link(line(), tester, device).expect("the site's port is free");
    }
    let first = ends[0];
    let names = vec!["site 1".to_owned(), "site 2".to_owned()];
    let mut bench = LabBench::new(network, tester, names, Some(RATE));
    let streams = study.setup.streams;
    let home = |side: usize| {
        vec![Home { first: host(side, HOSTS).into(), count: streams, mac: END_MAC[side] }]
    };
    bench.answer_for(vec![home(0), home(1)]);
    let stream = |from: usize, per_second: f64| {
        let mut layers = Layers::new(END_MAC[from], LAN_MAC[from]);
        let (src, dst): (IpAddr, IpAddr) = (host(from, HOSTS).into(), host(1 - from, HOSTS).into());
        layers.datagram = Datagram::between(src, dst);
        let rate = Rate::MilliFrames((per_second * 1000.0).round() as u64);
        let mut stream = Stream::new(format!("from site {}", from + 1), layers, octets, rate);
        // At random: in turn, a bucket that is full at every second frame would always have
        // the same streams lose.
        let change = Change::Random { count: streams, seed: SEED + from as u64 };
        stream.vary = vec![Vary { field: Field::IpDst, change }];
        (stream.tx, stream.rx) = (from, 1 - from);
        stream
    };
    let count = if system.both_ways { 2 } else { 1 };
    let mut offer = |bench: &mut LabBench, per_second: f64, frames: u64| {
        let plan = Plan {
            streams: (0..count).map(|from| stream(from, per_second)).collect(),
            line: Some(RATE),
        };
        let duration = Duration::from_secs_f64(frames as f64 / per_second);
        let timing = Timing {
            warm_up: WARM_UP,
            duration,
            drain: DRAIN,
            grace: Duration::ZERO,
            interval: None,
        };
        let result = bench.trial(&TrialSpec { plan, timing }).expect("the study's plan is sound");
        if let Err(unbalanced) = bench.network().audit() {
            panic!("{unbalanced}");
        }
        (result, [first, listed].map(|device| bench.network().device(device).report()))
    };
    // RFC 2544 section 23: addresses are learned before a trial. A bucket that is full takes
    // requests and answers of ARP for what they are: frames.
    let (_, before) = offer(&mut bench, LEARNING, streams * 10);
    let (result, after) = offer(&mut bench, per_second, frames);
    let grown = |at: usize, of: fn(&DeviceReport) -> u64| (of(&after[at]) - of(&before[at])) as f64;
    // What a line between the edges lost was offered, too.
    let came = grown(0, |report| report.stats.arrived.packets);
    let taken = grown(1, |report| {
        report.stats.arrived.packets - report.stats.capped - report.stats.input_full
    });
    let denied = grown(1, |report| report.drops.get(DropReason::AclDenied));
    let offered = result.offered() as f64;
    Point {
        octets,
        offered: per_second,
        processed: per_second * taken / came.max(1.0),
        denied: per_second * denied / came.max(1.0),
        forwarded: per_second * result.received() as f64 / offered.max(1.0),
    }
}
