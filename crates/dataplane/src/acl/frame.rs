//! Lists for whole frames, at attachment circuits: the conditions of an entry on a frame,
//! and on the IP packet in it.
//!
//! ```text
//!   words 0 to 4   addresses, protocol, ports, message; an IPv4 address in the low 32 bits
//!   word 5         │ EXP 3 │ family 2 │ VLAN 12 │ EtherType 16 │ flags 16 │
//!   word 6         destination 48              word 7   source 48
//! ```
//!
//! The EtherType is that behind the tags, the VLAN that of the outer tag, zero if there
//! is none, EXP that of the outermost label. The tags by which frames belong to the circuit
//! are not the customer's: no list sees them.

use super::compiled::ListRule;
use super::key::{self, Key};
use super::rule::EntryRule;
use super::{AclOutcome, Match, Verdict};
use crate::classify::selector::{Addresses, Selector};
use crate::classify::{KeyField, Rule, WORDS_MAX};
use ferrule_base::{DropReason, MacAddr};
use ferrule_wire::{EtherType, FromBytes, ethernet, mpls, vlan};

/// Link addresses that agree in their first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MacNet {
    /// Any of the addresses.
    pub address: MacAddr,
    /// Bits in which they agree, 48 at most.
    pub len: u8,
}

impl MacNet {
    const fn mask(self) -> u64 {
        let rest = 48_u32.saturating_sub(self.len as u32);
        MACS & !((1 << rest) - 1)
    }

    const fn covers(self, other: Self) -> bool {
        let differ = self.address.to_u64() ^ other.address.to_u64();
        self.len <= other.len && differ & self.mask() == 0
    }
}

/// Frames that an entry is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FrameMatch {
    /// Sources.
    pub src: Option<MacNet>,
    /// Destinations.
    pub dst: Option<MacNet>,
    /// EtherType behind the VLAN tags.
    pub ethertype: Option<u16>,
    /// VLAN ID of the outer tag; 0: there is none, or it is a priority's.
    pub vlan: Option<u16>,
    /// Traffic class of the outermost MPLS label (RFC 5462; EXP before).
    pub exp: Option<u8>,
    /// The IP packet in it. Nothing: any contents.
    pub ip: Option<Match>,
}

impl FrameMatch {
    /// True if every frame of the other match is one of this, too.
    pub fn covers(&self, other: &Self) -> bool {
        let net = |own: Option<MacNet>, other: Option<MacNet>| {
            own.is_none_or(|own| other.is_some_and(|other| own.covers(other)))
        };
        fn number<T: PartialEq>(own: Option<T>, other: Option<T>) -> bool {
            own.is_none() || own == other
        }
        net(self.src, other.src)
            && net(self.dst, other.dst)
            && number(self.ethertype, other.ethertype)
            && number(self.vlan, other.vlan)
            && number(self.exp, other.exp)
            && match (&self.ip, &other.ip) {
                (None, _) => true,
                (Some(own), Some(other)) => own.covers(other),
                (Some(_), None) => false,
            }
    }
}

/// An entry of a list for frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameEntry {
    /// Frames that it is for.
    pub matches: FrameMatch,
    /// Permit or deny.
    pub verdict: Verdict,
    /// Frames are logged.
    pub logs: bool,
    /// Number of its counter in the worker.
    pub counter: u32,
}

const MACS: u64 = (1 << 48) - 1;
/// Words with the entry's conditions on the frame itself.
const FRAME: usize = 5;
const TYPE_AT: u32 = 16;
const VLAN_AT: u32 = 32;
const FAMILY_AT: u32 = 44;
const EXP_AT: u32 = 46;
/// Bits of word 5 that are the frame's.
const FRAME_BITS: u64 = 0xffff << TYPE_AT | 0xfff << VLAN_AT | 3 << FAMILY_AT | 7 << EXP_AT;
const IPV4: u64 = 1;
const IPV6: u64 = 2;
const MPLS: u64 = 3;

/// Classification key of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameKey(pub [u64; 8]);

impl AsRef<[u64; 8]> for FrameKey {
    #[inline(always)]
    fn as_ref(&self) -> &[u64; 8] {
        &self.0
    }
}

impl FrameKey {
    /// Placeholder of a key.
    pub const NONE: Self = Self([0; 8]);

    /// Reads a frame, of which so many tags are the circuit's, and the packet in it, if the
    /// EtherType is that of IP or of a label stack.
    pub fn read(frame: &[u8], own: usize) -> Result<Self, DropReason> {
        let (ethernet, _) =
            ethernet::Header::ref_from_prefix(frame).map_err(|_| DropReason::Malformed)?;
        let (ethertype, vlan, payload) = behind_tags(frame, own)?;
        let mut words = match ethertype {
            EtherType::IPV4 | EtherType::IPV6 => match (ethertype, key::read(payload)?) {
                (EtherType::IPV4, Key::V4(key)) => {
                    let [ends, rest, flags, _] = key.0;
                    let flags = flags | IPV4 << FAMILY_AT;
                    [0, ends >> 32, 0, ends & 0xffff_ffff, rest, flags, 0, 0]
                }
                (EtherType::IPV6, Key::V6(key)) => {
                    let mut words = key.0;
                    words[FRAME] |= IPV6 << FAMILY_AT;
                    words
                }
                _ => return Err(DropReason::Malformed),
            },
            // With a label that the receiver assigned, or the sender (RFC 5332).
            EtherType::MPLS | EtherType::MPLS_UPSTREAM => {
                let label = mpls::Header::ref_from_prefix(payload);
                let (label, _) = label.map_err(|_| DropReason::Malformed)?;
                let exp = u64::from(label.traffic_class().get());
                [0, 0, 0, 0, 0, MPLS << FAMILY_AT | exp << EXP_AT, 0, 0]
            }
            _ => [0; 8],
        };
        words[FRAME] |= u64::from(ethertype.0) << TYPE_AT | u64::from(vlan) << VLAN_AT;
        words[6] = MacAddr(ethernet.dst).to_u64();
        words[7] = MacAddr(ethernet.src).to_u64();
        Ok(Self(words))
    }
}

/// Payload of a frame: its EtherType, the VLAN ID of the outer of two tags at most behind the
/// circuit's own, and the octets.
fn behind_tags(frame: &[u8], own: usize) -> Result<(EtherType, u16, &[u8]), DropReason> {
    const TAGS_MAX: usize = 2;
    let (ethernet, mut rest) =
        ethernet::Header::ref_from_prefix(frame).map_err(|_| DropReason::Malformed)?;
    let (mut ethertype, mut outer) = (ethernet.ethertype(), 0);
    for nth in 0..TAGS_MAX + own {
        if !ethertype.is_vlan() {
            break;
        }
        let (tag, after) =
            vlan::Header::ref_from_prefix(rest).map_err(|_| DropReason::Malformed)?;
        if nth == own {
            outer = tag.vid();
        }
        (ethertype, rest) = (tag.ethertype(), after);
    }
    Ok((ethertype, outer, rest))
}

/// Tags of a circuit at most.
const TAGS_OWN_MAX: usize = 2;

/// Offset of the payload in a frame, behind its tags.
pub(super) fn payload_at(frame: &[u8]) -> usize {
    behind_tags(frame, TAGS_OWN_MAX).map_or(0, |(_, _, payload)| frame.len() - payload.len())
}

/// An entry for frames, compiled.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameRule {
    ip: EntryRule<u128>,
    /// Of the words from the sixth on: mask and value of the bits that are compared.
    mask: [u64; 3],
    value: [u64; 3],
}

impl FrameRule {
    /// The rule of an entry; nothing if no frame can match: it asks for a label and for an
    /// IP packet.
    pub fn new(entry: &FrameEntry) -> Option<Self> {
        let FrameMatch { src, dst, ethertype, vlan, exp, ip } = &entry.matches;
        if exp.is_some() && ip.is_some() {
            return None;
        }
        let any = Selector::between(Addresses::V6, Addresses::V6);
        let any = Match { selector: any, dscp: None, tcp: None, fragments: false };
        let outcome = AclOutcome::new(entry.verdict, entry.counter).logging(entry.logs);
        let rule = EntryRule::either(ip.as_ref().unwrap_or(&any), outcome);
        let (mut mask, mut value) = ([0; 3], [0; 3]);
        let mut asks = |word: usize, bits: u64, is: u64| {
            mask[word] |= bits;
            value[word] |= is & bits;
        };
        if let Some(ethertype) = ethertype {
            asks(0, 0xffff << TYPE_AT, u64::from(*ethertype) << TYPE_AT);
        }
        if let Some(vlan) = vlan {
            asks(0, 0xfff << VLAN_AT, u64::from(*vlan) << VLAN_AT);
        }
        if let Some(exp) = exp {
            asks(0, 3 << FAMILY_AT | 7 << EXP_AT, MPLS << FAMILY_AT | u64::from(*exp) << EXP_AT);
        }
        if let Some(ip) = ip {
            let family = if ip.selector.local.is_ipv4() { IPV4 } else { IPV6 };
            asks(0, 3 << FAMILY_AT, family << FAMILY_AT);
        }
        for (word, net) in [(1, dst), (2, src)] {
            if let Some(net) = net {
                asks(word, net.mask(), net.address.to_u64());
            }
        }
        Some(Self { ip: rule, mask, value })
    }
}

impl ListRule for FrameRule {
    #[inline(always)]
    fn outcome(&self) -> AclOutcome {
        self.ip.outcome()
    }

    fn counted_by(self, counter: u32) -> Self {
        Self { ip: self.ip.counted_by(counter), ..self }
    }
}

impl Rule for FrameRule {
    type Words = [u64; 8];

    fn fields() -> Vec<KeyField> {
        let own = |(word, at, bits): (u32, u32, u32)| KeyField { word, at, bits };
        let bits = [(TYPE_AT, 16), (VLAN_AT, 12), (FAMILY_AT, 2), (EXP_AT, 3)];
        let bits = bits.map(|(at, bits)| (FRAME as u32, at, bits));
        let own = bits.into_iter().chain([(6, 0, 48), (7, 0, 48)]).map(own);
        EntryRule::<u128>::fields().into_iter().chain(own).collect()
    }

    #[inline(always)]
    fn word(words: &[u64; 8], at: u32) -> u64 {
        words[at as usize & 7]
    }

    fn from_words(words: &[u64; WORDS_MAX]) -> [u64; 8] {
        *words
    }

    #[inline(always)]
    fn matches(&self, words: &[u64; 8]) -> bool {
        let [a, b, c] = [FRAME, 6, 7].map(|at| words[at]);
        let [x, y, z] = self.mask;
        ([a & x, b & y, c & z] == self.value) & self.ip.matches(words)
    }

    fn bounds(&self, field: &KeyField) -> (u64, u64) {
        let word = field.word as usize;
        if word < FRAME || word == FRAME && field.at < TYPE_AT {
            return self.ip.bounds(field);
        }
        let all = u64::MAX >> (64 - field.bits);
        let [mask, value] =
            [self.mask, self.value].map(|words| words[word - FRAME] >> field.at & all);
        (value, value | all & !mask)
    }

    fn middle(&self) -> [u64; 8] {
        let mut words = self.ip.middle();
        words[FRAME] = words[FRAME] & !FRAME_BITS | self.value[0];
        (words[6], words[7]) = (self.value[1], self.value[2]);
        words
    }

    fn widths(&self) -> [u32; 2] {
        self.ip.widths()
    }
}
