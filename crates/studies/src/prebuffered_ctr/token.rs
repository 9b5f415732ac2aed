//! The study's phone: a token engine with its ring, and a tester that gives it
//! packets.
//!
//! ```text
//!   packets ─▶ TokenEngine ─ ring ─ Line::begin ─▶ [ token: 12 or 16 ms an exchange ]
//!     ▲            │                                  virtual time, or a real token
//!     └─ next one when this one is done, and the network is ready for it
//! ```
//!
//! A [`Maker`] says which: [`InLab`] is virtual time and a token in software; whoever
//! has a token brings a line to it and a [`Watch`]. All else is the same code.

use ferrule_base::{Instant, Rng, Secret};
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
/// The label of the key there.
pub const KEY_LABEL: &str = "study";
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
        number: 0,
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

/// Settings of a phone's engine.
pub fn settings(blocks: usize) -> Settings {
    // The study keeps nothing for late packets but what the ring has not come round to.
    Settings { blocks, behind: 20, locked: false, keep: None, ..Settings::default() }
}

/// Real time, and a token that can do without its delay.
pub trait Watch: Send {
    /// Waits until then; what time it is afterwards.
    fn until(&mut self, at: Instant) -> Instant;

    /// Lets exchanges omit the added delay, or not: a ring fills sooner before the traffic begins.
    fn hurry(&mut self, may: bool);
}

/// Factory of phones.
pub trait Maker {
    /// A phone on a token as slow as this profile.
    fn phone(&mut self, profile: &str, settings: Settings) -> Result<Phone, String>;

    /// The study's token, asked packet by packet.
    fn asker(&mut self) -> Result<Asker, String>;
}

/// Virtual time, and a token in software.
pub struct InLab;

impl Maker for InLab {
    fn phone(&mut self, name: &str, settings: Settings) -> Result<Phone, String> {
        let profile = profile(name);
        let line = Box::new(Virtual::new(token(), profile.clone()));
        Phone::new(line, &profile, settings, None)
    }

    fn asker(&mut self) -> Result<Asker, String> {
        let profile = profile(TOKEN);
        Asker::new(Box::new(Virtual::new(token(), profile.clone())), &profile, None)
    }
}

/// Waits, in virtual time without waiting.
fn until(watch: &mut Option<Box<dyn Watch>>, now: Instant, at: Instant) -> Instant {
    match watch {
        Some(watch) => now.max(watch.until(at)),
        None => now.max(at),
    }
}

/// An engine on a token, and the time.
pub struct Phone {
    engine: TokenEngine<Packet>,
    watch: Option<Box<dyn Watch>>,
    /// Now.
    pub now: Instant,
    number: u64,
}

/// A job that came back from the engine.
pub struct Returned {
    /// Time of its return.
    pub at: Instant,
    /// The job.
    pub job: Job<Packet>,
}

impl Phone {
    /// On this line to a token, in virtual time if there is no watch.
    pub fn new(
        line: Box<dyn Line>,
        profile: &TokenProfile,
        settings: Settings,
        watch: Option<Box<dyn Watch>>,
    ) -> Result<Self, String> {
        let engine = TokenEngine::new(line, profile.blocks_max(), settings);
        let engine = engine.map_err(|e| format!("memory for a ring: {e}"))?;
        Ok(Self { engine, watch, now: Instant::ZERO, number: 1 })
    }

    /// One direction of an SA.
    pub fn install(&mut self, op: Op) -> Result<KeyId, String> {
        self.engine.install(&spec(op, KEY_LABEL)).map_err(|e| e.to_string())
    }

    /// Reads the clock, and returns the time.
    pub fn tick(&mut self) -> Instant {
        self.now = until(&mut self.watch, self.now, self.now);
        self.now
    }

    /// Blocks that are made ahead.
    pub fn ahead(&self, key: KeyId) -> u64 {
        self.engine.ahead(key).unwrap_or(0)
    }

    /// Counters of the engine.
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
        let now = self.tick();
        self.engine.submit(now, &mut jobs);
        jobs.pop().map(|job| Returned { at: self.now, job })
    }

    /// Turns time on; `back` gets what comes back.
    pub fn run_until(&mut self, end: Instant, back: &mut Vec<Returned>) {
        loop {
            self.collect(back);
            match self.engine.poll_timeout() {
                Some(at) if at <= end => self.now = until(&mut self.watch, self.now, at),
                _ => break,
            }
        }
        self.now = until(&mut self.watch, self.now, end);
    }

    /// Turns time on until the engine has nothing to do: all rings are full.
    pub fn settle(&mut self, back: &mut Vec<Returned>) {
        loop {
            self.collect(back);
            let Some(at) = self.engine.poll_timeout() else { return };
            self.now = until(&mut self.watch, self.now, at);
        }
    }

    /// Turns time on until something comes back, or the engine has nothing to do.
    pub fn wait(&mut self) -> Option<Returned> {
        let mut back = Vec::new();
        loop {
            self.collect(&mut back);
            if let Some(first) = back.pop() {
                return Some(first);
            }
            let at = self.engine.poll_timeout()?;
            self.now = until(&mut self.watch, self.now, at);
        }
    }

    /// Fills all rings, as fast as the token can.
    pub fn fill(&mut self) {
        self.hurry(true);
        self.settle(&mut Vec::new());
        self.hurry(false);
    }

    fn hurry(&mut self, may: bool) {
        if let Some(watch) = &mut self.watch {
            watch.hurry(may);
        }
    }

    fn collect(&mut self, back: &mut Vec<Returned>) {
        let mut done = Jobs::new();
        self.engine.collect(self.now, &mut done);
        back.extend(done.into_iter().map(|job| Returned { at: self.now, job }));
    }
}

/// Plaintext of a packet, derived from its number so that the receiver can check it.
pub fn clear(number: u64, octets: usize) -> impl Iterator<Item = u8> {
    let mut dice = Rng::new(number);
    let first = dice.next_u64();
    (0..octets as u64).map(move |at| (first.rotate_left((at % 64) as u32) ^ at) as u8)
}

/// True if an opened packet holds the plaintext that was sealed.
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

/// A token that works packet by packet, as plain AES-CTR does.
pub struct Asker {
    line: Box<dyn Line>,
    watch: Option<Box<dyn Watch>>,
    exchange: Option<Box<Exchange>>,
    most: usize,
    counter: u128,
    /// Now.
    pub now: Instant,
}

/// The number of its key.
const ASKED: u32 = 7;

impl Asker {
    /// On this line, in virtual time if there is no watch.
    pub fn new(
        mut line: Box<dyn Line>,
        profile: &TokenProfile,
        watch: Option<Box<dyn Watch>>,
    ) -> Result<Self, String> {
        let most = profile.blocks_max();
        line.open(ASKED, KEY_LABEL, Aes::Aes128);
        let mut exchange = Exchange::new(most, false).map_err(|e| e.to_string())?;
        exchange.key = ASKED;
        let exchange = Some(Box::new(exchange));
        Ok(Self { line, watch, exchange, most, counter: 0, now: Instant::ZERO })
    }

    /// Turns time on.
    pub fn run_until(&mut self, at: Instant) {
        self.now = until(&mut self.watch, self.now, at);
    }

    /// Asks for so many blocks, and waits for them.
    pub fn ask(&mut self, blocks: usize) -> Result<(), String> {
        let mut left = blocks;
        while left > 0 {
            let mut exchange = self.exchange.take().ok_or("one exchange at a time")?;
            exchange.used = left.min(self.most);
            exchange.ask = Ask::Counting(self.counter);
            (left, self.counter) = (left - exchange.used, self.counter + exchange.used as u128);
            let busy = |_| "the line is busy".to_owned();
            self.line.begin(self.now, exchange).map_err(busy)?;
            let done = loop {
                let at = self.line.poll_timeout().ok_or("nothing is under way")?;
                self.now = until(&mut self.watch, self.now, at);
                if let Some(done) = self.line.end(self.now) {
                    break done;
                }
            };
            done.result.clone().map_err(|e| e.to_string())?;
            self.exchange = Some(done);
        }
        Ok(())
    }
}
