//! The whole graph, memory to memory, on one core.
//!
//! A node receives a batch of frames, carries them through its graph and
//! transmits them, 512 flows in turn, with random payload; nothing is copied and no wire
//! is involved (`path` measures more of them, without libraries beside). Beside each path
//! with encryption stands the bare AEAD: the same library sealing the same
//! octets of the same number of packets, and nothing else; and beside the path with
//! our own kernel Intel's multi-buffer library, by its direct interface, too (Debian:
//! libipsec-mb-dev; its texts begin a cache line, those of packets do not).

use ferrule_benches::bare::{self, Plain};
use ferrule_benches::dpdk::Dpdk;
use ferrule_benches::dut::{Dut, Setting};
use ferrule_benches::networks::{End, HOPS, gateway, secured_bridge};
use ferrule_benches::peer::{self, Peer};
use ferrule_benches::traffic::{ETHERNET, Frames, Size, bridged, flows, ipv4, station};
use ferrule_benches::{Case, ROUNDS, heading, interleave, row};
use ferrule_crypto::Backend;
use ferrule_crypto::engine::BATCH;
use std::cell::RefCell;

/// Octets of its addresses, which MACsec leaves readable.
const ADDRESSES: usize = 12;

/// Packets of a round: so many that what other cases left in the caches counts for
/// nothing.
const PACKETS: usize = 32_768;

/// Flows that take turns.
const FLOWS: usize = 512;

/// Frames of these flows, which take turns.
const FRAMES: usize = 4096;

/// A node that carries these frames, one after the other.
fn case(name: &str, config: &str, frames: &Frames, setting: &Setting<'_>) -> Case<'static> {
    let name = format!("{name}, {FLOWS} flows");
    Case::measured(name, Dut::new(config, setting).carrying(frames.clone()))
}

/// ESP out of a node with one tunnel.
fn esp(backend: Backend, len: usize) -> Case<'static> {
    let frames = Frames::ipv4(FRAMES, Size::Of(ETHERNET + len), flows(FLOWS));
    let setting = Setting { backend, hops: &HOPS, ..Setting::default() };
    case("ESP tunnel out, AES-GCM-128", &gateway(End::Hub, 1, "aes-gcm-128"), &frames, &setting)
}

/// MACsec out of a bridge.
fn macsec(backend: Backend, len: usize) -> Case<'static> {
    let to = (0..FLOWS as u32).map(|n| (station(1, n), 1));
    let stations: Vec<_> = to.collect();
    let frames = Frames::new(FRAMES, |i, rng| {
        let (frame, n) = (ipv4(rng, flows(FLOWS)(i, &mut ()), len), (i % FLOWS) as u32);
        bridged(frame, station(0, n), station(1, n))
    });
    let setting = Setting { backend, stations: &stations, ..Setting::default() };
    case("bridge and MACsec out, GCM-AES-128", &secured_bridge(0, 1..2), &frames, &setting)
}

/// Intel's library, the operation alone.
fn bare_intel(peer: &RefCell<Peer>, Plain { len, ad, .. }: Plain) -> Case<'_> {
    let name = format!("bare AES-128-GCM, multi-buffer {}", peer.borrow().version);
    let order = move |packets: usize| format!("gcm128 seal {len} {ad} {packets}");
    Case::measured(name, move |packets| peer.borrow_mut().ask(&order(packets)))
}

/// A path over aws-lc and over the kernels of this machine, each beside its bare
/// cipher, the last beside Intel's library, too.
fn against_bare(
    intel: Option<&RefCell<Peer>>,
    title: &str,
    plain: Plain,
    path: &dyn Fn(Backend) -> Case<'static>,
) {
    let mut cases: Vec<Case<'_>> =
        vec![Case::new("bare AES-128-GCM, aws-lc-rs", bare::aws(plain)), path(Backend::Aws)];
    if let Some(ours) = bare::kernel() {
        let name = format!("bare AES-128-GCM, {}", ours.name());
        cases.push(Case::new(name, bare::own(ours, plain)));
        cases.push(path(ours));
    }
    cases.extend(intel.map(|peer| bare_intel(peer, plain)));
    interleave(&mut cases, PACKETS);
    heading(&format!("{title}: {} octets sealed, {} under the ICV beside", plain.len, plain.ad));
    let (pairs, intel) = cases.as_chunks::<2>();
    for [bare, path] in pairs {
        row(bare, None, None);
        row(path, Some(bare), None);
    }
    // Figures of the named peers.
    if let (Some([_, path]), [intel]) = (pairs.last(), intel) {
        row(intel, None, None);
        row(path, Some(intel), None);
    }
}

fn encrypted(intel: Option<&RefCell<Peer>>, len: usize) {
    // The plaintext of ESP has padding and trailer, too; the additional data are
    // SPI and extended number.
    let title = format!("ESP: whole graph over bare AEAD, inner IP length {len}");
    let plain = Plain { len: (len + 2).next_multiple_of(4), at: ETHERNET, ad: 12 };
    against_bare(intel, &title, plain, &|backend| esp(backend, len));
    // The addresses and the SecTAG, with an SCI, are not encrypted.
    let title = format!("MACsec: whole graph over bare AEAD, frame of {len} without FCS");
    let plain = Plain { len: len - ADDRESSES, at: ADDRESSES, ad: ADDRESSES + 16 };
    against_bare(intel, &title, plain, &|backend| macsec(backend, len));
}

/// Rounds beside DPDK, whose program starts anew in each.
const DPDK_ROUNDS: usize = 15;
/// Packets of such a round.
const DPDK_PACKETS: usize = 400_000;

/// The whole node beside what DPDK's program says the bare operation costs on the
/// same octets.
fn beside_dpdk(dpdk: &Dpdk, len: usize) {
    let sealed = (len + 2).next_multiple_of(4);
    let failed = |e| panic!("{e}");
    let bare = move |packets| dpdk.seal(sealed, packets).unwrap_or_else(failed);
    let mut cases = [
        Case::measured("DPDK crypto_aesni_gcm, the operation alone", bare),
        esp(Backend::best(), len),
    ];
    for round in 0..=DPDK_ROUNDS {
        cases.iter_mut().for_each(|case| case.round(DPDK_PACKETS, round > 0));
    }
    heading(&format!("ESP beside DPDK, inner IP length {len}: {sealed} octets sealed"));
    row(&cases[0], None, None);
    row(&cases[1], Some(&cases[0]), None);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` passes this; measuring is for `cargo bench`.
    if arguments.iter().any(|a| a == "--test") {
        return;
    }
    let wanted = |part: &str| {
        let mut names = arguments.iter().filter(|a| !a.starts_with('-')).peekable();
        names.peek().is_none() || names.any(|n| part.contains(n.as_str()))
    };
    peer::pin();
    let intel = match Peer::start("ipsec_mb", "IPSec_MB") {
        Ok(peer) => Some(RefCell::new(peer)),
        Err(why) => {
            println!("Intel's multi-buffer library is left out: {why}");
            None
        }
    };
    println!("Whole graph, memory to memory, one core, batches of {BATCH}.");
    println!("Median of {ROUNDS} interleaved rounds of {PACKETS} packets; clocks are the TSC's.");
    for len in [64, 512, 1420] {
        if wanted(&format!("encrypted-{len}")) {
            encrypted(intel.as_ref(), len);
        }
        match Dpdk::find() {
            _ if !wanted(&format!("dpdk-{len}")) => {}
            Ok(dpdk) => beside_dpdk(&dpdk, len),
            Err(why) => println!("\nDPDK is left out: {why}"),
        }
    }
}
