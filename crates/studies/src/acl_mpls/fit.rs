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

/// Sizes at which frames a second are the limit, by where the list is.
const fn bound(list: List) -> &'static [usize] {
    match list {
        List::None => &[64],
        List::In => &[64, 96],
        List::Out => &[64, 96, 128],
    }
}

/// Sizes at which the bits of IP frames are.
const BITS_FROM: usize = 320;
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

/// The middle of positive numbers, by ratio, and how far the outermost are from it in percent.
fn middle(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, most) =
        values.fold((f64::MAX, 0.0), |(low, high), v| (low.min(v), f64::max(high, v)));
    let middle = (least * most).sqrt();
    (middle, 100.0 * (most / middle - 1.0))
}

/// Printed rates that a limit of frames binds.
fn frames(study: &Study, list: List) -> impl Iterator<Item = f64> + '_ {
    let systems = System::ALL.into_iter().filter(move |system| system.list == list);
    systems.flat_map(move |system| {
        bound(list).iter().map(move |&octets| study.of(system.key()).pps[study.at(octets)])
    })
}

/// Printed bits of frames of IP without FCS.
fn bits(study: &Study) -> impl Iterator<Item = f64> + '_ {
    let systems = System::ALL.into_iter().filter(|system| system.core == Core::Ip);
    systems.flat_map(move |system| {
        let each = study.setup.frame_bytes.iter().zip(&study.of(system.key()).pps);
        let large = each.filter(|(octets, _)| **octets >= BITS_FROM);
        large.map(|(octets, pps)| pps * (8 * (octets - FCS)) as f64)
    })
}

impl Limits {
    /// The limits that fit the print best, and the largest error of a rate that a limit binds.
    pub fn fit(study: &Study) -> (Self, f64) {
        let frames = List::ALL.map(|list| middle(frames(study, list)));
        let bits = middle(bits(study));
        let worst = frames.iter().chain([&bits]).map(|(_, error)| *error).fold(0.0, f64::max);
        (Self { frames: frames.map(|(value, _)| value), bits: bits.0 }, worst)
    }

    /// A device with these limits where a list is; `directions` have the whole of them each.
    pub fn profile(&self, study: &Study, system: System, directions: f64) -> Profile {
        let (_, error) = Self::fit(study);
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
            fit: Fit { points, error_percent: error, leave_one_out_percent: error },
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
        let (limits, worst) = Limits::fit(&Study::read());
        assert!(worst < 3.0, "{worst}");
        let [none, inn, out] = limits.frames;
        assert!(none > inn && inn > out, "{limits:?}");
        assert!((1.25e6..1.31e6).contains(&none) && (0.9e9..0.95e9).contains(&limits.bits));
    }
}
