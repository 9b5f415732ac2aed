//! What people have to know of a node that runs, from its control part.

use ferrule_base::PortId;
use std::fmt;

/// Something that happened, which its `Display` says in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incident {
    /// A counter could not be written: who runs out of numbers stops.
    CounterNotWritten(String),
    /// Counters are written again.
    CountersWritten,
    /// Where replay windows stand could not be written.
    WindowsNotWritten(String),
    /// It is written again.
    WindowsWritten,
    /// The card of a port was silent, and is reset.
    CardSilent {
        /// The port's name.
        port: String,
    },
    /// The card of a port could not be filled.
    CardUnfilled {
        /// The port's name.
        port: String,
        /// Why.
        why: String,
    },
    /// An outbound SA has few numbers left: it wants a new key.
    SaExpires(Sender, u64),
    /// What has a sentence, and no name of its own.
    Other(String),
}

impl Incident {
    /// Whether something does not work.
    pub fn is_failure(&self) -> bool {
        !matches!(self, Self::SaExpires(..))
    }
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CounterNotWritten(e) => {
                write!(f, "counter not written, who runs out of numbers stops until it is: {e}")
            }
            Self::CountersWritten => f.write_str("counters are written again"),
            Self::WindowsNotWritten(e) => write!(
                f,
                "replay protection would not survive a crash, for windows are not written: {e}"
            ),
            Self::WindowsWritten => f.write_str("where replay windows stand is written again"),
            Self::CardSilent { port } => {
                write!(f, "the card of port {port} does not answer: it is reset")
            }
            Self::CardUnfilled { port, why } => {
                write!(f, "the card of port {port} stays empty: {why}")
            }
            Self::SaExpires(sa, left) => {
                write!(f, "{sa} has {left} numbers left: give it a new key")
            }
            Self::Other(what) => f.write_str(what),
        }
    }
}

/// An outbound SA, by what people call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sender {
    /// Of ESP or AH.
    Tunnel {
        /// The name of its tunnel or pair.
        name: String,
        /// Its SPI.
        spi: u32,
    },
    /// Of MACsec.
    Macsec {
        /// The name of its port.
        port: String,
        /// Its association number.
        an: u8,
    },
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tunnel { name, spi } => write!(f, "tunnel {name}, SPI 0x{spi:08x}"),
            Self::Macsec { port, an } => write!(f, "MACsec on port {port}, AN {an}"),
        }
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
    /// How it is: `up`, `works`, or what is wrong.
    pub state: &'static str,
}
