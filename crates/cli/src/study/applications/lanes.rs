//! Paths between the two hosts: one lane for each protection, mode and way of dealing with packets
//! that protection makes too long.

use ferrule_studies::ipsec_ip_layer::cases::{Mode, Protection};

/// One way between the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Protection by the nodes; `None`: no nodes, a cable joins the hosts' kernels.
    pub protection: Option<Protection>,
    /// Where it matters.
    pub mode: Mode,
    /// True if segments fill the link, so that a protected one takes two frames, as in the study.
    /// Otherwise the host learns the size that fits.
    pub fills: bool,
}

const fn lane(protection: Protection, mode: Mode) -> Lane {
    Lane { protection: Some(protection), mode, fills: true }
}

/// No node at all: what the hosts need by themselves.
pub const BARE: Lane = Lane { protection: None, mode: Mode::Transport, fills: true };
/// Segments that fit when they are sealed.
pub const FITTED: Lane = Lane { fills: false, ..lane(Protection::AesGcm, Mode::Transport) };

/// All of them. `ferrule run` refuses the study's MD5 and DES.
pub const LANES: [Lane; 8] = [
    BARE,
    lane(Protection::None, Mode::Transport),
    lane(Protection::Bypass, Mode::Transport),
    lane(Protection::AhSha1, Mode::Transport),
    lane(Protection::AesGcm, Mode::Transport),
    FITTED,
    lane(Protection::AhSha1, Mode::Tunnel),
    lane(Protection::AesGcm, Mode::Tunnel),
];

impl Lane {
    /// True if the study compares it; the other lanes serve to show their own cost.
    pub fn is_compared(&self) -> bool {
        *self != BARE && *self != FITTED
    }
}
