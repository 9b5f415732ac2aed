//! MTU, MSS and loads: what a line leaves of a stack.

use super::stack;
use crate::line::line_len;
use crate::{Line, Stack};

const GBIT: u64 = 1_000_000_000;

#[test]
fn line_cost_counts_preamble_fcs_gap_and_the_minimum() {
    assert_eq!(line_len(1000), 1024);
    // The shortest frame takes 84 octet times: 1,488,095 a second on 1 Gbit/s.
    assert_eq!(line_len(14), 84);
    assert_eq!(line_len(60), 84);
    assert_eq!(line_len(61), 85);
    let short = stack("eth ipv4 udp 10 | mpls cw").ceiling(GBIT, GBIT).expect("a ceiling");
    assert_eq!(short.lines[0].frames_per_second.round(), 1_488_095.0);
}

#[test]
fn ceiling_names_the_line_that_limits() {
    let limit = |text: &str, access, core| {
        let ceiling = stack(text).ceiling(access, core).expect("a ceiling");
        (ceiling.limit, (ceiling.share * 1000.0).round())
    };
    assert_eq!(limit("mpls cw", GBIT, GBIT), (Line::Core, 979.0));
    assert_eq!(limit("mpls cw", GBIT, 10 * GBIT), (Line::Access, 1000.0));
    // ESP leaves the customer's edge before the provider adds anything: that line is full first.
    let esp = "esp aes-cbc-128 hmac-sha1-96 tunnel | mpls cw";
    assert_eq!(limit(esp, GBIT, 10 * GBIT), (Line::Attachment, 943.0));
    assert_eq!(limit(esp, GBIT, GBIT), (Line::Core, 924.0));
    // Labels in place of Ethernet and tag make a frame no longer: the access line limits.
    assert_eq!(limit("l3vpn 1", GBIT, GBIT), (Line::Access, 1000.0));
}

#[test]
fn mtu_is_the_largest_packet_that_fits_and_one_more_does_not() {
    for text in [
        "eth ipv4 udp 100 | mpls 2 cw",
        "macsec sci | mpls cw",
        "esp aes-cbc-128 hmac-sha1-96 tunnel | mpls cw",
        "esp aes-gcm-256 tunnel ipv6 udp-encap | l3vpn 2",
        "l2tpv3 udp cookie 8 | esp aes-gcm-128 transport",
        "macsec sci gcm-aes-128 clear-vlan",
    ] {
        let stack = stack(text);
        let link = stack.frame().link_header_len();
        for line_mtu in (600..700).chain([1500, 1530, 9000]) {
            let report = stack.mtu(line_mtu).expect("the stack fits");
            let at = |user_mtu| stack.layout_of(user_mtu + link).expect("layout").mtu_len();
            assert!(at(report.user_mtu) <= line_mtu, "{text} {line_mtu}");
            assert!(at(report.user_mtu + 1) > line_mtu, "{text} {line_mtu}");
            let needed = stack.line_mtu_for(report.user_mtu).expect("layout");
            assert_eq!(stack.mtu(needed).map(|report| report.user_mtu), Ok(report.user_mtu));
        }
    }
}

/// Octet times on each line of the path, without preamble, FCS and gap.
fn on_lines(text: &str) -> Vec<usize> {
    let ceiling = stack(text).ceiling(GBIT, GBIT).expect("a ceiling");
    let lens: Vec<usize> = ceiling.lines.iter().map(|load| load.frame_len).collect();
    let costs: Vec<usize> = ceiling.lines.iter().map(|load| load.line_len - 24).collect();
    assert_eq!(lens, costs, "{text}");
    lens
}

#[test]
fn padding_of_a_short_frame_is_carried_where_the_frame_is_taken_whole() {
    // Of 43 octets a line makes 60, and no device behind it can tell which 17 those were.
    assert_eq!(on_lines("eth ipv4 udp 1 | mpls cw"), [60, 60 + 22]);
    assert_eq!(on_lines("eth ipv4 udp 1 | macsec"), [60, 60 + 24]);
    assert_eq!(on_lines("eth ipv4 udp 1 | macsec sci | mpls cw"), [60, 92, 92 + 22]);
    assert_eq!(on_lines("eth ipv4 udp 1 | vxlan"), [60, 60 + 50]);
    assert_eq!(on_lines("eth arp | vlan"), [60, 64]);
    assert_eq!(on_lines("eth vlan ipv4 udp 1 | mpls strip-tag"), [60, 56 + 18]);
    // The line between the edges pads what a bridge made short again.
    assert_eq!(on_lines("eth vlan ipv4 udp 1 | untag | mpls cw"), [60, 60, 60 + 22]);
    // ESP's own padding follows: 8 + 20 + 20 + 8 + 8 and the frame of 60, whole words.
    let inside = "eth ipv4 udp 1 | l2tpv3 udp | esp aes-gcm-128 transport";
    let full = "eth ipv4 udp 18 | l2tpv3 udp | esp aes-gcm-128 transport";
    assert_eq!(on_lines(inside), on_lines(full));
    let ceiling = stack("eth ipv4 udp 1 | mpls cw").ceiling(GBIT, GBIT).expect("a ceiling");
    assert_eq!((ceiling.share * 1000.0).round(), 792.0);
    assert_eq!(ceiling.lines.iter().map(|load| load.padding).collect::<Vec<_>>(), [17, 17]);
    let ceiling = stack("eth ipv4 udp 1 | macsec").ceiling(GBIT, GBIT).expect("a ceiling");
    assert_eq!((ceiling.share * 1000.0).round(), 778.0);
}

#[test]
fn padding_that_is_carried_counts_against_the_line_mtu() {
    assert_eq!(stack("eth arp | mpls cw").line_mtu(), Ok(60 + 8));
    assert_eq!(stack("eth arp").line_mtu(), Ok(28));
    assert_eq!(stack("eth ipv4 udp 1 | esp aes-gcm-128 tunnel").line_mtu(), Ok(20 + 16 + 32 + 16));
    let stack = stack("eth ipv4 udp 1 | mpls cw");
    assert!(stack.mtu(67).is_err_and(|error| error.help.is_some_and(|help| help.contains("68"))));
    assert_eq!(stack.mtu(68).map(|report| report.user_mtu), Ok(46));
}

#[test]
fn padding_of_a_short_frame_is_no_part_of_an_ip_packet() {
    for text in [
        "esp aes-gcm-128 tunnel",
        "esp aes-gcm-128 transport",
        "ah hmac-sha256-128 tunnel",
        "vlan | esp aes-cbc-128 hmac-sha1-96 tunnel | mpls cw",
        "l3vpn 8",
        "ah hmac-sha256-128 transport | mpls cw",
    ] {
        let stack = stack(&format!("eth ipv4 udp 1 | {text}"));
        let ceiling = stack.ceiling(GBIT, GBIT).expect("a ceiling");
        let (core, wire) = (ceiling.lines.last(), stack.layout().expect("layout").wire_len());
        assert_eq!(core.map(|load| (load.frame_len, load.padding)), Some((wire, 0)), "{text}");
    }
    // Still short: the core line pads it anew.
    assert_eq!(on_lines("eth ipv4 udp 1 | l3vpn 1"), [60, 60]);
}

#[test]
fn padding_changes_nothing_of_frames_of_60_octets_and_more() {
    for text in ["mpls cw", "macsec sci | mpls cw", "untag | vxlan", "svlan", "l3vpn 2", "l2tpv3"] {
        for len in [64, 65, 100, 1500] {
            let stack = stack(text).resized(len).expect("a size");
            let ceiling = stack.ceiling(GBIT, GBIT).expect("a ceiling");
            let core = ceiling.lines.last().map(|load| (load.frame_len, load.padding));
            assert_eq!(core, Some((stack.layout().expect("layout").wire_len(), 0)), "{stack}");
        }
    }
}

/// Whatever the MTU, what the stack adds is what it takes; no other limit cuts in before.
#[test]
fn mtu_near_the_largest_leaves_as_much_as_below() {
    for (text, added) in [
        ("eth vlan ipv4 udp 100", 0),
        ("mpls cw", 4 + 4 + 14 + 4),
        ("eth ipv4 udp 100 | macsec sci", 32),
        ("macsec sci clear-vlan", 32),
        ("l3vpn 2", 8),
        ("eth svlan vlan ipv4 | l2tpv3 udp", 14 + 8 + 20 + 8 + 8),
        ("untag", 0),
    ] {
        for line_mtu in [1500, 9000, 65_520, 65_521, 65_535] {
            let report = stack(text).mtu(line_mtu).expect("it fits");
            assert_eq!(report.user_mtu, line_mtu - added, "{text} {line_mtu}");
        }
    }
    // ESP pads to four octets: 65535 - 20 - 8 - 8 - 16 = 65483, less up to three and the trailer.
    let esp = stack("esp aes-gcm-128 tunnel").mtu(65_535).expect("it fits");
    assert_eq!(esp.user_mtu, 65_478);
}

#[test]
fn mtu_of_macsec_on_an_ethernet_line_is_1468() {
    let report = stack("eth ipv4 udp 100 | macsec sci").mtu(1500).expect("it fits");
    assert_eq!(report.user_mtu, 1468);
    assert_eq!((report.mss_ipv4, report.mss_ipv6), (Some(1428), Some(1408)));
    // A tag in the clear stays outside of the line's MTU, an encrypted one does not.
    assert_eq!(stack("macsec sci clear-vlan").mtu(1500).map(|report| report.user_mtu), Ok(1468));
    assert_eq!(stack("macsec sci").mtu(1500).map(|report| report.user_mtu), Ok(1464));
}

#[test]
fn mtu_of_a_plain_line_is_the_lines_own() {
    let report = stack("eth vlan ipv4 udp 100").mtu(1500).expect("it fits");
    assert_eq!((report.user_mtu, report.mss_ipv4, report.mss_ipv6), (1500, Some(1460), Some(1440)));
}

#[test]
fn mtu_of_esp_tunnels_and_pseudowires() {
    let user = |text: &str, line| stack(text).mtu(line).expect("it fits").user_mtu;
    // 1500 - 20 - 8 - 16 - 12 = 1444, of which 1440 are whole blocks, less two of trailer.
    assert_eq!(user("esp aes-cbc-128 hmac-sha1-96 tunnel", 1500), 1438);
    assert_eq!(user("esp aes-gcm-128 tunnel", 1500), 1446);
    // A pseudowire carries the user's Ethernet, tag, label and control word inside the MTU.
    assert_eq!(user("mpls cw", 1500), 1500 - 18 - 8);
    assert_eq!(stack("mpls cw").line_mtu_for(1500), Ok(1526));
}

#[test]
fn mtu_below_1280_carries_no_ipv6() {
    let report = stack("mpls cw").mtu(1305).expect("it fits");
    assert_eq!((report.user_mtu, report.mss_ipv6), (1279, None));
}

#[test]
fn mtu_of_a_payload_that_is_no_ip_packet_has_no_mss() {
    let mtu = |text: &str| {
        let report = stack(text).mtu(1500).expect("it fits");
        (report.user_mtu, report.mss_ipv4, report.mss_ipv6)
    };
    assert_eq!(mtu("eth arp"), (28, None, None));
    assert_eq!(mtu("eth vlan 46 | macsec sci"), (1500 - 36, None, None));
    assert!(stack("eth vlan ipv6").frame().carries_ip() && !stack("eth 46").frame().carries_ip());
    assert!(stack("eth 46").frame().is_resizable() && !stack("eth arp").frame().is_resizable());
}

#[test]
fn mtu_too_small_for_the_stack_says_what_it_takes() {
    let error = stack("esp aes-gcm-128 tunnel | mpls cw").mtu(60).expect_err("it cannot fit");
    let help = error.help.expect("what to do");
    let needed: usize = help
        .split_whitespace()
        .find_map(|word| word.parse().ok())
        .expect("the help names the least MTU");
    let stack = Stack::parse("esp aes-gcm-128 tunnel | mpls cw").expect("a stack");
    assert!(stack.mtu(needed).is_ok());
    assert!(stack.mtu(needed - 1).is_err());
}
