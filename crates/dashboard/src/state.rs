//! Everything that there is to see: `ferrule-state/1`, for a live node and for a
//! laboratory alike.
//!
//! Counters only grow while the thing that they count is the same one; the page
//! makes rates of the differences between two states, by [`State::now_ns`], so in
//! a laboratory rates are those of virtual time. What is not measured is not
//! there: an absent value is `null`, never 0. Keys have no place in here.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema's name and version: it changes when a reader would have to.
pub const SCHEMA: &str = "ferrule-state/1";

/// A node or a laboratory at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// [`SCHEMA`].
    pub schema: String,
    /// Live node or laboratory.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// One sentence about it.
    pub about: String,
    /// Nanoseconds since its start: virtual ones in a laboratory.
    pub now_ns: u64,
    /// A laboratory's run.
    pub run: Option<Run>,
    /// Commands that it takes, by name.
    pub commands: Vec<String>,
    /// Nodes and what stands around them.
    pub nodes: Vec<Node>,
    /// Links between them.
    pub links: Vec<Link>,
    /// Security associations.
    pub sas: Vec<Sa>,
    /// Drops by place and reason.
    pub drops: Vec<Dropped>,
    /// Distributions, in classes.
    pub histograms: Vec<Histogram>,
    /// Traffic between hosts.
    pub flows: Vec<Flow>,
    /// Recent events, oldest first.
    pub events: Vec<Event>,
}

/// Kind of source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A node on real interfaces.
    Live,
    /// A network in virtual time.
    Lab,
}

/// State of a laboratory's run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// State of virtual time.
    pub phase: Phase,
    /// Virtual seconds in a real one, as asked for; nothing: as fast as can be.
    pub speed: Option<f64>,
    /// Virtual seconds in a real one, as they passed lately.
    pub pace: f64,
    /// End of the run.
    pub until_ns: Option<u64>,
    /// The seed.
    pub seed: u64,
    /// Events so far.
    pub events: u64,
    /// When the next event is due.
    pub next_ns: Option<u64>,
    /// Promises that were not kept: a packet unaccounted for, a nonce used twice,
    /// clear text outside. A sentence each; nothing is as it should be.
    pub broken: Vec<String>,
}

/// States of virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Time passes.
    Running,
    /// Time was stopped.
    Paused,
    /// The run is over.
    Ended,
}

/// Something that links end at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Its name, of which there is one.
    pub name: String,
    /// Kind of node.
    pub kind: NodeKind,
    /// A few words: a profile, a role.
    pub about: String,
    /// True if the node is running.
    pub up: bool,
    /// Addresses and the like, a line each.
    pub facts: Vec<String>,
    /// Its ports.
    pub ports: Vec<Port>,
    /// Account of its packets.
    pub ledger: Option<Ledger>,
    /// Frames that wait in front of it.
    pub queued: Option<u64>,
}

/// Kinds of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// A Ferrule node.
    Node,
    /// A host.
    Host,
    /// A tester's port.
    Tester,
    /// Network behind a port of a live node, known only by the frames that come from there.
    Network,
    /// The other end of a tunnel, known by its address.
    Peer,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Driver and device, or the other end that it is attached to.
    pub about: String,
    /// Its address.
    pub mac: String,
    /// Largest packet.
    pub mtu: Option<u64>,
    /// Frames can pass.
    pub up: bool,
    /// Received.
    pub rx: Count,
    /// Sent.
    pub tx: Count,
    /// Frames that the port could not take.
    pub missed: u64,
    /// Frames that the wire refused.
    pub failed: u64,
}

/// Packets and their octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Frames, without FCS.
    pub packets: u64,
    /// Their octets.
    pub octets: u64,
}

/// `received + made = sent + consumed + dropped + held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Ledger {
    pub received: u64,
    pub made: u64,
    pub sent: u64,
    pub consumed: u64,
    pub dropped: u64,
    pub held: u64,
}

/// A link, or a tunnel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Its name, of which there is one.
    pub name: String,
    /// Kind of link.
    pub kind: LinkKind,
    /// Its two ends.
    pub ends: [End; 2],
    /// Frames can pass.
    pub up: bool,
    /// No clear text may show on it.
    pub outside: bool,
    /// Bits per second; nothing: not limited, or not known.
    pub rate_bps: Option<u64>,
    /// Propagation; nothing: not known.
    pub delay_ns: Option<u64>,
    /// The share of frames that it loses; nothing: not known.
    pub loss: Option<f64>,
    /// From the first end to the second, and back.
    pub ways: [Way; 2],
}

/// Kinds of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// A wire.
    Wire,
    /// A tunnel: its packets are on wires, too.
    Tunnel,
}

/// End of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The node.
    pub node: String,
    /// The port.
    pub port: String,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Frames that came through.
    pub packets: u64,
    /// Their octets, without FCS.
    pub octets: u64,
    /// Frames lost on it, for whatever reason: impairment, full queue, link down.
    pub lost: u64,
    /// Frames that wait in front of it.
    pub queued: u64,
}

/// A security association.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sa {
    /// Name of its node.
    pub node: String,
    /// `esp` or `macsec`.
    pub protocol: String,
    /// The tunnel, or the port.
    pub name: String,
    /// `out` or `in`.
    pub way: String,
    /// SPI, or SCI and AN.
    pub id: String,
    /// The suite.
    pub suite: String,
    /// Out: the next number. In: the highest one seen.
    pub number: u64,
    /// The last number there is; then only a new key helps.
    pub limit: u64,
    /// Packets behind the newest that may still come; nothing for an outbound one,
    /// and where replay is not checked.
    pub window: Option<u64>,
    /// Packets sealed or opened.
    pub packets: u64,
    /// Octets of what was inside; nothing where that is not counted.
    pub octets: Option<u64>,
    /// Failures by kind, without those that are zero.
    pub faults: BTreeMap<String, u64>,
}

/// Drops of a node for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// Place of the drops: a node, or a link.
    pub place: String,
    /// The reason.
    pub reason: String,
    /// One sentence about it.
    pub about: String,
    /// Number of packets.
    pub packets: u64,
}

/// Values in classes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// The measured quantity.
    pub name: String,
    /// Object that was measured.
    pub of: String,
    /// `octets`, `frames` or `ns`.
    pub unit: String,
    /// The largest value of each class; nothing for a last one without end.
    pub bounds: Vec<Option<u64>>,
    /// Values in each class.
    pub counts: Vec<u64>,
}

/// Traffic from one host to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Its name, of which there is one.
    pub name: String,
    /// `ping`, `udp`, `tcp` or `http`.
    pub kind: String,
    /// From this host.
    pub from: String,
    /// To this one.
    pub to: String,
    /// Unit of `sent` and `received`: packets, octets, transfers.
    pub unit: String,
    /// Sent.
    pub sent: u64,
    /// Arrived, whole, without copies.
    pub received: u64,
    /// Further counters, by name.
    pub more: BTreeMap<String, u64>,
    /// The mean of what was timed, in nanoseconds.
    pub time_ns: Option<u64>,
    /// Meaning of that time: a round trip, one way, a transfer.
    pub timed: String,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Counts up, so that a reader can tell what it has seen.
    pub number: u64,
    /// Time of the event; nothing: not known.
    pub at_ns: Option<u64>,
    /// The event, in a sentence.
    pub text: String,
}
