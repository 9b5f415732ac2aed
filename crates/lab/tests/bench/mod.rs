//! Stations and configurations for tests: a source that sends at given times, a
//! sink that notes when what arrived.
#![allow(dead_code)]

use ferrule_base::{Duration, Instant, Ledger, MacAddr};
use ferrule_lab::{Io, Station};
use ferrule_node::config::named_key;
use ferrule_node::{Config, made_mac};
use ferrule_pipeline::Packet;
use std::any::Any;

/// Schedule of a source.
pub enum Schedule {
    /// Frames at this distance.
    Every(Duration),
    /// A Poisson process with this mean distance.
    Poisson(Duration),
    /// Without waiting: all frames at once.
    Burst,
}

/// Sends frames; takes what comes.
pub struct Source {
    pub frame: Vec<u8>,
    pub left: u64,
    pub schedule: Schedule,
    pub at: Instant,
    pub ledger: Ledger,
    /// The number is written at the end of the frame, in 8 octets.
    pub numbered: bool,
    exact_ns: f64,
}

impl Source {
    pub fn new(frame: Vec<u8>, count: u64, schedule: Schedule) -> Box<Self> {
        Self::from(Instant::ZERO, frame, count, schedule)
    }

    pub fn from(at: Instant, frame: Vec<u8>, count: u64, schedule: Schedule) -> Box<Self> {
        let (ledger, numbered, left) = (Ledger::default(), true, count);
        let exact_ns = at.as_nanos() as f64;
        Box::new(Self { frame, left, schedule, at, ledger, numbered, exact_ns })
    }
}

impl Station for Source {
    fn receive(&mut self, io: &mut Io<'_>, _port: usize, packet: Packet) {
        self.ledger.received += 1;
        self.ledger.consumed += 1;
        io.cache.recycle(packet);
    }

    fn wake(&mut self, io: &mut Io<'_>) {
        loop {
            let mut packet = io.cache.packet_from(&self.frame).expect("the pool has enough");
            if self.numbered {
                let number = self.ledger.sent.to_be_bytes();
                let len = packet.len();
                packet.data_mut()[len - 8..].copy_from_slice(&number);
            }
            io.sent.push((0, packet));
            self.ledger.made += 1;
            self.ledger.sent += 1;
            self.left -= 1;
            match self.schedule {
                Schedule::Every(d) => self.exact_ns += d.as_nanos() as f64,
                Schedule::Poisson(d) => {
                    self.exact_ns += ferrule_lab::random::exponential(io.rng) * d.as_nanos() as f64;
                }
                Schedule::Burst => {}
            }
            self.at = Instant::from_nanos(self.exact_ns as u64);
            if self.left == 0 || self.at > io.now {
                return;
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (self.left > 0).then_some(self.at)
    }

    fn ledger(&self) -> Ledger {
        self.ledger
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Notes what arrives: the time, and the number at the frame's end.
#[derive(Default)]
pub struct Sink {
    pub arrivals: Vec<(Instant, u64)>,
    pub frames: Vec<Vec<u8>>,
    pub keep: bool,
    /// Answers ARP for this address, and is in no IPv6 group.
    pub own: Option<(MacAddr, [u8; 4])>,
    pub ledger: Ledger,
}

impl Sink {
    pub fn new() -> Box<Self> {
        Box::default()
    }

    pub fn keeping() -> Box<Self> {
        Box::new(Self { keep: true, ..Self::default() })
    }

    /// A host that answers ARP.
    pub fn host(mac: MacAddr, ip: [u8; 4]) -> Box<Self> {
        Box::new(Self { own: Some((mac, ip)), ..Self::default() })
    }

    fn answer(&mut self, io: &mut Io<'_>, frame: &[u8]) {
        let Some((mac, ip)) = self.own else { return };
        if frame.len() < 42 || frame[12..14] != [8, 6] || frame[38..42] != ip {
            return;
        }
        let mut reply = [&frame[6..12], &mac.0, &frame[12..22]].concat();
        reply[21] = 2;
        reply.extend(mac.0);
        reply.extend(ip);
        reply.extend(&frame[22..32]);
        let Some(packet) = io.cache.packet_from(&reply) else { return };
        io.sent.push((0, packet));
        self.ledger.made += 1;
        self.ledger.sent += 1;
    }
}

impl Station for Sink {
    fn receive(&mut self, io: &mut Io<'_>, _port: usize, packet: Packet) {
        self.ledger.received += 1;
        self.ledger.consumed += 1;
        if packet.data().get(12..14) == Some(&[8, 6]) {
            self.answer(io, packet.data());
            return io.cache.recycle(packet);
        }
        // A router's neighbour discovery, at a time that the seed decides.
        if self.own.is_some() && packet.data().starts_with(&[0x33, 0x33]) {
            return io.cache.recycle(packet);
        }
        let number = packet.data().last_chunk::<8>().map_or(0, |b| u64::from_be_bytes(*b));
        self.arrivals.push((io.now, number));
        if self.keep {
            self.frames.push(packet.data().to_vec());
        }
        io.cache.recycle(packet);
    }

    fn wake(&mut self, _io: &mut Io<'_>) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn ledger(&self) -> Ledger {
        self.ledger
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// A frame of `len` octets that a bridge floods or learns.
pub fn frame(len: usize) -> Vec<u8> {
    let (to, from) = (MacAddr([2, 0, 0, 0, 0, 2]), MacAddr([2, 0, 0, 0, 0, 1]));
    let mut frame = [&to.0[..], &from.0, &[0x88, 0xb5]].concat();
    frame.resize(len, 0);
    frame
}

/// The address of a node's port.
pub fn mac(node: &str, port: &str) -> MacAddr {
    made_mac(node, port)
}

/// A configuration that must be right.
pub fn config(text: &str) -> Config {
    match Config::parse("test.toml", text, &mut named_key) {
        Ok(config) => config,
        Err(e) => panic!("{e}"),
    }
}

/// A node that bridges its ports `a` and `b`.
pub fn bridge(name: &str) -> Config {
    config(&format!(
        r#"
[node]
name = "{name}"
lab = true
[[port]]
name = "a"
driver = "wire"
[[port]]
name = "b"
driver = "wire"
[[bridge]]
name = "br"
member = [{{ port = "a" }}, {{ port = "b" }}]
"#
    ))
}

/// An IPv4 UDP packet of `len` octets in an Ethernet frame; the checksum of UDP
/// is not used.
pub fn udp4(to: MacAddr, from: MacAddr, ips: ([u8; 4], [u8; 4]), len: usize) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0];
    p[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    p.extend(ips.0);
    p.extend(ips.1);
    let sum = p.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    p[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    p.extend([0, 7, 0, 9]);
    p.extend((len as u16 - 20).to_be_bytes());
    p.extend([0, 0]);
    p.resize(len, 0);
    [&to.0[..], &from.0, &[8, 0], &p].concat()
}

/// An ESP gateway: its LAN is 10.OWN.0.0/24, the other's 10.OTHER.0.0/24.
pub fn gateway(name: &str, own: u8, other: u8, workers: u8) -> Config {
    placed(name, own, other, workers, "software")
}

/// Configuration with the tunnel's work done elsewhere.
pub fn placed(name: &str, own: u8, other: u8, workers: u8, placement: &str) -> Config {
    let (out, inn) = if own < other { (1, 7) } else { (7, 1) };
    config(&format!(
        r#"
[node]
name = "{name}"
lab = true
workers = {workers}
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
prefix = "10.{other}.0.0/24"
via = "192.0.2.{other}"
[[tunnel]]
name = "t"
local = "192.0.2.{own}"
remote = "192.0.2.{other}"
suite = "aes-gcm-128"
placement = "{placement}"
mtu = 1500
out = {{ spi = {}, key = "gcm:{out}" }}
in = {{ spi = {}, key = "gcm:{inn}" }}
[[policy]]
interface = "wan"
action = "protect"
tunnel = "t"
local = "10.{own}.0.0/24"
remote = "10.{other}.0.0/24"
"#,
        0x1000 + u32::from(other),
        0x1000 + u32::from(own),
    ))
}

/// A bridge with MACsec on `wan`.
pub fn secured_bridge(name: &str, peer: &str, keys: (u8, u8)) -> Config {
    config(&format!(
        r#"
[node]
name = "{name}"
lab = true
[[port]]
name = "lan"
driver = "wire"
mtu = 1600
[[port]]
name = "wan"
driver = "wire"
mtu = 1632
[[bridge]]
name = "br"
member = [{{ port = "lan" }}, {{ port = "wan" }}]
[[macsec]]
port = "wan"
sci = "{}/1"
transmit = [{{ key = "sak:{}", an = 0 }}]
receive = [{{ sci = "{}/1", key = "sak:{}", an = 0 }}]
"#,
        mac(name, "wan"),
        keys.0,
        mac(peer, "wan"),
        keys.1,
    ))
}
