//! Nodes and hosts.

use super::entries::Reader;
use super::keys::LabKeys;
use super::links::Defaults;
use super::section::{self, Problems, Section, Text};
use super::{HostPlan, Node};
use crate::host::ADDRESSES_MAX;
use crate::profile::Profile;
use ferrule_base::MacAddr;
use ferrule_node::config::Written;
use ferrule_node::{Config, ConfigError, made_mac};
use std::net::IpAddr;
use std::ops::Range;
use toml::de::DeValue;

/// Octets of a host's largest packet if nothing is said.
const MTU: u64 = 1500;
/// Characters of a name at most: namespaces and devices are named after it.
const NAME_MAX: usize = 24;

/// Sections by name.
pub(super) struct Named<'i> {
    pub nodes: Vec<(Text, Section<'i>)>,
    pub hosts: Vec<(Text, Section<'i>)>,
}

pub(super) fn named<'i>(r: &mut Reader<'_>, from: &mut Section<'i>) -> Named<'i> {
    let p = &mut r.problems;
    Named { nodes: from.named(p, "node"), hosts: from.named(p, "host") }
}

impl<'i> Named<'i> {
    /// Puts others in the place of those of the same name, and adds the rest.
    pub fn replace(&mut self, others: Self) {
        let lists = [(&mut self.nodes, others.nodes), (&mut self.hosts, others.hosts)];
        for (own, others) in lists {
            for (name, section) in others {
                match own.iter_mut().find(|(known, _)| known.get_ref() == name.get_ref()) {
                    Some(place) => *place = (name, section),
                    None => own.push((name, section)),
                }
            }
        }
    }
}

fn check_name(p: &mut Problems, name: &Text) {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    let text = name.get_ref();
    if text.is_empty() || text.len() > NAME_MAX || !text.chars().all(letter) {
        let remedy = format!("use 1 to {NAME_MAX} of a-z, 0-9, - and _");
        p.add(name.span(), format!("`{text}` is no name to use here"), remedy);
    }
}

/// The nodes, and where each is defined.
pub(super) fn nodes(
    r: &mut Reader<'_>,
    sections: Vec<(Text, Section<'_>)>,
    defaults: &Defaults,
) -> (Vec<Node>, Vec<Range<usize>>) {
    let (mut nodes, mut spans) = (Vec::new(), Vec::new());
    for (name, mut section) in sections {
        check_name(&mut r.problems, &name);
        let profile = profile(r, &mut section, defaults);
        let mut node = Node {
            name: name.get_ref().clone(),
            config: nothing(name.get_ref()),
            written: toml::Table::new(),
            keys: Vec::new(),
            on_token: Vec::new(),
            profile,
        };
        match section.take("config") {
            None => {
                let remedy = format!(
                    "add config = \"FILE\", or [node.{}.config] with what `ferrule run` takes",
                    name.get_ref()
                );
                r.problems.add(name.span(), format!("a {} without config", section.what), remedy);
            }
            Some(value) => config(r, &mut node, value),
        }
        section.finish(&mut r.problems);
        nodes.push(node);
        spans.push(name.span());
    }
    (nodes, spans)
}

/// A configuration without anything in it, for a node whose own cannot be read.
fn nothing(name: &str) -> Config {
    let text = "port = []";
    let written = Written::parse(text).expect("an empty configuration");
    Config::of_lab(name, &written, &mut LabKeys::default()).expect("nothing wrong in nothing")
}

fn profile(r: &mut Reader<'_>, section: &mut Section<'_>, defaults: &Defaults) -> Profile {
    let Some(name) = section.text(&mut r.problems, "profile") else {
        return defaults.profile.clone();
    };
    profile_named(r, &name)
}

/// A profile by its name, or from a file beside.
pub(super) fn profile_named(r: &mut Reader<'_>, name: &Text) -> Profile {
    if let Some(profile) = Profile::named(name.get_ref()) {
        return profile;
    }
    if !name.get_ref().ends_with(".toml") {
        let names: Vec<&str> = Profile::names().collect();
        r.problems.unknown(name, "profile", &names);
        return Profile::ideal();
    }
    match r.files.read(name.get_ref()) {
        Ok(text) => match Profile::parse(name.get_ref(), &text) {
            Ok(profile) => return profile,
            Err(error) => r.beside.push(error),
        },
        Err(e) => r.problems.add(name.span(), e, "name a file beside the topology"),
    }
    Profile::ideal()
}

/// Reads a node's configuration, inline or from a file beside.
fn config(r: &mut Reader<'_>, node: &mut Node, value: toml::Spanned<DeValue<'_>>) {
    let span = value.span();
    let mut keys = LabKeys::default();
    match value.get_ref() {
        DeValue::Table(_) => {
            node.written = section::plain(&value);
            let read = Written::of(value).and_then(|w| Config::of_lab(&node.name, &w, &mut keys));
            match read {
                Ok(config) => node.config = config,
                Err(problems) => r.problems.0.extend(problems),
            }
        }
        DeValue::String(file) => {
            let text = match r.files.read(file) {
                Ok(text) => text,
                Err(e) => return r.problems.add(span, e, "name a file beside the topology"),
            };
            let read = Written::parse(&text);
            match read.and_then(|w| Config::of_lab(&node.name, &w, &mut keys)) {
                Ok(config) => {
                    node.config = config;
                    node.written = toml::from_str(&text).unwrap_or_default();
                }
                Err(mut problems) => {
                    problems.sort_by_key(|p| p.span.start);
                    r.beside.push(ConfigError { file: file.to_string(), text, problems });
                }
            }
        }
        _ => r.problems.add(span, "config is neither a file name nor a table", "write \"FILE\""),
    }
    node.config.name.clone_from(&node.name);
    node.keys = keys.asked.into_iter().collect();
    node.on_token = keys.on_token.into_iter().collect();
}

/// The hosts, and where each is defined.
pub(super) fn hosts(
    r: &mut Reader<'_>,
    sections: Vec<(Text, Section<'_>)>,
    defaults: &Defaults,
) -> (Vec<HostPlan>, Vec<Range<usize>>) {
    let (mut hosts, mut spans) = (Vec::new(), Vec::new());
    for (name, mut section) in sections {
        let p = &mut r.problems;
        check_name(p, &name);
        let addresses = addresses(p, &name, &mut section);
        let gateways = gateways(p, &mut section, &addresses);
        let mac = section.text(p, "mac").and_then(|text| mac(p, &text));
        let mtu = section.number(p, "mtu", 1280..=9000).or(defaults.host_mtu).unwrap_or(MTU);
        section.finish(p);
        hosts.push(HostPlan {
            mac: mac.unwrap_or(made_mac(name.get_ref(), "host")),
            name: name.get_ref().clone(),
            addresses,
            gateways,
            mtu: mtu as usize,
        });
        spans.push(name.span());
    }
    (hosts, spans)
}

fn mac(p: &mut Problems, text: &Text) -> Option<MacAddr> {
    let mac = text.get_ref().parse::<MacAddr>().ok().filter(|mac| !mac.is_group());
    if mac.is_none() {
        let what = format!("`{}` is no MAC address of a host", text.get_ref());
        p.add(text.span(), what, "write it as 02:00:00:00:00:01, with an even first octet");
    }
    mac
}

fn addresses(p: &mut Problems, name: &Text, section: &mut Section<'_>) -> Vec<(IpAddr, u8)> {
    let present = section.has("address");
    let texts = section.texts(p, "address");
    if texts.is_empty() && !p.0.iter().any(|known| known.what.contains("address of a host")) {
        let what = format!("host `{}` has no address", name.get_ref());
        let span = if present { section.span.clone() } else { name.span() };
        p.add(span, what, "add address = [\"10.0.0.1/24\"]");
    }
    if let Some(text) = texts.get(ADDRESSES_MAX) {
        let remedy = format!("give it {ADDRESSES_MAX} at most");
        p.add(text.span(), format!("host `{}` has too many addresses", name.get_ref()), remedy);
    }
    let mut addresses = Vec::new();
    for text in &texts {
        let parsed = text.get_ref().split_once('/').and_then(|(address, len)| {
            let address: IpAddr = address.parse().ok()?;
            let len: u8 = len.parse().ok()?;
            let max = if address.is_ipv4() { 32 } else { 128 };
            let usable = !address.is_multicast() && !address.is_unspecified();
            (len <= max && len > 0 && usable).then_some((address, len))
        });
        match parsed {
            Some(address) => addresses.push(address),
            None => {
                let what =
                    format!("`{}` is no address of a host with a prefix length", text.get_ref());
                p.add(text.span(), what, "write it as 192.0.2.1/24 or 2001:db8::1/64");
            }
        }
    }
    addresses
}

fn gateways(
    p: &mut Problems,
    section: &mut Section<'_>,
    addresses: &[(IpAddr, u8)],
) -> Vec<IpAddr> {
    let mut gateways: Vec<IpAddr> = Vec::new();
    for text in section.texts(p, "gateway") {
        let Ok(gateway) = text.get_ref().parse::<IpAddr>() else {
            let what = format!("`{}` is no IP address", text.get_ref());
            p.add(text.span(), what, "write it as 192.0.2.1 or 2001:db8::1, without a length");
            continue;
        };
        if !addresses.iter().any(|net| crate::host::same_network(*net, gateway)) {
            let what = format!("{} cannot reach its gateway {gateway}", section.what);
            p.add(text.span(), what, "name a router in the network of one of its addresses");
        }
        if gateways.iter().any(|known| known.is_ipv4() == gateway.is_ipv4()) {
            p.add(text.span(), "a second gateway of this IP version", "keep one of each");
        }
        gateways.push(gateway);
    }
    gateways
}
