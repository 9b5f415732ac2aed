//! Placements of the crypto make no difference on the wire.

use crate::net::{Net, ethernet, mac, udp4, udp6};
use crate::site::{HOST, MARK, Site, echo, gateway, gateway_with, is_clear, secy};
use ferrule_base::{DropReason, MacAddr};

const SUITES: [(&str, &str); 5] = [
    ("aes-gcm-128", "gcm"),
    ("aes-gcm-256", "gcm256"),
    ("chacha20-poly1305", "chacha"),
    ("aes-cbc-128 hmac-sha1-96", "cbc-sha1"),
    ("aes-cbc-128 hmac-sha256-128", "cbc-sha256"),
];

fn packets() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for len in [28, 29, 30, 31, 64, 300, 1200, 1400] {
        all.push(udp4([10, 1, 0, 9], [10, 2, 0, 9], (7, 9), len, MARK));
        all.push(udp6("2001:db8:1::9", "2001:db8:2::9", (7, 9), len.max(48), MARK));
    }
    all
}

fn net(late: bool) -> Net {
    if late { Net::late() } else { Net::new() }
}

#[test]
fn inline_and_software_esp_give_identical_bytes_on_the_wire() {
    for (suite, key) in SUITES {
        let mut sent = Vec::new();
        for (placement, late) in [("software", false), ("inline", false), ("inline", true)] {
            let mut site = Site::new(net(late), &gateway(1, placement, suite, key));
            let frames: Vec<_> = packets().iter().flat_map(|p| site.send(1, p)).collect();
            assert_eq!(frames.len(), packets().len(), "{suite} {placement}");
            assert!(!frames.iter().any(|f| is_clear(f)), "{suite} {placement}: sealed");
            if placement == "inline" {
                let card = site.net.card(site.node);
                assert_eq!(card.esp_out[0].stats.packets, packets().len() as u64);
                let reports = site.net.reports(site.node);
                assert_eq!(reports[0].work.sealed.packets, 0, "none of it is the worker's work");
                assert!(reports[0].esp_out.is_empty(), "the node knows no SA");
                assert_eq!(card.work.sealed.packets, packets().len() as u64);
            }
            site.net.assert_conserved();
            sent.push(frames);
        }
        assert_eq!(sent[0], sent[1], "{suite}");
        assert_eq!(sent[0], sent[2], "{suite}, an engine that is late");
    }
}

#[test]
fn inline_opens_what_software_sealed_and_hands_up_the_same_frames() {
    for (suite, key) in SUITES {
        let mut far = Site::new(net(false), &gateway(2, "software", suite, key));
        let sealed: Vec<_> = [28, 64, 333, 1400]
            .into_iter()
            .flat_map(|len| {
                let four = udp4([10, 2, 0, 9], [10, 1, 0, 9], (7, 9), len, MARK);
                let six = udp6("2001:db8:2::9", "2001:db8:1::9", (7, 9), len.max(48), MARK);
                [far.send(2, &four), far.send(2, &six)].concat()
            })
            .collect();
        assert_eq!(sealed.len(), 8);
        let mut got = Vec::new();
        for (placement, late) in [("software", false), ("inline", false), ("inline", true)] {
            let mut site = Site::new(net(late), &gateway(1, placement, suite, key));
            let to_us = |frame: &Vec<u8>| [&mac("g1", "wan").0[..], &frame[6..]].concat();
            let out: Vec<_> = sealed.iter().flat_map(|f| site.arrive(&to_us(f))).collect();
            assert_eq!(out.len(), 8, "{suite} {placement}: {:?}", site.net.drops(0));
            assert!(out.iter().filter(|f| is_clear(f)).count() >= 6, "opened");
            // The same again is a replay, counted by the holder of the window.
            let again: Vec<_> = sealed.iter().flat_map(|f| site.arrive(&to_us(f))).collect();
            assert!(again.is_empty());
            let replays = match placement {
                "inline" => site.net.refused(site.node, DropReason::EspReplay),
                _ => site.net.dropped(site.node, DropReason::EspReplay),
            };
            assert_eq!(replays, 8, "{suite} {placement}");
            site.net.assert_conserved();
            got.push(out);
        }
        assert_eq!(got[0], got[1], "{suite}");
        assert_eq!(got[0], got[2], "{suite}, an engine that is late");
    }
}

/// A bridge with a SecY on its WAN side.
fn ce(placement: &str) -> String {
    let secy = secy("ce", crate::site::PEER, placement, ("sak:1", "sak:2"));
    format!(
        r#"
        [node]
        name = "ce"
        lab = true
        [[port]]
        name = "lan"
        driver = "wire"
        [[port]]
        name = "wan"
        driver = "wire"
        mtu = 1532
        [[bridge]]
        name = "br"
        member = [{{ port = "lan" }}, {{ port = "wan" }}]
        {secy}
        "#
    )
}

#[test]
fn inline_and_software_macsec_give_identical_bytes_on_the_wire() {
    let mut sent = Vec::new();
    for (placement, late) in [("software", false), ("inline", false), ("inline", true)] {
        let mut site = Site::new(net(late), &ce(placement));
        let mut frames = Vec::new();
        for len in [28, 46, 64, 500, 1500] {
            let packet = udp4([10, 1, 0, 9], [10, 1, 0, 8], (7, 9), len, MARK);
            let to = MacAddr([2, 0, 0xcc, 0, 0, 1]);
            site.lan.send(&ethernet(to, HOST, 0x0800, &packet));
            site.net.settle();
            frames.extend(site.wan.received());
        }
        assert_eq!(frames.len(), 5, "{placement}: {:?}", site.net.drops(site.node));
        assert!(frames.iter().all(|f| f[12..14] == [0x88, 0xe5] && !is_clear(f)));
        site.net.assert_conserved();
        sent.push(frames);
    }
    assert_eq!(sent[0], sent[1]);
    assert_eq!(sent[0], sent[2], "an engine that is late");
}

#[test]
fn inline_macsec_moves_to_or_from_a_card_only_with_a_restart() {
    for (from, to) in [("software", "inline"), ("inline", "software")] {
        let mut site = Site::new(net(false), &ce(from));
        let refused = site.net.try_apply(site.node, &ce(to)).unwrap_err();
        assert!(refused.to_string().contains("placement of a [[macsec]]"), "{refused}");
        site.net.try_apply(site.node, &ce(from)).expect("as it was");
    }
}

#[test]
fn inline_macsec_and_esp_stand_in_one_card_in_the_order_of_the_layers() {
    let text = |own: u8, placement: &str| {
        let (me, peer) = (format!("g{own}"), mac(&format!("g{}", 3 - own), "wan"));
        let keys = if own == 1 { ("sak:1", "sak:2") } else { ("sak:2", "sak:1") };
        let secy = secy(&me, peer, placement, keys);
        gateway_with(own, placement, "aes-gcm-128", "gcm", "", &secy)
    };
    let mut net = Net::new();
    let a = net.node(&text(1, "inline"));
    let b = net.node(&text(2, "software"));
    net.join((a, "wan"), (b, "wan"));
    let (mut host, _far) = (net.host(a, "lan"), net.host(b, "lan"));
    net.settle();
    for len in [28, 100, 1380] {
        let packet = echo([10, 1, 0, 9], [10, 2, 0, 1], len);
        host.send(&ethernet(mac("g1", "lan"), HOST, 0x0800, &packet));
        net.settle();
    }
    let card = net.card(a);
    assert_eq!(card.esp_out[0].stats.packets, 3, "{:?}", net.drops(a));
    assert_eq!(card.esp_in[0].stats.packets, 3, "{:?} {:?}", net.drops(b), card.drops);
    assert!(card.secy_out[0].1.stats.out_encrypted >= 3);
    assert!(card.secy_in[0].1.stats.in_ok >= 3);
    assert_eq!(host.received().iter().filter(|f| f[12..14] == [8, 0]).count(), 0, "ARP first");
    net.assert_conserved();
}
