//! A run of octets of one kind: its name, the rule that sets its size, and who may read it.

use crate::frame::Layer;

/// Kind of a run of octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it, `name` and `rule` say the rest
pub enum SegmentKind {
    /// A header that a user's frame can have, too.
    Layer(Layer),
    MacAddresses,
    EtherType,
    Payload,
    /// Octets behind a short frame that an Ethernet line put on.
    Padding,
    EspHeader,
    EspIv(&'static str),
    EspPadding,
    EspTrailer,
    EspIcv(&'static str),
    AhHeader,
    AhIv(&'static str),
    AhIcv(&'static str),
    AhPadding,
    /// With the value of its short-length field: 0 from 48 octets of secure data on.
    SecTag {
        short_length: u8,
    },
    Sci,
    MacsecIcv,
    Label,
    ControlWord,
    L2tpSession,
    L2tpCookie,
    L2tpSublayer,
    VxlanHeader,
}

impl SegmentKind {
    /// Name for people.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// The section or clause that sets its size.
    pub fn rule(self) -> &'static str {
        self.words().1
    }

    /// Name and rule.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Layer(layer) => layer.words(),
            Self::MacAddresses => ("MAC addresses", "802.3 cl. 3.2"),
            Self::EtherType => ("EtherType", "802.3 cl. 3.2"),
            Self::Payload => ("payload", "the user's"),
            Self::Padding => ("padding", "802.3 cl. 3.2.8"),
            Self::EspHeader => ("ESP header", "RFC 4303 §2.1-2.2"),
            Self::EspIv(rule) => ("ESP IV", rule),
            Self::EspPadding => ("ESP padding", "RFC 4303 §2.4"),
            Self::EspTrailer => ("ESP trailer", "RFC 4303 §2.5-2.6"),
            Self::EspIcv(rule) => ("ESP ICV", rule),
            Self::AhHeader => ("AH", "RFC 4302 §2.1-2.5"),
            Self::AhIv(rule) => ("AH IV", rule),
            Self::AhIcv(rule) => ("AH ICV", rule),
            Self::AhPadding => ("AH padding", "RFC 4302 §2.6"),
            Self::SecTag { .. } => ("SecTAG", "802.1AE cl. 9.3"),
            Self::Sci => ("SCI", "802.1AE cl. 9.9"),
            Self::MacsecIcv => ("MACsec ICV", "802.1AE cl. 9.11"),
            Self::Label => ("MPLS label", "RFC 3032 §2.1"),
            Self::ControlWord => ("PW control word", "RFC 4385 §3"),
            Self::L2tpSession => ("L2TPv3 session", "RFC 3931 §4.1"),
            Self::L2tpCookie => ("L2TPv3 cookie", "RFC 3931 §4.1"),
            Self::L2tpSublayer => ("L2TPv3 sublayer", "RFC 3931 §4.6"),
            Self::VxlanHeader => ("VXLAN", "RFC 7348 §5"),
        }
    }

    pub(crate) fn is_check_value(self) -> bool {
        matches!(self, Self::EspIcv(_) | Self::AhIcv(_) | Self::MacsecIcv)
    }

    pub(crate) fn is_tag(self) -> bool {
        matches!(self, Self::Layer(layer) if layer.is_tag())
    }

    pub(crate) fn is_ip(self) -> bool {
        matches!(self, Self::Layer(Layer::Ipv4 | Layer::Ipv6))
    }
}

/// Access that a reader on the last link has to a run of octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// Reads and could change them.
    Clear,
    /// Reads the value by which a change of other octets is noticed, and of itself.
    CheckValue,
    /// Reads them; a change is noticed.
    Authenticated,
    /// The first octets are authenticated only, the rest encrypted (confidentiality offset).
    EncryptedFrom(usize),
    /// Cannot read them; a change is noticed.
    Encrypted,
}

impl Protection {
    pub(crate) fn rank(self) -> u8 {
        match self {
            Self::Clear | Self::CheckValue => 0,
            Self::Authenticated => 1,
            Self::EncryptedFrom(_) => 2,
            Self::Encrypted => 3,
        }
    }
}

/// A run of octets of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Kind of octets.
    pub kind: SegmentKind,
    /// Number of octets.
    pub bytes: usize,
    /// Access that a reader on the last link has.
    pub protection: Protection,
    /// Origin of the octets: 0 the user, 1 the first transformation.
    pub stage: usize,
}
