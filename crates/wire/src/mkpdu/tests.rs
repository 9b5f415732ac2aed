use super::*;
use crate::laws::hex;

/// Of wpa_supplicant 2.10: a live peer, SAK use, a distributed SAK.
const EXAMPLE: &str = "0110e03c 0200000000010001 f0449ec772194e816b35e0cf 00000005 0080c201
    9a995c7343d6688a835e53f532559d34298775700f56a122c939635020a11f7a
    01000010 811b3d9366ca1412cd3a84eb 00000002
    03030028 000000000000000000000000 00000000 00000000 f0449ec772194e816b35e0cf 00000001 00000001
    0410001c 00000001 06a29742c6d7e509478335b752dc75909eacfaa1ac29b15e
    9d5fee6a26d91369858460f2b7cc4d59";
laws!(EXAMPLE);

fn mi(text: &str) -> Mi {
    Mi(hex(text).try_into().unwrap())
}

#[test]
fn mkpdu_of_wpa_supplicant_means_what_it_says() {
    let bytes = hex(EXAMPLE);
    let (repr, icv) = Repr::parse(&bytes).unwrap();
    assert_eq!((repr.version, repr.priority, repr.capability), (1, 16, 2));
    assert!(repr.key_server && repr.desired);
    assert_eq!(repr.actor, Member { mi: mi("f0449ec772194e816b35e0cf"), mn: 5 });
    assert_eq!((repr.agility, repr.ckn.as_bytes().len(), icv.len()), (AGILITY, 32, 16));
    let [Set::Live { ssci: 0, peers }, Set::SakUse(sak_use), Set::DistributedSak(sak)] =
        &repr.sets[..]
    else {
        panic!("{repr:?}")
    };
    assert_eq!(*peers, [Member { mi: mi("811b3d9366ca1412cd3a84eb"), mn: 2 }]);
    let [latest, old] = sak_use.keys.unwrap();
    assert_eq!(latest, KeyUse::default());
    assert_eq!((old.key.kn, old.lowest_pn, old.an), (1, 1, 0));
    assert!(old.transmits && old.receives && !sak_use.plain_transmit);
    assert_eq!((sak.an, sak.offset), (0, 1));
    let key = sak.key.as_ref().unwrap();
    assert_eq!((key.kn, key.suite, key.wrapped.len()), (1, None, 24));
    let text = "MKA 02:00:00:00:00:01/1 mn 5 priority 16 server live 1 use an 0 kn 0 rx false tx false \
                SAK an 0 kn 1";
    assert_eq!(repr.to_string(), text);
}

/// An MKPDU of the shortest name of a CAK, and these octets behind the basic set.
fn with(sets: &str) -> Vec<u8> {
    let basic = "0310e01d 0200000000010001 f0449ec772194e816b35e0cf 00000005 0080c201 aa000000";
    hex(&format!("{basic} {sets} {}", "55".repeat(16)))
}

#[test]
fn mkpdu_skips_unknown_sets_with_their_padding() {
    // Three octets in four, then a set that is known.
    let bytes = with("09ab5003 010203 00 02000000");
    let (repr, icv) = Repr::parse(&bytes).unwrap();
    let other = Set::Other { kind: 9, flags: 0xab5, body: vec![1, 2, 3] };
    assert_eq!(repr.sets, [other, Set::Potential(Vec::new())]);
    assert_eq!(icv, [0x55; 16]);
    // The empty CKN, and one that is too long.
    let mut none = bytes.clone();
    none[3] = 28;
    assert_eq!(Repr::parse(&none).unwrap_err(), Malformed::Length);
    assert_eq!((Ckn::new(&[]), Ckn::new(&[1; 33])), (None, None));
}

#[test]
fn mkpdu_sets_end_before_the_icv() {
    assert!(Repr::parse(&with("")).is_ok());
    for (sets, why) in [
        ("01000010 00000000", "a peer beyond the set"),
        ("01000014 f0449ec772194e816b35e0cf 00000001 00000000", "a part of a peer"),
        ("03000024", "a short use"),
        ("04000018 000000000000000000000000000000000000000000000000", "a short key"),
        ("08000004 00000000", "half of XPN"),
        ("09000014", "into the ICV"),
        ("09000015 00000000", "beyond the end"),
    ] {
        assert_eq!(Repr::parse(&with(sets)).unwrap_err(), Malformed::Length, "{why}");
    }
    assert!(Repr::parse(&with(&"09000000".repeat(32))).is_ok());
    assert_eq!(Repr::parse(&with(&"09000000".repeat(33))).unwrap_err(), Malformed::Length);
    // An ICV that is announced is read if it is one of this algorithm.
    let told = with("ff000010");
    assert_eq!(Repr::parse(&told).unwrap().1, [0x55; 16]);
    assert_eq!(Repr::parse(&with("ff00000c")).unwrap_err(), Malformed::Kind);
    assert_eq!(Repr::parse(&told[..told.len() - 1]).unwrap_err(), Malformed::Length);
}

#[test]
fn mkpdu_of_every_set_reads_back() {
    let key = KeyId { mi: mi("0102030405060708090a0b0c"), kn: 0x0a0b_0c0d };
    let used = KeyUse { an: 3, transmits: false, receives: true, key, lowest_pn: 7 };
    let old = KeyUse { an: 2, transmits: true, ..used };
    let suite = |suite, octets| {
        let key = WrappedSak { kn: 9, suite, wrapped: vec![7; octets] };
        Set::DistributedSak(DistributedSak { an: 1, offset: 2, key: Some(key) })
    };
    let sets = vec![
        Set::Live { ssci: 2, peers: vec![Member { mi: key.mi, mn: 1 }; 3] },
        Set::Potential(vec![Member { mi: key.mi, mn: 4 }]),
        Set::SakUse(SakUse {
            keys: Some([used, old]),
            plain_transmit: true,
            plain_receive: false,
            delay_protect: true,
        }),
        suite(None, 24),
        suite(Some(0x0080_c200_0100_0002), 40),
        suite(Some(0x0080_c200_0100_0003), 24),
        Set::DistributedSak(DistributedSak { an: 0, offset: 0, key: None }),
        Set::SakUse(SakUse { plain_receive: true, ..SakUse::default() }),
        Set::Xpn { suspension: 1, lowest_pn: [5, 6] },
        Set::Other { kind: 7, flags: 0, body: vec![1] },
    ];
    let (mut repr, icv) = (Repr::parse(&with("")).unwrap().0, [1; 16]);
    repr.sets = sets;
    let mut bytes = vec![0; repr.len()];
    repr.emit(&mut bytes);
    bytes.extend(icv);
    let (again, rest) = Repr::parse(&bytes).unwrap();
    // The padding is no part of a body.
    assert_eq!((&again, rest), (&repr, &icv[..]));
}
