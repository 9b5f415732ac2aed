//! Points and lines over two axes.

use super::{Canvas, WIDTH, dash, width_of};
use crate::figure::{Figure, Point, Series, Shape, Xy};
use crate::scale::{Scale, shown};
use crate::value::Kind;
use std::fmt::Write;

const LEFT: f64 = 72.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 26.0;
const PLOT_HEIGHT: f64 = 300.0;
/// From the axis to the legend.
const BELOW: f64 = 56.0;
const LEGEND_LINE: f64 = 22.0;
/// More points than this are a line without markers.
const MARKERS_MAX: usize = 60;

struct Frame {
    x: Scale,
    y: Scale,
}

impl Frame {
    fn place(&self, x: f64, y: f64) -> Option<[f64; 2]> {
        let right = LEFT + self.x.place(x)? * (WIDTH - LEFT - RIGHT);
        Some([right, TOP + (1.0 - self.y.place(y)?) * PLOT_HEIGHT])
    }

    fn of(&self, point: &Point) -> Option<[f64; 2]> {
        self.place(point.x, point.y.value)
    }
}

/// The whole figure.
pub fn draw(figure: &Figure, xy: &Xy) -> String {
    let points = || xy.series.iter().flat_map(|series| series.points());
    let ys = points().flat_map(|p| [Some(p.y.value), p.y.low, p.y.high]).flatten();
    let xs = points().map(|p| p.x).chain(xy.marks.iter().map(|mark| mark.x));
    let frame =
        Frame { x: Scale::over(xs, xy.x.log, xy.x.from), y: Scale::over(ys, xy.y.log, xy.y.from) };
    let mut canvas = Canvas::new();
    axes(&mut canvas, &frame, xy);
    for mark in &xy.marks {
        let Some([x, _]) = frame.place(mark.x, frame.y.low()) else { continue };
        canvas.line([x, TOP], [x, TOP + PLOT_HEIGHT], "mark");
        let (anchor, side) = if x > WIDTH / 2.0 { ("end", -5.0) } else { ("start", 5.0) };
        canvas.text([x + side, TOP + 12.0], anchor, "soft", &mark.label);
    }
    for (series, hue) in xy.series.iter().zip(hues(&xy.series)) {
        draw_series(&mut canvas, &frame, xy, series, hue);
    }
    let height = legend(&mut canvas, &xy.series, TOP + PLOT_HEIGHT + BELOW);
    canvas.close(figure, height)
}

/// The colour of each series: one for each group, in the order of appearance.
fn hues(series: &[Series]) -> Vec<usize> {
    let mut groups: Vec<&str> = Vec::new();
    let mut hue = |group| {
        groups.iter().position(|known| *known == group).unwrap_or_else(|| {
            groups.push(group);
            groups.len() - 1
        })
    };
    series.iter().map(|series| hue(series.group.as_str())).collect()
}

fn axes(canvas: &mut Canvas, frame: &Frame, xy: &Xy) {
    let bottom = TOP + PLOT_HEIGHT;
    for tick in frame.y.ticks() {
        let Some(place) = frame.y.place(tick) else { continue };
        let y = TOP + (1.0 - place) * PLOT_HEIGHT;
        canvas.line([LEFT, y], [WIDTH - RIGHT, y], "grid");
        canvas.text([LEFT - 8.0, y + 4.5], "end", "soft", &shown(tick));
    }
    for tick in frame.x.ticks() {
        let Some(place) = frame.x.place(tick) else { continue };
        let x = LEFT + place * (WIDTH - LEFT - RIGHT);
        canvas.line([x, bottom], [x, bottom + 5.0], "grid");
        canvas.text([x, bottom + 20.0], "middle", "soft", &shown(tick));
    }
    canvas.text([0.0, 13.0], "start", "axis", &xy.y.name());
    canvas.text([WIDTH - RIGHT, bottom + 40.0], "end", "axis", &xy.x.name());
}

fn draw_series(canvas: &mut Canvas, frame: &Frame, xy: &Xy, series: &Series, hue: usize) {
    let points = series.points();
    let colour = format!("var(--fr-{})", hue % super::LIGHT.len());
    let many = points.len() > MARKERS_MAX;
    spread(canvas, frame, series, &colour, many);
    let joined = series.shape != Shape::Points && (series.kind() != Kind::Published || many);
    if joined {
        let path = path(frame, series);
        let dash = dash(series.kind());
        canvas.raw(format_args!(
            "<path d=\"{path}\" style=\"fill:none;stroke:{colour};stroke-width:2;\
             stroke-linejoin:round;stroke-dasharray:{dash}\"/>"
        ));
    }
    if many || series.shape == Shape::Step && series.kind() != Kind::Published {
        return;
    }
    for point in points {
        let Some(place) = frame.of(point) else { continue };
        let unit = |unit: &str| if unit.is_empty() { String::new() } else { format!(" {unit}") };
        let words = format!(
            "{}: {}{} at {}{}",
            series.label(),
            shown(point.y.value),
            unit(&xy.y.unit),
            shown(point.x),
            unit(&xy.x.unit)
        );
        canvas.marker(series.kind(), place, hue, &words);
    }
}

fn path(frame: &Frame, series: &Series) -> String {
    let mut path = String::new();
    let places = series.points().iter().filter_map(|point| frame.of(point));
    for (number, [x, y]) in places.enumerate() {
        let _ = match (number, series.shape) {
            (0, _) => write!(path, "M{x:.1} {y:.1}"),
            (_, Shape::Step) => write!(path, "H{x:.1}V{y:.1}"),
            _ => write!(path, "L{x:.1} {y:.1}"),
        };
    }
    path
}

/// Few points have bars for their spread, many a band.
fn spread(canvas: &mut Canvas, frame: &Frame, series: &Series, colour: &str, many: bool) {
    let ends = series.points().iter().filter_map(|point| {
        let (low, high) = (point.y.low?, point.y.high?);
        // A logarithmic axis has no place for zero: the bar ends at the axis.
        let low = frame.place(point.x, low).unwrap_or([0.0, TOP + PLOT_HEIGHT]);
        Some((low, frame.place(point.x, high)?))
    });
    let ends: Vec<_> = ends.map(|([_, low], [x, high])| (x, low, high)).collect();
    if many {
        let up = ends.iter().map(|(x, _, high)| format!("{x:.1} {high:.1}"));
        let down = ends.iter().rev().map(|(x, low, _)| format!("{x:.1} {low:.1}"));
        let edge = up.chain(down).collect::<Vec<_>>().join("L");
        if !edge.is_empty() {
            canvas.raw(format_args!("<path d=\"M{edge}z\" style=\"fill:{colour};opacity:.18\"/>"));
        }
        return;
    }
    for (x, low, high) in ends {
        canvas.raw(format_args!(
            "<path d=\"M{x:.1} {low:.1}V{high:.1}M{:.1} {low:.1}h8M{:.1} {high:.1}h8\" \
             style=\"fill:none;stroke:{colour};stroke-width:1.3\"/>",
            x - 4.0,
            x - 4.0
        ));
    }
}

/// Returns where it ends.
fn legend(canvas: &mut Canvas, series: &[Series], top: f64) -> f64 {
    let [mut x, mut y] = [LEFT, top + 8.0];
    for (series, hue) in series.iter().zip(hues(series)) {
        let label = series.label();
        let wide = 36.0 + width_of(&label) + 16.0;
        if x + wide > WIDTH && x > LEFT {
            x = LEFT;
            y += LEGEND_LINE;
        }
        let colour = format!("var(--fr-{})", hue % super::LIGHT.len());
        if series.kind() != Kind::Published && series.shape != Shape::Points {
            let dash = dash(series.kind());
            canvas.raw(format_args!(
                "<path d=\"M{x:.1} {:.1}h26\" style=\"stroke:{colour};stroke-width:2;\
                 stroke-dasharray:{dash}\"/>",
                y - 4.0
            ));
        }
        canvas.marker(series.kind(), [x + 13.0, y - 4.0], hue, "");
        canvas.text([x + 34.0, y], "start", "", &label);
        x += wide;
    }
    y + 14.0
}
