//! Packets for the node itself: echo requests are answered, other packets with an error, as
//! no service listens (RFC 1122 sections 3.2.2 and 3.3.1.1, RFC 4443 sections 3 and 4).

use crate::graph::{Ctx, FLAG_LOCAL, Next, Stage};
use crate::route::limit::Bucket;
use crate::route::options;
use ferrule_base::{Answer as Told, DropReason};
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::ip::Options;
use ferrule_wire::{EtherType, FromBytes, Protocol, checksum, icmpv4, icmpv6, ipv4, ipv6, ndp};

/// Echo requests that a worker answers in a second.
pub const ECHO_PER_SECOND: u64 = 20_000;
/// Echo requests that it answers at once.
pub const ECHO_BURST: u64 = 1_000;
/// TTL and hop limit of packets made here.
pub(super) const TTL: u8 = 64;

/// ICMPv4 protocol unreachable, type and code.
const PROTOCOL_UNREACHABLE: u16 = 3 << 8 | icmpv4::unreachable::PROTOCOL as u16;
/// ICMPv4 port unreachable.
const PORT_UNREACHABLE_V4: u16 = 3 << 8 | icmpv4::unreachable::PORT as u16;
/// ICMPv6 port unreachable.
const PORT_UNREACHABLE_V6: u16 = 1 << 8 | icmpv6::unreachable::PORT as u16;
/// ICMPv6 unrecognized next header.
const UNKNOWN_NEXT_HEADER: u16 = 4 << 8 | 1;
/// Offset of the next header field of a packet without extension headers.
const NEXT_HEADER_AT: u16 = 6;

/// The stage at [`Next::Local`].
pub struct Local {
    echo: Bucket,
    /// Identification of replies, which may be fragmented on their way.
    ident: u16,
}

impl Default for Local {
    fn default() -> Self {
        Self { echo: Bucket::new(ECHO_PER_SECOND, ECHO_BURST), ident: 0 }
    }
}

/// Answer to a packet.
enum Answer {
    /// The packet has become the answer.
    Reply,
    /// Its sender is told this.
    Error(u16, u16),
    /// No answer is needed.
    Consume,
}

impl Stage for Local {
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        for mut packet in batch.drain(..) {
            let answer = match EtherType(packet.meta().ethertype) {
                EtherType::IPV4 => self.local_v4(ctx, &mut packet),
                EtherType::IPV6 => self.local_v6(ctx, &mut packet),
                _ => Err(DropReason::UnknownProtocol),
            };
            match answer {
                Ok(Answer::Reply) => {
                    packet.meta_mut().flags = FLAG_LOCAL;
                    ctx.out.send(Next::Ip, packet);
                }
                Ok(Answer::Error(kind, pointer)) => {
                    let meta = packet.meta_mut();
                    (meta.icmp, meta.offset) = (kind, pointer);
                    ctx.out.send(Next::IcmpError, packet);
                }
                Ok(Answer::Consume) => ctx.consume(packet),
                Err(reason) => ctx.out.drop(packet, reason),
            }
        }
    }
}

impl Local {
    /// Counts an answer to an echo request, if there is a permit left for it.
    fn may_reply(&mut self, ctx: &mut Ctx<'_>, answer: Told) -> Result<(), DropReason> {
        let permit = self.echo.take(ctx.now);
        ctx.tally.answers.count(answer, permit);
        permit.then_some(()).ok_or(DropReason::IcmpRateLimited)
    }

    fn local_v4(&mut self, ctx: &mut Ctx<'_>, packet: &mut Packet) -> Result<Answer, DropReason> {
        let offset = usize::from(packet.meta().offset);
        let (header, _) =
            ipv4::Header::ref_from_prefix(packet.data()).map_err(|_| DropReason::Malformed)?;
        let (src, dst, tos) = (header.src, header.dst, header.tos);
        match header.protocol() {
            Protocol::ICMP => {}
            protocol if protocol.has_ports() => return Ok(Answer::Error(PORT_UNREACHABLE_V4, 0)),
            _ => return Ok(Answer::Error(PROTOCOL_UNREACHABLE, 0)),
        }
        let message = packet.data().get(offset..).unwrap_or_default();
        let (icmp, _) = icmpv4::Repr::parse(message).map_err(DropReason::from)?;
        let icmpv4::Repr::EchoRequest { .. } = icmp else { return Ok(Answer::Consume) };
        self.may_reply(ctx, Told::EchoReply4)?;
        // A header of our own: of the request's options those that want to see both ways.
        let options = match packet.data_mut().get_mut(..offset) {
            Some(header) if offset > ipv4::Header::LEN => options::echoed(header),
            _ => Options::NONE,
        };
        packet.strip(offset);
        let payload = packet.len() as u16;
        answer(packet.data_mut(), 0);
        self.ident = self.ident.wrapping_add(1);
        let mut header = ipv4::Repr::new(Protocol::ICMP, dst.into(), src.into(), payload);
        (header.ident, header.ttl, header.options) = (self.ident, TTL, options);
        header.dscp = ferrule_wire::Dscp::masked(tos >> 2);
        header.emit(packet.prepend(header.len()).ok_or(DropReason::NoRoom)?);
        Ok(Answer::Reply)
    }

    fn local_v6(&mut self, ctx: &mut Ctx<'_>, packet: &mut Packet) -> Result<Answer, DropReason> {
        let offset = usize::from(packet.meta().offset);
        let (header, _) =
            ipv6::Header::ref_from_prefix(packet.data()).map_err(|_| DropReason::Malformed)?;
        let (ends, dscp) = (header.ends(), header.dscp());
        let (src, dst) = (header.src, header.dst);
        let plain = offset == ipv6::Header::LEN;
        let message = packet.data().get(offset..).unwrap_or_default();
        match upper(packet) {
            Protocol::ICMPV6 => {}
            Protocol::NONE => return Ok(Answer::Consume),
            protocol if protocol.has_ports() => return Ok(Answer::Error(PORT_UNREACHABLE_V6, 0)),
            _ if plain => return Ok(Answer::Error(UNKNOWN_NEXT_HEADER, NEXT_HEADER_AT)),
            _ => return Err(DropReason::UnknownProtocol),
        }
        if !icmpv6::checksum_ok(&ends, message) {
            return Err(DropReason::BadChecksum);
        }
        match message.first() {
            Some(128) => {}
            // Through a tunnel, not from a neighbour.
            Some(&kind) if (ndp::FIRST..=ndp::LAST).contains(&kind) => {
                return Err(DropReason::NeighbourFromAfar);
            }
            _ => return Ok(Answer::Consume),
        }
        self.may_reply(ctx, Told::EchoReply6)?;
        packet.strip(offset);
        let payload = packet.len() as u16;
        // The pseudo header of the answer has the same sum.
        answer(packet.data_mut(), 129);
        let mut header = ipv6::Repr::new(Protocol::ICMPV6, dst.into(), src.into(), payload);
        (header.hop_limit, header.dscp) = (TTL, dscp);
        header.emit(packet.prepend(header.len()).ok_or(DropReason::NoRoom)?);
        Ok(Answer::Reply)
    }
}

/// Protocol behind the extension headers, which `Ip` walked.
fn upper(packet: &Packet) -> Protocol {
    let Ok((header, payload)) = ipv6::Header::ref_from_prefix(packet.data()) else {
        return Protocol::NONE;
    };
    ferrule_wire::ipv6ext::walk(header.next(), payload).map_or(Protocol::NONE, |u| u.protocol)
}

/// Changes the type of an echo message, and its checksum with it.
fn answer(message: &mut [u8], kind: u8) {
    let Ok((header, _)) = icmpv4::Header::mut_from_prefix(message) else { return };
    let old = u16::from_be_bytes([header.kind, header.code]);
    let new = u16::from_be_bytes([kind, header.code]);
    header.kind = kind;
    header.checksum = checksum::update(header.checksum.get(), old, new).into();
}
