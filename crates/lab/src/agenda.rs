//! The agenda: what happens when. Events of one time happen in the order in
//! which they were entered.

use ferrule_base::Instant;
use ferrule_pipeline::Packet;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Something that happens.
pub(crate) enum Event {
    /// A frame reaches the end of a lane. It is lost if the lane was cut since.
    Arrive { lane: u32, cut: u16, corrupted: bool, packet: Packet },
    /// Frames that a lane held back have waited long enough.
    Release { lane: u32 },
    /// A worker's server looks for something to do. Void after a restart.
    Serve { device: u32, worker: u8, life: u16 },
    /// Frames leave a worker's server.
    Depart { device: u32, worker: u8, life: u16 },
    /// A timer of a device's node is due.
    Timer { device: u32, life: u16 },
    /// A device that was down comes up.
    Boot { device: u32, life: u16 },
    /// A station wants to be woken.
    Wake { station: u32 },
    /// A planned change.
    Change { index: u32 },
}

impl Event {
    /// True for events that may still be pending in a network at rest.
    fn is_routine(&self) -> bool {
        matches!(self, Self::Timer { .. })
    }
}

struct Entry {
    time: Instant,
    order: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The earliest is the greatest, as the heap wants it.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.order).cmp(&(self.time, self.order))
    }
}

/// Queue of all pending events, earliest first.
#[derive(Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Entry>,
    entered: u64,
    routine: usize,
}

impl Agenda {
    /// Enters an event.
    #[inline]
    pub fn enter(&mut self, time: Instant, event: Event) {
        self.routine += usize::from(event.is_routine());
        self.entered += 1;
        self.heap.push(Entry { time, order: self.entered, event });
    }

    /// The next event, if it is not later than `until`.
    #[inline]
    pub fn next(&mut self, until: Instant) -> Option<(Instant, Event)> {
        if self.heap.peek()?.time > until {
            return None;
        }
        let entry = self.heap.pop()?;
        self.routine -= usize::from(entry.event.is_routine());
        Some((entry.time, entry.event))
    }

    /// When the next event is due.
    pub fn peek(&self) -> Option<Instant> {
        self.heap.peek().map(|entry| entry.time)
    }

    /// Events that were taken out so far.
    pub fn happened(&self) -> u64 {
        self.entered - self.heap.len() as u64
    }

    /// True if only routine timers are pending.
    pub fn is_quiet(&self) -> bool {
        self.routine == self.heap.len()
    }

    /// Everything that is to come, in no order.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.heap.iter().map(|e| &e.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_at_one_time_in_the_order_of_entry() {
        let mut agenda = Agenda::default();
        for (at, station) in [(5, 0), (3, 1), (5, 2), (3, 3), (4, 4), (5, 5)] {
            agenda.enter(Instant::from_nanos(at), Event::Wake { station });
        }
        let mut order = Vec::new();
        while let Some((_, Event::Wake { station })) = agenda.next(Instant::from_nanos(5)) {
            order.push(station);
        }
        assert_eq!(order, [1, 3, 4, 0, 2, 5]);
        agenda.enter(Instant::from_nanos(9), Event::Timer { device: 0, life: 0 });
        assert!(agenda.next(Instant::from_nanos(8)).is_none() && agenda.is_quiet());
    }
}
