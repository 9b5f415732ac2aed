//! One AH SA: what its packets need, ready to use.

use crate::Sequence;
use crate::ipsec::config::{InboundConfig, Mode, OutboundConfig};
use crate::ipsec::outer::Template;
use crate::ipsec::state::{Inbound, Outbound};
use crate::protection::table::SaError;
use ferrule_crypto::{Ad, Job, Span, Suite};
use ferrule_wire::{EtherType, Protocol, ah, checksum};
use std::net::IpAddr;

/// The sizes of a suite in AH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ipsec) struct Shape {
    /// Octets of IV in front of the ICV: GMAC's (RFC 4543 section 5).
    pub iv: u8,
    pub icv: u8,
    /// Octets to a multiple of which the header is padded over IPv4: 4 or 8.
    pub align4: u8,
    pub esn: bool,
}

impl Shape {
    pub fn new(suite: Suite, esn: bool, align4: u8) -> Result<Self, SaError> {
        if !suite.is_integrity() {
            return Err(SaError::NoIntegrityAlone(suite));
        }
        Ok(Self { iv: suite.esp_iv_len() as u8, icv: suite.icv_len() as u8, align4, esn })
    }

    /// Octets of the whole header.
    pub fn header_len(&self, v6: bool) -> usize {
        ah::padded_len(self.field(), if v6 { 8 } else { self.align4.into() })
    }

    /// True if a header of `len` octets can be of this suite. Over IPv4 there are peers that
    /// pad to four octets and peers that pad to eight; either is accepted, as the ICV covers
    /// the padding.
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

    /// Data under the ICV: the packet, and the high half of an extended number
    /// behind it (RFC 4302 section 2.5.1).
    pub fn ad(&self, packet: Span, number: u64) -> Ad {
        match self.esn {
            true => Ad::SpanThen(packet, ((number >> 32) as u32).to_be_bytes()),
            false => Ad::Span(packet),
        }
    }
}

/// An outbound SA of AH.
#[derive(Debug)]
pub struct AhOutSa {
    pub(super) base: Outbound,
    pub(super) shape: Shape,
    /// Both ends, as they are in the header when it arrives.
    pub(super) ends: checksum::Ends,
    pub(super) tunnel: bool,
    pub(super) template: Template,
}

impl AhOutSa {
    /// Checks a configuration and prepares what it says; the key is not yet set.
    pub fn new(config: &OutboundConfig, sequence: Sequence) -> Result<Self, SaError> {
        let ends = match (config.source, config.destination) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => checksum::Ends::V4(src, dst),
            (IpAddr::V6(src), IpAddr::V6(dst)) => checksum::Ends::V6(src, dst),
            _ => return Err(SaError::Families),
        };
        Ok(Self {
            base: Outbound::new(config, sequence)?,
            shape: Shape::new(config.keys.suite, config.esn, config.ah_align)?,
            ends,
            tunnel: config.mode == Mode::Tunnel,
            template: Template::ip(config, Protocol::AH)?,
        })
    }
}

/// An inbound SA of AH.
pub struct AhInSa {
    pub(super) base: Inbound,
    pub(super) shape: Shape,
    pub(super) tunnel: bool,
}

impl AhInSa {
    /// Checks a configuration and prepares what it says; the key is not yet set.
    /// Everything up to `edge` counts as received.
    pub fn new(config: &InboundConfig, edge: u64) -> Result<Self, SaError> {
        Ok(Self {
            base: Inbound::new(config, edge)?,
            shape: Shape::new(config.keys.suite, config.esn, 4)?,
            tunnel: config.mode == Mode::Tunnel,
        })
    }
}

/// Octets of a packet with this job that its ICV covers.
pub(super) fn covered(job: &Job<()>) -> usize {
    match job.ad {
        Ad::Inline(_) => 0,
        Ad::Span(span) | Ad::SpanThen(span, _) | Ad::Widened(span, _) => span.len.into(),
    }
}

/// EtherType of IPv4 or IPv6.
pub(super) const fn ethertype(v6: bool) -> EtherType {
    if v6 { EtherType::IPV6 } else { EtherType::IPV4 }
}
