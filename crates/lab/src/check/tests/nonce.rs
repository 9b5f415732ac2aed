//! Engines under audit.

use super::*;
use ferrule_base::Duration;
use ferrule_crypto::{Ad, Aes, Job, Late, Software, Span, Suite};
use ferrule_pipeline::{Packet, Pool};

const SUITE: Suite = Suite::AesGcm(Aes::Aes128);

fn spec(octet: u8) -> KeySpec {
    let (key, mac_key) = (Secret::new(vec![octet; 16]), Secret::new(Vec::new()));
    KeySpec::new(SUITE, key, mac_key)
}

fn job(key: KeyId, number: u64, op: Op) -> Job<Vec<u8>> {
    let mut nonce = [7; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    let (text, ad) = (Span::new(8, 32), Ad::Span(Span::new(0, 8)));
    let (ticket, verdict) = (0, Verdict::Pending);
    Job { buf: vec![0; 8 + 32 + 16], key, ticket, number: 0, nonce, op, verdict, ad, text }
}

fn submit<E: Engine<Vec<u8>>>(engine: &mut E, key: KeyId, numbers: &[u64], op: Op) {
    let mut jobs: Jobs<Vec<u8>> = numbers.iter().map(|&n| job(key, n, op)).collect();
    engine.submit(Instant::from_millis(5), &mut jobs);
}

#[test]
fn nonce_audit_finds_a_nonce_that_comes_again_after_a_restart_and_names_the_sa() {
    let (ledger, findings) = (NonceLedger::default(), Findings::default());
    ledger.name(&spec(1).key, "gw1 tunnel t");
    let engine = || Audited::new(Software::default(), "gw1", &ledger, &findings);
    let mut first = engine();
    let key = Engine::<Vec<u8>>::install(&mut first, &spec(1)).unwrap();
    submit(&mut first, key, &[1, 2, 3, 511, 512, 1 << 40], Op::Seal);
    assert_eq!((findings.count(), ledger.noted()), (0, 6));

    let mut second = engine();
    let other = Engine::<Vec<u8>>::install(&mut second, &spec(2)).unwrap();
    let key = Engine::<Vec<u8>>::install(&mut second, &spec(1)).unwrap();
    submit(&mut second, other, &[1, 2, 3], Op::Seal);
    submit(&mut second, key, &[1, 2, 3], Op::Open);
    submit(&mut second, key, &[4, 5, 510], Op::Seal);
    assert_eq!(findings.count(), 0, "another key, opening, other numbers");
    submit(&mut second, key, &[6, 512, 7], Op::Seal);
    let found = findings.all();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].invariant, found[0].place.as_str()), (Invariant::NonceOnce, "gw1"));
    assert!(found[0].what.contains("0000000000000200"), "{}", found[0]);
    assert!(found[0].what.contains("gw1 tunnel t"), "{}", found[0]);
    assert_eq!(found[0].at, Instant::from_millis(5));
}

#[test]
fn nonce_audit_sees_jobs_beside_their_packets_and_says_when() {
    let (ledger, findings) = (NonceLedger::default(), Findings::default());
    let mut engine = Audited::new(Software::default(), "gw1", &ledger, &findings);
    let key = Engine::<Vec<u8>>::install(&mut engine, &spec(1)).unwrap();
    let mut run = |millis, numbers: &[u64], op| {
        let mut buffers = Vec::new();
        let beside = |&number: &u64| job(key, number, op).map(|buffer| buffers.push(buffer));
        let mut jobs: Vec<Job<()>> = numbers.iter().map(beside).collect();
        // The last one is refused before an engine sees it: its nonce is unused.
        jobs.last_mut().unwrap().verdict = Verdict::Failed;
        engine.run_beside(Instant::from_millis(millis), &mut buffers, &mut jobs);
    };
    run(1, &[1, 2, 3, 4], Op::Seal);
    run(2, &[1, 2, 3, 4], Op::Open);
    run(3, &[4, 5, 1], Op::Seal);
    assert_eq!((findings.count(), ledger.noted()), (0, 5));
    run(4, &[6, 2, 7], Op::Seal);
    let found = findings.all();
    assert_eq!((found.len(), ledger.noted()), (1, 6));
    assert_eq!((found[0].invariant, found[0].at), (Invariant::NonceOnce, Instant::from_millis(4)));
}

#[test]
fn nonce_audit_lets_a_job_that_no_engine_took_try_again() {
    let (ledger, findings) = (NonceLedger::default(), Findings::default());
    let late = Late::new(Software::default(), 1, Duration::from_micros(10), 2);
    let mut engine = Audited::new(late, "gw1", &ledger, &findings);
    let key = Engine::<Vec<u8>>::install(&mut engine, &spec(1)).unwrap();
    submit(&mut engine, key, &[1, 2, 3, 4], Op::Seal);
    assert_eq!(ledger.noted(), 2, "two were taken");
    let mut done = Jobs::new();
    engine.collect(Instant::from_secs(1), &mut done);
    assert_eq!((done.len(), Engine::<Vec<u8>>::in_flight(&engine)), (2, 0));
    submit(&mut engine, key, &[3, 4], Op::Seal);
    assert_eq!((ledger.noted(), findings.count()), (4, 0));
    submit(&mut engine, KeyId { slot: 9, generation: 9 }, &[1, 1], Op::Seal);
    assert_eq!((ledger.noted(), findings.count()), (4, 0), "a key that nobody has seals nothing");
}

#[test]
fn nonce_audit_says_when_a_run_is_too_long_for_it() {
    let ledger = NonceLedger::default();
    let mut nonce = [0; 12];
    for page in 0..PAGES_MAX as u64 {
        nonce[..8].copy_from_slice(&page.to_be_bytes());
        assert_eq!(ledger.note([1; 16], nonce), Noted::First);
    }
    nonce[..8].copy_from_slice(&u64::MAX.to_be_bytes());
    assert_eq!(ledger.note([1; 16], nonce), Noted::NoRoom);
    assert_eq!(ledger.note([1; 16], nonce), Noted::First, "said once");
    assert!(matches!(ledger.note([1; 16], [0; 12]), Noted::Again(_)), "what is kept is checked");
}

/// The type that nodes use.
#[test]
fn nonce_audit_stands_in_front_of_a_boxed_engine() {
    let pool = Pool::heap(4, 2048);
    let mut cache = pool.cache();
    let (ledger, findings) = (NonceLedger::default(), Findings::default());
    let boxed: Box<dyn Engine<Packet>> = Box::new(Software::default());
    let mut engine = Audited::new(boxed, "gw1", &ledger, &findings);
    let key = engine.install(&spec(1)).unwrap();
    for _ in 0..2 {
        let mut packet = cache.packet_from(&[0; 56]).unwrap();
        packet.renew(56);
        let mut jobs = Jobs::new();
        let Job { key, ticket, number, nonce, op, verdict, ad, text, .. } = job(key, 9, Op::Seal);
        jobs.push(Job { buf: packet, key, ticket, number, nonce, op, verdict, ad, text });
        engine.submit(Instant::ZERO, &mut jobs);
        assert_eq!(jobs[0].verdict, Verdict::Done);
    }
    assert_eq!(findings.count(), 1);
}
