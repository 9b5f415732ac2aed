//! Report and digest against each other: nothing that a paper shows is missing in silence.

use ferrule_report::{Kind, Plot, Report};
use ferrule_studies::inventory::Digest;

/// The numbers of the paper's tables and figures, and reports of the study, together with all
/// parts that it has.
pub fn inventory(name: &str, reports: &[&Report], tables: &[usize], figures: &[usize]) {
    let digest = Digest::of(name).expect("a study");
    for report in reports {
        assert_eq!(report.inventory, digest.inventory, "the report has the digest's list");
        assert!(report.leading().is_some(), "the figure {} that answers", report.lead);
        assert!(report.title.contains("eproduction of") && report.title.contains(&digest.title));
    }
    for table in reports.iter().flat_map(|report| report.tables()) {
        let mut words = table.columns().iter().filter(|column| column.kind() == Kind::Key);
        assert!(words.all(|column| !column.head().is_empty()), "{}: a column of what?", table.id);
    }
    for (what, numbers) in [("table", tables), ("figure", figures)] {
        for number in numbers {
            let place = format!("{what} {number}");
            let often = digest.inventory.iter().filter(|item| item.place == place).count();
            assert_eq!(often, 1, "{name}: {place}");
        }
    }
    let mut wrong = Vec::new();
    for item in &digest.inventory {
        let ways = [!item.shown.is_empty(), item.drawing, !item.waits.is_empty()];
        let place = format!("{name}, {}", item.place);
        assert_eq!(ways.iter().filter(|way| **way).count(), 1, "{place}: shown, drawing or waits");
        let mut kinds = Vec::new();
        for id in &item.shown {
            let found = reports.iter().flat_map(|report| intended(report, id)).collect::<Vec<_>>();
            assert!(!found.is_empty(), "{place}: there is no table or figure {id}");
            kinds.extend(found);
        }
        let results =
            [Kind::Fitted, Kind::Model, Kind::Live].into_iter().filter(|kind| kinds.contains(kind));
        let mut results: Vec<Kind> = results.collect();
        if results.is_empty() && kinds.contains(&Kind::Derived) {
            results.push(Kind::Derived);
        }
        if item.with != results {
            wrong.push(format!("{place}: with {:?}, not {results:?}", item.with));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Origins that a table or figure has or would have, had all of it been run.
fn intended(report: &Report, id: &str) -> Vec<Kind> {
    let columns = report.tables().filter(|table| table.id == id).flat_map(|table| table.columns());
    let drawn = report.figures().filter(|figure| figure.id == id);
    let drawn = drawn.flat_map(|figure| match &figure.plot {
        Plot::Xy(xy) => xy.series.iter().map(|series| series.kind()).collect(),
        Plot::Bars(bars) => vec![bars.kind()],
    });
    columns.map(|column| column.kind()).chain(drawn).collect()
}
