//! The two modes, and their common promises.

use super::*;
use ferrule_crypto::Mac;

const STUDY: Suite = Suite::AesCtrStudy(Aes::Aes128, Mac::HmacSha1_96);

/// A packet of the study: its IV in front of the text, a shorter ICV.
fn study_job(key: KeyId, op: Op, number: u64, text: usize) -> Job<Packet> {
    let mut job = job(key, op, BASE, number, 8 + text);
    job.buf.truncate(AD + 8 + text + 12);
    job
}

#[test]
fn two_modes_side_by_side_on_one_token_standard_as_a_stock_peer_and_study_with_its_own_counter() {
    let mut engine = engine("microsd", settings());
    let standard = engine.install(&on_token(GCM, Op::Seal, true, 1)).unwrap();
    let out = engine.install(&on_token(STUDY, Op::Seal, true, 1)).unwrap();
    let inn = engine.install(&on_token(STUDY, Op::Open, true, 1)).unwrap();
    let mut now = Instant::ZERO;
    drain(&mut engine, &mut now);
    for number in 1..=20 {
        let done = submit(&mut engine, now, job(standard, Op::Seal, BASE, number, 100)).unwrap();
        assert_eq!(done.buf, sealed(standard, BASE, number, 100).buf, "any peer's AES-GCM");
        let clear = study_job(out, Op::Seal, number, 100);
        let done = submit(&mut engine, now, clear.map(|buf| buf)).unwrap();
        assert_eq!(done.verdict, Verdict::Done);
        let iv = u64::from_be_bytes(*done.buf[AD..].first_chunk().unwrap());
        assert_eq!(iv, 4096 + 7 * (number - 1), "seven blocks each, from 4096 times number 1 on");
        let back = Job { key: inn, op: Op::Open, verdict: Verdict::Pending, ..done };
        let mut seen: Vec<_> = submit(&mut engine, now, back).into_iter().collect();
        seen.extend(drain(&mut engine, &mut now).into_iter().map(|(_, job)| job));
        let again = study_job(out, Op::Seal, number, 100).buf;
        assert_eq!((seen.len(), seen[0].verdict), (1, Verdict::Done));
        assert_eq!(seen[0].buf[AD + 8..AD + 108], again[AD + 8..AD + 108]);
    }
    let report = engine.report().remove(0);
    let modes: Vec<_> = report.rings.iter().map(|r| (r.mode, r.op)).collect();
    assert_eq!(modes, [("standard", "seal"), ("study", "seal"), ("study", "open")]);
    let mut software = Software::default();
    let refused = Engine::<Packet>::install(&mut software, &spec(STUDY));
    assert!(refused.is_err(), "the study's mode is a token's alone");
}

#[test]
fn bounded_look_ahead_in_both_modes_whatever_the_room() {
    let settings = Settings { blocks: 1 << 15, reach: 16, ..settings() };
    let mut engine = engine("none", settings);
    let standard = engine.install(&on_token(GCM, Op::Open, true, 1)).unwrap();
    let study = engine.install(&on_token(STUDY, Op::Seal, true, 1)).unwrap();
    let mut now = Instant::ZERO;
    drain(&mut engine, &mut now);
    assert_eq!(engine.ahead(standard), Some(16), "packets, though there is room for thousands");
    assert!(engine.ahead(study) <= Some(1 << 15), "blocks: no more than the ring has");
    // One number beyond the reach is dropped at once, one within is opened.
    let far = submit(&mut engine, now, sealed(standard, BASE, 17, 64)).expect("at once");
    assert_eq!((far.verdict, engine.stats().gone), (Verdict::Gone, 1));
    let near = submit(&mut engine, now, sealed(standard, BASE, 16, 64)).expect("made ahead");
    assert_eq!(near.verdict, Verdict::Done);
    let report = engine.report().remove(0);
    assert!(report.rings.iter().all(|r| r.filled <= r.size && r.stop <= r.size), "{report:?}");
}

#[test]
fn exact_refetch_or_counted_drop_in_the_studys_mode_as_configured() {
    for drop_gone in [false, true] {
        // A ring of 640 blocks: packet 1's are overwritten by the time that it comes.
        let ring = Settings { blocks: 640, behind: 0, drop_gone, ..settings() };
        let mut a = engine("none", ring.clone());
        let out = a.install(&on_token(STUDY, Op::Seal, true, 1)).unwrap();
        let mut b = engine("microsd", ring);
        let inn = b.install(&on_token(STUDY, Op::Open, true, 1)).unwrap();
        let (mut now, mut sealed) = (Instant::ZERO, Vec::new());
        for number in 1..=40 {
            sealed.extend(submit(&mut a, now, study_job(out, Op::Seal, number, 1000)));
            sealed.extend(drain(&mut a, &mut now).into_iter().map(|(_, job)| job));
        }
        let late = sealed.remove(0);
        let open =
            |job: Job<Packet>| Job { key: inn, op: Op::Open, verdict: Verdict::Pending, ..job };
        for job in sealed {
            let mut back: Vec<_> = submit(&mut b, now, open(job)).into_iter().collect();
            back.extend(drain(&mut b, &mut now).into_iter().map(|(_, job)| job));
            assert_eq!(back[0].verdict, Verdict::Done);
        }
        let (text, before) = (late.text, b.stats());
        let mut back: Vec<_> = submit(&mut b, now, open(late)).into_iter().collect();
        back.extend(drain(&mut b, &mut now).into_iter().map(|(_, job)| job));
        let clear = study_job(out, Op::Seal, 1, 1000).buf;
        let same = back[0].buf[AD + 8..text.end()] == clear[AD + 8..text.end()];
        let (asked, gone) = (b.stats().asked - before.asked, b.stats().gone - before.gone);
        if drop_gone {
            assert_eq!((back[0].verdict, asked, gone), (Verdict::Gone, 0, 1));
            assert!(!same, "nothing of it is released");
        } else {
            assert_eq!((back[0].verdict, gone), (Verdict::Done, 0));
            assert!(same && asked > 0, "{asked} questions");
        }
    }
}

#[test]
fn implicit_iv_of_esp_is_sealed_and_opened_with_key_stream_made_ahead() {
    let iiv = Suite::AesGcmIiv(Aes::Aes128);
    let mut engine = engine("microsd", settings());
    let out = engine.install(&on_token(iiv, Op::Seal, true, 1)).unwrap();
    let inn = engine.install(&on_token(iiv, Op::Open, true, 1)).unwrap();
    let mut software = Software::default();
    let own = Engine::<Packet>::install(&mut software, &spec(iiv)).unwrap();
    let mut now = Instant::ZERO;
    drain(&mut engine, &mut now);
    for number in 1..=60 {
        let text = [0, 20, 64, 90][number as usize % 4];
        let done = submit(&mut engine, now, job(out, Op::Seal, BASE, number, text));
        let done = done.expect("the sequence number is the IV: it was made ahead");
        let mut jobs = [job(own, Op::Seal, BASE, number, text)];
        software.run(&mut jobs);
        assert_eq!(done.buf, jobs[0].buf, "packet {number}");
        let back = Job { key: inn, op: Op::Open, verdict: Verdict::Pending, ..done };
        let back = submit(&mut engine, now, back).expect("from the first packet on");
        assert_eq!(back.verdict, Verdict::Done);
        let clear = job(out, Op::Seal, BASE, number, text).buf;
        assert_eq!(back.buf[..AD + text], clear[..AD + text]);
    }
    assert_eq!(engine.stats().waited, 0);
}

/// The standard mode's marks: as the study's, beside which it goes on as long as
/// near runs can be made longer.
#[test]
fn watermarks_of_packets_made_ahead_start_at_half_empty_and_rest_when_full() {
    use super::super::ahead::Ahead;
    let mut ahead = Ahead::new(Vault::unlocked(512).unwrap(), 4096, 0, 0);
    let fill = |ahead: &mut Ahead| {
        let mut made = 0;
        while let Some(make) = ahead.make(126) {
            ahead.put(make.number, make.first, &vec![[1; 16]; make.blocks.into()]);
            made += u64::from(make.blocks);
        }
        made
    };
    // Seven blocks each at first, in pages of eight; then these are made full.
    assert_eq!((fill(&mut ahead), ahead.empty()), (512, 0));
    assert!(!ahead.is_filling() && !ahead.wants(), "it rests");
    for number in 0..31 {
        ahead.used(number, 6);
        assert!(!ahead.wants(), "{} of 512 are empty: less than half", ahead.empty());
    }
    ahead.used(31, 6);
    assert!(ahead.wants() && ahead.is_filling(), "half is empty");
    assert_eq!((fill(&mut ahead), ahead.empty(), ahead.wants()), (256, 0, false));
}

#[test]
fn report_of_the_token_engine_has_marks_hits_refetches_gone_and_latency() {
    let mut engine = engine("microsd", Settings { drop_gone: true, behind: 0, ..settings() });
    let key = engine.install(&on_token(GCM, Op::Open, true, 1)).unwrap();
    let mut now = Instant::ZERO;
    assert!(submit(&mut engine, now, sealed(key, BASE, 1, 64)).is_none(), "it waits");
    drain(&mut engine, &mut now);
    assert!(submit(&mut engine, now, sealed(key, BASE, 2, 64)).is_some());
    assert!(submit(&mut engine, now, sealed(key, BASE, 3, 1400)).is_none(), "the rest is asked");
    drain(&mut engine, &mut now);
    let late = submit(&mut engine, now, sealed(key, BASE, 1, 64)).expect("at once");
    assert_eq!(late.verdict, Verdict::Gone);
    let report = engine.report().remove(0);
    let count = |name: &str| report.counters.iter().find(|(n, _)| *n == name).unwrap().1;
    assert_eq!((count("hits"), count("waits"), count("gone")), (1, 2, 1));
    assert!(count("refetches") >= 1 && count("exchanges") > 2 && count("failed") == 0);
    let [(_, wait), (_, exchange)] = report.latencies[..] else { panic!("two") };
    assert_eq!((wait.count, exchange.count), (2, count("exchanges")));
    assert!(wait.median >= ms(12) && exchange.most == ms(16), "{wait:?} {exchange:?}");
    assert_eq!((report.state, report.keys, report.in_flight), ("works", 1, 0));
    let ring = &report.rings[0];
    assert_eq!((ring.key.as_str(), ring.op, ring.state), ("k", "open", "rests"));
    assert_eq!((ring.size, ring.start, ring.stop), (2048, 1024, 2048));
    assert!(ring.filled > 1900 && ring.ahead > 100, "{ring:?}");
}
