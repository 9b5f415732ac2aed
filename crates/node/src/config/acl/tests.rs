//! Access lists as they are written: what they stand for, and what is wrong with them.

use crate::config::{Config, named_key};
use ferrule_dataplane::acl::{TcpFlags, Verdict};

fn text(entries: &str, interface: &str) -> String {
    format!(
        "[node]\nname = \"pe\"\nlab = true\n[[port]]\nname = \"a\"\ndriver = \"wire\"\n\
         [[interface]]\nport = \"a\"\naddress = [\"192.0.2.1/24\"]\n{interface}\n\
         [[access-list]]\nname = \"customer\"\nentry = [\n{entries}\n]\n"
    )
}

fn config(entries: &str) -> Config {
    let text = text(entries, "acl-in = \"customer\"");
    Config::parse("pe.toml", &text, &mut named_key).unwrap_or_else(|e| panic!("{e}"))
}

fn wrong(entries: &str, interface: &str) -> String {
    let error = Config::parse("pe.toml", &text(entries, interface), &mut named_key);
    error.err().unwrap_or_else(|| panic!("{entries} is taken")).to_string()
}

#[test]
fn acl_entries_say_whose_traffic_and_what_becomes_of_it() {
    let config = config(
        "{ action = \"deny\", name = \"no mail\", from = \"10.1.0.0/16\", protocol = \"tcp\", \
           to-ports = [25, \"587-588\"] },\n\
         { action = \"permit\", tcp-flags = [\"syn+!ack\", \"rst\"], dscp = 46 },\n\
         { action = \"permit\", fragments = true },",
    );
    assert_eq!((config.interfaces[0].acl_in, config.interfaces[0].acl_out), (Some(0), None));
    let [mail, flags, fragments] = &config.lists[0].entries[..] else { panic!("three entries") };
    assert_eq!((mail.verdict, mail.name.as_deref()), (Verdict::Deny, Some("no mail")));
    assert_eq!(mail.upper(), "tcp, to ports 25, 587-588");
    assert_eq!(mail.matches().count(), 2, "two ranges of ports");
    assert!(mail.matches().all(|m| m.selector.local.to_string() == "10.1.0.0/16"));
    assert_eq!(flags.verdict, Verdict::Permit);
    assert_eq!(flags.tcp, [TcpFlags { set: 2, clear: 16 }, TcpFlags { set: 4, clear: 0 }]);
    assert_eq!(flags.upper(), "tcp, flags syn+!ack or rst, DSCP 46");
    // Either family, and each kind of flags.
    assert_eq!(flags.matches().count(), 4);
    assert!(flags.matches().all(|m| m.dscp == Some(46)));
    assert_eq!(fragments.upper(), "later fragments");
}

#[test]
fn acl_that_is_wrong_is_refused_with_place_and_remedy() {
    let permit = "{ action = \"permit\" }";
    for (entries, interface, parts) in [
        (permit, "acl-in = \"custom\"", ["there is no access list `custom`", "customer"]),
        ("{ action = \"drop\" }", "", ["there is no action `drop`", "permit, deny"]),
        ("{ action = \"deny\", to-ports = 25 }", "", ["ports need a protocol", "tcp"]),
        (
            "{ action = \"deny\", tcp-flags = \"ack+!ack\" }",
            "",
            ["wants a flag set and clear", "name each flag once"],
        ),
        ("{ action = \"deny\", tcp-flags = \"sin\" }", "", ["no TCP flags", "syn"]),
        (
            "{ action = \"deny\", protocol = \"udp\", tcp-flags = \"syn\" }",
            "",
            ["TCP flags of another protocol", "protocol = \"tcp\""],
        ),
        ("{ action = \"deny\", dscp = 64 }", "", ["dscp cannot be 64", "0 to 63"]),
        (
            "{ action = \"deny\", protocol = \"tcp\", to-ports = 80, fragments = true }",
            "",
            ["shows neither ports", "leave them out"],
        ),
        (
            "{ action = \"deny\", from = \"10.0.0.0/8\", to = \"2001:db8::/32\" }",
            "",
            ["from and to are of different address families", "each family on both sides"],
        ),
        ("", "", ["an access list without entries", "permit"]),
        ("{ action = \"deny\", form = \"10.0.0.0/8\" }", "", ["unknown field `form`", "`from`"]),
    ] {
        let said = wrong(entries, interface);
        assert!(parts.iter().all(|part| said.contains(part)), "{entries}: {said}");
        assert!(said.contains("pe.toml:"), "{said}");
    }
}

#[test]
fn acl_entries_that_no_packet_comes_to_are_told_with_the_one_before() {
    let shadowed = |entries: &str| config(entries).lists[0].shadowed();
    let found = shadowed(
        "{ action = \"permit\", from = \"10.0.0.0/8\", protocol = \"tcp\" },\n\
         { action = \"deny\", from = \"10.1.0.0/16\", protocol = \"tcp\", to-ports = 25 },\n\
         { action = \"deny\", from = \"10.1.0.0/16\" },\n\
         { action = \"deny\", from = \"10.9.0.0/16\", protocol = \"tcp\", tcp-flags = \"syn\" },\n\
         { action = \"permit\", from = [\"10.1.2.0/24\", \"10.9.0.0/16\"], protocol = \"tcp\" },\n\
         { action = \"permit\", from = [\"10.1.2.0/24\", \"11.0.0.0/8\"] },",
    );
    assert_eq!(found, [(1, 0), (3, 0), (4, 0)]);
    let found = shadowed(
        "{ action = \"permit\", tcp-flags = \"syn\" },\n\
         { action = \"permit\", tcp-flags = \"syn+!ack\" },\n\
         { action = \"permit\", dscp = 46 },\n\
         { action = \"permit\", fragments = true, dscp = 46 },\n\
         { action = \"permit\", fragments = true },\n\
         { action = \"permit\" },\n\
         { action = \"deny\" },",
    );
    assert_eq!(found, [(1, 0), (3, 2), (6, 5)]);
}

/// A pseudowire with the list at its circuit.
const CIRCUIT: &str = "mpls = true\n[[lsp]]\nname = \"far\"\nvia = \"192.0.2.2\"\n\
    [[port]]\nname = \"ac\"\ndriver = \"wire\"\nmtu = 1470\n\
    [[pseudowire]]\nname = \"pw\"\nport = \"ac\"\nlsp = \"far\"\nlabel-in = 800\nlabel-out = 900\n\
    acl-in = \"customer\"";

#[test]
fn acl_entries_for_frames_say_which_ones() {
    let text = text(
        "{ action = \"deny\", mac-from = \"02:00:5e:00:00:00/24\", mac-to = \"ff:ff:ff:ff:ff:ff\" },\n\
         { action = \"permit\", ethertype = 0x0806, vlan = 0 },\n\
         { action = \"permit\", vlan = 7, protocol = \"udp\", to-ports = 9 },\n\
         { action = \"deny\", vlan = 7, protocol = \"udp\", from = \"10.0.0.0/8\", to-ports = 9 },\n\
         { action = \"permit\", exp = 5 },",
        CIRCUIT,
    );
    let config = Config::parse("pe.toml", &text, &mut named_key).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(config.pseudowires[0].acl_in, Some(0));
    assert_eq!(config.places_of(0), [vec!["pw"], vec![]]);
    let list = &config.lists[0];
    assert!(list.is_for_frames());
    let told: Vec<String> = list.entries.iter().map(|entry| entry.upper()).collect();
    assert_eq!(
        told,
        [
            "from 02:00:5e:00:00:00/24, to ff:ff:ff:ff:ff:ff",
            "EtherType 0x0806, untagged",
            "udp, to ports 9, VLAN 7",
            "udp, to ports 9, VLAN 7",
            "EXP 5",
        ]
    );
    let counts: Vec<usize> = list.entries.iter().map(|entry| entry.frames().count()).collect();
    assert_eq!(counts, [1, 1, 2, 1, 1], "whatever is in it; UDP of either family");
    assert_eq!(list.shadowed(), [(3, 2)]);
}

/// Lists of bridges' members, and of routing tables, which interfaces have that name none.
#[test]
fn acl_of_members_and_routing_tables() {
    let more = "[[port]]\nname = \"left\"\ndriver = \"wire\"\n\
        [[port]]\nname = \"right\"\ndriver = \"wire\"\n\
        [[bridge]]\nname = \"br\"\nmember = [{ port = \"left\", acl-in = \"customer\" }, \
        { port = \"right\", vlan = 5, acl-out = \"customer\" }]\n\
        [[port]]\nname = \"b\"\ndriver = \"wire\"\n\
        [[interface]]\nport = \"b\"\nvrf = \"red\"\naddress = [\"10.9.0.1/24\"]\n\
        [[vrf]]\nname = \"red\"\nacl-in = \"customer\"\n";
    let text = text("{ action = \"permit\" }", &format!("acl-out = \"customer\"\n{more}"));
    let config = Config::parse("pe.toml", &text, &mut named_key).unwrap_or_else(|e| panic!("{e}"));
    let interface = config.interfaces[0].name.as_str();
    assert_eq!(config.places_of(0), [vec!["b", "br:left"], vec![interface, "br:right.5"]]);
    for (instead, parts) in [
        (
            "name = \"blue\"",
            ["no interface is in the routing table `blue`", "that interfaces have"],
        ),
        ("name = \"red\"\n[[vrf]]\nname = \"red\"", ["`red` is there twice", "in one place"]),
    ] {
        let text = text.replace("name = \"red\"", instead);
        let said = Config::parse("pe.toml", &text, &mut named_key).unwrap_err().to_string();
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
}

#[test]
fn acl_entries_for_frames_that_are_wrong_are_refused() {
    for (entries, interface, parts) in [
        (
            "{ action = \"deny\", vlan = 7 }",
            "acl-in = \"customer\"",
            [
                "asks for MAC addresses, EtherType, VLAN or EXP",
                "use it at a bridge or a pseudowire",
            ],
        ),
        (
            "{ action = \"deny\", mac-to = \"02:00\" }",
            "",
            ["no MAC addresses", "02:00:00:00:00:01"],
        ),
        (
            "{ action = \"deny\", mac-to = \"02:00:00:00:00:01/49\" }",
            "",
            ["no MAC addresses", "/24"],
        ),
        ("{ action = \"deny\", vlan = 4095 }", "", ["vlan cannot be 4095", "0 to 4094"]),
        ("{ action = \"deny\", ethertype = 46 }", "", ["ethertype cannot be 46", "1536"]),
        (
            "{ action = \"deny\", ethertype = 0x0806, protocol = \"udp\" }",
            "",
            ["IP packets of another EtherType", "leave ethertype out"],
        ),
        ("{ action = \"deny\", exp = 8 }", "", ["exp cannot be 8", "0 to 7"]),
        (
            "{ action = \"deny\", exp = 1, protocol = \"udp\" }",
            "",
            ["an entry for labels that asks for something else", "without ethertype"],
        ),
    ] {
        let said = wrong(entries, interface);
        assert!(parts.iter().all(|part| said.contains(part)), "{entries}: {said}");
    }
}
