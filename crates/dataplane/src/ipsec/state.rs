//! One SA: what its packets need, ready to use.

use super::config::{
    Df, EcnOut, Encap, Endpoints, Hops, INSTANCE_MAX, INSTANCE_NUMBERS, InboundConfig, Mode,
    OutboundConfig, Outside,
};
use super::lifetime::{LifeView, Meter};
use super::outer::{Inner, Template, Varying, ethertype, ident};
use super::overhead::Overhead;
use super::path::Path;
use super::replay::Window;
use super::spd::Rules;
use super::wrapping::Special;
use crate::graph::FLAG_OPENED;
use crate::protection::authentic::Candidate;
use crate::protection::table::{self, SaError, SaId};
use crate::{Lease, Sequence};
use ferrule_base::{Instant, Secret, VrfId};
use ferrule_crypto::{Ad, Job, KeyId, Op, Span, Suite, Verdict};
use ferrule_pipeline::Meta;
use ferrule_wire::{esp, ipv4};
use std::mem::offset_of;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;

/// Counters of an SA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
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
    /// In UDP, opened, and from another address or port than that of the other end: it is behind
    /// another address translation now, or moved.
    pub moved: u64,
    /// Not sealed or opened: no number, no room, or the engine could not.
    pub failed: u64,
}

/// An SA as `show sa` lists it, and as its counter is persisted.
#[derive(Clone, Copy, Debug)]
pub struct SaView<'a> {
    /// Identity of the SA.
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
    /// Counters of the SA.
    pub stats: SaStats,
    /// How much of its life is used, if that has bounds.
    pub life: Option<LifeView>,
}

/// Octets of a packet that an ICV covers, and the form in which a job states them.
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
    /// Shape of most tunnels, for which code is compiled specially: AES-GCM or
    /// ChaCha20-Poly1305 with extended numbers.
    pub const USUAL: Self =
        Self { iv: 8, icv: 16, align: 4, text: 16, cover: Cover::Header, whole: false, esn: true };

    pub fn new(suite: Suite, esn: bool) -> Self {
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

    /// Two spans of a packet with its ESP header at `esp` and `rest` octets between that
    /// header and the ICV: authenticated only, and text.
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

    /// Octets of a packet with this job that are encrypted, or would be by another suite.
    #[inline(always)]
    pub fn encrypted(&self, job: &Job<()>) -> usize {
        let front = esp::Header::LEN + self.iv as usize;
        match job.ad {
            Ad::Span(beside) | Ad::SpanThen(beside, _) | Ad::Widened(beside, _) if self.whole => {
                usize::from(beside.len).saturating_sub(front)
            }
            _ => usize::from(job.text.len).saturating_sub(front - self.text as usize),
        }
    }

    /// Data that is authenticated but not encrypted: the ESP header at least, and the
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

/// State common to outbound SAs. The only source of its numbers is in it, and so it cannot be
/// cloned. Up to the first counters it is what packets need.
#[derive(Debug)]
#[repr(C)]
pub struct Outbound {
    pub(super) key: KeyId,
    pub(super) spi: u32,
    pub(super) salt: [u8; 4],
    pub(super) adjacency: u32,
    /// The part of an IV before the number.
    pub(super) iv_front: u32,
    /// The slot of the SA around this one, plus one.
    then: Option<NonZeroU32>,
    /// The outer DF bit: the inner one under the first mask, or the second.
    pub(super) df: (u16, u16),
    /// The outer class: the inner one under the first mask, or the second.
    pub(super) class: (u8, u8),
    pub(super) ethertype: u16,
    /// The outer TTL or hop limit; nothing: as inside.
    pub(super) hops: Option<u8>,
    /// TCP's segments are held to the MTU.
    pub(super) clamps: bool,
    /// The life has bounds: the meter counts.
    pub(super) lives: bool,
    pub(super) path: Path,
    pub(super) sequence: Sequence,
    pub(super) stats: SaStats,
    pub(super) meter: Meter,
    /// Local tunnel address.
    pub(super) source: IpAddr,
    pub(super) overhead: Overhead,
    pub(super) name: Box<str>,
}

impl Outbound {
    /// Checks a configuration and prepares what it says; `key` is not yet set.
    pub fn new(config: &OutboundConfig, sequence: Sequence) -> Result<Self, SaError> {
        let max = match (config.esn, config.instance) {
            (true, 0) => u64::MAX,
            (true, _) => INSTANCE_NUMBERS,
            (false, _) => u32::MAX.into(),
        };
        if sequence.max() > max || config.instance > INSTANCE_MAX {
            return Err(SaError::Numbers);
        }
        Ok(Self {
            lives: config.life.is_some(),
            meter: Meter::new(config.life.as_ref(), sequence.peek().saturating_sub(1)),
            sequence,
            key: KeyId::default(),
            spi: spi(config.spi)?,
            salt: salt(config.keys.suite, &config.salt)?,
            adjacency: config.adjacency,
            iv_front: config.iv_front(),
            then: config.then.map(|slot| NonZeroU32::MIN.saturating_add(slot)),
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
            ethertype: ethertype(config.source).0,
            source: config.source,
            clamps: config.clamp,
            path: Path::new(config),
            stats: SaStats::default(),
            overhead: Overhead {
                protocol: config.protocol,
                suite: config.keys.suite,
                mode: config.mode,
                v6: config.source.is_ipv6(),
                udp: config.encap.is_some(),
                ah_align: config.ah_align,
            },
            name: config.name.clone(),
        })
    }

    /// The slot of the SA around this one.
    #[inline(always)]
    pub(super) fn around(&self) -> Option<u32> {
        self.then.map(|slot| slot.get() - 1)
    }

    /// IV of the packet of a number: different for every packet of this key, and for every SA that
    /// has it with an instance of its own.
    #[inline(always)]
    pub(super) const fn iv_of(&self, number: u64) -> [u8; 8] {
        ((self.iv_front as u64) << 32 | number).to_be_bytes()
    }

    /// The outer class.
    #[inline(always)]
    pub(super) const fn class_of(&self, inner: Inner) -> u8 {
        inner.class & self.class.0 | self.class.1
    }

    /// The outer DF bit.
    #[inline(always)]
    pub(super) const fn df_of(&self, inner: Inner) -> u16 {
        inner.whole & self.df.0 | self.df.1
    }

    /// Fields of the outer header of a packet, where the SA says of hops how many.
    #[inline(always)]
    pub(super) const fn varying(&self, inner: Inner, number: u64) -> Varying {
        let hops = match self.hops {
            Some(hops) => hops,
            None => 0,
        };
        let ident = ident(number, self.spi);
        Varying { class: self.class_of(inner), ident, df: self.df_of(inner), hops }
    }

    /// A packet's job, which has its slot yet to come.
    #[inline(always)]
    pub(super) fn job(&self, number: u64, ad: Ad, text: Span) -> Job<()> {
        Job {
            buf: (),
            key: self.key,
            ticket: 0,
            number,
            nonce: nonce(self.salt, self.iv_of(number)),
            op: Op::Seal,
            verdict: Verdict::Pending,
            ad,
            text,
        }
    }

    pub(super) fn view(&self, id: SaId) -> SaView<'_> {
        SaView {
            id,
            name: &self.name,
            spi: self.spi,
            suite: self.overhead.suite,
            number: self.sequence.peek(),
            lease: self.sequence.lease(),
            mtu: Some(self.path.mtu),
            stats: self.stats,
            life: self.meter.view(),
        }
    }
}

/// An outbound SA of ESP.
#[derive(Debug)]
#[repr(C)]
pub struct OutboundSa {
    pub(super) template: Template,
    pub(super) shape: Shape,
    /// A plain tunnel of [`Shape::USUAL`] with IPv4 outside, for which code is compiled with
    /// all sizes known.
    pub(super) usual: bool,
    /// The same, and no SA around this one: sealed packets just go on to their adjacency.
    pub(super) settled: bool,
    pub(super) special: Option<Box<Special>>,
    pub(super) base: Outbound,
}

/// Room for what a place in the table has in front of an SA, and for two counters.
const AROUND: usize = 32;
const _: () =
    assert!(offset_of!(OutboundSa, base) + offset_of!(Outbound, stats) + AROUND <= table::HOT);
const _: () =
    assert!(offset_of!(InboundSa, base) + offset_of!(Inbound, stats) + AROUND <= table::HOT);

impl OutboundSa {
    /// Checks a configuration and prepares what it says; the key is not yet set.
    pub fn new(config: &OutboundConfig, sequence: Sequence) -> Result<Self, SaError> {
        let shape = Shape::new(config.keys.suite, config.esn);
        let (special, template) = (Special::of(config)?, Template::esp(config)?);
        let plain = special.is_none() && !config.clamp;
        let usual = plain && shape == Shape::USUAL && template.is_usual();
        let settled = usual && config.then.is_none();
        let base = Outbound::new(config, sequence)?;
        Ok(Self { base, shape, usual, settled, special, template })
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

/// The other end of an SA in UDP.
pub(super) struct Peer {
    /// Where it is, or was told to be.
    pub address: Option<SocketAddr>,
    /// When it was told to be elsewhere.
    pub told: Option<Instant>,
}

impl Peer {
    fn new(address: Option<IpAddr>, port: Option<u16>) -> Self {
        Self { address: address.zip(port).map(SocketAddr::from), told: None }
    }
}

/// State common to inbound SAs. Up to the first counters it is what packets need.
#[repr(C)]
pub struct Inbound {
    pub(super) key: KeyId,
    pub(super) spi: u32,
    pub(super) salt: [u8; 4],
    pub(super) ends: Ends,
    pub(super) window: Window,
    pub(super) selectors: Rules<()>,
    /// The slot out of whose inbound SAs its packets must have come.
    pub(super) inside: Option<u32>,
    pub(super) slot: u32,
    pub(super) vrf: VrfId,
    /// TCP's segments are held to what fits so many octets.
    pub(super) clamp: Option<u16>,
    /// The life has bounds: the meter counts.
    pub(super) lives: bool,
    /// An authentic packet from elsewhere is told of.
    pub(super) follows: bool,
    pub(super) stats: SaStats,
    pub(super) meter: Meter,
    pub(super) peer: Peer,
    pub(super) suite: Suite,
    pub(super) record: [u8; 16],
    /// The edge that was told last.
    pub(super) told: u64,
    pub(super) name: Box<str>,
}

impl Inbound {
    /// Checks a configuration and prepares what it says; `key` is not yet set.
    /// Everything up to `edge` counts as received.
    pub fn new(config: &InboundConfig, edge: u64) -> Result<Self, SaError> {
        if !config.esn && edge > u32::MAX.into() {
            return Err(SaError::Numbers);
        }
        let selectors = Rules::new(config.selectors.iter().map(|s| (s, ())));
        Ok(Self {
            key: KeyId::default(),
            spi: spi(config.spi)?,
            salt: salt(config.keys.suite, &config.salt)?,
            ends: Ends::new(config.source.filter(|_| !config.follows), config.destination)?,
            window: Window::new(config.window, edge),
            vrf: config.vrf,
            selectors: selectors.map_err(|(place, e)| SaError::Selector(place, e))?,
            inside: config.inside,
            slot: config.slot,
            clamp: config.clamp,
            lives: config.life.is_some(),
            follows: config.follows,
            meter: Meter::new(config.life.as_ref(), edge),
            stats: SaStats::default(),
            peer: Peer::new(config.source, config.encap.map(|ports| ports.remote)),
            suite: config.keys.suite,
            record: config.record,
            told: 0,
            name: config.name.clone(),
        })
    }

    /// Gives it other ends, of the same address family.
    pub(super) fn move_to(&mut self, ends: &Endpoints) -> Result<(), SaError> {
        let Endpoints { local, remote, ports } = *ends;
        self.ends = Ends::new(Some(remote).filter(|_| !self.follows), local)?;
        // When it was told stays: it moves no more often because it moved.
        self.peer.address = ports.map(|(_, port)| (remote, port).into());
        Ok(())
    }

    /// The candidate of a packet that shows the low half of its number.
    #[inline(always)]
    pub(super) fn candidate(&self, low: u32, esn: bool) -> Option<Candidate> {
        let number = if esn { self.window.extend(low)? } else { low.into() };
        self.window.check(number)
    }

    /// A packet's job, which has its slot yet to come.
    #[inline(always)]
    pub(super) fn job(&self, number: u64, iv: [u8; 8], ad: Ad, text: Span) -> Job<()> {
        Job {
            buf: (),
            key: self.key,
            ticket: 0,
            number,
            nonce: nonce(self.salt, iv),
            op: Op::Open,
            verdict: Verdict::Pending,
            ad,
            text,
        }
    }

    /// True if a packet came out of an SA of the slot that the policy requires.
    #[inline(always)]
    pub(super) fn is_nested_right(&self, meta: &Meta) -> bool {
        self.inside.is_none_or(|slot| meta.flags & FLAG_OPENED != 0 && meta.opened == slot)
    }

    pub(super) fn view(&self, id: SaId) -> SaView<'_> {
        SaView {
            id,
            name: &self.name,
            spi: self.spi,
            suite: self.suite,
            number: self.window.edge(),
            lease: Lease { record: self.record, number: 0 },
            mtu: None,
            stats: self.stats,
            life: self.meter.view(),
        }
    }
}

/// An inbound SA of ESP.
#[repr(C)]
pub struct InboundSa {
    pub(super) shape: Shape,
    /// Of [`Shape::USUAL`], neither in UDP nor within another SA: for such, code is compiled
    /// with all sizes known.
    pub(super) usual: bool,
    pub(super) mode: Mode,
    /// A tunnel, and not in UDP.
    pub(super) plain: bool,
    pub(super) base: Inbound,
    pub(super) udp: Option<Encap>,
}

impl InboundSa {
    /// Checks a configuration and prepares what it says; the key is not yet set.
    /// Everything up to `edge` counts as received.
    pub fn new(config: &InboundConfig, edge: u64) -> Result<Self, SaError> {
        let shape = Shape::new(config.keys.suite, config.esn);
        Ok(Self {
            base: Inbound::new(config, edge)?,
            shape,
            usual: shape == Shape::USUAL && config.encap.is_none() && config.inside.is_none(),
            mode: config.mode,
            plain: config.mode == Mode::Tunnel && config.encap.is_none(),
            udp: config.encap,
        })
    }
}

/// Mask of the traffic-class bits that the outer header copies from the inner one, and the
/// bits that it sets itself.
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
