//! The study as printed: `studies/toe-ipsec.toml`.

use super::network::System;
use crate::words::{Claim, Erratum, Note};
use serde::Deserialize;

/// The file.
const TEXT: &str = include_str!("../../../../studies/toe-ipsec.toml");

/// The study's figures as printed, and the errata in them.
#[derive(Debug, Deserialize)]
pub struct Study {
    /// Its title.
    pub title: String,
    /// Authors of the study.
    pub authors: Vec<String>,
    /// The offload engine, and the traffic of the measurements.
    pub setup: Setup,
    /// Figure 3.
    pub look_aside_path: LookAsidePath,
    /// Figure 4.
    pub inline_path: InlinePath,
    /// Section IV.3.
    pub bus_model: BusModel,
    /// Table 2.
    pub result: Vec<Outcome>,
    /// The study's claims.
    pub claim: Vec<Claim>,
    /// Contradictions within the print.
    pub erratum: Vec<Erratum>,
    /// Expectations of today's machines, which are no claims of the study.
    pub expectation: Vec<Note>,
}

/// The offload engine, and the traffic of the measurements.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Setup {
    pub offload_engine: String,
    pub traffic: String,
}

/// Figure 3: the steps of a packet.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct LookAsidePath {
    pub steps: Vec<String>,
}

/// Figure 4: where IPsec is.
#[derive(Debug, Deserialize)]
pub struct InlinePath {
    /// In words.
    #[serde(rename = "where")]
    pub place: String,
}

impl LookAsidePath {
    /// Steps that cross the bus.
    pub fn crossings(&self) -> usize {
        self.steps.iter().filter(|step| step.contains("over the bus")).count()
    }
}

/// Section IV.3.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct BusModel {
    pub packet_bytes: f64,
    pub bus_bits: f64,
    pub bus_mhz: f64,
    pub crossings: f64,
    pub clocks: f64,
}

/// One system of table 2.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Outcome {
    pub system: String,
    pub throughput_share: f64,
    pub crypto_overhead_percent: f64,
    pub packet_processing_overhead_percent: f64,
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

    /// A system's line of table 2.
    pub fn result_of(&self, system: System) -> &Outcome {
        let found = self.result.iter().find(|line| line.system == system.key());
        found.expect("the study's file has the three systems")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn study_file_has_what_the_program_asks_for() {
        let study = Study::read();
        let shares = System::ALL.map(|system| study.result_of(system).throughput_share);
        assert_eq!(shares, [0.2, 0.8, 1.0]);
        assert_eq!(study.look_aside_path.crossings() as f64, study.bus_model.crossings);
        assert_eq!((study.claim.len(), study.erratum.len(), study.expectation.len()), (3, 3, 1));
    }
}
