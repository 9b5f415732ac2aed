//! From a configuration to the tables that stages read.
//!
//! Names and intentions become indices here: one pass, no packets. Permanent numbers
//! (ports, SAs) come from [`Numbers`]; interfaces, adjacencies and the rest are numbered by
//! their place.

mod kept;
mod lists;

use crate::config::{
    Config, InterfaceConfig, LabelAction, PolicyAction, PolicyConfig, PseudowireConfig,
    RouteConfig, Via, VlanTag, Ways,
};
use crate::dynamic::{ActiveEntries, Dynamic};
use crate::sas::Directories;
use crate::stable::Numbers;
use ferrule_base::{MacAddr, PortId, VrfId};
use ferrule_dataplane::macsec::SecyConfig;
use ferrule_dataplane::tables::{Attach, Iface, IfaceKind, Lists, PortEntry, RoutedIface, Tag};
use ferrule_dataplane::{Tables, bridge, ipsec, mpls, route};
use kept::{KeptTables, Mark, mark};
pub use lists::ReadyLists;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

const ETHERNET: usize = 14;
/// Tags that a frame may carry beyond the port's mtu, as devices allow.
const TAGS: usize = 8;

/// State that outlives a configuration.
#[derive(Clone, Default)]
pub(crate) struct Shared {
    pub ports: Numbers,
    /// Slots of outbound SAs, by the tunnel's name.
    pub slots: Numbers,
    pub ifaces: Numbers,
    pub ways: Numbers,
    pub neighbours: Arc<route::Neighbours>,
    pub withheld: Arc<route::Withheld>,
    pub bridges: HashMap<String, Arc<bridge::MacTable>>,
    pub directories: Directories,
    /// Routes and policies of the configuration.
    pub vrfs: KeptTables<route::Vrf>,
    pub policies: KeptTables<ipsec::Spd>,
    /// Secret that determines the places of addresses in tables.
    pub secret: [u64; 2],
    /// Ports that have a card, and the interfaces whose packets it judges. While a
    /// port is there it keeps both: a frame under way may count on them.
    pub cards: BTreeMap<PortId, BTreeSet<String>>,
    /// Mark of the policy entry that each counter belongs to.
    pub counters: Vec<Mark>,
    /// Addresses, routes and labels beside the configuration.
    pub dynamic: Arc<Dynamic>,
    /// Access lists of the configuration.
    pub lists: ReadyLists,
    /// Access lists compiled ahead, for the configuration that comes next.
    pub lists_ahead: ReadyLists,
    /// Configurations compiled so far.
    pub generation: u64,
}

impl Shared {
    /// True if a port's card applies the policy of an interface.
    pub fn is_policed(&self, port: PortId, interface: &str) -> bool {
        self.cards.get(&port).is_some_and(|interfaces| interfaces.contains(interface))
    }

    /// Forgets a card that goes with its port.
    pub fn forget_card(&mut self, port: PortId) {
        self.cards.remove(&port);
        self.directories.cards.remove(&port);
    }

    /// Notes the ports and interfaces that need a card.
    fn note_cards(&mut self, config: &Config, ports: &[PortId]) {
        for secy in config.secys.iter().filter(|s| s.is_inline()) {
            self.cards.entry(ports[secy.port]).or_default();
        }
        for port in config.tunnels.iter().filter_map(|t| config.card_of(t)) {
            self.cards.entry(ports[port]).or_default();
        }
        let sealed = config.left_to_cards();
        for (interface, _) in config.interfaces.iter().zip(sealed).filter(|(_, (some, _))| *some) {
            let InterfaceConfig { name, port, .. } = interface;
            self.cards.entry(ports[*port]).or_default().insert(name.clone());
        }
        for &port in self.cards.keys() {
            self.directories.cards.entry(port).or_default();
        }
    }
}

/// The tables of a configuration, and where its parts went in them.
pub(crate) struct Compiled {
    pub tables: Tables,
    /// Number of each port of the configuration.
    pub ports: Vec<PortId>,
    /// Slot of each tunnel, and the tunnel of each slot.
    pub slots: Vec<u32>,
    tunnels: Vec<Option<usize>>,
    /// Selectors of the traffic that may come out of each tunnel.
    pub selectors: Vec<Vec<ipsec::Selector>>,
    /// The adjacency of each tunnel.
    pub ways: Vec<u32>,
    /// The next hop of each adjacency; nothing: the destination itself.
    pub next_hops: Vec<Option<IpAddr>>,
    /// Dynamic entries in force.
    pub active: Arc<ActiveEntries>,
}

impl Compiled {
    /// The tunnel that has a slot, by its place in the configuration.
    pub fn tunnel_of(&self, slot: u32) -> Option<usize> {
        self.tunnels.get(slot as usize).copied().flatten()
    }
}

/// The longest frame of a port with this mtu.
pub(crate) const fn frame_max(mtu: usize) -> u16 {
    (mtu + ETHERNET + TAGS) as u16
}

/// An address for a port whose device has none: locally administered, made
/// from the names of node and port.
pub fn made_mac(node: &str, port: &str) -> MacAddr {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in node.bytes().chain([0]).chain(port.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    let mut mac = MacAddr::from_u64(hash ^ hash >> 48);
    mac.0[0] = mac.0[0] & 0xfc | 0x02;
    mac
}

/// Our SCI where none is configured: the port's address, port number 1.
pub fn default_sci(mac: MacAddr) -> u64 {
    mac.to_u64() << 16 | 1
}

struct Builder<'a> {
    config: &'a Config,
    active: Arc<ActiveEntries>,
    /// Addresses of each interface.
    addresses: Vec<Vec<(IpAddr, u8)>>,
    shared: &'a mut Shared,
    before: &'a Tables,
    ports: Vec<PortId>,
    macs: &'a [MacAddr],
    tables: Tables,
    /// The adjacency of each way.
    ways: HashMap<Via, u32>,
    next_hops: Vec<Option<IpAddr>>,
    /// Interfaces with a policy, in order: it has the number of their place.
    bounds: Vec<usize>,
    /// Hosts behind the node for which it does IPsec, and the ways to them.
    guarded: Vec<(IpAddr, Via)>,
}

/// Compiles `config`; `macs` are the addresses of its ports, in order. Entries of the
/// tables `before` that are gone keep their places once more, for packets under way to
/// them.
pub(crate) fn compile(
    config: &Config,
    macs: &[MacAddr],
    shared: &mut Shared,
    before: &Tables,
) -> Compiled {
    let ports = shared.ports.assign(config.ports.iter().map(|p| p.name.as_str().into()));
    let slots = shared.slots.assign(config.tunnels.iter().map(|t| t.name.as_str().into()));
    let slots: Vec<u32> = slots.into_iter().map(|slot| slot as u32).collect();
    let mut tunnels = vec![None; shared.slots.len()];
    (0..).zip(&slots).for_each(|(number, &slot)| tunnels[slot as usize] = Some(number));
    let acquires = |n: &Option<usize>| n.is_some_and(|n| config.tunnels[n].external);
    let acquires = tunnels.iter().map(acquires).collect();
    let selectors = PolicyConfig::by_tunnel(config);
    let ports: Vec<PortId> = ports.into_iter().map(|n| PortId(n as u16)).collect();
    shared.note_cards(config, &ports);
    let tables = Tables {
        workers: config.cores.len() as u8,
        seed: made_mac(&config.name, "paths").to_u64(),
        neighbours: shared.neighbours.clone(),
        withheld: shared.withheld.clone(),
        sas: shared.directories.workers.clone(),
        acquires,
        keying_ports: config.keying_ports.iter().copied().collect(),
        udp_ports: config.tunnels.iter().filter_map(|t| Some(t.encap?.local)).collect(),
        ..Tables::default()
    };
    let active = Arc::new(shared.dynamic.active(config));
    let mut b = Builder {
        config,
        addresses: addresses(config, &active),
        active,
        shared,
        before,
        ports,
        macs,
        tables,
        ways: HashMap::new(),
        next_hops: Vec::new(),
        bounds: bounds(config),
        guarded: guarded(config),
    };
    b.ports();
    b.number_ifaces();
    b.adjacencies();
    b.interfaces();
    b.bridges();
    b.pseudowires();
    b.sort_tags();
    b.labels();
    let ways = config.tunnels.iter().map(|t| b.way(&t.via)).collect();
    b.policies(&slots);
    b.shared.generation += 1;
    b.counters();
    b.lists();
    b.routes();
    b.tables.compile();
    let Builder { tables, ports, next_hops, active, .. } = b;
    Compiled { tables, ports, slots, tunnels, selectors, ways, next_hops, active }
}

/// The addresses of each interface.
fn addresses(config: &Config, active: &ActiveEntries) -> Vec<Vec<(IpAddr, u8)>> {
    let mut all: Vec<_> = config.interfaces.iter().map(|i| i.addresses.clone()).collect();
    for of in &active.addresses {
        all[of.interface].push(of.address);
    }
    all
}

/// The interfaces that have a policy, in order.
fn bounds(config: &Config) -> Vec<usize> {
    let mut bounds: Vec<_> = config.policies.iter().map(|p| p.interface).collect();
    bounds.sort_unstable();
    bounds.dedup();
    // No IPsec here where a card does all of it.
    let sealed = config.left_to_cards();
    bounds.retain(|&interface| !sealed[interface].1);
    bounds
}

/// The hosts behind the node that have the local end of a pair, and the ways to them.
fn guarded(config: &Config) -> Vec<(IpAddr, Via)> {
    let mut pairs = config.tunnels.iter().filter(|pair| config.guards(pair)).peekable();
    if pairs.peek().is_none() {
        return Vec::new();
    }
    let ways = Ways::of(config);
    pairs.filter_map(|pair| Some((pair.local, ways.best(pair.local)?))).collect()
}

impl Builder<'_> {
    fn ports(&mut self) {
        self.tables.ports.resize_with(self.shared.ports.len(), PortEntry::default);
        for (i, port) in self.config.ports.iter().enumerate() {
            // A SecY has the number of its port.
            let secy = self.config.secys.iter().find(|s| s.port == i);
            let secured = secy.is_some_and(|s| !s.is_inline());
            // The octets that its card adds are subtracted at once: here frames are
            // shorter.
            let added = secy
                .filter(|s| s.is_inline())
                .map_or(0, |s| SecyConfig::overhead(s.entity.send_sci));
            self.tables.ports[self.ports[i].0 as usize] = PortEntry {
                name: port.name.as_str().into(),
                mac: self.macs[i],
                frame_max: frame_max(port.mtu) - added as u16,
                owner: port.worker as u8,
                everywhere: port.driver.is_everywhere(),
                secy: secured.then_some(self.ports[i].0),
                attach: Attach::default(),
            };
        }
    }

    /// Gives every logical interface its number; vacant numbers lead nowhere.
    fn number_ifaces(&mut self) {
        let config = self.config;
        let of_interfaces = config.interfaces.iter().map(|i| i.name.clone());
        let mut names: Vec<String> = of_interfaces.collect();
        for bridge in &config.bridges {
            names.extend(bridge.members.iter().map(|m| config.member_name(bridge, m)));
        }
        names.extend(config.pseudowires.iter().map(circuit_name));
        self.shared.ifaces.assign(names.into_iter().map(Into::into));
        self.tables.ifaces.resize_with(self.shared.ifaces.len(), Iface::vacant);
    }

    /// The number of a routed interface of the configuration.
    fn routed(&self, interface: usize) -> u16 {
        let name = &self.config.interfaces[interface].name;
        self.shared.ifaces.get(name).expect("every interface was numbered") as u16
    }

    /// Puts an interface in its place and attaches its tag to its port.
    fn iface(
        &mut self,
        name: &str,
        port: usize,
        tag: Tag,
        lists: [Option<usize>; 2],
        kind: IfaceKind,
    ) -> u16 {
        let index = self.shared.ifaces.get(name).expect("every interface was numbered") as u16;
        let [inbound, outbound] = lists.map(|list| list.map(|list| list as u32));
        let lists = Lists { inbound, outbound };
        self.tables.ifaces[index as usize] =
            Iface { lists, ..Iface::new(name, self.ports[port], tag, kind) };
        let attach = &mut self.tables.ports[self.ports[port].0 as usize].attach;
        let key = |(tpid, vid)| Attach::key(tpid, vid);
        match tag {
            Tag::Double(tags) => attach.double.push((tags.map(key).into(), index)),
            Tag::Tag(tpid, vid) => attach.tagged.push((key((tpid, vid)), index)),
            Tag::None => attach.untagged = Some(index),
        }
        index
    }

    fn attach(&mut self, port: usize) -> &mut Attach {
        &mut self.tables.ports[self.ports[port].0 as usize].attach
    }

    fn interfaces(&mut self) {
        // An interface is its name.
        let mut first: HashMap<&str, usize> = HashMap::new();
        for (number, interface) in self.config.interfaces.iter().enumerate() {
            let mac = self.macs[interface.port];
            let addresses = self.addresses[number].iter();
            let number = *first.entry(&interface.name).or_insert(number);
            let policy = self.bounds.binary_search(&number).ok().map(|policy| policy as u16);
            let v4 = addresses.clone().filter_map(|&(address, len)| match address {
                IpAddr::V4(address) => Some((address, len)),
                IpAddr::V6(_) => None,
            });
            let v6 = addresses.filter_map(|&(address, len)| match address {
                IpAddr::V6(address) => Some((address, len)),
                IpAddr::V4(_) => None,
            });
            let kind = IfaceKind::Routed(RoutedIface {
                vrf: VrfId(interface.vrf as u16),
                mac,
                mtu: interface.mtu as u16,
                v4: v4.collect(),
                v6: [(link_local(mac), 64)].into_iter().chain(v6).collect(),
                mpls: interface.mpls,
                policy,
                sources: interface.sources,
                clamp: interface.clamp_mss.then_some(interface.mtu as u16),
                has_card: self.shared.is_policed(self.ports[interface.port], &interface.name),
            });
            let tag = tag_of(interface.tag.filter(|_| !interface.untagged), None);
            let lists = [interface.acl_in, interface.acl_out];
            let index = self.iface(&interface.name, interface.port, tag, lists, kind);
            // Accepts both, sends without tag: the far end of an access port.
            if let (Some((tpid, vid)), true) = (interface.tag, interface.untagged) {
                let attach = self.attach(interface.port);
                attach.tagged.push((Attach::key(tpid, vid), index));
            }
        }
    }

    /// Puts the tags of every port in the order in which they are looked for.
    fn sort_tags(&mut self) {
        for port in &mut self.tables.ports {
            port.attach.tagged.sort_unstable();
            port.attach.double.sort_unstable();
        }
    }

    fn bridges(&mut self) {
        for (number, bridge) in self.config.bridges.iter().enumerate() {
            let table = self.shared.bridges.entry(bridge.name.clone()).or_insert_with(|| {
                let (places, ageing) = (bridge.addresses, bridge.ageing_seconds);
                Arc::new(bridge::MacTable::new(places, ageing, self.shared.secret))
            });
            let table = table.clone();
            let mut members = Vec::new();
            for member in &bridge.members {
                let name = self.config.member_name(bridge, member);
                let kind = IfaceKind::Bridged { bridge: number as u16, access_vlan: member.access };
                let (tag, lists) = (tag_of(member.tag, None), [member.acl_in, member.acl_out]);
                let index = self.iface(&name, member.port, tag, lists, kind);
                if member.tag.is_none() {
                    // A whole port: tagged frames are the bridge's, too.
                    self.attach(member.port).rest = Some(index);
                }
                members.push(index);
            }
            let name = bridge.name.as_str().into();
            self.tables.bridges.push(bridge::Bridge { name, members, table });
        }
    }

    fn pseudowires(&mut self) {
        for (number, pw) in self.config.pseudowires.iter().enumerate() {
            let kind = IfaceKind::Crossed(number as u16);
            let name = circuit_name(pw);
            let (tag, lists) = (tag_of(pw.tag, pw.inner), [pw.acl_in, pw.acl_out]);
            let iface = self.iface(&name, pw.port, tag, lists, kind);
            if pw.tag.is_none() {
                self.attach(pw.port).rest = Some(iface);
            }
            let adjacency = self.way(&pw.via);
            self.tables.pws.push(mpls::Pseudowire {
                name: pw.name.as_str().into(),
                iface,
                label_out: pw.label_out,
                adjacency,
                control_word: pw.control_word,
                sequencing: pw.sequencing,
                mode: match pw.tagged_mode {
                    Some(vid) => mpls::PwMode::Tagged(vid),
                    None => mpls::PwMode::Raw,
                },
                ttl: pw.ttl,
                spreads: pw.via.entropy || !pw.via.others.is_empty(),
            });
        }
    }

    fn labels(&mut self) {
        let mut entries = Vec::new();
        for entry in self.config.labels.iter().chain(&self.active.labels) {
            let action = match &entry.action {
                LabelAction::Ip(vrf) => mpls::IlmAction::Ip(VrfId(*vrf as u16)),
                LabelAction::Forward(via) => {
                    // The labels belong to the cross-connect, not to the way.
                    let paths = via.paths().map(|path| {
                        let labels = path.labels.iter().rev().copied().collect();
                        (labels, self.way(&bare(&path)))
                    });
                    let mut paths: Vec<_> = paths.collect();
                    match paths.len() {
                        1 => {
                            let (labels, adjacency) = paths.swap_remove(0);
                            mpls::IlmAction::Forward(labels, adjacency)
                        }
                        _ => mpls::IlmAction::Balance(paths.into()),
                    }
                }
            };
            entries.push((entry.label, mpls::Ilm { action, ttl: entry.ttl }));
        }
        for (number, pw) in self.config.pseudowires.iter().enumerate() {
            let action = mpls::IlmAction::Pw(number as u16);
            entries.push((pw.label_in, mpls::Ilm { action, ttl: route::TtlModel::Pipe }));
        }
        self.tables.lfib = mpls::Lfib::new(entries);
    }

    /// Numbers every way that the configuration names, each once.
    fn adjacencies(&mut self) {
        let config = self.config;
        let ways = self.all_ways();
        let names = ways.iter().map(|via| way_name(config, via));
        let mut names: Vec<_> = names.zip(&ways).collect();
        names.sort_by(|a, b| a.0.cmp(&b.0));
        let numbers = self.shared.ways.assign(names.iter().map(|(name, _)| name.as_str().into()));
        let named = names.into_iter().map(|(_, via)| via.clone());
        self.ways = named.zip(numbers.into_iter().map(|number| number as u32)).collect();
        let count = self.shared.ways.len();
        self.next_hops = vec![None; count];
        let same = |iface: u16| {
            let old = self.before.ifaces.get(iface as usize).map(|i| &*i.name);
            old.is_some() && self.shared.ifaces.name(iface as usize) == old
        };
        let before = |at: usize| {
            let old = self.before.adjacencies.get(at).filter(|a| same(a.iface));
            old.cloned().unwrap_or(route::Adjacency::on_link(u16::MAX))
        };
        self.tables.adjacencies = (0..count).map(before).collect();
        for via in &ways {
            let index = self.way(via) as usize;
            let iface = self.routed(via.interface);
            let slot = via.next_hop.and_then(|ip| self.tables.neighbours.reserve(iface, ip));
            self.next_hops[index] = via.next_hop;
            let paths = match via.others.is_empty() {
                true => Vec::new(),
                false => via.paths().map(|path| self.way(&path)).collect(),
            };
            self.tables.adjacencies[index] = route::Adjacency {
                iface,
                neighbour: slot,
                labels: via.labels.iter().rev().copied().collect(),
                ttl: via.ttl,
                entropy: via.entropy,
                paths,
            };
        }
    }

    /// Every way that the configuration names, each once.
    fn all_ways(&self) -> Vec<Via> {
        let config = self.config;
        let mut seen: HashSet<Via> = HashSet::new();
        let mut ways = Vec::new();
        let mut add = |via: &Via| {
            let group = (!via.others.is_empty()).then(|| via.clone());
            for way in via.paths().chain(group) {
                if !seen.contains(&way) {
                    seen.insert(way.clone());
                    ways.push(way);
                }
            }
        };
        (0..config.interfaces.len()).map(on_link).for_each(|via| add(&via));
        let routes = config.routes.iter().chain(&self.active.routes);
        routes.filter_map(|r| r.via.as_ref()).for_each(&mut add);
        for label in config.labels.iter().chain(&self.active.labels) {
            if let LabelAction::Forward(via) = &label.action {
                via.paths().for_each(|path| add(&bare(&path)));
            }
        }
        config.pseudowires.iter().map(|p| &p.via).for_each(&mut add);
        config.tunnels.iter().map(|t| &t.via).for_each(&mut add);
        self.guarded.iter().map(|(_, via)| via).for_each(&mut add);
        ways
    }

    /// The adjacency of a way.
    fn way(&self, via: &Via) -> u32 {
        *self.ways.get(via).expect("every way was numbered")
    }

    fn routes(&mut self) {
        let mut per_vrf: Vec<Vec<((IpAddr, u8), route::Route)>> =
            vec![Vec::new(); self.config.vrfs.len()];
        // The later one holds: a route may take a broadcast address for a host's.
        for (interface, addresses) in self.config.interfaces.iter().zip(&self.addresses) {
            for &(address, len) in addresses {
                let IpAddr::V4(address) = address else { continue };
                let hosts = route::broadcasts(address, len).into_iter().flatten();
                let hosts = hosts.map(|host| ((host.into(), 32), route::Route::Broadcast));
                per_vrf[interface.vrf].extend(hosts);
            }
        }
        self.routes_of(&self.active.routes, &mut per_vrf);
        for of in self.active.addresses.iter().filter(|of| of.has_network) {
            let (address, len) = of.address;
            let via = route::Route::Via(self.way(&on_link(of.interface)));
            let table = &mut per_vrf[self.config.interfaces[of.interface].vrf];
            table.push(((crate::config::mask(address, len), len), via));
        }
        self.routes_of(self.config.routes.iter().rev(), &mut per_vrf);
        // Own addresses stay the node's, in spite of any route.
        for (number, interface) in self.config.interfaces.iter().enumerate() {
            let via = self.way(&on_link(number));
            let table = &mut per_vrf[interface.vrf];
            for &(address, len) in &interface.addresses {
                table.push(((crate::config::mask(address, len), len), route::Route::Via(via)));
            }
            let link_local = link_local(self.macs[interface.port]);
            let own = self.addresses[number].iter().map(|a| a.0).chain([link_local.into()]);
            for address in own {
                let bits = if address.is_ipv4() { 32 } else { 128 };
                table.push(((address, bits), route::Route::Local));
            }
        }
        for (host, via) in &self.guarded {
            let host = (*host, if host.is_ipv4() { 32 } else { 128 });
            per_vrf[0].push((host, route::Route::Guarded(self.way(via))));
        }
        let vrfs = self.config.vrfs.iter().zip(per_vrf);
        let compile = |(name, routes): (&String, _)| route::Vrf::new(name, routes);
        self.tables.vrfs = self.shared.vrfs.tables(vrfs, compile);
    }

    fn routes_of<'r>(
        &self,
        routes: impl IntoIterator<Item = &'r RouteConfig>,
        per_vrf: &mut [Vec<((IpAddr, u8), route::Route)>],
    ) {
        for entry in routes {
            let target = match &entry.via {
                Some(via) => route::Route::Via(self.way(via)),
                None => route::Route::Discard,
            };
            per_vrf[entry.vrf].push((entry.prefix, target));
        }
    }

    fn policies(&mut self, slots: &[u32]) {
        let config = self.config;
        let policies = self.bounds.iter().map(|&bound| {
            let action = |action| match action {
                // In clear as far as the card of its port, which sees to it.
                PolicyAction::Protect(t) if config.tunnels[t].is_inline() => ipsec::Action::Bypass,
                PolicyAction::Protect(t) => ipsec::Action::Protect(slots[t]),
                PolicyAction::Bypass => ipsec::Action::Bypass,
                PolicyAction::Discard => ipsec::Action::Discard,
            };
            let entries = entries_of(config, bound, action, |p| !is_inline(config, p));
            (entries, rest_counter(config, bound))
        });
        self.tables.policies = self.shared.policies.tables(policies, |(entries, rest)| {
            ipsec::Spd::new(&entries).expect("selectors were checked").counting_rest(rest)
        });
    }

    /// Says where each counter was before.
    fn counters(&mut self) {
        let names = |p: &PolicyConfig| {
            let tunnel = match p.action {
                PolicyAction::Protect(t) => &*self.config.tunnels[t].name,
                _ => "",
            };
            let interface = &self.config.interfaces[p.interface].name;
            mark(&(interface, tunnel, &p.name, &p.traffic))
        };
        let mut names: Vec<Mark> = self.config.policies.iter().map(names).collect();
        names.extend(self.config.interfaces.iter().map(|i| mark(&(&i.name, "rest"))));
        let generation = self.shared.generation;
        let carried = carried_over(&self.shared.counters, &names);
        self.shared.counters = names;
        self.tables.hits = ipsec::HitMap { generation, carried };
    }
}

/// Number that each counter had before; each of several equal entries keeps its own.
fn carried_over(before: &[Mark], now: &[Mark]) -> Box<[u32]> {
    if before == now {
        return (0..now.len() as u32).collect();
    }
    let mut places: HashMap<Mark, Vec<u32>> = HashMap::new();
    for (number, name) in before.iter().enumerate().rev() {
        places.entry(*name).or_default().push(number as u32);
    }
    let number = |name| places.get_mut(name).and_then(Vec::pop).unwrap_or(ipsec::UNCOUNTED);
    now.iter().map(number).collect()
}

/// True if a card seals the packets that an entry protects.
pub(crate) fn is_inline(config: &Config, policy: &PolicyConfig) -> bool {
    match policy.action {
        PolicyAction::Protect(tunnel) => config.tunnels[tunnel].is_inline(),
        _ => false,
    }
}

/// The counter of packets that match no entry of an interface.
pub(crate) fn rest_counter(config: &Config, interface: usize) -> u32 {
    (config.policies.len() + interface) as u32
}

/// The entries of the policy of an interface. Counters are numbered as entries are in the
/// configuration; behind them come those of packets that match no entry.
pub(crate) fn entries_of(
    config: &Config,
    interface: usize,
    action: impl Fn(PolicyAction) -> ipsec::Action,
    counts: impl Fn(&PolicyConfig) -> bool,
) -> Vec<ipsec::PolicyEntry> {
    let of_it = config.policies.iter().enumerate().filter(|(_, p)| p.interface == interface);
    let mut entries = Vec::new();
    for (number, policy) in of_it {
        let action = action(policy.action);
        let counter = if counts(policy) { number as u32 } else { ipsec::UNCOUNTED };
        let selectors = policy.traffic.selectors().into_iter();
        entries.extend(selectors.map(|selector| ipsec::PolicyEntry { selector, action, counter }));
    }
    entries
}

/// The logical interface of a pseudowire's attachment circuit.
fn circuit_name(pw: &PseudowireConfig) -> String {
    format!("{}:ac", pw.name)
}

/// The tag of an interface.
fn tag_of(outer: Option<VlanTag>, inner: Option<VlanTag>) -> Tag {
    match (outer, inner) {
        (Some(outer), Some(inner)) => Tag::Double([outer, inner]),
        (Some((tpid, vid)), None) => Tag::Tag(tpid, vid),
        (None, _) => Tag::None,
    }
}

/// The way to hosts on an interface's network.
fn on_link(interface: usize) -> Via {
    Via::new(interface, None)
}

/// A way without its labels, which a cross-connect pushes itself.
fn bare(via: &Via) -> Via {
    Via::new(via.interface, via.next_hop)
}

/// Identity of a route's path: equal paths share one adjacency.
fn way_name(config: &Config, via: &Via) -> String {
    let name = |via: &Via| {
        let interface = &config.interfaces[via.interface].name;
        format!("{interface} {:?} {:?} {:?} {}", via.next_hop, via.labels, via.ttl, via.entropy)
    };
    via.paths().map(|path| name(&path)).collect::<Vec<_>>().join("; ")
}

/// The link-local address of a link address (RFC 4291 appendix A).
pub(crate) fn link_local(mac: MacAddr) -> Ipv6Addr {
    let m = mac.0;
    let id = [m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]];
    let mut octets = [0; 16];
    octets[..2].copy_from_slice(&[0xfe, 0x80]);
    octets[8..].copy_from_slice(&id);
    octets.into()
}
