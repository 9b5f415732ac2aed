//! Where nodes of a case seal and open their packets: configurations that say so, and
//! the engines, which fail when the case wants it.

use super::case::{At, Away, Case, Upset};
use super::finding::lock;
use super::subject::NodePlan;
use crate::placing;
use ferrule_base::{Duration, Secret};
use ferrule_crypto::{Aes, Software, fingerprint};
use ferrule_engines::Placed;
use ferrule_engines::look_aside::{Failing, Frail, LookAside, Model, Speed, Spell};
use ferrule_engines::token::{Settings, SoftToken, TokenEngine, TokenProfile, Virtual};
use ferrule_node::Config;
use ferrule_node::config::{LookAsideConfig, Otherwise, Placement, TokenConfig};
use ferrule_node::message::WorkerReport;
use ferrule_pipeline::{Packet, Pool};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// When an engine counts as hung: longer than a full queue takes.
const DEADLINE: Duration = Duration::from_millis(20);

/// Blocks of key stream for each direction of an association.
const BLOCKS: usize = 1024;

/// The keys on the tokens of a run, by their labels. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Tokens(Arc<Mutex<HashMap<String, Secret>>>);

impl Tokens {
    /// Puts a key on the token and returns its label.
    fn put(&self, key: &Secret) -> String {
        let print = fingerprint(key, b"label on a token");
        let label: String = print.iter().map(|octet| format!("{octet:02x}")).collect();
        lock(&self.0).insert(label.clone(), key.clone());
        label
    }

    fn get(&self, label: &str, aes: Aes) -> Option<Secret> {
        lock(&self.0).get(label).filter(|key| key.len() == aes.key_len()).cloned()
    }
}

/// Counts of look-aside engines and cards in the last life of their nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Befell {
    /// Packets that they sealed or opened.
    pub packets: u64,
    /// Times that an engine was given up.
    pub failures: u64,
    /// Packets that workers did in their place.
    pub fallbacks: u64,
    /// Times that a card was reset.
    pub resets: u64,
}

impl Befell {
    /// Adds another's.
    pub const fn merge(&mut self, o: &Self) {
        self.packets += o.packets;
        self.failures += o.failures;
        self.fallbacks += o.fallbacks;
        self.resets += o.resets;
    }

    /// Adds what the workers of a node say.
    pub(super) fn count(&mut self, reports: &[WorkerReport]) {
        for engine in reports.iter().flat_map(|r| &r.engines) {
            let of = |name| engine.counters.iter().filter(move |c| c.0 == name).map(|c| c.1);
            self.packets += of("completed").sum::<u64>();
            self.failures += of("failures").sum::<u64>();
            self.fallbacks += of("fallbacks").sum::<u64>();
        }
        for card in reports.iter().flat_map(|r| &r.cards) {
            self.packets += card.work.sealed.packets + card.work.opened.packets;
            self.resets += card.resets;
        }
    }
}

impl Away {
    /// Puts it into a configuration.
    pub(super) fn apply(&self, config: &mut Config, tokens: &Tokens) {
        let placement = match self.at {
            At::LookAside { .. } => Placement::LookAside,
            At::Inline => Placement::Inline,
            At::Token => Placement::Token,
        };
        match self.at {
            At::LookAside { depth, copies, drop, .. } => {
                config.look_aside = Some(LookAsideConfig {
                    depth,
                    copies,
                    deadline: DEADLINE,
                    on_failure: if drop { Otherwise::Drop } else { Otherwise::Software },
                    ..LookAsideConfig::default()
                });
            }
            At::Inline => {}
            At::Token => config.token = Some(token()),
        }
        config.place_all(placement, &|key| tokens.put(key));
    }

    /// The engines of one worker.
    pub(super) fn engine(
        &self,
        config: &Config,
        spells: Vec<Spell>,
        pool: &Pool,
        tokens: &Tokens,
    ) -> Placed<Packet> {
        let placed = Placed::new(Software::default());
        match (self.at, &config.look_aside) {
            (At::LookAside { packet_ns, .. }, Some(table)) => {
                let options = placing::options(table);
                let speed = Speed { packet_ns: packet_ns as f64, ..Speed::default() };
                let model = Model::new(speed, options.depth, Software::default());
                let mut cache = pool.cache();
                let spares = Box::new(move || cache.packet());
                let device = Frail::new(model, spells);
                let engine = LookAside::new(device, options, Software::default(), spares);
                placed.with_look_aside(Box::new(engine))
            }
            (At::Token, _) => {
                let profile = TokenProfile::none();
                let most = profile.blocks_max();
                let keys = tokens.clone();
                let token = SoftToken::new(move |label: &str, aes: Aes| keys.get(label, aes));
                let settings =
                    Settings { blocks: BLOCKS, locked: false, keep: None, ..Settings::default() };
                // Without memory the node has no such engine, and says so.
                match TokenEngine::new(Box::new(Virtual::new(token, profile)), most, settings) {
                    Ok(engine) => placed.with_token(Box::new(engine)),
                    Err(_) => placed,
                }
            }
            _ => placed,
        }
    }
}

/// A token that is as fast as software.
fn token() -> TokenConfig {
    TokenConfig {
        module: String::new(),
        token: String::new(),
        pin_file: String::new(),
        profile: "none".into(),
        blocks: BLOCKS,
        reach: 4096,
        behind: 64,
        drop_gone: false,
        keep: None,
        delays: Vec::new(),
    }
}

impl Case {
    /// The case without engines elsewhere at nodes that are configured with one of their own.
    pub(super) fn for_nodes(&self, nodes: &[NodePlan]) -> Self {
        let mut case = self.clone();
        case.away.retain(|away| {
            let config = nodes.get(away.node).map(|plan| &plan.config);
            config.is_some_and(|c| c.token.is_none() && c.look_aside.is_none())
        });
        case
    }

    /// Where a node seals and opens, if not in its workers' loops.
    pub(super) fn away_of(&self, node: usize) -> Option<&Away> {
        self.away.iter().find(|away| away.node == node)
    }

    /// Failures of the engines beside a node.
    pub(super) fn spells(&self, node: usize) -> Vec<Spell> {
        let each = self.disturbance.iter().filter_map(|d| {
            let how = match d.what {
                Upset::EngineKill(n) if n == node => Failing::Killed,
                Upset::EngineHang(n) if n == node => Failing::Hangs,
                _ => return None,
            };
            let from = self.start() + Duration::from_nanos(d.at_ns);
            Some(Spell { from, until: from + Duration::from_nanos(d.for_ns), how })
        });
        each.collect()
    }

    /// True if the cards of a node (`None`: of any node) are reset or fail during the run.
    pub(super) fn upsets_cards(&self, node: Option<usize>) -> bool {
        let mine = |n: usize| node.is_none_or(|node| node == n);
        let upset = |what: Upset| match what {
            Upset::CardReset(n) | Upset::CardHalt(n) => mine(n),
            _ => false,
        };
        self.disturbance.iter().any(|d| upset(d.what))
    }
}
