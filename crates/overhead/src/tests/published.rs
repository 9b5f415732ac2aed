//! The study's figures, read from its data file, and those that its errata correct.

use super::{stack, wire};
use crate::{Line, SegmentKind, Stack, UserFrame};
use toml::Table;

const STUDY: &str = include_str!("../../../../studies/macsec-mobility.toml");
const GBIT: u64 = 1_000_000_000;
const ESP: &str = "esp aes-cbc-128 hmac-sha1-96 tunnel";

/// An integer of the study's data.
fn published(table: &str, key: &str) -> usize {
    let study: Table = STUDY.parse().expect("the study's data is TOML");
    let value =
        study.get(table).and_then(|table| table.get(key)).and_then(|value| value.as_integer());
    let value = value.unwrap_or_else(|| panic!("no {table}.{key} in the study's data"));
    usize::try_from(value).expect("sizes are not negative")
}

/// The text of the erratum about a part of the study.
fn erratum(about: &str) -> String {
    let study: Table = STUDY.parse().expect("the study's data is TOML");
    let errata = study.get("erratum").and_then(|errata| errata.as_array()).expect("errata");
    let texts = errata.iter().filter_map(|erratum| erratum.get("text")?.as_str());
    let found = texts.into_iter().find(|text| text.contains(about));
    found.unwrap_or_else(|| panic!("no erratum about {about:?}")).to_owned()
}

fn percent(text: &str) -> f64 {
    let ceiling = stack(text).ceiling(GBIT, GBIT).expect("a ceiling");
    assert_eq!(ceiling.limit, Line::Core, "{text}");
    ceiling.share * 100.0
}

#[test]
fn published_user_frame_has_1000_bytes_layer_by_layer() {
    let frame = UserFrame::study();
    assert_eq!(frame.len(), published("frame", "total_bytes"));
    assert_eq!(frame.payload(), published("frame", "payload"));
    let sizes: Vec<usize> = frame.layers().iter().map(|layer| layer.header_len()).collect();
    let names = ["ethernet", "vlan_tag", "ipv4", "udp"];
    assert_eq!(sizes, names.map(|name| published("frame", name)));
    assert_eq!(stack("eth vlan ipv4 udp 954").frame(), &frame);
}

#[test]
fn published_sizes_on_the_wire() {
    assert_eq!(wire("mpls cw"), published("overhead", "plain_on_wire"));
    assert_eq!(wire("macsec sci gcm-aes-128 | mpls cw"), published("overhead", "macsec_on_wire"));
    assert_eq!(wire(&format!("{ESP} | mpls cw")), published("overhead", "ipsec_on_wire"));
}

#[test]
fn published_provider_header_is_ethernet_label_and_control_word() {
    let layout = stack("mpls cw").layout().expect("layout");
    let front: Vec<usize> = layout.segments.iter().take(3).map(|segment| segment.bytes).collect();
    let names = ["ppvpn_ethernet", "ppvpn_mpls_label", "ppvpn_control_word"];
    assert_eq!(front, names.map(|name| published("overhead", name)));
}

#[test]
fn published_overheads_of_ipsec_and_macsec() {
    let cost = |text: &str| stack(text).layout().expect("layout").stages[0];
    let ipsec = cost(ESP);
    assert_eq!(ipsec.net(), published("overhead", "ipsec_overhead").cast_signed());
    assert_eq!(cost("macsec sci").net(), published("overhead", "macsec_overhead").cast_signed());
    // The gateway drops the tag that MACsec keeps: like for like it is 66.
    assert_eq!(ipsec.net_with_tags(), 66);
    assert_eq!(cost("macsec sci").net_with_tags(), 32);
    assert!(erratum("4-byte VLAN tag").contains("66 bytes"));
}

#[test]
fn published_short_length_is_zero_for_the_studys_frame() {
    let layout = stack("macsec sci | mpls cw").layout().expect("layout");
    let found = layout.segments.iter().find_map(|segment| match segment.kind {
        SegmentKind::SecTag { short_length } => Some(usize::from(short_length)),
        _ => None,
    });
    assert_eq!(found, Some(published("overhead", "secTAG_short_length")));
}

#[test]
fn erratum_sizes_with_gcm_and_implicit_iv() {
    let text = erratum("with AES-GCM");
    for (suite, expected) in [("aes-gcm-128", 1072), ("aes-gcm-128-iiv", 1064)] {
        assert_eq!(wire(&format!("esp {suite} tunnel | mpls cw")), expected);
        assert!(text.contains(&expected.to_string()), "{expected} in the erratum");
    }
}

#[test]
fn erratum_sizes_with_a_transport_label() {
    let text = erratum("transport label");
    for (transforms, expected) in
        [("", 1026), ("macsec sci | ", 1058), (&format!("{ESP} | "), 1088)]
    {
        assert_eq!(wire(&format!("{transforms}mpls 2 cw")), expected);
        assert!(text.contains(&expected.to_string()), "{expected} in the erratum");
    }
}

#[test]
fn erratum_ceilings_on_the_one_label_link() {
    let text = erratum("97.9 %");
    assert!(text.contains("94.99 %") && text.contains("92.4 %"));
    assert_eq!(format!("{:.1}", percent("mpls cw")), "97.9");
    assert_eq!(format!("{:.2}", percent("macsec sci | mpls cw")), "94.99");
    assert_eq!(format!("{:.1}", percent(&format!("{ESP} | mpls cw"))), "92.4");
}

#[test]
fn erratum_ceilings_on_the_two_label_link() {
    assert!(erratum("97.5").contains("94.6 and 92.1 %"));
    assert_eq!(format!("{:.1}", percent("mpls 2 cw")), "97.5");
    assert_eq!(format!("{:.1}", percent("macsec sci | mpls 2 cw")), "94.6");
    assert_eq!(format!("{:.1}", percent(&format!("{ESP} | mpls 2 cw"))), "92.1");
}

/// The study's sections 2.1 and 2.3: L2TP costs 50 bytes, ESP in transport mode 38 to 53 more.
#[test]
fn published_comparison_l2tpv3_with_esp_transport() {
    let study: Table = STUDY.parse().expect("the study's data is TOML");
    let more = study["compared_in_text"]["l2tp_ipsec_more_bytes"].as_array().expect("a range");
    let more: Vec<isize> =
        more.iter().map(|bytes| bytes.as_integer().expect("bytes") as isize).collect();
    let tunnel = stack("l2tpv3 udp | esp aes-cbc-128 hmac-sha1-96 transport");
    let costs: Vec<[isize; 2]> = (60..1000)
        .map(|len| tunnel.layout_of(len).expect("layout").stages)
        .map(|stages| [stages[0].net(), stages[1].net()])
        .collect();
    let l2tp = published("compared_in_text", "l2tp_bytes_per_packet").cast_signed();
    assert!(costs.iter().all(|cost| cost[0] == l2tp));
    assert_eq!(costs.iter().map(|cost| cost[1]).min(), more.first().copied());
    assert_eq!(costs.iter().map(|cost| cost[1]).max(), more.last().copied());
}

#[test]
fn published_comparison_macsec_over_vxlan_costs_more_than_mpls() {
    let vxlan = stack("macsec sci | vxlan");
    assert_eq!(vxlan.calculation_only(), ["VXLAN"]);
    assert_eq!(wire("macsec sci | vxlan"), 1000 + 32 + 50);
    assert!(wire("macsec sci | vxlan") > wire("macsec sci | mpls 2 cw"));
}

#[test]
fn gallery_entries_all_parse_and_carry_the_studys_frame() {
    for entry in crate::GALLERY {
        let stack =
            Stack::parse(entry.stack).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        assert_eq!(stack.layout().expect("layout").user_len, 1000, "{}", entry.name);
    }
}
