//! What a stack does to a frame, one value per transformation, and its size in closed form.
//!
//! The closed forms ([`esp_len`], [`macsec_len`], [`mpls_len`]) are written apart from the ledger
//! of `layout`, so that each is a check on the other.

use crate::ah::Ah;
use crate::suite::{EspSuite, MacsecCipher};
use std::fmt;

/// The most labels that one transformation pushes.
pub const LABELS_MAX: usize = 16;

/// Octets of an Ethernet header without tags.
pub(crate) const ETHERNET: usize = 14;
/// Octets of an MPLS label stack entry (RFC 3032 section 2.1).
const LABEL: usize = 4;
/// Octets of the pseudowire control word (RFC 4385 section 3).
const CONTROL_WORD: usize = 4;
/// Octets of SecTAG without SCI (802.1AE clause 9.3).
const SECTAG: usize = 8;
/// Octets of the SCI in a SecTAG (802.1AE clause 9.9).
const SCI: usize = 8;
/// Octets of MACsec's check value in all its cipher suites (802.1AE clause 14).
const MACSEC_ICV: usize = 16;
/// SPI and sequence number (RFC 4303 section 2).
const ESP_HEADER: usize = 8;
/// Pad length and next header (RFC 4303 section 2).
const ESP_TRAILER: usize = 2;
const UDP: usize = 8;

/// The version of an IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IpVersion {
    /// 20 octets, without options.
    #[default]
    V4,
    /// 40 octets, without extension headers.
    V6,
}

impl IpVersion {
    /// Octets of the header.
    pub fn header_len(self) -> usize {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }
}

/// What ESP or AH protects of a packet (RFC 4301 section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// All of it, behind a new IP header.
    #[default]
    Tunnel,
    /// What stands behind its IP header.
    Transport,
}

/// An ESP transformation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Esp {
    /// Cipher and integrity.
    pub suite: EspSuite,
    /// Tunnel or transport.
    pub mode: Mode,
    /// The outer header of tunnel mode; transport mode keeps the packet's own.
    pub outer: IpVersion,
    /// ESP inside UDP (RFC 3948), for address translation on the way.
    pub udp_encap: bool,
    /// Extended sequence numbers: authenticated, never sent, so no octet more on the wire.
    pub esn: bool,
}

impl Esp {
    /// Tunnel mode over IPv4, without UDP.
    pub fn tunnel(suite: EspSuite) -> Self {
        let (mode, outer) = (Mode::Tunnel, IpVersion::V4);
        Self { suite, mode, outer, udp_encap: false, esn: false }
    }

    /// Octets of the outer IP packet that carries an inner one of `inner_ip_len`.
    pub fn ip_len(&self, inner_ip_len: usize) -> usize {
        let udp = if self.udp_encap { UDP } else { 0 };
        esp_len(&self.suite, self.mode, self.outer, inner_ip_len) + udp
    }

    /// Octets that ESP puts between the outer IP header and what it protects.
    fn front(&self) -> usize {
        let udp = if self.udp_encap { UDP } else { 0 };
        udp + ESP_HEADER + self.suite.iv_len()
    }
}

/// Octets of the IP packet that ESP makes of an IP packet of `inner_ip_len` octets, without
/// Ethernet and without UDP encapsulation (RFC 4303 section 2).
///
/// In transport mode the packet keeps its own header, which is of version `outer`.
pub fn esp_len(suite: &EspSuite, mode: Mode, outer: IpVersion, inner_ip_len: usize) -> usize {
    let content = match mode {
        Mode::Tunnel => inner_ip_len,
        Mode::Transport => inner_ip_len.saturating_sub(outer.header_len()),
    };
    let sealed = content + suite.padding(content) + ESP_TRAILER;
    outer.header_len() + ESP_HEADER + suite.iv_len() + sealed + suite.icv_len()
}

/// Octets of the MACsec frame made of a frame of `frame_len` octets, both without FCS
/// (802.1AE clause 9).
pub fn macsec_len(sci: bool, frame_len: usize) -> usize {
    frame_len + SECTAG + if sci { SCI } else { 0 } + MACSEC_ICV
}

/// Octets of the frame that carries an Ethernet frame of `frame_len` octets in a pseudowire:
/// new Ethernet header, label stack, control word (RFC 4448 section 4).
pub fn mpls_len(labels: usize, control_word: bool, frame_len: usize) -> usize {
    ETHERNET + labels * LABEL + if control_word { CONTROL_WORD } else { 0 } + frame_len
}

/// A MACsec SecY's treatment of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Macsec {
    /// The SecTAG names its SCI.
    pub sci: bool,
    /// The cipher suite; the size is the same in all.
    pub cipher: MacsecCipher,
    /// The outermost VLAN tag stays in front of the SecTAG.
    pub clear_vlan: bool,
    /// Integrity without confidentiality.
    pub integrity_only: bool,
    /// Octets of user data that are authenticated but not encrypted: 0, 30 or 50.
    pub offset: usize,
}

/// What a pseudowire does with the tag that names the service (RFC 4448 section 4.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServiceTag {
    /// The frame is carried as it comes.
    #[default]
    Keep,
    /// Raw mode with a service-delimiting tag: it is taken off first.
    Strip,
    /// Tagged mode for a frame without such a tag: one is put on first.
    Add,
}

/// An Ethernet pseudowire over MPLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pseudowire {
    /// Label stack entries: one after penultimate-hop popping, two with the transport label.
    pub labels: usize,
    /// Whether there is a control word.
    pub control_word: bool,
    /// What happens to the service's tag.
    pub tag: ServiceTag,
}

/// A VLAN tag's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagKind {
    /// 802.1Q customer tag.
    Customer,
    /// 802.1ad service tag.
    Service,
}

/// L2TPv3 carrying Ethernet (RFC 3931, RFC 4719).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct L2tpv3 {
    /// Over UDP; otherwise straight over IP.
    pub udp: bool,
    /// Octets of cookie: 0, 4 or 8.
    pub cookie: usize,
    /// With the default layer-2-specific sublayer.
    pub sublayer: bool,
    /// The outer IP header.
    pub outer: IpVersion,
}

impl L2tpv3 {
    /// Octets of session header: over UDP it begins with flags and version.
    pub(crate) fn session_len(&self) -> usize {
        if self.udp { 8 } else { 4 }
    }

    fn front(&self) -> usize {
        let udp = if self.udp { UDP } else { 0 };
        let sublayer = if self.sublayer { 4 } else { 0 };
        ETHERNET + self.outer.header_len() + udp + self.session_len() + self.cookie + sublayer
    }
}

/// One transformation of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transform {
    /// ESP, tunnel or transport mode.
    Esp(Esp),
    /// AH, tunnel or transport mode.
    Ah(Ah),
    /// MACsec.
    Macsec(Macsec),
    /// The whole Ethernet frame inside MPLS.
    Pseudowire(Pseudowire),
    /// Labels in front of the IP packet; Ethernet and tags are replaced.
    L3vpn {
        /// Label stack entries.
        labels: usize,
    },
    /// A bridge puts a tag on.
    PushTag(TagKind),
    /// A bridge takes the outermost tag off.
    PopTag,
    /// L2TPv3, for calculation.
    L2tpv3(L2tpv3),
    /// VXLAN, for calculation.
    Vxlan {
        /// The outer IP header.
        outer: IpVersion,
    },
}

impl Transform {
    /// Whether this is the provider's doing: what comes before it is on the attachment circuit.
    pub fn is_provider(&self) -> bool {
        matches!(
            self,
            Self::Pseudowire(_) | Self::L3vpn { .. } | Self::L2tpv3(_) | Self::Vxlan { .. }
        )
    }

    /// Why the data plane does not carry this and only the calculator knows it.
    pub fn calculation_only(&self) -> Option<String> {
        match self {
            Self::L2tpv3(_) => Some("L2TPv3".to_owned()),
            Self::Vxlan { .. } => Some("VXLAN".to_owned()),
            _ => None,
        }
    }

    /// Octets by which the frame grows at its front, in the worst case: what is put on, less
    /// the Ethernet header that is replaced. Tags that would be dropped are not counted, since
    /// an untagged frame may come as well.
    pub(crate) fn front_growth(&self) -> isize {
        let grown = match self {
            Self::Esp(esp) if esp.mode == Mode::Transport => esp.front(),
            Self::Esp(esp) => esp.outer.header_len() + esp.front(),
            Self::Ah(ah) => ah.front_growth(),
            Self::Macsec(macsec) => SECTAG + if macsec.sci { SCI } else { 0 },
            Self::Pseudowire(wire) => {
                let tag = if wire.tag == ServiceTag::Add { 4 } else { 0 };
                mpls_len(wire.labels, wire.control_word, tag)
            }
            Self::L3vpn { labels } => labels * LABEL,
            Self::PushTag(_) => 4,
            Self::PopTag => 0,
            Self::L2tpv3(l2tp) => l2tp.front(),
            Self::Vxlan { outer } => ETHERNET + outer.header_len() + UDP + 8,
        };
        isize::try_from(grown).unwrap_or(isize::MAX)
    }

    /// Octets by which the frame grows at its end, in the worst case.
    pub(crate) fn tail_growth(&self) -> usize {
        match self {
            Self::Esp(esp) => esp.suite.cipher().block - 1 + ESP_TRAILER + esp.suite.icv_len(),
            Self::Macsec(_) => MACSEC_ICV,
            _ => 0,
        }
    }
}

impl fmt::Display for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |on: bool, word: &'static str| if on { word } else { "" };
        match self {
            Self::Esp(esp) => {
                let tunnel = esp.mode == Mode::Tunnel;
                write!(f, "esp {}", esp.suite)?;
                f.write_str(if tunnel { " tunnel" } else { " transport" })?;
                f.write_str(word(tunnel && esp.outer == IpVersion::V6, " ipv6"))?;
                f.write_str(word(esp.udp_encap, " udp-encap"))?;
                f.write_str(word(esp.esn, " esn"))
            }
            Self::Ah(ah) => write!(f, "{ah}"),
            Self::Macsec(macsec) => {
                write!(f, "macsec{} {}", word(macsec.sci, " sci"), macsec.cipher.name())?;
                f.write_str(word(macsec.clear_vlan, " clear-vlan"))?;
                f.write_str(word(macsec.integrity_only, " integrity"))?;
                if macsec.offset > 0 { write!(f, " offset {}", macsec.offset) } else { Ok(()) }
            }
            Self::Pseudowire(wire) => {
                f.write_str("mpls")?;
                if wire.labels != 1 {
                    write!(f, " {}", wire.labels)?;
                }
                f.write_str(word(wire.control_word, " cw"))?;
                f.write_str(word(wire.tag == ServiceTag::Strip, " strip-tag"))?;
                f.write_str(word(wire.tag == ServiceTag::Add, " add-tag"))
            }
            Self::L3vpn { labels } => write!(f, "l3vpn {labels}"),
            Self::PushTag(TagKind::Customer) => f.write_str("vlan"),
            Self::PushTag(TagKind::Service) => f.write_str("svlan"),
            Self::PopTag => f.write_str("untag"),
            Self::L2tpv3(l2tp) => {
                write!(f, "l2tpv3{}", word(l2tp.udp, " udp"))?;
                if l2tp.cookie > 0 {
                    write!(f, " cookie {}", l2tp.cookie)?;
                }
                f.write_str(word(l2tp.sublayer, " sublayer"))?;
                write!(f, "{}", word(l2tp.outer == IpVersion::V6, " ipv6"))
            }
            Self::Vxlan { outer } => {
                write!(f, "vxlan{}", if *outer == IpVersion::V6 { " ipv6" } else { "" })
            }
        }
    }
}

impl fmt::Display for IpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        })
    }
}
