//! A network that can be built again and again, for one case after the other.

use super::case::{Case, Shape};
use super::watch::Line;
use crate::network::{DeviceId, LabError, Network};
use crate::profile::Profile;
use ferrule_node::Config;

/// A node of a network.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// Its name.
    pub name: String,
    /// Configuration that the node runs and that the checkers compare it with.
    pub config: Config,
    /// Costs of its work.
    pub profile: Profile,
}

/// A network to be checked.
pub trait Subject: Sync {
    /// Its nodes. Cases and checkers name them by their place.
    fn nodes(&self) -> &[NodePlan];

    /// Limits within which seeds draw.
    fn shape(&self) -> Shape;

    /// Adds what is not a node to a network that has the nodes: hosts with the
    /// traffic that the case wants, and links, without its impairments.
    fn build(
        &self,
        case: &Case,
        network: &mut Network,
        nodes: &[DeviceId],
    ) -> Result<Built, LabError>;

    /// Results of the flows, as hosts saw them.
    fn flows(&self, case: &Case, network: &mut Network) -> Vec<FlowSeen>;

    /// How much hosts have that they did not have before: it grows while a flow goes on,
    /// and neither copies nor retransmissions count. Packets, or octets of a stream.
    fn delivered(&self, case: &Case, network: &mut Network) -> u64 {
        self.flows(case, network).iter().map(|flow| flow.received).sum()
    }
}

/// Facts about a network once it is built.
#[derive(Clone, Debug, Default)]
pub struct Built {
    /// Its links, in the order in which they were made. Cases name them by place.
    pub lines: Vec<Line>,
    /// Octets that identify a host's payload in a frame.
    pub mark: Vec<u8>,
}

/// A flow as its hosts saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowSeen {
    /// Its name.
    pub name: String,
    /// Every link on its way that may copy a packet lies under protection against replay.
    pub protected: bool,
    /// Packets that came, without copies; of a stream, that it came at all.
    pub received: u64,
    /// Further copies of packets that had come.
    pub duplicates: u64,
    /// Packets that came after later ones.
    pub reordered: u64,
    /// Payloads that were not as they had been sent, although they are protected.
    pub broken: u64,
}
