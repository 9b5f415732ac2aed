//! Numbers that stay when the configuration changes.
//!
//! A packet on its way between two workers names its port or SA by number. So
//! a name keeps its number for as long as it is in use, and a number is given
//! to another name only after a configuration without the old one.

use std::collections::HashMap;

/// Names and their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers(Vec<Option<String>>);

impl Numbers {
    /// The number of `name`, if it has one.
    pub fn get(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|n| n.as_deref() == Some(name))
    }

    /// Numbers for these names: old ones keep theirs, names that are gone free
    /// theirs for the next change. Returns the names' numbers, in order.
    pub fn assign<'a>(&mut self, names: impl Iterator<Item = &'a str>) -> Vec<usize> {
        let slots = self.0.iter().enumerate();
        let mut free: Vec<usize> = slots.filter(|(_, n)| n.is_none()).map(|(i, _)| i).collect();
        free.reverse();
        let taken = std::mem::take(&mut self.0);
        let old: HashMap<&str, usize> =
            taken.iter().enumerate().filter_map(|(i, n)| Some((n.as_deref()?, i))).collect();
        let mut new: HashMap<&str, usize> = HashMap::new();
        let mut count = taken.len();
        let mut next = Vec::new();
        for name in names {
            next.push(*new.entry(name).or_insert_with(|| {
                old.get(name).copied().or_else(|| free.pop()).unwrap_or_else(|| {
                    count += 1;
                    count - 1
                })
            }));
        }
        self.0.resize(count, None);
        for (name, number) in new {
            self.0[number] = Some(name.to_owned());
        }
        next
    }

    /// One more than the highest number.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The name behind a number.
    pub fn name(&self, number: usize) -> Option<&str> {
        self.0.get(number)?.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number_and_a_number_is_not_reused_at_once() {
        let mut n = Numbers::default();
        assert_eq!(n.assign(["a", "b", "c"].into_iter()), [0, 1, 2]);
        assert_eq!(n.assign(["c", "d"].into_iter()), [2, 3], "a and b still travel");
        assert_eq!(n.assign(["d", "e"].into_iter()), [3, 0]);
        assert_eq!((n.name(0), n.name(1), n.len()), (Some("e"), None, 4));
    }
}
