//! Keys as they are installed, and the handles by which jobs name them.

use crate::job::Op;
use crate::suite::Suite;
use ferrule_base::Secret;

/// A key in one engine. The generation tells a reused slot from the key that
/// was there before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyId {
    /// Place in the engine's table.
    pub slot: u32,
    /// Number of earlier keys in the slot.
    pub generation: u32,
}

/// Placement of the work with a key. An engine of a single placement ignores it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// In the worker's own loop.
    #[default]
    Software,
    /// At the far end of a queue pair.
    LookAside,
    /// In a token that keeps the key to itself: no octet of it is here.
    Token(TokenKey),
}

impl Place {
    /// The word in configurations and in `show`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Software => "software",
            Self::LookAside => "look-aside",
            Self::Token(_) => "token",
        }
    }
}

/// A key on a token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenKey {
    /// The key's label on the token.
    pub label: String,
    /// Nonces to come, once they are known.
    pub coming: Option<Coming>,
}

impl TokenKey {
    /// The key of that label.
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), coming: None }
    }
}

/// Nonces that a key will have, so that key stream can be made ahead: number N has the
/// nonce `base` with N XORed into its last eight octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coming {
    /// Operation of the key.
    pub op: Op,
    /// The nonce of number 0, as far as it is known.
    pub base: [u8; 12],
    /// `base` is known whole. Otherwise the peer chooses its last eight octets: a counter,
    /// or a counter XOR a constant, if any rule can be found.
    pub known: bool,
    /// The first number.
    pub next: u64,
}

/// A key to install.
#[derive(Clone, Debug)]
pub struct KeySpec {
    /// The suite.
    pub suite: Suite,
    /// The cipher key, `suite.key_len()` octets, without salt.
    pub key: Secret,
    /// The integrity key, `suite.mac_key_len()` octets; empty for an AEAD.
    pub mac_key: Secret,
    /// Placement of the work with the key.
    pub place: Place,
}

/// Reason that a key cannot be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstallError {
    /// The key has the wrong length: (needed, given).
    KeyLength(usize, usize),
    /// The integrity key has the wrong length: (needed, given).
    MacKeyLength(usize, usize),
    /// The engine does not have this suite.
    Unsupported(Suite),
    /// The engine's table is full.
    Full,
    /// There is no memory for key stream, or it cannot be locked.
    Memory,
    /// There is no engine at the place that was asked for, by its word.
    NoEngine(&'static str),
}

impl std::fmt::Display for InstallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::KeyLength(need, have) => {
                write!(f, "the key has {have} octets, the suite needs {need}")
            }
            Self::MacKeyLength(need, have) => {
                write!(f, "the integrity key has {have} octets, the suite needs {need}")
            }
            Self::Unsupported(suite) => write!(f, "the engine does not have {suite}"),
            Self::Full => f.write_str("the engine's key table is full"),
            Self::Memory => f.write_str(
                "no memory for key stream, or the limit of locked memory (ulimit -l) is too low",
            ),
            Self::NoEngine(place) => write!(f, "this node has no engine for placement {place}"),
        }
    }
}

impl std::error::Error for InstallError {}

impl KeySpec {
    /// A key that the worker uses itself.
    pub const fn new(suite: Suite, key: Secret, mac_key: Secret) -> Self {
        Self { suite, key, mac_key, place: Place::Software }
    }

    /// The key by which an SA is told from every other: the cipher's, or that of the
    /// keyed hash where there is no cipher.
    pub fn identity(&self) -> &Secret {
        if self.key.is_empty() { &self.mac_key } else { &self.key }
    }

    /// The same key, used elsewhere.
    pub fn at(self, place: Place) -> Self {
        Self { place, ..self }
    }

    /// The same key; on a token, with the nonces that will come.
    pub fn expecting(&self, coming: Coming) -> Self {
        let mut spec = self.clone();
        if let Place::Token(key) = &mut spec.place {
            key.coming = Some(coming);
        }
        spec
    }

    /// Checks the lengths.
    pub fn check(&self) -> Result<(), InstallError> {
        let (key, mac) = (self.suite.key_len(), self.suite.mac_key_len());
        if self.key.len() != key {
            return Err(InstallError::KeyLength(key, self.key.len()));
        }
        if self.mac_key.len() != mac {
            return Err(InstallError::MacKeyLength(mac, self.mac_key.len()));
        }
        Ok(())
    }
}
