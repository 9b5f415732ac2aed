//! Identifiers that more than one layer needs.

use std::fmt;
use std::str::FromStr;

/// An IEEE 802 MAC address.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// ff:ff:ff:ff:ff:ff.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// No address.
    pub const ZERO: Self = Self([0; 6]);

    /// Group bit set: broadcast or multicast.
    #[inline]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// The 48 bits as a number.
    #[inline]
    pub const fn to_u64(self) -> u64 {
        let m = self.0;
        u64::from_be_bytes([0, 0, m[0], m[1], m[2], m[3], m[4], m[5]])
    }

    /// The low 48 bits of a number.
    #[inline]
    pub const fn from_u64(v: u64) -> Self {
        let b = v.to_be_bytes();
        Self([b[2], b[3], b[4], b[5], b[6], b[7]])
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let m = self.0;
        write!(f, "{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", m[0], m[1], m[2], m[3], m[4], m[5])
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MacAddr {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let wrong = || format!("`{s}` is not a MAC address such as 02:00:00:00:00:01");
        let mut out = [0; 6];
        let mut parts = s.split([':', '-']);
        for byte in &mut out {
            let part = parts.next().filter(|p| p.len() == 2).ok_or_else(wrong)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        if parts.next().is_some() { Err(wrong()) } else { Ok(Self(out)) }
    }
}

/// A port of the node, by its place in the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u16);

/// A routing table of the node; 0 is the global one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VrfId(pub u16);

impl VrfId {
    /// The global table.
    pub const GLOBAL: Self = Self(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_address_reads_back() {
        let m: MacAddr = "02:00:5e:10:00:ff".parse().unwrap();
        assert_eq!(m.to_string(), "02:00:5e:10:00:ff");
        assert_eq!(MacAddr::from_u64(m.to_u64()), m);
        for bad in
            ["", "02:00:00:00:00", "02:00:00:00:00:00:00", "2:0:0:0:0:0", "02:00:00:00:00:0g"]
        {
            assert!(bad.parse::<MacAddr>().is_err(), "{bad}");
        }
    }
}
