//! Cases that are compared: applications, protections, modes, sizes.

use ferrule_crypto::{Aes, Mac, Suite};
use serde::{Deserialize, Serialize};

/// Octets of the transfers: the study's range, and 10 MB, which hung its host.
pub const SIZES: [u64; 10] =
    [1, 10, 100, 1_000, 10_000, 57_344, 100_000, 1_000_000, 4_000_000, 10_000_000];

/// Octets that no transfer with a printed response time exceeds: 1 byte to 4 Mbyte (section 6.2).
pub const TIMED_MOST: u64 = 4 << 20;
/// Octets of the largest transfer of figure 10.
pub const FIGURE_10_MOST: u64 = 57_344;

/// The application that transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Application {
    /// A control connection, and one for the data.
    Ftp,
    /// A message in a dialogue of lines.
    Smtp,
    /// Keys with their echo, then output.
    Telnet,
}

impl Application {
    /// Every application, in the study's order.
    pub const ALL: [Self; 3] = [Self::Ftp, Self::Smtp, Self::Telnet];

    /// As the study calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ftp => "FTP",
            Self::Smtp => "SMTP",
            Self::Telnet => "Telnet",
        }
    }
}

/// Treatment of the packets of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protection {
    /// There is no IPsec in the host.
    None,
    /// There is, and its policy lets packets pass.
    Bypass,
    /// AH with HMAC-MD5-96.
    AhMd5,
    /// AH with HMAC-SHA1-96.
    AhSha1,
    /// ESP with DES-CBC.
    EspDes,
    /// ESP with AES-GCM-128: today's.
    AesGcm,
}

impl Protection {
    /// Every protection, in the study's order, today's last.
    pub const ALL: [Self; 6] =
        [Self::None, Self::Bypass, Self::AhMd5, Self::AhSha1, Self::EspDes, Self::AesGcm];

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "no IPsec",
            Self::Bypass => "BYPASS",
            Self::AhMd5 => "AH-MD5",
            Self::AhSha1 => "AH-SHA1",
            Self::EspDes => "ESP-DES",
            Self::AesGcm => "AES-GCM-128",
        }
    }

    /// The suite of its SAs. Ferrule has no ESP without integrity (RFC 8221 section 4), so
    /// DES has a hash beside it, which the model does not price.
    pub const fn suite(self) -> Option<Suite> {
        match self {
            Self::None | Self::Bypass => None,
            Self::AhMd5 => Some(Suite::Null(Mac::HmacMd5_96)),
            Self::AhSha1 => Some(Suite::Null(Mac::HmacSha1_96)),
            Self::EspDes => Some(Suite::DesCbc(Mac::HmacMd5_96)),
            Self::AesGcm => Some(Suite::AesGcm(Aes::Aes128)),
        }
    }

    /// True for AH.
    pub const fn is_ah(self) -> bool {
        matches!(self, Self::AhMd5 | Self::AhSha1)
    }
}

/// Part of a packet that is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The payload behind its header: the mode that the study measured.
    Transport,
    /// The whole packet, behind a new header.
    Tunnel,
}

impl Mode {
    /// Both modes.
    pub const ALL: [Self; 2] = [Self::Transport, Self::Tunnel];

    /// As configurations call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::Tunnel => "tunnel",
        }
    }
}

/// One way to send: a protection, and the mode where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    /// Treatment of the packets.
    pub protection: Protection,
    /// Without SAs there is no mode, and this is transport.
    pub mode: Mode,
}

impl Way {
    /// Every one, each once.
    pub fn all() -> impl Iterator<Item = Self> {
        Mode::ALL.into_iter().flat_map(|mode| {
            let each = Protection::ALL.into_iter().map(move |protection| Self { protection, mode });
            each.filter(|way| way.protection.suite().is_some() || way.mode == Mode::Transport)
        })
    }

    /// Protection in a mode; without SAs the mode makes no difference.
    pub fn of(protection: Protection, mode: Mode) -> Self {
        match protection.suite() {
            Some(_) => Self { protection, mode },
            None => Self { protection, mode: Mode::Transport },
        }
    }

    /// For people.
    pub fn name(self) -> String {
        match self.mode {
            Mode::Tunnel => format!("{}, tunnel", self.protection.name()),
            Mode::Transport => self.protection.name().into(),
        }
    }
}
