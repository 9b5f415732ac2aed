//! Frames that look like the one before: as long, between the same two stations. All
//! that is put into them is known but for their number.

use super::egress::SecTag;
use super::state::{MACS, NO_TICKET, Nonces};
use crate::sequence::Numbers;
use crate::tickets::Submitter;
use ferrule_crypto::{Ad, Job, Jobs, KeyId, Op, Span, Verdict};
use ferrule_pipeline::{Meta, Packet, Wrapping};
use ferrule_wire::sectag::{Header, ICV_LEN};

/// Octets of a SecTAG with its SCI.
const TAG: usize = 2 + Header::LEN_SCI;
/// What is put in front: a cache line that ends where the user data begin.
const LINE: usize = 64;
/// Where in it the frame begins, and where the number is.
const BEGIN: usize = LINE - TAG - MACS;
const NUMBER: usize = LINE - TAG + 4;

/// How a frame gets SecTAG and room for the ICV; its addresses are looked at.
pub(super) type Around = Wrapping<MACS, LINE, 0>;

/// What frames of one association have in common, if all behind the addresses is
/// encrypted and the SCI travels.
pub(super) struct Mould {
    line: [u8; LINE],
    /// Octets of a frame in clear.
    len: usize,
    macs: [u8; MACS],
    ad: Span,
    text: Span,
    key: KeyId,
    nonces: Nonces,
    pn_max: u64,
}

impl Mould {
    /// That of a frame whose user data have so many octets.
    pub fn of(
        packet: &Packet,
        user: usize,
        tag: &SecTag,
        (key, nonces): (KeyId, Nonces),
        pn_max: u64,
    ) -> Option<Self> {
        let macs = *packet.data().first_chunk()?;
        let mut line = [0; LINE];
        line[BEGIN..BEGIN + MACS].copy_from_slice(&macs);
        tag.write(&mut line[BEGIN + MACS..])?;
        let (ad, text) = (Span::new(0, MACS + TAG), Span::new(MACS + TAG, user));
        Some(Self { line, len: packet.len(), macs, ad, text, key, nonces, pn_max })
    }

    /// Makes jobs of frames as long as they look the same and lie alike, and there are
    /// numbers; the first for which that is not so.
    #[inline(never)]
    pub fn protect_all(
        &self,
        around: Around,
        frames: &mut impl Iterator<Item = Packet>,
        numbers: &mut Numbers,
        jobs: &mut Jobs<Packet>,
    ) -> Option<Packet> {
        for packet in frames {
            match self.protect(&around, packet, numbers) {
                Ok(job) => jobs.push(job),
                Err(packet) => return Some(packet),
            }
        }
        None
    }

    /// How frames that lie in their chunks as this one get SecTAG and room for the ICV, if
    /// it is as long as the others, and there is room.
    pub fn around(&self, packet: &Packet) -> Option<Around> {
        packet.wrapping(MACS, BEGIN, ICV_LEN).filter(|_| packet.len() == self.len)
    }

    /// Makes a job of a frame, if it looks the same, and there is a number. Otherwise
    /// nothing is done to it.
    #[inline(always)]
    fn protect(
        &self,
        around: &Around,
        mut packet: Packet,
        numbers: &mut Numbers,
    ) -> Result<Job<Packet>, Packet> {
        let Some(pn) = numbers.peek().filter(|&pn| pn <= self.pn_max) else { return Err(packet) };
        let front = |_: &mut Meta, macs: &mut [u8; MACS]| {
            (*macs == self.macs).then(|| {
                let mut line = self.line;
                line[NUMBER..NUMBER + 4].copy_from_slice(&(pn as u32).to_be_bytes());
                line
            })
        };
        if !packet.wrap(around, front, &[]) {
            return Err(packet);
        }
        numbers.take();
        Ok(self.job(packet, pn))
    }

    /// Octets of text and of what is beside it in one frame.
    pub const fn octets(&self) -> (u64, u64) {
        (self.text.len as u64, self.ad.len as u64)
    }

    #[inline(always)]
    fn job(&self, packet: Packet, pn: u64) -> Job<Packet> {
        Job {
            buf: packet,
            key: self.key,
            ticket: Submitter::SecyOut.mark(NO_TICKET),
            nonce: self.nonces.nonce(pn),
            op: Op::Seal,
            verdict: Verdict::Pending,
            ad: Ad::Span(self.ad),
            text: self.text,
        }
    }
}
