//! Looking on: who wants to see every frame.

use crate::link::Direction;
use crate::network::{DeviceId, LinkId, StationId};
use ferrule_base::Instant;
use std::any::Any;

/// Link, direction and time at which a frame was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The link.
    pub link: LinkId,
    /// Its direction on the link.
    pub direction: Direction,
    /// Time of the sighting.
    pub now: Instant,
    /// The link turned a bit over.
    pub corrupted: bool,
}

/// Destination of a frame on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At a port of a device, by its place in the configuration.
    Device(DeviceId, usize),
    /// At a port of a station.
    Station(StationId, usize),
}

/// Reasons for which a frame ends on a link, or in front of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The impairment.
    Lost,
    /// The queue in front of the link was full.
    QueueFull,
    /// The link was down, or went down while the frame was on it.
    Down,
    /// The device's input queue was full.
    InputFull,
    /// The device takes no more under its profile's cap.
    Capped,
    /// The device was down.
    Crashed,
}

/// Sees the frames of a network. What it does not care for it leaves out.
pub trait Observer: Send {
    /// A frame was put on a link, as its sender made it.
    fn sent(&mut self, _seen: &Sighting, _frame: &[u8]) {}

    /// A frame arrived, as the link made it.
    fn arrived(&mut self, _seen: &Sighting, _at: Place, _frame: &[u8]) {}

    /// A frame was lost on the way.
    fn lost(&mut self, _seen: &Sighting, _why: Loss, _frame: &[u8]) {}

    /// A planned change was made.
    fn changed(&mut self, _now: Instant, _what: &str) {}

    /// Lets the caller read results from the observer.
    fn as_any(&mut self) -> &mut dyn Any;
}
