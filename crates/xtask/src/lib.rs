//! The style of this tree as rules that a test can run (`tests/tidy.rs`).
//!
//! CONTRIBUTING.md says what the rules are for. A rule is a function from a
//! source, or from the whole tree, to findings; it has no access to anything
//! else, so each is shown on a small bad example that it can fail.
//!
//! | file | rules |
//! | --- | --- |
//! | `source.rs` | none: a file, and the same file without comments and literals |
//! | `shape.rs` | length of files and functions, names of rooms, words left behind, openings of doc comments |
//! | `layers.rs` | who may use whom, what pure crates may not touch, where unsafe lives |
//! | `closure.rs` | pure crates depend on pure ones, through others too |
//! | `siblings.rs` | folders of a crate: protocols apart, no circles |
//! | `drawing.rs` | the picture of the crates in ARCHITECTURE.md is today's |
//! | `manifest.rs` | none: crates and their dependencies, as Cargo has them |
//! | `models.rs` | none: the sum of what pages carry as wasm32 |
//! | `pages.rs` | none: the pages of the tree |
//! | `drops.rs` | every drop reason is used |
//! | `specs.rs` | requirements of standards point to code and tests that are there |
#![forbid(unsafe_code)]

pub mod closure;
pub mod drawing;
pub mod drops;
pub mod layers;
pub mod manifest;
pub mod models;
pub mod pages;
pub mod shape;
pub mod siblings;
pub mod source;
pub mod specs;

pub use source::Source;

/// One place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Path from the top of the tree.
    pub path: String,
    /// Line, from 1; 0 for the file as a whole.
    pub line: usize,
    /// The fault and, where it helps, the remedy.
    pub what: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}
