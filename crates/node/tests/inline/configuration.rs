//! Configurations that cannot be inline are refused with place and remedy.

use crate::site::{PEER, gateway, gateway_with, secy};
use ferrule_node::Config;
use ferrule_node::config::named_key;

fn problems(text: &str) -> String {
    match Config::parse("test.toml", text, &mut named_key) {
        Ok(_) => "none".into(),
        Err(e) => e.to_string(),
    }
}

fn wrong(text: &str, what: &str, remedy: &str) {
    let said = problems(text);
    assert!(said.contains(what), "{what} is not in\n{said}");
    assert!(said.contains(remedy), "{remedy} is not in\n{said}");
    assert!(said.starts_with("test.toml:"), "with its place: {said}");
}

fn good() -> String {
    gateway(1, "inline", "aes-gcm-128", "gcm")
}

#[test]
fn bad_configuration_of_inline_placement_is_refused_with_place_and_remedy() {
    assert_eq!(problems(&good()), "none");
    wrong(
        &gateway(1, "in-line", "aes-gcm-128", "gcm"),
        "there is no placement `in-line`",
        "inline",
    );
    let text = good().replacen(
        "interface = \"wan\"\n        action",
        "interface = \"lan\"\n        action",
        1,
    );
    wrong(&text, "leaves by `wan`, its policy stands at `lan`", "protect at `wan`");
    let text = good().replace("out = { spi = 4098,", "out = { worker = 0, spi = 4098,");
    wrong(&text, "no worker has it", "take worker out");
    let above = secy("g1", PEER, "software", ("sak:1", "sak:2"));
    let text = gateway_with(1, "inline", "aes-gcm-128", "gcm", "", &above);
    wrong(&text, "stands above the card", "placement = \"inline\"");
    let text = good().replacen(
        "port = \"wan\"\n        address",
        "port = \"wan\"\n        mpls = true\n        address",
        1,
    );
    wrong(&text, "has mpls and an inline tunnel", "use another VLAN");
    let text = good().replacen("via = \"192.0.2.2\"", "via = \"192.0.2.77\"", 1);
    wrong(&text, "goes to 192.0.2.77", "the gateway's next hop");
    let text = good().replacen("via = \"2001:db8::2\"", "interface = \"wan\"", 1);
    wrong(&text, "is looked for on the link", "give the route the gateway's next hop");
    let text = good().replacen("[[tunnel]]", "[[tunnel]]\n        vrf = \"red\"", 1);
    let text = text + "[[interface]]\nname = \"x\"\nport = \"lan\"\nvlan = 9\nvrf = \"red\"\n";
    wrong(&text, "are of another vrf than interface `wan`", "use the interface's vrf");
    let text = good().replacen(
        "name = \"wan\"\n        driver = \"wire\"",
        "name = \"wan\"\n        driver = \"wire\"\n        mtu = 1300",
        1,
    );
    wrong(&text, "has IPv6, and its card leaves an mtu of", "IPv6 needs 1280");
}

#[test]
fn more_keying_ports_than_a_policy_has_room_for_are_refused() {
    let ports = |count: u16| {
        let ports: Vec<String> = (1..=count).map(|port| port.to_string()).collect();
        good().replace("lab = true", &format!("lab = true\nkeying-ports = [{}]", ports.join(", ")))
    };
    assert_eq!(problems(&ports(64)), "none");
    wrong(&ports(65), "65 keying-ports", "64 at most");
}
