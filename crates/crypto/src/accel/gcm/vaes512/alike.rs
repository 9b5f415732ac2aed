//! Groups of packets of one length of text and one of additional data: what streams
//! are.
//!
//! Up to 128 octets they are [`small`], and four go at once; longer ones go in
//! [`turns`].

use super::{small, turns, *};
use std::ptr;

/// What the packets of a stream have in common.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Alike {
    /// Octets of text.
    pub len: usize,
    /// Octets of additional data.
    pub ad_len: usize,
    /// Whose key they all have, if they have one.
    key: Option<*const Schedule>,
}

impl Alike {
    /// What the packets of a group have in common, if it is enough for a stream.
    #[inline(always)]
    pub fn of(lanes: &[Lane<'_>; GROUP]) -> Option<Self> {
        let [first, others @ ..] = lanes;
        let (len, ad_len) = (first.sealed.len(), first.ad.len());
        let (mut differ, mut one) = (false, true);
        for lane in others {
            differ |= (lane.sealed.len() != len) | (lane.ad.len() != ad_len);
            one &= ptr::eq(lane.key, first.key);
        }
        if differ | (len == 0) | (len > SHORT) | (ad_len > 2 * BLOCK) {
            return None;
        }
        Some(Self { len, ad_len, key: one.then_some(&raw const *first.key.schedule) })
    }

    /// Whether the next group is alike, too.
    #[inline(always)]
    pub fn has_next(&self, hand: &mut Hand<'_, '_>) -> bool {
        hand.group().whole().and_then(|lanes| Self::of(lanes)).is_some_and(|next| next == *self)
    }
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
        match alike.len {
            ..=128 if alike.key.is_some() => small::<R, SEAL, true>(hand, alike),
            ..=128 => small::<R, SEAL, false>(hand, alike),
            _ if multiplier == Multiplier::Slow => long::<R, SEAL, true>(hand, alike),
            _ => long::<R, SEAL, false>(hand, alike),
        }
    }
}

/// Those of more than 128 octets, with few products (`FEW`) or with all.
///
/// # Safety
/// They must be alike, and of that length; keys must have `R + 1` round keys.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
unsafe fn long<const R: usize, const SEAL: bool, const FEW: bool>(
    hand: &mut Hand<'_, '_>,
    alike: Alike,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match (alike.len - 1) % CHUNK / WIDTH {
            0 => turns::stream::<1, R, SEAL, FEW>(hand, alike),
            1 => turns::stream::<2, R, SEAL, FEW>(hand, alike),
            2 => turns::stream::<3, R, SEAL, FEW>(hand, alike),
            _ => turns::stream::<4, R, SEAL, FEW>(hand, alike),
        }
    }
}

/// Those of up to 128 octets, and of one key (`ONE`) or of several.
///
/// # Safety
/// They must be alike, and of that length; keys must have `R + 1` round keys.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
unsafe fn small<const R: usize, const SEAL: bool, const ONE: bool>(
    hand: &mut Hand<'_, '_>,
    alike: Alike,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match alike.len {
            WIDTH => small::stream::<1, true, R, SEAL, ONE>(hand, alike),
            ..WIDTH => small::stream::<1, false, R, SEAL, ONE>(hand, alike),
            _ => small::stream::<2, false, R, SEAL, ONE>(hand, alike),
        }
    }
}
