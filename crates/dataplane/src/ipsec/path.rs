//! The path MTU of outbound SAs: learned from ICMP errors about sealed packets, and
//! forgotten again (RFC 4301 section 8.2, RFC 1191, RFC 8201).
//!
//! ```text
//!   ICMP 3/4 or ICMPv6 2 for us ─▶ quote: our ESP or AH?  SPI, both addresses,
//!                                  │      a number sent lately, longer than said
//!                                  ├─ no ──▶ `icmp-forged`
//!                                  └─ yes ─▶ the SA's MTU shrinks ─ 10 min ─▶ as before
//!   later: a clear packet that does not fit ─▶ its sender is told, or it is cut
//! ```
//!
//! Whoever can see the packets of an SA can also forge such an error; who cannot has
//! to guess SPI and number. What is believed is bounded from below all the same
//! ([`PATH4_MIN`]; less than [`PATH6_MIN`] is not believed), and an SA may be told to
//! believe nothing. Errors are
//! not rationed: one costs a sum over its octets and a search, makes nothing grow, and
//! a ration would be spent by forgeries before the true one comes.
//!
//! A clear packet that fits no more and must not be fragmented is refused, with the
//! MTU that is left for it. One that may be is cut *before* it is sealed, each piece
//! sealed by itself (IPv4, `fragment = "before"`), or sealed whole and cut
//! *afterwards*, for the other end to put together (the default, and all that
//! transport mode may do: RFC 4301 section 7). So is what this node made itself,
//! such as the packets of an SA within another.

use super::ah::AhOut;
use super::config::{Fragment, Mode, OutboundConfig, SaProtocol};
use super::egress::EspOut;
use super::outer::Inner;
use super::spd::directory::OutboundPlace;
use super::state::Inbound;
use super::wrapping::Refusal;
use crate::graph::{Ctx, FLAG_CUT, Next};
use crate::tables::Tables;
use ferrule_base::{DropReason, Duration, Instant};
use ferrule_pipeline::{Batch, Meta, Packet};
use ferrule_wire::{EtherType, FromBytes, Protocol, esp, icmpv4, icmpv6, ipv4, ipv6, ipv6ext, udp};
use std::net::IpAddr;

/// How long a learned MTU is believed (RFC 1191 section 6.3, RFC 8201 section 4).
pub const PATH_AGE: Duration = Duration::from_secs(600);

/// No smaller path is believed of IPv4: hosts that hear of one stop setting DF.
pub const PATH4_MIN: usize = 552;
/// No IPv6 path is narrower (RFC 8200 section 5).
pub const PATH6_MIN: usize = 1280;

/// An error may be about one of so many packets that an SA sent last.
pub const RECENT: u32 = 1 << 22;

/// Where a router that says no MTU may have one (RFC 1191 section 7.1).
const PLATEAUS: [usize; 8] = [32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, PATH4_MIN];

/// Path MTU state of an outbound SA, of ESP or AH.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Path {
    /// The largest clear packet: as configured, or as was learned.
    pub mtu: u16,
    /// As configured.
    most: u16,
    /// Errors are believed.
    learns: bool,
    /// Packets that may be fragmented are fragmented before they are sealed.
    cuts: bool,
    /// Largest sealed packet, and since when.
    learned: Option<(u16, Instant)>,
}

impl Path {
    pub fn new(config: &OutboundConfig) -> Self {
        let &OutboundConfig { mtu, learns, mode, .. } = config;
        // Transport mode is for whole datagrams.
        let cuts = config.fragment == Fragment::Before && mode == Mode::Tunnel;
        Self { mtu, most: mtu, learns, cuts, learned: None }
    }

    /// Verdict on a packet that may be longer than the path allows. One that must not be
    /// fragmented is refused, unless `may_cut`; one of IPv4 may be fragmented first; any
    /// other is sealed whole, and the sealed packet fragmented.
    pub fn judge(&self, inner: Inner, may_cut: bool) -> Result<(), Refusal> {
        if let Some(mtu) = inner.too_big_for(self.mtu.into()).filter(|_| !may_cut) {
            return Err(Refusal::TooBig(inner.protocol, mtu as u16));
        }
        let first = self.cuts && inner.protocol == Protocol::IPV4 && inner.whole == 0;
        if first { Err(Refusal::Cut) } else { Ok(()) }
    }

    /// Takes in that the path carries sealed packets of `path` octets, so clear ones of `fits`
    /// octets: if ICMP errors are believed and the path was not known to be as narrow. True if
    /// the caller has to start a timer, by which the MTU is forgotten.
    pub fn hear(&mut self, path: usize, fits: u16, now: Instant) -> bool {
        let known = self.learned().unwrap_or(usize::MAX);
        let told = self.learns && path < known && fits < self.most;
        if told {
            self.mtu = fits;
        }
        told && self.learn(path, now)
    }

    /// The largest sealed packet, if it was learned.
    pub fn learned(&self) -> Option<usize> {
        self.learned.map(|(mtu, _)| mtu.into())
    }

    /// Where it is known to be narrower than the link, a sealed packet that is too long
    /// for it is cut on its way out.
    pub fn mark(&self, meta: &mut Meta) {
        if let Some(path) = self.learned() {
            meta.flags |= FLAG_CUT;
            meta.limit = path as u16;
        }
    }

    /// Notes a narrower path; whether nothing was known before.
    fn learn(&mut self, mtu: usize, now: Instant) -> bool {
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        self.learned.replace((mtu, now)).is_none()
    }

    /// Forgets what is too old. What is not: when it will be.
    pub fn age(&mut self, now: Instant) -> Option<Instant> {
        let due = self.learned.map(|(_, since)| since + PATH_AGE)?;
        if due <= now {
            (self.learned, self.mtu) = (None, self.most);
        }
        (due > now).then_some(due)
    }
}

/// Sealed packet that an ICMP error quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quote {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// Protocol that sealed the packet.
    pub by: SaProtocol,
    pub spi: u32,
    pub number: u32,
    /// Octets of the packet.
    pub len: usize,
    /// MTU that the router reports; zero where the router gives none.
    pub mtu: usize,
}

/// Meaning of a message that a packet was too big.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Sealed(Quote),
    /// About a packet that no SA can have sent.
    Other,
}

impl Quote {
    /// Reads a message whose ICMP header is at `at`.
    fn read(packet: &Packet, at: usize) -> Result<Heard, DropReason> {
        let data = packet.data();
        let message = data.get(at..).unwrap_or_default();
        if packet.meta().ethertype == EtherType::IPV4.0 {
            let (repr, quoted) = icmpv4::Repr::parse(message).map_err(DropReason::from)?;
            let icmpv4::Repr::Unreachable { code: icmpv4::unreachable::TOO_BIG, mtu, .. } = repr
            else {
                return Ok(Heard::Other);
            };
            return Ok(Self::v4(quoted, mtu.into()).map_or(Heard::Other, Heard::Sealed));
        }
        let (h, _) = ipv6::Header::ref_from_prefix(data).map_err(|_| DropReason::Malformed)?;
        if !icmpv6::checksum_ok(&h.ends(), message) {
            return Err(DropReason::BadChecksum);
        }
        let (repr, quoted) = icmpv6::Repr::parse(message).map_err(DropReason::from)?;
        let icmpv6::Repr::TooBig { mtu } = repr else { return Ok(Heard::Other) };
        Ok(Self::v6(quoted, mtu as usize).map_or(Heard::Other, Heard::Sealed))
    }

    fn v4(quoted: &[u8], mtu: usize) -> Option<Self> {
        let (h, _) = ipv4::Header::ref_from_prefix(quoted).ok()?;
        if h.version_ihl >> 4 != 4 || h.fragment.get() & 0x1fff != 0 {
            return None;
        }
        let (by, spi, number) = sealed(h.protocol(), quoted.get(h.header_len()..)?)?;
        let (source, destination) = (IpAddr::V4(h.src.into()), IpAddr::V4(h.dst.into()));
        Some(Self { source, destination, by, spi, number, len: h.total_len.get().into(), mtu })
    }

    fn v6(quoted: &[u8], mtu: usize) -> Option<Self> {
        let (h, payload) = ipv6::Header::ref_from_prefix(quoted).ok()?;
        let upper = ipv6ext::walk(h.next(), payload).ok()?;
        if h.version_class_flow.get() >> 28 != 6 || upper.fragment.is_some_and(|f| f.offset != 0) {
            return None;
        }
        let (by, spi, number) = sealed(upper.protocol, payload.get(upper.offset..)?)?;
        let (source, destination) = (IpAddr::V6(h.src.into()), IpAddr::V6(h.dst.into()));
        let len = ipv6::Header::LEN + usize::from(h.payload_len.get());
        Some(Self { source, destination, by, spi, number, len, mtu })
    }

    /// The outbound SA of this SPI to this end, if it is of this protocol.
    fn sa(&self, tables: &Tables) -> Option<OutboundPlace> {
        let found = tables.sas.path(self.spi, self.destination);
        found.filter(|place| place.protocol == self.by)
    }

    /// Path MTU that is reported, as far as it is believed; nothing where the message
    /// contradicts itself (what it calls too big would have fitted), or the standard.
    pub fn path(&self) -> Option<usize> {
        if self.source.is_ipv6() {
            // No IPv6 path is narrower (RFC 8201 section 4).
            return (PATH6_MIN..self.len).contains(&self.mtu).then_some(self.mtu);
        }
        let mtu = match self.mtu {
            0 => PLATEAUS.into_iter().find(|&mtu| mtu < self.len).unwrap_or(PATH4_MIN),
            mtu => mtu,
        };
        (mtu < self.len).then_some(mtu.max(PATH4_MIN))
    }
}

/// SPI and number in front of a sealed payload, in UDP too.
fn sealed(protocol: Protocol, payload: &[u8]) -> Option<(SaProtocol, u32, u32)> {
    let (by, payload) = match protocol {
        Protocol::ESP => (SaProtocol::Esp, payload),
        // Next header, length, reserved (RFC 4302 section 2).
        Protocol::AH => (SaProtocol::Ah, payload.get(4..)?),
        Protocol::UDP => (SaProtocol::Esp, payload.get(udp::Header::LEN..)?),
        _ => return None,
    };
    let (header, _) = esp::Header::ref_from_prefix(payload).ok()?;
    // In UDP, four zeros are no SPI.
    (header.spi.get() != 0).then(|| (by, header.spi.get(), header.seq.get()))
}

/// True if the message with its ICMP header at `at` may be about a packet that was sealed
/// here. A host that the node guards also sends in clear and handles errors about that
/// itself, so for such a host only packets of its SAs count.
pub fn is_path_error(tables: &Tables, data: &[u8], at: usize, guarded: bool) -> bool {
    let v4 = data.first().is_some_and(|b| b >> 4 == 4);
    let message = data.get(at..).unwrap_or_default();
    let quoted = message.get(icmpv4::Header::LEN..).unwrap_or_default();
    let quote = match (v4, message.first_chunk()) {
        (true, Some([3, icmpv4::unreachable::TOO_BIG])) => Quote::v4(quoted, 0),
        (false, Some([2, _])) => Quote::v6(quoted, 0),
        _ => None,
    };
    quote.is_some_and(|quote| !guarded || quote.sa(tables).is_some())
}

/// The stage at [`Next::PathError`].
#[derive(Default)]
pub struct PathErrors {}

impl PathErrors {
    /// For each message:
    ///
    /// 1. its checksum is right, and it quotes a sealed packet;
    /// 2. there is such an SA: at its worker;
    /// 3. the SA sent that packet, lately: what it knows of its path changes. One that every
    ///    worker has hears of it in each, one after the other.
    pub fn push(&mut self, ctx: &mut Ctx<'_>, esp: &mut EspOut, ah: &mut AhOut, batch: &mut Batch) {
        for mut packet in batch.drain(..) {
            match hear(ctx, esp, ah, &mut packet) {
                Ok(None) => ctx.consume(packet),
                Ok(Some(worker)) => ctx.out.hand_off(worker, Next::PathError, packet),
                Err(reason) => ctx.out.drop(packet, reason),
            }
        }
    }
}

/// The worker that has to hear it; nothing: it is done.
fn hear(
    ctx: &Ctx<'_>,
    esp: &mut EspOut,
    ah: &mut AhOut,
    packet: &mut Packet,
) -> Result<Option<u8>, DropReason> {
    // 1
    let quote = match Quote::read(packet, packet.meta().offset.into())? {
        Heard::Sealed(quote) => quote,
        Heard::Other => return Ok(None),
    };
    // 2
    let OutboundPlace { index, worker, everywhere, .. } =
        quote.sa(ctx.tables).ok_or(DropReason::IcmpForged)?;
    let believed = packet.meta().limit != 0;
    if worker != ctx.worker && !(everywhere && believed) {
        return Ok(Some(worker));
    }
    // 3
    let heard = match quote.by {
        SaProtocol::Esp => esp.hear(index, &quote, ctx.now),
        SaProtocol::Ah => ah.hear(index, &quote, ctx.now),
    };
    if !heard {
        return Err(DropReason::IcmpForged);
    }
    packet.meta_mut().limit = quote.mtu.clamp(1, usize::from(u16::MAX)) as u16;
    let next = (ctx.worker + 1) % ctx.tables.workers.max(1);
    Ok((everywhere && next != worker).then_some(next))
}

/// True if `number` is one of the [`RECENT`] before `next`, the next one to be sent.
pub(super) fn is_recent(number: u32, next: u64) -> bool {
    let back = (next as u32).wrapping_sub(number);
    back != 0 && u64::from(back) < next && back <= RECENT
}

/// Packet that an ICMP error in a clear packet quotes; nothing if the packet is no error.
pub(super) fn quoted(clear: &[u8]) -> Option<&[u8]> {
    let (at, error) = if clear.first()? >> 4 == 4 {
        let (h, _) = ipv4::Header::ref_from_prefix(clear).ok()?;
        let first = h.protocol() == Protocol::ICMP && h.fragment.get() & 0x1fff == 0;
        let at = h.header_len();
        (at, first && matches!(clear.get(at)?, 3 | 4 | 5 | 11 | 12))
    } else {
        let (h, payload) = ipv6::Header::ref_from_prefix(clear).ok()?;
        let upper = ipv6ext::walk(h.next(), payload).ok()?;
        let later = upper.fragment.is_some_and(|f| f.offset != 0);
        let at = ipv6::Header::LEN + upper.offset;
        // Errors have numbers below 128 (RFC 4443 section 2.1).
        (at, upper.protocol == Protocol::ICMPV6 && !later && *clear.get(at)? < 128)
    };
    error.then(|| clear.get(at + icmpv4::Header::LEN..).unwrap_or_default())
}

impl Inbound {
    /// Checks a clear packet that came out of this SA. An ICMP error is admitted only if the
    /// packet that it quotes could have gone into the SA the other way: it may not concern
    /// traffic of another SA (RFC 4301 section 6.2). All other packets are admitted.
    #[inline(never)]
    pub(super) fn admits_error(&self, clear: &[u8]) -> Result<(), DropReason> {
        match quoted(clear) {
            Some(packet) if !self.selectors.have_outbound(packet) => Err(DropReason::IcmpForged),
            _ => Ok(()),
        }
    }
}
