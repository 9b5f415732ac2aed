//! A node that is attacked, a peer that is honest, and every wire of the first in the
//! attacker's hands.

use crate::craft::{self, Sealer};
use crate::net::{Host, Net, mac};
use ferrule_base::{DropReason, Drops, Duration, MacAddr};
use ferrule_pipeline::Pool;
use std::net::IpAddr;

/// The attacked node's number in the network.
const NODE: usize = 0;
/// The peer's.
const PEER: usize = 1;

/// The hosts on the node's LAN and on the peer's.
pub const HOST: MacAddr = MacAddr([2, 0, 0xaa, 1, 2, 3]);
pub const FAR: MacAddr = MacAddr([2, 0, 0xbb, 1, 2, 3]);
pub const HOST4: &str = "10.1.0.9";
pub const FAR4: &str = "10.2.0.9";
pub const HOST6: &str = "2001:db8:1::9";
pub const FAR6: &str = "2001:db8:2::9";
/// The node's address on the WAN and the peer's.
pub const NODE4: &str = "192.0.2.1";
pub const PEER4: &str = "192.0.2.2";
pub const NODE6: &str = "2001:db8::1";
pub const PEER6: &str = "2001:db8::2";

/// The node under attack.
pub struct Rig {
    pub net: Net,
    ports: Vec<(&'static str, Host)>,
    /// LAN and WAN of the peer, if there is one.
    peer: Option<[Host; 2]>,
}

/// State that no attack may change.
#[derive(Debug, PartialEq)]
struct State {
    /// Name, number, what was taken, largest packet of each SA.
    sas: Vec<(String, u64, u64, u64, Option<u16>)>,
    /// Counts of received frames of the SecYs, and the lowest numbers that they accept.
    secys: Vec<String>,
    neighbours: Vec<(String, IpAddr, MacAddr)>,
    held: u64,
}

impl State {
    /// The state without the highest numbers.
    fn without_windows(mut self) -> Self {
        self.sas.iter_mut().for_each(|sa| sa.1 = 0);
        self
    }

    /// The state without numbers and counts of SAs.
    fn without_sas(mut self) -> Self {
        self.sas.iter_mut().for_each(|sa| (sa.1, sa.2, sa.3) = (0, 0, 0));
        self
    }
}

/// Runs a test with each kind of engine; afterwards no buffer may be missing.
pub fn each(make: impl Fn(Net) -> Rig, test: impl Fn(&mut Rig)) {
    for net in [Net::new(), Net::late()] {
        let mut rig = make(net);
        let pools: Vec<Pool> = rig.net.members.iter().map(|m| m.pool.clone()).collect();
        test(&mut rig);
        rig.net.assert_conserved();
        drop(rig);
        for pool in pools {
            assert_eq!(pool.free(), pool.chunks(), "buffers are missing");
        }
    }
}

impl Rig {
    /// A node with these ports, alone.
    pub fn alone(mut net: Net, text: &str, ports: &[&'static str]) -> Self {
        let node = net.node(text);
        let ports: Vec<_> = ports.iter().map(|&port| (port, net.host(node, port))).collect();
        let mut rig = Self { net, ports, peer: None };
        rig.come_up();
        rig
    }

    /// A node and a peer with LAN and WAN each; both know who is on their links.
    pub fn two(mut net: Net, texts: [String; 2]) -> Self {
        let [node, peer] = texts.map(|text| net.node(&text));
        let ports = vec![("lan", net.host(node, "lan")), ("wan", net.host(node, "wan"))];
        let peer = Some([net.host(peer, "lan"), net.host(peer, "wan")]);
        let mut rig = Self { net, ports, peer };
        rig.come_up();
        rig.know(NODE, &[(HOST4, HOST), (HOST6, HOST)]);
        rig.know(PEER, &[(FAR4, FAR), (FAR6, FAR)]);
        rig
    }

    /// Tells a node the link addresses of its neighbours.
    pub fn know(&mut self, node: usize, all: &[(&str, MacAddr)]) {
        let tables = self.net.members[node].control.tables().clone();
        for iface in 0..tables.ifaces.len() as u16 {
            for (address, mac) in all {
                tables.neighbours.set(iface, address.parse().expect("an address"), *mac);
            }
        }
    }

    /// Until the nodes' own addresses are in use and announced, and node and peer know
    /// one another.
    fn come_up(&mut self) {
        for _ in 0..40 {
            self.net.wait(Duration::from_millis(200));
            let heard = self.heard();
            let Some([lan, wan]) = &mut self.peer else { continue };
            lan.received();
            heard.iter().filter(|(port, _)| *port == "wan").for_each(|(_, f)| wan.send(f));
            let node = self.ports.iter_mut().find(|(port, _)| *port == "wan");
            let (_, node) = node.expect("a WAN");
            wan.received().iter().for_each(|frame| node.send(frame));
        }
        self.net.settle();
        self.heard();
        if let Some(peer) = &mut self.peer {
            peer.iter_mut().for_each(|host| drop(host.received()));
        }
    }

    /// Frames that came out of the node, each with its port.
    pub fn heard(&mut self) -> Vec<(&'static str, Vec<u8>)> {
        let ports = self.ports.iter_mut();
        ports.flat_map(|(port, host)| host.received().into_iter().map(|f| (*port, f))).collect()
    }

    /// Frames arrive at a port, and all that follows happens.
    pub fn send(&mut self, port: &str, frames: &[Vec<u8>]) {
        let (_, host) = self.ports.iter_mut().find(|(name, _)| *name == port).expect("a port");
        frames.iter().for_each(|frame| host.send(frame));
        self.net.settle();
    }

    fn state(&mut self) -> State {
        let (mut sas, mut secys) = (Vec::new(), Vec::new());
        for report in self.net.reports(NODE) {
            for sa in report.esp_in.iter().chain(&report.esp_out) {
                let taken = (sa.stats.packets, sa.stats.octets);
                sas.push((sa.name.clone(), sa.number, taken.0, taken.1, sa.mtu));
            }
            for (_, secy) in &report.secy_in {
                let taken = secy.sas.iter().map(|sa| (sa.an, sa.next_pn, sa.stats.in_ok));
                secys.push(format!("{:?}", taken.collect::<Vec<_>>()));
            }
        }
        let neighbours = self.net.members[NODE].control.neighbours();
        State { sas, secys, neighbours, held: self.net.ledger(NODE).held }
    }

    /// The frames are dropped, each for this reason and none other; nothing comes out
    /// of any port, and nothing in the node moves.
    pub fn refused(&mut self, port: &str, frames: &[Vec<u8>], reason: DropReason) {
        let out = self.dropped(port, frames, &[(reason, frames.len() as u64)]);
        assert_eq!(out, [], "something came out");
    }

    /// The same for frames that are authentic, and break a rule inside: the window of
    /// their SA has to move, and nothing else does.
    pub fn refused_as_authentic(&mut self, port: &str, frames: &[Vec<u8>], reason: DropReason) {
        let reasons = [(reason, frames.len() as u64)];
        let out = self.counted(port, frames, &reasons, State::without_windows);
        assert_eq!(out, [], "something came out");
    }

    /// The same for frames that the SA takes, and that what is behind it refuses.
    pub fn refused_as_taken(&mut self, port: &str, frames: &[Vec<u8>], reason: DropReason) {
        let reasons = [(reason, frames.len() as u64)];
        let out = self.counted(port, frames, &reasons, State::without_sas);
        assert_eq!(out, [], "something came out");
    }

    /// Sends frames that must be dropped for these reasons, so often each, with no change
    /// of state; returns the frames that came out.
    pub fn dropped(
        &mut self,
        port: &str,
        frames: &[Vec<u8>],
        reasons: &[(DropReason, u64)],
    ) -> Vec<(&'static str, Vec<u8>)> {
        self.counted(port, frames, reasons, |state| state)
    }

    /// Fragments that are put together to one packet, which is refused.
    pub fn refused_whole(&mut self, port: &str, frames: &[Vec<u8>], reason: DropReason) {
        let consumed = self.net.ledger(NODE).consumed;
        let out = self.counted(port, frames, &[(reason, 1)], |state| state);
        assert_eq!(out, [], "something came out");
        let consumed = self.net.ledger(NODE).consumed - consumed;
        assert_eq!(consumed, frames.len() as u64 - 1);
    }

    /// Frames that end what waited: nothing is held any more.
    pub fn given_up(&mut self, port: &str, frames: &[Vec<u8>], reasons: &[(DropReason, u64)]) {
        let held = |mut state: State| {
            state.held = 0;
            state
        };
        let out = self.counted(port, frames, reasons, held);
        assert_eq!(out, [], "something came out");
        assert_eq!(self.net.ledger(NODE).held, 0);
    }

    fn counted(
        &mut self,
        port: &str,
        frames: &[Vec<u8>],
        reasons: &[(DropReason, u64)],
        what: fn(State) -> State,
    ) -> Vec<(&'static str, Vec<u8>)> {
        assert_eq!(self.heard(), [], "a quiet node");
        let (state, drops) = (what(self.state()), self.net.drops(NODE));
        self.send(port, frames);
        let after = self.net.drops(NODE);
        assert_eq!(since(&after, &drops), reasons, "what was counted");
        let out = self.heard();
        assert_eq!(what(self.state()), state, "state that moved");
        self.net.assert_conserved();
        out
    }

    /// The frame is not stopped: exactly this packet leaves by that port.
    pub fn passes(&mut self, port: &str, frame: &[u8], out: &str, packet: &[u8]) {
        let left = self.forwarded(port, frame, out);
        assert_eq!(left[14..], *packet);
    }

    /// Packets of a host behind the peer reach the host behind the node, and the other way
    /// round.
    pub fn honest_traffic_passes(&mut self) {
        let there = [(FAR4, HOST4), (FAR6, HOST6)];
        for (from, to) in there {
            let packet = craft::ip(craft::UDP, from, to, &craft::udp(7, 9, &[3; 60]));
            let sealed = self.peer_sends(&packet);
            self.passes("wan", &sealed, "lan", &hops_later(&packet, 2));
        }
        for (from, to) in there.map(|(from, to)| (to, from)) {
            let packet = craft::ip(craft::UDP, from, to, &craft::udp(9, 7, &[4; 60]));
            self.send("lan", &[craft::frame(mac("n1", "lan"), HOST, &packet)]);
            let heard = self.heard();
            let [("wan", sealed)] = &heard[..] else { panic!("{heard:02x?}") };
            let [lan, wan] = self.peer.as_mut().expect("a peer");
            wan.send(sealed);
            self.net.settle();
            let taken = lan.received();
            assert_eq!(taken.len(), 1);
            assert_eq!(taken[0][14..], hops_later(&packet, 2));
        }
    }

    /// The frame is not stopped: exactly this one leaves by that port.
    pub fn passes_frame(&mut self, port: &str, frame: &[u8], out: &str, expected: &[u8]) {
        let left = self.forwarded(port, frame, out);
        assert_eq!(left, expected);
    }

    /// The one frame that leaves by a port because of this one.
    fn forwarded(&mut self, port: &str, frame: &[u8], out: &str) -> Vec<u8> {
        let drops = self.net.drops(NODE);
        self.send(port, &[frame.to_vec()]);
        let dropped = since(&self.net.drops(NODE), &drops);
        let mut heard = self.heard();
        assert_eq!(heard.len(), 1, "{heard:02x?}, dropped: {dropped:?}");
        let (by, frame) = heard.remove(0);
        assert_eq!((by, dropped), (out, vec![]));
        frame
    }

    /// Frames that the host behind the peer hears because of a packet that it sends: both
    /// nodes and the wire between them do what they do.
    #[allow(dead_code, reason = "the attacks do not need it, the corners do")]
    pub fn far_hears(&mut self, packet: &[u8]) -> Vec<Vec<u8>> {
        let [lan, _] = self.peer.as_mut().expect("a peer");
        lan.send(&craft::frame(mac("n2", "lan"), FAR, packet));
        self.net.settle();
        for _ in 0..4 {
            let [_, wan] = self.peer.as_mut().expect("a peer");
            let there = wan.received();
            let node = self.ports.iter_mut().find(|(port, _)| *port == "wan");
            let (_, node) = node.expect("a WAN");
            there.iter().for_each(|frame| node.send(frame));
            let back = node.received();
            let [_, wan] = self.peer.as_mut().expect("a peer");
            back.iter().for_each(|frame| wan.send(frame));
            self.net.settle();
        }
        let [lan, _] = self.peer.as_mut().expect("a peer");
        lan.received()
    }

    /// The frame that the peer makes of a packet of the host behind it.
    pub fn peer_sends(&mut self, packet: &[u8]) -> Vec<u8> {
        self.peer_sends_frame(&craft::frame(mac("n2", "lan"), FAR, packet))
    }

    /// The frame that the peer makes of one of the host behind it.
    pub fn peer_sends_frame(&mut self, frame: &[u8]) -> Vec<u8> {
        let [lan, wan] = self.peer.as_mut().expect("a peer");
        lan.send(frame);
        self.net.settle();
        let mut sealed = wan.received();
        let why: Vec<_> = self.net.drops(PEER).iter().collect();
        assert_eq!(sealed.len(), 1, "the peer seals: {why:?}");
        sealed.remove(0)
    }
}

/// Drops between two counts.
fn since(after: &Drops, before: &Drops) -> Vec<(DropReason, u64)> {
    let grown = after.iter().map(|(reason, count)| (reason, count - before.get(reason)));
    grown.filter(|(_, count)| *count > 0).collect()
}

/// The packet so many hops later.
pub fn hops_later(packet: &[u8], hops: u8) -> Vec<u8> {
    match packet[0] >> 4 {
        4 => craft::v4_with(packet, |p| p[8] -= hops),
        _ => craft::with(packet, |p| p[7] -= hops),
    }
}

/// Node `own`, with what is said about its SAs and policies.
pub fn gateway(own: u8, sas: &str) -> String {
    let other = 3 - own;
    format!(
        r#"
        [node]
        name = "n{own}"
        lab = true
        [[port]]
        name = "lan"
        driver = "wire"
        [[port]]
        name = "wan"
        driver = "wire"
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
        {sas}
        "#
    )
}

/// A pair of SAs between two addresses, the node's first, as node `own` has it. The
/// key of each direction is called after its SPI.
pub fn pair(own: u8, kind: &str, name: &str, ends: [&str; 2], spi: u32, more: &str) -> String {
    let (here, there) = (usize::from(own) - 1, 2 - usize::from(own));
    let (out, inn) = (spi + u32::from(own), spi + 3 - u32::from(own));
    format!(
        r#"
        [[{kind}]]
        name = "{name}"
        local = "{}"
        remote = "{}"
        {more}
        out = {{ spi = {out}, key = "gcm:{}" }}
        in = {{ spi = {inn}, key = "gcm:{}" }}
        "#,
        ends[here],
        ends[there],
        out % 50,
        inn % 50
    )
}

/// The peer's sealing SA in the pair with this first SPI.
pub const fn sealer(spi: u32) -> Sealer {
    Sealer { spi: spi + 2, key: ((spi + 2) % 50) as u8, esn: false }
}

/// A policy entry at the WAN.
pub fn protect(kind: &str, name: &str, more: &str) -> String {
    format!("[[policy]]\ninterface = \"wan\"\naction = \"protect\"\n{kind} = \"{name}\"\n{more}\n")
}

/// The networks behind node `own` and behind the other one, of one family.
pub fn nets(own: u8, v6: bool) -> String {
    let other = 3 - own;
    match v6 {
        false => format!("local = \"10.{own}.0.0/24\"\nremote = \"10.{other}.0.0/24\""),
        true => {
            format!("local = \"2001:db8:{own}::/64\"\nremote = \"2001:db8:{other}::/64\"")
        }
    }
}

/// First SPIs of the tunnels that most attacks are about.
pub const T4: u32 = 0x1000;
pub const T6: u32 = 0x1010;

/// A tunnel over IPv4 for the IPv4 networks, and one over IPv6 for those of IPv6.
pub fn tunnels(own: u8, more: &str) -> String {
    let esn = if more.contains("esn") { "" } else { "esn = false" };
    let more = format!("suite = \"aes-gcm-128\"\n{esn}\n{more}");
    pair(own, "tunnel", "t4", [NODE4, PEER4], T4, &more)
        + &pair(own, "tunnel", "t6", [NODE6, PEER6], T6, &more)
        + &protect("tunnel", "t4", &nets(own, false))
        + &protect("tunnel", "t6", &nets(own, true))
}

/// Two gateways with these tunnels.
pub fn site(more: &str) -> impl Fn(Net) -> Rig {
    move |net| Rig::two(net, [1, 2].map(|own| gateway(own, &tunnels(own, more))))
}

/// Inner packets from the host behind the peer.
pub fn inner4(fill: u8) -> Vec<u8> {
    craft::ip(craft::UDP, FAR4, HOST4, &craft::udp(7, 9, &[fill; 60]))
}

pub fn inner6(fill: u8) -> Vec<u8> {
    craft::ip(craft::UDP, FAR6, HOST6, &craft::udp(7, 9, &[fill; 60]))
}

/// A packet from the peer to the node.
pub fn outer4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    craft::ip(protocol, PEER4, NODE4, payload)
}

pub fn outer6(protocol: u8, payload: &[u8]) -> Vec<u8> {
    craft::ip(protocol, PEER6, NODE6, payload)
}

/// A frame from the peer at the node's WAN.
pub fn at_wan(packet: &[u8]) -> Vec<u8> {
    craft::frame(mac("n1", "wan"), mac("n2", "wan"), packet)
}

/// A frame from the host at the node's LAN.
pub fn at_lan(packet: &[u8]) -> Vec<u8> {
    craft::frame(mac("n1", "lan"), HOST, packet)
}
