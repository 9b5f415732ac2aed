//! Commands that a device had no room for: in order, and no more than two for a slot.
//!
//! ```text
//!   device full │ install 3 │ retire 3 │ install 3 │ retire 3 …   keys come and go
//!   owed        │ (what the device has in slot 3: retire 3) │ install 3, the last
//! ```
//!
//! A key that is retired before the device heard of it is not mentioned at all. So however
//! long a device is full, the commands owed are bounded by the number of keys.

use super::Command;
use ferrule_base::Instant;
use std::collections::{BTreeMap, HashMap};

/// The commands, by when they were given.
#[derive(Default)]
pub(super) struct Owed {
    commands: BTreeMap<u64, Command>,
    /// Installs among them, by slot.
    installs: HashMap<u32, u64>,
    given: u64,
    /// Time since which the device has had no room.
    since: Option<Instant>,
}

impl Owed {
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Time since which the device takes no command.
    pub const fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Adds a command.
    pub fn add(&mut self, command: Command) {
        match &command {
            Command::Install(slot, _) => drop(self.installs.insert(*slot, self.given)),
            Command::Retire(slot) => {
                if let Some(unheard) = self.installs.remove(slot) {
                    self.commands.remove(&unheard);
                    return;
                }
            }
        }
        self.commands.insert(self.given, command);
        self.given += 1;
    }

    /// The first.
    pub fn next(&mut self) -> Option<Command> {
        let (number, command) = self.commands.pop_first()?;
        if let Command::Install(slot, _) = &command
            && self.installs.get(slot) == Some(&number)
        {
            self.installs.remove(slot);
        }
        Some(command)
    }

    /// The device took one.
    pub const fn took(&mut self) {
        self.since = None;
    }

    /// Puts back a command that the device did not accept; it stays the first.
    pub fn put_back(&mut self, now: Instant, command: Command) {
        let number = self.commands.first_key_value().map_or(self.given, |(first, _)| *first);
        // Its own number, or a free one in front of all others.
        let number = number.wrapping_sub(1);
        if let Command::Install(slot, _) = &command {
            self.installs.entry(*slot).or_insert(number);
        }
        self.commands.insert(number, command);
        self.since.get_or_insert(now);
    }

    /// The device is given up: it is told all keys when it starts.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_base::Secret;
    use ferrule_crypto::{Aes, KeySpec, Suite};

    fn install(slot: u32, octet: u8) -> Command {
        let key = Secret::new(vec![octet; 16]);
        let spec = KeySpec::new(Suite::AesGcm(Aes::Aes128), key, Secret::new(Vec::new()));
        Command::Install(slot, Box::new(spec))
    }

    /// Slots in order, with the key's octet or nothing for a retired one.
    fn all(owed: &mut Owed) -> Vec<(u32, Option<u8>)> {
        std::iter::from_fn(|| owed.next())
            .map(|command| match command {
                Command::Install(slot, spec) => (slot, spec.key.expose().first().copied()),
                Command::Retire(slot) => (slot, None),
            })
            .collect()
    }

    #[test]
    fn commands_owed_to_an_engine_keep_their_order_and_are_bounded_by_its_keys() {
        let mut owed = Owed::default();
        for round in 0..1000_u32 {
            for slot in 0..4 {
                owed.add(Command::Retire(slot));
                owed.add(install(slot, round as u8));
                if round < 999 {
                    owed.add(Command::Retire(slot));
                }
                // The command that a device did not take stays where it was.
                let first = owed.next().expect("there are some");
                owed.put_back(Instant::from_millis(u64::from(round)), first);
            }
            assert!(owed.len() <= 3 * 4 * 1000);
        }
        assert_eq!(owed.since(), Some(Instant::ZERO), "since the first refusal");
        owed.took();
        assert_eq!(owed.since(), None);
        let told = all(&mut owed);
        for slot in 0..4 {
            let of_slot: Vec<_> = told.iter().filter(|(s, _)| *s == slot).collect();
            assert_eq!(of_slot.last(), Some(&&(slot, Some(231))), "the last key is the last told");
            assert_eq!(of_slot.iter().filter(|(_, key)| key.is_some()).count(), 1);
        }
        assert!(owed.is_empty());
    }

    #[test]
    fn a_key_that_is_retired_before_the_engine_heard_of_it_is_not_mentioned() {
        let mut owed = Owed::default();
        for _ in 0..5000 {
            owed.add(install(7, 1));
            owed.add(Command::Retire(7));
        }
        assert!(owed.is_empty());
        owed.add(install(7, 2));
        let first = owed.next().expect("one");
        owed.put_back(Instant::ZERO, first);
        owed.add(install(8, 3));
        owed.add(Command::Retire(7));
        assert_eq!(all(&mut owed), [(8, Some(3))], "also one that was offered");
    }
}
