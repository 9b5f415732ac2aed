//! The receive channels of a SecY, found by SCI.

use super::state::ANS;

/// Receive channels of one SecY at most.
pub const CHANNELS_MAX: usize = 256;

/// No association.
pub(super) const NONE: u32 = u32::MAX;

/// Places of a channel that has no association.
pub(super) const NOWHERE: &[u32; ANS] = &[NONE; ANS];

/// A receive channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channel {
    pub sci: u64,
    /// Places in the slab, by association number; of a free slot all are [`NONE`].
    pub sas: [u32; ANS],
}

impl Channel {
    const FREE: Self = Self { sci: 0, sas: [NONE; ANS] };

    const fn is_free(&self) -> bool {
        let [a, b, c, d] = self.sas;
        a == NONE && b == NONE && c == NONE && d == NONE
    }
}

/// Open addressing; a power of two, at most half of it used, so that a search ends.
#[derive(Debug, Default)]
pub(super) struct Channels {
    slots: Box<[Channel]>,
    count: usize,
}

impl Channels {
    /// Number of channels.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// The channel of an SCI.
    #[inline]
    pub fn find(&self, sci: u64) -> Option<&Channel> {
        let mut at = self.home(sci);
        loop {
            let slot = self.slots.get(at)?;
            if slot.is_free() {
                return None;
            }
            if slot.sci == sci {
                return Some(slot);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// The places of a channel's associations; without one, [`NOWHERE`].
    #[inline(always)]
    pub fn places(&self, sci: u64) -> &[u32; ANS] {
        let mut at = self.home(sci);
        while let Some(slot) = self.slots.get(at) {
            if slot.sci == sci || slot.is_free() {
                return &slot.sas;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        NOWHERE
    }

    /// The only channel.
    #[inline]
    pub fn only(&self) -> Option<&Channel> {
        if self.count == 1 { self.iter().next() } else { None }
    }

    /// Iterates over every channel.
    pub fn iter(&self) -> impl Iterator<Item = &Channel> {
        self.slots.iter().filter(|slot| !slot.is_free())
    }

    /// The place of one association.
    pub fn place(&self, sci: u64, an: u8) -> Option<u32> {
        let place = *self.find(sci)?.sas.get(usize::from(an))?;
        (place != NONE).then_some(place)
    }

    /// Notes where an association is, or with [`NONE`] that it is gone; its channel goes
    /// with its last one.
    pub fn set(&mut self, sci: u64, an: u8, place: u32) {
        let mut all: Vec<Channel> = self.iter().copied().collect();
        match all.iter_mut().find(|channel| channel.sci == sci) {
            Some(channel) => channel.sas[usize::from(an) % ANS] = place,
            None => {
                let mut channel = Channel { sci, ..Channel::FREE };
                channel.sas[usize::from(an) % ANS] = place;
                all.push(channel);
            }
        }
        all.retain(|channel| !channel.is_free());
        self.count = all.len();
        self.slots = vec![Channel::FREE; (2 * all.len()).next_power_of_two().max(2)].into();
        for channel in all {
            let mut at = self.home(channel.sci);
            while !self.slots[at].is_free() {
                at = (at + 1) & (self.slots.len() - 1);
            }
            self.slots[at] = channel;
        }
    }

    #[inline]
    fn home(&self, sci: u64) -> usize {
        // The high bits of a multiple of 2^64 / phi.
        let mixed = sci.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        mixed as usize & self.slots.len().wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn channels_are_those_of_a_map(
            steps in prop::collection::vec((0u64..40, 0u8..4, prop::option::of(0u32..9)), 0..200),
        ) {
            let (mut channels, mut model) = (Channels::default(), HashMap::new());
            for (sci, an, place) in steps {
                // SCIs that differ in their upper and in their lower half.
                let sci = if sci % 2 == 0 { sci << 50 } else { sci };
                channels.set(sci, an, place.unwrap_or(NONE));
                match place {
                    Some(place) => model.insert((sci, an), place),
                    None => model.remove(&(sci, an)),
                };
                for &sci in model.keys().map(|(sci, _)| sci).chain([&77]) {
                    for an in 0..4 {
                        let expected = model.get(&(sci, an)).copied();
                        prop_assert_eq!(channels.place(sci, an), expected);
                        let place = channels.places(sci)[usize::from(an)];
                        prop_assert_eq!(place, expected.unwrap_or(NONE));
                    }
                }
                let scis: std::collections::HashSet<_> = model.keys().map(|k| k.0).collect();
                prop_assert_eq!(channels.len(), scis.len());
                prop_assert_eq!(channels.only().is_some(), scis.len() == 1);
            }
        }
    }
}
