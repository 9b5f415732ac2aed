//! Packets of a plain tunnel that look like the one before: as long, of the same
//! class. All that is put around them is known but for their number.

use super::outer::{Inner, Outer, fold, ident, trailer};
use super::state::{Kind, OutboundSa, SaStats, Shape, nonce};
use crate::graph::{FLAG_EXEMPT, FLAG_LOCAL};
use crate::tickets::Submitter;
use ferrule_base::Flow;
use ferrule_crypto::{Ad, Job, KeyId, Op, Span, Verdict};
use ferrule_pipeline::Packet;
use ferrule_wire::{esp, ipv4};

/// Octets of the new headers: IPv4, ESP, IV.
const FRONT: usize = ipv4::Header::LEN + esp::Header::LEN + 8;
/// Where the sequence number is.
const NUMBER: usize = ipv4::Header::LEN + 4;
/// Where the IV is.
const IV: usize = FRONT - 8;

/// The identification in an IPv4 header's first eight octets, which differs between
/// packets and says nothing here.
const IDENT: u64 = u64::from_be_bytes([0, 0, 0, 0, 0xff, 0xff, 0, 0]);

/// What packets of an SA of [`Kind::Usual`] have in common, IPv4 outside.
pub(super) struct Mould {
    /// The first eight octets of the inner header, under a mask.
    inner: u64,
    mask: u64,
    /// Octets of the inner packet.
    len: usize,
    /// The outer header in words, as [`Outer4`](super::outer::Outer4) has them, without
    /// identification and checksum, and the sum of what is there.
    first: u64,
    second: u64,
    third: [u8; 8],
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
    /// Jobs that were made.
    made: u64,
}

impl Mould {
    /// That of `packet`, for an engine that completes in place. Nothing where there is
    /// more to do than to put headers around it.
    #[inline(never)]
    pub fn of(sa: &OutboundSa, slot: u32, packet: &Packet) -> Option<Self> {
        let (Outer::V4(outer), Kind::Usual) = (&sa.outer, sa.kind) else { return None };
        let data = packet.data();
        let inner = Inner::read(data)?;
        if inner.len() != data.len() || inner.len() > usize::from(sa.path.mtu) {
            return None;
        }
        let front = u64::from_be_bytes(*data.first_chunk()?);
        let mask = if front >> 60 == 4 { !IDENT } else { !0 };
        let (behind, icv) = (trailer(inner.len(), Shape::USUAL), usize::from(Shape::USUAL.icv));
        let mut tail = [0; 16];
        esp::emit_trailer(tail.get_mut(..behind)?, inner.protocol);
        let total = FRONT + inner.len() + behind + icv;
        let (first, sum) = outer.first(sa.class_of(inner), total as u16, 0, sa.df_of(inner));
        let (beside, text) = Shape::USUAL.spans(ipv4::Header::LEN, 8 + inner.len() + behind);
        Some(Self {
            inner: front & mask,
            mask,
            len: inner.len(),
            first,
            second: outer.second,
            third: outer.third.to_be_bytes(),
            sum,
            behind: behind + icv,
            trailer: tail,
            spi: sa.spi,
            salt: sa.salt,
            text,
            beside,
            key: sa.key,
            ticket: Submitter::EspOut.mark(slot.into()),
            adjacency: sa.adjacency,
            ethertype: sa.ethertype,
            made: 0,
        })
    }

    /// Whether a packet looks the same.
    #[inline(always)]
    pub fn fits(&self, packet: &Packet) -> bool {
        let data = packet.data();
        let front = data.first_chunk().map_or(0, |front| u64::from_be_bytes(*front));
        front & self.mask == self.inner && data.len() == self.len
    }

    /// Puts headers and trailer around a packet that fits. Nothing if there is no room.
    #[inline(always)]
    pub fn wrap(&self, packet: &mut Packet, number: u64) -> Option<()> {
        let data = packet.grow(FRONT, self.behind)?;
        *data.get_mut(FRONT + self.len..)?.first_chunk_mut()? = self.trailer;
        let room: &mut [u8; FRONT] = data.first_chunk_mut()?;
        let ident = ident(number, self.spi);
        let first = self.first | u64::from(ident) << 16;
        let second = self.second | u64::from(fold(self.sum + u32::from(ident))) << 32;
        room[..8].copy_from_slice(&first.to_be_bytes());
        room[8..16].copy_from_slice(&second.to_be_bytes());
        room[16..NUMBER].copy_from_slice(&self.third);
        room[NUMBER..IV].copy_from_slice(&(number as u32).to_be_bytes());
        room[IV..].copy_from_slice(&number.to_be_bytes());
        let meta = packet.meta_mut();
        (meta.target, meta.ethertype) = (self.adjacency, self.ethertype);
        meta.flags |= FLAG_LOCAL | FLAG_EXEMPT;
        Some(())
    }

    /// The job of a packet that was wrapped.
    #[inline(always)]
    pub fn job(&mut self, packet: Packet, number: u64) -> Job<Packet> {
        self.made += 1;
        let ad: Ad = Shape::USUAL.ad(self.beside, self.spi, number);
        let (key, ticket, text) = (self.key, self.ticket, self.text);
        let nonce = nonce(self.salt, number.to_be_bytes());
        let (op, verdict) = (Op::Seal, Verdict::Pending);
        Job { buf: packet, key, ticket, nonce, op, verdict, ad, text }
    }

    /// Counts the jobs that were made.
    pub fn settle(self, stats: &mut SaStats, sealed: &mut Flow) {
        stats.packets += self.made;
        stats.octets += self.made * self.len as u64;
        sealed.packets += self.made;
        sealed.octets += self.made * (usize::from(self.text.len) + esp::Header::LEN) as u64;
    }
}
