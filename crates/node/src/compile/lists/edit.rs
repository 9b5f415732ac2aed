//! Differences between two lists, by the marks of their entries.

use crate::compile::Mark;
use ferrule_dataplane::acl::EDITS_MAX;
use ferrule_dataplane::ipsec::UNCOUNTED;

/// Differences of a list from an older one.
#[derive(Debug, PartialEq, Eq)]
pub struct Changes {
    /// Place in the list of each entry of the older one; [`UNCOUNTED`] if it has none.
    pub counters: Vec<u32>,
    /// Places of entries that came, each with the place in the older list before which it
    /// stands.
    pub new: Vec<(u32, u32)>,
}

/// The differences between lists that end alike; nothing if they are more than
/// [`EDITS_MAX`]. (Where the lists part they are taken up again where both go on alike after
/// the fewest entries of either.)
pub fn changes(old: &[Mark], now: &[Mark]) -> Option<Changes> {
    let mut changes = Changes { counters: Vec::with_capacity(old.len()), new: Vec::new() };
    let (mut from, mut to, mut left) = (0, 0, EDITS_MAX);
    while from < old.len() || to < now.len() {
        let meet = |&(gone, came): &(usize, usize)| {
            let both = old.get(from + gone).zip(now.get(to + came));
            both.is_some_and(|(old, now)| old == now)
        };
        let ways = |sum: usize| (0..=sum).map(move |gone| (gone, sum - gone));
        let (gone, came) = (0..=left).flat_map(ways).find(meet)?;
        left -= gone + came;
        changes.counters.extend(std::iter::repeat_n(UNCOUNTED, gone));
        from += gone;
        changes.new.extend((to..to + came).map(|place| (from as u32, place as u32)));
        to += came;
        // An entry that both have.
        changes.counters.push(to as u32);
        (from, to) = (from + 1, to + 1);
    }
    Some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(old: &str, now: &str) -> Option<Changes> {
        let marks = |text: &str| text.bytes().map(|b| [b; 16]).collect::<Vec<_>>();
        changes(&marks(old), &marks(now))
    }

    #[test]
    fn changes_of_a_list_are_few_where_few_entries_changed() {
        let gone = UNCOUNTED;
        let changes = |counters: &[u32], new: &[(u32, u32)]| {
            Some(Changes { counters: counters.into(), new: new.into() })
        };
        assert_eq!(of("abc.", "abc."), changes(&[0, 1, 2, 3], &[]));
        assert_eq!(of("abc.", "axbc."), changes(&[0, 2, 3, 4], &[(1, 1)]));
        assert_eq!(of("abc.", "ac."), changes(&[0, gone, 1, 2], &[]));
        assert_eq!(of("abc.", "axc."), changes(&[0, gone, 2, 3], &[(2, 1)]));
        assert_eq!(of("abc.", "xabcy."), changes(&[1, 2, 3, 5], &[(0, 0), (3, 4)]));
        assert_eq!(of(".", "ab."), changes(&[2], &[(0, 0), (0, 1)]));
        assert_eq!(of("ab.", "."), changes(&[gone, gone, 0], &[]));
        assert_eq!(of("aab.", "ab."), changes(&[0, gone, 1, 2], &[]), "twice the same");
    }

    #[test]
    fn changes_of_more_than_a_patch_has_are_none() {
        let old: Vec<Mark> = (0..5_000_u128).map(u128::to_be_bytes).collect();
        let without = |count: usize| [&old[..7], &old[7 + count..]].concat();
        assert!(changes(&old, &without(EDITS_MAX)).is_some());
        assert!(changes(&old, &without(EDITS_MAX + 1)).is_none());
        assert!(changes(&old, &[[1; 16]]).is_none(), "another list altogether");
    }
}
