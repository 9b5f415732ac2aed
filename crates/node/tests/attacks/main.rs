//! Hostile input, attack by attack: whole nodes, and an attacker who makes frames.
//!
//! Each test is one attack, named as a sentence, and shows five things (`rig::Rig`):
//!
//! 1. each frame is dropped, for the one reason that `docs/attacks.md` names;
//! 2. nothing at all leaves the node by any port;
//! 3. no state moves: windows, counters of what SAs took, the MTU of a
//!    path, neighbours, and no buffer is kept;
//! 4. the same frame without the attack's change passes in the same node, so that the
//!    test could fail;
//! 5. an honest peer's packets pass afterwards, and every packet is accounted for.
//!
//! Runs every case with crypto that is done at once and with an engine that is late.

#[path = "../net/mod.rs"]
mod net;

mod craft;
mod page;
mod rig;

mod acl;
mod ah;
mod clear;
mod esp;
mod floods;
mod fragments;
mod icmp;
mod inside;
mod link;
mod macsec;
mod mka;
mod mpls;
mod neighbours;
mod options;
mod router;
mod sources;
mod transport;
