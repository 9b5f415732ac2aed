//! Fresh keys while a network runs, by configurations that are applied: what a
//! person does with `ferrule apply`.
//!
//! ```text
//!            receivers                     the sender
//!   make     have the new association, too
//!   switch                                 seals with it
//!   break    no longer have the old one
//! ```
//!
//! A SecY has several receive associations and a tunnel several inbound ones, so
//! nothing need be lost.

use super::case::{Case, Rekey};
use ferrule_base::{Duration, Instant, MacAddr, Secret};
use ferrule_crypto::fingerprint;
use ferrule_node::config::{MacsecSaConfig, SaConfig};
use ferrule_node::{Config, default_sci};

/// SPIs of fresh associations differ from the old ones in this bit.
const SPI_BIT: u32 = 1 << 24;
/// Steps of a renewal.
const STEPS: usize = 3;

/// A node gets another configuration.
pub(super) struct Step {
    /// Time of the step.
    pub at: Instant,
    /// The node, by place.
    pub node: usize,
    /// Stated configuration from this step on.
    pub config: Config,
}

/// Association to be renewed, with its old and new SA.
enum Renewal {
    /// A SecY's transmit association.
    Secy { secy: usize, sci: u64, old: MacsecSaConfig, new: MacsecSaConfig },
    /// A tunnel's outbound association.
    Tunnel { tunnel: usize, old: Box<SaConfig>, new: Box<SaConfig> },
}

/// Rekeying steps of a case in order of time, from the nodes' first configurations and the
/// addresses of their ports.
pub(super) fn steps(case: &Case, configs: &[Config], macs: &[Vec<MacAddr>]) -> Vec<Step> {
    let mut plans: Vec<(Instant, usize, usize, Renewal)> = Vec::new();
    for rekey in &case.rekey {
        let Some(first) = renewal(rekey, configs, macs) else { continue };
        // An association is renewed once.
        if plans.iter().any(|(_, node, _, known)| *node == rekey.node && known.is_of(&first)) {
            continue;
        }
        let begin = case.start() + Duration::from_nanos(rekey.at_ns);
        let after = |step: usize| begin + Duration::from_nanos(rekey.step_ns) * step as u32;
        for step in 0..STEPS {
            let Some(renewal) = renewal(rekey, configs, macs) else { continue };
            plans.push((after(step), rekey.node, step, renewal));
        }
    }
    plans.sort_by_key(|plan| plan.0);
    let (mut current, mut steps) = (configs.to_vec(), Vec::new());
    for (at, owner, step, renewal) in plans {
        for (node, config) in current.iter_mut().enumerate() {
            if renewal.apply(step, node == owner, config) {
                steps.push(Step { at, node, config: config.clone() });
            }
        }
    }
    steps
}

/// Renewal that a rekey asks for; `None` for a node without outbound associations.
fn renewal(rekey: &Rekey, configs: &[Config], macs: &[Vec<MacAddr>]) -> Option<Renewal> {
    let config = configs.get(rekey.node)?;
    let sealing = config.secys.iter().enumerate().filter(|(_, s)| !s.transmit.is_empty());
    let sealing: Vec<usize> = sealing.map(|(place, _)| place).collect();
    let place = rekey.sa.checked_rem(sealing.len() + config.tunnels.len())?;
    let Some(&secy) = sealing.get(place) else {
        let tunnel = place - sealing.len();
        let old = config.tunnels.get(tunnel)?.outbound.first()?.clone();
        let mut new = SaConfig { spi: old.spi ^ SPI_BIT, ..old.clone() };
        new.keys.key = renewed(&old.keys.key);
        new.keys.mac_key = renewed(&old.keys.mac_key);
        let (old, new) = (Box::new(old), Box::new(new));
        return Some(Renewal::Tunnel { tunnel, old, new });
    };
    let entry = config.secys.get(secy)?;
    let mac = macs.get(rekey.node)?.get(entry.port).copied().unwrap_or_default();
    let (sci, old) = (entry.sci.unwrap_or(default_sci(mac)), entry.transmit.first()?.clone());
    let receivers = configs.iter().flat_map(|c| &c.secys).flat_map(|s| &s.receive);
    let used: Vec<u8> =
        receivers.filter(|sa| sa.sci == Some(sci)).chain(&entry.transmit).map(|sa| sa.an).collect();
    let an = (1..4).map(|n| (old.an + n) % 4).find(|an| !used.contains(an))?;
    let new = MacsecSaConfig { an, key: renewed(&old.key), ..old.clone() };
    Some(Renewal::Secy { secy, sci, old, new })
}

/// An association at the worker of another.
fn at_home(other: &SaConfig, new: &SaConfig) -> SaConfig {
    SaConfig { worker: other.worker, ..new.clone() }
}

impl Renewal {
    /// True if both renew the same association of a node.
    fn is_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Secy { secy: a, .. }, Self::Secy { secy: b, .. }) => a == b,
            (Self::Tunnel { tunnel: a, .. }, Self::Tunnel { tunnel: b, .. }) => a == b,
            _ => false,
        }
    }

    /// Takes a step in a configuration; true if anything changed.
    fn apply(&self, step: usize, is_owner: bool, config: &mut Config) -> bool {
        match self {
            Self::Secy { secy, sci, old, new } => {
                if step == 1 {
                    let own = config.secys.get_mut(*secy).filter(|_| is_owner);
                    let own = own.and_then(|s| s.transmit.first_mut());
                    return own.map(|sa| *sa = new.clone()).is_some();
                }
                let mut changed = false;
                for receive in config.secys.iter_mut().map(|s| &mut s.receive) {
                    let is_old = |sa: &MacsecSaConfig| {
                        sa.sci == Some(*sci) && sa.an == old.an && sa.key.same_as(&old.key)
                    };
                    if !receive.iter().any(is_old) {
                        continue;
                    }
                    changed = true;
                    if step == 0 {
                        receive.push(MacsecSaConfig { sci: Some(*sci), ..new.clone() });
                    } else {
                        receive.retain(|sa| !is_old(sa));
                    }
                }
                changed
            }
            Self::Tunnel { tunnel, old, new } => {
                if step == 1 {
                    let own = config.tunnels.get_mut(*tunnel).filter(|_| is_owner);
                    let own = own.and_then(|t| t.outbound.first_mut());
                    return own.map(|sa| *sa = at_home(sa, new)).is_some();
                }
                let is_old =
                    |sa: &SaConfig| sa.spi == old.spi && sa.keys.key.same_as(&old.keys.key);
                let mut tunnels = config.tunnels.iter_mut().map(|t| &mut t.inbound);
                let Some(inbound) = tunnels.find(|sas| sas.first().is_some_and(is_old)) else {
                    return false;
                };
                let new = at_home(&inbound[0], new);
                if step == 0 {
                    inbound.push(new);
                } else {
                    *inbound = vec![inbound.pop().filter(|_| inbound.len() > 1).unwrap_or(new)];
                }
                true
            }
        }
    }
}

/// A key that follows from another, as long.
fn renewed(key: &Secret) -> Secret {
    let mut octets = Vec::with_capacity(key.len() + 16);
    while octets.len() < key.len() {
        let count = octets.len().to_be_bytes();
        octets.extend(fingerprint(key, &[&b"rekey"[..], &count].concat()));
    }
    octets.truncate(key.len());
    Secret::new(octets)
}
