//! AES-GCM alone, one core: our kernels beside Intel's multi-buffer library by its
//! direct interface and beside aws-lc.
//!
//! Ours is measured as the data path uses it: a slice of 64 jobs, each with its key
//! looked up, its spans checked and its verdict written. The library's functions are
//! called for one packet after the other, keys at hand, spans known. Both have fresh
//! nonces for each batch, eight octets of additional data in front of the text, 128
//! buffers in turn, and texts that begin a cache line.
//!
//! At the end of each part stands the best of ours with many lengths and many keys: batches of
//! 128 jobs in a column beside their packets, in random order, with random texts. IMIX is
//! packets of 64, 570 and 1420 octets, 7 to 4 to 1, sealed in transport of ESP (two octets
//! more). Keys are asked for ahead, which counts.
//!
//! The library comes from the system (Debian: libipsec-mb-dev); without it its rows
//! are missing, and ratios are to aws-lc.
//!
//! `cargo bench -p ferrule-benches --bench aead -- seal-128` takes what has that in
//! its name (seal or open, 128 or 256).

use ferrule_base::{Rng, Secret};
use ferrule_benches::peer::{self, Peer};
use ferrule_benches::{Case, ROUNDS, heading, interleave, ratio, row};
use ferrule_crypto::table::KeyTable;
use ferrule_crypto::{Ad, Aes, Backend, Engine, Job, KeyId, KeySpec, Op, Software, Span, Suite};
use ferrule_crypto::{Verdict, engine};
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

/// Ratio to Intel's library that is to be reached.
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

/// An engine with keys, and jobs beside their packets, of some lengths.
struct Column {
    engine: Software,
    rng: Rng,
    keys: Vec<KeyId>,
    lengths: Vec<usize>,
    packets: Vec<Vec<u8>>,
    jobs: Vec<Job<()>>,
    number: u64,
}

/// Packets of a column: some batches in turn.
const COLUMN: usize = 4 * engine::BATCH;

impl Column {
    fn new(aes: Aes, keys: usize, lengths: Vec<usize>) -> Self {
        let (mut engine, mut rng) = (Software::new(Backend::best()), Rng::new(1));
        let mut octets = |len: usize| {
            let mut octets = vec![0; len];
            rng.fill(&mut octets);
            octets
        };
        let keys = (0..keys).map(|_| {
            let (key, none) = (Secret::new(octets(aes.key_len())), Secret::new(Vec::new()));
            let spec = KeySpec::new(Suite::AesGcm(aes), key, none);
            Engine::<Vec<u8>>::install(&mut engine, &spec).expect("room")
        });
        let keys: Vec<KeyId> = keys.collect();
        let packets: Vec<Vec<u8>> = (0..COLUMN).map(|_| octets(BUFFER)).collect();
        let job = |buf: &Vec<u8>| {
            let start = FRONT + buf[FRONT..].as_ptr().align_offset(LINE);
            let (text, ad) = (Span::new(start, 0), Ad::Span(Span::new(start - AD, AD)));
            let (op, verdict, nonce) = (Op::Seal, Verdict::Done, [0; 12]);
            Job { buf: (), key: keys[0], ticket: 0, number: 0, nonce, op, verdict, ad, text }
        };
        let jobs = packets.iter().map(job).collect();
        Self { engine, rng, keys, lengths, packets, jobs, number: 0 }
    }

    /// A round, of batches with lengths and keys drawn anew; what is opened was sealed
    /// before, which does not count, nor does drawing.
    fn round(&mut self, op: Op, packets: usize) -> (usize, f64, f64) {
        let (time, begin) = (std::time::Instant::now(), tsc());
        let (mut done, mut clocks) = (0, 0);
        while done < packets {
            let batch = (self.number as usize * engine::BATCH % COLUMN)..;
            let (jobs, packets) =
                (&mut self.jobs[batch.clone()][..engine::BATCH], &mut self.packets[batch]);
            for (job, number) in jobs.iter_mut().zip(0_u32..) {
                job.nonce[..8].copy_from_slice(&self.number.to_be_bytes());
                job.nonce[8..].copy_from_slice(&number.to_be_bytes());
                job.key = self.keys[self.rng.below(self.keys.len() as u64) as usize];
                let length = self.lengths[self.rng.below(self.lengths.len() as u64) as usize];
                job.text.len = length as u16;
            }
            for turn in if op == Op::Open { &[Op::Seal, Op::Open][..] } else { &[Op::Seal] } {
                jobs.iter_mut().for_each(|job| (job.op, job.verdict) = (*turn, Verdict::Pending));
                let start = tsc();
                if self.keys.len() > 1 {
                    jobs.iter().for_each(|job| self.engine.prefetch(job.key, job.text.len.into()));
                }
                self.engine.run_beside(packets, jobs);
                clocks += if *turn == op { tsc() - start } else { 0 };
                assert!(jobs.iter().all(|job| job.verdict == Verdict::Done));
            }
            self.number += 1;
            done += engine::BATCH;
        }
        let clock = time.elapsed().as_nanos() as f64 / (tsc() - begin) as f64;
        (done, clocks as f64 * clock, clocks as f64)
    }
}

/// Many lengths and many keys, beside one of each.
fn mixed(aes: Aes, op: Op) -> Vec<String> {
    let imix = [vec![66; 7], vec![572; 4], vec![1422]].concat();
    let rows: [(&str, usize, Vec<usize>); 9] = [
        ("64 octets", 1, vec![64]),
        ("512 octets", 1, vec![512]),
        ("1420 octets", 1, vec![1420]),
        ("48 to 92 octets (128: reach 10 ns)", 1, (48..=92).collect()),
        ("IMIX (128: reach 20 ns)", 1, imix.clone()),
        ("64 to 1500 octets", 1, (64..=1500).collect()),
        ("64 octets, 1,000 SAs", 1_000, vec![64]),
        ("64 octets, 10,000 SAs", 10_000, vec![64]),
        ("IMIX, 1,000 SAs", 1_000, imix),
    ];
    let mut cases: Vec<Case<'_>> = rows
        .into_iter()
        .map(|(name, keys, lengths)| {
            let mut column = Column::new(aes, keys, lengths);
            Case::measured(name, move |packets| column.round(op, packets))
        })
        .collect();
    interleave(&mut cases, PACKETS);
    let backend = Backend::best().name();
    heading(&format!("AES-{}-GCM {op:?}, {backend}, jobs beside packets", aes.key_len() * 8));
    cases.iter().for_each(|case| row(case, None, None));
    cases.iter().map(|case| format!("  {:<35} {:>7.1} ns", case.name, case.nanos())).collect()
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
            let tables = LENGTHS.iter().flat_map(|&len| table(peer.as_ref(), aes, op, len));
            let lines = tables.chain(std::iter::once(()).flat_map(|()| mixed(aes, op)));
            summary.extend(lines.map(|line| name.clone() + &line));
        }
    }
    println!("\nAll rows: octets, ns per packet, ratio to the first of its table");
    summary.iter().for_each(|line| println!("{line}"));
}
