//! Explicit congestion notification through tunnels (RFC 6040).

/// The two ECN bits of an IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct = 0,
    /// ECN-capable, codepoint 1.
    Ect1 = 1,
    /// ECN-capable, codepoint 0.
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// The low two bits of a TOS or traffic class octet.
    #[inline]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits.
    #[inline]
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// The outer field of a new tunnel packet: the inner one, in normal mode
    /// (RFC 6040 section 4.1).
    #[inline]
    pub const fn encapsulate(inner: Self) -> Self {
        inner
    }

    /// The field of the packet that leaves the tunnel (RFC 6040 section 4.2,
    /// figure 4); nothing where the packet must be dropped, as its sender could
    /// not learn of the congestion.
    #[inline]
    pub const fn decapsulate(inner: Self, outer: Self) -> Option<Self> {
        match (inner, outer) {
            (Self::NotEct, Self::Ce) => None,
            (Self::NotEct, _) => Some(Self::NotEct),
            (_, Self::Ce) => Some(Self::Ce),
            (Self::Ect0, Self::Ect1) => Some(Self::Ect1),
            (inner, _) => Some(inner),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ecn_leaves_a_tunnel_as_the_table_of_rfc_6040_says() {
        // Rows: inner Not-ECT, ECT(0), ECT(1), CE; columns: outer in the same order.
        const ORDER: [Ecn; 4] = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];
        const TABLE: [[Option<u8>; 4]; 4] = [
            [Some(0), Some(0), Some(0), None],
            [Some(2), Some(2), Some(1), Some(3)],
            [Some(1), Some(1), Some(1), Some(3)],
            [Some(3), Some(3), Some(3), Some(3)],
        ];
        for (inner, row) in ORDER.into_iter().zip(TABLE) {
            for (outer, expected) in ORDER.into_iter().zip(row) {
                assert_eq!(Ecn::decapsulate(inner, outer).map(Ecn::bits), expected);
            }
            assert_eq!(Ecn::from_bits(inner.bits() | 0xfc), Ecn::encapsulate(inner));
        }
    }
}
