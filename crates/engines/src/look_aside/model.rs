//! A device in virtual time: a bus that both ways share, and one unit that works.
//!
//! ```text
//!   push, ring ─▶ │ in │ ─▶ bus ─▶ │ ready │ ─▶ unit ─▶ latency ─▶ │ out │ ─▶ bus ─▶ pop
//!                           └──────── one transfer at a time ───────────────┘
//! ```
//!
//! A transfer takes one clock for each bus width of octets, and half of the crossings lie
//! before the unit's work. The unit does one request at a time; its latency delays a
//! request and occupies nothing. The request that is ready first goes first, and of two at
//! one time the outgoing one. All of it follows from the times at which requests are
//! pushed, with no random part.
//!
//! The work itself is done when a request is taken back, by our own backends.

use super::device::{Cipher, Command, Device, Own, Request, Requests};
use ferrule_base::{Duration, Instant};
use ferrule_crypto::key::InstallError;
use ferrule_crypto::{KeySpec, Software};
use std::collections::VecDeque;

/// Picoseconds in a nanosecond.
const PICOS: u64 = 1000;

/// Timing of a device. Zeros take no time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Speed {
    /// Width of the bus in bits; 0: there is no bus.
    pub bus_bits: f64,
    /// Its clock in megahertz.
    pub bus_mhz: f64,
    /// Fixed latency of each transfer beside its clocks, in nanoseconds.
    pub bus_latency_ns: f64,
    /// Times that each packet crosses it, there and back together.
    pub crossings: f64,
    /// The unit, for each packet.
    pub packet_ns: f64,
    /// The unit, for each octet of it.
    pub octet_ns: f64,
    /// Delay behind the unit, which does not occupy it.
    pub latency_ns: f64,
}

impl Speed {
    /// Picoseconds for which `octets` occupy the bus if they cross it so often.
    fn bus_ps(&self, octets: usize, crossings: f64) -> u64 {
        if self.bus_bits <= 0.0 || self.bus_mhz <= 0.0 || crossings <= 0.0 {
            return 0;
        }
        let clocks = (octets as f64 * 8.0 / self.bus_bits).ceil();
        let once = clocks * 1e6 / self.bus_mhz + self.bus_latency_ns * 1e3;
        (once * crossings).round() as u64
    }

    /// Crossings on the way there.
    fn there(&self) -> f64 {
        (self.crossings / 2.0).floor()
    }

    /// Picoseconds for which `octets` occupy the unit.
    fn unit_ps(&self, octets: usize) -> u64 {
        ((self.packet_ns + self.octet_ns * octets as f64) * 1e3).round() as u64
    }
}

/// A request, and the time at which it is ready for the next step.
struct Waiting<B> {
    ready_ps: u64,
    request: Request<B>,
}

/// A modelled device.
pub struct Model<B> {
    speed: Speed,
    depth: usize,
    cipher: Own,
    /// Pushed, and the doorbell has not rung.
    silent: VecDeque<Request<B>>,
    inward: VecDeque<Waiting<B>>,
    working: VecDeque<Waiting<B>>,
    outward: VecDeque<Waiting<B>>,
    done: VecDeque<Waiting<B>>,
    bus_free_ps: u64,
    unit_free_ps: u64,
}

fn picos(at: Instant) -> u64 {
    at.as_nanos().saturating_mul(PICOS)
}

/// Earliest start of the request at the front of a queue.
fn begins<B>(queue: &VecDeque<Waiting<B>>, free_ps: u64) -> Option<u64> {
    queue.front().map(|w| w.ready_ps.max(free_ps))
}

impl<B: AsMut<[u8]>> Model<B> {
    /// A device of this speed with room for `depth` requests.
    pub fn new(speed: Speed, depth: usize, software: Software) -> Self {
        Self {
            speed,
            depth,
            cipher: Own::new(software),
            silent: VecDeque::new(),
            inward: VecDeque::new(),
            working: VecDeque::new(),
            outward: VecDeque::new(),
            done: VecDeque::new(),
            bus_free_ps: 0,
            unit_free_ps: 0,
        }
    }

    fn len(&self) -> usize {
        let queues = [&self.inward, &self.working, &self.outward, &self.done];
        self.silent.len() + queues.iter().map(|q| q.len()).sum::<usize>()
    }

    /// Earliest next step: on the bus outward, on the bus inward, or in the unit.
    fn next(&self) -> Option<(u64, Step)> {
        let outward = begins(&self.outward, self.bus_free_ps).map(|at| (at, Step::Out));
        let inward = begins(&self.inward, self.bus_free_ps).map(|at| (at, Step::In));
        let unit = begins(&self.working, self.unit_free_ps).map(|at| (at, Step::Work));
        // The first of those that begin at one time.
        outward.into_iter().chain(inward).chain(unit).min_by_key(|&(at, _)| at)
    }

    /// Everything that begins up to `now`. Later requests are ready later, so nothing of
    /// this changes any more.
    fn advance(&mut self, now_ps: u64) {
        while let Some((at, step)) = self.next().filter(|&(at, _)| at <= now_ps) {
            let (from, to) = match step {
                Step::Out => (&mut self.outward, &mut self.done),
                Step::In => (&mut self.inward, &mut self.working),
                Step::Work => (&mut self.working, &mut self.outward),
            };
            let Some(Waiting { mut request, .. }) = from.pop_front() else { return };
            let octets = request.buf.as_mut().len();
            let (there, all) = (self.speed.there(), self.speed.crossings);
            let ready_ps = match step {
                Step::Out => {
                    self.bus_free_ps = at + self.speed.bus_ps(octets, all - there);
                    self.bus_free_ps
                }
                Step::In => {
                    self.bus_free_ps = at + self.speed.bus_ps(octets, there);
                    self.bus_free_ps
                }
                Step::Work => {
                    self.unit_free_ps = at + self.speed.unit_ps(octets);
                    self.unit_free_ps + (self.speed.latency_ns * 1e3) as u64
                }
            };
            to.push_back(Waiting { ready_ps, request });
        }
    }
}

#[derive(Clone, Copy)]
enum Step {
    Out,
    In,
    Work,
}

impl<B: AsMut<[u8]> + Send> Device<B> for Model<B> {
    fn accepts(&self, spec: &KeySpec) -> Result<(), InstallError> {
        spec.check()
    }

    fn command(&mut self, command: Command) -> Result<(), Command> {
        Cipher::<B>::obey(&mut self.cipher, command);
        Ok(())
    }

    fn push(&mut self, _now: Instant, requests: &mut Requests<B>) {
        let room = self.depth.saturating_sub(self.len()).min(requests.len());
        self.silent.extend(requests.drain(..room));
    }

    fn ring(&mut self, now: Instant) {
        let ready_ps = picos(now);
        let rung = self.silent.drain(..).map(|request| Waiting { ready_ps, request });
        self.inward.extend(rung);
        self.advance(ready_ps);
    }

    fn pop(&mut self, now: Instant, done: &mut Requests<B>) {
        self.advance(picos(now));
        let mut from = done.len();
        while !done.is_full() && self.done.front().is_some_and(|w| w.ready_ps <= picos(now)) {
            let Some(Waiting { request, .. }) = self.done.pop_front() else { break };
            done.push(request);
        }
        from = from.min(done.len());
        if let Some(new) = done.get_mut(from..).filter(|new| !new.is_empty()) {
            self.cipher.run(new);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let ready = self.done.front().map(|w| w.ready_ps);
        let next = ready.into_iter().chain(self.next().map(|(at, _)| at)).min()?;
        Some(Instant::from_nanos(next.div_ceil(PICOS)))
    }

    fn is_alive(&self) -> bool {
        true
    }

    fn abandon(&mut self, _now: Instant, salvaged: &mut Vec<Request<B>>) {
        salvaged.extend(self.silent.drain(..));
        let queues = [&mut self.inward, &mut self.working, &mut self.outward, &mut self.done];
        for queue in queues {
            salvaged.extend(queue.drain(..).map(|w| w.request));
        }
    }

    fn start(&mut self, now: Instant) -> bool {
        self.cipher = self.cipher.without_keys();
        (self.bus_free_ps, self.unit_free_ps) = (picos(now), picos(now));
        true
    }
}

impl Speed {
    /// Time of one packet that meets no other.
    pub fn alone(&self, octets: usize) -> Duration {
        let bus =
            self.bus_ps(octets, self.there()) + self.bus_ps(octets, self.crossings - self.there());
        let all = bus + self.unit_ps(octets) + (self.latency_ns * 1e3) as u64;
        Duration::from_nanos(all.div_ceil(PICOS))
    }

    /// Packets of `octets` a second that the device does at most, by its narrowest part.
    /// Nothing: without limit.
    pub fn ceiling(&self, octets: usize) -> Option<f64> {
        let narrowest = self.bus_ps(octets, self.crossings).max(self.unit_ps(octets));
        (narrowest > 0).then(|| 1e12 / narrowest as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look_aside::{LookAside, Options};
    use ferrule_base::Secret;
    use ferrule_crypto::{Ad, Aes, Engine, Job, Jobs, KeyId, Op, Span, Suite, Verdict};

    /// The bus of the study: 32 bits at 133 MHz, four crossings.
    const STUDY: Speed = Speed {
        bus_bits: 32.0,
        bus_mhz: 133.0,
        bus_latency_ns: 0.0,
        crossings: 4.0,
        packet_ns: 1000.0,
        octet_ns: 1.0,
        latency_ns: 500.0,
    };

    type Host = LookAside<Vec<u8>, Model<Vec<u8>>>;

    fn host(speed: Speed, options: Options) -> (Host, KeyId) {
        let model = Model::new(speed, options.depth, Software::default());
        let mut host = LookAside::new(model, options, Software::default(), Box::new(|| None));
        let suite = Suite::AesGcm(Aes::Aes128);
        let spec = KeySpec::new(suite, Secret::new(vec![1; 16]), Secret::new(Vec::new()));
        let key = host.install(&spec).unwrap();
        (host, key)
    }

    fn job(key: KeyId, ticket: u64, len: usize) -> Job<Vec<u8>> {
        let text = Span::new(8, len - 24);
        let (op, verdict) = (Op::Seal, Verdict::Pending);
        let (buf, ad) = (vec![ticket as u8; len], Ad::Span(Span::new(0, 8)));
        Job { buf, key, ticket, number: 0, nonce: [ticket as u8; 12], op, verdict, ad, text }
    }

    const AT_ONCE: Options = Options {
        depth: 1024,
        batch: 1,
        wait: Duration::ZERO,
        copies: 0,
        deadline: Duration::from_secs(10),
        on_failure: crate::look_aside::Otherwise::Drop,
        on_full: crate::look_aside::Otherwise::Drop,
    };

    #[test]
    fn the_bus_of_the_study_takes_1051_clocks_for_1051_octets_crossing_four_times() {
        let ps = STUDY.bus_ps(1051, 4.0);
        // Whole clocks for each crossing: 263 of 4 octets.
        assert_eq!(ps, (4.0_f64 * 263.0 * 1e6 / 133.0).round() as u64);
        assert!((7_900_000..7_920_000).contains(&ps), "7.9 microseconds: {ps}");
    }

    #[test]
    fn a_packet_alone_takes_the_sum_and_many_are_bound_by_the_narrowest() {
        let (mut host, key) = host(STUDY, AT_ONCE);
        let mut jobs: Jobs<_> = [job(key, 0, 1051)].into_iter().collect();
        host.submit(Instant::ZERO, &mut jobs);
        let end = Instant::ZERO + STUDY.alone(1051);
        let mut now = Instant::ZERO;
        let mut back = Jobs::new();
        let mut looks = 0;
        while back.is_empty() {
            let next = host.poll_timeout().expect("something is under way");
            assert!(next > now || looks == 0, "time goes on");
            now = next;
            host.collect(now, &mut back);
            looks += 1;
        }
        assert_eq!((now, back[0].verdict), (end, Verdict::Done));

        let mut jobs: Jobs<_> = (0..64).map(|t| job(key, t, 1051)).collect();
        let begin = now;
        host.submit(now, &mut jobs);
        let mut order = Vec::new();
        while order.len() < 64 {
            now = host.poll_timeout().expect("something is under way").max(now);
            let mut back = Jobs::new();
            host.collect(now, &mut back);
            order.extend(back.iter().map(|job| job.ticket));
        }
        assert!(order.is_sorted(), "one bus, one unit: first come, first served");
        let rate = 64.0 / (now.since(begin).as_nanos() as f64 / 1e9);
        let ceiling = STUDY.ceiling(1051).unwrap();
        assert!((0.9..=1.0).contains(&(rate / ceiling)), "{rate} of {ceiling}");
    }

    #[test]
    fn the_model_is_deterministic_and_a_batch_is_begun_when_the_doorbell_rings() {
        let wait = Duration::from_micros(3);
        let run = || {
            let (mut host, key) = host(STUDY, Options { batch: 4, wait, ..AT_ONCE });
            let (mut now, mut log) = (Instant::ZERO, Vec::new());
            for ticket in 0..30_u64 {
                let mut jobs: Jobs<_> =
                    [job(key, ticket, 64 + 37 * ticket as usize)].into_iter().collect();
                host.submit(now, &mut jobs);
                let until = now + Duration::from_nanos(700 + 131 * (ticket % 7));
                while let Some(next) = host.poll_timeout().filter(|&next| next <= until) {
                    now = now.max(next);
                    let mut back = Jobs::new();
                    host.collect(now, &mut back);
                    log.extend(back.iter().map(|job| (now, job.ticket, job.buf.clone())));
                }
                now = until;
            }
            log
        };
        let first = run();
        assert!(first.len() > 10);
        assert_eq!(first, run());
        assert!(first[0].0 >= Instant::ZERO + Duration::from_nanos(700), "a batch waits");
    }
}
