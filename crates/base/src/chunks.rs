//! A list that grows without moving its items.

/// Places of a chunk.
const CHUNK: usize = 1024;

/// List in chunks: another element never costs more than a chunk, however many there are. A
/// worker that is given an SA beside a hundred thousand others does not stand still to copy them.
#[derive(Debug)]
pub struct Chunks<T>(Vec<Vec<T>>);

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Chunks<T> {
    /// An empty list.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Number of elements.
    #[inline]
    pub const fn len(&self) -> usize {
        match self.0.as_slice() {
            [] => 0,
            [all @ .., last] => all.len() * CHUNK + last.len(),
        }
    }

    /// True without elements.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an element behind all others.
    pub fn push(&mut self, new: T) {
        if self.0.last().is_none_or(|last| last.len() == CHUNK) {
            self.0.push(Vec::with_capacity(CHUNK));
        }
        if let Some(last) = self.0.last_mut() {
            last.push(new);
        }
    }

    /// The element at a place.
    #[inline(always)]
    pub fn get(&self, at: usize) -> Option<&T> {
        self.0.get(at / CHUNK)?.get(at % CHUNK)
    }

    /// The same, to change.
    #[inline(always)]
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.0.get_mut(at / CHUNK)?.get_mut(at % CHUNK)
    }

    /// Iterates over every item, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_where_they_are() {
        let mut list = Chunks::default();
        assert!(list.is_empty() && list.get(0).is_none());
        list.push(0);
        let first: *const usize = list.get(0).unwrap();
        (1..5000).for_each(|n| list.push(n));
        assert_eq!((list.len(), list.get(5000), list.get(usize::MAX)), (5000, None, None));
        assert!((0..5000).all(|n| list.get(n) == Some(&n)));
        assert!(list.iter().copied().eq(0..5000));
        assert_eq!(std::ptr::from_ref(list.get(0).unwrap()), first);
        *list.get_mut(4321).unwrap() = 7;
        assert_eq!(list.get(4321), Some(&7));
    }
}
