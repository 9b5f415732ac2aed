//! Configuration of an interface for the core, and the core's bounds and times.

use ferrule_base::{Duration, MacAddr};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Neighbours at most.
pub const ENTRIES_MAX: usize = 2048;
/// Neighbours at most that a node should keep for good: others find room beside them.
pub const KEPT_MAX: usize = ENTRIES_MAX / 2;
/// Neighbours at most for which the node did not ask: they asked for the node.
pub const HEARD_MAX: usize = ENTRIES_MAX / 2;
/// Neighbours that are asked for and have not answered, at most (RFC 6583: a
/// scan of a network must not use up the table).
pub const INCOMPLETE_MAX: usize = 256;
/// Questions that wait to be sent at most, and answers; further ones are not made.
pub const TRANSMITS_MAX: usize = 1024;
/// Orders and news that wait at most, with orders under way, before messages are refused.
pub const PENDING_MAX: usize = 4096;
/// Times a question is asked (RFC 4861 section 10, MAX_MULTICAST_SOLICIT and
/// MAX_UNICAST_SOLICIT).
pub const TRIES_MAX: u8 = 3;
/// Interval between two questions (RETRANS_TIMER).
pub const RETRY: Duration = Duration::from_secs(1);
/// Validity of an answer (REACHABLE_TIME).
pub const REACHABLE: Duration = Duration::from_secs(30);
/// Time that a neighbour stays stale before it is asked (DELAY_FIRST_PROBE_TIME).
pub const STALE: Duration = Duration::from_secs(5);
/// Time until a next hop that a configuration names is asked for again, or a neighbour that the
/// data path refused may be.
pub const AGAIN: Duration = Duration::from_secs(5);
/// Interval between two news of refusals of the data path.
pub const REFUSAL_TOLD: Duration = Duration::from_secs(10);
/// Times an address is announced (RFC 5227 section 1.1, ANNOUNCE_NUM).
pub const ANNOUNCES: u8 = 2;
/// Interval between two announcements (ANNOUNCE_INTERVAL).
pub const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
/// Time for which duplicate address detection listens (RFC 4862 section 5.4).
pub const TENTATIVE: Duration = Duration::from_secs(1);
/// Interval between two defences of an address (RFC 5227 section 1.1, DEFEND_INTERVAL).
pub const DEFEND_INTERVAL: Duration = Duration::from_secs(10);
/// Time until the report of a newly joined group is repeated (RFC 3810 section 9.11).
pub const REPORT_AGAIN: Duration = Duration::from_secs(1);
/// The least time that a query is given, so that a flood of them is not answered one by one.
pub const QUERY_DELAY_MIN: Duration = Duration::from_millis(10);
/// The longest time after which a query is answered.
pub const QUERY_DELAY_MAX: Duration = Duration::from_secs(10);

/// A routed interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number.
    pub id: u16,
    /// Its link address.
    pub mac: MacAddr,
    /// Own IPv4 addresses with prefix lengths.
    pub v4: Vec<(Ipv4Addr, u8)>,
    /// Own IPv6 addresses with prefix lengths.
    pub v6: Vec<(Ipv6Addr, u8)>,
}

/// True if the first `len` bits agree.
fn same_net_v4(a: Ipv4Addr, b: Ipv4Addr, len: u8) -> bool {
    let low = 32u32.saturating_sub(len.into());
    (u64::from(u32::from(a) ^ u32::from(b)) >> low) == 0
}

/// True if the first `len` bits agree.
fn same_net_v6(a: Ipv6Addr, b: Ipv6Addr, len: u8) -> bool {
    let low = 128u32.saturating_sub(len.into());
    (u128::from(a) ^ u128::from(b)).checked_shr(low).unwrap_or(0) == 0
}

impl Interface {
    /// Every own address.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let v4 = self.v4.iter().map(|&(a, _)| IpAddr::V4(a));
        v4.chain(self.v6.iter().map(|&(a, _)| IpAddr::V6(a)))
    }

    /// True if an address is on one of the interface's networks.
    pub fn on_link(&self, ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(ip) => self.v4.iter().any(|&(a, len)| same_net_v4(a, ip, len)),
            IpAddr::V6(ip) => {
                ip.is_unicast_link_local()
                    || self.v6.iter().any(|&(a, len)| same_net_v6(a, ip, len))
            }
        }
    }

    /// True if an address can be one host's: not a group, not a network's own or its
    /// broadcast, not unspecified or loopback.
    pub fn is_host(&self, ip: IpAddr) -> bool {
        if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() {
            return false;
        }
        let IpAddr::V4(ip) = ip else { return true };
        !self.v4.iter().any(|&(own, len)| {
            let host = u32::MAX.checked_shr(len.into()).unwrap_or(0);
            let part = u32::from(ip) & host;
            same_net_v4(own, ip, len) && len < 31 && (part == 0 || part == host)
        }) && !ip.is_broadcast()
    }

    /// The IPv4 address to ask for `target` from.
    pub fn source_v4(&self, target: Ipv4Addr) -> Option<Ipv4Addr> {
        let near = self.v4.iter().find(|&&(a, len)| same_net_v4(a, target, len));
        near.or(self.v4.first()).map(|&(a, _)| a)
    }

    /// The IPv6 addresses to ask for `target` from, the best first.
    pub fn sources_v6(&self, target: Ipv6Addr) -> impl Iterator<Item = Ipv6Addr> + '_ {
        let link_local = target.is_unicast_link_local();
        let fits = move |&&(a, len): &&(Ipv6Addr, u8)| {
            if link_local { a.is_unicast_link_local() } else { same_net_v6(a, target, len) }
        };
        let near = self.v6.iter().filter(fits);
        near.chain(self.v6.iter().filter(move |e| !fits(e))).map(|&(a, _)| a)
    }
}
