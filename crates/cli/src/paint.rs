//! Colour for a terminal, and nothing for a file: text is the same without it.

use anstyle::{AnsiColor, Style};
use std::fmt::Display;
use std::io::{IsTerminal, Write};

/// The width of a text that no terminal bounds.
const WIDTH_DEFAULT: usize = 132;
/// Narrower than this, the terminal breaks lines rather than we.
const WIDTH_MIN: usize = 76;

/// Style of the output: with colour or without, and its width.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    colour: bool,
    /// Columns that a line may have.
    pub width: usize,
}

impl Paint {
    /// For a stream: colour on a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`.
    pub fn for_stream(stream: &impl IsTerminal) -> Self {
        let terminal = stream.is_terminal();
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
        let measured = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
        let bound = if terminal { columns.or(measured) } else { columns };
        let width = bound.unwrap_or(WIDTH_DEFAULT).max(WIDTH_MIN);
        Self { colour: terminal && !refused, width }
    }

    /// The same for a report.
    pub fn terminal(self) -> ferrule_report::terminal::Terminal {
        ferrule_report::terminal::Terminal { width: self.width, colour: self.colour }
    }

    /// Without colour, of a given width.
    #[cfg(test)]
    pub fn plain(width: usize) -> Self {
        Self { colour: false, width }
    }

    fn with(self, style: Style, text: impl Display) -> String {
        let text = text.to_string();
        if self.colour && !text.is_empty() { format!("{style}{text}{style:#}") } else { text }
    }

    /// Style for what matters most.
    pub fn bold(self, text: impl Display) -> String {
        self.with(Style::new().bold(), text)
    }

    /// Style for what may be passed over.
    pub fn faint(self, text: impl Display) -> String {
        self.with(Style::new().dimmed(), text)
    }

    /// In one of the terminal's own colours.
    pub fn hue(self, colour: AnsiColor, text: impl Display) -> String {
        self.with(Style::new().fg_color(Some(colour.into())), text)
    }

    /// Style for errors.
    pub fn fault(self, text: impl Display) -> String {
        self.with(Style::new().bold().fg_color(Some(AnsiColor::Red.into())), text)
    }
}

/// Writes a finished text; a reader that went away (`| head`) is no failure.
pub fn emit(stream: &mut impl Write, text: &str) {
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
}
