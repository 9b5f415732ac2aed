//! Test bench: ports, and trials on them that a search asks for.

use crate::trial::{TrialResult, TrialSpec};
use ferrule_base::Duration;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A place with ports between which a device stands.
pub trait Bench {
    /// Description of the bench, for the report.
    fn about(&self) -> About;

    /// Runs one trial.
    fn trial(&mut self, spec: &TrialSpec) -> Result<TrialResult, BenchError>;

    /// Result so far of a trial that ended with [`BenchError::Stopped`]; each is returned once.
    fn interrupted(&mut self) -> Option<TrialResult> {
        None
    }

    /// Has the device under test reset (RFC 6201) in the next trial, so long after
    /// its measurement begins.
    fn reset_at(&mut self, _after: Duration) -> Result<(), BenchError> {
        Err(BenchError::Broken("this bench cannot reset its device".into()))
    }
}

impl<B: Bench + ?Sized> Bench for &mut B {
    fn about(&self) -> About {
        (**self).about()
    }

    fn trial(&mut self, spec: &TrialSpec) -> Result<TrialResult, BenchError> {
        (**self).trial(spec)
    }

    fn interrupted(&mut self) -> Option<TrialResult> {
        (**self).interrupted()
    }

    fn reset_at(&mut self, after: Duration) -> Result<(), BenchError> {
        (**self).reset_at(after)
    }
}

/// Description of a bench.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The device that stands between the ports, as far as it is known.
    pub device: String,
    /// Limits of its ports that a reader must know of, such as frames that are too long for them.
    pub notes: Vec<String>,
    /// Its ports, in order.
    pub ports: Vec<String>,
    /// The rate of its lines in bit/s, where it is known.
    pub line: Option<u64>,
    /// Clocks between which latency is measured.
    pub clock: String,
    /// True if results are in virtual time.
    pub is_virtual: bool,
}

/// Reasons for which a trial could not be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BenchError {
    /// The plan cannot be sent.
    Plan(crate::Fault),
    /// The bench broke: a port went down, a clock stopped.
    Broken(String),
    /// The trial was stopped from outside.
    Stopped,
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(fault) => fault.fmt(f),
            Self::Broken(what) => f.write_str(what),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for BenchError {}

impl From<crate::Fault> for BenchError {
    fn from(fault: crate::Fault) -> Self {
        Self::Plan(fault)
    }
}
