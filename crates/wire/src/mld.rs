//! Multicast listener discovery for IPv6 (RFC 2710, RFC 3810), an ICMPv6 message behind a
//! hop-by-hop header with a router alert.
//!
//! ```text
//! query, report and done of version 1; query of version 2 has sources behind it:
//! +------+------+----------+------------+----------+-----------+------------------+
//! | type | code | checksum | delay (2)  | zero (2) | group (16)| QRV, QQIC, count |
//! +------+------+----------+------------+----------+-----------+------------------+
//! report of version 2:
//! +------+------+----------+----------+-----------+------------------------------+
//! | type | zero | checksum | zero (2) | count (2) | records: type, lengths, group |
//! +------+------+----------+----------+-----------+------------------------------+
//! ```
//! Of version 2 reports with one record without sources are read and written: a host's
//! report of a group that it wants from all senders.

use crate::Malformed;
use std::fmt;
use std::net::Ipv6Addr;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// ICMPv6 type of a query.
pub const QUERY: u8 = 130;
const REPORT_V1: u8 = 131;
const DONE: u8 = 132;
const REPORT_V2: u8 = 143;

/// True for the ICMPv6 types of listener discovery.
pub const fn is_kind(kind: u8) -> bool {
    matches!(kind, QUERY..=DONE | REPORT_V2)
}

/// Group of all routers that listen for reports of version 2.
pub const REPORTS_GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// The hop limit of every message (RFC 3810 section 5).
pub const HOP_LIMIT: u8 = 1;

/// The hop-by-hop header in front of every message, ICMPv6 behind it (RFC 2711).
pub const ROUTER_ALERT: [u8; 8] = [58, 0, 5, 2, 0, 0, 1, 0];

/// The view of the header that all messages but reports of version 2 share.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// Type of message.
    pub kind: u8,
    /// Zero.
    pub code: u8,
    /// Checksum over pseudo header and message.
    pub checksum: U16,
    /// Within which time to answer, in milliseconds or, of version 2, coded.
    pub delay: U16,
    /// Zero.
    pub reserved: U16,
    /// The group; unspecified in a query for all.
    pub group: [u8; 16],
}

impl Header {
    /// Octets of the header.
    pub const LEN: usize = 24;
}

/// The view of a report of version 2 with one record.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
struct Report {
    kind: u8,
    code: u8,
    checksum: U16,
    reserved: U16,
    count: U16,
    record: u8,
    aux: u8,
    sources: U16,
    group: [u8; 16],
}

/// Type of a group record (RFC 3810 section 5.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    /// An answer to a query: wanted from all senders (MODE_IS_EXCLUDE).
    Listens,
    /// The group is not wanted any more (CHANGE_TO_INCLUDE_MODE).
    Leaves,
    /// The group is wanted from now on (CHANGE_TO_EXCLUDE_MODE).
    Joins,
}

/// Version 2's part of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Querier {
    /// Flags and robustness.
    pub flags: u8,
    /// Interval between its queries, coded.
    pub interval: u8,
    /// Sources that follow.
    pub sources: u16,
}

/// A listener discovery message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repr {
    /// Asks for the listeners of a group, or of all groups.
    Query {
        /// Group that is asked about; unspecified: any.
        group: Ipv6Addr,
        /// Longest time to answer, in the message's coding.
        delay: u16,
        /// Fields of a version 2 query; nothing: a query of version 1.
        v2: Option<Querier>,
    },
    /// A host listens to a group, version 1.
    ReportV1 {
        /// The group.
        group: Ipv6Addr,
    },
    /// A host listens to a group no more, version 1.
    Done {
        /// The group.
        group: Ipv6Addr,
    },
    /// A host's report about a group, version 2.
    ReportV2 {
        /// Type of the group record.
        record: Record,
        /// The group.
        group: Ipv6Addr,
    },
}

impl Repr {
    /// Reads a message whose checksum is right.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        if bytes.first() == Some(&REPORT_V2) {
            return Self::report(bytes);
        }
        let (h, rest) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        let group = Ipv6Addr::from(h.group);
        let repr = match (h.kind, h.code) {
            (QUERY, 0) => {
                let (v2, rest) = match *rest {
                    [] => (None, rest),
                    [flags, interval, high, low, ref sources @ ..] => {
                        let count = u16::from_be_bytes([high, low]);
                        if sources.len() < usize::from(count) * 16 {
                            return Err(Malformed::Truncated);
                        }
                        (Some(Querier { flags, interval, sources: count }), sources)
                    }
                    _ => return Err(Malformed::Length),
                };
                return Ok((Self::Query { group, delay: h.delay.get(), v2 }, rest));
            }
            (REPORT_V1, 0) => Self::ReportV1 { group },
            (DONE, 0) => Self::Done { group },
            _ => return Err(Malformed::Kind),
        };
        Ok((repr, rest))
    }

    fn report(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (h, rest) = Report::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        let record = match h.record {
            2 => Record::Listens,
            3 => Record::Leaves,
            4 => Record::Joins,
            _ => return Err(Malformed::Kind),
        };
        if h.count.get() != 1 || h.aux != 0 || h.sources.get() != 0 {
            return Err(Malformed::Kind);
        }
        Ok((Self::ReportV2 { record, group: h.group.into() }, rest))
    }

    /// Octets that `emit` writes.
    #[allow(clippy::len_without_is_empty)] // a message is never empty
    pub const fn len(&self) -> usize {
        match self {
            Self::Query { v2: Some(_), .. } => Header::LEN + 4,
            Self::ReportV2 { .. } => size_of::<Report>(),
            _ => Header::LEN,
        }
    }

    /// The time within which a query wants to be answered, in milliseconds (RFC 3810
    /// section 5.1.3).
    pub const fn delay_ms(delay: u16, version_2: bool) -> u32 {
        let delay = delay as u32;
        if !version_2 || delay < 0x8000 {
            return delay;
        }
        (delay & 0xfff | 0x1000) << ((delay >> 12 & 7) + 3)
    }

    /// Writes the message, checksum zero, to the front of `buf`, which must hold `len()`
    /// octets; then call [`crate::icmpv6::fill_checksum`].
    pub fn emit(&self, buf: &mut [u8]) {
        let (kind, delay, group) = match *self {
            Self::Query { group, delay, .. } => (QUERY, delay, group),
            Self::ReportV1 { group } => (REPORT_V1, 0, group),
            Self::Done { group } => (DONE, 0, group),
            Self::ReportV2 { record, group } => {
                let record = match record {
                    Record::Listens => 2,
                    Record::Leaves => 3,
                    Record::Joins => 4,
                };
                let report = Report {
                    kind: REPORT_V2,
                    code: 0,
                    checksum: 0.into(),
                    reserved: 0.into(),
                    count: 1.into(),
                    record,
                    aux: 0,
                    sources: 0.into(),
                    group: group.octets(),
                };
                return buf[..size_of::<Report>()].copy_from_slice(report.as_bytes());
            }
        };
        let (zero, group) = (U16::ZERO, group.octets());
        let h =
            Header { kind, code: 0, checksum: zero, delay: delay.into(), reserved: zero, group };
        buf[..Header::LEN].copy_from_slice(h.as_bytes());
        if let Self::Query { v2: Some(Querier { flags, interval, sources }), .. } = *self {
            let [high, low] = sources.to_be_bytes();
            buf[Header::LEN..Header::LEN + 4].copy_from_slice(&[flags, interval, high, low]);
        }
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Query { group, v2, .. } => {
                let version = if v2.is_some() { 2 } else { 1 };
                match group.is_unspecified() {
                    true => write!(f, "MLDv{version} who listens to any group"),
                    false => write!(f, "MLDv{version} who listens to {group}"),
                }
            }
            Self::ReportV1 { group } => write!(f, "MLDv1 listens to {group}"),
            Self::Done { group } => write!(f, "MLDv1 leaves {group}"),
            Self::ReportV2 { record: Record::Listens, group } => {
                write!(f, "MLDv2 listens to {group}")
            }
            Self::ReportV2 { record: Record::Leaves, group } => write!(f, "MLDv2 leaves {group}"),
            Self::ReportV2 { record: Record::Joins, group } => write!(f, "MLDv2 joins {group}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::hex;

    const GROUP: &str = "ff0200000000000000000001ff000001";
    const EXAMPLE: &str = "8f00 0000 0000 0001 04 00 0000 ff0200000000000000000001ff000001";
    laws!(EXAMPLE, repair = |_| {}, blank = |b| b[2..4].fill(0));

    mod query {
        use super::*;
        const EXAMPLE: &str = "8200 0000 2710 0000 00000000000000000000000000000000 \
            02 7d 0001 20010db8000000000000000000000009";
        laws!(EXAMPLE, repair = |_| {}, blank = |b| b[2..4].fill(0));
    }

    #[test]
    fn listener_messages_have_names() {
        let read = |text: &str| Repr::parse(&hex(text)).map(|(repr, _)| repr.to_string());
        assert_eq!(read(EXAMPLE).unwrap(), "MLDv2 joins ff02::1:ff00:1");
        let of = |head: &str, rest: &str| read(&format!("{head}{GROUP}{rest}"));
        for (head, rest, name) in [
            ("8200000000000000", "", "MLDv1 who listens to ff02::1:ff00:1"),
            ("8200000000000000", "027d0000", "MLDv2 who listens to ff02::1:ff00:1"),
            ("8300000000000000", "", "MLDv1 listens to ff02::1:ff00:1"),
            ("8400000000000000", "", "MLDv1 leaves ff02::1:ff00:1"),
            ("8f0000000000000102000000", "", "MLDv2 listens to ff02::1:ff00:1"),
            ("8f0000000000000103000000", "", "MLDv2 leaves ff02::1:ff00:1"),
        ] {
            assert_eq!(of(head, rest).unwrap(), name);
        }
        let none = format!("8200000000000000{}", "00".repeat(16));
        assert_eq!(read(&none).unwrap(), "MLDv1 who listens to any group");
        // Fewer sources than it says; a query that is neither of one version nor the other.
        assert_eq!(of("8200000000000000", "02000001").unwrap_err(), Malformed::Truncated);
        assert_eq!(of("8200000000000000", "0200").unwrap_err(), Malformed::Length);
        assert_eq!(of("8500000000000000", "").unwrap_err(), Malformed::Kind);
    }

    #[test]
    fn query_delays_are_those_of_rfc_3810_section_5_1_3() {
        assert_eq!(Repr::delay_ms(10_000, true), 10_000);
        assert_eq!(Repr::delay_ms(0x7fff, true), 32_767);
        assert_eq!(Repr::delay_ms(0x8000, true), 0x1000 << 3);
        assert_eq!(Repr::delay_ms(0xffff, true), 0x1fff << 10);
        assert_eq!(Repr::delay_ms(0xffff, false), 65_535);
    }
}
