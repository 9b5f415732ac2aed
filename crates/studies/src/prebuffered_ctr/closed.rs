//! A throughput tester: packets back to back, as fast as the network takes them and the
//! engine gives them back.

use super::token::{Phone, Returned};
use ferrule_base::{Duration, Instant};
use ferrule_crypto::{KeyId, Verdict};
use serde::{Deserialize, Serialize};

/// One place of a curve.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Level {
    /// Since the traffic began.
    pub at_s: f64,
    /// Blocks that are made ahead.
    pub blocks: u64,
    /// Packets that came back since the last one, a second.
    pub pps: f64,
}

/// Result of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Drained {
    /// Samples.
    pub curve: Vec<Level>,
    /// Time at which the token was asked for more.
    pub filling_starts_s: Option<f64>,
    /// Time at which the study calls the ring empty: less than an exchange is left.
    pub empty_after_s: Option<f64>,
    /// Packets a second before that.
    pub before_pps: f64,
    /// Packets a second after it, if it was.
    pub after_pps: Option<f64>,
}

impl Drained {
    /// Kilobits of IP packets a second.
    pub fn kbps(pps: f64, ip_octets: usize) -> f64 {
        pps * ip_octets as f64 * 8.0 / 1000.0
    }
}

/// The traffic sent.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Octets of each IP packet.
    pub ip_octets: usize,
    /// Packets a second that network and host let through.
    pub network_pps: f64,
    /// Longest duration, in seconds.
    pub seconds: f64,
    /// Duration beyond the time at which the ring is empty, in seconds.
    pub beyond: f64,
    /// A sample each.
    pub sample: Duration,
}

struct Count {
    done: u64,
    before: (u64, f64),
    after: (u64, f64),
}

/// Sends through a full ring for a while. `keys` share the load, packet by packet.
pub fn drain(phone: &mut Phone, keys: &[KeyId], load: &Load) -> Result<Drained, String> {
    phone.fill();
    let begun = phone.tick();
    let asked = phone.stats().exchanges;
    let exchange = super::token::profile(super::token::TOKEN).blocks_max() as u64;
    let gap = Duration::from_secs_f64(1.0 / load.network_pps);
    let mut end = begun + Duration::from_secs_f64(load.seconds);
    let seconds = |now: Instant| now.since(begun).as_secs_f64();
    let mut out = Drained {
        curve: vec![Level { at_s: 0.0, blocks: phone.ahead(keys[0]), pps: load.network_pps }],
        filling_starts_s: None,
        empty_after_s: None,
        before_pps: 0.0,
        after_pps: None,
    };
    let mut count = Count { done: 0, before: (0, 0.0), after: (0, 0.0) };
    let (mut next, mut sample, mut sampled) = (begun, begun + load.sample, 0);
    let mut turn = 0;
    while phone.now < end {
        let Some(back) = one(phone, keys[turn % keys.len()], load.ip_octets, next) else { break };
        turn += 1;
        if back.job.verdict != Verdict::Done {
            return Err(format!("a packet was not sealed: {:?}", back.job.verdict));
        }
        count.done += 1;
        next = (next + gap).max(back.at);
        if out.filling_starts_s.is_none() && phone.stats().exchanges > asked {
            out.filling_starts_s = Some(seconds(back.at));
        }
        let ahead = keys.iter().map(|key| phone.ahead(*key)).min().unwrap_or(0);
        if out.empty_after_s.is_none() && ahead < exchange {
            out.empty_after_s = Some(seconds(back.at));
            end = back.at + Duration::from_secs_f64(load.beyond);
            count.before = (count.done, seconds(back.at));
        }
        count.after = (count.done, seconds(back.at));
        while phone.now >= sample {
            let pps = (count.done - sampled) as f64 / load.sample.as_secs_f64();
            out.curve.push(Level { at_s: seconds(sample), blocks: ahead, pps });
            (sampled, sample) = (count.done, sample + load.sample);
        }
    }
    let (first, last) = (count.before, count.after);
    if out.empty_after_s.is_some() {
        out.before_pps = first.0 as f64 / first.1;
        out.after_pps = Some((last.0 - first.0) as f64 / (last.1 - first.1));
    } else {
        out.before_pps = last.0 as f64 / last.1;
    }
    Ok(out)
}

/// One packet, not before its time, there and back.
fn one(phone: &mut Phone, key: KeyId, ip_octets: usize, at: Instant) -> Option<Returned> {
    let mut early = Vec::new();
    phone.run_until(at, &mut early);
    let packet = phone.packet(key, ip_octets);
    match phone.submit(packet) {
        Some(back) => Some(back),
        None => phone.wait(),
    }
}
