//! A selector compiled: one comparison for each address, one for all the rest.

use super::key::{Address, Bits, GUARDS, LOCAL_PORT, MESSAGE, PROTOCOL, REMOTE_PORT, range};
use super::selector::{Field, Selector};
use std::net::IpAddr;

/// A selector, its place in the order, and what it stands for. Of IPv4, one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Rule<A, T> {
    /// The first address, and how many follow it.
    local: (A, A),
    remote: (A, A),
    /// The lowest value of each field; the highest, with the guards set.
    rest: (u64, u64),
    /// The lower, the earlier.
    pub order: u32,
    pub then: T,
}

impl<T: Copy> Rule<u32, T> {
    /// Nothing if the selector is of the other family.
    pub fn v4(selector: &Selector, order: u32, then: T) -> Option<Self> {
        let bits = |a| match a {
            IpAddr::V4(a) => Some(a.to_bits()),
            IpAddr::V6(_) => None,
        };
        Self::new(selector, order, then, bits)
    }
}

impl<T: Copy> Rule<u128, T> {
    /// Nothing if the selector is of the other family.
    pub fn v6(selector: &Selector, order: u32, then: T) -> Option<Self> {
        let bits = |a| match a {
            IpAddr::V6(a) => Some(a.to_bits()),
            IpAddr::V4(_) => None,
        };
        Self::new(selector, order, then, bits)
    }
}

impl<A: Address, T: Copy> Rule<A, T> {
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
        let rest = ranges.into_iter().fold((0, GUARDS), join);
        Some(Self { local, remote, rest, order, then })
    }

    /// Whether a packet with these words is meant. (No branch: nobody can foresee
    /// which part will fail. A guard bit stays set where no field borrows from it.)
    #[inline(always)]
    pub fn matches(&self, words: &A::Words) -> bool {
        let (local, remote, rest) = A::split(words);
        let low = (rest | GUARDS).wrapping_sub(self.rest.0);
        let high = self.rest.1.wrapping_sub(rest);
        (local.less(self.local.0) <= self.local.1)
            & (remote.less(self.remote.0) <= self.remote.1)
            & (low & high & GUARDS == GUARDS)
    }

    /// The words of a packet that is meant, neither the first nor the last.
    pub fn middle(&self) -> A::Words {
        let half = |(first, span): (A, A)| first.half_way(span);
        let fields = [PROTOCOL, LOCAL_PORT, REMOTE_PORT, MESSAGE];
        let rest = fields.into_iter().fold(0, |rest, (at, bits)| {
            let mask = (1 << bits) - 1;
            let (low, high) = (self.rest.0 >> at & mask, self.rest.1 >> at & mask);
            rest | (low + (high - low) / 2) << at
        });
        A::words(half(self.local), half(self.remote), rest)
    }

    /// How many addresses follow the first ones.
    pub fn spans(&self) -> (A, A) {
        (self.local.1, self.remote.1)
    }

    /// The lowest and highest value of a field of the words. Of an address in two
    /// words the low one is bounded only where the high one is settled.
    pub fn bounds(&self, field: &Cuttable) -> (u64, u64) {
        let address = |(first, span): (A, A)| {
            let (first, span) = (first.wide(), span.wide());
            let last = first.wrapping_add(span);
            match (A::BITS, field.low) {
                (128, false) => ((first >> 64) as u64, (last >> 64) as u64),
                (128, true) if first >> 64 != last >> 64 => (0, u64::MAX),
                _ => (first as u64, last as u64),
            }
        };
        match field.of {
            Of::Local => address(self.local),
            Of::Remote => address(self.remote),
            Of::Rest((at, bits)) => {
                let mask = (1 << bits) - 1;
                (self.rest.0 >> at & mask, self.rest.1 >> at & mask)
            }
        }
    }
}

/// What a field is part of.
#[derive(Clone, Copy)]
pub(super) enum Of {
    Local,
    Remote,
    Rest(Bits),
}

/// A field in one of the words.
pub(super) struct Cuttable {
    pub word: u32,
    /// The lowest bit.
    pub at: u32,
    pub bits: u32,
    pub of: Of,
    /// The low half of an address in two words.
    pub low: bool,
}

/// Fields of both families at most.
pub(super) const FIELDS_MAX: usize = 8;

/// The fields of the words of a family.
pub(super) fn fields<A: Address>() -> Vec<Cuttable> {
    let address = |word, at, bits, of, low| Cuttable { word, at, bits, of, low };
    let mut fields = match A::BITS {
        32 => vec![address(0, 32, 32, Of::Local, false), address(0, 0, 32, Of::Remote, false)],
        _ => vec![
            address(0, 0, 64, Of::Local, false),
            address(1, 0, 64, Of::Local, true),
            address(2, 0, 64, Of::Remote, false),
            address(3, 0, 64, Of::Remote, true),
        ],
    };
    for (at, bits) in [PROTOCOL, LOCAL_PORT, REMOTE_PORT, MESSAGE] {
        let (word, of) = (A::ADDRESS_WORDS as u32, Of::Rest((at, bits)));
        fields.push(Cuttable { word, at, bits, of, low: false });
    }
    fields
}

impl Selector {
    /// What the traffic of this selector may look like where its ports, its message
    /// or even its protocol cannot be seen.
    pub(super) fn veiled(&self) -> Vec<Self> {
        let unseen = |field: Field<u16>| match field {
            Field::Range(..) => (true, Field::Any),
            other => (false, other),
        };
        let (a, local_ports) = unseen(self.local_ports);
        let (b, remote_ports) = unseen(self.remote_ports);
        let (c, message) = unseen(self.message);
        let open = Self { local_ports, remote_ports, message, ..self.clone() };
        let mut all = Vec::new();
        if matches!(self.protocol, Field::Range(..)) && !self.local.is_ipv4() {
            all.push(Self { protocol: Field::Opaque, ..open.clone() });
        }
        if a || b || c {
            all.push(open);
        }
        all
    }
}
