//! Neighbours: carries the sans-I/O core's messages to and from the workers, its orders into
//! the table of neighbours, and holds the packets that wait for an answer.
//!
//! ```text
//!   worker ── ARP, ND ──────────▶ core ── frames ──▶ worker (Emit)
//!                                   └──── orders ──▶ table, and answers at once
//!   worker ── no address yet ──▶ waiting ─── set ────▶ worker (Output)
//!                                   └── unreachable ──▶ worker (IcmpError)
//! ```

use crate::config::Config;
use crate::incident::Incident;
use crate::punt::{Class, Exchange};
use crate::stable::Numbers;
use crate::turn::{Carrier, TurnBounds, turn};
use ferrule_base::{DropReason, Instant, MacAddr, VrfId};
use ferrule_control::neighbour::config::{KEPT_MAX, PENDING_MAX};
use ferrule_control::neighbour::{self, Discovery, Event, News, Order, State};
use ferrule_control::{Core, Refused, Token};
use ferrule_dataplane::graph::Next;
use ferrule_dataplane::tables::IfaceKind;
use ferrule_dataplane::{Tables, link, route};
use ferrule_pipeline::Packet;
use ferrule_wire::EtherType;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::net::{IpAddr, Ipv6Addr};

/// Packets that wait for neighbours at most.
const WAITING_MAX: usize = 256;

/// Packets that wait for one neighbour at most; then the oldest goes.
const WAITING_EACH_MAX: usize = 16;

/// Bounds of one turn: all orders, which are done when they are taken, and some messages.
const BOUNDS: TurnBounds = TurnBounds { orders: PENDING_MAX, messages: 64 };

struct Waiting {
    iface: u16,
    ip: IpAddr,
    worker: usize,
    packet: Packet,
}

/// The neighbour core between the workers.
pub(crate) struct Resolver {
    core: Discovery,
    known: BTreeMap<(u16, IpAddr), MacAddr>,
    /// Interfaces, as the core knows them.
    interfaces: BTreeMap<u16, neighbour::Interface>,
    kept: Vec<(u16, IpAddr)>,
    waiting: VecDeque<Waiting>,
    /// Own addresses out of use, by interface, each with its table.
    withheld: BTreeMap<(u16, Ipv6Addr), VrfId>,
    incidents: Vec<Incident>,
}

impl Resolver {
    pub fn new() -> Self {
        Self {
            core: Discovery::new(),
            known: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            kept: Vec::new(),
            waiting: VecDeque::with_capacity(WAITING_MAX),
            withheld: BTreeMap::new(),
            incidents: Vec::new(),
        }
    }

    /// Tells the core which interfaces there are, and which neighbours the
    /// configuration names.
    pub fn configure(
        &mut self,
        now: Instant,
        config: &Config,
        tables: &Tables,
        ifaces: &Numbers,
        next_hops: &[Option<IpAddr>],
    ) {
        let mut interfaces = BTreeMap::new();
        for interface in &config.interfaces {
            let Some(id) = ifaces.get(&interface.name) else { continue };
            let Some(IfaceKind::Routed(routed)) = tables.ifaces.get(id).map(|i| &i.kind) else {
                continue;
            };
            let (v4, v6) = (routed.v4.clone(), routed.v6.clone());
            let told = neighbour::Interface { id: id as u16, mac: routed.mac, v4, v6 };
            if self.interfaces.get(&told.id) != Some(&told) {
                self.core.handle_command(now, neighbour::Command::Interface(told.clone()));
            }
            interfaces.insert(told.id, told);
        }
        // Further next hops are asked for when packets wait for them, as any neighbour is.
        let named = tables.adjacencies.iter().zip(next_hops);
        let named = named.filter_map(|(a, hop)| Some((a.iface, (*hop)?)));
        let mut seen = HashSet::new();
        let kept: Vec<_> = named.filter(|&hop| seen.insert(hop)).take(KEPT_MAX).collect();
        let new: HashSet<_> = kept.iter().collect();
        for &(iface, ip) in self.kept.iter().filter(|k| !new.contains(k)) {
            self.core.handle_command(now, neighbour::Command::Release { iface, ip });
        }
        let old: HashSet<_> = self.kept.iter().collect();
        for &(iface, ip) in kept.iter().filter(|k| !old.contains(k)) {
            self.core.handle_command(now, neighbour::Command::Keep { iface, ip });
        }
        for &gone in self.interfaces.keys().filter(|&id| !interfaces.contains_key(id)) {
            self.core.handle_command(now, neighbour::Command::Gone(gone));
        }
        (self.interfaces, self.kept) = (interfaces, kept);
        self.withhold(tables);
    }

    /// Takes own addresses out of use that the core has not found to be ours alone.
    fn withhold(&mut self, tables: &Tables) {
        let withheld = self.core.withheld().filter_map(|(iface, ip)| {
            let IfaceKind::Routed(routed) = &tables.ifaces.get(iface as usize)?.kind else {
                return None;
            };
            Some(((iface, ip), routed.vrf))
        });
        let old = std::mem::replace(&mut self.withheld, withheld.collect());
        for (&(iface, ip), &vrf) in
            old.iter().filter(|(own, vrf)| self.withheld.get(own) != Some(vrf))
        {
            tables.withheld.release(iface, vrf, ip);
        }
        for (&(iface, ip), &vrf) in &self.withheld {
            if !tables.withheld.withhold(iface, vrf, ip) {
                let iface = name(tables, iface);
                let what = format!("{ip} on interface {iface} is used before it is checked");
                self.incidents.push(Incident::Other(what));
            }
        }
    }

    /// Forgets the neighbours behind these interfaces: they are found anew, once the
    /// interfaces are [configured](Self::configure) again.
    pub fn forget(&mut self, now: Instant, ifaces: &[u16]) {
        for &iface in ifaces {
            self.core.handle_command(now, neighbour::Command::Gone(iface));
        }
        self.interfaces.retain(|iface, _| !ifaces.contains(iface));
        self.kept.retain(|(iface, _)| !ifaces.contains(iface));
    }

    /// The carrier of these interfaces went or came.
    pub fn carrier_changed(&mut self, now: Instant, ifaces: &[u16]) {
        for &iface in ifaces {
            self.core.handle_command(now, neighbour::Command::Carrier(iface));
        }
    }

    /// Takes a message of a neighbour.
    pub fn handle_message(&mut self, now: Instant, packet: Packet, exchange: &mut Exchange) {
        match self.core.handle_message(now, packet.meta().iface, packet.data()) {
            Ok(()) => exchange.consume(packet),
            Err(fault) => exchange.drop(packet, fault.drop_reason()),
        }
    }

    /// Takes a packet of a worker that waits for its next hop.
    pub fn handle_waiting(
        &mut self,
        now: Instant,
        worker: usize,
        packet: Packet,
        (tables, next_hops): (&Tables, &[Option<IpAddr>]),
        exchange: &mut Exchange,
    ) {
        let target = packet.meta().adjacency as usize;
        let way = tables.adjacencies.get(target).zip(next_hops.get(target));
        let wanted = way.and_then(|(adjacency, next_hop)| {
            Some((adjacency.iface, next_hop.or_else(|| destination(&packet))?))
        });
        let Some((iface, ip)) = wanted else {
            return exchange.drop(packet, DropReason::NoNeighbour);
        };
        self.core.handle_event(now, Event::Waits { iface, ip });
        self.look_for(iface, ip, tables);
        self.make_room(iface, ip, exchange);
        self.waiting.push_back(Waiting { iface, ip, worker, packet });
    }

    /// Lets an answer of a neighbour for which the core asks come apart from those of strangers.
    fn look_for(&self, iface: u16, ip: IpAddr, tables: &Tables) {
        if matches!(self.core.state(iface, ip), Some(State::Incomplete(_))) {
            tables.neighbours.look_for(iface, ip);
        }
    }

    fn make_room(&mut self, iface: u16, ip: IpAddr, exchange: &mut Exchange) {
        let same = |w: &Waiting| (w.iface, w.ip) == (iface, ip);
        let oldest = if self.waiting.iter().filter(|w| same(w)).count() >= WAITING_EACH_MAX {
            self.waiting.iter().position(same)
        } else if self.waiting.len() >= WAITING_MAX {
            Some(0)
        } else {
            None
        };
        if let Some(gone) = oldest.and_then(|i| self.waiting.remove(i)) {
            exchange.drop(gone.packet, Class::Waiting.full());
        }
    }

    /// Timers, orders and messages of the core.
    pub fn turn(&mut self, now: Instant, tables: &Tables, exchange: &mut Exchange) -> usize {
        turn(&mut Resolving { resolver: self, tables, exchange }, now, BOUNDS)
    }

    /// Packets that waited for a neighbour go on.
    fn release(&mut self, iface: u16, ip: IpAddr, exchange: &mut Exchange) {
        self.no_longer_wait(iface, ip, |w| {
            exchange.inject(w.worker, Next::Output, w.packet);
        });
    }

    /// Packets that waited for a neighbour in vain: the sender of each is told.
    fn give_up(&mut self, iface: u16, ip: IpAddr, exchange: &mut Exchange) {
        self.no_longer_wait(iface, ip, |mut w| match route::unanswered(&mut w.packet) {
            Some(next) => exchange.inject(w.worker, next, w.packet),
            None => exchange.drop(w.packet, DropReason::NoNeighbour),
        });
    }

    fn no_longer_wait(&mut self, iface: u16, ip: IpAddr, mut what: impl FnMut(Waiting)) {
        for _ in 0..self.waiting.len() {
            let Some(w) = self.waiting.pop_front() else { return };
            if (w.iface, w.ip) == (iface, ip) {
                what(w);
            } else {
                self.waiting.push_back(w);
            }
        }
    }

    /// Time of the core's next timer.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.core.poll_timeout()
    }

    /// Packets that wait for a neighbour.
    pub fn held(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Every known neighbour.
    pub fn neighbours(&self, tables: &Tables) -> Vec<(String, IpAddr, MacAddr)> {
        let known = self.known.iter();
        known.map(|(&(iface, ip), &mac)| (name(tables, iface).to_owned(), ip, mac)).collect()
    }

    /// Incidents since the last call.
    pub fn take_incidents(&mut self) -> Vec<Incident> {
        std::mem::take(&mut self.incidents)
    }
}

/// The resolver in its turn, with the parts of the node that it needs for that.
struct Resolving<'a> {
    resolver: &'a mut Resolver,
    tables: &'a Tables,
    exchange: &'a mut Exchange,
}

impl Carrier for Resolving<'_> {
    type Of = Discovery;

    fn core(&mut self) -> &mut Discovery {
        &mut self.resolver.core
    }

    fn order(&mut self, _: Token, order: Order) -> Option<Result<(), Refused>> {
        let (table, known) = (&self.tables.neighbours, &mut self.resolver.known);
        match order {
            Order::Set { iface, ip, mac } => {
                let is_there = self.tables.ifaces.get(iface as usize);
                if !is_there.is_some_and(|i| matches!(i.kind, IfaceKind::Routed(_))) {
                    return Some(Err(Refused("the interface is gone".into())));
                }
                if !table.set(iface, ip, mac) {
                    let why = "the table of neighbours has no room where it belongs";
                    return Some(Err(Refused(why.into())));
                }
                known.insert((iface, ip), mac);
                self.resolver.release(iface, ip, self.exchange);
            }
            Order::Remove { iface, ip } => {
                known.remove(&(iface, ip));
                table.remove(iface, ip);
                self.resolver.look_for(iface, ip, self.tables);
            }
        }
        Some(Ok(()))
    }

    fn transmit(&mut self, iface: u16, frame: &[u8]) {
        send(iface, frame, self.tables, self.exchange);
    }

    fn news(&mut self, news: News) {
        let what = match news {
            News::Unreachable { iface, ip } => {
                self.tables.neighbours.give_up(iface, ip);
                self.resolver.look_for(iface, ip, self.tables);
                return self.resolver.give_up(iface, ip, self.exchange);
            }
            News::Unique { iface, ip } => {
                if let Some(vrf) = self.resolver.withheld.remove(&(iface, ip)) {
                    self.tables.withheld.release(iface, vrf, ip);
                }
                return;
            }
            News::Duplicate { iface, ip } => {
                format!("somebody else uses {ip} on interface {}", name(self.tables, iface))
            }
            News::Refused { iface, ip, why } => {
                let iface = name(self.tables, iface);
                format!("neighbour {ip} on interface {iface} cannot be sent to: {why}")
            }
        };
        self.resolver.incidents.push(Incident::Other(what));
    }
}

/// The name of an interface.
fn name(tables: &Tables, iface: u16) -> &str {
    tables.ifaces.get(iface as usize).map_or("?", |i| &*i.name)
}

/// A message of the core, with the interface's tag, to the port's worker.
fn send(iface: u16, frame: &[u8], tables: &Tables, exchange: &mut Exchange) -> Option<()> {
    let interface = tables.ifaces.get(iface as usize)?;
    let port = tables.ports.get(interface.port.0 as usize)?;
    let mut packet = exchange.make(frame)?;
    packet.meta_mut().port = interface.port;
    packet.meta_mut().iface = iface;
    match link::tag_out(interface, 0, &mut packet) {
        Ok(()) => exchange.inject(port.owner.into(), Next::Emit, packet),
        Err(reason) => exchange.drop(packet, reason),
    }
    Some(())
}

/// The destination of a packet at [`Next::Output`] without labels.
fn destination(packet: &Packet) -> Option<IpAddr> {
    let (data, ethertype) = (packet.data(), EtherType(packet.meta().ethertype));
    if ethertype == EtherType::IPV4 {
        let octets: [u8; 4] = data.get(16..20)?.try_into().ok()?;
        Some(octets.into())
    } else if ethertype == EtherType::IPV6 {
        let octets: [u8; 16] = data.get(24..40)?.try_into().ok()?;
        Some(octets.into())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_pipeline::Pool;

    /// The core knows an interface that the tables have not.
    #[test]
    fn neighbour_of_an_interface_that_is_gone_is_refused_and_told() {
        let (mut resolver, tables) = (Resolver::new(), Tables::default());
        let mut exchange = Exchange::new(Pool::heap(16, 2048).cache(), Vec::new());
        let (now, mac) = (Instant::from_secs(1), MacAddr([2, 0, 0, 0, 0, 1]));
        let v4 = vec![([10, 0, 0, 1].into(), 24)];
        let interface = neighbour::Interface { id: 3, mac, v4, v6: Vec::new() };
        resolver.core.handle_command(now, neighbour::Command::Interface(interface));
        let (host, ip) = ([2, 0, 0, 0, 0, 9], IpAddr::from([10, 0, 0, 9]));
        let arp = [0, 1, 8, 0, 6, 4, 0, 1];
        let frame = [&mac.0[..], &host, &[8, 6], &arp, &host, &[10, 0, 0, 9], &[0; 6]].concat();
        let frame = [&frame[..], &[10, 0, 0, 1]].concat();
        resolver.core.handle_message(now, 3, &frame).unwrap();
        assert!(resolver.turn(now, &tables, &mut exchange) > 0);
        let told = resolver.take_incidents();
        let gone = "neighbour 10.0.0.9 on interface ? cannot be sent to: the interface is gone";
        assert_eq!(told, [Incident::Other(gone.into())]);
        assert_eq!(resolver.core.state(3, ip), Some(neighbour::State::Refused));
        assert!(resolver.neighbours(&tables).is_empty());
        assert_eq!(tables.neighbours.find(3, ip), None);
    }
}
