//! One page that needs nothing else: no network, no other file, no script for what
//! matters.
//!
//! Every figure is in the page as SVG, which is what prints and what shows without script,
//! and as data from which the script (`web/report/report.js`, with uPlot) draws one that
//! zooms, names values and hides series, by pointer and by keyboard. A policy in the page's
//! head forbids it to load anything.
//!
//! ```text
//!   first    question, answer, the figure that shows it, the claims, what was not run
//!   blocks   sections that fold: text, tables, figures, claims, errata
//!   print    all that the reproduced print shows, and where it is here
//!   index    several reports, one line for each thing that their prints show
//! ```

mod blocks;
mod first;
mod index;
mod print;

pub use index::{Entry, index};

use crate::document::Report;
use crate::explore;
use crate::svg::{self, Hues, escaped};
use std::fmt::Write;

const STYLE: &str = include_str!("../../../../web/report/report.css");
const SCRIPT: &str = include_str!("../../../../web/report/report.js");
const UPLOT: &str = include_str!("../../../../web/vendor/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../../../../web/vendor/uplot/uPlot.min.css");
/// Its licence travels with it.
const UPLOT_LICENCE: &str = include_str!("../../../../web/vendor/uplot/LICENSE");
/// Content security policy: the page loads nothing from elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
    script-src 'unsafe-inline' 'wasm-unsafe-eval'; img-src data:; base-uri 'none'; form-action 'none'";
/// The heading of the section that figures refer to.
const METHOD: &str = "How it was done";

/// Context that the blocks of a page share.
struct Page<'a> {
    report: &'a Report,
    hues: Hues,
    /// The section on methods and limits.
    method: Option<usize>,
}

/// The page.
pub fn render(report: &Report) -> String {
    render_beside(report, None)
}

/// The page of one of several reports; the address of their index.
pub fn render_beside(report: &Report, index: Option<&str>) -> String {
    let about = Page {
        report,
        hues: Hues::of(report.figures()),
        method: report.sections.iter().position(|section| section.title == METHOD),
    };
    let mut page = opened(&report.title);
    first::write(&mut page, &about, index);
    page += "<main id=\"content\">\n";
    // A page that begins with its answer folds what leads to it.
    let open = if report.leading().is_some() { "" } else { " open" };
    for (number, section) in report.sections.iter().enumerate() {
        let heading = escaped(&section.title);
        let _ = writeln!(
            page,
            "<section id=\"s{number}\"><details{open}>\n<summary><h2>{heading}</h2></summary>"
        );
        for block in &section.blocks {
            blocks::write(&mut page, &about, block);
        }
        page += "</details></section>\n";
    }
    print::section(&mut page, report, open);
    first::circumstances(&mut page, report, open);
    page += "</main>\n";
    if report.figures().any(|figure| figure.explore.is_some()) {
        let _ = writeln!(
            page,
            "<script type=\"application/wasm\" id=\"models\">{}</script>",
            base64(explore::MODELS)
        );
    }
    foot(&mut page, &report.date);
    closed(page)
}

/// Octets as text (RFC 4648 section 4).
fn base64(octets: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(octets.len().div_ceil(3) * 4);
    for three in octets.chunks(3) {
        let value = three.iter().fold(0_u32, |value, octet| value << 8 | u32::from(*octet));
        let value = value << (8 * (3 - three.len()));
        for place in 0..4 {
            let sign = SIGNS[(value >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= three.len() { char::from(sign) } else { '=' });
        }
    }
    text
}

/// Up to the begin of what is to be read.
fn opened(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"Ferrule\">\n<title>{}</title>\n\
         <style>\n{}\n{STYLE}\n{UPLOT_STYLE}\n</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#content\">To the results</a>\n",
        escaped(title),
        svg::page_style()
    )
}

/// The script, and the end.
fn closed(mut page: String) -> String {
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

fn foot(page: &mut String, date: &str) {
    let comma = if date.is_empty() { "" } else { ", " };
    let _ = writeln!(
        page,
        "<footer><p>Made by Ferrule{comma}{}. This page loads nothing from anywhere; its \
         interactive plots are drawn by uPlot (MIT).</p></footer>",
        escaped(date)
    );
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_answers_rfc_4648_section_10() {
        let all =
            ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|text| base64(text.as_bytes()));
        let expected = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        assert_eq!(all, expected);
    }
}
