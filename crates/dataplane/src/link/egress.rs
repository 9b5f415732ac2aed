//! From an adjacency, or a finished frame, to a port.

use super::exit::{ENTROPY_ENTRIES, Exit, LINK_TAG};
use crate::graph::{Aside, Ctx, FLAG_CUT, FLAG_LOCAL, FLAG_WHOLE, Next, Stage};
use crate::route::config::LABELS_MAX;
use crate::route::{TOO_BIG_V4, TOO_BIG_V6, TtlModel};
use crate::tables::Tables;
use ferrule_base::{DropReason, MacAddr};
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::flow::{path_hash, path_of_flow};
use ferrule_wire::{EtherType, FromBytes, ethernet, ipv4, ipv6, mpls, ndp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// TTL of a label in the pipe model.
const PIPE_TTL: u8 = 255;

/// The stage at [`Next::Output`].
#[derive(Default)]
pub struct Output;

impl Stage for Output {
    /// For each packet:
    ///
    /// 1. The neighbour's link address, or to the control part that finds it.
    /// 2. Too long for the link with its labels: cut, or its sender is told.
    /// 3. Labels, Ethernet header and VLAN tag go in front.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        let (tables, worker) = (ctx.tables, ctx.worker);
        // From its line to the neighbour's address it is one read after the other.
        batch.iter().for_each(Packet::prefetch_meta);
        ctx.forward(batch, |ctx, packet| {
            let exit = tables.hot.exits.get(packet.meta().adjacency as usize);
            let exit = exit.filter(|exit| exit.is_routed).ok_or(DropReason::NotAttached)?;
            // 1
            let mac = match exit.neighbour() {
                Some(slot) => tables.neighbours.link(slot),
                None => connected(tables, exit.iface, packet)?,
            };
            if mac == 0 {
                return Ok(Next::Resolve);
            }
            // 2
            if packet.len() > usize::from(exit.longest) || packet.meta().flags & FLAG_CUT != 0 {
                too_long(exit, packet)?;
            }
            // 3
            if exit.label_count != 0 {
                push_labels(packet, exit)?;
                let entropy = if exit.entropy { ENTROPY_ENTRIES as u64 } else { 0 };
                ctx.tally.work.labels += u64::from(exit.label_count) + entropy;
            }
            write(exit, mac, worker, packet)
        });
    }
}

/// Octets of an Ethernet header.
const LINK: usize = ethernet::Header::LEN;

/// Puts the link header in front of a packet or its labels; where the frame goes.
#[inline(always)]
fn write(exit: &Exit, dst: u64, worker: u8, packet: &mut Packet) -> Result<Next, Aside> {
    let ethertype = packet.meta().ethertype;
    let src = exit.mac;
    let first = dst << 16 | src >> 32;
    // In words that overlap, so that nothing goes by way of memory.
    let written = if exit.tpid == 0 {
        packet.front::<LINK>().map(|room| {
            room[..8].copy_from_slice(&first.to_be_bytes());
            room[6..].copy_from_slice(&(src << 16 | u64::from(ethertype)).to_be_bytes());
        })
    } else {
        packet.front::<LINK_TAG>().map(|room| {
            let tag = u32::from(exit.tci) << 16 | u32::from(ethertype);
            room[..8].copy_from_slice(&first.to_be_bytes());
            room[6..14].copy_from_slice(&(src << 16 | u64::from(exit.tpid)).to_be_bytes());
            room[14..].copy_from_slice(&tag.to_be_bytes());
        })
    };
    packet.meta_mut().port = exit.port;
    if written.is_some() { Ok(exit.after_output(worker)) } else { Err(DropReason::NoRoom.into()) }
}

/// The link address of the destination itself as a number; zero: not known.
#[inline(never)]
fn connected(tables: &Tables, iface: u16, packet: &Packet) -> Result<u64, DropReason> {
    let ip = match EtherType(packet.meta().ethertype) {
        EtherType::IPV4 => {
            let dst = ipv4::Header::ref_from_prefix(packet.data())
                .map_or(Ipv4Addr::UNSPECIFIED, |(h, _)| h.dst.into());
            if dst.is_multicast() {
                return Ok(group_v4(dst).to_u64());
            }
            IpAddr::V4(dst)
        }
        EtherType::IPV6 => {
            let dst = ipv6::Header::ref_from_prefix(packet.data())
                .map_or(Ipv6Addr::UNSPECIFIED, |(h, _)| h.dst.into());
            if dst.is_multicast() {
                return Ok(ndp::group_mac(dst).to_u64());
            }
            IpAddr::V6(dst)
        }
        // A label stack has no address that could be asked for.
        _ => return Err(DropReason::NoNeighbour),
    };
    if ip.is_unspecified() {
        return Err(DropReason::NoNeighbour);
    }
    Ok(tables.neighbours.find(iface, ip).map_or(0, MacAddr::to_u64))
}

/// The Ethernet address of an IPv4 group (RFC 1112 section 6.4).
const fn group_v4(group: Ipv4Addr) -> MacAddr {
    let [_, b, c, d] = group.octets();
    MacAddr([0x01, 0x00, 0x5e, b & 0x7f, c, d])
}

/// A packet that does not fit the link, or was made here for a narrower path: nothing if it
/// goes on all the same. RFC 1812 section 5.2.6, RFC 8200 section 5: IPv4 is cut unless it
/// says no, IPv6 only where it was made, or put together, here. A label stack is a
/// pseudowire's, or the switch has seen that it fits. For a packet that was made here no
/// error is sent.
#[cold]
fn too_long(exit: &Exit, packet: &mut Packet) -> Result<(), Aside> {
    let len = packet.len();
    let meta = packet.meta_mut();
    let mut mtu = exit.longest;
    if meta.flags & FLAG_CUT != 0 {
        meta.flags &= !FLAG_CUT;
        mtu = mtu.min(std::mem::take(&mut meta.limit));
        return if len > usize::from(mtu) { Err(Aside::Cut(mtu, Next::Output)) } else { Ok(()) };
    }
    let (local, whole) = (meta.flags & FLAG_LOCAL != 0, meta.flags & FLAG_WHOLE != 0);
    let kind = match EtherType(meta.ethertype) {
        EtherType::IPV4 => {
            let (header, _) =
                ipv4::Header::ref_from_prefix(packet.data()).map_err(|_| DropReason::Malformed)?;
            if !header.dont_fragment() {
                return Err(Aside::Cut(mtu, Next::Output));
            }
            TOO_BIG_V4
        }
        EtherType::IPV6 if local || whole => return Err(Aside::Cut(mtu, Next::Output)),
        EtherType::IPV6 => TOO_BIG_V6,
        _ => return Err(DropReason::TooBig.into()),
    };
    if local {
        return Err(DropReason::TooBig.into());
    }
    let meta = packet.meta_mut();
    (meta.icmp, meta.limit) = (kind, mtu);
    Err(Aside::To(Next::IcmpError))
}

/// Pushes labels (RFC 3032 section 2.1), the innermost first, onto an IP packet
/// or a label stack. Their TTL is the packet's own in the uniform model and 255
/// in the pipe model (RFC 3443 section 3); the traffic class is zero. An entropy label goes
/// below the outermost, without a hop, and its indicator above it (RFC 6790 section 4.2).
#[inline]
fn push_labels(packet: &mut Packet, exit: &Exit) -> Result<(), DropReason> {
    let ethertype = EtherType(packet.meta().ethertype);
    let stack = ethertype == EtherType::MPLS;
    let ttl = match exit.ttl {
        TtlModel::Pipe => PIPE_TTL,
        TtlModel::Uniform => ttl_of(packet, stack)?,
    };
    let flow = if exit.entropy { entropy(packet) } else { 0 };
    let mut bottom = u32::from(!stack) << 8;
    let mut push = |label: u32, ttl: u8| {
        let entry = packet.front::<{ mpls::Header::LEN }>().ok_or(DropReason::NoRoom)?;
        *entry = (label | std::mem::take(&mut bottom) | u32::from(ttl)).to_be_bytes();
        Ok::<_, DropReason>(())
    };
    let labels = &exit.labels[..usize::from(exit.label_count).min(LABELS_MAX)];
    for (below, &label) in (1..).zip(labels) {
        if exit.entropy && below == labels.len() {
            push(flow << 12, 0)?;
            push(mpls::special::ENTROPY_INDICATOR.get() << 12, ttl)?;
        }
        push(label, ttl)?;
    }
    if !stack {
        packet.meta_mut().ethertype = EtherType::MPLS.0;
    }
    Ok(())
}

/// The entropy label of a packet: of IP its flow's, of a pseudowire the frame's.
#[inline(never)]
fn entropy(packet: &Packet) -> u32 {
    /// A seed that no node has: the path that a flow takes here does not follow from its
    /// label.
    const SEED: u64 = 0x6790;
    const ORDINARY: u32 = mpls::special::FIRST_ORDINARY.get();
    let meta = packet.meta();
    let hash = match EtherType(meta.ethertype) {
        EtherType::MPLS => path_of_flow(SEED, meta.hash),
        ethertype => path_hash(SEED, ethertype, packet.data()),
    };
    ORDINARY + ((u64::from(hash) * u64::from((1 << 20) - ORDINARY)) >> 32) as u32
}

/// The TTL of the header in front.
#[inline]
fn ttl_of(packet: &Packet, stack: bool) -> Result<u8, DropReason> {
    let at = match EtherType(packet.meta().ethertype) {
        _ if stack => 3,
        EtherType::IPV6 => 7,
        _ => 8,
    };
    packet.data().get(at).copied().ok_or(DropReason::Malformed)
}

/// The stage at [`Next::Emit`].
#[derive(Default)]
pub struct Emit;

impl Stage for Emit {
    /// For each frame:
    ///
    /// 1. A port of another worker alone: to that worker.
    /// 2. Not longer than the port carries.
    /// 3. To the SecY if the port has one, else as it is.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        ctx.forward(batch, |ctx, packet| {
            let port = ctx.tables.ports.get(usize::from(packet.meta().port.0));
            let port = port.ok_or(DropReason::PortDown)?;
            if !port.is_at(ctx.worker) {
                return Err(Aside::HandOff(port.owner, Next::Emit));
            }
            if packet.len() > usize::from(port.frame_max) {
                return Err(DropReason::TooBig.into());
            }
            Ok(if port.secy.is_some() { Next::SecyOut } else { Next::Transmit })
        });
    }
}
