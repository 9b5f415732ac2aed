//! Differences between two configurations, by section: for whoever wants to know what a
//! change does before it is made. No key is in them.
//!
//! ```text
//!   Config ─▶ entries: section, name, values ─┐
//!   Config ─▶ entries: section, name, values ─┴▶ added, removed, changed
//! ```
//!
//! Each configuration is taken apart by a pattern without `..`: a field that is new is
//! listed here, or this does not compile.

use super::{
    AclConfig, AclEntryConfig, BridgeConfig, CakConfig, Config, InterfaceConfig, LabelAction,
    LabelConfig, MacsecConfig, MacsecSaConfig, MemberConfig, MkaConfig, PolicyAction, PolicyConfig,
    PortConfig, PseudowireConfig, RouteConfig, SaConfig, TunnelConfig, Via,
};
use ferrule_base::Secret;
use ferrule_dataplane::ipsec::Mode;
use ferrule_dataplane::macsec::SecyConfig;
use ferrule_dataplane::route::{SourceCheck, TtlModel};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fmt::{Debug, Display};
use std::net::IpAddr;

/// An entry that one configuration has otherwise than another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Its section: `port`, `tunnel`, `sa`, `route`, …
    pub section: String,
    /// Its name in the section.
    pub name: String,
    /// How it differs.
    pub change: Change,
    /// The values that differ, where it is changed.
    pub values: Vec<ValueChange>,
}

/// How an entry differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Only the new configuration has it.
    Added,
    /// Only the old one has it.
    Removed,
    /// Both have it, with other values.
    Changed,
}

/// A value that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueChange {
    /// Its key.
    pub key: String,
    /// As it was.
    pub old: String,
    /// As it will be.
    pub new: String,
}

/// A value of an entry.
enum Shown {
    /// As people may see it.
    Plain(String),
    /// Compared, and never shown.
    Hidden(Vec<Secret>),
}

/// An entry of a section.
struct Entry {
    section: &'static str,
    name: String,
    values: Vec<(&'static str, Shown)>,
}

/// Differences of `new` from `old`, by section in the order of the file, removed entries first.
pub fn differences(old: &Config, new: &Config) -> Vec<Difference> {
    let (old_entries, new_entries) = (entries(old), entries(new));
    let mut found = Vec::new();
    let known = |entries: &[Entry]| -> Places {
        let each = entries.iter().enumerate();
        each.map(|(at, entry)| ((entry.section, entry.name.clone()), at)).collect()
    };
    let (before, after) = (known(&old_entries), known(&new_entries));
    let alone = |entry: &Entry, change| Difference {
        section: entry.section.to_owned(),
        name: entry.name.clone(),
        change,
        values: Vec::new(),
    };
    for section in SECTIONS {
        let old_ones = old_entries.iter().filter(|entry| entry.section == section);
        let removed = old_ones.filter(|e| !after.contains_key(&(e.section, e.name.clone())));
        found.extend(removed.map(|entry| alone(entry, Change::Removed)));
        for entry in new_entries.iter().filter(|entry| entry.section == section) {
            match before.get(&(entry.section, entry.name.clone())) {
                None => found.push(alone(entry, Change::Added)),
                Some(&at) => {
                    let values = changed(&old_entries[at], entry);
                    if !values.is_empty() {
                        found.push(Difference { values, ..alone(entry, Change::Changed) });
                    }
                }
            }
        }
        if matches!(section, "policy" | "access-list") {
            let entries = [&old_entries[..], &new_entries[..]];
            found.extend(reordered(section, entries, [&before, &after]));
        }
    }
    found
}

/// Entries by section and name.
type Places = HashMap<(&'static str, String), usize>;

/// Entries of both that follow one another otherwise: the first match decides.
fn reordered(
    section: &str,
    [old, new]: [&[Entry]; 2],
    [before, after]: [&Places; 2],
) -> Option<Difference> {
    let common = |entries: &[Entry], other: &Places| -> Vec<String> {
        let ordered = entries.iter().filter(|entry| entry.section == section);
        let common =
            ordered.filter(|entry| other.contains_key(&(entry.section, entry.name.clone())));
        common.map(|entry| entry.name.clone()).collect()
    };
    let (old, new) = (common(old, after), common(new, before));
    let at = old.iter().zip(&new).position(|(old, new)| old != new)?;
    let value = ValueChange {
        key: "first that differs".into(),
        old: old[at].clone(),
        new: new[at].clone(),
    };
    let (section, name) = (section.to_owned(), "order".to_owned());
    Some(Difference { section, name, change: Change::Changed, values: vec![value] })
}

/// Sections in the order in which differences are listed.
const SECTIONS: [&str; 18] = [
    "node",
    "port",
    "interface",
    "bridge",
    "route",
    "label",
    "pseudowire",
    "macsec",
    "macsec-sa",
    "mka",
    "cak",
    "tunnel",
    "transport",
    "sa",
    "policy",
    "access-list",
    "look-aside",
    "token",
];

/// The values of an entry that both have.
fn changed(old: &Entry, new: &Entry) -> Vec<ValueChange> {
    let pairs = old.values.iter().zip(&new.values);
    let change = |((key, old), (_, new)): (&(&'static str, Shown), &(_, Shown))| {
        let (old, new) = match (old, new) {
            (Shown::Plain(old), Shown::Plain(new)) => {
                (old != new).then(|| (old.clone(), new.clone()))
            }
            (Shown::Hidden(old), Shown::Hidden(new)) => {
                let same = old.len() == new.len() && old.iter().zip(new).all(|(o, n)| o.same_as(n));
                (!same).then(|| ("one".to_owned(), "another".to_owned()))
            }
            _ => Some(("one".to_owned(), "another".to_owned())),
        }?;
        Some(ValueChange { key: (*key).to_owned(), old, new })
    };
    pairs.filter_map(change).collect()
}

fn plain(value: impl Display) -> Shown {
    Shown::Plain(value.to_string())
}

fn optional(value: &Option<impl Display>) -> Shown {
    Shown::Plain(value.as_ref().map_or("-".into(), |value| value.to_string()))
}

/// A value whose notation is that of the code.
fn debug(value: impl Debug) -> Shown {
    Shown::Plain(format!("{value:?}").to_lowercase())
}

fn listed(values: impl IntoIterator<Item = impl Display>) -> Shown {
    let texts: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    Shown::Plain(if texts.is_empty() { "-".into() } else { texts.join(" ") })
}

fn network((address, len): &(IpAddr, u8)) -> String {
    format!("{address}/{len}")
}

fn entries(config: &Config) -> Vec<Entry> {
    let mut all = vec![node(config)];
    all.extend(config.ports.iter().map(port));
    all.extend(config.interfaces.iter().map(|i| interface(config, i)));
    all.extend(config.bridges.iter().map(|b| bridge(config, b)));
    all.extend(config.routes.iter().map(|r| route(config, r)));
    all.extend(config.labels.iter().map(|l| label(config, l)));
    all.extend(config.pseudowires.iter().map(|p| pseudowire(config, p)));
    config.secys.iter().for_each(|s| secy(config, s, &mut all));
    config.tunnels.iter().for_each(|t| tunnel(config, t, &mut all));
    policies(config, &mut all);
    lists(config, &mut all);
    let engines = [
        ("look-aside", config.look_aside.as_ref().map(|table| format!("{table:?}"))),
        ("token", config.token.as_ref().map(|table| format!("{table:?}"))),
    ];
    for (section, table) in engines {
        let values = table.map(|text| vec![("values", Shown::Plain(text))]);
        all.extend(values.map(|values| Entry { section, name: String::new(), values }));
    }
    all
}

/// The values of an entry, from the fields of its configuration; those behind `but` are none.
macro_rules! values {
    ($of:expr, $type:ident {
        $($key:literal: $field:ident = $shown:expr,)*
    } but { $($other:ident),* }) => {{
        let $type { $($field,)* $($other: _,)* } = $of;
        vec![$(($key, $shown)),*]
    }};
}

fn node(config: &Config) -> Entry {
    let core = |core: &Option<usize>| core.map_or("any".into(), |core| core.to_string());
    let values = values!(config, Config {
        "name": name = plain(name),
        "cores": cores = listed(cores.iter().map(core)),
        "buffers": buffers = plain(buffers),
        "buffer-size": buffer_size = plain(buffer_size),
        "state": state = optional(state),
        "reserve": reserve = plain(reserve),
        "control": control = optional(control),
        "metrics": metrics = optional(metrics),
        "user": user = optional(user),
        "devices": devices = listed(devices),
        "monitors": monitors = optional(monitors),
        "keying-ports": keying_ports = debug(keying_ports),
        "key-log": key_log = plain(key_log),
        "log": log = debug(log),
        "lab": lab = plain(lab),
        "times": times = plain(times),
    } but {
        ports, interfaces, bridges, vrfs, routes, labels, pseudowires, secys, tunnels, policies,
        lists, look_aside, token
    });
    Entry { section: "node", name: String::new(), values }
}

fn port(port: &PortConfig) -> Entry {
    let PortConfig { name, driver, mac, mtu, worker } = port;
    let values = vec![
        ("driver", plain(driver.name())),
        ("device", optional(&driver.device())),
        ("settings", debug(driver)),
        ("mac", optional(mac)),
        ("mtu", plain(mtu)),
        ("worker", plain(worker)),
    ];
    Entry { section: "port", name: name.clone(), values }
}

fn interface(config: &Config, interface: &InterfaceConfig) -> Entry {
    let values = values!(interface, InterfaceConfig {
        "port": port = plain(&config.ports[*port].name),
        "vlan": tag = optional(&tag.map(|(tpid, vid)| format!("{vid} ({tpid:#06x})"))),
        "untagged": untagged = plain(untagged),
        "address": addresses = listed(addresses.iter().map(network)),
        "vrf": vrf = plain(&config.vrfs[*vrf]),
        "mtu": mtu = plain(mtu),
        "mpls": mpls = plain(mpls),
        "clamp-mss": clamp_mss = plain(clamp_mss),
        "source-validation": sources = optional(&sources.map(SourceCheck::name)),
        "acl-in": acl_in = optional(&acl_in.map(|list| &config.lists[list].name)),
        "acl-out": acl_out = optional(&acl_out.map(|list| &config.lists[list].name)),
    } but { name });
    Entry { section: "interface", name: interface.name.clone(), values }
}

fn bridge(config: &Config, bridge: &BridgeConfig) -> Entry {
    let BridgeConfig { name, members, ageing_seconds, addresses } = bridge;
    let member = |member: &MemberConfig| {
        let MemberConfig { port, tag, access, acl_in, acl_out } = member;
        let tag = tag.map_or(String::new(), |(_, vid)| format!(" vlan {vid}"));
        let access = access.map_or(String::new(), |vid| format!(" access {vid}"));
        let list = |way, list: &Option<usize>| {
            list.map_or(String::new(), |list| format!(" acl-{way} {}", config.lists[list].name))
        };
        let lists = list("in", acl_in) + &list("out", acl_out);
        format!("{}{tag}{access}{lists}", config.ports[*port].name)
    };
    let members = members.iter().map(member).collect::<Vec<_>>().join(", ");
    let values = vec![
        ("member", Shown::Plain(members)),
        ("ageing-seconds", plain(ageing_seconds)),
        ("addresses", plain(addresses)),
    ];
    Entry { section: "bridge", name: name.clone(), values }
}

/// `via 192.0.2.1 by wan, labels 16001`.
fn way(config: &Config, via: &Via) -> String {
    let Via { interface, next_hop, labels, ttl, entropy, others } = via;
    let hop = next_hop.map_or(String::new(), |hop| format!("via {hop} "));
    let labels: Vec<String> = labels.iter().map(u32::to_string).collect();
    let labels = match labels.is_empty() {
        true => String::new(),
        false => format!(", labels {}", labels.join(" ")),
    };
    let ttl = if *ttl == TtlModel::Uniform { "" } else { ", pipe" };
    let entropy = if *entropy { ", entropy label" } else { "" };
    let others = others.iter().map(|other| format!("; {}", way(config, other)));
    let others = others.collect::<String>();
    format!("{hop}by {}{labels}{ttl}{entropy}{others}", config.interfaces[*interface].name)
}

/// A name within a routing table.
fn within(config: &Config, vrf: usize, name: String) -> String {
    match config.vrfs[vrf].as_str() {
        "" => name,
        vrf => format!("{name} in {vrf}"),
    }
}

fn route(config: &Config, route: &RouteConfig) -> Entry {
    let RouteConfig { vrf, prefix, via } = route;
    let way = via.as_ref().map_or("discard".into(), |via| way(config, via));
    let name = within(config, *vrf, network(prefix));
    Entry { section: "route", name, values: vec![("way", Shown::Plain(way))] }
}

fn label(config: &Config, label: &LabelConfig) -> Entry {
    let LabelConfig { label, action, ttl } = label;
    let action = match action {
        LabelAction::Ip(vrf) => format!("pop, route in `{}`", config.vrfs[*vrf]),
        LabelAction::Forward(via) if via.labels.is_empty() => format!("pop, {}", way(config, via)),
        LabelAction::Forward(via) => format!("swap, {}", way(config, via)),
    };
    let values = vec![("action", Shown::Plain(action)), ("ttl", debug(ttl))];
    Entry { section: "label", name: label.to_string(), values }
}

fn pseudowire(config: &Config, pseudowire: &PseudowireConfig) -> Entry {
    let values = values!(pseudowire, PseudowireConfig {
        "port": port = plain(&config.ports[*port].name),
        "vlan": tag = optional(&tag.map(|(tpid, vid)| format!("{vid} ({tpid:#06x})"))),
        "inner vlan": inner = optional(&inner.map(|(_, vid)| vid)),
        "label-in": label_in = plain(label_in),
        "label-out": label_out = plain(label_out),
        "way": via = Shown::Plain(way(config, via)),
        "control-word": control_word = plain(control_word),
        "sequencing": sequencing = plain(sequencing),
        "tagged": tagged_mode = optional(tagged_mode),
        "ttl": ttl = plain(ttl),
        "acl-in": acl_in = optional(&acl_in.map(|list| &config.lists[list].name)),
        "acl-out": acl_out = optional(&acl_out.map(|list| &config.lists[list].name)),
    } but { name });
    Entry { section: "pseudowire", name: pseudowire.name.clone(), values }
}

fn sci(sci: u64) -> String {
    let octets = (sci >> 16).to_be_bytes();
    let digits: Vec<String> = octets[2..].iter().map(|octet| format!("{octet:02x}")).collect();
    format!("{}/{}", digits.join(":"), sci & 0xffff)
}

fn secy(config: &Config, secy: &MacsecConfig, all: &mut Vec<Entry>) {
    let MacsecConfig { port, sci: own, entity, placement, mka, transmit, receive } = secy;
    let port = &config.ports[*port].name;
    let mut values = vec![("sci", optional(&own.map(sci)))];
    // The SCI is told by the configuration, and no port is a single-copy broadcast's.
    values.extend(values!(entity, SecyConfig {
        "cipher": suite = plain(suite),
        "xpn": xpn = plain(xpn),
        "send-sci": send_sci = plain(send_sci),
        "end-station": end_station = plain(end_station),
        "encrypt": encrypt = plain(encrypt),
        "offset": offset = plain(offset),
        "clear-tags": clear_tags = plain(clear_tags),
        "replay": replay = debug(replay),
        "window": window = plain(window),
        "protect": protect = plain(protect),
        "validate": validate = debug(validate),
        "uncontrolled": uncontrolled = debug(uncontrolled),
    } but { sci, broadcast, eapol }));
    values.push(("placement", plain(placement.name())));
    all.push(Entry { section: "macsec", name: port.clone(), values });
    if let Some(mka) = mka {
        let values = values!(mka, MkaConfig {
            "priority": priority = plain(priority),
            "rekey": rekey = debug(rekey),
            "should-secure": should_secure = plain(should_secure),
            "delay-protect": delay_protect = plain(delay_protect),
            "destination": destination = plain(destination),
            "ethertype": ethertype = debug(ethertype),
        } but { caks });
        all.push(Entry { section: "mka", name: port.clone(), values });
        for CakConfig { ckn, key } in &mka.caks {
            let values = vec![("key", Shown::Hidden(vec![key.clone()]))];
            all.push(Entry { section: "cak", name: format!("{port} {ckn}"), values });
        }
    }
    for (way, list) in [("transmit", transmit), ("receive", receive)] {
        for sa in list {
            let MacsecSaConfig { sci: from, an, key, label, salt, ssci } = sa;
            let from = from.map_or(String::new(), |from| format!(" {}", sci(from)));
            let values = vec![
                ("key", Shown::Hidden(vec![key.clone(), salt.clone()])),
                ("token", optional(label)),
                ("ssci", plain(ssci)),
            ];
            let name = format!("{port} {way}{from} AN {an}");
            all.push(Entry { section: "macsec-sa", name, values });
        }
    }
}

fn tunnel(config: &Config, tunnel: &TunnelConfig, all: &mut Vec<Entry>) {
    // What is left out follows from the rest.
    let values = values!(tunnel, TunnelConfig {
        "local": local = plain(local),
        "remote": remote = plain(remote),
        "suite": suite = plain(suite),
        "esn": esn = plain(esn),
        "window": window = plain(window),
        "mtu": mtu = plain(mtu),
        "protocol": protocol = debug(protocol),
        "learn-mtu": learns = plain(learns),
        "fragment": fragment = debug(fragment),
        "clamp-mss": clamp_mss = plain(clamp_mss),
        "outer header": outside = debug(outside),
        "encapsulation": encap = debug(encap),
        "follow": follows = plain(follows),
        "tfc": tfc = debug(tfc),
        "dummy": dummies = plain(dummies),
        "ah-align": ah_align = plain(ah_align),
        "then": then = optional(&then.map(|outer| &config.tunnels[outer].name)),
        "vrf": vrf = plain(&config.vrfs[*vrf]),
        "placement": placement = plain(placement.name()),
        "every-worker": shared = optional(shared),
        "keying": external = plain(if *external { "external" } else { "file" }),
        "out": outbound = optional(&outbound.first().map(|sa| format!("{:#x}", sa.spi))),
        "in": inbound = optional(&inbound.first().map(|sa| format!("{:#x}", sa.spi))),
    } but { name, mode, via, home });
    let section = if tunnel.mode == Mode::Tunnel { "tunnel" } else { "transport" };
    let name = &tunnel.name;
    all.push(Entry { section, name: name.clone(), values });
    let out = tunnel.outbound.iter().map(|sa| ("out", sa));
    let inn = tunnel.inbound.iter().map(|sa| ("in", sa));
    for (way, sa) in out.chain(inn) {
        let SaConfig { spi, keys, salt, worker, fixed: _, lifetimes } = sa;
        let secrets = vec![keys.key.clone(), keys.mac_key.clone(), salt.clone()];
        let values = vec![
            ("key", Shown::Hidden(secrets)),
            ("place", debug(&keys.place)),
            ("worker", plain(worker)),
            ("soft-lifetime", plain(lifetimes.soft)),
            ("hard-lifetime", plain(lifetimes.hard)),
        ];
        all.push(Entry { section: "sa", name: format!("{name} {way} {spi:#x}"), values });
    }
}

fn ends(list: &[ferrule_dataplane::ipsec::Addresses]) -> String {
    match list {
        [] => "any".to_owned(),
        list => list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// The name of an entry, which another one may have, too: then with its number.
fn numbered(seen: &mut BTreeMap<String, usize>, name: String) -> String {
    let count = seen.entry(name.clone()).or_insert(0);
    *count += 1;
    if *count > 1 { format!("{name} ({count})") } else { name }
}

/// Entries by list and by the traffic that they select.
fn lists(config: &Config, all: &mut Vec<Entry>) {
    let mut seen = BTreeMap::new();
    for list in &config.lists {
        let AclConfig { name: of, entries } = list;
        for entry in entries {
            let AclEntryConfig {
                name,
                traffic,
                dscp: _,
                tcp: _,
                fragments: _,
                link: _,
                verdict,
                logs,
                at: _,
            } = entry;
            let mut text = format!("{of}: {} to {}", ends(&traffic.local), ends(&traffic.remote));
            let upper = entry.upper();
            if !upper.is_empty() {
                text += &format!(", {upper}");
            }
            let values =
                vec![("name", optional(name)), ("action", debug(verdict)), ("log", plain(logs))];
            all.push(Entry { section: "access-list", name: numbered(&mut seen, text), values });
        }
    }
}

/// Entries by the traffic that they select.
fn policies(config: &Config, all: &mut Vec<Entry>) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for policy in &config.policies {
        let PolicyConfig { name, interface, traffic: selected, action } = policy;
        let interface = &config.interfaces[*interface].name;
        let mut traffic =
            format!("{interface}: {} to {}", ends(&selected.local), ends(&selected.remote));
        let upper = selected.upper(["local", "remote"]);
        if !upper.is_empty() {
            traffic += &format!(", {upper}");
        }
        let traffic = numbered(&mut seen, traffic);
        let action = match action {
            PolicyAction::Protect(tunnel) => format!("protect by {}", config.tunnels[*tunnel].name),
            PolicyAction::Bypass => "bypass".into(),
            PolicyAction::Discard => "discard".into(),
        };
        let values = vec![("name", optional(name)), ("action", Shown::Plain(action))];
        all.push(Entry { section: "policy", name: traffic, values });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::named_key;

    fn gateway(edit: &[(&str, &str)]) -> Config {
        let text = r#"
            [node]
            name = "g"
            lab = true
            [[port]]
            name = "wan"
            driver = "wire"
            mtu = 1500
            [[interface]]
            port = "wan"
            address = ["192.0.2.1/24"]
            [[route]]
            prefix = "10.9.0.0/24"
            via = "192.0.2.2"
            [[tunnel]]
            name = "t"
            local = "192.0.2.1"
            remote = "192.0.2.2"
            suite = "aes-gcm-128"
            mtu = 1400
            out = { spi = 4097, key = "gcm:1" }
            in = { spi = 4098, key = "gcm:3" }
            [[policy]]
            interface = "wan"
            action = "protect"
            tunnel = "t"
            remote = "10.9.0.0/24"
            [[policy]]
            interface = "wan"
            action = "bypass"
            protocol = "icmp"
        "#;
        let text = edit.iter().fold(text.to_owned(), |text, (old, new)| {
            assert!(text.contains(old), "{old}");
            text.replacen(old, new, 1)
        });
        Config::parse("g.toml", &text, &mut named_key).unwrap_or_else(|e| panic!("{e}"))
    }

    fn lines(edit: &[(&str, &str)]) -> Vec<String> {
        let found = differences(&gateway(&[]), &gateway(edit));
        let line = |d: &Difference| {
            let values = d.values.iter().map(|v| format!(" {} {}>{}", v.key, v.old, v.new));
            format!("{:?} {} {}:{}", d.change, d.section, d.name, values.collect::<String>())
        };
        found.iter().map(line).collect()
    }

    #[test]
    fn a_configuration_does_not_differ_from_itself() {
        assert_eq!(lines(&[]), [""; 0]);
    }

    #[test]
    fn differences_are_by_section_with_the_values_before_and_after() {
        let found = lines(&[
            ("mtu = 1400", "mtu = 1300"),
            ("via = \"192.0.2.2\"", "via = \"192.0.2.3\""),
            ("spi = 4098", "spi = 4099"),
            ("[[tunnel]]", "[[route]]\nprefix = \"10.8.0.0/24\"\ndiscard = true\n[[tunnel]]"),
        ]);
        assert_eq!(
            found,
            [
                "Changed route 10.9.0.0/24: way via 192.0.2.2 by wan>via 192.0.2.3 by wan",
                "Added route 10.8.0.0/24:",
                "Changed tunnel t: mtu 1400>1300 in 0x1002>0x1003",
                "Removed sa t in 0x1002:",
                "Added sa t in 0x1003:",
            ]
        );
    }

    #[test]
    fn another_key_is_told_and_never_shown() {
        assert_eq!(lines(&[("gcm:3", "gcm:5")]), ["Changed sa t in 0x1002: key one>another"]);
    }

    #[test]
    fn the_order_of_policies_matters_and_an_entry_more_does_not_change_it() {
        let (first, second) = ("remote = \"10.9.0.0/24\"", "action = \"bypass\"");
        let more = "remote = \"10.9.0.0/24\"\n[[policy]]\ninterface = \"wan\"\n\
                    action = \"discard\"\nprotocol = \"gre\"";
        assert_eq!(lines(&[(first, more)]), ["Added policy wan: any to any, gre:"]);
        let swapped = lines(&[
            (
                "action = \"protect\"\n            tunnel = \"t\"\n            remote = \"10.9.0.0/24\"",
                "action = \"bypass\"\nprotocol = \"icmp\"",
            ),
            (
                "action = \"bypass\"\n            protocol = \"icmp\"",
                "action = \"protect\"\ntunnel = \"t\"\nremote = \"10.9.0.0/24\"",
            ),
        ]);
        assert_eq!(swapped.len(), 1, "{swapped:?}");
        assert!(swapped[0].starts_with("Changed policy order:"), "{swapped:?}");
        assert_eq!(lines(&[(second, "action = \"discard\"")]).len(), 1);
    }
}
