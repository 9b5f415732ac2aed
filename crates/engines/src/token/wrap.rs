//! The other side of a wrapped import: the owner of a key makes it ready for a token.
//!
//! ```text
//!   key ─▶ wrap ─▶ octets that say nothing ─▶ Pkcs11Token::import ─▶ key on the token
//!           ▲
//!           └ the public half of the token's pair, or a key-encryption key
//! ```
//!
//! A key is octets, of any value and of 16 or 32 of them: nothing here reads it as
//! text, so one that holds a zero is as good as any other.

use super::provider::{Provider, SoftToken, TokenError, name_of};
use aws_lc_rs::key_wrap::{AES_128, AES_256, AesKek, KeyWrap};
use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OaepPublicEncryptingKey, PublicEncryptingKey};
use ferrule_base::Secret;
use ferrule_crypto::Aes;

/// Octets that AES key wrap adds (RFC 3394 section 2.2.1).
const INTEGRITY: usize = 8;

/// Key that wraps another one.
pub enum Wrapper<'a> {
    /// The public half of a token's pair, a SubjectPublicKeyInfo in DER: RSA-OAEP.
    Public(&'a [u8]),
    /// A key-encryption key that the token has too: AES key wrap.
    Kek(&'a Secret),
}

/// AES of a key of this length, if a token may have it.
pub fn aes_of_key(key: &Secret) -> Result<Aes, TokenError> {
    let fits = [Aes::Aes128, Aes::Aes256].into_iter().find(|aes| aes.key_len() == key.len());
    fits.ok_or_else(|| {
        TokenError::Unfit(format!("of {} octets", key.len()), "is none: there are 16 and 32")
    })
}

/// Wrapped form of the key, as [`import`](super::Pkcs11Token::import) takes it.
pub fn wrap(key: &Secret, with: &Wrapper<'_>) -> Result<Vec<u8>, TokenError> {
    aes_of_key(key)?;
    match with {
        Wrapper::Public(der) => {
            let wrong = || TokenError::Unfit("of the pair".into(), "is no public RSA key");
            let public = PublicEncryptingKey::from_der(der).map_err(|_| wrong())?;
            let public = OaepPublicEncryptingKey::new(public).map_err(|_| wrong())?;
            let mut room = vec![0; public.ciphertext_size()];
            let wrapped = public.encrypt(&OAEP_SHA1_MGF1SHA1, key.expose(), &mut room, None);
            let short = |_| TokenError::Unfit("of the pair".into(), "is too short for a key");
            Ok(wrapped.map_err(short)?.to_vec())
        }
        Wrapper::Kek(kek) => {
            let cipher = if aes_of_key(kek)? == Aes::Aes128 { &AES_128 } else { &AES_256 };
            let failed = |_| TokenError::Call("AES key wrap", "it failed".into());
            let kek = AesKek::new(cipher, kek.expose()).map_err(failed)?;
            let mut room = vec![0; key.len() + INTEGRITY];
            Ok(kek.wrap(key.expose(), &mut room).map_err(failed)?.to_vec())
        }
    }
}

/// The name of a key that is here: the same as
/// [`identity`](super::Pkcs11Token::identity) of it on a token.
pub fn name(key: &Secret) -> Result<Secret, TokenError> {
    let (aes, copy) = (aes_of_key(key)?, key.clone());
    let mut soft = SoftToken::new(move |_, _| Some(copy.clone()));
    soft.open(0, "", aes)?;
    name_of(&mut soft, 0, aes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3394 sections 4.1 and 4.6.
    #[test]
    fn aes_key_wrap_gives_the_vectors_of_rfc_3394() {
        for (kek, key, wrapped) in [
            (
                "000102030405060708090a0b0c0d0e0f",
                "00112233445566778899aabbccddeeff",
                "1fa68b0a8112b447aef34bd8fb5a7b829d3e862371d2cfe5",
            ),
            (
                "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
                "00112233445566778899aabbccddeeff000102030405060708090a0b0c0d0e0f",
                "28c9f404c4b810f4cbccb35cfb87f8263f5786e2d80ed326cbc7f0e71a99f43bfb988b9b7a02dd21",
            ),
        ] {
            let [kek, key, wrapped] = [kek, key, wrapped].map(|hex| Secret::from_hex(hex).unwrap());
            assert_eq!(wrap(&key, &Wrapper::Kek(&kek)).unwrap(), wrapped.expose());
        }
    }

    #[test]
    fn what_is_no_key_or_no_pair_is_refused_and_not_wrapped() {
        let [key, odd] = [16, 24].map(|len| Secret::new(vec![7; len]));
        for refused in [
            wrap(&odd, &Wrapper::Kek(&key)),
            wrap(&key, &Wrapper::Kek(&odd)),
            wrap(&key, &Wrapper::Public(b"not a key")),
        ] {
            assert!(matches!(refused, Err(TokenError::Unfit(..))), "{refused:?}");
        }
    }
}
