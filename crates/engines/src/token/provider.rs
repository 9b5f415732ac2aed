//! Operations of a token: a PKCS#11 module, or software in its place.
//!
//! A token keeps its keys. Its one operation is to encrypt blocks that the host makes,
//! under a key named by its label: a list of any blocks ([`Provider::ecb`]), or blocks that
//! count upwards ([`Provider::ctr`]).

use super::vault::{BLOCK, Block};
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use aes::{Aes128Enc, Aes256Enc};
use ferrule_base::Secret;
use ferrule_crypto::Aes;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt;
use zeroize::Zeroizing;

/// Separates this use of the hash from every other.
const IDENTITY: &[u8] = b"ferrule key on a token 1\0";

/// Error of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// The token has no AES key of that label and length.
    NoKey(String),
    /// The token has several keys of that label.
    ManyKeys(String),
    /// Its key has so many bits, and others are needed.
    Length(String, usize, usize),
    /// The token refused the PIN, or was not asked again with one that it had refused
    /// before.
    Pin(String),
    /// Its key may not be used so, or could be read from it.
    Unfit(String, &'static str),
    /// A call failed: its name, and the value returned.
    Call(&'static str, String),
    /// No such token, or no such module.
    NoToken(String),
    /// The thread that talks to it has ended.
    Gone,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey(label) => write!(f, "the token has no AES key `{label}`"),
            Self::Length(label, has, need) => {
                write!(f, "the token's key `{label}` has {has} bits, {need} are needed")
            }
            Self::Pin(token) => write!(f, "token `{token}` refused the PIN, which was tried once"),
            Self::ManyKeys(label) => write!(f, "the token has several keys `{label}`"),
            Self::Unfit(label, why) => write!(f, "the token's key `{label}` {why}"),
            Self::Call(call, why) => write!(f, "{call}: {why}"),
            Self::NoToken(what) => f.write_str(what),
            Self::Gone => f.write_str("the thread that talks to the token has ended"),
        }
    }
}

impl std::error::Error for TokenError {}

/// A token. Its user numbers the keys that are opened; one number is one SA.
pub trait Provider: Send {
    /// Finds the AES key of that label, and readies it (with PKCS#11, in a session
    /// of its own).
    fn open(&mut self, key: u32, label: &str, aes: Aes) -> Result<(), TokenError>;

    /// Forgets an open key. It stays on the token.
    fn close(&mut self, key: u32);

    /// Encrypts each block by itself.
    fn ecb(&mut self, key: u32, blocks: &mut [Block]) -> Result<(), TokenError>;

    /// Encrypts the blocks that count upwards from `first`, big-endian. One that
    /// goes on where the last ended may be cheaper.
    fn ctr(&mut self, key: u32, first: u128, out: &mut [Block]) -> Result<(), TokenError> {
        for (i, block) in out.iter_mut().enumerate() {
            *block = first.wrapping_add(i as u128).to_be_bytes();
        }
        self.ecb(key, out)
    }
}

/// A name for an open key that says nothing about it, as long as a key: from its
/// encryption of zeros. Two labels of one key have one name.
pub(super) fn name_of(token: &mut dyn Provider, key: u32, aes: Aes) -> Result<Secret, TokenError> {
    let mut block = Zeroizing::new([[0; BLOCK]]);
    token.ecb(key, &mut *block)?;
    let digest = Sha256::new().chain_update(IDENTITY).chain_update(block.as_flattened()).finalize();
    Ok(Secret::new(digest.iter().copied().take(aes.key_len()).collect()))
}

impl<P: Provider + ?Sized> Provider for Box<P> {
    fn open(&mut self, key: u32, label: &str, aes: Aes) -> Result<(), TokenError> {
        (**self).open(key, label, aes)
    }

    fn close(&mut self, key: u32) {
        (**self).close(key);
    }

    fn ecb(&mut self, key: u32, blocks: &mut [Block]) -> Result<(), TokenError> {
        (**self).ecb(key, blocks)
    }

    fn ctr(&mut self, key: u32, first: u128, out: &mut [Block]) -> Result<(), TokenError> {
        (**self).ctr(key, first, out)
    }
}

/// Source of the keys of a [`SoftToken`], by label and size.
type Keys = Box<dyn FnMut(&str, Aes) -> Option<Secret> + Send>;

/// A token in software, deterministic: for the laboratory and for tests. Its keys
/// are in memory like any other, so it protects nothing.
pub struct SoftToken {
    keys: Keys,
    open: HashMap<u32, Cipher>,
}

enum Cipher {
    Aes128(Box<Aes128Enc>),
    Aes256(Box<Aes256Enc>),
}

impl SoftToken {
    /// A token whose keys come from a function of their label.
    pub fn new(keys: impl FnMut(&str, Aes) -> Option<Secret> + Send + 'static) -> Self {
        Self { keys: Box::new(keys), open: HashMap::new() }
    }
}

impl Provider for SoftToken {
    fn open(&mut self, key: u32, label: &str, aes: Aes) -> Result<(), TokenError> {
        let missing = || TokenError::NoKey(label.to_owned());
        let secret = (self.keys)(label, aes).ok_or_else(missing)?;
        let octets = secret.expose();
        let cipher = match aes {
            Aes::Aes128 => Aes128Enc::new_from_slice(octets).map(Box::new).map(Cipher::Aes128),
            Aes::Aes192 => return Err(missing()),
            Aes::Aes256 => Aes256Enc::new_from_slice(octets).map(Box::new).map(Cipher::Aes256),
        };
        self.open.insert(key, cipher.map_err(|_| missing())?);
        Ok(())
    }

    fn close(&mut self, key: u32) {
        self.open.remove(&key);
    }

    fn ecb(&mut self, key: u32, blocks: &mut [Block]) -> Result<(), TokenError> {
        let blocks = Array::cast_slice_from_core_mut(blocks);
        match self.open.get(&key) {
            Some(Cipher::Aes128(cipher)) => cipher.encrypt_blocks(blocks),
            Some(Cipher::Aes256(cipher)) => cipher.encrypt_blocks(blocks),
            None => return Err(TokenError::NoKey(format!("number {key}"))),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 197, appendix C.1; SP 800-38A, F.5.1 (the first counter block and the
    /// one after).
    #[test]
    fn the_soft_token_answers_the_standards_vectors() {
        let mut token = SoftToken::new(|label, aes| {
            let hex = match label {
                "fips" => "000102030405060708090a0b0c0d0e0f",
                "ctr" => "2b7e151628aed2a6abf7158809cf4f3c",
                _ => return None,
            };
            (aes == Aes::Aes128).then(|| Secret::from_hex(hex).unwrap())
        });
        assert!(matches!(token.open(1, "other", Aes::Aes128), Err(TokenError::NoKey(_))));
        assert!(matches!(token.open(1, "fips", Aes::Aes256), Err(TokenError::NoKey(_))));
        token.open(1, "fips", Aes::Aes128).unwrap();
        token.open(2, "ctr", Aes::Aes128).unwrap();
        let mut block = [0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes()];
        token.ecb(1, &mut block).unwrap();
        assert_eq!(block, [0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a_u128.to_be_bytes()]);
        let mut stream = [[0; 16]; 2];
        token.ctr(2, 0xf0f1_f2f3_f4f5_f6f7_f8f9_fafb_fcfd_feff, &mut stream).unwrap();
        let want = [
            0xec8c_df73_9860_7cb0_f2d2_1675_ea9e_a1e4_u128.to_be_bytes(),
            0x362b_7c3c_6773_5163_18a0_77d7_fc50_73ae_u128.to_be_bytes(),
        ];
        assert_eq!(stream, want);
        token.close(1);
        assert!(token.ecb(1, &mut block).is_err());
    }
}
