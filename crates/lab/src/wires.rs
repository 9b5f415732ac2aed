//! Links without nodes: what `ferrule lab up` puts between real interfaces, so that
//! a network in namespaces has the rates, delays and impairments of its topology.
//!
//! ```text
//!   interface ─ put ─▶ [ link, as in virtual time ] ─ take ─▶ interface
//! ```
//!
//! These are the links of [`Network`], with a station at both ends that hands frames
//! over; the caller's clock drives them. Links that a topology disturbs go down, come
//! up and are impaired at the times that it says, counted from the caller's zero.

use crate::link::Direction;
use crate::network::{End, LabError, Network, StationId};
use crate::station::{Io, Station};
use crate::topology::{Topology, Upset};
use crate::{Change, LinkId, LinkStats};
use ferrule_base::{Instant, Ledger};
use ferrule_pipeline::{Packet, Pool, PoolCache};
use std::any::Any;
use std::collections::VecDeque;

/// Frames that are under way at most, on all wires.
const BUFFERS: usize = 1 << 14;
/// Room of a buffer beside the longest frame.
const SPARE: usize = 512;

/// Both ends of all wires.
#[derive(Default)]
struct Doors {
    now: Instant,
    incoming: VecDeque<(usize, Packet)>,
    outgoing: VecDeque<(usize, Packet)>,
    ledger: Ledger,
}

impl Station for Doors {
    fn receive(&mut self, _io: &mut Io<'_>, port: usize, packet: Packet) {
        self.ledger.received += 1;
        self.ledger.consumed += 1;
        self.outgoing.push_back((port, packet));
    }

    fn wake(&mut self, io: &mut Io<'_>) {
        self.ledger.made += self.incoming.len() as u64;
        self.ledger.sent += self.incoming.len() as u64;
        io.sent.extend(self.incoming.drain(..));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (!self.incoming.is_empty()).then_some(self.now)
    }

    fn ledger(&self) -> Ledger {
        self.ledger
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Wires that the caller drives.
pub struct Wires {
    network: Network,
    doors: StationId,
    links: Vec<LinkId>,
    cache: PoolCache,
}

impl Wires {
    /// The links of a topology at these places, each a wire, in this order.
    pub fn of(
        topology: &Topology,
        places: &[usize],
        longest: usize,
        seed: u64,
    ) -> Result<Self, LabError> {
        let size = (longest + SPARE).next_power_of_two().max(2048);
        let pool = Pool::heap(BUFFERS, size);
        let cache = pool.cache();
        let mut network = Network::with_pool(seed, pool);
        let doors = network.station("doors", Box::new(Doors::default()));
        let mut links = Vec::new();
        for (wire, &place) in places.iter().enumerate() {
            let Some(link) = topology.links.get(place) else { continue };
            let [a, b] = [2 * wire, 2 * wire + 1].map(|port| End::Station(doors, port));
            links.push(network.link(link.spec.clone(), a, b)?);
        }
        for entry in &topology.disturbances {
            let wire = |link: usize| {
                let at = places.iter().position(|&place| place == link)?;
                links.get(at).copied()
            };
            let change = match &entry.what {
                Upset::Down(link) => wire(*link).map(Change::LinkDown),
                Upset::Up(link) => wire(*link).map(Change::LinkUp),
                Upset::Impair(link, how) => {
                    wire(*link).map(|id| Change::Impair(id, None, how.clone()))
                }
                Upset::Restart(..) | Upset::ClockJump(..) => None,
            };
            if let Some(change) = change {
                network.at(entry.at, change);
            }
        }
        Ok(Self { network, doors, links, cache })
    }

    /// A frame enters a wire. False if there is no room for it.
    pub fn put(&mut self, now: Instant, wire: usize, way: Direction, frame: &[u8]) -> bool {
        let port = 2 * wire + usize::from(way == Direction::Reverse);
        let Some(packet) = self.cache.packet_from(frame) else { return false };
        match self.network.station_mut::<Doors>(self.doors) {
            Some(doors) => {
                doors.now = now;
                doors.incoming.push_back((port, packet));
                true
            }
            None => false,
        }
    }

    /// Lets happen what happens until `now`.
    pub fn advance(&mut self, now: Instant) {
        self.network.advance(now);
    }

    /// Each frame that came out: its wire, the way that it went, its octets.
    pub fn take(&mut self, mut each: impl FnMut(usize, Direction, &[u8])) {
        let Some(doors) = self.network.station_mut::<Doors>(self.doors) else { return };
        for (port, packet) in doors.outgoing.drain(..) {
            // The frame entered at the other end.
            let way = if port % 2 == 1 { Direction::Forward } else { Direction::Reverse };
            each(port / 2, way, packet.data());
            self.cache.recycle(packet);
        }
    }

    /// When something happens next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.network.next_event()
    }

    /// Counters of a wire.
    pub fn stats(&self, wire: usize) -> Option<LinkStats> {
        self.links.get(wire).map(|&link| self.network.link_stats(link))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::NoFiles;

    const TEXT: &str = r#"
name = "wired"
[node.gw.config]
port = [{ name = "a" }, { name = "b" }]
interface = [
    { port = "a", address = ["10.1.0.1/24"] },
    { port = "b", address = ["10.2.0.1/24"] },
]
[host.h1]
address = ["10.1.0.2/24"]
gateway = ["10.1.0.1"]
[host.h2]
address = ["10.2.0.2/24"]
gateway = ["10.2.0.1"]
[[link]]
ends = ["h1", "gw:a"]
[[link]]
ends = ["h2", "gw:b"]
rate = "8Mbit/s"
delay = "250us"
loss = "every 10"
[[disturb]]
at = "500ms"
for = "100ms"
link = "h2-gw"
down = true
"#;

    fn topology() -> Topology {
        Topology::parse("wired.toml", TEXT, &mut NoFiles, None).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn wires_have_the_rate_delay_loss_and_disturbances_of_their_link() {
        let mut wires = Wires::of(&topology(), &[1], 1514, 1).expect("a network");
        let mut arrived: Vec<(u64, Direction, usize)> = Vec::new();
        let mut sent = 0_u64;
        // A frame each way every 2 ms for a second; the clock ticks every 10 us.
        for tick in 0..101_000_u64 {
            let now = Instant::from_nanos(tick * 10_000);
            if tick % 200 == 0 && tick < 100_000 {
                sent += 1;
                assert!(wires.put(now, 0, Direction::Forward, &[1; 976]));
                assert!(wires.put(now, 0, Direction::Reverse, &[2; 76]));
            }
            wires.advance(now);
            wires.take(|wire, way, frame| {
                assert_eq!((wire, frame[0]), (0, if way == Direction::Forward { 1 } else { 2 }));
                arrived.push((tick * 10, way, frame.len()));
            });
        }
        // 988 octets at 8 Mbit/s are 988 us, and 250 us of delay: the next tick.
        let first = arrived.iter().find(|a| a.1 == Direction::Forward).expect("one");
        assert_eq!(*first, (1240, Direction::Forward, 976));
        let first = arrived.iter().find(|a| a.1 == Direction::Reverse).expect("one");
        assert_eq!(*first, (340, Direction::Reverse, 76), "88 us and 250");
        let stats = wires.stats(0).expect("its counts");
        for (way, lane) in
            [(Direction::Forward, stats.forward), (Direction::Reverse, stats.reverse)]
        {
            let here = arrived.iter().filter(|a| a.1 == way).count() as u64;
            assert_eq!((lane.offered.packets, lane.down), (sent, 50), "{way:?}");
            assert_eq!((lane.lost, here), (45, sent - 50 - 45), "each tenth of the rest");
        }
        assert_eq!(wires.poll_timeout(), None);
    }

    #[test]
    fn wires_bound_what_is_under_way() {
        let mut topology = topology();
        topology.links[1].spec.queue = 5;
        topology.disturbances.clear();
        let mut wires = Wires::of(&topology, &[1], 1514, 1).expect("a network");
        for _ in 0..100 {
            assert!(wires.put(Instant::ZERO, 0, Direction::Forward, &[0; 60]));
        }
        wires.advance(Instant::from_millis(900));
        assert_eq!(wires.stats(0).expect("counts").forward.queue_full, 94, "one leaves, five wait");
        let room = (0..2 * BUFFERS)
            .take_while(|_| wires.put(Instant::from_secs(1), 0, Direction::Forward, &[0; 60]));
        assert!(room.count() <= BUFFERS);
    }
}
