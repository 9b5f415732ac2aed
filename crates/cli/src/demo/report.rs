//! What the demo found, for a person and for a program: a verdict in one line,
//! one table, what did not hold.

use super::plan::{STUDY_LEN, Variant};
use super::traffic::{Delivery, Fetched, RoundTrips};
use super::tshark;
use super::wiretap::OnWire;
use crate::paint::Paint;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// All variants.
pub struct Outcome {
    /// Measured on real interfaces; else on virtual wires.
    pub live: bool,
    /// In the order in which they ran.
    pub rows: Vec<Row>,
}

/// One variant.
pub struct Row {
    /// Which.
    pub variant: Variant,
    /// The study's frame from PE to P, and from P to PE.
    pub wires: [OnWire; 2],
    /// Echo requests.
    pub rtt: RoundTrips,
    /// The study's frames from host to host.
    pub delivery: Delivery,
    /// Bits per second to the second host, and back.
    pub throughput: [f64; 2],
    /// The file, where there is a stock client.
    pub file: Option<Fetched>,
    /// What tshark said of both captures, if it is there.
    pub tshark: [Option<tshark::Verdict>; 2],
    /// Captures that are kept.
    pub captures: Vec<PathBuf>,
}

/// What throughput and round trip are worth.
pub const LIVE_NOTE: &str = "live: five processes on veth pairs of one shared machine; veth and \
    the machine limit throughput and round trip, so compare the rows, not the rates";
/// The same in one process.
pub const VIRTUAL_NOTE: &str = "virtual: all five nodes in one process, joined by wires in \
    memory, on one core; no kernel, no interface, no stock tools";

impl Row {
    /// Octets that the protection adds to the study's frame; the provider's come on top.
    pub fn added(&self, plain: &Self) -> i64 {
        self.wires[1].bytes as i64 - plain.wires[1].bytes as i64
    }

    /// Percent of the study's frames that did not come.
    pub fn loss_percent(&self) -> f64 {
        let lost = self.delivery.sent.saturating_sub(self.delivery.received);
        100.0 * f64::from(lost) / f64::from(self.delivery.sent.max(1))
    }

    fn findings(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut expect = |holds: bool, what: String| {
            if !holds {
                found.push(format!("{}: {what}", self.variant.name));
            }
        };
        for (wire, (link, labels)) in self.wires.iter().zip([("pe1–p", 2), ("p–pe2", 1)]) {
            let (have, want) = (wire.bytes, wire.expected_bytes);
            expect(have == want, format!("{have} bytes on {link}, the calculator says {want}"));
            let have = wire.labels;
            expect(have == labels, format!("{have} labels on {link} instead of {labels}"));
            let (have, sent) = (wire.frames, self.delivery.received as usize);
            expect(have >= sent, format!("{have} frames captured on {link}, {sent} arrived"));
        }
        expect(self.delivery.received > 0, "none of the study's frames arrived".into());
        let spoilt = self.delivery.spoilt;
        expect(spoilt == 0, format!("{spoilt} frames came twice or broken"));
        if let Some(file) = &self.file {
            expect(file.matches, "the file arrived changed: its SHA-256 differs".into());
        }
        for verdict in self.tshark.iter().flatten() {
            let layers = &verdict.layers;
            expect(verdict.complete, format!("tshark does not name every layer: {layers}"));
            let count = verdict.complaints;
            expect(count == 0, format!("tshark complains about {count} frames"));
        }
        found
    }
}

impl Outcome {
    /// What does not hold; nothing if all is well.
    pub fn findings(&self) -> Vec<String> {
        self.rows.iter().flat_map(Row::findings).collect()
    }

    /// Where the figures come from.
    pub fn note(&self) -> &'static str {
        if self.live { LIVE_NOTE } else { VIRTUAL_NOTE }
    }

    /// One line: what each costs.
    pub fn verdict(&self) -> String {
        let Some(plain) = self.rows.first() else { return String::new() };
        let load = |row: &Row| row.variant.load_percent().unwrap_or_default();
        let costs = self.rows[1..].iter().map(|row| {
            let (name, bytes) = (row.variant.short, row.added(plain));
            format!("{name} {bytes:+} ({:.1} %)", load(row))
        });
        let costs: Vec<String> = costs.collect();
        let frame = plain.wires[1].bytes;
        let verdict = format!(
            "A {STUDY_LEN}-byte frame crosses the provider as {frame} bytes and loads a line to \
             {:.1} % at most; {}",
            load(plain),
            costs.join(", ")
        );
        match (self.findings().len(), self.live) {
            (0, true) => verdict + "; every file arrived intact.",
            (0, false) => verdict + ".",
            (1, _) => verdict + "; 1 check failed.",
            (count, _) => verdict + &format!("; {count} checks failed."),
        }
    }

    /// Head and rows of the table.
    pub fn table(&self) -> Vec<Vec<String>> {
        let head = [
            "variant",
            "PE→P bytes",
            "P→PE bytes",
            "over frame",
            "→ Mbit/s",
            "← Mbit/s",
            "rtt µs",
            "loss %",
            "file",
        ];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        table.extend(self.rows.iter().map(|row| {
            let over = row.wires[1].bytes as i64 - STUDY_LEN as i64;
            let file = match &row.file {
                None => "-",
                Some(file) if file.matches => "intact",
                Some(_) => "CHANGED",
            };
            vec![
                row.variant.name.to_owned(),
                row.wires[0].bytes.to_string(),
                row.wires[1].bytes.to_string(),
                format!("{over:+}"),
                format!("{:.0}", row.throughput[0] / 1e6),
                format!("{:.0}", row.throughput[1] / 1e6),
                format!("{:.0}", row.rtt.median_us),
                format!("{:.2}", row.loss_percent()),
                file.to_owned(),
            ]
        }));
        table
    }

    /// For the terminal.
    pub fn text(&self, paint: Paint, report: &Path, keep: Option<&Path>) -> String {
        let mut text = format!("{}\n\n", paint.bold(self.verdict()));
        text += &aligned(&self.table(), paint);
        text += &format!("\n{}\n", paint.faint(self.note()));
        for finding in self.findings() {
            text += &format!("{} {finding}\n", paint.fault("failed:"));
        }
        text += &format!("report: {}\n", report.display());
        if let Some(keep) = keep {
            text += &format!("captures, configurations, logs: {}\n", keep.display());
        }
        text += "\nTry next:\n";
        for (command, why) in NEXT {
            text += &format!("  {command:<74} {}\n", paint.faint(why));
        }
        text
    }

    /// For a program.
    pub fn json(&self, report: &Path) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(row_json).collect();
        json!({
            "mode": if self.live { "live" } else { "virtual" },
            "frame_bytes": STUDY_LEN,
            "verdict": self.verdict(),
            "note": self.note(),
            "variants": rows,
            "failed": self.findings(),
            "report": report,
        })
    }
}

/// What a person may want to see next.
const NEXT: [(&str, &str); 3] = [
    ("ferrule overhead 'esp aes-gcm-128 tunnel | mpls cw'", "where each byte goes"),
    (
        "ferrule overhead --compare 'macsec sci | mpls cw' 'esp aes-gcm-128 | mpls cw'",
        "side by side",
    ),
    ("ferrule init gateway --pair --dir gateways", "two gateways of your own"),
];

fn row_json(row: &Row) -> Value {
    let wire = |wire: &OnWire| serde_json::to_value(wire).unwrap_or_default();
    json!({
        "variant": row.variant.key,
        "name": row.variant.name,
        "stack": row.variant.stack(1).map(|stack| stack.to_string()).unwrap_or_default(),
        "pe_to_p": wire(&row.wires[0]),
        "p_to_pe": wire(&row.wires[1]),
        "overhead_bytes": row.wires[1].bytes as i64 - STUDY_LEN as i64,
        "throughput_bps": { "forward": row.throughput[0], "reverse": row.throughput[1] },
        "rtt": row.rtt,
        "frames": row.delivery,
        "loss_percent": row.loss_percent(),
        "file": row.file,
        "tshark": row.tshark,
        "captures": row.captures,
    })
}

/// Columns under one another: words to the left, numbers to the right.
fn aligned(table: &[Vec<String>], paint: Paint) -> String {
    let columns = table.first().map_or(0, Vec::len);
    let widest =
        |at: usize| table.iter().filter_map(|row| row.get(at)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|at| widest(at).unwrap_or(0)).collect();
    let mut text = String::new();
    for (number, row) in table.iter().enumerate() {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
            let pad = " ".repeat(width - cell.chars().count());
            if at == 0 { format!("{cell}{pad}") } else { format!("{pad}{cell}") }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text += &if number == 0 { paint.faint(line) } else { line };
        text.push('\n');
    }
    text
}
