//! The tester in virtual time reads what links do to frames: exact to one packet
//! and one tick of the clock.

use ferrule_base::{Duration, MacAddr};
use ferrule_lab::tester::{LabBench, TesterStation, next_hop};
use ferrule_lab::topology::Shipped;
use ferrule_lab::{Direction, End, HoldBack, Impairments, LinkId, LinkSpec, Network, Profile};
use ferrule_node::Config;
use ferrule_node::config::named_key;
use ferrule_tester::responder::Home;
use ferrule_tester::search::reset::reset;
use ferrule_tester::search::throughput::{Limit, Throughput, throughput};
use ferrule_tester::search::{Range, Work};
use ferrule_tester::{
    Bench, Datagram, Layers, Plan, Rate, Sizes, Stream, Timing, TrialResult, TrialSpec,
};

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// A wire with these impairments, a tester at both ends.
fn wire(spec: LinkSpec) -> (LabBench, LinkId) {
    let line = spec.rate;
    let mut network = Network::with_buffers(11, 16_384);
    let tester = network.station("tester", Box::new(TesterStation::new(2)));
    let link = network.link(spec, End::Station(tester, 0), End::Station(tester, 1)).unwrap();
    (LabBench::new(network, tester, vec!["a".into(), "b".into()], line), link)
}

fn trial(bench: &mut LabBench, frames: u64, rate: u64) -> TrialResult {
    let mut stream = Stream::new("forth", Layers::new(A, B), 64, Rate::frames(rate));
    stream.sizes = Sizes::imix();
    stream.frames = Some(frames);
    let plan = Plan { streams: vec![stream.clone(), stream.reversed()], line: None };
    let duration = Duration::from_secs_f64(frames as f64 / rate as f64 + 0.001);
    let timing = Timing { warm_up: Duration::ZERO, ..Timing::new(duration) };
    bench.trial(&TrialSpec { plan, timing }).unwrap()
}

#[test]
fn tester_reads_one_percent_loss_exact_to_one_packet() {
    // By rule: each hundredth frame, on the way forth alone.
    let impairments = Impairments { loss_every: 100, ..Impairments::default() };
    let back = Some(Impairments::default());
    let (mut bench, _) = wire(LinkSpec { impairments, back, ..LinkSpec::default() });
    let result = trial(&mut bench, 50_000, 500_000);
    let [forth, back] = &result.streams[..] else { panic!() };
    assert_eq!((forth.offered, forth.received.frames, forth.lost()), (50_000, 49_500, 500));
    assert_eq!((back.offered, back.received.frames, back.lost()), (50_000, 50_000, 0));
    // By dice: as many as the link itself counted.
    let impairments = Impairments { loss: 0.01, ..Impairments::default() };
    let (mut bench, link) = wire(LinkSpec { impairments, ..LinkSpec::default() });
    let result = trial(&mut bench, 50_000, 500_000);
    for (stream, direction) in result.streams.iter().zip(Direction::BOTH) {
        let told = bench.network().link_stats(link).of(direction).lost;
        assert_eq!(stream.lost(), told);
        assert!((400..600).contains(&told), "{told}");
        let got = &stream.received;
        assert_eq!(got.reordered + got.duplicated + got.corrupted + got.stale, 0);
    }
}

#[test]
fn tester_reads_three_packet_reordering_exact_to_one_packet() {
    let impairments =
        Impairments { reorder_every: 50, reorder_by: HoldBack::Frames(3), ..Default::default() };
    let (mut bench, link) = wire(LinkSpec { impairments, ..LinkSpec::default() });
    let result = trial(&mut bench, 10_010, 100_000);
    for (stream, direction) in result.streams.iter().zip(Direction::BOTH) {
        let told = bench.network().link_stats(link).of(direction).held_back;
        let got = &stream.received;
        assert_eq!((told, got.reordered), (200, 200));
        assert_eq!((got.extents.counts[3], got.extents.max, got.extents.unknown), (200, 3, 0));
        assert_eq!((stream.lost(), got.duplicated, got.frames), (0, 0, 10_010));
    }
}

#[test]
fn tester_reads_a_delay_of_250_us_exact_to_one_tick() {
    let delay = Duration::from_micros(250);
    let (mut bench, _) = wire(LinkSpec { delay, ..LinkSpec::default() });
    for stream in &trial(&mut bench, 10_000, 123_457).streams {
        let latency = &stream.received.latency;
        assert_eq!((latency.min(), latency.max()), (Some(250_000), Some(250_000)));
        assert_eq!(latency.mean(), Some(250_000.0));
        assert_eq!(stream.received.jitter.max, 0);
        assert_eq!(stream.lateness.max, 0, "virtual time is never late");
    }
    // With a line of 1 Gbit/s: preamble, octets and FCS take their time as well.
    let rate = Some(1_000_000_000);
    let (mut bench, _) = wire(LinkSpec { delay, rate, ..LinkSpec::default() });
    for stream in &trial(&mut bench, 12_000, 10_000).streams {
        let latency = &stream.received.latency;
        assert_eq!(latency.min(), Some(250_000 + (8 + 60 + 4) * 8));
        assert_eq!(latency.max(), Some(250_000 + (8 + 1514 + 4) * 8));
    }
}

#[test]
fn tester_tells_duplicates_and_damage_as_the_link_made_them() {
    let impairments = Impairments { duplicate: 0.02, ..Impairments::default() };
    let (mut bench, link) = wire(LinkSpec { impairments, ..LinkSpec::default() });
    let result = trial(&mut bench, 20_000, 200_000);
    for (stream, direction) in result.streams.iter().zip(Direction::BOTH) {
        let told = bench.network().link_stats(link).of(direction).duplicated;
        assert_eq!((stream.received.duplicated, stream.lost()), (told, 0));
        assert!(told > 300);
    }
    // A bit in the headers is not under the signature's check: the rest is seen.
    let impairments = Impairments { corrupt_every: 10, ..Impairments::default() };
    let (mut bench, _) = wire(LinkSpec { impairments, ..LinkSpec::default() });
    let result = trial(&mut bench, 12_000, 200_000);
    for stream in &result.streams {
        let seen = stream.received.corrupted;
        // Of small frames 18 of 60 octets are under it, of large ones nearly all.
        assert!((350..=1200).contains(&seen), "{seen}");
        assert_eq!(stream.received.frames + seen + stream.lost(), 12_000);
    }
}

/// A bridge of Ferrule between two lines.
fn bridge(rate: u64, profile: Profile) -> LabBench {
    const TEXT: &str = r#"
node = { name = "bridge", lab = true }
port = [{ name = "a", driver = "wire" }, { name = "b", driver = "wire" }]
bridge = [{ name = "br", member = [{ port = "a" }, { port = "b" }] }]
"#;
    let config =
        Config::parse("bridge.toml", TEXT, &mut named_key).unwrap_or_else(|e| panic!("{e}"));
    let mut network = Network::with_buffers(5, 16_384);
    let node = network.node("bridge", config, profile).unwrap();
    let tester = network.station("tester", Box::new(TesterStation::new(2)));
    for (port, name) in ["a", "b"].into_iter().enumerate() {
        let spec = LinkSpec { rate: Some(rate), ..LinkSpec::default() };
        network.link(spec, End::Station(tester, port), End::Device(node, name)).unwrap();
    }
    LabBench::new(network, tester, vec!["a".into(), "b".into()], Some(rate))
}

#[test]
fn throughput_of_an_ideal_bridge_in_virtual_time_is_the_lines() {
    let mut bench = bridge(100_000_000, Profile::ideal());
    let stream = Stream::new("forth", Layers::new(A, B), 512, Rate::frames(1));
    let plan = Plan::one(stream, Some(100_000_000));
    let probe = Timing::new(Duration::from_millis(100));
    let settings = Throughput { range: Range::default(), probe, confirm: Some(probe) };
    let mut watch = |_: &str| {};
    let mut work = Work::new(&mut bench, &mut watch);
    let found = throughput(&mut work, "bridge", &plan, &settings).unwrap();
    // 532 octets of line each: 23,496.24 frames a second.
    assert_eq!((found.load, found.limit), (Some(23_496_240), Limit::Range));
    assert_eq!(found.result.unwrap().lost(), 0);
}

#[test]
fn tester_stands_in_for_the_hosts_of_a_topology_and_measures_its_tunnel() {
    let topology = Shipped::named("two-gateways").unwrap().topology(None).unwrap();
    let (h1, h2) = (&topology.hosts[0], &topology.hosts[1]);
    let (src, dst) = (h1.addresses[0].0, h2.addresses[0].0);
    let gateway = next_hop(h1, src, dst).unwrap();
    assert_eq!((gateway, next_hop(h1, src, gateway)), (h1.gateways[0], Some(gateway)));
    let mut bench = LabBench::between(&topology, 3, &[0, 1]).unwrap();
    let mac = bench.resolve(0, (h1.mac, src), gateway).unwrap().expect("the gateway answers");
    let home = |first, mac| vec![Home { first, count: 1, mac }];
    bench.answer_for(vec![home(src, h1.mac), home(dst, h2.mac)]);
    let layers = Layers { datagram: Datagram::between(src, dst), ..Layers::new(h1.mac, mac) };
    let stream = Stream::new("through the tunnel", layers, 1000, Rate::frames(20_000));
    let plan = Plan::one(stream, bench.about().line);
    // Warming up, the second gateway asks who has the destination.
    let timing =
        Timing { warm_up: Duration::from_millis(20), ..Timing::new(Duration::from_millis(50)) };
    let result = bench.trial(&TrialSpec { plan, timing }).unwrap();
    assert_eq!((result.offered(), result.received(), result.lost()), (1000, 1000, 0));
    // Two lines of 1 Gbit/s and 5 us with the frame in clear, a longer one with it
    // sealed.
    let clear = 5000 + (8 + 996 + 4) * 8;
    let latency = result.latency();
    assert_eq!(latency.min(), latency.max());
    let between = topology.links.iter().find(|l| l.outside).expect("an outside").spec.delay;
    let sealed = latency.min().unwrap() - 2 * clear - between.as_nanos() as u64;
    assert!((1008 * 8 + 20 * 8..1008 * 8 + 90 * 8).contains(&sealed), "{sealed}");
}

#[test]
fn rfc6201_reset_of_a_gateway_in_virtual_time_takes_what_it_was_down() {
    let topology = Shipped::named("two-gateways").unwrap().topology(None).unwrap();
    let mut bench = LabBench::between(&topology, 1, &[0, 1]).unwrap();
    let (from, to) = (topology.hosts[0].clone(), topology.hosts[1].clone());
    let own = from.addresses[0].0;
    let hop = next_hop(&from, own, to.addresses[0].0).unwrap();
    let gateway = bench.resolve(0, (from.mac, own), hop).unwrap().unwrap();
    bench.answer_for(vec![vec![], vec![Home { first: to.addresses[0].0, count: 1, mac: to.mac }]]);
    assert!(!bench.reset_node("gw9", Duration::ZERO));
    assert!(bench.reset_at(Duration::ZERO).is_err(), "no node is named");
    assert!(bench.reset_node("gw1", Duration::from_millis(40)));
    let mut layers = Layers::new(from.mac, gateway);
    layers.datagram = Datagram::between(own, to.addresses[0].0);
    // 10,000 frames a second.
    let plan = Plan::one(Stream::new("a", layers, 128, Rate::frames(1)), None);
    let timing = Timing::new(Duration::from_millis(300));
    let mut watch = |_: &str| {};
    let mut work = Work::new(&mut bench, &mut watch);
    let at = Some(Duration::from_millis(100));
    let found = reset(&mut work, "reset", &plan, timing, 10_000_000, at).unwrap();
    assert!(found.is_back && found.offered == 3000, "{found:?}");
    // Frames inside the node when it ended are lost as well: a few. Then it asks for
    // its neighbours anew, 2 ms away, and frames wait for that.
    assert!((400..=405).contains(&found.lost), "{}", found.lost);
    assert_eq!(found.by_loss, Some(Duration::from_micros(100 * found.lost)));
    let time = found.by_time.unwrap();
    let least = found.by_loss.unwrap();
    assert!((least..least + Duration::from_millis(3)).contains(&time), "{time:?}");
}
