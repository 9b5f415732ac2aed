//! Results for reading: one document, many renderings.
//!
//! ```text
//!                    ┌─ terminal   aligned, as wide as the terminal
//!                    ├─ json       schema ferrule-report/1, reads back
//!   Report ──────────┼─ csv        one file for each table, one for each figure
//!   question, answer ├─ svg        one file for each figure
//!   tables, figures  └─ html       one page that needs nothing else: plots that
//!   claims, errata                 zoom and name values, light, dark, phone, print
//! ```
//!
//! Every number says where it comes from: [`Published`], [`Model`] and [`Live`] are
//! types, and a column or a series is made of one of them. A verdict is computed from
//! its [`Evidence`] and cannot be written down. The crate is pure:
//! the caller passes machine and date in and writes what it gets to a file.
#![forbid(unsafe_code)]

pub mod csv;
mod document;
mod explore;
mod figure;
pub mod html;
mod inventory;
pub mod json;
mod judgement;
mod scale;
pub mod svg;
mod table;
pub mod terminal;
mod value;

pub use document::{Block, Circumstance, Erratum, Proof, Report, Section};
pub use explore::{Argument, Curve, Explore, Knob, by_ratio, evenly};
pub use figure::{Axis, Bar, Bars, Figure, Mark, Plot, Point, Series, Shape, TypedBars, Xy};
pub use inventory::{Item, State};
pub use judgement::{
    ABOUT_PERCENT, Claim, Condition, Evidence, Judgement, REPEATS_MIN, Taken, Threshold, Verdict,
};
pub use scale::shown;
pub use table::{Column, Table};
pub use value::{Asserted, Cell, Derived, Fitted, Kind, Live, Measure, Model, Origin, Published};
