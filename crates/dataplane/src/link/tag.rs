//! VLAN tags put on and taken off in place (802.1Q clause 9), on whole frames.
//!
//! ```text
//!   dst src │ type …        ◀─ push / pop ─▶        dst src │ tag │ type …
//! ```
//! The twelve octets of addresses move, not the payload.
//!
//! A logical interface's own tag never enters the bridge or a raw pseudowire:
//! [`Attach`](super::Attach) takes it off, and [`tag_out`] puts it on again
//! before the frame goes to [`Next::Emit`](crate::Next::Emit). The same holds
//! the other way round for the tag that stands for an access VLAN in a bridge.

use crate::tables::{Iface, IfaceKind, Tag};
use ferrule_base::DropReason;
use ferrule_pipeline::Packet;
use ferrule_wire::{EtherType, FromBytes, IntoBytes, vlan};

/// Octets of both addresses, which a tag stands behind.
const ADDRESSES: usize = 12;
/// A tag with the type that announces it.
const TAG: usize = 4;
/// The VLAN ID in a tag's control information.
pub const VID: u16 = 0xfff;

/// The outer tag of a frame: its type and control information (priority,
/// drop eligible, VLAN ID).
#[inline]
pub fn outer(frame: &[u8]) -> Option<(u16, u16)> {
    let tpid = u16::from_be_bytes(*frame.get(ADDRESSES..)?.first_chunk()?);
    if !EtherType(tpid).is_vlan() {
        return None;
    }
    let (tag, _) = vlan::Header::ref_from_prefix(frame.get(ADDRESSES + 2..)?).ok()?;
    Some((tpid, tag.tci.get()))
}

/// Puts a tag on a frame.
#[inline]
pub fn push(packet: &mut Packet, tpid: u16, tci: u16) -> Result<(), DropReason> {
    if packet.len() < ADDRESSES {
        return Err(DropReason::Malformed);
    }
    packet.prepend(TAG).ok_or(DropReason::NoRoom)?;
    let Some(front) = packet.data_mut().first_chunk_mut::<{ ADDRESSES + TAG }>() else {
        return Err(DropReason::Malformed);
    };
    front.copy_within(TAG.., 0);
    front[ADDRESSES..ADDRESSES + 2].copy_from_slice(&tpid.to_be_bytes());
    front[ADDRESSES + 2..].copy_from_slice(&tci.to_be_bytes());
    Ok(())
}

/// Takes the outer tag off a frame and gives its control information.
#[inline]
pub fn pop(packet: &mut Packet) -> Option<u16> {
    let (_, tci) = outer(packet.data())?;
    packet.data_mut().first_chunk_mut::<{ ADDRESSES + TAG }>()?.copy_within(..ADDRESSES, TAG);
    packet.strip(TAG);
    Some(tci)
}

/// Changes the VLAN ID of the outer tag, which keeps its priority; false if
/// there is no tag.
#[inline]
pub fn set_vid(packet: &mut Packet, vid: u16) -> bool {
    if outer(packet.data()).is_none() {
        return false;
    }
    let Some(frame) = packet.data_mut().get_mut(ADDRESSES + 2..) else { return false };
    let Ok((tag, _)) = vlan::Header::mut_from_prefix(frame) else { return false };
    tag.tci = (tag.tci.get() & !VID | vid & VID).into();
    debug_assert!(tag.as_bytes().len() == TAG);
    true
}

/// Gives a frame that leaves a bridge or a pseudowire by `iface` the tag that its wire
/// wants; next comes [`Next::Emit`](crate::Next::Emit) with the interface's port.
///
/// 1. At an access interface the tag of the access VLAN goes; a frame of
///    another VLAN, or of none, must not leave here.
/// 2. The interface's own tag goes on, with the priority bits (and drop
///    eligible) of `class`, a tag's control information.
#[inline]
pub fn tag_out(iface: &Iface, class: u16, packet: &mut Packet) -> Result<(), DropReason> {
    if let IfaceKind::Bridged { access_vlan: Some(vid), .. } = iface.kind {
        match outer(packet.data()) {
            Some((tpid, tci)) if tpid == EtherType::VLAN.0 && tci & VID == vid => {
                pop(packet);
            }
            _ => return Err(DropReason::UnknownVlan),
        }
    }
    match iface.tag {
        Tag::None => Ok(()),
        Tag::Tag(tpid, vid) => push(packet, tpid, class & !VID | vid & VID),
        Tag::Double([outer, inner]) => [inner, outer]
            .into_iter()
            .try_for_each(|(tpid, vid)| push(packet, tpid, class & !VID | vid & VID)),
    }
}
