//! Names and networks of a configuration, as maps: with many entries, whoever looks
//! through all of them for each would not come to an end.

use super::error::Problems;
use super::raw::Text;
use super::read::mask;
use super::{Config, Via};
use ferrule_base::nearest;
use ferrule_wire::flow::path_of_flow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::ops::Range;

/// The names of one kind of entry, in the order of the file.
pub(super) struct Names {
    what: &'static str,
    all: Vec<String>,
    /// The first entry that has each.
    numbers: HashMap<String, usize>,
}

impl Names {
    /// No names yet of what is called so.
    pub fn new(what: &'static str) -> Self {
        Self { what, all: Vec::new(), numbers: HashMap::new() }
    }

    /// All names of a list.
    pub fn of<'a>(what: &'static str, names: impl Iterator<Item = &'a str>) -> Self {
        let mut all = Self::new(what);
        names.for_each(|name| all.push(name));
        all
    }

    /// The name of the next entry.
    pub fn push(&mut self, name: &str) {
        let number = self.all.len();
        self.all.push(name.to_owned());
        self.numbers.entry(name.to_owned()).or_insert(number);
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// All names, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(String::as_str)
    }

    /// The name of an entry.
    pub fn name(&self, number: usize) -> &str {
        &self.all[number]
    }

    /// The number of the first entry with a name.
    pub fn get(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// The same; complains if there is none.
    pub fn find(&self, problems: &mut Problems, t: &Text) -> Option<usize> {
        let found = self.get(t.get_ref());
        if found.is_none() {
            unknown(problems, t, self.what, self.all.iter().map(String::as_str));
        }
        found
    }

    /// Complains about a name that an entry before has.
    pub fn unique(&self, problems: &mut Problems, t: &Text) {
        if self.get(t.get_ref()).is_some() {
            let what = format!("{} `{}` is defined twice", self.what, t.get_ref());
            problems.add(t.span(), what, "give each a name of its own");
        }
    }
}

/// Complains about a word that is none of those that there are.
pub(super) fn unknown<'a>(
    problems: &mut Problems,
    t: &Text,
    what: &str,
    names: impl Iterator<Item = &'a str>,
) {
    let names: Vec<&str> = names.collect();
    let remedy = if names.is_empty() {
        format!("define a {what} first")
    } else {
        format!("there are {}", names.join(", "))
    };
    problems.add(t.span(), format!("there is no {what} `{}`", t.get_ref()), remedy);
}

/// Complains about a routing table that nothing puts packets into.
pub(super) fn empty_table<'a>(
    problems: &mut Problems,
    span: Range<usize>,
    name: &str,
    names: impl Iterator<Item = &'a str>,
) {
    let table = match name {
        "" => "the global routing table".to_owned(),
        name => format!("the routing table `{name}`"),
    };
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    let remedy = match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => "name one that interfaces have as vrf".to_owned(),
        None => format!("name one that interfaces have as vrf: {}", names.join(", ")),
    };
    problems.add(span, format!("no interface is in {table}"), remedy);
}

/// True if a host may have an address in its network (RFC 1122 section 3.2.1.3, RFC 4291 section
/// 2.5).
pub(crate) fn is_host(address: IpAddr, len: u8) -> bool {
    let is_edge = match address {
        IpAddr::V4(address) => {
            let host = !u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            let bits = address.to_bits() & host;
            len < 31 && (bits == 0 || bits == host)
        }
        IpAddr::V6(_) => false,
    };
    !is_edge && is_unicast(address)
}

/// True if a host may have an address in some network.
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    let is_reserved = match address {
        IpAddr::V4(address) => matches!(address.octets()[0], 0 | 240..),
        IpAddr::V6(address) => address.to_ipv4_mapped().is_some(),
    };
    let is_special = address.is_multicast() || address.is_unspecified() || address.is_loopback();
    !(is_reserved || is_special)
}

/// True if each interface may have the address, beside others of the table.
pub(super) const fn is_of_link(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Within what an own address is one: its table, or for one of a link its interface.
const fn own_scope(vrf: usize, interface: usize, address: IpAddr) -> usize {
    if is_of_link(address) { interface } else { vrf }
}

/// Something for each network of each routing table.
pub(crate) struct Networks<T> {
    of: HashMap<(usize, IpAddr, u8), T>,
    /// Lengths of prefixes that there are, by table and family.
    lengths: HashMap<(usize, bool), BTreeSet<u8>>,
}

impl<T> Default for Networks<T> {
    fn default() -> Self {
        Self { of: HashMap::new(), lengths: HashMap::new() }
    }
}

impl<T> Networks<T> {
    /// Entry for the network of an address in a table.
    pub fn entry(
        &mut self,
        vrf: usize,
        (address, len): (IpAddr, u8),
    ) -> Entry<'_, (usize, IpAddr, u8), T> {
        self.lengths.entry((vrf, address.is_ipv4())).or_default().insert(len);
        self.of.entry((vrf, mask(address, len), len))
    }

    /// The networks of at most `most` bits that an address is in, the longest first.
    pub fn around(&self, vrf: usize, address: IpAddr, most: u8) -> impl Iterator<Item = &T> {
        let lengths = self.lengths.get(&(vrf, address.is_ipv4())).into_iter();
        let lengths = lengths.flat_map(move |lengths| lengths.range(..=most).rev());
        lengths.filter_map(move |&len| self.of.get(&(vrf, mask(address, len), len)))
    }
}

impl Networks<usize> {
    /// The routes of a configuration, by number.
    pub fn of_routes(config: &Config) -> Self {
        let mut all = Self::default();
        for (number, route) in config.routes.iter().enumerate() {
            all.entry(route.vrf, route.prefix).insert_entry(number);
        }
        all
    }
}

/// The networks that the interfaces are on.
#[derive(Default)]
pub(crate) struct Connected {
    /// The first interface on each network of a table.
    of_tables: Networks<usize>,
    /// The same, whatever its table.
    of_all: Networks<usize>,
    /// Addresses of the file, by [`own_scope`].
    own: HashSet<(usize, IpAddr)>,
    /// Networks of each interface, by its number.
    of_interfaces: Networks<u8>,
    /// Table of each interface.
    tables: Vec<usize>,
}

impl Connected {
    pub fn of(config: &Config) -> Self {
        let tables = config.interfaces.iter().map(|interface| interface.vrf).collect();
        let mut all = Self { tables, ..Self::default() };
        for (number, interface) in config.interfaces.iter().enumerate() {
            for &network in &interface.addresses {
                all.add(config, number, network);
                all.of_interfaces.entry(number, network).or_insert(network.1);
                all.own.insert((own_scope(interface.vrf, number, network.0), network.0));
            }
        }
        all
    }

    /// Adds the network of an address of an interface.
    pub fn add(&mut self, config: &Config, number: usize, network: (IpAddr, u8)) {
        let vrf = config.interfaces[number].vrf;
        self.of_tables.entry(vrf, network).or_insert(number);
        self.of_all.entry(0, network).or_insert(number);
    }

    /// Table of an interface.
    pub(super) fn table(&self, interface: usize) -> usize {
        self.tables[interface]
    }

    /// Kind of an address that no neighbour at an interface can have.
    pub(super) fn no_neighbour(&self, interface: usize, address: IpAddr) -> Option<&'static str> {
        let len = self.of_interfaces.around(interface, address, u8::MAX).next();
        let scope = own_scope(self.tables[interface], interface, address);
        let is_own = self.own.contains(&(scope, address));
        match len {
            _ if is_own => Some("an address of the node itself"),
            _ if !is_unicast(address) => Some("no address of a host"),
            Some(&len) if !is_host(address, len) => {
                let is_first = mask(address, len) == address;
                Some(if is_first { "the network's address" } else { "the broadcast address" })
            }
            _ => None,
        }
    }

    /// The first interface that has an address on its network, of a table or of all.
    pub fn to(&self, vrf: Option<usize>, address: IpAddr) -> Option<usize> {
        match vrf {
            Some(vrf) => self.of_tables.around(vrf, address, u8::MAX).min().copied(),
            None => self.of_all.around(0, address, u8::MAX).min().copied(),
        }
    }
}

/// The ways of the global table, and the addresses of the node.
pub(crate) struct Ways<'a> {
    config: &'a Config,
    networks: Networks<Way>,
    own: HashSet<IpAddr>,
}

/// An interface or a route, by number.
#[derive(Clone, Copy)]
enum Way {
    Connected(usize),
    Routed(usize),
}

impl<'a> Ways<'a> {
    pub fn of(config: &'a Config) -> Self {
        let mut networks = Networks::default();
        for (number, interface) in config.interfaces.iter().enumerate() {
            for &network in interface.addresses.iter().filter(|_| interface.vrf == 0) {
                networks.entry(0, network).insert_entry(Way::Connected(number));
            }
        }
        // Of a route and a connected network of one length the route counts.
        for (number, route) in config.routes.iter().enumerate() {
            if route.vrf == 0 && route.via.is_some() {
                networks.entry(0, route.prefix).insert_entry(Way::Routed(number));
            }
        }
        let own = config.interfaces.iter().flat_map(|i| i.addresses.iter().map(|a| a.0));
        Self { config, networks, own: own.collect() }
    }

    /// True if an interface has the address.
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.own.contains(&address)
    }

    /// The way to an address: on a connected network, or by the route that matches best.
    pub fn best(&self, to: IpAddr) -> Option<Via> {
        match *self.networks.around(0, to, u8::MAX).next()? {
            Way::Connected(interface) => Some(Via::new(interface, Some(to))),
            Way::Routed(route) => {
                let paths: Vec<Via> = self.config.routes[route].via.as_ref()?.paths().collect();
                // What is sealed for one gateway is one flow.
                let path = paths[flow_to(to) % paths.len()].clone();
                Some(Via { next_hop: path.next_hop.or(Some(to)), ..path })
            }
        }
    }
}

/// A number for what goes to an address.
fn flow_to(address: IpAddr) -> usize {
    let octets = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    octets.into_iter().fold(0, |flow, octet| path_of_flow(flow.into(), octet.into())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{RouteConfig, named_key};
    use ferrule_base::Rng;

    fn contains((network, len): (IpAddr, u8), address: IpAddr) -> bool {
        network.is_ipv4() == address.is_ipv4() && mask(network, len) == mask(address, len)
    }

    /// An address of few bits, so that networks are in one another.
    fn address(rng: &mut Rng) -> IpAddr {
        let bits = rng.below(256) as u8;
        match rng.one_in(2) {
            true => [10, 0, 0, bits].into(),
            false => [0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, bits].into(),
        }
    }

    fn network(rng: &mut Rng) -> (IpAddr, u8) {
        let address = address(rng);
        let bits = if address.is_ipv4() { 32 } else { 128 };
        (address, bits - rng.below(10) as u8)
    }

    /// Interfaces and routes in two tables, some of them of the same network.
    fn config(rng: &mut Rng) -> Config {
        let mut text =
            "[node]\nname = \"n\"\n[[port]]\nname = \"p\"\ndriver = \"wire\"\n".to_owned();
        let mut taken = HashSet::new();
        for vlan in 1..=8 {
            let own = std::iter::repeat_with(|| network(rng));
            let mut own = own.filter(|&(address, len)| is_host(address, len));
            let (address, len) = own.find(|own| taken.insert(own.0)).expect("there are many");
            let vrf = if rng.one_in(3) { "vrf = \"red\"\n" } else { "" };
            text += &format!(
                "[[interface]]\nport = \"p\"\nvlan = {vlan}\naddress = [\"{address}/{len}\"]\n{vrf}"
            );
        }
        let mut config = Config::parse("n.toml", &text, &mut named_key).unwrap();
        for _ in 0..20 {
            let (address, len) = network(rng);
            let prefix = (mask(address, len), len);
            let (interface, next_hop) = (rng.below(8) as usize, Some(self::address(rng)));
            let via = Via::new(interface, next_hop);
            let (vrf, via) = (usize::from(rng.one_in(3)), (!rng.one_in(4)).then_some(via));
            if !config.routes.iter().any(|r| (r.vrf, r.prefix) == (vrf, prefix)) {
                config.routes.push(RouteConfig { vrf, prefix, via });
            }
        }
        config
    }

    #[test]
    fn ways_are_those_that_a_search_of_every_entry_finds() {
        let mut rng = Rng::new(17);
        let (mut found, mut missed) = (0, 0);
        for _ in 0..300 {
            let config = config(&mut rng);
            let (ways, connected) = (Ways::of(&config), Connected::of(&config));
            for _ in 0..20 {
                let to = address(&mut rng);
                let interfaces = config.interfaces.iter().enumerate();
                let direct = interfaces.clone().filter(|(_, i)| i.vrf == 0).flat_map(|(n, i)| {
                    let via = Via::new(n, Some(to));
                    i.addresses.iter().map(move |&net| (net, via.clone()))
                });
                let routed = config.routes.iter().filter(|r| r.vrf == 0);
                let routed = routed.filter_map(|r| Some((r.prefix, r.via.clone()?)));
                let all = direct.chain(routed).filter(|&(net, _)| contains(net, to));
                let best = all.max_by_key(|&((_, len), _)| len).map(|(_, via)| via);
                *(if best.is_some() { &mut found } else { &mut missed }) += 1;
                assert_eq!(ways.best(to), best, "to {to}: {config:#?}");
                assert_eq!(
                    ways.is_own(to),
                    config.interfaces.iter().any(|i| i.addresses.iter().any(|a| a.0 == to))
                );
                for vrf in [None, Some(0), Some(1)] {
                    let on = |i: &super::super::InterfaceConfig| {
                        let of_table = vrf.is_none_or(|vrf| vrf == i.vrf);
                        of_table && i.addresses.iter().any(|&net| contains(net, to))
                    };
                    assert_eq!(connected.to(vrf, to), config.interfaces.iter().position(on));
                }
            }
        }
        assert!(found > 1000 && missed > 100, "{found} found, {missed} missed");
    }

    #[test]
    fn the_longest_network_of_at_most_some_bits_is_the_first() {
        let mut all = Networks::default();
        for len in [0, 8, 16, 24] {
            all.entry(0, ([10, 1, 2, 3].into(), len)).insert_entry(len);
        }
        let around = |vrf, address: [u8; 4], most| {
            all.around(vrf, address.into(), most).copied().collect::<Vec<u8>>()
        };
        assert_eq!(around(0, [10, 1, 2, 99], 32), [24, 16, 8, 0]);
        assert_eq!(around(0, [10, 1, 9, 99], 32), [16, 8, 0]);
        assert_eq!(around(0, [10, 1, 2, 99], 15), [8, 0]);
        assert!(around(1, [10, 1, 2, 99], 32).is_empty());
    }

    #[test]
    fn a_name_is_the_first_entry_that_has_it() {
        let names = Names::of("thing", ["a", "b", "a"].into_iter());
        assert_eq!((names.get("a"), names.get("b"), names.get("c")), (Some(0), Some(1), None));
        assert_eq!(names.len(), 3);
    }

    #[test]
    fn a_host_has_neither_the_first_nor_the_last_address_of_a_network() {
        let is = |text: &str| {
            let (address, len) = text.split_once('/').unwrap();
            is_host(address.parse().unwrap(), len.parse().unwrap())
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
