//! The headers of a stream's frames: `eth [vlan…] [mpls…] [ipv4|ipv6 udp]`.
//!
//! A template is made once: the headers of the longest frame, where the fields
//! lie that vary, and for every length what the length fields say. Sending a
//! frame copies the template and patches it.

use crate::signature;
use ferrule_base::MacAddr;
use ferrule_wire::checksum::{Ends, Sum, checksum};
use ferrule_wire::vlan::Vid;
use ferrule_wire::{
    EtherType, Label, Protocol, TrafficClass, ethernet, ipv4, ipv6, mpls, udp, vlan,
};
use std::net::{IpAddr, Ipv4Addr};

/// Labels of a frame at most.
pub const LABELS_MAX: usize = 8;
/// VLAN tags of a frame at most.
pub const VLANS_MAX: usize = 2;
/// EtherType of frames without IP: local experiments (IEEE 802 clause 9.2.4).
pub const EXPERIMENTAL: EtherType = EtherType(0x88b5);

/// A VLAN tag of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    /// The VLAN.
    pub vid: Vid,
    /// Priority.
    pub priority: TrafficClass,
    /// A service tag (802.1ad).
    pub service: bool,
}

/// A label of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelEntry {
    /// The label.
    pub label: Label,
    /// Traffic class.
    pub class: TrafficClass,
    /// Time to live.
    pub ttl: u8,
}

/// IP and UDP of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Addresses, of one family.
    pub ends: Ends,
    /// TTL or hop limit.
    pub ttl: u8,
    /// DSCP.
    pub dscp: u8,
    /// UDP source port.
    pub src_port: u16,
    /// UDP destination port.
    pub dst_port: u16,
}

impl Datagram {
    /// Between two addresses of one family; nothing if they are of two.
    pub const fn between(src: IpAddr, dst: IpAddr) -> Option<Self> {
        let ends = match (src, dst) {
            (IpAddr::V4(a), IpAddr::V4(b)) => Ends::V4(a, b),
            (IpAddr::V6(a), IpAddr::V6(b)) => Ends::V6(a, b),
            _ => return None,
        };
        // Port 7, echo: RFC 2544 appendix C.2.6.4.
        Some(Self { ends, ttl: 64, dscp: 0, src_port: 49_184, dst_port: 7 })
    }
}

/// The headers of a stream, outside first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layers {
    /// Ethernet destination.
    pub dst: MacAddr,
    /// Ethernet source.
    pub src: MacAddr,
    /// VLAN tags.
    pub vlans: Vec<VlanTag>,
    /// MPLS labels.
    pub labels: Vec<LabelEntry>,
    /// IP and UDP; without, frames carry an experimental type.
    pub datagram: Option<Datagram>,
}

impl Layers {
    /// Ethernet with UDP over IPv4 between addresses for benchmarks (RFC 6890,
    /// RFC 2544 appendix C.2.2).
    pub fn new(src: MacAddr, dst: MacAddr) -> Self {
        let (a, b) = (Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::new(198, 19, 0, 2));
        let datagram = Datagram::between(a.into(), b.into());
        Self { dst, src, vlans: Vec::new(), labels: Vec::new(), datagram }
    }

    /// Octets of all headers.
    pub fn len(&self) -> usize {
        self.ip_at() + self.datagram.map_or(0, |d| ip_len(&d.ends) + udp::Header::LEN)
    }

    /// Ethernet is always there.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// The shortest frame that holds headers and signature, without FCS.
    pub fn shortest(&self) -> usize {
        self.len() + signature::LEN
    }

    fn labels_at(&self) -> usize {
        ethernet::Header::LEN + self.vlans.len() * vlan::Header::LEN
    }

    fn ip_at(&self) -> usize {
        self.labels_at() + self.labels.len() * mpls::Header::LEN
    }

    /// Place of a field; nothing if the frame has none.
    pub(crate) fn place(&self, field: Field) -> Option<Place> {
        let ip = self.ip_at();
        let (ends, v6) = match self.datagram {
            Some(d) => (Some(d.ends), matches!(d.ends, Ends::V6(..))),
            None => (None, false),
        };
        // The last octets of an address vary, at most eight of them.
        let address = |second: bool| {
            let (at, width) = if v6 { (8, 16) } else { (12, 4) };
            let end = ip + at + width * (1 + usize::from(second));
            let octets = width.min(8);
            ends.map(|_| Place { at: end - octets, octets, bits: octets as u32 * 8, shift: 0 })
        };
        let port = |second: bool| {
            let at = ip + ends.as_ref().map_or(0, ip_len) + 2 * usize::from(second);
            ends.map(|_| Place { at, octets: 2, bits: 16, shift: 0 })
        };
        let mac = |at| Some(Place { at, octets: 6, bits: 48, shift: 0 });
        match field {
            Field::EthDst => mac(0),
            Field::EthSrc => mac(6),
            Field::Vlan(i) => (i < self.vlans.len()).then(|| Place {
                at: 14 + i * vlan::Header::LEN,
                octets: 2,
                bits: 12,
                shift: 0,
            }),
            Field::Label(i) => (i < self.labels.len()).then(|| Place {
                at: self.labels_at() + i * mpls::Header::LEN,
                octets: 4,
                bits: 20,
                shift: 12,
            }),
            Field::IpSrc => address(false),
            Field::IpDst => address(true),
            Field::UdpSrc => port(false),
            Field::UdpDst => port(true),
        }
    }

    /// Writes all headers, lengths for a frame of `len` octets.
    fn emit(&self, frame: &mut [u8], len: usize) {
        let inner = match self.datagram {
            _ if !self.labels.is_empty() => EtherType::MPLS,
            Some(Datagram { ends: Ends::V4(..), .. }) => EtherType::IPV4,
            Some(Datagram { ends: Ends::V6(..), .. }) => EtherType::IPV6,
            None => EXPERIMENTAL,
        };
        let kind = |tag: &VlanTag| {
            if tag.service { EtherType::SERVICE_VLAN } else { EtherType::VLAN }
        };
        let ethertype = self.vlans.first().map_or(inner, kind);
        ethernet::Repr { dst: self.dst, src: self.src, ethertype }.emit(frame);
        let mut at = ethernet::Header::LEN;
        for (i, tag) in self.vlans.iter().enumerate() {
            let ethertype = self.vlans.get(i + 1).map_or(inner, kind);
            let (priority, vid) = (tag.priority, tag.vid);
            vlan::Repr { priority, drop_eligible: false, vid, ethertype }.emit(&mut frame[at..]);
            at += vlan::Header::LEN;
        }
        for (i, entry) in self.labels.iter().enumerate() {
            let bottom = i + 1 == self.labels.len();
            let octets = mpls::encode(entry.label.get(), entry.class.get(), bottom, entry.ttl);
            frame[at..at + mpls::Header::LEN].copy_from_slice(&octets);
            at += mpls::Header::LEN;
        }
        if let Some(datagram) = &self.datagram {
            datagram.emit(&mut frame[at..], len - at);
        }
    }
}

const fn ip_len(ends: &Ends) -> usize {
    match ends {
        Ends::V4(..) => ipv4::Header::LEN,
        Ends::V6(..) => ipv6::Header::LEN,
    }
}

impl Datagram {
    /// Writes IP and UDP headers of a packet of `len` octets.
    fn emit(&self, packet: &mut [u8], len: usize) {
        let ip = ip_len(&self.ends);
        let payload = (len - ip) as u16;
        let dscp = ferrule_wire::Dscp::masked(self.dscp);
        match self.ends {
            Ends::V4(src, dst) => {
                let mut repr = ipv4::Repr::new(Protocol::UDP, src, dst, payload);
                (repr.ttl, repr.dscp) = (self.ttl, dscp);
                repr.emit(packet);
            }
            Ends::V6(src, dst) => {
                let mut repr = ipv6::Repr::new(Protocol::UDP, src, dst, payload);
                (repr.hop_limit, repr.dscp) = (self.ttl, dscp);
                repr.emit(packet);
            }
        }
        let (src, dst) = (self.src_port, self.dst_port);
        let payload_len = payload - udp::Header::LEN as u16;
        udp::Repr { src, dst, payload_len }.emit(&mut packet[ip..]);
    }
}

/// A field that varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Ethernet source.
    EthSrc,
    /// Ethernet destination.
    EthDst,
    /// The VLAN of a tag, counted from outside.
    Vlan(usize),
    /// A label, counted from the top.
    Label(usize),
    /// The low 32 (IPv4) or 64 (IPv6) bits of the source address.
    IpSrc,
    /// The same of the destination address.
    IpDst,
    /// UDP source port.
    UdpSrc,
    /// UDP destination port.
    UdpDst,
}

/// Place of a field in a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub at: usize,
    pub octets: usize,
    pub bits: u32,
    pub shift: u32,
}

/// Fields that differ between frames of different lengths.
#[derive(Clone, Copy, Debug)]
struct Length {
    len: usize,
    /// Octets of payload in front of the signature, and their weight.
    covers: u16,
    weight: u64,
    /// IPv4 total length or IPv6 payload length, and UDP length.
    ip: u16,
    udp: u16,
    /// The IPv4 header's checksum as long as nothing varies.
    header: u16,
    /// The sum for the UDP checksum over the filler and what lengths say.
    filler: Sum,
}

/// Headers and filler of a stream, for all its lengths.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    octets: Vec<u8>,
    lengths: Vec<Length>,
    ip: Option<IpPart>,
}

#[derive(Clone, Copy, Debug)]
struct IpPart {
    at: usize,
    v6: bool,
    /// Fields of the IP header vary: its checksum is made for each frame.
    varies: bool,
}

impl Template {
    /// For frames of these lengths without FCS, each at least
    /// [`Layers::shortest`]. `filler` is repeated over the payload.
    pub fn new(layers: &Layers, lens: &[usize], filler: &[u8], varies: &[Field]) -> Self {
        let longest = lens.iter().copied().max().unwrap_or(0);
        let headers = layers.len();
        let mut octets = vec![0; longest];
        let source = filler.iter().copied().cycle();
        octets[headers..].iter_mut().zip(source).for_each(|(to, from)| *to = from);
        layers.emit(&mut octets, longest);
        let at = layers.ip_at();
        let ip = layers.datagram.map(|d| IpPart {
            at,
            v6: matches!(d.ends, Ends::V6(..)),
            varies: varies.iter().any(|f| matches!(f, Field::IpSrc | Field::IpDst)),
        });
        let length = |&len: &usize| {
            let covered = &octets[headers..len - signature::LEN];
            let ip_header = layers.datagram.map_or(0, |d| ip_len(&d.ends));
            let packet = len - at;
            let udp = packet.saturating_sub(ip_header) as u16;
            let v6 = ip.is_some_and(|ip| ip.v6);
            let mut length = Length {
                len,
                covers: covered.len() as u16,
                weight: signature::weigh(covered),
                ip: if v6 { udp } else { packet as u16 },
                udp,
                header: 0,
                // The length counts twice: in the pseudo header and in UDP's own.
                filler: Sum::new().with(covered).with_u32(u32::from(udp) * 2 + 17),
            };
            if ip.is_some_and(|ip| !ip.v6) {
                let mut header = [0; ipv4::Header::LEN];
                header.copy_from_slice(&octets[at..at + ipv4::Header::LEN]);
                header[2..4].copy_from_slice(&length.ip.to_be_bytes());
                header[10..12].fill(0);
                length.header = checksum(&header);
            }
            length
        };
        let lengths = lens.iter().map(length).collect();
        Self { octets, lengths, ip }
    }

    /// Octets of a frame of this length index, for copying.
    #[inline]
    pub fn octets(&self, index: usize) -> &[u8] {
        let len = self.lengths.get(index).map_or(0, |l| l.len);
        self.octets.get(..len).unwrap_or_default()
    }

    /// Finishes a copy of [`Self::octets`] whose varying fields are in place.
    ///
    /// 1. Lengths, and the IPv4 header's checksum.
    /// 2. The signature.
    /// 3. The UDP checksum, of which the filler's part is known.
    #[inline]
    pub fn finish(
        &self,
        frame: &mut [u8],
        index: usize,
        tag: signature::Tag,
        sequence: u64,
        nanos: u64,
    ) {
        let Some(length) = self.lengths.get(index) else { return };
        let (covers, weight) = (length.covers, length.weight);
        let octets = signature::emit(tag, covers, weight, sequence as u32, nanos);
        let end = frame.len() - signature::LEN;
        frame[end..].copy_from_slice(&octets);
        let Some(ip) = self.ip else { return };
        let packet = &mut frame[ip.at..];
        let udp = if ip.v6 {
            packet[4..6].copy_from_slice(&length.ip.to_be_bytes());
            ipv6::Header::LEN
        } else {
            packet[2..4].copy_from_slice(&length.ip.to_be_bytes());
            packet[10..12].copy_from_slice(&length.header.to_be_bytes());
            if ip.varies {
                ipv4::fill_checksum(packet);
            }
            ipv4::Header::LEN
        };
        let addresses = if ip.v6 { &packet[8..40] } else { &packet[12..20] };
        let mut sum = length.filler.with(addresses).with(&packet[udp..udp + 4]);
        sum = if covers.is_multiple_of(2) {
            sum.with(&octets)
        } else {
            // The signature begins at an odd octet: each octet is the other half.
            let (mut moved, last) = ([0; signature::LEN + 2], signature::LEN + 1);
            moved[1..last].copy_from_slice(&octets);
            sum.with(&moved)
        };
        let sum = sum.finish();
        let udp = &mut packet[udp..];
        udp[4..6].copy_from_slice(&length.udp.to_be_bytes());
        udp[6..8].copy_from_slice(&(if sum == 0 { 0xffff } else { sum }).to_be_bytes());
    }
}
