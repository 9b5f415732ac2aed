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
use ferrule_node::config::Difference;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// End this client's trace or capture now, with its last word.
    Enough {},
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
            Self::ResetCard { .. } => "reset-card",
            Self::Stop {} => "stop",
        }
    }
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
    /// A recording is over.
    End {
        /// Records for which there was no room.
        lost: u64,
    },
    /// To requests without another answer: it was done.
    Done {},
    /// To `stop`: the node is going down.
    Stopping {},
}

impl Reply {
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
