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
//! A packet is read and judged before it is changed, so that one which is refused costs
//! no number.

use super::config::{Encap, Hops, Mode, OutboundConfig, Tfc};
use super::outer::Inner;
use super::state::OutboundSa;
use super::unwrapping::KEEPALIVE;
use crate::protection::table::SaError;
use ferrule_base::{DropReason, Instant, Rng};
use ferrule_pipeline::Packet;
use ferrule_wire::checksum::{self, Ends};
use ferrule_wire::{FromBytes, Protocol, ipv4, ipv6, ipv6ext, udp};

/// Features of an outbound SA beyond a plain tunnel.
#[derive(Debug)]
pub(super) struct Special {
    pub mode: Mode,
    pub udp: Option<Encap>,
    pub tfc: Tfc,
    pub ends: Ends,
    /// When it sealed a packet last.
    pub last: Instant,
}

impl Special {
    /// Nothing for a plain tunnel.
    pub fn of(config: &OutboundConfig) -> Result<Option<Box<Self>>, SaError> {
        let tunnel = config.mode == Mode::Tunnel && config.outside.hops != Hops::Copy;
        let bare = config.encap.is_none() && config.tfc == Tfc::Off;
        if tunnel && bare && config.dummies == 0 {
            return Ok(None);
        }
        let ends = match (config.source, config.destination) {
            (std::net::IpAddr::V4(a), std::net::IpAddr::V4(b)) => Ends::V4(a, b),
            (std::net::IpAddr::V6(a), std::net::IpAddr::V6(b)) => Ends::V6(a, b),
            _ => return Err(SaError::Families),
        };
        let (mode, udp, tfc) = (config.mode, config.encap, config.tfc);
        Ok(Some(Box::new(Self { mode, udp, tfc, ends, last: Instant::ZERO })))
    }

    /// An IP header between the ends.
    fn put_header(&self, to: &mut [u8], carried: Protocol, payload: u16) {
        match self.ends {
            Ends::V4(src, dst) => ipv4::Repr::new(carried, src, dst, payload).emit(to),
            Ends::V6(src, dst) => ipv6::Repr::new(carried, src, dst, payload).emit(to),
        }
    }

    /// Makes a keepalive (RFC 3948 section 2.3) in an empty packet.
    pub fn keepalive(&self, packet: &mut Packet) -> Option<()> {
        let ports = self.udp?;
        let head = self.header_len();
        let datagram = udp::Header::LEN + KEEPALIVE.len();
        let room = packet.append(head + datagram)?;
        self.put_header(room, Protocol::UDP, datagram as u16);
        let payload_len = KEEPALIVE.len() as u16;
        let header = udp::Repr { src: ports.local, dst: ports.remote, payload_len };
        header.emit(room.get_mut(head..)?);
        room.get_mut(head + udp::Header::LEN..)?.copy_from_slice(&KEEPALIVE);
        Some(())
    }

    /// Octets of an IP header between the ends, without options.
    const fn header_len(&self) -> usize {
        match self.ends {
            Ends::V4(..) => ipv4::Header::LEN,
            Ends::V6(..) => ipv6::Header::LEN,
        }
    }
}

/// The checksum of the UDP datagram in an IPv6 packet, which must be there (RFC 8200
/// section 8.1).
pub(super) fn fill_udp(packet: &mut Packet) -> Result<(), DropReason> {
    let data = packet.data_mut();
    let (header, payload) =
        ipv6::Header::ref_from_prefix(data).map_err(|_| DropReason::Malformed)?;
    let upper = ipv6ext::walk(header.next(), payload).map_err(DropReason::from)?;
    let ends = header.ends();
    let datagram = data.get_mut(ipv6::Header::LEN + upper.offset..);
    let datagram = datagram.filter(|d| d.len() >= udp::Header::LEN).ok_or(DropReason::Malformed)?;
    udp::fill_checksum(&ends, datagram);
    Ok(())
}

/// Why a packet is not sealed.
pub(crate) enum Refusal {
    /// The packet is dropped, for this reason.
    Drop(DropReason),
    /// The packet is too big; its sender is told this MTU.
    TooBig(Protocol, u16),
    /// The packet has to be fragmented first.
    Cut,
    /// The packet is a fragment, and the SA takes whole datagrams only.
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
    /// Protocol of these octets.
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
    pub fn of(sa: &OutboundSa, data: &[u8], may_cut: bool) -> Result<Self, Refusal> {
        match sa.special.as_deref() {
            Some(special) if special.mode == Mode::Transport => {
                Self::transport(sa, special, data, may_cut)
            }
            special => Self::tunnel(sa, special, data, may_cut),
        }
    }

    fn tunnel(
        sa: &OutboundSa,
        special: Option<&Special>,
        data: &[u8],
        may_cut: bool,
    ) -> Result<Self, Refusal> {
        let inner = Inner::read(data).ok_or(DropReason::Malformed)?;
        let (len, mtu) = (inner.len(), usize::from(sa.base.path.mtu));
        let long = len > mtu;
        if long {
            sa.base.path.judge(inner, may_cut)?;
        }
        let zeros = special.map_or(0, |special| special.zeros(len, mtu.saturating_sub(len)));
        Ok(Self {
            head: 0,
            field: 0,
            text: len,
            next: inner.protocol,
            zeros,
            class: sa.base.class_of(inner),
            df: if long { 0 } else { sa.base.df_of(inner) },
            hops: sa.base.hops.unwrap_or_else(|| inner.hops(data)),
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
        let mtu =
            usize::from(sa.base.path.mtu).saturating_sub(extra.next_multiple_of(align) - extra);
        let long = inner.len() > mtu;
        if long
            && !may_cut
            && let Some(mtu) = inner.too_big_for(mtu)
        {
            return Err(Refusal::TooBig(inner.protocol, mtu as u16));
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
        let room = usize::from(sa.base.path.mtu).saturating_sub(head + text);
        let (zeros, next) = (special.zeros(text, room), Protocol::NONE);
        let (class, df) = (sa.base.class.1, sa.base.df.1);
        let (hops, long) = (sa.base.hops.unwrap_or(HOPS), false);
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

/// True if the UDP header gives its datagram a length of `len` octets.
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
