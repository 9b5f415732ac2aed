//! Following frames: parts of a delay that the laboratory noted, against the delay itself.

mod bench;

use bench::{Schedule, Sink, Source, frame, secured_bridge};
use ferrule_base::{Duration, Instant};
use ferrule_lab::profile::{Bus, Distribution, Price};
use ferrule_lab::{
    DeviceId, Direction, End, Impairments, Journey, LinkId, LinkSpec, Network, Parts, Profile,
    Spot, StationId,
};

/// Octets that the SecTAG with its SCI and the ICV add.
const SEALED: u64 = 32;
/// Octets around a frame on a line, without the gap.
const AROUND: u64 = 12;

/// A source, two bridges with MACsec between them, a sink.
fn secured(source: Box<Source>, spec: &LinkSpec, profiles: [Profile; 2]) -> (Network, StationId) {
    let mut network = Network::with_buffers(7, 4096);
    let [first, second] = profiles;
    let left = network.node("l", secured_bridge("l", "r", (5, 6)), first).unwrap();
    let right = network.node("r", secured_bridge("r", "l", (6, 5)), second).unwrap();
    let source = network.station("source", source);
    let sink = network.station("sink", Sink::new());
    let mut join = |a, b| network.link(spec.clone(), a, b).unwrap();
    join(End::Station(source, 0), End::Device(left, "lan"));
    join(End::Device(left, "wan"), End::Device(right, "wan"));
    join(End::Device(right, "lan"), End::Station(sink, 0));
    network.follow(|_| true);
    (network, sink)
}

fn line() -> LinkSpec {
    LinkSpec { rate: Some(1_000_000_000), delay: Duration::from_nanos(5000), ..LinkSpec::default() }
}

fn switch() -> Profile {
    Profile {
        plain: Price { packet_ns: 400.0, octet_ns: 0.0 },
        sealed: Price { packet_ns: 1000.0, octet_ns: 0.5 },
        opened: Price { packet_ns: 1100.0, octet_ns: 0.0 },
        pipeline: Duration::from_nanos(650),
        ..Profile::ideal()
    }
}

fn delay_ps(journey: &Journey) -> u64 {
    1000 * journey.ended.since(journey.begun).as_nanos() as u64
}

/// Every journey adds up, and they are what the sink saw.
fn held_against_the_sink(network: &mut Network, sink: StationId) -> Vec<Journey> {
    let journeys = network.take_journeys();
    for journey in &journeys {
        assert_eq!(journey.parts().total_ps(), delay_ps(journey), "{journey:?}");
        assert_eq!(journey.passages.len(), 5, "three links and two devices");
    }
    let seen = &network.station_mut::<Sink>(sink).unwrap().arrivals;
    let followed: Vec<(Instant, u64)> = journeys.iter().map(|j| (j.ended, j.number)).collect();
    assert_eq!(*seen, followed);
    journeys
}

#[test]
fn each_part_of_a_delay_is_what_line_and_profile_make_it() {
    let source = Source::new(frame(500), 10, Schedule::Every(Duration::from_millis(1)));
    let (mut network, sink) = secured(source, &line(), [switch(), switch()]);
    assert!(network.run_until_idle(Duration::from_secs(1)));
    let link = |number, octets: u64| {
        let line_ps = 8000 * (octets + AROUND);
        let parts = Parts { line_ps, cable_ps: 5_000_000, ..Parts::default() };
        (Spot::Link(LinkId(number), Direction::Forward), parts)
    };
    let device = |number, crypto_ps| {
        let (lookup_ps, latency_ps) = (400_000, 650_000);
        let parts = Parts { lookup_ps, latency_ps, crypto_ps, ..Parts::default() };
        (Spot::Device(DeviceId(number)), parts)
    };
    // Under the ICV is the whole frame with its SecTAG.
    let sealed = network.device(DeviceId(0)).report().work.sealed;
    let sealing_ps = 1_000_000 + 500 * sealed.octets / sealed.packets;
    let expected = [
        link(0, 500),
        device(0, sealing_ps),
        link(1, 500 + SEALED),
        device(1, 1_100_000),
        link(2, 500),
    ];
    let journeys = held_against_the_sink(&mut network, sink);
    assert_eq!(journeys.len(), 10);
    for journey in journeys {
        let found: Vec<_> = journey.passages.iter().map(|p| (p.at, p.parts)).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn parts_add_up_to_the_delay_with_queues_batches_looks_and_buses() {
    let first = Profile {
        batch: 4,
        poll: Duration::from_nanos(20_001),
        bus: Bus { latency_ns: 33.3, bits_per_second: 3e9 },
        ..switch()
    };
    let gamma = Distribution::Gamma(0.7);
    let second = Profile { distribution: gamma, timer: Duration::from_micros(9), ..switch() };
    for (seed, schedule) in
        [Schedule::Burst, Schedule::Poisson(Duration::from_nanos(6500))].into_iter().enumerate()
    {
        // A rate at which no octet takes whole nanoseconds.
        let spec = LinkSpec { rate: Some(987_654_321), ..line() };
        let source = Source::new(frame(500), 400, schedule);
        let profiles = [first.clone(), second.clone()];
        let (mut network, sink) = secured(source, &spec, profiles);
        assert!(network.run_until_idle(Duration::from_secs(10)), "{seed}");
        let journeys = held_against_the_sink(&mut network, sink);
        assert_eq!(journeys.len(), 400);
        let waited = journeys.iter().filter(|j| j.parts().queue_ps > 1_000_000).count();
        assert!(waited > 300, "{waited} waited");
        // Each one's own work is its own: of a batch, a quarter.
        for journey in &journeys {
            let first = journey.passages[1].parts;
            assert!(first.lookup_ps.abs_diff(400_000) <= 1, "{first:?}");
        }
    }
}

#[test]
fn a_burst_waits_for_the_frames_before_it() {
    let free = LinkSpec::default();
    let served = Profile { pipeline: Duration::ZERO, sealed: Price::default(), ..switch() };
    let source = Source::new(frame(60), 4, Schedule::Burst);
    let (mut network, sink) = secured(source, &free, [served, Profile::ideal()]);
    assert!(network.run_until_idle(Duration::from_secs(1)));
    let journeys = held_against_the_sink(&mut network, sink);
    let queues: Vec<u64> = journeys.iter().map(|j| j.parts().queue_ps).collect();
    assert_eq!(queues, [0, 400_000, 800_000, 1_200_000]);
}

#[test]
fn lost_frames_end_no_journey_and_their_memory_is_nobody_elses_way() {
    let every = Schedule::Every(Duration::from_micros(50));
    let source = Source::new(frame(300), 3000, every);
    let impairments = Impairments { loss_every: 3, duplicate: 0.1, ..Impairments::default() };
    let spec = LinkSpec { impairments, ..line() };
    // A queue that overflows, and chunks that are soon in use again.
    let slow = Profile {
        plain: Price { packet_ns: 90_000.0, octet_ns: 0.0 },
        queue: 3,
        ..Profile::ideal()
    };
    let (mut network, sink) = secured(source, &spec, [slow, switch()]);
    assert!(network.run_until_idle(Duration::from_secs(10)));
    assert_eq!(network.followed(), 3000);
    let journeys = network.take_journeys();
    let seen = network.station_mut::<Sink>(sink).unwrap().arrivals.clone();
    assert!(journeys.len() > 500 && journeys.len() <= seen.len());
    for journey in &journeys {
        assert_eq!(journey.parts().total_ps(), delay_ps(journey), "{journey:?}");
        assert!(seen.contains(&(journey.ended, journey.number)), "{journey:?}");
    }
}

#[test]
fn frames_that_nobody_wants_are_not_followed() {
    let source = Source::new(frame(100), 20, Schedule::Every(Duration::from_micros(50)));
    let (mut network, _) = secured(source, &line(), [switch(), switch()]);
    network.follow(|frame| frame.last().is_some_and(|number| number % 2 == 0));
    assert!(network.run_until_idle(Duration::from_secs(1)));
    assert_eq!((network.followed(), network.take_journeys().len()), (10, 10));
    assert!(network.take_journeys().is_empty(), "taken");
}
