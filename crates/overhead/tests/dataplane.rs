//! Packet sizes that the data plane states, against the calculator.

use ferrule_crypto::Suite;
use ferrule_dataplane::ipsec::{Mode, Overhead, SaProtocol};
use ferrule_dataplane::macsec::SecyConfig;
use ferrule_dataplane::mpls::Pseudowire;
use ferrule_overhead::{Stack, ah_suites, esp_suites};

fn stack(text: &str) -> Stack {
    Stack::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Modes and versions of the header in front: the frame, the words, what an SA has.
const WAYS: [(&str, &str, Mode, bool); 4] = [
    ("eth ipv4 0", "tunnel", Mode::Tunnel, false),
    ("eth ipv4 0", "tunnel ipv6", Mode::Tunnel, true),
    ("eth ipv4 0", "transport", Mode::Transport, false),
    ("eth ipv6 0", "transport", Mode::Transport, true),
];

/// The largest clear packet, on paths of every remainder by a block.
fn agree(words: &str, frame: &str, overhead: Overhead) {
    let stack = stack(&format!("{frame} | {words}"));
    for path in (576..592).chain([1280, 1500, 9000]) {
        let calculated = stack.mtu(path).map(|report| report.user_mtu);
        assert_eq!(Ok(overhead.fits(path)), calculated, "{stack}, {path}");
    }
}

#[test]
fn esp_of_every_suite_leaves_of_a_path_what_is_calculated() {
    for suite in esp_suites() {
        for (frame, words, mode, v6) in WAYS {
            for (encap, udp) in [("", false), (" udp-encap", true)] {
                let (protocol, ah_align) = (SaProtocol::Esp, 4);
                let overhead = Overhead { protocol, suite, mode, v6, udp, ah_align };
                agree(&format!("esp {suite} {words}{encap}"), frame, overhead);
            }
        }
    }
}

#[test]
fn ah_of_every_suite_leaves_of_a_path_what_is_calculated() {
    for (name, suite) in ah_suites() {
        for (frame, words, mode, v6) in WAYS {
            for (pad, ah_align) in [("", 4), (" pad8", 8)] {
                let (protocol, udp) = (SaProtocol::Ah, false);
                let overhead = Overhead { protocol, suite, mode, v6, udp, ah_align };
                agree(&format!("ah {name} {words}{pad}"), frame, overhead);
            }
        }
    }
}

#[test]
fn ah_with_a_suite_that_hides_carries_nothing() {
    let suite = Suite::from_name("aes-gcm-128").expect("a suite");
    let (protocol, mode) = (SaProtocol::Ah, Mode::Tunnel);
    let overhead = Overhead { protocol, suite, mode, v6: false, udp: false, ah_align: 4 };
    assert_eq!(overhead.fits(1500), 0);
}

#[test]
fn macsec_and_pseudowires_add_what_is_calculated() {
    let added = |words: &str| {
        let layout = stack(words).layout().expect("a layout");
        layout.wire_len() - layout.user_len
    };
    assert_eq!(SecyConfig::overhead(true), added("macsec sci"));
    assert_eq!(SecyConfig::overhead(false), added("macsec"));
    // With a new Ethernet header of 14 octets.
    assert_eq!(14 + Pseudowire::overhead(true), added("mpls cw"));
    assert_eq!(14 + Pseudowire::overhead(false), added("mpls"));
}
