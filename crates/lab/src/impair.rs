//! Effects of a link on frames, apart from carrying them.
//!
//! Each kind has dice of its own for each direction: taking one impairment away
//! leaves the others where they were, which is what makes a finding shrink.

use crate::random::{happens, stream};
use ferrule_base::{Duration, Rng};

/// Distance by which a frame is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldBack {
    /// Until so many later frames of the same direction have passed it.
    Frames(u32),
    /// For this long.
    Time(Duration),
}

/// Impairments of one direction. Shares are between 0 and 1; a rule `every` N
/// hits each Nth frame exactly, and 0 turns it off.
#[derive(Clone, Debug, PartialEq)]
pub struct Impairments {
    /// Share of frames that are lost.
    pub loss: f64,
    /// Each Nth frame is lost.
    pub loss_every: u64,
    /// Share of frames that arrive twice.
    pub duplicate: f64,
    /// Each Nth frame arrives twice.
    pub duplicate_every: u64,
    /// Share of frames of which one bit is turned over. They arrive, as if the
    /// damage had been done behind the frame check sequence.
    pub corrupt: f64,
    /// Each Nth frame is corrupted.
    pub corrupt_every: u64,
    /// Share of frames that are held back.
    pub reorder: f64,
    /// Each Nth frame is held back.
    pub reorder_every: u64,
    /// Distance by which frames are held back.
    pub reorder_by: HoldBack,
    /// Added to the delay: drawn evenly between nothing and this, for each frame;
    /// the order stays.
    pub jitter: Duration,
}

impl Default for Impairments {
    fn default() -> Self {
        Self {
            loss: 0.0,
            loss_every: 0,
            duplicate: 0.0,
            duplicate_every: 0,
            corrupt: 0.0,
            corrupt_every: 0,
            reorder: 0.0,
            reorder_every: 0,
            reorder_by: HoldBack::Frames(3),
            jitter: Duration::ZERO,
        }
    }
}

impl Impairments {
    /// True if frames pass unchanged.
    pub fn is_none(&self) -> bool {
        let rules = [self.loss_every, self.duplicate_every, self.corrupt_every, self.reorder_every];
        let shares = [self.loss, self.duplicate, self.corrupt, self.reorder];
        rules == [0; 4] && shares.iter().all(|&s| s <= 0.0) && self.jitter.is_zero()
    }
}

/// The dice of one direction.
pub(crate) struct Dice {
    loss: Rng,
    duplicate: Rng,
    corrupt: Rng,
    reorder: Rng,
    jitter: Rng,
}

/// Effects on one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    pub lost: bool,
    pub twice: bool,
    /// A number from which the bit is drawn.
    pub corrupt: Option<u64>,
    pub held_back: bool,
    pub jitter_nanos: u64,
}

impl Dice {
    pub fn new(seed: u64, lane: &str) -> Self {
        let of = |purpose| stream(seed, lane, purpose);
        Self {
            loss: of("loss"),
            duplicate: of("duplicate"),
            corrupt: of("corrupt"),
            reorder: of("reorder"),
            jitter: of("jitter"),
        }
    }

    /// The fate of frame `number` (the first is 1).
    pub fn roll(&mut self, rules: &Impairments, number: u64) -> Fate {
        let nth = |every: u64| every > 0 && number.is_multiple_of(every);
        let corrupt = happens(&mut self.corrupt, rules.corrupt) | nth(rules.corrupt_every);
        let jitter = u64::try_from(rules.jitter.as_nanos()).unwrap_or(u64::MAX);
        Fate {
            lost: happens(&mut self.loss, rules.loss) | nth(rules.loss_every),
            twice: happens(&mut self.duplicate, rules.duplicate) | nth(rules.duplicate_every),
            corrupt: corrupt.then(|| self.corrupt.next_u64()),
            held_back: happens(&mut self.reorder, rules.reorder) | nth(rules.reorder_every),
            jitter_nanos: if jitter == 0 { 0 } else { self.jitter.below(jitter.saturating_add(1)) },
        }
    }
}
