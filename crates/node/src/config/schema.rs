//! Values that do not fit the keys which there are: all of them in one go.
//!
//! Whoever reads values into types stops at the first that does not fit. So what
//! does not fit is noted, taken out of a copy, and the rest is read again, until
//! all of it fits:
//!
//! ```text
//!   read ──fits──▶ done, with what was noted
//!    ▲ └──does not──▶ note it, take it out ─┐
//!    └──────────────────────────────────────┘
//! ```

use super::error::Problem;
use super::raw;
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, ValueDeserializer};

/// Problems that are noted at most.
const PROBLEMS_MAX: usize = 100;

/// A whole file.
pub(super) fn parse(text: &str) -> Result<raw::File, Vec<Problem>> {
    // Nearly always all of it fits: then nothing need be copied.
    match raw::File::deserialize(ValueDeserializer::from(table(text)?)) {
        Ok(file) => Ok(file),
        Err(_) => fit(table(text)?),
    }
}

fn table(text: &str) -> Result<Spanned<DeValue<'_>>, Vec<Problem>> {
    let table = DeTable::parse(text).map_err(|e| vec![Problem::syntax(&e)])?;
    Ok(Spanned::new(table.span(), DeValue::Table(table.into_inner())))
}

/// A table of a larger file.
pub(super) fn fit(mut value: Spanned<DeValue<'_>>) -> Result<raw::File, Vec<Problem>> {
    let mut problems: Vec<Problem> = Vec::new();
    let mut cut: Vec<Range<usize>> = Vec::new();
    let whole = value.span();
    loop {
        let error = match raw::File::deserialize(ValueDeserializer::from(value.clone())) {
            Ok(file) if problems.is_empty() => return Ok(file),
            Ok(_) => return Err(problems),
            Err(error) => error,
        };
        let span = error.span().unwrap_or(whole.clone());
        // What was taken out is missing now: that is said already.
        let follows = cut.contains(&span) && error.message().starts_with("missing field");
        if !follows {
            let mut problem = Problem::syntax(&error);
            problem.span = span.clone();
            problems.push(problem);
        }
        let taken = take_out(&mut value, &span, &mut cut);
        if !taken || problems.len() >= PROBLEMS_MAX {
            return Err(problems);
        }
    }
}

/// Takes out what stands at `span`: a key or a value with its key, or an element of
/// a list. False if nothing stands there.
fn take_out(
    value: &mut Spanned<DeValue<'_>>,
    span: &Range<usize>,
    cut: &mut Vec<Range<usize>>,
) -> bool {
    let own = value.span();
    match value.get_mut() {
        DeValue::Table(table) => {
            let found = table.iter().find(|(k, v)| k.span() == *span || v.span() == *span);
            if let Some(key) = found.map(|(k, _)| k.get_ref().clone()) {
                table.remove(&*key);
                cut.push(own);
                return true;
            }
            table.iter_mut().any(|(_, value)| take_out(value, span, cut))
        }
        DeValue::Array(list) => {
            if list.iter().any(|value| value.span() == *span) {
                let all = std::mem::replace(list, DeArray::new());
                all.into_iter().filter(|v| v.span() != *span).for_each(|v| list.push(v));
                return true;
            }
            list.iter_mut().any(|value| take_out(value, span, cut))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(usize, String)> {
        let problems = parse(text).err().unwrap_or_default();
        let line = |p: &Problem| text[..p.span.start].matches('\n').count() + 1;
        let mut found: Vec<_> = problems.iter().map(|p| (line(p), p.what.clone())).collect();
        found.sort();
        found
    }

    #[test]
    fn config_keys_that_do_not_exist_come_all_at_once_with_their_lines() {
        let text = r#"
[node]
nmae = "a"
workers = "two"
[[port]]
name = "x"
colour = "red"
[[port]]
mtu = 1500
[[interface]]
port = "x"
adress = ["10.0.0.1/24"]
vlan = [1]
[tunel]
"#;
        let found = lines(text);
        let at: Vec<usize> = found.iter().map(|f| f.0).collect();
        assert_eq!(at, [3, 4, 7, 8, 12, 13, 14], "{found:?}");
        assert!(found[0].1.contains("unknown field `nmae`"), "{found:?}");
        assert!(found[3].1.contains("missing field `name`"), "{found:?}");
    }

    #[test]
    fn config_values_that_miss_only_what_was_taken_out_are_named_once() {
        let found = lines("port = [{ name = 3 }, { nam = \"x\" }, { name = \"b\" }]\n");
        let whats: Vec<&str> = found.iter().map(|f| f.1.as_str()).collect();
        assert_eq!(whats.len(), 2, "{whats:?}");
        assert!(whats.iter().any(|w| w.contains("invalid type")), "{whats:?}");
        assert!(whats.iter().any(|w| w.contains("unknown field `nam`")), "{whats:?}");
        assert!(parse("port = [{ name = \"b\" }]").is_ok());
        assert_eq!(lines("port = [").len(), 1, "no TOML at all");
    }

    #[test]
    fn config_problems_are_bounded() {
        let text: String = (0..500).map(|i| format!("key{i} = 1\n")).collect();
        assert_eq!(lines(&text).len(), PROBLEMS_MAX);
    }
}
