//! Frames that look like the one before: as long, between the same two stations. All
//! that is put into them is known but for their number.

use super::egress::SecTag;
use super::state::{MACS, NO_TICKET, Nonces};
use crate::sequence::Numbers;
use crate::tickets::Submitter;
use ferrule_crypto::{Ad, Job, Jobs, KeyId, Op, Span, Verdict};
use ferrule_pipeline::Packet;
use ferrule_wire::sectag::{Header, ICV_LEN};

/// Octets of a SecTAG with its SCI.
const TAG: usize = 2 + Header::LEN_SCI;
/// What is put in front: a cache line that ends where the user data begin.
const LINE: usize = 64;
/// Where in it the frame begins, and where the number is.
const BEGIN: usize = LINE - TAG - MACS;
const NUMBER: usize = LINE - TAG + 4;

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

    /// Makes jobs of frames as long as they look the same, and there are numbers and
    /// room; the first for which that is not so.
    #[inline(never)]
    pub fn protect_all(
        &self,
        frames: &mut impl Iterator<Item = Packet>,
        numbers: &mut Numbers,
        jobs: &mut Jobs<Packet>,
    ) -> Option<Packet> {
        for mut packet in frames {
            let fits = packet.len() == self.len && packet.data().first_chunk() == Some(&self.macs);
            match numbers.peek().filter(|&pn| fits && pn <= self.pn_max) {
                Some(pn) if self.wrap(&mut packet, pn).is_some() => {
                    numbers.take();
                    jobs.push(self.job(packet, pn));
                }
                _ => return Some(packet),
            }
        }
        None
    }

    /// Octets of text and of what is beside it in one frame.
    pub const fn octets(&self) -> (u64, u64) {
        (self.text.len as u64, self.ad.len as u64)
    }

    /// Puts addresses and SecTAG in front of the user data, and room for the ICV behind
    /// them. Nothing, and nothing done, if there is none.
    #[inline(always)]
    fn wrap(&self, packet: &mut Packet, pn: u64) -> Option<()> {
        let line = packet.wrap(MACS, &self.line, BEGIN, &[], ICV_LEN)?;
        line[NUMBER..NUMBER + 4].copy_from_slice(&(pn as u32).to_be_bytes());
        Some(())
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
