//! Configurations of the nodes that are measured.
//!
//! ```text
//!   198.18.1.2 ── a [ 198.18.1.1  node  192.0.2.1 ] b ── 192.0.2.2 …
//!   10.0.0.0/8                                           20.0.0.0/8, tunnels' ends
//! ```

use ferrule_base::Rng;
use std::collections::HashSet;
use std::fmt::Write;
use std::net::Ipv4Addr;

/// The next hop behind port a, and those behind port b.
pub const HOPS: [&str; 9] = [
    "198.18.1.2",
    "192.0.2.2",
    "192.0.2.3",
    "192.0.2.4",
    "192.0.2.5",
    "192.0.2.6",
    "192.0.2.7",
    "192.0.2.8",
    "192.0.2.9",
];

/// Two ports that carry packets of so many octets.
pub fn ports(mtu: [u16; 2]) -> String {
    let port = |name, mtu| format!("[[port]]\nname = \"{name}\"\ndriver = \"wire\"\nmtu = {mtu}\n");
    format!("[node]\nname = \"bench\"\nlab = true\n{}{}", port("a", mtu[0]), port("b", mtu[1]))
}

/// Interfaces of a router on both ports.
pub fn interfaces() -> String {
    let interface = |port, address| {
        format!("[[interface]]\nport = \"{port}\"\nmpls = true\naddress = [\"{address}/24\"]\n")
    };
    interface("a", "198.18.1.1") + &interface("b", "192.0.2.1")
}

/// A route.
pub fn route(prefix: &str, via: &str) -> String {
    format!("[[route]]\nprefix = \"{prefix}\"\nvia = \"{via}\"\n")
}

/// A router with the way to 10.0.0.0/8 and to 20.0.0.0/8.
pub fn router() -> String {
    ports([1600; 2])
        + &interfaces()
        + &route("10.0.0.0/8", "198.18.1.2")
        + &route("20.0.0.0/8", "192.0.2.2")
}

/// An entry of an access list, for UDP: networks of both ends, and the port there.
#[derive(Clone, Copy)]
pub struct Listed {
    /// Source: address and prefix length.
    pub src: (u32, u32),
    /// Destination: address and prefix length.
    pub dst: (u32, u32),
    /// Destination port; nothing: any.
    pub to: Option<u16>,
}

impl Listed {
    /// So many entries of mixed masks.
    pub fn all(count: usize) -> Vec<Self> {
        let mut rng = Rng::new(120);
        let network = |first: u32, rng: &mut Rng| {
            let len = [16, 20, 22, 24, 24, 24, 28, 32][rng.below(8) as usize];
            ((first << 24 | rng.below(1 << 24) as u32) & u32::MAX << (32 - len), len)
        };
        let mut entry = || Self {
            src: network(10, &mut rng),
            dst: network(20, &mut rng),
            to: rng.one_in(2).then(|| rng.next_u64() as u16),
        };
        (0..count).map(|_| entry()).collect()
    }
}

/// The router with a list that permits these, and no others, at the port where frames come.
pub fn listed_router(entries: &[Listed]) -> String {
    let prefix = |(first, len): (u32, u32)| format!("{}/{len}", Ipv4Addr::from(first));
    let mut list = String::from("[[access-list]]\nname = \"list\"\nentry = [\n");
    for Listed { src, dst, to } in entries {
        let to = to.map_or(String::new(), |to| format!(", to-ports = {to}"));
        let _ = writeln!(
            list,
            "{{ action = \"permit\", protocol = \"udp\", from = \"{}\", to = \"{}\"{to} }},",
            prefix(*src),
            prefix(*dst),
        );
    }
    let listed = "[[interface]]\nport = \"a\"\nacl-in = \"list\"\n";
    router().replacen("[[interface]]\nport = \"a\"\n", listed, 1) + &list + "]\n"
}

/// The configuration with eight ways of the same cost in place of the one by 192.0.2.2,
/// whose labels each has.
pub fn with_paths(config: &str) -> String {
    let one = "via = \"192.0.2.2\"\n";
    let (before, after) = config.split_once(one).expect("a way by the first hop");
    let (next, rest) = after.split_once('\n').unwrap_or((after, ""));
    let (labels, rest) = match next.split_once(" = ") {
        Some(("labels", list)) => (format!(", labels = {list}"), rest.to_owned()),
        _ => (String::new(), after.to_owned()),
    };
    let paths = HOPS[1..].iter().map(|hop| format!("{{ via = \"{hop}\"{labels} }}"));
    let paths: Vec<String> = paths.collect();
    format!("{before}paths = [{}]\n{rest}", paths.join(", "))
}

/// The configuration with an entropy label on the first labelled way.
pub fn with_entropy(config: &str) -> String {
    config.replacen("labels = [16002", "entropy-label = true\nlabels = [16002", 1)
}

/// The configuration with sources validated at port a.
pub fn with_validation(config: &str) -> String {
    let interface = "[[interface]]\nport = \"a\"\n";
    config.replacen(interface, &format!("{interface}source-validation = \"strict\"\n"), 1)
}

/// A label switch whose labels go eight ways each.
pub fn balancing_switch(labels: u32) -> String {
    let mut text = ports([1600; 2]) + &interfaces();
    for n in 0..labels {
        let path = |hop| format!("{{ via = \"{hop}\", swap = [{}] }}", 2 * LABEL + n);
        let paths: Vec<String> = HOPS[1..].iter().map(path).collect();
        let _ = write!(text, "[[label]]\nlabel = {}\npaths = [{}]\n", LABEL + n, paths.join(", "));
    }
    text
}

/// A router with the way to 10.0.0.0/8 and `prefixes`, which go by eight next hops.
pub fn large_router(prefixes: &[(Ipv4Addr, u8)]) -> String {
    let mut text = ports([1600; 2]) + &interfaces() + &route("10.0.0.0/8", "198.18.1.2");
    for (n, (network, len)) in prefixes.iter().enumerate() {
        text += &route(&format!("{network}/{len}"), HOPS[1 + n % 8]);
    }
    text
}

/// Different prefixes, as long as those of the Internet are: three fifths of length 24,
/// few shorter than 16.
pub fn prefixes(count: usize) -> Vec<(Ipv4Addr, u8)> {
    let (mut rng, mut seen, mut found) = (Rng::new(24), HashSet::new(), Vec::new());
    while found.len() < count {
        let len = match rng.below(1000) {
            0..3 => 8 + rng.below(8) as u8,
            3..17 => 16,
            17..25 => 17,
            25..41 => 18,
            41..67 => 19,
            67..112 => 20,
            112..166 => 21,
            166..280 => 22,
            280..383 => 23,
            _ => 24,
        };
        // Neither those of the node itself nor such as no host has.
        let first = 20 + rng.below(100) as u32;
        let bits = first << 24 | rng.below(1 << 24) as u32;
        let network = bits & u32::MAX << (32 - len);
        if seen.insert((network, len)) {
            found.push((network.into(), len));
        }
    }
    found
}

/// A provider's edge with a customer's table: two labels towards 20.0.0.0/8, label 1000
/// from there.
pub fn l3vpn() -> String {
    ports([1600; 2])
        + r#"
[[interface]]
port = "a"
vrf = "red"
address = ["198.18.1.1/24"]
[[interface]]
port = "b"
mpls = true
address = ["192.0.2.1/24"]
[[route]]
vrf = "red"
prefix = "10.0.0.0/8"
via = "198.18.1.2"
[[route]]
vrf = "red"
prefix = "20.0.0.0/8"
via = "192.0.2.2"
labels = [16002, 1000]
[[label]]
label = 1000
vrf = "red"
"#
}

/// The first of the labels that [`switch`] knows.
pub const LABEL: u32 = 16_000;

/// A label switch with so many labels.
pub fn switch(labels: u32) -> String {
    let mut text = ports([1600; 2]) + &interfaces();
    for n in 0..labels {
        let (label, out) = (LABEL + n, 2 * LABEL + n);
        let _ = write!(text, "[[label]]\nlabel = {label}\nswap = [{out}]\nvia = \"192.0.2.2\"\n");
    }
    text
}

/// The label by which [`vpws`] receives.
pub const PSEUDOWIRE: u32 = 800_000;

/// A provider's edge with a pseudowire (control word, no sequencing) at port a.
pub fn vpws() -> String {
    ports([1500, 1600])
        + &format!(
            r#"
[[interface]]
port = "b"
mpls = true
address = ["192.0.2.1/24"]
[[lsp]]
name = "pe2"
via = "192.0.2.2"
labels = [16002]
[[pseudowire]]
name = "pw"
port = "a"
lsp = "pe2"
label-in = {PSEUDOWIRE}
label-out = 800257
"#
        )
}

/// A bridge of both ports; the second is secured, has the SCI and key of a peer's number
/// and hears so many peers.
pub fn secured_bridge(own: u32, peers: std::ops::Range<u32>) -> String {
    let sci = |n: u32| format!("02:00:5c:00:{:02x}:{:02x}/1", n >> 8 & 255, n & 255);
    let receive = peers.map(|n| format!("{{ sci = \"{}\", key = \"sak:{n}\" }}", sci(n)));
    let receive: Vec<String> = receive.collect();
    ports([1500, 1532])
        + &format!(
            r#"
[[bridge]]
name = "br"
member = [{{ port = "a" }}, {{ port = "b" }}]
[[macsec]]
port = "b"
sci = "{}"
transmit = [{{ key = "sak:{own}" }}]
receive = [{}]
"#,
            sci(own),
            receive.join(", ")
        )
}

/// End of the tunnels that a gateway is. The hub has 10.0.0.0/8 behind it; the far ends are
/// one node with the same addresses, behind which the networks of 20.0.0.0/8 are: it
/// seals what the hub opens (see [`to_the_hub`]).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The node that is measured.
    Hub,
    /// The one that seals for it.
    Far,
}

/// A gateway with so many tunnels, each of its own remote address, SPI and key, and one
/// network of 20.0.0.0/8 behind each: of length 24, or all if there is one.
pub fn gateway(end: End, tunnels: u32, suite: &str) -> String {
    let key = if suite == "aes-gcm-128" { "gcm" } else { suite };
    let mut text = ports([1600; 2]) + &interfaces() + &route("172.16.0.0/12", "192.0.2.2");
    let (out, inn, red, black) = match end {
        End::Hub => (1, 2, "10.0.0.0/8", "20.0.0.0/8"),
        End::Far => (2, 1, "20.0.0.0/8", "10.0.0.0/8"),
    };
    text += &(route(red, "198.18.1.2") + &route(black, "192.0.2.2"));
    for n in 0..tunnels {
        let network = match tunnels {
            1 => "20.0.0.0/8".to_owned(),
            _ => format!("20.{}.{}.0/24", n >> 8 & 255, n & 255),
        };
        let (local, remote) = match end {
            End::Hub => ("10.0.0.0/8", network.as_str()),
            End::Far => (network.as_str(), "10.0.0.0/8"),
        };
        // SPIs in no order; of 200 keys where a suite's names have no more.
        let spi = |way: u32| (n * 2 + way).wrapping_mul(0x9e37_79b1);
        let key = |way: u32| match key {
            "gcm" => format!("gcm:{}", n * 2 + way),
            _ => format!("{key}:{}", (n * 2 + way) % 200),
        };
        let _ = write!(
            text,
            r#"[[tunnel]]
name = "t{n}"
local = "192.0.2.1"
remote = "172.{}.{}.{}"
suite = "{suite}"
window = 1024
out = {{ spi = {}, key = "{}" }}
in = {{ spi = {}, key = "{}" }}
[[policy]]
interface = "b"
action = "protect"
tunnel = "t{n}"
local = "{local}"
remote = "{remote}"
"#,
            16 + (n >> 16),
            n >> 8 & 255,
            n & 255,
            spi(out),
            key(out),
            spi(inn),
            key(inn),
        );
    }
    text
}

/// Readdresses a frame sealed by the far ends' node to the hub: for its station, and from
/// the tunnel's far end to it (the sum of the header stays as it was).
pub fn to_the_hub(frame: &mut [u8]) {
    frame[..6].copy_from_slice(&crate::NODE.0);
    frame[6..12].copy_from_slice(&crate::PEER.0);
    let (source, destination) = frame[26..34].split_at_mut(4);
    source.swap_with_slice(destination);
}
