//! AES-GCM alone, one core: our kernels beside Intel's multi-buffer library by its
//! direct interface and beside aws-lc.
//!
//! Ours is measured as the data path uses it: a slice of 64 jobs, each with its key
//! looked up, its spans checked and its verdict written. The library's functions are
//! called for one packet after the other, keys at hand, spans known. Both have fresh
//! nonces for each batch, eight octets of additional data in front of the text, 128
//! buffers in turn, and texts that begin a cache line.
//!
//! The library comes from the system (Debian: libipsec-mb-dev); without it its rows
//! are missing, and ratios are to aws-lc.
//!
//! `cargo bench -p ferrule-benches --bench aead -- seal-128` takes what has that in
//! its name (seal or open, 128 or 256).

use ferrule_base::Secret;
use ferrule_benches::peer::{self, Peer};
use ferrule_benches::{Case, ROUNDS, heading, interleave, ratio, row};
use ferrule_crypto::table::KeyTable;
use ferrule_crypto::{Ad, Aes, Backend, Job, KeyId, KeySpec, Op, Span, Suite, Verdict};
use ferrule_ports::tsc::tsc;
use std::cell::RefCell;

const BUFFERS: usize = 128;
const BATCH: usize = 64;
/// Octets of a buffer, and how many of them stand in front of the text at least.
const BUFFER: usize = 2048 + 64;
const FRONT: usize = 256;
/// SPI and sequence number.
const AD: usize = 8;
const LINE: usize = 64;
/// Packets of a round.
const PACKETS: usize = 1024;
const LENGTHS: [usize; 5] = [64, 256, 512, 1024, 1420];

/// A backend with keys, and two batches of jobs that are done over and over.
struct Rig {
    backend: Backend,
    keys: KeyTable,
    jobs: Vec<Job<Vec<u8>>>,
    number: u64,
}

impl Rig {
    fn new(backend: Backend, aes: Aes, keys: u8, len: usize) -> Self {
        let mut table = KeyTable::default();
        let ids: Vec<KeyId> = (0..keys)
            .map(|first| {
                let octets = (first..).take(aes.key_len()).collect();
                let none = Secret::new(Vec::new());
                let spec = KeySpec::new(Suite::AesGcm(aes), Secret::new(octets), none);
                table.insert(backend.key(&spec).expect("a key")).expect("room")
            })
            .collect();
        let job = |i: usize| {
            let buf = vec![0_u8; BUFFER];
            let start = FRONT + buf[FRONT..].as_ptr().align_offset(LINE);
            let (text, ad) = (Span::new(start, len), Ad::Span(Span::new(start - AD, AD)));
            let (op, verdict, nonce) = (Op::Seal, Verdict::Done, [0; 12]);
            Job { buf, key: ids[i % ids.len()], ticket: 0, number: 0, nonce, op, verdict, ad, text }
        };
        Self { backend, keys: table, jobs: (0..BUFFERS).map(job).collect(), number: 0 }
    }

    /// One batch, with the nonces that belong to it.
    fn batch(&mut self, op: Op) {
        let first = self.number as usize % BUFFERS;
        let jobs = &mut self.jobs[first..first + BATCH];
        for (job, number) in jobs.iter_mut().zip(self.number..) {
            job.nonce[4..].copy_from_slice(&number.to_be_bytes());
            (job.op, job.verdict) = (op, Verdict::Pending);
        }
        self.backend.run(&self.keys, jobs);
    }

    /// A round; what is opened was sealed before, which does not count.
    fn round(&mut self, op: Op, packets: usize) -> (usize, f64, f64) {
        let (time, begin) = (std::time::Instant::now(), tsc());
        let (mut done, mut clocks) = (0, 0);
        while done < packets {
            if op == Op::Open {
                self.batch(Op::Seal);
            }
            let start = tsc();
            self.batch(op);
            clocks += tsc() - start;
            self.number += BATCH as u64;
            done += BATCH;
        }
        assert!(self.jobs.iter().all(|job| job.verdict == Verdict::Done));
        let clock = time.elapsed().as_nanos() as f64 / (tsc() - begin) as f64;
        (done, clocks as f64 * clock, clocks as f64)
    }
}

fn ours(backend: Backend, aes: Aes, op: Op, keys: u8, len: usize) -> Case<'static> {
    let sas = if keys == 1 { String::new() } else { format!(", {keys} SAs in turn") };
    let mut rig = Rig::new(backend, aes, keys, len);
    Case::measured(format!("{}{sas}", backend.name()), move |packets| rig.round(op, packets))
}

fn intels(peer: &RefCell<Peer>, aes: Aes, op: Op, len: usize) -> Case<'_> {
    let cipher = if aes == Aes::Aes128 { "gcm128" } else { "gcm256" };
    let operation = if op == Op::Seal { "seal" } else { "open" };
    let name = format!("Intel multi-buffer {}, direct", peer.borrow().version);
    let order = move |packets: usize| format!("{cipher} {operation} {len} {AD} {packets}");
    Case::measured(name, move |packets| peer.borrow_mut().ask(&order(packets)))
}

/// What is to be reached against Intel's library.
fn reach(aes: Aes, len: usize) -> Option<f64> {
    match (aes, len) {
        (Aes::Aes128, 64) => Some(3.0),
        (Aes::Aes128, 512) => Some(1.4),
        (Aes::Aes128, 1420) => Some(1.1),
        (Aes::Aes128, _) => None,
        (Aes::Aes192 | Aes::Aes256, _) => Some(1.0),
    }
}

fn table(peer: Option<&RefCell<Peer>>, aes: Aes, op: Op, len: usize) -> Vec<String> {
    let has = |backend| Backend::all().contains(&backend);
    let mut cases: Vec<Case<'_>> =
        peer.map(|peer| intels(peer, aes, op, len)).into_iter().collect();
    cases.push(ours(Backend::Aws, aes, op, 1, len));
    for backend in [Backend::Vaes512, Backend::Vaes256].into_iter().filter(|&b| has(b)) {
        cases.push(ours(backend, aes, op, 1, len));
        cases.push(ours(backend, aes, op, 16, len));
    }
    interleave(&mut cases, PACKETS);
    heading(&format!("AES-{}-GCM {op:?}, {len} octets", aes.key_len() * 8));
    let (first, others) = cases.split_first().expect("aws-lc is always there");
    row(first, None, None);
    let best = Backend::best().name();
    for case in others {
        let goal =
            if case.name == best { reach(aes, len).filter(|_| peer.is_some()) } else { None };
        row(case, Some(first), goal);
    }
    let line = |case: &Case<'_>| {
        let ratio = ratio(case, first);
        format!("{len:>6} {:<28} {:>7.1} ns {ratio:>6.2}", case.name, case.nanos())
    };
    cases.iter().map(line).collect()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` passes this; measuring is for `cargo bench`.
    if arguments.iter().any(|a| a == "--test") {
        return;
    }
    peer::pin();
    let peer = match Peer::start("ipsec_mb", "IPSec_MB") {
        Ok(peer) => Some(RefCell::new(peer)),
        Err(why) => {
            println!("Intel's multi-buffer library is left out: {why}");
            None
        }
    };
    println!("AES-GCM alone, one core, batches of {BATCH}, median of {ROUNDS} interleaved rounds.");
    let words: Vec<_> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let mut summary = Vec::new();
    for aes in [Aes::Aes128, Aes::Aes256] {
        for op in [Op::Seal, Op::Open] {
            let name = format!("{op:?}-{}", aes.key_len() * 8).to_lowercase();
            if !words.is_empty() && !words.iter().any(|word| name.contains(word.as_str())) {
                continue;
            }
            for len in LENGTHS {
                summary.extend(
                    table(peer.as_ref(), aes, op, len).into_iter().map(|l| name.clone() + &l),
                );
            }
        }
    }
    println!("\nAll rows: octets, ns per packet, ratio to the first of its table");
    summary.iter().for_each(|line| println!("{line}"));
}
