//! The contract's promises, asked of every core.

use crate::{Core, Refused, Token};
use ferrule_base::{Instant, Rng};
use std::collections::HashSet;

/// A data path that answers late and in any order, and at times once more than it may.
pub struct LatePath<C: Core> {
    given: HashSet<Token>,
    /// Orders that were taken, and whether they were done.
    open: Vec<(Token, bool)>,
    answered: HashSet<Token>,
    of: std::marker::PhantomData<C>,
}

impl<C: Core> LatePath<C> {
    pub fn new() -> Self {
        let (given, answered) = (HashSet::new(), HashSet::new());
        Self { given, open: Vec::new(), answered, of: std::marker::PhantomData }
    }

    /// Takes so many orders at most. `obey` says if one is done.
    pub fn take(&mut self, core: &mut C, count: u64, mut obey: impl FnMut(&C::Order) -> bool) {
        for _ in 0..count {
            let Some((token, order)) = core.poll_order() else { return };
            assert!(self.given.insert(token), "{token:?} is given twice");
            self.open.push((token, obey(&order)));
        }
    }

    /// Answers so many orders at most. `seen` is all that may be seen of the core.
    pub fn answer(
        &mut self,
        (now, core): (Instant, &mut C),
        count: u64,
        rng: &mut Rng,
        seen: impl Fn(&C) -> String,
    ) {
        let outcome = |is_done| if is_done { Ok(()) } else { Err(Refused("no room".into())) };
        for _ in 0..count.min(self.open.len() as u64) {
            let (token, is_done) =
                self.open.swap_remove(rng.below(self.open.len() as u64) as usize);
            core.handle_answer(now, token, outcome(is_done));
            assert!(self.answered.insert(token));
            // Neither a second answer nor one to nothing has an effect.
            if rng.one_in(4) {
                let before = seen(core);
                core.handle_answer(now, token, outcome(!is_done));
                core.handle_answer(now, Token(u64::MAX), outcome(is_done));
                assert_eq!(seen(core), before);
            }
        }
    }

    /// True if every order that was given was answered.
    pub fn is_done(&self) -> bool {
        self.open.is_empty() && self.given == self.answered
    }
}
