//! The first screen: question, answer, the figure that shows it, the claims with their
//! verdicts, and what was not run. What a reader of a result asks second, where it was made,
//! stands at the end.

use super::Page;
use super::blocks::{badge, inline, kind};
use crate::document::Report;
use crate::judgement::Verdict;
use crate::svg::{self, escaped};
use crate::value::Kind;
use std::fmt::Write;

/// With fewer sections nobody needs a list of them.
const CONTENTS_MIN: usize = 3;

pub fn write(page: &mut String, about: &Page<'_>, index: Option<&str>) {
    let report = about.report;
    let back = index.map_or_else(String::new, |address| {
        format!(" · <a href=\"{}\">all studies</a>", escaped(address))
    });
    let class = if report.leading().is_some() { " class=\"led\"" } else { "" };
    let _ = write!(
        page,
        "<header{class}>\n<p class=\"brand\">Ferrule{back}</p>\n<h1>{}</h1>\n\
         <div class=\"said\"><p class=\"question\">{}</p>\n<p class=\"answer\">{}</p></div>\n",
        escaped(&report.title),
        inline(&report.question),
        inline(&report.answer)
    );
    claims(page, report);
    lead(page, about);
    if report.leading().is_none() {
        facts(page, report);
    }
    unmet(page, report);
    kinds(page, report);
    contents(page, report);
    page.push_str("</header>\n");
}

/// Verdicts by claim, each with the way to its numbers.
fn claims(page: &mut String, report: &Report) {
    if report.claims().next().is_none() {
        return;
    }
    let count = |verdict| report.claims().filter(|claim| claim.verdict() == verdict).count();
    let mut verdicts: Vec<Verdict> = report.claims().map(|claim| claim.verdict()).collect();
    verdicts.sort_by_key(|verdict| std::cmp::Reverse(*verdict));
    verdicts.dedup();
    let tally = verdicts.iter().map(|&verdict| format!("{} {}", verdict.name(), count(verdict)));
    let _ = writeln!(
        page,
        "<div class=\"verdicts\"><h2>Claims: {}</h2>\n<ul>",
        tally.collect::<Vec<_>>().join(", ")
    );
    for claim in report.claims() {
        let _ = writeln!(
            page,
            "<li><a href=\"#claim-{}\">{} <span class=\"short\">{}</span>\
             <span class=\"long\">{}</span></a></li>",
            escaped(&claim.id),
            badge(claim.verdict()),
            escaped(&claim.id.replace('-', " ")),
            inline(&claim.text)
        );
    }
    page.push_str("</ul></div>\n");
}

/// The figure that shows the answer, as a drawing; the one with values is further down.
fn lead(page: &mut String, about: &Page<'_>) {
    let Some(figure) = about.report.leading() else { return };
    let (id, title) = (escaped(&figure.id), escaped(&figure.title));
    let _ = writeln!(
        page,
        "<figure class=\"plot lead\">{}<figcaption>{title}. <a href=\"#figure-{id}\">With values \
         and explanation</a></figcaption></figure>",
        svg::beside(figure, &about.hues)
    );
}

/// Reasons why parts of the report were not run, each reason once.
fn unmet(page: &mut String, report: &Report) {
    let reasons = report.reasons();
    let reasons = reasons.iter().map(|reason| inline(reason)).collect::<Vec<_>>();
    if !reasons.is_empty() {
        let _ = writeln!(
            page,
            "<p class=\"unmet\"><b>Not run:</b> {}. Columns without any result are left out.</p>",
            reasons.join("; ")
        );
    }
}

/// Legend: the meaning of the origins' names above the columns.
fn kinds(page: &mut String, report: &Report) {
    let kinds = report.kinds();
    if kinds.iter().all(|kind| *kind == Kind::Derived) {
        return;
    }
    page.push_str("<ul class=\"kinds\" aria-label=\"Where numbers come from\">\n");
    for each in kinds {
        let _ = writeln!(page, "<li>{} {}</li>", kind(each), escaped(each.meaning()));
    }
    page.push_str("</ul>\n");
}

fn contents(page: &mut String, report: &Report) {
    if report.sections.len() < CONTENTS_MIN {
        return;
    }
    page.push_str("<nav aria-label=\"Contents\"><ol>\n");
    let own = report.sections.iter().enumerate();
    let own = own.map(|(number, section)| (format!("s{number}"), section.title.as_str()));
    let print = (!report.inventory.is_empty()).then(|| ("print".to_owned(), super::print::TITLE));
    for (id, heading) in own.chain(print) {
        let _ = writeln!(page, "<li><a href=\"#{id}\">{}</a></li>", escaped(heading));
    }
    page.push_str(
        "</ol><button type=\"button\" class=\"unfold\" hidden>Unfold all</button></nav>\n",
    );
}

/// Machine, command and the like, where they did not stand at the head.
pub fn circumstances(page: &mut String, report: &Report, open: &str) {
    if report.leading().is_none() {
        return;
    }
    let _ = writeln!(
        page,
        "<section id=\"made\"><details{open}>\n<summary><h2>Where and how this was made</h2>\
         </summary>"
    );
    facts(page, report);
    if !report.citations.is_empty() {
        page.push_str("<h3>To cite</h3>\n<ul class=\"cite\">\n");
        for citation in &report.citations {
            let _ = writeln!(page, "<li>{}</li>", inline(citation));
        }
        page.push_str("</ul>\n");
    }
    page.push_str("</details></section>\n");
}

fn facts(page: &mut String, report: &Report) {
    page.push_str("<dl class=\"facts\">\n");
    for (name, value) in report.facts().filter(|(name, _)| *name != "command") {
        let class = if name == "partial" { " class=\"partial\"" } else { "" };
        let mut letters = name.chars();
        let first = letters.next().map(|letter| letter.to_uppercase().to_string());
        let name = escaped(&(first.unwrap_or_default() + letters.as_str()));
        let _ = writeln!(page, "<div{class}><dt>{name}</dt><dd>{}</dd></div>", escaped(value));
    }
    if !report.command.is_empty() {
        let command = escaped(&report.command);
        let _ = writeln!(
            page,
            "<div class=\"command\"><dt>Repeat it</dt><dd><code id=\"command\">{command}</code>\
             <button type=\"button\" data-copy=\"command\" hidden>Copy</button></dd></div>"
        );
    }
    page.push_str("</dl>\n");
}
