//! Order for jobs that complete late.
//!
//! An engine may bring jobs back in any order; packets of one SA leave in the
//! order in which they came. Each SA has a [`Lane`], a queue of tickets through
//! one shared, bounded table: a job that comes back waits in its place until
//! all before it are back.
//!
//! ```text
//!   lane of SA 3:  head ─▶ [flying] ─▶ [back] ─▶ [flying] ◀─ tail
//! ```
//!
//! An engine that completes in place needs no ticket.
//!
//! The stages of a worker share its engine: [`Submitter`], in the top octet of a
//! job's ticket, says whose job it is.

use ferrule_crypto::Job;
use ferrule_pipeline::Packet;

/// Tickets of one stage at most: jobs under way or waiting for their turn.
pub const TICKETS_MAX: usize = 4096;

const NIL: u32 = u32::MAX;

/// The stage that submitted a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Submitter {
    /// ESP, opening.
    EspIn = 1,
    /// ESP, sealing.
    EspOut = 2,
    /// SecY, validating.
    SecyIn = 3,
    /// SecY, protecting.
    SecyOut = 4,
    /// AH, checking.
    AhIn = 5,
    /// AH, authenticating.
    AhOut = 6,
}

impl Submitter {
    /// A ticket of this stage; `low` is its own, up to 56 bits.
    #[inline]
    pub const fn mark(self, low: u64) -> u64 {
        debug_assert!(low >> 56 == 0);
        (self as u64) << 56 | low
    }

    /// True if the ticket is of this stage.
    #[inline]
    pub const fn owns(self, ticket: u64) -> bool {
        ticket >> 56 == self as u64
    }
}

/// One SA's queue. Empty at first.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    head: u32,
    tail: u32,
}

impl Default for Lane {
    fn default() -> Self {
        Self { head: NIL, tail: NIL }
    }
}

impl Lane {
    /// No job is under way: a retired SA may go.
    pub const fn is_empty(&self) -> bool {
        self.head == NIL
    }
}

struct Slot {
    next: u32,
    owner: u32,
    job: Option<Job<Packet>>,
}

/// The table that all lanes of a stage share.
#[derive(Default)]
pub struct Tickets {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Tickets {
    /// Takes a place at the end of `lane` for a job of `owner`. Nothing when
    /// [`TICKETS_MAX`] are out.
    pub fn issue(&mut self, lane: &mut Lane, owner: u32) -> Option<u32> {
        let fresh = Slot { next: NIL, owner, job: None };
        let ticket = match self.free.pop() {
            Some(ticket) => {
                self.slots[ticket as usize] = fresh;
                ticket
            }
            None if self.slots.len() < TICKETS_MAX => {
                self.slots.push(fresh);
                self.slots.len() as u32 - 1
            }
            None => return None,
        };
        match lane.tail {
            NIL => lane.head = ticket,
            tail => self.slots[tail as usize].next = ticket,
        }
        lane.tail = ticket;
        Some(ticket)
    }

    /// Owner of a ticket; nothing for a number that is not out.
    pub fn owner(&self, ticket: u32) -> Option<u32> {
        self.slots.get(ticket as usize).map(|s| s.owner)
    }

    /// A job is back: it waits in its place.
    pub fn park(&mut self, ticket: u32, job: Job<Packet>) {
        self.slots[ticket as usize].job = Some(job);
    }

    /// The job at the head of `lane` with its owner, if it is back.
    pub fn release(&mut self, lane: &mut Lane) -> Option<(u32, Job<Packet>)> {
        let ticket = lane.head;
        let slot = self.slots.get_mut(ticket as usize)?;
        let job = slot.job.take()?;
        lane.head = slot.next;
        if lane.head == NIL {
            lane.tail = NIL;
        }
        let owner = slot.owner;
        self.free.push(ticket);
        Some((owner, job))
    }

    /// Packets under way or waiting for their turn.
    pub fn held(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_base::Rng;
    use ferrule_crypto::{Ad, KeyId, Op, Span, Verdict};
    use ferrule_pipeline::Pool;

    #[test]
    fn jobs_leave_in_the_order_of_their_lane_however_they_come_back() {
        let pool = Pool::heap(512, 512);
        let mut cache = pool.cache();
        let mut job = |ticket: u32| Job {
            buf: cache.packet().unwrap(),
            key: KeyId::default(),
            ticket: ticket.into(),
            number: 0,
            nonce: [0; 12],
            op: Op::Seal,
            verdict: Verdict::Done,
            ad: Ad::Span(Span::default()),
            text: Span::default(),
        };
        let mut rng = Rng::new(1);
        let mut tickets = Tickets::default();
        for _round in 0..20 {
            let mut lanes = [Lane::default(); 4];
            let mut flying = Vec::new();
            let mut expect: [Vec<u64>; 4] = Default::default();
            for _ in 0..100 {
                let lane = rng.below(4) as usize;
                let ticket = tickets.issue(&mut lanes[lane], lane as u32).unwrap();
                expect[lane].push(ticket.into());
                flying.push(ticket);
            }
            let mut got: [Vec<u64>; 4] = Default::default();
            while !flying.is_empty() {
                let ticket = flying.swap_remove(rng.below(flying.len() as u64) as usize);
                let lane = tickets.owner(ticket).unwrap() as usize;
                tickets.park(ticket, job(ticket));
                while let Some((owner, job)) = tickets.release(&mut lanes[lane]) {
                    assert_eq!(owner, lane as u32);
                    got[lane].push(job.ticket);
                }
            }
            assert_eq!(got, expect);
            assert!(lanes.iter().all(Lane::is_empty));
            assert_eq!(tickets.held(), 0);
        }
    }

    #[test]
    fn tickets_are_bounded() {
        let (mut tickets, mut lane) = (Tickets::default(), Lane::default());
        for _ in 0..TICKETS_MAX {
            assert!(tickets.issue(&mut lane, 0).is_some());
        }
        assert!(tickets.issue(&mut lane, 0).is_none());
    }
}
