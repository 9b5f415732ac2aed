//! The study as printed: `studies/acl-mpls.toml`.

use crate::words::{Claim, Erratum};
use serde::Deserialize;

/// The file.
const TEXT: &str = include_str!("../../../../studies/acl-mpls.toml");

/// The size that every table prints out of line.
pub const ODD_ONE: usize = 256;

/// The study's figures as printed, and the errata in them.
#[derive(Debug, Deserialize)]
pub struct Study {
    /// Its title.
    pub title: String,
    /// Authors of the study.
    pub authors: Vec<String>,
    /// The equipment and traffic of the measurements.
    pub setup: Setup,
    /// The tables, system by system.
    pub result: Vec<Outcome>,
    /// The study's claims.
    pub claim: Vec<Claim>,
    /// Contradictions within the print.
    pub erratum: Vec<Erratum>,
}

/// The equipment and traffic of the measurements.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Setup {
    pub device: String,
    pub tester: String,
    pub streams: u64,
    pub frame_bytes: Vec<usize>,
    pub acl_entries: usize,
    pub line_rate_mbps: f64,
}

/// Columns of a table, by size of frame.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Outcome {
    pub system: String,
    pub pps: Vec<f64>,
    pub mbps: Vec<f64>,
    pub util: Vec<f64>,
}

impl Study {
    /// The file, which is a part of the program.
    pub fn read() -> Self {
        Self::parse(TEXT)
    }

    /// Another file: tests plant errors.
    pub fn parse(text: &str) -> Self {
        toml::from_str(text).expect("the study's file is as its test has it")
    }

    /// A system's columns.
    pub fn of(&self, system: &str) -> &Outcome {
        let found = self.result.iter().find(|result| result.system == system);
        found.expect("the study's file has the seven systems")
    }

    /// The place of a size.
    pub fn at(&self, octets: usize) -> usize {
        let at = self.setup.frame_bytes.iter().position(|&bytes| bytes == octets);
        at.expect("one of the study's sizes")
    }
}

#[cfg(test)]
mod tests {
    use super::super::nodes::System;
    use super::*;

    #[test]
    fn study_file_has_what_the_program_asks_for() {
        let study = Study::read();
        let sizes = study.setup.frame_bytes.len();
        for system in System::ALL {
            let printed = study.of(system.key());
            let counts = [&printed.pps, &printed.mbps, &printed.util].map(Vec::len);
            assert_eq!(counts, [sizes; 3], "{}", system.key());
            // Frames a second and Mbit/s say the same, but for one that is an erratum.
            for ((pps, mbps), bytes) in
                printed.pps.iter().zip(&printed.mbps).zip(&study.setup.frame_bytes)
            {
                let calculated = pps * (8 * bytes) as f64 / 1e6;
                assert!((calculated / mbps - 1.0).abs() < 0.002, "{}: {bytes}", system.key());
            }
        }
        assert_eq!(study.result.len(), System::ALL.len());
        assert_eq!((study.claim.len(), study.erratum.len()), (4, 10));
    }
}
