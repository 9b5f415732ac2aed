//! Backends: the ciphers themselves. (see the task of the crypto helper)
use crate::job::{Ad, Op, Span, Verdict};
use crate::key::{InstallError, KeySpec};

/// Which library works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// aws-lc-rs.
    Aws,
    /// RustCrypto.
    Portable,
}

impl Backend {
    /// The fastest that this build has.
    pub fn best() -> Self {
        Self::Portable
    }
    /// Compiles a key.
    pub fn key(self, spec: &KeySpec) -> Result<Key, InstallError> {
        Err(InstallError::Unsupported(spec.suite))
    }
}

/// A key, compiled for a backend.
pub struct Key;

impl Key {
    /// Seals or opens in place.
    pub fn run(
        &self,
        _op: Op,
        _nonce: &[u8; 12],
        _ad: Ad,
        _text: Span,
        _buf: &mut [u8],
    ) -> Verdict {
        Verdict::Failed
    }
}
