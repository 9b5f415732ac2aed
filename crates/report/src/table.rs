//! Tables: columns of equal length, each of one origin.

use crate::value::{Cell, Kind, Measure, Origin};
use serde::{Deserialize, Serialize};

/// One column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    head: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    unit: String,
    kind: Kind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decimals: Option<u8>,
    cells: Vec<Cell>,
}

impl Column {
    fn new(head: impl Into<String>, unit: impl Into<String>, kind: Kind, cells: Vec<Cell>) -> Self {
        Self { head: head.into(), unit: unit.into(), kind, decimals: None, cells }
    }

    /// A column of words: the subjects of the rows.
    pub fn words<T: Into<String>>(
        head: impl Into<String>,
        words: impl IntoIterator<Item = T>,
    ) -> Self {
        let cells = words.into_iter().map(Cell::text).collect();
        Self::new(head, "", Kind::Key, cells)
    }

    /// A column of settings, such as the offered load.
    pub fn settings(
        head: impl Into<String>,
        unit: impl Into<String>,
        values: impl IntoIterator<Item = f64>,
    ) -> Self {
        let cells = values.into_iter().map(|value| Cell::number(Measure::new(value))).collect();
        Self::new(head, unit, Kind::Key, cells)
    }

    /// Results of one origin, all there.
    pub fn numbers<K: Origin>(
        head: impl Into<String>,
        unit: impl Into<String>,
        values: impl IntoIterator<Item = K>,
    ) -> Self {
        Self::results(head, unit, values.into_iter().map(Ok::<K, &str>))
    }

    /// Results of one origin; where there is none, the reason.
    pub fn results<K: Origin, W: Into<String>>(
        head: impl Into<String>,
        unit: impl Into<String>,
        values: impl IntoIterator<Item = Result<K, W>>,
    ) -> Self {
        let cells = values.into_iter().map(|value| match value {
            Ok(value) => Cell::number(value.measure()),
            Err(why) => Cell::missing(why),
        });
        Self::new(head, unit, K::KIND, cells.collect())
    }

    /// Results in words (intact, changed), all of one origin.
    pub fn findings<K: Origin>(
        head: impl Into<String>,
        words: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self::new(head, "", K::KIND, words.into_iter().map(Cell::text).collect())
    }

    /// A column with the deviation of one column from another, in percent of the latter.
    pub fn deviation(head: impl Into<String>, of: &Self, from: &Self) -> Self {
        let cells = of.cells.iter().zip(&from.cells).map(|(of, from)| {
            match (of.measure(), from.measure()) {
                (Some(of), Some(from)) if from.value != 0.0 => {
                    Cell::number(Measure::new(100.0 * (of.value / from.value - 1.0)))
                }
                (Some(of), Some(_)) if of.value == 0.0 => Cell::number(Measure::new(0.0)),
                _ => Cell::missing("–"),
            }
        });
        let cells = cells.collect();
        Self::new(head, "%", Kind::Derived, cells).decimals(1)
    }

    /// Digits after the point; without it each number has what it needs.
    pub fn decimals(mut self, decimals: u8) -> Self {
        self.decimals = Some(decimals.min(9));
        self
    }

    /// The heading.
    pub fn head(&self) -> &str {
        &self.head
    }

    /// The unit of all its numbers.
    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// Origin of its numbers.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// From top to bottom.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The cells hold numbers, which stand to the right.
    pub fn is_numeric(&self) -> bool {
        let words = |cell: &Cell| matches!(cell, Cell::Text { .. });
        !self.cells.iter().any(words) && !self.cells.is_empty()
    }

    /// The reason why it has no result at all, if all its cells have the same.
    pub fn without(&self) -> Option<&str> {
        let first = self.cells.first()?.reason()?;
        self.cells.iter().all(|cell| cell.reason() == Some(first)).then_some(first)
    }

    /// A cell as words; one that is not there is empty.
    pub fn show(&self, row: usize) -> String {
        match self.cells.get(row) {
            Some(Cell::Number(measure)) => self.show_measure(*measure),
            Some(Cell::Text { text }) => text.clone(),
            Some(Cell::Missing { missing }) => missing.clone(),
            None => String::new(),
        }
    }

    fn show_measure(&self, measure: Measure) -> String {
        let show = |value| match self.decimals {
            Some(decimals) => fixed(value, decimals.into()),
            None => crate::scale::shown(value),
        };
        let text = show(measure.value);
        match (measure.low, measure.high) {
            (Some(low), Some(high)) => format!("{text} ({}–{})", show(low), show(high)),
            _ => text,
        }
    }
}

/// With so many digits after the point, and no minus before nothing.
fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let nothing = text.trim_start_matches('-').chars().all(|c| matches!(c, '0' | '.'));
    if nothing { text.trim_start_matches('-').to_owned() } else { text }
}

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Names its file: lower-case words with hyphens.
    pub id: String,
    /// The title: the subject of the table.
    pub title: String,
    /// Remark that a reader needs to understand the table.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    columns: Vec<Column>,
}

impl Table {
    /// A table without columns.
    pub fn new(id: impl Into<String>, title: impl Into<String>) -> Self {
        Self { id: id.into(), title: title.into(), note: String::new(), columns: Vec::new() }
    }

    /// One more column to the right.
    pub fn column(mut self, column: Column) -> Self {
        self.columns.push(column);
        self
    }

    /// Sets the remark that a reader needs to understand the table.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// From left to right.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Rows of the longest column.
    pub fn rows(&self) -> usize {
        self.columns.iter().map(|column| column.cells.len()).max().unwrap_or(0)
    }
}
