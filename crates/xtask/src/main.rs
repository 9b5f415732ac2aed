//! Pages that are made of the tree: `cargo run -q -p xtask -- draw` draws the crates in
//! ARCHITECTURE.md anew, `cargo run -q -p xtask -- standards > docs/standards.md` writes that page.
#![forbid(unsafe_code)]

use std::{fs, io, path::Path, process::ExitCode};
use xtask::drawing::{self, redraw, rooms};
use xtask::specs;

fn main() -> ExitCode {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["draw"] => draw(&top).map_err(|e| format!("{}: {e}", drawing::PAGE)),
        ["standards"] => standards(&top),
        _ => {
            eprintln!("usage: xtask draw\n       xtask standards > {}", specs::PAGE);
            return ExitCode::from(2);
        }
    };
    if let Err(why) = done {
        eprintln!("{why}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn draw(top: &Path) -> io::Result<()> {
    let page = top.join(drawing::PAGE);
    let text = fs::read_to_string(&page)?;
    let drawn = redraw(&text, &rooms(top)?)
        .ok_or_else(|| io::Error::other("the lines around the drawing are not there"))?;
    fs::write(page, drawn)
}

fn standards(top: &Path) -> Result<(), String> {
    let texts = specs::read(top).map_err(|e| format!("{}: {e}", specs::FOLDER))?;
    let read = texts.iter().map(|(path, text)| specs::parse(path, text));
    let standards = read.collect::<Result<Vec<_>, _>>().map_err(|finding| finding.to_string())?;
    print!("{}", specs::page(&standards));
    Ok(())
}
