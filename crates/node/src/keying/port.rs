//! One port: its core's orders as changes of its SecY.

use crate::config::{MacsecConfig, MkaConfig};
use crate::message::Change;
use ferrule_base::{Instant, PortId, Secret};
use ferrule_control::mka::{
    self, Cak, Channel, Command, Confidentiality, Event, Kay, Order, Participant, PortState, Suite,
    Xpn,
};
use ferrule_control::{Core, Entropy, Refused, Token};
use ferrule_crypto::{Aes, Place};
use ferrule_dataplane::Sequence;
use ferrule_dataplane::macsec::{
    self, Cipher, ParticipantConfig, RxChange, RxSaConfig, SecyConfig, TxChange, TxSaConfig,
    Validate, pn_max,
};
use ferrule_wire::Sci;
use ferrule_wire::mkpdu::{Ckn, KeyId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A SAK that the SecY has, or is told to have.
struct Sak {
    key: KeyId,
    an: u8,
    sak: Secret,
    /// As its key server chose it; nothing before it is installed.
    cipher: Option<Cipher>,
    /// With XPN suites.
    xpn: Option<Xpn>,
    /// Channels that are received under it.
    channels: BTreeSet<Sci>,
}

/// Remains of an order, to be removed if it is refused.
enum Undone {
    Sak(KeyId),
    Channel(KeyId, Sci),
}

/// A port whose SecY is keyed by MKA.
pub(super) struct Keyed {
    pub id: PortId,
    pub name: String,
    pub worker: usize,
    pub core: Kay,
    config: mka::Config,
    /// SecY as configured, and as it is by the SAK and the controlled port's state.
    configured: SecyConfig,
    entity: SecyConfig,
    place: Place,
    caks: BTreeMap<Ckn, Secret>,
    saks: Vec<Sak>,
    /// Orders under way that leave something behind if they are refused.
    under_way: BTreeMap<Token, Undone>,
    /// Changes that nobody waits for.
    unasked: VecDeque<Vec<Change>>,
}

/// The core's configuration.
fn core_config(secy: &MacsecConfig, mka: &MkaConfig, sci: u64) -> mka::Config {
    let suite = match (secy.entity.suite.key_len(), secy.entity.xpn) {
        (32, false) => Suite::GcmAes256,
        (32, true) => Suite::GcmAesXpn256,
        (_, false) => Suite::GcmAes128,
        (_, true) => Suite::GcmAesXpn128,
    };
    let confidentiality = match (secy.entity.encrypt, secy.entity.offset) {
        (false, _) => Confidentiality::None,
        (true, 0) => Confidentiality::All,
        (true, 30) => Confidentiality::Offset30,
        (true, _) => Confidentiality::Offset50,
    };
    mka::Config {
        destination: mka.destination,
        ethertype: mka.ethertype,
        priority: mka.priority,
        suite,
        confidentiality,
        rekey: mka.rekey,
        clear: mka.should_secure,
        delay_protect: mka.delay_protect,
        ..mka::Config::new(Sci(sci))
    }
}

impl Keyed {
    pub fn new(
        id: PortId,
        name: String,
        worker: usize,
        (secy, mka): (&MacsecConfig, &MkaConfig),
        sci: u64,
        entropy: Box<dyn Entropy>,
    ) -> Self {
        let config = core_config(secy, mka, sci);
        let core = Kay::new(config, entropy);
        let entity = SecyConfig { sci, ..secy.entity.clone() };
        let mut keyed = Self {
            id,
            name,
            worker,
            core,
            config,
            configured: entity.clone(),
            entity,
            place: secy.placement.place(None),
            caks: BTreeMap::new(),
            saks: Vec::new(),
            under_way: BTreeMap::new(),
            unasked: VecDeque::new(),
        };
        // One that stood here before may have left it in another state.
        let changes = keyed.installed();
        keyed.unasked.push_back(changes);
        keyed
    }

    /// True if the entity can go on by this configuration: by the same secure channel, at the same
    /// place, and not in clear where that is not allowed any more.
    pub fn is_of(&self, secy: &MacsecConfig, sci: u64, worker: usize) -> bool {
        let Some(mka) = &secy.mka else { return false };
        let place = secy.placement.place(None);
        let same = (sci, &place, worker) == (self.entity.sci, &self.place, self.worker);
        same && (self.entity.protect || mka.should_secure)
    }

    /// Follows the configuration of its port. SAs stay, as each has its SAK's cipher.
    pub fn follow(&mut self, now: Instant, name: &str, secy: &MacsecConfig, mka: &MkaConfig) {
        name.clone_into(&mut self.name);
        let SecyConfig { sci, suite, xpn, protect, validate, .. } = self.entity;
        let configured = SecyConfig { sci, ..secy.entity.clone() };
        if configured != self.configured {
            self.entity = SecyConfig { suite, xpn, protect, validate, ..configured.clone() };
            self.configured = configured;
            let changes = self.installed();
            self.unasked.push_back(changes);
        }
        let config = core_config(secy, mka, sci);
        if config != self.config {
            self.config = config;
            self.core.handle_command(now, Command::Configure(config));
        }
        self.follow_caks(now, mka);
    }

    /// CAKs that are new, and those that are gone. One whose key is another is both.
    fn follow_caks(&mut self, now: Instant, mka: &MkaConfig) {
        let stays = |(ckn, key): &(&Ckn, &Secret)| {
            mka.caks.iter().any(|cak| cak.ckn == **ckn && cak.key.expose() == key.expose())
        };
        let gone: Vec<Ckn> =
            self.caks.iter().filter(|had| !stays(had)).map(|(&ckn, _)| ckn).collect();
        for ckn in gone {
            self.caks.remove(&ckn);
            self.core.handle_command(now, Command::Leave(ckn));
        }
        for cak in &mka.caks {
            if self.caks.contains_key(&cak.ckn) {
                continue;
            }
            self.caks.insert(cak.ckn, cak.key.clone());
            if let Some(cak) = Cak::new(cak.ckn, cak.key.clone()) {
                self.core.handle_command(now, Command::Join(cak));
            }
        }
    }

    /// Packets that are too late are refused, so that packet numbers are said often.
    pub const fn is_bounded(&self) -> bool {
        self.config.delay_protect
    }

    /// Its worker answers.
    pub fn done(&mut self, now: Instant, token: Token, done: Result<(), Refused>) {
        match (&done, self.under_way.remove(&token)) {
            (Err(_), Some(Undone::Sak(key))) => {
                let changes = self.retire(key);
                self.undo(changes);
            }
            (Err(_), Some(Undone::Channel(key, sci))) => {
                let sak = self.saks.iter_mut().find(|sak| sak.key == key);
                sak.into_iter().for_each(|sak| _ = sak.channels.remove(&sci));
            }
            _ => {}
        }
        self.core.handle_answer(now, token, done);
    }

    /// The next packet number of an association.
    pub fn next_pn(&mut self, now: Instant, an: u8, pn: u64) {
        if let Some(sak) = self.saks.iter().find(|sak| sak.an == an) {
            self.core.handle_event(now, Event::NextPn(sak.key, pn));
        }
    }

    /// The next changes that nobody waits for.
    pub fn poll_unasked(&mut self) -> Option<Vec<Change>> {
        let hears = |keyed: &mut Self| {
            let participants = keyed.core.poll_participants()?;
            Some(vec![keyed.hears(participants)])
        };
        self.unasked.pop_front().or_else(|| hears(self))
    }

    /// An order of the core, as changes of the SecY.
    pub fn obey(&mut self, token: Token, order: Order) -> Vec<Change> {
        match order {
            Order::Install { key, an, sak, suite, confidentiality, xpn, channels } => {
                self.under_way.insert(token, Undone::Sak(key));
                let sak = Sak { key, an, sak, cipher: None, xpn, channels: BTreeSet::new() };
                self.install(sak, suite, confidentiality, &channels)
            }
            Order::Transmit(key) => {
                // One that is not there is refused.
                let an = self.an(key).or(Some(u8::MAX));
                an.map(|an| Change::SecyOut(TxChange::Encode(self.index(), an)))
                    .into_iter()
                    .collect()
            }
            Order::Retire(key) => self.retire(key),
            Order::AddChannel { key, channel } => {
                self.under_way.insert(token, Undone::Channel(key, channel.sci));
                let at = self.saks.iter().position(|sak| sak.key == key);
                at.and_then(|at| self.receive(at, channel)).into_iter().collect()
            }
            Order::LowestPn { channel, key, pn } => {
                let change = |an| RxChange::LowestPn(self.index(), channel.0, an, pn);
                let sak = self.saks.iter().find(|sak| sak.key == key);
                let sak = sak.filter(|sak| sak.channels.contains(&channel));
                sak.map(|sak| Change::SecyIn(change(sak.an))).into_iter().collect()
            }
            Order::Port(state) => {
                let (protect, validate) = match state {
                    PortState::Clear => (false, Validate::Check),
                    PortState::Blocked | PortState::Secured => (true, Validate::Strict),
                };
                self.entity = SecyConfig { protect, validate, ..self.entity.clone() };
                self.installed()
            }
        }
    }

    /// All that the SecY has goes, and nothing passes in clear.
    pub fn ending(&mut self) -> Vec<Vec<Change>> {
        self.entity = self.configured.clone();
        let all = self.saks.iter().flat_map(|sak| self.all_of(sak)).collect();
        let unasked = self.unasked.drain(..).filter(|changes| changes.iter().all(Change::gives_up));
        let mut ending: Vec<_> = unasked.collect();
        ending.extend([all, self.installed(), vec![self.hears(Vec::new())]]);
        ending
    }

    const fn index(&self) -> u16 {
        self.id.0
    }

    fn an(&self, key: KeyId) -> Option<u8> {
        self.saks.iter().find(|sak| sak.key == key).map(|sak| sak.an)
    }

    /// Participants whose peers the SecY hears.
    fn hears(&self, participants: Vec<Participant>) -> Change {
        let of = |Participant { ckn, ick, live }| ParticipantConfig { ckn, ick, live };
        let all = participants.into_iter().map(of).collect();
        Change::SecyIn(RxChange::Participants(self.index(), all))
    }

    /// The SecY as it is now.
    fn installed(&self) -> Vec<Change> {
        vec![
            Change::SecyOut(TxChange::Install(self.index(), self.entity.clone())),
            Change::SecyIn(RxChange::Install(self.index(), self.entity.clone())),
        ]
    }

    fn install(
        &mut self,
        mut new: Sak,
        suite: Suite,
        confidentiality: Confidentiality,
        channels: &[Channel],
    ) -> Vec<Change> {
        let aes = match suite.key_len() {
            32 => Aes::Aes256,
            _ => Aes::Aes128,
        };
        let (xpn, limit) = (suite.is_xpn(), suite.pn_pending());
        let (encrypt, offset) = match confidentiality {
            Confidentiality::None => (false, 0),
            Confidentiality::All => (true, 0),
            Confidentiality::Offset30 => (true, 30),
            Confidentiality::Offset50 => (true, 50),
        };
        let suite = ferrule_crypto::Suite::AesGcm(aes);
        let cipher = Cipher { suite, xpn, encrypt, offset };
        // An association that has the number goes.
        let same = self.saks.iter().find(|sak| sak.an == new.an).map(|sak| sak.key);
        let mut changes = same.map(|key| self.retire(key)).unwrap_or_default();
        let (an, key, place) = (new.an, new.sak.clone(), self.place.clone());
        let xpn = new.xpn.map(|Xpn { salt, ssci }| macsec::Xpn { salt, ssci });
        let sa = TxSaConfig { an, key, cipher: Some(cipher), xpn, place };
        let numbers = Sequence::new(1, limit, pn_max(cipher.xpn));
        changes.push(Change::SecyOut(TxChange::Sa(self.index(), sa, numbers)));
        new.cipher = Some(cipher);
        self.saks.push(new);
        let at = self.saks.len() - 1;
        changes.extend(channels.iter().filter_map(|&channel| self.receive(at, channel)));
        changes
    }

    /// Reception from a channel under the SAK at a place of the list, if it is new.
    fn receive(&mut self, at: usize, channel: Channel) -> Option<Change> {
        let of = self.saks.get_mut(at)?;
        if !of.channels.insert(channel.sci) {
            return None;
        }
        let (salt, ssci) = (of.xpn.map(|xpn| xpn.salt), channel.ssci);
        let sa = RxSaConfig {
            sci: channel.sci.0,
            an: of.an,
            key: of.sak.clone(),
            cipher: of.cipher,
            xpn: salt.zip(ssci).map(|(salt, ssci)| macsec::Xpn { salt, ssci }),
            lowest_pn: 1,
            record: [0; 16],
            place: self.place.clone(),
        };
        Some(Change::SecyIn(RxChange::Sa(self.id.0, sa)))
    }

    fn all_of<'a>(&self, sak: &'a Sak) -> impl Iterator<Item = Change> + use<'a> {
        let (index, an) = (self.index(), sak.an);
        let receive = sak.channels.iter();
        let receive = receive.map(move |sci| Change::SecyIn(RxChange::Retire(index, sci.0, an)));
        std::iter::once(Change::SecyOut(TxChange::Retire(index, an))).chain(receive)
    }

    fn retire(&mut self, key: KeyId) -> Vec<Change> {
        let Some(at) = self.saks.iter().position(|sak| sak.key == key) else { return Vec::new() };
        let sak = self.saks.remove(at);
        self.all_of(&sak).collect()
    }

    /// As much of a refused order as was carried out goes, one by one: the rest is not there.
    fn undo(&mut self, changes: Vec<Change>) {
        self.unasked.extend(changes.into_iter().map(|change| vec![change]));
    }
}
