//! Views of a network between two steps of it, to be shown to people.

use crate::impair::Impairments;
use crate::link::{Direction, Lane};
use crate::network::{LinkId, Network};
use crate::world::lane_of;
use ferrule_base::{Duration, Instant};

/// State of one direction of a link, after all changes so far.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneNow {
    /// Frames can pass.
    pub up: bool,
    /// Bits per second; nothing: infinitely fast.
    pub rate: Option<u64>,
    /// Propagation delay.
    pub delay: Duration,
    /// Impairments of frames.
    pub impairments: Impairments,
    /// Frames that are under way or wait.
    pub under_way: u64,
}

impl Network {
    /// State of one direction of a link; nothing if there is no such link.
    pub fn link_now(&self, id: LinkId, direction: Direction) -> Option<LaneNow> {
        let lane: &Lane = self.world.lanes.get(lane_of(id, direction) as usize)?;
        Some(LaneNow {
            up: lane.up,
            rate: lane.rate,
            delay: Duration::from_nanos(lane.delay_ps / 1000),
            impairments: lane.impairments.clone(),
            under_way: lane.stats.in_flight(),
        })
    }

    /// Events that happened so far.
    pub fn events(&self) -> u64 {
        self.world.agenda.happened()
    }

    /// When the next event is due. What was changed from outside since the last
    /// step may come before it.
    pub fn next_at(&self) -> Option<Instant> {
        self.world.agenda.peek()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;

    #[test]
    fn lab_is_looked_at_between_single_steps() {
        let mut network = Network::new(1);
        assert_eq!((network.next_at(), network.events()), (None, 0));
        let link = LinkId(0);
        network.at(Instant::from_millis(2), Change::LinkDown(link));
        network.at(Instant::from_millis(1), Change::LinkUp(link));
        assert_eq!(network.next_at(), Some(Instant::from_millis(1)));
        assert!(network.step(Instant::from_millis(5)));
        assert_eq!((network.now(), network.events()), (Instant::from_millis(1), 1));
        assert_eq!(network.next_at(), Some(Instant::from_millis(2)));
        assert!(network.step(Instant::from_millis(5)));
        assert!(!network.step(Instant::from_millis(5)), "nothing more is due");
        assert_eq!((network.next_at(), network.events()), (None, 2));
        assert_eq!(network.link_now(link, Direction::Forward), None, "there is no link");
    }
}
