//! A topology by name or by path.

use crate::paint::{Paint, emit};
use clap::Args;
use ferrule_lab::topology::{NoFiles, SHIPPED, Shipped, Topology};
use ferrule_node::overhead::nearest;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// Which topology is meant.
#[derive(Clone, Debug, Args)]
pub struct Source {
    /// A shipped topology by name (`ferrule lab list`), or a file
    topology: String,
    /// One of its variants
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
}

/// Why there is no topology.
pub struct Wrong(pub String);

impl Wrong {
    /// Says it; exit code 2.
    pub fn exit(self) -> ExitCode {
        let paint = Paint::for_stream(&std::io::stderr());
        let text = format!("{} {}\n", paint.fault("error:"), self.0);
        emit(&mut std::io::stderr().lock(), &text);
        ExitCode::from(2)
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

    /// The file: its name and its text.
    pub fn text(&self) -> Result<(String, String), Wrong> {
        text(&self.topology)
    }

    /// Reads it.
    pub fn read(&self) -> Result<Topology, Wrong> {
        let (file, text) = self.text()?;
        let variant = self.variant.as_deref();
        let read = if Shipped::named(&self.topology).is_some() {
            Topology::parse(&file, &text, &mut NoFiles, variant)
        } else {
            let folder = Path::new(&file).parent().unwrap_or(Path::new(".")).to_owned();
            let mut beside = |name: &str| {
                let path = folder.join(name);
                fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
            };
            Topology::parse(&file, &text, &mut beside, variant)
        };
        read.map_err(|e| Wrong(format!("this topology cannot be used\n{e}")))
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
        return Err(Wrong(format!("there is no topology `{name}`\n  {remedy}")));
    }
    match fs::read_to_string(name) {
        Ok(text) => Ok((name.to_owned(), text)),
        Err(e) => Err(Wrong(format!("{name}: {e}\n  `ferrule lab show two-gateways` prints one"))),
    }
}
