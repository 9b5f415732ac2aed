//! Counts of packets, octets and work done, and the ledger that must balance.

/// Packets and octets of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Frames or packets.
    pub packets: u64,
    /// Their octets, without FCS.
    pub octets: u64,
}

impl Flow {
    /// Adds one packet of `octets`.
    #[inline]
    pub const fn add(&mut self, octets: usize) {
        self.packets += 1;
        self.octets += octets as u64;
    }

    /// Adds another count.
    pub const fn merge(&mut self, other: Self) {
        self.packets += other.packets;
        self.octets += other.octets;
    }
}

/// Stages of a data path at most, for counts by stage.
pub const STAGES_MAX: usize = 32;

/// Work that the data path did. It reports work, never time: the laboratory
/// prices it under a device profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Packets sealed and octets under their ICV.
    pub sealed: Flow,
    /// Packets opened (or tried) and octets under their ICV.
    pub opened: Flow,
    /// Table look-ups: FIB, LFIB, SPD, bridge.
    pub lookups: u64,
    /// Packets copied and their octets.
    pub copied: Flow,
    /// Labels put on packets (MPLS).
    pub labels: u64,
    /// Part of `sealed` that was done by an engine outside the worker.
    pub sealed_away: Flow,
    /// Part of `opened` that was done by an engine outside the worker.
    pub opened_away: Flow,
    /// Packets that each stage was given, in the order of a node's stages.
    pub staged: [u64; STAGES_MAX],
}

impl Work {
    /// Adds another count.
    pub const fn merge(&mut self, other: &Self) {
        self.sealed.merge(other.sealed);
        self.opened.merge(other.opened);
        self.lookups += other.lookups;
        self.copied.merge(other.copied);
        self.labels += other.labels;
        self.sealed_away.merge(other.sealed_away);
        self.opened_away.merge(other.opened_away);
        let mut stage = 0;
        while stage < STAGES_MAX {
            self.staged[stage] += other.staged[stage];
            stage += 1;
        }
    }
}

/// Conservation of packets:
/// `received + made = sent + consumed + dropped + held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Taken from a port.
    pub received: u64,
    /// Made here: copies, fragments, replies, dummies.
    pub made: u64,
    /// Given to a port.
    pub sent: u64,
    /// Ended here as intended: protocol messages for the node itself.
    pub consumed: u64,
    /// Dropped, each with a reason.
    pub dropped: u64,
    /// Waiting: for a neighbour, for an engine, in a queue.
    pub held: u64,
}

impl Ledger {
    /// True if every packet is accounted for.
    pub const fn balances(&self) -> bool {
        self.received + self.made == self.sent + self.consumed + self.dropped + self.held
    }

    /// Adds another worker's part.
    pub const fn merge(&mut self, o: &Self) {
        self.received += o.received;
        self.made += o.made;
        self.sent += o.sent;
        self.consumed += o.consumed;
        self.dropped += o.dropped;
        self.held += o.held;
    }
}
