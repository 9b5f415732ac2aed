//! Neighbour discovery: ARP for IPv4 (RFC 826, RFC 5227), NDP for IPv6 (RFC 4861, RFC
//! 4862), and the groups to which solicitations go (RFC 3810).
//!
//! ```text
//!   Waits, Keep ───▶ ┌──────────┐ ─▶ Set, Remove    the data path's table
//!   frames, answers ▶│ Discovery│ ─▶ Unreachable    packets that wait are lost
//!   time ──────────▶ └──────────┘ ─▶ frames
//! ```
//!
//! The core asks for neighbours, answers for the node's own addresses, announces them, and
//! detects duplicates. Packets that wait for a neighbour wait in the node. A neighbour that the
//! data path refuses to take is unreachable for a while: it is forgotten then, or asked anew if
//! a configuration names it.
//!
//! Not believed are: unsolicited answers, senders that are not on the link (for IPv6: a hop
//! limit other than 255), groups as link addresses, a claim to an address of this node. A
//! message of another host that asks for the node makes an entry, as both standards want;
//! it is probed after five seconds and gone after eight if no answer comes. Router
//! advertisements and redirects are refused: this is a router, configured by hand.
//!
//! Differences from the standards, both because the data path does not report its use of
//! neighbours: a stale neighbour is asked without waiting for traffic to it, and
//! reachability is not confirmed by upper layers.

pub mod config;
mod data_path;
pub mod event;
mod exchange;
pub mod fault;
pub mod state;
#[cfg(test)]
mod tests;
mod timer;

pub use config::Interface;
pub use event::{Command, Event, News, Order};
pub use fault::Fault;
pub use state::{Key, State};

use crate::{Core, Refused, Token};
use config::{ENTRIES_MAX, INCOMPLETE_MAX, PENDING_MAX, REFUSAL_TOLD, TRANSMITS_MAX, TRIES_MAX};
use data_path::DataPath;
use ferrule_base::{Instant, MacAddr};
use ferrule_wire::{EtherType, ethernet, vlan};
use state::Table;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use timer::Timer;

/// State of an own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    /// Not verified to be unique yet (IPv6).
    Tentative,
    /// In use by the node; to be announced so many times more.
    Announcing(u8),
    /// In use by the node, and announced.
    Settled,
    /// In use by another host before: the node does not answer for it.
    Duplicate,
}

/// The core.
#[derive(Debug, Default)]
pub struct Discovery {
    ifaces: BTreeMap<u16, Interface>,
    own: BTreeMap<Key, Own>,
    /// Time of the last defence of each address.
    defended: BTreeMap<Key, Instant>,
    /// Interfaces with a querier for groups; true if it speaks version 2.
    queried: BTreeMap<u16, bool>,
    table: Table,
    data_path: DataPath,
    /// Own questions and announcements.
    transmits: VecDeque<(u16, Vec<u8>)>,
    /// Answers to others, which wait for those.
    answers: VecDeque<(u16, Vec<u8>)>,
    news: VecDeque<News>,
    /// Time of the last news of a refusal.
    refusal_told: Option<Instant>,
}

impl Discovery {
    /// A core that knows no interface yet.
    pub fn new() -> Self {
        Self::default()
    }
}

/// Messages come from interfaces, and go to them: untagged, without padding.
impl Core for Discovery {
    type Source = u16;
    type Command = Command;
    type Event = Event;
    type Order = Order;
    type News = News;
    type Fault = Fault;

    /// A frame came in by an interface, with or without its VLAN tag.
    fn handle_message(&mut self, now: Instant, iface: u16, frame: &[u8]) -> Result<(), Fault> {
        if self.pending() >= PENDING_MAX {
            return Err(Fault::Busy);
        }
        let interface = self.ifaces.get(&iface).ok_or(Fault::Interface)?;
        let own = interface.mac;
        let (link, mut payload) = ethernet::Repr::parse(frame).map_err(|_| Fault::Malformed)?;
        let mut ethertype = link.ethertype;
        if ethertype.is_vlan() {
            let (tag, rest) = vlan::Repr::parse(payload).map_err(|_| Fault::Malformed)?;
            (ethertype, payload) = (tag.ethertype, rest);
        }
        if link.src == own || !is_station(link.src) {
            return Err(Fault::LinkAddress);
        }
        match ethertype {
            EtherType::ARP => self.arp(now, iface, payload),
            EtherType::IPV6 => self.discovery(now, iface, link.src, payload),
            _ => Err(Fault::Malformed),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        while self.pending() < PENDING_MAX
            && let Some(timer) = self.table.due(now)
        {
            match timer {
                Timer::Announce(key) => self.announce(now, key),
                Timer::Join(key) => self.join(key),
                Timer::Report(iface) => self.answer_query(iface),
                Timer::Answer(key)
                | Timer::Reachable(key)
                | Timer::Stale(key)
                | Timer::Again(key) => self.advance(now, key),
            }
        }
    }

    fn handle_command(&mut self, now: Instant, command: Command) {
        match command {
            Command::Interface(interface) => self.configure(now, interface),
            Command::Gone(iface) => self.gone(iface),
            Command::Carrier(iface) => self.carrier(now, iface),
            Command::Keep { iface, ip } => self.keep(now, (iface, ip)),
            Command::Release { iface, ip } => {
                self.table.keep((iface, ip), false);
                if self.table.state((iface, ip)) == Some(State::Failed) {
                    self.table.remove((iface, ip));
                }
            }
        }
    }

    fn handle_event(&mut self, now: Instant, event: Event) {
        let Event::Waits { iface, ip } = event;
        self.resolve(now, (iface, ip));
    }

    fn handle_answer(&mut self, now: Instant, token: Token, answer: Result<(), Refused>) {
        let refused = self.data_path.answered(token, answer.is_ok());
        if let (Some(key), Err(why)) = (refused, answer) {
            self.refused(now, key, why);
        }
    }

    fn poll_transmit(&mut self) -> Option<(u16, Vec<u8>)> {
        self.transmits.pop_front().or_else(|| self.answers.pop_front())
    }

    fn poll_order(&mut self) -> Option<(Token, Order)> {
        self.data_path.next(|key| self.table.state(key).and_then(State::mac))
    }

    fn poll_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.table.next().map(|(at, _)| at)
    }
}

impl Discovery {
    /// State of a neighbour, if it is known.
    pub fn state(&self, iface: u16, ip: IpAddr) -> Option<State> {
        self.table.state((iface, ip))
    }

    /// Neighbours in the table.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// No neighbour is known or asked for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Own IPv6 addresses that are not to be used, by interface: not yet
    /// ([`News::Unique`] tells of the end), or another has them.
    pub fn withheld(&self) -> impl Iterator<Item = (u16, Ipv6Addr)> + '_ {
        self.own.iter().filter_map(|(&key, own)| match (key, own) {
            ((iface, IpAddr::V6(ip)), Own::Tentative | Own::Duplicate) => Some((iface, ip)),
            _ => None,
        })
    }

    fn send(&mut self, iface: u16, frame: Vec<u8>) {
        if self.transmits.len() < TRANSMITS_MAX {
            self.transmits.push_back((iface, frame));
        }
    }

    fn answer(&mut self, iface: u16, frame: Vec<u8>) {
        if self.answers.len() < TRANSMITS_MAX {
            self.answers.push_back((iface, frame));
        }
    }

    fn tell(&mut self, news: News) {
        self.news.push_back(news);
    }

    /// Orders and news that the node has to do with.
    fn pending(&self) -> usize {
        self.data_path.pending() + self.news.len()
    }

    /// True if an address is the node's own, and free to be used.
    fn is_ours(&self, key: Key) -> bool {
        matches!(self.own.get(&key), Some(Own::Announcing(_) | Own::Settled))
    }

    // ---- neighbours --------------------------------------------------------

    /// A packet waits.
    fn resolve(&mut self, now: Instant, key: Key) {
        match self.table.state(key) {
            Some(State::Incomplete(_)) => {}
            Some(State::Failed) => self.ask_first(now, key, true),
            // The node asked before it heard.
            Some(State::Reachable(_) | State::Stale(_) | State::Probe(..)) => {
                self.data_path.change(key);
            }
            None if self.table.incomplete() < INCOMPLETE_MAX && self.may_ask(key) => {
                self.ask_first(now, key, false);
            }
            Some(State::Refused) | None => self.unreachable(key),
        }
    }

    /// A configuration names the neighbour.
    fn keep(&mut self, now: Instant, key: Key) {
        match self.table.state(key) {
            Some(_) => self.table.keep(key, true),
            None if self.may_ask(key) => self.ask_first(now, key, true),
            None => self.unreachable(key),
        }
    }

    /// Neighbours are forgotten: without a carrier none is reached, and others may be there when
    /// it comes back.
    fn carrier(&mut self, now: Instant, iface: u16) {
        for key in self.table.keys(iface) {
            let kept = self.table.is_kept(key);
            self.forget(key);
            if kept {
                self.ask_first(now, key, true);
            }
        }
    }

    /// True if the address can be a neighbour's, and the table has room.
    fn may_ask(&mut self, key: Key) -> bool {
        let host = self.ifaces.get(&key.0).is_some_and(|i| i.is_host(key.1));
        host && !self.own.contains_key(&key) && self.make_room()
    }

    /// Room for a neighbour that is needed, at the cost of one that is not.
    fn make_room(&mut self) -> bool {
        if self.table.len() < ENTRIES_MAX {
            return true;
        }
        let Some(key) = self.table.dispensable() else { return false };
        self.forget(key);
        true
    }

    fn ask_first(&mut self, now: Instant, key: Key, kept: bool) {
        self.table.put(now, key, State::Incomplete(1), kept);
        self.ask(key, None);
    }

    /// A neighbour's timer is due.
    fn advance(&mut self, now: Instant, key: Key) {
        let Some(state) = self.table.state(key) else { return };
        let kept = self.table.is_kept(key);
        let next = match state {
            State::Incomplete(tries) if tries < TRIES_MAX => State::Incomplete(tries + 1),
            State::Probe(mac, tries) if tries < TRIES_MAX => State::Probe(mac, tries + 1),
            State::Reachable(mac) => State::Stale(mac),
            State::Stale(mac) => State::Probe(mac, 1),
            State::Failed => State::Incomplete(1),
            State::Refused if kept => State::Incomplete(1),
            State::Refused => {
                // A packet that needs it asks for it again.
                self.table.remove(key);
                return;
            }
            State::Incomplete(_) | State::Probe(..) => return self.lost(now, key),
        };
        self.table.put(now, key, next, kept);
        match next {
            State::Incomplete(_) => self.ask(key, None),
            State::Probe(mac, _) => self.ask(key, Some(mac)),
            _ => {}
        }
    }

    /// A neighbour did not answer.
    fn lost(&mut self, now: Instant, key: Key) {
        let kept = self.table.is_kept(key);
        if self.table.remove(key).is_some_and(|state| state.mac().is_some()) {
            self.data_path.change(key);
        }
        self.unreachable(key);
        if kept {
            self.table.put(now, key, State::Failed, true);
        }
    }

    /// A neighbour has no place here any more.
    fn forget(&mut self, key: Key) {
        let Some(state) = self.table.remove(key) else { return };
        let is_settled = self.data_path.is_settled(key);
        if state.mac().is_some() {
            self.data_path.change(key);
        }
        // Packets may wait for an answer that does not come any more.
        if !is_settled {
            self.unreachable(key);
        }
    }

    /// A neighbour's link address was heard: takes it over in this state.
    fn learn(&mut self, now: Instant, key: Key, state: State) {
        let old = self.table.state(key);
        if old == Some(State::Refused) {
            return;
        }
        let kept = self.table.is_kept(key);
        self.table.put(now, key, state, kept);
        if old.and_then(State::mac) != state.mac() {
            self.data_path.change(key);
        }
    }

    /// The data path did not take a neighbour: it is of no use for a while, nor is a link address
    /// that the data path has from before.
    fn refused(&mut self, now: Instant, key: Key, Refused(why): Refused) {
        if self.table.state(key).and_then(State::mac).is_none() {
            return;
        }
        self.table.put(now, key, State::Refused, self.table.is_kept(key));
        self.data_path.change(key);
        self.unreachable(key);
        if self.refusal_told.is_none_or(|told| now.since(told) >= REFUSAL_TOLD) {
            self.refusal_told = Some(now);
            self.tell(News::Refused { iface: key.0, ip: key.1, why });
        }
    }

    fn unreachable(&mut self, (iface, ip): Key) {
        self.tell(News::Unreachable { iface, ip });
    }
}

/// True if a link address can be one station's.
fn is_station(mac: MacAddr) -> bool {
    !mac.is_group() && mac != MacAddr::ZERO
}
