//! Types that the studies' files share.

use ferrule_report::{Condition, Evidence, Measure, Threshold};
use ferrule_tester::Summary;
use serde::Deserialize;

/// A claim of a study, as its file states it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Claim {
    pub id: String,
    pub text: String,
    /// Its place in the study.
    pub section: String,
    /// Remark to consider when the claim is judged.
    #[serde(default)]
    pub note: String,
    /// Thresholds that the numbers must meet for the claim to hold.
    #[serde(default)]
    pub threshold: Vec<Asked>,
}

/// A threshold in the study's words.
#[derive(Debug, Deserialize)]
pub struct Asked {
    /// The part of the claim that it belongs to; empty if the claim has one threshold.
    #[serde(default)]
    of: String,
    said: String,
    #[serde(flatten)]
    threshold: Threshold,
}

impl Claim {
    /// For the report, before anybody looked.
    pub fn open(&self) -> ferrule_report::Claim {
        ferrule_report::Claim::new(&self.id, &self.text).section(&self.section)
    }

    /// A threshold that the file names, and the words for it.
    pub fn asked(&self, of: &str) -> (Threshold, String) {
        let found = self.threshold.iter().find(|asked| asked.of == of);
        let found = found.unwrap_or_else(|| panic!("{} has no threshold of {of:?}", self.id));
        (found.threshold, format!("{}; {}", found.said, self.section))
    }

    /// A threshold that stands elsewhere in the file.
    pub fn as_printed(&self, threshold: Threshold) -> (Threshold, String) {
        (threshold, self.section.clone())
    }
}

/// Reason for which nothing was measured, for a judgement.
pub fn why_not<T>(live: &Result<T, String>) -> String {
    live.as_ref().err().cloned().unwrap_or_else(|| "not measured on this machine".into())
}

/// The median of repeats with an interval that holds it with 95 %, whatever their
/// distribution; of fewer than six from the least to the greatest.
pub fn repeated(values: &[f64]) -> (Measure, usize) {
    let Some(found) = Summary::of(values) else { return (Measure::new(f64::NAN), 0) };
    let (low, high) = found.median_95.unwrap_or((found.min, found.max));
    (Measure::within(found.median, low, high), found.count)
}

/// From the least to the greatest of values that belong together.
pub fn ends(values: &[f64]) -> Measure {
    let Some(found) = Summary::of(values) else { return Measure::new(f64::NAN) };
    Measure::within(found.median, found.min, found.max)
}

/// Shares that arrived, by those of a baseline that was asked in turn: ratios in percent,
/// and what must be so for them to say anything.
pub fn ratios(
    metric: impl Into<String>,
    (shares, baseline): (&[f64], &[f64]),
    asked: (Threshold, String),
) -> Evidence {
    let each = shares.iter().zip(baseline).map(|(share, base)| 100.0 * share / base);
    let (ratio, repeats) = repeated(&each.collect::<Vec<_>>());
    let carried = Condition::carried(100.0 * repeated(baseline).0.value);
    let conditions = [carried, Condition::ratio(ratio.low.unwrap_or(ratio.value))];
    Evidence::repeated(metric, (ratio, repeats), asked).unit("%").on(conditions)
}

/// A contradiction within a study.
#[derive(Debug, Deserialize)]
pub struct Erratum {
    /// The place.
    #[serde(rename = "where")]
    pub place: String,
    /// The contradiction.
    pub text: String,
}

/// A remark on a study.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Note {
    pub text: String,
}

/// An erratum by its place and a word of it, and the arithmetic that shows it: steps,
/// and whether they come out as the erratum says.
pub type Proof<T> = (&'static str, &'static str, fn(&T) -> (Vec<String>, bool));

/// Every erratum in a file's order, each with its proof; `open` is the reason of one without.
pub fn shown<T>(
    errata: &[Erratum],
    proofs: &[Proof<T>],
    with: &T,
    open: &str,
) -> Vec<ferrule_report::Erratum> {
    let each = errata.iter().map(|erratum| {
        let is_meant =
            |(place, word, _): &&Proof<T>| erratum.place == *place && erratum.text.contains(word);
        let proof = match proofs.iter().find(is_meant).map(|(_, _, show)| show(with)) {
            Some((steps, true)) => ferrule_report::Proof::Shown(steps),
            Some((steps, false)) => ferrule_report::Proof::Refuted(steps),
            None => ferrule_report::Proof::Open(open.into()),
        };
        ferrule_report::Erratum { place: erratum.place.clone(), text: erratum.text.clone(), proof }
    });
    each.collect()
}
