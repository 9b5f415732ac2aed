//! A configuration that changes while packets pass: nothing is lost, no nonce comes
//! twice, no window opens again, and what is refused changes nothing.

#[path = "../net/mod.rs"]
mod net;

mod counters;
mod lives;
mod refused;
mod several;
mod steps;
mod windows;

use ferrule_base::MacAddr;
use net::{Host, Net, ethernet, mac, udp4};

const HOST_A: MacAddr = MacAddr([2, 0, 0xaa, 1, 2, 3]);
const HOST_B: MacAddr = MacAddr([2, 0, 0xbb, 1, 2, 3]);

/// A node `name` with a LAN 10.x.0.0/24, and these pairs and policies.
fn gateway(name: &str, own: u8, other: u8, pairs: &str, extra: &str) -> String {
    format!(
        r#"
        [node]
        name = "{name}"
        lab = true
        reserve = 256
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
        address = ["10.{own}.0.1/24"]
        [[interface]]
        port = "wan"
        address = ["192.0.2.{own}/24"]
        [[route]]
        prefix = "10.{other}.0.0/16"
        via = "192.0.2.{other}"
        {pairs}
        "#
    )
}

/// A pair of SAs between the gateways; `ways` is what comes after `out` and `in`.
fn pair(name: &str, own: u8, other: u8, ways: [&str; 2], more: &str) -> String {
    let kind = if name.starts_with("outer") { "transport" } else { "tunnel" };
    format!(
        r#"
        [[{kind}]]
        name = "{name}"
        local = "192.0.2.{own}"
        remote = "192.0.2.{other}"
        out = {{ {} }}
        in = {{ {} }}
        {more}
        "#,
        ways[0], ways[1]
    )
}

fn protect(name: &str, local: &str, remote: &str) -> String {
    format!(
        r#"
        [[policy]]
        interface = "wan"
        action = "protect"
        tunnel = "{name}"
        local = "{local}"
        remote = "{remote}"
        "#
    )
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

/// Nodes `a` and `b` with a host each, and a wire between them.
fn two(net: &mut Net, text: impl Fn(u8, u8) -> String) -> (Host, Host) {
    let a = net.node(&text(1, 2));
    let b = net.node(&text(2, 1));
    net.join((a, "wan"), (b, "wan"));
    let hosts = (net.host(a, "lan"), net.host(b, "lan"));
    net.settle();
    know(net, &[(a, "10.1.0.9", HOST_A), (b, "10.2.0.9", HOST_B)]);
    know(net, &[(a, "192.0.2.2", mac("b", "wan")), (b, "192.0.2.1", mac("a", "wan"))]);
    hosts
}

/// A frame of a host behind `a` to one behind `b`, of one of many flows.
fn frame(flow: u16) -> Vec<u8> {
    let packet = udp4([10, 1, 0, 9], [10, 2, 0, 9], (1000 + flow, 9), 90, 7);
    ethernet(mac("a", "lan"), HOST_A, 0x0800, &packet)
}

/// The IPv4 frames at the end of a wire.
fn data(host: &mut Host) -> Vec<Vec<u8>> {
    let mut frames = host.received();
    frames.retain(|f| f[12..14] != [8, 6] && f[12..14] != [0x86, 0xdd]);
    frames
}
