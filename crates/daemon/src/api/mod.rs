//! The management API: requests and replies as lines of JSON over a Unix
//! socket, which its owner and root alone may open.
//!
//! ```text
//!   client                         daemon
//!   {"show":{}}            ─────▶
//!                          ◀─────  {"report":{…}}
//!   {"trace":{"count":3}}  ─────▶
//!                          ◀─────  {"record":{…}}  …  {"end":{"lost":0}}
//! ```
//!
//! Every size has a bound, for all clients together: requests that are not yet
//! whole, replies that are not yet read, connections. Who is over it goes: the
//! client that holds most, or is silent longest. The node never waits for a
//! client: records that it does not take in time are counted as lost.
//!
//! Root and the node's own user may do everything; who else the socket lets in
//! (`monitors` in `[node]`) may look.

mod client;
mod registry;
mod server;

pub use client::{Client, socket_path};
pub use server::{Action, Peer, Server};

use crate::fault::{Fault, Finding};
use crate::report::Report;
use ferrule_base::Secret;
use ferrule_node::Delta;
use ferrule_node::config::Difference;
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Octets of one request at most, and of all that are not yet whole.
pub const REQUEST_MAX: usize = 12 << 20;
/// Octets of one reply at most: what a client reads.
pub const REPLY_MAX: usize = 64 << 20;
/// Octets that clients may leave unread, all together, before records are
/// dropped, and the client that has most unread; large replies come on top.
pub const UNREAD_MAX: usize = 2 << 20;
/// Clients at a time at most.
pub const CLIENTS_MAX: usize = 32;

/// Request of a client.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Everything that there is to see.
    Show {},
    /// Put this configuration in force.
    Apply {
        /// The file's name.
        file: String,
        /// Its text.
        text: String,
        /// The texts of the key files that it names.
        keys: BTreeMap<String, String>,
        /// Make the counters that are not there: their keys were never used.
        #[serde(default)]
        new_keys: bool,
    },
    /// The changes that this configuration would make; it makes none.
    Compare {
        /// The file's name.
        file: String,
        /// Its text.
        text: String,
        /// The texts of the key files that it names.
        keys: BTreeMap<String, String>,
        /// Counters that are not there would be made.
        #[serde(default)]
        new_keys: bool,
    },
    /// Trace the next packets.
    Trace(Recording),
    /// The frames on the wire.
    Capture {
        /// Port, number and length of the frames to capture.
        recording: Recording,
        /// Send the keys of ESP tunnels first.
        key_log: bool,
    },
    /// End this client's trace, capture or notices now, with the last word.
    Enough {},
    /// Add, use, move or drop an SA of a tunnel with `keying = "external"`.
    Sa(SaRequest),
    /// Change addresses, routes and labels beside the configuration: all of these, in their order,
    /// or none. Answered when they are in force.
    Dynamic(Vec<Delta>),
    /// Tell what keying programs need to know, until the client goes.
    Notices {},
    /// Send a datagram from a port of `keying-ports`, past every policy.
    Datagram {
        /// Address of the node, and port.
        local: SocketAddr,
        /// Address and port of the other host.
        remote: SocketAddr,
        /// Octets, in hexadecimal digits.
        payload: String,
    },
    /// Reset the card of a port.
    ResetCard {
        /// The port's name.
        port: String,
    },
    /// Stop the node.
    Stop {},
}

impl Request {
    /// Its name, as in its JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Show {} => "show",
            Self::Apply { .. } => "apply",
            Self::Compare { .. } => "compare",
            Self::Trace(_) => "trace",
            Self::Capture { key_log: true, .. } => "capture with keys",
            Self::Capture { .. } => "capture",
            Self::Enough {} => "enough",
            Self::Sa(request) => request.verb.name(),
            Self::Dynamic(_) => "dynamic",
            Self::Notices {} => "notices",
            Self::Datagram { .. } => "datagram",
            Self::ResetCard { .. } => "reset-card",
            Self::Stop {} => "stop",
        }
    }
}

/// Request of a keying program about an SA.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SaRequest {
    /// Its tunnel, in the configuration.
    pub tunnel: String,
    /// Its direction.
    pub way: Way,
    /// Its SPI.
    pub spi: u32,
    /// The order.
    #[serde(flatten)]
    pub verb: SaVerb,
}

/// Direction of an SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// From the other end.
    In,
    /// To the other end.
    Out,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::In => "in",
            Self::Out => "out",
        })
    }
}

/// Order about an SA.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SaVerb {
    /// Open packets by it; an outbound one seals nothing before it is used.
    Add {
        /// Text of a key file of the tunnel's suite.
        key: SecretText,
        /// The worker that has it.
        #[serde(default)]
        worker: usize,
        /// Bounds at which a notice is given.
        #[serde(default)]
        soft: SaBound,
        /// Bounds at which it ends.
        #[serde(default)]
        hard: SaBound,
    },
    /// Seal by it what a worker, or all, have for its tunnel.
    Use {
        /// The worker; nothing: all.
        #[serde(default)]
        worker: Option<usize>,
    },
    /// Give it other ends.
    Move {
        /// This end, an address of the node.
        local: IpAddr,
        /// The other end.
        remote: IpAddr,
        /// In UDP: the port on this side, and that on the other side.
        #[serde(default)]
        ports: Option<(u16, u16)>,
    },
    /// Let go of it.
    Drop {},
}

impl SaVerb {
    /// Its name, for events.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Add { .. } => "sa add",
            Self::Use { .. } => "sa use",
            Self::Move { .. } => "sa move",
            Self::Drop {} => "sa drop",
        }
    }
}

/// Text that is wiped when it is done with.
pub struct SecretText(pub Secret);

impl Serialize for SecretText {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let text = std::str::from_utf8(self.0.expose()).map_err(ser::Error::custom)?;
        to.serialize_str(text)
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(|text| Self(Secret::new(text.into_bytes())))
    }
}

impl fmt::Debug for SaVerb {
    /// The name alone: there may be a key in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Bounds of the life of an SA; one that is left out is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct SaBound {
    /// Packets.
    pub packets: Option<u64>,
    /// Octets.
    pub octets: Option<u64>,
    /// Seconds since it was added.
    pub seconds: Option<u64>,
}

/// Notice to a keying program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Notice {
    /// Packets for a tunnel have no SA. The first is kept for half a minute.
    Acquire {
        /// The tunnel.
        tunnel: String,
        /// The first octets of its packet, 64 at most, in hexadecimal digits.
        header: String,
    },
    /// A soft lifetime is over.
    Expires {
        /// The tunnel.
        tunnel: String,
        /// `in` or `out`.
        way: String,
        /// The SPI.
        spi: u32,
        /// `packets`, `octets` or `time`.
        cause: String,
    },
    /// A hard lifetime is over: the SA carries nothing any more.
    Expired {
        /// The tunnel.
        tunnel: String,
        /// `in` or `out`.
        way: String,
        /// The SPI.
        spi: u32,
        /// `packets`, `octets` or `time`.
        cause: String,
    },
    /// The other end of a tunnel with `follow = true` is somewhere else.
    PeerMoved {
        /// The tunnel.
        tunnel: String,
        /// Its address and port.
        address: SocketAddr,
    },
    /// An SA went because another configuration has not its tunnel, or another.
    Gone {
        /// The tunnel.
        tunnel: String,
        /// `in` or `out`.
        way: String,
        /// The SPI.
        spi: u32,
    },
    /// A datagram came at a port of `keying-ports`.
    Datagram {
        /// Address and port of this node.
        local: SocketAddr,
        /// Address and port of the other host.
        remote: SocketAddr,
        /// Octets, in hexadecimal digits.
        payload: String,
    },
    /// Notices for which there was no room.
    Lost {
        /// Their number.
        count: u64,
    },
}

/// Options of a trace or capture.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Recording {
    /// Only this port.
    pub port: Option<String>,
    /// Packets, then it ends; nothing: until the client goes.
    pub count: Option<u64>,
    /// Octets of each packet.
    pub snap: usize,
}

/// Reply of the daemon.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// To `show`.
    Report(Box<Report>),
    /// To `apply`: what changed.
    Applied {
        /// Ports that are new.
        opened: Vec<String>,
        /// Ports that are gone.
        closed: Vec<String>,
    },
    /// To `compare`: the configuration would be accepted.
    Differences {
        /// Its changes, by section.
        differences: Vec<Difference>,
    },
    /// The request was not carried out, and why; the node is as it was.
    Refused {
        /// Lines for people.
        text: String,
        /// The exit code that fits.
        exit: u8,
        /// The findings for machines.
        #[serde(default)]
        findings: Vec<Finding>,
    },
    /// To a capture: the ports, whose place in the list records name, and the
    /// key log if it was asked for.
    Ports {
        /// Names.
        names: Vec<String>,
        /// Lines of a key log.
        key_log: Vec<String>,
    },
    /// A packet at one point of its way.
    Record(Seen),
    /// A recording, or notices, are over.
    End {
        /// Records or notices for which there was no room.
        lost: u64,
    },
    /// A notice, after `notices`.
    Notice(Notice),
    /// To requests without another answer: it was done.
    Done {},
    /// To `stop`: the node is going down.
    Stopping {},
}

impl Reply {
    /// True if no request waits for it. Such is left out where a client reads too slowly.
    pub(crate) const fn is_unasked(&self) -> bool {
        matches!(self, Self::Record(_) | Self::Notice(_))
    }

    /// A request that was not carried out.
    pub fn refused(fault: &Fault) -> Self {
        let findings = fault.findings().to_vec();
        Self::Refused { text: fault.to_string(), exit: fault.exit_code(), findings }
    }
}

/// A packet at one point of its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Nanoseconds since 1970.
    pub time: u64,
    /// The worker.
    pub worker: u8,
    /// `received`, `dropped` or the name of a stage.
    pub point: String,
    /// Reason for the drop.
    pub reason: Option<String>,
    /// The name of the port.
    pub port: String,
    /// Packets of one turn with one number are one packet.
    pub id: u64,
    /// Its length.
    pub len: usize,
    /// Its octets in hexadecimal digits, as many as were asked for.
    pub data: String,
}

impl Seen {
    /// Its octets.
    pub fn octets(&self) -> Vec<u8> {
        let digit = |b: u8| char::from(b).to_digit(16).unwrap_or(0) as u8;
        self.data.as_bytes().chunks_exact(2).map(|p| digit(p[0]) << 4 | digit(p[1])).collect()
    }
}
