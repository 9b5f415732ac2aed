//! Limits of the study's devices: three of frames a second by where the list is, for IP and
//! MPLS together, and one of bits a second over IP.
//!
//! Each is the middle of the printed rates that it binds, so that the largest error is the
//! least: four values for 49 points.

use super::nodes::{Core, List, System};
use super::published::{ODD_ONE, Study};
use ferrule_lab::Profile;
use ferrule_lab::profile::{Cap, Fit, Source};

/// Source of the profiles' numbers.
const ORIGIN: &str =
    "Kim, Park, \"A Study for Effect of Access-Control List to MPLS GE Performance\"";

/// A printed rate: a system's for frames of so many octets.
pub type Rate = (System, usize);

/// Index of the limit that a rate is fitted by: of frames by where the list is, then bits of IP.
pub fn limit_of((system, octets): Rate) -> Option<usize> {
    let small: &[usize] = match system.list {
        List::None => &[64],
        List::In => &[64, 96],
        List::Out => &[64, 96, 128],
    };
    let large = system.core == Core::Ip && octets >= BITS_FROM;
    if small.contains(&octets) { Some(system.list as usize) } else { large.then_some(BITS) }
}

/// Sizes at which the bits of IP frames are the limit.
const BITS_FROM: usize = 320;
/// Place of the limit of bits behind those of frames.
const BITS: usize = List::ALL.len();
/// Octets of a frame that no device counts.
const FCS: usize = 4;
/// Frames and octets that come at once.
const BURST: (f64, f64) = (8.0, 8_192.0);

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Frames a second without a list, with one in, with one out.
    pub frames: [f64; 3],
    /// Bits a second of frames without FCS, over IP.
    pub bits: f64,
}

/// The middle of positive numbers, by ratio: no other one is as near to the outermost of them.
fn middle(values: impl Iterator<Item = f64>) -> f64 {
    let (least, most) =
        values.fold((f64::MAX, 0.0), |(low, high), v| (low.min(v), f64::max(high, v)));
    (least * most).sqrt()
}

/// Every printed rate, in the order of the tables.
pub fn rates(study: &Study) -> impl Iterator<Item = Rate> + '_ {
    let sizes = &study.setup.frame_bytes;
    System::ALL.into_iter().flat_map(move |system| sizes.iter().map(move |&size| (system, size)))
}

/// A printed rate in the unit of its limit: frames a second, or bits of frames without FCS.
fn printed(study: &Study, (system, octets): Rate, limit: usize) -> f64 {
    let pps = study.of(system.key()).pps[study.at(octets)];
    if limit == BITS { pps * (8 * (octets - FCS)) as f64 } else { pps }
}

/// The quality of a fit, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// Largest error of a rate that a limit binds.
    pub error: f64,
    /// Largest error of such a rate by the limits of all others.
    pub left_out: f64,
}

impl Limits {
    /// The limits that fit the print best.
    pub fn fit(study: &Study) -> Self {
        Self::fit_without(study, None)
    }

    /// The same of a print that lacks one of the rates.
    pub fn fit_without(study: &Study, out: Option<Rate>) -> Self {
        let limit = |limit: usize| {
            let bound = rates(study).filter(|rate| limit_of(*rate) == Some(limit));
            let seen = bound.filter(|rate| out != Some(*rate));
            middle(seen.map(|rate| printed(study, rate, limit)))
        };
        Self { frames: [0, 1, 2].map(limit), bits: limit(BITS) }
    }

    /// The limit at a place of [`limit_of`].
    fn at(&self, limit: usize) -> f64 {
        if limit == BITS { self.bits } else { self.frames[limit] }
    }

    /// Errors of the limits at the rates that they bind.
    pub fn quality(study: &Study) -> Quality {
        let all = Self::fit(study);
        let bound = rates(study).filter_map(|rate| Some((rate, limit_of(rate)?)));
        let worst = Quality { error: 0.0, left_out: 0.0 };
        bound.fold(worst, |worst, (rate, limit)| {
            let off = |by: &Self| 100.0 * (by.at(limit) / printed(study, rate, limit) - 1.0).abs();
            Quality {
                error: worst.error.max(off(&all)),
                left_out: worst.left_out.max(off(&Self::fit_without(study, Some(rate)))),
            }
        })
    }

    /// Largest error of a rate that a limit binds if IP and MPLS have limits of frames of their
    /// own, in percent: seven values in place of four.
    pub fn apart_percent(study: &Study) -> f64 {
        let bound = |core, limit| {
            let all = rates(study).filter(move |rate| limit_of(*rate) == Some(limit));
            let own = all.filter(move |(system, _)| system.core == core);
            own.map(move |rate| printed(study, rate, limit))
        };
        let groups =
            [Core::Ip, Core::Mpls].into_iter().flat_map(|core| (0..=BITS).map(move |l| (core, l)));
        let errors = groups.map(|(core, limit)| {
            let middle = middle(bound(core, limit));
            bound(core, limit).map(|v| 100.0 * (middle / v - 1.0).abs()).fold(0.0, f64::max)
        });
        errors.fold(0.0, f64::max)
    }

    /// A device with these limits where a list is; `directions` have the whole of them each.
    pub fn profile(&self, study: &Study, system: System, directions: f64) -> Profile {
        let Quality { error, left_out } = Self::quality(study);
        let bits = if system.core == Core::Ip { self.bits } else { 0.0 };
        let points = System::ALL.len() * (study.setup.frame_bytes.len() - 1);
        let mut free = vec!["cap.frames-per-second".to_owned()];
        free.extend((bits > 0.0).then(|| "cap.bits-per-second".to_owned()));
        Profile {
            name: format!("acl-mpls, {}", system.key()),
            about: "a provider edge of about 2001 with gigabit ports".into(),
            source: Source::Fitted,
            origin: ORIGIN.into(),
            free,
            cap: Cap {
                frames_per_second: directions * self.frames[system.list as usize],
                bits_per_second: directions * bits,
                burst_frames: BURST.0,
                burst_octets: BURST.1,
                queues: 1,
            },
            fit: Fit { points, error_percent: error, leave_one_out_percent: left_out },
            ..Profile::ideal()
        }
    }
}

/// Sizes that the limits say something about.
pub fn is_modelled(octets: usize) -> bool {
    octets != ODD_ONE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_fewer_than_the_rates_that_they_fit_within_three_percent() {
        let study = Study::read();
        let (limits, quality) = (Limits::fit(&study), Limits::quality(&study));
        assert!(quality.error < 3.0, "{quality:?}");
        let [none, inn, out] = limits.frames;
        assert!(none > inn && inn > out, "{limits:?}");
        assert!((1.25e6..1.31e6).contains(&none) && (0.9e9..0.95e9).contains(&limits.bits));
        assert_eq!(rates(&study).filter(|rate| limit_of(*rate).is_some()).count(), 29);
        // More values fit better, and none of them says anything of the others.
        let apart = Limits::apart_percent(&study);
        assert!(apart > 0.0 && apart < quality.error, "{apart}");
    }

    #[test]
    fn rate_left_out_is_missed_by_the_limits_of_the_others_where_it_is_outermost() {
        let study = Study::read();
        let slowest = (System::ALL[3], 64);
        let (all, others) = (Limits::fit(&study), Limits::fit_without(&study, Some(slowest)));
        let printed = study.of(slowest.0.key()).pps[0];
        assert!(others.frames[2] > all.frames[2] && all.frames[2] > printed, "{others:?} {all:?}");
        // No other limit saw it.
        assert_eq!((others.frames[0], others.bits), (all.frames[0], all.bits));
        let middling = (System::ALL[3], 96);
        assert_eq!(Limits::fit_without(&study, Some(middling)), all, "both ends are still there");
        let quality = Limits::quality(&study);
        assert!(quality.left_out > quality.error, "{quality:?}");
    }
}
