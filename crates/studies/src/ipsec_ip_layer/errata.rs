//! The errata, each shown by arithmetic with the printed numbers.

use super::cost::{Operations, SEGMENT, ah_octets, esp_octets, frames};
use super::published::Study;
use crate::words::{self, Proof};
use ferrule_report::Erratum;

type Steps = (Vec<String>, bool);

const PROOFS: [Proof<Study>; 5] = [
    ("section 6.3", "64-bit blocks", blocks),
    ("sections 6.3 and 7", "tenfold", tenfold),
    ("section 6.3", "one full segment", crossover),
    ("section 6.2", "Telnet", telnet),
    ("section 7", "advice", advice),
];

/// Bits a second of the study's line.
const LINE: f64 = 1e7;
/// Clocks a second of its processor.
const CLOCK: f64 = 5.5e8;
/// Clocks for each octet of DES on such a processor: assumed, and not the study's.
const DES_CLOCKS: f64 = 50.0;

/// Every erratum with its proof, in the file's order.
pub fn show(study: &Study) -> Vec<Erratum> {
    let open = "not a matter of arithmetic: AH leaves text readable, ESP without a hash leaves it \
                open to changes; RFC 8221 sections 5 and 6 forbid both suites";
    words::shown(&study.erratum, &PROOFS, study, open)
}

fn within(a: f64, b: f64, percent: f64) -> bool {
    (a / b - 1.0).abs() * 100.0 <= percent
}

fn blocks(study: &Study) -> Steps {
    let model = &study.cost_model;
    // 16 rounds of 8 S-boxes, and a round's halves are of 32 bits: two make a block.
    let (rounds, boxes, half) = (16.0, 8.0, 32.0);
    let lookups = rounds * boxes;
    let steps = vec![
        format!("{rounds} rounds × {boxes} S-boxes = {lookups} look-ups for a block, as printed"),
        format!("two halves of {half} bits = {} bits", 2.0 * half),
        "64 bits of key less a parity bit in each octet = 56".into(),
    ];
    (steps, lookups == model.des_lookups_per_64_bits && 2.0 * half == 64.0)
}

fn tenfold(study: &Study) -> Steps {
    let octets = 4.0 * 1024.0 * 1024.0;
    let line = octets * 8.0 / LINE;
    let counts = Operations::of(&study.cost_model);
    let operations = counts.transfer(octets as usize, Operations::esp);
    let (least, likely) = (operations / CLOCK, octets * DES_CLOCKS / CLOCK);
    let (plain, ah, esp) = (frames(1500), frames(ah_octets(SEGMENT)), frames(esp_octets(SEGMENT)));
    let steps = vec![
        format!(
            "4 MB at 10 Mbit/s: {line:.1} s on the line; ten times that is {:.0} s",
            10.0 * line
        ),
        format!(
            "DES: {:.0} million operations, {least:.2} s at one for each clock of 550 MHz; \
             {likely:.2} s at {DES_CLOCKS} clocks for each octet",
            operations / 1e6
        ),
        format!(
            "a full segment of {SEGMENT} octets: {plain} frame; with AH {} octets, {ah} frames; \
             with ESP {} octets, {esp} frames",
            ah_octets(SEGMENT),
            esp_octets(SEGMENT)
        ),
        "BYPASS has no cipher and is 3 to 4 times slower than no IPsec".into(),
    ];
    (steps, likely < 0.05 * 10.0 * line && (plain, ah, esp) == (1, 2, 2))
}

fn crossover(study: &Study) -> Steps {
    let counts = Operations::of(&study.cost_model);
    let mut steps = Vec::new();
    for data in [1, 64, 512, SEGMENT] {
        steps.push(format!(
            "a packet of {data} octets of data: HMAC-MD5 {:.0} operations, DES {:.0}",
            counts.ah(data),
            counts.esp(data)
        ));
    }
    let at = counts.crossover();
    steps.push(format!(
        "DES costs more from {} octets on",
        at.map_or("no".into(), |at| at.to_string())
    ));
    let ratio = |segments: usize| {
        let octets = segments * SEGMENT;
        counts.transfer(octets, Operations::esp) / counts.transfer(octets, Operations::ah)
    };
    steps.push(format!(
        "1, 10 and 40 full segments: DES over MD5 {:.2}, {:.2}, {:.2}",
        ratio(1),
        ratio(10),
        ratio(40)
    ));
    let flat = within(ratio(40), ratio(1), 0.001);
    (steps, flat && at.is_some_and(|at| at < SEGMENT))
}

fn telnet(study: &Study) -> Steps {
    let mut steps = Vec::new();
    for application in &study.setup.applications {
        steps.push(format!("{application}: {} lines of figures", study.of(application).count()));
    }
    let announced = study.setup.applications.iter().any(|name| name == "Telnet");
    (steps, announced && study.of("Telnet").count() == 0)
}

fn advice(study: &Study) -> Steps {
    let (mut steps, mut falls) = (Vec::new(), true);
    for application in ["FTP", "SMTP"] {
        let lines: Vec<_> = study.of(application).collect();
        let (Some(first), Some(last)) = (lines.first(), lines.last()) else {
            return (steps, false);
        };
        for (name, small, large) in [("AH", first.1, last.1), ("ESP", first.2, last.2)] {
            steps.push(format!(
                "{application}, {name}: {small} times at {}, {large} times at {}: {:.2} of it",
                first.0.transfer(),
                last.0.transfer(),
                large / small
            ));
            falls &= large < small;
        }
    }
    (steps, falls)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_report::Proof;

    #[test]
    fn errata_are_shown_by_arithmetic_but_for_the_comparison() {
        let study = Study::read();
        for erratum in show(&study) {
            match &erratum.proof {
                Proof::Shown(steps) => assert!(!steps.is_empty()),
                Proof::Open(_) => assert_eq!(erratum.place, "the comparison"),
                Proof::Refuted(steps) => panic!("{}: {steps:#?}", erratum.place),
            }
        }
    }
}
