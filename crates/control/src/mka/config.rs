//! Configuration of a participant, and the standard's numbers.

use super::keys::Keys;
use ferrule_base::{Duration, MacAddr, Secret};
use ferrule_wire::eapol::PAE_GROUP;
use ferrule_wire::mkpdu::Ckn;
use ferrule_wire::{EtherType, Sci};

/// Interval between two MKPDUs (MKA Hello Time, 802.1X-2020 table 9-3).
pub const HELLO: Duration = Duration::from_secs(2);
/// The same with bounded delay (MKA Bounded Hello Time).
pub const BOUNDED_HELLO: Duration = Duration::from_millis(500);
/// A peer that was silent for so long is gone (MKA Life Time).
pub const LIFE: Duration = Duration::from_secs(6);
/// The old SAK stays for so long once the new one is in use (SAK Retire Time).
pub const RETIRE: Duration = Duration::from_secs(3);
/// Shortest interval between two answers to new peers, so that recorded messages of old
/// ones cannot make a station flood the link.
pub const ANSWER: Duration = Duration::from_millis(100);
/// Key servers whose last key number is remembered.
pub const SERVERS_MAX: usize = 256;
/// Peers of a CAK at most, live and potential; as many fit an MKPDU.
pub const PEERS_MAX: usize = 64;
/// CAKs of a port at most: that in use, and one that takes its place.
pub const CAKS_MAX: usize = 4;
/// A packet number from which on there is to be a new SAK (PendingPNExhaustion, clause 9.8).
pub const PN_PENDING: u64 = 0xc000_0000;
/// The same with XPN suites.
pub const XPN_PENDING: u64 = 0xc000_0000_0000_0000;
/// Priority of a participant that never is key server.
pub const NEVER_SERVER: u8 = 255;
/// Own messages that a peer's may answer at most.
pub const SENT_MAX: usize = 64;

/// Cipher suite of the SAKs that a key server makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// GCM-AES-128.
    GcmAes128,
    /// GCM-AES-256.
    GcmAes256,
    /// GCM-AES-XPN-128.
    GcmAesXpn128,
    /// GCM-AES-XPN-256.
    GcmAesXpn256,
}

impl Suite {
    /// Octets of a SAK.
    pub const fn key_len(self) -> usize {
        match self {
            Self::GcmAes128 | Self::GcmAesXpn128 => 16,
            Self::GcmAes256 | Self::GcmAesXpn256 => 32,
        }
    }

    /// Packet numbers of 64 bits, with salt and SSCIs; no confidentiality offset.
    pub const fn is_xpn(self) -> bool {
        matches!(self, Self::GcmAesXpn128 | Self::GcmAesXpn256)
    }

    /// A packet number from which on there is to be a new SAK.
    pub const fn pn_pending(self) -> u64 {
        if self.is_xpn() { XPN_PENDING } else { PN_PENDING }
    }

    /// Identifier (802.1AE table 14-1).
    pub const fn id(self) -> u64 {
        match self {
            Self::GcmAes128 => 0x0080_c200_0100_0001,
            Self::GcmAes256 => 0x0080_c200_0100_0002,
            Self::GcmAesXpn128 => 0x0080_c200_0100_0003,
            Self::GcmAesXpn256 => 0x0080_c200_0100_0004,
        }
    }

    /// The suite of an identifier; nothing if it is not known.
    pub const fn from_id(id: u64) -> Option<Self> {
        match id {
            0x0080_c200_0100_0001 => Some(Self::GcmAes128),
            0x0080_c200_0100_0002 => Some(Self::GcmAes256),
            0x0080_c200_0100_0003 => Some(Self::GcmAesXpn128),
            0x0080_c200_0100_0004 => Some(Self::GcmAesXpn256),
            _ => None,
        }
    }
}

/// Confidentiality that a key server asks for (802.1X-2020 clause 11.11.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidentiality {
    /// Integrity only.
    None,
    /// The whole user data.
    All,
    /// But the first 30 octets.
    Offset30,
    /// But the first 50 octets.
    Offset50,
}

impl Confidentiality {
    /// The code on the wire.
    pub const fn code(self) -> u8 {
        match self {
            Self::None => 0,
            Self::All => 1,
            Self::Offset30 => 2,
            Self::Offset50 => 3,
        }
    }

    /// The confidentiality of a code on the wire, of two bits.
    pub const fn from_code(code: u8) -> Self {
        match code & 3 {
            0 => Self::None,
            1 => Self::All,
            2 => Self::Offset30,
            _ => Self::Offset50,
        }
    }

    /// As much of it as a station of this MACsec capability can do (802.1X-2020 clause 11.11.3).
    pub const fn within(self, capability: u8) -> Self {
        match capability {
            0 | 1 => Self::None,
            2 if self.has_offset() => Self::All,
            _ => self,
        }
    }

    /// Some octets of the data stay readable.
    pub const fn has_offset(self) -> bool {
        matches!(self, Self::Offset30 | Self::Offset50)
    }
}

/// A port's part in MKA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Secure channel of the port.
    pub sci: Sci,
    /// Destination of MKPDUs.
    pub destination: MacAddr,
    /// Their EtherType.
    pub ethertype: EtherType,
    /// Key server priority: the lowest is best, 255 never serves.
    pub priority: u8,
    /// Suite of SAKs, as key server.
    pub suite: Suite,
    /// Confidentiality, as key server, as far as all peers can do it. (An XPN suite has no offset: in its place all is
    /// confidential.)
    pub confidentiality: Confidentiality,
    /// A new SAK after this time, as key server.
    pub rekey: Option<Duration>,
    /// Frames may go in clear as long as there is no SAK (should-secure).
    pub clear: bool,
    /// Packets are refused that are older than the bounded hello time.
    pub delay_protect: bool,
}

impl Config {
    /// A port with the standard's defaults.
    pub const fn new(sci: Sci) -> Self {
        Self {
            sci,
            destination: MacAddr(PAE_GROUP),
            ethertype: EtherType::EAPOL,
            priority: 16,
            suite: Suite::GcmAes128,
            confidentiality: Confidentiality::All,
            rekey: None,
            clear: false,
            delay_protect: false,
        }
    }

    /// Confidentiality that goes with the suite.
    pub(super) const fn confidentiality(&self) -> Confidentiality {
        let is_without = self.suite.is_xpn() && self.confidentiality.has_offset();
        if is_without { Confidentiality::All } else { self.confidentiality }
    }

    /// Interval between two messages.
    pub const fn hello(&self) -> Duration {
        if self.delay_protect { BOUNDED_HELLO } else { HELLO }
    }
}

/// A pre-shared CAK.
#[derive(Clone, Debug)]
pub struct Cak {
    pub(super) ckn: Ckn,
    pub(super) keys: Keys,
}

impl Cak {
    /// A CAK of 16 or 32 octets; of any other length nothing.
    pub fn new(ckn: Ckn, key: Secret) -> Option<Self> {
        Some(Self { ckn, keys: Keys::new(key, &ckn)? })
    }
}
