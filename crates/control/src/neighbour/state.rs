//! The neighbours and their states (RFC 4861 section 7.3.2, for ARP too).
//!
//! ```text
//!               answer              30 s           5 s
//!  Incomplete ─────────▶ Reachable ─────▶ Stale ─────▶ Probe
//!      │                     ▲  ◀───────────────────────┤ answer
//!      ▼ 3 s                 └ request from it: Stale   ▼ 3 s
//!   forgotten                                        forgotten
//! ```
//!
//! A neighbour that the data path refuses is `Refused` for a while, in which nothing is learned
//! of it. The data path does not tell which neighbours it uses, so a stale one is always asked.
//! A neighbour that a configuration names is not forgotten but `Failed`, and asked again.

use super::config::{AGAIN, ENTRIES_MAX, HEARD_MAX, REACHABLE, RETRY, STALE};
use super::timer::Timer;
use ferrule_base::{Instant, MacAddr};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// A neighbour: interface and address.
pub type Key = (u16, IpAddr);

/// State of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Asked this many times, nothing known.
    Incomplete(u8),
    /// The neighbour answered.
    Reachable(MacAddr),
    /// The neighbour was heard of, or answered long ago.
    Stale(MacAddr),
    /// Known, and asked this many times whether it is still there.
    Probe(MacAddr, u8),
    /// The neighbour did not answer; it will be asked again.
    Failed,
    /// The data path did not take it.
    Refused,
}

impl State {
    /// The link address that the data path uses.
    pub const fn mac(self) -> Option<MacAddr> {
        match self {
            Self::Reachable(mac) | Self::Stale(mac) | Self::Probe(mac, _) => Some(mac),
            Self::Incomplete(_) | Self::Failed | Self::Refused => None,
        }
    }

    /// Time at which this state ends by itself, and the timer for it.
    fn timer(self, now: Instant, key: Key) -> (Instant, Timer) {
        match self {
            Self::Incomplete(_) | Self::Probe(..) => (now + RETRY, Timer::Answer(key)),
            Self::Reachable(_) => (now + REACHABLE, Timer::Reachable(key)),
            Self::Stale(_) => (now + STALE, Timer::Stale(key)),
            Self::Failed | Self::Refused => (now + AGAIN, Timer::Again(key)),
        }
    }
}

#[derive(Debug)]
struct Entry {
    state: State,
    /// A configuration names it.
    kept: bool,
    /// The node asked for it, for packets or by configuration; else it was only heard of.
    sought: bool,
    timer: (Instant, Timer),
}

/// Every neighbour, and every timer of the core.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: BTreeMap<Key, Entry>,
    timers: BTreeSet<(Instant, Timer)>,
    incomplete: usize,
    /// Neighbours that were only heard of.
    heard: usize,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Neighbours that no configuration names, asked for in vain so far.
    pub(super) const fn incomplete(&self) -> usize {
        self.incomplete
    }

    pub(super) fn state(&self, key: Key) -> Option<State> {
        self.entries.get(&key).map(|e| e.state)
    }

    pub(super) fn is_kept(&self, key: Key) -> bool {
        self.entries.get(&key).is_some_and(|e| e.kept)
    }

    /// Neighbours of an interface.
    pub(super) fn keys(&self, iface: u16) -> Vec<Key> {
        let all = self.entries.keys().filter(|key| key.0 == iface);
        all.copied().collect()
    }

    /// Sets a neighbour's state, which begins now.
    pub(super) fn put(&mut self, now: Instant, key: Key, state: State, kept: bool) {
        let old = self.entries.get(&key);
        let sought = old.is_some_and(|old| old.sought) || kept || state.mac().is_none();
        // A neighbour that moves again and again is asked in time for all that.
        let both_stale =
            |old: &&Entry| matches!((old.state, state), (State::Stale(_), State::Stale(_)));
        let timer = old.filter(both_stale).map_or(state.timer(now, key), |old| old.timer);
        self.remove(key);
        self.timers.insert(timer);
        let entry = Entry { state, kept, sought, timer };
        self.incomplete += usize::from(entry.counts());
        self.heard += usize::from(!sought);
        self.entries.insert(key, entry);
    }

    /// Changes whether a configuration names a neighbour that is there.
    pub(super) fn keep(&mut self, key: Key, kept: bool) {
        if let Some(entry) = self.entries.get_mut(&key) {
            self.incomplete -= usize::from(entry.counts());
            entry.kept = kept;
            self.incomplete += usize::from(entry.counts());
            self.heard -= usize::from(kept && !entry.sought);
            entry.sought |= kept;
        }
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<State> {
        let entry = self.entries.remove(&key)?;
        self.incomplete -= usize::from(entry.counts());
        self.heard -= usize::from(!entry.sought);
        self.timers.remove(&entry.timer);
        Some(entry.state)
    }

    /// True if there is room for a neighbour that is heard of.
    pub(super) fn has_room_for_heard(&self) -> bool {
        self.heard < HEARD_MAX && self.len() < ENTRIES_MAX
    }

    /// A neighbour that may give up its place for one that is needed: one that was only heard of,
    /// or not known to be there, or of no use, and named by no configuration.
    pub(super) fn dispensable(&self) -> Option<Key> {
        let is_spare = |e: &Entry| {
            !e.kept && matches!(e.state, State::Stale(_) | State::Probe(..) | State::Refused)
        };
        let all = || self.entries.iter();
        let spare = all().find(|(_, e)| !e.sought && is_spare(e));
        let heard = || all().find(|(_, e)| !e.sought);
        spare.or_else(heard).or_else(|| all().find(|(_, e)| is_spare(e))).map(|(&key, _)| key)
    }

    /// Sets a timer that belongs to no neighbour.
    pub(super) fn wake(&mut self, at: Instant, timer: Timer) {
        self.timers.insert((at, timer));
    }

    /// Takes such timers away.
    pub(super) fn forget(&mut self, unwanted: impl Fn(Timer) -> bool) {
        self.timers.retain(|&(_, timer)| !unwanted(timer));
    }

    /// The next timer.
    pub(super) fn next(&self) -> Option<(Instant, Timer)> {
        self.timers.first().copied()
    }

    /// The next timer that is due, taken out.
    pub(super) fn due(&mut self, now: Instant) -> Option<Timer> {
        let first = self.timers.first().filter(|first| first.0 <= now).copied()?;
        self.timers.remove(&first);
        Some(first.1)
    }
}

impl Entry {
    /// True if the entry counts against the bound on neighbours that do not answer.
    const fn counts(&self) -> bool {
        !self.kept && matches!(self.state, State::Incomplete(_))
    }
}
