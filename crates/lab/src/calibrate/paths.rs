//! The paths that are timed: small configurations, fed from memory.
//!
//! ```text
//!   frames ─▶ [ first node, not timed ] ─▶ [ node that is timed ] ─▶ taken back
//! ```
//!
//! Only a path that opens has a first node: it seals what the second opens, so
//! that every frame is fresh.

use super::Observation;
use crate::profile::{BATCH_MAX, Spent};
use ferrule_base::{Duration, Flow, Instant, MacAddr, Secret};
use ferrule_crypto::Software;
use ferrule_node::{Config, Control, Environment, Volatile, Worker, build, made_mac};
use ferrule_pipeline::pair::PairPort;
use ferrule_pipeline::{Batch, Pool, PoolCache, Port, pair};

/// Lengths of the IP packets, or of the frames on layer 2.
const LENGTHS: [usize; 4] = [64, 256, 640, 1420];

/// Flows, or stations on layer 2, whose frames come in turn.
const FLOWS: usize = 512;

/// Batches of a round that are not timed, so that caches hold what this path needs, and
/// batches that are.
const WARM: usize = FLOWS / BATCH_MAX;
const TIMED: usize = 16;

/// Frames between a node and us at most.
const DEPTH: usize = 4 * BATCH_MAX;

const HERE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// A node with its ports in our hands.
struct Stand {
    control: Control,
    worker: Worker<Software>,
    ports: Vec<PairPort>,
}

/// A path with frames of one length.
pub struct Path {
    name: &'static str,
    frames: Vec<Vec<u8>>,
    next: usize,
    stands: Vec<Stand>,
    cache: PoolCache,
    now: Instant,
    spent: Spent,
}

/// Every path with every length.
pub fn all() -> Vec<Path> {
    let mut paths = Vec::new();
    for len in LENGTHS {
        let ip: Vec<_> = (0..FLOWS).map(|flow| routed_frame(len, flow)).collect();
        let bridged: Vec<_> = (0..FLOWS).map(|flow| bridged_frame(len, flow)).collect();
        let macsec = [secured("left", 5, 7), secured("right", 7, 5)];
        let [sealing, opening] = macsec;
        let tunnel = [gateway("left", 1, 2), gateway("right", 2, 1)];
        let [near, far] = tunnel;
        let cases = [
            ("bridge, known unicast", vec![bridge("left", 2)], &bridged),
            ("bridge, flooded to three ports", vec![bridge("left", 4)], &bridged),
            ("IPv4", vec![router("left")], &ip),
            ("bridge, MACsec sealed", vec![sealing.clone()], &bridged),
            ("bridge, MACsec opened", vec![sealing, opening], &bridged),
            ("IPv4, ESP sealed", vec![near.clone()], &ip),
            ("IPv4, ESP opened", vec![near, far], &ip),
        ];
        paths.extend(cases.map(|(name, configs, frames)| Path::new(name, &configs, frames)));
    }
    paths
}

impl Path {
    fn new(name: &'static str, configs: &[String], frames: &[Vec<u8>]) -> Self {
        let pool = Pool::heap(8 * DEPTH, 2048);
        let stands = configs.iter().map(|text| Stand::new(text, &pool)).collect();
        let (cache, frames, now) = (pool.cache(), frames.to_vec(), Instant::from_millis(1));
        let spent = Spent::default();
        let mut path = Self { name, frames, next: 0, stands, cache, now, spent };
        // Addresses are learned on the way.
        path.round(&mut || 0);
        path
    }

    /// Carries batches; what one of them took the last node, in nanoseconds.
    pub fn round(&mut self, clock: &mut dyn FnMut() -> u64) -> u64 {
        for _ in 0..WARM {
            self.carry(clock);
        }
        (0..TIMED).map(|_| self.carry(clock)).sum::<u64>() / TIMED as u64
    }

    fn carry(&mut self, clock: &mut dyn FnMut() -> u64) -> u64 {
        let mut batch = Batch::new();
        let frames = self.frames.iter().cycle().skip(self.next).take(BATCH_MAX);
        batch.extend(frames.map_while(|frame| self.cache.packet_from(frame)));
        self.next = (self.next + BATCH_MAX) % FLOWS;
        let mut took = 0;
        for stand in &mut self.stands {
            self.now += Duration::from_micros(50);
            stand.control.turn(self.now);
            let Some(input) = stand.ports.first_mut() else { continue };
            let mut taken = Flow::default();
            batch.iter().for_each(|p| taken.add(p.len()));
            input.transmit(self.now, &mut self.cache, &mut batch);
            let before = *stand.worker.work();
            let begin = clock();
            stand.worker.turn(self.now);
            took = clock().saturating_sub(begin);
            self.spent = Spent::since(taken, stand.worker.work(), &before);
            batch = Batch::new();
            for port in &mut stand.ports {
                loop {
                    let mut more = Batch::new();
                    port.receive(self.now, &mut self.cache, &mut more);
                    if more.is_empty() {
                        break;
                    }
                    // The first batch goes on; floods end here.
                    match batch.is_empty() {
                        true => batch = more,
                        false => more.into_iter().for_each(|p| self.cache.recycle(p)),
                    }
                }
            }
        }
        batch.into_iter().for_each(|p| self.cache.recycle(p));
        took
    }

    /// What it came to.
    pub fn observation(&self, batch_ns: f64) -> Observation {
        let octets = self.spent.taken.octets / self.spent.taken.packets.max(1);
        Observation { path: self.name, octets, spent: self.spent, batch_ns }
    }
}

impl Stand {
    fn new(text: &str, pool: &Pool) -> Self {
        let parsed = Config::parse("calibration", text, &mut key);
        let config = parsed.unwrap_or_else(|e| panic!("a configuration of ours is wrong: {e}"));
        let macs = config.ports.iter().map(|p| made_mac(&config.name, &p.name)).collect();
        let count = config.ports.len();
        let environment = Environment {
            macs,
            pool: pool.clone(),
            store: Box::new(Volatile::default()),
            now: Instant::ZERO,
        };
        let built = build(config, environment, |_| Software::default());
        let (mut control, mut workers) = built.expect("nothing is missing in memory");
        let worker = workers.remove(0);
        let mut ports = Vec::new();
        for index in 0..count {
            let (ours, theirs) = pair(DEPTH, pool, pool);
            ports.push(ours);
            control.attach_port(index, Box::new(theirs)).expect("the worker is there");
        }
        let tables = control.tables();
        for iface in 0..tables.ifaces.len() as u16 {
            for (hop, mac) in [("192.0.2.2", made_mac("right", "wan")), ("10.2.0.9", HERE)] {
                if let Ok(hop) = hop.parse() {
                    tables.neighbours.set(iface, hop, mac);
                }
            }
        }
        for bridge in &tables.bridges {
            // With two members the destination is known, with more it is flooded to.
            if let [_, last] = bridge.members[..] {
                for flow in 0..FLOWS {
                    bridge.table.learn(0, station(flow), last, Instant::ZERO);
                }
            }
        }
        Self { control, worker, ports }
    }
}

/// Keys `gcm:N` and `sak:N`, of octets N.
fn key(path: &str) -> Result<Secret, String> {
    let (kind, n) = path.split_once(':').ok_or("no such key")?;
    let n: u8 = n.parse().map_err(|_| "no such key")?;
    let hex = |len: usize| format!("{n:02x}").repeat(len);
    let text = match kind {
        "gcm" => format!("cipher {}\nsalt {}", hex(16), hex(4)),
        _ => format!("cipher {}", hex(16)),
    };
    Ok(Secret::new(text.into_bytes()))
}

fn ports(name: &str, ports: &[(&str, usize)]) -> String {
    let mut text = format!("[node]\nname = \"{name}\"\nlab = true\n");
    for (port, mtu) in ports {
        text += &format!("[[port]]\nname = \"{port}\"\ndriver = \"wire\"\nmtu = {mtu}\n");
    }
    text
}

fn bridge(name: &str, count: usize) -> String {
    let all = [("lan", 1600), ("wan", 1600), ("x", 1600), ("y", 1600)];
    let all = &all[..count.min(all.len())];
    let members: Vec<_> = all.iter().map(|(port, _)| format!("{{ port = \"{port}\" }}")).collect();
    let members = members.join(", ");
    format!("{}[[bridge]]\nname = \"br\"\nmember = [{members}]\n", ports(name, all))
}

/// The first seals at its WAN port; the second has its WAN port first.
fn secured(name: &str, out: u8, inn: u8) -> String {
    let (order, peer) = match name {
        "left" => ([("lan", 1600), ("wan", 1632)], "right"),
        _ => ([("wan", 1632), ("lan", 1600)], "left"),
    };
    let members = order.map(|(port, _)| format!("{{ port = \"{port}\" }}")).join(", ");
    format!(
        "{}[[bridge]]\nname = \"br\"\nmember = [{members}]\n[[macsec]]\nport = \"wan\"\n\
         sci = \"{}/1\"\ntransmit = [{{ key = \"sak:{out}\", an = 0 }}]\n\
         receive = [{{ sci = \"{}/1\", key = \"sak:{inn}\", an = 0 }}]\n",
        ports(name, &order),
        made_mac(name, "wan"),
        made_mac(peer, "wan"),
    )
}

fn routed(name: &str, own: u8) -> String {
    let order = match own {
        1 => [("lan", 1600), ("wan", 1600)],
        _ => [("wan", 1600), ("lan", 1600)],
    };
    format!(
        "{}[[interface]]\nport = \"lan\"\naddress = [\"10.{own}.0.1/24\"]\n\
         [[interface]]\nport = \"wan\"\naddress = [\"192.0.2.{own}/24\"]\n",
        ports(name, &order)
    )
}

fn router(name: &str) -> String {
    routed(name, 1) + "[[route]]\nprefix = \"10.2.0.0/16\"\nvia = \"192.0.2.2\"\n"
}

fn gateway(name: &str, own: u8, other: u8) -> String {
    format!(
        "{}[[route]]\nprefix = \"10.{other}.0.0/16\"\nvia = \"192.0.2.{other}\"\n\
         [[route]]\nprefix = \"10.{own}.0.0/16\"\nvia = \"10.{own}.0.9\"\n\
         [[tunnel]]\nname = \"t\"\nlocal = \"192.0.2.{own}\"\nremote = \"192.0.2.{other}\"\n\
         suite = \"aes-gcm-128\"\nmtu = 1500\nout = {{ spi = {}, key = \"gcm:{own}\" }}\n\
         in = {{ spi = {}, key = \"gcm:{other}\" }}\n[[policy]]\ninterface = \"wan\"\n\
         action = \"protect\"\ntunnel = \"t\"\nlocal = \"10.{own}.0.0/16\"\n\
         remote = \"10.{other}.0.0/16\"\n",
        routed(name, own),
        4096 + u32::from(other),
        4096 + u32::from(own),
    )
}

/// The station to which a frame of this flow goes.
fn station(flow: usize) -> MacAddr {
    let [.., high, low] = flow.to_be_bytes();
    MacAddr([2, 0, 0, 1, high, low])
}

/// A frame that a bridge carries.
fn bridged_frame(len: usize, flow: usize) -> Vec<u8> {
    let mut frame = [&station(flow).0[..], &HERE.0, &[0x88, 0xb5]].concat();
    frame.resize(len, 0);
    frame
}

/// An IPv4 UDP packet of `len` octets to a network behind 10.2.0.9, in a frame to the
/// first node.
fn routed_frame(len: usize, flow: usize) -> Vec<u8> {
    let [.., high, low] = (256 + flow).to_be_bytes();
    let mut p = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0, 10, 1, high, low, 10, 2, high, low];
    p[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    let sum: u32 = p.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    p[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    p.extend([0, 7, 0, 9]);
    p.extend((len as u16 - 20).to_be_bytes());
    p.resize(len, 0);
    [&made_mac("left", "lan").0[..], &HERE.0, &[8, 0], &p].concat()
}
