//! One load on one system: datagrams by the tester, or a TCP stream between hosts.

use super::network::{Built, END_MAC, LAN_MAC, RATE, System, build, line};
use crate::options::Seed;
use ferrule_base::{Duration, Instant};
use ferrule_lab::host::{Flow, Host, HostConfig, Outcome};
use ferrule_lab::tester::{LabBench, TesterStation};
use ferrule_lab::{End, Profile};
use ferrule_tester::responder::Home;
use ferrule_tester::{Bench, Datagram, Layers, Plan, Rate, Stream, Timing, TrialSpec};
use std::net::{IpAddr, Ipv4Addr};

/// Sent before anything is measured.
const WARM_UP: Duration = Duration::from_millis(20);
/// Waited for late frames.
const DRAIN: Duration = Duration::from_millis(100);
/// A TCP stream runs so long.
const STREAM: Duration = Duration::from_millis(200);
/// Its window: what waits in a system at most is no more, so that none is lost.
const WINDOW: usize = 1 << 16;
/// MTU of the hosts: what they send fits sealed into 1500 octets.
const HOST_MTU: usize = 1420;

/// Direction of the traffic, seen from the system under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The system seals.
    Out,
    /// The system opens.
    In,
}

impl Way {
    /// Both directions.
    pub const ALL: [Self; 2] = [Self::Out, Self::In];

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Out => "sending",
            Self::In => "receiving",
        }
    }

    const fn from(self) -> usize {
        match self {
            Self::Out => 0,
            Self::In => 1,
        }
    }
}

/// Result of one offered load.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Offered, in Mbit/s of the line (preamble, FCS and gap counted).
    pub offered_mbps: f64,
    /// Octets of a frame, with FCS.
    pub octets: usize,
    /// Arrived of what was offered.
    pub share: f64,
    /// Mean delay of what arrived.
    pub mean_us: f64,
    /// Host time of each packet that the system took.
    pub host_us: f64,
}

fn site(side: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, side as u8 + 1, 10).into()
}

/// The host's time and packets so far.
fn spent(built: &ferrule_lab::Network, device: ferrule_lab::DeviceId) -> (u64, u64) {
    let stats = *built.device(device).stats();
    let taken = stats.arrived.packets - stats.input_full - stats.capped;
    (stats.busy_ps, taken)
}

/// Offers datagrams for about so many frames.
pub fn datagrams(
    system: System,
    device: Profile,
    way: Way,
    (octets, mbps): (usize, f64),
    (frames, seed): (u64, Seed),
) -> Point {
    let Built { mut network, device, gateways } = build(system, device, seed);
    let tester = network.station("tester", Box::new(TesterStation::new(2)));
    for (port, gateway) in gateways.into_iter().enumerate() {
        network
            .link(line(), End::Station(tester, port), End::Device(gateway, "lan"))
            .expect("the site's port is free");
    }
    let names = vec!["first".to_owned(), "second".to_owned()];
    let mut bench = LabBench::new(network, tester, names, Some(RATE));
    let home = |side: usize| vec![Home { first: site(side), count: 1, mac: END_MAC[side] }];
    bench.answer_for(vec![home(0), home(1)]);
    let from = way.from();
    let mut layers = Layers::new(END_MAC[from], LAN_MAC[from]);
    layers.datagram = Datagram::between(site(from), site(1 - from));
    let share = (mbps * 1e12 / RATE as f64).round() as u32;
    let mut stream = Stream::new("study", layers, octets, Rate::LineShare(share));
    (stream.tx, stream.rx) = (from, 1 - from);
    let per_second = mbps * 1e6 / (8 * (octets + 20)) as f64;
    let duration = Duration::from_secs_f64(frames as f64 / per_second);
    let timing =
        Timing { warm_up: WARM_UP, duration, drain: DRAIN, grace: Duration::ZERO, interval: None };
    let spec = TrialSpec { plan: Plan::one(stream, Some(RATE)), timing };
    let result = bench.trial(&spec).expect("the study's plan is sound");
    if let Err(unbalanced) = bench.network().audit() {
        panic!("{unbalanced}");
    }
    let (busy_ps, taken) = spent(bench.network(), device);
    Point {
        offered_mbps: mbps,
        octets,
        share: result.received() as f64 / result.offered().max(1) as f64,
        mean_us: result.latency().mean().unwrap_or(f64::NAN) / 1000.0,
        host_us: busy_ps as f64 / 1e6 / taken.max(1) as f64,
    }
}

/// A stream between two hosts: Mbit/s of what the receiver's program got.
pub fn stream(system: System, device: Profile, way: Way, seed: Seed) -> f64 {
    let Built { mut network, gateways, .. } = build(system, device, seed);
    let mut stations = Vec::new();
    for (side, gateway) in gateways.into_iter().enumerate() {
        let router = Ipv4Addr::new(10, 0, side as u8 + 1, 1);
        let mut host = Host::new(HostConfig {
            mac: END_MAC[side],
            addresses: vec![(site(side), 24)],
            gateways: vec![router.into()],
            mtu: HOST_MTU,
            rate: Some(RATE),
            seed: seed.of(7 + side as u64),
        });
        let flow = Flow { number: 1, to: site(1 - way.from()) };
        let begin = Instant::ZERO + WARM_UP;
        match side == way.from() {
            true => host.send_stream(flow, (begin, begin + STREAM), None, WINDOW),
            false => host.take_stream(flow, WINDOW),
        }
        let station = network.station(["h1", "h2"][side], Box::new(host));
        network
            .link(line(), End::Station(station, 0), End::Device(gateway, "lan"))
            .expect("the site's port is free");
        stations.push(station);
    }
    network.run_until(Instant::ZERO + WARM_UP + STREAM + DRAIN);
    let sink = network.station_mut::<Host>(stations[1 - way.from()]);
    match sink.and_then(|host| host.outcome(1)) {
        Some(Outcome::Tcp(tcp)) if !tcp.broken => {
            tcp.received as f64 * 8.0 / STREAM.as_secs_f64() / 1e6
        }
        _ => f64::NAN,
    }
}
