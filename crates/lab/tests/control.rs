//! The control part's work has a price: its answers come that much later, and what it cannot
//! serve is lost at its queues.

mod bench;

use bench::{Schedule, Sink, Source, config, mac, udp4};
use ferrule_base::{DropReason, Duration, Instant, MacAddr};
use ferrule_lab::profile::ControlCost;
use ferrule_lab::{DeviceId, End, LinkSpec, Network, Profile, StationId};

const NEAR: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const FAR: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
/// The first packet of the near host.
const START: Instant = Instant::from_millis(3500);
const EVERY: Duration = Duration::from_millis(100);
const PACKETS: u64 = 20;
const END: Instant = Instant::from_secs(6);

struct Lan {
    network: Network,
    router: DeviceId,
    far: StationId,
}

/// `near ── router ── far`, and a stranger on a third port that asks for the router's address so
/// often, if at all.
fn lan(message: Duration, asks: Option<Duration>) -> Lan {
    let mut text = "[node]\nname = \"r\"\nlab = true\n".to_owned();
    for (number, port) in ["near", "far", "third"].iter().enumerate() {
        text += &format!(
            "[[port]]\nname = \"{port}\"\ndriver = \"wire\"\n\
             [[interface]]\nport = \"{port}\"\naddress = [\"10.{number}.0.1/24\"]\n"
        );
    }
    let control = ControlCost { message_ns: message.as_nanos() as f64, task_ns: 0.0 };
    let mut network = Network::new(7);
    let router = network.node("r", config(&text), Profile { control, ..Profile::ideal() }).unwrap();
    let packet = udp4(mac("r", "near"), NEAR, ([10, 0, 0, 9], [10, 1, 0, 9]), 200);
    let near = Source::from(START, packet, PACKETS, Schedule::Every(EVERY));
    let near = network.station("near", near);
    let far = network.station("far", Sink::host(FAR, [10, 1, 0, 9]));
    let question = [
        &[0xff; 6][..],
        &[2, 0, 0, 0, 0, 0xc, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 0xc],
        &[10, 2, 0, 9, 0, 0, 0, 0, 0, 0, 10, 2, 0, 1],
    ]
    .concat();
    let (every, count) = match asks {
        Some(every) => (every, END.since(START).as_nanos() / every.as_nanos()),
        None => (EVERY, 0),
    };
    let mut third = Source::from(START, question, count as u64, Schedule::Every(every));
    third.numbered = false;
    let third = network.station("third", third);
    for (station, port) in [(near, "near"), (far, "far"), (third, "third")] {
        let ends = (End::Station(station, 0), End::Device(router, port));
        network.link(LinkSpec::default(), ends.0, ends.1).unwrap();
    }
    network.run_until(END);
    network.audit().expect("every packet is accounted for");
    Lan { network, router, far }
}

impl Lan {
    fn arrivals(&mut self) -> Vec<(Instant, u64)> {
        self.network.station_mut::<Sink>(self.far).unwrap().arrivals.clone()
    }
}

#[test]
fn a_host_is_found_later_by_what_the_messages_take_and_packets_after_that_are_not_delayed() {
    let message = Duration::from_millis(1);
    let (free, priced) = (lan(Duration::ZERO, None).arrivals(), lan(message, None).arrivals());
    let numbers: Vec<u64> = priced.iter().map(|&(_, number)| number).collect();
    assert_eq!(numbers, (0..PACKETS).collect::<Vec<_>>());
    // The packet that waits, the question for its next hop, and the answer.
    let late = priced[0].0.since(free[0].0);
    assert!(late >= message * 2 && late <= message * 3 + Duration::from_micros(50), "{late:?}");
    assert!(free.iter().zip(&priced).skip(1).all(|(a, b)| a.0 == b.0));
}

#[test]
fn a_flood_of_questions_beyond_the_control_part_is_lost_at_its_queue_and_hosts_are_found() {
    let message = Duration::from_micros(100);
    let mut lan = lan(message, Some(Duration::from_micros(20)));
    let stats = lan.network.device(lan.router).stats();
    let busy = Duration::from_nanos(stats.control_busy_ps / 1000);
    let elapsed = END.since(START);
    assert!(busy > elapsed - EVERY && busy < elapsed + EVERY * 3, "{busy:?}");
    let report = lan.network.device(lan.router).report();
    assert!(report.drops.get(DropReason::ControlQueueFull) > 100_000, "{:?}", report.drops);
    assert_eq!(lan.arrivals().len() as u64, PACKETS);
}
