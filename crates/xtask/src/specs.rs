//! Standards tied to code: the files of `specs/`, their check against the tree, their page.
//!
//! A file is a standard. Each requirement of it is met (an item of the code and a test that
//! shows it), an exception with its reason, or still to do.

use std::{collections::BTreeMap, fmt::Write, fs, io, path::Path};

use serde::Deserialize;

use crate::{Finding, Source};

/// Folder of the standards' files, from the top of the tree.
pub const FOLDER: &str = "specs";
/// The page that [`page`] writes.
pub const PAGE: &str = "docs/standards.md";
/// Words that make a sentence of a standard a requirement.
const LEVELS: [&str; 6] = ["MUST", "MUST NOT", "SHALL", "SHALL NOT", "SHOULD", "SHOULD NOT"];
/// The macro that makes two tests of each function in its braces.
const BOTH_ENGINES: &str = "on_both_engines! {";
/// Keywords that define what `item` may name.
const DEFINITIONS: [&str; 7] = ["fn", "struct", "enum", "trait", "const", "type", "static"];

/// One standard.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standard {
    /// Name, as `RFC 4303`.
    pub standard: String,
    /// Title.
    pub title: String,
    /// Sections that are covered, and what is left out.
    pub scope: String,
    /// Requirements in order of section.
    pub requirement: Vec<Requirement>,
}

/// One requirement of a standard.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// Section or clause: `3.4.3`, `A2.1`.
    pub section: String,
    /// One of [`LEVELS`].
    pub level: String,
    /// Requirement in our own words.
    pub says: String,
    /// File of the code that meets it.
    pub file: Option<String>,
    /// Function or type in `file`.
    pub item: Option<String>,
    /// Test that shows it: `crates/…/file.rs::function`.
    pub test: Option<String>,
    /// Reason to do otherwise.
    pub exception: Option<String>,
    /// Missing part.
    pub todo: Option<String>,
}

/// Fulfilment of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fulfilment<'a> {
    /// By an item of a file, as a test shows.
    Met {
        /// Path of the code.
        file: &'a str,
        /// Function or type.
        item: &'a str,
        /// Path and function of the test.
        test: &'a str,
    },
    /// Not, for a reason.
    Exception(&'a str),
    /// Not yet, or not shown yet.
    ToDo {
        /// Missing part.
        missing: &'a str,
        /// Path and item of what is there without a test.
        code: Option<(&'a str, &'a str)>,
    },
}

impl Requirement {
    /// Fulfilment by the keys that are there, or what is wrong with them.
    pub fn fulfilment(&self) -> Result<Fulfilment<'_>, &'static str> {
        let place = (self.file.as_deref(), self.item.as_deref(), self.test.as_deref());
        match (place, self.exception.as_deref(), self.todo.as_deref()) {
            ((Some(file), Some(item), Some(test)), None, None) => {
                Ok(Fulfilment::Met { file, item, test })
            }
            ((None, None, None), Some(reason), None) => Ok(Fulfilment::Exception(reason)),
            ((None, None, None), None, Some(missing)) => {
                Ok(Fulfilment::ToDo { missing, code: None })
            }
            ((Some(file), Some(item), None), None, Some(missing)) => {
                Ok(Fulfilment::ToDo { missing, code: Some((file, item)) })
            }
            _ => Err(
                "wants file, item and test, or an exception, or a todo (perhaps with file and item)",
            ),
        }
    }
}

/// Texts of the folder by their paths.
pub fn read(top: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(top.join(FOLDER))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        found.insert(format!("{FOLDER}/{name}"), fs::read_to_string(&path)?);
    }
    Ok(found)
}

/// A standard from its text; a finding where it cannot be read.
pub fn parse(path: &str, text: &str) -> Result<Standard, Finding> {
    toml::from_str(text).map_err(|e| {
        let line = e.span().map_or(0, |span| 1 + text[..span.start].matches('\n').count());
        Finding { path: path.into(), line, what: e.message().into() }
    })
}

/// Everything wrong with a standard: order, words, pointers into the tree.
pub fn check(path: &str, standard: &Standard, tree: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut wrong = |section: &str, what: String| {
        let what = format!("section {section}: {what}");
        findings.push(Finding { path: path.into(), line: 0, what });
    };
    for (name, text) in [("title", &standard.title), ("scope", &standard.scope)] {
        if text.trim().is_empty() {
            wrong("0", format!("{name} is empty"));
        }
    }
    let mut last = Vec::new();
    for requirement in &standard.requirement {
        let section = requirement.section.as_str();
        match order(section) {
            None => wrong(section, "is no section".into()),
            Some(order) if order < last => wrong(section, "stands behind a later one".into()),
            Some(order) => last = order,
        }
        if !LEVELS.contains(&requirement.level.as_str()) {
            wrong(section, format!("{:?} is none of {}", requirement.level, LEVELS.join(", ")));
        }
        if requirement.says.trim().is_empty() {
            wrong(section, "says nothing".into());
        }
        match requirement.fulfilment() {
            Err(what) => wrong(section, what.into()),
            Ok(fulfilment) => pointers(fulfilment, tree).for_each(|what| wrong(section, what)),
        }
    }
    findings
}

/// Empty reasons, and pointers that lead nowhere.
fn pointers(fulfilment: Fulfilment<'_>, tree: &[Source]) -> impl Iterator<Item = String> {
    let told = |reason: &str| match reason.trim() {
        "" => Err("the reason is empty".to_owned()),
        _ => Ok(()),
    };
    let found = match fulfilment {
        Fulfilment::Met { file, item, test } => [defined(tree, file, item), tested(tree, test)],
        Fulfilment::Exception(reason) => [told(reason), Ok(())],
        Fulfilment::ToDo { missing, code } => {
            [told(missing), code.map_or(Ok(()), |(file, item)| defined(tree, file, item))]
        }
    };
    found.into_iter().filter_map(Result::err)
}

/// A section's place: numbers part by part, appendices behind them.
fn order(section: &str) -> Option<Vec<(u8, u32)>> {
    let part = |part: &str| {
        let letter = part.bytes().next().filter(u8::is_ascii_uppercase).unwrap_or(0);
        let digits = if letter == 0 { part } else { &part[1..] };
        match digits {
            "" if letter != 0 => Some((letter, 0)),
            digits => digits.parse().ok().map(|number| (letter, number)),
        }
    };
    section.split('.').map(part).collect()
}

fn source<'a>(tree: &'a [Source], path: &str) -> Result<&'a Source, String> {
    tree.iter().find(|s| s.path == path).ok_or_else(|| format!("{path}: no such file"))
}

/// An error unless the file defines a function or type of that name.
fn defined(tree: &[Source], file: &str, item: &str) -> Result<(), String> {
    let source = source(tree, file)?;
    let here = source.words(item).any(|at| {
        let before = source.code[..at].trim_end();
        DEFINITIONS.iter().any(|word| {
            before.strip_suffix(word).is_some_and(|b| b.is_empty() || b.ends_with([' ', '\n']))
        })
    });
    if here { Ok(()) } else { Err(format!("{file} defines no {item}")) }
}

/// An error unless the file has a test of that name, by its attribute or in the list of those that
/// run on each engine.
fn tested(tree: &[Source], test: &str) -> Result<(), String> {
    let (file, function) =
        test.split_once("::").ok_or_else(|| format!("{test} is not file::function"))?;
    let source = source(tree, file)?;
    let here = source.words(function).any(|at| {
        let before = &source.code[..at];
        // Attributes and comments of a function stand behind the brace or semicolon before it.
        let own = before.rfind(['}', ';', '{']).map_or(before, |end| &before[end..]);
        let is_attributed = own.trim_end().ends_with("fn") && own.contains("#[test]");
        is_attributed
            || before.rfind(BOTH_ENGINES).is_some_and(|list| !before[list..].contains('}'))
    });
    if here { Ok(()) } else { Err(format!("{file} has no test {function}")) }
}

/// Numbers of those that are met, of exceptions, and of those to do.
pub fn counts(standard: &Standard) -> [usize; 3] {
    let mut counts = [0; 3];
    for requirement in &standard.requirement {
        match requirement.fulfilment() {
            Ok(Fulfilment::Met { .. }) => counts[0] += 1,
            Ok(Fulfilment::Exception(_)) => counts[1] += 1,
            Ok(Fulfilment::ToDo { .. }) => counts[2] += 1,
            Err(_) => {}
        }
    }
    counts
}

const HEAD: &str = "\
# Standards

Requirements of the standards that Ferrule implements: where each is met and which test shows
it, where Ferrule does otherwise and why, and what is still to do. Sections are told in our own
words; the standard's own count.

Written from the files of `specs/` by `cargo run -q -p xtask -- standards > docs/standards.md`;
a test holds each pointer against the tree.

";

/// The page of all standards.
pub fn page(standards: &[Standard]) -> String {
    let mut page = String::from(HEAD);
    page.push_str(
        "| standard | | met | exceptions | to do |\n| --- | --- | ---: | ---: | ---: |\n",
    );
    let mut sum = [0; 3];
    for standard in standards {
        let [met, exceptions, open] = counts(standard);
        sum = [sum[0] + met, sum[1] + exceptions, sum[2] + open];
        let Standard { standard, title, .. } = standard;
        let _ = writeln!(page, "| {standard} | {title} | {met} | {exceptions} | {open} |");
    }
    let _ = writeln!(page, "| all | | {} | {} | {} |", sum[0], sum[1], sum[2]);
    for standard in standards {
        section(&mut page, standard);
    }
    page
}

/// One standard: what is open and what differs first, then where the rest is met.
fn section(page: &mut String, standard: &Standard) {
    let _ = writeln!(page, "\n## {}\n\n{}. {}", standard.standard, standard.title, standard.scope);
    let mut list = |heading: &str, line: &dyn Fn(Fulfilment<'_>) -> Option<String>| {
        let mut begun = false;
        for requirement in &standard.requirement {
            let Some(told) = requirement.fulfilment().ok().and_then(line) else { continue };
            if !begun {
                let _ = writeln!(page, "\n**{heading}**\n");
                begun = true;
            }
            let Requirement { section, level, says, .. } = requirement;
            let _ = writeln!(page, "- {section}, {level}: {says}. {told}");
        }
    };
    list("To do", &|fulfilment| match fulfilment {
        Fulfilment::ToDo { missing, code: None } => Some(format!("*{missing}*")),
        Fulfilment::ToDo { missing, code: Some((file, item)) } => {
            Some(format!("`{item}` in `{file}`. *{missing}*"))
        }
        _ => None,
    });
    list("Exceptions", &|fulfilment| match fulfilment {
        Fulfilment::Exception(reason) => Some(format!("*{reason}*")),
        _ => None,
    });
    list("Met", &|fulfilment| match fulfilment {
        Fulfilment::Met { file, item, test } => {
            let test = test.rsplit("::").next().unwrap_or_default();
            Some(format!("`{item}` in `{file}`; `{test}`."))
        }
        _ => None,
    });
}
