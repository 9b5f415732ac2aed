//! Examples of the standards for AES-CBC and for HMAC: whoever does either is
//! asked for these.

use crate::suite::Mac;
use ferrule_base::Secret;

/// HMAC of `data` under `key`, truncated.
pub(crate) struct Hmac {
    pub mac: Mac,
    pub key: Vec<u8>,
    pub data: Vec<u8>,
    pub icv: Vec<u8>,
}

/// AES-128-CBC.
pub(crate) struct Cbc {
    pub key: Vec<u8>,
    pub iv: Vec<u8>,
    pub plain: Vec<u8>,
    pub sealed: Vec<u8>,
}

fn octets(hex: &str) -> Vec<u8> {
    Secret::from_hex(hex).unwrap().expose().to_vec()
}

fn counted(from: u8, len: usize) -> Vec<u8> {
    (from..).take(len).collect()
}

fn table<const N: usize>(mac: Mac, cases: [(&[u8], &[u8], &str); N]) -> Vec<Hmac> {
    let case = |(key, data, icv): (&[u8], &[u8], &str)| {
        let (key, data) = (key.to_vec(), data.to_vec());
        Hmac { mac, key, data, icv: octets(icv) }
    };
    cases.map(case).into()
}

const LONG_KEY: &[u8] = b"Test Using Larger Than Block-Size Key - Hash Key First";

/// RFC 2202 section 3, truncated.
pub(crate) fn rfc_2202() -> Vec<Hmac> {
    table(
        Mac::HmacSha1_96,
        [
            (&[0x0b; 20], b"Hi There", "b617318655057264e28bc0b6"),
            (b"Jefe", b"what do ya want for nothing?", "effcdf6ae5eb2fa2d27416d5"),
            (&[0xaa; 20], &[0xdd; 50], "125d7342b9ac11cd91a39af4"),
            (&counted(1, 25), &[0xcd; 50], "4c9007f4026250c6bc8414f9"),
            (&[0x0c; 20], b"Test With Truncation", "4c1a03424b55e07fe7f27be1"),
            (&[0xaa; 80], LONG_KEY, "aa4ae5e15272d00e95705637"),
            (
                &[0xaa; 80],
                b"Test Using Larger Than Block-Size Key and Larger Than One Block-Size Data",
                "e8e99d0f45237d786d6bbaa7",
            ),
        ],
    )
}

/// RFC 4231 section 4, truncated.
pub(crate) fn rfc_4231() -> Vec<Hmac> {
    table(
        Mac::HmacSha256_128,
        [
            (&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b"),
            (b"Jefe", b"what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c7"),
            (&[0xaa; 20], &[0xdd; 50], "773ea91e36800e46854db8ebd09181a7"),
            (&counted(1, 25), &[0xcd; 50], "82558a389a443c0ea4cc819899f2083a"),
            (&[0x0c; 20], b"Test With Truncation", "a3b6167473100ee06e0c796c2955552b"),
            (&[0xaa; 131], LONG_KEY, "60e431591ee0b67f0d8a26aacbf5b77f"),
            (
                &[0xaa; 131],
                b"This is a test using a larger than block-size key and a larger than \
                  block-size data. The key needs to be hashed before being used by the HMAC \
                  algorithm.",
                "9b09ffa71b942fcb27635fbcd5b0e944",
            ),
        ],
    )
}

/// RFC 4868 section 2.7.2.1.
pub(crate) fn rfc_4868() -> Vec<Hmac> {
    table(
        Mac::HmacSha256_128,
        [
            (&[0x0b; 32], b"Hi There", "198a607eb44bfbc69903a0f1cf2bbdc5"),
            (
                b"JefeJefeJefeJefeJefeJefeJefeJefe",
                b"what do ya want for nothing?",
                "167f928588c5cc2eef8e3093caa0e87c",
            ),
            (&[0xaa; 32], &[0xdd; 50], "cdcb1220d1ecccea91e53aba3092f962"),
            (&counted(1, 32), &[0xcd; 50], "372efcf9b40b35c2115b1346903d2ef4"),
        ],
    )
}

/// RFC 3602 section 4, cases 1 to 4.
pub(crate) fn rfc_3602() -> Vec<Cbc> {
    let cases = [
        [
            "06a9214036b8a15b512e03d534120006",
            "3dafba429d9eb430b422da802c9fac41",
            "53696e676c6520626c6f636b206d7367",
            "e353779c1079aeb82708942dbe77181a",
        ],
        [
            "c286696d887c9aa0611bbb3e2025a45a",
            "562e17996d093d28ddb3ba695a2e6f58",
            "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
            "d296cd94c2cccf8a3a863028b5e1dc0a7586602d253cfff91b8266bea6d61ab1",
        ],
        [
            "6c3ea0477630ce21a2ce334aa746c2cd",
            "c782dc4c098c66cbd9cd27d825682c81",
            "5468697320697320612034382d62797465206d657373616765202865786163746c79203320414553\
             20626c6f636b7329",
            "d0a02b3836451753d493665d33f0e8862dea54cdb293abc7506939276772f8d5021c19216bad525c\
             8579695d83ba2684",
        ],
        [
            "56e47a38c5598974bc46903dba290349",
            "8ce82eefbea0da3c44699ed7db51b7d9",
            "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7\
             c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf",
            "c30e32ffedc0774e6aff6af0869f71aa0f3af07a9a31a9c684db207eb0ef8e4e35907aa632c3ffdf\
             868bb7b29d3d46ad83ce9f9a102ee99d49a53e87f4c3da55",
        ],
    ];
    let case = |[key, iv, plain, sealed]: [Vec<u8>; 4]| Cbc { key, iv, plain, sealed };
    cases.map(|hex| case(hex.map(octets))).into()
}
