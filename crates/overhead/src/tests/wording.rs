//! The grammar: what it takes, and how it answers what it does not.

use super::{stack, wire};
use crate::{STAGES_MAX, Stack, StackError, UserFrame};

fn wrong(text: &str) -> StackError {
    match Stack::parse(text) {
        Ok(stack) => panic!("{text:?} was taken as {stack}"),
        Err(error) => error,
    }
}

/// The words under the caret.
fn pointed(text: &str) -> &str {
    let span = wrong(text).span.unwrap_or_else(|| panic!("no place for {text:?}"));
    text.get(span).expect("the place is in the text")
}

#[test]
fn grammar_prints_what_it_read() {
    for text in [
        "eth vlan ipv4 udp 954",
        "eth svlan vlan ipv6 tcp 1200 | macsec sci gcm-aes-xpn-256 clear-vlan integrity | mpls 2 cw",
        "eth ipv4 icmp 56 | esp aes-cbc-128 hmac-sha1-96 tunnel ipv6 udp-encap esn | l3vpn 3",
        "eth ipv4 udp 10 | l2tpv3 udp cookie 8 sublayer ipv6 | esp aes-gcm-128 transport",
        "eth vlan arp | macsec gcm-aes-256 offset 50 | vxlan ipv6",
        "eth 46 | svlan | vlan | untag | mpls add-tag",
    ] {
        assert_eq!(stack(text).to_string(), text);
    }
}

#[test]
fn grammar_defaults_are_the_studys_frame_one_label_and_tunnel_mode() {
    assert_eq!(stack("mpls").frame(), &UserFrame::study());
    assert_eq!(stack("MPLS CW").transforms_text(), "mpls cw");
    assert_eq!(stack("esp aes-gcm-128").transforms_text(), "esp aes-gcm-128 tunnel");
    assert_eq!(stack("macsec").transforms_text(), "macsec gcm-aes-128");
    assert_eq!(wire("eth vlan ipv4 udp 954 / macsec sci / mpls cw"), 1054);
    assert_eq!(wire("  macsec sci|mpls cw "), 1054);
}

#[test]
fn did_you_mean_names_the_nearest_word_and_points_at_the_wrong_one() {
    for (text, wrong_word, meant) in [
        ("eth vlan ipv4 upd 954 | mpls cw", "upd", "udp"),
        ("eth vlna ipv4 udp 954", "vlna", "vlan"),
        ("macsce sci | mpls cw", "macsce", "macsec"),
        ("eth ipv4 udp 9 | mpsl cw", "mpsl", "mpls"),
        ("mpls wc", "wc", "cw"),
        ("esp aes-gmc-128 tunnel", "aes-gmc-128", "aes-gcm-128"),
        ("esp aes-gcm tunnel", "aes-gcm", "aes-gcm-128"),
        ("esp aes-cbc-128 hmac-sha-96", "hmac-sha-96", "hmac-sha1-96"),
        ("esp aes-gcm-128 tunel", "tunel", "tunnel"),
        ("macsec sic", "sic", "sci"),
        ("macsec gcm-aes-129", "gcm-aes-129", "gcm-aes-128"),
        ("l2tpv3 cokie 4", "cokie", "cookie"),
        ("vxlna", "vxlna", "vxlan"),
    ] {
        let help = wrong(text).help;
        assert_eq!(help.as_deref(), Some(format!("did you mean `{meant}`?").as_str()), "{text}");
        assert_eq!(pointed(text), wrong_word, "{text}");
    }
}

#[test]
fn did_you_mean_is_silent_when_nothing_is_near() {
    let error = wrong("mpls xyzzy");
    assert_eq!(error.help.as_deref(), Some("it takes cw, ip, strip-tag, add-tag"));
}

#[test]
fn caret_stands_under_the_word_also_behind_other_letters() {
    let text = "eth ipv4 udp 9 | mpls ähm";
    let (line, carets) = wrong(text).underline(text).expect("a place");
    assert_eq!(line, text);
    assert_eq!(carets.find('^'), text.chars().position(|letter| letter == 'ä'));
    assert_eq!(carets.matches('^').count(), 3);
}

#[test]
fn impossible_stacks_say_why_and_point_at_the_stage() {
    for (text, part, fault) in [
        ("eth arp | esp aes-gcm-128 tunnel", "IP packets", "esp aes-gcm-128 tunnel"),
        ("macsec sci | esp aes-gcm-128", "a MACsec frame", "esp aes-gcm-128"),
        ("mpls cw | l3vpn 2", "MPLS label", "l3vpn 2"),
        ("macsec sci | macsec sci", "onto a MACsec frame", "macsec sci"),
        ("eth ipv4 9 | macsec clear-vlan", "needs a VLAN tag", "macsec clear-vlan"),
        ("eth ipv4 9 | untag", "no VLAN tag", "untag"),
        ("eth ipv4 udp 65490 | mpls cw", "grows to", "mpls cw"),
        ("eth ipv4 udp 65530", "over the largest", "eth ipv4 udp 65530"),
        ("eth ipv4 udp 99999999999999999999", "over the largest", "99999999999999999999"),
        ("eth udp 9", "cannot stand inside `eth`", "udp"),
        ("ipv4 udp 9", "begins with `eth`", "ipv4"),
        ("eth ipv4 udp 9 eth", "nothing follows", "eth"),
        ("eth ipv4 udp 9 macsec", "nothing follows", "macsec"),
        ("eth ipv4 udp macsec", "no layer", "macsec"),
        ("eth arp 5", "no payload", "eth arp 5"),
        ("mpls cw | eth ipv4", "only the first", "eth"),
        ("mpls 0", "1 to 16", "0"),
        ("mpls 1 2", "too many", "2"),
        ("mpls ip cw", "pseudowire", "mpls"),
        ("mpls cw | | mpls", "nothing beside", "|"),
        ("mpls cw |", "nothing beside", "|"),
        ("esp tunnel", "needs a suite", "esp"),
        ("esp aes-cbc-128 tunnel", "does not authenticate", "esp aes-cbc-128 tunnel"),
        ("esp aes-gcm-128 hmac-sha1-96", "by itself", "esp aes-gcm-128 hmac-sha1-96"),
        ("esp aes-gcm-128 aes-gcm-256", "too many", "aes-gcm-256"),
        ("esp aes-gcm-128 transport ipv6", "keeps the packet's own", "ipv6"),
        ("macsec offset 40", "followed by 0, 30, 50", "40"),
        ("macsec gcm-aes-xpn-128 offset 30", "XPN", "offset"),
        ("macsec integrity offset 30", "needs confidentiality", "offset"),
        ("l2tpv3 cookie", "followed by 0, 4, 8", "cookie"),
        ("eth 65536", "over the largest payload, 65535", "65536"),
        ("eth 65535 | mpls cw", "grows to 65557 octets behind", "mpls cw"),
        ("untag now", "stands alone", "now"),
        ("esp aes-gcm-128 tunnel transport", "`transport` is a mode too many", "transport"),
        ("ah hmac-sha256-128 transport tunnel", "`tunnel` is a mode too many", "tunnel"),
        ("macsec offset 30 offset 50", "`offset` is an offset too many", "offset"),
        ("macsec offset 30 offset 0", "`offset` is an offset too many", "offset"),
        ("l2tpv3 cookie 4 cookie 8", "`cookie` is a cookie too many", "cookie"),
        ("l2tpv3 ipv4 ipv6", "`ipv6` is an outer header too many", "ipv6"),
        ("vxlan ipv4 ipv6", "`ipv6` is an outer header too many", "ipv6"),
        ("mpls strip-tag add-tag", "`add-tag` is a treatment of the tag too many", "add-tag"),
    ] {
        let error = wrong(text);
        assert!(error.message.contains(part), "{text}: {error}");
        assert_eq!(pointed(text), fault, "{text}: {error}");
        // In all of these the last such word is the one at fault.
        assert_eq!(error.span.map(|span| span.start), text.rfind(fault), "{text}");
    }
}

#[test]
fn text_and_stages_are_bounded() {
    assert!(wrong("").help.is_some());
    assert!(wrong("   ").help.is_some());
    assert!(wrong(&"x".repeat(5000)).message.contains("octets of text"));
    let most = vec!["vlan"; STAGES_MAX].join(" | ");
    assert_eq!(wire(&most), 1000 + 4 * STAGES_MAX);
    assert!(wrong(&format!("{most} | vlan")).message.contains("transformations"));
}

#[test]
fn any_text_is_answered_without_panic() {
    let mut rng = ferrule_base::Rng::new(11);
    let parts = [
        "eth",
        "vlan",
        "ipv4",
        "udp",
        "954",
        "|",
        "/",
        "esp",
        "aes-gcm-128",
        "macsec",
        "sci",
        "offset",
        "30",
        "mpls",
        "cw",
        "ä",
        "é́",
        "-",
        "0",
        "l3vpn",
        "untag",
        " ",
        "\t",
        "65535",
    ];
    for _ in 0..20_000 {
        let words: Vec<&str> = (0..rng.below(12))
            .map(|_| parts[usize::try_from(rng.below(parts.len() as u64)).expect("small")])
            .collect();
        let text = words.join(if rng.below(4) == 0 { "" } else { " " });
        match Stack::parse(&text) {
            Ok(stack) => {
                let layout = stack.layout().expect("a parsed stack can be laid out");
                assert!(layout.wire_len() >= 14, "{text}");
                let _ = stack.mtu(1500);
            }
            Err(error) => {
                if error.span.is_some() {
                    assert!(error.underline(&text).is_some(), "{text}: {error}");
                }
            }
        }
    }
}
