//! A network as small as it gets: a source, a node, a sink.

mod bench;

use bench::{Schedule, Sink, Source, bridge, frame};
use ferrule_base::{Duration, Instant};
use ferrule_lab::{End, LinkSpec, Network, Profile};

#[test]
fn a_frame_crosses_a_device_in_the_time_of_its_links() {
    let mut network = Network::new(1);
    let device = network.node("br1", bridge("br1"), Profile::ideal()).unwrap();
    let source = Source::new(frame(60), 10, Schedule::Every(Duration::from_micros(10)));
    let source = network.station("source", source);
    let sink = network.station("sink", Sink::new());
    let spec = LinkSpec {
        rate: Some(1_000_000_000),
        delay: Duration::from_micros(250),
        ..LinkSpec::default()
    };
    network.link(spec.clone(), End::Station(source, 0), End::Device(device, "a")).unwrap();
    network.link(spec, End::Device(device, "b"), End::Station(sink, 0)).unwrap();
    assert!(network.run_until_idle(Duration::from_secs(1)));
    let sink: &mut Sink = network.station_mut(sink).unwrap();
    // 72 octets until the end of the FCS, 8 ns each, twice.
    let expected: Vec<(Instant, u64)> =
        (0..10).map(|i| (Instant::from_nanos(i * 10_000 + 2 * (250_000 + 576)), i)).collect();
    assert_eq!(sink.arrivals, expected);
}
