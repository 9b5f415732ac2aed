//! Batches of jobs: of any suites, keys, lengths and alignments, some forged, some
//! with spans that point anywhere. Every backend must do what RustCrypto does with
//! one packet after the other.

use crate::input::Input;
use ferrule_base::{Rng, Secret};
use ferrule_crypto::{
    Ad, Backend, Engine, Job, KeyId, KeySpec, Op, Software, Span, Suite, Verdict,
};
use std::sync::OnceLock;

/// Jobs of an input at most: more than a batch.
const JOBS_MAX: usize = 80;

/// Octets of a text at most, and in front of and behind it.
const TEXT_MAX: usize = 2048;
const MARGIN: usize = 64;

/// The reference, and all the others with the same keys.
struct Rig {
    one_by_one: Software,
    engines: Vec<Software>,
    keys: Vec<(KeyId, Suite)>,
}

type Buf = Vec<u8>;

fn rig() -> &'static Rig {
    static RIG: OnceLock<Rig> = OnceLock::new();
    RIG.get_or_init(|| {
        let mut keys = Vec::new();
        let mut install = |backend| {
            let mut engine = Software::new(backend);
            keys.clear();
            for (number, suite) in Suite::software().chain(Suite::software()).enumerate() {
                let octets = |len: usize| {
                    Secret::new(vec![(number as u8).wrapping_mul(13).wrapping_add(1); len])
                };
                let (key, mac_key) = (octets(suite.key_len()), octets(suite.mac_key_len()));
                let spec = KeySpec::new(suite, key, mac_key);
                keys.push((Engine::<Buf>::install(&mut engine, &spec).expect("a key"), suite));
            }
            engine
        };
        let one_by_one = install(Backend::Portable);
        let engines = Backend::all().iter().map(|&backend| install(backend)).collect();
        Rig { one_by_one, engines, keys }
    })
}

/// One job as the input describes it.
fn job(input: &mut Input<'_>, rig: &Rig) -> Job<Buf> {
    let &(key, suite) = input.pick(&rig.keys);
    let how = input.u8();
    let mut len = usize::from(input.u16()) % (TEXT_MAX + 1);
    if suite.text_has_iv() && how & 1 == 0 {
        let block = suite.esp_iv_len();
        len = (len / block).max(1) * block;
    }
    if suite.is_integrity() && how & 1 == 0 {
        len = 0;
    }
    let (front, ad_len) = (usize::from(input.u8()) % MARGIN, usize::from(input.u8()) % MARGIN);
    let span = Span::new(front, ad_len);
    let text = Span::new(front + ad_len, len);
    let mut buf = vec![0; text.end() + suite.icv_len() + usize::from(how >> 5)];
    Rng::new(u64::from(input.u16())).fill(&mut buf);
    let ad = match how >> 1 & 3 {
        0 => Ad::Inline([how; 12]),
        1 if !suite.is_aead() => Ad::SpanThen(span, [how; 4]),
        2 if suite.is_integrity() => Ad::Widened(span, [how; 4]),
        _ => Ad::Span(span),
    };
    let (nonce, verdict) = ([input.u8(); 12], Verdict::Pending);
    let mut job = Job { buf, key, ticket: 0, number: 0, nonce, op: Op::Seal, verdict, ad, text };
    if how & 8 != 0 {
        rig.one_by_one.run(std::slice::from_mut(&mut job));
        job = Job { op: Op::Open, verdict: Verdict::Pending, ..job };
    }
    if how & 16 != 0 {
        match input.u8() % 4 {
            0 => job.text = Span { start: input.u16(), len: input.u16() },
            1 => job.ad = Ad::Span(Span { start: input.u16(), len: input.u16() }),
            2 => job.key.generation = 1,
            _ => {
                let at = usize::from(input.u16()) % job.buf.len();
                job.buf[at] ^= 1 << (input.u8() & 7);
            }
        }
    }
    job
}

/// A batch.
pub fn batch(data: &[u8]) {
    let (mut input, rig) = (Input::new(data), rig());
    let mut jobs = Vec::new();
    while !input.is_empty() && jobs.len() < JOBS_MAX {
        jobs.push(job(&mut input, rig));
    }
    let copy = |jobs: &[Job<Buf>]| -> Vec<Job<Buf>> {
        jobs.iter().map(|job| Job { buf: job.buf.clone(), ..*job }).collect()
    };
    let mut expected = copy(&jobs);
    expected.chunks_mut(1).for_each(|job| rig.one_by_one.run(job));
    for engine in &rig.engines {
        let mut got = copy(&jobs);
        engine.run(&mut got);
        for ((got, expected), before) in got.iter().zip(&expected).zip(&jobs) {
            assert_eq!(got.verdict, expected.verdict, "{:?} {got:?}", engine.backend());
            let suite = rig.keys[got.key.slot as usize].1;
            // An AEAD may leave ciphertext or zeros where the text is not authentic.
            if got.verdict == Verdict::BadIcv && suite.is_aead() {
                let text = got.text.range();
                assert_eq!(got.buf[..text.start], before.buf[..text.start]);
                assert_eq!(got.buf[text.end..], before.buf[text.end..]);
                let text = &got.buf[text];
                assert!(text == &before.buf[got.text.range()] || text.iter().all(|&b| b == 0));
            } else {
                assert!(got.buf == expected.buf, "{:?} {got:?}", engine.backend());
            }
        }
    }
}

/// Batches of all kinds.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut rng = Rng::new(8);
    let seed = |number: u64| {
        let mut octets = vec![0; 12 * (1 + rng.below(70) as usize)];
        rng.fill(&mut octets);
        // Of one suite, of some that are near each other, or of any.
        let key = rng.below(2 * Suite::software().count() as u64) as u8;
        for at in (0..octets.len()).step_by(9) {
            match number % 3 {
                0 => octets[at] = key,
                1 => octets[at] = key.saturating_add(octets[at] % 4),
                _ => {}
            }
        }
        octets
    };
    (0..64).map(seed).collect()
}
