//! Internet checksums (RFC 1071) for frames that the kernel handed over
//! unfinished.
//!
//! A sender that leaves the checksum to its device writes the sum of the
//! pseudo header into the checksum field and says where summing starts and
//! where the result goes: both relative to the frame.

use ferrule_wire::checksum::Sum;

/// Fills the checksum in: sums from `start` to the end and writes the
/// complement to `start + offset`. False (and nothing done) if that is outside.
#[must_use]
pub(crate) fn finish(frame: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(covered) = frame.get_mut(start..) else { return false };
    let total = Sum::new().with(covered).finish();
    let Some(field) = covered.get_mut(offset..).and_then(|f| f.first_chunk_mut::<2>()) else {
        return false;
    };
    // Zero would mean "no checksum" to UDP; all ones is the same number.
    *field = (if total == 0 { 0xffff } else { total }).to_be_bytes();
    true
}

/// Where the transport header of an IP packet in an Ethernet frame lies.
pub(crate) struct Transport {
    /// Where the IP header begins.
    pub ip: usize,
    /// Where the transport header begins.
    pub at: usize,
    /// Where the IP packet ends.
    pub end: usize,
    /// Protocol number.
    pub protocol: u8,
    /// IPv6?
    pub v6: bool,
}

impl Transport {
    /// Looks behind Ethernet and up to two VLAN tags. Fragments and IPv6
    /// extension headers have no transport header here.
    pub(crate) fn find(frame: &[u8]) -> Option<Self> {
        let mut at = 12;
        let mut kind = u16::from_be_bytes(*frame.get(at..)?.first_chunk()?);
        for _ in 0..2 {
            if matches!(kind, 0x8100 | 0x88a8) {
                at += 4;
                kind = u16::from_be_bytes(*frame.get(at..)?.first_chunk()?);
            }
        }
        let ip = at + 2;
        let header = frame.get(ip..)?;
        let (len, total, protocol) = match kind {
            0x0800 => {
                let h: &[u8; 20] = header.first_chunk()?;
                let whole = u16::from_be_bytes([h[6], h[7]]) & 0x3fff == 0;
                if h[0] >> 4 != 4 || !whole {
                    return None;
                }
                let total = u16::from_be_bytes([h[2], h[3]]) as usize;
                ((h[0] & 15) as usize * 4, total, h[9])
            }
            0x86dd => {
                let h: &[u8; 40] = header.first_chunk()?;
                if h[0] >> 4 != 6 {
                    return None;
                }
                (40, 40 + u16::from_be_bytes([h[4], h[5]]) as usize, h[6])
            }
            _ => return None,
        };
        let (at, end) = (ip + len, ip + total);
        (len >= 20 && at <= end && end <= frame.len()).then_some(Self {
            ip,
            at,
            end,
            protocol,
            v6: kind == 0x86dd,
        })
    }

    /// The pseudo header's sum for a transport packet of `len` octets.
    pub(crate) fn pseudo(&self, frame: &[u8], len: usize) -> Sum {
        let addresses =
            if self.v6 { self.ip + 8..self.ip + 40 } else { self.ip + 12..self.ip + 20 };
        let sum = Sum::new().with(frame.get(addresses).unwrap_or_default());
        sum.with_u32(self.protocol.into()).with_u32(len as u32)
    }

    /// Where in the transport header the checksum is.
    pub(crate) fn field(&self) -> Option<usize> {
        match self.protocol {
            6 => Some(16),
            17 => Some(6),
            _ => None,
        }
    }
}

/// For frames whose origin kept the checksum's state to itself (XDP on a veth
/// whose far end is a local stack): a checksum field that holds just the pseudo
/// header's sum, on a packet that does not verify, was left unfinished.
///
/// That is a guess with odds of 1 in 65536 of mending a packet that was really
/// broken, so it is for links where nothing breaks: memory.
pub(crate) fn finish_if_left(frame: &mut [u8]) {
    let Some(transport) = Transport::find(frame) else { return };
    let Some(field) = transport.field() else { return };
    let Some(covered) = frame.get(transport.at..transport.end) else { return };
    let Some(found) = covered.get(field..).and_then(|f| f.first_chunk::<2>()) else { return };
    let pseudo = transport.pseudo(frame, covered.len());
    if u16::from_be_bytes(*found) != !pseudo.finish() || pseudo.with(covered).is_good() {
        return;
    }
    let (at, end) = (transport.at, transport.end);
    if let Some(packet) = frame.get_mut(..end) {
        let done = finish(packet, at, field);
        debug_assert!(done, "the field was just read");
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Ethernet, IPv4 10.0.0.1 to 10.0.0.2, UDP with its pseudo header's sum.
    pub(crate) fn unfinished_udp(payload: &[u8]) -> Vec<u8> {
        let udp = (8 + payload.len()) as u16;
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        frame.extend([0x45, 0]);
        frame.extend((20 + udp).to_be_bytes());
        frame.extend([0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let header = Sum::new().with(&frame[14..34]).finish();
        frame[24..26].copy_from_slice(&header.to_be_bytes());
        frame.extend([0x12, 0x34, 0x56, 0x78]);
        frame.extend(udp.to_be_bytes());
        let pseudo = !Sum::new().with(&frame[26..34]).with_u32(17 + u32::from(udp)).finish();
        frame.extend(pseudo.to_be_bytes());
        frame.extend(payload);
        frame
    }

    pub(crate) fn verifies(frame: &[u8]) -> bool {
        let t = Transport::find(frame).unwrap();
        let covered = &frame[t.at..t.end];
        t.pseudo(frame, covered.len()).with(covered).is_good()
    }

    #[test]
    fn unfinished_checksum_is_finished_where_the_kernel_says() {
        let mut frame = unfinished_udp(b"payload");
        assert!(!verifies(&frame));
        assert!(finish(&mut frame, 34, 6));
        assert!(verifies(&frame));
        assert!(!finish(&mut frame, 34, 60) && !finish(&mut frame, 4000, 6));
    }

    #[test]
    fn unfinished_checksum_is_recognised_by_the_pseudo_header_sum() {
        let mut frame = unfinished_udp(b"payload!");
        frame.extend([0xaa; 5]); // Ethernet padding stays out of it
        finish_if_left(&mut frame);
        assert!(verifies(&frame));
        let finished = frame.clone();
        finish_if_left(&mut frame);
        assert_eq!(frame, finished, "what is finished stays");
        let mut broken = finished.clone();
        broken[45] ^= 1;
        let before = broken.clone();
        finish_if_left(&mut broken);
        assert_eq!(broken, before, "what is broken stays broken");
        for cut in 0..finished.len() {
            finish_if_left(&mut finished[..cut].to_vec());
        }
    }
}
