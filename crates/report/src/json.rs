//! For programs: the document as JSON, `"schema": "ferrule-report/1"`.
//!
//! `SCHEMA.md` beside this crate's manifest describes it field by field. A reader
//! refuses another schema rather than misread it.

use crate::document::Report;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The name and version of the format.
pub const SCHEMA: &str = "ferrule-report/1";

#[derive(Serialize)]
struct Written<'a> {
    schema: &'a str,
    report: &'a Report,
}

#[derive(Deserialize)]
struct Head {
    schema: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    #[serde(rename = "schema")]
    _schema: String,
    report: Report,
}

/// Error of a text that is no report.
#[derive(Debug)]
pub enum ReadError {
    /// Not JSON, or not of this shape.
    Shape(serde_json::Error),
    /// Another schema; its name.
    Schema(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape(error) => write!(f, "not a report: {error}"),
            Self::Schema(name) => {
                write!(f, "the schema is {name:?}, this program reads {SCHEMA:?}")
            }
        }
    }
}

impl std::error::Error for ReadError {}

/// The document as JSON, with a line end.
pub fn render(report: &Report) -> String {
    let written = Written { schema: SCHEMA, report };
    serde_json::to_string_pretty(&written).map_or_else(|_| String::new(), |text| text + "\n")
}

/// The document out of JSON.
pub fn read(text: &str) -> Result<Report, ReadError> {
    let head: Head = serde_json::from_str(text).map_err(ReadError::Shape)?;
    if head.schema != SCHEMA {
        return Err(ReadError::Schema(head.schema));
    }
    let read: Read = serde_json::from_str(text).map_err(ReadError::Shape)?;
    Ok(read.report)
}
