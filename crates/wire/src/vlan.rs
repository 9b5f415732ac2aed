//! VLAN tags: 802.1Q (type 0x8100) and 802.1ad (type 0x88a8), IEEE 802.1Q
//! clause 9.6. The format begins after the type that names it.
//!
//! ```text
//!  0   3 4              16               32
//! +---+-+---------------+----------------+
//! |PCP|D|      VID      |   EtherType    |   D: drop eligible
//! +---+-+---------------+----------------+
//! ```

use crate::{EtherType, Malformed, TrafficClass};
use std::fmt;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A VLAN identifier: 0 (priority only) to 4094.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vid(u16);

impl Vid {
    /// No VLAN: the tag carries a priority alone.
    pub const PRIORITY: Self = Self(0);

    /// The identifier; 4095 is reserved.
    pub const fn new(vid: u16) -> Option<Self> {
        if vid < 0xfff { Some(Self(vid)) } else { None }
    }

    /// The number.
    #[inline]
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Vid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The view of a tag after its type.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// Priority, drop eligible, VLAN identifier.
    pub tci: U16,
    /// Type of the following header.
    pub ethertype: U16,
}

impl Header {
    /// Octets of a tag, which a frame grows by.
    pub const LEN: usize = 4;

    /// The VLAN identifier, reserved 4095 included.
    #[inline]
    pub const fn vid(&self) -> u16 {
        self.tci.get() & 0xfff
    }

    /// The priority.
    #[inline]
    pub const fn priority(&self) -> TrafficClass {
        TrafficClass::masked((self.tci.get() >> 13) as u8)
    }

    /// Drop eligible.
    #[inline]
    pub const fn drop_eligible(&self) -> bool {
        self.tci.get() & 0x1000 != 0
    }

    /// Type of the header behind the tag.
    #[inline]
    pub const fn ethertype(&self) -> EtherType {
        EtherType(self.ethertype.get())
    }
}

/// The tag control information in 16 bits.
#[inline]
pub const fn tci(priority: TrafficClass, drop_eligible: bool, vid: Vid) -> u16 {
    (priority.get() as u16) << 13 | (drop_eligible as u16) << 12 | vid.0
}

/// A VLAN tag and the type of the header behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Priority code point.
    pub priority: TrafficClass,
    /// Drop eligible.
    pub drop_eligible: bool,
    /// The VLAN.
    pub vid: Vid,
    /// Type of the header behind the tag.
    pub ethertype: EtherType,
}

#[allow(clippy::len_without_is_empty)] // a header is never empty
impl Repr {
    /// Reads a tag.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (h, payload) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        let repr = Self {
            priority: h.priority(),
            drop_eligible: h.drop_eligible(),
            vid: Vid::new(h.vid()).ok_or(Malformed::Reserved)?,
            ethertype: h.ethertype(),
        };
        Ok((repr, payload))
    }

    /// Octets that `emit` writes.
    pub const fn len(&self) -> usize {
        Header::LEN
    }

    /// Writes the tag to the front of `buf`, which must hold `len()` octets.
    pub fn emit(&self, buf: &mut [u8]) {
        let h = Header {
            tci: tci(self.priority, self.drop_eligible, self.vid).into(),
            ethertype: self.ethertype.0.into(),
        };
        buf[..Header::LEN].copy_from_slice(h.as_bytes());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vlan {} p {}", self.vid, self.priority)?;
        if self.drop_eligible {
            f.write_str(" DEI")?;
        }
        write!(f, ", {}", self.ethertype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::hex;

    const EXAMPLE: &str = "b064 86dd 60";
    laws!(EXAMPLE);

    #[test]
    fn vlan_tag_means_what_an_independent_reader_says() {
        let bytes = hex(EXAMPLE);
        let (repr, _) = Repr::parse(&bytes).unwrap();
        let (other, _) = etherparse::SingleVlanHeader::from_slice(&bytes).unwrap();
        assert_eq!(repr.priority.get(), other.pcp.value());
        assert_eq!(repr.drop_eligible, other.drop_eligible_indicator);
        assert_eq!(repr.vid.get(), other.vlan_id.value());
        assert_eq!(repr.ethertype.0, other.ether_type.0);
        assert_eq!(repr.to_string(), "vlan 100 p 5 DEI, IPv6");
    }

    #[test]
    fn vlan_4095_is_refused() {
        assert_eq!(Repr::parse(&hex("0fff0800")).unwrap_err(), Malformed::Reserved);
    }
}
