//! Figures: what is drawn, without a word on how.

use crate::explore::{Curve, Explore, Knob};
use crate::value::{Kind, Measure, Origin};
use serde::{Deserialize, Serialize};

/// With more places on an axis than these its ticks are round numbers.
const SETTINGS_MAX: usize = 12;

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Names its file: lower-case words with hyphens.
    pub id: String,
    /// The title: the subject of the figure.
    pub title: String,
    /// The finding that a reader should see in the figure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub caption: String,
    /// The plot itself.
    pub plot: Plot,
    /// Parameters of the model that a reader moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explore: Option<Box<Explore>>,
}

/// The plot of a figure, by its type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "type")]
pub enum Plot {
    /// Points and lines over two axes.
    Xy(Xy),
    /// Bars by category.
    Bars(Bars),
}

/// Points and lines over two axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Xy {
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// The lines and point sets drawn.
    pub series: Vec<Series>,
    /// Places on the x axis with a name, such as where a device saturates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
}

impl Xy {
    /// Places on the x axis that were set, such as sizes of packets, if they are few: what
    /// its ticks stand at.
    pub fn settings(&self) -> Vec<f64> {
        let mut all: Vec<f64> =
            self.series.iter().flat_map(|s| s.points.iter().map(|point| point.x)).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        if (2..=SETTINGS_MAX).contains(&all.len()) { all } else { Vec::new() }
    }
}

/// An axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The quantity on the axis.
    pub label: String,
    /// Its unit; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Logarithmic.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log: bool,
    /// A value that it must show, such as zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<f64>,
}

impl Axis {
    /// A linear axis.
    pub fn new(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { label: label.into(), unit: unit.into(), log: false, from: None }
    }

    /// Makes the axis logarithmic.
    pub fn log(mut self) -> Self {
        self.log = true;
        self
    }

    /// Makes a linear axis begin at zero.
    pub fn from_zero(mut self) -> Self {
        self.from = Some(0.0);
        self
    }

    /// Label and unit.
    pub fn name(&self) -> String {
        if self.unit.is_empty() {
            self.label.clone()
        } else {
            format!("{} [{}]", self.label, self.unit)
        }
    }
}

/// Form in which a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Points joined by straight lines.
    Line,
    /// A value holds until the next: counters, cumulative shares.
    Step,
    /// Points alone.
    Points,
}

/// A place in a plot; the spread is that of `y`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// To the right.
    pub x: f64,
    /// Upwards.
    pub y: Measure,
}

/// Points of one origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// For the legend; the kind is added to it.
    pub name: String,
    /// Series of one group share a colour.
    pub group: String,
    kind: Kind,
    /// The form in which it is drawn.
    pub shape: Shape,
    points: Vec<Point>,
}

impl Series {
    /// Values of one origin over x. What is no number is left out.
    pub fn new<K: Origin>(
        group: impl Into<String>,
        shape: Shape,
        points: impl IntoIterator<Item = (f64, K)>,
    ) -> Self {
        let group = group.into();
        let points = points.into_iter().map(|(x, y)| Point { x, y: y.measure() });
        let mut points: Vec<Point> =
            points.filter(|p| p.x.is_finite() && p.y.is_finite()).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Self { name: group.clone(), group, kind: K::KIND, shape, points }
    }

    /// The share of samples that are not above x, in percent.
    pub fn cumulative<K: Origin>(
        group: impl Into<String>,
        samples: impl IntoIterator<Item = f64>,
    ) -> Self {
        Self::shares::<K>(group, samples.into_iter().map(|sample| (sample, 1)))
    }

    /// The same of samples that are counted by value. The curve rises from nothing at the
    /// smallest, so that one of a single value is drawn, too: it goes straight up.
    pub fn shares<K: Origin>(
        group: impl Into<String>,
        counted: impl IntoIterator<Item = (f64, u64)>,
    ) -> Self {
        let finite = |(value, count): &(f64, u64)| value.is_finite() && *count > 0;
        let mut counted: Vec<(f64, u64)> = counted.into_iter().filter(finite).collect();
        counted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all = counted.iter().map(|(_, count)| count).sum::<u64>().max(1) as f64;
        let (mut below, mut points) = (0, Vec::with_capacity(counted.len() + 1));
        points.extend(counted.first().map(|&(value, _)| (value, 0.0)));
        for (at, &(value, count)) in counted.iter().enumerate() {
            below += count;
            // One point per value: the last of it.
            if counted.get(at + 1).is_none_or(|next| next.0 != value) {
                points.push((value, 100.0 * below as f64 / all));
            }
        }
        let points = points.into_iter().map(|(x, y)| (x, K::from(Measure::new(y))));
        Self::new(group, Shape::Step, points.collect::<Vec<_>>())
    }

    /// Counts by bin: the lower edge of each and its count. The last edge closes it.
    pub fn histogram<K: Origin>(
        group: impl Into<String>,
        bins: impl IntoIterator<Item = (f64, u64)>,
        end: f64,
    ) -> Self {
        let bins = bins.into_iter().map(|(edge, count)| (edge, count as f64));
        let points = bins.chain([(end, 0.0)]).map(|(x, y)| (x, K::from(Measure::new(y))));
        Self::new(group, Shape::Step, points)
    }

    /// Another name for the legend than that of the group.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Origin of its numbers.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// From left to right.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// For the legend.
    pub fn label(&self) -> String {
        match self.kind.name() {
            "" => self.name.clone(),
            kind => format!("{}, {kind}", self.name),
        }
    }
}

/// A place on the x axis with a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// Its position on the x axis.
    pub x: f64,
    /// Its name.
    pub label: String,
}

/// Bars by category, their parts one after another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bars {
    /// The quantity that the length of a bar shows.
    pub axis: Axis,
    /// One bar each.
    pub bars: Vec<Bar>,
    /// Names of the parts, in the order of each bar's values.
    pub parts: Vec<String>,
    kind: Kind,
}

/// One bar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// Smaller words beneath it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    values: Vec<f64>,
}

impl Bar {
    /// One value for each part.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Sum of the parts.
    pub fn total(&self) -> f64 {
        self.values.iter().sum()
    }
}

impl Bars {
    /// No bars yet, of one origin.
    pub fn of<K: Origin>(
        axis: Axis,
        parts: impl IntoIterator<Item = impl Into<String>>,
    ) -> TypedBars<K> {
        let parts = parts.into_iter().map(Into::into).collect();
        let bars = Self { axis, bars: Vec::new(), parts, kind: K::KIND };
        TypedBars { bars, origin: std::marker::PhantomData }
    }

    /// Origin of its numbers.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

/// Bars that are being made, of one origin.
pub struct TypedBars<K> {
    bars: Bars,
    origin: std::marker::PhantomData<K>,
}

impl<K: Origin> TypedBars<K> {
    /// One more bar. What is no number or below zero has no length.
    pub fn bar(
        mut self,
        name: impl Into<String>,
        about: impl Into<String>,
        values: impl IntoIterator<Item = K>,
    ) -> Self {
        let length = |value: K| {
            let value = value.measure().value;
            if value.is_finite() { value.max(0.0) } else { 0.0 }
        };
        let values = values.into_iter().map(length).collect();
        self.bars.bars.push(Bar { name: name.into(), about: about.into(), values });
        self
    }

    /// Done.
    pub fn plot(self) -> Plot {
        Plot::Bars(self.bars)
    }
}

impl Figure {
    /// A figure.
    pub fn new(id: impl Into<String>, title: impl Into<String>, plot: Plot) -> Self {
        Self { id: id.into(), title: title.into(), caption: String::new(), plot, explore: None }
    }

    /// Sets the finding that a reader should see in the figure.
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// Lets a reader move parameters of the model.
    pub fn explored(mut self, knobs: Vec<Knob>, curves: Vec<Curve>) -> Self {
        self.explore = Some(Box::new(Explore { knobs, curves }));
        self
    }

    /// Lines over two axes.
    pub fn xy(
        id: impl Into<String>,
        title: impl Into<String>,
        [x, y]: [Axis; 2],
        series: Vec<Series>,
    ) -> Self {
        Self::new(id, title, Plot::Xy(Xy { x, y, series, marks: Vec::new() }))
    }

    /// One more place on the x axis with a name.
    pub fn mark(mut self, x: f64, label: impl Into<String>) -> Self {
        if let (Plot::Xy(xy), true) = (&mut self.plot, x.is_finite()) {
            xy.marks.push(Mark { x, label: label.into() });
        }
        self
    }

    /// Description in words, for readers who cannot see the figure.
    pub fn description(&self) -> String {
        match &self.plot {
            Plot::Xy(xy) => {
                let series = xy.series.iter().map(|series| {
                    let ys = series.points.iter().map(|p| p.y.value);
                    let (low, high) =
                        ys.fold((f64::MAX, f64::MIN), |(l, h), y| (l.min(y), h.max(y)));
                    let (low, high) = (crate::scale::shown(low), crate::scale::shown(high));
                    format!(
                        "{}: {} points from {low} to {high}",
                        series.label(),
                        series.points.len()
                    )
                });
                let series: Vec<_> = series.collect();
                format!("{} over {}. {}.", xy.y.name(), xy.x.name(), series.join("; "))
            }
            Plot::Bars(bars) => {
                let each = bars.bars.iter();
                let each = each.map(|b| format!("{} {}", b.name, crate::scale::shown(b.total())));
                format!("{}. {}.", bars.axis.name(), each.collect::<Vec<_>>().join("; "))
            }
        }
    }
}
