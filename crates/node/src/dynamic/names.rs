//! Names in dynamic entries: what they are under a configuration, and whether they can be.

use super::{
    ActiveAddress, DynamicLabel, DynamicRoute, InterfaceAddress, IpPrefix, NextHop, bits, refuse,
    ttl,
};
use crate::config::{Config, Connected, InterfaceConfig, Via, is_host, is_unicast, mask};
use ferrule_control::Refused;
use ferrule_dataplane::link::PATHS_MAX;
use ferrule_dataplane::route::config::LABELS_MAX;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// Networks on which next hops are: those of the file first, so that no address of a program
/// takes a next hop from the interface that it has by the file.
pub(super) struct Reach<'a> {
    config: &'a Config,
    file: Connected,
    added: Connected,
    /// Own addresses, by table: no next hops (RFC 4271 section 6.3).
    own: HashSet<(usize, IpAddr)>,
}

impl<'a> Reach<'a> {
    pub fn of(config: &'a Config, addresses: &[ActiveAddress]) -> Self {
        let (mut added, mut own) = (Connected::default(), ConfigNames::of(config).own_addresses());
        for &ActiveAddress { interface, address, .. } in addresses {
            added.add(config, interface, address);
            own.insert((config.interfaces[interface].vrf, address.0));
        }
        Self { config, file: Connected::of(config), added, own }
    }

    /// The interface to an address. Nothing for the table: the way is a labelled one, to which
    /// addresses that programs gave to VRFs do not lead.
    fn to(&self, vrf: Option<usize>, address: IpAddr) -> Option<usize> {
        let added = || self.added.to(Some(vrf.unwrap_or_default()), address);
        self.file.to(vrf, address).or_else(added)
    }

    fn is_own(&self, interface: usize, address: IpAddr) -> bool {
        self.own.contains(&(self.config.interfaces[interface].vrf, address))
    }
}

/// Names of a configuration, by which dynamic entries refer to it.
pub(super) struct ConfigNames<'a> {
    config: &'a Config,
    interfaces: HashMap<&'a str, usize>,
    vrfs: HashMap<&'a str, usize>,
}

impl<'a> ConfigNames<'a> {
    pub fn of(config: &'a Config) -> Self {
        // An interface is the first of its name.
        let numbered = config.interfaces.iter().enumerate().rev();
        Self {
            config,
            interfaces: numbered.map(|(n, of)| (of.name.as_str(), n)).collect(),
            vrfs: config.vrfs.iter().zip(0..).map(|(name, n)| (name.as_str(), n)).collect(),
        }
    }

    /// An interface and its table.
    pub fn interface(&self, name: &str) -> Option<(usize, usize)> {
        let number = *self.interfaces.get(name)?;
        Some((number, self.config.interfaces[number].vrf))
    }

    pub fn vrf(&self, name: &str) -> Option<usize> {
        self.vrfs.get(name).copied()
    }

    /// Addresses of the file, by table.
    pub fn own_addresses(&self) -> HashSet<(usize, IpAddr)> {
        let interfaces = self.config.interfaces.iter();
        interfaces.flat_map(|i| i.addresses.iter().map(|a| (i.vrf, a.0))).collect()
    }

    fn check_vrf(&self, name: &str) -> Result<(), Refused> {
        match self.vrf(name) {
            Some(_) => Ok(()),
            None => refuse(format!("there is no VRF `{name}`")),
        }
    }

    fn check_interface(&self, name: &str) -> Result<usize, Refused> {
        let found = self.interface(name).map(|(_, vrf)| vrf);
        found.ok_or_else(|| Refused(format!("there is no interface `{name}`")))
    }

    pub fn check_address(&self, of: &InterfaceAddress) -> Result<(), Refused> {
        let vrf = self.check_interface(&of.interface)?;
        let IpPrefix { address, len } = of.address;
        if len == 0 || len > bits(address) || !is_host(address, len) {
            return refuse(format!("{} is no address of a host in its network", of.address));
        }
        let has = |i: &&InterfaceConfig| i.vrf == vrf && i.addresses.iter().any(|a| a.0 == address);
        match self.config.interfaces.iter().find(has) {
            Some(i) => refuse(format!("interface `{}` of the file has {address}", i.name)),
            None => Ok(()),
        }
    }

    pub fn check_route(&self, of: &DynamicRoute) -> Result<(), Refused> {
        self.check_vrf(&of.vrf)?;
        let IpPrefix { address, len } = of.prefix;
        if len > bits(address) || mask(address, len) != address {
            return refuse(format!("{} has bits set behind the prefix", of.prefix));
        }
        let bare = of.paths.is_empty() || of.paths.iter().any(|path| path.labels.is_empty());
        if of.entropy_label && bare {
            return refuse("an entropy label without a label above it".into());
        }
        self.check_paths(&of.paths)
    }

    pub fn check_label(&self, of: &DynamicLabel) -> Result<(), Refused> {
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
            if via.is_some_and(|hop| !is_unicast(hop)) {
                return refuse("no host has the address of the next hop".into());
            }
        }
        Ok(())
    }

    fn way(&self, reach: &Reach<'_>, vrf: Option<usize>, hop: &NextHop) -> Option<Via> {
        let interface = match (&hop.interface, hop.via) {
            (Some(name), _) => self.interface(name)?.0,
            (None, Some(address)) => reach.to(vrf, address)?,
            (None, None) => return None,
        };
        if hop.via.is_some_and(|address| reach.is_own(interface, address)) {
            return None;
        }
        Some(Via { labels: hop.labels.clone(), ..Via::new(interface, hop.via) })
    }

    /// The way of a route, by those of its paths that lead somewhere.
    pub fn route_way(&self, reach: &Reach<'_>, vrf: usize, of: &DynamicRoute) -> Option<Via> {
        let ways = of.paths.iter().filter_map(|hop| {
            // A labelled route leaves by the provider's network, whichever table it is in.
            let way = self.way(reach, hop.labels.is_empty().then_some(vrf), hop)?;
            Some(Via { ttl: ttl(of.pipe), entropy: of.entropy_label, ..way })
        });
        several(ways)
    }

    /// The way of a label, by those of its paths that lead somewhere.
    pub fn label_way(&self, reach: &Reach<'_>, of: &DynamicLabel) -> Option<Via> {
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
