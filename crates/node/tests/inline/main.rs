//! Crypto in the port: the same bytes as in software, the MTU told, nothing in clear
//! whatever becomes of the card, and every packet accounted for.

#[path = "../net/mod.rs"]
mod net;

mod bytes;
mod configuration;
mod keyed;
mod life;
mod mtu;
mod policy;
mod site;
