//! Words of the grammar and where they stand, so that an error can point at one.

use crate::error::StackError;
use crate::frame::PACKET_LEN_MAX;
use ferrule_base::nearest;
use std::ops::Range;

/// A word in lower case and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) span: Range<usize>,
}

impl Word {
    pub(crate) fn is(&self, text: &str) -> bool {
        self.text == text
    }

    /// A number in digits, if this is one; one that is too large for any payload is refused.
    pub(crate) fn number(&self) -> Result<Option<usize>, StackError> {
        if !self.text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(None);
        }
        match self.text.parse() {
            Ok(number) if number <= PACKET_LEN_MAX => Ok(Some(number)),
            _ => Err(StackError::new(format!(
                "`{}` octets are over the largest payload, {PACKET_LEN_MAX}",
                self.text
            ))
            .at(self.span.clone())),
        }
    }

    /// This word cannot stand here; say which of `candidates` was meant.
    pub(crate) fn unknown<'a>(
        &self,
        place: &str,
        candidates: impl IntoIterator<Item = &'a str>,
    ) -> StackError {
        let candidates: Vec<&str> = candidates.into_iter().collect();
        let error = StackError::new(format!("unknown word `{}` in {place}", self.text))
            .at(self.span.clone());
        match nearest(&self.text, candidates.iter().copied()) {
            Some(near) => error.with_help(format!("did you mean `{near}`?")),
            None => error.with_help(format!("it takes {}", candidates.join(", "))),
        }
    }

    pub(crate) fn fault(&self, message: impl Into<String>) -> StackError {
        StackError::new(message).at(self.span.clone())
    }
}

/// Splits into words, and those into groups between bars; a group has at least one word.
pub(crate) fn split(text: &str) -> Result<Vec<Vec<Word>>, StackError> {
    let mut groups: Vec<Vec<Word>> = vec![Vec::new()];
    let mut start = None;
    for (at, letter) in text.char_indices().chain([(text.len(), ' ')]) {
        let bar = letter == '|' || letter == '/';
        if !bar && !letter.is_whitespace() {
            start.get_or_insert(at);
            continue;
        }
        if let (Some(from), Some(group)) = (start.take(), groups.last_mut())
            && let Some(word) = text.get(from..at)
        {
            group.push(Word { text: word.to_lowercase(), span: from..at });
        }
        if bar {
            if groups.last().is_some_and(Vec::is_empty) {
                return Err(empty_group(at..at + 1));
            }
            groups.push(Vec::new());
        }
    }
    match groups.last() {
        Some(last) if !last.is_empty() => Ok(groups),
        _ if groups.len() == 1 => Ok(Vec::new()),
        _ => {
            let end = text.trim_end().len();
            Err(empty_group(end.saturating_sub(1)..end))
        }
    }
}

fn empty_group(span: Range<usize>) -> StackError {
    StackError::new("a bar with nothing beside it")
        .with_help("a bar stands between the frame and each transformation")
        .at(span)
}

pub(crate) fn span_of(group: &[Word]) -> Range<usize> {
    let start = group.first().map_or(0, |word| word.span.start);
    start..group.last().map_or(start, |word| word.span.end)
}

/// The number behind `word`, which must be one of `allowed`.
pub(crate) fn one_of(
    word: &Word,
    next: Option<&Word>,
    allowed: &[usize],
) -> Result<usize, StackError> {
    let found = match next {
        Some(next) => next.number()?,
        None => None,
    };
    found.filter(|number| allowed.contains(number)).ok_or_else(|| {
        let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        next.unwrap_or(word).fault(format!("`{}` is followed by {}", word.text, allowed.join(", ")))
    })
}

/// Stores a choice that may be made once.
pub(crate) fn once<T>(
    slot: &mut Option<T>,
    value: T,
    word: &Word,
    what: &str,
) -> Result<(), StackError> {
    match slot.replace(value) {
        Some(_) => Err(word.fault(format!("`{}` is {what} too many", word.text))),
        None => Ok(()),
    }
}
