//! Results of trials as they are kept in a file: what one machine measured, for a report
//! that another makes. Counters stay exact; a histogram is its filled buckets.

use crate::delay::Latency;
use ferrule_base::Instant;
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

/// Counters of which the last are usually zero, and left out.
pub mod counters {
    use super::*;

    /// As a list.
    pub fn serialize<S: Serializer, const N: usize>(
        counters: &[u64; N],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let used = counters.iter().rposition(|&n| n > 0).map_or(0, |last| last + 1);
        counters[..used].serialize(to)
    }

    /// From a list that is not longer.
    pub fn deserialize<'de, D: Deserializer<'de>, const N: usize>(
        from: D,
    ) -> Result<[u64; N], D::Error> {
        let list = Vec::<u64>::deserialize(from)?;
        let mut counters = [0; N];
        let room = counters.get_mut(..list.len());
        room.ok_or_else(|| D::Error::custom("too many counters"))?.copy_from_slice(&list);
        Ok(counters)
    }
}

/// A sum that may be larger than a JSON number: its digits.
pub mod sum {
    use super::*;

    /// As text.
    pub fn serialize<S: Serializer>(sum: &u128, to: S) -> Result<S::Ok, S::Error> {
        sum.to_string().serialize(to)
    }

    /// From text.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u128, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// A time from one instant to another.
pub mod span {
    use super::*;

    /// As two numbers of nanoseconds.
    pub fn serialize<S: Serializer>(
        span: &Option<(Instant, Instant)>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        span.map(|(from, to)| (from.as_nanos(), to.as_nanos())).serialize(to)
    }

    /// From two numbers of nanoseconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<(Instant, Instant)>, D::Error> {
        let span = Option::<(u64, u64)>::deserialize(from)?;
        Ok(span.map(|(from, to)| (Instant::from_nanos(from), Instant::from_nanos(to))))
    }
}

/// Latencies as they are kept.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    count: u64,
    #[serde(with = "sum")]
    sum: u128,
    min: u64,
    max: u64,
    /// Value and count of each bucket; nothing: no histogram was kept.
    buckets: Option<Vec<(u64, u64)>>,
}

impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let buckets = self.has_histogram().then(|| self.buckets());
        let (count, sum, min, max) = self.totals();
        Kept { count, sum, min, max, buckets }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Kept { count, sum, min, max, buckets } = Kept::deserialize(from)?;
        Ok(Self::again((count, sum, min, max), buckets.as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use crate::delay::{Jitter, Latency, Lateness};
    use crate::order::Extents;
    use crate::sink::Received;
    use ferrule_base::Instant;

    #[test]
    fn what_was_received_is_the_same_when_it_comes_out_of_a_file() {
        let mut received = Received { frames: 7, next: 9, ..Received::default() };
        received.latency = Latency::new(true);
        for nanos in [0, 1, 900, 900, 1_000_003, 77_777_777, u64::MAX / 2] {
            received.latency.record(nanos);
            received.jitter.record(nanos, true);
            received.extents.record(Some(nanos % 50));
        }
        received.span = Some((Instant::from_nanos(1), Instant::from_nanos(u64::MAX)));
        let text = serde_json::to_string(&received).expect("JSON");
        let again: Received = serde_json::from_str(&text).expect("what was written");
        let (was, is) = (&received.latency, &again.latency);
        assert_eq!(was.totals(), is.totals());
        for share in [0.0, 0.1, 0.5, 0.9, 0.99, 1.0] {
            assert_eq!(was.quantile(share), is.quantile(share), "{share}");
        }
        assert_eq!(was.buckets(), is.buckets());
        assert_eq!(serde_json::to_string(&again).expect("JSON"), text);
        let mut lateness = Lateness::default();
        lateness.record(u64::MAX);
        let text = serde_json::to_string(&(lateness, Extents::default(), Jitter::default()));
        let again: (Lateness, Extents, Jitter) = serde_json::from_str(&text.unwrap()).unwrap();
        assert_eq!(again, (lateness, Extents::default(), Jitter::default()));
        let long = serde_json::to_string(&vec![1; 66]).unwrap();
        let bad = format!("{{\"buckets\":{long},\"count\":1,\"sum\":\"1\",\"max\":1}}");
        assert!(serde_json::from_str::<Lateness>(&bad).is_err(), "a counter too many");
    }
}
