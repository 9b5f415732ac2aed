//! AES-CBC with HMAC, a batch of 64 packets at a time.
//!
//! Beside Intel's multi-buffer library through its burst interfaces, and beside the
//! code for one packet at a time. A payload of as many octets, behind ESP's header
//! and IV; the library is given its IVs, ours are made in the same pass (one block
//! more). The library comes from the system (Debian: libipsec-mb-dev); without it its
//! rows are missing.

use ferrule_base::{Rng, Secret};
use ferrule_benches::peer::Peer;
use ferrule_benches::{Case, ROUNDS, heading, interleave, row};
use ferrule_crypto::{
    Ad, Aes, Backend, Engine, Job, KeyId, KeySpec, Mac, Op, Software, Span, Suite, Verdict,
};
use ferrule_ports::tsc::tsc;
use std::cell::RefCell;

/// Octets of ESP's header, which is additional data, and of an IV.
const HEADER: usize = 8;
const IV: usize = 16;
/// Where the payload begins in a buffer, and octets from one buffer to the next.
const FRONT: usize = 256;
const STRIDE: usize = 2048 + 64;
/// Buffers in turn, packets of a batch, packets of a round.
const BUFFERS: usize = 128;
const BATCH: usize = 64;
const PACKETS: usize = 512;

/// An engine with one key, and packets for it.
struct Rig {
    engine: Software,
    key: KeyId,
    memory: Vec<u8>,
    /// Octets of payload, one after the other for the packets.
    lengths: Vec<usize>,
    number: u64,
}

impl Rig {
    fn new(backend: Backend, mac: Mac, lengths: Vec<usize>) -> Self {
        let suite = Suite::AesCbc(Aes::Aes128, mac);
        let octets = |len: usize| Secret::new((0..len as u8).collect());
        let (key, mac_key) = (octets(suite.key_len()), octets(suite.mac_key_len()));
        let spec = KeySpec { suite, key, mac_key, place: Default::default() };
        let mut engine = Software::new(backend);
        let key = Engine::<&mut [u8]>::install(&mut engine, &spec).expect("a key");
        Self { engine, key, memory: vec![0; BUFFERS * STRIDE], lengths, number: 0 }
    }

    /// One batch: makes the jobs and has them done.
    fn batch(&mut self, op: Op, count: usize) {
        let first = (self.number as usize * BATCH) % BUFFERS;
        let (key, number) = (self.key, self.number);
        let lengths = self.lengths.iter().cycle().skip(first % self.lengths.len());
        let buffers = self.memory[first * STRIDE..].chunks_exact_mut(STRIDE);
        let mut jobs: ferrule_crypto::Jobs<&mut [u8]> = buffers
            .zip(lengths)
            .take(count)
            .enumerate()
            .map(|(i, (buf, len))| {
                let mut nonce = [0; 12];
                nonce[4..].copy_from_slice(&(number * BATCH as u64 + i as u64).to_be_bytes());
                let ad = Ad::Span(Span::new(FRONT - IV - HEADER, HEADER));
                let text = Span::new(FRONT - IV, IV + len);
                Job {
                    buf,
                    key,
                    ticket: 0,
                    number: 0,
                    nonce,
                    op,
                    verdict: Verdict::Pending,
                    ad,
                    text,
                }
            })
            .collect();
        self.engine.run(&mut jobs);
        assert!(jobs.iter().all(|job| job.verdict == Verdict::Done));
    }

    fn seal(&mut self, packets: usize, count: usize) -> usize {
        for _ in 0..packets / count {
            self.batch(Op::Seal, count);
            self.number += 1;
        }
        packets / count * count
    }

    /// Opens what it has sealed; that does not count.
    fn open(&mut self, packets: usize) -> (usize, f64, f64) {
        let (time, begin) = (std::time::Instant::now(), tsc());
        let mut clocks = 0;
        for _ in 0..packets / BATCH {
            self.batch(Op::Seal, BATCH);
            let start = tsc();
            self.batch(Op::Open, BATCH);
            clocks += tsc() - start;
            self.number += 1;
        }
        let clock = time.elapsed().as_nanos() as f64 / (tsc() - begin) as f64;
        (packets / BATCH * BATCH, clocks as f64 * clock, clocks as f64)
    }
}

fn sealing<'a>(name: &str, backend: Backend, mac: Mac, len: usize, count: usize) -> Case<'a> {
    let mut rig = Rig::new(backend, mac, vec![len]);
    Case::new(name, move |packets| rig.seal(packets, count))
}

/// The backends with lanes that this machine has.
fn lanes() -> impl Iterator<Item = Backend> {
    let all = Backend::all().iter().copied();
    all.filter(|backend| matches!(backend, Backend::Vaes512 | Backend::Vaes256))
}

fn seal_beside_the_library(mac: Mac, hash: &str, peer: Option<&RefCell<Peer>>) {
    for len in [64, 512, 1424] {
        let mut cases = Vec::new();
        if let Some(peer) = peer {
            for interface in ["burst", "two"] {
                let name = match interface {
                    "burst" => format!("library {}, jobs of both", peer.borrow().version),
                    _ => "library, a cipher's burst, then a hash's".to_owned(),
                };
                let ask = move |n| peer.borrow_mut().ask(&format!("{interface} {hash} {len} {n}"));
                cases.push(Case::measured(name, ask));
            }
        }
        let first = cases.len();
        for backend in lanes() {
            cases.push(sealing(backend.name(), backend, mac, len, BATCH));
        }
        cases.push(sealing("one packet at a time", Backend::Portable, mac, len, BATCH));
        interleave(&mut cases, PACKETS);
        let to = if first > 0 { cases.first() } else { cases.last() };
        let suite = Suite::AesCbc(Aes::Aes128, mac);
        heading(&format!("{suite}: seal {len} octets; ratio to the first row"));
        for case in &cases {
            let reach = (case.name == Backend::Vaes512.name() && first > 0).then_some(0.9);
            row(case, to, reach);
        }
    }
}

fn open() {
    for len in [64, 1424] {
        let mut cases = Vec::new();
        for backend in [Backend::Portable].into_iter().chain(lanes()) {
            for (mac, hash) in [(Mac::HmacSha1_96, "SHA-1"), (Mac::HmacSha256_128, "SHA-256")] {
                let mut rig = Rig::new(backend, mac, vec![len]);
                let name = format!("{}, {hash}", backend.name());
                cases.push(Case::measured(name, move |packets| rig.open(packets)));
            }
        }
        interleave(&mut cases, PACKETS);
        heading(&format!("aes-cbc-128: open {len} octets; ratio to the first of the hash"));
        for (at, case) in cases.iter().enumerate() {
            row(case, cases.get(at % 2), None);
        }
    }
}

/// Throughput of the multi-packet kernel with few packets, and with packets of different lengths.
fn few_and_mixed() {
    let Some(backend) = lanes().next() else { return };
    let mac = Mac::HmacSha1_96;
    let mut cases = vec![sealing("one packet at a time", Backend::Portable, mac, 512, BATCH)];
    for count in [1, 2, 4, 8, 16, 24, 64] {
        cases.push(sealing(&format!("batches of {count}"), backend, mac, 512, count));
    }
    interleave(&mut cases, PACKETS);
    heading("aes-cbc-128 hmac-sha1-96: seal 512 octets in batches; ratio to the first row");
    cases.iter().for_each(|case| row(case, cases.first(), None));

    let mut rng = Rng::new(64);
    let mixed: Vec<_> = (0..BUFFERS).map(|_| rng.below(90) as usize * 16 + 16).collect();
    let mean = mixed.iter().sum::<usize>() / BUFFERS / 16 * 16;
    let rig = |name: &str, lengths: Vec<usize>| {
        let mut rig = Rig::new(backend, mac, lengths);
        Case::new(name, move |packets| rig.seal(packets, BATCH))
    };
    let mut cases = [rig("all of the mean length", vec![mean]), rig("16 to 1440 octets", mixed)];
    interleave(&mut cases, PACKETS);
    heading("the same, packets of different lengths in a batch of 64");
    cases.iter().for_each(|case| row(case, cases.first(), None));
}

fn main() {
    println!("AES-CBC with HMAC: {ROUNDS} rounds of {PACKETS} packets, all of a table in turn");
    let peer = Peer::start("ipsec_mb_cbc", "IPSec_MB").map(RefCell::new);
    if let Err(e) = &peer {
        println!("Intel's multi-buffer library is not measured: {e}");
    }
    let peer = peer.as_ref().ok();
    seal_beside_the_library(Mac::HmacSha1_96, "sha1", peer);
    seal_beside_the_library(Mac::HmacSha256_128, "sha256", peer);
    open();
    few_and_mixed();
}
