//! Packets that follow the one before, or that are sealed as those of the batch before
//! were, end as if each had been asked about at every place: which is what happens while
//! somebody records every place.

mod net;

use ferrule_base::{MacAddr, Rng};
use ferrule_node::probe::{Filter, Records};
use net::{Host, Net, ethernet, mac, udp4};

const PEER: MacAddr = MacAddr([2, 0, 0xbb, 0, 0, 2]);
const STATIONS: [MacAddr; 2] = [MacAddr([2, 0, 0xcc, 0, 0, 1]), MacAddr([2, 0, 0xcc, 0, 0, 2])];

/// A gateway with tunnels of ESP and AH, and a bridge with a SecY. What
/// is for 10.2.1.0/24 is done as `action` says.
fn node(action: &str) -> String {
    let ports = [("lan", 1600), ("wan", 1600), ("left", 1500), ("right", 1532)]
        .map(|(name, mtu)| format!("[[port]]\nname = \"{name}\"\ndriver = \"wire\"\nmtu = {mtu}\n"))
        .concat();
    let tunnel = |name, spi, key| {
        format!(
            "[[tunnel]]\nname = \"{name}\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
             suite = \"aes-gcm-128\"\nout = {{ spi = {spi}, key = \"gcm:{key}\" }}\n\
             in = {{ spi = {}, key = \"gcm:{}\" }}\n",
            spi + 1,
            key + 1
        )
    };
    format!(
        r#"
        [node]
        name = "n"
        lab = true
        {ports}
        [[interface]]
        port = "lan"
        address = ["10.1.0.1/24"]
        [[interface]]
        port = "wan"
        address = ["192.0.2.1/24"]
        mtu = 1500
        [[route]]
        prefix = "10.2.0.0/16"
        via = "192.0.2.2"
        {}
        {}
        [[tunnel]]
        name = "three"
        local = "192.0.2.1"
        remote = "192.0.2.2"
        protocol = "ah"
        suite = "hmac-sha256-128"
        out = {{ spi = 0x3000, key = "sha256:5" }}
        in = {{ spi = 0x3001, key = "sha256:6" }}
        [[policy]]
        interface = "wan"
        action = "protect"
        tunnel = "three"
        remote = "10.2.3.0/24"
        [[policy]]
        interface = "wan"
        action = "protect"
        tunnel = "one"
        remote = "10.2.0.0/24"
        protocol = "udp"
        remote-ports = [9]
        [[policy]]
        interface = "wan"
        remote = "10.2.1.0/24"
        {action}
        [[policy]]
        interface = "wan"
        action = "bypass"
        remote = "10.2.2.0/24"
        [[bridge]]
        name = "br"
        member = [{{ port = "left" }}, {{ port = "right" }}]
        [[macsec]]
        port = "right"
        transmit = [{{ key = "sak:5" }}]
        "#,
        tunnel("one", 0x1000, 1),
        tunnel("two", 0x2000, 3),
    )
}

/// A node and what is on its wires.
struct Side {
    net: Net,
    hosts: [Host; 4],
    /// As long as it is there, everything is recorded.
    records: Vec<Records>,
}

impl Side {
    fn new(watched: bool) -> Self {
        let mut net = Net::new();
        let node = net.node(&node("action = \"protect\"\ntunnel = \"two\""));
        let hosts = ["lan", "wan", "left", "right"].map(|port| net.host(node, port));
        let mut records = Vec::new();
        if watched {
            let filter = Filter { stages: true, port: None, count: u64::MAX, snap: 0 };
            records = net.members[0].control.record(&filter).expect("it records");
        }
        let mut side = Self { net, hosts, records };
        side.know(Some(PEER));
        side.net.settle();
        side
    }

    /// The link address of the other gateway.
    fn know(&mut self, peer: Option<MacAddr>) {
        let tables = self.net.members[0].control.tables().clone();
        let address = "192.0.2.2".parse().expect("an address");
        for iface in 0..tables.ifaces.len() as u16 {
            match peer {
                Some(mac) => assert!(tables.neighbours.set(iface, address, mac)),
                None => tables.neighbours.remove(iface, address),
            }
        }
        // A station that the bridge knows.
        self.hosts[2].send(&ethernet(STATIONS[1], STATIONS[0], 0x88b5, &[0; 46]));
    }

    /// What came out of the ports, ESP by itself, and what the node counted.
    fn told(&mut self) -> (Vec<Vec<Vec<u8>>>, String) {
        self.net.settle();
        let esp = |frame: &Vec<u8>| frame.get(12..15) == Some(&[8, 0, 0x45]) && frame[23] == 50;
        let mut ports = Vec::new();
        for host in &mut self.hosts {
            let (sealed, clear): (Vec<_>, _) = host.received().into_iter().partition(esp);
            ports.extend([sealed, clear]);
        }
        // (The ring is read so that it never is what limits the test.)
        self.records.iter_mut().for_each(|records| while records.pop().is_some() {});
        let r = self.net.reports(0).remove(0);
        let counted =
            format!("{:?} {:?} {:?} {:?} {:?}", r.drops, r.work, r.esp_out, r.hits, r.secy_out);
        (ports, counted)
    }
}

/// A frame of a flow, as a rule; sometimes one that is odd.
fn frame(rng: &mut Rng, flow: u64, len: usize) -> (usize, Vec<u8>) {
    if flow == 6 {
        let to = if rng.below(30) == 0 { STATIONS[0] } else { STATIONS[1] };
        let ethertype = if rng.below(40) == 0 { 0x8100 } else { 0x88b5 };
        return (2, ethernet(to, STATIONS[0], ethertype, &vec![7; len]));
    }
    let (to, port) = [
        ([10, 2, 0, 9], 9),
        ([10, 2, 0, 9], 10),
        ([10, 2, 1, 9], 9),
        ([10, 2, 2, 9], 9),
        ([10, 9, 9, 9], 9),
        ([10, 1, 0, 1], 9),
    ][flow as usize];
    let odd = rng.below(60);
    let (to, len) = match odd {
        0 => ([10, 2, 1, 9], len),
        9 => ([10, 2, 3, 9], len),
        1 => (to, len + 4),
        _ => (to, len),
    };
    let mut ip = udp4([10, 1, 0, 9], to, (7, if odd == 2 { 11 } else { port }), len, 3);
    match odd {
        // Its sum is wrong, or it ends here.
        3 => ip[10] ^= 1,
        4 => {
            (ip[8], ip[10], ip[11]) = (1, 0, 0);
            let sum: u32 = ip[..20].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        // Padding behind it.
        5 => ip.extend([0; 5]),
        _ => {}
    }
    let own = mac("n", "lan");
    let to = match odd {
        6 => MacAddr::BROADCAST,
        7 => STATIONS[0],
        _ => own,
    };
    (0, ethernet(to, STATIONS[0], if odd == 8 { 0x86dd } else { 0x0800 }, &ip))
}

#[test]
fn packets_that_follow_end_as_if_each_had_been_asked_about() {
    let (mut follows, mut asked) = (Side::new(false), Side::new(true));
    let mut rng = Rng::new(4711);
    let mut sealed = 0;
    for round in 0..3000 {
        let (flow, count) = (rng.below(7), 1 + rng.below(150));
        let len = [60, 61, 200, 1400, 1480][rng.below(5) as usize];
        for _ in 0..count {
            let (host, frame) = frame(&mut rng, flow, len);
            follows.hosts[host].send(&frame);
            asked.hosts[host].send(&frame);
        }
        let (one, other) = (follows.told(), asked.told());
        for (port, (one, other)) in one.0.iter().zip(&other.0).enumerate() {
            assert_eq!(one.len(), other.len(), "round {round}, flow {flow}, {port}");
            assert!(one == other, "round {round}, flow {flow}, {port}");
        }
        assert_eq!(one.1, other.1, "round {round}, flow {flow}");
        sealed += one.0[2].len();
        match rng.below(12) {
            // What was kept is not for ever: another link address, none, other tables.
            0 => [&mut follows, &mut asked].map(|side| side.know(Some(STATIONS[0]))),
            1 => [&mut follows, &mut asked].map(|side| side.know(None)),
            2 => [&mut follows, &mut asked].map(|side| side.know(Some(PEER))),
            3 | 4 => {
                let text = [
                    "action = \"discard\"",
                    "action = \"bypass\"",
                    "action = \"protect\"\ntunnel = \"two\"",
                ][rng.below(3) as usize];
                [&mut follows, &mut asked].map(|side| side.net.apply(0, &node(text)))
            }
            _ => [(), ()],
        };
    }
    assert!(sealed > 1000, "{sealed}");
    follows.net.assert_conserved();
    asked.net.assert_conserved();
}
