//! Keys that follow from a CAK (802.1X-2020 clauses 6.2 and 9.3).
//!
//! ```text
//!   CAK, CKN ─▶ ICK ─▶ ICV of each MKPDU
//!           └─▶ KEK ─▶ wraps SAKs (RFC 3394)
//!   CAK, nonce, members, key number ─▶ SAK
//! ```

use aes::{Aes128, Aes256};
use aes_kw::AesKw;
use cmac::digest::KeyInit;
use cmac::{Cmac, Mac};
use ferrule_base::Secret;
use ferrule_wire::eapol::{self, BODY_AT, Kind};
use ferrule_wire::ethernet;
use ferrule_wire::mkpdu::{Ckn, ICV_LEN, Mi, Repr};
use zeroize::Zeroizing;

/// A CAK and what follows from it.
#[derive(Clone, Debug)]
pub struct Keys {
    cak: Secret,
    ick: Secret,
    kek: Secret,
}

fn mac_with<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Option<[u8; ICV_LEN]> {
    let mut mac = <M as KeyInit>::new_from_slice(key).ok()?;
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().as_slice().try_into().ok()
}

/// AES-CMAC (RFC 4493) by a key of 16 or 32 octets; of any other length nothing.
fn cmac(key: &Secret, parts: &[&[u8]]) -> Option<[u8; ICV_LEN]> {
    match key.len() {
        16 => mac_with::<Cmac<Aes128>>(key.expose(), parts),
        32 => mac_with::<Cmac<Aes256>>(key.expose(), parts),
        _ => None,
    }
}

/// The key derivation function (clause 6.2.1) for a key of so many octets.
fn derive(key: &Secret, label: &[u8], context: &[u8], octets: usize) -> Option<Secret> {
    let mut out = Zeroizing::new(Vec::with_capacity(octets + ICV_LEN));
    let bits = (octets as u16 * 8).to_be_bytes();
    for turn in 1..=octets.div_ceil(ICV_LEN) as u8 {
        let block = cmac(key, &[&[turn], label, &[0], context, &bits])?;
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
        cmac(&self.ick, &[frame]).unwrap_or_default()
    }

    /// True if this is the ICV of a frame. (In constant time.)
    pub fn is_icv(&self, frame: &[u8], icv: &[u8]) -> bool {
        let own = self.icv(frame);
        icv.len() == own.len() && own.iter().zip(icv).fold(0, |all, (a, b)| all | (a ^ b)) == 0
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

    /// RFC 4493 section 4, and NIST SP 800-38B of AES-256.
    #[test]
    fn mka_cmac_is_that_of_the_standards() {
        let text = secret("6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51");
        let key = secret("2b7e151628aed2a6abf7158809cf4f3c");
        for (octets, tag) in
            [(0, "bb1d6929e95937287fa37d129b756746"), (16, "070a16b46b4d4144f79bdd9dd04a287c")]
        {
            let tag = secret(tag);
            assert_eq!(cmac(&key, &[&text.expose()[..octets]]).unwrap(), tag.expose());
        }
        let key = secret("603deb1015ca71be2b73aef0857d7781 1f352c073b6108d72d9810a30914dff4");
        let tag = secret("28a7023f452e8f82bd4bf28d8c37c35c");
        assert_eq!(
            cmac(&key, &[&text.expose()[..9], &text.expose()[9..16]]).unwrap(),
            tag.expose()
        );
        assert_eq!(cmac(&secret("00"), &[]), None);
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
