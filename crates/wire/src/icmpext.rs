//! Extensions of ICMP errors (RFC 4884), and the label stack that they tell (RFC 4950).
//!
//! ```text
//! │ ICMP │ packet in question, padded │ 2 │ checksum │ length │ 1 │ 1 │ label stack │
//! │ says │  at least 128 octets       │   structure   │       object                │
//! │ how long, in words │
//! ```

use crate::checksum::checksum;
use crate::mpls::{self, Stack};

/// Octets of the packet in question at least (RFC 4884 section 5.1).
pub const QUOTED_MIN: usize = 128;
/// Octets of the structure's header, and of an object's.
const HEADER: usize = 4;
const VERSION: u8 = 2;
/// MPLS label stack class, incoming stack (RFC 4950 section 3).
const INCOMING_STACK: [u8; 2] = [1, 1];

/// Octets of an extension that tells a label stack of so many octets.
pub const fn len(stack: usize) -> usize {
    2 * HEADER + stack
}

/// Writes an extension that tells a label stack; `buf` has [`len`] octets.
pub fn emit(stack: &[u8], buf: &mut [u8]) {
    let length = (HEADER + stack.len()) as u16;
    buf[..HEADER].copy_from_slice(&[VERSION << 4, 0, 0, 0]);
    buf[HEADER..HEADER + 2].copy_from_slice(&length.to_be_bytes());
    buf[HEADER + 2..2 * HEADER].copy_from_slice(&INCOMING_STACK);
    buf[2 * HEADER..].copy_from_slice(stack);
    let sum = checksum(buf);
    buf[2..4].copy_from_slice(&sum.to_be_bytes());
}

/// The label stack in an extension; nothing if there is none, or the extension is damaged.
pub fn label_stack(extension: &[u8]) -> Option<Stack> {
    let (header, mut objects) = extension.split_at_checked(HEADER)?;
    if header[0] >> 4 != VERSION || checksum(extension) != 0 {
        return None;
    }
    while let Some((&[high, low, class, kind], rest)) = objects.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([high, low]));
        let (content, others) = rest.split_at_checked(length.checked_sub(HEADER)?)?;
        if [class, kind] == INCOMING_STACK {
            let (stack, behind) = Stack::parse(content).ok()?;
            return behind.is_empty().then_some(stack);
        }
        objects = others;
    }
    None
}

/// Octets of a label stack at most.
pub const STACK_MAX: usize = mpls::MAX_DEPTH * mpls::Header::LEN;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(stack: &[u8]) -> Vec<u8> {
        let mut buf = vec![0xa5; len(stack.len())];
        emit(stack, &mut buf);
        buf
    }

    /// Object header and stack as RFC 4950 section 3 draws them.
    #[test]
    fn icmp_extension_has_the_octets_of_the_rfc() {
        let stack = [mpls::encode(16, 0, false, 1), mpls::encode(300, 5, true, 64)].concat();
        let buf = written(&stack);
        assert_eq!(buf[..2], [0x20, 0]);
        assert_eq!(buf[4..], [&[0, 12, 1, 1][..], &[0, 1, 0, 1, 0, 0x12, 0xcb, 64]].concat());
        // Ones' complement of 2000 + 000c + 0101 + 0001 + 0001 + 0012 + cb40.
        assert_eq!(buf[2..4], (!0xec61_u16).to_be_bytes());
    }

    #[test]
    fn icmp_extension_with_another_object_in_front_is_read() {
        let stack = mpls::encode(77, 0, true, 1);
        let mut buf = written(&stack);
        buf.splice(4..4, [0, 8, 2, 15, 1, 2, 3, 4]);
        buf[2..4].fill(0);
        let sum = checksum(&buf);
        buf[2..4].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(label_stack(&buf).unwrap().entries()[0].label.get(), 77);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn icmp_extension_reads_back_and_damage_is_seen(
            labels in proptest::collection::vec((0u32..1 << 20, 0u8..8, any::<u8>()), 1..16),
            at: proptest::sample::Index, flip in 1u8..,
        ) {
            let last = labels.len() - 1;
            let entries = labels.iter().enumerate();
            let stack: Vec<u8> = entries
                .flat_map(|(n, &(label, class, ttl))| mpls::encode(label, class, n == last, ttl))
                .collect();
            let mut buf = written(&stack);
            let read = label_stack(&buf).unwrap();
            let again: Vec<u8> = read.entries().iter().flat_map(mpls::Repr::encoded).collect();
            prop_assert_eq!(&again, &stack);
            let at = at.index(buf.len());
            buf[at] ^= flip;
            prop_assert!(label_stack(&buf).is_none());
        }

        #[test]
        fn icmp_extension_takes_any_octets(octets: Vec<u8>) {
            let _ = label_stack(&octets);
        }
    }
}
