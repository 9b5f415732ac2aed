//! Horizontal bars, their parts one after another, each with its name above it so
//! that long names need no margin.

use super::{Canvas, WIDTH, width_of};
use crate::figure::{Bar, Bars, Figure};
use crate::scale::shown;

/// Width of a drawing for a narrow screen.
const NARROW: f64 = 350.0;
const LEGEND_LINE: f64 = 24.0;
const BAR: f64 = 22.0;
/// Height of a line of words.
const LINE: f64 = 19.0;
/// Room to the right of the longest bar, for its number.
const NUMBERS: f64 = 84.0;

/// The whole figure; for a page also one for narrow screens.
pub fn draw(figure: &Figure, bars: &Bars) -> String {
    drawn(figure, bars, WIDTH, "fr")
}

/// For narrow screens.
pub fn draw_narrow(figure: &Figure, bars: &Bars) -> String {
    drawn(figure, bars, NARROW, "fr narrow")
}

fn drawn(figure: &Figure, bars: &Bars, width: f64, class: &str) -> String {
    let mut canvas = Canvas::new();
    let longest = bars.bars.iter().map(|bar| bar.total()).fold(0.0, f64::max);
    let scale = (width - NUMBERS) / if longest > 0.0 { longest } else { 1.0 };
    let mut top = legend(&mut canvas, bars, width);
    for bar in &bars.bars {
        top = names(&mut canvas, bar, width, top);
        let mut left = 0.0;
        for (hue, &value) in bar.values().iter().enumerate() {
            let part = bars.parts.get(hue).map_or("", String::as_str);
            let words = format!("{}, {part}: {} {}", bar.name, shown(value), bars.axis.unit);
            canvas.raw(format_args!(
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{BAR}\" \
                 style=\"{}\"><title>{}</title></rect>",
                value * scale,
                fill(hue),
                super::escaped(&words)
            ));
            left += value * scale;
        }
        let total = format!("{} {}", shown(bar.total()), bars.axis.unit);
        canvas.text([left + 8.0, top + 16.0], "start", "", &total);
        top += BAR + 20.0;
    }
    canvas.close_sized(figure, [width, top - 12.0], class)
}

/// Returns where it ends.
fn legend(canvas: &mut Canvas, bars: &Bars, width: f64) -> f64 {
    let [mut x, mut y] = [0.0, 4.0];
    for (hue, part) in bars.parts.iter().enumerate() {
        let wide = 20.0 + width_of(part) + 18.0;
        if x + wide > width && x > 0.0 {
            [x, y] = [0.0, y + LEGEND_LINE];
        }
        canvas.raw(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"14\" height=\"14\" rx=\"2\" style=\"{}\"/>",
            fill(hue)
        ));
        canvas.text([x + 20.0, y + 12.0], "start", "", part);
        x += wide;
    }
    y + LEGEND_LINE + 14.0
}

/// The name and what is said about it: on one line if there is room for both.
fn names(canvas: &mut Canvas, bar: &Bar, width: f64, top: f64) -> f64 {
    let (name, about) = (super::escaped(&bar.name), super::escaped(&bar.about));
    let one = width_of(&bar.name) + width_of(&bar.about) + 14.0 < width;
    let (across, down) =
        if one { ("dx=\"14\"".to_owned(), 0.0) } else { (format!("x=\"0\" dy=\"{LINE}\""), LINE) };
    canvas.raw(format_args!(
        "<text x=\"0\" y=\"{:.1}\"><tspan font-weight=\"600\">{name}</tspan><tspan class=\"soft\" {across}>{about}</tspan></text>",
        top + 10.0
    ));
    top + 18.0 + if bar.about.is_empty() { 0.0 } else { down }
}

fn fill(part: usize) -> String {
    format!("fill:var(--fr-a{});stroke:var(--fr-soft);stroke-width:.6", part % super::AREAS.len())
}
