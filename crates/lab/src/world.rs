//! State that devices and stations share: the time, the agenda, the links and the observers.

use crate::agenda::Agenda;
use crate::capture::Tap;
use crate::follow::Follower;
use crate::link::{Direction, Lane};
use crate::network::LinkId;
use crate::observe::{Loss, Observer, Place, Sighting};
use ferrule_base::Instant;
use ferrule_pipeline::{Packet, Pool, PoolCache};

/// The part of a network that is neither device nor station.
pub(crate) struct World {
    pub seed: u64,
    pub now: Instant,
    pub agenda: Agenda,
    pub pool: Pool,
    pub cache: PoolCache,
    /// Two for each link.
    pub lanes: Vec<Lane>,
    pub taps: Vec<Tap>,
    pub observers: Vec<Box<dyn Observer>>,
    pub follower: Option<Box<Follower>>,
    /// Frames that arrived at a device so far.
    pub visits: u64,
}

/// The link and direction of a lane.
pub(crate) const fn of_lane(lane: u32) -> (LinkId, Direction) {
    let direction = if lane.is_multiple_of(2) { Direction::Forward } else { Direction::Reverse };
    (LinkId(lane as usize / 2), direction)
}

/// The lane of a link and direction.
pub(crate) const fn lane_of(link: LinkId, direction: Direction) -> u32 {
    link.0 as u32 * 2 + matches!(direction, Direction::Reverse) as u32
}

impl World {
    fn sighting(&self, lane: u32, corrupted: bool) -> Sighting {
        let (link, direction) = of_lane(lane);
        Sighting { link, direction, now: self.now, corrupted }
    }

    /// Puts a frame, ready at `at_ps`, on a lane.
    #[inline]
    pub fn put(&mut self, lane: u32, at_ps: u64, packet: Packet) {
        let Some(entry) = self.lanes.get_mut(lane as usize) else { return };
        entry.stats.offered.add(packet.len());
        if let Some(tap) = entry.tap
            && let Some(tap) = self.taps.get_mut(tap as usize)
        {
            tap.record(self.now, of_lane(lane).1, packet.data());
        }
        if !self.observers.is_empty() {
            let seen = self.sighting(lane, false);
            self.observers.iter_mut().for_each(|o| o.sent(&seen, packet.data()));
        }
        let way = self.follower.as_mut().and_then(|follower| follower.depart(&packet));
        let entry = &mut self.lanes[lane as usize];
        match entry.carry(lane, at_ps, packet, &mut self.cache, &mut self.agenda) {
            Ok(carried) => {
                if let (Some(way), Some(follower)) = (way, &mut self.follower) {
                    follower.ride(way, lane, carried);
                }
            }
            Err((packet, why)) => self.lose(lane, false, why, packet),
        }
        let entry = &self.lanes[lane as usize];
        if entry.shared {
            let free_ps = entry.free_ps();
            if let Some(other) = self.lanes.get_mut((lane ^ 1) as usize) {
                other.busy_until(free_ps);
            }
        }
    }

    /// A frame comes out of a lane: where to, if it was not lost on the way.
    #[inline]
    pub fn arrive(
        &mut self,
        lane: u32,
        cut: u16,
        corrupted: bool,
        packet: Packet,
    ) -> Option<(Place, Packet)> {
        let entry = self.lanes.get_mut(lane as usize)?;
        if entry.cut != cut {
            entry.stats.down += 1;
            self.lose(lane, corrupted, Loss::Down, packet);
            return None;
        }
        entry.stats.delivered.add(packet.len());
        let to = entry.to;
        if !self.observers.is_empty() {
            let seen = self.sighting(lane, corrupted);
            self.observers.iter_mut().for_each(|o| o.arrived(&seen, to, packet.data()));
        }
        if let Some(follower) = &mut self.follower {
            follower.arrive(&packet, lane, to, self.now);
        }
        Some((to, packet))
    }

    /// A frame that came from `lane` ends.
    pub fn lose(&mut self, lane: u32, corrupted: bool, why: Loss, packet: Packet) {
        if !self.observers.is_empty() {
            let seen = self.sighting(lane, corrupted);
            self.observers.iter_mut().for_each(|o| o.lost(&seen, why, packet.data()));
        }
        if let Some(follower) = &mut self.follower {
            follower.forget(&packet);
        }
        self.cache.recycle(packet);
    }
}
