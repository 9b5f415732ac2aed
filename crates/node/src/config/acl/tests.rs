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
