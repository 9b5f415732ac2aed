//! A selector compiled: one comparison for each address, one for all the rest.

use super::key::{Address, GUARDS, LOCAL_PORT, MESSAGE, PROTOCOL, REMOTE_PORT, range};
use super::selector::Selector;
use super::{KeyField, Rule, WORDS_MAX};
use std::net::IpAddr;

/// A selector, its place in the order, and its outcome. Of IPv4, one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct SelectorRule<A, T> {
    /// The first remote and the first local address.
    firsts: [A; 2],
    /// The complements of how many follow them: of a network, its mask.
    masks: [A; 2],
    /// The lowest value of each field, without the guards; the highest, with the guards set.
    rest: (u64, u64),
    /// Both ranges of addresses are networks.
    has_networks: bool,
    /// The lower, the earlier.
    pub order: u32,
    pub then: T,
}

/// Places of the ends in pairs: a key of IPv4 has both addresses in one word, the local one above.
const REMOTE: usize = 0;
const LOCAL: usize = 1;

impl<T: Copy> SelectorRule<u32, T> {
    /// A rule for IPv4; nothing if the selector is of the other family.
    pub fn v4(selector: &Selector, order: u32, then: T) -> Option<Self> {
        let bits = |a| match a {
            IpAddr::V4(a) => Some(a.to_bits()),
            IpAddr::V6(_) => None,
        };
        Self::new(selector, order, then, bits)
    }
}

impl<T: Copy> SelectorRule<u128, T> {
    /// A rule for IPv6; nothing if the selector is of the other family.
    pub fn v6(selector: &Selector, order: u32, then: T) -> Option<Self> {
        let bits = |a| match a {
            IpAddr::V6(a) => Some(a.to_bits()),
            IpAddr::V4(_) => None,
        };
        Self::new(selector, order, then, bits)
    }
}

impl<T: Copy> SelectorRule<u128, T> {
    /// A rule of either family: an IPv4 address is a number of 32 bits.
    pub fn either(selector: &Selector, order: u32, then: T) -> Self {
        let bits = |a| match a {
            IpAddr::V6(a) => Some(a.to_bits()),
            IpAddr::V4(a) => Some(u128::from(a.to_bits())),
        };
        let rule = Self::new(selector, order, then, bits);
        rule.unwrap_or_else(|| unreachable!("every address is a number"))
    }
}

impl<A: Address, T: Copy> SelectorRule<A, T> {
    fn new(s: &Selector, order: u32, then: T, bits: impl Fn(IpAddr) -> Option<A>) -> Option<Self> {
        let ends = |first, last| {
            let first = bits(first)?;
            Some((first, bits(last)?.less(first)))
        };
        let local = ends(s.local.first, s.local.last)?;
        let remote = ends(s.remote.first, s.remote.last)?;
        let ranges = [
            range(s.protocol, PROTOCOL),
            range(s.local_ports, LOCAL_PORT),
            range(s.remote_ports, REMOTE_PORT),
            range(s.message, MESSAGE),
        ];
        let join = |(low, high), (first, last)| (low | first, high | last);
        let (low, high) = ranges.into_iter().fold((0, GUARDS), join);
        Some(Self {
            firsts: [remote.0, local.0],
            masks: [!remote.1, !local.1],
            rest: (low.wrapping_sub(GUARDS), high),
            has_networks: is_network(local) && is_network(remote),
            order,
            then,
        })
    }

    /// The first address of an end, and how many follow it.
    fn addresses(&self, end: usize) -> (A, A) {
        (self.firsts[end], !self.masks[end])
    }

    /// The lowest and the highest value of a field of `rest`.
    const fn values(&self, at: u32, bits: u32) -> (u64, u64) {
        let mask = (1 << bits) - 1;
        (self.rest.0.wrapping_add(GUARDS) >> at & mask, self.rest.1 >> at & mask)
    }

    /// Zero if the rule has a packet of this key. (No branch: the part that fails cannot be
    /// predicted. A guard bit is set where no field borrows from it.)
    #[inline(always)]
    pub fn misfit(&self, words: &A::Words) -> u64 {
        let rest = words.as_ref()[A::ADDRESS_WORDS];
        let low = rest.wrapping_sub(self.rest.0);
        let high = self.rest.1.wrapping_sub(rest);
        let apart = match self.has_networks {
            true => A::apart(words, &self.firsts, &self.masks),
            false => self.outside(words),
        };
        apart | !(low & high) & GUARDS
    }

    /// Zero if both addresses are among the rule's, which are no networks. (Rare, so that
    /// this branch can be predicted.)
    #[cold]
    fn outside(&self, words: &A::Words) -> u64 {
        let (local, remote, _) = A::split(words);
        let beyond = |(first, span): (A, A), address: A| address.less(first) > span;
        let local = beyond(self.addresses(LOCAL), local);
        u64::from(local | beyond(self.addresses(REMOTE), remote))
    }
}

/// True if so many addresses behind the first one make a network.
fn is_network<A: Address>((first, span): (A, A)) -> bool {
    let (first, span) = (first.wide(), span.wide());
    span & span.wrapping_add(1) == 0 && first & span == 0
}

impl<A: Address, T: Copy> Rule for SelectorRule<A, T> {
    type Words = A::Words;

    #[inline(always)]
    fn matches(&self, words: &A::Words) -> bool {
        self.misfit(words) == 0
    }

    #[inline(always)]
    fn word(words: &A::Words, at: u32) -> u64 {
        A::word(words, at)
    }

    fn from_words(words: &[u64; WORDS_MAX]) -> A::Words {
        A::from_words(words)
    }

    fn fields() -> Vec<KeyField> {
        let field = |word, (at, bits)| KeyField { word, at, bits };
        let addresses = match A::BITS {
            32 => vec![field(0, (32, 32)), field(0, (0, 32))],
            _ => (0..4).map(|word| field(word, (0, 64))).collect(),
        };
        let rest = [PROTOCOL, LOCAL_PORT, REMOTE_PORT, MESSAGE];
        let rest = rest.map(|bits| field(A::ADDRESS_WORDS as u32, bits));
        addresses.into_iter().chain(rest).collect()
    }

    fn middle(&self) -> A::Words {
        let half = |(first, span): (A, A)| first.half_way(span);
        let fields = [PROTOCOL, LOCAL_PORT, REMOTE_PORT, MESSAGE];
        let rest = fields.into_iter().fold(0, |rest, (at, bits)| {
            let (low, high) = self.values(at, bits);
            rest | (low + (high - low) / 2) << at
        });
        A::words(half(self.addresses(LOCAL)), half(self.addresses(REMOTE)), rest)
    }

    fn widths(&self) -> [u32; 2] {
        let width = |end| u128::BITS - self.addresses(end).1.wide().leading_zeros();
        [width(LOCAL), width(REMOTE)]
    }

    /// If an address has two words, the low one is bounded only where the high one is
    /// settled.
    fn bounds(&self, field: &KeyField) -> (u64, u64) {
        let word = field.word as usize;
        if word == A::ADDRESS_WORDS {
            return self.values(field.at, field.bits);
        }
        let is_local = if A::BITS == 32 { field.at == 32 } else { word < 2 };
        let (first, span) = self.addresses(if is_local { LOCAL } else { REMOTE });
        let (first, span) = (first.wide(), span.wide());
        let last = first.wrapping_add(span);
        match (A::BITS, word % 2) {
            (128, 0) => ((first >> 64) as u64, (last >> 64) as u64),
            (128, _) if first >> 64 != last >> 64 => (0, u64::MAX),
            _ => (first as u64, last as u64),
        }
    }
}
