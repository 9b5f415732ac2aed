//! Errors of a stack: the fault, its place in the text, and what to write instead.
//!
//! ```text
//! error: unknown word `macsce`
//!   eth vlan ipv4 udp 954 | macsce sci | mpls cw
//!                           ^^^^^^
//!   help: did you mean `macsec`?
//! ```

use std::fmt;
use std::ops::Range;

/// A stack that cannot be: a word that the grammar lacks, or layers that do not fit together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackError {
    /// The fault, in one sentence without position.
    pub message: String,
    /// Remedy, if there is one.
    pub help: Option<String>,
    /// The octets of the parsed text that are at fault.
    pub span: Option<Range<usize>>,
    /// The part of the stack at fault: 0 is the user's frame, 1 the first transformation.
    pub stage: Option<usize>,
}

impl StackError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, span: None, stage: None }
    }

    /// An error of a caller that puts stacks together, without a place in a text.
    pub fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(message).with_help(help)
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Says where in the text; a place already known is more precise and stays.
    pub(crate) fn at(mut self, span: Range<usize>) -> Self {
        self.span.get_or_insert(span);
        self
    }

    /// Says which transformation of the stack; 0 is the user's frame.
    pub(crate) fn in_stage(mut self, stage: usize) -> Self {
        self.stage.get_or_insert(stage);
        self
    }

    /// The text with a caret line under the fault, for a person; `None` if no place is known.
    pub fn underline(&self, text: &str) -> Option<(String, String)> {
        let span = self.span.clone()?;
        let before = text.get(..span.start)?;
        let fault = text.get(span)?;
        let blank: String = before.chars().map(|_| ' ').collect();
        let carets = "^".repeat(fault.chars().count().max(1));
        Some((text.to_owned(), blank + &carets))
    }
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, " ({help})"))
    }
}

impl std::error::Error for StackError {}
