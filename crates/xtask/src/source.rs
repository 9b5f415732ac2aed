//! A Rust file, and the same file with comments and literals blanked.
//!
//! The blanked copy has the same length and lines, so a position in one is a
//! position in the other: rules look for words in `code` and never trip over
//! prose or a string that mentions them.

use std::{
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
};

/// One file of the tree.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path from the top of the tree, with `/`.
    pub path: String,
    /// Text of the file.
    pub text: String,
    /// With the inside of comments, strings and characters turned into spaces.
    pub code: String,
}

impl Source {
    /// A file by its content.
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.into(), text: text.into(), code: blank(text) }
    }

    /// The line, from 1, of a byte of the file.
    pub fn line_of(&self, at: usize) -> usize {
        1 + self.code.as_bytes()[..at.min(self.code.len())].iter().filter(|&&b| b == b'\n').count()
    }

    /// The crate's folder below `crates/`, if the file is of a crate.
    pub fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// True if the whole file is tests, benches or examples.
    pub fn is_test(&self) -> bool {
        self.path
            .split('/')
            .any(|part| matches!(part, "tests" | "benches" | "examples" | "tests.rs"))
    }

    /// Positions of `word` as a whole word in the blanked code.
    pub fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
            let part_of_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            let bytes = self.code.as_bytes();
            let before = at.checked_sub(1).is_some_and(|i| part_of_name(bytes[i]));
            let after = bytes.get(at + word.len()).is_some_and(|&b| part_of_name(b));
            !before && !after
        })
    }

    /// The code without what stands in `#[cfg(test)]` modules.
    pub fn without_test_modules(&self) -> String {
        let mut code = self.code.clone();
        let mut from = 0;
        while let Some(found) = code[from..].find("#[cfg(test)]") {
            let start = from + found;
            let Some(end) = item_end(&code, start + "#[cfg(test)]".len()) else { break };
            let hidden: String =
                code[start..end].chars().map(|c| if c == '\n' { c } else { ' ' }).collect();
            code.replace_range(start..end, &hidden);
            from = end;
        }
        code
    }
}

/// End of the item that begins at `from`: after its `;` or its closing brace.
pub fn item_end(code: &str, from: usize) -> Option<usize> {
    let open = body_start(code, from)?;
    if code.as_bytes()[open] == b';' {
        return Some(open + 1);
    }
    let mut depth = 0usize;
    for (i, b) in code.bytes().enumerate().skip(open) {
        match b {
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some(i + 1),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Position of the item's `{` or `;`, outside of parentheses and brackets.
fn body_start(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0i32;
    for (i, b) in code.bytes().enumerate().skip(from) {
        match b {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' | b';' if depth == 0 => return Some(i),
            _ => {}
        }
    }
    None
}

/// Every Rust source below `top` (the tree's root), in order of path.
pub fn tree(top: &Path) -> io::Result<Vec<Source>> {
    let mut found = Vec::new();
    for room in ["crates", "fuzz", "benches", "web/models"] {
        let room = top.join(room);
        if room.is_dir() {
            walk(&room, &mut found)?;
        }
    }
    found.sort();
    found
        .iter()
        .map(|file| {
            let path = file.strip_prefix(top).unwrap_or(file).to_string_lossy().replace('\\', "/");
            Ok(Source::new(&path, &fs::read_to_string(file)?))
        })
        .collect()
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                walk(&path, found)?;
            }
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// Blanks comments and the inside of literals; keeps length and line breaks.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut i = 0;
    while i < bytes.len() {
        // Range to blank, and the place where the code goes on.
        let (inside, next) = match bytes[i] {
            b'/' if bytes.get(i + 1) == Some(&b'/') => whole(i, line_end(bytes, i)),
            b'/' if bytes.get(i + 1) == Some(&b'*') => whole(i, comment_end(bytes, i)),
            b'"' => quoted(i + 1, string_end(bytes, i + 1)),
            b'r' if starts_raw(bytes, i) => raw_string(bytes, i),
            b'\'' => character(bytes, i),
            _ => (i..i, i + 1),
        };
        for b in &mut out[inside] {
            if *b != b'\n' {
                *b = b' ';
            }
        }
        i = next;
    }
    String::from_utf8(out).unwrap_or_default()
}

fn whole(from: usize, to: usize) -> (Range<usize>, usize) {
    (from..to, to)
}

fn quoted(from: usize, to: usize) -> (Range<usize>, usize) {
    (from..to, to + 1)
}

fn line_end(b: &[u8], from: usize) -> usize {
    b[from..].iter().position(|&c| c == b'\n').map_or(b.len(), |n| from + n)
}

fn comment_end(b: &[u8], from: usize) -> usize {
    let (mut depth, mut i) = (0usize, from);
    while i < b.len() {
        match b[i..] {
            [b'/', b'*', ..] => {
                depth += 1;
                i += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                i += 2;
                if depth == 0 {
                    return i;
                }
            }
            _ => i += 1,
        }
    }
    b.len()
}

fn string_end(b: &[u8], from: usize) -> usize {
    let mut i = from;
    while i < b.len() {
        match b[i] {
            b'\\' => i += 2,
            b'"' => return i,
            _ => i += 1,
        }
    }
    b.len()
}

/// `r"`, `r#"`, not the `r` at the end of a name; `br` and `cr` come here at their `r`.
fn starts_raw(b: &[u8], at: usize) -> bool {
    let in_name = |i: usize| b[i].is_ascii_alphanumeric() || b[i] == b'_';
    let prefix = at.checked_sub(1).is_some_and(|i| matches!(b[i], b'b' | b'c'));
    let start = if prefix { at - 1 } else { at };
    let mut i = at + 1;
    while b.get(i) == Some(&b'#') {
        i += 1;
    }
    b.get(i) == Some(&b'"') && !start.checked_sub(1).is_some_and(in_name)
}

fn raw_string(b: &[u8], at: usize) -> (Range<usize>, usize) {
    let hashes = b[at + 1..].iter().take_while(|&&c| c == b'#').count();
    let from = at + 2 + hashes;
    let close =
        |i: usize| b[i] == b'"' && b[i + 1..].iter().take_while(|&&c| c == b'#').count() >= hashes;
    quoted(from, (from..b.len()).find(|&i| close(i)).unwrap_or(b.len()))
}

/// A character literal's inside; nothing for a lifetime.
fn character(b: &[u8], at: usize) -> (Range<usize>, usize) {
    let from = at + 1;
    match b.get(from) {
        Some(b'\\') => {
            quoted(from, (from + 2..b.len()).find(|&i| b[i] == b'\'').unwrap_or(b.len()))
        }
        Some(&c) => {
            let width = match c {
                0..0x80 => 1,
                0x80..0xe0 => 2,
                0xe0..0xf0 => 3,
                _ => 4,
            };
            let closed = b.get(from + width) == Some(&b'\'');
            if closed { quoted(from, from + width) } else { (from..from, from) }
        }
        None => (from..from, from),
    }
}
