//! AES-CBC with HMAC on the kernels that take many packets at a time.
//!
//! A key of this kind answers alone as well, for what comes one by one.

use super::parts::Cbc;
use crate::accel::cbc::{self, Key, Packet, Packets};
use crate::job::{Ad, Job, Op, Span, Verdict};

/// Works through jobs whose keys are given beside them, a batch at a time.
#[inline]
pub(super) fn run<'a, B: AsMut<[u8]> + 'a>(
    jobs: impl Iterator<Item = (&'a Key, &'a mut Job<B>)>,
) {
    let mut packets = Packets::new();
    for (key, job) in jobs {
        let Job { buf, nonce, op, verdict, ad, text, .. } = job;
        let Some(parts) = Cbc::cut(buf.as_mut(), ad, *text, key.icv_len()) else {
            *verdict = Verdict::Failed;
            continue;
        };
        if packets.is_full() {
            cbc::run(&mut packets);
            packets.clear();
        }
        packets.push(Packet { key, op: *op, nonce, parts, verdict });
    }
    cbc::run(&mut packets);
}

/// Seals or opens one packet in place.
pub(super) fn one(
    key: &Key,
    op: Op,
    nonce: &[u8; 12],
    ad: Ad,
    text: Span,
    buf: &mut [u8],
) -> Verdict {
    let mut verdict = Verdict::Failed;
    if let Some(parts) = Cbc::cut(buf, &ad, text, key.icv_len()) {
        let mut packets = Packets::new();
        packets.push(Packet { key, op, nonce, parts, verdict: &mut verdict });
        cbc::run(&mut packets);
    }
    verdict
}
