//! Ciphers that do not authenticate: AES-CBC (RFC 3602), AES-CTR (RFC 3686), NULL
//! (RFC 2410), and for studies DES-CBC (RFC 2405) and triple DES (RFC 2451).
//!
//! Sealing with CBC encrypts the nonce as if it were the first block of plaintext, so that
//! the result is the IV for the rest (SP 800-38A appendix C).

use crate::suite::{Aes, Suite};
use aes::cipher::array::ArraySize;
use aes::cipher::{Array, Block, BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt};
use aes::cipher::{BlockModeEncrypt, InnerIvInit, KeyInit, StreamCipherCore, consts::U16};
use aes::{Aes128Dec, Aes128Enc, Aes192Dec, Aes192Enc, Aes256Dec, Aes256Enc};
use ctr::{CtrCore, flavors::Ctr32BE};
use des::{Des, TdesEde3};

/// A cipher's key. With CBC both directions' schedules: a key may be used for either.
#[allow(clippy::large_enum_variant)] // always boxed, as part of a key
pub(super) enum Cipher {
    Null,
    Cbc128(Aes128Enc, Aes128Dec),
    Cbc192(Aes192Enc, Aes192Dec),
    Cbc256(Aes256Enc, Aes256Dec),
    Ctr128(Aes128Enc),
    Ctr192(Aes192Enc),
    Ctr256(Aes256Enc),
    Des(Des),
    TripleDes(TdesEde3),
}

impl Cipher {
    /// The key of a suite's cipher; nothing if the suite has another kind of cipher, or the
    /// length is wrong.
    pub fn new(suite: Suite, key: &[u8]) -> Option<Self> {
        Some(match suite {
            Suite::Null(_) => key.is_empty().then_some(Self::Null)?,
            Suite::AesCbc(Aes::Aes128, _) => {
                let enc = Aes128Enc::new_from_slice(key).ok()?;
                let dec = Aes128Dec::from(&enc);
                Self::Cbc128(enc, dec)
            }
            Suite::AesCbc(Aes::Aes192, _) => {
                let enc = Aes192Enc::new_from_slice(key).ok()?;
                let dec = Aes192Dec::from(&enc);
                Self::Cbc192(enc, dec)
            }
            Suite::AesCbc(Aes::Aes256, _) => {
                let enc = Aes256Enc::new_from_slice(key).ok()?;
                let dec = Aes256Dec::from(&enc);
                Self::Cbc256(enc, dec)
            }
            Suite::AesCtr(Aes::Aes128, _) => Self::Ctr128(KeyInit::new_from_slice(key).ok()?),
            Suite::AesCtr(Aes::Aes192, _) => Self::Ctr192(KeyInit::new_from_slice(key).ok()?),
            Suite::AesCtr(Aes::Aes256, _) => Self::Ctr256(KeyInit::new_from_slice(key).ok()?),
            Suite::DesCbc(_) => Self::Des(KeyInit::new_from_slice(key).ok()?),
            Suite::TripleDesCbc(_) => Self::TripleDes(KeyInit::new_from_slice(key).ok()?),
            _ => return None,
        })
    }

    /// Octets of IV in front of the text, which is whole blocks of as many; none
    /// for a cipher that has no blocks.
    pub const fn iv_len(&self) -> usize {
        match self {
            Self::Cbc128(..) | Self::Cbc192(..) | Self::Cbc256(..) => 16,
            Self::Des(_) | Self::TripleDes(_) => 8,
            Self::Null | Self::Ctr128(_) | Self::Ctr192(_) | Self::Ctr256(_) => 0,
        }
    }

    /// Encrypts in place; CBC writes its IV to the front.
    pub fn encrypt(&self, nonce: &[u8; 12], text: &mut [u8]) {
        match self {
            Self::Null => {}
            Self::Cbc128(key, _) => cbc_encrypt(key, first(nonce), text),
            Self::Cbc192(key, _) => cbc_encrypt(key, first(nonce), text),
            Self::Cbc256(key, _) => cbc_encrypt(key, first(nonce), text),
            Self::Des(key) => cbc_encrypt(key, first(nonce), text),
            Self::TripleDes(key) => cbc_encrypt(key, first(nonce), text),
            Self::Ctr128(_) | Self::Ctr192(_) | Self::Ctr256(_) => self.key_stream(nonce, text),
        }
    }

    /// Decrypts in place; CBC the blocks behind the IV.
    pub fn decrypt(&self, nonce: &[u8; 12], text: &mut [u8]) {
        match self {
            Self::Null => {}
            Self::Cbc128(_, key) => cbc_decrypt(key, text),
            Self::Cbc192(_, key) => cbc_decrypt(key, text),
            Self::Cbc256(_, key) => cbc_decrypt(key, text),
            Self::Des(key) => cbc_decrypt(key, text),
            Self::TripleDes(key) => cbc_decrypt(key, text),
            Self::Ctr128(_) | Self::Ctr192(_) | Self::Ctr256(_) => self.key_stream(nonce, text),
        }
    }

    /// RFC 3686 section 2.1: both directions are the same.
    fn key_stream(&self, nonce: &[u8; 12], text: &mut [u8]) {
        match self {
            Self::Ctr128(key) => ctr(key, nonce, text),
            Self::Ctr192(key) => ctr(key, nonce, text),
            Self::Ctr256(key) => ctr(key, nonce, text),
            _ => {}
        }
    }
}

/// The block that becomes the IV: the nonce, padded with zeros. Where it does not
/// fit, its last octets, which have the number.
fn first<N: ArraySize>(nonce: &[u8; 12]) -> Array<u8, N> {
    let mut block = Array::default();
    let surplus = nonce.len().saturating_sub(block.len());
    block.iter_mut().zip(&nonce[surplus..]).for_each(|(to, octet)| *to = *octet);
    block
}

/// Puts `first` in front and encrypts everything from a zero IV.
fn cbc_encrypt<C: BlockCipherEncrypt>(key: &C, first: Block<C>, text: &mut [u8]) {
    let (blocks, _) = Array::<u8, C::BlockSize>::slice_as_chunks_mut(text);
    if let Some(block) = blocks.first_mut() {
        *block = first;
    }
    cbc::Encryptor::inner_iv_init(key, &Array::default()).encrypt_blocks(blocks);
}

/// Decrypts the blocks behind the IV.
fn cbc_decrypt<C: BlockCipherDecrypt>(key: &C, text: &mut [u8]) {
    let (blocks, _) = Array::<u8, C::BlockSize>::slice_as_chunks_mut(text);
    let Some((iv, blocks)) = blocks.split_first_mut() else { return };
    cbc::Decryptor::inner_iv_init(key, iv).decrypt_blocks(blocks);
}

/// Nonce, then a counter of 32 bits from 1 (RFC 3686 section 4).
fn ctr<C: BlockCipherEncrypt<BlockSize = U16>>(key: &C, nonce: &[u8; 12], text: &mut [u8]) {
    let mut block = Array::<u8, U16>::default();
    block[..12].copy_from_slice(nonce);
    block[15] = 1;
    CtrCore::<_, Ctr32BE>::inner_iv_init(key, &block).apply_keystream_partial(text.into());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::vectors;
    use crate::suite::Mac;

    const MAC: Mac = Mac::HmacSha1_96;

    /// The IV is put where it belongs by sealing from the block that encrypts to
    /// it.
    fn check_cbc(suite: Suite, case: vectors::Cbc) {
        let vectors::Cbc { key, iv, plain, sealed } = case;
        let cipher = Cipher::new(suite, &key).unwrap();
        let mut text = [iv.clone(), sealed].concat();
        let expected = text.clone();
        cipher.decrypt(&[0; 12], &mut text);
        assert_eq!(text, [&iv[..], &plain[..]].concat());

        let mut first = [&vec![0; iv.len()], &iv[..]].concat();
        cipher.decrypt(&[0; 12], &mut first);
        let first = &first[iv.len()..];
        match &cipher {
            Cipher::Cbc128(key, _) => cbc_encrypt(key, first.try_into().unwrap(), &mut text),
            Cipher::Cbc192(key, _) => cbc_encrypt(key, first.try_into().unwrap(), &mut text),
            Cipher::Cbc256(key, _) => cbc_encrypt(key, first.try_into().unwrap(), &mut text),
            Cipher::Des(key) => cbc_encrypt(key, first.try_into().unwrap(), &mut text),
            Cipher::TripleDes(key) => cbc_encrypt(key, first.try_into().unwrap(), &mut text),
            _ => unreachable!("a cipher in CBC mode"),
        }
        assert_eq!(text, expected);
    }

    #[test]
    fn aes_cbc_answers_rfc_3602() {
        vectors::rfc_3602().into_iter().for_each(|c| check_cbc(Suite::AesCbc(Aes::Aes128, MAC), c));
    }

    #[test]
    fn aes_cbc_of_every_key_length_answers_sp_800_38a() {
        for (aes, case) in Aes::ALL.into_iter().zip(vectors::sp_800_38a_cbc()) {
            check_cbc(Suite::AesCbc(aes, MAC), case);
        }
    }

    #[test]
    fn des_cbc_answers_fips_81_and_triple_des_with_one_key_is_des() {
        let case = vectors::fips_81();
        let thrice = vectors::Cbc { key: case.key.repeat(3), ..case.clone() };
        check_cbc(Suite::DesCbc(MAC), case);
        check_cbc(Suite::TripleDesCbc(MAC), thrice);
    }

    #[test]
    fn triple_des_answers_sp_800_67() {
        vectors::sp_800_67().into_iter().for_each(|c| check_cbc(Suite::TripleDesCbc(MAC), c));
    }

    #[test]
    fn aes_ctr_answers_rfc_3686() {
        for vectors::Ctr { key, nonce, plain, sealed } in vectors::rfc_3686() {
            let aes = Aes::ALL.into_iter().find(|aes| aes.key_len() == key.len()).unwrap();
            let cipher = Cipher::new(Suite::AesCtr(aes, MAC), &key).unwrap();
            let mut text = plain.clone();
            cipher.encrypt(&nonce, &mut text);
            assert_eq!(text, sealed);
            cipher.decrypt(&nonce, &mut text);
            assert_eq!(text, plain);
        }
    }

    #[test]
    fn the_null_cipher_leaves_the_text_alone_and_takes_no_key() {
        assert!(Cipher::new(Suite::Null(MAC), &[1]).is_none());
        let cipher = Cipher::new(Suite::Null(MAC), &[]).unwrap();
        let mut text = *b"as it is";
        cipher.encrypt(&[7; 12], &mut text);
        cipher.decrypt(&[7; 12], &mut text);
        assert_eq!(&text, b"as it is");
    }

    #[test]
    fn every_cipher_key_wipes_itself() {
        fn wiped<T: zeroize::ZeroizeOnDrop>() {}
        wiped::<Aes128Enc>();
        wiped::<Aes128Dec>();
        wiped::<Aes192Enc>();
        wiped::<Aes192Dec>();
        wiped::<Aes256Enc>();
        wiped::<Aes256Dec>();
        wiped::<Des>();
        wiped::<TdesEde3>();
    }
}
