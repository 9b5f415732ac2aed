//! Residuals of a fit, value by value.
//!
//! ```text
//!   a printed value ─┬─ fit to all ───────────────▶ fitted      as it was made to be
//!                    └─ fit to all others, anew ──▶ predicted   by a fit that never saw it
//! ```

use ferrule_report::{Asserted, Column, Derived, Fitted, Measure, Model, Published, Table};

/// A printed value, and what fits with and without it give.
#[derive(Clone, Debug)]
pub struct Residual {
    /// The value's place in the print.
    pub of: String,
    /// Its unit.
    pub unit: &'static str,
    /// The value, or the range that was printed for it.
    pub printed: Measure,
    /// True if the study states it without having measured it.
    pub asserted: bool,
    /// Value by the fit to all, or the reason why the fit leaves it out.
    pub fitted: Result<f64, &'static str>,
    /// Value by a fit to all others, or the reason why there is no such fit.
    pub predicted: Result<f64, &'static str>,
}

impl Residual {
    /// Deviation of the fitted value, in percent.
    pub fn fitted_off(&self) -> Option<f64> {
        self.fitted.ok().map(|found| off(found, self.printed))
    }

    /// Deviation of the predicted value, in percent.
    pub fn predicted_off(&self) -> Option<f64> {
        self.predicted.ok().map(|found| off(found, self.printed))
    }
}

/// Deviation from a printed value in percent; from a range, that from its nearer end, and none
/// within it.
pub fn off(found: f64, printed: Measure) -> f64 {
    let Measure { value, low, high } = printed;
    let nearest = found.clamp(low.unwrap_or(value), high.unwrap_or(value));
    100.0 * (found / nearest - 1.0)
}

/// The largest deviation, whatever its sign, in percent.
pub fn worst(all: &[Residual], of: fn(&Residual) -> Option<f64>) -> f64 {
    all.iter().filter_map(of).map(f64::abs).fold(0.0, f64::max)
}

/// The table of a fit's residuals.
pub fn table(id: &str, title: &str, all: &[Residual]) -> Table {
    let printed = |asserted: bool| {
        let missing = if asserted { "measured" } else { "not measured" };
        all.iter().map(move |r| if r.asserted == asserted { Ok(r.printed) } else { Err(missing) })
    };
    let derived = |of: fn(&Residual) -> Result<f64, &'static str>| {
        let off = all.iter().map(|r| of(r).map(|found| Derived::from(off(found, r.printed))));
        off.collect::<Vec<_>>()
    };
    let mut table = Table::new(id, title)
        .column(Column::words("value", all.iter().map(|r| r.of.as_str())))
        .column(Column::words("unit", all.iter().map(|r| r.unit)))
        .column(Column::results("value", "", printed(false).map(|v| v.map(Published::from))));
    if all.iter().any(|r| r.asserted) {
        let values = printed(true).map(|v| v.map(Asserted::from));
        table = table.column(Column::results("value", "", values));
    }
    table
        .column(Column::results("fit to all", "", all.iter().map(|r| r.fitted.map(Fitted::from))))
        .column(Column::results("off by", "%", derived(|r| r.fitted)).decimals(1))
        .column(Column::results(
            "by the others",
            "",
            all.iter().map(|r| r.predicted.map(Model::from)),
        ))
        .column(Column::results("off by", "%", derived(|r| r.predicted)).decimals(1))
        .note(
            "By the others: the whole fit is made anew without this value, and then asked for it.",
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviation_from_a_range_is_that_from_its_nearer_end() {
        let range = Measure::within(3.5, 3.0, 4.0);
        assert_eq!([3.0, 3.2, 4.0].map(|found| off(found, range)), [0.0; 3]);
        assert!((off(6.0, range) - 50.0).abs() < 1e-9);
        assert!((off(1.5, range) + 50.0).abs() < 1e-9);
        assert!((off(6.0, Measure::new(8.0)) + 25.0).abs() < 1e-9);
    }

    #[test]
    fn table_keeps_asserted_values_apart_from_published_ones() {
        let residual = |asserted| Residual {
            of: "a share".into(),
            unit: "%",
            printed: Measure::new(20.0),
            asserted,
            fitted: Ok(20.0),
            predicted: Err("nothing else to fit to"),
        };
        let kinds = |all: &[Residual]| {
            let table = table("residuals", "Residuals", all);
            table.columns().iter().map(|column| column.kind().name()).collect::<Vec<_>>()
        };
        let plain = ["", "", "published", "fitted", "derived", "model", "derived"];
        assert_eq!(kinds(&[residual(false)]), plain);
        let both = ["", "", "published", "asserted", "fitted", "derived", "model", "derived"];
        assert_eq!(kinds(&[residual(false), residual(true)]), both);
    }
}
