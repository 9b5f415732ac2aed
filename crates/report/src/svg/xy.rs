//! Points and lines over two axes.

use super::{Canvas, Hues, WIDTH, dash, width_of};
use crate::figure::{Figure, Point, Series, Shape, Xy};
use crate::scale::{Scale, shown};
use crate::value::Kind;
use std::fmt::Write;

const RIGHT: f64 = 18.0;
const TOP: f64 = 26.0;
/// From the axis to the legend.
const BELOW: f64 = 56.0;
const LEGEND_LINE: f64 = 22.0;
/// More points than this are a line without markers.
const MARKERS_MAX: usize = 60;

/// A drawing's measures.
pub struct Layout {
    width: f64,
    left: f64,
    height: f64,
    class: &'static str,
}

/// For pages and files.
pub const WIDE: Layout = Layout { width: WIDTH, left: 72.0, height: 300.0, class: "fr" };
/// Beside words.
pub const BESIDE: Layout = Layout { width: 600.0, left: 66.0, height: 270.0, class: "fr" };
/// For narrow screens.
pub const NARROW: Layout = Layout { width: 350.0, left: 52.0, height: 170.0, class: "fr narrow" };

struct Frame<'a> {
    x: Scale,
    y: Scale,
    /// Position of the y axis: long numbers move it to the right.
    left: f64,
    layout: &'a Layout,
}

impl Frame<'_> {
    fn place(&self, x: f64, y: f64) -> Option<[f64; 2]> {
        let right = self.left + self.x.place(x)? * self.across();
        Some([right, TOP + (1.0 - self.y.place(y)?) * self.layout.height])
    }

    fn of(&self, point: &Point) -> Option<[f64; 2]> {
        self.place(point.x, point.y.value)
    }

    fn across(&self) -> f64 {
        self.layout.width - self.left - RIGHT
    }

    fn bottom(&self) -> f64 {
        TOP + self.layout.height
    }
}

/// The whole figure.
pub fn draw(figure: &Figure, xy: &Xy, hues: &Hues, layout: &Layout) -> String {
    let points = || xy.series.iter().flat_map(|series| series.points());
    let ys = points().flat_map(|p| [Some(p.y.value), p.y.low, p.y.high]).flatten();
    let xs = points().map(|p| p.x).chain(xy.marks.iter().map(|mark| mark.x));
    let y = Scale::over(ys, xy.y.log, xy.y.from);
    let longest = y.ticks().into_iter().map(|tick| width_of(&shown(tick))).fold(0.0, f64::max);
    let left = layout.left.max(longest + 12.0);
    let frame = Frame { x: Scale::over(xs, xy.x.log, xy.x.from), y, left, layout };
    let mut canvas = Canvas::new();
    axes(&mut canvas, &frame, xy);
    for mark in &xy.marks {
        let Some([x, _]) = frame.place(mark.x, frame.y.low()) else { continue };
        canvas.line([x, TOP], [x, frame.bottom()], "mark");
        let (anchor, side) = if x > layout.width / 2.0 { ("end", -5.0) } else { ("start", 5.0) };
        canvas.text([x + side, TOP + 12.0], anchor, "soft", &mark.label);
    }
    for (at, series) in xy.series.iter().enumerate() {
        let dash = dash_of(&xy.series, at);
        draw_series(&mut canvas, &frame, xy, series, (hues.hue(&series.group), dash));
    }
    let height = legend(&mut canvas, &xy.series, hues, layout);
    canvas.close_sized(figure, [layout.width, height], layout.class)
}

fn axes(canvas: &mut Canvas, frame: &Frame<'_>, xy: &Xy) {
    let (left, bottom, right) = (frame.left, frame.bottom(), frame.layout.width - RIGHT);
    for tick in frame.y.ticks() {
        let Some(place) = frame.y.place(tick) else { continue };
        let y = TOP + (1.0 - place) * frame.layout.height;
        canvas.line([left, y], [right, y], "grid");
        canvas.text([left - 8.0, y + 4.5], "end", "soft", &shown(tick));
    }
    // A label has its room, or it is left out.
    let mut free = f64::NEG_INFINITY;
    for tick in frame.x.ticks_at(&xy.settings()) {
        let Some(place) = frame.x.place(tick) else { continue };
        let (x, words) = (left + place * frame.across(), shown(tick));
        let wide = width_of(&words);
        canvas.line([x, bottom], [x, bottom + 5.0], "grid");
        let from = (x - wide / 2.0).min(frame.layout.width - wide);
        if from > free {
            canvas.text([from + wide / 2.0, bottom + 20.0], "middle", "soft", &words);
            free = from + wide + 6.0;
        }
    }
    canvas.text([0.0, 13.0], "start", "axis", &xy.y.name());
    canvas.text([right, bottom + 40.0], "end", "axis", &xy.x.name());
}

fn draw_series(
    canvas: &mut Canvas,
    frame: &Frame<'_>,
    xy: &Xy,
    series: &Series,
    (hue, dash): (usize, &str),
) {
    let points = series.points();
    let colour = format!("var(--fr-{hue})");
    let many = points.len() > MARKERS_MAX;
    spread(canvas, frame, series, &colour, many);
    let joined = series.shape != Shape::Points && (series.kind() != Kind::Published || many);
    if joined {
        let path = path(frame, series);
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

fn path(frame: &Frame<'_>, series: &Series) -> String {
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
fn spread(canvas: &mut Canvas, frame: &Frame<'_>, series: &Series, colour: &str, many: bool) {
    let ends = series.points().iter().filter_map(|point| {
        let (low, high) = (point.y.low?, point.y.high?);
        // A logarithmic axis has no place for zero: the bar ends at the axis.
        let low = frame.place(point.x, low).unwrap_or([0.0, frame.bottom()]);
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

/// Dash pattern of a series' line: by its origin, and another one for a second series of the same
/// colour and origin.
fn dash_of(all: &[Series], at: usize) -> &'static str {
    let Some(series) = all.get(at) else { return "none" };
    let same = |other: &&Series| (&other.group, other.kind()) == (&series.group, series.kind());
    match all.iter().take(at).filter(same).count() {
        0 => dash(series.kind()),
        _ => "10 3 2 3",
    }
}

/// A line for each name with the signs of all its origins. Returns where it ends.
fn legend(canvas: &mut Canvas, series: &[Series], hues: &Hues, layout: &Layout) -> f64 {
    let left = if layout.width < WIDTH { 0.0 } else { layout.left };
    let [mut x, mut y] = [left, TOP + layout.height + BELOW + 8.0];
    for (at, one) in series.iter().enumerate() {
        let is_same = |other: &&Series| (&other.name, &other.group) == (&one.name, &one.group);
        if series.iter().take(at).any(|before| is_same(&before)) {
            continue;
        }
        let kinds = series.iter().filter(is_same).map(Series::kind);
        let kinds: Vec<Kind> = kinds.collect();
        let origins = kinds.iter().map(|kind| kind.name()).filter(|name| !name.is_empty());
        let origins = origins.collect::<Vec<_>>().join(", ");
        let colon = if origins.is_empty() { "" } else { ": " };
        let label = format!("{}{colon}{origins}", one.name);
        let signs: f64 = kinds.iter().map(|kind| room(*kind)).sum();
        let wide = signs + width_of(&label) + 24.0;
        if x + wide > layout.width && x > left {
            x = left;
            y += LEGEND_LINE;
        }
        let hue = hues.hue(&one.group);
        let mut sign = x;
        for (place, other) in series.iter().enumerate().filter(|(_, other)| is_same(other)) {
            if other.kind() != Kind::Published && other.shape != Shape::Points {
                canvas.raw(format_args!(
                    "<path d=\"M{sign:.1} {:.1}h26\" style=\"stroke:var(--fr-{hue});\
                     stroke-width:2;stroke-dasharray:{}\"/>",
                    y - 4.0,
                    dash_of(series, place)
                ));
            }
            let middle = sign + room(other.kind()) / 2.0 - 3.0;
            canvas.marker(other.kind(), [middle, y - 4.0], hue, "");
            sign += room(other.kind());
        }
        canvas.text([sign + 2.0, y], "start", "", &label);
        x += wide;
    }
    y + 14.0
}

/// Width of an origin's sign in the legend.
fn room(kind: Kind) -> f64 {
    if kind == Kind::Published { 18.0 } else { 32.0 }
}
