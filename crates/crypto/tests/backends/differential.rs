//! Every backend against every other; and ciphers with a keyed hash, whose code they
//! share, against aws-lc's.

use crate::packet::{Packet, counting_spec, in_every_backend, text_len, written_iv};
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey,
};
use aws_lc_rs::{hmac, iv::FixedLength};
use ferrule_base::Rng;
use ferrule_crypto::{Ad, Aes, KeySpec, Mac, Op, Span, Suite, Verdict};
use proptest::prelude::*;

const LENGTH_MAX: usize = 2000;

fn any_suite() -> impl Strategy<Value = Suite> {
    prop::sample::select(Suite::software().collect::<Vec<_>>())
}

/// A packet of any suite with room in front and behind, by seed.
fn packet(seed: u64, suite: Suite, len: usize) -> (KeySpec, Packet) {
    let mut rng = Rng::new(seed);
    let len = text_len(suite, len);
    let (front, ad_len, gap) =
        (4 + rng.below(20) as usize, 4 + rng.below(60) as usize, rng.below(20) as usize);
    // A keyed hash takes additional data and text in one piece.
    let gap = if suite.is_aead() { gap } else { 0 };
    let text = Span::new(front + ad_len + gap, len);
    let span = Span::new(front, ad_len);
    let mut buf = vec![0; text.end() + suite.icv_len() + rng.below(20) as usize];
    rng.fill(&mut buf);
    let mut nonce = [0; 12];
    rng.fill(&mut nonce);
    let high = [1, 2, 3, rng.next_u64() as u8];
    let ad = match rng.below(3) {
        0 => Ad::Inline(nonce.map(|octet| octet ^ 0x55)),
        1 if suite.mac().is_some() => Ad::SpanThen(span, high),
        1 if suite.is_integrity() && high[3] & 1 == 0 => Ad::SpanThen(span, high),
        1 if suite.is_integrity() => Ad::Widened(span, high),
        _ => Ad::Span(span),
    };
    (counting_spec(suite, rng.next_u64() as u8), Packet { suite, nonce, ad, text, buf })
}

/// A cipher and HMAC as the standards describe them, with a library that no backend
/// uses for it. False for what the library does not have.
fn oracle(spec: &KeySpec, packet: &mut Packet) -> bool {
    let hash = match spec.suite.mac() {
        Some(Mac::HmacSha1_96) => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        Some(Mac::HmacSha256_128) => hmac::HMAC_SHA256,
        Some(Mac::HmacSha384_192) => hmac::HMAC_SHA384,
        Some(Mac::HmacSha512_256) => hmac::HMAC_SHA512,
        Some(Mac::HmacMd5_96) | None => return false,
    };
    match spec.suite {
        Suite::AesCbc(aes, _) => cbc_oracle(aes, spec, packet),
        Suite::AesCtr(aes, _) => {
            let mut counter = [0; 16];
            counter[..12].copy_from_slice(&packet.nonce);
            counter[15] = 1;
            let context = EncryptionContext::Iv128(FixedLength::from(counter));
            let key = EncryptingKey::ctr(aes_key(aes, spec)).unwrap();
            key.less_safe_encrypt(&mut packet.buf[packet.text.range()], context).unwrap();
        }
        Suite::Null(_) => {}
        _ => return false,
    }
    let mut hash = hmac::Context::with_key(&hmac::Key::new(hash, spec.mac_key.expose()));
    let (before, after) = match packet.ad {
        Ad::Span(span) => (packet.buf[span.range()].to_vec(), vec![]),
        Ad::SpanThen(span, high) => (packet.buf[span.range()].to_vec(), high.to_vec()),
        Ad::Inline(octets) => (octets.to_vec(), vec![]),
        Ad::Widened(..) => unreachable!("GMAC's"),
    };
    hash.update(&[before, packet.text().to_vec(), after].concat());
    let (at, len) = (packet.text.end(), packet.suite.icv_len());
    packet.buf[at..at + len].copy_from_slice(&hash.sign().as_ref()[..len]);
    true
}

fn aes_key(aes: Aes, spec: &KeySpec) -> UnboundCipherKey {
    let algorithm = match aes {
        Aes::Aes128 => &AES_128,
        Aes::Aes192 => &AES_192,
        Aes::Aes256 => &AES_256,
    };
    UnboundCipherKey::new(algorithm, spec.key.expose()).unwrap()
}

fn cbc_oracle(aes: Aes, spec: &KeySpec, packet: &mut Packet) {
    let mut iv = [0; 16];
    iv[..12].copy_from_slice(&packet.nonce);
    let ecb = EncryptingKey::ecb(aes_key(aes, spec)).unwrap();
    ecb.encrypt(&mut iv).unwrap();
    let text = &mut packet.buf[packet.text.range()];
    text[..16].copy_from_slice(&iv);
    let context = EncryptionContext::Iv128(FixedLength::from(iv));
    let cbc = EncryptingKey::cbc(aes_key(aes, spec)).unwrap();
    cbc.less_safe_encrypt(&mut text[16..], context).unwrap();
}

/// A bit that the ICV protects, or of the ICV itself.
fn flip_a_bit(packet: &mut Packet, choice: u64) {
    let ad = match packet.ad {
        Ad::Span(span) | Ad::SpanThen(span, _) | Ad::Widened(span, _) => span.range(),
        Ad::Inline(_) => 0..0,
    };
    let tail = packet.text.start as usize..packet.text.end() + packet.suite.icv_len();
    let covered: Vec<usize> = ad.chain(tail).collect();
    let at = covered[(choice >> 3) as usize % covered.len()];
    packet.buf[at] ^= 1 << (choice & 7);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn backends_seal_alike_and_open_each_others_packets(
        seed: u64, suite in any_suite(), len in 0..=LENGTH_MAX,
    ) {
        let (spec, plain) = packet(seed, suite, len);
        let keys = in_every_backend(&spec);
        let mut sealed = plain.clone();
        if !oracle(&spec, &mut sealed) {
            prop_assert_eq!(sealed.run(Op::Seal, &keys[0].1), Verdict::Done);
        }
        for (backend, key) in &keys {
            let mut other = plain.clone();
            prop_assert_eq!(other.run(Op::Seal, key), Verdict::Done);
            prop_assert_eq!(&other.buf, &sealed.buf, "{:?} seals otherwise", backend);
            let mut opened = sealed.clone();
            prop_assert_eq!(opened.run(Op::Open, key), Verdict::Done);
            prop_assert_eq!(opened.cleartext(), plain.cleartext(), "{:?}", backend);
            // Nothing outside text and ICV has changed.
            let (from, to) = (plain.text.start as usize, plain.text.end() + suite.icv_len());
            prop_assert_eq!(&opened.buf[..from], &plain.buf[..from]);
            prop_assert_eq!(&opened.buf[to..], &plain.buf[to..]);
        }
    }

    #[test]
    fn a_bit_changed_anywhere_under_the_icv_is_refused_and_shows_no_plaintext(
        seed: u64, suite in any_suite(), len in 0..=LENGTH_MAX,
        choice: u64,
    ) {
        let (spec, plain) = packet(seed, suite, len);
        for (backend, key) in in_every_backend(&spec) {
            let mut packet = plain.clone();
            packet.run(Op::Seal, &key);
            flip_a_bit(&mut packet, choice);
            let forged = packet.clone();
            prop_assert_eq!(packet.run(Op::Open, &key), Verdict::BadIcv, "{:?}", backend);
            let from = plain.text.start as usize;
            prop_assert_eq!(&packet.buf[..from], &forged.buf[..from], "the AD was touched");
            if plain.cleartext().len() >= 8 {
                prop_assert!(packet.cleartext() != plain.cleartext());
            }
            let other = match packet.ad {
                Ad::SpanThen(span, [a, b, c, d]) => Ad::SpanThen(span, [a, b, c, d ^ 1]),
                Ad::Widened(span, [a, b, c, d]) => Ad::Widened(span, [a, b, c, d ^ 1]),
                Ad::Inline([first, rest @ ..]) => {
                    let mut octets = [first ^ 1; 12];
                    octets[1..].copy_from_slice(&rest);
                    Ad::Inline(octets)
                }
                span => span,
            };
            if other != packet.ad {
                let mut packet = Packet { ad: other, ..plain.clone() };
                packet.run(Op::Seal, &key);
                packet.ad = plain.ad;
                prop_assert_eq!(packet.run(Op::Open, &key), Verdict::BadIcv, "{:?}", backend);
            }
        }
    }

    /// Spans come from received packets. They may say anything.
    #[test]
    fn spans_that_do_not_fit_fail_in_every_backend(
        suite in any_suite(), len in 0usize..200,
        text_start: u16, text_len: u16, ad_start: u16, ad_len: u16, small: bool, kind in 0..4,
    ) {
        let scale = |x: u16| if small { x % 220 } else { x };
        let text = Span { start: scale(text_start), len: scale(text_len) };
        let span = Span { start: scale(ad_start), len: scale(ad_len) };
        let ad = match kind {
            0 => Ad::Span(span),
            1 => Ad::SpanThen(span, [0; 4]),
            2 => Ad::Widened(span, [0; 4]),
            _ => Ad::Inline([0; 12]),
        };
        let (hashed, in_front) = (suite.mac().is_some(), span.end() <= text.start.into());
        let gmac = suite.is_integrity() && !hashed;
        let text_fits = match written_iv(suite) {
            _ if gmac => text.len == 0,
            0 => true,
            block => text.len > 0 && text.len.is_multiple_of(block as u16),
        };
        let ad_fits = match ad {
            Ad::Inline(_) => true,
            Ad::Span(ad) if hashed => ad.end() == text.start as usize,
            Ad::Span(_) => in_front,
            Ad::SpanThen(ad, _) => !suite.is_aead() && ad.end() == text.start as usize,
            Ad::Widened(ad, _) => gmac && in_front && ad.start >= 4 && ad.len >= 4,
        };
        let fits = text.end() + suite.icv_len() <= len && text_fits && ad_fits;
        for (backend, key) in in_every_backend(&counting_spec(suite, 9)) {
            for op in [Op::Seal, Op::Open] {
                let mut packet = Packet { suite, nonce: [1; 12], ad, text, buf: vec![0xee; len] };
                let verdict = packet.run(op, &key);
                let done = if op == Op::Seal { Verdict::Done } else { Verdict::BadIcv };
                let expected = if fits { done } else { Verdict::Failed };
                prop_assert_eq!(verdict, expected, "{:?} {:?}", backend, op);
                if !fits {
                    prop_assert!(packet.buf.iter().all(|&octet| octet == 0xee));
                }
            }
        }
    }
}
