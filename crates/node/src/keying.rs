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
use crate::control::Link;
use crate::incident::Incident;
use crate::message::{Change, Command};
use crate::punt::Exchange;
use ferrule_base::{DropReason, Instant, MacAddr, PortId};
use ferrule_control::mka::Kay;
use ferrule_control::mka::view::View;
use ferrule_control::{Entropy, Refused, Token};
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
    incidents: Vec<Incident>,
}

impl Keying {
    pub fn new(entropy: Box<dyn Entropy>) -> Self {
        let (ports, orders) = (BTreeMap::new(), BTreeMap::new());
        Self { entropy, ports, orders, last: 0, incidents: Vec::new() }
    }

    /// Follows the configuration: entities come and go with their SecYs, CAKs with theirs. One
    /// that is configured otherwise begins anew.
    pub fn configure(
        &mut self,
        now: Instant,
        config: &Config,
        ids: &[PortId],
        macs: &[MacAddr],
        links: &mut [Link],
    ) {
        let mut old = std::mem::take(&mut self.ports);
        for secy in &config.secys {
            let (Some(mka), id) = (&secy.mka, ids[secy.port]) else { continue };
            let sci = secy.sci.unwrap_or(default_sci(macs[secy.port]));
            let worker = config.ports[secy.port].worker;
            let mut keyed = match old.remove(&id) {
                Some(keyed) if keyed.is_of(secy, sci, worker) => keyed,
                other => {
                    other.into_iter().for_each(|old| self.end(&old, links));
                    let core = Kay::new(port::core_config(secy, mka, sci), self.entropy.fork());
                    let name = config.ports[secy.port].name.clone();
                    Keyed::new(id, name, worker, core, (secy, mka), sci)
                }
            };
            keyed.follow_caks(now, mka);
            self.ports.insert(id, keyed);
        }
    }

    /// Gives up entities of ports that another configuration does not key: what their SecYs have
    /// goes with them.
    pub fn leave(&mut self, config: &Config) {
        let is_keyed = |name: &str| {
            let of_port = config.secys.iter().find(|secy| config.ports[secy.port].name == name);
            of_port.is_some_and(|secy| secy.mka.is_some())
        };
        self.ports.retain(|_, keyed| is_keyed(&keyed.name));
        self.orders.retain(|_, (port, _)| self.ports.contains_key(port));
    }

    /// Has a SecY, which stays, forget its SAKs. Orders under way are answered to nobody.
    fn end(&mut self, keyed: &Keyed, links: &mut [Link]) {
        self.orders.retain(|_, (port, _)| *port != keyed.id);
        for changes in keyed.ending() {
            send(keyed.worker, Token(0), changes, links);
        }
    }

    /// Takes a frame from a port.
    pub fn handle_message(&mut self, now: Instant, packet: Packet, exchange: &mut Exchange) {
        let heard = self.ports.get_mut(&packet.meta().port);
        match heard.map(|keyed| keyed.core.handle_message(now, packet.data())) {
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

    /// An association has few numbers left before it is time for another SAK.
    pub fn low_on_numbers(&mut self, now: Instant, secy: u16, an: u8) {
        if let Some(keyed) = self.ports.get_mut(&PortId(secy)) {
            let pending = keyed.pn_pending();
            keyed.next_pn(now, an, pending);
        }
    }

    /// Timers, orders and messages of the cores.
    pub fn turn(&mut self, now: Instant, links: &mut [Link], exchange: &mut Exchange) -> usize {
        let mut done = 0;
        let mut ports = std::mem::take(&mut self.ports);
        for (&id, keyed) in &mut ports {
            if keyed.core.poll_timeout().is_some_and(|due| due <= now) {
                keyed.core.handle_timeout(now);
            }
            for _ in 0..TURN_MAX {
                let Some((token, changes)) = keyed.poll_order() else { break };
                let own = token.map_or(Token(0), |token| self.next_token(id, token));
                send(keyed.worker, own, changes, links);
                done += 1;
            }
            for _ in 0..TURN_MAX {
                let Some(frame) = keyed.core.poll_transmit() else { break };
                done += 1;
                let Some(mut packet) = exchange.make(&frame) else { continue };
                packet.meta_mut().port = id;
                exchange.inject(links, keyed.worker, Next::Transmit, packet);
            }
            while let Some(news) = keyed.core.poll_news() {
                self.incidents.push(Incident::Mka { port: keyed.name.clone(), news });
            }
        }
        self.ports = ports;
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
        self.ports.values().filter_map(|keyed| keyed.core.poll_timeout()).min()
    }

    /// Whether peers want to hear of packet numbers more often (bounded delay).
    pub fn bounds_delay(&self) -> bool {
        self.ports.values().any(|keyed| keyed.delay_protect)
    }

    /// State of the entities, by the name of their port.
    pub fn views(&self) -> impl Iterator<Item = (&str, View)> {
        self.ports.values().map(|keyed| (&*keyed.name, keyed.core.view()))
    }

    /// What happened since this was asked last.
    pub fn take_incidents(&mut self) -> Vec<Incident> {
        std::mem::take(&mut self.incidents)
    }
}

/// Sends changes, which come behind all that was sent before.
fn send(worker: usize, token: Token, changes: Vec<Change>, links: &mut [Link]) {
    if let Some(link) = links.get_mut(worker) {
        link.send(Command::Order(token, changes));
    }
}
