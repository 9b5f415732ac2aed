//! The study as printed: `studies/prebuffered-ctr.toml`.

use crate::words::{Claim, Erratum, Note};
use serde::Deserialize;

/// The file.
const TEXT: &str = include_str!("../../../../studies/prebuffered-ctr.toml");

/// The study's figures as printed, and the errata in them.
#[derive(Debug, Deserialize)]
pub struct Study {
    /// Its title.
    pub title: String,
    /// Section 3.2: the card.
    pub token: Token,
    /// Section 3.2.3: the ring.
    pub buffer: Buffer,
    /// Section 4.1.1.
    pub voip: Voip,
    /// Section 4.1.2, figures 8 to 10.
    pub drain: Drain,
    /// Table 1.
    pub throughput: Vec<Throughput>,
    /// Figure 11.
    pub empty_time: EmptyTime,
    /// The study's claims.
    pub claim: Vec<Claim>,
    /// Hazards of the design, which an implementation should avoid.
    pub hazard: Vec<Note>,
    /// Contradictions within the print.
    pub erratum: Vec<Erratum>,
}

/// The card.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Token {
    pub io_delay_ms_full: f64,
    pub io_delay_ms_small: f64,
    pub blocks_per_exchange: f64,
}

/// The ring's rules, in words.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Buffer {
    pub layout: String,
    pub full_when: String,
    pub empty_when: String,
    pub start_filling_when: String,
    pub sleep_when: String,
    pub dequeue_waits_when: String,
    pub lost_packets: String,
    pub reordered_packets: String,
}

/// One call.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Voip {
    pub packets_per_second: f64,
    pub ip_packet_bytes: usize,
    pub blocks_per_packet: f64,
    pub fill_interval_ms: f64,
    pub blocks_per_second_filled: f64,
    pub blocks_per_second_used: f64,
    pub seconds_served_per_second_of_filling: f64,
    pub jitter_limit_ms: f64,
    pub minimum_buffer_blocks: f64,
    pub minimum_buffer_blocks_printed: f64,
    pub fill_event_every_ms_at_minimum: f64,
    pub plain_packets_per_second: f64,
}

/// Time for which a full buffer lasts.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Drain {
    pub buffer_blocks: f64,
    pub network_blocks_per_second: f64,
    pub served_seconds_without_filling: f64,
    pub filling_starts_s: f64,
    pub empty_after_s: f64,
    pub packet_bytes: usize,
    pub with_delay_filling_starts_s: f64,
    pub with_delay_empty_after_s: f64,
    pub delay_ms: Vec<Delay>,
}

/// Packets of this size and above wait so long; printed without a unit, read as milliseconds.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Delay {
    pub min_bytes: usize,
    pub delay: f64,
}

/// One size of table 1.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Throughput {
    pub packet_bytes: usize,
    pub prebuffered_before_empty_kbps: f64,
    pub prebuffered_after_empty_kbps: f64,
    pub aes_ctr_kbps: f64,
    pub prebuffered_before_empty_pps: f64,
    pub prebuffered_after_empty_pps: f64,
    pub aes_ctr_pps: f64,
}

/// Figure 11; its sizes are printed in MB and taken as MiB.
#[derive(Debug, Deserialize)]
#[allow(missing_docs)]
pub struct EmptyTime {
    pub buffer_mib: Vec<f64>,
    pub empty_after_s: Vec<f64>,
    pub start_mbps: f64,
    pub after_empty_kbps: f64,
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

    /// Table 1 at a size.
    pub fn throughput_of(&self, packet_bytes: usize) -> &Throughput {
        let found = self.throughput.iter().find(|row| row.packet_bytes == packet_bytes);
        found.expect("the study's file has both sizes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn study_file_has_what_the_program_asks_for() {
        let study = Study::read();
        assert_eq!(study.throughput_of(1024).aes_ctr_kbps, 258.0);
        assert_eq!(study.throughput_of(128).aes_ctr_pps, 54.0);
        assert_eq!(study.empty_time.buffer_mib.len(), study.empty_time.empty_after_s.len());
        assert_eq!(study.drain.delay_ms.len(), 4);
        let rising = |pair: &[Delay]| pair[0].min_bytes > pair[1].min_bytes;
        assert!(study.drain.delay_ms.windows(2).all(rising), "the first that fits is the one");
        assert_eq!((study.claim.len(), study.erratum.len(), study.hazard.len()), (8, 5, 5));
    }
}
