//! experiment
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ferrule_base::{Instant, Secret};
use ferrule_benches::{Case, UNDER_WAY, heading, interleave, row};
use ferrule_crypto::backend::Backend;
use ferrule_crypto::*;
use ferrule_pipeline::{Packet, Pool};
use std::hint::black_box;
const STRIDE: usize = 2048 + 64;
fn bare(len: usize, at: usize, scatter: bool) -> impl FnMut(usize) -> usize {
    const LINE: usize = 64;
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[1; 16]).expect("a key"));
    let mut memory = vec![0_u8; UNDER_WAY * STRIDE + LINE];
    let first = memory.as_ptr().align_offset(LINE);
    let mut number = 0_u64;
    move |packets| {
        for i in 0..packets {
            let start = first + (i % UNDER_WAY) * STRIDE + 4 * LINE + at - 16;
            let buffer = &mut memory[start..start + 16 + len + 16];
            number += 1;
            let mut nonce = [0; 12];
            nonce[4..].copy_from_slice(&number.to_be_bytes());
            let (ad, rest) = buffer.split_at_mut(16);
            let (text, icv) = rest.split_at_mut(len);
            let nonce = Nonce::assume_unique_for_key(nonce);
            if scatter {
                key.seal_in_place_scatter(nonce, Aad::from(&ad[..8]), text, &[], icv).unwrap();
            } else {
                let tag = key.seal_in_place_separate_tag(nonce, Aad::from(&ad[..8]), text);
                icv.copy_from_slice(tag.expect("sealed").as_ref());
            }
            black_box(&mut *icv);
        }
        packets
    }
}
fn jobs(len: usize) -> impl FnMut(usize) -> usize {
    let mut e = Software::new(Backend::Aws);
    let key = Engine::<Packet>::install(
        &mut e,
        &KeySpec {
            suite: Suite::AesGcm(Aes::Aes128),
            key: Secret::new(vec![1; 16]),
            mac_key: Secret::new(vec![]),
        },
    )
    .unwrap();
    let pool = Pool::heap(256, 2048);
    let mut cache = pool.cache();
    let mut idle: Vec<Packet> = (0..UNDER_WAY)
        .map(|_| cache.packet_from(&vec![0u8; 14 + 16 + len + 16]).unwrap())
        .collect();
    let mut number = 0u64;
    move |packets| {
        let mut done = 0;
        while done < packets {
            let mut js: Jobs<Packet> = Jobs::new();
            for _ in 0..64 {
                number += 1;
                let mut nonce = [0; 12];
                nonce[4..].copy_from_slice(&number.to_be_bytes());
                js.push(Job {
                    buf: idle.pop().unwrap(),
                    key,
                    ticket: 0,
                    nonce,
                    op: Op::Seal,
                    verdict: Verdict::Pending,
                    ad: Ad::Span(Span::new(14 - 8 + 8, 8)),
                    text: Span::new(14 + 16, len),
                });
            }
            e.submit(Instant::ZERO, &mut js);
            for j in js.drain(..) {
                assert!(j.verdict == Verdict::Done);
                idle.push(j.buf);
            }
            done += 64;
        }
        done
    }
}
fn main() {
    for len in [68, 1424] {
        let mut cases = [
            Case::new("bare separate", bare(len, 14, false)),
            Case::new("bare scatter", bare(len, 14, true)),
            Case::new("jobs", jobs(len)),
        ];
        interleave(&mut cases, 4096);
        heading("split");
        for c in &cases {
            row(c, Some(&cases[0]), None);
        }
    }
}
