//! Fragments in whole nodes: tunnels whose packets are cut on their way, with several
//! workers and engines that are late, and every packet accounted for.

mod net;

use ferrule_base::{DropReason, Duration, MacAddr};
use net::{Host, Net, ethernet, mac, udp4};

const HOST: MacAddr = MacAddr([2, 0, 0xaa, 1, 2, 3]);

/// A gateway with a LAN 10.x.0.0/24, its tunnel's ends of IPv4 or IPv6.
fn gateway(name: &str, own: u8, other: u8, outer: u8, node: &str, tunnel: &str) -> String {
    let end = |n: u8| if outer == 4 { format!("192.0.2.{n}") } else { format!("2001:db8:f::{n}") };
    let (out, inn) = (0x1000 + u32::from(other), 0x1000 + u32::from(own));
    format!(
        r#"
        [node]
        name = "{name}"
        lab = true
        {node}
        [[port]]
        name = "lan"
        driver = "wire"
        [[port]]
        name = "wan"
        driver = "wire"
        [[interface]]
        port = "lan"
        address = ["10.{own}.0.1/24"]
        [[interface]]
        port = "wan"
        address = ["192.0.2.{own}/24", "2001:db8:f::{own}/64"]
        [[route]]
        prefix = "10.{other}.0.0/24"
        via = "192.0.2.{other}"
        [[tunnel]]
        name = "t"
        local = "{}"
        remote = "{}"
        suite = "aes-gcm-128"
        {tunnel}
        out = {{ spi = {out}, key = "gcm:{own}" }}
        in = {{ spi = {inn}, key = "gcm:{other}" }}
        [[policy]]
        interface = "wan"
        action = "protect"
        tunnel = "t"
        local = "10.{own}.0.0/24"
        remote = "10.{other}.0.0/24"
        "#,
        end(own),
        end(other),
    )
}

fn two(net: &mut Net, outer: u8, node: &str, tunnel: &str) -> [Host; 2] {
    let a = net.node(&gateway("a", 1, 2, outer, node, tunnel));
    let b = net.node(&gateway("b", 2, 1, outer, node, tunnel));
    net.join((a, "wan"), (b, "wan"));
    let mut hosts = [net.host(a, "lan"), net.host(b, "lan")];
    net.settle();
    // Until the nodes' own IPv6 addresses are in use.
    net.wait(Duration::from_secs(3));
    for (host, other) in [(0, "a"), (1, "b")] {
        let own = [10, host as u8 + 1, 0, 9];
        say_who(&mut hosts[host], mac(other, "lan"), own, [10, host as u8 + 1, 0, 1]);
    }
    net.settle();
    // The first packet teaches the gateways their way to one another.
    hosts[0].send(&ethernet(mac("a", "lan"), HOST, 0x0800, &packet(100, 1)));
    net.wait(Duration::from_secs(2));
    hosts[1].received();
    hosts
}

/// An ARP request, from which the node learns a host.
fn say_who(host: &mut Host, node: MacAddr, own: [u8; 4], asked: [u8; 4]) {
    let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1];
    arp.extend(HOST.0);
    arp.extend(own);
    arp.extend([0; 6]);
    arp.extend(asked);
    host.send(&ethernet(node, HOST, 0x0806, &arp));
}

fn packet(len: usize, fill: u8) -> Vec<u8> {
    udp4([10, 1, 0, 9], [10, 2, 0, 9], (7, 9), len, fill)
}

/// IPv4 packets that a host received from beyond the tunnel.
fn got(host: &mut Host) -> Vec<Vec<u8>> {
    let mut frames = host.received();
    frames.retain(|f| f[12..14] == [8, 0]);
    frames.iter().map(|f| f[14..].to_vec()).collect()
}

#[test]
fn tunnel_packets_that_are_cut_on_their_way_are_put_together_and_opened() {
    for (outer, workers, late) in [(4, 1, false), (6, 1, false), (4, 2, true), (6, 3, true)] {
        let mut net = if late { Net::late() } else { Net::new() };
        let [mut a, mut b] = two(&mut net, outer, &format!("workers = {workers}"), "");
        let gw = mac("a", "lan");
        for fill in 0..40u8 {
            let len = 1430 + usize::from(fill) * 7 / 4;
            a.send(&ethernet(gw, HOST, 0x0800, &packet(len, fill)));
        }
        net.settle();
        let packets = got(&mut b);
        assert_eq!(packets.len(), 40, "{outer} {workers}: {:?}", net.drops(1));
        for packet in &packets {
            let (len, fill) = (packet.len(), packet[packet.len() - 1]);
            assert_eq!(len, 1430 + usize::from(fill) * 7 / 4);
            assert!(packet[28..].iter().all(|&octet| octet == fill));
        }
        let ledger = net.ledger(0);
        assert!(ledger.made > 30, "gateway a cut most of them: {ledger:?}");
        let ledger = net.ledger(1);
        assert!(ledger.consumed > 30 && ledger.held == 0, "and b put them together: {ledger:?}");
        net.assert_conserved();
    }
}

#[test]
fn tunnel_that_cuts_before_sealing_makes_whole_packets() {
    let mut net = Net::late();
    let [mut a, mut b] = two(&mut net, 4, "", "fragment = \"before\"");
    for fill in 0..10 {
        a.send(&ethernet(mac("a", "lan"), HOST, 0x0800, &packet(1500, fill)));
    }
    net.settle();
    // The host gets what was cut: its own business.
    let packets = got(&mut b);
    assert_eq!(packets.len(), 20);
    assert!(packets.iter().all(|p| p[6] & 0x3f != 0 || p[7] != 0), "fragments each");
    net.assert_conserved();
}

#[test]
fn held_fragments_are_in_the_ledger_until_their_time_is_over() {
    let mut net = Net::new();
    let node = net.node(&gateway("a", 1, 2, 4, "", ""));
    let (mut lan, _wan) = (net.host(node, "lan"), net.host(node, "wan"));
    net.settle();
    say_who(&mut lan, mac("a", "lan"), [10, 1, 0, 9], [10, 1, 0, 1]);
    net.settle();
    lan.received();
    for fill in 0..10u8 {
        // The first half of a datagram to the node itself.
        let mut half = udp4([10, 1, 0, 9], [10, 1, 0, 1], (7, 9), 508, fill);
        (half[5], half[6]) = (fill, 0x20);
        half[10..12].fill(0);
        let sum: u32 = half[..20].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        half[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        lan.send(&ethernet(mac("a", "lan"), HOST, 0x0800, &half));
    }
    net.settle();
    assert_eq!(net.ledger(node).held, 10, "{:?}", net.drops(node));
    net.assert_conserved();
    assert!(got(&mut lan).is_empty());
    // The node forgets who does not speak: the host speaks up shortly before.
    net.wait(Duration::from_secs(58));
    say_who(&mut lan, mac("a", "lan"), [10, 1, 0, 9], [10, 1, 0, 1]);
    net.wait(Duration::from_secs(3));
    assert_eq!(net.ledger(node).held, 0);
    assert_eq!(net.dropped(node, DropReason::ReassemblyTimeout), 10);
    let told = got(&mut lan);
    assert_eq!(told.len(), 10, "fragment reassembly time exceeded");
    assert!(told.iter().all(|p| p[9] == 1 && p[20..22] == [11, 1]));
    net.assert_conserved();
}

#[test]
fn interface_clamps_mss_of_what_it_sends_and_gets() {
    let mut net = Net::new();
    let text = r#"
        [node]
        name = "r"
        [[port]]
        name = "x"
        driver = "wire"
        [[port]]
        name = "y"
        driver = "wire"
        [[interface]]
        port = "x"
        address = ["10.1.0.1/24"]
        [[interface]]
        port = "y"
        address = ["10.2.0.1/24"]
        mtu = 1000
        clamp-mss = true
    "#;
    let node = net.node(text);
    let mut hosts = [net.host(node, "x"), net.host(node, "y")];
    net.settle();
    for (at, port) in [(0, "x"), (1, "y")] {
        let net_ = at as u8 + 1;
        say_who(&mut hosts[at], mac("r", port), [10, net_, 0, 9], [10, net_, 0, 1]);
    }
    net.settle();
    for (from, to, port) in [(0usize, 1usize, "x"), (1, 0, "y")] {
        hosts[to].received();
        let address = |at: usize| [10, at as u8 + 1, 0, 9];
        let mut syn = udp4(address(from), address(to), (7, 9), 44, 0);
        syn[9] = 6;
        syn[24..].fill(0);
        syn[32..34].copy_from_slice(&[0x60, 2]);
        syn[40..44].copy_from_slice(&[2, 4, 0x05, 0xb4]);
        syn[10..12].fill(0);
        let sum: u32 = syn[..20].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        syn[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        for _ in 0..3 {
            hosts[from].send(&ethernet(mac("r", port), HOST, 0x0800, &syn));
        }
        net.settle();
        let packets = got(&mut hosts[to]);
        assert_eq!(packets.len(), 3, "{:?}", net.drops(node));
        assert!(packets.iter().all(|p| p[42..44] == 960u16.to_be_bytes()), "{packets:02x?}");
    }
    net.assert_conserved();
}
