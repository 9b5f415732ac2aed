//! Inventory of a publication: each table, figure and system that it shows, one item each, so that
//! none is left out unnoticed.

use crate::document::Report;
use crate::figure::Plot;
use crate::value::{Cell, Kind};
use serde::{Deserialize, Serialize};

/// A system, table, figure or section of a print.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// As the print names it: `table 1`.
    pub place: String,
    /// The subject, in a few words.
    pub what: String,
    /// Its section in the print.
    pub section: String,
    /// Tables and figures of the report that show it, by their ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<String>,
    /// Origins of the numbers that stand beside the print's when all of it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<Kind>,
    /// A drawing or a list without a result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drawing: bool,
    /// The reason, where it is not reproduced yet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waits: String,
}

/// State of an item's reproduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// With numbers beside the print's.
    Reproduced,
    /// Reproducible, but this run has no number of it.
    NotRun,
    /// Not reproduced yet.
    Waits,
    /// A drawing: no result to reproduce.
    Drawing,
}

impl State {
    /// The name in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::NotRun => "not run",
            Self::Waits => "waits",
            Self::Drawing => "drawing",
        }
    }
}

impl Item {
    /// Its state if all of `kinds` have numbers.
    fn state(&self, kinds: &[Kind]) -> State {
        match () {
            () if !self.waits.is_empty() => State::Waits,
            () if self.drawing => State::Drawing,
            () if kinds.is_empty() => State::NotRun,
            () => State::Reproduced,
        }
    }

    /// Its state where everything runs.
    pub fn at_best(&self) -> State {
        self.state(&self.with)
    }

    /// Its state in a report, with the origins that have numbers there.
    pub fn found(&self, report: &Report) -> (State, Vec<Kind>) {
        let there = self.shown.iter().flat_map(|id| report.origins(id)).collect::<Vec<_>>();
        let kinds: Vec<Kind> = self.with.iter().copied().filter(|k| there.contains(k)).collect();
        (self.state(&kinds), kinds)
    }

    /// Origins in words: `model, live`.
    pub fn names(kinds: &[Kind]) -> String {
        kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
    }
}

impl Report {
    /// Origins of the numbers that tables and figures of this id have.
    pub fn origins(&self, id: &str) -> Vec<Kind> {
        let has_result = |cell: &Cell| !matches!(cell, Cell::Missing { .. });
        let columns = self.tables().filter(|table| table.id == id).flat_map(|t| t.columns());
        let columns = columns.filter(|column| column.cells().iter().any(has_result));
        let drawn = self.figures().filter(|figure| figure.id == id);
        let drawn = drawn.flat_map(|figure| match &figure.plot {
            Plot::Xy(xy) => {
                let drawn = xy.series.iter().filter(|series| !series.points().is_empty());
                drawn.map(|series| series.kind()).collect()
            }
            Plot::Bars(bars) => vec![bars.kind()],
        });
        columns.map(|column| column.kind()).chain(drawn).collect()
    }
}
