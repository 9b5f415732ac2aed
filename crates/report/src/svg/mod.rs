//! Figures as SVG: what one prints, and what a page shows without script.
//!
//! Colours are variables with a light and a dark value, from a palette that colour-blind
//! people can tell apart; the origin of a series shows in marker and dash as well, so
//! that no figure needs colour to be read:
//!
//! ```text
//!   published  open circles, no line       model  a line with small dots
//!   live       filled diamonds, dashes     derived  dots
//! ```

mod bars;
mod hues;
mod xy;

pub use hues::Hues;

use crate::figure::{Figure, Plot};
use crate::value::Kind;
use hues::{AREAS, LINES};
use std::fmt::Write;

/// Width of every figure, in its own units; about pixels on a desktop.
pub(crate) const WIDTH: f64 = 760.0;
/// Width of a letter of the usual size, approximately.
const LETTER: f64 = 8.0;

/// The style of a figure that stands alone.
fn style() -> String {
    let names = |dark: usize| {
        let lines = LINES.iter().enumerate().map(|(n, hue)| format!("--fr-{n}:{};", hue[dark]));
        let areas = AREAS.iter().enumerate().map(|(n, hue)| format!("--fr-a{n}:{};", hue[dark]));
        lines.chain(areas).collect::<String>()
    };
    format!(
        ".fr{{{}--fr-ink:#1b1f24;--fr-soft:#5b6570;--fr-grid:#d9dee3;--fr-paper:#ffffff;\
         font-family:system-ui,-apple-system,'Segoe UI',sans-serif;font-size:13px}}\
         @media screen and (prefers-color-scheme:dark){{.fr{{{}--fr-ink:#e8ebee;\
         --fr-soft:#a3adb8;--fr-grid:#343c45;--fr-paper:#14181d}}}}\
         .fr text{{fill:var(--fr-ink)}}.fr .soft{{fill:var(--fr-soft)}}\
         .fr .grid{{stroke:var(--fr-grid);stroke-width:1}}\
         .fr .mark{{stroke:var(--fr-soft);stroke-width:1;stroke-dasharray:2 4}}",
        names(0),
        names(1)
    )
}

/// A figure as a file of its own.
pub fn render(figure: &Figure) -> String {
    render_among(figure, &Hues::of([figure]))
}

/// Renders a figure in the colours that it shares with the other figures of a report.
pub fn render_among(figure: &Figure, hues: &Hues) -> String {
    let body = match &figure.plot {
        Plot::Xy(xy) => xy::draw(figure, xy, hues, &xy::WIDE),
        Plot::Bars(bars) => bars::draw(figure, bars),
    };
    let style = style();
    // A paper of its own: in dark surroundings the ink is light.
    let (head, rest) = body.split_once('>').unwrap_or((&body, ""));
    format!(
        "{head}>\n<style>{style}</style>\n\
         <rect width=\"100%\" height=\"100%\" style=\"fill:var(--fr-paper)\"/>{rest}"
    )
}

/// A figure for a page that has [`page_style`], and one for narrow screens before it.
pub(crate) fn inline(figure: &Figure, hues: &Hues) -> String {
    match &figure.plot {
        Plot::Xy(xy) => {
            xy::draw(figure, xy, hues, &xy::NARROW) + &xy::draw(figure, xy, hues, &xy::WIDE)
        }
        Plot::Bars(bars) => bars::draw_narrow(figure, bars) + &bars::draw(figure, bars),
    }
}

/// The same for a place beside words.
pub(crate) fn beside(figure: &Figure, hues: &Hues) -> String {
    match &figure.plot {
        Plot::Xy(xy) => {
            xy::draw(figure, xy, hues, &xy::NARROW) + &xy::draw(figure, xy, hues, &xy::BESIDE)
        }
        Plot::Bars(_) => inline(figure, hues),
    }
}

/// The style of figures within a page.
pub(crate) fn page_style() -> String {
    style()
}

/// The SVG text of a figure while it is drawn.
struct Canvas(String);

impl Canvas {
    /// Nothing yet; the height comes last.
    fn new() -> Self {
        Self(String::new())
    }

    fn close_sized(self, figure: &Figure, [width, height]: [f64; 2], class: &str) -> String {
        let (title, about) = (escaped(&figure.title), escaped(&figure.description()));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" viewBox=\"0 0 {width} \
             {height:.0}\" width=\"{width}\" height=\"{height:.0}\" role=\"img\">\n\
             <title>{title}</title>\n<desc>{about}</desc>\n{}</svg>\n",
            self.0
        )
    }

    fn raw(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.0.write_fmt(text);
        self.0.push('\n');
    }

    fn text(&mut self, [x, y]: [f64; 2], anchor: &str, class: &str, words: &str) {
        let words = escaped(words);
        self.raw(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{words}</text>"
        ));
    }

    fn line(&mut self, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2], class: &str) {
        self.raw(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"
        ));
    }

    /// The sign of an origin, with words that a pointer sees.
    fn marker(&mut self, kind: Kind, [x, y]: [f64; 2], hue: usize, words: &str) {
        let colour = format!("var(--fr-{})", hue);
        let title = if words.is_empty() {
            String::new()
        } else {
            format!("<title>{}</title>", escaped(words))
        };
        match kind {
            Kind::Published => self.raw(format_args!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" style=\"fill:var(--fr-paper);\
                 stroke:{colour};stroke-width:2\">{title}</circle>"
            )),
            Kind::Live => self.raw(format_args!(
                "<path d=\"M{x:.1} {:.1}l5 5l-5 5l-5 -5z\" style=\"fill:{colour}\">{title}</path>",
                y - 5.0
            )),
            _ => self.raw(format_args!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" style=\"fill:{colour}\">{title}</circle>"
            )),
        }
    }
}

/// Dash pattern of the lines of an origin.
fn dash(kind: Kind) -> &'static str {
    match kind {
        Kind::Live => "7 4",
        Kind::Published | Kind::Asserted | Kind::Derived => "2 4",
        Kind::Fitted => "9 3 2 3",
        Kind::Model | Kind::Key => "none",
    }
}

/// Words as XML and HTML take them, in text and in quotes.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c if c.is_control() && c != '\n' && c != '\t' => {}
            c => out.push(c),
        }
    }
    out
}

/// About what a text takes.
fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}
