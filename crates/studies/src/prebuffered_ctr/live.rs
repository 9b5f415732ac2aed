//! Live measurements: the same engine behind a PKCS#11 module, in real time, and the same nodes on
//! veth pairs.

use super::closed::Drained;
use super::model::{Row, Sized};
use super::order::Disturbed;
use super::voip::{Call, Span};
use serde::{Deserialize, Serialize};

/// A call that somebody waits for.
pub const CALL: Span = Span { seconds: 40, settling: 4 };
/// Span of a call in a quick run.
pub const CALL_QUICK: Span = Span { seconds: 16, settling: 2 };
/// Packets of each case of loss and reordering.
pub const PACKETS: usize = 3000;
/// Packets of each case in a quick run.
pub const PACKETS_QUICK: usize = 600;
/// Size of the buffers in a quick run, as a share of the printed ones.
pub const SHARE_QUICK: f64 = 0.1;

/// Trials of a call beside large packets, without the study's delays and with them.
pub const CROWDED: [&str; 2] =
    ["a call beside large packets", "a call beside large packets, delayed by size"];

/// Measured on the machine at hand, in the engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Of the printed buffers; their times are the same share of the printed ones.
    pub share: f64,
    /// Table 1, behind a network as fast as the study's.
    pub rows: Vec<Row>,
    /// Packets a second with key stream made ahead and no network, by size.
    pub unlimited_pps: Vec<f64>,
    /// Section 4.1.1.
    pub calls: Vec<Call>,
    /// Blocks a second that the token makes for one of two directions.
    pub filled_per_second: f64,
    /// Figure 8.
    pub drained: Drained,
    /// Figure 9.
    pub shaped: Drained,
    /// Figure 11.
    pub sizes: Vec<Sized>,
    /// Loss and reordering.
    pub order: Vec<Disturbed>,
}

/// One load between two nodes, end to end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trial {
    /// The traffic, in words.
    pub what: String,
    /// Octets of the IP packet.
    pub packet_bytes: usize,
    /// Packets a second that were offered, all directions together.
    pub offered_pps: f64,
    /// Packets that were offered.
    pub offered: u64,
    /// Packets that arrived, each with the octets that it was sent with.
    pub received: u64,
    /// Packets that arrived with other octets.
    pub corrupted: u64,
    /// Packets a second that arrived.
    pub received_pps: f64,
    /// Of what was offered, within the study's 100 ms.
    pub in_time: f64,
    /// Mean delay.
    pub mean_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

/// Measured on the machine at hand.
#[derive(Clone, Debug)]
pub struct Live {
    /// How the measurements were made, and how far they can be trusted.
    pub note: String,
    /// The engine.
    pub measured: Measured,
    /// Phone and gateway as nodes, or why they were not measured.
    pub nodes: Result<Vec<Trial>, String>,
}

impl Measured {
    /// Table 1 at a size.
    pub fn row(&self, packet_bytes: usize) -> Option<&Row> {
        self.rows.iter().find(|row| row.packet_bytes == packet_bytes)
    }

    /// A buffer of figure 11.
    pub fn size(&self, row: usize) -> Option<&Sized> {
        self.sizes.get(row)
    }

    /// True if the buffers had the printed sizes.
    pub fn is_whole(&self) -> bool {
        self.share >= 1.0
    }
}
