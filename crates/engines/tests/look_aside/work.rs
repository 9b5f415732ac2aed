//! Results of a service thread, and its supply with work.

use crate::rig::{GCM, PATIENT, SUITES, rig, seal, spec};
use ferrule_base::Duration;
use ferrule_crypto::{Engine, Jobs, Op, Verdict};
use ferrule_engines::look_aside::{Options, Otherwise};
use std::sync::atomic::Ordering;

#[test]
fn look_aside_makes_what_software_makes_with_no_two_and_four_copies_of_the_bus() {
    for copies in [0, 2, 4] {
        let mut rig = rig(Options { copies, ..PATIENT });
        for (n, suite) in SUITES.into_iter().enumerate() {
            let (key, here) = rig.key(suite, n as u8 + 1);
            let mut octets = 0;
            rig.host.take_work();
            let sealed: Vec<_> = (0..50).map(|t| seal(suite, key, t, t as usize * 29)).collect();
            let expected: Vec<_> =
                (0..50).map(|t| rig.expected(seal(suite, key, t, t as usize * 29), here)).collect();
            let mut jobs: Jobs<_> = sealed.into_iter().collect();
            rig.host.submit(rig.now, &mut jobs);
            assert!(jobs.is_empty(), "all are under way");
            let mut back = rig.collect(50, Duration::ZERO);
            back.sort_by_key(|job| job.ticket);
            for (job, expected) in back.iter().zip(&expected) {
                octets += job.buf.len();
                assert_eq!((job.verdict, &job.buf), (Verdict::Done, expected), "{suite}");
            }
            let work = rig.host.take_work();
            assert_eq!(work.copied.packets, 50 * copies as u64, "each crossing is counted");
            assert_eq!(work.copied.octets, (octets * copies) as u64);
            assert_eq!((work.sealed_away.packets, work.opened_away.packets), (50, 0));

            // And opens it again; a flipped bit is refused, and stays encrypted.
            let open = |mut job: ferrule_crypto::Job<Vec<u8>>| {
                (job.op, job.verdict) = (Op::Open, Verdict::Pending);
                let end = job.buf.len() - 1;
                job.buf[end] ^= u8::from(job.ticket == 7);
                job
            };
            let mut jobs: Jobs<_> = back.into_iter().map(open).collect();
            rig.host.submit(rig.now, &mut jobs);
            for job in rig.collect(50, Duration::ZERO) {
                let plain = seal(suite, key, job.ticket, job.ticket as usize * 29).buf;
                let (start, text) = (job.text.start as usize, job.text.range());
                if job.ticket == 7 {
                    assert_eq!(job.verdict, Verdict::BadIcv);
                    assert_ne!(job.buf[text.clone()], plain[text], "no plaintext of it");
                } else {
                    assert_eq!(job.verdict, Verdict::Done);
                    // A CBC text begins with its IV.
                    let from = start + 16;
                    assert_eq!(job.buf[from..job.text.end()], plain[from..job.text.end()]);
                }
            }
        }
    }
}

#[test]
fn a_batch_waits_until_it_is_full_or_its_time_is_over() {
    let wait = Duration::from_micros(100);
    let mut rig = rig(Options { batch: 4, wait, ..PATIENT });
    let (key, _) = rig.key(GCM, 1);
    let mut jobs: Jobs<_> = (0..6).map(|t| seal(GCM, key, t, 64)).collect();
    rig.host.submit(rig.now, &mut jobs);
    assert_eq!(rig.collect(4, Duration::ZERO).len(), 4, "one batch is full");
    assert_eq!(rig.counter("batches"), 1);
    let due = rig.host.poll_timeout().expect("two wait");
    assert!(due <= rig.now + wait);
    std::thread::sleep(Duration::from_millis(5));
    rig.host.collect(rig.now + (wait - Duration::from_nanos(1)), &mut jobs);
    assert!(jobs.is_empty() && rig.counter("batches") == 1, "their time is not over");
    rig.now += wait;
    assert_eq!(rig.collect(2, Duration::ZERO).len(), 2);
    assert_eq!((rig.counter("batches"), rig.host.in_flight()), (2, 0));
    assert_eq!(rig.host.poll_timeout(), None, "nothing is under way");
}

#[test]
fn back_pressure_leaves_jobs_beyond_the_depth_pending_or_does_them_here() {
    for on_full in [Otherwise::Drop, Otherwise::Software] {
        let mut rig = rig(Options { depth: 64, on_full, wait: Duration::from_secs(9), ..PATIENT });
        let (key, here) = rig.key(GCM, 1);
        // The far end stands still, so nothing leaves the queue.
        rig.hand.hangs.store(true, std::sync::atomic::Ordering::SeqCst);
        rig.hand.fails_after.store(1, std::sync::atomic::Ordering::SeqCst);
        let mut jobs: Jobs<_> = (0..64).map(|t| seal(GCM, key, t, 64)).collect();
        rig.host.submit(rig.now, &mut jobs);
        assert_eq!((jobs.len(), rig.host.in_flight()), (0, 64));
        let mut jobs: Jobs<_> = (64..80).map(|t| seal(GCM, key, t, 64)).collect();
        rig.host.submit(rig.now, &mut jobs);
        assert_eq!((jobs.len(), rig.counter("full")), (16, 16), "the queue has a bound");
        for job in jobs {
            match on_full {
                Otherwise::Drop => assert_eq!(job.verdict, Verdict::Pending),
                Otherwise::Software => {
                    let expected = rig.expected(seal(GCM, key, job.ticket, 64), here);
                    assert_eq!((job.verdict, job.buf), (Verdict::Done, expected));
                }
            }
        }
        rig.hand.let_go.store(true, std::sync::atomic::Ordering::SeqCst);
        rig.hand.fails_after.store(0, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(rig.collect(64, Duration::ZERO).len(), 64);
    }
}

#[test]
fn a_key_is_wiped_at_the_far_end_after_its_last_job() {
    use std::sync::atomic::Ordering;
    let mut rig = rig(Options { wait: Duration::from_millis(1), ..PATIENT });
    let (key, _) = rig.key(GCM, 1);
    let (other, _) = rig.key(GCM, 2);
    let mut jobs: Jobs<_> = (0..3).map(|t| seal(GCM, key, t, 64)).collect();
    rig.host.submit(rig.now, &mut jobs);
    rig.host.retire(key);
    let mut late: Jobs<_> = [seal(GCM, key, 9, 64)].into_iter().collect();
    rig.host.submit(rig.now, &mut late);
    assert_eq!(late[0].verdict, Verdict::Failed, "a key that was given up takes no job");
    std::thread::sleep(Duration::from_millis(3));
    assert_eq!(rig.hand.retired.load(Ordering::SeqCst), 0, "its jobs wait for their batch");
    rig.now += Duration::from_millis(1);
    assert!(rig.collect(3, Duration::ZERO).iter().all(|job| job.verdict == Verdict::Done));
    let hand = rig.hand.clone();
    rig.until("it is wiped", || hand.retired.load(Ordering::SeqCst) == 1);
    let mut jobs: Jobs<_> = [seal(GCM, other, 1, 64)].into_iter().collect();
    rig.host.submit(rig.now, &mut jobs);
    rig.now += Duration::from_millis(1);
    assert_eq!(rig.collect(1, Duration::ZERO)[0].verdict, Verdict::Done, "the other key stays");
    assert_eq!(Engine::<Vec<u8>>::report(&rig.host)[0].keys, 1);
}

/// Clock ticks that the threads of this name have used.
#[cfg(target_os = "linux")]
fn ticks(name: &str) -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let stats = tasks.filter_map(|t| std::fs::read_to_string(t.path().join("stat")).ok());
    let of = stats.filter(|s| s.contains(&format!("({name})")));
    of.map(|s| {
        let rest: Vec<&str> = s.rsplit_once(") ").unwrap().1.split(' ').collect();
        rest[11].parse::<u64>().unwrap() + rest[12].parse::<u64>().unwrap()
    })
    .sum()
}

#[test]
#[cfg(target_os = "linux")]
fn an_idle_service_sleeps_and_is_woken_by_the_doorbell() {
    let mut rig = rig(PATIENT);
    let (key, _) = rig.key(GCM, 1);
    for round in 0..3 {
        std::thread::sleep(Duration::from_millis(20));
        let mut jobs: Jobs<_> = [seal(GCM, key, round, 64)].into_iter().collect();
        rig.host.submit(rig.now, &mut jobs);
        assert_eq!(rig.collect(1, Duration::ZERO).len(), 1, "it was asleep and is awake");
    }
    // Other tests' threads have the same name; all of them sleep at some time.
    let quiet = (0..50).any(|_| {
        let before = ticks("look-aside");
        std::thread::sleep(Duration::from_millis(100));
        ticks("look-aside") == before
    });
    assert!(quiet, "threads without work use no processor");
    assert_eq!(rig.host.poll_timeout(), None);
}

/// Rings at the moment at which the thread goes to sleep, very often: a request that it has
/// not seen by then would lie there until it wakes by itself, half a second later.
#[test]
fn no_doorbell_is_lost_however_close_to_sleep_it_rings() {
    let mut rig = rig(PATIENT);
    let (key, _) = rig.key(GCM, 1);
    let begin = std::time::Instant::now();
    let (mut rings, mut longest) = (0_u64, Duration::ZERO);
    while begin.elapsed() < Duration::from_secs(3) {
        let mut jobs: Jobs<_> = [seal(GCM, key, rings, 16)].into_iter().collect();
        let rung = std::time::Instant::now();
        rig.host.submit(rig.now, &mut jobs);
        let mut done = Jobs::new();
        while done.is_empty() {
            rig.host.collect(rig.now, &mut done);
            assert!(rung.elapsed() < Duration::from_secs(5), "ring {rings}");
        }
        longest = longest.max(rung.elapsed());
        // The thread looks for some microseconds before it sleeps.
        (0..rings * 7 % 4096).for_each(|_| std::hint::spin_loop());
        rings += 1;
    }
    assert!(longest < Duration::from_millis(400), "ring of {rings} took {longest:?}");
}

#[test]
fn commands_owed_to_an_engine_are_told_when_it_has_room_without_any_packet() {
    let mut rig = rig(PATIENT);
    let (key, _) = rig.key(GCM, 1);
    rig.hand.hangs.store(true, Ordering::SeqCst);
    rig.hand.fails_after.store(1, Ordering::SeqCst);
    let mut jobs: Jobs<_> = [seal(GCM, key, 1, 16)].into_iter().collect();
    rig.host.submit(rig.now, &mut jobs);
    let hand = rig.hand.clone();
    rig.until("it hangs", || hand.hung.load(Ordering::SeqCst) == 1);
    // More than its ring has room for; most of them go again.
    let keys: Vec<_> = (0..3000).map(|_| rig.host.install(&spec(GCM, 2)).unwrap()).collect();
    keys.iter().skip(100).for_each(|key| rig.host.retire(*key));
    assert!(rig.host.poll_timeout().is_some(), "it looks again without any packet");
    hand.fails_after.store(0, Ordering::SeqCst);
    hand.let_go.store(true, Ordering::SeqCst);
    let since = std::time::Instant::now();
    let (installed, retired) = (&rig.hand.installed, &rig.hand.retired);
    while installed.load(Ordering::SeqCst) - retired.load(Ordering::SeqCst) != 101 {
        let mut done = Jobs::new();
        rig.host.collect(rig.now, &mut done);
        assert!(since.elapsed() < Duration::from_secs(5), "keys that are gone stay in the engine");
    }
    assert_eq!(rig.counter("failures"), 0);
}
