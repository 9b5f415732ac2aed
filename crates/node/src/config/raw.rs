//! The configuration as it is written: what TOML keys exist, and nothing about
//! whether they make sense together. Every value remembers where it stands.

use serde::Deserialize;
use toml::Spanned;

pub(super) type Text = Spanned<String>;
pub(super) type Number = Spanned<i64>;
/// A word, a number, or a list of them.
pub(super) type Words = Spanned<toml::Value>;

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    pub node: Option<Spanned<Node>>,
    pub port: Vec<Spanned<Port>>,
    pub interface: Vec<Spanned<Interface>>,
    pub bridge: Vec<Spanned<Bridge>>,
    pub route: Vec<Spanned<Route>>,
    pub lsp: Vec<Spanned<Lsp>>,
    pub label: Vec<Spanned<Label>>,
    pub pseudowire: Vec<Spanned<Pseudowire>>,
    pub macsec: Vec<Spanned<Macsec>>,
    pub tunnel: Vec<Spanned<Tunnel>>,
    pub transport: Vec<Spanned<Tunnel>>,
    pub policy: Vec<Spanned<Policy>>,
    pub look_aside: Option<Spanned<LookAside>>,
    pub token: Option<Spanned<Token>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Node {
    pub name: Option<Text>,
    pub workers: Option<Number>,
    pub cores: Option<Spanned<Vec<i64>>>,
    pub buffers: Option<Number>,
    pub buffer_size: Option<Number>,
    pub state: Option<Text>,
    pub reserve: Option<Number>,
    pub control: Option<Text>,
    pub metrics: Option<Text>,
    pub user: Option<Text>,
    pub devices: Option<Vec<Text>>,
    pub monitors: Option<Text>,
    pub key_log: Option<bool>,
    pub log: Option<Text>,
    pub lab: Option<bool>,
    pub times: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Port {
    pub name: Text,
    pub driver: Option<Text>,
    pub device: Option<Text>,
    pub queue: Option<Number>,
    pub mode: Option<Text>,
    pub mac: Option<Text>,
    pub mtu: Option<Number>,
    pub worker: Option<Number>,
    pub host_address: Option<Vec<Text>>,
    pub host_route: Option<Vec<Text>>,
    pub offload: Option<bool>,
    pub every_worker: Option<bool>,
    pub read: Option<Text>,
    pub write: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Interface {
    pub name: Option<Text>,
    pub port: Text,
    pub vlan: Option<Number>,
    pub service_vlan: Option<Number>,
    pub untagged: Option<bool>,
    pub address: Option<Vec<Text>>,
    pub vrf: Option<Text>,
    pub mtu: Option<Number>,
    pub mpls: Option<bool>,
    pub clamp_mss: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Bridge {
    pub name: Text,
    pub member: Vec<Spanned<Member>>,
    pub ageing_seconds: Option<Number>,
    pub addresses: Option<Number>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Member {
    pub port: Text,
    pub vlan: Option<Number>,
    pub access: Option<Number>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Route {
    pub prefix: Text,
    pub vrf: Option<Text>,
    pub via: Option<Text>,
    pub interface: Option<Text>,
    pub labels: Option<Spanned<Vec<i64>>>,
    pub ttl: Option<Text>,
    pub discard: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Lsp {
    pub name: Text,
    pub via: Text,
    pub interface: Option<Text>,
    pub labels: Option<Spanned<Vec<i64>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Label {
    pub label: Number,
    pub swap: Option<Spanned<Vec<i64>>>,
    pub pop: Option<bool>,
    pub via: Option<Text>,
    pub interface: Option<Text>,
    pub vrf: Option<Text>,
    pub ttl: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Pseudowire {
    pub name: Text,
    pub port: Text,
    pub vlan: Option<Number>,
    pub lsp: Text,
    pub label_in: Number,
    pub label_out: Number,
    pub control_word: Option<bool>,
    pub sequencing: Option<bool>,
    pub mode: Option<Text>,
    pub tag: Option<Number>,
    pub ttl: Option<Number>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Macsec {
    pub port: Text,
    pub cipher: Option<Text>,
    pub sci: Option<Text>,
    pub send_sci: Option<bool>,
    pub end_station: Option<bool>,
    pub encrypt: Option<bool>,
    pub offset: Option<Number>,
    pub clear_tags: Option<Number>,
    pub replay: Option<Text>,
    pub window: Option<Number>,
    pub validate: Option<Text>,
    pub placement: Option<Text>,
    #[serde(default)]
    pub transmit: Vec<Spanned<MacsecSa>>,
    #[serde(default)]
    pub receive: Vec<Spanned<MacsecSa>>,
}

impl Macsec {
    /// Whether the SecTAG has the SCI, which the end-station bit can stand for.
    pub fn sends_sci(&self) -> bool {
        self.send_sci.unwrap_or(!self.end_station.unwrap_or(false))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct MacsecSa {
    pub sci: Option<Text>,
    pub an: Option<Number>,
    pub key: Text,
    pub rest: Option<Text>,
    pub ssci: Option<Number>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Tunnel {
    pub name: Text,
    pub local: Text,
    pub remote: Text,
    pub suite: Text,
    pub esn: Option<bool>,
    pub window: Option<Number>,
    pub mtu: Option<Number>,
    pub copy_df: Option<Spanned<bool>>,
    pub df: Option<Text>,
    pub dscp: Option<Number>,
    pub ecn: Option<Text>,
    pub ttl: Option<Spanned<WordOrNumber>>,
    pub vrf: Option<Text>,
    pub placement: Option<Text>,
    pub protocol: Option<Text>,
    pub encapsulation: Option<Text>,
    pub ports: Option<Spanned<Vec<i64>>>,
    pub keepalive_seconds: Option<Number>,
    pub learn_mtu: Option<Spanned<bool>>,
    pub fragment: Option<Text>,
    pub clamp_mss: Option<Spanned<bool>>,
    pub tfc: Option<Spanned<WordOrNumber>>,
    pub dummy: Option<Number>,
    pub then: Option<Text>,
    pub ah_align: Option<Number>,
    pub every_worker: Option<Spanned<bool>>,
    pub peer_window: Option<Number>,
    #[serde(rename = "in")]
    pub inbound: Spanned<Sa>,
    #[serde(default)]
    pub also_in: Vec<Spanned<Sa>>,
    #[serde(rename = "out")]
    pub outbound: Spanned<Sa>,
    #[serde(default)]
    pub also_out: Vec<Spanned<Sa>>,
}

impl Tunnel {
    /// Every SA to the other end.
    pub fn all_out(&self) -> impl Iterator<Item = &Spanned<Sa>> {
        std::iter::once(&self.outbound).chain(&self.also_out)
    }

    /// Every SA from the other end.
    pub fn all_in(&self) -> impl Iterator<Item = &Spanned<Sa>> {
        std::iter::once(&self.inbound).chain(&self.also_in)
    }
}

/// Where a word says what no number can.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum WordOrNumber {
    Number(i64),
    Word(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Sa {
    pub spi: Number,
    pub key: Text,
    pub rest: Option<Text>,
    pub worker: Option<Number>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Policy {
    pub interface: Text,
    pub action: Text,
    pub name: Option<Text>,
    pub tunnel: Option<Text>,
    pub transport: Option<Text>,
    pub local: Option<Words>,
    pub remote: Option<Words>,
    pub protocol: Option<Words>,
    pub local_ports: Option<Words>,
    pub remote_ports: Option<Words>,
    pub icmp: Option<Words>,
    pub mobility: Option<Words>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LookAside {
    pub core: Option<Number>,
    pub depth: Option<Number>,
    pub batch: Option<Number>,
    pub wait_us: Option<Number>,
    pub copies: Option<Number>,
    pub deadline_ms: Option<Number>,
    pub on_failure: Option<Text>,
    pub on_full: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Token {
    pub module: Option<Text>,
    pub token: Option<Text>,
    pub pin_file: Option<Text>,
    pub profile: Option<Text>,
    pub blocks: Option<Number>,
    pub reach: Option<Number>,
    pub behind: Option<Number>,
    pub on_gone: Option<Text>,
    pub keep_seconds: Option<Number>,
    #[serde(default)]
    pub delay: Vec<Delay>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Delay {
    pub octets: Number,
    pub milliseconds: Number,
}
