//! `ferrule config`: the keys of a node's configuration, for editors and for people.

use crate::answer;
use crate::output::print;
use clap::{Args, Subcommand};
use ferrule_node::config::{reference, schema};
use std::process::ExitCode;

/// Print the keys of a configuration: as a JSON Schema, or as a reference.
#[derive(Args)]
#[command(after_help = "Examples:
  ferrule config schema > ferrule.schema.json    for an editor: #:schema ./ferrule.schema.json
  ferrule config reference tunnel                every key of [[tunnel]]
  ferrule config reference | less")]
pub struct ConfigArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The JSON Schema (draft 2020-12) of a configuration.
    Schema,
    /// The reference, in Markdown.
    Reference {
        /// One table alone: node, port, tunnel, …
        table: Option<String>,
    },
}

impl ConfigArgs {
    /// Prints it.
    pub fn run(self) -> ExitCode {
        let text = match self.what {
            What::Schema => format!("{:#}\n", schema()),
            What::Reference { table } => match reference(table.as_deref()) {
                Some(text) => text,
                None => return unknown(&table.unwrap_or_default()),
            },
        };
        print(&text);
        ExitCode::SUCCESS
    }
}

/// A table that there is not.
fn unknown(table: &str) -> ExitCode {
    let schema = schema();
    let tables = schema["properties"].as_object().into_iter().flat_map(|tables| tables.keys());
    let names: Vec<&str> = tables.map(String::as_str).collect();
    let near = ferrule_base::nearest(table, names.iter().copied());
    let remedy = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", names.join(", ")),
    };
    answer::wrong(&format!("a configuration has no table `{table}`\n  {remedy}"), 2)
}
