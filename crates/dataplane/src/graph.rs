//! The contract between stages: where a packet can go next, and what a stage
//! is given.
//!
//! What a stage finds in a packet is settled by where the packet was sent
//! ([`Next`] says it for each). [`Meta`](ferrule_pipeline::Meta) carries the rest:
//!
//! | field | set by | means |
//! |---|---|---|
//! | `port` | receive; `output`, bridge, PW in | port of arrival; from `Emit` on, of departure |
//! | `iface` | attach | logical interface of arrival |
//! | `vrf` | attach, MPLS, ESP in, AH in | routing table |
//! | `ethertype` | attach, MPLS, ESP | what the data starts with when Ethernet is off |
//! | `offset` | IP | where the transport header starts, for `Local`, `EspIn`, `AhIn`; 0 or `ONWARDS` for `Reassemble` |
//! | `target` | the stage before | index that the next stage acts on |
//! | `hash` | receive, when workers share | hash over the flow |
//! | `number` | ESP in, AH in, SecY in | reconstructed sequence number of the candidate |
//! | | policy, for `EspOut`, `AhOut` | the adjacency whose policy sent it there |
//! | `turns` | the worker | how often it went round |

use crate::ipsec::Hits;
use crate::tables::Tables;
use arrayvec::ArrayVec;
use ferrule_base::{DropReason, Drops, Instant, Work};
use ferrule_pipeline::{BATCH, Batch, Packet, PoolCache};

/// The packet was made here: TTL is not decremented, its source is ours.
pub const FLAG_LOCAL: u8 = 1;
/// It came out of an inbound SA, whose index is in `scratch`; the inbound
/// policy was checked against that SA's selectors.
pub const FLAG_OPENED: u8 = 2;
/// It is already protected or exempt: outbound policy does not look again.
pub const FLAG_EXEMPT: u8 = 4;
/// It came from a group address on layer 2: no ICMP error may answer it.
pub const FLAG_GROUP: u8 = 8;
/// ESP stands behind a UDP header (RFC 3948).
pub const FLAG_ENCAP: u8 = 16;
/// It is sealed, but its SA has something more to do with it.
pub const FLAG_MORE: u8 = 32;

/// It was put together here: whoever sent it in fragments takes it so again.
pub const FLAG_WHOLE: u8 = 64;

/// In `target` at [`Next::Output`], beside the adjacency: the packet was made here
/// and is to be cut into pieces of at most `number` octets.
pub const CUT: u32 = 1 << 31;

/// Where a packet goes next, and in what shape it arrives there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Next {
    /// Whole frame as received on `port`; the port has a SecY.
    SecyIn,
    /// Whole clear frame from `port`: to be attached to an interface.
    Attach,
    /// Whole frame of the bridged interface `iface`, with the interface's own
    /// tag taken off.
    Bridge,
    /// Whole frame for the pseudowire `target`, tag as the PW mode wants it.
    PwOut,
    /// Label stack first, in `vrf` 0.
    Mpls,
    /// Control word (if the PW has one), then the frame, for pseudowire `target`.
    PwIn,
    /// IP header first, in `vrf`, arrived by `iface` (unless made here).
    Ip,
    /// A fragment of a datagram that is wanted whole: then it goes to `Ip`, or, with
    /// [`ONWARDS`](crate::fragment::ONWARDS) in `offset`, to `Policy`.
    Reassemble,
    /// IP packet for the node itself; transport header at `offset`.
    Local,
    /// IP packet for the node itself or a host that it protects, protocol ESP, or UDP
    /// with ESP in it (`FLAG_ENCAP`); ESP header at `offset`.
    EspIn,
    /// IP packet for the node itself, AH at `offset`.
    AhIn,
    /// ICMP error for this node, or a host that it guards, about a packet that was too
    /// big and may have been sealed here; ICMP header at `offset`.
    PathError,
    /// IP packet leaving by adjacency `target`; its interface, or the one by which it
    /// came, limits TCP's segments.
    Clamp,
    /// IP packet leaving by adjacency `target`, whose interface has a policy.
    Policy,
    /// IP packet to be sealed by outbound SA `target`.
    EspOut,
    /// IP packet to be authenticated by outbound AH SA `target`.
    AhOut,
    /// An offending IP packet: ICMP type and code in `scratch` (type << 8 |
    /// code), MTU or pointer in `number`. It becomes the error.
    IcmpError,
    /// IP packet or label stack (`ethertype` says which) for adjacency `target`.
    Output,
    /// Whole clear frame for `port`; may be handed to the port's worker.
    Emit,
    /// Whole clear frame for `port`, which has a SecY and is this worker's.
    SecyOut,
    /// Whole frame as it goes on the wire of `port`.
    Transmit,
    /// For the control part: whole frame from `port` (ARP, ND), or, with
    /// `turns` at [`UNRESOLVED`], an `Output` packet that waits for a neighbour.
    Control,
}

/// Marks a packet at [`Next::Control`] that waits for its adjacency.
pub const UNRESOLVED: u8 = u8::MAX;

/// Times a packet may go back to an earlier stage.
pub const TURNS_MAX: u8 = 8;

impl Next {
    /// Every place, in the order in which a worker visits them.
    pub const ALL: [Self; 22] = [
        Self::SecyIn,
        Self::Attach,
        Self::Bridge,
        Self::PwOut,
        Self::Mpls,
        Self::PwIn,
        Self::Ip,
        Self::Reassemble,
        Self::Local,
        Self::EspIn,
        Self::AhIn,
        Self::PathError,
        Self::Clamp,
        Self::Policy,
        Self::EspOut,
        Self::AhOut,
        Self::IcmpError,
        Self::Output,
        Self::Emit,
        Self::SecyOut,
        Self::Transmit,
        Self::Control,
    ];

    /// The name in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SecyIn => "secy-in",
            Self::Attach => "attach",
            Self::Bridge => "bridge",
            Self::PwOut => "pw-out",
            Self::Mpls => "mpls",
            Self::PwIn => "pw-in",
            Self::Ip => "ip",
            Self::Reassemble => "reassemble",
            Self::Local => "local",
            Self::EspIn => "esp-in",
            Self::AhIn => "ah-in",
            Self::PathError => "path-error",
            Self::Clamp => "clamp",
            Self::Policy => "policy",
            Self::EspOut => "esp-out",
            Self::AhOut => "ah-out",
            Self::IcmpError => "icmp-error",
            Self::Output => "output",
            Self::Emit => "emit",
            Self::SecyOut => "secy-out",
            Self::Transmit => "transmit",
            Self::Control => "control",
        }
    }
}

/// What a worker counted.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Dropped, by reason.
    pub drops: Drops,
    /// Work done.
    pub work: Work,
    /// Packets made here: copies, fragments, replies, errors.
    pub made: u64,
    /// Packets that ended here as intended.
    pub consumed: u64,
    /// What policy entries were asked for.
    pub hits: Hits,
}

/// Why a packet goes no further here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aside {
    /// It is dropped.
    Drop(DropReason),
    /// It is another worker's, at this place.
    HandOff(u8, Next),
}

impl From<DropReason> for Aside {
    fn from(reason: DropReason) -> Self {
        Self::Drop(reason)
    }
}

/// Where a stage puts its packets. Most of a batch goes the same way: the first
/// packet's next stage gets a *run*, handed over as the batch that it will be
/// there; for what goes elsewhere there is one queue for each next stage. A batch that
/// goes one way stays as it is ([`send_all`](Self::send_all)).
pub struct Outputs {
    run: Box<Batch>,
    /// Where the run goes, if there are packets in it.
    to: Next,
    /// So many of them leave by one port, as the stage said that sent them.
    by_one_port: usize,
    queues: [Vec<Packet>; Next::ALL.len()],
    dropped: Vec<(Packet, DropReason)>,
    handoffs: Vec<(u8, Next, Packet)>,
    watched: bool,
}

impl Outputs {
    /// Empty queues.
    pub fn new() -> Self {
        Self {
            run: Box::default(),
            to: Next::Transmit,
            by_one_port: 0,
            queues: std::array::from_fn(|_| Vec::with_capacity(4 * BATCH)),
            dropped: Vec::with_capacity(4 * BATCH),
            handoffs: Vec::with_capacity(4 * BATCH),
            watched: false,
        }
    }

    /// Whether somebody looks at packets at every place: then none is passed over.
    pub const fn watch(&mut self, watched: bool) {
        self.watched = watched;
    }

    /// Whether packets may pass over a place whose work is done: nobody looks, and none
    /// waits there that came before them.
    #[inline]
    pub fn may_pass_over(&self, place: Next) -> bool {
        let waits = self.to == place && !self.run.is_empty();
        !self.watched && !waits && self.queues[place as usize].is_empty()
    }

    /// Sends a packet on.
    #[inline]
    pub fn send(&mut self, next: Next, packet: Packet) {
        if next != self.to {
            self.send_apart(next, packet);
        } else if let Err(full) = self.run.try_push(packet) {
            self.send_apart(next, full.element());
        }
    }

    /// Sends on a whole batch, as it stands, and leaves an empty one.
    #[inline]
    pub fn send_all(&mut self, next: Next, batch: &mut Box<Batch>) {
        if self.run.is_empty() {
            self.to = next;
            std::mem::swap(&mut self.run, batch);
        } else {
            batch.drain(..).for_each(|packet| self.send(next, packet));
        }
    }

    /// The same with frames that all leave by one port.
    #[inline]
    pub fn send_all_by_one_port(&mut self, next: Next, batch: &mut Box<Batch>) {
        if self.run.is_empty() {
            self.by_one_port = batch.len();
        }
        self.send_all(next, batch);
    }

    /// Whether it is known that all of the run leaves by one port.
    #[inline]
    pub fn run_leaves_by_one_port(&self) -> bool {
        self.run.len() == self.by_one_port
    }

    /// The first packet since the run was taken, one that goes another way, or
    /// one too many.
    #[inline(never)]
    fn send_apart(&mut self, next: Next, packet: Packet) {
        if self.run.is_full() {
            self.end_run();
        }
        if self.run.is_empty() {
            self.to = next;
            self.run.push(packet);
        } else {
            self.queues[next as usize].push(packet);
        }
    }

    /// Exchanges `batch`, which is empty, for the run, and says where that goes.
    /// Nothing if there is none, or if others wait there, which it then joins.
    #[inline]
    pub fn take_run(&mut self, batch: &mut Box<Batch>) -> Option<Next> {
        debug_assert!(batch.is_empty());
        if self.run.is_empty() {
            return None;
        }
        if !self.queues[self.to as usize].is_empty() {
            self.end_run();
            return None;
        }
        self.by_one_port = 0;
        std::mem::swap(&mut self.run, batch);
        Some(self.to)
    }

    /// Puts the run into its queue.
    #[cold]
    fn end_run(&mut self) {
        self.by_one_port = 0;
        self.queues[self.to as usize].extend(self.run.drain(..));
    }

    /// Sends a packet to `next` at another worker.
    #[inline]
    pub fn hand_off(&mut self, worker: u8, next: Next, packet: Packet) {
        self.handoffs.push((worker, next, packet));
    }

    /// Drops a packet.
    #[inline]
    pub fn drop(&mut self, packet: Packet, reason: DropReason) {
        self.dropped.push((packet, reason));
    }

    /// The queue in front of a stage.
    #[inline]
    pub fn queue(&mut self, next: Next) -> &mut Vec<Packet> {
        if !self.run.is_empty() {
            self.end_run();
        }
        &mut self.queues[next as usize]
    }

    /// What was dropped, for the worker to count and recycle.
    #[inline]
    pub fn dropped(&mut self) -> &mut Vec<(Packet, DropReason)> {
        &mut self.dropped
    }

    /// What goes to other workers.
    #[inline]
    pub fn handoffs(&mut self) -> &mut Vec<(u8, Next, Packet)> {
        &mut self.handoffs
    }

    /// Packets in all queues.
    pub fn held(&self) -> usize {
        let queued: usize = self.queues.iter().map(Vec::len).sum();
        self.run.len() + queued + self.dropped.len() + self.handoffs.len()
    }
}

impl Default for Outputs {
    fn default() -> Self {
        Self::new()
    }
}

/// What a stage is given beside its batch.
pub struct Ctx<'a> {
    /// The time of this batch.
    pub now: Instant,
    /// This worker's number.
    pub worker: u8,
    /// The configuration, as of this batch.
    pub tables: &'a Tables,
    /// Free packets.
    pub cache: &'a mut PoolCache,
    /// What is counted.
    pub tally: &'a mut Tally,
    /// Where packets go.
    pub out: &'a mut Outputs,
}

impl Ctx<'_> {
    /// A copy of `packet`, counted; nothing when the pool is empty.
    pub fn copy_of(&mut self, packet: &Packet) -> Option<Packet> {
        let copy = self.cache.copy_of(packet)?;
        self.tally.made += 1;
        self.tally.work.copied.add(packet.len());
        Some(copy)
    }

    /// A fresh packet with these octets, counted.
    pub fn make(&mut self, octets: &[u8]) -> Option<Packet> {
        let packet = self.cache.packet_from(octets)?;
        self.tally.made += 1;
        Some(packet)
    }

    /// Takes every packet out of `batch`: `way` says where each goes, or, with an `E`,
    /// that there is more to do, which `apart` does. As a rule all go the same way.
    /// Then they are not moved.
    #[inline(always)]
    pub fn pass<E>(
        &mut self,
        batch: &mut Box<Batch>,
        mut way: impl FnMut(&mut Self, &mut Packet) -> Result<Next, E>,
        mut apart: impl FnMut(&mut Self, Packet, E),
    ) {
        // All go where the first one goes, up to one that does not; from there on the
        // verdicts are kept.
        let (mut to, mut expected) = (Next::Control, None);
        let mut others = ArrayVec::<_, BATCH>::new();
        for packet in batch.iter_mut() {
            match way(self, packet) {
                Ok(next) if expected == Some(next) => {}
                Ok(next) if expected.is_none() && others.is_empty() => {
                    (to, expected) = (next, Some(next));
                }
                verdict => {
                    expected = None;
                    others.push(verdict);
                }
            }
        }
        if others.is_empty() {
            return self.out.send_all(to, batch);
        }
        for packet in batch.drain(..batch.len() - others.len()) {
            self.out.send(to, packet);
        }
        for (packet, verdict) in batch.drain(..).zip(others) {
            match verdict {
                Ok(next) => self.out.send(next, packet),
                Err(more) => apart(self, packet, more),
            }
        }
    }

    /// Drops a packet.
    #[inline]
    pub fn drop(&mut self, packet: Packet, reason: DropReason) {
        self.out.drop(packet, reason);
    }

    /// Drops a packet, or gives it to another worker.
    pub fn set_aside(&mut self, packet: Packet, aside: Aside) {
        match aside {
            Aside::Drop(reason) => self.out.drop(packet, reason),
            Aside::HandOff(worker, next) => self.out.hand_off(worker, next, packet),
        }
    }

    /// Ends a packet that did its job here.
    pub fn consume(&mut self, packet: Packet) {
        self.tally.consumed += 1;
        self.cache.recycle(packet);
    }
}

/// A vertex of the graph.
pub trait Stage {
    /// Takes every packet out of `batch` and sends each to `ctx.out`.
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>);
}
