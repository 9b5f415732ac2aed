//! Wait for work in three steps: the thread polls, then it polls and yields, then it
//! sleeps.
//!
//! ```text
//!   work ─▶ LOOKS looks ─▶ looks, yielding in between, for as long as that pays ─▶ sleep
//!                                                                                  │
//!              a short sleep: would have paid, twice as long │ a long one: half ◀──┘
//! ```
//!
//! Waking the thread costs the host a system call, and the packet some microseconds;
//! polling costs the core. Under load work comes while the thread polls; where a packet
//! comes now and then the thread goes to sleep at once. On a core that it shares with its
//! host, the host has to run for work to come: so the thread yields.

use ferrule_base::Duration;
use std::time::Instant;

/// Looks in a row before time is asked for.
const LOOKS: u32 = 64;

/// Longest time of polling before a sleep.
pub(super) const LOOKS_FOR_MAX: Duration = Duration::from_micros(50);

/// And at least, where it does.
const LOOKS_FOR_MIN: Duration = Duration::from_micros(5);

/// Polling time, adapted to the gaps between pieces of work.
#[derive(Default)]
pub(super) struct Patience {
    /// Time of polling before the thread sleeps.
    looks_for: Duration,
    looks: u32,
    idle_since: Option<Instant>,
}

impl Patience {
    /// There was work.
    pub fn worked(&mut self) {
        (self.looks, self.idle_since) = (0, None);
    }

    /// There is none. True: look again; false: it is time to sleep.
    pub fn looks_again(&mut self) -> bool {
        if self.looks < LOOKS {
            self.looks += 1;
            std::hint::spin_loop();
            return true;
        }
        if self.looks_for.is_zero() {
            return false;
        }
        if self.idle_since.get_or_insert_with(Instant::now).elapsed() >= self.looks_for {
            return false;
        }
        std::thread::yield_now();
        true
    }

    /// Adapts the polling time after a sleep of this length.
    pub fn slept(&mut self, time: Duration) {
        self.worked();
        self.looks_for = if time < LOOKS_FOR_MAX {
            (self.looks_for * 2).clamp(LOOKS_FOR_MIN, LOOKS_FOR_MAX)
        } else if self.looks_for > LOOKS_FOR_MIN {
            self.looks_for / 2
        } else {
            Duration::ZERO
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_learns_how_long_it_pays_to_look_for_work() {
        let mut patience = Patience::default();
        let looks = |patience: &mut Patience| (0..).take_while(|_| patience.looks_again()).count();
        assert_eq!(looks(&mut patience), LOOKS as usize, "a thread that knows nothing sleeps soon");
        for _ in 0..9 {
            patience.slept(Duration::from_micros(10));
        }
        assert_eq!(patience.looks_for, LOOKS_FOR_MAX, "work comes fast: it has a bound");
        let begin = Instant::now();
        assert!(looks(&mut patience) > LOOKS as usize);
        assert!(begin.elapsed() >= LOOKS_FOR_MAX);
        for _ in 0..9 {
            patience.slept(Duration::from_millis(1));
        }
        assert_eq!(looks(&mut patience), LOOKS as usize, "work comes now and then");
    }
}
