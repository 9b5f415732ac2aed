//! The contract between stages: the places to which a packet can go next, and the input of
//! a stage.
//!
//! The place to which a packet was sent settles what a stage finds in it ([`Next`] says it
//! for each). [`Meta`](ferrule_pipeline::Meta) carries the rest, each field with one
//! meaning:
//!
//! | field | set by |
//! |---|---|
//! | `port` | receive: of arrival; `output`, bridge, PW in: of departure |
//! | `iface` | attach: of arrival; bridge, PW in: of departure, for `FrameAclOut` |
//! | `vrf` | attach, MPLS, ESP in, AH in |
//! | `ethertype` | attach, MPLS, PW out, ESP, AH |
//! | `offset` | IP, for `Local`, `Keying`, `EspIn`, `AhIn`, `PathError`; with `icmp`, the field at fault |
//! | `adjacency` | IP, MPLS, PW out, ESP out, AH out |
//! | `sa` | policy, and an SA within another; for `Acquire` the slot |
//! | `opened` | ESP in, AH in, with [`FLAG_OPENED`] |
//! | `pw` | attach, MPLS |
//! | `icmp`, `limit` | the stage that sends to `IcmpError` |
//! | `limit` | with [`FLAG_CUT`], ESP out and AH out |
//! | `limit` | of an ICMP error about a path, `PathError` once a worker believed it |
//! | `hash` | the worker that received the frame, when workers share |
//! | `link` | a card, while ESP works on the packet |
//! | `turns` | IP |

use crate::audit::Audit;
use crate::ipsec::Hits;
use crate::tables::Tables;
use crate::{bridge, fragment};
use arrayvec::ArrayVec;
use ferrule_base::{Answers, DropReason, Drops, Instant, STAGES_MAX, Work};
use ferrule_pipeline::{AHEAD, BATCH, Batch, Packet, PoolCache};
use strum::{IntoStaticStr, VariantArray};

/// The packet was made here: TTL is not decremented, its source is ours.
pub const FLAG_LOCAL: u8 = 1;
/// The packet came out of the inbound SA `opened`, whose selectors it was checked against.
pub const FLAG_OPENED: u8 = 2;
/// The packet is already protected or exempt: outbound policy does not look again.
pub const FLAG_EXEMPT: u8 = 4;
/// The packet came from a group address on layer 2: no ICMP error may answer it.
pub const FLAG_GROUP: u8 = 8;
/// ESP stands behind a UDP header (RFC 3948).
pub const FLAG_ENCAP: u8 = 16;
/// A fragment whose datagram is wanted whole by a policy: it goes back to `Policy`.
pub const FLAG_ONWARDS: u8 = 32;
/// The packet was reassembled here: its sender accepts an answer in fragments, too.
pub const FLAG_WHOLE: u8 = 64;
/// The packet was made here for a path of `limit` octets, and is cut for it on its way out.
pub const FLAG_CUT: u8 = 128;

/// Next place of a packet, and its shape on arrival there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
#[repr(u8)]
pub enum Next {
    /// Whole frame as received on `port`; the port has a SecY.
    SecyIn,
    /// Whole clear frame from `port`: to be attached to an interface.
    Attach,
    /// Whole frame of the interface `iface`, a member of a bridge or the attachment circuit of
    /// the pseudowire `pw`, which has an inbound access list; tags as the next stage wants
    /// them.
    FrameAclIn,
    /// Whole frame of the bridged interface `iface`, with the interface's own
    /// tag taken off.
    Bridge,
    /// Whole frame for the pseudowire `pw`, tag as the PW mode wants it.
    PwOut,
    /// Label stack first, in `vrf` 0.
    Mpls,
    /// Control word (if the PW has one), then the frame, for pseudowire `pw`.
    PwIn,
    /// Whole frame that leaves by the interface `iface`, which has an outbound access list: a
    /// member of a bridge, tags as in the bridge, or an attachment circuit, tags as on its
    /// wire.
    FrameAclOut,
    /// IP packet in `vrf`, arrived by `iface`, which validates sources.
    SourceCheck,
    /// IP packet in `vrf`, arrived by `iface`, which has an inbound access list.
    AclIn,
    /// IP header first, in `vrf`, arrived by `iface` (unless made here).
    Ip,
    /// A fragment of a datagram that is wanted whole: then it goes to `Ip`, or, with
    /// [`FLAG_ONWARDS`], to `Policy`.
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
    /// IP packet leaving by `adjacency`, whose interface has an outbound access list.
    AclOut,
    /// IP packet leaving by `adjacency`, whose interface, or the one by which it came,
    /// limits TCP's segments.
    Clamp,
    /// IP packet leaving by `adjacency`, whose interface has a policy.
    Policy,
    /// IP packet to be sealed by outbound SA `sa`.
    EspOut,
    /// IP packet to be authenticated by outbound AH SA `sa`.
    AhOut,
    /// An offending IP packet, which becomes the ICMP error `icmp`, with `limit` as its
    /// MTU and `offset` as its pointer.
    IcmpError,
    /// IP packet or label stack (`ethertype` says which) for `adjacency`.
    Output,
    /// Whole clear frame for `port`; may be handed to the port's worker.
    Emit,
    /// Whole clear frame for `port`, which has a SecY and is this worker's.
    SecyOut,
    /// Whole frame as it goes on the wire of `port`.
    Transmit,
    /// Whole frame of the control part as it goes on the wire of `port`, before those that wait.
    TransmitFirst,
    /// Whole frame from `port` for the control part: ARP, ND.
    Control,
    /// Whole frame from `port`, past its SecY, for the port's MKA entity.
    Eapol,
    /// IP packet for the node itself, UDP at a port of keying programs; UDP header at `offset`.
    Keying,
    /// `Output` packet that waits at the control part for its neighbour's link address.
    Resolve,
    /// `Policy` packet for slot `sa`, which has no SA: it waits at the control part while a
    /// keying program agrees on one.
    Acquire,
}

/// Times a packet may go back to an earlier stage.
pub const TURNS_MAX: u8 = 8;

impl Next {
    /// Every place, in the order in which a worker visits them.
    pub const ALL: [Self; Self::VARIANTS.len()] = *Self::VARIANTS.first_chunk().unwrap();

    /// The number of a place, in counts by stage.
    #[inline(always)]
    pub const fn number(self) -> usize {
        self as usize
    }

    /// The place of this number.
    #[inline(always)]
    fn from_place(place: u8) -> Option<Self> {
        Self::ALL.get(usize::from(place)).copied()
    }

    /// The stage at which a packet from another worker goes on.
    #[inline(always)]
    pub fn of(packet: &Packet) -> Option<Self> {
        Self::from_place(packet.stage())
    }

    /// The name in traces.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

const _: () = assert!(Next::ALL.len() <= STAGES_MAX, "stages are counted by number");
const _: () = assert!(Next::ALL.len() <= Verdicts::ELSEWHERE as usize, "a bit beside a place");

/// Counters of a worker.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Dropped, by reason.
    pub drops: Drops,
    /// ICMP messages made, and those that the rate limit held back.
    pub answers: Answers,
    /// The first packets that were refused.
    pub audit: Audit,
    /// Work done.
    pub work: Work,
    /// Packets made here: copies, fragments, replies, errors.
    pub made: u64,
    /// Packets that ended here as intended.
    pub consumed: u64,
    /// Matches of policy entries.
    pub hits: Hits,
    /// Matches of access list entries.
    pub list_hits: Hits,
}

/// Fate of a packet that does not go on as the others of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aside {
    /// Drop for this reason.
    Drop(DropReason),
    /// Hand-off to another worker, at this stage.
    HandOff(u8, Next),
    /// Another stage instead.
    To(Next),
    /// Fragments of at most so many octets, which go to this stage.
    Cut(u16, Next),
    /// A copy for every other member of its bridge.
    Flood,
    /// End of the packet without a drop.
    Consume,
}

impl From<DropReason> for Aside {
    fn from(reason: DropReason) -> Self {
        Self::Drop(reason)
    }
}

/// Output of a stage. Most of a batch goes the same way: the first packet's next stage gets
/// a *run*, handed over as the batch that it will be there; for packets that go elsewhere
/// there is one queue for each next stage. A batch that goes one way stays as it is
/// ([`send_all`](Self::send_all)).
pub struct Outputs {
    run: Box<Batch>,
    /// Next place of the run, if there are packets in it.
    to: Next,
    queues: [Vec<Packet>; Next::ALL.len()],
    dropped: Vec<(Packet, DropReason)>,
    /// Packets for other workers, by worker, each with the number of its stage.
    handoffs: Vec<Vec<Packet>>,
    /// Number of them.
    handed_off: usize,
}

impl Outputs {
    /// Empty queues.
    pub fn new() -> Self {
        Self {
            run: Box::default(),
            to: Next::Transmit,
            queues: std::array::from_fn(|_| Vec::with_capacity(4 * BATCH)),
            dropped: Vec::with_capacity(4 * BATCH),
            handoffs: Vec::new(),
            handed_off: 0,
        }
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
        std::mem::swap(&mut self.run, batch);
        Some(self.to)
    }

    /// Puts the run into its queue.
    #[cold]
    fn end_run(&mut self) {
        self.queues[self.to as usize].extend(self.run.drain(..));
    }

    /// Sends a packet to `next` at another worker.
    #[inline]
    pub fn hand_off(&mut self, worker: u8, next: Next, mut packet: Packet) {
        let worker = usize::from(worker);
        if worker >= self.handoffs.len() {
            self.make_room_for(worker);
        }
        packet.set_stage(next as u8);
        self.handoffs[worker].push(packet);
        self.handed_off += 1;
    }

    /// Queues for the workers up to this one.
    #[cold]
    fn make_room_for(&mut self, worker: usize) {
        self.handoffs.resize_with(worker + 1, Vec::new);
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

    /// Dropped packets, for the worker to count and recycle.
    #[inline]
    pub fn dropped(&mut self) -> &mut Vec<(Packet, DropReason)> {
        &mut self.dropped
    }

    /// Takes the packets for other workers: the queue of each, to be emptied.
    #[inline]
    pub fn take_handoffs(&mut self) -> &mut [Vec<Packet>] {
        self.handed_off = 0;
        &mut self.handoffs
    }

    /// Number of packets for other workers.
    #[inline]
    pub fn handed_off(&self) -> usize {
        self.handed_off
    }

    /// Takes the packets for other workers, each with its worker and stage.
    #[cfg(test)]
    pub(crate) fn all_handoffs(&mut self) -> Vec<(u8, Next, Packet)> {
        let stage = |packet: &Packet| Next::of(packet).expect("it was handed over");
        let queues = (0..).zip(self.take_handoffs());
        queues.flat_map(|(w, q)| q.drain(..).map(move |p| (w, stage(&p), p))).collect()
    }

    /// Packets in all queues.
    pub fn held(&self) -> usize {
        let queued: usize = self.queues.iter().map(Vec::len).sum();
        self.run.len() + queued + self.dropped.len() + self.handed_off()
    }
}

impl Default for Outputs {
    fn default() -> Self {
        Self::new()
    }
}

/// Next stages of a batch's packets by place, and the fate of those that go nowhere.
struct Verdicts {
    places: [u8; BATCH],
    /// Number of the worker, for a place that belongs to another worker.
    workers: [u8; BATCH],
    asides: Asides,
}

impl Verdicts {
    /// Place of a packet that is set aside.
    const ASIDE: u8 = u8::MAX;
    /// Flag beside a place: it is another worker's.
    const ELSEWHERE: u8 = 0x40;

    const fn new() -> Self {
        Self { places: [0; BATCH], workers: [0; BATCH], asides: Asides(ArrayVec::new_const()) }
    }
}

/// Decisions about packets that are set aside, in their order.
struct Asides(ArrayVec<Aside, BATCH>);

impl Asides {
    #[cold]
    fn set_aside(&mut self, aside: Aside) -> u8 {
        self.0.push(aside);
        Verdicts::ASIDE
    }
}

/// Context of a stage beside its batch.
pub struct Ctx<'a> {
    /// The time of this batch.
    pub now: Instant,
    /// This worker's number.
    pub worker: u8,
    /// The configuration, as of this batch.
    pub tables: &'a Tables,
    /// Free packets.
    pub cache: &'a mut PoolCache,
    /// The worker's counters.
    pub tally: &'a mut Tally,
    /// The stage's output.
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

    /// Sends on all packets of a batch, each to where `verdict` says. As a rule they all
    /// go the same way; then the batch is handed over as it is.
    #[inline(always)]
    pub fn forward(
        &mut self,
        batch: &mut Box<Batch>,
        verdict: impl FnMut(&mut Self, &mut Packet) -> Result<Next, Aside>,
    ) {
        self.forward_all::<false>(batch, verdict);
    }

    /// The same for a stage behind one whose work pushed packets' octets out of the nearest
    /// cache: each one's are asked for a few packets ahead.
    #[inline(always)]
    pub fn forward_from_afar(
        &mut self,
        batch: &mut Box<Batch>,
        verdict: impl FnMut(&mut Self, &mut Packet) -> Result<Next, Aside>,
    ) {
        self.forward_all::<true>(batch, verdict);
    }

    #[inline(always)]
    fn forward_all<const AFAR: bool>(
        &mut self,
        batch: &mut Box<Batch>,
        mut verdict: impl FnMut(&mut Self, &mut Packet) -> Result<Next, Aside>,
    ) {
        let mut verdicts = Verdicts::new();
        let count = batch.len().min(BATCH);
        let packets = &mut batch[..count];
        for at in 0..count {
            if AFAR {
                packets.get(at + AHEAD).into_iter().for_each(Packet::prefetch);
            }
            verdicts.places[at] = match verdict(self, &mut packets[at]) {
                Ok(next) => next as u8,
                // With several workers, half of a batch or more.
                Err(Aside::HandOff(other, next)) => {
                    verdicts.workers[at] = other;
                    Verdicts::ELSEWHERE | next as u8
                }
                Err(aside) => verdicts.asides.set_aside(aside),
            };
        }
        let (places, _) = verdicts.places.split_at(batch.len().min(BATCH));
        match places.first().and_then(|&first| Next::from_place(first)) {
            // Compares every place, so that it is a few vectors' work.
            Some(next) if places.iter().fold(0, |all, &place| all | place ^ next as u8) == 0 => {
                self.out.send_all(next, batch);
            }
            _ => self.split(batch, &verdicts),
        }
    }

    /// Sends on a batch whose packets go different ways.
    #[inline(never)]
    fn split(&mut self, batch: &mut Batch, verdicts: &Verdicts) {
        let mut asides = verdicts.asides.0.iter();
        let rows = verdicts.places.iter().zip(&verdicts.workers);
        for (packet, (&place, &worker)) in batch.drain(..).zip(rows) {
            match Next::from_place(place & !Verdicts::ELSEWHERE) {
                Some(next) if place & Verdicts::ELSEWHERE == 0 => self.out.send(next, packet),
                Some(next) => self.out.hand_off(worker, next, packet),
                None => {
                    let aside = asides.next().copied().unwrap_or(Aside::Consume);
                    self.set_aside(packet, aside);
                }
            }
        }
    }

    /// Drops a packet.
    #[inline]
    pub fn drop(&mut self, packet: Packet, reason: DropReason) {
        self.out.drop(packet, reason);
    }

    /// Carries out a stage's decision about a packet that goes apart from the others.
    #[cold]
    pub fn set_aside(&mut self, mut packet: Packet, aside: Aside) {
        match aside {
            Aside::Drop(reason) => self.out.drop(packet, reason),
            Aside::HandOff(worker, next) => self.out.hand_off(worker, next, packet),
            Aside::To(next) => self.out.send(next, packet),
            Aside::Consume => self.consume(packet),
            Aside::Flood => bridge::flood(self, packet),
            Aside::Cut(limit, next) => {
                let mut rest = fragment::Rest::new();
                match fragment::cut(self, &mut packet, limit.into(), &mut rest) {
                    Ok(()) => {
                        self.out.send(next, packet);
                        rest.drain(..).rev().for_each(|piece| self.out.send(next, piece));
                    }
                    Err(reason) => self.out.drop(packet, reason),
                }
            }
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
