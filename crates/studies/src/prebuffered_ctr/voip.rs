//! Section 4.1.1: one call on the token, plain and with buffers of several sizes.

use super::published::Study;
use super::token::{self, Phone, Returned, blocks, is_right, received};
use ferrule_base::{Duration, Instant};
use ferrule_crypto::{Op, Verdict};

/// Seconds of a call.
const SECONDS: u64 = 60;
/// Of these, before anything is counted: rings fill.
const SETTLING: u64 = 5;
/// Exchanges that are farther apart than this belong to two fillings.
const APART: Duration = Duration::from_millis(100);

/// A call, both ways.
#[derive(Clone, Debug)]
pub struct Call {
    /// Blocks of each direction's ring; nothing: the token is asked packet by packet.
    pub ring: Option<usize>,
    /// Blocks that are kept for late packets.
    pub behind: u64,
    /// Packets, both ways together.
    pub packets: u64,
    /// Of these, in time.
    pub in_time: u64,
    /// The longest wait, in milliseconds.
    pub wait_max_ms: f64,
    /// A direction's ring is filled every so many milliseconds.
    pub fill_every_ms: f64,
}

/// What the token makes for one of two directions, in blocks a second: both rings fill
/// at once.
pub fn filled_per_second() -> f64 {
    const RING: usize = 1 << 13;
    let mut phone = Phone::new(&token::profile(token::TOKEN), token::settings(RING));
    let keys = [phone.install(Op::Seal), phone.install(Op::Seal)];
    let until = Instant::from_secs(1);
    phone.run_until(until, &mut Vec::new());
    phone.ahead(keys[0]) as f64 / until.since(Instant::ZERO).as_secs_f64()
}

/// All calls: plain, the least ring, the least that keeps late packets, and the
/// recommended ones.
pub fn calls(study: &Study) -> Vec<Call> {
    let least = study.voip.minimum_buffer_blocks as usize;
    let late = (study.voip.jitter_limit_ms / 1000.0 * study.voip.blocks_per_second_used) as u64;
    let kept = least + late as usize;
    let sizes = [(least, 0), (kept, late), (256 * 5, late), (256 * 10, late)];
    let rings = sizes.into_iter().map(|(ring, behind)| buffered(study, ring, behind));
    [plain(study)].into_iter().chain(rings).collect()
}

/// Every packet asks the token for its own blocks, one after the other.
fn plain(study: &Study) -> Call {
    let each = token::plain(&token::profile(token::TOKEN), blocks(study.voip.ip_packet_bytes));
    let packets = 2 * (study.voip.packets_per_second as u64) * SECONDS;
    let gap = Duration::from_secs(SECONDS) / packets as u32;
    let limit = Duration::from_secs_f64(study.voip.jitter_limit_ms / 1000.0);
    let (mut free, mut in_time, mut longest) = (Instant::ZERO, 0, Duration::ZERO);
    for number in 0..packets as u32 {
        let arrives = Instant::ZERO + gap * number;
        free = free.max(arrives) + each;
        let waited = free.since(arrives);
        longest = longest.max(waited);
        in_time += u64::from(waited <= limit);
    }
    let wait_max_ms = longest.as_secs_f64() * 1000.0;
    let fill_every_ms = f64::NAN;
    Call { ring: None, behind: 0, packets, in_time, wait_max_ms, fill_every_ms }
}

/// Both directions through their rings.
fn buffered(study: &Study, ring: usize, behind: u64) -> Call {
    let octets = study.voip.ip_packet_bytes;
    let settings = token::Settings { behind, ..token::settings(ring) };
    let mut phone = Phone::new(&token::profile(token::TOKEN), settings);
    let mut peer = Phone::new(&token::profile("none"), token::settings(1 << 13));
    let (out, inward) = (phone.install(Op::Seal), phone.install(Op::Open));
    let from = peer.install(Op::Seal);
    peer.fill();
    let gap = Duration::from_secs_f64(1.0 / study.voip.packets_per_second);
    let limit = Duration::from_secs_f64(study.voip.jitter_limit_ms / 1000.0);
    let mut call = Call {
        ring: Some(ring),
        behind,
        packets: 0,
        in_time: 0,
        wait_max_ms: 0.0,
        fill_every_ms: 0.0,
    };
    let (mut fillings, mut last, mut seen) = (0_u64, Instant::ZERO, 0);
    let mut sent = std::collections::HashMap::new();
    let mut numbers = 0_u64;
    let mut back: Vec<Returned> = Vec::new();
    for tick in 0..(SECONDS * study.voip.packets_per_second as u64) as u32 {
        let at = Instant::ZERO + gap * tick;
        phone.run_until(at, &mut back);
        peer.run_until(at, &mut Vec::new());
        let own = phone.packet(out, octets);
        let far = peer.packet(from, octets);
        let far = peer.submit(far).expect("the peer's ring is large").job;
        for (way, job) in [(0, own), (1, received(far, inward))] {
            sent.insert((way, job.ticket), at);
            numbers += 1;
            back.extend(phone.submit(job));
        }
        if phone.stats().exchanges != seen {
            let settled = at >= Instant::from_secs(SETTLING);
            fillings += u64::from(settled && at.since(last) > APART);
            (seen, last) = (phone.stats().exchanges, at);
        }
    }
    phone.run_until(Instant::from_secs(SECONDS + 1), &mut back);
    for Returned { at, job } in back {
        let way = u64::from(job.op == Op::Open);
        let right = job.verdict == Verdict::Done && (way == 0 || is_right(&job));
        let begun = sent.remove(&(way, job.ticket)).unwrap_or(Instant::ZERO);
        let waited = at.since(begun);
        // The first packet of all finds the rings empty.
        if begun >= Instant::from_secs(1) {
            call.wait_max_ms = call.wait_max_ms.max(waited.as_secs_f64() * 1000.0);
        }
        call.in_time += u64::from(right && waited <= limit);
    }
    call.packets = numbers;
    let counted = (SECONDS - SETTLING) as f64 * 1000.0;
    // Both rings are filled at one time if they are used alike.
    call.fill_every_ms = counted / fillings.max(1) as f64;
    call
}
