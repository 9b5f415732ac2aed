//! TCP headers (RFC 9293 section 3.1): the header only.

use crate::Malformed;
use crate::checksum::Ends;
use crate::ip::{Options, Protocol};
use std::fmt;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The control bits, the four reserved ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u16);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x001);
    /// Synchronize sequence numbers.
    pub const SYN: Self = Self(0x002);
    /// Reset.
    pub const RST: Self = Self(0x004);
    /// Push.
    pub const PSH: Self = Self(0x008);
    /// The acknowledgement counts.
    pub const ACK: Self = Self(0x010);
    /// The urgent pointer counts.
    pub const URG: Self = Self(0x020);
    /// Congestion was echoed (RFC 3168).
    pub const ECE: Self = Self(0x040);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x080);

    /// The low twelve bits.
    #[inline]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & 0xfff)
    }

    /// The bits.
    #[inline]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// True if all flags of `other` are set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LETTERS: [(Flags, &str); 8] = [
            (Flags::FIN, "F"),
            (Flags::SYN, "S"),
            (Flags::RST, "R"),
            (Flags::PSH, "P"),
            (Flags::URG, "U"),
            (Flags::ECE, "E"),
            (Flags::CWR, "W"),
            (Flags::ACK, "."),
        ];
        f.write_str("[")?;
        for (flag, letter) in LETTERS {
            if self.contains(flag) {
                f.write_str(letter)?;
            }
        }
        f.write_str("]")
    }
}

/// The view of the fixed part.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// Source port.
    pub src: U16,
    /// Destination port.
    pub dst: U16,
    /// Sequence number.
    pub seq: U32,
    /// Acknowledgement number.
    pub ack: U32,
    /// Header length in words in the high four bits, then the flags.
    pub offset_flags: U16,
    /// Window.
    pub window: U16,
    /// Checksum.
    pub checksum: U16,
    /// Urgent pointer.
    pub urgent: U16,
}

impl Header {
    /// Octets of the fixed part.
    pub const LEN: usize = 20;

    /// Octets of the header as its data offset says.
    #[inline]
    pub const fn header_len(&self) -> usize {
        (self.offset_flags.get() >> 12) as usize * 4
    }

    /// The control bits.
    #[inline]
    pub const fn flags(&self) -> Flags {
        Flags::from_bits(self.offset_flags.get())
    }
}

/// A TCP header without its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Source port.
    pub src: u16,
    /// Destination port.
    pub dst: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Control bits.
    pub flags: Flags,
    /// Window.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options.
    pub options: Options,
}

#[allow(clippy::len_without_is_empty)] // a header is never empty
impl Repr {
    /// Reads a header with its options.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (h, _) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        let len = h.header_len();
        if len < Header::LEN {
            return Err(Malformed::Length);
        }
        let options = bytes.get(Header::LEN..len).ok_or(Malformed::Truncated)?;
        let repr = Self {
            src: h.src.get(),
            dst: h.dst.get(),
            seq: h.seq.get(),
            ack: h.ack.get(),
            flags: h.flags(),
            window: h.window.get(),
            urgent: h.urgent.get(),
            options: Options::new(options).ok_or(Malformed::Length)?,
        };
        Ok((repr, bytes.get(len..).ok_or(Malformed::Truncated)?))
    }

    /// Octets that `emit` writes.
    pub fn len(&self) -> usize {
        Header::LEN + self.options.as_slice().len()
    }

    /// Writes the header, checksum zero, to the front of `buf`, which must hold
    /// `len()` octets.
    pub fn emit(&self, buf: &mut [u8]) {
        let len = self.len();
        let h = Header {
            src: self.src.into(),
            dst: self.dst.into(),
            seq: self.seq.into(),
            ack: self.ack.into(),
            offset_flags: ((len as u16 / 4) << 12 | self.flags.bits()).into(),
            window: self.window.into(),
            checksum: 0.into(),
            urgent: self.urgent.into(),
        };
        buf[..Header::LEN].copy_from_slice(h.as_bytes());
        buf[Header::LEN..len].copy_from_slice(self.options.as_slice());
    }
}

/// True if the checksum of a whole segment is right.
#[inline]
pub fn checksum_ok(ends: &Ends, segment: &[u8]) -> bool {
    segment.len() >= Header::LEN
        && ends.pseudo(Protocol::TCP, segment.len()).with(segment).is_good()
}

/// Writes the checksum of a whole segment, which must hold a header.
#[inline]
pub fn fill_checksum(ends: &Ends, segment: &mut [u8]) {
    segment[16..18].fill(0);
    let sum = ends.pseudo(Protocol::TCP, segment.len()).with(segment).finish();
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TCP {} > {} {} seq {}", self.src, self.dst, self.flags, self.seq)?;
        if self.flags.contains(Flags::ACK) {
            write!(f, " ack {}", self.ack)?;
        }
        write!(f, " win {}", self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::hex;
    use proptest::prelude::*;

    /// SYN with MSS, SACK permitted, timestamps and window scale.
    const EXAMPLE: &str = "c350 0050 01020304 00000000 a002 faf0 0000 0000
                           020405b4 0402080a 00000001 00000000 01030307";
    laws!(EXAMPLE, repair = |_| {}, blank = |b| b[16..18].fill(0));

    #[test]
    fn tcp_header_means_what_an_independent_reader_says() {
        let bytes = hex(EXAMPLE);
        let (repr, _) = Repr::parse(&bytes).unwrap();
        let (other, _) = etherparse::TcpHeader::from_slice(&bytes).unwrap();
        assert_eq!((repr.src, repr.dst), (other.source_port, other.destination_port));
        assert_eq!((repr.seq, repr.ack), (other.sequence_number, other.acknowledgment_number));
        assert_eq!(repr.options.as_slice(), other.options.as_slice());
        assert!(other.syn && !other.ack && repr.flags == Flags::SYN);
        assert_eq!(repr.to_string(), "TCP 50000 > 80 [S] seq 16909060 win 64240");
        let mut bytes = bytes;
        bytes[12] = 0x40;
        assert_eq!(Repr::parse(&bytes).unwrap_err(), Malformed::Length);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn tcp_checksum_equals_an_independent_one(
            src: [u8; 4], dst: [u8; 4], payload in proptest::collection::vec(any::<u8>(), 0..90),
        ) {
            let mut segment = hex(EXAMPLE);
            segment.extend(&payload);
            let ends = Ends::V4(src.into(), dst.into());
            fill_checksum(&ends, &mut segment);
            prop_assert!(checksum_ok(&ends, &segment));
            let (other, _) = etherparse::TcpHeader::from_slice(&segment).unwrap();
            prop_assert_eq!(other.calc_checksum_ipv4_raw(src, dst, &payload).unwrap(), other.checksum);
        }
    }
}
