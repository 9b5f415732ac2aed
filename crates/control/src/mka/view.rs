//! What people see of MKA.

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
    /// It receives and transmits with the latest SAK.
    pub receives: bool,
    /// It transmits with it.
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
    /// It was made here.
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
    /// SAKs, the latest first.
    pub saks: Vec<SakView>,
    /// Messages.
    pub counts: Counts,
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
            saks: self.saks.all().map(sak).collect(),
            counts: self.counts,
        }
    }
}
