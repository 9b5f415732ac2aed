//! Jobs beside their packets: every backend does with them, in any order, what RustCrypto's
//! does with one after the other.

use crate::packet::{Packet, counting_spec, spec, text_len};
use ferrule_base::{Instant, Rng};
use ferrule_crypto::{
    Ad, Aes, Backend, Engine, Job, KeyId, KeySpec, Op, Software, Span, Suite, Verdict,
};
use proptest::prelude::*;

type Buf = Vec<u8>;

/// Keys of AES-GCM, and of each other suite two.
const KEYS: u64 = 300;

const GCM: [Suite; 2] = [Suite::AesGcm(Aes::Aes128), Suite::AesGcm(Aes::Aes256)];

/// The keys that every engine gets, in this order: so the same handles in each.
fn specs() -> Vec<KeySpec> {
    let mut rng = Rng::new(1);
    let mut octets = |len: usize| {
        let mut octets = vec![0; len];
        rng.fill(&mut octets);
        octets
    };
    let gcm = (0..KEYS).map(|i| GCM[i as usize % 2]);
    let gcm: Vec<_> = gcm.map(|suite| spec(suite, &octets(suite.key_len()), &[])).collect();
    let others = Suite::software().chain(Suite::software()).zip(0..);
    gcm.into_iter().chain(others.map(|(suite, first)| counting_spec(suite, first))).collect()
}

/// An engine with all keys; the last one is dead.
fn engine(backend: Backend) -> (Software, Vec<(KeyId, Suite)>) {
    let mut engine = Software::new(backend);
    let mut install = |spec: &KeySpec| Engine::<Buf>::install(&mut engine, spec).unwrap();
    let mut keys: Vec<_> = specs().iter().map(|spec| (install(spec), spec.suite)).collect();
    let dead = install(&counting_spec(GCM[0], 9));
    Engine::<Buf>::retire(&mut engine, dead);
    keys.push((dead, GCM[0]));
    (engine, keys)
}

/// Contents of a batch.
#[derive(Clone, Debug)]
struct Mix {
    seed: u64,
    count: usize,
    /// Keys from the first on: one, some, all of AES-GCM, all.
    keys: usize,
    /// The longest text, and the difference between lengths.
    longest: usize,
    step: usize,
    /// Of ten jobs, so many are whatever can go wrong.
    odd: u64,
    open: bool,
}

fn mix() -> impl Strategy<Value = Mix> {
    let keys = prop_oneof![Just(1), Just(2), Just(16), Just(KEYS as usize), Just(usize::MAX)];
    let lengths = (prop_oneof![0_usize..140, 0_usize..2000, Just(4200)], 1_usize..100);
    let lengths = prop_oneof![3 => lengths, 1 => (0_usize..2000).prop_map(|len| (len, len + 1))];
    let count = prop_oneof![0_usize..20, 100_usize..140, Just(128), Just(300)];
    (any::<u64>(), count, keys, lengths, prop_oneof![Just(0), 0_u64..4], any::<bool>()).prop_map(
        |(seed, count, keys, (longest, step), odd, open)| Mix {
            seed,
            count,
            keys,
            longest,
            step,
            odd,
            open,
        },
    )
}

fn job(rng: &mut Rng, mix: &Mix, keys: &[(KeyId, Suite)], ticket: u64) -> (Job<()>, Buf) {
    let (key, suite) = keys[rng.below(keys.len().min(mix.keys) as u64) as usize];
    let len = mix.longest - rng.below((mix.longest / mix.step) as u64 + 1) as usize * mix.step;
    let (front, ad) = (rng.below(70) as usize, [8, 8, 8, 12, 0, 28, 40][rng.below(7) as usize]);
    let text = Span::new(front + ad, text_len(suite, len));
    let mut buf = vec![0; text.end() + suite.icv_len() + rng.below(5) as usize];
    rng.fill(&mut buf);
    let mut nonce = [0; 12];
    rng.fill(&mut nonce);
    let span = Span::new(front, ad);
    let ad = match rng.below(6) {
        0 => Ad::Inline(nonce),
        1 if !suite.is_aead() => Ad::SpanThen(span, [1, 2, 3, 4]),
        _ => Ad::Span(span),
    };
    let job = Packet { suite, nonce, ad, text, buf }.job(Op::Seal, key, ticket);
    let mut buf = Buf::new();
    (job.map(|own| buf = own), buf)
}

/// Something that is wrong with a job, or was said of it before.
fn spoil(rng: &mut Rng, job: &mut Job<()>, buf: &mut Buf, dead: KeyId) {
    match rng.below(8) {
        0 => job.text.len = job.text.len.saturating_add(300),
        1 => job.text.start = u16::MAX - job.text.len.max(1),
        2 => job.ad = Ad::Span(Span { start: 60_000, len: 8 }),
        3 => job.key = dead,
        4 => job.key.slot = u32::MAX,
        5 => job.verdict = [Verdict::Done, Verdict::BadIcv, Verdict::Gone][rng.below(3) as usize],
        6 => buf.truncate(job.text.start.into()),
        _ => {
            let at = rng.below(buf.len().max(1) as u64) as usize;
            buf.iter_mut().skip(at).take(1).for_each(|octet| *octet ^= 0x40);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn jobs_beside_their_packets_come_out_as_one_after_the_other(mix in mix()) {
        let (reference, keys) = engine(Backend::Portable);
        let mut rng = Rng::new(mix.seed);
        let (mut jobs, mut bufs) = (Vec::new(), Vec::new());
        for ticket in 0..mix.count as u64 {
            let (job, buf) = job(&mut rng, &mix, &keys[..keys.len() - 1], ticket);
            jobs.push(job);
            bufs.push(buf);
        }
        let one_by_one = |jobs: &mut [Job<()>], bufs: &mut [Buf]| {
            for (job, buf) in jobs.iter_mut().zip(bufs) {
                let mut owned = [copy(job).map(|()| std::mem::take(buf))];
                reference.run(&mut owned);
                let [owned] = owned;
                *job = owned.map(|own| *buf = own);
            }
        };
        if mix.open {
            one_by_one(&mut jobs, &mut bufs);
            for job in &mut jobs {
                (job.op, job.verdict) = (Op::Open, Verdict::Pending);
            }
        }
        for (job, buf) in jobs.iter_mut().zip(&mut bufs) {
            if rng.below(10) < mix.odd {
                spoil(&mut rng, job, buf, keys.last().unwrap().0);
            }
        }
        let mut expected: (Vec<_>, Vec<_>) = (jobs.iter().map(copy).collect(), bufs.clone());
        one_by_one(&mut expected.0, &mut expected.1);
        for &backend in Backend::all() {
            let mut engine = engine(backend).0;
            let mut got: (Vec<_>, Vec<_>) = (jobs.iter().map(copy).collect(), bufs.clone());
            got.0.iter().for_each(|job| engine.prefetch(job.key, job.text.len.into()));
            Engine::run_beside(&mut engine, Instant::ZERO, &mut got.1, &mut got.0);
            for i in 0..mix.count {
                let (job, what) = (&got.0[i], format!("{backend:?}, job {i}"));
                prop_assert_eq!(job.verdict, expected.0[i].verdict, "{}, {:?}", what, job);
                prop_assert_eq!(job.ticket, i as u64);
                // Texts of failed jobs are not compared: an AEAD may leave ciphertext or zeros.
                if job.verdict != Verdict::BadIcv {
                    prop_assert!(got.1[i] == expected.1[i], "{}, {:?}", what, job);
                }
            }
        }
    }
}

fn copy(job: &Job<()>) -> Job<()> {
    Job { ..*job }
}

/// Of two slices the shorter one counts.
#[test]
fn jobs_without_a_buffer_are_left_alone() {
    for &backend in Backend::all() {
        let (mut engine, keys) = engine(backend);
        let mix = Mix { seed: 1, count: 5, keys: 1, longest: 64, step: 65, odd: 0, open: false };
        let mut rng = Rng::new(1);
        let (mut jobs, mut bufs): (Vec<_>, Vec<_>) =
            (0..5).map(|ticket| job(&mut rng, &mix, &keys, ticket)).unzip();
        bufs.truncate(3);
        Engine::run_beside(&mut engine, Instant::ZERO, &mut bufs, &mut jobs);
        let verdicts: Vec<_> = jobs.iter().map(|job| job.verdict).collect();
        assert_eq!(verdicts[..3], [Verdict::Done; 3], "{backend:?}");
        assert_eq!(verdicts[3..], [Verdict::Pending; 2], "{backend:?}");
    }
}
