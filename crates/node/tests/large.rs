//! A configuration of 100,000 routes and 10,000 tunnels is one like any other: every
//! entry is there, the last one works, and a change of one leaves the others alone.

mod net;

use ferrule_base::MacAddr;
use ferrule_dataplane::route::Route;
use ferrule_tester::Large;
use net::{Host, Net, ethernet, mac, udp4};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

const HOSTS: [MacAddr; 2] = [MacAddr([2, 0, 0xaa, 0, 0, 1]), MacAddr([2, 0, 0xbb, 0, 0, 2])];

/// The host at the large gateway.
const HERE: [u8; 4] = [10, 0, 0, 9];

/// The gateway at the other end of one tunnel, which is the first next hop, too.
fn other(large: Large, tunnel: usize) -> String {
    let (gateway, behind) = (large.gateway(tunnel), large.behind(tunnel));
    let inside = Ipv4Addr::from_bits(behind.to_bits() + 1);
    let [(to, to_key), (from, from_key)] = large.sas(tunnel);
    format!(
        r#"
        [node]
        name = "other"
        lab = true
        [[port]]
        name = "wan"
        driver = "wire"
        [[port]]
        name = "lan"
        driver = "wire"
        [[interface]]
        port = "wan"
        address = ["{hop}/12", "{gateway}/32"]
        [[interface]]
        port = "lan"
        address = ["{inside}/24"]
        [[route]]
        prefix = "10.0.0.0/8"
        via = "{local}"
        [[tunnel]]
        name = "t"
        local = "{gateway}"
        remote = "{local}"
        suite = "aes-gcm-128"
        out = {{ spi = {from}, key = "{from_key}" }}
        in = {{ spi = {to}, key = "{to_key}" }}
        [[policy]]
        interface = "wan"
        action = "protect"
        tunnel = "t"
        local = "{behind}/24"
        remote = "10.0.0.0/8"
        "#,
        hop = large.next_hop(0),
        local = Large::LOCAL,
    )
}

/// Two gateways with a host at each.
struct Two {
    net: Net,
    hosts: [Host; 2],
    /// The host at the other gateway.
    there: [u8; 4],
}

impl Two {
    fn new(large: Large, tunnel: usize) -> Self {
        let mut net = Net::new();
        let nodes = [net.node(&large.text()), net.node(&other(large, tunnel))];
        let hosts = nodes.map(|node| net.host(node, "lan"));
        net.join((nodes[0], "wan"), (nodes[1], "wan"));
        net.settle();
        let there = Ipv4Addr::from_bits(large.behind(tunnel).to_bits() + 7);
        let known: [&[(IpAddr, MacAddr)]; 2] = [
            &[(HERE.into(), HOSTS[0]), (large.next_hop(0).into(), mac("other", "wan"))],
            &[(there.into(), HOSTS[1]), (Large::LOCAL.into(), mac("large", "wan"))],
        ];
        for (node, known) in nodes.into_iter().zip(known) {
            let tables = net.members[node].control.tables().clone();
            for iface in 0..tables.ifaces.len() as u16 {
                for &(address, mac) in known {
                    tables.neighbours.set(iface, address, mac);
                }
            }
        }
        Self { net, hosts, there: there.octets() }
    }

    /// Packets that arrive of one that a host sends to the other.
    fn carries(&mut self, from: usize) -> usize {
        let packet = match from {
            0 => udp4(HERE, self.there, (7, 9), 100, 5),
            _ => udp4(self.there, HERE, (7, 9), 100, 5),
        };
        self.hosts.iter_mut().for_each(|host| drop(host.received()));
        let to = mac(["large", "other"][from], "lan");
        self.hosts[from].send(&ethernet(to, HOSTS[from], 0x0800, &packet));
        self.net.settle();
        let frames = self.hosts[1 - from].received();
        frames.iter().filter(|frame| frame.ends_with(&packet[20..])).count()
    }

    /// Packets that the SAs of a tunnel of the large gateway carried, out and in.
    fn counted(&mut self, name: &str) -> [u64; 2] {
        let report = self.net.reports(0).remove(0);
        [report.esp_out, report.esp_in]
            .map(|sas| sas.iter().filter(|sa| sa.name == name).map(|sa| sa.stats.packets).sum())
    }
}

/// Every route leads to its own next hop.
fn assert_routes(net: &Net, large: Large) {
    let tables = net.members[0].control.tables();
    let mut hops: HashMap<Ipv4Addr, u32> = HashMap::new();
    for route in 0..large.routes {
        // Of a network of 20 bits what is in none of those of 24.
        let (network, len) = large.network(route);
        let host = if len == 20 { 1 } else { 200 };
        let found = tables.vrfs[0].v4(Ipv4Addr::from_bits(network.to_bits() + host));
        let Some(Route::Via(way)) = found else { panic!("{network}/{len}: {found:?}") };
        let hop = large.next_hop(route);
        assert_eq!(*hops.entry(hop).or_insert(way), way, "{network}/{len} goes by {hop}");
        assert!(tables.adjacencies[way as usize].neighbour.is_some(), "{hop} has a place");
    }
    let mut ways: Vec<u32> = hops.values().copied().collect();
    ways.sort_unstable();
    ways.dedup();
    assert_eq!((ways.len(), hops.len()), (large.next_hops, large.next_hops));
}

#[test]
fn the_last_of_ten_thousand_tunnels_carries_packets_both_ways_and_all_routes_are_there() {
    let large = Large { next_hops: 1000, ..Large::default() };
    let last = large.tunnels - 1;
    let mut two = Two::new(large, last);
    let config = two.net.members[0].control.config();
    assert_eq!((config.routes.len(), config.tunnels.len()), (100_002, 10_000));
    assert_eq!(config.policies.len(), 10_000);
    assert_routes(&two.net, large);
    let report = two.net.reports(0).remove(0);
    assert_eq!((report.esp_out.len(), report.esp_in.len()), (10_000, 10_000));
    assert_eq!((two.carries(0), two.carries(1)), (1, 1));
    assert_eq!(two.counted(&format!("t{last}")), [1, 1]);
    two.net.assert_conserved();
}

#[test]
fn a_change_of_one_entry_among_many_leaves_the_others_as_they_are() {
    let large = Large { routes: 2000, tunnels: 1000, ..Large::default() };
    let mut two = Two::new(large, 500);
    assert_eq!((two.carries(0), two.carries(1)), (1, 1));
    let less = Large { routes: 1999, tunnels: 999, ..large };
    two.net.apply(0, &less.text());
    two.net.settle();
    assert_routes(&two.net, less);
    let report = two.net.reports(0).remove(0);
    assert_eq!((report.esp_out.len(), report.esp_in.len()), (999, 999));
    assert_eq!((two.carries(0), two.carries(1)), (1, 1));
    // The SAs that stay are the same ones: they go on counting.
    assert_eq!(two.counted("t500"), [2, 2]);
    two.net.apply(0, &large.text());
    two.net.settle();
    assert_routes(&two.net, large);
    assert_eq!((two.carries(0), two.carries(1)), (1, 1));
    assert_eq!(two.counted("t500"), [3, 3]);
    two.net.assert_conserved();
}

#[test]
fn tunnels_that_go_together_go_however_deep_they_are_in_one_another() {
    let text = |deep: usize| {
        let mut text = "[node]\nname = \"deep\"\nlab = true\n[[port]]\nname = \"a\"\n\
             driver = \"wire\"\n[[interface]]\nport = \"a\"\naddress = [\"192.0.2.1/24\"]\n"
            .to_owned();
        for n in 0..deep {
            // The others stand directly within the first, in front of it in the file.
            let then = if n + 1 < deep { "then = \"u0\"\n" } else { "" };
            let name = if n + 1 < deep { format!("t{n}") } else { "u0".into() };
            text += &format!(
                "[[tunnel]]\nname = \"{name}\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
                 suite = \"aes-gcm-128\"\n{then}out = {{ spi = {}, key = \"gcm:{}\" }}\n\
                 in = {{ spi = {}, key = \"gcm:{}\" }}\n",
                0x1000 + n,
                1000 + 2 * n,
                0x9000 + n,
                1001 + 2 * n,
            );
        }
        text
    };
    let mut net = Net::new();
    let node = net.node(&text(3000));
    net.settle();
    assert_eq!(net.reports(node)[0].esp_out.len(), 3000);
    net.apply(node, &text(0));
    net.settle();
    let report = net.reports(node).remove(0);
    assert_eq!((report.esp_out.len(), report.esp_in.len()), (0, 0));
    net.assert_conserved();
}
