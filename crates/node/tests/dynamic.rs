//! Addresses, routes and labels that a program gives a running node, beside its configuration.

mod net;

use ferrule_base::{DropReason, Duration, MacAddr, Rng};
use ferrule_dataplane::tables::IfaceKind;
use ferrule_node::{
    Delta, DynamicLabel, DynamicRoute, InterfaceAddress, IpPrefix, NextHop, Refused, RouteName,
};
use net::{Host, Net, agreed, ethernet, mac, udp4};
use std::fmt::Write;

const HOST: MacAddr = MacAddr([2, 0, 0xaa, 1, 2, 3]);
/// Two routers behind the core, and one in each VRF.
const ROUTERS: [[u8; 4]; 3] = [[192, 0, 2, 8], [192, 0, 2, 9], [10, 1, 0, 9]];

/// A node between a customer of VRF red, one of the global table, and a core.
fn text(workers: usize, more: &str) -> String {
    format!(
        "[node]\nname = \"r\"\nlab = true\nworkers = {workers}\n\
         [[port]]\nname = \"red\"\ndriver = \"wire\"\n\
         [[port]]\nname = \"lan\"\ndriver = \"wire\"\n\
         [[port]]\nname = \"core\"\ndriver = \"wire\"\nmtu = 1600\n\
         [[interface]]\nport = \"red\"\nvrf = \"red\"\naddress = [\"10.1.0.1/24\"]\n\
         [[interface]]\nport = \"lan\"\naddress = [\"10.1.0.1/24\"]\n\
         [[interface]]\nport = \"core\"\nmpls = true\naddress = [\"192.0.2.1/24\"]\n{more}"
    )
}

struct Node {
    net: Net,
    red: Host,
    lan: Host,
    core: Host,
}

impl Node {
    fn new(workers: usize, more: &str) -> Self {
        let mut net = Net::new();
        let node = net.node(&text(workers, more));
        let [red, lan, core] = ["red", "lan", "core"].map(|port| net.host(node, port));
        net.settle();
        let mut node = Self { net, red, lan, core };
        node.meet();
        node
    }

    /// Neighbours are known, and what was asked of them is forgotten.
    fn meet(&mut self) {
        self.net.settle();
        let tables = self.net.members[0].control.tables().clone();
        for iface in 0..tables.ifaces.len() as u16 {
            for (router, last) in ROUTERS.iter().zip(1..) {
                let mac = MacAddr([2, 0, 0xbb, 0, 0, last]);
                tables.neighbours.set(iface, (*router).into(), mac);
            }
        }
        self.hear();
    }

    fn change(&mut self, deltas: Vec<Delta>) -> Result<(), Refused> {
        let now = self.net.now;
        let token = self.net.members[0].control.change_entries(now, deltas);
        self.meet();
        let answer = self.net.members[0].control.poll_changed();
        let (answered, result) = answer.expect("an answer");
        assert_eq!(answered, token);
        assert_eq!(self.net.members[0].control.poll_changed(), None, "one answer");
        result
    }

    fn apply(&mut self, more: &str) {
        let workers = self.net.members[0].workers.len();
        self.net.apply(0, &text(workers, more));
        self.meet();
    }

    /// Frames that leave by each port, but for ARP, ND and ICMP errors.
    fn hear(&mut self) -> [Vec<Vec<u8>>; 3] {
        [&mut self.red, &mut self.lan, &mut self.core].map(|host| {
            let mut all = host.received();
            all.retain(|f| match f[12..14] {
                [8, 0] => f[23] != 1 || f[34] == 0,
                [0x86, 0xdd] => f[20] != 58,
                ref other => other != [8, 6],
            });
            all
        })
    }

    /// Frames that leave when an IPv4 packet comes from a customer, or labelled from the core.
    fn send(&mut self, port: &str, labels: &[u32], to: [u8; 4]) -> [Vec<Vec<u8>>; 3] {
        let packet = udp4([10, 1, 0, 9], to, (7, 9), 64, 0x5a);
        let mut octets = Vec::new();
        for (n, label) in labels.iter().enumerate() {
            let bottom = u32::from(n + 1 == labels.len());
            octets.extend((label << 12 | bottom << 8 | 64).to_be_bytes());
        }
        octets.extend(packet);
        let ethertype = if labels.is_empty() { 0x0800 } else { 0x8847 };
        let host = match port {
            "red" => &mut self.red,
            "lan" => &mut self.lan,
            _ => &mut self.core,
        };
        host.send(&ethernet(mac("r", port), HOST, ethertype, &octets));
        self.net.settle();
        self.hear()
    }

    fn leaves(&mut self, port: &str, labels: &[u32], to: [u8; 4]) -> Option<(usize, Vec<u8>)> {
        let all = self.send(port, labels, to);
        let mut all =
            all.into_iter().enumerate().flat_map(|(n, f)| f.into_iter().map(move |f| (n, f)));
        let first = all.next();
        assert!(all.next().is_none(), "one packet is one");
        first
    }
}

fn prefix(text: &str) -> IpPrefix {
    text.parse().unwrap()
}

fn hop(via: [u8; 4], labels: &[u32]) -> NextHop {
    NextHop { via: Some(via.into()), interface: None, labels: labels.to_vec() }
}

fn route(vrf: &str, to: &str, paths: Vec<NextHop>) -> Delta {
    let (vrf, prefix) = (vrf.into(), prefix(to));
    Delta::SetRoute(DynamicRoute { vrf, prefix, paths, pipe: false, entropy_label: false })
}

fn no_route(vrf: &str, to: &str) -> Delta {
    Delta::DropRoute(RouteName { vrf: vrf.into(), prefix: prefix(to) })
}

fn label(label: u32, vrf: Option<&str>, paths: Vec<NextHop>) -> Delta {
    Delta::SetLabel(DynamicLabel { label, vrf: vrf.map(Into::into), paths, pipe: false })
}

fn address(interface: &str, address: &str) -> InterfaceAddress {
    InterfaceAddress { interface: interface.into(), address: prefix(address) }
}

#[test]
fn a_route_changes_under_traffic_and_no_packet_is_lost() {
    for workers in [1, 3] {
        let mut node = Node::new(workers, "");
        let to = [10, 9, 0, 1];
        assert_eq!(node.leaves("red", &[], to), None);
        assert_eq!(node.net.dropped(0, DropReason::NoRoute), 0, "the sender is told");
        node.change(vec![route("red", "10.9.0.0/24", vec![hop(ROUTERS[0], &[100, 200])])]).unwrap();
        let frame =
            ethernet(mac("r", "red"), HOST, 0x0800, &udp4([10, 1, 0, 9], to, (7, 9), 64, 1));
        let (mut sent, mut heard, mut macs) = (0, 0, Vec::new());
        for round in 0..40_usize {
            let by = vec![hop(ROUTERS[round % 2], &[100 + round as u32, 200])];
            let now = node.net.now;
            let control = &mut node.net.members[0].control;
            control.change_entries(now, vec![route("red", "10.9.0.0/24", by)]);
            for _ in 0..5 {
                node.red.send(&frame);
                sent += 1;
                // Not settled: tables change between these turns.
                node.net.now += net::STEP;
                let now = node.net.now;
                let member = &mut node.net.members[0];
                member.workers.iter_mut().for_each(|worker| _ = worker.turn(now));
                member.control.turn(now);
            }
            let out = node.core.received();
            heard += out.iter().filter(|f| f[12..14] == [0x88, 0x47]).count();
            macs.extend(out.iter().filter(|f| f[12..14] == [0x88, 0x47]).map(|f| f[5]));
        }
        node.net.settle();
        heard += node.hear()[2].len();
        assert_eq!((heard, sent), (200, 200), "{workers} workers");
        assert!(macs.contains(&1) && macs.contains(&2), "both ways were taken");
        let control = &mut node.net.members[0].control;
        let answers: Vec<_> = std::iter::from_fn(|| control.poll_changed()).collect();
        assert_eq!(answers.len(), 40);
        assert!(answers.iter().all(|(_, answer)| answer.is_ok()));
        node.change(vec![no_route("red", "10.9.0.0/24")]).unwrap();
        assert_eq!(node.leaves("red", &[], to), None);
        node.net.assert_conserved();
    }
}

/// Entries in force, as those of a file.
#[derive(Default)]
struct Model {
    routes: std::collections::BTreeMap<(String, String), Vec<NextHop>>,
    labels: std::collections::BTreeMap<u32, (Option<String>, Vec<NextHop>)>,
}

fn paths(hops: &[NextHop], word: &str) -> String {
    let hops = hops.iter().map(|hop| {
        let via = hop.via.unwrap();
        match (hop.labels.is_empty(), word) {
            (true, "swap") => format!("{{ via = \"{via}\", pop = true }}"),
            (true, _) => format!("{{ via = \"{via}\" }}"),
            _ => format!("{{ via = \"{via}\", {word} = {:?} }}", hop.labels),
        }
    });
    hops.collect::<Vec<_>>().join(", ")
}

impl Model {
    fn text(&self) -> String {
        let mut text = String::new();
        for ((vrf, prefix), hops) in &self.routes {
            let vrf = if vrf.is_empty() { String::new() } else { format!("vrf = \"{vrf}\"\n") };
            let way = match hops.is_empty() {
                true => "discard = true".into(),
                false => format!("paths = [{}]", paths(hops, "labels")),
            };
            let _ = write!(text, "[[route]]\n{vrf}prefix = \"{prefix}\"\n{way}\n");
        }
        for (label, (vrf, hops)) in &self.labels {
            let way = match vrf {
                Some(vrf) => format!("vrf = \"{vrf}\""),
                None => format!("paths = [{}]", paths(hops, "swap")),
            };
            let _ = write!(text, "[[label]]\nlabel = {label}\n{way}\n");
        }
        text
    }

    /// A random change, made here, too.
    fn change(&mut self, rng: &mut Rng) -> Delta {
        let vrf = if rng.one_in(2) { "red" } else { "" };
        let to = format!("10.{}.0.0/{}", 9 + rng.below(3), 16 + 4 * rng.below(3));
        let hops = |rng: &mut Rng, most: u64, of_red: bool| -> Vec<NextHop> {
            let hop = |_| {
                let labels: Vec<u32> = (0..rng.below(3)).map(|n| 100 + n as u32).collect();
                // Without labels, a route stays in its table.
                match (labels.is_empty(), of_red) {
                    (true, true) => hop(ROUTERS[2], &[]),
                    _ => hop(ROUTERS[rng.below(2) as usize], &labels),
                }
            };
            (0..1 + most.min(3)).map(hop).collect()
        };
        let number = 300 + rng.below(4) as u32;
        match rng.below(6) {
            0 | 1 => {
                let most = rng.below(3);
                let hops = if rng.one_in(8) { Vec::new() } else { hops(rng, most, vrf == "red") };
                self.routes.insert((vrf.into(), to.clone()), hops.clone());
                route(vrf, &to, hops)
            }
            2 => match self.routes.pop_first() {
                Some(((vrf, to), _)) => no_route(&vrf, &to),
                None => Delta::Clear {},
            },
            3 => {
                self.labels.insert(number, (Some("red".into()), Vec::new()));
                label(number, Some("red"), Vec::new())
            }
            4 => {
                let most = rng.below(2);
                let hops = hops(rng, most, false);
                self.labels.insert(number, (None, hops.clone()));
                label(number, None, hops)
            }
            _ => match self.labels.pop_last() {
                Some((label, _)) => Delta::DropLabel { label },
                None => {
                    *self = Self::default();
                    Delta::Clear {}
                }
            },
        }
    }
}

/// A node that was told things forwards as one that was started with them in its file.
#[test]
fn dynamic_entries_forward_as_those_of_a_file_do() {
    let mut left = 0;
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let (mut model, mut node) = (Model::default(), Node::new(1 + seed as usize % 2, ""));
        for _ in 0..6 {
            let count = 1 + rng.below(4);
            let mut deltas: Vec<Delta> = Vec::new();
            for _ in 0..count {
                let delta = model.change(&mut rng);
                if delta == (Delta::Clear {}) {
                    model = Model::default();
                }
                deltas.push(delta);
            }
            let told = format!("seed {seed}: {deltas:?}\n{}", model.text());
            node.change(deltas).unwrap_or_else(|e| panic!("{told}: {e:?}"));
            let mut other = Node::new(1, &model.text());
            let packets = (0..12).map(|n| {
                let to = [10, 9 + rng.below(3) as u8, 16 * rng.below(3) as u8, 9];
                match n % 3 {
                    0 => ("red", vec![], to),
                    1 => ("lan", vec![], to),
                    _ => ("core", vec![300 + rng.below(4) as u32, 400], to),
                }
            });
            for (port, labels, to) in packets.collect::<Vec<_>>() {
                // A label to a table is the last one.
                for labels in [&labels[..], &labels[..labels.len().min(1)]] {
                    let have = node.send(port, labels, to);
                    let want = other.send(port, labels, to);
                    assert_eq!(have, want, "{told}: {port} {labels:?} {to:?}");
                    left += have.iter().flatten().count();
                }
            }
        }
        node.net.assert_conserved();
    }
    assert!(left > 500, "{left} packets left");
}

#[test]
fn the_file_comes_first_and_what_it_no_longer_says_is_the_programs() {
    let to = [10, 9, 0, 1];
    let of_file = "[[route]]\nprefix = \"10.9.0.0/24\"\nvia = \"192.0.2.8\"\n\
                   [[label]]\nlabel = 300\nvrf = \"red\"\n";
    let mut node = Node::new(1, of_file);
    node.change(vec![
        route("", "10.9.0.0/24", vec![hop(ROUTERS[1], &[])]),
        label(300, None, vec![hop(ROUTERS[1], &[301])]),
    ])
    .unwrap();
    let by = |left: Option<(usize, Vec<u8>)>| left.map(|(port, frame)| (port, frame[5]));
    assert_eq!(by(node.leaves("lan", &[], to)), Some((2, 1)));
    assert_eq!(by(node.leaves("core", &[300], [10, 1, 0, 9])), Some((0, 3)));
    node.apply("");
    assert_eq!(by(node.leaves("lan", &[], to)), Some((2, 2)));
    assert_eq!(by(node.leaves("core", &[300], to)), Some((2, 2)));
    node.apply(of_file);
    assert_eq!(by(node.leaves("lan", &[], to)), Some((2, 1)));
    node.apply("");
    assert_eq!(by(node.leaves("lan", &[], to)), Some((2, 2)));
    node.change(vec![Delta::Clear {}]).unwrap();
    assert_eq!(node.leaves("lan", &[], to), None);
    assert_eq!(node.leaves("core", &[300], to), None);
    node.net.assert_conserved();
}

#[test]
fn a_route_waits_for_the_network_of_its_next_hop() {
    let mut node = Node::new(2, "");
    let to = [10, 9, 0, 1];
    let there = [203, 0, 113, 9];
    node.change(vec![
        Delta::AddAddress(address("core", "203.0.113.1/24")),
        route("", "10.9.0.0/24", vec![hop(there, &[])]),
    ])
    .unwrap();
    let tables = node.net.members[0].control.tables().clone();
    (0..tables.ifaces.len() as u16).for_each(|iface| {
        tables.neighbours.set(iface, there.into(), HOST);
    });
    assert!(node.leaves("lan", &[], to).is_some());
    node.change(vec![Delta::DropAddress(address("core", "203.0.113.1/24"))]).unwrap();
    assert_eq!(node.leaves("lan", &[], to), None, "nothing leads there");
    node.change(vec![Delta::AddAddress(address("core", "203.0.113.1/24"))]).unwrap();
    let tables = node.net.members[0].control.tables().clone();
    (0..tables.ifaces.len() as u16).for_each(|iface| {
        tables.neighbours.set(iface, there.into(), HOST);
    });
    assert!(node.leaves("lan", &[], to).is_some(), "it was only waiting");
}

#[test]
fn a_dynamic_address_is_the_nodes_own_while_it_is_there() {
    let mut node = Node::new(1, "");
    let echo = |to: [u8; 4]| {
        let mut packet = udp4([10, 1, 0, 9], to, (0x0800, 0xf7ff), 28, 0);
        packet[9] = 1;
        packet[10..12].fill(0);
        let sum: u32 = packet[..20].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet[20..].copy_from_slice(&[8, 0, 0xf7, 0xff, 0, 0, 0, 0]);
        ethernet(mac("r", "lan"), HOST, 0x0800, &packet)
    };
    let answers = |node: &mut Node, to| {
        node.lan.send(&echo(to));
        node.net.settle();
        node.hear()[1].iter().filter(|f| f[14 + 9] == 1 && f[14 + 20] == 0).count()
    };
    let own = [10, 1, 0, 77];
    assert_eq!(answers(&mut node, own), 0);
    node.change(vec![Delta::AddAddress(address("lan", "10.1.0.77/24"))]).unwrap();
    assert_eq!(answers(&mut node, own), 1);
    assert_eq!(answers(&mut node, [10, 1, 0, 1]), 1);
    node.change(vec![Delta::DropAddress(address("lan", "10.1.0.77/24"))]).unwrap();
    assert_eq!((answers(&mut node, own), answers(&mut node, [10, 1, 0, 1])), (0, 1));
}

#[test]
fn a_batch_is_refused_whole_and_says_why() {
    let mut node = Node::new(1, "[[route]]\nprefix = \"10.8.0.0/24\"\nvia = \"192.0.2.8\"\n");
    let none = || Vec::<NextHop>::new();
    let nowhere = NextHop { via: None, interface: None, labels: Vec::new() };
    let other = NextHop { interface: Some("wan".into()), ..hop(ROUTERS[0], &[]) };
    let entropy = match route("", "10.7.0.0/24", vec![hop(ROUTERS[0], &[])]) {
        Delta::SetRoute(route) => Delta::SetRoute(DynamicRoute { entropy_label: true, ..route }),
        delta => delta,
    };
    let wrong = [
        (route("blue", "10.7.0.0/24", none()), "no VRF `blue`"),
        (route("", "10.7.0.1/24", none()), "bits set behind the prefix"),
        (route("", "10.7.0.0/24", vec![hop(ROUTERS[0], &[]); 100]), "paths"),
        (route("", "10.7.0.0/24", vec![hop(ROUTERS[0], &[100; 100])]), "labels"),
        (route("", "10.7.0.0/24", vec![hop(ROUTERS[0], &[3])]), "3 is no label"),
        (route("", "10.7.0.0/24", vec![hop([224, 0, 0, 5], &[])]), "next hop"),
        (route("", "10.7.0.0/24", vec![hop([0; 4], &[])]), "next hop"),
        (route("", "10.7.0.0/24", vec![nowhere]), "leads nowhere"),
        (route("", "10.7.0.0/24", vec![other]), "no interface `wan`"),
        (entropy, "entropy label"),
        (label(1, Some("red"), none()), "1 is no label"),
        (label(1 << 20, Some("red"), none()), "is no label"),
        (label(300, Some("blue"), none()), "no VRF `blue`"),
        (label(300, None, none()), "a VRF, or paths"),
        (label(300, Some("red"), vec![hop(ROUTERS[0], &[])]), "a VRF, or paths"),
        (Delta::AddAddress(address("wan", "10.7.0.1/24")), "no interface `wan`"),
        (Delta::AddAddress(address("lan", "10.7.0.0/24")), "no address of a host"),
        (Delta::AddAddress(address("lan", "10.1.0.1/24")), "interface `lan` of the file"),
    ];
    let before = node.net.members[0].control.tables().clone();
    for (delta, why) in wrong {
        let good = route("", "10.9.0.0/24", vec![hop(ROUTERS[1], &[])]);
        let refused = node.change(vec![good, delta.clone()]);
        let Err(Refused(told)) = refused else { panic!("{delta:?} is taken") };
        assert!(told.contains(why), "{delta:?}: {told}");
        assert_eq!(node.leaves("lan", &[], [10, 9, 0, 1]), None, "{delta:?}");
    }
    let after = node.net.members[0].control.tables();
    assert!(std::sync::Arc::ptr_eq(&before, after), "nothing was compiled");
}

/// To drop what is not there is no fault; nor what stands in the file, which stays.
#[test]
fn drops_of_what_is_not_there_are_done_at_once() {
    let mut node = Node::new(1, "[[route]]\nprefix = \"10.8.0.0/24\"\nvia = \"192.0.2.8\"\n");
    let drops = vec![
        no_route("", "10.8.0.0/24"),
        Delta::DropLabel { label: 300 },
        Delta::DropAddress(address("lan", "10.1.0.1/24")),
    ];
    node.change(drops).unwrap();
    assert!(node.leaves("lan", &[], [10, 8, 0, 1]).is_some());
}

#[test]
fn a_refused_batch_leaves_all_as_it_was() {
    let mut node = Node::new(1, "");
    let (lan, core) = (address("lan", "10.7.0.1/24"), address("core", "10.6.0.1/24"));
    let by = |router: usize| vec![hop(ROUTERS[router], &[])];
    let red = |number| label(number, Some("red"), Vec::new());
    let first = vec![route("", "10.9.0.0/24", by(0)), red(300), Delta::AddAddress(lan.clone())];
    node.change(first).unwrap();
    let before = node.leaves("lan", &[], [10, 9, 0, 1]);
    assert!(before.is_some());
    let wrong = route("blue", "10.9.0.0/24", by(0));
    for deltas in [
        [Delta::Clear {}, route("", "10.9.0.0/24", by(1))],
        [no_route("", "10.9.0.0/24"), route("", "10.9.0.0/24", by(1))],
        [Delta::DropLabel { label: 300 }, Delta::DropAddress(lan)],
        [Delta::AddAddress(core), red(301)],
    ] {
        let batch = [&deltas[..], std::slice::from_ref(&wrong)].concat();
        let Err(Refused(told)) = node.change(batch) else { panic!("{deltas:?} are taken") };
        assert!(told.starts_with("entry 3: "), "{told}");
    }
    // So that it is compiled.
    node.change(vec![Delta::DropLabel { label: 302 }]).unwrap();
    assert_eq!(node.leaves("lan", &[], [10, 9, 0, 1]), before);
    assert!(node.leaves("core", &[300], [10, 1, 0, 9]).is_some());
    assert!(node.leaves("core", &[301], [10, 1, 0, 9]).is_none());
    let ifaces = &node.net.members[0].control.tables().ifaces;
    let addresses = |name: &str| match &ifaces.iter().find(|i| &*i.name == name).unwrap().kind {
        IfaceKind::Routed(routed) => routed.v4.len(),
        _ => 0,
    };
    assert_eq!((addresses("lan"), addresses("core")), (2, 1));
}

/// An address of a program neither takes a network from the file nor a next hop from the
/// interface that has it by the file: what a policy protects would leave in clear elsewhere.
#[test]
fn addresses_take_nothing_from_the_file() {
    let file = "[[route]]\nprefix = \"10.9.0.0/24\"\nvia = \"192.0.2.8\"\n";
    let mut node = Node::new(1, file);
    let by = |node: &mut Node, to| node.leaves("lan", &[], to).map(|(port, _)| port);
    node.change(vec![route("", "10.10.0.0/24", vec![hop(ROUTERS[1], &[])])]).unwrap();
    for taken in [
        // The network of a route, and that of an interface, of the file.
        address("lan", "10.9.0.7/24"),
        address("lan", "192.0.2.77/24"),
        // Around the next hops, on other interfaces.
        address("lan", "192.0.3.1/16"),
        address("red", "192.0.3.2/16"),
    ] {
        node.change(vec![Delta::AddAddress(taken.clone())]).unwrap();
        for to in [[10, 9, 0, 1], [10, 10, 0, 1], [192, 0, 2, 9]] {
            assert_eq!(by(&mut node, to), Some(2), "{to:?} with {taken:?}");
        }
    }
    // A labelled way leads by the provider's network, not by one that a VRF was given.
    node.change(vec![
        Delta::AddAddress(address("red", "203.0.113.1/24")),
        route("red", "10.11.0.0/24", vec![hop([203, 0, 113, 9], &[100])]),
    ])
    .unwrap();
    assert_eq!(node.leaves("red", &[], [10, 11, 0, 1]), None);
    let other = node.change(vec![Delta::AddAddress(address("red", "203.0.113.1/16"))]);
    assert!(other.is_err_and(|Refused(told)| told.contains("drop it first")));
}

/// A view of the node has what is in force, and nothing else.
#[test]
fn entries_that_wait_are_not_said_to_be_in_force() {
    let mut node = Node::new(1, "[[route]]\nprefix = \"10.9.0.0/24\"\nvia = \"192.0.2.8\"\n");
    let by = || vec![hop(ROUTERS[1], &[])];
    // To networks of the file, and of an address; by own addresses; one that is in force.
    node.change(vec![
        Delta::AddAddress(address("lan", "10.9.0.7/24")),
        Delta::AddAddress(address("lan", "10.12.0.1/24")),
        Delta::AddAddress(address("core", "10.12.0.2/24")),
        route("", "10.9.0.0/24", by()),
        route("", "192.0.2.0/24", by()),
        route("", "10.12.0.0/24", by()),
        route("", "10.13.0.0/24", vec![hop([192, 0, 2, 1], &[])]),
        route("", "10.14.0.0/24", vec![hop([10, 12, 0, 1], &[])]),
        route("", "10.15.0.0/24", by()),
    ])
    .unwrap();
    let view = node.net.members[0].control.view();
    let routes: Vec<_> = view.dynamic_routes().iter().map(|r| r.prefix.0.to_string()).collect();
    assert_eq!(routes, ["10.15.0.0"]);
    let mut networks: Vec<_> =
        view.dynamic_addresses().iter().map(|a| (a.address.0.to_string(), a.has_network)).collect();
    networks.sort();
    let own = [("10.12.0.1", false), ("10.12.0.2", true), ("10.9.0.7", false)];
    assert_eq!(networks, own.map(|(address, has)| (address.to_owned(), has)));
    for (to, leaves) in [([10, 13, 0, 1], false), ([10, 14, 0, 1], false), ([10, 15, 0, 1], true)] {
        assert_eq!(node.leaves("lan", &[], to).is_some(), leaves, "{to:?}");
    }
    // The next hop becomes the node's own, and is no longer.
    let next_hop = || address("core", "192.0.2.9/24");
    node.change(vec![Delta::AddAddress(next_hop())]).unwrap();
    assert!(node.net.members[0].control.view().dynamic_routes().is_empty());
    node.change(vec![Delta::DropAddress(next_hop())]).unwrap();
    assert_eq!(node.net.members[0].control.view().dynamic_routes().len(), 1);
}

/// Next hops that nobody is leave room for hosts of the LAN.
#[test]
fn many_next_hops_keep_out_no_neighbour() {
    let mut node = Node::new(1, "");
    let deltas = (0..5_000).map(|n| {
        let via = [10, 200, (n >> 8) as u8, n as u8];
        let via = NextHop { interface: Some("core".into()), ..hop(via, &[]) };
        route("", &format!("10.{}.{}.0/24", 100 + (n >> 8), n & 255), vec![via])
    });
    node.change(deltas.collect()).unwrap();
    node.net.wait(Duration::from_secs(5));
    // Hosts ask for the node, which then knows them.
    for n in 0..40 {
        let sender = [2, 0, 0xcc, 0, 0, n];
        let (asks, host) = ([0, 1, 8, 0, 6, 4, 0, 1], [10, 1, 0, 100 + n]);
        let arp = [&asks[..], &sender, &host, &[0; 6], &[10, 1, 0, 1]].concat();
        node.lan.send(&ethernet(MacAddr([0xff; 6]), MacAddr(sender), 0x0806, &arp));
        node.net.settle();
    }
    node.net.wait(Duration::from_secs(5));
    let known = node.net.members[0].control.neighbours();
    let hosts = known.iter().filter(|(interface, ..)| interface == "lan").count();
    assert!(hosts >= 40, "{hosts} hosts of the LAN are known");
}

/// Batches wait for a change that is under way, and go together.
#[test]
fn batches_that_wait_are_compiled_once_and_each_is_answered() {
    let mut node = Node::new(2, "");
    node.net.apply(0, &text(2, "[[route]]\nprefix = \"10.8.0.0/24\"\nvia = \"192.0.2.8\"\n"));
    let now = node.net.now;
    let control = &mut node.net.members[0].control;
    assert!(control.is_changing());
    let before = control.tables().hits.generation;
    let tokens: Vec<_> = (0..100)
        .map(|n| {
            let to = format!("10.9.{n}.0/{}", if n % 10 == 0 { 8 } else { 24 });
            control.change_entries(now, vec![route("", &to, vec![hop(ROUTERS[0], &[])])])
        })
        .collect();
    assert_eq!(control.poll_changed(), None, "none is in force");
    node.meet();
    let control = &mut node.net.members[0].control;
    assert_eq!(control.tables().hits.generation, before + 1);
    let mut answers: Vec<_> = std::iter::from_fn(|| control.poll_changed()).collect();
    answers.sort_by_key(|(token, _)| token.0);
    assert_eq!(answers.iter().map(|(token, _)| *token).collect::<Vec<_>>(), tokens);
    for ((_, answer), n) in answers.iter().zip(0..) {
        assert_eq!(answer.is_ok(), n % 10 != 0, "10.9.{n}.0");
        let left = node.leaves("lan", &[], [10, 9, n, 1]);
        assert_eq!(left.is_some(), n % 10 != 0, "10.9.{n}.0");
    }
    node.net.assert_conserved();
}

/// Ever other next hops take no places of the neighbour table for good.
#[test]
fn next_hops_that_are_gone_leave_room_for_neighbours() {
    let mut node = Node::new(1, "");
    let core = |n: u32| [10, 200, (n >> 8) as u8, n as u8];
    for round in 0..45 {
        let deltas = (0..2_000).map(|n| {
            let via = [130 + round as u8, 1, (n >> 8) as u8, n as u8];
            let by = NextHop { interface: Some("core".into()), ..hop(via, &[]) };
            route("", &format!("10.{}.{}.0/24", 100 + (n >> 8), n & 255), vec![by])
        });
        node.change(deltas.collect()).unwrap();
    }
    let tables = node.net.members[0].control.tables().clone();
    let held = tables.adjacencies.iter().filter(|a| a.neighbour.is_some()).count();
    assert!((2_000..=4_200).contains(&held), "{held} next hops have a place");
    let iface = tables.ifaces.iter().position(|i| &*i.name == "core").unwrap() as u16;
    let found = (0..20_000).filter(|&n| tables.neighbours.set(iface, core(n).into(), HOST));
    assert_eq!(found.count(), 20_000, "neighbours find room");
}

/// An SA that a program gave, and its number, stay through changes of routes.
#[test]
fn associations_stay_when_routes_change() {
    let tunnel = "[[tunnel]]\nname = \"t\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.8\"\n\
                  suite = \"aes-gcm-128\"\nkeying = \"external\"\n\
                  [[policy]]\ninterface = \"core\"\naction = \"protect\"\ntunnel = \"t\"\n\
                  remote = \"10.9.0.0/16\"\n";
    let mut node = Node::new(1, tunnel);
    let control = &mut node.net.members[0].control;
    control.order(ferrule_node::SaOrder::AddOutbound(agreed("t", 0x2001)));
    node.net.settle();
    let control = &mut node.net.members[0].control;
    let (_, sa) = control.poll_answer().unwrap();
    control.order(ferrule_node::SaOrder::Use(sa.unwrap(), None));
    node.meet();
    let mut numbers = Vec::new();
    for round in 0..6 {
        let by = vec![hop(ROUTERS[1], &[100 + round])];
        node.change(vec![route("", "10.9.0.0/24", by)]).unwrap();
        let (port, frame) = node.leaves("lan", &[], [10, 9, 0, 1]).expect("it is sealed");
        assert_eq!((port, frame[23]), (2, 50), "ESP by the core");
        numbers.push(u32::from_be_bytes(frame[38..42].try_into().unwrap()));
    }
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    node.net.assert_conserved();
}
