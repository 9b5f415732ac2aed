//! Access lists: traffic that may come in and leave by a routed interface.
//!
//! ```text
//!   attach ─▶ list in ─▶ IP, in its VRF ─▶ list out ─▶ clamp, policy ─▶ output: labels
//!                         ▲
//!        MPLS: label off ─┘
//! ```
//!
//! A list is ordered. The first entry that matches a packet permits or denies it; a packet
//! that no entry matches is denied. Inbound, a list sees IP packets as they come: those for
//! the node itself, too, and sealed ones as they are. Outbound it sees them as they leave
//! the routing table: before labels are put on, after they were taken off, before anything
//! is sealed. Packets that the node makes itself, ARP and neighbour discovery are not
//! checked.
//!
//! Fragments: a later one shows neither ports nor TCP flags nor an ICMP type, and no entry
//! that asks for one of them has it; there is an entry for later fragments
//! ([`Match::fragments`]).
//!
//! At the attachment circuit of a pseudowire a list sees whole frames, as they come from the
//! circuit and as they leave to it: MAC addresses, EtherType and VLAN, and the IP packet in
//! them ([`frame`]).
//!
//! The files: `rule` an entry, compiled; `compiled` all of one shape, and `edit` the changes
//! since; `key` the fields of a packet; `stage` the stages.

mod compiled;
mod edit;
pub mod frame;
mod key;
mod rule;
mod stage;

use crate::classify::Search;
use crate::classify::hits::UNCOUNTED;
use crate::classify::selector::{Selector, SelectorError};
use arrayvec::ArrayVec;
use compiled::Compiled;
use ferrule_base::DropReason;
use ferrule_pipeline::{AHEAD, BATCH, Packet};
use frame::{FrameEntry, FrameKey, FrameRule};
use key::Key;
use rule::EntryRule;
use std::sync::Arc;

pub use edit::{EDITS_MAX, Edit};
pub use stage::{AclIn, AclOut, FrameAclIn, FrameAclOut};

/// Entries of a list at most, lists of addresses and ports multiplied out.
pub const ENTRIES_MAX: usize = 1 << 20;

/// Condition on the flags of a TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TcpFlags {
    /// Flags that have to be set.
    pub set: u8,
    /// Flags that have to be clear.
    pub clear: u8,
}

/// Traffic that an entry is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Match {
    /// Addresses, protocol, ports and message; local is the source.
    pub selector: Selector,
    /// The differentiated services code point (RFC 2474).
    pub dscp: Option<u8>,
    /// TCP flags.
    pub tcp: Option<TcpFlags>,
    /// The entry matches later fragments alone.
    pub fragments: bool,
}

impl Match {
    /// True if every packet that `other` matches is matched here, too.
    pub fn covers(&self, other: &Self) -> bool {
        let has = |part: u8, all: u8| part & all == part;
        let tcp = match (self.tcp, other.tcp) {
            (None, _) => true,
            (Some(own), Some(other)) => has(own.set, other.set) && has(own.clear, other.clear),
            (Some(_), None) => false,
        };
        self.selector.covers(&other.selector)
            && (self.dscp.is_none() || self.dscp == other.dscp)
            && tcp
            && (!self.fragments || other.fragments)
    }
}

/// Action of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The packet passes.
    Permit,
    /// The packet is dropped.
    Deny,
}

/// An entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclEntry {
    /// Traffic that the entry is about.
    pub matches: Match,
    /// Action on it.
    pub verdict: Verdict,
    /// Its packets are logged.
    pub logs: bool,
    /// Index of the entry's counter among the worker's.
    pub counter: u32,
}

/// A verdict and the counter of the entry that gave it, in one word: the counter below, then
/// [`PERMITS`](Self::PERMITS) and [`LOGS`](Self::LOGS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclOutcome(u64);

impl AclOutcome {
    const COUNTER: u64 = u32::MAX as u64;
    const PERMITS: u64 = 1 << 32;
    const LOGS: u64 = 1 << 33;

    const fn new(verdict: Verdict, counter: u32) -> Self {
        match verdict {
            Verdict::Permit => Self(Self::PERMITS | counter as u64),
            Verdict::Deny => Self(counter as u64),
        }
    }

    const fn logging(self, logs: bool) -> Self {
        if logs { Self(self.0 | Self::LOGS) } else { self }
    }

    /// A packet that no list judges.
    const PASSED: Self = Self::new(Verdict::Permit, UNCOUNTED);
    /// A packet whose list is not there, or that cannot be read.
    const REFUSED: Self = Self::new(Verdict::Deny, UNCOUNTED);

    /// True if the packet passes.
    #[inline(always)]
    pub const fn permits(self) -> bool {
        self.0 & Self::PERMITS != 0
    }

    /// True if the packet is logged.
    #[inline(always)]
    pub const fn logs(self) -> bool {
        self.0 & Self::LOGS != 0
    }

    /// The counter of the entry that decided, of a list whose counters begin at 0.
    #[inline(always)]
    pub const fn counter(self) -> u32 {
        self.0 as u32
    }

    /// The same by another counter.
    const fn counted_by(self, counter: u32) -> Self {
        Self(self.0 & !Self::COUNTER | counter as u64)
    }
}

/// Packets that cannot be read: their places in the batch, and why.
type Unread = ArrayVec<(usize, DropReason), BATCH>;

/// Working memory for the packets of a batch.
struct Scratch {
    keys: [key::V4; BATCH],
    search: Search,
}

impl Default for Scratch {
    fn default() -> Self {
        Self { keys: [key::V4::NONE; BATCH], search: Search::default() }
    }
}

/// An access list in a configuration: the same list may be in others, with other counters.
#[derive(Clone)]
pub struct Numbered {
    /// The list, whose counters begin at 0.
    pub list: Arc<AccessList>,
    /// Index here of the list's first counter.
    pub first_counter: u32,
}

/// A compiled access list.
pub struct AccessList {
    v4: Compiled<EntryRule<u32>>,
    v6: Compiled<EntryRule<u128>>,
    frames: Compiled<FrameRule>,
    rest: AclOutcome,
}

impl AccessList {
    /// Compiles a list; `rest` counts packets that match no entry. An error names the place
    /// of the wrong entry.
    pub fn new(entries: &[AclEntry], rest: u32) -> Result<Self, (usize, SelectorError)> {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (place, entry) in entries.iter().enumerate() {
            if place == ENTRIES_MAX {
                return Err((place, SelectorError::TooMany));
            }
            entry.matches.selector.check().map_err(|e| (place, e))?;
            v4.extend(EntryRule::v4(entry));
            v6.extend(EntryRule::v6(entry));
        }
        let rest = AclOutcome::new(Verdict::Deny, rest);
        let (v4, v6) = (Compiled::new(v4), Compiled::new(v6));
        Ok(Self { v4, v6, frames: Compiled::default(), rest })
    }

    /// The list for whole frames, too. An error names the place of the wrong entry.
    pub fn with_frames(self, entries: &[FrameEntry]) -> Result<Self, (usize, SelectorError)> {
        let mut rules = Vec::with_capacity(entries.len());
        for (place, entry) in entries.iter().enumerate() {
            if place == ENTRIES_MAX {
                return Err((place, SelectorError::TooMany));
            }
            if let Some(ip) = &entry.matches.ip {
                ip.selector.check().map_err(|e| (place, e))?;
            }
            rules.extend(FrameRule::new(entry));
        }
        Ok(Self { frames: Compiled::new(rules), ..self })
    }

    /// The list with an edit, in a millisecond for any length. The edit is one of the list as
    /// it was compiled, and takes the place of an earlier one. Nothing if it is too large, or
    /// an entry is wrong: then the list is compiled anew.
    pub fn edited(&self, edit: &Edit) -> Option<Self> {
        let (mut v4, mut v6, mut frames) = (Vec::new(), Vec::new(), Vec::new());
        for (before, entry) in &edit.packets {
            entry.matches.selector.check().ok()?;
            v4.extend(EntryRule::v4(entry).map(|rule| (*before, rule)));
            v6.extend(EntryRule::v6(entry).map(|rule| (*before, rule)));
        }
        for (before, entry) in &edit.frames {
            if let Some(ip) = &entry.matches.ip {
                ip.selector.check().ok()?;
            }
            frames.extend(FrameRule::new(entry).map(|rule| (*before, rule)));
        }
        Some(Self {
            v4: self.v4.edited(edit, v4)?,
            v6: self.v6.edited(edit, v6)?,
            frames: self.frames.edited(edit, frames)?,
            rest: self.rest,
        })
    }

    /// The outcome for one frame, of which so many tags are the circuit's.
    pub fn judge_frame(&self, frame: &[u8], own: usize) -> Result<AclOutcome, DropReason> {
        let key = FrameKey::read(frame, own)?;
        Ok(self.frames.judge(&key.0, self.rest))
    }

    /// Outcomes of a batch of frames, as of [`judge_all`](Self::judge_all); `own` says how
    /// many tags of each are the circuit's.
    fn judge_frames(
        &self,
        frames: &[Packet],
        own: impl Fn(&Packet) -> usize,
        outcomes: &mut [AclOutcome],
        (unread, first): (&mut Unread, usize),
        search: &mut Search,
    ) {
        let mut keys = [FrameKey::NONE; BATCH];
        let mut refused = Unread::new();
        for (at, (frame, key)) in frames.iter().zip(&mut keys).enumerate() {
            match FrameKey::read(frame.data(), own(frame)) {
                Ok(read) => *key = read,
                Err(reason) => refused.push((at, reason)),
            }
        }
        let keys = &keys[..frames.len().min(BATCH)];
        self.frames.judge_all(keys, self.rest, outcomes, search, |_| ());
        for (at, reason) in refused {
            outcomes[at] = AclOutcome::REFUSED;
            unread.push((first + at, reason));
        }
    }

    /// The outcome for one IP packet.
    pub fn judge(&self, packet: &[u8]) -> Result<AclOutcome, DropReason> {
        Ok(match key::read(packet)? {
            Key::V4(key) => self.v4.judge(&key.0, self.rest),
            Key::V6(key) => self.v6.judge(&key.0, self.rest),
        })
    }

    /// Outcomes of a batch at most; `outcomes` is as long as `packets`. Those that cannot be
    /// read are refused, and noted with their place behind `first` and the reason. `near` as of
    /// [`Compiled::judge_all`].
    #[inline(always)]
    fn judge_all(
        &self,
        packets: &[Packet],
        outcomes: &mut [AclOutcome],
        (unread, first): (&mut Unread, usize),
        scratch: &mut Scratch,
        near: impl Fn(u32),
    ) {
        let Scratch { keys, search } = scratch;
        let mut others = false;
        for (at, (packet, key)) in packets.iter().zip(&mut *keys).enumerate() {
            packets.get(at + AHEAD).into_iter().for_each(Packet::prefetch);
            others |= !key.read_plain(packet.data());
        }
        let keys = &keys[..packets.len().min(BATCH)];
        self.v4.judge_all(keys, self.rest, outcomes, search, near);
        if others {
            self.judge_others(packets, outcomes, (unread, first), search);
        }
    }

    /// The same for those that are more than a plain IPv4 header with ports behind it.
    #[inline(never)]
    fn judge_others(
        &self,
        packets: &[Packet],
        outcomes: &mut [AclOutcome],
        (unread, first): (&mut Unread, usize),
        search: &mut Search,
    ) {
        let (mut v6, mut places) = (ArrayVec::<_, BATCH>::new(), ArrayVec::<_, BATCH>::new());
        let others = packets.iter().map(Packet::data).enumerate();
        let mut plain = key::V4::NONE;
        for (at, packet) in others.filter(|(_, packet)| !plain.read_plain(packet)) {
            match key::read(packet) {
                Ok(Key::V6(key)) => {
                    v6.push(key);
                    places.push(at);
                }
                Ok(Key::V4(key)) => outcomes[at] = self.v4.judge(&key.0, self.rest),
                Err(reason) => {
                    outcomes[at] = AclOutcome::REFUSED;
                    unread.push((first + at, reason));
                }
            }
        }
        let mut judged = [AclOutcome::PASSED; BATCH];
        self.v6.judge_all(&v6, self.rest, &mut judged, search, |_| ());
        for (&at, outcome) in places.iter().zip(judged) {
            outcomes[at] = outcome;
        }
    }

    /// Octets that it takes, compiled.
    pub fn octets(&self) -> usize {
        self.v4.octets() + self.v6.octets() + self.frames.octets()
    }
}

#[cfg(test)]
mod tests;
