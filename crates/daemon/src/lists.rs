//! Access lists, entry by entry, with what each was asked for.

use ferrule_dataplane::acl::Verdict;
use ferrule_dataplane::ipsec::{Addresses, Hit};
use ferrule_node::config::{AclEntryConfig, Config};
use ferrule_node::message::WorkerReport;
use serde::{Deserialize, Serialize};

/// An access list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct AclView {
    pub name: String,
    /// Interfaces that have it for what comes in.
    pub inbound: Vec<String>,
    /// Interfaces that have it for what leaves.
    pub outbound: Vec<String>,
    /// Its entries, in order; the last one counts packets that none of them matches.
    pub entries: Vec<AclEntryView>,
}

/// An entry of an access list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct AclEntryView {
    /// Its place, from 1; 0: packets that no entry matches.
    pub order: usize,
    pub name: Option<String>,
    /// `permit` or `deny`.
    pub action: String,
    pub from: Vec<String>,
    pub to: Vec<String>,
    /// Protocol, ports, flags and so on, in words; empty: any.
    pub upper: String,
    pub packets_in: u64,
    pub octets_in: u64,
    pub packets_out: u64,
    pub octets_out: u64,
}

fn texts(list: &[Addresses]) -> Vec<String> {
    list.iter().map(Addresses::to_string).collect()
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Permit => "permit",
        Verdict::Deny => "deny",
    }
}

fn view(order: usize, entry: &AclEntryConfig) -> AclEntryView {
    AclEntryView {
        order,
        name: entry.name.clone(),
        action: word(entry.verdict).into(),
        from: texts(&entry.traffic.local),
        to: texts(&entry.traffic.remote),
        upper: entry.upper(),
        ..AclEntryView::default()
    }
}

/// Every list, with what all workers asked of each entry.
pub(crate) fn lists(config: &Config, workers: &[Box<WorkerReport>]) -> Vec<AclView> {
    let counters = config.lists.iter().map(|list| list.entries.len() + 1).sum();
    let mut hits = vec![Hit::default(); counters];
    for worker in workers {
        hits.iter_mut().zip(&worker.list_hits).for_each(|(sum, hit)| sum.merge(hit));
    }
    let mut hits = hits.into_iter();
    let each = config.lists.iter().enumerate();
    each.map(|(number, list)| {
        let rest = AclEntryView { action: word(Verdict::Deny).into(), ..Default::default() };
        let entries = list.entries.iter().enumerate().map(|(at, entry)| view(at + 1, entry));
        let counted = |(entry, hit): (AclEntryView, Hit)| AclEntryView {
            packets_in: hit.packets_in,
            octets_in: hit.octets_in,
            packets_out: hit.packets_out,
            octets_out: hit.octets_out,
            ..entry
        };
        let [inbound, outbound] = config.places_of(number);
        AclView {
            name: list.name.clone(),
            inbound,
            outbound,
            entries: entries.chain([rest]).zip(&mut hits).map(counted).collect(),
        }
    })
    .collect()
}
