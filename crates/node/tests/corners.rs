//! Corners of the standards on whole nodes: a router's messages to senders, the options it
//! writes and the groups it reports.

mod net;

#[allow(dead_code)]
#[path = "attacks/craft.rs"]
mod craft;
#[allow(dead_code)]
#[path = "attacks/rig.rs"]
mod rig;

use craft::{UDP, with};
use ferrule_base::{Answer, Answers, DropReason, Duration, MacAddr};
use net::{Host, Net, ethernet, mac};
use rig::{
    FAR4, FAR6, HOST, HOST4, HOST6, NODE4, PEER4, Rig, T4, at_lan, each, gateway, pair, protect,
    site,
};
use std::net::Ipv6Addr;

const ROUTER: &str = r#"
    [node]
    name = "n1"
    lab = true
    [[port]]
    name = "lan"
    driver = "wire"
    [[port]]
    name = "out"
    driver = "wire"
    [[interface]]
    port = "lan"
    address = ["10.1.0.1/24", "2001:db8:1::1/64"]
    [[interface]]
    port = "out"
    mpls = true
    address = ["10.2.0.1/24", "2001:db8:2::1/64"]
    [[route]]
    prefix = "10.3.0.0/16"
    via = "10.2.0.7"
    [[label]]
    label = 16001
    swap = [16003]
    via = "10.2.0.9"
    [[label]]
    label = 16002
    pop = true
    via = "10.2.0.9"
"#;

const OUT4: &str = "10.2.0.9";
const OUT6: &str = "2001:db8:2::9";

fn router(net: Net) -> Rig {
    let mut rig = Rig::alone(net, ROUTER, &["lan", "out"]);
    rig.know(0, &[(HOST4, HOST), (HOST6, HOST), (OUT4, HOST), (OUT6, HOST)]);
    rig
}

fn udp() -> Vec<u8> {
    craft::udp(7, 9, &[1; 60])
}

fn octets6(address: &str) -> [u8; 16] {
    address.parse::<Ipv6Addr>().unwrap().octets()
}

/// ICMP messages that a node has sent so far.
fn answers(rig: &mut Rig, node: usize) -> Vec<(Answer, u64, u64)> {
    let mut all = Answers::default();
    rig.net.reports(node).iter().for_each(|report| all.merge(&report.answers));
    all.iter().collect()
}

#[test]
fn sender_of_each_packet_that_waited_in_vain_for_a_neighbour_is_told() {
    each(router, |rig| {
        // On the connected network, behind a next hop, and of IPv6.
        let four = |n: u8| craft::ip(UDP, HOST4, "10.2.0.77", &craft::udp(7, 9, &[n; 20]));
        let behind = craft::ip(UDP, HOST4, "10.3.0.5", &udp());
        let six = |n: u8| craft::ip(UDP, HOST6, "2001:db8:2::77", &craft::udp(7, 9, &[n; 20]));
        let sent = [four(1), four(2), four(3), behind, six(1), six(2)];
        let frames: Vec<_> = sent.iter().map(|packet| at_lan(packet)).collect();
        rig.send("lan", &frames);
        rig.net.wait(Duration::from_secs(4));
        let told: Vec<_> = rig.heard().into_iter().filter(|(port, _)| *port == "lan").collect();
        let quotes = |frame: &[u8], packet: &[u8]| match packet[0] >> 4 {
            4 => {
                let own = [&[10, 1, 0, 1][..], &packet[12..16]].concat();
                let whole = frame.ends_with(&rig::hops_later(packet, 1));
                whole && frame[26..34] == own && frame[34..36] == [3, 1]
            }
            _ => {
                let own = [&octets6("2001:db8:1::1")[..], &packet[8..24]].concat();
                let whole = frame.ends_with(&rig::hops_later(packet, 1));
                whole && frame[22..54] == own && frame[54..56] == [1, 3]
            }
        };
        for packet in &sent {
            let about = told.iter().filter(|(_, frame)| quotes(frame, packet)).count();
            assert_eq!(about, 1, "{packet:02x?} in {told:02x?}");
        }
        assert_eq!((told.len(), rig.net.ledger(0).held), (sent.len(), 0));
        let counted = answers(rig, 0);
        assert!(counted.contains(&(Answer::HostUnreachable4, 4, 0)), "{counted:?}");
        assert!(counted.contains(&(Answer::AddressUnreachable6, 2, 0)), "{counted:?}");
    });
}

/// The source and type of the one ICMP message in clear that reaches the far host because
/// of what it sent.
fn hop(rig: &mut Rig, hops: u8, from: &str, to: &str) -> (Vec<u8>, u8) {
    let packet = craft::ip(UDP, from, to, &udp());
    let packet = match packet[0] >> 4 {
        4 => craft::v4_with(&packet, |p| p[8] = hops),
        _ => with(&packet, |p| p[7] = hops),
    };
    let answer = rig.far_hears(&packet);
    assert_eq!(answer.len(), 1, "hop {hops}: {answer:02x?}");
    match packet[0] >> 4 {
        4 => (answer[0][26..30].to_vec(), answer[0][34]),
        _ => (answer[0][22..38].to_vec(), answer[0][54]),
    }
}

#[test]
fn traceroute_through_a_tunnel_sees_both_gateways() {
    each(site(""), |rig| {
        // The host behind the peer: first its own gateway, then the other one, by its
        // address in the network behind it, sealed on its way back.
        assert_eq!(hop(rig, 1, FAR4, HOST4), (vec![10, 2, 0, 1], 11));
        assert_eq!(hop(rig, 2, FAR4, HOST4), (vec![10, 1, 0, 1], 11));
        assert_eq!(hop(rig, 1, FAR6, HOST6), (octets6("2001:db8:2::1").into(), 3));
        assert_eq!(hop(rig, 2, FAR6, HOST6), (octets6("2001:db8:1::1").into(), 3));
        // And the gateway's own answers come from the address that was asked.
        let ping = craft::icmp4(FAR4, "10.1.0.1", &[8, 0, 0, 0, 0, 7, 0, 1]);
        let pong = rig.far_hears(&ping);
        assert_eq!((pong.len(), &pong[0][26..30], pong[0][34]), (1, &[10, 1, 0, 1][..], 0));
        let counted = answers(rig, 0);
        assert!(counted.contains(&(Answer::TimeExceeded4, 1, 0)), "{counted:?}");
        rig.honest_traffic_passes();
    });
}

#[test]
fn traceroute_through_a_tunnel_in_cards_sees_both_gateways() {
    each(site("placement = \"inline\""), |rig| {
        assert_eq!(hop(rig, 1, FAR4, HOST4), (vec![10, 2, 0, 1], 11));
        assert_eq!(hop(rig, 2, FAR4, HOST4), (vec![10, 1, 0, 1], 11));
        assert_eq!(hop(rig, 2, FAR6, HOST6), (octets6("2001:db8:1::1").into(), 3));
    });
}

#[test]
fn what_came_out_of_a_tunnel_is_never_quoted_in_clear() {
    // ICMP may pass in clear, and no address of the node is in the tunnel's network.
    let text = |own: u8| {
        let more = "suite = \"aes-gcm-128\"\nesn = false";
        let far = "local = \"10.1.0.9/32\"\nremote = \"10.2.0.0/24\"";
        let policies = match own {
            1 => protect("tunnel", "t4", far),
            _ => protect("tunnel", "t4", "local = \"10.2.0.0/24\"\nremote = \"10.1.0.9/32\""),
        };
        let clear = "[[policy]]\ninterface = \"wan\"\naction = \"bypass\"\nprotocol = \"icmp\"\n";
        gateway(own, &(pair(own, "tunnel", "t4", [NODE4, PEER4], T4, more) + &policies + clear))
    };
    each(
        |net| Rig::two(net, [1, 2].map(text)),
        |rig| {
            let dying = craft::v4_with(&craft::ip(UDP, FAR4, HOST4, &udp()), |p| p[8] = 2);
            let sealed = rig.peer_sends(&dying);
            let before = rig.net.dropped(0, DropReason::TtlExpired);
            rig.send("wan", &[sealed]);
            assert_eq!(rig.heard(), []);
            assert_eq!(rig.net.dropped(0, DropReason::TtlExpired) - before, 1);
        },
    );
}

/// An IPv4 packet with these options.
fn with_options(packet: &[u8], options: &[u8]) -> Vec<u8> {
    assert!(options.len().is_multiple_of(4));
    let words = 5 + options.len() as u8 / 4;
    let packet = [&packet[..20], options, &packet[20..]].concat();
    craft::v4(with(&packet, |p| p[0] = 0x40 | words))
}

/// The options with which a packet leaves.
fn recorded(rig: &mut Rig, options: &[u8]) -> Vec<u8> {
    let packet = with_options(&craft::ip(UDP, HOST4, OUT4, &udp()), options);
    rig.send("lan", &[at_lan(&packet)]);
    let heard = rig.heard();
    let [("out", frame)] = &heard[..] else { panic!("{heard:02x?}") };
    assert_eq!(craft::v4(frame[14..].to_vec()), frame[14..], "the checksum is good");
    frame[34..34 + options.len()].to_vec()
}

#[test]
fn record_route_has_the_address_by_which_a_packet_leaves() {
    each(router, |rig| {
        let empty = [7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let one = [7, 11, 8, 10, 2, 0, 1, 0, 0, 0, 0, 0];
        assert_eq!(recorded(rig, &empty), one);
        assert_eq!(recorded(rig, &one), [7, 11, 12, 10, 2, 0, 1, 10, 2, 0, 1, 0]);
        // A full one goes on as it is, behind other options, too.
        let full = [1, 7, 7, 8, 9, 9, 9, 9];
        assert_eq!(recorded(rig, &full), full);
        // Room for a part of an address: told, with the octet of the pointer.
        for bad in [[7, 7, 6, 0, 0, 0, 0, 0], [7, 7, 3, 0, 0, 0, 0, 0]] {
            let packet = with_options(&craft::ip(UDP, HOST4, OUT4, &udp()), &bad);
            rig.send("lan", &[at_lan(&packet)]);
            let heard = rig.heard();
            let [("lan", told)] = &heard[..] else { panic!("{heard:02x?}") };
            assert_eq!((&told[34..36], told[38]), (&[12, 0][..], 22));
            assert_eq!(told[42..], packet);
        }
    });
}

#[test]
fn timestamps_are_written_as_their_flag_says() {
    each(router, |rig| {
        // A time that does not count from midnight says so.
        let is_time = |octets: &[u8]| octets[0] & 0x80 != 0 && octets[1..] != [0, 0, 0];
        let times = recorded(rig, &[68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(times[..4] == [68, 12, 9, 0] && is_time(&times[4..8]), "{times:02x?}");
        let named = recorded(rig, &[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(named[..8] == [68, 12, 13, 1, 10, 2, 0, 1] && is_time(&named[8..]), "{named:02x?}");
        // For those that are named, in their order: we are any of our addresses, or not it.
        let ours = recorded(rig, &[68, 12, 5, 3, 10, 1, 0, 1, 0, 0, 0, 0]);
        assert!(ours[2] == 13 && is_time(&ours[8..]), "{ours:02x?}");
        let others = [68, 12, 5, 3, 10, 9, 0, 1, 0, 0, 0, 0];
        assert_eq!(recorded(rig, &others), others);
        // No room: it is counted that one could not speak.
        let full = recorded(rig, &[68, 8, 9, 0x20, 1, 2, 3, 4]);
        assert_eq!(full, [68, 8, 9, 0x30, 1, 2, 3, 4]);
    });
}

#[test]
fn echo_reply_brings_record_route_back() {
    each(router, |rig| {
        let ping = craft::icmp4(HOST4, "10.1.0.1", &[8, 0, 0, 0, 0, 7, 0, 1]);
        let ping = with_options(&ping, &[7, 11, 8, 9, 9, 9, 9, 0, 0, 0, 0, 0]);
        rig.send("lan", &[at_lan(&ping)]);
        let heard = rig.heard();
        let [("lan", pong)] = &heard[..] else { panic!("{heard:02x?}") };
        assert_eq!(pong[34..46], [7, 11, 12, 9, 9, 9, 9, 10, 1, 0, 1, 0]);
        assert_eq!((pong[14], pong[46]), (0x48, 0));
    });
}

#[test]
fn router_alert_above_a_known_label_goes_on_with_it() {
    each(router, |rig| {
        let entry = |label: u32, bottom: bool, ttl: u8| {
            (label << 12 | u32::from(bottom) << 8 | u32::from(ttl)).to_be_bytes()
        };
        let packet = craft::ip(UDP, "10.9.0.9", "10.8.0.9", &udp());
        let frame = |stack: &[[u8; 4]]| {
            ethernet(mac("n1", "out"), HOST, 0x8847, &[&stack.concat()[..], &packet].concat())
        };
        let swapped = [&entry(1, false, 63)[..], &entry(16_003, true, 63), &packet].concat();
        let good = frame(&[entry(1, false, 64), entry(16_001, true, 64)]);
        rig.passes("out", &good, "out", &swapped);
        // Where the label is removed and IP is left, the alert is removed, too.
        let popped = rig::hops_later(&packet, 1);
        let good = frame(&[entry(1, false, 64), entry(16_002, true, 64)]);
        rig.passes("out", &good, "out", &popped);
        // At the bottom, twice, and without a hop left it is refused.
        let bottom = frame(&[entry(1, true, 64)]);
        let twice = frame(&[entry(1, false, 64), entry(1, false, 64), entry(16_001, true, 64)]);
        rig.refused("out", &[bottom, twice], DropReason::ReservedLabel);
        // (Of IP its sender would be told.)
        let labels = [entry(1, false, 1), entry(16_001, true, 64)].concat();
        let last = ethernet(mac("n1", "out"), HOST, 0x8847, &[&labels[..], &[0; 60]].concat());
        rig.refused("out", &[last], DropReason::TtlExpired);
    });
}

/// Listener discovery among these frames: destination, type of message or record, group.
fn listeners(frames: Vec<Vec<u8>>) -> Vec<([u8; 6], u8, Vec<u8>)> {
    let of = |f: &[u8]| match (f.get(12..14)?, f.get(20)?, f.get(62)?) {
        ([0x86, 0xdd], 0, 143) => Some((f[..6].try_into().ok()?, f[70], f[74..90].to_vec())),
        ([0x86, 0xdd], 0, kind) => Some((f[..6].try_into().ok()?, *kind, f[70..86].to_vec())),
        _ => None,
    };
    frames.iter().filter_map(|frame| of(frame)).collect()
}

#[test]
fn groups_of_own_addresses_are_reported_when_they_come_and_when_somebody_asks() {
    let mut net = Net::new();
    let node = net.node(ROUTER);
    let mut lan = net.host(node, "lan");
    net.wait(Duration::from_secs(3));
    let group = |address: &str| {
        let [.., a, b, c] = octets6(address);
        [&octets6("ff02::1:ff00:0")[..13], &[a, b, c]].concat()
    };
    let all_reports = [0x33, 0x33, 0, 0, 0, 0x16];
    let said = listeners(lan.received());
    let joins =
        |group: &[u8]| said.iter().filter(|m| **m == (all_reports, 4, group.into())).count();
    // The address of the configuration and the link-local one, each twice.
    let [a, b, c] = [3, 4, 5].map(|at| mac("n1", "lan").0[at]);
    let link_local = [&octets6("ff02::1:ff00:0")[..13], &[a, b, c]].concat();
    let ours = group("2001:db8:1::1");
    assert_eq!((joins(&ours), joins(&link_local), said.len()), (2, 2, 4), "{said:02x?}");
    // A switch asks for all groups, in version 1 and 2.
    let from = MacAddr([2, 0, 0, 0, 0, 0x77]);
    for (version_2, kind) in [(true, 2), (false, 131)] {
        let rest: &[u8] = if version_2 { &[2, 125, 0, 0] } else { &[] };
        let message = [&[130, 0, 0, 0, 0, 100, 0, 0][..], &[0; 16], rest].concat();
        let alert = [58, 0, 5, 2, 0, 0, 1, 0];
        let summed = craft::icmp6("fe80::77", "ff02::1", &message);
        let mut query = craft::ip(0, "fe80::77", "ff02::1", &[&alert, &summed[40..]].concat());
        query[7] = 1;
        lan.send(&craft::frame(MacAddr([0x33, 0x33, 0, 0, 0, 1]), from, &query));
        net.wait(Duration::from_secs(1));
        let mut said = listeners(lan.received());
        said.sort();
        let to = |group: &[u8]| match version_2 {
            true => all_reports,
            false => [0x33, 0x33, group[12], group[13], group[14], group[15]],
        };
        let mut expected = [&ours, &link_local].map(|g| (to(g), kind, g.to_vec()));
        expected.sort();
        assert_eq!(said, expected);
    }
    net.assert_conserved();
}

#[test]
fn esp_of_a_new_sa_begins_with_number_1() {
    each(site(""), |rig| {
        let packet = at_lan(&craft::ip(UDP, HOST4, FAR4, &udp()));
        let numbers = [(); 3].map(|()| {
            rig.send("lan", std::slice::from_ref(&packet));
            let heard = rig.heard();
            let [("wan", sealed)] = &heard[..] else { panic!("{heard:02x?}") };
            assert_eq!((sealed[14], sealed[23]), (0x45, craft::ESP));
            sealed[38..42].to_vec()
        });
        assert_eq!(numbers, [1, 2, 3].map(|number: u32| number.to_be_bytes()));
    });
}

/// An echo request to the router's LAN at an address, and one that dies on its way there.
fn ping_and_dying(to: &str) -> [Vec<u8>; 2] {
    let ping = craft::icmp6(HOST6, to, &[128, 0, 0, 0, 0, 7, 0, 1]);
    let dying = with(&craft::ip(UDP, HOST6, OUT6, &udp()), |p| p[7] = 1);
    [at_lan(&ping), at_lan(&dying)]
}

#[test]
fn own_ipv6_address_that_is_checked_or_that_another_has_is_neither_reached_nor_a_source() {
    const OWN: &str = "2001:db8:1::1";
    for is_claimed in [false, true] {
        let mut net = Net::new();
        let node = net.node(ROUTER);
        let (mut lan, _out) = (net.host(node, "lan"), net.host(node, "out"));
        net.members[node].control.tables().neighbours.set(0, HOST6.parse().unwrap(), HOST);
        net.settle();
        lan.received();
        // Of ICMP that comes back: source and type. Addresses of the other port are checked, too.
        let said = |net: &mut Net, lan: &mut Host| {
            lan.received();
            ping_and_dying(OWN).iter().for_each(|frame| lan.send(frame));
            net.settle();
            let heard = lan.received().into_iter();
            heard.map(|f| (f[22..38].to_vec(), f[54])).collect::<Vec<_>>()
        };
        assert_eq!(said(&mut net, &mut lan), []);
        assert_eq!(net.drops(node).get(DropReason::AddressWithheld), 1);
        if is_claimed {
            let claim = [&[136, 0, 0, 0, 0x20, 0, 0, 0], &octets6(OWN)[..], &[2, 1], &HOST.0];
            let claim = with(&craft::icmp6(OWN, "ff02::1", &claim.concat()), |p| p[7] = 255);
            lan.send(&craft::frame(MacAddr([0x33, 0x33, 0, 0, 0, 1]), HOST, &claim));
        }
        net.wait(Duration::from_secs(3));
        let told = net.members[node].control.take_failures();
        let (own, other) = (octets6(OWN).to_vec(), octets6("2001:db8:2::1").to_vec());
        if is_claimed {
            assert_eq!(told, [format!("somebody else uses {OWN} on interface lan")]);
            assert_eq!(said(&mut net, &mut lan), [(other, 3)]);
            assert_eq!(net.drops(node).get(DropReason::AddressWithheld), 2);
        } else {
            assert!(told.is_empty(), "{told:?}");
            assert_eq!(said(&mut net, &mut lan), [(own.clone(), 129), (own, 3)]);
        }
        net.assert_conserved();
    }
}

#[test]
fn answers_that_were_held_back_are_counted_apart() {
    each(router, |rig| {
        let dying = craft::v4_with(&craft::ip(UDP, HOST4, OUT4, &udp()), |p| p[8] = 1);
        rig.send("lan", &vec![at_lan(&dying); 1000]);
        assert_eq!(rig.heard().len(), 100);
        let counted = answers(rig, 0);
        assert!(counted.contains(&(Answer::TimeExceeded4, 100, 900)), "{counted:?}");
    });
}
