//! The study's phone on a real token: a line that can do without the card's delay
//! while a ring is filled, and real time.
//!
//! ```text
//!   TokenEngine ─▶ Lines ─┬─ slow: each exchange takes 12 or 16 ms ─▶ the same
//!                         └─ fast: as fast as the module ───────────▶ token
//! ```
//!
//! How a ring became full does not matter for how it runs empty; at the card's speed
//! the largest of the study's would take more than a minute.

use ferrule_base::Instant;
use ferrule_crypto::Aes;
use ferrule_engines::token::{Exchange, Line, Live, Login, Pkcs11Token, Shared, TokenProfile};
use ferrule_studies::prebuffered_ctr::token::{
    Asker, Maker, Phone, Settings, TOKEN, Watch, profile,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant as Clock};

/// A sleep ends late by about so much; the rest is waited for by looking.
const LATE: Duration = Duration::from_micros(120);

/// Makes phones on a token. Each has a line and a clock of its own.
pub struct OnToken {
    token: Shared,
    lines: u8,
}

impl OnToken {
    /// Logs in.
    pub fn new(login: &Login) -> Result<Self, String> {
        let token = Pkcs11Token::new(login).map_err(|e| e.to_string())?;
        Ok(Self { token: Arc::new(Mutex::new(token)), lines: 0 })
    }

    fn line(&mut self, profile: &TokenProfile, fast: &Arc<AtomicBool>) -> Result<Lines, String> {
        let mut start = |profile: TokenProfile| {
            self.lines += 1;
            Live::start(self.token.clone(), profile, self.lines).map_err(|e| e.to_string())
        };
        let (slow, quick) = (start(profile.clone())?, start(TokenProfile::none())?);
        Ok(Lines { slow, quick, fast: fast.clone(), on_quick: false })
    }
}

impl Maker for OnToken {
    fn phone(&mut self, name: &str, settings: Settings) -> Result<Phone, String> {
        let (profile, fast) = (profile(name), Arc::new(AtomicBool::new(false)));
        let line = self.line(&profile, &fast)?;
        Phone::new(Box::new(line), &profile, settings, Some(Box::new(Real::new(fast))))
    }

    fn asker(&mut self) -> Result<Asker, String> {
        let (profile, fast) = (profile(TOKEN), Arc::new(AtomicBool::new(false)));
        let line = self.line(&profile, &fast)?;
        Asker::new(Box::new(line), &profile, Some(Box::new(Real::new(fast))))
    }
}

/// Two lines to one token, one exchange on either of them at a time.
struct Lines {
    slow: Live,
    quick: Live,
    fast: Arc<AtomicBool>,
    on_quick: bool,
}

impl Lines {
    fn busy(&self) -> &Live {
        if self.on_quick { &self.quick } else { &self.slow }
    }
}

impl Line for Lines {
    fn open(&mut self, key: u32, label: &str, aes: Aes) {
        self.slow.open(key, label, aes);
        self.quick.open(key, label, aes);
    }

    fn close(&mut self, key: u32) {
        self.slow.close(key);
        self.quick.close(key);
    }

    fn begin(&mut self, now: Instant, exchange: Box<Exchange>) -> Result<(), Box<Exchange>> {
        if self.busy().poll_timeout().is_some() {
            return Err(exchange);
        }
        self.on_quick = self.fast.load(Ordering::Relaxed);
        if self.on_quick { &mut self.quick } else { &mut self.slow }.begin(now, exchange)
    }

    fn end(&mut self, now: Instant) -> Option<Box<Exchange>> {
        if self.on_quick { &mut self.quick } else { &mut self.slow }.end(now)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.busy().poll_timeout()
    }
}

/// The machine's clock, from when it was made.
struct Real {
    begun: Clock,
    fast: Arc<AtomicBool>,
}

impl Real {
    fn new(fast: Arc<AtomicBool>) -> Self {
        Self { begun: Clock::now(), fast }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.begun.elapsed().as_nanos() as u64)
    }
}

impl Watch for Real {
    fn until(&mut self, at: Instant) -> Instant {
        loop {
            let now = self.now();
            let left = at.since(now);
            if left.is_zero() {
                return now;
            }
            match left.checked_sub(LATE) {
                Some(time) => std::thread::sleep(time),
                None => std::thread::yield_now(),
            }
        }
    }

    fn hurry(&mut self, may: bool) {
        self.fast.store(may, Ordering::Relaxed);
    }
}
