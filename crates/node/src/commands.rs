//! Commands to a worker from the control part and from the control protocols, which may have
//! threads of their own: one ring, so that all commands keep their order.

use crate::message::Command;
use ferrule_dataplane::graph::Next;
use ferrule_pipeline::Packet;
use rtrb::{Producer, PushError};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sender of commands to one worker. Senders share a lock, held for one push; the worker takes
/// none.
#[derive(Clone)]
pub(crate) struct Commands(Arc<Mutex<Queue>>);

struct Queue {
    ring: Producer<Command>,
    /// Commands that must not be lost, for which the ring had no room.
    later: VecDeque<Command>,
}

impl Commands {
    pub fn new(ring: Producer<Command>) -> Self {
        Self(Arc::new(Mutex::new(Queue { ring, later: VecDeque::new() })))
    }

    /// Sends a command that must not be lost: if there is no room it waits.
    pub fn send(&self, command: Command) {
        let mut queue = self.lock();
        if !queue.later.is_empty() {
            return queue.later.push_back(command);
        }
        if let Err(PushError::Full(command)) = queue.ring.push(command) {
            queue.later.push_back(command);
        }
    }

    /// Sends a command that may be lost. False: there was no room.
    pub fn try_send(&self, command: Command) -> bool {
        self.lock().ring.push(command).is_ok()
    }

    /// Puts a packet into the worker's graph, or gives it back if there is no room.
    pub fn inject(&self, next: Next, packet: Packet) -> Result<(), Packet> {
        match self.lock().ring.push(Command::Inject(next, packet)) {
            Err(PushError::Full(Command::Inject(_, packet))) => Err(packet),
            _ => Ok(()),
        }
    }

    /// Goes on with commands that wait.
    pub fn send_later(&self) {
        let queue = &mut *self.lock();
        while !queue.ring.is_full()
            && let Some(command) = queue.later.pop_front()
        {
            let _ = queue.ring.push(command);
        }
    }

    /// True if no command waits and there is room for so many.
    pub fn has_room(&self, places: usize) -> bool {
        let queue = self.lock();
        queue.later.is_empty() && queue.ring.slots() >= places
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
