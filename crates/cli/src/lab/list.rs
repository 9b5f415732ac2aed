//! `ferrule lab list` and `ferrule lab show`.

use super::source;
use crate::output::print;
use crate::paint::Paint;
use clap::Args;
use ferrule_lab::topology::{SHIPPED, Topology};
use serde_json::json;
use std::process::ExitCode;

/// The topologies that come with Ferrule
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Print the file of a topology, to start from
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// A shipped topology by name, or a file
    topology: String,
}

impl ListArgs {
    /// Prints them.
    pub fn run(self) -> ExitCode {
        let paint = Paint::for_stream(&std::io::stdout());
        let (mut text, mut entries) = (String::new(), Vec::new());
        for shipped in SHIPPED {
            let variants = Topology::variants(shipped.file, shipped.text).unwrap_or_default();
            let about = shipped.topology(None).map(|topology| topology.about).unwrap_or_default();
            text += &format!("{:<14} {about}\n", paint.bold(shipped.name));
            for (name, what) in &variants {
                let option = format!("--variant {name}");
                text += &paint.faint(format!("{:<14} {option:<24} {what}", ""));
                text.push('\n');
            }
            let variants: Vec<_> = variants
                .iter()
                .map(|(name, about)| json!({"name": name, "about": about}))
                .collect();
            entries.push(json!({"name": shipped.name, "about": about, "variants": variants}));
        }
        if self.json {
            text = format!("{:#}\n", json!({"topologies": entries}));
        }
        print(&text);
        ExitCode::SUCCESS
    }
}

impl ShowArgs {
    /// Prints it.
    pub fn run(self) -> ExitCode {
        match source::text(&self.topology) {
            Ok((_, text)) => {
                print(&text);
                ExitCode::SUCCESS
            }
            Err(wrong) => wrong.exit(),
        }
    }
}
