//! Access lists, and the interfaces that have them.
//!
//! ```toml
//!   [[access-list]]
//!   name = "customer"
//!   entry = [
//!     { action = "deny", protocol = "tcp", to-ports = 25, name = "no mail" },
//!     { action = "permit", from = "10.1.0.0/16" },
//!   ]                                   # what no entry has is denied
//!
//!   [[interface]]
//!   acl-in = "customer"                 # and acl-out; so of a [[vrf]], of a member of a
//!                                       # [[bridge]], of a [[pseudowire]]
//! ```

use super::Config;
use super::raw::{self, Spanned, Words};
use super::read::Reader;
use super::traffic::{Said, Traffic, Wrong, list};
use ferrule_dataplane::acl::frame::{FrameMatch, MacNet};
use ferrule_dataplane::acl::{ENTRIES_MAX, Match, TcpFlags, Verdict};
use ferrule_wire::{EtherType, Protocol};
use std::hash::{Hash, Hasher};
use std::ops::Range;

/// An access list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclConfig {
    /// Its name.
    pub name: String,
    /// Its entries, in order.
    pub entries: Vec<AclEntryConfig>,
}

/// An entry of an access list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclEntryConfig {
    /// Name in lists.
    pub name: Option<String>,
    /// Whose traffic: local is the source.
    pub traffic: Traffic,
    /// Code point of the traffic class.
    pub dscp: Option<u8>,
    /// TCP flags, any of these.
    pub tcp: Vec<TcpFlags>,
    /// Only later fragments.
    pub fragments: bool,
    /// Link addresses, EtherType and VLAN; conditions on IP are not in there.
    pub link: FrameMatch,
    /// Verdict on the packets that match.
    pub verdict: Verdict,
    /// Matching packets are logged as events.
    pub logs: bool,
    /// Octet of the file at which the entry stands.
    pub at: usize,
}

/// Combinations of a list that are compared with one another at most.
const COMPARED_MAX: usize = 4096;

impl AclConfig {
    /// True if an entry asks for what only whole frames show: the list is for bridges and
    /// pseudowires.
    pub fn is_for_frames(&self) -> bool {
        self.entries.iter().any(|entry| entry.link != FrameMatch::default())
    }

    /// Entries that no packet comes to, since earlier ones have all of their traffic: each
    /// with the first that has some of it. Nothing of a list of more than 4,096 combinations.
    pub fn shadowed(&self) -> Vec<(usize, usize)> {
        let each = self.entries.iter().enumerate();
        let frames = self.is_for_frames();
        let packet = |m| FrameMatch { ip: Some(m), ..FrameMatch::default() };
        let all: Vec<(usize, FrameMatch)> = each
            .flat_map(|(at, entry)| {
                let matches: Vec<_> = match frames {
                    true => entry.frames().collect(),
                    false => entry.matches().map(packet).collect(),
                };
                matches.into_iter().map(move |m| (at, m))
            })
            .collect();
        if all.len() > COMPARED_MAX {
            return Vec::new();
        }
        let over = |at: usize, m: &FrameMatch| {
            let earlier = all.iter().take_while(|(earlier, _)| *earlier < at);
            earlier.filter(|(_, earlier)| earlier.covers(m)).map(|(earlier, _)| *earlier).next()
        };
        (0..self.entries.len())
            .filter_map(|at| {
                let mut own = all.iter().filter(|(entry, _)| *entry == at);
                let first = own.next().and_then(|(_, m)| over(at, m))?;
                own.all(|(_, m)| over(at, m).is_some()).then_some((at, first))
            })
            .collect()
    }
}

/// By all but its place in the file.
impl Hash for AclEntryConfig {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { name, traffic, dscp, tcp, fragments, link, verdict, logs, at: _ } = self;
        (name, traffic, dscp, tcp, fragments, link, verdict, logs).hash(state);
    }
}

impl AclEntryConfig {
    /// True if the entry has any condition on IP fields.
    fn asks_for_ip(&self) -> bool {
        self.traffic != Traffic::default()
            || self.dscp.is_some()
            || !self.tcp.is_empty()
            || self.fragments
    }

    /// All frames that it stands for.
    pub fn frames(&self) -> impl Iterator<Item = FrameMatch> + '_ {
        let ip: Vec<Option<Match>> = match self.asks_for_ip() {
            true => self.matches().map(Some).collect(),
            false => vec![None],
        };
        ip.into_iter().map(|ip| FrameMatch { ip, ..self.link.clone() })
    }

    /// All traffic that it stands for.
    pub fn matches(&self) -> impl Iterator<Item = Match> + '_ {
        let flags: Vec<Option<TcpFlags>> = match self.tcp.is_empty() {
            true => vec![None],
            false => self.tcp.iter().copied().map(Some).collect(),
        };
        let (dscp, fragments) = (self.dscp, self.fragments);
        self.traffic.selectors().into_iter().flat_map(move |selector| {
            let of = move |tcp| Match { selector: selector.clone(), dscp, tcp, fragments };
            flags.clone().into_iter().map(of)
        })
    }

    /// All but the addresses, in words; nothing if it is any.
    pub fn upper(&self) -> String {
        let mut words = Some(self.traffic.upper(["from", "to"])).filter(|text| !text.is_empty());
        let mut add = |text: String| {
            words = Some(words.take().map_or(text.clone(), |words| format!("{words}, {text}")));
        };
        if !self.tcp.is_empty() {
            let flags: Vec<String> = self.tcp.iter().map(|&flags| flags_text(flags)).collect();
            add(format!("flags {}", flags.join(" or ")));
        }
        if let Some(dscp) = self.dscp {
            add(format!("DSCP {dscp}"));
        }
        if self.fragments {
            add("later fragments".into());
        }
        let FrameMatch { src, dst, ethertype, vlan, exp, ip: _ } = &self.link;
        let macs = [("from", src), ("to", dst)];
        for (end, net) in macs.into_iter().filter_map(|(end, net)| Some((end, (*net)?))) {
            let len = if net.len == 48 { String::new() } else { format!("/{}", net.len) };
            add(format!("{end} {}{len}", net.address));
        }
        if let Some(ethertype) = ethertype {
            add(format!("EtherType {ethertype:#06x}"));
        }
        match vlan {
            Some(0) => add("untagged".into()),
            Some(vid) => add(format!("VLAN {vid}")),
            None => {}
        }
        if let Some(exp) = exp {
            add(format!("EXP {exp}"));
        }
        words.unwrap_or_default()
    }
}

/// Flags by name, as in the header from the lowest bit on (RFC 9293 section 3.1).
const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

fn flags_text(flags: TcpFlags) -> String {
    let named = |bits: u8, sign: &'static str| {
        let set = move |&(at, _): &(usize, &&str)| bits & 1 << at != 0;
        FLAGS.iter().enumerate().filter(set).map(move |(_, name)| format!("{sign}{name}"))
    };
    named(flags.set, "").chain(named(flags.clear, "!")).collect::<Vec<_>>().join("+")
}

/// `syn`, `syn+!ack`.
fn flags(text: &str) -> Result<Option<TcpFlags>, Wrong> {
    let mut all = TcpFlags::default();
    for word in text.split('+').map(str::trim) {
        let (name, bits) = match word.strip_prefix('!') {
            Some(name) => (name, &mut all.clear),
            None => (word, &mut all.set),
        };
        let Some(at) = FLAGS.iter().position(|flag| *flag == name) else {
            let remedy =
                format!("join of {} with +, and ! for a clear one: syn+!ack", FLAGS.join(", "));
            return Err((format!("`{text}` names no TCP flags"), remedy));
        };
        *bits |= 1 << at;
    }
    if all.set & all.clear != 0 {
        let what = format!("`{text}` wants a flag set and clear");
        return Err((what, "name each flag once".into()));
    }
    Ok(Some(all))
}

/// Reads all lists.
pub(super) fn lists(r: &mut Reader<'_>, file: &raw::File, config: &mut Config) {
    for written in &file.access_list {
        let (span, written) = (written.span(), written.get_ref());
        r.lists.unique(&mut r.problems, &written.name);
        r.lists.push(written.name.get_ref());
        let mut count = 0;
        let mut entries = Vec::new();
        for written in &written.entry {
            if let Some(read) = entry(r, written) {
                count += read.traffic.selectors().len() * read.tcp.len().max(1);
                entries.push(read);
            }
        }
        if entries.is_empty() && written.entry.is_empty() {
            let remedy = "add entry = [{ action = \"permit\" }]; a list without denies everything";
            r.problems.add(span.clone(), "an access list without entries", remedy);
        }
        if count > ENTRIES_MAX {
            let what = format!("this list stands for {count} combinations");
            let remedy = format!("{ENTRIES_MAX} at most: use networks and ranges instead of lists");
            r.problems.add(span, what, remedy);
        }
        config.lists.push(AclConfig { name: written.name.get_ref().clone(), entries });
    }
}

/// The list that a routed interface names.
pub(super) fn packet_list(
    r: &mut Reader<'_>,
    config: &Config,
    name: Option<&raw::Text>,
) -> Option<usize> {
    let name = name?;
    let found = r.lists.find(&mut r.problems, name)?;
    if config.lists.get(found).is_some_and(AclConfig::is_for_frames) {
        let what = "a list that asks for MAC addresses, EtherType, VLAN or EXP";
        let remedy = "a routed interface sees IP packets alone: use it at a bridge or a pseudowire";
        r.problems.add(name.span(), what, remedy);
    }
    Some(found)
}

/// The list that a bridge's member or a pseudowire names.
pub(super) fn frame_list(r: &mut Reader<'_>, name: Option<&raw::Text>) -> Option<usize> {
    name.and_then(|name| r.lists.find(&mut r.problems, name))
}

fn entry(r: &mut Reader<'_>, written: &Spanned<raw::AccessListEntry>) -> Option<AclEntryConfig> {
    let (span, entry) = (written.span(), written.get_ref());
    let actions = [("permit", Verdict::Permit), ("deny", Verdict::Deny)];
    let verdict = r.choice(&entry.action, "action", &actions);
    let said = Said {
        ends: ["from", "to"],
        local: &entry.from,
        remote: &entry.to,
        protocol: &entry.protocol,
        local_ports: &entry.from_ports,
        remote_ports: &entry.to_ports,
        icmp: &entry.icmp,
        mobility: &None,
    };
    let mut traffic = said.read(r);
    let tcp = list(r, &entry.tcp_flags, flags);
    if !tcp.is_empty() {
        let is_tcp = [ferrule_dataplane::ipsec::Field::is(Protocol::TCP.0)];
        if traffic.protocol.is_empty() {
            traffic.protocol = is_tcp.into();
        } else if traffic.protocol != is_tcp {
            let at = entry.tcp_flags.as_ref().map_or(span.clone(), Words::span);
            r.problems.add(at, "TCP flags of another protocol", "write protocol = \"tcp\"");
        }
    }
    let dscp = entry.dscp.as_ref();
    let dscp = dscp.map(|_| r.number(dscp, 0, 0..=63, "dscp") as u8);
    let fragments = entry.fragments.unwrap_or(false);
    let sees_more = !traffic.local_ports.is_empty()
        || !traffic.remote_ports.is_empty()
        || !traffic.message.is_empty()
        || !tcp.is_empty();
    if fragments && sees_more {
        let what = "a later fragment shows neither ports nor flags nor an ICMP type";
        r.problems.add(span.clone(), what, "leave them out of an entry with fragments = true");
    }
    said.check(r, span.clone(), &traffic);
    let read = AclEntryConfig {
        name: entry.name.as_ref().map(|name| name.get_ref().clone()),
        traffic,
        dscp,
        tcp,
        fragments,
        link: link(r, entry),
        verdict: verdict?,
        logs: entry.log.unwrap_or(false),
        at: span.start,
    };
    check_link(r, span, &read);
    Some(read)
}

/// All that an entry asks of a frame but for the packet in it.
fn link(r: &mut Reader<'_>, entry: &raw::AccessListEntry) -> FrameMatch {
    let mut number = |number: &Option<raw::Number>, range, name| {
        let number = number.as_ref();
        number.map(|_| r.number(number, 0, range, name))
    };
    let ethertype = number(&entry.ethertype, 1536..=65_535, "ethertype").map(|n| n as u16);
    let vlan = number(&entry.vlan, 0..=4094, "vlan").map(|n| n as u16);
    let exp = number(&entry.exp, 0..=7, "exp").map(|n| n as u8);
    FrameMatch {
        src: entry.mac_from.as_ref().and_then(|text| macs(r, text)),
        dst: entry.mac_to.as_ref().and_then(|text| macs(r, text)),
        ethertype,
        vlan,
        exp,
        ip: None,
    }
}

/// Refuses an entry that no frame can match: of IP packets or labels under another EtherType.
fn check_link(r: &mut Reader<'_>, span: Range<usize>, read: &AclEntryConfig) {
    let is_of = |ethertypes: [EtherType; 2]| {
        read.link.ethertype.is_none_or(|of| ethertypes.contains(&EtherType(of)))
    };
    if read.asks_for_ip() && !is_of([EtherType::IPV4, EtherType::IPV6]) {
        let remedy = "leave ethertype out, or what is IP's";
        r.problems.add(span.clone(), "an entry for IP packets of another EtherType", remedy);
    }
    if read.link.exp.is_some()
        && (read.asks_for_ip() || !is_of([EtherType::MPLS, EtherType::MPLS_UPSTREAM]))
    {
        let what = "an entry for labels that asks for something else, too";
        r.problems.add(span, what, "write EXP in an entry without ethertype and what is IP's");
    }
}

/// `02:00:00:00:00:01`, or `02:00:5e:00:00:00/24` for those that agree in 24 bits.
fn macs(r: &mut Reader<'_>, text: &raw::Text) -> Option<MacNet> {
    let (address, len) = text.get_ref().split_once('/').unwrap_or((text.get_ref(), "48"));
    let len = len.parse().ok().filter(|len| *len <= 48);
    match (address.parse(), len) {
        (Ok(address), Some(len)) => Some(MacNet { address, len }),
        _ => {
            let what = format!("`{}` names no MAC addresses", text.get_ref());
            let remedy = "write 02:00:00:00:00:01, or 02:00:5e:00:00:00/24";
            r.problems.add(text.span(), what, remedy);
            None
        }
    }
}

#[cfg(test)]
mod tests;
