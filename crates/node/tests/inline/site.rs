//! A gateway with its card, and what the tests do with it.

use crate::net::{Host, Net, ethernet, mac};
use ferrule_base::{Duration, MacAddr};

pub const HOST: MacAddr = MacAddr([2, 0, 0xaa, 1, 2, 3]);

/// The other gateway, as far as a test plays it.
pub const PEER: MacAddr = MacAddr([2, 0, 0xbb, 1, 2, 3]);

/// Marks the payload of hosts.
pub const MARK: u8 = 0xa7;

/// Gateway `own` of two, called `g1` and `g2`: 10.OWN.0.0/24 behind it, a tunnel from
/// 192.0.2.OWN to the other.
pub fn gateway(own: u8, placement: &str, suite: &str, key: &str) -> String {
    gateway_with(own, placement, suite, key, "", "")
}

/// The same with more lines for the tunnel, and more of everything.
pub fn gateway_with(
    own: u8,
    placement: &str,
    suite: &str,
    key: &str,
    tunnel: &str,
    more: &str,
) -> String {
    let other = 3 - own;
    // Key 1 seals what gateway 1 sends.
    let key_of = |sender: u8| format!("{key}:{}", 1 + 6 * (sender - 1));
    format!(
        r#"
        [node]
        name = "g{own}"
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
        prefix = "10.{other}.0.0/16"
        via = "192.0.2.{other}"
        [[route]]
        prefix = "2001:db8:{other}::/64"
        via = "2001:db8::{other}"
        [[tunnel]]
        name = "t"
        local = "192.0.2.{own}"
        remote = "192.0.2.{other}"
        suite = "{suite}"
        placement = "{placement}"
        out = {{ spi = {}, key = "{}" }}
        in = {{ spi = {}, key = "{}" }}
        {tunnel}
        [[policy]]
        interface = "wan"
        action = "protect"
        tunnel = "t"
        local = "10.{own}.0.0/24"
        remote = "10.{other}.0.0/24"
        [[policy]]
        interface = "wan"
        action = "protect"
        tunnel = "t"
        local = "2001:db8:{own}::/64"
        remote = "2001:db8:{other}::/64"
        {more}
        "#,
        0x1000 + u32::from(other),
        key_of(own),
        0x1000 + u32::from(own),
        key_of(other),
    )
}

/// A SecY of port `wan` of node `own`, whose peer has the address `peer`.
pub fn secy(own: &str, peer: MacAddr, placement: &str, keys: (&str, &str)) -> String {
    format!(
        r#"
        [[macsec]]
        port = "wan"
        placement = "{placement}"
        sci = "{}/1"
        window = 64
        transmit = [{{ key = "{}", an = 0 }}]
        receive = [{{ sci = "{peer}/1", key = "{}", an = 0 }}]
        "#,
        mac(own, "wan"),
        keys.0,
        keys.1
    )
}

/// A node of one gateway whose wires the test holds.
pub struct Site {
    pub net: Net,
    pub node: usize,
    pub lan: Host,
    pub wan: Host,
}

impl Site {
    /// Node `text` with its neighbours known: the other gateway is [`PEER`].
    pub fn new(net: Net, text: &str) -> Self {
        let mut net = net;
        let node = net.node(text);
        Self::of(net, node)
    }

    /// The same for a node that is there.
    pub fn of(mut net: Net, node: usize) -> Self {
        let (lan, wan) = (net.host(node, "lan"), net.host(node, "wan"));
        net.settle();
        // Until the node knows that its addresses are its own.
        net.wait(Duration::from_secs(3));
        Self { net, node, lan, wan }
    }

    /// Sends a packet from behind gateway `own` and takes what is on the wire; the
    /// test answers for its neighbours in clear.
    pub fn send(&mut self, own: u8, packet: &[u8]) -> Vec<Vec<u8>> {
        let kind = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
        self.lan.send(&ethernet(mac(&format!("g{own}"), "lan"), HOST, kind, packet));
        self.net.settle();
        self.on_wire()
    }

    /// Frames on the wire that are not neighbours' talk, which is answered.
    pub fn on_wire(&mut self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for _ in 0..3 {
            let frames = self.wan.received();
            let asked: Vec<_> = frames.iter().filter_map(|f| reply(f)).collect();
            all.extend(frames.into_iter().filter(|f| !is_talk(f)));
            if asked.is_empty() {
                return all;
            }
            asked.iter().for_each(|frame| self.wan.send(frame));
            self.net.settle();
        }
        all.extend(self.wan.received().into_iter().filter(|f| !is_talk(f)));
        all
    }

    /// Gives the node a frame from the wire; returns the frames that come out behind it.
    pub fn arrive(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        self.wan.send(frame);
        self.net.settle();
        self.on_lan()
    }

    /// Frames on the LAN that are not neighbours' talk, which is answered.
    pub fn on_lan(&mut self) -> Vec<Vec<u8>> {
        let mut frames = self.lan.received();
        frames.iter().filter_map(|f| reply(f)).for_each(|reply| self.lan.send(&reply));
        self.net.settle();
        frames.extend(self.lan.received());
        frames.retain(|f| !is_talk(f));
        frames
    }
}

/// True if a frame has a host's payload in clear.
pub fn is_clear(frame: &[u8]) -> bool {
    frame.windows(8).any(|w| w == [MARK; 8])
}

fn is_talk(f: &[u8]) -> bool {
    f[12..14] == [8, 6]
        || f[12..14] == [0x86, 0xdd] && f[20] == 58 && (133..=143).contains(&f[54])
        || f[12..14] == [0x86, 0xdd] && f[20] == 0
}

/// The answer of [`PEER`] to ARP and neighbour solicitations.
fn reply(frame: &[u8]) -> Option<Vec<u8>> {
    let asker = MacAddr(frame[6..12].try_into().ok()?);
    if frame[12..14] == [8, 6] && frame[20..22] == [0, 1] {
        // A probe of the node's own address is not answered.
        if frame[28..32] == [0; 4] || frame[28..32] == frame[38..42] {
            return None;
        }
        let mut arp = frame[14..22].to_vec();
        arp[7] = 2;
        arp.extend(PEER.0);
        arp.extend(&frame[38..42]);
        arp.extend(&frame[22..32]);
        return Some(ethernet(asker, PEER, 0x0806, &arp));
    }
    if frame[12..14] == [0x86, 0xdd] && frame[20] == 58 && frame[54] == 135 {
        let (from, target): ([u8; 16], [u8; 16]) =
            (frame[22..38].try_into().ok()?, frame[62..78].try_into().ok()?);
        if from == [0; 16] {
            return None;
        }
        let mut na = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
        na.extend(target);
        na.extend([2, 1]);
        na.extend(PEER.0);
        return Some(ethernet(asker, PEER, 0x86dd, &icmpv6(target, from, na)));
    }
    None
}

/// An echo request between two hosts.
pub fn echo(from: [u8; 4], to: [u8; 4], len: usize) -> Vec<u8> {
    let mut p = crate::net::udp4(from, to, (0x0800, 0), len, 0);
    p[9] = 1;
    let sum = u32::from(u16::from_be_bytes([p[10], p[11]])) + 16;
    let sum = (sum & 0xffff) + (sum >> 16);
    p[10..12].copy_from_slice(&(sum as u16).to_be_bytes());
    p[24..28].fill(0);
    p[22..24].copy_from_slice(&(!0x0800_u16).to_be_bytes());
    p
}

/// An ICMPv6 packet of the link whose checksum is right.
fn icmpv6(from: [u8; 16], to: [u8; 16], mut message: Vec<u8>) -> Vec<u8> {
    let len = message.len() as u8;
    let mut sum = 0_u32;
    for part in [&from[..], &to, &[0, 0, 0, len, 0, 0, 0, 58], &message] {
        sum += part.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum::<u32>();
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    message[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    [&[0x60, 0, 0, 0, 0, len, 58, 255][..], &from, &to, &message].concat()
}
