//! Actions of outbound SAs that no packet causes: keepalives of ESP in UDP (RFC 3948
//! section 4), dummy packets (RFC 4303 section 2.6).
//!
//! ```text
//!   due: earliest first ─▶ SA ─▶ keepalive: silent for so long? one octet, 0xff
//!                             └▶ dummy: next header 59, of a random length
//! ```
//!
//! Nothing here is asked per packet: an SA notes when it sealed something last, and
//! that is looked at when its keepalive is due.

use super::config::OutboundConfig;
use crate::protection::table::SaId;
use ferrule_base::{Duration, Instant, Rng};
use ferrule_crypto::KeySpec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Timers served at one time at most: no more than jobs fit a batch.
pub(super) const TIMERS_MAX: usize = 32;

/// A dummy that is later than this is not made up for.
const LATE_MAX: Duration = Duration::from_millis(100);

/// Action of an outbound SA that is due at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Keepalive,
    Dummy,
    /// Forget a path's MTU.
    Age,
}

/// One entry: when, which SA, what, how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    pub at: Instant,
    index: u32,
    generation: u32,
    pub timer: Timer,
    pub every: Duration,
}

impl Due {
    pub const fn id(&self) -> SaId {
        SaId { index: self.index, generation: self.generation }
    }
}

/// All that is due.
#[derive(Default)]
pub(super) struct Clock {
    due: BinaryHeap<Reverse<Due>>,
    rng: Option<Rng>,
}

impl Clock {
    /// Notes what a new SA wants. It begins with the first look at the clock.
    pub fn add(&mut self, id: SaId, config: &OutboundConfig) {
        let SaId { index, generation } = id;
        let mut add = |timer, every| {
            self.due.push(Reverse(Due { at: Instant::ZERO, index, generation, timer, every }));
        };
        if let Some(every) = config.encap.and_then(|encap| encap.keepalive) {
            add(Timer::Keepalive, every);
        }
        if config.dummies != 0 {
            add(Timer::Dummy, Duration::from_secs(1) / config.dummies);
            // Whoever does not know the key does not know which packets are dummies.
            let KeySpec { key, mac_key, .. } = &config.keys;
            let key = if key.is_empty() { mac_key } else { key };
            let print = ferrule_crypto::fingerprint(key, b"dummies");
            let seed = print.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
            let mixed = self.rng.as_mut().map_or(0, Rng::next_u64);
            self.rng = Some(Rng::new(seed ^ mixed));
        }
    }

    /// Notes a timer that goes off once.
    pub fn once(&mut self, id: SaId, at: Instant, timer: Timer) {
        let SaId { index, generation } = id;
        self.due.push(Reverse(Due { at, index, generation, timer, every: Duration::ZERO }));
    }

    /// When something is due next.
    pub fn next(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse(due)| due.at)
    }

    /// Takes what is due.
    pub fn take(&mut self, now: Instant) -> Option<Due> {
        if self.next()? > now {
            return None;
        }
        self.due.pop().map(|Reverse(due)| due)
    }

    /// Puts an entry back, for later than `after`.
    pub fn again(&mut self, mut due: Due, after: Instant, now: Instant) {
        due.at = after + due.every;
        if due.at + LATE_MAX < now {
            due.at = now + due.every;
        }
        self.due.push(Reverse(due));
    }

    /// A number below `bound`, for lengths; octets for what nobody reads.
    pub fn rng(&mut self) -> &mut Rng {
        self.rng.get_or_insert_with(|| Rng::new(0))
    }
}
