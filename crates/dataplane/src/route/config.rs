//! Routes, adjacencies and neighbours.

use arrayvec::ArrayVec;

/// Labels that one adjacency or cross-connect pushes at most.
pub const LABELS_MAX: usize = 4;

/// Labels to push, the innermost first.
pub type Labels = ArrayVec<u32, LABELS_MAX>;

/// How TTL crosses a label (RFC 3443).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TtlModel {
    /// The label carries the packet's TTL on, and back on the way out.
    #[default]
    Uniform,
    /// The label's TTL is its own.
    Pipe,
}

/// A routing table.
#[derive(Default)]
pub struct Vrf {
    /// The name in the configuration.
    pub name: Box<str>,
}

/// What a route says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// An address of the node itself.
    Local,
    /// By this adjacency.
    Via(u32),
    /// Drop without a word.
    Discard,
}

/// A way out: an interface, and the neighbour on it.
pub struct Adjacency {
    /// The logical interface.
    pub iface: u16,
    /// The neighbour's place in [`Neighbours`]; nothing: the destination itself
    /// is the neighbour (a connected network).
    pub neighbour: Option<u32>,
    /// Labels to push.
    pub labels: Labels,
    /// How TTL crosses them.
    pub ttl: TtlModel,
}

/// Link addresses of neighbours, written by the control part, read by workers.
#[derive(Default)]
pub struct Neighbours {}
