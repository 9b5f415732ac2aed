//! Values by number: the SAs of a node.

/// Things by number; a number that is free is given again.
pub(crate) struct Slab<T> {
    all: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { all: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub fn insert(&mut self, new: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.all[number as usize] = Some(new);
            return number;
        }
        self.all.push(Some(new));
        self.all.len() as u32 - 1
    }

    pub fn get(&self, number: u32) -> Option<&T> {
        self.all.get(number as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.all.get_mut(number as usize)?.as_mut()
    }

    pub fn remove(&mut self, number: u32) -> Option<T> {
        let gone = self.all.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(gone)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.all).filter_map(|(number, one)| Some((number, one.as_ref()?)))
    }
}
