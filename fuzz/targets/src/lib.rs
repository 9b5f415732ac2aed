//! Fuzz targets: what reads octets from outside is given arbitrary ones.
//!
//! ```text
//!   cargo test, make test ─▶ driver: seeds, mutator, bounded time ─┐
//!   make fuzz ─▶ fuzz/libfuzzer: coverage, AddressSanitizer ───────┼─▶ fn(&[u8])
//!   FERRULE_FUZZ_REPLAY=FILE: one input that failed ───────────────┘
//! ```
//!
//! A target is a function of octets that panics where something is wrong: a
//! parser that panics or overflows, a format that means something else after it
//! was written and read again, a node that loses a packet or keeps one forever.
//! [`TARGETS`] names them all, with the seeds that mutation starts from.
#![forbid(unsafe_code)]

pub mod batch;
pub mod control;
pub mod crypto;
pub mod driver;
pub mod files;
pub mod formats;
pub mod input;
pub mod lists;
pub mod mka;
pub mod mutate;
pub mod node;
pub mod ports;
pub mod reassembly;
pub mod seeds;
pub mod services;

/// One target.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, as on the command line of cargo-fuzz.
    pub name: &'static str,
    /// Function that is called with each input.
    pub run: fn(&[u8]),
    /// Inputs that mutation starts from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

const fn target(name: &'static str, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Target {
    Target { name, run, seeds }
}

/// Every target.
pub const TARGETS: &[Target] = &[
    target("ethernet", formats::ethernet, seeds::frames),
    target("vlan", formats::vlan, seeds::ethernet_payloads),
    target("arp", formats::arp, seeds::ethernet_payloads),
    target("ipv4", formats::ipv4, seeds::ethernet_payloads),
    target("ipv6", formats::ipv6, seeds::ethernet_payloads),
    target("ipv6ext", formats::ipv6ext, seeds::extension_headers),
    target("icmpv4", formats::icmpv4, seeds::messages),
    target("icmpv6", formats::icmpv6, seeds::messages),
    target("ndp", formats::ndp, seeds::messages),
    target("mld", formats::mld, seeds::listeners),
    target("udp", formats::udp, seeds::messages),
    target("tcp", formats::tcp, seeds::messages),
    target("mpls", formats::mpls, seeds::ethernet_payloads),
    target("pw", formats::pw, seeds::messages),
    target("sectag", formats::sectag, seeds::ethernet_payloads),
    target("esp", formats::esp, seeds::messages),
    target("ah", formats::ah, seeds::covered),
    target("describe", formats::describe, seeds::frames),
    target("flow_hash", formats::flow_hash, seeds::frames),
    target("capture", files::capture, seeds::captures),
    target("config", files::config, seeds::configs),
    target("key_file", files::key_file, seeds::key_files),
    target("overhead", files::overhead, seeds::stacks),
    target("batch", batch::batch, batch::seeds),
    target("control", control::control, control::seeds),
    target("crypto", crypto::crypto, crypto::seeds),
    target("node", node::node, node::seeds),
    target("acl", lists::acl, lists::lists),
    target("icmp_extension", lists::icmp_extension, lists::extensions),
    target("mka", mka::mka, mka::messages),
    target("eapol", formats::eapol, seeds::ethernet_payloads),
    target("mkpdu", formats::mkpdu, mka::mkpdus),
    target("reassembly", reassembly::reassembly, reassembly::seeds),
    target("management", services::management, services::requests),
    target("http", services::http, services::http_requests),
    target("counter_record", services::counter_record, services::counter_records),
    target("token_wrap", services::token_wrap, services::keys_to_wrap),
    target("super_frames", ports::super_frames, ports::described_frames),
    target("xdp_descriptors", ports::xdp_descriptors, ports::sequences),
];

/// The target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|t| t.name == name)
}
