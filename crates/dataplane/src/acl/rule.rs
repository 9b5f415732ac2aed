//! An entry compiled: a selector, and bits that have to have a value.

use super::compiled::ListRule;
use super::key::{LATER, TCP_AT, TCP_SEEN};
use super::{AclEntry, AclOutcome, Match};
use crate::classify::{Address, KeyField, Rule, SelectorRule, WORDS_MAX};

/// The word of a key that has the flags.
pub const FLAGS_V4: usize = 2;
pub const FLAGS_V6: usize = 5;

/// Order of entries, which their table keeps.
const ORDER: u32 = 0;

/// Outcome of an entry, and its conditions beside the selector.
#[derive(Clone, Copy, Debug)]
struct Then {
    outcome: AclOutcome,
    /// Mask of the flags that are compared, and their required values.
    mask: u16,
    value: u16,
}

/// An entry for packets of one family. Of IPv4, one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct EntryRule<A>(SelectorRule<A, Then>);

impl EntryRule<u32> {
    /// A rule for IPv4; nothing if the entry is for the other family.
    pub fn v4(entry: &AclEntry) -> Option<Self> {
        SelectorRule::v4(&entry.matches.selector, ORDER, then(entry)).map(Self)
    }
}

impl EntryRule<u128> {
    /// A rule for IPv6; nothing if the entry is for the other family.
    pub fn v6(entry: &AclEntry) -> Option<Self> {
        SelectorRule::v6(&entry.matches.selector, ORDER, then(entry)).map(Self)
    }
}

impl EntryRule<u128> {
    /// A rule for packets of either family, whose addresses are numbers of 128 bits.
    pub fn either(matches: &Match, outcome: AclOutcome) -> Self {
        Self(SelectorRule::either(&matches.selector, ORDER, then_of(matches, outcome)))
    }
}

fn then(entry: &AclEntry) -> Then {
    let outcome = AclOutcome::new(entry.verdict, entry.counter).logging(entry.logs);
    then_of(&entry.matches, outcome)
}

fn then_of(matches: &Match, outcome: AclOutcome) -> Then {
    let &Match { dscp, tcp, fragments, .. } = matches;
    let (mut mask, mut value) = (0, 0);
    if let Some(dscp) = dscp {
        (mask, value) = (0x3f, u16::from(dscp & 0x3f));
    }
    if let Some(tcp) = tcp {
        mask |= TCP_SEEN | u16::from(tcp.set | tcp.clear) << TCP_AT;
        value |= TCP_SEEN | u16::from(tcp.set) << TCP_AT;
    }
    if fragments {
        (mask, value) = (mask | LATER, value | LATER);
    }
    Then { outcome, mask, value }
}

impl<A: Address> ListRule for EntryRule<A>
where
    Self: Rule,
{
    #[inline(always)]
    fn outcome(&self) -> AclOutcome {
        self.0.then.outcome
    }

    fn counted_by(mut self, counter: u32) -> Self {
        self.0.then.outcome = self.0.then.outcome.counted_by(counter);
        self
    }
}

impl<A: Address> EntryRule<A> {
    /// Zero if the flags are such.
    #[inline(always)]
    fn misfit(&self, flags: u64) -> u64 {
        u64::from((flags as u16 ^ self.0.then.value) & self.0.then.mask)
    }

    /// The selector's fields, and those of the flags.
    fn all_fields(flags: usize) -> Vec<KeyField> {
        let word = flags as u32;
        let field = |(at, bits)| KeyField { word, at, bits };
        // Each TCP flag by itself: entries ask for some of them.
        let bits = (TCP_AT..16).map(|at| (at, 1));
        let flags = [(0, 6)].into_iter().chain(bits).map(field);
        SelectorRule::<A, Then>::fields().into_iter().chain(flags).collect()
    }

    fn flag_bounds(&self, field: &KeyField) -> (u64, u64) {
        let all = (1 << field.bits) - 1;
        let of = |flags: u16| u64::from(flags) >> field.at & all;
        let (mask, value) = (of(self.0.then.mask), of(self.0.then.value));
        (value & mask, value | all & !mask)
    }
}

impl Rule for EntryRule<u32> {
    type Words = [u64; 4];

    fn fields() -> Vec<KeyField> {
        Self::all_fields(FLAGS_V4)
    }

    #[inline(always)]
    fn word(words: &[u64; 4], at: u32) -> u64 {
        words[at as usize & 3]
    }

    fn from_words(words: &[u64; WORDS_MAX]) -> [u64; 4] {
        [words[0], words[1], words[2], words[3]]
    }

    #[inline(always)]
    fn matches(&self, &[ends, rest, flags, _]: &[u64; 4]) -> bool {
        self.0.misfit(&[ends, rest]) | self.misfit(flags) == 0
    }

    fn bounds(&self, field: &KeyField) -> (u64, u64) {
        if field.word as usize == FLAGS_V4 { self.flag_bounds(field) } else { self.0.bounds(field) }
    }

    fn middle(&self) -> [u64; 4] {
        let [ends, rest] = self.0.middle();
        [ends, rest, self.0.then.value.into(), 0]
    }

    fn widths(&self) -> [u32; 2] {
        self.0.widths()
    }
}

impl Rule for EntryRule<u128> {
    type Words = [u64; 8];

    fn fields() -> Vec<KeyField> {
        Self::all_fields(FLAGS_V6)
    }

    #[inline(always)]
    fn word(words: &[u64; 8], at: u32) -> u64 {
        words[at as usize & 7]
    }

    fn from_words(words: &[u64; WORDS_MAX]) -> [u64; 8] {
        *words
    }

    #[inline(always)]
    fn matches(&self, words: &[u64; 8]) -> bool {
        self.0.misfit(words) | self.misfit(words[FLAGS_V6]) == 0
    }

    fn bounds(&self, field: &KeyField) -> (u64, u64) {
        if field.word as usize == FLAGS_V6 { self.flag_bounds(field) } else { self.0.bounds(field) }
    }

    fn middle(&self) -> [u64; 8] {
        let mut words = self.0.middle();
        words[FLAGS_V6] = self.0.then.value.into();
        words
    }

    fn widths(&self) -> [u32; 2] {
        self.0.widths()
    }
}

const _: () = assert!(size_of::<EntryRule<u32>>() == 64);
