//! Access lists as they are written, and the routing tables that have some.

use super::{Number, Spanned, Text, Words};
use schemars::JsonSchema;
use serde::Deserialize;

/// An access list: the first entry that matches permits or denies; what no entry matches is
/// denied.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(in crate::config) struct AccessList {
    /// Name of the list.
    pub name: Text,
    /// Entries, in order.
    #[serde(default)]
    pub entry: Vec<Spanned<AccessListEntry>>,
}

/// An entry of an access list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(in crate::config) struct AccessListEntry {
    /// Action on the packet.
    #[schemars(extend("enum" = ["permit", "deny"]))]
    pub action: Text,
    /// Name of the entry in `ferrule show acl`.
    pub name: Option<Text>,
    /// Source MAC address, `02:00:00:00:00:01`, or those that agree in their first bits,
    /// `02:00:5e:00:00:00/24`. For frames: lists with it are for bridges and pseudowires.
    pub mac_from: Option<Text>,
    /// Destination MAC address, alike.
    pub mac_to: Option<Text>,
    /// EtherType behind the VLAN tags, as `0x0806`. For frames.
    #[schemars(range(min = 1536, max = 65535))]
    pub ethertype: Option<Number>,
    /// VLAN ID of the outer tag, the circuit's own aside; 0: none or a priority alone. For frames.
    #[schemars(range(min = 0, max = 4094))]
    pub vlan: Option<Number>,
    /// Traffic class (EXP) of the outermost MPLS label. For frames.
    #[schemars(range(min = 0, max = 7))]
    pub exp: Option<Number>,
    /// Source addresses: a network, an address, a range `192.0.2.1-192.0.2.9`, `"any"`, or a list of
    /// them.
    pub from: Option<Words>,
    /// Destination addresses, alike.
    pub to: Option<Words>,
    /// IP protocol: a name (`"tcp"`), a number, `"any"`, or a list of them.
    pub protocol: Option<Words>,
    /// Source ports: a number, a range `"8000-8999"`, `"any"`, or a list of them.
    pub from_ports: Option<Words>,
    /// Destination ports, alike.
    pub to_ports: Option<Words>,
    /// ICMP type `8`, type and code `"3/4"`, types `"128-129"`, or a list of them.
    pub icmp: Option<Words>,
    /// TCP flags: `"syn"`, `"syn+!ack"`, or a list of such, of which one is enough.
    pub tcp_flags: Option<Words>,
    /// Differentiated services code point.
    #[schemars(range(min = 0, max = 63))]
    pub dscp: Option<Number>,
    /// Whose packets it had is an event (`acl`): one a second at most, with their number.
    #[schemars(extend("default" = false))]
    pub log: Option<bool>,
    /// Only later fragments, which show no ports.
    #[schemars(extend("default" = false))]
    pub fragments: Option<bool>,
}

/// A routing table. A table exists as soon as an interface, route or label names it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(in crate::config) struct Vrf {
    /// Name of the table. Default: the global one.
    pub name: Option<Text>,
    /// Access list for what comes in by its interfaces that name none.
    pub acl_in: Option<Text>,
    /// Access list for what leaves by its interfaces that name none.
    pub acl_out: Option<Text>,
}
