//! TAP and TUN: the host's own stack as neighbour.
//!
//! Frames pass with a virtio-net header in front. The kernel leaves checksums and
//! segmentation to the port: a program's 64 KiB come in one call and are cut here, so the
//! node sees frames of the MTU with finished checksums. Frames to the host are joined in
//! the same way ([`crate::coalesce`]).
//!
//! ```text
//!   program ─ host's stack ─▶ super-frame ─▶ [ cut  ] ─▶ frames ─▶ node
//!   program ─ host's stack ◀─ super-frame ◀─ [ join ] ◀─ frames ◀─ node
//! ```
//!
//! A TAP carries Ethernet. A TUN carries bare IP: its port puts an Ethernet header in front
//! with the addresses that it was given, takes it off again, and answers the node's
//! questions for neighbours, of ARP and of IPv6, in the name of the hosts behind it.
//!
//! One interface may have several queues, each a port of its own for another worker:
//! the kernel sends a flow to the queue that its answers came by.
//!
//! Making or attaching to the interface needs CAP_NET_ADMIN, unless it is
//! persistent and belongs to the user ([`TapOpened`]); the rest needs nothing.

mod answer;
mod host;
mod open;
mod port;

pub use host::HostSide;
pub(crate) use open::has_interface;
pub use open::{TapOpened, TapSpec};
pub use port::TapPort;

use ferrule_base::MacAddr;

/// The Ethernet addresses of a TUN's two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunAddresses {
    /// The node's port.
    pub node: MacAddr,
    /// The host behind the TUN.
    pub host: MacAddr,
}
