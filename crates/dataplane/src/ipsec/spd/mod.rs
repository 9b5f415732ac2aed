//! Security policy database and directory of SAs (RFC 4301 section 4.4).
//!
//! ```text
//!   packet ─▶ key: addresses, protocol, ports, message ─▶ trees ─▶ first entry
//!                   what cannot be seen is a value of its own
//!                                 PROTECT by an SA │ BYPASS │ DISCARD, also if none
//! ```
//!
//! A policy is an ordered list. The first entry whose selectors have the packet
//! decides (section 4.4.1); what no entry has is discarded. Outbound, the source is
//! local; inbound, the destination is, and then only BYPASS lets a packet pass in
//! clear (section 5.2). What came out of an SA is checked against that SA's selectors
//! instead.
//!
//! Fragments (section 7): ports of a later fragment cannot be seen, and of IPv6 not
//! its protocol either. ANY takes it, OPAQUE takes nothing else, values never do. One that a BYPASS would let through is
//! discarded if an earlier entry may have meant its datagram: nothing that is to be
//! protected leaves or enters in clear as a fragment (section 7.4).
//!
//! * [`selector`] what a person says. `key` what a packet shows. `rule` one selector,
//!   compiled; `tree` all of them; `build` how.
//! * [`directory`] which worker has which SA. [`stage`] the outbound stage.
//! * [`hits`] what each entry was asked for.

pub mod directory;
pub mod hits;
pub mod selector;
pub mod stage;

mod build;
mod key;
mod rule;
mod tree;

use arrayvec::ArrayVec;
use ferrule_base::DropReason;
use ferrule_pipeline::BATCH;
use hits::Hits;
pub(super) use key::Direction;
use key::{Address, Key, Seen};
use rule::Rule;
use selector::{Selector, SelectorError};
use tree::{Answer, Table};

/// Selectors of one policy or SA at most.
pub const SELECTORS_MAX: usize = 1 << 20;

/// What a policy does with its traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sealed by this outbound SA; in clear it is refused.
    Protect(u32),
    /// Passes in clear.
    Bypass,
    /// Is dropped.
    Discard,
}

/// One entry of a policy, or one of several selectors of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyEntry {
    /// Whose traffic.
    pub selector: Selector,
    /// What becomes of it.
    pub action: Action,
    /// Which of the worker's counters counts it.
    pub counter: u32,
}

impl PolicyEntry {
    /// An entry that is not counted.
    pub const fn new(selector: Selector, action: Action) -> Self {
        Self { selector, action, counter: hits::UNCOUNTED }
    }
}

/// What a policy says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to do with it.
    pub action: Action,
    /// The counter of the entry that decided.
    pub counter: u32,
}

impl Decision {
    /// Counts a packet that came in clear, and lets it in if it may.
    #[inline]
    pub fn enter(self, hits: &mut Hits, octets: usize) -> Result<(), DropReason> {
        hits.inbound(self.counter, octets);
        match self.action {
            Action::Bypass => Ok(()),
            Action::Protect(_) => Err(DropReason::EspRequired),
            Action::Discard => Err(DropReason::PolicyDiscard),
        }
    }
}

/// Selectors in order, each with what it stands for.
pub(super) struct Rules<T> {
    v4: Table<u32, T>,
    v6: Table<u128, T>,
}

impl<T> Default for Rules<T> {
    fn default() -> Self {
        Self { v4: Table::default(), v6: Table::default() }
    }
}

impl<T: Copy> Rules<T> {
    /// Compiles selectors; an error names the place of the wrong one.
    pub fn new<'a>(
        selectors: impl IntoIterator<Item = (&'a Selector, T)>,
    ) -> Result<Self, (usize, SelectorError)> {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (place, (selector, then)) in selectors.into_iter().enumerate() {
            if place == SELECTORS_MAX {
                return Err((place, SelectorError::TooMany));
            }
            selector.check().map_err(|e| (place, e))?;
            let order = place as u32;
            v4.extend(Rule::v4(selector, order, then));
            v6.extend(Rule::v6(selector, order, then));
        }
        Ok(Self { v4: build::table(v4), v6: build::table(v6) })
    }

    #[inline]
    fn find(&self, seen: &Seen) -> Answer<T> {
        match seen {
            Seen::V4(key) => self.v4.find(&key.words),
            Seen::V6(key) => self.v6.find(&key.words),
        }
    }

    fn octets(&self) -> usize {
        self.v4.octets() + self.v6.octets()
    }
}

impl Rules<()> {
    /// Whether any of the selectors has a packet that came in.
    #[inline]
    pub fn admit(&self, packet: &[u8]) -> Result<bool, DropReason> {
        Ok(self.find(&key::read(packet, Direction::Inbound)?).is_some())
    }

    /// Whether any of the selectors has a packet that goes the other way, as far as
    /// there is enough of it.
    pub fn have_outbound(&self, packet: &[u8]) -> bool {
        key::read(packet, Direction::Outbound).is_ok_and(|key| self.find(&key).is_some())
    }
}

/// What is asked about packets of one family: the keys' words, their places in the
/// batch and whether they are veiled.
struct Side<A: Address> {
    words: ArrayVec<A::Words, BATCH>,
    places: ArrayVec<(u8, bool), BATCH>,
}

impl<A: Address> Side<A> {
    const fn new() -> Self {
        Self { words: ArrayVec::new_const(), places: ArrayVec::new_const() }
    }

    #[inline(always)]
    fn push(&mut self, place: usize, key: Key<A>) {
        self.words.push(key.words);
        self.places.push((place as u8, key.veiled));
    }
}

/// An ordered security policy database.
#[derive(Default)]
pub struct Spd {
    rules: Rules<Decision>,
    /// What entries but BYPASS may mean where they cannot be seen; the numbers are
    /// those of the entries.
    veiled: Rules<u32>,
    /// The counter of what no entry has.
    rest: Option<u32>,
}

impl Spd {
    /// Compiles a policy; an error names the place of the wrong entry.
    pub fn new(entries: &[PolicyEntry]) -> Result<Self, (usize, SelectorError)> {
        let decision = |e: &PolicyEntry| Decision { action: e.action, counter: e.counter };
        let rules = Rules::new(entries.iter().map(|e| (&e.selector, decision(e))))?;
        let closed = entries.iter().enumerate().filter(|(_, e)| e.action != Action::Bypass);
        let veiled: Vec<(Selector, u32)> = closed
            .flat_map(|(place, e)| e.selector.veiled().into_iter().map(move |s| (s, place as u32)))
            .collect();
        let veiled = Rules::new(veiled.iter().map(|(selector, place)| (selector, *place)))?;
        Ok(Self { rules, veiled, rest: None })
    }

    /// The same, with a counter for what no entry has.
    pub fn counting_rest(self, counter: u32) -> Self {
        Self { rest: Some(counter), ..self }
    }

    /// What to do with an IP packet that leaves by the boundary.
    #[inline]
    pub fn outbound(&self, packet: &[u8]) -> Result<Decision, DropReason> {
        self.decide(&key::read(packet, Direction::Outbound)?)
    }

    /// What is said of an IP packet that enters in clear by the boundary: only
    /// BYPASS lets it. (ESP and AH for the node itself are not asked about here: they
    /// go to their SA.)
    #[inline]
    pub fn inbound(&self, packet: &[u8]) -> Result<Decision, DropReason> {
        self.decide(&key::read(packet, Direction::Inbound)?)
    }

    /// The same for as many packets as fit a batch, side by side; nothing where
    /// nothing is asked.
    pub(super) fn outbound_all<'a>(
        &self,
        packets: impl Iterator<Item = Option<&'a [u8]>>,
        decisions: &mut [Option<Result<Decision, DropReason>>; BATCH],
    ) {
        let (mut v4, mut v6) = (Side::new(), Side::new());
        for (place, (packet, decision)) in packets.zip(&mut *decisions).enumerate() {
            let Some(packet) = packet else { continue };
            match key::read(packet, Direction::Outbound) {
                Ok(Seen::V4(key)) => v4.push(place, key),
                Ok(Seen::V6(key)) => v6.push(place, key),
                Err(reason) => *decision = Some(Err(reason)),
            }
        }
        self.answer(&v4, &self.rules.v4, &self.veiled.v4, decisions);
        self.answer(&v6, &self.rules.v6, &self.veiled.v6, decisions);
    }

    #[inline(always)]
    fn answer<A: Address>(
        &self,
        side: &Side<A>,
        rules: &Table<A, Decision>,
        veiled: &Table<A, u32>,
        decisions: &mut [Option<Result<Decision, DropReason>>; BATCH],
    ) {
        if side.words.is_empty() {
            return;
        }
        let mut answers = [None; BATCH];
        rules.find_all(&side.words, &mut answers);
        let asked = side.words.iter().zip(&side.places).zip(answers);
        for ((&words, &(place, veil)), answer) in asked {
            if let Some(decision) = decisions.get_mut(usize::from(place)) {
                let key = Key { words, veiled: veil };
                *decision = Some(Ok(self.settle(&key, answer, veiled)));
            }
        }
    }

    #[inline]
    fn decide(&self, seen: &Seen) -> Result<Decision, DropReason> {
        let answer = self.rules.find(seen);
        Ok(match seen {
            Seen::V4(key) => self.settle(key, answer, &self.veiled.v4),
            Seen::V6(key) => self.settle(key, answer, &self.veiled.v6),
        })
    }

    /// From what the trees say to what is done.
    #[inline(always)]
    fn settle<A: Address>(
        &self,
        key: &Key<A>,
        answer: Answer<Decision>,
        veiled: &Table<A, u32>,
    ) -> Decision {
        let Some((order, decision)) = answer else { return self.discard() };
        if key.veiled && decision.action == Action::Bypass {
            return self.unveil(key, order, decision, veiled);
        }
        decision
    }

    /// A packet that shows not all may pass in clear if no entry before may have
    /// meant it, but for those that let it pass, too.
    #[inline(never)]
    fn unveil<A: Address>(
        &self,
        key: &Key<A>,
        order: u32,
        decision: Decision,
        veiled: &Table<A, u32>,
    ) -> Decision {
        match veiled.find(&key.words) {
            Some((_, place)) if place < order => Decision { action: Action::Discard, ..decision },
            _ => decision,
        }
    }

    #[inline]
    fn discard(&self) -> Decision {
        Decision { action: Action::Discard, counter: self.rest.unwrap_or(hits::UNCOUNTED) }
    }

    /// Octets that it takes, compiled.
    pub fn octets(&self) -> usize {
        self.rules.octets() + self.veiled.octets()
    }

    /// Nodes on the longest way to an answer, and rules that are compared there at
    /// most.
    pub fn worst(&self) -> (u32, usize) {
        let (v4, v6) = (self.rules.v4.worst(), self.rules.v6.worst());
        (v4.0.max(v6.0), v4.1.max(v6.1))
    }
}
