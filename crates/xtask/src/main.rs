//! Pages that are made of the tree: `cargo run -q -p xtask -- draw` draws the crates in
//! ARCHITECTURE.md anew, `cargo run -q -p xtask -- standards > docs/standards.md` writes that page; `models` prints the
//! sum of what `scripts/models.sh` builds.
#![forbid(unsafe_code)]

use std::{path::Path, process::ExitCode};
use xtask::drawing;
use xtask::{models, specs};

fn main() -> ExitCode {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["draw"] => drawing::rewrite(&top).map_err(|e| e.to_string()),
        ["standards"] => standards(&top),
        ["models"] => models(&top),
        _ => {
            eprintln!(
                "usage: xtask draw\n       xtask standards > {}\n       xtask models > {}",
                specs::PAGE,
                models::SUM
            );
            return ExitCode::from(2);
        }
    };
    if let Err(why) = done {
        eprintln!("{why}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn models(top: &Path) -> Result<(), String> {
    println!("{}", models::sum(top).map_err(|e| e.to_string())?);
    Ok(())
}

fn standards(top: &Path) -> Result<(), String> {
    let texts = specs::read(top).map_err(|e| format!("{}: {e}", specs::FOLDER))?;
    let read = texts.iter().map(|(path, text)| specs::parse(path, text));
    let standards = read.collect::<Result<Vec<_>, _>>().map_err(|finding| finding.to_string())?;
    print!("{}", specs::page(&standards));
    Ok(())
}
