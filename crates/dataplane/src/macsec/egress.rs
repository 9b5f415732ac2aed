//! Protection: clear frame in, SecTAG and ICV out (clauses 10.5, 14).

use super::state::{MACS, ad_start, front, macs_first, tags_first};
use super::stats::Stats;
use super::transmit::{SecyOut, TxSecy};
use crate::graph::{Aside, Ctx, Next};
use crate::protection::Protection;
use crate::protection::tickets::{Lane, Submitter};
use ferrule_base::DropReason;
use ferrule_crypto::{Ad, Engine, Job, Jobs, Op, Span, Verdict};
use ferrule_pipeline::{Batch, Packet};
use ferrule_wire::EtherType;
use ferrule_wire::sectag::{ICV_LEN, Repr};

impl SecyOut {
    /// Protects a batch of clear frames.
    #[inline(never)]
    pub fn push<E: Engine<Packet>>(
        &mut self,
        ctx: &mut Ctx<'_>,
        engine: &mut E,
        batch: &mut Box<Batch>,
    ) {
        self.in_flight.run(&mut self.secys, ctx, engine, batch);
    }

    /// Takes this stage's jobs, which an engine finished later, out of `jobs`.
    pub fn finish(&mut self, ctx: &mut Ctx<'_>, jobs: &mut Jobs<Packet>) {
        self.in_flight.finish(&mut self.secys, ctx, jobs);
    }
}

/// SecYs keep the order of all their associations. The slot of a job is SecY and
/// association number.
impl Protection for Vec<TxSecy> {
    const SUBMITTER: Submitter = Submitter::SecyOut;

    /// From a clear frame to a job:
    ///
    /// 1. The port's SecY, and its association that encodes.
    /// 2. Where the SecTAG goes, whether frame, SecTAG and ICV fit; room for both.
    /// 3. A packet number: from here on it is used up.
    /// 4. The SecTAG behind the addresses, with a short length if the user data has fewer
    ///    than 48 octets.
    /// 5. Clear VLAN tags go in front, where the ICV does not cover them.
    /// 6. Additional data is everything up to the SecTAG's end and the octets
    ///    that stay readable; the text is the rest.
    #[inline(always)]
    fn prepare(
        &mut self,
        ctx: &mut Ctx<'_>,
        packet: &mut Packet,
        job: &mut Job<()>,
    ) -> Result<Option<Next>, Aside> {
        // 1
        let port = ctx.tables.ports.get(usize::from(packet.meta().port.0));
        let (port, index) =
            port.and_then(|port| Some((port, port.secy?))).ok_or(DropReason::MacsecNoTxSa)?;
        let secy = self.get_mut(usize::from(index)).ok_or(DropReason::MacsecNoTxSa)?;
        let an = secy.encoding;
        let (Some(Some(sa)), Some(config)) = (secy.sas.get_mut(usize::from(an)), &secy.config)
        else {
            return Err(DropReason::MacsecNoTxSa.into());
        };
        // 2
        let tag_len = config.tag_len();
        let at = front(packet.data(), config.clear_tags);
        let len = packet.len();
        let user = len.checked_sub(at).filter(|&n| n >= 2).ok_or(DropReason::Malformed)?;
        if len + tag_len + ICV_LEN > usize::from(port.frame_max) {
            secy.stats.out_too_long += 1;
            return Err(DropReason::TooBig.into());
        }
        let place = make_gap(packet, at, tag_len).ok_or(DropReason::NoRoom)?;
        // 3
        let pn = sa.pn.take().filter(|&pn| pn <= config.pn_max());
        let pn = pn.ok_or(DropReason::MacsecPnExhausted)?;
        // 4
        put_tag(place, secy.tci | an, user, pn, config.sci).ok_or(DropReason::NoRoom)?;
        // 5
        if at != MACS {
            tags_first(packet.data_mut(), at);
        }
        // 6
        let clear = if config.encrypt { user.min(config.offset.into()) } else { user };
        let text = at + tag_len + clear;
        if let Some(counts) = secy.counts.get_mut(usize::from(an)) {
            let (packets, octets) = counters(counts, config.encrypt);
            *packets += 1;
            *octets += user as u64;
        }
        *job = Job {
            buf: (),
            key: sa.key,
            ticket: u64::from(index) << 8 | u64::from(an),
            number: pn,
            nonce: sa.nonces.nonce(pn),
            op: Op::Seal,
            verdict: Verdict::Pending,
            ad: Ad::Span(Span::new(at - MACS, text - (at - MACS))),
            text: Span::new(text, user - clear),
        };
        Ok(if at == MACS { Some(Next::Transmit) } else { None })
    }

    /// Clear tags go back behind the addresses, and the frame to its port.
    #[inline(always)]
    fn finish(
        &mut self,
        _: &mut Ctx<'_>,
        packet: &mut Packet,
        job: &Job<()>,
    ) -> Result<Next, Aside> {
        let reason = match job.verdict {
            Verdict::Done => {
                let tags = ad_start(job);
                if tags != 0 {
                    macs_first(packet.data_mut(), MACS + tags);
                }
                return Ok(Next::Transmit);
            }
            Verdict::Pending => DropReason::EngineFull,
            _ => DropReason::EngineFailed,
        };
        uncount(self, job);
        Err(reason.into())
    }

    fn queue(&mut self, slot: u32) -> Option<&mut Lane> {
        self.get_mut(slot as usize >> 8).map(|secy| &mut secy.lane)
    }

    fn returned(&mut self, _: u32) {}
}

/// A frame that an engine did not seal counts for nothing. What is in its buffer
/// cannot be trusted: an engine may have failed in the middle of it, or keep it
/// while another stands in. The job itself says whose it was.
#[cold]
fn uncount(secys: &mut [TxSecy], job: &Job<()>) -> Option<()> {
    let (index, an) = ((job.ticket as u32 >> 8) as usize, job.ticket as usize & 0xff);
    let secy = secys.get_mut(index)?;
    secy.sas.get(an)?.as_ref().filter(|sa| sa.key == job.key)?;
    let config = secy.config.as_ref()?;
    let user = job.text.end().checked_sub(ad_start(job) + MACS + config.tag_len())?;
    let (packets, octets) = counters(secy.counts.get_mut(an)?, config.encrypt);
    *packets = packets.saturating_sub(1);
    *octets = octets.saturating_sub(user as u64);
    Some(())
}

/// Frames and octets of user data that an association protected.
#[inline(always)]
const fn counters(counts: &mut Stats, encrypted: bool) -> (&mut u64, &mut u64) {
    match encrypted {
        true => (&mut counts.out_encrypted, &mut counts.out_octets_encrypted),
        false => (&mut counts.out_protected, &mut counts.out_octets_protected),
    }
}

/// Writes a SecTAG in two words: EtherType and the three fields of
/// [`Header`](ferrule_wire::sectag::Header), then the SCI, if there is a place for it.
#[inline(always)]
fn put_tag(place: &mut [u8], tci_an: u8, user: usize, pn: u64, sci: u64) -> Option<()> {
    let fields = u64::from(tci_an) << 40 | u64::from(Repr::short_len(user)) << 32;
    let head = u64::from(EtherType::MACSEC.0) << 48 | fields | pn & 0xffff_ffff;
    *place.first_chunk_mut()? = head.to_be_bytes();
    if let Some(place) = place.get_mut(8..16) {
        place.copy_from_slice(&sci.to_be_bytes());
    }
    Some(())
}

/// Moves what is in front of `at` forward by `gap` octets, and makes room for the
/// ICV behind: the place of the gap.
#[inline(always)]
fn make_gap(packet: &mut Packet, at: usize, gap: usize) -> Option<&mut [u8]> {
    let data = packet.grow(gap, ICV_LEN)?;
    if at == MACS {
        let macs: [u8; MACS] = *data.get(gap..)?.first_chunk()?;
        *data.first_chunk_mut()? = macs;
    } else {
        data.get_mut(..gap + at)?.copy_within(gap.., 0);
    }
    data.get_mut(at..at + gap)
}
