//! The user's frame: layers from the outside inwards, then octets of payload.

use crate::error::StackError;
use std::fmt;

/// The most octets that a frame may have behind Ethernet and its tags, on any line: an IP
/// packet's own limit, and the largest MTU.
pub(crate) const PACKET_LEN_MAX: usize = 65_535;
/// Octets of an Ethernet header without tags.
pub(crate) const ETHERNET: usize = 14;
/// The most VLAN tags that a user's frame may bring.
const TAGS_MAX: usize = 4;

/// A header of the user's frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// Ethernet, 14 octets without FCS.
    Ethernet,
    /// An 802.1ad service tag.
    Svlan,
    /// An 802.1Q customer tag.
    Vlan,
    /// ARP for IPv4 over Ethernet.
    Arp,
    /// IPv4 without options.
    Ipv4,
    /// IPv6 without extension headers.
    Ipv6,
    /// UDP.
    Udp,
    /// TCP without options.
    Tcp,
    /// ICMP or ICMPv6 echo.
    Icmp,
}

/// Every layer, outermost first: the word of the grammar, what a person calls it, the section
/// or clause that sets its size, its octets.
const LAYERS: [(Layer, &str, &str, &str, usize); 9] = [
    (Layer::Ethernet, "eth", "Ethernet", "802.3 cl. 3.2", ETHERNET),
    (Layer::Svlan, "svlan", "802.1ad tag", "802.1Q cl. 9.3", 4),
    (Layer::Vlan, "vlan", "802.1Q tag", "802.1Q cl. 9.3", 4),
    (Layer::Arp, "arp", "ARP", "RFC 826", 28),
    (Layer::Ipv4, "ipv4", "IPv4", "RFC 791 §3.1", 20),
    (Layer::Ipv6, "ipv6", "IPv6", "RFC 8200 §3", 40),
    (Layer::Udp, "udp", "UDP", "RFC 768", 8),
    (Layer::Tcp, "tcp", "TCP", "RFC 9293 §3.1", 20),
    (Layer::Icmp, "icmp", "ICMP", "RFC 792, RFC 4443 §4", 8),
];

impl Layer {
    /// Every layer, outermost first.
    pub fn all() -> impl Iterator<Item = Self> {
        LAYERS.into_iter().map(|(layer, ..)| layer)
    }

    /// The word of the grammar.
    pub fn name(self) -> &'static str {
        LAYERS[self as usize].1
    }

    /// Name for people, and the section or clause that sets the size.
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        let (_, _, name, rule, _) = LAYERS[self as usize];
        (name, rule)
    }

    /// Octets of the header.
    pub fn header_len(self) -> usize {
        LAYERS[self as usize].4
    }

    pub(crate) fn is_tag(self) -> bool {
        matches!(self, Self::Svlan | Self::Vlan)
    }

    /// True if this header may stand directly inside `outer`.
    fn fits_in(self, outer: Layer) -> bool {
        match self {
            Self::Ethernet => false,
            Self::Svlan | Self::Vlan | Self::Arp | Self::Ipv4 | Self::Ipv6 => {
                outer == Self::Ethernet || outer.is_tag()
            }
            Self::Udp | Self::Tcp | Self::Icmp => matches!(outer, Self::Ipv4 | Self::Ipv6),
        }
    }
}

/// A user's frame as it enters the first transformation, without FCS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserFrame {
    layers: Vec<Layer>,
    payload: usize,
}

impl UserFrame {
    /// A frame of these layers, outermost first, around `payload` octets.
    pub fn new(layers: Vec<Layer>, payload: usize) -> Result<Self, StackError> {
        if layers.first() != Some(&Layer::Ethernet) {
            return Err(StackError::new("a user's frame begins with `eth`")
                .with_help("for example `eth vlan ipv4 udp 954`"));
        }
        for pair in layers.windows(2) {
            if let &[outer, inner] = pair
                && !inner.fits_in(outer)
            {
                return Err(StackError::new(format!(
                    "`{}` cannot stand inside `{}`",
                    inner.name(),
                    outer.name()
                ))
                .with_help("layers go from the outside in: `eth [svlan] [vlan] ipv4|ipv6|arp [udp|tcp|icmp] PAYLOAD`"));
            }
        }
        if layers.iter().filter(|layer| layer.is_tag()).count() > TAGS_MAX {
            return Err(StackError::new(format!("more than {TAGS_MAX} VLAN tags")));
        }
        if layers.last() == Some(&Layer::Arp) && payload > 0 {
            return Err(StackError::new("ARP has no payload").with_help("leave the number out"));
        }
        let frame = Self { layers, payload };
        if frame.packet_len() > PACKET_LEN_MAX {
            return Err(StackError::new(format!(
                "{} octets behind Ethernet and its tags are over the largest, {PACKET_LEN_MAX}",
                frame.packet_len()
            ))
            .with_help("jumbo frames have about 9,000"));
        }
        Ok(frame)
    }

    /// The study's frame: 1000 octets, `eth vlan ipv4 udp 954`.
    pub fn study() -> Self {
        let layers = vec![Layer::Ethernet, Layer::Vlan, Layer::Ipv4, Layer::Udp];
        Self { layers, payload: 954 }
    }

    /// The same layers in a frame of `frame_len` octets.
    pub fn resized(&self, frame_len: usize) -> Result<Self, StackError> {
        let headers = self.headers_len();
        let Some(payload) = frame_len.checked_sub(headers) else {
            return Err(StackError::new(format!(
                "{frame_len} octets are less than the frame's headers, {headers} octets"
            )));
        };
        Self::new(self.layers.clone(), payload)
    }

    /// The layers, outermost first.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Octets behind the last header.
    pub fn payload(&self) -> usize {
        self.payload
    }

    /// Octets of all headers.
    pub fn headers_len(&self) -> usize {
        self.layers.iter().map(|layer| layer.header_len()).sum()
    }

    /// Octets of Ethernet header and VLAN tags.
    pub fn link_header_len(&self) -> usize {
        let link = |layer: &&Layer| **layer == Layer::Ethernet || layer.is_tag();
        self.layers.iter().filter(link).map(|layer| layer.header_len()).sum()
    }

    /// True if an IP packet stands behind Ethernet and its tags.
    pub fn carries_ip(&self) -> bool {
        self.layers.iter().any(|layer| matches!(layer, Layer::Ipv4 | Layer::Ipv6))
    }

    /// True if the payload may have any size, which ARP's may not.
    pub fn is_resizable(&self) -> bool {
        self.layers.last() != Some(&Layer::Arp)
    }

    /// Octets behind the Ethernet header and VLAN tags: the IP packet, or other payload.
    pub fn packet_len(&self) -> usize {
        self.len() - self.link_header_len()
    }

    /// Octets of the whole frame, without FCS.
    #[allow(clippy::len_without_is_empty)] // a frame has at least its Ethernet header
    pub fn len(&self) -> usize {
        self.headers_len().saturating_add(self.payload)
    }
}

impl fmt::Display for UserFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, layer) in self.layers.iter().enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { " " }, layer.name())?;
        }
        if self.payload > 0 { write!(f, " {}", self.payload) } else { Ok(()) }
    }
}
