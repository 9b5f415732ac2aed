//! One datagram that is put together.

use super::piece::{Piece, Place};
use super::{HEADERS_MAX, TAIL_ROOM};
use ferrule_base::DropReason;
use ferrule_pipeline::Packet;
use ferrule_wire::{EtherType, FromBytes, ipv4, ipv6};

/// Octets in which offsets are counted.
const UNIT: usize = 8;
/// ECN: congestion experienced, and not capable of saying so.
const CE: u8 = 3;
const NOT_ECT: u8 = 0;

/// Flags of the units of a datagram, true for those that have arrived. Memory is kept from
/// one datagram to the next.
pub(super) type Present = Vec<bool>;

/// Result of adding a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The fragment is in its place, others are missing.
    Held,
    /// The last that was missing.
    Complete,
    /// Every octet of it had arrived before.
    Duplicate,
    /// The datagram cannot be any more.
    Refused(DropReason),
}

/// A datagram of which parts are there: its data begins where the fresh buffer
/// did, the headers of the first fragment come in front.
#[derive(Debug)]
pub(super) struct Assembly {
    buffer: Packet,
    /// Octets of the first fragment's headers; zero: it is not there yet.
    header: usize,
    /// Octets of the first fragment's data.
    first: usize,
    /// Octets of data, once the last fragment is there.
    total: Option<usize>,
    /// End of the farthest piece.
    reach: usize,
    /// Units that are there.
    units: usize,
    /// A bit for each ECN codepoint that was seen.
    ecn: u8,
    /// Fragments in it.
    pub fragments: u32,
}

impl Assembly {
    /// An empty datagram, to be put together in `buffer`, which is fresh.
    pub fn new(buffer: Packet, present: &mut Present) -> Self {
        present.clear();
        present.resize(buffer.tail_room().div_ceil(UNIT), false);
        Self { buffer, header: 0, first: 0, total: None, reach: 0, units: 0, ecn: 0, fragments: 0 }
    }

    /// Takes over a fragment:
    /// 1. it agrees with where others end;
    /// 2. nothing of it is there already;
    /// 3. the buffer has room;
    /// 4. data to its place; of the first, headers in front.
    pub fn add(&mut self, present: &mut Present, piece: &Piece, packet: &Packet) -> Outcome {
        const OVERLAP: Outcome = Outcome::Refused(DropReason::FragmentOverlap);
        let (from, to) = (piece.offset / UNIT, piece.end().div_ceil(UNIT));
        let headers = packet.data().get(..piece.header).unwrap_or_default();
        let data = packet.data().get(piece.header..piece.header + piece.len).unwrap_or_default();
        // 1
        let agrees = match self.total {
            Some(total) if piece.more => piece.end() < total,
            Some(total) => piece.end() == total,
            None => piece.more || self.reach <= piece.end(),
        };
        if !agrees {
            return OVERLAP;
        }
        // 2
        let places = present.len();
        let units = &mut present[from.min(places)..to.min(places)];
        if units.contains(&true) {
            let again = !units.contains(&false) && self.has(piece.offset, data);
            return if again { Outcome::Duplicate } else { OVERLAP };
        }
        // 3
        let missing = (self.header + piece.end()).saturating_sub(self.buffer.len());
        let fits = missing + TAIL_ROOM <= self.buffer.tail_room();
        if !fits || self.buffer.append(missing).is_none() {
            return Outcome::Refused(DropReason::ReassemblyTooBig);
        }
        // 4
        let at = self.header + piece.offset;
        let Some(place) = self.buffer.data_mut().get_mut(at..at + data.len()) else {
            return Outcome::Refused(DropReason::ReassemblyTooBig);
        };
        place.copy_from_slice(data);
        if piece.offset == 0 {
            match self.buffer.prepend(headers.len()) {
                Some(front) if headers.len() <= HEADERS_MAX => front.copy_from_slice(headers),
                _ => return Outcome::Refused(DropReason::IpOption),
            }
            (self.header, self.first) = (headers.len(), data.len());
        }
        if piece.offset == 0 || self.fragments == 0 {
            *self.buffer.meta_mut() = *packet.meta();
        }
        units.fill(true);
        self.units += to - from;
        self.reach = self.reach.max(piece.end());
        self.ecn |= 1 << piece.ecn;
        self.fragments += 1;
        if !piece.more {
            self.total = Some(piece.end());
        }
        match self.total {
            Some(total) if self.units == total.div_ceil(UNIT) => Outcome::Complete,
            _ => Outcome::Held,
        }
    }

    /// True if the datagram has these octets at this offset.
    fn has(&self, offset: usize, data: &[u8]) -> bool {
        let at = self.header + offset;
        self.buffer.data().get(at..at + data.len()) == Some(data)
    }

    /// The whole datagram, its header made good; as much of it as there is, if that
    /// cannot be.
    pub fn finish(mut self) -> Result<Packet, (Packet, DropReason)> {
        match self.mend() {
            Ok(()) => Ok(self.buffer),
            Err(reason) => Err((self.buffer, reason)),
        }
    }

    fn mend(&mut self) -> Result<(), DropReason> {
        // RFC 3168 section 5.3: congestion that one fragment met marks the whole datagram;
        // a fragment that is not ECN-capable contradicts that.
        let congested = self.ecn & 1 << CE != 0;
        if congested && self.ecn & 1 << NOT_ECT != 0 {
            return Err(DropReason::FragmentOverlap);
        }
        match EtherType(self.buffer.meta().ethertype) {
            EtherType::IPV4 => self.mend_v4(congested),
            _ => self.mend_v6(congested),
        }
    }

    /// Total length; no fragment any more.
    fn mend_v4(&mut self, congested: bool) -> Result<(), DropReason> {
        let len = u16::try_from(self.buffer.len()).map_err(|_| DropReason::Malformed)?;
        let data = self.buffer.data_mut();
        let (header, _) = ipv4::Header::mut_from_prefix(data).map_err(|_| DropReason::Malformed)?;
        header.total_len = len.into();
        header.fragment = 0.into();
        if congested {
            header.tos |= CE;
        }
        ipv4::fill_checksum(data);
        Ok(())
    }

    /// No fragment header; payload length.
    fn mend_v6(&mut self, congested: bool) -> Result<(), DropReason> {
        let place = Place::of(self.buffer.data()).ok_or(DropReason::Malformed)?;
        place.take_off(&mut self.buffer).ok_or(DropReason::Malformed)?;
        let (header, _) = ipv6::Header::mut_from_prefix(self.buffer.data_mut())
            .map_err(|_| DropReason::Malformed)?;
        if congested {
            header.version_class_flow =
                (header.version_class_flow.get() | u32::from(CE) << 20).into();
        }
        Ok(())
    }

    /// The buffer of a datagram that is given up: the first fragment as it came, if
    /// it did come.
    pub fn give_up(mut self) -> (Packet, bool) {
        self.buffer.truncate(self.header + self.first);
        (self.buffer, self.header > 0)
    }
}
