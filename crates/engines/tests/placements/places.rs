//! Every placement, as a table: another one is another line.

use crate::pair::Way;
use ferrule_base::Secret;
use ferrule_crypto::{Aes, Engine, Software};
use ferrule_engines::Placed;
use ferrule_engines::look_aside::{
    Cipher, LookAside, Model, Options, Otherwise, Own, Service, Speed,
};
use ferrule_engines::token::{Settings, SoftToken, TokenEngine, TokenProfile, Virtual};
use ferrule_node::Config;
use ferrule_pipeline::{Packet, Pool};
use std::sync::Arc;

/// Constructor of the engine of each worker.
pub type Make = fn(&Config, &Pool, usize) -> Box<dyn Engine<Packet>>;

/// A placement under test.
#[derive(Clone, Copy)]
pub struct Place {
    pub name: &'static str,
    /// The word at tunnels and SecYs.
    pub word: &'static str,
    /// The tables that it needs.
    pub tables: &'static str,
    pub make: Make,
    /// True if jobs are done by threads of their own, in real time.
    pub real: bool,
    /// True for the protections that it supports.
    pub suits: fn(Way) -> bool,
}

/// A line of the table.
const fn place(name: &'static str, word: &'static str, tables: &'static str, make: Make) -> Place {
    Place { name, word, tables, make, real: false, suits: |_| true }
}

/// A queue pair to a thread.
const fn threads(name: &'static str, tables: &'static str) -> Place {
    Place { real: true, ..place(name, "look-aside", tables, thread) }
}

/// Keys on a token.
const fn tokens(name: &'static str, tables: &'static str) -> Place {
    Place { suits: Way::is_gcm, ..place(name, "token", tables, token) }
}

/// A queue pair to a device that takes its time.
pub const MODEL: Place = place(
    "look-aside, a model in virtual time",
    "look-aside",
    "[look-aside]\ncopies = 2\ndeadline-ms = 60000\n",
    model,
);

/// Every placement; the first is what the others are compared with. The node's own engine
/// has nothing to do where its port's card does it all.
pub const PLACES: [Place; 9] = [
    place("software", "software", "", software),
    threads("look-aside, shared memory", "[look-aside]\ndeadline-ms = 60000\n"),
    threads(
        "look-aside, one batch of 64 at a time",
        "[look-aside]\nbatch = 64\nwait-us = 200\ndeadline-ms = 60000\n",
    ),
    threads("look-aside, two copies", "[look-aside]\ncopies = 2\ndeadline-ms = 60000\n"),
    threads(
        "look-aside, four copies, no waiting",
        "[look-aside]\ncopies = 4\nwait-us = 0\nbatch = 1\ndeadline-ms = 60000\n",
    ),
    MODEL,
    place("inline, a card in the port", "inline", "", software),
    tokens(
        "token, as fast as software",
        "[token]\nmodule = \"none\"\ntoken = \"t\"\npin-file = \"p\"\nblocks = 4096\n",
    ),
    tokens(
        "token, a slow one that packets wait for",
        "[token]\nmodule = \"none\"\ntoken = \"t\"\npin-file = \"p\"\nblocks = 4096\n\
         profile = \"usb-hsm\"\n",
    ),
];

fn software(_: &Config, _: &Pool, _: usize) -> Box<dyn Engine<Packet>> {
    Box::new(Placed::new(Software::default()))
}

/// The options of a configuration.
pub fn options(config: &Config) -> Options {
    use ferrule_node::config::Otherwise::Software;
    let table = config.look_aside.clone().expect("a table [look-aside]");
    let otherwise = |word| if word == Software { Otherwise::Software } else { Otherwise::Drop };
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

/// A queue pair to a thread that runs this cipher.
pub fn thread_with(
    config: &Config,
    pool: &Pool,
    cipher: impl FnMut() -> Box<dyn Cipher<Packet>> + Send + 'static,
) -> Box<dyn Engine<Packet>> {
    let options = options(config);
    let make = Box::new(cipher);
    let service = Service::start(options.depth, make, Arc::new(|| {})).expect("a thread");
    let mut cache = pool.cache();
    let spares = Box::new(move || cache.packet());
    let away = LookAside::new(service, options, Software::default(), spares);
    Box::new(Placed::new(Software::default()).with_look_aside(Box::new(away)))
}

fn thread(config: &Config, pool: &Pool, _: usize) -> Box<dyn Engine<Packet>> {
    thread_with(config, pool, || Box::new(Own::new(Software::default())))
}

/// A slow device: 20 microseconds for a packet, and a bus.
pub fn model(config: &Config, _: &Pool, _: usize) -> Box<dyn Engine<Packet>> {
    let options = options(config);
    let speed = Speed {
        bus_bits: 32.0,
        bus_mhz: 133.0,
        crossings: 4.0,
        packet_ns: 20_000.0,
        latency_ns: 5_000.0,
        ..Speed::default()
    };
    let model = Model::new(speed, options.depth, Software::default());
    let away = LookAside::new(model, options, Software::default(), Box::new(|| None));
    Box::new(Placed::new(Software::default()).with_look_aside(Box::new(away)))
}

/// A token in software with the keys that `named_key` has, as slow as its profile.
fn token(config: &Config, _: &Pool, _: usize) -> Box<dyn Engine<Packet>> {
    let table = config.token.as_ref().expect("a table [token]");
    let profile = TokenProfile::shipped(&table.profile).expect("it is shipped");
    let blocks = profile.blocks_max();
    let keys = |label: &str, aes: Aes| {
        let number: u8 = label.rsplit_once(':')?.1.parse().ok()?;
        Some(Secret::new(vec![number; aes.key_len()]))
    };
    let line = Box::new(Virtual::new(SoftToken::new(keys), profile));
    let settings = Settings { blocks: table.blocks, locked: false, ..Settings::default() };
    let away = TokenEngine::new(line, blocks, settings).expect("memory");
    Box::new(Placed::new(Software::default()).with_token(Box::new(away)))
}
