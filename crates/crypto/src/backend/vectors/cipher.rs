//! Examples for ciphers.

use super::{counted, octets};

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
    /// As a job has it: the nonce of RFC 3686, then the IV.
    pub nonce: [u8; 12],
    pub plain: Vec<u8>,
    pub sealed: Vec<u8>,
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
