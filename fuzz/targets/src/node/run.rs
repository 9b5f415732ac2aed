//! One input: a node, its operations, and what must be true afterwards.

use super::configs::{CONFIGS, Kind, environment, parsed};
use super::frames;
use super::sealed::{AROUND, Peer};
use crate::input::Input;
use ferrule_base::{Drops, Duration, Instant, MacAddr, Rng};
use ferrule_crypto::{Engine, Late, Software};
use ferrule_node::{BuildError, Config, Control, Worker, build, made_mac};
use ferrule_pipeline::{Batch, Packet, Pool, PoolCache, Port, pair};
use std::sync::OnceLock;

/// Operations of one input.
const STEPS_MAX: usize = 256;
/// Frames on a wire at most.
const WIRE: usize = 256;
/// Octets of the largest frame; larger than any port takes.
const FRAME_MAX: usize = 3000;
/// Time between two rounds.
const STEP: Duration = Duration::from_micros(50);
/// Longest time that a late engine takes.
const LATE: Duration = Duration::from_millis(2);
/// Rounds without anything moving after which all has settled: longer than a
/// late engine takes.
const QUIET: usize = 60;
/// Rounds after which a node that still moves will not come to rest.
const ROUNDS_MAX: usize = 50_000;

/// Parts made once for each kind of node.
struct Scene {
    kind: Kind,
    config: Config,
    /// A configuration to change to and back.
    other: Config,
    macs: Vec<MacAddr>,
    plain: Vec<Vec<u8>>,
    inner: Vec<Vec<u8>>,
}

fn scenes() -> &'static [Scene] {
    static SCENES: OnceLock<Vec<Scene>> = OnceLock::new();
    let scene = |(text, kind): &(&str, Kind)| {
        let config = parsed(text);
        let macs: Vec<_> = config.ports.iter().map(|p| made_mac(&config.name, &p.name)).collect();
        let mut plain = frames::plain(*kind, macs[0]);
        // Recordings of other networks, which are not for this node but look so.
        plain.extend(crate::seeds::frames().into_iter().step_by(7));
        let inner = frames::inner(*kind, macs[1]);
        // The other keys: old SAs go, new ones come.
        let other = parsed(&text.replace(":1\"", ":3\"").replace("mtu = 1400", "mtu = 1300"));
        Scene { kind: *kind, config, other, macs, plain, inner }
    };
    SCENES.get_or_init(|| CONFIGS.iter().map(scene).collect())
}

/// A node and the far ends of its wires.
struct Rig {
    scene: &'static Scene,
    control: Control,
    workers: Vec<Worker<Box<dyn Engine<Packet>>>>,
    pool: Pool,
    hosts: Vec<Box<dyn Port>>,
    cache: PoolCache,
    peer: Peer,
    now: Instant,
    is_other: bool,
}

impl Rig {
    fn new(scene: &'static Scene, late: bool) -> Self {
        let now = Instant::from_millis(1);
        let config = scene.config.clone();
        let pool = Pool::heap(config.buffers, config.buffer_size);
        let environment = environment(&config, &pool, now);
        let engine = |id: usize| -> Box<dyn Engine<Packet>> {
            if late {
                Box::new(Late::new(Software::default(), id as u64 + 1, LATE, 64))
            } else {
                Box::new(Software::default())
            }
        };
        let (mut control, workers) = build(config, environment, engine).expect("it builds");
        let host_pool = Pool::heap(WIRE, 4096);
        let attach = |port| {
            let (mine, theirs) = pair(WIRE, &host_pool, &pool);
            control.attach_port(port, Box::new(theirs)).expect("the worker takes it");
            Box::new(mine) as Box<dyn Port>
        };
        let hosts = (0..scene.macs.len()).map(attach).collect();
        let (cache, peer) = (host_pool.cache(), Peer::new(scene.kind));
        let mut rig =
            Self { scene, control, workers, pool, hosts, cache, peer, now, is_other: false };
        // Addresses are tentative, then ours.
        for _ in 0..4 {
            rig.pass(Duration::from_millis(700));
        }
        rig
    }

    /// A turn of every worker and of the control part; the number of packets that moved.
    fn turn(&mut self) -> usize {
        let workers = self.workers.iter_mut().map(|w| w.turn(self.now)).sum::<usize>();
        let moved = workers + self.control.turn(self.now);
        self.drain();
        moved
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.turn();
        self.turn();
    }

    /// Takes what the node sent off the wires.
    fn drain(&mut self) {
        for host in &mut self.hosts {
            loop {
                let mut batch = Batch::new();
                host.receive(self.now, &mut self.cache, &mut batch);
                if batch.is_empty() {
                    break;
                }
                batch.drain(..).for_each(|p| self.cache.recycle(p));
            }
        }
    }

    fn send(&mut self, port: usize, frame: &[u8]) {
        let Some(packet) = self.cache.packet_from(&frame[..frame.len().min(FRAME_MAX)]) else {
            return;
        };
        let mut batch = Batch::new();
        batch.push(packet);
        self.hosts[port].transmit(self.now, &mut self.cache, &mut batch);
        batch.drain(..).for_each(|p| self.cache.recycle(p));
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let what = input.u8();
        let port = usize::from(what >> 4) % self.hosts.len();
        match what % 16 {
            0..=5 => {
                let frame = self.altered(port, input);
                self.send(port, &frame);
            }
            6..=9 => {
                let frame = self.sealed(input);
                self.send(1, &frame);
            }
            10 => {
                let len = usize::from(input.u16()) % FRAME_MAX;
                let octets = input.take(len);
                self.send(port, octets);
            }
            11 => self.pass(Duration::from_micros(input.u8().into())),
            12 => self.pass(Duration::from_millis(u64::from(input.u8()) * 20)),
            13 => drop(self.control.turn(self.now)),
            14 => {
                let worker = usize::from(what >> 4) % self.workers.len();
                self.workers[worker].turn(self.now);
            }
            _ => self.reload(input.u8()),
        }
        // Several frames may come at once.
        if what & 0x80 == 0 {
            self.turn();
        }
    }

    /// A frame of the scene, altered, with checksums made good or not.
    fn altered(&self, port: usize, input: &mut Input<'_>) -> Vec<u8> {
        let mut frame = input.pick(&self.scene.plain).clone();
        let how = input.u8();
        // To a station of this port, whatever the frame was made for.
        if how & 1 != 0 && frame.first().is_some_and(|b| b & 1 == 0) && frame.len() >= 6 {
            frame[..6].copy_from_slice(&self.scene.macs[port].0);
        }
        if how & 6 != 0 {
            input.alter(&mut frame);
        }
        if how & 8 != 0 {
            frames::repair(&mut frame);
        }
        frame
    }

    /// Octets under an ICV that is right; the frame itself rarely altered.
    fn sealed(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let mut inner = input.pick(&self.scene.inner).clone();
        let how = input.u8();
        if how & 6 != 0 {
            input.alter(&mut inner);
        }
        if how & 8 != 0 {
            match self.scene.kind {
                Kind::EspGcm | Kind::EspCbc => frames::repair_ip(&mut inner),
                _ => frames::repair(&mut inner),
            }
        }
        inner.truncate(FRAME_MAX - AROUND);
        let mut frame = self.peer.protect(self.scene.macs[1], &inner, input);
        if how >= 0xf0 {
            input.alter(&mut frame);
        }
        frame
    }

    /// Another configuration, or the same again; refused as long as the change before is
    /// not done everywhere.
    fn reload(&mut self, how: u8) {
        let is_other = self.is_other ^ (how & 1 != 0);
        let config = if is_other { &self.scene.other } else { &self.scene.config };
        // A worker that has had no turn may have no room for commands.
        self.turn();
        let changing = self.control.is_changing();
        match self.control.apply(self.now, config.clone(), &self.scene.macs) {
            Err(BuildError::Changing) if changing => {}
            applied => {
                applied.expect("the node takes both configurations");
                self.is_other = is_other;
            }
        }
    }

    /// Lets everything happen until nothing moves.
    fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..ROUNDS_MAX {
            self.now += STEP;
            quiet = if self.turn() == 0 { quiet + 1 } else { 0 };
            if quiet > QUIET && !self.control.is_changing() {
                return;
            }
        }
        panic!("the node does not come to rest");
    }

    /// Packets balance; how many are held, and why others were dropped.
    fn balance(&mut self) -> (u64, Drops) {
        let receiver = self.control.request_reports();
        for worker in &mut self.workers {
            worker.turn(self.now);
        }
        let reports: Vec<_> = receiver.try_iter().collect();
        assert_eq!(reports.len(), self.workers.len(), "every worker answers");
        let ledger = self.control.ledger(&reports);
        assert!(ledger.balances(), "{ledger:?}");
        assert!(ledger.held <= self.pool.chunks() as u64, "{ledger:?}");
        assert!(self.control.neighbours().len() <= NEIGHBOURS_MAX);
        let failures = self.control.take_failures();
        // Time leaps here, so a change may have taken long.
        let said = ["somebody else uses", "a change of configuration waits"];
        let known = |f: &String| said.iter().any(|said| f.contains(said));
        assert!(failures.iter().all(known), "{failures:?}");
        let mut drops = self.control.drops().clone();
        reports.iter().for_each(|r| drops.merge(&r.drops));
        (ledger.held, drops)
    }
}

/// Neighbours that a node knows at most.
const NEIGHBOURS_MAX: usize = ferrule_control::neighbour::config::ENTRIES_MAX;

/// A node.
pub fn node(data: &[u8]) {
    run(data);
}

/// Runs one input, and returns its drops by reason.
fn run(data: &[u8]) -> Drops {
    let mut input = Input::new(data);
    let which = input.u8();
    let scenes = scenes();
    let mut rig = Rig::new(&scenes[usize::from(which & 0x7f) % scenes.len()], which & 0x80 != 0);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        rig.step(&mut input);
    }
    rig.balance();
    rig.settle();
    // Packets that wait for a neighbour, or for the rest of a datagram, are given up by then.
    for _ in 0..70 {
        rig.pass(Duration::from_secs(1));
    }
    rig.settle();
    let (held, drops) = rig.balance();
    assert_eq!(held, 0, "packets are held after everything settled");
    rig.drain();
    let Rig { control, workers, pool, hosts, cache, .. } = rig;
    drop((control, workers, hosts, cache));
    assert_eq!(pool.free(), pool.chunks(), "buffers are lost");
    drops
}

/// Operations of every kind at every node.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut rng = Rng::new(5);
    let mut seed = |which: u64| {
        let mut octets = vec![0; 32 + rng.below(400) as usize];
        rng.fill(&mut octets);
        octets[0] = (which % CONFIGS.len() as u64) as u8 | (rng.below(2) as u8) << 7;
        octets
    };
    (0..100).map(&mut seed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutate::mutant;
    use ferrule_base::DropReason as Reason;

    #[test]
    fn sealed_frames_are_authentic_to_every_node() {
        for scene in scenes() {
            for late in [false, true] {
                let mut rig = Rig::new(scene, late);
                // The number goes on, and nothing is altered.
                let mut input = Input::new(&[4, 0xff, 4, 0xff, 4, 0xff]);
                for inner in &scene.inner[..3] {
                    let frame = rig.peer.protect(scene.macs[1], inner, &mut input);
                    rig.send(1, &frame);
                    rig.settle();
                }
                let (_, drops) = rig.balance();
                for reason in [Reason::EspBadIcv, Reason::EspUnknownSpi, Reason::MacsecBadIcv] {
                    assert_eq!(drops.get(reason), 0, "{:?}: {drops:?}", scene.kind);
                }
                let receiver = rig.control.request_reports();
                rig.turn();
                let opened = receiver.try_iter().map(|r| r.work.opened.packets).sum::<u64>();
                assert_eq!(opened, 3, "{:?}: {drops:?}", scene.kind);
            }
        }
    }

    #[test]
    fn node_inputs_reach_every_stage_and_past_every_icv() {
        let (corpus, mut rng) = (seeds(), Rng::new(6));
        let mut drops = Drops::default();
        for input in &corpus {
            drops.merge(&run(input));
        }
        let wanted = [
            Reason::Malformed,
            Reason::BadChecksum,
            Reason::LabelStack,
            Reason::ControlWord,
            Reason::NoNeighbour,
            Reason::EspBadIcv,
            Reason::EspReplay,
            // Only what is authentic gets this far.
            Reason::EspBadTrailer,
            Reason::EspSelectorMismatch,
            Reason::MacsecBadTag,
            Reason::MacsecReplay,
            Reason::MacsecBadIcv,
        ];
        for _ in 0..2000 {
            let missing: Vec<_> = wanted.iter().filter(|&&r| drops.get(r) == 0).collect();
            if missing.is_empty() {
                return;
            }
            drops.merge(&run(&mutant(&mut rng, &corpus)));
        }
        panic!("{:?}", wanted.iter().filter(|&&r| drops.get(r) == 0).collect::<Vec<_>>());
    }
}
