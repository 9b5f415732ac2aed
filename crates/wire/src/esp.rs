//! ESP, the encapsulating security payload (RFC 4303 section 2).
//!
//! ```text
//! +-----+-----+----+---------+-----------+--------+------+-----+
//! | SPI | seq | IV | payload | 1 2 3 ... | padlen | next | ICV |
//! +-----+-----+----+---------+-----------+--------+------+-----+
//!   4     4     n              0 to 255     1        1      m
//! ```
//! Lengths of IV and ICV are the SA's, so the format here is the header, and
//! the trailer once it is in clear.

use crate::Malformed;
use crate::ip::Protocol;
use std::fmt;
use zerocopy::byteorder::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Octets of pad length and next header.
pub const TRAILER_LEN: usize = 2;

/// Pad octets are 1, 2, 3, ... (RFC 4303 section 2.4).
const PAD: [u8; 255] = {
    let mut pad = [0; 255];
    let mut n = 0;
    while n < 255 {
        pad[n] = n as u8 + 1;
        n += 1;
    }
    pad
};

/// The first eight of them.
const PAD_WORD: u64 = 0x0102_0304_0506_0708;

/// The view of a header.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// Security parameters index.
    pub spi: U32,
    /// Sequence number, of an extended one the low half.
    pub seq: U32,
}

impl Header {
    /// Octets of the header.
    pub const LEN: usize = 8;
}

/// An ESP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Security parameters index; zero is never on the wire (RFC 4303
    /// section 2.1).
    pub spi: u32,
    /// Sequence number, of an extended one the low half.
    pub seq: u32,
}

#[allow(clippy::len_without_is_empty)] // a header is never empty
impl Repr {
    /// Reads a header; the payload is all that follows, ICV included.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (h, payload) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        if h.spi.get() == 0 {
            return Err(Malformed::Reserved);
        }
        Ok((Self { spi: h.spi.get(), seq: h.seq.get() }, payload))
    }

    /// Octets that `emit` writes.
    pub const fn len(&self) -> usize {
        Header::LEN
    }

    /// Writes the header to the front of `buf`, which must hold `len()` octets.
    pub fn emit(&self, buf: &mut [u8]) {
        let h = Header { spi: self.spi.into(), seq: self.seq.into() };
        buf[..Header::LEN].copy_from_slice(h.as_bytes());
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ESP spi {:#010x} seq {}", self.spi, self.seq)
    }
}

/// Pad octets after `payload` octets so that trailer and payload fill blocks
/// of `block` octets, a power of two of at least 4 and at most 256.
#[inline]
pub const fn pad_len(payload: usize, block: usize) -> usize {
    (payload + TRAILER_LEN).wrapping_neg() & (block - 1)
}

/// Fills `trailer`, which must hold 2 to 257 octets, with padding, pad length
/// and next header.
#[inline]
pub fn emit_trailer(trailer: &mut [u8], next: Protocol) {
    let pad = trailer.len() - TRAILER_LEN;
    trailer[..pad].copy_from_slice(&PAD[..pad]);
    trailer[pad] = pad as u8;
    trailer[pad + 1] = next.0;
}

/// Reads the trailer at the end of an opened packet: octets of the payload before it, and
/// its next header. The padding must be 1, 2, 3, ...
#[inline]
pub fn parse_trailer(opened: &[u8]) -> Result<(usize, Protocol), Malformed> {
    let &[ref rest @ .., pad, next] = opened else { return Err(Malformed::EspTrailer) };
    let pad = usize::from(pad);
    let payload = rest.len().checked_sub(pad).ok_or(Malformed::EspTrailer)?;
    let good = match rest.last_chunk() {
        // As one word, which ends with the padding.
        Some(word) if pad <= 8 => {
            let unlike = u64::from_be_bytes(*word) ^ PAD_WORD.unbounded_shr(64 - 8 * pad as u32);
            unlike.unbounded_shl(64 - 8 * pad as u32) == 0
        }
        _ => rest.get(payload..) == PAD.get(..pad),
    };
    if good { Ok((payload, Protocol(next))) } else { Err(Malformed::EspTrailer) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::hex;
    use proptest::prelude::*;

    const EXAMPLE: &str = "64efb5bf 00000001 407e5fc2";
    laws!(EXAMPLE);

    #[test]
    fn esp_header_of_a_captured_packet() {
        let (repr, _) = Repr::parse(&hex(EXAMPLE)).unwrap();
        assert_eq!(repr.to_string(), "ESP spi 0x64efb5bf seq 1");
        assert_eq!(Repr::parse(&[0; 8]).unwrap_err(), Malformed::Reserved);
    }

    #[test]
    fn esp_padding_must_count_from_one() {
        assert_eq!(parse_trailer(&hex("aabb 01 02 03 03 04")), Ok((2, Protocol::IPV4)));
        assert_eq!(parse_trailer(&hex("00 3b")), Ok((0, Protocol::NONE)));
        for bad in ["", "04", "aa 01 02 02 03 04", "aa 00 01 04", "03 04", "01 02 ff 04"] {
            assert_eq!(parse_trailer(&hex(bad)), Err(Malformed::EspTrailer), "{bad}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn esp_trailers_fill_blocks_and_read_back(
            payload in proptest::collection::vec(any::<u8>(), 0..300), shift in 2u32..9, next: u8,
        ) {
            let block = 1usize << shift;
            let pad = pad_len(payload.len(), block);
            prop_assert!(pad < block);
            let mut bytes = payload.clone();
            bytes.resize(payload.len() + pad + TRAILER_LEN, 0);
            emit_trailer(&mut bytes[payload.len()..], Protocol(next));
            prop_assert_eq!(bytes.len() % block, 0);
            prop_assert_eq!(parse_trailer(&bytes), Ok((payload.len(), Protocol(next))));
        }

        #[test]
        fn any_opened_octets_have_a_trailer_or_not(
            bytes in proptest::collection::vec(0u8..6, 0..40),
        ) {
            if let Ok((payload, _)) = parse_trailer(&bytes) {
                prop_assert!(payload + TRAILER_LEN <= bytes.len());
            }
        }
    }
}
