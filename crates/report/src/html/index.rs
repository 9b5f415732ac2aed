//! Several reports on one page: each with its answer and its claims, and every item of its
//! print, those that wait included.

use super::blocks::{badge, inline};
use super::{closed, foot, opened, print};
use crate::document::Report;
use crate::svg::escaped;
use std::fmt::Write;

/// A report and the address of its page.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    /// Seen from the index.
    pub file: &'a str,
    /// The report.
    pub report: &'a Report,
}

/// The page of all.
pub fn index(title: &str, entries: &[Entry<'_>]) -> String {
    let mut page = opened(title);
    let date = entries.iter().map(|entry| entry.report.date.as_str()).max().unwrap_or_default();
    let _ = writeln!(
        page,
        "<header>\n<p class=\"brand\">Ferrule</p>\n<h1>{}</h1>\n<nav aria-label=\"Studies\"><ol>",
        escaped(title)
    );
    for (number, entry) in entries.iter().enumerate() {
        let _ =
            writeln!(page, "<li><a href=\"#s{number}\">{}</a></li>", escaped(&entry.report.title));
    }
    page.push_str(
        "</ol><button type=\"button\" class=\"unfold\" hidden>Unfold all</button></nav>\n\
         </header>\n<main id=\"content\">\n",
    );
    for (number, Entry { file, report }) in entries.iter().enumerate() {
        let (file, title) = (escaped(file), escaped(&report.title));
        let _ = writeln!(
            page,
            "<section id=\"s{number}\" class=\"entry\"><h2><a href=\"{file}\">{title}</a></h2>\n\
             <p class=\"question\">{}</p>\n<p>{}</p>\n<ul class=\"outcome\">",
            inline(&report.question),
            inline(&report.answer)
        );
        for claim in report.claims() {
            let _ = writeln!(
                page,
                "<li>{} <a href=\"{file}#claim-{}\">{}</a></li>",
                badge(claim.verdict()),
                escaped(&claim.id),
                inline(&claim.text)
            );
        }
        page.push_str("</ul>\n");
        let reasons = report.reasons();
        if !reasons.is_empty() {
            let reasons = reasons.iter().map(|reason| inline(reason)).collect::<Vec<_>>();
            let _ =
                writeln!(page, "<p class=\"unmet\"><b>Not run:</b> {}.</p>", reasons.join("; "));
        }
        let _ = writeln!(
            page,
            "<details open><summary><h3>{}: {}</h3></summary>",
            print::TITLE,
            escaped(&print::tally(report))
        );
        print::table(&mut page, report, &file);
        page.push_str("</details></section>\n");
    }
    page.push_str("</main>\n");
    foot(&mut page, date);
    closed(page)
}
