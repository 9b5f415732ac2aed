//! Parameters of a figure's model that a reader moves, and the curves that follow.
//!
//! The curves are functions that the page carries as wasm32 (`web/models`): the code that the
//! report was made with. Their points at the parameters' first values are here, too, so that
//! whoever reads the data needs no page, and a test can hold one against the other.

use crate::figure::Point;
use serde::{Deserialize, Serialize};

/// The functions, as wasm32. `scripts/models.sh` builds it.
pub(crate) const MODELS: &[u8] = include_bytes!("../../../web/report/models.wasm");

/// Parameters that a reader moves, and the curves that follow them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explore {
    /// The parameters.
    pub knobs: Vec<Knob>,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knob {
    /// Its name.
    pub name: String,
    /// Its unit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// The least value.
    pub low: f64,
    /// The greatest value.
    pub high: f64,
    /// From one value to the next.
    pub step: f64,
    /// The first value: the model's.
    pub value: f64,
}

impl Knob {
    /// A parameter from a quarter of its value to three times as much, in steps of about a
    /// hundredth.
    pub fn around(name: impl Into<String>, unit: impl Into<String>, value: f64) -> Self {
        let step = 10f64.powf((value / 100.0).log10().floor());
        let (name, unit) = (name.into(), unit.into());
        let knob = Self { name, unit, low: value, high: value, step, value };
        knob.within((value / 4.0, value * 3.0), step)
    }

    /// Other ends, and another distance between values: as near to them as steps from the first
    /// value lead.
    pub fn within(self, (low, high): (f64, f64), step: f64) -> Self {
        let steps = |distance: f64| (distance / step + 1e-9).floor() * step;
        let (low, high) =
            (self.value - steps(self.value - low), self.value + steps(high - self.value));
        Self { low, high, step, ..self }
    }
}

/// An argument of a function beside the place on the x axis.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Argument {
    /// A number.
    Number(f64),
    /// The value of a parameter, by its place among them.
    Knob(usize),
}

/// A curve: a function of the place on the x axis, of numbers and of parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// The subject: its series have one colour.
    pub group: String,
    /// The exported function.
    pub function: String,
    /// Its arguments after the first one.
    pub arguments: Vec<Argument>,
    /// Its points at the parameters' first values.
    pub points: Vec<Point>,
}

impl Curve {
    /// A curve at these places; `value` is the function itself with all its arguments.
    pub fn over(
        group: impl Into<String>,
        (function, arguments): (&str, Vec<Argument>),
        places: &[f64],
        knobs: &[Knob],
        value: impl Fn(f64, &[f64]) -> f64,
    ) -> Self {
        let given: Vec<f64> = arguments
            .iter()
            .map(|argument| match argument {
                Argument::Number(number) => *number,
                Argument::Knob(place) => knobs[*place].value,
            })
            .collect();
        let points = places.iter().map(|&x| Point { x, y: value(x, &given).into() });
        let points = points.filter(|point| point.y.is_finite()).collect();
        Self { group: group.into(), function: function.into(), arguments, points }
    }
}

/// So many places from one to another, as far apart on a linear axis.
pub fn evenly((low, high): (f64, f64), count: usize) -> Vec<f64> {
    (0..count).map(|n| low + (high - low) * n as f64 / (count - 1) as f64).collect()
}

/// The same on a logarithmic axis.
pub fn by_ratio((low, high): (f64, f64), count: usize) -> Vec<f64> {
    evenly((low.ln(), high.ln()), count).into_iter().map(f64::exp).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_begins_at_the_models_value_which_its_steps_reach() {
        for value in [187.0, 207.37, 1_270_123.0, 0.93, 9.3e8] {
            let knob = Knob::around("a cost", "ns", value);
            let steps = (knob.value - knob.low) / knob.step;
            assert!((steps - steps.round()).abs() < 1e-6, "{knob:?}");
            assert!(knob.value == value && knob.low < value && value < knob.high, "{knob:?}");
        }
        let knob = Knob::around("a period", "µs", 207.37).within((20.0, 400.0), 1.0);
        assert!((knob.low - 20.37).abs() < 1e-9 && (knob.high - 399.37).abs() < 1e-9, "{knob:?}");
    }

    #[test]
    fn curve_has_the_values_at_the_first_parameters_and_none_where_there_is_none() {
        let knobs = [Knob::around("factor", "", 3.0)];
        let call = ("times", vec![Argument::Number(2.0), Argument::Knob(0)]);
        let times =
            |x: f64, given: &[f64]| if x < 50.0 { x * given[0] * given[1] } else { f64::NAN };
        let curve = Curve::over("a", call, &evenly((0.0, 100.0), 5), &knobs, times);
        let found: Vec<_> = curve.points.iter().map(|p| (p.x, p.y.value)).collect();
        assert_eq!(found, [(0.0, 0.0), (25.0, 150.0)]);
        let decades = by_ratio((1.0, 100.0), 3);
        assert!((decades[1] - 10.0).abs() < 1e-9 && decades.len() == 3, "{decades:?}");
    }
}
