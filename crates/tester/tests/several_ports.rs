//! RFC 2889 over several ports, against a switch whose capacities are known.

mod switch;

use ferrule_base::Duration;
use ferrule_tester::search::bridge;
use ferrule_tester::search::congestion::{Control, Found, Roles, congestion};
use ferrule_tester::search::mesh::{Pattern, Sides};
use ferrule_tester::search::throughput::{self, Limit, Throughput, throughput};
use ferrule_tester::search::{Range, Work};
use ferrule_tester::{Layers, Plan, Rate, Stream, Timing};
use switch::{Full, Switch};

const QUEUE: usize = 8;
/// Nanoseconds for a frame: 10,000 a second.
const SERVICE: u64 = 100_000;
const CAPACITY: f64 = 1e9 / SERVICE as f64;
const SECS: f64 = 0.2;

fn timing() -> Timing {
    let (warm_up, drain) = (Duration::ZERO, Duration::from_millis(50));
    Timing { warm_up, drain, ..Timing::new(Duration::from_secs_f64(SECS)) }
}

fn stream(switch: &Switch) -> Stream {
    let macs = switch.macs();
    Stream::new("a", Layers::new(macs[0], macs[1]), 64, Rate::frames(1))
}

/// Ports in turn on both sides.
fn sides(ports: usize) -> Sides {
    let side = |odd| (0..ports).filter(|p| p % 2 == odd).collect();
    Sides { near: side(0), far: side(1) }
}

fn plan(switch: &Switch, pattern: Pattern, line: Option<u64>) -> Plan {
    let sides = sides(switch.ports);
    pattern.plan(&stream(switch), &switch.macs(), &sides, line).expect("enough ports")
}

fn search(switch: &mut Switch, plan: &Plan) -> throughput::Found {
    let range = Range { min: 1000, max: Some(40_000_000), resolution: 1e-4 };
    let settings = Throughput { range, probe: timing(), confirm: None };
    let mut watch = |_: &str| {};
    throughput(&mut Work::new(switch, &mut watch), "mesh", plan, &settings).unwrap()
}

/// The load of each of `streams` that share a server: what it serves, and what its
/// queue takes up in the time of a trial, to a frame of each.
fn check(switch: &mut Switch, pattern: Pattern, streams: f64) {
    let plan = plan(switch, pattern, None);
    let found = search(switch, &plan);
    let load = found.load.unwrap() as f64 / 1e3;
    let truth = (CAPACITY + QUEUE as f64 / SECS) / streams;
    assert!((load - truth).abs() <= truth * 1e-4 + 2.0 / SECS, "{pattern}: {load} for {truth}");
    assert_eq!(found.limit, Limit::Device);
    let result = found.result.unwrap();
    assert!(result.streams.iter().all(|s| s.elsewhere == 0 && s.offered > 0), "{pattern}");
}

#[test]
fn rfc2889_partially_meshed_one_to_many_and_many_to_one_find_the_busiest_output() {
    let mut switch = Switch::new(4, SERVICE, QUEUE);
    check(&mut switch, Pattern::OneToMany, 1.0);
    check(&mut switch, Pattern::ManyToOne, 3.0);
    // Together the one port's output is the narrow place.
    check(&mut switch, Pattern::OneAndMany, 3.0);
    // One port's line is shared by what it sends to the others: 672 bits a frame.
    let plan = plan(&switch, Pattern::OneToMany, Some(6_720_000));
    let found = search(&mut switch, &plan);
    assert_eq!((found.load, found.limit), (Some(3_333_333), Limit::Range));
}

#[test]
fn rfc2889_partially_meshed_forwarding_rate_and_loss_are_the_switchs_own_counts() {
    let mut switch = Switch::new(4, SERVICE, QUEUE);
    let plan = plan(&switch, Pattern::ManyToOne, None);
    let range = Range { max: Some(10_000_000), ..Range::default() };
    let mut watch = |_: &str| {};
    let mut work = Work::new(&mut switch, &mut watch);
    let found = bridge::forwarding(&mut work, "many", &plan, timing(), &range, 5).unwrap();
    let last = found.curve.last().unwrap();
    assert_eq!((last.offered, last.lost), (6000, switch.dropped[0]));
    // 2000 are served meanwhile, and the queue empties afterwards.
    assert!((2000 + QUEUE as u64).abs_diff(last.received) <= 1, "{last:?}");
    assert_eq!(found.at_maximum, last.received as f64 / SECS);
}

#[test]
fn rfc2889_partially_meshed_multiple_devices_find_the_line_between_them() {
    for ports in [4, 6] {
        let mut switch = Switch::new(ports, 1000, QUEUE);
        switch.uplink = Some(SERVICE);
        let crossing = (ports / 2 * ports / 2) as f64;
        check(&mut switch, Pattern::Devices { local: false }, crossing);
    }
    // Local traffic does not cross it.
    let mut switch = Switch::new(4, 1000, QUEUE);
    switch.uplink = Some(SERVICE);
    check(&mut switch, Pattern::Devices { local: true }, 4.0);
}

#[test]
fn rfc2889_fully_meshed_and_unidirectional_over_four_ports_find_their_outputs() {
    let mut switch = Switch::new(4, SERVICE, QUEUE);
    check(&mut switch, Pattern::Full, 3.0);
    check(&mut switch, Pattern::OneWay, 2.0);
}

const ROLES: Roles = Roles { first: 0, second: 2, congested: 1, uncongested: 3 };

fn congest(switch: &mut Switch) -> Found {
    let (stream, macs) = (stream(switch), switch.macs());
    let range = Range { max: Some(CAPACITY as u64 * 1000), ..Range::default() };
    let mut watch = |_: &str| {};
    let mut work = Work::new(switch, &mut watch);
    congestion(&mut work, &stream, &macs, &ROLES, None, &range, timing()).unwrap()
}

#[test]
fn rfc2889_congestion_control_tells_drops_blocking_and_back_pressure_apart() {
    let mut switch = Switch::new(4, SERVICE, QUEUE);
    let found = congest(&mut switch);
    assert_eq!(found.control, Control::Drops);
    assert!(!found.is_blocked());
    let (half, all) = (found.uncongested, found.congested);
    assert_eq!((half.offered, half.received, half.lost), (1000, 1000, 0));
    assert_eq!((all.offered, all.lost), (3000, switch.dropped[1]));
    assert!((2000 + QUEUE as u64).abs_diff(all.received) <= 1, "{all:?}");

    // Frames that wait for the congested port hold up those behind them.
    switch.full = Full::Wait(4);
    let found = congest(&mut switch);
    assert!(found.is_blocked());
    assert_eq!(found.uncongested.lost, switch.dropped[3]);
    assert_eq!(found.congested.lost, switch.dropped[1]);
    assert_eq!(found.control, Control::Drops);

    // Senders that are told to pause lose nothing, and cannot send all.
    switch.full = Full::Pause;
    let found = congest(&mut switch);
    assert_eq!((found.control, found.is_blocked()), (Control::BackPressure, false));
    assert!(found.congested.offered < found.congested.intended, "{:?}", found.congested);
    assert_eq!(found.congested.lost + switch.dropped.iter().sum::<u64>(), 0);

    // A port that carries half as much again is not congested.
    let mut switch = Switch::new(4, SERVICE / 2, QUEUE);
    assert_eq!(congest(&mut switch).control, Control::NotCongested);
}
