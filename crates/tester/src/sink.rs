//! Frames that arrive at a port, by stream: received, reordered, duplicated, corrupted, and those
//! at the wrong port.
//!
//! Memory is bounded by the number of streams: each has a window of numbers, a
//! list of gaps and a histogram of fixed size (see [`crate::order`] and
//! [`crate::delay`]); past [`HISTOGRAMS_MAX`] streams there are minimum, mean and
//! maximum only.

use crate::delay::{Jitter, Latency};
use crate::order::{Arrival, Extents, Order};
use crate::record;
use crate::signature::{Found, Signature, find};
use ferrule_base::Instant;
use ferrule_wire::{EtherType, Label, Protocol, mpls};
use serde::{Deserialize, Serialize};

/// Streams of a trial that have a histogram of their own.
pub const HISTOGRAMS_MAX: usize = 64;
/// Intervals of a trial at most.
pub const INTERVALS_MAX: usize = 1 << 14;

/// Frames received in one interval of a trial, by the time at which they should have left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// Frames that were sent.
    pub offered: u64,
    /// Frames of these that arrived.
    pub received: u64,
    /// Their largest latency in nanoseconds.
    pub latency_max: u64,
    /// The sum of their latencies in nanoseconds.
    pub latency_sum: u64,
}

impl Interval {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.offered += other.offered;
        self.received += other.received;
        self.latency_max = self.latency_max.max(other.latency_max);
        self.latency_sum = self.latency_sum.saturating_add(other.latency_sum);
    }
}

/// A trial's duration in equal parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intervals {
    start: u64,
    length: u64,
    /// The part that the last frame was in.
    current: (u64, usize),
    pub parts: Vec<Interval>,
}

impl Intervals {
    /// `length` of zero: none.
    pub fn new(duration: u64, length: u64) -> Self {
        if length == 0 {
            return Self::default();
        }
        let length = length.max(duration.div_ceil(INTERVALS_MAX as u64));
        let parts = vec![Interval::default(); duration.div_ceil(length) as usize];
        Self { start: 0, length, current: (0, 0), parts }
    }

    /// The first part begins.
    pub fn start(&mut self, at: u64) {
        self.start = at;
        self.current = (at, 0);
    }

    /// The part in which a frame should have left.
    #[inline]
    pub fn at(&mut self, intended: u64) -> Option<&mut Interval> {
        if self.parts.is_empty() {
            return None;
        }
        let (begin, _) = self.current;
        if intended < begin || intended - begin >= self.length {
            let index = intended.saturating_sub(self.start) / self.length;
            self.current = (self.start + index * self.length, index as usize);
        }
        self.parts.get_mut(self.current.1)
    }
}

/// Frames of one stream that arrived at the right port.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Received {
    /// Frames, each counted once.
    pub frames: u64,
    /// Their octets, without FCS.
    pub octets: u64,
    /// Frames that were here before.
    pub duplicated: u64,
    /// Of the frames: those behind which a later one had arrived.
    pub reordered: u64,
    /// Extents of reordering, in places.
    pub extents: Extents,
    /// Frames too far behind to tell whether they are late or duplicates; not
    /// in `frames`.
    pub stale: u64,
    /// Frames in which something changed on the way; not in `frames`.
    pub corrupted: u64,
    /// Of the frames: those with other labels than they should arrive with.
    pub misencapsulated: u64,
    /// Latency of the frames.
    pub latency: Latency,
    /// Its variation.
    pub jitter: Jitter,
    /// When the first and the last frame arrived.
    #[serde(with = "record::span")]
    pub span: Option<(Instant, Instant)>,
    /// The longest time without a frame between two that arrived: from and to.
    #[serde(with = "record::span")]
    pub silence: Option<(Instant, Instant)>,
    /// The highest number that arrived, plus one.
    pub next: u64,
    /// The highest number below that which did not arrive.
    pub last_missing: Option<u64>,
}

impl Default for Received {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Received {
    fn new(histogram: bool) -> Self {
        Self {
            frames: 0,
            octets: 0,
            duplicated: 0,
            reordered: 0,
            extents: Extents::default(),
            stale: 0,
            corrupted: 0,
            misencapsulated: 0,
            latency: Latency::new(histogram),
            jitter: Jitter::default(),
            span: None,
            silence: None,
            next: 0,
            last_missing: None,
        }
    }
}

impl Received {
    /// The longest time without a frame between two that arrived, in nanoseconds.
    pub fn silence_nanos(&self) -> u64 {
        self.silence.map_or(0, |(from, to)| to.as_nanos().saturating_sub(from.as_nanos()))
    }
}

/// A stream as its port awaits it.
struct Awaited {
    order: Order,
    received: Received,
    expect: Option<Vec<Label>>,
}

/// Frames that are of no stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strays {
    /// Not the tester's.
    pub foreign: u64,
    /// Warmed up.
    pub warm_up: u64,
    /// Of an earlier trial.
    pub earlier: u64,
    /// The tester's, changed so that its stream cannot be told.
    pub corrupted: u64,
    /// Fragments of IP packets, which no stream sends; counted above or as corrupted frames of a
    /// stream as well.
    pub fragments: u64,
}

impl Strays {
    pub(crate) fn merge(&mut self, other: Self) {
        self.foreign += other.foreign;
        self.warm_up += other.warm_up;
        self.earlier += other.earlier;
        self.corrupted += other.corrupted;
        self.fragments += other.fragments;
    }
}

/// Takes what arrives at one port.
pub struct Sink {
    epoch: u16,
    awaited: Vec<Option<Box<Awaited>>>,
    /// Frames of streams that should have arrived elsewhere.
    elsewhere: Vec<u64>,
    strays: Strays,
    pub(crate) intervals: Intervals,
    /// Frames of which it is known what became of them.
    accounted: u64,
}

/// Expectation of a stream at this port: true if it should arrive here, and the labels of its
/// frames.
pub(crate) struct Expected<'a> {
    pub here: bool,
    pub labels: Option<&'a [Label]>,
}

impl Sink {
    pub(crate) fn new<'a>(
        epoch: u16,
        streams: impl Iterator<Item = Expected<'a>>,
        intervals: Intervals,
    ) -> Self {
        let mut histograms = 0;
        let mut awaited = Vec::new();
        for stream in streams {
            awaited.push(stream.here.then(|| {
                histograms += 1;
                Box::new(Awaited {
                    order: Order::default(),
                    received: Received::new(histograms <= HISTOGRAMS_MAX),
                    expect: stream.labels.map(<[Label]>::to_vec),
                })
            }));
        }
        let elsewhere = vec![0; awaited.len()];
        Self { epoch, awaited, elsewhere, strays: Strays::default(), intervals, accounted: 0 }
    }

    /// A frame arrived. False if it is not the tester's.
    #[inline]
    pub fn handle(&mut self, now: Instant, frame: &[u8]) -> bool {
        match find(frame) {
            Found::Good(signature) => self.good(now, signature, frame),
            Found::Corrupted(tag) => {
                self.strays.fragments += u64::from(is_fragment(frame));
                let tag = tag.filter(|t| t.is_of(self.epoch));
                if tag.is_some_and(|t| t.warms_up()) {
                    self.strays.warm_up += 1;
                    return true;
                }
                self.accounted += 1;
                match tag.and_then(|t| self.awaited.get_mut(t.stream())).and_then(Option::as_mut) {
                    Some(stream) => stream.received.corrupted += 1,
                    None => self.strays.corrupted += 1,
                }
            }
            Found::Foreign => {
                self.strays.foreign += 1;
                self.strays.fragments += u64::from(is_fragment(frame));
                return false;
            }
        }
        true
    }

    #[inline]
    fn good(&mut self, now: Instant, signature: Signature, frame: &[u8]) {
        let tag = signature.tag;
        if !tag.is_of(self.epoch) {
            self.strays.earlier += 1;
            return;
        }
        if tag.warms_up() {
            self.strays.warm_up += 1;
            return;
        }
        let Some(stream) = self.awaited.get_mut(tag.stream()) else {
            self.strays.corrupted += 1;
            return;
        };
        let Some(stream) = stream else {
            self.elsewhere[tag.stream()] += 1;
            return;
        };
        let nanos = now.as_nanos();
        let intended = signature.intended(nanos);
        let latency = nanos.saturating_sub(intended);
        let received = &mut stream.received;
        match stream.order.arrive(signature.sequence) {
            Arrival::InOrder { follows } => received.jitter.record(latency, follows),
            Arrival::Reordered(extent) => {
                received.reordered += 1;
                received.extents.record(extent);
            }
            Arrival::Duplicate => {
                received.duplicated += 1;
                return;
            }
            Arrival::Stale => {
                received.stale += 1;
                return;
            }
        }
        received.frames += 1;
        received.octets += frame.len() as u64;
        received.latency.record(latency);
        let (first, last) = received.span.unwrap_or((now, now));
        received.span = Some((first, now));
        if nanos.saturating_sub(last.as_nanos()) > received.silence_nanos() {
            received.silence = Some((last, now));
        }
        if let Some(expect) = &stream.expect
            && !has_labels(frame, expect)
        {
            received.misencapsulated += 1;
        }
        self.accounted += 1;
        if let Some(part) = self.intervals.at(intended) {
            part.received += 1;
            part.latency_max = part.latency_max.max(latency);
            part.latency_sum = part.latency_sum.saturating_add(latency);
        }
    }

    /// Frames of which it is known what became of them: received or corrupted.
    pub const fn accounted(&self) -> u64 {
        self.accounted
    }

    /// Frames that are of no stream.
    pub const fn strays(&self) -> Strays {
        self.strays
    }

    /// Frames of a stream that arrived here and should not.
    pub(crate) fn misdelivered(&self, stream: usize) -> u64 {
        self.elsewhere.get(stream).copied().unwrap_or(0)
    }

    /// Result of a stream that should arrive here.
    pub(crate) fn take(&mut self, stream: usize) -> Option<Received> {
        let mut awaited = self.awaited.get_mut(stream)?.take()?;
        awaited.received.next = awaited.order.next();
        awaited.received.last_missing = awaited.order.last_missing();
        Some(awaited.received)
    }
}

/// EtherType and payload behind a frame's VLAN tags.
fn payload(frame: &[u8]) -> Option<(EtherType, &[u8])> {
    let mut at = 12;
    loop {
        let kind = EtherType(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        if !kind.is_vlan() {
            return Some((kind, frame.get(at + 2..)?));
        }
        at += 4;
    }
}

/// True if a frame carries a fragment of an IP packet (RFC 791 section 3.2, RFC 8200 section 4.5),
/// behind any labels.
pub fn is_fragment(frame: &[u8]) -> bool {
    let Some((mut kind, mut packet)) = payload(frame) else { return false };
    if kind == EtherType::MPLS {
        let Ok((_, rest)) = mpls::Stack::parse(packet) else { return false };
        packet = rest;
        kind = match packet.first().map(|octet| octet >> 4) {
            Some(4) => EtherType::IPV4,
            Some(6) => EtherType::IPV6,
            _ => return false,
        };
    }
    match kind {
        // Every bit but the flag that forbids fragmentation.
        EtherType::IPV4 => packet.get(6..8).is_some_and(|f| f[0] & 0x3f != 0 || f[1] != 0),
        EtherType::IPV6 => packet.get(6).is_some_and(|next| *next == Protocol::FRAGMENT.0),
        _ => false,
    }
}

/// True if the labels of a frame are these, top first.
fn has_labels(frame: &[u8], labels: &[Label]) -> bool {
    let Some((kind, payload)) = payload(frame) else { return false };
    if kind != EtherType::MPLS {
        return labels.is_empty();
    }
    let Ok((stack, _)) = mpls::Stack::parse(payload) else { return false };
    stack.entries().iter().map(|e| e.label).eq(labels.iter().copied())
}
