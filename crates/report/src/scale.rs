//! Numbers on axes and in cells: round ticks, and as many digits as are worth it.

/// Digits that a number shows when nobody said how many.
const DIGITS: i32 = 4;
/// Ticks on a linear axis, about.
const TICKS: f64 = 6.0;
/// Ticks on an axis at most, whatever its range.
const TICKS_MAX: usize = 40;

/// A number with four significant digits, without trailing zeros.
pub fn shown(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { "–".into() };
    }
    let magnitude = value.abs().log10().floor() as i32;
    if !(-6..15).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let decimals = usize::try_from(DIGITS - 1 - magnitude).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// Mapping of values to positions on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    /// Covers all of the values, with round ends. A logarithmic one leaves out what
    /// is not above zero. `floor` is a value that it must show, such as zero.
    pub fn over(values: impl IntoIterator<Item = f64>, log: bool, floor: Option<f64>) -> Self {
        let usable = |value: &f64| value.is_finite() && (!log || *value > 0.0);
        let all = values.into_iter().chain(floor).filter(usable);
        let (low, high) =
            all.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if low > high {
            return Self { low: if log { 1.0 } else { 0.0 }, high: 10.0, log };
        }
        if log {
            return Self::decades(low, high);
        }
        let (low, high) = if low == high { apart(low) } else { (low, high) };
        let step = step(low, high);
        Self { low: (low / step).floor() * step, high: (high / step).ceil() * step, log }
    }

    /// Ends that are 1, 2 or 5 times a power of ten.
    fn decades(low: f64, high: f64) -> Self {
        let down = |value: f64| {
            let decade = 10f64.powf(value.log10().floor());
            [5.0, 2.0, 1.0].map(|m| m * decade).into_iter().find(|&m| m <= value * 1.000_001)
        };
        let up = |value: f64| {
            let decade = 10f64.powf(value.log10().floor());
            [1.0, 2.0, 5.0, 10.0].map(|m| m * decade).into_iter().find(|&m| m >= value * 0.999_999)
        };
        let (low, high) = (down(low).unwrap_or(low), up(high).unwrap_or(high));
        Self { low, high: if high > low { high } else { low * 10.0 }, log: true }
    }

    /// Between 0 and 1 for what lies on the axis; nothing for what has no place.
    pub fn place(&self, value: f64) -> Option<f64> {
        let map = |v: f64| if self.log { v.log10() } else { v };
        if !value.is_finite() || (self.log && value <= 0.0) {
            return None;
        }
        Some(((map(value) - map(self.low)) / (map(self.high) - map(self.low))).clamp(-0.02, 1.02))
    }

    /// Values at which grid lines and numbers stand.
    pub fn ticks(&self) -> Vec<f64> {
        if self.log {
            return self.log_ticks();
        }
        let step = step(self.low, self.high);
        let first = (self.low / step).round();
        let count = ((self.high - self.low) / step).round() as usize;
        // Whole multiples, so that no rounding adds up.
        (0..=count.min(TICKS_MAX)).map(|n| round((first + n as f64) * step, step)).collect()
    }

    /// Ticks at the values that were set, so that no tick suggests a value that was never measured.
    pub fn ticks_at(&self, settings: &[f64]) -> Vec<f64> {
        let placed = |value: &f64| self.place(*value).is_some();
        match settings {
            [] => self.ticks(),
            all => all.iter().copied().filter(placed).collect(),
        }
    }

    fn log_ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let within: &[f64] = match decades {
            d if d <= 3.0 => &[1.0, 2.0, 5.0],
            d if d <= TICKS => &[1.0, 3.0],
            _ => &[1.0],
        };
        let stride = (decades / TICKS).ceil().max(1.0) as i32;
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let steps = (first..=last).filter(|decade| (decade - first) % stride == 0);
        let all = steps.flat_map(|decade| within.iter().map(move |m| m * 10f64.powi(decade)));
        let inside = |t: &f64| *t >= self.low * 0.999_999 && *t <= self.high * 1.000_001;
        all.filter(inside).take(TICKS_MAX).collect()
    }

    /// The lower end.
    pub fn low(&self) -> f64 {
        self.low
    }
}

fn apart(value: f64) -> (f64, f64) {
    if value == 0.0 { (0.0, 1.0) } else { (value - value.abs() * 0.1, value + value.abs() * 0.1) }
}

/// A step of 1, 2 or 5 times a power of ten.
fn step(low: f64, high: f64) -> f64 {
    let raw = (high - low) / TICKS;
    let decade = 10f64.powf(raw.log10().floor());
    let rest = raw / decade;
    decade
        * match rest {
            r if r <= 1.0 => 1.0,
            r if r <= 2.0 => 2.0,
            r if r <= 5.0 => 5.0,
            _ => 10.0,
        }
}

/// A multiple of the step without the dust of binary fractions.
fn round(value: f64, step: f64) -> f64 {
    let scale = 10f64.powf((-step.log10().floor()).max(0.0) + 1.0);
    if scale.is_finite() { (value * scale).round() / scale } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_show_four_digits_and_no_dust() {
        let cases = [
            (0.0, "0"),
            (52.220_01, "52.22"),
            (1022.0, "1022"),
            (0.63, "0.63"),
            (0.000_123_45, "0.0001234"),
            (1e9, "1000000000"),
            (-439.51, "-439.5"),
            (1e-9, "1.000e-9"),
        ];
        for (value, text) in cases {
            assert_eq!(shown(value), text);
        }
    }

    #[test]
    fn axes_have_round_ends_and_few_ticks() {
        for (values, log) in [
            (vec![52.22, 53.11], false),
            (vec![0.0, 930.0], false),
            (vec![3.0, 3.0], false),
            (vec![0.0, 0.0], false),
            (vec![-4.0, 17.0], false),
            (vec![52.0, 440.0], true),
            (vec![1e-6, 1e9], true),
            (vec![7.0], true),
            (vec![f64::NAN, f64::INFINITY], false),
            (vec![-1.0, 0.0], true),
            (vec![1e300, -1e300], false),
        ] {
            let scale = Scale::over(values.iter().copied(), log, None);
            let ticks = scale.ticks();
            assert!((2..=13).contains(&ticks.len()), "{values:?}: {ticks:?}");
            assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]), "{ticks:?}");
            for value in values.iter().filter(|v| v.is_finite() && (!log || **v > 0.0)) {
                let place = scale.place(*value).expect("a place");
                assert!((0.0..=1.0).contains(&place), "{value} at {place}");
            }
        }
    }
}
