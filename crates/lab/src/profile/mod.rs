//! Device profiles: costs of a device's work, as a file.
//!
//! ```text
//!            cap     bus      queue        server                    bus
//!   frame ─▶ [≤ pps] [ship] ─▶ [■■■■] ─▶ [occupied: per packet,  ] ─▶ [ship] ─▶ … ─▶ line
//!            [≤ bps]                     [per octet, per kind     ]    pipeline
//! ```
//!
//! - *Occupancy*: the server, one for each worker, takes no other frame
//!   meanwhile. Its mean is the sum over the work that the node reports; a
//!   distribution spreads it.
//! - *Poll*: a device without interrupts looks at its ports at fixed times, and
//!   takes up to a batch at each.
//! - *Pipeline latency* delays a frame and occupies no server.
//! - *Batch timer*: an idle device notices a frame only this much later
//!   (interrupt moderation), then takes up to a batch at once.
//! - *Queue*: frames that wait for the server; the next one is lost.
//! - *Cap*: a token bucket in front of it all; what exceeds it is lost.
//! - *Bus*: each frame is shipped in and out, one at a time.
//! - *Card*: a port with crypto of its own (`placement = "inline"`) has a server for
//!   each direction, between line and bus. What it does occupies no worker.
//! - *Control*: protocol messages and orders, on a core beside the workers'. What is
//!   heard meanwhile waits in the queues of its class, and is lost where those are full.
//! - *Look-aside*: the engine for what a configuration places there, with a bus
//!   of its own ([`ferrule_engines::look_aside::model`]). Its batches, depth and
//!   copies are the configuration's.
//!
//! Every profile is a stand-in for a device, and names its origin ([`Source`]). Times are in
//! nanoseconds here; the file has units.

mod file;
mod keys;
mod price;

pub use keys::{KEYS, Key};
pub use price::{ENTRIES, KNOTS, ROUTES, Sizes, Spent, price};

use ferrule_base::{Duration, STAGES_MAX};
use ferrule_engines::look_aside::Speed;
use ferrule_node::{ConfigError, ControlWork};

/// Profiles that are part of the program: name and text.
const SHIPPED: [(&str, &str); 7] = [
    ("ideal", include_str!("../../../../profiles/ideal.toml")),
    ("study-gateway", include_str!("../../../../profiles/study-gateway.toml")),
    ("study-macsec", include_str!("../../../../profiles/study-macsec.toml")),
    ("study-switch", include_str!("../../../../profiles/study-switch.toml")),
    ("toe-inline", include_str!("../../../../profiles/toe-inline.toml")),
    ("toe-look-aside", include_str!("../../../../profiles/toe-look-aside.toml")),
    ("toe-software", include_str!("../../../../profiles/toe-software.toml")),
];

/// Frames that a server takes at once at most: a batch of the data path.
pub const BATCH_MAX: usize = ferrule_pipeline::BATCH;

/// Origin of a profile's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Chosen to be simple: no device is meant.
    #[default]
    Ideal,
    /// Fitted to published figures.
    Fitted,
    /// Measured on a machine.
    Calibrated,
}

impl Source {
    /// The word in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ideal => "ideal",
            Self::Fitted => "fitted",
            Self::Calibrated => "calibrated",
        }
    }
}

/// Cost of one kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    /// Nanoseconds for each packet.
    pub packet_ns: f64,
    /// Nanoseconds for each octet.
    pub octet_ns: f64,
}

impl Price {
    /// Price of so many packets and octets.
    #[inline]
    pub fn of(&self, flow: ferrule_base::Flow) -> f64 {
        self.packet_ns * flow.packets as f64 + self.octet_ns * flow.octets as f64
    }
}

/// Distribution of the time of one frame about its mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Distribution {
    /// Always the mean.
    #[default]
    Fixed,
    /// Exponential.
    Exponential,
    /// Gamma, with this squared coefficient of variation.
    Gamma(f64),
}

/// A token bucket in front of a device. A rate of 0 is no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cap {
    /// Frames per second at most.
    pub frames_per_second: f64,
    /// Bits per second at most, of frames without FCS.
    pub bits_per_second: f64,
    /// Frames that may come at once.
    pub burst_frames: f64,
    /// Octets that may come at once.
    pub burst_octets: f64,
    /// Queues that share the frames: each flow has one, by its addresses and ports.
    pub queues: usize,
}

impl Cap {
    /// No limit.
    pub const NONE: Self = Self {
        frames_per_second: 0.0,
        bits_per_second: 0.0,
        burst_frames: 1.0,
        burst_octets: 1514.0,
        queues: 1,
    };

    /// True if there is no limit.
    pub fn is_none(&self) -> bool {
        self.frames_per_second <= 0.0 && self.bits_per_second <= 0.0
    }
}

/// A bus between the line and the memory: one transfer at a time, in and out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bus {
    /// Time per transfer beside its octets.
    pub latency_ns: f64,
    /// Bits per second; 0 is no limit.
    pub bits_per_second: f64,
}

impl Bus {
    /// True if transfers take no time.
    pub fn is_none(&self) -> bool {
        self.latency_ns <= 0.0 && self.bits_per_second <= 0.0
    }
}

/// A card in a port: one server for each direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CardCost {
    /// Time per frame beside its octets.
    pub packet_ns: f64,
    /// Bits per second of frames as they are on the wire; 0 is no limit.
    pub bits_per_second: f64,
    /// Delay of each frame that does not occupy the card.
    pub latency_ns: f64,
    /// Octets that wait for the card from the line at most; the next frame is lost.
    pub buffer_octets: f64,
}

impl CardCost {
    /// A card that takes no time.
    pub const FREE: Self =
        Self { packet_ns: 0.0, bits_per_second: 0.0, latency_ns: 0.0, buffer_octets: 65_536.0 };

    /// True if frames cross the card at once.
    pub fn is_free(&self) -> bool {
        self.packet_ns <= 0.0 && self.bits_per_second <= 0.0 && self.latency_ns <= 0.0
    }
}

/// Cost of the control part: protocol messages and orders, on a core of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControlCost {
    /// Nanoseconds for each message, heard or made.
    pub message_ns: f64,
    /// Nanoseconds for each order, answer or report of a worker.
    pub task_ns: f64,
}

impl ControlCost {
    /// Time that work takes, in picoseconds.
    pub fn of(&self, work: ControlWork) -> u64 {
        let ns = self.message_ns * work.messages as f64 + self.task_ns * work.tasks as f64;
        (ns * 1000.0).round() as u64
    }
}

/// Quality of a profile's fit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fit {
    /// Published values that it was fitted to; 0: it was not.
    pub points: usize,
    /// The largest error of a fitted point, in percent.
    pub error_percent: f64,
    /// The largest error of a point that was left out of its own fit, in percent.
    pub leave_one_out_percent: f64,
}

/// Costs of a device's work.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// Description, in a sentence.
    pub about: String,
    /// Origin of its numbers.
    pub source: Source,
    /// The machine it was measured on, or the work it was fitted to.
    pub origin: String,
    /// Keys whose values were fitted.
    pub free: Vec<String>,
    /// Each frame taken from the queue.
    pub plain: Price,
    /// Packets sealed, and the octets under their ICV.
    pub sealed: Price,
    /// Packets opened, and the octets under their ICV.
    pub opened: Price,
    /// Packets copied.
    pub copied: Price,
    /// Each table look-up, in nanoseconds.
    pub lookup_ns: f64,
    /// Each label put on a packet, in nanoseconds.
    pub label_ns: f64,
    /// Each packet in a stage, in nanoseconds, by the stage's number.
    pub stages_ns: [f64; STAGES_MAX],
    /// Each packet sealed or opened, in nanoseconds, more than with one SA, by the number
    /// of SAs ([`KNOTS`]) among which traffic goes evenly.
    pub sas_ns: [f64; KNOTS.len()],
    /// Each packet routed, in nanoseconds, more than with few routes, by their number in
    /// units of [`ROUTES`].
    pub routes_ns: [f64; KNOTS.len()],
    /// Each packet that an access list judges, in nanoseconds, more than with few entries, by
    /// their number in units of [`ENTRIES`].
    pub entries_ns: [f64; KNOTS.len()],
    /// Distribution of the time of a frame.
    pub distribution: Distribution,
    /// Frames that are taken at once at most.
    pub batch: usize,
    /// Time for which an idle device does not notice a frame.
    pub timer: Duration,
    /// From one look at the ports to the next, by the device's own clock; zero: it
    /// looks always.
    pub poll: Duration,
    /// Delay that does not occupy a server.
    pub pipeline: Duration,
    /// Frames that wait for one server at most.
    pub queue: usize,
    /// Limit of the traffic that the device takes.
    pub cap: Cap,
    /// The bus.
    pub bus: Bus,
    /// The cards in ports that have one.
    pub card: CardCost,
    /// The control part.
    pub control: ControlCost,
    /// A worker that has something to do begins up to this much later, drawn
    /// evenly: to try many interleavings of workers.
    pub stagger: Duration,
    /// The engine of what is placed look-aside.
    pub look_aside: Speed,
    /// Quality of the fit, if the profile was fitted.
    pub fit: Fit,
}

impl Profile {
    /// Reads a profile. `file` is named in what is said about it.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfigError> {
        file::parse(text).map_err(|problems| ConfigError {
            file: file.into(),
            text: text.into(),
            problems,
        })
    }

    /// A profile that is part of the program.
    pub fn named(name: &str) -> Option<Self> {
        let (_, text) = SHIPPED.iter().find(|(shipped, _)| *shipped == name)?;
        Self::parse(name, text).ok()
    }

    /// The names of the profiles that are part of the program.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// The file that [`parse`](Self::parse) reads as this profile.
    pub fn to_toml(&self) -> String {
        file::write(self)
    }

    /// True if no work occupies a server.
    pub fn is_free(&self) -> bool {
        let tables = self.sas_ns.iter().chain(&self.routes_ns).chain(&self.entries_ns);
        let stages = self.stages_ns.iter().chain([&self.lookup_ns, &self.label_ns]).chain(tables);
        let packets = [self.plain, self.sealed, self.opened, self.copied];
        packets.iter().all(|p| p.packet_ns <= 0.0 && p.octet_ns <= 0.0)
            && stages.copied().all(|ns| ns <= 0.0)
    }

    /// A device whose work takes no time.
    pub fn ideal() -> Self {
        Self {
            name: "ideal".into(),
            about: "a device whose work takes no time".into(),
            source: Source::Ideal,
            origin: String::new(),
            free: Vec::new(),
            plain: Price::default(),
            sealed: Price::default(),
            opened: Price::default(),
            copied: Price::default(),
            lookup_ns: 0.0,
            label_ns: 0.0,
            stages_ns: [0.0; STAGES_MAX],
            sas_ns: [0.0; KNOTS.len()],
            routes_ns: [0.0; KNOTS.len()],
            entries_ns: [0.0; KNOTS.len()],
            distribution: Distribution::Fixed,
            batch: 1,
            timer: Duration::ZERO,
            poll: Duration::ZERO,
            pipeline: Duration::ZERO,
            queue: 4096,
            cap: Cap::NONE,
            bus: Bus::default(),
            card: CardCost::FREE,
            control: ControlCost::default(),
            stagger: Duration::ZERO,
            look_aside: Speed::default(),
            fit: Fit::default(),
        }
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::ideal()
    }
}
