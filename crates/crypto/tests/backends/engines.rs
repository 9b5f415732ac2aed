//! The engines: keys and their generations, and jobs that come back late.

use crate::packet::{Packet, counting_spec, in_every_backend, spec};
use ferrule_base::{Duration, Instant, Rng};
use ferrule_crypto::key::InstallError;
use ferrule_crypto::{
    Aes, Backend, Engine, Job, Jobs, KeyId, KeySpec, Late, Mac, Op, Software, Suite, Verdict,
};
use std::process::Command;

type Buf = Vec<u8>;
const SUITE: Suite = Suite::AesGcm(Aes::Aes128);

fn install<E: Engine<Buf>>(engine: &mut E, spec: &KeySpec) -> KeyId {
    engine.install(spec).unwrap()
}

fn retire<E: Engine<Buf>>(engine: &mut E, key: KeyId) {
    engine.retire(key);
}

fn seal(key: KeyId, ticket: u64) -> Job<Buf> {
    Packet::new(SUITE, [ticket as u8; 12], b"ad", b"the text", &[]).job(Op::Seal, key, ticket)
}

fn run(software: &Software, job: Job<Buf>) -> Verdict {
    let mut jobs = [job];
    software.run(&mut jobs);
    jobs[0].verdict
}

#[test]
fn a_key_memory_of_an_sa_is_at_most_a_kibibyte() {
    for suite in Suite::software() {
        for (backend, key) in in_every_backend(&counting_spec(suite, 0)) {
            let octets = size_of_val(&key) + key.heap_len();
            println!("{suite}, {}: {octets} octets", backend.name());
            assert!(octets <= 1024, "{suite} {backend:?}: {octets}");
        }
    }
}

/// The environment is the process's: this test runs itself as others.
#[test]
fn the_environment_forces_a_backend_and_a_wrong_name_is_an_error() {
    const CHILD: &str = "FERRULE_TEST_NAMES_THE_BACKEND";
    if std::env::var_os(CHILD).is_some() {
        println!("{:?}", Software::from_env().map(|software| software.backend()));
        return;
    }
    let own = "engines::the_environment_forces_a_backend_and_a_wrong_name_is_an_error";
    let child = |value: &str| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", own])
            .env(CHILD, "1")
            .env(ferrule_crypto::backend::ENV, value)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for backend in Backend::all() {
        let text = child(backend.name());
        assert!(text.contains(&format!("Ok({backend:?})")), "{text}");
    }
    assert!(child("").contains(&format!("Ok({:?})", Backend::best())));
    let text = child("openssl");
    assert!(text.contains("Err(") && text.contains("openssl"), "{text}");
}

#[test]
fn a_retired_key_fails_and_its_slot_is_reused_with_a_new_generation() {
    for &backend in Backend::all() {
        let mut engine = Software::new(backend);
        let old = install(&mut engine, &counting_spec(SUITE, 0));
        assert_eq!(run(&engine, seal(old, 0)), Verdict::Done);
        retire(&mut engine, old);
        assert_eq!((engine.keys(), run(&engine, seal(old, 0))), (0, Verdict::Failed));

        let new = install(&mut engine, &counting_spec(SUITE, 1));
        assert_eq!((new.slot, new.generation), (old.slot, old.generation + 1));
        retire(&mut engine, old);
        assert_eq!(run(&engine, seal(old, 0)), Verdict::Failed);
        assert_eq!(run(&engine, seal(new, 0)), Verdict::Done);
        let unknown = KeyId { slot: 1 << 30, generation: 0 };
        assert_eq!(run(&engine, seal(unknown, 0)), Verdict::Failed);
    }
}

#[test]
fn keys_of_the_wrong_length_are_not_installed() {
    let mut engine = Software::default();
    let mut refused = |spec: &KeySpec| Engine::<Buf>::install(&mut engine, spec).unwrap_err();
    let short = spec(SUITE, &[0; 15], &[]);
    assert_eq!(refused(&short), InstallError::KeyLength(16, 15));
    let with_mac = spec(SUITE, &[0; 16], &[0; 20]);
    assert_eq!(refused(&with_mac), InstallError::MacKeyLength(0, 20));
    let cbc = Suite::AesCbc(Aes::Aes256, Mac::HmacSha256_128);
    assert_eq!(refused(&spec(cbc, &[0; 32], &[0; 20])), InstallError::MacKeyLength(32, 20));
    assert_eq!(engine.keys(), 0);
}

#[test]
fn one_batch_mixes_suites_keys_and_directions_and_leaves_judged_jobs_alone() {
    let all: Vec<_> = Suite::software().collect();
    for (&backend, suites) in
        Backend::all().iter().flat_map(|b| all.chunks(16).map(move |s| (b, s)))
    {
        let mut engine = Software::new(backend);
        let mut jobs = Jobs::new();
        for (i, &suite) in suites.iter().enumerate() {
            let spec = counting_spec(suite, i as u8);
            let key = install(&mut engine, &spec);
            let text = vec![i as u8; if suite.is_integrity() { 0 } else { 64 }];
            let mut packet = Packet::new(suite, [i as u8; 12], b"header", &text, &[]);
            jobs.push(packet.job(Op::Seal, key, 0));
            packet.run(Op::Seal, &backend.key(&spec).unwrap());
            jobs.push(packet.job(Op::Open, key, 1));
            *packet.buf.last_mut().unwrap() ^= 1;
            jobs.push(packet.job(Op::Open, key, 2));
            jobs.push(Job { verdict: Verdict::Failed, ..packet.job(Op::Open, key, 3) });
        }
        let before: Vec<_> = jobs.iter().map(|job| job.buf.clone()).collect();
        engine.submit(Instant::ZERO, &mut jobs);
        for (job, before) in jobs.iter().zip(before) {
            let verdicts = [Verdict::Done, Verdict::Done, Verdict::BadIcv, Verdict::Failed];
            assert_eq!(job.verdict, verdicts[job.ticket as usize], "{backend:?} {job:?}");
            assert!(job.ticket != 3 || job.buf == before);
        }
        assert_eq!(Engine::<Buf>::in_flight(&engine), 0);
    }
}

/// Submits in random portions, collects into random room, and looks at what
/// comes back. Returns the tickets in the order of their return.
fn drive(late: &mut Late<Buf>, key: KeyId, seed: u64, count: u64, depth: usize) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    let (mut now, mut next, mut back) = (Instant::ZERO, 0, Vec::new());
    while (back.len() as u64) < count {
        let mut jobs = Jobs::new();
        for _ in 0..rng.below(65).min(count - next) {
            jobs.push(seal(key, next));
            next += 1;
        }
        let taken = jobs.len();
        let before = late.in_flight();
        late.submit(now, &mut jobs);
        assert!(late.in_flight() <= depth);
        assert_eq!(late.in_flight() - before + jobs.len(), taken);
        // Jobs that were not accepted come again, in their order.
        assert!(jobs.iter().all(|job| job.verdict == Verdict::Pending));
        next -= jobs.len() as u64;

        now = late.poll_timeout().unwrap_or(now).max(now + Duration::from_nanos(rng.below(500)));
        let mut done = Jobs::new();
        late.collect(now, &mut done);
        assert!(
            done.iter().all(|job| job.verdict == Verdict::Done && &job.buf[2..10] != b"the text")
        );
        back.extend(done.iter().map(|job| job.ticket));
    }
    assert_eq!((late.in_flight(), late.poll_timeout()), (0, None));
    back
}

#[test]
fn a_late_engine_is_bounded_and_returns_every_job_exactly_once_out_of_order() {
    for seed in 0..20 {
        let depth = 1 + seed as usize * 7;
        let new = || Late::new(Software::default(), seed, Duration::from_micros(5), depth);
        let mut late = new();
        let key = install(&mut late, &counting_spec(SUITE, 0));
        let back = drive(&mut late, key, seed, 1000, depth);
        let mut sorted = back.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
        assert!(depth == 1 || back != sorted, "seed {seed}: in order");

        let mut again = new();
        let key = install(&mut again, &counting_spec(SUITE, 0));
        assert_eq!(drive(&mut again, key, seed, 1000, depth), back, "not by seed");
    }
}

#[test]
fn a_late_engine_keeps_a_retired_key_until_its_last_job_is_back() {
    let mut late = Late::new(Software::default(), 1, Duration::from_micros(5), 64);
    let key = install(&mut late, &counting_spec(SUITE, 0));
    let mut jobs: Jobs<Buf> = (0..8).map(|ticket| seal(key, ticket)).collect();
    late.submit(Instant::ZERO, &mut jobs);
    retire(&mut late, key);
    retire(&mut late, key);

    // New jobs of the key fail at once, as with an engine that is immediate.
    let mut after: Jobs<Buf> = [seal(key, 8)].into_iter().collect();
    late.submit(Instant::ZERO, &mut after);
    assert_eq!(after[0].verdict, Verdict::Failed);

    // Its slot is not given away while jobs of it are under way.
    let other = install(&mut late, &counting_spec(SUITE, 1));
    assert_ne!(other.slot, key.slot);
    let mut done = Jobs::new();
    late.collect(Instant::ZERO + Duration::from_micros(6), &mut done);
    assert_eq!(done.len(), 8);
    assert!(done.iter().all(|job| job.verdict == Verdict::Done));
    let reused = install(&mut late, &counting_spec(SUITE, 2));
    assert_eq!((reused.slot, reused.generation), (key.slot, key.generation + 1));
}
