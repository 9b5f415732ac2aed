//! Orders of keying protocols about SAs of ESP and AH: add, use, move, drop. Each is answered
//! once.
//!
//! A tunnel of the configuration is the template: its policies, addresses, suite, path and
//! placement. A protocol agrees on SPI and keys of an SA of it.

use super::Control;
use crate::config::{Placement, SaConfig};
use crate::incident::Incident;
use crate::instances::Instances;
use crate::message::{Command, Seat};
use crate::sas::{Agreement, Answer, Client, OutboundPart, Sa, taken};
use crate::static_keys::{self, Version, inbound, max_of, outbound};
use ferrule_base::{PortId, Secret};
use ferrule_control::{Refused, Token};
use ferrule_crypto::KeySpec;
use ferrule_dataplane::Sequence;
use ferrule_dataplane::ipsec::{
    Allowance, Endpoints, INSTANCE_NUMBERS, InboundConfig, Lifetimes, OutboundConfig,
};

/// SA that a keying protocol agreed on. No record keeps its numbers: where keys come from outside,
/// and may come again, its instance makes its nonces its own.
#[derive(Clone, Debug)]
pub struct AgreedSa {
    /// The tunnel of the configuration.
    pub tunnel: String,
    /// SPI, 256 or above.
    pub spi: u32,
    /// Keys of the tunnel's suite, never used before; their placement is the tunnel's.
    pub keys: KeySpec,
    /// Salt of an AEAD.
    pub salt: Secret,
    /// The worker that is to have it.
    pub worker: usize,
    /// How long it lives.
    pub lifetimes: Lifetimes,
}

/// Order of a keying protocol.
#[derive(Clone, Debug)]
pub enum SaOrder {
    /// Open packets with this SPI.
    AddInbound(AgreedSa),
    /// Be ready to seal; nothing is sent yet.
    AddOutbound(AgreedSa),
    /// Seal by this outbound SA what one worker, or all, have for its tunnel, from now on.
    Use(Sa, Option<usize>),
    /// Give an SA other ends: key, numbers and window stay.
    Move(Sa, Endpoints),
    /// Let go of an SA, once nothing is under way to it.
    Drop(Sa),
}

impl Control {
    /// Gives an order. [`poll_answer`](Self::poll_answer) has its answer, by this token.
    pub fn order(&mut self, order: SaOrder) -> Token {
        self.orders += 1;
        let token = Token(self.orders);
        let refused = match order {
            SaOrder::AddInbound(sa) => self.add(token, sa, false).err(),
            SaOrder::AddOutbound(sa) => self.add(token, sa, true).err(),
            SaOrder::Use(sa @ Sa::Outbound(index), worker) if self.sas.has_agreed(sa) => {
                self.put_to_use(token, index, worker).err()
            }
            SaOrder::Move(sa, ends) if self.sas.has_agreed(sa) => {
                self.move_sa(sa, &ends, Client::Keying(token)).err()
            }
            SaOrder::Drop(sa) if self.sas.has_agreed(sa) => {
                self.sas.drop(&self.shared.directories, sa, Client::Keying(token));
                None
            }
            SaOrder::Use(..) | SaOrder::Move(..) | SaOrder::Drop(_) => {
                Some(Refused("there is no such SA".into()))
            }
        };
        if let Some(Refused(why)) = refused {
            self.sas.refuse(token, why);
        }
        token
    }

    /// The SA of a tunnel on which a keying protocol agreed, by its SPI.
    pub fn agreed(&self, tunnel: &str, spi: u32, is_outbound: bool) -> Option<Sa> {
        let slot = self.shared.slots.get(tunnel)? as u32;
        self.sas.find_agreed(Agreement { slot, spi, is_outbound })
    }

    /// A worker, or all, seal by an outbound SA; packets that waited for one go on.
    fn put_to_use(
        &mut self,
        token: Token,
        index: u32,
        worker: Option<usize>,
    ) -> Result<(), Refused> {
        let workers = self.links.len();
        if let Some(worker) = worker.filter(|&worker| worker >= workers) {
            return Err(no_worker(worker));
        }
        if !self.sas.can_seal(index) {
            return Err(Refused("it is not there yet".into()));
        }
        for worker in worker.map_or(0..workers, |one| one..one + 1) {
            self.sas.fill(&self.shared.directories, worker, index);
        }
        let sa = Sa::Outbound(index);
        self.sas.answer(token, sa);
        if let Some((slot, _)) = self.sas.slot_and_spi(sa) {
            let cores = &mut *self.protocols.lock();
            cores.acquires.answered(slot, worker, &mut cores.exchange);
        }
        Ok(())
    }

    /// Tunnels whose packets wait for an SA, for a program that comes later than they did.
    pub fn acquiring(&self) -> Vec<Incident> {
        let waiting: Vec<_> = self.protocols.lock().acquires.waiting().collect();
        let waiting = waiting.into_iter();
        waiting.filter_map(|(slot, header)| self.wanted(slot, header)).collect()
    }

    pub(super) fn wanted(&self, slot: u32, header: Vec<u8>) -> Option<Incident> {
        let tunnel = self.config.tunnels[self.compiled.tunnel_of(slot)?].name.clone();
        Some(Incident::Acquire { tunnel, header })
    }

    /// The next answer to an order.
    pub fn poll_answer(&mut self) -> Option<Answer> {
        self.sas.poll_answer()
    }

    fn add(&mut self, token: Token, sa: AgreedSa, is_outbound: bool) -> Result<(), Refused> {
        let AgreedSa { tunnel, spi, keys, salt, worker, lifetimes } = sa;
        let version = Version { config: &self.config, compiled: &self.compiled };
        let number = self.shared.slots.get(&tunnel);
        let number = number.and_then(|slot| self.compiled.tunnel_of(slot as u32));
        let number = number.ok_or_else(|| Refused(format!("there is no tunnel `{tunnel}`")))?;
        if worker >= self.links.len() {
            return Err(no_worker(worker));
        }
        let of = &self.config.tunnels[number];
        let (wanted, given) = (of.suite, keys.suite);
        if wanted != given {
            return Err(Refused(format!("tunnel `{tunnel}` has the suite {wanted}, not {given}")));
        }
        if of.placement == Placement::Token {
            return Err(Refused(format!("tunnel `{tunnel}` has its keys on a token")));
        }
        let keys = KeySpec { place: of.placement.place(None), ..keys };
        let sa = SaConfig { spi, keys, salt, worker, fixed: true, lifetimes };
        let life = lifetimes.has_bounds().then(|| Allowance { lifetimes, ..Allowance::default() });
        let (seat, client) = (version.seat_of(of, worker), Client::Keying(token));
        let directories = &self.shared.directories;
        if is_outbound {
            let print = static_keys::fingerprint(&sa);
            if self.sas.makes(print) || self.leases.has(print) {
                return Err(Refused("its key makes the nonces of another SA".into()));
            }
            if self.agreed(&tunnel, spi, true).is_some() {
                return Err(taken(spi));
            }
            let config = outbound(version, number, &sa);
            let max = max_of(of).min(INSTANCE_NUMBERS);
            if self.external.instances.is_none() {
                // No tunnel of the file leaves its keys to programs.
                let block = self.leases.instances().map_err(|_| no_instance())?;
                self.external.instances = Some(Instances::new(block));
                self.static_keys.has_instances = true;
            }
            let instances = self.external.instances.as_mut();
            let instance = instances.and_then(|all| all.next(&mut self.leases));
            let instance = instance.ok_or_else(no_instance)?;
            let config = Box::new(OutboundConfig { life, instance, ..config });
            let numbers = Sequence::unlimited(1, max);
            let parts = vec![OutboundPart { seat, config, numbers }];
            let slot = self.compiled.slots[number];
            let index = self.sas.add_outbound(directories, slot, parts, client, print);
            self.follow_peer(slot, Sa::Outbound(index));
        } else {
            if directories.inbound(seat, spi).is_some() {
                return Err(taken(spi));
            }
            let config = inbound(version, number, &sa, [0; 16]);
            let config = Box::new(InboundConfig { life, ..config });
            let slot = config.slot;
            let index = self.sas.add_inbound(directories, seat, config, 0, client);
            self.follow_peer(slot, Sa::Inbound(index));
        }
        Ok(())
    }

    /// Sends orders that workers do not have yet, and asks whether anything is under way to SAs
    /// that are to go. Returns how much there was.
    pub(super) fn turn_sas(&mut self) -> usize {
        let sent = self.send_orders();
        if !self.sas.wants_clearing() {
            return sent;
        }
        let step = self.steps.next();
        self.sas.clear(step, self.links.len());
        self.send_all(|_| Command::Say(step));
        sent + 1
    }

    /// Sends orders that workers do not have yet.
    pub(super) fn send_orders(&mut self) -> usize {
        let queue = self.sas.take_queue();
        let sent = queue.len();
        self.send_changes(queue, Command::Changes);
        sent
    }

    /// A worker has done a step.
    pub(super) fn reached(&mut self, seat: Seat, step: u64) {
        self.steps.reached(seat, step);
        self.send_orders();
        if self.sas.reached(&self.shared.directories, seat, step) {
            let queue = self.sas.take_queue();
            self.send_changes(queue, Command::Leave);
        }
    }

    /// A worker answers an order.
    pub(super) fn done(&mut self, token: Token, done: Result<(), Refused>) {
        let (sa, why) = if self.secys.is_of(token) {
            let Some((item, Refused(why))) = self.secys.done(token, done) else { return };
            self.static_keys.secys.refuse(item);
            let port = self.port_name(PortId(item.secy()));
            (format!("MACsec on port {port}, {item}"), why)
        } else if self.sas.is_of(token) {
            let refused = self.sas.done(&self.shared.directories, token, done);
            let Some((sa, Refused(why))) = refused else { return };
            self.static_keys.sas.refuse(sa);
            (self.name_of(sa), why)
        } else {
            return;
        };
        self.incidents.push(Incident::SaRefused { sa, why });
    }

    /// An SA of ESP or AH, by its name for operators.
    pub(super) fn name_of(&self, sa: Sa) -> String {
        let (slot, spi) = self.sas.slot_and_spi(sa).unwrap_or_default();
        let tunnel = self.compiled.tunnel_of(slot).map(|number| &*self.config.tunnels[number].name);
        let way = if matches!(sa, Sa::Inbound(_)) { "inbound" } else { "outbound" };
        format!("tunnel {}, {way} SPI 0x{spi:08x}", tunnel.unwrap_or("?"))
    }
}

fn no_instance() -> Refused {
    Refused("counters cannot be written, or all instances of SAs are used".into())
}

fn no_worker(worker: usize) -> Refused {
    Refused(format!("there is no worker {worker}"))
}
