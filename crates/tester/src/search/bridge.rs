//! Bridges (RFC 2889 section 5): forwarding rates, addresses, errored frames and
//! broadcast. Who sends to whom stands in [`super::mesh`], congestion in
//! [`super::congestion`].
//!
//! | test | section | ports |
//! | --- | --- | --- |
//! | forwarding rate at load, the maximum of it | 5.1, 5.6 | 2 or more |
//! | address caching capacity | 5.7 | 3: test, learning, monitor |
//! | address learning rate | 5.8 | 3 |
//! | errored frames | 5.9 | 2 |
//! | broadcast: throughput and latency | 5.10 | 2 or more |
//!
//! Of errored frames there are those too short and those too long: a port of the
//! operating system finishes every frame with a good FCS, so wrong FCS, dribble
//! bits and alignment errors cannot be sent, and the answer says so.

use super::{Measured, Range, Work};
use crate::bench::BenchError;
use crate::layers::{Field, Layers};
use crate::rate::Rate;
use crate::sizes::Sizes;
use crate::stream::{Plan, Stream};
use crate::trial::Timing;
use crate::vary::Vary;
use ferrule_base::{Duration, MacAddr};

/// Learning frames are sent this often, so that a bridge knows where stations
/// are before it is measured.
const LEARNING_PASSES: u64 = 3;
/// A frame to or from an address may be late: what counts is that there was one.
const GRACE: Duration = Duration::from_secs(1);
/// Frames a second of learning where nothing else is asked.
const LEARNING_RATE: u64 = 1000;

/// Every stream's destination shows itself: frames from there to the stream's
/// source, a few of each address.
pub fn learning(plan: &Plan) -> Plan {
    let teach = |stream: &Stream| {
        let mut back = stream.reversed();
        back.name = format!("{} learning", stream.name);
        back.rate = Rate::frames(LEARNING_RATE);
        (back.burst, back.expect) = (None, None);
        (back.after, back.until, back.phase) = (Duration::ZERO, None, (0, 1));
        // Addresses that vary as destinations vary as sources here.
        let turned = |vary: &Vary| match vary.field {
            Field::EthDst => Some(Vary { field: Field::EthSrc, ..*vary }),
            _ => None,
        };
        back.vary = stream.vary.iter().filter_map(turned).collect();
        let addresses = back.vary.iter().map(Vary::count).max().unwrap_or(1);
        back.frames = Some(addresses.saturating_mul(LEARNING_PASSES));
        back.sizes = Sizes::Fixed(stream.sizes.min());
        back
    };
    let group = |s: &&Stream| s.layers.dst.is_group();
    Plan {
        streams: plan.streams.iter().filter(|s| !group(s)).map(teach).collect(),
        line: plan.line,
    }
}

/// Runs the learning frames of a plan; what becomes of them does not matter.
pub fn teach(work: &mut Work<'_>, plan: &Plan) -> Result<(), BenchError> {
    let lessons = learning(plan);
    let frames = lessons.streams.iter().filter_map(|s| s.frames).max().unwrap_or(0);
    if frames == 0 {
        return Ok(());
    }
    let secs = frames as f64 / LEARNING_RATE as f64 + 0.05;
    let timing = Timing {
        warm_up: Duration::ZERO,
        drain: Duration::from_millis(200),
        grace: GRACE,
        ..Timing::new(Duration::from_secs_f64(secs))
    };
    work.trial("learning", &lessons, timing).map(drop)
}

/// Forwarding rates (RFC 2285 section 3.6) over loads.
#[derive(Clone, Debug)]
pub struct Forwarding {
    /// Loads from low to high, each with what was forwarded.
    pub curve: Vec<Measured>,
    /// Forwarding rate at the maximum offered load, frames a second in all.
    pub at_maximum: f64,
    /// Maximum forwarding rate, frames a second in all, and the load of each
    /// stream at which it was reached.
    pub maximum: (f64, u64),
}

/// Forwarding rate at growing loads up to the highest (sections 5.1 and 5.6).
pub fn forwarding(
    work: &mut Work<'_>,
    name: &str,
    plan: &Plan,
    timing: Timing,
    range: &Range,
    steps: u32,
) -> Result<Forwarding, BenchError> {
    let Some(top) = range.top(plan) else {
        let what = "the highest load is not known: give the line's rate (--line) or --max";
        return Err(BenchError::Broken(what.into()));
    };
    teach(work, plan)?;
    let steps = steps.clamp(2, 1000);
    let mut curve = Vec::new();
    for step in 1..=steps {
        let load = (u128::from(top) * u128::from(step) / u128::from(steps)) as u64;
        curve.push(work.at(name, plan, timing, load.max(range.min).min(top))?.0);
    }
    let rate = |m: &Measured| m.received as f64 / m.duration.as_secs_f64().max(1e-9);
    let maximum = curve
        .iter()
        .map(|m| (rate(m), m.load))
        .fold((0.0, 0), |a, b| if b.0 > a.0 { b } else { a });
    let at_maximum = curve.last().map_or(0.0, rate);
    Ok(Forwarding { curve, at_maximum, maximum })
}

/// Ports by their role when addresses are learned (figure 7 of section 5.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Sends to the addresses.
    pub test: usize,
    /// Has the addresses.
    pub learning: usize,
    /// Sees what is flooded.
    pub monitor: usize,
}

/// Parameters of learning addresses and trying them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Addresses {
    /// Ports.
    pub roles: Roles,
    /// Frames a second that teach addresses.
    pub learning_rate: u64,
    /// Frames a second that try them.
    pub test_rate: u64,
    /// Waited so that the bridge forgets before the next try (802.1Q: ageing
    /// time).
    pub ageing: Duration,
    /// The first address.
    pub first: MacAddr,
}

/// Fate of frames to addresses that a bridge was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cached {
    /// Addresses.
    pub addresses: u64,
    /// Frames to them that arrived at the monitor: flooded, so not known.
    pub flooded: u64,
    /// Frames to them that did not arrive where they live.
    pub lost: u64,
}

impl Cached {
    /// True if all addresses were known.
    pub const fn all(&self) -> bool {
        self.flooded == 0 && self.lost == 0
    }
}

/// Shows `count` addresses at the learning port, and sends one frame to each.
fn cached(
    work: &mut Work<'_>,
    stream: &Stream,
    line: Option<u64>,
    how: &Addresses,
    count: u64,
) -> Result<Cached, BenchError> {
    let Roles { test, learning, monitor: _ } = how.roles;
    let tester = stream.layers.src;
    let part = |name: &str, (tx, rx), (src, dst), field, rate: u64| {
        let layers = Layers { src, dst, ..stream.layers.clone() };
        let vary = vec![Vary::increment(field, count)];
        let (frames, rate, name) = (Some(count), Rate::frames(rate), name.to_string());
        Plan::one(Stream { name, tx, rx, layers, frames, rate, vary, ..stream.clone() }, line)
    };
    let timing = |rate: u64| Timing {
        warm_up: Duration::ZERO,
        drain: Duration::from_millis(500),
        grace: GRACE,
        ..Timing::new(Duration::from_secs_f64(count as f64 / rate as f64 + 0.001))
    };
    // The test port shows itself, so that what is learned goes there alone.
    let hello = part("hello", (test, learning), (tester, MacAddr::BROADCAST), Field::EthSrc, 1000);
    let hello = Plan {
        streams: vec![Stream { frames: Some(1), vary: vec![], ..hello.streams[0].clone() }],
        line,
    };
    work.trial("hello", &hello, timing(1000))?;
    let teach =
        part("learning", (learning, test), (how.first, tester), Field::EthSrc, how.learning_rate);
    work.trial(&format!("{count} addresses, learning"), &teach, timing(how.learning_rate))?;
    let probe = part("test", (test, learning), (tester, how.first), Field::EthDst, how.test_rate);
    let what = format!("{count} addresses, test");
    let result = work.trial(&what, &probe, timing(how.test_rate))?;
    if !how.ageing.is_zero() {
        // Silence until the bridge has forgotten.
        let silence =
            Timing { warm_up: Duration::ZERO, drain: Duration::ZERO, ..Timing::new(how.ageing) };
        work.trial("ageing", &Plan { streams: Vec::new(), line }, silence)?;
    }
    let flooded = result.streams.iter().map(|s| s.elsewhere).sum();
    Ok(Cached { addresses: count, flooded, lost: result.lost() + result.unsent() })
}

/// Address caching capacity (section 5.7): the most addresses of which none is
/// flooded, at most `most`; and every try.
pub fn caching_capacity(
    work: &mut Work<'_>,
    stream: &Stream,
    line: Option<u64>,
    how: &Addresses,
    most: u64,
) -> Result<(u64, Vec<Cached>), BenchError> {
    let (mut low, mut high, mut tries) = (0, most + 1, Vec::new());
    let mut next = most;
    while high - low > 1 {
        let cached = cached(work, stream, line, how, next)?;
        tries.push(cached);
        *(if cached.all() { &mut low } else { &mut high }) = next;
        next = low + (high - low) / 2;
    }
    Ok((low, tries))
}

/// Address learning rate (section 5.8): the most frames a second that teach
/// `count` addresses, all of which are known afterwards.
pub fn learning_rate(
    work: &mut Work<'_>,
    stream: &Stream,
    line: Option<u64>,
    how: &Addresses,
    count: u64,
    range: &Range,
) -> Result<Option<u64>, BenchError> {
    let top = range.max.map_or(1_000_000, |max| max / 1000).max(1);
    let (mut low, mut high) = (0, top + 1);
    let mut next = top;
    while high - low > 1 && (high - low) as f64 > range.resolution * high as f64 {
        let how = Addresses { learning_rate: next, ..*how };
        let all = cached(work, stream, line, &how, count)?.all();
        *(if all { &mut low } else { &mut high }) = next;
        next = low + (high - low) / 2;
    }
    Ok((low > 0).then_some(low))
}

/// Result for frames with one fault, which a bridge should drop (section 5.9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errored {
    /// Name of the fault.
    pub kind: &'static str,
    /// Length with FCS.
    pub size: usize,
    /// Frames of it that were sent; nothing if the ports cannot send it.
    pub offered: Option<u64>,
    /// Frames of it that arrived.
    pub forwarded: u64,
}

/// Sends frames that are too short and too long, each among nothing else.
/// `longest` is the longest frame, with FCS, that the bridge must carry.
pub fn errored(
    work: &mut Work<'_>,
    plan: &Plan,
    timing: Timing,
    longest: usize,
) -> Result<Vec<Errored>, BenchError> {
    teach(work, plan)?;
    let mut found = Vec::new();
    for (kind, size) in [("undersize", 60), ("oversize", longest + 1)] {
        let mut plan = plan.sized(&Sizes::Fixed(size));
        plan.streams.iter_mut().for_each(|s| {
            s.runts = true;
            if s.layers.shortest() + crate::rate::FCS > size {
                s.layers.datagram = None;
            }
        });
        let result = work.trial(kind, &plan, timing)?;
        // Frames that the port refused were never on the wire.
        let refused: u64 = result.ports.iter().map(|p| p.tx_failed).sum();
        let offered = Some(result.offered().saturating_sub(refused));
        found.push(Errored { kind, size, offered, forwarded: result.received() });
    }
    for kind in ["wrong FCS", "dribble bits", "alignment"] {
        found.push(Errored { kind, size: 64, offered: None, forwarded: 0 });
    }
    Ok(found)
}

/// The plan with broadcast frames (section 5.10): throughput and latency are searched as with any
/// other.
pub fn broadcast(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.streams.iter_mut().for_each(|s| s.layers.dst = MacAddr::BROADCAST);
    plan
}
