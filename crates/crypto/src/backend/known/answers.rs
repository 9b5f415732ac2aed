//! The answers.

use crate::suite::{Aes, Mac, Suite};

/// One key's ICVs, left-aligned.
#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub suite: Suite,
    /// The key's first octet.
    pub first: u8,
    pub short: u128,
    pub long: u128,
}

pub(super) const fn answer(suite: Suite, short: u128, long: u128) -> Answer {
    Answer { suite, first: 0, short, long }
}

/// Every suite with one key, and AES-GCM with another.
pub(super) const ANSWERS: [Answer; 58] = [
    answer(
        Suite::AesGcm(Aes::Aes128),
        0xeeabe219_03fb5bd3_9f605c7e_8a05765a,
        0xf2959611_59e99fd0_4c5028d6_760860c0,
    ),
    answer(
        Suite::AesGcm(Aes::Aes192),
        0x93788ce3_cd3de531_a78391d5_fe2f156f,
        0x75c3360e_98c84bec_b0aa3c50_7d1f3dc3,
    ),
    answer(
        Suite::AesGcm(Aes::Aes256),
        0x1cc8e719_600dfb0e_2ab2e160_d46a6f7e,
        0x1d4c59d6_27e36cf6_3372cdbf_d958bacb,
    ),
    // The same cipher: only how ESP carries the IV differs.
    answer(
        Suite::AesGcmIiv(Aes::Aes128),
        0xeeabe219_03fb5bd3_9f605c7e_8a05765a,
        0xf2959611_59e99fd0_4c5028d6_760860c0,
    ),
    answer(
        Suite::AesGcmIiv(Aes::Aes192),
        0x93788ce3_cd3de531_a78391d5_fe2f156f,
        0x75c3360e_98c84bec_b0aa3c50_7d1f3dc3,
    ),
    answer(
        Suite::AesGcmIiv(Aes::Aes256),
        0x1cc8e719_600dfb0e_2ab2e160_d46a6f7e,
        0x1d4c59d6_27e36cf6_3372cdbf_d958bacb,
    ),
    answer(
        Suite::ChaCha20Poly1305,
        0x13c4b4d2_5bea7cd5_3eb028c4_3dc99256,
        0x25fcb43b_52635c61_053c97ba_28dcb882,
    ),
    answer(
        Suite::ChaCha20Poly1305Iiv,
        0x13c4b4d2_5bea7cd5_3eb028c4_3dc99256,
        0x25fcb43b_52635c61_053c97ba_28dcb882,
    ),
    answer(
        Suite::AesGmac(Aes::Aes128),
        0xe9352fee_3066fe7b_3babf91f_5854e840,
        0xcb54e71e_fe36da5c_b85eb3a0_1afb9dec,
    ),
    answer(
        Suite::AesGmac(Aes::Aes192),
        0x0080da16_9dfa4ec8_98591e8e_4cdff008,
        0x94c1bd88_e66b1367_b3d6cb22_c1b568fa,
    ),
    answer(
        Suite::AesGmac(Aes::Aes256),
        0xbd80313f_da023cb2_f54de181_19f2cbc9,
        0xce887239_14b7f9be_158b5f35_8571295f,
    ),
    answer(
        Suite::AesCbc(Aes::Aes128, Mac::HmacMd5_96),
        0xa2f0b09d_23af2453_2e06c9cf_00000000,
        0xc916e534_1c301e2f_ec114880_00000000,
    ),
    answer(
        Suite::AesCbc(Aes::Aes128, Mac::HmacSha1_96),
        0x3fb8ec1a_b1fd3ba6_958e917d_00000000,
        0x4c3f05be_9b8d7fd6_4fcb805b_00000000,
    ),
    answer(
        Suite::AesCbc(Aes::Aes128, Mac::HmacSha256_128),
        0x32b43835_353fb2fd_cb7c4dcb_d1a2991f,
        0x14439b28_08d8cc4e_d094ab75_c0f1c278,
    ),
    answer(
        Suite::AesCbc(Aes::Aes128, Mac::HmacSha384_192),
        0x620c5efd_148dec47_3b6a03e0_73d63bed,
        0xf0953844_87da6c1e_4b95f60a_81b86ebb,
    ),
    answer(
        Suite::AesCbc(Aes::Aes128, Mac::HmacSha512_256),
        0xf7149fed_4011647e_e1a8cf27_f7d91b92,
        0x79060532_d9cd439a_959596b7_30520433,
    ),
    answer(
        Suite::AesCbc(Aes::Aes192, Mac::HmacMd5_96),
        0xed2dbc4e_4b479b1a_4806100f_00000000,
        0x0b3c3df8_04d598ef_e8be1faf_00000000,
    ),
    answer(
        Suite::AesCbc(Aes::Aes192, Mac::HmacSha1_96),
        0xddfb5708_e55e6f82_b005b004_00000000,
        0x953afacd_5325f64b_8e829b7a_00000000,
    ),
    answer(
        Suite::AesCbc(Aes::Aes192, Mac::HmacSha256_128),
        0xbde03c3f_de2c7ea9_bead6a24_003e2686,
        0xec141363_010a9eab_ae79e9e4_3175b04a,
    ),
    answer(
        Suite::AesCbc(Aes::Aes192, Mac::HmacSha384_192),
        0x147c40a9_f6e70c70_3a48d9d8_5809ba11,
        0x9e677eb1_05c5e5d3_49760015_3449f8df,
    ),
    answer(
        Suite::AesCbc(Aes::Aes192, Mac::HmacSha512_256),
        0xb34880ab_30214be1_54df1f2f_c3e71f2f,
        0x432f15db_bcbca2dd_75280547_0da52cac,
    ),
    answer(
        Suite::AesCbc(Aes::Aes256, Mac::HmacMd5_96),
        0x12d528ca_ab606fac_42ff0e32_00000000,
        0x30e76e75_9741fa91_c1c3a17b_00000000,
    ),
    answer(
        Suite::AesCbc(Aes::Aes256, Mac::HmacSha1_96),
        0xabf800b4_92640519_565e1ff3_00000000,
        0x218421bb_a916a0e5_c18efc7c_00000000,
    ),
    answer(
        Suite::AesCbc(Aes::Aes256, Mac::HmacSha256_128),
        0xb64e9565_4f2fe6db_efbebb4f_b311e786,
        0x2a01f907_6d976f80_73d244fe_4de7fb10,
    ),
    answer(
        Suite::AesCbc(Aes::Aes256, Mac::HmacSha384_192),
        0xece2753b_e581d184_5c8db0c9_5738fa70,
        0x82a8f79e_f6c53eca_ad556bbd_ed8edce6,
    ),
    answer(
        Suite::AesCbc(Aes::Aes256, Mac::HmacSha512_256),
        0x62ee8cb1_fc899548_4effee28_7e7b03ce,
        0x6691d184_90f0bef5_00f56a75_f5037380,
    ),
    answer(
        Suite::AesCtr(Aes::Aes128, Mac::HmacMd5_96),
        0x839d11e5_b48c5524_38462475_00000000,
        0x03dbea0d_76d7b6b1_50161e9f_00000000,
    ),
    answer(
        Suite::AesCtr(Aes::Aes128, Mac::HmacSha1_96),
        0xa0e7bb7b_a14c0f2a_3d8ca01b_00000000,
        0xd1f5faa7_73a2d7c1_c7ee0657_00000000,
    ),
    answer(
        Suite::AesCtr(Aes::Aes128, Mac::HmacSha256_128),
        0x939fc708_0b0f4ac3_a040cb82_c327fd45,
        0xc904661b_24e555f2_9fcadd10_564467e3,
    ),
    answer(
        Suite::AesCtr(Aes::Aes128, Mac::HmacSha384_192),
        0x0db26d1e_64055a44_38a1a96e_8c114ebc,
        0x4b73070c_2f73f82c_acbf2dfd_c949743c,
    ),
    answer(
        Suite::AesCtr(Aes::Aes128, Mac::HmacSha512_256),
        0x061fcdd5_f6fd29eb_e80f521d_83370d95,
        0xfcedf466_a2b2fcd0_ba168031_742655b8,
    ),
    answer(
        Suite::AesCtr(Aes::Aes192, Mac::HmacMd5_96),
        0x9376747b_bc6bc5bd_6d7f5ff7_00000000,
        0x8a4870cb_252a646c_c69ad003_00000000,
    ),
    answer(
        Suite::AesCtr(Aes::Aes192, Mac::HmacSha1_96),
        0xca288934_ee271bcc_38b34417_00000000,
        0x9f25bb5c_64996e67_580e3471_00000000,
    ),
    answer(
        Suite::AesCtr(Aes::Aes192, Mac::HmacSha256_128),
        0xf1afbf35_5dab8af0_d1023429_18be00c6,
        0xc7e2a7c7_f608c11f_dd8755e5_faf7a20d,
    ),
    answer(
        Suite::AesCtr(Aes::Aes192, Mac::HmacSha384_192),
        0xc4596c12_9868f2e4_ccd1600c_4c8e5c5e,
        0xa38d8fd2_25246b18_3264b910_3ffb7984,
    ),
    answer(
        Suite::AesCtr(Aes::Aes192, Mac::HmacSha512_256),
        0xe050bfe0_bed96ff0_5364eeae_c44903e0,
        0xf13b6c5c_27dac8ae_623d09d1_952661fe,
    ),
    answer(
        Suite::AesCtr(Aes::Aes256, Mac::HmacMd5_96),
        0x3da8c683_60884a70_50d5b0e0_00000000,
        0x9083a6c1_1ef52633_f3f9d695_00000000,
    ),
    answer(
        Suite::AesCtr(Aes::Aes256, Mac::HmacSha1_96),
        0x577a0708_16a9b421_1e02cfb6_00000000,
        0x68dc3c27_be74e61f_5b5c3cb8_00000000,
    ),
    answer(
        Suite::AesCtr(Aes::Aes256, Mac::HmacSha256_128),
        0x35c70e65_cd3fe268_a752543d_cf6cfe65,
        0xcd1ec4e1_2f774406_d61b4c10_bff027f8,
    ),
    answer(
        Suite::AesCtr(Aes::Aes256, Mac::HmacSha384_192),
        0x42569725_9ac4830d_befa2b3c_f178f30a,
        0x8d91abd6_e0b959a2_1b5260b8_417b2d2d,
    ),
    answer(
        Suite::AesCtr(Aes::Aes256, Mac::HmacSha512_256),
        0xb2f93d53_e0fe5d6c_030cf574_01785d9c,
        0x44cdbf04_694d90c2_a3dbc024_39bb58d0,
    ),
    answer(
        Suite::Null(Mac::HmacMd5_96),
        0xd7bdc529_8c68266e_c2e1390f_00000000,
        0x84d8bbf2_b3d1fc4f_c1d2570a_00000000,
    ),
    answer(
        Suite::Null(Mac::HmacSha1_96),
        0x23ca495f_87bf5cc9_7a2744ba_00000000,
        0x800f1399_51749acc_86f60032_00000000,
    ),
    answer(
        Suite::Null(Mac::HmacSha256_128),
        0xd09191d3_1f3dc492_6a5582da_84f3597f,
        0x907b822a_467a02fe_30d13ee1_cc778d5d,
    ),
    answer(
        Suite::Null(Mac::HmacSha384_192),
        0x61f60d62_482c6760_bd779098_72933b39,
        0x0c7daf44_7c2929d4_d5b774d2_14845881,
    ),
    answer(
        Suite::Null(Mac::HmacSha512_256),
        0xcd40e72f_82377667_dfeff5ab_0a2acc5c,
        0xc0f21b24_a405fa6d_10be4160_aa43ed20,
    ),
    answer(
        Suite::DesCbc(Mac::HmacMd5_96),
        0x609b5fd2_d7fe2cea_a5de2629_00000000,
        0x8c7b5044_c7e822fc_5391519c_00000000,
    ),
    answer(
        Suite::DesCbc(Mac::HmacSha1_96),
        0x78af2e6f_ed7f871c_e6f80f51_00000000,
        0x7a52cdba_246b8195_9e3fb82d_00000000,
    ),
    answer(
        Suite::DesCbc(Mac::HmacSha256_128),
        0x477e1143_72930af5_eadca184_7513ec32,
        0x8e501899_d8d215a9_55c9c494_b67c7cd1,
    ),
    answer(
        Suite::DesCbc(Mac::HmacSha384_192),
        0xca5964da_62ca10c4_1e17c57c_b400a292,
        0xb3202288_c1db95c9_52c8eaa0_d496a604,
    ),
    answer(
        Suite::DesCbc(Mac::HmacSha512_256),
        0x7eb2b8c3_7acfd866_fb7b792e_84c26a2b,
        0x61960cc7_8f9fe919_ac42837c_c0c496bc,
    ),
    answer(
        Suite::TripleDesCbc(Mac::HmacMd5_96),
        0xb2354413_68453bbe_71943f47_00000000,
        0x94ddc893_f7bba8ba_d0816031_00000000,
    ),
    answer(
        Suite::TripleDesCbc(Mac::HmacSha1_96),
        0x3f54f7c0_d6ed0ae6_f67bbc99_00000000,
        0x6519bbc4_6d3333cf_d8a027b7_00000000,
    ),
    answer(
        Suite::TripleDesCbc(Mac::HmacSha256_128),
        0x287b8ed2_fa577961_70b95dc8_006109e7,
        0x2c9740c0_30549893_0aec0903_bc0a7989,
    ),
    answer(
        Suite::TripleDesCbc(Mac::HmacSha384_192),
        0x3946f4ea_c8b7317a_1e80c074_d32ae6e8,
        0x3b1fd469_19d65faf_ade0f8be_1c93654e,
    ),
    answer(
        Suite::TripleDesCbc(Mac::HmacSha512_256),
        0x165aaf6d_01a0f55a_456b3f9e_b24916cb,
        0x07ba434a_c11ad74d_4df2326d_619206ae,
    ),
    Answer {
        first: 0x60,
        ..answer(
            Suite::AesGcm(Aes::Aes128),
            0x7933f45f_56e105f6_82b629bb_2ae31e6e,
            0x558ced35_9f36e9f4_6419f94f_825d001d,
        )
    },
    Answer {
        first: 0x60,
        ..answer(
            Suite::AesGcm(Aes::Aes256),
            0x37b29646_7baafbeb_65a1bba5_22b7867f,
            0x933c539c_80574ed1_361f9727_ffd89a19,
        )
    },
];
