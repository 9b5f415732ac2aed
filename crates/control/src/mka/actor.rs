//! A participant: one CAK, the peers that have it, and the key server among them.
//!
//! A peer is *potential* once it was heard. It is *live* once it says that it heard a message
//! of ours that is not older than [`LIFE`] (802.1X-2020 clause 9.4.3): recorded messages of
//! others make no peer live, nor do they keep one alive or take its place.

use super::config::{
    ANSWER, Cak, Confidentiality, Config, LIFE, NEVER_SERVER, PEERS_MAX, SENT_MAX, Suite,
};
use super::fault::Fault;
use super::give_back;
use super::keys::Keys;
use super::xpn::Sscis;
use crate::Entropy;
use ferrule_base::Instant;
use ferrule_wire::Sci;
use ferrule_wire::mkpdu::{AGILITY, Ckn, KeyId, KeyUse, Member, Mi, Repr, SakUse, Set};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

/// MKA version that is spoken.
const VERSION: u8 = 3;
/// Own MACsec capability: all offsets.
const CAPABILITY: u8 = 3;

/// A live peer.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its secure channel.
    pub sci: Sci,
    /// Its last message.
    pub mn: u32,
    /// Time at which the peer is given up.
    pub expires: Instant,
    /// Key server priority.
    pub priority: u8,
    /// Key server flag.
    pub is_server: bool,
    /// MACsec capability (IEEE 802.1X clause 11.11): 0 without desire for MACsec.
    pub capability: u8,
    /// Use of SAKs, as it last said.
    pub sak_use: SakUse,
    /// High halves of its packet numbers.
    pub high: Option<[u32; 2]>,
}

impl Peer {
    /// True if it takes part in MACsec.
    pub const fn can(&self) -> bool {
        self.capability > 0
    }

    /// Its use of a SAK.
    pub fn uses(&self, key: KeyId) -> Option<KeyUse> {
        self.sak_use.keys.into_iter().flatten().find(|used| used.key == key)
    }

    /// Lowest packet number that it says of a SAK.
    pub fn lowest_pn(&self, key: KeyId, suite: Suite) -> Option<u64> {
        let mut said = lowest_pns(&self.sak_use, self.high);
        said.find(|(used, _)| used.key == key)?.1.of(suite)
    }
}

/// A packet number in its halves.
#[derive(Clone, Copy, Debug)]
pub struct Halves {
    low: u32,
    /// Nothing if the sender does not say it.
    high: Option<u32>,
}

impl Halves {
    /// The number by a suite; nothing if a half of it is not known.
    pub fn of(self, suite: Suite) -> Option<u64> {
        let high = if suite.is_xpn() { self.high? } else { 0 };
        Some(u64::from(high) << 32 | u64::from(self.low))
    }
}

/// Use of the latest key and the one before, with lowest packet numbers.
pub fn lowest_pns(
    sak_use: &SakUse,
    high: Option<[u32; 2]>,
) -> impl Iterator<Item = (KeyUse, Halves)> + use<> {
    let high = high.map_or([None; 2], |high| high.map(Some));
    let keys = sak_use.keys.into_iter().flatten();
    keys.zip(high).map(|(used, high)| (used, Halves { low: used.lowest_pn, high }))
}

/// High halves of lowest packet numbers, in a message.
pub fn high_halves(repr: &Repr) -> Option<[u32; 2]> {
    repr.set(|set| match set {
        Set::Xpn { lowest_pn, .. } => Some(*lowest_pn),
        _ => None,
    })
}

/// A peer that was heard.
#[derive(Clone, Copy, Debug)]
struct Potential {
    sci: Sci,
    mn: u32,
    expires: Instant,
}

/// Change of the live peers by a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// A peer that was not live before.
    pub is_new: bool,
    /// A live peer.
    pub is_live: bool,
}

/// A participant.
pub struct Actor {
    pub ckn: Ckn,
    pub keys: Keys,
    /// Own identifier and the number of the last message.
    own: Member,
    /// Last key number that was distributed.
    kn: u32,
    pub live: BTreeMap<Mi, Peer>,
    potential: BTreeMap<Mi, Potential>,
    /// Own messages that a peer may answer: number and time.
    sent: VecDeque<(u32, Instant)>,
    /// Last change of the live peers.
    pub changed: Instant,
    /// The SecY was told of the live peers since.
    pub is_told: bool,
    /// Time of the next message.
    pub hello: Instant,
}

/// A random identifier; nothing if no random octets are to be had.
fn identifier(entropy: &mut dyn Entropy) -> Option<Mi> {
    let mut mi = [0; 12];
    entropy.fill(&mut mi).then_some(Mi(mi))
}

impl Actor {
    /// A participant without peers; nothing without random octets.
    pub fn new(now: Instant, cak: Cak, entropy: &mut dyn Entropy) -> Option<Self> {
        Some(Self {
            ckn: cak.ckn,
            keys: cak.keys,
            own: Member { mi: identifier(entropy)?, mn: 0 },
            kn: 0,
            live: BTreeMap::new(),
            potential: BTreeMap::new(),
            sent: VecDeque::new(),
            changed: now,
            is_told: false,
            hello: now,
        })
    }

    /// Own identifier.
    pub const fn mi(&self) -> Mi {
        self.own.mi
    }

    /// Identity of the next SAK that it makes; nothing once it has made too many.
    pub fn next_key(&mut self) -> Option<KeyId> {
        self.kn = self.kn.checked_add(1)?;
        Some(KeyId { mi: self.own.mi, kn: self.kn })
    }

    /// A new identity, with no peers.
    pub fn begin_anew(&mut self, now: Instant, entropy: &mut dyn Entropy) {
        let Some(mi) = identifier(entropy) else { return };
        (self.own, self.kn) = (Member { mi, mn: 0 }, 0);
        self.live.clear();
        self.potential.clear();
        self.sent.clear();
        self.hello = now;
        self.change(now);
    }

    /// The live peers are others from now on.
    const fn change(&mut self, now: Instant) {
        (self.changed, self.is_told) = (now, false);
    }

    /// The SCI of a peer that was heard.
    pub fn sci_of(&self, mi: &Mi) -> Option<Sci> {
        let live = self.live.get(mi).map(|peer| peer.sci);
        live.or_else(|| self.potential.get(mi).map(|peer| peer.sci))
    }

    /// SSCIs of a SAK that is made now: all live peers are members.
    pub fn sscis(&self, own: Sci) -> Option<Sscis> {
        let peers = self.live.iter().map(|(&mi, peer)| (mi, peer.sci));
        Sscis::by_sci(self.own.mi, peers.chain([(self.own.mi, own)]).collect())
    }

    /// True if peers were heard that are not live.
    pub fn has_potential(&self) -> bool {
        !self.potential.is_empty()
    }

    /// True if the message shows that its sender heard us lately.
    fn is_answered(&self, now: Instant, repr: &Repr) -> bool {
        let echo = repr.set(|set| {
            let (Set::Live { peers, .. } | Set::Potential(peers)) = set else { return None };
            peers.iter().find(|peer| peer.mi == self.own.mi).map(|peer| peer.mn)
        });
        let fresh = |&&(_, at): &&(u32, Instant)| now.since(at) <= LIFE;
        let oldest = self.sent.iter().find(fresh).map(|&(mn, _)| mn);
        echo.zip(oldest).is_some_and(|(mn, oldest)| (oldest..=self.own.mn).contains(&mn))
    }

    /// Takes a message whose ICV is right.
    pub fn hear(
        &mut self,
        now: Instant,
        repr: &Repr,
        own: Sci,
        entropy: &mut dyn Entropy,
    ) -> Result<Heard, Fault> {
        let Member { mi, mn } = repr.actor;
        if repr.agility != AGILITY {
            return Err(Fault::Agility);
        }
        if mi == self.own.mi && repr.sci != own {
            // Two have drawn the same identifier.
            self.begin_anew(now, entropy);
        }
        if mi == self.own.mi || repr.sci == own {
            return Err(Fault::OwnMessage);
        }
        let known = self.live.get(&mi).map(|peer| peer.mn);
        let known = known.or(self.potential.get(&mi).map(|peer| peer.mn));
        if mn == 0 || known.is_some_and(|known| mn <= known) {
            return Err(Fault::OldNumber);
        }
        if !self.is_answered(now, repr) {
            match self.live.get_mut(&mi) {
                Some(peer) => peer.mn = mn,
                None => self.note(now, mi, (repr.sci, mn)),
            }
            return Ok(Heard::default());
        }
        let is_new = !self.live.contains_key(&mi);
        if is_new {
            // A station that started again has another identifier.
            self.live.retain(|_, peer| peer.sci != repr.sci);
            if self.live.len() == PEERS_MAX {
                return Err(Fault::Peers);
            }
            self.change(now);
        }
        self.potential.remove(&mi);
        give_back(&mut self.potential);
        let sak_use = repr.set(|set| match set {
            Set::SakUse(sak_use) => Some(*sak_use),
            _ => None,
        });
        self.live.insert(
            mi,
            Peer {
                sci: repr.sci,
                mn,
                expires: now + LIFE,
                priority: repr.priority,
                is_server: repr.key_server,
                capability: if repr.desired { repr.capability } else { 0 },
                sak_use: sak_use.unwrap_or_default(),
                high: high_halves(repr),
            },
        );
        Ok(Heard { is_new, is_live: true })
    }

    /// Notes a peer that did not hear us yet; of too many the one goes that expires first.
    fn note(&mut self, now: Instant, mi: Mi, (sci, mn): (Sci, u32)) {
        let room = PEERS_MAX.saturating_sub(self.live.len());
        if !self.potential.contains_key(&mi) && self.potential.len() >= room {
            let first = self.potential.iter().min_by_key(|(_, peer)| peer.expires);
            let Some(first) = first.map(|(&mi, _)| mi) else { return };
            self.potential.remove(&first);
        }
        let heard = Potential { sci, mn, expires: now + LIFE };
        if self.potential.insert(mi, heard).is_none() {
            // The peer learns soon that it was heard.
            let last = self.sent.back().map_or(Instant::ZERO, |&(_, at)| at);
            self.hello = self.hello.min(now.max(last + ANSWER));
        }
    }

    /// Gives up peers that were silent; the live ones among them.
    pub fn expire(&mut self, now: Instant) -> Vec<(Mi, Sci)> {
        self.potential.retain(|_, peer| peer.expires > now);
        give_back(&mut self.potential);
        let mut lost = Vec::new();
        self.live.retain(|&mi, peer| {
            let stays = peer.expires > now;
            lost.extend((!stays).then_some((mi, peer.sci)));
            stays
        });
        if !lost.is_empty() {
            self.change(now);
        }
        lost
    }

    /// Stations that were heard and did not answer.
    pub fn potential(&self) -> usize {
        self.potential.len()
    }

    /// Earliest time at which a peer is given up.
    pub fn next_expiry(&self) -> Option<Instant> {
        let live = self.live.values().map(|peer| peer.expires);
        live.chain(self.potential.values().map(|peer| peer.expires)).min()
    }

    /// The key server: the best priority, of these the lowest SCI (clause 9.5). Nothing
    /// without live peers.
    pub fn server(&self, own: &Config) -> Option<Sci> {
        let mine = (own.priority, own.sci);
        // A peer that is not willing, or has chosen another server, is not considered.
        let all = self.live.values().filter(|peer| peer.is_server);
        let all = all.map(|peer| (peer.priority, peer.sci));
        let best = all.chain([mine]).filter(|(priority, _)| *priority < NEVER_SERVER).min();
        best.map(|(_, sci)| sci).filter(|_| !self.live.is_empty())
    }

    /// Confidentiality of SAKs, as key server: no more of it than all can do who take part.
    pub fn confidentiality(&self, own: &Config) -> Confidentiality {
        let least = self.live.values().filter(|peer| peer.can()).map(|peer| peer.capability).min();
        own.confidentiality().within(least.unwrap_or(CAPABILITY))
    }

    /// The next message but its ICV, with the SSCI that its SAK has for this station, if it has
    /// one; nothing if a new identity would be needed and cannot be had.
    pub fn message(
        &mut self,
        now: Instant,
        own: &Config,
        (ssci, sets): (Option<u32>, Vec<Set>),
        entropy: &mut dyn Entropy,
    ) -> Option<Repr> {
        if self.own.mn == u32::MAX {
            self.begin_anew(now, entropy);
        }
        self.own.mn = self.own.mn.checked_add(1)?;
        if self.sent.len() == SENT_MAX {
            self.sent.pop_front();
        }
        self.sent.retain(|&(_, at)| now.since(at) <= LIFE);
        self.sent.push_back((self.own.mn, now));
        // In the order of SSCIs.
        let mut live: Vec<_> = self.live.iter().collect();
        live.sort_by_key(|(_, peer)| Reverse(peer.sci));
        let live = live.into_iter().map(|(&mi, peer)| Member { mi, mn: peer.mn }).collect();
        let ssci = ssci.and_then(|ssci| u8::try_from(ssci).ok()).unwrap_or_default();
        let heard = self.potential.iter();
        let heard: Vec<_> = heard.map(|(&mi, peer)| Member { mi, mn: peer.mn }).collect();
        let mut all = vec![Set::Live { ssci, peers: live }, Set::Potential(heard)];
        all.retain(|set| {
            let (Set::Live { peers, .. } | Set::Potential(peers)) = set else { return true };
            !peers.is_empty()
        });
        all.extend(sets);
        Some(Repr {
            version: VERSION,
            priority: own.priority,
            key_server: own.priority < NEVER_SERVER
                && self.server(own).is_none_or(|server| server == own.sci),
            desired: true,
            capability: CAPABILITY,
            sci: own.sci,
            actor: self.own,
            agility: AGILITY,
            ckn: self.ckn,
            sets: all,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_base::{Rng, Secret};

    #[test]
    fn mka_a_new_identifier_comes_before_message_numbers_end() {
        let (now, config) = (Instant::from_secs(1), Config::new(Sci(1)));
        let ckn = Ckn::new(&[1]).unwrap();
        let cak = Cak::new(ckn, Secret::new(vec![1; 16])).unwrap();
        let mut entropy = Rng::new(1);
        let mut actor = Actor::new(now, cak, &mut entropy).unwrap();
        let first = actor.mi();
        actor.own.mn = u32::MAX - 1;
        let mut said = || actor.message(now, &config, (None, Vec::new()), &mut entropy).unwrap();
        assert_eq!(said().actor, Member { mi: first, mn: u32::MAX });
        let anew = said().actor;
        assert!(anew.mi != first && anew.mn == 1, "{anew:?}");
        assert_eq!(said().actor, Member { mi: anew.mi, mn: 2 });
    }
}
