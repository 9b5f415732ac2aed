//! A token that refuses, SAs that go while it works: every packet comes back with a
//! reason, within two seconds.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Behaviour of a token, controlled by the test.
#[derive(Default)]
struct Mood {
    refuses: AtomicBool,
    asked: AtomicU64,
}

/// A token that refuses when it is told to.
struct Moody(SoftToken, Arc<Mood>);

impl Provider for Moody {
    fn open(&mut self, key: u32, label: &str, aes: Aes) -> Result<(), TokenError> {
        self.0.open(key, label, aes)
    }
    fn close(&mut self, key: u32) {
        self.0.close(key);
    }
    fn ecb(&mut self, key: u32, blocks: &mut [Block]) -> Result<(), TokenError> {
        self.1.asked.fetch_add(1, Ordering::SeqCst);
        match self.1.refuses.load(Ordering::SeqCst) {
            true => Err(TokenError::Call("C_Encrypt", "0x30".into())),
            false => self.0.ecb(key, blocks),
        }
    }
}

fn moody(settings: Settings) -> (TokenEngine<Packet>, Arc<Mood>) {
    let mood = Arc::new(Mood::default());
    let profile = TokenProfile::shipped("microsd").unwrap();
    let token = Moody(SoftToken::new(key_of), mood.clone());
    let line = Virtual::new(token, profile);
    (TokenEngine::new(Box::new(line), 126, settings).unwrap(), mood)
}

const STUDY: Suite = Suite::AesCtrStudy(Aes::Aes128, ferrule_crypto::Mac::HmacSha1_96);

#[test]
fn packets_of_a_token_that_refuses_an_exchange_are_released_and_it_is_asked_again_later() {
    for suite in [GCM, STUDY] {
        let (mut engine, mood) = moody(settings());
        mood.refuses.store(true, Ordering::SeqCst);
        let key = engine.install(&on_token(suite, Op::Seal, true, 1)).unwrap();
        let mut now = Instant::ZERO;
        let packet =
            |number| Job { ad: Ad::Span(Span::new(0, AD)), ..job(key, Op::Seal, BASE, number, 64) };
        assert!(submit(&mut engine, now, packet(1)).is_none(), "{suite}: it waits");
        let back = until(&mut engine, &mut now, Instant::from_millis(1000));
        assert_eq!((back.len(), engine.in_flight()), (1, 0), "{suite}");
        assert_eq!(back[0].verdict, Verdict::Failed);
        // While the token is left alone nothing waits for it, and it is not asked in vain
        // all the time.
        let next = submit(&mut engine, now, packet(2)).expect("at once");
        assert_eq!(next.verdict, Verdict::Failed);
        let asked = mood.asked.load(Ordering::SeqCst);
        assert!((2..=8).contains(&asked), "{suite}: {asked} exchanges in a second");
        assert_ne!(engine.report()[0].state, "works");
        mood.refuses.store(false, Ordering::SeqCst);
        let _ = until(&mut engine, &mut now, Instant::from_millis(4000));
        let done = submit(&mut engine, now, packet(3));
        let done = done.unwrap_or_else(|| panic!("{suite}: made ahead, {:?}", engine.report()));
        assert_eq!((done.verdict, engine.report()[0].state), (Verdict::Done, "works"), "{suite}");
    }
}

#[test]
fn what_is_made_already_is_used_while_the_token_refuses() {
    let (mut engine, mood) = moody(settings());
    let key = engine.install(&on_token(GCM, Op::Seal, true, 1)).unwrap();
    let mut now = Instant::ZERO;
    drain(&mut engine, &mut now);
    mood.refuses.store(true, Ordering::SeqCst);
    for number in 1..=50 {
        let done = submit(&mut engine, now, job(key, Op::Seal, BASE, number, 64));
        assert_eq!(done.expect("made ahead").verdict, Verdict::Done);
    }
    now += ms(100);
    engine.pump(now);
    now += ms(16);
    engine.pump(now);
    let long = submit(&mut engine, now, job(key, Op::Seal, BASE, 51, 1400));
    let mut back: Vec<_> = long.into_iter().collect();
    back.extend(until(&mut engine, &mut now, Instant::from_secs(60)));
    assert_eq!((back.len(), back[0].verdict), (1, Verdict::Failed), "what needs more is released");
    assert!(
        back[0].buf[AD..].iter().all(|octet| *octet == 0),
        "no key stream and no E(J0) is left"
    );
}

#[test]
fn what_a_token_refused_to_make_ahead_is_made_when_it_answers_again() {
    let (mut engine, mood) = moody(settings());
    let key = engine.install(&on_token(GCM, Op::Seal, true, 1)).unwrap();
    let mut now = Instant::ZERO;
    until(&mut engine, &mut now, Instant::from_millis(40));
    mood.refuses.store(true, Ordering::SeqCst);
    until(&mut engine, &mut now, Instant::from_secs(5));
    mood.refuses.store(false, Ordering::SeqCst);
    until(&mut engine, &mut now, Instant::from_secs(10));
    for number in 1..=100 {
        let done = submit(&mut engine, now, job(key, Op::Seal, BASE, number, 64));
        assert_eq!(done.expect("made ahead").verdict, Verdict::Done, "{number}");
    }
}

#[test]
fn no_packet_of_an_sa_that_is_retired_while_it_waits_hangs() {
    for suite in [GCM, STUDY] {
        for refuses in [false, true] {
            let (mut engine, mood) = moody(settings());
            let other = engine.install(&on_token(suite, Op::Seal, true, 1)).unwrap();
            let key = engine.install(&on_token(suite, Op::Seal, true, 1)).unwrap();
            mood.refuses.store(refuses, Ordering::SeqCst);
            let mut now = Instant::ZERO;
            let packet = |key, number| Job {
                ad: Ad::Span(Span::new(0, AD)),
                ..job(key, Op::Seal, BASE, number, 1000)
            };
            // The token is busy with the other SA: this one has not even its hash key.
            assert!(submit(&mut engine, now, packet(other, 1)).is_none());
            for number in 1..=5 {
                assert!(submit(&mut engine, now, packet(key, number)).is_none());
            }
            engine.retire(key);
            let back = until(&mut engine, &mut now, Instant::from_millis(2500));
            let own: Vec<_> = back.iter().filter(|job| job.key == key).collect();
            assert_eq!((own.len(), engine.in_flight()), (5, 0), "{suite} {refuses}");
            let verdict = if refuses { Verdict::Failed } else { Verdict::Done };
            assert!(own.iter().all(|job| job.verdict == verdict), "{suite} {refuses}");
            let again = engine.install(&on_token(suite, Op::Seal, true, 1)).unwrap();
            assert_eq!(again.slot, key.slot, "it is gone with its last packet");
        }
    }
}

#[test]
fn no_packet_waits_longer_than_two_seconds_whatever_the_token_is_busy_with() {
    // So slow that the packets of a second take it a minute.
    let slow = "name = 'x'\nabout = ''\nsource = 'assumed'\nexchange-octets = 256\n\
                [[step]]\noctets = 256\nmicroseconds = 300000\n";
    let profile = TokenProfile::parse(slow).unwrap();
    let most = profile.blocks_max();
    let line = Virtual::new(SoftToken::new(key_of), profile);
    let mut engine = TokenEngine::new(Box::new(line), most, settings()).unwrap();
    let key = engine.install(&on_token(GCM, Op::Seal, true, 1)).unwrap();
    let mut now = Instant::ZERO;
    let mut back = Vec::new();
    for number in 1..=200 {
        back.extend(submit(&mut engine, now, job(key, Op::Seal, BASE, number, 600)));
        let next = now + ms(5);
        back.extend(until(&mut engine, &mut now, next));
    }
    back.extend(until(&mut engine, &mut now, Instant::from_millis(3100)));
    assert_eq!((back.len(), engine.in_flight()), (200, 0), "two seconds after the last came");
    assert!(back.iter().any(|job| job.verdict == Verdict::Failed));
    let clean = |job: &&Job<Packet>| {
        job.verdict == Verdict::Done || job.buf[AD + 600..].iter().all(|octet| *octet == 0)
    };
    assert!(back.iter().all(|job| clean(&job)));
    assert!(engine.report()[0].latencies[0].1.most <= ms(2000));
}
