//! Security associations, as a configuration or a keying protocol gives them.

use super::lifetime::Allowance;
use crate::classify::selector::Selector;
use ferrule_base::{Duration, Secret, VrfId};
use ferrule_crypto::KeySpec;
use ferrule_wire::Dscp;
use std::net::IpAddr;

/// The DF bit of an outer IPv4 header (RFC 4301 section 8.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Df {
    /// As inside; set for IPv6, which no router fragments.
    #[default]
    Copy,
    /// Always set.
    Set,
    /// Never set.
    Clear,
}

/// The ECN field of an outer header (RFC 6040 section 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnOut {
    /// As inside.
    #[default]
    Normal,
    /// Not ECN-capable, for a peer that would drop the mark.
    Compatibility,
}

/// TTL or hop limit of an outer header (RFC 4301 section 5.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hops {
    /// Always this.
    Fixed(u8),
    /// As inside, after the hop that brought the packet here.
    Copy,
}

impl Default for Hops {
    fn default() -> Self {
        Self::Fixed(64)
    }
}

/// Configurable fields of a tunnel's outer header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outside {
    /// Its DF bit.
    pub df: Df,
    /// Its DSCP; nothing: as inside.
    pub dscp: Option<Dscp>,
    /// Its ECN field.
    pub ecn: EcnOut,
    /// Its TTL or hop limit.
    pub hops: Hops,
}

/// The protocol of an SA (RFC 4301 section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SaProtocol {
    /// Encapsulating security payload (RFC 4303).
    #[default]
    Esp,
    /// Authentication header (RFC 4302).
    Ah,
}

/// Mode of an SA: the part of a packet that it protects (RFC 4301 section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The whole packet, behind a new IP header.
    #[default]
    Tunnel,
    /// The payload of the packet, behind its own IP header.
    Transport,
}

/// ESP in UDP (RFC 3948), for address translation on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encap {
    /// The port on this side.
    pub local: u16,
    /// The port on the other side.
    pub remote: u16,
    /// After so long without a packet a keepalive is sent (RFC 3948 section 4).
    pub keepalive: Option<Duration>,
}

/// The ends of an SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// This end.
    pub local: IpAddr,
    /// The other end.
    pub remote: IpAddr,
    /// In UDP: the port on this side, and that on the other side.
    pub ports: Option<(u16, u16)>,
}

/// When a packet that is too long for the path, and may be cut, is cut (RFC 4301
/// sections 7 and 8.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragment {
    /// The packet is sealed whole, and the outer packet fragmented.
    #[default]
    After,
    /// Each piece is sealed by itself: IPv4 in a tunnel. All else as
    /// [`After`](Self::After).
    Before,
}

/// Padding against traffic analysis (RFC 4303 section 2.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tfc {
    /// None.
    #[default]
    Off,
    /// The text to be encrypted is padded to a multiple of so many octets, as far as the path
    /// allows.
    Multiple(u16),
    /// Every packet is as long as the path allows.
    Whole,
}

/// An outbound SA.
#[derive(Clone, Debug)]
pub struct OutboundConfig {
    /// The name in the configuration.
    pub name: Box<str>,
    /// SPI, 256 or above.
    pub spi: u32,
    /// ESP or AH.
    pub protocol: SaProtocol,
    /// Tunnel or transport.
    pub mode: Mode,
    /// This end: a tunnel's outer source; in transport mode the host's address.
    pub source: IpAddr,
    /// The other end.
    pub destination: IpAddr,
    /// The suite and its keys.
    pub keys: KeySpec,
    /// The salt (RFC 4106 section 4), `suite.esp_salt_len()` octets.
    pub salt: Secret,
    /// Extended sequence numbers.
    pub esn: bool,
    /// The adjacency by which sealed packets leave.
    pub adjacency: u32,
    /// Largest clear packet (of plain headers) that fits the path.
    pub mtu: u16,
    /// Path MTUs are learned from ICMP errors.
    pub learns: bool,
    /// When packets that are too long are fragmented.
    pub fragment: Fragment,
    /// TCP's segments are held to what fits.
    pub clamp: bool,
    /// A tunnel's outer header.
    pub outside: Outside,
    /// In UDP.
    pub encap: Option<Encap>,
    /// Padding against traffic analysis.
    pub tfc: Tfc,
    /// Dummy packets in a second (RFC 4303 section 2.6).
    pub dummies: u32,
    /// The slot of the outbound SA that wraps its packets again.
    pub then: Option<u32>,
    /// Octets to a multiple of which AH is padded over IPv4: 4, or 8 for a peer that pads
    /// for IPv4 as for IPv6.
    pub ah_align: u8,
    /// Instance of the SA among those whose keys may come again with other SAs, 1 to
    /// [`INSTANCE_MAX`]: its IVs begin with it. 0 for a key whose numbers are kept, which are its
    /// IVs.
    pub instance: u64,
    /// How long it lives; nothing: as long as it has numbers.
    pub life: Option<Allowance>,
}

/// Bits of a sequence number in the IVs of an SA with an instance.
const INSTANCE_SHIFT: u32 = 36;
/// The first bit of such IVs: no number of a static key has it.
const HAS_INSTANCE: u32 = 1 << 31;
/// The largest instance.
pub const INSTANCE_MAX: u64 = (1 << (u64::BITS - 1 - INSTANCE_SHIFT)) - 1;
/// The last sequence number of an SA with an instance.
pub const INSTANCE_NUMBERS: u64 = (1 << INSTANCE_SHIFT) - 1;

impl OutboundConfig {
    /// The first half of its IVs, but for the high bits of a large number.
    pub(super) const fn iv_front(&self) -> u32 {
        match self.instance {
            0 => 0,
            instance => HAS_INSTANCE | (instance << (INSTANCE_SHIFT - u32::BITS)) as u32,
        }
    }

    /// An ESP tunnel as most are, for `..`: extended numbers, no path yet.
    pub fn tunnel(spi: u32, ends: (IpAddr, IpAddr), keys: KeySpec, salt: Secret) -> Self {
        Self {
            name: Box::default(),
            spi,
            protocol: SaProtocol::Esp,
            mode: Mode::Tunnel,
            source: ends.0,
            destination: ends.1,
            keys,
            salt,
            esn: true,
            adjacency: 0,
            mtu: u16::MAX,
            learns: true,
            fragment: Fragment::After,
            clamp: false,
            outside: Outside::default(),
            encap: None,
            tfc: Tfc::Off,
            dummies: 0,
            then: None,
            ah_align: 4,
            instance: 0,
            life: None,
        }
    }
}

/// An inbound SA.
#[derive(Clone, Debug)]
pub struct InboundConfig {
    /// The name in the configuration.
    pub name: Box<str>,
    /// SPI, 256 or above.
    pub spi: u32,
    /// ESP or AH.
    pub protocol: SaProtocol,
    /// Tunnel or transport.
    pub mode: Mode,
    /// The other end; nothing: any.
    pub source: Option<IpAddr>,
    /// In UDP: packets from any address are opened, and one that is authentic tells where the
    /// other end is now.
    pub follows: bool,
    /// This end.
    pub destination: IpAddr,
    /// The suite and its keys.
    pub keys: KeySpec,
    /// The salt.
    pub salt: Secret,
    /// Extended sequence numbers.
    pub esn: bool,
    /// Packets of the replay window; 0: replay is not checked.
    pub window: u32,
    /// Traffic that may come out of the SA (RFC 4301 section 5.2).
    pub selectors: Vec<Selector>,
    /// The table in which inner packets go on.
    pub vrf: VrfId,
    /// In UDP.
    pub encap: Option<Encap>,
    /// TCP's segments are held to what fits so many octets: what the other end's
    /// hosts say is about the path to them.
    pub clamp: Option<u16>,
    /// Its slot: that of the outbound SAs to the same end.
    pub slot: u32,
    /// The slot out of whose inbound SAs its packets must have come: that of the
    /// other end's [`then`](OutboundConfig::then). Nothing: it is in no other.
    pub inside: Option<u32>,
    /// The record on stable storage that keeps where its window stands.
    pub record: [u8; 16],
    /// How long it lives; nothing: without end.
    pub life: Option<Allowance>,
}

impl InboundConfig {
    /// The other end of [`OutboundConfig::tunnel`], for `..`: nothing may come out
    /// of it yet.
    pub fn tunnel(spi: u32, ends: (IpAddr, IpAddr), keys: KeySpec, salt: Secret) -> Self {
        Self {
            name: Box::default(),
            spi,
            protocol: SaProtocol::Esp,
            mode: Mode::Tunnel,
            source: Some(ends.0),
            follows: false,
            destination: ends.1,
            keys,
            salt,
            esn: true,
            window: 64,
            selectors: Vec::new(),
            vrf: VrfId::GLOBAL,
            encap: None,
            clamp: None,
            slot: 0,
            inside: None,
            record: [0; 16],
            life: None,
        }
    }
}
