//! Whole nodes whose packets are sealed and opened in different places.

#[path = "../../../node/tests/net/mod.rs"]
mod net;

mod failure;
mod identical;
mod pair;
mod places;
