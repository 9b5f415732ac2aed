//! Rules of a standard, clause by clause, and what was seen of each.

use crate::{interrupt, machine};
use ferrule_report::{Column, Report, Section, Table};
use std::process::ExitCode;

/// Answer to a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Seen to hold; by what.
    Holds(String),
    /// Seen to be broken; how.
    Broken(String),
    /// Nothing showed it either way.
    NotSeen(String),
}

/// A check and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub clause: &'static str,
    pub rule: &'static str,
    pub found: Found,
}

impl Check {
    pub const fn new(clause: &'static str, rule: &'static str, found: Found) -> Self {
        Self { clause, rule, found }
    }

    pub const fn is_broken(&self) -> bool {
        matches!(self.found, Found::Broken(_))
    }
}

/// Things that were counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub good: u32,
    pub bad: u32,
}

impl Tally {
    pub fn note(&mut self, good: bool) {
        *(if good { &mut self.good } else { &mut self.bad }) += 1;
    }

    /// The answer in things of a name; `with` says which.
    pub fn found(self, name: &str, with: &str) -> Found {
        let all = self.good + self.bad;
        let things = format!("{name}{}{with}", if all == 1 { "" } else { "s" });
        match (self.good, self.bad) {
            (0, 0) => Found::NotSeen(format!("no {name}{with}")),
            (_, 0) => Found::Holds(format!("{all} {things}")),
            (_, bad) => Found::Broken(format!("{bad} of {all} {things}")),
        }
    }
}

/// Subject of a report.
pub struct Subject<'a> {
    pub title: &'a str,
    pub question: &'a str,
    /// The heading above the clauses.
    pub standard: &'a str,
    /// The device, and the answer where it was not heard.
    pub device: Result<String, &'a str>,
    /// More to say in the answer.
    pub also: &'a str,
}

impl Subject<'_> {
    /// The report.
    pub fn report(self, checks: &[Check]) -> Report {
        let count = |is: fn(&Found) -> bool| checks.iter().filter(|check| is(&check.found)).count();
        let holds = count(|found| matches!(found, Found::Holds(_)));
        let broken = count(|found| matches!(found, Found::Broken(_)));
        let mut report = Report::new(self.title, self.question);
        report.answer = match &self.device {
            Err(nobody) => (*nobody).into(),
            Ok(device) => format!(
                "{device}: of {} rules {holds} were seen to hold, {broken} to be broken; of {} \
                 nothing was seen.{}",
                checks.len(),
                checks.len() - holds - broken,
                self.also
            ),
        };
        report.device = self.device.unwrap_or_else(|_| "nobody".into());
        report.program = machine::program();
        report.machine = machine::describe();
        report.command = machine::command();
        report.date = machine::date();
        report.partial = interrupt::wanted();
        let words = |found: &Found| match found {
            Found::Holds(words) => ("holds", words.clone()),
            Found::Broken(words) => ("broken", words.clone()),
            Found::NotSeen(words) => ("not seen", words.clone()),
        };
        let table = Table::new("clauses", "What was seen")
            .column(Column::words("clause", checks.iter().map(|check| check.clause)))
            .column(Column::words("rule", checks.iter().map(|check| check.rule)))
            .column(Column::words("seen", checks.iter().map(|check| words(&check.found).0)))
            .column(Column::words("by", checks.iter().map(|check| words(&check.found).1)));
        report.sections.push(Section::new(self.standard).table(table));
        report
    }
}

/// Exit status: a rule was broken, or the device does not take part at all.
pub fn code(checks: &[Check], takes_part: bool) -> ExitCode {
    let broken = checks.iter().any(Check::is_broken);
    match (interrupt::wanted(), broken || !takes_part) {
        (true, _) => ExitCode::from(interrupt::PARTIAL),
        (false, true) => ExitCode::FAILURE,
        (false, false) => ExitCode::SUCCESS,
    }
}
