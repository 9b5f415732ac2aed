//! A configuration as it is written, changed where SAs stand and nowhere else: comments
//! and order stay.

use super::plan::End;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

/// An SA as a file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sa {
    pub spi: u32,
    pub key: String,
    pub worker: Option<i64>,
}

impl Sa {
    fn inline(&self) -> InlineTable {
        let mut table = InlineTable::new();
        table.insert("spi", hexadecimal(self.spi));
        table.insert("key", self.key.as_str().into());
        if let Some(worker) = self.worker {
            table.insert("worker", worker.into());
        }
        table
    }
}

/// As people write SPIs.
fn hexadecimal(spi: u32) -> Value {
    format!("{spi:#x}").parse().unwrap_or_else(|_| i64::from(spi).into())
}

/// A complaint: the fault, and the remedy.
type Unfit = (String, &'static str);

/// A configuration as it is written.
pub struct Document(DocumentMut);

impl Document {
    /// Reads it.
    pub fn parse(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|e: toml_edit::TomlError| e.message().to_owned())
    }

    fn pair(&self, section: &str, name: &str) -> Option<&Table> {
        let pairs = self.0.get(section)?.as_array_of_tables()?;
        pairs.iter().find(|pair| pair.get("name").and_then(Item::as_str) == Some(name))
    }

    /// The SAs of one direction: that of `key`, then those of the list `also`.
    pub fn sas(&self, section: &str, name: &str, key: &str, also: &str) -> Result<Vec<Sa>, Unfit> {
        let remedy = "write each as [[tunnel]] or [[transport]], with its SAs below it";
        let pair = self.pair(section, name);
        let pair = pair.ok_or_else(|| (format!("`{name}` does not stand in a table"), remedy))?;
        let first = pair.get(key).and_then(Item::as_table_like).into_iter().map(sa);
        let more = pair.get(also).into_iter().flat_map(|list| -> Vec<Result<Sa, Unfit>> {
            match list {
                Item::ArrayOfTables(tables) => tables.iter().map(|table| sa(table)).collect(),
                Item::Value(Value::Array(list)) => {
                    let tables = list.iter().filter_map(Value::as_inline_table);
                    tables.map(|table| sa(table)).collect()
                }
                _ => Vec::new(),
            }
        });
        first.chain(more).collect()
    }

    /// The file of a step: 0 make, 1 switch, 2 break.
    pub fn step(&self, end: &End, step: usize) -> String {
        let mut document = self.0.clone();
        let pairs = document.get_mut(end.section).and_then(Item::as_array_of_tables_mut);
        let named =
            |pair: &&mut Table| pair.get("name").and_then(Item::as_str) == Some(end.name.as_str());
        if let Some(pair) = pairs.and_then(|pairs| pairs.iter_mut().find(named)) {
            let (first, also) = match step {
                2 => (&end.new_in[0], end.new_in[1..].to_vec()),
                _ => (&end.old_in[0], [&end.old_in[1..], &end.new_in[..]].concat()),
            };
            put(pair, ("in", "also-in"), first, &also);
            if step > 0 {
                put(pair, ("out", "also-out"), &end.new_out[0], &end.new_out[1..]);
            }
        }
        document.to_string()
    }
}

fn sa(table: &dyn TableLike) -> Result<Sa, Unfit> {
    let text = |key| table.get(key).and_then(Item::as_str);
    let spi = table.get("spi").and_then(Item::as_integer).and_then(|spi| u32::try_from(spi).ok());
    let key = text("key").unwrap_or_default().to_owned();
    if key.starts_with("token:") || table.get("rest").is_some() {
        let remedy = "make new ones with `ferrule token`, and change the files by hand";
        return Err((format!("key `{key}` is on a token"), remedy));
    }
    let worker = table.get("worker").and_then(Item::as_integer);
    Ok(Sa { spi: spi.unwrap_or_default(), key, worker })
}

/// Puts SAs where those of one direction stand.
fn put(pair: &mut Table, (key, also): (&str, &str), first: &Sa, more: &[Sa]) {
    if let Some(place) = pair.get_mut(key).and_then(Item::as_table_like_mut) {
        set(place, "spi", hexadecimal(first.spi));
        set(place, "key", first.key.as_str().into());
        match first.worker {
            Some(worker) => set(place, "worker", worker.into()),
            None => drop(place.remove("worker")),
        }
    }
    if more.is_empty() {
        pair.remove(also);
        return;
    }
    let list: Array = more.iter().map(Sa::inline).collect();
    pair.insert(also, Item::Value(list.into()));
}

/// A value in the place of another, with the comment beside it.
fn set(table: &mut dyn TableLike, key: &str, value: Value) {
    match table.get_mut(key) {
        Some(Item::Value(old)) => {
            let decor = old.decor().clone();
            *old = value;
            *old.decor_mut() = decor;
        }
        _ => drop(table.insert(key, Item::Value(value))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# A gateway.
[[tunnel]]
name = \"t\" # to the other site
out = { spi = 0x1001, key = \"out.key\" } # ours
in = { spi = 0x1002, key = \"in.key\" }

[[policy]] # stays
";

    fn end() -> (Document, End) {
        let document = Document::parse(FILE).expect("TOML");
        let read = |key, also| document.sas("tunnel", "t", key, also).expect("SAs");
        let new = |spi, key: &str| vec![Sa { spi, key: key.into(), worker: None }];
        let end = End {
            section: "tunnel",
            name: "t".into(),
            old_in: read("in", "also-in"),
            old_out: read("out", "also-out"),
            new_in: new(0x2002, "in.2.key"),
            new_out: new(0x2001, "out.2.key"),
        };
        (document, end)
    }

    #[test]
    fn rekeying_makes_before_it_breaks_and_leaves_the_rest_alone() {
        let (document, end) = end();
        let make = FILE.replace(
            "in.key\" }\n",
            "in.key\" }\nalso-in = [{ spi = 0x2002, key = \"in.2.key\" }]\n",
        );
        assert_eq!(document.step(&end, 0), make);
        let switch = make.replace("0x1001", "0x2001").replace("out.key", "out.2.key");
        assert_eq!(document.step(&end, 1), switch);
        let done = FILE
            .replace("0x1001", "0x2001")
            .replace("out.key", "out.2.key")
            .replace("0x1002", "0x2002")
            .replace("in.key", "in.2.key");
        assert_eq!(document.step(&end, 2), done);
    }

    #[test]
    fn tables_of_their_own_are_changed_where_they_stand() {
        let text = "[[tunnel]]\nname = \"t\"\n[tunnel.out]\nspi = 1000 # ours\nkey = \"o\"\n\
                    [tunnel.in]\nspi = 0x1002\nkey = \"i\"\n";
        let document = Document::parse(text).expect("TOML");
        let (_, end) = end();
        let done = document.step(&end, 2);
        assert!(done.contains("[tunnel.out]\nspi = 0x2001 # ours\nkey = \"out.2.key\""), "{done}");
        assert!(done.contains("[tunnel.in]\nspi = 0x2002\nkey = \"in.2.key\""), "{done}");
        let make = document.step(&end, 0);
        assert!(make.contains("name = \"t\"\nalso-in = [{ spi = 0x2002"), "{make}");
    }

    #[test]
    fn keys_on_a_token_are_left_alone() {
        let text = FILE.replace("in.key", "token:in");
        let document = Document::parse(&text).expect("TOML");
        let refused = document.sas("tunnel", "t", "in", "also-in").expect_err("on a token");
        assert!(refused.0.contains("token:in"));
    }
}
