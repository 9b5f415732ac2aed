//! Bursts after traffic of other lengths, as when a live sender starts.

use super::*;

/// Octets of text of the frames in a sweep of pings, and of a short datagram.
const SWEEP: std::ops::RangeInclusive<usize> = 42..=1442;
const SHORT: usize = 104;
const LONG: usize = 1420;

/// A sender and a receiver on the study's token.
struct Ends {
    engine: TokenEngine<Packet>,
    keys: [KeyId; 2],
    next: [u64; 2],
    now: Instant,
}

impl Ends {
    fn new() -> Self {
        let settings = Settings { blocks: 1 << 16, ..settings() };
        let mut engine = engine("microsd", settings);
        let keys =
            [Op::Seal, Op::Open].map(|op| engine.install(&on_token(GCM, op, true, 1)).unwrap());
        Self { engine, keys, next: [1; 2], now: Instant::ZERO }
    }

    /// A packet each way.
    fn packets(&mut self, text: usize, seen: &mut Vec<Job<Packet>>) {
        for (way, key) in self.keys.into_iter().enumerate() {
            let number = self.next[way];
            self.next[way] += 1;
            let job = match way {
                0 => job(key, Op::Seal, BASE, number, text),
                _ => sealed(key, BASE, number, text),
            };
            seen.extend(submit(&mut self.engine, self.now, job));
        }
    }

    fn pause(&mut self, time: Duration) {
        let end = self.now + time;
        until(&mut self.engine, &mut self.now, end);
    }

    /// Pings of all sizes, 10 ms apart.
    fn sweep(&mut self) {
        for text in SWEEP.step_by(97) {
            for _ in 0..2 {
                self.packets(text, &mut Vec::new());
                self.pause(ms(10));
            }
        }
    }

    /// So many packets each way, one every 20 us: how long until all are back, and
    /// how many did not wait.
    fn burst(&mut self, count: usize, text: usize) -> (Duration, usize) {
        let (start, mut seen) = (self.now, Vec::new());
        for _ in 0..count {
            self.packets(text, &mut seen);
            self.now += Duration::from_micros(20);
        }
        let ready = seen.len();
        let mut last = self.now;
        let mut late = 0;
        while ready + late < 2 * count {
            let back = until(&mut self.engine, &mut self.now, last + ms(1));
            late += back.len();
            last = self.now;
            assert!(seen.iter().chain(&back).all(|job| job.verdict == Verdict::Done));
        }
        (last.since(start), ready)
    }
}

#[test]
fn the_first_burst_after_packets_of_all_sizes_is_as_fast_as_later_ones() {
    let mut ends = Ends::new();
    // The first packets of hosts: a few that are next to empty.
    for text in [28, 28, 38, 38, 28, 38] {
        ends.packets(text, &mut Vec::new());
        ends.pause(ms(10));
    }
    ends.pause(ms(4000));
    ends.sweep();
    ends.pause(ms(4000));
    let first = ends.burst(300, SHORT);
    ends.pause(ms(4000));
    let second = ends.burst(300, SHORT);
    println!("first {first:?}, second {second:?}");
    assert_eq!((first.1, second.1), (600, 600), "all were made ahead");
}

#[test]
fn long_packets_between_short_ones_find_their_key_stream() {
    let mut ends = Ends::new();
    for _ in 0..40 {
        let mut seen = Vec::new();
        ends.packets(SHORT, &mut seen);
        ends.packets(LONG, &mut seen);
        ends.pause(ms(40));
    }
    ends.pause(ms(2000));
    let before = ends.engine.stats().waited;
    for _ in 0..20 {
        let mut seen = Vec::new();
        for text in [SHORT, SHORT, LONG] {
            ends.packets(text, &mut seen);
        }
        assert_eq!(seen.len(), 6, "none waits");
        ends.pause(ms(100));
    }
    assert_eq!(ends.engine.stats().waited, before);
}

#[test]
fn a_change_from_short_to_long_packets_is_caught_up_with_in_any_ring() {
    for (profile, blocks) in [("microsd", 512), ("microsd", 1 << 13), ("tpm", 4096)] {
        let mut engine = engine(profile, Settings { blocks, ..settings() });
        let key = engine.install(&on_token(GCM, Op::Seal, true, 1)).unwrap();
        let (mut now, mut number, mut asked) = (Instant::ZERO, 0, 0);
        for (text, count) in [(64, 200), (1000, 80), (1000, 20)] {
            asked = engine.stats().asked;
            for _ in 0..count {
                number += 1;
                drain(&mut engine, &mut now);
                submit(&mut engine, now, job(key, Op::Seal, BASE, number, text));
            }
            drain(&mut engine, &mut now);
        }
        let asked = engine.stats().asked - asked;
        assert_eq!(asked, 0, "{profile}, {blocks} blocks: long packets need no question");
    }
}
