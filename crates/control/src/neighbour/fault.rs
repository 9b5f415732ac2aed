//! Rules that a sender broke: the message is dropped, nothing is learned.

use ferrule_base::DropReason;
use std::fmt;

/// The rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// No such interface.
    Interface,
    /// Neither ARP nor neighbour discovery, or cut short, or a wrong checksum.
    Malformed,
    /// Neighbour discovery with a hop limit other than 255: not from this link
    /// (RFC 4861 section 7.1).
    HopLimit,
    /// The sender is not on this link.
    OffLink,
    /// The sender's link address is a group, zero or our own.
    LinkAddress,
    /// The sender's address cannot be one host's.
    Address,
    /// A solicitation without a source that breaks a rule of RFC 4861 section
    /// 7.1.1.
    Unspecified,
    /// An advertisement to a group that says it was solicited (RFC 4861
    /// section 7.1.2).
    Solicited,
    /// Router messages are not for routers configured by hand.
    Router,
    /// The node did not take orders and news: nothing can be learned.
    Busy,
}

impl Fault {
    /// The counter that a message dropped for this goes to.
    pub const fn drop_reason(self) -> DropReason {
        match self {
            Self::Malformed => DropReason::Malformed,
            Self::Interface => DropReason::NotAttached,
            Self::HopLimit => DropReason::NeighbourFromAfar,
            Self::OffLink => DropReason::NeighbourOffLink,
            Self::LinkAddress => DropReason::NeighbourLinkAddress,
            Self::Address => DropReason::NeighbourAddress,
            Self::Unspecified => DropReason::NeighbourUnspecified,
            Self::Solicited => DropReason::NeighbourSolicited,
            Self::Router => DropReason::RouterMessage,
            Self::Busy => DropReason::NeighbourBusy,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interface => "no such interface",
            Self::Malformed => "malformed message",
            Self::HopLimit => "hop limit is not 255",
            Self::OffLink => "sender is not on this link",
            Self::LinkAddress => "impossible link address",
            Self::Address => "impossible address",
            Self::Unspecified => "solicitation without a source breaks the rules",
            Self::Solicited => "solicited advertisement to a group",
            Self::Router => "router message",
            Self::Busy => "orders and news were not taken",
        })
    }
}

impl std::error::Error for Fault {}
