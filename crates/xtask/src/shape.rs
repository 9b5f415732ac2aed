//! Length of files and functions, names of rooms, words left behind, openings of doc comments.

use crate::{Finding, Source, source::item_end};

/// Lines that a file may have before its header must say why.
pub const FILE_LINES_MAX: usize = 800;
/// Words in a header that allow a file more lines: `Long because ...`.
pub const LONG_BECAUSE: &str = "Long because";
/// Lines that a function may have.
pub const FUNCTION_LINES_MAX: usize = 70;
/// Rooms that say nothing about what is in them.
const DRAWERS: [&str; 7] = ["utils", "util", "common", "helpers", "helper", "misc", "shared"];
/// Words that make a reader look for the subject of a doc comment.
const OPENERS: [&str; 8] = ["What", "Whether", "That of", "Those", "Which", "Who", "Nobody", "It"];

/// Files longer than [`FILE_LINES_MAX`] whose header does not say why.
pub fn file_length(source: &Source) -> Option<Finding> {
    let lines = source.text.lines().count();
    let explained = source
        .text
        .lines()
        .take_while(|line| line.starts_with("//"))
        .any(|line| line.contains(LONG_BECAUSE));
    (lines > FILE_LINES_MAX && !explained).then(|| Finding {
        path: source.path.clone(),
        line: 0,
        what: format!("{lines} lines; split it, or let the header say: {LONG_BECAUSE} ..."),
    })
}

/// Every function with a body: name, line where it begins, lines.
pub fn functions(source: &Source) -> Vec<(String, usize, usize)> {
    let code = &source.code;
    let mut found = Vec::new();
    for at in source.words("fn") {
        let name: String = code[at + 2..]
            .trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let Some(end) = item_end(code, at) else { continue };
        if name.is_empty() || code.as_bytes()[end - 1] == b';' {
            continue;
        }
        found.push((name, source.line_of(at), code[at..end].lines().count()));
    }
    found
}

/// Functions longer than [`FUNCTION_LINES_MAX`], or than `allowed` says for them.
///
/// `allowed` is a ratchet of `(path, function, lines)`: an entry that is longer
/// than it need be, or for a function that is short by now, is a finding too.
pub fn function_length(sources: &[Source], allowed: &[(&str, &str, usize)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut met = vec![0usize; allowed.len()];
    for source in sources {
        for (name, line, lines) in functions(source) {
            let entry = allowed.iter().position(|a| a.0 == source.path && a.1 == name);
            if let Some(i) = entry {
                met[i] = met[i].max(lines);
            }
            let limit = entry.map_or(FUNCTION_LINES_MAX, |i| allowed[i].2);
            if lines > limit {
                findings.push(Finding {
                    path: source.path.clone(),
                    line,
                    what: format!("fn {name} has {lines} lines; {limit} are allowed"),
                });
            }
        }
    }
    for (entry, &lines) in allowed.iter().zip(&met) {
        if lines < entry.2 {
            findings.push(Finding {
                path: entry.0.into(),
                line: 0,
                what: format!(
                    "the ratchet allows fn {} {} lines; it has {lines}",
                    entry.1, entry.2
                ),
            });
        }
    }
    findings
}

/// Files and folders named after nothing.
pub fn drawers(source: &Source) -> Option<Finding> {
    let drawer = source
        .path
        .split('/')
        .find(|part| DRAWERS.contains(&part.strip_suffix(".rs").unwrap_or(part)))?;
    Some(Finding {
        path: source.path.clone(),
        line: 0,
        what: format!("{drawer} says nothing about what is in it"),
    })
}

/// Notes to oneself in comments, and macros that stand for missing code.
pub fn left_behind(source: &Source) -> Vec<Finding> {
    // Put together here, or this file would be a finding of its own.
    let notes = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];
    let macros = ["todo!", "unimplemented!", "dbg!"];
    let mut findings = Vec::new();
    for (i, (text, code)) in source.text.lines().zip(source.code.lines()).enumerate() {
        let note = notes.iter().find(|n| text.contains(**n));
        let mac = macros.iter().find(|m| code.contains(**m));
        if let Some(word) = note.or(mac) {
            findings.push(Finding {
                path: source.path.clone(),
                line: i + 1,
                what: format!("{word}: do it, or open an issue"),
            });
        }
    }
    findings
}

/// Paragraphs of doc comments that open with one of [`OPENERS`].
pub fn openings(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut before = "";
    for (i, line) in source.text.lines().map(str::trim).enumerate() {
        let doc = line.strip_prefix("///").or(line.strip_prefix("//!")).unwrap_or_default().trim();
        let opens = |word: &&str| {
            doc.strip_prefix(*word).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        };
        if before.is_empty()
            && let Some(word) = OPENERS.into_iter().find(opens)
        {
            findings.push(Finding {
                path: source.path.clone(),
                line: i + 1,
                what: format!("a doc comment opens with {word}: begin with a noun or a verb"),
            });
        }
        before = doc;
    }
    findings
}
