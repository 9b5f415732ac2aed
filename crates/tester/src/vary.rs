//! Fields that change from frame to frame: by a step, or at random from a seed.

use crate::layers::{Field, Layers, Place};
use ferrule_base::Rng;

/// Change of a field from frame to frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// From what the layers say, up by `step`, `count` values, and again.
    Increment {
        /// Added from frame to frame.
        step: u64,
        /// Number of values.
        count: u64,
    },
    /// One of `count` values from what the layers say upwards, at random.
    Random {
        /// Number of values.
        count: u64,
        /// The same seed gives the same values.
        seed: u64,
    },
}

/// A field that varies, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vary {
    /// The field.
    pub field: Field,
    /// Its change from frame to frame.
    pub change: Change,
}

impl Vary {
    /// `count` values, one after the other.
    pub const fn increment(field: Field, count: u64) -> Self {
        Self { field, change: Change::Increment { step: 1, count } }
    }

    /// Values that it takes at most.
    pub const fn count(&self) -> u64 {
        match self.change {
            Change::Increment { count, .. } | Change::Random { count, .. } => count,
        }
    }
}

/// A field of a template as it varies.
#[derive(Clone, Debug)]
pub(crate) struct Varier {
    place: Place,
    change: Change,
    index: u64,
    rng: Rng,
}

impl Varier {
    /// Nothing if the layers do not have the field, or it takes no value.
    pub fn new(vary: &Vary, layers: &Layers) -> Option<Self> {
        let seed = match vary.change {
            Change::Random { seed, .. } => seed,
            Change::Increment { .. } => 0,
        };
        let place = layers.place(vary.field)?;
        (vary.count() > 0).then(|| Self {
            place,
            change: vary.change,
            index: 0,
            rng: Rng::new(seed),
        })
    }

    /// From the first value again.
    pub fn restart(&mut self) {
        self.index = 0;
        if let Change::Random { seed, .. } = self.change {
            self.rng = Rng::new(seed);
        }
    }

    /// Gives the field of a fresh copy of the template its next value.
    #[inline]
    pub fn apply(&mut self, frame: &mut [u8]) {
        let add = match self.change {
            Change::Increment { step, count } => {
                let add = self.index.wrapping_mul(step);
                self.index = if self.index + 1 >= count { 0 } else { self.index + 1 };
                add
            }
            Change::Random { count, .. } => self.rng.below(count),
        };
        let Place { at, octets, bits, shift } = self.place;
        let Some(field) = frame.get_mut(at..at + octets) else { return };
        let mut word = [0; 8];
        word[8 - octets..].copy_from_slice(field);
        let old = u64::from_be_bytes(word);
        let mask = if bits == 64 { u64::MAX } else { ((1 << bits) - 1) << shift };
        let new = old & !mask | old.wrapping_add(add << shift) & mask;
        field.copy_from_slice(&new.to_be_bytes()[8 - octets..]);
    }
}
