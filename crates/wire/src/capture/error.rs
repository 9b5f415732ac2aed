//! Errors of reading a capture file.

use std::fmt;
use std::io;

/// Reason to stop reading a capture file.
#[derive(Debug)]
pub enum CaptureError {
    /// Reading failed.
    Io(io::Error),
    /// Neither pcap nor pcapng.
    NotACapture,
    /// A version that is not known.
    Version,
    /// The file ends within a packet or block.
    Truncated,
    /// A length contradicts itself.
    Length,
    /// More or larger than is read: see the bounds of the module.
    TooLarge,
    /// A packet of an interface that was not described.
    UnknownInterface,
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Io(e) => return write!(f, "cannot read the capture: {e}"),
            Self::NotACapture => "neither a pcap nor a pcapng file",
            Self::Version => "a version of the capture format that is not known",
            Self::Truncated => "the capture ends in the middle of a packet",
            Self::Length => "a length in the capture contradicts itself",
            Self::TooLarge => "the capture holds something too large to read",
            Self::UnknownInterface => "a packet of an interface that the capture does not describe",
        })
    }
}

impl std::error::Error for CaptureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(e) => Some(e),
            _ => None,
        }
    }
}

impl From<io::Error> for CaptureError {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::UnexpectedEof => Self::Truncated,
            _ => Self::Io(e),
        }
    }
}
