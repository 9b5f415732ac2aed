//! The paths that are timed: small configurations, fed from memory.
//!
//! ```text
//!   frames ─▶ [ first node, not timed ] ─▶ [ node that is timed ] ─▶ taken back
//! ```
//!
//! Feeders seal what the node opens, or put labels on it, so that every frame is fresh.

use super::Observation;
use crate::profile::{BATCH_MAX, Spent};
use ferrule_base::{Duration, Flow, Instant, MacAddr, Secret, Work};
use ferrule_crypto::Software;
use ferrule_node::{Config, Control, Environment, Volatile, Worker, build, made_mac};
use ferrule_pipeline::{Batch, Packet, Pool, PoolCache, Port, PortStats};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Lengths of the IP packets, or of the frames on layer 2.
const LENGTHS: [usize; 4] = [64, 256, 640, 1420];

/// Flows, or stations on layer 2, whose frames come in turn.
const FLOWS: usize = 512;

/// Peers whose MACsec frames are opened.
const PEERS: usize = 64;

/// Batches that wait at the port together, as they do where there is much to do.
const AT_ONCE: usize = 2;

/// Times that so many are carried in a round and not timed, so that caches hold what this
/// path needs, and times that they are.
const WARM: usize = 8;
const TIMED: usize = 8;

/// Buffers of a path: what is under way, three times what is flooded, and caches.
const BUFFERS: usize = 32 * BATCH_MAX;

const HERE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// A port in memory. Batches go in and out as they are, so that what is timed is the data
/// path; one lock for each.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Frames>>);

/// Frames on either side of a port in memory.
#[derive(Default)]
struct Frames {
    /// To be received by the node, the next ones last.
    ready: Vec<Batch>,
    /// Sent by the node.
    sent: Vec<Packet>,
}

impl Memory {
    fn frames(&self) -> MutexGuard<'_, Frames> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frames for the node to receive.
    fn load(&self, packets: Vec<Packet>) {
        let mut packets = packets.into_iter().peekable();
        let ready = &mut self.frames().ready;
        while packets.peek().is_some() {
            ready.push(packets.by_ref().take(BATCH_MAX).collect());
        }
        ready.reverse();
    }

    /// Frames that the node sent.
    fn take(&self) -> Vec<Packet> {
        std::mem::take(&mut self.frames().sent)
    }
}

impl Port for Memory {
    fn receive(&mut self, _: Instant, _: &mut PoolCache, batch: &mut Batch) {
        if let Some(ready) = self.frames().ready.pop() {
            *batch = ready;
        }
    }

    fn transmit(&mut self, _: Instant, _: &mut PoolCache, batch: &mut Batch) {
        self.frames().sent.extend(batch.drain(..));
    }

    fn stats(&self) -> PortStats {
        PortStats::default()
    }
}

/// A node with its ports in our hands.
struct Stand {
    control: Control,
    worker: Worker<Software>,
    ports: Vec<Memory>,
}

/// A path with frames of one length.
pub struct Path {
    name: &'static str,
    frames: Vec<Vec<u8>>,
    next: usize,
    feeders: Vec<Stand>,
    node: Stand,
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
        let sealing = secured("left0", 5, &["right"], 7);
        let left: Vec<String> = (0..PEERS).map(|n| format!("left{n}")).collect();
        let left: Vec<&str> = left.iter().map(|name| &**name).collect();
        let opened = left.iter().map(|name| secured(name, 5, &["right"], 7));
        let opened = opened.chain([secured("right", 7, &left, 5)]).collect();
        let tunnel = [gateway("left", 1, 2), gateway("right", 2, 1)];
        let [near, far] = tunnel;
        let vpn = |labels| provider("left", 1) + &vpn_route(labels);
        let wire = |name, labels, inn, out| pseudowire(name, labels, [inn, out]);
        let cases = [
            ("bridge, known unicast", vec![bridge("left", 2)], &bridged),
            ("bridge, flooded to three ports", vec![bridge("left", 4)], &bridged),
            ("IPv4", vec![router("left")], &ip),
            ("bridge, MACsec sealed", vec![sealing], &bridged),
            ("bridge, MACsec opened", opened, &bridged),
            ("IPv4, ESP sealed", vec![near.clone()], &ip),
            ("IPv4, ESP opened", vec![near, far], &ip),
            ("IPv4, passed by a policy", vec![router("left") + BYPASS], &ip),
            ("L3VPN ingress", vec![vpn("16002, 1000")], &ip),
            ("L3VPN egress", vec![vpn("1000"), provider("right", 2) + VPN_END], &ip),
            ("MPLS swap", vec![provider("left", 1) + &swapped_routes(), label_switch()], &ip),
            ("pseudowire ingress", vec![wire("left", "16002", 800, 801)], &bridged),
            (
                "pseudowire egress",
                vec![wire("left", "", 800, 801), wire("right", "", 801, 800)],
                &bridged,
            ),
        ];
        paths.extend(cases.map(|(name, configs, frames)| Path::new(name, &configs, frames)));
    }
    paths
}

impl Path {
    fn new(name: &'static str, configs: &[String], frames: &[Vec<u8>]) -> Self {
        let pool = Pool::heap(BUFFERS, 2048);
        let mut feeders: Vec<_> = configs.iter().map(|text| Stand::new(text, &pool)).collect();
        let node = feeders.pop().expect("the last one is timed");
        let (cache, frames, now) = (pool.cache(), frames.to_vec(), Instant::from_millis(1));
        let mut path =
            Self { name, frames, next: 0, feeders, node, cache, now, spent: Spent::default() };
        // Addresses are learned on the way.
        path.round(&mut || 0);
        path
    }

    /// Carries batches; what [`AT_ONCE`] of them took the last node, in nanoseconds.
    pub fn round(&mut self, clock: &mut dyn FnMut() -> u64) -> u64 {
        for _ in 0..WARM {
            self.carry(clock);
        }
        (0..TIMED).map(|_| self.carry(clock)).sum::<u64>() / TIMED as u64
    }

    fn carry(&mut self, clock: &mut dyn FnMut() -> u64) -> u64 {
        let frames = self.frames.iter().cycle().skip(self.next).take(AT_ONCE * BATCH_MAX);
        let mut packets: Vec<Packet> =
            frames.map_while(|frame| self.cache.packet_from(frame)).collect();
        self.next = (self.next + AT_ONCE * BATCH_MAX) % FLOWS;
        self.now += Duration::from_micros(50);
        if !self.feeders.is_empty() {
            packets = self.feed(packets);
        }
        let mut taken = Flow::default();
        packets.iter().for_each(|p| taken.add(p.len()));
        let before = self.node.load(packets, self.now);
        let begin = clock();
        self.node.turn(self.now);
        let took = clock().saturating_sub(begin);
        self.spent = Spent::since(taken, self.node.worker.work(), &before);
        self.node.take().for_each(|p| self.cache.recycle(p));
        took
    }

    /// Deals the packets out to the feeders; what comes out of them, of each in turn.
    fn feed(&mut self, packets: Vec<Packet>) -> Vec<Packet> {
        let count = self.feeders.len();
        let mut shares: Vec<Vec<Packet>> = (0..count).map(|_| Vec::new()).collect();
        packets.into_iter().enumerate().for_each(|(n, packet)| shares[n % count].push(packet));
        let mut fed: Vec<_> = Vec::new();
        for (feeder, share) in self.feeders.iter_mut().zip(shares) {
            feeder.load(share, self.now);
            feeder.turn(self.now);
            fed.push(feeder.take().collect::<Vec<_>>().into_iter());
        }
        let most = fed.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
        (0..most)
            .flat_map(|_| fed.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>())
            .collect()
    }

    /// What it came to.
    pub fn observation(&self, batch_ns: f64) -> Observation {
        let octets = self.spent.taken.octets / self.spent.taken.packets.max(1);
        Observation { path: self.name, octets, spent: self.spent, batch_ns }
    }
}

impl Stand {
    /// Frames for its first port, and the work that was done before them.
    fn load(&mut self, packets: Vec<Packet>, now: Instant) -> Work {
        self.control.turn(now);
        self.ports.iter().take(1).zip([packets]).for_each(|(port, packets)| port.load(packets));
        *self.worker.work()
    }

    /// Carries them.
    fn turn(&mut self, now: Instant) {
        for _ in 0..AT_ONCE {
            self.worker.turn(now);
        }
    }

    /// Frames that it sent.
    fn take(&self) -> impl Iterator<Item = Packet> + '_ {
        self.ports.iter().flat_map(Memory::take)
    }

    fn new(text: &str, pool: &Pool) -> Self {
        let parsed = Config::parse("calibration", text, &mut key);
        let config = parsed.unwrap_or_else(|e| panic!("a configuration of ours is wrong: {e}"));
        let macs = config.ports.iter().map(|p| made_mac(&config.name, &p.name)).collect();
        let count = config.ports.len();
        let environment = Environment {
            secret: [0; 2],
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
            let port = Memory::default();
            ports.push(port.clone());
            control.attach_port(index, Box::new(port)).expect("the worker is there");
        }
        let tables = control.tables();
        for iface in 0..tables.ifaces.len() as u16 {
            for (hop, mac) in [
                ("192.0.2.1", made_mac("left", "wan")),
                ("192.0.2.2", made_mac("right", "wan")),
                ("20.0.0.9", HERE),
            ] {
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

/// A bridge that seals at its WAN port, and opens what its peers sealed, which comes in by
/// its first port on the right.
fn secured(name: &str, out: u8, peers: &[&str], inn: u8) -> String {
    let order = match name {
        "right" => [("wan", 1632), ("lan", 1600)],
        _ => [("lan", 1600), ("wan", 1632)],
    };
    let members = order.map(|(port, _)| format!("{{ port = \"{port}\" }}")).join(", ");
    let receive = |peer: &&str| {
        format!("{{ sci = \"{}/1\", key = \"sak:{inn}\", an = 0 }}", made_mac(peer, "wan"))
    };
    let receive: Vec<String> = peers.iter().map(receive).collect();
    format!(
        "{}[[bridge]]\nname = \"br\"\nmember = [{members}]\n[[macsec]]\nport = \"wan\"\n\
         sci = \"{}/1\"\ntransmit = [{{ key = \"sak:{out}\", an = 0 }}]\nreceive = [{}]\n",
        ports(name, &order),
        made_mac(name, "wan"),
        receive.join(", "),
    )
}

fn routed(name: &str, own: u8) -> String {
    let order = match own {
        1 => [("lan", 1600), ("wan", 1600)],
        _ => [("wan", 1600), ("lan", 1600)],
    };
    format!(
        "{}[[interface]]\nport = \"lan\"\naddress = [\"{own}0.0.0.1/24\"]\n\
         [[interface]]\nport = \"wan\"\naddress = [\"192.0.2.{own}/24\"]\n",
        ports(name, &order)
    )
}

fn router(name: &str) -> String {
    routed(name, 1) + "[[route]]\nprefix = \"20.0.0.0/8\"\nvia = \"192.0.2.2\"\n"
}

fn gateway(name: &str, own: u8, other: u8) -> String {
    format!(
        "{}[[route]]\nprefix = \"{other}0.0.0.0/8\"\nvia = \"192.0.2.{other}\"\n\
         [[route]]\nprefix = \"{own}0.0.0.0/8\"\nvia = \"{own}0.0.0.9\"\n\
         [[tunnel]]\nname = \"t\"\nlocal = \"192.0.2.{own}\"\nremote = \"192.0.2.{other}\"\n\
         suite = \"aes-gcm-128\"\nmtu = 1500\nout = {{ spi = {}, key = \"gcm:{own}\" }}\n\
         in = {{ spi = {}, key = \"gcm:{other}\" }}\n[[policy]]\ninterface = \"wan\"\n\
         action = \"protect\"\ntunnel = \"t\"\nlocal = \"{own}0.0.0.0/8\"\n\
         remote = \"{other}0.0.0.0/8\"\n",
        routed(name, own),
        4096 + u32::from(other),
        4096 + u32::from(own),
    )
}

/// All that leaves by the WAN port passes in clear.
const BYPASS: &str = "[[policy]]\ninterface = \"wan\"\naction = \"bypass\"\n";

/// The ports of the left node, or those of the right one, whose WAN port is the first.
fn in_order(name: &str, lan: usize) -> String {
    match name {
        "left" => ports(name, &[("lan", lan), ("wan", 1600)]),
        _ => ports(name, &[("wan", 1600), ("lan", lan)]),
    }
}

/// The WAN side of a label switch.
fn core(own: u8) -> String {
    format!("[[interface]]\nport = \"wan\"\nmpls = true\naddress = [\"192.0.2.{own}/24\"]\n")
}

/// A provider's edge with a customer in a VRF.
fn provider(name: &str, own: u8) -> String {
    let customer = format!("vrf = \"red\"\naddress = [\"{own}0.0.0.1/24\"]\n");
    format!("{}{}[[interface]]\nport = \"lan\"\n{customer}", in_order(name, 1600), core(own))
}

/// The customer's route through the provider.
fn vpn_route(labels: &str) -> String {
    format!(
        "[[route]]\nvrf = \"red\"\nprefix = \"20.0.0.0/8\"\nvia = \"192.0.2.2\"\n\
         labels = [{labels}]\n"
    )
}

/// The far end of the customer's route.
const VPN_END: &str = "[[label]]\nlabel = 1000\nvrf = \"red\"\n\
    [[route]]\nvrf = \"red\"\nprefix = \"20.0.0.0/8\"\nvia = \"20.0.0.9\"\n";

/// A route with a label of its own for each flow.
fn swapped_routes() -> String {
    let route = |flow| {
        let [high, low] = ends(flow);
        format!(
            "[[route]]\nvrf = \"red\"\nprefix = \"20.0.{high}.{low}/32\"\n\
             via = \"192.0.2.2\"\nlabels = [{}, 1000]\n",
            LABEL + flow
        )
    };
    (0..FLOWS).map(route).collect()
}

/// A label switch that swaps the labels of all flows.
fn label_switch() -> String {
    let label = |flow| {
        let label = LABEL + flow;
        format!("[[label]]\nlabel = {label}\nswap = [{}]\nvia = \"20.0.0.9\"\n", 2 * label)
    };
    let labels: String = (0..FLOWS).map(label).collect();
    format!(
        "{}{}[[interface]]\nport = \"lan\"\nmpls = true\naddress = [\"20.0.0.1/24\"]\n{labels}",
        in_order("right", 1600),
        core(2)
    )
}

/// The first of the labels that are swapped.
const LABEL: usize = 16_000;

/// A provider's edge with a pseudowire of these labels, in and out.
fn pseudowire(name: &str, labels: &str, [inn, out]: [u32; 2]) -> String {
    let (own, other) = if name == "left" { (1, 2) } else { (2, 1) };
    format!(
        "{}{}[[lsp]]\nname = \"far\"\nvia = \"192.0.2.{other}\"\nlabels = [{labels}]\n\
         [[pseudowire]]\nname = \"pw\"\nport = \"lan\"\nlsp = \"far\"\nlabel-in = {inn}\n\
         label-out = {out}\n",
        in_order(name, 1500),
        core(own)
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

/// The last two octets of both addresses of a flow.
fn ends(flow: usize) -> [u8; 2] {
    let [.., high, low] = (256 + flow).to_be_bytes();
    [high, low]
}

/// An IPv4 UDP packet of `len` octets to a network behind 20.0.0.9, in a frame to the
/// first node.
fn routed_frame(len: usize, flow: usize) -> Vec<u8> {
    let [high, low] = ends(flow);
    let mut p = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, high, low, 20, 0, high, low];
    p[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    let sum: u32 = p.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    p[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    p.extend([0, 7, 0, 9]);
    p.extend((len as u16 - 20).to_be_bytes());
    p.resize(len, 0);
    [&made_mac("left", "lan").0[..], &HERE.0, &[8, 0], &p].concat()
}
