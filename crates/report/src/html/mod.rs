//! One page that needs nothing else: no network, no other file, no script for what
//! matters.
//!
//! Every figure is in the page twice: as SVG, which is what prints and what shows
//! without script, and as data from which the script (`web/report/report.js`, with
//! uPlot) draws one that zooms, names values and hides series, by pointer and by
//! keyboard. A policy in the page's head forbids it to load anything.

mod blocks;

use crate::document::Report;
use crate::judgement::Verdict;
use crate::svg::{self, escaped};
use crate::value::Kind;
use std::fmt::Write;

const STYLE: &str = include_str!("../../../../web/report/report.css");
const SCRIPT: &str = include_str!("../../../../web/report/report.js");
const UPLOT: &str = include_str!("../../../../web/vendor/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../../../../web/vendor/uplot/uPlot.min.css");
/// Its licence travels with it.
const UPLOT_LICENCE: &str = include_str!("../../../../web/vendor/uplot/LICENSE");
/// What the page may load: nothing but itself.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
    script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";
/// With fewer sections nobody needs a list of them.
const CONTENTS_MIN: usize = 3;

/// The page.
pub fn render(report: &Report) -> String {
    let title = escaped(&report.title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"Ferrule\">\n<title>{title}</title>\n\
         <style>\n{}\n{STYLE}\n{UPLOT_STYLE}\n</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#content\">To the results</a>\n",
        svg::page_style()
    );
    head(&mut page, report, &title);
    page += "<main id=\"content\">\n";
    for (number, section) in report.sections.iter().enumerate() {
        let heading = escaped(&section.title);
        let _ = writeln!(page, "<section id=\"s{number}\">\n<h2>{heading}</h2>");
        for block in &section.blocks {
            blocks::write(&mut page, report, block);
        }
        page += "</section>\n";
    }
    page += "</main>\n";
    foot(&mut page, report);
    let licence = UPLOT_LICENCE.replace("*/", "* /");
    let _ = write!(
        page,
        "<script>\n/*\nuPlot: {licence}*/\n{}\n{}\n</script>\n</body>\n</html>\n",
        in_script(UPLOT),
        in_script(SCRIPT)
    );
    page
}

/// A program cannot end its element early.
fn in_script(program: &str) -> String {
    program.replace("</script", "<\\/script")
}

fn head(page: &mut String, report: &Report, title: &str) {
    let _ = write!(
        page,
        "<header>\n<p class=\"brand\">Ferrule</p>\n<h1>{title}</h1>\n\
         <p class=\"question\">{}</p>\n<p class=\"answer\">{}</p>\n",
        blocks::inline(&report.question),
        blocks::inline(&report.answer)
    );
    summary(page, report);
    page.push_str("<dl class=\"facts\">\n");
    for (name, value) in report.facts().filter(|(name, _)| *name != "command") {
        let class = if name == "partial" { " class=\"partial\"" } else { "" };
        let (first, rest) = name.split_at(1);
        let name = first.to_uppercase() + rest;
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
    kinds(page, report);
    if report.sections.len() >= CONTENTS_MIN {
        page.push_str("<nav aria-label=\"Contents\"><ol>\n");
        for (number, section) in report.sections.iter().enumerate() {
            let heading = escaped(&section.title);
            let _ = writeln!(page, "<li><a href=\"#s{number}\">{heading}</a></li>");
        }
        page.push_str("</ol></nav>\n");
    }
    page.push_str("</header>\n");
}

/// How many claims hold.
fn summary(page: &mut String, report: &Report) {
    let count = |verdict| report.claims().filter(|claim| claim.verdict() == verdict).count();
    if report.claims().next().is_none() {
        return;
    }
    page.push_str("<p class=\"tally\">Claims: ");
    for verdict in Verdict::ALL {
        let count = count(verdict);
        if count > 0 {
            let _ = write!(page, "{} <span>{count}</span> ", blocks::badge(verdict));
        }
    }
    page.push_str("</p>\n");
}

/// What the words above the columns mean.
fn kinds(page: &mut String, report: &Report) {
    let kinds = report.kinds();
    if kinds.iter().all(|kind| *kind == Kind::Derived) {
        return;
    }
    page.push_str("<ul class=\"kinds\" aria-label=\"Where numbers come from\">\n");
    for kind in kinds {
        let _ = writeln!(page, "<li>{} {}</li>", blocks::kind(kind), escaped(kind.meaning()));
    }
    page.push_str("</ul>\n");
}

fn foot(page: &mut String, report: &Report) {
    let date = if report.date.is_empty() { "" } else { ", " };
    let _ = writeln!(
        page,
        "<footer><p>Made by Ferrule{date}{}. This page loads nothing from anywhere; its \
         interactive plots are drawn by uPlot (MIT).</p></footer>",
        escaped(&report.date)
    );
}
