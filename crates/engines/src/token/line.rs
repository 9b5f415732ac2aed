//! The line to a token: one exchange at a time, taken there and brought back.
//!
//! ```text
//!   engine ── begin(exchange) ─▶ [ line ] ─ provider.ecb / ctr ─▶ token
//!          ◀─ end() ────────────         ◀───────────────────────
//! ```
//!
//! The engine is the same whether time is real or not: in virtual time
//! [`Virtual`] prices an exchange by a profile, live a thread waits for it
//! ([`super::live`]).

use super::profile::TokenProfile;
use super::provider::{Provider, TokenError};
use super::vault::Vault;
use ferrule_base::Instant;
use ferrule_crypto::Aes;
use zeroize::Zeroize;

/// Kind of request in an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The blocks as they are, each by itself.
    List,
    /// Blocks that count upwards from here.
    Counting(u128),
}

/// One exchange: blocks to encrypt, and back.
#[derive(Debug)]
pub struct Exchange {
    /// Number of the key.
    pub key: u32,
    /// Request to the token.
    pub ask: Ask,
    /// Counter blocks on the way there, key stream on the way back.
    pub blocks: Vault,
    /// Number of blocks in use.
    pub used: usize,
    /// Result, filled in by the line.
    pub result: Result<(), TokenError>,
}

impl Exchange {
    /// Room for the exchanges of a token, locked if its keys are secret.
    pub fn new(blocks: usize, locked: bool) -> std::io::Result<Self> {
        let blocks = if locked { Vault::locked(blocks)? } else { Vault::unlocked(blocks)? };
        Ok(Self { key: 0, ask: Ask::List, blocks, used: 0, result: Ok(()) })
    }

    /// Does it.
    pub fn run(&mut self, provider: &mut dyn Provider) {
        let Some(blocks) = self.blocks.get_mut(..self.used) else {
            self.result = Err(TokenError::Gone);
            return;
        };
        self.result = match self.ask {
            Ask::List => provider.ecb(self.key, blocks),
            Ask::Counting(first) => provider.ctr(self.key, first, blocks),
        };
    }

    /// Wipes the blocks that it brought.
    pub fn wipe(&mut self) {
        if let Some(blocks) = self.blocks.get_mut(..self.used) {
            blocks.as_flattened_mut().zeroize();
        }
        self.used = 0;
    }
}

/// A way to a token.
pub trait Line: Send {
    /// Opens a key before its first exchange. If that fails, its exchanges do.
    fn open(&mut self, key: u32, label: &str, aes: Aes);

    /// Forgets an open key.
    fn close(&mut self, key: u32);

    /// Sends an exchange; it comes back at once if one is under way.
    fn begin(&mut self, now: Instant, exchange: Box<Exchange>) -> Result<(), Box<Exchange>>;

    /// The exchange that has ended, if one has.
    fn end(&mut self, now: Instant) -> Option<Box<Exchange>>;

    /// Time of the next poll for the end of the exchange under way.
    fn poll_timeout(&self) -> Option<Instant>;
}

/// A token in virtual time: exchanges take the profile's time.
pub struct Virtual<P> {
    provider: P,
    profile: TokenProfile,
    under_way: Option<(Instant, Box<Exchange>)>,
    broken: Vec<(u32, TokenError)>,
}

impl<P: Provider> Virtual<P> {
    /// This token at this price.
    pub const fn new(provider: P, profile: TokenProfile) -> Self {
        Self { provider, profile, under_way: None, broken: Vec::new() }
    }
}

impl<P: Provider> Line for Virtual<P> {
    fn open(&mut self, key: u32, label: &str, aes: Aes) {
        if let Err(e) = self.provider.open(key, label, aes) {
            self.broken.push((key, e));
        }
    }

    fn close(&mut self, key: u32) {
        self.provider.close(key);
        self.broken.retain(|(k, _)| *k != key);
    }

    fn begin(&mut self, now: Instant, mut exchange: Box<Exchange>) -> Result<(), Box<Exchange>> {
        if self.under_way.is_some() {
            return Err(exchange);
        }
        match self.broken.iter().find(|(key, _)| *key == exchange.key) {
            Some((_, e)) => exchange.result = Err(e.clone()),
            None => exchange.run(&mut self.provider),
        }
        self.under_way = Some((now + self.profile.time(exchange.used), exchange));
        Ok(())
    }

    fn end(&mut self, now: Instant) -> Option<Box<Exchange>> {
        let done = self.under_way.take_if(|(at, _)| *at <= now)?;
        Some(done.1)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.under_way.as_ref().map(|(at, _)| *at)
    }
}
