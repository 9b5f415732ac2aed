//! Errors of a topology, in its own file and in those beside it.

use super::section::Problems;
use ferrule_node::ConfigError;
use std::fmt;

/// Reads the files that a topology names.
pub trait Files {
    /// The text of a file, named as in the topology. The error is one sentence.
    fn read(&mut self, name: &str) -> Result<String, String>;
}

/// No files beside the topology.
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&mut self, name: &str) -> Result<String, String> {
        Err(format!("`{name}` cannot be read: this topology stands alone"))
    }
}

impl<F: FnMut(&str) -> Result<String, String>> Files for F {
    fn read(&mut self, name: &str) -> Result<String, String> {
        self(name)
    }
}

/// A topology that cannot be used: everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyError {
    /// By file, the topology's first; at least one.
    pub files: Vec<ConfigError>,
}

impl TopologyError {
    pub(super) fn of(
        file: &str,
        text: &str,
        problems: Problems,
        mut more: Vec<ConfigError>,
    ) -> Self {
        let Problems(mut problems) = problems;
        problems.sort_by_key(|p| p.span.start);
        problems.dedup();
        if !problems.is_empty() {
            more.insert(0, ConfigError { file: file.into(), text: text.into(), problems });
        }
        Self { files: more }
    }
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, file) in self.files.iter().enumerate() {
            let newline = if at == 0 { "" } else { "\n" };
            write!(f, "{newline}{file}")?;
        }
        Ok(())
    }
}

impl std::error::Error for TopologyError {}
