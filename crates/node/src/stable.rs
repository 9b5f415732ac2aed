//! Numbers that stay when the configuration changes.
//!
//! A packet on its way between two workers names its port or SA by number. So
//! a name keeps its number for as long as it is in use, and a number is given
//! to another name only after a configuration without the old one.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Names and their numbers.
#[derive(Clone, Debug)]
pub(crate) struct Numbers<N = Arc<str>> {
    names: Vec<Option<N>>,
    numbers: HashMap<N, usize>,
}

impl<N> Default for Numbers<N> {
    fn default() -> Self {
        Self { names: Vec::new(), numbers: HashMap::new() }
    }
}

impl<N: Clone + Eq + Hash> Numbers<N> {
    /// Numbers for these names: old ones keep theirs, names that are gone free
    /// theirs for the next change. Returns the names' numbers, in order.
    pub fn assign(&mut self, names: impl Iterator<Item = N>) -> Vec<usize> {
        let slots = self.names.iter().enumerate();
        let mut free: Vec<usize> = slots.filter(|(_, n)| n.is_none()).map(|(i, _)| i).collect();
        free.reverse();
        let old = std::mem::take(&mut self.numbers);
        let mut count = self.names.len();
        let mut next = Vec::new();
        for name in names {
            let before = old.get(&name).copied();
            next.push(*self.numbers.entry(name).or_insert_with(|| {
                before.or_else(|| free.pop()).unwrap_or_else(|| {
                    count += 1;
                    count - 1
                })
            }));
        }
        self.names.clear();
        self.names.resize(count, None);
        for (name, &number) in &self.numbers {
            self.names[number] = Some(name.clone());
        }
        next
    }

    /// One more than the highest number.
    pub fn len(&self) -> usize {
        self.names.len()
    }
}

impl Numbers {
    /// The number of `name`, if it has one.
    pub fn get(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// The name behind a number.
    pub fn name(&self, number: usize) -> Option<&str> {
        self.names.get(number)?.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number_and_a_number_is_not_reused_at_once() {
        let mut n = Numbers::default();
        let mut assign = |names: &[&str]| n.assign(names.iter().map(|&name| name.into()));
        assert_eq!(assign(&["a", "b", "c"]), [0, 1, 2]);
        assert_eq!(assign(&["c", "d"]), [2, 3], "a and b still travel");
        assert_eq!(assign(&["d", "e"]), [3, 0]);
        assert_eq!((n.name(0), n.name(1), n.len()), (Some("e"), None, 4));
        assert_eq!((n.get("e"), n.get("c")), (Some(0), None));
    }
}
