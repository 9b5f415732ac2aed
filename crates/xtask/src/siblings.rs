//! Folders of a crate and their arrows: protocols beside one another do not import one another,
//! and no folders import one another in a circle.
//!
//! An arrow is a path from `crate` or through `super` that leaves the folder, also by way of a
//! name that the crate's root hands on. Tests may use what they like.

use crate::{Finding, Source};
use std::collections::{BTreeMap, BTreeSet};

/// Crates whose folders are protocols, and the folders in them that stand below the protocols
/// because several share them.
const PROTOCOLS: &[(&str, &[&str])] =
    &[("dataplane", &["classify", "protection"]), ("control", &[])];

/// Arrows that are there against the rule: `(crate, from, to)`. The list only shrinks.
pub const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("crypto", "accel", "backend"),
    ("crypto", "backend", "accel"),
    ("daemon", "api", "events"),
    ("daemon", "events", "api"),
    ("dataplane", "acl", "bridge"),
    ("dataplane", "acl", "link"),
    ("dataplane", "acl", "mpls"),
    ("dataplane", "bridge", "link"),
    ("dataplane", "ipsec", "fragment"),
    ("dataplane", "ipsec", "link"),
    ("dataplane", "ipsec", "protection"),
    ("dataplane", "link", "mpls"),
    ("dataplane", "link", "route"),
    ("dataplane", "macsec", "route"),
    ("dataplane", "mpls", "link"),
    ("dataplane", "mpls", "route"),
    ("dataplane", "protection", "ipsec"),
    ("dataplane", "route", "ipsec"),
    ("dataplane", "route", "link"),
    ("node", "control", "static_keys"),
    ("node", "static_keys", "control"),
];

/// An arrow between two folders of one crate.
pub type Arrow = (String, String, String);

/// Every arrow, with the first place that draws it.
pub fn arrows(sources: &[Source]) -> BTreeMap<Arrow, (String, usize)> {
    let folders: BTreeSet<(&str, &str)> = sources.iter().filter_map(folder_of).collect();
    let handed_on = handed_on(sources, &folders);
    let mut found = BTreeMap::new();
    for source in sources.iter().filter(|s| !s.is_test()) {
        let (Some(krate), Some((_, module))) = (source.crate_name(), inside(source)) else {
            continue;
        };
        let from = module[0].as_str();
        if !folders.contains(&(krate, from)) {
            continue;
        }
        let visible = Source { code: source.without_test_modules(), ..source.clone() };
        for (name, at) in roots(&visible, &module) {
            let to = handed_on.get(&(krate, name.clone())).cloned().unwrap_or(name);
            if to != from && folders.contains(&(krate, to.as_str())) {
                let place = (source.path.clone(), source.line_of(at));
                found.entry((krate.into(), from.into(), to)).or_insert(place);
            }
        }
    }
    found
}

/// Arrows that break a rule and are not among `exceptions`, and exceptions that nothing needs.
pub fn siblings(sources: &[Source], exceptions: &[(&str, &str, &str)]) -> Vec<Finding> {
    let arrows = arrows(sources);
    let mut findings = Vec::new();
    let mut wrong = BTreeSet::new();
    for (arrow, (path, line)) in &arrows {
        let Some(why) = broken(arrow, &arrows) else { continue };
        let (krate, from, to) = (arrow.0.as_str(), arrow.1.as_str(), arrow.2.as_str());
        wrong.insert((krate, from, to));
        if !exceptions.contains(&(krate, from, to)) {
            let what = format!("{krate}: `{from}` imports `{to}`: {why}");
            findings.push(Finding { path: path.clone(), line: *line, what });
        }
    }
    for &(krate, from, to) in exceptions.iter().filter(|e| !wrong.contains(*e)) {
        let what = format!("the exception `{from}` to `{to}` is not needed: strike it");
        findings.push(Finding { path: format!("crates/{krate}/src/{from}"), line: 0, what });
    }
    findings
}

/// The rule that an arrow breaks.
fn broken(arrow: &Arrow, arrows: &BTreeMap<Arrow, (String, usize)>) -> Option<&'static str> {
    let (krate, from, to) = arrow;
    let shared = PROTOCOLS.iter().find(|(name, _)| name == krate).map(|(_, shared)| *shared);
    if shared.is_some_and(|shared| !shared.contains(&to.as_str())) {
        return Some("protocols do not import one another");
    }
    reaches(krate, to, from, arrows).then_some("that closes a circle")
}

/// Arrows lead from one folder to another, however many there are between.
fn reaches(krate: &str, from: &str, to: &str, arrows: &BTreeMap<Arrow, (String, usize)>) -> bool {
    let mut seen = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(here) = waiting.pop() {
        if here == to {
            return true;
        }
        if seen.insert(here) {
            let next = arrows.keys().filter(|(c, a, _)| c == krate && a == here);
            waiting.extend(next.map(|(_, _, b)| b.as_str()));
        }
    }
    false
}

/// Crate and path of modules of a source below `src/`.
fn inside(source: &Source) -> Option<(&str, Vec<String>)> {
    let (krate, path) = source.path.strip_prefix("crates/")?.split_once("/src/")?;
    let mut module: Vec<String> = path.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if module.len() > 1 && module.last().is_some_and(|name| name == "mod") {
        module.pop();
    }
    Some((krate, module))
}

/// Crate and folder of a source that lies in one.
fn folder_of(source: &Source) -> Option<(&str, &str)> {
    let (krate, path) = source.path.strip_prefix("crates/")?.split_once("/src/")?;
    let (folder, _) = path.split_once('/')?;
    (!source.is_test()).then_some((krate, folder))
}

/// Names that a crate's root takes from a folder and hands on, by crate and name.
fn handed_on<'a>(
    sources: &'a [Source],
    folders: &BTreeSet<(&str, &str)>,
) -> BTreeMap<(&'a str, String), String> {
    let mut found = BTreeMap::new();
    for source in sources.iter().filter(|s| s.path.ends_with("/src/lib.rs")) {
        let Some(krate) = source.crate_name() else { continue };
        for at in source.words("use") {
            let path = source.code[at + 3..].split(';').next().unwrap_or_default().trim();
            let path = path.trim_start_matches("self::").trim_start_matches("crate::");
            let folder = word(path);
            if folders.contains(&(krate, folder)) {
                let leaves = path.split([',', '{', '}']).map(leaf);
                found.extend(leaves.map(|leaf| ((krate, leaf.to_owned()), folder.to_owned())));
            }
        }
    }
    found
}

/// The name by which a path of a `use` is known.
fn leaf(path: &str) -> &str {
    let last = path.rsplit("::").next().unwrap_or_default();
    last.rsplit(" as ").next().unwrap_or_default().trim()
}

/// First names below the crate's root of every path that begins there, with their place.
fn roots(source: &Source, module: &[String]) -> Vec<(String, usize)> {
    let code = &source.code;
    let mut found = Vec::new();
    for at in source.words("crate") {
        if let Some(rest) = code[at..].strip_prefix("crate::") {
            found.extend(names(rest).into_iter().map(|name| (name, at)));
        }
    }
    for at in source.words("super").filter(|&at| !code[..at].ends_with("super::")) {
        let rest = code[at..].trim_start_matches("super::");
        if (code[at..].len() - rest.len()) / "super::".len() == module.len() {
            found.extend(names(rest).into_iter().map(|name| (name, at)));
        }
    }
    found
}

/// The names that a path begins with: one, or those of a group.
fn names(rest: &str) -> Vec<String> {
    let Some(group) = rest.strip_prefix('{') else { return vec![word(rest).to_owned()] };
    let mut depth = 0usize;
    let mut found = vec![word(group.trim_start()).to_owned()];
    for (i, b) in group.bytes().enumerate() {
        match b {
            b'{' => depth += 1,
            b'}' if depth == 0 => break,
            b'}' => depth -= 1,
            b',' if depth == 0 => found.push(word(group[i + 1..].trim_start()).to_owned()),
            _ => {}
        }
    }
    found
}

/// The identifier that a text begins with.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}
