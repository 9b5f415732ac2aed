//! The pages of the tree, for the tests that read them.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Markdown files of a folder and of those below it.
///
/// # Errors
///
/// If a folder cannot be read.
pub fn below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(below(&path)?);
        } else if path.extension().is_some_and(|e| e == "md") {
            found.push(path);
        }
    }
    Ok(found)
}
