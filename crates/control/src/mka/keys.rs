//! Keys that follow from a CAK (802.1X-2020 clauses 6.2 and 9.3).
//!
//! ```text
//!   CAK, CKN ─▶ ICK ─▶ ICV of each MKPDU
//!           └─▶ KEK ─▶ wraps SAKs (RFC 3394)
//!   CAK, nonce, members, key number ─▶ SAK
//! ```

use aes::{Aes128, Aes256};
use aes_kw::{AesKw, KeyInit};
use ferrule_base::Secret;
use ferrule_crypto::AesCmac;
use ferrule_wire::eapol::{self, BODY_AT, Kind};
use ferrule_wire::ethernet;
use ferrule_wire::mkpdu::{Ckn, ICV_LEN, Mi, Repr};
use zeroize::Zeroizing;

/// A CAK and the keys derived from it.
#[derive(Clone, Debug)]
pub struct Keys {
    cak: Secret,
    ick: Secret,
    kek: Secret,
}

/// The key derivation function (clause 6.2.1) for a key of so many octets.
fn derive(key: &Secret, label: &[u8], context: &[u8], octets: usize) -> Option<Secret> {
    let mut mac = AesCmac::new(key)?;
    let mut out = Zeroizing::new(Vec::with_capacity(octets + ICV_LEN));
    let bits = (octets as u16 * 8).to_be_bytes();
    for turn in 1..=octets.div_ceil(ICV_LEN) as u8 {
        let block = mac.tag(&[&[turn], label, &[0], context, &bits]);
        out.extend(*Zeroizing::new(block));
    }
    Some(Secret::new(out[..octets].to_vec()))
}

impl Keys {
    /// Keys of a CAK of 128 or 256 bits; of any other length nothing.
    pub fn new(cak: Secret, ckn: &Ckn) -> Option<Self> {
        let mut id = [0; 16];
        let octets = ckn.as_bytes();
        let len = octets.len().min(id.len());
        id[..len].copy_from_slice(&octets[..len]);
        let ick = derive(&cak, b"IEEE8021 ICK", &id, cak.len())?;
        let kek = derive(&cak, b"IEEE8021 KEK", &id, cak.len())?;
        Some(Self { cak, ick, kek })
    }

    /// An MKPDU as a frame, with its ICV.
    pub fn frame(&self, ethernet: ethernet::Repr, repr: &Repr) -> Vec<u8> {
        let length = u16::try_from(repr.len() + ICV_LEN).unwrap_or(u16::MAX);
        let eapol = eapol::Repr { version: eapol::Repr::VERSION, kind: Kind::MKA, length };
        let mut frame = vec![0; BODY_AT + repr.len()];
        ethernet.emit(&mut frame);
        eapol.emit(&mut frame[ethernet::Header::LEN..]);
        repr.emit(&mut frame[BODY_AT..]);
        let icv = self.icv(&frame);
        frame.extend(icv);
        frame
    }

    /// ICV of a frame from its destination address on.
    pub fn icv(&self, frame: &[u8]) -> [u8; ICV_LEN] {
        AesCmac::new(&self.ick).map(|mut mac| mac.tag(&[frame])).unwrap_or_default()
    }

    /// True if this is the ICV of a frame. (In constant time.)
    pub fn is_icv(&self, frame: &[u8], icv: &[u8]) -> bool {
        AesCmac::new(&self.ick).is_some_and(|mut mac| mac.is_tag(frame, icv))
    }

    /// Key of the ICVs.
    pub const fn ick(&self) -> &Secret {
        &self.ick
    }

    /// A SAK, wrapped for the other members.
    pub fn wrap(&self, sak: &Secret) -> Option<Vec<u8>> {
        let mut out = vec![0; sak.len() + 8];
        match self.kek.len() {
            16 => AesKw::<Aes128>::new_from_slice(self.kek.expose())
                .ok()?
                .wrap_key(sak.expose(), &mut out)
                .ok()?,
            _ => AesKw::<Aes256>::new_from_slice(self.kek.expose())
                .ok()?
                .wrap_key(sak.expose(), &mut out)
                .ok()?,
        };
        Some(out)
    }

    /// A SAK that another member wrapped; nothing if it is none of this CAK.
    pub fn unwrap(&self, wrapped: &[u8]) -> Option<Secret> {
        let mut out = Zeroizing::new(vec![0; wrapped.len().checked_sub(8)?]);
        match self.kek.len() {
            16 => AesKw::<Aes128>::new_from_slice(self.kek.expose())
                .ok()?
                .unwrap_key(wrapped, &mut out)
                .ok()?,
            _ => AesKw::<Aes256>::new_from_slice(self.kek.expose())
                .ok()?
                .unwrap_key(wrapped, &mut out)
                .ok()?,
        };
        Some(Secret::new(out.to_vec()))
    }

    /// A SAK of so many octets (clause 9.8.1), of the key server's nonce, which is as long, the
    /// members and the key number.
    pub fn sak(&self, nonce: &Secret, members: &[Mi], kn: u32) -> Option<Secret> {
        let mut context = Zeroizing::new(nonce.expose().to_vec());
        members.iter().for_each(|mi| context.extend(mi.0));
        context.extend(kn.to_be_bytes());
        derive(&self.cak, b"IEEE8021 SAK", &context, nonce.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::from_hex(text).unwrap()
    }

    /// RFC 3394 sections 4.1 and 4.6: keys of 128 and 256 bits under themselves.
    #[test]
    fn mka_key_wrap_is_that_of_the_standard() {
        let wrap = |kek: &str, key: &str| {
            let (cak, kek) = (secret("00"), secret(kek));
            let keys = Keys { cak, ick: kek.clone(), kek };
            let wrapped = keys.wrap(&secret(key)).unwrap();
            assert_eq!(keys.unwrap(&wrapped).unwrap().expose(), secret(key).expose());
            for at in 0..wrapped.len() {
                let mut wrong = wrapped.clone();
                wrong[at] ^= 1;
                assert!(keys.unwrap(&wrong).is_none());
            }
            assert!(keys.unwrap(&wrapped[..16]).is_none() && keys.unwrap(&[]).is_none());
            wrapped
        };
        let (kek, key) = ("000102030405060708090A0B0C0D0E0F", "00112233445566778899AABBCCDDEEFF");
        let wrapped = "1FA68B0A8112B447 AEF34BD8FB5A7B82 9D3E862371D2CFE5";
        assert_eq!(wrap(kek, key), secret(wrapped).expose());
        let kek = format!("{kek}101112131415161718191A1B1C1D1E1F");
        let key = format!("{key}000102030405060708090A0B0C0D0E0F");
        let wrapped = "28C9F404C4B810F4 CBCCB35CFB87F826 3F5786E2D80ED326 \
                       CBC7F0E71A99F43B FB988B9B7A02DD21";
        assert_eq!(wrap(&kek, &key), secret(wrapped).expose());
    }

    #[test]
    fn mka_saks_differ_by_all_that_they_are_made_of() {
        let ckn = Ckn::new(&[1]).unwrap();
        let keys = Keys::new(Secret::new(vec![7; 32]), &ckn).unwrap();
        let sak = |nonce: u8, octets: usize, mi: u8, kn: u32| {
            let sak = keys.sak(&Secret::new(vec![nonce; octets]), &[Mi([mi; 12])], kn).unwrap();
            assert_eq!(sak.len(), octets);
            sak.expose().to_vec()
        };
        let all = [sak(1, 16, 1, 1), sak(2, 16, 1, 1), sak(1, 16, 2, 1), sak(1, 16, 1, 2)];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one));
            assert_ne!(one[..], sak(1, 32, 1, 1)[..16]);
        }
        assert!(Keys::new(Secret::new(vec![7; 24]), &ckn).is_none());
    }
}
