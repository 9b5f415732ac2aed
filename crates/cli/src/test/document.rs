//! Answers as reports: what was asked, the answer in a sentence, table, figure,
//! and how it was measured.

use super::searches::{Bridged, Mlr};
use super::tables::{
    delays, frames, latency_columns, latency_figure, none, number, pps, share_of_line, summed,
    theoretical,
};
use crate::machine;
use ferrule_report::{
    Axis, Column, Derived, Figure, Measure, Origin, Report, Section, Series, Shape, Table,
};
use ferrule_tester::delay::Latency;
use ferrule_tester::search::bridge::{Cached, Errored};
use ferrule_tester::search::throughput::{Found, Limit};
use ferrule_tester::search::{Measured, back_to_back, latency, mlrsearch, mpls, soak};
use ferrule_tester::{About, Sizes, Summary, Timing};

/// Circumstances of a measurement.
pub struct Circumstances {
    /// The bench.
    pub about: About,
    /// A trial.
    pub timing: Timing,
    /// Streams at once.
    pub streams: usize,
    /// Threads of the tester.
    pub threads: u8,
    /// A first look.
    pub quick: bool,
    /// Fragments that were seen, by frame size.
    pub cut: Vec<(String, u64)>,
}

impl Circumstances {
    /// A report that says where it comes from and how to get it again.
    pub fn report(&self, title: &str, question: &str, answer: String) -> Report {
        let mut report = Report::new(title, question);
        report.answer = answer;
        if self.quick {
            report.title += ", a first look";
            report.answer +=
                " A first look (`--quick`): not the trials that the standard asks for.";
        }
        if !self.cut.is_empty() {
            report.answer += " Frames had to be fragmented: see how it was measured.";
        }
        report.device.clone_from(&self.about.device);
        report.program = machine::program();
        report.machine = machine::describe();
        report.command = machine::command();
        report.date = machine::date();
        report
    }

    /// Section on the circumstances, at the end of every report.
    pub fn section(&self, more: &[&str]) -> Section {
        let t = &self.timing;
        let line = match self.about.line {
            Some(line) => format!("lines of {} Gbit/s", line as f64 / 1e9),
            None => "lines whose rate is not known".into(),
        };
        let streams = if self.streams == 1 { "one stream" } else { "streams both ways" };
        let mut list = Vec::new();
        if self.quick {
            list.push(format!(
                "A first look (`--quick`): short trials, few repeats, coarse bounds. What is found is \
                 no measurement in the sense of {STANDARDS}."
            ));
        }
        let cut = self.cut.iter().map(|(size, fragments)| {
            format!(
                "Frames of {size} octets had to be fragmented: {fragments} fragments of IP packets \
                 were seen on {}. Rates are of whole frames; the path's MTU is too small for them.",
                if self.about.is_virtual { "all links together" } else { "the tester's ports" }
            )
        });
        list.extend(cut.chain(self.about.notes.iter().cloned()));
        list.extend([
            format!("Measured was: {}. By {}.", self.about.device, machine::program()),
            format!(
                "Ports {}; {line}; {streams}; tester threads: {}.",
                self.about.ports.join(", "),
                self.threads
            ),
            format!(
                "Trials of {:?} after {:?} of warm-up; late frames are waited for up to {:?}.",
                t.duration, t.warm_up, t.drain
            ),
            "Frame sizes are Ethernet frames with FCS (RFC 2544 section 9).".into(),
            format!(
                "Latency is from the time at which a frame should have left to the time at which \
                 the receiving port handed it over, by {}. The tester's own ports are part of it.",
                self.about.clock
            ),
        ]);
        list.extend(more.iter().map(|&s| s.into()));
        Section::new("How it was measured").list(list)
    }
}

/// Standards whose trials a first look does not make.
const STANDARDS: &str = "RFC 2544, 2889, 5695 or 9971";

/// A median with its interval where there are repeats enough, else with the mean's.
fn repeated<K: Origin>(values: &[f64]) -> Result<K, &'static str> {
    let summary = Summary::of(values).ok_or("none")?;
    let bounds = summary.median_95.or(summary.mean_95);
    Ok(K::from(match bounds {
        Some((low, high)) => Measure::within(summary.median, low, high),
        None => Measure::new(summary.median),
    }))
}

fn limit_words(found: &Found) -> &'static str {
    match found.limit {
        Limit::Device => "frames lost above",
        Limit::Range => "highest load tried",
        Limit::Tester => "the tester: more could not be sent",
        Limit::Silent => "no frame was sent: trials are too short",
        Limit::Stopped => "stopped: at least this",
    }
}

/// The results of one size with their streams' loads added up.
fn loads(found: &[Found], streams: usize) -> Vec<f64> {
    found.iter().filter_map(|f| f.load).map(|l| pps(l) * streams as f64).collect()
}

/// RFC 2544 section 26.1.
pub fn throughput<K: Origin>(
    how: &Circumstances,
    found: &[(Sizes, Vec<Found>)],
    line: Option<u64>,
) -> Report {
    let all: Vec<Vec<f64>> = found.iter().map(|f| loads(&f.1, how.streams)).collect();
    let best = |i: usize| Summary::of(&all[i]).map_or(0.0, |s| s.median);
    let words: Vec<String> = found
        .iter()
        .enumerate()
        .map(|(i, f)| match all[i].is_empty() {
            true => format!("{} at {}", f.1.last().map_or("none", none), f.0),
            false => format!("{} at {}", frames(best(i)), f.0),
        })
        .collect();
    let answer = format!("Throughput, frames a second without loss: {}.", words.join(", "));
    let question =
        "Which load does the device carry without losing a frame (RFC 2544 section 26.1)?";
    let mut report = how.report("Throughput", question, answer);
    let last = found.iter().map(|f| f.1.iter().rev().find_map(|f| f.result.as_ref()));
    let latency: Vec<_> = last.map(|r| r.map(|r| r.latency())).collect();
    let table = throughput_table::<K>(found, &all, &latency, line.map(|l| (l, how.streams)));
    let mut section = Section::new("Result").table(table);
    let points: Vec<_> = found
        .iter()
        .enumerate()
        .filter(|(i, _)| !all[*i].is_empty())
        .map(|(i, f)| (f.0.mean(), number::<K>(best(i))))
        .collect();
    if points.len() > 1 {
        let axes = [Axis::new("frame", "octets"), Axis::new("throughput", "frames/s").from_zero()];
        let series = Series::new("throughput", Shape::Line, points);
        section = section.figure(Figure::xy(
            "throughput",
            "Throughput over frame size",
            axes,
            vec![series],
        ));
    }
    let histograms =
        found.iter().zip(&latency).filter_map(|(f, l)| Some((f.0.to_string(), l.clone()?)));
    let histograms: Vec<_> = histograms.collect();
    section = section.figure(latency_figure::<K>("Latency at the throughput", &histograms));
    report.sections.push(section);
    report.sections.push(how.section(&[
        "A load passes if every frame was sent and arrived whole; loads are bisected. With repeats \
         the median stands with its 95 % interval by order statistics (below six: mean's by Student's t).",
    ]));
    report
}

/// Throughput with its rate, its share of the line and its latency.
fn throughput_table<K: Origin>(
    found: &[(Sizes, Vec<Found>)],
    all: &[Vec<f64>],
    latency: &[Option<Latency>],
    line: Option<(u64, usize)>,
) -> Table {
    let best = |i: usize| Summary::of(&all[i]).map_or(0.0, |s| s.median);
    let mut table = Table::new("throughput", "Throughput by frame size")
        .column(Column::words("frame", found.iter().map(|f| f.0.to_string())))
        .column(
            Column::results("throughput", "frames/s", all.iter().map(|v| repeated::<K>(v)))
                .decimals(0),
        )
        .column(
            Column::results(
                "rate",
                "Mbit/s",
                found.iter().enumerate().map(|(i, f)| {
                    let rate = best(i) * f.0.mean() * 8.0 / 1e6;
                    if all[i].is_empty() { Err("none") } else { Ok(number::<Derived>(rate)) }
                }),
            )
            .decimals(1),
        );
    let sizes: Vec<(&Sizes, usize)> =
        found.iter().map(|f| (&f.0, line.map_or(1, |(_, streams)| streams))).collect();
    table = table.column(theoretical(&sizes, line.map(|(line, _)| line)));
    if let Some((line, streams)) = line {
        let share = |(i, f): (usize, &(Sizes, _))| {
            number(share_of_line(best(i) / streams as f64, &f.0, line))
        };
        table = table.column(
            Column::numbers::<Derived>("line", "%", found.iter().enumerate().map(share))
                .decimals(1),
        );
    }
    for (head, share) in [("p50", 0.5), ("p99", 0.99)] {
        let cells = latency.iter().map(|l| {
            l.as_ref()
                .and_then(|l| l.quantile(share))
                .map(|n| number::<K>(n as f64 / 1e3))
                .ok_or("none")
        });
        table = table.column(Column::results(head, "us", cells).decimals(1));
    }
    table
        .column(Column::findings::<K>(
            "limit",
            found.iter().map(|f| f.1.last().map_or("", limit_words)),
        ))
        .note("Theoretical: what the lines carry of such frames. p50 and p99: latency in the trial at the throughput.")
}

/// The median of each size, and the sizes of which no frame arrived.
fn latency_words(good: &[(&Sizes, &latency::Found)]) -> String {
    if good.is_empty() {
        return "No load is carried without loss, so there is no latency at throughput.".into();
    }
    let of = |found: &latency::Found, s| found.latency.quantile(s).map(|n| n as f64 / 1e3);
    let at = |size, found: &latency::Found| format!("{size} at {}", frames(pps(found.load)));
    let (mut medians, mut missing) = (Vec::new(), Vec::new());
    for &(size, found) in good {
        match of(found, 0.5).zip(of(found, 0.99)) {
            Some((p50, p99)) => {
                medians.push(format!("{p50:.1} us (p99 {p99:.1}) for {}", at(size, found)));
            }
            None if found.offered == 0 => {
                missing.push(format!("none sent for {}", at(size, found)))
            }
            None => missing.push(format!("all {} lost for {}", found.offered, at(size, found))),
        }
    }
    let mut said = Vec::new();
    if !medians.is_empty() {
        said.push(format!("Median latency: {}.", medians.join("; ")));
    }
    if !missing.is_empty() {
        said.push(format!("No frame arrived, so there is no latency: {}.", missing.join("; ")));
    }
    said.join(" ")
}

/// RFC 2544 section 26.2.
pub fn latency<K: Origin>(
    how: &Circumstances,
    found: &[(Sizes, Option<latency::Found>)],
) -> Report {
    let good: Vec<(&Sizes, &latency::Found)> =
        found.iter().filter_map(|f| Some((&f.0, f.1.as_ref()?))).collect();
    let mut report = how.report(
        "Latency",
        "How long do frames take through the device (RFC 2544 section 26.2)?",
        latency_words(&good),
    );
    let mut table = Table::new("latency", "Latency by frame size")
        .column(Column::words("frame", good.iter().map(|f| f.0.to_string())))
        .column(
            Column::settings("load", "frames/s", good.iter().map(|f| pps(f.1.load))).decimals(0),
        );
    let mean = good.iter().map(|f| {
        f.1.means
            .as_ref()
            .map(|s| {
                let bounds = s.mean_95.map(|(l, h)| (l / 1e3, h / 1e3));
                let value = s.mean / 1e3;
                K::from(bounds.map_or(Measure::new(value), |(l, h)| Measure::within(value, l, h)))
            })
            .ok_or("none")
    });
    table = table.column(Column::results("mean", "us", mean).decimals(2));
    let latencies: Vec<_> = good.iter().map(|f| f.1.latency.clone()).collect();
    table = latency_columns::<K>(table, &latencies);
    table = table.note("The mean stands with its 95 % interval over the repeats (Student's t).");
    let beside = variation::<K>(&good);
    let named: Vec<_> = good.iter().map(|f| (f.0.to_string(), f.1.latency.clone())).collect();
    let figure = latency_figure::<K>("Latency", &named);
    report.sections.push(Section::new("Result").table(table).table(beside).figure(figure));
    report
        .sections
        .push(how.section(&["Every frame of every repeat is measured, not one of each trial."]));
    report
}

/// Jitter, counts, and how late the tester was.
fn variation<K: Origin>(good: &[(&Sizes, &latency::Found)]) -> Table {
    let beside = Table::new("variation", "Variation, loss, and the tester itself")
        .column(Column::words("frame", good.iter().map(|f| f.0.to_string())))
        .column(
            Column::results(
                "IPDV mean",
                "us",
                good.iter().map(|f| {
                    f.1.jitter
                        .first()
                        .and_then(|j| j.1.ipdv_mean())
                        .map(|n| number::<K>(n / 1e3))
                        .ok_or("none")
                }),
            )
            .decimals(2),
        )
        .column(
            Column::numbers(
                "RFC 3550",
                "us",
                good.iter().map(|f| {
                    number::<K>(f.1.jitter.first().map_or(0, |j| j.1.rfc3550()) as f64 / 1e3)
                }),
            )
            .decimals(2),
        )
        .column(
            Column::numbers(
                "offered",
                "frames",
                good.iter().map(|f| number::<K>(f.1.offered as f64)),
            )
            .decimals(0),
        )
        .column(
            Column::numbers(
                "received",
                "frames",
                good.iter().map(|f| number::<K>(f.1.received as f64)),
            )
            .decimals(0),
        );
    beside
        .column(Column::numbers("left late, mean", "us", good.iter().map(|f| number::<K>(f.1.lateness.mean() / 1e3))).decimals(2))
        .column(Column::numbers("left late, max", "us", good.iter().map(|f| number::<K>(f.1.lateness.max as f64 / 1e3))).decimals(1))
        .note("IPDV: RFC 3393, without sign, first stream, last repeat. Left late: how far behind its schedule the tester sent; it is part of the latency.")
}

/// Frames lost out of those sent, in percent; nothing if none was sent.
fn lost_share(measured: &Measured) -> Option<f64> {
    let (lost, offered) = (measured.lost as f64, measured.offered as f64);
    (measured.offered > 0).then(|| 100.0 * lost / offered)
}

/// A curve as table and series: loss in percent over load.
fn curve<K: Origin>(id: &str, title: &str, curves: &[(String, &[Measured])]) -> (Table, Figure) {
    let rows: Vec<(&str, &Measured)> =
        curves.iter().flat_map(|(n, c)| c.iter().map(move |m| (n.as_str(), m))).collect();
    let count = |f: fn(&Measured) -> u64| {
        rows.iter().map(|r| number::<K>(f(r.1) as f64)).collect::<Vec<_>>()
    };
    let table = Table::new(id, title)
        .column(Column::words("frame", rows.iter().map(|r| r.0)))
        .column(Column::settings("load", "frames/s", rows.iter().map(|r| pps(r.1.load))).decimals(0))
        .column(Column::numbers("offered", "frames", count(|m| m.offered)).decimals(0))
        .column(Column::numbers("received", "frames", count(|m| m.received)).decimals(0))
        .column(Column::numbers("lost", "frames", count(|m| m.lost)).decimals(0))
        .column(Column::numbers("not sent", "frames", count(|m| m.unsent)).decimals(0))
        .column(Column::results("loss", "%", rows.iter().map(|r| {
            lost_share(r.1).map(number::<K>).ok_or("no frame sent")
        })).decimals(3))
        .note("Not sent: frames that the tester could not send in time; they are neither offered nor lost.");
    let series = curves.iter().map(|(name, curve)| {
        let points = curve.iter().filter_map(|m| Some((pps(m.load), number::<K>(lost_share(m)?))));
        Series::new(name.clone(), Shape::Line, points)
    });
    let axes = [Axis::new("load", "frames/s").from_zero(), Axis::new("loss", "%").from_zero()];
    (table, Figure::xy(id, title, axes, series.collect()))
}

/// RFC 2544 section 26.3.
pub fn loss<K: Origin>(how: &Circumstances, found: &[(Sizes, Vec<Measured>)]) -> Report {
    let words = found.iter().map(|(size, curve)| {
        let Some(top) = curve.first().filter(|m| !m.is_silent()) else {
            return format!("not known, for no frame was sent ({size})");
        };
        let top = 100.0 * top.loss_ratio();
        let clean = curve.iter().find(|m| m.passes()).map(|m| frames(pps(m.load)));
        let clean = clean.map_or("at no load without".into(), |c| format!("without at {c}"));
        format!("{top:.2} % at the highest load, {clean} ({size})")
    });
    let answer = format!("Loss: {}.", words.collect::<Vec<_>>().join("; "));
    let mut report = how.report(
        "Frame loss rate",
        "How much is lost at each load (RFC 2544 section 26.3)?",
        answer,
    );
    let curves: Vec<_> = found.iter().map(|(s, c)| (s.to_string(), c.as_slice())).collect();
    let (table, figure) = curve::<K>("loss", "Loss over load", &curves);
    report.sections.push(Section::new("Result").figure(figure).table(table));
    report
        .sections
        .push(how.section(&["Loads go down from the highest until two in a row lose nothing."]));
    report
}

/// RFC 2544 section 26.4 and RFC 9004.
pub fn back_to_back<K: Origin>(
    how: &Circumstances,
    found: &[(Sizes, back_to_back::Found)],
) -> Report {
    let mean = |f: &back_to_back::Found| f.summary.as_ref().map_or(0.0, |s| s.mean);
    let words = found.iter().map(|(size, f)| {
        let more = if f.at_limit { " or more" } else { "" };
        format!("{:.0} frames{more} of {size}", mean(f))
    });
    let answer = format!("Longest burst without loss: {}.", words.collect::<Vec<_>>().join(", "));
    let mut report = how.report(
        "Back-to-back frames",
        "How long a burst at line rate passes whole (RFC 2544 section 26.4, RFC 9004)?",
        answer,
    );
    let table = Table::new("back-to-back", "Bursts by frame size")
        .column(Column::words("frame", found.iter().map(|f| f.0.to_string())))
        .column(Column::settings("rate of burst", "frames/s", found.iter().map(|f| pps(f.1.load))).decimals(0))
        .column(Column::results("burst", "frames", found.iter().map(|f| {
            f.1.summary.as_ref().map(|s| K::from(match s.mean_95 {
                Some((low, high)) => Measure::within(s.mean, low, high),
                None => Measure::new(s.mean),
            })).ok_or("none")
        })).decimals(1))
        .column(Column::numbers("shortest", "frames", found.iter().map(|f| number::<K>(f.1.summary.as_ref().map_or(0.0, |s| s.min)))).decimals(0))
        .column(Column::numbers("longest", "frames", found.iter().map(|f| number::<K>(f.1.summary.as_ref().map_or(0.0, |s| s.max)))).decimals(0))
        .column(Column::numbers::<Derived>("held for", "us", found.iter().map(|f| number(f.1.buffer_secs * 1e6))).decimals(1))
        .column(Column::results("corrected", "us", found.iter().map(|f| {
            f.1.buffer_corrected_secs.map(|s| number::<Derived>(s * 1e6)).ok_or("no --throughput")
        })).decimals(1))
        .note("Mean over the repeats with its 95 % interval (Student's t). Corrected: less what was forwarded meanwhile (RFC 9004 section 6.4).");
    let bursts = found.iter().map(|(size, f)| {
        let points = f.bursts.iter().enumerate();
        let points = points.map(|(i, &b)| ((i + 1) as f64, number::<K>(b as f64)));
        Series::new(size.to_string(), Shape::Points, points.collect::<Vec<_>>())
    });
    let axes = [Axis::new("repeat", ""), Axis::new("burst", "frames").from_zero()];
    let figure = Figure::xy("bursts", "The longest burst of each repeat", axes, bursts.collect());
    report.sections.push(Section::new("Result").table(table).figure(figure));
    report.sections.push(how.section(&[]));
    report
}

/// RFC 9971.
pub fn mlrsearch<K: Origin>(
    how: &Circumstances,
    found: &[(Sizes, Mlr)],
    line: Option<u64>,
) -> Report {
    let rows: Vec<(&Sizes, &mlrsearch::Found)> =
        found.iter().flat_map(|(s, f)| f.found.iter().map(move |f| (s, f))).collect();
    let streams = how.streams as f64;
    let words = rows.iter().map(|(size, f)| {
        let goal = 100.0 * f.goal.loss_ratio;
        match f.conditional {
            Some(rate) => format!("{} at {goal} % ({size})", frames(rate / 1e3 * streams)),
            None => format!("none at {goal} % ({size})"),
        }
    });
    let answer = format!("Conditional throughput: {}.", words.collect::<Vec<_>>().join(", "));
    let mut report =
        how.report("MLRsearch", "Which load keeps each loss ratio (RFC 9971)?", answer);
    let whole = found.iter().all(|(_, found)| found.is_whole);
    let none = if whole { "irregular" } else { "not known yet" };
    let above = if whole { "none up to the highest" } else { "not known yet" };
    let bound = |f: fn(&mlrsearch::Found) -> Option<u64>, why: &'static str| {
        rows.iter().map(move |r| f(r.1).map(|l| number::<K>(pps(l))).ok_or(why)).collect::<Vec<_>>()
    };
    let table = Table::new("mlrsearch", "Loads of each stream by goal")
        .column(Column::words("frame", rows.iter().map(|r| r.0.to_string())))
        .column(Column::settings(
            "loss ratio",
            "%",
            rows.iter().map(|r| 100.0 * r.1.goal.loss_ratio),
        ))
        .column(Column::results("lower bound", "frames/s", bound(|f| f.lower, none)).decimals(0))
        .column(Column::results("upper bound", "frames/s", bound(|f| f.upper, above)).decimals(0))
        .column(
            Column::results(
                "conditional throughput",
                "frames/s",
                rows.iter().map(|r| r.1.conditional.map(|c| number::<K>(c / 1e3)).ok_or(none)),
            )
            .decimals(0),
        )
        .column(theoretical(&rows.iter().map(|r| (r.0, 1)).collect::<Vec<_>>(), line));
    let goal = rows.first().map(|r| r.1.goal);
    let how_long = goal.map_or(String::new(), |g| {
        format!(
            "Trials grow from {:?} to {:?}; {:?} of full trials decide, of which {} % may exceed the ratio; bounds end within {} %.",
            g.initial, g.last, g.sum, 100.0 * g.exceed_ratio, 100.0 * g.width
        )
    });
    let tried = found.iter().map(|(size, found)| {
        let points =
            found.trials.iter().map(|m| (pps(m.load), number::<K>(100.0 * m.loss_ratio())));
        Series::new(size.to_string(), Shape::Points, points.collect::<Vec<_>>())
    });
    let axes = [Axis::new("load", "frames/s").from_zero(), Axis::new("loss", "%").from_zero()];
    let figure = Figure::xy("trials", "Every trial: loss over load", axes, tried.collect())
        .caption("What could not be sent counts as lost.");
    report.sections.push(Section::new("Result").table(table).figure(figure));
    report.sections.push(how.section(&[&how_long]));
    report
}

/// Results for a bridge's addresses: capacity, tries, addresses of the rate, rate.
pub type Addressed = (u64, Vec<Cached>, u64, Option<u64>);

/// RFC 2889.
pub fn bridge<K: Origin>(
    how: &Circumstances,
    found: &[(Sizes, Bridged)],
    errored: &[Errored],
    cached: Option<&Addressed>,
    line: Option<u64>,
) -> Report {
    let words: Vec<_> = found
        .iter()
        .map(|(size, f)| match f.throughput.load {
            Some(load) => format!("{} both ways at {size}", frames(2.0 * pps(load))),
            None => format!("{} at {size}", none(&f.throughput)),
        })
        .collect();
    let bad: u64 = errored.iter().map(|e| e.forwarded).sum();
    let was_sent = errored.iter().any(|e| e.offered.is_some_and(|offered| offered > 0));
    let filter = match bad {
        0 if errored.is_empty() || was_sent => "errored frames are filtered",
        0 => "no errored frame was sent",
        _ => "errored frames are forwarded",
    };
    let answer = format!("Throughput {}; {filter}.", words.join(", "));
    let mut report = how.report("Bridge", "How well does the device bridge (RFC 2889)?", answer);
    let load = |f: &Found| f.load.map(|l| number::<K>(pps(l) * 2.0)).ok_or("none");
    let table = Table::new("forwarding", "Forwarding (RFC 2889 sections 5.1, 5.6, 5.10)")
        .column(Column::words("frame", found.iter().map(|f| f.0.to_string())))
        .column(Column::results("throughput", "frames/s", found.iter().map(|f| load(&f.1.throughput))).decimals(0))
        .column(theoretical(&found.iter().map(|f| (&f.0, 2)).collect::<Vec<_>>(), line))
        .column(Column::numbers("at highest load", "frames/s", found.iter().map(|f| number::<K>(f.1.forwarding.at_maximum))).decimals(0))
        .column(Column::numbers("highest", "frames/s", found.iter().map(|f| number::<K>(f.1.forwarding.maximum.0))).decimals(0))
        .column(Column::results("broadcast", "frames/s", found.iter().map(|f| f.1.broadcast.load.map(|l| number::<K>(pps(l))).ok_or("none"))).decimals(0))
        .note("Both ways together, broadcast one way. Forwarding rates: frames that arrived a second, at the highest load and at the load where most did.");
    let curves: Vec<_> =
        found.iter().map(|(s, f)| (s.to_string(), f.forwarding.curve.as_slice())).collect();
    let (loss_table, figure) = curve::<K>("forwarding-load", "Loss over load, both ways", &curves);
    let errors = Table::new("errored", "Errored frames (RFC 2889 section 5.9)")
        .column(Column::words("fault", errored.iter().map(|e| e.kind)))
        .column(Column::settings("size", "octets", errored.iter().map(|e| e.size as f64)))
        .column(
            Column::results(
                "sent",
                "frames",
                errored.iter().map(|e| {
                    e.offered.map(|o| number::<K>(o as f64)).ok_or("these ports cannot send it")
                }),
            )
            .decimals(0),
        )
        .column(
            Column::numbers(
                "forwarded",
                "frames",
                errored.iter().map(|e| number::<K>(e.forwarded as f64)),
            )
            .decimals(0),
        );
    report.sections.push(Section::new("Forwarding").table(table).figure(figure).table(loss_table));
    report.sections.push(Section::new("Errored frames").table(errors));
    report.sections.push(match cached {
        None => Section::new("Addresses")
            .text("Not run: caching capacity and learning rate need a third port (`--monitor`)."),
        Some(cached) => addresses::<K>(cached),
    });
    report.sections.push(how.section(&[]));
    report
}

fn addresses<K: Origin>((capacity, tries, some, rate): &Addressed) -> Section {
    let most = tries.iter().map(|t| t.addresses).max().unwrap_or(0);
    let more = if *capacity == most { " or more (all that were tried)" } else { "" };
    let rate =
        rate.map_or("not found".into(), |r| format!("{} of learning frames", frames(r as f64)));
    let table = Table::new("caching", "Address caching capacity (RFC 2889 section 5.7)")
        .column(Column::settings("addresses", "", tries.iter().map(|t| t.addresses as f64)))
        .column(
            Column::numbers(
                "flooded",
                "frames",
                tries.iter().map(|t| number::<K>(t.flooded as f64)),
            )
            .decimals(0),
        )
        .column(
            Column::numbers("lost", "frames", tries.iter().map(|t| number::<K>(t.lost as f64)))
                .decimals(0),
        );
    Section::new("Addresses")
        .text(format!("Capacity: {capacity} addresses{more}. Learning rate over {some} addresses (section 5.8): {rate}."))
        .table(table)
}

/// Throughput and delay of each operation of RFC 5695 at each size.
fn operations<K: Origin>(rows: &[(&Sizes, &mpls::Found)], line: Option<u64>) -> Table {
    Table::new("mpls", "Operations by frame size")
        .column(Column::words("operation", rows.iter().map(|r| r.1.operation.name())))
        .column(Column::words("frame", rows.iter().map(|r| r.0.to_string())))
        .column(
            Column::results(
                "throughput",
                "frames/s",
                rows.iter().map(|r| r.1.throughput.load.map(|l| number::<K>(pps(l))).ok_or("none")),
            )
            .decimals(0),
        )
        .column(theoretical(&rows.iter().map(|r| (r.0, 1)).collect::<Vec<_>>(), line))
        .column(
            Column::results(
                "p50",
                "us",
                rows.iter().map(|r| delays::<K>(r.1.latency.as_ref().map(|l| &l.latency), 0.5)),
            )
            .decimals(1),
        )
        .column(
            Column::results(
                "p99",
                "us",
                rows.iter().map(|r| delays::<K>(r.1.latency.as_ref().map(|l| &l.latency), 0.99)),
            )
            .decimals(1),
        )
        .column(
            Column::numbers(
                "wrong labels",
                "frames",
                rows.iter().map(|r| number::<K>(r.1.misencapsulated as f64)),
            )
            .decimals(0),
        )
        .note("Sizes are of the frames that are sent (RFC 5695 section 4.1.5).")
}

/// RFC 5695.
pub fn mpls<K: Origin>(
    how: &Circumstances,
    found: &[(Sizes, Vec<mpls::Found>)],
    line: Option<u64>,
) -> Report {
    let rows: Vec<(&Sizes, &mpls::Found)> =
        found.iter().flat_map(|(s, f)| f.iter().map(move |f| (s, f))).collect();
    let words: Vec<_> = rows
        .iter()
        .map(|(size, f)| {
            let load = f.throughput.load.map_or("none".into(), |l| frames(pps(l)));
            format!("{} {load} ({size})", f.operation.name())
        })
        .collect();
    let wrong: u64 = rows.iter().map(|r| r.1.misencapsulated).sum();
    let labels = if wrong == 0 { "labels are right" } else { "LABELS ARE WRONG" };
    let answer = format!("Throughput: {}; {labels}.", words.join(", "));
    let mut report = how.report(
        "MPLS forwarding",
        "How well does the device push, swap and pop labels (RFC 5695)?",
        answer,
    );
    let table = operations::<K>(&rows, line);
    let curves: Vec<_> = rows
        .iter()
        .filter(|r| !r.1.loss.is_empty())
        .map(|r| (format!("{} {}", r.1.operation.name(), r.0), r.1.loss.as_slice()))
        .collect();
    let mut section = Section::new("Result").table(table);
    if !curves.is_empty() {
        let (table, figure) = curve::<K>("mpls-loss", "Loss over load", &curves);
        section = section.figure(figure).table(table);
    }
    report.sections.push(section);
    report.sections.push(how.section(&[]));
    report
}

/// A soak.
pub fn soak<K: Origin>(how: &Circumstances, found: &[(Sizes, soak::Found)]) -> Report {
    let lost: u64 = found.iter().map(|f| f.1.result.lost()).sum();
    let offered: u64 = found.iter().map(|f| f.1.result.offered()).sum();
    let unsent: u64 = found.iter().map(|f| f.1.result.unsent()).sum();
    let parts: usize = found.iter().map(|f| f.1.lossy.len()).sum();
    let mut answer = match (found.iter().all(|f| f.1.is_clean()), lost) {
        (true, _) => format!("All {offered} frames arrived, whole and once each."),
        (false, 0) => {
            "No frame was lost, but not all came whole, once, where they should, or could be sent."
                .into()
        }
        (false, _) => {
            format!("{lost} of {offered} frames were lost, in {parts} parts of the time.")
        }
    };
    if unsent > 0 {
        answer += &format!(" {unsent} frames could not be sent.");
    }
    let silent = found.iter().filter(|f| f.1.result.intended() == 0).map(|f| f.0.to_string());
    let silent: Vec<_> = silent.collect();
    if !silent.is_empty() {
        answer = if silent.len() == found.len() { String::new() } else { answer + " " };
        answer += &format!("No frame of {} octets was sent.", silent.join(", "));
    }
    let mut report = how.report("Soak", "Is the load carried for long?", answer);
    for (size, found) in found {
        let title = format!("Frames of {size}");
        report.sections.push(summed::<K>(&title, &size.to_string(), found));
    }
    report.sections.push(how.section(&["Parts are by the time at which frames should have left."]));
    report
}
