//! Signature at the end of the payload of each frame of the tester.
//!
//! ```text
//!  0       2        4        6          10               15         18
//! +-------+--------+--------+----------+----------------+----------+
//! | magic | stream | covers | sequence | intended time  |  check   |
//! +-------+--------+--------+----------+----------------+----------+
//! ```
//!
//! At the end, so that it is found whatever stands in front by then: another
//! label, a VLAN tag, no label any more. 18 octets, so that UDP over IPv4 in the
//! smallest Ethernet frame has room for it.
//!
//! * *stream*: number in the low 10 bits, above it the trial modulo 32 (what is
//!   late from an earlier trial is not counted in this one), and a bit that says
//!   that the frame warms up and is not counted.
//! * *covers*: octets of payload before the signature that the check covers.
//! * *sequence*: the low 32 bits of the frame's place in its stream.
//! * *intended time*: the low 40 bits of the nanosecond at which it should have
//!   left, so that a sender that falls behind hides nothing.
//! * *check*: everything after the magic, and what it covers, modulo 2²⁴ − 1: a
//!   power of two added or taken away never makes that zero, so no single bit
//!   goes wrong unseen. A right magic with a wrong check is a corrupted frame,
//!   and so is a wrong magic with a right check.

/// Octets of the signature.
pub const LEN: usize = 18;
/// Octets behind the signature that are looked over for it: padding.
const PADDING_MAX: usize = 64;
const MAGIC: [u8; 2] = [0xfe, 0x72];
/// So that zeros alone are not a valid signature.
const SEED: u64 = 0x005e_ed17;
const MODULUS: u64 = 0xff_ffff;
const TIME_BITS: u32 = 40;

/// Streams of a trial at most.
pub const STREAMS_MAX: usize = 1 << 10;
const EPOCH_SHIFT: u32 = 10;
const EPOCH_MASK: u16 = 31;
const WARM_UP: u16 = 1 << 15;

/// Stream, trial and warm-up bit of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(u16);

impl Tag {
    /// Tag of a stream in a trial.
    pub const fn new(stream: u16, epoch: u16, warm_up: bool) -> Self {
        let warm_up = if warm_up { WARM_UP } else { 0 };
        Self(stream & (STREAMS_MAX as u16 - 1) | (epoch & EPOCH_MASK) << EPOCH_SHIFT | warm_up)
    }

    /// The stream.
    #[inline]
    pub const fn stream(self) -> usize {
        (self.0 & (STREAMS_MAX as u16 - 1)) as usize
    }

    /// True if the frame is of this trial.
    #[inline]
    pub const fn is_of(self, epoch: u16) -> bool {
        (self.0 >> EPOCH_SHIFT) & EPOCH_MASK == epoch & EPOCH_MASK
    }

    /// True if the frame only warms up.
    #[inline]
    pub const fn warms_up(self) -> bool {
        self.0 & WARM_UP != 0
    }
}

/// A signature as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Stream and trial of the frame.
    pub tag: Tag,
    /// The low 32 bits of its place in the stream.
    pub sequence: u32,
    time: u64,
}

/// Result of looking for a signature at the end of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A signature, and nothing wrong with what it covers.
    Good(Signature),
    /// A frame of the tester in which something changed; of this stream, as far
    /// as that can still be told.
    Corrupted(Option<Tag>),
    /// A frame of another sender.
    Foreign,
}

/// Sum of octets for the check.
#[inline]
pub fn weigh(octets: &[u8]) -> u64 {
    let (words, tail) = octets.as_chunks::<8>();
    let mut sum = 0u64;
    for word in words {
        let word = u64::from_le_bytes(*word);
        sum += (word >> 32) + (word & 0xffff_ffff);
    }
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(tail) {
        *to = *from;
    }
    let last = u64::from_le_bytes(last);
    sum + (last >> 32) + (last & 0xffff_ffff)
}

#[inline]
const fn check(weight: u64, tag: u16, covers: u16, sequence: u32, time: u64) -> u32 {
    let words = (tag as u64) << 16 | covers as u64;
    let time = (time >> 32) + (time & 0xffff_ffff);
    ((weight + SEED + words + sequence as u64 + time) % MODULUS) as u32
}

/// The octets of a signature. `weight` is [`weigh`] of the `covers` octets
/// before it.
#[inline]
pub fn emit(tag: Tag, covers: u16, weight: u64, sequence: u32, nanos: u64) -> [u8; LEN] {
    let time = nanos & ((1 << TIME_BITS) - 1);
    let check = check(weight, tag.0, covers, sequence, time);
    let mut out = [0; LEN];
    out[..2].copy_from_slice(&MAGIC);
    out[2..4].copy_from_slice(&tag.0.to_be_bytes());
    out[4..6].copy_from_slice(&covers.to_be_bytes());
    out[6..10].copy_from_slice(&sequence.to_be_bytes());
    out[10..15].copy_from_slice(&time.to_be_bytes()[3..]);
    out[15..].copy_from_slice(&check.to_be_bytes()[1..]);
    out
}

/// Reads the signature at the end of `frame`.
#[inline]
fn read(frame: &[u8]) -> Found {
    let Some((before, last)) = frame.split_last_chunk::<LEN>() else { return Found::Foreign };
    let at16 = |i: usize| u16::from_be_bytes([last[i], last[i + 1]]);
    let (tag, covers) = (at16(2), at16(4));
    let sequence = u32::from_be_bytes([last[6], last[7], last[8], last[9]]);
    let time = u64::from_be_bytes([0, 0, 0, last[10], last[11], last[12], last[13], last[14]]);
    let is_magic = last[..2] == MAGIC;
    let covered = before.len().checked_sub(covers.into()).and_then(|from| before.get(from..));
    let good = covered.is_some_and(|covered| {
        let check = check(weigh(covered), tag, covers, sequence, time);
        check.to_be_bytes()[1..] == last[15..]
    });
    match (is_magic, good) {
        (true, true) => Found::Good(Signature { tag: Tag(tag), sequence, time }),
        (true, false) => Found::Corrupted(Some(Tag(tag))),
        (false, true) => Found::Corrupted(None),
        (false, false) => Found::Foreign,
    }
}

/// Looks for a signature at the end of `frame`, and failing that in front of
/// what may be padding.
#[inline]
pub fn find(frame: &[u8]) -> Found {
    match read(frame) {
        found @ Found::Good(_) => found,
        // In front of padding, anything may look like a magic.
        other => find_padded(frame).unwrap_or(other),
    }
}

#[cold]
fn find_padded(frame: &[u8]) -> Option<Found> {
    for pad in 1..=PADDING_MAX.min(frame.len()) {
        let shorter = &frame[..frame.len() - pad];
        let magic = shorter.last_chunk::<LEN>().is_some_and(|last| last[..2] == MAGIC);
        if magic && let found @ Found::Good(_) = read(shorter) {
            return Some(found);
        }
    }
    None
}

impl Signature {
    /// The nanosecond at which the frame should have left, given that it is not
    /// more than nine minutes from `now`.
    #[inline]
    pub const fn intended(&self, now: u64) -> u64 {
        let unit = 1u64 << TIME_BITS;
        let back = now.wrapping_sub(self.time) & (unit - 1);
        if back <= unit / 2 {
            now.wrapping_sub(back)
        } else {
            // From the future: two clocks that do not agree.
            now.wrapping_add(unit - back)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(filler: &[u8], covers: usize, sequence: u32, nanos: u64) -> Vec<u8> {
        let weight = weigh(&filler[filler.len() - covers..]);
        let tag = Tag::new(5, 3, false);
        [filler, &emit(tag, covers as u16, weight, sequence, nanos)].concat()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn signature_survives_other_headers_and_padding_and_no_other_change(
            filler in proptest::collection::vec(any::<u8>(), 0..200), cover in 0usize..200,
            sequence: u32, nanos in 0u64..1 << 60, ago in 0u64..1 << 39,
            front in proptest::collection::vec(any::<u8>(), 0..30), padding in 0usize..46,
            bit: usize,
        ) {
            let covers = cover.min(filler.len());
            let mut octets = frame(&filler, covers, sequence, nanos);
            let moved = [&front[..], &octets, &vec![0; padding]].concat();
            let Found::Good(found) = find(&moved) else { panic!("{:?}", find(&moved)) };
            prop_assert_eq!((found.sequence, found.intended(nanos + ago)), (sequence, nanos));
            prop_assert_eq!(found.tag, Tag::new(5, 3, false));
            // Any one bit of what is covered, or of the signature itself.
            let first = (filler.len() - covers) * 8;
            let bit = first + bit % (octets.len() * 8 - first);
            octets[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(matches!(find(&octets), Found::Corrupted(_)), "bit {}", bit);
        }

        #[test]
        fn what_is_not_ours_is_foreign(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assume!(!octets.windows(2).any(|w| w == MAGIC));
            prop_assert!(!matches!(find(&octets), Found::Good(_)));
        }
    }

    #[test]
    fn time_is_read_within_nine_minutes_of_now_on_both_sides() {
        let octets = frame(&[], 0, 0, 1 << 45);
        let Found::Good(found) = find(&octets) else { panic!() };
        assert_eq!(found.intended((1 << 45) + 500_000_000_000), 1 << 45);
        assert_eq!(found.intended((1 << 45) - 100), 1 << 45);
        assert!(Tag::new(5, 35, true).is_of(3) && Tag::new(5, 35, true).warms_up());
    }
}
