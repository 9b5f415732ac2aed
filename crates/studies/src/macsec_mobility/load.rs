//! Tables 1 to 3 and figure 8: delay and loss by offered load.

use super::bench::Point;
use super::gateway::{self, Path};
use super::live::Live;
use super::model::Model;
use super::network::System;
use super::profiles::{Gateway, Profiles};
use super::published::Study;
use ferrule_formulas::polling::{self, Poller};
use ferrule_lab::Profile;
use ferrule_lab::profile::Key;
use ferrule_report::{
    Argument, Axis, Column, Curve, Derived, Figure, Fitted, Knob, Live as LiveNumber, Measure,
    Model as ModelNumber, Published, Section, Series, Shape, Table, by_ratio, shown,
};

/// The whole part.
pub fn section(study: &Study, model: &Model, live: &Result<Live, String>) -> Section {
    let mut section = Section::new("Delay and loss by load").text(
        "Frames of 1000 bytes at a constant rate, from site to site; delay from the first bit \
         out to the last bit in. Load is that of the access line, with preamble, FCS and gap.",
    );
    for (number, system) in [(1, System::Plain), (2, System::Ipsec), (3, System::Macsec)] {
        section = section.table(table(study, model, live, number, system));
    }
    section = section.figure(figure(study, model)).table(fits(model)).table(residuals(model));
    section = section.text(GATEWAY).text(timeless(model));
    match live {
        Ok(live) => section.text(live.note.clone()),
        Err(why) => section.text(format!("Live: {why}.")),
    }
}

const GATEWAY: &str = "The gateway of table 2 is no server with a queue: the delay is the same at \
    20 and 40 Mbit/s, a fifth more at 60, and hardly more at 80. A gateway that looks at its \
    ports at fixed times behaves so: while at most one frame comes between two looks each waits \
    half a period on average, from there on frames are taken in pairs and each waits for the \
    work on both, and a limit of frames per look decides the load that fills it. The last row of \
    the table above is what a server with a queue gives at best, with as many free parameters.";

fn table(
    study: &Study,
    model: &Model,
    live: &Result<Live, String>,
    number: usize,
    system: System,
) -> Table {
    let printed = study.load_of(system.key());
    let points = model.loads_of(system);
    let beyond = "not printed";
    let of = |values: &[f64]| -> Vec<Result<Published, &'static str>> {
        let at = |n: usize| values.get(n).map(|v| Published::from(*v)).ok_or(beyond);
        (0..points.len()).map(at).collect()
    };
    let published = Column::results("delay", "µs", of(&printed.delay_us)).decimals(2);
    let delays = points.iter().map(|p| ModelNumber::from(p.mean_us));
    let modelled = match system {
        System::Macsec => Column::numbers("delay", "µs", delays),
        // Their profiles were fitted to these delays.
        _ => Column::numbers("delay", "µs", points.iter().map(|p| Fitted::from(p.mean_us))),
    };
    let modelled = modelled.decimals(2);
    let loss = points.iter().map(|p| ModelNumber::from(p.loss_percent()));
    let title = format!("Table {number}: {}", system.name());
    let mut table = Table::new(format!("load-{}", system.key()), title)
        .column(Column::settings("load", "Mbit/s", points.iter().map(|p| p.load_mbps)))
        .column(published.clone())
        .column(modelled.clone())
        .column(Column::deviation("off by", &modelled, &published));
    if system != System::Plain {
        let [said, found] = over_plain(study, model, system);
        let off = Column::deviation("of it, off by", &found, &said);
        table = table.column(said).column(found).column(off);
    }
    table
        .column(Column::results("loss", "%", printed_loss(study, system, points)))
        .column(Column::numbers("loss", "%", loss).decimals(2))
        .column(Column::results("delay", "µs", measured(points, live, system, delay)).decimals(0))
        .column(Column::results("loss", "%", measured(points, live, system, lost)).decimals(2))
        .note(note(system))
}

/// Delay that a system adds to plain, printed and modelled: only the increment is compared.
fn over_plain(study: &Study, model: &Model, system: System) -> [Column; 2] {
    let plain = study.load_of("plain").delay_us[0];
    let alone = model.loads_of(System::Plain).first().map_or(f64::NAN, |point| point.mean_us);
    let points = model.loads_of(system);
    let printed = &study.load_of(system.key()).delay_us;
    let said = (0..points.len())
        .map(|row| printed.get(row).map(|delay| Derived::from(delay - plain)).ok_or("not printed"));
    let found = points.iter().map(|point| Derived::from(point.mean_us - alone));
    [
        Column::results("printed, over plain", "µs", said).decimals(2),
        Column::numbers("modelled, over plain", "µs", found).decimals(2),
    ]
}

/// Loss as printed: above 100 Mbit/s, table 2 states it in words, without a number.
fn printed_loss(
    study: &Study,
    system: System,
    points: &[Point],
) -> Vec<Result<Published, &'static str>> {
    let printed = &study.load_of(system.key()).loss_percent;
    let said = |row: usize, point: &Point| match printed.get(row) {
        Some(percent) => Ok(Published::from(*percent)),
        None if point.load_mbps > 100.0 => Err("loss"),
        None => Err("not printed"),
    };
    points.iter().enumerate().map(|(row, point)| said(row, point)).collect()
}

fn delay(point: &Point) -> LiveNumber {
    LiveNumber::from(Measure::within(point.mean_us, point.min_us, point.max_us))
}

fn lost(point: &Point) -> LiveNumber {
    LiveNumber::from(point.loss_percent())
}

/// Measured values at the loads of a table.
fn measured(
    points: &[Point],
    live: &Result<Live, String>,
    system: System,
    of: fn(&Point) -> LiveNumber,
) -> Vec<Result<LiveNumber, String>> {
    let at = |load: f64| match live {
        Err(why) => Err(why.clone()),
        Ok(live) => {
            let found = live.loads_of(system).iter().find(|point| point.load_mbps == load);
            found.map(of).ok_or_else(|| "not measured".to_owned())
        }
    };
    points.iter().map(|point| at(point.load_mbps)).collect()
}

fn note(system: System) -> &'static str {
    match system {
        System::Plain => "One free parameter: the latency of a switch.",
        System::Ipsec => {
            "Over 100 Mbit/s the study prints that less than all arrives, that frames are lost once \
             the queue is full, and that delay grows without end, which its text says of 120 \
             alone. The model was fitted to the text and contradicts the table at 120; its queue \
             holds 256 frames in each gateway."
        }
        System::Macsec => {
            "No parameter of its own: the latency of table 1 and the two operations of figure 2. \
             That the model is 0.6 µs above the print is the erratum in section 3.1: 32 more \
             bytes on four lines take 1.02 µs, more than the 0.74 µs that the print leaves."
        }
    }
}

fn figure(study: &Study, model: &Model) -> Figure {
    let mut series = Vec::new();
    for system in [System::Plain, System::Macsec, System::Ipsec] {
        let printed = study.load_of(system.key());
        let printed = printed.offered_mbps.iter().zip(&printed.delay_us);
        let printed = printed.map(|(load, delay)| (*load, Published::from(*delay)));
        let modelled = model.loads_of(system).iter();
        let modelled = modelled.map(|p| (p.load_mbps, p.mean_us));
        series.push(match system {
            System::Macsec => {
                let points = modelled.map(|(x, y)| (x, ModelNumber::from(y)));
                Series::new(system.name(), Shape::Line, points)
            }
            _ => {
                let points = modelled.map(|(x, y)| (x, Fitted::from(y)));
                Series::new(system.name(), Shape::Line, points)
            }
        });
        series.push(Series::new(system.name(), Shape::Points, printed));
    }
    let axes = [Axis::new("offered load", "Mbit/s").log(), Axis::new("delay", "µs").log()];
    Figure::xy("load", "Figure 8: delay by load", axes, series)
        .mark(120.0, "the gateway is full")
        .caption(
            "Open circles are printed, lines are the model. Above 120 Mbit/s the gateway's queue \
             fills, and what it holds is the delay.",
        )
        .explored(knobs(model), vec![curve(model)])
}

/// The gateway's parameters.
fn knobs(model: &Model) -> Vec<Knob> {
    let Gateway { poll_us, budget, work_us } = model.gateway();
    vec![
        Knob::around("period between two looks", "µs", poll_us).within((20.0, 400.0), 1.0),
        Knob::around("frames a look at most", "", budget as f64).within((1.0, 8.0), 1.0),
        Knob::around("work on a frame", "µs", work_us).within((1.0, 100.0), 1.0),
    ]
}

/// The gateway's closed form, up to the load that fills it.
fn curve(model: &Model) -> Curve {
    let Path { fixed_us, spacing_us } = model.fitted.path;
    let numbers = [gateway::FRAME_BITS, fixed_us, spacing_us].map(Argument::Number);
    let arguments = numbers.into_iter().chain([0, 1, 2].map(Argument::Knob)).collect();
    let group = System::Ipsec.name();
    Curve::over(
        group,
        ("polled_delay", arguments),
        &by_ratio((10.0, 200.0), 80),
        &knobs(model),
        |load, given| {
            let [frame_bits, fixed_us, spacing_us, poll_us, budget, work_us] = given else {
                return f64::NAN;
            };
            let poller = Poller {
                poll_us: *poll_us,
                budget: *budget as usize,
                work_us: *work_us,
                spacing_us: *spacing_us,
            };
            polling::delay_us(&poller, frame_bits / load, *fixed_us)
        },
    )
}

fn fits(model: &Model) -> Table {
    let Profiles { switch, macsec, gateway } = &model.profiles;
    let files = [switch, macsec, gateway];
    let queue = &model.queue;
    let by_queue = format!(
        "latency {:.0} µs, waiting {:.0} µs at half load, full at {:.0} Mbit/s",
        queue.latency_us, queue.scale_us, queue.full_mbps
    );
    let with = |of: &dyn Fn(&Profile) -> f64, last: f64| {
        files.iter().map(|file| of(file)).chain([last]).map(Derived::from).collect::<Vec<_>>()
    };
    let devices = files.iter().map(|file| file.name.as_str());
    let about = files.iter().map(|file| file.about.as_str());
    let fitted = files.iter().map(|file| parameters(file));
    let points = gateway.fit.points as f64;
    let free = super::gateway::FREE_QUEUE as f64;
    let error = with(&|file| file.fit.error_percent, queue.error_percent);
    let left_out = with(&|file| file.fit.leave_one_out_percent, queue.leave_one_out_percent);
    Table::new("profiles", "The device profiles and how well they fit")
        .column(Column::words("profile", devices.chain(["for comparison"])))
        .column(Column::words("device", about.chain(["a server with a queue"])))
        .column(Column::words("what was fitted", fitted.chain([by_queue])))
        .column(Column::numbers("free", "", with(&|file| file.free.len() as f64, free)))
        .column(Column::numbers("values", "", with(&|file| file.fit.points as f64, points)))
        .column(Column::numbers("error", "%", error).decimals(2))
        .column(Column::numbers("left out", "%", left_out).decimals(2))
        .note(
            "Error: the largest of all values. Left out: each value in turn is predicted by a whole \
             fit to the others; the largest error. The MACsec switch has one value for sealing and \
             opening, from figure 2 alone; table 3 is predicted.",
        )
}

/// Every value that a device was fitted to, or that was left out of its fit.
fn residuals(model: &Model) -> Table {
    let all: Vec<_> = model.fitted.residuals.iter().flatten().cloned().collect();
    crate::residuals::table("residuals", "The fits, value by value", &all)
}

/// The alternative that fits table 3 better.
fn timeless(model: &Model) -> String {
    let (found, fit) = (model.fitted.timeless, &model.profiles.macsec.fit);
    format!(
        "Figure 2 and table 3 ask for different MACsec switches. One whose operations take no time \
         misses table 3 by {:.2} % in place of {:.2} %, for all that is left are the 32 octets, and \
         figure 2 by {:.0} %.",
        found.table_3, fit.leave_one_out_percent, found.figure_2
    )
}

/// The fitted numbers of a profile, as its file has them.
fn parameters(profile: &Profile) -> String {
    let each = profile.free.iter().filter_map(|path| {
        let key = Key::find(path)?;
        Some(format!("{path} {} {}", shown((key.get)(profile)), key.unit))
    });
    each.collect::<Vec<_>>().join(", ")
}
