//! The study's phone in virtual time: a token engine with its ring, and a tester that
//! gives it packets.
//!
//! ```text
//!   packets ─▶ TokenEngine ─ ring ─ Line::begin ─▶ [ token: 12 or 16 ms an exchange ]
//!     ▲            │                                        virtual time
//!     └─ next one when this one is done, and the network is ready for it
//! ```
//!
//! Everything but the clock is what a node on a real token runs.

use ferrule_base::{Duration, Instant, Rng, Secret};
use ferrule_crypto::key::{Coming, TokenKey};
use ferrule_crypto::{
    Ad, Aes, Engine, Job, Jobs, KeyId, KeySpec, Mac, Op, Place, Span, Suite, Verdict,
};
pub use ferrule_engines::token::Settings;
use ferrule_engines::token::{
    Ask, Exchange, Line, SoftToken, TokenEngine, TokenProfile, TokenStats, Virtual,
};

/// The study's cipher, with the hash that it lacks.
const SUITE: Suite = Suite::AesCtrStudy(Aes::Aes128, Mac::HmacSha1_96);
/// Its token.
pub const TOKEN: &str = "microsd";
/// SPI and number in front of the text.
const AD: usize = 8;
/// The low half of the counter, in front of the ciphertext.
const IV: usize = 8;
/// SHA-1-96.
const ICV: usize = 12;
/// Octets of a block.
pub const BLOCK: usize = 16;
/// The nonce of both directions.
const BASE: [u8; 12] = [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0];

/// The packet of a job.
pub type Packet = Vec<u8>;

/// Octets that ESP encrypts of an IP packet: padding to four, its length, the next
/// header (RFC 4303 section 2.4).
pub const fn plaintext(ip_octets: usize) -> usize {
    (ip_octets + 2).next_multiple_of(4)
}

/// Blocks of key stream that an IP packet takes.
pub const fn blocks(ip_octets: usize) -> usize {
    plaintext(ip_octets).div_ceil(BLOCK)
}

fn key(aes: Aes) -> Secret {
    Secret::new((1..).take(aes.key_len()).collect())
}

fn token() -> SoftToken {
    SoftToken::new(|_, aes| Some(key(aes)))
}

/// The study's SA: its cipher with a hash, and a key that is on the token under a label.
pub fn spec(op: Op, label: &str) -> KeySpec {
    let coming = Coming { op, base: BASE, known: false, next: 1 };
    let spec = KeySpec::new(SUITE, key(Aes::Aes128), Secret::new(vec![3; SUITE.mac_key_len()]));
    spec.at(Place::Token(TokenKey::new(label))).expecting(coming)
}

/// An IP packet of so many octets as ESP gives it to an engine, to be sealed.
pub fn packet(key: KeyId, number: u64, ip_octets: usize) -> Job<Packet> {
    let text = plaintext(ip_octets);
    let mut buf = vec![0, 0, 1, 7];
    buf.extend((number as u32).to_be_bytes());
    buf.extend([0; IV]);
    buf.extend(clear(number, text));
    buf.extend([0; ICV]);
    Job {
        buf,
        key,
        ticket: number,
        nonce: BASE,
        op: Op::Seal,
        verdict: Verdict::Pending,
        ad: Ad::Span(Span::new(0, AD)),
        text: Span::new(AD, IV + text),
    }
}

/// A shipped token profile.
pub fn profile(name: &str) -> TokenProfile {
    TokenProfile::shipped(name).unwrap_or_else(|| panic!("profiles/token/{name}.toml is shipped"))
}

/// What a phone is told.
pub fn settings(blocks: usize) -> Settings {
    // The study keeps nothing for late packets but what the ring has not come round to.
    Settings { blocks, behind: 20, locked: false, keep: None, ..Settings::default() }
}

/// An engine on a token, and the time.
pub struct Phone {
    engine: TokenEngine<Packet>,
    /// Now.
    pub now: Instant,
    number: u64,
}

/// What came back.
pub struct Returned {
    /// When.
    pub at: Instant,
    /// The job.
    pub job: Job<Packet>,
}

impl Phone {
    /// With this token.
    pub fn new(profile: &TokenProfile, settings: Settings) -> Self {
        let line = Box::new(Virtual::new(token(), profile.clone()));
        let engine = TokenEngine::new(line, profile.blocks_max(), settings);
        Self { engine: engine.expect("memory that is not locked"), now: Instant::ZERO, number: 1 }
    }

    /// One direction of an SA.
    pub fn install(&mut self, op: Op) -> KeyId {
        self.engine.install(&spec(op, "study")).expect("the ring has room for two exchanges")
    }

    /// Blocks that are made ahead.
    pub fn ahead(&self, key: KeyId) -> u64 {
        self.engine.ahead(key).unwrap_or(0)
    }

    /// What the engine did.
    pub fn stats(&self) -> TokenStats {
        self.engine.stats()
    }

    /// A packet to seal.
    pub fn packet(&mut self, key: KeyId, ip_octets: usize) -> Job<Packet> {
        self.number += 1;
        packet(key, self.number - 1, ip_octets)
    }

    /// Gives the engine a packet; it comes back at once if its key stream is there.
    pub fn submit(&mut self, job: Job<Packet>) -> Option<Returned> {
        let mut jobs = Jobs::new();
        jobs.push(job);
        self.engine.submit(self.now, &mut jobs);
        jobs.pop().map(|job| Returned { at: self.now, job })
    }

    /// Turns time on; `back` gets what comes back.
    pub fn run_until(&mut self, end: Instant, back: &mut Vec<Returned>) {
        loop {
            let mut done = Jobs::new();
            self.engine.collect(self.now, &mut done);
            back.extend(done.into_iter().map(|job| Returned { at: self.now, job }));
            match self.engine.poll_timeout() {
                Some(at) if at <= end => self.now = self.now.max(at),
                _ => break,
            }
        }
        self.now = self.now.max(end);
    }

    /// Turns time on until a packet comes back, or the engine has nothing to do.
    pub fn wait(&mut self) -> Option<Returned> {
        loop {
            let mut done = Jobs::new();
            self.engine.collect(self.now, &mut done);
            if let Some(job) = done.pop() {
                return Some(Returned { at: self.now, job });
            }
            self.now = self.now.max(self.engine.poll_timeout()?);
        }
    }

    /// Turns time on until the token sleeps: all rings are full.
    pub fn fill(&mut self) {
        while self.wait().is_some() {}
    }
}

/// What a packet's text must be.
pub fn clear(number: u64, octets: usize) -> impl Iterator<Item = u8> {
    let mut dice = Rng::new(number);
    let first = dice.next_u64();
    (0..octets as u64).map(move |at| (first.rotate_left((at % 64) as u32) ^ at) as u8)
}

/// Whether an opened packet holds what was sealed.
pub fn is_right(job: &Job<Packet>) -> bool {
    let text = usize::from(job.text.len) - IV;
    job.buf.get(AD + IV..).is_some_and(|found| {
        found.len() >= text && found[..text].iter().copied().eq(clear(job.ticket, text))
    })
}

/// The same packet, as its peer gets it.
pub fn received(job: Job<Packet>, key: KeyId) -> Job<Packet> {
    Job { key, op: Op::Open, verdict: Verdict::Pending, ..job }
}

/// Exchanges of a token that works packet by packet, as plain AES-CTR does: the time
/// that key stream for so many blocks takes.
pub fn plain(profile: &TokenProfile, blocks: usize) -> Duration {
    let mut line = Virtual::new(token(), profile.clone());
    let most = profile.blocks_max();
    line.open(0, "study", Aes::Aes128);
    let mut now = Instant::ZERO;
    let mut exchange = Box::new(Exchange::new(most, false).expect("memory that is not locked"));
    let mut left = blocks;
    while left > 0 {
        exchange.used = left.min(most);
        exchange.ask = Ask::Counting((blocks - left) as u128);
        left -= exchange.used;
        assert!(line.begin(now, exchange).is_ok(), "one exchange at a time");
        now = line.poll_timeout().expect("it is under way");
        exchange = line.end(now).expect("its time has come");
        assert!(exchange.result.is_ok(), "{:?}", exchange.result);
    }
    now.since(Instant::ZERO)
}
