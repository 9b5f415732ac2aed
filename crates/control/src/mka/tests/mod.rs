//! Stations on a simulated LAN, each with a SecY that takes its time.

mod attacks;
mod lan;
mod laws;
mod orders;
mod peer;
mod steps;
mod xpn;
