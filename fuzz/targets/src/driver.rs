//! Runs a target on mutants of its seeds for a bounded time, on any toolchain.
//!
//! ```text
//!   seed, corpus ─▶ mutant ─▶ target ─▶ fine: the next one
//!                                └────▶ panics, or does not come back:
//!                                       fuzz/artifacts/TARGET-SEED-NUMBER
//! ```
//! `FERRULE_FUZZ_SECONDS` is the time for each target (the node gets six times
//! as much), `FERRULE_FUZZ_SEED` another sequence of mutants, and
//! `FERRULE_FUZZ_REPLAY` a file to run instead; `FERRULE_FUZZ_WRITE_SEEDS` is a
//! folder to write the seeds to, below the target's name, for libFuzzer to begin
//! with.

use crate::mutate::mutant;
use crate::{Target, find};
use ferrule_base::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// The sequence of mutants if nothing is said.
const SEED: u64 = 0xfe44_01e5;

/// After this long an input does not come back. Far more than any takes, for
/// the machine may be busy.
const HANG: Duration = Duration::from_secs(60);

/// Octets of a failing input that are printed; the file has them all.
const PRINTED_MAX: usize = 2048;

/// Seconds for each target, if the environment says so.
fn asked_seconds() -> Option<f64> {
    let text = env::var("FERRULE_FUZZ_SECONDS").ok()?;
    let seconds: f64 = text.parse().expect("FERRULE_FUZZ_SECONDS is a number of seconds");
    assert!((0.0..1e6).contains(&seconds), "FERRULE_FUZZ_SECONDS is a number of seconds");
    Some(seconds)
}

fn seed() -> u64 {
    let text = env::var("FERRULE_FUZZ_SEED").ok();
    text.map_or(SEED, |t| t.parse().expect("FERRULE_FUZZ_SEED is a number"))
}

/// The test of one target: on the input to be replayed, if there is one; else
/// on its seeds and then on mutants, until the time is over.
pub fn test(name: &str) {
    let target = find(name).expect("a target of this name");
    if let Ok(file) = env::var("FERRULE_FUZZ_REPLAY") {
        let input = fs::read(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
        return (target.run)(&input);
    }
    if let Ok(folder) = env::var("FERRULE_FUZZ_WRITE_SEEDS") {
        let folder = PathBuf::from(folder).join(name);
        fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        for (number, seed) in (target.seeds)().iter().enumerate() {
            let file = folder.join(format!("seed-{number}"));
            fs::write(&file, seed).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        }
        return;
    }
    let seconds = match (asked_seconds(), name == "node") {
        (Some(seconds), node) => seconds * if node { 6.0 } else { 1.0 },
        (None, true) => 3.0,
        (None, false) => 1.0,
    };
    let done = fuzz(target, seed(), Duration::from_secs_f64(seconds));
    println!("{name}: {done} inputs, seed {}", seed());
}

/// Runs the seeds, then mutants for `time`; how many inputs there were.
pub fn fuzz(target: &Target, seed: u64, time: Duration) -> u64 {
    let corpus = (target.seeds)();
    assert!(!corpus.is_empty(), "{} has no seeds", target.name);
    let watch = Watch::start(target.name, seed);
    // Each target has a sequence of its own.
    let mut rng = Rng::new(target.name.bytes().fold(seed, |s, b| s.rotate_left(8) ^ u64::from(b)));
    let end = Instant::now() + time;
    let mut number = 0;
    loop {
        let input = match corpus.get(number as usize) {
            Some(input) => input.clone(),
            None => mutant(&mut rng, &corpus),
        };
        let input = watch.begins(number, input);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(&input))) {
            keep(target.name, seed, number, &input);
            resume_unwind(panic);
        }
        number += 1;
        if Instant::now() >= end {
            return number;
        }
    }
}

/// Prints an input that failed, and keeps it to be run again.
fn keep(name: &str, seed: u64, number: u64, input: &[u8]) {
    let shown = &input[..input.len().min(PRINTED_MAX)];
    let hex: String = shown.iter().map(|b| format!("{b:02x}")).collect();
    let more = if shown.len() < input.len() { "..." } else { "" };
    eprintln!("{name} failed: seed {seed}, input {number}, {} octets\n{hex}{more}", input.len());
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../artifacts");
    let file = folder.join(format!("{name}-{seed}-{number}"));
    match fs::create_dir_all(&folder).and_then(|()| fs::write(&file, input)) {
        Ok(()) => eprintln!(
            "kept; again with FERRULE_FUZZ_REPLAY={} cargo test -p ferrule-fuzz fuzz_{name}",
            fs::canonicalize(&file).unwrap_or(file).display()
        ),
        Err(e) => eprintln!("cannot be kept in {}: {e}", file.display()),
    }
}

/// The input that is being run, and since when.
type Running = Option<(Instant, u64, Arc<Vec<u8>>)>;

/// Ends the process when an input does not come back.
struct Watch {
    running: Arc<Mutex<Running>>,
    over: Arc<AtomicBool>,
}

impl Watch {
    fn start(name: &'static str, seed: u64) -> Self {
        let watch = Self { running: Arc::default(), over: Arc::default() };
        let (running, over) = (watch.running.clone(), watch.over.clone());
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(200));
                let now = running.lock().ok().and_then(|r| r.clone());
                if let Some((since, number, input)) = now
                    && since.elapsed() > HANG
                {
                    eprintln!("{name} does not come back after {} s", HANG.as_secs());
                    keep(name, seed, number, &input);
                    std::process::abort();
                }
            }
        });
        watch
    }

    fn begins(&self, number: u64, input: Vec<u8>) -> Arc<Vec<u8>> {
        let input = Arc::new(input);
        if let Ok(mut running) = self.running.lock() {
            *running = Some((Instant::now(), number, input.clone()));
        }
        input
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picky(input: &[u8]) {
        assert!(!input.starts_with(&[0xff]), "does not like 0xff");
    }

    fn zeros() -> Vec<Vec<u8>> {
        vec![vec![0; 4]]
    }

    #[test]
    fn a_target_that_fails_is_found_and_its_input_kept() {
        let target = Target { name: "picky", run: picky, seeds: zeros };
        let found = catch_unwind(|| fuzz(&target, 1, Duration::from_secs(20)));
        assert!(found.is_err());
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../artifacts");
        let kept = fs::read_dir(folder).expect("artifacts").flatten();
        let mut kept = kept.filter(|f| f.file_name().to_string_lossy().starts_with("picky-1-"));
        let file = kept.next().expect("an artifact").path();
        assert_eq!(fs::read(&file).expect("readable").first(), Some(&0xff));
        fs::remove_file(file).expect("removable");
    }

    #[test]
    fn a_target_runs_for_its_time() {
        let target = Target { name: "fine", run: |_| {}, seeds: zeros };
        let start = Instant::now();
        assert!(fuzz(&target, 1, Duration::from_millis(50)) > 10);
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}
