//! Settings of a token engine's rings.

use ferrule_base::Duration;

/// Amount of key stream made ahead, and its retention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name of the token's profile, for reports.
    pub name: String,
    /// Blocks of key stream of each direction.
    pub blocks: usize,
    /// Packets ahead of the last authentic one that are waited for, and made
    /// ahead, at most (the standard mode).
    pub reach: u64,
    /// Packets (in the study's mode: blocks) behind it that keep their key stream,
    /// for those that come late.
    pub behind: u64,
    /// A packet whose key stream is gone is dropped; otherwise it is asked for
    /// exactly.
    pub drop_gone: bool,
    /// Memory is locked. Only a laboratory does without.
    pub locked: bool,
    /// Packets of at least so many octets take so long, one behind the other: the
    /// study's way to keep the ring from running empty. The largest first.
    pub delays: Vec<(usize, Duration)>,
    /// An SA that is silent for so long has its key stream wiped.
    pub keep: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: String::new(),
            blocks: 1 << 14,
            reach: 4096,
            behind: 64,
            drop_gone: false,
            locked: true,
            delays: Vec::new(),
            keep: Some(Duration::from_secs(600)),
        }
    }
}

impl Settings {
    /// The delay of a packet of so many octets.
    pub fn delay(&self, octets: usize) -> Option<Duration> {
        self.delays.iter().find(|&&(least, _)| octets >= least).map(|&(_, delay)| delay)
    }
}
