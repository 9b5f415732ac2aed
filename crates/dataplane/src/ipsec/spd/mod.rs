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
//! its protocol either. ANY takes it, OPAQUE takes nothing else, values never do. One that
//! a BYPASS would let through is discarded if an earlier entry may have meant its datagram:
//! nothing that is to be protected leaves or enters in clear as a fragment (section 7.4).
//!
//! * [`classify`](crate::classify) selectors, and the first that has a packet.
//! * [`directory`] where each SA lives, in tables of `cells`. [`stage`] the outbound stage.

mod cells;
pub mod directory;
pub mod stage;

use crate::classify::hits::{self, Hits};
use crate::classify::selector::{Field, Selector, SelectorError};
use crate::classify::{self, Plain4, Rule as _, Search, Seen, SelectorRule, Table};
pub use crate::classify::{Address, Direction, Key};
use arrayvec::ArrayVec;
use ferrule_base::DropReason;
use ferrule_pipeline::{BATCH, Packet};
use std::hint::select_unpredictable;

/// Selectors of one policy or SA at most.
pub const SELECTORS_MAX: usize = 1 << 20;

/// Action of a policy entry on the traffic that it selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Sealed by the outbound SA in this slot; in clear it is refused.
    Protect(u32),
    /// Passes in clear.
    Bypass,
    /// Is dropped.
    Discard,
}

/// One entry of a policy, or one of several selectors of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PolicyEntry {
    /// Traffic that the entry selects.
    pub selector: Selector,
    /// Action on that traffic.
    pub action: Action,
    /// Index of the worker's counter of packets that the entry decided.
    pub counter: u32,
}

impl PolicyEntry {
    /// An entry that is not counted.
    pub const fn new(selector: Selector, action: Action) -> Self {
        Self { selector, action, counter: hits::UNCOUNTED }
    }
}

/// Decision of a policy on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Action on the packet.
    pub action: Action,
    /// The counter of the entry that decided.
    pub counter: u32,
}

/// A decision in eight octets, for columns of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The slot of an outbound SA, or one of two constants.
    code: u32,
    counter: u32,
}

impl Outcome {
    const BYPASS: u32 = u32::MAX - 1;
    const DISCARD: u32 = u32::MAX;

    /// Of a packet that no policy is asked about.
    pub(super) const OPEN: Self = Self { code: Self::BYPASS, counter: hits::UNCOUNTED };
    /// Of a packet whose policy is not there: nothing passes.
    pub(super) const CLOSED: Self = Self { code: Self::DISCARD, counter: hits::UNCOUNTED };

    fn new(action: Action, counter: u32) -> Self {
        let code = match action {
            Action::Protect(sa) => {
                assert!(sa < Self::BYPASS, "numbers of SAs are small");
                sa
            }
            Action::Bypass => Self::BYPASS,
            Action::Discard => Self::DISCARD,
        };
        Self { code, counter }
    }

    /// Action for the packet.
    #[inline(always)]
    pub const fn action(self) -> Action {
        match self.code {
            Self::BYPASS => Action::Bypass,
            Self::DISCARD => Action::Discard,
            sa => Action::Protect(sa),
        }
    }

    /// The outbound SA that [`Action::Protect`] names; of others a number that no SA has.
    #[inline(always)]
    pub const fn sa(self) -> u32 {
        self.code
    }

    /// True if the packet passes in clear (BYPASS).
    #[inline(always)]
    pub const fn is_bypass(self) -> bool {
        self.code == Self::BYPASS
    }

    /// The counter of the entry that decided.
    #[inline(always)]
    pub const fn counter(self) -> u32 {
        self.counter
    }
}

impl From<Outcome> for Decision {
    #[inline]
    fn from(outcome: Outcome) -> Self {
        Self { action: outcome.action(), counter: outcome.counter }
    }
}

impl Decision {
    /// Counts a packet that came in clear, and lets it in if it may.
    #[inline]
    pub fn enter(self, hits: &mut Hits, octets: usize) -> Result<(), DropReason> {
        hits.count(Direction::Inbound, self.counter, 1, octets as u64);
        match self.action {
            Action::Bypass => Ok(()),
            Action::Protect(_) => Err(DropReason::EspRequired),
            Action::Discard => Err(DropReason::PolicyDiscard),
        }
    }
}

/// Packets of a batch that cannot be read: their places, and why.
pub(super) type Refused = ArrayVec<(usize, DropReason), BATCH>;

/// Selectors in order, each with what it stands for.
pub(super) struct Rules<T> {
    v4: Table<SelectorRule<u32, T>>,
    v6: Table<SelectorRule<u128, T>>,
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
            v4.extend(SelectorRule::v4(selector, order, then));
            v6.extend(SelectorRule::v6(selector, order, then));
        }
        Ok(Self { v4: classify::table(v4), v6: classify::table(v6) })
    }

    #[inline]
    fn has(&self, seen: &Seen) -> bool {
        match seen {
            Seen::V4(key) => self.v4.find(&key.words).is_some(),
            Seen::V6(key) => self.v6.find(&key.words).is_some(),
        }
    }

    fn octets(&self) -> usize {
        self.v4.octets() + self.v6.octets()
    }
}

impl Rules<()> {
    /// Asks the processor for the only selector that most SAs have.
    #[inline(always)]
    pub fn prefetch(&self) {
        match self.v4.only() {
            Some(_) => self.v4.prefetch(),
            None => self.v6.prefetch(),
        }
    }

    /// True if any of the selectors matches an inbound packet.
    #[inline]
    pub fn admit(&self, packet: &[u8]) -> Result<bool, DropReason> {
        match Plain4::read(packet, Direction::Inbound) {
            Some(plain) => Ok(self.admit_plain(plain)),
            None => self.admit_other(packet),
        }
    }

    /// The same for a packet that was read.
    #[inline(always)]
    pub fn admit_plain(&self, packet: Plain4) -> bool {
        self.v4.admits(&packet.key.words)
    }

    #[inline(never)]
    fn admit_other(&self, packet: &[u8]) -> Result<bool, DropReason> {
        match classify::read(packet, Direction::Inbound)? {
            Seen::V4(key) => Ok(self.v4.admits(&key.words)),
            Seen::V6(key) => Ok(self.v6.admits(&key.words)),
        }
    }

    /// True if any of the selectors matches a packet of the other direction, as far as the
    /// packet is there: an ICMP error quotes only a part.
    pub fn have_outbound(&self, packet: &[u8]) -> bool {
        classify::read(packet, Direction::Outbound).is_ok_and(|key| self.has(&key))
    }
}

/// An ordered security policy database.
#[derive(Default)]
pub struct Spd {
    rules: Rules<Outcome>,
    /// Entries but BYPASS, as they apply to packets whose ports or protocol cannot be seen;
    /// the values are places of entries in the policy.
    veiled: Rules<u32>,
    /// The counter of what no entry has.
    rest: Option<u32>,
}

impl Spd {
    /// Compiles a policy; an error names the place of the wrong entry.
    pub fn new(entries: &[PolicyEntry]) -> Result<Self, (usize, SelectorError)> {
        let outcome = |e: &PolicyEntry| Outcome::new(e.action, e.counter);
        let rules = Rules::new(entries.iter().map(|e| (&e.selector, outcome(e))))?;
        let closed = entries.iter().enumerate().filter(|(_, e)| e.action != Action::Bypass);
        let veiled: Vec<(Selector, u32)> = closed
            .flat_map(|(place, e)| veiled(&e.selector).into_iter().map(move |s| (s, place as u32)))
            .collect();
        let veiled = Rules::new(veiled.iter().map(|(selector, place)| (selector, *place)))?;
        Ok(Self { rules, veiled, rest: None })
    }

    /// The same, with a counter for what no entry has.
    pub fn counting_rest(self, counter: u32) -> Self {
        Self { rest: Some(counter), ..self }
    }

    /// Decision on an IP packet that leaves by the boundary.
    #[inline]
    pub fn outbound(&self, packet: &[u8]) -> Result<Decision, DropReason> {
        classify::read(packet, Direction::Outbound).map(|seen| self.decide(&seen).into())
    }

    /// Decision on an IP packet that enters in clear by the boundary: only BYPASS admits it.
    /// (ESP and AH for the node itself do not come here: they go to their SA.)
    #[inline]
    pub fn inbound(&self, packet: &[u8]) -> Result<Decision, DropReason> {
        classify::read(packet, Direction::Inbound).map(|seen| self.decide(&seen).into())
    }

    /// Outcomes of IPv4 packets, a batch at most; `outcomes` is as long as `keys`.
    pub fn decide_v4(&self, keys: &[Key<u32>], outcomes: &mut [Outcome]) {
        self.decide_all(&self.rules.v4, &self.veiled.v4, keys, outcomes);
    }

    /// Outcomes of IPv6 packets, a batch at most; `outcomes` is as long as `keys`.
    pub fn decide_v6(&self, keys: &[Key<u128>], outcomes: &mut [Outcome]) {
        self.decide_all(&self.rules.v6, &self.veiled.v6, keys, outcomes);
    }

    /// Outcomes of outbound packets of either family, a batch at most; `outcomes` is as long as
    /// `packets`. Those that cannot be read are discarded, and noted with their
    /// place and the reason.
    #[inline(always)]
    pub(super) fn decide_outbound(
        &self,
        packets: &[Packet],
        outcomes: &mut [Outcome],
        refused: &mut Refused,
        first: usize,
    ) {
        let (mut keys, mut others) = ([Key::NONE; BATCH], false);
        for (packet, key) in packets.iter().zip(&mut keys) {
            match Plain4::read(packet.data(), Direction::Outbound) {
                Some(plain) => *key = plain.key,
                None => others = true,
            }
        }
        self.decide_v4(&keys[..packets.len().min(BATCH)], outcomes);
        if others {
            self.decide_others(packets, outcomes, refused, first);
        }
    }

    /// The same for those that are more than a plain IPv4 header with ports behind it.
    #[inline(never)]
    fn decide_others(
        &self,
        packets: &[Packet],
        outcomes: &mut [Outcome],
        refused: &mut Refused,
        first: usize,
    ) {
        let (mut v6, mut places) = (ArrayVec::<_, BATCH>::new(), ArrayVec::<_, BATCH>::new());
        let others = packets.iter().map(Packet::data).enumerate();
        for (at, packet) in others.filter(|(_, p)| Plain4::read(p, Direction::Outbound).is_none()) {
            match classify::read(packet, Direction::Outbound) {
                Ok(Seen::V6(key)) => {
                    v6.push(key);
                    places.push(at);
                }
                Ok(seen) => outcomes[at] = self.decide(&seen),
                Err(reason) => {
                    outcomes[at] = Outcome::CLOSED;
                    refused.push((first + at, reason));
                }
            }
        }
        let mut found = [Outcome::CLOSED; BATCH];
        self.decide_v6(&v6, &mut found);
        places.iter().zip(found).for_each(|(&at, found)| outcomes[at] = found);
    }

    #[inline(always)]
    fn decide_all<A: Address>(
        &self,
        rules: &Table<SelectorRule<A, Outcome>>,
        veiled: &Table<SelectorRule<A, u32>>,
        keys: &[Key<A>],
        outcomes: &mut [Outcome],
    ) {
        let rest = self.discard();
        if let Some(rule) = rules.only() {
            for (key, outcome) in keys.iter().zip(outcomes) {
                *outcome = select_unpredictable(rule.matches(&key.words), rule.then, rest);
            }
            // No earlier entry has the meaning that this one has if it lets pass.
            return;
        }
        let mut search = Search::default();
        for (keys, outcomes) in keys.chunks(BATCH).zip(outcomes.chunks_mut(BATCH)) {
            let found = rules.find_all(keys, &mut search, |_| ());
            let mut clear = false;
            for (&number, outcome) in found.iter().zip(&mut *outcomes) {
                *outcome = rules.rule(number).map_or(rest, |rule| rule.then);
                clear |= outcome.is_bypass();
            }
            if clear {
                self.unveil_all(veiled, keys, outcomes, |at| rules.rule(found[at]));
            }
        }
    }

    /// Section 7.4 for those of a batch that would pass in clear.
    #[inline(never)]
    fn unveil_all<'a, A: Address>(
        &self,
        veiled: &Table<SelectorRule<A, u32>>,
        keys: &[Key<A>],
        outcomes: &mut [Outcome],
        rule: impl Fn(usize) -> Option<&'a SelectorRule<A, Outcome>>,
    ) {
        for (at, (key, outcome)) in keys.iter().zip(outcomes).enumerate() {
            if outcome.is_bypass() && key.is_veiled() {
                *outcome = rule(at).map_or(*outcome, |rule| unveil(key, rule, veiled));
            }
        }
    }

    #[inline]
    fn decide(&self, seen: &Seen) -> Outcome {
        match seen {
            Seen::V4(key) => self.settle(key, &self.rules.v4, &self.veiled.v4),
            Seen::V6(key) => self.settle(key, &self.rules.v6, &self.veiled.v6),
        }
    }

    #[inline(always)]
    fn settle<A: Address>(
        &self,
        key: &Key<A>,
        rules: &Table<SelectorRule<A, Outcome>>,
        veiled: &Table<SelectorRule<A, u32>>,
    ) -> Outcome {
        match rules.find(&key.words) {
            None => self.discard(),
            Some(rule) if rule.then.is_bypass() && key.is_veiled() => unveil(key, rule, veiled),
            Some(rule) => rule.then,
        }
    }

    #[inline]
    fn discard(&self) -> Outcome {
        Outcome::new(Action::Discard, self.rest.unwrap_or(hits::UNCOUNTED))
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

/// A packet that shows not all may pass in clear if no entry before may have meant it, but
/// for those that let it pass, too.
#[inline(never)]
fn unveil<A: Address>(
    key: &Key<A>,
    rule: &SelectorRule<A, Outcome>,
    veiled: &Table<SelectorRule<A, u32>>,
) -> Outcome {
    match veiled.find(&key.words) {
        Some(closed) if closed.then < rule.order => {
            Outcome::new(Action::Discard, rule.then.counter)
        }
        _ => rule.then,
    }
}

/// Selectors of the same traffic where its ports, its message or even its protocol cannot be
/// seen.
fn veiled(selector: &Selector) -> Vec<Selector> {
    let unseen = |field: Field<u16>| match field {
        Field::Range(..) => (true, Field::Any),
        other => (false, other),
    };
    let (a, local_ports) = unseen(selector.local_ports);
    let (b, remote_ports) = unseen(selector.remote_ports);
    let (c, message) = unseen(selector.message);
    let open = Selector { local_ports, remote_ports, message, ..selector.clone() };
    let mut all = Vec::new();
    if matches!(selector.protocol, Field::Range(..)) && !selector.local.is_ipv4() {
        all.push(Selector { protocol: Field::Opaque, ..open.clone() });
    }
    if a || b || c {
        all.push(open);
    }
    all
}
