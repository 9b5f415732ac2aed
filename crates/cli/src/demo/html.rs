//! The report: one HTML file that needs nothing else, with the same figures and
//! a drawing of the bytes.

use super::plan::STUDY_LEN;
use super::report::Outcome;
use ferrule_node::overhead::Layout;
use std::fmt::Write;

/// Width of the drawing that stands for the longest frame.
const SCALE_WIDTH: usize = 620;
/// Left of the bars: the names.
const NAMES_WIDTH: usize = 210;
const BAR_HEIGHT: usize = 22;
const ROW_HEIGHT: usize = 62;

const STYLE: &str = "\
:root { color-scheme: light dark; --frame: #8fa3b5; --edge: #d9822b; --core: #3f7fbf; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; } .verdict { font-size: 1.1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; }
.note { opacity: .75; } .failed { color: #c0392b; } svg text { fill: currentColor; font-size: 13px; }
.key span { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 1em; }";

/// The whole page.
pub fn page(outcome: &Outcome) -> String {
    let verdict = escaped(&outcome.verdict());
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>ferrule demo</title>\n<style>\n{STYLE}\n</style>\n\
         <h1>Two sites joined across an MPLS provider</h1>\n\
         <p>host1 – CE1 – PE1 – P – PE2 – CE2 – host2</p>\n\
         <p class=\"verdict\">{verdict}</p>\n"
    );
    page += &table(&outcome.table());
    let _ = writeln!(page, "<p class=\"note\">{}</p>", escaped(outcome.note()));
    for finding in outcome.findings() {
        let _ = writeln!(page, "<p class=\"failed\">failed: {}</p>", escaped(&finding));
    }
    let _ = writeln!(
        page,
        "<h2>Bytes of the {STUDY_LEN}-byte frame, from P to PE</h2>\n\
         <p class=\"key\"><span style=\"background:var(--frame)\"></span>the user's packet\
         <span style=\"background:var(--edge)\"></span>protection by the customer\
         <span style=\"background:var(--core)\"></span>the provider's headers</p>"
    );
    page += &drawing(outcome);
    page + "</html>\n"
}

fn table(rows: &[Vec<String>]) -> String {
    let mut text = String::from("<table>\n");
    for (number, row) in rows.iter().enumerate() {
        let tag = if number == 0 { "th" } else { "td" };
        let cells = row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell)));
        let _ = writeln!(text, "<tr>{}</tr>", cells.collect::<String>());
    }
    text + "</table>\n"
}

/// One bar each: what was measured, in the parts that the calculator knows.
fn drawing(outcome: &Outcome) -> String {
    let longest = outcome.rows.iter().map(|row| row.wires[1].bytes).max().unwrap_or(1).max(1);
    let height = ROW_HEIGHT * outcome.rows.len();
    let width = NAMES_WIDTH + SCALE_WIDTH + 70;
    let mut text = format!(
        "<svg viewBox=\"0 0 {width} {height}\" width=\"100%\" role=\"img\" \
         aria-label=\"bytes by variant\">\n"
    );
    for (number, row) in outcome.rows.iter().enumerate() {
        let top = number * ROW_HEIGHT + 12;
        let bytes = row.wires[1].bytes;
        let name = escaped(row.variant.name);
        let baseline = top + BAR_HEIGHT - 6;
        let _ = writeln!(text, "<text x=\"0\" y=\"{baseline}\">{name}</text>");
        let layout = row.variant.stack(1).and_then(|stack| stack.layout());
        let mut left = NAMES_WIDTH;
        let parts = layout.map(|layout| parts(&layout)).unwrap_or_default();
        for (class, share) in parts {
            let width = share * SCALE_WIDTH / longest;
            let _ = writeln!(
                text,
                "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{BAR_HEIGHT}\" \
                 style=\"fill:var(--{class})\"><title>{share} bytes</title></rect>"
            );
            left += width;
        }
        let _ = writeln!(text, "<text x=\"{}\" y=\"{baseline}\">{bytes}</text>", left + 8);
        let stack = row.variant.stack(1).map(|stack| stack.transforms_text()).unwrap_or_default();
        let _ = writeln!(
            text,
            "<text x=\"{NAMES_WIDTH}\" y=\"{}\" opacity=\".7\">{}</text>",
            top + BAR_HEIGHT + 16,
            escaped(&stack)
        );
    }
    text + "</svg>\n"
}

/// Octets of the user's frame that are left, of the customer's protection, and
/// of the provider.
fn parts(layout: &Layout) -> [(&'static str, usize); 3] {
    let stages = layout.stages.len();
    let mut octets = [0; 3];
    for segment in &layout.segments {
        let part = match segment.stage {
            0 => 0,
            stage if stage == stages => 2,
            _ => 1,
        };
        octets[part] += segment.bytes;
    }
    [("core", octets[2]), ("edge", octets[1]), ("frame", octets[0])]
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
