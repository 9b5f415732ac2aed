//! Changes of dynamic entries: batches of deltas, each answered once, when all workers have its
//! tables.
//!
//! ```text
//!   batches ─▶ waiting ─▶ all that wait at once: entries, compiled ─▶ ready ─▶ switch ─▶ answers
//! ```
//!
//! While one change is under way others wait, and then go together: many small batches cost
//! few compilations. Routing tables that stay, policies and access lists are not compiled again.
//! After a change of large tables there is a pause: the thread that compiles has other work.

use super::Control;
use crate::compile;
use crate::dynamic::Delta;
use ferrule_base::{Duration, Instant};
use ferrule_control::{Refused, Token};
use std::collections::VecDeque;
use std::mem::take;
use std::sync::Arc;

/// Time from one change to the next for each entry that is compiled: about twice what that takes.
const PAUSE: Duration = Duration::from_nanos(1500);

/// A worker or card that takes no commands is asked so often.
const PATIENCE: Duration = Duration::from_millis(1);

/// Answer to a batch.
type Answer = (Token, Result<(), Refused>);

/// Batches of deltas until they are answered.
#[derive(Default)]
pub(super) struct Deltas {
    waiting: Vec<(Token, Vec<Delta>)>,
    under_way: Vec<Token>,
    answers: VecDeque<Answer>,
    /// Earliest time of the next compilation.
    due: Instant,
}

impl Deltas {
    /// Time at which batches that wait may go on.
    pub fn poll_timeout(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then_some(self.due)
    }
}

impl Control {
    /// Changes dynamic entries: all of these deltas, in their order, or none.
    /// [`poll_changed`](Self::poll_changed) has the answer, by this token.
    pub fn change_entries(&mut self, now: Instant, deltas: Vec<Delta>) -> Token {
        self.orders += 1;
        let token = Token(self.orders);
        self.deltas.waiting.push((token, deltas));
        self.turn_deltas(now);
        token
    }

    /// The next answer to a batch of deltas: its entries are in force everywhere, or nothing was
    /// changed.
    pub fn poll_changed(&mut self) -> Option<Answer> {
        self.deltas.answers.pop_front()
    }

    /// Answers batches whose tables all workers have, and begins with those that wait.
    pub(super) fn turn_deltas(&mut self, now: Instant) -> usize {
        if self.is_changing() {
            return 0;
        }
        let done = take(&mut self.deltas.under_way);
        let mut count = done.len();
        self.deltas.answers.extend(done.into_iter().map(|token| (token, Ok(()))));
        if self.deltas.waiting.is_empty() || now < self.deltas.due {
            return count;
        }
        if self.is_ready().is_err() {
            self.deltas.due = now + PATIENCE;
            return count;
        }
        for (token, deltas) in take(&mut self.deltas.waiting) {
            count += 1;
            match Arc::make_mut(&mut self.shared.dynamic).change(&self.config, deltas) {
                Ok(()) => self.deltas.under_way.push(token),
                Err(refused) => self.deltas.answers.push_back((token, Err(refused))),
            }
        }
        if !self.deltas.under_way.is_empty() {
            let (config, shared) = (&self.config, &mut self.shared);
            self.compiled = compile::compile(config, &self.macs, shared, &self.tables);
            self.tables = Arc::new(take(&mut self.compiled.tables));
            let entries = self.shared.dynamic.len() + config.routes.len();
            self.deltas.due = now + Duration::from_nanos(PAUSE.as_nanos() as u64 * entries as u64);
            self.change_tables(now);
        }
        count
    }
}
