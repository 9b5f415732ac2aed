//! What goes into the core and comes out of it, beside messages.

use super::config::Interface;
use ferrule_base::MacAddr;
use std::net::IpAddr;

/// What the node tells the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// An interface is there, or is now like this. New addresses are checked
    /// (IPv6) and announced.
    Interface(Interface),
    /// An interface is gone, and its neighbours with it.
    Gone(u16),
    /// A packet waits for a neighbour: ends in [`Event::Set`] or
    /// [`Event::Unreachable`].
    Resolve {
        /// The interface.
        iface: u16,
        /// The neighbour.
        ip: IpAddr,
    },
    /// A configuration names this neighbour: it is asked for now, asked for
    /// again as long as it does not answer, and never gives up its place. Comes
    /// after the interface, and again when that was gone.
    Keep {
        /// The interface.
        iface: u16,
        /// The neighbour.
        ip: IpAddr,
    },
    /// No configuration names it any more.
    Release {
        /// The interface.
        iface: u16,
        /// The neighbour.
        ip: IpAddr,
    },
}

/// What the core tells the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The neighbour's link address is known, or is now this one: packets that
    /// wait for it can go.
    Set {
        /// The interface.
        iface: u16,
        /// The neighbour.
        ip: IpAddr,
        /// Its link address.
        mac: MacAddr,
    },
    /// The neighbour's link address is not to be used any more.
    Remove {
        /// The interface.
        iface: u16,
        /// The neighbour.
        ip: IpAddr,
    },
    /// The neighbour did not answer, or cannot be asked: packets that wait for
    /// it are lost.
    Unreachable {
        /// The interface.
        iface: u16,
        /// The neighbour.
        ip: IpAddr,
    },
    /// Somebody else uses an address of ours.
    Duplicate {
        /// The interface.
        iface: u16,
        /// The address.
        ip: IpAddr,
    },
}

/// A frame to be sent: untagged, without padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// By this interface.
    pub iface: u16,
    /// The whole frame.
    pub frame: Vec<u8>,
}
