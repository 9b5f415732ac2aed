//! Examples of the standards. HMAC's and CBC's stand beside their code, because
//! a job cannot say all that they need.

use crate::packet::{Packet, in_every_backend, octets, spec};
use ferrule_crypto::{Aes, Op, Suite, Verdict};

struct Example {
    suite: Suite,
    key: &'static str,
    nonce: &'static str,
    ad: &'static str,
    plain: &'static str,
    sealed: &'static str,
    icv: &'static str,
}

impl Example {
    /// Both directions, in every backend.
    fn check(&self) {
        let nonce: [u8; 12] = octets(self.nonce).try_into().unwrap();
        let (ad, plain) = (octets(self.ad), octets(self.plain));
        for (backend, key) in in_every_backend(&spec(self.suite, &octets(self.key), &[])) {
            let mut packet = Packet::new(self.suite, nonce, &ad, &plain, &[]);
            assert_eq!(packet.run(Op::Seal, &key), Verdict::Done, "{backend:?}");
            assert_eq!(packet.text(), octets(self.sealed), "{backend:?}");
            assert_eq!(packet.icv(), octets(self.icv), "{backend:?}");
            assert_eq!(packet.run(Op::Open, &key), Verdict::Done, "{backend:?}");
            assert_eq!(packet.text(), plain, "{backend:?}");
        }
    }
}

/// McGrew and Viega, The Galois/Counter Mode of Operation, appendix B (and the
/// examples of SP 800-38D): cases 1 to 4, 7, 10 and 13 to 16, with 96-bit IVs.
const GCM_EXAMPLES: [Example; 10] = [
    // Case 1.
    Example {
        suite: Suite::AesGcm(Aes::Aes128),
        key: "00000000000000000000000000000000",
        nonce: "000000000000000000000000",
        ad: "",
        plain: "",
        sealed: "",
        icv: "58e2fccefa7e3061367f1d57a4e7455a",
    },
    // Case 2.
    Example {
        suite: Suite::AesGcm(Aes::Aes128),
        key: "00000000000000000000000000000000",
        nonce: "000000000000000000000000",
        ad: "",
        plain: "00000000000000000000000000000000",
        sealed: "0388dace60b6a392f328c2b971b2fe78",
        icv: "ab6e47d42cec13bdf53a67b21257bddf",
    },
    // Case 3.
    Example {
        suite: Suite::AesGcm(Aes::Aes128),
        key: "feffe9928665731c6d6a8f9467308308",
        nonce: "cafebabefacedbaddecaf888",
        ad: "",
        plain: "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72 \
        1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
        sealed: "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e \
        21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985",
        icv: "4d5c2af327cd64a62cf35abd2ba6fab4",
    },
    // Case 4.
    Example {
        suite: Suite::AesGcm(Aes::Aes128),
        key: "feffe9928665731c6d6a8f9467308308",
        nonce: "cafebabefacedbaddecaf888",
        ad: "feedfacedeadbeeffeedfacedeadbeefabaddad2",
        plain: "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72 \
        1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        sealed: "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e \
        21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
        icv: "5bc94fbc3221a5db94fae95ae7121a47",
    },
    // Case 7.
    Example {
        suite: Suite::AesGcm(Aes::Aes192),
        key: "000000000000000000000000000000000000000000000000",
        nonce: "000000000000000000000000",
        ad: "",
        plain: "",
        sealed: "",
        icv: "cd33b28ac773f74ba00ed1f312572435",
    },
    // Case 10.
    Example {
        suite: Suite::AesGcm(Aes::Aes192),
        key: "feffe9928665731c6d6a8f9467308308feffe9928665731c",
        nonce: "cafebabefacedbaddecaf888",
        ad: "feedfacedeadbeeffeedfacedeadbeefabaddad2",
        plain: "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72 \
        1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        sealed: "3980ca0b3c00e841eb06fac4872a2757859e1ceaa6efd984628593b40ca1e19c \
        7d773d00c144c525ac619d18c84a3f4718e2448b2fe324d9ccda2710",
        icv: "2519498e80f1478f37ba55bd6d27618c",
    },
    // Case 13.
    Example {
        suite: Suite::AesGcm(Aes::Aes256),
        key: "0000000000000000000000000000000000000000000000000000000000000000",
        nonce: "000000000000000000000000",
        ad: "",
        plain: "",
        sealed: "",
        icv: "530f8afbc74536b9a963b4f1c4cb738b",
    },
    // Case 14.
    Example {
        suite: Suite::AesGcm(Aes::Aes256),
        key: "0000000000000000000000000000000000000000000000000000000000000000",
        nonce: "000000000000000000000000",
        ad: "",
        plain: "00000000000000000000000000000000",
        sealed: "cea7403d4d606b6e074ec5d3baf39d18",
        icv: "d0d1c8a799996bf0265b98b5d48ab919",
    },
    // Case 15.
    Example {
        suite: Suite::AesGcm(Aes::Aes256),
        key: "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
        nonce: "cafebabefacedbaddecaf888",
        ad: "",
        plain: "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72 \
        1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
        sealed: "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa \
        8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad",
        icv: "b094dac5d93471bdec1a502270e3cc6c",
    },
    // Case 16.
    Example {
        suite: Suite::AesGcm(Aes::Aes256),
        key: "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
        nonce: "cafebabefacedbaddecaf888",
        ad: "feedfacedeadbeeffeedfacedeadbeefabaddad2",
        plain: "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72 \
        1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        sealed: "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa \
        8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
        icv: "76fc6ece0f4e1768cddf8853bb2d551b",
    },
];

#[test]
fn aes_gcm_answers_its_specification() {
    GCM_EXAMPLES.iter().for_each(Example::check);
}

/// RFC 8439 section 2.8.2.
#[test]
fn chacha20_poly1305_answers_rfc_8439() {
    Example {
        suite: Suite::ChaCha20Poly1305,
        key: "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
        nonce: "070000004041424344454647",
        ad: "50515253c0c1c2c3c4c5c6c7",
        plain: "4c616469657320616e642047656e746c656d656e206f662074686520636c6173 \
            73206f66202739393a204966204920636f756c64206f6666657220796f75206f \
            6e6c79206f6e652074697020666f7220746865206675747572652c2073756e73 \
            637265656e20776f756c642062652069742e",
        sealed: "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d6 \
            3dbea45e8ca9671282fafb69da92728b1a71de0a9e060b2905d6a5b67ecd3b36 \
            92ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc \
            3ff4def08e4b7a9de576d26586cec64b6116",
        icv: "1ae10b594f09e26a7e902ecbd0600691",
    }
    .check();
}

/// draft-mcgrew-gcm-test-01 section 3: RFC 4543 in ESP with 32-bit numbers. Additional
/// data are SPI, number, IV and the payload with its trailer.
#[test]
fn aes_gmac_answers_the_test_cases_of_its_author() {
    let ad = "00004321000000070000000000000000\
              45000030da3a00008001df3bc0a80005c0a800010800c6cd02000700\
              6162636465666768696a6b6c6d6e6f707172737401020201";
    let example = Example {
        suite: Suite::AesGmac(Aes::Aes128),
        key: "4c80cdefbb5d10da906ac73c3613a634",
        nonce: "22433c640000000000000000",
        ad,
        plain: "",
        sealed: "",
        icv: "f2a9a836e155106aa8dcd618e4099aaa",
    };
    example.check();
    // GCM of nothing but additional data is the same.
    Example { suite: Suite::AesGcm(Aes::Aes128), ..example }.check();
}
