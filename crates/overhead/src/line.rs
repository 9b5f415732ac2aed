//! Load that a frame puts on a line, and the share of a line's MTU that is left for the user.
//!
//! ```text
//! preamble 8 │ frame, at least 60 │ FCS 4 │ gap 12        802.3 clauses 3.2 and 4.4.2
//! ```

use crate::Stack;
use crate::error::StackError;
use crate::frame::{PACKET_LEN_MAX, UserFrame};
use crate::layout::Layout;

/// Octets of frame check sequence behind each frame (802.3 clause 3.2.9).
pub const FCS: usize = 4;
/// Octets of preamble and start delimiter before each frame (802.3 clause 3.2.1).
pub const PREAMBLE: usize = 8;
/// Octet times of silence behind each frame (802.3 clause 4.4.2).
pub const GAP: usize = 12;
/// Shortest frame without FCS; a shorter one is padded (802.3 clauses 3.2.8 and 4.4.2).
pub const FRAME_LEN_MIN: usize = 60;

/// Octet times that a frame of `frame_len` octets (without FCS) takes on a line.
pub(crate) fn line_len(frame_len: usize) -> usize {
    PREAMBLE + frame_len.max(FRAME_LEN_MIN) + FCS + GAP
}

/// A line of the path, by what travels on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// The user's frame, as the user made it.
    Access,
    /// The frame between customer edge and provider edge, before the provider's encapsulation.
    Attachment,
    /// The frame behind the last transformation.
    Core,
}

impl Line {
    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Access => "access line",
            Self::Attachment => "attachment circuit",
            Self::Core => "core line",
        }
    }
}

/// Load of a full line of the path, in frames.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LineLoad {
    /// The line.
    pub line: Line,
    /// Its rate.
    pub bits_per_second: u64,
    /// Octets of each frame, without FCS, as padded.
    pub frame_len: usize,
    /// Octets of padding among them, by this line or one before.
    pub padding: usize,
    /// Octet times of each frame.
    pub line_len: usize,
    /// Frames per second when the line is full.
    pub frames_per_second: f64,
}

/// The highest load that no line of the path loses.
#[derive(Debug, Clone, PartialEq)]
pub struct Ceiling {
    /// The lines in the order of the path: access, attachment circuit if there is one, core.
    pub lines: Vec<LineLoad>,
    /// The line that is full first.
    pub limit: Line,
    /// Frames per second at the ceiling.
    pub frames_per_second: f64,
    /// The ceiling as a share of a full access line: 1.0 if nothing behind it limits.
    pub share: f64,
}

/// MTU that a line leaves for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MtuReport {
    /// The MTU of the line that carries the whole stack.
    pub line_mtu: usize,
    /// The most octets behind the user's Ethernet and tags that fit; of an IP packet, the MTU to
    /// configure on the user's side.
    pub user_mtu: usize,
    /// TCP's MSS over IPv4, without options (RFC 9293 section 3.7.1); `None` if the user's frame
    /// carries no IP packet.
    pub mss_ipv4: Option<usize>,
    /// TCP's MSS over IPv6; `None` also below 1280, where IPv6 does not run (RFC 8200 section 5).
    pub mss_ipv6: Option<usize>,
}

/// The smallest MTU over which IPv6 runs (RFC 8200 section 5).
const IPV6_MTU_MIN: usize = 1280;

impl Stack {
    /// Place of the provider's first transformation.
    fn first_provider(&self) -> Option<usize> {
        self.transforms().iter().position(|transform| transform.is_provider())
    }

    /// A frame behind the last transformation, with the padding of the lines on the way: the
    /// customer's edge has the access line before it, the provider's the one between them.
    fn padded(&self, frame: &UserFrame) -> Result<Layout, StackError> {
        let provider = self.first_provider();
        let by_line = |at| at == 0 || Some(at) == provider;
        Layout::between_lines(frame, self.transforms(), by_line)
    }

    /// The highest loss-free load when access line and attachment circuit have one rate and the
    /// core line another.
    pub fn ceiling(&self, access_bps: u64, core_bps: u64) -> Result<Ceiling, StackError> {
        let layout = self.layout()?;
        let load = |line, bits_per_second: u64, frame_len: usize, bare: usize| {
            let line_len = line_len(frame_len);
            let frames_per_second = bits_per_second as f64 / (line_len * 8) as f64;
            let frame_len = frame_len.max(FRAME_LEN_MIN);
            let padding = frame_len.saturating_sub(bare);
            LineLoad { line, bits_per_second, frame_len, padding, line_len, frames_per_second }
        };
        let padded = self.padded(self.frame())?;
        let access = load(Line::Access, access_bps, layout.user_len, layout.user_len);
        let core = load(Line::Core, core_bps, padded.wire_len(), layout.wire_len());
        let before_provider = self.first_provider().and_then(|at| at.checked_sub(1));
        let attachment = before_provider.and_then(|at| {
            let (padded, bare) = (padded.stages.get(at)?.len, layout.stages.get(at)?.len);
            Some(load(Line::Attachment, access_bps, padded, bare))
        });
        let lines: Vec<LineLoad> =
            [Some(access), attachment, Some(core)].into_iter().flatten().collect();
        // The first of the slowest: a line that is no slower than one before it limits nothing.
        let slowest = lines.iter().fold(access, |slowest, line| {
            if line.frames_per_second < slowest.frames_per_second { *line } else { slowest }
        });
        Ok(Ceiling {
            limit: slowest.line,
            frames_per_second: slowest.frames_per_second,
            share: slowest.frames_per_second / access.frames_per_second,
            lines,
        })
    }

    /// MTU that a core line leaves for the user; the error says the least MTU that would do.
    pub fn mtu(&self, line_mtu: usize) -> Result<MtuReport, StackError> {
        let link = self.frame().link_header_len();
        let least = self.frame().headers_len();
        let needs = |frame_len| -> Result<usize, StackError> {
            Ok(self.padded(&self.frame().resized(frame_len)?)?.mtu_len())
        };
        let fits = |frame_len| needs(frame_len).is_ok_and(|octets| octets <= line_mtu);
        if !fits(least) {
            let needed = needs(least)?;
            return Err(StackError::new(format!(
                "a line MTU of {line_mtu} cannot carry this stack even with an empty payload"
            ))
            .with_help(format!("it takes {needed} octets at least")));
        }
        // Longer frames never make shorter packets, so halving finds the last that fits.
        let (mut good, mut bad) = (least, link + PACKET_LEN_MAX + 1);
        while bad - good > 1 {
            let middle = good.midpoint(bad);
            if fits(middle) { good = middle } else { bad = middle }
        }
        let user_mtu = good - link;
        let ip = Some(user_mtu).filter(|_| self.frame().carries_ip());
        let mss_ipv4 = ip.and_then(|mtu| mtu.checked_sub(40));
        let mss_ipv6 = ip.filter(|&mtu| mtu >= IPV6_MTU_MIN).and_then(|mtu| mtu.checked_sub(60));
        Ok(MtuReport { line_mtu, user_mtu, mss_ipv4, mss_ipv6 })
    }

    /// The MTU that the core line needs so that the user's packets of `user_mtu` pass whole.
    pub fn line_mtu_for(&self, user_mtu: usize) -> Result<usize, StackError> {
        let frame_len = user_mtu.saturating_add(self.frame().link_header_len());
        Ok(self.padded(&self.frame().resized(frame_len)?)?.mtu_len())
    }

    /// The MTU that the core line needs so that the stack's own frame passes whole.
    pub fn line_mtu(&self) -> Result<usize, StackError> {
        Ok(self.padded(self.frame())?.mtu_len())
    }
}
