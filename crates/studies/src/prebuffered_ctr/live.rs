//! What somebody with a token measured: the same engine behind a PKCS#11 module.

/// One size of table 1 on a real module behind a token profile.
#[derive(Clone, Copy, Debug)]
pub struct LiveRow {
    /// Octets of the IP packet.
    pub packet_bytes: usize,
    /// Packets a second while the ring lasts.
    pub before_pps: f64,
    /// Afterwards.
    pub after_pps: f64,
    /// Packet by packet.
    pub plain_pps: f64,
}

/// Measured on the machine at hand.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// What was measured, and what it is worth.
    pub note: String,
    /// Table 1.
    pub rows: Vec<LiveRow>,
    /// Packets opened after loss and reordering: right, wrong, dropped.
    pub order: Option<[u64; 3]>,
}

impl Live {
    /// Table 1 at a size.
    pub fn row(&self, packet_bytes: usize) -> Option<&LiveRow> {
        self.rows.iter().find(|row| row.packet_bytes == packet_bytes)
    }
}
