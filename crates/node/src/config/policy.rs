//! The security policy: ordered entries of an interface (RFC 4301 section 4.4.1).
//!
//! ```toml
//!   [[policy]]
//!   interface = "wan"
//!   action = "protect"                  # or "bypass", "discard"
//!   tunnel = "branch"                   # or transport = "NAME"
//!   local = "10.1.0.0/16"               # a network, an address, a range, a list
//!   remote = ["10.2.0.0/16", "10.3.0.1-10.3.0.9"]
//!   protocol = "tcp"                    # a name, a number, "any", "opaque", a list
//!   remote-ports = [443, "8000-8999"]   # "opaque": later fragments, for example
//! ```

use super::names::Names;
use super::raw::{self, Spanned};
use super::read::Reader;
use super::traffic::{Said, Traffic};
use super::{Config, TunnelConfig};
use ferrule_dataplane::ipsec::spd::SELECTORS_MAX;
use ferrule_dataplane::ipsec::{Addresses, Mode, Selector};

/// An entry of the security policy of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyConfig {
    /// Name in lists.
    pub name: Option<String>,
    /// The interface that is the boundary, by index.
    pub interface: usize,
    /// Whose traffic.
    pub traffic: Traffic,
    /// Action on that traffic.
    pub action: PolicyAction,
}

/// PROTECT, BYPASS or DISCARD (RFC 4301 section 4.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyAction {
    /// By this tunnel, by index.
    Protect(usize),
    /// In the clear.
    Bypass,
    /// Not at all.
    Discard,
}

impl PolicyConfig {
    /// The selectors of every tunnel: the traffic that entries send through it, which
    /// is what may come out of it (RFC 4301 section 5.2).
    pub(crate) fn by_tunnel(config: &Config) -> Vec<Vec<Selector>> {
        let mut all = vec![Vec::new(); config.tunnels.len()];
        for policy in &config.policies {
            if let PolicyAction::Protect(tunnel) = policy.action {
                all[tunnel].extend(policy.traffic.selectors());
            }
        }
        // And the packets of the pairs that it is around.
        for inside in &config.tunnels {
            let Some(around) = inside.then else { continue };
            let host = |end| Addresses::from((end, u8::MAX));
            let ends = Selector::between(host(inside.local), host(inside.remote));
            all[around].push(ends.of(inside.carried()));
        }
        all
    }
}

pub(super) fn policies(r: &mut Reader<'_>, file: &raw::File, config: &mut Config) {
    let pairs = Pairs::of(file);
    let mut selectors = 0;
    for policy in file.policy.iter() {
        let (span, policy) = (policy.span(), policy.get_ref());
        let interface = r.interfaces.find(&mut r.problems, &policy.interface);
        let pair = pairs.named(r, policy);
        let action = action(r, policy, pair);
        let said = Said {
            ends: ["local", "remote"],
            local: &policy.local,
            remote: &policy.remote,
            protocol: &policy.protocol,
            local_ports: &policy.local_ports,
            remote_ports: &policy.remote_ports,
            icmp: &policy.icmp,
            mobility: &policy.mobility,
        };
        let mut entry = PolicyConfig {
            name: policy.name.as_ref().map(|name| name.get_ref().clone()),
            interface: interface.unwrap_or_default(),
            traffic: said.read(r),
            action: action.unwrap_or(PolicyAction::Discard),
        };
        let (Some(_), Some(_)) = (interface, action) else { continue };
        if let Some(pair) = pair.and_then(|number| config.tunnels.get(number)) {
            between_ends(r, policy, pair, &mut entry.traffic);
        }
        selectors += said.check(r, span, &entry.traffic);
        config.policies.push(entry);
    }
    if selectors > SELECTORS_MAX {
        let what = format!("the policies stand for {selectors} selectors");
        let remedy = format!("{SELECTORS_MAX} at most: use networks and ranges instead of lists");
        r.problems.add(file.policy.last().map_or(0..0, Spanned::span), what, remedy);
    }
}

/// The pairs of SAs by name: tunnels, and behind them those in transport mode.
struct Pairs {
    tunnels: Names,
    transports: Names,
}

impl Pairs {
    fn of(file: &raw::File) -> Self {
        let names = |what, list: &[Spanned<raw::Tunnel>]| {
            Names::of(what, list.iter().map(|pair| pair.get_ref().name.get_ref().as_str()))
        };
        let tunnels = names("tunnel", &file.tunnel);
        Self { tunnels, transports: names("transport", &file.transport) }
    }

    /// The number of the one that an entry names.
    fn named(&self, r: &mut Reader<'_>, policy: &raw::Policy) -> Option<usize> {
        match (&policy.tunnel, &policy.transport) {
            (Some(_), Some(both)) => {
                let remedy = "keep the one that protects";
                r.problems.add(both.span(), "a tunnel and a transport for one entry", remedy);
                None
            }
            (Some(tunnel), None) => self.tunnels.find(&mut r.problems, tunnel),
            (None, Some(transport)) => {
                let number = self.transports.find(&mut r.problems, transport)?;
                Some(self.tunnels.len() + number)
            }
            (None, None) => None,
        }
    }
}

/// Transport mode is for what its ends send to each other, and for nothing else.
fn between_ends(
    r: &mut Reader<'_>,
    policy: &raw::Policy,
    pair: &TunnelConfig,
    traffic: &mut Traffic,
) {
    if pair.mode != Mode::Transport {
        return;
    }
    let local = (&mut traffic.local, pair.local, &policy.local);
    let remote = (&mut traffic.remote, pair.remote, &policy.remote);
    for (said, end, words) in [local, remote] {
        let host = Addresses::from((end, u8::MAX));
        if let Some(words) = words
            && **said != [host]
        {
            let what = format!("transport mode protects what {end} sends and gets, nothing else");
            r.problems.add(words.span(), what, format!("write \"{end}\", or leave it out"));
        }
        *said = vec![host];
    }
}

fn action(r: &mut Reader<'_>, policy: &raw::Policy, tunnel: Option<usize>) -> Option<PolicyAction> {
    let actions = [("protect", 0), ("bypass", 1), ("discard", 2)];
    match r.choice(&policy.action, "action", &actions)? {
        0 if policy.tunnel.is_none() && policy.transport.is_none() => {
            let remedy = "add tunnel = \"NAME\" or transport = \"NAME\"";
            r.problems.add(policy.action.span(), "protect needs a tunnel", remedy);
            None
        }
        0 => tunnel.map(PolicyAction::Protect),
        1 => Some(PolicyAction::Bypass),
        _ => Some(PolicyAction::Discard),
    }
}

#[cfg(test)]
mod tests;
