//! Every placement, as a table: another one is another line.

use ferrule_crypto::{Engine, Software};
use ferrule_engines::Placed;
use ferrule_engines::look_aside::{
    Cipher, LookAside, Model, Options, Otherwise, Own, Service, Speed,
};
use ferrule_node::Config;
use ferrule_pipeline::{Packet, Pool};
use std::sync::Arc;

/// What makes the engine of each worker.
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
    /// Whether jobs are done by threads of their own, in real time.
    pub real: bool,
}

/// All of them; the first is what the others are compared with.
pub const PLACES: [Place; 6] = [
    Place { name: "software", word: "software", tables: "", make: software, real: false },
    Place {
        name: "look-aside, shared memory",
        word: "look-aside",
        tables: "[look-aside]\ndeadline-ms = 60000\n",
        make: thread,
        real: true,
    },
    Place {
        name: "look-aside, one batch of 64 at a time",
        word: "look-aside",
        tables: "[look-aside]\nbatch = 64\nwait-us = 200\ndeadline-ms = 60000\n",
        make: thread,
        real: true,
    },
    Place {
        name: "look-aside, two copies",
        word: "look-aside",
        tables: "[look-aside]\ncopies = 2\ndeadline-ms = 60000\n",
        make: thread,
        real: true,
    },
    Place {
        name: "look-aside, four copies, no waiting",
        word: "look-aside",
        tables: "[look-aside]\ncopies = 4\nwait-us = 0\nbatch = 1\ndeadline-ms = 60000\n",
        make: thread,
        real: true,
    },
    Place {
        name: "look-aside, a model in virtual time",
        word: "look-aside",
        tables: "[look-aside]\ncopies = 2\ndeadline-ms = 60000\n",
        make: model,
        real: false,
    },
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
