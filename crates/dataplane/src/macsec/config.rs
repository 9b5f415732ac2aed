//! Configuration of a SecY and its associations.

use ferrule_base::Secret;
use ferrule_crypto::{Place, Suite};
use ferrule_wire::EtherType;
use ferrule_wire::sectag::{Header, ICV_LEN};
use std::fmt;

/// VLAN tags in front of the SecTAG at most.
pub const CLEAR_TAGS_MAX: u8 = 2;

/// Replay protection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replay {
    /// No protection: late frames are counted and pass.
    Off,
    /// The standard's rule (clause 10.6): numbers below the lowest acceptable
    /// one are dropped. A duplicate inside the window passes.
    #[default]
    Standard,
    /// No number passes twice.
    Strict,
}

/// Fate of frames that are not valid (validateFrames, clause 10.7.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validate {
    /// Dropped.
    #[default]
    Strict,
    /// Passed and counted if they can be read: without a SecTAG, or with integrity alone and a
    /// wrong ICV or an unknown association.
    Check,
    /// The same, and frames with integrity alone are not checked.
    Disabled,
}

/// A SecY on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecyConfig {
    /// Our SCI: system identifier and port number.
    pub sci: u64,
    /// The cipher: AES-GCM.
    pub suite: Suite,
    /// 64-bit packet numbers (the XPN suites).
    pub xpn: bool,
    /// Encrypt; otherwise integrity only.
    pub encrypt: bool,
    /// Octets of user data that stay readable: 0, 30 or 50.
    pub offset: u8,
    /// The SecTAG has the SCI.
    pub send_sci: bool,
    /// Instead, the end-station bit: the SCI is the source address and port 1.
    pub end_station: bool,
    /// The single-copy-broadcast bit.
    pub broadcast: bool,
    /// Replay protection.
    pub replay: Replay,
    /// Numbers behind the next one that may still arrive.
    pub window: u32,
    /// VLAN tags that stay in front of the SecTAG, if the frame has them.
    pub clear_tags: u8,
    /// Frames are protected (protectFrames, clause 10.7.17); else they leave as they are.
    pub protect: bool,
    /// Fate of frames that are not valid.
    pub validate: Validate,
    /// EtherType of the frames that are the port's MKA entity's.
    pub eapol: Option<EtherType>,
    /// Other protocols of the uncontrolled port: their frames pass in clear, both ways.
    pub uncontrolled: Vec<EtherType>,
}

impl SecyConfig {
    /// Encrypts all user data, sends its SCI, accepts numbers in order only.
    pub const fn new(sci: u64, suite: Suite) -> Self {
        Self {
            sci,
            suite,
            xpn: false,
            encrypt: true,
            offset: 0,
            send_sci: true,
            end_station: false,
            broadcast: false,
            replay: Replay::Standard,
            window: 0,
            clear_tags: 0,
            protect: true,
            validate: Validate::Strict,
            eapol: None,
            uncontrolled: Vec::new(),
        }
    }

    /// The cipher of associations that say no other.
    pub const fn cipher(&self) -> Cipher {
        let Self { suite, xpn, encrypt, offset, .. } = *self;
        Cipher { suite, xpn, encrypt, offset }
    }

    /// Octets that a frame grows by.
    pub const fn overhead(send_sci: bool) -> usize {
        tag_len(send_sci) + ICV_LEN
    }

    /// Octets of the SecTAG with its EtherType.
    pub const fn tag_len(&self) -> usize {
        tag_len(self.send_sci)
    }

    /// The last packet number (clause 10.5.2).
    pub const fn pn_max(&self) -> u64 {
        pn_max(self.xpn)
    }

    /// True if receive associations of one configuration stay valid under the other: only
    /// the cipher and the form of its nonces matter to them.
    pub fn receives_like(&self, other: &Self) -> bool {
        (self.suite, self.xpn) == (other.suite, other.xpn)
    }

    /// True if transmit associations of one configuration stay valid under the other.
    pub fn sends_like(&self, other: &Self) -> bool {
        (self.sci, self.suite, self.xpn) == (other.sci, other.suite, other.xpn)
    }
}

/// The last packet number (clause 10.5.2).
pub const fn pn_max(xpn: bool) -> u64 {
    if xpn { u64::MAX - 1 } else { u32::MAX as u64 }
}

const fn tag_len(send_sci: bool) -> usize {
    2 + if send_sci { Header::LEN_SCI } else { Header::LEN }
}

/// Parameters of the XPN suites beside the key (clause 14.7).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Xpn {
    /// The salt of the SAK.
    pub salt: [u8; 12],
    /// The short SCI of the transmitter.
    pub ssci: u32,
}

impl fmt::Debug for Xpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Xpn(ssci {})", self.ssci)
    }
}

/// Cipher suite and confidentiality of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cipher {
    /// The cipher: AES-GCM.
    pub suite: Suite,
    /// 64-bit packet numbers (the XPN suites).
    pub xpn: bool,
    /// Encrypt; otherwise integrity only.
    pub encrypt: bool,
    /// Octets of user data that stay readable: 0, 30 or 50.
    pub offset: u8,
}

/// A transmit association. Its numbers come separately, as a
/// [`Sequence`](crate::Sequence), because they are not configuration.
#[derive(Clone, Debug)]
pub struct TxSaConfig {
    /// Association number, 0 to 3.
    pub an: u8,
    /// The SAK.
    pub key: Secret,
    /// Its cipher, where a key server chose it; else that of the SecY, as it changes.
    pub cipher: Option<Cipher>,
    /// With an XPN suite: salt and our short SCI.
    pub xpn: Option<Xpn>,
    /// Placement of the protection.
    pub place: Place,
}

/// A receive association.
#[derive(Clone, Debug)]
pub struct RxSaConfig {
    /// The peer's SCI.
    pub sci: u64,
    /// Association number, 0 to 3.
    pub an: u8,
    /// The SAK.
    pub key: Secret,
    /// Its cipher, where a key server chose it; else that of the SecY, as it changes.
    pub cipher: Option<Cipher>,
    /// With an XPN suite: salt and the peer's short SCI.
    pub xpn: Option<Xpn>,
    /// The lowest acceptable packet number: 1 for a fresh key.
    pub lowest_pn: u64,
    /// The record on stable storage that keeps where its window stands.
    pub record: [u8; 16],
    /// Placement of the validation.
    pub place: Place,
}
