//! MKA: carries the sans-I/O core's messages and orders between it and the workers.
//!
//! ```text
//!   worker ── EAPOL ──────────▶ Kay ── MKPDUs ─▶ worker (Transmit, past the SecY)
//!   worker ── done, refused ──▶  │
//!   worker ── next PN ────────▶  └── orders ───▶ worker: changes of the port's SecY
//! ```
//!
//! A SAK is nowhere but in the memory of core and SecY: after a restart there is another one,
//! so its packet numbers need no record.

mod port;

use crate::compile::default_sci;
use crate::config::Config;
use crate::incident::Incident;
use crate::message::Command;
use crate::punt::Exchange;
use crate::turn::{Carrier, TurnBounds, turn};
use ferrule_base::{DropReason, Instant, MacAddr, PortId};
use ferrule_control::mka::config::{BOUNDED_HELLO, HELLO};
use ferrule_control::mka::view::View;
use ferrule_control::mka::{Kay, News, Order};
use ferrule_control::{Core, Entropy, Refused, Token};
use ferrule_dataplane::graph::Next;
use ferrule_pipeline::Packet;
use port::Keyed;
use std::collections::BTreeMap;

/// Messages and orders of one port in one turn at most.
const TURN_MAX: usize = 64;

/// The MKA entities of a node, by port.
pub(crate) struct Keying {
    entropy: Box<dyn Entropy>,
    ports: BTreeMap<PortId, Keyed>,
    /// Orders under way: of which port, and the token that its core knows.
    orders: BTreeMap<Token, (PortId, Token)>,
    last: u64,
    /// When workers are asked how far packet numbers are.
    pns_due: Instant,
    incidents: Vec<Incident>,
}

impl Keying {
    pub fn new(entropy: Box<dyn Entropy>) -> Self {
        let (ports, orders) = (BTreeMap::new(), BTreeMap::new());
        let (pns_due, incidents) = (Instant::ZERO, Vec::new());
        Self { entropy, ports, orders, last: 0, pns_due, incidents }
    }

    /// Follows the configuration: entities come and go with their SecYs, and change with them.
    pub fn configure(&mut self, now: Instant, config: &Config, ids: &[PortId], macs: &[MacAddr]) {
        let mut old = std::mem::take(&mut self.ports);
        for secy in &config.secys {
            let (Some(mka), id) = (&secy.mka, ids[secy.port]) else { continue };
            let sci = secy.sci.unwrap_or(default_sci(macs[secy.port]));
            let worker = config.ports[secy.port].worker;
            let name = &config.ports[secy.port].name;
            let mut keyed = old.remove(&id).unwrap_or_else(|| {
                Keyed::new(id, name.clone(), worker, (secy, mka), sci, self.entropy.fork())
            });
            keyed.follow(now, name, secy, mka);
            self.ports.insert(id, keyed);
        }
    }

    /// Gives up entities that another configuration has not, or otherwise, before anything else
    /// of it is done. Nothing passes under their SAKs from then on, and nothing in clear; their
    /// orders under way are answered to nobody.
    pub fn leave(
        &mut self,
        config: &Config,
        ids: &[PortId],
        macs: &[MacAddr],
        exchange: &Exchange,
    ) {
        self.ports.retain(|id, keyed| {
            let stays = config.secys.iter().any(|secy| {
                let sci = secy.sci.unwrap_or(default_sci(macs[secy.port]));
                ids[secy.port] == *id && keyed.is_of(secy, sci, config.ports[secy.port].worker)
            });
            if !stays {
                for changes in keyed.ending() {
                    exchange.send(keyed.worker, Command::Order(Token(0), changes));
                }
            }
            stays
        });
        self.orders.retain(|_, (port, _)| self.ports.contains_key(port));
    }

    /// Takes a frame from a port.
    pub fn handle_message(&mut self, now: Instant, packet: Packet, exchange: &mut Exchange) {
        let heard = self.ports.get_mut(&packet.meta().port);
        match heard.map(|keyed| keyed.core.handle_message(now, (), packet.data())) {
            Some(Ok(())) => exchange.consume(packet),
            Some(Err(_)) => exchange.drop(packet, DropReason::MkaRefused),
            None => exchange.drop(packet, DropReason::UnknownProtocol),
        }
    }

    /// A worker answers an order.
    pub fn done(&mut self, now: Instant, token: Token, done: Result<(), Refused>) {
        let Some((port, token)) = self.orders.remove(&token) else { return };
        if let Some(keyed) = self.ports.get_mut(&port) {
            keyed.done(now, token, done);
        }
    }

    /// A worker says how far the packet numbers of an association are.
    pub fn next_pn(&mut self, now: Instant, secy: u16, an: u8, pn: u64) {
        if let Some(keyed) = self.ports.get_mut(&PortId(secy)) {
            keyed.next_pn(now, an, pn);
        }
    }

    /// Timers, orders and messages of the cores.
    pub fn turn(&mut self, now: Instant, exchange: &mut Exchange) -> usize {
        let mut done = 0;
        let mut ports = std::mem::take(&mut self.ports);
        for keyed in ports.values_mut() {
            // Before all orders: they undo what was refused.
            let mut unasked = 0;
            while unasked < TURN_MAX
                && let Some(changes) = keyed.poll_unasked()
            {
                exchange.send(keyed.worker, Command::Order(Token(0), changes));
                unasked += 1;
            }
            let bounds = TurnBounds { orders: TURN_MAX - unasked, messages: TURN_MAX };
            let keying = &mut *self;
            done += unasked + turn(&mut PortTurn { keying, keyed, exchange }, now, bounds);
        }
        self.ports = ports;
        if now >= self.pns_due && !self.ports.is_empty() {
            let bounded = self.ports.values().any(Keyed::is_bounded);
            self.pns_due = now + if bounded { BOUNDED_HELLO } else { HELLO };
            exchange.ask(|| Command::NextPns);
        }
        done
    }

    /// A token for an order of a port.
    fn next_token(&mut self, port: PortId, of_core: Token) -> Token {
        self.last += 1;
        self.orders.insert(Token(self.last), (port, of_core));
        Token(self.last)
    }

    /// When [`turn`](Self::turn) is needed next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let pns_due = (!self.ports.is_empty()).then_some(self.pns_due);
        let cores = self.ports.values().filter_map(|keyed| keyed.core.poll_timeout());
        cores.chain(pns_due).min()
    }

    /// State of the entities, by the name of their port.
    pub fn views(&self) -> impl Iterator<Item = (&str, View)> {
        self.ports.values().map(|keyed| (&*keyed.name, keyed.core.view()))
    }

    /// News since the last call.
    pub fn take_incidents(&mut self) -> Vec<Incident> {
        std::mem::take(&mut self.incidents)
    }
}

/// A port in its turn, with what it needs for that.
struct PortTurn<'a> {
    keying: &'a mut Keying,
    keyed: &'a mut Keyed,
    exchange: &'a mut Exchange,
}

impl Carrier for PortTurn<'_> {
    type Of = Kay;

    fn core(&mut self) -> &mut Kay {
        &mut self.keyed.core
    }

    /// The port's worker answers.
    fn order(&mut self, token: Token, order: Order) -> Option<Result<(), Refused>> {
        let own = self.keying.next_token(self.keyed.id, token);
        let changes = self.keyed.obey(token, order);
        self.exchange.send(self.keyed.worker, Command::Order(own, changes));
        None
    }

    fn transmit(&mut self, (): (), frame: &[u8]) {
        if let Some(mut packet) = self.exchange.make(frame) {
            packet.meta_mut().port = self.keyed.id;
            self.exchange.inject(self.keyed.worker, Next::TransmitFirst, packet);
        }
    }

    fn news(&mut self, news: News) {
        self.keying.incidents.push(Incident::Mka { port: self.keyed.name.clone(), news });
    }
}
