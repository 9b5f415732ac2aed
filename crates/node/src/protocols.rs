//! Control protocols of a node: neighbours, MKA, packets that wait for SAs, datagrams of programs.
//!
//! ```text
//!   workers ── packets by class, answers ─▶ protocols ── packets, orders ─▶ workers
//!                                             │   ▲
//!                       incidents, acquires   ▼   │  configuration, tables
//!                                         control part
//! ```
//!
//! They are apart from the control part, so that a driver may give them a thread: then no
//! compilation of large tables, no report and no slow disk delays their timers. Without one,
//! [`Control::turn`](crate::Control::turn) turns them.

pub(crate) mod datagrams;

use crate::acquire::Acquires;
use crate::commands::Commands;
use crate::config::Config;
use crate::incident::Incident;
use crate::keying::Keying;
use crate::message::{Event, RING};
use crate::punt::{BUDGET, Class, Exchange, Punted};
use crate::resolve::Resolver;
use datagrams::Datagrams;
use ferrule_base::{Instant, MacAddr, PortId};
use ferrule_control::Entropy;
use ferrule_dataplane::Tables;
use ferrule_dataplane::graph::Next;
use ferrule_dataplane::ipsec::SaDirectory;
use ferrule_pipeline::{Packet, PoolCache};
use rtrb::Consumer;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The control protocols of a node, which one thread turns at a time.
#[derive(Clone)]
pub struct Protocols(Arc<Mutex<Cores>>);

/// Outcome of a turn of the control protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolTurn {
    /// Messages, orders and answers of this turn.
    pub done: usize,
    /// Time of the next necessary turn.
    pub due: Option<Instant>,
    /// True if there is something for the control part.
    pub has_news: bool,
}

/// Queues from one worker to the control protocols.
pub(crate) struct Heard {
    pub events: Consumer<Event>,
    pub punted: Punted,
}

impl Heard {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.punted.is_empty()
    }
}

/// The cores, and what they share.
pub(crate) struct Cores {
    workers: Vec<Heard>,
    pub exchange: Exchange,
    pub resolver: Resolver,
    pub keying: Keying,
    pub acquires: Acquires,
    pub datagrams: Datagrams,
    /// Input of the resolver: the tables that workers have, or are about to have, and the next
    /// hop of each adjacency.
    pub resolved: (Arc<Tables>, Vec<Option<IpAddr>>),
    /// Slots that have SAs.
    slots: Arc<SaDirectory>,
    /// Slots for which SAs are asked, each with the first octets of the packet that asks.
    asked: Vec<(u32, Vec<u8>)>,
    incidents: Vec<Incident>,
    messages: u64,
    tasks: u64,
}

impl Protocols {
    pub(crate) fn new(
        workers: Vec<(Heard, Commands)>,
        cache: PoolCache,
        entropy: Box<dyn Entropy>,
        resolved: (Arc<Tables>, Vec<Option<IpAddr>>),
        slots: Arc<SaDirectory>,
    ) -> Self {
        let (workers, commands): (Vec<_>, Vec<_>) = workers.into_iter().unzip();
        Self(Arc::new(Mutex::new(Cores {
            workers,
            exchange: Exchange::new(cache, commands),
            resolver: Resolver::new(),
            keying: Keying::new(entropy),
            acquires: Acquires::default(),
            datagrams: Datagrams::default(),
            resolved,
            slots,
            asked: Vec::new(),
            incidents: Vec::new(),
            messages: 0,
            tasks: 0,
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Cores> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends MKA entities that another configuration does not have, or has with other parameters,
    /// before anything else of it is done.
    pub(crate) fn leave(&self, config: &Config, ids: &[PortId], macs: &[MacAddr]) {
        let cores = &mut *self.lock();
        cores.keying.leave(config, ids, macs, &cores.exchange);
    }

    /// Does what is due: messages, orders, timers.
    pub fn turn(&self, now: Instant) -> ProtocolTurn {
        let cores = &mut *self.lock();
        let done = cores.turn(now);
        ProtocolTurn { done, due: cores.poll_timeout(), has_news: cores.has_news() }
    }
}

impl Cores {
    fn turn(&mut self, now: Instant) -> usize {
        let (mut done, mut heard, made) = (0, 0, self.exchange.made());
        self.exchange.send_later();
        for worker in 0..self.workers.len() {
            for _ in 0..RING {
                let Ok(event) = self.workers[worker].events.pop() else { break };
                self.handle(now, event);
                done += 1;
            }
            heard += self.take_punted(now, worker);
        }
        done += heard + self.resolver.turn(now, &self.resolved.0, &mut self.exchange);
        done += self.keying.turn(now, &mut self.exchange);
        done += self.acquires.turn(now, &mut self.exchange);
        self.incidents.extend(self.keying.take_incidents());
        self.incidents.extend(self.resolver.take_incidents());
        let messages = heard as u64 + self.exchange.made() - made;
        self.messages += messages;
        self.tasks += (done as u64).saturating_sub(messages);
        done
    }

    fn handle(&mut self, now: Instant, event: Event) {
        match event {
            Event::Done(token, done) => self.keying.done(now, token, done),
            Event::NextPn { secy, an, pn } => self.keying.next_pn(now, secy, an, pn),
            _ => {}
        }
    }

    /// Packets of a worker, of each class so many.
    fn take_punted(&mut self, now: Instant, worker: usize) -> usize {
        let mut done = 0;
        for class in Class::ALL {
            for _ in 0..BUDGET {
                let Some(packet) = self.workers[worker].punted.pop(class) else { break };
                let exchange = &mut self.exchange;
                exchange.take();
                match class {
                    Class::Eapol => self.keying.handle_message(now, packet, exchange),
                    Class::Neighbour | Class::Discovery => {
                        self.resolver.handle_message(now, packet, exchange)
                    }
                    Class::Waiting => {
                        let (tables, next_hops) = &self.resolved;
                        let by = (&**tables, &**next_hops);
                        self.resolver.handle_waiting(now, worker, packet, by, exchange);
                    }
                    Class::Acquire => self.acquire(now, worker, packet),
                    Class::Keying => self.datagrams.handle_message(packet, exchange),
                }
                done += 1;
            }
        }
        done
    }

    /// Keeps a packet whose tunnel has no SA, and asks for one.
    fn acquire(&mut self, now: Instant, worker: usize, packet: Packet) {
        let slot = packet.meta().sa;
        if self.slots.slots(worker as u8).get(slot).is_some() {
            // It was put to use meanwhile.
            return self.exchange.inject(worker, Next::Policy, packet);
        }
        let asks = self.acquires.handle_waiting(now, worker, packet, &mut self.exchange);
        self.asked.extend(asks.map(|header| (slot, header)));
    }

    /// Slots for which SAs are asked since the last call, and the first octets of each packet.
    pub fn take_asked(&mut self) -> Vec<(u32, Vec<u8>)> {
        std::mem::take(&mut self.asked)
    }

    /// Incidents since the last call.
    pub fn take_incidents(&mut self) -> Vec<Incident> {
        std::mem::take(&mut self.incidents)
    }

    fn has_news(&self) -> bool {
        !self.incidents.is_empty() || !self.asked.is_empty() || self.datagrams.has_news()
    }

    /// True if a worker sent something.
    pub fn has_mail(&self) -> bool {
        self.workers.iter().any(|heard| !heard.is_empty())
    }

    /// Time of the next necessary turn.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let cores = [self.resolver.poll_timeout(), self.keying.poll_timeout()];
        cores.into_iter().chain([self.acquires.poll_timeout()]).flatten().min()
    }

    /// Messages and tasks of all turns.
    pub const fn work(&self) -> (u64, u64) {
        (self.messages, self.tasks)
    }

    /// Packets that wait here.
    pub fn held(&self) -> u64 {
        self.resolver.held() + self.acquires.held()
    }
}
