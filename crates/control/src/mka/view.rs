//! State of MKA for display.

use super::Kay;
use super::event::PortState;
use super::fault::Fault;
use ferrule_base::Instant;
use ferrule_wire::Sci;
use ferrule_wire::mkpdu::{Ckn, KeyId, Mi};

/// Messages, and why some were dropped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that were taken.
    pub taken: u64,
    /// Messages that were dropped, by [`Fault::ALL`].
    pub dropped: [u64; Fault::ALL.len()],
    /// The last fault, and when.
    pub last: Option<(Instant, Fault)>,
}

impl Counts {
    pub(super) fn note(&mut self, now: Instant, fault: Option<Fault>) {
        let Some(fault) = fault else {
            self.taken += 1;
            return;
        };
        self.last = Some((now, fault));
        if let Some(count) = self.dropped.get_mut(fault as usize) {
            *count += 1;
        }
    }

    /// Messages that were dropped for this.
    pub fn dropped(&self, fault: Fault) -> u64 {
        self.dropped.get(fault as usize).copied().unwrap_or_default()
    }
}

/// A live peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerView {
    /// CAK.
    pub ckn: Ckn,
    /// Secure channel.
    pub sci: Sci,
    /// Key server priority.
    pub priority: u8,
    /// The peer receives with the latest SAK.
    pub receives: bool,
    /// The peer transmits with the latest SAK.
    pub transmits: bool,
}

/// A SAK in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SakView {
    /// Its identity.
    pub key: KeyId,
    /// Association number.
    pub an: u8,
    /// The SecY receives with it.
    pub receives: bool,
    /// The SecY transmits with it.
    pub transmits: bool,
    /// The SAK was generated here.
    pub made: bool,
}

/// State of an entity.
#[derive(Clone, Debug)]
pub struct View {
    /// The controlled port.
    pub port: PortState,
    /// The key server.
    pub server: Option<Sci>,
    /// Own identifier by each CAK.
    pub own: Vec<(Ckn, Mi)>,
    /// Live peers.
    pub peers: Vec<PeerView>,
    /// Stations that were heard and did not answer.
    pub potential: usize,
    /// SAKs, the latest first.
    pub saks: Vec<SakView>,
    /// Messages.
    pub counts: Counts,
}

impl View {
    /// Reason in words why frames are not under a SAK that all peers have; nothing if they are.
    pub fn trouble(&self) -> Option<String> {
        let dropped = |fault| self.counts.dropped(fault) > 0;
        if self.own.is_empty() {
            return Some("there is no CAK".into());
        }
        if self.peers.is_empty() {
            let last = self.counts.last.map(|(_, fault)| fault);
            let why = match last {
                _ if self.potential > 0 => "a station is heard that does not hear this one",
                Some(Fault::Icv) => "a station has another CAK by the same CKN",
                Some(Fault::UnknownCkn) => "a station is heard by another CKN",
                Some(Fault::OwnMessage) => "a station has the SCI of this one, or frames come back",
                Some(Fault::Destination) => "MKPDUs come to another destination",
                _ if dropped(Fault::Malformed) => "MKPDUs that come are malformed",
                _ if self.counts.taken == 0 => "no MKPDU has come: no station, or a bridge between",
                _ => "the peers went silent",
            };
            return Some(why.into());
        }
        if self.server.is_none() {
            return Some("no station may be key server: every priority is 255".into());
        }
        let latest = match self.saks.first() {
            None => return Some("the key server has not handed out a SAK".into()),
            Some(latest) => latest,
        };
        if !latest.receives {
            return Some(format!("SAK {} is being installed", latest.key));
        }
        let behind: Vec<String> =
            self.peers.iter().filter(|p| !p.receives).map(|p| p.sci.to_string()).collect();
        if !behind.is_empty() {
            let (key, behind) = (latest.key, behind.join(", "));
            return Some(format!("{behind} does not receive under SAK {key}"));
        }
        (!latest.transmits)
            .then(|| format!("the key server does not transmit under {}", latest.key))
    }
}

impl Kay {
    /// Its state.
    pub fn view(&self) -> View {
        let latest = self.saks.latest.as_ref().map(|sak| sak.key);
        let peers = self.actors.iter().flat_map(|actor| {
            actor.live.values().map(|peer| {
                let used = latest.and_then(|key| peer.uses(key));
                PeerView {
                    ckn: actor.ckn,
                    sci: peer.sci,
                    priority: peer.priority,
                    receives: used.is_some_and(|used| used.receives),
                    transmits: used.is_some_and(|used| used.transmits),
                }
            })
        });
        let sak = |sak: &super::sak::Sak| SakView {
            key: sak.key,
            an: sak.an,
            receives: sak.receives,
            transmits: sak.transmits,
            made: sak.made.is_some(),
        };
        View {
            port: self.port,
            server: self.server,
            own: self.actors.iter().map(|actor| (actor.ckn, actor.mi())).collect(),
            peers: peers.collect(),
            potential: self.actors.iter().map(|actor| actor.potential()).sum(),
            saks: self.saks.all().map(sak).collect(),
            counts: self.counts,
        }
    }
}
