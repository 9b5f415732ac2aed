//! What a selector sees of a packet, and selectors compiled for speed.
//!
//! ```text
//!   selector   local        remote         protocol  ports
//!   outbound   source       destination    the upper layer's, behind IPv4
//!   inbound    destination  source         options and IPv6 extension headers
//! ```
//!
//! Ports are hidden in every fragment but the first (RFC 4301 section 7): such
//! a packet may or may not be what a rule with ports means. [`Rules::find`] says
//! so, and whoever asks decides on the safe side.

use super::config::{Selector, SelectorError};
use ferrule_base::DropReason;
use ferrule_wire::{FromBytes, Protocol, ipv4, ipv6, ipv6ext};
use std::net::IpAddr;
use std::ops::{BitAnd, BitXor};

/// Which end of a packet is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// The source is local.
    Outbound,
    /// The destination is local.
    Inbound,
}

/// The ports of a packet.
#[derive(Clone, Copy)]
enum Ports {
    /// Local and remote.
    Known(u16, u16),
    /// Its protocol has none.
    Absent,
    /// They are in another fragment.
    Hidden,
}

struct Traffic<A> {
    local: A,
    remote: A,
    protocol: u8,
    ports: Ports,
}

struct Rule<A, T> {
    local: (A, A),
    remote: (A, A),
    /// Value and mask: a mask of zero is any protocol.
    protocol: (u8, u8),
    ports: Option<[(u16, u16); 2]>,
    then: T,
}

enum Match {
    No,
    Yes,
    /// All but the ports, which cannot be seen.
    Perhaps,
}

impl<A, T> Rule<A, T>
where
    A: Copy + Default + PartialEq + BitXor<Output = A> + BitAnd<Output = A>,
{
    #[inline(always)]
    fn matches(&self, t: &Traffic<A>) -> Match {
        let zero = A::default();
        if (t.local ^ self.local.0) & self.local.1 != zero
            || (t.remote ^ self.remote.0) & self.remote.1 != zero
            || (t.protocol ^ self.protocol.0) & self.protocol.1 != 0
        {
            return Match::No;
        }
        let Some([local, remote]) = self.ports else { return Match::Yes };
        match t.ports {
            Ports::Known(l, r) if within(l, local) && within(r, remote) => Match::Yes,
            Ports::Known(..) | Ports::Absent => Match::No,
            Ports::Hidden => Match::Perhaps,
        }
    }
}

const fn within(port: u16, (first, last): (u16, u16)) -> bool {
    first <= port && port <= last
}

/// What [`Rules::find`] found.
pub(super) struct Found<T> {
    /// What the first rule that matches says.
    pub then: Option<T>,
    /// What the first rule said that might have meant the packet, before that.
    pub perhaps: Option<T>,
}

/// Selectors in order, each with what it stands for.
pub(super) struct Rules<T> {
    v4: Box<[Rule<u32, T>]>,
    v6: Box<[Rule<u128, T>]>,
}

impl<T> Default for Rules<T> {
    fn default() -> Self {
        Self { v4: Box::default(), v6: Box::default() }
    }
}

impl<T: Copy> Rules<T> {
    /// Compiles selectors; an error names the place of the wrong one.
    pub fn new<'a>(
        selectors: impl IntoIterator<Item = (&'a Selector, T)>,
    ) -> Result<Self, (usize, SelectorError)> {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (place, (selector, then)) in selectors.into_iter().enumerate() {
            selector.check().map_err(|e| (place, e))?;
            let s = selector;
            let protocol = s.protocol.map_or((0, 0), |p| (p, 0xff));
            let any = (0, u16::MAX);
            let ports = (s.local_ports.is_some() || s.remote_ports.is_some())
                .then(|| [s.local_ports.unwrap_or(any), s.remote_ports.unwrap_or(any)]);
            match (s.local, s.remote) {
                ((IpAddr::V4(l), ll), (IpAddr::V4(r), rl)) => {
                    let mask = |len: u8| u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                    let (local, remote) = ((l.to_bits(), mask(ll)), (r.to_bits(), mask(rl)));
                    v4.push(Rule { local, remote, protocol, ports, then });
                }
                ((IpAddr::V6(l), ll), (IpAddr::V6(r), rl)) => {
                    let mask = |len: u8| u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                    let (local, remote) = ((l.to_bits(), mask(ll)), (r.to_bits(), mask(rl)));
                    v6.push(Rule { local, remote, protocol, ports, then });
                }
                _ => return Err((place, SelectorError::Families)),
            }
        }
        Ok(Self { v4: v4.into(), v6: v6.into() })
    }

    /// The first rule for the IP packet at the front of `bytes`.
    #[inline]
    pub fn find(&self, bytes: &[u8], direction: Direction) -> Result<Found<T>, DropReason> {
        match bytes.first().map(|b| b >> 4) {
            Some(4) => Ok(first(&self.v4, &traffic4(bytes, direction)?)),
            Some(6) => Ok(first(&self.v6, &traffic6(bytes, direction)?)),
            _ => Err(DropReason::Malformed),
        }
    }
}

#[inline(always)]
fn first<A, T: Copy>(rules: &[Rule<A, T>], traffic: &Traffic<A>) -> Found<T>
where
    A: Copy + Default + PartialEq + BitXor<Output = A> + BitAnd<Output = A>,
{
    let mut perhaps = None;
    for rule in rules {
        match rule.matches(traffic) {
            Match::No => {}
            Match::Yes => return Found { then: Some(rule.then), perhaps },
            Match::Perhaps => perhaps = perhaps.or(Some(rule.then)),
        }
    }
    Found { then: None, perhaps }
}

#[inline]
fn traffic4(bytes: &[u8], direction: Direction) -> Result<Traffic<u32>, DropReason> {
    let (h, _) = ipv4::Header::ref_from_prefix(bytes).map_err(|_| DropReason::Malformed)?;
    let later = h.fragment.get() & 0x1fff != 0;
    let ports = ports(h.protocol(), later, bytes, h.header_len(), direction);
    let (src, dst) = (u32::from_be_bytes(h.src), u32::from_be_bytes(h.dst));
    let (local, remote) = sides(src, dst, direction);
    Ok(Traffic { local, remote, protocol: h.protocol, ports })
}

#[inline]
fn traffic6(bytes: &[u8], direction: Direction) -> Result<Traffic<u128>, DropReason> {
    let (h, payload) = ipv6::Header::ref_from_prefix(bytes).map_err(|_| DropReason::Malformed)?;
    let upper = ipv6ext::walk(h.next(), payload).map_err(|_| DropReason::Malformed)?;
    let later = upper.fragment.is_some_and(|f| f.offset != 0);
    // More extension headers are in the first fragment: what comes after them
    // nobody can say here.
    if later && matches!(upper.protocol, Protocol::DESTINATION | Protocol::ROUTING) {
        return Err(DropReason::FragmentNotSupported);
    }
    let at = ipv6::Header::LEN + upper.offset;
    let ports = ports(upper.protocol, later, bytes, at, direction);
    let (local, remote) = sides(u128::from_be_bytes(h.src), u128::from_be_bytes(h.dst), direction);
    Ok(Traffic { local, remote, protocol: upper.protocol.0, ports })
}

#[inline(always)]
fn ports(p: Protocol, later: bool, bytes: &[u8], at: usize, direction: Direction) -> Ports {
    if !p.has_ports() {
        return Ports::Absent;
    }
    let octets = if later { None } else { bytes.get(at..).and_then(<[u8]>::first_chunk) };
    let Some(&[a, b, c, d]) = octets else { return Ports::Hidden };
    let (src, dst) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    let (local, remote) = sides(src, dst, direction);
    Ports::Known(local, remote)
}

#[inline(always)]
fn sides<T>(src: T, dst: T, direction: Direction) -> (T, T) {
    match direction {
        Direction::Outbound => (src, dst),
        Direction::Inbound => (dst, src),
    }
}
