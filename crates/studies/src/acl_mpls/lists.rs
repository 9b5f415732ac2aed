//! Tables of lists beyond the print: by share permitted, by place, and live.

use super::live::{Case, Live, PERMITTED, PLACES, SMALL, STREAMS, TIMED, Timed, named};
use super::model::Model;
use super::network::Point;
use super::nodes::{Entries, List};
use super::published::Study;
use ferrule_report::{Column, Live as LiveNumber, Model as ModelNumber, Section, Table};

type Measured<'a> = &'a Result<Live, String>;

/// A node and its list in words.
pub const fn title(timed: Timed, list: List) -> &'static str {
    match (timed, list) {
        (Timed::Router, List::None) => "router",
        (Timed::Router, List::In) => "router, in",
        (Timed::Router, List::Out) => "router, out",
        (Timed::Pe1, List::None) => "PE1",
        (Timed::Pe1, _) => "PE1, in",
        (Timed::Pe2, List::None) => "PE2",
        (Timed::Pe2, _) => "PE2, out",
    }
}

fn column(
    (study, live): (&Study, Measured<'_>),
    (timed, list): (Timed, List),
    rows: &[(Entries, usize)],
) -> Column {
    let streams = study.setup.streams;
    let cell = |&(entries, octets): &(Entries, usize)| {
        let live = live.as_ref().map_err(Clone::clone)?;
        let case = Case { timed, list, entries, octets, streams };
        live.of(case).map(LiveNumber::from).map_err(str::to_owned)
    };
    Column::results(title(timed, list), "ns", rows.iter().map(cell)).decimals(1)
}

fn listed() -> impl Iterator<Item = (Timed, List)> {
    TIMED.into_iter().filter(|(_, list)| *list != List::None)
}

/// Section on costs by the number of streams that a list permits, and by the position of their
/// entry.
pub fn contents(study: &Study, model: &Model, live: Measured<'_>) -> Section {
    let modelled = |of: fn(&Point) -> f64, points: &[Point]| {
        points.iter().map(|point| ModelNumber::from(of(point))).collect::<Vec<_>>()
    };
    let [inn, out] = &model.permitted;
    let rows = PERMITTED.map(|streams| (Entries::Permit(streams), SMALL));
    let mut shares =
        Table::new("permitted", "Frames of 64 bytes by the streams of 90 that a list permits")
            .column(Column::settings("permitted", "streams", PERMITTED.map(|p| p as f64)));
    for (way, points) in [("in", inn), ("out", out)] {
        let column = |head, of| {
            Column::numbers(format!("{way}, {head}"), "frames/s", modelled(of, points)).decimals(0)
        };
        shares = shares
            .column(column("processed", |p| p.processed))
            .column(column("forwarded", |p| p.forwarded));
    }
    for case in listed() {
        shares = shares.column(column((study, live), case, &rows));
    }
    let shares = shares.note(
        "Model: the IP router under the study's limits. Live: what a frame takes one worker, by \
         the node and its list; a frame that is denied on its way in needs no route.",
    );
    let rows = PLACES.map(|entries| (entries, SMALL));
    let mut places = Table::new("places", "Frames of 64 bytes by the entry that has them")
        .column(Column::words("list", PLACES.map(named)));
    for case in listed() {
        places = places.column(column((study, live), case, &rows));
    }
    let places = places.note(format!(
        "A list of {} entries, of which one permits everything that is sent, or none. Ferrule does \
         not walk a list: its first entry is no nearer than its last.",
        study.setup.acl_entries
    ));
    Section::new("What a list has for the streams").table(shares).table(places)
}

/// Section on costs by frame size, every stream permitted.
pub fn sizes(study: &Study, live: Measured<'_>) -> Section {
    let all = Entries::Permit(study.setup.streams);
    let sizes = &study.setup.frame_bytes;
    let rows: Vec<_> = sizes.iter().map(|&octets| (all, octets)).collect();
    let mut table = Table::new("sizes", "What a frame takes one of Ferrule's workers")
        .column(Column::settings("frame", "bytes", sizes.iter().map(|&octets| octets as f64)));
    for case in TIMED {
        table = table.column(column((study, live), case, &rows));
    }
    let table = table.note(
        "Lists of 120 entries that permit all 90 streams. A frame of 64 bytes has 672 ns on a line \
         of 1 Gbit/s.",
    );
    Section::new("On this machine").table(table)
}

/// Sizes at which few streams are compared.
const FEW_AT: [usize; 4] = [64, 96, 128, 512];

/// Few streams, and one alone.
pub fn streams(study: &Study, model: &Model, live: Measured<'_>) -> Section {
    let mut table = Table::new("streams", "IP without a list, by the streams that frames are of")
        .column(Column::settings("streams", "", STREAMS.map(|streams| streams as f64)));
    for octets in FEW_AT {
        let rates = model.few.iter().map(|(_, points)| points[study.at(octets)].forwarded);
        let rates: Vec<_> = rates.map(ModelNumber::from).collect();
        let column = Column::numbers(format!("{octets} bytes"), "frames/s", rates);
        table = table.column(column.decimals(0));
    }
    let ns = STREAMS.map(|streams| {
        let live = live.as_ref().map_err(Clone::clone)?;
        live.of(Case::few(streams, study)).map(LiveNumber::from).map_err(str::to_owned)
    });
    let table = table.column(Column::results("64 bytes", "ns", ns).decimals(1)).note(
        "Model: the port has two queues, as the study says (section 4.1.1); each has half of the \
         frames a second that 90 streams have, which it does not say, and every stream has one of \
         them. Live: what a frame takes one worker, which has one queue.",
    );
    Section::new("One stream alone").table(table)
}
