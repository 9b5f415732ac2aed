//! Searches against devices whose capacity is known.

mod device;

use device::{Bridge, Device, Kind, Labels};
use ferrule_base::{Duration, MacAddr};
use ferrule_tester::search::back_to_back::{BackToBack, back_to_back};
use ferrule_tester::search::bridge::{self, Addresses, Roles};
use ferrule_tester::search::latency::latency;
use ferrule_tester::search::loss::loss;
use ferrule_tester::search::mesh::{Pattern, Sides};
use ferrule_tester::search::mlrsearch::{self, Goal, mlrsearch};
use ferrule_tester::search::mpls::{Mpls, Operation, mpls};
use ferrule_tester::search::recovery::{self, Recovery, recovery};
use ferrule_tester::search::reset::reset;
use ferrule_tester::search::soak::soak;
use ferrule_tester::search::throughput::{Found, Limit, Throughput, throughput};
use ferrule_tester::search::{Range, Work};
use ferrule_tester::{
    About, Bench, BenchError, Layers, Plan, Rate, Stream, Timing, TrialResult, TrialSpec,
};
use ferrule_wire::Label;

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn timing(millis: u64) -> Timing {
    let (warm_up, drain) = (Duration::from_millis(1), Duration::from_millis(50));
    Timing { warm_up, drain, ..Timing::new(Duration::from_millis(millis)) }
}

fn plan(size: usize) -> Plan {
    Plan::one(Stream::new("a", Layers::new(A, B), size, Rate::frames(1)), None)
}

fn range(max: u64) -> Range {
    Range { max: Some(max * 1000), ..Range::default() }
}

fn search(device: &mut Device, plan: &Plan, range: Range, millis: u64) -> Found {
    let mut watch = |_: &str| {};
    let mut work = Work::new(device, &mut watch);
    let settings = Throughput { range, probe: timing(millis), confirm: Some(timing(2 * millis)) };
    throughput(&mut work, "throughput", plan, &settings).unwrap()
}

/// The highest load without loss of a server with a queue: what is served, and
/// what the queue takes up over the time of a trial (warm-up included).
fn lossless(device: &Device, millis: u64) -> f64 {
    device.capacity() + device.queue as f64 / ((millis + 1) as f64 / 1e3)
}

#[test]
fn rfc2544_throughput_finds_the_capacity_of_a_known_device_to_the_resolution() {
    for (service, queue) in [(10_000, 1), (10_000, 64), (3_333, 8), (47_001, 200)] {
        let mut device = Device::new(service, queue, Kind::Wire);
        // Confirmed over 40 ms: so long the queue must last.
        let truth = lossless(&device, 40);
        let found = search(&mut device, &plan(64), range(1_000_000), 20);
        let (load, failed) = (found.load.unwrap() as f64 / 1e3, found.failed.unwrap() as f64 / 1e3);
        assert!(load <= truth * 1.0005, "{load} above {truth}");
        assert!(load >= truth * 0.97, "{load} far below {truth}");
        assert!(failed - load <= failed * 0.0051 || load >= truth * 0.995, "{load} to {failed}");
        assert_eq!(found.limit, Limit::Device);
        let result = found.result.unwrap();
        assert_eq!((result.lost(), result.received()), (0, result.intended()));
    }
}

#[test]
fn rfc2544_throughput_of_one_length_of_trial_is_exact() {
    let mut device = Device::new(8_000, 16, Kind::Wire);
    let mut watch = |_: &str| {};
    let fine = Range { resolution: 1e-5, ..range(1_000_000) };
    let probe = Timing { warm_up: Duration::ZERO, ..timing(100) };
    let settings = Throughput { range: fine, probe, confirm: None };
    let truth = device.capacity() + 16.0 / 0.1;
    let mut work = Work::new(&mut device, &mut watch);
    let found = throughput(&mut work, "exact", &plan(64), &settings).unwrap();
    // A frame more or less in the queue at the end: 10 frames a second.
    let load = found.load.unwrap() as f64 / 1e3;
    assert!((load - truth).abs() <= 10.0 + truth * 1e-5, "{load} for {truth}");
}

#[test]
fn rfc2544_throughput_is_the_lines_where_the_device_keeps_up() {
    let mut device = Device::new(100, 64, Kind::Wire);
    let mut plan = plan(1518);
    plan.line = Some(100_000_000);
    let found = search(&mut device, &plan, Range::default(), 50);
    assert_eq!((found.load, found.limit), (Some(8_127_438), Limit::Range));
}

#[test]
fn rfc2544_throughput_without_a_known_top_doubles_until_it_fails() {
    let mut device = Device::new(5_000, 4, Kind::Wire);
    let found = search(&mut device, &plan(64), Range::default(), 20);
    let load = found.load.unwrap() as f64 / 1e3;
    assert!((load / 200_000.0 - 1.0).abs() < 0.01, "{load}");
}

#[test]
fn a_tester_that_cannot_send_more_says_that_it_is_the_limit() {
    let mut device = Device::new(100, 64, Kind::Wire);
    device.sender = Some(50_000);
    let found = search(&mut device, &plan(64), range(1_000_000), 50);
    let load = found.load.unwrap() as f64 / 1e3;
    assert_eq!(found.limit, Limit::Tester);
    assert!((49_000.0..=51_000.0).contains(&load), "{load}");
}

#[test]
fn a_device_that_loses_at_every_load_has_no_throughput() {
    let mut device = Device::new(2_000_000, 1, Kind::Wire);
    let mut slow = range(100_000);
    slow.min = 1_000_000;
    let found = search(&mut device, &plan(64), slow, 20);
    assert!(found.load.is_none() && found.failed == Some(1_000_000));
}

#[test]
fn rfc2544_latency_of_a_known_device_is_exact_with_confidence_over_repeats() {
    let mut device = Device::new(10_000, 64, Kind::Wire);
    let mut watch = |_: &str| {};
    let mut work = Work::new(&mut device, &mut watch);
    let found = latency(&mut work, "latency", &plan(64), timing(20), 50_000_000, 5).unwrap();
    assert_eq!(found.latency.min(), Some(10_000));
    assert_eq!(found.latency.max(), Some(10_000));
    assert_eq!(found.latency.quantile(0.9999), Some(10_000));
    assert_eq!(found.means.unwrap().mean_95, Some((10_000.0, 10_000.0)));
    assert_eq!((found.offered, found.received), (5000, 5000));
    assert_eq!(found.jitter[0].1.rfc3550(), 0);
}

#[test]
fn rfc2544_frame_loss_goes_down_by_tenths_until_two_loads_lose_nothing() {
    let mut device = Device::new(10_000, 1, Kind::Wire);
    let mut watch = |_: &str| {};
    let mut work = Work::new(&mut device, &mut watch);
    let curve = loss(&mut work, "loss", &plan(64), timing(50), &range(200_000), 10).unwrap();
    let shares: Vec<u64> = curve.iter().map(|m| m.load / 20_000_000).collect();
    assert_eq!(shares, [10, 9, 8, 7, 6, 5, 4]);
    for m in &curve {
        // A server without a queue: what is above the capacity is lost, in whole
        // frames of its pattern.
        let load = m.load as f64 / 1e3;
        let every = (load / 100_000.0).ceil();
        let expected = if load <= 100_000.0 { 0.0 } else { 1.0 - 1.0 / every };
        assert!((m.loss_ratio() - expected).abs() < 0.002, "{load}: {}", m.loss_ratio());
    }
}

#[test]
fn rfc2544_back_to_back_finds_what_the_queue_holds_and_rfc9004_its_time() {
    let mut device = Device::new(10_000, 100, Kind::Wire);
    device.line = Some(1_000_000_000);
    let mut plan = plan(64);
    plan.line = device.line;
    let mut watch = |_: &str| {};
    let mut work = Work::new(&mut device, &mut watch);
    let settings = BackToBack {
        longest: Duration::from_millis(2),
        repeats: 7,
        drain: Duration::from_millis(5),
        resolution: 0.0,
        throughput: Some(100_000_000),
    };
    let found = back_to_back(&mut work, "burst", &plan, &settings).unwrap();
    // Frames come every 672 ns and one leaves every 10 us: a queue of 100 takes
    // 100 of them and as many as leave meanwhile.
    assert_eq!(found.bursts, [107; 7]);
    let summary = found.summary.unwrap();
    assert_eq!((summary.mean, summary.deviation), (107.0, 0.0));
    assert!(!found.at_limit);
    assert!((found.buffer_secs - 107.0 * 672e-9).abs() < 1e-9);
    let corrected = found.buffer_corrected_secs.unwrap();
    assert!((corrected - 107.0 * 672e-9 * (1.0 - 672.0 / 10_000.0)).abs() < 1e-9);
}

/// A load at which a server with a queue loses just this share of a trial.
fn load_for(device: &Device, ratio: f64, secs: f64) -> f64 {
    (device.capacity() + device.queue as f64 / secs) / (1.0 - ratio)
}

#[test]
fn mlrsearch_finds_several_loss_ratios_of_a_known_device_in_one_search() {
    let mut device = Device::new(10_000, 32, Kind::Wire);
    let last = Duration::from_millis(80);
    let goals = [0.0, 0.005, 0.05].map(|ratio| Goal::new(ratio, last));
    let timing = Timing { warm_up: Duration::ZERO, ..timing(80) };
    let mut watch = |_: &str| {};
    let mut work = Work::new(&mut device, &mut watch);
    let found = mlrsearch(&mut work, "mlr", &plan(64), timing, &range(1_000_000), &goals).unwrap();
    for (found, goal) in found.iter().zip(&goals) {
        let truth = load_for(&device, goal.loss_ratio, 0.08);
        let (low, high) = (found.lower.unwrap() as f64 / 1e3, found.upper.unwrap() as f64 / 1e3);
        assert!(high - low <= high * goal.width * 1.001, "{low} to {high}");
        // A frame or two of the queue at the end.
        assert!(low <= truth + 30.0 && truth - 30.0 <= high, "{truth} not in {low} to {high}");
        let conditional = found.conditional.unwrap() / 1e3;
        assert!(conditional <= low && conditional >= low * (1.0 - goal.loss_ratio));
    }
    let separate: usize = device.trials;
    // Fewer trials than three bisections of full length from the same range.
    assert!(separate < 90, "{separate} trials");
}

#[test]
fn mlrsearch_is_not_misled_by_a_noisy_device_where_a_bisection_is() {
    // In one trial of four the device pauses for 2 ms, which its queue cannot
    // hold: frames are lost at any load above 8000 a second.
    let noisy = || {
        let mut device = Device::new(10_000, 16, Kind::Wire);
        device.noise = Some((4, 2_000_000));
        device
    };
    let last = Duration::from_millis(80);
    let goal = Goal { sum: last * 11, width: 0.01, ..Goal::new(0.0, last) };
    let timing = Timing { warm_up: Duration::ZERO, ..timing(80) };
    let truth = load_for(&noisy(), 0.0, 0.08);
    let (mut within, mut misled) = (0, 0);
    for seed in 0..6 {
        let mut device = noisy();
        device.rng = ferrule_base::Rng::new(seed);
        let mut watch = |_: &str| {};
        let mut work = Work::new(&mut device, &mut watch);
        let found =
            mlrsearch(&mut work, "mlr", &plan(64), timing, &range(400_000), &[goal]).unwrap();
        let low = found[0].lower.unwrap() as f64 / 1e3;
        within += usize::from((low / truth - 1.0).abs() <= 0.02);
        assert!(low <= truth * 1.001, "{low} above {truth}");
        let found = search(&mut device, &plan(64), range(330_000), 80);
        let low = found.load.map_or(0.0, |l| l as f64 / 1e3);
        misled += usize::from(low < truth * 0.98);
    }
    assert!(within >= 5, "{within} of 6 near the truth");
    assert!(misled >= 2, "{misled} of 6 bisections far below");
}

#[test]
fn mlrsearch_says_when_a_goal_fails_at_every_load_or_holds_at_the_highest() {
    let last = Duration::from_millis(20);
    let goals = [Goal::new(0.0, last)];
    for (service, holds) in [(100, true), (5_000_000, false)] {
        let mut device = Device::new(service, 2, Kind::Wire);
        let mut watch = |_: &str| {};
        let mut work = Work::new(&mut device, &mut watch);
        let range = Range { min: 10_000_000, ..range(100_000) };
        let found = mlrsearch(&mut work, "mlr", &plan(64), timing(20), &range, &goals).unwrap();
        assert_eq!(found[0].lower, holds.then_some(100_000_000));
        assert_eq!(found[0].upper, (!holds).then_some(10_000_000));
    }
}

fn bridge_of(ports: usize, capacity: usize, learning: u64) -> Device {
    let mut device = Device::new(1_000, 256, Kind::Bridge(Bridge::new(capacity, learning)));
    device.ports = ports;
    device
}

fn addresses() -> Addresses {
    Addresses {
        roles: Roles { test: 0, learning: 1, monitor: 2 },
        learning_rate: 10_000,
        test_rate: 10_000,
        ageing: Duration::ZERO,
        first: MacAddr([2, 0x10, 0, 0, 0, 0]),
    }
}

#[test]
fn rfc2889_address_caching_capacity_is_found_exactly() {
    // The table holds the tester's own address as well.
    let mut device = bridge_of(3, 301, 0);
    let stream = Stream::new("a", Layers::new(A, B), 64, Rate::frames(1));
    // The model does not age: a fresh one for every try stands for that.
    let mut tries = Vec::new();
    let (mut low, mut high) = (0, 1025);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if let Kind::Bridge(bridge) = &mut device.kind {
            bridge.table.clear();
        }
        let mut watch = |_: &str| {};
        let mut work = Work::new(&mut device, &mut watch);
        let (found, more) =
            bridge::caching_capacity(&mut work, &stream, None, &addresses(), middle).unwrap();
        tries.extend(more);
        if found == middle { low = middle } else { high = middle }
    }
    assert_eq!(low, 300);
    assert!(tries.iter().all(|t| t.all() == (t.flooded == 0)));
}

#[test]
fn rfc2889_address_learning_rate_is_found_where_learning_takes_time() {
    // Learning an address takes 50 us: 20,000 a second.
    let stream = Stream::new("a", Layers::new(A, B), 64, Rate::frames(1));
    let rate = |top: u64| {
        let mut device = bridge_of(3, 5000, 50_000);
        let mut watch = |_: &str| {};
        let mut work = Work::new(&mut device, &mut watch);
        let range = Range { max: Some(top * 1000), ..Range::default() };
        bridge::learning_rate(&mut work, &stream, None, &addresses(), 100, &range).unwrap()
    };
    assert_eq!(rate(20_000), Some(20_000), "learned in time");
    assert_ne!(rate(20_100), Some(20_100), "and no faster");
}

#[test]
fn rfc2889_forwarding_rate_is_the_devices_where_it_is_overloaded() {
    let mut device = bridge_of(2, 100, 0);
    device.service = 10_000;
    let stream = Stream::new("a", Layers::new(A, B), 64, Rate::frames(1));
    let sides = Sides { near: vec![0], far: vec![1] };
    let plan = Pattern::Full.plan(&stream, &[A, B], &sides, None).unwrap();
    assert_eq!(plan.streams.len(), 2);
    let mut watch = |_: &str| {};
    let mut work = Work::new(&mut device, &mut watch);
    let found =
        bridge::forwarding(&mut work, "mesh", &plan, timing(50), &range(100_000), 10).unwrap();
    assert_eq!(found.curve.len(), 10);
    // Two streams of 50,000 fill it; the queue gives a few more at the end.
    assert!((found.at_maximum / 100_000.0 - 1.0).abs() < 0.06, "{}", found.at_maximum);
    assert!(found.maximum.0 >= found.at_maximum && found.maximum.1 >= 50_000_000);
    assert!(found.curve[..5].iter().all(|m| m.passes()), "{:?}", found.curve);
}

#[test]
fn rfc2889_errored_frames_are_filtered_or_not_and_what_cannot_be_sent_is_said() {
    let mut device = bridge_of(2, 100, 0);
    let mut watch = |_: &str| {};
    let mut work = Work::new(&mut device, &mut watch);
    let plan = plan(64).at(Rate::frames(1000));
    let found = bridge::errored(&mut work, &plan, timing(50), 1518).unwrap();
    assert_eq!((found[0].kind, found[0].offered, found[0].forwarded), ("undersize", Some(50), 0));
    assert_eq!((found[1].size, found[1].offered, found[1].forwarded), (1519, Some(50), 0));
    assert!(found[2..].iter().all(|e| e.offered.is_none()));
    if let Kind::Bridge(bridge) = &mut device.kind {
        bridge.longest = 2000;
    }
    let mut work = Work::new(&mut device, &mut watch);
    let found = bridge::errored(&mut work, &plan, timing(50), 1518).unwrap();
    assert_eq!(found[1].forwarded, 50, "a bridge that lets giants through is caught");
}

#[test]
fn rfc2889_broadcast_frames_have_a_throughput_and_learning_goes_before_a_test() {
    let mut device = bridge_of(2, 100, 0);
    device.service = 20_000;
    let found = search(&mut device, &bridge::broadcast(&plan(64)), range(200_000), 50);
    assert!((found.load.unwrap() as f64 / 5e7 - 1.0).abs() < 0.12, "{:?}", found.load);
    // Addresses that vary are all shown before.
    let mut plan = plan(64);
    let vary = ferrule_tester::Vary::increment(ferrule_tester::Field::EthDst, 50);
    plan.streams[0].vary = vec![vary];
    let mut watch = |_: &str| {};
    bridge::teach(&mut Work::new(&mut device, &mut watch), &plan).unwrap();
    let Kind::Bridge(bridge) = &device.kind else { panic!() };
    assert!((0..50).all(|i| bridge.table.get(&MacAddr::from_u64(B.to_u64() + i)) == Some(&1)));
}

#[test]
fn rfc5695_push_swap_and_pop_have_throughput_latency_and_loss() {
    let label = |n| Label::new(n).unwrap();
    for (labels, operation) in [
        (Labels::Push(100), Operation::Push { out: vec![label(100)] }),
        (
            Labels::Swap(200),
            Operation::Swap { labels: vec![label(100), label(7)], out: label(200) },
        ),
        (Labels::Pop, Operation::Pop { labels: vec![label(100)] }),
        (Labels::Pop, Operation::Pop { labels: vec![label(100), label(7)] }),
    ] {
        let mut device = Device::new(10_000, 8, Kind::Router(labels));
        let mut watch = |_: &str| {};
        let mut work = Work::new(&mut device, &mut watch);
        let search =
            Throughput { range: range(200_000), probe: timing(20), confirm: Some(timing(50)) };
        let settings = Mpls { throughput: search, timing: timing(20), repeats: 2, steps: 10 };
        let found = mpls(&mut work, &operation, &plan(72), &settings).unwrap();
        let load = found.throughput.load.unwrap() as f64 / 1e3;
        assert!((load / 100_000.0 - 1.0).abs() < 0.02, "{operation:?}: {load}");
        assert_eq!(found.misencapsulated, 0, "{operation:?}");
        // At its throughput the queue is not empty.
        let min = found.latency.unwrap().latency.min().unwrap();
        assert!((10_000..=80_000).contains(&min), "{min}");
        assert_eq!(found.loss.len(), 7, "{:?}", found.loss);
    }
}

#[test]
fn rfc5695_a_router_that_puts_the_wrong_label_on_is_caught() {
    let mut device = Device::new(10_000, 8, Kind::Router(Labels::Push(101)));
    let mut watch = |_: &str| {};
    let mut work = Work::new(&mut device, &mut watch);
    let search = Throughput { range: range(50_000), probe: timing(20), confirm: None };
    let settings = Mpls { throughput: search, timing: timing(20), repeats: 1, steps: 0 };
    let operation = Operation::Push { out: vec![Label::new(100).unwrap()] };
    let found = mpls(&mut work, &operation, &plan(64), &settings).unwrap();
    let result = found.throughput.result.unwrap();
    assert_eq!((found.misencapsulated, result.lost()), (result.received(), 0));
}

fn overload(device: &mut Device, plan: &Plan, throughput: u64) -> recovery::Found {
    let settings = Recovery {
        throughput: throughput * 1000,
        range: range(1_000_000),
        timing: Timing { warm_up: Duration::ZERO, ..timing(100) },
        overload: Duration::from_millis(64),
        repeats: 1,
    };
    let mut watch = |_: &str| {};
    recovery(&mut Work::new(device, &mut watch), "recovery", plan, &settings).unwrap()
}

#[test]
fn rfc2544_system_recovery_is_the_devices_own_last_drop_to_the_nanosecond() {
    // The device loses all for 5 ms once it is full, every 6.6 ms, and so at 64 ms.
    let mut device = Device::new(10_000, 16, Kind::Wire);
    device.grudge = 5_000_000;
    let found = overload(&mut device, &plan(64), 100_000);
    assert_eq!((found.overload, found.rest), (110_000_000, 55_000_000));
    let [trial] = found.trials[..] else { panic!() };
    let truth = device.last_drop - device.measured - 64_000_000;
    assert_eq!(trial.time, Some(Duration::from_nanos(truth)));
    assert!((100_000..5_000_000).contains(&truth), "{truth}");
    // Frames of 55,000 a second, the first at once.
    assert_eq!(trial.lost_after, (truth * 55).div_ceil(1_000_000) + 1);
    assert!(found.was_overloaded() && found.recovers() && trial.was_offered);
    // A queue alone is left behind at once.
    device.grudge = 0;
    let found = overload(&mut device, &plan(64), 100_000);
    let [trial] = found.trials[..] else { panic!() };
    assert!(found.was_overloaded(), "{trial:?}");
    assert_eq!((trial.time, trial.lost_after), (Some(Duration::ZERO), 0));
    // Without recovery there is no time; without an overload the result says so.
    device.grudge = 1_000_000_000;
    assert!(!overload(&mut device, &plan(64), 100_000).recovers());
    device.grudge = 0;
    assert!(!overload(&mut device, &plan(64), 50_000).was_overloaded());
}

#[test]
fn rfc5695_system_recovery_and_reset_of_push_swap_and_pop_are_exact() {
    let label = |n| Label::new(n).unwrap();
    for (labels, operation) in [
        (Labels::Push(100), Operation::Push { out: vec![label(100)] }),
        (Labels::Swap(200), Operation::Swap { labels: vec![label(100)], out: label(200) }),
        (Labels::Pop, Operation::Pop { labels: vec![label(100)] }),
    ] {
        let mut device = Device::new(10_000, 16, Kind::Router(labels));
        (device.grudge, device.outage) = (5_000_000, 7_000_000);
        let plan = Plan::one(operation.stream(&plan(72).streams[0]), None);
        let found = overload(&mut device, &plan, 100_000);
        let truth = device.last_drop - device.measured - 64_000_000;
        assert_eq!(found.trials[0].time, Some(Duration::from_nanos(truth)), "{operation:?}");
        let wrong = |r: &ferrule_tester::TrialResult| {
            r.streams.iter().map(|s| s.received.misencapsulated).sum::<u64>()
        };
        assert_eq!(wrong(&found.result.unwrap()), 0);

        let mut watch = |_: &str| {};
        let mut work = Work::new(&mut device, &mut watch);
        let at = Some(Duration::from_millis(30));
        let found = reset(&mut work, "reset", &plan, timing(100), 50_000_000, at).unwrap();
        // 7 ms of a frame every 20 us, and the time of one more.
        assert_eq!((found.lost, wrong(&found.result)), (350, 0));
        assert_eq!(found.by_loss, Some(Duration::from_millis(7)));
        assert_eq!(found.by_time, Some(Duration::from_micros(7020)));
        assert!(found.is_back && found.was_reset());
    }
}

#[test]
fn rfc6201_reset_of_a_device_that_stays_away_or_was_not_reset_has_no_time() {
    let mut device = Device::new(10_000, 16, Kind::Wire);
    device.outage = 1_000_000_000;
    let at = Some(Duration::from_millis(30));
    let run = |device: &mut Device, at| {
        let mut watch = |_: &str| {};
        let mut work = Work::new(device, &mut watch);
        reset(&mut work, "reset", &plan(64), timing(100), 50_000_000, at).unwrap()
    };
    let found = run(&mut device, at);
    assert!(!found.is_back && found.by_time.is_none() && found.by_loss.is_none());
    assert_eq!(found.lost, 3500);
    let found = run(&mut device, None);
    assert!(found.is_back && !found.was_reset() && found.by_time.is_none());
}

#[test]
fn soak_names_the_parts_in_which_frames_were_lost() {
    let mut device = Device::new(10_000, 16, Kind::Wire);
    device.noise = Some((1, 2_000_000));
    let mut watch = |_: &str| {};
    let mut work = Work::new(&mut device, &mut watch);
    let mut timing = timing(1000);
    timing.interval = Some(Duration::from_millis(10));
    let plan = plan(64).at(Rate::frames(50_000));
    let found = soak(&mut work, "soak", &plan, timing).unwrap();
    assert_eq!(found.result.intervals.len(), 100);
    // The pause is in the middle: 2 ms of 50,000 a second, less what waits.
    assert_eq!(found.lossy.len(), 1);
    let (part, lost) = found.lossy[0];
    assert_eq!((part, lost), (50, found.result.lost()));
    assert!((82..=86).contains(&lost), "{lost}");
    assert_eq!(found.slowest.map(|s| s.0), Some(50));
    assert!(!found.is_clean());
    device.noise = None;
    let mut work = Work::new(&mut device, &mut watch);
    assert!(soak(&mut work, "soak", &plan, timing).unwrap().is_clean());
    assert!(device.about().is_virtual);
}

/// A bench that is stopped after so many trials.
struct Stopped {
    device: Device,
    left: usize,
    partial: Option<TrialResult>,
}

impl Bench for Stopped {
    fn about(&self) -> About {
        self.device.about()
    }

    fn trial(&mut self, spec: &TrialSpec) -> Result<TrialResult, BenchError> {
        if self.left == 0 {
            self.partial = self.device.trial(spec).ok().map(|r| r.until(spec.timing.duration / 2));
            return Err(BenchError::Stopped);
        }
        self.left -= 1;
        self.device.trial(spec)
    }

    fn interrupted(&mut self) -> Option<TrialResult> {
        self.partial.take()
    }
}

/// Result of a search that is stopped after so many trials, and whether the work knows of the stop.
fn stopped<T>(
    left: usize,
    search: impl FnOnce(&mut Work<'_>) -> Result<T, BenchError>,
) -> Result<T, BenchError> {
    let device = Device::new(10_000, 64, Kind::Wire);
    let mut bench = Stopped { device, left, partial: None };
    let mut watch = |_: &str| {};
    let mut work = Work::new(&mut bench, &mut watch);
    let found = search(&mut work);
    assert!(work.is_stopped());
    found
}

#[test]
fn a_search_that_is_stopped_answers_with_what_it_has() {
    let plan = plan(64);
    let settings =
        Throughput { range: range(1_000_000), probe: timing(20), confirm: Some(timing(40)) };
    let rates = |left| stopped(left, |work| throughput(work, "throughput", &plan, &settings));
    let found = rates(5).unwrap();
    assert_eq!(found.limit, Limit::Stopped);
    let (low, high) = (found.load.unwrap(), found.failed.unwrap());
    assert!((50_000_000..110_000_000).contains(&low) && low < high, "{low} to {high}");
    assert!(high - low > high / 100, "the search is not at its end: {low} to {high}");
    // In the trial that confirms: what was found with short ones is not forgotten.
    let whole = search(&mut Device::new(10_000, 64, Kind::Wire), &plan, range(1_000_000), 20);
    let (mut last, mut left) = (found, 6);
    while last.limit == Limit::Stopped && left < 12 {
        last = rates(left).unwrap();
        left += 1;
    }
    assert!(last.load.unwrap() >= whole.load.unwrap(), "{:?} {:?}", last.load, whole.load);
    assert_eq!(rates(0).err(), Some(BenchError::Stopped), "nothing is no answer");

    let goals =
        [Goal::new(0.0, Duration::from_millis(20)), Goal::new(0.05, Duration::from_millis(20))];
    let found = |left| {
        stopped(left, |work| {
            mlrsearch(work, "mlrsearch", &plan, timing(20), &range(1_000_000), &goals)
        })
    };
    // Trials of the phases before the last are too short to bound anything for a goal.
    let bounded = |f: &mlrsearch::Found| f.upper.is_some() || f.lower.is_some();
    assert!(!found(12).unwrap().iter().any(bounded));
    let found = (13..100).map(|left| found(left).unwrap()).find(|f| f.iter().any(bounded));
    assert_eq!(found.expect("bounds before the search is at its end").len(), 2);
    let curve =
        stopped(3, |work| loss(work, "loss", &plan, timing(20), &range(1_000_000), 10)).unwrap();
    assert_eq!(curve.len(), 3);
    let load = 50_000_000;
    let found = stopped(2, |work| latency(work, "latency", &plan, timing(20), load, 20)).unwrap();
    assert_eq!(found.means.unwrap().count, 2);
    // One long trial has what it measured until then.
    let timing = Timing { interval: Some(Duration::from_millis(1)), ..timing(20) };
    let plan = plan.at(Rate::MilliFrames(load));
    let found = stopped(0, |work| soak(work, "soak", &plan, timing)).unwrap();
    assert_eq!((found.result.duration, found.result.intervals.len()), (timing.duration / 2, 10));
}

#[test]
fn time_of_a_search_is_foretold_within_a_factor_of_two() {
    struct Clock<'a>(&'a mut Device, Duration);
    impl Bench for Clock<'_> {
        fn about(&self) -> About {
            self.0.about()
        }
        fn trial(&mut self, spec: &TrialSpec) -> Result<TrialResult, BenchError> {
            self.1 += spec.timing.sending();
            self.0.trial(spec)
        }
    }
    let plan = plan(64);
    let settings =
        Throughput { range: range(1_000_000), probe: timing(20), confirm: Some(timing(40)) };
    let mut device = Device::new(10_000, 64, Kind::Wire);
    let mut clock = Clock(&mut device, Duration::ZERO);
    let mut watch = |_: &str| {};
    throughput(&mut Work::new(&mut clock, &mut watch), "throughput", &plan, &settings).unwrap();
    let close = |told: Duration, took: Duration| told < took * 2 && took < told * 2;
    assert!(close(settings.time(&plan), clock.1), "{:?} for {:?}", settings.time(&plan), clock.1);
    let goals =
        [Goal::new(0.0, Duration::from_millis(20)), Goal::new(0.05, Duration::from_millis(20))];
    let mut clock = Clock(&mut device, Duration::ZERO);
    let mut work = Work::new(&mut clock, &mut watch);
    mlrsearch(&mut work, "mlrsearch", &plan, timing(20), &range(1_000_000), &goals).unwrap();
    let told = ferrule_tester::search::mlrsearch::time(timing(20), &goals);
    assert!(close(told, clock.1), "{told:?} for {:?}", clock.1);
}

#[test]
fn rfc2544_trials_in_which_no_frame_was_sent_are_never_without_loss() {
    let mut device = Device::new(1_000, 64, Kind::Wire);
    device.line = Some(1_000_000_000);
    let (none, mut watch) = (Timing::new(Duration::ZERO), |_: &str| {});
    let mut wire = plan(64);
    wire.line = device.line;
    let mut work = Work::new(&mut device, &mut watch);
    let settings = Throughput { range: Range::default(), probe: none, confirm: Some(none) };
    let found = throughput(&mut work, "throughput", &wire, &settings).unwrap();
    assert_eq!((found.load, found.limit), (None, Limit::Silent));
    let curve = loss(&mut work, "loss", &wire, none, &Range::default(), 10).unwrap();
    assert_eq!(curve.len(), 10, "the loads go down to the last");
    assert!(curve.iter().all(|m| m.is_silent() && !m.passes() && m.loss_ratio() == 1.0));
    assert!(!latency(&mut work, "latency", &wire, none, 1_000_000, 2).unwrap().is_measured());
    let found = soak(&mut work, "soak", &wire.at(Rate::frames(1000)), none).unwrap();
    assert!(!found.is_clean() && found.result.loss_ratio().is_none());
    // 22 frames a second afterwards, of which the first is half a frame's time late.
    wire.streams[0].phase = (1, 2);
    let (timing, overload) = (timing(40), Duration::from_millis(20));
    let timing = Timing { warm_up: Duration::ZERO, ..timing };
    let (range, throughput) = (Range::default(), 40_000);
    let settings = Recovery { throughput, range, timing, overload, repeats: 1 };
    let found = recovery(&mut work, "recovery", &wire, &settings).unwrap();
    assert!(!found.was_sent() && !found.recovers(), "{:?}", found.trials);
}

#[test]
fn rfc9971_goals_without_a_length_of_trial_are_refused_and_silent_trials_are_no_lower_bound() {
    let mut device = Device::new(1_000, 64, Kind::Wire);
    let mut watch = |_: &str| {};
    let mut work = Work::new(&mut device, &mut watch);
    // The first frame is late by half the time between two.
    let mut plan = plan(64);
    plan.streams[0].phase = (1, 2);
    let mut found = |last, range: &Range| {
        let goals = [Goal::new(0.0, last)];
        mlrsearch(&mut work, "goals", &plan, Timing::new(last), range, &goals)
    };
    for short in [Duration::ZERO, Duration::from_nanos(1)] {
        assert!(matches!(found(short, &range(1000)), Err(BenchError::Broken(_))));
    }
    // Of a frame in a thousand seconds none is due in 10 ms.
    let lowest = Range { min: 1, max: Some(1), ..Range::default() };
    let found = found(Duration::from_millis(10), &lowest).unwrap();
    assert_eq!((found[0].lower, found[0].upper), (None, Some(1)));
}

#[test]
fn a_rate_that_no_line_carries_is_refused_before_it_is_sent() {
    let mut plan = plan(64).at(Rate::frames(2_000_000_000));
    assert_eq!(plan.check(), Ok(()));
    plan = plan.at(Rate::frames(1_000_000_000_000));
    assert!(plan.check().unwrap_err().what.contains("more than any line carries"));
}
