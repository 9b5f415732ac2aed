//! Backends: the libraries that do the arithmetic, behind slices of jobs.
//!
//! ```text
//!   Software::run(&mut [Job]) ──▶ Backend::run(&KeyTable, &mut [Job])
//!                                    │            │
//!                                    │            └─ KeyId ──▶ Key, compiled
//!                                    ├─ aws        one job after the other
//!                                    └─ portable   one job after the other
//! ```
//!
//! A backend gets the whole slice and the key table, not one packet: one that
//! works through several packets of several keys at a time looks the keys up
//! itself. The two here take one packet after the other.
//!
//! The environment variable `FERRULE_CRYPTO` forces a backend by name, so that
//! one machine tests them all. Each is asked for known answers before it is
//! used ([`Backend::self_test`]).

#[cfg(not(target_arch = "wasm32"))]
mod aws;
mod cbc;
mod known;
mod parts;
mod portable;

use crate::job::{Ad, Job, Op, Span, Verdict};
use crate::key::{InstallError, KeySpec};
use crate::table::KeyTable;
use std::fmt;
use std::sync::OnceLock;

/// The environment variable that forces a backend.
pub const ENV: &str = "FERRULE_CRYPTO";

/// Which library works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// aws-lc-rs: assembler for every common machine. Not on wasm32.
    Aws,
    /// RustCrypto: Rust alone, for every target.
    Portable,
}

/// Why no backend was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectError {
    /// [`ENV`] names none of this build's backends.
    Unknown(String),
    /// The backend that [`ENV`] forces gives wrong answers.
    SelfTest(Backend),
}

impl fmt::Display for SelectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Backend::all().iter().map(|b| b.name()).collect();
        let names = names.join(" or ");
        match self {
            Self::Unknown(name) => {
                write!(
                    f,
                    "{ENV}={name}: there is no such crypto backend; write {names}, or unset it"
                )
            }
            Self::SelfTest(backend) => {
                write!(f, "{ENV}={}: the backend failed its self-test; unset it", backend.name())
            }
        }
    }
}

impl std::error::Error for SelectError {}

impl Backend {
    /// The name in [`ENV`] and in `show`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::Portable => "portable",
        }
    }

    /// The backends of this build, the fastest first.
    pub const fn all() -> &'static [Self] {
        #[cfg(not(target_arch = "wasm32"))]
        return &[Self::Aws, Self::Portable];
        #[cfg(target_arch = "wasm32")]
        return &[Self::Portable];
    }

    /// The fastest of this build that passes its self-test.
    pub fn best() -> Self {
        static BEST: OnceLock<Backend> = OnceLock::new();
        *BEST.get_or_init(|| first_good(Self::all(), Self::self_test))
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
        let found = Self::all().iter().copied().find(|b| b.name() == name);
        let backend = found.ok_or_else(|| SelectError::Unknown(name.to_owned()))?;
        if backend.self_test() { Ok(backend) } else { Err(SelectError::SelfTest(backend)) }
    }

    /// Seals and opens packets of known answer with every suite.
    pub fn self_test(self) -> bool {
        known::ANSWERS.iter().all(|answer| answer.holds(self))
    }

    /// Compiles a key.
    pub fn key(self, spec: &KeySpec) -> Result<Key, InstallError> {
        spec.check()?;
        match self {
            #[cfg(not(target_arch = "wasm32"))]
            Self::Aws => aws::Key::new(spec).map(Made::Aws).map(Key),
            #[cfg(target_arch = "wasm32")]
            Self::Aws => Err(InstallError::Unsupported(spec.suite)),
            Self::Portable => portable::Key::new(spec).map(Made::Portable).map(Key),
        }
    }

    /// Works through the pending jobs of a slice.
    #[inline]
    pub fn run<B: AsMut<[u8]>>(self, keys: &KeyTable, jobs: &mut [Job<B>]) {
        for job in jobs.iter_mut().filter(|job| job.verdict == Verdict::Pending) {
            job.verdict = match keys.get(job.key) {
                Some(key) => key.run(job.op, &job.nonce, job.ad, job.text, job.buf.as_mut()),
                None => Verdict::Failed,
            };
        }
    }
}

/// The first that is good; the last, which is plain Rust, is not asked: there
/// would be nothing to fall back to.
fn first_good(candidates: &[Backend], good: impl Fn(Backend) -> bool) -> Backend {
    candidates.iter().copied().find(|&backend| good(backend)).unwrap_or(Backend::Portable)
}

/// A key, compiled for a backend: key schedules, powers of the hash key, the
/// hash states after the padded key. A handle of a few words; what is large is
/// on the heap, is never moved, and is wiped when the key is dropped.
pub struct Key(Made);

enum Made {
    #[cfg(not(target_arch = "wasm32"))]
    Aws(aws::Key),
    Portable(portable::Key),
}

impl Key {
    /// Seals or opens one packet in place.
    #[inline]
    pub fn run(&self, op: Op, nonce: &[u8; 12], ad: Ad, text: Span, buf: &mut [u8]) -> Verdict {
        match &self.0 {
            #[cfg(not(target_arch = "wasm32"))]
            Made::Aws(key) => key.run(op, nonce, ad, text, buf),
            Made::Portable(key) => key.run(op, nonce, ad, text, buf),
        }
    }

    /// Octets that the key takes on the heap, as far as the library tells.
    pub fn heap_len(&self) -> usize {
        match &self.0 {
            #[cfg(not(target_arch = "wasm32"))]
            Made::Aws(key) => key.heap_len(),
            Made::Portable(key) => key.heap_len(),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            #[cfg(not(target_arch = "wasm32"))]
            Made::Aws(_) => "Key(aws)",
            Made::Portable(_) => "Key(portable)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_passes_its_self_test() {
        for backend in Backend::all() {
            assert!(backend.self_test(), "{backend:?}");
        }
        assert_eq!(Backend::best(), Backend::all()[0]);
    }

    #[test]
    fn a_backend_with_wrong_answers_is_passed_over() {
        assert_eq!(first_good(Backend::all(), |b| b == Backend::Portable), Backend::Portable);
        assert_eq!(first_good(Backend::all(), |_| true), Backend::all()[0]);
        assert_eq!(first_good(Backend::all(), |_| false), Backend::Portable);
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
    fn a_key_is_a_small_handle() {
        println!("size_of::<Key>() = {}", size_of::<Key>());
        assert!(size_of::<Key>() <= 40);
    }
}
