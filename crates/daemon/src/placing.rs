//! The engines that a configuration asks for, one set for each worker.

use crate::clock::nanoseconds;
use crate::fault::Fault;
use crate::token;
use ferrule_crypto::backend::Unfit;
use ferrule_crypto::{Backend, Software};
use ferrule_engines::Placed;
use ferrule_engines::look_aside::{LookAside, Options, Otherwise, Own, Service};
use ferrule_node::Config;
use ferrule_node::config;
use ferrule_pipeline::{Packet, Pool};
use ferrule_ports::os::pin;
use std::sync::Arc;

/// The backend that the environment forces, or the best.
pub(crate) fn backend() -> Result<Backend, Fault> {
    Backend::from_env()
        .map_err(|e| Fault::environment(e, "unset the variable that forces a backend"))
}

/// Remarks on backends that give wrong answers on this machine. Those whose instructions it lacks
/// are left out.
pub(crate) fn remarks() -> impl Iterator<Item = String> {
    let best = Backend::best().name();
    Backend::passed_over().iter().filter_map(move |(backend, why)| match why {
        Unfit::Wrong(_) => Some(format!("crypto backend {} {why}; {best} works", backend.name())),
        Unfit::Needs(_) => None,
    })
}

/// Every worker's engines. Threads that they need are started.
pub(crate) fn engines(config: &Config, pool: &Pool) -> Result<Vec<Placed<Packet>>, Fault> {
    let backend = backend()?;
    let token = config.token.as_ref().map(token::shared).transpose()?;
    let each = config.cores.iter().enumerate().map(|(worker, _)| {
        let mut placed = Placed::new(Software::new(backend));
        if config.times {
            placed = placed.with_clock(nanoseconds);
        }
        if let Some(table) = &config.look_aside {
            placed = placed.with_look_aside(look_aside(table, backend, pool)?);
        }
        if let (Some(table), Some(token)) = (&config.token, &token) {
            placed = placed.with_token(token::engine(table, token.clone(), worker)?);
        }
        Ok(placed)
    });
    each.collect()
}

type Away = ferrule_engines::placed::Away<Packet>;

/// A queue pair to a thread of its own.
fn look_aside(
    table: &config::LookAsideConfig,
    backend: Backend,
    pool: &Pool,
) -> Result<Away, Fault> {
    let options = options(table);
    let core = table.core;
    let pinned = Arc::new(move || {
        if let Some(core) = core {
            // The core was checked at the start; without it the thread runs too.
            let _ = pin(core);
        }
    });
    let make = Box::new(move || Box::new(Own::new(Software::new(backend))) as _);
    let service = Service::start(options.depth, make, pinned).map_err(|e| {
        Fault::environment(format!("starting the look-aside engine: {e}"), "see `ulimit -u`")
    })?;
    let mut cache = pool.cache();
    let spares = Box::new(move || cache.packet());
    Ok(Box::new(LookAside::new(service, options, Software::new(backend), spares)))
}

/// From the configuration's words to the engine's.
fn options(table: &config::LookAsideConfig) -> Options {
    let otherwise = |word| match word {
        config::Otherwise::Software => Otherwise::Software,
        config::Otherwise::Drop => Otherwise::Drop,
    };
    Options {
        depth: table.depth,
        batch: table.batch,
        wait: table.wait,
        copies: table.copies,
        deadline: table.deadline,
        on_failure: otherwise(table.on_failure),
        on_full: otherwise(table.on_full),
    }
}
