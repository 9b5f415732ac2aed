//! A site with everything that a node can do to a packet, and frames for it.

use crate::net::{ethernet, mac, udp4, udp6};
use ferrule_base::{MacAddr, Rng};
use ferrule_wire::eapol::PAE_GROUP;

/// The ports of a site, in the order of their numbers.
pub const PORTS: [&str; 6] = ["lan", "wan", "left", "right", "ac", "keyed"];

/// Stations on any segment.
pub const STATIONS: [MacAddr; 2] = [MacAddr([2, 0, 0xcc, 0, 0, 1]), MacAddr([2, 0, 0xcc, 0, 0, 2])];

/// One of two sites that mirror each other.
#[derive(Clone, Copy)]
pub struct Site {
    pub name: &'static str,
    pub own: u8,
    pub other: u8,
}

pub const NEAR: Site = Site { name: "near", own: 1, other: 2 };
pub const FAR: Site = Site { name: "far", own: 2, other: 1 };

/// Lists of the site's interface, in and out.
const LISTS: &str = r#"
    [[access-list]]
    name = "in"
    entry = [{ action = "deny", protocol = "udp", to-ports = 1 }, { action = "permit" }]
    [[access-list]]
    name = "out"
    entry = [{ action = "permit" }]
    "#;

impl Site {
    /// The site's configuration: routed, bridged behind a SecY, a pseudowire, an L3VPN, labels
    /// that go on, ESP and AH. Packets for 10.x.1.0/24 are treated as `action` says.
    pub fn config(self, action: &str) -> String {
        let Self { name, own, other } = self;
        let ports: String =
            PORTS.iter().zip([1600, 1600, 1500, 1532, 1470, 1500]).map(port).collect();
        format!(
            r#"
            [node]
            name = "{name}"
            lab = true
            {ports}
            [[interface]]
            port = "lan"
            address = ["10.{own}.0.1/16", "2001:db8:{own}::1/48"]
            source-validation = "strict"
            acl-in = "in"
            acl-out = "out"
            [[interface]]
            port = "lan"
            vlan = 10
            vrf = "red"
            address = ["172.16.{own}.1/24"]
            [[interface]]
            port = "wan"
            address = ["192.0.2.{own}/24", "2001:db8:ff::{own}/64"]
            mtu = 1500
            mpls = true
            [[route]]
            prefix = "10.{other}.0.0/16"
            via = "192.0.2.{other}"
            [[route]]
            prefix = "2001:db8:{other}::/48"
            via = "2001:db8:ff::{other}"
            [[route]]
            prefix = "172.16.{other}.0/24"
            vrf = "red"
            via = "192.0.2.{other}"
            labels = [300{other}]
            [[label]]
            label = 300{own}
            pop = true
            vrf = "red"
            [[label]]
            label = 4000
            swap = [4001, 4002]
            via = "192.0.2.{other}"
            [[lsp]]
            name = "across"
            via = "192.0.2.{other}"
            [[pseudowire]]
            name = "pw"
            port = "ac"
            lsp = "across"
            label-in = 500{own}
            label-out = 500{other}
            acl-in = "in"
            acl-out = "out"
            [[bridge]]
            name = "br"
            member = [{{ port = "left" }}, {{ port = "right" }}]
            "#
        ) + &self.tunnels()
            + &self.policies(action)
            + &self.secys()
            + LISTS
    }

    /// A SecY with static SAKs, and one keyed by MKA without peers.
    fn secys(self) -> String {
        let Self { own, other, .. } = self;
        let sci = |site: Self| format!("{}/1", mac(site.name, "right"));
        let (sci, peer_sci) = (sci(self), sci(if own == NEAR.own { FAR } else { NEAR }));
        format!(
            r#"
            [[macsec]]
            port = "right"
            sci = "{sci}"
            transmit = [{{ key = "sak:{own}" }}]
            receive = [{{ sci = "{peer_sci}", key = "sak:{other}" }}]
            [[macsec]]
            port = "keyed"
            mka = {{ cak = [{{ ckn = "01", key = "cak:1" }}] }}
            "#
        )
    }

    fn tunnels(self) -> String {
        let Self { own, other, .. } = self;
        let tunnel = |name, spi, kind, key: [&str; 2]| {
            // Outbound keys of one side are inbound keys of the other.
            let at = |site: u8| (spi + u32::from(site), key[usize::from(site) - 1]);
            let ((out, out_key), (inn, in_key)) = (at(own), at(other));
            format!(
                "[[tunnel]]\nname = \"{name}\"\nlocal = \"192.0.2.{own}\"\n\
                 remote = \"192.0.2.{other}\"\n{kind}\n\
                 out = {{ spi = {out}, key = \"{out_key}\" }}\n\
                 in = {{ spi = {inn}, key = \"{in_key}\" }}\n"
            )
        };
        let gcm = tunnel("one", 0x1000, "suite = \"aes-gcm-128\"", ["gcm:1", "gcm:2"]);
        let cbc = "suite = \"aes-cbc-128 hmac-sha1-96\"";
        let cbc = tunnel("two", 0x2000, cbc, ["cbc-sha1:3", "cbc-sha1:4"]);
        let ah = "protocol = \"ah\"\nsuite = \"hmac-sha256-128\"";
        let ah = tunnel("three", 0x3000, ah, ["sha256:5", "sha256:6"]);
        gcm + &cbc + &ah
    }

    fn policies(self, action: &str) -> String {
        let other = self.other;
        [
            format!("remote = \"10.{other}.3.0/24\"\naction = \"protect\"\ntunnel = \"three\""),
            format!(
                "remote = \"10.{other}.0.0/24\"\nprotocol = \"udp\"\nremote-ports = [9]\n\
                 action = \"protect\"\ntunnel = \"one\""
            ),
            format!("remote = \"10.{other}.1.0/24\"\n{action}"),
            format!("remote = \"10.{other}.2.0/24\"\naction = \"bypass\""),
            format!("remote = \"2001:db8:{other}:1::/64\"\naction = \"protect\"\ntunnel = \"one\""),
            format!("remote = \"2001:db8:{other}:2::/64\"\naction = \"bypass\""),
        ]
        .map(|policy| format!("[[policy]]\ninterface = \"wan\"\n{policy}\n"))
        .concat()
    }

    /// A frame from one of its hosts, and the port on which it comes: of one of many flows
    /// as a rule, sometimes odd.
    pub fn frame(self, rng: &mut Rng) -> (usize, Vec<u8>) {
        let len = [60, 61, 64, 200, 570, 1400, 1480, 1500][rng.below(8) as usize];
        match rng.below(8) {
            0 => (2, self.bridged(rng, len)),
            1 => {
                let payload = vec![rng.below(256) as u8; len];
                (4, ethernet(STATIONS[1], STATIONS[0], 0x88b5, &payload))
            }
            2 => (0, self.vlan(rng, len)),
            3 => (0, self.v6(rng, len)),
            4 if rng.one_in(2) => (1, self.labelled(rng, len)),
            5 if rng.one_in(20) => (0, self.asking()),
            6 if rng.one_in(20) => {
                let eapol = [&[3, 5, 0, 60][..], &[rng.below(256) as u8; 60]].concat();
                (5, ethernet(MacAddr(PAE_GROUP), STATIONS[0], 0x888e, &eapol))
            }
            _ => (0, self.v4(rng, len)),
        }
    }

    fn bridged(self, rng: &mut Rng, len: usize) -> Vec<u8> {
        let to = match rng.below(30) {
            0 => STATIONS[0],
            1 => MacAddr::BROADCAST,
            2 => MacAddr([1, 0x80, 0xc2, 0, 0, 0]),
            _ => STATIONS[1],
        };
        let ethertype = if rng.one_in(20) { 0x8100 } else { 0x88b5 };
        ethernet(to, STATIONS[0], ethertype, &vec![7; len])
    }

    /// ARP request for the node's address.
    fn asking(self) -> Vec<u8> {
        let (host, node) = ([10, self.own, 0, 9], [10, self.own, 0, 1]);
        let head = [0, 1, 8, 0, 6, 4, 0, 1];
        let arp = [&head[..], &STATIONS[0].0, &host, &[0; 6], &node].concat();
        ethernet(MacAddr::BROADCAST, STATIONS[0], 0x0806, &arp)
    }

    /// For the L3VPN, as a rule.
    fn vlan(self, rng: &mut Rng, len: usize) -> Vec<u8> {
        let vlan = if rng.one_in(20) { 11 } else { 10 };
        let port = rng.below(512) as u16;
        let ip = udp4([172, 16, self.own, 9], [172, 16, self.other, 9], (port, 9), len, 3);
        let tagged = [&[0, vlan, 8, 0][..], &ip].concat();
        ethernet(mac(self.name, "lan"), STATIONS[0], 0x8100, &tagged)
    }

    fn v6(self, rng: &mut Rng, len: usize) -> Vec<u8> {
        let Self { own, other, name } = self;
        let net = rng.below(4);
        let to = format!("2001:db8:{other}:{net}::9");
        let from = format!("2001:db8:{own}:{net}::{:x}", rng.below(512) + 16);
        let mut ip = udp6(&from, &to, (7, 9), len, 4);
        match rng.below(30) {
            0 => ip[7] = 1,
            1 => ip.truncate(40),
            2 => ip[6] = 0,
            _ => {}
        }
        ethernet(mac(name, "lan"), STATIONS[0], 0x86dd, &ip)
    }

    /// A label stack from another node on the core.
    fn labelled(self, rng: &mut Rng, len: usize) -> Vec<u8> {
        let label = match rng.below(5) {
            0 => 17,
            1 => 3000 + u32::from(self.own),
            _ => 4000,
        };
        let ttl = if rng.one_in(10) { 1 } else { 64 };
        let entry = (label << 12 | 1 << 8 | ttl).to_be_bytes();
        let ip = udp4([172, 16, self.other, 9], [172, 16, self.own, 9], (5, 9), len, 6);
        let stack = [&entry[..], &ip].concat();
        ethernet(mac(self.name, "wan"), STATIONS[1], 0x8847, &stack)
    }

    fn v4(self, rng: &mut Rng, len: usize) -> Vec<u8> {
        let Self { own, other, name } = self;
        let to = match rng.below(10) {
            0 => [10, 9, 9, 9],
            1 => [10, own, 0, 1],
            2 | 3 => [10, other, 1, 9],
            4 => [10, other, 2, 9],
            5 => [10, other, 3, 9],
            _ => [10, other, 0, 9],
        };
        let port = if rng.one_in(20) { 11 } else { 9 };
        // (The other end takes it from the same net and port alone.)
        let from = [10, own, to[2], 2 + rng.below(250) as u8];
        let mut ip = udp4(from, to, (9, port), len, 3);
        let odd = rng.below(60);
        match odd {
            // Wrong checksum, a local destination, or padding behind the packet.
            0 => ip[10] ^= 1,
            1 => ip[8] = 1,
            2 => ip.extend([0; 5]),
            3 => ip.truncate(19),
            // DF, or fragments: a first one, a later one.
            4 | 5 => ip[6] = 0x40,
            6 => ip[6] = 0x20,
            7 => ip[7] = 40,
            _ => {}
        }
        if [1, 4, 5, 6, 7].contains(&odd) {
            sum(&mut ip);
        }
        let to = match odd {
            8 => MacAddr::BROADCAST,
            9 => STATIONS[0],
            _ => mac(name, "lan"),
        };
        ethernet(to, STATIONS[0], if odd == 10 { 0x86dd } else { 0x0800 }, &ip)
    }
}

fn port((name, mtu): (&&str, u16)) -> String {
    format!("[[port]]\nname = \"{name}\"\ndriver = \"wire\"\nmtu = {mtu}\n")
}

/// Makes the sum of an IPv4 header right.
fn sum(ip: &mut [u8]) {
    ip[10..12].fill(0);
    let sum: u32 = ip[..20].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// A frame on its way between the sites: unchanged, as a rule.
pub fn on_the_way(rng: &mut Rng, mut frame: Vec<u8>) -> Vec<Vec<u8>> {
    match rng.below(40) {
        0 => vec![],
        1 => vec![frame.clone(), frame],
        2 => {
            let at = rng.below(frame.len() as u64) as usize;
            frame[at] ^= 1 << rng.below(8);
            vec![frame]
        }
        3 => {
            frame.truncate(14 + rng.below(60) as usize);
            vec![frame]
        }
        _ => vec![frame],
    }
}
