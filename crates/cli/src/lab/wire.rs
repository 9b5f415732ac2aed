//! `ferrule lab wire`: the links of a lab that is up which have more than a cable
//! has; `lab up` starts it, in a namespace of its own.
//!
//! ```text
//!   node ── veth ── w3a [ AF_PACKET ─▶ link of the laboratory ─▶ AF_PACKET ] w3b ── veth ── node
//! ```

use super::source::Source;
use crate::paint::emit;
use clap::Args;
use ferrule_base::Instant;
use ferrule_daemon::Fault;
use ferrule_lab::Direction;
use ferrule_lab::topology::{LinkEnd, Topology, Upset};
use ferrule_lab::wires::Wires;
use ferrule_pipeline::{Batch, Port};
use ferrule_ports::os::PollSet;
use ferrule_ports::{Opener, PortSpec, Umem, region};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Slower than this, a process between the interfaces keeps up with a link.
const RATE_MAX: u64 = 200_000_000;
/// Longer than this, what the process itself takes does not matter.
const DELAY_MIN: Duration = Duration::from_micros(500);
/// Buffers of all interfaces together.
const CHUNKS: usize = 8192;
/// Octets of a buffer that are no frame's.
const SPARE: usize = 512;
/// Without a frame, it looks up this often.
const LOOK: Duration = Duration::from_millis(200);

/// Links that a process carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Carried {
    /// Links that are impaired or disturbed, slow (200 Mbit/s at most), or long (0.5 ms at least).
    Auto,
    /// Each that has a rate, a delay, impairments or disturbances.
    All,
    /// None: each is a plain veth pair.
    None,
}

impl Carried {
    /// The links, by place.
    pub fn links(self, topology: &Topology) -> Vec<usize> {
        let wanted = |at: usize| {
            let Some(link) = topology.links.get(at) else { return false };
            let spec = &link.spec;
            let upset = |what: &Upset| matches!(what, Upset::Down(l) | Upset::Up(l) | Upset::Impair(l, _) if *l == at);
            let disturbed = topology.disturbances.iter().any(|d| upset(&d.what));
            let impaired = !spec.impairments.is_none()
                || spec.back.as_ref().is_some_and(|rules| !rules.is_none());
            match self {
                Self::None => false,
                Self::All => impaired || disturbed || spec.rate.is_some() || !spec.delay.is_zero(),
                Self::Auto => {
                    let slow = spec.rate.is_some_and(|rate| rate <= RATE_MAX);
                    impaired || disturbed || slow || spec.delay >= DELAY_MIN
                }
            }
        };
        (0..topology.links.len()).filter(|&at| wanted(at)).collect()
    }
}

/// The devices at both ends of a link in the namespace of the wires.
pub fn devices(link: usize) -> [String; 2] {
    [format!("w{link}a"), format!("w{link}b")]
}

/// The largest packet of a link.
pub fn mtu(topology: &Topology, link: usize) -> usize {
    let of = |end: &LinkEnd| match end {
        LinkEnd::Host(host) => topology.hosts.get(*host).map_or(1500, |host| host.mtu),
        LinkEnd::Node(node, port) => {
            let ports = topology.nodes.get(*node).map(|node| &node.config.ports);
            let port = ports.into_iter().flatten().find(|p| p.name == *port);
            port.map_or(1500, |port| port.mtu)
        }
    };
    let ends = topology.links.get(link).map(|link| link.ends.iter().map(of).max());
    ends.flatten().unwrap_or(1500)
}

/// Carry the links of a lab that is up, as `lab up` starts it
#[derive(Debug, Args)]
#[command(hide = true)]
pub struct WireArgs {
    #[command(flatten)]
    source: Source,
    /// A link, by place
    #[arg(long = "link", required = true)]
    links: Vec<usize>,
    /// The seed of losses
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A file that is made as soon as frames pass
    #[arg(long)]
    ready: PathBuf,
}

impl WireArgs {
    /// Carries frames until it is told to stop.
    pub fn run(self) -> ExitCode {
        let topology = match self.source.read() {
            Ok(topology) => topology,
            Err(wrong) => return wrong.exit(),
        };
        crate::live::finish(self.carry(&topology))
    }

    fn carry(&self, topology: &Topology) -> Result<(), Fault> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop))
                .map_err(|e| Fault::environment(format!("signals: {e}"), ""))?;
        }
        let longest = self.links.iter().map(|&at| mtu(topology, at)).max().unwrap_or(1500) + 22;
        let wires = Wires::of(topology, &self.links, longest, self.seed)
            .map_err(|e| Fault::environment(format!("the links: {e}"), "mend the topology"))?;
        let names: Vec<String> = self.links.iter().flat_map(|&at| devices(at)).collect();
        let mut ends = Ends::open(&names, longest)?;
        std::fs::write(&self.ready, b"").map_err(|e| {
            Fault::environment(format!("{}: {e}", self.ready.display()), "see the folder")
        })?;
        ends.drive(wires, &stop, &self.ready)
    }
}

/// The interfaces, two for each wire.
struct Ends {
    ports: Vec<Box<dyn Port>>,
    outgoing: Vec<Batch>,
    cache: ferrule_pipeline::PoolCache,
    waits: PollSet,
}

impl Ends {
    fn open(names: &[String], longest: usize) -> Result<Self, Fault> {
        let chunk = (longest + SPARE).next_power_of_two().max(2048);
        let (pool, _) = region::pool(CHUNKS, chunk)
            .map_err(|e| Fault::environment(format!("buffers: {e}"), "free some memory"))?;
        let (umem, mut opener) = (Umem::new(&pool), Opener::new());
        let (mut ports, mut waits) = (Vec::new(), PollSet::new());
        for name in names {
            let spec = PortSpec::Packet { interface: name.clone(), promiscuous: true };
            let opened = opener.open(&spec).and_then(|opened| opened.start(&umem));
            let port = opened.map_err(|e| Fault::environment(&e.what, &e.remedy))?;
            if let Some(fd) = port.wait_fd() {
                waits.add(fd, false);
            }
            ports.push(port);
        }
        let outgoing = names.iter().map(|_| Batch::new()).collect();
        Ok(Self { ports, outgoing, cache: pool.cache(), waits })
    }

    fn drive(&mut self, mut wires: Wires, stop: &AtomicBool, ready: &Path) -> Result<(), Fault> {
        let start = std::time::Instant::now();
        let clock = || Instant::from_nanos(start.elapsed().as_nanos() as u64);
        let (mut batch, mut refused) = (Batch::new(), 0_u64);
        // When the folder goes, so does the lab.
        while !stop.load(Ordering::Relaxed) && ready.exists() {
            let until = clock() + LOOK;
            while clock() < until && !stop.load(Ordering::Relaxed) {
                let mut busy = false;
                for (at, port) in self.ports.iter_mut().enumerate() {
                    let now = clock();
                    port.receive(now, &mut self.cache, &mut batch);
                    let way = if at % 2 == 0 { Direction::Forward } else { Direction::Reverse };
                    for packet in batch.drain(..) {
                        busy = true;
                        refused += u64::from(!wires.put(now, at / 2, way, packet.data()));
                        self.cache.recycle(packet);
                    }
                }
                let now = clock();
                wires.advance(now);
                busy |= self.send(&mut wires, now);
                if !busy {
                    let next = wires.poll_timeout().map_or(LOOK, |at| at.since(now).min(LOOK));
                    self.waits
                        .wait(Some(next))
                        .map_err(|e| Fault::environment(format!("waiting: {e}"), ""))?;
                }
            }
        }
        if refused > 0 {
            emit(&mut std::io::stderr().lock(), &format!("{refused} frames found no buffer\n"));
        }
        Ok(())
    }

    /// Sends frames that came out of wires on their interfaces; true if there were any.
    fn send(&mut self, wires: &mut Wires, now: Instant) -> bool {
        let Self { ports, outgoing, cache, .. } = self;
        let mut busy = false;
        wires.take(|wire, way, frame| {
            busy = true;
            let at = 2 * wire + usize::from(way == Direction::Forward);
            let (Some(port), Some(batch)) = (ports.get_mut(at), outgoing.get_mut(at)) else {
                return;
            };
            if batch.is_full() {
                port.transmit(now, cache, batch);
            }
            if let Some(packet) = cache.packet_from(frame).filter(|_| !batch.is_full()) {
                batch.push(packet);
            }
        });
        for (port, batch) in ports.iter_mut().zip(outgoing) {
            if !batch.is_empty() {
                port.transmit(now, cache, batch);
            }
            // Frames that the interface has no room for are lost, as on a wire.
            batch.drain(..).for_each(|packet| cache.recycle(packet));
        }
        busy
    }
}
