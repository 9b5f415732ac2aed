//! ICMP errors: the packet in question becomes the message that tells its
//! sender (RFC 1812 section 4.3.2, RFC 4443 section 2.4).

use crate::graph::{Ctx, FLAG_GROUP, FLAG_LOCAL, Next, Stage};
use crate::route::address::{is_host_v4, is_host_v6, is_ours};
use crate::route::limit::Bucket;
use crate::route::local::TTL;
use crate::route::options;
use crate::route::speaker::{near, speaker};
use crate::tables::Tables;
use arrayvec::ArrayVec;
use ferrule_base::{Answer, DropReason};
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::{
    Dscp, Ends, EtherType, FromBytes, Protocol, icmpext, icmpv4, icmpv6, ipv4, ipv6, ipv6ext, mpls,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Errors that a worker sends in a second.
pub const ERRORS_PER_SECOND: u64 = 1_000;
/// Errors that it sends at once.
pub const ERRORS_BURST: u64 = 100;
/// The longest ICMPv4 error (RFC 1812 section 4.3.2.3 allows 576).
pub const ERROR_V4_MAX: usize = 548;
/// The longest ICMPv6 error: the smallest MTU (RFC 4443 section 2.4 (c)).
pub const ERROR_V6_MAX: usize = 1280;
/// Class selector 6: internetwork control (RFC 1812 section 4.3.2.5).
const CONTROL: Dscp = Dscp::masked(48);

/// The stage at [`Next::IcmpError`].
pub struct IcmpError {
    bucket: Bucket,
    ident: u16,
}

impl Default for IcmpError {
    fn default() -> Self {
        Self { bucket: Bucket::new(ERRORS_PER_SECOND, ERRORS_BURST), ident: 0 }
    }
}

impl Stage for IcmpError {
    /// For each packet:
    ///
    /// 1. Labels that it came with go; the message will tell them.
    /// 2. A check that an error may answer it; if not, it is dropped for the reason
    ///    that the error would have told.
    /// 3. An address of ours that the message may have on its way back.
    /// 4. The message, with as much of the packet as fits, goes its way as a
    ///    packet made here: with the labels to the end of the packet's path, where
    ///    the way back is known (RFC 3032 section 2.3.2).
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        for mut packet in batch.drain(..) {
            let labels = Labelled::take(&mut packet);
            let made = match EtherType(packet.meta().ethertype) {
                EtherType::IPV4 => self.error_v4(ctx, &mut packet, &labels),
                EtherType::IPV6 => self.error_v6(ctx, &mut packet, &labels),
                _ => Err(DropReason::UnknownProtocol),
            };
            match made.and_then(|()| labels.put_back(&mut packet)) {
                Ok(next) => {
                    packet.meta_mut().flags = FLAG_LOCAL;
                    ctx.out.send(next, packet);
                }
                Err(reason) => ctx.out.drop(packet, reason),
            }
        }
    }
}

/// The label stack that a packet came with; empty for most.
struct Labelled(ArrayVec<u8, { icmpext::STACK_MAX }>);

impl Labelled {
    /// Takes the labels off; the switch has seen that IP is behind them.
    fn take(packet: &mut Packet) -> Self {
        let mut octets = ArrayVec::new();
        if packet.meta().ethertype == EtherType::MPLS.0
            && let Ok((_, behind)) = mpls::Stack::parse(packet.data())
        {
            let len = packet.len() - behind.len();
            let ethertype = if behind.first().is_some_and(|&octet| octet >> 4 == 6) {
                EtherType::IPV6
            } else {
                EtherType::IPV4
            };
            octets.extend(packet.data()[..len].iter().copied());
            packet.strip(len);
            packet.meta_mut().ethertype = ethertype.0;
        }
        Self(octets)
    }

    /// True if the sender has an address of this node. Whose addresses those of a packet with
    /// labels are, the end of its path knows.
    fn is_ours(&self, tables: &Tables, packet: &Packet, src: IpAddr) -> bool {
        self.0.is_empty() && is_ours(tables, packet, src)
    }

    /// The source of the message: with labels, of the interface that they came by.
    fn speaker(
        &self,
        tables: &Tables,
        packet: &Packet,
        sender: IpAddr,
        message: [u8; 2],
    ) -> Option<IpAddr> {
        match self.0.is_empty() {
            true => speaker(tables, packet, sender, message),
            false => near(tables, packet, sender),
        }
    }

    /// Puts the labels in front of the message, which has all the hops that there are, but for
    /// an entropy label, which never has one (RFC 6790 section 4.2); its next stage.
    fn put_back(&self, packet: &mut Packet) -> Result<Next, DropReason> {
        if self.0.is_empty() {
            return Ok(Next::Ip);
        }
        let front = packet.prepend(self.0.len()).ok_or(DropReason::NoRoom)?;
        front.copy_from_slice(&self.0);
        let mut is_entropy = false;
        for entry in front.as_chunks_mut::<{ mpls::Header::LEN }>().0 {
            entry[3] = if is_entropy { 0 } else { u8::MAX };
            is_entropy = mpls::decode(*entry).0 == mpls::special::ENTROPY_INDICATOR.get();
        }
        packet.meta_mut().ethertype = EtherType::MPLS.0;
        Ok(Next::Mpls)
    }

    /// Cuts the quoted packet so that it fits `longest` octets, with the labels behind it if
    /// there are any: the quoted packet's length then, in words of `word` octets (RFC 4884
    /// section 5.1).
    fn quote(&self, packet: &mut Packet, longest: usize, word: usize) -> Result<u8, DropReason> {
        if self.0.is_empty() {
            packet.truncate(longest);
            return Ok(0);
        }
        let extension = icmpext::len(self.0.len());
        packet.truncate((longest - extension) / word * word);
        let quoted = packet.len().next_multiple_of(word).max(icmpext::QUOTED_MIN);
        packet.append(quoted - packet.len()).ok_or(DropReason::NoRoom)?.fill(0);
        icmpext::emit(&self.0, packet.append(extension).ok_or(DropReason::NoRoom)?);
        Ok((quoted / word) as u8)
    }
}

impl IcmpError {
    /// Counts a message, if there is a permit left for it.
    fn may_send(&mut self, ctx: &mut Ctx<'_>, answer: Option<Answer>) -> Result<(), DropReason> {
        let permit = self.bucket.take(ctx.now);
        if let Some(answer) = answer {
            ctx.tally.answers.count(answer, permit);
        }
        permit.then_some(()).ok_or(DropReason::IcmpRateLimited)
    }

    fn error_v4(
        &mut self,
        ctx: &mut Ctx<'_>,
        packet: &mut Packet,
        labels: &Labelled,
    ) -> Result<(), DropReason> {
        let meta = *packet.meta();
        let [kind, code] = meta.icmp.to_be_bytes();
        let reason = reason_v4(kind, code);
        let sender = answerable_v4(ctx.tables, packet, labels).ok_or(reason)?;
        let own = labels.speaker(ctx.tables, packet, sender.into(), [kind, code]);
        let Some(IpAddr::V4(own)) = own else { return Err(reason) };
        self.may_send(ctx, Answer::of(4, kind, code))?;
        let quoted =
            labels.quote(packet, ERROR_V4_MAX - ipv4::Header::LEN - icmpv4::Header::LEN, 4)?;
        let message = match kind {
            3 => icmpv4::Repr::Unreachable { code, mtu: meta.limit, quoted },
            11 => icmpv4::Repr::TimeExceeded { code, quoted },
            12 => icmpv4::Repr::ParameterProblem { pointer: meta.offset as u8 },
            _ => icmpv4::Repr::Other { kind, code, rest: [0; 4] },
        };
        message.emit(packet.prepend(message.len()).ok_or(DropReason::NoRoom)?);
        icmpv4::fill_checksum(packet.data_mut());
        self.ident = self.ident.wrapping_add(1);
        let mut header = ipv4::Repr::new(Protocol::ICMP, own, sender, packet.len() as u16);
        (header.ident, header.ttl, header.dscp) = (self.ident, TTL, CONTROL);
        header.emit(packet.prepend(header.len()).ok_or(DropReason::NoRoom)?);
        Ok(())
    }

    fn error_v6(
        &mut self,
        ctx: &mut Ctx<'_>,
        packet: &mut Packet,
        labels: &Labelled,
    ) -> Result<(), DropReason> {
        let meta = *packet.meta();
        let [kind, code] = meta.icmp.to_be_bytes();
        let reason = reason_v6(kind, code);
        let sender = answerable_v6(ctx.tables, packet, labels).ok_or(reason)?;
        let own = labels.speaker(ctx.tables, packet, sender.into(), [kind, code]);
        let Some(IpAddr::V6(own)) = own else { return Err(reason) };
        self.may_send(ctx, Answer::of(6, kind, code))?;
        // A message about a packet too big has no place to say how long the packet is.
        let none = Labelled(ArrayVec::new());
        let labels = if kind == 2 { &none } else { labels };
        let longest = ERROR_V6_MAX - ipv6::Header::LEN - icmpv6::Header::LEN;
        let quoted = labels.quote(packet, longest, 8)?;
        let message = match kind {
            1 => icmpv6::Repr::Unreachable { code, quoted },
            2 => icmpv6::Repr::TooBig { mtu: meta.limit.into() },
            3 => icmpv6::Repr::TimeExceeded { code, quoted },
            4 => icmpv6::Repr::ParameterProblem { code, pointer: meta.offset.into() },
            _ => icmpv6::Repr::Other { kind, code, rest: [0; 4] },
        };
        message.emit(packet.prepend(message.len()).ok_or(DropReason::NoRoom)?);
        icmpv6::fill_checksum(&Ends::V6(own, sender), packet.data_mut());
        let mut header = ipv6::Repr::new(Protocol::ICMPV6, own, sender, packet.len() as u16);
        (header.hop_limit, header.dscp) = (TTL, CONTROL);
        header.emit(packet.prepend(header.len()).ok_or(DropReason::NoRoom)?);
        Ok(())
    }
}

/// The next stage of a packet whose next hop did not answer: its sender is told (RFC 1812
/// section 5.2.7.1, RFC 4861 section 7.2.2). Nothing for a label stack, which gets no
/// error.
pub fn unanswered(packet: &mut Packet) -> Option<Next> {
    const HOST_UNREACHABLE: u16 = 3 << 8 | icmpv4::unreachable::HOST as u16;
    const ADDRESS_UNREACHABLE: u16 = 1 << 8 | icmpv6::unreachable::ADDRESS as u16;
    let meta = packet.meta_mut();
    let kind = match EtherType(meta.ethertype) {
        EtherType::IPV4 => HOST_UNREACHABLE,
        EtherType::IPV6 => ADDRESS_UNREACHABLE,
        _ => return None,
    };
    (meta.icmp, meta.limit, meta.offset) = (kind, 0, 0);
    Some(Next::IcmpError)
}

/// Drop reason that corresponds to an ICMP error.
const fn reason_v4(kind: u8, code: u8) -> DropReason {
    match (kind, code) {
        (11, 1) => DropReason::ReassemblyTimeout,
        (11, _) => DropReason::TtlExpired,
        (3, icmpv4::unreachable::TOO_BIG) => DropReason::TooBig,
        (3, icmpv4::unreachable::PROTOCOL | icmpv4::unreachable::PORT) => {
            DropReason::UnknownProtocol
        }
        (3, icmpv4::unreachable::PROHIBITED) => DropReason::PolicyDiscard,
        (3, icmpv4::unreachable::HOST) => DropReason::NoNeighbour,
        (3, _) => DropReason::NoRoute,
        _ => DropReason::Malformed,
    }
}

/// Drop reason that corresponds to an ICMPv6 error.
const fn reason_v6(kind: u8, code: u8) -> DropReason {
    match (kind, code) {
        (3, 1) => DropReason::ReassemblyTimeout,
        (3, _) => DropReason::TtlExpired,
        (2, _) => DropReason::TooBig,
        (1, icmpv6::unreachable::PORT) => DropReason::UnknownProtocol,
        (1, icmpv6::unreachable::PROHIBITED) => DropReason::PolicyDiscard,
        (1, icmpv6::unreachable::ADDRESS) => DropReason::NoNeighbour,
        (1, _) => DropReason::NoRoute,
        (4, 1) => DropReason::UnknownProtocol,
        (4, 2) => DropReason::IpOption,
        _ => DropReason::Malformed,
    }
}

/// The sender, if an error may answer the packet (RFC 1812 section 4.3.2.7):
/// it is from one host elsewhere to one host, the first fragment, and no error.
fn answerable_v4(tables: &Tables, packet: &Packet, labels: &Labelled) -> Option<Ipv4Addr> {
    if packet.meta().flags & (FLAG_LOCAL | FLAG_GROUP) != 0 {
        return None;
    }
    let (header, _) = ipv4::Header::ref_from_prefix(packet.data()).ok()?;
    let (src, dst) = (Ipv4Addr::from(header.src), Ipv4Addr::from(header.dst));
    let first = header.fragment.get() & 0x1fff == 0;
    if !is_host_v4(src) || !is_host_v4(dst) || !first || labels.is_ours(tables, packet, src.into())
    {
        return None;
    }
    if header.protocol() == Protocol::ICMP {
        let message = packet.data().get(header.header_len()..)?;
        // The meaning of an unknown type is not known, so it counts as an error.
        let query = matches!(message.first()?, 0 | 8 | 9 | 10 | 13..=18);
        return query.then_some(src);
    }
    Some(src)
}

/// The sender, if an error may answer the packet (RFC 4443 section 2.4 (e)).
fn answerable_v6(tables: &Tables, packet: &Packet, labels: &Labelled) -> Option<Ipv6Addr> {
    let to_groups = options::tells_groups(packet.meta().icmp, packet);
    let never = if to_groups { FLAG_LOCAL } else { FLAG_LOCAL | FLAG_GROUP };
    if packet.meta().flags & never != 0 {
        return None;
    }
    let (header, payload) = ipv6::Header::ref_from_prefix(packet.data()).ok()?;
    let (src, dst) = (Ipv6Addr::from(header.src), Ipv6Addr::from(header.dst));
    let to_host = is_host_v6(dst) || to_groups;
    if !is_host_v6(src) || !to_host || labels.is_ours(tables, packet, src.into()) {
        return None;
    }
    let upper = ipv6ext::walk(header.next(), payload).ok()?;
    if upper.protocol == Protocol::ICMPV6 {
        let later = upper.fragment.is_some_and(|f| f.offset != 0);
        let kind = *payload.get(upper.offset)?;
        // Errors and redirects.
        return (!later && kind >= 128 && kind != 137).then_some(src);
    }
    Some(src)
}
