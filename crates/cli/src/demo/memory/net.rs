//! The five nodes in one process, joined by wires in memory, and the two wires
//! of the core watched.

use super::super::configs::{self, KEYS, Setting};
use super::super::plan::{self, Place, Variant, WIRES};
use super::super::wiretap::labelled;
use super::host::Host;
use crate::process::Fault;
use ferrule_base::{Instant, MacAddr, Secret};
use ferrule_crypto::Software;
use ferrule_node::{Config, Control, Environment, Volatile, Worker, build};
use ferrule_pipeline::{Batch, Pool, PoolCache, Port, PortStats, pair};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

/// Frames that a wire holds each way.
const WIRE_DEPTH: usize = 2048;
/// Buffers of a host, and octets of each.
const HOST_POOL: (usize, usize) = (4096, 2048);

/// How often frames of each size and number of labels crossed a wire.
pub type Sizes = BTreeMap<(usize, usize), usize>;

/// A wire's end that notes the labelled frames sent through it.
struct Watched {
    port: Box<dyn Port>,
    mac: MacAddr,
    sizes: Arc<Mutex<Sizes>>,
}

impl Port for Watched {
    fn receive(&mut self, now: Instant, cache: &mut PoolCache, batch: &mut Batch) {
        self.port.receive(now, cache, batch);
    }

    fn transmit(&mut self, now: Instant, cache: &mut PoolCache, batch: &mut Batch) {
        // Frames that stay in the batch come again: only room for all is taken.
        let before = self.port.stats().tx.packets;
        let seen: Vec<_> =
            batch.iter().map(|p| labelled(p.data(), self.mac).map(|n| (p.len(), n))).collect();
        self.port.transmit(now, cache, batch);
        let taken = (self.port.stats().tx.packets - before) as usize;
        if let Ok(mut sizes) = self.sizes.lock() {
            for size in seen.into_iter().take(taken).flatten() {
                *sizes.entry(size).or_default() += 1;
            }
        }
    }

    fn stats(&self) -> PortStats {
        self.port.stats()
    }

    fn is_up(&self) -> bool {
        self.port.is_up()
    }
}

struct Node {
    place: Place,
    control: Control,
    workers: Vec<Worker<Software>>,
    pool: Pool,
}

/// The network of a variant.
pub struct Net {
    nodes: Vec<Node>,
    /// Both hosts.
    pub hosts: [Host; 2],
    /// What PE1 sent to P, and P to PE2.
    pub sizes: [Arc<Mutex<Sizes>>; 2],
    begun: std::time::Instant,
}

impl Net {
    /// Builds it, with fresh keys.
    pub fn build(variant: &Variant) -> Result<Self, Fault> {
        let setting = Setting { dir: "memory".into(), driver: "wire".into(), live: false };
        let keys = keys(variant, &setting)?;
        let mut nodes = Vec::new();
        for place in Place::NODES {
            nodes.push(node(place, variant, &setting, &keys)?);
        }
        let pool = Pool::heap(HOST_POOL.0, HOST_POOL.1);
        let sizes = [Arc::default(), Arc::default()];
        let mut host_ports = Vec::new();
        for wire in &WIRES {
            let pools = wire.ends.map(|end| {
                nodes.iter().find(|n| n.place == end.place).map_or(&pool, |n| &n.pool).clone()
            });
            let (a, b) = pair(WIRE_DEPTH, &pools[0], &pools[1]);
            for (end, port) in wire.ends.iter().zip([a, b]) {
                let watch = match (end.place, end.device) {
                    (Place::Pe1, "core") => Some(&sizes[0]),
                    (Place::P, "right") => Some(&sizes[1]),
                    _ => None,
                };
                let port: Box<dyn Port> = match watch {
                    None => Box::new(port),
                    Some(sizes) => Box::new(Watched {
                        port: Box::new(port),
                        mac: mac(end),
                        sizes: Arc::clone(sizes),
                    }),
                };
                match nodes.iter_mut().find(|n| n.place == end.place) {
                    Some(node) => node.attach(end.device, port)?,
                    None => host_ports.push((mac(end), port)),
                }
            }
        }
        let mut sides = host_ports.into_iter().enumerate();
        let mut next = || {
            let (side, (mac, port)) = sides.next().expect("two wires end at hosts");
            host(side, mac, port, &pool, variant)
        };
        Ok(Self { nodes, hosts: [next(), next()], sizes, begun: std::time::Instant::now() })
    }

    /// The time, as the nodes see it.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// One visit to every node and host. How much happened.
    pub fn turn(&mut self) -> usize {
        let mut moved = 0;
        for node in &mut self.nodes {
            let now = self.begun.elapsed().as_nanos();
            let now = Instant::from_nanos(u64::try_from(now).unwrap_or(u64::MAX));
            moved += node.workers.iter_mut().map(|worker| worker.turn(now)).sum::<usize>();
            moved += node.control.turn(now);
        }
        let now = self.now();
        moved + self.hosts.iter_mut().map(|host| host.turn(now)).sum::<usize>()
    }

    /// Forgets what was seen on the core's wires.
    pub fn forget_sizes(&self) {
        for sizes in &self.sizes {
            if let Ok(mut sizes) = sizes.lock() {
                sizes.clear();
            }
        }
    }

    /// What went wrong in the control parts, in sentences.
    pub fn failures(&mut self) -> Vec<String> {
        self.nodes.iter_mut().flat_map(|node| node.control.take_failures()).collect()
    }
}

impl Node {
    fn attach(&mut self, device: &str, port: Box<dyn Port>) -> Result<(), Fault> {
        let index = self.control.config().ports.iter().position(|p| p.name == device);
        let index = index.expect("a port of the plan");
        let attached = self.control.attach_port(index, port);
        attached.map_err(|e| Fault::failed(self.place.name(), e))
    }
}

fn mac(end: &plan::End) -> MacAddr {
    end.mac.parse().expect("an address of the plan")
}

fn keys(variant: &Variant, setting: &Setting) -> Result<HashMap<String, Secret>, Fault> {
    let Some((kind, suite)) = variant.key_for() else { return Ok(HashMap::new()) };
    let fresh = |from: usize| {
        let key = kind.fresh(&format!("{suite}, {}", KEYS[from]));
        Ok((setting.key(from), key.map_err(|e| Fault::failed("a key", e))?))
    };
    (0..KEYS.len()).map(fresh).collect()
}

fn node(
    place: Place,
    variant: &Variant,
    setting: &Setting,
    keys: &HashMap<String, Secret>,
) -> Result<Node, Fault> {
    let text = configs::toml(place, variant, setting).expect("a node, not a host");
    let mut read =
        |path: &str| keys.get(path).cloned().ok_or_else(|| format!("there is no key `{path}`"));
    let config = Config::parse(place.name(), &text, &mut read)
        .map_err(|e| Fault::failed("a configuration of the demo", e))?;
    let pool = Pool::heap(config.buffers, config.buffer_size);
    let macs = config.ports.iter().map(|port| mac(plan::end(place, &port.name))).collect();
    let store = Box::new(Volatile::default());
    let environment = Environment { macs, pool: pool.clone(), store, now: Instant::ZERO };
    let (control, workers) = build(config, environment, |_| Software::default())
        .map_err(|e| Fault::failed(place.name(), e))?;
    Ok(Node { place, control, workers, pool })
}

fn host(side: usize, mac: MacAddr, port: Box<dyn Port>, pool: &Pool, variant: &Variant) -> Host {
    let address = |text: &str| text.parse().expect("an address of the plan");
    let hosts = variant.hosts();
    let next_hop = if variant.is_routed() { plan::LAN[side] } else { hosts[1 - side] };
    Host {
        port,
        cache: pool.cache(),
        mac,
        ip: address(hosts[side]),
        next_hop: address(next_hop),
        neighbours: HashMap::new(),
        echoed: None,
        datagrams: 0,
        octets: 0,
        kept: None,
    }
}
