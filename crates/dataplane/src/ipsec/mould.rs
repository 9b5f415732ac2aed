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
use ferrule_pipeline::Packet;
use ferrule_wire::{Protocol, esp, ipv4};

/// Octets of the new headers: IPv4, ESP, IV.
const FRONT: usize = ipv4::Header::LEN + esp::Header::LEN + 8;

/// Where in a cache line they are that ends where the inner packet begins.
const LINE: usize = 64;
const OUTER: usize = LINE - FRONT;
const IDENT_AT: usize = OUTER + 4;
const CHECKSUM: usize = OUTER + 10;
const NUMBER: usize = OUTER + ipv4::Header::LEN + 4;
const IV: usize = LINE - 8;

/// The identification in an IPv4 header's first eight octets, which differs between
/// packets and says nothing here.
const IDENT: u64 = u64::from_ne_bytes([0, 0, 0, 0, 0xff, 0xff, 0, 0]);

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
    /// The sum of what is in the outer header.
    sum: u32,
    /// Octets behind the inner packet, and the first of them: trailer, room for the ICV.
    behind: usize,
    trailer: [u8; 16],
    spi: u32,
    salt: [u8; 4],
    text: Span,
    beside: Span,
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
        line[OUTER + 16..NUMBER].copy_from_slice(&outer.third.to_be_bytes());
        let mut mould = Self {
            id: held.id,
            inner: front & mask,
            mask,
            len: inner.len(),
            line,
            begin: OUTER,
            sum,
            behind: behind + icv,
            trailer: tail,
            spi: sa.spi,
            salt: sa.salt,
            text: Span::default(),
            beside: Span::default(),
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
        (self.beside, self.text) = Shape::USUAL.spans(esp, body);
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

    /// Where packets go that were sealed.
    pub const fn next(&self) -> Next {
        self.next
    }

    /// Takes the link header off again.
    #[cold]
    pub fn unframe(&self, packet: &mut Packet) {
        packet.strip(OUTER - self.begin);
        self.mark(packet);
    }

    /// Notes what has to be known of a packet on its way out.
    #[inline(always)]
    fn mark(&self, packet: &mut Packet) {
        let meta = packet.meta_mut();
        (meta.target, meta.ethertype) = (self.adjacency, self.ethertype);
        meta.flags |= FLAG_LOCAL | FLAG_EXEMPT;
    }

    /// Makes jobs of packets for `target` as long as they look the same, and there are
    /// numbers and room; the first for which that is not so.
    #[inline(never)]
    pub fn seal_all(
        &mut self,
        target: u32,
        packets: &mut impl Iterator<Item = Packet>,
        numbers: &mut Numbers,
        jobs: &mut Jobs<Packet>,
    ) -> Option<Packet> {
        // In registers meanwhile.
        let (before, mut odd) = (jobs.len(), None);
        let mut left = std::mem::replace(numbers, Numbers::NONE);
        for packet in packets {
            match self.seal(target, packet, &mut left) {
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

    /// Makes a job of a packet for `target`, if it looks the same, and there is a number
    /// and room.
    #[inline(always)]
    fn seal(
        &self,
        target: u32,
        mut packet: Packet,
        numbers: &mut Numbers,
    ) -> Result<Job<Packet>, Packet> {
        let fits = packet.meta().target == target && self.fits(&packet);
        match numbers.peek().filter(|_| fits) {
            Some(number) if self.wrap(&mut packet, number).is_some() => {
                numbers.take();
                Ok(self.job(packet, number))
            }
            _ => Err(packet),
        }
    }

    /// Whether a packet looks the same.
    #[inline(always)]
    fn fits(&self, packet: &Packet) -> bool {
        let data = packet.data();
        let front = data.first_chunk().map_or(0, |front| u64::from_ne_bytes(*front));
        front & self.mask == self.inner && data.len() == self.len
    }

    /// Puts headers and trailer around a packet that fits. Nothing if there is no room.
    #[inline(always)]
    fn wrap(&self, packet: &mut Packet, number: u64) -> Option<()> {
        let line = packet.wrap(0, &self.line, self.begin, &self.trailer, self.behind)?;
        let ident = ident(number, self.spi);
        line[IDENT_AT..IDENT_AT + 2].copy_from_slice(&ident.to_be_bytes());
        let checksum = fold(self.sum + u32::from(ident));
        line[CHECKSUM..CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
        line[NUMBER..IV].copy_from_slice(&(number as u32).to_be_bytes());
        line[IV..].copy_from_slice(&number.to_be_bytes());
        match self.next {
            Next::Output => self.mark(packet),
            _ => packet.meta_mut().port = self.port,
        }
        Some(())
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

    /// Counts the jobs that were made since this was asked last.
    pub fn settle(&mut self, stats: &mut SaStats, sealed: &mut Flow) {
        let made = std::mem::take(&mut self.made);
        stats.packets += made;
        stats.octets += made * self.len as u64;
        sealed.packets += made;
        sealed.octets += made * (usize::from(self.text.len) + esp::Header::LEN) as u64;
    }
}
