//! Dynamic entries: addresses, routes and incoming labels that a program gives a running node,
//! beside those of its configuration.
//!
//! ```text
//!   deltas ─▶ checked against the configuration ─▶ entries, by names
//!                                                     │ with every compilation
//!                                                     ▼
//!                                  active ones, by numbers ─▶ tables
//! ```
//!
//! The configuration comes first: an entry for a prefix or label of the configuration waits until
//! it is no longer there. So does one that leads nowhere: its interface is gone, or the network of
//! its next hop (RFC 4271 section 9.1.2.1 calls the route unresolvable). A node that starts again
//! has none.

use crate::config::{
    Config, Connected, InterfaceConfig, LabelAction, LabelConfig, RouteConfig, Via, mask,
};
use ferrule_control::Refused;
use ferrule_dataplane::link::PATHS_MAX;
use ferrule_dataplane::route::TtlModel;
use ferrule_dataplane::route::config::LABELS_MAX;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Dynamic entries of a node at most, of each kind.
pub const DYNAMIC_MAX: usize = 1 << 20;

/// An address and a prefix length, in text `192.0.2.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prefix {
    /// Address; of a route, the network's.
    pub address: IpAddr,
    /// Prefix length, at most the address's bits.
    pub len: u8,
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(address, len)| {
            let (address, len): (IpAddr, u8) = (address.parse().ok()?, len.parse().ok()?);
            (len <= bits(address)).then_some(Self { address, len })
        });
        parsed.ok_or_else(|| {
            format!("`{text}` is not an address with a prefix length, as 192.0.2.0/24")
        })
    }
}

impl TryFrom<String> for Prefix {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> Self {
        prefix.to_string()
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

/// Bits of an address of a family.
const fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Next hop of a route or label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NextHop {
    /// Its address. Default: the packet's destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<IpAddr>,
    /// Interface to it. Default: the one whose network has the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Labels to push, the outermost first: 16 to 1048575, or 0 and 2 for explicit null.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<u32>,
}

/// Name of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RouteName {
    /// Routing table; empty: the global one.
    #[serde(default)]
    pub vrf: String,
    /// Network; host bits are zero.
    pub prefix: Prefix,
}

/// Route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DynamicRoute {
    /// Routing table; empty: the global one.
    #[serde(default)]
    pub vrf: String,
    /// Network; host bits are zero.
    pub prefix: Prefix,
    /// Each flow takes one of them; none: packets are dropped.
    pub paths: Vec<NextHop>,
    /// Pushed labels have TTL 255 (RFC 3443 section 3.2) in place of the packet's.
    #[serde(default)]
    pub pipe: bool,
    /// An entropy label goes below the outermost (RFC 6790).
    #[serde(default)]
    pub entropy_label: bool,
}

/// Treatment of an incoming label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DynamicLabel {
    /// Label: 16 to 1048575, or 0 and 2 for explicit null.
    pub label: u32,
    /// Taken off; the IP packet below it is routed in this table. Empty: the global one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vrf: Option<String>,
    /// In place of `vrf`: labels in its place, none to pop it, and next hop. Each flow takes one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<NextHop>,
    /// The TTL of the label is not copied to what is below it (RFC 3443 section 3.2).
    #[serde(default)]
    pub pipe: bool,
}

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct InterfaceAddress {
    /// The interface.
    pub interface: String,
    /// Address, with the prefix length of its network.
    pub address: Prefix,
}

/// Change of one dynamic entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Delta {
    /// The interface has this address, too.
    AddAddress(InterfaceAddress),
    /// The interface has it no longer.
    DropAddress(InterfaceAddress),
    /// There is this route, in place of one to the same prefix.
    SetRoute(DynamicRoute),
    /// There is no such route.
    DropRoute(RouteName),
    /// The incoming label is treated so, however it was.
    SetLabel(DynamicLabel),
    /// The incoming label is unknown.
    DropLabel {
        /// The label.
        label: u32,
    },
    /// There are no dynamic entries.
    Clear {},
}

/// The dynamic entries of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dynamic {
    addresses: BTreeSet<InterfaceAddress>,
    routes: BTreeMap<RouteName, DynamicRoute>,
    labels: BTreeMap<u32, DynamicLabel>,
}

/// Dynamic entries in force under a configuration, by its numbers.
#[derive(Debug, Default)]
pub(crate) struct ActiveEntries {
    /// Addresses with the interface of each.
    pub addresses: Vec<(usize, (IpAddr, u8))>,
    pub routes: Vec<RouteConfig>,
    pub labels: Vec<LabelConfig>,
}

impl Dynamic {
    /// Changes the entries; all of the deltas, in their order, or none.
    pub fn change(&mut self, config: &Config, deltas: Vec<Delta>) -> Result<(), Refused> {
        let mut next = self.clone();
        let names = ConfigNames::of(config);
        for delta in deltas {
            next.change_one(&names, delta)?;
        }
        *self = next;
        Ok(())
    }

    fn change_one(&mut self, names: &ConfigNames<'_>, delta: Delta) -> Result<(), Refused> {
        match delta {
            Delta::AddAddress(address) => {
                names.check_address(&address)?;
                bound(self.addresses.len())?;
                self.addresses.insert(address);
            }
            Delta::DropAddress(address) => {
                let InterfaceAddress { interface, address: of } = &address;
                let gone = self.addresses.remove(&address);
                there(gone, || format!("address {of} at interface `{interface}`"))?;
            }
            Delta::SetRoute(route) => {
                names.check_route(&route)?;
                bound(self.routes.len())?;
                let name = RouteName { vrf: route.vrf.clone(), prefix: route.prefix };
                self.routes.insert(name, route);
            }
            Delta::DropRoute(name) => {
                let gone = self.routes.remove(&name).is_some();
                there(gone, || format!("route to {}{}", name.prefix, in_table(&name.vrf)))?;
            }
            Delta::SetLabel(entry) => {
                names.check_label(&entry)?;
                self.labels.insert(entry.label, entry);
            }
            Delta::DropLabel { label } => {
                let gone = self.labels.remove(&label).is_some();
                there(gone, || format!("label {label}"))?;
            }
            Delta::Clear {} => *self = Self::default(),
        }
        Ok(())
    }

    /// The entries in force under a configuration.
    pub fn active(&self, config: &Config) -> ActiveEntries {
        let names = ConfigNames::of(config);
        let mut active = ActiveEntries::default();
        let own = config.interfaces.iter().flat_map(|i| i.addresses.iter().map(|a| (i.vrf, a.0)));
        let mut own: HashSet<(usize, IpAddr)> = own.collect();
        for InterfaceAddress { interface, address: Prefix { address, len } } in &self.addresses {
            let Some(number) = names.interface(interface) else { continue };
            if own.insert((config.interfaces[number].vrf, *address)) {
                active.addresses.push((number, (*address, *len)));
            }
        }
        let mut connected = Connected::of(config);
        for &(number, network) in &active.addresses {
            connected.add(config, number, network);
        }
        let taken: HashSet<_> = config.routes.iter().map(|r| (r.vrf, r.prefix)).collect();
        for route in self.routes.values() {
            let Some(vrf) = names.vrf(&route.vrf) else { continue };
            let prefix = (route.prefix.address, route.prefix.len);
            if taken.contains(&(vrf, prefix)) {
                continue;
            }
            let via = match route.paths.is_empty() {
                true => None,
                false => match names.route_way(&connected, vrf, route) {
                    Some(way) => Some(way),
                    None => continue,
                },
            };
            active.routes.push(RouteConfig { vrf, prefix, via });
        }
        let taken = config.labels.iter().map(|l| l.label);
        let taken = taken.chain(config.pseudowires.iter().map(|p| p.label_in));
        let taken: HashSet<u32> = taken.collect();
        for (&label, entry) in self.labels.iter().filter(|(label, _)| !taken.contains(label)) {
            let ttl = ttl(entry.pipe);
            let action = match &entry.vrf {
                Some(vrf) => names.vrf(vrf).map(LabelAction::Ip),
                None => names.label_way(&connected, entry).map(LabelAction::Forward),
            };
            active.labels.extend(action.map(|action| LabelConfig { label, action, ttl }));
        }
        active
    }
}

const fn ttl(pipe: bool) -> TtlModel {
    if pipe { TtlModel::Pipe } else { TtlModel::Uniform }
}

fn bound(count: usize) -> Result<(), Refused> {
    if count < DYNAMIC_MAX { Ok(()) } else { refuse(format!("there are {DYNAMIC_MAX} already")) }
}

fn there(is: bool, what: impl FnOnce() -> String) -> Result<(), Refused> {
    if is { Ok(()) } else { refuse(format!("there is no dynamic {}", what())) }
}

fn in_table(vrf: &str) -> String {
    if vrf.is_empty() { String::new() } else { format!(" in VRF `{vrf}`") }
}

fn refuse<T>(why: String) -> Result<T, Refused> {
    Err(Refused(why))
}

/// Names of a configuration, by which dynamic entries refer to it.
struct ConfigNames<'a> {
    interfaces: HashMap<&'a str, (usize, &'a InterfaceConfig)>,
    vrfs: HashMap<&'a str, usize>,
}

impl<'a> ConfigNames<'a> {
    fn of(config: &'a Config) -> Self {
        // An interface is the first of its name.
        let numbered = config.interfaces.iter().enumerate().rev();
        Self {
            interfaces: numbered.map(|(n, of)| (of.name.as_str(), (n, of))).collect(),
            vrfs: config.vrfs.iter().zip(0..).map(|(name, n)| (name.as_str(), n)).collect(),
        }
    }

    fn interface(&self, name: &str) -> Option<usize> {
        self.interfaces.get(name).map(|of| of.0)
    }

    fn vrf(&self, name: &str) -> Option<usize> {
        self.vrfs.get(name).copied()
    }

    fn check_vrf(&self, name: &str) -> Result<(), Refused> {
        match self.vrf(name) {
            Some(_) => Ok(()),
            None => refuse(format!("there is no VRF `{name}`")),
        }
    }

    fn check_interface(&self, name: &str) -> Result<&InterfaceConfig, Refused> {
        let found = self.interfaces.get(name).map(|of| of.1);
        found.ok_or_else(|| Refused(format!("there is no interface `{name}`")))
    }

    fn check_address(&self, of: &InterfaceAddress) -> Result<(), Refused> {
        let at = self.check_interface(&of.interface)?;
        let Prefix { address, len } = of.address;
        if len == 0 || len > bits(address) || !is_host(address, len) {
            return refuse(format!("{} is no address of a host in its network", of.address));
        }
        let has =
            |i: &InterfaceConfig| i.vrf == at.vrf && i.addresses.iter().any(|a| a.0 == address);
        match self.interfaces.values().find(|(_, i)| has(i)) {
            Some((_, i)) => refuse(format!("interface `{}` of the file has {address}", i.name)),
            None => Ok(()),
        }
    }

    fn check_route(&self, of: &DynamicRoute) -> Result<(), Refused> {
        self.check_vrf(&of.vrf)?;
        let Prefix { address, len } = of.prefix;
        if len > bits(address) || mask(address, len) != address {
            return refuse(format!("{} has bits set behind the prefix", of.prefix));
        }
        if of.entropy_label && of.paths.iter().any(|path| path.labels.is_empty()) {
            return refuse("an entropy label without a label above it".into());
        }
        self.check_paths(&of.paths)
    }

    fn check_label(&self, of: &DynamicLabel) -> Result<(), Refused> {
        check_labels(&[of.label])?;
        match &of.vrf {
            Some(vrf) if of.paths.is_empty() => self.check_vrf(vrf),
            None if !of.paths.is_empty() => self.check_paths(&of.paths),
            _ => refuse(format!("label {}: give it a VRF, or paths", of.label)),
        }
    }

    /// Checks next hops. One may be of another family than its route (RFC 8950).
    fn check_paths(&self, paths: &[NextHop]) -> Result<(), Refused> {
        if paths.len() > PATHS_MAX {
            return refuse(format!("{} paths, and {PATHS_MAX} at most", paths.len()));
        }
        for NextHop { via, interface, labels } in paths {
            if let Some(name) = interface {
                self.check_interface(name)?;
            } else if via.is_none() {
                return refuse("a path that leads nowhere: no via, no interface".into());
            }
            if labels.len() > LABELS_MAX {
                return refuse(format!("{} labels, and {LABELS_MAX} at most", labels.len()));
            }
            check_labels(labels)?;
            if via.is_some_and(|hop| !is_next_hop(hop)) {
                return refuse("no host has the address of the next hop".into());
            }
        }
        Ok(())
    }

    fn way(&self, connected: &Connected, vrf: Option<usize>, hop: &NextHop) -> Option<Via> {
        let interface = match (&hop.interface, hop.via) {
            (Some(name), _) => self.interface(name)?,
            (None, Some(address)) => connected.to(vrf, address)?,
            (None, None) => return None,
        };
        Some(Via { labels: hop.labels.clone(), ..Via::new(interface, hop.via) })
    }

    /// The way of a route, by those of its paths that lead somewhere.
    fn route_way(&self, connected: &Connected, vrf: usize, of: &DynamicRoute) -> Option<Via> {
        let ways = of.paths.iter().filter_map(|hop| {
            // A labelled route leaves by the provider's network, whichever table it is in.
            let way = self.way(connected, hop.labels.is_empty().then_some(vrf), hop)?;
            Some(Via { ttl: ttl(of.pipe), entropy: of.entropy_label, ..way })
        });
        several(ways)
    }

    /// The way of a label, by those of its paths that lead somewhere.
    fn label_way(&self, connected: &Connected, of: &DynamicLabel) -> Option<Via> {
        let ways = of.paths.iter().filter_map(|hop| self.way(connected, None, hop));
        several(ways.map(|way| Via { ttl: ttl(of.pipe), ..way }))
    }
}

/// The first of several ways, with the others.
fn several(mut ways: impl Iterator<Item = Via>) -> Option<Via> {
    let first = ways.next()?;
    Some(Via { others: ways.collect(), ..first })
}

fn check_labels(labels: &[u32]) -> Result<(), Refused> {
    match labels.iter().find(|label| !matches!(label, 0 | 2 | 16..=0xf_ffff)) {
        Some(label) => refuse(format!("{label} is no label to use here")),
        None => Ok(()),
    }
}

/// True if a host may have an address in its network (RFC 1122 section 3.2.1.3, RFC 4291 section
/// 2.5).
fn is_host(address: IpAddr, len: u8) -> bool {
    let broadcast = match address {
        IpAddr::V4(address) => {
            let host = !u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            let bits = address.to_bits() & host;
            len < 31 && (bits == 0 || bits == host)
        }
        IpAddr::V6(_) => false,
    };
    !broadcast && is_next_hop(address)
}

fn is_next_hop(address: IpAddr) -> bool {
    let class_e = |a: std::net::Ipv4Addr| a.octets()[0] >= 240 || a.octets()[0] == 0;
    let reserved = matches!(address, IpAddr::V4(a) if class_e(a));
    !(reserved || address.is_multicast() || address.is_unspecified() || address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_written_as_they_are_read() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "192.0.2.1/32", "2001:db8::/32", "::/0"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        for text in ["", "10.0.0.0", "10.0.0.0/33", "::/129", "10.0.0.0/-1", "ten/8", "10.0.0.0/"] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_host_has_neither_the_first_nor_the_last_address_of_a_network() {
        let is = |text: &str| {
            let Prefix { address, len } = text.parse().unwrap();
            is_host(address, len)
        };
        for text in ["10.0.0.1/24", "10.0.0.0/31", "10.0.0.255/32", "2001:db8::/64", "fe80::1/64"] {
            assert!(is(text), "{text}");
        }
        for text in ["10.0.0.0/24", "10.0.0.255/24", "127.0.0.1/8", "224.0.0.5/24", "::1/128"] {
            assert!(!is(text), "{text}");
        }
    }
}
