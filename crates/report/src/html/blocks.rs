//! Blocks of a section as HTML.

use super::Page;
use crate::document::{Block, Erratum, NOT_RUN, Proof};
use crate::figure::{Figure, Plot};
use crate::judgement::{Claim, Verdict};
use crate::svg::{self, escaped};
use crate::table::{Column, Table};
use crate::value::{Cell, Kind};
use std::fmt::Write;

/// One block.
pub fn write(page: &mut String, about: &Page<'_>, block: &Block) {
    let _ = match block {
        Block::Text(words) => writeln!(page, "<p>{}</p>", inline(words)),
        Block::List(items) => {
            let items = items.iter().map(|item| format!("<li>{}</li>\n", inline(item)));
            writeln!(page, "<ul>\n{}</ul>", items.collect::<String>())
        }
        Block::Code(code) => {
            writeln!(page, "<pre tabindex=\"0\"><code>{}</code></pre>", escaped(code))
        }
        Block::Table(it) => writeln!(page, "{}", table(about, it)),
        Block::Figure(it) => writeln!(page, "{}", figure(about, it)),
        Block::Claims(claims) => {
            let list = claims.iter().map(claim).collect::<String>();
            writeln!(page, "<div class=\"claims\">\n{list}{}</div>", unjudged(claims))
        }
        Block::Errata(errata) => {
            let errata = errata.iter().map(erratum).collect::<String>();
            writeln!(page, "<div class=\"errata\">\n{errata}</div>")
        }
    };
}

/// Words; those between backticks are code.
pub fn inline(words: &str) -> String {
    let mut text = String::new();
    let pieces: Vec<&str> = words.split('`').collect();
    let last = pieces.len().saturating_sub(1);
    for (number, piece) in pieces.into_iter().enumerate() {
        let piece = escaped(piece);
        let _ = match number {
            n if n % 2 == 0 => write!(text, "{piece}"),
            // A backtick without a second one is a backtick.
            n if n == last => write!(text, "`{piece}"),
            _ => write!(text, "<code>{piece}</code>"),
        };
    }
    text
}

/// The word for an origin, with the sign that its points have in every figure.
pub fn kind(kind: Kind) -> String {
    let sign = match kind {
        Kind::Published => "○",
        Kind::Model => "●",
        Kind::Live => "◆",
        Kind::Derived => "=",
        Kind::Fitted => "≈",
        Kind::Asserted => "“",
        Kind::Key => "",
    };
    let name = kind.name();
    format!("<span class=\"kind {name}\"><span aria-hidden=\"true\">{sign}</span> {name}</span>")
}

/// The word for a verdict, with a sign that needs no colour.
pub fn badge(verdict: Verdict) -> String {
    let (class, sign) = match verdict {
        Verdict::Holds => ("holds", "✓"),
        Verdict::Fails => ("fails", "✗"),
        Verdict::Undecided => ("undecided", "?"),
        Verdict::Fitted => ("fitted", "≈"),
        Verdict::NotRun => ("notrun", "–"),
    };
    let name = verdict.name();
    format!(
        "<span class=\"verdict {class}\"><span aria-hidden=\"true\">{sign}</span> {name}</span>"
    )
}

/// Columns without a result are left out: the reason is said once.
fn table(about: &Page<'_>, table: &Table) -> String {
    let (id, title) = (escaped(&table.id), escaped(&table.title));
    let shown: Vec<&Column> = table.columns().iter().filter(|c| c.without().is_none()).collect();
    let csv = data(&crate::csv::render(about.report, table));
    let mut text = format!(
        "<figure class=\"table\" id=\"table-{id}\">\n<figcaption><h3>{title}</h3>\
         <button type=\"button\" data-csv=\"{id}\" hidden>Copy CSV</button></figcaption>\n"
    );
    let notes = Footnotes::of(&shown);
    if shown.iter().any(|column| column.kind() != Kind::Key) || shown.len() == table.columns().len()
    {
        text += &grid(&shown, table, &title, &notes);
    } else {
        text += "<p class=\"note\">Not run.</p>\n";
    }
    for words in [&left_out(table), &notes.words(), &inline(&table.note)] {
        if !words.is_empty() {
            let _ = writeln!(text, "<p class=\"note\">{words}</p>");
        }
    }
    let _ =
        write!(text, "<script type=\"application/json\" id=\"csv-{id}\">{csv}</script>\n</figure>");
    text
}

fn grid(columns: &[&Column], table: &Table, title: &str, notes: &Footnotes<'_>) -> String {
    let mut text = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\"><table>\n\
         <caption class=\"quiet\">{title}</caption>\n<thead><tr>"
    );
    for column in columns {
        text += &head(column);
    }
    text += "</tr></thead>\n<tbody>\n";
    for row in 0..table.rows() {
        let cells = columns.iter().enumerate();
        let cells: String =
            cells.map(|(number, column)| cell(column, row, number == 0, notes)).collect();
        let _ = writeln!(text, "<tr>{cells}</tr>");
    }
    text + "</tbody></table></div>\n"
}

/// Columns that are left out for a reason that the page's head does not give.
fn left_out(table: &Table) -> String {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for column in table.columns() {
        let Some(reason) = column.without().filter(|reason| !reason.starts_with(NOT_RUN)) else {
            continue;
        };
        let head = escaped(column.head());
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, heads)) => heads.push(head),
            None => reasons.push((reason, vec![head])),
        }
    }
    let each = reasons
        .iter()
        .map(|(reason, heads)| format!("Left out: {} ({}).", heads.join(", "), escaped(reason)));
    each.collect::<Vec<_>>().join(" ")
}

/// Reasons that several cells of a table have: a letter in each, the words beneath it.
struct Footnotes<'a>(Vec<&'a str>);

impl<'a> Footnotes<'a> {
    fn of(columns: &[&'a Column]) -> Self {
        let all = || columns.iter().flat_map(|column| column.cells()).filter_map(Cell::reason);
        let mut repeated = Vec::new();
        for reason in all().filter(|reason| reason.chars().count() > 1) {
            let often = all().filter(|other| *other == reason).count() > 1;
            if often && !repeated.contains(&reason) {
                repeated.push(reason);
            }
        }
        Self(repeated)
    }

    /// The sign in a cell.
    fn sign(&self, reason: &str) -> Option<char> {
        let at = self.0.iter().position(|known| *known == reason)?;
        char::from_digit(10 + u32::try_from(at).ok()?, 36)
    }

    fn words(&self) -> String {
        let each = self.0.iter().map(|reason| {
            let sign = self.sign(reason).map(String::from).unwrap_or_default();
            format!("<sup>{sign}</sup> {}", escaped(reason))
        });
        each.collect::<Vec<_>>().join("; ")
    }
}

fn head(column: &Column) -> String {
    let class = if column.is_numeric() { " class=\"number\"" } else { "" };
    let unit = match column.unit() {
        "" => String::new(),
        unit => format!(" <span class=\"unit\">{}</span>", escaped(unit)),
    };
    let origin = if column.kind() == Kind::Key { String::new() } else { kind(column.kind()) };
    format!(
        "<th scope=\"col\"{class}><span class=\"name\">{}</span>{unit}{origin}</th>",
        escaped(column.head())
    )
}

fn cell(column: &Column, row: usize, first: bool, notes: &Footnotes<'_>) -> String {
    let reason = column.cells().get(row).and_then(Cell::reason);
    let shown = match reason.and_then(|reason| notes.sign(reason)) {
        Some(sign) => format!("–<sup>{sign}</sup>"),
        None => escaped(&column.show(row)),
    };
    let tag = if first { "th scope=\"row\"" } else { "td" };
    let end = if first { "th" } else { "td" };
    let attributes = match column.cells().get(row) {
        Some(Cell::Number(measure)) => {
            format!(" class=\"number {}\" data-value=\"{}\"", column.kind().name(), measure.value)
        }
        Some(Cell::Missing { .. }) if column.is_numeric() => " class=\"number missing\"".to_owned(),
        Some(Cell::Missing { .. }) => " class=\"missing\"".to_owned(),
        _ if column.is_numeric() => " class=\"number\"".to_owned(),
        _ => String::new(),
    };
    format!("<{tag}{attributes}>{shown}</{end}>")
}

fn figure(about: &Page<'_>, figure: &Figure) -> String {
    let (id, title) = (escaped(&figure.id), escaped(&figure.title));
    let drawn = svg::inline(figure, &about.hues);
    let mut text = format!(
        "<figure class=\"plot\" id=\"figure-{id}\">\n<figcaption><h3>{title}</h3></figcaption>\n\
         <div class=\"svg\">{drawn}</div>\n"
    );
    if let Plot::Xy(xy) = &figure.plot {
        let json = serde_json::to_string(xy).unwrap_or_default();
        let hues = xy.series.iter().map(|series| about.hues.hue(&series.group).to_string());
        let _ = writeln!(
            text,
            "<div class=\"live\" hidden></div>\n\
             <script type=\"application/json\" class=\"data\" data-hues=\"{}\">{}</script>",
            hues.collect::<Vec<_>>().join(" "),
            json.replace('<', "\\u003c")
        );
    }
    if let Some(explore) = &figure.explore {
        let json = serde_json::to_string(explore).unwrap_or_default();
        let hues = explore.curves.iter().map(|curve| about.hues.hue(&curve.group).to_string());
        let _ = writeln!(
            text,
            "<script type=\"application/json\" class=\"explore\" data-hues=\"{}\">{}</script>",
            hues.collect::<Vec<_>>().join(" "),
            json.replace('<', "\\u003c")
        );
    }
    let method = about.method.map(|number| format!("<a href=\"#s{number}\">Method and limits</a>"));
    let words = [inline(&figure.caption), method.unwrap_or_default()];
    let words: Vec<_> = words.iter().filter(|words| !words.is_empty()).cloned().collect();
    if !words.is_empty() {
        let _ = writeln!(text, "<p class=\"note\">{}</p>", words.join(" "));
    }
    text + "</figure>"
}

/// A text as JSON that may stand within a page.
fn data(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default().replace('<', "\\u003c")
}

fn claim(claim: &Claim) -> String {
    let place = match claim.section.as_str() {
        "" => String::new(),
        section => format!(" <span class=\"unit\">{}</span>", escaped(section)),
    };
    let mut text = format!(
        "<article class=\"claim\" id=\"claim-{}\">\n<p class=\"said\">{} {}{place}</p>\n<ul>\n",
        escaped(&claim.id),
        badge(claim.verdict()),
        inline(&claim.text)
    );
    let judged = claim.judgements.iter().filter(|judgement| !judgement.is_unrun());
    for judgement in judged {
        let verdict = if claim.judgements.len() > 1 {
            format!(" <b>{}</b>:", judgement.verdict().name())
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "<li>{}{verdict} {}</li>",
            kind(judgement.kind()),
            inline(&judgement.words())
        );
    }
    text + "</ul>\n</article>\n"
}

fn unjudged(claims: &[Claim]) -> String {
    let mut reasons: Vec<(String, Kind, Vec<String>)> = Vec::new();
    for claim in claims {
        for judgement in claim.judgements.iter().filter(|judgement| judgement.is_unrun()) {
            let (reason, kind) = (format!("{NOT_RUN}{}", judgement.words()), judgement.kind());
            let name = escaped(&claim.id.replace('-', " "));
            match reasons.iter_mut().find(|(known, of, _)| (known, *of) == (&reason, kind)) {
                Some((_, _, names)) => names.push(name),
                None => reasons.push((reason, kind, vec![name])),
            }
        }
    }
    let each = reasons.iter().map(|(reason, of, names)| {
        format!("<p class=\"note\">{} {}: {}.</p>\n", kind(*of), inline(reason), names.join(", "))
    });
    each.collect()
}

fn erratum(erratum: &Erratum) -> String {
    let place = escaped(&erratum.place);
    let text = inline(&erratum.text);
    let (word, lines) = match &erratum.proof {
        Proof::Shown(lines) => ("shown", lines.as_slice()),
        Proof::Refuted(lines) => ("refuted", lines.as_slice()),
        Proof::Open(why) => ("open", std::slice::from_ref(why)),
    };
    let lines = lines.iter().map(|line| escaped(line)).collect::<Vec<_>>().join("\n");
    format!(
        "<article class=\"erratum\">\n<h3>{place} <span class=\"proof {word}\">{word}</span></h3>\n\
         <p>{text}</p>\n<pre class=\"steps\" tabindex=\"0\">{lines}</pre>\n</article>\n"
    )
}
