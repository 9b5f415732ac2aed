//! Reading pcap: a header of 24 octets, then packets, each after one of 16.

use super::read::{Fields, Order, take, take_word};
use super::{CaptureError, Interface, LinkType, MAX_PACKET, Packet, Resolution};
use std::io::Read;

const MICROS: u32 = 0xa1b2_c3d4;
const NANOS: u32 = 0xa1b2_3c4d;

/// A pcap file that is being read.
pub(super) struct Pcap {
    order: Order,
    pub(super) interface: Interface,
}

impl Pcap {
    pub(super) fn open(magic: [u8; 4], input: &mut impl Read) -> Result<Self, CaptureError> {
        let known = |order: Order| match order.u32(magic) {
            MICROS => Some((order, Resolution::MICROS)),
            NANOS => Some((order, Resolution::NANOS)),
            _ => None,
        };
        let (order, resolution) =
            known(Order::Little).or_else(|| known(Order::Big)).ok_or(CaptureError::NotACapture)?;
        let header = take(input, 20)?;
        let mut fields = Fields { order, rest: &header };
        if (fields.u16()?, fields.u16()?) != (2, 4) {
            return Err(CaptureError::Version);
        }
        fields.octets(8)?; // time zone and accuracy, always zero
        let snap_len = fields.u32()?;
        // The high bits may tell the length of an FCS.
        let link = LinkType((fields.u32()? & 0xffff) as u16);
        let interface = Interface { name: String::new(), link, snap_len, resolution };
        Ok(Self { order, interface })
    }

    pub(super) fn next(&mut self, input: &mut impl Read) -> Result<Option<Packet>, CaptureError> {
        let Some(seconds) = take_word(input)? else { return Ok(None) };
        let header = take(input, 12)?;
        let mut fields = Fields { order: self.order, rest: &header };
        let fraction = fields.u32()?;
        let len = fields.u32()? as usize;
        let original_len = fields.u32()?;
        if len > MAX_PACKET {
            return Err(CaptureError::TooLarge);
        }
        let Resolution { per_second, .. } = self.interface.resolution;
        let units = u64::from(self.order.u32(seconds)) * per_second + u64::from(fraction);
        let nanos = self.interface.resolution.nanos(units);
        let data = take(input, len)?;
        Ok(Some(Packet { nanos, original_len, data, ..Packet::default() }))
    }
}
