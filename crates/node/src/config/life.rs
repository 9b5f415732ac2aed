//! How long an SA lives.
//!
//! ```toml
//!   [tunnel.out]
//!   spi = 0x1000
//!   key = "out.key"
//!   soft-lifetime = { packets = 900_000, octets = 900_000_000, seconds = 3300 }
//!   hard-lifetime = { packets = 1_000_000, octets = 1_000_000_000, seconds = 3600 }
//! ```

use super::raw::{LifeBound, Number, Sa, Spanned};
use super::read::Reader;
use ferrule_base::Duration;
use ferrule_dataplane::ipsec::{Lifetime, Lifetimes};

/// Ten years.
const SECONDS_MAX: i64 = 315_360_000;

/// Reads both bounds of an SA.
pub(super) fn lifetimes(r: &mut Reader<'_>, sa: &Sa) -> Lifetimes {
    let lifetimes = Lifetimes {
        soft: lifetime(r, sa.soft_lifetime.as_ref()),
        hard: lifetime(r, sa.hard_lifetime.as_ref()),
    };
    if let (Some(soft), Some(hard)) = (&sa.soft_lifetime, &sa.hard_lifetime) {
        let (soft, hard) = (soft.get_ref(), hard.get_ref());
        before(r, "packets", &soft.packets, &hard.packets);
        before(r, "octets", &soft.octets, &hard.octets);
        before(r, "seconds", &soft.seconds, &hard.seconds);
    }
    lifetimes
}

fn lifetime(r: &mut Reader<'_>, raw: Option<&Spanned<LifeBound>>) -> Lifetime {
    let Some(raw) = raw else { return Lifetime::default() };
    let LifeBound { packets, octets, seconds } = raw.get_ref();
    if packets.is_none() && octets.is_none() && seconds.is_none() {
        let remedy = "give it packets, octets or seconds, or take it out";
        r.problems.add(raw.span(), "a lifetime without a bound", remedy);
    }
    let mut bound = |n: &Option<Number>, max, of: &str| {
        n.as_ref().map(|n| r.number(Some(n), max, 1..=max, of) as u64)
    };
    Lifetime {
        packets: bound(packets, i64::MAX, "a lifetime in packets"),
        octets: bound(octets, i64::MAX, "a lifetime in octets"),
        time: bound(seconds, SECONDS_MAX, "a lifetime in seconds").map(Duration::from_secs),
    }
}

/// A soft bound comes before the hard one, so that there is time for another SA.
fn before(r: &mut Reader<'_>, of: &str, soft: &Option<Number>, hard: &Option<Number>) {
    let (Some(soft), Some(hard)) = (soft, hard) else { return };
    let (at, end) = (*soft.get_ref(), *hard.get_ref());
    if at >= end {
        let what = format!("the soft lifetime of {at} {of} is not before the hard one of {end}");
        let remedy = match end {
            ..=1 => format!("raise `{of}` of hard-lifetime"),
            _ => format!("use at most {}, or raise `{of}` of hard-lifetime", end - 1),
        };
        r.problems.add(soft.span(), what, remedy);
    }
}
