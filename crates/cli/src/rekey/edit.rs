//! A configuration as it is written, changed where SAs stand and nowhere else: comments
//! and order stay.

use super::plan::End;
use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value};

/// The tables that SAs stand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// `[[tunnel]]`, ESP in tunnel mode.
    Tunnel,
    /// `[[transport]]`, ESP in transport mode.
    Transport,
    /// `[[macsec]]`, a SecY.
    Macsec,
}

/// The direction of an SA, as its end sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Inbound: the SA opens.
    In,
    /// Outbound: the SA seals.
    Out,
}

impl Section {
    /// Its name in a file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tunnel => "tunnel",
            Self::Transport => "transport",
            Self::Macsec => "macsec",
        }
    }

    /// Key that tells its tables apart.
    pub const fn named_by(self) -> &'static str {
        if matches!(self, Self::Macsec) { "port" } else { "name" }
    }

    /// Key that tells SAs apart: an SPI or an association number.
    const fn number(self) -> &'static str {
        if matches!(self, Self::Macsec) { "an" } else { "spi" }
    }

    /// Keys of the SAs of one direction: that of the first alone, if it has one, and that of the
    /// list of others.
    const fn places(self, way: Way) -> (Option<&'static str>, &'static str) {
        match (self, way) {
            (Self::Macsec, Way::In) => (None, "receive"),
            (Self::Macsec, Way::Out) => (None, "transmit"),
            (_, Way::In) => (Some("in"), "also-in"),
            (_, Way::Out) => (Some("out"), "also-out"),
        }
    }

    /// As people write it.
    fn value(self, number: u32) -> Value {
        let decimal = i64::from(number).into();
        if self == Self::Macsec {
            return decimal;
        }
        format!("{number:#x}").parse().unwrap_or(decimal)
    }
}

/// An SA as a file has it.
#[derive(Clone, Debug)]
pub struct Sa {
    /// SPI or association number.
    pub number: u32,
    pub key: String,
    /// Its other values: a worker, lifetimes; SCI and SSCI.
    pub others: Vec<(String, Value)>,
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

    /// The SAs of one direction, in their order.
    pub fn sas(&self, section: Section, name: &str, way: Way) -> Result<Vec<Sa>, Unfit> {
        let tables = self.0.get(section.name()).and_then(Item::as_array_of_tables);
        let table = tables.and_then(|tables| tables.iter().find(|t| is_named(t, section, name)));
        let remedy = "write each as [[tunnel]], [[transport]] or [[macsec]], its SAs below it";
        let table = table.ok_or_else(|| (format!("`{name}` does not stand in a table"), remedy))?;
        let (first, list) = section.places(way);
        let first = first.and_then(|key| table.get(key)).and_then(Item::as_table_like);
        let list = table.get(list).into_iter().flat_map(|list| -> Vec<&dyn TableLike> {
            match list {
                Item::ArrayOfTables(tables) => tables.iter().map(|t| t as _).collect(),
                Item::Value(Value::Array(list)) => {
                    list.iter().filter_map(Value::as_inline_table).map(|t| t as _).collect()
                }
                _ => Vec::new(),
            }
        });
        first.into_iter().chain(list).map(|sa| read(section, sa)).collect()
    }

    /// The file of a step: 0 make, 1 switch, 2 break.
    pub fn step(&self, end: &End, step: usize) -> String {
        let mut document = self.0.clone();
        let tables = document.get_mut(end.section.name()).and_then(Item::as_array_of_tables_mut);
        let table = tables.and_then(|tables| {
            tables.iter_mut().find(|table| is_named(table, end.section, &end.name))
        });
        if let Some(table) = table {
            // Present entries are not written again: they may leave out default values.
            let new = &end.new_in[..];
            let inbound = if step == 2 { (new, &[][..]) } else { (&[][..], new) };
            put(table, end.section, Way::In, inbound);
            if step > 0 {
                put(table, end.section, Way::Out, (&end.new_out, &[]));
            }
        }
        document.to_string()
    }
}

fn is_named(table: &Table, section: Section, name: &str) -> bool {
    table.get(section.named_by()).and_then(Item::as_str) == Some(name)
}

fn read(section: Section, table: &dyn TableLike) -> Result<Sa, Unfit> {
    let key = table.get("key").and_then(Item::as_str).unwrap_or_default().to_owned();
    if key.starts_with("token:") || table.get("rest").is_some() {
        let remedy = "make new ones with `ferrule token`, and change the files by hand";
        return Err((format!("key `{key}` is on a token"), remedy));
    }
    let number = table.get(section.number()).and_then(Item::as_integer);
    let number = number.and_then(|number| u32::try_from(number).ok()).unwrap_or_default();
    let others = table.iter().filter(|(word, _)| ![section.number(), "key"].contains(word));
    let others = others.filter_map(|(word, item)| {
        // Lifetimes may stand in tables of their own.
        let mut value = item.clone().into_value().ok()?;
        value.decor_mut().clear();
        Some((word.to_owned(), value))
    });
    Ok(Sa { number, key, others: others.collect() })
}

/// Puts SAs where those of one direction stand, each in the place of what stands there, and
/// more of them behind. Of inbound ones no others stay.
fn put(table: &mut Table, section: Section, way: Way, (stand, more): (&[Sa], &[Sa])) {
    let (first, list) = section.places(way);
    let ends = way == Way::In && !stand.is_empty();
    let mut stand = stand.iter();
    if let Some(place) = first.and_then(|key| table.get_mut(key)).and_then(Item::as_table_like_mut)
    {
        stand.next().into_iter().for_each(|sa| change(place, section, sa));
    }
    let written = |sa: &Sa| {
        let mut inline = InlineTable::new();
        if let Some((_, sci)) = sa.others.iter().find(|(word, _)| word == "sci") {
            inline.insert("sci", sci.clone());
        }
        inline.insert(section.number(), section.value(sa.number));
        inline.insert("key", sa.key.as_str().into());
        for (word, value) in sa.others.iter().filter(|(word, _)| word != "sci") {
            inline.insert(word, value.clone());
        }
        inline
    };
    let left = stand.len();
    match table.get_mut(list) {
        Some(Item::ArrayOfTables(tables)) => {
            tables.iter_mut().zip(stand).for_each(|(place, sa)| change(place, section, sa));
            more.iter().for_each(|sa| tables.push(written(sa).into_table()));
            (left..tables.len()).rev().filter(|_| ends).for_each(|at| drop(tables.remove(at)));
        }
        Some(Item::Value(Value::Array(inline))) => {
            let places = inline.iter_mut().filter_map(Value::as_inline_table_mut);
            places.zip(stand).for_each(|(place, sa)| change(place, section, sa));
            more.iter().for_each(|sa| inline.push(written(sa)));
            (left..inline.len()).rev().filter(|_| ends).for_each(|at| drop(inline.remove(at)));
        }
        _ if more.is_empty() => {}
        _ => drop(table.insert(list, Item::Value(more.iter().map(written).collect()))),
    }
    if ends && left == 0 {
        table.remove(list);
    }
}

/// Another SA in the place of one, with the comments beside it.
fn change(place: &mut dyn TableLike, section: Section, sa: &Sa) {
    set(place, section.number(), section.value(sa.number));
    set(place, "key", sa.key.as_str().into());
    for (word, value) in &sa.others {
        set(place, word, value.clone());
    }
    let goes = |word: &str| {
        ![section.number(), "key"].contains(&word) && sa.others.iter().all(|(o, _)| o != word)
    };
    let gone: Vec<String> =
        place.iter().map(|(word, _)| word.to_owned()).filter(|word| goes(word)).collect();
    gone.iter().for_each(|word| drop(place.remove(word)));
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
        let end = end_of(&document, Section::Tunnel, "t", [0x2002, 0x2001]);
        (document, end)
    }

    /// An end whose SAs get these numbers, inbound and outbound.
    fn end_of(document: &Document, section: Section, name: &str, numbers: [u32; 2]) -> End {
        let read = |way| document.sas(section, name, way).expect("SAs");
        let new = |old: &[Sa], number, key: &str| {
            vec![Sa { number, key: key.into(), others: old[0].others.clone() }]
        };
        let (old_in, old_out) = (read(Way::In), read(Way::Out));
        let new_in = new(&old_in, numbers[0], "in.2.key");
        let new_out = new(&old_out, numbers[1], "out.2.key");
        End { section, name: name.into(), old_in, new_in, old_out, new_out }
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
    fn lifetimes_are_those_of_the_sa_before_wherever_they_stand() {
        let text = "[[tunnel]]\nname = \"t\"\n[tunnel.out]\nspi = 1000\nkey = \"o\"\n\
                    hard-lifetime = { packets = 9 }\n[tunnel.in]\nspi = 0x1002\nkey = \"i\"\n\
                    [tunnel.in.hard-lifetime]\nseconds = 60\n";
        let document = Document::parse(text).expect("TOML");
        let end = end_of(&document, Section::Tunnel, "t", [0x2002, 0x2001]);
        let make = document.step(&end, 0);
        let also =
            "also-in = [{ spi = 0x2002, key = \"in.2.key\", hard-lifetime = { seconds = 60 }";
        assert!(make.contains(also), "{make}");
        let done: toml_edit::DocumentMut = document.step(&end, 2).parse().expect("TOML");
        let tunnel = &done["tunnel"][0];
        assert_eq!(tunnel["out"]["hard-lifetime"]["packets"].as_integer(), Some(9));
        assert_eq!(tunnel["in"]["hard-lifetime"]["seconds"].as_integer(), Some(60));
        assert_eq!(tunnel["in"]["spi"].as_integer(), Some(0x2002));
    }

    #[test]
    fn what_a_change_that_was_cut_short_left_over_goes() {
        let text = "[[tunnel]]\nname = \"t\"\nout = { spi = 0x1001, key = \"o\" }\n\
                    in = { spi = 0x1002, key = \"i\" } # ours\n\
                    also-in = [{ spi = 0x1003, key = \"i.2\", worker = 1 }]\nrest = 1\n";
        let document = Document::parse(text).expect("TOML");
        let mut end = end_of(&document, Section::Tunnel, "t", [0x2002, 0x2001]);
        // The other end seals with the second.
        let opened = &end.old_in[1];
        end.new_in = vec![Sa { number: 0x2002, key: "i.3".into(), others: opened.others.clone() }];
        let make = document.step(&end, 0);
        let three = "[{ spi = 0x1003, key = \"i.2\", worker = 1 }, \
                     { spi = 0x2002, key = \"i.3\", worker = 1 }]";
        assert!(make.contains(three), "{make}");
        let done = document.step(&end, 2);
        let one = "in = { spi = 0x2002, key = \"i.3\" , worker = 1 } # ours\nrest = 1";
        assert!(done.contains(one), "{done}");
    }

    #[test]
    fn keys_on_a_token_are_left_alone() {
        let text = FILE.replace("in.key", "token:in");
        let document = Document::parse(&text).expect("TOML");
        let refused = document.sas(Section::Tunnel, "t", Way::In).expect_err("on a token");
        assert!(refused.0.contains("token:in"));
    }

    const SECY: &str = "\
[[macsec]]
port = \"up\" # to the other site
[[macsec.transmit]]
key = \"o.key\" # ours
ssci = 1
[[macsec.receive]]
sci = \"02:00:00:00:00:02/1\"
key = \"i.key\"
ssci = 2
";

    #[test]
    fn a_secy_gets_other_association_numbers_with_the_sci_that_it_had() {
        let document = Document::parse(SECY).expect("TOML");
        let end = end_of(&document, Section::Macsec, "up", [1, 1]);
        let make = format!(
            "{SECY}\n[[macsec.receive]]\nsci = \"02:00:00:00:00:02/1\"\nan = 1\n\
             key = \"in.2.key\"\nssci = 2\n"
        );
        assert_eq!(document.step(&end, 0), make);
        let ours = (
            "key = \"o.key\" # ours\nssci = 1\n",
            "key = \"out.2.key\" # ours\nssci = 1\nan = 1\n",
        );
        let switch = make.replace(ours.0, ours.1);
        assert_eq!(document.step(&end, 1), switch);
        let done = SECY
            .replace(ours.0, ours.1)
            .replace("\"i.key\"\nssci = 2\n", "\"in.2.key\"\nssci = 2\nan = 1\n");
        assert_eq!(document.step(&end, 2), done);
    }

    #[test]
    fn associations_in_lists_are_changed_there() {
        let text = "[[macsec]]\nport = \"up\"\ntransmit = [{ an = 3, key = \"o\" }]\n\
                    receive = [{ sci = \"02:00:00:00:00:02/1\", an = 3, key = \"i\" }]\n";
        let document = Document::parse(text).expect("TOML");
        let end = end_of(&document, Section::Macsec, "up", [0, 0]);
        let make = document.step(&end, 0);
        let both = "key = \"i\" }, { sci = \"02:00:00:00:00:02/1\", an = 0, key = \"in.2.key\" }]";
        assert!(make.contains(both), "{make}");
        let done = document.step(&end, 2);
        assert!(done.contains("transmit = [{ an = 0, key = \"out.2.key\" }]"), "{done}");
        assert!(
            done.contains("an = 0, key = \"in.2.key\" }]") && !done.contains("\"i\""),
            "{done}"
        );
    }
}
