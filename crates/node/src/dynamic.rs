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
            let (address, number): (IpAddr, u8) = (address.parse().ok()?, len.parse().ok()?);
            // No sign, no leading zero.
            (number <= bits(address) && number.to_string() == len)
                .then_some(Self { address, len: number })
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_false(value: &bool) -> bool {
    !*value
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
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vrf: String,
    /// Network; host bits are zero.
    pub prefix: Prefix,
}

/// Route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DynamicRoute {
    /// Routing table; empty: the global one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vrf: String,
    /// Network; host bits are zero.
    pub prefix: Prefix,
    /// Each flow takes one of them; none: packets are dropped.
    pub paths: Vec<NextHop>,
    /// Pushed labels have TTL 255 (RFC 3443 section 3.2) in place of the packet's.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pipe: bool,
    /// An entropy label goes below the outermost (RFC 6790).
    #[serde(default, skip_serializing_if = "is_false")]
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
    #[serde(default, skip_serializing_if = "is_false")]
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

/// Entry as it was before a delta.
enum Before {
    /// True if it was there.
    Address(InterfaceAddress, bool),
    Route(RouteName, Option<DynamicRoute>),
    Label(u32, Option<DynamicLabel>),
    All(Dynamic),
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
    /// Number of all entries.
    pub fn len(&self) -> usize {
        self.addresses.len() + self.routes.len() + self.labels.len()
    }

    /// Changes the entries; all of the deltas, in their order, or none. To drop what is not there
    /// is no fault.
    pub fn change(&mut self, config: &Config, deltas: Vec<Delta>) -> Result<(), Refused> {
        let names = ConfigNames::of(config);
        let mut undo = Vec::new();
        for (delta, number) in deltas.into_iter().zip(1..) {
            if let Err(Refused(why)) = self.change_one(&names, delta, &mut undo) {
                undo.into_iter().rev().for_each(|before| self.restore(before));
                return refuse(if number > 1 { format!("entry {number}: {why}") } else { why });
            }
        }
        Ok(())
    }

    fn change_one(
        &mut self,
        names: &ConfigNames<'_>,
        delta: Delta,
        undo: &mut Vec<Before>,
    ) -> Result<(), Refused> {
        match delta {
            Delta::AddAddress(address) => {
                names.check_address(&address)?;
                self.check_address(&address)?;
                bound(self.addresses.len())?;
                if self.addresses.insert(address.clone()) {
                    undo.push(Before::Address(address, false));
                }
            }
            Delta::DropAddress(address) => {
                if self.addresses.remove(&address) {
                    undo.push(Before::Address(address, true));
                }
            }
            Delta::SetRoute(route) => {
                names.check_route(&route)?;
                let name = RouteName { vrf: route.vrf.clone(), prefix: route.prefix };
                if !self.routes.contains_key(&name) {
                    bound(self.routes.len())?;
                }
                let before = self.routes.insert(name.clone(), route);
                undo.push(Before::Route(name, before));
            }
            Delta::DropRoute(name) => {
                let before = self.routes.remove(&name);
                undo.push(Before::Route(name, before));
            }
            Delta::SetLabel(entry) => {
                names.check_label(&entry)?;
                let (label, before) = (entry.label, self.labels.insert(entry.label, entry));
                undo.push(Before::Label(label, before));
            }
            Delta::DropLabel { label } => {
                undo.push(Before::Label(label, self.labels.remove(&label)));
            }
            Delta::Clear {} => undo.push(Before::All(std::mem::take(self))),
        }
        Ok(())
    }

    fn restore(&mut self, before: Before) {
        match before {
            Before::Address(address, true) => _ = self.addresses.insert(address),
            Before::Address(address, false) => _ = self.addresses.remove(&address),
            Before::Route(name, Some(route)) => _ = self.routes.insert(name, route),
            Before::Route(name, None) => _ = self.routes.remove(&name),
            Before::Label(label, Some(entry)) => _ = self.labels.insert(label, entry),
            Before::Label(label, None) => _ = self.labels.remove(&label),
            Before::All(all) => *self = all,
        }
    }

    /// Refuses an address that an interface has from a program already, with another prefix.
    fn check_address(&self, of: &InterfaceAddress) -> Result<(), Refused> {
        let same = |a: &&InterfaceAddress| {
            a.interface == of.interface && a.address.address == of.address.address
        };
        match self.addresses.iter().find(same).filter(|a| *a != of) {
            Some(a) => {
                refuse(format!("interface `{}` has {}: drop it first", a.interface, a.address))
            }
            None => Ok(()),
        }
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
        let reach = Reach::of(config, &active.addresses);
        let taken: HashSet<_> = config.routes.iter().map(|r| (r.vrf, r.prefix)).collect();
        for route in self.routes.values() {
            let Some(vrf) = names.vrf(&route.vrf) else { continue };
            let prefix = (route.prefix.address, route.prefix.len);
            if taken.contains(&(vrf, prefix)) {
                continue;
            }
            let via = match route.paths.is_empty() {
                true => None,
                false => match names.route_way(&reach, vrf, route) {
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
                None => names.label_way(&reach, entry).map(LabelAction::Forward),
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

fn refuse<T>(why: String) -> Result<T, Refused> {
    Err(Refused(why))
}

/// Networks on which next hops are: those of the file first, so that no address of a program
/// takes a next hop from the interface that it has by the file.
struct Reach {
    file: Connected,
    added: Connected,
}

impl Reach {
    fn of(config: &Config, addresses: &[(usize, (IpAddr, u8))]) -> Self {
        let mut added = Connected::default();
        for &(number, network) in addresses {
            added.add(config, number, network);
        }
        Self { file: Connected::of(config), added }
    }

    /// The interface to an address. Nothing for the table: the way is a labelled one, to which
    /// addresses that programs gave to VRFs do not lead.
    fn to(&self, vrf: Option<usize>, address: IpAddr) -> Option<usize> {
        let added = || self.added.to(Some(vrf.unwrap_or_default()), address);
        self.file.to(vrf, address).or_else(added)
    }
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
        let bare = of.paths.is_empty() || of.paths.iter().any(|path| path.labels.is_empty());
        if of.entropy_label && bare {
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

    fn way(&self, reach: &Reach, vrf: Option<usize>, hop: &NextHop) -> Option<Via> {
        let interface = match (&hop.interface, hop.via) {
            (Some(name), _) => self.interface(name)?,
            (None, Some(address)) => reach.to(vrf, address)?,
            (None, None) => return None,
        };
        Some(Via { labels: hop.labels.clone(), ..Via::new(interface, hop.via) })
    }

    /// The way of a route, by those of its paths that lead somewhere.
    fn route_way(&self, reach: &Reach, vrf: usize, of: &DynamicRoute) -> Option<Via> {
        let ways = of.paths.iter().filter_map(|hop| {
            // A labelled route leaves by the provider's network, whichever table it is in.
            let way = self.way(reach, hop.labels.is_empty().then_some(vrf), hop)?;
            Some(Via { ttl: ttl(of.pipe), entropy: of.entropy_label, ..way })
        });
        several(ways)
    }

    /// The way of a label, by those of its paths that lead somewhere.
    fn label_way(&self, reach: &Reach, of: &DynamicLabel) -> Option<Via> {
        let ways = of.paths.iter().filter_map(|hop| self.way(reach, None, hop));
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
    let reserved = match address {
        IpAddr::V4(a) => class_e(a),
        IpAddr::V6(a) => a.to_ipv4_mapped().is_some(),
    };
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
        for text in [
            "",
            "10.0.0.0",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/-1",
            "ten/8",
            "10.0.0.0/",
            "::/+8",
            "::/08",
        ] {
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
        for text in [
            "10.0.0.0/24",
            "10.0.0.255/24",
            "127.0.0.1/8",
            "224.0.0.5/24",
            "::1/128",
            "::ffff:10.0.0.1/128",
        ] {
            assert!(!is(text), "{text}");
        }
    }
}
