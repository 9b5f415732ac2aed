//! Format errors in received bytes: always a fault of the sender or the wire, never of this
//! node.

use ferrule_base::DropReason;
use std::fmt;

/// The rule that the bytes break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Malformed {
    /// The bytes end before the header does.
    Truncated,
    /// The version field is not this format's.
    Version,
    /// A length field contradicts the bytes or itself.
    Length,
    /// A checksum is wrong.
    Checksum,
    /// A reserved bit or value is used.
    Reserved,
    /// A type, operation or address family that this format does not have.
    Kind,
    /// More IPv6 extension headers than are walked.
    HeaderChain,
    /// More labels than are walked, or no bottom of stack.
    LabelStack,
    /// The first nibble of a control word is not zero (RFC 4385 section 3).
    ControlWord,
    /// SecTAG with the version bit set (802.1AE clause 9.5).
    SecTagVersion,
    /// SecTAG flags that exclude one another (802.1AE clause 9.5).
    SecTagFlags,
    /// SecTAG with E set and C clear, which a SecY must not open (clause 9.5).
    SecTagReserved,
    /// Short length out of range, or not that of the frame (clause 9.7).
    SecTagShortLength,
    /// ESP padding is not 1, 2, 3, ... or longer than the packet.
    EspTrailer,
}

impl Malformed {
    /// The counter that a packet dropped for this goes to.
    pub const fn drop_reason(self) -> DropReason {
        match self {
            Self::Truncated | Self::Version | Self::Length | Self::Reserved | Self::Kind => {
                DropReason::Malformed
            }
            Self::Checksum => DropReason::BadChecksum,
            Self::HeaderChain => DropReason::IpOption,
            Self::LabelStack => DropReason::LabelStack,
            Self::ControlWord => DropReason::ControlWord,
            Self::SecTagVersion
            | Self::SecTagFlags
            | Self::SecTagReserved
            | Self::SecTagShortLength => DropReason::MacsecBadTag,
            Self::EspTrailer => DropReason::EspBadTrailer,
        }
    }

    /// Description in a few words.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::Version => "wrong version",
            Self::Length => "contradictory length",
            Self::Checksum => "wrong checksum",
            Self::Reserved => "reserved value",
            Self::Kind => "unknown kind",
            Self::HeaderChain => "too many extension headers",
            Self::LabelStack => "label stack without end",
            Self::ControlWord => "no control word",
            Self::SecTagVersion => "SecTAG version",
            Self::SecTagFlags => "SecTAG flags contradict",
            Self::SecTagReserved => "SecTAG with E but not C",
            Self::SecTagShortLength => "SecTAG short length",
            Self::EspTrailer => "ESP padding",
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.about())
    }
}

impl std::error::Error for Malformed {}

impl From<Malformed> for DropReason {
    fn from(m: Malformed) -> Self {
        m.drop_reason()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_malformed_is_counted_where_people_look_for_it() {
        for (malformed, reason) in [
            (Malformed::Truncated, DropReason::Malformed),
            (Malformed::Checksum, DropReason::BadChecksum),
            (Malformed::LabelStack, DropReason::LabelStack),
            (Malformed::ControlWord, DropReason::ControlWord),
            (Malformed::SecTagReserved, DropReason::MacsecBadTag),
            (Malformed::EspTrailer, DropReason::EspBadTrailer),
        ] {
            assert_eq!(DropReason::from(malformed), reason);
            assert!(!malformed.to_string().is_empty());
        }
    }
}
