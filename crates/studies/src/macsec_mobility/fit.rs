//! How the profiles of the study's devices were fitted to what it printed: the
//! files under `profiles/` are this module's result, and a test makes them again.
//!
//! ```text
//!   table 1   five delays, all alike   ─▶ latency of a switch         1 parameter
//!   figure 2  extra delay of a hop     ─▶ one MACsec operation        1 parameter
//!   table 2   four delays, full at 120 ─▶ gateway: period, budget,    3 parameters
//!                                         work (see `gateway`)
//! ```

use super::bench::{FRAME, LINE_OVERHEAD};
use super::gateway::{self, Path, Target};
use super::model::{At, Hops, slope};
use super::network::System;
use super::profiles::{Gateway, Profiles};
use super::published::Study;
use crate::residuals::{self, Residual};
use ferrule_lab::profile::Fit;
use ferrule_report::Measure;

/// Devices from one tester port to the other in the provider's network.
const DEVICES: f64 = 5.0;

/// Fitted parameters, and the errors of the fits.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// Delay of a switch or router that occupies nothing.
    pub switch_us: f64,
    /// One MACsec operation.
    pub macsec_us: f64,
    /// The IPsec gateway.
    pub gateway: Gateway,
    /// The path around two of them.
    pub path: Path,
    /// Of switch, MACsec switch, gateway.
    pub fits: [Fit; 3],
    /// Every value that one of them was fitted to, or that was left out, in the same order.
    pub residuals: [Vec<Residual>; 3],
    /// The alternative that fits table 3 better: operations that take no time.
    pub timeless: Timeless,
}

/// Largest errors of a MACsec switch whose operations take no time, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timeless {
    /// Of a delay of table 3.
    pub table_3: f64,
    /// Of the extra delay of a hop, figure 2.
    pub figure_2: f64,
}

/// Published values that the gateway is fitted to.
pub fn target(study: &Study) -> Target {
    let ipsec = study.load_of("ipsec");
    let delays = ipsec.offered_mbps.iter().copied().zip(ipsec.delay_us.iter().copied());
    let full_mbps = ipsec.saturates_at_mbps.unwrap_or(f64::NAN);
    Target { delays: delays.collect(), full_mbps }
}

/// Fits all three. `at` is the laboratory's answer to a load, `hops` to figure 2.
pub fn fit(study: &Study, at: At<'_>, hops: Hops<'_>) -> Fitted {
    let rate = study.setup.link_rate_mbps;
    let plain = study.load_of("plain");
    // All loads alike: what the lines do not explain, evenly among five devices.
    let alone = at(System::Plain, &Profiles::lines(), plain.offered_mbps[0]).mean_us;
    let switch = switch(study);
    // Each hop seals once and opens once, and sends 32 octets more.
    let octets_us = study.overhead.macsec_overhead * 8.0 / rate;
    let mut fitted = Fitted {
        switch_us: (centre(&plain.delay_us) - alone) / DEVICES,
        macsec_us: (study.hop_delay.macsec_extra_us_per_hop - octets_us) / 2.0,
        gateway: Gateway { poll_us: 0.0, budget: 1, work_us: 0.0 },
        path: Path { fixed_us: 0.0, spacing_us: 0.0 },
        fits: [recorded(&switch), Fit::default(), Fit::default()],
        residuals: [switch, Vec::new(), Vec::new()],
        timeless: Timeless::default(),
    };
    let macsec = macsec(study, &Profiles::of(&fitted), at, hops);
    let timeless = Profiles::of(&Fitted { macsec_us: 0.0, ..fitted.clone() });
    let [figure_2, table_3 @ ..] = &self::macsec(study, &timeless, at, hops)[..] else {
        unreachable!("figure 2 comes first");
    };
    fitted.timeless = Timeless {
        figure_2: figure_2.fitted_off().map_or(f64::NAN, f64::abs),
        table_3: residuals::worst(table_3, Residual::predicted_off),
    };
    fitted.fits[1] = recorded(&macsec);
    fitted.residuals[1] = macsec;
    let profiles = Profiles { gateway: Profiles::lines().gateway, ..Profiles::of(&fitted) };
    let target = target(study);
    let alone = at(System::Ipsec, &profiles, target.delays[0].0);
    // The slowest line carries the longest frames.
    let longest = alone.octets.iter().copied().max().unwrap_or(FRAME) + LINE_OVERHEAD;
    let spacing_us = (longest * 8) as f64 / rate;
    fitted.path = Path { fixed_us: alone.mean_us, spacing_us };
    let found = gateway::fit(&target, &fitted.path);
    fitted.gateway = found.gateway;
    let each = target.values().zip(&found.values);
    let each = each.map(|((of, unit, printed), [fitted, predicted])| {
        residual(of, unit, printed, (Ok(*fitted), Ok(*predicted)))
    });
    fitted.residuals[2] = each.collect();
    fitted.fits[2] = recorded(&fitted.residuals[2]);
    fitted
}

/// A record, to a hundredth of a per cent: the largest error of any value, and of one left out.
fn recorded(all: &[Residual]) -> Fit {
    let round = |percent: f64| (percent * 100.0).round() / 100.0;
    let left_out = residuals::worst(all, Residual::predicted_off);
    // A value that is in no fit counts by its prediction.
    let error = |r: &Residual| r.fitted_off().or(r.predicted_off());
    let error = all.iter().filter_map(error).map(f64::abs).fold(0.0, f64::max);
    Fit { points: all.len(), error_percent: round(error), leave_one_out_percent: round(left_out) }
}

type Found = Result<f64, &'static str>;

fn residual(
    of: String,
    unit: &'static str,
    printed: f64,
    (fitted, predicted): (Found, Found),
) -> Residual {
    let printed = Measure::new(printed);
    Residual { of, unit, printed, asserted: false, fitted, predicted }
}

/// One value for several: halfway between the ends.
fn centre(values: &[f64]) -> f64 {
    let ends = values.iter().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
    f64::midpoint(ends.0, ends.1)
}

/// The switch: one delay for table 1, whatever the load.
fn switch(study: &Study) -> Vec<Residual> {
    let plain = study.load_of("plain");
    let each = plain.offered_mbps.iter().zip(&plain.delay_us).enumerate();
    let each = each.map(|(at, (load, delay))| {
        let mut rest = plain.delay_us.clone();
        rest.remove(at);
        let found = (Ok(centre(&plain.delay_us)), Ok(centre(&rest)));
        residual(format!("table 1, {load} Mbit/s"), "µs", *delay, found)
    });
    each.collect()
}

/// The MACsec switch has one parameter, from figure 2; table 3 was left out and is predicted.
fn macsec(study: &Study, profiles: &Profiles, at: At<'_>, hops: Hops<'_>) -> Vec<Residual> {
    let each = hops(profiles).into_iter();
    let extra =
        slope(&each.map(|h| (h.switches as f64, h.macsec_us - h.plain_us)).collect::<Vec<_>>());
    let printed = study.hop_delay.macsec_extra_us_per_hop;
    let found = (Ok(extra), Err("nothing else to fit to"));
    let hop = residual("figure 2, extra delay of a hop".into(), "µs", printed, found);
    let printed = study.load_of("macsec");
    let table = printed.offered_mbps.iter().zip(&printed.delay_us).map(|(load, delay)| {
        let found = at(System::Macsec, profiles, *load).mean_us;
        let found = (Err("left out"), Ok(found));
        residual(format!("table 3, {load} Mbit/s"), "µs", *delay, found)
    });
    [hop].into_iter().chain(table).collect()
}
