//! `ferrule lab run TOPOLOGY --check`: seeds in parallel, until a promise is
//! broken; then the seed, what broke, and a recording of as little as shows it.
//!
//! ```text
//!   threads: next seed ─▶ campaign::seed ─┐
//!                                         ├─▶ progress, score, the lowest seed that fails
//!   failure ─▶ campaign::small ─▶ NAME-seed-N/recording.toml, LINK.pcapng
//! ```

mod document;
mod record;
mod text;

pub use document::{SCHEMA, Searched};
pub use text::told;

use crate::answer;
use crate::interrupt;
use crate::output::print;
use crate::paint::{Paint, emit};
use crate::shard::Shard;
use clap::Args;
use document::{Broken, Network, Seeds};
use ferrule_base::Duration;
use ferrule_lab::check::{Failure, Names, Rig, Score, Source, Subject, campaign};
use ferrule_lab::topology::{Topology, TopologySubject, units};
use std::io::IsTerminal;
use std::panic;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

pub use record::repeat;

/// The whole work as one shard.
const WHOLE: Shard = Shard { index: 0, of: 1 };

/// Exit: a promise was broken.
const FOUND: u8 = 1;
/// Exit: it cannot be read, or means nothing.
const USAGE: u8 = 2;
/// Exit: the machine would not let it be written down.
const ENVIRONMENT: u8 = 3;

/// How the search goes.
#[derive(Args, Clone, Debug)]
pub struct SearchArgs {
    /// Search, seed by seed, for a run in which a promise is broken: a nonce
    /// used twice, a host's payload in clear, a replayed packet accepted, a
    /// packet that nobody accounts for.
    #[arg(long)]
    pub check: bool,
    /// Seeds to run.
    #[arg(long, default_value_t = 1000, requires = "check", value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0, requires = "check", value_name = "SEED")]
    pub first_seed: u64,
    /// Runs at one time; as many as there are cores if left out.
    #[arg(long, requires = "check", value_name = "N")]
    pub jobs: Option<usize>,
    /// How long hosts send in each run.
    #[arg(long, default_value = "300ms", requires = "check", value_name = "TIME", value_parser = time)]
    pub send_for: Duration,
    /// Run every N-th of them from the I-th on, counted from 0, as 0/8; the parts' JSON goes to
    /// `ferrule merge`.
    #[arg(long, requires = "check", requires = "json", value_name = "I/N")]
    pub shard: Option<Shard>,
    /// The folder in which a recording is made.
    #[arg(long, default_value = ".", requires = "check", value_name = "FOLDER")]
    pub record: PathBuf,
}

fn time(text: &str) -> Result<Duration, String> {
    let time = units::time(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| format!("`{text}` is no time; {}", units::TIME_FORM))
}

impl SearchArgs {
    /// Searches. `source` is what `topology` was read from.
    pub fn run(&self, topology: Topology, source: &Source, json: bool) -> ExitCode {
        if self.first_seed.checked_add(self.seeds).is_none() {
            let (seeds, last) = (self.seeds, u64::MAX - self.seeds);
            let what = format!("{seeds} seeds from {} on are not there", self.first_seed);
            return answer::wrong(&format!("{what}\n  give --first-seed {last} at most"), USAGE);
        }
        let name = topology.name.clone();
        let subject = TopologySubject::new(topology, self.send_for);
        let names = names(&subject);
        let began = Instant::now();
        if let Err(fault) = interrupt::flag() {
            return answer::fault(&fault);
        }
        let (score, failure) = quietly(|| self.search(&subject, began));
        let elapsed = began.elapsed();
        let broken = failure.map(|failure| {
            let seed = failure.case.seed;
            let small = quietly(|| campaign::small(&subject, failure.clone(), &Rig::default()));
            let folder = self.record.join(format!("{name}-seed-{seed}"));
            let written = record::write(&folder, &subject, source, &small);
            Broken::of(&failure, &small, &names, &written)
        });
        let found = Searched {
            schema: SCHEMA.into(),
            topology: name,
            network: Network::of(&names),
            seeds: Seeds { first: self.first_seed, count: self.seeds },
            shard: self.shard,
            partial: broken.is_none() && score.seeds < self.mine(),
            holds: broken.is_none(),
            score: (&score).into(),
            failure: broken,
        };
        let stdout = &mut std::io::stdout();
        let paint = Paint::for_stream(stdout);
        let text = if json { found.json() } else { told(paint, &found, Some(elapsed)) };
        print(&text);
        found.code()
    }

    /// Seeds that are run here.
    fn mine(&self) -> u64 {
        let Shard { index, of } = self.shard.unwrap_or(WHOLE);
        self.seeds.saturating_sub(index).div_ceil(of)
    }

    /// Runs the seeds on several threads. Of several that fail the lowest is
    /// given, whichever thread was faster.
    fn search(&self, subject: &TopologySubject, began: Instant) -> (Score, Option<Failure>) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.jobs.unwrap_or(cores).clamp(1, 256);
        let last = self.first_seed.saturating_add(self.seeds);
        let (next, stop) = (AtomicU64::new(0), AtomicU64::new(last));
        let Shard { index, of } = self.shard.unwrap_or(WHOLE);
        let from = self.first_seed.saturating_add(index);
        let seed = |number: u64| from.saturating_add(number.saturating_mul(of));
        let (sender, results) = channel();
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                let (sender, next, stop) = (sender.clone(), &next, &stop);
                scope.spawn(move || {
                    work(subject, || seed(next.fetch_add(1, Relaxed)), stop, &sender)
                });
            }
            drop(sender);
            self.watch(&results, began)
        })
    }

    /// Adds up what comes, and shows how far it is.
    fn watch(
        &self,
        results: &Receiver<(Score, Option<Failure>)>,
        began: Instant,
    ) -> (Score, Option<Failure>) {
        let mut stderr = std::io::stderr();
        let live = stderr.is_terminal();
        let (mut sum, mut first) = (Score::default(), None::<Failure>);
        for (score, failure) in results {
            sum.merge(&score);
            if let Some(failure) = failure
                && first.as_ref().is_none_or(|f| failure.case.seed < f.case.seed)
            {
                first = Some(failure);
            }
            if live && began.elapsed() > text::PATIENCE {
                let line = text::progress(&sum, self.mine(), began.elapsed());
                emit(&mut stderr, &format!("\r\x1b[K{line}"));
            }
        }
        if live {
            emit(&mut stderr, "\r\x1b[K");
        }
        (sum, first)
    }
}

/// Work of one thread: the next seed, as long as none below it has failed and the search was not
/// stopped.
fn work(
    subject: &TopologySubject,
    next: impl Fn() -> u64,
    stop: &AtomicU64,
    results: &Sender<(Score, Option<Failure>)>,
) {
    loop {
        let seed = next();
        if seed >= stop.load(Relaxed) || interrupt::wanted() {
            return;
        }
        let (outcome, failure) = campaign::seed(subject, seed, &Rig::default());
        let mut score = Score::default();
        score.add(&outcome);
        if failure.is_some() {
            stop.fetch_min(seed, Relaxed);
        }
        if results.send((score, failure)).is_err() {
            return;
        }
    }
}

/// A panic inside a run is a finding and is told as one: its own message would
/// stand in between.
fn quietly<T>(f: impl FnOnce() -> T) -> T {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let done = f();
    panic::set_hook(hook);
    done
}

fn names(subject: &TopologySubject) -> Names {
    let topology = subject.topology();
    Names {
        flows: (0..topology.traffic.len()).map(|t| topology.traffic_name(t)).collect(),
        links: topology.links.iter().map(|l| l.name.clone()).collect(),
        nodes: subject.nodes().iter().map(|n| n.name.clone()).collect(),
    }
}
