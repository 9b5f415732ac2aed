//! One run of a campaign, as data: what its seed drew. Shrinking takes things
//! out of it, and a recording writes down what is left.

use crate::profile::Profile;
use ferrule_base::{Duration, Instant, Rng};
use ferrule_node::Config;
use ferrule_node::config::Replay;
use serde::{Deserialize, Serialize};

/// Shares are drawn up to these, in thousandths.
const LOSS_MAX: u64 = 30;
const DUPLICATE_MAX: u64 = 60;
const CORRUPT_MAX: u64 = 20;
const REORDER_MAX: u64 = 200;
/// A frame is held back until so many others have passed it, at most.
const BEHIND_MAX: u64 = 96;
/// Microseconds of jitter at most.
const JITTER_MAX: u64 = 200;
/// Megabits per second of a slow link at most, and how seldom there is one.
const SLOW_MAX: u64 = 60;
const SLOW_ONE_IN: u64 = 12;
/// Windows to choose from: around a word of the bitmap, and the extremes.
const WINDOWS: [u32; 12] = [1, 2, 3, 16, 31, 32, 33, 63, 64, 65, 128, 1024];
/// Numbers before the upper half changes, at most.
const BEFORE_WRAP_MAX: u64 = 300;
/// A node that takes its time: frames at once, frames that wait, microseconds
/// until it looks, nanoseconds for each, microseconds between its workers.
const BATCH_MAX: u64 = 64;
const QUEUE_SHORT: u64 = 24;
const QUEUE_LONG: u64 = 4096;
const TIMER_MAX: u64 = 2000;
const FRAME_MAX: u64 = 20_000;
const STAGGER_MAX: u64 = 100;
/// Disturbances of one run at most.
const DISTURBANCES_MAX: u64 = 4;
/// Workers of a node at most.
const WORKERS_MAX: u64 = 3;
/// Fresh keys of one run at most, and how seldom there are any.
const REKEYS_MAX: u64 = 2;
const REKEY_ONE_IN: u64 = 3;
/// Associations that a rekey chooses from, by place and again.
const SAS_MAX: u64 = 64;
/// Jobs that a late engine takes: more than a run has under way.
const DEPTH: u64 = 4096;
/// In one case of so many, some nodes seal and open elsewhere: each node with probability one half,
/// and its engine there fails in half of these.
const AWAY_ONE_IN: u64 = 3;
/// Nanoseconds of an engine elsewhere for each packet, and what it takes, at most.
const UNIT_MAX: u64 = 40_000;
const AWAY_DEPTHS: [usize; 3] = [64, 1024, 1024];
const AWAY_COPIES: [usize; 3] = [0, 2, 4];

/// Parameters of a run, beside its topology.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Case {
    /// The seed of the network's dice.
    pub seed: u64,
    /// Hosts begin to send then.
    #[serde(default)]
    pub start_ns: u64,
    /// Time for which hosts send.
    pub length_ns: u64,
    /// Extended numbers begin so many before their upper half changes; 0: at 1.
    #[serde(default)]
    pub before_wrap: u64,
    /// Parameters of SAs that replace those of the topology.
    #[serde(default)]
    pub settings: Option<Settings>,
    /// The traffic entries of the topology that run, by place.
    #[serde(default)]
    pub flows: Vec<usize>,
    /// Impairments of links.
    #[serde(default)]
    pub impairment: Vec<Impairment>,
    /// Disturbances during the run.
    #[serde(default)]
    pub disturbance: Vec<Disturbance>,
    /// Nodes whose crypto comes back late and out of order.
    #[serde(default)]
    pub late: Vec<Late>,
    /// Nodes with several workers.
    #[serde(default)]
    pub workers: Vec<Workers>,
    /// Nodes that take their time.
    #[serde(default)]
    pub pace: Vec<Pace>,
    /// Fresh keys on the way.
    #[serde(default)]
    pub rekey: Vec<Rekey>,
    /// Nodes whose packets are sealed and opened elsewhere than in their workers' loops.
    #[serde(default)]
    pub away: Vec<Away>,
}

/// Parameters that all SAs of a run share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Numbers of a replay window.
    pub window: u32,
    /// Extended sequence numbers in ESP.
    pub esn: bool,
    /// MACsec drops duplicates inside the window; else it keeps to the standard's
    /// rule, which lets them pass.
    pub strict: bool,
}

impl Settings {
    /// Puts them into a configuration.
    pub fn apply(&self, config: &mut Config) {
        for tunnel in &mut config.tunnels {
            (tunnel.window, tunnel.esn) = (self.window, self.esn);
        }
        for secy in &mut config.secys {
            secy.entity.window = self.window;
            secy.entity.replay = if self.strict { Replay::Strict } else { Replay::Standard };
        }
    }
}

/// An impairment of a link, in both directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Impairment {
    /// The link, by place.
    pub link: usize,
    /// Kind and strength.
    pub kind: Kind,
}

/// Kinds of impairments. Shares are in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// This share of frames is lost.
    Loss(u64),
    /// This share arrives twice.
    Duplicate(u64),
    /// This share has a bit turned over.
    Corrupt(u64),
    /// This share is held back, until so many others have passed.
    Reorder(u64, u32),
    /// Up to so many microseconds more delay; the order stays.
    Jitter(u64),
    /// The rate falls to this many Mbit/s.
    Slow(u64),
}

/// Something that happens once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Disturbance {
    /// Time of its start, after hosts began to send.
    pub at_ns: u64,
    /// Its duration.
    pub for_ns: u64,
    /// Kind of disturbance.
    pub what: Upset,
}

/// Kinds of disturbances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Upset {
    /// This link is down.
    Link(usize),
    /// This node ended as after `kill -9`, and starts again with the counters
    /// that were on stable storage.
    Kill(usize),
    /// The clock of this node goes forward at once, a thousand times as far as
    /// this disturbance lasts.
    Jump(usize),
    /// The look-aside engines of this node end at once, and are away so long.
    EngineKill(usize),
    /// The look-aside engines of this node hang.
    EngineHang(usize),
    /// The cards in this node's ports are reset.
    CardReset(usize),
    /// The cards in this node's ports stop, as cards do that fail.
    CardHalt(usize),
}

/// A node with an engine that completes late, in any order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Late {
    /// The node, by place.
    pub node: usize,
    /// A job takes up to so long.
    pub delay_ns: u64,
    /// Jobs under way at most.
    pub depth: u64,
}

/// A node with several workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Workers {
    /// The node, by place.
    pub node: usize,
    /// Number of workers.
    pub count: usize,
}

/// A node that takes its time: frames wait for it, and it takes several at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pace {
    /// The node, by place.
    pub node: usize,
    /// Frames that are taken at once at most.
    pub batch: usize,
    /// Frames that wait at most.
    pub queue: usize,
    /// Time for which an idle node does not notice a frame.
    pub timer_ns: u64,
    /// Server time per frame.
    pub frame_ns: u64,
    /// Largest delay with which a worker begins.
    pub stagger_ns: u64,
}

/// A fresh key for what a node sends, in three steps: receivers get it, the sender
/// seals with it, receivers forget the old one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rekey {
    /// The node that sends, by place.
    pub node: usize,
    /// Outbound association of the node, by index modulo their number.
    pub sa: usize,
    /// The first step, after hosts began to send.
    pub at_ns: u64,
    /// From one step to the next.
    pub step_ns: u64,
}

/// A node whose packets are sealed and opened elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Away {
    /// The node, by place.
    pub node: usize,
    /// Place of the engine. Work that it cannot do stays with the workers.
    pub at: At,
}

/// Place where packets are sealed and opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum At {
    /// By an engine beside each worker.
    LookAside {
        /// Jobs under way at most.
        depth: usize,
        /// Copies of each packet there and back.
        copies: usize,
        /// Engine time per packet.
        packet_ns: u64,
        /// A failure costs packets; else the worker does them.
        drop: bool,
    },
    /// By the cards in its ports.
    Inline,
    /// With keys on a token.
    Token,
}

impl Pace {
    /// Puts it into a profile.
    pub fn apply(&self, profile: &mut Profile) {
        profile.batch = self.batch.max(1);
        profile.queue = self.queue.max(1);
        profile.timer = Duration::from_nanos(self.timer_ns);
        profile.plain.packet_ns = self.frame_ns as f64;
        profile.stagger = Duration::from_nanos(self.stagger_ns);
    }
}

/// Limits within which a seed draws a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Hosts begin to send then: nodes know their neighbours and their addresses.
    pub start_ns: u64,
    /// Time for which hosts send.
    pub length_ns: u64,
    /// Traffic entries.
    pub flows: usize,
    /// Links that may be impaired or go down, by place.
    pub links: Vec<usize>,
    /// Nodes that may end, have late engines and several workers, by place.
    pub nodes: Vec<usize>,
}

impl Case {
    /// Draws the case of `seed`: all traffic; each kind of impairment on each link, each node late,
    /// each node with more workers, as the dice fall; some disturbances.
    pub fn draw(seed: u64, shape: &Shape) -> Self {
        let mut dice = Dice(crate::random::stream(seed, "case", "draw"));
        let mut case = Self {
            seed,
            start_ns: shape.start_ns,
            length_ns: shape.length_ns,
            flows: (0..shape.flows).collect(),
            ..Self::default()
        };
        for &link in &shape.links {
            dice.impairments(link, &mut case.impairment);
        }
        for &node in &shape.nodes {
            if dice.0.one_in(3) {
                let delay_ns = 1000 * (1 + dice.0.below(300));
                case.late.push(Late { node, delay_ns, depth: DEPTH });
            }
            if dice.0.one_in(3) {
                let count = 1 + dice.0.below(WORKERS_MAX) as usize;
                case.workers.push(Workers { node, count });
            }
            if dice.0.one_in(3) {
                case.pace.push(dice.pace(node));
            }
        }
        if dice.0.one_in(3) {
            case.before_wrap = dice.up_to(BEFORE_WRAP_MAX);
        }
        if dice.0.one_in(2) {
            let window = WINDOWS[dice.0.below(WINDOWS.len() as u64) as usize];
            let (esn, strict) = (!dice.0.one_in(3), !dice.0.one_in(3));
            case.settings = Some(Settings { window, esn, strict });
        }
        for _ in 0..dice.0.below(DISTURBANCES_MAX + 1) {
            case.disturbance.extend(dice.disturbance(shape));
        }
        case.disturbance.sort_by_key(|d| d.at_ns);
        // Last, so that a seed draws the same of everything above.
        if dice.0.one_in(REKEY_ONE_IN) {
            for _ in 0..dice.up_to(REKEYS_MAX) {
                case.rekey.extend(dice.rekey(shape));
            }
        }
        if dice.0.one_in(AWAY_ONE_IN) {
            dice.away(shape, &mut case);
        }
        case
    }

    /// When hosts stop to send.
    pub const fn end(&self) -> Instant {
        Instant::from_nanos(self.start_ns.saturating_add(self.length_ns))
    }

    /// When hosts begin to send.
    pub const fn start(&self) -> Instant {
        Instant::from_nanos(self.start_ns)
    }

    /// Number of parts of the case, which shrinking lowers.
    pub fn size(&self) -> usize {
        self.flows.len()
            + self.impairment.len()
            + self.disturbance.len()
            + self.late.len()
            + self.workers.len()
            + self.pace.len()
            + self.rekey.len()
            + self.away.len()
            + usize::from(self.settings.is_some())
            + usize::from(self.before_wrap > 0)
    }
}

struct Dice(Rng);

impl Dice {
    fn up_to(&mut self, most: u64) -> u64 {
        1 + self.0.below(most)
    }

    fn impairments(&mut self, link: usize, out: &mut Vec<Impairment>) {
        let kinds = [
            Kind::Loss(self.up_to(LOSS_MAX)),
            Kind::Duplicate(self.up_to(DUPLICATE_MAX)),
            Kind::Corrupt(self.up_to(CORRUPT_MAX)),
            Kind::Reorder(self.up_to(REORDER_MAX), self.up_to(BEHIND_MAX) as u32),
            Kind::Jitter(self.up_to(JITTER_MAX)),
        ];
        for kind in kinds {
            if self.0.one_in(2) {
                out.push(Impairment { link, kind });
            }
        }
        let slow = Kind::Slow(self.up_to(SLOW_MAX));
        if self.0.one_in(SLOW_ONE_IN) {
            out.push(Impairment { link, kind: slow });
        }
    }

    fn pace(&mut self, node: usize) -> Pace {
        let short = self.0.one_in(4);
        Pace {
            node,
            batch: self.up_to(BATCH_MAX) as usize,
            queue: self.up_to(if short { QUEUE_SHORT } else { QUEUE_LONG }) as usize,
            timer_ns: 1000 * self.0.below(TIMER_MAX),
            frame_ns: self.0.below(FRAME_MAX),
            stagger_ns: 1000 * self.0.below(STAGGER_MAX),
        }
    }

    fn rekey(&mut self, shape: &Shape) -> Option<Rekey> {
        let node = shape.nodes.get(self.0.below(shape.nodes.len().max(1) as u64) as usize)?;
        let at_ns = self.0.below(shape.length_ns.max(1));
        let step_ns = self.up_to((shape.length_ns / 8).max(1));
        Some(Rekey { node: *node, sa: self.0.below(SAS_MAX) as usize, at_ns, step_ns })
    }

    fn away(&mut self, shape: &Shape, case: &mut Case) {
        for &node in &shape.nodes {
            if !self.0.one_in(2) {
                continue;
            }
            let (at, faults) = match self.0.below(4) {
                0 => (At::Token, [None; 2]),
                1 => (At::Inline, [Upset::CardReset(node), Upset::CardHalt(node)].map(Some)),
                _ => {
                    let at = At::LookAside {
                        depth: AWAY_DEPTHS[self.0.below(AWAY_DEPTHS.len() as u64) as usize],
                        copies: AWAY_COPIES[self.0.below(AWAY_COPIES.len() as u64) as usize],
                        packet_ns: self.0.below(UNIT_MAX),
                        drop: self.0.one_in(3),
                    };
                    (at, [Upset::EngineKill(node), Upset::EngineHang(node)].map(Some))
                }
            };
            case.away.push(Away { node, at });
            let what = faults[self.0.below(2) as usize];
            let at_ns = self.0.below(shape.length_ns.max(1));
            let for_ns = self.up_to((shape.length_ns / 8).max(1));
            if self.0.one_in(2) {
                case.disturbance.extend(what.map(|what| Disturbance { at_ns, for_ns, what }));
            }
        }
        case.disturbance.sort_by_key(|d| d.at_ns);
    }

    fn disturbance(&mut self, shape: &Shape) -> Option<Disturbance> {
        let at_ns = self.0.below(shape.length_ns.max(1));
        let for_ns = self.up_to((shape.length_ns / 8).max(1));
        let which = |dice: &mut Rng, from: &[usize]| {
            from.get(dice.below(from.len().max(1) as u64) as usize).copied()
        };
        let what = match self.0.below(5) {
            0 | 1 => Upset::Link(which(&mut self.0, &shape.links)?),
            2 | 3 => Upset::Kill(which(&mut self.0, &shape.nodes)?),
            _ => Upset::Jump(which(&mut self.0, &shape.nodes)?),
        };
        Some(Disturbance { at_ns, for_ns, what })
    }
}
