//! ESP from RustCrypto's parts, put together here from the RFCs and not with the data
//! plane's code: the reference for sealed packets.
//!
//! Makers choose their IVs (RFC 4106 section 3.1, RFC 3602 section 3), so a
//! packet sealed here cannot be the capture's. [`Esp::retell`] opens it and
//! seals it again with the capture's IV: if that gives the capture's octets, the
//! two differ in the IV alone.

use crate::sidecar::EspSa;
use aes::cipher::{
    Array, BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, KeyIvInit,
    StreamCipher, consts::U12,
};
use aes::{Aes128, Aes192, Aes256};
use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes128Gcm, Aes256Gcm, AesGcm, KeyInit};
use chacha20poly1305::ChaCha20Poly1305;
use ferrule_crypto::{Suite, suite::Aes, suite::Mac};
use hmac::Hmac;

type Aes192Gcm = AesGcm<Aes192, U12>;

/// SPI and sequence number.
const HEADER: usize = 8;
const AEAD_IV: usize = 8;

/// The suite of an association, if Ferrule has it.
pub fn suite(sa: &EspSa) -> Option<Suite> {
    let aes = Aes::ALL.into_iter().find(|aes| aes.key_len() == sa.enc_key.0.len());
    let mac = Mac::ALL.into_iter().find(|mac| mac.name() == sa.auth);
    Some(match (sa.enc.as_str(), mac) {
        ("aes-gcm", None) if sa.icv_len == 16 => Suite::AesGcm(aes?),
        ("chacha20-poly1305", None) => Suite::ChaCha20Poly1305,
        ("aes-cbc", Some(mac)) => Suite::AesCbc(aes?, mac),
        ("aes-ctr", Some(mac)) => Suite::AesCtr(aes?, mac),
        ("null", Some(mac)) => Suite::Null(mac),
        ("des-cbc", Some(mac)) => Suite::DesCbc(mac),
        ("3des-cbc", Some(mac)) => Suite::TripleDesCbc(mac),
        _ => return None,
    })
}

/// One association's keys.
pub struct Esp<'a> {
    sa: &'a EspSa,
    suite: Suite,
}

impl<'a> Esp<'a> {
    pub fn new(sa: &'a EspSa, suite: Suite) -> Self {
        Self { sa, suite }
    }

    /// `made` (from its SPI on) with the IV of `captured`.
    pub fn retell(&self, made: &[u8], captured: &[u8], number: u64) -> Result<Vec<u8>, String> {
        let iv_len = self.suite.esp_iv_len();
        let iv = captured.get(HEADER..HEADER + iv_len).ok_or("the capture is too short")?;
        let clear = self.open(made, number)?;
        Ok(self.seal(made.get(..HEADER).unwrap_or_default(), iv, clear, number))
    }

    /// The cleartext with its trailer.
    fn open(&self, esp: &[u8], number: u64) -> Result<Vec<u8>, String> {
        let short = || "the packet is too short".to_owned();
        let iv_end = HEADER + self.suite.esp_iv_len();
        let icv_at = esp.len().checked_sub(self.suite.icv_len()).ok_or_else(short)?;
        let (body, icv) = esp.split_at(icv_at);
        let mut text = body.get(iv_end..).ok_or_else(short)?.to_vec();
        match self.suite.mac() {
            Some(mac) => {
                if self.hash(mac, body, number) != icv {
                    return Err("another implementation finds the ICV wrong".into());
                }
                self.cipher(&body[HEADER..iv_end], &mut text, false);
            }
            None => {
                let tag: &[u8; 16] = icv.first_chunk().ok_or_else(short)?;
                let (nonce, aad) = self.nonce_and_aad(&body[..HEADER], &body[HEADER..], number);
                let opened = self.aead(&nonce, &aad, &mut text, Some(tag));
                opened.ok_or("another implementation finds the ICV wrong")?;
            }
        }
        Ok(text)
    }

    fn seal(&self, header: &[u8], iv: &[u8], mut text: Vec<u8>, number: u64) -> Vec<u8> {
        let mut out = [header, iv].concat();
        match self.suite.mac() {
            Some(mac) => {
                self.cipher(iv, &mut text, true);
                out.extend(text);
                let icv = self.hash(mac, &out, number);
                out.extend(icv);
            }
            None => {
                let (nonce, aad) = self.nonce_and_aad(header, iv, number);
                let tag = self.aead(&nonce, &aad, &mut text, None).expect("sealing cannot fail");
                out.extend(text);
                out.extend(tag);
            }
        }
        out
    }

    /// Salt and IV; SPI and number, 64 bits of it with ESN (RFC 4106 section 5).
    fn nonce_and_aad(&self, header: &[u8], iv: &[u8], number: u64) -> ([u8; 12], Vec<u8>) {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.sa.salt.0);
        nonce[4..].copy_from_slice(&iv[..AEAD_IV]);
        let high = if self.sa.esn { (number >> 32) as u32 } else { 0 };
        let high = if self.sa.esn { high.to_be_bytes().to_vec() } else { Vec::new() };
        (nonce, [&header[..4], &high, &header[4..]].concat())
    }

    /// Opens with a tag to compare, seals without one; the tag.
    fn aead(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        text: &mut [u8],
        tag: Option<&[u8; 16]>,
    ) -> Option<[u8; 16]> {
        let key = &self.sa.enc_key.0;
        match self.suite {
            Suite::AesGcm(Aes::Aes128) => {
                run(&Aes128Gcm::new_from_slice(key).ok()?, nonce, aad, text, tag)
            }
            Suite::AesGcm(Aes::Aes192) => {
                run(&Aes192Gcm::new_from_slice(key).ok()?, nonce, aad, text, tag)
            }
            Suite::AesGcm(Aes::Aes256) => {
                run(&Aes256Gcm::new_from_slice(key).ok()?, nonce, aad, text, tag)
            }
            Suite::ChaCha20Poly1305 => {
                run(&ChaCha20Poly1305::new_from_slice(key).ok()?, nonce, aad, text, tag)
            }
            _ => None,
        }
    }

    /// HMAC over the packet, and with ESN over the number's high half after it
    /// (RFC 4303 section 2.2.1), truncated.
    pub fn hash(&self, mac: Mac, body: &[u8], number: u64) -> Vec<u8> {
        let high = ((number >> 32) as u32).to_be_bytes();
        let after: &[u8] = if self.sa.esn { &high } else { &[] };
        let (key, parts) = (&self.sa.auth_key.0, [body, after]);
        let all = match mac {
            Mac::HmacMd5_96 => hmac::<Hmac<md5::Md5>>(key, parts),
            Mac::HmacSha1_96 => hmac::<Hmac<sha1::Sha1>>(key, parts),
            Mac::HmacSha256_128 => hmac::<Hmac<sha2::Sha256>>(key, parts),
            Mac::HmacSha384_192 => hmac::<Hmac<sha2::Sha384>>(key, parts),
            Mac::HmacSha512_256 => hmac::<Hmac<sha2::Sha512>>(key, parts),
        };
        all[..self.suite.icv_len()].to_vec()
    }

    /// Encrypts, or decrypts, with a cipher that does not authenticate.
    fn cipher(&self, iv: &[u8], text: &mut [u8], seal: bool) {
        let key = &self.sa.enc_key.0;
        match self.suite {
            Suite::Null(_) => {}
            Suite::AesCbc(Aes::Aes128, _) => cbc::<Aes128>(key, iv, text, seal),
            Suite::AesCbc(Aes::Aes192, _) => cbc::<Aes192>(key, iv, text, seal),
            Suite::AesCbc(Aes::Aes256, _) => cbc::<Aes256>(key, iv, text, seal),
            Suite::DesCbc(_) => cbc::<des::Des>(key, iv, text, seal),
            Suite::TripleDesCbc(_) => cbc::<des::TdesEde3>(key, iv, text, seal),
            Suite::AesCtr(aes, _) => {
                let counter = [&self.sa.salt.0, iv, &[0, 0, 0, 1]].concat();
                match aes {
                    Aes::Aes128 => ctr::<ctr::Ctr32BE<Aes128>>(key, &counter, text),
                    Aes::Aes192 => ctr::<ctr::Ctr32BE<Aes192>>(key, &counter, text),
                    Aes::Aes256 => ctr::<ctr::Ctr32BE<Aes256>>(key, &counter, text),
                }
            }
            other => unreachable!("{other} authenticates"),
        }
    }
}

fn hmac<M: hmac::Mac + KeyInit>(key: &[u8], parts: [&[u8]; 2]) -> Vec<u8> {
    let mac = <M as KeyInit>::new_from_slice(key).expect("any length");
    mac.chain_update(parts[0]).chain_update(parts[1]).finalize().into_bytes().to_vec()
}

fn run<A: AeadInOut>(
    cipher: &A,
    nonce: &[u8; 12],
    aad: &[u8],
    text: &mut [u8],
    tag: Option<&[u8; 16]>,
) -> Option<[u8; 16]> {
    let nonce = Array::try_from(&nonce[..]).ok()?;
    match tag {
        Some(tag) => {
            let expected = Array::try_from(&tag[..]).ok()?;
            cipher.decrypt_inout_detached(&nonce, aad, text.into(), &expected).ok()?;
            Some(*tag)
        }
        None => {
            let tag = cipher.encrypt_inout_detached(&nonce, aad, text.into()).ok()?;
            tag.as_slice().first_chunk().copied()
        }
    }
}

fn cbc<C>(key: &[u8], iv: &[u8], text: &mut [u8], seal: bool)
where
    C: BlockCipherEncrypt + BlockCipherDecrypt + KeyInit,
{
    let bad = "a key and an IV of the cipher";
    let (blocks, rest) = Array::<u8, C::BlockSize>::slice_as_chunks_mut(text);
    assert!(rest.is_empty(), "whole blocks");
    if seal {
        cbc::Encryptor::<C>::new_from_slices(key, iv).expect(bad).encrypt_blocks(blocks);
    } else {
        cbc::Decryptor::<C>::new_from_slices(key, iv).expect(bad).decrypt_blocks(blocks);
    }
}

fn ctr<S: StreamCipher + KeyIvInit>(key: &[u8], counter: &[u8], text: &mut [u8]) {
    S::new_from_slices(key, counter).expect("a key and a counter").apply_keystream(text);
}

#[test]
fn set_whose_keys_have_192_bits_passes_in_both_directions() {
    use crate::{best, own_set, run as run_set, sidecar::Frame};
    // Packets that Linux sealed with 128 bits, sealed again.
    let mut set = own_set("esp/tun4-gcm128");
    let old: Vec<EspSa> = set.get("sas").expect("associations");
    let mut frames: Vec<serde_json::Value> = set.get("frames").expect("frames");
    for sa in set.json["sas"].as_array_mut().expect("associations") {
        let key = sa["enc_key"].as_str().expect("digits").to_owned();
        sa["enc_key"] = format!("{key}0123456789abcdef").into();
    }
    let new: Vec<EspSa> = set.get("sas").expect("associations");
    frames.retain(|frame| frame["n"].as_array().is_some_and(|n| n.len() == 1));
    assert!(frames.len() > 20);
    for frame in &frames {
        let frame: Frame = serde_json::from_value(frame.clone()).expect("a frame");
        let at = old.iter().position(|sa| sa.id == frame.sa).expect("its association");
        let octets = &mut set.capture[frame.n[0] - 1].octets;
        let esp = octets.split_off(34);
        let [from, to] = [&old[at], &new[at]].map(|sa| Esp::new(sa, suite(sa).expect("GCM")));
        let clear = from.open(&esp, frame.number).expect("Linux sealed it");
        octets.extend(to.seal(&esp[..HEADER], &esp[HEADER..HEADER + AEAD_IV], clear, frame.number));
    }
    let count = frames.len();
    set.json["frames"] = frames.into();
    let row = run_set(&set, best());
    assert!(row.passed() && row.make.passed == count && row.take.passed == count, "{row:?}");
}
