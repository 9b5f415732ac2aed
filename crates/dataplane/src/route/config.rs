//! Routes and adjacencies.

use super::fib::{Cell, Fib};
use arrayvec::ArrayVec;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Labels that one adjacency or cross-connect pushes at most.
pub const LABELS_MAX: usize = 4;

/// Labels to push, the innermost first.
pub type Labels = ArrayVec<u32, LABELS_MAX>;

/// Handling of TTL where a label is put on or taken off (RFC 3443).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TtlModel {
    /// The label carries the packet's TTL on, and back on the way out.
    #[default]
    Uniform,
    /// The label's TTL is its own.
    Pipe,
}

/// A routing table.
#[derive(Default)]
pub struct Vrf {
    /// The name in the configuration.
    pub name: Box<str>,
    v4: Fib<u32>,
    v6: Fib<u128>,
}

impl Vrf {
    /// A table of these prefixes (address and length); of two routes for one
    /// prefix the later one holds. Own addresses are host routes to
    /// [`Route::Local`], link-local ones included.
    pub fn new(name: &str, routes: impl IntoIterator<Item = ((IpAddr, u8), Route)>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for ((address, len), route) in routes {
            match address {
                IpAddr::V4(a) => v4.push((u32::from(a), len, route)),
                IpAddr::V6(a) => v6.push((u128::from(a), len, route)),
            }
        }
        Self { name: name.into(), v4: Fib::new(v4), v6: Fib::new(v6) }
    }

    /// The route of an IPv4 address.
    #[inline]
    pub fn v4(&self, address: Ipv4Addr) -> Option<Route> {
        self.v4.lookup(u32::from(address))
    }

    /// The route of an IPv6 address.
    #[inline]
    pub fn v6(&self, address: Ipv6Addr) -> Option<Route> {
        self.v6.lookup(u128::from(address))
    }

    /// The routes of IPv4 addresses, for a batch: `found` as `addresses`, and as many.
    pub fn v4_all(&self, addresses: &[u32], found: &mut [Cell]) {
        self.v4.look_up_all(addresses, found);
    }

    /// The route of an address.
    #[inline]
    pub fn route(&self, address: IpAddr) -> Option<Route> {
        match address {
            IpAddr::V4(a) => self.v4(a),
            IpAddr::V6(a) => self.v6(a),
        }
    }
}

/// Target of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// An address of the node itself.
    Local,
    /// Forward by this adjacency.
    Via(u32),
    /// A host behind the node, by this adjacency, for which the node does IPsec: sealed
    /// packets end here (a bump in the stack, RFC 4301 section 3.3).
    Guarded(u32),
    /// Drop without an error.
    Discard,
    /// Every host of a connected network, or the network itself: its broadcast address or
    /// its lowest one (RFC 1812 section 4.2.3.1). No packet may come from it, and none is
    /// forwarded to it.
    Broadcast,
}

/// A way out: an interface, and the neighbour on it.
#[derive(Clone, Debug)]
pub struct Adjacency {
    /// The logical interface.
    pub iface: u16,
    /// The neighbour's place in [`Neighbours`](super::Neighbours); nothing: the
    /// destination itself is the neighbour (a connected network).
    pub neighbour: Option<u32>,
    /// Labels to push.
    pub labels: Labels,
    /// TTL model of the labels.
    pub ttl: TtlModel,
    /// An entropy label goes below the outermost one (RFC 6790).
    pub entropy: bool,
    /// Adjacencies of equal cost, of which each flow takes one, in place of this; none: itself.
    pub paths: Vec<u32>,
}

impl Adjacency {
    /// The network of an interface, without labels.
    pub const fn on_link(iface: u16) -> Self {
        Self {
            iface,
            neighbour: None,
            labels: Labels::new_const(),
            ttl: TtlModel::Uniform,
            entropy: false,
            paths: Vec::new(),
        }
    }
}
