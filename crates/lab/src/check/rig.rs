//! Changes that a test makes to nodes while the checkers still compare them with the stated
//! configuration. They plant bugs without a line in the product.

use crate::network::LabEngine;
use ferrule_node::{Config, CounterStore};
use std::sync::Arc;

/// Changes a node's configuration.
pub type OnConfig = Arc<dyn Fn(&str, &mut Config) + Send + Sync>;
/// Stands in front of a node's engine.
pub type OnEngine = Arc<dyn Fn(&str, LabEngine) -> LabEngine + Send + Sync>;
/// Stands in front of a node's counters.
pub type OnStore = Arc<dyn Fn(&str, Box<dyn CounterStore>) -> Box<dyn CounterStore> + Send + Sync>;

/// Changes to a node; none by default. Each is called with the node's name.
#[derive(Clone, Default)]
pub struct Rig {
    /// The configuration that the node gets.
    pub config: Option<OnConfig>,
    /// Its engines.
    pub engine: Option<OnEngine>,
    /// Its counter store.
    pub store: Option<OnStore>,
}

impl Rig {
    pub(super) fn config(&self, node: &str, mut config: Config) -> Config {
        if let Some(change) = &self.config {
            change(node, &mut config);
        }
        config
    }

    pub(super) fn engine(&self, node: &str, engine: LabEngine) -> LabEngine {
        match &self.engine {
            Some(wrap) => wrap(node, engine),
            None => engine,
        }
    }

    pub(super) fn store(&self, node: &str, store: Box<dyn CounterStore>) -> Box<dyn CounterStore> {
        match &self.store {
            Some(wrap) => wrap(node, store),
            None => store,
        }
    }
}
