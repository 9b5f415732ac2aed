//! The plan for the SAs of IPsec.

use super::{CounterId, Plan, Version, esp_in_id, esp_out_id};
use crate::config::{SaConfig, TunnelConfig};
use crate::control::BuildError;
use crate::incident::SaName;
use crate::leases::Leases;
use crate::lives;
use crate::message::{Change, EspIn, EspOut, Seat};
use crate::sas::{Client, Directories, OutboundPart, Sa, Sas};
use ferrule_base::VrfId;
use ferrule_crypto::Suite;
use ferrule_dataplane::ipsec::{
    self, Allowance, Encap, Fragment, Mode, Outside, SaProtocol, Selector, Tfc,
};
use ferrule_dataplane::sequence::RESERVE_MIN;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// Numbers of ESP without extended sequence numbers.
const ESP_MAX: u64 = u32::MAX as u64;
/// With them: half, so that no nonce is that of an SA with an instance.
const ESN_MAX: u64 = u64::MAX >> 1;
/// How far a window may have moved since somebody said where it stands.
const EDGE_MARGIN: u64 = 1 << 28;

/// Headers and padding of a packet that are under its SA's algorithm, at most.
const AROUND: u64 = 100;
/// A crash costs at most one of so many parts of a life, or the fewest numbers to reserve.
const PARTS: u64 = 16;

/// Fingerprints of an SA's keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct KeyPrint {
    record: [u8; 16],
    mac: [u8; 16],
}

impl KeyPrint {
    fn of(sa: &SaConfig, record: [u8; 16]) -> Self {
        // What is in no record, as an HMAC's key beside a cipher's.
        Self { record, mac: ferrule_crypto::fingerprint(&sa.keys.mac_key, b"name") }
    }
}

/// Identity of an inbound SA: as long as it stays, its window does.
#[derive(Clone, PartialEq, Eq, Hash)]
struct InboundSpec {
    spi: u32,
    keys: KeyPrint,
    seat: Seat,
    protocol: SaProtocol,
    mode: Mode,
    suite: Suite,
    in_udp: bool,
}

/// Identity of an outbound SA, beside the tunnel that it is of: another one begins with other
/// numbers.
#[derive(Clone, PartialEq, Eq, Hash)]
struct OutboundSpec {
    slot: u32,
    spi: u32,
    keys: KeyPrint,
    seats: Vec<Seat>,
    /// True for the tunnel's first one, which also sends its dummies and keepalives.
    is_first: bool,
}

/// An SA of the configuration in force, by its index, and its tunnel there.
#[derive(Clone, Copy)]
struct Held {
    index: u32,
    tunnel: usize,
}

/// The SAs of the configuration in force.
#[derive(Clone, Default)]
pub(crate) struct StaticSas {
    outbound: HashMap<OutboundSpec, Held>,
    inbound: HashMap<InboundSpec, Held>,
    /// SAs that their workers did not take: the next configuration orders them anew.
    refused: HashSet<Sa>,
}

impl StaticSas {
    /// The same without those of a seat that has forgotten everything.
    pub fn without(&self, seat: Seat) -> Self {
        let mut rest = self.clone();
        rest.outbound.retain(|spec, _| spec.seats[0] != seat);
        rest.inbound.retain(|spec, _| spec.seat != seat);
        rest
    }

    /// The SAs of a card by which its slots are sealed: slot and index.
    pub fn first_of(&self, seat: Seat) -> impl Iterator<Item = (u32, u32)> {
        let outbound = self.outbound.iter();
        let first = outbound.filter(move |(spec, _)| spec.is_first && spec.seats[0] == seat);
        first.map(|(spec, held)| (spec.slot, held.index))
    }

    /// A worker did not take an SA.
    pub fn refuse(&mut self, sa: Sa) {
        self.refused.insert(sa);
    }
}

struct NewOutbound {
    spec: OutboundSpec,
    tunnel: usize,
    parts: Vec<OutboundPart>,
}

struct NewInbound {
    spec: InboundSpec,
    tunnel: usize,
    config: Box<ipsec::InboundConfig>,
    edge: u64,
}

/// Changes of SAs.
#[derive(Default)]
pub(crate) struct EspPlan {
    /// Inbound SAs that end before anything else.
    pub ended: Vec<u32>,
    outbound: Vec<NewOutbound>,
    inbound: Vec<NewInbound>,
    changed: Vec<(u32, Box<ipsec::InboundConfig>)>,
    /// SAs that stay and live by other bounds.
    lives: Vec<(Sa, SaName, Option<Allowance>)>,
    /// SAs to remove, in rounds.
    pub gone: Vec<Vec<Sa>>,
    /// SAs that stay; with the new ones, once those are ordered.
    next: StaticSas,
    /// Outbound SAs of each tunnel, the first one first.
    first: Vec<Vec<OutboundSpec>>,
}

impl EspPlan {
    /// Records of all SAs.
    pub fn records(&self) -> impl Iterator<Item = [u8; 16]> {
        let outbound = self.outbound.iter().map(|new| &new.spec.keys);
        let inbound = self.inbound.iter().map(|new| &new.spec.keys);
        let stay = self.next.outbound.keys().map(|spec| &spec.keys);
        let stay = stay.chain(self.next.inbound.keys().map(|spec| &spec.keys));
        outbound.chain(inbound).chain(stay).map(|keys| keys.record)
    }

    /// An error if an outbound SA would have a key on which a keying protocol agreed: nobody
    /// keeps the numbers of that one.
    pub fn spares(&self, agreed: &HashSet<[u8; 16]>) -> Result<(), BuildError> {
        match self.outbound.iter().find(|new| agreed.contains(&new.spec.keys.record)) {
            Some(NewOutbound { spec, .. }) => {
                let what = format!("the SA {:#x} would make the nonces of an agreed one", spec.spi);
                Err(BuildError::Unfit(what, "make a new key: `ferrule init key`"))
            }
            None => Ok(()),
        }
    }

    /// Changes that give a seat which has forgotten everything what it has by `all`.
    pub fn refill(self, seat: Seat, all: &StaticSas) -> Vec<Change> {
        let mut changes = Vec::new();
        for NewOutbound { spec, parts, .. } in self.outbound {
            let Some(held) = all.outbound.get(&spec) else { continue };
            for part in parts.into_iter().filter(|part| part.seat == seat) {
                let install = EspOut::Install(held.index, part.config, part.numbers);
                changes.push(Change::EspOut(install));
            }
        }
        for NewInbound { spec, config, edge, .. } in self.inbound {
            if let Some(held) = all.inbound.get(&spec).filter(|_| spec.seat == seat) {
                changes.push(Change::EspIn(EspIn::Install(held.index, config, edge)));
            }
        }
        changes
    }

    /// Orders what is new, and what is changed in place. Returns the SAs of the configuration
    /// from then on, and how slots are to be filled.
    pub fn order(self, dirs: &Directories, sas: &mut Sas) -> (StaticSas, Filling) {
        let (mut next, client) = (self.next, Client::Configuration);
        for NewOutbound { spec, tunnel, parts } in self.outbound {
            let print = spec.keys.record;
            let index = sas.add_outbound(dirs, spec.slot, parts, client, print);
            next.outbound.insert(spec, Held { index, tunnel });
        }
        let mut reached = Vec::new();
        for NewInbound { spec, tunnel, config, edge } in self.inbound {
            let index = sas.add_inbound(dirs, spec.seat, config, edge, client);
            reached.push(index);
            next.inbound.insert(spec, Held { index, tunnel });
        }
        for (index, config) in self.changed {
            sas.change_inbound(dirs, index, config, client);
        }
        for (sa, name, by) in self.lives {
            sas.live(sa, name, by);
        }
        let index = |spec: &OutboundSpec| next.outbound.get(spec).map(|held| held.index);
        let mut slots = Vec::new();
        for specs in self.first.into_iter().filter(|specs| !specs.is_empty()) {
            let all = specs.iter().filter_map(|spec| Some((index(spec)?, spec.seats.clone())));
            let slot = specs.first().map_or(0, |spec| spec.slot);
            slots.push(SlotFilling { slot, sas: all.collect() });
        }
        (next, Filling { slots, reached })
    }
}

/// Slots whose tunnel is gone or another: what protocols agreed on for it cannot stay.
pub(crate) fn changed_slots(new: Version<'_>, old: Version<'_>) -> HashSet<u32> {
    let numbers: HashMap<u32, usize> = new.compiled.slots.iter().copied().zip(0..).collect();
    let stays = |number: usize, slot: u32| {
        numbers.get(&slot).is_some_and(|&now| {
            new.outbound_template(now) == old.outbound_template(number)
                && new.receives_like(now, old, number)
        })
    };
    let slots = old.compiled.slots.iter().enumerate();
    slots.filter(|&(number, &slot)| !stays(number, slot)).map(|(_, &slot)| slot).collect()
}

/// Slots and the outbound SAs that are to fill them, and inbound SAs that are to be reached.
#[derive(Default)]
pub(crate) struct Filling {
    slots: Vec<SlotFilling>,
    reached: Vec<u32>,
}

/// Outbound SAs of a slot, each with who has it; the first one is for those who have none.
struct SlotFilling {
    slot: u32,
    sas: Vec<(u32, Vec<Seat>)>,
}

impl Filling {
    /// Fills slots that have nothing yet: no policy that is in force names them.
    pub fn fill_vacant(&self, dirs: &Directories, sas: &Sas) {
        let vacant = |slot| dirs.workers.slots(0).get(slot).is_none();
        self.fill(dirs, sas, vacant);
    }

    /// Fills all slots, and leads SPIs to whom they belong now.
    pub fn fill_all(&self, dirs: &Directories, sas: &mut Sas) {
        self.fill(dirs, sas, |_| true);
        sas.reach_all(dirs, &self.reached);
    }

    /// A worker has its own SA, or the first; what a keying protocol put to use stays.
    fn fill(&self, dirs: &Directories, sas: &Sas, which: impl Fn(u32) -> bool) {
        for SlotFilling { slot, sas: specs } in self.slots.iter().filter(|one| which(one.slot)) {
            for worker in 0..dirs.workers.workers() {
                if sas.uses_agreed(dirs, worker, *slot) {
                    continue;
                }
                let own = specs.iter().find(|(_, seats)| seats.contains(&Seat::Worker(worker)));
                if let Some(&(index, _)) = own.or(specs.first()) {
                    sas.fill(dirs, worker, index);
                }
            }
        }
    }
}

/// Parameters of a tunnel's outbound SAs that are fixed when they are installed.
#[derive(PartialEq)]
struct OutboundTemplate<'a> {
    name: &'a str,
    ends: (IpAddr, IpAddr),
    kind: (SaProtocol, Mode, Suite, bool, u8),
    placement: &'a str,
    adjacency: u32,
    around: Option<u32>,
    path: (usize, bool, Fragment, bool),
    outside: Outside,
    encap: Option<Encap>,
    hides: (Tfc, u32),
    shared: Option<u32>,
    origin: (bool, bool),
}

impl<'a> Version<'a> {
    fn tunnel(self, number: usize) -> &'a TunnelConfig {
        &self.config.tunnels[number]
    }

    /// The SA of this version that has an SPI, in the tunnel of one that is held.
    fn outbound_of(self, held: Held, spi: u32) -> Option<&'a SaConfig> {
        self.tunnel(held.tunnel).outbound.iter().find(|sa| sa.spi == spi)
    }

    /// See [`outbound_of`](Self::outbound_of).
    fn inbound_of(self, held: Held, spi: u32) -> Option<&'a SaConfig> {
        self.tunnel(held.tunnel).inbound.iter().find(|sa| sa.spi == spi)
    }

    /// The slot of the SAs around those of a tunnel.
    fn around(self, number: usize) -> Option<u32> {
        self.tunnel(number).then.map(|around| self.compiled.slots[around])
    }

    /// Tunnels around a tunnel.
    fn depth(self, number: usize) -> usize {
        let around = std::iter::successors(self.tunnel(number).then, |&n| self.tunnel(n).then);
        around.take(self.config.tunnels.len()).count()
    }

    fn outbound_template(self, number: usize) -> OutboundTemplate<'a> {
        let t = self.tunnel(number);
        OutboundTemplate {
            name: &t.name,
            ends: (t.local, t.remote),
            kind: (t.protocol, t.mode, t.suite, t.esn, t.ah_align),
            placement: t.placement.name(),
            adjacency: self.compiled.ways[number],
            around: self.around(number),
            path: (t.mtu, t.learns, t.fragment, t.clamp_mss),
            outside: t.outside,
            encap: t.encap,
            hides: (t.tfc, t.dummies),
            shared: t.shared,
            origin: (t.external, t.follows),
        }
    }

    /// True if inbound SAs of both tunnels are alike, but for their identity.
    fn receives_like(self, number: usize, other: Self, other_number: usize) -> bool {
        let all = |version: Self, number: usize| {
            let t = version.tunnel(number);
            let clamp = t.clamp_mss.then_some(t.mtu);
            let slots = (version.compiled.slots[number], version.around(number));
            let kind = (t.placement, t.esn, t.window, t.vrf, t.encap, t.follows, clamp);
            (&t.name, t.local, t.remote, slots, kind, &version.compiled.selectors[number])
        };
        all(self, number) == all(other, other_number)
    }

    /// Seat of an SA of a tunnel: the card of its port, or this worker.
    pub fn seat_of(self, tunnel: &TunnelConfig, worker: usize) -> Seat {
        match self.config.card_of(tunnel) {
            Some(port) => Seat::Card(self.compiled.ports[port]),
            None => Seat::Worker(worker),
        }
    }

    /// Seats of an outbound SA: one of them, or every worker, its own first.
    fn seats_of(self, tunnel: &TunnelConfig, sa: &SaConfig) -> Vec<Seat> {
        let mut seats = vec![self.seat_of(tunnel, sa.worker)];
        if tunnel.shared.is_some() {
            let others = (0..self.config.cores.len()).filter(|&worker| worker != sa.worker);
            seats.extend(others.map(Seat::Worker));
        }
        seats
    }
}

/// Plans the SAs of a configuration.
pub(super) struct Planner<'a> {
    new: Version<'a>,
    old: Version<'a>,
    sas: &'a StaticSas,
    /// The inbound SA of each record, by the old configuration.
    received: HashMap<[u8; 16], (u32, Seat)>,
    leases: &'a mut Leases,
    plan: &'a mut Plan,
}

impl<'a> Planner<'a> {
    pub fn new(
        new: Version<'a>,
        old: Version<'a>,
        sas: &'a StaticSas,
        leases: &'a mut Leases,
        plan: &'a mut Plan,
    ) -> Self {
        let mut received: HashMap<[u8; 16], (u32, Seat)> = HashMap::new();
        for (spec, held) in &sas.inbound {
            let first = received.entry(spec.keys.record).or_insert((held.index, spec.seat));
            if held.index < first.0 {
                *first = (held.index, spec.seat);
            }
        }
        Self { new, old, sas, received, leases, plan }
    }

    pub fn plan(mut self) -> Result<(), BuildError> {
        for number in 0..self.new.config.tunnels.len() {
            self.outbound(number)?;
            for sa in &self.new.tunnel(number).inbound {
                self.inbound(number, sa)?;
            }
        }
        self.gone();
        Ok(())
    }

    /// The outbound SAs of a tunnel, each in another worker.
    fn outbound(&mut self, number: usize) -> Result<(), BuildError> {
        let tunnel = self.new.tunnel(number);
        let template = self.new.outbound_template(number);
        let mut specs = Vec::new();
        for (at, sa) in tunnel.outbound.iter().enumerate() {
            let id = esp_out_id(tunnel, sa);
            self.plan.send(&id)?;
            let spec = OutboundSpec {
                slot: self.new.compiled.slots[number],
                spi: sa.spi,
                keys: KeyPrint::of(sa, id.fingerprint),
                seats: self.new.seats_of(tunnel, sa),
                is_first: at == 0,
            };
            specs.push(spec.clone());
            let stays = |held: &&Held| {
                let refused = self.sas.refused.contains(&Sa::Outbound(held.index));
                !refused && self.old.outbound_template(held.tunnel) == template
            };
            match self.sas.outbound.get(&spec).filter(stays) {
                Some(&held) => {
                    let before = self.old.outbound_of(held, sa.spi);
                    if before.is_none_or(|was| was.lifetimes != sa.lifetimes) {
                        let name = lives::name_out(&outbound(self.new, number, sa));
                        let by = self.life(tunnel, sa, &id);
                        self.plan.esp.lives.push((Sa::Outbound(held.index), name, by));
                    }
                    let held = Held { tunnel: number, ..held };
                    self.plan.esp.next.outbound.insert(spec, held);
                }
                None => self.add_outbound(number, sa, &id, spec)?,
            }
        }
        self.plan.esp.first.push(specs);
        Ok(())
    }

    fn add_outbound(
        &mut self,
        number: usize,
        sa: &SaConfig,
        id: &CounterId,
        spec: OutboundSpec,
    ) -> Result<(), BuildError> {
        let tunnel = self.new.tunnel(number);
        let max = max_of(tunnel);
        self.check_sender(tunnel, id, max)?;
        let step = step_of(tunnel, sa, self.new.config.reserve);
        let life = self.life(tunnel, sa, id);
        let numbers = self.leases.draw(id, step, max, &mut self.plan.limits)?;
        self.plan.leases.push(numbers.lease());
        let numbers = match tunnel.shared {
            Some(window) => numbers.share(spec.seats.len(), window),
            None => vec![numbers],
        };
        let part = |(n, (&seat, numbers))| {
            let mut config = outbound(self.new, number, sa);
            config.life.clone_from(&life);
            if n > 0 || !spec.is_first {
                // What a tunnel sends by itself, one SA of it sends.
                config.dummies = 0;
                config.encap = config.encap.map(|encap| Encap { keepalive: None, ..encap });
            }
            OutboundPart { seat, config: Box::new(config), numbers }
        };
        let parts = spec.seats.iter().zip(numbers).enumerate().map(part).collect();
        self.plan.esp.outbound.push(NewOutbound { spec, tunnel: number, parts });
        Ok(())
    }

    /// The bounds of an SA's life, on the account of its key.
    fn life(&mut self, tunnel: &TunnelConfig, sa: &SaConfig, id: &CounterId) -> Option<Allowance> {
        let lifetimes = sa.lifetimes;
        lifetimes.has_bounds().then(|| {
            let account = self.leases.account(id, longest(tunnel));
            Allowance { lifetimes, account }
        })
    }

    /// Refuses keys that must not seal again: those whose numbers the other end used, and those
    /// whose numbers are beyond the range that the new configuration has.
    fn check_sender(
        &mut self,
        tunnel: &TunnelConfig,
        id: &CounterId,
        max: u64,
    ) -> Result<(), BuildError> {
        let kept = self.leases.look(id)?;
        let received = self.received.contains_key(&id.fingerprint);
        if tunnel.suite.is_counter_mode() && (received || kept.edge > 0) {
            let what = format!(
                "`{}` has a key that the other end sent with: its nonces would come twice",
                id.id
            );
            return Err(BuildError::Unfit(what, "make a new key: `ferrule init key`"));
        }
        if kept.used > max {
            return Err(beyond(&id.id, "was used"));
        }
        Ok(())
    }

    fn inbound(&mut self, number: usize, sa: &SaConfig) -> Result<(), BuildError> {
        let tunnel = self.new.tunnel(number);
        let id = esp_in_id(tunnel, sa);
        let record = id.fingerprint;
        let spec = InboundSpec {
            spi: sa.spi,
            keys: KeyPrint::of(sa, record),
            seat: self.new.seat_of(tunnel, sa.worker),
            protocol: tunnel.protocol,
            mode: tunnel.mode,
            suite: tunnel.suite,
            in_udp: tunnel.encap.is_some(),
        };
        let new = self.new;
        let config = || Box::new(inbound(new, number, sa, record));
        let held = self.sas.inbound.get(&spec);
        let held = held.filter(|held| !self.sas.refused.contains(&Sa::Inbound(held.index)));
        if let Some(&held) = held {
            let before = self.old.inbound_of(held, sa.spi);
            if before.is_none_or(|was| was.lifetimes != sa.lifetimes) {
                let (name, by) = (lives::name_in(&config()), self.life(tunnel, sa, &id));
                self.plan.esp.lives.push((Sa::Inbound(held.index), name, by));
            }
            if !self.new.receives_like(number, self.old, held.tunnel) {
                let was_wide = self.old.tunnel(held.tunnel).esn;
                let changed = (held.index, config());
                self.check_receiver(tunnel, &id, if was_wide { EDGE_MARGIN } else { 0 })?;
                self.plan.esp.changed.push(changed);
            }
            self.plan.esp.next.inbound.insert(spec, Held { tunnel: number, ..held });
            return Ok(());
        }
        let config =
            Box::new(ipsec::InboundConfig { life: self.life(tunnel, sa, &id), ..*config() });
        self.check_receiver(tunnel, &id, 0)?;
        if let Some(&(old, _)) = self.received.get(&record) {
            self.plan.esp.ended.push(old);
        }
        let edge = self.leases.look(&id)?.edge;
        self.plan.esp.inbound.push(NewInbound { spec, tunnel: number, config, edge });
        Ok(())
    }

    /// Refuses an SA that received numbers beyond the range of the new configuration.
    fn check_receiver(
        &mut self,
        tunnel: &TunnelConfig,
        id: &CounterId,
        margin: u64,
    ) -> Result<(), BuildError> {
        let edge = self.leases.look(id)?.edge;
        if !tunnel.esn && edge > ESP_MAX - margin {
            return Err(beyond(&id.id, "is"));
        }
        Ok(())
    }

    /// SAs that the new configuration has not. An outbound one goes before those around it,
    /// an inbound one behind them: its packets come out of them.
    fn gone(&mut self) {
        let EspPlan { next, ended, gone, .. } = &mut self.plan.esp;
        let stay: HashSet<u32> = next.outbound.values().map(|held| held.index).collect();
        let outbound = self.sas.outbound.values().filter(|held| !stay.contains(&held.index));
        let depth = |held: &Held| self.old.depth(held.tunnel);
        let outbound: Vec<(usize, Sa)> =
            outbound.map(|held| (depth(held), Sa::Outbound(held.index))).collect();
        let deepest = outbound.iter().map(|(depth, _)| *depth).max().unwrap_or_default();
        let outbound = outbound.into_iter().map(|(depth, sa)| (deepest - depth, sa));
        let stay: HashSet<u32> =
            next.inbound.values().map(|held| held.index).chain(ended.iter().copied()).collect();
        let inbound = self.sas.inbound.values().filter(|held| !stay.contains(&held.index));
        let inbound = inbound.map(|held| (depth(held), Sa::Inbound(held.index)));
        for (round, sa) in outbound.chain(inbound) {
            if gone.len() <= round {
                gone.resize_with(round + 1, Vec::new);
            }
            gone[round].push(sa);
        }
    }
}

/// The most numbers of a tunnel's SA.
pub(crate) const fn max_of(tunnel: &TunnelConfig) -> u64 {
    if tunnel.esn { ESN_MAX } else { ESP_MAX }
}

/// Octets under its algorithm that a packet of a tunnel has at most, but for packets that are cut
/// once they are sealed.
const fn longest(tunnel: &TunnelConfig) -> u64 {
    tunnel.mtu as u64 + AROUND
}

/// Numbers to reserve at a time: a crash costs no more than a small part of a life.
fn step_of(tunnel: &TunnelConfig, sa: &SaConfig, reserve: u64) -> u64 {
    let hard = sa.lifetimes.hard;
    let octets = hard.octets.map(|octets| octets / longest(tunnel));
    let packets = hard.packets.into_iter().chain(octets).min().unwrap_or(u64::MAX);
    reserve.min((packets / PARTS).max(RESERVE_MIN))
}

fn beyond(id: &str, did: &str) -> BuildError {
    let what = format!("`{id}` {did} beyond 2^32: it needs extended sequence numbers");
    BuildError::Unfit(what, "leave `esn = true`, or make new keys: `ferrule init key`")
}

/// An outbound SA of a tunnel.
pub(crate) fn outbound(
    version: Version<'_>,
    number: usize,
    sa: &SaConfig,
) -> ipsec::OutboundConfig {
    let t = version.tunnel(number);
    let SaConfig { spi, keys, salt, .. } = sa.clone();
    ipsec::OutboundConfig {
        name: t.name.as_str().into(),
        esn: t.esn,
        adjacency: version.compiled.ways[number],
        mtu: t.mtu as u16,
        protocol: t.protocol,
        mode: t.mode,
        outside: t.outside,
        encap: t.encap,
        tfc: t.tfc,
        dummies: t.dummies,
        learns: t.learns,
        fragment: t.fragment,
        clamp: t.clamp_mss,
        then: version.around(number),
        ah_align: t.ah_align,
        ..ipsec::OutboundConfig::tunnel(spi, (t.local, t.remote), keys, salt)
    }
}

/// An inbound SA of a tunnel.
pub(crate) fn inbound(
    version: Version<'_>,
    number: usize,
    sa: &SaConfig,
    record: [u8; 16],
) -> ipsec::InboundConfig {
    let t = version.tunnel(number);
    let selectors: &[Selector] = &version.compiled.selectors[number];
    let SaConfig { spi, keys, salt, .. } = sa.clone();
    ipsec::InboundConfig {
        name: t.name.as_str().into(),
        protocol: t.protocol,
        mode: t.mode,
        encap: t.encap,
        clamp: t.clamp_mss.then_some(t.mtu as u16),
        slot: version.compiled.slots[number],
        inside: version.around(number),
        follows: t.follows,
        record,
        esn: t.esn,
        window: t.window,
        selectors: selectors.to_vec(),
        vrf: VrfId(t.vrf as u16),
        ..ipsec::InboundConfig::tunnel(spi, (t.remote, t.local), keys, salt)
    }
}
