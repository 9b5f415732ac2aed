//! Device profiles against closed forms.

mod bench;

use bench::{Schedule, Sink, Source, bridge, frame, secured_bridge, udp4};
use ferrule_base::{Duration, Instant, MacAddr};
use ferrule_lab::profile::{Bus, Cap, Distribution, Price};
use ferrule_lab::{DeviceId, End, LinkSpec, Network, Profile, StationId};

/// A source, a bridge under `profile`, a sink; links that take no time.
fn one_device(seed: u64, source: Box<Source>, profile: Profile) -> (Network, DeviceId, StationId) {
    let mut network = Network::with_buffers(seed, 16_384);
    let device = network.node("br1", bridge("br1"), profile).unwrap();
    let source = network.station("source", source);
    let sink = network.station("sink", Sink::new());
    let spec = LinkSpec::default();
    network.link(spec.clone(), End::Station(source, 0), End::Device(device, "a")).unwrap();
    network.link(spec, End::Device(device, "b"), End::Station(sink, 0)).unwrap();
    (network, device, sink)
}

fn arrivals(network: &mut Network, sink: StationId) -> Vec<(Instant, u64)> {
    network.station_mut::<Sink>(sink).unwrap().arrivals.clone()
}

fn served(packet_ns: f64) -> Profile {
    Profile { plain: Price { packet_ns, octet_ns: 0.0 }, ..Profile::ideal() }
}

/// The mean time in the device of frames that come by a Poisson process with
/// this load, in service times.
fn mean_sojourn(seed: u64, load: f64, profile: Profile) -> f64 {
    const SERVICE_NS: f64 = 1_000_000.0;
    const FRAMES: u64 = 300_000;
    let distance = Duration::from_nanos((SERVICE_NS / load) as u64);
    let source = Source::new(frame(60), FRAMES, Schedule::Poisson(distance));
    let profile = Profile { queue: 10_000, ..profile };
    let (mut network, _, sink) = one_device(seed, source, profile);
    assert!(network.run_until_idle(Duration::from_secs(100_000)));
    let sink: &mut Sink = network.station_mut(sink).unwrap();
    assert_eq!(sink.arrivals.len() as u64, FRAMES);
    // When each was sent: the same dice once more.
    let mut rng = ferrule_lab::random::stream(seed, "source", "station");
    let (mut sent, mut sum) = (0.0, 0.0);
    for &(at, _) in &sink.arrivals {
        sum += at.as_nanos() as f64 - f64::floor(sent);
        sent += ferrule_lab::random::exponential(&mut rng) * distance.as_nanos() as f64;
    }
    sum / FRAMES as f64 / SERVICE_NS
}

#[test]
fn m_d_1_waiting_times_are_those_of_the_closed_form_within_two_per_cent() {
    // Pollaczek-Khinchine: wait = load / (2 (1 - load)), in service times.
    for load in [0.3, 0.6, 0.8] {
        let wait = mean_sojourn(42, load, served(1_000_000.0)) - 1.0;
        let expected = load / (2.0 * (1.0 - load));
        assert!((wait / expected - 1.0).abs() < 0.02, "load {load}: {wait}, not {expected}");
    }
}

#[test]
fn m_m_1_and_m_g_1_waiting_times_follow_the_squared_coefficient_of_variation() {
    let load = 0.6;
    let cases = [
        (Distribution::Exponential, 1.0),
        (Distribution::Gamma(0.5), 0.5),
        (Distribution::Gamma(2.0), 2.0),
    ];
    for (distribution, scv) in cases {
        let profile = Profile { distribution, ..served(1_000_000.0) };
        let wait = mean_sojourn(42, load, profile) - 1.0;
        let expected = load * (1.0 + scv) / (2.0 * (1.0 - load));
        assert!((wait / expected - 1.0).abs() < 0.04, "{scv}: {wait}, not {expected}");
    }
}

#[test]
fn occupancy_holds_the_next_frame_up_and_pipeline_latency_does_not() {
    let burst = || Source::new(frame(60), 4, Schedule::Burst);
    let (mut network, _, sink) = one_device(1, burst(), served(1500.0));
    network.run_until_idle(Duration::from_secs(1));
    let at: Vec<u64> = arrivals(&mut network, sink).iter().map(|a| a.0.as_nanos()).collect();
    assert_eq!(at, [1500, 3000, 4500, 6000]);
    let pipeline = Profile { pipeline: Duration::from_micros(20), ..served(1500.0) };
    let (mut network, _, sink) = one_device(1, burst(), pipeline);
    network.run_until_idle(Duration::from_secs(1));
    let at: Vec<u64> = arrivals(&mut network, sink).iter().map(|a| a.0.as_nanos()).collect();
    assert_eq!(at, [21_500, 23_000, 24_500, 26_000]);
}

#[test]
fn occupancy_below_a_nanosecond_does_not_drift() {
    let source = Source::new(frame(60), 1000, Schedule::Burst);
    let (mut network, device, sink) = one_device(1, source, served(33.3));
    network.run_until_idle(Duration::from_secs(1));
    let last = arrivals(&mut network, sink).last().unwrap().0.as_nanos();
    assert_eq!(last, 33_300);
    assert_eq!(network.device(device).stats().busy_ps, 33_300_000);
}

#[test]
fn a_device_queue_drops_the_tail_and_counts_it() {
    let source = Source::new(frame(60), 50, Schedule::Burst);
    let profile = Profile { queue: 8, ..served(1000.0) };
    let (mut network, device, sink) = one_device(1, source, profile);
    network.run_until_idle(Duration::from_secs(1));
    let numbers: Vec<u64> = arrivals(&mut network, sink).iter().map(|a| a.1).collect();
    assert_eq!(numbers, (0..9).collect::<Vec<_>>(), "one served, eight behind it");
    let stats = network.device(device).stats();
    assert_eq!((stats.input_full, stats.queue_max), (41, 8));
}

#[test]
fn a_token_bucket_lets_its_burst_and_then_its_rate_pass() {
    // A frame every 100 us, 2000 a second may pass, 5 at once.
    let source = Source::new(frame(60), 10_000, Schedule::Every(Duration::from_micros(100)));
    let cap = Cap { frames_per_second: 2000.0, burst_frames: 5.0, ..Cap::NONE };
    let (mut network, device, sink) = one_device(1, source, Profile { cap, ..Profile::ideal() });
    network.run_until_idle(Duration::from_secs(10));
    // The last frame comes at 0.9999 s: 5 tokens at first, then 1999.8 more.
    let got = arrivals(&mut network, sink).len() as u64;
    assert_eq!(got, 5 + 1999);
    assert_eq!(network.device(device).stats().capped, 10_000 - got);
}

/// One flow has the share of one queue, many have all of it.
#[test]
fn queues_share_a_cap_of_frames_by_flow() {
    let passed = |numbered| {
        // Numbers stand where ports do: each frame is a flow of its own.
        let ips = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let frame = udp4(MacAddr([2, 0, 0, 0, 0, 2]), MacAddr([2, 0, 0, 0, 0, 1]), ips, 28);
        let frame = frame[..38].to_vec();
        let every = Schedule::Every(Duration::from_micros(100));
        let mut source = Source::new(frame, 10_000, every);
        source.numbered = numbered;
        let cap = Cap { frames_per_second: 2000.0, burst_frames: 5.0, queues: 2, ..Cap::NONE };
        let profile = Profile { cap, ..Profile::ideal() };
        let (mut network, _, sink) = one_device(1, source, profile);
        network.run_until_idle(Duration::from_secs(10));
        arrivals(&mut network, sink).len()
    };
    assert_eq!(passed(false), 5 + 999);
    assert!((2 * 999..=2 * (5 + 999)).contains(&passed(true)), "{}", passed(true));
}

#[test]
fn a_bit_rate_cap_counts_octets() {
    let source = Source::new(frame(1000), 2000, Schedule::Every(Duration::from_micros(50)));
    let cap = Cap { bits_per_second: 80_000_000.0, burst_octets: 1000.0, ..Cap::NONE };
    let (mut network, _, sink) = one_device(1, source, Profile { cap, ..Profile::ideal() });
    network.run_until_idle(Duration::from_secs(1));
    // 160 Mbit/s offered: every other frame.
    let numbers: Vec<u64> = arrivals(&mut network, sink).iter().map(|a| a.1).collect();
    assert_eq!(numbers, (0..2000).step_by(2).collect::<Vec<_>>());
}

#[test]
fn a_batch_timer_delays_the_first_frame_and_takes_those_behind_it_together() {
    // Frames at 0, 10, 20, …, 90 us; the device looks 35 us after the first.
    let source = Source::new(frame(60), 10, Schedule::Every(Duration::from_micros(10)));
    let profile = Profile { batch: 64, timer: Duration::from_micros(35), ..served(100.0) };
    let (mut network, _, sink) = one_device(1, source, profile);
    network.run_until_idle(Duration::from_secs(1));
    let at: Vec<u64> = arrivals(&mut network, sink).iter().map(|a| a.0.as_nanos()).collect();
    let expected = [[35_400; 4], [75_400; 4]].concat();
    assert_eq!(at, [expected, vec![115_200; 2]].concat());
}

#[test]
fn a_polling_device_takes_up_to_a_batch_at_fixed_times_and_is_full_at_batch_by_period() {
    // Frames at 0, 10, …, 90 us; a look every 25 us from time zero on takes two.
    let poll = Duration::from_micros(25);
    let profile = Profile { batch: 2, poll, ..served(100.0) };
    let source = Source::new(frame(60), 10, Schedule::Every(Duration::from_micros(10)));
    let (mut network, _, sink) = one_device(1, source, profile.clone());
    network.run_until_idle(Duration::from_secs(1));
    let at: Vec<u64> = arrivals(&mut network, sink).iter().map(|a| a.0.as_nanos()).collect();
    let pairs = [25_200, 50_200, 75_200, 100_200].map(|at| [at; 2]);
    assert_eq!(at, [vec![100], pairs.concat(), vec![125_100]].concat());
    // Two frames each 25 us are 80,000 a second; with 100,000 offered the rest is lost.
    let source = Source::new(frame(60), 100_000, Schedule::Every(Duration::from_micros(10)));
    let (mut network, _, sink) = one_device(1, source, Profile { queue: 64, ..profile });
    network.run_until_idle(Duration::from_secs(2));
    let passed = arrivals(&mut network, sink).len();
    assert!((80_000..=80_064).contains(&passed), "{passed} passed");
}

#[test]
fn a_bus_ships_one_frame_after_the_other_in_and_out() {
    let source = Source::new(frame(1000), 2, Schedule::Burst);
    let bus = Bus { latency_ns: 500.0, bits_per_second: 1e9 };
    let (mut network, _, sink) = one_device(1, source, Profile { bus, ..Profile::ideal() });
    network.run_until_idle(Duration::from_secs(1));
    // A transfer takes 8.5 us. In: 0 to 8.5 and to 17; out: to 25.5 and 34.
    let at: Vec<u64> = arrivals(&mut network, sink).iter().map(|a| a.0.as_nanos()).collect();
    assert_eq!(at, [25_500, 34_000]);
}

#[test]
fn work_is_priced_as_the_node_reports_it_seal_and_open_by_octet() {
    let mut network = Network::with_buffers(1, 4096);
    let price = Price { packet_ns: 10_000.0, octet_ns: 100.0 };
    let seals = Profile { sealed: price, ..Profile::ideal() };
    let opens = Profile { opened: price, ..Profile::ideal() };
    let left = network.node("l", secured_bridge("l", "r", (5, 6)), seals).unwrap();
    let right = network.node("r", secured_bridge("r", "l", (6, 5)), opens).unwrap();
    let source = Source::new(frame(500), 10, Schedule::Every(Duration::from_millis(1)));
    let source = network.station("source", source);
    let sink = network.station("sink", Sink::new());
    let spec = LinkSpec::default();
    network.link(spec.clone(), End::Station(source, 0), End::Device(left, "lan")).unwrap();
    network.link(spec.clone(), End::Device(left, "wan"), End::Device(right, "wan")).unwrap();
    network.link(spec, End::Device(right, "lan"), End::Station(sink, 0)).unwrap();
    assert!(network.run_until_idle(Duration::from_secs(1)));
    let work = network.device(left).report().work;
    assert_eq!(work.sealed.packets, 10);
    // The price is that of the octets under the ICV, once to seal and once to open.
    let each = 10_000 + 100 * work.sealed.octets / 10;
    for (at, number) in arrivals(&mut network, sink) {
        assert_eq!(at.as_nanos(), number * 1_000_000 + 2 * each);
    }
    assert_eq!(network.device(right).report().work.opened, work.sealed);
}

proptest::proptest! {
    /// Whatever is in the file: an answer, with a place in it.
    #[test]
    fn no_device_profile_text_panics(text in "\\PC{0,200}", key in "[a-z.-]{0,40}", value in "\\PC{0,20}") {
        for text in [text.clone(), format!("{key} = {value}\n[{text}]\n{key} = 3\n")] {
            if let Err(e) = Profile::parse("p.toml", &text) {
                assert!(e.to_string().starts_with("p.toml:"), "{e}");
            }
        }
    }
}
