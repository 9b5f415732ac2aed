//! Causes of missed frames, in words: for `show ports`, the log and metrics.

use ferrule_pipeline::Missed;

/// Cause of missed frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Longer than a buffer.
    TooLong,
    /// No buffer was free.
    NoBuffer,
    /// The ring to the node was full.
    RingFull,
    /// The description was of no buffer of ours.
    Invalid,
}

impl Cause {
    /// Its name, in events and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooLong => "too-long",
            Self::NoBuffer => "no-buffer",
            Self::RingFull => "ring-full",
            Self::Invalid => "invalid",
        }
    }

    /// Explanation and remedy.
    pub const fn about(self) -> &'static str {
        match self {
            Self::TooLong => {
                "longer than a buffer: super-frames of a host, or a larger MTU at the far end. \
                 mode = \"native\" or driver = \"af-packet\" cuts super-frames; \
                 `ethtool -K DEVICE tso off gso off` at the far end makes none"
            }
            Self::NoBuffer => {
                "no buffer was free: more `buffers` in [node], or fewer packets waiting in it"
            }
            Self::RingFull => {
                "the node did not take them in time: more workers or cores, or `times = true` \
                 to see what its time goes for"
            }
            Self::Invalid => "the driver described them as no buffer of ours: tell its authors",
        }
    }
}

/// Each cause with its number of frames.
pub fn causes(missed: &Missed) -> impl Iterator<Item = (Cause, u64)> + use<> {
    let Missed { too_long, no_buffer, ring_full, invalid } = *missed;
    [
        (Cause::TooLong, too_long),
        (Cause::NoBuffer, no_buffer),
        (Cause::RingFull, ring_full),
        (Cause::Invalid, invalid),
    ]
    .into_iter()
}
