//! Section 4.1.1.

use super::super::live::Live;
use super::super::model::Model;
use super::super::published::Study;
use super::super::token::blocks;
use super::super::voip::Call;
use super::column;
use ferrule_report::{Column, Live as LiveNumber, Model as ModelNumber, Published, Section, Table};

/// Section 4.1.1.
pub fn call(study: &Study, model: &Model, live: &Result<Live, String>) -> Section {
    let print = &study.voip;
    let used = print.blocks_per_second_used;
    let served = |filled: f64| (filled - used) / used;
    let filled = model.filled_per_second;
    let rows = [
        ("blocks of a packet", "", print.blocks_per_packet, blocks(60) as f64),
        ("blocks filled for one of two directions", "1/s", print.blocks_per_second_filled, filled),
        (
            "seconds served for a second of filling",
            "s",
            print.seconds_served_per_second_of_filling,
            served(filled),
        ),
    ];
    let found = column(("", ""), live, rows.len(), |m, row| match row {
        0 => Some(blocks(print.ip_packet_bytes) as f64),
        1 => Some(m.filled_per_second),
        _ => Some(served(m.filled_per_second)),
    });
    let values = Table::new("call", "One G.729 call: the token's arithmetic")
        .column(Column::words("quantity", rows.iter().map(|(what, ..)| *what)))
        .column(Column::words("unit", rows.iter().map(|(_, unit, ..)| *unit)))
        .column(Column::numbers("", "", rows.iter().map(|row| Published::from(row.2))))
        .column(
            Column::numbers("", "", rows.iter().map(|row| ModelNumber::from(row.3))).decimals(1),
        )
        .column(found.decimals(1));
    Section::new("One call")
        .text(
            "Fifty packets of 60 bytes a second each way, both ways through one token. A packet \
             counts if it is through within 100 ms.",
        )
        .table(values)
        .table(calls(study, model, live))
}

fn in_time(call: &Call) -> f64 {
    100.0 * call.in_time as f64 / call.packets as f64
}

fn calls(study: &Study, model: &Model, live: &Result<Live, String>) -> Table {
    let print = &study.voip;
    let calls = &model.calls;
    let name = |call: &Call| match call.ring {
        None => "plain token".to_owned(),
        Some(ring) => format!("{ring} blocks, {} kept for late packets", call.behind),
    };
    let of_print = print.minimum_buffer_blocks_printed as usize;
    let every = calls.iter().map(|call| match call.ring {
        Some(ring) if ring == of_print => Ok(Published::from(print.fill_event_every_ms_at_minimum)),
        _ => Err("not printed"),
    });
    let model_every = calls.iter().map(|call| match call.ring {
        Some(_) => call.fill_every_ms.map(ModelNumber::from).ok_or("once"),
        None => Err("no buffer"),
    });
    let share = calls.iter().map(|call| ModelNumber::from(in_time(call)));
    let waits = calls.iter().map(|call| ModelNumber::from(call.wait_max_ms));
    let found = |head, unit, of: fn(&Call) -> Option<f64>| {
        column((head, unit), live, calls.len(), move |m, row| of(m.calls.get(row)?))
    };
    let live_every = calls.iter().enumerate().map(|(row, call)| {
        let live = live.as_ref().map_err(Clone::clone)?;
        let found = live.measured.calls.get(row).and_then(|call| call.fill_every_ms);
        let why = if call.ring.is_none() { "no buffer" } else { "once" };
        Ok::<_, String>(LiveNumber::from(found.ok_or(why)?))
    });
    let live_every = Column::results("filled every", "ms", live_every);
    Table::new("voip", "One G.729 call: buffers of each direction")
        .column(Column::words("buffer", calls.iter().map(name)))
        .column(Column::numbers("in time", "%", share).decimals(1))
        .column(found("in time", "%", |call| Some(in_time(call))).decimals(1))
        .column(Column::numbers("longest wait", "ms", waits).decimals(0))
        .column(found("longest wait", "ms", |call| Some(call.wait_max_ms)).decimals(0))
        .column(Column::results("filled every", "ms", every))
        .column(Column::results("filled every", "ms", model_every).decimals(0))
        .column(live_every.decimals(0))
        .note(
            "The least buffer is two exchanges, 252 blocks, printed as 256, which has a row of its \
             own, for 640 ms are printed of it. With room for five late packets it is 272. The longest wait is that of a \
             packet after the first second. A call of the model is a minute long, a live one 40 s, \
             16 with --quick: the plain token's queue, and with it the longest wait, grows as long \
             as the call lasts.",
        )
}
