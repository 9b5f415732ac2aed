//! Fragments as an independent hand writes them, and the stage's results.

mod cut;
mod model;
mod rules;

use crate::graph::Next;
use crate::route::tests::rig::{Fate, Rig, v4, v6};
use ferrule_base::DropReason;
use ferrule_wire::{Protocol, ipv4};

/// A fragment of a datagram for the rig's own address.
#[derive(Clone, Debug)]
pub struct Made {
    pub version: u8,
    pub protocol: Protocol,
    pub ident: u32,
    pub src: String,
    pub offset: usize,
    pub more: bool,
    pub data: Vec<u8>,
}

impl Made {
    pub fn new(version: u8, ident: u32, offset: usize, more: bool, data: &[u8]) -> Self {
        let src = if version == 4 { "10.0.0.2" } else { "2001:db8::2" };
        let (protocol, src, data) = (Protocol::UDP, src.into(), data.to_vec());
        Self { version, protocol, ident, src, offset, more, data }
    }

    pub fn of(self, protocol: Protocol) -> Self {
        Self { protocol, ..self }
    }

    pub fn from(self, src: &str) -> Self {
        Self { src: src.into(), ..self }
    }

    pub fn octets(&self) -> Vec<u8> {
        let field = (self.offset / 8) as u16;
        if self.version == 4 {
            let mut out = v4(&self.src, "10.0.0.1", self.protocol, &self.data);
            out[4..6].copy_from_slice(&(self.ident as u16).to_be_bytes());
            let field = field | u16::from(self.more) << 13;
            out[6..8].copy_from_slice(&field.to_be_bytes());
            ipv4::fill_checksum(&mut out);
            return out;
        }
        let mut rest = vec![self.protocol.0, 0];
        rest.extend((field << 3 | u16::from(self.more)).to_be_bytes());
        rest.extend(self.ident.to_be_bytes());
        rest.extend(&self.data);
        v6(&self.src, "2001:db8::1", Protocol::FRAGMENT, &rest)
    }

    /// Through the stage.
    pub fn push(&self, rig: &mut Rig) -> Vec<Fate> {
        let packet = rig.ip_packet(&self.octets());
        rig.run_reassemble(packet)
    }
}

/// The payload of the whole datagram that was sent on, and how.
#[track_caller]
pub fn whole(fates: Vec<Fate>, version: u8) -> Vec<u8> {
    let text = format!("{fates:?}");
    match <[Fate; 1]>::try_from(fates) {
        Ok([Fate::Sent(Next::Ip, packet)]) => payload(packet.data(), version),
        _ => panic!("{text}"),
    }
}

/// The payload of a datagram that is none in fragments.
#[track_caller]
pub fn payload(data: &[u8], version: u8) -> Vec<u8> {
    if version == 4 {
        let (repr, payload) = ipv4::Repr::parse(data).unwrap();
        assert!(!repr.is_fragment() && repr.len() + payload.len() == data.len());
        payload.to_vec()
    } else {
        let (header, total) = ferrule_wire::ipv6::validate(data).unwrap();
        assert_eq!((header.next(), total), (Protocol::UDP, data.len()));
        data[40..].to_vec()
    }
}

#[track_caller]
pub fn dropped_for(fates: &[Fate]) -> DropReason {
    match fates.last() {
        Some(Fate::Dropped(reason)) => *reason,
        _ => panic!("{fates:?}"),
    }
}

/// Some octets that differ from place to place.
pub fn text(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8) ^ seed).collect()
}
