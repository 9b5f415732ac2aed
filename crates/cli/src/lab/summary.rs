//! Result of a run: one line, then tables.

use crate::machine;
use ferrule_base::{Duration, Instant};
use ferrule_lab::host::{Delivery, Outcome, Spread, rate};
use ferrule_lab::topology::{Lab, Setting, Topology};
use ferrule_lab::{Direction, LaneStats};
use ferrule_report::{Column, Measure, Model, Report, Section, Table};

fn model(value: f64) -> Model {
    Model::from(Measure::new(value))
}

fn count(head: &str, values: impl IntoIterator<Item = u64>) -> Column {
    Column::numbers(head, "", values.into_iter().map(|n| model(n as f64))).decimals(0)
}

fn micros(time: Duration) -> Model {
    model(time.as_nanos() as f64 / 1e3)
}

/// End of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Everything arrived, and nothing moved any more.
    Rest,
    /// Something moved long after hosts had stopped sending.
    Busy,
    /// A person stopped it.
    Stopped,
}

/// The document, and true if every traffic entry sent something.
pub fn report(
    topology: &Topology,
    lab: &mut Lab,
    setting: Setting,
    end: End,
    command: String,
) -> (Report, bool) {
    let outcomes: Vec<(String, Outcome)> = lab
        .outcomes()
        .into_iter()
        .enumerate()
        .filter_map(|(at, outcome)| Some((topology.traffic_name(at), outcome?)))
        .collect();
    let length = match end {
        End::Stopped => lab.network.now().since(Instant::ZERO),
        End::Rest | End::Busy => setting.length,
    };
    let title = match &topology.variant {
        Some(variant) => format!("{}, {variant}", topology.name),
        None => topology.name.clone(),
    };
    let mut report = Report::new(title, topology.about.clone());
    report.answer = verdict(lab, &outcomes, end);
    report.partial = end == End::Stopped;
    report.machine = format!(
        "virtual time: {:?} with seed {}, {} nodes, {} hosts, {} links",
        length,
        setting.seed,
        topology.nodes.len(),
        topology.hosts.len(),
        topology.links.len()
    );
    report.device = format!("network {}, Ferrule's data path", topology.name);
    report.program = machine::program();
    report.command = command;
    report.sections.push(traffic(&outcomes));
    report.sections.push(links(topology, lab));
    report.sections.push(nodes(lab));
    report.sections.push(invariants(topology, lab, end));
    (report, unsent(&outcomes).is_empty())
}

/// One line.
fn verdict(lab: &Lab, outcomes: &[(String, Outcome)], end: End) -> String {
    if let Some(finding) = lab.findings.first() {
        let more = match lab.findings.count() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        return format!("broken: {finding}{more}");
    }
    if end == End::Stopped {
        let now = lab.network.now();
        return format!(
            "stopped at {now}, with packets under way; every invariant held until then"
        );
    }
    format!("{}; every invariant held", arrived(outcomes))
}

/// Fate of the traffic entries, in words.
fn arrived(outcomes: &[(String, Outcome)]) -> String {
    let of = |fate| outcomes.iter().filter(|(_, outcome)| outcome.delivery() == fate).count();
    let (all, whole) = (outcomes.len(), of(Delivery::Whole));
    if all == 0 {
        return "no traffic".into();
    }
    if all == whole {
        return format!("all {all} traffic entries arrived whole");
    }
    let mut text = format!("{whole} of {all} traffic entries arrived whole");
    for (fate, what) in [(Delivery::Losses, "with losses"), (Delivery::Copies, "with copies")] {
        match of(fate) {
            0 => {}
            count => text += &format!(", {count} {what}"),
        }
    }
    match of(Delivery::Unsent) {
        0 => text,
        1 => text + ", 1 entry sent nothing",
        count => format!("{text}, {count} entries sent nothing"),
    }
}

/// Traffic entries that sent nothing, by name.
fn unsent(outcomes: &[(String, Outcome)]) -> Vec<&str> {
    let unsent = outcomes.iter().filter(|(_, outcome)| outcome.delivery() == Delivery::Unsent);
    unsent.map(|(name, _)| name.as_str()).collect()
}

fn traffic(outcomes: &[(String, Outcome)]) -> Section {
    let mut section = Section::new("Traffic");
    let packets: Vec<_> = outcomes
        .iter()
        .filter_map(|(name, outcome)| match outcome {
            Outcome::Ping(p) => {
                let counts = [p.sent, p.received, p.duplicates, 0, 0];
                Some((name.as_str(), counts, p.round_trip, None))
            }
            Outcome::Udp(u) => {
                let counts = [u.sent, u.received, u.duplicates, u.reordered, u.broken];
                Some((name.as_str(), counts, u.latency, u.rate()))
            }
            _ => None,
        })
        .collect();
    if !packets.is_empty() {
        section = section.table(packet_table(&packets));
    }
    let streams: Vec<_> = outcomes
        .iter()
        .filter_map(|(name, outcome)| match outcome {
            Outcome::Tcp(t) => {
                let state = if t.broken { "broken" } else { "intact" };
                Some((
                    name.as_str(),
                    [t.sent, t.received],
                    rate(t.received, t.between),
                    state.into(),
                ))
            }
            Outcome::Http(h) => {
                let busy = h.duration.sum.as_secs_f64();
                let rate = (busy > 0.0).then(|| h.octets as f64 * 8.0 / busy);
                let state = format!("{} of {} intact", h.intact, h.requests);
                Some((name.as_str(), [h.octets, h.octets], rate, state))
            }
            _ => None,
        })
        .collect();
    if !streams.is_empty() {
        section = section.table(stream_table(&streams));
    }
    match unsent(outcomes) {
        names if names.is_empty() => section,
        names => section.text(format!(
            "Sent nothing: {}. An entry begins at its `start`, else at 200 ms, over IPv6 at 1200 ms: \
             choose a longer --for.",
            names.join(", ")
        )),
    }
}

type PacketRow<'a> = (&'a str, [u64; 5], Spread, Option<f64>);

fn packet_table(rows: &[PacketRow<'_>]) -> Table {
    let column = |at: usize| rows.iter().map(move |row| row.1[at]);
    let time = |head: &str, of: fn(&Spread) -> Option<Duration>| {
        let cells = rows.iter().map(|row| of(&row.2).map(micros).ok_or("–"));
        Column::results(head, "µs", cells).decimals(1)
    };
    let mut table = Table::new("packets", "Echo requests and datagrams")
        .column(Column::words("traffic", rows.iter().map(|row| row.0)))
        .column(count("sent", column(0)))
        .column(count("received", column(1)))
        .column(count("lost", rows.iter().map(|row| row.1[0].saturating_sub(row.1[1]))));
    for (at, head) in [(2, "twice"), (3, "late"), (4, "broken")] {
        if column(at).any(|count| count > 0) {
            table = table.column(count(head, column(at)));
        }
    }
    table
        .column(time("min", |s| (s.count > 0).then_some(s.min)))
        .column(time("mean", |s| s.mean()))
        .column(time("max", |s| (s.count > 0).then_some(s.max)))
        .column(
            Column::results(
                "rate",
                "Mbit/s",
                rows.iter().map(|row| row.3.map(|rate| model(rate / 1e6)).ok_or("–")),
            )
            .decimals(1),
        )
        .note("ping: round trip; udp: latency, from the time on which a packet was due")
}

type StreamRow<'a> = (&'a str, [u64; 2], Option<f64>, String);

fn stream_table(rows: &[StreamRow<'_>]) -> Table {
    let rates = rows.iter().map(|row| row.2.map(|rate| model(rate / 1e6)).ok_or("–"));
    Table::new("streams", "Streams and transfers")
        .column(Column::words("traffic", rows.iter().map(|row| row.0)))
        .column(count("octets sent", rows.iter().map(|row| row.1[0])))
        .column(count("received", rows.iter().map(|row| row.1[1])))
        .column(Column::findings::<Model>("content", rows.iter().map(|row| row.3.as_str())))
        .column(Column::results("rate", "Mbit/s", rates).decimals(1))
}

fn links(topology: &Topology, lab: &Lab) -> Section {
    let mut rows: Vec<(String, LaneStats, Option<f64>)> = Vec::new();
    for ((link, id), loads) in topology.links.iter().zip(&lab.links).zip(lab.loads()) {
        let stats = lab.network.link_stats(*id);
        let [a, b] = topology.end_names(link);
        for (way, name) in
            [(Direction::Forward, format!("{a} > {b}")), (Direction::Reverse, format!("{b} > {a}"))]
        {
            let lane = *stats.of(way);
            let share =
                link.spec.rate.map(|_| 100.0 * loads[usize::from(way == Direction::Reverse)]);
            let outside = if link.outside { " (outside)" } else { "" };
            rows.push((name + outside, lane, share));
        }
    }
    let load = rows.iter().map(|row| row.2.map(model).ok_or("–"));
    let mut table = Table::new("links", "Links")
        .column(Column::words("link", rows.iter().map(|row| row.0.as_str())))
        .column(count("frames", rows.iter().map(|row| row.1.delivered.packets)))
        .column(count("octets", rows.iter().map(|row| row.1.delivered.octets)))
        .column(Column::results("load", "%", load).decimals(2));
    type Of = fn(&LaneStats) -> u64;
    let rare: [(&str, Of); 6] = [
        ("lost", |lane| lane.lost),
        ("copied", |lane| lane.duplicated),
        ("corrupted", |lane| lane.corrupted),
        ("held back", |lane| lane.held_back),
        ("queue full", |lane| lane.queue_full),
        ("down", |lane| lane.down),
    ];
    for (head, of) in rare {
        if rows.iter().any(|row| of(&row.1) > 0) {
            table = table.column(count(head, rows.iter().map(|row| of(&row.1))));
        }
    }
    Section::new("Links").table(table.note(
        "frames and octets that arrived, without FCS; load: share of the time until hosts stop sending \
         for which frames had the line, with preamble, FCS and gap",
    ))
}

fn nodes(lab: &Lab) -> Section {
    let mut rows: Vec<(String, String, u64)> = Vec::new();
    for &id in &lab.devices {
        let device = lab.network.device(id);
        let report = device.report();
        for (reason, count) in report.drops.iter() {
            rows.push((device.name().to_owned(), reason.name().to_owned(), count));
        }
        let input = [
            ("input queue full", report.stats.input_full),
            ("above the profile's cap", report.stats.capped),
        ];
        for (what, count) in input.into_iter().filter(|(_, count)| *count > 0) {
            rows.push((device.name().to_owned(), what.to_owned(), count));
        }
    }
    let section = Section::new("Nodes");
    if rows.is_empty() {
        return section.text("No node dropped a packet.");
    }
    let table = Table::new("drops", "Dropped, by reason")
        .column(Column::words("node", rows.iter().map(|row| row.0.as_str())))
        .column(Column::words("reason", rows.iter().map(|row| row.1.as_str())))
        .column(count("packets", rows.iter().map(|row| row.2)));
    section.table(table)
}

fn invariants(topology: &Topology, lab: &mut Lab, end: End) -> Section {
    let outside = topology.links.iter().filter(|link| link.outside).count();
    let section = Section::new("Invariants");
    if lab.findings.count() > 0 {
        let all: Vec<String> = lab.findings.all().iter().map(ToString::to_string).collect();
        return section.list(all);
    }
    let mut held = vec![
        format!("{} frames at nodes, every packet accounted for", lab.network.visits()),
        format!("{} nonces, none twice", lab.nonces.noted()),
    ];
    if outside > 0 {
        held.push(format!("no payload of a host in clear on {outside} outside links"));
    }
    if end == End::Busy {
        held.push("some traffic still went on 30 s after its end: it was not waited for".into());
    }
    section.list(held)
}
