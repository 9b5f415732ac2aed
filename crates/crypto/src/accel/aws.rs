//! aws-lc's AEADs by its C interface.
//!
//! The safe interface of aws-lc-rs looks once more at lengths that
//! [`parts`](crate::backend) has settled, and moves nonce and tag about: three
//! nanoseconds of a hundred for a small packet.

use aws_lc_sys as sys;
use std::ffi::c_int;
use std::ptr::{NonNull, null};

/// Octets of the ICV of every AEAD here.
const ICV: usize = 16;

/// An AEAD of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aead {
    /// AES-GCM with a key of 16 octets.
    Aes128Gcm,
    /// AES-GCM with a key of 24 octets.
    Aes192Gcm,
    /// AES-GCM with a key of 32 octets.
    Aes256Gcm,
    /// RFC 8439, with a key of 32 octets.
    ChaCha20Poly1305,
}

/// An expanded key, on the library's heap, which wipes memory that it frees.
pub struct Context(NonNull<sys::EVP_AEAD_CTX>);

// SAFETY: the context has one owner, and no part of it belongs to a thread.
unsafe impl Send for Context {}
// SAFETY: sealing and opening take it as constant; the library lets several
// threads use one context at a time.
unsafe impl Sync for Context {}

impl Context {
    /// Expands a key; nothing if it has not the AEAD's length.
    pub fn new(aead: Aead, key: &[u8]) -> Option<Self> {
        // SAFETY: both take nothing; the descriptions they return live for ever.
        let aead = unsafe {
            sys::CRYPTO_library_init();
            match aead {
                Aead::Aes128Gcm => sys::EVP_aead_aes_128_gcm(),
                Aead::Aes192Gcm => sys::EVP_aead_aes_192_gcm(),
                Aead::Aes256Gcm => sys::EVP_aead_aes_256_gcm(),
                Aead::ChaCha20Poly1305 => sys::EVP_aead_chacha20_poly1305(),
            }
        };
        // SAFETY: the key is read for the length that it has, and not kept.
        let context = unsafe { sys::EVP_AEAD_CTX_new(aead, key.as_ptr(), key.len(), ICV) };
        NonNull::new(context).map(Self)
    }

    /// Encrypts `text` in place and writes the ICV. False if the library cannot.
    #[inline(always)]
    pub fn seal(&self, nonce: &[u8; 12], ad: &[u8], text: &mut [u8], icv: &mut [u8; ICV]) -> bool {
        let mut written = 0;
        // SAFETY: every pointer is of a borrow that outlives the call, with the
        // length that it has. Input and output are the same octets, which the
        // library allows; the ICV is apart from them.
        let done: c_int = unsafe {
            sys::EVP_AEAD_CTX_seal_scatter(
                self.0.as_ptr(),
                text.as_mut_ptr(),
                icv.as_mut_ptr(),
                &raw mut written,
                ICV,
                nonce.as_ptr(),
                nonce.len(),
                text.as_ptr(),
                text.len(),
                null(),
                0,
                ad.as_ptr(),
                ad.len(),
            )
        };
        done == 1 && written == ICV
    }

    /// Decrypts `text` in place if the ICV is right. Otherwise false, and the text
    /// is zeros.
    #[inline(always)]
    pub fn open(&self, nonce: &[u8; 12], ad: &[u8], text: &mut [u8], icv: &[u8; ICV]) -> bool {
        // SAFETY: as for `seal`.
        let done: c_int = unsafe {
            sys::EVP_AEAD_CTX_open_gather(
                self.0.as_ptr(),
                text.as_mut_ptr(),
                nonce.as_ptr(),
                nonce.len(),
                text.as_ptr(),
                text.len(),
                icv.as_ptr(),
                icv.len(),
                ad.as_ptr(),
                ad.len(),
            )
        };
        if done != 1 {
            text.fill(0);
        }
        done == 1
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it came from `EVP_AEAD_CTX_new` and goes once.
        unsafe { sys::EVP_AEAD_CTX_free(self.0.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_another_length_gives_no_context() {
        for (aead, len) in [
            (Aead::Aes128Gcm, 16),
            (Aead::Aes192Gcm, 24),
            (Aead::Aes256Gcm, 32),
            (Aead::ChaCha20Poly1305, 32),
        ] {
            assert!(Context::new(aead, &[7; 48][..len]).is_some());
            assert!(Context::new(aead, &[7; 48][..len - 1]).is_none(), "{aead:?}");
            assert!(Context::new(aead, &[]).is_none());
        }
    }

    #[test]
    fn what_is_not_authentic_is_zeros_whichever_bit_is_wrong() {
        let key = Context::new(Aead::Aes128Gcm, &[1; 16]).unwrap();
        let (nonce, ad) = ([2; 12], [3; 12]);
        let (mut sealed, mut icv) = ([4; 40], [0; ICV]);
        assert!(key.seal(&nonce, &ad, &mut sealed, &mut icv));
        for bit in 0..(sealed.len() + ICV) * 8 {
            let (mut text, mut tag) = (sealed, icv);
            match bit / 8 {
                at if at < sealed.len() => text[at] ^= 1 << (bit % 8),
                at => tag[at - sealed.len()] ^= 1 << (bit % 8),
            }
            assert!(!key.open(&nonce, &ad, &mut text, &tag) && text == [0; 40], "bit {bit}");
        }
        assert!(key.open(&nonce, &ad, &mut sealed, &icv) && sealed == [4; 40]);
        assert!(key.seal(&nonce, &[], &mut [], &mut icv), "integrity of nothing");
        assert!(key.open(&nonce, &[], &mut [], &icv));
    }
}
