//! The bare AEAD: what is sealed of as many packets as a node has under way, and nothing
//! else.

use crate::dut::UNDER_WAY;
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ferrule_base::Secret;
use ferrule_crypto::engine::BATCH;
use ferrule_crypto::{
    Ad, Aes, Backend, Engine, Job, Jobs, KeySpec, Op, Software, Span, Suite, Verdict,
};
use std::hint::black_box;

/// Octets from one of the node's buffers to the next.
const STRIDE: usize = 2048 + 64;
/// Octets of a cache line.
const LINE: usize = 64;

/// Spans of a packet that the bare cipher is given.
#[derive(Clone, Copy)]
pub struct Plain {
    /// Octets that are sealed in place.
    pub len: usize,
    /// Offset within a cache line at which they begin in the node's packets.
    pub at: usize,
    /// Octets of additional data.
    pub ad: usize,
}

/// aws-lc-rs as a program would call it: seals what is sealed of a packet, in as
/// many buffers as the node has packets.
pub fn aws(Plain { len, at, ad }: Plain) -> impl FnMut(usize) -> usize {
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[1; 16]).expect("a key"));
    let mut memory = vec![0_u8; UNDER_WAY * STRIDE + LINE];
    let first = memory.as_ptr().align_offset(LINE);
    let mut number = 0_u64;
    move |packets| {
        for i in 0..packets {
            let start = first + (i % UNDER_WAY) * STRIDE + 4 * LINE + at - ad;
            let buffer = &mut memory[start..start + ad + len + 16];
            number += 1;
            let mut nonce = [0; 12];
            nonce[4..].copy_from_slice(&number.to_be_bytes());
            let (ad, rest) = buffer.split_at_mut(ad);
            let (text, icv) = rest.split_at_mut(len);
            let nonce = Nonce::assume_unique_for_key(nonce);
            let tag = key.seal_in_place_separate_tag(nonce, Aad::from(&*ad), text);
            icv.copy_from_slice(tag.expect("sealed").as_ref());
            black_box(&mut *icv);
        }
        packets
    }
}

/// A backend of our own, given batches that lie ready but for their nonces.
pub fn own(backend: Backend, Plain { len, at, ad }: Plain) -> impl FnMut(usize) -> usize {
    let suite = Suite::AesGcm(Aes::Aes128);
    let (key, mac_key) = (Secret::new(vec![1; 16]), Secret::new(Vec::new()));
    let spec = KeySpec { suite, key, mac_key, place: Default::default() };
    let mut engine = Software::new(backend);
    let key = Engine::<Box<[u8]>>::install(&mut engine, &spec).expect("a key");
    let job = || {
        let buf = vec![0_u8; STRIDE + LINE].into_boxed_slice();
        let start = buf.as_ptr().align_offset(LINE) + 4 * LINE + at;
        // As the node has it: SPI and number beside the packet, a SecTAG in it.
        let ad = match ad {
            12 => Ad::Inline([0; 12]),
            _ => Ad::Span(Span::new(start - ad, ad)),
        };
        let (nonce, op, verdict, text) =
            ([0; 12], Op::Seal, Verdict::Pending, Span::new(start, len));
        Job { buf, key, ticket: 0, number: 0, nonce, op, verdict, ad, text }
    };
    let mut batches: Vec<Jobs<Box<[u8]>>> =
        (0..UNDER_WAY / BATCH).map(|_| std::iter::repeat_with(job).take(BATCH).collect()).collect();
    let mut number = 0_u64;
    move |packets| {
        let mut done = 0;
        while done < packets {
            let jobs = &mut batches[done / BATCH % (UNDER_WAY / BATCH)];
            for job in jobs.iter_mut() {
                number += 1;
                job.nonce[4..].copy_from_slice(&number.to_be_bytes());
                job.verdict = Verdict::Pending;
            }
            engine.run(jobs);
            done += jobs.len();
        }
        assert!(batches.iter().flatten().all(|job| job.verdict == Verdict::Done));
        done
    }
}

/// The kernel of our own that this machine has, if it has one.
pub fn kernel() -> Option<Backend> {
    let ours = [Backend::Vaes512, Backend::Vaes256].map(Backend::name);
    ours.into_iter().find_map(|name| Backend::forced(name).ok())
}
