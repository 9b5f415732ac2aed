//! Section 4.1.1: one call on the token, plain and with buffers of several sizes.

use super::published::Study;
use super::token::{self, Maker, Phone, Returned, blocks, is_right, received};
use ferrule_base::{Duration, Instant};
use ferrule_crypto::{KeyId, Op, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Duration of a call, and of its beginning that is not counted.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The whole duration.
    pub seconds: u64,
    /// Of these, before fillings are counted: rings fill.
    pub settling: u64,
}

/// A call of a minute.
pub const MINUTE: Span = Span { seconds: 60, settling: 5 };
/// Exchanges that are farther apart than this belong to two fillings.
const APART: Duration = Duration::from_millis(100);
/// The first packet of all finds the rings empty: its wait is not the longest.
const BEGINNING: Duration = Duration::from_secs(1);

/// A call, both ways.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// The rings are filled every so many milliseconds, if they were at least twice.
    pub fill_every_ms: Option<f64>,
}

/// Blocks a second that the token makes for one of two directions, while both rings fill at once.
pub fn filled_per_second(maker: &mut dyn Maker) -> Result<f64, String> {
    const RING: usize = 1 << 13;
    let mut phone = maker.phone(token::TOKEN, token::settings(RING))?;
    let keys = [phone.install(Op::Seal)?, phone.install(Op::Seal)?];
    let begun = phone.tick();
    phone.run_until(begun + Duration::from_secs(1), &mut Vec::new());
    let ahead = phone.ahead(keys[0]) as f64;
    Ok(ahead / phone.now.since(begun).as_secs_f64())
}

/// A ring, and what of it is kept for late packets.
pub type Ring = (usize, u64);

/// The rings of all calls: the least one, the one that was printed for it, the least that
/// keeps late packets, and the recommended ones.
pub fn rings(study: &Study) -> [Ring; 5] {
    let least = study.voip.minimum_buffer_blocks as usize;
    let printed = study.voip.minimum_buffer_blocks_printed as usize;
    let late = (study.voip.jitter_limit_ms / 1000.0 * study.voip.blocks_per_second_used) as u64;
    [(least, 0), (printed, 0), (least + late as usize, late), (256 * 5, late), (256 * 10, late)]
}

/// Every call: plain, and with each ring.
pub fn calls(study: &Study, maker: &mut dyn Maker, span: Span) -> Result<Vec<Call>, String> {
    let mut calls = vec![plain(study, maker, span)?];
    for ring in rings(study) {
        calls.push(buffered(study, maker, ring, span)?);
    }
    Ok(calls)
}

fn limit(study: &Study) -> Duration {
    Duration::from_secs_f64(study.voip.jitter_limit_ms / 1000.0)
}

/// Every packet asks the token for its own blocks, one after the other.
pub fn plain(study: &Study, maker: &mut dyn Maker, span: Span) -> Result<Call, String> {
    let mut token = maker.asker()?;
    let packets = 2 * (study.voip.packets_per_second as u64) * span.seconds;
    let gap = Duration::from_secs(span.seconds) / packets as u32;
    let needed = blocks(study.voip.ip_packet_bytes);
    token.run_until(Instant::ZERO);
    let begun = token.now;
    let (mut in_time, mut longest) = (0, Duration::ZERO);
    for number in 0..packets as u32 {
        let arrives = begun + gap * number;
        token.run_until(arrives);
        token.ask(needed)?;
        let waited = token.now.since(arrives);
        longest = longest.max(waited);
        in_time += u64::from(waited <= limit(study));
    }
    let wait_max_ms = longest.as_secs_f64() * 1000.0;
    Ok(Call { ring: None, behind: 0, packets, in_time, wait_max_ms, fill_every_ms: None })
}

/// Times at which the token began to fill the rings.
#[derive(Default)]
struct Fillings {
    exchanges: u64,
    last: Option<Instant>,
    begun: Vec<Instant>,
}

impl Fillings {
    fn look(&mut self, at: Instant, exchanges: u64, counts: bool) {
        if exchanges == self.exchanges {
            return;
        }
        let is_new = self.last.is_none_or(|last| at.since(last) > APART);
        if counts && is_new {
            self.begun.push(at);
        }
        (self.exchanges, self.last) = (exchanges, Some(at));
    }

    /// From one to the next, in milliseconds.
    fn every_ms(&self) -> Option<f64> {
        let (first, last) = (self.begun.first()?, self.begun.last()?);
        let apart = last.since(*first).as_secs_f64() * 1000.0;
        (self.begun.len() > 1).then(|| apart / (self.begun.len() - 1) as f64)
    }
}

/// Both ends of a call.
struct Line {
    phone: Phone,
    peer: Phone,
    out: KeyId,
    inward: KeyId,
    from: KeyId,
}

impl Line {
    fn new(maker: &mut dyn Maker, (ring, behind): Ring) -> Result<Self, String> {
        let settings = token::Settings { behind, ..token::settings(ring) };
        let mut phone = maker.phone(token::TOKEN, settings)?;
        let mut peer = maker.phone("none", token::settings(1 << 13))?;
        let (out, inward) = (phone.install(Op::Seal)?, phone.install(Op::Open)?);
        let from = peer.install(Op::Seal)?;
        peer.fill();
        Ok(Self { phone, peer, out, inward, from })
    }
}

/// A call beside large packets.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Crowded {
    /// Packets of the call, both ways together.
    pub packets: u64,
    /// Of these, in time.
    pub in_time: u64,
}

/// Of the time after which the buffer is empty without delays: so long a crowded call is.
const CROWDED: f64 = 1.5;

/// A call beside large packets at the study's rate, until the buffer would have been empty
/// for a while; with `shape` by a sender that keeps the study's delays.
pub fn crowded(study: &Study, maker: &mut dyn Maker, shape: bool) -> Result<Crowded, String> {
    let drain = &study.drain;
    let mut phone = maker.phone(token::TOKEN, token::settings(drain.buffer_blocks as usize))?;
    let key = phone.install(Op::Seal)?;
    phone.fill();
    let network = drain.network_blocks_per_second / blocks(drain.packet_bytes) as f64;
    let delayed = drain.delay_ms.iter().find(|d| d.min_bytes <= drain.packet_bytes);
    let slowed = delayed.map_or(network, |d| network.min(1000.0 / d.delay));
    let large = Duration::from_secs_f64(1.0 / if shape { slowed } else { network });
    // Both directions of the call take from one ring here.
    let small = Duration::from_secs_f64(0.5 / study.voip.packets_per_second);
    let begun = phone.tick();
    let end = begun + Duration::from_secs_f64(CROWDED * drain.empty_after_s);
    let (mut sent, mut back) = (HashMap::new(), Vec::new());
    let mut call = Crowded { packets: 0, in_time: 0 };
    let (mut next_large, mut next_small) = (begun, begun);
    loop {
        let at = next_large.min(next_small);
        if at >= end {
            break;
        }
        phone.run_until(at, &mut back);
        let octets = match at == next_small {
            true => study.voip.ip_packet_bytes,
            false => drain.packet_bytes,
        };
        let job = phone.packet(key, octets);
        if at == next_small {
            (next_small, call.packets) = (next_small + small, call.packets + 1);
            sent.insert(job.ticket, at);
        } else {
            next_large += large;
        }
        back.extend(phone.submit(job));
    }
    // What waits longer is late anyway.
    phone.run_until(end + limit(study), &mut back);
    let in_time = back.iter().filter(|Returned { at, job }| {
        let entered = sent.get(&job.ticket).filter(|_| job.verdict == Verdict::Done);
        entered.is_some_and(|entered| at.since(*entered) <= limit(study))
    });
    call.in_time = in_time.count() as u64;
    Ok(call)
}

/// Both directions through their rings.
pub fn buffered(
    study: &Study,
    maker: &mut dyn Maker,
    ring: Ring,
    span: Span,
) -> Result<Call, String> {
    let octets = study.voip.ip_packet_bytes;
    let Line { mut phone, mut peer, out, inward, from } = Line::new(maker, ring)?;
    let gap = Duration::from_secs_f64(1.0 / study.voip.packets_per_second);
    let begun = phone.tick();
    let (mut fillings, mut sent) = (Fillings::default(), HashMap::new());
    let mut back: Vec<Returned> = Vec::new();
    for tick in 0..(span.seconds * study.voip.packets_per_second as u64) as u32 {
        let at = begun + gap * tick;
        phone.run_until(at, &mut back);
        peer.fill();
        let own = phone.packet(out, octets);
        let far = peer.packet(from, octets);
        let far = peer.submit(far).ok_or("the peer's ring is empty")?.job;
        for (way, job) in [(0, own), (1, received(far, inward))] {
            sent.insert((way, job.ticket), at);
            back.extend(phone.submit(job));
        }
        let counts = at.since(begun) >= Duration::from_secs(span.settling);
        fillings.look(at, phone.stats().exchanges, counts);
    }
    let end = phone.now + BEGINNING;
    phone.run_until(end, &mut back);
    let (ring, behind) = (Some(ring.0), ring.1);
    let (packets, fill_every_ms) = (sent.len() as u64, fillings.every_ms());
    let mut call = Call { ring, behind, packets, in_time: 0, wait_max_ms: 0.0, fill_every_ms };
    for Returned { at, job } in back {
        let way = u64::from(job.op == Op::Open);
        let right = job.verdict == Verdict::Done && (way == 0 || is_right(&job));
        let Some(entered) = sent.remove(&(way, job.ticket)) else { continue };
        let waited = at.since(entered);
        if entered.since(begun) >= BEGINNING {
            call.wait_max_ms = call.wait_max_ms.max(waited.as_secs_f64() * 1000.0);
        }
        call.in_time += u64::from(right && waited <= limit(study));
    }
    Ok(call)
}
