//! The document: what was asked, what came out, and how to get it again.

use crate::figure::{Figure, Plot};
use crate::inventory::Item;
use crate::judgement::Claim;
use crate::table::{Column, Table};
use crate::value::{Cell, Kind};
use serde::{Deserialize, Serialize};

/// Prefix of the words that give the reason of a missing number.
pub(crate) const NOT_RUN: &str = "not run: ";

/// A report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The title: the subject of the report.
    pub title: String,
    /// The question that the report answers.
    pub question: String,
    /// The answer in a sentence.
    pub answer: String,
    /// Device that was measured or computed: a Linux bridge, a network in the laboratory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// Program that measured or computed, with its version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub program: String,
    /// The machine it ran on.
    pub machine: String,
    /// The command that repeats the run, as typed in a shell.
    pub command: String,
    /// Date of the run, as the caller writes dates; this crate has no clock.
    pub date: String,
    /// True if the run was stopped before its end: the report is incomplete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// The figure that shows the answer, by its id: a page begins with it, and folds the rest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub lead: String,
    /// More of where and how it was made: commit, load, memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub circumstances: Vec<Circumstance>,
    /// Citations of the publication that is reproduced, and of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub citations: Vec<String>,
    /// Inventory of the publication: each item, and the place where this report shows it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inventory: Vec<Item>,
    /// From top to bottom.
    pub sections: Vec<Section>,
}

/// A circumstance of a run by its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Circumstance {
    /// Its name, a word or two: `load`, `memory`.
    pub name: String,
    /// Its value in words.
    pub value: String,
}

/// A part with a heading.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// From top to bottom.
    pub blocks: Vec<Block>,
}

/// A part of a section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Block {
    /// A paragraph. Words between backticks are typed or printed by a program.
    Text(String),
    /// Several short statements.
    List(Vec<String>),
    /// Input or output of a program, line by line.
    Code(String),
    /// A table.
    Table(Table),
    /// A figure.
    Figure(Figure),
    /// Claims of a publication, each with its verdict.
    Claims(Vec<Claim>),
    /// Contradictions within a publication.
    Errata(Vec<Erratum>),
}

/// A contradiction within a publication.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Erratum {
    /// The place in the print.
    pub place: String,
    /// The error found there.
    pub text: String,
    /// The proof of the error.
    pub proof: Proof,
}

/// Proof of an erratum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// Arithmetic with the printed numbers, step by step; it comes out as the erratum says.
    Shown(Vec<String>),
    /// The arithmetic was done and does not bear it out.
    Refuted(Vec<String>),
    /// Arithmetic cannot show it; why, or what would.
    Open(String),
}

impl Report {
    /// An empty report on a question.
    pub fn new(title: impl Into<String>, question: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            question: question.into(),
            answer: String::new(),
            device: String::new(),
            program: String::new(),
            machine: String::new(),
            command: String::new(),
            date: String::new(),
            partial: false,
            lead: String::new(),
            circumstances: Vec::new(),
            citations: Vec::new(),
            inventory: Vec::new(),
            sections: Vec::new(),
        }
    }

    /// Provenance of its numbers, name and value; unknown facts are left out.
    pub fn facts(&self) -> impl Iterator<Item = (&str, &str)> {
        let partial = if self.partial { "yes: stopped before the end" } else { "" };
        let all: [(&str, &str); 6] = [
            ("partial", partial),
            ("device", &self.device),
            ("program", &self.program),
            ("machine", &self.machine),
            ("command", &self.command),
            ("date", &self.date),
        ];
        let more = self.circumstances.iter();
        let more = more.map(|fact| (fact.name.as_str(), fact.value.as_str()));
        all.into_iter().chain(more).filter(|(_, value)| !value.is_empty())
    }

    /// Reasons why parts of the report were not run, each reason once.
    pub fn reasons(&self) -> Vec<String> {
        let cells = self.tables().flat_map(|table| table.columns()).flat_map(Column::cells);
        let judgements = self.claims().flat_map(|claim| &claim.judgements);
        let unrun =
            judgements.filter(|judgement| judgement.is_unrun()).map(|judgement| judgement.words());
        let found = cells.filter_map(Cell::reason).filter_map(|words| words.strip_prefix(NOT_RUN));
        let mut reasons: Vec<String> = Vec::new();
        for reason in found.map(str::to_owned).chain(unrun) {
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        reasons
    }

    /// The figure that shows the answer.
    pub fn leading(&self) -> Option<&Figure> {
        self.figures().find(|figure| figure.id == self.lead)
    }

    /// Every block, in order.
    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.sections.iter().flat_map(|section| &section.blocks)
    }

    /// Every table, in order.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.blocks().filter_map(|block| match block {
            Block::Table(table) => Some(table),
            _ => None,
        })
    }

    /// Every figure, in order.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.blocks().filter_map(|block| match block {
            Block::Figure(figure) => Some(figure),
            _ => None,
        })
    }

    /// Every claim, in order.
    pub fn claims(&self) -> impl Iterator<Item = &Claim> {
        let claims = self.blocks().filter_map(|block| match block {
            Block::Claims(claims) => Some(claims),
            _ => None,
        });
        claims.flatten()
    }

    /// The origins of its results, each once.
    pub fn kinds(&self) -> Vec<Kind> {
        let columns = self.tables().flat_map(|table| table.columns()).map(|c| c.kind());
        let drawn = self.figures().flat_map(|figure| match &figure.plot {
            Plot::Xy(xy) => xy.series.iter().map(|series| series.kind()).collect(),
            Plot::Bars(bars) => vec![bars.kind()],
        });
        let all: Vec<Kind> = columns.chain(drawn).collect();
        let order =
            [Kind::Published, Kind::Asserted, Kind::Fitted, Kind::Model, Kind::Live, Kind::Derived];
        order.into_iter().filter(|kind| all.contains(kind)).collect()
    }
}

impl Section {
    /// A section without content.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), blocks: Vec::new() }
    }

    /// One more paragraph.
    pub fn text(self, text: impl Into<String>) -> Self {
        self.block(Block::Text(text.into()))
    }

    /// One more list.
    pub fn list(self, items: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.block(Block::List(items.into_iter().map(Into::into).collect()))
    }

    /// One more table.
    pub fn table(self, table: Table) -> Self {
        self.block(Block::Table(table))
    }

    /// One more figure.
    pub fn figure(self, figure: Figure) -> Self {
        self.block(Block::Figure(figure))
    }

    /// One more block.
    pub fn block(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }
}
