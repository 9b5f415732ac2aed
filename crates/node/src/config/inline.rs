//! Tunnels and SecYs in a port's card (`placement = "inline"`), and the conditions for them
//! on the rest of a configuration.
//!
//! ```toml
//!   [[port]]
//!   name = "wan"
//!   mtu = 1500                # of the wire
//!
//!   [[interface]]
//!   port = "wan"              # its mtu becomes what the card leaves: 1438
//!
//!   [[route]]                 # the way to the hosts behind the other gateway
//!   prefix = "10.9.0.0/24"    # must name the next hop of that gateway: the card
//!   via = "198.51.100.1"      # changes no link address
//!
//!   [[tunnel]]
//!   placement = "inline"
//! ```

use super::names::Networks;
use super::raw::Spanned;
use super::read::Reader;
use super::{
    Config, MacsecConfig, Placement, PolicyAction, PolicyConfig, TunnelConfig, Via, ipsec, raw,
};
use ferrule_dataplane::ipsec::{Addresses, Mode, SaProtocol, Tfc};
use std::collections::HashMap;
use std::net::IpAddr;

/// No IPv6 link is narrower (RFC 8200 section 5).
const MTU6_MIN: usize = 1280;

impl TunnelConfig {
    /// True if a port's card seals and opens the tunnel's packets.
    pub fn is_inline(&self) -> bool {
        self.placement == Placement::Inline
    }
}

impl MacsecConfig {
    /// True if a port's card does the MACsec.
    pub fn is_inline(&self) -> bool {
        self.placement == Placement::Inline
    }
}

impl Config {
    /// The port whose card has this tunnel, by index; nothing: it is not inline.
    pub fn card_of(&self, tunnel: &TunnelConfig) -> Option<usize> {
        tunnel.is_inline().then(|| self.interfaces[tunnel.via.interface].port)
    }

    /// True if a tunnel or a SecY is placed in the card of a port.
    pub fn has_card(&self, port: usize) -> bool {
        self.secys.iter().any(|s| s.port == port && s.is_inline())
            || self.tunnels.iter().any(|t| self.card_of(t) == Some(port))
    }

    /// True if cards seal all that the policy of an interface protects: then they alone apply
    /// that policy.
    pub fn is_left_to_card(&self, interface: usize) -> bool {
        self.left_to_cards()[interface].1
    }

    /// For each interface, whether a card seals some of what leaves by it, and whether
    /// it seals all that is sealed there.
    pub fn left_to_cards(&self) -> Vec<(bool, bool)> {
        let mut sealed = vec![(false, true); self.interfaces.len()];
        for policy in &self.policies {
            let PolicyAction::Protect(tunnel) = policy.action else { continue };
            let Some(tunnel) = self.tunnels.get(tunnel) else { continue };
            let (some, all) = &mut sealed[policy.interface];
            *some |= tunnel.is_inline();
            *all &= tunnel.is_inline();
        }
        sealed.into_iter().map(|(some, all)| (some, some && all)).collect()
    }
}

/// Tells the interfaces above cards what is left of their mtu: once, when every tunnel
/// and policy entry is known.
pub(super) fn tell_mtu(config: &mut Config) {
    for policy in &config.policies {
        let PolicyAction::Protect(tunnel) = policy.action else { continue };
        if let Some(tunnel) = config.tunnels.get(tunnel).filter(|t| t.is_inline()) {
            let mtu = &mut config.interfaces[policy.interface].mtu;
            *mtu = (*mtu).min(tunnel.mtu);
        }
    }
}

/// True if a card can do the tunnel: ESP in tunnel mode, without UDP, another pair around it,
/// further or shared outbound SAs, padding or dummies.
pub(super) fn is_plain(pair: &TunnelConfig) -> bool {
    let single = pair.outbound.len() <= 1 && pair.shared.is_none();
    let alone = single && pair.encap.is_none() && pair.then.is_none();
    let tunnel = pair.protocol == SaProtocol::Esp && pair.mode == Mode::Tunnel;
    tunnel && alone && pair.tfc == Tfc::Off && pair.dummies == 0
}

/// True if a tunnel that is not inline could be, as the rest is configured: the conditions of
/// [`check`], without its messages. The routes are by network.
pub(super) fn could_be(config: &Config, routes: &Networks<usize>, number: usize) -> bool {
    let tunnel = &config.tunnels[number];
    let way_out = &config.interfaces[tunnel.via.interface];
    let v6 = way_out.addresses.iter().any(|(address, _)| address.is_ipv6());
    let fits = !v6 || way_out.mtu.min(tunnel.mtu) >= MTU6_MIN;
    let protects = |p: &&PolicyConfig| p.action == PolicyAction::Protect(number);
    let has_inner = config.tunnels.iter().any(|inner| inner.then == Some(number));
    is_plain(tunnel)
        && !has_inner
        && tunnel.vrf == way_out.vrf
        && tunnel.via.labels.is_empty()
        && !way_out.mpls
        && fits
        && config.policies.iter().filter(protects).all(|p| {
            let elsewhere =
                p.traffic.remote.iter().any(|r| other_way(config, routes, r, tunnel).is_some());
            p.interface == tunnel.via.interface && !elsewhere
        })
}

/// Reports tunnels, policies and SecYs that are inline and cannot be.
pub(super) fn check(r: &mut Reader<'_>, file: &raw::File, config: &Config) {
    tunnels(r, file, config);
    policies(r, file, config);
    secys(r, file, config);
}

fn tunnels(r: &mut Reader<'_>, file: &raw::File, config: &Config) {
    for ((raw, _), tunnel) in ipsec::pairs(file).zip(&config.tunnels) {
        if !tunnel.is_inline() {
            continue;
        }
        let (span, raw) = (raw.span(), raw.get_ref());
        let interface = &config.interfaces[tunnel.via.interface];
        if tunnel.vrf != interface.vrf {
            let span = raw.vrf.as_ref().map_or(span.clone(), Spanned::span);
            let what = format!(
                "tunnel `{}` is inline, and its packets are of another vrf than interface `{}`",
                tunnel.name, interface.name
            );
            let remedy = "a card gives packets to the interface: use the interface's vrf";
            r.problems.add(span, what, remedy);
        }
        if !tunnel.via.labels.is_empty() {
            let what = format!("tunnel `{}` is inline, and its way has labels", tunnel.name);
            r.problems.add(span, what, "a card pushes no labels: place it in software");
        }
        for sa in raw.all_out().chain(raw.all_in()) {
            if let Some(worker) = &sa.get_ref().worker {
                let what = format!("tunnel `{}` is inline: no worker has it", tunnel.name);
                r.problems.add(worker.span(), what, "take worker out: the port's card has it");
            }
        }
    }
}

fn policies(r: &mut Reader<'_>, file: &raw::File, config: &Config) {
    if !config.tunnels.iter().any(TunnelConfig::is_inline) {
        return;
    }
    let routes = Networks::of_routes(config);
    for (raw, policy) in file.policy.iter().zip(&config.policies) {
        let PolicyAction::Protect(number) = policy.action else { continue };
        let Some(tunnel) = config.tunnels.get(number).filter(|t| t.is_inline()) else { continue };
        let interface = &config.interfaces[policy.interface];
        let way_out = &config.interfaces[tunnel.via.interface];
        if policy.interface != tunnel.via.interface {
            let what = format!(
                "tunnel `{}` is inline and leaves by `{}`, its policy stands at `{}`",
                tunnel.name, way_out.name, interface.name
            );
            let remedy = format!(
                "a card sends by its own port: protect at `{}`, or place it in software",
                way_out.name
            );
            r.problems.add(raw.get_ref().interface.span(), what, remedy);
            continue;
        }
        if interface.mpls {
            let what = format!("interface `{}` has mpls and an inline tunnel", interface.name);
            let remedy = "labelled packets would pass the card in clear: use another VLAN for them";
            r.problems.add(raw.get_ref().interface.span(), what, remedy);
        }
        let v6 = interface.addresses.iter().any(|(address, _)| address.is_ipv6());
        if v6 && interface.mtu < MTU6_MIN {
            let what = format!(
                "interface `{}` has IPv6, and its card leaves an mtu of {}",
                interface.name, interface.mtu
            );
            let remedy = format!("IPv6 needs {MTU6_MIN}: use a larger mtu at the port");
            r.problems.add(raw.get_ref().interface.span(), what, remedy);
        }
        let other =
            policy.traffic.remote.iter().find_map(|r| other_way(config, &routes, r, tunnel));
        if let Some((route, whither)) = other
            && let Some(raw) = file.route.get(route)
        {
            let what = format!("what inline tunnel `{}` protects {whither}", tunnel.name);
            let remedy = "a card keeps the link address: give the route the gateway's next hop";
            r.problems.add(raw.span(), what, remedy);
        }
    }
}

/// The route, by index, by which protected packets go elsewhere than the tunnel's own
/// packets, and whither.
fn other_way(
    config: &Config,
    routes: &Networks<usize>,
    remote: &Addresses,
    tunnel: &TunnelConfig,
) -> Option<(usize, String)> {
    let index = *routes.around(tunnel.vrf, remote.first, agreeing(remote)).next()?;
    let gateway = tunnel.via.next_hop?;
    config.routes[index].via.as_ref()?.paths().find_map(|Via { interface, next_hop, .. }| {
        match next_hop {
            _ if interface != tunnel.via.interface => None,
            None => Some((index, "is looked for on the link itself".into())),
            // Of two families the link addresses may still be one neighbour's.
            Some(hop) if hop.is_ipv4() == gateway.is_ipv4() && hop != gateway => {
                Some((index, format!("goes to {hop}, the other gateway by {gateway}")))
            }
            Some(_) => None,
        }
    })
}

/// Bits at the front that all of some addresses have in common.
fn agreeing(addresses: &Addresses) -> u8 {
    let bits = match (addresses.first, addresses.last) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => 0,
    };
    bits as u8
}

fn secys(r: &mut Reader<'_>, file: &raw::File, config: &Config) {
    // The first tunnel of each card.
    let mut cards: HashMap<usize, &TunnelConfig> = HashMap::new();
    for tunnel in &config.tunnels {
        if let Some(port) = config.card_of(tunnel) {
            cards.entry(port).or_insert(tunnel);
        }
    }
    for (raw, secy) in file.macsec.iter().zip(&config.secys) {
        let above = cards.get(&secy.port);
        if let (false, Some(tunnel)) = (secy.is_inline(), above) {
            let what = format!(
                "the SecY of port `{}` stands above the card that has tunnel `{}`",
                config.ports[secy.port].name, tunnel.name
            );
            let span = raw.get_ref().placement.as_ref().unwrap_or(&raw.get_ref().port).span();
            r.problems.add(span, what, "give the SecY placement = \"inline\", too");
        }
    }
}
