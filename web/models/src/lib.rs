//! Functions that a page calls: numbers in, a number out.
//!
//! An exported name is the one thing that a linker cannot check, hence `unsafe`: each stands here
//! once and is no function of the C library.

use ferrule_formulas::blocks::{Blocks, transfer_us};
use ferrule_formulas::draining::{Ring, left};
use ferrule_formulas::limits::{Limits, rate};
use ferrule_formulas::polling::{Poller, delay_us};
use ferrule_formulas::serving::{bus_us, carried_mbps};

/// Delay of two polled servers in a row and of the path around them, in microseconds, at a load in
/// Mbit/s of frames of so many bits; no number from the load on that fills them.
#[unsafe(no_mangle)]
pub extern "C" fn polled_delay(
    load_mbps: f64,
    frame_bits: f64,
    fixed_us: f64,
    spacing_us: f64,
    poll_us: f64,
    budget: f64,
    work_us: f64,
) -> f64 {
    let poller = Poller { poll_us, budget: budget as usize, work_us, spacing_us };
    delay_us(&poller, frame_bits / load_mbps, fixed_us)
}

/// Frames a second of a device that is limited in frames and in bits.
#[unsafe(no_mangle)]
pub extern "C" fn limited_rate(octets: f64, line: f64, frames: f64, bits: f64, label: f64) -> f64 {
    rate(&Limits { line, frames, bits, label }, octets)
}

/// Load in Mbit/s that arrives through a processor that each packet occupies by its octets.
#[unsafe(no_mangle)]
pub extern "C" fn software_mbps(offered_mbps: f64, bits: f64, octets: f64, octet_ns: f64) -> f64 {
    carried_mbps(offered_mbps, bits, octets * octet_ns / 1000.0)
}

/// Load in Mbit/s that arrives through a chip beyond a bus.
#[unsafe(no_mangle)]
pub extern "C" fn look_aside_mbps(
    offered_mbps: f64,
    bits: f64,
    octets: f64,
    width_bits: f64,
    mhz: f64,
    crossings: f64,
    latency_ns: f64,
) -> f64 {
    carried_mbps(
        offered_mbps,
        bits,
        bus_us(octets, width_bits, mhz, crossings, latency_ns / 1000.0),
    )
}

/// Blocks left in a ring after so many seconds, by a token that makes an exchange in so many
/// milliseconds.
#[unsafe(no_mangle)]
pub extern "C" fn blocks_left(
    after_s: f64,
    exchange: f64,
    blocks: f64,
    used: f64,
    exchange_ms: f64,
) -> f64 {
    let filled = exchange * 1000.0 / exchange_ms;
    left(&Ring { blocks, used, filled, exchange }, after_s)
}

/// Time of hash or cipher for so many octets of data in segments, in microseconds.
#[unsafe(no_mangle)]
pub extern "C" fn blocks_us(
    data: f64,
    segment: f64,
    octets: f64,
    beside: f64,
    multiple: f64,
    fixed: f64,
    block_ns: f64,
) -> f64 {
    transfer_us(&Blocks { block_ns, octets, beside, multiple, fixed }, data, segment)
}
