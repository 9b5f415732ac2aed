//! Threads that die and hang under load: every job comes back once, a sealed packet equals
//! that of software, a job that failed is never called done.

use crate::rig::{Buffer, GCM, PATIENT, Rig, rig, rig_with, seal, spec};
use ferrule_base::{Duration, Instant};
use ferrule_crypto::engine::BATCH;
use ferrule_crypto::{Engine, Job, Jobs, KeyId, Software, Verdict};
use ferrule_engines::look_aside::{
    Failing, Frail, HUNG_MAX, LookAside, Model, Options, Otherwise, Speed, Spell,
};
use std::collections::HashSet;
use std::sync::atomic::Ordering;

/// Each way to be configured: copies, and the handling of failures.
const WAYS: [(usize, Otherwise); 6] = [
    (0, Otherwise::Software),
    (0, Otherwise::Drop),
    (2, Otherwise::Software),
    (2, Otherwise::Drop),
    (4, Otherwise::Software),
    (4, Otherwise::Drop),
];

/// Submits 200 jobs, which a far end that fails after 50 does not survive, and returns the
/// jobs that came back.
fn through_a_failure(rig: &mut Rig, key: KeyId, from: u64) -> Vec<Job<Buffer>> {
    rig.hand.fails_after.store(50, Ordering::SeqCst);
    let (mut back, mut sent) = (Vec::new(), 0);
    for first in (from..from + 200).step_by(40) {
        let mut jobs: Jobs<_> = (first..first + 40).map(|t| seal(GCM, key, t, 100)).collect();
        rig.host.submit(rig.now, &mut jobs);
        sent += 40;
        back.extend(jobs);
        let mut done = Jobs::new();
        rig.host.collect(rig.now, &mut done);
        back.extend(done);
        rig.now += Duration::from_micros(100);
    }
    let left = sent - back.len();
    back.extend(rig.collect(left, Duration::from_micros(500)));
    let tickets: HashSet<_> = back.iter().map(|job| job.ticket).collect();
    assert_eq!((tickets.len(), back.len()), (200, 200), "each comes back once");
    back
}

/// Checks every finished job against software; returns the number of the others.
fn not_done(rig: &Rig, back: &[Job<Buffer>], here: KeyId) -> usize {
    let done = back.iter().filter(|job| job.verdict == Verdict::Done);
    let checked = done.map(|job| {
        let expected = rig.expected(seal(GCM, job.key, job.ticket, 100), here);
        assert_eq!(job.buf, expected, "job {}", job.ticket);
    });
    let done = checked.count();
    let rest = back.iter().filter(|job| job.verdict != Verdict::Done);
    assert!(rest.clone().all(|job| job.verdict == Verdict::Failed), "failed, and nothing else");
    back.len() - done
}

/// After a failure the device is started, told its keys, and works.
fn works_again(rig: &mut Rig, key: KeyId, here: KeyId) {
    let resets = rig.counter("resets");
    for _ in 0..20 {
        rig.now += Duration::from_secs(1);
        let mut jobs: Jobs<_> = [seal(GCM, key, 1 << 40, 100)].into_iter().collect();
        let done = rig.hand.done.load(Ordering::SeqCst);
        rig.host.submit(rig.now, &mut jobs);
        if jobs.is_empty() {
            let back = rig.collect(1, Duration::ZERO);
            assert_eq!(not_done(rig, &back, here), 0);
            assert!(rig.hand.done.load(Ordering::SeqCst) > done, "the far end did it");
            assert_eq!(rig.counter("resets"), resets + 1);
            return;
        }
    }
    panic!("it does not start again");
}

#[test]
fn a_service_killed_under_load_brings_every_job_back_and_is_started_again() {
    for (copies, on_failure) in WAYS {
        let mut rig = rig(Options { copies, on_failure, ..PATIENT });
        let (key, here) = rig.key(GCM, 1);
        for life in 0..2 {
            let back = through_a_failure(&mut rig, key, life * 1000);
            assert_eq!(rig.counter("failures"), life + 1);
            let lost = not_done(&rig, &back, here);
            match (copies, on_failure) {
                // The device died in one packet that was shared, and had a batch in hand.
                (0, Otherwise::Software) => assert!((1..=BATCH).contains(&lost), "{lost}"),
                (_, Otherwise::Software) => assert_eq!(lost, 0, "every packet was here"),
                (_, Otherwise::Drop) => assert!((1..=200).contains(&lost), "{lost}"),
            }
            works_again(&mut rig, key, here);
        }
        let installed = rig.hand.installed.load(Ordering::SeqCst);
        assert_eq!(installed, 3, "the key was installed once in each life");
    }
}

#[test]
fn software_stands_in_for_whole_batches_not_for_one_job_at_a_time() {
    let mut rig = rig(Options { copies: 2, ..PATIENT });
    let (key, here) = rig.key(GCM, 1);
    // The device dies with the first of two full batches.
    rig.hand.fails_after.store(1, Ordering::SeqCst);
    const FULL: u64 = BATCH as u64;
    let batch = |from: u64| (from..from + FULL).map(|t| seal(GCM, key, t, 100)).collect();
    let mut back = Vec::new();
    for from in [0, FULL] {
        let mut jobs: Jobs<_> = batch(from);
        rig.host.submit(rig.now, &mut jobs);
        back.extend(jobs);
    }
    back.extend(rig.collect(2 * BATCH - back.len(), Duration::ZERO));
    assert_eq!(not_done(&rig, &back, here), 0);
    assert_eq!((rig.counter("fallbacks"), rig.counter("failures")), (2 * FULL, 1));
    assert_eq!(rig.counter("fallback-batches"), 2);
    // And while it is down.
    let mut jobs: Jobs<_> = batch(2 * FULL);
    rig.host.submit(rig.now, &mut jobs);
    assert_eq!(not_done(&rig, &jobs, here), 0);
    assert_eq!((rig.counter("fallbacks"), rig.counter("fallback-batches")), (3 * FULL, 3));
}

#[test]
fn a_service_that_hangs_is_given_up_at_its_deadline() {
    for (copies, on_failure) in WAYS {
        let deadline = Duration::from_millis(20);
        let mut rig = rig(Options { copies, on_failure, deadline, ..PATIENT });
        let (key, here) = rig.key(GCM, 1);
        rig.hand.hangs.store(true, Ordering::SeqCst);
        let back = through_a_failure(&mut rig, key, 0);
        assert!(rig.counter("failures") >= 1);
        let lost = not_done(&rig, &back, here);
        match (copies, on_failure) {
            (0, _) | (_, Otherwise::Drop) => assert!((1..=200).contains(&lost), "{lost}"),
            (_, Otherwise::Software) => assert_eq!(lost, 0, "every packet was here"),
        }
        // The thread wakes up, and none of its further work reaches a host.
        let hand = rig.hand.clone();
        rig.until("it hangs", || hand.hung.load(Ordering::SeqCst) == 1);
        rig.hand.fails_after.store(0, Ordering::SeqCst);
        rig.hand.let_go.store(true, Ordering::SeqCst);
        rig.until("it goes on", || hand.hung.load(Ordering::SeqCst) == 0);
        std::thread::sleep(Duration::from_millis(5));
        let mut done = Jobs::new();
        rig.host.collect(rig.now, &mut done);
        assert!(done.is_empty(), "nothing comes back twice");
        works_again(&mut rig, key, here);
    }
}

#[test]
fn a_buffer_that_a_hung_service_has_is_not_used_again_before_it_lets_go() {
    let deadline = Duration::from_millis(10);
    let mut rig = rig(Options { copies: 0, deadline, ..PATIENT });
    let (key, _) = rig.key(GCM, 1);
    rig.hand.hangs.store(true, Ordering::SeqCst);
    rig.hand.fails_after.store(1, Ordering::SeqCst);
    let mut jobs: Jobs<_> = (0..8).map(|t| seal(GCM, key, t, 100)).collect();
    let sent: HashSet<*const u8> = jobs.iter().map(|job| job.buf.as_ptr()).collect();
    rig.host.submit(rig.now, &mut jobs);
    let back = rig.collect(8, Duration::from_millis(1));
    for job in &back {
        assert_eq!(job.verdict, Verdict::Failed);
        assert!(job.buf.is_empty() && !sent.contains(&job.buf.as_ptr()), "an empty one stands in");
    }
    rig.hand.let_go.store(true, Ordering::SeqCst);
}

#[test]
fn without_anything_to_stand_in_a_lost_job_waits_and_is_not_forgotten() {
    let spares = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let theirs = spares.clone();
    let take = move || {
        let one = theirs.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        one.ok().map(|_| Vec::new())
    };
    let deadline = Duration::from_millis(10);
    let mut rig = rig_with(Options { copies: 0, deadline, ..PATIENT }, Box::new(take));
    let (key, here) = rig.key(GCM, 1);
    rig.hand.hangs.store(true, Ordering::SeqCst);
    rig.hand.fails_after.store(1, Ordering::SeqCst);
    let mut jobs: Jobs<_> = (0..4).map(|t| seal(GCM, key, t, 100)).collect();
    rig.host.submit(rig.now, &mut jobs);
    rig.now += deadline;
    rig.host.collect(rig.now, &mut jobs);
    assert_eq!((jobs.len(), rig.host.in_flight()), (0, 4), "under way, as far as order goes");
    // Meanwhile other jobs are done here.
    let mut more: Jobs<_> = [seal(GCM, key, 9, 100)].into_iter().collect();
    rig.host.submit(rig.now, &mut more);
    assert_eq!(not_done(&rig, &more, here), 0);
    spares.store(4, Ordering::SeqCst);
    assert!(rig.collect(4, Duration::ZERO).iter().all(|job| job.verdict == Verdict::Failed));
    rig.hand.fails_after.store(0, Ordering::SeqCst);
    rig.hand.let_go.store(true, Ordering::SeqCst);
    works_again(&mut rig, key, here);
}

#[test]
fn a_service_that_always_hangs_leaves_a_bounded_number_of_threads_behind() {
    let deadline = Duration::from_millis(1);
    let mut rig = rig(Options { copies: 2, deadline, ..PATIENT });
    let (key, here) = rig.key(GCM, 1);
    rig.hand.hangs.store(true, Ordering::SeqCst);
    for round in 0..20_u64 {
        rig.hand.fails_after.store(1, Ordering::SeqCst);
        rig.now += Duration::from_secs(20);
        let mut jobs: Jobs<_> = [seal(GCM, key, round, 100)].into_iter().collect();
        rig.host.submit(rig.now, &mut jobs);
        let hand = rig.hand.clone();
        if jobs.is_empty() {
            let before = hand.hung.load(Ordering::SeqCst);
            rig.until("it hangs", || hand.hung.load(Ordering::SeqCst) > before);
            jobs.extend(rig.collect(1, Duration::from_millis(1)));
        }
        assert_eq!(not_done(&rig, &jobs, here), 0, "done here");
    }
    assert_eq!(rig.hand.hung.load(Ordering::SeqCst), HUNG_MAX);
    assert_eq!(rig.counter("failures"), HUNG_MAX as u64);
    assert!(!rig.host.is_up());
    rig.hand.fails_after.store(0, Ordering::SeqCst);
    rig.hand.let_go.store(true, Ordering::SeqCst);
    let hand = rig.hand.clone();
    rig.until("they go on", || hand.hung.load(Ordering::SeqCst) == 0);
    std::thread::sleep(Duration::from_millis(20));
    works_again(&mut rig, key, here);
}

#[test]
fn a_batch_behind_a_command_that_a_hung_device_does_not_take_waits_for_the_deadline() {
    let (wait, deadline) = (Duration::from_micros(10), Duration::from_millis(20));
    let options = Options { batch: 4, wait, deadline, ..Options::default() };
    let mut now = Instant::from_millis(1);
    let spell = Spell { from: now, until: Instant::from_millis(5), how: Failing::Hangs };
    let model = Model::new(Speed::default(), options.depth, Software::default());
    let device = Frail::new(model, vec![spell]);
    let mut host =
        LookAside::new(device, options, Software::default(), Box::new(|| Some(Buffer::new())));
    let key = host.install(&spec(GCM, 1)).expect("a key");
    // The device hangs from this batch on; it is owed another key, behind which a batch
    // waits.
    let mut jobs: Jobs<_> = (0..4).map(|t| seal(GCM, key, t, 64)).collect();
    host.submit(now, &mut jobs);
    let other = host.install(&spec(GCM, 2)).expect("another");
    let mut jobs: Jobs<_> = [seal(GCM, other, 4, 64)].into_iter().collect();
    host.submit(now, &mut jobs);
    let (begin, mut back, mut looks) = (now, Jobs::new(), 0);
    while host.in_flight() > 0 {
        let due = host.poll_timeout().expect("jobs are under way");
        now = now.max(due);
        host.collect(now, &mut back);
        looks += 1;
        assert!(looks < 10, "time stands still at {now}");
    }
    assert_eq!((back.len(), now), (5, begin + deadline));
}
