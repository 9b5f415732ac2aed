//! Ends of a link that are no Ferrule node: a host, the port of a tester, a generator made for one
//! test.

use ferrule_base::{Instant, Ledger, Rng};
use ferrule_pipeline::{Packet, PoolCache};
use std::any::Any;

/// Access that a station has while it is called.
pub struct Io<'a> {
    /// The time.
    pub now: Instant,
    /// Free packets.
    pub cache: &'a mut PoolCache,
    /// The station's own dice.
    pub rng: &'a mut Rng,
    /// Frames that it sends: the station's port, and the frame.
    pub sent: &'a mut Vec<(usize, Packet)>,
}

/// A station.
pub trait Station: Send {
    /// A frame arrived; `port` counts this station's links.
    fn receive(&mut self, io: &mut Io<'_>, port: usize, packet: Packet);

    /// The time that [`poll_timeout`](Self::poll_timeout) named has come.
    fn wake(&mut self, io: &mut Io<'_>);

    /// When it wants to be woken; asked after each call, and when a run begins.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Packets that the station consumed and made: `received` and `sent` are what the links gave it
    /// and got from it, the others account for the difference.
    fn ledger(&self) -> Ledger;

    /// Lets the caller read results from the station.
    fn as_any(&mut self) -> &mut dyn Any;
}
