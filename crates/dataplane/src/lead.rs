//! Packets of one flow follow the first of them through link, routing and policy in one
//! go, and on through the SA that seals them, if it knows what they look like.
//!
//! ```text
//!   frames of one port:  a a a a b …        a, b: flows
//!                        │ └┴┴──────────▶ link, routing, policy, by what they said of a
//!                        │    └─────────▶ and ESP, in its mould of the batch before
//!                        └─▶ asks each: interface, route, entry of the policy
//! ```
//!
//! Nothing is decided here. The leader asks each place, and what is kept of the answers
//! is what those places keep for packets like the one before. It holds for as long as
//! the tables do. A packet that one of the places would not pass so goes the long way,
//! and so does all behind it.

use crate::bridge::forward as bridge;
use crate::graph::{Ctx, Next};
use crate::ipsec::spd::stage::{Flow4, Sealed};
use crate::ipsec::{EspOut, Way};
use crate::link::ingress::{LINK, Routed, bridged};
use crate::route::ip::{self, Known, PLAIN};
use ferrule_base::{DropReason, PortId};
use ferrule_crypto::Engine;
use ferrule_pipeline::{Arrival, Batch, Meta, Packet};
use ferrule_wire::{EtherType, FromBytes, ipv4};

/// Takes the first packets of a batch at [`Next::Attach`] as far as they go together,
/// if there is a flow to follow; what is left in the batch is as it was.
#[inline(never)]
pub(crate) fn follow(kept: &mut Option<Lead>, ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) {
    let Some((link, ends)) = Link::of(kept.as_ref(), ctx, batch) else {
        cross(ctx, batch);
        return;
    };
    let same = |lead: &&Lead| lead.link.port == link.port && lead.known.ends() == ends;
    let again = kept.as_ref().filter(same).map(|lead| (lead.next(), lead.follow(ctx, batch, 0)));
    let (next, count) = match again {
        Some(again @ (_, 1..)) => again,
        _ => match Lead::ask(ctx, link, &mut batch[0]) {
            Ok((next, None)) => (next, 1),
            Ok((_, Some(lead))) => {
                let done = (lead.next(), lead.follow(ctx, batch, 1));
                *kept = Some(lead);
                done
            }
            Err(reason) => {
                let first = batch.remove(0);
                return ctx.drop(first, reason);
            }
        },
    };
    send_first(ctx, batch, count, next);
}

/// The same for frames between two stations, which a bridge carries.
fn cross(ctx: &mut Ctx<'_>, batch: &mut Box<Batch>) -> Option<()> {
    let [first, .., last] = batch.as_mut_slice() else { return None };
    let port = first.meta().port;
    let number = bridged(ctx.tables, port).filter(|_| ctx.out.may_pass_over(Next::Bridge))?;
    first.meta_mut().iface = number;
    let way = bridge::Last::of(ctx, first).filter(|way| way.is_like(last))?;
    let (mut count, mut next) = (0, Next::Bridge);
    for packet in batch.iter_mut().take_while(|packet| packet.meta().port == port) {
        packet.meta_mut().iface = number;
        let Some(on) = way.takes(packet) else { break };
        (count, next) = (count + 1, on);
    }
    ctx.tally.work.lookups += 2 * count as u64;
    send_first(ctx, batch, count, next);
    Some(())
}

/// Sends the first so many packets of a batch on.
fn send_first(ctx: &mut Ctx<'_>, batch: &mut Box<Batch>, count: usize, next: Next) {
    if count == batch.len() {
        return ctx.out.send_all(next, batch);
    }
    batch.drain(..count).for_each(|packet| ctx.out.send(next, packet));
}

/// A port and the routed interface of its frames without a tag.
#[derive(Clone, Copy)]
struct Link {
    port: PortId,
    routed: Routed,
}

impl Link {
    /// The port of a batch, and between whom its packets are. Nothing unless it looks as
    /// if all went the same way.
    fn of(kept: Option<&Lead>, ctx: &Ctx<'_>, batch: &Batch) -> Option<(Self, [u8; 8])> {
        let [first, .., last] = batch.as_slice() else { return None };
        let port = first.meta().port;
        let link = match kept {
            Some(lead) if lead.link.port == port => lead.link,
            _ => Self { port, routed: Routed::of(ctx.tables, port)? },
        };
        let (ends, some) = (link.ends(first)?, [&batch[1], &batch[batch.len() / 2], last]);
        let same = some.into_iter().all(|packet| link.ends(packet) == Some(ends));
        let free = ctx.out.may_pass_over(Next::Ip) && ctx.out.may_pass_over(Next::Policy);
        (same && free).then_some((link, ends))
    }

    /// Between whom a packet is, if it is of IPv4 and for the interface.
    fn ends(&self, packet: &Packet) -> Option<[u8; 8]> {
        let (link, rest) = packet.data().split_first_chunk()?;
        let ends = rest.first_chunk::<PLAIN>()?.last_chunk().copied();
        ends.filter(|_| self.takes(packet.meta(), link))
    }

    /// Whether a frame is for the interface, with IPv4 in it.
    #[inline(always)]
    fn takes(&self, meta: &Meta, front: &[u8; LINK]) -> bool {
        meta.port == self.port && self.routed.takes(front) == Some(EtherType::IPV4)
    }
}

/// What was said of the first packet of a flow.
pub(crate) struct Lead {
    link: Link,
    known: Known,
    /// If it is sealed here.
    sealed: Option<Sealed>,
}

impl Lead {
    /// Takes a packet through link and routing; where it goes, and what that says of
    /// others.
    fn ask(
        ctx: &mut Ctx<'_>,
        link: Link,
        packet: &mut Packet,
    ) -> Result<(Next, Option<Self>), DropReason> {
        link.routed.mark(packet.meta_mut(), EtherType::IPV4);
        packet.strip(LINK);
        ctx.tally.work.lookups += 1;
        let (next, known) = ip::lead(ctx, packet)?;
        let Some(known) = known else { return Ok((next, None)) };
        let sealed = if next == Next::Policy { Sealed::learn(ctx, packet) } else { None };
        if let Some(flow) = &sealed {
            packet.meta_mut().target = flow.sa;
        }
        Ok((next, Some(Self { link, known, sealed })))
    }

    /// Where the packets go.
    const fn next(&self) -> Next {
        if self.sealed.is_some() { Next::EspOut } else { self.known.next() }
    }

    /// Seals the first packets of a batch at [`Next::Attach`], if they follow into an SA
    /// that knows what they look like; what is left in the batch is as it was.
    pub(crate) fn seal<E: Engine<Packet>>(
        &self,
        ctx: &mut Ctx<'_>,
        esp_out: &mut EspOut,
        engine: &mut E,
        batch: &mut Box<Batch>,
    ) {
        let Some(flow) = &self.sealed else { return };
        let mut passed = [Next::Ip, Next::Policy, Next::EspOut].into_iter();
        if !passed.all(|place| ctx.out.may_pass_over(place)) {
            return;
        }
        let way = batch.first().and_then(|first| IntoSa::of(self, flow, first));
        let done = way.and_then(|way| esp_out.seal_alike(ctx, engine, flow.sa, way, batch));
        if let Some(done) = done {
            // At routing and policy.
            ctx.tally.work.lookups += 2 * done.packets;
            ctx.tally.hits.outbound(flow.counter, done.packets, done.octets);
        }
    }

    /// Takes the packets behind the first `led`, which have gone ahead, along; how many
    /// they are with those.
    fn follow(&self, ctx: &mut Ctx<'_>, batch: &mut [Packet], led: usize) -> usize {
        let (led, rest) = batch.split_at_mut(led);
        let mut octets = led.iter().map(|packet| packet.len() as u64).sum();
        let count = match &self.sealed {
            Some(flow) => self.along::<false>(
                rest,
                |data| flow.fits(data),
                |meta, len| {
                    octets += len as u64;
                    meta.target = flow.sa;
                },
            ),
            None if self.known.next() == Next::EspIn => {
                self.along::<true>(rest, |_| true, |_, _| ())
            }
            None => self.along::<false>(rest, |_| true, |_, _| ()),
        };
        ctx.tally.work.lookups += count as u64;
        let all = led.len() + count;
        if let Some(flow) = &self.sealed {
            ctx.tally.work.lookups += all as u64;
            ctx.tally.hits.outbound(flow.counter, all as u64, octets);
        }
        all
    }

    /// Takes packets through link and routing, up to the first that goes another way or
    /// does not fit; how many.
    #[inline(always)]
    fn along<const ESP_IN: bool>(
        &self,
        packets: &mut [Packet],
        fits: impl Fn(&[u8]) -> bool,
        mut then: impl FnMut(&mut Meta, usize),
    ) -> usize {
        let mut count = 0;
        for packet in packets {
            if !self.takes::<ESP_IN>(packet, &fits) {
                break;
            }
            packet.strip(LINK);
            let (meta, data) = packet.split();
            let len = data.len();
            if let Some(header) = data.first_chunk_mut() {
                self.known.take::<ESP_IN>(meta, header);
            }
            then(meta, len);
            count += 1;
        }
        count
    }

    /// Whether a packet goes the same way.
    #[inline(always)]
    fn takes<const ESP_IN: bool>(&self, packet: &Packet, fits: impl Fn(&[u8]) -> bool) -> bool {
        let Self { link, known, .. } = self;
        let (meta, data) = (packet.meta(), packet.data());
        let Some((front, ip)) = data.split_first_chunk() else { return false };
        link.takes(meta, front)
            && meta.turns == known.came().turns()
            && fits(ip)
            && ip.first_chunk().is_some_and(|header| known.fits::<ESP_IN>(header, ip.len()))
    }
}

/// The way of packets that follow into an SA.
#[derive(Clone, Copy)]
struct IntoSa {
    link: Link,
    turns: u8,
    /// As which they go on.
    arrival: Arrival,
    flow: Flow4,
    headers: ipv4::Alike,
}

/// Octets of a frame by which it is known: up to the ports behind an IPv4 header.
const SEEN: usize = LINK + 24;

impl IntoSa {
    /// That of packets that look like this one, if it follows.
    fn of(lead: &Lead, sealed: &Sealed, packet: &Packet) -> Option<Self> {
        if !lead.takes::<false>(packet, |data| sealed.fits(data)) {
            return None;
        }
        let (header, _) = ipv4::Header::ref_from_prefix(packet.data().get(LINK..)?).ok()?;
        let came = lead.known.came();
        Some(Self {
            link: lead.link,
            turns: came.turns(),
            arrival: came.once_more(),
            flow: sealed.flow,
            headers: ipv4::Alike::of(header),
        })
    }
}

impl Way<SEEN> for IntoSa {
    const OVER: usize = LINK;

    #[inline(always)]
    fn takes(&self, meta: &Meta, octets: &[u8; SEEN]) -> bool {
        let Some((front, ip)) = octets.split_first_chunk() else { return false };
        let (Some(flow), Ok((header, _))) = (ip.first_chunk(), ipv4::Header::ref_from_prefix(ip))
        else {
            return false;
        };
        self.link.takes(meta, front)
            && meta.turns == self.turns
            && self.flow.has_rest(flow)
            && header.ttl > 1
            && self.headers.is_good(header)
    }

    #[inline(always)]
    fn change(&self, meta: &mut Meta, octets: &mut [u8; SEEN]) {
        if let Ok((header, _)) = ipv4::Header::mut_from_prefix(&mut octets[LINK..]) {
            header.count_hop();
        }
        meta.set_arrival(self.arrival);
    }
}
