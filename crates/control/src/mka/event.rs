//! Input and output of the core, beside messages.

use super::config::{Cak, Confidentiality, Config, LIFE, Suite};
use ferrule_base::Secret;
use ferrule_wire::Sci;
use ferrule_wire::mkpdu::{Ckn, KeyId, Member};
use std::fmt;

/// Commands of configuration and operator.
#[derive(Clone, Debug)]
pub enum Command {
    /// A CAK more. Of several the last one that has live peers is in use.
    Join(Cak),
    /// A CAK is not valid any more.
    Leave(Ckn),
    /// A new SAK now, as key server.
    Rekey,
    /// Other parameters for the same secure channel. The SAK in use stays until one that was made
    /// by them replaces it.
    Configure(Config),
}

/// Parameters of an XPN suite beside the key (802.1AE-2018 clause 10.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xpn {
    /// Salt of the SAK.
    pub salt: [u8; 12],
    /// SSCI under which this station transmits.
    pub ssci: u32,
}

/// A peer's channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Its SCI.
    pub sci: Sci,
    /// Its SSCI by the SAK, with XPN suites.
    pub ssci: Option<u32>,
}

/// Orders to the SecY.
#[derive(Clone, Debug)]
pub enum Order {
    /// Install a SAK: receive with it from these channels, and be ready to transmit. Done means
    /// that frames under it pass from now on.
    Install {
        /// Its identity.
        key: KeyId,
        /// Association number; an SA that has it goes.
        an: u8,
        /// The key.
        sak: Secret,
        /// Cipher suite.
        suite: Suite,
        /// Confidentiality.
        confidentiality: Confidentiality,
        /// Salt and own SSCI, with XPN suites.
        xpn: Option<Xpn>,
        /// The peers' channels.
        channels: Vec<Channel>,
    },
    /// Transmit with a SAK that is installed.
    Transmit(KeyId),
    /// Forget a SAK.
    Retire(KeyId),
    /// Receive from a channel, too, with a SAK; one that was not installed is no fault. With an
    /// XPN suite the channel is that of a member for which the SAK was made, and which this
    /// station hears later than others.
    AddChannel {
        /// The SAK.
        key: KeyId,
        /// The channel.
        channel: Channel,
    },
    /// Refuse lower packet numbers of a channel (bounded delay).
    LowestPn {
        /// The sender.
        channel: Sci,
        /// The SAK.
        key: KeyId,
        /// The lowest that is acceptable.
        pn: u64,
    },
    /// The controlled port.
    Port(PortState),
}

/// A participant: the data by which the messages of its peers are told from those of
/// others.
#[derive(Clone, Debug)]
pub struct Participant {
    /// Name of its CAK.
    pub ckn: Ckn,
    /// Key of the ICVs.
    pub ick: Secret,
    /// Its live peers, with the last message of each.
    pub live: Vec<Member>,
}

/// State of the controlled port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// Nothing passes.
    Blocked,
    /// Frames pass in clear.
    Clear,
    /// Frames pass under a SAK.
    Secured,
}

/// News of the SecY for the core, beside answers to orders.
#[derive(Clone, Debug)]
pub enum Event {
    /// The packet number that is sent next under a SAK.
    NextPn(KeyId, u64),
}

/// News for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// A peer is live.
    PeerLive(Sci),
    /// A peer was silent for [`LIFE`](super::config::LIFE).
    PeerLost(Sci),
    /// The key server is this one; nothing: there is none.
    KeyServer(Option<Sci>),
    /// A SAK is in use.
    InUse(KeyId),
    /// The SecY refused an order.
    Refused(String),
    /// No random octets are to be had.
    NoEntropy,
}

impl News {
    /// True if something does not work.
    pub const fn is_failure(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::NoEntropy)
    }
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeerLive(sci) => write!(f, "peer {sci} is live"),
            Self::PeerLost(sci) => write!(f, "peer {sci} was silent for {} s", LIFE.as_secs()),
            Self::KeyServer(Some(sci)) => write!(f, "{sci} is key server"),
            Self::KeyServer(None) => f.write_str("there is no key server"),
            Self::InUse(key) => write!(f, "SAK {key} is in use"),
            Self::Refused(why) => write!(f, "the SecY refused a SAK: {why}"),
            Self::NoEntropy => f.write_str("no random octets are to be had: no SAK is made"),
        }
    }
}
