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
use ferrule_lab::profile::Fit;

/// Devices from one tester port to the other in the provider's network.
const DEVICES: f64 = 5.0;

/// Fitted parameters, and the errors of the fits.
#[derive(Clone, Copy, Debug)]
pub struct Fitted {
    /// Delay of a switch or router that occupies nothing.
    pub switch_us: f64,
    /// One MACsec operation.
    pub macsec_us: f64,
    /// The IPsec gateway.
    pub gateway: Gateway,
    /// Of switch, MACsec switch, gateway.
    pub fits: [Fit; 3],
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
    let (centre, switch) = centre_and_fit(&plain.delay_us);
    // Each hop seals once and opens once, and sends 32 octets more.
    let octets_us = study.overhead.macsec_overhead * 8.0 / rate;
    let mut fitted = Fitted {
        switch_us: (centre - alone) / DEVICES,
        macsec_us: (study.hop_delay.macsec_extra_us_per_hop - octets_us) / 2.0,
        gateway: Gateway { poll_us: 0.0, budget: 1, work_us: 0.0 },
        fits: [switch, Fit::default(), Fit::default()],
    };
    fitted.fits[1] = predicted(study, &Profiles::of(&fitted), at, hops);
    let profiles = Profiles { gateway: Profiles::lines().gateway, ..Profiles::of(&fitted) };
    let target = target(study);
    let alone = at(System::Ipsec, &profiles, target.delays[0].0);
    // The slowest line carries the longest frames.
    let longest = alone.octets.iter().copied().max().unwrap_or(FRAME) + LINE_OVERHEAD;
    let spacing_us = (longest * 8) as f64 / rate;
    let found = gateway::fit(&target, &Path { fixed_us: alone.mean_us, spacing_us });
    fitted.gateway = found.gateway;
    fitted.fits[2] = recorded(target.points(), found.error_percent, found.leave_one_out_percent);
    fitted
}

/// A record, to a hundredth of a per cent.
fn recorded(points: usize, error: f64, left_out: f64) -> Fit {
    let round = |percent: f64| (percent * 100.0).round() / 100.0;
    Fit { points, error_percent: round(error), leave_one_out_percent: round(left_out) }
}

fn error(model: f64, value: f64) -> f64 {
    100.0 * (model / value - 1.0).abs()
}

/// One value for several: halfway between the ends.
fn centre_and_fit(values: &[f64]) -> (f64, Fit) {
    let centre = |values: &[f64]| {
        let ends = values.iter().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(*v), h.max(*v)));
        (ends.0 + ends.1) / 2.0
    };
    let worst = values.iter().map(|v| error(centre(values), *v)).fold(0.0, f64::max);
    let left_out = (0..values.len()).map(|out| {
        let mut rest = values.to_vec();
        let value = rest.remove(out);
        error(centre(&rest), value)
    });
    let left_out = left_out.fold(0.0, f64::max);
    (centre(values), recorded(values.len(), worst, left_out))
}

/// The MACsec switch has one parameter, from figure 2; table 3 was left out and is
/// predicted, so its largest error is the error of what was left out.
fn predicted(study: &Study, profiles: &Profiles, at: At<'_>, hops: Hops<'_>) -> Fit {
    let printed = study.load_of("macsec");
    let table = printed.offered_mbps.iter().zip(&printed.delay_us);
    let table =
        table.map(|(load, delay)| error(at(System::Macsec, profiles, *load).mean_us, *delay));
    let left_out = table.fold(0.0, f64::max);
    let each = hops(profiles).into_iter();
    let extra =
        slope(&each.map(|h| (h.switches as f64, h.macsec_us - h.plain_us)).collect::<Vec<_>>());
    let hop = error(extra, study.hop_delay.macsec_extra_us_per_hop);
    recorded(1 + printed.delay_us.len(), hop.max(left_out), left_out)
}
