//! Packets of a plain tunnel that look like the one before: as long, of the same
//! class. All that is put around them is known but for their number; the link header of
//! the way out is put in front with the rest.

use super::outer::{Inner, Outer, fold, ident, trailer};
use super::state::{Kind, OutboundSa, SaStats, Shape};
use super::table::{Held, SaId};
use crate::graph::{Ctx, FLAG_EXEMPT, FLAG_LOCAL, Next};
use crate::link::egress::Front;
use crate::sequence::Numbers;
use crate::tickets::Submitter;
use ferrule_base::{Flow, PortId};
use ferrule_crypto::{Ad, Job, Jobs, KeyId, Op, Span, Verdict};
use ferrule_pipeline::{Batch, Meta, Packet, Wrapping};
use ferrule_wire::{Protocol, esp, ipv4};

/// Octets of the new headers: IPv4, ESP, IV.
const FRONT: usize = ipv4::Header::LEN + esp::Header::LEN + 8;

/// Where in a cache line they are that ends where the inner packet begins.
const LINE: usize = 64;
const OUTER: usize = LINE - FRONT;
/// The words of it in which identification and checksum are, and the numbers.
const FIELDS: usize = (OUTER + 4) / 8;
const NUMBER: usize = IV - 1;
const IV: usize = LINE / 8 - 1;

/// How a packet of which `V` octets are looked at gets headers and trailer.
pub(super) type Around<const V: usize> = Wrapping<V, LINE, 16>;

/// The identification in an IPv4 header's first eight octets, which differs between
/// packets and says nothing here.
const IDENT: u64 = u64::from_ne_bytes([0, 0, 0, 0, 0xff, 0xff, 0, 0]);

/// How packets come to be sealed: what is looked at are their first `V` octets.
pub(crate) trait Way<const V: usize>: Copy {
    /// Octets in front of them that come off.
    const OVER: usize;

    /// Whether a packet comes this way, which looks like one that did: as long, and the
    /// first eight octets of its header the same, but for an IPv4 identification.
    fn takes(&self, meta: &Meta, octets: &[u8; V]) -> bool;

    /// What becomes different of it on the way.
    fn change(&self, meta: &mut Meta, octets: &mut [u8; V]);
}

/// The way of packets that were sent to [`Next::EspOut`], for this SA.
#[derive(Clone, Copy)]
pub(super) struct Sent(pub u32);

impl Way<8> for Sent {
    const OVER: usize = 0;

    #[inline(always)]
    fn takes(&self, meta: &Meta, _: &[u8; 8]) -> bool {
        meta.target == self.0
    }

    #[inline(always)]
    fn change(&self, _: &mut Meta, _: &mut [u8; 8]) {}
}

/// What packets of an SA of [`Kind::Usual`] have in common, IPv4 outside.
pub(super) struct Mould {
    /// Whose packets.
    id: SaId,
    /// The first eight octets of the inner header, under a mask.
    inner: u64,
    mask: u64,
    /// Octets of the inner packet.
    len: usize,
    /// A line that ends with the new headers, in which what changes is zero, and the
    /// first octet of it that belongs to the packet.
    line: [u8; LINE],
    begin: usize,
    /// The sum of what is in the outer header, in one word.
    sum: u32,
    /// Octets behind the inner packet, and the first of them: trailer, room for the ICV.
    behind: usize,
    trailer: [u8; 16],
    spi: u32,
    salt: [u8; 4],
    text: Span,
    key: KeyId,
    ticket: u64,
    adjacency: u32,
    ethertype: u16,
    /// Where frames go, if there is a link header.
    port: PortId,
    next: Next,
    /// Jobs that were made.
    made: u64,
}

impl Mould {
    /// That of `packet`, for an engine that completes in place. Nothing where there is
    /// more to do than to put headers around it.
    #[inline(never)]
    pub fn of(held: &Held<OutboundSa>, slot: u32, packet: &Packet) -> Option<Self> {
        let sa = &held.sa;
        let (Outer::V4(outer), Kind::Usual) = (&sa.outer, sa.kind) else { return None };
        let data = packet.data();
        let inner = Inner::read(data)?;
        if inner.len() != data.len() || inner.len() > usize::from(sa.path.mtu) {
            return None;
        }
        let front = u64::from_ne_bytes(*data.first_chunk()?);
        let mask = if inner.protocol == Protocol::IPV4 { !IDENT } else { !0 };
        let (behind, icv) = (trailer(inner.len(), Shape::USUAL), usize::from(Shape::USUAL.icv));
        let mut tail = [0; 16];
        esp::emit_trailer(tail.get_mut(..behind)?, inner.protocol);
        let total = FRONT + inner.len() + behind + icv;
        let (first, sum) = outer.first(sa.class_of(inner), total as u16, 0, sa.df_of(inner));
        let mut line = [0; LINE];
        line[OUTER..OUTER + 8].copy_from_slice(&first.to_be_bytes());
        line[OUTER + 8..OUTER + 16].copy_from_slice(&outer.second.to_be_bytes());
        line[OUTER + 16..OUTER + 24].copy_from_slice(&outer.third.to_be_bytes());
        let mut mould = Self {
            id: held.id,
            inner: front & mask,
            mask,
            len: inner.len(),
            line,
            begin: OUTER,
            sum: u32::from(!fold(sum)),
            behind: behind + icv,
            trailer: tail,
            spi: sa.spi,
            salt: sa.salt,
            text: Span::default(),
            key: sa.key,
            ticket: Submitter::EspOut.mark(slot.into()),
            adjacency: sa.adjacency,
            ethertype: sa.ethertype,
            port: PortId(0),
            next: Next::Output,
            made: 0,
        };
        mould.begin_at(OUTER);
        Some(mould)
    }

    /// The packets begin at this octet of the line.
    fn begin_at(&mut self, begin: usize) {
        let (esp, body) = (LINE - begin - 16, 8 + self.len + self.behind);
        let body = body - usize::from(Shape::USUAL.icv);
        (_, self.text) = Shape::USUAL.spans(esp, body);
        self.begin = begin;
    }

    /// Prepares for another batch: whether its first packet may be of this SA, whose path
    /// still carries packets as long as these. If what comes next is to put a link header
    /// in front, that is in the mould.
    #[inline(never)]
    pub fn again(&mut self, ctx: &Ctx<'_>, held: &Held<OutboundSa>) -> bool {
        if !self.is_of(held) || self.len > usize::from(held.sa.path.mtu) {
            return false;
        }
        let sealed = FRONT + self.len + self.behind;
        let front = Front::of(ctx, self.adjacency, self.ethertype);
        let link = front.as_ref().and_then(|front| front.link_of(sealed));
        let Some((link, port, next)) = link.filter(|_| ctx.out.may_pass_over(Next::Output)) else {
            self.forget_link();
            return true;
        };
        let begin = OUTER - link.len();
        self.line[begin..OUTER].copy_from_slice(link);
        self.begin_at(begin);
        (self.port, self.next) = (port, next);
        true
    }

    /// Whether it is of this SA.
    pub fn is_of(&self, held: &Held<OutboundSa>) -> bool {
        self.id == held.id
    }

    /// From here on packets leave without a link header.
    pub fn forget_link(&mut self) {
        self.begin_at(OUTER);
        self.next = Next::Output;
    }

    /// Sends on packets that were sealed.
    pub fn send_all(&self, ctx: &mut Ctx<'_>, sealed: &mut Box<Batch>) {
        match self.next {
            Next::Output => ctx.out.send_all(Next::Output, sealed),
            next => ctx.out.send_all_by_one_port(next, sealed),
        }
    }

    /// Takes the link header off again.
    #[cold]
    pub fn unframe(&self, packet: &mut Packet) {
        packet.strip(OUTER - self.begin);
        self.mark_for_output(packet.meta_mut());
    }

    /// Notes what has to be known of a packet on its way out.
    #[inline(always)]
    fn mark(&self, meta: &mut Meta) {
        match self.next {
            Next::Output => self.mark_for_output(meta),
            _ => meta.port = self.port,
        }
    }

    const fn mark_for_output(&self, meta: &mut Meta) {
        (meta.target, meta.ethertype) = (self.adjacency, self.ethertype);
        meta.flags |= FLAG_LOCAL | FLAG_EXEMPT;
    }

    /// How packets that lie in their chunks as this one get headers and trailer, if it looks
    /// like the others, and there is room.
    pub fn around<const V: usize, W: Way<V>>(&self, packet: &Packet) -> Option<Around<V>> {
        let inner = packet.data().get(W::OVER..)?;
        let alike = inner.len() == self.len && self.has_front(Some(inner));
        packet.wrapping(W::OVER, self.begin, self.behind).filter(|_| alike)
    }

    /// Makes jobs of packets that come this way, as long as they look the same and lie
    /// alike, and there are numbers; the first for which that is not so.
    #[inline(never)]
    pub fn seal_all<const V: usize, W: Way<V>>(
        &mut self,
        way: W,
        around: Around<V>,
        packets: &mut impl Iterator<Item = Packet>,
        numbers: &mut Numbers,
        jobs: &mut Jobs<Packet>,
    ) -> Option<Packet> {
        // In registers meanwhile.
        let (before, mut odd) = (jobs.len(), None);
        let mut left = std::mem::replace(numbers, Numbers::NONE);
        for packet in packets {
            match self.seal(&way, &around, packet, &mut left) {
                Ok(job) => jobs.push(job),
                Err(packet) => {
                    odd = Some(packet);
                    break;
                }
            }
        }
        *numbers = left;
        self.made += (jobs.len() - before) as u64;
        odd
    }

    /// Makes a job of a packet that comes this way, if it looks the same, and there is a
    /// number. Otherwise nothing is done to it.
    #[inline(always)]
    fn seal<const V: usize, W: Way<V>>(
        &self,
        way: &W,
        around: &Around<V>,
        mut packet: Packet,
        numbers: &mut Numbers,
    ) -> Result<Job<Packet>, Packet> {
        let Some(number) = numbers.peek() else { return Err(packet) };
        let front = |meta: &mut Meta, octets: &mut [u8; V]| {
            let takes = self.has_front(octets.get(W::OVER..)) && way.takes(meta, octets);
            takes.then(|| {
                way.change(meta, octets);
                self.mark(meta);
                self.front(number)
            })
        };
        if !packet.wrap(around, front, &self.trailer) {
            return Err(packet);
        }
        numbers.take();
        Ok(self.job(packet, number))
    }

    /// Whether a packet begins as the others do.
    #[inline(always)]
    fn has_front(&self, inner: Option<&[u8]>) -> bool {
        let front = inner.and_then(|inner| inner.first_chunk());
        front.is_some_and(|front| u64::from_ne_bytes(*front) & self.mask == self.inner)
    }

    /// The new headers of a packet.
    #[inline(always)]
    fn front(&self, number: u64) -> [u8; LINE] {
        let ident = ident(number, self.spi);
        // Of two words one carry is enough.
        let sum = self.sum + u32::from(ident);
        let checksum = !((sum >> 16) + (sum & 0xffff)) as u16;
        // In words, each stored once.
        let (chunks, _) = self.line.as_chunks();
        let mut words: [u64; LINE / 8] = std::array::from_fn(|at| u64::from_ne_bytes(chunks[at]));
        words[FIELDS] |= (u64::from(ident) << 48 | u64::from(checksum)).to_be();
        words[NUMBER] |= (number & 0xffff_ffff).to_be();
        words[IV] = number.to_be();
        let mut line = [0; LINE];
        for (to, word) in line.as_chunks_mut().0.iter_mut().zip(words) {
            *to = word.to_ne_bytes();
        }
        line
    }

    /// The job of a packet that was wrapped.
    #[inline(always)]
    fn job(&self, packet: Packet, number: u64) -> Job<Packet> {
        let mut ad = [0; 12];
        ad[..4].copy_from_slice(&self.spi.to_be_bytes());
        ad[4..].copy_from_slice(&number.to_be_bytes());
        let ad = Ad::Inline(ad);
        let (key, ticket, text) = (self.key, self.ticket, self.text);
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.salt);
        nonce[4..].copy_from_slice(&number.to_be_bytes());
        let (op, verdict) = (Op::Seal, Verdict::Pending);
        Job { buf: packet, key, ticket, nonce, op, verdict, ad, text }
    }

    /// Counts the jobs that were made since this was asked last; the packets in them, as
    /// they came.
    pub fn settle(&mut self, stats: &mut SaStats, sealed: &mut Flow) -> Flow {
        let made = std::mem::take(&mut self.made);
        let octets = made * self.len as u64;
        stats.packets += made;
        stats.octets += octets;
        sealed.packets += made;
        sealed.octets += made * (usize::from(self.text.len) + esp::Header::LEN) as u64;
        Flow { packets: made, octets }
    }
}
