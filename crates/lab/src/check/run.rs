//! One case: build the network, let it run, judge it.

use super::case::{At, Case, Kind, Upset};
use super::finding::{Finding, Findings, Invariant};
use super::nonce::{Audited, NonceLedger};
use super::oracle::{Oracle, Tally};
use super::places::{Befell, Tokens};
use super::rekey;
use super::rig::Rig;
use super::store::{Numbered, Surviving};
use super::subject::{Built, FlowSeen, NodePlan, Subject};
use super::watch::{SharedOracle, Watch};
use crate::change::Change;
use crate::impair::{HoldBack, Impairments};
use crate::network::{DeviceId, LabEngine, LabError, LinkId, Network};
use crate::placing;
use crate::profile::Profile;
use crate::random::stream;
use ferrule_base::{Duration, Instant, MacAddr};
use ferrule_crypto::{Late, Software};
use ferrule_node::{Config, Volatile, made_mac};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// After hosts stopped to send, a network is looked at at this distance for a moment in
/// which nothing is under way. (Hosts and nodes ask for their neighbours now and then, so
/// nothing stays at rest for ever.)
const REST_STEP: Duration = Duration::from_millis(250);
/// Looks without such a moment, and without anything new at a host, after which a network
/// does not come to rest. A transfer that goes on over a bad link takes as long as it takes.
const REST_LOOKS: u32 = 120;
/// Looks at most, however slowly a transfer goes on: an hour.
const REST_LOOKS_MAX: u32 = 4 * 3600;

/// Words in which a node reports that a card of its own did not answer.
const CARD_SILENT: &str = "does not answer: it is reset";

/// Packet buffers of a run.
const BUFFERS: usize = 16_384;

/// Result of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Broken invariants.
    pub findings: Vec<Finding>,
    /// Comparisons that the replay oracle made.
    pub replay: Tally,
    /// Nonces that were looked at.
    pub nonces: u64,
    /// Frames that arrived at nodes.
    pub visits: u64,
    /// Flows as the hosts saw them.
    pub flows: Vec<FlowSeen>,
    /// When it ended, in virtual time.
    pub end: Instant,
    /// Counts of look-aside engines and cards.
    pub engines: Befell,
    /// Captures of the links, if they were asked for: name, pcapng.
    pub captures: Vec<(String, Vec<u8>)>,
}

/// Runs a case and judges it. A panic inside is a finding. With `capture`, every
/// link is captured.
pub fn run(subject: &dyn Subject, case: &Case, rig: &Rig, capture: bool) -> Outcome {
    let case = &case.for_nodes(subject.nodes());
    let mut trial = Trial::new(subject, case);
    let done = catch_unwind(AssertUnwindSafe(|| trial.run(subject, case, rig, capture)));
    let now = trial.network.now();
    match done {
        Ok(Ok(())) => {}
        Ok(Err(e)) => trial.find(now, "the network", Invariant::NodeWorks, e.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            let conservation = text.contains("not conserved");
            let invariant = if conservation { Invariant::Conservation } else { Invariant::NoPanic };
            trial.find(now, "the network", invariant, text.to_owned());
        }
    }
    trial.outcome
}

/// Configuration that the checkers compare a node with.
fn stated(plan: &NodePlan, case: &Case) -> Config {
    let mut config = plan.config.clone();
    if let Some(settings) = &case.settings {
        settings.apply(&mut config);
    }
    config
}

/// Configuration that a node gets: the stated one with the test's changes, the placement of its
/// engines and its number of workers.
fn given(
    case: &Case,
    rig: &Rig,
    place: usize,
    name: &str,
    stated: Config,
    tokens: &Tokens,
) -> Config {
    let mut config = rig.config(name, stated);
    if let Some(away) = case.away_of(place) {
        away.apply(&mut config, tokens);
    }
    if let Some(workers) = case.workers.iter().find(|w| w.node == place) {
        config.cores.resize(workers.count.max(config.cores.len()), None);
    }
    config
}

/// Names the keys that a node seals with.
fn name_keys(nonces: &NonceLedger, name: &str, config: &Config) {
    for t in &config.tunnels {
        for sa in &t.outbound {
            nonces.name(sa.keys.identity(), &format!("tunnel {} of {name}", t.name));
        }
    }
    for secy in &config.secys {
        let port = config.ports.get(secy.port).map_or("?", |p| p.name.as_str());
        for sa in &secy.transmit {
            nonces.name(&sa.key, &format!("port {port} AN {} of {name}", sa.an));
        }
    }
}

/// The addresses of a configuration's ports.
fn macs(config: &Config) -> Vec<MacAddr> {
    config.ports.iter().map(|p| p.mac.unwrap_or(made_mac(&config.name, &p.name))).collect()
}

struct Trial {
    network: Network,
    findings: Findings,
    nonces: NonceLedger,
    oracle: SharedOracle,
    outcome: Outcome,
    stores: Vec<Surviving>,
    tokens: Tokens,
}

impl Trial {
    fn new(subject: &dyn Subject, case: &Case) -> Self {
        let (findings, nonces) = (Findings::default(), NonceLedger::default());
        let mut oracle = Oracle::new(&findings);
        for (place, plan) in subject.nodes().iter().enumerate() {
            let (name, config) = (&plan.name, stated(plan, case));
            oracle.device(place, &config, &macs(&config));
            name_keys(&nonces, name, &config);
        }
        let network = Network::with_buffers(case.seed, BUFFERS);
        let (oracle, outcome) = (SharedOracle::new(oracle), Outcome::default());
        let (stores, tokens) = (Vec::new(), Tokens::default());
        Self { network, findings, nonces, oracle, outcome, stores, tokens }
    }

    fn find(&mut self, at: Instant, place: &str, invariant: Invariant, what: String) {
        self.findings.add(invariant, at, place, what);
        self.outcome.findings = self.findings.all();
    }

    fn run(
        &mut self,
        subject: &dyn Subject,
        case: &Case,
        rig: &Rig,
        capture: bool,
    ) -> Result<(), LabError> {
        let nodes = self.nodes(subject, case, rig)?;
        let built = subject.build(case, &mut self.network, &nodes)?;
        let links: Vec<LinkId> = self.network.links().collect();
        let mut taps = Vec::new();
        for &link in links.iter().filter(|_| capture) {
            taps.push((link, self.network.tap(link, None)?));
        }
        self.watch(built);
        disturb(case, &mut self.network, &links, &nodes);

        self.rekey(subject, case, rig, &nodes);
        self.network.advance(case.end().max(self.network.now()));
        let at_rest = self.rest(subject, case);
        self.judge(case, &nodes, at_rest);
        self.outcome.flows = subject.flows(case, &mut self.network);
        self.judge_flows(case);
        self.outcome.findings = self.findings.all();
        self.outcome.replay = self.oracle.with(|oracle| oracle.tally());
        self.outcome.nonces = self.nonces.noted();
        self.outcome.visits = self.network.visits();
        self.outcome.end = self.network.now();
        for (link, tap) in taps {
            let octets = self.network.take_capture(tap);
            self.outcome.captures.push((self.network.link_name(link).to_owned(), octets));
        }
        Ok(())
    }

    /// Adds the nodes, with engines and stores under watch.
    fn nodes(
        &mut self,
        subject: &dyn Subject,
        case: &Case,
        rig: &Rig,
    ) -> Result<Vec<DeviceId>, LabError> {
        let names: Vec<String> = subject.nodes().iter().map(|n| n.name.clone()).collect();
        let plans = subject.nodes().iter();
        let stores: Vec<Surviving> = plans
            .map(|plan| {
                let config = stated(plan, case);
                let numbered = Numbered::new(&config, &macs(&config), case.before_wrap);
                Surviving::new(rig.store(&plan.name, Box::new(numbered)))
            })
            .collect();
        let surviving = stores.clone();
        self.stores.clone_from(&stores);
        self.network.store(move |device| match surviving.get(device.0) {
            Some(store) => Box::new(store.clone()),
            None => Box::new(Volatile::default()),
        });
        self.network.engine_of(self.engines(names, stores, case.clone(), rig.clone()));
        let mut ids = Vec::new();
        for (place, plan) in subject.nodes().iter().enumerate() {
            let config = given(case, rig, place, &plan.name, stated(plan, case), &self.tokens);
            let mut profile = plan.profile.clone();
            if let Some(pace) = case.pace.iter().find(|p| p.node == place) {
                pace.apply(&mut profile);
            }
            ids.push(self.network.node(&plan.name, config, profile)?);
        }
        Ok(ids)
    }

    /// Has nodes get fresh keys, and tells the oracle of each configuration that is
    /// in force.
    fn rekey(&mut self, subject: &dyn Subject, case: &Case, rig: &Rig, nodes: &[DeviceId]) {
        let configs: Vec<Config> = subject.nodes().iter().map(|p| stated(p, case)).collect();
        let macs: Vec<Vec<MacAddr>> = configs.iter().map(macs).collect();
        for step in rekey::steps(case, &configs, &macs) {
            let (Some(&id), Some(plan)) = (nodes.get(step.node), subject.nodes().get(step.node))
            else {
                continue;
            };
            let stated = step.config.clone();
            let config = given(case, rig, step.node, &plan.name, stated, &self.tokens);
            let at = step.at.max(self.network.now());
            let (macs, store) = (&macs[step.node], self.stores.get_mut(step.node));
            self.oracle.with(|oracle| oracle.announced(&step.config, macs));
            self.network.at(at, Change::Apply(id, Box::new(config)));
            self.network.advance(at + Duration::from_nanos(1));
            name_keys(&self.nonces, &plan.name, &step.config);
            if let Some(store) = store {
                self.oracle.with(|oracle| oracle.applied(step.node, &step.config, macs, store));
            }
        }
    }

    /// Makes engines. A node asks for its first one whenever it starts, which is
    /// how the oracle hears of it.
    fn engines(
        &self,
        names: Vec<String>,
        mut stores: Vec<Surviving>,
        case: Case,
        rig: Rig,
    ) -> impl FnMut(DeviceId, usize, &Config, &Profile) -> LabEngine + Send + 'static {
        let (nonces, findings) = (self.nonces.clone(), self.findings.clone());
        let (oracle, mut dice) = (self.oracle.clone(), stream(case.seed, "case", "engines"));
        let (pool, tokens) = (self.network.pool().clone(), self.tokens.clone());
        move |device, worker, config, profile| {
            let name = names.get(device.0).map_or("?", String::as_str);
            if let (0, Some(store)) = (worker, stores.get_mut(device.0)) {
                oracle.with(|oracle| oracle.restarted(device.0, store));
            }
            let away = case.away_of(device.0).filter(|away| away.at != At::Inline);
            // A key that is on a token is in no other engine.
            let late = case.late.iter().find(|l| l.node == device.0 && config.token.is_none());
            let engine: LabEngine = match (away, late) {
                (Some(away), _) => {
                    Box::new(away.engine(config, case.spells(device.0), &pool, &tokens))
                }
                (None, Some(late)) => Box::new(Late::new(
                    Software::default(),
                    dice.next_u64(),
                    Duration::from_nanos(late.delay_ns),
                    late.depth as usize,
                )),
                (None, None) => Box::new(placing::engine(config, profile)),
            };
            Box::new(Audited::new(rig.engine(name, engine), name, &nonces, &findings))
        }
    }

    fn watch(&mut self, built: Built) {
        let watch = Watch::new(built.lines, &built.mark, &self.oracle, &self.findings);
        self.network.observe(Box::new(watch));
    }

    /// Waits until nothing is under way, as long as hosts get what they did not have.
    fn rest(&mut self, subject: &dyn Subject, case: &Case) -> bool {
        let (mut delivered, mut idle) = (0, 0);
        for _ in 0..REST_LOOKS_MAX {
            self.network.advance(self.network.now() + REST_STEP);
            match self.network.audit() {
                Ok(ledger) if ledger.in_flight > 0 => {}
                _ => return true,
            }
            let now = subject.delivered(case, &mut self.network);
            idle = if now > delivered { 0 } else { idle + 1 };
            if idle >= REST_LOOKS {
                return false;
            }
            delivered = now;
        }
        false
    }

    /// Checks of the network at rest: conservation, counters, flows.
    fn judge(&mut self, case: &Case, nodes: &[DeviceId], at_rest: bool) {
        let now = self.network.now();
        if let Err(e) = self.network.audit() {
            self.findings.add(Invariant::Conservation, now, &e.place, e.what);
        }
        if !at_rest {
            let waited = REST_STEP * REST_LOOKS;
            let what =
                format!("packets are under way, and nothing new came to a host for {waited:?}");
            self.findings.add(Invariant::ComesToRest, now, "the network", what);
        }
        for &id in nodes {
            let device = self.network.device(id);
            let (name, ledger) = (device.name(), device.ledger());
            // A card that failed is reset, and that is said.
            let halted = case.disturbance.iter().any(|d| d.what == Upset::CardHalt(id.0));
            let said = |failure: &String| halted && failure.ends_with(CARD_SILENT);
            for failure in device.report().failures.into_iter().filter(|f| !said(f)) {
                self.findings.add(Invariant::NodeWorks, now, name, failure);
            }
            if at_rest && ledger.held > 0 {
                let what = format!("{} packets are held for ever", ledger.held);
                self.findings.add(Invariant::ComesToRest, now, name, what);
            }
            let reports: Vec<_> = device.workers().iter().map(|w| w.report(now)).collect();
            self.outcome.engines.count(&reports);
            if case.upsets_cards(Some(id.0)) {
                self.oracle.with(|oracle| oracle.forgot(id.0));
            }
            if at_rest && !reports.is_empty() {
                self.oracle.with(|oracle| oracle.compare(now, id.0, &reports));
            }
        }
    }

    /// Checks of what hosts received. A receiver that starts again knows the edge of its window
    /// from the last time that it was stored, so a crash (a card's, too) may let a packet pass
    /// twice; nothing else may.
    fn judge_flows(&mut self, case: &Case) {
        let crash = |what| matches!(what, Upset::Kill(_) | Upset::CardHalt(_));
        let crashed = case.disturbance.iter().any(|d| crash(d.what));
        let reordered = case.impairment.iter().any(|i| matches!(i.kind, Kind::Reorder(..)));
        // Late packets of an association may come after those of the next one.
        let late = !case.late.is_empty() || case.away.iter().any(|away| away.at != At::Inline);
        let passed = !case.rekey.is_empty() && late;
        // The standard's own rule lets duplicates inside the window pass.
        let lenient = case.settings.is_some_and(|s| !s.strict);
        let now = self.network.now();
        for flow in &self.outcome.flows {
            if flow.protected && !crashed && !lenient && flow.duplicates > 0 {
                let what = format!("{} packets came twice", flow.duplicates);
                self.findings.add(Invariant::NoDuplicate, now, &flow.name, what);
            }
            if !reordered && !passed && flow.reordered > 0 {
                let what = format!("{} packets came after later ones", flow.reordered);
                self.findings.add(Invariant::Order, now, &flow.name, what);
            }
            if flow.protected && flow.broken > 0 {
                let what = format!("{} payloads came altered", flow.broken);
                self.findings.add(Invariant::Unaltered, now, &flow.name, what);
            }
        }
    }
}

/// Plans what the case wants to happen.
fn disturb(case: &Case, network: &mut Network, links: &[LinkId], nodes: &[DeviceId]) {
    for (place, &link) in links.iter().enumerate() {
        let mut rules = Impairments::default();
        for impairment in case.impairment.iter().filter(|i| i.link == place) {
            let share = |thousandths: u64| thousandths as f64 / 1000.0;
            match impairment.kind {
                Kind::Loss(n) => rules.loss = share(n),
                Kind::Duplicate(n) => rules.duplicate = share(n),
                Kind::Corrupt(n) => rules.corrupt = share(n),
                Kind::Reorder(n, behind) => {
                    rules.reorder = share(n);
                    rules.reorder_by = HoldBack::Frames(behind);
                }
                Kind::Jitter(micros) => rules.jitter = Duration::from_micros(micros),
                Kind::Slow(mbit) => {
                    network.at(Instant::ZERO, Change::Rate(link, Some(mbit * 1_000_000)));
                }
            }
        }
        if !rules.is_none() {
            network.at(Instant::ZERO, Change::Impair(link, None, rules));
        }
    }
    for disturbance in &case.disturbance {
        let at = case.start() + Duration::from_nanos(disturbance.at_ns);
        let lasts = Duration::from_nanos(disturbance.for_ns);
        match disturbance.what {
            Upset::Link(place) => {
                if let Some(&link) = links.get(place) {
                    network.at(at, Change::LinkDown(link));
                    network.at(at + lasts, Change::LinkUp(link));
                }
            }
            Upset::Jump(place) => {
                if let Some(&node) = nodes.get(place) {
                    network.at(at, Change::ClockJump(node, lasts * 1000));
                }
            }
            Upset::Kill(place) => {
                if let Some(&node) = nodes.get(place) {
                    network.at(at, Change::Restart(node, lasts));
                }
            }
            // The engines know when they fail.
            Upset::EngineKill(_) | Upset::EngineHang(_) => {}
            Upset::CardReset(place) => {
                if let Some(&node) = nodes.get(place) {
                    network.at(at, Change::ResetCards(node));
                }
            }
            Upset::CardHalt(place) => {
                if let Some(&node) = nodes.get(place) {
                    network.at(at, Change::HaltCards(node));
                }
            }
        }
    }
}
