//! A service on the core of its own host: the host has all the time that the service does
//! not need.

use crate::rig::{GCM, PATIENT, rig_at, seal};
use ferrule_base::Duration;
use ferrule_crypto::{Engine, Jobs, Verdict};
use ferrule_ports::os::pin;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// One packet in so many microseconds.
const EVERY: Duration = Duration::from_micros(200);
const PACKETS: u64 = 1000;

/// The first processor that this process may use.
fn first_core() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).unwrap();
    let digits: String = list.trim().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// For how long a thread has had a processor.
fn used(task: &str) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{task}/schedstat")).unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn a_service_on_its_hosts_core_leaves_it_to_the_host() {
    let core = first_core();
    let task = Arc::new(Mutex::new(String::new()));
    let theirs = task.clone();
    let of_service = move || {
        pin(core).unwrap();
        let own = std::fs::read_link("/proc/thread-self").unwrap();
        *theirs.lock().unwrap() = own.to_str().unwrap().to_owned();
    };
    let host = move || {
        pin(core).unwrap();
        let mut rig = rig_at(PATIENT, Box::new(|| Some(Vec::new())), Arc::new(of_service));
        let (key, _) = rig.key(GCM, 1);
        let begin = Instant::now();
        let (mut back, mut sent) = (0, 0);
        while back < PACKETS {
            assert!(begin.elapsed() < Duration::from_secs(60), "{back} are back");
            if sent < PACKETS && begin.elapsed() >= EVERY * sent as u32 {
                let mut jobs: Jobs<_> = [seal(GCM, key, sent, 64)].into_iter().collect();
                rig.host.submit(rig.now, &mut jobs);
                assert!(jobs.is_empty());
                sent += 1;
            }
            // As a worker does that has nothing else to do.
            std::thread::sleep(Duration::from_micros(20));
            let mut done = Jobs::new();
            rig.host.collect(rig.now, &mut done);
            assert!(done.iter().all(|job| job.verdict == Verdict::Done));
            back += done.len() as u64;
        }
        (used(&task.lock().unwrap()), begin.elapsed())
    };
    let (service, all) = std::thread::spawn(host).join().unwrap();
    let share = service.as_secs_f64() / all.as_secs_f64();
    println!("the service had the core for {:.1} % of {all:?}", 100.0 * share);
    // Looking for work for 50 us after each packet would take a quarter.
    assert!(share < 0.15, "{:.1} % of {all:?}", 100.0 * share);
}
