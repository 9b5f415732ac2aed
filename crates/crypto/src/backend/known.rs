//! Known answers for the self-test, made with another implementation (OpenSSL's
//! AES-GCM, ChaCha20-Poly1305 and AES-CBC, Python's HMAC).
//!
//! Keys, nonce and texts count upwards, so that an answer needs no more than
//! its ICV: it stands for the ciphertext, which it covers. One text is shorter
//! than any unrolled loop, the other goes through all of them.

use super::Backend;
use crate::job::{Ad, Op, Span, Verdict};
use crate::key::KeySpec;
use crate::suite::{Aes, Mac, Suite};
use ferrule_base::Secret;

const NONCE: [u8; 12] = counting(0xa0);
const AD: [u8; 16] = counting(0x40);
const SHORT: usize = 32;
const LONG: usize = 1424;

const fn counting<const N: usize>(from: u8) -> [u8; N] {
    let mut out = [0; N];
    let mut i = 0;
    while i < N {
        out[i] = from + i as u8;
        i += 1;
    }
    out
}

/// One suite's ICVs, left-aligned.
pub(super) struct Answer {
    suite: Suite,
    short: u128,
    long: u128,
}

const fn answer(suite: Suite, short: u128, long: u128) -> Answer {
    Answer { suite, short, long }
}

pub(super) const ANSWERS: [Answer; 7] = [
    answer(
        Suite::AesGcm(Aes::Aes128),
        0xeeabe219_03fb5bd3_9f605c7e_8a05765a,
        0xf2959611_59e99fd0_4c5028d6_760860c0,
    ),
    answer(
        Suite::AesGcm(Aes::Aes256),
        0x1cc8e719_600dfb0e_2ab2e160_d46a6f7e,
        0x1d4c59d6_27e36cf6_3372cdbf_d958bacb,
    ),
    answer(
        Suite::ChaCha20Poly1305,
        0x13c4b4d2_5bea7cd5_3eb028c4_3dc99256,
        0x25fcb43b_52635c61_053c97ba_28dcb882,
    ),
    answer(
        Suite::AesCbc(Aes::Aes128, Mac::HmacSha1_96),
        0x3fb8ec1a_b1fd3ba6_958e917d_00000000,
        0x4c3f05be_9b8d7fd6_4fcb805b_00000000,
    ),
    answer(
        Suite::AesCbc(Aes::Aes256, Mac::HmacSha1_96),
        0xabf800b4_92640519_565e1ff3_00000000,
        0x218421bb_a916a0e5_c18efc7c_00000000,
    ),
    answer(
        Suite::AesCbc(Aes::Aes128, Mac::HmacSha256_128),
        0x32b43835_353fb2fd_cb7c4dcb_d1a2991f,
        0x14439b28_08d8cc4e_d094ab75_c0f1c278,
    ),
    answer(
        Suite::AesCbc(Aes::Aes256, Mac::HmacSha256_128),
        0xb64e9565_4f2fe6db_efbebb4f_b311e786,
        0x2a01f907_6d976f80_73d244fe_4de7fb10,
    ),
];

impl Answer {
    /// The backend seals to this ICV, opens to the same text again, and
    /// refuses it with one bit changed.
    pub fn holds(&self, backend: Backend) -> bool {
        self.holds_for(backend, SHORT, self.short) && self.holds_for(backend, LONG, self.long)
    }

    fn holds_for(&self, backend: Backend, len: usize, icv: u128) -> bool {
        let octets = |from: u8, len: usize| Secret::new((from..).take(len).collect());
        let (key, mac_key) = (self.suite.key_len(), self.suite.mac_key_len());
        let spec = KeySpec::new(self.suite, octets(0, key), octets(0x80, mac_key));
        let Ok(key) = backend.key(&spec) else { return false };

        let (text, ad) = (Span::new(AD.len(), len), Ad::Span(Span::new(0, AD.len())));
        let mut plain = AD.to_vec();
        plain.extend((0..len).map(|i| (i * 7 + 3) as u8));
        let mut buf = plain.clone();
        buf.resize(text.end() + self.suite.icv_len(), 0);

        let sealed = key.run(Op::Seal, &NONCE, ad, text, &mut buf) == Verdict::Done;
        let right = buf[text.end()..] == icv.to_be_bytes()[..self.suite.icv_len()];
        let mut forged = buf.clone();
        forged[AD.len() + len / 2] ^= 1;
        let refused = key.run(Op::Open, &NONCE, ad, text, &mut forged) == Verdict::BadIcv;
        let opened = key.run(Op::Open, &NONCE, ad, text, &mut buf) == Verdict::Done;
        // CBC's IV stays where it is.
        let from = text.start as usize + if self.suite.is_counter_mode() { 0 } else { 16 };
        sealed && right && refused && opened && buf[from..text.end()] == plain[from..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_self_test_notices_one_wrong_bit() {
        for answer in ANSWERS {
            let wrong = Answer { long: answer.long ^ 1 << 64, ..answer };
            assert!(!wrong.holds(Backend::Portable), "{}", wrong.suite);
        }
    }

    #[test]
    fn the_self_test_covers_every_suite() {
        assert!(Suite::ALL.iter().all(|s| ANSWERS.iter().any(|a| a.suite == *s)));
    }
}
