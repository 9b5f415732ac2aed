//! Frames that a node does something with, each the beginning of many others.

use super::configs::Kind;
use super::sealed::PEER;
use ferrule_base::MacAddr;
use ferrule_wire::arp::{self, Operation};
use ferrule_wire::checksum::{Ends, checksum};
use ferrule_wire::{EtherType, Protocol, icmpv4, icmpv6, ipv6, mpls, ndp, vlan};
use std::net::Ipv6Addr;

/// Octets of an Ethernet header.
pub const ETHERNET: usize = 14;

const HOST: MacAddr = MacAddr([2, 0, 0xaa, 1, 2, 3]);

/// An Ethernet frame.
pub fn ethernet(to: MacAddr, from: MacAddr, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    [&to.0[..], &from.0[..], &ethertype.0.to_be_bytes(), payload].concat()
}

/// An IPv4 packet.
pub fn ipv4(from: [u8; 4], to: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0];
    packet[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
    packet.extend(from);
    packet.extend(to);
    packet.extend_from_slice(payload);
    repair_ip(&mut packet);
    packet
}

fn ipv6_packet(from: &str, to: &str, next: Protocol, payload: &[u8]) -> Vec<u8> {
    let address = |text: &str| text.parse::<Ipv6Addr>().expect("an address");
    let header = ipv6::Repr::new(next, address(from), address(to), payload.len() as u16);
    let mut packet = vec![0; header.len()];
    header.emit(&mut packet);
    packet.extend_from_slice(payload);
    // Neighbour discovery comes from the link.
    if next == Protocol::ICMPV6 {
        packet[7] = ndp::HOP_LIMIT;
    }
    repair_ip(&mut packet);
    packet
}

/// Makes the checksums of whatever IP packet is inside good.
pub fn repair(frame: &mut [u8]) {
    let (mut at, mut ethertype) = (ETHERNET, ethertype_at(frame, 12));
    while ethertype.is_vlan() {
        ethertype = ethertype_at(frame, at + 2);
        at += vlan::Header::LEN;
    }
    if ethertype == EtherType::MPLS {
        for _ in 0..mpls::MAX_DEPTH {
            let bottom = frame.get(at + 2).is_none_or(|b| b & 1 != 0);
            at += mpls::Header::LEN;
            if bottom {
                break;
            }
        }
    }
    if let Some(packet) = frame.get_mut(at..) {
        repair_ip(packet);
    }
}

fn ethertype_at(frame: &[u8], at: usize) -> EtherType {
    EtherType(frame.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]])))
}

/// Makes the checksums of an IP packet and of ICMP in it good.
pub fn repair_ip(packet: &mut [u8]) {
    match packet.first().map(|b| b >> 4) {
        Some(4) => {
            let len = usize::from(packet[0] & 15) * 4;
            if len < 20 || len > packet.len() {
                return;
            }
            let total = usize::from(u16::from_be_bytes([packet[2], packet[3]])).min(packet.len());
            if packet[9] == Protocol::ICMP.0
                && let Some(message) = packet.get_mut(len..total)
                && message.len() >= icmpv4::Header::LEN
            {
                icmpv4::fill_checksum(message);
            }
            packet[10..12].fill(0);
            let sum = checksum(&packet[..len]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Some(6) => {
            let Ok((header, total)) = ipv6::validate(packet) else { return };
            let (ends, next): (Ends, _) = (header.ends(), header.next());
            let message = &mut packet[ipv6::Header::LEN..total];
            if next == Protocol::ICMPV6 && message.len() >= icmpv6::Header::LEN {
                icmpv6::fill_checksum(&ends, message);
            }
        }
        _ => {}
    }
}

/// A UDP datagram of `len` octets of payload.
fn udp(len: usize) -> Vec<u8> {
    let mut datagram = [7_u16, 9, 8 + len as u16, 0].map(u16::to_be_bytes).concat();
    datagram.resize(8 + len, 0x5a);
    datagram
}

fn arp_from(from: [u8; 4], to: [u8; 4], operation: Operation) -> Vec<u8> {
    let message = arp::Repr {
        operation,
        sender_mac: PEER,
        sender_ip: from.into(),
        target_mac: MacAddr::ZERO,
        target_ip: to.into(),
    };
    let mut body = vec![0; message.len()];
    message.emit(&mut body);
    body
}

fn discovery(target: &str, solicitation: bool) -> Vec<u8> {
    let target = target.parse().expect("an address");
    let message = if solicitation {
        ndp::Repr::NeighbourSolicitation { target, source_link: Some(PEER) }
    } else {
        ndp::Repr::NeighbourAdvertisement {
            target,
            router: true,
            solicited: true,
            override_cache: true,
            target_link: Some(PEER),
        }
    };
    let mut body = vec![0; message.len()];
    message.emit(&mut body);
    body
}

/// IP packets from `from` to hosts behind the node, to the node, and beyond.
fn packets(from: [u8; 4], own: [u8; 4], far: [u8; 4]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for len in [0, 1, 60, 700, 1372, 1480] {
        out.push(ipv4(from, far, 17, &udp(len)));
    }
    let echo = [8, 0, 0, 0, 0, 1, 0, 1, 1, 2, 3];
    out.push(ipv4(from, own, 1, &echo));
    out.push(ipv4(from, own, 17, &udp(4)));
    out.push(ipv4(from, own, 50, &[0, 0, 0x10, 1, 0, 0, 0, 1, 9, 9, 9, 9]));
    let with = |change: fn(&mut Vec<u8>)| {
        let mut packet = ipv4(from, far, 17, &udp(1400));
        change(&mut packet);
        repair_ip(&mut packet);
        packet
    };
    out.push(with(|p| p[8] = 1)); // the last hop
    out.push(with(|p| p[6] = 0x40)); // not to be fragmented
    out.push(with(|p| p[6] = 0x20)); // the first fragment
    out.push(with(|p| p[7] = 9)); // a later one
    out.push(with(|p| p[1] = 0xbb)); // DSCP and congestion
    let mut options = ipv4(from, far, 17, &[&[0x94, 4, 0, 0], &udp(20)[..]].concat());
    options[0] = 0x46;
    repair_ip(&mut options);
    out.push(options);
    // The packet in an error is one that the node sent.
    let quoted = ipv4(own, from, 50, &[0, 0, 0x10, 2, 0, 0, 0, 1]);
    out.push(ipv4(from, own, 1, &[&[3, 4, 0, 0, 0, 0, 2, 0], &quoted[..]].concat()));
    out
}

fn packets_v6() -> Vec<Vec<u8>> {
    let (from, far, own) = ("2001:db8:1::9", "2001:db8:2::9", "2001:db8:1::1");
    let echo = [128, 0, 0, 0, 0, 1, 0, 1, 1, 2, 3];
    let fragment = [&[17, 0, 0, 1, 0, 0, 0, 5], &udp(40)[..]].concat();
    let chain = [&[60, 0, 5, 2, 0, 0, 1, 0, 17, 0, 1, 4, 0, 0, 0, 0], &udp(8)[..]].concat();
    let mut out = vec![
        ipv6_packet(from, far, Protocol::UDP, &udp(60)),
        ipv6_packet(from, far, Protocol::UDP, &udp(1452)),
        ipv6_packet(from, own, Protocol::ICMPV6, &echo),
        ipv6_packet(from, own, Protocol::UDP, &udp(2)),
        ipv6_packet(from, far, Protocol::FRAGMENT, &fragment),
        ipv6_packet(from, far, Protocol::HOP_BY_HOP, &chain),
        ipv6_packet(far, from, Protocol::UDP, &udp(100)),
    ];
    for solicitation in [true, false] {
        for target in [own, "2001:db8:1::9", "2001:db8:2::9", "fe80::1", "2001:db8:9::1"] {
            let message = discovery(target, solicitation);
            out.push(ipv6_packet("fe80::9", own, Protocol::ICMPV6, &message));
        }
    }
    out
}

/// The source and the addresses that mean something to a node.
fn addresses(kind: Kind) -> [[u8; 4]; 3] {
    match kind {
        Kind::Provider => [[10, 9, 0, 9], [10, 9, 0, 1], [10, 2, 0, 9]],
        _ => [[10, 1, 0, 9], [10, 1, 0, 1], [10, 2, 0, 9]],
    }
}

/// Frames to a node, addressed to `to` where they are for a router.
pub fn plain(kind: Kind, to: MacAddr) -> Vec<Vec<u8>> {
    let [from, own, far] = addresses(kind);
    let v4 = packets(from, own, far).into_iter().chain(packets(far, [192, 0, 2, 1], from));
    let mut out: Vec<_> = v4.map(|p| ethernet(to, HOST, EtherType::IPV4, &p)).collect();
    out.extend(packets_v6().iter().map(|p| ethernet(to, HOST, EtherType::IPV6, p)));
    for operation in [Operation::Request, Operation::Reply] {
        for (from, to_ip) in [
            (from, own),
            (own, own),
            ([192, 0, 2, 2], [192, 0, 2, 1]),
            ([198, 51, 100, 2], [198, 51, 100, 1]),
            ([10, 9, 0, 9], [10, 9, 0, 1]),
        ] {
            let body = arp_from(from, to_ip, operation);
            out.push(ethernet(MacAddr::BROADCAST, PEER, EtherType::ARP, &body));
        }
    }
    out.extend(labelled(to, &out[0][ETHERNET..], &out));
    let tagged =
        |frame: &Vec<u8>, vid: u8| [&frame[..12], &[0x81, 0, 0x60, vid], &frame[12..]].concat();
    let tags: Vec<_> = out.iter().take(4).flat_map(|f| [tagged(f, 10), tagged(f, 20)]).collect();
    out.extend(tags);
    out.push(ethernet(MacAddr::BROADCAST, HOST, EtherType(0x88b5), &[1; 46]));
    out.push(ethernet(MacAddr([1, 0x80, 0xc2, 0, 0, 0]), HOST, EtherType(38), &[0x42; 38]));
    out.push(ethernet(MacAddr([1, 0x80, 0xc2, 0, 0, 3]), HOST, EtherType::EAPOL, &[3; 46]));
    out
}

/// Labelled packets and pseudowire frames.
fn labelled(to: MacAddr, packet: &[u8], frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let entry = |label, bottom| mpls::encode(label, 0, bottom, 64);
    let mut out = Vec::new();
    for label in [0, 1, 2, 3, 7, 13, 900, 901, 903, 5000] {
        out.push([&entry(label, true), packet].concat());
        out.push([&entry(label, false)[..], &entry(900, true), packet].concat());
    }
    let word = [0, 0, 0, 0];
    for frame in frames.iter().step_by(4) {
        out.push([&entry(800_000, true)[..], &word, frame].concat());
    }
    out.push([&entry(800_000, true)[..], &[0x10, 0, 0, 7], &[1; 20]].concat());
    out.push(entry(16, false).repeat(mpls::MAX_DEPTH + 2));
    out.into_iter().map(|p| ethernet(to, PEER, EtherType::MPLS, &p)).collect()
}

/// Plain text to be sealed: packets for ESP, frames for MACsec.
pub fn inner(kind: Kind, to: MacAddr) -> Vec<Vec<u8>> {
    match kind {
        Kind::EspGcm | Kind::EspCbc => {
            let [near, own, far] = addresses(kind);
            let mut out = packets(far, own, near);
            out.extend(packets(near, own, far));
            out.extend(packets_v6());
            out
        }
        Kind::Macsec | Kind::MacsecXpn | Kind::Provider => plain(kind, to),
    }
}
