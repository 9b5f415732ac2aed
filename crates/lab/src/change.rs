//! Changes that are made while the network runs: disturbances.

use crate::impair::Impairments;
use crate::link::Direction;
use crate::network::{DeviceId, LinkId};
use ferrule_base::Duration;
use ferrule_node::Config;

/// Kinds of changes.
#[derive(Clone, Debug)]
pub enum Change {
    /// A link goes down: what is on it is lost.
    LinkDown(LinkId),
    /// A link comes up again.
    LinkUp(LinkId),
    /// Other impairments, in one direction, or (with nothing) in both.
    Impair(LinkId, Option<Direction>, Impairments),
    /// Another rate, in bit/s (nothing: infinitely fast), for both directions.
    Rate(LinkId, Option<u64>),
    /// Another propagation delay, for both directions.
    Delay(LinkId, Duration),
    /// A device ends as after `kill -9` and starts anew after this long, from its
    /// configuration and the counters that were on stable storage.
    Restart(DeviceId, Duration),
    /// A device gets another configuration while it runs.
    Apply(DeviceId, Box<Config>),
    /// A device's clock goes forward by this much at once, as after a machine
    /// was suspended.
    ClockJump(DeviceId, Duration),
    /// The cards in a device's ports are reset.
    ResetCards(DeviceId),
    /// The cards in a device's ports stop, as cards do that fail.
    HaltCards(DeviceId),
}

impl Change {
    /// The change in a few words, for logs.
    pub fn about(&self) -> String {
        match self {
            Self::LinkDown(l) => format!("link {} goes down", l.0),
            Self::LinkUp(l) => format!("link {} comes up", l.0),
            Self::Impair(l, ..) => format!("link {} has other impairments", l.0),
            Self::Rate(l, Some(rate)) => format!("link {} has {rate} bit/s", l.0),
            Self::Rate(l, None) => format!("link {} is infinitely fast", l.0),
            Self::Delay(l, delay) => format!("link {} has a delay of {delay:?}", l.0),
            Self::Restart(d, down) => format!("device {} restarts after {down:?}", d.0),
            Self::Apply(d, _) => format!("device {} gets another configuration", d.0),
            Self::ClockJump(d, by) => format!("the clock of device {} jumps by {by:?}", d.0),
            Self::ResetCards(d) => format!("the cards of device {} are reset", d.0),
            Self::HaltCards(d) => format!("the cards of device {} fail", d.0),
        }
    }
}
