//! Packets of one length of text and one of additional data: what streams are.
//!
//! Up to 128 octets they are [`small`], and four go at once; longer ones go in
//! [`turns`].

use super::{small, turns, *};
use std::ptr;

/// How many groups of packets stand at the front that are alike, and whether they
/// have one key.
#[inline]
pub(super) fn alike(lanes: &[Lane<'_>]) -> Option<(usize, bool)> {
    let (first, rest) = lanes.split_first()?;
    let (len, ad) = (first.text.len(), first.ad.len());
    if len == 0 || len > SHORT || ad > 2 * BLOCK {
        return None;
    }
    let (mut count, mut one) = (1, true);
    for lane in rest.iter().take(LANES - 1) {
        if lane.text.len() != len || lane.ad.len() != ad {
            break;
        }
        if one && !ptr::eq(lane.key, first.key) {
            // Those of one key are better off by themselves.
            if count >= GROUP {
                break;
            }
            one = false;
        }
        count += 1;
    }
    (count >= GROUP).then_some((count / GROUP, one))
}

/// Seals or opens packets that are alike: a bit for each that is good.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,vpclmulqdq,bmi2")]
pub(super) fn stream<const R: usize, const SEAL: bool>(
    groups: &mut [[Lane<'_>; GROUP]],
    one: bool,
) -> u64 {
    let Some([first, ..]) = groups.first() else { return 0 };
    let len = first.text.len();
    // SAFETY: they are alike, and so long; the caller's R is the key's.
    unsafe {
        match len {
            ..=128 if one => small::<R, SEAL, true>(groups, len),
            ..=128 => small::<R, SEAL, false>(groups, len),
            _ => match (len - 1) % CHUNK / WIDTH {
                0 => turns::stream::<1, R, SEAL>(groups),
                1 => turns::stream::<2, R, SEAL>(groups),
                2 => turns::stream::<3, R, SEAL>(groups),
                _ => turns::stream::<4, R, SEAL>(groups),
            },
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
    groups: &mut [[Lane<'_>; GROUP]],
    len: usize,
) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        match len {
            WIDTH => small::stream::<1, true, R, SEAL, ONE>(groups),
            ..WIDTH => small::stream::<1, false, R, SEAL, ONE>(groups),
            _ => small::stream::<2, false, R, SEAL, ONE>(groups),
        }
    }
}
