//! A device of known capacity in virtual time: a server with a queue, and behind
//! it a wire, a bridge or a label switching router.

use ferrule_base::{Duration, Instant, MacAddr, Rng};
use ferrule_pipeline::{Batch, Packet, Pool};
use ferrule_tester::{About, Bench, BenchError, Trial, TrialResult, TrialSpec};
use ferrule_wire::{EtherType, mpls};
use std::collections::{BTreeMap, HashMap};

/// Kind of device.
pub enum Kind {
    /// Port 0 to 1 and back.
    Wire,
    /// Learns and floods.
    Bridge(Bridge),
    /// Changes labels, port 0 to 1.
    Router(Labels),
}

/// A bridge's table.
pub struct Bridge {
    pub table: HashMap<MacAddr, usize>,
    pub capacity: usize,
    /// Nanoseconds that learning an address takes; sources that arrive meanwhile
    /// are not learned.
    pub learning: u64,
    pub busy_until: u64,
    /// Longest frame without FCS that it carries.
    pub longest: usize,
}

impl Bridge {
    pub fn new(capacity: usize, learning: u64) -> Self {
        Self { table: HashMap::new(), capacity, learning, busy_until: 0, longest: 1514 }
    }
}

/// Operation of a router on labels.
#[derive(Clone, Copy)]
pub enum Labels {
    Push(u32),
    Swap(u32),
    Pop,
}

/// The device, and the bench around it.
pub struct Device {
    /// Nanoseconds to serve a frame.
    pub service: u64,
    /// Frames that wait or are served, at most.
    pub queue: usize,
    /// Ports.
    pub ports: usize,
    pub kind: Kind,
    /// One trial in so many has a pause of service of so many nanoseconds.
    pub noise: Option<(u64, u64)>,
    /// After a frame that it had no room for it drops all for so long.
    pub grudge: u64,
    /// When it dropped a frame last.
    pub last_drop: u64,
    /// When the measurement of the last trial began.
    pub measured: u64,
    /// A reset takes it so long.
    pub outage: u64,
    /// In the next trial it is reset so long after the measurement begins.
    pub reset: Option<Duration>,
    /// Frames a second that the tester manages to send at most.
    pub sender: Option<u64>,
    pub rng: Rng,
    pub now: Instant,
    pub epoch: u16,
    pub line: Option<u64>,
    pub trials: usize,
}

impl Device {
    pub fn new(service: u64, queue: usize, kind: Kind) -> Self {
        Self {
            service,
            queue,
            ports: 2,
            kind,
            noise: None,
            grudge: 0,
            last_drop: 0,
            measured: 0,
            outage: 0,
            reset: None,
            sender: None,
            rng: Rng::new(7),
            now: Instant::ZERO,
            epoch: 0,
            line: None,
            trials: 0,
        }
    }

    /// Frames a second that are served.
    pub fn capacity(&self) -> f64 {
        1e9 / self.service as f64
    }

    /// Somewhere in the measurement the server does something else.
    fn pause(&mut self, spec: &TrialSpec) -> std::ops::Range<u64> {
        match self.noise {
            Some((one_in, nanos)) if self.rng.one_in(one_in) => {
                let at = (self.now + spec.timing.warm_up + spec.timing.duration / 2).as_nanos();
                at..at + nanos
            }
            _ => 0..0,
        }
    }

    /// Time for which it is down in the trial that begins.
    fn outage(&mut self) -> std::ops::Range<u64> {
        self.reset.take().map_or(0..0, |after| {
            let at = self.measured + after.as_nanos() as u64;
            at..at + self.outage
        })
    }

    /// Changes a served frame as the device does, and gives the ports that it leaves by.
    fn forward(&mut self, now: u64, from: usize, packet: &mut Packet) -> Vec<usize> {
        let ports = self.ports;
        match &mut self.kind {
            Kind::Wire => vec![1 - from],
            Kind::Router(labels) => {
                relabel(packet, *labels);
                vec![1 - from]
            }
            Kind::Bridge(bridge) => bridge.forward(now, ports, from, packet),
        }
    }
}

impl Bridge {
    fn forward(&mut self, now: u64, ports: usize, from: usize, packet: &Packet) -> Vec<usize> {
        if packet.len() < 60 || packet.len() > self.longest {
            return Vec::new();
        }
        let mac = |at: usize| MacAddr(*packet.data()[at..].first_chunk().unwrap());
        let (to, source) = (mac(0), mac(6));
        let known = self.table.contains_key(&source);
        if !known && self.table.len() < self.capacity && now >= self.busy_until {
            self.busy_until = now + self.learning;
            self.table.insert(source, from);
        }
        match self.table.get(&to) {
            Some(&port) if !to.is_group() => (port != from).then_some(port).into_iter().collect(),
            _ => (0..ports).filter(|&p| p != from).collect(),
        }
    }
}

fn relabel(packet: &mut Packet, labels: Labels) {
    let mut eth: [u8; 14] = *packet.data().first_chunk().unwrap();
    match labels {
        Labels::Push(label) => {
            packet.strip(14);
            packet.prepend(4).unwrap().copy_from_slice(&mpls::encode(label, 0, true, 64));
            eth[12..].copy_from_slice(&EtherType::MPLS.0.to_be_bytes());
            packet.prepend(14).unwrap().copy_from_slice(&eth);
        }
        Labels::Swap(label) => {
            let entry = packet.data()[14..18].try_into().unwrap();
            let (_, class, bottom, ttl) = mpls::decode(entry);
            let entry = mpls::encode(label, class, bottom, ttl - 1);
            packet.data_mut()[14..18].copy_from_slice(&entry);
        }
        Labels::Pop => {
            let bottom = packet.data()[16] & 1 != 0;
            packet.strip(18);
            if bottom {
                eth[12..].copy_from_slice(&EtherType::IPV4.0.to_be_bytes());
            }
            packet.prepend(14).unwrap().copy_from_slice(&eth);
            // A short frame is padded again.
            let pad = 60usize.saturating_sub(packet.len());
            packet.append(pad).unwrap().fill(0);
        }
    }
}

impl Bench for Device {
    fn about(&self) -> About {
        About {
            device: "a device that is known".into(),
            notes: Vec::new(),
            ports: (0..self.ports).map(|p| format!("model:{p}")).collect(),
            line: self.line,
            clock: "virtual".into(),
            is_virtual: true,
        }
    }

    fn reset_at(&mut self, after: Duration) -> Result<(), BenchError> {
        self.reset = Some(after);
        Ok(())
    }

    fn trial(&mut self, spec: &TrialSpec) -> Result<TrialResult, BenchError> {
        let pool = Pool::heap(4096, 2048);
        let mut cache = pool.cache();
        self.epoch += 1;
        self.trials += 1;
        let mut trial = Trial::new(spec, self.ports, self.epoch, Vec::new())?;
        trial.start(self.now);
        // Departures by time; the server is free from `free` on.
        let mut served: BTreeMap<(u64, u64), (usize, Packet)> = BTreeMap::new();
        let (mut free, mut order, mut sender) = (0u64, 0u64, 0u64);
        let mut waiting: std::collections::VecDeque<u64> = Default::default();
        let pause = self.pause(spec);
        self.measured = (self.now + spec.timing.warm_up).as_nanos();
        let dead = self.outage();
        let mut sulks_until = 0;
        let mut batch = Batch::new();
        while let Some(due) = trial.poll_timeout(self.now) {
            let departure = served.first_key_value().map(|(k, _)| Instant::from_nanos(k.0));
            let due = due.max(Instant::from_nanos(sender));
            self.now = departure.map_or(due, |d| d.min(due)).max(self.now);
            let now = self.now.as_nanos();
            while let Some(entry) = served.first_entry().filter(|e| e.key().0 <= now) {
                let (port, packet) = entry.remove();
                trial.handle(self.now, port, &packet);
            }
            if now < sender {
                continue;
            }
            for port in 0..self.ports {
                trial.emit(self.now, port, &mut cache, &mut batch);
                for mut packet in batch.drain(..) {
                    if let Some(most) = self.sender {
                        sender = sender.max(now) + 1_000_000_000 / most;
                    }
                    while waiting.front().is_some_and(|&w| w <= now) {
                        waiting.pop_front();
                    }
                    if waiting.len() >= self.queue {
                        sulks_until = now + self.grudge;
                    }
                    if waiting.len() >= self.queue || now < sulks_until {
                        self.last_drop = now;
                        continue;
                    }
                    let begin = now.max(free);
                    // A reset loses what waits, too.
                    if dead.contains(&now)
                        || (now < dead.start && begin + self.service > dead.start)
                    {
                        continue;
                    }
                    let begin = if pause.contains(&begin) { pause.end } else { begin };
                    free = begin + self.service;
                    waiting.push_back(free);
                    for to in self.forward(now, port, &mut packet) {
                        order += 1;
                        let copy = cache.copy_of(&packet).expect("the pool has room");
                        served.insert((free, order), (to, copy));
                    }
                }
            }
        }
        self.now += Duration::from_millis(1);
        Ok(trial.finish())
    }
}
