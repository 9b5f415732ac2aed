//! Costs of exchanges with a token.
//!
//! ```text
//!   time of an exchange  =  its step  +  octets / rate
//!        octets          =  overhead + 16 for each block
//! ```
//!
//! The shipped ones lie in `profiles/token/`. A profile prices a token in virtual
//! time, and slows a real one down to it: a soft token is not slow.

use super::vault::BLOCK;
use serde::Deserialize;
use std::fmt;
use std::time::Duration;

/// Octets of one exchange at most, in any profile. More at a time makes modules slower, not
/// faster.
pub const EXCHANGE_MAX: usize = 64 << 10;

/// The shipped profiles, by name.
const SHIPPED: [(&str, &str); 4] = [
    ("none", include_str!("../../../../profiles/token/none.toml")),
    ("microsd", include_str!("../../../../profiles/token/microsd.toml")),
    ("tpm", include_str!("../../../../profiles/token/tpm.toml")),
    ("usb-hsm", include_str!("../../../../profiles/token/usb-hsm.toml")),
];

/// Timing parameters of a token.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TokenProfile {
    /// Its name.
    pub name: String,
    /// Description of the device.
    pub about: String,
    /// Kind of source of the numbers: `published`, `measured` or `assumed`.
    pub source: String,
    /// The publication or measurement.
    #[serde(default)]
    pub origin: String,
    /// Octets of one exchange at most, overhead included.
    exchange_octets: usize,
    /// Octets of an exchange that are no key stream.
    #[serde(default)]
    overhead_octets: usize,
    /// Octets a second, beside the steps; 0: as many as you like.
    #[serde(default)]
    octets_per_second: u64,
    /// Exchanges of up to so many octets take so long: in rising order.
    #[serde(default)]
    step: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Step {
    octets: usize,
    microseconds: u64,
}

/// Reason that a profile is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError(pub String);

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ProfileError {}

impl TokenProfile {
    /// A token that takes no time, with exchanges of 4 KiB.
    pub fn none() -> Self {
        Self::shipped("none").expect("it is shipped")
    }

    /// The shipped profile of that name.
    pub fn shipped(name: &str) -> Option<Self> {
        let (_, text) = SHIPPED.iter().find(|(n, _)| *n == name)?;
        Some(Self::parse(text).expect("a test reads them all"))
    }

    /// The names of those that are shipped.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.iter().map(|(name, _)| *name)
    }

    /// Reads a profile.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let profile: Self =
            toml::from_str(text).map_err(|e| ProfileError(e.message().to_owned()))?;
        match (profile.source.as_str(), profile.origin.as_str()) {
            ("assumed", _) => {}
            ("published" | "measured", "") => {
                let what = format!("a {} profile must say its origin", profile.source);
                return Err(ProfileError(what));
            }
            ("published" | "measured", _) => {}
            (other, _) => {
                let what = format!("source is published, measured or assumed, not `{other}`");
                return Err(ProfileError(what));
            }
        }
        let most = profile.exchange_octets;
        if most < profile.overhead_octets + BLOCK || most > EXCHANGE_MAX {
            let least = profile.overhead_octets + BLOCK;
            let what = format!("exchange-octets must be {least} to {EXCHANGE_MAX}, not {most}");
            return Err(ProfileError(what));
        }
        if !profile.step.is_sorted_by(|a, b| a.octets < b.octets) {
            return Err(ProfileError("steps must have rising octets".into()));
        }
        if profile.step.last().is_some_and(|last| last.octets < most) {
            return Err(ProfileError(format!("the last step must reach {most} octets")));
        }
        Ok(profile)
    }

    /// Blocks of key stream that one exchange can bring.
    pub const fn blocks_max(&self) -> usize {
        (self.exchange_octets - self.overhead_octets) / BLOCK
    }

    /// Duration of an exchange of so many blocks.
    pub fn time(&self, blocks: usize) -> Duration {
        let octets = self.overhead_octets + blocks * BLOCK;
        let step = self.step.iter().find(|s| octets <= s.octets).or(self.step.last());
        let fixed = Duration::from_micros(step.map_or(0, |s| s.microseconds));
        let rate = (octets as u64 * 1_000_000_000).checked_div(self.octets_per_second);
        fixed + Duration::from_nanos(rate.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_token_profile_is_read_and_named_as_its_file() {
        for (name, text) in SHIPPED {
            assert_eq!(TokenProfile::parse(text).unwrap().name, name);
        }
    }

    #[test]
    fn the_studys_token_takes_16_ms_for_126_blocks_and_12_ms_for_768_octets() {
        let card = TokenProfile::shipped("microsd").unwrap();
        assert_eq!(card.blocks_max(), 126);
        assert_eq!(card.time(126), Duration::from_millis(16));
        assert_eq!(card.time(46), Duration::from_millis(12), "768 octets");
        assert_eq!(card.time(47), Duration::from_millis(16), "and one block more");
        assert_eq!(card.time(1), Duration::from_millis(12));
    }

    #[test]
    fn a_tpm_moves_226_kilobytes_a_second() {
        let tpm = TokenProfile::shipped("tpm").unwrap();
        let blocks = tpm.blocks_max();
        let octets = 16 * blocks;
        let rate = octets as f64 / tpm.time(blocks).as_secs_f64();
        assert!((225e3..=227e3).contains(&rate), "{rate}");
    }

    #[test]
    fn a_wrong_token_profile_says_what_is_wrong() {
        let head = "name = 'x'\nabout = ''\nsource = 'assumed'\n";
        let bad = [
            ("exchange-octets = 8", "exchange-octets must be 16"),
            ("exchange-octets = 100000", "exchange-octets must be"),
            ("exchange-octets = 64\n[[step]]\noctets = 32\nmicroseconds = 1", "must reach 64"),
            ("exchange-octets = 64\nspeed = 1", "unknown field"),
        ];
        let measured = head.replace("assumed", "measured") + "exchange-octets = 64";
        let heard = head.replace("assumed", "heard") + "exchange-octets = 64";
        for (text, want) in [(measured, "must say its origin"), (heard, "not `heard`")] {
            let error = TokenProfile::parse(&text).unwrap_err();
            assert!(error.0.contains(want), "{error}");
        }
        for (text, want) in bad {
            let error = TokenProfile::parse(&format!("{head}{text}")).unwrap_err();
            assert!(error.0.contains(want), "{error}");
        }
    }
}
