//! Verdicts, which exist only with their evidence.
//!
//! ```text
//!   metric, baseline ─┐
//!   threshold, words ─┤
//!   value, interval  ─┼─▶ Judgement::verdict ─▶ holds │ fails │ undecided │ fitted │ not run
//!   repeats          ─┤
//!   conditions       ─┘
//! ```
//!
//! There is no way to write a verdict down: it is computed wherever it is shown, and a
//! file that says another one than its evidence is not read.

use crate::scale::shown;
use crate::value::{Kind, Measure};
use serde::{Deserialize, Serialize};

/// Tolerance of "about": a value within this share of the stated one. The same in every study.
pub const ABOUT_PERCENT: f64 = 10.0;
/// Fewest repetitions of a measurement for a verdict to rest on it.
pub const REPEATS_MIN: u32 = 7;
/// Least share of the offered load that a baseline must carry, and the largest share of the
/// baseline that a result may reach before it counts as noise.
const CARRIED_PERCENT: f64 = 99.0;
const RATIO_PERCENT: f64 = 100.0;
/// Least loss of a system at its limit.
const LOADED_PERCENT: f64 = 1.0;

/// Outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// No evidence was taken.
    NotRun,
    /// Evidence was taken and does not decide.
    Undecided,
    /// The value agrees because it was fitted to agree, which proves nothing.
    Fitted,
    /// The evidence supports the claim.
    Holds,
    /// The evidence contradicts the claim.
    Fails,
}

impl Verdict {
    /// Every verdict, the clearest first.
    pub const ALL: [Self; 5] =
        [Self::Holds, Self::Fails, Self::Undecided, Self::Fitted, Self::NotRun];

    /// The name in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::Undecided => "undecided",
            Self::Fitted => "fitted",
            Self::NotRun => "not run",
        }
    }

    /// Joint verdict of conditions that must both hold.
    fn and(self, other: Self) -> Self {
        let order = [Self::Fails, Self::NotRun, Self::Undecided, Self::Fitted, Self::Holds];
        order.into_iter().find(|verdict| [self, other].contains(verdict)).unwrap_or(self)
    }
}

/// Condition on a value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Threshold {
    /// So much or more.
    AtLeast(f64),
    /// So much or less.
    AtMost(f64),
    /// More.
    Above(f64),
    /// Less.
    Below(f64),
    /// So much, within [`ABOUT_PERCENT`].
    About(f64),
    /// From one to the other.
    Between(f64, f64),
    /// So much and no other.
    Exactly(f64),
}

impl Threshold {
    /// True if the value meets the threshold.
    pub fn admits(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::Above(below) => value > below,
            Self::Below(above) => value < above,
            Self::About(said) => 100.0 * (value - said).abs() <= ABOUT_PERCENT * said.abs(),
            Self::Between(low, high) => low <= value && value <= high,
            Self::Exactly(said) => value == said,
        }
    }

    /// True if every value of an interval meets the threshold, false if none does; `None` if only a
    /// part of the interval does.
    fn admits_all(self, low: f64, high: f64) -> Option<bool> {
        match (self.admits(low), self.admits(high)) {
            (true, true) => Some(true),
            // A threshold with two ends may lie within an interval whose ends both miss it.
            (false, false) => (!self.middles().any(|m| low < m && m < high)).then_some(false),
            _ => None,
        }
    }

    fn middles(self) -> impl Iterator<Item = f64> {
        let all = match self {
            Self::About(said) | Self::Exactly(said) => [Some(said), None],
            Self::Between(low, high) => [Some(low), Some(high)],
            _ => [None, None],
        };
        all.into_iter().flatten()
    }
}

impl std::fmt::Display for Threshold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, "at least {}", shown(*least)),
            Self::AtMost(most) => write!(f, "at most {}", shown(*most)),
            Self::Above(below) => write!(f, "more than {}", shown(*below)),
            Self::Below(above) => write!(f, "less than {}", shown(*above)),
            Self::About(said) => write!(f, "{} ± {} %", shown(*said), shown(ABOUT_PERCENT)),
            Self::Between(low, high) => write!(f, "{} to {}", shown(*low), shown(*high)),
            Self::Exactly(said) => write!(f, "{}", shown(*said)),
        }
    }
}

/// Method by which a value was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Taken {
    /// Printed, or computed from what was: it is the same each time.
    Computed,
    /// Counted, one by one: octets of a frame, packets that came out wrong.
    Counted,
    /// Measured so often, in turn with its baseline.
    Repeated(u32),
}

/// Precondition for a value to count as evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// The quantity that is checked.
    pub metric: String,
    /// The threshold that it must meet.
    pub threshold: Threshold,
    /// The value found.
    pub value: f64,
    /// Its unit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
}

impl Condition {
    /// A baseline that carried so much of what it was offered.
    pub fn carried(percent: f64) -> Self {
        let threshold = Threshold::AtLeast(CARRIED_PERCENT);
        Self { metric: "baseline carried".into(), threshold, value: percent, unit: "%".into() }
    }

    /// Result as a share of the baseline: more than the whole baseline is noise.
    pub fn ratio(percent: f64) -> Self {
        let threshold = Threshold::AtMost(RATIO_PERCENT);
        Self { metric: "ratio to the baseline".into(), threshold, value: percent, unit: "%".into() }
    }

    /// A load at which a system is at its limit, since it loses so much: below it, a load
    /// that everything carries shows nothing.
    pub fn loaded(lost_percent: f64) -> Self {
        let threshold = Threshold::AtLeast(LOADED_PERCENT);
        Self { metric: "lost under load".into(), threshold, value: lost_percent, unit: "%".into() }
    }

    fn is_met(&self) -> bool {
        self.threshold.admits(self.value)
    }
}

/// Evidence of a verdict: a value, and the threshold it is held against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The quantity that was examined.
    pub metric: String,
    /// The baseline of a comparison; empty if the value is held against the threshold alone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub baseline: String,
    /// The value's unit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// The threshold that the value must meet.
    pub threshold: Threshold,
    /// Words of the publication that state the threshold, and their place.
    pub said: String,
    /// The value found, with its interval.
    pub value: Measure,
    /// The method by which the value was obtained.
    pub taken: Taken,
    /// Preconditions that must hold besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl Evidence {
    /// A value that is the same each time.
    pub fn computed(
        metric: impl Into<String>,
        value: impl Into<Measure>,
        (threshold, said): (Threshold, impl Into<String>),
    ) -> Self {
        Self {
            metric: metric.into(),
            baseline: String::new(),
            unit: String::new(),
            threshold,
            said: said.into(),
            value: value.into(),
            taken: Taken::Computed,
            conditions: Vec::new(),
        }
    }

    /// A number of things.
    pub fn counted(
        metric: impl Into<String>,
        count: u64,
        asked: (Threshold, impl Into<String>),
    ) -> Self {
        Self { taken: Taken::Counted, ..Self::computed(metric, count as f64, asked) }
    }

    /// Share of counted cases that meet a property, in percent; each case counts, none is sampled.
    pub fn share(
        metric: impl Into<String>,
        (part, all): (u64, u64),
        asked: (Threshold, impl Into<String>),
    ) -> Self {
        let percent = 100.0 * part as f64 / all as f64;
        let evidence = Self { taken: Taken::Counted, ..Self::computed(metric, percent, asked) };
        evidence.unit("%")
    }

    /// A value that was measured so often, with its interval.
    pub fn repeated(
        metric: impl Into<String>,
        (value, repeats): (Measure, usize),
        asked: (Threshold, impl Into<String>),
    ) -> Self {
        let repeats = u32::try_from(repeats).unwrap_or(u32::MAX);
        Self { taken: Taken::Repeated(repeats), ..Self::computed(metric, value, asked) }
    }

    /// The value's unit.
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = unit.into();
        self
    }

    /// Names the baseline of the comparison.
    pub fn against(mut self, baseline: impl Into<String>) -> Self {
        self.baseline = baseline.into();
        self
    }

    /// Adds preconditions.
    pub fn on(mut self, conditions: impl IntoIterator<Item = Condition>) -> Self {
        self.conditions.extend(conditions);
        self
    }

    fn ends(&self) -> (f64, f64) {
        let Measure { value, low, high } = self.value;
        (low.unwrap_or(value), high.unwrap_or(value))
    }

    /// Reason why the evidence decides nothing; `None` if it decides.
    fn undecided(&self, kind: Kind) -> Option<String> {
        if let Some(condition) = self.conditions.iter().find(|condition| !condition.is_met()) {
            let Condition { metric, threshold, value, unit } = condition;
            return Some(format!("{metric} {} {unit}, must be {threshold}", shown(*value)));
        }
        let (low, high) = self.ends();
        let is_measured = kind == Kind::Live && self.taken != Taken::Counted;
        match self.taken {
            _ if !self.value.is_finite() => Some("no number".into()),
            Taken::Repeated(repeats) if repeats < REPEATS_MIN => {
                Some(format!("{repeats} repeats, at least {REPEATS_MIN} are needed"))
            }
            Taken::Computed if is_measured => Some("measured once".into()),
            Taken::Repeated(_) if self.value.low.is_none() || self.value.high.is_none() => {
                Some("no interval".into())
            }
            _ => self
                .threshold
                .admits_all(low, high)
                .is_none()
                .then(|| format!("{} to {} has the threshold within", shown(low), shown(high))),
        }
    }
}

/// Judgement of a claim by the numbers of one origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Record", into = "Record")]
pub struct Judgement {
    kind: Kind,
    evidence: Option<Evidence>,
    note: String,
}

/// A judgement in a file: what it says follows from what it rests on.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    kind: Kind,
    verdict: Verdict,
    evidence: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    basis: Option<Evidence>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    note: String,
}

impl From<Judgement> for Record {
    fn from(judgement: Judgement) -> Self {
        let (verdict, words) = (judgement.verdict(), judgement.words());
        let Judgement { kind, evidence, note } = judgement;
        Self { kind, verdict, evidence: words, basis: evidence, note }
    }
}

impl TryFrom<Record> for Judgement {
    type Error = String;

    fn try_from(record: Record) -> Result<Self, String> {
        let Record { kind, basis, note, .. } = record.clone();
        let judgement = Self { kind, evidence: basis, note };
        let follows = Record::from(judgement.clone());
        match follows == record {
            true => Ok(judgement),
            false => Err(format!(
                "the verdict is {:?} ({}), its basis says {:?} ({})",
                record.verdict.name(),
                record.evidence,
                follows.verdict.name(),
                follows.evidence
            )),
        }
    }
}

impl Judgement {
    /// A judgement that rests on evidence, with a remark.
    pub fn new(kind: Kind, evidence: Evidence, note: impl Into<String>) -> Self {
        Self { kind, evidence: Some(evidence), note: note.into() }
    }

    /// A judgement without evidence, with the reason.
    pub fn not_run(kind: Kind, why: impl Into<String>) -> Self {
        let why: String = why.into();
        let why = why.strip_prefix("not run: ").map(str::to_owned).unwrap_or(why);
        Self { kind, evidence: None, note: why }
    }

    /// True if its live part did not run, for a reason that others may share: pages say it once.
    pub fn is_unrun(&self) -> bool {
        self.kind == Kind::Live && self.evidence.is_none()
    }

    /// Origin of the numbers.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The evidence, if any was taken.
    pub fn evidence(&self) -> Option<&Evidence> {
        self.evidence.as_ref()
    }

    /// Verdict that follows from the evidence: the only place where one is made.
    pub fn verdict(&self) -> Verdict {
        let Some(evidence) = &self.evidence else { return Verdict::NotRun };
        if evidence.undecided(self.kind).is_some() {
            return Verdict::Undecided;
        }
        let (low, high) = evidence.ends();
        match (evidence.threshold.admits_all(low, high), self.kind) {
            (Some(true), Kind::Fitted) => Verdict::Fitted,
            (Some(true), _) => Verdict::Holds,
            _ => Verdict::Fails,
        }
    }

    /// The judgement in words: the value found, the words of the publication, and the remark.
    pub fn words(&self) -> String {
        let mut text = String::new();
        if let Some(evidence) = &self.evidence {
            text = in_words(evidence);
            if let Some(why) = evidence.undecided(self.kind) {
                text += &format!("; undecided: {why}");
            }
        }
        match (text.is_empty(), self.note.is_empty()) {
            (_, true) => text,
            (true, false) => self.note.clone(),
            (false, false) => format!("{text}. {}", self.note),
        }
    }
}

fn in_words(evidence: &Evidence) -> String {
    let Evidence { metric, baseline, unit, threshold, said, value, taken, .. } = evidence;
    let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
    let mut text = format!("{metric}: {}", shown(value.value));
    if let (Some(low), Some(high)) = (value.low, value.high) {
        text += &format!(" ({} to {})", shown(low), shown(high));
    }
    text += &unit;
    if !baseline.is_empty() {
        text += &format!(", against {baseline}");
    }
    if let Taken::Repeated(repeats) = taken {
        text += &format!(", {repeats} repeats");
    }
    text + &format!("; asked is {threshold}{unit} ({said})")
}

/// A claim of a publication, with its judgements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its name.
    pub id: String,
    /// The claim in words.
    pub text: String,
    /// Section of the publication that makes it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub section: String,
    /// Judgements, by origin of the numbers.
    pub judgements: Vec<Judgement>,
}

impl Claim {
    /// A claim that nobody has looked at yet.
    pub fn new(id: impl Into<String>, text: impl Into<String>) -> Self {
        let (id, text) = (id.into(), text.into());
        Self { id, text, section: String::new(), judgements: Vec::new() }
    }

    /// Names the section of the publication that makes the claim.
    pub fn section(mut self, section: impl Into<String>) -> Self {
        self.section = section.into();
        self
    }

    /// Adds a judgement by the numbers of one origin.
    pub fn judged(mut self, kind: Kind, evidence: Evidence, note: impl Into<String>) -> Self {
        self.judgements.push(Judgement::new(kind, evidence, note));
        self
    }

    /// Adds a judgement without evidence, with the reason.
    pub fn not_run(mut self, kind: Kind, why: impl Into<String>) -> Self {
        self.judgements.push(Judgement::not_run(kind, why));
        self
    }

    /// Joint verdict of the judgements of one origin.
    pub fn by(&self, kind: Kind) -> Verdict {
        let own = self.judgements.iter().filter(|judgement| judgement.kind == kind);
        own.map(Judgement::verdict).reduce(Verdict::and).unwrap_or(Verdict::NotRun)
    }

    /// Joint verdict: the claim fails if numbers of any origin contradict it, and holds if numbers
    /// made here support it and none contradict it. A publication does not confirm itself.
    pub fn verdict(&self) -> Verdict {
        if self.judgements.iter().any(|judgement| judgement.verdict() == Verdict::Fails) {
            return Verdict::Fails;
        }
        let own = [Kind::Fitted, Kind::Model, Kind::Live, Kind::Derived];
        own.map(|kind| self.by(kind)).into_iter().max().unwrap_or(Verdict::NotRun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: (Threshold, &str) = (Threshold::AtLeast(6.0), "more than 6 times, section 3.4");

    fn live(low: f64, high: f64, repeats: usize) -> Evidence {
        let value = Measure::within(f64::midpoint(low, high), low, high);
        Evidence::repeated("delay", (value, repeats), SAID)
    }

    fn judged(kind: Kind, evidence: Evidence) -> Verdict {
        Judgement::new(kind, evidence, "").verdict()
    }

    #[test]
    fn verdict_stands_on_an_interval_repeats_and_conditions() {
        let of = |low, high, repeats| judged(Kind::Live, live(low, high, repeats));
        assert_eq!(of(6.5, 7.0, 7), Verdict::Holds);
        assert_eq!(of(3.0, 5.9, 7), Verdict::Fails);
        assert_eq!(of(5.9, 7.0, 100), Verdict::Undecided, "the threshold lies within");
        assert_eq!(of(6.5, 7.0, 6), Verdict::Undecided, "too few repeats");
        assert_eq!(of(f64::NAN, 7.0, 9), Verdict::Undecided, "no number");
        let on = |condition| judged(Kind::Live, live(6.5, 7.0, 9).on([condition]));
        assert_eq!(on(Condition::carried(99.0)), Verdict::Holds);
        assert_eq!(on(Condition::carried(98.9)), Verdict::Undecided);
        assert_eq!(on(Condition::ratio(100.1)), Verdict::Undecided);
        let once = Evidence::computed("delay", 7.0, SAID);
        assert_eq!(judged(Kind::Live, once.clone()), Verdict::Undecided, "measured once");
        assert_eq!(judged(Kind::Model, once.clone()), Verdict::Holds);
        assert_eq!(judged(Kind::Live, Evidence::counted("octets", 7, SAID)), Verdict::Holds);
        // What was made to come out shows nothing; if it does not come out, that does.
        assert_eq!(judged(Kind::Fitted, once), Verdict::Fitted);
        assert_eq!(judged(Kind::Fitted, Evidence::computed("delay", 5.0, SAID)), Verdict::Fails);
    }

    #[test]
    fn threshold_on_two_sides_has_one_width_and_an_interval_around_it_decides_nothing() {
        let about = Threshold::About(6.0);
        assert!(about.admits(5.4) && about.admits(6.6) && !about.admits(5.3) && !about.admits(6.7));
        assert_eq!(about.admits_all(5.0, 7.0), None);
        assert_eq!(about.admits_all(7.0, 9.0), Some(false));
        assert_eq!(Threshold::Between(3.0, 4.0).admits_all(2.0, 5.0), None);
        assert_eq!(Threshold::Exactly(3.0).admits_all(2.0, 5.0), None);
    }

    #[test]
    fn claim_is_not_confirmed_by_its_own_print_and_all_parts_must_hold() {
        let good = || Evidence::computed("delay", 7.0, SAID);
        let claim = Claim::new("six", "6 times").judged(Kind::Published, good(), "");
        assert_eq!((claim.by(Kind::Published), claim.verdict()), (Verdict::Holds, Verdict::NotRun));
        let claim = claim.judged(Kind::Model, good(), "").not_run(Kind::Live, "not run: no root");
        assert_eq!((claim.by(Kind::Live), claim.verdict()), (Verdict::NotRun, Verdict::Holds));
        let claim = claim.judged(Kind::Live, live(5.0, 7.0, 9), "");
        assert_eq!((claim.by(Kind::Live), claim.verdict()), (Verdict::NotRun, Verdict::Holds));
        let claim = claim.judged(Kind::Published, Evidence::computed("delay", 5.0, SAID), "");
        assert_eq!((claim.by(Kind::Published), claim.verdict()), (Verdict::Fails, Verdict::Fails));
    }
}
