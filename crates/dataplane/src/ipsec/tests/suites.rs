//! Every suite in ESP: what is sealed equals, to its last octet, what an independent
//! program (Python's `cryptography`) makes of the same keys and numbers by the RFCs.

use super::*;

/// Name, octets from the ESP header to the end, and the last eight octets, which are
/// the ICV's: of number 5 without extended numbers, and of 2^32 + 5 with them. The
/// ICV covers all that is in front of it.
type Row = (&'static str, usize, u64, u64);

fn esp_of_every_suite_is_what_an_independent_program_makes<E: Make>() {
    let plain = hex(INNER);
    let known = ROWS.iter().map(|row| row.0).collect::<std::collections::HashSet<_>>();
    assert_eq!(known.len(), Suite::software().count(), "a row for every suite");
    for &(name, len, short, extended) in ROWS {
        let suite = Suite::from_name(name).expect("a suite");
        for (esn, number, last) in [(false, 5, short), (true, (1 << 32) + 5, extended)] {
            let mut g = Gateway::<E>::new(1);
            let numbers = Sequence::unlimited(number, (1 << 33) * u64::from(esn) + 100);
            g.out.install_at(&mut g.engine, 0, &outbound(suite, 4, esn), numbers).unwrap();
            let inn = inbound(suite, 4, esn);
            g.inn.install_at(&mut g.engine, 0, &inn, number - 1).unwrap();
            let sealed = g.sealed(&plain);
            assert_eq!(sealed.len() - 20, len, "{suite}, ESN {esn}");
            let end = u64::from_be_bytes(*sealed.last_chunk().unwrap());
            assert_eq!(end, last, "{suite}, ESN {esn}: {end:x}");
            assert_eq!(g.open(&sealed), End::Sent(Next::Ip, plain.clone()), "{suite}");
        }
    }
}

on_both_engines! {
    esp_of_every_suite_is_what_an_independent_program_makes;
}

/// An IPv4 packet of UDP from 10.1.0.9 to 10.2.0.9.
const INNER: &str = "4500003d000100004011669b0a0100090a02000900070009002900000001020304050607\
                     08090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20";

const ROWS: &[Row] = &[
    ("aes-gcm-128", 96, 0xb42479d5_d7574c30, 0x41402285_a1549249),
    ("aes-gcm-128-iiv", 88, 0xb42479d5_d7574c30, 0x41402285_a1549249),
    ("aes-gmac-128", 96, 0x659deaf6_b316a0f6, 0xe4f0ddaf_86a3c7cd),
    ("aes-gcm-192", 96, 0x4d9c6595_10d18977, 0x5af3e73b_236733e8),
    ("aes-gcm-192-iiv", 88, 0x4d9c6595_10d18977, 0x5af3e73b_236733e8),
    ("aes-gmac-192", 96, 0xc1726c02_01518dd7, 0x27fe5271_dd589e63),
    ("aes-gcm-256", 96, 0x746ffd38_c918f5de, 0x1ba1db5f_6378146e),
    ("aes-gcm-256-iiv", 88, 0x746ffd38_c918f5de, 0x1ba1db5f_6378146e),
    ("aes-gmac-256", 96, 0xb1ea42ba_f5f1a4e6, 0x9f78193c_03edeb95),
    ("chacha20-poly1305", 96, 0x7d755841_5fd5cce4, 0x0287d24f_c72fdd67),
    ("chacha20-poly1305-iiv", 88, 0x7d755841_5fd5cce4, 0x0287d24f_c72fdd67),
    ("aes-cbc-128 hmac-md5-96", 100, 0x2f495d73_5fd6febf, 0xd2c2c807_a18698c4),
    ("aes-cbc-192 hmac-md5-96", 100, 0x7f1de342_dc15c033, 0xcc6a65a9_20d08d9d),
    ("aes-cbc-256 hmac-md5-96", 100, 0xe8b83878_b5d736b3, 0x02db3046_8a380c60),
    ("aes-ctr-128 hmac-md5-96", 92, 0xeffb04ba_4e9470a9, 0x9cf12fdb_21868fde),
    ("aes-ctr-192 hmac-md5-96", 92, 0x7c6c5962_f649aa64, 0xbf2e8a12_8f565a0d),
    ("aes-ctr-256 hmac-md5-96", 92, 0x0fb1edb5_afe06d06, 0xe37eac06_267720cc),
    ("null hmac-md5-96", 84, 0xb3db854a_acb377c3, 0xb30f7b93_464e9576),
    ("des-cbc hmac-md5-96", 92, 0x46852ccb_ae5dad91, 0x01742310_c8345423),
    ("3des-cbc hmac-md5-96", 92, 0x995b113a_8ee54775, 0xb469390c_7e491a1f),
    ("aes-cbc-128 hmac-sha1-96", 100, 0xef600030_16db1d47, 0x5fb103f5_15309546),
    ("aes-cbc-192 hmac-sha1-96", 100, 0x27ff636c_3456b547, 0xf54945d8_da59aff0),
    ("aes-cbc-256 hmac-sha1-96", 100, 0xe7ce6570_170d7ab3, 0xddb00fcd_033071d8),
    ("aes-ctr-128 hmac-sha1-96", 92, 0x6fa79a71_83a158ba, 0xe7375851_74354245),
    ("aes-ctr-192 hmac-sha1-96", 92, 0xbdac6be7_a004fce7, 0x66b7dae3_23987509),
    ("aes-ctr-256 hmac-sha1-96", 92, 0x2edc73a1_ba51c741, 0xeb956416_dd956257),
    ("null hmac-sha1-96", 84, 0x6d0904e5_1eaf01e3, 0x50f27bc1_13a900a7),
    ("des-cbc hmac-sha1-96", 92, 0xf495dfe5_eb10ddb5, 0x9884335a_9b27ea1e),
    ("3des-cbc hmac-sha1-96", 92, 0xbfb8e235_54529c8f, 0xe71e0132_78038a95),
    ("aes-cbc-128 hmac-sha256-128", 104, 0x81331b95_d99183b6, 0xae126dd6_90c97183),
    ("aes-cbc-192 hmac-sha256-128", 104, 0xb1b1c8e8_7fb863a3, 0xe1e967bc_90632334),
    ("aes-cbc-256 hmac-sha256-128", 104, 0xf9ffd64d_5c657271, 0x0b55d14a_bc14d231),
    ("aes-ctr-128 hmac-sha256-128", 96, 0x1688e59a_a301b122, 0x740953f1_5ecee0c5),
    ("aes-ctr-192 hmac-sha256-128", 96, 0x55c35e62_7f4e2511, 0x34f907df_06731028),
    ("aes-ctr-256 hmac-sha256-128", 96, 0xc0d22bdd_40ac0553, 0x22c47ca6_0e48bb48),
    ("null hmac-sha256-128", 88, 0x5fbd23e8_b283bc0a, 0xe8d2e749_4da2ccbb),
    ("des-cbc hmac-sha256-128", 96, 0xb0d8522f_053dd13c, 0x0bd76ee0_a3ed577b),
    ("3des-cbc hmac-sha256-128", 96, 0x1a8546e2_6613e508, 0x8a29f25d_bcdad869),
    ("aes-cbc-128 hmac-sha384-192", 112, 0x96e2682c_4a119077, 0x9f6b09df_ec5c286d),
    ("aes-cbc-192 hmac-sha384-192", 112, 0xc43835c5_1b765c42, 0x4aaa2b59_26220ff4),
    ("aes-cbc-256 hmac-sha384-192", 112, 0xc87ac824_fa458779, 0x75c739c5_83ccdf60),
    ("aes-ctr-128 hmac-sha384-192", 104, 0xb117992e_53a25b58, 0x88faa216_c961cd90),
    ("aes-ctr-192 hmac-sha384-192", 104, 0xf75d7893_3abe58f2, 0xb57c0dd0_c570e212),
    ("aes-ctr-256 hmac-sha384-192", 104, 0xe7c38eba_9afc9fd0, 0x42dfc43b_0bfd96b6),
    ("null hmac-sha384-192", 96, 0xc6e2f1dd_671efa6e, 0xabd5dca2_82565b08),
    ("des-cbc hmac-sha384-192", 104, 0x08daaed0_d1a7c3e3, 0x6a4d01f3_0602a164),
    ("3des-cbc hmac-sha384-192", 104, 0xb5750656_43549022, 0xeec048a7_6cc3c787),
    ("aes-cbc-128 hmac-sha512-256", 120, 0x472fbc7b_7c85e6b5, 0x289e1c54_3046636c),
    ("aes-cbc-192 hmac-sha512-256", 120, 0x3cb0be12_22538389, 0x5f25c865_7f6b5d55),
    ("aes-cbc-256 hmac-sha512-256", 120, 0x1daf1f58_813935ca, 0x88e994cb_02fc82cb),
    ("aes-ctr-128 hmac-sha512-256", 112, 0x432a2e44_27080f08, 0x764b06e5_af83ced7),
    ("aes-ctr-192 hmac-sha512-256", 112, 0x1813e5fa_34bf4f63, 0x1b77a429_1eaaeeea),
    ("aes-ctr-256 hmac-sha512-256", 112, 0xa60c78c9_0e6d6e96, 0x9df5785e_f9842307),
    ("null hmac-sha512-256", 104, 0xa7477bd2_aab35c6b, 0xea886dfd_f65d9fae),
    ("des-cbc hmac-sha512-256", 112, 0x3497e01c_4ac89c26, 0xad859e51_e7857e24),
    ("3des-cbc hmac-sha512-256", 112, 0xa91740a2_1b651d3a, 0xb7ca6b23_18fd9274),
];
