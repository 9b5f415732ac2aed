//! Backends: the libraries that do the arithmetic, behind slices of jobs.
//!
//! ```text
//!   Software::run(&mut [Job]) ──▶ Backend::run(&KeyTable, &mut [Job])
//!   Software::run_beside(&mut [B], &mut [Job<()>])  the same, on buffers beside the jobs
//!                                    │            │
//!                                    │            └─ KeyId ──▶ Key, compiled
//!                                    ├─ vaes512    AES-GCM four, AES-CBC and HMAC sixteen packets
//!                                    ├─ vaes256    at a time, all else one after the other
//!                                    ├─ aws        one job after the other
//!                                    └─ portable   one job after the other
//! ```
//!
//! A backend gets the whole slice and the key table, not one packet: one that
//! works through several packets of several keys at a time looks the keys up
//! itself ([`batch`]).
//!
//! The environment variable `FERRULE_CRYPTO` forces a backend by name, so that
//! one machine tests them all. Each is asked for known answers before it is
//! used ([`Backend::self_test`]); the fastest that gives them is [`Backend::best`].

#[cfg(not(target_arch = "wasm32"))]
mod aws;
#[cfg(target_arch = "x86_64")]
mod batch;
mod gmac;
mod known;
#[cfg(target_arch = "x86_64")]
mod lanes;
mod pair;
pub(crate) mod parts;
mod portable;
mod select;
#[cfg(test)]
pub(crate) mod vectors;

pub use select::{ENV, SelectError, Unfit};

#[cfg(target_arch = "x86_64")]
use crate::accel::{cbc as multi_cbc, gcm, prefetch};
use crate::job::{Ad, Job, Op, Span, Task, Verdict};
use crate::key::{InstallError, KeySpec};
#[cfg(target_arch = "x86_64")]
use crate::suite::{Aes, Suite};
use crate::table::KeyTable;
use std::fmt;

/// Cryptographic implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Our own kernels, AVX-512: four packets of AES-GCM at a time or sixteen of AES-CBC or
    /// HMAC, four blocks per instruction. Other suites are aws-lc's.
    Vaes512,
    /// The same with AVX2, two blocks per instruction.
    Vaes256,
    /// aws-lc-rs: assembler for every common machine. Not on wasm32.
    Aws,
    /// RustCrypto: Rust alone, for every target.
    Portable,
}

impl Backend {
    /// The name in [`ENV`] and in `show`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vaes512 => "vaes512",
            Self::Vaes256 => "vaes256",
            Self::Aws => "aws",
            Self::Portable => "portable",
        }
    }

    /// Instructions or facility that this backend needs and the machine, or the build,
    /// lacks.
    fn lacks(self) -> Option<&'static str> {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Vaes512 => gcm::Kernel::vaes512().is_none().then_some(gcm::NEEDS_512),
            #[cfg(target_arch = "x86_64")]
            Self::Vaes256 => gcm::Kernel::vaes256().is_none().then_some(gcm::NEEDS_256),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Vaes512 | Self::Vaes256 => Some("an x86-64"),
            Self::Aws => cfg!(target_arch = "wasm32").then_some("a machine of its own"),
            Self::Portable => None,
        }
    }

    /// Compiles a key.
    pub fn key(self, spec: &KeySpec) -> Result<Key, InstallError> {
        spec.check()?;
        let made = match self {
            #[cfg(target_arch = "x86_64")]
            Self::Vaes512 => multi(gcm::Kernel::vaes512(), multi_cbc::Form::zmm(), spec)?,
            #[cfg(target_arch = "x86_64")]
            Self::Vaes256 => multi(gcm::Kernel::vaes256(), multi_cbc::Form::ymm(), spec)?,
            #[cfg(not(target_arch = "x86_64"))]
            Self::Vaes512 | Self::Vaes256 => return Err(InstallError::Unsupported(spec.suite)),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Aws => Made::Aws(aws::Key::new(spec)?),
            #[cfg(target_arch = "wasm32")]
            Self::Aws => return Err(InstallError::Unsupported(spec.suite)),
            Self::Portable => Made::Portable(portable::Key::new(spec)?),
        };
        Ok(Key(made))
    }

    /// Works through the pending jobs of a slice.
    #[inline]
    pub fn run<B: AsMut<[u8]>>(self, keys: &KeyTable, jobs: &mut [Job<B>]) {
        // Nothing lies beside them, and nothing takes no memory.
        let none = &mut vec![(); jobs.len()][..];
        self.run_tasks(keys, jobs, none, |job, ()| Task::of(job));
    }

    /// The same for jobs whose buffers lie beside them: job `i` works on buffer `i`.
    #[inline]
    pub fn run_beside<B: AsMut<[u8]>>(
        self,
        keys: &KeyTable,
        buffers: &mut [B],
        jobs: &mut [Job<()>],
    ) {
        self.run_tasks(keys, jobs, buffers, |job, buffer| Task::beside(job, buffer));
    }

    #[inline]
    fn run_tasks<A, B>(
        self,
        keys: &KeyTable,
        jobs: &mut [Job<A>],
        beside: &mut [B],
        task: impl for<'a> Fn(&'a mut Job<A>, &'a mut B) -> Task<'a> + Copy,
    ) {
        #[cfg(target_arch = "x86_64")]
        if matches!(self, Self::Vaes512 | Self::Vaes256) {
            return batch::run(keys, jobs, beside, task);
        }
        for (job, beside) in jobs.iter_mut().zip(beside).filter(|(job, _)| job.is_pending()) {
            let Task { buf, key, nonce, op, verdict, ad, text } = task(job, beside);
            *verdict = match keys.get(key).map(|key| &key.0) {
                #[cfg(not(target_arch = "wasm32"))]
                Some(Made::Aws(key)) => key.run(op, nonce, *ad, text, buf),
                Some(made) => made.run(op, nonce, *ad, text, buf),
                None => Verdict::Failed,
            };
        }
    }
}

/// A key for the kernels, or for aws-lc where they do not have the suite.
#[cfg(target_arch = "x86_64")]
fn multi(
    kernel: Option<gcm::Kernel>,
    form: Option<multi_cbc::Form>,
    spec: &KeySpec,
) -> Result<Made, InstallError> {
    let unsupported = InstallError::Unsupported(spec.suite);
    let Some(kernel) = kernel else { return Err(unsupported) };
    match (spec.suite, form) {
        (Suite::AesGcm(aes) | Suite::AesGcmIiv(aes), _) if aes != Aes::Aes192 => {
            gcm::Key::new(kernel, aes, spec.key.expose()).map(Made::Gcm).ok_or(unsupported)
        }
        // Without the SHA instructions there is no form, and one packet at a time.
        (suite, Some(form)) if multi_cbc::has(suite) => {
            let (key, mac_key) = (spec.key.expose(), spec.mac_key.expose());
            let made = match suite {
                Suite::AesCbc(aes, mac) => multi_cbc::Key::new(form, aes, mac, key, mac_key),
                Suite::Null(mac) => multi_cbc::Key::hash(form, mac, mac_key),
                _ => None,
            };
            made.map(Made::Cbc).ok_or(unsupported)
        }
        _ => aws::Key::new(spec).map(Made::Aws),
    }
}

/// A key, compiled for a backend: key schedules, powers of the hash key, the hash states
/// after the padded key. A handle of a few words; larger parts are on the heap, are never
/// moved, and are wiped when the key is dropped.
pub struct Key(Made);

enum Made {
    #[cfg(target_arch = "x86_64")]
    Gcm(gcm::Key),
    #[cfg(target_arch = "x86_64")]
    Cbc(Box<multi_cbc::Key>),
    #[cfg(not(target_arch = "wasm32"))]
    Aws(aws::Key),
    Portable(portable::Key),
}

impl Made {
    #[inline(never)]
    fn run(&self, op: Op, nonce: &[u8; 12], ad: Ad, text: Span, buf: &mut [u8]) -> Verdict {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Gcm(key) => batch::one(key, op, nonce, ad, text, buf),
            #[cfg(target_arch = "x86_64")]
            Self::Cbc(key) => lanes::one(key, op, nonce, ad, text, buf),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Aws(key) => key.run(op, nonce, ad, text, buf),
            Self::Portable(key) => key.run(op, nonce, ad, text, buf),
        }
    }
}

impl Key {
    /// Seals or opens one packet in place.
    #[inline]
    pub fn run(&self, op: Op, nonce: &[u8; 12], ad: Ad, text: Span, buf: &mut [u8]) -> Verdict {
        self.0.run(op, nonce, ad, text, buf)
    }

    /// Asks the processor for the part of the key that a text of so many octets will need,
    /// where that is known.
    #[inline]
    pub fn prefetch(&self, text: usize) {
        match &self.0 {
            #[cfg(target_arch = "x86_64")]
            Made::Gcm(key) => key.prefetch(text),
            #[cfg(target_arch = "x86_64")]
            Made::Cbc(key) => prefetch(&**key, 0..size_of_val(&**key)),
            _ => {}
        }
    }

    /// Octets that the key takes on the heap, as far as the library tells.
    pub fn heap_len(&self) -> usize {
        match &self.0 {
            #[cfg(target_arch = "x86_64")]
            Made::Gcm(key) => key.heap_len(),
            #[cfg(target_arch = "x86_64")]
            Made::Cbc(key) => size_of_val(&**key),
            #[cfg(not(target_arch = "wasm32"))]
            Made::Aws(key) => key.heap_len(),
            Made::Portable(key) => key.heap_len(),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            #[cfg(target_arch = "x86_64")]
            Made::Gcm(_) => "Key(gcm)",
            #[cfg(target_arch = "x86_64")]
            Made::Cbc(_) => "Key(cbc)",
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
    fn a_key_is_a_small_handle() {
        println!("size_of::<Key>() = {}", size_of::<Key>());
        assert!(size_of::<Key>() <= 40);
    }
}
