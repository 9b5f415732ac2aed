//! MKPDU (802.1X-2020 clause 11.11), the body of an EAPOL packet of type MKA.
//!
//! ```text
//!  basic: version, priority, flags, SCI, MI, MN, algorithm, CKN
//! +------+-------+-----+--------+----------------------+
//! | type | flags | len | body   | up to four octets    |  as often as there are sets
//! +------+-------+-----+--------+----------------------+
//!   8      12      12
//!  ICV: 16 octets over all before them, from the destination address on
//! ```
//!
//! The basic set is first, its version in the place of the type. Sets of an unknown type are
//! kept: a receiver skips them (clause 11.11.2).

use crate::{Malformed, Sci};
use std::fmt;

/// Octets of the ICV of the only algorithm (AES-CMAC, clause 9.4.1).
pub const ICV_LEN: usize = 16;
/// Octets of an MKPDU at least.
pub const LEN_MIN: usize = 32;
/// Algorithm agility of this standard (clause 11.11.3).
pub const AGILITY: u32 = 0x0080_c201;

/// Sets behind the basic one at most; the standard has eight types.
const SETS_MAX: usize = 32;
/// Octets of the fixed part of the basic set behind its header.
const BASIC: usize = 28;
/// Octets of a set's header.
const HEAD: usize = 4;
/// Octets of a member.
const MEMBER: usize = 16;

const LIVE: u8 = 1;
const POTENTIAL: u8 = 2;
const SAK_USE: u8 = 3;
const DISTRIBUTED_SAK: u8 = 4;
const XPN: u8 = 8;
const ICV: u8 = 255;

/// Name of a CAK: 1 to 32 octets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ckn {
    octets: [u8; 32],
    len: u8,
}

impl Ckn {
    /// A name of these octets; nothing if they are not 1 to 32.
    pub fn new(octets: &[u8]) -> Option<Self> {
        let mut ckn = Self { octets: [0; 32], len: octets.len().try_into().ok()? };
        ckn.octets.get_mut(..octets.len()).filter(|to| !to.is_empty())?.copy_from_slice(octets);
        Some(ckn)
    }

    /// The octets.
    pub fn as_bytes(&self) -> &[u8] {
        &self.octets[..usize::from(self.len).min(32)]
    }
}

impl fmt::Display for Ckn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Debug for Ckn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Member identifier: random, another one for each life of a participant.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mi(pub [u8; 12]);

impl fmt::Display for Mi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Debug for Mi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Member identifier and message number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Identifier.
    pub mi: Mi,
    /// Number of its message, from 1 on.
    pub mn: u32,
}

/// Key identifier: identifier of the key server and key number (clause 9.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId {
    /// Key server's member identifier.
    pub mi: Mi,
    /// Key number, from 1 on.
    pub kn: u32,
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:08x}", self.mi, self.kn)
    }
}

/// Use of a SAK by the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyUse {
    /// Association number.
    pub an: u8,
    /// The sender transmits with the key.
    pub transmits: bool,
    /// The sender receives with the key.
    pub receives: bool,
    /// The key.
    pub key: KeyId,
    /// Lowest acceptable packet number, or the lowest in the last seconds; its low half.
    pub lowest_pn: u32,
}

/// MACsec SAK Use (clause 11.11.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SakUse {
    /// The latest key and the one before; nothing if MACsec is not in use.
    pub keys: Option<[KeyUse; 2]>,
    /// The sender transmits in clear.
    pub plain_transmit: bool,
    /// The sender receives in clear.
    pub plain_receive: bool,
    /// Bounded delay.
    pub delay_protect: bool,
}

/// A wrapped key in a Distributed SAK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrappedSak {
    /// Key number.
    pub kn: u32,
    /// Cipher suite (802.1AE table 14-1); nothing for GCM-AES-128.
    pub suite: Option<u64>,
    /// AES key wrap of the SAK under the KEK: 24 octets, or 40.
    pub wrapped: Vec<u8>,
}

/// Distributed SAK (clause 11.11.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistributedSak {
    /// Association number.
    pub an: u8,
    /// Confidentiality: 0 none, 1 with offset 0, 2 with 30, 3 with 50.
    pub offset: u8,
    /// The key; nothing if frames are to go in clear.
    pub key: Option<WrappedSak>,
}

/// A parameter set behind the basic one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Set {
    /// Peers of which the sender knows that they hear it.
    Live {
        /// Low octet of the key server's SSCI, beside a SAK of an XPN suite; otherwise 0.
        ssci: u8,
        /// Their last messages.
        peers: Vec<Member>,
    },
    /// Peers of which it only has heard.
    Potential(Vec<Member>),
    /// Use of SAKs.
    SakUse(SakUse),
    /// A SAK from the key server.
    DistributedSak(DistributedSak),
    /// High halves of the lowest acceptable packet numbers.
    Xpn {
        /// Suspension time.
        suspension: u8,
        /// High halves, of the latest key and of the one before.
        lowest_pn: [u32; 2],
    },
    /// Any other.
    Other {
        /// Type.
        kind: u8,
        /// The twelve bits behind the type.
        flags: u16,
        /// Body.
        body: Vec<u8>,
    },
}

/// Sender, number and name of the CAK of an MKPDU, out of its basic set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Basic {
    /// Its secure channel.
    pub sci: Sci,
    /// The sender and the number of this message.
    pub actor: Member,
    /// Name of the CAK.
    pub ckn: Ckn,
}

impl Basic {
    /// Reads it, and nothing behind it. (Without allocation.)
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.len() < LEN_MIN || !bytes.len().is_multiple_of(4) {
            return Err(Malformed::Length);
        }
        let (_, _, body, _) = split(bytes)?;
        let (fixed, ckn) = body.split_at_checked(BASIC).ok_or(Malformed::Length)?;
        let sci = u64::from(u32_at(fixed, 0)) << 32 | u64::from(u32_at(fixed, 4));
        let ckn = Ckn::new(ckn).ok_or(Malformed::Length)?;
        Ok(Self { sci: Sci(sci), actor: member(&fixed[8..]), ckn })
    }
}

/// The meaning of an MKPDU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// MKA version: 1 of 802.1X-2010, 2 with 802.1Xbx, 3 of 802.1X-2020.
    pub version: u8,
    /// Key server priority; the lowest is best, 255 never serves.
    pub priority: u8,
    /// The sender is the key server.
    pub key_server: bool,
    /// The sender wants MACsec.
    pub desired: bool,
    /// MACsec capability: 0 none, 1 integrity, 2 with offset 0, 3 with any offset.
    pub capability: u8,
    /// Its secure channel.
    pub sci: Sci,
    /// The sender and the number of this message.
    pub actor: Member,
    /// Algorithm agility.
    pub agility: u32,
    /// Name of the CAK.
    pub ckn: Ckn,
    /// The other sets.
    pub sets: Vec<Set>,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let octets = bytes.get(at..at + 4).and_then(|octets| octets.try_into().ok());
    u32::from_be_bytes(octets.unwrap_or_default())
}

fn member(bytes: &[u8]) -> Member {
    let mi = bytes.get(..12).and_then(|octets| octets.try_into().ok()).unwrap_or_default();
    Member { mi: Mi(mi), mn: u32_at(bytes, 12) }
}

/// Type, flags and body of a set, and the octets behind its padding.
type Split<'a> = (u8, u16, &'a [u8], &'a [u8]);

fn split(bytes: &[u8]) -> Result<Split<'_>, Malformed> {
    let (head, rest) = bytes.split_at_checked(HEAD).ok_or(Malformed::Truncated)?;
    let flags = u16::from(head[1]) << 4 | u16::from(head[2] >> 4);
    let len = usize::from(head[2] & 15) << 8 | usize::from(head[3]);
    let body = rest.get(..len).ok_or(Malformed::Length)?;
    let rest = rest.get(len.next_multiple_of(4)..).ok_or(Malformed::Length)?;
    Ok((head[0], flags, body, rest))
}

fn peers(body: &[u8]) -> Result<Vec<Member>, Malformed> {
    let members = body.chunks_exact(MEMBER);
    match members.remainder() {
        [] => Ok(members.map(member).collect()),
        _ => Err(Malformed::Length),
    }
}

fn sak_use(flags: u16, body: &[u8]) -> Result<SakUse, Malformed> {
    let has = |bit: u16| flags >> bit & 1 == 1;
    let key = |at: usize, bit: u16| KeyUse {
        an: (flags >> bit & 3) as u8,
        transmits: has(bit - 1),
        receives: has(bit - 2),
        key: KeyId { mi: member(&body[at..]).mi, kn: u32_at(body, at + 12) },
        lowest_pn: u32_at(body, at + 16),
    };
    let keys = match body.len() {
        0 => None,
        40.. => Some([key(0, 10), key(20, 6)]),
        _ => return Err(Malformed::Length),
    };
    Ok(SakUse { keys, plain_transmit: has(3), plain_receive: has(2), delay_protect: has(0) })
}

fn distributed_sak(flags: u16, body: &[u8]) -> Result<DistributedSak, Malformed> {
    let suite = |suite: Option<u64>, wrapped: &[u8]| {
        Some(WrappedSak { kn: u32_at(body, 0), suite, wrapped: wrapped.to_vec() })
    };
    let key = match body.len() {
        0 => None,
        28 => suite(None, &body[4..]),
        36 | 52 => {
            let id = u64::from(u32_at(body, 4)) << 32 | u64::from(u32_at(body, 8));
            suite(Some(id), &body[12..])
        }
        _ => return Err(Malformed::Length),
    };
    Ok(DistributedSak { an: (flags >> 10 & 3) as u8, offset: (flags >> 8 & 3) as u8, key })
}

impl Set {
    fn parse(kind: u8, flags: u16, body: &[u8]) -> Result<Self, Malformed> {
        Ok(match kind {
            LIVE => Self::Live { ssci: (flags >> 4) as u8, peers: peers(body)? },
            POTENTIAL => Self::Potential(peers(body)?),
            SAK_USE => Self::SakUse(sak_use(flags, body)?),
            DISTRIBUTED_SAK => Self::DistributedSak(distributed_sak(flags, body)?),
            XPN if body.len() >= 8 => Self::Xpn {
                suspension: (flags >> 4) as u8,
                lowest_pn: [u32_at(body, 0), u32_at(body, 4)],
            },
            XPN => return Err(Malformed::Length),
            _ => Self::Other { kind, flags, body: body.to_vec() },
        })
    }

    /// Type, flags and body.
    fn parts(&self) -> (u8, u16, Vec<u8>) {
        let list = |peers: &[Member]| peers.iter().flat_map(octets_of).collect();
        match self {
            Self::Live { ssci, peers } => (LIVE, u16::from(*ssci) << 4, list(peers)),
            Self::Potential(peers) => (POTENTIAL, 0, list(peers)),
            Self::SakUse(sak_use) => sak_use.parts(),
            Self::DistributedSak(sak) => sak.parts(),
            Self::Xpn { suspension, lowest_pn } => {
                let body = lowest_pn.iter().flat_map(|pn| pn.to_be_bytes()).collect();
                (XPN, u16::from(*suspension) << 4, body)
            }
            Self::Other { kind, flags, body } => (*kind, *flags, body.clone()),
        }
    }

    fn len(&self) -> usize {
        let body = match self {
            Self::Live { peers, .. } | Self::Potential(peers) => peers.len() * MEMBER,
            Self::SakUse(SakUse { keys, .. }) => keys.map_or(0, |_| 40),
            Self::DistributedSak(DistributedSak { key, .. }) => match key {
                Some(key) => 4 + key.suite.map_or(0, |_| 8) + key.wrapped.len(),
                None => 0,
            },
            Self::Xpn { .. } => 8,
            Self::Other { body, .. } => body.len(),
        };
        HEAD + body.next_multiple_of(4)
    }
}

fn octets_of(member: &Member) -> Vec<u8> {
    [&member.mi.0[..], &member.mn.to_be_bytes()].concat()
}

impl SakUse {
    fn parts(&self) -> (u8, u16, Vec<u8>) {
        let (mut flags, mut body) = (0, Vec::new());
        let mut set = |bit: u16, is: bool| flags |= u16::from(is) << bit;
        set(3, self.plain_transmit);
        set(2, self.plain_receive);
        set(0, self.delay_protect);
        for (key, bit) in self.keys.iter().flatten().zip([10, 6]) {
            set(bit - 1, key.transmits);
            set(bit - 2, key.receives);
            set(bit, key.an & 1 != 0);
            set(bit + 1, key.an & 2 != 0);
            body.extend(key.key.mi.0);
            body.extend(key.key.kn.to_be_bytes());
            body.extend(key.lowest_pn.to_be_bytes());
        }
        (SAK_USE, flags, body)
    }
}

impl DistributedSak {
    fn parts(&self) -> (u8, u16, Vec<u8>) {
        let flags = u16::from(self.an & 3) << 10 | u16::from(self.offset & 3) << 8;
        let mut body = Vec::new();
        if let Some(key) = &self.key {
            body.extend(key.kn.to_be_bytes());
            body.extend(key.suite.into_iter().flat_map(u64::to_be_bytes));
            body.extend(&key.wrapped);
        }
        (DISTRIBUTED_SAK, flags, body)
    }
}

fn put(buf: &mut Vec<u8>, first: u8, flags: u16, body: &[u8]) {
    let len = body.len() as u16 & 0xfff;
    buf.extend([first, (flags >> 4) as u8, (flags << 4) as u8 | (len >> 8) as u8, len as u8]);
    buf.extend(body);
    buf.resize(buf.len().next_multiple_of(4), 0);
}

#[allow(clippy::len_without_is_empty)] // a message is never empty
impl Repr {
    /// Reads an MKPDU; the payload is its ICV.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let Basic { sci, actor, ckn } = Basic::parse(bytes)?;
        let (version, flags, body, mut rest) = split(bytes)?;
        let mut sets = Vec::new();
        while rest.len() > ICV_LEN {
            let (kind, flags, body, behind) = split(rest)?;
            if kind == ICV {
                // Of another length: no algorithm that is known here.
                let fits = body.len() == ICV_LEN && behind.is_empty();
                rest = Some(body).filter(|_| fits).ok_or(Malformed::Kind)?;
                break;
            }
            if sets.len() == SETS_MAX {
                return Err(Malformed::Length);
            }
            sets.push(Set::parse(kind, flags, body)?);
            rest = behind;
        }
        if rest.len() < ICV_LEN {
            return Err(Malformed::Length);
        }
        let repr = Self {
            version,
            priority: (flags >> 4) as u8,
            key_server: flags & 8 != 0,
            desired: flags & 4 != 0,
            capability: (flags & 3) as u8,
            sci,
            actor,
            agility: u32_at(body, 24),
            ckn,
            sets,
        };
        Ok((repr, rest))
    }

    /// Octets that `emit` writes: without the ICV.
    pub fn len(&self) -> usize {
        let ckn = self.ckn.as_bytes().len();
        HEAD + (BASIC + ckn).next_multiple_of(4) + self.sets.iter().map(Set::len).sum::<usize>()
    }

    /// Writes all but the ICV to the front of `buf`, which must hold `len()` octets.
    pub fn emit(&self, buf: &mut [u8]) {
        let flags = u16::from(self.priority) << 4
            | u16::from(self.key_server) << 3
            | u16::from(self.desired) << 2
            | u16::from(self.capability & 3);
        let mut body = self.sci.to_bytes().to_vec();
        body.extend(octets_of(&self.actor));
        body.extend(self.agility.to_be_bytes());
        body.extend(self.ckn.as_bytes());
        let mut out = Vec::with_capacity(self.len());
        put(&mut out, self.version, flags, &body);
        for set in &self.sets {
            let (kind, flags, body) = set.parts();
            put(&mut out, kind, flags, &body);
        }
        buf[..out.len()].copy_from_slice(&out);
    }

    /// The first set that `find` has something of.
    pub fn set<T>(&self, find: impl Fn(&Set) -> Option<T>) -> Option<T> {
        self.sets.iter().find_map(find)
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MKA {} mn {} priority {}", self.sci, self.actor.mn, self.priority)?;
        if self.key_server {
            f.write_str(" server")?;
        }
        for set in &self.sets {
            match set {
                Set::Live { peers, .. } => write!(f, " live {}", peers.len())?,
                Set::Potential(peers) => write!(f, " potential {}", peers.len())?,
                Set::SakUse(SakUse { keys: Some([key, _]), .. }) => {
                    let (rx, tx) = (key.receives, key.transmits);
                    write!(f, " use an {} kn {} rx {rx} tx {tx}", key.an, key.key.kn)?;
                }
                Set::SakUse(_) => f.write_str(" use none")?,
                Set::DistributedSak(DistributedSak { an, key: Some(key), .. }) => {
                    write!(f, " SAK an {an} kn {}", key.kn)?;
                }
                Set::DistributedSak(_) => f.write_str(" SAK none")?,
                Set::Xpn { .. } => f.write_str(" XPN")?,
                Set::Other { kind, .. } => write!(f, " set {kind}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
