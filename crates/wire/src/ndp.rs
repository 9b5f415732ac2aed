//! Neighbour discovery for IPv6 (RFC 4861 section 4), an ICMPv6 message.
//!
//! ```text
//! +------+------+----------+-----------------+-------------------------+
//! | type | code | checksum | fixed part      | options: type, length/8 |
//! +------+------+----------+-----------------+-------------------------+
//! ```
//! Options that are unknown are skipped, as section 4.6 wants; one of length
//! zero makes the message invalid. All octets belong to the message, so the
//! payload is always empty.

use crate::Malformed;
use ferrule_base::MacAddr;
use std::fmt;
use std::net::Ipv6Addr;
use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first ICMPv6 type of neighbour discovery.
pub const FIRST: u8 = 133;
/// The last one.
pub const LAST: u8 = 137;
/// Prefixes of an advertisement that are kept; further ones are skipped.
pub const MAX_PREFIXES: usize = 4;
/// The hop limit that every message must arrive with (RFC 4861 section 6.1).
pub const HOP_LIMIT: u8 = 255;

const SOURCE_LINK: u8 = 1;
const TARGET_LINK: u8 = 2;
const PREFIX: u8 = 3;
const MTU: u8 = 5;

/// The type of a neighbour advertisement.
pub const ADVERTISEMENT: u8 = 136;

/// The view of the header that all messages share.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// Type of message.
    pub kind: u8,
    /// Zero.
    pub code: u8,
    /// Checksum over pseudo header and message.
    pub checksum: U16,
    /// Flags, or in an advertisement of a router hop limit, flags, lifetime.
    pub rest: [u8; 4],
}

impl Header {
    /// Octets of the common part.
    pub const LEN: usize = 8;
}

/// A prefix information option (RFC 4861 section 4.6.2), from its third octet.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
struct PrefixOption {
    len: u8,
    flags: u8,
    valid: U32,
    preferred: U32,
    reserved: U32,
    prefix: [u8; 16],
}

/// A prefix that a router announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The prefix; its bits after `len` are ignored.
    pub prefix: Ipv6Addr,
    /// Its bits, up to 128.
    pub len: u8,
    /// Its addresses are neighbours.
    pub on_link: bool,
    /// Hosts may make addresses of it.
    pub autonomous: bool,
    /// Seconds that it is valid.
    pub valid_secs: u32,
    /// Seconds that it is preferred.
    pub preferred_secs: u32,
}

/// A neighbour discovery message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repr {
    /// Routers, show yourselves.
    RouterSolicitation {
        /// The sender's link-layer address.
        source_link: Option<MacAddr>,
    },
    /// A router and what it knows about the link.
    RouterAdvertisement {
        /// Hop limit for hosts to use, 0 for no opinion.
        hop_limit: u8,
        /// Addresses come from DHCPv6.
        managed: bool,
        /// Other settings come from DHCPv6.
        other: bool,
        /// Seconds as a default router, 0 for none.
        lifetime_secs: u16,
        /// Milliseconds that a neighbour is reachable, 0 for no opinion.
        reachable_ms: u32,
        /// Milliseconds between solicitations, 0 for no opinion.
        retrans_ms: u32,
        /// The sender's link-layer address.
        source_link: Option<MacAddr>,
        /// The link's MTU.
        mtu: Option<u32>,
        /// Prefixes, from the front.
        prefixes: [Option<Prefix>; MAX_PREFIXES],
    },
    /// Asks for the link-layer address of the target.
    NeighbourSolicitation {
        /// The address in question.
        target: Ipv6Addr,
        /// The sender's link-layer address.
        source_link: Option<MacAddr>,
    },
    /// The sender has the target address.
    NeighbourAdvertisement {
        /// The address in question.
        target: Ipv6Addr,
        /// The sender is a router.
        router: bool,
        /// This answers a solicitation.
        solicited: bool,
        /// Replace the cached address.
        override_cache: bool,
        /// The target's link-layer address.
        target_link: Option<MacAddr>,
    },
    /// There is a better first hop.
    Redirect {
        /// The better first hop.
        target: Ipv6Addr,
        /// Destination that is better reached by that hop.
        destination: Ipv6Addr,
        /// The hop's link-layer address.
        target_link: Option<MacAddr>,
    },
}

/// The options of a message that mean something here.
#[derive(Default)]
struct Options {
    source_link: Option<MacAddr>,
    target_link: Option<MacAddr>,
    mtu: Option<u32>,
    prefixes: [Option<Prefix>; MAX_PREFIXES],
}

impl Options {
    /// Reads them; each is 8 octets or more, so the loop ends.
    fn parse(mut bytes: &[u8]) -> Result<Self, Malformed> {
        let mut out = Self::default();
        let mut free = out.prefixes.iter_mut();
        while let &[kind, words, ..] = bytes {
            let len = usize::from(words) * 8;
            let data = bytes.get(2..len).ok_or(Malformed::Length)?;
            bytes = bytes.get(len..).ok_or(Malformed::Length)?;
            match kind {
                SOURCE_LINK => out.source_link = link(data).or(out.source_link),
                TARGET_LINK => out.target_link = link(data).or(out.target_link),
                MTU => {
                    if let &[_, _, a, b, c, d] = data {
                        out.mtu = Some(u32::from_be_bytes([a, b, c, d]));
                    }
                }
                PREFIX => {
                    let (p, _) =
                        PrefixOption::ref_from_prefix(data).map_err(|_| Malformed::Length)?;
                    if p.len <= 128
                        && let Some(slot) = free.next()
                    {
                        *slot = Some(p.read());
                    }
                }
                _ => {}
            }
        }
        if bytes.is_empty() { Ok(out) } else { Err(Malformed::Length) }
    }
}

impl PrefixOption {
    fn read(&self) -> Prefix {
        Prefix {
            prefix: self.prefix.into(),
            len: self.len,
            on_link: self.flags & 0x80 != 0,
            autonomous: self.flags & 0x40 != 0,
            valid_secs: self.valid.get(),
            preferred_secs: self.preferred.get(),
        }
    }

    fn write(p: &Prefix) -> Self {
        Self {
            len: p.len,
            flags: u8::from(p.on_link) << 7 | u8::from(p.autonomous) << 6,
            valid: p.valid_secs.into(),
            preferred: p.preferred_secs.into(),
            reserved: 0.into(),
            prefix: p.prefix.octets(),
        }
    }
}

/// A link-layer address option of Ethernet: one word.
fn link(data: &[u8]) -> Option<MacAddr> {
    data.try_into().ok().map(MacAddr)
}

/// Splits an IPv6 address off.
fn address(bytes: &[u8]) -> Result<(Ipv6Addr, &[u8]), Malformed> {
    let (a, rest) = bytes.split_first_chunk::<16>().ok_or(Malformed::Truncated)?;
    Ok(((*a).into(), rest))
}

/// Splits a number off.
fn number(bytes: &[u8]) -> Result<(u32, &[u8]), Malformed> {
    let (n, rest) = bytes.split_first_chunk::<4>().ok_or(Malformed::Truncated)?;
    Ok((u32::from_be_bytes(*n), rest))
}

impl Repr {
    /// Reads a message from the first octet of its ICMPv6 header.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (h, body) = Header::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        if h.code != 0 {
            return Err(Malformed::Reserved);
        }
        let [first, second, c, d] = h.rest;
        let repr = match h.kind {
            133 => Self::RouterSolicitation { source_link: Options::parse(body)?.source_link },
            134 => {
                let (reachable_ms, body) = number(body)?;
                let (retrans_ms, body) = number(body)?;
                let Options { source_link, mtu, prefixes, .. } = Options::parse(body)?;
                Self::RouterAdvertisement {
                    hop_limit: first,
                    managed: second & 0x80 != 0,
                    other: second & 0x40 != 0,
                    lifetime_secs: u16::from_be_bytes([c, d]),
                    reachable_ms,
                    retrans_ms,
                    source_link,
                    mtu,
                    prefixes,
                }
            }
            135 => {
                let (target, body) = address(body)?;
                let source_link = Options::parse(body)?.source_link;
                Self::NeighbourSolicitation { target, source_link }
            }
            ADVERTISEMENT => {
                let (target, body) = address(body)?;
                Self::NeighbourAdvertisement {
                    target,
                    router: first & 0x80 != 0,
                    solicited: first & 0x40 != 0,
                    override_cache: first & 0x20 != 0,
                    target_link: Options::parse(body)?.target_link,
                }
            }
            137 => {
                let (target, body) = address(body)?;
                let (destination, body) = address(body)?;
                let target_link = Options::parse(body)?.target_link;
                Self::Redirect { target, destination, target_link }
            }
            _ => return Err(Malformed::Kind),
        };
        Ok((repr, &[]))
    }

    /// Octets that `emit` writes.
    #[allow(clippy::len_without_is_empty)] // a message is never empty
    pub fn len(&self) -> usize {
        let link = |a: &Option<MacAddr>| if a.is_some() { 8 } else { 0 };
        match self {
            Self::RouterSolicitation { source_link } => 8 + link(source_link),
            Self::RouterAdvertisement { source_link, mtu, prefixes, .. } => {
                let mtu = if mtu.is_some() { 8 } else { 0 };
                16 + link(source_link) + mtu + prefixes.iter().flatten().count() * 32
            }
            Self::NeighbourSolicitation { source_link, .. } => 24 + link(source_link),
            Self::NeighbourAdvertisement { target_link, .. } => 24 + link(target_link),
            Self::Redirect { target_link, .. } => 40 + link(target_link),
        }
    }

    /// Writes the message, checksum zero, to the front of `buf`, which must
    /// hold `len()` octets; then call [`crate::icmpv6::fill_checksum`].
    pub fn emit(&self, buf: &mut [u8]) {
        let mut out = Cursor { buf, at: 0 };
        match self {
            Self::RouterSolicitation { source_link } => {
                out.put(&[133, 0, 0, 0, 0, 0, 0, 0]);
                out.link(SOURCE_LINK, source_link);
            }
            Self::RouterAdvertisement {
                hop_limit,
                managed,
                other,
                lifetime_secs,
                reachable_ms,
                retrans_ms,
                source_link,
                mtu,
                prefixes,
            } => {
                let flags = u8::from(*managed) << 7 | u8::from(*other) << 6;
                out.put(&[134, 0, 0, 0, *hop_limit, flags]);
                out.put(&lifetime_secs.to_be_bytes());
                out.put(&reachable_ms.to_be_bytes());
                out.put(&retrans_ms.to_be_bytes());
                out.link(SOURCE_LINK, source_link);
                if let Some(mtu) = mtu {
                    out.put(&[MTU, 1, 0, 0]);
                    out.put(&mtu.to_be_bytes());
                }
                for prefix in prefixes.iter().flatten() {
                    out.put(&[PREFIX, 4]);
                    out.put(PrefixOption::write(prefix).as_bytes());
                }
            }
            Self::NeighbourSolicitation { target, source_link } => {
                out.put(&[135, 0, 0, 0, 0, 0, 0, 0]);
                out.put(&target.octets());
                out.link(SOURCE_LINK, source_link);
            }
            Self::NeighbourAdvertisement {
                target,
                router,
                solicited,
                override_cache,
                target_link,
            } => {
                let flags = u8::from(*router) << 7
                    | u8::from(*solicited) << 6
                    | u8::from(*override_cache) << 5;
                out.put(&[ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0]);
                out.put(&target.octets());
                out.link(TARGET_LINK, target_link);
            }
            Self::Redirect { target, destination, target_link } => {
                out.put(&[137, 0, 0, 0, 0, 0, 0, 0]);
                out.put(&target.octets());
                out.put(&destination.octets());
                out.link(TARGET_LINK, target_link);
            }
        }
    }
}

/// Writes pieces one after the other.
struct Cursor<'a> {
    buf: &'a mut [u8],
    at: usize,
}

impl Cursor<'_> {
    fn put(&mut self, octets: &[u8]) {
        self.buf[self.at..self.at + octets.len()].copy_from_slice(octets);
        self.at += octets.len();
    }

    fn link(&mut self, kind: u8, address: &Option<MacAddr>) {
        if let Some(address) = address {
            self.put(&[kind, 1]);
            self.put(&address.0);
        }
    }
}

/// The group that a solicitation for `target` goes to (RFC 4291 section 2.7.1).
pub fn solicited_node(target: Ipv6Addr) -> Ipv6Addr {
    let a = target.octets();
    let mut out = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0).octets();
    (out[13], out[14], out[15]) = (a[13], a[14], a[15]);
    out.into()
}

/// The Ethernet address of an IPv6 group (RFC 2464 section 7).
pub const fn group_mac(group: Ipv6Addr) -> MacAddr {
    let a = group.octets();
    MacAddr([0x33, 0x33, a[12], a[13], a[14], a[15]])
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let link = match self {
            Self::RouterSolicitation { source_link } => {
                f.write_str("router solicitation")?;
                source_link
            }
            Self::RouterAdvertisement { lifetime_secs, prefixes, source_link, .. } => {
                write!(f, "router advertisement for {lifetime_secs} s")?;
                for p in prefixes.iter().flatten() {
                    write!(f, " {}/{}", p.prefix, p.len)?;
                }
                source_link
            }
            Self::NeighbourSolicitation { target, source_link } => {
                write!(f, "who has {target}")?;
                source_link
            }
            Self::NeighbourAdvertisement { target, target_link, .. } => {
                write!(f, "neighbour {target}")?;
                target_link
            }
            Self::Redirect { target, destination, target_link } => {
                write!(f, "redirect {destination} to {target}")?;
                target_link
            }
        };
        link.map_or(Ok(()), |mac| write!(f, " link {mac}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::hex;

    const EXAMPLE: &str = "8800 0000 e0000000 20010db8000b00000000000000000002 0201020000000002";
    laws!(EXAMPLE);

    mod router {
        use super::*;
        const EXAMPLE: &str = "8600 0000 40c00708 00007530 000003e8 0101020000000001
            05010000000005dc 030440c0 00278d00 00093a80 00000000 20010db8000b00000000000000000000";
        laws!(EXAMPLE);
    }

    mod redirect {
        use super::*;
        const EXAMPLE: &str = "8900 0000 00000000 fe800000000000000000000000000001
            20010db8000b00000000000000000002 0201020000000001";
        laws!(EXAMPLE);
    }

    #[test]
    fn neighbour_discovery_reads_as_questions_and_answers() {
        let (repr, _) = Repr::parse(&hex(EXAMPLE)).unwrap();
        assert_eq!(repr.to_string(), "neighbour 2001:db8:b::2 link 02:00:00:00:00:02");
        let Repr::NeighbourAdvertisement { router, solicited, override_cache, .. } = repr else {
            panic!("{repr}")
        };
        assert!(router && solicited && override_cache);
    }

    #[test]
    fn unknown_options_are_skipped_and_empty_ones_refused() {
        let unknown = "8500 0000 00000000 fd01000000000000 0101020000000001";
        let (repr, _) = Repr::parse(&hex(unknown)).unwrap();
        assert_eq!(repr.to_string(), "router solicitation link 02:00:00:00:00:01");
        for bad in ["8500000000000000 0100020000000001", "8500000000000000 0102020000000001"] {
            assert_eq!(Repr::parse(&hex(bad)).unwrap_err(), Malformed::Length);
        }
    }

    #[test]
    fn addresses_of_a_solicitation() {
        let group = solicited_node("2001:db8::12:3456".parse().unwrap());
        assert_eq!(group.to_string(), "ff02::1:ff12:3456");
        assert_eq!(group_mac(group).to_string(), "33:33:ff:12:34:56");
    }
}
