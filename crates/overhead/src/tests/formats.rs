//! Every encapsulation's size, from the standards, and the ledger against the closed forms.

use super::{stack, wire};
use crate::{
    ESP_CIPHERS, ESP_INTEGRITIES, EspSuite, IpVersion, Layer, Mode, Protection, SegmentKind, Stack,
    Transform, esp_len, macsec_len, mpls_len,
};
use ferrule_base::Rng;
use ferrule_crypto::Suite;

/// Every pair of cipher and integrity algorithm that ESP allows.
fn suites() -> Vec<EspSuite> {
    let alone = ESP_CIPHERS.iter().filter_map(|cipher| EspSuite::new(cipher, None).ok());
    let pairs = ESP_CIPHERS.iter().flat_map(|cipher| {
        ESP_INTEGRITIES.iter().filter_map(move |row| EspSuite::new(cipher, Some(row)).ok())
    });
    alone.chain(pairs).collect()
}

#[test]
fn user_frame_layers_and_tags() {
    assert_eq!(stack("eth ipv4 udp 10").frame().len(), 14 + 20 + 8 + 10);
    assert_eq!(stack("eth svlan vlan ipv6 tcp 100").frame().len(), 14 + 8 + 40 + 20 + 100);
    assert_eq!(stack("eth qinq vlan ipv4 icmp 56").frame().len(), 14 + 8 + 20 + 8 + 56);
    assert_eq!(stack("eth vlan arp").frame().len(), 14 + 4 + 28);
    assert_eq!(stack("eth 46").frame().len(), 60);
    assert_eq!(stack("eth vlan ipv4 udp").frame().payload(), 0);
}

/// Sizes worked out by hand from the packet formats, one for each family of suites.
#[test]
fn esp_tunnel_sizes_of_each_suite_family() {
    let len = |cipher, integrity, inner| {
        let suite = EspSuite::by_name(cipher, integrity).expect("a suite");
        esp_len(&suite, Mode::Tunnel, IpVersion::V4, inner)
    };
    // outer 20, SPI and number 8, IV, content with trailer padded, check value
    assert_eq!(len("aes-gcm-128", None, 982), 20 + 8 + 8 + 984 + 16);
    assert_eq!(len("aes-gcm-256", None, 983), 20 + 8 + 8 + 988 + 16);
    assert_eq!(len("aes-gcm-128-iiv", None, 982), 20 + 8 + 984 + 16);
    assert_eq!(len("chacha20-poly1305", None, 40), 20 + 8 + 8 + 44 + 16);
    assert_eq!(len("aes-cbc-128", Some("hmac-sha1-96"), 982), 20 + 8 + 16 + 992 + 12);
    assert_eq!(len("aes-cbc-256", Some("hmac-sha256-128"), 14), 20 + 8 + 16 + 16 + 16);
    assert_eq!(len("aes-cbc-256", Some("hmac-sha384-192"), 15), 20 + 8 + 16 + 32 + 24);
    assert_eq!(len("aes-ctr-128", Some("hmac-sha512-256"), 30), 20 + 8 + 8 + 32 + 32);
    assert_eq!(len("null", Some("hmac-sha1-96"), 31), 20 + 8 + 36 + 12);
    assert_eq!(len("aes-gmac-128", None, 30), 20 + 8 + 8 + 32 + 16);
    assert_eq!(len("des-cbc", Some("hmac-md5-96"), 30), 20 + 8 + 8 + 32 + 12);
    assert_eq!(len("3des-cbc", Some("hmac-sha1-96"), 31), 20 + 8 + 8 + 40 + 12);
}

/// Sizes and words that the calculator has are those that the data plane has.
#[test]
fn esp_every_suite_of_the_data_plane_has_its_sizes_here() {
    let mut count = 0;
    for suite in Suite::software() {
        let (cipher, integrity) = match suite.name().split_once(' ') {
            Some((cipher, integrity)) => (cipher, Some(integrity)),
            None => (suite.name(), None),
        };
        let row = EspSuite::by_name(cipher, integrity).expect("the calculator knows it");
        assert_eq!((row.iv_len(), row.icv_len()), (suite.esp_iv_len(), suite.icv_len()), "{suite}");
        assert_eq!(row.cipher().block, suite.esp_align(), "{suite}");
        assert_eq!(row.cipher().hides, !suite.is_integrity(), "{suite}");
        count += 1;
    }
    // Beside these the calculator has the study's counter mode.
    assert_eq!(suites().len(), count + ESP_INTEGRITIES.len());
}

#[test]
fn esp_padding_fills_the_block_and_never_a_whole_one() {
    for suite in suites() {
        for content in 0..200 {
            let padding = suite.padding(content);
            assert!(padding < suite.cipher().block, "{suite}: {padding}");
            assert_eq!((content + padding + 2) % suite.cipher().block, 0, "{suite}");
            assert_eq!((content + padding + 2) % 4, 0, "{suite}");
        }
    }
}

#[test]
fn esp_ledger_agrees_with_closed_form_for_every_suite_mode_and_size() {
    let options = [
        ("tunnel", Mode::Tunnel, IpVersion::V4),
        ("tunnel ipv6", Mode::Tunnel, IpVersion::V6),
        ("transport", Mode::Transport, IpVersion::V4),
    ];
    for suite in suites() {
        for (words, mode, outer) in options {
            let stack = stack(&format!("eth vlan ipv4 udp 0 | esp {suite} {words}"));
            let link = if mode == Mode::Tunnel { 14 } else { 18 };
            for inner in (28..120).chain([576, 982, 1279, 1280, 1500]) {
                let expected = link + esp_len(&suite, mode, outer, inner);
                assert_eq!(stack.wire_len(18 + inner), Ok(expected), "{stack} {inner}");
            }
        }
    }
}

#[test]
fn esp_options_udp_encapsulation_costs_eight_and_esn_nothing() {
    let plain = wire("esp aes-gcm-128 tunnel");
    assert_eq!(wire("esp aes-gcm-128 tunnel udp-encap"), plain + 8);
    assert_eq!(wire("esp aes-gcm-128 tunnel esn"), plain);
    assert_eq!(wire("esp aes-gcm-128 tunnel ipv6"), plain + 20);
    let Some(Transform::Esp(esp)) =
        stack("esp aes-gcm-128 udp-encap").transforms().first().copied()
    else {
        panic!("an ESP transformation")
    };
    assert_eq!(esp.ip_len(982) + 14, plain + 8);
}

#[test]
fn esp_tunnel_replaces_ethernet_and_every_tag() {
    let layout = stack("eth svlan vlan ipv6 tcp 100 | esp aes-gcm-128 tunnel").layout();
    let layout = layout.expect("layout");
    assert_eq!(layout.stages[0].removed, 22);
    assert_eq!(layout.stages[0].removed_tags, 8);
    let ethernets =
        layout.segments.iter().filter(|s| s.kind == SegmentKind::Layer(Layer::Ethernet)).count();
    assert_eq!(ethernets, 1);
}

#[test]
fn macsec_sizes_with_and_without_sci_in_every_cipher_suite() {
    for cipher in ["gcm-aes-128", "gcm-aes-256", "gcm-aes-xpn-128", "gcm-aes-xpn-256"] {
        for options in ["", " clear-vlan", " integrity", " clear-vlan integrity"] {
            assert_eq!(wire(&format!("macsec sci {cipher}{options}")), macsec_len(true, 1000));
            assert_eq!(wire(&format!("macsec {cipher}{options}")), macsec_len(false, 1000));
        }
    }
    assert_eq!((macsec_len(true, 1000), macsec_len(false, 1000)), (1032, 1024));
    assert_eq!(wire("macsec sci offset 30"), 1032);
}

#[test]
fn macsec_short_length_counts_secure_data_below_48_octets() {
    let short = |text: &str, frame_len| {
        let layout = stack(text).layout_of(frame_len).expect("layout");
        layout.segments.iter().find_map(|segment| match segment.kind {
            SegmentKind::SecTag { short_length } => Some(short_length),
            _ => None,
        })
    };
    // Secure data: the frame less its two addresses.
    assert_eq!(short("eth 0 | macsec sci", 59), Some(47));
    assert_eq!(short("eth 0 | macsec sci", 60), Some(0));
    assert_eq!(short("eth vlan 0 | macsec clear-vlan", 60), Some(44));
}

#[test]
fn macsec_protection_follows_the_options() {
    let marks = |text: &str| -> Vec<(SegmentKind, Protection)> {
        let layout = stack(text).layout().expect("layout");
        layout.segments.iter().map(|segment| (segment.kind, segment.protection)).collect()
    };
    let frame = "eth vlan ipv4 udp 954 | macsec sci";
    assert!(marks(frame).contains(&(SegmentKind::Layer(Layer::Vlan), Protection::Encrypted)));
    assert!(marks(frame).contains(&(SegmentKind::MacAddresses, Protection::Authenticated)));
    let clear = marks(&format!("{frame} clear-vlan"));
    assert!(clear.contains(&(SegmentKind::Layer(Layer::Vlan), Protection::Clear)));
    let integrity = marks(&format!("{frame} integrity"));
    assert!(integrity.contains(&(SegmentKind::Payload, Protection::Authenticated)));
    // 30 octets of user data: type 2, tag 4, IPv4 20, and 4 of UDP's 8.
    let offset = marks(&format!("{frame} offset 30"));
    assert!(offset.contains(&(SegmentKind::Layer(Layer::Ipv4), Protection::Authenticated)));
    assert!(offset.contains(&(SegmentKind::Layer(Layer::Udp), Protection::EncryptedFrom(4))));
    assert!(offset.contains(&(SegmentKind::Payload, Protection::Encrypted)));
}

#[test]
fn mpls_pseudowire_sizes_by_labels_and_control_word() {
    for labels in 1..=16 {
        for (word, control_word) in [("", false), (" cw", true)] {
            let expected = mpls_len(labels, control_word, 1000);
            assert_eq!(wire(&format!("mpls {labels}{word}")), expected);
            assert_eq!(expected, 1000 + 14 + 4 * labels + if control_word { 4 } else { 0 });
        }
    }
    assert_eq!(wire("mpls cw add-tag"), 1026);
    assert_eq!(wire("mpls cw strip-tag"), 1018);
}

#[test]
fn l3vpn_replaces_ethernet_and_tags_by_labels() {
    assert_eq!(wire("l3vpn 2"), 1000 - 18 + 14 + 8);
    assert_eq!(wire("l3vpn"), wire("mpls 2 ip"));
    assert_eq!(wire("esp aes-gcm-128 | l3vpn 1"), wire("esp aes-gcm-128") + 4);
}

#[test]
fn bridge_pushes_and_pops_tags() {
    assert_eq!(wire("vlan"), 1004);
    assert_eq!(wire("svlan | mpls cw"), 1026);
    assert_eq!(wire("untag"), 996);
    assert_eq!(wire("macsec sci | svlan"), 1036);
}

#[test]
fn l2tpv3_and_vxlan_sizes_for_calculation_only() {
    assert_eq!(wire("l2tpv3 udp"), 1000 + 14 + 20 + 8 + 8);
    assert_eq!(wire("l2tpv3 udp cookie 8"), wire("l2tpv3 udp") + 8);
    assert_eq!(wire("l2tpv3 cookie 4 sublayer"), 1000 + 14 + 20 + 4 + 4 + 4);
    assert_eq!(wire("l2tpv3 udp ipv6"), wire("l2tpv3 udp") + 20);
    assert_eq!(wire("vxlan ipv6"), 1000 + 14 + 40 + 8 + 8);
    let stack = stack("l2tpv3 udp | esp aes-gcm-128-iiv transport");
    assert_eq!(stack.calculation_only(), ["L2TPv3"]);
}

#[test]
fn carried_stacks_are_not_marked_as_calculation() {
    for text in [
        "mpls 2 cw",
        "macsec sci gcm-aes-xpn-256 clear-vlan | mpls cw",
        "esp aes-cbc-128 hmac-sha1-96 tunnel | mpls cw",
        "esp chacha20-poly1305 tunnel ipv6 esn | l3vpn 2",
        "esp aes-ctr-192 hmac-sha384-192 tunnel",
    ] {
        assert_eq!(stack(text).calculation_only(), Vec::<String>::new(), "{text}");
    }
}

/// Transformations that follow one another in any order that fits, by seed.
fn random_stack(rng: &mut Rng) -> Option<Stack> {
    let pick = |rng: &mut Rng, words: &[&str]| {
        let at = usize::try_from(rng.below(words.len() as u64)).expect("small");
        words[at].to_owned()
    };
    let frames =
        ["eth ipv4 udp 300", "eth vlan ipv6 tcp 40", "eth svlan vlan ipv4 1", "eth vlan 90"];
    let stages = [
        "macsec sci",
        "macsec clear-vlan gcm-aes-256",
        "mpls cw",
        "mpls 3",
        "l3vpn 2",
        "vlan",
        "svlan",
        "esp aes-gcm-128 tunnel",
        "esp aes-cbc-256 hmac-sha256-128 tunnel ipv6",
        "esp chacha20-poly1305 transport",
        "l2tpv3 udp cookie 4",
        "vxlan",
    ];
    let mut text = pick(rng, &frames);
    for _ in 0..rng.below(5) {
        text += " | ";
        text += &pick(rng, &stages);
    }
    Stack::parse(&text).ok()
}

#[test]
fn random_stacks_conserve_bytes_and_stay_within_their_room() {
    let mut rng = Rng::new(6);
    let mut seen = 0;
    while seen < 500 {
        let Some(stack) = random_stack(&mut rng) else { continue };
        seen += 1;
        let len = stack.frame().headers_len() + usize::try_from(rng.below(1500)).expect("small");
        let layout = stack.layout_of(len).expect("a stack fits any usual size");
        let added: isize = layout.stages.iter().map(|stage| stage.net()).sum();
        assert_eq!(layout.wire_len().cast_signed(), len.cast_signed() + added, "{stack}");
        let payload = layout.segments.iter().position(|s| s.kind == SegmentKind::Payload);
        let behind = payload.map_or(0, |at| {
            layout.segments.iter().skip(at + 1).map(|segment| segment.bytes).sum::<usize>()
        });
        assert!(behind <= stack.max_tail_room(), "{stack}: {behind} behind the payload");
        let before = layout.wire_len().saturating_sub(behind + len);
        assert!(before <= stack.max_head_room(), "{stack}: {before} before the frame");
        assert_eq!(
            Stack::parse(&stack.to_string()).as_ref().map(Stack::layout),
            Ok(stack.layout())
        );
    }
}

#[test]
fn head_and_tail_room_cover_the_worst_padding_and_an_untagged_frame() {
    let stack = stack("esp aes-cbc-128 hmac-sha1-96 tunnel | mpls 2 cw");
    assert_eq!(stack.max_head_room(), 20 + 8 + 16 + 14 + 8 + 4);
    assert_eq!(stack.max_tail_room(), 15 + 2 + 12);
    let macsec = super::stack("macsec sci | mpls cw");
    assert_eq!((macsec.max_head_room(), macsec.max_tail_room()), (16 + 22, 16));
}
