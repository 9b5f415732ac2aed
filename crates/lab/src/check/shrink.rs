//! From a run in which something broke to a small one in which the same breaks.
//!
//! Parts are taken out, first in halves, then one by one; what is still broken
//! without them did not need them. The dice of the parts that stay do not change
//! with those that go; where chance still has a hand in it, other seeds are tried.

use super::case::Case;
use super::finding::{Finding, Invariant};

/// Runs that one shrinking may take.
pub const RUNS_MAX: usize = 300;

/// A smaller run in which nothing breaks may be out of luck: so many other seeds
/// are tried.
const OTHER_SEEDS: u64 = 3;

/// Seeds are whole numbers that a TOML file can hold.
const SEED_MASK: u64 = i64::MAX as u64;

/// Runs shorter than this are not made shorter.
const LENGTH_MIN_NS: u64 = 1_000_000;

/// A run that is as small as it was made, and what breaks in it.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest case found.
    pub case: Case,
    /// First broken invariant of that case.
    pub finding: Finding,
    /// Runs that it took.
    pub runs: usize,
}

/// Makes `case` smaller, as long as `run` finds the same promise broken.
pub fn shrink(
    case: Case,
    finding: Finding,
    run: &mut dyn FnMut(&Case) -> Option<Finding>,
) -> Shrunk {
    let wanted = finding.invariant;
    let mut work = Work { best: Shrunk { case, finding, runs: 0 }, wanted, run };
    loop {
        let before = (work.best.case.size(), work.best.case.length_ns);
        work.shorten();
        work.plain();
        work.thin(|case| &mut case.disturbance);
        work.thin(|case| &mut case.impairment);
        work.thin(|case| &mut case.flows);
        work.thin(|case| &mut case.late);
        work.thin(|case| &mut case.workers);
        work.thin(|case| &mut case.pace);
        work.thin(|case| &mut case.rekey);
        work.thin(|case| &mut case.away);
        let after = (work.best.case.size(), work.best.case.length_ns);
        if after == before || work.best.runs >= RUNS_MAX {
            return work.best;
        }
    }
}

struct Work<'a> {
    best: Shrunk,
    wanted: Invariant,
    run: &'a mut dyn FnMut(&Case) -> Option<Finding>,
}

impl Work<'_> {
    /// True if the case still breaks, under its seed or another; then it becomes the best so far.
    fn breaks(&mut self, case: &Case) -> bool {
        let others = (1..=OTHER_SEEDS).map(|n| case.seed.wrapping_add(n) & SEED_MASK);
        let seeds = std::iter::once(case.seed).chain(others);
        seeds.into_iter().any(|seed| self.breaks_so(Case { seed, ..case.clone() }))
    }

    fn breaks_so(&mut self, case: Case) -> bool {
        if self.best.runs >= RUNS_MAX {
            return false;
        }
        self.best.runs += 1;
        match (self.run)(&case) {
            Some(finding) if finding.invariant == self.wanted => {
                self.best.case = case;
                self.best.finding = finding;
                true
            }
            _ => false,
        }
    }

    /// Takes parts out of one list: half of it, a quarter, down to single ones.
    fn thin<T: Clone>(&mut self, list: fn(&mut Case) -> &mut Vec<T>) {
        let mut chunk = list(&mut self.best.case).len();
        while chunk > 0 {
            let mut from = 0;
            while from < list(&mut self.best.case).len() {
                let mut case = self.best.case.clone();
                let items = list(&mut case);
                let to = (from + chunk).min(items.len());
                items.drain(from..to);
                if !self.breaks(&case) {
                    from = to;
                }
            }
            chunk /= 2;
        }
    }

    /// Returns to the SA parameters of the topology, and to sequence numbers from 1.
    fn plain(&mut self) {
        if self.best.case.settings.is_some() {
            self.breaks(&Case { settings: None, ..self.best.case.clone() });
        }
        if self.best.case.before_wrap > 0 {
            self.breaks(&Case { before_wrap: 0, ..self.best.case.clone() });
        }
    }

    /// Sends for a shorter time: until just after it broke, then half of it.
    fn shorten(&mut self) {
        let case = &self.best.case;
        let after = self.best.finding.at.as_nanos().saturating_sub(case.start_ns);
        let seen = after + LENGTH_MIN_NS;
        if seen < self.best.case.length_ns {
            self.breaks(&Case { length_ns: seen, ..self.best.case.clone() });
        }
        while self.best.case.length_ns / 2 >= LENGTH_MIN_NS {
            let length_ns = self.best.case.length_ns / 2;
            if !self.breaks(&Case { length_ns, ..self.best.case.clone() }) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::{At, Kind, Shape, Upset};
    use super::*;
    use ferrule_base::Instant;

    fn shape() -> Shape {
        let (links, nodes) = ((0..9).collect(), (0..6).collect());
        Shape { start_ns: 0, length_ns: 500_000_000, flows: 12, links, nodes }
    }

    fn broken(invariant: Invariant, at: u64) -> Option<Finding> {
        let (place, what) = (String::new(), String::new());
        Some(Finding { invariant, at: Instant::from_nanos(at), place, what })
    }

    #[test]
    fn shrinking_leaves_what_a_finding_needs_and_nothing_else() {
        let mut cases = 0;
        for seed in 0..400 {
            let case = Case::draw(seed, &shape());
            // A bug that needs a flow, a crash of a gateway and a bad link.
            let mut run = |case: &Case| {
                let dead =
                    case.disturbance.iter().find(|d| matches!(d.what, Upset::Kill(1 | 2)))?;
                let bad = |i: &&super::super::case::Impairment| {
                    i.link > 4 && matches!(i.kind, Kind::Duplicate(_))
                };
                case.impairment.iter().find(bad)?;
                let early = dead.at_ns < case.length_ns && case.flows.contains(&7);
                if early { broken(Invariant::NoDuplicate, dead.at_ns) } else { None }
            };
            let Some(finding) = run(&case) else { continue };
            cases += 1;
            let small = shrink(case.clone(), finding, &mut run);
            assert_eq!(small.case.size(), 3, "{:?}", small.case);
            assert_eq!(small.case.flows, [7]);
            assert!(small.case.length_ns <= case.length_ns && small.runs <= RUNS_MAX);
            assert!(run(&small.case).is_some(), "what is left breaks, too");
        }
        assert!(cases > 50, "{cases}");
    }

    #[test]
    fn shrinking_does_not_slip_to_another_finding_and_ends() {
        let case = Case::draw(3, &shape());
        // Whatever is taken out, something else breaks.
        let mut run = |case: &Case| match case.flows.len() {
            12 => broken(Invariant::Replay, 400_000_000),
            _ => broken(Invariant::Order, 1),
        };
        let small = shrink(case, broken(Invariant::Replay, 400_000_000).unwrap(), &mut run);
        assert_eq!(small.finding.invariant, Invariant::Replay);
        assert_eq!(small.case.flows.len(), 12);
        let mut never = |_: &Case| None;
        let case = Case::draw(3, &shape());
        let kept = shrink(case.clone(), small.finding, &mut never);
        assert_eq!(kept.case, case);
        assert!(kept.runs <= RUNS_MAX);
    }

    #[test]
    fn a_seed_draws_the_same_case_always_and_seeds_differ() {
        assert_eq!(Case::draw(5, &shape()), Case::draw(5, &shape()));
        let cases: Vec<Case> = (0..200).map(|seed| Case::draw(seed, &shape())).collect();
        let kinds = |f: fn(&Case) -> bool| cases.iter().filter(|c| f(c)).count();
        assert!(kinds(|c| c.disturbance.iter().any(|d| matches!(d.what, Upset::Kill(_)))) > 50);
        assert!(kinds(|c| c.disturbance.iter().any(|d| matches!(d.what, Upset::Link(_)))) > 50);
        assert!(kinds(|c| !c.late.is_empty()) > 50 && kinds(|c| c.late.is_empty()) > 5);
        assert!(kinds(|c| c.workers.iter().any(|w| w.count == 3)) > 50);
        assert!(kinds(|c| !c.rekey.is_empty()) > 50 && kinds(|c| c.rekey.is_empty()) > 50);
        let at =
            |f: fn(At) -> bool| cases.iter().filter(|c| c.away.iter().any(|a| f(a.at))).count();
        assert!(at(|at| at == At::Inline) > 20 && at(|at| at == At::Token) > 20);
        assert!(at(|at| matches!(at, At::LookAside { copies: 0, .. })) > 20);
        let upset = |f: fn(Upset) -> bool| {
            cases.iter().filter(|c| c.disturbance.iter().any(|d| f(d.what))).count()
        };
        assert!(upset(|what| matches!(what, Upset::EngineKill(_))) > 10);
        assert!(upset(|what| matches!(what, Upset::EngineHang(_))) > 10);
        assert!(upset(|what| matches!(what, Upset::CardReset(_))) > 5);
        assert!(upset(|what| matches!(what, Upset::CardHalt(_))) > 5);
    }
}
