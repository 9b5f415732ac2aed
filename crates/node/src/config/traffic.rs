//! Traffic as policies and access lists select it: addresses, protocol, ports and
//! messages, each a list, and the selectors that one entry stands for.

use super::raw::{Spanned, Words};
use super::read::Reader;
use ferrule_dataplane::ipsec::{Addresses, Field, Selector, SelectorError};
use std::fmt;
use std::ops::Range;
use toml::Value;

/// Combinations of addresses, ports and so on that one entry may stand for.
const COMBINATIONS_MAX: usize = 4096;

/// Traffic of an entry. An empty list is ANY.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Traffic {
    /// Addresses on our side; in an access list the sources.
    pub local: Vec<Addresses>,
    /// Addresses on the other side.
    pub remote: Vec<Addresses>,
    /// IP protocols.
    pub protocol: Vec<Field<u8>>,
    /// Ports on our side.
    pub local_ports: Vec<Field<u16>>,
    /// Ports on the other side.
    pub remote_ports: Vec<Field<u16>>,
    /// Types and codes of ICMP, types of mobility headers.
    pub message: Vec<Field<u16>>,
}

/// All values of a list, or ANY.
fn each<T: Copy>(list: &[Field<T>]) -> impl Iterator<Item = Field<T>> + Clone {
    let any = list.is_empty().then_some(Field::Any);
    list.iter().copied().chain(any)
}

impl Traffic {
    /// Pairs of addresses of one family.
    fn ends(&self) -> Vec<(Addresses, Addresses)> {
        let mut pairs = Vec::new();
        for all in [Addresses::V4, Addresses::V6] {
            let family = |list: &[Addresses]| -> Vec<Addresses> {
                let any = list.is_empty().then_some(all);
                list.iter().filter(|a| a.is_ipv4() == all.is_ipv4()).copied().chain(any).collect()
            };
            let remote = family(&self.remote);
            let local = family(&self.local);
            pairs.extend(local.iter().flat_map(|&l| remote.iter().map(move |&r| (l, r))));
        }
        pairs
    }

    /// How many selectors it stands for.
    fn combinations(&self) -> usize {
        let counts = [
            self.protocol.len().max(1),
            self.local_ports.len().max(1),
            self.remote_ports.len().max(1),
            self.message.len().max(1),
        ];
        counts.into_iter().fold(self.ends().len(), usize::saturating_mul)
    }

    /// The selectors that it stands for.
    pub fn selectors(&self) -> Vec<Selector> {
        let mut all = Vec::new();
        for (local, remote) in self.ends() {
            // The protocol of IPv4 packets is never opaque.
            let protocols = each(&self.protocol)
                .filter(|&protocol| !(local.is_ipv4() && protocol == Field::Opaque));
            for protocol in protocols {
                for local_ports in each(&self.local_ports) {
                    for remote_ports in each(&self.remote_ports) {
                        all.extend(each(&self.message).map(|message| Selector {
                            local,
                            remote,
                            protocol,
                            local_ports,
                            remote_ports,
                            message,
                        }));
                    }
                }
            }
        }
        all
    }

    /// All but the addresses: `tcp, remote ports 80, 443`; nothing if it is any. `ends` are
    /// the words for local and remote.
    pub fn upper(&self, ends: [&str; 2]) -> String {
        fn list<T: fmt::Display>(list: &[T]) -> String {
            list.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
        }
        let mut words = Vec::new();
        if !self.protocol.is_empty() {
            words.push(self.protocol.iter().map(protocol_text).collect::<Vec<_>>().join(", "));
        }
        for (what, ports) in ends.into_iter().zip([&self.local_ports, &self.remote_ports]) {
            if !ports.is_empty() {
                words.push(format!("{what} ports {}", list(ports)));
            }
        }
        if !self.message.is_empty() {
            let texts: Vec<String> = self.message.iter().map(message_text).collect();
            words.push(format!("type {}", texts.join(", ")));
        }
        words.join(", ")
    }
}

/// Names of protocols, as `/etc/protocols` has them, and the numbers of those that
/// have others.
const PROTOCOLS: [(&str, u8); 16] = [
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("ipv6", 41),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", 58),
    ("ospf", 89),
    ("vrrp", 112),
    ("sctp", 132),
    ("mobility", 135),
    ("udplite", 136),
];

fn protocol_text(field: &Field<u8>) -> String {
    match field {
        Field::Range(first, last) if first == last => {
            let named = PROTOCOLS.iter().find(|(_, number)| number == first);
            named.map_or_else(|| format!("protocol {first}"), |(name, _)| (*name).into())
        }
        Field::Opaque => "opaque protocol".into(),
        other => format!("protocol {other}"),
    }
}

/// `8`, `3/0-15`, `3-5`.
fn message_text(field: &Field<u16>) -> String {
    let Field::Range(first, last) = *field else { return field.to_string() };
    let ([kind, code], [last_kind, last_code]) = (first.to_be_bytes(), last.to_be_bytes());
    match (code, last_code) {
        (0, 255) => Field::Range(kind, last_kind).to_string(),
        _ if kind == last_kind => format!("{kind}/{}", Field::Range(code, last_code)),
        _ => format!("{kind}/{code}-{last_kind}/{last_code}"),
    }
}

/// Traffic as an entry says it.
pub(super) struct Said<'a> {
    /// The words for local and remote.
    pub ends: [&'static str; 2],
    pub local: &'a Option<Words>,
    pub remote: &'a Option<Words>,
    pub protocol: &'a Option<Words>,
    pub local_ports: &'a Option<Words>,
    pub remote_ports: &'a Option<Words>,
    pub icmp: &'a Option<Words>,
    pub mobility: &'a Option<Words>,
}

impl Said<'_> {
    /// Its values.
    pub fn read(&self, r: &mut Reader<'_>) -> Traffic {
        Traffic {
            local: list(r, self.local, addresses),
            remote: list(r, self.remote, addresses),
            protocol: list(r, self.protocol, protocol),
            local_ports: list(r, self.local_ports, ports),
            remote_ports: list(r, self.remote_ports, ports),
            message: messages(r, (self.icmp, self.mobility)),
        }
    }

    /// Reports an entry of too many combinations, or one that no packet can match. Returns its
    /// number of selectors.
    pub fn check(&self, r: &mut Reader<'_>, span: Range<usize>, entry: &Traffic) -> usize {
        let at = |words: &Option<Words>| words.as_ref().map_or(span.clone(), Spanned::span);
        let count = entry.combinations();
        if count > COMBINATIONS_MAX {
            let what = format!("this entry stands for {count} combinations of its lists");
            let remedy =
                format!("{COMBINATIONS_MAX} at most: write several entries, or use ranges");
            r.problems.add(span, what, remedy);
            return 0;
        }
        let selectors = entry.selectors();
        let v4 = |list: &[Addresses]| list.first().is_some_and(Addresses::is_ipv4);
        let lonely = |list: &[Addresses], other: &[Addresses]| {
            !other.is_empty()
                && list.iter().any(|a| other.iter().all(|o| o.is_ipv4() != a.is_ipv4()))
        };
        if lonely(&entry.local, &entry.remote) || lonely(&entry.remote, &entry.local) {
            let [local, remote] = self.ends;
            let what = format!("{local} and {remote} are of different address families");
            r.problems.add(at(self.remote), what, "give each family on both sides, or on none");
            return 0;
        }
        if selectors.is_empty() {
            let side = if v4(&entry.local) { self.local } else { self.remote };
            let remedy =
                "use \"any\", or IPv6 addresses: extension headers may hide a protocol there";
            r.problems.add(at(side), SelectorError::OpaqueProtocol.to_string(), remedy);
            return 0;
        }
        if let Some(e) = selectors.iter().find_map(|selector| selector.check().err()) {
            let (place, remedy) = match e {
                SelectorError::Ports => {
                    let ports = self.remote_ports.as_ref().or(self.local_ports.as_ref());
                    (ports.map(Spanned::span), "add protocol = \"tcp\", for example")
                }
                SelectorError::Message => {
                    let kind = self.icmp.as_ref().or(self.mobility.as_ref());
                    let remedy = "add protocol = \"icmp\", \"icmpv6\" or \"mobility\"";
                    (kind.map(Spanned::span), remedy)
                }
                _ => (None, "write the lower end first"),
            };
            r.problems.add(place.unwrap_or(span), e.to_string(), remedy);
            return 0;
        }
        selectors.len()
    }
}

/// Values of a key; with `any` among them there is nothing to ask.
pub(super) fn list<T>(
    r: &mut Reader<'_>,
    words: &Option<Words>,
    read: fn(&str) -> Result<Option<T>, Wrong>,
) -> Vec<T> {
    let Some(words) = words else { return Vec::new() };
    let mut all = Vec::new();
    let mut any = false;
    let one = std::slice::from_ref(&words.get_ref().0);
    let items = words.get_ref().0.as_array().map_or(one, |items| &**items);
    if items.is_empty() {
        r.problems.add(words.span(), "an empty list", "leave the key out: that is any");
    }
    for item in items {
        let text = match item {
            Value::String(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            other => {
                let what = format!("{} where a word or number is expected", other.type_str());
                r.problems.add(words.span(), what, "write a word, a number, or a list of them");
                continue;
            }
        };
        match read(&text) {
            Ok(Some(value)) => all.push(value),
            Ok(None) => any = true,
            Err((what, remedy)) => r.problems.add(words.span(), what, remedy),
        }
    }
    if any {
        all.clear();
    }
    all
}

/// Fault of a word, and its remedy.
pub(super) type Wrong = (String, String);

fn addresses(text: &str) -> Result<Option<Addresses>, Wrong> {
    if text == "any" {
        return Ok(None);
    }
    let wrong = || {
        let remedy = "write a network (192.0.2.0/24, 2001:db8::/64), an address, a range \
                      (192.0.2.1-192.0.2.9), or \"any\"";
        (format!("`{text}` names no addresses"), remedy.to_owned())
    };
    if let Some((first, last)) = text.split_once('-') {
        let range = Addresses {
            first: first.trim().parse().map_err(|_| wrong())?,
            last: last.trim().parse().map_err(|_| wrong())?,
        };
        if range.first.is_ipv4() != range.last.is_ipv4() || range.first > range.last {
            let remedy = "write the lower end first, and both of one family";
            return Err((format!("`{text}` is no range"), remedy.into()));
        }
        return Ok(Some(range));
    }
    let Some((address, len)) = text.split_once('/') else {
        return Ok(Some(Addresses::from((text.parse().map_err(|_| wrong())?, u8::MAX))));
    };
    let address: std::net::IpAddr = address.parse().map_err(|_| wrong())?;
    let len: u8 = len.parse().map_err(|_| wrong())?;
    if len > if address.is_ipv4() { 32 } else { 128 } {
        return Err(wrong());
    }
    let network = Addresses::from((address, len));
    if network.first != address {
        let what = format!("`{text}` has bits set behind the prefix");
        return Err((what, format!("write {}/{len}", network.first)));
    }
    Ok(Some(network))
}

fn protocol(text: &str) -> Result<Option<Field<u8>>, Wrong> {
    let named = PROTOCOLS.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
    if let Some(number) = named.or_else(|| text.parse().ok()) {
        return Ok(Some(Field::is(number)));
    }
    word(text).ok_or_else(|| {
        let names: Vec<&str> = PROTOCOLS.iter().map(|(name, _)| *name).collect();
        let remedy = format!("use a number from 0 to 255, any, opaque, or {}", names.join(", "));
        (format!("`{text}` is no protocol"), remedy)
    })
}

/// ANY is nothing to ask.
fn word<T>(text: &str) -> Option<Option<Field<T>>> {
    match text {
        "any" => Some(None),
        "opaque" => Some(Some(Field::Opaque)),
        _ => None,
    }
}

/// `7` or `7-9`.
fn span<T: std::str::FromStr + Copy + PartialOrd>(text: &str) -> Option<(T, T)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last).then_some((first, last))
}

/// A range of numbers, ANY or OPAQUE; what a word is instead, and what would be right.
fn numbers(
    text: &str,
    range: impl FnOnce() -> Option<(u16, u16)>,
    (no, remedy): (&str, &str),
) -> Result<Option<Field<u16>>, Wrong> {
    let field = || range().map(|(first, last)| Some(Field::Range(first, last)));
    word(text).or_else(field).ok_or_else(|| (format!("`{text}` is no {no}"), remedy.into()))
}

fn ports(text: &str) -> Result<Option<Field<u16>>, Wrong> {
    let remedy = "use a number from 0 to 65535, a range like 8000-8999, any, or opaque";
    numbers(text, || span(text), ("port", remedy))
}

fn icmp(text: &str) -> Result<Option<Field<u16>>, Wrong> {
    let range = || {
        let (kinds, codes) = text.split_once('/').unwrap_or((text, "0-255"));
        let (first, last): (u8, u8) = span(kinds)?;
        let (low, high): (u8, u8) = span(codes)?;
        let number = |kind, code| u16::from_be_bytes([kind, code]);
        Some((number(first, low), number(last, high)))
    };
    let remedy = "write a type (8), type and code (3/4, 3/0-15), types (128-129), or opaque";
    numbers(text, range, ("ICMP message", remedy))
}

fn mobility(text: &str) -> Result<Option<Field<u16>>, Wrong> {
    let range = || {
        let (first, last): (u8, u8) = span(text)?;
        Some((u16::from(first) << 8, u16::from(last) << 8 | 0xff))
    };
    let remedy = "write the type of a mobility header (5), types (1-4), or opaque";
    numbers(text, range, ("mobility header type", remedy))
}

fn messages(
    r: &mut Reader<'_>,
    (kinds, headers): (&Option<Words>, &Option<Words>),
) -> Vec<Field<u16>> {
    if let (Some(_), Some(words)) = (kinds, headers) {
        let remedy = "write two entries, one for each";
        r.problems.add(words.span(), "icmp and mobility in one entry", remedy);
    }
    let mut all = list(r, kinds, icmp);
    all.extend(list(r, headers, mobility));
    all
}
