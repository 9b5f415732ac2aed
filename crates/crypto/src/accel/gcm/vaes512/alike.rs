//! Groups of packets of about one length of text and one of additional data: of one class.
//!
//! Up to 128 octets they are [`small`], and four go at once; longer ones go in
//! [`turns`]. Octets that a packet has less than its group are masked.

use super::{small, turns, *};
use std::ptr;

/// Properties shared by the packets of a group.
#[derive(Clone, Copy)]
pub(super) struct Alike {
    /// Full chunks in front of each text's last 1 to 256 octets; none of those up to 128.
    pub chunks: usize,
    /// Vectors of the longest behind them, the last one maybe not whole.
    pub vectors: usize,
    /// Octets of every text, if they are of one length.
    pub len: Option<usize>,
    /// Octets of additional data.
    pub ad_len: usize,
    /// Key of all packets; nothing if their keys differ.
    key: Option<*const Schedule>,
}

impl Alike {
    /// Shared properties of a group's packets, if they have enough in common.
    #[inline(always)]
    pub fn of(lanes: &[Lane<'_>; GROUP]) -> Option<Self> {
        let [first, others @ ..] = lanes;
        let ad_len = first.ad.len();
        let (mut longest, mut shortest) = (first.sealed.len(), first.sealed.len());
        let (mut differ, mut one) = (false, true);
        for lane in others {
            longest = longest.max(lane.sealed.len());
            shortest = shortest.min(lane.sealed.len());
            differ |= lane.ad.len() != ad_len;
            one &= ptr::eq(lane.key, first.key);
        }
        let chunks = longest.saturating_sub(1) / CHUNK;
        // Above the length that goes four at a time, they may lack one vector, not a chunk.
        let vectors = |len: usize| len.saturating_sub(1) / WIDTH;
        let lack = vectors(longest) - vectors(shortest);
        differ |= (longest > 2 * WIDTH) & ((lack > 1) | (shortest <= CHUNK * chunks));
        if differ | (longest == 0) | (longest > SHORT) | (ad_len > 2 * BLOCK) {
            return None;
        }
        let vectors = (longest - CHUNK * chunks).div_ceil(WIDTH);
        let len = (shortest == longest).then_some(longest);
        let key = one.then_some(&raw const *first.key.schedule);
        Some(Self { chunks, vectors, len, ad_len, key })
    }

    /// True if the next group can reuse this one's masks and keys.
    #[inline(always)]
    pub fn has_next(&self, hand: &mut Hand<'_, '_>) -> bool {
        hand.group().whole().and_then(|lanes| Self::of(lanes)).is_some_and(|next| {
            (next.chunks, next.vectors, next.ad_len) == (self.chunks, self.vectors, self.ad_len)
                && (self.key.is_none() || next.key == self.key)
                && (self.len.is_none() || !self.is_small() || next.len == self.len)
        })
    }

    /// True if four packets go at once.
    pub const fn is_small(&self) -> bool {
        self.chunks == 0 && self.vectors <= 2
    }

    /// True if additional data are hashed with the first section of the text; if there
    /// is no other, they are multiplied for four packets at once.
    pub const fn is_long(&self) -> bool {
        self.chunks >= SECTION / CHUNK
    }
}

/// The packets' length blocks: bits of text, and of additional data.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
pub(super) fn lengths(lanes: &[Lane<'_>; GROUP], ad_len: usize) -> __m512i {
    let bits = |lane: &Lane<'_>| ((ad_len as i64) << 35) | (lane.sealed.len() as i64) << 3;
    let [a, b, c, d] = lanes.each_ref().map(bits);
    _mm512_cvtepu32_epi64(_mm256_set_epi64x(d, c, b, a))
}

/// Seals or opens groups as long as they are alike.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
pub(super) fn stream<const R: usize, const SEAL: bool>(
    hand: &mut Hand<'_, '_>,
    alike: Alike,
    multiplier: Multiplier,
) {
    // SAFETY: they are alike, and so long; the caller's R is the key's.
    unsafe {
        match (alike.is_small(), alike.key) {
            (true, Some(_)) => small::<R, SEAL, true>(hand, alike),
            (true, None) => small::<R, SEAL, false>(hand, alike),
            _ if multiplier == Multiplier::Slow => long::<R, SEAL, true>(hand, alike),
            _ => long::<R, SEAL, false>(hand, alike),
        }
    }
}

/// Processes texts of more than 128 octets, with few products (`FEW`) or with all.
///
/// # Safety
/// The packets must be as `alike` says, of that length; keys must have `R + 1` round keys.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
unsafe fn long<const R: usize, const SEAL: bool, const FEW: bool>(
    hand: &mut Hand<'_, '_>,
    alike: Alike,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match alike.vectors {
            1 => turns::stream::<1, R, SEAL, FEW>(hand, alike),
            2 => turns::stream::<2, R, SEAL, FEW>(hand, alike),
            3 => turns::stream::<3, R, SEAL, FEW>(hand, alike),
            _ => turns::stream::<4, R, SEAL, FEW>(hand, alike),
        }
    }
}

/// Processes texts of up to 128 octets, with one key (`ONE`) or several.
///
/// # Safety
/// The packets must be as `alike` says, of that length; keys must have `R + 1` round keys.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
unsafe fn small<const R: usize, const SEAL: bool, const ONE: bool>(
    hand: &mut Hand<'_, '_>,
    alike: Alike,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match (alike.vectors, alike.len.is_some()) {
            (1, true) => small::stream::<1, true, R, SEAL, ONE>(hand, alike),
            (1, false) => small::stream::<1, false, R, SEAL, ONE>(hand, alike),
            (_, true) => small::stream::<2, true, R, SEAL, ONE>(hand, alike),
            (_, false) => small::stream::<2, false, R, SEAL, ONE>(hand, alike),
        }
    }
}
