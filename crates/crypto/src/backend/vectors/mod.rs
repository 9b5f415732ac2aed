//! Examples of the standards for ciphers and for HMAC, which every implementation of either
//! is tested with.

mod cipher;

pub(crate) use cipher::*;

use crate::suite::Mac;
use ferrule_base::Secret;

/// HMAC of `data` under `key`, truncated.
pub(crate) struct Hmac {
    pub mac: Mac,
    pub key: Vec<u8>,
    pub data: Vec<u8>,
    pub icv: Vec<u8>,
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

const LONGER: &[u8] = b"Test Using Larger Than Block-Size Key and Larger Than One Block-Size Data";

const LONGEST: &[u8] = b"This is a test using a larger than block-size key and a larger than \
      block-size data. The key needs to be hashed before being used by the HMAC \
      algorithm.";

/// RFC 2202 section 2, truncated.
pub(crate) fn rfc_2202_md5() -> Vec<Hmac> {
    table(
        Mac::HmacMd5_96,
        [
            (&[0x0b; 16], b"Hi There", "9294727a3638bb1c13f48ef8"),
            (b"Jefe", b"what do ya want for nothing?", "750c783e6ab0b503eaa86e31"),
            (&[0xaa; 16], &[0xdd; 50], "56be34521d144c88dbb8c733"),
            (&counted(1, 25), &[0xcd; 50], "697eaf0aca3a3aea3a751647"),
            (&[0x0c; 16], b"Test With Truncation", "56461ef2342edc00f9bab995"),
            (&[0xaa; 80], LONG_KEY, "6b1ab7fe4bd7bf8f0b62e6ce"),
            (&[0xaa; 80], LONGER, "6f630fad67cda0ee1fb1f562"),
        ],
    )
}

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
            (&[0xaa; 80], LONGER, "e8e99d0f45237d786d6bbaa7"),
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
            (&[0xaa; 131], LONGEST, "9b09ffa71b942fcb27635fbcd5b0e944"),
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

/// RFC 4231 section 4, truncated.
pub(crate) fn rfc_4231_sha384() -> Vec<Hmac> {
    table(
        Mac::HmacSha384_192,
        [
            (&[0x0b; 20], b"Hi There", "afd03944d84895626b0825f4ab46907f15f9dadbe4101ec6"),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47",
            ),
            (&[0xaa; 20], &[0xdd; 50], "88062608d3e6ad8a0aa2ace014c8a86f0aa635d947ac9feb"),
            (&counted(1, 25), &[0xcd; 50], "3e8a69b7783c25851933ab6290af6ca77a9981480850009c"),
            (
                &[0x0c; 20],
                b"Test With Truncation",
                "3abf34c3503b2a23a46efc619baef897f4c8e42c934ce55c",
            ),
            (&[0xaa; 131], LONG_KEY, "4ece084485813e9088d2c63a041bc5b44f9ef1012a2b588f"),
            (&[0xaa; 131], LONGEST, "6617178e941f020d351e2f254e8fd32c602420feb0b8fb9a"),
        ],
    )
}

/// RFC 4231 section 4, truncated.
pub(crate) fn rfc_4231_sha512() -> Vec<Hmac> {
    table(
        Mac::HmacSha512_256,
        [
            (
                &[0x0b; 20],
                b"Hi There",
                "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cde",
            ),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554",
            ),
            (
                &[0xaa; 20],
                &[0xdd; 50],
                "fa73b0089d56a284efb0f0756c890be9b1b5dbdd8ee81a3655f83e33b2279d39",
            ),
            (
                &counted(1, 25),
                &[0xcd; 50],
                "b0ba465637458c6990e5a8c5f61d4af7e576d97ff94b872de76f8050361ee3db",
            ),
            (
                &[0x0c; 20],
                b"Test With Truncation",
                "415fad6271580a531d4179bc891d87a650188707922a4fbb36663a1eb16da008",
            ),
            (
                &[0xaa; 131],
                LONG_KEY,
                "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f352",
            ),
            (
                &[0xaa; 131],
                LONGEST,
                "e37b6a775dc87dbaa4dfa9f96e5e3ffddebd71f8867289865df5a32d20cdc944",
            ),
        ],
    )
}

/// RFC 4868 section 2.7.2.2.
pub(crate) fn rfc_4868_sha384() -> Vec<Hmac> {
    table(
        Mac::HmacSha384_192,
        [
            (&[0x0b; 48], b"Hi There", "b6a8d5636f5c6a7224f9977dcf7ee6c7fb6d0c48cbdee973"),
            (
                &b"Jefe".repeat(12),
                b"what do ya want for nothing?",
                "2c7353974f1842fd66d53c452ca42122b28c0b594cfb184d",
            ),
            (&[0xaa; 48], &[0xdd; 50], "809f439be00274321d4a538652164b53554a508184a0c316"),
            (
                &[counted(1, 32), counted(10, 16)].concat(),
                &[0xcd; 50],
                "5b540085c6e6358096532b2493609ed1cb298f774f87bb5c",
            ),
        ],
    )
}

/// RFC 4868 section 2.7.2.3.
pub(crate) fn rfc_4868_sha512() -> Vec<Hmac> {
    table(
        Mac::HmacSha512_256,
        [
            (
                &[0x0b; 64],
                b"Hi There",
                "637edc6e01dce7e6742a99451aae82df23da3e92439e590e43e761b33e910fb8",
            ),
            (
                &b"Jefe".repeat(16),
                b"what do ya want for nothing?",
                "cb370917ae8a7ce28cfd1d8f4705d6141c173b2a9362c15df235dfb251b15454",
            ),
            (
                &[0xaa; 64],
                &[0xdd; 50],
                "2ee7acd783624ca9398710f3ee05ae41b9f9b0510c87e49e586cc9bf961733d8",
            ),
            (
                &counted(1, 64),
                &[0xcd; 50],
                "5e6688e5a3daec826ca32eaea224eff5e700628947470e13ad01302561bab108",
            ),
        ],
    )
}
