//! Results that hosts count, one value for each traffic entry.

use ferrule_base::{Duration, Instant};

/// Numbers of one flow that are told apart at most: beyond it, copies of a packet
/// and its loss are no longer seen as such.
const NUMBERS_MAX: u64 = 1 << 26;

/// Classes of times, by the longest of each in microseconds: 1, 2, 5 in each
/// decade. What takes longer has a class of its own behind them.
pub const CLASSES_US: [u64; 21] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000,
    200_000, 500_000, 1_000_000, 2_000_000, 5_000_000,
];

/// Times: how many, the shortest, their sum, the longest, and how many of each class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// How many there were.
    pub count: u64,
    /// The shortest.
    pub min: Duration,
    /// Their sum.
    pub sum: Duration,
    /// The longest.
    pub max: Duration,
    /// How many there were in each of [`CLASSES_US`], and above.
    pub classes: [u64; CLASSES_US.len() + 1],
}

impl Spread {
    /// Takes one in.
    pub fn add(&mut self, time: Duration) {
        self.min = if self.count == 0 { time } else { self.min.min(time) };
        self.max = self.max.max(time);
        self.sum = self.sum.saturating_add(time);
        self.count += 1;
        let nanos = time.as_nanos();
        let class = CLASSES_US.partition_point(|&us| u128::from(us) * 1000 < nanos);
        self.classes[class] += 1;
    }

    /// The mean; nothing without a single one.
    pub fn mean(&self) -> Option<Duration> {
        let count = u32::try_from(self.count).unwrap_or(u32::MAX);
        self.sum.checked_div(count)
    }
}

/// Numbers of a flow that have come, and their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    seen: Vec<u64>,
    next: u64,
    /// Packets, without copies.
    pub unique: u64,
    /// Further copies of packets that had come.
    pub duplicates: u64,
    /// Packets that came after one with a higher number.
    pub reordered: u64,
}

impl Arrivals {
    /// Takes in a number; false if it had come before.
    pub fn take(&mut self, number: u64) -> bool {
        if number < NUMBERS_MAX {
            let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
            if word >= self.seen.len() {
                self.seen.resize(word + 1, 0);
            }
            if self.seen[word] & bit != 0 {
                self.duplicates += 1;
                return false;
            }
            self.seen[word] |= bit;
        }
        if number < self.next {
            self.reordered += 1;
        }
        self.next = self.next.max(number.saturating_add(1));
        self.unique += 1;
        true
    }
}

/// Result of a traffic entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Echo requests.
    Ping(Ping),
    /// Datagrams one way.
    Udp(Udp),
    /// A stream one way.
    Tcp(Tcp),
    /// Transfers, one after the other.
    Http(Http),
}

/// Echo requests and their replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ping {
    /// Requests that the schedule wanted.
    pub sent: u64,
    /// Of these, those that the host could not keep: no neighbour, queue full.
    pub refused: u64,
    /// Replies, without copies.
    pub received: u64,
    /// Further copies of replies.
    pub duplicates: u64,
    /// From the time on which a request was due to its reply.
    pub round_trip: Spread,
}

/// Datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Udp {
    /// Datagrams that the schedule wanted.
    pub sent: u64,
    /// Of these, those that the host could not keep: no neighbour, queue full.
    pub refused: u64,
    /// Datagrams that came whole, without copies.
    pub received: u64,
    /// Further copies.
    pub duplicates: u64,
    /// Datagrams that came after a later one.
    pub reordered: u64,
    /// Datagrams whose octets were not as they had been sent.
    pub broken: u64,
    /// Octets of the frames that were received, without FCS, as hosts see them.
    pub octets: u64,
    /// From the time on which one was due to its arrival.
    pub latency: Spread,
    /// The first and the last arrival.
    pub between: Option<(Instant, Instant)>,
}

/// A stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Octets that the sender gave to its stack.
    pub sent: u64,
    /// Octets that the receiver took from its own, all as they had been sent.
    pub received: u64,
    /// The stream arrived other than it was sent.
    pub broken: bool,
    /// The sender closed, and the receiver saw the end.
    pub complete: bool,
    /// From the first octet that was received to the last.
    pub between: Option<(Instant, Instant)>,
}

/// Transfers in the manner of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Http {
    /// Requests that were begun.
    pub requests: u64,
    /// Responses that were complete, with the digest that their head names.
    pub intact: u64,
    /// Responses that were cut short or had another digest.
    pub broken: u64,
    /// Octets of intact bodies.
    pub octets: u64,
    /// From the start of a connection to the last octet of an intact response.
    pub duration: Spread,
}

/// Fate of a traffic entry as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The entry sent nothing.
    Unsent,
    /// Everything arrived, once and unchanged.
    Whole,
    /// Everything arrived unchanged, and some of it more than once.
    Copies,
    /// Something was lost, or changed on the way.
    Losses,
}

impl Outcome {
    /// Adds what the other host counted of the same entry.
    pub fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Udp(a), Self::Udp(b)) => {
                let (sent, seen) = if a.sent > 0 { (a, b) } else { (b, a) };
                Self::Udp(Udp { sent: sent.sent, refused: sent.refused, ..seen })
            }
            (Self::Tcp(a), Self::Tcp(b)) => {
                let (from, to) = if a.sent > 0 { (a, b) } else { (b, a) };
                Self::Tcp(Tcp { sent: from.sent, ..to })
            }
            (own, _) => own,
        }
    }

    /// Fate of the entry as a whole.
    pub fn delivery(&self) -> Delivery {
        let (sent, received, broken, copies) = match self {
            Self::Ping(p) => (p.sent, p.received, false, p.duplicates),
            Self::Udp(u) => (u.sent, u.received, u.broken > 0, u.duplicates),
            Self::Tcp(t) => (t.sent, t.received, t.broken, 0),
            Self::Http(h) => (h.requests, h.intact, h.broken > 0, 0),
        };
        match (sent, copies) {
            (0, _) => Delivery::Unsent,
            _ if received != sent || broken => Delivery::Losses,
            (_, 0) => Delivery::Whole,
            _ => Delivery::Copies,
        }
    }

    /// True if something was sent, and everything arrived, once and unchanged.
    pub fn is_whole(&self) -> bool {
        self.delivery() == Delivery::Whole
    }
}

impl Udp {
    /// Rate at which they came, in bits per second: from the first arrival to the last there is an
    /// interval less than there are datagrams, so that one of mean length is left out.
    pub fn rate(&self) -> Option<f64> {
        let intervals = self.received.checked_sub(1)? as f64;
        rate(self.octets, self.between).map(|rate| rate * intervals / self.received as f64)
    }
}

/// Octets in a time, as bits per second.
pub fn rate(octets: u64, between: Option<(Instant, Instant)>) -> Option<f64> {
    let (first, last) = between?;
    let seconds = (last - first).as_secs_f64();
    (seconds > 0.0).then(|| octets as f64 * 8.0 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_counts_lost_reordered_and_duplicated_apart() {
        let mut arrivals = Arrivals::default();
        let taken: Vec<bool> = [0, 1, 4, 2, 2, 4, 700, 5].map(|n| arrivals.take(n)).into();
        assert_eq!(taken, [true, true, true, true, false, false, true, true]);
        assert_eq!((arrivals.unique, arrivals.duplicates, arrivals.reordered), (6, 2, 2));
        assert!(arrivals.take(u64::MAX), "no memory without bound");
        assert!(arrivals.seen.len() < 20);
    }

    #[test]
    fn lab_tells_entries_that_sent_nothing_and_copies_from_losses() {
        let ping = |sent, received, duplicates| {
            Outcome::Ping(Ping { sent, received, duplicates, ..Ping::default() }).delivery()
        };
        assert_eq!(ping(0, 0, 0), Delivery::Unsent);
        assert_eq!(ping(3, 3, 0), Delivery::Whole);
        assert_eq!(ping(3, 3, 1), Delivery::Copies);
        assert_eq!(ping(3, 2, 1), Delivery::Losses);
        assert_eq!(Outcome::Tcp(Tcp::default()).delivery(), Delivery::Unsent);
        assert_eq!(Outcome::Http(Http::default()).delivery(), Delivery::Unsent);
        let udp = Udp { sent: 1, received: 1, broken: 1, ..Udp::default() };
        assert_eq!(Outcome::Udp(udp).delivery(), Delivery::Losses);
        assert!(!Outcome::Udp(Udp::default()).is_whole(), "nothing is no success");
    }

    /// 1000 octets each millisecond are 8 Mbit/s, however many of them there are.
    #[test]
    fn lab_rate_of_datagrams_counts_as_many_intervals_as_datagrams() {
        for received in [2, 7, 1000] {
            let between = Some((Instant::ZERO, Instant::from_millis(received - 1)));
            let udp = Udp { received, octets: 1000 * received, between, ..Udp::default() };
            let rate = udp.rate().expect("a rate");
            assert!((rate - 8e6).abs() < 1e-3, "{received}: {rate}");
        }
        let at = Some((Instant::ZERO, Instant::ZERO));
        let one = Udp { received: 1, octets: 1000, between: at, ..Udp::default() };
        assert_eq!((one.rate(), Udp::default().rate()), (None, None), "one has no rate");
    }

    #[test]
    fn lab_spread_has_the_mean_between_the_ends() {
        let mut spread = Spread::default();
        assert_eq!(spread.mean(), None);
        [5, 1, 3].into_iter().for_each(|us| spread.add(Duration::from_micros(us)));
        let micros = [spread.min, spread.mean().expect("a mean"), spread.max];
        assert_eq!(micros.map(|time| time.as_micros()), [1, 3, 5]);
        spread.add(Duration::from_nanos(5_001));
        spread.add(Duration::from_secs(6));
        assert_eq!(spread.classes[..4], [1, 0, 2, 1], "1 us, 3 and 5 us, a little more");
        assert_eq!(spread.classes[CLASSES_US.len()], 1);
    }
}
