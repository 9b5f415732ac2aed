//! Writing pcapng, little-endian, with times in nanoseconds.

use super::pcapng::{BYTE_ORDER, ENHANCED_PACKET, INTERFACE, SECRETS, SECTION_HEADER, option};
use super::{Direction, Interface, MAX_PACKET, Packet, SecretsKind};
use std::io::{self, Write};

/// Writes one section of pcapng. Put a `BufWriter` below it.
pub struct Writer<W> {
    output: W,
    interfaces: u32,
    /// The block being made; kept for its memory.
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a section, written by `application`.
    pub fn new(output: W, application: &str) -> io::Result<Self> {
        let mut this = Self { output, interfaces: 0, block: Vec::new() };
        this.begin(SECTION_HEADER);
        this.u32(BYTE_ORDER);
        this.u16(1);
        this.u16(0);
        this.block.extend([0xff; 8]); // the section's length is not known
        this.option(option::SECTION_APPLICATION, application.as_bytes());
        this.end_options();
        this.finish()?;
        Ok(this)
    }

    /// Describes the next interface; packets name it by the index returned.
    pub fn interface(&mut self, interface: &Interface) -> io::Result<u32> {
        self.begin(INTERFACE);
        self.u16(interface.link.0);
        self.u16(0);
        self.u32(interface.snap_len);
        if !interface.name.is_empty() {
            self.option(option::INTERFACE_NAME, interface.name.as_bytes());
        }
        self.option(option::INTERFACE_RESOLUTION, &[9]);
        self.end_options();
        self.finish()?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Writes secrets, which must come before the packets that need them.
    pub fn secrets(&mut self, kind: SecretsKind, secrets: &[u8]) -> io::Result<()> {
        let len = u32::try_from(secrets.len()).map_err(|_| invalid("secrets are too long"))?;
        self.begin(SECRETS);
        self.u32(kind.0);
        self.u32(len);
        self.octets(secrets);
        self.finish()
    }

    /// Writes a packet of an interface that was described.
    pub fn packet(&mut self, packet: &Packet) -> io::Result<()> {
        let comments: Vec<&str> = packet.comments.iter().map(String::as_str).collect();
        let Packet { interface, nanos, original_len, direction, .. } = *packet;
        self.write(interface, nanos, direction, original_len, &packet.data, &comments)
    }

    /// Writes a packet without owning it: the whole of `data`, or its front if
    /// `original_len` says so.
    pub fn write(
        &mut self,
        interface: u32,
        nanos: u64,
        direction: Option<Direction>,
        original_len: u32,
        data: &[u8],
        comments: &[&str],
    ) -> io::Result<()> {
        if interface >= self.interfaces {
            return Err(invalid("the interface was not described"));
        }
        if data.len() > MAX_PACKET {
            return Err(invalid("the packet is too long"));
        }
        self.begin(ENHANCED_PACKET);
        self.u32(interface);
        self.u32((nanos >> 32) as u32);
        self.u32(nanos as u32);
        self.u32(data.len() as u32);
        self.u32(original_len);
        self.octets(data);
        for comment in comments {
            self.option(option::COMMENT, comment.as_bytes());
        }
        if let Some(direction) = direction {
            let flags: u32 = match direction {
                Direction::Inbound => 1,
                Direction::Outbound => 2,
            };
            self.option(option::PACKET_FLAGS, &flags.to_le_bytes());
        }
        if !comments.is_empty() || direction.is_some() {
            self.end_options();
        }
        self.finish()
    }

    /// Writes out octets that are buffered below.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    /// Gives back the underlying writer.
    pub fn into_inner(self) -> W {
        self.output
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.u32(kind);
        self.u32(0);
    }

    /// Both lengths, and out.
    fn finish(&mut self) -> io::Result<()> {
        let len = u32::try_from(self.block.len() + 4).map_err(|_| invalid("too long"))?;
        self.u32(len);
        self.block[4..8].copy_from_slice(&len.to_le_bytes());
        self.output.write_all(&self.block)
    }

    fn u16(&mut self, value: u16) {
        self.block.extend(value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.block.extend(value.to_le_bytes());
    }

    /// Octets, padded to a multiple of four.
    fn octets(&mut self, octets: &[u8]) {
        self.block.extend_from_slice(octets);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// An option, cut to the largest length that its field can express.
    fn option(&mut self, code: u16, value: &[u8]) {
        let len = value.len().min(usize::from(u16::MAX));
        self.u16(code);
        self.u16(len as u16);
        self.octets(value.get(..len).unwrap_or_default());
    }

    fn end_options(&mut self) {
        self.u16(option::END);
        self.u16(0);
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
