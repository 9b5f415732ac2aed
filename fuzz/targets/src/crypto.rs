//! Batches of jobs of any shape, given to every backend: all must do what the
//! portable one does, octet by octet, and leave no text of what they refuse.

use crate::input::Input;
use ferrule_base::Secret;
use ferrule_crypto::table::KeyTable;
use ferrule_crypto::{Ad, Backend, Job, KeyId, KeySpec, Op, Span, Suite, Verdict};

/// Keys of an input: of every suite.
const KEYS: u8 = 56;
/// Jobs of an input at most: more than a batch.
const JOBS_MAX: usize = 80;
/// Octets of a buffer at most.
const BUFFER_MAX: usize = 6000;

/// The same keys in a backend's own form.
fn keys(backend: Backend, first: u8) -> (KeyTable, Vec<KeyId>) {
    let mut table = KeyTable::default();
    let ids = (0..KEYS).zip(Suite::software()).map(|(i, suite)| {
        let octets = |len: usize| {
            let octet = |n: usize| first.wrapping_mul(i).wrapping_add(n as u8);
            Secret::new((0..len).map(octet).collect())
        };
        let spec = KeySpec::new(suite, octets(suite.key_len()), octets(suite.mac_key_len()));
        table.insert(backend.key(&spec).expect("a key")).expect("room")
    });
    let ids = ids.collect();
    (table, ids)
}

/// Parameters of a job; the key by its number.
#[derive(Clone)]
struct Shape {
    key: usize,
    op: Op,
    nonce: [u8; 12],
    ad: Ad,
    text: Span,
    buf: Vec<u8>,
}

impl Shape {
    fn read(input: &mut Input<'_>, before: Option<&Self>) -> Self {
        let how = input.u8();
        // Packets that are alike go a way of their own.
        if let Some(before) = before.filter(|_| how & 0xc0 == 0) {
            let mut again = before.clone();
            again.nonce[11] ^= how;
            return again;
        }
        let seed = input.u8();
        let len = usize::from(input.u16()) % BUFFER_MAX;
        let span = |input: &mut Input<'_>| {
            let (start, len) = (input.u8().into(), input.u16() % 2100);
            Span { start, len }
        };
        let (ad, text) = (span(input), Span { start: input.u16() % 600, len: input.u16() % 5000 });
        let ad = match how & 3 {
            0 => Ad::Inline([seed; 12]),
            1 if how & 8 == 0 => Ad::SpanThen(ad, [seed; 4]),
            1 => Ad::Widened(ad, [seed; 4]),
            2 => Ad::Span(Span { start: 0, len: text.start }),
            _ => Ad::Span(ad),
        };
        Self {
            key: usize::from(input.u8() % KEYS),
            op: if how & 4 == 0 { Op::Seal } else { Op::Open },
            nonce: [seed ^ how; 12],
            ad,
            text,
            buf: (0..len).map(|i| (i as u8).wrapping_mul(seed | 1)).collect(),
        }
    }

    fn job(&self, keys: &[KeyId]) -> Job<Vec<u8>> {
        let Self { key, op, nonce, ad, text, ref buf } = *self;
        let (key, verdict) = (keys[key], Verdict::Pending);
        Job { buf: buf.clone(), key, ticket: 0, number: 0, nonce, op, verdict, ad, text }
    }
}

fn done(backend: Backend, first: u8, shapes: &[Shape]) -> Vec<Job<Vec<u8>>> {
    let (table, ids) = keys(backend, first);
    let mut jobs: Vec<_> = shapes.iter().map(|shape| shape.job(&ids)).collect();
    backend.run(&table, &mut jobs);
    jobs
}

/// One batch in every backend, then what was sealed, some of it forged, opened.
pub fn crypto(data: &[u8]) {
    let mut input = Input::new(data);
    let first = input.u8();
    let mut shapes: Vec<Shape> = Vec::new();
    while !input.is_empty() && shapes.len() < JOBS_MAX {
        shapes.push(Shape::read(&mut input, shapes.last()));
    }
    let right = same_everywhere(first, &shapes);
    for (i, (shape, job)) in shapes.iter_mut().zip(right).enumerate() {
        if shape.op == Op::Seal && job.verdict == Verdict::Done {
            (shape.op, shape.buf) = (Op::Open, job.buf);
            let at = job.text.start as usize + i % (usize::from(job.text.len) + 1);
            if i % 3 == 0 {
                shape.buf[at] ^= 1 << (i % 8);
            }
        }
    }
    same_everywhere(first, &shapes);
}

/// Results of the jobs, the same on all backends; panics if they differ.
fn same_everywhere(first: u8, shapes: &[Shape]) -> Vec<Job<Vec<u8>>> {
    let right = done(Backend::Portable, first, shapes);
    for &backend in Backend::all() {
        for (mine, (right, given)) in
            done(backend, first, shapes).iter().zip(right.iter().zip(shapes))
        {
            assert_eq!(mine.verdict, right.verdict, "{backend:?} {:?} {:?}", mine.text, mine.ad);
            if mine.verdict != Verdict::BadIcv {
                assert!(mine.buf == right.buf, "{backend:?} {:?} {:?}", mine.text, mine.ad);
                continue;
            }
            // Refused: as it was, or zeros.
            let (text, was) = (&mine.buf[mine.text.range()], &given.buf[mine.text.range()]);
            assert!(text == was || text.iter().all(|&o| o == 0), "{backend:?} shows a text");
        }
    }
    right
}

/// Batches of every kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut rng = ferrule_base::Rng::new(9);
    let seed = |_| {
        let mut octets = vec![0; 16 + rng.below(400) as usize];
        rng.fill(&mut octets);
        octets
    };
    (0..64).map(seed).collect()
}
