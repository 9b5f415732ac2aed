//! The MACsec SecTAG (802.1AE clause 9), after its EtherType 0x88e5.
//!
//! ```text
//!  0               8      16                    48          112
//! +-+--+--+---+-+-+--+-+-+--------+-------------+-----------+
//! |V|ES|SC|SCB|E|C| AN |0|0|  SL  |     PN      |  SCI, if  |
//! +-+--+--+---+-+-+--+-+-+--------+-------------+  SC is 1  |
//! ```
//! Secure data and ICV follow. The MAC layer below pads short frames after the
//! ICV, so the short length SL tells the end of the ICV.

use crate::Malformed;
use ferrule_base::MacAddr;
use std::fmt;
use std::str::FromStr;
use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Octets of the ICV of every standard cipher suite.
pub const ICV_LEN: usize = 16;
/// Secure data of fewer octets has a short length.
pub const SHORT: usize = 48;
/// Octets of an explicit SCI.
pub const SCI_LEN: usize = 8;

const V: u8 = 0x80;
const ES: u8 = 0x40;
const SC: u8 = 0x20;
const SCB: u8 = 0x10;
const E: u8 = 0x08;
const C: u8 = 0x04;

/// A secure channel identifier: the sender's address and a port number.
#[derive(
    Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, FromBytes, IntoBytes, Immutable,
)]
#[repr(transparent)]
pub struct Sci(pub u64);

impl Sci {
    /// The port of an end station (ES).
    pub const PORT_END_STATION: u16 = 1;
    /// The port of single copy broadcast (SCB).
    pub const PORT_BROADCAST: u16 = 0;

    /// The channel of a port of a system.
    pub const fn new(system: MacAddr, port: u16) -> Self {
        Self(system.to_u64() << 16 | port as u64)
    }

    /// The sender's address.
    pub const fn system(self) -> MacAddr {
        MacAddr::from_u64(self.0 >> 16)
    }

    /// The port number.
    pub const fn port(self) -> u16 {
        self.0 as u16
    }

    /// The octets on the wire.
    pub const fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// The SCI from its octets on the wire.
    pub const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(u64::from_be_bytes(bytes))
    }
}

impl fmt::Display for Sci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.system(), self.port())
    }
}

impl fmt::Debug for Sci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Sci {
    type Err = String;

    /// Sixteen hexadecimal digits, or an address and a port as in
    /// `02:00:00:00:00:01/1`.
    fn from_str(s: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{s}` is not an SCI such as 0200000000010001 or 02:00:00:00:00:01/1");
        if let Some((system, port)) = s.split_once('/') {
            let port = port.parse().map_err(|_| wrong())?;
            return Ok(Self::new(system.parse().map_err(|_| wrong())?, port));
        }
        if s.len() != 16 || !s.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        u64::from_str_radix(s, 16).map(Self).map_err(|_| wrong())
    }
}

/// The view of the part that every SecTAG has.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// Tag control information and association number.
    pub tci_an: u8,
    /// Short length.
    pub short_len: u8,
    /// Packet number, of an extended one the low half.
    pub pn: U32,
}

impl Header {
    /// Octets of a SecTAG without SCI, after its EtherType.
    pub const LEN: usize = 6;
    /// Octets of a SecTAG with SCI, after its EtherType.
    pub const LEN_SCI: usize = Self::LEN + SCI_LEN;

    /// Association number.
    #[inline]
    pub const fn an(&self) -> u8 {
        self.tci_an & 3
    }

    /// True if an SCI follows.
    #[inline]
    pub const fn has_sci(&self) -> bool {
        self.tci_an & SC != 0
    }

    /// Octets of this SecTAG, after its EtherType.
    #[inline]
    pub const fn tag_len(&self) -> usize {
        if self.has_sci() { Self::LEN_SCI } else { Self::LEN }
    }

    /// True if the user data is encrypted.
    #[inline]
    pub const fn is_encrypted(&self) -> bool {
        self.tci_an & E != 0
    }

    /// True if the user data was changed, by encryption or otherwise.
    #[inline]
    pub const fn is_changed(&self) -> bool {
        self.tci_an & C != 0
    }

    /// True if version and flags go together, and the user data is either unchanged or
    /// encrypted.
    #[inline]
    pub const fn is_legal(&self) -> bool {
        LEGAL >> (self.tci_an >> 2) & 1 != 0
    }

    /// Octets of secure data in front of the ICV, if so many follow the SecTAG: as many as a
    /// short length says, or else all.
    #[inline]
    pub fn secured_len(&self, behind: usize) -> Option<usize> {
        let short = usize::from(self.short_len);
        let all = behind.checked_sub(ICV_LEN)?;
        match short {
            0 => (all >= SHORT).then_some(all),
            _ => (short < SHORT && short <= all).then_some(short),
        }
    }

    /// The SCI that flags and the source address tell, if there is none in the SecTAG.
    #[inline]
    pub const fn implied_sci(&self, source: MacAddr) -> Option<Sci> {
        let port = match self.tci_an & SCB {
            0 => Sci::PORT_END_STATION,
            _ => Sci::PORT_BROADCAST,
        };
        if self.tci_an & ES != 0 { Some(Sci::new(source, port)) } else { None }
    }
}

/// Values of the upper six bits of a SecTAG that are [legal](Header::is_legal), a bit each.
const LEGAL: u64 = {
    let (mut legal, mut bits) = (0, 0);
    while bits < 64 {
        let tci = bits << 2;
        let one_channel = tci & SC == 0 || tci & (ES | SCB) == 0;
        let one_change = (tci & E == 0) == (tci & C == 0);
        if tci & V == 0 && one_channel && one_change {
            legal |= 1 << bits;
        }
        bits += 1;
    }
    legal
};

/// Changes that the cipher suite made to the user data (E and C).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protection {
    /// No change: integrity only.
    Integrity,
    /// Changed, but not encrypted.
    Changed,
    /// Encrypted, from the confidentiality offset on.
    Confidentiality,
}

/// Encoding of the secure channel in the tag (ES, SC and SCB).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// The SCI is in the tag.
    Explicit(Sci),
    /// The end station with the frame's source address.
    EndStation {
        /// Single copy broadcast.
        broadcast: bool,
    },
    /// Single copy broadcast of the one peer.
    Broadcast,
    /// The one peer there is.
    Peer,
}

impl Channel {
    /// The SCI, where tag and source address tell it.
    #[inline]
    pub const fn sci(self, source: MacAddr) -> Option<Sci> {
        match self {
            Self::Explicit(sci) => Some(sci),
            Self::EndStation { broadcast: false } => Some(Sci::new(source, Sci::PORT_END_STATION)),
            Self::EndStation { broadcast: true } => Some(Sci::new(source, Sci::PORT_BROADCAST)),
            Self::Broadcast | Self::Peer => None,
        }
    }
}

/// A SecTAG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Secure channel of the frame.
    pub channel: Channel,
    /// Changes made to the user data.
    pub protection: Protection,
    /// Association number (2 bits).
    pub an: u8,
    /// Octets of secure data if below 48, else zero.
    pub short_len: u8,
    /// Packet number, of an extended one the low half. Zero is valid on the
    /// wire only with extended numbers: the SecY knows.
    pub pn: u32,
}

#[allow(clippy::len_without_is_empty)] // a tag is never empty
impl Repr {
    /// Reads a SecTAG by the rules of clause 9 and 10.6; the payload is secure
    /// data and ICV, without the padding after a short frame.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (h, rest) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        let (channel, rest) = channel(h.tci_an, rest)?;
        let repr = Self {
            channel,
            protection: match (h.is_encrypted(), h.is_changed()) {
                (false, false) => Protection::Integrity,
                (false, true) => Protection::Changed,
                (true, true) => Protection::Confidentiality,
                (true, false) => return Err(Malformed::SecTagReserved),
            },
            an: h.an(),
            short_len: h.short_len,
            pn: h.pn.get(),
        };
        Ok((repr, secured(h.short_len, rest)?))
    }

    /// Octets that `emit` writes.
    #[inline]
    pub const fn len(&self) -> usize {
        match self.channel {
            Channel::Explicit(_) => Header::LEN_SCI,
            _ => Header::LEN,
        }
    }

    /// The short length for `octets` of secure data.
    #[inline]
    pub const fn short_len(octets: usize) -> u8 {
        if octets < SHORT { octets as u8 } else { 0 }
    }

    /// The first octet: tag control information and association number.
    pub const fn tci_an(&self) -> u8 {
        let channel = match self.channel {
            Channel::Explicit(_) => SC,
            Channel::EndStation { broadcast: false } => ES,
            Channel::EndStation { broadcast: true } => ES | SCB,
            Channel::Broadcast => SCB,
            Channel::Peer => 0,
        };
        let protection = match self.protection {
            Protection::Integrity => 0,
            Protection::Changed => C,
            Protection::Confidentiality => E | C,
        };
        channel | protection | self.an & 3
    }

    /// Writes the SecTAG to the front of `buf`, which must hold `len()` octets.
    pub fn emit(&self, buf: &mut [u8]) {
        let h = Header { tci_an: self.tci_an(), short_len: self.short_len, pn: self.pn.into() };
        buf[..Header::LEN].copy_from_slice(h.as_bytes());
        if let Channel::Explicit(sci) = self.channel {
            buf[Header::LEN..Header::LEN_SCI].copy_from_slice(&sci.to_bytes());
        }
    }
}

/// Version, ES, SC and SCB; SC excludes both others.
#[inline]
fn channel(tci: u8, rest: &[u8]) -> Result<(Channel, &[u8]), Malformed> {
    if tci & V != 0 {
        return Err(Malformed::SecTagVersion);
    }
    let channel = match (tci & SC != 0, tci & ES != 0, tci & SCB != 0) {
        (true, false, false) => {
            let (sci, rest) = U64::read_from_prefix(rest).map_err(|_| Malformed::Truncated)?;
            return Ok((Channel::Explicit(Sci(sci.get())), rest));
        }
        (true, ..) => return Err(Malformed::SecTagFlags),
        (false, true, broadcast) => Channel::EndStation { broadcast },
        (false, false, true) => Channel::Broadcast,
        (false, false, false) => Channel::Peer,
    };
    Ok((channel, rest))
}

/// Secure data and ICV: exactly as many octets as a short length says, or else all.
#[inline]
fn secured(short_len: u8, rest: &[u8]) -> Result<&[u8], Malformed> {
    let short = usize::from(short_len);
    if short >= SHORT {
        return Err(Malformed::SecTagShortLength);
    }
    if short != 0 {
        rest.get(..short + ICV_LEN).ok_or(Malformed::SecTagShortLength)
    } else if rest.len() < SHORT + ICV_LEN {
        Err(Malformed::SecTagShortLength)
    } else {
        Ok(rest)
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MACsec an {} pn {}", self.an, self.pn)?;
        match self.channel {
            Channel::Explicit(sci) => write!(f, " sci {sci}")?,
            Channel::EndStation { broadcast: false } => f.write_str(" ES")?,
            Channel::EndStation { broadcast: true } => f.write_str(" ES SCB")?,
            Channel::Broadcast => f.write_str(" SCB")?,
            Channel::Peer => {}
        }
        f.write_str(match self.protection {
            Protection::Integrity => " integrity",
            Protection::Changed => " changed",
            Protection::Confidentiality => " encrypted",
        })?;
        if self.short_len != 0 { write!(f, " sl {}", self.short_len) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::hex;

    /// As a Linux SecY sent them: two octets of secure data and the ICV.
    const EXAMPLE: &str = "2c02 00000001 0200000000010001 3096 0b7ef650c272c7e979b80216de40f000";
    const NO_SCI: &str = "0c02 00000001 4dc8 06406132371d4ec6c43151fb846c519c";
    const END_STATION: &str = "4c02 00000001 8845 8f4b9ec32f8682480a1dfa522b014821";
    laws!(EXAMPLE);

    mod without_sci {
        use super::*;
        laws!(NO_SCI);
    }

    mod end_station {
        use super::*;
        laws!(END_STATION);
    }

    #[test]
    fn sectags_of_a_linux_secy_are_read() {
        let source: MacAddr = "02:00:00:00:00:01".parse().unwrap();
        let sci = Some(Sci(0x0200_0000_0001_0001));
        for (text, line, expected) in [
            (EXAMPLE, "MACsec an 0 pn 1 sci 02:00:00:00:00:01/1 encrypted sl 2", sci),
            (NO_SCI, "MACsec an 0 pn 1 encrypted sl 2", None),
            (END_STATION, "MACsec an 0 pn 1 ES encrypted sl 2", sci),
        ] {
            let mut bytes = hex(text);
            bytes.extend([0; 20]);
            let (repr, payload) = Repr::parse(&bytes).unwrap();
            assert_eq!(repr.to_string(), line);
            assert_eq!(repr.channel.sci(source), expected);
            assert_eq!(payload.len(), 2 + ICV_LEN, "the padding is cut off");
        }
    }

    #[test]
    fn the_view_judges_every_tci_and_short_length_as_the_representation() {
        let source: MacAddr = "02:00:00:00:00:01".parse().unwrap();
        for (tci, short_len) in (0..=255).flat_map(|tci| (0..=255).map(move |sl| (tci, sl))) {
            for len in [13, 14, 15, 30, 47, 63, 69, 70, 78, 90] {
                let mut bytes = vec![7; len];
                (bytes[0], bytes[1]) = (tci, short_len);
                let (header, _) = Header::ref_from_prefix(&bytes).unwrap();
                let behind = len.checked_sub(header.tag_len());
                let secured = behind.and_then(|behind| header.secured_len(behind));
                let secured = secured.filter(|_| header.is_legal());
                let parsed = Repr::parse(&bytes).ok();
                let parsed = parsed.filter(|(repr, _)| repr.protection != Protection::Changed);
                assert_eq!(secured, parsed.map(|(_, octets)| octets.len() - ICV_LEN));
                if let Some((repr, _)) = parsed.filter(|_| !header.has_sci()) {
                    assert_eq!(header.implied_sci(source), repr.channel.sci(source));
                }
            }
        }
    }

    #[test]
    fn sectag_rules_are_told_apart() {
        let refused = |at: usize, value: u8| {
            let mut bytes = hex(EXAMPLE);
            bytes[at] = value;
            Repr::parse(&bytes).unwrap_err()
        };
        assert_eq!(refused(0, 0xac), Malformed::SecTagVersion);
        assert_eq!(refused(0, 0x6c), Malformed::SecTagFlags);
        assert_eq!(refused(0, 0x3c), Malformed::SecTagFlags);
        assert_eq!(refused(0, 0x28), Malformed::SecTagReserved);
        assert_eq!(refused(1, 3), Malformed::SecTagShortLength);
        assert_eq!(refused(1, 0), Malformed::SecTagShortLength);
        assert_eq!(refused(1, 0x42), Malformed::SecTagShortLength);
        assert_eq!(refused(1, 48), Malformed::SecTagShortLength);
        let mut long = hex(EXAMPLE);
        long[1] = 0;
        long.resize(Header::LEN_SCI + 48 + 16, 7);
        assert_eq!(Repr::parse(&long).unwrap().1.len(), 64);
    }

    #[test]
    fn sci_is_written_and_read_in_both_forms() {
        let sci = Sci::new(MacAddr([2, 0, 0, 0, 0, 1]), 1);
        assert_eq!(sci.to_string(), "02:00:00:00:00:01/1");
        assert_eq!(sci.to_string().parse(), Ok(sci));
        assert_eq!("0200000000010001".parse(), Ok(sci));
        assert_eq!((sci.system().to_string().as_str(), sci.port()), ("02:00:00:00:00:01", 1));
        for bad in ["", "+200000000010001", "02:00:00:00:00:01/65536", "02000000000100011"] {
            assert!(bad.parse::<Sci>().is_err(), "{bad}");
        }
    }
}
