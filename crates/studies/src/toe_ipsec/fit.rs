//! How two of the devices were fitted: one cost each, so that table 2's share of the highest
//! sending speed arrives.
//!
//! ```text
//!   software     time of an octet in the processor     20 %  (left out: 760 % overhead, cited)
//!   look-aside   time of a crossing beside its clocks  80 %  (left out: at most 100 %, estimated)
//! ```
//!
//! The overheads of the same table were measured by nobody. Each stands for a share, too, and so
//! a fit to the overhead alone says what the share would be.

use super::bench::{Way, datagrams};
use super::model::{FULL, Model, OCTETS};
use super::network::System;
use super::published::Study;
use crate::options::Seed;
use crate::residuals::Residual;
use ferrule_lab::Profile;
use ferrule_report::Measure;

/// Frames of each trial.
const FRAMES: u64 = 800;
/// Halvings of the interval of costs.
const HALVINGS: usize = 16;
/// Cost that no system has, in nanoseconds.
const COST_MAX: f64 = 1e4;

/// The systems that were fitted.
pub const FITTED: [System; 2] = [System::Software, System::LookAside];

/// Device of a system whose free cost is so high, in nanoseconds.
fn device(system: System, cost: f64) -> Profile {
    let mut device = system.device();
    match system {
        System::LookAside => device.look_aside.bus_latency_ns = cost,
        _ => (device.sealed.octet_ns, device.opened.octet_ns) = (cost, cost),
    }
    device
}

/// Share of the highest sending speed that arrives if the free cost is so high.
fn share(system: System, cost: f64) -> f64 {
    datagrams(system, device(system, cost), Way::Out, (OCTETS, FULL), (FRAMES, Seed::OWN)).share
}

/// The cost with which this share arrives: the higher it is, the less does.
pub fn cost_for(system: System, asked: f64) -> f64 {
    let (mut low, mut high) = (1.0_f64, COST_MAX);
    for _ in 0..HALVINGS {
        let middle = (low * high).sqrt();
        if share(system, middle) > asked { low = middle } else { high = middle }
    }
    (low * high).sqrt()
}

/// Share that arrives if everything takes this much longer, in percent; and the other way round.
fn share_of(overhead_percent: f64) -> f64 {
    1.0 / (1.0 + overhead_percent / 100.0)
}

fn overhead_of(share: f64) -> f64 {
    100.0 * (1.0 / share - 1.0)
}

/// Software's share by a cost that is fitted to the cited overhead alone.
pub fn by_overhead(study: &Study) -> f64 {
    let asked = share_of(study.result_of(System::Software).crypto_overhead_percent);
    share(System::Software, cost_for(System::Software, asked))
}

/// Error of the one cost that misses software's share and its overhead by the same, in percent:
/// the best that can be had of both.
pub fn both_percent(study: &Study) -> f64 {
    let line = study.result_of(System::Software);
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..40 {
        let error = f64::midpoint(low, high);
        let overhead = overhead_of(line.throughput_share * (1.0 - error));
        // Less arrives than is printed, and the overhead is still too low.
        match overhead < line.crypto_overhead_percent * (1.0 - error) {
            true => low = error,
            false => high = error,
        }
    }
    100.0 * low
}

/// Table 2's values that the devices were fitted to, and those that were left out.
pub fn residuals(study: &Study, model: &Model) -> Vec<Residual> {
    let of = |system: System| {
        let (line, found) = (study.result_of(system), model.share(system, Way::Out));
        let least = |percent: f64| Measure::within(percent, 0.0, percent);
        let (what, overhead, predicted) = match system {
            System::Software => {
                let cited = Measure::new(line.crypto_overhead_percent);
                ("crypto overhead", cited, Ok(100.0 * model.by_overhead))
            }
            // At most so much: that says of no cost how high it is.
            _ => {
                let most = least(line.packet_processing_overhead_percent);
                ("processing overhead, at most", most, Err("any from 50 to 100"))
            }
        };
        let share = Residual {
            of: format!("table 2, {}: throughput", system.key()),
            unit: "%",
            printed: Measure::new(100.0 * line.throughput_share),
            asserted: false,
            fitted: Ok(100.0 * found),
            predicted,
        };
        let overhead = Residual {
            of: format!("table 2, {}: {what}", system.key()),
            unit: "%",
            printed: overhead,
            asserted: true,
            fitted: Err("left out"),
            predicted: Ok(overhead_of(found)),
        };
        [share, overhead]
    };
    FITTED.into_iter().flat_map(of).collect()
}
