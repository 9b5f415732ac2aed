//! The multi-packet AES-GCM kernels against the two libraries that take one
//! packet at a time: every length, alignment and size of additional data, keys
//! and lengths mixed in one group, and everything that must be refused.
//!
//! `make test` takes a sample; with `FERRULE_PROOF=whole` (`make fuzz`) every
//! combination is tried.

use crate::packet::{Packet, counting_spec};
use ferrule_base::Rng;
use ferrule_crypto::backend::Key;
use ferrule_crypto::table::KeyTable;
use ferrule_crypto::{Ad, Aes, Backend, Job, KeyId, Op, Span, Suite, Verdict, engine};

/// The longest text of which every length is tried.
const LENGTH_MAX: usize = 2048;
const LINE: usize = 64;
const AES: [Aes; 2] = [Aes::Aes128, Aes::Aes256];

/// Additional data of ESP (with and without extended numbers, with what the
/// study's inline card adds), of MACsec (without and with SCI, with a tag), none,
/// and around the kernels' own borders.
const AD_LENGTHS: [usize; 16] = [0, 8, 12, 20, 28, 32, 1, 15, 16, 17, 31, 33, 48, 64, 529, 1500];

fn whole() -> bool {
    std::env::var("FERRULE_PROOF").is_ok_and(|proof| proof == "whole")
}

fn kernels() -> impl Iterator<Item = Backend> {
    Backend::all().iter().copied().filter(|b| matches!(b, Backend::Vaes512 | Backend::Vaes256))
}

/// The libraries that the kernels are compared with, and the same key in both.
fn libraries(aes: Aes, first: u8) -> [Key; 2] {
    let spec = counting_spec(Suite::AesGcm(aes), first);
    [Backend::Aws, Backend::Portable].map(|backend| backend.key(&spec).unwrap())
}

/// Memory whose first octet begins a cache line, so that alignments are what
/// they say.
fn aligned(memory: &mut Vec<u8>, at: usize, len: usize) -> &mut [u8] {
    memory.resize(len + at + 2 * LINE, 0);
    let first = memory.as_ptr().align_offset(LINE) + at;
    &mut memory[first..first + len]
}

/// One packet at one alignment, in a library.
fn sealed_by(key: &Key, nonce: &[u8; 12], ad: usize, plain: &[u8]) -> Vec<u8> {
    let mut buf = plain.to_vec();
    buf.extend([0; 16]);
    let text = Span::new(ad, plain.len() - ad);
    assert_eq!(key.run(Op::Seal, nonce, Ad::Span(Span::new(0, ad)), text, &mut buf), Verdict::Done);
    buf
}

/// Seals and opens one packet whose text begins at `at` in a cache line.
fn check_at(key: &Key, at: usize, (ad, nonce): (usize, &[u8; 12]), plain: &[u8], sealed: &[u8]) {
    let mut memory = Vec::new();
    let front = (LINE + at).wrapping_sub(ad) % LINE;
    let buf = aligned(&mut memory, front, sealed.len());
    let (text, span) = (Span::new(ad, plain.len() - ad), Ad::Span(Span::new(0, ad)));
    buf[..plain.len()].copy_from_slice(plain);
    let what = || format!("{key:?}: {} octets at {at}, additional data {ad}", text.len);
    assert_eq!(key.run(Op::Seal, nonce, span, text, buf), Verdict::Done);
    assert!(buf == sealed, "{} seal", what());
    assert_eq!(key.run(Op::Open, nonce, span, text, buf), Verdict::Done, "{}", what());
    assert!(buf[..plain.len()] == *plain && buf[plain.len()..] == sealed[plain.len()..], "open");
}

#[test]
fn gcm_of_every_length_and_alignment_is_what_aws_lc_and_rustcrypto_make() {
    let mut rng = Rng::new(1);
    let mut octets = vec![0; LENGTH_MAX + 2000];
    rng.fill(&mut octets);
    for aes in AES {
        let libraries = libraries(aes, 7);
        let spec = counting_spec(Suite::AesGcm(aes), 7);
        let keys: Vec<Key> = kernels().map(|kernel| kernel.key(&spec).unwrap()).collect();
        for len in 0..=LENGTH_MAX {
            let ads = AD_LENGTHS.len();
            let some = len % ads..len % ads + 1;
            for ad in AD_LENGTHS[if whole() { 0..ads } else { some }].iter().copied() {
                let nonce = std::array::from_fn(|i| (len >> (i % 8)) as u8 ^ i as u8);
                let plain = &octets[..ad + len];
                let [one, other] = libraries.each_ref().map(|k| sealed_by(k, &nonce, ad, plain));
                assert!(one == other, "the libraries disagree");
                // A sample goes through all alignments as the length grows.
                let alignments = if whole() { 0..LINE } else { len % LINE..len % LINE + 1 };
                for at in alignments {
                    keys.iter().for_each(|key| check_at(key, at, (ad, &nonce), plain, &one));
                }
            }
        }
    }
}

#[test]
fn gcm_of_jumbo_texts_is_what_the_libraries_make() {
    let mut rng = Rng::new(2);
    let mut lengths = vec![4047, 4048, 4063, 4064, 4065, 4080, 4096, 9000, 9001, 65_000, 65_500];
    let more = if whole() { 3000 } else { 60 };
    lengths.extend((0..more).map(|_| 2048 + rng.below(60_000) as usize));
    let mut octets = vec![0; 65_535];
    rng.fill(&mut octets);
    for aes in AES {
        let [library, _] = libraries(aes, 9);
        let spec = counting_spec(Suite::AesGcm(aes), 9);
        let keys: Vec<Key> = kernels().map(|kernel| kernel.key(&spec).unwrap()).collect();
        for &len in &lengths {
            // Nonces whose last octets are high: only the counter may carry.
            let nonce = [0xff; 12];
            let sealed = sealed_by(&library, &nonce, 12, &octets[..len + 12]);
            for key in &keys {
                check_at(key, len % LINE, (12, &nonce), &octets[..len + 12], &sealed);
            }
        }
    }
}

#[test]
fn gmac_of_any_length_is_what_the_libraries_make() {
    let mut rng = Rng::new(3);
    let mut octets = vec![0; 65_519];
    rng.fill(&mut octets);
    let long = [4096, 9000, 9018, 65_519];
    for aes in AES {
        let [library, other] = libraries(aes, 11);
        let spec = counting_spec(Suite::AesGcm(aes), 11);
        let keys: Vec<Key> = kernels().map(|kernel| kernel.key(&spec).unwrap()).collect();
        for len in (0..=LENGTH_MAX).chain(long) {
            let plain = &octets[..len];
            let sealed = sealed_by(&library, &[3; 12], len, plain);
            assert!(len % 64 != 0 || sealed == sealed_by(&other, &[3; 12], len, plain));
            for key in &keys {
                check_at(key, len % LINE, (len, &[3; 12]), plain, &sealed);
            }
        }
    }
}

/// A key table of one backend with keys of both lengths, and the same keys in a
/// library.
struct Keys {
    table: KeyTable,
    each: Vec<(KeyId, Key)>,
}

impl Keys {
    fn new(backend: Backend, count: u8) -> Self {
        let mut table = KeyTable::default();
        let each = (0..count).map(|i| {
            let suite = Suite::AesGcm(AES[usize::from(i % 3 == 0)]);
            let spec = counting_spec(suite, i * 5);
            let id = table.insert(backend.key(&spec).unwrap()).unwrap();
            (id, Backend::Aws.key(&spec).unwrap())
        });
        let each = each.collect();
        Self { table, each }
    }
}

/// A job and what must become of it.
struct Expected {
    job: Job<Vec<u8>>,
    buf: Vec<u8>,
    verdict: Verdict,
}

/// A packet of any length, sealed or to be opened, sometimes forged, by a library.
fn any_job(rng: &mut Rng, keys: &Keys) -> Expected {
    let (id, library) = &keys.each[rng.below(keys.each.len() as u64) as usize];
    let len = match rng.below(20) {
        0 => 4000 + rng.below(6000) as usize,
        1..8 => rng.below(200) as usize,
        8 => 0,
        _ => rng.below(LENGTH_MAX as u64) as usize,
    };
    let ad = AD_LENGTHS[rng.below(AD_LENGTHS.len() as u64) as usize];
    job_of(rng, (*id, library), (len, ad))
}

/// The same with lengths of text and additional data that are given.
fn job_of(rng: &mut Rng, (id, library): (KeyId, &Key), (len, ad): (usize, usize)) -> Expected {
    let (front, behind) = (rng.below(70) as usize, rng.below(70) as usize);
    let text = Span::new(front + ad, len);
    let mut plain = vec![0; text.end() + 16 + behind];
    rng.fill(&mut plain);
    let mut nonce = [0; 12];
    rng.fill(&mut nonce);
    let inline = rng.below(4) == 0;
    let span = if inline { Ad::Inline(nonce) } else { Ad::Span(Span::new(front, ad)) };
    let mut sealed = plain.clone();
    assert_eq!(library.run(Op::Seal, &nonce, span, text, &mut sealed), Verdict::Done);
    let job = |buf: &[u8], op| Job {
        buf: buf.to_vec(),
        key: id,
        ticket: 0,
        number: 0,
        nonce,
        op,
        verdict: Verdict::Pending,
        ad: span,
        text,
    };
    if rng.below(2) == 0 {
        return Expected { job: job(&plain, Op::Seal), buf: sealed, verdict: Verdict::Done };
    }
    if rng.below(3) > 0 {
        let mut opened = plain;
        opened[text.end()..text.end() + 16].copy_from_slice(&sealed[text.end()..text.end() + 16]);
        return Expected { job: job(&sealed, Op::Open), buf: opened, verdict: Verdict::Done };
    }
    let at = text.start as usize + rng.below(u64::from(text.len) + 16) as usize;
    sealed[at] ^= 1 << rng.below(8);
    let job = job(&sealed, Op::Open);
    sealed[text.range()].fill(0);
    Expected { job, buf: sealed, verdict: Verdict::BadIcv }
}

#[test]
fn gcm_groups_mix_keys_lengths_directions_and_forgeries() {
    let batches = if whole() { 20_000 } else { 400 };
    for kernel in kernels() {
        for count in [1, 2, 23] {
            let keys = Keys::new(kernel, count);
            let mut rng = Rng::new(u64::from(count));
            for batch in 0..batches / 3 {
                let jobs = 1 + rng.below(64);
                let expected: Vec<_> = (0..jobs).map(|_| any_job(&mut rng, &keys)).collect();
                check(kernel, &keys, expected, &format!("{count} keys, batch {batch}"));
            }
        }
    }
}

/// Runs a batch, and compares it.
fn check(kernel: Backend, keys: &Keys, expected: Vec<Expected>, what: &str) {
    let (mut jobs, rest): (Vec<_>, Vec<_>) =
        expected.into_iter().map(|e| (e.job, (e.buf, e.verdict))).unzip();
    kernel.run(&keys.table, &mut jobs);
    for (i, (job, (buf, verdict))) in jobs.iter().zip(rest).enumerate() {
        let what = || format!("{kernel:?} {what}, job {i}");
        assert_eq!(job.verdict, verdict, "{}", what());
        assert!(job.buf == buf, "{}: {:?} {:?}", what(), job.text, job.ad);
    }
}

/// Packets of one length, which the kernels take several groups at a time; good ones
/// and forged ones, one key after another and keys in turn, whole groups and what is
/// left.
#[test]
fn gcm_streams_of_every_length_are_what_the_library_makes() {
    let border = [4063, 4064, 4065, 9000];
    for kernel in kernels() {
        let keys = Keys::new(kernel, 5);
        let mut rng = Rng::new(4);
        for len in (0..=LENGTH_MAX).chain(border) {
            for round in 0..if whole() { AD_LENGTHS.len() } else { 1 } {
                let ad = AD_LENGTHS[(len + round) % AD_LENGTHS.len()];
                let jobs = 4 + rng.below(20) as usize;
                let in_turn = rng.below(2) == 0;
                let expected = (0..jobs).map(|i| {
                    let at = if in_turn { i } else { i / 13 };
                    let (id, library) = &keys.each[at % keys.each.len()];
                    job_of(&mut rng, (*id, library), (len, ad))
                });
                let expected = expected.collect();
                check(kernel, &keys, expected, &format!("{len} octets, keys in turn: {in_turn}"));
            }
        }
    }
}

/// Batches of every size, so that a kernel's last group is anywhere in what it has in
/// hand: of all lengths around its borders, and of one class alone.
#[test]
fn gcm_batches_of_every_size_are_what_the_library_makes() {
    for kernel in kernels() {
        let keys = Keys::new(kernel, 5);
        let mut rng = Rng::new(6);
        for size in 1..=engine::BATCH + 2 {
            for (shortest, lengths) in [(0, 301), (500, 13), (1409, 12)] {
                let count = [1, keys.each.len()][rng.below(2) as usize];
                let expected = (0..size).map(|_| {
                    let (id, library) = &keys.each[rng.below(count as u64) as usize];
                    let len = shortest + rng.below(lengths) as usize;
                    job_of(&mut rng, (*id, library), (len, 8))
                });
                let expected = expected.collect();
                check(kernel, &keys, expected, &format!("{size} packets, {count} keys"));
            }
        }
    }
}

/// One forged packet among three good ones: it is refused, its text is zeros, and
/// its neighbours do not notice.
fn refuse(
    kernel: Backend,
    keys: &Keys,
    good: &[(Job<Vec<u8>>, Vec<u8>)],
    forged: usize,
    bit: usize,
) {
    let copy = |job: &Job<Vec<u8>>| Job { buf: job.buf.clone(), ..*job };
    let mut jobs: Vec<_> = good.iter().map(|(job, _)| copy(job)).collect();
    jobs[forged].buf[bit / 8] ^= 1 << (bit % 8);
    let given = jobs[forged].buf.clone();
    kernel.run(&keys.table, &mut jobs);
    for (i, (job, (_, opened))) in jobs.iter().zip(good).enumerate() {
        if i != forged {
            assert_eq!(job.verdict, Verdict::Done);
            assert!(job.buf == *opened, "{kernel:?}: a neighbour of a forged packet");
            continue;
        }
        assert_eq!(job.verdict, Verdict::BadIcv, "{kernel:?} bit {bit} of {:?}", job.text);
        let (from, to) = (job.text.start as usize, job.text.end());
        assert!(job.buf[from..to].iter().all(|&octet| octet == 0), "plaintext is left");
        assert!(job.buf[..from] == given[..from] && job.buf[to..] == given[to..]);
    }
}

#[test]
fn gcm_refuses_every_flipped_bit_and_zeroes_the_text_of_that_packet_alone() {
    let mut rng = Rng::new(4);
    for kernel in kernels() {
        let keys = Keys::new(kernel, 4);
        for (len, ad) in
            [(0, 12), (1, 8), (16, 0), (64, 12), (65, 20), (200, 28), (530, 33), (0, 70)]
        {
            let good: Vec<_> = (0..4)
                .map(|i| {
                    let (id, library) = &keys.each[if len == 64 { 1 } else { i }];
                    let suite = Suite::AesGcm(Aes::Aes128);
                    let (mut header, mut text) = (vec![0; ad], vec![0; len]);
                    rng.fill(&mut header);
                    rng.fill(&mut text);
                    let mut packet = Packet::new(suite, [i as u8; 12], &header, &text, &[]);
                    assert_eq!(packet.run(Op::Seal, library), Verdict::Done);
                    let job = packet.job(Op::Open, *id, 0);
                    packet.run(Op::Open, library);
                    (job, packet.buf)
                })
                .collect();
            let bits = (ad + len + 16) * 8;
            let step = if whole() || bits < 1000 { 1 } else { 7 };
            for bit in (0..bits).step_by(step) {
                refuse(kernel, &keys, &good, bit % 4, bit);
            }
        }
    }
}

/// Four packets of one length and one size of additional data, of one key or of
/// several, which go a way of their own, at all alignments: sealed, then opened with
/// one forged.
#[test]
fn gcm_of_four_packets_that_are_alike_is_what_a_library_makes_of_each() {
    let mut rng = Rng::new(5);
    for kernel in kernels() {
        // Of the first twelve keys, every third is of AES-256.
        let keys = Keys::new(kernel, 12);
        for group in [[1, 1, 1, 1], [0, 0, 0, 0], [1, 2, 4, 5], [0, 3, 6, 9], [1, 1, 1, 2]] {
            for len in 0..=600 {
                let ads = AD_LENGTHS.len();
                let some = len % ads..len % ads + 1;
                for &ad in &AD_LENGTHS[if whole() { 0..ads } else { some }] {
                    let pairs =
                        group.map(|key: usize| one_alike(&mut rng, &keys.each[key], len, ad));
                    four_alike(kernel, &keys, pairs, len);
                }
            }
        }
    }
}

/// A packet to be sealed, and how a library seals it.
fn one_alike(
    rng: &mut Rng,
    (key, library): &(KeyId, Key),
    len: usize,
    ad: usize,
) -> (Job<Vec<u8>>, Vec<u8>) {
    let front = rng.below(64) as usize;
    let text = Span::new(front + ad, len);
    let mut buf = vec![0; text.end() + 16];
    rng.fill(&mut buf);
    let mut nonce = [0; 12];
    rng.fill(&mut nonce);
    let ad = Ad::Span(Span::new(front, ad));
    let mut sealed = buf.clone();
    assert_eq!(library.run(Op::Seal, &nonce, ad, text, &mut sealed), Verdict::Done);
    let (op, verdict, ticket) = (Op::Seal, Verdict::Pending, 0);
    (Job { buf, key: *key, ticket, number: 0, nonce, op, verdict, ad, text }, sealed)
}

fn four_alike(kernel: Backend, keys: &Keys, pairs: [(Job<Vec<u8>>, Vec<u8>); 4], len: usize) {
    let plain = pairs.each_ref().map(|(job, _)| job.buf.clone());
    let sealed = pairs.each_ref().map(|(_, sealed)| sealed.clone());
    let mut jobs = pairs.map(|(job, _)| job);
    kernel.run(&keys.table, &mut jobs);
    for (job, sealed) in jobs.iter().zip(&sealed) {
        assert!(job.verdict == Verdict::Done && job.buf == *sealed, "{kernel:?} seals {len}");
    }
    for job in &mut jobs {
        (job.op, job.verdict) = (Op::Open, Verdict::Pending);
    }
    let forged = len % 4;
    *jobs[forged].buf.last_mut().unwrap() ^= 1;
    kernel.run(&keys.table, &mut jobs);
    for (i, (job, plain)) in jobs.iter().zip(&plain).enumerate() {
        let text = &job.buf[job.text.range()];
        if i == forged {
            assert_eq!(job.verdict, Verdict::BadIcv, "{kernel:?} {len}");
            assert!(text.iter().all(|&octet| octet == 0));
        } else {
            assert_eq!(job.verdict, Verdict::Done, "{kernel:?} {len}");
            assert!(text == &plain[job.text.range()], "{kernel:?} opens {len}");
        }
    }
}
