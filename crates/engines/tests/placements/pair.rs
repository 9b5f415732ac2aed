//! Two secured nodes with a host each; the test carries, and keeps, the frames between
//! them.

use crate::net::{Host, Net, ethernet, mac, udp4};
use crate::places::Place;
use ferrule_base::MacAddr;

pub const HOST_A: MacAddr = MacAddr([2, 0, 0xaa, 1, 2, 3]);
pub const HOST_B: MacAddr = MacAddr([2, 0, 0xbb, 1, 2, 3]);

/// First octets of the hosts' payloads.
pub const MARK: [u8; 8] = *b"in clear";

/// Protection between the two nodes.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// ESP gateways, with this suite and kind of key.
    Esp(&'static str, &'static str),
    /// Bridges with MACsec, of this cipher and kind of key.
    Macsec(&'static str, &'static str),
}

pub const WAYS: [Way; 6] = [
    Way::Esp("aes-gcm-128", "gcm"),
    Way::Esp("chacha20-poly1305", "chacha"),
    Way::Esp("aes-cbc-128 hmac-sha1-96", "cbc-sha1"),
    Way::Macsec("gcm-aes-128", "sak"),
    Way::Macsec("gcm-aes-256", "sak256"),
    Way::Esp("aes-gcm-256-iiv", "gcm256"),
];

impl Way {
    /// True for AES-GCM, which a token can do: it encrypts single blocks.
    pub fn is_gcm(self) -> bool {
        matches!(self, Self::Esp("aes-gcm-128" | "aes-gcm-256-iiv", _) | Self::Macsec(..))
    }

    /// Key with this number as it is written in the configuration.
    fn key(self, place: &Place, number: u8) -> String {
        let (Self::Esp(_, kind) | Self::Macsec(_, kind)) = self;
        match (place.word, self) {
            ("token", Self::Esp(..)) => {
                format!("key = \"token:{kind}:{number}\", rest = \"salt:{number}\"")
            }
            ("token", Self::Macsec(..)) => format!("key = \"token:{kind}:{number}\""),
            _ => format!("key = \"{kind}:{number}\""),
        }
    }
}

fn node(name: &str, own: u8, other: u8, way: Way, place: &Place) -> String {
    let Place { word, tables, .. } = place;
    let (out, back) = (way.key(place, own), way.key(place, other));
    let head = format!(
        "{tables}\n[node]\nname = \"{name}\"\nlab = true\nbuffers = 8192\n\
         [[port]]\nname = \"lan\"\ndriver = \"wire\"\n\
         [[port]]\nname = \"wan\"\ndriver = \"wire\"\nmtu = 1600\n"
    );
    let body = match way {
        Way::Esp(suite, _) => format!(
            "[[interface]]\nport = \"lan\"\naddress = [\"10.{own}.0.1/24\"]\n\
             [[interface]]\nport = \"wan\"\naddress = [\"192.0.2.{own}/24\"]\n\
             [[route]]\nprefix = \"10.{other}.0.0/24\"\nvia = \"192.0.2.{other}\"\n\
             [[tunnel]]\nname = \"t\"\nlocal = \"192.0.2.{own}\"\nremote = \"192.0.2.{other}\"\n\
             suite = \"{suite}\"\nmtu = 1400\nplacement = \"{word}\"\n\
             out = {{ spi = {}, {out} }}\n\
             in = {{ spi = {}, {back} }}\n\
             [[policy]]\ninterface = \"wan\"\naction = \"protect\"\ntunnel = \"t\"\n\
             local = \"10.{own}.0.0/24\"\nremote = \"10.{other}.0.0/24\"\n",
            4096 + u32::from(other),
            4096 + u32::from(own),
        ),
        Way::Macsec(cipher, _) => format!(
            "[[bridge]]\nname = \"b\"\nmember = [{{ port = \"lan\" }}, {{ port = \"wan\" }}]\n\
             [[macsec]]\nport = \"wan\"\ncipher = \"{cipher}\"\nsci = \"02:00:00:00:00:0{own}/1\"\n\
             placement = \"{word}\"\nwindow = 0\n\
             transmit = [{{ an = 0, {out} }}]\n\
             receive = [{{ sci = \"02:00:00:00:00:0{other}/1\", an = 0, {back} }}]\n"
        ),
    };
    head + &body
}

/// Two nodes, their hosts, and the wire between them.
pub struct Pair {
    pub net: Net,
    pub a: Host,
    pub b: Host,
    wan: (Host, Host),
    way: Way,
    /// Sealed frames from a to b, in their order.
    pub wire: Vec<Vec<u8>>,
}

impl Pair {
    pub fn new(way: Way, place: &Place) -> Self {
        let make = place.make;
        Self::with(way, place, move |config, pool, id| make(config, pool, id))
    }

    /// With other engines than the placement's own.
    pub fn with(
        way: Way,
        place: &Place,
        make: impl Fn(
            &ferrule_node::Config,
            &ferrule_pipeline::Pool,
            usize,
        ) -> Box<dyn ferrule_crypto::Engine<ferrule_pipeline::Packet>>
        + 'static,
    ) -> Self {
        let mut net = Net::with_engines(place.real, make);
        let a = net.node(&node("a", 1, 2, way, place));
        let b = net.node(&node("b", 2, 1, way, place));
        let wan = (net.host(a, "wan"), net.host(b, "wan"));
        let hosts = (net.host(a, "lan"), net.host(b, "lan"));
        let mut pair = Self { net, a: hosts.0, b: hosts.1, wan, way, wire: Vec::new() };
        pair.settle();
        // Neighbours find each other, and host b answers for itself.
        pair.send(0, 60);
        for _ in 0..3 {
            pair.settle();
            pair.answer_arp();
        }
        pair.settle();
        pair.b.received();
        pair.wire.clear();
        pair
    }

    /// The frame that carries number `n`, of so many octets of IP.
    pub fn frame(&self, n: u32, len: usize) -> Vec<u8> {
        let mut packet = udp4([10, 1, 0, 9], [10, 2, 0, 9], (7, 9), len, n as u8);
        packet[28..36].copy_from_slice(&MARK);
        packet[36..40].copy_from_slice(&n.to_be_bytes());
        let to = match self.way {
            Way::Esp(..) => mac("a", "lan"),
            Way::Macsec(..) => HOST_B,
        };
        ethernet(to, HOST_A, 0x0800, &packet)
    }

    /// Host a sends number `n`.
    pub fn send(&mut self, n: u32, len: usize) {
        let frame = self.frame(n, len);
        self.a.send(&frame);
    }

    /// Carries frames until nothing moves.
    pub fn settle(&mut self) {
        loop {
            self.net.settle();
            let (there, back) = (self.wan.0.received(), self.wan.1.received());
            if there.is_empty() && back.is_empty() {
                return;
            }
            for frame in there {
                self.wan.1.send(&frame);
                if is_sealed(&frame) {
                    self.wire.push(frame);
                }
            }
            back.iter().for_each(|frame| self.wan.0.send(frame));
        }
    }

    fn answer_arp(&mut self) {
        for frame in self.b.received() {
            if frame[12..14] == [8, 6] && frame[20..22] == [0, 1] && frame[38..42] == [10, 2, 0, 9]
            {
                let asker = MacAddr(frame[22..28].try_into().unwrap());
                let mut arp = frame[14..22].to_vec();
                arp[7] = 2;
                arp.extend(HOST_B.0);
                arp.extend([10, 2, 0, 9]);
                arp.extend(&frame[22..32]);
                self.b.send(&ethernet(asker, HOST_B, 0x0806, &arp));
            }
        }
    }

    /// IP packets that arrived at host b: number and octets, in their order.
    pub fn arrived(&mut self) -> Vec<(u32, Vec<u8>)> {
        let frames = self.b.received().into_iter().filter(|f| f[12..14] == [8, 0]);
        frames.map(|f| (u32::from_be_bytes(f[50..54].try_into().unwrap()), f)).collect()
    }
}

fn is_sealed(frame: &[u8]) -> bool {
    frame[12..14] == [0x88, 0xe5] || frame[12..14] == [8, 0] && frame[23] == 50
}
