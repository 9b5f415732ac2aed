//! Addresses that no packet between hosts may have (RFC 1812 sections 5.3.7 and 5.3.8, RFC
//! 4291 section 2.5), and the node's own, from which no other host sends.

use crate::graph::FLAG_LOCAL;
use crate::route::Route;
use crate::tables::{Iface, IfaceKind, Tables};
use ferrule_pipeline::Packet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// True if a host can have the address: it is not of this network (0/8) or loopback, no
/// group, not reserved, not the broadcast.
#[inline]
pub(super) const fn is_host_v4(address: Ipv4Addr) -> bool {
    let first = address.to_bits() >> 24;
    (first.wrapping_sub(1) < 223) & (first != 127)
}

/// True if a host can have the address: it is no group, not loopback, not unspecified, not
/// IPv4 in disguise.
#[inline]
pub(super) const fn is_host_v6(address: Ipv6Addr) -> bool {
    !address.is_multicast() && !is_internal_v6(address)
}

/// True for addresses that have no place on a link: `::`, `::1` and `::ffff:0:0/96`.
#[inline]
pub(super) const fn is_internal_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, high, low] = address.segments();
    a | b | c | d | e == 0 && (f == 0xffff || f == 0 && high == 0 && low <= 1)
}

/// True for addresses that have no place on a link: this network (0/8) and loopback.
#[inline]
pub(super) const fn is_internal_v4(address: Ipv4Addr) -> bool {
    matches!(address.octets()[0], 0 | 127)
}

/// True if an address is the node's own, as of a sealed packet's outer header.
pub(super) fn is_ours(tables: &Tables, packet: &Packet, address: IpAddr) -> bool {
    let vrf = tables.vrfs.get(usize::from(packet.meta().vrf.0));
    vrf.is_some_and(|vrf| vrf.route(address) == Some(Route::Local))
}

/// True if a packet that was not made here claims to come from this node, or from all hosts
/// of a network that it is on: an answer would go to the node itself, or to all of them.
#[inline]
pub(super) fn is_forged(tables: &Tables, packet: &Packet, src: IpAddr) -> bool {
    packet.meta().flags & FLAG_LOCAL == 0
        && tables.hot.reserved.may_have(folded(src)) != 0
        && is_reserved(tables, packet, src)
}

#[cold]
fn is_reserved(tables: &Tables, packet: &Packet, src: IpAddr) -> bool {
    let vrf = tables.vrfs.get(usize::from(packet.meta().vrf.0));
    let route = vrf.and_then(|vrf| vrf.route(src));
    matches!(route, Some(Route::Local | Route::Broadcast))
}

/// An address in 32 bits.
#[inline(always)]
fn folded(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => {
            let [a, b, c, d] = [96, 64, 32, 0].map(|low| (address.to_bits() >> low) as u32);
            a ^ b.rotate_left(8) ^ c.rotate_left(16) ^ d
        }
    }
}

/// Network and broadcast address of a network with more than two hosts (RFC 1812 section
/// 4.2.3.1, RFC 3021).
pub fn broadcasts(own: Ipv4Addr, len: u8) -> Option<[Ipv4Addr; 2]> {
    let hosts = u32::MAX.checked_shr(len.into()).filter(|&hosts| hosts > 1)?;
    let network = own.to_bits() & !hosts;
    Some([network, network | hosts].map(Ipv4Addr::from))
}

/// A Bloom filter of the addresses that no other host may send from: the node's own, and
/// its networks' broadcasts. It answers for one packet in a few instructions; a hit is
/// looked up in the packet's own routing table.
pub(crate) struct Reserved {
    /// A bit for each value of the hash.
    bits: Box<[u32]>,
    /// 32 less the hash's bits.
    shift: u32,
}

/// Bits for each address: one foreign address of so many is looked up in vain.
const BITS_EACH: usize = 256;
/// Bits of a filter at least and at most.
const BITS: (usize, usize) = (1 << 10, 1 << 20);

impl Default for Reserved {
    fn default() -> Self {
        Self { bits: [0; BITS.0 / 32].into(), shift: 32 - BITS.0.ilog2() }
    }
}

impl Reserved {
    /// The addresses of these interfaces.
    pub fn of(ifaces: &[Iface]) -> Self {
        let routed = ifaces.iter().filter_map(|iface| match &iface.kind {
            IfaceKind::Routed(routed) => Some(routed),
            _ => None,
        });
        let mut addresses = Vec::new();
        for iface in routed {
            for &(own, len) in &iface.v4 {
                addresses.push(own.to_bits());
                addresses.extend(broadcasts(own, len).into_iter().flatten().map(u32::from));
            }
            addresses.extend(iface.v6.iter().map(|&(own, _)| folded(own.into())));
        }
        let count = (addresses.len() * BITS_EACH).next_power_of_two().clamp(BITS.0, BITS.1);
        let mut this = Self { bits: vec![0; count / 32].into(), shift: 32 - count.ilog2() };
        for address in addresses {
            let hash = this.hash(address);
            this.bits[hash / 32] |= 1 << (hash % 32);
        }
        this
    }

    #[inline(always)]
    const fn hash(&self, address: u32) -> usize {
        (address.wrapping_mul(0x9e37_79b1) >> self.shift) as usize
    }

    /// Non-zero for every such address, and for few others.
    #[inline(always)]
    pub fn may_have(&self, address: u32) -> u32 {
        let hash = self.hash(address);
        self.bits.get(hash / 32).map_or(0, |bits| bits & 1 << (hash % 32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::tests::rig::Rig;

    #[test]
    fn filter_has_own_addresses_and_broadcasts_and_few_others() {
        let rig = Rig::new();
        let reserved = Reserved::of(&rig.tables.ifaces);
        let has = |address: &str| reserved.may_have(folded(address.parse().unwrap())) != 0;
        for own in ["10.0.0.1", "10.0.0.0", "10.0.0.255", "172.16.0.1", "fe80::1", "2001:db8::1"] {
            assert!(has(own), "{own}");
        }
        let others = (0..100_000_u32).map(|n| n.wrapping_mul(0x1234_5677));
        let hits = others.filter(|&n| reserved.may_have(n) != 0).count();
        assert!(hits < 2_000, "{hits}");
        assert_eq!(Reserved::default().may_have(7), 0);
    }

    #[test]
    fn networks_have_broadcasts_unless_they_are_two_hosts_or_one() {
        let of = |len| broadcasts(Ipv4Addr::new(10, 1, 2, 3), len);
        let all = |net: [u8; 4], all: [u8; 4]| Some([net.into(), all.into()]);
        assert_eq!(of(24), all([10, 1, 2, 0], [10, 1, 2, 255]));
        assert_eq!(of(30), all([10, 1, 2, 0], [10, 1, 2, 3]));
        assert_eq!(of(0), all([0, 0, 0, 0], [255, 255, 255, 255]));
        assert_eq!((of(31), of(32)), (None, None));
    }

    #[test]
    fn hosts_are_told_from_what_no_link_has() {
        for bad in ["0.1.2.3", "127.9.9.9"] {
            assert!(is_internal_v4(bad.parse().unwrap()) && !is_host_v4(bad.parse().unwrap()));
        }
        for bad in ["::", "::1", "::ffff:10.0.0.1"] {
            assert!(is_internal_v6(bad.parse().unwrap()) && !is_host_v6(bad.parse().unwrap()));
        }
        for good in ["::2", "2001:db8::1", "fe80::1", "64:ff9b::a00:1"] {
            assert!(is_host_v6(good.parse().unwrap()), "{good}");
        }
        assert!(
            is_host_v4("1.2.3.4".parse().unwrap()) && !is_host_v4("240.0.0.1".parse().unwrap())
        );
    }
}
