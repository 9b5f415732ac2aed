//! MPLS forwarding (RFC 5695): throughput, latency and frame loss rate (sections
//! 6.1 to 6.3), each for the operations that a label switching router does.
//!
//! ```text
//!   push   IP           ─▶ [ router ] ─▶ label IP
//!   swap   label IP     ─▶ [ router ] ─▶ label' IP
//!   pop    label IP     ─▶ [ router ] ─▶ IP
//! ```
//!
//! A frame must arrive with the labels that its operation leaves; one that has
//! others counts as received and is reported as wrongly encapsulated, and a test
//! with any is a finding. Sizes are of the frame that is sent; pushing makes it
//! longer (section 4.1.5).

use super::loss::loss;
use super::throughput::{self, Throughput, throughput};
use super::{Measured, Work, latency};
use crate::bench::BenchError;
use crate::layers::LabelEntry;
use crate::stream::{Plan, Stream};
use crate::trial::Timing;
use ferrule_wire::{Label, TrafficClass};

/// Operation of the router on a frame (RFC 5695 section 4.1.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Puts labels on.
    Push {
        /// The labels that frames arrive with, top first.
        out: Vec<Label>,
    },
    /// Exchanges the top label.
    Swap {
        /// The labels that frames are sent with, top first.
        labels: Vec<Label>,
        /// The top label that they arrive with.
        out: Label,
    },
    /// Takes the top label off.
    Pop {
        /// The labels that frames are sent with, top first.
        labels: Vec<Label>,
    },
}

impl Operation {
    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Push { .. } => "push",
            Self::Swap { .. } => "swap",
            Self::Pop { .. } => "pop",
        }
    }

    /// The stream that has this done to it.
    pub fn stream(&self, stream: &Stream) -> Stream {
        let entry = |&label: &Label| LabelEntry { label, class: TrafficClass::masked(0), ttl: 64 };
        let mut stream = stream.clone();
        let (sent, expected) = match self {
            Self::Push { out } => (&[][..], out.clone()),
            Self::Swap { labels, out } => {
                let rest = labels.iter().skip(1).copied();
                (&labels[..], std::iter::once(*out).chain(rest).collect())
            }
            Self::Pop { labels } => (&labels[..], labels.iter().skip(1).copied().collect()),
        };
        stream.layers.labels = sent.iter().map(entry).collect();
        stream.expect = Some(expected);
        stream.name = format!("{} {}", stream.name, self.name());
        stream
    }
}

/// Parameters of the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mpls {
    /// The search for throughput.
    pub throughput: Throughput,
    /// Trials of latency and loss.
    pub timing: Timing,
    /// Repeats of latency.
    pub repeats: usize,
    /// Steps of loads for the loss rate; 0: none.
    pub steps: u32,
}

/// Results for one operation.
#[derive(Clone, Debug)]
pub struct Found {
    /// The operation.
    pub operation: Operation,
    /// Its throughput.
    pub throughput: throughput::Found,
    /// Its latency at that throughput.
    pub latency: Option<latency::Found>,
    /// Its loss at loads from the highest down.
    pub loss: Vec<Measured>,
    /// Frames that arrived with the wrong labels in the trial at its throughput.
    pub misencapsulated: u64,
}

/// Tests one operation with frames as those of the plan's streams.
pub fn mpls(
    work: &mut Work<'_>,
    operation: &Operation,
    plan: &Plan,
    settings: &Mpls,
) -> Result<Found, BenchError> {
    let streams = plan.streams.iter().map(|s| operation.stream(s)).collect();
    let plan = Plan { streams, line: plan.line };
    let name = operation.name();
    let found = throughput(work, name, &plan, &settings.throughput)?;
    let misencapsulated =
        found.result.iter().flat_map(|r| &r.streams).map(|s| s.received.misencapsulated).sum();
    let latency = match found.load {
        Some(load) => {
            let what = format!("{name} latency");
            Some(latency::latency(work, &what, &plan, settings.timing, load, settings.repeats)?)
        }
        None => None,
    };
    let range = &settings.throughput.range;
    let curve = if settings.steps == 0 || range.top(&plan).is_none() {
        Vec::new()
    } else {
        loss(work, &format!("{name} loss"), &plan, settings.timing, range, settings.steps)?
    };
    let operation = operation.clone();
    Ok(Found { operation, throughput: found, latency, loss: curve, misencapsulated })
}
