//! Rates: frames a second, bits a second, or a share of the line.
//!
//! ```text
//!   | preamble 8 | frame without FCS | FCS 4 | gap 12 |
//!                '---- bit/s counts these ---'
//!   '--------- a share of the line counts all --------'
//! ```
//!
//! Sizes inside this crate are frames as they stand in a buffer, without FCS;
//! where people read and write them they include it, as in RFC 2544 section 9.

use std::fmt;
use std::str::FromStr;

/// Octets of the FCS.
pub const FCS: usize = 4;
/// Octets of a frame on the line that are not in the buffer: preamble and start
/// delimiter 8, FCS 4, gap 12.
pub const LINE_OVERHEAD: usize = 24;
/// The smallest Ethernet frame without its FCS; shorter ones are padded.
pub const FRAME_MIN: usize = 60;

/// The most frames a second that a stream has: a line of 1 Tbit/s carries fewer of the smallest.
pub const FRAMES_MAX: u64 = 2_000_000_000;

/// Bits that a frame of `len` octets (without FCS) occupies on a line.
pub const fn line_bits(len: usize) -> u64 {
    let len = if len < FRAME_MIN { FRAME_MIN } else { len };
    (len + LINE_OVERHEAD) as u64 * 8
}

/// Bits of a frame of `len` octets, its FCS included.
pub const fn frame_bits(len: usize) -> u64 {
    (len + FCS) as u64 * 8
}

/// Rate at which frames are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Thousandths of a frame a second.
    MilliFrames(u64),
    /// Bits of frames a second, FCS included, preamble and gap not.
    Bits(u64),
    /// Millionths of the line's rate, preamble and gap included.
    LineShare(u32),
}

impl Rate {
    /// As fast as the line carries.
    pub const LINE: Self = Self::LineShare(1_000_000);

    /// Frames a second.
    pub const fn frames(per_second: u64) -> Self {
        Self::MilliFrames(per_second.saturating_mul(1000))
    }

    /// The time of one frame of `len` octets in nanoseconds, as a fraction.
    /// Nothing for a rate of zero, or a share of a line whose rate is not known.
    pub fn nanos(self, len: usize, line: Option<u64>) -> Option<(u128, u128)> {
        let (num, den) = match self {
            Self::MilliFrames(rate) => (1_000_000_000_000, u128::from(rate)),
            Self::Bits(rate) => (u128::from(frame_bits(len)) * 1_000_000_000, u128::from(rate)),
            Self::LineShare(share) => (
                u128::from(line_bits(len)) * 1_000_000_000_000_000,
                u128::from(share) * u128::from(line?),
            ),
        };
        (den != 0).then_some((num, den))
    }

    /// True if frames of `len` octets come faster than any stream's, [`FRAMES_MAX`].
    pub fn is_too_fast(self, len: usize, line: Option<u64>) -> bool {
        let most = u128::from(FRAMES_MAX);
        let nanos = self.nanos(len, line);
        nanos.is_some_and(|(num, den)| num.saturating_mul(most) < den.saturating_mul(1_000_000_000))
    }

    /// Frames a second for frames of `len` octets, for people.
    pub fn frames_per_second(self, len: usize, line: Option<u64>) -> Option<f64> {
        let (num, den) = self.nanos(len, line)?;
        Some(1e9 * den as f64 / num as f64)
    }
}

/// The most frames of `len` octets a second that a line carries (RFC 2544
/// section 20), in thousandths, rounded down.
pub fn line_milli_frames(len: usize, line: u64) -> u64 {
    let rate = u128::from(line) * 1000 / u128::from(line_bits(len));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::MilliFrames(rate) if rate % 1000 == 0 => write!(f, "{} pps", rate / 1000),
            Self::MilliFrames(rate) => write!(f, "{}.{:03} pps", rate / 1000, rate % 1000),
            Self::Bits(rate) => write!(f, "{}bit/s", scaled(rate)),
            Self::LineShare(share) => write!(f, "{} % of line", f64::from(share) / 10_000.0),
        }
    }
}

/// A number with the largest decimal prefix that leaves it whole, or with three
/// digits after the point.
fn scaled(value: u64) -> String {
    for (size, prefix) in [(1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")] {
        if value >= size && value.is_multiple_of(size / 1000) {
            return format!("{} {prefix}", value as f64 / size as f64);
        }
    }
    format!("{value} ")
}

/// A number with an optional decimal prefix, in thousandths: `1.5M` is
/// 1,500,000,000.
fn thousandths(text: &str) -> Option<u128> {
    let text = text.trim();
    let (digits, scale) = match text.strip_suffix(['k', 'K']) {
        Some(rest) => (rest, 1000),
        None => match text.strip_suffix('M') {
            Some(rest) => (rest, 1_000_000),
            None => text.strip_suffix('G').map_or((text, 1), |rest| (rest, 1_000_000_000)),
        },
    };
    let (whole, part) = digits.trim().split_once('.').unwrap_or((digits.trim(), ""));
    let plain = |s: &str| s.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    if whole.is_empty() || !plain(whole) || !plain(part) || part.len() > 9 || whole.len() > 20 {
        return None;
    }
    let whole: u128 = whole.replace('_', "").parse().ok()?;
    let nano = format!("{part:0<9}").replace('_', "0").parse::<u128>().ok()?;
    Some(whole * 1000 * scale + nano * scale / 1_000_000)
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not a rate: write 10kpps, 2.5Mpps, 900Mbit/s or 80% (of the line, so 100% \
                 at most)"
            )
        };
        let fits = |value: u128| u64::try_from(value).map_err(|_| wrong());
        let text = text.trim();
        if text == "line" {
            return Ok(Self::LINE);
        }
        if let Some(share) = text.strip_suffix('%') {
            let share = thousandths(share).ok_or_else(wrong)?.saturating_mul(10);
            let share = u32::try_from(share).ok().filter(|s| (1..=1_000_000).contains(s));
            return share.map(Self::LineShare).ok_or_else(wrong);
        }
        let rate = if let Some(rate) = text.strip_suffix("pps") {
            Self::MilliFrames(fits(thousandths(rate).ok_or_else(wrong)?)?)
        } else {
            Self::Bits(bits_per_second(text).ok_or_else(wrong)?)
        };
        match rate {
            Self::MilliFrames(0) | Self::Bits(0) => Err(wrong()),
            rate => Ok(rate),
        }
    }
}

/// Bits a second of a text such as `10Gbit/s`.
pub fn bits_per_second(text: &str) -> Option<u64> {
    let rate = text.trim().strip_suffix("bit/s").or_else(|| text.trim().strip_suffix("bps"))?;
    u64::try_from(thousandths(rate)? / 1000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_rate_is_what_rfc_2544_says() {
        // Appendix B: 64 octets on 10 Mbit/s Ethernet are 14880 frames a second,
        // 1518 octets 812.
        assert_eq!(line_milli_frames(60, 10_000_000) / 1000, 14880);
        assert_eq!(line_milli_frames(1514, 10_000_000) / 1000, 812);
        assert_eq!(Rate::LINE.nanos(60, Some(1_000_000_000)).map(|(n, d)| n / d), Some(672));
    }

    #[test]
    fn a_rate_is_written_in_pps_bits_or_share() {
        for (text, rate) in [
            ("10kpps", Rate::frames(10_000)),
            ("2.5 Mpps", Rate::frames(2_500_000)),
            ("0.5pps", Rate::MilliFrames(500)),
            ("900Mbit/s", Rate::Bits(900_000_000)),
            ("1.25Gbps", Rate::Bits(1_250_000_000)),
            ("80%", Rate::LineShare(800_000)),
            ("0.125 %", Rate::LineShare(1250)),
            ("line", Rate::LINE),
        ] {
            assert_eq!(text.parse(), Ok(rate), "{text}");
        }
        for bad in ["", "10", "-1pps", "101%", "0%", "0pps", "1e9pps", "9999999999999999999Gbps"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
        assert_eq!(Rate::LineShare(1250).to_string(), "0.125 % of line");
        assert_eq!(Rate::Bits(1_250_000_000).to_string(), "1.25 Gbit/s");
    }
}
