//! An SA as it is written, and where its life ends.

use super::{Number, Spanned, Text};
use schemars::JsonSchema;
use serde::Deserialize;

/// A security association.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(in crate::config) struct Sa {
    /// SPI.
    #[schemars(range(min = 256, max = u32::MAX))]
    pub spi: Number,
    /// Key file, from the folder of this file; or `credential:NAME`, `token:LABEL`.
    pub key: Text,
    /// Key file with salt and integrity key, where the cipher key is on a token.
    pub rest: Option<Text>,
    /// Worker that has it, from 0. Default: workers in turn.
    #[schemars(range(min = 0, max = 63))]
    pub worker: Option<Number>,
    /// Bound at which people are told that it is time for another key:
    /// `{ packets = 900, octets = 90_000, seconds = 3300 }`, any of them.
    pub soft_lifetime: Option<Spanned<LifeBound>>,
    /// Bound at which it ends: `{ packets = 1000, octets = 100_000, seconds = 3600 }`, any of them.
    pub hard_lifetime: Option<Spanned<LifeBound>>,
}

/// A bound of an SA's life (RFC 4301 section 4.4.2.1). Of several, the first that is reached
/// counts.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(in crate::config) struct LifeBound {
    /// Packets that were sealed, or opened.
    #[schemars(range(min = 1))]
    pub packets: Option<Number>,
    /// Octets that were encrypted, with their padding; with AH, those that the ICV covers.
    #[schemars(range(min = 1))]
    pub octets: Option<Number>,
    /// Seconds since it was installed.
    #[schemars(range(min = 1, max = 315_360_000))]
    pub seconds: Option<Number>,
}
