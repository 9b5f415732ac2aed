//! The study as printed: `studies/macsec-mobility.toml`.

use crate::words::{Claim, Erratum};
use serde::Deserialize;

/// The file.
const TEXT: &str = include_str!("../../../../studies/macsec-mobility.toml");

/// The study's figures as printed, and the errata in them.
#[derive(Debug, Deserialize)]
pub struct Study {
    /// Its title.
    pub title: String,
    /// Authors of the study.
    pub authors: Vec<String>,
    /// Year of publication.
    pub year: u16,
    /// The network.
    pub setup: Setup,
    /// Section 3.2.
    pub frame: Frame,
    /// Figures 4, 5, 7.
    pub overhead: Overhead,
    /// Figure 2.
    pub hop_delay: HopDelay,
    /// Tables 1 to 3.
    pub load: Vec<Load>,
    /// Tables 5 to 7.
    pub handoff: Handoff,
    /// The study's claims.
    pub claim: Vec<Claim>,
    /// Contradictions within the print.
    pub erratum: Vec<Erratum>,
}

/// The network.
#[derive(Debug, Deserialize)]
pub struct Setup {
    /// Rate of every link.
    pub link_rate_mbps: f64,
}

/// The frame that every overhead figure uses.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Frame {
    pub total_bytes: f64,
    pub ethernet: f64,
    pub vlan_tag: f64,
    pub ipv4: f64,
    pub udp: f64,
    pub payload: f64,
}

/// Bytes on the wire between PE and P.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Overhead {
    pub plain_on_wire: f64,
    pub ipsec_on_wire: f64,
    pub ipsec_overhead: f64,
    pub macsec_on_wire: f64,
    pub macsec_overhead: f64,
}

/// Figure 2.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct HopDelay {
    pub macsec_extra_us_per_hop: f64,
}

/// One of tables 1 to 3.
#[derive(Debug, Deserialize)]
pub struct Load {
    /// `plain`, `ipsec` or `macsec`.
    pub system: String,
    /// Offered.
    pub offered_mbps: Vec<f64>,
    /// Delay.
    pub delay_us: Vec<f64>,
    /// Loss.
    pub loss_percent: Vec<f64>,
    /// Load at which the delay grows without bound.
    pub saturates_at_mbps: Option<f64>,
}

/// Tables 5 to 7.
#[derive(Debug, Deserialize)]
pub struct Handoff {
    /// One table each.
    pub result: Vec<HandoffResult>,
}

/// One of tables 5 to 7.
#[derive(Debug, Deserialize)]
pub struct HandoffResult {
    /// The system under test.
    pub system: String,
    /// Frames per second.
    pub pps: Vec<f64>,
    /// Frames lost, five runs for each rate.
    pub frames_lost: Vec<Vec<f64>>,
    /// The last column.
    pub mean_ms: Vec<f64>,
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

    /// One of tables 1 to 3.
    pub fn load_of(&self, system: &str) -> &Load {
        let found = self.load.iter().find(|load| load.system == system);
        found.expect("the study's file has the three tables")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn study_file_has_what_the_program_asks_for() {
        let study = Study::read();
        assert_eq!(study.load_of("plain").delay_us.len(), 5);
        assert_eq!(study.load_of("macsec").delay_us.len(), 5);
        let ipsec = study.load_of("ipsec");
        assert_eq!((ipsec.delay_us.len(), ipsec.saturates_at_mbps), (4, Some(120.0)));
        assert!(study.load.iter().all(|load| load.loss_percent.iter().all(|l| *l == 0.0)));
        assert_eq!(study.handoff.result.len(), 3);
        let frame = &study.frame;
        let parts = frame.ethernet + frame.vlan_tag + frame.ipv4 + frame.udp + frame.payload;
        assert_eq!(parts, frame.total_bytes);
    }
}
