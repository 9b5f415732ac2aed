//! Frame lengths: one size, a mix, a sweep.
//!
//! People write sizes with the FCS, as RFC 2544 section 9 does.

use crate::rate::FCS;
use std::fmt;
use std::str::FromStr;

/// Frames after which a mix repeats, at most.
const PATTERN_MAX: usize = 1 << 16;

/// Sizes for Ethernet of RFC 2544 section 9.1.
pub const RFC_2544: [usize; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

/// The lengths of a stream's frames, FCS included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// The same length for each frame.
    Fixed(usize),
    /// Lengths with the number of times that each comes in a round, spread
    /// evenly over it.
    Mix(Vec<(usize, usize)>),
    /// From a length to another by a step, and again.
    Sweep {
        /// The first length.
        from: usize,
        /// Not longer than this.
        to: usize,
        /// Increment.
        step: usize,
    },
}

impl Sizes {
    /// The simple mix of 7 : 4 : 1 small, middle and large frames.
    pub fn imix() -> Self {
        Self::Mix(vec![(64, 7), (570, 4), (1518, 1)])
    }

    /// The different lengths without FCS, and the order in which they come, as
    /// indices. Nothing if there is no length, or too many.
    pub(crate) fn pattern(&self) -> Option<(Vec<usize>, Vec<u16>)> {
        let bare = |size: usize| size.checked_sub(FCS);
        match self {
            Self::Fixed(size) => Some((vec![bare(*size)?], vec![0])),
            Self::Mix(parts) => {
                let lens = parts.iter().map(|p| bare(p.0)).collect::<Option<Vec<_>>>()?;
                let weights: Vec<usize> = parts.iter().map(|p| p.1).collect();
                let order = spread(&weights)?;
                Some((lens, order))
            }
            Self::Sweep { from, to, step } => {
                let lens = (*from..=*to).step_by((*step).max(1)).map(bare);
                let lens: Vec<usize> = lens.take(PATTERN_MAX).collect::<Option<_>>()?;
                let order = (0..lens.len() as u32).map(|i| i as u16).collect();
                (!lens.is_empty()).then_some((lens, order))
            }
        }
    }

    /// The mean length of a round, FCS included.
    pub fn mean(&self) -> f64 {
        let Some((lens, order)) = self.pattern() else { return 0.0 };
        let sum: usize = order.iter().filter_map(|&i| lens.get(usize::from(i))).sum();
        sum as f64 / order.len() as f64 + FCS as f64
    }

    /// The longest, FCS included.
    pub fn max(&self) -> usize {
        match self {
            Self::Fixed(size) => *size,
            Self::Mix(parts) => parts.iter().map(|p| p.0).max().unwrap_or(0),
            Self::Sweep { to, .. } => *to,
        }
    }

    /// The shortest, FCS included.
    pub fn min(&self) -> usize {
        match self {
            Self::Fixed(size) => *size,
            Self::Mix(parts) => parts.iter().map(|p| p.0).min().unwrap_or(0),
            Self::Sweep { from, .. } => *from,
        }
    }
}

/// Indices of weights so that each comes as often as it weighs, as evenly as can
/// be: every turn each gains its weight, and the richest is taken and pays all.
fn spread(weights: &[usize]) -> Option<Vec<u16>> {
    let total: usize = weights.iter().sum();
    if total == 0 || total > PATTERN_MAX || weights.len() > usize::from(u16::MAX) {
        return None;
    }
    let mut credit = vec![0i64; weights.len()];
    let mut order = Vec::with_capacity(total);
    for _ in 0..total {
        for (credit, weight) in credit.iter_mut().zip(weights) {
            *credit += *weight as i64;
        }
        let richest = (0..credit.len()).max_by_key(|&i| (credit[i], std::cmp::Reverse(i)))?;
        credit[richest] -= total as i64;
        order.push(richest as u16);
    }
    Some(order)
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => write!(f, "{size}"),
            Self::Mix(parts) if *self == Self::imix() => write!(f, "imix ({} sizes)", parts.len()),
            Self::Mix(parts) => {
                let parts: Vec<_> = parts.iter().map(|(s, w)| format!("{s}:{w}")).collect();
                f.write_str(&parts.join(","))
            }
            Self::Sweep { from, to, step } => write!(f, "{from}-{to}/{step}"),
        }
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is no frame size: write 64, imix, 64:7,570:4,1518:1 or 64-1518/8");
        let number = |s: &str| s.trim().parse::<usize>().ok().filter(|n| (1..=65_535).contains(n));
        let sizes = if text == "imix" {
            Some(Self::imix())
        } else if text.contains(':') {
            let part =
                |p: &str| p.split_once(':').and_then(|(s, w)| Some((number(s)?, number(w)?)));
            text.split(',').map(part).collect::<Option<Vec<_>>>().map(Self::Mix)
        } else if let Some((from, rest)) = text.split_once('-') {
            let (to, step) = rest.split_once('/').unwrap_or((rest, "1"));
            let all = (number(from), number(to), number(step));
            let (Some(from), Some(to), Some(step)) = all else { return Err(wrong()) };
            (from <= to).then_some(Self::Sweep { from, to, step })
        } else {
            number(text).map(Self::Fixed)
        };
        sizes.filter(|s| s.pattern().is_some()).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imix_sends_seven_four_and_one_spread_over_a_round() {
        let (lens, order) = Sizes::imix().pattern().unwrap();
        assert_eq!(lens, [60, 566, 1514]);
        let count = |i: u16| order.iter().filter(|&&o| o == i).count();
        assert_eq!((count(0), count(1), count(2)), (7, 4, 1));
        assert!(order.windows(3).all(|w| w.contains(&0)), "{order:?}");
        assert_eq!(Sizes::imix().mean(), (64 * 7 + 570 * 4 + 1518) as f64 / 12.0);
    }

    #[test]
    fn sizes_are_written_as_one_a_mix_or_a_sweep() {
        assert_eq!("1518".parse(), Ok(Sizes::Fixed(1518)));
        assert_eq!("imix".parse(), Ok(Sizes::imix()));
        assert_eq!("64:7,570:4,1518:1".parse(), Ok(Sizes::imix()));
        assert_eq!("64-128/32".parse(), Ok(Sizes::Sweep { from: 64, to: 128, step: 32 }));
        let sweep: Sizes = "64-128/32".parse().unwrap();
        assert_eq!(sweep.pattern().unwrap(), (vec![60, 92, 124], vec![0, 1, 2]));
        for bad in ["", "x", "0", "128-64", "64:0,", "2", "64:70000"] {
            assert!(bad.parse::<Sizes>().is_err(), "{bad}");
        }
    }
}
