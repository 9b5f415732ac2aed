//! Transformations of a frame, one value for each step of a stack.

use crate::suite::MacsecCipher;
use ferrule_crypto::Suite;
use std::fmt;

/// The most labels that one transformation pushes.
pub(crate) const LABELS_MAX: usize = 16;

/// The version of an IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IpVersion {
    /// 20 octets, without options.
    #[default]
    V4,
    /// 40 octets, without extension headers.
    V6,
}

/// Mode of ESP or AH (RFC 4301 section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Protects the whole packet, behind a new IP header.
    #[default]
    Tunnel,
    /// Protects the payload of the packet's own IP header.
    Transport,
}

/// An ESP transformation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Esp {
    /// Cipher and integrity.
    pub suite: Suite,
    /// Tunnel or transport.
    pub mode: Mode,
    /// The outer header of tunnel mode; transport mode keeps the packet's own.
    pub outer: IpVersion,
    /// ESP inside UDP (RFC 3948), for address translation on the way.
    pub udp_encap: bool,
    /// Extended sequence numbers: authenticated, never sent, so no octet more on the wire.
    pub esn: bool,
}

/// An AH transformation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ah {
    /// A suite that hides nothing.
    pub suite: Suite,
    /// Tunnel or transport, as ESP has them.
    pub mode: Mode,
    /// The outer header of tunnel mode; transport mode keeps the packet's own.
    pub outer: IpVersion,
    /// Padded to eight octets over IPv4 too, as some senders do.
    pub pad8: bool,
    /// Extended sequence numbers: authenticated, never sent, so no octet more on the wire.
    pub esn: bool,
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

/// Treatment of the tag that names a pseudowire's service (RFC 4448 section 4.4.1).
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
    /// True with a control word.
    pub control_word: bool,
    /// Treatment of the service's tag.
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
    /// True for a transformation of the provider: those before it are on the attachment circuit.
    pub fn is_provider(&self) -> bool {
        matches!(
            self,
            Self::Pseudowire(_) | Self::L3vpn { .. } | Self::L2tpv3(_) | Self::Vxlan { .. }
        )
    }

    /// True if it takes the IP packet, by the packet's own length, and not the whole frame.
    pub(crate) fn takes_packet(&self) -> bool {
        matches!(self, Self::Esp(_) | Self::Ah(_) | Self::L3vpn { .. })
    }

    /// Its name, if the data plane does not carry it and only the calculator knows it.
    pub fn calculation_only(&self) -> Option<&'static str> {
        match self {
            Self::L2tpv3(_) => Some("L2TPv3"),
            Self::Vxlan { .. } => Some("VXLAN"),
            _ => None,
        }
    }
}

/// The word, if it applies.
fn word(on: bool, word: &'static str) -> &'static str {
    if on { word } else { "" }
}

/// The words for mode and outer header.
fn mode_words(mode: Mode, outer: IpVersion) -> &'static str {
    match (mode, outer) {
        (Mode::Tunnel, IpVersion::V4) => "tunnel",
        (Mode::Tunnel, IpVersion::V6) => "tunnel ipv6",
        (Mode::Transport, _) => "transport",
    }
}

impl fmt::Display for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Esp(esp) => {
                write!(f, "esp {} {}", esp.suite, mode_words(esp.mode, esp.outer))?;
                f.write_str(word(esp.udp_encap, " udp-encap"))?;
                f.write_str(word(esp.esn, " esn"))
            }
            Self::Ah(ah) => {
                let suite = ah.suite.ah_name().unwrap_or(ah.suite.name());
                write!(f, "ah {suite} {}", mode_words(ah.mode, ah.outer))?;
                f.write_str(word(ah.pad8, " pad8"))?;
                f.write_str(word(ah.esn, " esn"))
            }
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
                f.write_str(word(l2tp.outer == IpVersion::V6, " ipv6"))
            }
            Self::Vxlan { outer } => write!(f, "vxlan{}", word(*outer == IpVersion::V6, " ipv6")),
        }
    }
}
