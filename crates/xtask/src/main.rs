//! Pages that are made of the tree: `cargo run -q -p xtask -- standards > docs/standards.md`.
#![forbid(unsafe_code)]

use std::{path::Path, process::ExitCode};

use xtask::specs;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() != Some("standards") {
        eprintln!("usage: xtask standards > {}", specs::PAGE);
        return ExitCode::from(2);
    }
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let texts = match specs::read(&top) {
        Ok(texts) => texts,
        Err(e) => {
            eprintln!("{}: {e}", specs::FOLDER);
            return ExitCode::FAILURE;
        }
    };
    let read = texts.iter().map(|(path, text)| specs::parse(path, text));
    match read.collect::<Result<Vec<_>, _>>() {
        Ok(standards) => print!("{}", specs::page(&standards)),
        Err(finding) => {
            eprintln!("{finding}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
