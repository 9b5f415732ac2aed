//! Neighbours for which the data path has no room: no packet is sent to them, the operator is
//! told, and once there is room they are found.

mod net;

use ferrule_base::{Duration, MacAddr};
use net::{Net, ethernet, mac, udp4};
use std::net::IpAddr;

const HOST: MacAddr = MacAddr([2, 0, 0xaa, 1, 2, 3]);
const CROWDED: MacAddr = MacAddr([2, 0, 0xbb, 1, 2, 3]);

const NODE: &str = r#"
    [node]
    name = "n"
    lab = true
    [[port]]
    name = "lan"
    driver = "wire"
    [[port]]
    name = "wan"
    driver = "wire"
    [[interface]]
    port = "lan"
    address = ["192.0.2.1/24"]
    [[interface]]
    port = "wan"
    address = ["10.0.0.1/8"]
"#;

/// Fills the table until a neighbour on an interface finds no room; that one.
fn crowd(net: &Net, iface: u16) -> [u8; 4] {
    let table = &net.members[0].control.tables().neighbours;
    let mut all = (0..1 << 20).map(|n: u32| (0x0a01_0000 + n).to_be_bytes());
    all.find(|ip| !table.set(iface, IpAddr::from(*ip), HOST)).expect("it is full somewhere")
}

/// An ARP message from a neighbour to an address of the node: 1 asks, 2 answers.
fn arp(operation: u8, from: (MacAddr, [u8; 4]), (port, to): (&str, [u8; 4])) -> Vec<u8> {
    let own = mac("n", port);
    let head = [0, 1, 8, 0, 6, 4, 0, operation];
    let body = [&head[..], &from.0.0, &from.1, &own.0, &to].concat();
    ethernet(own, from.0, 0x0806, &body)
}

#[test]
fn neighbour_without_room_in_the_table_is_refused_and_told_and_found_later() {
    let mut net = Net::new();
    let node = net.node(NODE);
    let (mut lan, mut wan) = (net.host(node, "lan"), net.host(node, "wan"));
    net.settle();
    let iface = net.members[node].control.tables().ifaces.iter().position(|i| &*i.name == "wan");
    let iface = iface.expect("an interface") as u16;
    let crowded = crowd(&net, iface);
    let address = IpAddr::from(crowded);
    let is_known = |net: &Net| {
        let known = net.members[node].control.neighbours();
        known.iter().any(|(_, ip, _)| *ip == address)
    };
    net.members[node].control.take_failures();
    lan.received();
    wan.received();
    // A packet makes the node ask; the answer finds no room.
    let packet = |fill| {
        let packet = udp4([192, 0, 2, 9], crowded, (7, 9), 100, fill);
        ethernet(mac("n", "lan"), HOST, 0x0800, &packet)
    };
    lan.send(&arp(1, (HOST, [192, 0, 2, 9]), ("lan", [192, 0, 2, 1])));
    lan.send(&packet(1));
    net.settle();
    let asked = |frames: &[Vec<u8>]| {
        let of = |f: &&Vec<u8>| f[12..14] == [8, 6] && f[20..22] == [0, 1] && f[38..42] == crowded;
        frames.iter().filter(of).count()
    };
    assert_eq!(asked(&wan.received()), 1);
    wan.send(&arp(2, (CROWDED, crowded), ("wan", [10, 0, 0, 1])));
    net.settle();
    let why = format!(
        "neighbour {address} on interface wan cannot be sent to: \
         the table of neighbours has no room where it belongs"
    );
    assert_eq!(net.members[node].control.take_failures(), [why]);
    assert!(!is_known(&net) && net.ledger(node).held == 0, "no packet waits");
    let told = lan.received().into_iter().filter(|f| f[12..14] == [8, 0] && f[34..36] == [3, 1]);
    assert_eq!(told.count(), 1, "its sender is told: host unreachable");
    // For a while packets for it end here, without a question for each.
    for fill in 0..20 {
        lan.send(&packet(fill));
        net.settle();
    }
    assert!(wan.received().is_empty() && net.ledger(node).held == 0);
    assert!(net.members[node].control.take_failures().is_empty());
    // There is room again.
    let table = net.members[node].control.tables().neighbours.clone();
    (0x0a01_0000..u32::from_be_bytes(crowded)).for_each(|ip: u32| {
        table.remove(iface, IpAddr::from(ip.to_be_bytes()));
    });
    net.wait(Duration::from_secs(5));
    lan.send(&packet(2));
    net.settle();
    assert_eq!(asked(&wan.received()), 1);
    wan.send(&arp(2, (CROWDED, crowded), ("wan", [10, 0, 0, 1])));
    net.settle();
    let arrived: Vec<_> = wan.received().into_iter().filter(|f| f[12..14] == [8, 0]).collect();
    assert_eq!((arrived.len(), &arrived[0][..6]), (1, &CROWDED.0[..]));
    assert!(is_known(&net));
    net.assert_conserved();
}
