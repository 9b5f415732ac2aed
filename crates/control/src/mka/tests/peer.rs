//! A peer that is played by hand: behaviour of others that is legal, and behaviour that is
//! not.

use super::lan::{Lan, Weather, cak, sci};
use crate::mka::config::{LIFE, RETIRE};
use crate::mka::{Command, Confidentiality, Config, Fault, Kay, Keys, Order, PortState, Suite};
use crate::{Core, Refused, Token};
use ferrule_base::{Duration, Instant, MacAddr, Rng, Secret};
use ferrule_crypto::AesCmac;
use ferrule_wire::eapol::{self, BODY_AT};
use ferrule_wire::mkpdu::{
    AGILITY, Ckn, DistributedSak, KeyId, KeyUse, Member, Mi, Repr, SakUse, Set, WrappedSak,
};
use ferrule_wire::{EtherType, Sci, ethernet};

const SECOND: Duration = Duration::from_secs(1);

/// The peer.
struct Peer {
    keys: Keys,
    ckn: Ckn,
    sci: Sci,
    mi: Mi,
    mn: u32,
    priority: u8,
    server: bool,
    capability: u8,
}

impl Peer {
    fn new(number: u8, priority: u8) -> Self {
        let ckn = Ckn::new(&[1; 5]).unwrap();
        let keys = Keys::new(Secret::new(vec![1; 16]), &ckn).unwrap();
        let (sci, mi) = (sci(number), Mi([number; 12]));
        Self { keys, ckn, sci, mi, mn: 0, priority, server: true, capability: 2 }
    }

    fn unwilling(number: u8, priority: u8) -> Self {
        Self { server: false, ..Self::new(number, priority) }
    }

    fn message(&mut self, sets: Vec<Set>) -> Vec<u8> {
        let repr = self.repr(sets);
        self.frame(MacAddr(eapol::PAE_GROUP), &repr)
    }

    fn frame(&self, dst: MacAddr, repr: &Repr) -> Vec<u8> {
        let src = self.sci.system();
        self.keys.frame(ethernet::Repr { dst, src, ethertype: EtherType::EAPOL }, repr)
    }

    fn repr(&mut self, sets: Vec<Set>) -> Repr {
        self.mn += 1;
        Repr {
            version: 2,
            priority: self.priority,
            key_server: self.server,
            desired: true,
            capability: self.capability,
            sci: self.sci,
            actor: Member { mi: self.mi, mn: self.mn },
            agility: AGILITY,
            ckn: self.ckn,
            sets,
        }
    }

    fn sak(&self, an: u8, kn: u32) -> Set {
        let wrapped = self.keys.wrap(&Secret::new(vec![kn as u8; 16])).unwrap();
        let key = Some(WrappedSak { kn, suite: None, wrapped });
        Set::DistributedSak(DistributedSak { an, offset: 1, key })
    }
}

/// Use of a SAK: reception, and transmission.
fn uses(key: KeyId, an: u8, transmits: bool) -> Set {
    let used = KeyUse { an, transmits, receives: true, key, lowest_pn: 1 };
    Set::SakUse(SakUse { keys: Some([used, KeyUse::default()]), ..SakUse::default() })
}

/// The station that it plays with.
struct Station {
    kay: Kay,
    now: Instant,
    orders: Vec<(Token, Order)>,
    own: Member,
    said: Option<Repr>,
    /// The SecY answers at once.
    answers: bool,
}

impl Station {
    fn new(config: Config) -> Self {
        let mut kay = Kay::new(config, Box::new(Rng::new(4)));
        let now = Instant::from_secs(10);
        kay.handle_command(now, Command::Join(cak(1, 16)));
        let (own, orders) = (Member { mi: Mi::default(), mn: 0 }, Vec::new());
        let mut station = Self { kay, now, orders, own, said: None, answers: true };
        station.turn();
        station
    }

    fn turn(&mut self) {
        for turns in 0.. {
            assert!(turns < 100, "it comes to rest");
            if self.kay.poll_timeout().is_some_and(|at| at <= self.now) {
                self.kay.handle_timeout(self.now);
            }
            let mut any = false;
            while let Some((token, order)) = self.kay.poll_order() {
                any = true;
                self.orders.push((token, order));
                if self.answers {
                    self.kay.handle_answer(self.now, token, Ok(()));
                }
            }
            while let Some(((), frame)) = self.kay.poll_transmit() {
                let (repr, _) = Repr::parse(&frame[BODY_AT..]).unwrap();
                (self.own, self.said) = (repr.actor, Some(repr));
            }
            if !any && self.kay.poll_timeout().is_none_or(|at| at > self.now) {
                return;
            }
        }
    }

    /// A message of a peer for whom this station is live, with more sets.
    fn hear(&mut self, peer: &mut Peer, sets: impl IntoIterator<Item = Set>) {
        let live = Set::Live { ssci: 0, peers: vec![self.own] };
        let message = peer.message([live].into_iter().chain(sets).collect());
        assert_eq!(self.kay.handle_message(self.now, (), &message), Ok(()));
        self.turn();
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = self.kay.poll_timeout().unwrap_or(end).min(end).max(self.now);
            self.turn();
        }
    }

    fn take(&mut self) -> String {
        let orders = std::mem::take(&mut self.orders);
        let words = orders.iter().map(|(_, order)| match order {
            Order::Install { key, .. } => format!("install {}", key.kn),
            Order::Transmit(key) => format!("transmit {}", key.kn),
            Order::Retire(key) => format!("retire {}", key.kn),
            Order::AddChannel { channel, .. } => format!("add {}", channel.sci.system().0[5]),
            other => format!("{other:?}"),
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// Confidentiality of the SAK that it handed out last, as the SecY and as peers have it.
    fn confidentiality(&self) -> Option<(Confidentiality, u8)> {
        let ordered = self.orders.iter().rev().find_map(|(_, order)| match order {
            Order::Install { confidentiality, .. } => Some(*confidentiality),
            _ => None,
        })?;
        let said = self.said.as_ref()?.set(|set| match set {
            Set::DistributedSak(sak) => Some(sak.offset),
            _ => None,
        })?;
        Some((ordered, said))
    }

    /// Refuses the orders that wait, or some of them.
    fn refuse(&mut self, which: fn(&Order) -> bool) {
        for (token, order) in std::mem::take(&mut self.orders) {
            let refused = which(&order).then(|| Refused("busy".into()));
            self.kay.handle_answer(self.now, token, refused.map_or(Ok(()), Err));
        }
        self.turn();
    }

    /// The SAK that it made last.
    fn made(&self) -> (KeyId, u8) {
        let sak = self.kay.view().saks[0].clone();
        (sak.key, sak.an)
    }
}

fn key(of: &Peer, kn: u32) -> KeyId {
    KeyId { mi: of.mi, kn }
}

/// A station under the first SAK of a key server.
fn client(config: Config) -> (Station, Peer) {
    let mut station = Station::new(config);
    let mut server = Peer::new(2, 1);
    let sak = server.sak(0, 1);
    station.hear(&mut server, [sak]);
    let used = uses(key(&server, 1), 0, true);
    station.hear(&mut server, [used]);
    assert!(station.take().ends_with("install 1, transmit 1, Port(Secured)"));
    (station, server)
}

#[test]
fn mka_a_peer_that_never_receives_does_not_stop_the_others() {
    let mut lan = Lan::new(1, Weather { secy_ms: 1, ..Weather::default() });
    lan.station(20, &[cak(1, 16)]);
    lan.station(10, &[cak(1, 16)]);
    lan.secured_within(SECOND).expect("secured");
    lan.run(LIFE);
    lan.take_lost();
    lan.station(30, &[cak(1, 16)]);
    lan.stations[2].refuse_installs(u32::MAX);
    for _ in 0..60 {
        lan.run(SECOND);
        let ports = [0, 1].map(|at| lan.stations[at].port());
        assert_eq!(ports, [PortState::Secured; 2]);
    }
    assert_eq!([0, 1].map(|at| lan.stations[at].lost), [0, 0]);
}

#[test]
fn mka_a_new_cak_waits_for_all_who_have_the_old_one() {
    let mut lan = Lan::new(1, Weather { secy_ms: 1, ..Weather::default() });
    for priority in [20, 10, 30] {
        lan.station(priority, &[cak(1, 16)]);
    }
    lan.secured_within(LIFE + SECOND).expect("secured");
    lan.run(2 * LIFE);
    lan.take_lost();
    // The key server gets it last.
    for station in [0, 2, 1] {
        lan.command(station, Command::Join(cak(2, 16)));
        lan.run(5 * LIFE);
        assert_eq!(lan.take_lost(), 0, "{station}");
        assert!(lan.is_secured());
    }
    lan.stations.iter_mut().for_each(|station| {
        let kay = station.kay.as_mut().unwrap();
        kay.handle_command(lan.now, Command::Leave(Ckn::new(&[1; 5]).unwrap()));
    });
    lan.run(5 * LIFE);
    assert_eq!(lan.take_lost(), 0);
    assert!(lan.is_secured());
}

#[test]
fn mka_a_channel_of_a_peer_that_was_lost_keeps_its_window() {
    let (mut station, mut server) = client(Config::new(sci(1)));
    let mut peer = Peer::unwilling(3, 50);
    let used = || uses(KeyId { mi: Mi([2; 12]), kn: 1 }, 0, true);
    for turn in 0..16 {
        station.hear(&mut server, [used()]);
        if !(5..12).contains(&turn) {
            station.hear(&mut peer, [used()]);
        }
        station.wait(2 * SECOND);
    }
    assert_eq!(station.kay.view().peers.len(), 2);
    assert_eq!(station.take(), "add 3", "once");
    // A key server has a new SAK for it.
    let mut station = Station::new(Config { priority: 0, ..Config::new(sci(1)) });
    let (mut other, mut peer) = (Peer::unwilling(2, 100), Peer::unwilling(3, 50));
    for turn in 0..20 {
        let used = |station: &Station| {
            let (key, an) = (turn > 0).then(|| station.made())?;
            Some(uses(key, an, true))
        };
        let own = used(&station);
        station.hear(&mut other, own);
        if !(5..12).contains(&turn) {
            let own = used(&station);
            station.hear(&mut peer, own);
        }
        station.wait(2 * SECOND);
    }
    let orders = station.take();
    assert!(orders.ends_with("install 3, transmit 3, retire 2"), "{orders}");
    assert_eq!(orders.matches("add 3").count(), 1, "before it had a SAK: {orders}");
}

#[test]
fn mka_the_sak_in_use_stays_until_another_is() {
    let (mut station, mut server) = client(Config { clear: true, ..Config::new(sci(1)) });
    let saks = [server.sak(1, 2), server.sak(2, 3)];
    for sak in saks {
        station.hear(&mut server, [sak]);
    }
    assert_eq!(station.take(), "install 2, retire 2, install 3");
    assert_eq!(station.kay.view().port, PortState::Secured);
    let used = uses(key(&server, 3), 2, true);
    station.hear(&mut server, [used]);
    station.wait(RETIRE + SECOND);
    assert_eq!(station.take(), "transmit 3, retire 1");
}

#[test]
fn mka_a_late_answer_is_not_taken_for_that_of_another_sak() {
    let mut station = Station::new(Config::new(sci(1)));
    let mut server = Peer::new(2, 1);
    let saks = [server.sak(0, 1), server.sak(1, 2)];
    let [first, second] = saks;
    station.hear(&mut server, [first]);
    station.take();
    station.answers = false;
    let used = uses(key(&server, 1), 0, true);
    station.hear(&mut server, [used]);
    let asked = std::mem::take(&mut station.orders);
    station.hear(&mut server, [second]);
    station.orders.extend(asked);
    // The new one is not installed yet when the old one is in use.
    station.answers = true;
    station.orders.retain(|(_, order)| matches!(order, Order::Transmit(_)));
    station.refuse(|_| false);
    station.wait(RETIRE + SECOND);
    assert!(!station.take().contains("retire"));
    assert_eq!(station.kay.view().port, PortState::Secured);
}

#[test]
fn mka_a_refused_sak_is_tried_again() {
    let mut station = Station::new(Config::new(sci(1)));
    let mut server = Peer::new(2, 1);
    station.answers = false;
    let sak = server.sak(0, 1);
    station.hear(&mut server, [sak.clone()]);
    station.refuse(|order| matches!(order, Order::Install { .. }));
    for _ in 0..5 {
        station.hear(&mut server, [sak.clone()]);
        station.wait(2 * SECOND);
    }
    assert_eq!(station.take(), "install 1", "once more, after the time");
    // So is its transmission.
    station.hear(&mut server, [sak.clone()]);
    let (mut server, mut other) = (server, Station::new(Config::new(sci(1))));
    server.mn = 0;
    other.hear(&mut server, [sak]);
    other.answers = false;
    other.take();
    for _ in 0..5 {
        let used = uses(key(&server, 1), 0, true);
        other.hear(&mut server, [used]);
        other.refuse(|order| matches!(order, Order::Transmit(_)));
        assert_eq!(other.kay.view().port, PortState::Blocked);
        other.wait(2 * SECOND);
    }
    other.answers = true;
    for _ in 0..4 {
        let used = uses(key(&server, 1), 0, true);
        other.hear(&mut server, [used]);
        other.wait(2 * SECOND);
    }
    assert_eq!(other.kay.view().port, PortState::Secured);
}

#[test]
fn mka_a_sak_does_not_go_to_one_who_may_have_forgotten_it() {
    let mut station = Station::new(Config { priority: 0, ..Config::new(sci(1)) });
    let (mut peer, mut other) = (Peer::unwilling(2, 50), Peer::unwilling(3, 60));
    for turn in 0..10 {
        for peer in [&mut peer, &mut other] {
            let used = (turn > 0).then(|| station.made()).map(|(key, an)| uses(key, an, true));
            station.hear(peer, used);
        }
        station.wait(2 * SECOND);
    }
    let (first, an) = station.made();
    // One does not hear this station for more than a life time, and forgets it.
    for _ in 0..4 {
        station.hear(&mut other, [uses(first, an, true)]);
        let message = peer.message(Vec::new());
        assert_eq!(station.kay.handle_message(station.now, (), &message), Ok(()));
        station.wait(2 * SECOND);
    }
    assert_eq!(station.kay.view().peers.len(), 1);
    // A recorded message of another station makes the key server wait with a new SAK.
    let recorded = Peer::new(9, 60).message(Vec::new());
    assert_eq!(station.kay.handle_message(station.now, (), &recorded), Ok(()));
    station.hear(&mut peer, []);
    station.wait(SECOND);
    let said = station.said.as_ref().unwrap();
    assert_eq!(said.set(|set| matches!(set, Set::DistributedSak(_)).then_some(())), None);
    for _ in 0..4 {
        station.hear(&mut other, [uses(first, an, true)]);
        station.hear(&mut peer, []);
        station.wait(2 * SECOND);
    }
    assert_ne!(station.made().0, first, "a new one");
}

#[test]
fn mka_a_station_that_lost_its_key_server_comes_as_a_new_one() {
    let (mut station, mut server) = client(Config::new(sci(1)));
    let mi = station.own.mi;
    station.wait(LIFE + SECOND);
    assert_eq!(station.take(), "retire 1, Port(Blocked)");
    assert_ne!(station.own.mi, mi);
    // The server sees a member that has no SAK.
    let sak = server.sak(1, 2);
    station.hear(&mut server, [sak]);
    assert_eq!(station.take(), "install 2");
}

#[test]
fn mka_who_is_not_willing_is_no_key_server() {
    let mut station = Station::new(Config::new(sci(1)));
    let mut peer = Peer::unwilling(2, 0);
    station.hear(&mut peer, []);
    station.wait(LIFE - SECOND);
    assert_eq!(station.kay.view().server, Some(sci(1)));
    assert!(station.take().starts_with("install 1"));
    let sak = peer.sak(0, 1);
    let live = Set::Live { ssci: 0, peers: vec![station.own] };
    let message = peer.message(vec![live, sak]);
    assert_eq!(station.kay.handle_message(station.now, (), &message), Err(Fault::NotKeyServer));
}

#[test]
fn mka_without_an_old_sak_its_lowest_number_is_one() {
    let (mut station, _) = client(Config { delay_protect: true, ..Config::new(sci(1)) });
    station.wait(SECOND);
    let used = station.said.as_ref().and_then(|said| {
        said.set(|set| match set {
            Set::SakUse(used) => used.keys,
            _ => None,
        })
    });
    assert_eq!(used.map(|[latest, old]| [latest.lowest_pn, old.lowest_pn]), Some([1, 1]));
}

#[test]
fn mka_participants_are_said_when_caks_or_live_peers_change_and_then_only() {
    let (mut station, mut server) = client(Config::new(sci(1)));
    let live = |station: &mut Station| {
        let all = station.kay.poll_participants()?;
        Some(all.into_iter().map(|one| one.live).collect::<Vec<_>>())
    };
    let member = |peer: &Peer, mn| Member { mi: peer.mi, mn };
    assert_eq!(live(&mut station), Some(vec![vec![member(&server, 2)]]));
    station.hear(&mut server, []);
    station.kay.handle_command(station.now, Command::Rekey);
    assert_eq!(live(&mut station), None);
    let mut other = Peer::unwilling(3, 200);
    station.hear(&mut other, []);
    assert_eq!(live(&mut station), Some(vec![vec![member(&server, 3), member(&other, 1)]]));
    // One of them goes.
    station.wait(LIFE - SECOND);
    station.hear(&mut server, []);
    assert_eq!(live(&mut station), None);
    station.wait(SECOND);
    assert_eq!(live(&mut station), Some(vec![vec![member(&server, 4)]]));
    // The key is that of the peers' ICVs.
    station.kay.handle_command(station.now, Command::Join(cak(2, 16)));
    let all = station.kay.poll_participants().unwrap();
    let frame = server.message(Vec::new());
    let (covered, icv) = frame.split_at(frame.len() - 16);
    let is_of = all.iter().map(|one| AesCmac::new(&one.ick).unwrap().is_tag(covered, icv));
    assert_eq!(is_of.collect::<Vec<_>>(), [true, false]);
    assert_eq!(all.iter().map(|one| one.live.len()).collect::<Vec<_>>(), [1, 0]);
    assert_eq!((all[0].ckn, live(&mut station)), (server.ckn, None));
    // The other goes, then the CAK.
    station.wait(LIFE);
    assert_eq!(live(&mut station), Some(vec![vec![], vec![]]));
    station.kay.handle_command(station.now, Command::Leave(server.ckn));
    assert_eq!(live(&mut station), Some(vec![vec![]]));
}

/// A station that is key server.
fn server(confidentiality: Confidentiality, suite: Suite) -> Station {
    Station::new(Config { priority: 0, confidentiality, suite, ..Config::new(sci(1)) })
}

#[test]
fn mka_a_key_server_asks_for_no_more_confidentiality_than_all_can() {
    use Confidentiality::{All, None as Clear, Offset30, Offset50};
    for (wanted, capability, is) in [
        (Offset30, 3, Offset30),
        (Offset50, 2, All),
        (Offset50, 1, Clear),
        (All, 2, All),
        (All, 1, Clear),
        (Clear, 3, Clear),
    ] {
        let mut station = server(wanted, Suite::GcmAes128);
        let mut peer = Peer { capability, ..Peer::unwilling(2, 50) };
        station.hear(&mut peer, []);
        assert_eq!(station.confidentiality(), Some((is, is.code())), "{wanted:?} {capability}");
    }
    let mut station = server(All, Suite::GcmAesXpn128);
    station.hear(&mut Peer { capability: 1, ..Peer::unwilling(2, 50) }, []);
    assert_eq!(station.confidentiality(), Some((Clear, 0)));
    // One who can do nothing at all has no part in it, and alone gets no SAK.
    let mut station = server(All, Suite::GcmAes128);
    let mut none = Peer { capability: 0, ..Peer::unwilling(3, 60) };
    station.hear(&mut none, []);
    station.wait(LIFE - SECOND);
    assert_eq!(station.take(), "");
    station.hear(&mut Peer::unwilling(2, 50), []);
    assert_eq!(station.confidentiality(), Some((All, 1)));
}

#[test]
fn mka_confidentiality_follows_peers_that_come_and_go() {
    let mut station = server(Confidentiality::Offset30, Suite::GcmAes128);
    let mut able = Peer { capability: 3, ..Peer::unwilling(2, 50) };
    let mut less = Peer { capability: 1, ..Peer::unwilling(3, 60) };
    let mut codes = Vec::new();
    for turn in 0..24 {
        let used = |station: &Station| {
            let (key, an) = (turn > 0).then(|| station.made())?;
            Some(uses(key, an, true))
        };
        let own = used(&station);
        station.hear(&mut able, own);
        if (6..12).contains(&turn) {
            let own = used(&station);
            station.hear(&mut less, own);
        }
        codes.extend(station.orders.drain(..).filter_map(|(_, order)| match order {
            Order::Install { confidentiality, .. } => Some(confidentiality.code()),
            _ => None,
        }));
        station.wait(2 * SECOND);
    }
    assert_eq!(codes, [2, 0, 2]);
}

#[test]
fn mka_of_one_priority_the_lowest_sci_serves() {
    for (own, serves) in [(1, 1), (3, 2)] {
        let mut station = Station::new(Config { priority: 50, ..Config::new(sci(own)) });
        station.hear(&mut Peer::new(2, 50), []);
        assert_eq!(station.kay.view().server, Some(sci(serves)));
    }
}

#[test]
fn mka_saks_for_one_who_never_receives_are_a_life_time_apart() {
    let mut station = server(Confidentiality::All, Suite::GcmAes128);
    let mut peer = Peer::unwilling(2, 50);
    let mut times = Vec::new();
    for _ in 0..30 {
        station.hear(&mut peer, []);
        for time in [Duration::ZERO, SECOND] {
            station.wait(time);
            let installs = station.take().matches("install").count();
            times.extend(std::iter::repeat_n(station.now, installs));
        }
    }
    assert!(times.len() >= 4, "each life time there is another: {times:?}");
    assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) >= LIFE), "{times:?}");
}

#[test]
fn mka_peers_that_are_live_at_once_have_a_sak_at_once() {
    for suite in [Suite::GcmAes128, Suite::GcmAesXpn256] {
        let mut station = server(Confidentiality::All, suite);
        let mut peers = [2, 3, 4].map(|number| Peer::unwilling(number, 50));
        // All are heard before the station says anything: a SAK for the first is nobody's.
        for peer in &mut peers {
            let live = Set::Live { ssci: 0, peers: vec![station.own] };
            let message = peer.message(vec![live]);
            assert_eq!(station.kay.handle_message(station.now, (), &message), Ok(()));
        }
        station.turn();
        let (key, an) = station.made();
        assert!(station.take().ends_with("retire 2, install 3"));
        let said = station.said.as_ref().and_then(|repr| {
            repr.set(|set| match set {
                Set::DistributedSak(sak) => sak.key.as_ref().map(|key| (key.kn, sak.an)),
                _ => None,
            })
        });
        assert_eq!(said, Some((key.kn, an)));
        for peer in &mut peers {
            station.hear(peer, [uses(key, an, false)]);
        }
        assert_eq!(station.take(), "transmit 3, Port(Secured)");
    }
}

#[test]
fn mka_a_right_message_to_another_address_or_of_another_algorithm_is_not_taken() {
    let mut station = Station::new(Config::new(sci(1)));
    let mut peer = Peer::new(2, 50);
    let live = vec![Set::Live { ssci: 0, peers: vec![station.own] }];
    for at in [0, 5] {
        let mut dst = MacAddr(eapol::PAE_GROUP);
        dst.0[at] ^= 2;
        let repr = peer.repr(live.clone());
        let frame = peer.frame(dst, &repr);
        let heard = station.kay.handle_message(station.now, (), &frame);
        assert_eq!(heard, Err(Fault::Destination));
    }
    let repr = Repr { agility: AGILITY + 1, ..peer.repr(live.clone()) };
    let frame = peer.frame(MacAddr(eapol::PAE_GROUP), &repr);
    assert_eq!(station.kay.handle_message(station.now, (), &frame), Err(Fault::Agility));
    assert!(station.kay.view().peers.is_empty());
    station.hear(&mut peer, []);
    assert_eq!(station.kay.view().peers.len(), 1);
}

#[test]
fn mka_eapol_of_a_later_version_is_read() {
    let mut station = Station::new(Config::new(sci(1)));
    let mut peer = Peer::new(2, 50);
    let mut frame = peer.message(vec![Set::Live { ssci: 0, peers: vec![station.own] }]);
    assert_eq!(frame[14], eapol::Repr::VERSION);
    frame[14] += 1;
    let covered = frame.len() - 16;
    let icv = peer.keys.icv(&frame[..covered]);
    frame[covered..].copy_from_slice(&icv);
    assert_eq!(station.kay.handle_message(station.now, (), &frame), Ok(()));
    assert_eq!(station.kay.view().peers.len(), 1);
}
