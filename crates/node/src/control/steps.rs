//! A change of configuration, step by step, so that nothing is lost on the way.
//!
//! ```text
//!   end what moves ─▶ new SAs; tables at hand ─▶ tables ─▶ ports ─▶ old SAs, in rounds
//!        every step begins when all workers said that they have done the one before
//! ```
//!
//! A worker hands packets to others. So no worker may send by an SA before the worker that
//! has it knows it, and no packet that was made by new tables may be read by old ones: a
//! worker that gets one from a worker with the new tables takes its own first (see
//! `worker/handover.rs`). An SA goes when no packet that was sent to it can be under way.

use super::{BuildError, Control};
use crate::card::CardCommand;
use crate::incident::Incident;
use crate::message::{Change, Command, EspIn, Ordered, Seat};
use crate::sas::{Client, Sa};
use crate::static_keys::{Changes, EspPlan, Filling, Plan};
use ferrule_base::{Duration, Instant, PortId};
use ferrule_dataplane::macsec::RxChange;
use ferrule_pipeline::Port;
use std::collections::VecDeque;
use std::mem::{replace, take};

/// A step takes longer than this only if a worker does not run: the operator is told.
const PATIENCE: Duration = Duration::from_secs(2);
/// The control part looks so often meanwhile. Where more time went by from one look to the
/// next, the whole node stood still (a machine that slept, a clock that leapt), and its
/// workers with it: of that time no more than this counts.
const LOOK: Duration = Duration::from_millis(250);

/// Places in a worker's ring of commands that a change may need at once.
const ROOM: usize = 16;

/// Request of one step to the workers.
enum Step {
    /// Associations that end before anything else: changes of SecYs, and inbound SAs.
    End(Changes, Vec<u32>),
    /// Changes, new SAs, tables for the cards, and tables that workers hold ready.
    Ready(Changes, Box<EspPlan>),
    /// Tables alone, for cards and workers.
    Tables,
    /// The tables that are held ready are in force.
    Switch,
    /// Ports that go, and then those that come; slots have their SAs.
    Ports(Vec<(PortId, usize)>),
    /// SAs that go, once nothing is under way to them.
    Drop(Vec<Sa>),
    /// SecYs' associations that go, once nothing is under way to them.
    Leave(Changes),
}

/// A change under way.
#[derive(Default)]
pub(super) struct Steps {
    /// Steps that workers were asked to say they have done, of changes and of SAs that go.
    last: u64,
    /// The one under way.
    number: u64,
    coming: VecDeque<Step>,
    /// Workers that have not done the step yet.
    behind: Vec<usize>,
    /// Time that is left for the step, and when that was looked at; nothing once the
    /// operator was told that it takes too long.
    patience: Option<(Duration, Instant)>,
    ports: Vec<(usize, PortId, Box<dyn Port>)>,
    filling: Filling,
}

impl Steps {
    /// True if a change is under way.
    pub fn is_under_way(&self) -> bool {
        !self.behind.is_empty() || !self.coming.is_empty()
    }

    /// True if SAs of the configuration in force are not ordered yet.
    pub fn is_to_order(&self) -> bool {
        self.coming.iter().take(2).any(|step| matches!(step, Step::Ready(..)))
    }

    /// SAs that are gone already are not dropped once more.
    pub fn spare(&mut self, gone: &[Sa]) {
        for step in &mut self.coming {
            if let Step::Drop(sas) = step {
                sas.retain(|sa| !gone.contains(sa));
            }
        }
    }

    /// A port to attach once those that go are gone.
    pub fn arrives(&mut self, worker: usize, id: PortId, port: Box<dyn Port>) {
        self.ports.push((worker, id, port));
    }

    /// Number of another step.
    pub const fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A worker has done a step.
    pub fn reached(&mut self, seat: Seat, step: u64) {
        if step == self.number {
            self.behind.retain(|&worker| seat != Seat::Worker(worker));
        }
    }

    /// Time at which the workers that are behind are checked again.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.patience.map(|(left, looked)| looked + left.min(LOOK))
    }

    /// True if the workers that are behind have had their time; once a step.
    fn is_too_long(&mut self, now: Instant) -> bool {
        let Some((left, looked)) = self.patience else { return false };
        let left = left.saturating_sub(now.since(looked).min(LOOK));
        self.patience = Some((left, now)).filter(|_| !left.is_zero());
        left.is_zero()
    }
}

impl Control {
    /// True if a change of configuration is not done everywhere yet. Meanwhile another one
    /// is refused.
    pub fn is_changing(&self) -> bool {
        self.steps.is_under_way() || self.sas.is_configuring()
    }

    /// Checks that every worker and card takes commands.
    pub(super) fn is_ready(&self) -> Result<(), BuildError> {
        let has_room = self.links.iter().all(|link| link.commands.has_room(ROOM));
        let ready = has_room && self.cards_are_ready();
        if ready { Ok(()) } else { Err(BuildError::Stuck) }
    }

    /// Carries out the plan of a node that is built: its workers do so before anything else.
    pub(super) fn begin(&mut self, mut plan: Plan) {
        self.grant(&mut plan);
        self.static_keys.secys = plan.macsec.next;
        self.order_secys(plan.macsec.wanted, Command::Changes);
        let (directories, sas) = (&self.shared.directories, &mut self.sas);
        let (static_sas, filling) = plan.esp.order(directories, sas);
        self.static_keys.sas = static_sas;
        sas.expect_all(directories);
        filling.fill_all(directories, sas);
        self.send_orders();
    }

    /// Begins to carry out a plan.
    pub(super) fn change_by(&mut self, now: Instant, mut plan: Plan, gone: Vec<(PortId, usize)>) {
        self.grant(&mut plan);
        self.static_keys.secys = plan.macsec.next;
        let (ended, rounds) = (take(&mut plan.esp.ended), take(&mut plan.esp.gone));
        let coming = &mut self.steps.coming;
        if !plan.macsec.ended.is_empty() || !ended.is_empty() {
            coming.push_back(Step::End(plan.macsec.ended, ended));
        }
        coming.extend([Step::Ready(plan.macsec.wanted, Box::new(plan.esp)), Step::Switch]);
        coming.extend([Step::Ports(gone), Step::Leave(plan.macsec.gone)]);
        coming.extend(rounds.into_iter().map(Step::Drop));
        self.step(now);
    }

    /// Begins to put tables in force that differ in addresses, routes and labels alone.
    pub(super) fn change_tables(&mut self, now: Instant) {
        self.steps.coming.extend([Step::Tables, Step::Switch, Step::Ports(Vec::new())]);
        self.step(now);
    }

    /// Goes on with a change as far as workers are. Returns how many steps it took.
    pub(super) fn step(&mut self, now: Instant) -> usize {
        let mut done = 0;
        self.links.iter().for_each(|link| link.commands.send_later());
        while self.steps.behind.is_empty() && !self.sas.is_configuring() {
            let Some(step) = self.steps.coming.pop_front() else {
                self.steps.patience = None;
                for (worker, id, port) in take(&mut self.steps.ports) {
                    self.send_step(worker, Command::AttachPort(id, port));
                }
                return done;
            };
            done += 1;
            self.steps.number = self.steps.next();
            self.steps.patience = Some((PATIENCE, now));
            self.take_step(now, step);
            self.steps.behind.extend(0..self.links.len());
            self.send_all(|control| Command::Say(control.steps.number));
        }
        if self.steps.is_too_long(now) {
            let waits = match &self.steps.behind[..] {
                [] => "a worker or card to let go of SAs".to_owned(),
                behind => format!("workers {behind:?}"),
            };
            let what = format!("a change of configuration waits for {waits}");
            self.incidents.push(Incident::Other(what));
        }
        done
    }

    fn take_step(&mut self, now: Instant, step: Step) {
        match step {
            Step::End(changes, ended) => {
                self.order_secys(changes, Command::Changes);
                for index in ended {
                    self.sas.end(&self.shared.directories, index, Client::Configuration);
                }
                self.send_orders();
            }
            Step::Ready(changes, esp) => {
                self.order_secys(changes, Command::Changes);
                let (static_sas, filling) = esp.order(&self.shared.directories, &mut self.sas);
                (self.static_keys.sas, self.steps.filling) = (static_sas, filling);
                self.follow_peers();
                self.send_orders();
                self.hand_out_tables();
            }
            Step::Tables => self.hand_out_tables(),
            Step::Switch => {
                self.steps.filling.fill_vacant(&self.shared.directories, &self.sas);
                self.send_all(|_| Command::Switch);
            }
            Step::Ports(gone) => {
                let filling = take(&mut self.steps.filling);
                filling.fill_all(&self.shared.directories, &mut self.sas);
                for (id, worker) in gone {
                    self.send_step(worker, Command::DetachPort(id));
                }
                for (worker, id, port) in take(&mut self.steps.ports) {
                    self.send_step(worker, Command::AttachPort(id, port));
                }
                self.follow_tables(now);
            }
            Step::Drop(gone) => {
                for sa in gone {
                    self.sas.drop(&self.shared.directories, sa, Client::Configuration);
                }
                self.turn_sas();
            }
            Step::Leave(changes) => self.order_secys(changes, Command::Leave),
        }
    }

    /// Neighbours are asked by new tables, through ports that are there.
    fn follow_tables(&mut self, now: Instant) {
        let next_hops = take(&mut self.compiled.next_hops);
        let named = self.tables.adjacencies.iter().filter_map(|a| a.neighbour);
        self.shared.neighbours.reserve_only(named);
        let mut guard = self.protocols.lock();
        let cores = &mut *guard;
        let old = replace(&mut cores.resolved, (self.tables.clone(), next_hops));
        cores.acquires.retain(&self.tables.acquires, &mut cores.exchange);
        self.configure_protocols(now, cores);
        drop(guard);
        // Freed while the protocols go on.
        drop(old);
    }

    /// Gives cards their tables, and workers theirs to hold ready.
    fn hand_out_tables(&mut self) {
        self.card_tables();
        self.fill_wanting();
        self.send_all(|control| Command::Ready(control.tables.clone()));
    }

    /// Orders changes of SecYs, in their order.
    fn order_secys(&mut self, changes: Changes, of_worker: impl Fn(VecDeque<Ordered>) -> Command) {
        let ordered = self.secys.order(changes);
        self.send_changes(ordered, of_worker);
    }

    /// Sends changes in their order, all of a worker in one message: there may be more of
    /// them than its ring has places.
    pub(super) fn send_changes(
        &mut self,
        changes: Vec<(Seat, Ordered)>,
        of_worker: impl Fn(VecDeque<Ordered>) -> Command,
    ) {
        let mut of_workers: Vec<VecDeque<Ordered>> = Vec::new();
        of_workers.resize_with(self.links.len(), VecDeque::new);
        for (seat, mut ordered) in changes {
            self.bring_up_to_date(&mut ordered.change);
            match seat {
                Seat::Worker(worker) => of_workers[worker].push_back(ordered),
                Seat::Card(id) => {
                    let Ordered { token, change } = ordered;
                    let command = match self.sas.is_awaited(token) {
                        true => CardCommand::Order(token, change),
                        false => CardCommand::Change(change),
                    };
                    self.command_step(id, command);
                }
            }
        }
        for (worker, changes) in of_workers.into_iter().enumerate() {
            if !changes.is_empty() {
                self.send_step(worker, of_worker(changes));
            }
        }
    }

    /// A window that moved stands where it was left, not where it stood when the change
    /// was planned.
    fn bring_up_to_date(&self, change: &mut Change) {
        match change {
            Change::EspIn(EspIn::Install(_, config, edge)) => {
                *edge = (*edge).max(self.leases.edge(config.record));
            }
            Change::SecyIn(RxChange::Sa(_, config)) => {
                config.lowest_pn = config.lowest_pn.max(self.leases.edge(config.record));
            }
            _ => {}
        }
    }

    /// Sends every worker a command that must not be lost.
    pub(super) fn send_all(&mut self, command: impl Fn(&Self) -> Command) {
        for worker in 0..self.links.len() {
            self.send_step(worker, command(self));
        }
    }

    /// Sends a command that must not be lost: if there is no room it waits.
    pub(super) fn send_step(&mut self, worker: usize, command: Command) {
        self.links[worker].commands.send(command);
    }
}
