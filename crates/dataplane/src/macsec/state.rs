//! Elements of an association that both directions need: keys, nonces, numbers.

use super::config::{Cipher, Xpn};
use super::stats::Stats;
use crate::protection::sequence::Lease;
use ferrule_base::Secret;
use ferrule_crypto::key::InstallError;
use ferrule_crypto::{Ad, Coming, Job, KeySpec, Op, Place};
use ferrule_wire::EtherType;

/// Association numbers of a channel.
pub const ANS: usize = 4;

/// Octets of the two addresses, behind which the SecTAG goes.
pub const MACS: usize = 12;

/// Octets of a VLAN tag.
pub const VLAN: usize = 4;

/// Reason that an association is not installed or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaError {
    /// The engine does not take the key.
    #[error(transparent)]
    Key(#[from] InstallError),
    /// There is no such SecY.
    #[error("there is no SecY {0}")]
    NoSecy(u16),
    /// The association number is not 0 to 3.
    #[error("the association number is 0 to 3, not {0}")]
    An(u8),
    /// The association number is in use: retire that association first.
    #[error("association number {0} is in use; retire it first")]
    Occupied(u8),
    /// No association with this number.
    #[error("there is no association {0}")]
    NoSa(u8),
    /// An XPN suite needs salt and SSCI.
    #[error("an XPN suite needs a salt and an SSCI")]
    XpnMissing,
    /// The suite is not an XPN suite.
    #[error("salt and SSCI belong to XPN suites alone")]
    XpnUnexpected,
    /// Packet numbers begin with 1 and end with the suite's last.
    #[error("packet numbers begin with 1 and must fit the suite")]
    Numbers,
    /// Too many receive channels or associations.
    #[error("too many receive channels or associations")]
    Full,
}

/// One association, for `show macsec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaReport {
    /// The transmitter's SCI.
    pub sci: u64,
    /// Association number.
    pub an: u8,
    /// Sending: the number of the next frame. Receiving: the one after the highest.
    pub next_pn: u64,
    /// Receiving: the lowest acceptable number. Sending: as `next_pn`.
    pub lowest_pn: u64,
    /// Receiving: lowest number that a receiver may accept which knows nothing else of the
    /// past. Sending: as `next_pn`.
    pub edge: u64,
    /// The record that keeps it; sending, the lease under which numbers are taken from it.
    pub lease: Lease,
    /// Its counters.
    pub stats: Stats,
}

/// Checks the conditions common to both directions, and makes the key.
pub(super) fn key_spec(
    cipher: Cipher,
    an: u8,
    xpn: Option<Xpn>,
    key: &Secret,
    place: &Place,
) -> Result<KeySpec, SaError> {
    if an as usize >= ANS {
        return Err(SaError::An(an));
    }
    match (cipher.xpn, xpn.is_some()) {
        (true, false) => return Err(SaError::XpnMissing),
        (false, true) => return Err(SaError::XpnUnexpected),
        _ => {}
    }
    Ok(KeySpec::new(cipher.suite, key.clone(), Secret::new(Vec::new())).at(place.clone()))
}

/// Nonces of one association (clauses 14.5 to 14.8).
///
/// ```text
///   GCM-AES        │      SCI, 8 octets      │ PN, 4 │
///   GCM-AES-XPN    │ SSCI, 4 │   PN, 8 octets         │  XOR salt
/// ```
/// In both the number is XORed into the last 8 octets of something fixed, since
/// a 32-bit PN leaves the upper four of them alone.
#[derive(Clone, Copy, Debug)]
pub struct Nonces {
    head: [u8; 4],
    tail: u64,
}

impl Nonces {
    /// The nonces of channel `sci`, or of the short SCI.
    pub fn new(sci: u64, xpn: Option<Xpn>) -> Self {
        let mut fixed = [0; 12];
        match xpn {
            None => fixed[..8].copy_from_slice(&sci.to_be_bytes()),
            Some(Xpn { salt, ssci }) => {
                fixed = salt;
                for (octet, s) in fixed.iter_mut().zip(ssci.to_be_bytes()) {
                    *octet ^= s;
                }
            }
        }
        let [a, b, c, d, tail @ ..] = fixed;
        Self { head: [a, b, c, d], tail: u64::from_be_bytes(tail) }
    }

    /// The nonces to come, for an engine that makes key stream ahead.
    pub fn coming(&self, op: Op, next: u64) -> Coming {
        Coming { op, base: self.nonce(0), known: true, next }
    }

    /// The nonce of one frame.
    #[inline]
    pub fn nonce(&self, pn: u64) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.head);
        nonce[4..].copy_from_slice(&(self.tail ^ pn).to_be_bytes());
        nonce
    }
}

/// The 64-bit number whose low half travelled: the one closest to `next`
/// (clause 10.6.2). Nothing for 0 and for the number that cannot be.
#[inline]
pub fn recover(next: u64, low: u32) -> Option<u64> {
    let distance = low.wrapping_sub(next as u32) as i32;
    let pn = next.checked_add_signed(distance.into()).unwrap_or(low.into());
    if pn == 0 || pn == u64::MAX { None } else { Some(pn) }
}

/// The EtherType at an offset.
#[inline]
pub(super) fn ethertype(data: &[u8], at: usize) -> Option<EtherType> {
    let octets = data.get(at..)?.first_chunk()?;
    Some(EtherType(u16::from_be_bytes(*octets)))
}

/// True if the frame, behind `at` octets, is of one of these protocols.
#[cold]
pub(super) fn is_of(data: &[u8], at: usize, protocols: &[EtherType]) -> bool {
    ethertype(data, at).is_some_and(|of| protocols.contains(&of))
}

/// Octets in front of the place of the SecTAG: the addresses, and up to
/// `clear_tags` VLAN tags.
#[inline]
pub(super) fn front(data: &[u8], clear_tags: u8) -> usize {
    let mut at = MACS;
    for _ in 0..clear_tags {
        if !ethertype(data, at).is_some_and(EtherType::is_vlan) {
            break;
        }
        at += VLAN;
    }
    at
}

/// Copies the addresses from one offset to another; nothing if they are not there. (In words:
/// copied as octets, they were left to `memmove`.)
#[inline(always)]
pub(super) fn copy_macs(data: &mut [u8], from: usize, to: usize) -> Option<()> {
    let [a, b, c, d, e, f, g, h, rest @ ..]: [u8; MACS] = *data.get(from..)?.first_chunk()?;
    let (front, rest) = (u64::from_ne_bytes([a, b, c, d, e, f, g, h]), u32::from_ne_bytes(rest));
    let place = data.get_mut(to..)?.first_chunk_mut::<MACS>()?;
    let (start, end) = place.split_at_mut(8);
    start.copy_from_slice(&front.to_ne_bytes());
    end.copy_from_slice(&rest.to_ne_bytes());
    Some(())
}

/// Swaps the addresses and the clear VLAN tags behind them, so that the addresses stand
/// before the SecTAG and the octets under the ICV are one piece.
#[inline]
pub(super) fn tags_first(data: &mut [u8], at: usize) {
    if let Some(front) = data.get_mut(..at) {
        front.rotate_right(at - MACS);
    }
}

/// Undoes [`tags_first`].
#[inline]
pub(super) fn macs_first(data: &mut [u8], at: usize) {
    if let Some(front) = data.get_mut(..at) {
        front.rotate_left(at - MACS);
    }
}

/// Octets in front of the additional data: the clear VLAN tags.
#[inline]
pub(super) const fn ad_start(job: &Job<()>) -> usize {
    match job.ad {
        Ad::Span(span) => span.start as usize,
        _ => 0,
    }
}
