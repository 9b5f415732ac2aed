//! Capture files: pcap and pcapng are read, pcapng is written.
//!
//! ```text
//! Reader::new(io::Read)   ─▶ next() ─▶ Packet { interface, nanos, data, comments, ... }
//! Writer::new(io::Write)  ─▶ interface(), packet(), secrets()
//! ```
//! pcapng is draft-ietf-opsawg-pcapng, pcap is draft-ietf-opsawg-pcap. Files
//! come from anywhere, so all that a reader keeps has a bound.

mod error;
mod pcap;
mod pcapng;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub use error::CaptureError;
pub use read::Reader;
pub use write::Writer;

/// Octets of the largest block that is read.
pub const MAX_BLOCK: usize = 16 << 20;
/// Octets of the largest packet that is read.
pub const MAX_PACKET: usize = 256 << 10;
/// Interfaces of one section.
pub const MAX_INTERFACES: usize = 1024;
/// Options of one block.
pub const MAX_OPTIONS: usize = 256;
/// Sets of secrets that are kept.
pub const MAX_SECRETS: usize = 64;

/// Link layer of an interface, that is the first header of its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// IPv4 or IPv6, told apart by the version.
    pub const RAW: Self = Self(101);
}

/// Format of decryption secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SecretsKind(pub u32);

impl SecretsKind {
    /// A TLS key log.
    pub const TLS: Self = Self(0x544c_534b);
    /// A WireGuard key log.
    pub const WIREGUARD: Self = Self(0x5747_4b4c);
}

/// Direction of a packet at the capturing interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Into the node.
    Inbound,
    /// Out of the node.
    Outbound,
}

/// Interface on which packets were captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name; empty if unknown.
    pub name: String,
    /// First header of its frames.
    pub link: LinkType,
    /// Octets of a packet that are kept, 0 for all.
    pub snap_len: u32,
    resolution: Resolution,
}

impl Interface {
    /// An interface whose packets are kept whole, with times in nanoseconds.
    pub fn new(name: &str, link: LinkType) -> Self {
        Self { name: name.to_owned(), link, snap_len: 0, resolution: Resolution::NANOS }
    }

    /// An Ethernet interface.
    pub fn ethernet(name: &str) -> Self {
        Self::new(name, LinkType::ETHERNET)
    }
}

/// A captured packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Index of its interface in the section.
    pub interface: u32,
    /// Nanoseconds since 1970-01-01 00:00 UTC.
    pub nanos: u64,
    /// Octets that it had on the wire.
    pub original_len: u32,
    /// The octets that were kept.
    pub data: Vec<u8>,
    /// Direction, if known.
    pub direction: Option<Direction>,
    /// Comments attached to the packet.
    pub comments: Vec<String>,
}

impl Packet {
    /// A whole packet.
    pub fn new(interface: u32, nanos: u64, data: Vec<u8>) -> Self {
        let original_len = u32::try_from(data.len()).unwrap_or(u32::MAX);
        Self { interface, nanos, original_len, data, ..Self::default() }
    }
}

/// Unit and origin of an interface's time stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Resolution {
    /// Units in a second.
    per_second: u64,
    /// Seconds to add.
    offset: i64,
}

impl Resolution {
    const MICROS: Self = Self { per_second: 1_000_000, offset: 0 };
    const NANOS: Self = Self { per_second: 1_000_000_000, offset: 0 };

    /// A time stamp in nanoseconds; one that does not fit becomes the nearest that does.
    fn nanos(self, units: u64) -> u64 {
        const SECOND: i128 = 1_000_000_000;
        let since = i128::from(units) * SECOND / i128::from(self.per_second);
        let nanos = since + i128::from(self.offset) * SECOND;
        u64::try_from(nanos.max(0)).unwrap_or(u64::MAX)
    }
}
