//! One tunnel on several workers: with an SA for each, or one SA that all have.

use crate::counters::Disk;
use crate::net::{Net, config, ethernet, mac, udp4};
use crate::{HOST_A, HOST_B, data, gateway, know, pair, protect, two};
use ferrule_base::{Duration, MacAddr};
use ferrule_node::Config;
use ferrule_node::config::named_key;
use std::collections::{HashMap, HashSet};

const FLOWS: u16 = 48;
const WORKERS: usize = 3;

/// An SA for each worker and direction.
const EACH: &str = "also-out = [{ spi = 0x1102, key = \"gcm:2\" }, { spi = 0x1103, key = \"gcm:3\" }]\n\
                    also-in = [{ spi = 0x2102, key = \"gcm:32\" }, { spi = 0x2103, key = \"gcm:33\" }]";
/// An SA that every worker has.
const ALL: &str = "every-worker = true\npeer-window = 2048";

fn tunnel(more: &str) -> String {
    let out = "spi = 0x1101, key = \"gcm:1\"";
    let inn = "spi = 0x2101, key = \"gcm:31\"";
    let more = format!("suite = \"aes-gcm-128\"\nwindow = 2048\n{more}");
    pair("t", 1, 2, [out, inn], &more) + &protect("t", "10.1.0.0/24", "10.2.0.0/24")
}

fn text(more: &str) -> String {
    gateway("a", 1, 2, &tunnel(more), &format!("workers = {WORKERS}"))
}

/// The other end of it.
fn far(more: &str) -> String {
    let more = more.replace("also-out", "also-").replace("also-in", "also-out");
    let more = more.replace("also- ", "also-in ");
    let more = format!("suite = \"aes-gcm-128\"\nwindow = 2048\n{more}");
    let ways = ["spi = 0x2101, key = \"gcm:31\"", "spi = 0x1101, key = \"gcm:1\""];
    let pairs = pair("t", 2, 1, ways, &more);
    let pairs = pairs + &protect("t", "10.2.0.0/24", "10.1.0.0/24");
    gateway("b", 2, 1, &pairs, &format!("workers = {WORKERS}"))
}

fn spi_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[34..38].try_into().unwrap())
}

fn number_of(frame: &[u8]) -> u64 {
    u64::from_be_bytes(frame[42..50].try_into().unwrap())
}

/// A packet with a number from a host to another.
fn packet(name: &str, flow: u16, number: u16) -> Vec<u8> {
    let (from, to, own) = match name {
        "a" => ([10, 1, 0, 9], [10, 2, 0, 9], HOST_A),
        _ => ([10, 2, 0, 9], [10, 1, 0, 9], HOST_B),
    };
    let mut packet = udp4(from, to, (1000 + flow, 9), 90, 0);
    packet[28..30].copy_from_slice(&number.to_be_bytes());
    ethernet(mac(name, "lan"), own, 0x0800, &packet)
}

#[test]
fn every_worker_seals_what_it_has_and_order_is_kept_within_a_flow() {
    for (more, spis) in [(EACH, 3), (ALL, 1)] {
        let mut net = Net::new();
        let (mut a, mut b) = two(&mut net, |own, _| if own == 1 { text(more) } else { far(more) });
        let mut next: [HashMap<u16, u16>; 2] = Default::default();
        for number in 0..200 {
            for flow in 0..FLOWS {
                a.send(&packet("a", flow, number));
                b.send(&packet("b", flow, number));
            }
            net.settle();
            for (host, next) in [&mut a, &mut b].into_iter().zip(&mut next) {
                for frame in data(host) {
                    let flow = u16::from_be_bytes([frame[34], frame[35]]);
                    let number = u16::from_be_bytes([frame[42], frame[43]]);
                    let due = next.insert(flow, number + 1).unwrap_or(0);
                    assert_eq!(due, number, "flow {flow}");
                }
            }
        }
        for next in next {
            assert_eq!(next.len(), usize::from(FLOWS));
            assert!(next.values().all(|&next| next == 200), "{next:?}");
        }
        let mut seen = HashSet::new();
        for node in [0, 1] {
            for report in net.reports(node) {
                let [sa] = &report.esp_out[..] else { panic!("one for each worker") };
                assert!(sa.stats.packets > 1000, "worker {}: {:?}", report.worker, sa.stats);
                seen.insert((node, sa.spi));
            }
            let opened: Vec<u64> =
                net.reports(node).iter().flat_map(|r| &r.esp_in).map(|s| s.stats.packets).collect();
            assert_eq!(opened.len(), spis);
            assert!(opened.iter().all(|&n| n > 1000), "{opened:?}");
        }
        assert_eq!(seen.len(), 2 * spis);
        net.assert_conserved();
    }
}

/// A node that seals, and every nonce that was on its wire.
struct Sender {
    net: Net,
    lan: crate::Host,
    wan: crate::Host,
    disk: Disk,
    seen: HashSet<(u32, u64)>,
}

impl Sender {
    fn new(disk: Disk, text: &str) -> Self {
        let mut net = Net::new();
        let node = net.node_on(text, Box::new(disk.clone()));
        let (lan, wan) = (net.host(node, "lan"), net.host(node, "wan"));
        net.settle();
        Self { net, lan, wan, disk, seen: HashSet::new() }
    }

    /// The process is killed and starts again.
    fn crash(self, text: &str) -> Self {
        Self { seen: self.seen, ..Self::new(self.disk, text) }
    }

    /// No nonce may come that was there before.
    fn send(&mut self, count: usize) {
        know(&mut self.net, &[(0, "192.0.2.2", MacAddr([2, 0, 0, 0, 0, 2]))]);
        for number in 0..count {
            self.lan.send(&packet("a", number as u16 % FLOWS, 0));
            if number % 32 == 31 {
                self.net.settle();
            }
        }
        self.net.settle();
        let sent = data(&mut self.wan);
        assert_eq!(sent.len(), count, "{:?}", self.net.drops(0));
        for frame in &sent {
            let nonce = (spi_of(frame), number_of(frame));
            assert!(self.seen.insert(nonce), "{nonce:x?} twice");
        }
    }
}

#[test]
fn a_crash_or_another_configuration_brings_no_number_of_any_worker_back() {
    let single = text("");
    let narrow = |more: &str| text(&format!("{more}\nmtu = 1300"));
    let ways = [text(EACH), text(ALL), narrow(ALL), narrow(EACH), single, text(ALL), text(EACH)];
    let mut sender = Sender::new(Disk::default(), &ways[0]);
    for (at, way) in ways.iter().enumerate() {
        sender.net.apply(0, way);
        sender.net.settle();
        // Of the first range alone, or of several.
        sender.send(if at % 2 == 0 { 20 } else { 1500 });
        sender = sender.crash(way);
        sender.send(300);
        sender.net.wait(Duration::from_secs(1));
    }
    sender.net.assert_conserved();
}

/// Sets the checksum of a header.
fn sum(header: &mut [u8], at: usize) {
    header[at..at + 2].fill(0);
    let words = header.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1]));
    let sum: u32 = words.sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn an_error_about_the_path_of_an_sa_that_all_workers_have_reaches_each() {
    let mut sender = Sender::new(Disk::default(), &text(&format!("{ALL}\nmtu = 1400")));
    sender.send(96);
    know(&mut sender.net, &[(0, "192.0.2.2", MacAddr([2, 0, 0, 0, 0, 2]))]);
    let mut long = udp4([10, 1, 0, 9], [10, 2, 0, 9], (1, 9), 1400, 0);
    long[6] = 0x40;
    sum(&mut long[..20], 10);
    sender.lan.send(&ethernet(mac("a", "lan"), HOST_A, 0x0800, &long));
    sender.net.settle();
    let sealed = data(&mut sender.wan).remove(0);
    // Fragmentation needed, 1200 octets.
    let mut icmp = vec![3, 4, 0, 0, 0, 0, 0x04, 0xb0];
    icmp.extend(&sealed[14..14 + 36]);
    sum(&mut icmp, 2);
    let mut error = udp4([192, 0, 2, 77], [192, 0, 2, 1], (0, 0), 20 + icmp.len(), 0);
    error[9] = 1;
    sum(&mut error[..20], 10);
    error[20..].copy_from_slice(&icmp);
    sender.wan.send(&ethernet(mac("a", "wan"), MacAddr([2, 0, 0, 0, 0, 2]), 0x0800, &error));
    sender.net.settle();
    let mtus: Vec<_> = sender.net.reports(0).iter().map(|r| r.esp_out[0].mtu).collect();
    assert!(mtus[0].is_some_and(|mtu| mtu < 1200), "{mtus:?} {:?}", sender.net.drops(0));
    assert!(mtus.iter().all(|mtu| *mtu == mtus[0]), "{mtus:?}");
    sender.net.assert_conserved();
}

#[test]
fn what_could_lose_packets_or_repeat_nonces_is_refused() {
    let wrong = |more: &str| match Config::parse("a.toml", &text(more), &mut named_key) {
        Ok(_) => panic!("{more} is accepted"),
        Err(e) => e.to_string(),
    };
    let also = |spi: u32, key: &str, more: &str| {
        format!("also-out = [{{ spi = {spi}, key = \"{key}\"{more} }}]")
    };
    for (more, what) in [
        (also(0x1101, "gcm:2", ""), "is tunnel `t`'s already"),
        (also(0x1102, "gcm:1", ""), "one key for two SAs"),
        (also(0x1102, "gcm:31", ""), "one key for both directions"),
        (
            also(0x1102, "gcm:2", ", worker = 0") + "\nevery-worker = true\npeer-window = 0",
            "keep one of both",
        ),
        (
            EACH.replace("gcm:2\"", "gcm:2\", worker = 1")
                .replace("gcm:3\"", "gcm:3\", worker = 1"),
            "worker 1 has an outbound SA of `t` already",
        ),
        (
            EACH.replace("}]\nalso-in", "}, { spi = 0x1104, key = \"gcm:4\" }]\nalso-in"),
            "more outbound SAs than 3 workers",
        ),
        ("every-worker = true".into(), "add peer-window"),
        ("peer-window = 64".into(), "`peer-window` without `every-worker`"),
        ("every-worker = true\npeer-window = 1024".into(), "would lose packets of 3 workers"),
    ] {
        let said = wrong(&more);
        assert!(said.contains(what), "{more}: {said}");
    }
    assert!(config(&text("every-worker = true\npeer-window = 0")).tunnels[0].shared == Some(0));
}
