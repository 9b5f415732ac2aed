//! Tables and figures that several reports have.

use super::document::Circumstances;
use ferrule_report::{
    Axis, Column, Derived, Figure, Measure, Origin, Report, Section, Series, Shape, Table,
};
use ferrule_tester::delay::Latency;
use ferrule_tester::rate::{FCS, line_bits};
use ferrule_tester::search::soak;
use ferrule_tester::search::throughput::{Found, Limit};
use ferrule_tester::{Sizes, StreamResult};

/// A number of an origin.
pub fn number<K: Origin>(value: f64) -> K {
    K::from(Measure::new(value))
}

/// Frames a second of a load.
pub fn pps(load: u64) -> f64 {
    load as f64 / 1e3
}

/// Frames a second for people.
pub fn frames(rate: f64) -> String {
    match rate {
        r if r >= 1e6 => format!("{:.3} Mpps", r / 1e6),
        r if r >= 1e4 => format!("{:.1} kpps", r / 1e3),
        r => format!("{r:.0} pps"),
    }
}

/// Reason for which there is no throughput, in a few words.
pub fn none(found: &Found) -> &'static str {
    if found.limit == Limit::Silent { "none, for no frame was sent" } else { "none without loss" }
}

/// The share of a line that so many frames a second take, in percent.
pub fn share_of_line(rate: f64, sizes: &Sizes, line: u64) -> f64 {
    // A mix by its mean length, which is exact: overhead is the same for each.
    let bits = match sizes {
        Sizes::Fixed(size) => line_bits(size.saturating_sub(FCS)) as f64,
        _ => (sizes.mean() - FCS as f64 + 24.0) * 8.0,
    };
    100.0 * rate * bits / line as f64
}

/// The most frames a second that lines of this rate carry, for so many streams of each size
/// with a line of its own: the theoretical maximum that a throughput stands beside.
pub fn theoretical(rows: &[(&Sizes, usize)], line: Option<u64>) -> Column {
    let most = rows.iter().map(|&(sizes, streams)| {
        let line = line.ok_or("line not known")?;
        Ok::<_, &str>(number::<Derived>(streams as f64 * 100.0 / share_of_line(1.0, sizes, line)))
    });
    Column::results("theoretical", "frames/s", most).decimals(0)
}

/// A quantile in microseconds.
pub fn delays<K: Origin>(latency: Option<&Latency>, share: f64) -> Result<K, &'static str> {
    let nanos = latency.and_then(|l| l.quantile(share));
    nanos.map(|n| number(n as f64 / 1e3)).ok_or("none")
}

/// Minimum, quantiles and maximum, one row each.
pub fn latency_columns<K: Origin>(mut table: Table, rows: &[Latency]) -> Table {
    let micros = |n: Option<u64>| n.map(|n| number::<K>(n as f64 / 1e3)).ok_or("none");
    table = table
        .column(Column::results("min", "us", rows.iter().map(|l| micros(l.min()))).decimals(2));
    let shares = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];
    for (head, share) in shares {
        let cells = rows.iter().map(|l| micros(l.quantile(share)));
        table = table.column(Column::results(head, "us", cells).decimals(2));
    }
    table.column(Column::results("max", "us", rows.iter().map(|l| micros(l.max()))).decimals(2))
}

/// The share of frames that took no longer.
pub fn latency_figure<K: Origin>(title: &str, named: &[(String, Latency)]) -> Figure {
    let series = named.iter().map(|(name, latency)| {
        let buckets = latency.buckets().into_iter();
        Series::shares::<K>(name.clone(), buckets.map(|(nanos, n)| (nanos as f64 / 1e3, n)))
    });
    let axes = [Axis::new("latency", "us").log(), Axis::new("frames not above", "%").from_zero()];
    Figure::xy("latency", title, axes, series.collect())
        .caption("From the time at which frames should have left; steep and to the left is good.")
}

/// Counts of frames, one row for each stream.
fn counts<K: Origin>(id: &str, streams: &[StreamResult]) -> Table {
    let count = |f: fn(&StreamResult) -> u64| {
        streams.iter().map(|s| number::<K>(f(s) as f64)).collect::<Vec<_>>()
    };
    let mut table = Table::new(format!("streams-{id}"), "What became of the frames")
        .column(Column::words("stream", streams.iter().map(|s| s.name.clone())));
    type Count = fn(&StreamResult) -> u64;
    let columns: [(&str, Count); 9] = [
        ("offered", |s| s.offered),
        ("received", |s| s.received.frames),
        ("lost", StreamResult::lost),
        ("reordered", |s| s.received.reordered),
        ("duplicated", |s| s.received.duplicated),
        ("corrupted", |s| s.received.corrupted),
        ("too late", |s| s.received.stale),
        ("elsewhere", |s| s.elsewhere),
        ("not sent", |s| s.unsent),
    ];
    for (head, value) in columns {
        table = table.column(Column::numbers(head, "", count(value)).decimals(0));
    }
    table
        .column(Column::numbers("extent, max", "", count(|s| s.received.extents.max)).decimals(0))
        .note(
            "Received: each frame once, reordered ones among them. Extent: by how many places \
             (RFC 4737 section 4.2). Too late: too far behind to tell late from twice.",
        )
}

/// Section on a long trial.
pub fn summed<K: Origin>(title: &str, id: &str, found: &soak::Found) -> Section {
    let result = &found.result;
    let id: String = id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let streams = &result.streams;
    let latency = Table::new(format!("latency-{id}"), "Latency of the streams")
        .column(Column::words("stream", streams.iter().map(|s| s.name.clone())));
    let rows: Vec<Latency> = streams.iter().map(|s| s.received.latency.clone()).collect();
    let latency = latency_columns::<K>(latency, &rows)
        .column(
            Column::results(
                "IPDV mean",
                "us",
                streams.iter().map(|s| {
                    s.received.jitter.ipdv_mean().map(|n| number::<K>(n / 1e3)).ok_or("none")
                }),
            )
            .decimals(2),
        )
        .column(
            Column::numbers(
                "left late, max",
                "us",
                streams.iter().map(|s| number::<K>(s.lateness.max as f64 / 1e3)),
            )
            .decimals(1),
        );
    let secs = found.part.as_secs_f64();
    let over = |f: fn(&ferrule_tester::sink::Interval) -> f64| {
        result.intervals.iter().enumerate().map(move |(i, p)| (i as f64 * secs, number::<K>(f(p))))
    };
    let lost =
        Series::new("lost", Shape::Step, over(|p| p.offered.saturating_sub(p.received) as f64));
    let slow = Series::new("largest latency", Shape::Step, over(|p| p.latency_max as f64 / 1e3));
    let axes = |y| [Axis::new("time", "s").from_zero(), y];
    let mut named: Vec<_> =
        streams.iter().map(|s| (s.name.clone(), s.received.latency.clone())).collect();
    named.truncate(8);
    let mut distribution = latency_figure::<K>("Latency", &named);
    distribution.id = format!("latency-distribution-{id}");
    Section::new(title)
        .table(counts::<K>(&id, streams))
        .table(latency)
        .figure(distribution)
        .figure(Figure::xy(
            format!("lost-{id}"),
            "Frames lost over time",
            axes(Axis::new("lost", "frames").from_zero()),
            vec![lost],
        ))
        .figure(Figure::xy(
            format!("slowest-{id}"),
            "Largest latency over time",
            axes(Axis::new("latency", "us").from_zero()),
            vec![slow],
        ))
}

/// Streams of a plan.
pub fn streams<K: Origin>(how: &Circumstances, found: &soak::Found, plan: &str) -> Report {
    let result = &found.result;
    let (offered, received) = (result.offered(), result.received());
    let mut answer = format!("{received} of {offered} frames arrived");
    let mut add = |count: u64, what: &str| {
        if count > 0 {
            answer += &format!(", {count} {what}");
        }
    };
    add(result.lost(), "were lost");
    let sum = |f: fn(&StreamResult) -> u64| result.streams.iter().map(f).sum::<u64>();
    add(sum(|s| s.received.reordered), "came out of order");
    add(sum(|s| s.received.duplicated), "came again");
    add(sum(|s| s.received.corrupted), "were damaged");
    add(result.unsent(), "could not be sent");
    answer.push('.');
    if result.intended() == 0 {
        answer = "No frame was sent.".into();
    }
    let question = format!("What becomes of the streams of {plan}?");
    let mut report = how.report("Streams", &question, answer);
    report.sections.push(summed::<K>("Streams", "plan", found));
    report.sections.push(how.section(&[]));
    report
}
