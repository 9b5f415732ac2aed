//! Messages of neighbours that the node knows or looks for, apart from those of other
//! senders.
//!
//! Every host on a link can send ARP and ND at its rate. Neither is authentic, but of a neighbour
//! that is there address and link address are known: its messages have a queue of their own. Each
//! has a rate: a neighbour that floods, or whose messages are forged, costs no other one theirs.

use ferrule_base::{Instant, MacAddr};
use ferrule_dataplane::Tables;
use ferrule_dataplane::route::limit::Bucket;
use ferrule_pipeline::Packet;
use ferrule_wire::{EtherType, FromBytes, Protocol, arp, ethernet, ipv6, ndp, vlan};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

/// Rates, shared by neighbours.
const RATES: usize = 1024;
/// Messages of a neighbour in a second, and at once: one answers a question, and asks when it
/// begins to send.
const RATE: u64 = 32;
/// See [`RATE`].
const BURST: u64 = 8;

/// Rates of the neighbours of a worker's ports.
pub(crate) struct NeighbourRates {
    rates: Box<[Bucket]>,
    /// Secret of the hash by which they are shared: a sender cannot choose with whom.
    secret: [u64; 2],
}

impl NeighbourRates {
    pub fn new(secret: [u64; 2]) -> Self {
        Self { rates: vec![Bucket::new(RATE, BURST); RATES].into(), secret }
    }

    /// True for a message of a neighbour that is known or looked for, as many as one sends.
    pub fn admits(&mut self, now: Instant, tables: &Tables, packet: &Packet) -> bool {
        let Some((ip, mac)) = sender(packet.data()) else { return false };
        let Some(slot) = tables.neighbours.may_be(packet.meta().iface, ip, mac) else {
            return false;
        };
        let mut hasher = DefaultHasher::new();
        (self.secret, slot).hash(&mut hasher);
        self.rates[hasher.finish() as usize % RATES].take(now)
    }
}

/// The neighbour of which a message is, as it says: an advertisement tells of its target.
fn sender(frame: &[u8]) -> Option<(IpAddr, MacAddr)> {
    let (link, mut payload) = ethernet::Repr::parse(frame).ok()?;
    let mut ethertype = link.ethertype;
    if ethertype.is_vlan() {
        let (tag, behind) = vlan::Repr::parse(payload).ok()?;
        (ethertype, payload) = (tag.ethertype, behind);
    }
    if ethertype == EtherType::ARP {
        let (message, _) = arp::Repr::parse(payload).ok()?;
        return Some((message.sender_ip.into(), message.sender_mac));
    }
    let (ip, message) = ipv6::Header::ref_from_prefix(payload).ok()?;
    let (head, body) = ndp::Header::ref_from_prefix(message).ok()?;
    let told = match head.kind {
        _ if ip.next != Protocol::ICMPV6.0 => return None,
        ndp::ADVERTISEMENT => *body.first_chunk::<16>()?,
        _ => ip.src,
    };
    Some((IpAddr::from(told), link.src))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_pipeline::Pool;
    use std::net::Ipv4Addr;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);

    fn of_arp(ip: Ipv4Addr, sender_mac: MacAddr) -> Vec<u8> {
        let message = arp::Repr {
            operation: arp::Operation::Reply,
            sender_mac,
            sender_ip: ip,
            target_mac: MacAddr::ZERO,
            target_ip: Ipv4Addr::UNSPECIFIED,
        };
        let link = ethernet::Repr { dst: MAC, src: MAC, ethertype: EtherType::ARP };
        let mut frame = vec![0; link.len() + message.len()];
        link.emit(&mut frame);
        message.emit(&mut frame[link.len()..]);
        frame
    }

    #[test]
    fn known_neighbours_and_those_looked_for_have_a_rate_each() {
        let (tables, mut rates) = (Tables::default(), NeighbourRates::new([7, 9]));
        let mut cache = Pool::heap(64, 2048).cache();
        let (there, wanted, other) = ([10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 0, 3]);
        tables.neighbours.set(0, there.into(), MAC);
        tables.neighbours.set(1, there.into(), MAC);
        tables.neighbours.look_for(0, wanted.into());
        let mut admitted_at = |iface: u16, now: u64, ip: [u8; 4], mac| {
            let mut packet = cache.packet_from(&of_arp(ip.into(), mac)).expect("a buffer");
            packet.meta_mut().iface = iface;
            let said = rates.admits(Instant::from_millis(now), &tables, &packet);
            cache.recycle(packet);
            said
        };
        let mut admitted = |now, ip, mac| admitted_at(0, now, ip, mac);
        let elsewhere = MacAddr([2, 0, 0, 0, 0, 8]);
        assert!(admitted(0, there, MAC) && admitted(0, wanted, elsewhere));
        assert!(!admitted(0, there, elsewhere) && !admitted(0, other, MAC));
        let mut forged = (0..100).filter(|_| admitted(1, there, MAC)).count() as u64;
        assert_eq!(forged, BURST - 1);
        assert!(admitted(1, wanted, elsewhere), "another one's rate");
        assert!(admitted_at(1, 1, there, MAC), "the same address on another interface");
        let mut admitted = |now, ip, mac| admitted_at(0, now, ip, mac);
        forged = (2..1002).filter(|&ms| admitted(ms, there, MAC)).count() as u64;
        assert!(forged.abs_diff(RATE) <= 1, "{forged}");
    }

    #[test]
    fn an_advertisement_is_of_its_target_and_no_length_of_a_frame_is_wrong() {
        let (src, dst): ([u8; 16], [u8; 16]) = ([0xfe; 16], [0xff; 16]);
        let target = "2001:db8::7".parse().unwrap();
        for (kind, of) in [(ndp::ADVERTISEMENT, IpAddr::V6(target)), (135, src.into())] {
            let mut message = vec![kind, 0, 0, 0, 0, 0, 0, 0];
            message.extend(target.octets());
            let head = [0x60, 0, 0, 0, 0, message.len() as u8, 58, 255];
            let frame = [&MAC.0[..], &MAC.0, &[0x86, 0xdd], &head, &src, &dst, &message].concat();
            assert_eq!(sender(&frame), Some((of, MAC)));
            for len in 0..frame.len() {
                let _ = sender(&frame[..len]);
            }
        }
    }
}
