//! Lives of SAs: each bound in both directions, in virtual time, whatever becomes of
//! configurations, workers and processes.

use crate::counters::Disk;
use crate::net::{Net, ethernet, mac, udp4};
use crate::{HOST_A, HOST_B, data, frame, gateway, know, pair, protect, two};
use ferrule_base::{DropReason, Duration, MacAddr};
use ferrule_dataplane::ipsec::{Expiry, LifeCause, LifeView};
use ferrule_node::config::named_key;
use ferrule_node::{Config, Incident};
use std::collections::HashSet;

const GCM: &str = "suite = \"aes-gcm-128\"";
const AH: &str = "suite = \"hmac-sha256-128\"\nprotocol = \"ah\"";

/// Node `a` or `b` with one tunnel; `out` and `inn` is what its SAs say beside SPI and key.
fn text(own: u8, more: &str, [out, inn]: [&str; 2], keys: [u32; 2]) -> String {
    let other = 3 - own;
    let kind = if more.contains("\"ah\"") { "sha256" } else { "gcm" };
    let sa = |from: u8, key: u32, bounds: &str| {
        let spi = 0x1000 * u32::from(from) + key;
        format!("spi = {spi}, key = \"{kind}:{}\"{bounds}", key + 30 * u32::from(from))
    };
    let ways = [sa(own, keys[0], out), sa(other, keys[1], inn)];
    let net = |n: u8| format!("10.{n}.0.0/24");
    let pairs = pair("t", own, other, [&ways[0], &ways[1]], more);
    let name = if own == 1 { "a" } else { "b" };
    let workers = if more.contains("every-worker") { "workers = 3" } else { "" };
    gateway(name, own, other, &(pairs + &protect("t", &net(own), &net(other))), workers)
}

fn bounds(soft: &str, hard: &str) -> String {
    format!(", soft-lifetime = {{ {soft} }}, hard-lifetime = {{ {hard} }}")
}

/// Two nodes, and what they said of lives.
struct Sites {
    net: Net,
    a: crate::Host,
    b: crate::Host,
}

impl Sites {
    fn new(text: impl Fn(u8) -> String) -> Self {
        let mut net = Net::new();
        let (a, b) = two(&mut net, |own, _| text(own));
        Self { net, a, b }
    }

    /// Sends from behind `a`; how many came to the host behind `b`.
    fn send(&mut self, count: u16) -> usize {
        know(&mut self.net, &[(1, "10.2.0.9", HOST_B), (0, "192.0.2.2", mac("b", "wan"))]);
        for number in 0..count {
            self.a.send(&frame(number));
            if number % 64 == 63 {
                self.net.settle();
            }
        }
        self.net.settle();
        data(&mut self.b).len()
    }

    fn said(&mut self, node: usize) -> Vec<(String, Expiry, LifeCause)> {
        said(&mut self.net, node)
    }
}

fn said(net: &mut Net, node: usize) -> Vec<(String, Expiry, LifeCause)> {
    let incidents = net.members[node].control.take_incidents().into_iter();
    let lives = incidents.filter_map(|incident| match incident {
        Incident::SaLife(sa, expiry, cause) => Some((sa.to_string(), expiry, cause)),
        _ => None,
    });
    lives.collect()
}

/// The life of a node's only SA of a direction.
fn life(net: &mut Net, node: usize, is_out: bool) -> LifeView {
    let reports = net.reports(node);
    let mut sas = reports.iter().flat_map(|r| if is_out { &r.esp_out } else { &r.esp_in });
    sas.next().unwrap().life.expect("it has bounds")
}

#[test]
fn a_life_by_packets_or_octets_is_told_of_and_then_ends_in_either_direction() {
    // ESP: 90 octets and the trailer; AH: two headers of IPv4, its own, and 70.
    let esp = ("octets = 920", "octets = 1840", LifeCause::Octets);
    let ah = ("octets = 1340", "octets = 2680", LifeCause::Octets);
    let packets = ("packets = 10", "packets = 20", LifeCause::Packets);
    for (suite, (soft, hard, cause)) in [(GCM, packets), (GCM, esp), (AH, packets), (AH, ah)] {
        let by = bounds(soft, hard);
        for node in [0, 1] {
            let mut sites = Sites::new(|own| match (own, node) {
                (1, 0) => text(1, suite, [&by, ""], [1, 2]),
                (2, 1) => text(2, suite, ["", &by], [2, 1]),
                _ => text(own, suite, ["", ""], if own == 1 { [1, 2] } else { [2, 1] }),
            });
            let who = format!("tunnel t {}, SPI 0x00001001 to 192.0.2.2", ["out", "in"][node]);
            let told = |expiry| vec![(who.clone(), expiry, cause)];
            assert_eq!((sites.send(9), sites.said(node)), (9, vec![]), "{suite} {soft}");
            assert_eq!((sites.send(1), sites.said(node)), (1, told(Expiry::Soft)));
            assert_eq!((sites.send(9), sites.said(node)), (9, vec![]));
            assert_eq!((sites.send(30), sites.said(node)), (1, told(Expiry::Hard)));
            assert_eq!((sites.send(30), sites.said(node)), (0, vec![]));
            assert_eq!(sites.net.dropped(node, DropReason::SaExpired), 59);
            let life = life(&mut sites.net, node, node == 0);
            assert!(life.is_over && life.packets == 20, "{life:?}");
            sites.net.assert_conserved();
        }
    }
}

#[test]
fn a_life_in_seconds_ends_without_a_packet_and_apply_does_not_begin_it_anew() {
    let by = bounds("seconds = 2", "seconds = 4");
    let texts = |by: &str, more: &str| {
        let more = format!("{GCM}\n{more}");
        [text(1, &more, [by, ""], [1, 2]), text(2, &more, ["", by], [2, 1])]
    };
    let first = texts(&by, "");
    let mut sites = Sites::new(|own| first[usize::from(own) - 1].clone());
    assert_eq!(sites.send(5), 5);
    sites.net.wait(Duration::from_millis(1900));
    assert_eq!((sites.said(0), sites.said(1)), (vec![], vec![]));
    // Neither the same again, nor an SA that is another one with the same key.
    for (node, text) in first.iter().enumerate() {
        sites.net.apply(node, text);
    }
    sites.net.settle();
    let narrow = texts(&by, "mtu = 1300");
    sites.net.apply(0, &narrow[0]);
    sites.net.wait(Duration::from_millis(200));
    for (node, way) in [(0, "out"), (1, "in")] {
        let who = format!("tunnel t {way}, SPI 0x00001001 to 192.0.2.2");
        assert_eq!(sites.said(node), [(who, Expiry::Soft, LifeCause::Time)]);
    }
    assert_eq!(sites.send(5), 5);
    assert_eq!(life(&mut sites.net, 0, true).packets, 10);
    sites.net.wait(Duration::from_secs(2));
    for node in [0, 1] {
        let said = sites.said(node);
        let [(_, Expiry::Hard, LifeCause::Time)] = said[..] else { panic!("{said:?}") };
        assert!(life(&mut sites.net, node, node == 0).is_over);
    }
    assert_eq!(sites.send(5), 0);
    assert_eq!(sites.net.dropped(0, DropReason::SaExpired), 5);
    // More time for the sender alone: the receiver has ended, too.
    sites.net.apply(0, &texts(&bounds("seconds = 20", "seconds = 40"), "mtu = 1300")[0]);
    sites.net.settle();
    assert_eq!(sites.send(5), 0);
    assert_eq!(sites.net.dropped(1, DropReason::SaExpired), 5);
    sites.net.apply(1, &texts("", "")[1]);
    sites.net.settle();
    assert_eq!(sites.send(5), 5);
    assert_eq!((sites.said(0), sites.said(1)), (vec![], vec![]));
    sites.net.assert_conserved();
}

#[test]
fn another_configuration_of_bounds_alone_keeps_numbers_and_counters() {
    let of = |soft: u64, hard: u64| {
        let by = bounds(&format!("packets = {soft}"), &format!("packets = {hard}"));
        text(1, GCM, [&by, ""], [1, 2])
    };
    let peer = text(2, GCM, ["", ""], [2, 1]);
    let none = text(1, GCM, ["", ""], [1, 2]);
    let mut sites = Sites::new(|own| if own == 1 { none.clone() } else { peer.clone() });
    let apply = |sites: &mut Sites, text: &str| {
        sites.net.apply(0, text);
        sites.net.settle();
    };
    let state = |sites: &mut Sites| {
        let reports = sites.net.reports(0);
        let sa = &reports[0].esp_out[0];
        (sa.number, sa.stats.packets, sa.life.map(|life| life.packets))
    };
    let told = |sites: &mut Sites| {
        sites.said(0).into_iter().map(|(_, expiry, _)| expiry).collect::<Vec<_>>()
    };
    assert_eq!(sites.send(100), 100);
    apply(&mut sites, &of(150, 200));
    assert_eq!(state(&mut sites), (101, 100, Some(100)), "what was counted without bounds");
    assert_eq!((sites.send(60), told(&mut sites)), (60, vec![Expiry::Soft]));
    // The soft one is reached by these, too, and told of already.
    apply(&mut sites, &of(120, 300));
    assert_eq!((sites.send(60), told(&mut sites)), (60, vec![]));
    // Not by these.
    apply(&mut sites, &of(250, 300));
    assert_eq!((sites.send(60), told(&mut sites)), (60, vec![Expiry::Soft]));
    // Both.
    apply(&mut sites, &of(20, 30));
    assert_eq!((sites.send(60), told(&mut sites)), (0, vec![Expiry::Hard]));
    apply(&mut sites, &of(290, 300));
    assert_eq!((sites.send(60), told(&mut sites)), (20, vec![Expiry::Soft, Expiry::Hard]));
    assert_eq!(state(&mut sites), (301, 300, Some(300)));
    apply(&mut sites, &none);
    assert_eq!((sites.send(60), told(&mut sites)), (60, vec![]));
    assert_eq!(state(&mut sites), (361, 360, None));
    apply(&mut sites, &of(365, 370));
    assert_eq!(state(&mut sites), (361, 360, Some(360)));
    assert_eq!((sites.send(60), told(&mut sites)), (10, vec![Expiry::Soft, Expiry::Hard]));
    sites.net.assert_conserved();
}

#[test]
fn after_a_change_of_keys_at_the_soft_bound_traffic_goes_on() {
    let by = bounds("packets = 50", "packets = 100");
    let more = format!("{GCM}\nalso-in = [{{ spi = 0x1003, key = \"gcm:33\"{by} }}]");
    let old = [text(1, GCM, [&by, ""], [1, 2]), text(2, GCM, ["", &by], [2, 1])];
    let both = text(2, &more, ["", &by], [2, 1]);
    let new = [text(1, GCM, [&by, ""], [3, 2]), text(2, GCM, ["", &by], [2, 3])];
    let mut sites = Sites::new(|own| old[usize::from(own) - 1].clone());
    assert_eq!(sites.send(60), 60);
    assert_eq!(sites.said(0).len() + sites.said(1).len(), 2, "it is time at both ends");
    sites.net.apply(1, &both);
    sites.net.settle();
    sites.net.apply(0, &new[0]);
    sites.net.settle();
    assert_eq!(sites.send(45), 45);
    sites.net.apply(1, &new[1]);
    sites.net.settle();
    assert_eq!((sites.said(0), sites.said(1)), (vec![], vec![]));
    assert_eq!(sites.send(10), 10);
    let who = |way| format!("tunnel t {way}, SPI 0x00001003 to 192.0.2.2");
    let soft = |way| vec![(who(way), Expiry::Soft, LifeCause::Packets)];
    assert_eq!((sites.said(0), sites.said(1)), (soft("out"), soft("in")));
    assert_eq!(sites.net.dropped(0, DropReason::SaExpired), 0);
    sites.net.assert_conserved();
}

/// A node that seals, and its wire.
struct Sender {
    net: Net,
    lan: crate::Host,
    wan: crate::Host,
}

impl Sender {
    fn new(disk: &Disk, text: &str) -> Self {
        let mut net = Net::new();
        let node = net.node_on(text, Box::new(disk.clone()));
        let (lan, wan) = (net.host(node, "lan"), net.host(node, "wan"));
        net.settle();
        Self { net, lan, wan }
    }

    /// Sends packets and returns the frames that come out, after checking that all are sealed.
    fn send(&mut self, count: u16) -> Vec<Vec<u8>> {
        know(&mut self.net, &[(0, "192.0.2.2", MacAddr([2, 0, 0, 0, 0, 2]))]);
        for number in 0..count {
            let packet = udp4([10, 1, 0, 9], [10, 2, 0, 9], (1000 + number % 48, 9), 90, 0);
            self.lan.send(&ethernet(mac("a", "lan"), HOST_A, 0x0800, &packet));
            if number % 64 == 63 {
                self.net.settle();
            }
        }
        self.net.settle();
        let sent = data(&mut self.wan);
        assert!(sent.iter().all(|frame| frame[23] == 50), "nothing in clear");
        sent
    }
}

#[test]
fn a_life_that_several_workers_share_ends_once_for_all() {
    let by = bounds("packets = 2000", "packets = 4000");
    let more = format!("{GCM}\nevery-worker = true\npeer-window = 2048");
    let mut sender = Sender::new(&Disk::default(), &text(1, &more, [&by, ""], [1, 2]));
    let mut sent = 0;
    for _ in 0..60 {
        sent += sender.send(100).len();
    }
    // Each of the two others may keep what it took.
    assert!((4000 - 2 * 256..=4000).contains(&sent), "{sent}");
    let reports = sender.net.reports(0);
    assert!(reports.iter().all(|r| r.esp_out[0].stats.packets > 300), "all have a part of it");
    assert!(reports.iter().all(|r| r.esp_out[0].life.unwrap().is_over));
    let who = "tunnel t out, SPI 0x00001001 to 192.0.2.2".to_owned();
    let told = [Expiry::Soft, Expiry::Hard].map(|expiry| (who.clone(), expiry, LifeCause::Packets));
    assert_eq!(said(&mut sender.net, 0), told);
    // A range of numbers that was not reserved in time is another matter.
    let drops = sender.net.drops(0);
    let late = drops.get(DropReason::EspSequenceExhausted);
    assert_eq!(drops.get(DropReason::SaExpired) + late, 6000 - sent as u64);
    sender.net.assert_conserved();
}

#[test]
fn a_crash_begins_no_life_anew() {
    let by = bounds("packets = 1500", "packets = 2000");
    let way = text(1, GCM, [&by, &by], [1, 2]);
    let disk = Disk::default();
    let (mut seen, mut sent) = (HashSet::new(), 0);
    let mut sender = Sender::new(&disk, &way);
    for crash in 0..20 {
        let frames = sender.send(100);
        sent += frames.len();
        assert!(frames.iter().all(|frame| seen.insert(frame[42..50].to_vec())));
        let used = life(&mut sender.net, 0, true).packets;
        assert!(used >= sent as u64, "{used} {sent}");
        if crash < 3 {
            assert_eq!(frames.len(), 100);
        }
        // The process is killed.
        sender = Sender::new(&disk, &way);
    }
    assert!((300..=2000).contains(&sent), "{sent}: each costs a range of numbers");
    assert!(sender.send(10).is_empty());
    let told = said(&mut sender.net, 0);
    assert_eq!(told.iter().map(|told| told.1).collect::<Vec<_>>(), [Expiry::Hard]);
}

#[test]
fn bounds_that_mean_nothing_are_refused_with_place_and_remedy() {
    let wrong =
        |by: &str| match Config::parse("a.toml", &text(1, GCM, [by, ""], [1, 2]), &mut named_key) {
            Ok(_) => panic!("{by} is accepted"),
            Err(e) => e.to_string(),
        };
    for (by, what) in [
        (
            bounds("packets = 10", "packets = 10"),
            "the soft lifetime of 10 packets is not before the hard one of 10\n  use at most 9",
        ),
        (
            bounds("octets = 11, packets = 1", "octets = 10"),
            "the soft lifetime of 11 octets is not before",
        ),
        (bounds("seconds = 5", "seconds = 1"), "raise `seconds` of hard-lifetime"),
        (bounds("seconds = 1", "seconds = 400000000"), "a lifetime in seconds cannot be 400000000"),
        (bounds("packets = 1", "packets = 0"), "a lifetime in packets cannot be 0"),
        (
            bounds("packets = 1", ""),
            "a lifetime without a bound\n  give it packets, octets or seconds",
        ),
    ] {
        let said = wrong(&by);
        assert!(said.contains(what) && said.starts_with("a.toml:"), "{by}: {said}");
    }
    // Of different kinds any goes.
    let by = bounds("packets = 100, seconds = 3", "octets = 10");
    assert!(Config::parse("a.toml", &text(1, GCM, [&by, ""], [1, 2]), &mut named_key).is_ok());
}
