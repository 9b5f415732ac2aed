//! One file for each exchange.

mod announce;
mod arp;
mod listener;
mod nd;

use super::{Discovery, Key};
use ferrule_base::MacAddr;
use std::net::IpAddr;

impl Discovery {
    /// Asks for a neighbour: all, or the one who had it.
    pub(super) fn ask(&mut self, key: Key, known: Option<MacAddr>) {
        match key.1 {
            IpAddr::V4(target) => self.arp_request(key.0, target, known),
            IpAddr::V6(target) => self.solicit(key.0, target, known),
        }
    }
}
