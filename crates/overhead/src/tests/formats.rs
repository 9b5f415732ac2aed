//! Every encapsulation's size, from the standards, and the ledger against the closed forms.

use super::{stack, wire};
use crate::{
    Ah, IpVersion, Layer, Mode, Protection, Segment, SegmentKind, Stack, Transform, UserFrame,
    esp_ciphers, esp_suites,
};
use ferrule_base::Rng;
use ferrule_crypto::{Aes, Mac, Suite};

/// Octets of the IP packet that ESP makes of an IPv4 packet (RFC 4303 section 2).
fn esp_len(suite: Suite, mode: Mode, outer: IpVersion, inner: usize) -> usize {
    let header = if outer == IpVersion::V4 { 20 } else { 40 };
    let content = if mode == Mode::Tunnel { inner } else { inner - header };
    let sealed = (content + 2).next_multiple_of(suite.esp_align());
    header + 8 + suite.esp_iv_len() + sealed + suite.icv_len()
}

/// Octets of the MACsec frame made of another (802.1AE clause 9).
fn macsec_len(sci: bool, frame_len: usize) -> usize {
    frame_len + 8 + if sci { 8 } else { 0 } + 16
}

/// Octets of the frame that carries another in a pseudowire (RFC 4448 section 4).
fn mpls_len(labels: usize, control_word: bool, frame_len: usize) -> usize {
    14 + labels * 4 + if control_word { 4 } else { 0 } + frame_len
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
    let len = |suite: &str, inner: usize| {
        let stack = stack(&format!("eth ipv4 0 | esp {suite} tunnel"));
        stack.wire_len(14 + inner).expect("a length") - 14
    };
    // outer 20, SPI and number 8, IV, content with trailer padded, check value
    assert_eq!(len("aes-gcm-128", 982), 20 + 8 + 8 + 984 + 16);
    assert_eq!(len("aes-gcm-256", 983), 20 + 8 + 8 + 988 + 16);
    assert_eq!(len("aes-gcm-128-iiv", 982), 20 + 8 + 984 + 16);
    assert_eq!(len("chacha20-poly1305", 40), 20 + 8 + 8 + 44 + 16);
    assert_eq!(len("aes-cbc-128 hmac-sha1-96", 982), 20 + 8 + 16 + 992 + 12);
    assert_eq!(len("aes-cbc-256 hmac-sha256-128", 30), 20 + 8 + 16 + 32 + 16);
    assert_eq!(len("aes-cbc-256 hmac-sha384-192", 31), 20 + 8 + 16 + 48 + 24);
    assert_eq!(len("aes-ctr-128 hmac-sha512-256", 30), 20 + 8 + 8 + 32 + 32);
    assert_eq!(len("null hmac-sha1-96", 31), 20 + 8 + 36 + 12);
    assert_eq!(len("aes-gmac-128", 30), 20 + 8 + 8 + 32 + 16);
    assert_eq!(len("des-cbc hmac-md5-96", 30), 20 + 8 + 8 + 32 + 12);
    assert_eq!(len("3des-cbc hmac-sha1-96", 31), 20 + 8 + 8 + 40 + 12);
}

/// Every suite that the data plane seals with can be calculated, and beside those only the study's
/// counter mode, with any hash.
#[test]
fn esp_every_suite_of_the_data_plane_is_offered() {
    let suites: Vec<Suite> = esp_suites().collect();
    for suite in Suite::software().chain(Suite::STUDY) {
        assert_eq!(suites.iter().filter(|other| **other == suite).count(), 1, "{suite}");
        let Some(Transform::Esp(esp)) =
            stack(&format!("esp {suite}")).transforms().first().copied()
        else {
            panic!("an ESP transformation")
        };
        assert_eq!(esp.suite, suite);
    }
    assert_eq!(suites.len(), Suite::software().count() + Mac::ALL.len());
    assert_eq!(esp_ciphers(Mac::HmacSha1_96).len(), 21);
}

#[test]
fn ah_takes_no_suite_that_hides() {
    let ah = |suite| {
        let (mode, outer) = (Mode::Tunnel, IpVersion::V4);
        let ah = Ah { suite, mode, outer, pad8: false, esn: false };
        Stack::new(UserFrame::study(), vec![Transform::Ah(ah)])
    };
    assert!(ah(Suite::AesGmac(Aes::Aes128)).is_ok() && ah(Suite::Null(Mac::HmacMd5_96)).is_ok());
    assert!(ah(Suite::AesGcm(Aes::Aes128)).is_err());
}

#[test]
fn esp_padding_fills_the_block_and_never_a_whole_one() {
    for suite in esp_suites() {
        let stack = stack(&format!("eth ipv4 0 | esp {suite} tunnel"));
        for content in 20..200 {
            let layout = stack.layout_of(14 + content).expect("layout");
            let padding = layout.segments.iter().find(|s| s.kind == SegmentKind::EspPadding);
            let padding = padding.map_or(0, |segment| segment.bytes);
            assert!(padding < suite.esp_align(), "{suite}: {padding}");
            assert_eq!((content + padding + 2) % suite.esp_align(), 0, "{suite}");
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
    for suite in esp_suites() {
        for (words, mode, outer) in options {
            let stack = stack(&format!("eth vlan ipv4 udp 0 | esp {suite} {words}"));
            let link = if mode == Mode::Tunnel { 14 } else { 18 };
            for inner in (28..120).chain([576, 982, 1279, 1280, 1500]) {
                let expected = link + esp_len(suite, mode, outer, inner);
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
fn check_values_are_told_from_octets_in_the_clear() {
    let check_values = |text: &str| -> Vec<SegmentKind> {
        let layout = stack(text).layout().expect("layout");
        let seen = |segment: &&Segment| segment.protection == Protection::CheckValue;
        layout.segments.iter().filter(seen).map(|segment| segment.kind).collect()
    };
    for text in ["macsec", "esp aes-gcm-128", "ah hmac-sha256-128", "ah aes-gmac-128 transport"] {
        assert_eq!(check_values(&format!("{text} | mpls cw")).len(), 1, "{text}");
    }
    // MACsec hides the check value of the ESP inside.
    let both = check_values("esp aes-gcm-128 tunnel | macsec sci");
    assert_eq!(both, [SegmentKind::MacsecIcv]);
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
