//! Faults of a configuration: the fault, its place and the remedy.

use std::fmt;
use std::ops::Range;

/// One fault of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where, in octets of the file.
    pub span: Range<usize>,
    /// The fault, one sentence.
    pub what: String,
    /// The remedy.
    pub remedy: String,
}

impl Problem {
    /// Syntax error of TOML, as the parser reports it.
    pub fn syntax(error: &toml::de::Error) -> Self {
        let (what, remedy) = match error.message().split_once(", expected ") {
            Some((what, expected)) => (what, format!("expected {expected}")),
            None => {
                let remedy = "see `ferrule init --help` for configurations to start from";
                (error.message(), remedy.into())
            }
        };
        Self { span: error.span().unwrap_or(0..0), what: what.to_owned(), remedy }
    }
}

/// A configuration that cannot be used: everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, as it was named.
    pub file: String,
    /// Its text.
    pub text: String,
    /// At least one problem, in the order of the file.
    pub problems: Vec<Problem>,
}

impl ConfigError {
    /// Line and column of an offset, counted from 1.
    pub fn position(&self, offset: usize) -> (usize, usize) {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|&&b| b != b'\n').count() + 1;
        (line, column)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            let (line, column) = self.position(problem.span.start);
            let newline = if i == 0 { "" } else { "\n" };
            write!(f, "{newline}{}:{line}:{column}: {}", self.file, problem.what)?;
            if !problem.remedy.is_empty() {
                write!(f, "\n  {}", problem.remedy)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// Collects problems, so that a person sees all of them at once.
#[derive(Default)]
pub(super) struct Problems(pub Vec<Problem>);

impl Problems {
    pub fn add(&mut self, span: Range<usize>, what: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Problem { span, what: what.into(), remedy: remedy.into() });
    }
}
