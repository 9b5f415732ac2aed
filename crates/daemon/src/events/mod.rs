//! Events of a node, for its operators: docs/events.md.
//!
//! ```text
//!   workers ── first packet refused for each reason ─┐ once a second
//!   clients ── who asked for what ───────────────────┼─▶ event ─▶ text, JSON, journal
//!   control part ── start, stop, SAs, counters ──────┤
//!   kernel ── devices that go and come ──────────────┘
//! ```
//!
//! An event's name is its message; what belongs to it are fields. Refused packets take
//! a line for each reason and second, with their number, whatever arrives.

mod refused;
#[cfg(test)]
mod tests;

use crate::api::Peer;
use crate::devices::Devices;
use crate::fault::Fault;
use crate::missed::causes;
use ferrule_base::{DropReason, Drops, Duration, Instant, PortId};
use ferrule_control::mka::News;
use ferrule_dataplane::audit::{Audit, Logged, Sample};
use ferrule_dataplane::classify::Direction;
use ferrule_dataplane::ipsec::{Expiry, LifeCause};
use ferrule_node::config::{Change, Config, Difference, LogFormat, differences};
use ferrule_node::message::Refusals;
use ferrule_node::{Control, Incident, SaName, Sender, Standing};
use ferrule_pipeline::PortStats;
use refused::Refused;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, TryRecvError};
use tracing::field::display;
use tracing::{info, warn};
use tracing_appender::non_blocking::{NonBlocking, WorkerGuard};
use tracing_subscriber::prelude::*;

/// Interval at which workers are asked for the packets they refused.
const EVERY: Duration = Duration::from_secs(1);
/// Interval at which frames that a port missed are reported.
const MISSED_EVERY: Duration = Duration::from_secs(10);
/// Reason of a port whose device was deleted.
const GONE: &str = "its device is gone";
/// Differences of one kind that a change names at most.
const NAMED_MAX: usize = 20;
/// Lines about SAs of one change at most.
const SAS_MAX: usize = 100;

/// State last seen, with which the next second's is compared to find events.
pub struct Events {
    due: Instant,
    asked: Option<(Receiver<Box<Refusals>>, Vec<Refusals>)>,
    drops: Drops,
    ports: BTreeMap<PortId, Seen>,
    /// Cards and engines that are not as they should be.
    failing: BTreeMap<(Option<PortId>, u8, &'static str), &'static str>,
    /// SAs that have no numbers left, by number.
    expired: BTreeSet<u32>,
    /// Writes what is still to be written when the node ends.
    _writer: Option<WorkerGuard>,
}

/// A port when it was last looked at.
#[derive(Default)]
struct Seen {
    /// Reason why the port is down; `None` if it is up.
    down: Option<Option<&'static str>>,
    missed: PortStats,
    /// Until when nothing is said of frames that it missed.
    silent: Instant,
}

impl Events {
    /// Begins to write, in the form that the configuration wants.
    pub fn begin(config: &Config) -> Result<Self, Fault> {
        let (stderr, guard) = tracing_appender::non_blocking(std::io::stderr());
        let _writer = start_writing(config.log, stderr)?.then_some(guard);
        let (due, asked, drops) = (Instant::ZERO, None, Drops::default());
        let (ports, failing, expired) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Ok(Self { due, asked, drops, ports, failing, expired, _writer })
    }

    /// Asks and hears what was refused, and which ports have their device.
    pub fn turn(&mut self, now: Instant, control: &mut Control, devices: &Devices) {
        if self.asked.is_none() && now >= self.due {
            self.due = now + EVERY;
            self.asked = Some((control.request_refusals(), Vec::new()));
        }
        let Some((answers, heard)) = &mut self.asked else { return };
        loop {
            match answers.try_recv() {
                Ok(answer) => heard.push(*answer),
                Err(TryRecvError::Empty) => return,
                // Everybody answered, or let go of the question.
                Err(TryRecvError::Disconnected) => break,
            }
        }
        let heard = std::mem::take(heard);
        self.asked = None;
        if heard.len() == control.workers() {
            self.ports(now, &heard, control, devices);
            self.refused(&heard, control);
            Self::logged(&heard, control);
            self.standing(&heard, control);
        }
    }

    /// The device of a port went, whatever its worker still takes it for.
    pub fn device_gone(&mut self, now: Instant, name: &str, control: &mut Control) {
        let ports = &control.config().ports;
        let Some(index) = ports.iter().position(|p| p.name == name) else { return };
        self.state_of(now, control.port_id(index), Some(GONE), control);
    }

    /// A port was opened again on a device that came back: how it is now is told anew.
    pub fn reopened(&mut self, port: PortId, name: &str, device: &str) {
        self.ports.entry(port).or_default().down = None;
        info!(target: "ferrule", port = name, device, "port-reopened");
    }

    /// Tells of a port's state if it is another than before, and the node of a carrier that went
    /// or came.
    fn state_of(
        &mut self,
        now: Instant,
        port: PortId,
        down: Option<&'static str>,
        control: &mut Control,
    ) {
        let name = control.port_name(port);
        let before = self.ports.entry(port).or_default().down.replace(down);
        match (before, down) {
            (Some(before), _) if before == down => return,
            (_, None) => info!(target: "ferrule", port = name, "port-up"),
            (_, Some(why)) => warn!(target: "ferrule", port = name, why, "port-down"),
        }
        let index = control.config().ports.iter().position(|p| p.name == name);
        // (One that was opened a moment ago has no state from before.)
        let changed = before.is_some() || down.is_some();
        if let Some(index) = index.filter(|_| changed) {
            control.carrier_changed(now, index);
        }
    }

    fn ports(
        &mut self,
        now: Instant,
        heard: &[Refusals],
        control: &mut Control,
        devices: &Devices,
    ) {
        let mut found: BTreeMap<PortId, (PortStats, bool)> = BTreeMap::new();
        for (port, stats, up) in heard.iter().flat_map(|h| &h.ports) {
            let of = found.entry(*port).or_default();
            of.0.merge(stats);
            of.1 |= up;
        }
        self.ports.retain(|port, _| found.contains_key(port));
        for (port, (stats, up)) in found {
            let name = control.port_name(port);
            let down = match (devices.is_gone(name), up) {
                (true, _) => Some(GONE),
                (_, true) => None,
                _ => Some("no carrier, or it is set down"),
            };
            self.ports.entry(port).or_default().missed(now, name, stats);
            self.state_of(now, port, down, control);
        }
    }

    fn refused(&mut self, heard: &[Refusals], control: &Control) {
        let mut drops = Drops::default();
        heard.iter().for_each(|h| drops.merge(&h.drops));
        for (reason, total) in drops.iter().filter(|&(reason, _)| Audit::wants(reason)) {
            let count = total.saturating_sub(self.drops.get(reason));
            let samples = heard.iter().flat_map(|h| &h.samples);
            let first = samples.filter(|s| s.reason == reason).min_by_key(|s| s.time);
            if let (true, Some(first)) = (count > 0, first) {
                Refused::of(first).write(first.reason, count, control.port_name(first.port));
                self.expired(first, control);
            }
        }
        self.drops = drops;
    }

    /// Packets of entries of access lists that are logged.
    fn logged(heard: &[Refusals], control: &Control) {
        let mut all: BTreeMap<(u32, bool), Logged> = BTreeMap::new();
        for logged in heard.iter().flat_map(|h| &h.logged) {
            let key = (logged.counter, logged.way == Direction::Inbound);
            all.entry(key).and_modify(|one| one.count += logged.count).or_insert(logged.clone());
        }
        for logged in all.values() {
            let mut entry = logged.counter as usize;
            for list in &control.config().lists {
                if entry <= list.entries.len() {
                    let port = control.port_name(logged.port);
                    Refused::logged(logged).write_acl(logged, list, entry, port);
                    break;
                }
                entry -= list.entries.len() + 1;
            }
        }
    }

    /// An SA that sends nothing any more: all numbers of its key are used.
    fn expired(&mut self, refused: &Sample, control: &Control) {
        let port = control.port_name(refused.port);
        match refused.reason {
            DropReason::EspSequenceExhausted | DropReason::AhSequenceExhausted => {
                let Some(sa) = control.has_last_numbers(refused.sa) else { return };
                if self.expired.insert(refused.sa) {
                    sa_event(&sa, None);
                }
            }
            DropReason::MacsecPnExhausted if self.expired.insert(u32::MAX) => {
                warn!(target: "ferrule", port, cause = "numbers", "sa-expired");
            }
            _ => {}
        }
    }

    /// Another configuration is in force.
    pub fn changed(&mut self, old: &Config, new: &Config) {
        self.expired.clear();
        applied(&differences(old, new));
        changed(old, new);
    }

    /// Cards and engines that failed, and those that work again.
    fn standing(&mut self, heard: &[Refusals], control: &Control) {
        let mut failing = BTreeMap::new();
        for standing in heard.iter().flat_map(|h| &h.standing) {
            let &Standing { card, worker, place, state } = standing;
            if !matches!(state, "up" | "works") {
                failing.insert((card, worker, place), state);
            }
        }
        for (key, state) in &failing {
            if self.failing.get(key) != Some(state) {
                standing_event(*key, state, control);
            }
        }
        for key in self.failing.keys().filter(|key| !failing.contains_key(key)) {
            let state = if key.0.is_some() { "up" } else { "works" };
            standing_event(*key, state, control);
        }
        self.failing = failing;
    }
}

/// Logs the differences that a new configuration makes: added, removed, changed.
fn applied(all: &[Difference]) {
    let of = |change| {
        let of_kind = || all.iter().filter(move |d| d.change == change);
        let mut named: Vec<_> = of_kind().take(NAMED_MAX).map(named).collect();
        let rest = of_kind().count() - named.len();
        named.extend((rest > 0).then(|| format!("{rest} more")));
        (!named.is_empty()).then(|| named.join(", "))
    };
    let (added, removed) = (of(Change::Added), of(Change::Removed));
    info!(target: "ferrule", added, removed, changed = of(Change::Changed), "apply");
}

/// `port wan`, `tunnel a (suite, mtu)`.
fn named(difference: &Difference) -> String {
    let Difference { section, name, values, .. } = difference;
    let what = format!("{section} {name}");
    let keys: Vec<_> = values.iter().map(|value| value.key.as_str()).collect();
    match keys.is_empty() {
        true => what.trim_end().to_owned(),
        false => format!("{} ({})", what.trim_end(), keys.join(", ")),
    }
}

/// A card or an engine is in another state.
fn standing_event(
    (card, worker, place): (Option<PortId>, u8, &'static str),
    state: &str,
    control: &Control,
) {
    let port = card.map(|port| control.port_name(port));
    match (port, state) {
        (Some(port), "up") => info!(target: "ferrule", port, state, "card"),
        (Some(port), _) => warn!(target: "ferrule", port, state, "card"),
        (None, "works") => info!(target: "ferrule", worker, place, state, "engine"),
        (None, _) => warn!(target: "ferrule", worker, place, state, "engine"),
    }
}

/// An outbound SA has few numbers left, or none.
fn sa_event(sa: &Sender, left: Option<u64>) {
    let (tunnel, spi, port, an) = match sa {
        Sender::Tunnel { name, spi } => {
            (Some(name.as_str()), Some(display(format!("0x{spi:08x}"))), None, None)
        }
        Sender::Macsec { port, an } => (None, None, Some(port.as_str()), Some(*an)),
    };
    let cause = "numbers";
    match left {
        Some(left) => warn!(target: "ferrule", tunnel, spi, port, an, cause, left, "sa-expires"),
        None => warn!(target: "ferrule", tunnel, spi, port, an, cause, "sa-expired"),
    }
}

/// A bound of an SA's life is reached.
fn life_event(sa: &SaName, expiry: Expiry, cause: LifeCause) {
    let SaName { tunnel, way, spi, destination, peer } = sa;
    let (spi, cause) = (display(format!("0x{spi:08x}")), display(cause));
    let (destination, peer) = (display(destination), peer.map(display));
    match expiry {
        Expiry::Soft => {
            warn!(target: "ferrule", tunnel, way, spi, destination, peer, cause, "sa-expires");
        }
        Expiry::Hard => {
            warn!(target: "ferrule", tunnel, way, spi, destination, peer, cause, "sa-expired");
        }
    }
}

impl Seen {
    /// Says what frames the port missed since it was last said.
    fn missed(&mut self, now: Instant, port: &str, stats: PortStats) {
        let was = std::mem::replace(&mut self.missed, stats);
        if now < self.silent {
            // It is said later, with what comes until then.
            self.missed = was;
            return;
        }
        for (cause, count) in causes(&stats.missed) {
            let before = causes(&was.missed).find(|(of, _)| *of == cause).map_or(0, |(_, n)| n);
            let count = count.saturating_sub(before);
            if count > 0 {
                self.silent = now + MISSED_EVERY;
                let (cause, means) = (cause.name(), cause.about());
                warn!(target: "ferrule", port, cause, count, means, "port-missed");
            }
        }
    }
}

/// Starts the subscriber that writes events; true if standard error is written to.
fn start_writing(format: LogFormat, stderr: NonBlocking) -> Result<bool, Fault> {
    let text = tracing_subscriber::fmt::layer().with_writer(stderr).with_ansi(false);
    let registry = tracing_subscriber::registry();
    // A process has one subscriber: where several nodes start, the first one's.
    match format {
        LogFormat::None => return Ok(false),
        LogFormat::Text => drop(registry.with(text).try_init()),
        LogFormat::Json => drop(registry.with(text.json().flatten_event(true)).try_init()),
        LogFormat::Journal => {
            let journal = tracing_journald::layer().map_err(|e| {
                let remedy = "log = \"text\" or \"json\" in [node]: standard error";
                Fault::environment(format!("the journal: {e}"), remedy)
            })?;
            drop(registry.with(journal).try_init());
        }
    }
    Ok(format != LogFormat::Journal)
}

/// The node runs.
pub fn started(config: &Config) {
    info!(target: "ferrule",
        version = env!("CARGO_PKG_VERSION"),
        node = config.name,
        ports = config.ports.len(),
        tunnels = config.tunnels.len(),
        "start"
    );
}

/// The node goes down.
pub fn stopped(why: &str) {
    info!(target: "ferrule", why, "stop");
}

/// Something that has a sentence, and no name of its own.
pub fn failed(what: &str) {
    warn!(target: "ferrule", what, "failure");
}

/// Logs an incident that the control part reports.
pub fn happened(incident: &Incident) {
    match incident {
        Incident::CounterNotWritten(why) => {
            warn!(target: "ferrule", what = "numbers", why, "state-not-written");
        }
        Incident::WindowsNotWritten(why) => {
            warn!(target: "ferrule", what = "windows", why, "state-not-written");
        }
        Incident::CountersWritten => info!(target: "ferrule", what = "numbers", "state-written"),
        Incident::WindowsWritten => info!(target: "ferrule", what = "windows", "state-written"),
        Incident::CardSilent { port } => {
            warn!(target: "ferrule", port, state = "silent", "card");
        }
        Incident::CardUnfilled { port, why } => {
            warn!(target: "ferrule", port, state = "unfilled", why, "card");
        }
        Incident::SaRefused { sa, why } => warn!(target: "ferrule", sa, why, "sa-refused"),
        Incident::Acquire { tunnel, header } => Refused::write_acquire(header, tunnel),
        Incident::PeerMoved { tunnel, address } => {
            info!(target: "ferrule", tunnel, address = display(address), "peer-moved");
        }
        Incident::SaGone(SaName { tunnel, way, spi, .. }) => {
            info!(target: "ferrule", tunnel, way, spi = display(format!("0x{spi:08x}")), "sa-removed");
        }
        Incident::SaExpires(sa, left) => sa_event(sa, Some(*left)),
        Incident::SaLife(sa, expiry, cause) => life_event(sa, *expiry, *cause),
        Incident::Mka { port, news } => keyed(port, news),
        Incident::Other(what) => failed(what),
    }
}

/// Key agreement of a port.
fn keyed(port: &str, news: &News) {
    match news {
        News::PeerLive(sci) => info!(target: "ferrule", port, sci = display(sci), "mka-peer-live"),
        News::PeerLost(sci) => warn!(target: "ferrule", port, sci = display(sci), "mka-peer-lost"),
        News::KeyServer(Some(sci)) => {
            info!(target: "ferrule", port, sci = display(sci), "mka-key-server");
        }
        News::KeyServer(None) => warn!(target: "ferrule", port, "mka-key-server"),
        News::InUse(key) => info!(target: "ferrule", port, key = display(key), "mka-sak-in-use"),
        News::Refused(_) | News::NoEntropy => {
            warn!(target: "ferrule", port, why = display(news), "mka-failed");
        }
    }
}

/// Logs a client's request that changes the node or reveals traffic.
pub fn asked(peer: Option<Peer>, request: &str, outcome: Result<&str, &str>) {
    let (uid, pid) = (peer.map(|p| p.uid), peer.map(|p| p.pid));
    match outcome {
        Ok(did) => info!(target: "ferrule::audit", uid, pid, request, did, "request"),
        Err(why) => {
            let why = why.lines().next();
            warn!(target: "ferrule::audit", uid, pid, request, why, "request-refused");
        }
    }
}

/// An SA of a configuration: tunnel, direction, place among those of its direction.
type Which<'a> = (&'a str, &'static str, usize);

fn spis(config: &Config) -> BTreeMap<Which<'_>, u32> {
    let each = config.tunnels.iter().flat_map(|t| {
        let of = |way, (i, spi)| ((t.name.as_str(), way, i), spi);
        let out = t.outbound.iter().map(|sa| sa.spi).enumerate().map(move |sa| of("out", sa));
        out.chain(t.inbound.iter().map(|sa| sa.spi).enumerate().map(move |sa| of("in", sa)))
    });
    each.collect()
}

/// SAs that came, went or have another SPI.
fn changed(old: &Config, new: &Config) {
    let (old, new) = (spis(old), spis(new));
    let spi = |spi: u32| display(format!("0x{spi:08x}"));
    let mut lines = 0;
    let mut may = || {
        lines += 1;
        lines <= SAS_MAX
    };
    let mut silent = 0;
    for (&(tunnel, way, i), &now) in &new {
        match old.get(&(tunnel, way, i)) {
            Some(&before) if before == now => {}
            _ if !may() => silent += 1,
            Some(&was) => {
                info!(target: "ferrule", tunnel, way, spi = spi(now), was = spi(was), "sa-rekeyed")
            }
            None => info!(target: "ferrule", tunnel, way, spi = spi(now), "sa-installed"),
        }
    }
    for (&(tunnel, way, _), &was) in old.iter().filter(|(which, _)| !new.contains_key(which)) {
        match may() {
            true => info!(target: "ferrule", tunnel, way, spi = spi(was), "sa-removed"),
            false => silent += 1,
        }
    }
    if silent > 0 {
        info!(target: "ferrule", count = silent, "sa-more");
    }
}
