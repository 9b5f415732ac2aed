//! Octets from elsewhere: packets of the Linux kernel, the example of RFC 7634,
//! and the packets that an independent program makes for our numbers.

use super::*;
use ferrule_crypto::{Aes, Mac};

/// `theirs`: the inner packet as the Linux kernel sealed it (from `vectors/esp`
/// at the top of the tree, set and frame by name). `ours`: as a Python program
/// seals it that makes IV and outer header by our rules.
struct Vector {
    name: &'static str,
    suite: Suite,
    key: &'static str,
    mac_key: &'static str,
    salt: &'static str,
    spi: u32,
    esn: bool,
    number: u64,
    inner: &'static str,
    theirs: &'static str,
    ours: &'static str,
}

impl Vector {
    fn keys(&self) -> KeySpec {
        let secret = |text| Secret::from_hex(text).unwrap();
        KeySpec::new(self.suite, secret(self.key), secret(self.mac_key))
    }

    /// A gateway with both ends of the SA, just before the vector's number.
    fn gateway<E: Make>(&self) -> Gateway<E> {
        let mut g = Gateway::new(1);
        let v6 = hex(self.theirs)[0] >> 4 == 6;
        let (source, destination) = match v6 {
            true => (ip("2001:db8:b::1"), ip("2001:db8:b::2")),
            false => (ip("198.51.100.1"), ip("198.51.100.2")),
        };
        let place = InboundPlace { spi: self.spi, worker: 0, index: 0 };
        g.tables.sas = SaDirectory::new(&[Some(0)], &[place]).unwrap().into();
        let (esn, suite, spi) = (self.esn, self.suite, self.spi);
        let salt = Secret::from_hex(self.salt).unwrap();
        let numbers = Sequence::unlimited(self.number, if esn { u64::MAX - 1 } else { 1 << 31 });
        let out = outbound(suite, 4, esn);
        let out = OutboundConfig {
            spi,
            source,
            destination,
            keys: self.keys(),
            salt: salt.clone(),
            ..out
        };
        g.out.install_at(&mut g.engine, 0, &out, numbers).unwrap();
        let inn = inbound(suite, 4, esn);
        let inn = InboundConfig {
            spi,
            source: Some(source),
            destination,
            keys: self.keys(),
            salt,
            ..inn
        };
        g.inn.install_at(&mut g.engine, 0, &inn, self.number - 1).unwrap();
        g
    }
}

fn esp_packets_of_the_linux_kernel_open<E: Make>() {
    for v in VECTORS {
        let mut g: Gateway<E> = v.gateway();
        assert_eq!(g.open(&hex(v.theirs)), End::Sent(Next::Ip, hex(v.inner)), "{}", v.name);
        assert_eq!(g.edge(), v.number, "{}", v.name);
        assert_eq!(g.open(&hex(v.theirs)), End::Dropped(DropReason::EspReplay), "{}", v.name);
    }
}

fn esp_packets_sealed_equal_those_of_an_independent_program<E: Make>() {
    for v in VECTORS {
        let mut g: Gateway<E> = v.gateway();
        assert_eq!(g.seal(&hex(v.inner)), End::Sent(Next::Output, hex(v.ours)), "{}", v.name);
        assert_eq!(g.open(&hex(v.ours)), End::Sent(Next::Ip, hex(v.inner)), "{}", v.name);
    }
}

/// Appendix A: an ICMP packet from 198.51.100.5 to 192.0.2.5.
fn esp_chacha20_poly1305_example_of_rfc_7634_opens<E: Make>() {
    let esp = "0102030400000005101112131415161724039428b97f417e3c13753a4f05087b67c352e6a7fab1b982\
               d466ef407ae5c614ee8099d52844eb61aa95dfab4c02f72aa71e7c4c4f64c9befe2facc638e8f3cbec\
               163fac469b502773f6fb94e664da9165b82829f641e076aaa8266b7fb0f7b11b369907e1ad43";
    let inner = "45000054a6f200004001e778c6336405c000020508005b7a3a080000553bec100007362708090a0b\
                 0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f30313233\
                 34353637";
    let mut g = Gateway::<E>::new(1);
    let place = InboundPlace { spi: 0x0102_0304, worker: 0, index: 0 };
    g.tables.sas = SaDirectory::new(&[], &[place]).unwrap().into();
    let suite = Suite::ChaCha20Poly1305;
    let sa = InboundConfig {
        spi: place.spi,
        keys: KeySpec::new(suite, Secret::new((0x80..0xa0).collect()), Secret::new(vec![])),
        salt: Secret::new(hex("a0a1a2a3")),
        selectors: vec![between("192.0.2.5/32", "198.51.100.5/32")],
        ..inbound(suite, 4, false)
    };
    g.inn.install_at(&mut g.engine, 0, &sa, 0).unwrap();
    let esp = hex(esp);
    let mut packet = vec![0; 20];
    let (src, dst) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    ipv4::Repr::new(Protocol::ESP, src, dst, esp.len() as u16).emit(&mut packet);
    packet.extend(esp);
    assert_eq!(g.open(&packet), End::Sent(Next::Ip, hex(inner)));
}

on_both_engines! {
    esp_packets_of_the_linux_kernel_open;
    esp_packets_sealed_equal_those_of_an_independent_program;
    esp_chacha20_poly1305_example_of_rfc_7634_opens;
}

const VECTORS: &[Vector] = &[
    Vector {
        name: "tun4-gcm128 1",
        suite: Suite::AesGcm(Aes::Aes128),
        key: "8c092a43f9265868db20fd5a3248e150",
        mac_key: "",
        salt: "f9811bd8",
        spi: 0x7801b4f6,
        esn: false,
        number: 1,
        inner: "4500001d000100003f1167bb0a0100090a0200090fa413890009729a56",
        theirs: "4500005441f500004032e418c6336401c63364027801b4f600000001c587df34a90edaf75f609a6d\
                 885f9ada1a89d68e4ef6986a276d87bda0f686fc16090e06105e4dc7493c25ff832b8437e9bd441e\
                 f6cab337",
        ours: "45000054b4f7000040327116c6336401c63364027801b4f6000000010000000000000001acd4562ea7\
               bdff0b2bd14b647765e1ae1327e2ba00752fd6b27e0d365942913cbcaf4184b9c300f1fe59d5236a70\
               d734",
    },
    Vector {
        name: "tun4-gcm128 26",
        suite: Suite::AesGcm(Aes::Aes128),
        key: "8c092a43f9265868db20fd5a3248e150",
        mac_key: "",
        salt: "f9811bd8",
        spi: 0x7801b4f6,
        esn: false,
        number: 26,
        inner: "600000000009113f20010db800010000000000000000000920010db80002000000000000000000090\
                fa6138900092b2656",
        theirs: "45000068000040004032e5f9c6336401c63364027801b4f60000001ac587df34a90edaec64b37c5b\
                 8b64c5751f2caa76be26865b1823be7bf83ee999840baf4ffef8e0134eb10bbb368714f2034026f4\
                 256f5f215c0c31358221556b39cac37bb3fec330c207cab7",
        ours: "45000068b5104000403230e9c6336401c63364027801b4f60000001a000000000000001a2782c36416\
               50b5ddddf1defa096a24657043f9acb48baf2fcbc7bc22ac075c86f44d9d858eb46f5390dfafcfece3\
               e483a6fbe87eb232aac0b867bcd1b031011472832c31",
    },
    Vector {
        name: "tun4-gcm256 1",
        suite: Suite::AesGcm(Aes::Aes256),
        key: "a48cdf093ffaa25675af4e36014af991de927a457f9f7a87acd71424cbef01c2",
        mac_key: "",
        salt: "59a78a07",
        spi: 0x015dd1a7,
        esn: false,
        number: 1,
        inner: "4500001d000100003f1167bb0a0100090a0200090fa413890009729a56",
        theirs: "45000054432100004032e2ecc6336401c6336402015dd1a70000000120680ca8082b00b955f11caf\
                 e8c9c6618bcfba696a1c1b92d50ca3c5ef2b56be974b7b86d650ce5c0655e73299dad355b99de4a2\
                 94490c30",
        ours: "45000054d1a8000040325465c6336401c6336402015dd1a70000000100000000000000014cdab50941\
               4a615cb0607c0d3ffa3611122990a519968675267295077dd048339e95f809a26864e263295cbe7bd1\
               f626",
    },
    Vector {
        name: "tun4-gcm128-esn 12",
        suite: Suite::AesGcm(Aes::Aes128),
        key: "7f0d847fb0e6eac30c17bfdd003bd6da",
        mac_key: "",
        salt: "394792e1",
        spi: 0x6b89bc47,
        esn: true,
        number: 4294967297,
        inner: "45000050004e40003f0627460a0100090a0200090bb800500000000100000000501820008dd600005\
                600000518a55a7e181f262d343b424950575e656c737a81888f969da4abb2b9c0c7ced5dce3eaf1",
        theirs: "45000088000040004032e5d9c6336401c63364026b89bc47000000015a2b56877a3955f05e98a57f\
                 a79ba9db437f67f20d217d6c78111b176d174bc327eb31e7ef5ab0e342167ef9faf9bafe497b78a1\
                 7bc1ebb5669357ec81257aaa6b9fc6c57740b6d80a909636303e4d7e9c4ae6f24df82ab634268f15\
                 39c0ed4ecbc4254a66ad847759747620",
        ours: "45000088bc48400040322991c6336401c63364026b89bc47000000010000000100000001ab2b08f953\
               0fae6bda4db87d6c90db6521184402faad4732e2147cd5f20cd1839f5b674c2de7c954a72f44e13c4b\
               d57994de53a90014e4c76c6d1734fbbaecca03aa2515e8970188c4afe26f6087daea89c5cd71d2ef6d\
               6e930b915b6e41358d6056e8fa",
    },
    Vector {
        name: "tun4-chapoly 1",
        suite: Suite::ChaCha20Poly1305,
        key: "68f09326a55936bc220e3ea4ad5c91f8828241d13216d0fb0f1ce0058973048e",
        mac_key: "",
        salt: "53887da2",
        spi: 0x18291f1b,
        esn: false,
        number: 1,
        inner: "4500001d000100003f1167bb0a0100090a0200090fa413890009729a56",
        theirs: "450000544e0e00004032d7ffc6336401c633640218291f1b00000001df75cbbb0791b80f500a3dd2\
                 098b80a7626a98a7d175e4bae0b64891be75a54a809df42f346aa830c1a5a85fb1f9e2ed387f1a28\
                 92815ed5",
        ours: "450000541f1c0000403206f2c6336401c633640218291f1b0000000100000000000000010030a6c07a\
               4f20c44727929459a010e1c541d87cfd06796445708bd1f3c8ccee831af3e2877d0307756bf7ae85bf\
               a116",
    },
    Vector {
        name: "tun4-cbc128-sha1 1",
        suite: Suite::AesCbc(Aes::Aes128, Mac::HmacSha1_96),
        key: "f584f26180ccdc058ac012ceff44bcbe",
        mac_key: "c97c2a54bf1f0e73110896198a8eb1ba04a92e62",
        salt: "",
        spi: 0x70689ef5,
        esn: false,
        number: 1,
        inner: "4500001d000100003f1167bb0a0100090a0200090fa413890009729a56",
        theirs: "4500005846b200004032df57c6336401c633640270689ef500000001e8f674d42925392112c351c5\
                 f96d5587959670b389ad5ec5b7c388a96d132ec3415c67b1e1370463a14be9541f59dea1c5a64933\
                 8a8ec44a492d349b",
        ours: "450000589ef6000040328713c6336401c633640270689ef500000001e3ba1566de7195efa7808036f9\
               e9140e3d1ab5c20be75c83a414efccdacda37abb9322b7910aecaa95793b34f3469e65a957a2b40d65\
               d6b6e69299ef",
    },
    Vector {
        name: "tun4-cbc128-sha1 26",
        suite: Suite::AesCbc(Aes::Aes128, Mac::HmacSha1_96),
        key: "f584f26180ccdc058ac012ceff44bcbe",
        mac_key: "c97c2a54bf1f0e73110896198a8eb1ba04a92e62",
        salt: "",
        spi: 0x70689ef5,
        esn: false,
        number: 26,
        inner: "600000000009113f20010db800010000000000000000000920010db80002000000000000000000090\
                fa6138900092b2656",
        theirs: "45000078000040004032e5e9c6336401c633640270689ef50000001a858fba10f572d64babafb894\
                 245fdb7c76e927982327a1555af0109aa4b4d84da4a6ce93de6841b8da56b5e792571e969ebe3fee\
                 dc89636202f8cfd3bea55b270018450ad74ba382d208b0bb45aa203b99a7069287268cbcdc52ce98",
        ours: "450000789f0f4000403246dac6336401c633640270689ef50000001abdbc2323ad2efd14147ce081a1\
               cb9384f5ecec399378cedbb136e6d20b71c408ed3e0f3e85fef472736a031501d5d97beb851cbffc6b\
               6f25bcfe0d168087dc6e4cc0db71cee1861911ed43e34a850a381cc9232709f75e75b1504a6d",
    },
    Vector {
        name: "tun4-cbc128-sha1-esn 8",
        suite: Suite::AesCbc(Aes::Aes128, Mac::HmacSha1_96),
        key: "03401581f5ee74958b68a3c3b8814561",
        mac_key: "a6f6172aff054702a10bfe87667fe9dfcee03511",
        salt: "",
        spi: 0x2bc15c73,
        esn: true,
        number: 12884901890,
        inner: "4500021c000800003f1165b50a0100090a0200090fa4139402084622560000056aa55a7e6a71787f8\
                68d949ba2a9b0b7bec5ccd3dae1e8eff6fd040b121920272e353c434a51585f666d747b828990979e\
                a5acb3bac1c8cfd6dde4ebf2f900070e151c232a31383f464d545b626970777e858c939aa1a8afb6b\
                dc4cbd2d9e0e7eef5fc030a11181f262d343b424950575e656c737a81888f969da4abb2b9c0c7ced5\
                dce3eaf1f8ff060d141b222930373e454c535a61686f767d848b9299a0a7aeb5bcc3cad1d8dfe6edf\
                4fb020910171e252c333a41484f565d646b727980878e959ca3aab1b8bfc6cdd4dbe2e9f0f7fe050c\
                131a21282f363d444b525960676e757c838a91989fa6adb4bbc2c9d0d7dee5ecf3fa01080f161d242\
                b323940474e555c636a71787f868d949ba2a9b0b7bec5ccd3dae1e8eff6fd040b121920272e353c43\
                4a51585f666d747b828990979ea5acb3bac1c8cfd6dde4ebf2f900070e151c232a31383f464d545b6\
                26970777e858c939aa1a8afb6bdc4cbd2d9e0e7eef5fc030a11181f262d343b424950575e656c737a\
                81888f969da4abb2b9c0c7ced5dce3eaf1f8ff060d141b222930373e454c535a61686f767d848b929\
                9a0a7aeb5bcc3cad1d8dfe6edf4fb020910171e252c333a41484f565d646b727980878e959ca3aab1\
                b8bfc6cdd4dbe2e9f0f7fe050c131a21282f363d444b525960676e757c838a91989fa6adb4bbc2c9d\
                0d7dee5ecf3fa01080f161d242b",
        theirs: "4500025852fd00004032d10cc6336401c63364022bc15c7300000002f4a50aae9c5b220b4d57df69\
                 4d955f12bfa9c5a859cc305186803fd79614011879a7a3b66b1e8ee274523a7106139814c1176551\
                 0b46a9dc0bb64c9170208f79cead0a653da4e3120b5184cb59430bd89ff82fb90143105c86aa631a\
                 8cdeacc2a6c92e4b7c6eed1b31680766207548885dbe01de8d3fd72e91a6025483649433230a6eb7\
                 50c05e67ba5a1d8fcc4e49621a4a3b3c0ee9401660db53a37e9a1f0f5ecb808ce0e42f2f28437fc5\
                 ad52f802b0f4f8bf2a79fabd34a6e6761897361f90d5ec30cd03d803282808b1c35545b685263585\
                 1730528379134726fdb49e40fe65ff02429b1b5a4132a22368d7dbee80a42f8a3abfe88172aa153e\
                 ff1b7edc51a8a8ec1d3022806f237bfe19ce8974fdac6eb12d48015325bb3ba5f0501f1af9514fca\
                 32144714572e21b258bd7d885ee9f20d42feee4d27b98da6c2e82af1b7b44e240c5ed541a9bb03c3\
                 604a3e37561f86468bf5d75fcc1b73d79bab5b99d7e721ebd26ece6adc494e01b8b828b807e9185b\
                 41543b77c3acb58ee411ab91abd5dace001a5fa0ff6e523ff120f61de53bf12fcdac7735bc9b6c94\
                 f3ce2d45323c1e96a77d20caca3a220f8c2597d8d4cc7b0477dae6dea8246d8eb21895af8f99daaf\
                 cc0baf97a0fde1322ecfc3799781f3d8b2145cfabaa5dd494c4a8dceb491597b3d1d73a1d9293046\
                 d5f5e7b2d73317f1dfba70a5609c8255f2533cd07b0d483a7e27dd6b6da25b279107cf1da60aad53\
                 19a70f24a2bdfef2d1f4dff3dc3013b702c097176e52f25f556146f4203e470a587c7c3f58cfa5f5",
        ours: "450002585c7500004032c794c6336401c63364022bc15c73000000021742d9f3e80bc7c45261971f08\
               f61e2802d9d604c11b4acd74c49876d0c1cca8b6ceec0d29bfa50933a8ec70344a303ca5c987d85ef9\
               3f52f29889f00427db1b10b4b4465e0743dfcc9772a554d4047b59f157967584ddd8c8053f46f9b990\
               d126062fd2b69bedc156b3e7422a1d91d50e4031d7da2b934241773787773c82c6392888054cc0490f\
               05c24059a5b4dd21fd31337a9559a151e24452a163ebc6c512a9273e6624bddcf912fc8471325c0bd7\
               fefd4a5330fb586b871b12a988a263c2cc4efd6e43eaae88077a6ba98c41d07752abb3993fd83d4851\
               d03fdad29b1c777918f306ef4e5ddb4223fb17d5df5f20e6bcd1e34e32dcfd1e0ee8afff12d2f05032\
               6e483f0e3134abedeb555076776887aa1510107c29cbe7f6a286c003d12cf2317597fed3b76fa0feb1\
               4b7c49e4df66b6f8e4d5aef9848a7d7042e7fdef120a68a805dd0ed01189147f7aaca08ebb62380e81\
               cc3e185ec3af3b950ff33988a7389494902d773e98d5ef6562228f400ab7b5a21f7f0b05dd40d21e63\
               d7e14bf84aecf40f132f530feb27fdeb155442f82c12ddc84c72fb28b9e9a2728547f1a850f1bdb34a\
               6a153a85d0d34773eec6f44ed98c8348c12f9acf84a2be8b4ffcae69c6c8e89ad26578631ef79e5679\
               390a0fb7497caa082c638784ae9fe65e14a442a2b9c949414a49ab55a34dce1a93c94aa4fd57997727\
               b1614424e60c9cd1073d77e3361a523efb4e80e7782f800d1e164beb40360c353de4c9ff3dd7a9155d\
               502d91a3406ab940d0725080464a056dae73c077c6ffd94675d7",
    },
    Vector {
        name: "tun6-gcm128 1",
        suite: Suite::AesGcm(Aes::Aes128),
        key: "36b222e286a672a9b8d3361537aae6ea",
        mac_key: "",
        salt: "da40abfa",
        spi: 0x515d9f09,
        esn: false,
        number: 1,
        inner: "4500001d000100003f1167bb0a0100090a0200090fa413890009729a56",
        theirs: "600000000040324020010db8000b0000000000000000000120010db8000b00000000000000000002\
                 515d9f09000000011ed6618bf8607a02d11bfb5f0b6836af4e5b1b012892d2c940a9f31ec3f3ced5\
                 e40974387edc455b7608aaeb82b87bcd20b4e9bb80b06eba",
        ours: "600000000040324020010db8000b0000000000000000000120010db8000b0000000000000000000251\
               5d9f09000000010000000000000001492c7cb88e2dfab86976ad802916964a8146c8a5359d717b565d\
               4481829ad10ce983dc599922bb88c3d6eb6ef43dd8c3",
    },
    Vector {
        name: "tun6-gcm128 26",
        suite: Suite::AesGcm(Aes::Aes128),
        key: "36b222e286a672a9b8d3361537aae6ea",
        mac_key: "",
        salt: "da40abfa",
        spi: 0x515d9f09,
        esn: false,
        number: 26,
        inner: "600000000009113f20010db800010000000000000000000920010db80002000000000000000000090\
                fa6138900092b2656",
        theirs: "600000000054324020010db8000b0000000000000000000120010db8000b00000000000000000002\
                 515d9f090000001a1ed6618bf8607a1947e4db84b4f1bce9927d8f3873a247fbb7ec845cc2bf46b2\
                 bdf3cb73b58d3676f7e6f44acfd97e2d5f26683dc58aabf154df33b56b64b51c18c80d8c53141599\
                 eb44ffb6",
        ours: "600000000054324020010db8000b0000000000000000000120010db8000b0000000000000000000251\
               5d9f090000001a000000000000001a1f6ac045cc1bb6588f79efbff6a019de1eeba4a402e3b115d862\
               8946d213c5acc6477a3dc201b9635613c048a282afdf3370a9e222bb78479b62ce5eb3f4fcf6ca82ee\
               5c",
    },
    Vector {
        name: "tun6-cbc256-sha256 26",
        suite: Suite::AesCbc(Aes::Aes256, Mac::HmacSha256_128),
        key: "c44cc0c8cc9914407820b43315910d0a4dded7fed94cb15ee5c725661af68ada",
        mac_key: "82332b560b155ce7c14d3fb456e7a1aaeaa78838b294cbd5bac8d63565096046",
        salt: "",
        spi: 0x4d659d8a,
        esn: false,
        number: 26,
        inner: "600000000009113f20010db800010000000000000000000920010db80002000000000000000000090\
                fa6138900092b2656",
        theirs: "600000000068324020010db8000b0000000000000000000120010db8000b00000000000000000002\
                 4d659d8a0000001ad3612fa96357b95f7878b293cd244e3701cce5963277df178d0fc44418bf4f66\
                 405ee588633bed0b520a61d6ffbed038ee906beedfce3eab0d1c2ff8951654b47b810e3033401a6c\
                 122d969b4c6243bd1c2e88d814aeb826eda69a22f55e130f",
        ours: "600000000068324020010db8000b0000000000000000000120010db8000b000000000000000000024d\
               659d8a0000001a4e4d8de964e729bcb0bce638e1b30b2eef89b3dd51d36ace1ec77c583c374ce5a83d\
               223fe12788de08e597caaaedadf30678e0f4cbe8b67e513b6030192e4c2f245afe4ba2616b3c80c3db\
               29ac78ebb5feceead6a5f105a3389b896b970ee39f",
    },
];
