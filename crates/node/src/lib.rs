//! A node: from a configuration to a control part and workers.
//!
//! ```text
//!   TOML ─▶ config ─▶ compile ─▶ tables ─▶ workers: one graph each
//!                       └─▶ secure ─▶ SAs, counters     ▲ │
//!                    control: neighbours, counters, apply ┘
//! ```
//!
//! [`build`] makes both parts; a driver turns them: the daemon with threads and
//! the clock of the operating system, a laboratory in virtual time, a benchmark
//! as fast as it goes.
#![forbid(unsafe_code)]

mod acquire;
mod associations;
pub mod card;
mod commands;
mod compile;
pub mod config;
mod control;
pub mod counter;
mod dynamic;
mod events;
mod incident;
mod instances;
mod keying;
mod leases;
mod lives;
pub mod message;
pub mod probe;
mod protocols;
mod punt;
mod resolve;
mod runner;
mod sas;
mod secys;
mod slab;
mod stable;
mod static_keys;
mod turn;
mod worker;

pub use compile::{ReadyLists, default_sci, made_mac};
pub use config::{Config, ConfigError};
pub use control::{
    AgreedSa, Applied, BuildError, Control, ControlView, ControlWork, Environment, SaOrder, build,
    build_with_cards,
};
pub use counter::{Counter, CounterStore, INSTANCES, Reserved, StoreError, Volatile};
pub use dynamic::{
    ActiveAddress, Delta, DynamicLabel, DynamicRoute, InterfaceAddress, IpPrefix, NextHop,
    RouteName,
};
pub use ferrule_control::{Refused, Token};
pub use incident::{Incident, SaName, Sender, Standing};
pub use protocols::datagrams::Datagram;
pub use protocols::{ProtocolTurn, Protocols};
pub use sas::Sa;
pub use static_keys::{CounterId, counters};
pub use worker::Worker;
