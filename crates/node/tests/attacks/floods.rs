//! Too much of what is good: questions, claims and scans whose cost must be bounded (RFC
//! 6583, RFC 1812 section 4.3.2.8, RFC 5227 section 2.4).

use crate::craft::{self, UDP};
use crate::net::{ethernet, mac};
use crate::rig::{HOST, at_lan, each, hops_later};
use crate::router::{HERE4, HERE6, NODE4, OUT6, router, routes, udp};
use ferrule_base::{DropReason, Duration, MacAddr};

/// Frames that left by a port with this octet of an IPv6 header for what follows it.
fn left(heard: &[(&str, Vec<u8>)], out: &str, next: u8) -> Vec<Vec<u8>> {
    let six = heard.iter().filter(|(port, f)| *port == out && f[12..14] == [0x86, 0xdd]);
    six.map(|(_, f)| f.clone()).filter(|f| f[20] == next).collect()
}

#[test]
fn a_scan_of_a_network_holds_a_bounded_number_of_packets() {
    each(router, |rig| {
        let scan: Vec<_> = (0..3000)
            .map(|n| at_lan(&craft::ip(UDP, HERE6, &format!("2001:db8:2::bad:{n:x}"), &udp())))
            .collect();
        let drops = rig.net.drops(0);
        // Errors about what cannot be asked for come at once.
        let told = |heard: &[_]| {
            left(heard, "lan", craft::ICMPV6).iter().filter(|f| f[54..56] == [1, 3]).count() as u64
        };
        let (mut asked, mut answered) = (0, 0);
        for some in scan.chunks(500) {
            rig.send("lan", some);
            let heard = rig.heard();
            asked += left(&heard, "out", craft::ICMPV6).len();
            answered += told(&heard);
        }
        // RFC 6583: of all that is asked for, no more than a part of the table.
        assert!(asked <= 256, "{asked}");
        let held = rig.net.ledger(0).held;
        assert!(held <= 256, "{held}");
        // Known neighbours are reached all the same.
        let packet = craft::ip(UDP, HERE6, OUT6, &udp());
        rig.send("lan", &[at_lan(&packet)]);
        let heard = rig.heard();
        answered += told(&heard);
        let got = left(&heard, "out", UDP);
        assert_eq!(got.iter().map(|f| &f[14..]).collect::<Vec<_>>(), [hops_later(&packet, 1)]);
        rig.net.wait(Duration::from_secs(10));
        assert_eq!(rig.net.ledger(0).held, 0);
        answered += told(&rig.heard());
        let after = rig.net.drops(0);
        let reasons = [
            DropReason::NoNeighbour,
            DropReason::NeighbourQueueFull,
            DropReason::ControlQueueFull,
            DropReason::IcmpRateLimited,
        ];
        let dropped: u64 = reasons.iter().map(|&r| after.get(r) - drops.get(r)).sum();
        assert_eq!(dropped + answered, 3000, "{:?}", after.iter().collect::<Vec<_>>());
        rig.heard();
        routes(rig);
    });
}

#[test]
fn a_flood_of_echo_requests_is_answered_at_a_bounded_rate() {
    each(router, |rig| {
        let ping = craft::icmp4(HERE4, NODE4, &[8, 0, 0, 0, 0, 7, 0, 1]);
        let before = rig.net.dropped(0, DropReason::IcmpRateLimited);
        rig.send("lan", &vec![at_lan(&ping); 3000]);
        let limited = rig.net.dropped(0, DropReason::IcmpRateLimited) - before;
        let answers = rig.heard().len() as u64;
        assert_eq!(answers + limited, 3000);
        // A thousand at once, and what a few milliseconds add to them.
        assert!((1000..1100).contains(&answers), "{answers}");
        rig.net.wait(Duration::from_secs(1));
        rig.send("lan", &[at_lan(&ping)]);
        assert_eq!(rig.heard().len(), 1);
        routes(rig);
    });
}

#[test]
fn a_flood_of_claims_to_our_own_address_is_defended_once() {
    each(router, |rig| {
        let head = [0, 1, 8, 0, 6, 4, 0, 1];
        let own = [10, 1, 0, 1];
        let claim = [&head[..], &HOST.0, &own, &[0; 6], &own].concat();
        let claims = vec![ethernet(MacAddr::BROADCAST, HOST, 0x0806, &claim); 50];
        rig.send("lan", &claims);
        let heard = rig.heard();
        assert_eq!(heard.len(), 1, "{heard:02x?}");
        // The node's own address, announced to all.
        assert_eq!((&heard[0].1[22..28], &heard[0].1[28..32]), (&mac("n1", "lan").0[..], &own[..]));
        let said = rig.net.members[0].control.take_failures();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("10.1.0.1"), "{said:?}");
        // The address is still the node's.
        let ping = craft::icmp4(HERE4, NODE4, &[8, 0, 0, 0, 0, 7, 0, 1]);
        rig.send("lan", &[at_lan(&ping)]);
        assert_eq!(rig.heard().len(), 1);
        routes(rig);
    });
}
