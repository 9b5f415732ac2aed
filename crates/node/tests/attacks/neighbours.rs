//! An attacker on a LAN who sends ARP at line rate, and neighbours that have to be asked
//! meanwhile.

use crate::net::{Host, Net, ethernet, udp4};
use ferrule_base::{DropReason, Duration, MacAddr};

const SERVERS: [(MacAddr, [u8; 4]); 2] = [
    (MacAddr([2, 0, 0xaa, 0, 0, 2]), [10, 0, 1, 2]),
    (MacAddr([2, 0, 0xaa, 0, 0, 3]), [10, 0, 1, 3]),
];
const CLIENT: MacAddr = MacAddr([2, 0, 0xbb, 0, 0, 2]);
const ROUTER: &str = "[node]\nname = \"r\"\nlab = true\n\
    [[port]]\nname = \"lan\"\ndriver = \"wire\"\n[[port]]\nname = \"wan\"\ndriver = \"wire\"\n\
    [[interface]]\nport = \"lan\"\naddress = [\"10.0.1.1/16\"]\n\
    [[interface]]\nport = \"wan\"\naddress = [\"192.0.2.1/24\"]\n";

/// An ARP message of a host (operation 1 asks, 2 answers).
fn arp(operation: u8, from: (MacAddr, [u8; 4]), to: (MacAddr, [u8; 4])) -> Vec<u8> {
    let mut arp = vec![0, 1, 8, 0, 6, 4, 0, operation];
    arp.extend(from.0.0.iter().chain(&from.1).chain(&to.0.0).chain(&to.1));
    let to = if operation == 1 { MacAddr::BROADCAST } else { to.0 };
    ethernet(to, from.0, 0x0806, &arp)
}

/// A LAN with two servers and an attacker who floods it.
struct Lan {
    net: Net,
    lan: Host,
    wan: Host,
    router: [MacAddr; 2],
    /// Servers that the router asked for and that have not answered yet.
    asked: Vec<(MacAddr, usize)>,
    asks: u32,
    /// Packets that arrived at each.
    arrived: [u32; 2],
}

impl Lan {
    fn new() -> Self {
        let mut net = Net::new();
        net.node(ROUTER);
        let (lan, wan) = (net.host(0, "lan"), net.host(0, "wan"));
        let router = ["lan", "wan"].map(|port| ferrule_node::made_mac("r", port));
        let (asked, arrived) = (Vec::new(), [0; 2]);
        let mut lan = Self { net, lan, wan, router, asked, asks: 0, arrived };
        lan.net.settle();
        lan.lan.received();
        // The client's router knows it, as it asked first.
        let ask = arp(1, (CLIENT, [192, 0, 2, 2]), (MacAddr::ZERO, [192, 0, 2, 1]));
        lan.wan.send(&ask);
        lan.net.settle();
        lan
    }

    fn received(&mut self) {
        for frame in self.lan.received() {
            let ethertype = u16::from_be_bytes([frame[12], frame[13]]);
            for (at, (mac, ip)) in SERVERS.into_iter().enumerate() {
                if ethertype == 0x0806 && frame[21] == 1 && frame[38..42] == ip {
                    self.asks += 1;
                    self.asked.push((MacAddr(*frame[6..].first_chunk().expect("a MAC")), at));
                }
                self.arrived[at] += u32::from(ethertype == 0x0800 && frame[..6] == mac.0);
            }
        }
    }

    /// A millisecond: a packet for some servers, what `flood` sends, and answers in the middle
    /// of it.
    fn millisecond(&mut self, servers: &[(MacAddr, [u8; 4])], flood: &[Vec<u8>]) {
        self.net.now += Duration::from_millis(1);
        let now = self.net.now;
        for (_, ip) in servers {
            let packet = udp4([192, 0, 2, 2], *ip, (9, 9), 64, 0);
            self.wan.send(&ethernet(self.router[1], CLIENT, 0x0800, &packet));
        }
        let (before, behind) = flood.split_at(flood.len() * 3 / 4);
        before.iter().for_each(|frame| self.lan.send(frame));
        for (asker, at) in std::mem::take(&mut self.asked) {
            self.lan.send(&arp(2, SERVERS[at], (asker, [10, 0, 1, 1])));
        }
        behind.iter().for_each(|frame| self.lan.send(frame));
        let [member] = &mut self.net.members[..] else { unreachable!("one") };
        for _ in 0..8 {
            member.workers[0].turn(now);
        }
        member.control.turn(now);
        member.workers[0].turn(now);
        self.received();
    }
}

/// One server is known when the flood begins and has to be asked again during it; for the other
/// the first packet comes later.
fn survives(what: &str, full: DropReason, flood: impl Fn(u32) -> Vec<u8>) {
    let mut lan = Lan::new();
    for _ in 0..100 {
        lan.millisecond(&SERVERS[..1], &[]);
    }
    assert!(lan.arrived[0] > 95, "{what}: {:?} before it", lan.arrived);
    // Until the answer is about to be good no more.
    lan.net.wait(Duration::from_secs(28));
    lan.received();
    let (mut number, asks) = (0, lan.asks);
    lan.arrived = [0; 2];
    for ms in 0..12_000 {
        let frames: Vec<_> = (number..number + 512).map(&flood).collect();
        number += 512;
        lan.millisecond(&SERVERS[..if ms < 6000 { 1 } else { 2 }], &frames);
    }
    assert!(lan.asks > asks, "{what}: the router probes its neighbour");
    assert_eq!(lan.arrived, [12_000, 6000], "{what}: asked {} times", lan.asks - asks);
    assert!(lan.net.dropped(0, full) > 1_000_000, "{what}");
}

/// An unused address and link address of the LAN, another one for each number.
fn somebody(number: u32) -> (MacAddr, [u8; 4]) {
    let [_, _, high, low] = (number % 50_000 + 1000).to_be_bytes();
    (MacAddr([2, 9, 9, 9, high, low]), [10, 0, high, low])
}

#[test]
fn a_flood_of_arp_requests_costs_no_neighbour() {
    survives("requests", DropReason::ControlQueueFull, |n| {
        arp(1, somebody(n), (MacAddr::ZERO, [10, 0, 1, 1]))
    });
}

#[test]
fn a_flood_of_arp_answers_costs_no_neighbour() {
    survives("answers", DropReason::ControlQueueFull, |n| {
        arp(2, somebody(n), (MacAddr::BROADCAST, [10, 0, 1, 1]))
    });
}
