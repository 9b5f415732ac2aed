//! Result of the demo, for a person and for a program: a verdict in one line, one table, and what
//! did not hold.

use super::plan::{Protect, REFUSED_PORT, STUDY_LEN, Variant};
use super::traffic::{Delivery, Fetched, RoundTrips};
use super::tshark;
use super::wiretap::OnWire;
use crate::paint::Paint;
use ferrule_report::{Column, Live, Measure, Model, Origin, Table, terminal};
use std::path::{Path, PathBuf};

/// Results of all variants.
pub struct Outcome {
    /// Measured on real interfaces; else on virtual wires.
    pub live: bool,
    /// Rows in the order in which they ran.
    pub rows: Vec<Row>,
}

/// One variant.
pub struct Row {
    /// The variant.
    pub variant: Variant,
    /// The study's frame from PE to P, and from P to PE.
    pub wires: [OnWire; 2],
    /// Echo requests.
    pub rtt: RoundTrips,
    /// The study's frames from host to host.
    pub delivery: Delivery,
    /// The flow that PE1's list refuses.
    pub refused: Refused,
    /// Bits per second to the second host, and back.
    pub throughput: [f64; 2],
    /// The file, where there is a stock client.
    pub file: Option<Fetched>,
    /// Verdict of tshark on both captures, if it is installed.
    pub tshark: [Option<tshark::Verdict>; 2],
    /// Captures that are kept.
    pub captures: Vec<PathBuf>,
}

/// A flow that PE1's list refuses where it can see it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refused {
    /// Packets that the first host sent.
    pub sent: u32,
    /// Packets that reached the second host.
    pub arrived: u32,
    /// Packets that the list counted as denied.
    pub denied: u64,
}

/// Limits of the figures for throughput and round trip.
pub const LIVE_NOTE: &str = "live: one process per node on veth pairs of one machine. veth and \
    whatever else the machine does limit throughput and round trip: they compare the rows of this \
    run, roughly, and are no rates of Ferrule";
/// Limits of the figures of a run in virtual time.
pub const VIRTUAL_NOTE: &str = "virtual: the same network in the laboratory, in virtual time: links of \
    1 Gbit/s and 5 µs, nodes that take no time. Mbit/s (TCP) and round trip say what the octets cost \
    a line, not what a processor can do; `ferrule lab run two-sites` has more";
/// Legend of the columns.
const LEGEND: &str = "PE1–P, P–PE2: bytes there, without FCS, of the study's tagged 1000-byte frame: 996 \
    from the host, 4 are the 802.1Q tag that the CE's access port adds; added: from P to PE2, over \
    the frame; Mbit/s: to host2/back; rtt: median; loss: of the study's frames";

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

    /// True if PE1's list sees the packets of a site: nothing seals them before.
    fn is_seen(&self) -> bool {
        self.variant.protect == Protect::Nothing
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
        let Refused { sent, arrived, denied } = self.refused;
        let (passes, hits) = if self.is_seen() { (0, sent.into()) } else { (sent, 0) };
        let counted = format!("{denied} of {sent} denied by PE1's list, {arrived} arrived");
        expect((arrived, denied) == (passes, hits), counted);
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
    /// Findings: expectations that do not hold.
    pub fn findings(&self) -> Vec<String> {
        self.rows.iter().flat_map(Row::findings).collect()
    }

    /// One line: what PE1's list refused.
    pub fn refused(&self) -> String {
        let said = self.rows.iter().map(|row| {
            let Refused { sent, denied, .. } = row.refused;
            format!("{}: {denied} of {sent}", row.variant.short)
        });
        let said = said.collect::<Vec<_>>().join(", ");
        format!(
            "PE1's access list (`show acl`) denies UDP to port {REFUSED_PORT}; it refused of that \
             flow {said}. What the site seals, no list of the provider sees"
        )
    }

    /// Origin and limits of the figures.
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
            "{STUDY_LEN} bytes cross as {frame} (a line carries {:.1} %); {}",
            load(plain),
            costs.join(", ")
        );
        match (self.findings().len(), self.live) {
            (0, true) => verdict + "; all files intact.",
            (0, false) => verdict + "; all files intact.",
            (1, _) => verdict + "; 1 check failed.",
            (count, _) => verdict + &format!("; {count} checks failed."),
        }
    }

    /// The figures, all of one origin.
    pub fn table(&self) -> Table {
        if self.live { self.table_of::<Live>() } else { self.table_of::<Model>() }
    }

    fn table_of<K: Origin>(&self) -> Table {
        let plain = |value: f64| K::from(Measure::new(value));
        let numbers = |head: &str, unit: &str, value: &dyn Fn(&Row) -> f64| {
            Column::numbers(head, unit, self.rows.iter().map(|row| plain(value(row)))).decimals(0)
        };
        let file = |row: &Row| match &row.file {
            None => "-",
            Some(file) if file.matches => "intact",
            Some(_) => "CHANGED",
        };
        let rates =
            |row: &Row| format!("{:.0}/{:.0}", row.throughput[0] / 1e6, row.throughput[1] / 1e6);
        Table::new("variants", "What each way costs")
            .column(Column::words("variant", self.rows.iter().map(|row| row.variant.name)))
            .column(numbers("PE1–P", "", &|row| row.wires[0].bytes as f64))
            .column(numbers("P–PE2", "", &|row| row.wires[1].bytes as f64))
            .column(numbers("added", "", &|row| row.wires[1].bytes as f64 - STUDY_LEN as f64))
            .column(Column::findings::<K>("Mbit/s", self.rows.iter().map(rates)))
            .column(numbers("rtt", "µs", &|row| row.rtt.median_us))
            .column(numbers("loss", "%", &Row::loss_percent).decimals(2))
            .column(Column::findings::<K>("file", self.rows.iter().map(file)))
            .note(LEGEND)
    }

    /// For the terminal.
    pub fn text(&self, paint: Paint, report: &Path, keep: Option<&Path>) -> String {
        let terminal = paint.terminal();
        let mut text = format!("{}\n\n", paint.bold(self.verdict()));
        text += &terminal::render_table(&self.table(), terminal);
        text += &terminal::render_note(&self.refused(), terminal);
        text += &terminal::render_note(self.note(), terminal);
        for finding in self.findings() {
            text += &format!("{} {finding}\n", paint.fault("failed:"));
        }
        if let Some(keep) = keep {
            text += &format!("\ncaptures, keys, configurations, logs: {}\n", keep.display());
        }
        let program = std::env::args().next().unwrap_or_else(|| "ferrule".into());
        text += "\nTry next:\n";
        for (command, why) in NEXT {
            text += &format!("  {program} {command:<55} {}\n", paint.faint(why));
        }
        // The address stands last, where one looks for it.
        text + &format!("\nreport: {}\n", paint.bold(format!("file://{}", report.display())))
    }
}

/// Commands to try next.
const NEXT: [(&str, &str); 3] = [
    ("overhead 'esp aes-gcm-128 tunnel | mpls cw'", "where each byte goes"),
    ("init gateway --pair --dir gateways", "two gateways of your own"),
    ("demo --keep --out kept", "keeps captures, keys, configurations"),
];

#[cfg(test)]
mod tests {
    use super::super::plan::VARIANTS;
    use super::*;

    fn outcome() -> Outcome {
        let row = |variant: Variant| {
            let wire = |labels| {
                let expected_bytes = variant.expected(labels).expect("a stack");
                OnWire { bytes: expected_bytes, labels, frames: 10, expected_bytes }
            };
            let sha256 = ["aa".to_owned(), "aa".to_owned()];
            Row {
                variant,
                wires: [wire(2), wire(1)],
                rtt: RoundTrips { sent: 5, received: 5, median_us: 321.0 },
                delivery: Delivery { sent: 10, received: 10, spoilt: 0 },
                refused: match variant.protect {
                    Protect::Nothing => Refused { sent: 20, arrived: 0, denied: 20 },
                    _ => Refused { sent: 20, arrived: 20, denied: 0 },
                },
                throughput: [2e9, 1e9],
                file: Some(Fetched { bytes: 8, sha256, matches: true, seconds: 1.0 }),
                tshark: [None, None],
                captures: Vec::new(),
            }
        };
        Outcome { live: true, rows: VARIANTS.map(row).into() }
    }

    #[test]
    fn demo_table_fits_a_terminal_and_says_what_was_measured() {
        let text = outcome().text(Paint::plain(80), Path::new("/r.html"), None);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("1022") && lines[0].contains("ESP-CBC-SHA1 +62 (92.4 %)"));
        let rows: Vec<_> = lines.iter().filter(|line| line.ends_with("intact")).collect();
        assert_eq!(rows.len(), 4, "{text}");
        assert!(rows.iter().all(|row| row.chars().count() <= 80), "{text}");
        let cells: Vec<_> = rows[2].split_whitespace().skip(3).collect();
        assert_eq!(cells, ["1088", "1084", "84", "2000/1000", "321", "0.00", "intact"], "{text}");
        assert!(text.contains("What each way costs  live") && text.contains("Try next"), "{text}");
        assert_eq!(lines.last(), Some(&"report: file:///r.html"), "the address stands last");
    }

    #[test]
    fn demo_findings_name_each_figure_that_does_not_hold() {
        assert_eq!(outcome().findings(), Vec::<String>::new());
        type Change = (fn(&mut Row), &'static str);
        let spoil: [Change; 10] = [
            (|row| row.wires[1].bytes += 4, "the calculator says 1054"),
            (|row| row.wires[0].labels = 1, "1 labels on pe1–p"),
            (|row| row.wires[1].frames = 9, "9 frames captured on p–pe2"),
            (|row| row.delivery.received = 0, "none of the study's frames"),
            (|row| row.delivery.spoilt = 1, "twice or broken"),
            (|row| row.refused.denied = 1, "1 of 20 denied by PE1's list"),
            (|row| row.refused.arrived = 19, "19 arrived"),
            (|row| row.file.as_mut().expect("a file").matches = false, "SHA-256"),
            (|row| row.tshark[0] = Some(verdict(3, true)), "complains about 3"),
            (|row| row.tshark[1] = Some(verdict(0, false)), "every layer: eth"),
        ];
        for (change, words) in spoil {
            let mut outcome = outcome();
            change(&mut outcome.rows[1]);
            let found = outcome.findings();
            assert!(found.len() == 1 && found[0].contains(words), "{found:?}, not {words}");
            assert!(found[0].starts_with("MACsec") && outcome.verdict().contains("failed"));
            let document = super::super::html::document(&outcome, Path::new("r"));
            assert!(ferrule_report::json::render(&document).contains(words), "{words}");
        }
    }

    #[test]
    fn demo_json_is_a_report_that_reads_back_with_every_measure() {
        let document = super::super::html::document(&outcome(), Path::new("/r.html"));
        let text = ferrule_report::json::render(&document);
        assert!(text.contains("\"ferrule-report/1\""), "{text}");
        let back = ferrule_report::json::read(&text).expect("it reads back");
        assert_eq!(back, document);
        let rows = |id: &str| back.tables().find(|t| t.id == id).map(ferrule_report::Table::rows);
        for (id, count) in [
            ("variants", 4),
            ("wires", 8),
            ("traffic", 4),
            ("refused", 4),
            ("file", 4),
            ("files", 1),
        ] {
            assert_eq!(rows(id), Some(count), "{id}");
        }
    }

    fn verdict(complaints: usize, complete: bool) -> tshark::Verdict {
        tshark::Verdict { layers: "eth".into(), complaints, complete }
    }

    #[test]
    fn demo_report_stands_alone_and_has_the_figures() {
        let outcome = outcome();
        let page = ferrule_report::html::render(&super::super::html::document(
            &outcome,
            Path::new("/r.html"),
        ));
        for size in [1022, 1026, 1054, 1058, 1084, 1088, 1072, 1076] {
            assert!(page.contains(&format!(">{size}</td>")), "{size}");
        }
        // Four bars of three parts, for wide and for narrow screens, and their legends.
        assert_eq!(page.matches("<rect").count(), 2 * (4 * 3 + 3));
        assert!(page.contains("ESP-GCM +50") && page.contains(LIVE_NOTE), "verdict and note");
        assert!(page.contains("class=\"kind live\"") && !page.contains("class=\"kind model\""));
        let in_lab = Outcome { live: false, ..outcome };
        let page = ferrule_report::html::render(&super::super::html::document(
            &in_lab,
            Path::new("/r.html"),
        ));
        assert!(page.contains("class=\"kind model\"") && !page.contains("class=\"kind live\""));
    }
}
