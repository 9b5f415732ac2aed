//! One SA: what its packets need, ready to use.

use super::config::{Df, EcnOut, Hops, InboundConfig, OutboundConfig, Outside};
use super::outer::Outer;
use super::path::Path;
use super::replay::Window;
use super::spd::Rules;
use super::table::{SaError, SaId};
use super::unwrapping;
use super::wrapping::Special;
use crate::{Lease, Sequence};
use ferrule_base::{Flow, Secret, VrfId};
use ferrule_crypto::{Ad, Job, KeyId, Span, Suite};
use ferrule_pipeline::Packet;
use ferrule_wire::{esp, ipv4};
use std::net::IpAddr;

/// What an SA counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SaStats {
    /// Packets sealed, or opened and passed on.
    pub packets: u64,
    /// Octets of these inner packets.
    pub octets: u64,
    /// Outside the window, or seen before.
    pub replays: u64,
    /// The ICV was wrong.
    pub bad_icv: u64,
    /// Opened, but not passed on: trailer, inner header, selectors, ECN, dummy.
    pub refused: u64,
    /// In UDP, opened, and from another port than configured: the other end is
    /// behind another address translation now. It is not followed.
    pub moved: u64,
    /// Not sealed or opened: no number, no room, or the engine could not.
    pub failed: u64,
}

/// An SA as `show sa` lists it, and as its counter is persisted.
#[derive(Clone, Copy, Debug)]
pub struct SaView<'a> {
    /// Which one.
    pub id: SaId,
    /// The name in the configuration.
    pub name: &'a str,
    /// Its SPI.
    pub spi: u32,
    /// Its suite.
    pub suite: Suite,
    /// Outbound: the number of the next packet. Inbound: the highest number
    /// seen, the edge of the window.
    pub number: u64,
    /// The record that keeps it; outbound, by what right numbers are taken from it.
    pub lease: Lease,
    /// Outbound: the largest clear packet that its path carries now.
    pub mtu: Option<u16>,
    /// What it counted.
    pub stats: SaStats,
}

/// Which octets of a packet an ICV covers, and in which form a job says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cover {
    /// An AEAD: beside the text only the ESP header, with all of the number.
    Header,
    /// A keyed hash: everything, and the number's high half behind it.
    Then,
    /// GMAC: everything, and the number's high half within the ESP header.
    Widened,
}

/// The sizes of a suite in an ESP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub iv: u8,
    pub icv: u8,
    pub align: u8,
    /// Octets from the ESP header to the job's text: CBC's has the IV in it, which
    /// the engine writes (and so has the study's AES-CTR).
    pub text: u8,
    pub cover: Cover,
    /// The text is empty: all of the packet is beside it.
    pub whole: bool,
    pub esn: bool,
}

impl Shape {
    /// What most tunnels have, for code that is compiled for it: AES-GCM or
    /// ChaCha20-Poly1305 with extended numbers.
    pub const USUAL: Self =
        Self { iv: 8, icv: 16, align: 4, text: 16, cover: Cover::Header, whole: false, esn: true };

    fn new(suite: Suite, esn: bool) -> Self {
        let iv = if suite.text_has_iv() { 0 } else { suite.esp_iv_len() };
        Self {
            text: (esp::Header::LEN + iv) as u8,
            iv: suite.esp_iv_len() as u8,
            icv: suite.icv_len() as u8,
            align: suite.esp_align() as u8,
            cover: match suite.mac() {
                Some(_) => Cover::Then,
                None if suite.is_integrity() => Cover::Widened,
                None => Cover::Header,
            },
            whole: suite.is_integrity(),
            esn,
        }
    }

    /// What is beside the text of a packet with an ESP header at `esp` and `rest`
    /// octets after it and before the ICV; and the text.
    #[inline(always)]
    pub const fn spans(&self, esp: usize, rest: usize) -> (Span, Span) {
        let end = esp + esp::Header::LEN + rest;
        let text = if self.whole { end } else { esp + self.text as usize };
        let beside = match self.cover {
            Cover::Header => esp::Header::LEN,
            Cover::Then | Cover::Widened => text - esp,
        };
        (Span::new(esp, beside), Span::new(text, end - text))
    }

    /// What is under the ICV and not encrypted: the ESP header at least, and the
    /// high half of an extended number.
    #[inline(always)]
    pub fn ad(&self, beside: Span, spi: u32, number: u64) -> Ad {
        let high = ((number >> 32) as u32).to_be_bytes();
        match self.cover {
            _ if !self.esn => Ad::Span(beside),
            Cover::Header => Ad::Inline(words(spi.to_be_bytes(), number.to_be_bytes())),
            Cover::Then => Ad::SpanThen(beside, high),
            Cover::Widened => Ad::Widened(beside, high),
        }
    }
}

/// The salt, then the IV (RFC 4106 section 4, RFC 3686 section 4). For CBC all but the
/// number is zero, and the engine makes the IV of it.
#[inline(always)]
pub(super) fn nonce(salt: [u8; 4], iv: [u8; 8]) -> [u8; 12] {
    words(salt, iv)
}

/// One behind the other, in two words: what is stored in pieces of 4 and 8 and
/// then read as one of 8 makes the processor wait.
#[inline(always)]
fn words(first: [u8; 4], rest: [u8; 8]) -> [u8; 12] {
    let (first, rest) = (u32::from_le_bytes(first), u64::from_le_bytes(rest));
    let mut octets = [0; 12];
    octets[..8].copy_from_slice(&(u64::from(first) | rest << 32).to_le_bytes());
    octets[8..].copy_from_slice(&((rest >> 32) as u32).to_le_bytes());
    octets
}

/// The work of some jobs.
#[inline]
pub(super) fn work(jobs: &[Job<Packet>]) -> Flow {
    let octets = jobs.iter().map(|job| octets(job) as u64).sum();
    Flow { packets: jobs.len() as u64, octets }
}

/// Octets that a job is about.
#[inline]
pub(super) fn octets(job: &Job<Packet>) -> usize {
    let beside = match job.ad {
        Ad::Inline(_) => esp::Header::LEN,
        Ad::Span(span) | Ad::SpanThen(span, _) | Ad::Widened(span, _) => span.len.into(),
    };
    usize::from(job.text.len) + beside
}

/// Which code seals the packets of an SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A plain tunnel of [`Shape::USUAL`], without anything that looks into packets.
    Usual,
    /// A plain tunnel.
    Plain,
    /// What has a [`Special`].
    Special,
}

/// An outbound SA. It owns the only source of its numbers, and so cannot be
/// cloned.
#[derive(Debug)]
pub struct OutboundSa {
    pub(super) sequence: Sequence,
    pub(super) key: KeyId,
    pub(super) spi: u32,
    pub(super) salt: [u8; 4],
    pub(super) suite: Suite,
    pub(super) shape: Shape,
    pub(super) kind: Kind,
    pub(super) special: Option<Box<Special>>,
    pub(super) adjacency: u32,
    pub(super) path: Path,
    /// TCP's segments are held to the MTU.
    pub(super) clamps: bool,
    pub(super) ethertype: u16,
    /// The outer DF bit: the inner one under the first mask, or the second.
    pub(super) df: (u16, u16),
    /// The outer class: the inner one under the first mask, or the second.
    pub(super) class: (u8, u8),
    pub(super) outer: Outer,
    pub(super) stats: SaStats,
    pub(super) name: Box<str>,
}

impl OutboundSa {
    /// Checks a configuration and prepares what it says; `key` is not yet set.
    pub fn new(config: &OutboundConfig, sequence: Sequence) -> Result<Self, SaError> {
        let suite = config.keys.suite;
        if !config.esn && sequence.max() > u32::MAX.into() {
            return Err(SaError::Numbers);
        }
        let hops = match config.outside.hops {
            Hops::Fixed(hops) => hops,
            // Each packet has its own.
            Hops::Copy => 0,
        };
        let outer = Outer::new(config.source, config.destination, spi(config.spi)?, hops)?;
        let shape = Shape::new(suite, config.esn);
        let special = Special::of(config)?;
        Ok(Self {
            sequence,
            key: KeyId::default(),
            spi: config.spi,
            salt: salt(suite, &config.salt)?,
            suite,
            shape,
            kind: match &special {
                Some(_) => Kind::Special,
                None if shape == Shape::USUAL && !config.clamp => Kind::Usual,
                None => Kind::Plain,
            },
            special,
            adjacency: config.adjacency,
            path: Path::new(config),
            clamps: config.clamp,
            ethertype: outer.ethertype().0,
            df: match config.outside.df {
                Df::Copy => (ipv4::DONT_FRAGMENT, 0),
                Df::Set => (0, ipv4::DONT_FRAGMENT),
                Df::Clear => (0, 0),
            },
            class: class(&config.outside),
            outer,
            stats: SaStats::default(),
            name: config.name.clone(),
        })
    }
}

/// The outer addresses that an inbound SA's packets have.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ends {
    /// Source and destination in one word, and which bits of it count.
    V4 { ends: u64, mask: u64 },
    /// Source, if it counts, and destination.
    V6 { src: Option<[u8; 16]>, dst: [u8; 16] },
}

impl Ends {
    pub(super) fn new(source: Option<IpAddr>, destination: IpAddr) -> Result<Self, SaError> {
        match (source, destination) {
            (Some(IpAddr::V4(src)), IpAddr::V4(dst)) => Ok(Self::V4 {
                ends: u64::from(src.to_bits()) << 32 | u64::from(dst.to_bits()),
                mask: u64::MAX,
            }),
            (None, IpAddr::V4(dst)) => {
                Ok(Self::V4 { ends: dst.to_bits().into(), mask: u32::MAX.into() })
            }
            (Some(IpAddr::V6(src)), IpAddr::V6(dst)) => {
                Ok(Self::V6 { src: Some(src.octets()), dst: dst.octets() })
            }
            (None, IpAddr::V6(dst)) => Ok(Self::V6 { src: None, dst: dst.octets() }),
            _ => Err(SaError::Families),
        }
    }
}

/// An inbound SA.
pub struct InboundSa {
    pub(super) key: KeyId,
    pub(super) spi: u32,
    pub(super) salt: [u8; 4],
    pub(super) suite: Suite,
    pub(super) shape: Shape,
    pub(super) vrf: VrfId,
    pub(super) ends: Ends,
    pub(super) window: Window,
    pub(super) selectors: Rules<()>,
    pub(super) special: Option<Box<unwrapping::Special>>,
    pub(super) record: [u8; 16],
    pub(super) stats: SaStats,
    pub(super) name: Box<str>,
}

impl InboundSa {
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
            shape: Shape::new(suite, config.esn),
            vrf: config.vrf,
            ends: Ends::new(config.source, config.destination)?,
            window: Window::new(config.window, edge),
            selectors: selectors.map_err(|(place, e)| SaError::Selector(place, e))?,
            special: unwrapping::Special::of(config),
            record: config.record,
            stats: SaStats::default(),
            name: config.name.clone(),
        })
    }

    /// The highest number received: where the window ends, and what to persist.
    pub const fn edge(&self) -> u64 {
        self.window.edge()
    }
}

/// What the outer class has of the inner one, and what of its own.
pub(super) const fn class(outside: &Outside) -> (u8, u8) {
    let ecn = match outside.ecn {
        EcnOut::Normal => 3,
        EcnOut::Compatibility => 0,
    };
    match outside.dscp {
        Some(dscp) => (ecn, dscp.get() << 2),
        None => (0xfc | ecn, 0),
    }
}

pub(super) fn spi(spi: u32) -> Result<u32, SaError> {
    if spi < 256 { Err(SaError::Spi(spi)) } else { Ok(spi) }
}

pub(super) fn salt(suite: Suite, salt: &Secret) -> Result<[u8; 4], SaError> {
    let need = suite.esp_salt_len();
    if salt.len() != need {
        return Err(SaError::Salt(need, salt.len()));
    }
    Ok(salt.expose().first_chunk().copied().unwrap_or_default())
}
