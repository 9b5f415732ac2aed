//! A bench under watch: how long it takes, fragments that were seen, and what is kept for a
//! report that is made elsewhere.
//!
//! ```text
//!   search ─▶ watched ─▶ ports, or virtual time
//!               │  ▲
//!        writes ▼  │ reads
//!               trials of a shard: a file for `ferrule merge`
//! ```
//!
//! A search asks for one trial after the other and goes by what became of them. So the
//! trials of all shards are the test: whoever has them all searches again, gets the same
//! answers, and makes the same report as one run.

use super::bench::{Instrument, ResetBy};
use super::outlook::Outlook;
use ferrule_base::MacAddr;
use ferrule_daemon::Fault;
use ferrule_tester::responder::Home;
use ferrule_tester::{About, Bench, BenchError, Rate, TrialResult, TrialSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Trials in the order in which they were run, and what stands before them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trials {
    /// The ports' own addresses.
    pub macs: Vec<[u8; 6]>,
    /// From and to which address frames go if nothing is said.
    pub ends: Option<(IpAddr, IpAddr)>,
    /// Answers to who is next, in the order of the questions.
    pub next_hops: Vec<Option<IpAddr>>,
    /// Answers to who has an address.
    pub resolved: Vec<[u8; 6]>,
    /// By piece of the work.
    pub pieces: BTreeMap<u64, Vec<TrialResult>>,
    /// The work was stopped before its end.
    pub stopped: bool,
}

/// A bench under watch.
pub struct Watched {
    inner: Box<dyn Instrument>,
    pub outlook: Outlook,
    /// Fragments that were seen, by frame size.
    pub cut: Vec<(String, u64)>,
    /// Trials that are kept for a report, if they are.
    kept: Option<Trials>,
    piece: u64,
}

impl Watched {
    /// Trials are kept if `keeps`.
    pub fn new(mut inner: Box<dyn Instrument>, keeps: bool) -> Self {
        let outlook = Outlook::default();
        inner.show(&outlook);
        let kept = keeps.then(|| Trials {
            macs: inner.macs().iter().map(|mac| mac.0).collect(),
            ends: inner.ends(),
            ..Trials::default()
        });
        Self { inner, outlook, cut: Vec::new(), kept, piece: 0 }
    }

    /// Trials are of this piece of the work from now on.
    pub fn begin(&mut self, piece: u64) {
        self.piece = piece;
        self.inner.begin(piece);
    }

    /// Trials that were kept.
    pub fn take_trials(&mut self) -> Option<Trials> {
        self.kept.take()
    }

    fn keep(&mut self, spec: &TrialSpec, result: &TrialResult) {
        let fragments = result.fragments();
        if fragments > 0 {
            let size = spec.plan.streams.first().map_or(String::new(), |s| s.sizes.to_string());
            match self.cut.iter_mut().find(|cut| cut.0 == size) {
                Some(cut) => cut.1 += fragments,
                None => self.cut.push((size, fragments)),
            }
        }
        if let Some(kept) = &mut self.kept {
            kept.pieces.entry(self.piece).or_default().push(result.clone());
        }
    }
}

/// Time for which a trial sends: a burst is over before its end.
fn length(spec: &TrialSpec) -> Duration {
    let burst = |stream: &ferrule_tester::Stream| match (stream.frames, stream.rate) {
        (Some(frames), Rate::MilliFrames(rate)) if rate > 0 => {
            Some(Duration::from_secs_f64(frames as f64 * 1e3 / rate as f64))
        }
        _ => None,
    };
    let bursts: Option<Vec<Duration>> = spec.plan.streams.iter().map(burst).collect();
    let sending = spec.timing.sending();
    bursts.and_then(|b| b.into_iter().max()).map_or(sending, |burst| burst.min(sending))
}

impl Bench for Watched {
    fn about(&self) -> About {
        self.inner.about()
    }

    fn trial(&mut self, spec: &TrialSpec) -> Result<TrialResult, BenchError> {
        self.outlook.begins(length(spec));
        let result = self.inner.trial(spec);
        self.outlook.ends();
        if let Ok(result) = &result {
            self.keep(spec, result);
        }
        if let (Err(BenchError::Stopped), Some(kept)) = (&result, &mut self.kept) {
            kept.stopped = true;
        }
        result
    }

    fn interrupted(&mut self) -> Option<TrialResult> {
        self.inner.interrupted()
    }

    fn reset_at(&mut self, after: Duration) -> Result<(), BenchError> {
        self.inner.reset_at(after)
    }
}

impl Instrument for Watched {
    fn macs(&self) -> Vec<MacAddr> {
        self.inner.macs()
    }

    fn ends(&self) -> Option<(IpAddr, IpAddr)> {
        self.inner.ends()
    }

    fn next_hop(&mut self, port: usize, from: IpAddr, to: IpAddr) -> Option<IpAddr> {
        let hop = self.inner.next_hop(port, from, to);
        self.kept.iter_mut().for_each(|kept| kept.next_hops.push(hop));
        hop
    }

    fn answer_for(&mut self, homes: Vec<Vec<Home>>) {
        self.inner.answer_for(homes);
    }

    fn reset_by(&mut self, by: &ResetBy) -> Result<(), Fault> {
        self.inner.reset_by(by)
    }

    fn resolve(&mut self, port: usize, own: IpAddr, wanted: IpAddr) -> Result<MacAddr, Fault> {
        let mac = self.inner.resolve(port, own, wanted)?;
        self.kept.iter_mut().for_each(|kept| kept.resolved.push(mac.0));
        Ok(mac)
    }
}

/// Trials out of files, as a bench.
#[derive(Clone, Debug)]
pub struct Again {
    about: About,
    trials: Trials,
    piece: u64,
    at: [usize; 3],
}

impl Again {
    /// Bench that answers with these trials.
    pub fn new(about: About, trials: Trials) -> Self {
        Self { about, trials, piece: 0, at: [0; 3] }
    }

    fn unfit<T>() -> Result<T, BenchError> {
        let what =
            "the files have other trials than this test asks for: were they made by another build?";
        Err(BenchError::Broken(what.into()))
    }

    fn next<T: Copy>(at: &mut usize, list: &[T]) -> Option<T> {
        *at += 1;
        list.get(*at - 1).copied()
    }
}

impl Bench for Again {
    fn about(&self) -> About {
        self.about.clone()
    }

    fn trial(&mut self, _: &TrialSpec) -> Result<TrialResult, BenchError> {
        let next = self.trials.pieces.get(&self.piece).and_then(|piece| piece.get(self.at[0]));
        self.at[0] += 1;
        match next {
            Some(result) => Ok(result.clone()),
            None if self.trials.stopped => Err(BenchError::Stopped),
            None => Self::unfit(),
        }
    }

    fn reset_at(&mut self, _: Duration) -> Result<(), BenchError> {
        Ok(())
    }
}

impl Instrument for Again {
    fn macs(&self) -> Vec<MacAddr> {
        self.trials.macs.iter().map(|mac| MacAddr(*mac)).collect()
    }

    fn ends(&self) -> Option<(IpAddr, IpAddr)> {
        self.trials.ends
    }

    fn next_hop(&mut self, _: usize, _: IpAddr, _: IpAddr) -> Option<IpAddr> {
        Self::next(&mut self.at[1], &self.trials.next_hops).flatten()
    }

    fn answer_for(&mut self, _: Vec<Vec<Home>>) {}

    fn reset_by(&mut self, _: &ResetBy) -> Result<(), Fault> {
        Ok(())
    }

    fn resolve(&mut self, _: usize, _: IpAddr, _: IpAddr) -> Result<MacAddr, Fault> {
        let mac = Self::next(&mut self.at[2], &self.trials.resolved).map(MacAddr);
        mac.ok_or_else(|| {
            Fault::environment("the files do not say who answered", "make them again")
        })
    }

    fn begin(&mut self, piece: u64) {
        (self.piece, self.at[0]) = (piece, 0);
    }
}
