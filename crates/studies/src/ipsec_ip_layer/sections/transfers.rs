//! Response times of every transfer.

use super::super::cases::{Application, Way};
use super::super::live::Live;
use super::super::model::{Model, Which};
use ferrule_report::{
    Axis, Column, Figure, Live as LiveNumber, Measure, Model as ModelNumber, Section, Series,
    Shape, Table,
};

/// A table for each application and machine, and live.
pub fn transfers(model: &Model, live: &Live) -> Section {
    let mut section = Section::new("Transfers").text(
        "Response times of FTP (from PORT to 226), SMTP (from the connection to 221) and \
         Telnet (from the first key to the prompt). No IPsec and BYPASS have no mode.",
    );
    if let Ok(transfers) = &live.transfers
        && !transfers.note.is_empty()
    {
        section = section.text(format!("Live: {}", transfers.note));
    }
    if let Err(why) = &live.transfers {
        section = section.text(format!("Live: {why}."));
    }
    for application in Application::ALL {
        for which in Which::ALL {
            section = section.table(modelled(model, which, application));
        }
        if !live.sizes(application).is_empty() {
            section = section.table(measured(live, application));
        }
        section = section.figure(figure(model, live, application));
    }
    section
}

fn modelled(model: &Model, which: Which, application: Application) -> Table {
    let id = format!("{}-{}", application.name().to_lowercase(), which.name());
    let title = format!("{}, {} machine: response", application.name(), which.name());
    let sizes = model.sizes.iter().map(|&octets| octets as f64);
    let table = Table::new(id, title).column(Column::settings("transfer", "B", sizes));
    Way::all().fold(table, |table, way| {
        let each = model.sizes.iter().map(|&octets| {
            let cell = model.cell(which, application, octets, way);
            ModelNumber::from(cell.run.response_us / 1000.0)
        });
        table.column(Column::numbers(way.name(), "ms", each).decimals(1))
    })
}

fn measured(live: &Live, application: Application) -> Table {
    let id = format!("{}-live", application.name().to_lowercase());
    let title = format!("{} on this machine: response", application.name());
    let sizes = live.sizes(application);
    let table = Table::new(id, title).column(Column::settings(
        "transfer",
        "B",
        sizes.iter().map(|&octets| octets as f64),
    ));
    let table = Way::all().fold(table, |table, way| {
        let each = sizes.iter().map(|&octets| {
            let found = live.response(application, octets, way)?;
            let ms = [found.median, found.least, found.greatest].map(|us| us / 1000.0);
            Ok::<_, String>(LiveNumber::from(Measure::within(ms[0], ms[1], ms[2])))
        });
        table.column(Column::results(way.name(), "ms", each).decimals(2))
    });
    table.note("The median of the repetitions, the least and the greatest in brackets.")
}

fn figure(model: &Model, live: &Live, application: Application) -> Figure {
    let mut series = Vec::new();
    for way in Way::all().filter(|way| way.mode == super::super::cases::Mode::Transport) {
        let points = model.sizes.iter().map(|&octets| {
            let cell = model.cell(Which::Plausible, application, octets, way);
            (octets as f64, ModelNumber::from(cell.run.response_us / 1000.0))
        });
        series.push(Series::new(way.name(), Shape::Line, points));
        let points = live.sizes(application).into_iter().filter_map(|octets| {
            let found = live.response(application, octets, way).ok()?;
            Some((octets as f64, LiveNumber::from(found.median / 1000.0)))
        });
        let points: Vec<_> = points.collect();
        if !points.is_empty() {
            series.push(Series::new(way.name(), Shape::Points, points));
        }
    }
    let id = format!("response-{}", application.name().to_lowercase());
    let title = format!("{}: response by size, plausible machine", application.name());
    let axes = [Axis::new("transfer", "bytes").log(), Axis::new("response", "ms").log()];
    Figure::xy(id, title, axes, series).caption("Transport mode.")
}
