//! The configuration as it is written: what TOML keys exist, and nothing about
//! whether they make sense together. Every value remembers where it stands.
//!
//! Comments, ranges, words and defaults here are what `ferrule config schema` and
//! `ferrule config reference` print; a test holds them against the readers.

mod lists;
mod sa;

pub(super) use lists::{AccessList, AccessListEntry, Vrf};
pub(super) use sa::{LifeBound, Sa};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use std::borrow::Cow;
use std::ops::Range;

/// A value and where it stands in the file.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(super) struct Spanned<T>(toml::Spanned<T>);

impl<T> Spanned<T> {
    /// Octets of the file.
    pub fn span(&self) -> Range<usize> {
        self.0.span()
    }

    /// The value alone.
    pub fn get_ref(&self) -> &T {
        self.0.get_ref()
    }
}

/// As the value's own: places are not written.
impl<T: JsonSchema> JsonSchema for Spanned<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

pub(super) type Text = Spanned<String>;
pub(super) type Number = Spanned<i64>;
/// A word, a number, or a list of them.
pub(super) type Words = Spanned<Several>;

/// A word, a number, or a list of them.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Several(pub toml::Value);

impl JsonSchema for Several {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Several".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "anyOf": [
                { "type": ["string", "integer"] },
                { "type": "array", "items": { "type": ["string", "integer"] }, "minItems": 1 },
            ]
        })
    }
}

/// Configuration of a node.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    /// The node itself.
    pub node: Option<Spanned<Node>>,
    /// Ports: where frames come from and go to.
    pub port: Vec<Spanned<Port>>,
    /// Routed interfaces on ports.
    pub interface: Vec<Spanned<Interface>>,
    /// Learning bridges (802.1Q).
    pub bridge: Vec<Spanned<Bridge>>,
    /// Static routes.
    pub route: Vec<Spanned<Route>>,
    /// Label-switched paths that pseudowires use.
    pub lsp: Vec<Spanned<Lsp>>,
    /// Incoming MPLS labels, and what is done with each (RFC 3031 section 3.10).
    pub label: Vec<Spanned<Label>>,
    /// Ethernet pseudowires (RFC 4448).
    pub pseudowire: Vec<Spanned<Pseudowire>>,
    /// SecYs: MACsec (802.1AE) on a port.
    pub macsec: Vec<Spanned<Macsec>>,
    /// Pairs of SAs in tunnel mode (RFC 4301 section 4.1), between two gateways.
    pub tunnel: Vec<Spanned<Tunnel>>,
    /// Pairs of SAs in transport mode (RFC 4301 section 4.1), between two hosts. Same keys as
    /// `[[tunnel]]`, but for those about a new header.
    pub transport: Vec<Spanned<Tunnel>>,
    /// Security policy, in order (RFC 4301 section 4.4.1). What no entry of an interface matches is
    /// discarded.
    pub policy: Vec<Spanned<Policy>>,
    /// Access lists, which interfaces, members of bridges and pseudowires name as `acl-in` and
    /// `acl-out`.
    pub access_list: Vec<Spanned<AccessList>>,
    /// Access lists of all interfaces of a routing table.
    pub vrf: Vec<Spanned<Vrf>>,
    /// Engine for what has `placement = "look-aside"`.
    pub look_aside: Option<Spanned<LookAside>>,
    /// PKCS#11 token for what has `placement = "token"`.
    pub token: Option<Spanned<Token>>,
}

/// The node itself.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Node {
    /// Name of the node; its socket and counters are named after it.
    pub name: Option<Text>,
    /// Worker threads.
    #[schemars(range(min = 1, max = 64), extend("default" = 1))]
    pub workers: Option<Number>,
    /// Processor core of each worker, in place of `workers`: `[2, 3]`. Left out: wherever the
    /// scheduler likes.
    #[schemars(inner(range(min = 0)))]
    pub cores: Option<Spanned<Vec<i64>>>,
    /// Packet buffers, for all workers together.
    #[schemars(range(min = 64, max = 16777216), extend("default" = 8192))]
    pub buffers: Option<Number>,
    /// Octets of a packet buffer, a multiple of 64. 2048 is enough for an MTU of 1600 with all
    /// headers.
    #[schemars(range(min = 1024, max = 65472), extend("default" = 2048), extend("multipleOf" = 64))]
    pub buffer_size: Option<Number>,
    /// Folder for counters that must survive a restart, from the folder of this file. Needed with
    /// static keys.
    pub state: Option<Text>,
    /// Sequence numbers of a static key that are reserved on disk at a time: at most so many are
    /// skipped by a crash.
    #[schemars(range(min = *super::RESERVE.start(), max = *super::RESERVE.end()), extend("default" = *super::RESERVE.end()))]
    pub reserve: Option<Number>,
    /// Path of the management socket. Default: `/run/ferrule/NAME.sock`.
    pub control: Option<Text>,
    /// Address and port at which Prometheus reads metrics, and `/healthz` answers:
    /// `127.0.0.1:9100`.
    pub metrics: Option<Text>,
    /// User that the node becomes once its ports are open. Default: `ferrule`, where that user
    /// exists.
    pub user: Option<Text>,
    /// Devices for ports that `ferrule apply` may add later, beside those of the ports here.
    pub devices: Option<Vec<Text>>,
    /// Group whose members may `ferrule show`, and nothing else.
    pub monitors: Option<Text>,
    /// UDP ports of the node's own addresses in the global table whose datagrams are for keying
    /// programs (docs/howto/keying.md), past every policy, 64 at most: `[500, 4500]` are
    /// those of IKE.
    #[schemars(inner(range(min = 1, max = 65535)))]
    pub keying_ports: Option<Spanned<Vec<i64>>>,
    /// Allows `ferrule capture --keylog`, which hands out the keys of ESP tunnels.
    #[schemars(extend("default" = false))]
    pub key_log: Option<bool>,
    /// How events are written: lines to standard error, JSON lines there, fields to the journal of
    /// systemd, or not at all.
    #[schemars(extend("enum" = ["text", "json", "journal", "none"]), extend("default" = "text"))]
    pub log: Option<Text>,
    /// A laboratory node: may use what a standard forbids on a live network.
    #[schemars(extend("default" = false))]
    pub lab: Option<bool>,
    /// Workers add up where their time goes, for `ferrule show times`; costs some of it.
    #[schemars(extend("default" = false))]
    pub times: Option<bool>,
}

/// A port.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Port {
    /// Name of the port.
    pub name: Text,
    /// How frames reach the wire: an AF_XDP or AF_PACKET socket on a device, a TAP or TUN device of
    /// the host, capture files, or a virtual wire (tests and laboratory).
    #[schemars(extend("enum" = ["af-xdp", "af-packet", "tap", "tun", "pcap", "wire"]), extend("default" = "af-xdp"))]
    pub driver: Option<Text>,
    /// Device, as `ip link` shows it; 1 to 15 characters. Needed with `af-xdp`, `af-packet`, `tap`
    /// and `tun`.
    #[schemars(length(min = 1, max = 15))]
    pub device: Option<Text>,
    /// AF_XDP: hardware queue; the first of them with `every-worker`.
    #[schemars(range(min = 0, max = 1023), extend("default" = 0))]
    pub queue: Option<Number>,
    /// AF_XDP: program in the driver, in the stack, or what the device is best at.
    #[schemars(extend("enum" = ["auto", "native", "generic"]), extend("default" = "auto"))]
    pub mode: Option<Text>,
    /// MAC address, `02:00:00:00:00:01`. Default: that of the device, or one made from the names of
    /// node and port.
    pub mac: Option<Text>,
    /// Octets of the largest payload of a frame on the wire.
    #[schemars(range(min = 68, max = 9216), extend("default" = 1500))]
    pub mtu: Option<Number>,
    /// Worker that drives the port, from 0. Default: ports go to the workers in turn.
    #[schemars(range(min = 0, max = 63))]
    pub worker: Option<Number>,
    /// TAP and TUN: addresses of the host at the device, `10.8.0.2/24`. With any, the node makes
    /// the device.
    pub host_address: Option<Vec<Text>>,
    /// TAP and TUN: networks that the host reaches by the device, `10.0.2.0/24`.
    pub host_route: Option<Vec<Text>>,
    /// TAP and TUN: super-frames in both directions.
    #[schemars(extend("default" = true))]
    pub offload: Option<bool>,
    /// AF_XDP, TAP and TUN: each worker has a queue of its own, from `queue` on.
    #[schemars(extend("default" = false))]
    pub every_worker: Option<bool>,
    /// pcap: capture file that frames come from.
    pub read: Option<Text>,
    /// pcap: capture file that frames go to.
    pub write: Option<Text>,
}

/// A routed interface: a port, or a VLAN of one.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Interface {
    /// Name of the interface. Default: name of the port, with `.VLAN` where it has a tag.
    pub name: Option<Text>,
    /// Port that it stands on.
    pub port: Text,
    /// VLAN ID of its C-TAG (0x8100).
    #[schemars(range(min = 1, max = 4094))]
    pub vlan: Option<Number>,
    /// VLAN ID of its S-TAG (0x88a8), in place of `vlan`.
    #[schemars(range(min = 1, max = 4094))]
    pub service_vlan: Option<Number>,
    /// Untagged frames belong to it, and it sends without tag. Default: true where it has no tag.
    pub untagged: Option<bool>,
    /// Addresses with the prefix lengths of their networks, `192.0.2.1/24`.
    pub address: Option<Vec<Text>>,
    /// Routing table. Default: the global one.
    pub vrf: Option<Text>,
    /// Octets of the largest IP packet. Default: what the port carries.
    #[schemars(range(min = 68, max = 9216))]
    pub mtu: Option<Number>,
    /// Labelled packets are accepted.
    #[schemars(extend("default" = false))]
    pub mpls: Option<bool>,
    /// TCP's maximum segment size is lowered to what fits `mtu`.
    #[schemars(extend("default" = false))]
    pub clamp_mss: Option<bool>,
    /// Packets have to come from where their source is routed to (RFC 3704): by this interface, or
    /// by any route that does not discard. Default: not looked at.
    #[schemars(extend("enum" = ["strict", "loose"]))]
    pub source_validation: Option<Text>,
    /// Access list for IP packets that come in: before labels are put on, and for those to the node
    /// itself.
    pub acl_in: Option<Text>,
    /// Access list for IP packets that leave: after labels are off, before anything is sealed.
    pub acl_out: Option<Text>,
}

/// A learning bridge.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Bridge {
    /// Name of the bridge.
    pub name: Text,
    /// Ports of the bridge.
    pub member: Vec<Spanned<Member>>,
    /// Seconds for which an address that is silent is remembered.
    #[schemars(range(min = 10, max = 1000000), extend("default" = 300))]
    pub ageing_seconds: Option<Number>,
    /// Addresses that are learned at most.
    #[schemars(range(min = 16, max = 1048576), extend("default" = 8192))]
    pub addresses: Option<Number>,
}

/// A port of a bridge.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Member {
    /// Port.
    pub port: Text,
    /// Only this VLAN of the port, untagged inside the bridge.
    #[schemars(range(min = 1, max = 4094))]
    pub vlan: Option<Number>,
    /// VLAN that untagged frames of the port belong to inside the bridge.
    #[schemars(range(min = 1, max = 4094))]
    pub access: Option<Number>,
    /// Access list for frames that come in, with the VLAN that they have in the bridge.
    pub acl_in: Option<Text>,
    /// Access list for frames that leave, alike.
    pub acl_out: Option<Text>,
}

/// A static route: `via`, `interface` or `discard` says where to.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Route {
    /// Network, `10.2.0.0/16`; host bits are zero.
    pub prefix: Text,
    /// Routing table. Default: the global one.
    pub vrf: Option<Text>,
    /// Address of the next hop.
    pub via: Option<Text>,
    /// Interface that it leaves by. Default: the one whose network has the next hop.
    pub interface: Option<Text>,
    /// Labels to push, the outermost first: 16 to 1048575, or 0 and 2 for explicit null.
    pub labels: Option<Spanned<Vec<i64>>>,
    /// TTL of the pushed labels: copied (RFC 3443 section 3.1) or 255 (section 3.2).
    #[schemars(extend("enum" = ["uniform", "pipe"]), extend("default" = "uniform"))]
    pub ttl: Option<Text>,
    /// An entropy label goes below the outermost (RFC 6790); the path's end has to know of it.
    #[schemars(extend("default" = false))]
    pub entropy_label: Option<bool>,
    /// Ways of the same cost, in place of `via`, `interface` and `labels`: each flow takes one.
    pub paths: Option<Vec<Spanned<Path>>>,
    /// Packets are dropped.
    #[schemars(extend("default" = false))]
    pub discard: Option<bool>,
}

/// A label-switched path.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Lsp {
    /// Name of the path.
    pub name: Text,
    /// Address of the next hop.
    pub via: Option<Text>,
    /// Interface that it leaves by. Default: the one whose network has the next hop.
    pub interface: Option<Text>,
    /// Labels to push, the outermost first: 16 to 1048575, or 0 and 2 for explicit null.
    pub labels: Option<Spanned<Vec<i64>>>,
    /// An entropy label goes below the outermost (RFC 6790); the path's end has to know of it.
    #[schemars(extend("default" = false))]
    pub entropy_label: Option<bool>,
    /// Ways of the same cost, in place of `via`, `interface` and `labels`: each flow takes one.
    pub paths: Option<Vec<Spanned<Path>>>,
}

/// One of several ways of the same cost.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Path {
    /// Address of the next hop.
    pub via: Option<Text>,
    /// Interface that it leaves by. Default: the one whose network has the next hop.
    pub interface: Option<Text>,
    /// Labels to push, the outermost first: 16 to 1048575, or 0 and 2 for explicit null.
    pub labels: Option<Spanned<Vec<i64>>>,
}

/// One of several ways of the same cost for an incoming label.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LabelPath {
    /// Labels in its place, the outermost first.
    pub swap: Option<Spanned<Vec<i64>>>,
    /// Taken off (penultimate-hop popping).
    #[schemars(extend("default" = false))]
    pub pop: Option<bool>,
    /// Address of the next hop.
    pub via: Option<Text>,
    /// Interface that it leaves by. Default: the one whose network has the next hop.
    pub interface: Option<Text>,
}

/// An incoming label: `vrf`; or `via` with `pop` or `swap`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Label {
    /// Label: 16 to 1048575, or 0 and 2 for explicit null.
    #[schemars(range(min = 0, max = 1048575))]
    pub label: Number,
    /// Labels in its place, the outermost first.
    pub swap: Option<Spanned<Vec<i64>>>,
    /// Taken off (penultimate-hop popping).
    #[schemars(extend("default" = false))]
    pub pop: Option<bool>,
    /// Address of the next hop.
    pub via: Option<Text>,
    /// Interface that it leaves by. Default: the one whose network has the next hop.
    pub interface: Option<Text>,
    /// Ways of the same cost, in place of `via`, `interface`, `swap` and `pop`: each flow takes one.
    pub paths: Option<Vec<Spanned<LabelPath>>>,
    /// Taken off; the IP packet below it is routed in this table.
    pub vrf: Option<Text>,
    /// TTL across the label that is taken off.
    #[schemars(extend("enum" = ["uniform", "pipe"]), extend("default" = "uniform"))]
    pub ttl: Option<Text>,
}

/// An Ethernet pseudowire.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Pseudowire {
    /// Name of the pseudowire.
    pub name: Text,
    /// Port of its attachment circuit.
    pub port: Text,
    /// VLAN ID of its attachment circuit. Default: all frames of the port.
    #[schemars(range(min = 1, max = 4094))]
    pub vlan: Option<Number>,
    /// VLAN ID of an S-TAG (0x88a8) around that: frames with both (QinQ), or, without `vlan`, all that
    /// have it.
    #[schemars(range(min = 1, max = 4094))]
    pub service_vlan: Option<Number>,
    /// Path to the other provider edge, an `[[lsp]]`.
    pub lsp: Text,
    /// Label that arrives here, 16 to 1048575.
    #[schemars(range(min = 16, max = 1048575))]
    pub label_in: Number,
    /// Label that the other provider edge expects, 16 to 1048575.
    #[schemars(range(min = 16, max = 1048575))]
    pub label_out: Number,
    /// Control word in front of the frame (RFC 4385 section 3).
    #[schemars(extend("default" = true))]
    pub control_word: Option<bool>,
    /// Sequence numbers are sent and checked (RFC 4448 section 4.1).
    #[schemars(extend("default" = false))]
    pub sequencing: Option<bool>,
    /// Raw or tagged mode (RFC 4448 section 4.4).
    #[schemars(extend("enum" = ["raw", "tagged"]), extend("default" = "raw"))]
    pub mode: Option<Text>,
    /// Tagged mode: VLAN ID on the pseudowire. Default: `vlan`, or 1.
    #[schemars(range(min = 1, max = 4094))]
    pub tag: Option<Number>,
    /// TTL of its label.
    #[schemars(range(min = 1, max = 255), extend("default" = 255))]
    pub ttl: Option<Number>,
    /// Access list for frames that come in from the attachment circuit.
    pub acl_in: Option<Text>,
    /// Access list for frames that leave to the attachment circuit.
    pub acl_out: Option<Text>,
}

/// A SecY.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Macsec {
    /// Port that it stands on.
    pub port: Text,
    /// Cipher suite (802.1AE clause 14).
    #[schemars(extend("enum" = ["gcm-aes-128", "gcm-aes-256", "gcm-aes-xpn-128", "gcm-aes-xpn-256"]), extend("default" = "gcm-aes-128"))]
    pub cipher: Option<Text>,
    /// Own SCI, `02:00:00:00:00:01/1`: address and port number. Default: address of the port,
    /// number 1.
    pub sci: Option<Text>,
    /// SecTAG with SCI. Default: true, unless `end-station`.
    pub send_sci: Option<bool>,
    /// End-station bit in place of the SCI.
    #[schemars(extend("default" = false))]
    pub end_station: Option<bool>,
    /// Frames are encrypted; else integrity only. Of this and `offset` a key server of MKA
    /// asks for no more than all peers can do.
    #[schemars(extend("default" = true))]
    pub encrypt: Option<bool>,
    /// Octets at the front of the data that stay readable (confidentiality offset); 0 with XPN.
    #[schemars(extend("enum" = [0, 30, 50]), extend("default" = 0))]
    pub offset: Option<Number>,
    /// VLAN tags in the clear in front of the SecTAG.
    #[schemars(range(min = 0, max = 2), extend("default" = 0))]
    pub clear_tags: Option<Number>,
    /// Replay protection: none; as 802.1AE clause 10.6.2, where duplicates within the window pass;
    /// or no duplicate at all.
    #[schemars(extend("enum" = ["off", "standard", "strict"]), extend("default" = "strict"))]
    pub replay: Option<Text>,
    /// Replay window in frames.
    #[schemars(range(min = 0, max = 4096), extend("default" = 64))]
    pub window: Option<Number>,
    /// validateFrames (802.1AE clause 10.7.8): frames that are not valid are dropped; those that
    /// can be read pass, and are counted; or frames with integrity alone are not checked either.
    #[schemars(extend("enum" = ["strict", "check", "disabled"]), extend("default" = "strict"))]
    pub validate: Option<Text>,
    /// protectFrames (802.1AE clause 10.7.17): frames are protected; else they leave in the clear.
    #[schemars(extend("default" = true))]
    pub protect: Option<bool>,
    /// Protocols that pass in the clear, both ways: `lldp`, `lacp`, `ptp`, `eapol`, or an EtherType
    /// as `0x88cc`.
    #[serde(default)]
    pub uncontrolled: Vec<Text>,
    /// Where frames are protected and validated: in the worker, by the engine of `[look-aside]`, by
    /// a card in the port, or on the token of `[token]`.
    #[schemars(extend("enum" = ["software", "look-aside", "inline", "token"]), extend("default" = "software"))]
    pub placement: Option<Text>,
    /// Key agreement in place of static associations (MKA, 802.1X-2020 clause 9).
    pub mka: Option<Spanned<Mka>>,
    /// Own associations; the first is used.
    #[serde(default)]
    pub transmit: Vec<Spanned<MacsecSa>>,
    /// Associations of the peers.
    #[serde(default)]
    pub receive: Vec<Spanned<MacsecSa>>,
}

impl Macsec {
    /// True if the SecTAG carries the SCI; with the end-station bit it need not.
    pub fn sends_sci(&self) -> bool {
        self.send_sci.unwrap_or(!self.end_station.unwrap_or(false))
    }
}

/// Key agreement with the peers of a port.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Mka {
    /// Pre-shared CAKs; the last one that has live peers is used.
    pub cak: Vec<Cak>,
    /// Key server priority: the lowest serves, 255 never.
    #[schemars(range(min = 0, max = 255), extend("default" = 16))]
    pub priority: Option<Number>,
    /// Key server: seconds after which there is a new SAK. 0: when packet numbers run out.
    #[schemars(range(min = 0, max = 31_536_000), extend("default" = 0))]
    pub rekey: Option<Number>,
    /// Frames pass in the clear as long as there is no SAK.
    #[schemars(extend("default" = false))]
    pub should_secure: Option<bool>,
    /// Bounded delay: frames are refused that peers sent two seconds ago.
    #[schemars(extend("default" = false))]
    pub delay_protect: Option<bool>,
    /// Destination of MKPDUs; another one to cross a provider. Default: `01:80:c2:00:00:03`.
    pub destination: Option<Text>,
    /// EtherType of MKPDUs. Default: 0x888e.
    #[schemars(range(min = 0x600, max = 0xffff))]
    pub ethertype: Option<Number>,
}

/// A pre-shared CAK.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Cak {
    /// Its name, CKN: 1 to 32 octets in hexadecimal digits.
    pub ckn: Text,
    /// Key file with the CAK, 16 or 32 octets, from the folder of this file; or `credential:NAME`.
    pub key: Text,
}

/// A secure association with a static SAK.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct MacsecSa {
    /// SCI of the transmitter, `02:00:00:00:00:02/1`; needed in `receive`.
    pub sci: Option<Text>,
    /// Association number.
    #[schemars(range(min = 0, max = 3), extend("default" = 0))]
    pub an: Option<Number>,
    /// Key file with the SAK, from the folder of this file; or `credential:NAME`, `token:LABEL`.
    pub key: Text,
    /// Key file with the salt, where the SAK is on a token.
    pub rest: Option<Text>,
    /// Short SCI, with XPN cipher suites.
    #[schemars(range(min = 0, max = u32::MAX))]
    pub ssci: Option<Number>,
}

/// A pair of SAs with static keys. Both ends have the same values, `local` and `remote`, `in` and
/// `out` exchanged.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Tunnel {
    /// Name of the pair.
    pub name: Text,
    /// Address of this end.
    pub local: Text,
    /// Address of the other end.
    pub remote: Text,
    /// Algorithms of the pair (docs/suites.md): for AH a keyed hash or GMAC alone.
    #[schemars(extend("enum" = super::ipsec::suite_names()))]
    pub suite: Text,
    /// Extended (64-bit) sequence numbers (RFC 4303 section 2.2.1).
    #[schemars(extend("default" = true))]
    pub esn: Option<bool>,
    /// Replay window in packets: 32 or more; 0: none.
    #[schemars(range(min = 0, max = 131072), extend("default" = 1024))]
    pub window: Option<Number>,
    /// Octets of the largest clear packet. Default: what fits the path once sealed.
    #[schemars(range(min = 68, max = 65535))]
    pub mtu: Option<Number>,
    /// Tunnel mode: the outer header has the DF of the inner one. `df` says more.
    #[schemars(extend("default" = true))]
    pub copy_df: Option<Spanned<bool>>,
    /// Tunnel mode: DF of the outer header (RFC 4301 section 8.1).
    #[schemars(extend("enum" = ["copy", "set", "clear"]), extend("default" = "copy"))]
    pub df: Option<Text>,
    /// Tunnel mode: DSCP of the outer header. Default: that of the inner one.
    #[schemars(range(min = 0, max = 63))]
    pub dscp: Option<Number>,
    /// Tunnel mode: ECN in the manner of RFC 6040 section 4.1.
    #[schemars(extend("enum" = ["normal", "compatibility"]), extend("default" = "normal"))]
    pub ecn: Option<Text>,
    /// Tunnel mode: TTL or hop limit of the outer header, 1 to 255, or `"copy"`.
    #[schemars(extend("default" = 64))]
    pub ttl: Option<Spanned<WordOrNumber>>,
    /// Tunnel mode: routing table of the inner packets. Default: the global one.
    pub vrf: Option<Text>,
    /// Where packets are sealed and opened: in the worker, by the engine of `[look-aside]`, by a
    /// card in the port, or on the token of `[token]`.
    #[schemars(extend("enum" = ["software", "look-aside", "inline", "token"]), extend("default" = "software"))]
    pub placement: Option<Text>,
    /// ESP (RFC 4303) or AH (RFC 4302).
    #[schemars(extend("enum" = ["esp", "ah"]), extend("default" = "esp"))]
    pub protocol: Option<Text>,
    /// ESP in UDP (RFC 3948). Default: none.
    #[schemars(extend("enum" = ["udp"]))]
    pub encapsulation: Option<Text>,
    /// ESP in UDP: own port and that of the other end.
    #[schemars(extend("default" = [4500, 4500]), length(equal = 2), inner(range(min = 1, max = 65535)))]
    pub ports: Option<Spanned<Vec<i64>>>,
    /// ESP in UDP: seconds of silence after which a keepalive is sent; 0: none.
    #[schemars(range(min = 0, max = 3600), extend("default" = 20))]
    pub keepalive_seconds: Option<Number>,
    /// ESP in UDP, in tunnel mode: the other end is where its authentic packets come from, behind
    /// another address translation or somewhere else. `remote` is where it is at first.
    #[schemars(extend("default" = false))]
    pub follow: Option<Spanned<bool>>,
    /// Path MTUs are learned from ICMP errors about sealed packets.
    #[schemars(extend("default" = true))]
    pub learn_mtu: Option<Spanned<bool>>,
    /// Tunnel mode: packets that are too long and may be cut are cut after sealing, or before.
    #[schemars(extend("enum" = ["after", "before"]), extend("default" = "after"))]
    pub fragment: Option<Text>,
    /// TCP's maximum segment size is lowered to what fits `mtu`.
    #[schemars(extend("default" = false))]
    pub clamp_mss: Option<Spanned<bool>>,
    /// Padding against traffic analysis (RFC 4303 section 2.7): `"whole"`, to the `mtu`; a number
    /// of octets, to a multiple of it; or `"off"`.
    #[schemars(extend("default" = "off"))]
    pub tfc: Option<Spanned<WordOrNumber>>,
    /// Dummy packets in a second (RFC 4303 section 2.6).
    #[schemars(range(min = 0, max = 1000), extend("default" = 0))]
    pub dummy: Option<Number>,
    /// Name of the pair around this one: ESP in AH, for example.
    pub then: Option<Text>,
    /// AH over IPv4: padded to a multiple of 4 or 8 octets.
    #[schemars(extend("enum" = [4, 8]), extend("default" = 4))]
    pub ah_align: Option<Number>,
    /// Every worker seals with this one SA; needs `peer-window`.
    #[schemars(extend("default" = false))]
    pub every_worker: Option<Spanned<bool>>,
    /// Replay window of the other end in packets, with `every-worker`: at least 512 for each
    /// worker; 0: it has none.
    #[schemars(range(min = 0, max = u32::MAX))]
    pub peer_window: Option<Number>,
    /// Where SAs are from: the file, or a keying program by the management socket
    /// (docs/howto/keying.md).
    #[schemars(extend("enum" = ["file", "external"]), extend("default" = "file"))]
    pub keying: Option<Text>,
    /// SA from the other end.
    #[serde(rename = "in")]
    pub inbound: Option<Spanned<Sa>>,
    /// More SAs from the other end: during a change of keys, or one for each worker there.
    #[serde(default)]
    pub also_in: Vec<Spanned<Sa>>,
    /// SA to the other end.
    #[serde(rename = "out")]
    pub outbound: Option<Spanned<Sa>>,
    /// More SAs to the other end, each at a worker of its own (RFC 9611).
    #[serde(default)]
    pub also_out: Vec<Spanned<Sa>>,
}

impl Tunnel {
    /// Every SA to the other end.
    pub fn all_out(&self) -> impl Iterator<Item = &Spanned<Sa>> {
        self.outbound.iter().chain(&self.also_out)
    }

    /// Every SA from the other end.
    pub fn all_in(&self) -> impl Iterator<Item = &Spanned<Sa>> {
        self.inbound.iter().chain(&self.also_in)
    }
}

/// Number, or a word that says what no number can.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum WordOrNumber {
    Number(i64),
    Word(String),
}

/// An entry of the security policy. Of a selector that is left out, anything matches.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Policy {
    /// Interface that is the boundary.
    pub interface: Text,
    /// PROTECT, BYPASS or DISCARD.
    #[schemars(extend("enum" = ["protect", "bypass", "discard"]))]
    pub action: Text,
    /// Name of the entry in lists.
    pub name: Option<Text>,
    /// `protect`: by this `[[tunnel]]`.
    pub tunnel: Option<Text>,
    /// `protect`: by this `[[transport]]`.
    pub transport: Option<Text>,
    /// Addresses on this side: a network, an address, a range `192.0.2.1-192.0.2.9`, `"any"`, or a
    /// list of them.
    pub local: Option<Words>,
    /// Addresses on the other side, alike.
    pub remote: Option<Words>,
    /// IP protocol: a name (`"tcp"`), a number, `"any"`, `"opaque"`, or a list of them.
    pub protocol: Option<Words>,
    /// Ports on this side: a number, a range `"8000-8999"`, `"any"`, `"opaque"` (later fragments),
    /// or a list of them.
    pub local_ports: Option<Words>,
    /// Ports on the other side, alike.
    pub remote_ports: Option<Words>,
    /// ICMP type `8`, type and code `"3/4"`, types `"128-129"`, `"opaque"`, or a list of them.
    pub icmp: Option<Words>,
    /// Type of mobility header `5`, types `"1-4"`, `"opaque"`, or a list of them.
    pub mobility: Option<Words>,
}

/// The look-aside engine: threads that seal and open for the workers.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LookAside {
    /// Processor core of its threads. Default: wherever the scheduler likes.
    #[schemars(range(min = 0, max = 4095))]
    pub core: Option<Number>,
    /// Jobs under way at most, for each worker.
    #[schemars(range(min = 64, max = 4096), extend("default" = 1024))]
    pub depth: Option<Number>,
    /// Jobs that go together.
    #[schemars(range(min = 1, max = 64), extend("default" = 32))]
    pub batch: Option<Number>,
    /// Microseconds for which a batch waits to be full.
    #[schemars(range(min = 0, max = 1000000), extend("default" = 5))]
    pub wait_us: Option<Number>,
    /// Copies of each packet on its way there and back: none, or as over a bus.
    #[schemars(extend("enum" = [0, 2, 4]), extend("default" = 0))]
    pub copies: Option<Number>,
    /// Milliseconds after which the engine counts as hung.
    #[schemars(range(min = 1, max = 60000), extend("default" = 100))]
    pub deadline_ms: Option<Number>,
    /// Jobs of an engine that fails.
    #[schemars(extend("enum" = ["software", "drop"]), extend("default" = "software"))]
    pub on_failure: Option<Text>,
    /// Jobs beyond `depth`.
    #[schemars(extend("enum" = ["software", "drop"]), extend("default" = "drop"))]
    pub on_full: Option<Text>,
}

/// A PKCS#11 token with keys that never leave it; key stream is made ahead.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Token {
    /// PKCS#11 module, `/usr/lib/softhsm/libsofthsm2.so`. Needed outside of a laboratory.
    pub module: Option<Text>,
    /// Label of the token. Needed outside of a laboratory.
    pub token: Option<Text>,
    /// File with the PIN, mode 600. Needed outside of a laboratory.
    pub pin_file: Option<Text>,
    /// Timing: as the token is, or as slow as one of these.
    #[schemars(extend("enum" = super::TOKEN_PROFILES), extend("default" = "none"))]
    pub profile: Option<Text>,
    /// Blocks of 16 octets of key stream, for each direction.
    #[schemars(range(min = 512, max = 16777216), extend("default" = 16384))]
    pub blocks: Option<Number>,
    /// Packets ahead of the last authentic one that are made or waited for.
    #[schemars(range(min = 16, max = 65536), extend("default" = 4096))]
    pub reach: Option<Number>,
    /// Packets behind it that keep their key stream.
    #[schemars(range(min = 0, max = 4096), extend("default" = 64))]
    pub behind: Option<Number>,
    /// Packets without key stream: it is asked for, or they are dropped.
    #[schemars(extend("enum" = ["fetch", "drop"]), extend("default" = "fetch"))]
    pub on_gone: Option<Text>,
    /// Seconds of silence after which key stream is wiped; 0: never.
    #[schemars(range(min = 0, max = 86400), extend("default" = 600))]
    pub keep_seconds: Option<Number>,
    /// Laboratory: delay of packets by their size.
    #[serde(default)]
    pub delay: Vec<Delay>,
}

/// Delay of packets of at least so many octets.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Delay {
    /// Octets.
    #[schemars(range(min = 0, max = 65535))]
    pub octets: Number,
    /// Milliseconds.
    #[schemars(range(min = 0, max = 1000))]
    pub milliseconds: Number,
}
