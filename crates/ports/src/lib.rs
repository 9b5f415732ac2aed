//! Ports on the operating system's interfaces: the only system calls of the
//! data path.
//!
//! | kind | frames | for |
//! | --- | --- | --- |
//! | [`xdp`] | straight into and out of the node's chunks | core links, MTU up to a chunk |
//! | [`packet`] | copied; finishes checksums, cuts super-frames, restores VLAN tags | any interface, jumbo frames |
//! | [`tap`] | copied; finishes checksums, cuts super-frames and makes them | the host's own stack |
//! | [`pcap`] | from and to capture files | replaying, recording |
//!
//! Frames that arrive unfinished, and the place that finishes them (a veth's frames come as
//! the far end's stack made them):
//!
//! | | checksum left | super-frame (GSO) | VLAN tag beside the frame |
//! | --- | --- | --- | --- |
//! | AF_PACKET | finished | cut into segments | put back |
//! | TAP, TUN | finished | cut into segments | stays in the frame |
//! | AF_XDP on veth | recognised by the pseudo header's sum, finished | native mode: the kernel switches it off; generic: missed and counted, the far end wants `ethtool -K NAME tso off gso off` | lost if the far end is a VLAN device: `ethtool -K NAME txvlan off` there |
//! | AF_XDP on a NIC | does not happen | does not happen | `ethtool -K NAME rxvlan off` |
//!
//! [`open`] goes from a specification to a port in two steps, so that privilege
//! can be elsewhere; [`pass`] carries descriptors between processes.
#![warn(missing_docs)]

mod checksum;
mod coalesce;
pub mod error;
pub mod link;
pub mod news;
pub mod offload;
pub mod open;
pub mod os;
pub mod packet;
pub mod pass;
pub mod pcap;
pub mod region;
mod sys;
pub mod tap;
pub mod tsc;
pub mod xdp;

pub use error::{OpenError, OpenFault};
pub use link::Link;
pub use news::{LinkNews, News};
pub use open::{Netdev, Opened, Opener, PortSpec};
pub use xdp::Umem;
