//! What a SecY and its associations are configured with.

use super::replay::BITMAP_MAX;
use ferrule_base::{PortId, Secret};
use ferrule_crypto::{Place, Suite};
use ferrule_wire::sectag::{Header, ICV_LEN, Sci};
use std::fmt;

/// VLAN tags in front of the SecTAG at most.
pub const CLEAR_TAGS_MAX: u8 = 2;

/// The largest window with XPN: a quarter of the numbers that travel
/// (clause 10.7.8).
pub const XPN_WINDOW_MAX: u32 = 1 << 30;

/// What is done with frames that fail (clause 10.7.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validate {
    /// They are dropped.
    #[default]
    Strict,
    /// They are counted, and pass as far as they can be read.
    Check,
    /// Frames that can be read pass unchecked.
    Disabled,
}

/// What is done about replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replay {
    /// Nothing: late frames are counted and pass.
    Off,
    /// The standard's rule (clause 10.6): numbers below the lowest acceptable
    /// one are dropped. A duplicate inside the window passes.
    #[default]
    Standard,
    /// No number passes twice.
    Bitmap,
}

/// A SecY on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecyConfig {
    /// The port.
    pub port: PortId,
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
    /// What is done with frames that fail.
    pub validate: Validate,
    /// Frames that are not authentic may pass, as `validate` says. Without it
    /// every mode drops what [`Validate::Strict`] drops.
    pub pass_unsecured: bool,
    /// What is done about replay.
    pub replay: Replay,
    /// Numbers behind the next one that may still arrive.
    pub window: u32,
    /// VLAN tags that stay in front of the SecTAG, if the frame has them.
    pub clear_tags: u8,
}

impl SecyConfig {
    /// Encrypts all user data, sends its SCI, accepts numbers in order only.
    pub const fn new(port: PortId, sci: u64, suite: Suite) -> Self {
        Self {
            port,
            sci,
            suite,
            xpn: false,
            encrypt: true,
            offset: 0,
            send_sci: true,
            end_station: false,
            broadcast: false,
            validate: Validate::Strict,
            pass_unsecured: false,
            replay: Replay::Standard,
            window: 0,
            clear_tags: 0,
        }
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
        if self.xpn { u64::MAX - 1 } else { u32::MAX as u64 }
    }

    /// Whether receive associations of the one are at home in the other: only the
    /// cipher and the form of its nonces matter to them.
    pub fn receives_like(&self, other: &Self) -> bool {
        (self.suite, self.xpn) == (other.suite, other.xpn)
    }

    /// Whether transmit associations of the one are at home in the other.
    pub fn sends_like(&self, other: &Self) -> bool {
        (self.sci, self.suite, self.xpn) == (other.sci, other.suite, other.xpn)
    }

    /// Whether what is chosen can go together.
    pub const fn check(&self) -> Result<(), ConfigError> {
        if !matches!(self.suite, Suite::AesGcm(_)) {
            return Err(ConfigError::Suite(self.suite));
        }
        if !matches!(self.offset, 0 | 30 | 50) {
            return Err(ConfigError::Offset(self.offset));
        }
        if self.offset != 0 && self.xpn {
            return Err(ConfigError::OffsetWithXpn);
        }
        if self.offset != 0 && !self.encrypt {
            return Err(ConfigError::OffsetWithoutEncryption);
        }
        if self.send_sci && (self.end_station || self.broadcast) {
            return Err(ConfigError::TwoIdentities);
        }
        let port = if self.broadcast { Sci::PORT_BROADCAST } else { Sci::PORT_END_STATION };
        if self.end_station && Sci(self.sci).port() != port {
            return Err(ConfigError::EndStationPort(port));
        }
        if !matches!(self.validate, Validate::Strict) && !self.pass_unsecured {
            return Err(ConfigError::Unsecured);
        }
        if self.xpn && self.window > XPN_WINDOW_MAX {
            return Err(ConfigError::Window(XPN_WINDOW_MAX));
        }
        if matches!(self.replay, Replay::Bitmap) && self.window > BITMAP_MAX {
            return Err(ConfigError::Window(BITMAP_MAX));
        }
        if self.clear_tags > CLEAR_TAGS_MAX {
            return Err(ConfigError::ClearTags(self.clear_tags));
        }
        Ok(())
    }
}

const fn tag_len(send_sci: bool) -> usize {
    2 + if send_sci { Header::LEN_SCI } else { Header::LEN }
}

/// Why a SecY cannot be as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// Not a suite of clause 14.
    Suite(Suite),
    /// Not one of the three offsets.
    Offset(u8),
    /// XPN has no confidentiality offset.
    OffsetWithXpn,
    /// An offset without encryption says nothing.
    OffsetWithoutEncryption,
    /// The SCI is sent, or told by ES or SCB, not both.
    TwoIdentities,
    /// The SCI that ES implies has this port number.
    EndStationPort(u16),
    /// A lenient validation that is not confirmed.
    Unsecured,
    /// The window is above this.
    Window(u32),
    /// More VLAN tags than can stay in clear.
    ClearTags(u8),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Suite(s) => write!(f, "MACsec has no {s}; use aes-gcm-128 or aes-gcm-256"),
            Self::Offset(n) => write!(f, "the confidentiality offset is 0, 30 or 50, not {n}"),
            Self::OffsetWithXpn => f.write_str("XPN suites have no confidentiality offset"),
            Self::OffsetWithoutEncryption => {
                f.write_str("a confidentiality offset needs encryption")
            }
            Self::TwoIdentities => {
                f.write_str("either the SCI is sent or the end-station or broadcast bit, not both")
            }
            Self::EndStationPort(port) => {
                write!(f, "with the end-station bit the SCI's port number must be {port}")
            }
            Self::Unsecured => {
                f.write_str("this validation lets unsecured frames pass, which must be allowed")
            }
            Self::Window(max) => write!(f, "the replay window is {max} at most"),
            Self::ClearTags(n) => {
                write!(f, "{n} VLAN tags in clear are too many; {CLEAR_TAGS_MAX} at most")
            }
        }
    }
}

impl std::error::Error for ConfigError {}

/// What the XPN suites need beside the key (clause 14.7).
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

/// A transmit association. Its numbers come separately, as a
/// [`Sequence`](crate::Sequence), because they are not configuration.
#[derive(Clone, Debug)]
pub struct TxSaConfig {
    /// Association number, 0 to 3.
    pub an: u8,
    /// The SAK.
    pub key: Secret,
    /// With an XPN suite: salt and our short SCI.
    pub xpn: Option<Xpn>,
    /// Where frames are protected.
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
    /// With an XPN suite: salt and the peer's short SCI.
    pub xpn: Option<Xpn>,
    /// The lowest acceptable packet number: 1 for a fresh key.
    pub lowest_pn: u64,
    /// The record on stable storage that keeps where its window stands.
    pub record: [u8; 16],
    /// Where frames are validated.
    pub place: Place,
}
