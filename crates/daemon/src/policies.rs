//! The security policy, entry by entry, with what each was asked for.

use ferrule_dataplane::ipsec::{Addresses, Hit};
use ferrule_node::config::{Config, PolicyAction, PolicyConfig};
use ferrule_node::message::WorkerReport;
use serde::{Deserialize, Serialize};

/// Entries that are named where a place has room for a few.
const NAMED_MAX: usize = 4;

/// An entry of a policy, or what no entry of it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct PolicyView {
    pub interface: String,
    /// Its place among the entries of the interface, from 1; 0: packets that no entry matches.
    pub order: usize,
    pub name: Option<String>,
    /// `protect`, `bypass` or `discard`.
    pub action: String,
    /// The tunnel that protects.
    pub by: Option<String>,
    pub local: Vec<String>,
    pub remote: Vec<String>,
    /// Protocol, ports and messages, in words; empty: any.
    pub upper: String,
    pub packets_out: u64,
    pub octets_out: u64,
    /// In clear: only BYPASS lets them pass.
    pub packets_in: u64,
    pub octets_in: u64,
}

/// Hits of each entry by number, summed over workers and cards.
fn hits(config: &Config, workers: &[Box<WorkerReport>]) -> Vec<Hit> {
    let mut all = vec![Hit::default(); config.policies.len() + config.interfaces.len()];
    let cards = workers.iter().flat_map(|w| w.cards.iter().map(|c| &c.hits));
    for counted in workers.iter().map(|w| &w.hits).chain(cards) {
        all.iter_mut().zip(counted).for_each(|(sum, hit)| sum.merge(hit));
    }
    all
}

fn texts(list: &[Addresses]) -> Vec<String> {
    list.iter().map(Addresses::to_string).collect()
}

fn view(config: &Config, policy: &PolicyConfig, order: usize) -> PolicyView {
    let (action, by) = match policy.action {
        PolicyAction::Protect(t) => ("protect", Some(config.tunnels[t].name.clone())),
        PolicyAction::Bypass => ("bypass", None),
        PolicyAction::Discard => ("discard", None),
    };
    PolicyView {
        interface: config.interfaces[policy.interface].name.clone(),
        order,
        name: policy.name.clone(),
        action: action.into(),
        by,
        local: texts(&policy.traffic.local),
        remote: texts(&policy.traffic.remote),
        upper: policy.traffic.upper(["local", "remote"]),
        ..PolicyView::default()
    }
}

/// Every policy, in order.
pub(crate) fn policies(config: &Config, workers: &[Box<WorkerReport>]) -> Vec<PolicyView> {
    let hits = hits(config, workers);
    let counted = |view: PolicyView, number: usize| {
        let hit = hits.get(number).copied().unwrap_or_default();
        PolicyView {
            packets_out: hit.packets_out,
            octets_out: hit.octets_out,
            packets_in: hit.packets_in,
            octets_in: hit.octets_in,
            ..view
        }
    };
    let mut of_interface = vec![Vec::new(); config.interfaces.len()];
    for (number, policy) in config.policies.iter().enumerate() {
        let entries: &mut Vec<PolicyView> = &mut of_interface[policy.interface];
        let order = entries.len() + 1;
        entries.push(counted(view(config, policy, order), number));
    }
    for (number, entries) in of_interface.iter_mut().enumerate() {
        if !entries.is_empty() {
            let interface = config.interfaces[number].name.clone();
            let rest = PolicyView { interface, action: "discard".into(), ..Default::default() };
            entries.push(counted(rest, config.policies.len() + number));
        }
    }
    of_interface.into_iter().flatten().collect()
}

/// Policy of each interface, in a few words.
pub(crate) fn in_words(config: &Config) -> Vec<String> {
    let mut all = vec![(0, Vec::new()); config.interfaces.len()];
    for policy in &config.policies {
        let (count, words) = &mut all[policy.interface];
        *count += 1;
        if *count <= NAMED_MAX {
            words.push(match policy.action {
                PolicyAction::Protect(tunnel) => format!("esp {}", config.tunnels[tunnel].name),
                PolicyAction::Bypass => "bypass".into(),
                PolicyAction::Discard => "discard".into(),
            });
        }
    }
    let text = |(count, words): (usize, Vec<String>)| match count.checked_sub(NAMED_MAX) {
        Some(more @ 1..) => format!("{}, {more} more", words.join(", ")),
        _ => words.join(", "),
    };
    all.into_iter().map(text).collect()
}
