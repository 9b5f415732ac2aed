//! The keys of a queue pair, as the host keeps them: to install them again after
//! a reset, and to wipe each when its last job is back.

use ferrule_crypto::key::InstallError;
use ferrule_crypto::table::KEYS_MAX;
use ferrule_crypto::{KeyId, KeySpec};

/// One key.
pub(super) struct Held {
    pub spec: Box<KeySpec>,
    /// The same key in the worker's own software, if that stands in.
    pub twin: Option<KeyId>,
    flying: u32,
    retired: bool,
}

struct Slot {
    generation: u32,
    held: Option<Held>,
}

/// Key table of the host.
#[derive(Default)]
pub(super) struct Keys {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Keys {
    /// Keys held, retired ones that wait for jobs included.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Keeps a key.
    pub fn insert(&mut self, spec: &KeySpec, twin: Option<KeyId>) -> Result<KeyId, InstallError> {
        let held = Held { spec: Box::new(spec.clone()), twin, flying: 0, retired: false };
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < KEYS_MAX => {
                self.slots.push(Slot { generation: 0, held: None });
                self.slots.len() as u32 - 1
            }
            None => return Err(InstallError::Full),
        };
        let place = &mut self.slots[slot as usize];
        place.held = Some(held);
        Ok(KeyId { slot, generation: place.generation })
    }

    fn held(&mut self, id: KeyId) -> Option<&mut Held> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        slot.held.as_mut().filter(|_| slot.generation == id.generation)
    }

    /// True if jobs may be submitted with this key.
    pub fn is_usable(&mut self, id: KeyId) -> bool {
        self.held(id).is_some_and(|held| !held.retired)
    }

    /// The key in the worker's own software.
    pub fn twin(&mut self, id: KeyId) -> Option<KeyId> {
        self.held(id)?.twin
    }

    /// A job of this key is under way.
    pub fn fly(&mut self, id: KeyId) {
        if let Some(held) = self.held(id) {
            held.flying += 1;
        }
    }

    /// A job of this key is back. The key, if it was the last of a retired one.
    pub fn land(&mut self, id: KeyId) -> Option<Held> {
        let held = self.held(id)?;
        held.flying = held.flying.saturating_sub(1);
        if held.retired && held.flying == 0 { self.remove(id) } else { None }
    }

    /// Gives a key up. The key, if no job of it is under way.
    pub fn retire(&mut self, id: KeyId) -> Option<Held> {
        let held = self.held(id)?;
        held.retired = true;
        if held.flying == 0 { self.remove(id) } else { None }
    }

    fn remove(&mut self, id: KeyId) -> Option<Held> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        let held = slot.held.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot);
        Some(held)
    }

    /// Every key with its slot.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Held)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(at, slot)| Some((at as u32, slot.held.as_ref()?)))
    }
}
