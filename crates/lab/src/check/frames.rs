//! Fields that the checkers read in frames: the SA that protects a frame, its sequence number, and
//! the octets that its ICV covers.

use ferrule_base::MacAddr;
use ferrule_wire::sectag::{ICV_LEN, Repr as SecTag};
use ferrule_wire::{EtherType, FromBytes, Protocol, esp, ethernet, ipv4, ipv6, vlan};
use std::hash::Hasher;
use std::net::IpAddr;

/// VLAN tags that are looked behind.
const TAGS_MAX: usize = 2;

/// An ESP packet in a frame.
pub struct EspSeen<'a> {
    /// Destination of the frame.
    pub to: MacAddr,
    /// Its outer VLAN tag: TPID and VLAN ID.
    pub tag: Option<(u16, u16)>,
    /// Outer addresses.
    pub source: IpAddr,
    /// Outer addresses.
    pub destination: IpAddr,
    /// SPI.
    pub spi: u32,
    /// The number on the wire.
    pub number: u32,
    /// From the SPI to the ICV.
    octets: &'a [u8],
}

impl EspSeen<'_> {
    /// Tells this packet from every other.
    pub fn hash(&self) -> u64 {
        hash([self.octets, &[]])
    }
}

/// The ESP packet in a frame, if there is a whole one under a valid IP header.
pub fn esp(frame: &[u8]) -> Option<EspSeen<'_>> {
    let (header, mut rest) = ethernet::Header::ref_from_prefix(frame).ok()?;
    let (mut ethertype, mut tag) = (header.ethertype(), None);
    for _ in 0..TAGS_MAX {
        if !ethertype.is_vlan() {
            break;
        }
        let (inner, after) = vlan::Header::ref_from_prefix(rest).ok()?;
        tag = tag.or(Some((ethertype.0, inner.vid())));
        (ethertype, rest) = (inner.ethertype(), after);
    }
    let (source, destination, octets) = match ethertype {
        EtherType::IPV4 => {
            let (h, start, end) = ipv4::validate(rest).ok()?;
            if h.protocol() != Protocol::ESP || h.is_fragment() {
                return None;
            }
            (IpAddr::from(h.src), IpAddr::from(h.dst), rest.get(start..end)?)
        }
        EtherType::IPV6 => {
            let (h, end) = ipv6::validate(rest).ok()?;
            if h.next() != Protocol::ESP {
                return None;
            }
            (IpAddr::from(h.src), IpAddr::from(h.dst), rest.get(ipv6::Header::LEN..end)?)
        }
        _ => return None,
    };
    let (esp, _) = esp::Header::ref_from_prefix(octets).ok()?;
    let (spi, number, to) = (esp.spi.get(), esp.seq.get(), MacAddr(header.dst));
    Some(EspSeen { to, tag, source, destination, spi, number, octets })
}

/// A SecTAG in a frame.
pub struct SecySeen<'a> {
    /// The channel, where tag or source address tell it.
    pub sci: Option<u64>,
    /// The association.
    pub an: u8,
    /// The number on the wire.
    pub number: u32,
    /// Both addresses, and from the SecTAG to the ICV.
    octets: [&'a [u8]; 2],
}

impl SecySeen<'_> {
    /// Tells this frame from every other.
    pub fn hash(&self) -> u64 {
        hash(self.octets)
    }
}

/// The SecTAG of a frame with up to `clear_tags` VLAN tags in front of it.
pub fn secy(frame: &[u8], clear_tags: u8) -> Option<SecySeen<'_>> {
    let (header, mut rest) = ethernet::Header::ref_from_prefix(frame).ok()?;
    let mut ethertype = header.ethertype();
    for _ in 0..clear_tags {
        if !ethertype.is_vlan() {
            break;
        }
        let (tag, after) = vlan::Header::ref_from_prefix(rest).ok()?;
        (ethertype, rest) = (tag.ethertype(), after);
    }
    if ethertype != EtherType::MACSEC {
        return None;
    }
    let (tag, secured) = SecTag::parse(rest).ok()?;
    // Less than an EtherType and an ICV is no frame.
    secured.len().checked_sub(ICV_LEN + 2)?;
    let octets = [frame.get(..12)?, rest.get(..tag.len() + secured.len())?];
    let sci = tag.channel.sci(MacAddr(header.src)).map(|sci| sci.0);
    Some(SecySeen { sci, an: tag.an, number: tag.pn, octets })
}

fn hash(parts: [&[u8]; 2]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    for part in parts {
        hasher.write(part);
    }
    hasher.finish()
}
