//! Examples of the standards for ciphers and for HMAC: whoever does either is asked
//! for these.

use crate::suite::Mac;
use ferrule_base::Secret;

/// HMAC of `data` under `key`, truncated.
pub(crate) struct Hmac {
    pub mac: Mac,
    pub key: Vec<u8>,
    pub data: Vec<u8>,
    pub icv: Vec<u8>,
}

/// A cipher in CBC mode.
#[derive(Clone)]
pub(crate) struct Cbc {
    pub key: Vec<u8>,
    pub iv: Vec<u8>,
    pub plain: Vec<u8>,
    pub sealed: Vec<u8>,
}

/// AES in counter mode.
pub(crate) struct Ctr {
    pub key: Vec<u8>,
    /// As a job has it: what RFC 3686 calls nonce, then the IV.
    pub nonce: [u8; 12],
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

/// SP 800-38A appendix F.2: a key of each length.
pub(crate) fn sp_800_38a_cbc() -> [Cbc; 3] {
    let plain = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
                 30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";
    let cases = [
        [
            "2b7e151628aed2a6abf7158809cf4f3c",
            "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2\
             73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7",
        ],
        [
            "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
            "4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a\
             571b242012fb7ae07fa9baac3df102e008b0e27988598881d920a9e64f5615cd",
        ],
        [
            "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
            "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d\
             39f23369a9d9bacfa530e26304231461b2eb05e2c39be9fcda6c19078c6a9d1b",
        ],
    ];
    cases.map(|[key, sealed]| Cbc {
        key: octets(key),
        iv: counted(0, 16),
        plain: octets(plain),
        sealed: octets(sealed),
    })
}

/// FIPS 81 appendix C: DES in CBC mode.
pub(crate) fn fips_81() -> Cbc {
    Cbc {
        key: octets("0123456789abcdef"),
        iv: octets("1234567890abcdef"),
        plain: b"Now is the time for all ".to_vec(),
        sealed: octets("e5c7cdde872bf27c43e934008c389c0f683788499a7c05f6"),
    }
}

/// SP 800-67 appendix B: triple DES with three keys, a block at a time.
pub(crate) fn sp_800_67() -> Vec<Cbc> {
    let plain = b"The qufck brown fox jump".chunks(8);
    let sealed = ["a826fd8ce53b855f", "cce21c8112256fe6", "68d5c05dd9b6b900"];
    let key = octets("0123456789abcdef23456789abcdef01456789abcdef0123");
    let case = |(plain, sealed): (&[u8], &str)| {
        let (key, iv, plain) = (key.clone(), vec![0; 8], plain.to_vec());
        Cbc { key, iv, plain, sealed: octets(sealed) }
    };
    plain.zip(sealed).map(case).collect()
}

/// RFC 3686 section 6, all nine.
pub(crate) fn rfc_3686() -> Vec<Ctr> {
    let (block, long) = (b"Single block msg".to_vec(), counted(0, 36));
    let cases = [
        [
            "ae6852f8121067cc4bf7a5765577f39e",
            "000000300000000000000000",
            "e4095d4fb7a7b3792d6175a3261311b8",
        ],
        [
            "7e24067817fae0d743d6ce1f32539163",
            "006cb6dbc0543b59da48d90b",
            "5104a106168a72d9790d41ee8edad388eb2e1efc46da57c8fce630df9141be28",
        ],
        [
            "7691be035e5020a8ac6e618529f9a0dc",
            "00e0017b27777f3f4a1786f0",
            "c1cf48a89f2ffdd9cf4652e9efdb72d74540a42bde6d7836d59a5ceaaef3105325b2072f",
        ],
        [
            "16af5b145fc9f579c175f93e3bfb0eed863d06ccfdb78515",
            "0000004836733c147d6d93cb",
            "4b55384fe259c9c84e7935a003cbe928",
        ],
        [
            "7c5cb2401b3dc33c19e7340819e0f69c678c3db8e6f6a91a",
            "0096b03b020c6eadc2cb500d",
            "453243fc609b23327edfaafa7131cd9f8490701c5ad4a79cfc1fe0ff42f4fb00",
        ],
        [
            "02bf391ee8ecb159b959617b0965279bf59b60a786d3e0fe",
            "0007bdfd5cbd60278dcc0912",
            "96893fc55e5c722f540b7dd1ddf7e758d288bc95c69165884536c811662f2188abee0935",
        ],
        [
            "776beff2851db06f4c8a0542c8696f6c6a81af1eec96b4d37fc1d689e6c1c104",
            "00000060db5672c97aa8f0b2",
            "145ad01dbf824ec7560863dc71e3e0c0",
        ],
        [
            "f6d66d6bd52d59bb0796365879eff886c66dd51a5b6a99744b50590c87a23884",
            "00faac24c1585ef15a43d875",
            "f05e231b3894612c49ee000b804eb2a9b8306b508f839d6a5530831d9344af1c",
        ],
        [
            "ff7a617ce69148e4f1726e2f43581de2aa62d9f805532edff1eed687fb54153d",
            "001cc5b751a51d70a1c11148",
            "eb6c52821d0bbbf7ce7594462aca4faab407df866569fd07f48cc0b583d6071f1ec0e6b8",
        ],
    ];
    let case = |(at, [key, nonce, sealed]): (usize, [&str; 3])| {
        let plain = [&block[..], &long[..32], &long][at % 3].to_vec();
        let nonce = octets(nonce).try_into().unwrap();
        Ctr { key: octets(key), nonce, plain, sealed: octets(sealed) }
    };
    cases.into_iter().enumerate().map(case).collect()
}
