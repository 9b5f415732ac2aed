//! The study's mode: AES-CTR that runs on, with a keyed hash.

use super::*;
use ferrule_base::Rng;
use ferrule_crypto::Mac;

const SUITE: Suite = Suite::AesCtrStudy(Aes::Aes128, Mac::HmacSha1_96);

fn study_job(key: KeyId, op: Op, number: u64, text: usize) -> Job<Packet> {
    let mut job = job(key, op, BASE, number, 8 + text);
    job.buf.truncate(AD + 8 + text);
    job.buf.resize(AD + 8 + text + 12, 0);
    job
}

/// Two ends, each with its token and one key.
fn ends(profile: &str, settings: Settings) -> [(TokenEngine<Packet>, KeyId); 2] {
    [Op::Seal, Op::Open].map(|op| {
        let mut engine = engine(profile, settings.clone());
        let key = engine.install(&on_token(SUITE, op, false, 1)).unwrap();
        (engine, key)
    })
}

#[test]
fn study_mode_round_trip_with_loss_and_reordering() {
    let mut rng = Rng::new(3);
    for profile in ["none", "microsd"] {
        let [(mut a, out), (mut b, inn)] = ends(profile, settings());
        let (mut now, mut sealed) = (Instant::ZERO, Vec::new());
        for number in 1..=200 {
            let text = rng.below(1500) as usize;
            sealed.extend(submit(&mut a, now, study_job(out, Op::Seal, number, text)));
        }
        sealed.extend(drain(&mut a, &mut now).into_iter().map(|(_, job)| job));
        assert_eq!(sealed.len(), 200);
        sealed.sort_by_key(|job| job.ticket);
        let mut counter = u64::MAX;
        for job in &sealed {
            assert_eq!(job.verdict, Verdict::Done);
            let iv = u64::from_be_bytes(*job.buf[AD..].first_chunk().unwrap());
            assert!(counter == u64::MAX || iv == counter, "the counter runs on");
            counter = iv + (job.text.len as u64 - 8).div_ceil(16);
        }
        sealed.retain(|_| !rng.one_in(8));
        for i in (5..sealed.len()).step_by(7) {
            sealed.swap(i, i - 4);
        }
        let sent = sealed.len();
        let mut back = Vec::new();
        for mut job in sealed {
            (job.key, job.op, job.verdict) = (inn, Op::Open, Verdict::Pending);
            back.extend(submit(&mut b, now, job));
            now += ms(1);
            back.extend(until(&mut b, &mut { now }, now));
        }
        back.extend(drain(&mut b, &mut now).into_iter().map(|(_, job)| job));
        assert_eq!(back.len(), sent, "{profile}");
        for job in back {
            assert_eq!(job.verdict, Verdict::Done);
            let text = usize::from(job.text.len) - 8;
            let clear = study_job(inn, Op::Seal, job.ticket, text).buf;
            assert_eq!(job.buf[AD + 8..AD + 8 + text], clear[AD + 8..AD + 8 + text]);
        }
    }
}

#[test]
fn the_studys_counter_block_is_nonce_high_half_and_low_half() {
    let [(mut a, out), _] = ends("none", settings());
    let mut now = Instant::ZERO;
    drain(&mut a, &mut now);
    let sealed = submit(&mut a, now, study_job(out, Op::Seal, 1, 32)).expect("made ahead");
    // One sequence number stands for 4096 counters.
    assert_eq!(sealed.buf[AD..AD + 8], 4096u64.to_be_bytes());
    let mut token = SoftToken::new(key_of);
    token.open(0, "", Aes::Aes128).unwrap();
    let mut stream = [[9, 8, 7, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0], [0; 16]];
    stream[1] = (u128::from_be_bytes(stream[0]) + 1).to_be_bytes();
    token.ecb(0, &mut stream).unwrap();
    let clear = study_job(out, Op::Seal, 1, 32).buf;
    for i in 0..32 {
        assert_eq!(sealed.buf[AD + 8 + i], clear[AD + 8 + i] ^ stream.as_flattened()[i]);
    }
}

#[test]
fn a_forged_packet_of_the_study_touches_no_key_stream() {
    let [(mut a, out), (mut b, inn)] = ends("microsd", settings());
    let mut now = Instant::ZERO;
    drain(&mut a, &mut now);
    let mut first = submit(&mut a, now, study_job(out, Op::Seal, 1, 64)).expect("made ahead");
    (first.key, first.op, first.verdict) = (inn, Op::Open, Verdict::Pending);
    assert!(submit(&mut b, now, first).is_none());
    drain(&mut b, &mut now);
    let (ahead, before) = (b.ahead(inn), b.stats());
    let mut forged = study_job(inn, Op::Open, 2, 64);
    forged.buf[AD..AD + 8].copy_from_slice(&(1u64 << 60).to_be_bytes());
    let back = submit(&mut b, now, forged).expect("at once");
    assert_eq!((back.verdict, b.ahead(inn)), (Verdict::BadIcv, ahead));
    assert_eq!(b.stats().exchanges, before.exchanges);
}

#[test]
fn a_restart_at_a_later_number_never_uses_a_counter_twice() {
    let mut used = std::collections::HashSet::new();
    let mut next = 1;
    for _restart in 0..3 {
        let mut engine = engine("none", settings());
        let key = engine.install(&on_token(SUITE, Op::Seal, false, next)).unwrap();
        let mut now = Instant::ZERO;
        for number in next..next + 20 {
            let job = submit(&mut engine, now, study_job(key, Op::Seal, number, 60_000));
            let job = job.unwrap_or_else(|| drain(&mut engine, &mut now).remove(0).1);
            let first = u64::from_be_bytes(*job.buf[AD..].first_chunk().unwrap());
            for counter in first..first + 3750 {
                assert!(used.insert(counter), "counter {counter} twice");
            }
        }
        next += 20;
    }
}

#[test]
fn long_packets_are_delayed_by_their_size_and_short_ones_are_not() {
    let delays = vec![(1024, ms(5)), (512, ms(3)), (256, ms(2))];
    let [(mut a, out), _] = ends("none", Settings { delays, blocks: 1 << 14, ..settings() });
    let mut now = Instant::ZERO;
    drain(&mut a, &mut now);
    let start = now;
    for (number, text) in [(1, 1200), (2, 1200), (3, 600), (4, 300)] {
        assert!(submit(&mut a, now, study_job(out, Op::Seal, number, text)).is_none());
    }
    let short = submit(&mut a, now, study_job(out, Op::Seal, 5, 100)).expect("at once");
    assert_eq!(short.verdict, Verdict::Done);
    let times: Vec<_> = drain(&mut a, &mut now).iter().map(|(at, _)| at.since(start)).collect();
    assert_eq!(times, [ms(5), ms(10), ms(13), ms(15)]);
}
