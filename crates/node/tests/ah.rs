//! AH through whole nodes over virtual wires: tunnels, hosts behind the node in transport
//! mode, ESP in AH, with every kind of crypto engine, and every packet accounted for.

mod net;

use ferrule_base::{DropReason, Duration, MacAddr, Rng};
use ferrule_node::Config;
use ferrule_node::config::named_key;
use ferrule_overhead::Stack;
use ferrule_wire::ipv4;
use net::{Host, Net, ethernet, mac, udp4, udp6};

const HOST_A: MacAddr = MacAddr([2, 0, 0xaa, 1, 2, 3]);
const HOST_B: MacAddr = MacAddr([2, 0, 0xbb, 1, 2, 3]);

/// Every hash of AH with the name of its keys, GMAC with one of AES-GCM's.
const HASHES: [(&str, &str); 5] = [
    ("hmac-sha1-96", "sha1"),
    ("hmac-sha256-128", "sha256"),
    ("hmac-sha384-192", "sha384"),
    ("hmac-sha512-256", "sha512"),
    ("aes-gmac-128", "gcm"),
];

/// A node `name` with a LAN 10.x.0.0/24 and 2001:db8:x::/64, and these pairs and
/// policies.
fn gateway(name: &str, own: u8, other: u8, pairs: &str, extra: &str) -> String {
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
        address = ["192.0.2.{own}/24", "2001:db8::{own}/64"]
        [[route]]
        prefix = "10.{other}.0.0/24"
        via = "192.0.2.{other}"
        [[route]]
        prefix = "2001:db8:{other}::/64"
        via = "2001:db8::{other}"
        {pairs}
        "#
    )
}

/// A pair of SAs; the other end has the same with `own` and `other` exchanged.
fn pair(kind: &str, name: &str, ends: [&str; 2], ways: [(u32, &str); 2], more: &str) -> String {
    let [local, remote] = ends;
    let [(out_spi, out_key), (in_spi, in_key)] = ways;
    format!(
        r#"
        [[{kind}]]
        name = "{name}"
        local = "{local}"
        remote = "{remote}"
        out = {{ spi = {out_spi}, key = "{out_key}" }}
        in = {{ spi = {in_spi}, key = "{in_key}" }}
        {more}
        "#
    )
}

fn protect(kind: &str, name: &str, ends: Option<[&str; 2]>) -> String {
    let ends = ends.map(|[local, remote]| format!("local = \"{local}\"\nremote = \"{remote}\""));
    format!(
        "[[policy]]\ninterface = \"wan\"\naction = \"protect\"\n{kind} = \"{name}\"\n{}\n",
        ends.unwrap_or_default()
    )
}

/// SPIs and keys as `own` has them: out, then in.
fn ways(own: u8, key: &str) -> [(u32, String); 2] {
    let way = |n: u8| (0x1000 + u32::from(n), format!("{key}:{n}"));
    if own == 1 { [way(1), way(7)] } else { [way(7), way(1)] }
}

fn as_str(ways: &[(u32, String); 2]) -> [(u32, &str); 2] {
    [(ways[0].0, &ways[0].1), (ways[1].0, &ways[1].1)]
}

/// The tunnel between both sites, with policies for both families.
fn tunnel(own: u8, other: u8, more: &str, key: &str) -> String {
    let ends = [format!("192.0.2.{own}"), format!("192.0.2.{other}")];
    let ways = ways(own, key);
    let net4 = [format!("10.{own}.0.0/24"), format!("10.{other}.0.0/24")];
    let net6 = [format!("2001:db8:{own}::/64"), format!("2001:db8:{other}::/64")];
    pair("tunnel", "t", [&ends[0], &ends[1]], as_str(&ways), more)
        + &protect("tunnel", "t", Some([&net4[0], &net4[1]]))
        + &protect("tunnel", "t", Some([&net6[0], &net6[1]]))
}

/// Two nodes with a host each; a wire between them. `pairs` makes the SAs of a node from
/// its own number and the other's.
fn two(net: &mut Net, workers: u8, pairs: impl Fn(u8, u8) -> String) -> (Host, Host) {
    let extra = format!("workers = {workers}");
    let a = net.node(&gateway("a", 1, 2, &pairs(1, 2), &extra));
    let b = net.node(&gateway("b", 2, 1, &pairs(2, 1), &extra));
    net.join((a, "wan"), (b, "wan"));
    let hosts = (net.host(a, "lan"), net.host(b, "lan"));
    net.settle();
    know(net, &[(0, "10.1.0.9", HOST_A), (1, "10.2.0.9", HOST_B)]);
    know(net, &[(0, "2001:db8:1::9", HOST_A), (1, "2001:db8:2::9", HOST_B)]);
    know(net, &[(0, "192.0.2.2", mac("b", "wan")), (1, "192.0.2.1", mac("a", "wan"))]);
    know(net, &[(0, "2001:db8::2", mac("b", "wan")), (1, "2001:db8::1", mac("a", "wan"))]);
    hosts
}

/// Tells nodes the link addresses of their neighbours.
fn know(net: &mut Net, all: &[(usize, &str, MacAddr)]) {
    for &(node, address, mac) in all {
        let tables = net.members[node].control.tables().clone();
        for iface in 0..tables.ifaces.len() as u16 {
            tables.neighbours.set(iface, address.parse().unwrap(), mac);
        }
    }
}

/// The frames at a host that are neither ARP nor neighbour discovery.
fn data(host: &mut Host) -> Vec<Vec<u8>> {
    let mut frames = host.received();
    // Neither ARP nor neighbour discovery, nor reports of groups.
    let own = |f: &[u8]| match f[12..14] {
        [8, 6] => true,
        [0x86, 0xdd] => f[20] == 58 || f[20] == 0 && f[62] == 143,
        _ => false,
    };
    frames.retain(|f| !own(f));
    frames
}

fn engines() -> [Net; 2] {
    [Net::new(), Net::late()]
}

fn frame(to: MacAddr, packet: &[u8]) -> Vec<u8> {
    let ethertype = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
    ethernet(to, HOST_A, ethertype, packet)
}

/// The packet two hops later: the first took the one place of a record route option.
fn two_hops(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 4 {
        packet[8] -= 2;
        if let [7, 7, 4, ..] = packet[24..] {
            packet[26..31].copy_from_slice(&[8, 192, 0, 2, 1]);
        }
        ipv4::fill_checksum(&mut packet);
    } else {
        packet[7] -= 2;
    }
    packet
}

/// Sends each packet from host A; every one arrives at host B as it was.
fn carries(net: &mut Net, (a, b): (&mut Host, &mut Host), packets: &[Vec<u8>], what: &str) {
    for packet in packets {
        a.send(&frame(mac("a", "lan"), packet));
        net.settle();
    }
    let got: Vec<_> = data(b).into_iter().map(|f| f[14..].to_vec()).collect();
    let want: Vec<_> = packets.iter().map(|p| two_hops(p)).collect();
    assert_eq!(got.len(), want.len(), "{what}: {:?} {:?}", net.drops(0), net.drops(1));
    assert!(got == want, "{what}: in order and as they were");
    net.assert_conserved();
}

fn plain_packets() -> Vec<Vec<u8>> {
    let v4 =
        [28, 29, 30, 31, 500, 1400].map(|len| udp4([10, 1, 0, 9], [10, 2, 0, 9], (7, 9), len, 3));
    let v6 = [48, 49, 700, 1400].map(|len| udp6("2001:db8:1::9", "2001:db8:2::9", (7, 9), len, 4));
    v4.into_iter().chain(v6).collect()
}

#[test]
fn ah_gateways_carry_ipv4_and_ipv6_with_every_hash_and_engine() {
    for (suite, key) in HASHES {
        for (n, mut net) in engines().into_iter().enumerate() {
            let more = format!("protocol = \"ah\"\nsuite = \"{suite}\"\nesn = {}", n == 0);
            let (mut a, mut b) = two(&mut net, 1, |own, other| tunnel(own, other, &more, key));
            carries(&mut net, (&mut a, &mut b), &plain_packets(), suite);
            let report = &net.reports(1)[0];
            assert_eq!(report.esp_in[0].suite_name(), format!("ah {suite}"));
            assert_eq!(report.esp_in[0].stats.packets, plain_packets().len() as u64);
        }
    }
}

/// IPv4 with a router alert and a record route option.
fn optioned() -> Vec<u8> {
    let plain = udp4([10, 1, 0, 9], [10, 2, 0, 9], (7, 9), 90, 3);
    let options = [148, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0, 0];
    let mut packet = [&plain[..20], &options, &plain[20..]].concat();
    packet[0] += 3;
    packet[3] += 12;
    ipv4::fill_checksum(&mut packet);
    packet
}

/// IPv6 with hop-by-hop options, one of which may change, and destination options.
fn extended() -> Vec<u8> {
    let plain = udp6("2001:db8:1::9", "2001:db8:2::9", (7, 9), 90, 4);
    let chain = [60, 0, 0x3e, 2, 9, 9, 1, 0, 17, 0, 0x1e, 2, 8, 8, 1, 0];
    let mut packet = [&plain[..40], &chain, &plain[40..]].concat();
    packet[6] = 0;
    packet[5] += 16;
    packet
}

/// Transport mode between the hosts, which know nothing of it.
fn transport(own: u8, other: u8, more: &str, key: &str) -> String {
    let mut text = String::new();
    for (n, family) in ["10.{}.0.9", "2001:db8:{}::9"].into_iter().enumerate() {
        let end = |n: u8| family.replace("{}", &n.to_string());
        // Keys of their own for each: GMAC's nonces must not meet.
        let key = |way: u8| (0x1000 + u32::from(way), format!("{key}:{way}"));
        let (one, two) = (key(1 + 16 * n as u8), key(7 + 16 * n as u8));
        let ways = if own == 1 { [one, two] } else { [two, one] };
        let ways = as_str(&ways);
        let name = format!("t{n}");
        text += &pair("transport", &name, [&end(own), &end(other)], ways, more);
        text += &protect("transport", &name, None);
    }
    text
}

#[test]
fn ah_in_transport_mode_for_hosts_behind_both_nodes() {
    for (suite, key) in [HASHES[0], HASHES[1]] {
        for mut net in engines() {
            let more = format!("protocol = \"ah\"\nsuite = \"{suite}\"");
            let (mut a, mut b) = two(&mut net, 1, |own, other| transport(own, other, &more, key));
            let mut packets = plain_packets();
            packets.extend([optioned(), extended()]);
            carries(&mut net, (&mut a, &mut b), &packets, suite);
            // A packet for another host has no policy.
            a.send(&frame(mac("a", "lan"), &udp4([10, 1, 0, 8], [10, 2, 0, 9], (7, 9), 60, 1)));
            net.settle();
            assert_eq!(net.dropped(0, DropReason::PolicyDiscard), 1);
            assert!(data(&mut b).is_empty());
        }
    }
}

/// ESP's tunnel in AH's transport mode between the gateways.
fn nested(own: u8, other: u8, inner: &str) -> String {
    let ends = [format!("192.0.2.{own}"), format!("192.0.2.{other}")];
    let [out, inn] = ways(own, "sha256");
    let ways = [(out.0 + 0x50, &out.1[..]), (inn.0 + 0x50, &inn.1[..])];
    let more = "protocol = \"ah\"\nsuite = \"hmac-sha256-128\"";
    tunnel(own, other, inner, "gcm") + &pair("transport", "u", [&ends[0], &ends[1]], ways, more)
}

#[test]
fn esp_in_ah_is_opened_in_that_order_and_in_no_other() {
    let inner = "suite = \"aes-gcm-128\"\nthen = \"u\"";
    for mut net in engines() {
        let (mut a, mut b) = two(&mut net, 1, |own, other| nested(own, other, inner));
        carries(&mut net, (&mut a, &mut b), &plain_packets(), "nested");
        let count = plain_packets().len() as u64;
        for node in [0, 1] {
            let report = &net.reports(node)[0];
            let sas = if node == 0 { &report.esp_out } else { &report.esp_in };
            assert_eq!(sas.len(), 2);
            assert!(sas.iter().all(|sa| sa.stats.packets == count), "each was in both");
        }
    }
    // One side leaves AH out: it sends authentic ESP, which is still refused.
    let mut net = Net::new();
    let bare = "suite = \"aes-gcm-128\"";
    let (mut a, mut b) =
        two(&mut net, 1, |own, other| nested(own, other, if own == 1 { bare } else { inner }));
    a.send(&frame(mac("a", "lan"), &plain_packets()[0]));
    net.settle();
    assert!(data(&mut b).is_empty());
    assert_eq!(net.dropped(1, DropReason::EspNotNested), 1);
}

#[test]
fn ah_in_esp_and_ah_in_ah_work_as_well() {
    for (around, key) in [
        ("suite = \"aes-gcm-128\"", "gcm"),
        ("protocol = \"ah\"\nsuite = \"hmac-sha1-96\"", "sha1"),
    ] {
        for mut net in engines() {
            let (mut a, mut b) = two(&mut net, 1, |own, other| {
                let ends = [format!("192.0.2.{own}"), format!("192.0.2.{other}")];
                let [out, inn] = ways(own, key);
                let ways = [(out.0 + 0x50, &out.1[..]), (inn.0 + 0x50, &inn.1[..])];
                let inner = "protocol = \"ah\"\nsuite = \"hmac-sha256-128\"\nthen = \"u\"";
                tunnel(own, other, inner, "sha256")
                    + &pair("transport", "u", [&ends[0], &ends[1]], ways, around)
            });
            carries(&mut net, (&mut a, &mut b), &plain_packets(), around);
        }
    }
}

#[test]
fn ah_sas_of_several_workers_keep_order_within_a_flow() {
    let more = "protocol = \"ah\"\nsuite = \"hmac-sha1-96\"";
    for mut net in engines() {
        let (mut a, mut b) = two(&mut net, 2, |own, other| tunnel(own, other, more, "sha1"));
        for round in 0..40_u16 {
            for flow in 0..16_u16 {
                let mut packet = udp4([10, 1, 0, 9], [10, 2, 0, 9], (1000 + flow, 9), 90, 0);
                packet[28..30].copy_from_slice(&round.to_be_bytes());
                a.send(&frame(mac("a", "lan"), &packet));
            }
            net.settle();
        }
        let mut next = [0_u16; 16];
        for frame in data(&mut b) {
            let flow = usize::from(u16::from_be_bytes([frame[34], frame[35]])) - 1000;
            let number = u16::from_be_bytes([frame[42], frame[43]]);
            assert_eq!(next[flow], number, "flow {flow}");
            next[flow] += 1;
        }
        assert_eq!(next, [40; 16], "{:?} {:?}", net.drops(0), net.drops(1));
        net.assert_conserved();
    }
}

#[test]
fn ah_takes_the_place_of_esp_while_the_nodes_run() {
    let mut net = Net::new();
    let esp = "suite = \"aes-gcm-128\"";
    let ah = "protocol = \"ah\"\nsuite = \"hmac-sha1-96\"";
    let (mut a, mut b) = two(&mut net, 1, |own, other| tunnel(own, other, esp, "gcm"));
    carries(&mut net, (&mut a, &mut b), &plain_packets(), "ESP");
    for (more, key) in [(ah, "sha1"), (esp, "gcm"), (ah, "sha1")] {
        net.apply(0, &gateway("a", 1, 2, &tunnel(1, 2, more, key), "workers = 1"));
        net.apply(1, &gateway("b", 2, 1, &tunnel(2, 1, more, key), "workers = 1"));
        net.settle();
        carries(&mut net, (&mut a, &mut b), &plain_packets(), more);
    }
}

#[test]
fn ah_with_another_key_clear_and_replayed_packets_are_counted() {
    let mut net = Net::new();
    let more = "protocol = \"ah\"\nsuite = \"hmac-sha1-96\"";
    let text = |own, other, key| gateway("a", own, other, &tunnel(own, other, more, key), "");
    let a = net.node(&text(1, 2, "sha1"));
    let (mut lan, mut wan) = (net.host(a, "lan"), net.host(a, "wan"));
    // A gateway that makes packets for the node.
    let b = net.node(&gateway("b", 2, 1, &tunnel(2, 1, more, "sha1"), ""));
    let (mut far, mut out) = (net.host(b, "lan"), net.host(b, "wan"));
    net.settle();
    know(&mut net, &[(0, "10.1.0.9", HOST_A), (1, "192.0.2.1", mac("a", "wan"))]);
    far.send(&frame(mac("b", "lan"), &udp4([10, 2, 0, 9], [10, 1, 0, 9], (7, 9), 90, 1)));
    net.settle();
    let sealed: Vec<_> = out.received().into_iter().filter(|f| f[12..14] == [8, 0]).collect();
    let [sealed] = &sealed[..] else { panic!("{sealed:?}") };
    assert_eq!((sealed[23], sealed.len()), (51, 14 + 20 + 24 + 90));
    wan.received();
    for _ in 0..3 {
        wan.send(sealed);
        net.settle();
    }
    assert_eq!(data(&mut lan).len(), 1);
    assert_eq!(net.dropped(0, DropReason::AhReplay), 2);
    let mut wrong = sealed.clone();
    // The next number, so that it is no replay.
    wrong[45] += 1;
    wan.send(&wrong);
    wan.send(&frame(mac("a", "wan"), &udp4([10, 2, 0, 9], [10, 1, 0, 9], (7, 9), 90, 1)));
    net.settle();
    assert_eq!(net.dropped(0, DropReason::AhBadIcv), 1);
    assert_eq!(net.dropped(0, DropReason::EspRequired), 1);
    assert!(data(&mut lan).is_empty());
    let report = &net.reports(0)[0].esp_in[0];
    assert_eq!((report.stats.replays, report.stats.bad_icv, report.number), (2, 1, 1));
}

/// Frames of random sizes in random kinds of AH, measured on the wire and compared with
/// the calculator; the largest that fits the path fills it.
#[test]
fn overhead_of_ah_agrees_with_frames_byte_for_byte() {
    let mut rng = Rng::new(0x0a_0b);
    for _ in 0..60 {
        let (suite, key) = HASHES[rng.below(5) as usize];
        let (v6, pad8, esn) = (rng.one_in(2), rng.one_in(2), rng.one_in(2));
        let outer6 = rng.one_in(2);
        let is_transport = rng.one_in(2);
        let align = if pad8 { 8 } else { 4 };
        let more =
            format!("protocol = \"ah\"\nsuite = \"{suite}\"\nah-align = {align}\nesn = {esn}");
        let pairs = match (is_transport, outer6) {
            (true, _) => transport(1, 2, &more, key),
            (false, false) => tunnel(1, 2, &more, key),
            (false, true) => tunnel(1, 2, &more, key).replace("192.0.2.", "2001:db8::"),
        };
        let mut net = Net::new();
        let a = net.node(&gateway("a", 1, 2, &pairs, ""));
        let (mut lan, mut wan) = (net.host(a, "lan"), net.host(a, "wan"));
        net.settle();
        know(&mut net, &[(0, "192.0.2.2", HOST_B), (0, "2001:db8::2", HOST_B)]);
        wan.received();
        let words = match is_transport {
            true => "transport",
            false if outer6 => "tunnel ipv6",
            false => "tunnel",
        };
        let words = format!("ah {suite} {words}{}", if pad8 { " pad8" } else { "" });
        for _ in 0..4 {
            let least = if v6 { 48 } else { 28 };
            let len = least + rng.below(1400 - least as u64) as usize;
            let packet = match v6 {
                true => udp6("2001:db8:1::9", "2001:db8:2::9", (1, 2), len, 0),
                false => udp4([10, 1, 0, 9], [10, 2, 0, 9], (1, 2), len, 0),
            };
            lan.send(&frame(mac("a", "lan"), &packet));
            net.settle();
            let family = if v6 { "ipv6" } else { "ipv4" };
            let text = format!("eth {family} udp {} | {words}", len - least);
            let expected = Stack::parse(&text).expect(&text).wire_len(14 + len).expect(&text);
            let got: Vec<_> = data(&mut wan).iter().map(Vec::len).collect();
            assert_eq!(got, [expected], "{text}: {:?}", net.drops(0));
        }
    }
}

#[test]
fn ah_mtu_is_what_fits_the_path() {
    for (suite, key, len) in [("hmac-sha1-96", "sha1", 24), ("hmac-sha256-128", "sha256", 28)] {
        let more = format!("protocol = \"ah\"\nsuite = \"{suite}\"");
        let mut net = Net::new();
        let a = net.node(&gateway("a", 1, 2, &tunnel(1, 2, &more, key), ""));
        let (mut lan, mut wan) = (net.host(a, "lan"), net.host(a, "wan"));
        net.settle();
        know(&mut net, &[(0, "192.0.2.2", HOST_B), (0, "10.1.0.9", HOST_A)]);
        wan.received();
        let fits = 1600 - 20 - len;
        let packet = |len| {
            let mut packet = udp4([10, 1, 0, 9], [10, 2, 0, 9], (1, 2), len, 0);
            packet[6] = 0x40;
            ipv4::fill_checksum(&mut packet);
            packet
        };
        // The LAN's frames are no longer than its own mtu.
        if fits <= 1500 {
            lan.send(&frame(mac("a", "lan"), &packet(fits)));
            net.settle();
            assert_eq!(data(&mut wan)[0].len(), 14 + 1600);
        }
        let config = Config::parse(
            "test.toml",
            &gateway("a", 1, 2, &tunnel(1, 2, &more, key), ""),
            &mut named_key,
        );
        assert_eq!(config.unwrap().tunnels[0].mtu, fits);
    }
}

/// Node `a` alone, its wires in our hands; both ends of the tunnel know each other.
fn alone(net: &mut Net, more: &str) -> (Host, Host) {
    let more = format!("protocol = \"ah\"\nsuite = \"hmac-sha1-96\"\n{more}");
    let a = net.node(&gateway("a", 1, 2, &tunnel(1, 2, &more, "sha1"), ""));
    let (lan, mut wan) = (net.host(a, "lan"), net.host(a, "wan"));
    net.settle();
    know(net, &[(0, "192.0.2.2", HOST_B), (0, "10.1.0.9", HOST_A)]);
    wan.received();
    (lan, wan)
}

/// UDP from behind node `a`, that must not be cut.
fn uncut(len: usize) -> Vec<u8> {
    let mut packet = udp4([10, 1, 0, 9], [10, 2, 0, 9], (1, 2), len, 0);
    packet[6] = 0x40;
    ipv4::fill_checksum(&mut packet);
    packet
}

/// Frames that leave on either side of node `a` when a host sends so many octets.
fn send(net: &mut Net, lan: &mut Host, wan: &mut Host, len: usize) -> [Vec<Vec<u8>>; 2] {
    lan.send(&frame(mac("a", "lan"), &uncut(len)));
    net.settle();
    [data(wan), data(lan)]
}

#[test]
fn ah_learns_the_path_mtu_from_errors_and_forgets_it_with_age() {
    let mut net = Net::new();
    let (mut lan, mut wan) = alone(&mut net, "");
    let [sealed, told] = send(&mut net, &mut lan, &mut wan, 1400);
    assert_eq!((sealed.len(), told.len(), sealed[0].len()), (1, 0, 14 + 1444));
    let mut error = udp4([203, 0, 113, 9], [192, 0, 2, 1], (0x0304, 0), 28 + 48, 0);
    error[9] = 1;
    ipv4::fill_checksum(&mut error);
    error[24..28].copy_from_slice(&[0, 0, 5, 20]);
    error[28..].copy_from_slice(&sealed[0][14..62]);
    ferrule_wire::icmpv4::fill_checksum(&mut error[20..]);
    wan.send(&frame(mac("a", "wan"), &error));
    net.settle();
    assert_eq!(net.dropped(0, DropReason::IcmpForged), 0);
    let report = &net.reports(0)[0];
    assert_eq!(report.esp_out[0].mtu, Some(1300 - 44));
    let [sealed, told] = send(&mut net, &mut lan, &mut wan, 1257);
    assert_eq!((sealed.len(), told.len()), (0, 1));
    assert_eq!(told[0][34..36], [3, 4]);
    assert_eq!(told[0][40..42], 1256u16.to_be_bytes());
    let [sealed, _] = send(&mut net, &mut lan, &mut wan, 1256);
    assert_eq!(sealed[0].len(), 14 + 1300);
    net.wait(Duration::from_secs(601));
    know(&mut net, &[(0, "192.0.2.2", HOST_B), (0, "10.1.0.9", HOST_A)]);
    let [sealed, _] = send(&mut net, &mut lan, &mut wan, 1400);
    assert_eq!(sealed.len(), 1, "{:?}", net.drops(0));
    net.assert_conserved();
}

#[test]
fn ah_that_cuts_before_makes_whole_packets_and_the_other_end_checks_each() {
    for mut net in engines() {
        let more = "protocol = \"ah\"\nsuite = \"hmac-sha1-96\"\nmtu = 700\n";
        let more = format!("{more}fragment = \"before\"");
        let (mut a, mut b) = two(&mut net, 2, |own, other| tunnel(own, other, &more, "sha1"));
        for fill in 0..5 {
            let packet = udp4([10, 1, 0, 9], [10, 2, 0, 9], (1, 2), 1400, fill);
            a.send(&frame(mac("a", "lan"), &packet));
        }
        net.settle();
        let got = data(&mut b);
        assert_eq!(got.len(), 15, "{:?} {:?}", net.drops(0), net.drops(1));
        assert!(got.iter().all(|f| f.len() <= 14 + 700 && ipv4::is_fragment(&f[14..])));
        net.assert_conserved();
    }
}

#[test]
fn ah_configurations_that_make_no_sense_are_refused() {
    let said = |more: &str, key: &str| {
        let text = gateway("a", 1, 2, &tunnel(1, 2, more, key), "");
        match Config::parse("test.toml", &text, &mut named_key) {
            Ok(_) => panic!("accepted: {more}"),
            Err(e) => e.to_string(),
        }
    };
    let ah = |more: &str| format!("protocol = \"ah\"\nsuite = \"hmac-sha1-96\"\n{more}");
    assert!(said(&ah("encapsulation = \"udp\""), "sha1").contains("`encapsulation` with AH"));
    assert!(said(&ah("tfc = \"whole\""), "sha1").contains("`tfc` with AH"));
    assert!(said(&ah("dummy = 3"), "sha1").contains("`dummy` with AH"));
    assert!(said(&ah("ah-align = 5"), "sha1").contains("not padded to 5"));
    assert!(said(&ah("placement = \"inline\""), "sha1").contains("no plain tunnel"));
    let gcm = "protocol = \"ah\"\nsuite = \"aes-gcm-128\"";
    assert!(said(gcm, "gcm").contains("aes-gcm-128"));
    let esp = "suite = \"aes-gcm-128\"\nah-align = 8";
    assert!(said(esp, "gcm").contains("`ah-align` without AH"));
}
