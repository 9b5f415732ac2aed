//! The kernels by themselves: the standards' examples in every lane, and packets
//! that end where memory ends; time that must not tell.

mod timing;

use super::*;
use crate::accel::tests::guard::Guarded;
use crate::backend::parts::BLOCK;
use crate::backend::vectors;
use crate::suite::{Aes, Mac};
use ::sha1::{Digest, Sha1};
use ::sha2::Sha256;

/// Instruction sets of this machine.
fn forms() -> Vec<Form> {
    [Form::zmm(), Form::ymm()].into_iter().flatten().collect()
}

const MACS: [Mac; 2] = [Mac::HmacSha1_96, Mac::HmacSha256_128];

fn key(form: Form, aes: Aes, mac: Mac, cipher_key: &[u8], mac_key: &[u8]) -> Box<Key> {
    // RFC 2104 section 2: a key longer than a block is hashed first.
    let mac_key = match mac {
        _ if mac_key.len() <= 64 => mac_key.to_vec(),
        Mac::HmacSha1_96 => Sha1::digest(mac_key).to_vec(),
        _ => Sha256::digest(mac_key).to_vec(),
    };
    Key::new(form, aes, mac, cipher_key, &mac_key).unwrap()
}

/// A packet in pieces.
#[derive(Clone, Debug, Default)]
struct Pieces {
    nonce: [u8; 12],
    before: Vec<u8>,
    body: Vec<u8>,
    text: usize,
    after: Vec<u8>,
    icv: Vec<u8>,
}

/// Runs all pieces in one batch; the `keys` take turns.
fn run_all(keys: &[Box<Key>], op: Op, pieces: &mut [Pieces]) -> Vec<Verdict> {
    let mut verdicts = vec![Verdict::Pending; pieces.len()];
    let mut packets = Packets::new();
    for ((piece, verdict), key) in pieces.iter_mut().zip(&mut verdicts).zip(keys.iter().cycle()) {
        let Pieces { nonce, before, body, text, after, icv } = piece;
        let parts = Hashed { before, body, text: *text, after, icv };
        packets.push(Packet { key, op, nonce, parts, verdict });
    }
    run(&mut packets);
    drop(packets);
    verdicts
}

/// The cases side by side, over and over, in batches of every size; some of the
/// data not in the packet, but before or after it.
fn check_hmac(cases: &[vectors::Hmac], before: usize, after: usize) {
    for form in forms() {
        let make = |case: &vectors::Hmac| key(form, Aes::Aes128, case.mac, &[0; 16], &case.key);
        let keys: Vec<_> = cases.iter().map(make).collect();
        for count in 1..=BATCH {
            let mut pieces = Vec::new();
            for case in cases.iter().cycle().take(count) {
                let (front, rest) = case.data.split_at(before.min(case.data.len()));
                let (body, back) = rest.split_at(rest.len().saturating_sub(after));
                let (before, body, after) = (front.to_vec(), body.to_vec(), back.to_vec());
                // Nothing to decrypt: the text begins where the body ends.
                let (text, icv) = (body.len(), case.icv.clone());
                pieces.push(Pieces { before, body, text, after, icv, ..Pieces::default() });
            }
            let verdicts = run_all(&keys, Op::Open, &mut pieces);
            assert!(verdicts.iter().all(|&v| v == Verdict::Done), "{form:?} {count} {verdicts:?}");
            let wrong = count * 5 / 7;
            *pieces[wrong].icv.last_mut().unwrap() ^= 0x80;
            let verdicts = run_all(&keys, Op::Open, &mut pieces);
            for (at, verdict) in verdicts.into_iter().enumerate() {
                let right = if at == wrong { Verdict::BadIcv } else { Verdict::Done };
                assert_eq!(verdict, right, "{form:?} {count}");
            }
        }
    }
}

#[test]
fn multi_buffer_hmac_sha1_96_answers_rfc_2202() {
    for (before, after) in [(0, 0), (12, 0), (0, 4), (12, 4)] {
        check_hmac(&vectors::rfc_2202(), before, after);
    }
}

#[test]
fn multi_buffer_hmac_sha256_128_answers_rfc_4231_and_rfc_4868() {
    for (before, after) in [(0, 0), (12, 0), (0, 4), (12, 4)] {
        check_hmac(&vectors::rfc_4231(), before, after);
        check_hmac(&vectors::rfc_4868(), before, after);
    }
}

/// The IV is put where it belongs by encrypting from the block that encrypts to
/// it; that is no nonce, so this goes to the kernel itself.
#[test]
fn multi_buffer_aes_cbc_answers_rfc_3602() {
    for form in forms() {
        for count in 1..=BATCH {
            let cases = vectors::rfc_3602();
            let cases: Vec<_> = cases.iter().cycle().take(count).collect();
            let mac = Mac::HmacSha1_96;
            let make = |case: &&vectors::Cbc| key(form, Aes::Aes128, mac, &case.key, &[0; 20]);
            let keys: Vec<_> = cases.iter().map(make).collect();
            let mut pieces: Vec<_> = cases
                .iter()
                .map(|case| Pieces {
                    body: [&case.iv[..], &case.sealed].concat(),
                    ..Pieces::default()
                })
                .collect();
            let sealed = pieces.clone();
            for (key, (piece, case)) in keys.iter().zip(pieces.iter_mut().zip(&cases)) {
                decrypt_one(key, &mut piece.body);
                assert_eq!(piece.body[BLOCK..], case.plain, "{form:?}");
            }
            let mut chained: Vec<_> = pieces.iter_mut().map(|piece| &mut piece.body[..]).collect();
            encrypt_from_iv(form, &keys, &mut chained);
            for (piece, sealed) in pieces.iter().zip(sealed) {
                assert_eq!(piece.body, sealed.body, "{form:?} {count}");
            }
        }
    }
}

fn decrypt_one(key: &Key, body: &mut [u8]) {
    let (none, icv): (&[u8], &mut [u8]) = (&[], &mut []);
    decrypt::run(
        super::Aes::Aes128,
        key,
        &mut Hashed { before: none, body, text: 0, after: none, icv },
    );
}

/// Encrypts the blocks behind an IV that is there already.
fn encrypt_from_iv(form: Form, keys: &[Box<Key>], texts: &mut [&mut [u8]]) {
    for (keys, texts) in keys.chunks(LANES).zip(texts.chunks_mut(LANES)) {
        encrypt::with_ivs(form, super::Aes::Aes128, keys, texts);
    }
}

/// Every packet of a batch between two pages that may not be touched, at the
/// first one's end or at the second one's beginning.
#[test]
fn multi_buffer_kernels_touch_nothing_outside_a_packet() {
    let mut pages: Vec<_> = (0..20).map(|_| Guarded::new(4096)).collect();
    for form in forms() {
        for aes in [Aes::Aes128, Aes::Aes256] {
            for mac in MACS {
                let cipher_key = vec![1; aes.key_len()];
                let key = key(form, aes, mac, &cipher_key, &vec![2; mac.key_len()]);
                for (round, blocks) in (1..=129).step_by(3).enumerate() {
                    let at_end = round % 2 == 0;
                    guarded_round(&mut pages, &key, blocks, at_end);
                }
            }
        }
    }
}

fn guarded_round(pages: &mut [Guarded], key: &Key, blocks: usize, at_end: bool) {
    for op in [Op::Seal, Op::Open] {
        let mut verdicts = vec![Verdict::Pending; pages.len()];
        let mut packets = Packets::new();
        for (i, (page, verdict)) in pages.iter_mut().zip(&mut verdicts).enumerate() {
            let blocks = (blocks + i) % 130 + 1;
            let (ad_len, text_len) = (8 * (i % 3), blocks * BLOCK);
            let len = ad_len + text_len + key.icv_len();
            let buf = page.slice(len, at_end);
            let (body, icv) = buf.split_at_mut(ad_len + text_len);
            let parts = Hashed { before: &[], body, text: ad_len, after: &[], icv };
            packets.push(Packet { key, op, nonce: &[3; 12], parts, verdict });
        }
        run(&mut packets);
        drop(packets);
        assert!(verdicts.iter().all(|&verdict| verdict == Verdict::Done), "{verdicts:?}");
    }
}

#[test]
fn multi_buffer_hmac_alone_answers_as_with_a_cipher_beside_it() {
    for form in forms() {
        for case in vectors::rfc_4868().iter().chain(&vectors::rfc_2202()[..5]) {
            let alone = Key::hash(form, case.mac, &case.key).unwrap();
            assert_eq!(alone.block(), 0);
            let (body, text, icv) = (case.data.clone(), case.data.len(), case.icv.clone());
            let piece = Pieces { body, text, icv, ..Pieces::default() };
            let mut pieces = vec![piece; 40];
            let keys = [alone];
            assert!(run_all(&keys, Op::Open, &mut pieces).iter().all(|&v| v == Verdict::Done));
            pieces.iter_mut().for_each(|piece| piece.icv.fill(0));
            run_all(&keys, Op::Seal, &mut pieces);
            assert!(pieces.iter().all(|p| p.icv == case.icv && p.body == case.data), "{form:?}");
        }
    }
}

#[test]
fn a_cbc_key_takes_less_than_a_kibibyte_and_is_aligned() {
    let Some(form) = Form::ymm() else { return };
    let made = key(form, Aes::Aes256, Mac::HmacSha256_128, &[1; 32], &[2; 32]);
    assert!(size_of::<Key>() <= 640, "{}", size_of::<Key>());
    assert!((&raw const *made).addr().is_multiple_of(64));
}
