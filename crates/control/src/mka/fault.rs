//! Rules that a sender broke: the message is dropped, nothing is learned.

use std::fmt;

/// The rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A frame not to the group address of this port, or of another EtherType.
    Destination,
    /// EAPOL, but no MKPDU.
    NotMka,
    /// Lengths contradict one another (802.1X-2020 clause 11.11.2).
    Malformed,
    /// Another algorithm than AES-CMAC.
    Agility,
    /// No CAK has this name.
    UnknownCkn,
    /// Wrong ICV: the sender's CAK of this name is another one.
    Icv,
    /// A message of this participant came back, or of another one with its SCI.
    OwnMessage,
    /// The message number was seen.
    OldNumber,
    /// More peers than [`PEERS_MAX`](super::config::PEERS_MAX).
    Peers,
    /// A SAK from a participant that is not the key server.
    NotKeyServer,
    /// A SAK that does not unwrap, or of a suite that is not known.
    Sak,
    /// A SAK whose number was used by its key server.
    OldSak,
    /// A SAK of an XPN suite with a confidentiality offset.
    Offset,
    /// A SAK of an XPN suite whose members have no SSCIs that differ.
    Sscis,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 14] = [
        Self::Destination,
        Self::NotMka,
        Self::Malformed,
        Self::Agility,
        Self::UnknownCkn,
        Self::Icv,
        Self::OwnMessage,
        Self::OldNumber,
        Self::Peers,
        Self::NotKeyServer,
        Self::Sak,
        Self::OldSak,
        Self::Offset,
        Self::Sscis,
    ];
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Destination => "not for this port",
            Self::NotMka => "EAPOL that is no MKPDU",
            Self::Malformed => "contradictory lengths",
            Self::Agility => "unknown algorithm agility",
            Self::UnknownCkn => "unknown CKN",
            Self::Icv => "wrong ICV: another CAK by the same CKN",
            Self::OwnMessage => "own SCI: a message that came back, or a second station with it",
            Self::OldNumber => "message number seen before",
            Self::Peers => "too many peers",
            Self::NotKeyServer => "SAK not from the key server",
            Self::Sak => "SAK that cannot be unwrapped or used",
            Self::OldSak => "key number used before",
            Self::Offset => "confidentiality offset with an XPN suite",
            Self::Sscis => "members of an XPN suite that are named twice",
        })
    }
}

impl std::error::Error for Fault {}
