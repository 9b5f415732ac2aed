//! Limit to the share of a token that unauthenticated packets can take.

use super::super::engine::{UNPROVEN_MAX, WAITS_MAX};
use super::*;

fn forge(key: KeyId, number: u64) -> Job<Packet> {
    let mut forged = sealed(key, BASE, number, 64);
    forged.buf[AD + 5] ^= 1;
    forged
}

#[test]
fn forged_packets_inside_the_look_ahead_take_half_of_the_exchanges_and_places_at_most() {
    let mut engine = engine("microsd", Settings { reach: 1 << 16, ..settings() });
    let inn = engine.install(&on_token(GCM, Op::Open, true, 1)).unwrap();
    let mut now = Instant::ZERO;
    drain(&mut engine, &mut now);
    // Behind the key stream made ahead, and near enough to be waited for.
    let first = 600;
    let out = engine.install(&on_token(GCM, Op::Seal, true, 1)).unwrap();
    let (mut refused, mut number) = (0, first);
    let before = engine.stats().exchanges;
    for _ in 0..100 {
        for _ in 0..400 {
            number = if number < 900 { number + 1 } else { first };
            let back = submit(&mut engine, now, forge(inn, number));
            refused += usize::from(back.is_some_and(|job| job.verdict == Verdict::Pending));
        }
        assert!(engine.in_flight() <= UNPROVEN_MAX, "{} places", engine.in_flight());
        let next = now + ms(8);
        until(&mut engine, &mut now, next);
    }
    assert!(refused > 1000, "{refused} found no place");
    let exchanges = engine.stats().exchanges - before;
    // 0.8 s are 50 exchanges of 16 ms; a ring of 2,048 blocks takes less than 20.
    assert!(exchanges >= 40, "{exchanges}");
    assert!(engine.ahead(out) > Some(200), "the other SA was filled: {:?}", engine.ahead(out));
    for number in 1..=(WAITS_MAX - UNPROVEN_MAX) as u64 {
        let packet = job(out, Op::Seal, BASE, number, 64);
        let back = submit(&mut engine, now, packet);
        assert!(back.is_none_or(|job| job.verdict == Verdict::Done), "there is room for our own");
    }
    let back = drain(&mut engine, &mut now);
    assert!(back.iter().all(|(_, job)| (job.verdict == Verdict::Done) == (job.key == out)));
}

#[test]
fn packets_of_our_own_wait_for_one_exchange_of_forged_ones_at_most() {
    let settings = Settings { blocks: 512, reach: 1 << 16, ..settings() };
    let mut engine = engine("microsd", settings);
    let inn = engine.install(&on_token(GCM, Op::Open, true, 1)).unwrap();
    let out = engine.install(&on_token(GCM, Op::Seal, true, 1)).unwrap();
    let mut now = Instant::ZERO;
    drain(&mut engine, &mut now);
    for number in 100..100 + UNPROVEN_MAX as u64 {
        // Forged packets at once, for more than four exchanges.
        submit(&mut engine, now, forge(inn, 100 + number % 128));
    }
    let start = now;
    // Longer than the key stream made ahead of it.
    assert!(submit(&mut engine, now, job(out, Op::Seal, BASE, 1, 1400)).is_none());
    let back = drain(&mut engine, &mut now);
    let (at, _) = back.iter().find(|(_, job)| job.key == out).expect("it comes back");
    assert!(at.since(start) <= ms(3 * 16), "{:?}", at.since(start));
}

#[test]
fn a_packet_before_the_nonces_are_learned_gets_one_block_until_it_is_authentic() {
    let mut engine = engine("microsd", settings());
    let key = engine.install(&on_token(GCM, Op::Open, false, 1)).unwrap();
    let mut now = Instant::ZERO;
    drain(&mut engine, &mut now);
    let before = engine.stats().blocks;
    let mut forged = sealed(key, BASE, 7, 1400);
    forged.buf[AD + 5] ^= 1;
    assert!(submit(&mut engine, now, forged).is_none());
    let back = drain(&mut engine, &mut now);
    assert_eq!(back[0].1.verdict, Verdict::BadIcv);
    assert_eq!(engine.stats().blocks - before, 1, "not the 88 of its text");
    assert!(submit(&mut engine, now, sealed(key, BASE, 7, 1400)).is_none());
    assert_eq!(drain(&mut engine, &mut now)[0].1.verdict, Verdict::Done);
}

#[test]
fn forged_packets_neither_wake_what_is_made_ahead_nor_keep_it_awake() {
    let keep = Some(Duration::from_secs(60));
    let mut engine = engine("usb-hsm", Settings { keep, ..settings() });
    let key = engine.install(&on_token(GCM, Op::Open, true, 1)).unwrap();
    let mut now = Instant::ZERO;
    drain(&mut engine, &mut now);
    assert!(engine.ahead(key) > Some(10));
    for second in 1..=90 {
        now = Instant::from_secs(second);
        submit(&mut engine, now, forge(key, 5));
        submit(&mut engine, now, forge(key, 1 << 40));
        let next = now + ms(900);
        until(&mut engine, &mut now, next);
    }
    assert_eq!(engine.ahead(key), Some(0), "it was wiped, and is not made for nobody");
    // The first authentic packet wakes it, even an unexpected one.
    submit(&mut engine, now, sealed(key, BASE, 1 << 20, 64));
    let next = now + ms(900);
    until(&mut engine, &mut now, next);
    assert_eq!(engine.stats().followed, 1);
    assert!(engine.ahead(key) > Some(10));
}

#[test]
fn unexpected_packets_alone_take_no_more_than_half_of_an_idle_tokens_time() {
    let mut engine = engine("microsd", settings());
    let key = engine.install(&on_token(GCM, Op::Open, true, 1)).unwrap();
    let mut now = Instant::ZERO;
    drain(&mut engine, &mut now);
    let before = engine.stats().exchanges;
    for number in 0..1200_u64 {
        submit(&mut engine, now, forge(key, (1 << 40) + number));
        let next = now + ms(1);
        until(&mut engine, &mut now, next);
    }
    // An exchange takes 12 ms, and is followed by as long a rest.
    let asked = engine.stats().exchanges - before;
    assert!((20..=51).contains(&asked), "{asked} in 1.2 s");
}
