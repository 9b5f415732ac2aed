//! Errors that no single entry shows: names and addresses that occur twice, ports and hosts without
//! a link.

use super::entries::Reader;
use super::{LinkEnd, Topology};
use std::ops::Range;

/// Nodes and hosts share one set of names; no two hosts have one address.
pub(super) fn names(r: &mut Reader<'_>, topology: &Topology, host_spans: &[Range<usize>]) {
    for (host, span) in topology.hosts.iter().zip(host_spans) {
        if topology.nodes.iter().any(|node| node.name == host.name) {
            let what = format!("`{}` is a node, too", host.name);
            r.problems.add(span.clone(), what, "give each a name of its own");
        }
    }
    for (at, (host, span)) in topology.hosts.iter().zip(host_spans).enumerate() {
        let others = topology.hosts.iter().take(at);
        for other in others {
            let taken = |(address, _): &&(_, u8)| other.addresses.iter().any(|(o, _)| o == address);
            if let Some((address, _)) = host.addresses.iter().find(taken) {
                let what = format!("hosts `{}` and `{}` are both {address}", other.name, host.name);
                r.problems.add(span.clone(), what, "give each an address of its own");
            }
            if other.mac == host.mac {
                let what =
                    format!("hosts `{}` and `{}` have one MAC address", other.name, host.name);
                r.problems.add(span.clone(), what, "give each a mac of its own");
            }
        }
    }
}

/// Every port and every host stands on a link.
pub(super) fn linked(
    r: &mut Reader<'_>,
    topology: &Topology,
    node_spans: &[Range<usize>],
    host_spans: &[Range<usize>],
) {
    let ends: Vec<&LinkEnd> = topology.links.iter().flat_map(|link| &link.ends).collect();
    // With a link that could not be read, nobody knows what it would have joined.
    if r.problems.0.iter().any(|p| p.what.contains("there is no ") || p.what.contains("ends")) {
        return;
    }
    for (at, (node, span)) in topology.nodes.iter().zip(node_spans).enumerate() {
        for port in &node.config.ports {
            let end = LinkEnd::Node(at, port.name.clone());
            if !ends.contains(&&end) {
                let what = format!("port `{}` of node `{}` has no link", port.name, node.name);
                let remedy =
                    format!("add a [[link]] with ends = [\"{}:{}\", …]", node.name, port.name);
                r.problems.add(span.clone(), what, remedy);
            }
        }
    }
    for (at, (host, span)) in topology.hosts.iter().zip(host_spans).enumerate() {
        if !ends.contains(&&LinkEnd::Host(at)) {
            let what = format!("host `{}` has no link", host.name);
            let remedy = format!("add a [[link]] with ends = [\"{}\", …]", host.name);
            r.problems.add(span.clone(), what, remedy);
        }
    }
}
