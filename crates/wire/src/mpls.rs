//! MPLS label stack entries (RFC 3032 section 2.1, RFC 5462) and stacks.
//!
//! ```text
//!  0                      20  23 24          32
//! +----------------------+---+-+-------------+
//! |        label         |TC |S|     TTL     |   S: bottom of stack
//! +----------------------+---+-+-------------+
//! ```

use crate::{Label, Malformed, TrafficClass};
use std::fmt;
use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Entries that are walked before a stack is given up.
pub const MAX_DEPTH: usize = 16;

/// Special-purpose labels 0 to 15 (RFC 7274 section 5).
pub mod special {
    use crate::Label;
    /// IPv4 follows: pop and route (RFC 3032, RFC 4182).
    pub const EXPLICIT_NULL_V4: Label = Label::masked(0);
    /// The packet is for the router's own inspection.
    pub const ROUTER_ALERT: Label = Label::masked(1);
    /// IPv6 follows: pop and route.
    pub const EXPLICIT_NULL_V6: Label = Label::masked(2);
    /// Only in signalling: pop one hop early. Never on the wire.
    pub const IMPLICIT_NULL: Label = Label::masked(3);
    /// An entropy label follows (RFC 6790).
    pub const ENTROPY_INDICATOR: Label = Label::masked(7);
    /// An associated channel header follows (RFC 5586).
    pub const GAL: Label = Label::masked(13);
    /// Extended special-purpose labels follow (RFC 7274).
    pub const EXTENSION: Label = Label::masked(15);
    /// The first label that has no special purpose.
    pub const FIRST_ORDINARY: Label = Label::masked(16);
}

/// The view of an entry.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// Label, traffic class, bottom of stack and TTL.
    pub entry: U32,
}

impl Header {
    /// Octets of an entry.
    pub const LEN: usize = 4;

    /// The label.
    #[inline]
    pub const fn label(&self) -> Label {
        Label::masked(self.entry.get() >> 12)
    }

    /// Traffic class.
    #[inline]
    pub const fn traffic_class(&self) -> TrafficClass {
        TrafficClass::masked((self.entry.get() >> 9) as u8)
    }

    /// True if this is the last entry.
    #[inline]
    pub const fn is_bottom(&self) -> bool {
        self.entry.get() & 0x100 != 0
    }

    /// Time to live.
    #[inline]
    pub const fn ttl(&self) -> u8 {
        self.entry.get() as u8
    }

    /// Another TTL; all else stays.
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) {
        self.entry = (self.entry.get() & !0xff | u32::from(ttl)).into();
    }
}

/// An entry in octets. The low 20 bits of `label` and the low 3 of `class` count.
#[inline]
pub const fn encode(label: u32, class: u8, bottom: bool, ttl: u8) -> [u8; 4] {
    let word =
        (label & 0xf_ffff) << 12 | (class as u32 & 7) << 9 | (bottom as u32) << 8 | ttl as u32;
    word.to_be_bytes()
}

/// Label, traffic class, bottom of stack and TTL of an entry.
#[inline]
pub const fn decode(entry: [u8; 4]) -> (u32, u8, bool, u8) {
    let word = u32::from_be_bytes(entry);
    (word >> 12, (word >> 9) as u8 & 7, word & 0x100 != 0, word as u8)
}

/// A label stack entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Repr {
    /// The label.
    pub label: Label,
    /// Traffic class.
    pub traffic_class: TrafficClass,
    /// Bottom of stack.
    pub bottom: bool,
    /// Time to live.
    pub ttl: u8,
}

#[allow(clippy::len_without_is_empty)] // an entry is never empty
impl Repr {
    /// Reads one entry.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (h, payload) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        let repr = Self {
            label: h.label(),
            traffic_class: h.traffic_class(),
            bottom: h.is_bottom(),
            ttl: h.ttl(),
        };
        Ok((repr, payload))
    }

    /// Octets that `emit` writes.
    pub const fn len(&self) -> usize {
        Header::LEN
    }

    /// The entry in octets.
    pub const fn encoded(&self) -> [u8; 4] {
        encode(self.label.get(), self.traffic_class.get(), self.bottom, self.ttl)
    }

    /// Writes the entry to the front of `buf`, which must hold `len()` octets.
    pub fn emit(&self, buf: &mut [u8]) {
        buf[..Header::LEN].copy_from_slice(&self.encoded());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MPLS {} tc {} ttl {}", self.label, self.traffic_class, self.ttl)?;
        if self.bottom { f.write_str(" S") } else { Ok(()) }
    }
}

/// A whole label stack, top first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    entries: [Repr; MAX_DEPTH],
    depth: usize,
}

impl Stack {
    /// Reads entries to the bottom of the stack; the payload follows it.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let mut stack = Self { entries: [Repr::default(); MAX_DEPTH], depth: 0 };
        let mut rest = bytes;
        for slot in &mut stack.entries {
            (*slot, rest) = Repr::parse(rest)?;
            stack.depth += 1;
            if slot.bottom {
                return Ok((stack, rest));
            }
        }
        Err(Malformed::LabelStack)
    }

    /// The entries, top first.
    pub fn entries(&self) -> &[Repr] {
        &self.entries[..self.depth]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::hex;
    use proptest::prelude::*;

    /// Two labels above IPv4, as a provider edge sent them.
    const EXAMPLE: &str = "0006503f 003e913f 45b80024";
    laws!(EXAMPLE);

    #[test]
    fn label_stack_of_a_captured_packet() {
        let bytes = hex(EXAMPLE);
        let (stack, payload) = Stack::parse(&bytes).unwrap();
        let text: Vec<_> = stack.entries().iter().map(ToString::to_string).collect();
        assert_eq!(text, ["MPLS 101 tc 0 ttl 63", "MPLS 1001 tc 0 ttl 63 S"]);
        assert_eq!(payload, &bytes[8..]);
        for n in 0..8 {
            assert_eq!(Stack::parse(&bytes[..n]), Err(Malformed::Truncated));
        }
    }

    #[test]
    fn label_stack_without_bottom_is_refused() {
        let endless = encode(16, 0, false, 9).repeat(MAX_DEPTH + 1);
        assert_eq!(Stack::parse(&endless), Err(Malformed::LabelStack));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn label_entries_change_in_place_alone(
            label in 0u32..1 << 20, class in 0u8..8, bottom: bool, ttl: u8,
        ) {
            let mut entry = encode(label, class, bottom, ttl);
            prop_assert_eq!(decode(entry), (label, class, bottom, ttl));
            let (h, _) = Header::mut_from_prefix(&mut entry).unwrap();
            h.set_ttl(!ttl);
            prop_assert_eq!(decode(entry), (label, class, bottom, !ttl));
        }
    }
}
