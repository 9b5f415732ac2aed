//! Octets that an SA adds to a packet, and so the largest clear packet of a path (RFC 4303
//! section 2, RFC 4302 section 2).

use super::ah::state::Shape as AhShape;
use super::config::{Mode, SaProtocol};
use super::state::Shape;
use ferrule_crypto::Suite;
use ferrule_wire::{esp, ipv4, ipv6, udp};

/// Properties of an SA that decide how many octets it adds.
#[derive(Clone, Copy, Debug)]
pub struct Overhead {
    /// ESP or AH.
    pub protocol: SaProtocol,
    /// The suite.
    pub suite: Suite,
    /// Tunnel or transport.
    pub mode: Mode,
    /// The ends have IPv6.
    pub v6: bool,
    /// ESP is in UDP.
    pub udp: bool,
    /// Octets to a multiple of which AH is padded over IPv4: 4 or 8.
    pub ah_align: u8,
}

impl Overhead {
    /// The largest clear packet, of plain headers, that is at most `path` octets once it is
    /// sealed.
    pub fn fits(&self, path: usize) -> usize {
        let header = if self.v6 { ipv6::Header::LEN } else { ipv4::Header::LEN };
        let (outer, kept) = match self.mode {
            Mode::Tunnel => (header, 0),
            Mode::Transport => (0, header),
        };
        match self.protocol {
            SaProtocol::Esp => {
                let shape = Shape::new(self.suite, false);
                let in_udp = if self.udp { udp::Header::LEN } else { 0 };
                let front = header + in_udp + esp::Header::LEN + usize::from(shape.iv);
                let room = path.saturating_sub(front + usize::from(shape.icv));
                // Text and trailer fill whole blocks.
                let blocks = room - room % usize::from(shape.align);
                blocks.saturating_sub(esp::TRAILER_LEN) + kept
            }
            SaProtocol::Ah => {
                let shape = AhShape::new(self.suite, false, self.ah_align);
                shape.map_or(0, |shape| path.saturating_sub(outer + shape.header_len(self.v6)))
            }
        }
    }
}
