//! A job's buffer cut into the cipher's inputs, each bound checked once.
//!
//! ```text
//!   AEAD   … [ AD ] … [ text ][ ICV ] …     AD anywhere in front of the text
//!   pair   … [ AD ][ IV | blocks ][ ICV ] … AD and text in one piece
//! ```
//!
//! Spans come from received packets: one that does not fit gives nothing, and the job
//! fails.

use crate::job::{Ad, Span};

/// Octets of an AES block, and of the IV in front of CBC's text.
pub(crate) const BLOCK: usize = 16;

/// Inputs of an AEAD with an ICV of 16 octets.
pub(crate) struct Aead<'a> {
    pub ad: &'a [u8],
    pub text: &'a mut [u8],
    pub icv: &'a mut [u8; 16],
}

impl<'a> Aead<'a> {
    #[inline(always)]
    pub fn cut(buf: &'a mut [u8], ad: &'a Ad, text: Span) -> Option<Self> {
        let (ad, sealed) = Self::in_one(buf, ad, text)?;
        let (text, icv) = sealed.split_last_chunk_mut()?;
        Some(Self { ad, text, icv })
    }

    /// The additional data, and text and ICV in one piece.
    #[inline(always)]
    pub fn in_one(buf: &'a mut [u8], ad: &'a Ad, text: Span) -> Option<(&'a [u8], &'a mut [u8])> {
        // One bound for all: the others follow from it.
        let whole = buf.get_mut(..text.end() + 16)?;
        let (front, sealed) = whole.split_at_mut_checked(text.start as usize)?;
        match ad {
            Ad::Span(span) => Some((front.get(span.range())?, sealed)),
            _ => Some((Self::elsewhere(ad)?, sealed)),
        }
    }

    /// Additional data that are not in the packet.
    #[inline(always)]
    fn elsewhere(ad: &'a Ad) -> Option<&'a [u8]> {
        match ad {
            Ad::Inline(octets) => Some(octets),
            // An AEAD takes its additional data in one piece.
            _ => None,
        }
    }
}

/// Inputs of a cipher with a keyed hash, or of a keyed hash alone.
pub(crate) struct Hashed<'a> {
    /// Hashed before `body`: not in the buffer.
    pub before: &'a [u8],
    /// Additional data, and the text from `text` on.
    pub body: &'a mut [u8],
    /// Offset of the text in `body`: with CBC a whole number of blocks, the IV first.
    pub text: usize,
    /// Hashed after `body`: not in the buffer.
    pub after: &'a [u8],
    pub icv: &'a mut [u8],
}

impl<'a> Hashed<'a> {
    /// A text of whole blocks and at least one; of any length if `block` is 0.
    #[inline(always)]
    pub fn cut(
        buf: &'a mut [u8],
        ad: &'a Ad,
        text: Span,
        block: usize,
        icv_len: usize,
    ) -> Option<Self> {
        if block != 0 && (text.len == 0 || !(text.len as usize).is_multiple_of(block)) {
            return None;
        }
        let none: &[u8] = &[];
        let (before, span, after) = match ad {
            Ad::Span(span) => (none, *span, none),
            Ad::Inline(octets) => (&octets[..], Span { start: text.start, len: 0 }, none),
            Ad::SpanThen(span, high) => (none, *span, &high[..]),
            Ad::Widened(..) => return None,
        };
        if span.end() != text.start as usize {
            return None;
        }
        let (front, rest) = buf.split_at_mut_checked(text.end())?;
        let body = front.get_mut(span.start as usize..)?;
        let icv = rest.get_mut(..icv_len)?;
        Some(Self { before, body, text: span.len as usize, after, icv })
    }
}

/// The block from which CBC makes its IV: the nonce, padded with zeros.
#[inline(always)]
pub(crate) fn nonce_block(nonce: &[u8; 12]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..12].copy_from_slice(nonce);
    block
}
