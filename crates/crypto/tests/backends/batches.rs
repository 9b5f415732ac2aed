//! A batch gives the same results as its packets one after the other. The reference is
//! RustCrypto.

use crate::packet::{Packet, counting_spec, text_len, written_iv};
use ferrule_base::Rng;
use ferrule_crypto::{
    Ad, Aes, Backend, Engine, Job, KeyId, Mac, Op, Software, Span, Suite, Verdict,
};

type Buf = Vec<u8>;

const CBC: [Suite; 4] = [
    Suite::AesCbc(Aes::Aes128, Mac::HmacSha1_96),
    Suite::AesCbc(Aes::Aes256, Mac::HmacSha1_96),
    Suite::AesCbc(Aes::Aes128, Mac::HmacSha256_128),
    Suite::AesCbc(Aes::Aes256, Mac::HmacSha256_128),
];

/// Keys of every suite, two of each, in an engine. The same ids in each engine; those
/// of [`CBC`] first, in its order.
fn engine(backend: Backend) -> (Software, Vec<(KeyId, Suite)>) {
    let mut engine = Software::new(backend);
    let mut keys = Vec::new();
    let all = CBC.into_iter().chain(CBC).chain(Suite::software()).chain(Suite::software());
    for (number, suite) in all.enumerate() {
        let spec = counting_spec(suite, (number as u8).wrapping_mul(3));
        keys.push((Engine::<Buf>::install(&mut engine, &spec).unwrap(), suite));
    }
    (engine, keys)
}

/// The text of a packet: an IV where the engine writes one, and `len` octets, at any
/// alignment.
fn packet(rng: &mut Rng, suite: Suite, len: usize, front: usize, ad_len: usize) -> Packet {
    let text = Span::new(front + ad_len, text_len(suite, len));
    let mut buf = vec![0; text.end() + suite.icv_len() + rng.below(9) as usize];
    rng.fill(&mut buf);
    let mut nonce = [0; 12];
    rng.fill(&mut nonce);
    Packet { suite, nonce, ad: Ad::Span(Span::new(front, ad_len)), text, buf }
}

fn any_packet(rng: &mut Rng, suite: Suite) -> Packet {
    // Often short, often alike, sometimes anything up to a page's half.
    let blocks = match rng.below(4) {
        0 => rng.below(6),
        1 => 89,
        _ => rng.below(129),
    };
    let (front, ad_len) = (rng.below(64) as usize, rng.below(40) as usize);
    let mut packet = packet(rng, suite, blocks as usize * 16, front, ad_len);
    let Ad::Span(span) = packet.ad else { unreachable!() };
    packet.ad = match rng.below(4) {
        0 if !suite.is_aead() => Ad::SpanThen(span, [0, 1, 2, rng.below(256) as u8]),
        1 => Ad::Inline(packet.nonce.map(|octet| octet ^ 0x3c)),
        _ => packet.ad,
    };
    packet
}

/// Some to seal, some to open, some forged, some that are judged already, and
/// some that do not fit.
fn any_job(rng: &mut Rng, engine: &Software, (key, suite): (KeyId, Suite), at: u64) -> Job<Buf> {
    let packet = any_packet(rng, suite);
    let mut job = packet.job(Op::Seal, key, at);
    match rng.below(10) {
        0..4 => return job,
        4 => job.text.len = job.text.len.saturating_sub(1),
        5 => job.verdict = Verdict::Failed,
        kind => {
            engine.run(std::slice::from_mut(&mut job));
            assert_eq!(job.verdict, Verdict::Done);
            job = Job { op: Op::Open, verdict: Verdict::Pending, ..job };
            if kind == 6 {
                let covered = job.text.len as usize + suite.icv_len();
                let at = job.text.start as usize + rng.below(covered as u64) as usize;
                job.buf[at] ^= 1 << rng.below(8);
            }
        }
    }
    job
}

fn copy(job: &Job<Buf>) -> Job<Buf> {
    Job { buf: job.buf.clone(), ..*job }
}

/// True if the text is undefined: an AEAD that fails may leave ciphertext or zeros.
fn text_is_undefined(job: &Job<Buf>, suite: Suite) -> bool {
    job.verdict == Verdict::BadIcv && suite.is_aead()
}

#[test]
fn cbc_batches_of_any_mix_come_out_as_one_packet_after_the_other() {
    let mut rng = Rng::new(0xcbc);
    let (one_by_one, keys) = engine(Backend::Portable);
    let engines: Vec<_> = Backend::all().iter().map(|&backend| engine(backend).0).collect();
    for round in 0..250 {
        let count = if round % 3 == 0 { 64 } else { 1 + rng.below(64) };
        // Jobs of one key, of CBC suites, or of any.
        let narrow = keys[rng.below(keys.len() as u64) as usize];
        let mut jobs = Vec::new();
        for at in 0..count {
            let mut key = keys[rng.below(keys.len() as u64) as usize];
            match round % 4 {
                0 if narrow.1.mac().is_some() => key = narrow,
                1 | 2 => key = keys[rng.below(2 * CBC.len() as u64) as usize],
                _ => {}
            }
            jobs.push(any_job(&mut rng, &one_by_one, key, at));
        }
        let mut expected: Vec<_> = jobs.iter().map(copy).collect();
        expected.iter_mut().for_each(|job| one_by_one.run(std::slice::from_mut(job)));
        for engine in &engines {
            let mut got: Vec<_> = jobs.iter().map(copy).collect();
            engine.run(&mut got);
            for (job, expected) in got.iter().zip(&expected) {
                let suite = keys[job.key.slot as usize].1;
                let what = format!("{:?}, round {round}, job {job:?}", engine.backend());
                assert_eq!(job.verdict, expected.verdict, "{what}");
                if !text_is_undefined(job, suite) {
                    assert!(job.buf == expected.buf, "{what}, expected {:?}", expected.buf);
                }
            }
        }
    }
}

#[test]
fn cbc_of_every_length_to_2048_at_every_alignment_is_as_rust_crypto_says() {
    let mut rng = Rng::new(2048);
    let (one_by_one, keys) = engine(Backend::Portable);
    let engines: Vec<_> = Backend::all().iter().map(|&backend| engine(backend).0).collect();
    for (number, &(key, suite)) in keys[..CBC.len()].iter().enumerate() {
        assert_eq!(suite, CBC[number]);
        let lengths: Vec<usize> = (0..=2048).step_by(16).collect();
        // Every alignment beside every length, 64 packets at a time.
        for (round, lengths) in lengths.chunks(8).enumerate() {
            for turn in 0..8 {
                let mut jobs = Vec::new();
                for i in 0..lengths.len() * 8 {
                    let (front, ad_len) = (turn * 8 + i / lengths.len(), [8, 12, 0][round % 3]);
                    let packet = packet(&mut rng, suite, lengths[i % lengths.len()], front, ad_len);
                    jobs.push(packet.job(Op::Seal, key, i as u64));
                }
                let mut sealed: Vec<_> = jobs.iter().map(copy).collect();
                one_by_one.run(&mut sealed);
                for engine in &engines {
                    let mut got: Vec<_> = jobs.iter().map(copy).collect();
                    engine.run(&mut got);
                    assert_sealed(&got, &sealed);
                    for job in &mut got {
                        (job.op, job.verdict) = (Op::Open, Verdict::Pending);
                    }
                    engine.run(&mut got);
                    assert_opened(&got, &jobs);
                }
            }
        }
    }
}

fn assert_sealed(got: &[Job<Buf>], expected: &[Job<Buf>]) {
    for (got, expected) in got.iter().zip(expected) {
        assert_eq!(got.verdict, Verdict::Done);
        assert!(got.buf == expected.buf, "{got:?}, expected {:?}", expected.buf);
    }
}

fn assert_opened(got: &[Job<Buf>], plain: &[Job<Buf>]) {
    for (got, plain) in got.iter().zip(plain) {
        assert_eq!(got.verdict, Verdict::Done);
        let (iv, end) = (got.text.start as usize, got.text.end());
        let text = iv + written_iv(CBC[0]);
        assert!(got.buf[text..end] == plain.buf[text..end], "{got:?}");
        assert_eq!(got.buf[..iv], plain.buf[..iv]);
    }
}

#[test]
fn cbc_with_any_bit_flipped_in_a_batch_is_refused_and_not_decrypted() {
    let mut rng = Rng::new(1);
    for &backend in Backend::all() {
        let (engine, keys) = engine(backend);
        for &(key, suite) in &keys[..CBC.len()] {
            let packet = packet(&mut rng, suite, 96, 3, 8);
            let mut sealed = packet.job(Op::Seal, key, 0);
            engine.run(std::slice::from_mut(&mut sealed));
            let (from, to) = (3, sealed.text.end() + suite.icv_len());
            let bits: Vec<usize> = (from * 8..to * 8).collect();
            for bits in bits.chunks(63) {
                let mut jobs = Vec::new();
                for &bit in bits {
                    let mut job = copy(&sealed);
                    job.buf[bit / 8] ^= 1 << (bit % 8);
                    jobs.push(Job { op: Op::Open, verdict: Verdict::Pending, ..job });
                }
                // A good one among them is opened.
                let good = jobs.len() / 2;
                let whole = Job { op: Op::Open, verdict: Verdict::Pending, ..copy(&sealed) };
                jobs.insert(good, whole);
                let before: Vec<_> = jobs.iter().map(|job| job.buf.clone()).collect();
                engine.run(&mut jobs);
                for (at, (job, before)) in jobs.iter().zip(before).enumerate() {
                    let right = if at == good { Verdict::Done } else { Verdict::BadIcv };
                    assert_eq!(job.verdict, right, "{backend:?} {suite} {bits:?}");
                    assert!(at == good || job.buf == before, "{backend:?}: it was touched");
                }
                assert_eq!(jobs[good].buf[27..27 + 96], packet.buf[27..27 + 96]);
            }
        }
    }
}
