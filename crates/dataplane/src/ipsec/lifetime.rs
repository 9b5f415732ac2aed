//! How long an SA lives (RFC 4301 section 4.4.2.1): at a soft bound people are told, at a hard
//! one it ends. Bounds are packets, octets and time.
//!
//! ```text
//!   account of the key: packets, octets ◀── what is not used comes back ──┐
//!      │ a grant: some packets, never beyond the next bound               │
//!      ▼                                                                  │
//!   meter of the SA in one worker: counts down with each packet; at 0 it asks for another
//! ```
//!
//! A packet of an SA whose life has bounds costs a call with two comparisons and two additions, of
//! any other SA a look at a flag. Several workers that
//! have one SA take grants from one account, so its life is not longer than with one: what
//! another has taken and not used is at most [`GRANT_MAX`] packets, and an eighth of what was
//! left. No packet is beyond a bound of packets; one of octets is passed by less than the last
//! packet of each worker. Time is the control part's business, which [ends](Meter::end) an SA.
//!
//! Octets are those to which the SA's algorithm is applied, as the RFC says: of ESP what is
//! encrypted (NULL encryption, too), with padding; of AH what its ICV covers. Inbound, authentic
//! packets count that the window lets in, and no other, so a forger shortens no life.
//!
//! An account begins with the numbers that its key has used before, each with a packet of the
//! longest kind: after a crash nothing else is known of it, and no life begins anew.

use super::SaStats;
use crate::protection::table::SaId;
use ferrule_base::{Duration, Instant};
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Packets that a meter is granted at a time, at most.
pub const GRANT_MAX: u64 = 256;

/// Octets that an algorithm is applied to beside a packet's own, at most, where no padding hides
/// its length: of AH an outer IPv6 header and its own.
const AROUND: u64 = 100;

/// Octets that a packet has at most.
const LONGEST: u64 = 1 << 16;

/// Where a life ends; what is left out has no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// Packets.
    pub packets: Option<u64>,
    /// Octets under the SA's algorithm.
    pub octets: Option<u64>,
    /// Since the key was first installed in this process.
    pub time: Option<Duration>,
}

impl fmt::Display for Lifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.time.map(|time| time.as_secs());
        let all = [(self.packets, "packets"), (self.octets, "octets"), (time, "seconds")];
        let all = all.into_iter().filter_map(|(bound, of)| Some(format!("{} {of}", bound?)));
        match all.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => f.write_str("without end"),
            some => f.write_str(&some),
        }
    }
}

/// Both bounds of an SA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    /// Bounds at which a successor should be made, while the SA goes on.
    pub soft: Lifetime,
    /// Bounds at which the SA ends.
    pub hard: Lifetime,
}

impl Lifetimes {
    /// True if each soft bound comes before the hard one of its kind, so that there is time for a
    /// successor.
    pub fn is_in_order(&self) -> bool {
        let before = |soft: Option<u64>, hard: Option<u64>| {
            soft.zip(hard).is_none_or(|(soft, hard)| soft < hard)
        };
        let Self { soft, hard } = self;
        before(soft.packets, hard.packets)
            && before(soft.octets, hard.octets)
            && soft.time.zip(hard.time).is_none_or(|(soft, hard)| soft < hard)
    }

    /// False for a life without end.
    pub fn has_bounds(&self) -> bool {
        *self != Self::default()
    }
}

/// Kind of the bound that an SA reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expiry {
    /// A successor should be made; the SA goes on.
    Soft,
    /// The SA ended.
    Hard,
}

/// A bound of an SA's life that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// SA identity.
    pub id: SaId,
    /// Soft or hard.
    pub expiry: Expiry,
    /// Quantity that reached the bound.
    pub cause: LifeCause,
}

/// Quantity that a lifetime bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LifeCause {
    /// Packets.
    Packets,
    /// Octets.
    Octets,
    /// Time.
    Time,
}

impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Soft { "soft" } else { "hard" })
    }
}

impl fmt::Display for LifeCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Packets => "packets",
            Self::Octets => "octets",
            Self::Time => "time",
        })
    }
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Totals {
    packets: AtomicU64,
    octets: AtomicU64,
    /// A bit for each [`Expiry`].
    told: AtomicU8,
    has_begun: AtomicBool,
    since: OnceLock<Instant>,
    /// Octets of each packet of which no more is known.
    longest: u64,
}

/// Use of one key, shared by all SAs that have it: packets and octets that went, and those that
/// workers were granted and may still use.
#[derive(Clone, Debug, Default)]
pub struct Account(Arc<Totals>);

impl Account {
    /// Of a key whose packets are so long at most.
    pub fn new(longest: u64) -> Self {
        Self(Arc::new(Totals { longest, ..Totals::default() }))
    }

    /// Packets and octets.
    pub fn used(&self) -> (u64, u64) {
        let Totals { packets, octets, .. } = &*self.0;
        (packets.load(Ordering::Relaxed), octets.load(Ordering::Relaxed))
    }

    /// Time runs, from now on unless it does already. Returns since when.
    pub fn start(&self, now: Instant) -> Instant {
        *self.0.since.get_or_init(|| now)
    }

    /// Since when time runs.
    pub fn since(&self) -> Option<Instant> {
        self.0.since.get().copied()
    }

    /// True for whoever is the first to tell of it.
    pub fn tell(&self, expiry: Expiry) -> bool {
        let bit = 1 << expiry as u8;
        self.0.told.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Bounds changed, and this one is reached: those beyond it are told of when they are.
    pub fn keep_told(&self, reached: Option<Expiry>) {
        let stay = reached.map_or(0, |reached| (2 << reached as u8) - 1);
        self.0.told.fetch_and(stay, Ordering::Relaxed);
    }

    /// Adds the use from before this account: `numbers` sequence numbers of the key (those beyond
    /// `packets` count with the longest length), and a meter's `packets` and `octets` since.
    fn begin(&self, numbers: u64, packets: u64, octets: u64) {
        if !self.0.has_begun.swap(true, Ordering::Relaxed) {
            let unknown = numbers.saturating_sub(packets);
            let octets = octets.saturating_add(unknown.saturating_mul(self.0.longest));
            self.0.packets.fetch_add(packets + unknown, Ordering::Relaxed);
            self.0.octets.fetch_add(octets, Ordering::Relaxed);
        } else if packets > 0 {
            // An SA lived without bounds for a while.
            self.0.packets.fetch_max(numbers, Ordering::Relaxed);
            self.0.octets.fetch_add(octets, Ordering::Relaxed);
        }
    }
}

/// The bounds of an SA, and the account on which it lives.
#[derive(Clone, Debug, Default)]
pub struct Allowance {
    /// Bounds.
    pub lifetimes: Lifetimes,
    /// Account.
    pub account: Account,
}

impl Allowance {
    /// The bound of packets or octets that is reached, the hard one first.
    pub fn reached(&self) -> Option<(Expiry, LifeCause)> {
        let (packets, octets) = self.account.used();
        let Lifetimes { soft, hard } = self.lifetimes;
        [(Expiry::Hard, hard), (Expiry::Soft, soft)].into_iter().find_map(|(expiry, of)| {
            if of.packets.is_some_and(|bound| packets >= bound) {
                return Some((expiry, LifeCause::Packets));
            }
            of.octets.is_some_and(|bound| octets >= bound).then_some((expiry, LifeCause::Octets))
        })
    }

    /// Takes some packets, and octets for them: none beyond the next bound.
    fn take(&self) -> Option<(u64, u64)> {
        let Totals { packets, octets, .. } = &*self.account.0;
        let (soft, hard) = (self.lifetimes.soft, self.lifetimes.hard);
        let order = Ordering::Relaxed;
        let (mut count, mut room) = (GRANT_MAX, 0);
        if soft.octets.or(hard.octets).is_some() {
            let take = |used| {
                let left = left(used, soft.octets, hard.octets)?;
                count = (left / 8 / LONGEST).clamp(1, GRANT_MAX);
                room = (count * LONGEST).min(left);
                Some(used + room)
            };
            octets.fetch_update(order, order, take).ok()?;
        }
        let take = |used| {
            let left = left(used, soft.packets, hard.packets)?;
            count = count.min((left / 8).max(1));
            Some(used.saturating_add(count))
        };
        if packets.fetch_update(order, order, take).is_err() {
            octets.fetch_sub(room, order);
            return None;
        }
        Some((count, room))
    }
}

/// How much is left to the next bound; nothing: the hard one is reached.
fn left(used: u64, soft: Option<u64>, hard: Option<u64>) -> Option<u64> {
    let hard = hard.unwrap_or(u64::MAX);
    let next = soft.filter(|&soft| used < soft).map_or(hard, |soft| soft.min(hard));
    next.checked_sub(used).filter(|&left| left > 0)
}

/// Grant of packets and octets to one meter, from the account of its key.
#[derive(Debug)]
struct Granted {
    by: Allowance,
    /// Octets that the meter showed when it was granted, and octets that were taken for it.
    from: u64,
    room: u64,
    has_ended: bool,
}

/// Counts what an SA in one worker has used of its life.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Meter {
    /// Packets until another grant is asked for.
    left: u64,
    /// Octets so far.
    octets: u64,
    grant: Option<Box<Granted>>,
    /// Packets and octets of the SA's counters when it began to live without bounds.
    unbounded_from: (u64, u64),
}

impl Meter {
    /// Of an SA whose key has used so many numbers before.
    pub fn new(by: Option<&Allowance>, numbers: u64) -> Self {
        let mut meter = Self { left: u64::MAX, octets: 0, grant: None, unbounded_from: (0, 0) };
        meter.set(by, numbers, &SaStats::default());
        meter
    }

    /// True if a packet may still be protected. What there is to tell goes to `news`.
    #[inline(always)]
    pub fn goes_on(&mut self, id: SaId, news: &mut VecDeque<Expired>) -> bool {
        self.left > 0 || self.renew(id, news)
    }

    /// Counts a packet with so many octets, for which it [went on](Self::goes_on).
    #[inline(always)]
    pub fn count(&mut self, octets: u64, id: SaId, news: &mut VecDeque<Expired>) {
        self.left -= 1;
        self.octets += octets;
        if self.left == 0 {
            self.renew(id, news);
        }
    }

    /// Sets bounds, or none. `numbers` are those that the key has used. Packets sealed or opened
    /// while there were no bounds are taken from the SA's counters, with [`AROUND`] octets each.
    pub fn set(&mut self, by: Option<&Allowance>, numbers: u64, stats: &SaStats) {
        let seen = (stats.packets, stats.octets + stats.packets * AROUND);
        let (was_unbounded, from) = (self.grant.is_none(), self.unbounded_from);
        self.give_back();
        let Some(by) = by else {
            (self.left, self.octets, self.grant) = (u64::MAX, 0, None);
            self.unbounded_from = if was_unbounded { from } else { seen };
            return;
        };
        let counted = if was_unbounded {
            (seen.0.saturating_sub(from.0), seen.1.saturating_sub(from.1))
        } else {
            (0, 0)
        };
        by.account.begin(numbers, counted.0, counted.1);
        let grant = Granted { by: by.clone(), from: self.octets, room: 0, has_ended: false };
        (self.left, self.grant) = (0, Some(Box::new(grant)));
    }

    /// Its time is over.
    pub fn end(&mut self) {
        self.give_back();
        if let Some(grant) = &mut self.grant {
            (self.left, grant.has_ended) = (0, true);
        }
    }

    /// Returns the unused part of the grant to the account, for the key's other SAs.
    fn give_back(&mut self) {
        let Some(grant) = &mut self.grant else { return };
        let used = self.octets - grant.from;
        let Totals { packets, octets, .. } = &*grant.by.account.0;
        packets.fetch_sub(self.left, Ordering::Relaxed);
        match used.checked_sub(grant.room) {
            Some(more) => octets.fetch_add(more, Ordering::Relaxed),
            None => octets.fetch_sub(grant.room - used, Ordering::Relaxed),
        };
        (self.left, grant.from, grant.room) = (0, self.octets, 0);
    }

    /// Asks for another grant: false if the life is over.
    #[cold]
    fn renew(&mut self, id: SaId, news: &mut VecDeque<Expired>) -> bool {
        self.give_back();
        let Some(grant) = &mut self.grant else {
            self.left = u64::MAX;
            return true;
        };
        if grant.has_ended {
            return false;
        }
        if let Some((expiry, cause)) = grant.by.reached()
            && grant.by.account.tell(expiry)
        {
            news.push_back(Expired { id, expiry, cause });
        }
        if let Some((count, room)) = grant.by.take() {
            (self.left, grant.room) = (count, room);
        }
        self.left > 0
    }

    /// For reports: nothing of an SA that has no bounds.
    pub fn view(&self) -> Option<LifeView> {
        let grant = self.grant.as_deref()?;
        let Allowance { lifetimes, account } = &grant.by;
        let (packets, octets) = account.used();
        let kept = grant.room.saturating_sub(self.octets - grant.from);
        let over = (self.octets - grant.from).saturating_sub(grant.room);
        let hard = matches!(grant.by.reached(), Some((Expiry::Hard, _)));
        Some(LifeView {
            lifetimes: *lifetimes,
            packets: packets.saturating_sub(self.left),
            octets: (octets + over).saturating_sub(kept),
            since: account.since(),
            is_over: grant.has_ended || self.left == 0 && hard,
        })
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// The life of an SA, as reports show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifeView {
    /// Its bounds.
    pub lifetimes: Lifetimes,
    /// Packets used, by all workers that have it.
    pub packets: u64,
    /// Octets used.
    pub octets: u64,
    /// Since when time runs.
    pub since: Option<Instant>,
    /// True once the SA protects no more packets.
    pub is_over: bool,
}
