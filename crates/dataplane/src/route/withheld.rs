//! Own IPv6 addresses that are not used, as duplicate address detection still asks, or somebody
//! else has them (RFC 4862 section 5.4): written by the control part, read by workers.
//!
//! Most of the time there are none, and a worker reads one number.

use super::Neighbours;
use ferrule_base::{MacAddr, VrfId};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering};

/// Addresses that packets neither reach nor come from; shared by all snapshots.
#[derive(Default)]
pub struct Withheld {
    count: AtomicU32,
    /// Each with a link address that means nothing.
    addresses: Neighbours,
}

impl Withheld {
    /// True for an address that is not used: a link-local one on this interface, any other in
    /// this table.
    #[inline]
    pub fn has(&self, iface: u16, vrf: VrfId, own: Ipv6Addr) -> bool {
        self.count.load(Ordering::Relaxed) != 0 && self.is_there(scope(iface, vrf, own), own)
    }

    /// Takes an address out of use; false when there is no room to note it.
    pub fn withhold(&self, iface: u16, vrf: VrfId, own: Ipv6Addr) -> bool {
        let scope = scope(iface, vrf, own);
        if !self.is_there(scope, own) {
            if !self.addresses.set(scope, own.into(), MacAddr::BROADCAST) {
                return false;
            }
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// Puts an address to use.
    pub fn release(&self, iface: u16, vrf: VrfId, own: Ipv6Addr) {
        let scope = scope(iface, vrf, own);
        if self.is_there(scope, own) {
            self.addresses.remove(scope, own.into());
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[cold]
    fn is_there(&self, scope: u16, own: Ipv6Addr) -> bool {
        self.addresses.find(scope, IpAddr::V6(own)).is_some()
    }
}

/// Where an address means one node: a link-local one on its link, any other in its table.
const fn scope(iface: u16, vrf: VrfId, own: Ipv6Addr) -> u16 {
    if own.is_unicast_link_local() { iface } else { vrf.0 }
}
