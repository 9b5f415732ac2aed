//! Incoming labels and pseudowires.

use crate::route::{Labels, TtlModel};
use ferrule_base::VrfId;

/// Incoming label map, by label.
#[derive(Default)]
pub struct Lfib {}

/// What happens to packets of one incoming label.
#[derive(Clone, Debug)]
pub struct Ilm {
    /// What to do.
    pub action: IlmAction,
    /// How TTL crosses the label that is taken off.
    pub ttl: TtlModel,
}

/// What to do with a label.
#[derive(Clone, Debug)]
pub enum IlmAction {
    /// Take it off, push these instead (none: penultimate-hop popping), send
    /// by the adjacency.
    Forward(Labels, u32),
    /// Take it off; an IP packet of this table follows.
    Ip(VrfId),
    /// Take it off; a frame of this pseudowire follows.
    Pw(u32),
}

/// Raw or tagged mode (RFC 4448 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PwMode {
    /// Frames as they are: the service delimiting tag, if any, is not carried.
    Raw,
    /// Every frame carries a service delimiting tag.
    Tagged,
}

/// An Ethernet pseudowire between an interface here and one at another PE.
pub struct Pseudowire {
    /// The name in the configuration.
    pub name: Box<str>,
    /// The attachment circuit here.
    pub iface: u16,
    /// The label that the other PE expects.
    pub label_out: u32,
    /// The way to the other PE; its labels are the transport labels.
    pub adjacency: u32,
    /// A control word stands in front of the frame.
    pub control_word: bool,
    /// Sequence numbers are sent and checked.
    pub sequencing: bool,
    /// Raw or tagged.
    pub mode: PwMode,
    /// TTL of the pseudowire label.
    pub ttl: u8,
}
