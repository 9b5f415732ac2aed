//! One packet's work for a crypto engine, owned.

use crate::key::KeyId;

/// Octets of the job's buffer: `start..start + len`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First octet.
    pub start: u16,
    /// Number of octets.
    pub len: u16,
}

impl Span {
    /// `start..start + len`.
    #[inline]
    pub const fn new(start: usize, len: usize) -> Self {
        debug_assert!(start + len <= u16::MAX as usize);
        Self { start: start as u16, len: len as u16 }
    }

    /// One past the last octet.
    #[inline]
    pub const fn end(self) -> usize {
        self.start as usize + self.len as usize
    }

    /// The same octets as a range for slicing.
    #[inline]
    pub const fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end()
    }
}

/// Seal or open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Encrypt the text in place and write the ICV behind it.
    Seal,
    /// Check the ICV behind the text; only if it is right, decrypt in place.
    Open,
}

/// Additional data: under the ICV, not encrypted. (In C's order, so that the fields of a
/// variant lie on words of their own and are moved in words.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Ad {
    /// Octets of the buffer in front of the text. For a cipher with a keyed hash
    /// they must end where the text starts.
    Span(Span),
    /// Not as in the packet: an AEAD's with extended sequence numbers
    /// (RFC 4106 section 5), SPI and 64-bit number.
    Inline([u8; 12]),
    /// Octets of the buffer in front of the text, and the high half of the
    /// sequence number after it (RFC 4303 section 2.2.1 and RFC 4302 section 2.5.1,
    /// integrity by a keyed hash or by GMAC). Fails with an AEAD.
    SpanThen(Span, [u8; 4]),
    /// Octets of the buffer in front of the text, with the high half of the
    /// sequence number put in after the first four, which are the SPI: GMAC in ESP
    /// (RFC 4543 section 3.3). Four octets must stand in front of them. Fails with
    /// every other suite.
    Widened(Span, [u8; 4]),
}

/// Result of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The job is not done.
    Pending,
    /// Sealed, or opened and authentic.
    Done,
    /// The ICV does not match. The text is not to be used: it is still
    /// encrypted, or zeros. Additional data and ICV are as they were.
    BadIcv,
    /// Its key stream is gone, or was never made: the packet came too late or is
    /// not one that was expected. (Engines whose keys are on a token.)
    Gone,
    /// The engine could not: no such key, a span outside the buffer, a text
    /// that is not whole blocks. The buffer is as it was, or the text is zeros.
    Failed,
}

/// One packet to seal or open.
///
/// A job that owns its packet can go to any engine. `Job<()>` is a job whose packet lies
/// in a buffer beside it, for an engine that is done when the call returns
/// ([`crate::Engine::run_beside`]); [`map`](Self::map) makes one of the other.
///
/// The ICV stands right behind the text, `icv_len` octets of the key's suite;
/// the buffer must have them already when sealing.
///
/// The nonce of an AEAD is the whole 12 octets, made by the caller (ESP: salt
/// and IV; MACsec: SCI and PN; XPN: salt XOR SSCI and PN).
///
/// With a cipher in CBC mode the text starts with the IV, a block. Sealing writes it: the
/// encrypted nonce, padded with zeros or cut to its last octets (SP 800-38A appendix C,
/// first method), so a number that never repeats gives an IV that cannot be predicted.
/// Opening takes the IV from there and leaves it.
///
/// With AES-CTR the nonce is made by the caller, as for an AEAD; the IV in the packet
/// is additional data. With integrity alone ([`crate::Suite::is_integrity`])
/// everything is additional data, and the text behind it is empty.
#[derive(Debug)]
pub struct Job<B> {
    /// The packet. Spans count from its first octet.
    pub buf: B,
    /// Key to use.
    pub key: KeyId,
    /// The submitter's own mark; engines leave it alone.
    pub ticket: u64,
    /// Sequence or packet number, the submitter's own too.
    pub number: u64,
    /// The nonce.
    pub nonce: [u8; 12],
    /// Seal or open.
    pub op: Op,
    /// Result, written by the engine.
    pub verdict: Verdict,
    /// Additional data: under the ICV, not encrypted.
    pub ad: Ad,
    /// Encrypted, and under the ICV. May be empty (integrity only).
    pub text: Span,
}

/// A job taken apart, and its octets: those that it owns, or those beside it.
pub(crate) struct Task<'a> {
    pub buf: &'a mut [u8],
    pub key: KeyId,
    pub nonce: &'a [u8; 12],
    pub op: Op,
    pub verdict: &'a mut Verdict,
    pub ad: &'a Ad,
    pub text: Span,
}

impl<'a> Task<'a> {
    /// The task of a job that owns its buffer.
    #[inline(always)]
    pub fn of<B: AsMut<[u8]>>(job: &'a mut Job<B>) -> Self {
        let Job { buf, key, nonce, op, verdict, ad, text, .. } = job;
        Self { buf: buf.as_mut(), key: *key, nonce, op: *op, verdict, ad, text: *text }
    }

    /// The task of a job whose buffer lies beside it.
    #[inline(always)]
    pub fn beside<B: AsMut<[u8]>>(job: &'a mut Job<()>, buf: &'a mut B) -> Self {
        let Job { key, nonce, op, verdict, ad, text, .. } = job;
        Self { buf: buf.as_mut(), key: *key, nonce, op: *op, verdict, ad, text: *text }
    }
}

impl Job<()> {
    /// A job that says nothing yet, for a place in a column of jobs.
    pub const BLANK: Self = Self {
        buf: (),
        key: KeyId { slot: 0, generation: 0 },
        ticket: 0,
        number: 0,
        nonce: [0; 12],
        op: Op::Seal,
        verdict: Verdict::Failed,
        ad: Ad::Inline([0; 12]),
        text: Span { start: 0, len: 0 },
    };
}

impl<B> Job<B> {
    /// True if the job is not done yet.
    #[inline(always)]
    pub(crate) fn is_pending(&self) -> bool {
        self.verdict == Verdict::Pending
    }

    /// The same job with another buffer.
    #[inline]
    pub fn map<C>(self, buf: impl FnOnce(B) -> C) -> Job<C> {
        let Self { buf: old, key, ticket, number, nonce, op, verdict, ad, text } = self;
        Job { buf: buf(old), key, ticket, number, nonce, op, verdict, ad, text }
    }
}
