//! Traffic and disturbances.

use super::entries::Reader;
use super::section::{Problems, Section, Text};
use super::{Disturbance, Kind, Topology, Traffic, Upset, links, units};
use crate::host::{self, FLOWS_MAX, Schedule};
use ferrule_base::{Duration, Instant};
use std::net::IpAddr;

/// Hosts and nodes have found each other by then.
const START: Duration = Duration::from_millis(200);
/// Earliest start over IPv6: a node uses an address once a second has shown that no other node does
/// (RFC 4862 section 5.4).
const START_IPV6: Duration = Duration::from_millis(1200);
/// Octets of a frame of a ping, without FCS, as `ping` sends them.
const PING_FRAME: u64 = 98;
/// Octets of a frame of UDP traffic, without FCS.
const UDP_FRAME: u64 = 1000;
/// From one echo request to the next.
const PING_GAP: Duration = Duration::from_millis(10);
/// UDP frames per second.
const UDP_RATE: u64 = 1000;
/// Octets of a body.
const BODY: u64 = 1 << 20;
/// Octets of TCP windows.
const WINDOW: u64 = 1 << 16;
/// A node that was killed is back after this time.
const BACK_AFTER: Duration = Duration::from_millis(50);

pub(super) fn traffic(r: &mut Reader<'_>, top: &mut Section<'_>, topology: &mut Topology) {
    for mut section in top.list(&mut r.problems, "traffic") {
        let p = &mut r.problems;
        let span = section.span.clone();
        let kind = section.need(p, "kind", "\"ping\", \"udp\", \"tcp\" or \"http\"");
        let from = host_of(p, &mut section, "from", topology);
        let to = host_of(p, &mut section, "to", topology);
        let address = section.text(p, "address");
        let address = match (from, to) {
            (Some(from), Some(to)) => destination(p, topology, (from, to), address, &section),
            _ => None,
        };
        let early = if address.is_some_and(|to| to.is_ipv6()) { START_IPV6 } else { START };
        let start = section.time(p, "start").unwrap_or(early);
        let stop = section.time(p, "stop");
        if stop.is_some_and(|stop| stop <= start) {
            p.add(span.clone(), "this traffic ends before it starts", "give a later stop");
        }
        let kind = kind.and_then(|kind| read_kind(p, &mut section, &kind, address, topology, from));
        let count = section.number(p, "count", 1..=u64::from(u32::MAX));
        let window = section.number(p, "window", 2048..=1 << 24).unwrap_or(WINDOW);
        section.finish(p);
        if topology.traffic.len() >= FLOWS_MAX as usize {
            let remedy = format!("keep {FLOWS_MAX} at most");
            p.add(span, "too many traffic entries", remedy);
            continue;
        }
        let (Some(kind), Some(from), Some(to), Some(address)) = (kind, from, to, address) else {
            continue;
        };
        let kind = match kind {
            Kind::Http(bytes, _) => Kind::Http(bytes, count.unwrap_or(1)),
            other => other,
        };
        topology.traffic.push(Traffic {
            kind,
            from,
            to,
            address,
            start: Instant::ZERO + start,
            stop: stop.map(|stop| Instant::ZERO + stop),
            count,
            window: window as usize,
        });
    }
}

fn host_of(
    p: &mut Problems,
    section: &mut Section<'_>,
    key: &'static str,
    topology: &Topology,
) -> Option<usize> {
    let name = section.need(p, key, "\"HOST\"")?;
    let found = topology.hosts.iter().position(|host| host.name == *name.get_ref());
    if found.is_none() {
        let names: Vec<&str> = topology.hosts.iter().map(|host| host.name.as_str()).collect();
        p.unknown(&name, "host", &names);
    }
    found
}

/// The address that traffic goes to: as given, or the first of the other host's
/// that the sender has one of the same version for.
fn destination(
    p: &mut Problems,
    topology: &Topology,
    (from, to): (usize, usize),
    given: Option<Text>,
    section: &Section<'_>,
) -> Option<IpAddr> {
    let (from, to) = (&topology.hosts[from], &topology.hosts[to]);
    if from.name == to.name {
        p.add(section.span.clone(), "traffic from a host to itself", "name two hosts");
        return None;
    }
    let usable =
        |address: &IpAddr| from.addresses.iter().any(|(own, _)| own.is_ipv4() == address.is_ipv4());
    let all = || to.addresses.iter().map(|(address, _)| *address);
    match given {
        Some(text) => {
            let found = all().find(|address| text.get_ref().parse() == Ok(*address));
            if found.is_none() {
                let names: Vec<String> = all().map(|address| address.to_string()).collect();
                let what = format!("host `{}` is not `{}`", to.name, text.get_ref());
                p.add(text.span(), what, format!("its addresses are {}", names.join(", ")));
            }
            found
        }
        None => {
            let found = all().find(usable);
            if found.is_none() && !from.addresses.is_empty() && !to.addresses.is_empty() {
                let what =
                    format!("`{}` and `{}` have no IP version in common", from.name, to.name);
                p.add(section.span.clone(), what, "give one of them an address of the other's");
            }
            found
        }
    }
}

fn read_kind(
    p: &mut Problems,
    section: &mut Section<'_>,
    kind: &Text,
    to: Option<IpAddr>,
    topology: &Topology,
    from: Option<usize>,
) -> Option<Kind> {
    let bytes = 1..=1_u64 << 34;
    Some(match kind.get_ref().as_str() {
        "ping" => {
            let size = size(p, section, PING_FRAME, to, from.map(|from| topology.hosts[from].mtu));
            let gap = section.time(p, "every").filter(|gap| !gap.is_zero()).unwrap_or(PING_GAP);
            Kind::Ping(size, Schedule::every(gap))
        }
        "udp" => {
            let size = size(p, section, UDP_FRAME, to, from.map(|from| topology.hosts[from].mtu));
            Kind::Udp(size, udp_schedule(p, section, size))
        }
        "tcp" => Kind::Tcp(section.number(p, "bytes", bytes)),
        "http" => Kind::Http(section.number(p, "bytes", bytes).unwrap_or(BODY), 1),
        _ => {
            p.unknown(kind, "kind of traffic", &["ping", "udp", "tcp", "http"]);
            return None;
        }
    })
}

fn udp_schedule(p: &mut Problems, section: &mut Section<'_>, size: usize) -> Schedule {
    let Some(text) = section.text(p, "rate") else { return Schedule::per_second(UDP_RATE) };
    if let Some(rate) = units::packets(text.get_ref()) {
        return Schedule::per_second(rate);
    }
    if let Some(rate) = units::rate(text.get_ref()) {
        return Schedule::bits_per_second(rate, size);
    }
    let remedy = format!("{}, or in packets as 1000pps", units::RATE_FORM);
    p.add(text.span(), format!("`{}` is no rate", text.get_ref()), remedy);
    Schedule::per_second(UDP_RATE)
}

/// Octets of a frame: not less than its headers, not more than the host sends.
fn size(
    p: &mut Problems,
    section: &mut Section<'_>,
    default: u64,
    to: Option<IpAddr>,
    mtu: Option<usize>,
) -> usize {
    const ETHERNET: usize = 14;
    let least = to.map_or(0, host::frame_min) as u64;
    let most = mtu.unwrap_or(9000) + ETHERNET;
    section.number(p, "size", least..=most as u64).unwrap_or(default.max(least)) as usize
}

pub(super) fn disturbances(r: &mut Reader<'_>, top: &mut Section<'_>, topology: &mut Topology) {
    let p = &mut r.problems;
    for mut section in top.list(p, "disturb") {
        let span = section.span.clone();
        let at = if section.has("at") { section.time(p, "at") } else { None };
        if at.is_none() && !section.has("at") {
            p.add(span.clone(), "a disturb without at", "add at = \"1s\"");
        }
        let length = section.time(p, "for");
        let (link, node) = (section.text(p, "link"), section.text(p, "node"));
        let at = Instant::ZERO + at.unwrap_or_default();
        match (link, node) {
            (Some(link), None) => {
                let names: Vec<&str> = topology.links.iter().map(|l| l.name.as_str()).collect();
                match names.iter().position(|name| name == link.get_ref()) {
                    Some(link) => disturb_link(p, &mut section, topology, (at, length), link),
                    None => p.unknown(&link, "link", &names),
                }
            }
            (None, Some(node)) => {
                let names: Vec<&str> = topology.nodes.iter().map(|n| n.name.as_str()).collect();
                match names.iter().position(|name| name == node.get_ref()) {
                    Some(node) => disturb_node(p, &mut section, topology, (at, length), node),
                    None => p.unknown(&node, "node", &names),
                }
            }
            _ => p.add(
                span,
                "what to disturb is not clear",
                "add link = \"NAME\" or node = \"NAME\"",
            ),
        }
        section.finish(p);
    }
    topology.disturbances.sort_by_key(|entry| entry.at);
}

type When = (Instant, Option<Duration>);

fn disturb_link(
    p: &mut Problems,
    section: &mut Section<'_>,
    topology: &mut Topology,
    (at, length): When,
    link: usize,
) {
    let before = topology.links[link].spec.impairments.clone();
    let mut after = before.clone();
    links::impairments(p, section, &mut after);
    let down = section.flag(p, "down").map(|flag| flag.into_inner());
    let (what, back) = match down {
        Some(true) => (Upset::Down(link), Upset::Up(link)),
        Some(false) => (Upset::Up(link), Upset::Down(link)),
        None if after == before => {
            let remedy = "add down = true, or impairments such as loss = \"1%\"";
            p.add(section.span.clone(), "this link is not disturbed", remedy);
            return;
        }
        None => (Upset::Impair(link, after), Upset::Impair(link, before)),
    };
    topology.disturbances.push(Disturbance { at, what });
    if let Some(length) = length {
        topology.disturbances.push(Disturbance { at: at + length, what: back });
    }
}

fn disturb_node(
    p: &mut Problems,
    section: &mut Section<'_>,
    topology: &mut Topology,
    (at, length): When,
    node: usize,
) {
    let restart = section.flag(p, "restart").is_some_and(|flag| flag.into_inner());
    let jump = section.time(p, "clock-jump");
    let what = match (restart, jump) {
        (true, None) => Upset::Restart(node, length.unwrap_or(BACK_AFTER)),
        (false, Some(by)) => Upset::ClockJump(node, by),
        _ => {
            let remedy = "add restart = true, or clock-jump = \"1s\"";
            p.add(section.span.clone(), "what happens to this node is not clear", remedy);
            return;
        }
    };
    topology.disturbances.push(Disturbance { at, what });
}
