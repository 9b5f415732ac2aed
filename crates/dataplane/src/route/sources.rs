//! Validation of sources: a packet has to come from where its source is routed to (RFC 3704).
//!
//! Sources that no route could tell of are left alone: IPv6 link-local ones. The node's own
//! addresses, and those that no host has, are refused by the routing table's stage.

use crate::graph::{Ctx, Stage};
use crate::link::Arrival;
use crate::route::Route;
use crate::route::fib::Cell;
use crate::route::ip::routes_v4;
use crate::tables::Tables;
use ferrule_base::DropReason;
use ferrule_pipeline::{BATCH, Batch, Meta};
use ferrule_wire::{EtherType, FromBytes, ipv4, ipv6};
use std::net::Ipv6Addr;

/// Rule for the validation of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceCheck {
    /// The route to the source leaves by the interface of arrival (RFC 3704 section 2.2).
    Strict,
    /// There is a route to the source that does not discard (RFC 3704 section 2.4, RFC 5635).
    Loose,
}

impl SourceCheck {
    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Loose => "loose",
        }
    }
}

/// The stage at [`Next::SourceCheck`](crate::graph::Next::SourceCheck).
#[derive(Default)]
pub struct Sources {
    columns: Box<Columns>,
}

struct Columns {
    src: [u32; BATCH],
    route: [Cell; BATCH],
}

impl Default for Columns {
    fn default() -> Self {
        Self { src: [0; BATCH], route: [Cell::NONE; BATCH] }
    }
}

impl Stage for Sources {
    /// For all packets of the batch:
    ///
    /// 1. The longest prefix of each source.
    /// 2. It leads back by the interface of arrival, or anywhere; else the packet is dropped.
    /// 3. On to the interface's access list, or the routing table.
    #[inline(never)]
    fn push(&mut self, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
        ctx.tally.work.lookups += batch.len() as u64;
        let (tables, columns) = (ctx.tables, &mut *self.columns);
        columns.look_up(tables, batch);
        let mut at = 0;
        ctx.forward(batch, |_, packet| {
            let row = at % BATCH;
            at += 1;
            let (meta, route) = (packet.meta(), columns.route[row]);
            let arrival = tables.hot.arrivals.get(usize::from(meta.iface)).copied();
            let (check, next) = arrival.unwrap_or(Arrival::NONE).validation();
            let good = match check {
                None => true,
                Some(check) => {
                    meta.ethertype == EtherType::IPV4.0
                        && is_plain(tables, check, route, meta.iface)
                        || is_good(tables, check, route, meta, packet.data())
                }
            };
            if good { Ok(next) } else { Err(DropReason::ReversePath.into()) }
        });
    }
}

impl Columns {
    /// Step 1 for IPv4. (A packet without an IPv4 header is dropped by the routing table's
    /// stage, with its reason.)
    #[inline(always)]
    fn look_up(&mut self, tables: &Tables, batch: &Batch) {
        for (packet, src) in batch.iter().zip(&mut self.src) {
            let header = packet.data().first_chunk::<{ ipv4::Header::LEN }>();
            *src = header.map_or(0, |h| u32::from_be_bytes([h[12], h[13], h[14], h[15]]));
        }
        routes_v4(tables, batch, &self.src, &mut self.route);
    }
}

/// True if the one path to a source leads where it has to: the case of nearly all.
#[inline(always)]
fn is_plain(tables: &Tables, check: SourceCheck, route: Cell, iface: u16) -> bool {
    let exit = tables.hot.exits.get(route.adjacency() as usize);
    let back = exit.is_some_and(|exit| exit.iface == iface);
    route.is_via() && (back || check == SourceCheck::Loose)
}

/// True for a source of any kind that the rule lets pass.
#[inline(never)]
fn is_good(tables: &Tables, check: SourceCheck, route: Cell, meta: &Meta, packet: &[u8]) -> bool {
    let route = match EtherType(meta.ethertype) {
        EtherType::IPV4 => route.route(),
        _ => route_v6(tables, meta, packet),
    };
    match route {
        Some(Route::Local | Route::Broadcast) => true,
        None | Some(Route::Discard) => false,
        Some(Route::Via(to) | Route::Guarded(to)) => {
            check == SourceCheck::Loose || leads_back(tables, to, meta.iface)
        }
    }
}

/// The route to the source of an IPv6 packet; an own address for those that none can tell of.
fn route_v6(tables: &Tables, meta: &Meta, packet: &[u8]) -> Option<Route> {
    let Ok((header, _)) = ipv6::Header::ref_from_prefix(packet) else { return Some(Route::Local) };
    let src = Ipv6Addr::from(header.src);
    if src.is_unicast_link_local() {
        return Some(Route::Local);
    }
    tables.vrfs.get(usize::from(meta.vrf.0))?.v6(src)
}

/// True if an adjacency, or one of equal cost, leaves by the interface.
fn leads_back(tables: &Tables, adjacency: u32, iface: u16) -> bool {
    let exit = |adjacency: u32| tables.hot.exits.get(adjacency as usize);
    exit(adjacency).is_some_and(|exit| exit.iface == iface)
        || tables.paths_of(adjacency).any(|path| exit(path).is_some_and(|e| e.iface == iface))
}
