//! The Prometheus endpoint, `GET /metrics`, and whether the node's main thread
//! answers, `GET /healthz`. (A worker that hangs is the watchdog's to see.)
//!
//! ```text
//!   scraper ─▶ its thread ── "asked" ──▶ main thread ── report ─┐
//!           ◀─ text ◀───────────────────────────────────────────┘
//! ```
//!
//! One question at a time; who comes a moment later gets the same answer. Names and
//! labels are as many as the configuration has.

use crate::fault::Fault;
use crate::missed::causes;
use crate::report::Report;
use crate::runtime::Board;
use ferrule_dashboard::Server;
use ferrule_dashboard::http::{Body, Request, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the node may take to say what it counted.
const ANSWER_WAIT: Duration = Duration::from_secs(2);
/// Counters that are not older than this are given again: many scrapers cost the
/// node no more than one.
const FRESH: Duration = Duration::from_millis(250);

const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The endpoint's side at the main thread.
pub struct Metrics {
    asked: Arc<AtomicBool>,
    answers: SyncSender<String>,
    _server: Server,
}

/// The endpoint's side at the connections, one of which asks at a time.
struct Desk {
    asked: Arc<AtomicBool>,
    answers: Receiver<String>,
    last: Option<(Instant, Arc<[u8]>)>,
}

impl Metrics {
    /// Serves on a listener, from threads of its own.
    pub fn serve(listener: TcpListener, board: &Arc<Board>) -> Result<Self, Fault> {
        let (answers, texts) = sync_channel(1);
        let asked = Arc::new(AtomicBool::new(false));
        let desk = Mutex::new(Desk { asked: asked.clone(), answers: texts, last: None });
        let board = board.clone();
        let server = Server::start("metrics", listener, move |request| {
            respond(request, &mut desk.lock().unwrap_or_else(PoisonError::into_inner), &board)
        });
        let server = server.map_err(|e| {
            Fault::environment(format!("metrics: {e}"), "leave metrics out of [node]")
        })?;
        Ok(Self { asked, answers, _server: server })
    }

    /// True if a scraper waits for an answer.
    pub fn is_asked(&self) -> bool {
        self.asked.swap(false, Ordering::SeqCst)
    }

    /// Gives the answer.
    pub fn answer(&self, text: String) {
        // Full: the scraper went away and nobody took the last one.
        let _ = self.answers.try_send(text);
    }
}

fn respond(request: &Request, desk: &mut Desk, board: &Board) -> Response {
    let read = matches!(request.method.as_str(), "GET" | "HEAD");
    if !read || !["/metrics", "/healthz"].contains(&request.path.as_str()) {
        return Response::text(404, "see /metrics and /healthz\n");
    }
    match desk.counters(board) {
        Some(_) if request.path == "/healthz" => Response::text(200, "ok\n"),
        Some(text) => Response { status: 200, kind: KIND, body: Body::Made(text) },
        None => Response::text(503, "the node does not answer\n"),
    }
}

impl Desk {
    fn counters(&mut self, board: &Board) -> Option<Arc<[u8]>> {
        if let Some((_, text)) = self.last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Some(text.clone());
        }
        while self.answers.try_recv().is_ok() {}
        self.asked.store(true, Ordering::SeqCst);
        board.control.wake().wake();
        let text: Arc<[u8]> = self.answers.recv_timeout(ANSWER_WAIT).ok()?.into_bytes().into();
        self.last = Some((Instant::now(), text.clone()));
        Some(text)
    }
}

/// A report as Prometheus reads it.
pub fn text(report: &Report) -> String {
    let mut registry = Registry::with_prefix("ferrule");
    registry.register_collector(Box::new(Counters(report.clone())));
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = encode(&mut out, &registry);
    out
}

type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
struct Counters(Report);

/// One name with its help and all its label sets.
fn family(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl Iterator<Item = (Labels, u64)>,
) -> Result<(), std::fmt::Error> {
    let mut values = values.peekable();
    if values.peek().is_none() {
        return Ok(());
    }
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in values {
        let labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (*k, v.as_str())).collect();
        ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

impl Collector for Counters {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let report = &self.0;
        let e = &mut encoder;
        node(e, report)?;
        ports(e, report)?;
        let drops = report.drops.iter();
        let drops = drops.map(|d| (vec![("reason", d.reason.clone())], d.packets));
        family(e, "dropped_packets", "Packets dropped, by reason", drops)?;
        let answers = report.answers.iter().flat_map(|a| {
            [("sent", a.sent), ("rate-limited", a.limited)].map(|(fate, count)| {
                (vec![("message", a.answer.clone()), ("fate", fate.to_owned())], count)
            })
        });
        family(e, "icmp_answers", "ICMP messages that answered packets, by name", answers)?;
        let of_cards = report.cards.iter().flat_map(|card| {
            card.drops.iter().map(|d| {
                (vec![("port", card.port.clone()), ("reason", d.reason.clone())], d.packets)
            })
        });
        family(e, "card_dropped_packets", "Packets dropped by cards, by reason", of_cards)?;
        sas(e, report)?;
        let macsec = report.macsec.iter().flat_map(|m| {
            m.counters.iter().map(|(name, value)| {
                let labels = vec![
                    ("port", m.port.clone()),
                    ("way", m.way.clone()),
                    ("sci", m.sci.clone()),
                    ("an", m.an.to_string()),
                    ("counter", name.clone()),
                ];
                (labels, *value)
            })
        });
        family(e, "macsec", "Counters of MACsec associations, by 802.1AE's names", macsec)?;
        engines(e, report)?;
        let l = &report.ledger;
        let ledger = [
            ("received", l.received),
            ("made", l.made),
            ("sent", l.sent),
            ("consumed", l.consumed),
            ("dropped", l.dropped),
        ];
        let ledger = ledger.into_iter().map(|(k, v)| (vec![("kind", k.to_owned())], v));
        family(e, "packets", "Where packets came from and went", ledger)?;
        let gauge = MetricType::Gauge;
        let held = e.encode_descriptor("held_packets", "Packets inside", None, gauge)?;
        ConstGauge::new(l.held as i64).encode(held)
    }
}

fn node(e: &mut DescriptorEncoder<'_>, report: &Report) -> Result<(), std::fmt::Error> {
    let labels =
        vec![("node", report.node.clone()), ("version", env!("CARGO_PKG_VERSION").to_owned())];
    gauge_family(e, "build_info", "What runs; its value is 1", vec![(labels, 1)])?;
    let gauge = MetricType::Gauge;
    let uptime = e.encode_descriptor("uptime_seconds", "Seconds since the start", None, gauge)?;
    ConstGauge::new((report.uptime_ms / 1000) as i64).encode(uptime)
}

fn ports(e: &mut DescriptorEncoder<'_>, report: &Report) -> Result<(), std::fmt::Error> {
    type Value = fn(&crate::report::PortView) -> u64;
    let families: [(&str, &str, Value); 9] = [
        ("port_received_packets", "Frames received", |p| p.rx_packets),
        ("port_received_octets", "Octets received", |p| p.rx_octets),
        ("port_sent_packets", "Frames sent", |p| p.tx_packets),
        ("port_sent_octets", "Octets sent", |p| p.tx_octets),
        ("port_missed_packets", "Frames that the port could not take", |p| p.rx_missed),
        ("port_failed_packets", "Frames that the wire refused", |p| p.tx_failed),
        ("port_refused_packets", "Frames that contradicted their description", |p| p.rx_refused),
        ("port_cut_super_frames", "Super-frames cut on the way in", |p| p.rx_supers),
        ("port_joined_super_frames", "Super-frames made on the way out", |p| p.tx_supers),
    ];
    for (name, help, value) in families {
        let values = report.ports.iter().map(|p| (vec![("port", p.name.clone())], value(p)));
        family(e, name, help, values)?;
    }
    let causes = report.ports.iter().flat_map(|p| {
        causes(&p.missed()).map(|(cause, count)| {
            (vec![("port", p.name.clone()), ("cause", cause.name().into())], count)
        })
    });
    family(e, "port_missed_causes", "Frames that the port could not take, by cause", causes)?;
    let up = report.ports.iter().map(|p| (vec![("port", p.name.clone())], u64::from(p.up)));
    gauge_family(e, "port_up", "Whether the port has its device and a carrier", up.collect())
}

fn engines(e: &mut DescriptorEncoder<'_>, report: &Report) -> Result<(), std::fmt::Error> {
    let labels = |v: &crate::report::EngineView| {
        vec![("worker", v.worker.to_string()), ("placement", v.placement.clone())]
    };
    let counted = report.engines.iter().flat_map(|v| {
        let mine = v.counters.iter();
        mine.map(move |(name, value)| {
            (labels(v).into_iter().chain([("counter", name.clone())]).collect(), *value)
        })
    });
    family(e, "engine", "Counters of engines", counted)?;
    type Value = fn(&crate::report::EngineView) -> usize;
    let gauges: [(&str, &str, Value); 4] = [
        ("engine_up", "Whether the engine works", |v| usize::from(v.state == "works")),
        ("engine_in_flight", "Jobs under way", |v| v.in_flight),
        ("engine_depth", "Jobs under way at most", |v| v.depth),
        ("engine_keys", "Keys that it has", |v| v.keys),
    ];
    for (name, help, value) in gauges {
        let values = report.engines.iter().map(|view| (labels(view), value(view) as u64));
        gauge_family(e, name, help, values.collect())?;
    }
    latencies(e, report)?;
    rings(e, report)
}

fn latencies(e: &mut DescriptorEncoder<'_>, report: &Report) -> Result<(), std::fmt::Error> {
    type Value = fn(&crate::report::LatencyView) -> u64;
    let quantiles: [(&str, Value); 3] =
        [("0.5", |l| l.median_us), ("0.99", |l| l.p99_us), ("1", |l| l.max_us)];
    let all = report.engines.iter().flat_map(|v| v.latencies.iter().map(move |l| (v, l)));
    let measured: Vec<_> = all.filter(|(_, (_, l))| l.count > 0).collect();
    let values = measured.iter().flat_map(|(v, (of, l))| {
        quantiles.iter().map(move |(quantile, value)| {
            let labels = vec![
                ("worker", v.worker.to_string()),
                ("placement", v.placement.clone()),
                ("of", (*of).clone()),
                ("quantile", (*quantile).to_owned()),
            ];
            (labels, value(l))
        })
    });
    let help = "How long engines took, in microseconds";
    gauge_family(e, "engine_latency_microseconds", help, values.collect())
}

fn rings(e: &mut DescriptorEncoder<'_>, report: &Report) -> Result<(), std::fmt::Error> {
    type Value = fn(&crate::report::RingView) -> u64;
    let gauges: [(&str, &str, Value); 5] = [
        ("ring_blocks", "Blocks of key stream made ahead", |r| r.filled),
        ("ring_size_blocks", "Blocks that a ring can hold", |r| r.size),
        ("ring_start_blocks", "With fewer blocks a ring is filled", |r| r.start),
        ("ring_stop_blocks", "With so many blocks a ring rests", |r| r.stop),
        ("ring_ahead", "Packets made ahead; in the study's mode blocks", |r| r.ahead),
    ];
    let all: Vec<_> =
        report.engines.iter().flat_map(|v| v.rings.iter().map(move |r| (v, r))).collect();
    for (name, help, value) in gauges {
        let values = all.iter().map(|(v, r)| {
            let labels = vec![
                ("worker", v.worker.to_string()),
                ("key", r.key.clone()),
                ("op", r.op.clone()),
                ("mode", r.mode.clone()),
            ];
            (labels, value(r))
        });
        gauge_family(e, name, help, values.collect())?;
    }
    Ok(())
}

/// Gauges of one name; none if there are no values.
fn gauge_family(
    e: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: Vec<(Vec<(&str, String)>, u64)>,
) -> Result<(), std::fmt::Error> {
    if values.is_empty() {
        return Ok(());
    }
    let mut gauge = e.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        let labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (*k, v.as_str())).collect();
        ConstGauge::new(value as i64).encode(gauge.encode_family(&labels)?)?;
    }
    Ok(())
}

fn sas(e: &mut DescriptorEncoder<'_>, report: &Report) -> Result<(), std::fmt::Error> {
    type Value = fn(&crate::report::SaView) -> u64;
    let families: [(&str, &str, Value); 6] = [
        ("esp_packets", "Packets sealed or opened", |s| s.packets),
        ("esp_octets", "Octets of inner packets", |s| s.octets),
        ("esp_replays", "Packets outside the window or seen before", |s| s.replays),
        ("esp_bad_icv", "Packets with a wrong ICV", |s| s.bad_icv),
        ("esp_refused", "Packets opened and not passed on", |s| s.refused),
        ("esp_failed", "Packets not sealed or opened", |s| s.failed),
    ];
    let labels = |s: &crate::report::SaView| {
        vec![("tunnel", s.tunnel.clone()), ("way", s.way.clone()), ("spi", s.spi.clone())]
    };
    for (name, help, value) in families {
        family(e, name, help, report.sas.iter().map(|s| (labels(s), value(s))))?;
    }
    let gauges: [(&str, &str, Value); 2] = [
        ("esp_number", "Out: the next sequence number; in: the highest seen", |s| s.number),
        ("esp_number_max", "The last sequence number that the SA may use", |s| {
            // A gauge has a sign.
            if s.esn { i64::MAX as u64 } else { u64::from(u32::MAX) }
        }),
    ];
    for (name, help, value) in gauges {
        let values = report.sas.iter().map(|s| (labels(s), value(s)));
        gauge_family(e, name, help, values.collect())?;
    }
    let lives = report.sas.iter().filter_map(|s| Some((s, s.life.as_ref()?)));
    let left = lives.clone().flat_map(|(s, life)| {
        let left = life.bounds().filter_map(|(of, bound)| Some((of, bound.left?)));
        left.map(move |(of, left)| {
            let mut labels = labels(s);
            labels.push(("of", of.to_owned()));
            (labels, left)
        })
    });
    let help = "What is left of an SA's life, in packets, octets or seconds";
    gauge_family(e, "esp_life_left", help, left.collect())?;
    let over = lives.map(|(s, life)| (labels(s), u64::from(life.state == "over")));
    gauge_family(e, "esp_life_over", "1 if an SA's hard lifetime is over", over.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{
        AnswerView, DropView, EngineView, LatencyView, MacsecView, PortView, RingView, SaView,
    };

    fn port() -> PortView {
        PortView {
            name: "wan".into(),
            driver: "tap".into(),
            device: "t0".into(),
            mac: String::new(),
            mtu: 1500,
            worker: 0,
            up: true,
            rx_packets: 7,
            rx_octets: 700,
            tx_packets: 8,
            tx_octets: 800,
            rx_missed: 1,
            tx_failed: 2,
            gone: false,
            rx_too_long: 1,
            rx_no_buffer: 0,
            rx_ring_full: 0,
            rx_invalid: 0,
            rx_refused: 0,
            rx_supers: 3,
            rx_segments: 60,
            tx_supers: 4,
            tx_segments: 50,
        }
    }

    fn engines_of_two_places() -> Vec<EngineView> {
        let engine = EngineView {
            worker: 1,
            placement: "look-aside".into(),
            state: "works".into(),
            keys: 2,
            depth: 1024,
            in_flight: 5,
            counters: [("fallbacks".to_owned(), 3)].into(),
            ..EngineView::default()
        };
        let wait = LatencyView { count: 9, median_us: 12_000, p99_us: 16_000, max_us: 17_000 };
        let ring = RingView {
            key: "to-hq".into(),
            op: "seal".into(),
            mode: "standard".into(),
            size: 4096,
            filled: 1000,
            start: 2048,
            stop: 4096,
            ahead: 90,
            ..RingView::default()
        };
        let token = EngineView {
            placement: "token".into(),
            state: "failing".into(),
            counters: [("refetches".to_owned(), 4), ("gone".to_owned(), 2)].into(),
            latencies: [("wait".to_owned(), wait)].into(),
            rings: vec![ring],
            ..EngineView::default()
        };
        vec![engine, token]
    }

    fn report() -> Report {
        let sa = SaView {
            tunnel: "a\"b".into(),
            way: "out".into(),
            spi: "0x00001001".into(),
            number: 10,
            packets: 9,
            mtu: None,
            octets: 900,
            bad_icv: 3,
            ..SaView::default()
        };
        let macsec = MacsecView {
            port: "wan".into(),
            way: "rx".into(),
            sci: "02:00:00:00:00:01/1".into(),
            an: 2,
            next_pn: 5,
            lowest_pn: 4,
            counters: [("InPktsOK".to_owned(), 4)].into(),
        };
        let drop = DropView { reason: "esp-replay".into(), packets: 6, about: String::new() };
        let answer = AnswerView {
            answer: "too-big-v6".into(),
            kind: 2,
            code: 0,
            sent: 8,
            limited: 2,
            about: String::new(),
        };
        Report {
            uptime_ms: 7_900,
            engines: engines_of_two_places(),
            ports: vec![port()],
            sas: vec![sa],
            macsec: vec![macsec],
            drops: vec![drop],
            answers: vec![answer],
            ..Report::default()
        }
    }

    #[test]
    fn metrics_name_every_port_drop_and_association() {
        let text = text(&report());
        for line in [
            "ferrule_port_received_packets_total{port=\"wan\"} 7",
            "ferrule_port_failed_packets_total{port=\"wan\"} 2",
            "ferrule_dropped_packets_total{reason=\"esp-replay\"} 6",
            "ferrule_icmp_answers_total{message=\"too-big-v6\",fate=\"sent\"} 8",
            "ferrule_icmp_answers_total{message=\"too-big-v6\",fate=\"rate-limited\"} 2",
            "ferrule_esp_bad_icv_total{tunnel=\"a\\\"b\",way=\"out\",spi=\"0x00001001\"} 3",
            "ferrule_macsec_total{port=\"wan\",way=\"rx\",sci=\"02:00:00:00:00:01/1\",an=\"2\",\
             counter=\"InPktsOK\"} 4",
            "ferrule_engine_total{worker=\"1\",placement=\"look-aside\",counter=\"fallbacks\"} 3",
            "ferrule_engine_in_flight{worker=\"1\",placement=\"look-aside\"} 5",
            "ferrule_engine_up{worker=\"1\",placement=\"look-aside\"} 1",
            "ferrule_engine_up{worker=\"0\",placement=\"token\"} 0",
            "ferrule_engine_total{worker=\"0\",placement=\"token\",counter=\"refetches\"} 4",
            "ferrule_engine_total{worker=\"0\",placement=\"token\",counter=\"gone\"} 2",
            "ferrule_engine_latency_microseconds{worker=\"0\",placement=\"token\",of=\"wait\",\
             quantile=\"0.99\"} 16000",
            "ferrule_ring_blocks{worker=\"0\",key=\"to-hq\",op=\"seal\",mode=\"standard\"} 1000",
            "ferrule_ring_start_blocks{worker=\"0\",key=\"to-hq\",op=\"seal\",\
             mode=\"standard\"} 2048",
            "ferrule_ring_ahead{worker=\"0\",key=\"to-hq\",op=\"seal\",mode=\"standard\"} 90",
            "ferrule_held_packets 0",
            "ferrule_port_up{port=\"wan\"} 1",
            "ferrule_port_missed_causes_total{port=\"wan\",cause=\"too-long\"} 1",
            "ferrule_uptime_seconds 7",
            "ferrule_esp_number{tunnel=\"a\\\"b\",way=\"out\",spi=\"0x00001001\"} 10",
            "ferrule_esp_number_max{tunnel=\"a\\\"b\",way=\"out\",spi=\"0x00001001\"} 4294967295",
            "# EOF",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn metrics_that_alerts_and_dashboard_name_exist() {
        let text = text(&report());
        let names: Vec<&str> = text
            .lines()
            .filter_map(|l| l.strip_prefix("ferrule_")?.split(['{', ' ']).next())
            .collect();
        let dashboard = include_str!("../../../packaging/monitoring/grafana.json");
        serde_json::from_str::<serde_json::Value>(dashboard).expect("a dashboard is JSON");
        for shipped in [dashboard, include_str!("../../../packaging/monitoring/alerts.yml")] {
            let mut used = shipped.split("ferrule_").skip(1).peekable();
            assert!(used.peek().is_some(), "no metric in {shipped}");
            for rest in used {
                let name = rest.split(|c: char| !c.is_ascii_lowercase() && c != '_').next();
                assert!(names.contains(&name.unwrap_or_default()), "no metric: {name:?}");
            }
        }
    }
}
