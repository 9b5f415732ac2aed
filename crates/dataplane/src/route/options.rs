//! Options of IP headers: written to by routers (record route and timestamp, RFC 791
//! section 3.1, RFC 1812 sections 5.3.13.5 and 5.3.13.6), or refused by their own wish
//! (RFC 8200 section 4.2).

use crate::graph::Next;
use arrayvec::ArrayVec;
use ferrule_base::{DropReason, Instant};
use ferrule_pipeline::Packet;
use ferrule_wire::ip::Options;
use ferrule_wire::{FromBytes, ipv4, ipv6, ipv6ext};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Octets of an IPv4 header without options.
const FIXED: usize = ipv4::Header::LEN;
/// Option types: record route, timestamp, loose and strict source route.
const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;
const LOOSE: u8 = 131;
const STRICT: u8 = 137;

/// ICMPv4 parameter problem, type and code; the pointer is beside it.
pub(super) const PROBLEM_V4: u16 = 12 << 8;
/// ICMPv6 parameter problem, unrecognized option.
const UNKNOWN_OPTION: u16 = 4 << 8 | 2;

/// One option in a header: its place there, and its octets.
struct Found<'a> {
    at: usize,
    octets: &'a mut [u8],
}

/// Calls `each` for the options of an IPv4 header behind the padding of one octet. An
/// error is the octet of the header that is wrong.
fn walk<'a>(
    header: &'a mut [u8],
    mut each: impl FnMut(Found<'a>) -> Result<(), u8>,
) -> Result<(), u8> {
    let mut rest = header.get_mut(FIXED..).unwrap_or_default();
    let mut at = FIXED;
    // Each step is at least one octet of at most 40.
    loop {
        let len = match *rest {
            [] | [0, ..] => return Ok(()),
            [1, ..] => 1,
            [_, len, ..] if len >= 2 && usize::from(len) <= rest.len() => len.into(),
            _ => return Err(at as u8 + 1),
        };
        let (octets, behind) = std::mem::take(&mut rest).split_at_mut(len);
        if len > 1 {
            each(Found { at, octets })?;
        }
        (rest, at) = (behind, at + len);
    }
}

/// True if IPv4 options ask that a packet for this node go on from here: a source route
/// with addresses left (RFC 791 section 3.1), which no router should follow (RFC 7126
/// sections 4.3 and 4.4).
#[cold]
pub(super) fn wants_on(header: &mut [u8]) -> bool {
    let mut wants = false;
    let _ = walk(header, |option| {
        // The pointer counts from one, and a whole address has to be there.
        wants |= matches!(*option.octets,
            [LOOSE | STRICT, len, pointer, ..] if pointer.saturating_add(3) <= len);
        Ok(())
    });
    wants
}

/// Data that a router writes into options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    /// The address by which the packet leaves.
    pub own: Ipv4Addr,
    pub now: Instant,
}

impl Hop {
    /// Writes this hop into the options of an IPv4 packet that goes on. An error is the
    /// octet at fault, for the sender to be told.
    #[cold]
    pub fn record(
        self,
        packet: &mut [u8],
        header_len: usize,
        is_ours: impl Fn(Ipv4Addr) -> bool,
    ) -> Result<(), u8> {
        let header = packet.get_mut(..header_len).unwrap_or_default();
        walk(header, |option| match option.octets[0] {
            RECORD_ROUTE => self.record_route(option),
            TIMESTAMP => self.stamp(option, &is_ours),
            _ => Ok(()),
        })?;
        ipv4::fill_checksum(packet);
        Ok(())
    }

    /// Type, length, pointer, addresses.
    fn record_route(self, Found { at, octets }: Found<'_>) -> Result<(), u8> {
        let [_, len, pointer, ..] = octets else { return Err(at as u8 + 1) };
        if *pointer > *len {
            return Ok(());
        }
        let (place, next) = (usize::from(*pointer), *pointer + 4);
        let room = (place >= 4).then(|| octets.get_mut(place - 1..place + 3)).flatten();
        room.ok_or(at as u8 + 2)?.copy_from_slice(&self.own.octets());
        octets[2] = next;
        Ok(())
    }

    /// Type, length, pointer, overflow and flag; times, each behind an address unless the
    /// flag is zero.
    fn stamp(
        self,
        Found { at, octets }: Found<'_>,
        is_ours: impl Fn(Ipv4Addr) -> bool,
    ) -> Result<(), u8> {
        const TIMES: u8 = 0;
        const WITH_ADDRESSES: u8 = 1;
        const OF_THESE: u8 = 3;
        let &mut [_, len, pointer, overflow, ..] = &mut *octets else { return Err(at as u8 + 1) };
        let flag = overflow & 15;
        if pointer > len {
            // Every router whose address was listed has entered its time stamp.
            if flag != OF_THESE {
                octets[3] = overflow.checked_add(16).ok_or(at as u8 + 3)?;
            }
            return Ok(());
        }
        let size = if flag == TIMES { 4 } else { 8 };
        let place = usize::from(pointer);
        let room = (place >= 5).then(|| octets.get_mut(place - 1..place - 1 + size)).flatten();
        let room = room.ok_or(at as u8 + 2)?;
        let (address, time) = room.split_at_mut(size - 4);
        match flag {
            TIMES => {}
            WITH_ADDRESSES => address.copy_from_slice(&self.own.octets()),
            OF_THESE if <[u8; 4]>::try_from(&*address).is_ok_and(|a| is_ours(a.into())) => {}
            _ => return Ok(()),
        }
        time.copy_from_slice(&self.time().to_be_bytes());
        octets[2] = pointer + size as u8;
        Ok(())
    }

    /// Milliseconds of the node's clock, which does not begin at midnight: so the highest
    /// bit is set.
    const fn time(self) -> u32 {
        (self.now.as_nanos() / 1_000_000) as u32 | 1 << 31
    }
}

/// Record route and timestamp of an echo request, which its reply has, too (RFC 1122
/// section 3.2.2.6); no others.
#[cold]
pub(super) fn echoed(header: &mut [u8]) -> Options {
    let mut kept = ArrayVec::<u8, 40>::new();
    let _ = walk(header, |option| {
        if matches!(option.octets[0], RECORD_ROUTE | TIMESTAMP) {
            // They came in one header, so there is room.
            let _ = kept.try_extend_from_slice(option.octets);
        }
        Ok(())
    });
    while !kept.len().is_multiple_of(4) {
        kept.push(0);
    }
    Options::new(&kept).unwrap_or(Options::NONE)
}

/// The fate of an IPv6 packet with an option that must not be skipped, if it has one. Of
/// one for this node all headers are looked at, of others the hop-by-hop header.
#[cold]
pub(super) fn refuse_unknown(
    packet: &mut Packet,
    at_destination: bool,
) -> Result<Option<Next>, DropReason> {
    let data = packet.data();
    let (header, payload) =
        ipv6::Header::ref_from_prefix(data).map_err(|_| DropReason::Malformed)?;
    let to_group = Ipv6Addr::from(header.dst).is_multicast();
    let found = ipv6ext::unknown_option(header.next(), payload, at_destination)?;
    match found {
        None => Ok(None),
        Some(option) if ipv6ext::UnknownOption::is_told(option.kind, to_group) => {
            let next = super::ip::error(packet, UNKNOWN_OPTION);
            packet.meta_mut().offset = (ipv6::Header::LEN + option.offset) as u16;
            Ok(Some(next))
        }
        Some(_) => Err(DropReason::IpOption),
    }
}

/// True if a parameter problem is about an option whose type asks that senders to groups
/// be told, too (RFC 4443 section 2.4 (e.3)).
pub(super) fn tells_groups(icmp: u16, packet: &Packet) -> bool {
    let kind = packet.data().get(usize::from(packet.meta().offset));
    icmp == UNKNOWN_OPTION && kind.is_some_and(|&kind| ipv6ext::UnknownOption::is_told(kind, true))
}
