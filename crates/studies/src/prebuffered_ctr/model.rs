//! The model: the token engine in virtual time, for every table and figure. Each is a
//! function of a [`Maker`], so that who has a token runs the same.

use super::closed::{Drained, Load, drain};
use super::order::{self, Disturbed};
use super::published::Study;
use super::token::{self, BLOCK, InLab, Maker, blocks};
use super::voip::{self, Call, Crowded};
use crate::options::Options;
use ferrule_base::Duration;
use ferrule_crypto::Op;
use serde::{Deserialize, Serialize};

/// Blocks of the ring for table 1: before and after do not depend on it.
const RING: usize = 1 << 16;
/// Octets of a MiB.
const MIB: f64 = 1024.0 * 1024.0;
/// A sample of a curve each.
const SAMPLE: Duration = Duration::from_millis(250);
/// Packets that ask the token one by one.
const PLAIN: u32 = 20;
/// Seconds that a run goes on after the ring should be empty.
const BEYOND: f64 = 4.0;

/// A size of table 1.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Octets of the IP packet.
    pub packet_bytes: usize,
    /// Packets a second while the ring lasts.
    pub before_pps: f64,
    /// Afterwards, with the token for one direction.
    pub after_pps: f64,
    /// Afterwards, of one direction while the other one is as busy.
    pub shared_pps: f64,
    /// Packet by packet, one direction.
    pub plain_pps: f64,
}

/// A buffer of figure 11.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sized {
    /// Its size.
    pub mib: f64,
    /// The run.
    pub drained: Drained,
}

/// Results of the laboratory.
#[derive(Clone, Debug)]
pub struct Model {
    /// Throughput limit of network and host, in kbit/s of IP packets: fitted.
    pub network_kbps: f64,
    /// Table 1.
    pub rows: Vec<Row>,
    /// Section 4.1.1.
    pub calls: Vec<Call>,
    /// Blocks a second that the token makes for one of two directions.
    pub filled_per_second: f64,
    /// Figure 8.
    pub drained: Drained,
    /// Figure 9.
    pub shaped: Drained,
    /// A call beside large packets, without the study's delays and with them.
    pub crowded: [Crowded; 2],
    /// Figure 11.
    pub sizes: Vec<Sized>,
    /// Loss and reordering.
    pub order: Vec<Disturbed>,
}

/// Throughput limit of network and host before the buffer is empty: one value for both sizes,
/// halfway between them.
pub fn network_kbps(study: &Study) -> f64 {
    centre(study.throughput.iter().map(|row| row.prebuffered_before_empty_kbps))
}

/// Halfway between the least and the greatest.
pub fn centre(values: impl Iterator<Item = f64>) -> f64 {
    let (least, most) = values.fold((f64::MAX, 0.0_f64), |(l, m), b| (l.min(b), m.max(b)));
    f64::midpoint(least, most)
}

/// Runs it all. `say` is told what comes next.
pub fn run(study: &Study, options: Options, say: &mut dyn FnMut(&str)) -> Model {
    in_lab(study, options, say).expect("the laboratory lacks nothing")
}

fn in_lab(study: &Study, options: Options, say: &mut dyn FnMut(&str)) -> Result<Model, String> {
    let lab = &mut InLab;
    let network_kbps = network_kbps(study);
    say("table 1");
    let sizes = study.throughput.iter().map(|row| row.packet_bytes);
    let rows = sizes.map(|size| throughput(lab, size, network_kbps)).collect::<Result<_, _>>()?;
    say("one call");
    let calls = voip::calls(study, lab, voip::MINUTE)?;
    let filled_per_second = voip::filled_per_second(lab)?;
    say("figures 8 to 10");
    let (drained, shaped) = (drains(study, lab, false, 1.0)?, drains(study, lab, true, 1.0)?);
    let crowded = [voip::crowded(study, lab, false)?, voip::crowded(study, lab, true)?];
    say("figure 11");
    let sizes = study.empty_time.buffer_mib.iter();
    let sizes = sizes.map(|&mib| sized(study, lab, mib, 1.0)).collect::<Result<_, _>>()?;
    say("loss and reordering");
    let packets = if options.quick { order::PACKETS_QUICK } else { order::PACKETS };
    let order = order::CASES.iter().map(|case| order::run(lab, case, packets, options.seed));
    let order = order.collect::<Result<_, _>>()?;
    Ok(Model {
        network_kbps,
        rows,
        calls,
        filled_per_second,
        drained,
        shaped,
        crowded,
        sizes,
        order,
    })
}

fn pps(kbps: f64, ip_octets: usize) -> f64 {
    kbps * 1000.0 / (ip_octets as f64 * 8.0)
}

/// How long a ring lasts at most: nobody fills it, and a machine that has other things
/// to do sends no more than a quarter of what it should.
fn lasts_s(ring: usize, per_second: f64) -> f64 {
    ring as f64 / per_second * 4.0 + BEYOND
}

/// A size of table 1.
pub fn throughput(
    maker: &mut dyn Maker,
    packet_bytes: usize,
    network_kbps: f64,
) -> Result<Row, String> {
    let network_pps = pps(network_kbps, packet_bytes);
    let seconds = lasts_s(RING, network_pps * blocks(packet_bytes) as f64);
    let mut run = |directions: usize| {
        let mut phone = maker.phone(token::TOKEN, token::settings(RING))?;
        let keys = (0..directions).map(|_| phone.install(Op::Seal)).collect::<Result<Vec<_>, _>>();
        // Two directions take twice the traffic.
        let load = Load {
            ip_octets: packet_bytes,
            network_pps: network_pps * directions as f64,
            seconds: seconds * directions as f64,
            beyond: BEYOND,
            sample: SAMPLE,
        };
        drain(&mut phone, &keys?, &load)
    };
    let (alone, shared) = (run(1)?, run(2)?);
    let after = |run: &Drained| run.after_pps.ok_or("the buffer was not empty in time");
    Ok(Row {
        packet_bytes,
        before_pps: alone.before_pps,
        after_pps: after(&alone)?,
        shared_pps: after(&shared)? / 2.0,
        plain_pps: plain_pps(maker, packet_bytes)?,
    })
}

/// Packets a second if each asks the token for its own blocks.
fn plain_pps(maker: &mut dyn Maker, packet_bytes: usize) -> Result<f64, String> {
    let mut token = maker.asker()?;
    token.run_until(ferrule_base::Instant::ZERO);
    let begun = token.now;
    for _ in 0..PLAIN {
        token.ask(blocks(packet_bytes))?;
    }
    Ok(f64::from(PLAIN) / token.now.since(begun).as_secs_f64())
}

/// Packets a second from memory to memory, with key stream made ahead and no network:
/// what host and engine can.
pub fn unlimited_pps(maker: &mut dyn Maker, packet_bytes: usize) -> Result<f64, String> {
    let mut phone = maker.phone(token::TOKEN, token::settings(RING))?;
    let key = phone.install(Op::Seal)?;
    let load = Load {
        ip_octets: packet_bytes,
        network_pps: 1e9,
        seconds: 1.0,
        beyond: 0.0,
        sample: SAMPLE,
    };
    Ok(drain(&mut phone, &[key], &load)?.before_pps)
}

/// Figures 8 and 9, with this share of the printed buffer.
pub fn drains(
    study: &Study,
    maker: &mut dyn Maker,
    shape: bool,
    share: f64,
) -> Result<Drained, String> {
    let figures = &study.drain;
    let mut settings = token::settings((figures.buffer_blocks * share) as usize);
    if shape {
        let delay =
            |d: &super::published::Delay| (d.min_bytes, Duration::from_secs_f64(d.delay / 1000.0));
        settings.delays = figures.delay_ms.iter().filter(|d| d.delay > 0.0).map(delay).collect();
    }
    let mut phone = maker.phone(token::TOKEN, settings)?;
    let key = phone.install(Op::Seal)?;
    let network_pps = figures.network_blocks_per_second / blocks(figures.packet_bytes) as f64;
    let longest = if shape { figures.with_delay_empty_after_s } else { figures.empty_after_s };
    let (seconds, beyond) = (longest * share * 2.0 + BEYOND, BEYOND);
    let sample = SAMPLE.mul_f64(share);
    let load = Load { ip_octets: figures.packet_bytes, network_pps, seconds, beyond, sample };
    drain(&mut phone, &[key], &load)
}

/// A buffer of figure 11, or this share of it.
pub fn sized(study: &Study, maker: &mut dyn Maker, mib: f64, share: f64) -> Result<Sized, String> {
    const OCTETS: usize = 1024;
    let ring = (mib * share * MIB) as usize / BLOCK;
    let mut phone = maker.phone(token::TOKEN, token::settings(ring))?;
    let key = phone.install(Op::Seal)?;
    let network_pps = pps(study.empty_time.start_mbps * 1000.0, OCTETS);
    let seconds = lasts_s(ring, network_pps * blocks(OCTETS) as f64);
    let (beyond, sample) = (BEYOND, SAMPLE.mul_f64(share));
    let load = Load { ip_octets: OCTETS, network_pps, seconds, beyond, sample };
    Ok(Sized { mib, drained: drain(&mut phone, &[key], &load)? })
}
