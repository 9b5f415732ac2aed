//! Messages in and out.

use super::actor::{Actor, high_halves, lowest_pns};
use super::config::{Config, LIFE};
use super::event::{News, Order};
use super::fault::Fault;
use super::sak::{Made, Sak};
use super::xpn::Sscis;
use super::{Asked, Confidentiality, Kay, New, Suite};
use ferrule_base::Instant;
use ferrule_wire::eapol::{self, BODY_AT, Kind};
use ferrule_wire::mkpdu::{DistributedSak, ICV_LEN, KeyId, KeyUse, Repr, SakUse, Set, WrappedSak};
use ferrule_wire::{Sci, ethernet};

/// An MKPDU of a frame, and the octets over which its ICV is.
fn read<'a>(config: &Config, frame: &'a [u8]) -> Result<(Repr, &'a [u8], &'a [u8]), Fault> {
    let (ethernet, payload) = ethernet::Repr::parse(frame).map_err(|_| Fault::Malformed)?;
    if ethernet.dst != config.destination || ethernet.ethertype != config.ethertype {
        return Err(Fault::Destination);
    }
    let (eapol, body) = eapol::Repr::parse(payload).map_err(|_| Fault::Malformed)?;
    if eapol.kind != Kind::MKA {
        return Err(Fault::NotMka);
    }
    let (repr, icv) = Repr::parse(body).map_err(|_| Fault::Malformed)?;
    let covered = frame.get(..BODY_AT + body.len() - ICV_LEN).ok_or(Fault::Malformed)?;
    Ok((repr, covered, icv))
}

impl Kay {
    /// A frame came in. On an error nothing was learned from it, but for a SAK that is refused
    /// in a message that is right.
    pub(super) fn hear(&mut self, now: Instant, frame: &[u8]) -> Result<(), Fault> {
        let (repr, covered, icv) = read(&self.config, frame)?;
        let at = self.actors.iter().position(|actor| actor.ckn == repr.ckn);
        let at = at.ok_or(Fault::UnknownCkn)?;
        let actor = &mut self.actors[at];
        if !actor.keys.is_icv(covered, icv) {
            return Err(Fault::Icv);
        }
        let sci = self.config.sci;
        let heard = actor.hear(now, &repr, sci, &mut *self.entropy)?;
        if heard.is_new {
            self.tell(News::PeerLive(repr.sci));
            // The peer learns at once that it was heard.
            self.hurry(now);
        }
        let taken = if heard.is_live { self.take(now, at, &repr) } else { Ok(()) };
        self.go_on(now);
        taken
    }

    /// Content of a live peer's message.
    fn take(&mut self, now: Instant, at: usize, repr: &Repr) -> Result<(), Fault> {
        self.raise_lowest_pn(repr);
        let sak = repr.set(|set| match set {
            Set::DistributedSak(sak) => Some(sak.clone()),
            _ => None,
        });
        // Only of one by whom this station is live: it has a SAK made for this life of ours, not
        // one that an earlier life has used.
        let own = self.actors[at].mi();
        let is_live = repr.set(|set| match set {
            Set::Live { peers, .. } => Some(peers.iter().any(|peer| peer.mi == own)),
            _ => None,
        });
        match sak.filter(|_| is_live == Some(true)) {
            Some(sak) => self.take_sak(now, at, repr, &sak),
            None => Ok(()),
        }
    }

    /// Bounded delay: frames that a peer sent before are too late.
    fn raise_lowest_pn(&mut self, repr: &Repr) {
        let said = repr.set(|set| match set {
            Set::SakUse(sak_use) if sak_use.delay_protect => Some(*sak_use),
            _ => None,
        });
        let said = said.into_iter().flat_map(|said| lowest_pns(&said, high_halves(repr)));
        for (used, lowest) in said.filter(|(used, _)| used.transmits) {
            let sak = self.saks.all().find(|sak| sak.key == used.key && sak.receives);
            if let Some(pn) = sak.and_then(|sak| lowest.of(sak.suite)) {
                let (channel, key) = (repr.sci, used.key);
                self.order(Asked::Other, Order::LowestPn { channel, key, pn });
            }
        }
    }

    /// A SAK from a live peer, which has to be the key server.
    fn take_sak(
        &mut self,
        now: Instant,
        at: usize,
        repr: &Repr,
        sak: &DistributedSak,
    ) -> Result<(), Fault> {
        self.follow_channels(now);
        let from = repr.actor.mi;
        let actor = &self.actors[at];
        let sender = actor.live.get(&from).filter(|peer| peer.is_server);
        let server = actor.server(&self.config);
        if sender.is_none_or(|peer| Some(peer.sci) != server) {
            return Err(Fault::NotKeyServer);
        }
        let Some(WrappedSak { kn, suite, wrapped }) = &sak.key else { return Ok(()) };
        if now < self.refused_until {
            return Ok(());
        }
        let key = KeyId { mi: from, kn: *kn };
        match self.distributed.iter().find(|last| last.mi == from) {
            Some(last) if *kn == last.kn => return Ok(()),
            Some(last) if *kn < last.kn => return Err(Fault::OldSak),
            _ => {}
        }
        let suite = suite.map_or(Some(Suite::GcmAes128), Suite::from_id).ok_or(Fault::Sak)?;
        let unwrapped = actor.keys.unwrap(wrapped).filter(|sak| sak.len() == suite.key_len());
        let unwrapped = unwrapped.ok_or(Fault::Sak)?;
        let ckn = actor.ckn;
        let confidentiality = Confidentiality::from_code(sak.offset);
        let mut sscis = None;
        if suite.is_xpn() {
            if confidentiality.has_offset() {
                return Err(Fault::Offset);
            }
            sscis = sscis_of(actor, self.config.sci, repr)?;
            if sscis.is_none() {
                // Until all members were heard: the key server says it again.
                return Ok(());
            }
        }
        let new = New { key, ckn, an: sak.an, suite, confidentiality, sscis, made: None };
        self.install(now, unwrapped, new);
        Ok(())
    }

    /// A message of a participant, now.
    pub(super) fn transmit(&mut self, now: Instant, at: usize) {
        self.saks.latest.iter_mut().chain(&mut self.saks.old).for_each(|sak| sak.age(now));
        let said = self.sets(now, at);
        let actor = &mut self.actors[at];
        actor.hello = now + self.config.hello();
        let Some(repr) = actor.message(now, &self.config, said, &mut *self.entropy) else {
            return self.tell(News::NoEntropy);
        };
        let Config { destination: dst, sci, ethertype, .. } = self.config;
        let ethernet = ethernet::Repr { dst, src: sci.system(), ethertype };
        let frame = self.actors[at].keys.frame(ethernet, &repr);
        // Messages that are not fetched are not worth more than the newest.
        if self.transmits.len() >= 2 * self.actors.len().max(1) {
            self.transmits.pop_front();
        }
        self.transmits.push_back(frame);
        self.counts.sent += 1;
    }

    /// Sets of a participant's message behind those of its peers; own SSCI, if there is a SAK
    /// of an XPN suite among them.
    fn sets(&self, now: Instant, at: usize) -> (Option<u32>, Vec<Set>) {
        // (Where there is none its lowest number is 1: 0 is none, as some peers read it.)
        let none = KeyUse { lowest_pn: 1, ..KeyUse::default() };
        let used = |sak: &Option<Sak>| sak.as_ref().map_or(none, Sak::used);
        let has_peers = !self.actors[at].live.is_empty();
        let transmits = self.saks.all().any(|sak| sak.transmits);
        let clear = self.config.clear && !transmits;
        let sak_use = self.saks.latest.as_ref().filter(|_| has_peers).map(|_| {
            Set::SakUse(SakUse {
                keys: Some([used(&self.saks.latest), used(&self.saks.old)]),
                plain_transmit: clear,
                plain_receive: clear,
                delay_protect: self.config.delay_protect,
            })
        });
        let high = |sak: &Option<Sak>| sak.as_ref().map_or(0, Sak::lowest_pn_high);
        let has_high = has_peers && self.saks.all().any(|sak| sak.suite.is_xpn());
        let high = has_high.then(|| Set::Xpn {
            suspension: 0,
            lowest_pn: [high(&self.saks.latest), high(&self.saks.old)],
        });
        let ckn = self.actors[at].ckn;
        let latest = self.saks.latest.as_ref().filter(|sak| sak.ckn == ckn);
        let made = latest.and_then(|sak| sak.made.as_ref().map(|made| (sak, made)));
        let distributed = made.filter(|(sak, made)| {
            let recent = now.since(sak.since) < LIFE;
            // A new peer may have used the SAK in an earlier life, by the same SCI: its packet
            // numbers would begin anew. It gets the next one. And once a member is gone the list
            // would say other SSCIs: a nonce could come twice.
            let is_wanted = !self.all_receive(at, sak.key, made) || !sak.transmits;
            recent && is_wanted && self.fits_live_peers(at, sak)
        });
        let ssci = distributed.and_then(|(sak, _)| sak.sscis.as_ref().map(|sscis| sscis.own));
        let distributed = distributed.map(|(sak, made)| {
            let Made { wrapped, confidentiality, .. } = made.clone();
            let suite = Some(sak.suite.id()).filter(|_| sak.suite != Suite::GcmAes128);
            let key = Some(WrappedSak { kn: sak.key.kn, suite, wrapped });
            Set::DistributedSak(DistributedSak { an: sak.an, offset: confidentiality.code(), key })
        });
        (ssci, sak_use.into_iter().chain(distributed).chain(high).collect())
    }
}

/// SSCIs of the members of a SAK that came by this message; nothing if they follow from SCIs that
/// are not all known.
fn sscis_of(actor: &Actor, own: Sci, repr: &Repr) -> Result<Option<Sscis>, Fault> {
    let list = repr.set(|set| match set {
        Set::Live { ssci, peers } => Some((*ssci, peers.clone())),
        _ => None,
    });
    let (ssci, list) = list.ok_or(Fault::Sscis)?;
    let (mine, from) = (actor.mi(), repr.actor.mi);
    if ssci != 0 {
        return Sscis::by_list(mine, (from, ssci), &list).map(Some).ok_or(Fault::Sscis);
    }
    let sci_of = |mi| if mi == mine { Some(own) } else { actor.sci_of(&mi) };
    let members = list.iter().map(|member| member.mi).chain([from]);
    let members: Option<Vec<_>> = members.map(|mi| Some((mi, sci_of(mi)?))).collect();
    let Some(members) = members else { return Ok(None) };
    Sscis::by_sci(mine, members).map(Some).ok_or(Fault::Sscis)
}
