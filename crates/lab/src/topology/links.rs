//! Links, and what holds for all links, hosts and nodes that do not say.

use super::entries::Reader;
use super::nodes::profile_named;
use super::section::{Problems, Section, Text};
use super::units::{self, Share};
use super::{Link, LinkEnd, Topology};
use crate::impair::{HoldBack, Impairments};
use crate::link::{Framing, LinkSpec};
use crate::profile::Profile;

/// Frames that a queue holds at most.
const QUEUE_MAX: u64 = 1 << 20;

/// `[defaults]`.
pub(super) struct Defaults {
    pub profile: Profile,
    pub host_mtu: Option<u64>,
    link: LinkSpec,
    outside: bool,
}

impl Defaults {
    pub fn read(r: &mut Reader<'_>, top: &mut Section<'_>) -> Self {
        let mut defaults = Self {
            profile: Profile::ideal(),
            host_mtu: None,
            link: LinkSpec::default(),
            outside: false,
        };
        let Some(mut section) = top.section(&mut r.problems, "defaults") else { return defaults };
        if let Some(mut link) = section.section(&mut r.problems, "link") {
            defaults.spec(r, &mut link);
            link.finish(&mut r.problems);
        }
        if let Some(mut host) = section.section(&mut r.problems, "host") {
            defaults.host_mtu = host.number(&mut r.problems, "mtu", 1280..=9000);
            host.finish(&mut r.problems);
        }
        if let Some(mut node) = section.section(&mut r.problems, "node") {
            if let Some(name) = node.text(&mut r.problems, "profile") {
                defaults.profile = profile_named(r, &name);
            }
            node.finish(&mut r.problems);
        }
        section.finish(&mut r.problems);
        defaults
    }

    /// Takes the keys of a link out of a section into our own.
    fn spec(&mut self, r: &mut Reader<'_>, section: &mut Section<'_>) {
        let p = &mut r.problems;
        let link = &mut self.link;
        if section.has("rate") {
            link.rate = section.rate(p, "rate");
        }
        link.delay = section.time(p, "delay").unwrap_or(link.delay);
        if let Some(queue) = section.number(p, "queue", 1..=QUEUE_MAX) {
            link.queue = queue as usize;
        }
        if let Some(framing) = section.text(p, "framing") {
            match framing.get_ref().as_str() {
                "ethernet" => link.framing = Framing::ETHERNET,
                "none" => link.framing = Framing::NONE,
                _ => p.unknown(&framing, "framing", &["ethernet", "none"]),
            }
        }
        impairments(p, section, &mut link.impairments);
        if let Some(mut back) = section.section(p, "back") {
            let mut other = link.impairments.clone();
            impairments(p, &mut back, &mut other);
            back.finish(p);
            link.back = Some(other);
        }
        if let Some(outside) = section.flag(p, "outside") {
            self.outside = outside.into_inner();
        }
    }
}

/// Takes the keys of impairments out of a section; what it does not say stays.
pub(super) fn impairments(p: &mut Problems, section: &mut Section<'_>, into: &mut Impairments) {
    let shares = [
        ("loss", &mut into.loss, &mut into.loss_every),
        ("duplicate", &mut into.duplicate, &mut into.duplicate_every),
        ("corrupt", &mut into.corrupt, &mut into.corrupt_every),
        ("reorder", &mut into.reorder, &mut into.reorder_every),
    ];
    for (key, share, every) in shares {
        match section.share(p, key) {
            Some(Share::Of(part)) => (*share, *every) = (part, 0),
            Some(Share::Every(number)) => (*share, *every) = (0.0, number),
            None => {}
        }
    }
    if let Some(text) = section.text(p, "reorder-by") {
        match hold_back(text.get_ref()) {
            Some(by) => into.reorder_by = by,
            None => {
                let what = format!("`{}` is no way to hold a frame back", text.get_ref());
                p.add(text.span(), what, "write it as 3 frames, or as a time such as 2ms");
            }
        }
    }
    into.jitter = section.time(p, "jitter").unwrap_or(into.jitter);
}

fn hold_back(text: &str) -> Option<HoldBack> {
    match text.trim().strip_suffix("frames").or(text.trim().strip_suffix("frame")) {
        Some(number) => {
            number.trim().parse().ok().filter(|n| (1..=100).contains(n)).map(HoldBack::Frames)
        }
        None => units::time(text).map(HoldBack::Time),
    }
}

pub(super) fn links(
    r: &mut Reader<'_>,
    top: &mut Section<'_>,
    topology: &mut Topology,
    defaults: &Defaults,
) {
    for mut section in top.list(&mut r.problems, "link") {
        let mut own = Defaults {
            profile: Profile::ideal(),
            host_mtu: None,
            link: defaults.link.clone(),
            outside: defaults.outside,
        };
        own.spec(r, &mut section);
        let name = section.text(&mut r.problems, "name");
        let ends = ends(r, &mut section, topology);
        let span = section.span.clone();
        section.finish(&mut r.problems);
        let Some(ends) = ends else { continue };
        let known = |end: &LinkEnd| match end {
            LinkEnd::Host(host) => topology.hosts[*host].name.clone(),
            LinkEnd::Node(node, _) => topology.nodes[*node].name.clone(),
        };
        let span = name.as_ref().map_or(span, Text::span);
        let name = name.map(|t| t.into_inner());
        let name = name.unwrap_or_else(|| format!("{}-{}", known(&ends[0]), known(&ends[1])));
        if topology.links.iter().any(|link| link.name == name) {
            let remedy = "give one of them a name = \"NAME\" of its own";
            r.problems.add(span, format!("a second link `{name}`"), remedy);
        }
        let spec = LinkSpec { name: name.clone(), ..own.link };
        topology.links.push(Link { name, ends, spec, outside: own.outside });
    }
}

/// Both ends of a link, neither of them taken.
fn ends(
    r: &mut Reader<'_>,
    section: &mut Section<'_>,
    topology: &Topology,
) -> Option<[LinkEnd; 2]> {
    let texts = section.texts(&mut r.problems, "ends");
    let [a, b] = texts.as_slice() else {
        let what = format!("a link with {} ends", texts.len());
        let remedy = "write ends = [\"HOST\", \"NODE:PORT\"]";
        r.problems.add(section.span.clone(), what, remedy);
        return None;
    };
    let (first, second) = (end(r, a, topology), end(r, b, topology));
    let (first, second) = (first?, second?);
    if first == second {
        r.problems.add(b.span(), "a link from a port to itself", "name another port");
        return None;
    }
    Some([first, second])
}

fn end(r: &mut Reader<'_>, text: &Text, topology: &Topology) -> Option<LinkEnd> {
    let (name, port) = match text.get_ref().split_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (text.get_ref().as_str(), None),
    };
    let spanned = |word: &str| Text::new(text.span(), word.to_owned());
    let host = topology.hosts.iter().position(|host| host.name == name);
    let node = topology.nodes.iter().position(|node| node.name == name);
    let end = match (host, node, port) {
        (Some(host), _, None) => LinkEnd::Host(host),
        (Some(_), _, Some(_)) => {
            let what = format!("host `{name}` has one port, without a name");
            r.problems.add(text.span(), what, format!("write \"{name}\""));
            return None;
        }
        (None, Some(node), port) => {
            let entry = &topology.nodes[node];
            let ports: Vec<&str> = entry.config.ports.iter().map(|p| p.name.as_str()).collect();
            let Some(port) = port else {
                let remedy = match ports.first() {
                    Some(port) => {
                        format!("write \"{name}:{port}\"; its ports: {}", ports.join(", "))
                    }
                    None => format!("give `{name}` a port first"),
                };
                r.problems.add(text.span(), format!("node `{name}` without a port"), remedy);
                return None;
            };
            // A configuration that could not be read has no ports: that was said.
            if !ports.contains(&port) && !ports.is_empty() {
                r.problems.unknown(&spanned(port), &format!("port of {name}"), &ports);
                return None;
            }
            LinkEnd::Node(node, port.to_owned())
        }
        (None, None, _) => {
            let nodes = topology.nodes.iter().map(|node| node.name.as_str());
            let names: Vec<&str> =
                nodes.chain(topology.hosts.iter().map(|h| h.name.as_str())).collect();
            r.problems.unknown(&spanned(name), "node or host", &names);
            return None;
        }
    };
    if let Some(link) = topology.links.iter().find(|link| link.ends.contains(&end)) {
        let what = format!("`{}` has a link already: {}", text.get_ref(), link.name);
        r.problems.add(text.span(), what, "a port takes one link: name another port");
    }
    Some(end)
}
