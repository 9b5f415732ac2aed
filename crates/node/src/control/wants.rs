//! Numbers that outbound SAs want reserved: written, granted, and tried again for as
//! long as they cannot be written.

use super::Control;
use crate::counter::{Reserved, StoreError};
use crate::incident::Incident;
use crate::message::{Asker, Seat, Want};
use ferrule_base::{Duration, Instant};
use ferrule_dataplane::Lease;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Time after which a counter that could not be written is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(250);
/// Interval at which a write that is under way is checked.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A record, and the last of its numbers that is to be reserved.
type RecordLimit = ([u8; 16], u64);

/// Requests for numbers that could not be granted yet: one for each SA at most.
#[derive(Default)]
pub(super) struct Wants {
    waiting: Vec<(Seat, Want)>,
    due: Option<Instant>,
    /// Being written, by record and limit, and when that is looked at. Workers that share a
    /// record ask for the same.
    begun: HashMap<RecordLimit, Vec<(Seat, Want)>>,
    look: Option<Instant>,
    /// The operator was told that counters cannot be written.
    told: bool,
}

impl Wants {
    /// Time at which [`Control::try_again`] has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due.into_iter().chain(self.look).min()
    }

    /// An SA asks once, so this is all that is ever heard of it.
    fn wait(&mut self, now: Instant, seat: Seat, want: Want) {
        self.waiting.retain(|(at, old)| (*at, old.by) != (seat, want.by));
        self.waiting.push((seat, want));
        self.due.get_or_insert(now + TRY_AGAIN);
    }
}

impl Control {
    /// Reserves the numbers that an SA wants. One whose record has a newer lease gets no
    /// more: it is about to go, and the numbers behind its range are another's.
    pub(super) fn want(&mut self, now: Instant, seat: Seat, want: Want) {
        if matches!(want.by, Asker::Macsec(..)) && want.lease == Lease::default() {
            // Its key dies with the process: no record keeps its numbers. (That it is time for
            // another, the core sees by the numbers that are sent.)
            let all = Want { limit: u64::MAX, ..want };
            if self.change(seat, all.granted()).is_err() {
                self.wants.wait(now, seat, want);
            }
            return;
        }
        if !self.leases.is_newest(want.lease) {
            return;
        }
        match self.leases.extend(want.lease, want.limit) {
            Some(done) => self.reserved(now, seat, want, done),
            None => {
                let key = (want.lease.record, want.limit);
                self.wants.begun.entry(key).or_default().push((seat, want));
                self.wants.look.get_or_insert(now + LOOK_AGAIN);
            }
        }
    }

    /// Numbers that an SA wants are reserved, or could not be.
    fn reserved(&mut self, now: Instant, seat: Seat, want: Want, done: Result<(), StoreError>) {
        match done {
            // Meanwhile another one may have come to have the record.
            Ok(()) if !self.leases.is_newest(want.lease) => {}
            Ok(()) => {
                if self.change(seat, want.granted()).is_err() {
                    self.wants.wait(now, seat, want);
                } else if self.wants.waiting.is_empty() && std::mem::take(&mut self.wants.told) {
                    self.incidents.push(Incident::CountersWritten);
                }
            }
            // The SA stops at its limit rather than go on without a record.
            Err(e) => {
                self.wants.wait(now, seat, want);
                if !std::mem::replace(&mut self.wants.told, true) {
                    self.incidents.push(Incident::CounterNotWritten(e.to_string()));
                }
            }
        }
    }

    /// Takes the results of writes, and tries failed ones again. Returns their number.
    pub(super) fn mind_wants(&mut self, now: Instant) -> usize {
        let mut heard = 0;
        if let Some(block) = self.leases.poll_instances() {
            self.external.instances.get_or_insert_default().heard(block);
        }
        while let Some(Reserved { record, limit, done }) = self.leases.poll_reserved() {
            heard += 1;
            let Entry::Occupied(mut begun) = self.wants.begun.entry((record, limit)) else {
                continue;
            };
            let first = begun.get_mut().pop();
            if begun.get().is_empty() {
                begun.remove();
            }
            if let Some((seat, want)) = first {
                self.reserved(now, seat, want, done);
            }
        }
        let begun = !self.wants.begun.is_empty();
        self.wants.look = begun.then(|| now + LOOK_AGAIN);
        heard + self.try_again(now)
    }

    fn try_again(&mut self, now: Instant) -> usize {
        if self.wants.due.is_none_or(|due| due > now) {
            return 0;
        }
        self.wants.due = None;
        let waiting = std::mem::take(&mut self.wants.waiting);
        let count = waiting.len();
        for (seat, want) in waiting {
            self.want(now, seat, want);
        }
        count
    }
}
