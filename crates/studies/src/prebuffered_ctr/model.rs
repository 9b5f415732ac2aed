//! The model: the token engine in virtual time, for every table and figure.

use super::closed::{Drained, Load, drain};
use super::order::{self, Disturbed};
use super::published::Study;
use super::token::{self, BLOCK, Phone, blocks};
use super::voip::{self, Call};
use ferrule_base::Duration;
use ferrule_crypto::Op;

/// Blocks of the ring for table 1: before and after do not depend on it.
const RING: usize = 1 << 16;
/// Of a MiB.
const MIB: f64 = 1024.0 * 1024.0;
/// A sample of a curve each.
const SAMPLE: Duration = Duration::from_millis(250);
/// Seconds that a run goes on after the ring should be empty.
const BEYOND: f64 = 4.0;

/// A size of table 1.
#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Debug)]
pub struct Sized {
    /// Its size.
    pub mib: f64,
    /// What became of it.
    pub drained: Drained,
}

/// Everything that the laboratory said.
#[derive(Clone, Debug)]
pub struct Model {
    /// What network and host let through, in kbit/s of IP packets: fitted.
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
    /// Figure 11.
    pub sizes: Vec<Sized>,
    /// Loss and reordering.
    pub order: Vec<Disturbed>,
}

/// Runs it all. `say` is told what comes next.
pub fn run(study: &Study, quick: bool, say: &mut dyn FnMut(&str)) -> Model {
    let before = study.throughput.iter().map(|row| row.prebuffered_before_empty_kbps);
    let (least, most) = before.fold((f64::MAX, 0.0_f64), |(l, m), b| (l.min(b), m.max(b)));
    // One value for both sizes: halfway.
    let network_kbps = f64::midpoint(least, most);
    say("table 1");
    let rows = study.throughput.iter().map(|row| throughput(row.packet_bytes, network_kbps));
    let rows = rows.collect();
    say("one call");
    let (calls, filled_per_second) = (voip::calls(study), voip::filled_per_second());
    say("figures 8 to 10");
    let [drained, shaped] = [false, true].map(|shape| drains(study, shape));
    say("figure 11");
    let sizes = study.empty_time.buffer_mib.iter();
    let sizes = sizes.map(|&mib| Sized { mib, drained: sized(study, mib) }).collect();
    say("loss and reordering");
    let order = order::cases(quick);
    Model { network_kbps, rows, calls, filled_per_second, drained, shaped, sizes, order }
}

fn pps(kbps: f64, ip_octets: usize) -> f64 {
    kbps * 1000.0 / (ip_octets as f64 * 8.0)
}

/// How long a ring lasts at most: nobody fills it.
fn lasts_s(ring: usize, per_second: f64) -> f64 {
    ring as f64 / per_second * 1.6
}

fn throughput(packet_bytes: usize, network_kbps: f64) -> Row {
    let card = token::profile(token::TOKEN);
    let network_pps = pps(network_kbps, packet_bytes);
    let seconds = lasts_s(RING, network_pps * blocks(packet_bytes) as f64) + BEYOND;
    let load = Load { ip_octets: packet_bytes, network_pps, seconds, sample: SAMPLE };
    let run = |directions: usize| {
        let mut phone = Phone::new(&card, token::settings(RING));
        let keys: Vec<_> = (0..directions).map(|_| phone.install(Op::Seal)).collect();
        // Two directions take twice the traffic.
        let load = Load {
            network_pps: load.network_pps * directions as f64,
            seconds: load.seconds * directions as f64,
            ..load
        };
        drain(&mut phone, &keys, &load)
    };
    let (alone, shared) = (run(1), run(2));
    let plain = token::plain(&card, blocks(packet_bytes));
    Row {
        packet_bytes,
        before_pps: alone.before_pps,
        after_pps: alone.after_pps,
        shared_pps: shared.after_pps / 2.0,
        plain_pps: 1.0 / plain.as_secs_f64(),
    }
}

fn drains(study: &Study, shape: bool) -> Drained {
    let figures = &study.drain;
    let ring = figures.buffer_blocks as usize;
    let mut settings = token::settings(ring);
    if shape {
        let delay =
            |d: &super::published::Delay| (d.min_bytes, Duration::from_secs_f64(d.delay / 1000.0));
        settings.delays = figures.delay_ms.iter().filter(|d| d.delay > 0.0).map(delay).collect();
    }
    let mut phone = Phone::new(&token::profile(token::TOKEN), settings);
    let key = phone.install(Op::Seal);
    let network_pps = figures.network_blocks_per_second / blocks(figures.packet_bytes) as f64;
    let longest = if shape { figures.with_delay_empty_after_s } else { figures.empty_after_s };
    let load = Load {
        ip_octets: figures.packet_bytes,
        network_pps,
        seconds: longest + BEYOND,
        sample: SAMPLE,
    };
    drain(&mut phone, &[key], &load)
}

fn sized(study: &Study, mib: f64) -> Drained {
    const OCTETS: usize = 1024;
    let ring = (mib * MIB) as usize / BLOCK;
    let mut phone = Phone::new(&token::profile(token::TOKEN), token::settings(ring));
    let key = phone.install(Op::Seal);
    let network_pps = pps(study.empty_time.start_mbps * 1000.0, OCTETS);
    let last = study.empty_time.empty_after_s.iter().copied().fold(0.0, f64::max);
    let seconds = lasts_s(ring, network_pps * blocks(OCTETS) as f64).max(last) + BEYOND;
    drain(&mut phone, &[key], &Load { ip_octets: OCTETS, network_pps, seconds, sample: SAMPLE })
}
