//! What the studies' files have in common.

use serde::Deserialize;

/// What a study says.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Claim {
    pub id: String,
    pub text: String,
}

/// Where it contradicts itself.
#[derive(Debug, Deserialize)]
pub struct Erratum {
    /// The place.
    #[serde(rename = "where")]
    pub place: String,
    /// What is wrong.
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

/// All errata in a file's order, each with its proof; `open` says why one has none.
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
