//! The configuration's keys for editors and for people: a JSON Schema and a reference
//! in Markdown, both from the types that read the file ([`raw`](super::raw)).
//!
//! ```text
//!   raw.rs: types, comments, ranges, words, defaults ─▶ schema ─▶ reference
//! ```

use super::raw;
use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde_json::{Map, Value};
use std::fmt::Write;

/// Keys and values of one table.
type Object = Map<String, Value>;

/// The JSON Schema (draft 2020-12) of a configuration.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(as_toml));
    let mut schema = settings.into_generator().into_root_schema_for::<raw::File>();
    schema.insert("title".into(), "Ferrule node".into());
    schema.to_value()
}

/// TOML has no null, and integers of one size.
fn as_toml(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    object.remove("format");
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|t| t != "null");
        if let [one] = &types[..] {
            let one = one.clone();
            object.insert("type".into(), one);
        }
    }
    if let Some(Value::Array(any)) = object.get_mut("anyOf") {
        any.retain(|one| one.get("type").is_none_or(|t| t != "null"));
        if let [Value::Object(one)] = &any[..] {
            let one = one.clone();
            object.remove("anyOf");
            one.into_iter().for_each(|(key, value)| {
                object.entry(key).or_insert(value);
            });
        }
    }
}

/// The reference of all tables in Markdown, or of the one of this name; nothing if
/// there is none.
pub fn reference(table: Option<&str>) -> Option<String> {
    let schema = schema();
    let pages = Pages { root: &schema };
    let sections = properties(&schema);
    if let Some(name) = table {
        return Some(pages.section(name, sections.get(name)?, &[]));
    }
    let all = ORDER.iter().enumerate().filter_map(|(at, name)| {
        let before = ORDER[..at].iter().filter_map(|name| Some((*name, sections.get(*name)?)));
        Some(pages.section(name, sections.get(*name)?, &before.collect::<Vec<_>>()))
    });
    Some(INTRODUCTION.to_owned() + &all.collect::<Vec<_>>().join("\n"))
}

/// Tables in the order of the reference.
const ORDER: [&str; 16] = [
    "node",
    "port",
    "interface",
    "bridge",
    "route",
    "lsp",
    "label",
    "pseudowire",
    "macsec",
    "tunnel",
    "transport",
    "policy",
    "access-list",
    "vrf",
    "look-aside",
    "token",
];

/// In front of the whole reference.
const INTRODUCTION: &str = "\
# Configuration reference

Every key of a node's configuration, as `ferrule config reference` prints it. A file is
TOML; `[table]` stands once, `[[table]]` as often as needed. Paths are looked for in the
folder of the file. A key that is not listed is refused, with its line.
`ferrule config schema` prints the same as a JSON Schema, which editors use to complete
and check:

```toml
#:schema ./ferrule.schema.json
```

";

fn properties(schema: &Value) -> Object {
    schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default()
}

fn text<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Writes tables of a schema.
struct Pages<'a> {
    root: &'a Value,
}

impl<'a> Pages<'a> {
    /// The schema that a `$ref` stands for.
    fn followed<'b>(&'b self, schema: &'b Value) -> &'b Value {
        let path = text(schema, "$ref").strip_prefix('#');
        path.and_then(|path| self.root.pointer(path)).unwrap_or(schema)
    }

    /// The table below a list of tables, or below a table.
    fn table<'b>(&'b self, schema: &'b Value) -> Option<&'b Value> {
        let schema = self.followed(schema);
        let inner = schema.get("items").map_or(schema, |items| self.followed(items));
        inner.get("properties").is_some().then_some(inner)
    }

    /// A section; where one of those `before` has the same keys, they are not said again.
    fn section(&self, name: &str, schema: &Value, before: &[(&str, &Value)]) -> String {
        let listed = self.followed(schema).get("items").is_some();
        let title = if listed { format!("[[{name}]]") } else { format!("[{name}]") };
        let mut page = format!("## `{title}`\n\n{}\n", text(schema, "description"));
        let table = self.table(schema);
        let (Some(table), false) = (table, before.iter().any(|(_, s)| self.table(s) == table))
        else {
            return page;
        };
        let _ = write!(page, "\n{}", self.keys(table));
        let all = properties(table);
        let mut told: Vec<&Value> = Vec::new();
        for inner in all.values().filter_map(|value| self.table(value)) {
            if told.contains(&inner) {
                continue;
            }
            told.push(inner);
            let alike = all.iter().filter(|(_, other)| self.table(other) == Some(inner));
            let alike: Vec<String> = alike.map(|(key, _)| format!("`{key}`")).collect();
            let _ = write!(page, "\nKeys of {} in `{title}`:\n\n", alike.join(", "));
            page += &self.keys(inner);
        }
        page
    }

    /// A line for each key, those that are needed first.
    fn keys(&self, table: &Value) -> String {
        let required = table.get("required").and_then(Value::as_array);
        let is_needed = |key: &str| required.is_some_and(|all| all.iter().any(|one| one == key));
        let mut page =
            String::from("| key | value | default | meaning |\n| --- | --- | --- | --- |\n");
        let (first, rest): (Vec<_>, Vec<_>) =
            properties(table).into_iter().partition(|(key, _)| is_needed(key));
        for (key, schema) in first.into_iter().chain(rest) {
            let needed = is_needed(&key);
            let default = match schema.get("default") {
                _ if needed => "**needed**".to_owned(),
                Some(Value::Array(list)) if list.is_empty() => String::new(),
                Some(value) => format!("`{value}`"),
                None => String::new(),
            };
            let (kind, about) = (self.kind(&schema), text(&schema, "description"));
            let cells = [format!("`{key}`"), kind, default, about.to_owned()];
            let cells = cells.map(|cell| cell.replace('|', "\\|").replace('\n', " "));
            let _ = writeln!(page, "| {} |", cells.join(" | "));
        }
        page
    }

    /// The values that a key may have, in words.
    fn kind(&self, schema: &Value) -> String {
        if let Some(Value::Array(words)) = schema.get("enum") {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            return words.join(", ");
        }
        let any = schema.get("anyOf").or(self.followed(schema).get("anyOf"));
        if let Some(Value::Array(any)) = any {
            let kinds: Vec<String> = any.iter().map(|one| self.kind(one)).collect();
            return kinds.join(", or ");
        }
        let kind = self.followed(schema).get("type").unwrap_or(&Value::Null);
        let several: Vec<&str> = match kind {
            Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect(),
        };
        several.into_iter().map(|kind| self.of_type(kind, schema)).collect::<Vec<_>>().join(" or ")
    }

    fn of_type(&self, kind: &str, schema: &Value) -> String {
        let bound = |key| schema.get(key).and_then(Value::as_u64);
        match (kind, bound("minimum"), bound("maximum")) {
            ("integer", Some(least), Some(most)) => format!("{least} to {most}"),
            ("integer", Some(least), None) => format!("number from {least}"),
            ("integer", ..) => "number".into(),
            ("string", ..) => "text".into(),
            ("boolean", ..) => "`true`, `false`".into(),
            ("array", ..) if self.table(schema).is_some() => "list of tables".into(),
            ("array", ..) => match schema.get("items") {
                Some(items) => format!("list of: {}", self.kind(items)),
                None => "list".into(),
            },
            ("object", ..) => "table".into(),
            (other, ..) => other.into(),
        }
    }
}

#[cfg(test)]
mod tests;
