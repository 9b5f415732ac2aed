//! The calculator against published figures, closed forms, the standards' sizes and wrong input.

mod formats;
mod lines;
mod published;
mod wording;

use super::Stack;

/// A stack that must be right.
fn stack(text: &str) -> Stack {
    Stack::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Octets on the wire of a stack's own frame.
fn wire(text: &str) -> usize {
    stack(text).layout().expect("a stack can be laid out").wire_len()
}
