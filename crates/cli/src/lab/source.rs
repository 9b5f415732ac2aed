//! A topology by name or by path.

use crate::answer;
use crate::paint::Paint;
use clap::Args;
use ferrule_base::nearest;
use ferrule_daemon::Finding;
use ferrule_lab::check::{self, Recording};
use ferrule_lab::topology::{Files, NoFiles, SHIPPED, Shipped, Topology};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Topology to use.
#[derive(Clone, Debug, Args)]
pub struct Source {
    /// A shipped topology by name (`ferrule lab list`), or a file
    topology: String,
    /// One of its variants
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
}

/// Reason for which there is no topology.
pub struct Wrong {
    text: String,
    findings: Vec<Finding>,
}

impl Wrong {
    /// One sentence, and what helps on the lines below it.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { findings: vec![Finding::told(&text)], text }
    }

    /// Says it; exit code 2.
    pub fn exit(self) -> ExitCode {
        let paint = Paint::for_stream(&std::io::stderr());
        let text = format!("{} {}\n", paint.fault("error:"), self.text);
        answer::refuse(&self.findings, &text, 2)
    }
}

impl Source {
    /// The name as it was given, with the variant.
    pub fn words(&self) -> String {
        match &self.variant {
            Some(variant) => format!("{} --variant {variant}", self.topology),
            None => self.topology.clone(),
        }
    }

    /// The topology as arguments of a command.
    pub fn args(&self) -> Vec<String> {
        let variant = self.variant.iter().flat_map(|v| ["--variant".to_owned(), v.clone()]);
        std::iter::once(self.topology.clone()).chain(variant).collect()
    }

    /// The file: its name and its text.
    pub fn text(&self) -> Result<(String, String), Wrong> {
        text(&self.topology)
    }

    /// Reads it.
    pub fn read(&self) -> Result<Topology, Wrong> {
        self.remembered().map(|(topology, _)| topology)
    }

    /// Reads it; what was read is kept for a recording.
    pub fn remembered(&self) -> Result<(Topology, check::Source), Wrong> {
        let (file, text) = self.text()?;
        let variant = self.variant.clone();
        let folder = Path::new(&file).parent().unwrap_or(Path::new(".")).to_owned();
        let shipped = Shipped::named(&self.topology).is_some();
        let mut files = BTreeMap::new();
        let mut beside = |name: &str| {
            if shipped {
                return NoFiles.read(name);
            }
            let path = folder.join(name);
            let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            files.insert(name.to_owned(), text.clone());
            Ok(text)
        };
        let topology =
            Topology::parse(&file, &text, &mut beside, variant.as_deref()).map_err(|e| Wrong {
                text: format!("this topology cannot be used\n{e}"),
                findings: e.files.iter().flat_map(Finding::all_of).collect(),
            })?;
        Ok((topology, check::Source { file, variant, text, files }))
    }

    /// The path and the text, if it is a recording rather than a topology.
    pub fn recording(&self) -> Option<(PathBuf, String)> {
        let (file, text) = self.text().ok()?;
        Recording::is_one(&text).then(|| (file.into(), text))
    }
}

/// File and text of a topology.
pub fn text(name: &str) -> Result<(String, String), Wrong> {
    if let Some(shipped) = Shipped::named(name) {
        return Ok((shipped.file.to_owned(), shipped.text.to_owned()));
    }
    if !name.contains(['/', '.']) && !Path::new(name).exists() {
        let near = nearest(name, SHIPPED.iter().map(|shipped| shipped.name));
        let remedy = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`ferrule lab list` shows the shipped ones; a file is named by its path".into(),
        };
        return Err(Wrong::new(format!("there is no topology `{name}`\n  {remedy}")));
    }
    match fs::read_to_string(name) {
        Ok(text) => Ok((name.to_owned(), text)),
        Err(e) => {
            Err(Wrong::new(format!("{name}: {e}\n  `ferrule lab show two-gateways` prints one")))
        }
    }
}
