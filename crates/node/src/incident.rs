//! Incidents of a running node that its operator has to know, reported by the control part.

use ferrule_base::PortId;
use ferrule_control::mka::News;
use ferrule_dataplane::ipsec::{Expiry, LifeCause};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Something that happened, which its `Display` says in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, strum::Display)]
pub enum Incident {
    /// A counter could not be written: an SA that runs out of numbers stops.
    #[strum(to_string = "counter not written, who runs out of numbers stops until it is: {0}")]
    CounterNotWritten(String),
    /// Counters are written again.
    #[strum(to_string = "counters are written again")]
    CountersWritten,
    /// The edges of replay windows could not be written.
    #[strum(
        to_string = "replay protection would not survive a crash, for windows are not written: {0}"
    )]
    WindowsNotWritten(String),
    /// The edges of replay windows are written again.
    #[strum(to_string = "where replay windows stand is written again")]
    WindowsWritten,
    /// The card of a port was silent, and is reset.
    #[strum(to_string = "the card of port {port} does not answer: it is reset")]
    CardSilent {
        /// The port's name.
        port: String,
    },
    /// The card of a port could not be filled.
    #[strum(to_string = "the card of port {port} stays empty: {why}")]
    CardUnfilled {
        /// The port's name.
        port: String,
        /// Reason.
        why: String,
    },
    /// A worker did not take an SA of the configuration: it is not in use.
    #[strum(to_string = "{sa} is not in use: {why}")]
    SaRefused {
        /// The SA, by its name for operators.
        sa: String,
        /// Reason.
        why: String,
    },
    /// Packets for a tunnel have no SA: a keying program is to agree on one.
    #[strum(to_string = "tunnel {tunnel} has packets and no SA")]
    Acquire {
        /// The tunnel.
        tunnel: String,
        /// The first octets of the packet that asked, which is kept.
        header: Vec<u8>,
    },
    /// The other end of a tunnel is somewhere else, and is followed.
    #[strum(to_string = "the other end of tunnel {tunnel} is at {address} now")]
    PeerMoved {
        /// The tunnel.
        tunnel: String,
        /// The address and port from which an authentic packet came.
        address: SocketAddr,
    },
    /// An SA that a keying program gave is gone: the configuration has another tunnel.
    #[strum(to_string = "{0} is gone with its tunnel")]
    SaGone(SaName),
    /// An outbound SA has few numbers left: it wants a new key.
    #[strum(to_string = "{0} has {1} numbers left: give it a new key")]
    SaExpires(Sender, u64),
    /// A bound of an SA's life is reached: at a soft one it wants another in its place, at a hard
    /// one it ended.
    #[strum(to_string = "{0}: its {1} lifetime is over, by {2}")]
    SaLife(SaName, Expiry, LifeCause),
    /// Key agreement of a port went on, or does not.
    #[strum(to_string = "MKA on port {port}: {news}")]
    Mka {
        /// The port's name.
        port: String,
        /// News of the MKA entity.
        news: News,
    },
    /// An incident that has a sentence, and no name of its own.
    #[strum(to_string = "{0}")]
    Other(String),
}

impl Incident {
    /// True if keying programs are to act on it: nothing is amiss.
    pub const fn is_of_keying(&self) -> bool {
        matches!(self, Self::Acquire { .. } | Self::PeerMoved { .. } | Self::SaGone(_))
    }

    /// True if something does not work.
    pub fn is_failure(&self) -> bool {
        match self {
            _ if self.is_of_keying() => false,
            Self::SaExpires(..) | Self::SaLife(..) => false,
            Self::Mka { news, .. } => news.is_failure(),
            _ => true,
        }
    }
}

/// An outbound SA, by its name for operators.
#[derive(Clone, Debug, PartialEq, Eq, strum::Display)]
pub enum Sender {
    /// An SA of ESP or AH.
    #[strum(to_string = "tunnel {name}, SPI 0x{spi:08x}")]
    Tunnel {
        /// The name of its tunnel or pair.
        name: String,
        /// Its SPI.
        spi: u32,
    },
    /// A secure association of MACsec.
    #[strum(to_string = "MACsec on port {port}, AN {an}")]
    Macsec {
        /// The name of its port.
        port: String,
        /// Its association number.
        an: u8,
    },
}

/// An SA of ESP or AH, of either direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaName {
    /// The name of its tunnel or pair.
    pub tunnel: String,
    /// `out` or `in`.
    pub way: &'static str,
    /// Its SPI.
    pub spi: u32,
    /// Where its packets go.
    pub destination: IpAddr,
    /// The other end; nothing: any.
    pub peer: Option<IpAddr>,
}

impl fmt::Display for SaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tunnel, way, spi, destination, .. } = self;
        write!(f, "tunnel {tunnel} {way}, SPI 0x{spi:08x} to {destination}")
    }
}

/// Where a card or an engine stands, in a word of its report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The port of a card; nothing: an engine.
    pub card: Option<PortId>,
    /// The worker that has it.
    pub worker: u8,
    /// The word of its placement.
    pub place: &'static str,
    /// `up`, `works`, or the fault.
    pub state: &'static str,
}
