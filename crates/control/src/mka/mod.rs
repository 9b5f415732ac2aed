//! MKA: stations on a LAN that have a CAK agree on SAKs (802.1X-2020 clauses 9 and 12.4).
//!
//! ```text
//!   Join, Leave ─▶ ┌─────┐ ─▶ MKPDUs
//!   MKPDUs ──────▶ │ Kay │ ─▶ Install, Transmit, Retire    what the SecY is to do
//!   answers ─────▶ │     │ ─▶ Port                         what may pass
//!   time ────────▶ └─────┘ ─▶ News                         for people
//! ```
//!
//! Every station tells every two seconds the others that it heard. The one of best priority
//! makes a SAK and hands it out under the KEK; each tells when it receives with it, and when
//! all do, all transmit with it. A station announces only steps that its SecY has done. So
//! nothing is lost when a SAK follows another.
//!
//! The files: `actor` one CAK and its peers; `sak` SAKs in use; `keys` the keys derived from a
//! CAK; `exchange` messages in and out; `xpn` salt and SSCIs; `view` the state for display.
//!
//! Not here: group CAKs (Distributed CAK), announcements, so that a key server does not know
//! which suites its peers have.

mod actor;
pub mod config;
pub mod event;
mod exchange;
pub mod fault;
mod keys;
mod sak;
#[cfg(test)]
mod tests;
pub mod view;
mod xpn;

pub use config::{Cak, Confidentiality, Config, Suite};
pub use event::{Channel, Command, Event, News, Order, Participant, PortState, Xpn};
pub use fault::Fault;
pub use keys::Keys;

use crate::{Core, Entropy, Refused, Token};
use actor::{Actor, Peer};
use config::{CAKS_MAX, LIFE, RETIRE, SERVERS_MAX};
use ferrule_base::{Instant, Secret};
use ferrule_wire::Sci;
use ferrule_wire::mkpdu::{Ckn, KeyId, Member, Mi};
use sak::{Made, Sak, Saks};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use xpn::Sscis;

/// News that wait at most if they are not fetched.
const NEWS_MAX: usize = 256;

/// An order that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Install(KeyId),
    Transmit(KeyId),
    Channel(KeyId, Sci),
    Other,
}

/// A SAK that is to be installed.
struct New {
    key: KeyId,
    ckn: Ckn,
    an: u8,
    suite: Suite,
    confidentiality: Confidentiality,
    /// SSCIs of the members, with XPN suites.
    sscis: Option<Sscis>,
    /// Made by this participant.
    made: Option<Made>,
}

/// The MKA entity of a port.
pub struct Kay {
    config: Config,
    entropy: Box<dyn Entropy>,
    /// One for each CAK, in the order in which they came.
    actors: Vec<Actor>,
    /// The SecY was told of the CAKs that there are.
    is_told: bool,
    saks: Saks,
    port: PortState,
    /// Last key number of each key server, the latest server last: no SAK is installed twice.
    distributed: VecDeque<KeyId>,
    server: Option<Sci>,
    /// A new SAK is wanted: an operator asked for it, or one that was made was refused
    /// here.
    rekey: bool,
    /// The SecY refused one: no other before this time.
    refused_until: Instant,
    asked: BTreeMap<Token, Asked>,
    last_token: u64,
    /// Time of the last look at the timers.
    looked: Instant,
    orders: VecDeque<(Token, Order)>,
    transmits: VecDeque<Vec<u8>>,
    news: VecDeque<News>,
    counts: view::Counts,
}

/// An empty map gives back the room of its first entries: among many ports it is worth more than
/// the time to take it anew.
fn give_back<K, V>(map: &mut BTreeMap<K, V>) {
    if map.is_empty() {
        map.clear();
    }
}

/// Channels from which the SecY is to receive with a SAK: of all live peers, but with an XPN suite
/// of members alone, who have an SSCI.
fn channels_of(actors: &[Actor], ckn: &Ckn, sscis: Option<&Sscis>) -> Vec<Channel> {
    let mut channels = BTreeMap::new();
    for actor in actors.iter().filter(|actor| sscis.is_none() || actor.ckn == *ckn) {
        for (mi, peer) in &actor.live {
            let ssci = sscis.map(|sscis| sscis.of(mi));
            if ssci != Some(None) {
                channels.insert(peer.sci, ssci.flatten());
            }
        }
    }
    channels.into_iter().map(|(sci, ssci)| Channel { sci, ssci }).collect()
}

impl Kay {
    /// An entity without a CAK.
    pub fn new(config: Config, entropy: Box<dyn Entropy>) -> Self {
        Self {
            config,
            entropy,
            actors: Vec::new(),
            is_told: true,
            saks: Saks::default(),
            port: PortState::Blocked,
            distributed: VecDeque::new(),
            server: None,
            rekey: false,
            refused_until: Instant::ZERO,
            asked: BTreeMap::new(),
            last_token: 0,
            looked: Instant::ZERO,
            orders: VecDeque::new(),
            transmits: VecDeque::new(),
            news: VecDeque::new(),
            counts: view::Counts::default(),
        }
    }

    /// Participants, if CAKs or live peers are others than at the last call. A SecY that lets
    /// new messages of these peers pass in any case keeps a flood from ending a session.
    pub fn poll_participants(&mut self) -> Option<Vec<Participant>> {
        let mut told = mem::replace(&mut self.is_told, true);
        self.actors.iter_mut().for_each(|actor| told &= mem::replace(&mut actor.is_told, true));
        let of = |Actor { ckn, keys, live, .. }: &Actor| {
            let live = live.iter().map(|(&mi, peer)| Member { mi, mn: peer.mn }).collect();
            Participant { ckn: *ckn, ick: keys.ick().clone(), live }
        };
        (!told).then(|| self.actors.iter().map(of).collect())
    }
}

/// The core of one port: its messages have one source.
impl Core for Kay {
    type Source = ();
    type Command = Command;
    type Event = Event;
    type Order = Order;
    type News = News;
    type Fault = Fault;

    fn handle_message(&mut self, now: Instant, (): (), frame: &[u8]) -> Result<(), Fault> {
        let result = self.hear(now, frame);
        self.counts.note(now, result.err());
        result
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        self.is_told &= matches!(command, Command::Rekey | Command::Configure(_));
        match command {
            Command::Join(cak) => {
                self.actors.retain(|actor| actor.ckn != cak.ckn);
                if self.actors.len() == CAKS_MAX {
                    self.actors.remove(0);
                }
                match Actor::new(now, cak, &mut *self.entropy) {
                    Some(actor) => {
                        // Seldom there are others: no room for four.
                        self.actors.reserve_exact(1);
                        self.actors.push(actor);
                    }
                    None => self.tell(News::NoEntropy),
                }
            }
            Command::Leave(ckn) => self.actors.retain(|actor| actor.ckn != ckn),
            Command::Rekey => self.rekey = self.server == Some(self.config.sci),
            Command::Configure(config) => {
                self.config = Config { sci: self.config.sci, ..config };
                self.hurry(now);
            }
        }
        self.go_on(now);
    }

    fn handle_event(&mut self, now: Instant, event: Event) {
        let Event::NextPn(key, pn) = event;
        if let Some(sak) = self.saks.get_mut(key) {
            sak.set_next_pn(pn);
        }
        self.go_on(now);
    }

    fn handle_answer(&mut self, now: Instant, token: Token, answer: Result<(), Refused>) {
        let Some(asked) = self.asked.remove(&token) else { return };
        give_back(&mut self.asked);
        match answer {
            Ok(()) => self.done(now, asked),
            Err(why) => self.refused(now, asked, why),
        }
        self.go_on(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.looked = now;
        for actor in 0..self.actors.len() {
            for (mi, sci) in self.actors[actor].expire(now) {
                self.saks.lost(mi);
                self.tell(News::PeerLost(sci));
            }
        }
        if self.saks.retire.is_some_and(|at| at <= now) {
            self.retire_old();
        }
        self.go_on(now);
        for actor in 0..self.actors.len() {
            if self.actors[actor].hello <= now {
                self.transmit(now, actor);
            }
        }
    }

    /// The next frame to be sent, without FCS.
    fn poll_transmit(&mut self) -> Option<((), Vec<u8>)> {
        self.transmits.pop_front().map(|frame| ((), frame))
    }

    fn poll_order(&mut self) -> Option<(Token, Order)> {
        let order = self.orders.pop_front();
        if self.orders.is_empty() {
            self.orders = VecDeque::new();
        }
        order
    }

    fn poll_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        // A timer that had no effect when it was due is not waited for again.
        let is_to_come = |at: &Instant| *at > self.looked;
        let of_actor = |actor: &Actor| {
            let waits = actor.has_potential().then_some(actor.changed + LIFE);
            [Some(actor.hello), actor.next_expiry(), waits.filter(is_to_come)]
        };
        let of_sak = self.saks.latest.iter().flat_map(|sak| {
            let rekey = sak.made.as_ref().and(self.config.rekey).map(|after| sak.since + after);
            let late = (!sak.transmit_asked).then_some(sak.since + LIFE);
            let again = (!sak.transmit_asked).then_some(sak.transmit_after);
            [rekey, late, again].map(|at| at.filter(is_to_come))
        });
        let all = self.actors.iter().flat_map(of_actor).chain(of_sak).chain([self.saks.retire]);
        all.flatten().min()
    }
}

impl Kay {
    fn tell(&mut self, news: News) {
        if self.news.len() == NEWS_MAX {
            self.news.pop_front();
        }
        self.news.push_back(news);
    }

    fn order(&mut self, asked: Asked, order: Order) {
        self.last_token += 1;
        let token = Token(self.last_token);
        self.asked.insert(token, asked);
        self.orders.push_back((token, order));
    }

    fn done(&mut self, now: Instant, asked: Asked) {
        match asked {
            Asked::Install(key) => {
                if let Some(sak) = self.saks.get_mut(key) {
                    sak.receives = true;
                    self.hurry(now);
                }
            }
            Asked::Transmit(key) => {
                let Some(sak) = self.saks.get_mut(key) else { return };
                sak.transmits = true;
                self.tell(News::InUse(key));
                if let (Some(latest), Some(old)) = (&self.saks.latest, &mut self.saks.old)
                    && latest.key == key
                {
                    old.transmits = false;
                    self.saks.retire = Some(now + RETIRE);
                }
                self.hurry(now);
            }
            Asked::Channel(..) | Asked::Other => {}
        }
    }

    /// The SecY did not do it: for some time it is not asked again.
    fn refused(&mut self, now: Instant, asked: Asked, Refused(why): Refused) {
        match asked {
            Asked::Install(key) => {
                self.not_installed(key);
                self.refused_until = now + LIFE;
            }
            Asked::Channel(key, sci) => {
                if let Some(sak) = self.saks.get_mut(key) {
                    sak.channels.remove(&sci);
                    self.refused_until = now + LIFE;
                }
            }
            Asked::Transmit(key) => {
                if let Some(sak) = self.saks.get_mut(key) {
                    sak.transmit_asked = false;
                    sak.transmit_after = now + LIFE;
                }
            }
            Asked::Other => {}
        }
        self.tell(News::Refused(why));
    }

    /// A SAK that was refused was not used: it may come again.
    fn not_installed(&mut self, key: KeyId) {
        if let Some(last) = self.distributed.iter_mut().find(|last| **last == key) {
            last.kn = last.kn.saturating_sub(1);
        }
        // Others may have installed it, and wait for its use: all get another one.
        self.rekey |= self.saks.all().any(|sak| sak.key == key && sak.made.is_some());
        self.saks.old.take_if(|sak| sak.key == key);
        if self.saks.latest.as_ref().is_some_and(|sak| sak.key == key) {
            self.saks.latest = self.saks.old.take();
            self.saks.retire = None;
        }
    }

    /// Makes every participant send now, as there is news for the peers.
    fn hurry(&mut self, now: Instant) {
        self.actors.iter_mut().for_each(|actor| actor.hello = now);
    }

    /// The participant that decides: the last one whose live peers are all that there are.
    /// (Before all have a new CAK the old one stays in use.)
    fn principal(&self) -> Option<usize> {
        let scis =
            |actor: &Actor| -> BTreeSet<Sci> { actor.live.values().map(|peer| peer.sci).collect() };
        (0..self.actors.len()).rev().find(|&at| {
            let own = scis(&self.actors[at]);
            let mut older = self.actors[..at].iter().flat_map(scis);
            !own.is_empty() && older.all(|sci| own.contains(&sci))
        })
    }

    /// Draws the consequences of any change.
    fn go_on(&mut self, now: Instant) {
        self.follow_channels(now);
        match self.principal() {
            Some(principal) => {
                let server = self.actors[principal].server(&self.config);
                self.follow_server(now, server);
                if server == Some(self.config.sci) && self.wants_sak(now, principal) {
                    self.make_sak(now, principal);
                }
                self.begin_transmit(now);
            }
            None => {
                self.follow_server(now, None);
                self.retire_old();
                if let Some(sak) = self.saks.latest.take() {
                    self.order(Asked::Other, Order::Retire(sak.key));
                    // A key server that did not miss this station has no reason for another
                    // SAK, and this one is used up: a new member gets one.
                    if sak.made.is_none() {
                        let anew = |actor: &mut Actor| actor.begin_anew(now, &mut *self.entropy);
                        self.actors.iter_mut().for_each(anew);
                    }
                }
            }
        }
        self.follow_port();
    }

    fn follow_server(&mut self, now: Instant, server: Option<Sci>) {
        if server != self.server {
            self.server = server;
            self.tell(News::KeyServer(server));
            self.hurry(now);
        }
    }

    /// The SecY receives from all live peers. Of one that was lost the channel goes with the
    /// SAKs that it had: were it given up before and opened again, its window would be new, and
    /// recorded frames of it would pass.
    fn follow_channels(&mut self, now: Instant) {
        if now < self.refused_until {
            return;
        }
        let mut orders = Vec::new();
        for sak in self.saks.latest.iter_mut().chain(&mut self.saks.old) {
            for channel in channels_of(&self.actors, &sak.ckn, sak.sscis.as_ref()) {
                if sak.channels.insert(channel.sci) {
                    orders.push((sak.key, channel));
                }
            }
        }
        for (key, channel) in orders {
            let order = Order::AddChannel { key, channel };
            self.order(Asked::Channel(key, channel.sci), order);
        }
    }

    fn follow_port(&mut self) {
        let secured = self.saks.all().any(|sak| sak.transmits);
        let port = match (secured, self.config.clear) {
            (true, _) => PortState::Secured,
            (false, true) => PortState::Clear,
            (false, false) => PortState::Blocked,
        };
        if port != self.port {
            self.port = port;
            self.order(Asked::Other, Order::Port(port));
        }
    }

    fn retire_old(&mut self) {
        self.saks.retire = None;
        if let Some(old) = self.saks.old.take() {
            self.order(Asked::Other, Order::Retire(old.key));
        }
    }

    /// True if all live peers receive with a SAK for which it was made.
    fn all_receive(&self, actor: usize, key: KeyId, made: &Made) -> bool {
        let live = self.actors[actor].live.iter();
        let mut live = live.filter(|(mi, peer)| peer.can() && made.members.contains(mi));
        live.all(|(_, peer)| peer.uses(key).is_some_and(|used| used.receives))
    }

    /// True if no live peer has a SAK that was made here, or can still get it: the live peers are
    /// no longer those that it was made for.
    fn has_no_receiver(&self, sak: &Sak) -> bool {
        let Some(actor) = self.actors.iter().position(|actor| actor.ckn == sak.ckn) else {
            return false;
        };
        let has = |peer: &Peer| peer.uses(sak.key).is_some_and(|used| used.receives);
        let none = !self.actors[actor].live.values().any(has) && !self.fits_live_peers(actor, sak);
        sak.made.is_some() && !sak.transmit_asked && none
    }

    /// True if a SAK was made for all peers that are live now, with the SSCIs that follow from the
    /// list of them.
    fn fits_live_peers(&self, actor: usize, sak: &Sak) -> bool {
        let Some(made) = &sak.made else { return false };
        let this = &self.actors[actor];
        let is_same = sak.sscis.is_none() || this.sscis(self.config.sci) == sak.sscis;
        is_same && this.live.keys().all(|mi| made.members.contains(mi))
    }

    /// True if the key server is to make a SAK now (clause 9.8.2).
    fn wants_sak(&self, now: Instant, actor: usize) -> bool {
        let this = &self.actors[actor];
        if !this.live.values().any(|peer| peer.can()) || now < self.refused_until {
            return false;
        }
        // Others that were heard may be live soon, and need one, too.
        if this.has_potential() && now.since(this.changed) < LIFE {
            return false;
        }
        let latest = self.saks.latest.as_ref().filter(|sak| sak.ckn == this.ckn);
        let Some((sak, made)) = latest.and_then(|sak| sak.made.as_ref().map(|made| (sak, made)))
        else {
            return true;
        };
        let all_receive = self.all_receive(actor, sak.key, made);
        let is_recent = now.since(sak.since) < LIFE;
        if is_recent && (self.saks.old.is_some() || !all_receive) && !self.has_no_receiver(sak) {
            return false;
        }
        // First it comes into use, and the one before goes.
        if sak.receives && !sak.transmits || self.saks.retire.is_some() {
            return false;
        }
        let pn = this.live.values().filter_map(|peer| peer.lowest_pn(sak.key, sak.suite));
        let pn = pn.chain([sak.next_pn]).max();
        // (A peer that forgot a SAK must not get it again: its packet numbers would begin
        // anew.)
        !all_receive
            || self.rekey
            || sak.suite != self.config.suite
            || made.confidentiality != this.confidentiality(&self.config)
            || self.config.rekey.is_some_and(|after| now.since(sak.since) >= after)
            || pn.is_some_and(|pn| pn >= sak.suite.pn_pending())
            || !this.live.keys().all(|mi| made.members.contains(mi))
    }

    fn make_sak(&mut self, now: Instant, at: usize) {
        let suite = self.config.suite;
        let mut nonce = zeroize::Zeroizing::new(vec![0; suite.key_len()]);
        if !self.entropy.fill(&mut nonce) {
            return self.tell(News::NoEntropy);
        }
        let actor = &mut self.actors[at];
        let Some(key) = actor.next_key() else { return };
        let members: BTreeSet<Mi> = actor.live.keys().copied().collect();
        let all: Vec<Mi> = members.iter().copied().chain([actor.mi()]).collect();
        let sak = actor.keys.sak(&Secret::new(nonce.to_vec()), &all, key.kn);
        let Some(sak) = sak else { return };
        let Some(wrapped) = actor.keys.wrap(&sak) else { return };
        let sscis = actor.sscis(self.config.sci).filter(|_| suite.is_xpn());
        if suite.is_xpn() && sscis.is_none() {
            return;
        }
        let others = actor.live.values().flat_map(|peer| peer.sak_use.keys.into_iter().flatten());
        let others = others.filter(|used| used.key.kn != 0).map(|used| used.an);
        let an = self.saks.free_an(others);
        let confidentiality = actor.confidentiality(&self.config);
        let made = Some(Made { members, wrapped, confidentiality });
        let ckn = actor.ckn;
        self.rekey = false;
        self.install(now, sak, New { key, ckn, an, suite, confidentiality, sscis, made });
    }

    /// A SAK takes the place of the latest.
    fn install(&mut self, now: Instant, sak: Secret, new: New) {
        let New { key, ckn, an, suite, confidentiality, sscis, made } = new;
        self.distributed.retain(|last| last.mi != key.mi);
        if self.distributed.len() == SERVERS_MAX {
            self.distributed.pop_front();
        }
        self.distributed.push_back(key);
        // The latest is given up if it is not in use yet, and the one before is (ABANDON), or
        // nobody has it.
        let in_use = self.saks.old.as_ref().is_some_and(|old| old.transmits && old.an != an);
        let unreceived =
            self.saks.latest.as_ref().is_some_and(|latest| self.has_no_receiver(latest));
        match self.saks.latest.take_if(|latest| (in_use || unreceived) && !latest.transmit_asked) {
            Some(abandoned) => {
                self.order(Asked::Other, Order::Retire(abandoned.key));
                self.saks.latest = self.saks.old.take();
            }
            None => self.retire_old(),
        }
        // An association number that comes again: the key server started anew.
        if let Some(same) = self.saks.latest.take_if(|latest| latest.an == an) {
            self.order(Asked::Other, Order::Retire(same.key));
        }
        let xpn = sscis.as_ref().map(|sscis| Xpn { salt: xpn::salt(key), ssci: sscis.own });
        let channels = channels_of(&self.actors, &ckn, sscis.as_ref());
        self.saks.old = self.saks.latest.replace(Sak {
            key,
            ckn,
            an,
            suite,
            sscis,
            channels: channels.iter().map(|channel| channel.sci).collect(),
            made,
            since: now,
            receives: false,
            transmit_asked: false,
            transmit_after: now,
            transmits: false,
            next_pn: 1,
            lowest_pn: 1,
            aged: (1, now),
        });
        let order = Order::Install { key, an, sak, suite, confidentiality, xpn, channels };
        self.order(Asked::Install(key), order);
        self.hurry(now);
    }

    /// Transmits with the latest SAK once those who are to receive can.
    fn begin_transmit(&mut self, now: Instant) {
        let Some(sak) = self
            .saks
            .latest
            .as_ref()
            .filter(|sak| sak.receives && !sak.transmit_asked && sak.transmit_after <= now)
        else {
            return;
        };
        let Some(actor) = self.actors.iter().position(|actor| actor.ckn == sak.ckn) else { return };
        let ready = match &sak.made {
            Some(made) => self.all_receive(actor, sak.key, made) || now.since(sak.since) >= LIFE,
            None => {
                let mut live = self.actors[actor].live.iter();
                let server = live.find(|(mi, _)| **mi == sak.key.mi);
                let used = server.and_then(|(_, peer)| peer.uses(sak.key));
                used.is_some_and(|used| used.transmits)
            }
        };
        if ready {
            let key = sak.key;
            if let Some(sak) = self.saks.get_mut(key) {
                sak.transmit_asked = true;
            }
            self.order(Asked::Transmit(key), Order::Transmit(key));
        }
    }
}
