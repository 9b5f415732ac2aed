//! The audit of nonces: none is used twice with one key, by any node of a run,
//! before or after a restart.
//!
//! ```text
//!   worker ─▶ Audited<E> ─▶ E        key ─▶ page of 512 numbers ─▶ one bit each
//!               │ sealed: (key, nonce) ─▶ NonceLedger, shared by all nodes
//! ```
//!
//! [`Audited`] stands in front of a worker's engine and notes each job that the
//! engine sealed. Keys are known by their fingerprint, so the same key in two
//! nodes, or in one before and after it crashed, is one key.
//!
//! Numbers follow one another, so a bit for each is enough: a run of a million
//! sealed packets needs about 200 KiB. At most [`PAGES_MAX`] pages are kept; a
//! run that needs more is told so, rather than checked in part.

use super::finding::{Findings, Invariant, lock};
use arrayvec::ArrayVec;
use ferrule_base::{Instant, Secret, Work};
use ferrule_crypto::engine::BATCH;
use ferrule_crypto::key::InstallError;
use ferrule_crypto::{Engine, EngineReport, Job, Jobs, KeyId, KeySpec, Op, Verdict, fingerprint};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Pages of the ledger at most: 16 MiB of bits, 134 million nonces in a row.
pub const PAGES_MAX: usize = 1 << 18;

/// Nonces of one page.
const PAGE: u128 = 512;

/// Digest that identifies a key without revealing it.
type Print = [u8; 16];

/// Every nonce of a run. Clones share it.
#[derive(Clone, Default)]
pub struct NonceLedger(Arc<Mutex<Pages>>);

#[derive(Default)]
struct Pages {
    bits: HashMap<(Print, u128), [u64; 8]>,
    names: HashMap<Print, String>,
    noted: u64,
    full: bool,
}

/// Result of noting a nonce.
#[derive(Debug, PartialEq, Eq)]
enum Noted {
    First,
    Again(String),
    NoRoom,
}

impl NonceLedger {
    /// Gives a key the name under which findings speak of it.
    pub fn name(&self, key: &Secret, name: &str) {
        lock(&self.0).names.insert(print(key), name.into());
    }

    /// Nonces noted.
    pub fn noted(&self) -> u64 {
        lock(&self.0).noted
    }

    fn note(&self, key: Print, nonce: [u8; 12]) -> Noted {
        let mut pages = lock(&self.0);
        let number = nonce.iter().fold(0_u128, |n, &octet| n << 8 | u128::from(octet));
        let (page, bit) = (number / PAGE, (number % PAGE) as usize);
        if pages.bits.len() >= PAGES_MAX && !pages.bits.contains_key(&(key, page)) {
            let known = std::mem::replace(&mut pages.full, true);
            return if known { Noted::First } else { Noted::NoRoom };
        }
        let words = pages.bits.entry((key, page)).or_default();
        let (word, mask) = (&mut words[bit / 64], 1_u64 << (bit % 64));
        if *word & mask != 0 {
            let unnamed = || format!("key {}", hex(&key[..4]));
            return Noted::Again(pages.names.get(&key).cloned().unwrap_or_else(unnamed));
        }
        *word |= mask;
        pages.noted += 1;
        Noted::First
    }
}

fn print(key: &Secret) -> Print {
    fingerprint(key, b"nonce audit")
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|o| format!("{o:02x}")).collect()
}

/// An engine whose sealing is noted.
pub struct Audited<E> {
    inner: E,
    node: String,
    ledger: NonceLedger,
    findings: Findings,
    keys: HashMap<KeyId, Print>,
}

impl<E> Audited<E> {
    /// Audits the engine of a worker of `node`.
    pub fn new(inner: E, node: &str, ledger: &NonceLedger, findings: &Findings) -> Self {
        let (ledger, findings) = (ledger.clone(), findings.clone());
        Self { inner, node: node.into(), ledger, findings, keys: HashMap::new() }
    }

    fn note(&self, now: Instant, key: KeyId, nonce: [u8; 12]) {
        let Some(&print) = self.keys.get(&key) else { return };
        match self.ledger.note(print, nonce) {
            Noted::First => {}
            Noted::Again(sa) => {
                let what = format!("nonce {} was used before with {sa}", hex(&nonce));
                self.findings.add(Invariant::NonceOnce, now, &self.node, what);
            }
            Noted::NoRoom => {
                let what = format!("more than {PAGES_MAX} pages of nonces: make the run shorter");
                self.findings.add(Invariant::WithinBounds, now, &self.node, what);
            }
        }
    }
}

impl<B: AsMut<[u8]>, E: Engine<B>> Engine<B> for Audited<E> {
    fn install(&mut self, spec: &KeySpec) -> Result<KeyId, InstallError> {
        let id = self.inner.install(spec)?;
        self.keys.insert(id, print(spec.identity()));
        Ok(id)
    }

    fn retire(&mut self, key: KeyId) {
        // The print stays: jobs of the key may still come. A slot's generation
        // changes, so a handle never means another key.
        self.inner.retire(key);
    }

    fn submit(&mut self, now: Instant, jobs: &mut Jobs<B>) {
        let mut sealing: ArrayVec<(KeyId, [u8; 12]), BATCH> = jobs
            .iter()
            .filter(|job| job.op == Op::Seal && job.verdict == Verdict::Pending)
            .map(|job| (job.key, job.nonce))
            .collect();
        self.inner.submit(now, jobs);
        // Neither done nor under way: not accepted, or refused. Its nonce is unused.
        for job in jobs.iter().filter(|job| job.op == Op::Seal && job.verdict != Verdict::Done) {
            if let Some(at) = sealing.iter().position(|&s| s == (job.key, job.nonce)) {
                sealing.swap_remove(at);
            }
        }
        for (key, nonce) in sealing {
            self.note(now, key, nonce);
        }
    }

    fn collect(&mut self, now: Instant, done: &mut Jobs<B>) {
        self.inner.collect(now, done);
    }

    fn run_beside(&mut self, now: Instant, buffers: &mut [B], jobs: &mut [Job<()>]) {
        for (buffers, jobs) in buffers.chunks_mut(BATCH).zip(jobs.chunks_mut(BATCH)) {
            let sealing: ArrayVec<bool, BATCH> = jobs
                .iter()
                .map(|job| job.op == Op::Seal && job.verdict == Verdict::Pending)
                .collect();
            self.inner.run_beside(now, buffers, jobs);
            for (job, _) in jobs.iter().zip(sealing).filter(|(_, sealing)| *sealing) {
                if job.verdict == Verdict::Done {
                    self.note(now, job.key, job.nonce);
                }
            }
        }
    }

    fn prefetch(&self, key: KeyId, text: usize) {
        self.inner.prefetch(key, text);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn is_immediate(&self) -> bool {
        self.inner.is_immediate()
    }

    fn take_work(&mut self) -> Work {
        self.inner.take_work()
    }

    fn report(&self) -> Vec<EngineReport> {
        self.inner.report()
    }
}

#[cfg(test)]
#[path = "tests/nonce.rs"]
mod tests;
