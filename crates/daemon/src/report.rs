//! Everything that there is to see of a running node, in one value: `show`
//! prints parts of it, the metrics are made of it, `--json` is it.

pub use crate::associations::SaView;
use crate::associations::sas;
use crate::cards::{CardView, cards};
use crate::lists::{AclView, lists};
use crate::mka::{self, MkaView};
use crate::policies::{PolicyView, in_words, policies};
use ferrule_base::{Answer, Answers, DropReason, Drops, Instant, Ledger};
use ferrule_crypto::{EngineReport, Latency, RingReport};
use ferrule_dataplane::graph::Next;
use ferrule_engines::placed::ENGINE_TIME;
use ferrule_node::ControlView;
use ferrule_node::config::{Config, LabelAction, Via};
use ferrule_node::message::WorkerReport;
use ferrule_pipeline::{Missed, PortStats};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

/// A running node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Name of the node.
    pub node: String,
    /// Milliseconds since it was started.
    pub uptime_ms: u64,
    /// Number of workers.
    pub workers: usize,
    /// Work of each worker.
    pub shares: Vec<ShareView>,
    /// Time of the workers by use, if they keep time (`times` in `[node]`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<TimesView>,
    /// Account of all packets.
    pub ledger: LedgerView,
    /// Ports.
    pub ports: Vec<PortView>,
    /// ESP security associations.
    pub sas: Vec<SaView>,
    /// Entries of the security policies.
    #[serde(default)]
    pub spd: Vec<PolicyView>,
    /// Access lists.
    #[serde(default)]
    pub acl: Vec<AclView>,
    /// MACsec associations.
    pub macsec: Vec<MacsecView>,
    /// Key agreement of MACsec.
    #[serde(default)]
    pub mka: Vec<MkaView>,
    /// The workers' engines.
    #[serde(default)]
    pub engines: Vec<EngineView>,
    /// The cards in ports.
    #[serde(default)]
    pub cards: Vec<CardView>,
    /// Labels, each with its action.
    pub mpls: Vec<LabelView>,
    /// Drops by reason.
    pub drops: Vec<DropView>,
    /// ICMP messages that answered packets.
    #[serde(default)]
    pub answers: Vec<AnswerView>,
    /// Ways through the network.
    pub path: Vec<PathView>,
    /// Addresses that bridges learned.
    pub bridges: Vec<BridgeView>,
    /// Neighbours.
    pub neighbours: Vec<NeighbourView>,
    /// Recent errors, in sentences.
    pub failures: Vec<String>,
}

/// `received + made = sent + consumed + dropped + held`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerView {
    /// Taken from ports.
    pub received: u64,
    /// Made here.
    pub made: u64,
    /// Given to ports.
    pub sent: u64,
    /// Ended here as intended.
    pub consumed: u64,
    /// Dropped, each with a reason.
    pub dropped: u64,
    /// Waiting.
    pub held: u64,
}

/// Work of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareView {
    /// Its number.
    pub worker: u8,
    /// Packets sealed.
    pub sealed: u64,
    /// Packets opened.
    pub opened: u64,
    /// Look-ups in tables.
    pub lookups: u64,
    /// Packets given to other workers and to the control part.
    pub handed_out: u64,
    /// Packets taken from them.
    pub handed_in: u64,
}

/// Time of all workers by use, in nanoseconds: turns in which something moved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimesView {
    /// Receiving and transmitting.
    pub ports: u64,
    /// Stages by name, without those that took none; engines included.
    pub stages: BTreeMap<String, u64>,
    /// Time of engines in the workers' loops, which is part of that of stages.
    pub engines: u64,
    /// Looking for packets where there were none.
    pub idle: u64,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct PortView {
    pub name: String,
    pub driver: String,
    pub device: String,
    pub mac: String,
    pub mtu: usize,
    pub worker: usize,
    pub up: bool,
    pub rx_packets: u64,
    pub rx_octets: u64,
    pub tx_packets: u64,
    pub tx_octets: u64,
    pub rx_missed: u64,
    pub tx_failed: u64,
    /// Its device was deleted, and it is not open on another one yet.
    #[serde(default)]
    pub gone: bool,
    /// Missed since they are longer than a buffer.
    #[serde(default)]
    pub rx_too_long: u64,
    /// Missed for want of a buffer.
    #[serde(default)]
    pub rx_no_buffer: u64,
    /// Missed since the ring to the node was full.
    #[serde(default)]
    pub rx_ring_full: u64,
    /// Missed since their description named no buffer of ours.
    #[serde(default)]
    pub rx_invalid: u64,
    /// Frames that contradicted their description.
    #[serde(default)]
    pub rx_refused: u64,
    /// Super-frames cut on the way in.
    #[serde(default)]
    pub rx_supers: u64,
    /// Frames that they became.
    #[serde(default)]
    pub rx_segments: u64,
    /// Super-frames made on the way out.
    #[serde(default)]
    pub tx_supers: u64,
    /// Frames that are in them.
    #[serde(default)]
    pub tx_segments: u64,
}

impl PortView {
    /// Missed frames by cause, as far as that is known.
    pub fn missed(&self) -> Missed {
        Missed {
            too_long: self.rx_too_long,
            no_buffer: self.rx_no_buffer,
            ring_full: self.rx_ring_full,
            invalid: self.rx_invalid,
        }
    }
}

/// A MACsec secure association.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct MacsecView {
    pub port: String,
    /// `tx` or `rx`.
    pub way: String,
    pub sci: String,
    pub an: u8,
    /// Sending: the next packet number. Receiving: one above the highest.
    pub next_pn: u64,
    /// Receiving: the lowest acceptable number.
    pub lowest_pn: u64,
    /// Counters by their name in the standard, without those that are zero.
    pub counters: BTreeMap<String, u64>,
}

/// An engine of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineView {
    /// The worker whose jobs it does.
    pub worker: u8,
    /// The word of its placement.
    pub placement: String,
    /// Implementation: a backend, a token's profile.
    #[serde(default)]
    pub with: String,
    /// Its state, in a word.
    pub state: String,
    /// Keys that it has.
    pub keys: usize,
    /// Jobs that it takes at most.
    pub depth: usize,
    /// Jobs under way.
    pub in_flight: usize,
    /// Its counters, by name.
    pub counters: BTreeMap<String, u64>,
    /// Latencies by name.
    #[serde(default)]
    pub latencies: BTreeMap<String, LatencyView>,
    /// Key stream made ahead.
    #[serde(default)]
    pub rings: Vec<RingView>,
}

/// Latency of one kind, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct LatencyView {
    pub count: u64,
    pub median_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
}

/// Key stream made ahead for one SA on a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingView {
    /// The key's label.
    pub key: String,
    /// `seal` or `open`.
    pub op: String,
    /// `standard`, or `study`.
    pub mode: String,
    /// `fills`, `rests`, `asleep` or `broken`.
    pub state: String,
    /// Blocks that it can hold.
    pub size: u64,
    /// Blocks in it.
    pub filled: u64,
    /// With fewer it begins to be filled.
    pub start: u64,
    /// With so many it rests.
    pub stop: u64,
    /// Packets made ahead; in the study's mode blocks.
    pub ahead: u64,
    /// Blocks of text that are made of every packet.
    pub least: u16,
    /// Blocks of text that are made of a near packet.
    pub most: u16,
}

/// Action for a label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct LabelView {
    pub label: u32,
    pub action: String,
    pub labels_out: Vec<u32>,
    pub via: String,
    /// A program gave it, not the file.
    #[serde(default)]
    pub dynamic: bool,
}

/// Drops for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct DropView {
    pub reason: String,
    pub packets: u64,
    pub about: String,
}

/// An ICMP message that answered packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerView {
    /// Its name.
    pub answer: String,
    /// ICMP type.
    pub kind: u8,
    /// ICMP code.
    pub code: u8,
    /// Messages made.
    pub sent: u64,
    /// Messages that the rate limit held back; their packets are among the drops.
    pub limited: u64,
    /// One sentence for people.
    pub about: String,
}

/// Path of packets to a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct PathView {
    pub vrf: String,
    pub prefix: String,
    pub via: String,
    pub labels: Vec<u32>,
    pub mtu: usize,
    /// The tunnel that the policy of the way out sends it through.
    pub policy: String,
    /// A program gave it, not the file.
    #[serde(default)]
    pub dynamic: bool,
}

/// An address that a bridge learned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct BridgeView {
    pub bridge: String,
    pub vlan: u16,
    pub mac: String,
    pub interface: String,
    pub age_seconds: u32,
}

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct NeighbourView {
    pub interface: String,
    pub address: String,
    pub mac: String,
}

impl From<Ledger> for LedgerView {
    fn from(l: Ledger) -> Self {
        Self {
            received: l.received,
            made: l.made,
            sent: l.sent,
            consumed: l.consumed,
            dropped: l.dropped,
            held: l.held,
        }
    }
}

/// Facts for a report that the daemon knows and the control part does not.
pub struct Outside {
    /// The node's time.
    pub now: Instant,
    /// Addresses of the ports, in the order of the configuration.
    pub macs: Vec<ferrule_base::MacAddr>,
    /// Recent errors.
    pub failures: Vec<String>,
    /// Ports whose device is gone.
    pub gone: HashSet<String>,
}

impl Report {
    /// Puts together what workers and control part know.
    pub fn of(control: &ControlView, workers: &[Box<WorkerReport>], outside: &Outside) -> Self {
        let config = control.config();
        let mut drops = control.drops().clone();
        let mut answers = Answers::default();
        workers.iter().for_each(|w| {
            drops.merge(&w.drops);
            answers.merge(&w.answers);
        });
        Self {
            node: config.name.clone(),
            uptime_ms: outside.now.as_nanos() / 1_000_000,
            workers: control.workers(),
            shares: shares(workers),
            times: times(workers),
            ledger: control.ledger(workers).into(),
            ports: ports(control, workers, outside),
            sas: sas(config, workers),
            spd: policies(config, workers),
            acl: lists(config, workers),
            macsec: macsec(control, workers),
            mka: mka::views(control),
            engines: engines(workers),
            cards: cards(control, workers),
            mpls: labels(control),
            drops: drop_views(&drops),
            answers: answer_views(&answers),
            path: paths(control),
            bridges: bridges(control, outside.now),
            neighbours: neighbours(control),
            failures: outside.failures.clone(),
        }
    }
}

fn engines(workers: &[Box<WorkerReport>]) -> Vec<EngineView> {
    let view = |worker: u8, e: &EngineReport| EngineView {
        worker,
        placement: e.place.into(),
        with: e.with.clone(),
        state: e.state.into(),
        keys: e.keys,
        depth: e.depth,
        in_flight: e.in_flight,
        counters: e.counters.iter().map(|&(name, n)| (name.to_owned(), n)).collect(),
        latencies: e.latencies.iter().map(|&(name, l)| (name.to_owned(), latency(l))).collect(),
        rings: e.rings.iter().map(ring).collect(),
    };
    let each = workers.iter().flat_map(|w| w.engines.iter().map(|e| view(w.worker, e)));
    let mut all: Vec<_> = each.collect();
    all.sort_by(|a, b| (a.worker, &a.placement).cmp(&(b.worker, &b.placement)));
    all
}

fn latency(l: Latency) -> LatencyView {
    let [median_us, p99_us, max_us] = [l.median, l.p99, l.most].map(|d| d.as_micros() as u64);
    LatencyView { count: l.count, median_us, p99_us, max_us }
}

fn ring(r: &RingReport) -> RingView {
    RingView {
        key: r.key.clone(),
        op: r.op.into(),
        mode: r.mode.into(),
        state: r.state.into(),
        size: r.size,
        filled: r.filled,
        start: r.start,
        stop: r.stop,
        ahead: r.ahead,
        least: r.depth.0,
        most: r.depth.1,
    }
}

fn shares(workers: &[Box<WorkerReport>]) -> Vec<ShareView> {
    let share = |w: &WorkerReport| ShareView {
        worker: w.worker,
        sealed: w.work.sealed.packets,
        opened: w.work.opened.packets,
        lookups: w.work.lookups,
        handed_out: w.handed_out,
        handed_in: w.handed_in,
    };
    let mut all: Vec<_> = workers.iter().map(|w| share(w)).collect();
    all.sort_by_key(|s| s.worker);
    all
}

fn times(workers: &[Box<WorkerReport>]) -> Option<TimesView> {
    let mut view = TimesView::default();
    for (worker, times) in workers.iter().filter_map(|w| Some((w, w.times?))) {
        view.ports += times.ports;
        view.idle += times.idle;
        let stages = Next::ALL.into_iter().zip(times.stages).filter(|(_, time)| *time > 0);
        stages.for_each(|(next, time)| *view.stages.entry(next.name().into()).or_default() += time);
        let counters = worker.engines.iter().flat_map(|engine| &engine.counters);
        let busy = counters.filter(|(name, _)| *name == ENGINE_TIME).map(|(_, time)| time);
        view.engines += busy.sum::<u64>();
    }
    workers.iter().any(|w| w.times.is_some()).then_some(view)
}

fn ports(control: &ControlView, workers: &[Box<WorkerReport>], outside: &Outside) -> Vec<PortView> {
    let config = control.config();
    let all = config.ports.iter().enumerate().zip(&outside.macs);
    all.map(|((index, port), mac)| {
        let id = control.port_id(index);
        // Each queue is counted by its own worker.
        let (mut stats, mut up) = (PortStats::default(), false);
        for (_, queue, is_up) in workers.iter().flat_map(|w| &w.ports).filter(|(p, ..)| *p == id) {
            stats.merge(queue);
            up |= is_up;
        }
        let gone = outside.gone.contains(&port.name);
        PortView {
            name: port.name.clone(),
            driver: port.driver.name().into(),
            device: port.driver.device().unwrap_or_default().into(),
            mac: mac.to_string(),
            mtu: port.mtu,
            worker: port.worker,
            up: up && !gone,
            rx_packets: stats.rx.packets,
            rx_octets: stats.rx.octets,
            tx_packets: stats.tx.packets,
            tx_octets: stats.tx.octets,
            rx_missed: stats.rx_missed,
            gone,
            rx_too_long: stats.missed.too_long,
            rx_no_buffer: stats.missed.no_buffer,
            rx_ring_full: stats.missed.ring_full,
            rx_invalid: stats.missed.invalid,
            tx_failed: stats.tx_failed,
            rx_refused: stats.rx_refused,
            rx_supers: stats.cut.frames,
            rx_segments: stats.cut.segments,
            tx_supers: stats.joined.frames,
            tx_segments: stats.joined.segments,
        }
    })
    .collect()
}

/// An SCI as it is configured: address and port number.
pub fn sci_text(sci: u64) -> String {
    format!("{}/{}", ferrule_base::MacAddr::from_u64(sci >> 16), sci & 0xffff)
}

fn macsec(control: &ControlView, workers: &[Box<WorkerReport>]) -> Vec<MacsecView> {
    use ferrule_dataplane::macsec::SaReport;
    let view = |secy: u16, way: &str, sa: &SaReport| {
        let counted = sa.stats.iter().filter(|&(_, n)| n > 0);
        MacsecView {
            port: control.port_name(ferrule_base::PortId(secy)).into(),
            way: way.into(),
            sci: sci_text(sa.sci),
            an: sa.an,
            next_pn: sa.next_pn,
            lowest_pn: sa.lowest_pn,
            counters: counted.map(|(name, n)| (name.to_owned(), n)).collect(),
        }
    };
    let mut all = Vec::new();
    for w in workers {
        for (secy, report) in w.secy_out.iter().chain(w.cards.iter().flat_map(|c| &c.secy_out)) {
            all.extend(report.sas.iter().map(|sa| view(*secy, "tx", sa)));
        }
        for (secy, report) in w.secy_in.iter().chain(w.cards.iter().flat_map(|c| &c.secy_in)) {
            all.extend(report.sas.iter().map(|sa| view(*secy, "rx", sa)));
        }
    }
    all.sort_by(|a, b| (&a.port, &b.way, a.an).cmp(&(&b.port, &a.way, b.an)));
    all
}

/// `192.0.2.1 on core`.
fn via_text(config: &Config, via: &Via) -> String {
    let interface = &config.interfaces[via.interface].name;
    via.next_hop.map_or_else(|| format!("on {interface}"), |hop| format!("{hop} on {interface}"))
}

fn labels(control: &ControlView) -> Vec<LabelView> {
    let config = control.config();
    let mut all: Vec<LabelView> = Vec::new();
    let of_file = config.labels.iter().map(|entry| (entry, false));
    let dynamic = control.dynamic_labels().iter().map(|entry| (entry, true));
    for (entry, dynamic) in of_file.chain(dynamic) {
        let label = entry.label;
        let view = |action, labels_out, via| LabelView { label, action, labels_out, via, dynamic };
        match &entry.action {
            LabelAction::Ip(vrf) => {
                let action = format!("pop to vrf `{}`", config.vrfs[*vrf]);
                all.push(view(action, Vec::new(), String::new()));
            }
            LabelAction::Forward(via) => all.extend(via.paths().map(|path| {
                let action = if path.labels.is_empty() { "pop" } else { "swap" };
                let via = via_text(config, &path);
                view(action.into(), path.labels, via)
            })),
        }
    }
    for pw in &config.pseudowires {
        let port = &config.ports[pw.port].name;
        all.extend(pw.via.paths().map(|path| {
            let mut labels_out = path.stack();
            labels_out.push(pw.label_out);
            LabelView {
                label: pw.label_in,
                action: format!("pseudowire {} to port {port}", pw.name),
                labels_out,
                via: via_text(config, &path),
                dynamic: false,
            }
        }));
    }
    all.sort_by_key(|l| l.label);
    all
}

pub(crate) fn drop_views(drops: &Drops) -> Vec<DropView> {
    let view = |(reason, packets): (DropReason, u64)| DropView {
        reason: reason.name().into(),
        packets,
        about: reason.about().trim().into(),
    };
    let mut all: Vec<_> = drops.iter().map(view).collect();
    all.sort_by_key(|d| std::cmp::Reverse(d.packets));
    all
}

fn answer_views(answers: &Answers) -> Vec<AnswerView> {
    let view = |(answer, sent, limited): (Answer, u64, u64)| {
        let (_, kind, code) = answer.numbers();
        let (name, about) = (answer.name().into(), answer.about().trim().into());
        AnswerView { answer: name, kind, code, sent, limited, about }
    };
    answers.iter().map(view).collect()
}

fn paths(control: &ControlView) -> Vec<PathView> {
    let config = control.config();
    let words = in_words(config);
    let policy = |interface: usize| words[interface].clone();
    let mut all = Vec::new();
    let own = |index: usize, (address, len): (IpAddr, u8), what: &str, dynamic| {
        let interface = &config.interfaces[index];
        PathView {
            vrf: config.vrfs[interface.vrf].clone(),
            prefix: format!("{address}/{len}"),
            via: format!("on {} ({what})", interface.name),
            labels: Vec::new(),
            mtu: interface.mtu,
            policy: policy(index),
            dynamic,
        }
    };
    for (index, interface) in config.interfaces.iter().enumerate() {
        let addresses = interface.addresses.iter();
        all.extend(addresses.map(|&address| own(index, address, "its own network", false)));
    }
    all.extend(control.dynamic_addresses().iter().map(|of| {
        let what = if of.has_network { "its own network" } else { "the address alone" };
        own(of.interface, of.address, what, true)
    }));
    let of_file = config.routes.iter().map(|route| (route, false));
    let dynamic = control.dynamic_routes().iter().map(|route| (route, true));
    for (route, dynamic) in of_file.chain(dynamic) {
        let (address, len) = route.prefix;
        let (vrf, prefix) = (config.vrfs[route.vrf].clone(), format!("{address}/{len}"));
        let view = |path: Via| PathView {
            vrf: vrf.clone(),
            prefix: prefix.clone(),
            via: via_text(config, &path),
            labels: path.stack(),
            mtu: config.interfaces[path.interface].mtu.saturating_sub(path.labels_len()),
            policy: policy(path.interface),
            dynamic,
        };
        match &route.via {
            Some(via) => all.extend(via.paths().map(view)),
            None => {
                let via = "discard".into();
                all.push(PathView { vrf, prefix, via, dynamic, ..PathView::default() });
            }
        }
    }
    all
}

fn bridges(control: &ControlView, now: Instant) -> Vec<BridgeView> {
    let tables = control.tables();
    let name = |iface: u16| tables.ifaces.get(iface as usize).map_or("?", |i| &*i.name);
    let mut all = Vec::new();
    for bridge in &tables.bridges {
        all.extend(bridge.table.entries(now).map(|e| BridgeView {
            bridge: bridge.name.to_string(),
            vlan: e.vlan,
            mac: e.mac.to_string(),
            interface: name(e.iface).into(),
            age_seconds: e.age_seconds,
        }));
    }
    all.sort_by(|a, b| (&a.bridge, a.vlan, &a.mac).cmp(&(&b.bridge, b.vlan, &b.mac)));
    all
}

fn neighbours(control: &ControlView) -> Vec<NeighbourView> {
    let known = control.neighbours().iter();
    let mut all: Vec<_> = known
        .map(|(interface, address, mac)| NeighbourView {
            interface: interface.clone(),
            address: address.to_string(),
            mac: mac.to_string(),
        })
        .collect();
    all.sort_by(|a, b| (&a.interface, &a.address).cmp(&(&b.interface, &b.address)));
    all
}
