//! Errors of opening a port, with the remedy for the operator.

use std::fmt;
use std::io;

/// Class of the fault, which decides the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenFault {
    /// There is no interface (or file) of that name.
    MissingInterface,
    /// The process may not do it.
    NoPermission,
    /// The kernel or the driver cannot do it.
    Unsupported,
    /// Anything else.
    Other,
}

/// A port that could not be opened.
#[derive(Debug)]
pub struct OpenError {
    /// Class of the fault.
    pub fault: OpenFault,
    /// The operation that failed, and its object.
    pub what: String,
    /// The remedy, in one sentence.
    pub remedy: String,
    /// The kernel's error.
    pub source: Option<io::Error>,
}

impl OpenError {
    /// No interface is called `name`.
    pub fn missing(name: &str) -> Self {
        Self {
            fault: OpenFault::MissingInterface,
            what: format!("no interface is called {name:?} in this network namespace"),
            remedy: "See `ip link` for those there are; the daemon creates TAP and TUN only."
                .into(),
            source: None,
        }
    }

    /// The kernel or the driver cannot do it.
    pub fn unsupported(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (what, remedy) = (what.into(), remedy.into());
        Self { fault: OpenFault::Unsupported, what, remedy, source: None }
    }

    /// Classifies the kernel's error in an attempt at `what`.
    pub fn os(what: impl Into<String>, source: io::Error) -> Self {
        let (fault, remedy) = match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => (
                OpenFault::NoPermission,
                "Start as root, or with CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF; AF_XDP also \
                 wants CAP_IPC_LOCK or a larger memlock limit.",
            ),
            Some(libc::ENODEV | libc::ENXIO) => {
                (OpenFault::MissingInterface, "See `ip link` for the interfaces there are.")
            }
            Some(libc::ENOENT) => (OpenFault::MissingInterface, "See whether the path is right."),
            Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EAFNOSUPPORT | libc::ENOPROTOOPT) => (
                OpenFault::Unsupported,
                "Choose driver = \"af-packet\", which every interface and kernel offers.",
            ),
            Some(libc::EBUSY | libc::EEXIST) => (
                OpenFault::Other,
                "Another program holds the interface, its queue or its XDP hook: stop it, or \
                 choose another queue.",
            ),
            Some(libc::ENOBUFS | libc::ENOMEM) => (
                OpenFault::Other,
                "Raise the memlock limit (`ulimit -l`, LimitMEMLOCK=) or make the pool smaller.",
            ),
            Some(libc::ENETDOWN) => {
                (OpenFault::Other, "Bring the interface up: `ip link set NAME up`.")
            }
            _ => (OpenFault::Other, "See what the kernel said."),
        };
        Self { fault, what: what.into(), remedy: remedy.into(), source: Some(source) }
    }

    /// The same with another remedy.
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        write!(f, ". {}", self.remedy)
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e as _)
    }
}

/// Gives an I/O error the words that [`OpenError`] wants.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, OpenError>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, OpenError> {
        self.map_err(|e| OpenError::os(what(), e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_errors_are_sorted_by_whose_move_it_is() {
        let sorted = |errno| OpenError::os("x", io::Error::from_raw_os_error(errno)).fault;
        assert_eq!(sorted(libc::EPERM), OpenFault::NoPermission);
        assert_eq!(sorted(libc::ENODEV), OpenFault::MissingInterface);
        assert_eq!(sorted(libc::EOPNOTSUPP), OpenFault::Unsupported);
        assert_eq!(sorted(libc::EINVAL), OpenFault::Other);
        let text = OpenError::missing("eth9").to_string();
        assert!(text.contains("eth9") && text.contains("ip link"), "{text}");
    }
}
