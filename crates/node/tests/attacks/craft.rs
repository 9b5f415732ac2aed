//! Packets of an attacker: with any header, or sealed with a known key, as by a peer that
//! was taken over. Put together from the RFCs with RustCrypto's parts, not with the node's
//! code.

use crate::net::ethernet;
use aes_gcm::aead::AeadInOut;
use aes_gcm::aes::cipher::Array;
use aes_gcm::{Aes128Gcm, KeyInit};
use ferrule_base::MacAddr;
use ferrule_wire::{Ends, icmpv6, ipv4};
use std::net::IpAddr;

/// Protocol numbers.
pub const ICMP: u8 = 1;
pub const IPIP: u8 = 4;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const IPV6: u8 = 41;
pub const ROUTING: u8 = 43;
pub const FRAGMENT: u8 = 44;
pub const ESP: u8 = 50;
pub const AH: u8 = 51;
pub const ICMPV6: u8 = 58;
pub const NONE: u8 = 59;
pub const DESTINATION: u8 = 60;

/// An IP packet of the addresses' version, without options.
pub fn ip(protocol: u8, from: &str, to: &str, payload: &[u8]) -> Vec<u8> {
    match (from.parse().expect("an address"), to.parse().expect("an address")) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut packet = vec![0x45, 0, 0, 0, 0, 9, 0, 0, 64, protocol, 0, 0];
            packet.extend(from.octets());
            packet.extend(to.octets());
            packet.extend(payload);
            v4(packet)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let len = (payload.len() as u16).to_be_bytes();
            let head = [0x60, 0, 0, 0, len[0], len[1], protocol, 64];
            [&head, &from.octets()[..], &to.octets(), payload].concat()
        }
        _ => panic!("{from} and {to} are of two families"),
    }
}

/// An IPv4 packet with its length and checksum made right.
pub fn v4(mut packet: Vec<u8>) -> Vec<u8> {
    let len = packet.len() as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    ipv4::fill_checksum(&mut packet);
    packet
}

/// An IPv4 packet that is changed, with its checksum made right again.
pub fn v4_with(packet: &[u8], change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut packet = packet.to_vec();
    change(&mut packet);
    ipv4::fill_checksum(&mut packet);
    packet
}

/// UDP with so many octets of data, without a checksum.
pub fn udp(from: u16, to: u16, data: &[u8]) -> Vec<u8> {
    let len = (data.len() as u16 + 8).to_be_bytes();
    [&from.to_be_bytes()[..], &to.to_be_bytes(), &len, &[0, 0], data].concat()
}

/// The octets with one change.
pub fn with(octets: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut octets = octets.to_vec();
    change(&mut octets);
    octets
}

/// A frame with an IP packet of either version.
pub fn frame(to: MacAddr, from: MacAddr, packet: &[u8]) -> Vec<u8> {
    let ethertype = if packet[0] >> 4 == 6 { 0x86dd } else { 0x0800 };
    ethernet(to, from, ethertype, packet)
}

/// Padding 1, 2, 3, ... to whole words, its length and the next header behind a payload.
pub fn padded(payload: &[u8], next: u8) -> Vec<u8> {
    let pad = (payload.len() + 2).wrapping_neg() & 3;
    let padding: Vec<u8> = (1..=pad as u8).collect();
    [payload, &padding, &[pad as u8, next]].concat()
}

/// One direction of an SA with AES-GCM-128, whose key is called `gcm:N`.
#[derive(Clone, Copy)]
pub struct Sealer {
    pub spi: u32,
    pub key: u8,
    pub esn: bool,
}

impl Sealer {
    /// ESP from its SPI to its ICV around this text, trailer included (RFC 4106).
    pub fn seal(self, number: u64, text: &[u8]) -> Vec<u8> {
        let (spi, number) = (self.spi.to_be_bytes(), number.to_be_bytes());
        let high = if self.esn { &number[..4] } else { &[] };
        let aad = [&spi, high, &number[4..]].concat();
        let nonce = [&[self.key + 1; 4][..], &number].concat();
        let cipher = Aes128Gcm::new_from_slice(&[self.key; 16]).expect("a key");
        let nonce = Array::try_from(&nonce[..]).expect("a nonce");
        let mut text = text.to_vec();
        let tag = cipher.encrypt_inout_detached(&nonce, &aad, (&mut text[..]).into());
        let tag = tag.expect("sealing cannot fail");
        [&spi, &number[4..], &number, &text, tag.as_slice()].concat()
    }

    /// ESP around this payload.
    pub fn esp(self, number: u64, payload: &[u8], next: u8) -> Vec<u8> {
        self.seal(number, &padded(payload, next))
    }

    /// ESP around an IP packet, as in tunnel mode.
    pub fn tunnel(self, number: u64, inner: &[u8]) -> Vec<u8> {
        self.esp(number, inner, if inner[0] >> 4 == 6 { IPV6 } else { IPIP })
    }
}

/// An ICMPv4 packet with its checksum.
pub fn icmp4(from: &str, to: &str, message: &[u8]) -> Vec<u8> {
    let message = with(message, |m| {
        m[2..4].fill(0);
        let sum = ferrule_wire::checksum::checksum(m);
        m[2..4].copy_from_slice(&sum.to_be_bytes());
    });
    ip(ICMP, from, to, &message)
}

/// An ICMPv6 packet with its checksum.
pub fn icmp6(from: &str, to: &str, message: &[u8]) -> Vec<u8> {
    let mut packet = ip(ICMPV6, from, to, message);
    let ends = Ends::V6(from.parse().expect("an address"), to.parse().expect("an address"));
    packet[42..44].fill(0);
    icmpv6::fill_checksum(&ends, &mut packet[40..]);
    packet
}

/// A packet in two fragments, the first with `first` octets of data.
pub fn halves(packet: &[u8], first: usize) -> [Vec<u8>; 2] {
    assert!(first.is_multiple_of(8));
    let (one, two, offset) = match packet[0] >> 4 {
        4 => (&packet[..20 + first], [&packet[..20], &packet[20 + first..]].concat(), 0),
        _ => (&packet[..40 + first], [&packet[..40], &packet[40 + first..]].concat(), first),
    };
    if offset == 0 {
        let one = v4(with(one, |p| p[6..8].copy_from_slice(&[0x20, 0])));
        return [one, v4(with(&two, |p| p[7] = (first / 8) as u8))];
    }
    let piece = |part: &[u8], field: u16| {
        let field = field.to_be_bytes();
        let header = [part[6], 0, field[0], field[1], 0, 0, 0, 0];
        let mut piece = [&part[..40], &header, &part[40..]].concat();
        piece[6] = FRAGMENT;
        let len = piece.len() as u16 - 40;
        piece[4..6].copy_from_slice(&len.to_be_bytes());
        piece
    };
    [piece(one, 1), piece(&two, first as u16)]
}

/// A fragment whose data belongs so many octets farther on, and is this.
pub fn moved(piece: &[u8], by: i16, data: &[u8]) -> Vec<u8> {
    if piece[0] >> 4 == 4 {
        let field = u16::from_be_bytes([piece[6], piece[7]]).wrapping_add_signed(by / 8);
        let piece = [&piece[..20], data].concat();
        return v4(with(&piece, |p| p[6..8].copy_from_slice(&field.to_be_bytes())));
    }
    let field = u16::from_be_bytes([piece[42], piece[43]]).wrapping_add_signed(by);
    let mut piece = [&piece[..48], data].concat();
    piece[42..44].copy_from_slice(&field.to_be_bytes());
    let len = piece.len() as u16 - 40;
    piece[4..6].copy_from_slice(&len.to_be_bytes());
    piece
}

/// A payload behind so many headers with destination options, all of them padding.
pub fn behind_options(count: usize, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut chain = Vec::new();
    for nth in 1..=count {
        let next = if nth == count { next } else { DESTINATION };
        chain.extend([next, 0, 1, 4, 0, 0, 0, 0]);
    }
    chain.extend(payload);
    chain
}
