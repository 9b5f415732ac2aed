//! AES-CBC with HMAC, and HMAC alone, on the kernels that take many packets at a time.

use super::parts::Hashed;
use crate::accel::cbc::{self, Key, Packet, Packets};
use crate::job::{Ad, Op, Span, Task, Verdict};

/// Packets that wait until the batch is known, so that the longest come first.
#[derive(Default)]
pub(super) struct Waiting<'a>(Packets<'a>);

impl<'a> Waiting<'a> {
    #[inline]
    pub fn push(&mut self, key: &'a Key, task: Task<'a>) {
        let Task { buf, nonce, op, verdict, ad, text, .. } = task;
        let Some(parts) = Hashed::cut(buf, ad, text, key.block(), key.icv_len()) else {
            *verdict = Verdict::Failed;
            return;
        };
        if self.0.is_full() {
            cbc::run(&mut self.0);
            self.0.clear();
        }
        self.0.push(Packet { key, op, nonce, parts, verdict });
    }

    /// Works on all that wait.
    #[inline]
    pub fn finish(&mut self) {
        if !self.0.is_empty() {
            cbc::run(&mut self.0);
        }
    }
}

/// One packet.
pub(super) fn one(
    key: &Key,
    op: Op,
    nonce: &[u8; 12],
    ad: Ad,
    text: Span,
    buf: &mut [u8],
) -> Verdict {
    let mut verdict = Verdict::Failed;
    if let Some(parts) = Hashed::cut(buf, &ad, text, key.block(), key.icv_len()) {
        let mut packets = Packets::new();
        packets.push(Packet { key, op, nonce, parts, verdict: &mut verdict });
        cbc::run(&mut packets);
    }
    verdict
}
