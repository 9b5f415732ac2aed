//! A job's buffer cut into the parts that the modes need, each bound checked once; the two
//! kinds of ICV; and key stream on text.

use super::vault::{BLOCK, Block};
use ferrule_base::Secret;
use ferrule_crypto::{Ad, Job, Mac};
use ghash::universal_hash::UniversalHash;
use ghash::{GHash, universal_hash::KeyInit};
use hmac::Hmac;
use sha1::Sha1;
use sha2::Sha256;

/// Cuts an AEAD's buffer: additional data, text, ICV.
pub(super) fn aead<B: AsMut<[u8]>>(job: &mut Job<B>) -> Option<(&[u8], &mut [u8], &mut Block)> {
    let (front, rest) = job.buf.as_mut().split_at_mut_checked(job.text.start.into())?;
    let (text, rest) = rest.split_at_mut_checked(job.text.len.into())?;
    let ad = match &job.ad {
        Ad::Span(span) => front.get(span.range())?,
        Ad::Inline(octets) => &octets[..],
        Ad::SpanThen(..) | Ad::Widened(..) => return None,
    };
    Some((ad, text, rest.first_chunk_mut()?))
}

/// The buffer of a suite with a keyed hash: the octets that the hash covers in the buffer,
/// those that it covers after that, the ICV.
pub(super) struct Hashed<'a> {
    pub body: &'a mut [u8],
    pub after: Option<[u8; 4]>,
    pub icv: &'a mut [u8],
}

impl<'a> Hashed<'a> {
    pub fn cut<B: AsMut<[u8]>>(job: &'a mut Job<B>, icv_len: usize) -> Option<Self> {
        let (span, after) = match job.ad {
            Ad::Span(span) => (span, None),
            Ad::SpanThen(span, high) => (span, Some(high)),
            Ad::Inline(_) | Ad::Widened(..) => return None,
        };
        if span.end() != usize::from(job.text.start) {
            return None;
        }
        let (front, rest) = job.buf.as_mut().split_at_mut_checked(job.text.end())?;
        let body = front.get_mut(span.start.into()..)?;
        Some(Self { body, after, icv: rest.get_mut(..icv_len)? })
    }
}

/// GHASH under one key (SP 800-38D section 6.4). Wipes itself.
pub(super) struct Hash(GHash);

impl Hash {
    pub fn new(h: &Block) -> Self {
        Self(<GHash as KeyInit>::new(h.into()))
    }

    /// The hash of additional data and ciphertext: E(J0) XOR this is the tag.
    pub fn of(&self, ad: &[u8], text: &[u8]) -> Block {
        let mut hash = self.0.clone();
        hash.update_padded(ad);
        hash.update_padded(text);
        let bits = u128::from(ad.len() as u64 * 8) << 64 | u128::from(text.len() as u64 * 8);
        hash.update(&[bits.to_be_bytes().into()]);
        hash.finalize().into()
    }
}

/// A keyed hash with the states after its key.
pub(super) enum Keyed {
    Sha1(Hmac<Sha1>),
    Sha256(Hmac<Sha256>),
}

impl Keyed {
    pub fn new(mac: Mac, key: &Secret) -> Option<Self> {
        use hmac::KeyInit;
        let key = key.expose();
        match mac {
            Mac::HmacSha1_96 => Hmac::new_from_slice(key).ok().map(Self::Sha1),
            Mac::HmacSha256_128 => Hmac::new_from_slice(key).ok().map(Self::Sha256),
            // No study has others.
            _ => None,
        }
    }

    pub fn write(&self, parts: Hashed<'_>) {
        match self {
            Self::Sha1(mac) => write_icv(mac.clone(), parts),
            Self::Sha256(mac) => write_icv(mac.clone(), parts),
        }
    }

    /// True if the ICV is right; compared in constant time.
    pub fn check(&self, parts: &Hashed<'_>) -> bool {
        match self {
            Self::Sha1(mac) => is_icv(mac.clone(), parts),
            Self::Sha256(mac) => is_icv(mac.clone(), parts),
        }
    }
}

fn write_icv<M: hmac::Mac>(mac: M, parts: Hashed<'_>) {
    let after = parts.after.unwrap_or_default();
    let after = if parts.after.is_some() { &after[..] } else { &[] };
    let made = mac.chain_update(&*parts.body).chain_update(after).finalize().into_bytes();
    for (to, from) in parts.icv.iter_mut().zip(made) {
        *to = from;
    }
}

fn is_icv<M: hmac::Mac>(mac: M, parts: &Hashed<'_>) -> bool {
    let after = parts.after.unwrap_or_default();
    let after = if parts.after.is_some() { &after[..] } else { &[] };
    let mac = mac.chain_update(&*parts.body).chain_update(after);
    mac.verify_truncated_left(parts.icv).is_ok()
}

/// XORs a block of key stream onto the block of text with this index.
#[inline]
pub(super) fn cover(text: &mut [u8], index: usize, stream: &Block) {
    let from = text.len().min(index * BLOCK);
    for (octet, key) in text[from..].iter_mut().zip(stream) {
        *octet ^= key;
    }
}

/// Equality of two blocks in constant time.
pub(super) fn same(a: &Block, b: &Block) -> bool {
    a.iter().zip(b).fold(0, |acc, (a, b)| acc | (a ^ b)) == 0
}

/// One block on another.
pub(super) fn xor(a: &Block, b: &Block) -> Block {
    (u128::from_ne_bytes(*a) ^ u128::from_ne_bytes(*b)).to_ne_bytes()
}

/// Blocks of a text.
pub(super) const fn blocks_of(octets: usize) -> usize {
    octets.div_ceil(BLOCK)
}

/// The counter block of a packet: its nonce, and 1 for J0 (SP 800-38D section
/// 7.1), 2 for the first block of text, and so on.
pub(super) fn counter_block(nonce: &[u8; 12], index: u32) -> Block {
    let mut block = [0; BLOCK];
    block[..12].copy_from_slice(nonce);
    block[12..].copy_from_slice(&index.wrapping_add(1).to_be_bytes());
    block
}
