//! Packet formats: bytes to meaning and back, and in place for the data path.
//!
//! Every format is one module of one shape:
//!
//! ```text
//!   bytes ──Header::ref_from_prefix──▶ &Header   the view: every bit pattern, no copy
//!     │                                          (mut_from_prefix to change it in place)
//!     └────────Repr::parse──────────▶ (Repr, payload)   the meaning: valid values only
//!                                      │
//!   bytes ◀────────Repr::emit──────────┘         Display prints it in one line
//! ```
//!
//! * `Repr::parse(bytes)` gives the meaning and the payload; octets beyond the
//!   format's own length field (Ethernet padding) are cut off the payload.
//! * `Repr::len()` is the octets of the header that `emit` writes.
//! * `Repr::emit(buf)` writes them to the front of `buf`, which must hold at
//!   least `len()` octets: a shorter one is a bug of the caller and panics.
//! * A format begins after the EtherType or protocol number that names it.
//! * Checksums over the payload (UDP, TCP, ICMP) are not part of a `Repr`:
//!   `emit` writes zero, and `fill_checksum` makes it good when the payload is
//!   in place; `checksum_ok` checks one.
//!
//! Nothing here panics on received octets, and nothing keeps state.
#![forbid(unsafe_code)]

#[macro_use]
mod bits;
#[cfg(test)]
#[macro_use]
mod laws;

pub mod ah;
pub mod arp;
pub mod capture;
pub mod checksum;
pub mod eapol;
pub mod ecn;
pub mod esp;
pub mod ethernet;
pub mod flow;
pub mod foretell;
pub mod icmpext;
pub mod icmpv4;
pub mod icmpv6;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod ipv6ext;
pub mod malformed;
pub mod mkpdu;
pub mod mld;
pub mod mpls;
pub mod ndp;
pub mod print;
pub mod pw;
pub mod sectag;
pub mod tcp;
pub mod udp;
pub mod vlan;

pub use bits::{Dscp, FlowLabel, Label, TrafficClass};
pub use checksum::Ends;
pub use ecn::Ecn;
pub use ethernet::EtherType;
pub use ip::Protocol;
pub use malformed::Malformed;
pub use sectag::Sci;
/// The traits whose methods (`ref_from_prefix`, `as_bytes`) the views need.
pub use zerocopy::{FromBytes, IntoBytes};
