//! Policy of a card: packets that pass, and packets that are refused, each with its own
//! counter.

use crate::net::{Net, ethernet, mac, udp4, udp6};
use crate::site::{HOST, MARK, PEER, Site, gateway, gateway_with, is_clear};
use ferrule_base::DropReason;

fn site(placement: &str, more: &str) -> Site {
    Site::new(Net::new(), &gateway_with(1, placement, "aes-gcm-128", "gcm", "", more))
}

const BYPASS: &str = r#"
    [[policy]]
    interface = "wan"
    action = "bypass"
    local = "10.1.0.0/24"
    remote = "10.2.7.0/24"
"#;

#[test]
fn inline_refuses_clear_frames_that_the_policy_wants_protected() {
    let mut site = site("inline", BYPASS);
    let to_us = mac("g1", "wan");
    let mut from_wire =
        |kind: u16, packet: &[u8]| site.arrive(&ethernet(to_us, PEER, kind, packet));
    let protected = udp4([10, 2, 0, 9], [10, 1, 0, 9], (7, 9), 100, MARK);
    assert!(from_wire(0x0800, &protected).is_empty());
    let protected6 = udp6("2001:db8:2::9", "2001:db8:1::9", (7, 9), 100, MARK);
    assert!(from_wire(0x86dd, &protected6).is_empty());
    let unknown = udp4([172, 16, 0, 9], [10, 1, 0, 9], (7, 9), 100, MARK);
    assert!(from_wire(0x0800, &unknown).is_empty());
    let labelled = [&[0, 1, 1, 64][..], &protected].concat();
    assert!(from_wire(0x8847, &labelled).is_empty());
    let allowed = udp4([10, 2, 7, 9], [10, 1, 0, 9], (7, 9), 100, MARK);
    assert_eq!(from_wire(0x0800, &allowed).len(), 1, "what is to bypass passes");
    let mut other = ethernet(to_us, PEER, 0x0800, &allowed);
    other[5] ^= 1;
    assert!(site.arrive(&other).is_empty());
    let card = site.net.card(site.node);
    for (reason, count) in [
        (DropReason::EspRequired, 2),
        (DropReason::PolicyDiscard, 1),
        (DropReason::UnknownProtocol, 1),
        (DropReason::NotForUs, 1),
    ] {
        assert_eq!(card.drops.get(reason), count, "{reason:?}: {:?}", card.drops);
    }
    assert_eq!(card.drops.total(), 5);
    for reason in [DropReason::EspRequired, DropReason::PolicyDiscard, DropReason::NotForUs] {
        assert_eq!(site.net.dropped(site.node, reason), 0, "the node never saw them");
    }
    site.net.assert_conserved();
}

#[test]
fn inline_seals_passes_or_drops_as_the_policy_says_and_nothing_else_leaves() {
    let mut site = site("inline", BYPASS);
    let sealed = site.send(1, &udp4([10, 1, 0, 9], [10, 2, 0, 9], (7, 9), 100, MARK));
    assert!(sealed.len() == 1 && sealed[0][23] == 50 && !is_clear(&sealed[0]));
    assert_eq!(sealed[0][..6], PEER.0, "the link address that the stack resolved");
    let bypassed = site.send(1, &udp4([10, 1, 0, 9], [10, 2, 7, 9], (7, 9), 100, MARK));
    assert!(bypassed.len() == 1 && is_clear(&bypassed[0]));
    // No entry: the policy ends in DISCARD.
    assert!(site.send(1, &udp4([10, 1, 0, 9], [10, 2, 9, 9], (7, 9), 100, MARK)).is_empty());
    assert_eq!(site.net.refused(site.node, DropReason::PolicyDiscard), 1);
    // Alike ESP, but no SA of ours: asked of the policy like all else.
    let mut esp = udp4([10, 1, 0, 9], [10, 2, 9, 9], (7, 9), 100, MARK);
    esp[9] = 50;
    let sum = u16::from_be_bytes([esp[10], esp[11]]) - 33;
    esp[10..12].copy_from_slice(&sum.to_be_bytes());
    assert!(site.send(1, &esp).is_empty(), "ESP of a host is no reason to pass");
    site.net.assert_conserved();
}

#[test]
fn inline_counts_altered_replayed_and_unknown_esp_packets() {
    let mut far = Site::new(Net::new(), &gateway(2, "software", "aes-gcm-128", "gcm"));
    let mut sealed = far.send(2, &udp4([10, 2, 0, 9], [10, 1, 0, 9], (7, 9), 100, MARK)).remove(0);
    sealed[..6].copy_from_slice(&mac("g1", "wan").0);
    let mut site = site("inline", "");
    let mut altered = sealed.clone();
    altered[60] ^= 1;
    let mut unknown = sealed.clone();
    unknown[35] ^= 1;
    let mut elsewhere = sealed.clone();
    elsewhere[33] = 77;
    let sum = checksum(&elsewhere[14..34]);
    elsewhere[24..26].copy_from_slice(&sum);
    assert!(site.arrive(&altered).is_empty());
    assert!(site.arrive(&unknown).is_empty());
    assert!(site.arrive(&elsewhere).is_empty(), "ESP for somebody else is not ours to open");
    assert_eq!(site.arrive(&sealed).len(), 1);
    assert!(site.arrive(&sealed).is_empty());
    let card = site.net.card(site.node);
    for (reason, count) in [
        (DropReason::EspBadIcv, 1),
        (DropReason::EspUnknownSpi, 1),
        (DropReason::EspReplay, 1),
        (DropReason::PolicyDiscard, 1),
    ] {
        assert_eq!(card.drops.get(reason), count, "{reason:?}: {:?}", card.drops);
    }
    site.net.assert_conserved();
}

fn checksum(header: &[u8]) -> [u8; 2] {
    let words = header.chunks(2).enumerate().filter(|(i, _)| *i != 5);
    let sum = words.map(|(_, c)| u32::from(c[0]) << 8 | u32::from(c[1])).sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
}

/// A second tunnel, in software, to the same gateway for 10.2.8.0/24.
const SECOND: &str = r#"
    [[tunnel]]
    name = "soft"
    local = "192.0.2.1"
    remote = "192.0.2.2"
    suite = "aes-gcm-128"
    mtu = 1300
    out = { spi = 0x2002, key = "gcm:20" }
    in = { spi = 0x2001, key = "gcm:27" }
    [[policy]]
    interface = "wan"
    action = "protect"
    tunnel = "soft"
    local = "10.1.0.0/24"
    remote = "10.2.8.0/24"
"#;

#[test]
fn inline_and_software_tunnels_share_an_interface() {
    let mut site = site("inline", SECOND);
    let inline = site.send(1, &udp4([10, 1, 0, 9], [10, 2, 0, 9], (7, 9), 100, MARK));
    let soft = site.send(1, &udp4([10, 1, 0, 9], [10, 2, 8, 9], (7, 9), 100, MARK));
    assert_eq!((inline.len(), soft.len()), (1, 1), "{:?}", site.net.card(site.node).drops);
    assert_eq!(
        (&inline[0][34..38], &soft[0][34..38]),
        (&[0, 0, 0x10, 2][..], &[0, 0, 0x20, 2][..])
    );
    assert!(![inline, soft].concat().iter().any(|f| is_clear(f)));
    let reports = site.net.reports(site.node);
    assert_eq!(reports[0].esp_out.len(), 1, "one SA is the worker's");
    assert_eq!(reports[0].cards[0].esp_out.len(), 1, "one is the card's");
    site.net.assert_conserved();
}

/// Two more pairs in software, one around the other, for 10.2.8.0/24.
const NESTED: &str = r#"
    [[tunnel]]
    name = "inner"
    local = "192.0.2.1"
    remote = "192.0.2.2"
    suite = "aes-gcm-128"
    then = "outer"
    out = { spi = 0x2002, key = "gcm:20" }
    in = { spi = 0x2001, key = "gcm:27" }
    [[tunnel]]
    name = "outer"
    local = "2001:db8::1"
    remote = "2001:db8::2"
    suite = "aes-gcm-128"
    out = { spi = 0x3002, key = "gcm:30" }
    in = { spi = 0x3001, key = "gcm:37" }
    [[policy]]
    interface = "wan"
    action = "protect"
    tunnel = "inner"
    local = "10.1.0.0/24"
    remote = "10.2.8.0/24"
"#;

#[test]
fn inline_passes_what_leaves_sealed_by_a_pair_around_another_and_its_fragments() {
    let mut site = site("inline", NESTED);
    let inline = site.send(1, &udp4([10, 1, 0, 9], [10, 2, 0, 9], (7, 9), 100, MARK));
    let twice = site.send(1, &udp4([10, 1, 0, 9], [10, 2, 8, 9], (7, 9), 100, MARK));
    assert_eq!((inline.len(), twice.len()), (1, 1), "{:?}", site.net.card(site.node).drops);
    assert_eq!(inline[0][34..38], [0, 0, 0x10, 2]);
    assert_eq!((twice[0][20], &twice[0][54..58]), (50, &[0, 0, 0x30, 2][..]), "the outer one");
    // Too long once it is sealed twice: cut by the node, and a later fragment of IPv6
    // does not say that it is ESP.
    let cut = site.send(1, &udp4([10, 1, 0, 9], [10, 2, 8, 9], (7, 9), 1430, MARK));
    let nexts: Vec<u8> = cut.iter().map(|frame| frame[20]).collect();
    assert_eq!(nexts, [44, 44], "{:?}", site.net.card(site.node).drops);
    assert!(![inline, twice, cut].concat().iter().any(|frame| is_clear(frame)));
    // A packet that the inner pair alone has sealed does not pass the card.
    let mut once = udp4([192, 0, 2, 2], [192, 0, 2, 1], (0, 0x2001), 100, MARK);
    once[9] = 50;
    let sum = checksum(&once[..20]);
    once[10..12].copy_from_slice(&sum);
    assert!(site.arrive(&ethernet(mac("g1", "wan"), PEER, 0x0800, &once)).is_empty());
    assert_eq!(site.net.refused(site.node, DropReason::EspUnknownSpi), 1);
    site.net.assert_conserved();
}

#[test]
fn inline_at_one_vlan_leaves_the_other_vlans_of_the_port_alone() {
    let text = gateway(1, "inline", "aes-gcm-128", "gcm");
    let text = text.replace(
        "port = \"wan\"\n        address",
        "port = \"wan\"\n        name = \"wan\"\n        vlan = 5\n        address",
    );
    let more = r#"
        [[interface]]
        port = "wan"
        vlan = 6
        address = ["198.51.100.1/24"]
        [[route]]
        prefix = "10.77.0.0/16"
        via = "198.51.100.2"
    "#;
    let text = text.replace("[[tunnel]]", &format!("{more}\n[[tunnel]]"));
    let mut net = Net::new();
    let node = net.node(&text);
    let (mut lan, mut wan) = (net.host(node, "lan"), net.host(node, "wan"));
    net.settle();
    // The next hops are asked for at the start, each with its tag.
    let asked = wan.received();
    for f in asked.iter().filter(|f| f[16..18] == [8, 6] && f[42] != 0) {
        if f[32..36] == f[42..46] {
            continue;
        }
        let mut arp = f[18..26].to_vec();
        arp[7] = 2;
        arp.extend(PEER.0);
        arp.extend(&f[42..46]);
        arp.extend(&f[26..36]);
        let head = [&mac("g1", "wan").0[..], &PEER.0, &f[12..18]].concat();
        wan.send(&[head, arp].concat());
    }
    net.settle();
    for to in [[10, 2, 0, 9], [10, 77, 0, 9]] {
        let packet = udp4([10, 1, 0, 9], to, (7, 9), 100, MARK);
        lan.send(&ethernet(mac("g1", "lan"), HOST, 0x0800, &packet));
    }
    net.settle();
    let frames = wan.received();
    let of = |vid: u8| frames.iter().filter(move |f| f[15] == vid && f[16..18] == [8, 0]);
    assert_eq!(of(5).count(), 1, "{frames:02x?} {:?}", net.card(node).drops);
    assert!(of(5).all(|f| f[27] == 50 && !is_clear(f)), "sealed, with its tag");
    assert_eq!(of(6).count(), 1);
    assert!(of(6).all(|f| is_clear(f)), "no policy there");
    net.assert_conserved();
}
