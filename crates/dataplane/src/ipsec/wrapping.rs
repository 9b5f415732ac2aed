//! Sealing where an SA is more than a plain tunnel: transport mode (RFC 4303
//! section 3.1.1), ESP in UDP (RFC 3948), padding against traffic analysis
//! (RFC 4303 section 2.7), an SA around another.
//!
//! ```text
//!   tunnel     │ new IP │(UDP)│ ESP │ IV │ IP …        │(zeros)│ 1 2 3 len next │ ICV │
//!   transport  │ IP with its options     │(UDP)│ ESP │ IV │ payload │ 1 2 3 …   │ ICV │
//!              │◀─ head, moved forward ─▶│             │◀ text ─▶│
//! ```
//!
//! Two steps, so that a packet which is refused costs no number: [`Plan::of`] reads
//! and judges, [`Plan::build`] writes.

use super::config::{Encap, Hops, Mode, OutboundConfig, Tfc};
use super::outer::{Inner, Outer};
use super::state::OutboundSa;
use super::table::SaError;
use super::unwrapping::KEEPALIVE;
use crate::graph::{Ctx, FLAG_EXEMPT, FLAG_LOCAL, FLAG_MORE, Next};
use ferrule_base::{DropReason, Instant, Rng};
use ferrule_crypto::Span;
use ferrule_pipeline::Packet;
use ferrule_wire::checksum::{self, Ends};
use ferrule_wire::{Dscp, Ecn, FromBytes, Protocol, esp, ipv4, ipv6, ipv6ext, udp};

/// What an outbound SA has beyond a plain tunnel.
#[derive(Debug)]
pub(super) struct Special {
    pub mode: Mode,
    pub udp: Option<Encap>,
    pub tfc: Tfc,
    /// TTL or hop limit of the outer header; nothing: the inner packet's.
    pub hops: Option<u8>,
    pub then: Option<u32>,
    pub ends: Ends,
    /// When it sealed a packet last.
    pub last: Instant,
}

impl Special {
    /// Nothing for a plain tunnel.
    pub fn of(config: &OutboundConfig) -> Result<Option<Box<Self>>, SaError> {
        let hops = match config.outside.hops {
            Hops::Fixed(hops) => Some(hops),
            Hops::Copy => None,
        };
        let tunnel = config.mode == Mode::Tunnel && hops.is_some();
        let bare = config.encap.is_none() && config.tfc == Tfc::Off && config.then.is_none();
        if tunnel && bare && config.dummies == 0 {
            return Ok(None);
        }
        let ends = match (config.source, config.destination) {
            (std::net::IpAddr::V4(a), std::net::IpAddr::V4(b)) => Ends::V4(a, b),
            (std::net::IpAddr::V6(a), std::net::IpAddr::V6(b)) => Ends::V6(a, b),
            _ => return Err(SaError::Families),
        };
        let (mode, udp, tfc, then) = (config.mode, config.encap, config.tfc, config.then);
        let last = Instant::ZERO;
        Ok(Some(Box::new(Self { mode, udp, tfc, hops, then, ends, last })))
    }

    /// Whether sealed packets are not yet as they leave.
    fn is_unfinished(&self) -> bool {
        self.then.is_some() || (self.udp.is_some() && matches!(self.ends, Ends::V6(..)))
    }

    /// A flag for sealed packets that are not yet as they leave.
    pub fn flag(&self) -> u8 {
        if self.is_unfinished() { FLAG_MORE } else { 0 }
    }

    /// Finishes a sealed packet: over IPv6 the checksum of UDP, which must be there
    /// (RFC 8200 section 8.1); then on to the SA around this one, or out.
    #[cold]
    pub fn finish(&self, ctx: &mut Ctx<'_>, mut packet: Packet) {
        packet.meta_mut().flags &= !FLAG_MORE;
        if let (Some(_), Ends::V6(..)) = (self.udp, self.ends)
            && let Err(reason) = fill_udp(&mut packet, &self.ends)
        {
            return ctx.out.drop(packet, reason);
        }
        let Some(sa) = self.then else { return ctx.out.send(Next::Output, packet) };
        packet.meta_mut().target = sa;
        match ctx.tables.sas.outbound(sa) {
            Some(worker) if worker == ctx.worker => ctx.out.send(Next::EspOut, packet),
            Some(worker) => ctx.out.hand_off(worker, Next::EspOut, packet),
            None => ctx.out.drop(packet, DropReason::EspNoSa),
        }
    }

    /// An IP header between the ends.
    fn put_header(&self, to: &mut [u8], carried: Protocol, payload: u16) {
        match self.ends {
            Ends::V4(src, dst) => ipv4::Repr::new(carried, src, dst, payload).emit(to),
            Ends::V6(src, dst) => ipv6::Repr::new(carried, src, dst, payload).emit(to),
        }
    }

    /// Makes a keepalive (RFC 3948 section 2.3) in an empty packet.
    pub fn keepalive(&self, sa: &OutboundSa, packet: &mut Packet) -> Option<()> {
        let ports = self.udp?;
        let head = if sa.is_v4() { ipv4::Header::LEN } else { ipv6::Header::LEN };
        let datagram = udp::Header::LEN + KEEPALIVE.len();
        let room = packet.append(head + datagram)?;
        self.put_header(room, Protocol::UDP, datagram as u16);
        let payload_len = KEEPALIVE.len() as u16;
        let header = udp::Repr { src: ports.local, dst: ports.remote, payload_len };
        header.emit(room.get_mut(head..)?);
        room.get_mut(head + udp::Header::LEN..)?.copy_from_slice(&KEEPALIVE);
        let meta = packet.meta_mut();
        (meta.target, meta.ethertype) = (sa.adjacency, sa.ethertype);
        meta.flags = FLAG_LOCAL | FLAG_EXEMPT;
        Some(())
    }

    /// Whether packets keep their own headers.
    pub const fn is_transport(&self) -> bool {
        matches!(self.mode, Mode::Transport)
    }

    /// Octets of a UDP header, if there is one.
    pub const fn udp_len(&self) -> usize {
        if self.udp.is_some() { udp::Header::LEN } else { 0 }
    }
}

/// The checksum of the UDP datagram in an IPv6 packet.
fn fill_udp(packet: &mut Packet, ends: &Ends) -> Result<(), DropReason> {
    let data = packet.data_mut();
    let (header, payload) =
        ipv6::Header::ref_from_prefix(data).map_err(|_| DropReason::Malformed)?;
    let upper = ipv6ext::walk(header.next(), payload).map_err(DropReason::from)?;
    let datagram = data.get_mut(ipv6::Header::LEN + upper.offset..);
    let datagram = datagram.filter(|d| d.len() >= udp::Header::LEN).ok_or(DropReason::Malformed)?;
    udp::fill_checksum(ends, datagram);
    Ok(())
}

/// Why a packet is not sealed.
pub(super) enum Refusal {
    /// It is dropped.
    Drop(DropReason),
    /// Its sender is told this MTU.
    TooBig(Protocol, usize),
    /// It is cut first.
    Cut,
    /// It is a fragment: the whole datagram is wanted.
    Fragment,
}

impl From<DropReason> for Refusal {
    fn from(reason: DropReason) -> Self {
        Self::Drop(reason)
    }
}

/// How a packet is going to be sealed.
pub(super) struct Plan {
    /// Octets that stay in front: in transport mode the IP header with what
    /// belongs to it.
    pub head: usize,
    /// Where among them the field is that says what follows.
    pub field: usize,
    /// Octets behind them.
    pub text: usize,
    /// What these are.
    pub next: Protocol,
    /// Zeros behind them (RFC 4303 section 2.7).
    pub zeros: usize,
    /// Class, DF and hops of a new header.
    pub class: u8,
    pub df: u16,
    pub hops: u8,
    /// Sealed, it is too long for the path.
    pub long: bool,
}

impl Plan {
    /// Octets of the packet in clear.
    pub const fn clear(&self) -> usize {
        self.head + self.text
    }

    /// Reads and judges a packet; one that may be cut is never too long.
    pub fn of(
        sa: &OutboundSa,
        special: &Special,
        data: &[u8],
        may_cut: bool,
    ) -> Result<Self, Refusal> {
        match special.mode {
            Mode::Tunnel => Self::tunnel(sa, special, data, may_cut),
            Mode::Transport => Self::transport(sa, special, data, may_cut),
        }
    }

    fn tunnel(
        sa: &OutboundSa,
        special: &Special,
        data: &[u8],
        may_cut: bool,
    ) -> Result<Self, Refusal> {
        let inner = Inner::read(data).ok_or(DropReason::Malformed)?;
        let (len, mtu) = (inner.len(), usize::from(sa.path.mtu));
        let long = len > mtu;
        if long {
            sa.path.judge(inner, may_cut)?;
        }
        let df = if long { 0 } else { inner.whole & sa.df.0 | sa.df.1 };
        let hops = special.hops.unwrap_or_else(|| inner.hops(data));
        Ok(Self {
            head: 0,
            field: 0,
            text: len,
            next: inner.protocol,
            zeros: special.zeros(len, mtu.saturating_sub(len)),
            class: inner.class & sa.class.0 | sa.class.1,
            df,
            hops,
            long,
        })
    }

    /// Whole datagrams between the ends of the SA (RFC 4303 section 3.1.1); what
    /// fits is reckoned with whole blocks, so that a header with options never makes
    /// the sealed packet longer than the path allows.
    fn transport(
        sa: &OutboundSa,
        special: &Special,
        data: &[u8],
        may_cut: bool,
    ) -> Result<Self, Refusal> {
        let inner = Inner::read(data).ok_or(DropReason::Malformed)?;
        let (head, field, next, plain) = match special.ends {
            Ends::V4(..) => head_v4(special, data)?,
            Ends::V6(..) => head_v6(special, data)?,
        };
        let text = inner.len().checked_sub(head).ok_or(DropReason::Malformed)?;
        let (extra, align) = (head - plain, usize::from(sa.shape.align));
        let mtu = usize::from(sa.path.mtu).saturating_sub(extra.next_multiple_of(align) - extra);
        let long = inner.len() > mtu;
        if long
            && !may_cut
            && let Some(mtu) = inner.too_big_for(mtu)
        {
            return Err(Refusal::TooBig(inner.protocol, mtu));
        }
        // Only what says how long it is may have something behind it.
        let says = match next {
            Protocol::UDP => udp_says(data.get(head..), text),
            Protocol::IPV4 | Protocol::IPV6 => true,
            _ => false,
        };
        let room = mtu.saturating_sub(inner.len());
        let zeros = if says { special.zeros(text, room) } else { 0 };
        let (class, df, hops) = (0, 0, 0);
        Ok(Self { head, field, text, next, zeros, class, df, hops, long })
    }

    /// A dummy packet of so many octets (RFC 4303 section 2.6): in transport mode
    /// behind a header without anything.
    pub fn dummy(sa: &OutboundSa, special: &Special, text: usize) -> Self {
        let (head, field) = match (special.mode, special.ends) {
            (Mode::Tunnel, _) => (0, 0),
            (Mode::Transport, Ends::V4(..)) => (ipv4::Header::LEN, V4_PROTOCOL),
            (Mode::Transport, Ends::V6(..)) => (ipv6::Header::LEN, V6_NEXT),
        };
        let text = text.saturating_sub(head);
        let room = usize::from(sa.path.mtu).saturating_sub(head + text);
        let (zeros, next) = (special.zeros(text, room), Protocol::NONE);
        let (class, df) = (sa.class.1, sa.df.1);
        let (hops, long) = (special.hops.unwrap_or(HOPS), false);
        Self { head, field, text, next, zeros, class, df, hops, long }
    }

    /// Makes what [`dummy`](Self::dummy) is for, in an empty packet.
    pub fn fill(&self, special: &Special, packet: &mut Packet, rng: &mut Rng) -> Option<()> {
        let room = packet.append(self.clear())?;
        let (head, text) = room.split_at_mut_checked(self.head)?;
        rng.fill(text);
        if self.head != 0 {
            special.put_header(head, self.next, u16::try_from(self.text).ok()?);
        }
        Some(())
    }

    /// Puts everything around the packet. Nothing if there is no room for it.
    pub fn build(
        &self,
        sa: &OutboundSa,
        special: &Special,
        packet: &mut Packet,
        number: u64,
    ) -> Option<(Span, Span)> {
        let (iv, icv) = (usize::from(sa.shape.iv), usize::from(sa.shape.icv));
        let outer = if special.mode == Mode::Tunnel { sa.outer.len() } else { 0 };
        let trailer =
            esp::pad_len(self.text + self.zeros, sa.shape.align.into()) + esp::TRAILER_LEN;
        let front = outer + special.udp_len() + esp::Header::LEN + iv;
        let data = packet.grow(front, self.zeros + trailer + icv)?;
        let len = data.len();
        data.get(..front + self.head)?;
        data.copy_within(front..front + self.head, 0);
        let behind = front + self.head + self.text;
        data.get_mut(behind..behind + self.zeros)?.fill(0);
        let end = behind + self.zeros + trailer;
        esp::emit_trailer(data.get_mut(behind + self.zeros..end)?, self.next);
        let carried = if special.udp.is_some() { Protocol::UDP } else { Protocol::ESP };
        match special.mode {
            Mode::Tunnel => self.put_outer(sa, special, data, carried, number)?,
            Mode::Transport => {
                self.patch(data, carried, len)?;
                if self.long {
                    clear_df(data);
                }
            }
        }
        let mut at = outer + self.head;
        if let Some(ports) = special.udp {
            // No checksum (RFC 3948 section 2.1); over IPv6 it comes once all is sealed.
            let payload_len = u16::try_from(len - at - udp::Header::LEN).ok()?;
            let header = udp::Repr { src: ports.local, dst: ports.remote, payload_len };
            header.emit(data.get_mut(at..at + udp::Header::LEN)?);
            at += udp::Header::LEN;
        }
        let header = esp::Repr { spi: sa.spi, seq: number as u32 };
        header.emit(data.get_mut(at..at + esp::Header::LEN)?);
        if iv != 0 {
            let room = data.get_mut(at + esp::Header::LEN..)?;
            *room.first_chunk_mut()? = number.to_be_bytes();
        }
        Some(sa.shape.spans(at, end - at - esp::Header::LEN))
    }

    /// The new IP header of a tunnel.
    fn put_outer(
        &self,
        sa: &OutboundSa,
        special: &Special,
        data: &mut [u8],
        carried: Protocol,
        number: u64,
    ) -> Option<()> {
        let payload = u16::try_from(data.len() - sa.outer.len()).ok()?;
        let (dscp, ecn) = (Dscp::masked(self.class >> 2), Ecn::from_bits(self.class));
        match special.ends {
            Ends::V4(src, dst) => {
                let mut header = ipv4::Repr::new(carried, src, dst, payload);
                (header.dscp, header.ecn, header.ttl) = (dscp, ecn, self.hops);
                header.ident = super::outer::ident(number, sa.spi);
                header.dont_fragment = self.df != 0;
                payload.checked_add(ipv4::Header::LEN as u16)?;
                header.emit(data);
            }
            Ends::V6(src, dst) => {
                let mut header = ipv6::Repr::new(carried, src, dst, payload);
                (header.dscp, header.ecn, header.hop_limit) = (dscp, ecn, self.hops);
                header.emit(data);
            }
        }
        Some(())
    }

    /// The packet's own header says what follows it now, and how much.
    fn patch(&self, data: &mut [u8], carried: Protocol, len: usize) -> Option<()> {
        patch(data, self.field, carried, u16::try_from(len).ok()?)
    }
}

/// Where an IPv4 header has its protocol.
pub(super) const V4_PROTOCOL: usize = 9;
/// Where an IPv6 header has its next header.
pub(super) const V6_NEXT: usize = 6;
/// Hops of a dummy where the others have those of the inner packets.
const HOPS: u8 = 64;

/// Sets protocol and length of the IP packet in `data`, which has `len` octets; what
/// it carries is named at `field`.
pub(super) fn patch(data: &mut [u8], field: usize, carried: Protocol, len: u16) -> Option<()> {
    if data.first()? >> 4 == 4 {
        let (h, _) = ipv4::Header::mut_from_prefix(data).ok()?;
        let was = u16::from_be_bytes([h.ttl, h.protocol]);
        let now = u16::from_be_bytes([h.ttl, carried.0]);
        let sum = checksum::update(h.checksum.get(), was, now);
        let sum = checksum::update(sum, h.total_len.get(), len);
        (h.protocol, h.total_len, h.checksum) = (carried.0, len.into(), sum.into());
        return Some(());
    }
    *data.get_mut(field)? = carried.0;
    let (h, _) = ipv6::Header::mut_from_prefix(data).ok()?;
    h.payload_len = len.checked_sub(ipv6::Header::LEN as u16)?.into();
    Some(())
}

/// Takes the DF bit out of the IP header at the front of `data`: a packet that is
/// sealed longer than its path allows has to be cut.
pub(super) fn clear_df(data: &mut [u8]) {
    if data.first().is_some_and(|first| first >> 4 == 4)
        && let Ok((h, _)) = ipv4::Header::mut_from_prefix(data)
    {
        let was = h.fragment.get();
        let now = was & !ipv4::DONT_FRAGMENT;
        let sum = checksum::update(h.checksum.get(), was, now);
        (h.fragment, h.checksum) = (now.into(), sum.into());
    }
}

/// Octets that stay in front, the field that names what follows, what that is, and
/// octets of a header without options.
type Head = (usize, usize, Protocol, usize);

fn head_v4(special: &Special, data: &[u8]) -> Result<Head, Refusal> {
    let (h, _) = ipv4::Header::ref_from_prefix(data).map_err(|_| DropReason::Malformed)?;
    let head = h.header_len();
    if h.version_ihl >> 4 != 4 || head < ipv4::Header::LEN {
        return Err(DropReason::Malformed.into());
    }
    if h.ends() != special.ends {
        return Err(DropReason::EspSelectorMismatch.into());
    }
    if h.is_fragment() {
        return Err(Refusal::Fragment);
    }
    Ok((head, V4_PROTOCOL, h.protocol(), ipv4::Header::LEN))
}

fn head_v6(special: &Special, data: &[u8]) -> Result<Head, Refusal> {
    let (h, payload) = ipv6::Header::ref_from_prefix(data).map_err(|_| DropReason::Malformed)?;
    if h.version_class_flow.get() >> 28 != 6 || h.ends() != special.ends {
        return Err(DropReason::EspSelectorMismatch.into());
    }
    let front = ipv6ext::front(h.next(), payload).map_err(DropReason::from)?;
    if front.is_fragment {
        return Err(Refusal::Fragment);
    }
    Ok((ipv6::Header::LEN + front.len, front.field, front.next, ipv6::Header::LEN))
}

/// Whether a UDP header says that its datagram has so many octets.
fn udp_says(datagram: Option<&[u8]>, len: usize) -> bool {
    let header = datagram.and_then(|d| udp::Header::ref_from_prefix(d).ok());
    header.is_some_and(|(h, _)| usize::from(h.len.get()) == len)
}

impl Special {
    /// Zeros behind `len` octets, at most `room`.
    fn zeros(&self, len: usize, room: usize) -> usize {
        match self.tfc {
            Tfc::Off => 0,
            Tfc::Multiple(of) => (len.next_multiple_of(usize::from(of).max(1)) - len).min(room),
            Tfc::Whole => room,
        }
    }
}

impl OutboundSa {
    /// Whether its packets are IPv4 outside.
    pub(super) const fn is_v4(&self) -> bool {
        matches!(self.outer, Outer::V4(_))
    }
}
