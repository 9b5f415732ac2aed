//! The tables of a card, from the configuration and the node's own tables.
//!
//! Ports, interfaces and SAs have the numbers that they have in the node, so that nothing
//! is numbered twice. Numbers that are not the card's are vacant places.

use crate::compile::{Compiled, Shared, entries_of, frame_max, is_inline, rest_counter};
use crate::config::{Config, PolicyAction, TunnelConfig};
use ferrule_base::VrfId;
use ferrule_dataplane::route::Adjacency;
use ferrule_dataplane::tables::{Iface, IfaceKind, PortEntry, RoutedIface};
use ferrule_dataplane::{Tables, ipsec, route};
use ferrule_wire::Protocol;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Compiles the tables of the card of port `at` of the configuration.
pub(crate) fn compile(
    config: &Config,
    compiled: &Compiled,
    node: &Tables,
    shared: &Shared,
    at: usize,
) -> Tables {
    let id = compiled.ports[at];
    let mut tables = Tables {
        workers: 1,
        hits: node.hits.clone(),
        acquires: node.acquires.clone(),
        ports: node.ports.iter().map(|_| PortEntry::default()).collect(),
        ifaces: node.ifaces.iter().map(|_| Iface::vacant()).collect(),
        // The adjacency of an interface has its number.
        adjacencies: (0..node.ifaces.len() as u16).map(Adjacency::on_link).collect(),
        ..Tables::default()
    };
    let own = &node.ports[usize::from(id.0)];
    let secured = config.secys.iter().any(|s| s.port == at && s.is_inline());
    tables.ports[usize::from(id.0)] = PortEntry {
        name: own.name.clone(),
        mac: own.mac,
        frame_max: frame_max(config.ports[at].mtu),
        secy: secured.then_some(id.0),
        attach: own.attach.clone(),
        ..PortEntry::default()
    };
    for (index, interface) in config.interfaces.iter().enumerate() {
        if interface.port == at && shared.is_policed(id, &interface.name) {
            police(config, compiled, node, shared, index, &mut tables);
        }
    }
    sas(config, compiled, shared, at, &mut tables);
    tables.compile();
    tables
}

/// An interface whose packets the card judges.
fn police(
    config: &Config,
    compiled: &Compiled,
    node: &Tables,
    shared: &Shared,
    index: usize,
    tables: &mut Tables,
) {
    let interface = &config.interfaces[index];
    let Some(number) = shared.ifaces.get(&interface.name) else { return };
    let IfaceKind::Routed(routed) = &node.ifaces[number].kind else { return };
    let kind = IfaceKind::Routed(RoutedIface {
        vrf: VrfId::GLOBAL,
        mac: routed.mac,
        mtu: routed.mtu,
        v4: routed.v4.clone(),
        v6: routed.v6.clone(),
        mpls: false,
        policy: Some(tables.policies.len() as u16),
        sources: None,
        clamp: None,
        has_card: false,
    });
    let (port, tag) = (compiled.ports[interface.port], node.ifaces[number].tag);
    tables.ifaces[number] = Iface::new(&interface.name, port, tag, kind);
    tables.policies.push(policy(config, &compiled.slots, index).into());
}

/// The policy of an interface as its card has it. A packet that another engine of the node
/// protects arrives here sealed, between the ends of the pair that leaves by this
/// interface, which is the outermost one; sealed by an inner pair alone, or in clear, it is
/// an error. A later fragment of IPv6 does not show its protocol.
fn policy(config: &Config, slots: &[u32], interface: usize) -> ipsec::Spd {
    let mut entries: Vec<_> = keying(config, interface).into_iter().map(bypass).collect();
    let leaves = |t: &&TunnelConfig| t.via.interface == interface && t.then.is_none();
    for tunnel in config.tunnels.iter().filter(leaves).filter(|t| !t.is_inline()) {
        let ends = || ipsec::Selector::between(host(tunnel.local), host(tunnel.remote));
        let mut selectors = vec![ends().of(tunnel.carried())];
        if tunnel.local.is_ipv6() {
            selectors.push(ipsec::Selector { protocol: ipsec::Field::Opaque, ..ends() });
        }
        entries.extend(selectors.into_iter().map(bypass));
    }
    let action = |action| match action {
        PolicyAction::Protect(t) if config.tunnels[t].is_inline() => {
            ipsec::Action::Protect(slots[t])
        }
        PolicyAction::Bypass => ipsec::Action::Bypass,
        PolicyAction::Protect(_) | PolicyAction::Discard => ipsec::Action::Discard,
    };
    // Entries that the node applies, too, it counts.
    let whole = config.is_left_to_card(interface);
    entries.extend(entries_of(config, interface, action, |p| whole || is_inline(config, p)));
    let spd = ipsec::Spd::new(&entries).expect("selectors were checked");
    if whole { spd.counting_rest(rest_counter(config, interface)) } else { spd }
}

fn bypass(selector: ipsec::Selector) -> ipsec::PolicyEntry {
    ipsec::PolicyEntry::new(selector, ipsec::Action::Bypass)
}

/// Datagrams of keying programs at an interface: at its own addresses and at the ends of tunnels
/// that leave by it. Programs have no addresses in other tables than the global one.
fn keying(config: &Config, interface: usize) -> Vec<ipsec::Selector> {
    let of = &config.interfaces[interface];
    if of.vrf != 0 {
        return Vec::new();
    }
    let ends = config.tunnels.iter().filter(|t| t.via.interface == interface).map(|t| t.local);
    let own: BTreeSet<IpAddr> = of.addresses.iter().map(|&(own, _)| own).chain(ends).collect();
    let ports: BTreeSet<u16> = config.keying_ports.iter().copied().collect();
    let at = |&address: &IpAddr| {
        let any = match address {
            IpAddr::V4(_) => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            IpAddr::V6(_) => (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0),
        };
        let udp = ipsec::Selector::between(host(address), any).of(Protocol::UDP);
        ports.iter().map(move |&port| {
            let local_ports = ipsec::Field::is(port);
            ipsec::Selector { local_ports, ..udp.clone() }
        })
    };
    own.iter().flat_map(at).collect()
}

fn host(address: IpAddr) -> (IpAddr, u8) {
    (address, if address.is_ipv4() { 32 } else { 128 })
}

/// The tunnels that end in the card of a port.
pub(crate) fn tunnels_of(
    config: &Config,
    port: usize,
) -> impl Iterator<Item = (usize, &TunnelConfig)> {
    let of_port = move |t: &TunnelConfig| config.card_of(t) == Some(port);
    config.tunnels.iter().enumerate().filter(move |(_, t)| of_port(t))
}

fn sas(config: &Config, compiled: &Compiled, shared: &Shared, port: usize, tables: &mut Tables) {
    tables.sas = shared.directories.cards.get(&compiled.ports[port]).cloned().unwrap_or_default();
    let here = tunnels_of(config, port).map(|(_, t)| (host(t.local), route::Route::Local));
    tables.vrfs = vec![route::Vrf::new("", here).into()];
}
