//! For a terminal: verdict first, tables aligned and no wider than the terminal.

use crate::document::{Block, Erratum, NOT_RUN, Proof, Report};
use crate::judgement::{Claim, Verdict};
use crate::table::{Column, Table};
use crate::value::Kind;
use anstyle::{AnsiColor, Style};

/// Running text is not wider than this, however wide the terminal.
const TEXT_COLUMNS: usize = 100;
/// A column of words is not made narrower than this to fit a table in.
const WORDS_COLUMNS_MIN: usize = 16;
/// Between columns.
const GAP: usize = 2;

/// Properties of the terminal that the text is written for.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// Columns that a line may have.
    pub width: usize,
    /// True if the terminal shows colours.
    pub colour: bool,
}

impl Terminal {
    fn with(self, style: Style, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.into()
        }
    }

    fn bold(self, text: &str) -> String {
        self.with(Style::new().bold(), text)
    }

    fn faint(self, text: &str) -> String {
        self.with(Style::new().dimmed(), text)
    }

    fn hue(self, colour: AnsiColor, text: &str) -> String {
        self.with(Style::new().fg_color(Some(colour.into())), text)
    }

    fn kind(self, kind: Kind, text: &str) -> String {
        match kind {
            Kind::Published => self.hue(AnsiColor::Yellow, text),
            Kind::Model => self.hue(AnsiColor::Cyan, text),
            Kind::Live => self.hue(AnsiColor::Green, text),
            Kind::Fitted => self.hue(AnsiColor::Magenta, text),
            Kind::Asserted | Kind::Derived | Kind::Key => self.faint(text),
        }
    }

    fn verdict(self, verdict: Verdict) -> String {
        let text = format!("{:<10}", verdict.name());
        match verdict {
            Verdict::Holds => self.hue(AnsiColor::Green, &text),
            Verdict::Fails => {
                self.with(Style::new().bold().fg_color(Some(AnsiColor::Red.into())), &text)
            }
            Verdict::Fitted => self.hue(AnsiColor::Magenta, &text),
            Verdict::Undecided | Verdict::NotRun => self.faint(&text),
        }
    }

    fn text_columns(self) -> usize {
        self.width.clamp(20, TEXT_COLUMNS)
    }
}

/// The whole report.
pub fn render(report: &Report, terminal: Terminal) -> String {
    let mut text = format!("{}\n", terminal.bold(&clean(&report.title)));
    text += &paragraph(&report.question, terminal, 0, |line| terminal.faint(line));
    text += &format!("\n{}", paragraph(&report.answer, terminal, 0, |line| terminal.bold(line)));
    let reasons = report.reasons();
    if !reasons.is_empty() {
        let words = format!("Not run: {}.", reasons.join("; "));
        text += &format!("\n{}", paragraph(&words, terminal, 0, str::to_owned));
    }
    for section in &report.sections {
        text += &format!("\n{}\n", terminal.bold(&clean(&section.title)));
        for block in &section.blocks {
            text += &render_block(block, terminal);
        }
    }
    text.push('\n');
    for (name, value) in report.facts() {
        text += &format!("{}  {}\n", terminal.faint(&format!("{name:<8}")), clean(value));
    }
    text
}

fn render_block(block: &Block, terminal: Terminal) -> String {
    match block {
        Block::Text(words) => paragraph(words, terminal, 0, str::to_owned) + "\n",
        Block::List(items) => {
            let item = |item: &String| hanging("- ", item, terminal);
            items.iter().map(item).collect::<String>() + "\n"
        }
        Block::Code(code) => {
            let line =
                |line: &str| format!("    {}\n", terminal.hue(AnsiColor::Cyan, &clean(line)));
            code.lines().map(line).collect::<String>() + "\n"
        }
        Block::Table(table) => render_table(table, terminal) + "\n",
        Block::Figure(figure) => {
            let words = format!("figure: {} (in the report)", figure.title);
            paragraph(&words, terminal, 0, |line| terminal.faint(line)) + "\n"
        }
        Block::Claims(claims) => claims.iter().map(|c| claim(c, terminal)).collect(),
        Block::Errata(errata) => errata.iter().map(|e| erratum(e, terminal)).collect(),
    }
}

fn claim(claim: &Claim, terminal: Terminal) -> String {
    let mut text =
        format!("{}{}\n", terminal.verdict(claim.verdict()), terminal.bold(&clean(&claim.id)));
    let place = if claim.section.is_empty() { "" } else { " — " };
    let said = format!("{}{place}{}", claim.text, claim.section);
    text += &paragraph(&said, terminal, 10, str::to_owned);
    for judgement in &claim.judgements {
        let (kind, verdict) = (judgement.kind().name(), judgement.verdict().name());
        let words = format!("{kind}: {verdict}, {}", judgement.words());
        text += &paragraph(&words, terminal, 10, |line| terminal.faint(line));
    }
    text + "\n"
}

fn erratum(erratum: &Erratum, terminal: Terminal) -> String {
    let (word, lines) = match &erratum.proof {
        Proof::Shown(lines) => ("shown", lines.as_slice()),
        Proof::Refuted(lines) => ("refuted", lines.as_slice()),
        Proof::Open(why) => ("open", std::slice::from_ref(why)),
    };
    let place = terminal.bold(&clean(&erratum.place));
    let mut text = format!("{}{place}\n", terminal.faint(&format!("{word:<8}")));
    text += &paragraph(&erratum.text, terminal, 8, str::to_owned);
    for line in lines {
        text += &paragraph(line, terminal, 10, |line| terminal.faint(line));
    }
    text + "\n"
}

/// A table, aligned: words to the left, numbers to the right. Where it is wider than
/// the terminal its widest words are folded; where that does not help each row
/// becomes a block of lines.
pub fn render_table(table: &Table, terminal: Terminal) -> String {
    let mut text = terminal.bold(&clean(&table.title));
    // Why nothing was run stands at the report's head.
    let is_told = |column: &&Column| !column.without().is_some_and(|why| why.starts_with(NOT_RUN));
    let columns: Vec<Column> = table.columns().iter().filter(is_told).cloned().collect();
    let common = common_kind(&columns);
    if let Some(kind) = common {
        // Said once, it leaves room for the numbers.
        text += &format!("  {}", terminal.kind(kind, kind.name()));
    }
    text.push('\n');
    let grid: Vec<Vec<String>> = columns
        .iter()
        .map(|column| (0..table.rows()).map(|row| clean(&column.show(row))).collect())
        .collect();
    let mut widths: Vec<usize> =
        columns.iter().zip(&grid).map(|(c, cells)| wanted(c, cells, common)).collect();
    if squeeze(&columns, &mut widths, terminal.width) {
        text += &heads(&columns, &widths, common, terminal);
        for row in 0..table.rows() {
            let cells: Vec<&str> =
                grid.iter().map(|cells| cells.get(row).map_or("", String::as_str)).collect();
            text += &lines(&columns, &cells, &widths);
        }
    } else {
        text += &blocks(&columns, table.rows(), &grid, terminal);
    }
    text + &render_note(&table.note, terminal)
}

/// The origin of all results, if they have one in common.
fn common_kind(columns: &[Column]) -> Option<Kind> {
    let mut kinds = columns.iter().map(Column::kind).filter(|kind| *kind != Kind::Key);
    let first = kinds.next()?;
    kinds.all(|kind| kind == first).then_some(first)
}

/// Kind and unit, beneath the head; not the kind that all have in common.
fn under(column: &Column, common: Option<Kind>) -> String {
    let kind = if common.is_some() { "" } else { column.kind().name() };
    let words = [kind, column.unit()];
    clean(&words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "))
}

fn columns_of(text: &str) -> usize {
    text.chars().count()
}

fn wanted(column: &Column, cells: &[String], common: Option<Kind>) -> usize {
    let cells = cells.iter().map(|cell| columns_of(cell));
    let head = columns_of(&clean(column.head())).max(columns_of(&under(column, common)));
    cells.chain([head]).max().unwrap_or(0)
}

/// Makes columns of words narrower until all fit; false if they do not.
fn squeeze(columns: &[Column], widths: &mut [usize], room: usize) -> bool {
    let all =
        |widths: &[usize]| widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
    while all(widths) > room {
        let words = widths.iter_mut().zip(columns).filter(|(_, column)| !column.is_numeric());
        let Some((widest, _)) = words.max_by_key(|(width, _)| **width) else { return false };
        if *widest <= WORDS_COLUMNS_MIN {
            return false;
        }
        *widest -= 1;
    }
    true
}

fn heads(columns: &[Column], widths: &[usize], common: Option<Kind>, terminal: Terminal) -> String {
    let heads: Vec<String> = columns.iter().map(|column| clean(column.head())).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut text = String::new();
    for line in lines(columns, &heads, widths).lines() {
        text += &format!("{}\n", terminal.bold(line));
    }
    if columns.iter().any(|column| !under(column, common).is_empty()) {
        let each = columns.iter().zip(widths).map(|(column, &width)| {
            let words = padded(column, &under(column, common), width);
            let shown = words.trim();
            // Colour the word, not the blanks around it.
            words.replacen(
                shown,
                &terminal.kind(column.kind(), shown),
                usize::from(!shown.is_empty()),
            )
        });
        text += each.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end();
        text.push('\n');
    }
    text
}

fn padded(column: &Column, words: &str, width: usize) -> String {
    let blank = " ".repeat(width.saturating_sub(columns_of(words)));
    if column.is_numeric() { blank + words } else { words.to_owned() + &blank }
}

/// One row; as many lines as its longest cell needs.
fn lines(columns: &[Column], cells: &[&str], widths: &[usize]) -> String {
    let folded: Vec<Vec<String>> =
        cells.iter().zip(widths).map(|(cell, &width)| folded(cell, width)).collect();
    let height = folded.iter().map(Vec::len).max().unwrap_or(0);
    let mut text = String::new();
    for line in 0..height {
        let each = columns.iter().zip(&folded).zip(widths).map(|((column, cell), &width)| {
            padded(column, cell.get(line).map_or("", String::as_str), width)
        });
        text += each.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end();
        text.push('\n');
    }
    text
}

/// Each row as lines of name and value, for a terminal that is too narrow.
fn blocks(columns: &[Column], rows: usize, grid: &[Vec<String>], terminal: Terminal) -> String {
    let name = |column: &Column| {
        let under = under(column, None);
        if under.is_empty() {
            clean(column.head())
        } else {
            format!("{} ({under})", clean(column.head()))
        }
    };
    let names: Vec<String> = columns.iter().map(name).collect();
    let widest = names.iter().map(|name| columns_of(name)).max().unwrap_or(0);
    let mut text = String::new();
    for row in 0..rows {
        for (name, cells) in names.iter().zip(grid) {
            let blank = " ".repeat(widest - columns_of(name));
            let cell = cells.get(row).map_or("", String::as_str);
            text += format!("{}{blank}  {cell}", terminal.faint(name)).trim_end();
            text.push('\n');
        }
        text.push('\n');
    }
    text
}

/// A remark, folded.
pub fn render_note(words: &str, terminal: Terminal) -> String {
    paragraph(words, terminal, 0, |line| terminal.faint(line))
}

fn paragraph(
    words: &str,
    terminal: Terminal,
    indent: usize,
    dress: impl Fn(&str) -> String,
) -> String {
    let room = terminal.text_columns().saturating_sub(indent);
    let blank = " ".repeat(indent);
    let words = clean(words);
    let lines = folded(&words, room).into_iter().filter(|line| !line.is_empty());
    lines.map(|line| format!("{blank}{}\n", dress(&line))).collect()
}

fn hanging(mark: &str, words: &str, terminal: Terminal) -> String {
    let room = terminal.text_columns().saturating_sub(mark.len());
    let lines = folded(&clean(words), room).into_iter().enumerate();
    let blank = " ".repeat(mark.len());
    lines.map(|(n, line)| format!("{}{line}\n", if n == 0 { mark } else { &blank })).collect()
}

/// A text in lines of so many columns; a longer word stays whole.
fn folded(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => *line += word,
            Some(line) if columns_of(line) + 1 + columns_of(word) <= columns => {
                *line += " ";
                *line += word;
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Without anything that a terminal would obey.
fn clean(text: &str) -> String {
    let visible = |c: char| if c == '\n' || c == '\t' { ' ' } else { c };
    text.chars().map(visible).filter(|c| !c.is_control()).collect()
}
