//! Tables of a file, read key by key: each value knows where it stands, and what
//! nobody asked for is reported with the key that was probably meant.

use ferrule_base::nearest;
use ferrule_node::config::Problem;
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// A text and where it stands.
pub type Text = Spanned<String>;

/// Collects problems, so that a person sees all of them at once.
#[derive(Default)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    pub fn add(&mut self, span: Range<usize>, what: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Problem { span, what: what.into(), remedy: remedy.into() });
    }

    /// A word that is none of those which there are.
    pub fn unknown(&mut self, text: &Text, what: &str, names: &[&str]) {
        // Among names of one letter each is near every other.
        let near = nearest(text.get_ref(), names.iter().copied());
        let remedy = match near.filter(|_| text.get_ref().len() > 1) {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.is_empty() => format!("define a {what} first"),
            None => format!("there are {}", names.join(", ")),
        };
        self.add(text.span(), format!("there is no {what} `{}`", text.get_ref()), remedy);
    }
}

/// A table of the file.
pub struct Section<'i> {
    /// For messages: `link`, `host h1`.
    pub what: String,
    /// Position in the file.
    pub span: Range<usize>,
    table: DeTable<'i>,
    known: Vec<&'static str>,
}

impl<'i> Section<'i> {
    pub fn new(what: impl Into<String>, table: Spanned<DeTable<'i>>) -> Self {
        let span = table.span();
        Self { what: what.into(), span, table: table.into_inner(), known: Vec::new() }
    }

    /// The value of a key, whatever it is.
    pub fn take(&mut self, key: &'static str) -> Option<Spanned<DeValue<'i>>> {
        self.known.push(key);
        self.table.remove(key)
    }

    fn typed<T>(
        &mut self,
        p: &mut Problems,
        key: &'static str,
        need: &str,
        read: impl FnOnce(DeValue<'i>) -> Result<T, DeValue<'i>>,
    ) -> Option<Spanned<T>> {
        let value = self.take(key)?;
        let span = value.span();
        match read(value.into_inner()) {
            Ok(value) => Some(Spanned::new(span, value)),
            Err(other) => {
                let what = format!("{key} of a {} is {}", self.what, article(other.type_str()));
                p.add(span, what, format!("write it as {need}"));
                None
            }
        }
    }

    /// A text.
    pub fn text(&mut self, p: &mut Problems, key: &'static str) -> Option<Text> {
        self.typed(p, key, "a text in quotation marks", |value| match value {
            DeValue::String(text) => Ok(text.into_owned()),
            other => Err(other),
        })
    }

    /// A text that must be there.
    pub fn need(&mut self, p: &mut Problems, key: &'static str, such_as: &str) -> Option<Text> {
        if !self.has(key) {
            let what = format!("a {} without {key}", self.what);
            p.add(self.span.clone(), what, format!("add {key} = {such_as}"));
            return None;
        }
        self.text(p, key)
    }

    /// True if the key is present. The key then counts as known.
    pub fn has(&mut self, key: &'static str) -> bool {
        self.known.push(key);
        self.table.contains_key(key)
    }

    /// A truth.
    pub fn flag(&mut self, p: &mut Problems, key: &'static str) -> Option<Spanned<bool>> {
        self.typed(p, key, "true or false", |value| match value {
            DeValue::Boolean(flag) => Ok(flag),
            other => Err(other),
        })
    }

    /// A whole number within a range.
    pub fn number(
        &mut self,
        p: &mut Problems,
        key: &'static str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Option<u64> {
        let need = format!("a number from {} to {}", range.start(), range.end());
        let read = self.typed(p, key, &need, |value| match value {
            DeValue::Integer(number) => Ok(number),
            other => Err(other),
        })?;
        let digits = read.get_ref();
        let number = u64::from_str_radix(digits.as_str(), digits.radix()).ok();
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            let what = format!("{key} of a {} cannot be {}", self.what, digits.as_str());
            p.add(read.span(), what, format!("use {need}"));
        }
        number
    }

    /// Texts: a list of them, or a single one.
    pub fn texts(&mut self, p: &mut Problems, key: &'static str) -> Vec<Text> {
        let Some(value) = self.take(key) else { return Vec::new() };
        let span = value.span();
        let one = |value: Spanned<DeValue<'_>>| -> Result<Text, &'static str> {
            let span = value.span();
            match value.into_inner() {
                DeValue::String(text) => Ok(Spanned::new(span, text.into_owned())),
                other => Err(other.type_str()),
            }
        };
        let list: Vec<_> = match value.into_inner() {
            DeValue::Array(list) => list.into_iter().map(one).collect(),
            other => vec![one(Spanned::new(span.clone(), other))],
        };
        let mut texts = Vec::new();
        for text in list {
            match text {
                Ok(text) => texts.push(text),
                Err(kind) => {
                    let what = format!("{key} of a {} holds {}", self.what, article(kind));
                    p.add(span.clone(), what, "write texts in quotation marks");
                }
            }
        }
        texts
    }

    /// A table of this table.
    pub fn section(&mut self, p: &mut Problems, key: &'static str) -> Option<Section<'i>> {
        let name = format!("{key} of a {}", self.what);
        let read = self.typed(p, key, "a table", |value| match value {
            DeValue::Table(table) => Ok(table),
            other => Err(other),
        })?;
        Some(Self::new(name, read))
    }

    /// The tables of a list, `[[key]]`.
    pub fn list(&mut self, p: &mut Problems, key: &'static str) -> Vec<Section<'i>> {
        let Some(value) = self.take(key) else { return Vec::new() };
        let span = value.span();
        let DeValue::Array(list) = value.into_inner() else {
            p.add(span, format!("`{key}` is no list"), format!("write [[{key}]]"));
            return Vec::new();
        };
        let mut sections = Vec::new();
        for entry in list {
            let span = entry.span();
            match entry.into_inner() {
                DeValue::Table(table) => sections.push(Self::new(key, Spanned::new(span, table))),
                _ => p.add(span, format!("`{key}` holds no tables"), format!("write [[{key}]]")),
            }
        }
        sections
    }

    /// The tables of a table by name, `[key.NAME]`, in the order of the file.
    pub fn named(&mut self, p: &mut Problems, key: &'static str) -> Vec<(Text, Section<'i>)> {
        let Some(outer) = self.section(p, key) else { return Vec::new() };
        let mut sections = Vec::new();
        for (name, value) in outer.table {
            let name = Spanned::new(name.span(), name.into_inner().into_owned());
            let span = value.span();
            match value.into_inner() {
                DeValue::Table(table) => {
                    let what = format!("{key} {}", name.get_ref());
                    sections.push((name, Self::new(what, Spanned::new(span, table))));
                }
                _ => {
                    let remedy = format!("write [{key}.{}]", name.get_ref());
                    p.add(span, format!("{key} `{}` is no table", name.get_ref()), remedy);
                }
            }
        }
        sections.sort_by_key(|(name, _)| name.span().start);
        sections
    }

    /// Reports the keys that were not asked for.
    pub fn finish(self, p: &mut Problems) {
        let mut known: Vec<&str> = Vec::new();
        for key in self.known {
            if !known.contains(&key) {
                known.push(key);
            }
        }
        for key in self.table.keys() {
            let remedy = match nearest(key.get_ref(), known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("a {} has {}", self.what, known.join(", ")),
            };
            let what = format!("unknown key `{}` in a {}", key.get_ref(), self.what);
            p.add(key.span(), what, remedy);
        }
    }
}

/// Value without positions in the file.
pub fn plain(value: &Spanned<DeValue<'_>>) -> toml::Table {
    toml::Table::deserialize(ValueDeserializer::from(value.clone())).unwrap_or_default()
}

fn article(kind: &str) -> String {
    let vowel = kind.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {kind}", if vowel { "an" } else { "a" })
}
