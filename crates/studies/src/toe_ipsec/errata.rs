//! The errata, each shown by arithmetic with the printed numbers.

use super::bus::Bus;
use super::network::System;
use super::published::Study;
use crate::words::{self, Proof};
use ferrule_report::Erratum;

type Steps = (Vec<String>, bool);

const PROOFS: [Proof<Study>; 2] =
    [("section V", "5 times", times), ("section IV.3", "pipelined", pipelined)];

/// Every erratum with its proof, in the file's order.
pub fn show(study: &Study) -> Vec<Erratum> {
    let open = "not a matter of arithmetic: the receiving side and TCP are measured above";
    words::shown(&study.erratum, &PROOFS, study, open)
}

fn within(a: f64, b: f64, percent: f64) -> bool {
    (a / b - 1.0).abs() * 100.0 <= percent
}

fn times(study: &Study) -> Steps {
    let share = |system| study.result_of(system).throughput_share;
    let inline = share(System::Inline);
    let (software, look_aside) =
        (inline / share(System::Software), inline / share(System::LookAside));
    let overhead = study.result_of(System::Software).crypto_overhead_percent;
    let steps = vec![
        format!("{inline} / {} = {software:.2} times software, not 8", share(System::Software)),
        format!(
            "{inline} / {} = {look_aside:.2} times look-aside, not 2",
            share(System::LookAside)
        ),
        format!(
            "8 is the cited {overhead} %: 1 + {:.2} = {:.1}; 2 is bus and line one after the other: \
             1 + {:.2}",
            overhead / 100.0,
            1.0 + overhead / 100.0,
            Bus::of(&study.bus_model).time_us(1.0) / Bus::line_us(1.0)
        ),
    ];
    (steps, within(software, 5.0, 0.1) && within(look_aside, 1.25, 0.1))
}

fn pipelined(study: &Study) -> Steps {
    let bus = Bus::of(&study.bus_model);
    let (mut steps, mut ratios, mut carried) = (Vec::new(), Vec::new(), Vec::new());
    for bytes in [64.0, 512.0, 1051.0, 1460.0] {
        let (bus_us, line_us) = (bus.time_us(bytes), Bus::line_us(bytes));
        let share = Bus::line_us(bytes) / bus_us.max(line_us);
        ratios.push(bus_us / line_us);
        carried.push(share);
        steps.push(format!(
            "{bytes} bytes: bus {bus_us:.2} µs, line {line_us:.2} µs, ratio {:.2}; one after the \
             other {:.2} µs, pipelined a packet every {:.2} µs: {:.0} % of the line",
            bus_us / line_us,
            bus_us + line_us,
            bus_us.max(line_us),
            100.0 * share
        ));
    }
    let flat = ratios.windows(2).all(|pair| within(pair[0], pair[1], 0.001));
    steps.push("the ratio is the same at every size: it cannot fall behind as packets grow".into());
    (steps, flat && carried.iter().all(|share| *share == 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_report::Proof;

    #[test]
    fn errata_are_shown_by_arithmetic_but_for_what_was_not_measured() {
        let study = Study::read();
        for erratum in show(&study) {
            match &erratum.proof {
                Proof::Shown(steps) => assert!(!steps.is_empty()),
                Proof::Open(_) => assert_eq!(erratum.place, "section IV"),
                Proof::Refuted(steps) => panic!("{steps:#?}"),
            }
        }
    }
}
