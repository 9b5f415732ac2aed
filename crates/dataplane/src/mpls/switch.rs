//! Label switching (RFC 3031 section 3, RFC 3032, RFC 3443).

use super::config::{Operation, Paths, Slot};
use crate::graph::{Aside, Ctx, Next, Stage};
use crate::route::{Labels, TIME_EXCEEDED_V4, TIME_EXCEEDED_V6, TOO_BIG_V4, TOO_BIG_V6, TtlModel};
use crate::tables::Tables;
use ferrule_base::{DropReason, VrfId};
use ferrule_pipeline::{BATCH, Batch, Packet};
use ferrule_wire::flow::path_hash;
use ferrule_wire::mpls::{Header, Stack, decode, encode, special};
use ferrule_wire::{EtherType, FromBytes, ethernet, ipv4, ipv6};

/// Labels for this node at most in front of one packet.
pub const POPS_MAX: usize = 8;
/// TTL of a label in the pipe model.
const PIPE_TTL: u8 = 255;

/// The stage at [`Next::Mpls`].
#[derive(Default)]
pub struct Switch {
    columns: Box<Columns>,
}

/// Entries of a batch's top labels.
struct Columns {
    /// Places of entries.
    slots: [u32; BATCH],
    /// Of entries with several paths: the place of the flow's.
    paths: [u32; BATCH],
}

impl Default for Columns {
    fn default() -> Self {
        Self { slots: [0; BATCH], paths: [0; BATCH] }
    }
}

impl Stage for Switch {
    /// For each packet:
    ///
    /// 1. The top label says what to do; its TTL must allow another hop, or its sender is
    ///    told.
    /// 2. Swap, push or pop, and out by the adjacency. A label stack too long for the link:
    ///    what it carries is cut, or its sender is told (RFC 3032 section 3.4).
    /// 3. Or the end of the label switched path: to its VRF or pseudowire.
    /// 4. Or the next label is for this node too: again. So it is below a router alert,
    ///    which asks for nothing here and goes on with the packet (RFC 3032 section 2.1),
    ///    and below an entropy label at its path's end (RFC 6790 section 4.1).
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        let columns = &mut *self.columns;
        columns.look_up(ctx.tables, batch);
        let mut at = 0;
        ctx.forward(batch, |ctx, packet| {
            let found = [columns.slots[at % BATCH], columns.paths[at % BATCH]];
            let received = packet.len();
            at += 1;
            match switch(ctx.tables, packet, found, &mut ctx.tally.work.lookups) {
                Ok(next) => Ok(next),
                Err(refusal) => Err(refusal.told(received, packet)),
            }
        });
    }
}

impl Columns {
    /// Finds the entries of all top labels, then the paths of those that have several.
    #[inline(always)]
    fn look_up(&mut self, tables: &Tables, batch: &Batch) {
        for (packet, slot) in batch.iter().zip(&mut self.slots) {
            let label = packet.data().first_chunk().map_or(0, |&entry| decode(entry).0);
            *slot = tables.lfib.place(label);
        }
        if tables.lfib.has_paths() {
            self.balance(tables, batch);
        }
    }

    #[inline(never)]
    fn balance(&mut self, tables: &Tables, batch: &Batch) {
        let rows = self.slots.iter().zip(&mut self.paths);
        for (packet, (&slot, path)) in batch.iter().zip(rows) {
            let slot = tables.lfib.slot(slot);
            if let Some(&Slot { operation: Operation::Balance(paths), .. }) = slot {
                *path = path_of(tables, paths, packet);
            }
        }
    }
}

/// The place of the path that a packet's flow takes: by its labels and the IP packet below
/// them, or its entropy label.
#[inline(always)]
fn path_of(tables: &Tables, paths: Paths, packet: &Packet) -> u32 {
    let flow = path_hash(tables.hot.groups.seed(), EtherType::MPLS, packet.data());
    tables.lfib.path_of(paths, flow, tables)
}

/// The entry in front, with the TTL that earlier labels left.
#[derive(Clone, Copy)]
struct Top {
    label: u32,
    class: u8,
    bottom: bool,
    ttl: u8,
}

/// Reason that a packet does not go on. The packet is not modified, but labels may be off.
enum Refusal {
    /// Dropped without a message to the sender.
    Drop(DropReason),
    /// Within the path.
    Expired,
    /// With labels, longer than the link takes by the octets in `limit`.
    TooLong,
}

const _: () = assert!(size_of::<Result<Next, Refusal>>() <= 2, "it goes in a register");

impl From<DropReason> for Refusal {
    fn from(reason: DropReason) -> Self {
        Self::Drop(reason)
    }
}

impl Refusal {
    /// End of a packet that had this length on arrival: the sender of an IP packet in a
    /// label stack gets an ICMP error where that is of use; any other packet is dropped.
    #[cold]
    fn told(self, received: usize, packet: &mut Packet) -> Aside {
        let reason = match self {
            Self::Drop(reason) => return reason.into(),
            Self::Expired => DropReason::TtlExpired,
            Self::TooLong => DropReason::TooBig,
        };
        // The message tells the labels as they came.
        let taken_off = received.saturating_sub(packet.len());
        if packet.prepend(taken_off).is_none() {
            return reason.into();
        }
        let Some(carried) = Carried::of(packet.data()) else { return reason.into() };
        let meta = packet.meta_mut();
        meta.ethertype = EtherType::MPLS.0;
        if matches!(self, Self::Expired) {
            (meta.icmp, meta.limit, meta.offset) = (carried.time_exceeded(), 0, 0);
            return Aside::To(Next::IcmpError);
        }
        let limit = (carried.len as u16).saturating_sub(std::mem::take(&mut meta.limit));
        if carried.may_be_cut {
            return Aside::Cut(limit, Next::Mpls);
        }
        (meta.icmp, meta.limit, meta.offset) = (carried.too_big(), limit, 0);
        Aside::To(Next::IcmpError)
    }
}

/// The IP packet in a label stack.
struct Carried {
    version: u8,
    len: usize,
    may_be_cut: bool,
}

impl Carried {
    /// Nothing if the octets below the labels are not IP: an Ethernet frame may begin like
    /// it, but has neither its lengths nor its checksum.
    fn of(packet: &[u8]) -> Option<Self> {
        let (_, behind) = Stack::parse(packet).ok()?;
        match behind.first()? >> 4 {
            4 => {
                let (header, _, len) = ipv4::validate(behind).ok()?;
                Some(Self { version: 4, len, may_be_cut: !header.dont_fragment() })
            }
            6 => {
                let (_, len) = ipv6::validate(behind).ok()?;
                Some(Self { version: 6, len, may_be_cut: false })
            }
            _ => None,
        }
        // Behind it there is padding of a short frame at most.
        .filter(|carried| carried.len == behind.len() || packet.len() <= ethernet::PAYLOAD_MIN)
    }

    const fn time_exceeded(&self) -> u16 {
        if self.version == 4 { TIME_EXCEEDED_V4 } else { TIME_EXCEEDED_V6 }
    }

    const fn too_big(&self) -> u16 {
        if self.version == 4 { TOO_BIG_V4 } else { TOO_BIG_V6 }
    }
}

/// Switches a packet, for whose top label this entry and path were found.
#[inline(always)]
fn switch(
    tables: &Tables,
    packet: &mut Packet,
    [slot, path]: [u32; 2],
    lookups: &mut u64,
) -> Result<Next, Refusal> {
    let mut ceiling = u8::MAX;
    let mut alert = None;
    for turn in 0..POPS_MAX {
        let Some(&entry) = packet.data().first_chunk() else {
            return Err(DropReason::Malformed.into());
        };
        let (label, class, bottom, ttl) = decode(entry);
        let top = Top { label, class, bottom, ttl: ttl.min(ceiling) };
        if label == special::ROUTER_ALERT.get() && !bottom && alert.is_none() {
            within_path(top.ttl)?;
            packet.strip(Header::LEN);
            (ceiling, alert) = (top.ttl, Some(class));
            continue;
        }
        if label == special::ENTROPY_INDICATOR.get() && !bottom {
            if let Some(next) = past_entropy(top, packet)? {
                return Ok(next);
            }
            ceiling = top.ttl;
            continue;
        }
        *lookups += 1;
        let slot = if turn == 0 { slot } else { tables.lfib.place(label) };
        let Some(&Slot { ref operation, ttl: model, longest }) = tables.lfib.slot(slot) else {
            return Err(unknown(label).into());
        };
        match *operation {
            Operation::Forward(ref labels, adjacency) => {
                return send_on((labels, adjacency), longest, model, top, alert, packet);
            }
            Operation::Balance(paths) => {
                let path = if turn == 0 { path } else { path_of(tables, paths, packet) };
                let path = tables.lfib.path(path).ok_or(DropReason::NotAttached)?;
                let way = (&path.labels, path.member.adjacency);
                return send_on(way, path.longest, model, top, alert, packet);
            }
            Operation::Ip(vrf) if bottom => return Ok(to_ip(vrf, model, top, packet)?),
            Operation::Pw(pw) if bottom => {
                hop(top.ttl)?;
                packet.strip(Header::LEN);
                packet.meta_mut().pw = pw;
                return Ok(Next::PwIn);
            }
            Operation::Ip(VrfId::GLOBAL) => {
                ceiling = match model {
                    // There is more of the path below: the sender is told.
                    TtlModel::Uniform => within_path(top.ttl).map(|_| top.ttl)?,
                    TtlModel::Pipe => hop(top.ttl).map(|_| u8::MAX)?,
                };
                packet.strip(Header::LEN);
            }
            Operation::Ip(_) | Operation::Pw(_) => return Err(DropReason::LabelStack.into()),
        }
    }
    Err(DropReason::LabelStack.into())
}

/// Out by an adjacency, with labels in place of the top one; `longest` packets fit it.
#[inline(always)]
fn send_on(
    (labels, adjacency): (&Labels, u32),
    longest: u16,
    model: TtlModel,
    top: Top,
    alert: Option<u8>,
    packet: &mut Packet,
) -> Result<Next, Refusal> {
    // An IP packet without labels is cut, or told about, on its way out.
    let len = (packet.len() + if alert.is_some() { Header::LEN } else { 0 }) as u16;
    if len > longest && (!top.bottom || !labels.is_empty()) {
        packet.meta_mut().limit = len - longest;
        return Err(Refusal::TooLong);
    }
    forward(labels, model, top, packet)?;
    if let Some(class) = alert {
        raise_alert(class, packet)?;
    }
    packet.meta_mut().adjacency = adjacency;
    Ok(Next::Output)
}

/// Takes an entropy label off with its indicator; where IP goes that is right behind it.
#[inline(never)]
fn past_entropy(top: Top, packet: &mut Packet) -> Result<Option<Next>, Refusal> {
    packet.strip(Header::LEN);
    let Some(&entropy) = packet.data().first_chunk() else {
        return Err(DropReason::Malformed.into());
    };
    let (_, _, bottom, _) = decode(entropy);
    if bottom {
        return Ok(Some(to_ip(VrfId::GLOBAL, TtlModel::Uniform, top, packet)?));
    }
    packet.strip(Header::LEN);
    Ok(None)
}

#[cold]
fn unknown(label: u32) -> DropReason {
    if label < special::FIRST_ORDINARY.get() {
        DropReason::ReservedLabel
    } else {
        DropReason::NoLabel
    }
}

/// The TTL after this hop (RFC 3032 section 2.4.2).
#[inline]
const fn hop(ttl: u8) -> Result<u8, DropReason> {
    if ttl > 1 { Ok(ttl - 1) } else { Err(DropReason::TtlExpired) }
}

/// The same within a path, where the packet's sender is told.
#[inline]
fn within_path(ttl: u8) -> Result<u8, Refusal> {
    hop(ttl).map_err(|_| Refusal::Expired)
}

/// Swap, with more labels above if the entry has more; or pop.
#[inline]
fn forward(labels: &Labels, model: TtlModel, top: Top, packet: &mut Packet) -> Result<(), Refusal> {
    let ttl = within_path(top.ttl)?;
    let Some((&first, above)) = labels.split_first() else {
        return Ok(expose(model, top, ttl, packet)?);
    };
    if let Some(entry) = packet.data_mut().first_chunk_mut() {
        *entry = encode(first, top.class, top.bottom, ttl);
    }
    for &label in above {
        let ttl = match model {
            TtlModel::Uniform => ttl,
            TtlModel::Pipe => PIPE_TTL,
        };
        let entry = packet.prepend(Header::LEN).ok_or(DropReason::NoRoom)?;
        entry.copy_from_slice(&encode(label, top.class, false, ttl));
    }
    packet.meta_mut().ethertype = EtherType::MPLS.0;
    Ok(())
}

/// Puts the router alert back on top of the labels that are left, for the next router,
/// with their TTL. An IP packet goes on without: the alert is never the last label.
#[cold]
fn raise_alert(class: u8, packet: &mut Packet) -> Result<(), DropReason> {
    if packet.meta().ethertype != EtherType::MPLS.0 {
        return Ok(());
    }
    let &below = packet.data().first_chunk().ok_or(DropReason::Malformed)?;
    let (_, _, _, ttl) = decode(below);
    let entry = packet.prepend(Header::LEN).ok_or(DropReason::NoRoom)?;
    entry.copy_from_slice(&encode(special::ROUTER_ALERT.get(), class, false, ttl));
    Ok(())
}

/// Takes the label off for the last router of the path (RFC 3031 section 3.16). In the
/// uniform model the exposed header bears the TTL of the label, but never more than it had
/// (RFC 3443).
#[inline]
fn expose(model: TtlModel, top: Top, ttl: u8, packet: &mut Packet) -> Result<(), DropReason> {
    packet.strip(Header::LEN);
    let ceiling = match model {
        TtlModel::Uniform => ttl,
        TtlModel::Pipe => u8::MAX,
    };
    if top.bottom {
        let ethertype = limit_ip(ceiling, packet)?;
        packet.meta_mut().ethertype = ethertype.0;
        return Ok(());
    }
    let (entry, _) =
        Header::mut_from_prefix(packet.data_mut()).map_err(|_| DropReason::Malformed)?;
    if ceiling < entry.ttl() {
        entry.set_ttl(ceiling);
    }
    packet.meta_mut().ethertype = EtherType::MPLS.0;
    Ok(())
}

/// The end of the path: an IP packet, which loses its hop when it is routed. In
/// the uniform model one that has no hop left goes on too, for the IP stage to
/// tell its sender; in the pipe model its sender does not know of the path.
#[inline]
fn to_ip(vrf: VrfId, model: TtlModel, top: Top, packet: &mut Packet) -> Result<Next, DropReason> {
    let ceiling = match model {
        TtlModel::Uniform => top.ttl,
        TtlModel::Pipe => {
            hop(top.ttl)?;
            u8::MAX
        }
    };
    packet.strip(Header::LEN);
    let ethertype = limit_ip(ceiling, packet)?;
    // RFC 3032 section 2.1: these labels tell the protocol that follows.
    let wrong = match ethertype {
        EtherType::IPV4 => special::EXPLICIT_NULL_V6,
        _ => special::EXPLICIT_NULL_V4,
    };
    if top.label == wrong.get() {
        return Err(DropReason::UnknownProtocol);
    }
    let meta = packet.meta_mut();
    (meta.vrf, meta.ethertype) = (vrf, ethertype.0);
    Ok(Next::Ip)
}

/// The protocol of the packet in front, by its version; its TTL becomes
/// `ceiling` if it is higher.
#[inline]
fn limit_ip(ceiling: u8, packet: &mut Packet) -> Result<EtherType, DropReason> {
    let data = packet.data_mut();
    match data.first().map(|octet| octet >> 4) {
        Some(4) => {
            let (header, _) =
                ipv4::Header::mut_from_prefix(data).map_err(|_| DropReason::Malformed)?;
            if ceiling < header.ttl {
                header.set_ttl(ceiling);
            }
            Ok(EtherType::IPV4)
        }
        Some(6) => {
            let (header, _) =
                ipv6::Header::mut_from_prefix(data).map_err(|_| DropReason::Malformed)?;
            header.hop_limit = header.hop_limit.min(ceiling);
            Ok(EtherType::IPV6)
        }
        Some(_) => Err(DropReason::UnknownProtocol),
        None => Err(DropReason::Malformed),
    }
}
