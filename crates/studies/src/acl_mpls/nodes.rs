//! The study's networks, as configurations of Ferrule's nodes.
//!
//! ```text
//!   IP      site 1 ── router ── site 2
//!   MPLS    site 1 ── PE1 ══ label ══ PE2 ── site 2      one VRF, labels of the VPN
//! ```

use super::published::Study;
use ferrule_base::MacAddr;
use ferrule_lab::topology::LabKeys;
use ferrule_node::Config;
use ferrule_node::config::Written;
use std::fmt::Write;
use std::net::Ipv4Addr;

/// Position of the access list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum List {
    /// Nowhere.
    None,
    /// Inbound, where the customer's frames enter.
    In,
    /// Outbound, where the frames leave.
    Out,
}

impl List {
    /// Every position, in the order of the limits.
    pub const ALL: [Self; 3] = [Self::None, Self::In, Self::Out];
}

/// The network between the customer's sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Core {
    /// A router.
    Ip,
    /// Two provider edges and a label.
    Mpls,
}

/// A system of the study's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct System {
    /// The network between the sites.
    pub core: Core,
    /// The position of the list.
    pub list: List,
    /// Both sites send.
    pub both_ways: bool,
}

const fn system(core: Core, list: List, both_ways: bool) -> System {
    System { core, list, both_ways }
}

impl System {
    /// Every system, in the order of the tables.
    pub const ALL: [Self; 7] = [
        system(Core::Ip, List::None, false),
        system(Core::Ip, List::None, true),
        system(Core::Ip, List::In, false),
        system(Core::Ip, List::Out, false),
        system(Core::Mpls, List::None, false),
        system(Core::Mpls, List::Out, false),
        system(Core::Mpls, List::In, false),
    ];

    /// As the study's file calls it.
    pub const fn key(self) -> &'static str {
        match (self.core, self.list, self.both_ways) {
            (Core::Ip, List::None, false) => "ip, no acl, one way",
            (Core::Ip, List::None, true) => "ip, no acl, both ways",
            (Core::Ip, List::In, _) => "ip, 120 acl inbound",
            (Core::Ip, List::Out, _) => "ip, 120 acl outbound",
            (Core::Mpls, List::None, _) => "mpls, no acl",
            (Core::Mpls, List::Out, _) => "mpls, 120 acl outbound",
            (Core::Mpls, List::In, _) => "mpls, 120 acl inbound",
        }
    }

    /// Index of the node that has the list: the first one, or PE2 for a list out over MPLS.
    pub const fn listed(self) -> usize {
        matches!((self.core, self.list), (Core::Mpls, List::Out)) as usize
    }

    /// The same system without its list.
    pub const fn unlisted(self) -> Self {
        Self { list: List::None, ..self }
    }
}

/// The entries of a list that concern the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entries {
    /// An entry for each stream: the first are denied, this many at the end permitted, and the
    /// entries between them match no stream. The study's list permits one.
    Permit(u64),
    /// One entry permits all streams, at this place counted from 1; the others match no stream.
    All(usize),
    /// No entry matches a stream.
    Nobody,
}

/// The study's list: its last entry permits one stream.
pub const PRINTED: Entries = Entries::Permit(1);

/// Octets of a label.
pub const LABEL: usize = 4;
/// The first address of a site's hosts, to which streams go.
const HOSTS: u8 = 10;

/// The sites' ports of the nodes, and the sites' hosts.
pub const LAN_MAC: [MacAddr; 2] = [MacAddr([2, 15, 227, 1, 1, 1]), MacAddr([2, 15, 227, 2, 1, 1])];
/// See [`LAN_MAC`].
pub const END_MAC: [MacAddr; 2] = [MacAddr([2, 15, 227, 1, 2, 1]), MacAddr([2, 15, 227, 2, 2, 1])];

/// A host of a site.
pub fn host(side: usize, stream: u64) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, side as u8 + 1, HOSTS + stream as u8)
}

fn list(study: &Study, entries: Entries) -> String {
    let (streams, count) = (study.setup.streams, study.setup.acl_entries);
    let entry = |place: usize| {
        let nobody = ("deny", format!("10.9.9.{place}"));
        match entries {
            Entries::Permit(permitted) => {
                let (before, after) = (place as u64 - 1, (count - place) as u64);
                match (before < streams - permitted, after < permitted) {
                    (true, _) => ("deny", host(1, before).to_string()),
                    (_, true) => ("permit", host(1, streams - 1 - after).to_string()),
                    _ => nobody,
                }
            }
            Entries::All(here) if here == place => ("permit", "10.0.2.0/24".to_owned()),
            Entries::All(_) | Entries::Nobody => nobody,
        }
    };
    let mut text = String::from("[[access-list]]\nname = \"study\"\nentry = [\n");
    for (action, to) in (1..=count).map(entry) {
        let _ = writeln!(text, "{{ action = \"{action}\", to = \"{to}\" }},");
    }
    text + "]\n"
}

fn config(name: &str, text: &str) -> Config {
    let problem = |problems: Vec<_>| -> Config { panic!("{name}: {problems:#?}\n{text}") };
    let written = match Written::parse(text) {
        Ok(written) => written,
        Err(problems) => return problem(problems),
    };
    Config::of_lab(name, &written, &mut LabKeys::default()).unwrap_or_else(problem)
}

/// A site's port and interface.
fn site(side: usize, more: &str) -> String {
    let number = side + 1;
    format!(
        "[[port]]\nname = \"site{number}\"\nmac = \"{}\"\n\
         [[interface]]\nport = \"site{number}\"\naddress = [\"10.0.{number}.1/24\"]\n{more}",
        LAN_MAC[side]
    )
}

fn router(system: System) -> String {
    let (acl_in, acl_out) = match system.list {
        List::None => ("", ""),
        List::In => ("acl-in = \"study\"\n", ""),
        List::Out => ("", "acl-out = \"study\"\n"),
    };
    site(0, acl_in) + &site(1, acl_out)
}

/// A provider edge; what comes first at it is its first port.
fn edge(system: System, side: usize) -> String {
    let acl = match (system.list, side) {
        (List::In, 0) => "acl-in = \"study\"\n",
        (List::Out, 1) => "acl-out = \"study\"\n",
        _ => "",
    };
    let (own, far) = (side + 1, 2 - side);
    let core = format!(
        "[[port]]\nname = \"core\"\nmtu = 1600\n[[interface]]\nport = \"core\"\nmpls = true\n\
         address = [\"192.0.2.{own}/24\"]\n[[route]]\nprefix = \"10.0.{far}.0/24\"\nvrf = \"vpn1\"\n\
         via = \"192.0.2.{far}\"\nlabels = [{}]\n[[label]]\nlabel = {}\nvrf = \"vpn1\"\n",
        17_000 + far,
        17_000 + own
    );
    let site = site(side, &format!("vrf = \"vpn1\"\n{acl}"));
    if side == 0 { site + &core } else { core + &site }
}

/// A system's nodes from site 1 to site 2, by name.
pub fn nodes(system: System, entries: Entries, study: &Study) -> Vec<Config> {
    let texts = match system.core {
        Core::Ip => vec![("router", router(system))],
        Core::Mpls => vec![("pe1", edge(system, 0)), ("pe2", edge(system, 1))],
    };
    let listed = system.listed();
    let each = texts.into_iter().enumerate().map(|(at, (name, text))| {
        let has_list = at == listed && system.list != List::None;
        config(name, &if has_list { text + &list(study, entries) } else { text })
    });
    each.collect()
}
