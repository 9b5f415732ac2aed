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
//!   acl-in = "customer"                 # and acl-out
//! ```

use super::Config;
use super::raw::{self, Spanned, Words};
use super::read::Reader;
use super::traffic::{Said, Traffic, Wrong, list};
use ferrule_dataplane::acl::{ENTRIES_MAX, Match, TcpFlags, Verdict};
use ferrule_wire::Protocol;

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
    /// What it is called in lists.
    pub name: Option<String>,
    /// Whose traffic: local is the source.
    pub traffic: Traffic,
    /// Code point of the traffic class.
    pub dscp: Option<u8>,
    /// TCP flags, any of these.
    pub tcp: Vec<TcpFlags>,
    /// Only later fragments.
    pub fragments: bool,
    /// What becomes of it.
    pub verdict: Verdict,
    /// Events say whose packets it had.
    pub logs: bool,
    /// Where it stands in the file, in octets.
    pub at: usize,
}

/// Combinations of a list that are compared with one another at most.
const COMPARED_MAX: usize = 4096;

impl AclConfig {
    /// Entries that no packet comes to, since earlier ones have all of their traffic: each
    /// with the first that has some of it. Nothing of a list of more than 4,096 combinations.
    pub fn shadowed(&self) -> Vec<(usize, usize)> {
        let each = self.entries.iter().enumerate();
        let all: Vec<(usize, Match)> =
            each.flat_map(|(at, entry)| entry.matches().map(move |m| (at, m))).collect();
        if all.len() > COMPARED_MAX {
            return Vec::new();
        }
        let over = |at: usize, m: &Match| {
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

impl AclEntryConfig {
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
    Some(AclEntryConfig {
        name: entry.name.as_ref().map(|name| name.get_ref().clone()),
        traffic,
        dscp,
        tcp,
        fragments,
        verdict: verdict?,
        logs: entry.log.unwrap_or(false),
        at: span.start,
    })
}

#[cfg(test)]
mod tests;
