//! Every drop reason is used: a counter that cannot move is a lie in `show drops`.

use crate::{Finding, Source};

/// File that lists the reasons.
pub const LIST: &str = "crates/base/src/drops.rs";

/// The reasons of the list: lines of the form `Name = "name",`.
pub fn reasons(list: &Source) -> Vec<(String, usize)> {
    list.text
        .lines()
        .enumerate()
        .filter_map(|(i, line)| {
            let (name, label) = line.trim().split_once(" = \"")?;
            let named = name.chars().all(char::is_alphanumeric) && label.ends_with("\",");
            named.then(|| (name.to_owned(), i + 1))
        })
        .collect()
}

/// Reasons that no code outside of `base` gives, tests left aside.
pub fn unused(sources: &[Source]) -> Vec<Finding> {
    let Some(list) = sources.iter().find(|s| s.path == LIST) else { return Vec::new() };
    let code: Vec<Source> = sources
        .iter()
        .filter(|s| s.crate_name() != Some("base") && !s.is_test())
        .map(|s| Source { code: s.without_test_modules(), ..s.clone() })
        .collect();
    reasons(list)
        .into_iter()
        .filter(|(name, _)| {
            let given = [format!("DropReason::{name}"), format!("Drop::{name}")];
            !code.iter().any(|s| given.iter().any(|g| s.words(g).next().is_some()))
        })
        .map(|(name, line)| Finding {
            path: LIST.into(),
            line,
            what: format!("nothing ever drops for {name}"),
        })
        .collect()
}
