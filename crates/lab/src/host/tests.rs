//! Two hosts on one cable, moved by hand: what they count can be told beforehand.

use super::*;
use ferrule_base::Rng;
use ferrule_pipeline::{Pool, PoolCache};
use std::collections::BTreeMap;

/// Rule of the cable for the frame with a number: its arrival times, none if it is lost.
type Fate = fn(u64, Instant) -> Vec<Instant>;

const DELAY: Duration = Duration::from_micros(250);

fn at_once(_: u64, now: Instant) -> Vec<Instant> {
    vec![now + DELAY]
}

/// A cable with a host at each end.
struct Cable {
    hosts: [Host; 2],
    cache: PoolCache,
    now: Instant,
    under_way: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    frames: u64,
    fate: Fate,
}

fn config(side: u8) -> HostConfig {
    HostConfig {
        mac: MacAddr([2, 0xfe, 0, 1, 1, side]),
        addresses: vec![
            (IpAddr::from([10, 0, 0, side]), 24),
            (format!("2001:db8::{side}").parse().expect("an address"), 64),
        ],
        gateways: Vec::new(),
        mtu: 1500,
        rate: Some(1_000_000_000),
        seed: u64::from(side),
    }
}

impl Cable {
    fn new(fate: Fate) -> Self {
        let hosts = [Host::new(config(1)), Host::new(config(2))];
        let cache = Pool::heap(512, 2048).cache();
        Self { hosts, cache, now: Instant::ZERO, under_way: BTreeMap::new(), frames: 0, fate }
    }

    fn visit(&mut self, side: usize, frame: Option<Vec<u8>>) {
        let (mut rng, mut sent) = (Rng::new(1), Vec::new());
        let packet = frame.map(|f| self.cache.packet_from(&f).expect("a buffer"));
        let mut io = Io { now: self.now, cache: &mut self.cache, rng: &mut rng, sent: &mut sent };
        match packet {
            Some(packet) => self.hosts[side].receive(&mut io, 0, packet),
            None => self.hosts[side].wake(&mut io),
        }
        for (port, packet) in sent {
            assert_eq!(port, 0);
            self.frames += 1;
            for (copy, when) in (self.fate)(self.frames, self.now).into_iter().enumerate() {
                let key = (when, self.frames * 8 + copy as u64);
                self.under_way.insert(key, (1 - side, packet.data().to_vec()));
            }
        }
    }

    /// Lets everything happen until `end`.
    fn run(&mut self, end: Instant) {
        loop {
            let frame = self.under_way.keys().next().map(|(when, _)| *when);
            let wake = |side: usize| self.hosts[side].poll_timeout();
            let next = [frame, wake(0), wake(1)].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            assert!(next >= self.now, "time goes back");
            self.now = next;
            if frame == Some(next) {
                let (_, (side, frame)) = self.under_way.pop_first().expect("a frame");
                self.visit(side, Some(frame));
            } else {
                let side = if wake(0) == Some(next) { 0 } else { 1 };
                self.visit(side, None);
                assert!(self.hosts[side].poll_timeout().is_none_or(|at| at > self.now));
            }
        }
        for host in &self.hosts {
            assert!(host.ledger().balances());
        }
    }

    fn outcome(&self, flow: u32) -> Outcome {
        let of = |side: usize| self.hosts[side].outcome(flow);
        of(0).into_iter().chain(of(1)).reduce(Outcome::join).expect("an entry")
    }
}

fn to(side: u8, number: u32) -> [Flow; 2] {
    config(side).addresses.iter().map(|(to, _)| Flow { number, to: *to }).collect::<Vec<_>>()[..]
        .try_into()
        .map(|[v4, v6]: [Flow; 2]| [v4, Flow { number: number + 1, ..v6 }])
        .expect("two addresses")
}

const START: Instant = Instant::from_millis(100);
const STOP: Instant = Instant::from_millis(1100);

#[test]
fn lab_host_pings_over_arp_and_nd_with_exact_round_trips() {
    let mut cable = Cable::new(at_once);
    let schedule = Schedule::every(Duration::from_millis(10)).within(START, STOP, None);
    for flow in to(2, 0) {
        cable.hosts[0].ping(flow, 98, schedule);
    }
    cable.run(Instant::from_secs(3));
    for flow in [0, 1] {
        let Outcome::Ping(ping) = cable.outcome(flow) else { panic!("a ping") };
        assert_eq!((ping.sent, ping.received, ping.duplicates, ping.refused), (100, 100, 0, 0));
        assert_eq!(ping.round_trip.min, DELAY * 2);
        // No packet waited for ARP or ND: neighbours were resolved before.
        assert_eq!(ping.round_trip.max, DELAY * 2);
        assert_eq!(ping.round_trip.sum, DELAY * 200);
    }
}

#[test]
fn lab_dialogue_takes_its_round_trips_and_every_octet_comes_back_as_it_was_said() {
    use dialogue::Line::{Close, Open, Say};
    use dialogue::Party::{Client, Server};
    let lines = vec![
        Open(0, Client),
        Say(0, Server, 30),
        Say(0, Client, 10),
        // Active, as FTP's data connection is; what one says twice in a row goes at once.
        Open(1, Server),
        Say(1, Server, 5000),
        Close(1, Server),
        Say(0, Server, 20),
        Close(0, Client),
    ];
    let script = Script { timed: 2..7, lines };
    let behaviour = Behaviour { window: 16_384, slow_start: false, nagle: false, ack_delay: None };
    let mut cable = Cable::new(at_once);
    let flow = |side| Flow { number: 3, ..to(side, 0)[0] };
    let schedule = Schedule::every(Duration::from_millis(10)).within(Instant::ZERO, START, Some(2));
    cable.hosts[0].ping(Flow { number: 5, ..flow(2) }, 98, schedule);
    cable.hosts[0].converse(flow(2), Client, START, script.clone(), &behaviour);
    cable.hosts[1].converse(flow(1), Server, START, script.clone(), &behaviour);
    cable.run(Instant::from_secs(2));
    let [client, server] = [0, 1].map(|side: usize| cable.hosts[side].dialogue(3));
    let (client, server) = (client.expect("a part"), server.expect("a part"));
    assert!(client.complete && server.complete && !client.broken && !server.broken);
    // The request, then the data connection there and back, then all of the data.
    assert_eq!(client.response(), Some(DELAY * 4), "{client:?}");
    assert_eq!(cable.hosts[0].dialogue(4), None);
}

#[test]
fn lab_host_that_allows_fragments_sends_without_df_and_the_checksum_is_right() {
    let packets = |allow: bool| {
        let mut cable = Cable::new(|_, _| Vec::new());
        if allow {
            cable.hosts[0].allow_fragments();
        }
        let mut packet = cable.cache.packet().expect("a buffer");
        // DF set, checksum as it must be: 45 00 00 14, DF, TTL 64, UDP, 10.0.0.1 to .2.
        let frame = [
            &[2_u8; 12][..],
            &[8, 0, 0x45, 0, 0, 20, 0, 0, 0x40, 0, 64, 17, 0x26, 0xd7, 10, 0, 0, 1, 10, 0, 0, 2],
        ];
        packet.append(34).expect("room").copy_from_slice(&frame.concat());
        let mut sent = Vec::new();
        cable.hosts[0].card.take(Instant::ZERO, &mut sent, packet);
        sent[0].1.data()[14..].to_vec()
    };
    let sum = |header: &[u8]| {
        let words = header.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
        let sum: u32 = words.sum();
        (sum & 0xffff) + (sum >> 16)
    };
    let [with, without] = [false, true].map(packets);
    assert_eq!((with[6], without[6]), (0x40, 0));
    assert_eq!((sum(&with), sum(&without)), (0xffff, 0xffff));
}

#[test]
fn lab_host_sends_datagrams_at_the_very_nanosecond() {
    let mut cable = Cable::new(at_once);
    let [v4, v6] = to(2, 0);
    for (flow, octets, at) in [(v4, 996, 0), (v6, 500, 333)] {
        let start = START + Duration::from_nanos(at);
        let schedule = Schedule::per_second(3000).within(start, STOP, None);
        cable.hosts[0].send_datagrams(flow, octets, schedule);
        cable.hosts[1].count_datagrams(flow);
    }
    cable.run(Instant::from_secs(3));
    for (flow, octets) in [(0, 996), (1, 500)] {
        let Outcome::Udp(udp) = cable.outcome(flow) else { panic!("datagrams") };
        assert_eq!((udp.sent, udp.received, udp.refused, udp.broken), (3000, 3000, 0, 0));
        assert_eq!((udp.latency.min, udp.latency.max), (DELAY, DELAY), "no rounding");
        assert_eq!(udp.octets, 3000 * octets);
    }
}

#[test]
fn lab_host_counts_what_the_cable_loses_copies_and_reorders() {
    fn fate(frame: u64, now: Instant) -> Vec<Instant> {
        match frame % 10 {
            3 => vec![],
            5 => vec![now + DELAY; 2],
            7 => vec![now + DELAY + Duration::from_micros(2500)],
            _ => vec![now + DELAY],
        }
    }
    let mut cable = Cable::new(fate);
    let [flow, _] = to(2, 0);
    let schedule = Schedule::per_second(1000).within(START, STOP, None);
    cable.hosts[0].send_datagrams(flow, 200, schedule);
    cable.hosts[1].count_datagrams(flow);
    cable.run(Instant::from_secs(3));
    let Outcome::Udp(udp) = cable.outcome(0) else { panic!("datagrams") };
    assert_eq!((udp.sent, udp.refused, udp.broken), (1000, 0, 0));
    assert_eq!((udp.received, udp.duplicates, udp.reordered), (900, 100, 100));
    assert_eq!(udp.latency.max, DELAY + Duration::from_micros(2500));
}

#[test]
fn lab_host_streams_tcp_whole_also_under_loss_and_disorder() {
    fn fate(frame: u64, now: Instant) -> Vec<Instant> {
        match frame % 53 {
            51 => vec![],
            52 => vec![now + DELAY * 3],
            _ => vec![now + DELAY],
        }
    }
    for (fate, loss) in [(at_once as Fate, false), (fate, true)] {
        let mut cable = Cable::new(fate);
        for flow in to(2, 0) {
            cable.hosts[0].send_stream(flow, (START, STOP), Some(500_000), 65_536);
            cable.hosts[1].take_stream(flow, 65_536);
        }
        cable.run(Instant::from_secs(200));
        for flow in [0, 1] {
            let Outcome::Tcp(tcp) = cable.outcome(flow) else { panic!("a stream") };
            assert!(!tcp.broken && tcp.received == tcp.sent && tcp.complete, "{tcp:?}");
            assert!(tcp.sent == 500_000 || loss, "{tcp:?}");
        }
    }
}

#[test]
fn lab_host_stream_without_length_ends_at_its_time() {
    let mut cable = Cable::new(at_once);
    let [flow, _] = to(2, 0);
    cable.hosts[0].send_stream(flow, (START, STOP), None, 65_536);
    cable.hosts[1].take_stream(flow, 65_536);
    cable.run(Instant::from_secs(20));
    let Outcome::Tcp(tcp) = cable.outcome(0) else { panic!("a stream") };
    assert!(tcp.complete && !tcp.broken && tcp.received == tcp.sent, "{tcp:?}");
    // 64 KiB in each round trip of half a millisecond, or a little more slowly.
    let megabits = rate(tcp.received, tcp.between).expect("a rate") / 1e6;
    assert!((600.0..1000.0).contains(&megabits), "{megabits}");
}

#[test]
fn lab_host_fetches_bodies_over_http_and_compares_their_digests() {
    let mut cable = Cable::new(at_once);
    for flow in to(2, 0) {
        cable.hosts[0].fetch(flow, (START, STOP), (100_000, 7), 65_536);
        cable.hosts[1].serve(flow, 65_536);
    }
    cable.run(Instant::from_secs(20));
    for flow in [0, 1] {
        let Outcome::Http(http) = cable.outcome(flow) else { panic!("transfers") };
        assert_eq!((http.requests, http.intact, http.broken), (7, 7, 0));
        assert_eq!(http.octets, 700_000);
        assert!(http.duration.min >= DELAY * 4, "connect, ask, answer");
    }
}

#[test]
fn lab_host_with_one_seed_sends_the_same_octets_twice() {
    let frames = |seed: u64| {
        let mut cable = Cable::new(at_once);
        cable.hosts[0] = Host::new(HostConfig { seed, ..config(1) });
        let [flow, _] = to(2, 0);
        cable.hosts[0].fetch(flow, (START, STOP), (10_000, 1), 65_536);
        cable.hosts[1].serve(flow, 65_536);
        let mut all = Vec::new();
        for ms in 0..2000 {
            cable.run(Instant::from_millis(ms));
            all.extend(cable.under_way.values().cloned());
        }
        all
    };
    assert!(frames(1) == frames(1) && frames(1) != frames(2));
}

#[test]
fn lab_host_with_traffic_that_never_starts_does_not_wake() {
    let mut cable = Cable::new(at_once);
    let [flow, _] = to(2, 0);
    let never = (STOP, START);
    cable.hosts[0].fetch(flow, never, (100, 1), 65_536);
    cable.hosts[0].send_stream(Flow { number: 1, ..flow }, never, None, 65_536);
    cable.run(Instant::from_secs(5));
    assert_eq!((cable.hosts[0].poll_timeout(), cable.frames), (None, 0));
    assert!(cable.now < Instant::from_secs(1));
}
