//! A stream: frames with one template, one rate and one order, from a port to a
//! port.

use crate::layers::{Layers, Template};
use crate::rate::{FCS, FRAME_MIN, Rate};
use crate::schedule::{Burst, Schedule};
use crate::signature::{STREAMS_MAX, Tag};
use crate::sizes::Sizes;
use crate::vary::{Varier, Vary};
use ferrule_base::{Duration, Rng};
use ferrule_pipeline::{Packet, PoolCache};
use ferrule_wire::Label;
use std::fmt;

/// The longest frame of a stream with its FCS.
pub const SIZE_MAX: usize = 16_000;
/// Fields that vary in a stream at most.
pub const VARY_MAX: usize = 8;

/// Payload before the signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filler {
    /// Zeros.
    #[default]
    Zeros,
    /// 0, 1, … 255, as RFC 2544 appendix C.2.6.4 wants it.
    Count,
    /// Random octets, the same for every frame: nothing that one compresses.
    Random(u64),
}

impl Filler {
    fn octets(self) -> Vec<u8> {
        match self {
            Self::Zeros => vec![0],
            Self::Count => (0..=255).collect(),
            Self::Random(seed) => {
                let mut octets = vec![0; 2048];
                Rng::new(seed).fill(&mut octets);
                octets
            }
        }
    }
}

/// A stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Its name in tables.
    pub name: String,
    /// The port that sends it, by its place.
    pub tx: usize,
    /// The port where it should arrive.
    pub rx: usize,
    /// Headers.
    pub layers: Layers,
    /// Lengths, FCS included.
    pub sizes: Sizes,
    /// Rate of the stream.
    pub rate: Rate,
    /// Frames in bursts.
    pub burst: Option<Burst>,
    /// Frames at most; nothing: as many as the trial's duration holds.
    pub frames: Option<u64>,
    /// Fields that change from frame to frame.
    pub vary: Vec<Vary>,
    /// Payload.
    pub filler: Filler,
    /// The labels that the frames must arrive with (an empty stack: none); a
    /// frame that has others is counted as wrongly encapsulated.
    pub expect: Option<Vec<Label>>,
    /// Frames may be shorter than Ethernet allows (RFC 2889 section 5.9).
    pub runts: bool,
    /// Start of the stream after that of the measurement; a stream with such a delay does not warm
    /// up.
    pub after: Duration,
    /// End of the stream after the start of the measurement; nothing: it ends with the measurement.
    pub until: Option<Duration>,
    /// Its first frame is late by this part of the time between two frames: the
    /// first of so many. Streams of a port that take turns have 0 of n, 1 of n, and
    /// so on.
    pub phase: (u16, u16),
}

impl Stream {
    /// A stream from port 0 to port 1 of one size.
    pub fn new(name: impl Into<String>, layers: Layers, size: usize, rate: Rate) -> Self {
        Self {
            name: name.into(),
            tx: 0,
            rx: 1,
            layers,
            sizes: Sizes::Fixed(size),
            rate,
            burst: None,
            frames: None,
            vary: Vec::new(),
            filler: Filler::Zeros,
            expect: None,
            runts: false,
            after: Duration::ZERO,
            until: None,
            phase: (0, 1),
        }
    }

    /// When its frame with this number should leave, in nanoseconds after the
    /// measurement began. Nothing for a stream with bursts, or one that cannot be
    /// sent.
    pub fn due(&self, number: u64, line: Option<u64>) -> Option<u64> {
        if self.burst.is_some() {
            return None;
        }
        let (lens, order) = self.sizes.pattern()?;
        let sum = |part: &[u16]| {
            let each = part.iter().map(|&i| self.rate.nanos(*lens.get(usize::from(i))?, line));
            each.map(|f| f.map(|f| f.0)).sum::<Option<u128>>()
        };
        let parts = self.rate.nanos(*lens.first()?, line)?.1;
        let whole = sum(&order)?.checked_mul(u128::from(number / order.len() as u64))?;
        let rest = sum(order.get(..(number % order.len() as u64) as usize)?)?;
        let at = u64::try_from(whole.checked_add(rest)? / parts).ok()?;
        at.checked_add(self.offset(line)?)
    }

    /// Nanoseconds from the begin of the measurement to its first frame.
    fn offset(&self, line: Option<u64>) -> Option<u64> {
        let (lens, order) = self.sizes.pattern()?;
        let each = order.iter().map(|&i| self.rate.nanos(*lens.get(usize::from(i))?, line));
        let (mut sum, mut parts) = (0, 1);
        for fraction in each {
            let (num, den) = fraction?;
            (sum, parts) = (num.checked_add(sum)?, den);
        }
        let (place, of) = (u128::from(self.phase.0), u128::from(self.phase.1.max(1)));
        let all = parts.checked_mul(order.len() as u128)?.checked_mul(of)?;
        let phase = u64::try_from(sum.checked_mul(place)? / all).ok()?;
        u64::try_from(self.after.as_nanos()).ok()?.checked_add(phase)
    }

    /// True if its rate is more than a line of this rate carries of its frames; false if the line's
    /// is not known.
    pub fn is_above_line(&self, line: Option<u64>) -> bool {
        let Some((lens, order)) = line.and(self.sizes.pattern()) else { return false };
        let time = |rate: Rate| {
            order.iter().try_fold((0u128, 1u128), |(sum, _), &i| {
                let (num, den) = rate.nanos(*lens.get(usize::from(i))?, line)?;
                Some((sum.checked_add(num)?, den))
            })
        };
        let times = time(self.rate).zip(time(Rate::LINE));
        times.is_some_and(|(own, line)| own.0.saturating_mul(line.1) < line.0.saturating_mul(own.1))
    }

    /// The stream in the other direction: ports and addresses exchanged.
    pub fn reversed(&self) -> Self {
        let mut other = self.clone();
        other.name = format!("{} back", self.name);
        (other.tx, other.rx) = (self.rx, self.tx);
        (other.layers.src, other.layers.dst) = (self.layers.dst, self.layers.src);
        if let Some(datagram) = &mut other.layers.datagram {
            use ferrule_wire::Ends;
            datagram.ends = match datagram.ends {
                Ends::V4(a, b) => Ends::V4(b, a),
                Ends::V6(a, b) => Ends::V6(b, a),
            };
        }
        other
    }

    /// Source of the frames of this stream; the error says why it cannot be sent.
    pub(crate) fn source(&self, tag: u16, epoch: u16, line: Option<u64>) -> Result<Source, Fault> {
        let fault = |what: String| Fault { stream: self.name.clone(), what };
        let (lens, order) = self
            .sizes
            .pattern()
            .ok_or_else(|| fault(format!("no frame size in {}", self.sizes)))?;
        let shortest = self.layers.shortest().max(if self.runts { 0 } else { FRAME_MIN });
        if lens.iter().any(|&len| len < shortest) {
            let (asked, shortest) = (self.sizes.min(), shortest + FCS);
            return Err(fault(format!(
                "frames of {asked} octets have no room for headers and signature: at least {shortest}"
            )));
        }
        if lens.iter().any(|&len| len + FCS > SIZE_MAX) {
            return Err(fault(format!("frames are longer than {SIZE_MAX} octets")));
        }
        if self.vary.len() > VARY_MAX {
            return Err(fault(format!("more than {VARY_MAX} fields vary")));
        }
        let fields: Vec<_> = self.vary.iter().map(|v| v.field).collect();
        let mut variers = Vec::new();
        for vary in &self.vary {
            let varier = Varier::new(vary, &self.layers);
            variers.push(varier.ok_or_else(|| {
                fault(format!("{:?} cannot vary: the frames have no such field", vary.field))
            })?);
        }
        let schedule = Schedule::new(self.rate, self.burst, &lens, line).ok_or_else(|| {
            fault(format!("a rate of {} needs a line whose rate is known (--line)", self.rate))
        })?;
        if lens.iter().any(|&len| self.rate.is_too_fast(len, line)) {
            let what = "is more than any line carries: 2 Gpps at most";
            return Err(fault(format!("a rate of {} {what}", self.rate)));
        }
        let template = Template::new(&self.layers, &lens, &self.filler.octets(), &fields);
        let offset = self.offset(line).ok_or_else(|| fault("it begins too late".into()))?;
        let until =
            self.until.map_or(u64::MAX, |u| u64::try_from(u.as_nanos()).unwrap_or(u64::MAX));
        let warms_up = self.after.is_zero();
        let frames = self.frames.unwrap_or(u64::MAX);
        let (tags, phase) = ([Tag::new(tag, epoch, true), Tag::new(tag, epoch, false)], 0);
        Ok(Source {
            schedule,
            template,
            order,
            variers,
            frames,
            tags,
            phase,
            place: 0,
            sequence: 0,
            offset,
            until,
            warms_up,
        })
    }
}

/// Reason for which a plan cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Name of the stream.
    pub stream: String,
    /// The fault and, where it helps, the remedy.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}: {}", self.stream, self.what)
    }
}

impl std::error::Error for Fault {}

/// Everything that is sent in a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The streams; their place is their number.
    pub streams: Vec<Stream>,
    /// The line's rate in bit/s, for shares of it.
    pub line: Option<u64>,
}

impl Plan {
    /// One stream.
    pub fn one(stream: Stream, line: Option<u64>) -> Self {
        Self { streams: vec![stream], line }
    }

    /// Every stream at `rate`.
    #[must_use]
    pub fn at(&self, rate: Rate) -> Self {
        let mut plan = self.clone();
        plan.streams.iter_mut().for_each(|s| s.rate = rate);
        plan
    }

    /// Every stream with frames of `size`, FCS included.
    #[must_use]
    pub fn sized(&self, sizes: &Sizes) -> Self {
        let mut plan = self.clone();
        plan.streams.iter_mut().for_each(|s| s.sizes = sizes.clone());
        plan
    }

    /// Ports that it needs.
    pub fn ports(&self) -> usize {
        self.streams.iter().map(|s| s.tx.max(s.rx) + 1).max().unwrap_or(0)
    }

    /// Checks that every stream of the plan can be sent.
    pub fn check(&self) -> Result<(), Fault> {
        self.sources(0).map(drop)
    }

    pub(crate) fn sources(&self, epoch: u16) -> Result<Vec<Source>, Fault> {
        if self.streams.len() > STREAMS_MAX {
            let what = format!("a trial has {STREAMS_MAX} streams at most");
            return Err(Fault { stream: self.streams[STREAMS_MAX].name.clone(), what });
        }
        let sources = self.streams.iter().enumerate();
        sources.map(|(i, s)| s.source(i as u16, epoch, self.line)).collect()
    }
}

/// A stream as it is sent: frames one after the other.
pub(crate) struct Source {
    pub schedule: Schedule,
    template: Template,
    order: Vec<u16>,
    variers: Vec<Varier>,
    /// Frames of the measurement at most.
    frames: u64,
    tags: [Tag; 2],
    /// 0 while warming up, 1 while measuring.
    phase: usize,
    place: usize,
    sequence: u64,
    /// From the begin of a phase to the first frame.
    offset: u64,
    /// From the begin of the measurement to its end.
    until: u64,
    warms_up: bool,
}

impl Source {
    /// From the first frame again: those due from `at` until before `end`.
    pub fn start(&mut self, at: u64, end: u64, measured: bool) {
        self.phase = usize::from(measured);
        let frames = if measured { self.frames } else { u64::MAX };
        let end = if measured { end.min(at.saturating_add(self.until)) } else { end };
        self.schedule.start(at.saturating_add(self.offset), end, frames);
        (self.place, self.sequence) = (0, 0);
        self.variers.iter_mut().for_each(Varier::restart);
    }

    /// True if the stream is sent while the others warm up.
    pub const fn warms_up(&self) -> bool {
        self.warms_up
    }

    /// True once the stream is measured and no longer warms up.
    #[inline]
    pub const fn measures(&self) -> bool {
        self.phase == 1
    }

    /// Frames of this phase so far.
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    fn step(&mut self) {
        let size = self.order.get(self.place).copied().unwrap_or(0);
        self.schedule.advance(size.into());
        self.place += 1;
        if self.place >= self.order.len() {
            self.place = 0;
        }
    }

    /// The next frame, which is due at `intended`; nothing if the pool has no
    /// room for it.
    #[inline]
    pub fn frame(&mut self, intended: u64, cache: &mut PoolCache) -> Option<Packet> {
        let size = usize::from(self.order.get(self.place).copied().unwrap_or(0));
        let mut packet = cache.packet_from(self.template.octets(size))?;
        let frame = packet.data_mut();
        for varier in &mut self.variers {
            varier.apply(frame);
        }
        self.template.finish(frame, size, self.tags[self.phase], self.sequence, intended);
        self.sequence += 1;
        self.step();
        Some(packet)
    }

    /// Gives up what is still due; how many frames that were.
    pub fn abandon(&mut self) -> u64 {
        let mut count = 0;
        while self.schedule.next().is_some() {
            self.step();
            count += 1;
        }
        count
    }
}
