//! Bytes, MTU and the highest loss-free load of any stack of encapsulations.
//!
//! ```text
//! eth vlan ipv4 udp 954 | esp aes-cbc-128 hmac-sha1-96 tunnel | mpls cw
//! └─── user's frame ──┘   └──── transformation 1 ───────────┘   └─ 2 ─┘
//!        1000                          1062                      1084 octets, without FCS
//! ```
//!
//! Sizes of frames are without FCS throughout; only the cost on a line counts FCS, preamble and
//! gap. The calculator knows the standards and no data plane: `ferrule overhead` prints it, and
//! tests take it as their oracle for frames that nodes make.
//!
//! - [`Stack::parse`] reads the grammar, [`Stack::new`] takes values;
//! - [`Stack::wire_len`] and [`Stack::layout`] give octets, [`Stack::mtu`] and
//!   [`Stack::ceiling`] what a line leaves of them;
//! - [`Stack::max_head_room`] and [`Stack::max_tail_room`] say what a buffer must have to spare.
#![forbid(unsafe_code)]

mod error;
mod frame;
mod front;
mod gallery;
mod grammar;
mod layout;
mod line;
mod segment;
mod suite;
#[cfg(test)]
mod tests;
mod transform;
mod words;

pub use error::StackError;
pub use frame::{Layer, UserFrame};
pub use gallery::{GALLERY, GalleryEntry};
pub use grammar::GRAMMAR;
pub use layout::{Layout, StageCost};
pub use line::{Ceiling, FCS, FRAME_LEN_MIN, GAP, Line, LineLoad, MtuReport, PREAMBLE};
pub use segment::{Protection, Segment, SegmentKind};
pub use suite::{MacsecCipher, ah_suites, cipher_name, esp_ciphers, esp_suites};
pub use transform::{
    Ah, Esp, IpVersion, L2tpv3, Macsec, Mode, Pseudowire, ServiceTag, TagKind, Transform,
};

use grammar::STAGES_MAX;
use std::fmt;

/// A user's frame and what is done to it, in order. Every value of this type can be laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    frame: UserFrame,
    transforms: Vec<Transform>,
}

impl Stack {
    /// A stack of values, if they fit together.
    pub fn new(frame: UserFrame, transforms: Vec<Transform>) -> Result<Self, StackError> {
        if transforms.len() > STAGES_MAX {
            return Err(StackError::new(format!("more than {STAGES_MAX} transformations"))
                .in_stage(STAGES_MAX + 1));
        }
        Layout::build(&frame, &transforms)?;
        Ok(Self { frame, transforms })
    }

    /// Reads the grammar: layers from the outside of the user's frame inwards, then
    /// transformations separated by a bar. Without a frame it is the study's of 1000 octets.
    ///
    /// ```
    /// use ferrule_overhead::Stack;
    /// let stack = Stack::parse("eth vlan ipv4 udp 954 | macsec sci gcm-aes-128 | mpls cw")?;
    /// assert_eq!(stack.layout()?.wire_len(), 1054);
    /// # Ok::<(), ferrule_overhead::StackError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, StackError> {
        grammar::parse(text, &UserFrame::study())
    }

    /// As [`Stack::parse`], with the frame to take if the text brings none.
    pub fn parse_with(text: &str, frame: &UserFrame) -> Result<Self, StackError> {
        grammar::parse(text, frame)
    }

    /// The user's frame.
    pub fn frame(&self) -> &UserFrame {
        &self.frame
    }

    /// Transformations of the frame, the first one first.
    pub fn transforms(&self) -> &[Transform] {
        &self.transforms
    }

    /// The same stack around a frame of another size.
    pub fn resized(&self, frame_len: usize) -> Result<Self, StackError> {
        Self::new(self.frame.resized(frame_len)?, self.transforms.clone())
    }

    /// Every octet on the wire, for the stack's own frame.
    pub fn layout(&self) -> Result<Layout, StackError> {
        Layout::build(&self.frame, &self.transforms)
    }

    /// Every octet on the wire, for a frame of the same layers and `frame_len` octets.
    pub fn layout_of(&self, frame_len: usize) -> Result<Layout, StackError> {
        Layout::build(&self.frame.resized(frame_len)?, &self.transforms)
    }

    /// Octets on the wire, without FCS, for a user's frame of `frame_len` octets, without FCS.
    pub fn wire_len(&self, frame_len: usize) -> Result<usize, StackError> {
        Ok(self.layout_of(frame_len)?.wire_len())
    }

    /// Octets that a buffer must have free before the user's frame, whatever its size and tags.
    pub fn max_head_room(&self) -> usize {
        self.transforms.iter().map(Transform::front_growth).sum()
    }

    /// Octets that a buffer must have free behind the user's frame, whatever its size.
    pub fn max_tail_room(&self) -> usize {
        self.transforms.iter().map(Transform::tail_growth).sum()
    }

    /// Parts that the data plane does not carry: such a stack is there for calculation only.
    pub fn calculation_only(&self) -> Vec<&'static str> {
        let mut parts = Vec::new();
        for part in self.transforms.iter().filter_map(Transform::calculation_only) {
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        parts
    }

    /// The transformations alone, in the grammar's words: `macsec sci gcm-aes-128 | mpls cw`.
    pub fn transforms_text(&self) -> String {
        let words: Vec<String> = self.transforms.iter().map(ToString::to_string).collect();
        words.join(" | ")
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.frame)?;
        self.transforms.iter().try_for_each(|transform| write!(f, " | {transform}"))
    }
}
