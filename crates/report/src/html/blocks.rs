//! What a section is made of, as HTML.

use crate::document::{Block, Erratum, Proof, Report};
use crate::figure::{Figure, Plot};
use crate::judgement::{Claim, Verdict};
use crate::svg::{self, escaped};
use crate::table::{Column, Table};
use crate::value::{Cell, Kind};
use std::fmt::Write;

/// One block.
pub fn write(page: &mut String, report: &Report, block: &Block) {
    let _ = match block {
        Block::Text(words) => writeln!(page, "<p>{}</p>", inline(words)),
        Block::List(items) => {
            let items = items.iter().map(|item| format!("<li>{}</li>\n", inline(item)));
            writeln!(page, "<ul>\n{}</ul>", items.collect::<String>())
        }
        Block::Code(code) => {
            writeln!(page, "<pre tabindex=\"0\"><code>{}</code></pre>", escaped(code))
        }
        Block::Table(it) => writeln!(page, "{}", table(report, it)),
        Block::Figure(it) => writeln!(page, "{}", figure(it)),
        Block::Claims(claims) => {
            let claims = claims.iter().map(claim).collect::<String>();
            writeln!(page, "<div class=\"claims\">\n{claims}</div>")
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

/// The word for an origin.
pub fn kind(kind: Kind) -> String {
    format!("<span class=\"kind {0}\">{0}</span>", kind.name())
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

fn table(report: &Report, table: &Table) -> String {
    let (id, title) = (escaped(&table.id), escaped(&table.title));
    let mut text = format!(
        "<figure class=\"table\" id=\"table-{id}\">\n<figcaption><h3>{title}</h3>\
         <button type=\"button\" data-csv=\"{id}\" hidden>Copy CSV</button></figcaption>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\"><table>\n<thead><tr>"
    );
    for column in table.columns() {
        text += &head(column);
    }
    text += "</tr></thead>\n<tbody>\n";
    for row in 0..table.rows() {
        let cells = table.columns().iter().enumerate();
        let cells: String = cells.map(|(number, column)| cell(column, row, number == 0)).collect();
        let _ = writeln!(text, "<tr>{cells}</tr>");
    }
    text += "</tbody></table></div>\n";
    if !table.note.is_empty() {
        let _ = writeln!(text, "<p class=\"note\">{}</p>", inline(&table.note));
    }
    let csv = data(&crate::csv::render(report, table));
    let _ =
        write!(text, "<script type=\"application/json\" id=\"csv-{id}\">{csv}</script>\n</figure>");
    text
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

fn cell(column: &Column, row: usize, first: bool) -> String {
    let shown = escaped(&column.show(row));
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

fn figure(figure: &Figure) -> String {
    let (id, title) = (escaped(&figure.id), escaped(&figure.title));
    let drawn = svg::inline(figure);
    let mut text = format!(
        "<figure class=\"plot\" id=\"figure-{id}\">\n<figcaption><h3>{title}</h3></figcaption>\n\
         <div class=\"scroll svg\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\">{drawn}</div>\n"
    );
    if let Plot::Xy(xy) = &figure.plot {
        let json = serde_json::to_string(xy).unwrap_or_default();
        let _ = writeln!(
            text,
            "<div class=\"live\" hidden></div>\n\
             <script type=\"application/json\" class=\"data\">{}</script>",
            json.replace('<', "\\u003c")
        );
    }
    if !figure.caption.is_empty() {
        let _ = writeln!(text, "<p class=\"note\">{}</p>", inline(&figure.caption));
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
    for judgement in &claim.judgements {
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
