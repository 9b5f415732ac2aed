//! Link headers of packets that a card has taken apart.
//!
//! ESP works on IP packets. While one is inside, its Ethernet header (with the tag
//! of its interface) waits here; the packet carries the place in its meta data.

use ferrule_base::DropReason;
use ferrule_pipeline::Packet;
use ferrule_wire::{ethernet, vlan};

/// Headers kept at once at most: more packets than an engine can have under way.
pub(super) const LINKS_MAX: usize = 1 << 14;

/// Mark of a packet whose link header is in place, and of one that was made here.
/// Others carry the place, counted from one.
pub(super) const NO_LINK: u16 = 0;

/// Octets of the longest header kept.
const LONGEST: usize = ethernet::Header::LEN + vlan::Header::LEN;

/// Octets of the EtherType at its end.
const ETHERTYPE: usize = 2;

#[derive(Clone, Copy)]
pub(super) struct Link {
    octets: [u8; LONGEST],
    len: u8,
}

/// The table of a card.
#[derive(Default)]
pub(super) struct Links {
    pub(super) places: Vec<Link>,
    pub(super) free: Vec<u16>,
}

impl Links {
    /// Takes the first `len` octets off a frame, to give them back later.
    #[inline]
    pub(super) fn save(&mut self, packet: &mut Packet, len: usize) -> Result<(), DropReason> {
        let mut link = Link { octets: [0; LONGEST], len: len as u8 };
        let (Some(room), Some(front)) = (link.octets.get_mut(..len), packet.data().get(..len))
        else {
            return Err(DropReason::Malformed);
        };
        room.copy_from_slice(front);
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.places.len() < LINKS_MAX => {
                self.places.push(link);
                self.places.len() as u16 - 1
            }
            None => return Err(DropReason::EngineFull),
        };
        if let Some(slot) = self.places.get_mut(usize::from(place)) {
            *slot = link;
        }
        packet.meta_mut().link = place + 1;
        packet.strip(len);
        Ok(())
    }

    /// Puts a packet's link header back in front of it, with the EtherType of the packet as
    /// it is now.
    #[inline]
    pub fn restore(&mut self, packet: &mut Packet) -> Result<(), DropReason> {
        let place = usize::from(packet.meta().link).checked_sub(1);
        let Some(mut link) = place.and_then(|place| self.places.get(place)).copied() else {
            return Err(DropReason::Malformed);
        };
        self.release(packet);
        let len = usize::from(link.len);
        let ethertype = packet.meta().ethertype.to_be_bytes();
        if let Some(end) = link.octets.get_mut(len - ETHERTYPE..len) {
            end.copy_from_slice(&ethertype);
        }
        let room = packet.prepend(len).ok_or(DropReason::NoRoom)?;
        room.copy_from_slice(link.octets.get(..len).unwrap_or_default());
        Ok(())
    }

    /// The packet does not need its link header any more.
    #[inline]
    pub fn release(&mut self, packet: &mut Packet) {
        let place = std::mem::replace(&mut packet.meta_mut().link, NO_LINK);
        if let Some(place) = place.checked_sub(1).filter(|&p| usize::from(p) < self.places.len()) {
            self.free.push(place);
        }
    }
}
