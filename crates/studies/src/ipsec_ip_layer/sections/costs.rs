//! Costs of hash and cipher by size: on the machines of 2001, and on this one.

use super::super::cases::Protection;
use super::super::cost::SEGMENT;
use super::super::live::{COST_OCTETS, Live};
use super::super::machine::Costs;
use super::super::model::{Model, Which};
use ferrule_formulas::blocks::{self, Blocks};
use ferrule_report::{
    Argument, Axis, Column, Curve, Derived, Figure, Knob, Live as LiveNumber, Measure,
    Model as ModelNumber, Section, Series, Shape, Table, by_ratio,
};

/// Protections that have a cost of their own.
pub const SUITES: [Protection; 4] =
    [Protection::AhMd5, Protection::AhSha1, Protection::EspDes, Protection::AesGcm];

/// Hash or cipher for so much data, in full segments and what is left, in microseconds.
pub fn crypto_us(costs: &Costs, protection: Protection, data: usize) -> f64 {
    blocks::transfer_us(&costs.blocks(protection), data as f64, SEGMENT as f64)
}

/// The data from which on DES costs more than HMAC-MD5 in a packet.
pub fn crossover(costs: &Costs) -> Option<usize> {
    let ahead = |data: &usize| {
        crypto_us(costs, Protection::EspDes, *data) > crypto_us(costs, Protection::AhMd5, *data)
    };
    (1..=SEGMENT).rev().take_while(ahead).last()
}

/// DES alone: its suite less the hash beside it.
fn des_alone(live: &Live, octets: usize) -> Result<f64, String> {
    let both = live.cost(Protection::EspDes, octets)?.ns;
    Ok((both - live.cost(Protection::AhMd5, octets)?.ns).max(0.0))
}

/// The same on this machine, among the sizes that were measured.
pub fn crossover_live(live: &Live) -> Result<Option<usize>, String> {
    live.costs.as_ref().map_err(Clone::clone)?;
    let ahead = |octets: &&usize| {
        let hash = live.cost(Protection::AhMd5, **octets).map(|cost| cost.ns);
        matches!((des_alone(live, **octets), hash), (Ok(des), Ok(hash)) if des > hash)
    };
    Ok(COST_OCTETS.iter().rev().take_while(ahead).last().copied())
}

/// From a byte to 64 KiB.
pub fn costs(model: &Model, live: &Live) -> Section {
    let at = |which| crossover(model.costs(which)).map_or("no size".into(), |at| format!("{at}"));
    let here = match crossover_live(live) {
        Ok(Some(octets)) => format!("on this machine it does from {octets} bytes on"),
        Ok(None) => "on this machine it never does".into(),
        Err(why) => format!("on this machine: {why}"),
    };
    let section = Section::new("What hash and cipher cost")
        .text(format!(
            "Within one packet DES costs more than HMAC-MD5 from {} bytes of data on with what \
             both are known to cost, and from {} bytes on in the fitted machine; {here}. Beyond \
             a full segment both grow alike: a crossover at 56 kB cannot come from them.",
            at(Which::Plausible),
            at(Which::Fitted)
        ))
        .figure(figure(model, live));
    let section = Which::ALL
        .into_iter()
        .fold(section, |section, which| section.table(modelled(model, which)));
    section.table(measured(live))
}

fn modelled(model: &Model, which: Which) -> Table {
    let costs = model.costs(which);
    let id = format!("crypto-{}", which.name());
    let title = format!("Hash and cipher by size, {} machine", which.name());
    let table = Table::new(id, title).column(Column::settings(
        "data",
        "B",
        COST_OCTETS.map(|octets| octets as f64),
    ));
    SUITES.into_iter().fold(table, |table, protection| {
        let each =
            COST_OCTETS.map(|octets| ModelNumber::from(crypto_us(costs, protection, octets)));
        table.column(Column::numbers(protection.name(), "µs", each).decimals(1))
    })
}

fn measured(live: &Live) -> Table {
    let table = Table::new("crypto-live", "Suites by size on this machine")
        .column(Column::settings("text", "B", COST_OCTETS.map(|octets| octets as f64)));
    let table = SUITES.into_iter().fold(table, |table, protection| {
        let each = COST_OCTETS.map(|octets| {
            let cost = live.cost(protection, octets)?;
            let us = [cost.ns, cost.between.0, cost.between.1].map(|ns| ns / 1000.0);
            Ok::<_, String>(LiveNumber::from(Measure::within(us[0], us[1], us[2])))
        });
        let name = match protection {
            Protection::EspDes => "DES with HMAC-MD5",
            other => other.name(),
        };
        table.column(Column::results(name, "µs", each).decimals(2))
    });
    let alone =
        COST_OCTETS.map(|octets| des_alone(live, octets).map(|ns| Derived::from(ns / 1000.0)));
    table.column(Column::results("DES alone", "µs", alone).decimals(2)).note(
        "One packet at a time from memory to memory, all suites in turn, the median of rounds, \
         with the quietest and the busiest. Ferrule has no ESP without integrity: DES alone is \
         its suite less the hash.",
    )
}

fn figure(model: &Model, live: &Live) -> Figure {
    let mut series = Vec::new();
    for protection in SUITES {
        let costs = model.costs(Which::Plausible);
        let points = COST_OCTETS
            .map(|octets| (octets as f64, ModelNumber::from(crypto_us(costs, protection, octets))));
        series.push(Series::new(protection.name(), Shape::Line, points));
        let points = COST_OCTETS.iter().filter_map(|&octets| {
            let cost = live.cost(protection, octets).ok()?;
            Some((octets as f64, LiveNumber::from(cost.ns / 1000.0)))
        });
        let points: Vec<_> = points.collect();
        if !points.is_empty() {
            series.push(Series::new(protection.name(), Shape::Points, points));
        }
    }
    let axes = [Axis::new("data", "bytes").log(), Axis::new("time", "µs").log()];
    let at = crossover(model.costs(Which::Plausible)).map_or(f64::NAN, |at| at as f64);
    Figure::xy("crypto", "Hash and cipher by size, plausible machine", axes, series)
        .mark(at, "DES costs more")
        .caption(
            "The mark is where DES as it is known begins to cost more than HMAC-MD5 as it is \
             known.",
        )
        .explored(knobs(model), curves(model))
}

/// Hashes and cipher of the study, whose blocks' costs a reader moves.
const MOVED: [Protection; 3] = [Protection::AhMd5, Protection::AhSha1, Protection::EspDes];

/// Costs of a block.
fn knobs(model: &Model) -> Vec<Knob> {
    let costs = model.costs(Which::Plausible);
    let named = ["a block of MD5", "a block of SHA-1", "a block of DES"].into_iter().zip(MOVED);
    named.map(|(name, of)| Knob::around(name, "ns", costs.blocks(of).block_ns)).collect()
}

/// The closed forms.
fn curves(model: &Model) -> Vec<Curve> {
    let (costs, knobs) = (model.costs(Which::Plausible), knobs(model));
    let ends = (COST_OCTETS[0] as f64, COST_OCTETS[COST_OCTETS.len() - 1] as f64);
    let mut places: Vec<f64> = by_ratio(ends, 129).into_iter().map(f64::round).collect();
    places.dedup();
    let curve = |protection: Protection| {
        let Blocks { block_ns, octets, beside, multiple, fixed } = costs.blocks(protection);
        let numbers = [SEGMENT as f64, octets, beside, multiple, fixed].map(Argument::Number);
        let block = MOVED.iter().position(|of| *of == protection).map(Argument::Knob);
        let block = block.unwrap_or(Argument::Number(block_ns));
        let arguments = numbers.into_iter().chain([block]).collect();
        let call = ("blocks_us", arguments);
        Curve::over(protection.name(), call, &places, &knobs, |data, given| {
            let [segment, octets, beside, multiple, fixed, block_ns] = *given else {
                return f64::NAN;
            };
            let blocks = Blocks { block_ns, octets, beside, multiple, fixed };
            blocks::transfer_us(&blocks, data, segment)
        })
    };
    SUITES.map(curve).into()
}

#[cfg(test)]
mod tests {
    use super::super::super::cases::{Application, Mode, Way};
    use super::super::super::machine::{Machine, Parts, Processing};
    use super::super::super::network::{MTU_ROOM, Setting, run, tcp_unbounded};
    use super::*;
    use crate::options::Seed;

    #[test]
    fn closed_form_is_what_more_data_costs_a_machine_in_the_laboratory() {
        let costs = Machine::plausible().cost;
        for protection in MOVED {
            let busy_us = |octets: u64| {
                let crypto = Parts { crypto: true, ..Parts::NONE };
                let machine = costs.profile(protection, Processing::NewBuffer, crypto);
                let way = Way::of(protection, Mode::Transport);
                let behaviour = tcp_unbounded(octets);
                let setting = Setting { way, machine, behaviour, mtu: MTU_ROOM, seed: Seed::OWN };
                run(&setting, Application::Ftp, octets).busy_us
            };
            // One segment each: they differ in their data alone.
            let lab = busy_us(1_200) - busy_us(400);
            let closed = crypto_us(&costs, protection, 1_200) - crypto_us(&costs, protection, 400);
            assert!((lab / closed - 1.0).abs() < 0.01, "{protection:?} {lab} {closed}");
        }
    }
}
