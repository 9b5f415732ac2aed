//! The study as printed: `studies/ipsec-ip-layer.toml`.

use crate::words::{Claim, Erratum};
use serde::Deserialize;

/// The file.
const TEXT: &str = include_str!("../../../../studies/ipsec-ip-layer.toml");

/// The study's figures as printed, and the errata in them.
#[derive(Debug, Deserialize)]
pub struct Study {
    /// Its title.
    pub title: String,
    /// Authors of the study.
    pub authors: Vec<String>,
    /// Year of publication.
    pub year: u32,
    /// The hosts and the link of the measurements.
    pub setup: Setup,
    /// Section 4.3.
    pub cost_model: CostModel,
    /// Against no IPsec.
    pub slowdown: Vec<Slowdown>,
    /// The study's claims.
    pub claim: Vec<Claim>,
    /// Contradictions within the print.
    pub erratum: Vec<Erratum>,
    /// The part of its design that was measured.
    pub measured_mode: MeasuredMode,
}

/// The hosts and the link of the measurements.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Setup {
    pub host: String,
    pub link: String,
    pub applications: Vec<String>,
    pub compared: Vec<String>,
}

/// Operations of a hash and of a cipher.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct CostModel {
    pub des_over_md5: f64,
    pub md5_lookups_per_512_bits: f64,
    pub md5_xors_per_512_bits: f64,
    pub des_lookups_per_64_bits: f64,
    pub des_xors_per_64_bits: f64,
}

/// Response times relative to a transfer without IPsec.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Slowdown {
    pub application: String,
    /// Octets of the transfer, or a word for them.
    pub bytes: Option<Size>,
    /// Octets that a transfer had more than.
    pub bytes_above: Option<f64>,
    pub ah: Option<f64>,
    pub esp: Option<f64>,
    /// The slowdown by a policy that lets packets pass, in words.
    pub bypass: Option<String>,
}

/// Octets, or a word for them.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Size {
    /// As a number.
    Octets(f64),
    /// As a word.
    Word(String),
}

/// The part of its design that was measured.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct MeasuredMode {
    pub mode: String,
    pub processing: String,
    pub placements: Vec<String>,
}

impl Slowdown {
    /// The transfer in words.
    pub fn transfer(&self) -> String {
        match (&self.bytes, self.bytes_above) {
            (Some(Size::Octets(octets)), _) => format!("{octets} bytes"),
            (Some(Size::Word(word)), _) => word.clone(),
            (None, Some(octets)) => format!("above {octets} bytes"),
            (None, None) => "all".into(),
        }
    }

    /// Octets, where a number was printed; of those above it, the least.
    pub fn octets(&self) -> Option<f64> {
        match &self.bytes {
            Some(Size::Octets(octets)) => Some(*octets),
            Some(Size::Word(_)) => None,
            None => self.bytes_above,
        }
    }
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

    /// Printed slowdowns of an application that have figures for both AH and ESP.
    pub fn of(&self, application: &str) -> impl Iterator<Item = (&Slowdown, f64, f64)> {
        let lines = self.slowdown.iter().filter(move |line| line.application == application);
        lines.filter_map(|line| Some((line, line.ah?, line.esp?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn study_file_has_what_the_program_asks_for() {
        let study = Study::read();
        assert_eq!((study.claim.len(), study.erratum.len(), study.slowdown.len()), (8, 6, 6));
        assert_eq!(study.of("FTP").map(|(_, ah, esp)| (ah, esp)).last(), Some((12.7, 17.6)));
        assert_eq!((study.of("SMTP").count(), study.of("Telnet").count()), (2, 0));
        assert_eq!(study.measured_mode.placements.len(), 5);
    }
}
