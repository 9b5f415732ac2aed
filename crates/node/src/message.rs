//! Messages between the control part and the workers.

use crate::card::{Card, CardReport};
use crate::incident::Standing;
use crate::probe::{Recorder, Times};
use crate::sas::Sa;
use ferrule_base::{Answers, Drops, Instant, Ledger, PortId, Work};
use ferrule_control::{Refused, Token};
use ferrule_crypto::EngineReport;
use ferrule_dataplane::audit::{Logged, Sample};
use ferrule_dataplane::graph::Next;
use ferrule_dataplane::{Lease, Sequence, Tables, ipsec, macsec};
use ferrule_pipeline::{Packet, Port, PortStats};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Messages that wait in one direction at most.
pub const RING: usize = 1024;

/// Associations that a worker changes between two batches at most, so that packets that
/// arrive meanwhile find room.
pub(crate) const CHANGES_MAX: usize = 1024;

/// Command of the control part to a worker, carried out between two batches.
pub(crate) enum Command {
    /// Hold these tables ready.
    Ready(Arc<Tables>),
    /// Use the tables that are held ready from now on.
    Switch,
    /// Put a packet into the graph: a protocol message made by the control
    /// part, or one that waited for a neighbour.
    Inject(Next, Packet),
    /// Receive and transmit on this port.
    AttachPort(PortId, Box<dyn Port>),
    /// Let go of this port.
    DetachPort(PortId),
    /// Fit a card to its port, or keep it until that is there.
    FitCard(Box<Card>),
    /// Change an association.
    Change(Change),
    /// Carry out changes in their order, up to the first that is refused, and answer. To give up
    /// an association that is not there is no fault.
    Order(Token, Vec<Change>),
    /// Change many, before anything that comes behind this.
    Changes(VecDeque<Ordered>),
    /// Let go of these, once nothing is under way to them in this worker.
    Leave(VecDeque<Ordered>),
    /// Say that all before this is done, and that nothing is under way any more from
    /// before it was.
    Say(u64),
    /// Record packets, or stop recording.
    Record(Option<Box<Recorder>>),
    /// Say how far the packet numbers are whose SAKs were agreed on.
    NextPns,
    /// Say where the replay windows stand.
    Edges,
    /// Report the counters.
    Report(Sender<Box<WorkerReport>>),
    /// Report the packets refused since the last request.
    Refusals(Sender<Box<Refusals>>),
}

/// Refused packets of a worker and its cards, and state of its ports.
#[derive(Default)]
pub struct Refusals {
    /// Drops since the start, by reason.
    pub drops: Drops,
    /// The first packet of each reason since this was last asked.
    pub samples: Vec<Sample>,
    /// Packets of entries of access lists that are logged, since this was last asked.
    pub logged: Vec<Logged>,
    /// Queues of ports: counters, and whether they are up.
    pub ports: Vec<(PortId, PortStats, bool)>,
    /// Cards, and engines beside the worker.
    pub standing: Vec<Standing>,
}

/// A change, and the token by which a worker answers it.
pub(crate) struct Ordered {
    pub token: Token,
    pub change: Change,
}

/// Holder of an association: a worker, or the card of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Seat {
    Worker(usize),
    Card(PortId),
}

/// A change of an association, for its holder.
pub(crate) enum Change {
    /// Install, extend or retire an outbound ESP SA.
    EspOut(EspOut),
    /// Install or retire an inbound ESP SA.
    EspIn(EspIn),
    /// Change a SecY's transmit side.
    SecyOut(macsec::TxChange),
    /// Change a SecY's receive side.
    SecyIn(macsec::RxChange),
}

impl Change {
    /// True if it retires an association of a SecY.
    pub const fn gives_up(&self) -> bool {
        let tx = matches!(self, Self::SecyOut(macsec::TxChange::Retire(..)));
        tx || matches!(self, Self::SecyIn(macsec::RxChange::Retire(..)))
    }
}

/// A change of an outbound ESP SA.
pub(crate) enum EspOut {
    Install(u32, Box<ipsec::OutboundConfig>, Sequence),
    Extend(ipsec::SaId, u64),
    /// Other ends, adjacency and MTU, as in this configuration.
    Move(u32, Box<ipsec::OutboundConfig>),
    /// Change of the SA's lifetime bounds; none: without end.
    Live(u32, Option<Box<ipsec::Allowance>>),
    /// The SA's time is over.
    Expire(u32),
    Retire(u32),
}

/// A change of an inbound ESP SA; the number is the edge of its window.
pub(crate) enum EspIn {
    Install(u32, Box<ipsec::InboundConfig>, u64),
    /// Replacement by another SA with the same key: the window stays.
    Change(u32, Box<ipsec::InboundConfig>),
    /// Other ends.
    Move(u32, ipsec::Endpoints),
    /// Change of the SA's lifetime bounds; none: without end.
    Live(u32, Option<Box<ipsec::Allowance>>),
    /// The SA's time is over.
    Expire(u32),
    Retire(u32),
}

/// A request to reserve numbers up to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    pub by: Asker,
    pub lease: Lease,
    pub limit: u64,
}

/// SA that asks for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    Esp(ipsec::SaId),
    /// A SecY and an association number.
    Macsec(u16, u8),
}

impl Want {
    /// Answer to the asking SA, once the numbers are reserved.
    pub fn granted(&self) -> Change {
        match self.by {
            Asker::Esp(id) => Change::EspOut(EspOut::Extend(id, self.limit)),
            Asker::Macsec(secy, an) => {
                Change::SecyOut(macsec::TxChange::Extend(secy, an, self.lease, self.limit))
            }
        }
    }
}

impl From<ipsec::Want> for Event {
    fn from(want: ipsec::Want) -> Self {
        let ipsec::Want { id, lease, limit } = want;
        Self::Wants(Want { by: Asker::Esp(id), lease, limit })
    }
}

/// Event from a worker or a card for the control part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// An outbound SA runs low on reserved numbers.
    Wants(Want),
    /// An order was carried out, or why not.
    Done(Token, Result<(), Refused>),
    /// The number of the next frame of a SecY's association whose SAK was agreed on.
    NextPn { secy: u16, an: u8, pn: u64 },
    /// Lower edge of the window that this record keeps.
    Edge { record: [u8; 16], edge: u64 },
    /// A bound of an SA's life is reached.
    Expired(Sa, ipsec::Expiry, ipsec::LifeCause),
    /// An authentic packet of an inbound SA came from another address than the other end's.
    Heard(Sa, SocketAddr),
    /// A step of a change is done.
    Reached(u64),
    /// A request failed, with the reason.
    Failed(String),
    /// A packet at a card has no SA: its slot and its first octets.
    Acquire(u32, Vec<u8>),
    /// A card has no tables: it was reset.
    CardEmpty,
    /// A card answers.
    CardAlive,
}

/// Everything that one worker counted.
#[derive(Clone, Debug)]
pub struct WorkerReport {
    /// Number of the worker.
    pub worker: u8,
    /// Time of the report.
    pub now: Instant,
    /// Dropped, by reason.
    pub drops: Drops,
    /// ICMP messages that answered packets.
    pub answers: Answers,
    /// Work done.
    pub work: Work,
    /// Its part of the ledger.
    pub ledger: Ledger,
    /// Packets given to other workers and to the control part.
    pub handed_out: u64,
    /// Packets taken from them.
    pub handed_in: u64,
    /// Its ports: counters, and whether frames can pass.
    pub ports: Vec<(PortId, PortStats, bool)>,
    /// Outbound ESP SAs, by index.
    pub esp_out: Vec<SaReport>,
    /// Inbound ESP SAs, by index.
    pub esp_in: Vec<SaReport>,
    /// Matches of policy entries: by their number in the configuration, then for each
    /// interface the packets that matched no entry.
    pub hits: Vec<ipsec::Hit>,
    /// Matches of access list entries: list by list, each followed by the packets that
    /// matched none of its entries.
    pub list_hits: Vec<ipsec::Hit>,
    /// Transmit sides, by SecY.
    pub secy_out: Vec<(u16, macsec::TxReport)>,
    /// Receive sides, by SecY.
    pub secy_in: Vec<(u16, macsec::RxReport)>,
    /// Its engines.
    pub engines: Vec<EngineReport>,
    /// Time by stage, if the worker measures time.
    pub times: Option<Times>,
    /// The cards in its ports.
    pub cards: Vec<CardReport>,
}

/// An ESP SA, as its worker sees it.
#[derive(Clone, Debug)]
pub struct SaReport {
    /// Its index.
    pub index: u32,
    /// The name in the configuration.
    pub name: String,
    /// Its SPI.
    pub spi: u32,
    /// ESP or AH.
    pub protocol: ipsec::SaProtocol,
    /// Its suite.
    pub suite: ferrule_crypto::Suite,
    /// Outbound: the next number. Inbound: the highest seen.
    pub number: u64,
    /// The record that keeps the number, and the lease for it.
    pub lease: Lease,
    /// Outbound: the largest clear packet that its path carries now.
    pub mtu: Option<u16>,
    /// Its counters.
    pub stats: ipsec::SaStats,
    /// How much of its life is used, if that has bounds.
    pub life: Option<ipsec::LifeView>,
}

impl SaReport {
    /// The suite's name, with the protocol where that is AH.
    pub fn suite_name(&self) -> String {
        match (self.protocol, self.suite.ah_name()) {
            (ipsec::SaProtocol::Ah, Some(name)) => format!("ah {name}"),
            _ => self.suite.to_string(),
        }
    }

    pub(crate) fn of(protocol: ipsec::SaProtocol, view: &ipsec::SaView<'_>) -> Self {
        Self {
            protocol,
            index: view.id.index,
            name: view.name.into(),
            spi: view.spi,
            suite: view.suite,
            number: view.number,
            lease: view.lease,
            mtu: view.mtu,
            stats: view.stats,
            life: view.life,
        }
    }
}
