//! Known answers for the self-test, made with another implementation (OpenSSL's
//! ciphers, Python's HMAC).
//!
//! Keys, nonce and texts count upwards, so that an answer needs no more than the
//! first octets of its ICV: it stands for the ciphertext, which it covers. One text is shorter
//! than any unrolled loop, the other goes through all of them.
//!
//! The texts are processed one by one and in one batch, so that packets of several keys and
//! lengths stand in one group of a backend that takes several at a time.

mod answers;

use super::Backend;
use crate::job::{Ad, Job, Op, Span, Verdict};
use crate::key::{KeyId, KeySpec};
use crate::suite::{Aes, Suite};
use crate::table::KeyTable;
use answers::{ANSWERS, Answer, answer};
use ferrule_base::Secret;

const NONCE: [u8; 12] = counting(0xa0);
const AD: [u8; 16] = counting(0x40);
const SHORT: usize = 32;
const LONG: usize = 1424;

const fn counting<const N: usize>(from: u8) -> [u8; N] {
    let mut out = [0; N];
    let mut i = 0;
    while i < N {
        out[i] = from + i as u8;
        i += 1;
    }
    out
}

/// The ICVs of every length up to [`SWEEP`], added up (exclusive or).
const SWEEPS: [(Aes, u128); 2] = [
    (Aes::Aes128, 0xeb8f892c_97a0dfd3_51193eca_0048e7c0),
    (Aes::Aes256, 0xe4c0a419_060b0cda_c03833cb_7f0c39e7),
];

/// Beyond every border at which the kernels go another way for small packets.
const SWEEP: usize = 300;

/// Packets at once of the suites that the kernels do in lanes: of each kind more than there
/// are lanes.
const CROWD: usize = 256;

/// A packet whose ICV is known.
struct Question {
    suite: Suite,
    job: Job<Vec<u8>>,
    plain: Vec<u8>,
    icv: u128,
}

impl Answer {
    fn spec(&self) -> KeySpec {
        let octets = |from: u8, len: usize| Secret::new((from..).take(len).collect());
        let (key, mac_key) = (self.suite.key_len(), self.suite.mac_key_len());
        KeySpec::new(self.suite, octets(self.first, key), octets(0x80, mac_key))
    }

    fn question(&self, key: KeyId, len: usize, icv: u128) -> Question {
        // Integrity alone has everything beside the text.
        let beside = AD.len() + if self.suite.is_integrity() { len } else { 0 };
        let text = Span::new(beside, AD.len() + len - beside);
        let ad = Ad::Span(Span::new(0, beside));
        let mut plain = AD.to_vec();
        plain.extend((0..len).map(|i| (i * 7 + 3) as u8));
        let mut buf = plain.clone();
        buf.resize(text.end() + self.suite.icv_len(), 0);
        let (nonce, op, verdict) = (NONCE, Op::Seal, Verdict::Pending);
        let job = Job { buf, key, ticket: 0, number: 0, nonce, op, verdict, ad, text };
        Question { suite: self.suite, job, plain, icv }
    }
}

impl Question {
    fn again(&self) -> Self {
        Self { job: copy(&self.job), plain: self.plain.clone(), ..*self }
    }

    fn is_sealed(&self) -> bool {
        let icv = &self.icv.to_be_bytes()[..self.suite.icv_len().min(size_of::<u128>())];
        self.job.verdict == Verdict::Done && self.job.buf[self.job.text.end()..].starts_with(icv)
    }

    /// The sealed job as one to be opened, with a bit of its text changed if it is to be
    /// refused.
    fn turn(&self, forged: bool) -> Job<Vec<u8>> {
        let Job { mut buf, key, ticket, number, nonce, ad, text, .. } = copy(&self.job);
        buf[(AD.len() + text.end()) / 2] ^= u8::from(forged);
        Job { buf, key, ticket, number, nonce, op: Op::Open, verdict: Verdict::Pending, ad, text }
    }

    fn is_opened(&self, job: &Job<Vec<u8>>, forged: bool) -> bool {
        // CBC's IV stays where it is.
        let from = AD.len() + if self.suite.text_has_iv() { self.suite.esp_iv_len() } else { 0 };
        let (found, plain) = (&job.buf[from..self.job.text.end()], &self.plain[from..]);
        if forged {
            job.verdict == Verdict::BadIcv && found != plain
        } else {
            job.verdict == Verdict::Done && found == plain
        }
    }
}

fn copy(job: &Job<Vec<u8>>) -> Job<Vec<u8>> {
    let Job { ref buf, key, ticket, number, nonce, op, verdict, ad, text } = *job;
    Job { buf: buf.clone(), key, ticket, number, nonce, op, verdict, ad, text }
}

/// Function that runs jobs: a backend, or a faulty one in a test.
pub(super) type Runner<'a> = &'a dyn Fn(&KeyTable, &mut [Job<Vec<u8>>]);

/// The first suite to whose questions the answers are wrong.
pub(super) fn first_wrong(backend: Backend, run: Runner<'_>) -> Option<Suite> {
    ask(&ANSWERS, backend, run).or_else(|| sweeps(backend, run))
}

/// Every packet is to be sealed to its ICV, opened to the same text again, and
/// refused with one bit changed: one by one, in a batch, and those of AES-CBC in a
/// crowd.
fn ask(answers: &[Answer], backend: Backend, run: Runner<'_>) -> Option<Suite> {
    let mut keys = KeyTable::default();
    let mut questions = Vec::new();
    for answer in answers {
        let key = backend.key(&answer.spec()).and_then(|key| keys.insert(key));
        let Ok(key) = key else { return Some(answer.suite) };
        questions.push(answer.question(key, SHORT, answer.short));
        questions.push(answer.question(key, LONG, answer.long));
    }
    let alone: Runner<'_> = &|keys, jobs| jobs.chunks_mut(1).for_each(|job| run(keys, job));
    let one_by_one_and_together =
        [alone, run].into_iter().find_map(|run| wrong_in(&questions, &keys, run));
    let in_lanes = |q: &&Question| matches!(q.suite, Suite::AesCbc(..) | Suite::Null(_));
    let crowd = questions.iter().filter(in_lanes).cycle();
    let crowd: Vec<_> = crowd.take(CROWD).map(Question::again).collect();
    one_by_one_and_together.or_else(|| wrong_in(&crowd, &keys, run))
}

/// Seals packets of every length, alone and four that are alike together: all must
/// be the same, and their ICVs known in sum.
fn sweeps(backend: Backend, run: Runner<'_>) -> Option<Suite> {
    SWEEPS
        .into_iter()
        .find(|&(aes, sum)| sweep(aes, backend, run) != Some(sum))
        .map(|(aes, _)| Suite::AesGcm(aes))
}

fn sweep(aes: Aes, backend: Backend, run: Runner<'_>) -> Option<u128> {
    let answer = answer(Suite::AesGcm(aes), 0, 0);
    let mut keys = KeyTable::default();
    let key = keys.insert(backend.key(&answer.spec()).ok()?).ok()?;
    let mut sum = 0;
    for len in 0..=SWEEP {
        let question = answer.question(key, len, 0);
        let mut alone = [copy(&question.job)];
        let mut four = [(); 4].map(|()| copy(&question.job));
        run(&keys, &mut alone);
        run(&keys, &mut four);
        let [Job { buf, .. }] = alone;
        if four.iter().any(|job| job.verdict != Verdict::Done || job.buf != buf) {
            return None;
        }
        sum ^= u128::from_be_bytes(*buf.last_chunk()?);
    }
    Some(sum)
}

fn wrong_in(questions: &[Question], keys: &KeyTable, run: Runner<'_>) -> Option<Suite> {
    let mut jobs: Vec<_> = questions.iter().map(|question| copy(&question.job)).collect();
    run(keys, &mut jobs);
    let sealed = || {
        let all = questions.iter().zip(&jobs);
        all.map(|(q, job)| Question { job: copy(job), plain: q.plain.clone(), ..*q })
    };
    if let Some(wrong) = sealed().find(|question| !question.is_sealed()) {
        return Some(wrong.suite);
    }
    let mut opened: Vec<_> = sealed().flat_map(|q| [q.turn(false), q.turn(true)]).collect();
    run(keys, &mut opened);
    let pairs = questions.iter().zip(opened.chunks_exact(2));
    let right = |question: &Question, pair: &[Job<Vec<u8>>]| {
        pair.iter().zip([false, true]).all(|(job, forged)| question.is_opened(job, forged))
    };
    pairs.into_iter().find(|(question, pair)| !right(question, pair)).map(|(q, _)| q.suite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_self_test_notices_one_wrong_bit() {
        for answer in ANSWERS {
            let wrong = Answer { long: answer.long ^ 1 << 64, ..answer };
            let backend = Backend::Portable;
            let run: Runner<'_> = &|keys, jobs| backend.run(keys, jobs);
            assert_eq!(ask(&[answer], backend, run), None, "{}", answer.suite);
            assert_eq!(ask(&[wrong], backend, run), Some(answer.suite), "{}", answer.suite);
        }
    }

    #[test]
    fn the_self_test_covers_every_suite() {
        assert!(Suite::software().all(|suite| ANSWERS.iter().any(|a| a.suite == suite)));
    }

    /// A backend is refused if only packets in a batch come out wrong.
    #[test]
    fn the_self_test_asks_in_batches_too() {
        let spoil = |jobs: &mut [Job<Vec<u8>>], op: Op| {
            if jobs.len() > 1
                && let Some(job) = jobs.iter_mut().rfind(|job| job.op == op)
            {
                job.buf[20] ^= 1;
            }
        };
        for &backend in Backend::all() {
            for op in [Op::Seal, Op::Open] {
                let run: Runner<'_> = &|keys, jobs| {
                    backend.run(keys, jobs);
                    spoil(jobs, op);
                };
                // Of a forged packet, octets are not looked at.
                let wrong = first_wrong(backend, run);
                assert_eq!(wrong.is_some(), op == Op::Seal, "{backend:?}");
            }
            let run: Runner<'_> = &|keys, jobs| {
                backend.run(keys, jobs);
                let many = jobs.len() > 1;
                jobs.iter_mut().filter(|_| many).for_each(|job| job.verdict = Verdict::Done);
            };
            assert!(first_wrong(backend, run).is_some(), "{backend:?} accepts everything");
        }
    }

    /// A backend is refused if its answers are wrong only with every lane taken.
    #[test]
    fn the_self_test_fills_every_lane() {
        for &backend in Backend::all() {
            let run: Runner<'_> = &|keys, jobs| {
                backend.run(keys, jobs);
                if jobs.len() >= 64 && jobs[63].op == Op::Seal {
                    jobs[63].buf[20] ^= 1;
                }
            };
            assert!(first_wrong(backend, run).is_some(), "{backend:?}");
        }
    }
}
