//! Sources that are not the sender's: packets that come from where their source is not
//! routed to (RFC 2827, RFC 3704).

use crate::craft::{self, UDP};
use crate::net::Net;
use crate::rig::{HOST, Rig, at_lan, each, hops_later};
use crate::router::{HERE4, HERE6, NODE4, OUT4, OUT6, ROUTER, routes, udp};
use ferrule_base::DropReason;

/// A router that validates the sources of its LAN, with a route to others by its other port,
/// and by both a default.
fn validating(mode: &str, net: Net) -> Rig {
    let key = format!("port = \"lan\"\n    source-validation = \"{mode}\"\n");
    let more = r#"
    [[route]]
    prefix = "10.3.0.0/16"
    via = "10.2.0.9"
    [[route]]
    prefix = "2001:db8:3::/48"
    via = "2001:db8:2::9"
    [[route]]
    prefix = "10.4.0.0/16"
    via = "10.1.0.9"
    "#;
    // The first in the file is the port's own.
    let (ports, interfaces) = ROUTER.split_at(ROUTER.find("[[interface]]").expect("one"));
    let text = format!("{ports}{}{more}", interfaces.replacen("port = \"lan\"\n", &key, 1));
    let mut rig = Rig::alone(net, &text, &["lan", "out"]);
    rig.know(0, &[(HERE4, HOST), (HERE6, HOST), (OUT4, HOST), (OUT6, HOST)]);
    rig
}

fn from_lan(from: &[&str]) -> Vec<Vec<u8>> {
    let to = |from: &str| if from.contains(':') { OUT6 } else { OUT4 };
    from.iter().map(|from| at_lan(&craft::ip(UDP, from, to(from), &udp()))).collect()
}

#[test]
fn a_source_that_is_routed_elsewhere_or_nowhere_is_refused_where_validation_is_strict() {
    each(
        |net| validating("strict", net),
        |rig| {
            let elsewhere = ["10.2.0.9", "10.3.0.9", "2001:db8:2::9", "2001:db8:3::9"];
            let nowhere = ["192.0.2.9", "2001:db8:99::9"];
            let discarded = ["10.66.0.9", "2001:db8:66::9"];
            for from in [&elsewhere[..], &nowhere, &discarded] {
                rig.refused("lan", &from_lan(from), DropReason::ReversePath);
            }
            // So it is for what is meant for the node itself, and what has its own address is
            // refused as before.
            let ping = craft::icmp4("10.3.0.9", NODE4, &[8, 0, 0, 0, 0, 7, 0, 1]);
            rig.refused("lan", &[at_lan(&ping)], DropReason::ReversePath);
            rig.refused("lan", &from_lan(&[NODE4]), DropReason::BadSource);
            let behind = craft::ip(UDP, "10.4.0.9", OUT4, &udp());
            rig.passes("lan", &at_lan(&behind), "out", &hops_later(&behind, 1));
            routes(rig);
        },
    );
}

#[test]
fn a_source_without_a_route_or_with_one_that_discards_is_refused_where_validation_is_loose() {
    each(
        |net| validating("loose", net),
        |rig| {
            let from = ["192.0.2.9", "2001:db8:99::9", "10.66.0.9", "2001:db8:66::9"];
            rig.refused("lan", &from_lan(&from), DropReason::ReversePath);
            for (from, to) in [("10.3.0.9", OUT4), ("2001:db8:3::9", OUT6)] {
                let packet = craft::ip(UDP, from, to, &udp());
                rig.passes("lan", &at_lan(&packet), "out", &hops_later(&packet, 1));
            }
            routes(rig);
        },
    );
}
