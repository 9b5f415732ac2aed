//! Estimate of the time that a test still takes: the time foreseen for its trials, corrected by
//! that of those behind it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time before which no estimate is shown.
const PATIENCE: Duration = Duration::from_secs(2);

/// Progress of a test, and the time that it will take. Handles share it.
#[derive(Clone, Default)]
pub struct Outlook(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Time of trials that each piece was foretold to take, and pieces in all.
    piece: Duration,
    pieces: u32,
    /// Pieces that are done, and the time of their trials.
    done: u32,
    took: Duration,
    /// Time of trials of the piece under way, without the trial under way.
    here: Duration,
    /// The trial under way: its length, and when it began.
    trial: Option<(Duration, Instant)>,
    /// Real time of all trials that are over, and how long they should have been.
    real: Duration,
    planned: Duration,
}

impl State {
    /// Time that is left at `now`; nothing if nothing was foretold.
    fn left(&self, now: Instant) -> Option<Duration> {
        if self.pieces == 0 || self.done >= self.pieces {
            return None;
        }
        // The time that whole pieces took says more than the time foreseen for them.
        let piece = if self.done > 0 { self.took / self.done } else { self.piece };
        let (length, begun) = self.trial.unwrap_or((Duration::ZERO, now));
        let gone = now.saturating_duration_since(begun);
        let here = piece.saturating_sub(self.here).max(length);
        let planned = here + piece * (self.pieces - self.done - 1);
        let pace = match self.planned.is_zero() {
            true => 1.0,
            false => self.real.as_secs_f64() / self.planned.as_secs_f64(),
        };
        Some(planned.mul_f64(pace).saturating_sub(gone))
    }
}

impl Outlook {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the number of pieces of work, and the time of the trials of each.
    pub fn foretell(&self, piece: Duration, pieces: usize) {
        let pieces = u32::try_from(pieces).unwrap_or(u32::MAX);
        *self.state() = State { piece, pieces, ..State::default() };
    }

    /// A trial of this length begins.
    pub fn begins(&self, length: Duration) {
        self.state().trial = Some((length, Instant::now()));
    }

    /// Notes the end of a trial.
    pub fn ends(&self) {
        let mut state = self.state();
        let Some((length, begun)) = state.trial.take() else { return };
        state.here += length;
        state.real += begun.elapsed();
        state.planned += length;
    }

    /// A piece of the work is done.
    pub fn piece_is_done(&self) {
        let mut state = self.state();
        state.done += 1;
        let here = std::mem::take(&mut state.here);
        state.took += here;
    }

    /// The time that is left in words, behind other words; nothing for what is soon over.
    pub fn words(&self) -> String {
        let state = self.state();
        let left = state.left(Instant::now());
        let is_long = |left: &Duration| state.real + *left > PATIENCE;
        left.filter(is_long).map_or(String::new(), |left| format!("; {} left", about(left)))
    }
}

/// A time for people: no more digits than it is worth.
pub fn about(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("about {} s", time.as_secs().max(1)),
        s @ 10..90 => format!("about {} s", s.div_ceil(5) * 5),
        s @ 90..5400 => format!("about {} min", (s + 30) / 60),
        s => format!("about {:.1} h", s as f64 / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn time_left_goes_by_what_was_foretold_and_then_by_what_was_seen() {
        let now = Instant::now();
        let mut state = State { piece: 10 * SECOND, pieces: 3, ..State::default() };
        assert_eq!(state.left(now), Some(30 * SECOND));
        // Four seconds of the first piece took eight: all of it takes twice as long.
        (state.here, state.planned, state.real) = (4 * SECOND, 4 * SECOND, 8 * SECOND);
        assert_eq!(state.left(now), Some(52 * SECOND));
        // The first piece took 14 seconds of trials, and so will the others.
        (state.done, state.took, state.here) = (1, 14 * SECOND, Duration::ZERO);
        (state.planned, state.real) = (14 * SECOND, 14 * SECOND);
        assert_eq!(state.left(now), Some(28 * SECOND));
        // A trial under way has an end, however long its piece already took.
        (state.done, state.took, state.here) = (2, 28 * SECOND, 20 * SECOND);
        state.trial = Some((2 * SECOND, now - SECOND));
        assert_eq!(state.left(now), Some(SECOND));
        state.done = 3;
        assert_eq!(state.left(now), None);
    }

    #[test]
    fn time_left_is_told_where_it_is_long_and_not_where_it_is_short() {
        let outlook = Outlook::default();
        assert_eq!(outlook.words(), "");
        outlook.foretell(SECOND, 1);
        assert_eq!(outlook.words(), "");
        outlook.foretell(20 * SECOND, 3);
        outlook.begins(2 * SECOND);
        assert_eq!(outlook.words(), "; about 60 s left");
        assert_eq!(about(Duration::from_millis(200)), "about 1 s");
        assert_eq!(about(95 * SECOND), "about 2 min");
        assert_eq!(about(9000 * SECOND), "about 2.5 h");
    }
}
