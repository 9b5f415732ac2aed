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

mod names;

use crate::config::{Config, LabelAction, LabelConfig, RouteConfig, mask};
use ferrule_control::Refused;
use ferrule_dataplane::route::TtlModel;
use names::{ConfigNames, Reach};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Dynamic entries of a node at most, of each kind.
const ENTRIES_MAX: usize = 1 << 20;

/// An address and a prefix length, in text `192.0.2.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IpPrefix {
    /// Address; of a route, the network's.
    pub address: IpAddr,
    /// Prefix length, at most the address's bits.
    pub len: u8,
}

impl FromStr for IpPrefix {
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

impl TryFrom<String> for IpPrefix {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<IpPrefix> for String {
    fn from(prefix: IpPrefix) -> Self {
        prefix.to_string()
    }
}

impl fmt::Display for IpPrefix {
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

/// Name of a route, ordered by prefix first: tables' names, most of them empty, are compared for
/// equal prefixes alone. (Comparing empty strings first took seven eighths of a large batch.)
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RouteName {
    /// Network; host bits are zero.
    pub prefix: IpPrefix,
    /// Routing table; empty: the global one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vrf: String,
}

/// Route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DynamicRoute {
    /// Routing table; empty: the global one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vrf: String,
    /// Network; host bits are zero.
    pub prefix: IpPrefix,
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
    pub address: IpPrefix,
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
    /// An address of an interface, and its prefix length if it was there.
    Address((String, IpAddr), Option<u8>),
    Route(RouteName, Option<DynamicRoute>),
    Label(u32, Option<DynamicLabel>),
    All(Dynamic),
}

/// The dynamic entries of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dynamic {
    /// Prefix lengths, by interface and address.
    addresses: BTreeMap<(String, IpAddr), u8>,
    routes: BTreeMap<RouteName, DynamicRoute>,
    labels: BTreeMap<u32, DynamicLabel>,
}

/// Dynamic address in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveAddress {
    /// Its interface, by index in the configuration.
    pub interface: usize,
    /// Address and prefix length.
    pub address: (IpAddr, u8),
    /// True if its network is routed to the interface. Otherwise the network is somebody else's,
    /// by the file or an address before, and the address alone is the node's.
    pub has_network: bool,
}

/// Dynamic entries in force under a configuration, by its indices.
#[derive(Debug, Default)]
pub(crate) struct ActiveEntries {
    pub addresses: Vec<ActiveAddress>,
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
        let (count, mut undo) = (deltas.len(), Vec::new());
        for (delta, number) in deltas.into_iter().zip(1..) {
            if let Err(Refused(why)) = self.change_one(&names, delta, &mut undo) {
                undo.into_iter().rev().for_each(|before| self.restore(before));
                return refuse(if count > 1 { format!("entry {number}: {why}") } else { why });
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
            Delta::AddAddress(of) => {
                names.check_address(&of)?;
                let InterfaceAddress { interface, address: IpPrefix { address, len } } = of;
                let key = (interface, address);
                match self.addresses.get(&key) {
                    Some(&other) if other != len => {
                        let what = format!("interface `{}` has {address}/{other}", key.0);
                        return refuse(format!("{what}: drop it first"));
                    }
                    Some(_) => {}
                    None => {
                        bound(self.addresses.len())?;
                        self.addresses.insert(key.clone(), len);
                        undo.push(Before::Address(key, None));
                    }
                }
            }
            Delta::DropAddress(of) => {
                let InterfaceAddress { interface, address: IpPrefix { address, len } } = of;
                let key = (interface, address);
                if self.addresses.get(&key) == Some(&len) {
                    self.addresses.remove(&key);
                    undo.push(Before::Address(key, Some(len)));
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
            Before::Address(key, Some(len)) => _ = self.addresses.insert(key, len),
            Before::Address(key, None) => _ = self.addresses.remove(&key),
            Before::Route(name, Some(route)) => _ = self.routes.insert(name, route),
            Before::Route(name, None) => _ = self.routes.remove(&name),
            Before::Label(label, Some(entry)) => _ = self.labels.insert(label, entry),
            Before::Label(label, None) => _ = self.labels.remove(&label),
            Before::All(all) => *self = all,
        }
    }

    /// Entries in force under a configuration.
    pub fn active(&self, config: &Config) -> ActiveEntries {
        let names = ConfigNames::of(config);
        // Prefixes that are the file's or a network's, and the interface of each network.
        let mut taken: HashMap<_, _> =
            config.routes.iter().map(|r| ((r.vrf, r.prefix), None)).collect();
        for (number, interface) in config.interfaces.iter().enumerate() {
            for &network in &interface.addresses {
                taken.insert((interface.vrf, masked(network)), Some(number));
            }
        }
        let addresses = self.active_addresses(&names, &mut taken);
        let reach = Reach::of(config, &addresses);
        let (mut routes, mut labels) = (Vec::new(), Vec::new());
        for route in self.routes.values() {
            let Some(vrf) = names.vrf(&route.vrf) else { continue };
            let prefix = (route.prefix.address, route.prefix.len);
            let via = names.route_way(&reach, vrf, route);
            let leads = via.is_some() || route.paths.is_empty();
            if leads && !taken.contains_key(&(vrf, prefix)) {
                routes.push(RouteConfig { vrf, prefix, via });
            }
        }
        let of_file = config.labels.iter().map(|l| l.label);
        let of_file = of_file.chain(config.pseudowires.iter().map(|p| p.label_in));
        let of_file: HashSet<u32> = of_file.collect();
        for (&label, entry) in self.labels.iter().filter(|(label, _)| !of_file.contains(label)) {
            let ttl = ttl(entry.pipe);
            let action = match &entry.vrf {
                Some(vrf) => names.vrf(vrf).map(LabelAction::Ip),
                None => names.label_way(&reach, entry).map(LabelAction::Forward),
            };
            labels.extend(action.map(|action| LabelConfig { label, action, ttl }));
        }
        ActiveEntries { addresses, routes, labels }
    }

    /// Addresses whose interface is there; of equal ones in a table the first.
    fn active_addresses(
        &self,
        names: &ConfigNames<'_>,
        taken: &mut HashMap<(usize, (IpAddr, u8)), Option<usize>>,
    ) -> Vec<ActiveAddress> {
        let mut own = names.own_addresses();
        let mut active = Vec::new();
        for ((interface, address), &len) in &self.addresses {
            let Some((interface, vrf)) = names.interface(interface) else { continue };
            if own.insert((vrf, *address)) {
                let address = (*address, len);
                let network = taken.entry((vrf, masked(address))).or_insert(Some(interface));
                let has_network = *network == Some(interface);
                active.push(ActiveAddress { interface, address, has_network });
            }
        }
        active
    }
}

fn masked((address, len): (IpAddr, u8)) -> (IpAddr, u8) {
    (mask(address, len), len)
}

const fn ttl(pipe: bool) -> TtlModel {
    if pipe { TtlModel::Pipe } else { TtlModel::Uniform }
}

fn bound(count: usize) -> Result<(), Refused> {
    if count < ENTRIES_MAX { Ok(()) } else { refuse(format!("there are {ENTRIES_MAX} already")) }
}

fn refuse<T>(why: String) -> Result<T, Refused> {
    Err(Refused(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_written_as_they_are_read() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "192.0.2.1/32", "2001:db8::/32", "::/0"] {
            assert_eq!(text.parse::<IpPrefix>().unwrap().to_string(), text);
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
            assert!(text.parse::<IpPrefix>().is_err(), "{text}");
        }
    }
}
