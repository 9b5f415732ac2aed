//! Faults of commands: the reason, its place in a file, and the remedy.

use ferrule_node::config::{Config, ConfigError, Problem};
use ferrule_ports::{OpenError, OpenFault};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write};
use std::ops::Range;

/// Origin of a fault, which decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The configuration or the command line.
    Configuration,
    /// The machine: an interface, a permission, a folder.
    Environment,
}

/// One thing that is wrong, for machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The file that it stands in, if it stands in one.
    pub file: Option<String>,
    /// Line and column there, counted from 1.
    pub line: Option<usize>,
    /// See `line`.
    pub column: Option<usize>,
    /// The fault, in one sentence.
    pub what: String,
    /// The remedy.
    pub remedy: String,
}

impl Finding {
    /// From lines for people: what is wrong, and below it what helps.
    pub fn told(text: &str) -> Self {
        let mut lines = text.lines().map(|line| line.trim_start_matches([' ', '=']).trim());
        let what = lines.next().unwrap_or_default();
        let what = what.strip_prefix("error: ").unwrap_or(what).to_owned();
        let remedy = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
        Self { what, remedy, ..Self::default() }
    }

    /// Problems of a configuration or topology, in the order of the file, a hundred at
    /// most, and how many more there are.
    pub fn all_of(error: &ConfigError) -> Vec<Self> {
        let shown = error.problems.iter().take(PROBLEMS_MAX);
        let mut all: Vec<_> = shown.map(|problem| Self::in_file(error, problem)).collect();
        all.extend(more(error).map(|what| Self { what, ..Self::default() }));
        all
    }

    fn in_file(error: &ConfigError, problem: &Problem) -> Self {
        let (line, column) = error.position(problem.span.start);
        Self {
            file: Some(error.file.clone()),
            line: Some(line),
            column: Some(column),
            what: problem.what.clone(),
            remedy: problem.remedy.clone(),
        }
    }
}

/// Reason for which something was not done.
#[derive(Debug)]
pub struct Fault {
    /// Origin of the fault.
    pub blame: Blame,
    text: String,
    findings: Vec<Finding>,
}

impl Fault {
    /// One problem that stands in no file.
    pub fn new(blame: Blame, what: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        let (what, remedy) = (what.to_string(), remedy.to_string());
        let text = format!("error: {what}\n  = {remedy}\n");
        Self { blame, text, findings: vec![Finding { what, remedy, ..Finding::default() }] }
    }

    /// Fault that was found elsewhere, in the words used there.
    pub fn told(blame: Blame, text: String, findings: Vec<Finding>) -> Self {
        let findings = if findings.is_empty() { vec![Finding::told(&text)] } else { findings };
        Self { blame, text, findings }
    }

    /// Something that the machine did not do.
    pub fn environment(what: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self::new(Blame::Environment, what, remedy)
    }

    /// Problems of a configuration, each with its line, a hundred at most.
    pub fn in_file(blame: Blame, error: &ConfigError) -> Self {
        let shown = error.problems.iter().take(PROBLEMS_MAX);
        let mut text = shown.fold(String::new(), |text, p| text + &draw(error, p));
        if let Some(more) = more(error) {
            let _ = writeln!(text, "{more}");
        }
        Self { blame, text, findings: Finding::all_of(error) }
    }

    /// Everything that is wrong, each by itself.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// 2 for a configuration, 3 for the machine.
    pub fn exit_code(&self) -> u8 {
        match self.blame {
            Blame::Configuration => 2,
            Blame::Environment => 3,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}

/// Problems of a file that are shown at most: a fault that repeats itself fills no screen after
/// screen.
const PROBLEMS_MAX: usize = 100;

/// A line about problems that are not shown.
fn more(error: &ConfigError) -> Option<String> {
    let more = error.problems.len().checked_sub(PROBLEMS_MAX).filter(|&more| more > 0)?;
    Some(format!("{}: {more} more problems, not shown", error.file))
}

/// Columns of a source line that are shown at most.
const SHOWN_MAX: usize = 120;

/// A problem with its line:
///
/// ```text
///   gw.toml:12:8: error: there is no tunnel `berlin`
///      |
///   12 | tunnel = "berlin"
///      |          ^^^^^^^^
///      = there are hamburg, bremen
/// ```
fn draw(error: &ConfigError, problem: &Problem) -> String {
    let (line, column) = error.position(problem.span.start);
    let source = error.text.lines().nth(line - 1).unwrap_or_default().replace('\t', " ");
    let shown: String = source.chars().take(SHOWN_MAX).collect();
    // A quoted value begins after the quote; a whole table is shown by its head.
    let before = source.get(..column - 1).map_or(0, |s| s.chars().count());
    let marked = error.text.get(problem.span.clone()).unwrap_or_default();
    let marked = marked.lines().next().unwrap_or_default().chars().count();
    let marked = marked.clamp(1, shown.chars().count().saturating_sub(before).max(1));
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    let mut out = String::new();
    let _ = writeln!(out, "{}:{line}:{column}: error: {}", error.file, problem.what);
    let _ = writeln!(out, "  {margin} |\n  {number} | {shown}");
    let _ = writeln!(out, "  {margin} | {}{}", " ".repeat(before), "^".repeat(marked));
    if !problem.remedy.is_empty() {
        let _ = writeln!(out, "  {margin} = {}", problem.remedy);
    }
    out
}

/// A configuration as it was read, kept to say where things stand in it.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file, as it was named.
    pub file: String,
    /// Its text.
    pub text: String,
}

impl Source {
    /// A fault at the line `key = "value"` of a `[[section]]`, or at the top of
    /// the file if there is no such line.
    pub fn fault(
        &self,
        blame: Blame,
        place: [&str; 3],
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Fault {
        let span = self.find(place).unwrap_or(0..0);
        let problem = Problem { span, what: what.into(), remedy: remedy.into() };
        let (file, text) = (self.file.clone(), self.text.clone());
        Fault::in_file(blame, &ConfigError { file, text, problems: vec![problem] })
    }

    /// A fault about a port of the configuration.
    pub fn port_fault(&self, config: &Config, port: usize, error: &OpenError) -> Fault {
        let port = &config.ports[port];
        let place = match port.driver.device() {
            Some(device) => ["port", "device", device],
            None => ["port", "name", &port.name],
        };
        let what = match &error.source {
            Some(source) => format!("port `{}`: {}: {source}", port.name, error.what),
            None => format!("port `{}`: {}", port.name, error.what),
        };
        let remedy = match error.fault {
            OpenFault::MissingInterface => {
                format!("{} For a TAP say driver = \"tap\".", error.remedy)
            }
            _ => error.remedy.clone(),
        };
        self.fault(Blame::Environment, place, what, remedy)
    }

    /// The first value of a key in a `[section]`.
    pub fn value(&self, section: &str, key: &str) -> Option<&str> {
        let mut within = false;
        for line in self.text.lines().map(str::trim) {
            if line.starts_with('[') {
                within = line.trim_matches(['[', ']', ' ']) == section;
            } else if let (true, Some(value)) = (within, value_of(line, key)) {
                return Some(value);
            }
        }
        None
    }

    /// Where the value of a key stands. Good enough to point at a line: strings
    /// with escapes are not found.
    fn find(&self, [section, key, value]: [&str; 3]) -> Option<Range<usize>> {
        let mut within = String::new();
        let mut start = 0;
        let mut named = None;
        for line in self.text.split_inclusive('\n') {
            let text = line.trim();
            if text.starts_with('[') {
                within = text.trim_matches(['[', ']', ' ']).to_owned();
            } else if within == section && value_of(text, key) == Some(value) {
                let column = line.find(&format!("\"{value}\"")).unwrap_or(0);
                let span = start + column..start + column + value.len() + 2;
                named = named.or(Some(span));
            }
            start += line.len();
        }
        named
    }
}

fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (word, rest) = line.split_once('=')?;
    let value = rest.trim().strip_prefix('"')?.split('"').next()?;
    (word.trim() == key).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_points_at_its_line_and_says_what_helps() {
        let text = "[node]\nname = \"eth0\"\n[[port]]\nname = \"core\"\n\tdevice = \"eth0\" # x\n";
        let source = Source { file: "n.toml".into(), text: text.into() };
        let fault =
            source.fault(Blame::Environment, ["port", "device", "eth0"], "no such", "see there");
        let want = "n.toml:5:11: error: no such\n    |\n  5 |  device = \"eth0\" # x\n    \
                    |           ^^^^^^\n    = see there\n";
        assert_eq!(fault.to_string(), want);
        assert_eq!(fault.exit_code(), 3);
        let nowhere = source.fault(Blame::Configuration, ["port", "device", "x"], "w", "");
        assert!(nowhere.to_string().starts_with("n.toml:1:1: error: w\n"));
        assert_eq!(nowhere.exit_code(), 2);
    }

    #[test]
    fn a_fault_that_repeats_itself_is_shown_a_hundred_times_and_counted() {
        let of = |count: usize| {
            let problem = |n: usize| Problem { span: n..n, what: "w".into(), remedy: "r".into() };
            let (file, text) = ("f".to_owned(), "x\n".repeat(count));
            let problems = (0..count).map(problem).collect();
            Fault::in_file(Blame::Configuration, &ConfigError { file, text, problems })
        };
        let (few, many) = (of(100), of(40_000));
        assert_eq!(few.to_string().matches(": error: w").count(), 100);
        assert_eq!(few.findings().len(), 100);
        assert_eq!(many.to_string().matches(": error: w").count(), 100);
        assert!(many.to_string().ends_with("f: 39900 more problems, not shown\n"));
        assert_eq!(many.findings()[100].what, "f: 39900 more problems, not shown");
    }

    #[test]
    fn a_fault_can_point_anywhere_in_any_file() {
        let text = "ä = \"ö\"\n\n[[x]]";
        for start in 0..text.len() + 3 {
            for end in start..text.len() + 3 {
                let problem = Problem { span: start..end, what: "w".into(), remedy: "r".into() };
                let (file, text) = ("f".to_owned(), text.to_owned());
                let error = ConfigError { file, text, problems: vec![problem] };
                assert!(Fault::in_file(Blame::Configuration, &error).to_string().contains("f:"));
            }
        }
    }
}
