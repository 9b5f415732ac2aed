//! Input and output of the core, beside messages.

use super::config::Interface;
use ferrule_base::MacAddr;
use std::net::{IpAddr, Ipv6Addr};

/// Configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// An interface is there, or is now like this. New addresses are checked
    /// (IPv6) and announced.
    Interface(Interface),
    /// An interface is gone, and its neighbours with it.
    Gone(u16),
    /// The carrier of an interface went or came: its neighbours are forgotten, and those that a
    /// configuration names are asked for.
    Carrier(u16),
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

/// Notice of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A packet waits for a neighbour: ends in [`Order::Set`] or [`News::Unreachable`].
    Waits {
        /// The interface.
        iface: u16,
        /// The neighbour.
        ip: IpAddr,
    },
}

/// Work for the data path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Send to this neighbour by this link address, from now on; packets that wait for it go.
    Set {
        /// The interface.
        iface: u16,
        /// The neighbour.
        ip: IpAddr,
        /// Its link address.
        mac: MacAddr,
    },
    /// Forget the neighbour's link address, which was set.
    Remove {
        /// The interface.
        iface: u16,
        /// The neighbour.
        ip: IpAddr,
    },
}

/// News.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The neighbour did not answer, or cannot be asked, or the data path does not take it:
    /// packets that wait for it are lost.
    Unreachable {
        /// The interface.
        iface: u16,
        /// The neighbour.
        ip: IpAddr,
    },
    /// A new IPv6 address of ours that no other station claimed: it is in use from now on.
    Unique {
        /// The interface.
        iface: u16,
        /// The address.
        ip: Ipv6Addr,
    },
    /// Somebody else uses an address of ours.
    Duplicate {
        /// The interface.
        iface: u16,
        /// The address.
        ip: IpAddr,
    },
    /// The data path did not take the neighbour, which is given up for a while. Told of one among
    /// all in [`REFUSAL_TOLD`](super::config::REFUSAL_TOLD): there may be many.
    Refused {
        /// The interface.
        iface: u16,
        /// The neighbour.
        ip: IpAddr,
        /// The reason, in words.
        why: String,
    },
}
