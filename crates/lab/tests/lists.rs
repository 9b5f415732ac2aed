//! Access lists that are replaced ten times a second while packets go: each packet is judged
//! by the list before a replacement or by the one after it, whole.

mod bench;

use bench::{Schedule, Sink, Source, config, mac, udp4};
use ferrule_base::{Duration, Instant, MacAddr, Rng};
use ferrule_lab::profile::Price;
use ferrule_lab::{Change, End, LinkSpec, Network, Profile, StationId};
use ferrule_node::Config;
use std::fmt::Write;

const HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const FAR: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
/// Sites: what both lists permit, what neither does, what every other list does.
const SITES: [&str; 3] = ["both", "neither", "one"];
const START: Instant = Instant::from_millis(50);
const REPLACED: Duration = Duration::from_millis(100);
const LISTS: u32 = 10;
/// Between two packets of a site.
const EVERY: Duration = Duration::from_micros(700);
/// Packets of a site.
const PACKETS: u64 = LISTS as u64 * A_LIST;
/// Packets of a site while one list is in force.
const A_LIST: u64 = (REPLACED.as_nanos() / EVERY.as_nanos()) as u64;

/// Entries for hosts that send nothing here.
fn others(rng: &mut Rng) -> Vec<String> {
    let entry = |_| {
        let action = ["permit", "deny"][rng.below(2) as usize];
        let (host, port) = (rng.below(1 << 16), rng.below(1 << 16));
        let (high, low) = (host >> 8, host & 255);
        format!(
            "{{ action = \"{action}\", from = \"10.9.{high}.{low}\", protocol = \"udp\", \
             to-ports = {port} }},\n"
        )
    };
    (0..400).map(entry).collect()
}

/// A list: some of the other entries around the sites', each left out one time in so many.
fn router(rng: &mut Rng, workers: usize, nth: u32, all: &[String], left_out: u64) -> Config {
    let mut text = format!("[node]\nname = \"r\"\nlab = true\nworkers = {workers}\n");
    for (number, site) in SITES.iter().enumerate() {
        let _ = write!(
            text,
            "[[port]]\nname = \"{site}\"\ndriver = \"wire\"\n[[interface]]\nport = \"{site}\"\n\
             address = [\"10.1.{number}.1/24\"]\nacl-in = \"sites\"\n"
        );
    }
    text += "[[port]]\nname = \"out\"\ndriver = \"wire\"\n\
             [[interface]]\nport = \"out\"\naddress = [\"10.2.0.1/24\"]\n\
             [[access-list]]\nname = \"sites\"\nentry = [\n";
    let mut permitted = vec!["10.1.0.0/24"];
    permitted.extend(nth.is_multiple_of(2).then_some("10.1.2.9"));
    let mut others = |text: &mut String| {
        text.extend(all.iter().filter(|_| !rng.one_in(left_out)).map(String::as_str));
    };
    for network in permitted {
        others(&mut text);
        let _ =
            writeln!(text, "{{ action = \"permit\", from = \"{network}\", protocol = \"udp\" }},");
    }
    others(&mut text);
    config(&(text + "{ action = \"deny\", from = \"10.1.0.0/16\" },\n]\n"))
}

/// Numbers of the packets that arrived, by site.
fn run(seed: u64, profile: &Profile) -> [Vec<u64>; 3] {
    let mut rng = Rng::new(seed);
    let mut network = Network::with_buffers(seed, 4096);
    let workers = 1 + rng.below(3) as usize;
    // Every third seed replaces most of the list, the others edit a few entries of it.
    let (all, left_out) = (others(&mut rng), if seed.is_multiple_of(3) { 2 } else { 100 });
    let list = |rng: &mut Rng, nth: u32| router(rng, workers, nth, &all, left_out);
    let first = list(&mut rng, 0);
    let device = network.node("r", first, profile.clone()).unwrap();
    for (number, site) in SITES.iter().enumerate() {
        let ips = ([10, 1, number as u8, 9], [10, 2, 0, 9]);
        let frame = udp4(mac("r", site), HOST, ips, 200);
        let source = Source::from(START, frame, PACKETS, Schedule::Every(EVERY));
        let source = network.station(site, source);
        let ends = (End::Station(source, 0), End::Device(device, site));
        network.link(LinkSpec::default(), ends.0, ends.1).unwrap();
    }
    let far: StationId = network.station("far", {
        let mut far = Sink::host(FAR, [10, 2, 0, 9]);
        far.keep = true;
        far
    });
    network.link(LinkSpec::default(), End::Device(device, "out"), End::Station(far, 0)).unwrap();
    for nth in 1..LISTS {
        let config = list(&mut rng, nth);
        network.at(START + REPLACED * nth, Change::Apply(device, Box::new(config)));
    }
    network.run_until(START + REPLACED * (LISTS + 1));
    let far = network.station_mut::<Sink>(far).unwrap();
    let mut arrived = [const { Vec::new() }; 3];
    for (frame, (_, number)) in far.frames.iter().zip(&far.arrivals) {
        arrived[usize::from(frame[28])].push(*number);
    }
    arrived
}

/// The list at the time when a packet was sent permits it.
fn is_permitted(number: u64) -> bool {
    let list = u128::from(number) * EVERY.as_nanos() / REPLACED.as_nanos();
    list.is_multiple_of(2)
}

#[test]
fn no_packet_is_judged_by_half_a_list() {
    let slow = Profile {
        plain: Price { packet_ns: 20_000.0, octet_ns: 1.0 },
        batch: 8,
        queue: 64,
        ..Profile::ideal()
    };
    for seed in 0..40 {
        let (profile, late) = if seed % 2 == 0 { (Profile::ideal(), 0) } else { (slow.clone(), 2) };
        let [both, neither, one] = run(seed, &profile);
        assert_eq!(both, Vec::from_iter(0..PACKETS), "seed {seed}: permitted by either list");
        assert!(neither.is_empty(), "seed {seed}: permitted by neither list");
        // Packets that wait while a list is replaced are judged by the new one.
        let wanted: Vec<u64> = (0..PACKETS).filter(|&n| is_permitted(n)).collect();
        let near = |n: &u64| (0..=late).any(|by| is_permitted(n + by) != is_permitted(*n));
        let clear = |all: &[u64]| all.iter().copied().filter(|n| !near(n)).collect::<Vec<_>>();
        assert_eq!(clear(&one), clear(&wanted), "seed {seed}: permitted by every other list");
    }
}
