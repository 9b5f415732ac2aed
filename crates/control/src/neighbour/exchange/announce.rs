//! Own addresses: checked, announced, defended (RFC 5227 sections 2.3 and 2.4,
//! RFC 4862 section 5.4).

use crate::neighbour::config::{ANNOUNCE_INTERVAL, ANNOUNCES, DEFEND_INTERVAL, TENTATIVE};
use crate::neighbour::{Discovery, Interface, Key, News, Own, Timer};
use ferrule_base::Instant;
use std::collections::btree_map::Entry;
use std::net::IpAddr;

impl Discovery {
    /// An interface is there, or has changed: addresses that it has no more are forgotten,
    /// new ones are checked and announced.
    pub(in crate::neighbour) fn configure(&mut self, now: Instant, interface: Interface) {
        let id = interface.id;
        let moved = self.ifaces.get(&id).is_some_and(|old| old.mac != interface.mac);
        let now_ours: Vec<Key> = interface.addresses().map(|ip| (id, ip)).collect();
        let gone = |key: &Key| key.0 == id && (moved || !now_ours.contains(key));
        let left: Vec<Key> = self.own.extract_if(.., |key, _| gone(key)).map(|(k, _)| k).collect();
        self.defended.retain(|key, _| !gone(key));
        self.table.forget(|timer| match timer {
            Timer::Announce(key) | Timer::Join(key) => gone(&key),
            _ => false,
        });
        // From the addresses that stay, in so far as they do.
        left.into_iter().filter(|key| !now_ours.contains(key)).for_each(|key| self.leave(key));
        for key in self.table.keys(id) {
            let own = now_ours.contains(&key);
            let kept = self.table.is_kept(key);
            if own || !kept && !interface.on_link(key.1) {
                self.forget(key);
            }
        }
        self.ifaces.insert(id, interface);
        for key in now_ours {
            let first = match key.1 {
                IpAddr::V4(_) => Own::Announcing(ANNOUNCES),
                IpAddr::V6(_) => Own::Tentative,
            };
            if let Entry::Vacant(place) = self.own.entry(key) {
                place.insert(first);
                self.begin(now, key);
            }
        }
    }

    /// An interface is gone.
    pub(in crate::neighbour) fn gone(&mut self, iface: u16) {
        self.ifaces.remove(&iface);
        self.own.retain(|key, _| key.0 != iface);
        self.defended.retain(|key, _| key.0 != iface);
        self.queried.remove(&iface);
        self.table.forget(|timer| match timer {
            Timer::Announce(key) | Timer::Join(key) => key.0 == iface,
            Timer::Report(at) => at == iface,
            _ => false,
        });
        self.transmits.retain(|(at, _)| *at != iface);
        self.answers.retain(|(at, _)| *at != iface);
        for key in self.table.keys(iface) {
            self.forget(key);
        }
    }

    /// A new address of ours.
    fn begin(&mut self, now: Instant, key: Key) {
        match key.1 {
            IpAddr::V4(_) => self.announce(now, key),
            IpAddr::V6(own) => {
                // Or a switch between may keep the answer (RFC 4862 section 5.4.2).
                self.join_first(now, key);
                self.detect(key.0, own);
                self.table.wake(now + TENTATIVE, Timer::Announce(key));
            }
        }
    }

    /// An address of ours is due for its next step.
    pub(in crate::neighbour) fn announce(&mut self, now: Instant, key: Key) {
        let Some(own) = self.own.get_mut(&key) else { return };
        let is_new = *own == Own::Tentative;
        let left = match *own {
            // No other host claimed it.
            Own::Tentative => ANNOUNCES - 1,
            Own::Announcing(left) => left.saturating_sub(1),
            Own::Settled | Own::Duplicate => return,
        };
        *own = if left == 0 { Own::Settled } else { Own::Announcing(left) };
        if left > 0 {
            self.table.wake(now + ANNOUNCE_INTERVAL, Timer::Announce(key));
        }
        if let (iface, IpAddr::V6(ip)) = key
            && is_new
        {
            self.tell(News::Unique { iface, ip });
        }
        self.claim(key);
    }

    fn claim(&mut self, key: Key) {
        match key.1 {
            IpAddr::V4(own) => self.arp_announce(key.0, own),
            IpAddr::V6(own) => self.advertise(key.0, own, None),
        }
    }

    /// Another host had the address before this node, which therefore does not use it.
    pub(super) fn duplicate(&mut self, key: Key) {
        let (iface, ip) = key;
        self.own.insert(key, Own::Duplicate);
        self.leave(key);
        self.tell(News::Duplicate { iface, ip });
    }

    /// Another host claims an address of this node: the address is defended, but not so
    /// often that two hosts answer each other for ever (RFC 5227 section 2.4).
    pub(super) fn conflict(&mut self, now: Instant, key: Key) {
        let last = self.defended.get(&key);
        if !self.is_ours(key) || last.is_some_and(|&last| now.since(last) < DEFEND_INTERVAL) {
            return;
        }
        self.defended.insert(key, now);
        let (iface, ip) = key;
        self.tell(News::Duplicate { iface, ip });
        self.claim(key);
    }
}
