//! Whole nodes over virtual wires: packets that go in on one side come out on the other,
//! with every kind of crypto engine, and every packet is accounted for.

mod net;

use ferrule_base::{DropReason, MacAddr, Rng};
use ferrule_overhead::Stack;
use net::{Host, Net, ethernet, mac, udp4, udp6};
use std::collections::HashMap;

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

/// The frames at a host that are neither ARP nor neighbour discovery.
fn data(host: &mut Host) -> Vec<Vec<u8>> {
    let mut frames = host.received();
    // Neither ARP nor what is behind ICMPv6 or a router alert.
    frames
        .retain(|f| f[12..14] != [8, 6] && !(f[12..14] == [0x86, 0xdd] && matches!(f[20], 0 | 58)));
    frames
}

#[test]
fn ipv6_goes_through_an_esp_tunnel_over_ipv4() {
    let mut net = Net::new();
    let (mut a, mut b) = two_gateways(&mut net, "aes-gcm-128", "gcm", 1);
    net.wait(std::time::Duration::from_secs(3));
    let (from, to) = ("2001:db8:1::9", "2001:db8:2::9");
    let packet = udp6(from, to, (7, 9), 333, 5);
    a.send(&ethernet(mac("a", "lan"), HOST_A, 0x86dd, &packet));
    net.settle();
    answer_nd(&mut net, &mut b, HOST_B, to);
    let got = data(&mut b);
    assert_eq!(got.len(), 1, "{:?} {:?}", net.drops(0), net.drops(1));
    assert_eq!(got[0][14 + 40..], packet[40..]);
    net.assert_conserved();
}

/// Answers a neighbour solicitation for `ip` at a host, once it was asked.
fn answer_nd(net: &mut Net, host: &mut Host, own: MacAddr, ip: &str) {
    let ip = ip.parse::<std::net::Ipv6Addr>().unwrap();
    for frame in host.received() {
        let asked = frame[12..14] == [0x86, 0xdd] && frame[20] == 58 && frame[54] == 135;
        if !asked || frame[62..78] != ip.octets() {
            continue;
        }
        let asker: [u8; 16] = frame[22..38].try_into().unwrap();
        let mut na = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
        na.extend(ip.octets());
        na.extend([2, 1]);
        na.extend(own.0);
        let to = MacAddr(frame[6..12].try_into().unwrap());
        host.send(&ethernet(to, own, 0x86dd, &icmpv6(ip.octets(), asker, 255, na)));
    }
    net.settle();
}

/// An ICMPv6 packet whose checksum is right.
fn icmpv6(from: [u8; 16], to: [u8; 16], hop_limit: u8, mut message: Vec<u8>) -> Vec<u8> {
    let len = message.len() as u8;
    let mut sum = 0_u32;
    for part in [&from[..], &to, &[0, 0, 0, len, 0, 0, 0, 58], &message] {
        sum += part.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum::<u32>();
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    message[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    [&[0x60, 0, 0, 0, 0, len, 58, hop_limit][..], &from, &to, &message].concat()
}

/// An ARP request for 10.1.0.1.
fn arp_request(mac: MacAddr, ip: [u8; 4]) -> Vec<u8> {
    let head = [0, 1, 8, 0, 6, 4, 0, 1];
    let arp = [&head[..], &mac.0, &ip, &[0; 6], &[10, 1, 0, 1]].concat();
    ethernet(MacAddr::BROADCAST, HOST_A, 0x0806, &arp)
}

#[test]
fn a_bad_neighbour_message_is_counted_under_the_rule_that_it_breaks() {
    let octets = |ip: &str| ip.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let (host_a, ours) = (octets("2001:db8:1::9"), octets("2001:db8:1::1"));
    let nd = |from: [u8; 16], hop_limit: u8, kind: u8, target: [u8; 16]| {
        let message = [&[kind, 0, 0, 0, 0, 0, 0, 0], &target[..]].concat();
        ethernet(mac("a", "lan"), HOST_A, 0x86dd, &icmpv6(from, ours, hop_limit, message))
    };
    let mut net = Net::new();
    let (mut a, _b) = two_gateways(&mut net, "aes-gcm-128", "gcm", 1);
    let router = [133, 0, 0, 0, 0, 0, 0, 0].to_vec();
    let router = icmpv6(host_a, octets("ff02::2"), 255, router);
    let bad = [
        (arp_request(HOST_A, [10, 9, 0, 9]), DropReason::NeighbourOffLink),
        (arp_request(MacAddr::BROADCAST, [10, 1, 0, 9]), DropReason::NeighbourLinkAddress),
        (arp_request(HOST_A, [10, 1, 0, 255]), DropReason::NeighbourAddress),
        (nd(host_a, 64, 135, ours), DropReason::NeighbourFromAfar),
        (nd([0; 16], 255, 135, ours), DropReason::NeighbourUnspecified),
        (
            ethernet(MacAddr([0x33, 0x33, 0, 0, 0, 2]), HOST_A, 0x86dd, &router),
            DropReason::RouterMessage,
        ),
    ];
    net.wait(std::time::Duration::from_secs(3));
    for (frame, reason) in bad {
        let before = net.drops(0).total();
        a.send(&frame);
        net.settle();
        assert_eq!(net.dropped(0, reason), 1, "{reason:?}: {:?}", net.drops(0));
        assert_eq!(net.drops(0).total(), before + 1, "{reason:?}");
    }
    a.send(&arp_request(HOST_A, [10, 1, 0, 9]));
    net.settle();
    let answered = a.received().iter().any(|f| f[12..14] == [8, 6] && f[20..22] == [0, 2]);
    assert!(answered, "a good one is answered");
    net.assert_conserved();
}

#[test]
fn a_wrong_esp_key_is_dropped_and_counted() {
    let mut net = Net::new();
    let (ab, ba, other) = ("gcm:1", "gcm:7", "gcm:40");
    let a = net.node(&gateway("a", 1, 2, "aes-gcm-128", (ab, ba), ""));
    let b = net.node(&gateway("b", 2, 1, "aes-gcm-128", (ba, other), ""));
    net.join((a, "wan"), (b, "wan"));
    let (mut host, mut far) = (net.host(a, "lan"), net.host(b, "lan"));
    net.settle();
    let packet = udp4([10, 1, 0, 9], [10, 2, 0, 9], (7, 9), 100, 0);
    host.send(&ethernet(mac("a", "lan"), HOST_A, 0x0800, &packet));
    net.settle();
    assert_eq!(net.dropped(b, DropReason::EspBadIcv), 1);
    assert!(data(&mut far).is_empty());
    net.assert_conserved();
}

#[test]
fn a_replayed_esp_packet_is_dropped_and_counted() {
    for late in [false, true] {
        let mut net = if late { Net::late() } else { Net::new() };
        let a = net.node(&gateway("a", 1, 2, "aes-gcm-128", ("gcm:1", "gcm:7"), ""));
        let b = net.node(&gateway("b", 2, 1, "aes-gcm-128", ("gcm:7", "gcm:1"), ""));
        let (mut wan_a, mut wan_b) = (net.host(a, "wan"), net.host(b, "wan"));
        let (mut host, _far) = (net.host(a, "lan"), net.host(b, "lan"));
        net.settle();
        let packet = udp4([10, 1, 0, 9], [10, 2, 0, 9], (7, 9), 100, 0);
        host.send(&ethernet(mac("a", "lan"), HOST_A, 0x0800, &packet));
        net.settle();
        answer_arp(&mut net, &mut wan_a, mac("b", "wan"), [192, 0, 2, 2]);
        let sealed = data(&mut wan_a);
        assert_eq!(sealed.len(), 1, "{:?}", net.drops(a));
        // The second copy may overtake the first in a late engine.
        wan_b.send(&sealed[0]);
        wan_b.send(&sealed[0]);
        net.settle();
        wan_b.send(&sealed[0]);
        net.settle();
        assert_eq!(net.dropped(b, DropReason::EspReplay), 2, "{:?}", net.drops(b));
        net.assert_conserved();
    }
}

/// A customer edge that bridges its LAN, with or without MACsec on the WAN.
fn ce(name: &str, secy: &str) -> String {
    let mtu = if secy.is_empty() { 1500 } else { 1532 };
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
        mtu = {mtu}
        [[bridge]]
        name = "br"
        member = [{{ port = "lan" }}, {{ port = "wan" }}]
        {secy}
        "#
    )
}

/// A SecY on the WAN port of `own`, whose peer is `peer`.
fn secy(own: &str, peer: &str, keys: (&str, &str), options: &str, sa: &str) -> String {
    let sci = |node| format!("{}/1", mac(node, "wan"));
    format!(
        r#"
        [[macsec]]
        port = "wan"
        sci = "{}"
        {options}
        transmit = [{{ key = "{}"{sa}, {} }}]
        receive = [{{ sci = "{}", key = "{}"{sa}, {} }}]
        "#,
        sci(own),
        keys.0,
        if sa.is_empty() {
            "an = 0"
        } else if own < peer {
            "ssci = 1"
        } else {
            "ssci = 2"
        },
        sci(peer),
        keys.1,
        if sa.is_empty() {
            "an = 0"
        } else if own < peer {
            "ssci = 2"
        } else {
            "ssci = 1"
        },
    )
}

/// A provider edge with a pseudowire from port `ac`; `more` goes to it.
fn pe(name: &str, own: u8, labels: (u32, u32), transport: &str, more: &str) -> String {
    format!(
        r#"
        [node]
        name = "{name}"
        lab = true
        [[port]]
        name = "ac"
        driver = "wire"
        mtu = 1540
        [[port]]
        name = "core"
        driver = "wire"
        mtu = 1600
        [[interface]]
        port = "core"
        address = ["198.51.100.{own}/30"]
        mpls = true
        [[lsp]]
        name = "far"
        via = "198.51.100.{}"
        labels = [{transport}]
        [[pseudowire]]
        name = "pw"
        port = "ac"
        lsp = "far"
        label-in = {}
        label-out = {}
        {more}
        "#,
        own ^ 3,
        labels.0,
        labels.1,
    )
}

/// The P router between the two: takes the transport labels off.
const P: &str = r#"
    [node]
    name = "p"
    lab = true
    [[port]]
    name = "one"
    driver = "wire"
    mtu = 1600
    [[port]]
    name = "two"
    driver = "wire"
    mtu = 1600
    [[interface]]
    port = "one"
    address = ["198.51.100.2/30"]
    mpls = true
    [[interface]]
    port = "two"
    address = ["198.51.100.6/30"]
    mpls = true
    [[label]]
    label = 16002
    pop = true
    ttl = "pipe"
    via = "198.51.100.5"
    [[label]]
    label = 16001
    pop = true
    ttl = "pipe"
    via = "198.51.100.1"
"#;

#[test]
fn macsec_goes_through_a_pseudowire_across_three_routers() {
    for (options, sa, key) in [
        ("", "", "sak"),
        ("encrypt = false", "", "sak"),
        ("offset = 30", "", "sak"),
        ("offset = 50", "", "sak"),
        ("clear-tags = 1", "", "sak"),
        ("replay = \"standard\"", "", "sak"),
        ("cipher = \"gcm-aes-256\"", "", "sak256"),
        ("cipher = \"gcm-aes-xpn-128\"", ", an = 1", "xpn"),
    ] {
        for late in [false, true] {
            let mut net = if late { Net::late() } else { Net::new() };
            let (k1, k2) = (format!("{key}:1"), format!("{key}:9"));
            let one = net.node(&ce("ce1", &secy("ce1", "ce2", (&k1, &k2), options, sa)));
            let two = net.node(&ce("ce2", &secy("ce2", "ce1", (&k2, &k1), options, sa)));
            let pe1 = net.node(&pe("pe1", 1, (800_000, 800_257), "16002", ""));
            let p = net.node(P);
            let pe2 = net.node(&pe("pe2", 5, (800_257, 800_000), "16001", ""));
            net.join((one, "wan"), (pe1, "ac"));
            net.join((pe1, "core"), (p, "one"));
            net.join((p, "two"), (pe2, "core"));
            net.join((pe2, "ac"), (two, "wan"));
            let (mut a, mut b) = (net.host(one, "lan"), net.host(two, "lan"));
            net.settle();
            let mut sent = Vec::new();
            for len in [14, 15, 16, 60, 61, 64, 77, 500, 1514] {
                let tagged = len % 2 == 1;
                let frame = if tagged && len > 18 {
                    let mut f = ethernet(HOST_B, HOST_A, 0x8100, &[0, 10, 0x88, 0xb5]);
                    f.resize(len, len as u8);
                    f
                } else {
                    ethernet(HOST_B, HOST_A, 0x88b5, &vec![len as u8; len - 14])
                };
                a.send(&frame);
                sent.push(frame);
                net.settle();
            }
            let got = data(&mut b);
            assert_eq!(got, sent, "{options} late {late}: {:?}", net.drops(two));
            b.send(&ethernet(HOST_A, HOST_B, 0x88b5, b"back"));
            net.settle();
            assert_eq!(data(&mut a).len(), 1);
            net.assert_conserved();
        }
    }
}

#[test]
fn two_workers_share_the_traffic_and_keep_order_within_a_flow() {
    for late in [false, true] {
        let mut net = if late { Net::late() } else { Net::new() };
        let (mut a, mut b) = two_gateways(&mut net, "aes-gcm-128", "gcm", 2);
        let gw = mac("a", "lan");
        let send = |a: &mut Host, flow: u16, number: u16| {
            let mut packet = udp4([10, 1, 0, 9], [10, 2, 0, 9], (1000 + flow, 9), 100, 0);
            packet[28..30].copy_from_slice(&number.to_be_bytes());
            a.send(&ethernet(gw, HOST_A, 0x0800, &packet));
        };
        send(&mut a, 0, 0);
        net.settle();
        answer_arp(&mut net, &mut b, HOST_B, [10, 2, 0, 9]);
        let mut rng = Rng::new(3);
        let mut next = [1_u16; 32];
        for _ in 0..100 {
            for _ in 0..20 {
                let flow = rng.below(32) as usize;
                send(&mut a, flow as u16, next[flow]);
                next[flow] += 1;
            }
            net.settle();
        }
        let mut seen: HashMap<u16, u16> = HashMap::new();
        for frame in data(&mut b) {
            let port = u16::from_be_bytes([frame[34], frame[35]]);
            let number = u16::from_be_bytes([frame[42], frame[43]]);
            let last = seen.insert(port, number);
            assert!(last.is_none_or(|l| l + 1 == number), "flow {port}: {last:?} then {number}");
        }
        for (flow, &next) in next.iter().enumerate() {
            let last = seen.get(&(1000 + flow as u16)).copied().unwrap_or(0);
            assert_eq!(last + 1, next, "flow {flow}: {:?}", net.drops(0));
        }
        let work: Vec<u64> = net.reports(0).iter().map(|r| r.work.lookups).collect();
        assert!(work.iter().all(|&w| w > 200), "both workers look routes up: {work:?}");
        net.assert_conserved();
    }
}

/// Frames of random sizes through random stacks of what exists here, measured
/// on the wire and compared with the calculator.
#[test]
fn overhead_agrees_with_frames_of_the_data_plane_byte_for_byte() {
    let mut rng = Rng::new(0x0f_e44);
    let mut compared = 0;
    while compared < 500 {
        compared += one_random_stack(&mut rng);
    }
}

/// A customer's edge that protects in a random way (plain, MACsec twice as
/// often, ESP), and the words of what goes through the pseudowire.
fn random_edge(rng: &mut Rng, kind: u64, pseudowire: &str) -> (String, String) {
    let suites = [
        ("aes-gcm-128", "gcm"),
        ("aes-gcm-256", "gcm256"),
        ("chacha20-poly1305", "chacha"),
        ("aes-cbc-128 hmac-sha1-96", "cbc-sha1"),
        ("aes-cbc-128 hmac-sha256-128", "cbc-sha256"),
    ];
    match kind {
        0 => (ce("ce1", ""), pseudowire.to_owned()),
        1 | 2 => {
            let plain = rng.one_in(4);
            let sci = rng.one_in(2);
            let options = format!("encrypt = {}\nsend-sci = {sci}", !plain);
            let text = ce("ce1", &secy("ce1", "ce2", ("sak:1", "sak:2"), &options, ""));
            let words = format!(
                "macsec {}gcm-aes-128{}",
                if sci { "sci " } else { "" },
                if plain { " integrity" } else { "" }
            );
            (text, format!("{words} | {pseudowire}"))
        }
        _ => {
            let (suite, key) = suites[rng.below(5) as usize];
            let keys = (format!("{key}:1"), format!("{key}:7"));
            let text = gateway("ce1", 1, 2, suite, (&keys.0, &keys.1), "");
            // The provider's attachment circuit carries 1540.
            let text = text.replacen("mtu = 1600", "mtu = 1540", 1);
            (text, format!("esp {suite} tunnel | {pseudowire}"))
        }
    }
}

/// A frame of random length, to the gateway if it is routed, and its words.
fn random_frame(rng: &mut Rng, v6: bool, vlan: bool, routed: bool) -> (Vec<u8>, String) {
    let least = if v6 { 48 } else { 28 };
    let len = least + rng.below(1400 - least as u64) as usize;
    let words = format!(
        "eth{} {} udp {}",
        if vlan { " vlan" } else { "" },
        if v6 { "ipv6" } else { "ipv4" },
        len - least
    );
    let packet = if v6 {
        udp6("2001:db8:1::9", "2001:db8:2::9", (1, 2), len, 0)
    } else {
        udp4([10, 1, 0, 9], [10, 2, 0, 9], (1, 2), len, 0)
    };
    let ethertype = if v6 { 0x86dd_u16 } else { 0x0800 };
    let to = if routed { mac("ce1", "lan") } else { HOST_B };
    let frame = if vlan {
        let tagged = [&[0, 10], &ethertype.to_be_bytes()[..], &packet].concat();
        ethernet(to, HOST_A, 0x8100, &tagged)
    } else {
        ethernet(to, HOST_A, ethertype, &packet)
    };
    (frame, words)
}

/// One random network; how many frames were compared.
fn one_random_stack(rng: &mut Rng) -> usize {
    let labels = 1 + rng.below(3) as usize;
    let control_word = rng.one_in(2);
    let transport: Vec<_> = (1..labels).map(|l| format!("{}", 16_000 + l)).collect();
    let pseudowire = format!("mpls {labels}{}", if control_word { " cw" } else { "" });
    let more = format!("control-word = {control_word}");
    let provider = pe("pe", 1, (800_000, 800_257), &transport.join(", "), &more);
    let mut net = Net::new();
    let (vlan, v6) = (rng.one_in(2), rng.one_in(2));
    let kind = rng.below(4);
    let (edge, stack) = random_edge(rng, kind, &pseudowire);
    let (one, pe1) = (net.node(&edge), net.node(&provider));
    net.join((one, "wan"), (pe1, "ac"));
    let (mut host, mut core) = (net.host(one, "lan"), net.host(pe1, "core"));
    net.settle();
    if kind == 3 {
        // The other gateway's address is at the far end of the pseudowire.
        let tables = net.members[one].control.tables().clone();
        for iface in 0..tables.ifaces.len() as u16 {
            tables.neighbours.set(iface, "192.0.2.2".parse().unwrap(), HOST_B);
        }
    }
    let tables = net.members[pe1].control.tables().clone();
    for iface in 0..tables.ifaces.len() as u16 {
        tables.neighbours.set(iface, "198.51.100.2".parse().unwrap(), HOST_B);
    }
    core.received();
    let (v6, vlan) = (v6, vlan && kind != 3);
    let mut compared = 0;
    for _ in 0..8 {
        let (frame, words) = random_frame(rng, v6, vlan, kind == 3);
        host.send(&frame);
        net.settle();
        let text = format!("{words} | {stack}");
        let expected = Stack::parse(&text).expect(&text);
        let expected = expected.wire_len(frame.len()).expect(&text);
        let on_wire: Vec<usize> =
            core.received().iter().filter(|f| f[12..14] == [0x88, 0x47]).map(Vec::len).collect();
        assert_eq!(on_wire, [expected], "{text}: {:?} {:?}", net.drops(one), net.drops(pe1));
        compared += 1;
    }
    net.assert_conserved();
    compared
}
