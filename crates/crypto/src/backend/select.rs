//! Choice of the backend: the fastest that this machine has and that gives right answers,
//! or the one that the environment names.

use super::{Backend, known};
use crate::suite::Suite;
use std::fmt;
use std::sync::OnceLock;

/// The environment variable that forces a backend.
pub const ENV: &str = "FERRULE_CRYPTO";

/// Every backend, the fastest first.
const CANDIDATES: [Backend; 4] =
    [Backend::Vaes512, Backend::Vaes256, Backend::Aws, Backend::Portable];

/// Reason not to use a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The machine lacks the instructions that it needs.
    Needs(&'static str),
    /// The backend gave a wrong answer for this suite.
    Wrong(Suite),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Needs(what) => write!(f, "needs {what}, which this machine lacks"),
            Self::Wrong(suite) => write!(f, "failed its self-test with {suite}"),
        }
    }
}

/// Reason that no backend was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectError {
    /// [`ENV`] names none of this build's backends.
    Unknown(String),
    /// The backend that [`ENV`] forces cannot be used.
    Unfit(Backend, Unfit),
}

impl fmt::Display for SelectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                let names: Vec<_> = Backend::all().iter().map(|b| b.name()).collect();
                let names = names.join(" or ");
                write!(
                    f,
                    "{ENV}={name}: there is no such crypto backend; write {names}, or unset it"
                )
            }
            Self::Unfit(backend, why) => {
                write!(f, "{ENV}={}: the backend {why}; unset it", backend.name())
            }
        }
    }
}

impl std::error::Error for SelectError {}

/// The chosen backend, and the faster ones that cannot be used.
struct Choice {
    best: Backend,
    passed_over: Vec<(Backend, Unfit)>,
}

impl Choice {
    /// The first that is fit; the last resort, which is plain Rust, is not asked:
    /// there would be nothing to fall back to.
    fn of(candidates: &[Backend], test: impl Fn(Backend) -> Result<(), Unfit>) -> Self {
        let mut passed_over = Vec::new();
        for &backend in candidates {
            match test(backend) {
                Ok(()) => return Self { best: backend, passed_over },
                Err(why) => passed_over.push((backend, why)),
            }
        }
        Self { best: Backend::Portable, passed_over }
    }

    fn made() -> &'static Self {
        static CHOICE: OnceLock<Choice> = OnceLock::new();
        CHOICE.get_or_init(|| Self::of(&CANDIDATES, Backend::self_test))
    }
}

impl Backend {
    /// The backends that this build has and whose instructions this machine has,
    /// the fastest first.
    pub fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<Backend>> = OnceLock::new();
        ALL.get_or_init(|| CANDIDATES.into_iter().filter(|b| b.lacks().is_none()).collect())
    }

    /// The fastest that passes its self-test.
    pub fn best() -> Self {
        Choice::made().best
    }

    /// The backends that would be faster than the [best](Self::best), and why
    /// they are not used.
    pub fn passed_over() -> &'static [(Self, Unfit)] {
        &Choice::made().passed_over
    }

    /// The one that [`ENV`] forces, otherwise the [best](Self::best).
    pub fn from_env() -> Result<Self, SelectError> {
        match std::env::var_os(ENV) {
            Some(name) if !name.is_empty() => Self::forced(&name.to_string_lossy()),
            _ => Ok(Self::best()),
        }
    }

    /// The backend of that name, if it passes its self-test.
    pub fn forced(name: &str) -> Result<Self, SelectError> {
        let found = CANDIDATES.into_iter().find(|b| b.name() == name);
        let backend = found.ok_or_else(|| SelectError::Unknown(name.to_owned()))?;
        backend.self_test().map_err(|why| SelectError::Unfit(backend, why))?;
        Ok(backend)
    }

    /// Seals and opens packets of known answer with every suite, alone and in
    /// company.
    pub fn self_test(self) -> Result<(), Unfit> {
        if let Some(needs) = self.lacks() {
            return Err(Unfit::Needs(needs));
        }
        match known::first_wrong(self, &|keys, jobs| self.run(keys, jobs)) {
            Some(suite) => Err(Unfit::Wrong(suite)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Job, Op};
    use crate::suite::Aes;
    use crate::table::KeyTable;

    #[test]
    fn every_backend_passes_its_self_test() {
        for backend in Backend::all() {
            assert_eq!(backend.self_test(), Ok(()), "{backend:?}");
        }
        assert_eq!(Backend::best(), Backend::all()[0]);
    }

    /// The true backend, but for one bit of the third packet of a batch.
    fn wrong_kernel(backend: Backend, keys: &KeyTable, jobs: &mut [Job<Vec<u8>>]) {
        backend.run(keys, jobs);
        if let Some(job) = jobs.get_mut(2).filter(|job| job.op == Op::Seal) {
            let icv = job.text.end();
            job.buf[icv] ^= 0x80;
        }
    }

    #[test]
    fn a_deliberately_wrong_kernel_is_passed_over_with_a_reason() {
        let fastest = Backend::all()[0];
        let test = |backend: Backend| match backend {
            _ if backend != fastest => backend.self_test(),
            _ => match known::first_wrong(backend, &|k, j| wrong_kernel(backend, k, j)) {
                Some(suite) => Err(Unfit::Wrong(suite)),
                None => Ok(()),
            },
        };
        let choice = Choice::of(Backend::all(), test);
        assert_eq!(choice.best, Backend::all()[1]);
        let wrong = Unfit::Wrong(Suite::AesGcm(Aes::Aes192));
        assert_eq!(choice.passed_over, [(fastest, wrong)]);
        assert_eq!(wrong.to_string(), "failed its self-test with aes-gcm-192");
    }

    #[test]
    fn if_none_is_fit_plain_rust_is_used() {
        let wrong = Unfit::Wrong(Suite::ChaCha20Poly1305);
        let choice = Choice::of(Backend::all(), |_| Err(wrong));
        assert_eq!(choice.best, Backend::Portable);
        assert_eq!(choice.passed_over.len(), Backend::all().len());
        assert_eq!(Choice::of(Backend::all(), |_| Ok(())).best, Backend::all()[0]);
    }

    #[test]
    fn a_backend_is_forced_by_name_and_a_wrong_name_says_what_is_right() {
        for &backend in Backend::all() {
            assert_eq!(Backend::forced(backend.name()), Ok(backend));
        }
        let error = Backend::forced("aes").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("FERRULE_CRYPTO=aes") && text.contains("aws or portable"), "{text}");
    }

    #[test]
    fn a_backend_that_the_machine_lacks_says_what_it_needs() {
        for backend in CANDIDATES.into_iter().filter(|b| !Backend::all().contains(b)) {
            let error = Backend::forced(backend.name()).unwrap_err();
            assert!(matches!(error, SelectError::Unfit(_, Unfit::Needs(_))), "{error}");
        }
        let error = SelectError::Unfit(Backend::Vaes512, Unfit::Needs("AVX-512"));
        let text = "FERRULE_CRYPTO=vaes512: the backend needs AVX-512, which this machine \
                    lacks; unset it";
        assert_eq!(error.to_string(), text);
    }
}
