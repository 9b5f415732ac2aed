//! How a thread waits for work: it looks, then it looks and yields, then it sleeps.
//!
//! ```text
//!   work ─▶ LOOKS looks ─▶ looks, yielding in between, for as long as that pays ─▶ sleep
//!                                                                                  │
//!              a short sleep: would have paid, twice as long │ a long one: half ◀──┘
//! ```
//!
//! To be woken costs the host a system call, and the packet some microseconds; to
//! look costs the core. Under load work comes while the thread looks; where a packet
//! comes now and then it goes to sleep at once. And on a core that it shares with
//! its host, it is the host that has to run for work to come: so it yields.

use ferrule_base::Duration;
use std::time::Instant;

/// Looks in a row before time is asked for.
const LOOKS: u32 = 64;

/// How long it looks at most.
pub(super) const LOOKS_FOR_MAX: Duration = Duration::from_micros(50);

/// And at least, where it does.
const LOOKS_FOR_MIN: Duration = Duration::from_micros(5);

/// What a thread has learned about its work.
#[derive(Default)]
pub(super) struct Patience {
    /// How long it looks before it sleeps.
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

    /// It slept for so long.
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
