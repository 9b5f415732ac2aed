//! Instances of SAs whose keys a keying program gives: numbers that make their nonces different
//! from those of every other such SA of this host, whatever key it has, also after `kill -9`.
//!
//! ```text
//!   IV of a packet │ 1 │ instance │ sequence number │     1, 27 and 36 bits
//! ```
//!
//! A program may give a key a second time, by mistake or because it was started again; sequence
//! numbers then begin at 1 again. So the host hands out instances in blocks, each to one node and
//! once. The first bit tells such IVs from those of static keys, which are plain numbers.

use crate::counter::StoreError;
use crate::leases::Leases;
use std::ops::Range;

/// Source of instances: a block in use, and the one behind it.
#[derive(Default)]
pub(crate) struct Instances {
    block: Range<u64>,
    then: Range<u64>,
    is_asked: bool,
}

impl Instances {
    /// Begins with a block.
    pub const fn new(block: Range<u64>) -> Self {
        Self { block, then: 0..0, is_asked: false }
    }

    /// The next instance, if there is one. Another block is asked for in time.
    pub fn next(&mut self, leases: &mut Leases) -> Option<u64> {
        if self.block.is_empty() {
            self.block = std::mem::take(&mut self.then);
        }
        let instance = self.block.next();
        if self.then.is_empty() && !self.is_asked {
            self.is_asked = true;
            if let Some(block) = leases.begin_instances() {
                self.heard(block);
            }
        }
        instance
    }

    /// Another block, or none: then the next SA asks again.
    pub fn heard(&mut self, block: Result<Range<u64>, StoreError>) {
        self.is_asked = false;
        self.then = block.unwrap_or_default();
    }
}
