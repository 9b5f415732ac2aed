//! The neighbours as the data path has them, and orders that make them agree with the
//! core's.
//!
//! ```text
//!   something changed ─▶ queue ── poll_order: Set or Remove, as it is by then ─▶ under way
//!                          ▲                                                       │
//!                          └──────── changed meanwhile ◀── answer: has, or has not ┘
//! ```
//!
//! Of one neighbour one order is under way, so an answer tells the data path's state, even if
//! answers come out of order. There are no more orders than neighbours, however often one moves.

use super::event::Order;
use super::state::Key;
use crate::Token;
use ferrule_base::MacAddr;
use std::collections::{BTreeMap, VecDeque};

/// One neighbour.
#[derive(Debug, Default)]
struct PathEntry {
    /// Link address that the data path has.
    has: Option<MacAddr>,
    /// An order is under way.
    asked: bool,
    /// To be ordered anew; it is in the queue, or will be once the order under way is answered.
    changed: bool,
}

/// Neighbours of which the data path has something, or is to have.
#[derive(Debug, Default)]
pub(super) struct DataPath {
    entries: BTreeMap<Key, PathEntry>,
    queue: VecDeque<Key>,
    /// Orders under way, with the link address of each; none: it is removed.
    asked: BTreeMap<Token, (Key, Option<MacAddr>)>,
    last: u64,
}

impl DataPath {
    /// Orders that wait or are under way.
    pub(super) fn pending(&self) -> usize {
        self.queue.len() + self.asked.len()
    }

    /// True if packets find the neighbour's link address and no order is on its way.
    pub(super) fn is_settled(&self, key: Key) -> bool {
        self.entries.get(&key).is_some_and(|e| e.has.is_some() && !e.asked && !e.changed)
    }

    /// Belief about a neighbour is to be ordered, again if the data path has it: packets may
    /// wait.
    pub(super) fn change(&mut self, key: Key) {
        let entry = self.entries.entry(key).or_default();
        if !entry.asked && !entry.changed {
            self.queue.push_back(key);
        }
        entry.changed = true;
    }

    /// The next order.
    pub(super) fn next(
        &mut self,
        believed: impl Fn(Key) -> Option<MacAddr>,
    ) -> Option<(Token, Order)> {
        while let Some(key) = self.queue.pop_front() {
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            entry.changed = false;
            let (iface, ip) = key;
            let mac = believed(key);
            let order = match (mac, entry.has) {
                (Some(mac), _) => Order::Set { iface, ip, mac },
                (None, Some(_)) => Order::Remove { iface, ip },
                (None, None) => {
                    self.entries.remove(&key);
                    continue;
                }
            };
            entry.asked = true;
            self.last += 1;
            self.asked.insert(Token(self.last), (key, mac));
            return Some((Token(self.last), order));
        }
        None
    }

    /// Takes the answer to an order. For a refused one returns the neighbour, if it was to be
    /// set. (An entry that cannot be removed does not exist.)
    pub(super) fn answered(&mut self, token: Token, is_done: bool) -> Option<Key> {
        let (key, mac) = self.asked.remove(&token)?;
        let entry = self.entries.get_mut(&key)?;
        entry.asked = false;
        if is_done || mac.is_none() {
            entry.has = mac;
        }
        match (entry.changed, entry.has) {
            (true, _) => self.queue.push_back(key),
            (false, None) => _ = self.entries.remove(&key),
            (false, Some(_)) => {}
        }
        mac.filter(|_| !is_done).map(|_| key)
    }
}
