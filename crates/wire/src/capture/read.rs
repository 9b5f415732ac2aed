//! The reader of both formats, and their common part: octets in either order.

use super::pcap::Pcap;
use super::pcapng::Pcapng;
use super::{CaptureError, Interface, MAX_BLOCK, Packet, SecretsKind};
use std::io::Read;

/// The order of the octets in the file's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    pub(super) const fn u16(self, b: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(b),
            Self::Big => u16::from_be_bytes(b),
        }
    }

    pub(super) const fn u32(self, b: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(b),
            Self::Big => u32::from_be_bytes(b),
        }
    }

    pub(super) const fn u64(self, b: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(b),
            Self::Big => u64::from_be_bytes(b),
        }
    }
}

/// Takes numbers and octets from the front of a block.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) order: Order,
    pub(super) rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], CaptureError> {
        let (chunk, rest) = self.rest.split_first_chunk::<N>().ok_or(CaptureError::Length)?;
        self.rest = rest;
        Ok(*chunk)
    }

    pub(super) fn u16(&mut self) -> Result<u16, CaptureError> {
        Ok(self.order.u16(self.chunk()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, CaptureError> {
        Ok(self.order.u32(self.chunk()?))
    }

    pub(super) fn octets(&mut self, len: usize) -> Result<&'a [u8], CaptureError> {
        let (octets, rest) = self.rest.split_at_checked(len).ok_or(CaptureError::Length)?;
        self.rest = rest;
        Ok(octets)
    }

    /// Octets that are padded to a multiple of four. The padding may be absent
    /// at the end of a block.
    pub(super) fn padded(&mut self, len: usize) -> Result<&'a [u8], CaptureError> {
        let octets = self.octets(len)?;
        let pad = len.wrapping_neg() & 3;
        self.rest = self.rest.get(pad..).unwrap_or_default();
        Ok(octets)
    }
}

/// Reads `len` octets. Memory grows with the octets that arrive, not with a length field.
pub(super) fn take(input: &mut impl Read, len: usize) -> Result<Vec<u8>, CaptureError> {
    if len > MAX_BLOCK {
        return Err(CaptureError::TooLarge);
    }
    let mut out = Vec::new();
    input.take(len as u64).read_to_end(&mut out)?;
    if out.len() == len { Ok(out) } else { Err(CaptureError::Truncated) }
}

/// Reads four octets, or nothing at the end of the file.
pub(super) fn take_word(input: &mut impl Read) -> Result<Option<[u8; 4]>, CaptureError> {
    let mut word = Vec::with_capacity(4);
    input.take(4).read_to_end(&mut word)?;
    match word.first_chunk::<4>() {
        Some(word) => Ok(Some(*word)),
        None if word.is_empty() => Ok(None),
        None => Err(CaptureError::Truncated),
    }
}

enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

/// Reads the packets of a pcap or pcapng file. Put a `BufReader` below it.
pub struct Reader<R> {
    input: R,
    format: Format,
    failed: bool,
}

impl<R: Read> Reader<R> {
    /// Recognises the format by the first octets.
    pub fn new(mut input: R) -> Result<Self, CaptureError> {
        let magic = take_word(&mut input)?.ok_or(CaptureError::NotACapture)?;
        let format = if magic == super::pcapng::SECTION_HEADER.to_be_bytes() {
            Format::Pcapng(Pcapng::open(&mut input)?)
        } else {
            Format::Pcap(Pcap::open(magic, &mut input)?)
        };
        Ok(Self { input, format, failed: false })
    }

    /// Interfaces of the section that was read last, as far as they are known.
    pub fn interfaces(&self) -> &[Interface] {
        match &self.format {
            Format::Pcap(pcap) => std::slice::from_ref(&pcap.interface),
            Format::Pcapng(pcapng) => &pcapng.interfaces,
        }
    }

    /// Decryption secrets that were read so far.
    pub fn secrets(&self) -> &[(SecretsKind, Vec<u8>)] {
        match &self.format {
            Format::Pcap(_) => &[],
            Format::Pcapng(pcapng) => &pcapng.secrets,
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Packet, CaptureError>;

    /// The next packet; after an error there are no more.
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.input),
            Format::Pcapng(pcapng) => pcapng.next(&mut self.input),
        };
        self.failed = next.is_err();
        next.transpose()
    }
}
