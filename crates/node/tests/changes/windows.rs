//! A replay window outlives whatever changes around it.

use crate::net::{Host, Net, ethernet, mac, udp4};
use crate::{HOST_A, HOST_B, data, gateway, know, pair, protect};
use ferrule_base::DropReason;

/// Both protocols, with a key that is right for each.
const PROTOCOLS: [(&str, &str); 2] = [
    ("suite = \"aes-gcm-128\"", "gcm"),
    ("protocol = \"ah\"\nsuite = \"hmac-sha256-128\"", "sha256"),
];

fn text(own: u8, kind: (&str, &str), more: &str, extra: &str) -> String {
    let (other, key) = (3 - own, kind.1);
    let way = |n: u8| format!("spi = {}, key = \"{key}:{n}\"", 0x1000 + u32::from(n));
    let (out, inn) = if own == 1 { (way(1), way(7)) } else { (way(7), way(1)) };
    let name = if own == 1 { "a" } else { "b" };
    let net = |n: u8| format!("10.{n}.0.0/24");
    let pairs = pair("t", own, other, [&out, &inn], &format!("{}\n{more}", kind.0))
        + &protect("t", &net(own), &net(other));
    gateway(name, own, other, &pairs, extra)
}

/// A sender whose frames are caught, and a receiver to which they are given.
fn ends(make: fn() -> Net, kind: (&str, &str), extra: &str) -> (Net, Vec<Vec<u8>>, Host, Host) {
    let mut net = make();
    let a = net.node(&text(1, kind, "", ""));
    let b = net.node(&text(2, kind, "", extra));
    let (mut lan, mut caught) = (net.host(a, "lan"), net.host(a, "wan"));
    let (wan, far) = (net.host(b, "wan"), net.host(b, "lan"));
    net.settle();
    know(&mut net, &[(a, "192.0.2.2", mac("b", "wan")), (b, "10.2.0.9", HOST_B)]);
    for flow in 0..200 {
        lan.send(&crate::frame(flow));
        if flow % 50 == 49 {
            net.settle();
        }
    }
    let sealed = data(&mut caught);
    assert_eq!(sealed.len(), 200);
    (net, sealed, wan, far)
}

#[test]
fn a_window_stays_whatever_else_of_an_inbound_sa_changes() {
    for kind in PROTOCOLS {
        for make in [Net::new as fn() -> Net, Net::late] {
            let (mut net, sealed, mut wan, mut far) = ends(make, kind, "");
            let changes = [
                text(2, kind, "window = 64", ""),
                text(2, kind, "window = 4096", ""),
                text(2, kind, "", "").replace("10.1.0.0/24", "10.1.0.0/16"),
                text(2, kind, "", "").replace("\"t\"", "\"renamed\""),
                text(2, kind, "mtu = 1300\nwindow = 32", ""),
                text(2, kind, "", ""),
            ];
            let mut arrived = 0;
            for (at, change) in changes.iter().enumerate() {
                // Some are under way while it changes; all of them come again afterwards.
                let part = &sealed[at * 20..][..20];
                part.iter().for_each(|f| wan.send(f));
                let now = net.now + crate::net::STEP;
                net.members[1].workers[0].turn(now);
                net.apply(1, change);
                sealed[..at * 20 + 20].iter().for_each(|f| wan.send(f));
                net.settle();
                sealed[..at * 20 + 20].iter().for_each(|f| wan.send(f));
                net.settle();
                arrived += data(&mut far).len();
                assert_eq!(arrived, at * 20 + 20, "each once: {kind:?}, change {at}");
            }
            net.assert_conserved();
        }
    }
}

#[test]
fn a_window_goes_along_when_an_sa_goes_to_another_worker() {
    for kind in PROTOCOLS {
        let extra = "workers = 2";
        let (mut net, sealed, mut wan, mut far) = ends(Net::new, kind, extra);
        let mut arrived = 0;
        for (at, worker) in [1, 0, 1].into_iter().enumerate() {
            sealed[at * 20..][..20].iter().for_each(|f| wan.send(f));
            net.settle();
            let there =
                text(2, kind, "", extra).replace(":1\" }", &format!(":1\", worker = {worker} }}"));
            assert_ne!(there, text(2, kind, "", extra));
            net.apply(1, &there);
            net.settle();
            sealed[..at * 20 + 20].iter().for_each(|f| wan.send(f));
            net.settle();
            arrived += data(&mut far).len();
            assert_eq!(arrived, at * 20 + 20, "each once: {kind:?}, worker {worker}");
        }
        sealed[60..80].iter().for_each(|f| wan.send(f));
        net.settle();
        assert_eq!(data(&mut far).len(), 20, "and it goes on: {:?}", net.drops(1));
    }
}

#[test]
fn a_key_that_comes_back_after_a_while_brings_its_window() {
    for kind in PROTOCOLS {
        let (mut net, sealed, mut wan, mut far) = ends(Net::new, kind, "");
        sealed[..50].iter().for_each(|f| wan.send(f));
        net.settle();
        assert_eq!(data(&mut far).len(), 50);
        let other = text(2, kind, "", "").replace(":1\"", ":3\"");
        net.apply(1, &other);
        net.settle();
        net.apply(1, &text(2, kind, "", ""));
        net.settle();
        sealed[..60].iter().for_each(|f| wan.send(f));
        net.settle();
        assert_eq!(data(&mut far).len(), 10, "{kind:?}: those that are new");
    }
}

pub fn bridge(name: &str, peer: &str, keys: (&str, &str), options: &str) -> String {
    let sci = |node| format!("{}/1", mac(node, "wan"));
    format!(
        r#"
        [node]
        name = "{name}"
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
        [[macsec]]
        port = "wan"
        sci = "{}"
        {options}
        transmit = [{{ key = "{}", an = 0 }}]
        receive = [{{ sci = "{}", key = "{}", an = 0 }}]
        "#,
        sci(name),
        keys.0,
        sci(peer),
        keys.1
    )
}

#[test]
fn a_macsec_window_that_changes_keeps_its_associations_and_what_they_received() {
    for late in [false, true] {
        let mut net = if late { Net::late() } else { Net::new() };
        let a = net.node(&bridge("a", "b", ("sak:1", "sak:2"), ""));
        let b = net.node(&bridge("b", "a", ("sak:2", "sak:1"), ""));
        let (mut lan, mut caught) = (net.host(a, "lan"), net.host(a, "wan"));
        let (mut wan, mut far) = (net.host(b, "wan"), net.host(b, "lan"));
        net.settle();
        let packet = udp4([10, 1, 0, 9], [10, 1, 0, 8], (7, 9), 90, 7);
        for _ in 0..100 {
            lan.send(&ethernet(HOST_B, HOST_A, 0x0800, &packet));
        }
        net.settle();
        let sealed = caught.received();
        assert_eq!(sealed.len(), 100);
        let changes = ["window = 10", "window = 1000", "replay = \"strict\"\nwindow = 64", ""];
        for (at, options) in changes.into_iter().enumerate() {
            sealed[at * 20..][..20].iter().for_each(|f| wan.send(f));
            let now = net.now + crate::net::STEP;
            net.members[b].workers[0].turn(now);
            net.apply(b, &bridge("b", "a", ("sak:2", "sak:1"), options));
            net.settle();
            sealed[..at * 20 + 20].iter().for_each(|f| wan.send(f));
            net.settle();
            assert_eq!(data(&mut far).len(), 20, "`{options}`, late {late}: {:?}", net.drops(b));
        }
        // And back: its frames are sent on.
        far.send(&ethernet(HOST_A, HOST_B, 0x0800, &packet));
        net.settle();
        assert_eq!(wan.received().len(), 1);
        assert_eq!(net.dropped(b, DropReason::MacsecUnusedSa), 0);
        net.assert_conserved();
    }
}
