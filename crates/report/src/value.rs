//! Numbers, and where they come from.
//!
//! Numbers that a study printed, asserted without a figure, fitted a model to, computed or measured
//! differ by type. A column or a series holds numbers of one such origin: two cannot be mixed in
//! it.
//!
//! ```compile_fail
//! use ferrule_report::{Column, Model, Published};
//! // A column takes values of one origin.
//! Column::numbers("delay", "us", [Published::from(52.2).into(), Model::from(52.3).into()]);
//! ```

use serde::{Deserialize, Serialize};

/// One number with its spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// The number itself, usually a mean or a median.
    pub value: f64,
    /// Lower end of its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end of its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

impl Measure {
    /// A number without a spread.
    pub const fn new(value: f64) -> Self {
        Self { value, low: None, high: None }
    }

    /// A number and the ends of its interval.
    pub const fn within(value: f64, low: f64, high: f64) -> Self {
        Self { value, low: Some(low), high: Some(high) }
    }

    /// JSON and plots know neither infinity nor NaN.
    pub fn is_finite(&self) -> bool {
        let ends = [self.low.unwrap_or(0.0), self.high.unwrap_or(0.0)];
        self.value.is_finite() && ends.iter().all(|end| end.is_finite())
    }
}

impl From<f64> for Measure {
    fn from(value: f64) -> Self {
        Self::new(value)
    }
}

/// Origin of the numbers of a column or a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// No result: what the row is about, what was set.
    Key,
    /// As the study printed it.
    Published,
    /// As the study says without having measured it, or as it cites.
    Asserted,
    /// Computed in virtual time, by a model that was fitted to give it.
    Fitted,
    /// Computed in virtual time.
    Model,
    /// Measured on a machine, on the device that the report names.
    Live,
    /// Computed from other numbers: a difference, a ratio, a closed form.
    Derived,
}

impl Kind {
    /// As it stands above a column.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key => "",
            Self::Published => "published",
            Self::Asserted => "asserted",
            Self::Fitted => "fitted",
            Self::Model => "model",
            Self::Live => "live",
            Self::Derived => "derived",
        }
    }

    /// Meaning of the name, in a sentence.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Key => "what was set",
            Self::Published => "as the study printed it",
            Self::Asserted => "as the study says or cites, without having measured it",
            Self::Fitted => "computed by a model that was fitted to give it: it shows nothing",
            Self::Model => "computed in virtual time, under a device profile",
            Self::Live => "measured on the device and machine that are named here",
            Self::Derived => "computed from other numbers",
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// One of the origins that a number can have.
pub trait Origin: sealed::Sealed + Copy + From<Measure> {
    /// The origin, as a value.
    const KIND: Kind;
    /// The number without its origin.
    fn measure(self) -> Measure;
}

macro_rules! origin {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name(Measure);

        impl sealed::Sealed for $name {}

        impl Origin for $name {
            const KIND: Kind = Kind::$name;
            fn measure(self) -> Measure {
                self.0
            }
        }

        impl From<Measure> for $name {
            fn from(measure: Measure) -> Self {
                Self(measure)
            }
        }

        impl From<f64> for $name {
            fn from(value: f64) -> Self {
                Self(Measure::new(value))
            }
        }
    };
}

origin! {
    /// A number as the study printed it.
    Published
}
origin! {
    /// A number that the study says or cites without having measured it.
    Asserted
}
origin! {
    /// A number that a model was fitted to give.
    Fitted
}
origin! {
    /// A number from the data path in virtual time.
    Model
}
origin! {
    /// A number measured on the machine at hand.
    Live
}
origin! {
    /// A number computed from other numbers.
    Derived
}

/// Content of one cell of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A number.
    Number(Measure),
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// Nothing, and why.
    Missing {
        /// The reason, such as "not run: needs root".
        missing: String,
    },
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Nothing, and why.
    pub fn missing(why: impl Into<String>) -> Self {
        Self::Missing { missing: why.into() }
    }

    /// A number, unless it is none.
    pub fn number(measure: Measure) -> Self {
        if measure.is_finite() { Self::Number(measure) } else { Self::missing("no number") }
    }

    /// The reason of a missing number.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Missing { missing } => Some(missing),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub fn measure(&self) -> Option<Measure> {
        match self {
            Self::Number(measure) => Some(*measure),
            _ => None,
        }
    }
}
