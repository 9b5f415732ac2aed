//! The token engine against software, and its rings against models.

mod bursts;
mod failing;
mod forged;
mod modes;
mod rings;
mod same_bytes;
mod secret;
mod share;
mod slow;
mod study_mode;

use super::*;
use ferrule_base::{Duration, Instant, Secret};
use ferrule_crypto::key::{Coming, TokenKey};
use ferrule_crypto::{
    Ad, Aes, Engine, Job, Jobs, KeyId, KeySpec, Op, Place, Software, Span, Suite, Verdict,
};

pub const GCM: Suite = Suite::AesGcm(Aes::Aes128);
/// Octets in front of the text: SPI and number.
pub const AD: usize = 8;
/// The base of the nonces.
pub const BASE: [u8; 12] = [9, 8, 7, 6, 0, 0, 0, 0, 0, 0, 0, 0];

pub type Packet = Vec<u8>;

pub fn key_of(_: &str, aes: Aes) -> Option<Secret> {
    Some(Secret::new((1..).take(aes.key_len()).collect()))
}

pub fn settings() -> Settings {
    Settings { blocks: 2048, locked: false, keep: None, ..Settings::default() }
}

pub fn engine(profile: &str, settings: Settings) -> TokenEngine<Packet> {
    let profile = TokenProfile::shipped(profile).unwrap();
    let most = profile.blocks_max();
    TokenEngine::new(Box::new(Virtual::new(SoftToken::new(key_of), profile)), most, settings)
        .unwrap()
}

pub fn spec(suite: Suite) -> KeySpec {
    let key = key_of("", Aes::Aes128).unwrap();
    KeySpec::new(suite, key, Secret::new(vec![3; suite.mac_key_len()]))
}

/// The key on the token, its nonces known from `next` on.
pub fn on_token(suite: Suite, op: Op, known: bool, next: u64) -> KeySpec {
    let coming = Coming { op, base: BASE, known, next };
    spec(suite).at(Place::Token(TokenKey::new("k"))).expecting(coming)
}

pub fn nonce(base: [u8; 12], number: u64) -> [u8; 12] {
    let mut nonce = base;
    for (octet, n) in nonce[4..].iter_mut().zip(number.to_be_bytes()) {
        *octet ^= n;
    }
    nonce
}

/// A packet of ESP's form: SPI, number, text, room for the ICV.
pub fn job(key: KeyId, op: Op, base: [u8; 12], number: u64, text: usize) -> Job<Packet> {
    let mut buf = vec![0, 0, 1, 7];
    buf.extend((number as u32).to_be_bytes());
    buf.extend((0..text).map(|i| (i as u64).wrapping_mul(7).wrapping_add(number) as u8));
    buf.resize(AD + text + 16, 0);
    Job {
        buf,
        key,
        ticket: number,
        number: 0,
        nonce: nonce(base, number),
        op,
        verdict: Verdict::Pending,
        ad: Ad::Span(Span::new(0, AD)),
        text: Span::new(AD, text),
    }
}

/// The same packet sealed by software, as another sender's, to be opened.
pub fn sealed(key: KeyId, base: [u8; 12], number: u64, text: usize) -> Job<Packet> {
    let mut software = Software::default();
    let own = Engine::<Packet>::install(&mut software, &spec(GCM)).unwrap();
    let mut jobs = [job(own, Op::Seal, base, number, text)];
    software.run(&mut jobs);
    let [done] = jobs;
    assert_eq!(done.verdict, Verdict::Done);
    Job { key, op: Op::Open, verdict: Verdict::Pending, ..done }
}

pub fn submit(
    engine: &mut TokenEngine<Packet>,
    now: Instant,
    job: Job<Packet>,
) -> Option<Job<Packet>> {
    let mut jobs = Jobs::new();
    jobs.push(job);
    engine.submit(now, &mut jobs);
    jobs.pop()
}

/// Turns time on until nothing is under way; returns the jobs that came back, and when.
pub fn drain(engine: &mut TokenEngine<Packet>, now: &mut Instant) -> Vec<(Instant, Job<Packet>)> {
    let mut all = Vec::new();
    loop {
        let mut done = Jobs::new();
        engine.collect(*now, &mut done);
        all.extend(done.into_iter().map(|job| (*now, job)));
        match engine.poll_timeout() {
            Some(at) => *now = at.max(*now),
            None => return all,
        }
    }
}

/// Turns time on until a moment.
pub fn until(
    engine: &mut TokenEngine<Packet>,
    now: &mut Instant,
    end: Instant,
) -> Vec<Job<Packet>> {
    let mut all = Vec::new();
    loop {
        let mut done = Jobs::new();
        engine.collect(*now, &mut done);
        all.extend(done);
        match engine.poll_timeout() {
            Some(at) if at <= end => *now = at.max(*now),
            _ => {
                *now = end;
                return all;
            }
        }
    }
}

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
