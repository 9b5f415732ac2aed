//! Engines of a device of the laboratory: those that its configuration asks for, as fast as its
//! profile says.
//!
//! The work in a worker's tally is priced on the worker's server. That of an engine elsewhere is
//! not in the tally, but its copies are (`occupancy.copied`). The
//! look-aside engine has a bus and a unit of its own, in the profile's
//! `[look-aside]`, and completes when their time has come: the worker is called
//! then by [`Engine::poll_timeout`](ferrule_crypto::Engine::poll_timeout).
//!
//! A study's three systems are so one configuration with three placements:
//!
//! - *software*: `placement = "software"`, `occupancy.sealed` and `opened` as the
//!   host's cipher costs, the profile's `[bus]` for the two ways that a packet
//!   takes to the host and back;
//! - *look-aside*: `placement = "look-aside"`, and in the profile `[look-aside]`
//!   with the bus, its crossings (4: all of them, then without `[bus]`), and the
//!   device's unit;
//! - *inline*: the port's card does it; the profile prices nothing here.

use crate::profile::Profile;
use crate::topology::token_key;
use ferrule_crypto::{Aes, Software};
use ferrule_engines::Placed;
use ferrule_engines::look_aside::{LookAside, Model, Options, Otherwise};
use ferrule_engines::placed::Away;
use ferrule_engines::token::{Settings, SoftToken, TokenEngine, TokenProfile, Virtual};
use ferrule_node::{Config, config};
use ferrule_pipeline::Packet;

/// The engines of one worker of a device.
pub fn engine(config: &Config, profile: &Profile) -> Placed<Packet> {
    let mut placed = Placed::new(Software::default());
    if let Some(table) = &config.look_aside {
        let options = options(table);
        let model = Model::new(profile.look_aside, options.depth, Software::default());
        // A model gives everything back: nothing has to stand in.
        let spares = Box::new(|| None);
        let engine = LookAside::new(model, options, Software::default(), spares);
        placed = placed.with_look_aside(Box::new(engine));
    }
    if let Some(engine) = config.token.as_ref().and_then(token) {
        placed = placed.with_token(engine);
    }
    placed
}

/// A token in software, which takes the time of its profile. Only lack of memory
/// could leave a node without, whose keys are then refused.
fn token(table: &config::TokenConfig) -> Option<Away<Packet>> {
    let profile = TokenProfile::shipped(&table.profile)?;
    let blocks = profile.blocks_max();
    let keys = |label: &str, aes: Aes| Some(token_key(label, aes.key_len()));
    let line = Virtual::new(SoftToken::new(keys), profile);
    let settings = Settings {
        name: table.profile.clone(),
        blocks: table.blocks,
        reach: table.reach,
        behind: table.behind,
        drop_gone: table.drop_gone,
        locked: false,
        delays: table.delays.clone(),
        keep: table.keep,
    };
    Some(Box::new(TokenEngine::new(Box::new(line), blocks, settings).ok()?))
}

/// From the configuration's words to the engine's.
pub fn options(table: &config::LookAsideConfig) -> Options {
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
