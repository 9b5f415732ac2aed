//! Results of the sets, as a table.

use crate::sidecar::Set;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// Direction of a frame through the data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the plaintext to the capture's bytes: seal, push.
    Make,
    /// From the capture's bytes to the plaintext: open, swap, pop.
    Take,
}

/// Frames, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub passed: usize,
    pub failed: usize,
    pub not_yet: usize,
}

/// One set.
#[derive(Debug, Default)]
pub struct Row {
    pub name: String,
    pub make: Count,
    pub take: Count,
    /// Reasons that frames are not yet supported, with the number of frames.
    pub reasons: BTreeMap<String, usize>,
    /// Comparisons less strict than byte by byte, with their number.
    pub allowances: BTreeMap<&'static str, usize>,
    pub failures: Vec<String>,
    frames: usize,
}

impl Row {
    pub fn new(set: &Set) -> Self {
        Self { name: set.label.clone(), frames: set.frame_count(), ..Self::default() }
    }

    /// A file that is no sidecar, or a capture that cannot be read.
    pub fn unreadable(folder: &Path, path: &Path, why: &str) -> Self {
        let name = path.strip_prefix(folder).unwrap_or(path).display().to_string();
        let count = Count { failed: 1, ..Count::default() };
        Self { name, take: count, failures: vec![why.into()], ..Self::default() }
    }

    fn count(&mut self, way: Way) -> &mut Count {
        match way {
            Way::Make => &mut self.make,
            Way::Take => &mut self.take,
        }
    }

    /// One frame, one way.
    pub fn record(&mut self, way: Way, frame: usize, result: Result<(), String>) {
        match result {
            Ok(()) => self.count(way).passed += 1,
            Err(why) => {
                self.count(way).failed += 1;
                self.failures.push(format!("{}: frame {frame}, {way:?}: {why}", self.name));
            }
        }
    }

    /// One frame, one way, that needs what Ferrule does not have yet.
    pub fn frame_not_yet(&mut self, way: Way, why: &str) {
        self.count(way).not_yet += 1;
        *self.reasons.entry(why.into()).or_default() += 1;
    }

    /// Something that is compared less strictly than octet by octet.
    pub fn allow(&mut self, what: &'static str) {
        *self.allowances.entry(what).or_default() += 1;
    }

    /// A sidecar that does not say what its topic needs.
    pub fn broken(&mut self, why: &str) {
        self.take.failed += 1;
        self.failures.push(format!("{}: {why}", self.name));
    }

    /// The whole set.
    pub fn not_yet(&mut self, why: &str) {
        for way in [Way::Make, Way::Take] {
            self.count(way).not_yet += self.frames;
        }
        *self.reasons.entry(why.into()).or_default() += 2 * self.frames;
    }

    pub fn failed(&self) -> bool {
        self.make.failed + self.take.failed > 0
    }

    /// Nothing failed, and both ways were tried.
    pub fn passed(&self) -> bool {
        !self.failed() && self.make.passed > 0 && self.take.passed > 0
    }
}

/// Results of every set.
#[derive(Debug, Default)]
pub struct Report {
    pub rows: Vec<Row>,
}

impl Report {
    pub fn failed(&self) -> usize {
        self.rows.iter().filter(|r| r.failed()).count()
    }

    pub fn passed(&self) -> usize {
        self.rows.iter().filter(|r| r.passed()).count()
    }

    /// The first failures of each set, to read.
    pub fn failures(&self) -> String {
        let mut lines = Vec::new();
        for row in self.rows.iter().filter(|r| r.failed()) {
            lines.extend(row.failures.iter().take(5).cloned());
        }
        lines.join("\n")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = "frames: passed/failed/not yet";
        writeln!(f, "\nvectors: {title:<36} {:>12} {:>12}", "make", "take")?;
        for row in &self.rows {
            let cell = |c: Count| format!("{}/{}/{}", c.passed, c.failed, c.not_yet);
            let verdict = match () {
                () if row.failed() => "FAILED",
                () if row.passed() => "passed",
                () => "not yet",
            };
            let (make, take) = (cell(row.make), cell(row.take));
            write!(f, "vectors  {:<27} {verdict:<8} {make:>12} {take:>12}", row.name)?;
            for (i, (why, n)) in row.reasons.iter().enumerate() {
                write!(f, "{}{why} ({n})", if i == 0 { "  not yet: " } else { ", " })?;
            }
            for (i, (what, n)) in row.allowances.iter().enumerate() {
                write!(f, "{}{what} ({n})", if i == 0 { "  apart from: " } else { ", " })?;
            }
            writeln!(f)?;
        }
        let (all, passed, failed) = (self.rows.len(), self.passed(), self.failed());
        let not_yet = all - passed - failed;
        write!(f, "vectors: {passed} sets passed, {failed} failed, {not_yet} not yet supported")
    }
}
