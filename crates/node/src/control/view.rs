//! State of a control part at one time, which another thread may read: a report of a hundred
//! thousand SAs takes a second, and timers do not wait for it.

use super::Control;
use crate::config::{Config, LabelConfig, RouteConfig};
use crate::dynamic::{ActiveAddress, ActiveEntries};
use crate::message::WorkerReport;
use ferrule_base::{Drops, Ledger, MacAddr, PortId};
use ferrule_control::mka::view::View;
use ferrule_dataplane::Tables;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// State of a control part, without its workers'.
#[derive(Clone)]
pub struct ControlView {
    config: Arc<Config>,
    active: Arc<ActiveEntries>,
    tables: Arc<Tables>,
    /// Numbers of the ports, in the order of the configuration.
    ports: Vec<PortId>,
    names: HashMap<PortId, String>,
    workers: usize,
    drops: Drops,
    ledger: ControlLedger,
    neighbours: Vec<(String, IpAddr, MacAddr)>,
    mka: Vec<(String, View)>,
}

/// Packets of the control part, and those between it and its workers.
#[derive(Clone, Copy)]
pub(super) struct ControlLedger {
    own: Ledger,
    handed_out: u64,
    handed_in: u64,
}

impl ControlLedger {
    /// With those of its workers: each one's ledger, and the packets that it gave to others and
    /// took from them. Packets on the way between them count as held.
    pub fn with(self, parts: impl Iterator<Item = (Ledger, u64, u64)>) -> Ledger {
        let Self { own: mut ledger, handed_out: mut out, handed_in: mut taken } = self;
        for (part, handed_out, handed_in) in parts {
            ledger.merge(&part);
            out += handed_out;
            taken += handed_in;
        }
        ledger.held += out.saturating_sub(taken);
        ledger
    }
}

/// A worker's part of its node's ledger.
pub(super) fn part_of(report: &WorkerReport) -> (Ledger, u64, u64) {
    (report.ledger, report.handed_out, report.handed_in)
}

impl Control {
    /// The state of this control part now.
    pub fn view(&self) -> ControlView {
        let ports = self.compiled.ports.clone();
        let names = ports.iter().map(|&id| (id, self.port_name(id).to_owned()));
        ControlView {
            config: self.config.clone(),
            active: self.compiled.active.clone(),
            tables: self.tables.clone(),
            names: names.collect(),
            ports,
            workers: self.workers(),
            drops: self.drops(),
            ledger: self.own_ledger(),
            neighbours: self.neighbours(),
            mka: self.mka(),
        }
    }

    pub(super) fn own_ledger(&self) -> ControlLedger {
        let cores = self.protocols.lock();
        let mut own = cores.exchange.ledger();
        own.held += cores.held();
        let (handed_out, handed_in) = cores.exchange.handed();
        ControlLedger { own, handed_out, handed_in }
    }
}

impl ControlView {
    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Addresses beside those of the configuration.
    pub fn dynamic_addresses(&self) -> &[ActiveAddress] {
        &self.active.addresses
    }

    /// Routes beside those of the configuration, by its indices.
    pub fn dynamic_routes(&self) -> &[RouteConfig] {
        &self.active.routes
    }

    /// Incoming labels beside those of the configuration, by its indices.
    pub fn dynamic_labels(&self) -> &[LabelConfig] {
        &self.active.labels
    }

    /// The tables in force.
    pub const fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    /// The number of a port of the configuration.
    pub fn port_id(&self, index: usize) -> PortId {
        self.ports[index]
    }

    /// The name of a port.
    pub fn port_name(&self, id: PortId) -> &str {
        self.names.get(&id).map_or("?", |name| name)
    }

    /// Workers of the node.
    pub const fn workers(&self) -> usize {
        self.workers
    }

    /// Drops of the control part.
    pub const fn drops(&self) -> &Drops {
        &self.drops
    }

    /// The node's ledger.
    pub fn ledger(&self, reports: &[Box<WorkerReport>]) -> Ledger {
        self.ledger.with(reports.iter().map(|report| part_of(report)))
    }

    /// Neighbours: interface, address and link address.
    pub fn neighbours(&self) -> &[(String, IpAddr, MacAddr)] {
        &self.neighbours
    }

    /// MKA entities: the name of each port and its state.
    pub fn mka(&self) -> &[(String, View)] {
        &self.mka
    }
}
