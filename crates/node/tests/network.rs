//! Whole nodes over virtual wires: what goes in on one side comes out on the
//! other, with every kind of crypto engine, and every packet is accounted for.

mod net;

use ferrule_base::{DropReason, MacAddr};
use net::{Host, Net, ethernet, mac, udp4, udp6};

const HOST_A: MacAddr = MacAddr([2, 0, 0xaa, 1, 2, 3]);
const HOST_B: MacAddr = MacAddr([2, 0, 0xbb, 1, 2, 3]);

/// A gateway `name` with a LAN 10.x.0.0/24 and 2001:db8:x::/64.
fn gateway(name: &str, own: u8, other: u8, suite: &str, keys: (&str, &str), extra: &str) -> String {
    let (out, inn) = keys;
    format!(
        r#"
        [node]
        name = "{name}"
        lab = true
        {extra}
        [[port]]
        name = "lan"
        driver = "wire"
        [[port]]
        name = "wan"
        driver = "wire"
        mtu = 1600
        [[interface]]
        port = "lan"
        address = ["10.{own}.0.1/24", "2001:db8:{own}::1/64"]
        [[interface]]
        port = "wan"
        address = ["192.0.2.{own}/24"]
        [[route]]
        prefix = "10.{other}.0.0/24"
        via = "192.0.2.{other}"
        [[route]]
        prefix = "2001:db8:{other}::/64"
        interface = "wan"
        [[tunnel]]
        name = "t"
        local = "192.0.2.{own}"
        remote = "192.0.2.{other}"
        suite = "{suite}"
        mtu = 1400
        out = {{ spi = {}, key = "{out}" }}
        in = {{ spi = {}, key = "{inn}" }}
        [[policy]]
        interface = "wan"
        action = "protect"
        tunnel = "t"
        local = "10.{own}.0.0/24"
        remote = "10.{other}.0.0/24"
        [[policy]]
        interface = "wan"
        action = "protect"
        tunnel = "t"
        local = "2001:db8:{own}::/64"
        remote = "2001:db8:{other}::/64"
        "#,
        0x1000 + u32::from(other),
        0x1000 + u32::from(own),
    )
}

/// Two gateways with a host each; a wire between them.
fn two_gateways(net: &mut Net, suite: &str, key: &str, workers: u8) -> (Host, Host) {
    let extra = format!("workers = {workers}");
    let (ab, ba) = (format!("{key}:1"), format!("{key}:7"));
    let a = net.node(&gateway("a", 1, 2, suite, (&ab, &ba), &extra));
    let b = net.node(&gateway("b", 2, 1, suite, (&ba, &ab), &extra));
    net.join((a, "wan"), (b, "wan"));
    let hosts = (net.host(a, "lan"), net.host(b, "lan"));
    net.settle();
    hosts
}

/// Answers ARP for `ip` at a host, once it was asked.
fn answer_arp(net: &mut Net, host: &mut Host, own: MacAddr, ip: [u8; 4]) {
    for frame in host.received() {
        if frame[12..14] == [8, 6] && frame[20..22] == [0, 1] && frame[38..42] == ip {
            let asker = MacAddr(frame[22..28].try_into().unwrap());
            let mut arp = frame[14..22].to_vec();
            arp[7] = 2;
            arp.extend(own.0);
            arp.extend(ip);
            arp.extend(&frame[22..32]);
            host.send(&ethernet(asker, own, 0x0806, &arp));
        }
    }
    net.settle();
}

#[test]
fn esp_gateways_carry_ipv4_and_ipv6_with_every_suite_and_engine() {
    let suites = [
        ("aes-gcm-128", "gcm"),
        ("aes-gcm-256", "gcm256"),
        ("chacha20-poly1305", "chacha"),
        ("aes-cbc-128 hmac-sha1-96", "cbc-sha1"),
        ("aes-cbc-128 hmac-sha256-128", "cbc-sha256"),
    ];
    for (suite, key) in suites {
        for late in [false, true] {
            let mut net = if late { Net::late() } else { Net::new() };
            let (mut a, mut b) = two_gateways(&mut net, suite, key, 1);
            let gw = mac("a", "lan");
            let mut expected = Vec::new();
            for (i, len) in [28, 29, 64, 500, 1399, 1400].into_iter().enumerate() {
                let packet = udp4([10, 1, 0, 9], [10, 2, 0, 9], (7, 9), len, i as u8);
                a.send(&ethernet(gw, HOST_A, 0x0800, &packet));
                net.settle();
                if i == 0 {
                    answer_arp(&mut net, &mut b, HOST_B, [10, 2, 0, 9]);
                }
                expected.push(packet);
            }
            let got: Vec<_> = b.received().into_iter().filter(|f| f[12..14] == [8, 0]).collect();
            assert_eq!(got.len(), expected.len(), "{suite} late {late}: {:?}", net.drops(0));
            for (frame, packet) in got.iter().zip(&expected) {
                assert_eq!(frame[..6], HOST_B.0);
                assert_eq!(frame[14 + 20..], packet[20..], "{suite}: payload");
                assert_eq!(frame[14 + 8], 62, "two gateways, two hops");
            }
            net.assert_conserved();
        }
    }
}
