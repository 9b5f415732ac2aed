//! The key table: handles to compiled keys.

use crate::backend::Key;
use crate::key::{InstallError, KeyId};
use ferrule_base::Chunks;

/// Keys that one engine holds at most.
pub const KEYS_MAX: usize = 1 << 20;

/// Keys in slots. A slot is used again, with the next generation, so that an
/// old handle finds nothing rather than another's key.
#[derive(Debug, Default)]
pub struct KeyTable {
    slots: Chunks<Slot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    key: Option<Key>,
}

impl KeyTable {
    /// The key of that handle, if it was not given up.
    #[inline]
    pub fn get(&self, id: KeyId) -> Option<&Key> {
        let slot = self.slots.get(id.slot as usize)?;
        if slot.generation == id.generation { slot.key.as_ref() } else { None }
    }

    /// Keys held.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// No key at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps a key.
    pub fn insert(&mut self, key: Key) -> Result<KeyId, InstallError> {
        let free = self.free.pop();
        let slot = free.unwrap_or(self.slots.len() as u32);
        if let Some(place) = self.slots.get_mut(slot as usize) {
            place.key = Some(key);
            return Ok(KeyId { slot, generation: place.generation });
        }
        if self.slots.len() >= KEYS_MAX {
            return Err(InstallError::Full);
        }
        self.slots.push(Slot { generation: 0, key: Some(key) });
        Ok(KeyId { slot, generation: 0 })
    }

    /// Wipes a key. An old handle does nothing.
    pub fn remove(&mut self, id: KeyId) {
        if let Some(place) = self.slots.get_mut(id.slot as usize)
            && place.generation == id.generation
            && place.key.take().is_some()
        {
            place.generation = place.generation.wrapping_add(1);
            self.free.push(id.slot);
        }
    }
}
