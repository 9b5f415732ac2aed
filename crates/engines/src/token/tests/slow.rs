//! A slow token: how much faster a full ring is, and what its failures do.

use super::*;

/// Packets of so many octets sealed back to back for a time.
fn packets_in(
    engine: &mut TokenEngine<Packet>,
    key: KeyId,
    text: usize,
    first: u64,
    time: Duration,
) -> u64 {
    let mut now = Instant::ZERO;
    drain(engine, &mut now);
    let (start, mut number) = (now, first);
    while now.since(start) < time {
        if submit(engine, now, job(key, Op::Seal, BASE, number, text)).is_none() {
            now = drain(engine, &mut now).last().map_or(now, |(at, _)| *at);
        }
        number += 1;
        now += Duration::from_micros(20);
    }
    number - first
}

#[test]
fn a_full_buffer_is_at_least_20_times_faster_than_the_delayed_token_until_it_empties() {
    let mut engine = engine("microsd", Settings { blocks: 1 << 16, reach: 1 << 14, ..settings() });
    let key = engine.install(&on_token(GCM, Op::Seal, true, 1)).unwrap();
    let fast = packets_in(&mut engine, key, 64, 1, ms(100));
    // Packet by packet: one exchange for each, 12 ms.
    let slow = ms(100).as_micros() as u64 / 12_000;
    assert!(fast >= 20 * slow, "{fast} packets instead of {slow}");
    assert_eq!(engine.stats().waited, 0, "until it empties");
}

#[test]
fn the_depth_follows_the_traffic() {
    let mut engine = engine("microsd", Settings { blocks: 1 << 13, ..settings() });
    let key = engine.install(&on_token(GCM, Op::Seal, true, 1)).unwrap();
    let mut now = Instant::ZERO;
    let mut ready = [0; 2];
    let mut number = 0;
    for (phase, text) in [(0, 1420), (1, 1420)] {
        for _ in 0..60 {
            number += 1;
            drain(&mut engine, &mut now);
            let back = submit(&mut engine, now, job(key, Op::Seal, BASE, number, text));
            ready[phase] += u64::from(back.is_some());
        }
    }
    assert!(ready[0] < 60 && ready[1] == 60, "long packets are whole soon: {ready:?}");
}

#[test]
fn a_token_that_fails_lets_no_half_sealed_packet_out() {
    struct Dies(SoftToken, u32);
    impl Provider for Dies {
        fn open(&mut self, key: u32, label: &str, aes: Aes) -> Result<(), TokenError> {
            self.0.open(key, label, aes)
        }
        fn close(&mut self, key: u32) {
            self.0.close(key);
        }
        fn ecb(&mut self, key: u32, blocks: &mut [Block]) -> Result<(), TokenError> {
            self.1 = self.1.saturating_sub(1);
            if self.1 == 0 { Err(TokenError::Gone) } else { self.0.ecb(key, blocks) }
        }
    }
    let profile = TokenProfile::shipped("microsd").unwrap();
    let line = Virtual::new(Dies(SoftToken::new(key_of), 3), profile);
    let mut engine = TokenEngine::new(Box::new(line), 126, settings()).unwrap();
    let key = engine.install(&on_token(GCM, Op::Seal, true, 1)).unwrap();
    let mut now = Instant::ZERO;
    // The second exchange brings the first run, and the third fails.
    until(&mut engine, &mut now, Instant::from_millis(28));
    assert!(submit(&mut engine, now, job(key, Op::Seal, BASE, 1, 4000)).is_none());
    let back = until(&mut engine, &mut now, Instant::from_millis(300));
    let failed = back.first().expect("it comes back");
    assert_eq!(failed.verdict, Verdict::Failed);
    assert!(failed.buf[AD..AD + 4000].iter().all(|&octet| octet == 0), "nothing of it is left");
}

#[test]
fn a_token_that_hangs_fails_its_packets_and_leaves_nothing_half_done() {
    /// Takes an exchange, and gives it back only after a long time.
    struct Hangs(Option<Box<Exchange>>);
    impl Line for Hangs {
        fn open(&mut self, _: u32, _: &str, _: Aes) {}
        fn close(&mut self, _: u32) {}
        fn begin(&mut self, _: Instant, exchange: Box<Exchange>) -> Result<(), Box<Exchange>> {
            self.0 = Some(exchange);
            Ok(())
        }
        fn end(&mut self, now: Instant) -> Option<Box<Exchange>> {
            if now < Instant::from_secs(60) { None } else { self.0.take() }
        }
        fn poll_timeout(&self) -> Option<Instant> {
            None
        }
    }
    let mut engine = TokenEngine::new(Box::new(Hangs(None)), 126, settings()).unwrap();
    let key = engine.install(&on_token(GCM, Op::Seal, true, 1)).unwrap();
    for number in 1..=30 {
        let now = Instant::from_millis(number);
        assert!(submit(&mut engine, now, job(key, Op::Seal, BASE, number, 100)).is_none());
    }
    let mut done = Jobs::new();
    engine.collect(Instant::from_millis(1900), &mut done);
    assert_eq!((done.len(), engine.report()[0].state), (0, "works"));
    engine.collect(Instant::from_millis(2500), &mut done);
    assert_eq!((done.len(), engine.in_flight()), (30, 0));
    assert!(done.iter().all(|job| job.verdict == Verdict::Failed));
    assert_eq!(engine.report()[0].state, "hangs");
    // The token answers after all: the late answer is discarded, and new packets go on.
    engine.pump(Instant::from_secs(61));
    assert_ne!(engine.report()[0].state, "hangs");
}

#[test]
fn the_queue_is_bounded_and_every_packet_comes_back_once() {
    let mut engine = engine("microsd", settings());
    let key = engine.install(&on_token(GCM, Op::Seal, true, 1)).unwrap();
    let (mut now, mut refused) = (Instant::ZERO, 0);
    for number in 1..=3000 {
        if let Some(back) = submit(&mut engine, now, job(key, Op::Seal, BASE, number, 100)) {
            assert_eq!(back.verdict, Verdict::Pending, "no room");
            refused += 1;
        }
    }
    assert_eq!(engine.in_flight(), super::super::engine::WAITS_MAX);
    let back = drain(&mut engine, &mut now);
    assert_eq!((back.len() + refused, engine.in_flight()), (3000, 0));
}

#[test]
fn a_retired_key_lives_until_its_last_packet_is_back() {
    let mut engine = engine("microsd", settings());
    let key = engine.install(&on_token(GCM, Op::Seal, true, 1)).unwrap();
    let mut now = Instant::ZERO;
    assert!(submit(&mut engine, now, job(key, Op::Seal, BASE, 1, 100)).is_none());
    engine.retire(key);
    let refused = submit(&mut engine, now, job(key, Op::Seal, BASE, 2, 100)).expect("at once");
    assert_eq!(refused.verdict, Verdict::Failed);
    let back = drain(&mut engine, &mut now);
    assert_eq!((back.len(), back[0].1.verdict), (1, Verdict::Done));
    assert_eq!(back[0].1.buf, sealed(key, BASE, 1, 100).buf);
    let again = engine.install(&on_token(GCM, Op::Seal, true, 1)).unwrap();
    assert_eq!((again.slot, again.generation), (key.slot, key.generation + 1));
    assert_eq!(engine.ahead(key), Some(0), "nothing was made for it yet");
}

#[test]
fn key_stream_of_a_silent_sa_is_wiped_and_made_again_when_it_speaks() {
    let keep = Some(Duration::from_secs(60));
    let mut engine = engine("usb-hsm", Settings { keep, ..settings() });
    let key = engine.install(&on_token(GCM, Op::Open, true, 1)).unwrap();
    let mut now = Instant::ZERO;
    drain(&mut engine, &mut now);
    assert!(engine.ahead(key) > Some(10));
    engine.pump(Instant::from_secs(61));
    assert_eq!(engine.ahead(key), Some(0), "bounded in time");
    now = Instant::from_secs(62);
    assert!(submit(&mut engine, now, sealed(key, BASE, 5, 64)).is_none());
    assert_eq!(drain(&mut engine, &mut now)[0].1.verdict, Verdict::Done);
    assert!(engine.ahead(key) > Some(10));
}

#[test]
fn two_directions_share_the_token_in_turn() {
    let mut engine = engine("microsd", settings());
    let out = engine.install(&on_token(GCM, Op::Seal, true, 1)).unwrap();
    let inn = engine.install(&on_token(GCM, Op::Open, true, 1)).unwrap();
    let mut now = Instant::ZERO;
    until(&mut engine, &mut now, Instant::from_millis(16 * 8));
    let ahead = [out, inn].map(|key| engine.ahead(key).unwrap());
    assert!(ahead[0].abs_diff(ahead[1]) <= 18 && ahead[0] > 30, "{ahead:?}");
}
