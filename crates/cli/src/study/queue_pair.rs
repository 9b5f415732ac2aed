//! Live measurements for the study of placements: the software engine against a queue pair to a
//! thread on another core, from memory to memory.
//!
//! ```text
//!   software     submit ─▶ done                         host time: all of it
//!   look-aside   submit ─▶ │ ring │ ─▶ thread ─▶ │ ring │ ─▶ collect
//!                host time: submit, and collect where something came back
//! ```
//!
//! The host looks for completions as a busy node does; looks that find nothing are
//! not counted as its work.

use ferrule_base::{Instant, Secret};
use ferrule_crypto::{
    Ad, Aes, Engine, Job, Jobs, KeyId, KeySpec, Mac, Op, Place, Software, Span, Suite, Verdict,
};
use ferrule_engines::look_aside::{LookAside, Options, Own, Service};
use ferrule_studies::toe_ipsec::live::{Cost, Engines, Live, Point};
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

/// Octets of the text.
const OCTETS: [usize; 5] = [64, 256, 512, 1024, 1420];
/// Jobs that go together.
const BATCHES: [usize; 3] = [1, 8, 32];
/// The suites: the fastest of a core with vector AES, and the study's.
const SUITES: [Suite; 2] =
    [Suite::AesGcm(Aes::Aes128), Suite::AesCbc(Aes::Aes128, Mac::HmacSha1_96)];
/// Batches under way at most, to keep the other core busy.
const FLIGHT: usize = 4;
/// Rounds of each, the two in turn; the quietest counts, for a machine may have other
/// things to do.
const ROUNDS: usize = 12;
/// A round takes so long.
const ROUND: Duration = Duration::from_millis(4);
/// Single batches that latency is the median of.
const SINGLES: usize = 200;
/// Nothing is this late, or the engine has lost it.
const LATE: Duration = Duration::from_secs(5);

/// SPI and sequence number in front of the text, the ICV behind it.
const AD: usize = 8;
const ICV: usize = 16;
/// Octets of a block, and of CBC's IV.
const BLOCK: usize = 16;

type Packet = Vec<u8>;

/// A clock for engines.
struct Watch(Clock);

impl Watch {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.elapsed().as_nanos() as u64)
    }
}

/// Measures; or why not.
pub fn run(quick: bool, say: &mut dyn FnMut(&str)) -> Result<Live, String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        return Err("not run: needs a second core".into());
    }
    let mut engines = Vec::new();
    for suite in SUITES {
        say(&format!("live: {suite} against a queue pair to another core"));
        let mut points = Vec::new();
        for batch in BATCHES {
            for octets in OCTETS {
                let found = point(suite, octets, batch);
                points.push(found.map_err(|what| format!("not run: {what}"))?);
            }
        }
        engines.push(Engines { suite: suite.to_string(), points });
    }
    let backend = Software::default().backend().name();
    let note = format!(
        "Both run the same kernels ({backend}), sealing. The other core does nothing else, as far \
         as this machine's {cores} cores are idle; of {ROUNDS} rounds the quietest counts."
    );
    let built = match cfg!(debug_assertions) {
        true => " This is a development build: its costs around the kernels are too high.",
        false => "",
    };
    let nodes = super::systems::run(quick, say);
    let turns = super::systems::turns(quick, say);
    Ok(Live { note: note + built, gigahertz: gigahertz(), engines, nodes, turns })
}

fn key(suite: Suite) -> KeySpec {
    let secret = |len| Secret::new(vec![7; len]);
    KeySpec::new(suite, secret(suite.key_len()), secret(suite.mac_key_len()))
}

fn jobs(suite: Suite, key: KeyId, octets: usize, count: usize) -> Vec<Job<Packet>> {
    // What CBC encrypts are whole blocks behind an IV that is a part of the text.
    let (iv, octets) = match suite {
        Suite::AesCbc(..) => (BLOCK, octets.next_multiple_of(BLOCK)),
        _ => (0, octets),
    };
    let job = |number: usize| Job {
        buf: vec![number as u8; AD + iv + octets + ICV],
        key,
        ticket: number as u64,
        number: 0,
        nonce: [0; 12],
        op: Op::Seal,
        verdict: Verdict::Pending,
        ad: Ad::Span(Span::new(0, AD)),
        text: Span::new(AD, iv + octets),
    };
    (0..count).map(job).collect()
}

/// An engine, packets for it, and a clock.
struct Stand<E> {
    engine: E,
    idle: Vec<Job<Packet>>,
    batch: usize,
    number: u64,
    watch: Watch,
}

impl<E: Engine<Packet>> Stand<E> {
    fn new(mut engine: E, spec: &KeySpec, octets: usize, batch: usize) -> Result<Self, String> {
        let key = engine.install(spec).map_err(|e| e.to_string())?;
        let idle = jobs(spec.suite, key, octets, batch * FLIGHT);
        Ok(Self { engine, idle, batch, number: 0, watch: Watch(Clock::now()) })
    }

    /// A batch with nonces that were not used before.
    fn next(&mut self) -> Jobs<Packet> {
        let from = self.idle.len() - self.batch;
        let mut jobs: Jobs<Packet> = self.idle.drain(from..).collect();
        for job in &mut jobs {
            self.number += 1;
            job.nonce[4..].copy_from_slice(&self.number.to_be_bytes());
            job.verdict = Verdict::Pending;
        }
        jobs
    }

    /// Keeps what came back.
    fn take(&mut self, done: &mut Jobs<Packet>) -> Result<usize, String> {
        let count = done.len();
        if done.iter().any(|job| job.verdict != Verdict::Done) {
            return Err("the engine did not do what it was asked to".into());
        }
        self.idle.extend(done.drain(..));
        Ok(count)
    }

    /// Packets, all the time, and the host's part of it.
    fn round(&mut self) -> Result<(u64, Duration, Duration), String> {
        let (begun, mut host, mut packets) = (Clock::now(), Duration::ZERO, 0);
        loop {
            let is_over = begun.elapsed() >= ROUND;
            let under_way = self.engine.in_flight() > 0;
            if is_over && !under_way {
                return Ok((packets, begun.elapsed(), host));
            }
            if !is_over && self.idle.len() >= self.batch {
                let mut jobs = self.next();
                let from = Clock::now();
                self.engine.submit(self.watch.now(), &mut jobs);
                host += from.elapsed();
                packets += self.take(&mut jobs)? as u64;
            }
            if under_way {
                packets += self.look(&mut host)? as u64;
            }
            if begun.elapsed() > LATE {
                return Err("the engine lost a packet".into());
            }
        }
    }

    /// Looks for what came back.
    fn look(&mut self, host: &mut Duration) -> Result<usize, String> {
        let mut done = Jobs::new();
        let from = Clock::now();
        self.engine.collect(self.watch.now(), &mut done);
        if !done.is_empty() {
            *host += from.elapsed();
        }
        self.take(&mut done)
    }

    /// The median time of a batch alone, in microseconds.
    fn latency(&mut self) -> Result<f64, String> {
        let (mut times, mut unused) = (Vec::with_capacity(SINGLES), Duration::ZERO);
        for _ in 0..SINGLES {
            let mut jobs = self.next();
            let from = Clock::now();
            self.engine.submit(self.watch.now(), &mut jobs);
            self.take(&mut jobs)?;
            while self.engine.in_flight() > 0 {
                self.look(&mut unused)?;
                if from.elapsed() > LATE {
                    return Err("the engine lost a packet".into());
                }
            }
            times.push(from.elapsed().as_secs_f64() * 1e6);
        }
        Ok(median(times))
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn point(suite: Suite, octets: usize, batch: usize) -> Result<Point, String> {
    let make = || -> Box<dyn ferrule_engines::look_aside::Cipher<Packet>> {
        Box::new(Own::new(Software::default()))
    };
    // A busy machine may keep the other core from us for a while: that is no engine that
    // hangs.
    let options = Options { batch, wait: Duration::ZERO, deadline: LATE, ..Options::default() };
    let service = Service::start(options.depth, Box::new(make), Arc::new(|| {}));
    let service = service.map_err(|e| e.to_string())?;
    let away = LookAside::new(service, options, Software::default(), Box::new(|| None));
    let mut software = Stand::new(Software::default(), &key(suite), octets, batch)?;
    let mut away = Stand::new(away, &key(suite).at(Place::LookAside), octets, batch)?;
    // The first rounds wake both up.
    software.round()?;
    away.round()?;
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        rounds[0].push(software.round()?);
        rounds[1].push(away.round()?);
    }
    let latency = [software.latency()?, away.latency()?];
    let [software, look_aside] = [0, 1].map(|at| cost(&rounds[at], latency[at]));
    Ok(Point { octets, batch, software, look_aside })
}

fn cost(rounds: &[(u64, Duration, Duration)], latency_us: f64) -> Cost {
    let each = |f: fn(f64, f64) -> f64, time: fn(&(u64, Duration, Duration)) -> Duration| {
        rounds.iter().map(move |round| f(round.0 as f64, time(round).as_secs_f64()))
    };
    let host_ns = each(|packets, host| host * 1e9 / packets, |round| round.2);
    let mpps = each(|packets, all| packets / all / 1e6, |round| round.1);
    let (host_ns, mpps) = (host_ns.fold(f64::INFINITY, f64::min), mpps.fold(0.0, f64::max));
    Cost { mpps, host_ns, host_cycles: host_ns * gigahertz(), latency_us }
}

/// Clock of the first core as the kernel reports it; NaN where it reports none.
fn gigahertz() -> f64 {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("cpu MHz"));
    let value = line.and_then(|line| line.split(':').nth(1)?.trim().parse::<f64>().ok());
    value.map_or(f64::NAN, |mhz| mhz / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn study_measures_software_and_a_queue_pair_alike() {
        let points = SUITES.map(|suite| point(suite, 256, 8).expect("two engines that work"));
        for (point, cost) in points.iter().flat_map(|p| [(p, p.software), (p, p.look_aside)]) {
            assert!(cost.mpps > 0.0 && cost.host_ns > 0.0 && cost.latency_us > 0.0, "{point:?}");
            assert!(cost.host_ns <= 1000.0 / cost.mpps * 1.01, "no more than all time: {point:?}");
        }
    }
}
