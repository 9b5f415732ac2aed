//! Reading pcapng: blocks of type, length, body and the length again.

use super::read::{Fields, Order, take, take_word};
use super::{
    CaptureError, Direction, Interface, LinkType, MAX_BLOCK, MAX_INTERFACES, MAX_OPTIONS,
    MAX_PACKET, MAX_SECRETS, Packet, Resolution, SecretsKind,
};
use std::io::Read;

pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
pub(super) const BYTE_ORDER: u32 = 0x1a2b_3c4d;
pub(super) const INTERFACE: u32 = 1;
pub(super) const OLD_PACKET: u32 = 2;
pub(super) const SIMPLE_PACKET: u32 = 3;
pub(super) const ENHANCED_PACKET: u32 = 6;
pub(super) const SECRETS: u32 = 10;

/// Codes of options, each with a meaning in its block alone but the comment.
pub(super) mod option {
    pub const END: u16 = 0;
    pub const COMMENT: u16 = 1;
    pub const PACKET_FLAGS: u16 = 2;
    pub const INTERFACE_NAME: u16 = 2;
    pub const SECTION_APPLICATION: u16 = 4;
    pub const INTERFACE_RESOLUTION: u16 = 9;
    pub const INTERFACE_OFFSET: u16 = 14;
}

/// A pcapng file that is being read.
pub(super) struct Pcapng {
    order: Order,
    pub(super) interfaces: Vec<Interface>,
    pub(super) secrets: Vec<(SecretsKind, Vec<u8>)>,
}

impl Pcapng {
    /// Reads the first section header, after its block type.
    pub(super) fn open(input: &mut impl Read) -> Result<Self, CaptureError> {
        let mut this = Self { order: Order::Little, interfaces: Vec::new(), secrets: Vec::new() };
        this.section(input)?;
        Ok(this)
    }

    /// A section may have another order of octets, and has interfaces of its
    /// own. Its length comes before that order is known.
    fn section(&mut self, input: &mut impl Read) -> Result<(), CaptureError> {
        let head = take(input, 8)?;
        let Some((&len, &magic)) = head.first_chunk::<4>().zip(head.last_chunk::<4>()) else {
            return Err(CaptureError::Truncated);
        };
        self.order = match (Order::Little.u32(magic), Order::Big.u32(magic)) {
            (BYTE_ORDER, _) => Order::Little,
            (_, BYTE_ORDER) => Order::Big,
            _ => return Err(CaptureError::NotACapture),
        };
        let body = self.body(len, 12, input)?;
        let mut fields = Fields { order: self.order, rest: &body };
        if fields.u16()? != 1 {
            return Err(CaptureError::Version);
        }
        self.interfaces.clear();
        Ok(())
    }

    /// The rest of a block of which `had` octets were read, without the length
    /// at its end.
    fn body(
        &self,
        len: [u8; 4],
        had: usize,
        input: &mut impl Read,
    ) -> Result<Vec<u8>, CaptureError> {
        let total = self.order.u32(len) as usize;
        if total > MAX_BLOCK {
            return Err(CaptureError::TooLarge);
        }
        let rest = total.checked_sub(had + 4).ok_or(CaptureError::Length)?;
        if !total.is_multiple_of(4) {
            return Err(CaptureError::Length);
        }
        let body = take(input, rest)?;
        if take(input, 4)? != len {
            return Err(CaptureError::Length);
        }
        Ok(body)
    }

    /// Reads blocks up to the next packet. Blocks of unknown types are skipped.
    pub(super) fn next(&mut self, input: &mut impl Read) -> Result<Option<Packet>, CaptureError> {
        while let Some(word) = take_word(input)? {
            // The type of a section header reads the same in both orders.
            let kind = self.order.u32(word);
            if kind == SECTION_HEADER {
                self.section(input)?;
                continue;
            }
            let Some(len) = take_word(input)? else { return Err(CaptureError::Truncated) };
            let body = self.body(len, 8, input)?;
            let fields = Fields { order: self.order, rest: &body };
            match kind {
                INTERFACE => self.interface(fields)?,
                OLD_PACKET | ENHANCED_PACKET => return self.packet(kind, fields).map(Some),
                SIMPLE_PACKET => return self.simple(fields).map(Some),
                SECRETS => self.secrets(fields)?,
                _ => {}
            }
        }
        Ok(None)
    }

    fn interface(&mut self, mut fields: Fields<'_>) -> Result<(), CaptureError> {
        if self.interfaces.len() >= MAX_INTERFACES {
            return Err(CaptureError::TooLarge);
        }
        let link = LinkType(fields.u16()?);
        fields.u16()?;
        let snap_len = fields.u32()?;
        let mut out =
            Interface { name: String::new(), link, snap_len, resolution: Resolution::MICROS };
        let order = fields.order;
        options(fields, |code, value| match (code, value) {
            (option::INTERFACE_NAME, name) => out.name = text(name),
            (option::INTERFACE_RESOLUTION, &[exponent, ..]) => {
                out.resolution.per_second = units(exponent);
            }
            (option::INTERFACE_OFFSET, value) => {
                if let Some(&value) = value.first_chunk::<8>() {
                    out.resolution.offset = order.u64(value).cast_signed();
                }
            }
            _ => {}
        })?;
        self.interfaces.push(out);
        Ok(())
    }

    fn packet(&self, kind: u32, mut fields: Fields<'_>) -> Result<Packet, CaptureError> {
        let index = if kind == OLD_PACKET {
            let index = fields.u16()?;
            fields.u16()?; // dropped packets
            u32::from(index)
        } else {
            fields.u32()?
        };
        let interface =
            self.interfaces.get(index as usize).ok_or(CaptureError::UnknownInterface)?;
        let units = u64::from(fields.u32()?) << 32 | u64::from(fields.u32()?);
        let len = fields.u32()? as usize;
        let original_len = fields.u32()?;
        if len > MAX_PACKET {
            return Err(CaptureError::TooLarge);
        }
        let data = fields.padded(len)?.to_vec();
        let nanos = interface.resolution.nanos(units);
        let mut out = Packet { interface: index, nanos, original_len, data, ..Packet::default() };
        let order = fields.order;
        options(fields, |code, value| match code {
            option::COMMENT => out.comments.push(text(value)),
            option::PACKET_FLAGS => {
                out.direction = value.first_chunk().and_then(|&f| match order.u32(f) & 3 {
                    1 => Some(Direction::Inbound),
                    2 => Some(Direction::Outbound),
                    _ => None,
                });
            }
            _ => {}
        })?;
        Ok(out)
    }

    /// A packet of the first interface, without time.
    fn simple(&self, mut fields: Fields<'_>) -> Result<Packet, CaptureError> {
        let interface = self.interfaces.first().ok_or(CaptureError::UnknownInterface)?;
        let original_len = fields.u32()?;
        let limit = if interface.snap_len == 0 { u32::MAX } else { interface.snap_len };
        let len = original_len.min(limit) as usize;
        if len > MAX_PACKET {
            return Err(CaptureError::TooLarge);
        }
        let data = fields.octets(len)?.to_vec();
        Ok(Packet { original_len, data, ..Packet::default() })
    }

    fn secrets(&mut self, mut fields: Fields<'_>) -> Result<(), CaptureError> {
        if self.secrets.len() >= MAX_SECRETS {
            return Err(CaptureError::TooLarge);
        }
        let kind = SecretsKind(fields.u32()?);
        let len = fields.u32()? as usize;
        self.secrets.push((kind, fields.padded(len)?.to_vec()));
        Ok(())
    }
}

/// Hands each option to `each`.
fn options(mut fields: Fields<'_>, mut each: impl FnMut(u16, &[u8])) -> Result<(), CaptureError> {
    for _ in 0..MAX_OPTIONS {
        // No options at all, and options without an end, are both allowed.
        if fields.rest.is_empty() {
            return Ok(());
        }
        let (code, len) = (fields.u16()?, fields.u16()?);
        if code == option::END {
            return Ok(());
        }
        each(code, fields.padded(usize::from(len))?);
    }
    Err(CaptureError::TooLarge)
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

/// Units in a second for an exponent of 10, or with the high bit of 2. An exponent that
/// does not fit becomes the finest that does.
fn units(exponent: u8) -> u64 {
    let base: u64 = if exponent & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow(u32::from(exponent & 0x7f)).unwrap_or(u64::MAX)
}
