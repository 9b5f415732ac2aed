//! Members of bridges, compiled: the data of an interface that the stage reads for every
//! frame.

use crate::graph::Next;
use crate::tables::{Iface, IfaceKind, Tables, Tag};
use ferrule_base::PortId;

/// An interface as a member of its bridge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    /// The bridge's number; of an interface that is no member one that no bridge has.
    pub bridge: u16,
    /// Port by which its frames leave.
    pub port: PortId,
    /// The longest frame that goes straight to the port.
    longest: u16,
    /// The worker that has the port, unless all have it.
    owner: u8,
    everywhere: bool,
    /// Next stage of a frame that goes straight to the port.
    finished: Next,
    /// Frames leave as they are in the bridge: neither the interface nor the VLAN has a tag
    /// of its own, and no access list judges them.
    pub is_plain: bool,
}

impl Member {
    pub fn of(iface: &Iface, tables: &Tables) -> Self {
        let (bridge, is_plain) = match iface.kind {
            IfaceKind::Bridged { bridge, access_vlan } => {
                let has_list = iface.lists.outbound.is_some();
                (bridge, access_vlan.is_none() && iface.tag == Tag::None && !has_list)
            }
            _ => (u16::MAX, false),
        };
        let port = tables.ports.get(usize::from(iface.port.0));
        Self {
            bridge,
            port: iface.port,
            longest: port.map_or(0, |port| port.frame_max),
            owner: port.map_or(0, |port| port.owner),
            everywhere: port.is_some_and(|port| port.everywhere),
            finished: match port.and_then(|port| port.secy) {
                Some(_) => Next::SecyOut,
                None => Next::Transmit,
            },
            is_plain,
        }
    }

    /// Next stage of a frame of so many octets: straight to the port if it is this worker's
    /// and carries the frame.
    #[inline(always)]
    pub const fn after_bridge(&self, worker: u8, len: usize) -> Next {
        let is_here = self.everywhere || self.owner == worker;
        if is_here && len <= self.longest as usize { self.finished } else { Next::Emit }
    }
}
