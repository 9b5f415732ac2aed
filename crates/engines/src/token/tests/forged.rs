//! Forged and unexpected packets must do no harm to a receiver.

use super::*;

/// A receiver with its ring full at packet 1, after 20 packets.
fn receiver(known: bool) -> (TokenEngine<Packet>, KeyId, Instant) {
    let mut engine = engine("microsd", settings());
    let key = engine.install(&on_token(GCM, Op::Open, known, 1)).unwrap();
    let mut now = Instant::ZERO;
    drain(&mut engine, &mut now);
    for number in 1..=20 {
        let back = submit(&mut engine, now, sealed(key, BASE, number, 64));
        let back = back.or_else(|| drain(&mut engine, &mut now).pop().map(|(_, job)| job));
        assert_eq!(back.map(|job| job.verdict), Some(Verdict::Done));
    }
    drain(&mut engine, &mut now);
    (engine, key, now)
}

fn forge(key: KeyId, number: u64) -> Job<Packet> {
    let mut forged = sealed(key, BASE, number, 64);
    forged.buf[AD + 5] ^= 1;
    forged
}

#[test]
fn a_forged_very_large_counter_neither_makes_the_receiver_wait_nor_moves_the_window() {
    let (mut engine, key, mut now) = receiver(true);
    let ahead = engine.ahead(key);
    for number in [5000, 1 << 20, u64::from(u32::MAX), u64::MAX - 1] {
        let back = submit(&mut engine, now, forge(key, number)).expect("at once");
        assert_eq!(back.verdict, Verdict::Gone);
        let next = submit(&mut engine, now, sealed(key, BASE, 21, 64));
        let next = next.expect("an authentic packet does not wait for a forged one");
        assert!(matches!(next.verdict, Verdict::Done));
        // The packet used its run; the next one stands in for it.
        let (mut other, other_key, other_now) = receiver(true);
        std::mem::swap(&mut engine, &mut other);
        assert_eq!((key, now), (other_key, other_now));
    }
    for _ in 0..3000 {
        submit(&mut engine, now, forge(key, 1 << 30));
    }
    drain(&mut engine, &mut now);
    assert_eq!(engine.ahead(key), ahead, "the window stands where it stood");
    let next = submit(&mut engine, now, sealed(key, BASE, 21, 64)).expect("made ahead");
    assert_eq!((next.verdict, engine.stats().followed), (Verdict::Done, 0));
}

#[test]
fn a_forged_packet_does_not_use_up_the_key_stream_of_the_real_one() {
    let (mut engine, key, now) = receiver(true);
    let before = engine.stats();
    for number in 21..60 {
        let back = submit(&mut engine, now, forge(key, number)).expect("at once");
        assert_eq!(back.verdict, Verdict::BadIcv);
    }
    assert_eq!(engine.stats().exchanges, before.exchanges, "and it costs the token nothing");
    for number in 21..60 {
        let back = submit(&mut engine, now, sealed(key, BASE, number, 64)).expect("made ahead");
        assert_eq!(back.verdict, Verdict::Done);
    }
}

#[test]
fn an_authentic_jump_is_followed_after_one_question_to_the_token() {
    for known in [true, false] {
        let (mut engine, key, mut now) = receiver(known);
        let jump = 1 << 20;
        let back = submit(&mut engine, now, sealed(key, BASE, jump, 64)).expect("at once");
        assert_eq!(back.verdict, Verdict::Gone, "dropped and counted, and remembered");
        drain(&mut engine, &mut now);
        assert_eq!((engine.stats().followed, engine.stats().gone), (1, 1));
        let back = submit(&mut engine, now, sealed(key, BASE, jump + 1, 64));
        assert_eq!(back.expect("made ahead").verdict, Verdict::Done);
    }
}

#[test]
fn exact_refetch_or_counted_drop_of_a_late_packet_as_configured() {
    for drop_gone in [false, true] {
        let settings = Settings { drop_gone, behind: 4, ..settings() };
        let mut engine = engine("microsd", settings);
        let key = engine.install(&on_token(GCM, Op::Open, true, 1)).unwrap();
        let mut now = Instant::ZERO;
        drain(&mut engine, &mut now);
        for number in 2..=10 {
            let back = submit(&mut engine, now, sealed(key, BASE, number, 64));
            assert_eq!(back.expect("made ahead").verdict, Verdict::Done);
        }
        // Packet 1 is nine behind, where four are kept.
        let (start, asked) = (now, engine.stats().asked);
        let back = submit(&mut engine, now, sealed(key, BASE, 1, 64));
        if drop_gone {
            assert_eq!(back.expect("at once").verdict, Verdict::Gone);
            assert_eq!(engine.stats().gone, 1);
        } else {
            assert!(back.is_none());
            let (at, job) = drain(&mut engine, &mut now).remove(0);
            assert_eq!(job.verdict, Verdict::Done);
            let plain = super::job(key, Op::Seal, BASE, 1, 64).buf;
            assert_eq!(job.buf[..AD + 64], plain[..AD + 64]);
            assert!(engine.stats().asked > asked && at.since(start) >= ms(12));
        }
    }
}

#[test]
fn a_nonce_of_another_kind_than_was_learned_is_a_stranger() {
    let (mut engine, key, mut now) = receiver(false);
    // The number fits, the IV does not: the sender is not the peer.
    let mut odd = sealed(key, BASE, 25, 64);
    odd.nonce[11] ^= 0x40;
    let back = submit(&mut engine, now, odd).expect("at once");
    assert_eq!(back.verdict, Verdict::Gone);
    drain(&mut engine, &mut now);
    assert_eq!(engine.stats().followed, 0);
    let back = submit(&mut engine, now, sealed(key, BASE, 21, 64)).expect("made ahead");
    assert_eq!(back.verdict, Verdict::Done);
}
