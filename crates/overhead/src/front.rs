//! The headers that each transformation puts in front, and how much a frame grows by them.

use crate::frame::{ETHERNET, Layer};
use crate::segment::SegmentKind;
use crate::suite::rules;
use crate::transform::{
    Ah, Esp, IpVersion, L2tpv3, Macsec, Mode, Pseudowire, ServiceTag, TagKind, Transform,
};

/// Pad length and next header (RFC 4303 section 2).
pub(crate) const ESP_TRAILER: usize = 2;
/// The check value of all cipher suites of MACsec (802.1AE clause 14).
pub(crate) const MACSEC_ICV: usize = 16;

/// A header or field and its octets; one of no octets is not there.
pub(crate) type Part = (SegmentKind, usize);

pub(crate) fn header(layer: Layer) -> Part {
    (SegmentKind::Layer(layer), layer.header_len())
}

pub(crate) fn tag(kind: TagKind) -> Part {
    header(match kind {
        TagKind::Customer => Layer::Vlan,
        TagKind::Service => Layer::Svlan,
    })
}

/// A field that is there or not.
fn optional(there: bool, (kind, octets): Part) -> Part {
    (kind, if there { octets } else { 0 })
}

fn ip(version: IpVersion) -> Part {
    header(match version {
        IpVersion::V4 => Layer::Ipv4,
        IpVersion::V6 => Layer::Ipv6,
    })
}

/// Ethernet and the outer IP header of tunnel mode.
fn outer(mode: Mode, version: IpVersion) -> Vec<Part> {
    match mode {
        Mode::Tunnel => vec![header(Layer::Ethernet), ip(version)],
        Mode::Transport => Vec::new(),
    }
}

impl Esp {
    /// Everything in front of the text (RFC 4303 section 2).
    pub(crate) fn front(&self) -> Vec<Part> {
        let (iv_rule, _) = rules(self.suite);
        let mut front = outer(self.mode, self.outer);
        front.push(optional(self.udp_encap, header(Layer::Udp)));
        front.push((SegmentKind::EspHeader, 8));
        front.push((SegmentKind::EspIv(iv_rule), self.suite.esp_iv_len()));
        front
    }
}

impl Ah {
    /// Outer header and AH (RFC 4302 section 2), which is padded to four octets behind an IPv4
    /// header and to eight behind an IPv6 header.
    pub(crate) fn front(&self, behind: IpVersion) -> Vec<Part> {
        let (iv, icv) = (self.suite.esp_iv_len(), self.suite.icv_len());
        let (iv_rule, icv_rule) = rules(self.suite);
        let len = 12 + iv + icv;
        let align = if behind == IpVersion::V6 || self.pad8 { 8 } else { 4 };
        let mut front = outer(self.mode, self.outer);
        front.push((SegmentKind::AhHeader, 12));
        front.push((SegmentKind::AhIv(iv_rule), iv));
        front.push((SegmentKind::AhIcv(icv_rule), icv));
        front.push((SegmentKind::AhPadding, len.next_multiple_of(align) - len));
        front
    }
}

impl Macsec {
    /// The SecTAG (802.1AE clause 9.3).
    pub(crate) fn front(&self, short_length: u8) -> [Part; 2] {
        [(SegmentKind::SecTag { short_length }, 8), optional(self.sci, (SegmentKind::Sci, 8))]
    }
}

impl Pseudowire {
    /// Ethernet, labels, control word (RFC 4448 section 4).
    pub(crate) fn front(&self) -> Vec<Part> {
        let mut front = labels(self.labels);
        front.push(optional(self.control_word, (SegmentKind::ControlWord, 4)));
        front
    }
}

/// Ethernet and a label stack.
pub(crate) fn labels(count: usize) -> Vec<Part> {
    let mut front = vec![header(Layer::Ethernet)];
    front.extend(std::iter::repeat_n((SegmentKind::Label, 4), count));
    front
}

impl L2tpv3 {
    /// Everything in front of the frame; over UDP a session begins with flags and version
    /// (RFC 3931 section 4.1).
    pub(crate) fn front(&self) -> [Part; 6] {
        [
            header(Layer::Ethernet),
            ip(self.outer),
            optional(self.udp, header(Layer::Udp)),
            (SegmentKind::L2tpSession, if self.udp { 8 } else { 4 }),
            (SegmentKind::L2tpCookie, self.cookie),
            optional(self.sublayer, (SegmentKind::L2tpSublayer, 4)),
        ]
    }
}

/// Everything in front of the frame in VXLAN (RFC 7348 section 5).
pub(crate) fn vxlan(outer: IpVersion) -> [Part; 4] {
    let vxlan = (SegmentKind::VxlanHeader, 8);
    [header(Layer::Ethernet), ip(outer), header(Layer::Udp), vxlan]
}

fn sum(parts: &[Part]) -> usize {
    parts.iter().map(|(_, octets)| octets).sum()
}

impl Transform {
    /// Octets by which the frame grows at its front, in the worst case: what is put on, less
    /// the Ethernet header that is replaced. Tags that would be dropped are not counted, since
    /// an untagged frame may come as well.
    pub(crate) fn front_growth(&self) -> usize {
        let replaced = |mode| if mode == Mode::Tunnel { ETHERNET } else { 0 };
        match self {
            Self::Esp(esp) => sum(&esp.front()) - replaced(esp.mode),
            Self::Ah(ah) => {
                let behind = if ah.mode == Mode::Tunnel { ah.outer } else { IpVersion::V6 };
                sum(&ah.front(behind)) - replaced(ah.mode)
            }
            Self::Macsec(macsec) => sum(&macsec.front(0)),
            Self::Pseudowire(wire) => {
                let added = optional(wire.tag == ServiceTag::Add, tag(TagKind::Service));
                sum(&wire.front()) + sum(&[added])
            }
            Self::L3vpn { labels: count } => sum(&labels(*count)) - ETHERNET,
            Self::PushTag(kind) => sum(&[tag(*kind)]),
            Self::PopTag => 0,
            Self::L2tpv3(l2tp) => sum(&l2tp.front()),
            Self::Vxlan { outer } => sum(&vxlan(*outer)),
        }
    }

    /// Octets by which the frame grows at its end, in the worst case.
    pub(crate) fn tail_growth(&self) -> usize {
        match self {
            Self::Esp(esp) => esp.suite.esp_align() - 1 + ESP_TRAILER + esp.suite.icv_len(),
            Self::Macsec(_) => MACSEC_ICV,
            _ => 0,
        }
    }
}
