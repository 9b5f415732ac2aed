//! Pseudowires whose two ends are configured differently.
//!
//! No protocol signals a static pseudowire, so there is no peer that refuses one whose ends differ,
//! as RFC 4447 has it. A topology knows both ends.

use super::Topology;
use super::entries::Reader;
use ferrule_node::config::{Config, PseudowireConfig};
use std::collections::BTreeMap;
use std::ops::Range;

/// One end of a pseudowire: its node, by place.
#[derive(Clone, Copy)]
struct End<'a> {
    node: usize,
    config: &'a Config,
    pw: &'a PseudowireConfig,
}

/// Refuses ends that differ. The far end has the same labels in exchange; of several it is the
/// one of the same name.
pub(super) fn check(r: &mut Reader<'_>, topology: &Topology, node_spans: &[Range<usize>]) {
    let mut by_labels: BTreeMap<[u32; 2], Vec<End<'_>>> = BTreeMap::new();
    for (node, config) in topology.nodes.iter().map(|n| &n.config).enumerate() {
        for pw in &config.pseudowires {
            by_labels.entry([pw.label_in, pw.label_out]).or_default().push(End {
                node,
                config,
                pw,
            });
        }
    }
    for near in by_labels.values().flatten() {
        let far = by_labels.get(&[near.pw.label_out, near.pw.label_in]).into_iter().flatten();
        let mut far: Vec<&End<'_>> = far.filter(|far| far.node != near.node).collect();
        if far.len() > 1 {
            far.retain(|far| far.pw.name == near.pw.name);
        }
        // Once for both.
        let &[far] = &far[..] else { continue };
        if near.node < far.node
            && let Some((remedy, [here, there])) = difference(near, far)
        {
            let what = format!(
                "pseudowire `{}` is {here} at node `{}`, and `{}` {there} at node `{}`",
                near.pw.name,
                topology.nodes[near.node].name,
                far.pw.name,
                topology.nodes[far.node].name
            );
            r.problems.add(node_spans[far.node].clone(), what, remedy);
        }
    }
}

/// A property of an end, in words.
type Property = fn(&End<'_>) -> String;

/// The first difference between two ends: its remedy, and the configuration of each in words.
fn difference(near: &End<'_>, far: &End<'_>) -> Option<(&'static str, [String; 2])> {
    let properties: [(_, Property); 3] = [
        ("set control-word alike (RFC 4385 section 2)", |end| {
            let with = if end.pw.control_word { "with" } else { "without" };
            format!("{with} a control word")
        }),
        ("set mode alike (RFC 4448 section 4.4)", |end| {
            let mode = if end.pw.tagged_mode.is_some() { "tagged" } else { "raw" };
            format!("in {mode} mode")
        }),
        ("give the ports of both circuits one mtu (RFC 4447 section 5.5)", |end| {
            format!("with mtu = {} at its port", end.config.ports[end.pw.port].mtu)
        }),
    ];
    properties.into_iter().find_map(|(remedy, property)| {
        let both = [near, far].map(property);
        (both[0] != both[1]).then_some((remedy, both))
    })
}
