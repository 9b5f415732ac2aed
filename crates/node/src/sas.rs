//! Security associations of ESP and AH in a running node: which there are, and orders about
//! them. Each order is answered once.
//!
//! ```text
//!   add ──▶ its worker installs it ─ done ─▶ its SPI leads to it ─▶ answer
//!   use ──▶ the slot that policy entries name has it, for one worker or all
//!   move ──▶ its workers give it other ends ─ done ─▶ answer
//!   drop ─▶ nothing leads to it any more ─▶ no worker has anything under way from before
//!           ─▶ its worker lets go ─ done ─▶ answer
//! ```
//!
//! None of it makes another snapshot of the tables: slots and SPIs are tables of atomics that
//! snapshots share ([`ipsec::SaDirectory`]). Keys of the configuration and keys that a
//! protocol agreed on are ordered alike.

mod lost;

use crate::incident::{Incident, SaName};
use crate::lives::{self, Lives};
use crate::message::{Change, EspIn, EspOut, Ordered, Seat};
use crate::slab::Slab;
use ferrule_base::{Instant, PortId};
use ferrule_control::{Refused, Token};
use ferrule_dataplane::Sequence;
use ferrule_dataplane::ipsec::{
    self, Allowance, Expiry, InboundPlace, LifeCause, OutboundPlace, SaDirectory, SaProtocol,
};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

/// Where SAs live: in workers, or in cards.
#[derive(Clone, Default)]
pub(crate) struct Directories {
    pub workers: Arc<SaDirectory>,
    pub cards: BTreeMap<PortId, Arc<SaDirectory>>,
}

impl Directories {
    /// Where the inbound SA of an SPI lives that this seat may have.
    pub fn inbound(&self, seat: Seat, spi: u32) -> Option<InboundPlace> {
        self.of(seat)?.0.inbound(spi)
    }

    /// True if a seat has an outbound SA for a slot.
    pub fn has_outbound(&self, seat: Seat, slot: u32) -> bool {
        self.of(seat).is_some_and(|(directory, at)| directory.slots(at).get(slot).is_some())
    }

    /// The directory in which an SA of this seat is, and the worker that it is at there.
    fn of(&self, seat: Seat) -> Option<(&SaDirectory, u8)> {
        match seat {
            Seat::Worker(worker) => Some((&self.workers, worker as u8)),
            Seat::Card(port) => self.cards.get(&port).map(|card| (&**card, 0)),
        }
    }
}

/// An SA, until it is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sa {
    /// Inbound, by index.
    Inbound(u32),
    /// Outbound, by index.
    Outbound(u32),
}

/// Origin of an order, and of the SA that it adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// The configuration, which waits until all of its orders are answered.
    Configuration,
    /// A keying protocol.
    Keying(Token),
}

/// Worker or card of an SA, with its part of the configuration and of the numbers.
pub(crate) struct OutboundPart {
    pub seat: Seat,
    pub config: Box<ipsec::OutboundConfig>,
    pub numbers: Sequence,
}

/// An inbound SA.
struct InboundEntry {
    seat: Seat,
    spi: u32,
    record: [u8; 16],
    slot: u32,
    client: Client,
    /// Its worker has it.
    is_installed: bool,
    /// Its SPI leads to it.
    is_reached: bool,
    leaves: bool,
}

/// An outbound SA.
struct OutboundEntry {
    /// Workers that have it, each with the record of its numbers.
    parts: Vec<(Seat, [u8; 16])>,
    spi: u32,
    destination: IpAddr,
    protocol: SaProtocol,
    /// Fingerprint of the nonces that it makes.
    print: [u8; 16],
    slot: u32,
    client: Client,
    is_installed: bool,
    leaves: bool,
}

/// Name of an SA among those on which keying protocols agreed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Agreement {
    /// The slot of its tunnel.
    pub slot: u32,
    pub spi: u32,
    pub is_outbound: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Add,
    Change,
    Drop,
}

/// An order that workers have not answered yet.
struct UnderWay {
    sa: Sa,
    verb: Verb,
    client: Client,
    /// Workers that are to answer.
    left: usize,
    refused: Option<Refused>,
}

/// SAs to which nothing leads any more, until nothing is under way to them.
struct Clearing {
    step: u64,
    behind: Vec<usize>,
    sas: Vec<(Sa, Client)>,
}

/// The first token of orders about SAs: those of SecYs are smaller.
const FIRST: u64 = 1 << 63;

/// An answer to a keying protocol.
pub(crate) type Answer = (Token, Result<Sa, Refused>);

/// The SAs of a node.
#[derive(Default)]
pub(crate) struct Sas {
    inbound: Slab<InboundEntry>,
    outbound: Slab<OutboundEntry>,
    under_way: HashMap<Token, UnderWay>,
    ordered: u64,
    /// SAs of the configuration that are to go.
    goes: usize,
    /// To be sent.
    queue: Vec<(Seat, Ordered)>,
    /// SAs that keying protocols agreed on.
    agreements: HashMap<Agreement, Sa>,
    /// Fingerprints of the nonces that outbound SAs make.
    senders: HashMap<[u8; 16], u32>,
    leaving: Vec<(Sa, Client)>,
    clearing: Option<Clearing>,
    answers: VecDeque<Answer>,
    /// SAs whose lifetimes are bounded.
    lives: Lives,
}

impl Sas {
    /// True if SAs of the configuration are to go and are not gone.
    pub const fn is_configuring(&self) -> bool {
        self.goes > 0
    }

    /// Orders for workers and cards, in their order.
    pub fn take_queue(&mut self) -> Vec<(Seat, Ordered)> {
        std::mem::take(&mut self.queue)
    }

    /// The next answer to a keying protocol.
    pub fn poll_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// True if an order of this token is about SAs.
    pub const fn is_of(&self, token: Token) -> bool {
        token.0 > FIRST
    }

    /// Answers an order that is done at once.
    pub fn answer(&mut self, token: Token, sa: Sa) {
        self.answers.push_back((token, Ok(sa)));
    }

    /// Fingerprints of the nonces that SAs make on which keying protocols agreed.
    pub fn agreed_senders(&self) -> HashSet<[u8; 16]> {
        let agreed = |sa: &OutboundEntry| matches!(sa.client, Client::Keying(_));
        self.outbound.iter().filter(|(_, sa)| agreed(sa)).map(|(_, sa)| sa.print).collect()
    }

    /// True if an SA that is there makes nonces of this fingerprint.
    pub fn makes(&self, print: [u8; 16]) -> bool {
        self.senders.contains_key(&print)
    }

    /// Refuses an order at once.
    pub fn refuse(&mut self, token: Token, why: impl Into<String>) {
        self.answers.push_back((token, Err(Refused(why.into()))));
    }

    /// True if whoever has an order of this token is to answer it.
    pub fn is_awaited(&self, token: Token) -> bool {
        self.under_way.contains_key(&token)
    }

    /// Sends an order's changes. About SAs of the configuration cards say nothing: it has them
    /// filled when they are reset.
    fn order(
        &mut self,
        dirs: &Directories,
        what: (Sa, Verb, Client),
        changes: impl IntoIterator<Item = (Seat, Change)>,
    ) {
        let (sa, verb, client) = what;
        self.ordered += 1;
        let (number, mut left) = (Token(FIRST + self.ordered), 0);
        let is_agreed = self.is_agreed(sa);
        for (seat, change) in changes {
            let answers = matches!(seat, Seat::Worker(_)) || is_agreed;
            left += usize::from(answers);
            self.queue.push((seat, Ordered { token: number, change }));
        }
        if verb == Verb::Drop {
            self.goes += usize::from(client == Client::Configuration);
        }
        let under_way = UnderWay { sa, verb, client, left: left.max(1), refused: None };
        self.under_way.insert(number, under_way);
        if left == 0 {
            self.done(dirs, number, Ok(()));
        }
    }

    /// Adds an inbound SA; everything up to `edge` counts as received.
    pub fn add_inbound(
        &mut self,
        dirs: &Directories,
        seat: Seat,
        config: Box<ipsec::InboundConfig>,
        edge: u64,
        client: Client,
    ) -> u32 {
        let (slot, spi) = (config.slot, config.spi);
        let index = self.inbound.insert(InboundEntry {
            seat,
            spi: config.spi,
            record: config.record,
            slot: config.slot,
            client,
            is_installed: false,
            is_reached: false,
            leaves: false,
        });
        if client != Client::Configuration {
            // One whose SPI is taken is refused once it is installed, and has no name until then.
            let name = Agreement { slot, spi, is_outbound: false };
            self.agreements.entry(name).or_insert(Sa::Inbound(index));
        }
        if let Some(by) = &config.life {
            self.lives.add(Sa::Inbound(index), lives::name_in(&config), by.clone());
        }
        let change = Change::EspIn(EspIn::Install(index, config, edge));
        self.order(dirs, (Sa::Inbound(index), Verb::Add, client), [(seat, change)]);
        index
    }

    /// Adds an outbound SA, at one worker or at several. It sends nothing before it is used.
    pub fn add_outbound(
        &mut self,
        dirs: &Directories,
        slot: u32,
        parts: Vec<OutboundPart>,
        client: Client,
        print: [u8; 16],
    ) -> u32 {
        let first = &parts[0].config;
        *self.senders.entry(print).or_default() += 1;
        let spi = first.spi;
        let index = self.outbound.insert(OutboundEntry {
            parts: parts.iter().map(|part| (part.seat, part.numbers.lease().record)).collect(),
            spi: first.spi,
            destination: first.destination,
            protocol: first.protocol,
            print,
            slot,
            client,
            is_installed: false,
            leaves: false,
        });
        if client != Client::Configuration {
            self.agreements.insert(Agreement { slot, spi, is_outbound: true }, Sa::Outbound(index));
        }
        if let Some(by) = &parts[0].config.life {
            self.lives.add(Sa::Outbound(index), lives::name_out(&parts[0].config), by.clone());
        }
        let changes = parts.into_iter().map(|OutboundPart { seat, config, numbers }| {
            (seat, Change::EspOut(EspOut::Install(index, config, numbers)))
        });
        self.order(dirs, (Sa::Outbound(index), Verb::Add, client), changes);
        index
    }

    /// Changes an inbound SA but for its key: its window stays.
    pub fn change_inbound(
        &mut self,
        dirs: &Directories,
        index: u32,
        config: Box<ipsec::InboundConfig>,
        client: Client,
    ) {
        let Some(sa) = self.inbound.get_mut(index) else { return };
        sa.slot = config.slot;
        let change = (sa.seat, Change::EspIn(EspIn::Change(index, config)));
        self.order(dirs, (Sa::Inbound(index), Verb::Change, client), [change]);
    }

    /// Gives an inbound SA other ends.
    pub fn move_inbound(
        &mut self,
        dirs: &Directories,
        index: u32,
        ends: ipsec::Endpoints,
        client: Client,
    ) {
        let Some(sa) = self.inbound.get(index) else { return };
        let change = (sa.seat, Change::EspIn(EspIn::Move(index, ends)));
        self.order(dirs, (Sa::Inbound(index), Verb::Change, client), [change]);
    }

    /// Gives an outbound SA the ends of a configuration, in all of its workers. Errors about its
    /// packets are found by the new ones at once.
    pub fn move_outbound(
        &mut self,
        dirs: &Directories,
        index: u32,
        config: &ipsec::OutboundConfig,
        client: Client,
    ) {
        let Some(sa) = self.outbound.get_mut(index) else { return };
        let before = std::mem::replace(&mut sa.destination, config.destination);
        let (spi, is_installed) = (sa.spi, sa.is_installed);
        let seats: Vec<Seat> = sa.parts.iter().map(|&(seat, _)| seat).collect();
        let place = seats.first().and_then(|&seat| self.place(seat, index));
        if let Some(place) = place.filter(|_| is_installed) {
            dirs.workers.remove_path(spi, before, place);
            dirs.workers.add_path(spi, config.destination, place);
        }
        let change = |seat| (seat, Change::EspOut(EspOut::Move(index, Box::new(config.clone()))));
        let changes = seats.into_iter().map(change);
        self.order(dirs, (Sa::Outbound(index), Verb::Change, client), changes);
    }

    /// Bounds of the life of an SA that stays; none: it lives on.
    pub fn live(&mut self, sa: Sa, name: SaName, by: Option<Allowance>) {
        self.tell_seats(sa, |index, is_outbound| {
            let by = by.clone().map(Box::new);
            match is_outbound {
                true => Change::EspOut(EspOut::Live(index, by)),
                false => Change::EspIn(EspIn::Live(index, by)),
            }
        });
        if self.lives.set(sa, name, by) {
            // Before its workers send another packet.
            self.expire(sa);
        }
    }

    /// Ends SAs whose time is over. What people have to know comes back.
    pub fn turn_lives(&mut self, now: Instant) -> Vec<Incident> {
        let (over, news) = self.lives.turn(now);
        over.into_iter().for_each(|sa| self.expire(sa));
        news
    }

    /// A worker says that a bound of an SA's life is reached: a hard one ends it everywhere.
    pub fn heard(&mut self, sa: Sa, expiry: Expiry, cause: LifeCause) -> Option<Incident> {
        let news = self.lives.heard(sa, expiry, cause)?;
        if expiry == Expiry::Hard {
            self.expire(sa);
        }
        Some(news)
    }

    /// When a life is to be looked at.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.lives.poll_timeout()
    }

    fn expire(&mut self, sa: Sa) {
        self.tell_seats(sa, |index, is_outbound| match is_outbound {
            true => Change::EspOut(EspOut::Expire(index)),
            false => Change::EspIn(EspIn::Expire(index)),
        });
    }

    /// Tells all who have an SA. Its index, and whether it is outbound, make the change.
    fn tell_seats(&mut self, sa: Sa, change: impl Fn(u32, bool) -> Change) {
        let (seats, index, is_outbound): (Vec<Seat>, _, _) = match sa {
            Sa::Inbound(index) => {
                (self.inbound.get(index).map(|sa| sa.seat).into_iter().collect(), index, false)
            }
            Sa::Outbound(index) => {
                let parts = self.outbound.get(index).map_or(&[][..], |sa| &sa.parts);
                (parts.iter().map(|&(seat, _)| seat).collect(), index, true)
            }
        };
        // Nobody waits for the answers.
        self.ordered += 1;
        let token = Token(FIRST + self.ordered);
        let changes = seats.into_iter().map(|seat| (seat, change(index, is_outbound)));
        self.queue.extend(changes.map(|(seat, change)| (seat, Ordered { token, change })));
    }

    /// Puts an outbound SA to use for what a worker has for its slot: its own part, or that of
    /// the worker that seals for all.
    pub fn fill(&self, dirs: &Directories, worker: usize, index: u32) {
        let Some(sa) = self.outbound.get(index).filter(|sa| sa.is_installed) else { return };
        let own = sa.parts.iter().find(|(seat, _)| *seat == Seat::Worker(worker));
        let Some(&(seat, _)) = own.or(sa.parts.first()) else { return };
        if let (Some((directory, at)), Some(place)) = (dirs.of(seat), self.place(seat, index)) {
            let worker = if matches!(seat, Seat::Card(_)) { at } else { worker as u8 };
            directory.fill(sa.slot, worker, Some(place));
        }
    }

    fn place(&self, seat: Seat, index: u32) -> Option<OutboundPlace> {
        let sa = self.outbound.get(index)?;
        let worker = match seat {
            Seat::Worker(worker) => worker as u8,
            Seat::Card(_) => 0,
        };
        let everywhere = sa.parts.len() > 1;
        Some(OutboundPlace { index, worker, protocol: sa.protocol, everywhere })
    }

    /// Takes agreed SAs from their protocols: the configuration is going to drop them.
    pub fn give_up(&mut self, sas: &[Sa]) {
        for &sa in sas {
            match sa {
                Sa::Inbound(index) => self.inbound.get_mut(index).map(|sa| sa.leaves = true),
                Sa::Outbound(index) => self.outbound.get_mut(index).map(|sa| sa.leaves = true),
            };
        }
    }

    /// Drops an SA once nothing is under way to it.
    pub fn drop(&mut self, dirs: &Directories, sa: Sa, client: Client) {
        self.cut_off(dirs, sa);
        self.goes += usize::from(client == Client::Configuration);
        self.leaving.push((sa, client));
    }

    /// Ends an inbound SA at once, which somebody else is to have.
    pub fn end(&mut self, dirs: &Directories, index: u32, client: Client) {
        self.cut_off(dirs, Sa::Inbound(index));
        self.retire(dirs, Sa::Inbound(index), client);
    }

    /// Nothing that comes from now on is led to an SA.
    fn cut_off(&mut self, dirs: &Directories, sa: Sa) {
        match sa {
            Sa::Inbound(index) => {
                let Some(sa) = self.inbound.get_mut(index) else { return };
                let place = dirs.of(sa.seat).filter(|_| sa.is_reached);
                if let Some((directory, worker)) = place {
                    directory.remove_inbound(&InboundPlace { spi: sa.spi, worker, index });
                }
                (sa.is_reached, sa.leaves) = (false, true);
            }
            Sa::Outbound(index) => {
                let Some(sa) = self.outbound.get_mut(index) else { return };
                sa.leaves = true;
                let Some(sa) = self.outbound.get(index) else { return };
                for &(seat, _) in &sa.parts {
                    let Some((directory, _)) = dirs.of(seat) else { continue };
                    let place = self.place(seat, index);
                    for worker in 0..directory.workers() as u8 {
                        if directory.slots(worker).get(sa.slot) == place {
                            directory.fill(sa.slot, worker, None);
                        }
                    }
                    if let (Some(place), Seat::Worker(_)) = (place, seat) {
                        directory.remove_path(sa.spi, sa.destination, place);
                    }
                }
            }
        }
    }

    fn retire(&mut self, dirs: &Directories, sa: Sa, client: Client) {
        let changes: Vec<(Seat, Change)> = match sa {
            Sa::Inbound(index) => {
                let seat = self.inbound.get(index).map(|sa| sa.seat);
                seat.map(|seat| (seat, Change::EspIn(EspIn::Retire(index)))).into_iter().collect()
            }
            Sa::Outbound(index) => {
                let parts = self.outbound.get(index).map_or(&[][..], |sa| &sa.parts);
                let retire = |&(seat, _)| (seat, Change::EspOut(EspOut::Retire(index)));
                parts.iter().map(retire).collect()
            }
        };
        self.order(dirs, (sa, Verb::Drop, client), changes);
    }

    /// True if SAs wait until nothing is under way to them and nobody is asked yet.
    pub const fn wants_clearing(&self) -> bool {
        self.clearing.is_none() && !self.leaving.is_empty()
    }

    /// All workers are asked to say so by this step.
    pub fn clear(&mut self, step: u64, workers: usize) {
        let (behind, sas) = ((0..workers).collect(), std::mem::take(&mut self.leaving));
        self.clearing = Some(Clearing { step, behind, sas });
    }

    /// A worker has done a step. True if nothing is under way any more: what is queued then is
    /// to be let go.
    pub fn reached(&mut self, dirs: &Directories, seat: Seat, step: u64) -> bool {
        let Some(clearing) = self.clearing.as_mut().filter(|c| c.step == step) else {
            return false;
        };
        clearing.behind.retain(|&worker| seat != Seat::Worker(worker));
        if !clearing.behind.is_empty() {
            return false;
        }
        let sas = self.clearing.take().map(|clearing| clearing.sas).unwrap_or_default();
        for (sa, client) in sas {
            // It was counted when it was cut off.
            self.goes -= usize::from(client == Client::Configuration);
            self.retire(dirs, sa, client);
        }
        true
    }

    /// A worker answers. An SA of the configuration comes back if it is refused.
    pub fn done(
        &mut self,
        dirs: &Directories,
        token: Token,
        done: Result<(), Refused>,
    ) -> Option<(Sa, Refused)> {
        let under_way = self.under_way.get_mut(&token)?;
        under_way.left -= 1;
        under_way.refused = under_way.refused.take().or(done.err());
        if under_way.left > 0 {
            return None;
        }
        let UnderWay { sa, verb, client, refused, .. } = self.under_way.remove(&token)?;
        if verb == Verb::Drop {
            self.goes -= usize::from(client == Client::Configuration);
        }
        let refused = match (verb, refused) {
            (Verb::Add, None) => self.added(dirs, sa).err(),
            (_, refused) => refused,
        };
        if verb == Verb::Drop {
            self.forget(sa);
        }
        match client {
            Client::Configuration => refused.map(|refused| (sa, refused)),
            Client::Keying(token) => {
                if verb == Verb::Add && refused.is_some() && self.has_agreed(sa) {
                    // As far as it was added it goes; nobody knows of it.
                    self.cut_off(dirs, sa);
                    self.retire(dirs, sa, Client::Keying(Token(0)));
                }
                if token != Token(0) {
                    self.answers.push_back((token, refused.map_or(Ok(sa), Err)));
                }
                None
            }
        }
    }

    /// An SA is where it belongs: it can be reached, unless another one has its SPI, in whose
    /// place the configuration puts it [later](Self::reach_all).
    fn added(&mut self, dirs: &Directories, sa: Sa) -> Result<(), Refused> {
        self.lives.installed(sa);
        match sa {
            Sa::Inbound(index) => {
                let Some(sa) = self.inbound.get_mut(index) else { return Ok(()) };
                sa.is_installed = true;
                let Some((directory, worker)) = dirs.of(sa.seat) else { return Ok(()) };
                let place = InboundPlace { spi: sa.spi, worker, index };
                sa.is_reached = sa.is_reached || directory.add_inbound(&place).is_ok();
                match sa.client {
                    Client::Keying(_) if !sa.is_reached => Err(taken(sa.spi)),
                    _ => Ok(()),
                }
            }
            Sa::Outbound(index) => {
                let Some(sa) = self.outbound.get_mut(index) else { return Ok(()) };
                sa.is_installed = true;
                let (spi, destination) = (sa.spi, sa.destination);
                let seat = sa.parts.first().map(|&(seat, _)| seat);
                let seat = seat.filter(|seat| matches!(seat, Seat::Worker(_)));
                if let Some(place) = seat.and_then(|seat| self.place(seat, index)) {
                    dirs.workers.add_path(spi, destination, place);
                }
                Ok(())
            }
        }
    }

    /// Inbound SAs of these indices are reached by their SPIs, whoever was before.
    pub fn reach_all(&mut self, dirs: &Directories, indices: &[u32]) {
        for &index in indices {
            let Some(sa) = self.inbound.get_mut(index).filter(|sa| !sa.is_reached) else {
                continue;
            };
            let Some((directory, worker)) = dirs.of(sa.seat).filter(|_| sa.is_installed) else {
                continue;
            };
            let place = InboundPlace { spi: sa.spi, worker, index };
            let replaced = directory.replace_inbound(&place);
            sa.is_reached = replaced || directory.add_inbound(&place).is_ok();
        }
    }

    /// All SAs that were ordered are taken to be there: their workers carry that out before
    /// anything else.
    pub fn expect_all(&mut self, dirs: &Directories) {
        let inbound = self.inbound.iter().map(|(index, _)| Sa::Inbound(index));
        let outbound = self.outbound.iter().map(|(index, _)| Sa::Outbound(index));
        let all: Vec<Sa> = inbound.chain(outbound).collect();
        for sa in all {
            // Of those of the configuration none is refused for its SPI.
            let _ = self.added(dirs, sa);
        }
    }

    /// Forgets an SA that is gone.
    fn forget(&mut self, sa: Sa) {
        self.lives.forget(sa);
        if let Some((slot, spi)) = self.slot_and_spi(sa) {
            let name = Agreement { slot, spi, is_outbound: matches!(sa, Sa::Outbound(_)) };
            if self.agreements.get(&name) == Some(&sa) {
                self.agreements.remove(&name);
            }
        }
        match sa {
            Sa::Inbound(index) => _ = self.inbound.remove(index),
            Sa::Outbound(index) => {
                if let Some(sa) = self.outbound.remove(index) {
                    self.release(sa.print);
                }
            }
        }
    }

    /// An SA that made nonces of this fingerprint is gone.
    fn release(&mut self, print: [u8; 16]) {
        if let Entry::Occupied(mut count) = self.senders.entry(print) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// True if keying protocols agreed on any.
    pub fn has_agreements(&self) -> bool {
        !self.agreements.is_empty()
    }

    /// The SA of this name on which a keying protocol agreed, if it is not about to go.
    pub fn find_agreed(&self, name: Agreement) -> Option<Sa> {
        self.agreements.get(&name).copied().filter(|&sa| self.has_agreed(sa))
    }

    /// All SAs of a slot that do not leave.
    pub fn of_slot(&self, slot: u32) -> Vec<Sa> {
        let inbound = self.inbound.iter().filter(|(_, sa)| sa.slot == slot && !sa.leaves);
        let outbound = self.outbound.iter().filter(|(_, sa)| sa.slot == slot && !sa.leaves);
        let outbound = outbound.map(|(index, _)| Sa::Outbound(index));
        inbound.map(|(index, _)| Sa::Inbound(index)).chain(outbound).collect()
    }

    /// The seat of an SA: of an outbound one of several workers the first.
    pub fn seat(&self, sa: Sa) -> Option<Seat> {
        match sa {
            Sa::Inbound(index) => self.inbound.get(index).map(|sa| sa.seat),
            Sa::Outbound(index) => self.outbound.get(index)?.parts.first().map(|part| part.0),
        }
    }

    /// SAs of these slots that keying protocols agreed on.
    pub fn agreed(&self, is_slot: impl Fn(u32) -> bool) -> Vec<Sa> {
        let agreed = |client, leaves: bool| matches!(client, Client::Keying(_)) && !leaves;
        let inbound = self.inbound.iter().filter(|(_, sa)| agreed(sa.client, sa.leaves));
        let inbound = inbound.filter(|(_, sa)| is_slot(sa.slot));
        let outbound = self.outbound.iter().filter(|(_, sa)| agreed(sa.client, sa.leaves));
        let outbound = outbound.filter(|(_, sa)| is_slot(sa.slot));
        let outbound = outbound.map(|(index, _)| Sa::Outbound(index));
        inbound.map(|(index, _)| Sa::Inbound(index)).chain(outbound).collect()
    }

    /// True if what a worker has for a slot is sealed by an SA that a keying protocol agreed on.
    pub fn uses_agreed(&self, dirs: &Directories, worker: usize, slot: u32) -> bool {
        let place = dirs.workers.slots(worker as u8).get(slot);
        let in_cards = dirs.cards.values().filter_map(|card| card.slots(0).get(slot));
        let mut places = place.into_iter().chain(in_cards);
        places.any(|place| self.has_agreed(Sa::Outbound(place.index)))
    }

    /// True if a keying protocol agreed on an SA, whether or not it leaves.
    fn is_agreed(&self, sa: Sa) -> bool {
        let client = match sa {
            Sa::Inbound(index) => self.inbound.get(index).map(|sa| sa.client),
            Sa::Outbound(index) => self.outbound.get(index).map(|sa| sa.client),
        };
        matches!(client, Some(Client::Keying(_)))
    }

    /// True if an SA is there that this client may use and drop.
    pub fn has_agreed(&self, sa: Sa) -> bool {
        let found = match sa {
            Sa::Inbound(index) => self.inbound.get(index).map(|sa| (sa.client, sa.leaves)),
            Sa::Outbound(index) => self.outbound.get(index).map(|sa| (sa.client, sa.leaves)),
        };
        matches!(found, Some((Client::Keying(_), false)))
    }

    /// True if an outbound SA is where it belongs.
    pub fn can_seal(&self, index: u32) -> bool {
        self.outbound.get(index).is_some_and(|sa| sa.is_installed)
    }

    /// Slot and SPI of an SA.
    pub fn slot_and_spi(&self, sa: Sa) -> Option<(u32, u32)> {
        match sa {
            Sa::Inbound(index) => self.inbound.get(index).map(|sa| (sa.slot, sa.spi)),
            Sa::Outbound(index) => self.outbound.get(index).map(|sa| (sa.slot, sa.spi)),
        }
    }

    /// The record out of which an outbound SA takes its numbers.
    pub fn record_of_sender(&self, index: u32) -> Option<[u8; 16]> {
        self.outbound.get(index)?.parts.first().map(|&(_, record)| record)
    }

    /// Records of all SAs.
    pub fn records(&self) -> impl Iterator<Item = [u8; 16]> {
        let outbound = self.outbound.iter().flat_map(|(_, sa)| sa.parts.iter().map(|part| part.1));
        self.inbound.iter().map(|(_, sa)| sa.record).chain(outbound)
    }
}

/// Refusal of an SA whose SPI leads to another one.
pub(crate) fn taken(spi: u32) -> Refused {
    Refused(format!("the SPI {spi:#010x} is another SA's"))
}
