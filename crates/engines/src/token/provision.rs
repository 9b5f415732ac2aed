//! Provisioning: ways to give a token a key that its peer has too, without the key ever
//! being in this host.
//!
//! * *Wrapped import.* The token makes an RSA pair and gives out the public half.
//!   The owner of the key (the peer's operator, a key server) encrypts it with that
//!   (RSA-OAEP); only the token can open it ([`Pkcs11Token::import`]). The same with
//!   a key-encryption key that the token has already (RFC 3394).
//! * *Agreement.* Two tokens make a pair on P-256 each, exchange the public halves
//!   over a way that both trust, and derive the same key ([`Pkcs11Token::agree`]).
//!
//! Every key comes to be sensitive and not extractable, and may do nothing but
//! encrypt; a key-encryption key nothing but unwrap ([`Purpose`]).

use super::pkcs11::{Pkcs11Token, failed, id_of};
use super::provider::TokenError;
use cryptoki::mechanism::elliptic_curve::{EcKdf, Ecdh1DeriveParams};
use cryptoki::mechanism::rsa::{PkcsMgfType, PkcsOaepParams, PkcsOaepSource};
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use ferrule_crypto::Aes;

/// P-256, as an object identifier in DER.
const P256: [u8; 10] = [6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];

/// The algorithm of an RSA public key (RFC 3279 section 2.3.1), in DER.
const RSA: [u8; 15] = [0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 1, 1, 1, 5, 0];

/// Octets of an uncompressed point of P-256.
const POINT: usize = 65;

/// Octets that AES key wrap adds to a key.
const WRAPPED_MORE: usize = 8;

/// Bits of an RSA pair.
const RSA_BITS: u64 = 3072;

/// Method by which a key was wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrapping {
    /// RSA-OAEP with SHA-1, which every module has (its use there needs no
    /// collision resistance).
    RsaOaep,
    /// AES key wrap (RFC 3394), by a key on the token.
    AesKeyWrap,
}

/// Purpose of a key on the token, which can do nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Key stream.
    Traffic,
    /// Unwrapping of traffic keys ([`Wrapping::AesKeyWrap`]).
    Unwrapping,
}

/// Attributes of a new key: its permitted use, and that it cannot be read.
fn template(label: &str, purpose: Purpose) -> Vec<Attribute> {
    vec![
        Attribute::Class(ObjectClass::SECRET_KEY),
        Attribute::KeyType(KeyType::AES),
        Attribute::Label(label.into()),
        Attribute::Token(true),
        Attribute::Private(true),
        Attribute::Sensitive(true),
        Attribute::Extractable(false),
        Attribute::Encrypt(purpose == Purpose::Traffic),
        Attribute::Decrypt(false),
        Attribute::Wrap(false),
        Attribute::Unwrap(purpose == Purpose::Unwrapping),
    ]
}

/// Both halves of a pair, the private one never to be seen.
fn pair(label: &str, public: Vec<Attribute>, use_: Attribute) -> (Vec<Attribute>, Vec<Attribute>) {
    let mut public = public;
    public.extend([Attribute::Token(true), Attribute::Label(label.into())]);
    let private = vec![
        Attribute::Token(true),
        Attribute::Label(label.into()),
        Attribute::Private(true),
        Attribute::Sensitive(true),
        Attribute::Extractable(false),
        use_,
    ];
    (public, private)
}

impl Pkcs11Token {
    /// Refuses a label that is taken: two keys of one label are none.
    fn fresh(&self, label: &str, class: ObjectClass) -> Result<(), TokenError> {
        let template = [Attribute::Class(class), Attribute::Label(label.into())];
        let found = self.session.find_objects(&template).map_err(failed("C_FindObjects"))?;
        if found.is_empty() {
            return Ok(());
        }
        Err(TokenError::Unfit(label.into(), "is there already: choose another label"))
    }

    /// The private half of a pair, or a key that unwraps.
    fn own(&self, label: &str, class: ObjectClass) -> Result<ObjectHandle, TokenError> {
        let template = [Attribute::Class(class), Attribute::Label(label.into())];
        let found = self.session.find_objects(&template).map_err(failed("C_FindObjects"))?;
        match found[..] {
            [one] => Ok(one),
            [] => Err(TokenError::NoKey(label.into())),
            _ => Err(TokenError::ManyKeys(label.into())),
        }
    }

    /// Makes an RSA pair for [`import`](Self::import); its public half as a
    /// SubjectPublicKeyInfo in DER.
    pub fn make_import_pair(&mut self, label: &str) -> Result<Vec<u8>, TokenError> {
        self.fresh(label, ObjectClass::PRIVATE_KEY)?;
        let bits = RSA_BITS.into();
        let public = vec![
            Attribute::ModulusBits(bits),
            Attribute::PublicExponent(vec![1, 0, 1]),
            Attribute::Wrap(true),
        ];
        let (public, private) = pair(label, public, Attribute::Unwrap(true));
        let made = self
            .session
            .generate_key_pair(&Mechanism::RsaPkcsKeyPairGen, &public, &private)
            .map_err(failed("C_GenerateKeyPair"))?;
        let wanted = [AttributeType::Modulus, AttributeType::PublicExponent];
        let found = self.session.get_attributes(made.0, &wanted);
        let (mut modulus, mut exponent) = (Vec::new(), Vec::new());
        for attribute in found.map_err(failed("C_GetAttributeValue"))? {
            match attribute {
                Attribute::Modulus(octets) => modulus = octets,
                Attribute::PublicExponent(octets) => exponent = octets,
                _ => {}
            }
        }
        let key = der(0x30, &[unsigned(&modulus), unsigned(&exponent)].concat());
        let bits = der(3, &[&[0][..], &key].concat());
        Ok(der(0x30, &[&RSA[..], &bits].concat()))
    }

    /// Unwraps an AES key inside the token: `with` is the label of the pair or of
    /// the key-encryption key. A key of another length than was said is refused.
    pub fn import(
        &mut self,
        label: &str,
        aes: Aes,
        purpose: Purpose,
        with: &str,
        wrapping: Wrapping,
        wrapped: &[u8],
    ) -> Result<(), TokenError> {
        self.fresh(label, ObjectClass::SECRET_KEY)?;
        let (mechanism, class) = match wrapping {
            Wrapping::RsaOaep => {
                let source = PkcsOaepSource::empty();
                let hash = MechanismType::SHA1;
                let params = PkcsOaepParams::new(hash, PkcsMgfType::MGF1_SHA1, source);
                (Mechanism::RsaPkcsOaep(params), ObjectClass::PRIVATE_KEY)
            }
            Wrapping::AesKeyWrap => (Mechanism::AesKeyWrap, ObjectClass::SECRET_KEY),
        };
        let with = self.own(with, class)?;
        let mut template = template(label, purpose);
        if let Some(octets) = self.measure(&mechanism, with, wrapped)? {
            Self::fits(label, octets, aes)?;
            template.push(Attribute::Id(id_of(octets)));
        }
        let made = self.session.unwrap_key(&mechanism, with, wrapped, &template);
        let made = made.map_err(failed("C_UnwrapKey"))?;
        self.keep(made, label, aes, purpose)
    }

    /// The octets of a wrapped key, which modules do not say of a key that they
    /// unwrapped: it is unwrapped for this moment, and wrapped under a key that is born
    /// and ends in the token, which shows nothing else. Nothing where the module cannot.
    fn measure(
        &self,
        mechanism: &Mechanism<'_>,
        with: ObjectHandle,
        wrapped: &[u8],
    ) -> Result<Option<usize>, TokenError> {
        let passing = |more: &[Attribute]| {
            let mut template = vec![
                Attribute::Class(ObjectClass::SECRET_KEY),
                Attribute::KeyType(KeyType::AES),
                Attribute::Token(false),
                Attribute::Private(true),
                Attribute::Sensitive(true),
            ];
            template.extend_from_slice(more);
            template
        };
        let around = passing(&[
            Attribute::ValueLen(32_u64.into()),
            Attribute::Wrap(true),
            Attribute::Unwrap(false),
            Attribute::Extractable(false),
        ]);
        let Ok(around) = self.session.generate_key(&Mechanism::AesKeyGen, &around) else {
            return Ok(None);
        };
        let inside = passing(&[Attribute::Extractable(true), Attribute::Encrypt(false)]);
        let inside = self.session.unwrap_key(mechanism, with, wrapped, &inside);
        let shown = inside.as_ref().ok().and_then(|inside| {
            let shown = self.session.wrap_key(&Mechanism::AesKeyWrap, around, *inside).ok();
            let _ = self.session.destroy_object(*inside);
            shown
        });
        let _ = self.session.destroy_object(around);
        inside.map_err(failed("C_UnwrapKey"))?;
        Ok(shown.and_then(|shown| shown.len().checked_sub(WRAPPED_MORE)))
    }

    /// Destroys both halves of a pair that was made for an import.
    pub fn destroy_pair(&mut self, label: &str) -> Result<(), TokenError> {
        self.own(label, ObjectClass::PRIVATE_KEY)?;
        for class in [ObjectClass::PRIVATE_KEY, ObjectClass::PUBLIC_KEY] {
            let template = [Attribute::Class(class), Attribute::Label(label.into())];
            let found = self.session.find_objects(&template).map_err(failed("C_FindObjects"))?;
            for half in found {
                self.session.destroy_object(half).map_err(failed("C_DestroyObject"))?;
            }
        }
        Ok(())
    }

    /// Makes a pair on P-256 for [`agree`](Self::agree); its public point,
    /// uncompressed.
    pub fn make_agreement_pair(&mut self, label: &str) -> Result<Vec<u8>, TokenError> {
        self.fresh(label, ObjectClass::PRIVATE_KEY)?;
        let public = vec![Attribute::EcParams(P256.to_vec())];
        let (public, private) = pair(label, public, Attribute::Derive(true));
        let made = self
            .session
            .generate_key_pair(&Mechanism::EccKeyPairGen, &public, &private)
            .map_err(failed("C_GenerateKeyPair"))?;
        let found = self.session.get_attributes(made.0, &[AttributeType::EcPoint]);
        let found = found.map_err(failed("C_GetAttributeValue"))?;
        // An OCTET STRING with the point, or (some modules) the point by itself.
        let point = found.into_iter().find_map(|attribute| match attribute {
            Attribute::EcPoint(octets) => octets.last_chunk::<POINT>().copied(),
            _ => None,
        });
        let wrong = || TokenError::Call("C_GetAttributeValue", "no point of P-256".into());
        point.filter(|point| point[0] == 4).map(|point| point.to_vec()).ok_or_else(wrong)
    }

    /// Derives an AES key inside the token from our pair and the peer's point
    /// (ECDH, SP 800-56A section 5.7.1.2): the first octets of the shared secret.
    pub fn agree(
        &mut self,
        label: &str,
        aes: Aes,
        pair: &str,
        peer: &[u8],
    ) -> Result<(), TokenError> {
        self.fresh(label, ObjectClass::SECRET_KEY)?;
        if peer.len() != POINT || peer.first() != Some(&4) {
            return Err(TokenError::Unfit(
                "of the peer".into(),
                "is no uncompressed point of P-256",
            ));
        }
        let own = self.own(pair, ObjectClass::PRIVATE_KEY)?;
        let mechanism = Mechanism::Ecdh1Derive(Ecdh1DeriveParams::new(EcKdf::null(), peer));
        let mut template = template(label, Purpose::Traffic);
        let len = (aes.key_len() as u64).into();
        template.push(Attribute::ValueLen(len));
        template.push(Attribute::Id(id_of(aes.key_len())));
        let made = self.session.derive_key(&mechanism, own, &template);
        let made = made.map_err(failed("C_DeriveKey"))?;
        self.keep(made, label, aes, Purpose::Traffic)
    }

    /// Checks that a key cannot be read from the token.
    fn stays(&self, key: ObjectHandle, label: &str) -> Result<(), TokenError> {
        let wanted = [AttributeType::Sensitive, AttributeType::Extractable];
        let found = self.session.get_attributes(key, &wanted);
        let found = found.map_err(failed("C_GetAttributeValue"))?;
        let kept = [Attribute::Sensitive(true), Attribute::Extractable(false)];
        if kept.iter().all(|attribute| found.contains(attribute)) {
            return Ok(());
        }
        Err(TokenError::Unfit(label.into(), "could be read from it"))
    }

    /// A new key stays only if it is as it should be.
    fn keep(
        &mut self,
        made: ObjectHandle,
        label: &str,
        aes: Aes,
        purpose: Purpose,
    ) -> Result<(), TokenError> {
        let fit = match purpose {
            Purpose::Traffic => self.find(label, aes).map(|_| ()),
            Purpose::Unwrapping => self.stays(made, label),
        };
        if let Err(e) = fit {
            let _ = self.session.destroy_object(made);
            return Err(e);
        }
        Ok(())
    }
}

/// A DER element.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match content.len() {
        len @ 0..=0x7f => out.push(len as u8),
        len @ 0x80..=0xff => out.extend([0x81, len as u8]),
        len => out.extend([0x82, (len >> 8) as u8, len as u8]),
    }
    out.extend_from_slice(content);
    out
}

/// An INTEGER that is not negative.
fn unsigned(octets: &[u8]) -> Vec<u8> {
    let zeros = octets.iter().take_while(|octet| **octet == 0).count();
    let octets = &octets[zeros..];
    let sign: &[u8] = if octets.first().is_none_or(|octet| octet & 0x80 != 0) { &[0] } else { &[] };
    der(2, &[sign, octets].concat())
}
