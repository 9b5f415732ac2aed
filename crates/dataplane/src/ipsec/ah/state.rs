//! One AH SA: what its packets need, ready to use.

use crate::Sequence;
use crate::ipsec::config::{Df, Hops, InboundConfig, Mode, OutboundConfig};
use crate::ipsec::path::{Path, Quote, is_recent};
use crate::ipsec::replay::Window;
use crate::ipsec::spd::Rules;
use crate::ipsec::state::{Ends, SaStats, class, salt, spi};
use crate::ipsec::table::SaError;
use ferrule_base::{Instant, VrfId};
use ferrule_crypto::{Ad, KeyId, Span, Suite};
use ferrule_wire::{EtherType, IntoBytes, Protocol, ah, checksum, ipv4, ipv6};
use std::net::IpAddr;

/// The sizes of a suite in AH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Octets of IV in front of the ICV: GMAC's (RFC 4543 section 5).
    pub iv: u8,
    pub icv: u8,
    /// What the header is padded to over IPv4.
    pub align4: u8,
    pub esn: bool,
}

impl Shape {
    fn new(suite: Suite, esn: bool, align4: u8) -> Result<Self, SaError> {
        if !suite.is_integrity() {
            return Err(SaError::NoIntegrityAlone(suite));
        }
        Ok(Self { iv: suite.esp_iv_len() as u8, icv: suite.icv_len() as u8, align4, esn })
    }

    /// Octets of the whole header.
    pub fn header_len(&self, v6: bool) -> usize {
        ah::padded_len(self.field(), if v6 { 8 } else { self.align4.into() })
    }

    /// Whether a header of `len` octets can be of this suite. Over IPv4 padding to
    /// four octets and to eight are both about: it is under the ICV, so either may come.
    pub fn may_be(&self, len: usize, v6: bool) -> bool {
        let padded = |align| ah::padded_len(self.field(), align) == len;
        padded(8) || !v6 && padded(4)
    }

    /// Where in the header the ICV itself begins.
    pub const fn icv_at(&self) -> usize {
        ah::Header::LEN + self.iv as usize
    }

    /// IV and ICV.
    const fn field(&self) -> usize {
        self.iv as usize + self.icv as usize
    }

    /// What is under the ICV: the packet, and the high half of an extended number
    /// behind it (RFC 4302 section 2.5.1).
    pub fn ad(&self, packet: Span, number: u64) -> Ad {
        match self.esn {
            true => Ad::SpanThen(packet, ((number >> 32) as u32).to_be_bytes()),
            false => Ad::Span(packet),
        }
    }
}

/// What changes in an outer header with each packet.
#[derive(Clone, Copy)]
pub(super) struct Varying {
    pub class: u8,
    pub ident: u16,
    pub df: u16,
    pub hops: u8,
}

/// The outer header of tunnel mode but for what changes with each packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outer {
    V4(ipv4::Header),
    V6(ipv6::Header),
}

impl Outer {
    fn new(source: IpAddr, destination: IpAddr) -> Result<Self, SaError> {
        match (source, destination) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Ok(Self::V4(ipv4::Header {
                version_ihl: 0x45,
                tos: 0,
                total_len: 0.into(),
                ident: 0.into(),
                fragment: 0.into(),
                ttl: 0,
                protocol: Protocol::AH.0,
                checksum: 0.into(),
                src: src.octets(),
                dst: dst.octets(),
            })),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Ok(Self::V6(ipv6::Header {
                version_class_flow: (6 << 28).into(),
                payload_len: 0.into(),
                next: Protocol::AH.0,
                hop_limit: 0,
                src: src.octets(),
                dst: dst.octets(),
            })),
            _ => Err(SaError::Families),
        }
    }

    pub const fn is_v6(&self) -> bool {
        matches!(self, Self::V6(_))
    }

    /// Writes it to the front of `room` for a packet of `len` octets in all.
    pub fn emit(&self, room: &mut [u8], len: usize, varying: Varying) -> Option<()> {
        let Varying { class, ident, df, hops } = varying;
        match self {
            Self::V4(h) => {
                let (total_len, tos) = (u16::try_from(len).ok()?.into(), class);
                let (ident, fragment) = (ident.into(), df.into());
                let h = ipv4::Header { total_len, tos, ident, fragment, ttl: hops, ..*h };
                room.get_mut(..ipv4::Header::LEN)?.copy_from_slice(h.as_bytes());
                ipv4::fill_checksum(room);
            }
            Self::V6(h) => {
                let payload_len = u16::try_from(len.checked_sub(ipv6::Header::LEN)?).ok()?.into();
                let version_class_flow = (6 << 28 | u32::from(class) << 20).into();
                let h = ipv6::Header { version_class_flow, payload_len, hop_limit: hops, ..*h };
                room.get_mut(..ipv6::Header::LEN)?.copy_from_slice(h.as_bytes());
            }
        }
        Some(())
    }
}

/// An outbound SA. It owns the only source of its numbers, and so cannot be cloned.
#[derive(Debug)]
pub struct AhOutSa {
    pub(super) sequence: Sequence,
    pub(super) key: KeyId,
    pub(super) spi: u32,
    pub(super) salt: [u8; 4],
    pub(super) suite: Suite,
    pub(super) shape: Shape,
    pub(super) adjacency: u32,
    pub(super) path: Path,
    /// TCP's segments are held to the MTU.
    pub(super) clamps: bool,
    /// Both ends, as they are in the header when it arrives.
    pub(super) ends: checksum::Ends,
    /// The outer header; nothing: transport mode.
    pub(super) outer: Option<Outer>,
    /// The outer DF bit: the inner one under the first mask, or the second.
    pub(super) df: (u16, u16),
    /// The outer class: the inner one under the first mask, or the second.
    pub(super) class: (u8, u8),
    /// The outer TTL or hop limit; nothing: as inside.
    pub(super) hops: Option<u8>,
    /// The SA that protects it again.
    pub(super) then: Option<u32>,
    pub(super) stats: SaStats,
    pub(super) name: Box<str>,
}

impl AhOutSa {
    /// Checks a configuration and prepares what it says; `key` is not yet set.
    pub fn new(config: &OutboundConfig, sequence: Sequence) -> Result<Self, SaError> {
        let suite = config.keys.suite;
        if !config.esn && sequence.max() > u32::MAX.into() {
            return Err(SaError::Numbers);
        }
        let ends = match (config.source, config.destination) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => checksum::Ends::V4(src, dst),
            (IpAddr::V6(src), IpAddr::V6(dst)) => checksum::Ends::V6(src, dst),
            _ => return Err(SaError::Families),
        };
        let outer = match config.mode {
            Mode::Tunnel => Some(Outer::new(config.source, config.destination)?),
            Mode::Transport => None,
        };
        Ok(Self {
            sequence,
            key: KeyId::default(),
            spi: spi(config.spi)?,
            salt: salt(suite, &config.salt)?,
            suite,
            shape: Shape::new(suite, config.esn, config.ah_align)?,
            adjacency: config.adjacency,
            path: Path::new(config),
            clamps: config.clamp,
            ends,
            outer,
            df: match config.outside.df {
                Df::Copy => (ipv4::DONT_FRAGMENT, 0),
                Df::Set => (0, ipv4::DONT_FRAGMENT),
                Df::Clear => (0, 0),
            },
            class: class(&config.outside),
            hops: match config.outside.hops {
                Hops::Fixed(hops) => Some(hops),
                Hops::Copy => None,
            },
            then: config.then,
            stats: SaStats::default(),
            name: config.name.clone(),
        })
    }
}

impl AhOutSa {
    /// The largest clear packet that is at most `path` octets once AH is in it.
    fn fits(&self, path: usize) -> u16 {
        let v6 = matches!(self.ends, checksum::Ends::V6(..));
        let outer = match &self.outer {
            Some(Outer::V4(_)) => ipv4::Header::LEN,
            Some(Outer::V6(_)) => ipv6::Header::LEN,
            None => 0,
        };
        path.saturating_sub(outer + self.shape.header_len(v6)) as u16
    }

    /// Takes in what a quote of one of its packets says, and whether there is something
    /// to forget from now on; nothing if it is no such quote.
    pub(super) fn hear(&mut self, quote: &Quote, now: Instant) -> Option<bool> {
        let ours = match (self.ends, quote.source) {
            (checksum::Ends::V4(own, _), IpAddr::V4(source)) => own == source,
            (checksum::Ends::V6(own, _), IpAddr::V6(source)) => own == source,
            _ => false,
        };
        if !ours || !is_recent(quote.number, self.sequence.peek()) {
            return None;
        }
        let path = quote.path()?;
        let fits = self.fits(path);
        Some(self.path.hear(path, fits, now))
    }
}

/// An inbound SA.
pub struct AhInSa {
    pub(super) key: KeyId,
    pub(super) spi: u32,
    pub(super) salt: [u8; 4],
    pub(super) suite: Suite,
    pub(super) shape: Shape,
    pub(super) tunnel: bool,
    /// The inbound SAs out of one of which its packets must have come.
    pub(super) inside: Box<[u32]>,
    pub(super) record: [u8; 16],
    /// TCP's segments are held to what fits so many octets.
    pub(super) clamp: Option<u16>,
    pub(super) vrf: VrfId,
    pub(super) ends: Ends,
    pub(super) window: Window,
    pub(super) selectors: Rules<()>,
    pub(super) stats: SaStats,
    pub(super) name: Box<str>,
}

impl AhInSa {
    /// Checks a configuration and prepares what it says; `key` is not yet set.
    /// Everything up to `edge` counts as received.
    pub fn new(config: &InboundConfig, edge: u64) -> Result<Self, SaError> {
        let suite = config.keys.suite;
        if !config.esn && edge > u32::MAX.into() {
            return Err(SaError::Numbers);
        }
        let selectors = Rules::new(config.selectors.iter().map(|s| (s, ())));
        Ok(Self {
            key: KeyId::default(),
            spi: spi(config.spi)?,
            salt: salt(suite, &config.salt)?,
            suite,
            shape: Shape::new(suite, config.esn, 4)?,
            tunnel: config.mode == Mode::Tunnel,
            inside: config.inside.clone(),
            record: config.record,
            clamp: config.clamp,
            vrf: config.vrf,
            ends: Ends::new(config.source, config.destination)?,
            window: Window::new(config.window, edge),
            selectors: selectors.map_err(|(place, e)| SaError::Selector(place, e))?,
            stats: SaStats::default(),
            name: config.name.clone(),
        })
    }
}

/// What a packet of this version is on a link.
pub(super) const fn ethertype(v6: bool) -> u16 {
    if v6 { EtherType::IPV6.0 } else { EtherType::IPV4.0 }
}
