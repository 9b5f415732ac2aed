//! Numbers that stay when the configuration changes.
//!
//! A packet on its way between two workers names its port or SA by number. So
//! a name keeps its number for as long as it is in use, and a number is given
//! to another name only after a configuration without the old one.

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
    pub fn assign<'a>(&mut self, names: impl Iterator<Item = &'a str> + Clone) -> Vec<usize> {
        let free: Vec<usize> =
            self.0.iter().enumerate().filter(|(_, n)| n.is_none()).map(|(i, _)| i).collect();
        let mut free = free.into_iter();
        let mut next = Vec::new();
        for name in names.clone() {
            next.push(self.get(name).unwrap_or_else(|| {
                let number = free.next().unwrap_or_else(|| {
                    self.0.push(None);
                    self.0.len() - 1
                });
                self.0[number] = Some(name.to_owned());
                number
            }));
        }
        for slot in &mut self.0 {
            if slot.as_deref().is_some_and(|n| !names.clone().any(|name| name == n)) {
                *slot = None;
            }
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
