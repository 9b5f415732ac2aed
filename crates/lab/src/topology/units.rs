//! Quantities as people write them: `1Gbit/s`, `250us`, `0.1%`, `every 3`.

use super::section::{Problems, Section, Text};
use ferrule_base::Duration;

const RATES: [(&str, u64); 4] =
    [("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("kbit/s", 1000), ("bit/s", 1)];
const TIMES: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1000),
    ("µs", 1000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
];

/// How a rate is written.
pub const RATE_FORM: &str = "write it as 1Gbit/s, 2.5Mbit/s or 64kbit/s";
/// How a time is written.
pub const TIME_FORM: &str = "write it as 250us, 1.5ms or 2s";
/// How a share is written.
pub const SHARE_FORM: &str = "write it as 1%, 0.25% or every 100";

/// A decimal number times `scale`, exactly; nothing if it is none or too large.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, part) = number.trim().split_once('.').unwrap_or((number.trim(), ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit()) && text.len() <= 18;
    if whole.is_empty() || !digits(whole) || !digits(part) {
        return None;
    }
    let mut total = u128::from(whole.parse::<u64>().ok()?) * u128::from(scale);
    if !part.is_empty() {
        let tenths = 10_u128.checked_pow(part.len() as u32)?;
        total += u128::from(part.parse::<u64>().ok()?) * u128::from(scale) / tenths;
    }
    u64::try_from(total).ok()
}

fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    units.iter().find_map(|(unit, scale)| scaled(text.trim().strip_suffix(unit)?, *scale))
}

/// Bits per second.
pub fn rate(text: &str) -> Option<u64> {
    with_unit(text, &RATES).filter(|rate| *rate > 0)
}

/// A length of time.
pub fn time(text: &str) -> Option<Duration> {
    with_unit(text, &TIMES).map(Duration::from_nanos)
}

/// Packets per second, `1000pps`.
pub fn packets(text: &str) -> Option<u64> {
    with_unit(text, &[("Mpps", 1_000_000), ("kpps", 1000), ("pps", 1)]).filter(|rate| *rate > 0)
}

/// A share of frames, or each so-manieth of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Share {
    /// Between 0 and 1.
    Of(f64),
    /// Each Nth.
    Every(u64),
}

/// A share.
pub fn share(text: &str) -> Option<Share> {
    if let Some(number) = text.trim().strip_prefix("every ") {
        return number.trim().parse().ok().filter(|n| *n > 0).map(Share::Every);
    }
    let percent: f64 = text.trim().strip_suffix('%')?.trim().parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(Share::Of(percent / 100.0))
}

impl Section<'_> {
    fn quantity<T>(
        &mut self,
        p: &mut Problems,
        key: &'static str,
        (what, form): (&str, &str),
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text: Text = self.text(p, key)?;
        let parsed = parse(text.get_ref());
        if parsed.is_none() {
            p.add(text.span(), format!("`{}` is no {what}", text.get_ref()), form);
        }
        parsed
    }

    /// Bits per second.
    pub fn rate(&mut self, p: &mut Problems, key: &'static str) -> Option<u64> {
        self.quantity(p, key, ("rate", RATE_FORM), rate)
    }

    /// A length of time.
    pub fn time(&mut self, p: &mut Problems, key: &'static str) -> Option<Duration> {
        self.quantity(p, key, ("time", TIME_FORM), time)
    }

    /// A share of frames.
    pub fn share(&mut self, p: &mut Problems, key: &'static str) -> Option<Share> {
        self.quantity(p, key, ("share of frames", SHARE_FORM), share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topology_units_are_read_exactly_and_wrong_ones_refused() {
        assert_eq!(rate("1Gbit/s"), Some(1_000_000_000));
        assert_eq!(rate("2.5 Mbit/s"), Some(2_500_000));
        assert_eq!(rate("64kbit/s"), Some(64_000));
        for bad in ["1Gb", "1", "-1Gbit/s", "0bit/s", "1e3bit/s", "99999999999Gbit/s", "Gbit/s"] {
            assert_eq!(rate(bad), None, "{bad}");
        }
        let nanos = |text| time(text).map(|time| time.as_nanos());
        assert_eq!(nanos("250us"), Some(250_000));
        assert_eq!(nanos("1.5ms"), Some(1_500_000));
        assert_eq!(nanos("0.000000001s"), Some(1));
        assert_eq!((nanos("2s"), nanos("3 µs"), nanos("2min")), {
            (Some(2_000_000_000), Some(3000), Some(120_000_000_000))
        });
        assert_eq!((nanos("5"), nanos("5m"), nanos("s")), (None, None, None));
        assert_eq!((share("1%"), share("every 3")), (Some(Share::Of(0.01)), Some(Share::Every(3))));
        assert_eq!((share("101%"), share("0.1"), share("every 0")), (None, None, None));
        assert_eq!((packets("2kpps"), packets("10"), packets("0pps")), (Some(2000), None, None));
    }
}
