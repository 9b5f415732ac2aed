//! A LAN that loses, repeats and reorders MKPDUs, but carries protected frames: every lost
//! frame was lost by the stations.

use crate::Core;
use crate::mka::config::LIFE;
use crate::mka::{
    Cak, Channel, Command, Config, Event, Kay, News, Order, PortState, Refused, Token, Xpn,
};
use ferrule_base::{Duration, Instant, MacAddr, Rng, Secret};
use ferrule_wire::Sci;
use ferrule_wire::mkpdu::{Ckn, ICV_LEN, KeyId, Repr, Set};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashSet};

/// Between two protected frames of a station.
pub const DATA: Duration = Duration::from_millis(20);

/// A CAK by a number.
pub fn cak(number: u8, octets: usize) -> Cak {
    Cak::new(Ckn::new(&[number; 5]).unwrap(), Secret::new(vec![number; octets])).unwrap()
}

pub fn sci(number: u8) -> Sci {
    Sci::new(MacAddr([2, 0, 0, 0, 0, number]), 1)
}

/// Faults of the network per thousand MKPDUs.
#[derive(Clone, Copy, Default)]
pub struct Weather {
    pub lost: u64,
    pub twice: u64,
    /// Microseconds that a message takes at most.
    pub delay_us: u64,
    /// Milliseconds that a SecY takes for an order at most.
    pub secy_ms: u64,
}

struct Sa {
    an: u8,
    sak: Vec<u8>,
    xpn: Option<Xpn>,
    /// Channels from which it receives, with their SSCIs.
    receives: BTreeMap<Sci, Option<u32>>,
    next_pn: u64,
}

impl Sa {
    /// The nonce of a packet (802.1AE-2018 clauses 14.5 and 14.7).
    fn nonce(&self, sci: Sci, pn: u64) -> [u8; 12] {
        let Some(Xpn { salt, ssci }) = self.xpn else {
            let pn = u32::try_from(pn).expect("a packet number of 32 bits");
            return [&sci.to_bytes()[..], &pn.to_be_bytes()].concat().try_into().unwrap();
        };
        let mut nonce = salt;
        let with = ssci.to_be_bytes().into_iter().chain(pn.to_be_bytes());
        nonce.iter_mut().zip(with).for_each(|(octet, with)| *octet ^= with);
        nonce
    }

    /// Each channel has one of its own, with an XPN suite.
    fn has_right_sscis(&self) {
        let all = self.receives.values().copied().chain([self.xpn.map(|xpn| xpn.ssci)]);
        let all: BTreeSet<u32> = all.flatten().collect();
        let count = if self.xpn.is_some() { self.receives.len() + 1 } else { 0 };
        assert!(all.len() == count && !all.contains(&0), "{all:?} for {count}");
    }

    /// True if it opens a packet that another one sends from this channel.
    fn opens(&self, sent: &Sent) -> bool {
        let salt = |xpn: Option<Xpn>| xpn.map(|xpn| xpn.salt);
        (self.an, &self.sak, salt(self.xpn)) == (sent.an, &sent.sak, salt(sent.xpn))
            && self.receives.get(&sent.sci) == Some(&sent.xpn.map(|xpn| xpn.ssci))
    }
}

/// A protected frame.
struct Sent {
    an: u8,
    sak: Vec<u8>,
    xpn: Option<Xpn>,
    sci: Sci,
}

const HEAD: usize = 18;

/// A frame with its MKPDU changed, and its ICV made good.
pub fn altered(frame: &[u8], cak: &Cak, change: impl FnOnce(&mut Repr)) -> Vec<u8> {
    let (mut repr, _) = Repr::parse(&frame[HEAD..]).unwrap();
    change(&mut repr);
    let mut out = frame[..HEAD].to_vec();
    out.resize(HEAD + repr.len(), 0);
    let length = (repr.len() + ICV_LEN) as u16;
    out[HEAD - 2..HEAD].copy_from_slice(&length.to_be_bytes());
    repr.emit(&mut out[HEAD..]);
    let icv = cak.keys.icv(&out);
    out.extend(icv);
    out
}

/// The sets of a frame's MKPDU.
pub fn sets(frame: &[u8]) -> Vec<Set> {
    Repr::parse(&frame[HEAD..]).unwrap().0.sets
}

/// A SecY.
#[derive(Default)]
struct Secy {
    sas: BTreeMap<KeyId, Sa>,
    transmits: Option<KeyId>,
    port: Option<PortState>,
    /// Installs that are to be refused.
    refuses: u32,
    /// Lowest packet numbers, by channel.
    lowest: BTreeMap<Sci, u64>,
}

impl Secy {
    fn obey(&mut self, order: Order) -> Result<(), Refused> {
        match order {
            Order::Install { key, an, sak, suite, confidentiality, xpn, channels } => {
                if self.refuses > 0 {
                    self.refuses -= 1;
                    return Err(Refused("no room".into()));
                }
                let same = self.sas.iter().find(|(_, sa)| sa.an == an).map(|(key, _)| *key);
                assert_eq!(same, None, "an association number in use");
                assert_eq!(xpn.is_some(), suite.is_xpn());
                assert!(xpn.is_none() || !confidentiality.has_offset());
                let receives = channels.into_iter().map(|Channel { sci, ssci }| (sci, ssci));
                let receives: BTreeMap<_, _> = receives.collect();
                let sa = Sa { an, sak: sak.expose().to_vec(), xpn, receives, next_pn: 1 };
                sa.has_right_sscis();
                assert!(self.sas.insert(key, sa).is_none(), "installed twice");
            }
            Order::Transmit(key) => {
                assert!(self.sas.contains_key(&key), "it is installed");
                self.transmits = Some(key);
            }
            Order::Retire(key) => {
                assert!(self.sas.remove(&key).is_some(), "it is installed");
                self.transmits.take_if(|transmits| *transmits == key);
            }
            Order::AddChannel { key, channel: Channel { sci, ssci } } => {
                if let Some(sa) = self.sas.get_mut(&key) {
                    assert!(sa.receives.insert(sci, ssci).is_none(), "a channel twice");
                    sa.has_right_sscis();
                }
            }
            Order::LowestPn { channel, pn, .. } => {
                self.lowest.insert(channel, pn);
            }
            Order::Port(port) => self.port = Some(port),
        }
        Ok(())
    }
}

/// A station of the LAN.
pub struct Station {
    pub config: Config,
    caks: Vec<Cak>,
    /// Nothing while it is down.
    pub kay: Option<Kay>,
    secy: Secy,
    /// Orders that its SecY works at, in their order.
    orders: Vec<(Instant, Token, Order)>,
    /// Lead of its clock.
    ahead: Duration,
    /// Frames of others that its SecY could not open.
    pub lost: u64,
    pub got: u64,
    pub news: Vec<News>,
    /// The MKPDUs that it sent last.
    pub sent: Vec<Vec<u8>>,
}

impl Station {
    pub fn port(&self) -> PortState {
        self.secy.port.unwrap_or(PortState::Blocked)
    }

    pub fn transmits(&self) -> Option<KeyId> {
        self.secy.transmits
    }

    pub fn refuse_installs(&mut self, count: u32) {
        self.secy.refuses = count;
    }

    /// Salt and own SSCI of the SAK with which it transmits, and SSCIs of its channels.
    pub fn xpn(&self) -> Option<(Xpn, BTreeMap<Sci, Option<u32>>)> {
        let sa = self.secy.sas.get(&self.secy.transmits?)?;
        Some((sa.xpn?, sa.receives.clone()))
    }

    pub fn set_next_pn(&mut self, pn: u64) {
        let key = self.secy.transmits.expect("it transmits");
        self.secy.sas.get_mut(&key).expect("installed").next_pn = pn;
    }

    pub fn lowest_pn(&self, of: Sci) -> Option<u64> {
        self.secy.lowest.get(&of).copied()
    }

    pub fn saks(&self) -> usize {
        self.secy.sas.len()
    }
}

/// Time of arrival, number, receiving station, frame.
type Message = (Instant, u64, usize, Vec<u8>);

/// The LAN.
pub struct Lan {
    pub now: Instant,
    pub stations: Vec<Station>,
    pub weather: Weather,
    /// Pairs between which nothing passes.
    pub cut: HashSet<(usize, usize)>,
    /// Key servers do not say their SSCI, as before MKA version 3.
    pub hides_ssci: bool,
    /// No station sends high halves of packet numbers.
    pub hides_high: bool,
    rng: Rng,
    wire: BinaryHeap<Reverse<Message>>,
    number: u64,
    next_data: Instant,
    /// SAK and nonce of every frame that was sent.
    nonces: HashSet<(Vec<u8>, [u8; 12])>,
}

impl Lan {
    pub fn new(seed: u64, weather: Weather) -> Self {
        Self {
            now: Instant::from_secs(100),
            stations: Vec::new(),
            weather,
            cut: HashSet::new(),
            hides_ssci: false,
            hides_high: false,
            rng: Rng::new(seed),
            wire: BinaryHeap::new(),
            number: 0,
            next_data: Instant::from_secs(100),
            nonces: HashSet::new(),
        }
    }

    /// A station that is up; its number.
    pub fn station(&mut self, priority: u8, caks: &[Cak]) -> usize {
        let number = self.stations.len();
        let config = Config { priority, ..Config::new(sci(number as u8 + 1)) };
        self.station_of(config, caks)
    }

    pub fn station_of(&mut self, config: Config, caks: &[Cak]) -> usize {
        self.stations.push(Station {
            config,
            caks: caks.to_vec(),
            kay: None,
            secy: Secy::default(),
            orders: Vec::new(),
            ahead: Duration::ZERO,
            lost: 0,
            got: 0,
            news: Vec::new(),
            sent: Vec::new(),
        });
        self.boot(self.stations.len() - 1);
        self.stations.len() - 1
    }

    /// A station starts; it remembers nothing.
    pub fn boot(&mut self, at: usize) {
        let rng = Rng::new(self.rng.next_u64());
        let station = &mut self.stations[at];
        station.secy = Secy::default();
        station.orders.clear();
        let mut kay = Kay::new(station.config, Box::new(rng));
        let now = self.now + station.ahead;
        station.caks.iter().for_each(|cak| kay.handle_command(now, Command::Join(cak.clone())));
        station.kay = Some(kay);
        self.settle(at);
    }

    /// A station is gone.
    pub fn kill(&mut self, at: usize) {
        self.stations[at].kay = None;
    }

    /// Its clock goes forward.
    pub fn jump(&mut self, at: usize, by: Duration) {
        self.stations[at].ahead += by;
        self.settle(at);
    }

    pub fn command(&mut self, at: usize, command: Command) {
        let now = self.now + self.stations[at].ahead;
        if let Some(kay) = &mut self.stations[at].kay {
            kay.handle_command(now, command);
        }
        self.settle(at);
    }

    /// A frame comes to a station.
    pub fn deliver(&mut self, at: usize, frame: &[u8]) {
        let now = self.now + self.stations[at].ahead;
        if let Some(kay) = &mut self.stations[at].kay {
            let _ = kay.handle_message(now, (), frame);
        }
        self.settle(at);
    }

    /// A station does all that is due.
    fn settle(&mut self, at: usize) {
        for _ in 0..100 {
            self.drain(at);
            let now = self.now;
            let station = &mut self.stations[at];
            let clock = now + station.ahead;
            let Some(kay) = &mut station.kay else { return };
            if station.orders.first().is_some_and(|(due, ..)| *due <= now) {
                let (_, token, order) = station.orders.remove(0);
                let done = station.secy.obey(order);
                kay.handle_answer(clock, token, done);
            } else if kay.poll_timeout().is_some_and(|due| due <= clock) {
                for (key, sa) in &station.secy.sas {
                    kay.handle_event(clock, Event::NextPn(*key, sa.next_pn));
                }
                kay.handle_timeout(clock);
            } else {
                return;
            }
        }
        panic!("station {at} does not come to rest");
    }

    fn drain(&mut self, at: usize) {
        let (weather, now) = (self.weather, self.now);
        let Some(kay) = &mut self.stations[at].kay else { return };
        let mut orders = Vec::new();
        while let Some((token, order)) = kay.poll_order() {
            orders.push((token, order));
        }
        let frames: Vec<Vec<u8>> =
            std::iter::from_fn(|| kay.poll_transmit()).map(|(_, frame)| frame).collect();
        let news: Vec<News> = std::iter::from_fn(|| kay.poll_news()).collect();
        for (token, order) in orders {
            let takes = Duration::from_micros(self.rng.below(weather.secy_ms * 1000 + 1));
            let last = self.stations[at].orders.last().map_or(now, |(due, ..)| *due);
            self.stations[at].orders.push(((now + takes).max(last), token, order));
        }
        self.stations[at].news.extend(news);
        for mut frame in frames {
            if self.hides_ssci || self.hides_high {
                frame = self.hidden(at, &frame);
            }
            for to in (0..self.stations.len()).filter(|to| *to != at) {
                let lost = self.rng.below(1000) < weather.lost || self.cut.contains(&(at, to));
                let copies = 1 + u64::from(self.rng.below(1000) < weather.twice);
                for _ in 0..copies * u64::from(!lost) {
                    let delay = Duration::from_micros(1 + self.rng.below(weather.delay_us + 1));
                    self.number += 1;
                    self.wire.push(Reverse((now + delay, self.number, to, frame.clone())));
                }
            }
            self.stations[at].sent.push(frame);
        }
    }

    /// A message without the things that are hidden.
    fn hidden(&self, at: usize, frame: &[u8]) -> Vec<u8> {
        let (repr, _) = Repr::parse(&frame[HEAD..]).expect("an MKPDU");
        let cak = self.stations[at].caks.iter().find(|cak| cak.ckn == repr.ckn).expect("its CAK");
        altered(frame, cak, |repr| {
            repr.version = 1;
            repr.sets.retain(|set| !self.hides_high || !matches!(set, Set::Xpn { .. }));
            for set in &mut repr.sets {
                if let Set::Live { ssci, .. } = set
                    && self.hides_ssci
                {
                    *ssci = 0;
                }
            }
        })
    }

    /// Every station that may sends a protected frame to all others.
    fn data(&mut self) {
        for from in 0..self.stations.len() {
            let station = &mut self.stations[from];
            let Some(key) = station.secy.transmits.filter(|_| station.kay.is_some()) else {
                continue;
            };
            let Some(sa) = station.secy.sas.get_mut(&key) else { continue };
            let (sci, pn) = (station.config.sci, sa.next_pn);
            let sent = Sent { an: sa.an, sak: sa.sak.clone(), xpn: sa.xpn, sci };
            sa.next_pn += 1;
            let nonce = (sa.sak.clone(), sa.nonce(sci, pn));
            assert!(self.nonces.insert(nonce), "a nonce twice");
            for to in (0..self.stations.len()).filter(|to| *to != from) {
                let station = &mut self.stations[to];
                if station.kay.is_none() || self.cut.contains(&(from, to)) {
                    continue;
                }
                match station.secy.sas.values().any(|sa| sa.opens(&sent)) {
                    true => station.got += 1,
                    false => station.lost += 1,
                }
            }
        }
    }

    /// Time passes.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let due = |station: &Station| {
                let kay = station.kay.as_ref()?.poll_timeout();
                let back = kay.map(|at| self.now + at.since(self.now + station.ahead));
                let order = station.orders.first().map(|(due, ..)| *due);
                back.into_iter().chain(order).min()
            };
            let next = self.stations.iter().filter_map(due).min();
            let arrives = self.wire.peek().map(|Reverse((at, ..))| *at);
            let all = [next, arrives, Some(self.next_data), Some(end)];
            self.now = all.into_iter().flatten().min().unwrap_or(end).max(self.now);
            while self.wire.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
                let Some(Reverse((_, _, to, frame))) = self.wire.pop() else { break };
                self.deliver(to, &frame);
            }
            (0..self.stations.len()).for_each(|at| self.settle(at));
            if self.next_data <= self.now {
                self.data();
                self.next_data = self.now + DATA;
            }
        }
    }

    /// True if all that are up transmit with the same SAK.
    pub fn is_secured(&self) -> bool {
        let mut up = self.stations.iter().filter(|station| station.kay.is_some());
        let first = up.next().and_then(Station::transmits);
        let key = |s: &Station| s.transmits() == first && s.port() == PortState::Secured;
        first.is_some() && up.all(key) && self.stations.iter().all(|s| s.secy.sas.len() <= 2)
    }

    /// Time until all are secured, if it is not longer than so much.
    pub fn secured_within(&mut self, limit: Duration) -> Option<Duration> {
        let begin = self.now;
        while !self.is_secured() {
            if self.now.since(begin) > limit {
                return None;
            }
            self.run(Duration::from_millis(5));
        }
        Some(self.now.since(begin))
    }

    /// Frames that were lost since the last time.
    pub fn take_lost(&mut self) -> u64 {
        self.stations.iter_mut().map(|station| std::mem::take(&mut station.lost)).sum()
    }
}

/// The time in which silence is noticed.
pub const NOTICED: Duration = LIFE.saturating_add(Duration::from_secs(2));
