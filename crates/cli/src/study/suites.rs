//! Costs of suites on this machine by size, from memory to memory: one packet at a time, the suites
//! in turn, so that other load of the machine affects them alike.

use ferrule_base::{Instant, Secret};
use ferrule_crypto::{Ad, Engine, Job, Jobs, KeyId, KeySpec, Op, Software, Span, Suite, Verdict};
use ferrule_studies::ipsec_ip_layer::cases::Protection;
use ferrule_studies::ipsec_ip_layer::live::{COST_OCTETS, Cost, middle};
use std::time::{Duration, Instant as Clock};

/// Protections that have a cost.
const SUITES: [Protection; 4] =
    [Protection::AhMd5, Protection::AhSha1, Protection::EspDes, Protection::AesGcm];
/// Rounds of each.
const ROUNDS: usize = 15;
const ROUNDS_QUICK: usize = 5;
/// A round takes at least so long, and at least one packet.
const ROUND: Duration = Duration::from_micros(400);

/// SPI and sequence number in front of the text; IV and block of the ciphers that have
/// them in it; the ICV behind it.
const AD: usize = 8;
const IV: usize = 8;
const BLOCK: usize = 8;
const ICV: usize = 16;

type Packet = Vec<u8>;

/// A packet that is sealed again and again.
struct Stand {
    protection: Protection,
    octets: usize,
    number: u64,
    jobs: Jobs<Packet>,
    times: Vec<f64>,
}

/// Measures; or why not.
pub fn run(quick: bool, say: &mut dyn FnMut(&str)) -> Result<Vec<Cost>, String> {
    say("live: what hash and cipher cost by size");
    let mut engine = Software::default();
    let mut stands = Vec::new();
    for protection in SUITES {
        let Some(suite) = protection.suite() else { continue };
        let secret = |len| Secret::new(vec![7; len]);
        let spec = KeySpec::new(suite, secret(suite.key_len()), secret(suite.mac_key_len()));
        let key = Engine::<Packet>::install(&mut engine, &spec).map_err(|e| e.to_string())?;
        stands.extend(COST_OCTETS.map(|octets| Stand::new(protection, suite, key, octets)));
    }
    let rounds = if quick { ROUNDS_QUICK } else { ROUNDS };
    // The first round wakes all of it up.
    for round in 0..=rounds {
        for stand in &mut stands {
            let ns = stand.round(&mut engine)?;
            if round > 0 {
                stand.times.push(ns);
            }
        }
    }
    let each = stands.into_iter().filter_map(|stand| {
        let found = middle(stand.times)?;
        let between = (found.least, found.greatest);
        let (protection, octets) = (stand.protection, stand.octets);
        Some(Cost { protection, octets, ns: found.median, between })
    });
    Ok(each.collect())
}

impl Stand {
    fn new(protection: Protection, suite: Suite, key: KeyId, octets: usize) -> Self {
        // What DES encrypts are whole blocks behind an IV that is a part of the text.
        let text = match suite {
            Suite::DesCbc(_) => IV + octets.next_multiple_of(BLOCK),
            _ => octets,
        };
        let job = Job {
            buf: vec![1; AD + text + ICV],
            key,
            ticket: 0,
            number: 0,
            nonce: [0; 12],
            op: Op::Seal,
            verdict: Verdict::Pending,
            ad: Ad::Span(Span::new(0, AD)),
            text: Span::new(AD, text),
        };
        let jobs = [job].into_iter().collect();
        Self { protection, octets, number: 0, jobs, times: Vec::new() }
    }

    /// Seals for a while: nanoseconds for each packet.
    fn round(&mut self, engine: &mut Software) -> Result<f64, String> {
        let (begun, mut packets) = (Clock::now(), 0_u32);
        loop {
            // A few at a time, so that the clock is not what is measured.
            for _ in 0..8 {
                self.number += 1;
                for job in &mut self.jobs {
                    job.nonce[4..].copy_from_slice(&self.number.to_be_bytes());
                    job.verdict = Verdict::Pending;
                }
                engine.submit(Instant::ZERO, &mut self.jobs);
                packets += 1;
            }
            if begun.elapsed() >= ROUND {
                break;
            }
        }
        let ns = begun.elapsed().as_secs_f64() * 1e9 / f64::from(packets);
        match self.jobs.iter().all(|job| job.verdict == Verdict::Done) {
            true => Ok(ns),
            false => Err(format!("not run: {} was not sealed", self.protection.name())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn study_measures_every_suite_at_every_size_and_larger_ones_take_longer() {
        let costs = run(true, &mut |_| {}).expect("software has the suites");
        assert_eq!(costs.len(), SUITES.len() * COST_OCTETS.len());
        for protection in SUITES {
            let of = |octets| {
                let found = costs.iter().find(|c| c.protection == protection && c.octets == octets);
                found.expect("measured").ns
            };
            assert!(of(COST_OCTETS[0]) > 0.0 && of(65_408) > of(64), "{protection:?}");
        }
    }
}
