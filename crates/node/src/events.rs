//! Events of a worker or card to one listener: the control part, or its protocols.

use crate::message::Event;
use rtrb::Producer;
use std::collections::VecDeque;

/// Sender of events, which keeps those that must be heard until there is room.
pub(crate) struct EventQueue {
    pub ring: Producer<Event>,
    waiting: VecDeque<Event>,
    sent: u64,
}

impl EventQueue {
    pub const fn new(ring: Producer<Event>) -> Self {
        Self { ring, waiting: VecDeque::new(), sent: 0 }
    }

    /// Sends an event that must be heard.
    pub fn send(&mut self, event: Event) {
        self.waiting.push_back(event);
        self.send_waiting();
    }

    /// Goes on with events that wait for room.
    pub fn send_waiting(&mut self) {
        while !self.ring.is_full()
            && let Some(event) = self.waiting.pop_front()
        {
            self.sent += 1;
            let _ = self.ring.push(event);
        }
    }

    /// True if no event waits for room.
    pub fn is_clear(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Events sent so far.
    pub const fn sent(&self) -> u64 {
        self.sent
    }
}
