//! SAs by index, as the stages hold them.
//!
//! ```text
//!   index ──▶ places ──▶ slab: │ SA │ SA, retired, lane not empty │ SA │ …
//!   ticket of a job ───────────▲
//! ```
//!
//! The configuration chooses the index; jobs name the place in the slab. So an
//! index can be given to a new SA while jobs of the old one are still under
//! way: they find the old one, which lives until the last of them is back.

use super::tickets::Lane;
use crate::ipsec::SelectorError;
use ferrule_base::Chunks;
use ferrule_crypto::key::InstallError;
use ferrule_pipeline::{NEAR_MAX, prefetch_at};
use std::ops::Range;

/// Indices of one stage: 0 to this, exclusively.
pub const SAS_MAX: u32 = 1 << 20;

const NONE: u32 = u32::MAX;

/// Octets of a cache line.
const LINE: usize = 64;

/// Names one SA for good: the index may be used again, the generation not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SaId {
    /// The index in tables.
    pub index: u32,
    /// Number of SAs that had the index before.
    pub generation: u32,
}

/// Reason that an SA is not installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaError {
    /// The engine does not take the key.
    #[error(transparent)]
    Key(#[from] InstallError),
    /// The index is in use: retire that SA first.
    #[error("the place {0} is in use by another SA")]
    Occupied(u32),
    /// There is no SA at the index.
    #[error("there is no SA at the place {0}")]
    Vacant(u32),
    /// The index is 2^20 or above.
    #[error("the place {0} is beyond {most}", most = SAS_MAX)]
    Index(u32),
    /// SPIs 0 to 255 are reserved (RFC 4303 section 2.1).
    #[error("the SPI {0} is reserved; use 256 or above")]
    Spi(u32),
    /// The salt has the wrong length: (needed, given).
    #[error("the salt has {1} octets, the suite needs {0}")]
    Salt(usize, usize),
    /// AH hides nothing, and this suite does.
    #[error("AH takes a suite of integrity alone, not {0}")]
    NoIntegrityAlone(ferrule_crypto::Suite),
    /// The outer addresses are of two families.
    #[error("the outer addresses must both be IPv4 or both IPv6")]
    Families,
    /// Numbers above 2^32 need extended sequence numbers.
    #[error("numbers above 2^32 need extended sequence numbers")]
    Numbers,
    /// The selector at this place is wrong.
    #[error("selector {0}: {1}")]
    Selector(usize, SelectorError),
}

/// Octets at the beginning of an SA in its place that its packets read and write; the rest
/// is for reports and rare cases.
pub(crate) const HOT: usize = 4 * LINE;

/// An SA in its place.
#[repr(C, align(64))]
pub(crate) struct Held<T> {
    state: State,
    pub id: SaId,
    pub sa: T,
    pub lane: Lane,
}

/// State of an SA in the table. (A word, so that an empty place in the slab is told by
/// this, and not by some field that packets do not read.)
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
enum State {
    Installed,
    Retired,
}

/// The SAs of one stage.
pub(crate) struct SaTable<T> {
    places: Vec<u32>,
    slab: Chunks<Option<Held<T>>>,
    free: Vec<u32>,
    generations: u32,
    /// Retired, and still here.
    lingering: usize,
}

impl<T> Default for SaTable<T> {
    fn default() -> Self {
        Self::of_generation(0)
    }
}

impl<T> SaTable<T> {
    /// An empty table whose first SA has this generation. (Stages that share one set of
    /// indices begin far apart, so that an [`SaId`] never means an SA of both.)
    pub const fn of_generation(generations: u32) -> Self {
        let slab = Chunks::new();
        Self { places: Vec::new(), slab, free: Vec::new(), generations, lingering: 0 }
    }

    /// Checks that an SA may be installed at `index`.
    pub fn check(&self, index: u32) -> Result<(), SaError> {
        match self.places.get(index as usize) {
            _ if index >= SAS_MAX => Err(SaError::Index(index)),
            Some(&slot) if slot != NONE => Err(SaError::Occupied(index)),
            _ => Ok(()),
        }
    }

    /// Installs an SA at an index that [`check`](Self::check) found free.
    pub fn insert(&mut self, index: u32, sa: T) -> SaId {
        let id = SaId { index, generation: self.generations };
        self.generations = self.generations.wrapping_add(1);
        let held = Some(Held { state: State::Installed, id, sa, lane: Lane::default() });
        let free = self.free.pop();
        let slot = free.unwrap_or(self.slab.len() as u32);
        match free.and_then(|slot| self.slab.get_mut(slot as usize)) {
            Some(place) => *place = held,
            None => self.slab.push(held),
        }
        if self.places.len() <= index as usize {
            self.places.resize(index as usize + 1, NONE);
        }
        self.places[index as usize] = slot;
        id
    }

    /// Takes the SA off its index and gives it to `last`. It goes at once, or
    /// with its last job.
    pub fn retire(&mut self, index: u32, last: impl FnOnce(&T)) -> bool {
        let Some(place) = self.places.get_mut(index as usize) else { return false };
        let slot = std::mem::replace(place, NONE);
        let Some(held) = self.slot(slot) else { return false };
        held.state = State::Retired;
        last(&held.sa);
        self.lingering += 1;
        self.reap(slot);
        true
    }

    /// Lets a retired SA go once its lane is empty.
    #[inline]
    pub fn reap(&mut self, slot: u32) {
        let done = |held: &mut Held<T>| held.state == State::Retired && held.lane.is_empty();
        if self.slot(slot).is_some_and(done)
            && let Some(place) = self.slab.get_mut(slot as usize)
        {
            *place = None;
            self.free.push(slot);
            self.lingering -= 1;
        }
    }

    /// The SA at an index, and its slot.
    #[inline]
    pub fn at(&mut self, index: u32) -> Option<(u32, &mut Held<T>)> {
        let slot = *self.places.get(index as usize)?;
        Some((slot, self.slab.get_mut(slot as usize)?.as_mut()?))
    }

    /// The slot of the SA at an index, for [`slot`](Self::slot); one that is none where there
    /// is no SA.
    #[inline(always)]
    pub fn place(&self, index: u32) -> u32 {
        self.places.get(index as usize).copied().unwrap_or(NONE)
    }

    /// True if there are so many SAs that they are prefetched.
    #[inline]
    pub const fn is_large(&self) -> bool {
        self.slab.len() > NEAR_MAX
    }

    /// Asks for the part of the SA at an index that packets read.
    #[inline(always)]
    pub fn prefetch(&self, index: u32) {
        let slot = self.places.get(index as usize).map_or(usize::MAX, |&slot| slot as usize);
        if let Some(held) = self.slab.get(slot) {
            (0..HOT.min(size_of::<Held<T>>())).step_by(LINE).for_each(|at| prefetch_at(held, at));
        }
    }

    /// The SA at an index, to look at.
    #[inline(always)]
    pub fn peek(&self, index: u32) -> Option<&T> {
        let slot = *self.places.get(index as usize)?;
        self.slab.get(slot as usize)?.as_ref().map(|held| &held.sa)
    }

    /// True if there is such a slot, with an SA or without.
    #[inline]
    pub const fn has_slot(&self, slot: u32) -> bool {
        (slot as usize) < self.slab.len()
    }

    /// The SA in a slot, retired or not.
    #[inline]
    pub fn slot(&mut self, slot: u32) -> Option<&mut Held<T>> {
        self.slab.get_mut(slot as usize)?.as_mut()
    }

    /// True if a retired SA waits for jobs.
    pub const fn is_lingering(&self) -> bool {
        self.lingering > 0
    }

    /// Every SA that is not retired.
    pub fn iter(&self) -> impl Iterator<Item = &Held<T>> {
        self.slab.iter().flatten().filter(|held| held.state == State::Installed)
    }

    /// SAs in some slots, without retired ones; nothing behind the last slot.
    pub fn some(&self, slots: Range<u32>) -> Option<impl Iterator<Item = &Held<T>>> {
        let held = slots.clone().filter_map(|slot| self.slab.get(slot as usize)?.as_ref());
        self.has_slot(slots.start).then(|| held.filter(|held| held.state == State::Installed))
    }

    /// SAs held, the retired ones that wait for jobs included.
    pub fn len(&self) -> usize {
        self.slab.len() - self.free.len()
    }
}
