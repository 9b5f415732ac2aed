//! Numbers of fewer bits than a machine word, so that a `Repr` cannot hold one
//! that its field has no room for.

macro_rules! bits {
    ($(#[$doc:meta])+ $name:ident($int:ty), mask = $mask:literal) => {
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($int);

        impl $name {
            /// The largest value.
            pub const MAX: Self = Self($mask);

            /// The value, if it fits the field.
            pub const fn new(value: $int) -> Option<Self> {
                if value <= $mask { Some(Self(value)) } else { None }
            }

            /// The low bits of a number, as a field holds them.
            #[inline]
            pub const fn masked(value: $int) -> Self {
                Self(value & $mask)
            }

            /// The number.
            #[inline]
            pub const fn get(self) -> $int {
                self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

bits! {
    /// Differentiated services code point, 6 bits (RFC 2474 section 3).
    Dscp(u8), mask = 0x3f
}
bits! {
    /// IPv6 flow label, 20 bits (RFC 8200 section 3).
    FlowLabel(u32), mask = 0xf_ffff
}
bits! {
    /// MPLS label, 20 bits (RFC 3032 section 2.1).
    Label(u32), mask = 0xf_ffff
}
bits! {
    /// Three bits of priority: MPLS traffic class (RFC 5462) or 802.1Q PCP.
    TrafficClass(u8), mask = 0x7
}
