//! Internet checksums (RFC 1071), and SCTP's CRC32c (RFC 9260 appendix A), for
//! frames that the kernel handed over unfinished.
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

/// SCTP's protocol number, and where its checksum is.
const SCTP: u8 = 132;
const SCTP_FIELD: usize = 8;

/// CRC32c, bits reflected, by octet.
const CRC32C: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut crc, mut bit) = (i as u32, 0);
        while bit < 8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

fn crc32c(octets: &[u8]) -> u32 {
    let step = |crc: u32, octet: &u8| (crc >> 8) ^ CRC32C[(crc as u8 ^ octet) as usize];
    !octets.iter().fold(!0, step)
}

/// Fills SCTP's checksum in.
fn finish_sctp(packet: &mut [u8]) -> bool {
    let Some(field) = packet.get_mut(SCTP_FIELD..SCTP_FIELD + 4) else { return false };
    field.fill(0);
    let crc = crc32c(packet).to_le_bytes();
    packet[SCTP_FIELD..SCTP_FIELD + 4].copy_from_slice(&crc);
    true
}

/// Fills in a checksum that the kernel's description asks for.
#[must_use]
pub(crate) fn finish_any(frame: &mut [u8], start: usize, offset: usize) -> bool {
    // The kernel describes SCTP's field as if it were an Internet checksum.
    if offset == SCTP_FIELD
        && let Some(sctp) = Transport::find(frame).filter(|t| t.protocol == SCTP)
    {
        return frame.get_mut(sctp.at..sctp.end).is_some_and(finish_sctp);
    }
    finish(frame, start, offset)
}

/// Position of the transport header of an IP packet in an Ethernet frame.
#[derive(Clone, Copy)]
pub(crate) struct Transport {
    /// Offset of the IP header.
    pub ip: usize,
    /// Offset of the transport header.
    pub at: usize,
    /// End of the IP packet.
    pub end: usize,
    /// Protocol number.
    pub protocol: u8,
    /// IPv6?
    pub v6: bool,
}

/// IPv6 options in front of the transport header at most.
const OPTIONS_MAX: usize = 4;

/// Goes past hop-by-hop and destination options: the length of all headers, and the
/// protocol behind them.
fn options(packet: &[u8], mut protocol: u8) -> Option<(usize, u8)> {
    let mut len = 40;
    for _ in 0..OPTIONS_MAX {
        if !matches!(protocol, 0 | 60) {
            break;
        }
        let header: &[u8; 2] = packet.get(len..)?.first_chunk()?;
        (protocol, len) = (header[0], len + 8 + usize::from(header[1]) * 8);
    }
    Some((len, protocol))
}

impl Transport {
    /// Looks behind Ethernet, up to two VLAN tags, and options that IPv6 puts in
    /// front. Fragments and routing headers have no transport header here.
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
        let (len, protocol) = match kind {
            0x86dd => options(header, protocol)?,
            _ => (len, protocol),
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

    /// Offset of the checksum in the transport header.
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
/// This is a guess with odds of 1 in 65536 of mending a packet that was really broken, so
/// it is for links that cannot corrupt frames: memory.
pub(crate) fn finish_if_left(frame: &mut [u8]) {
    let Some(transport) = Transport::find(frame) else { return };
    if transport.protocol == SCTP {
        // Here the field is left at zero.
        if let Some(packet) = frame.get_mut(transport.at..transport.end)
            && packet.get(SCTP_FIELD..SCTP_FIELD + 4) == Some(&[0; 4])
        {
            finish_sctp(packet);
        }
        return;
    }
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
    fn unfinished_sctp_checksum_is_a_crc32c() {
        // RFC 3720 appendix B.4: 32 octets of ones, and counting up.
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&std::array::from_fn::<u8, 32, _>(|i| i as u8)), 0x46dd_794e);
        let mut frame = unfinished_udp(&[0; 20]);
        frame[23] = SCTP;
        frame[40..46].fill(0);
        let mut left = frame.clone();
        assert!(finish_any(&mut frame, 34, SCTP_FIELD));
        finish_if_left(&mut left);
        assert_eq!(left, frame);
        let found = u32::from_le_bytes(*frame[42..].first_chunk().unwrap());
        frame[42..46].fill(0);
        assert_eq!(found, crc32c(&frame[34..]));
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
