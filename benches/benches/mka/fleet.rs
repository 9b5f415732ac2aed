//! Many participants on LANs of their own, two or three to each, in virtual time.

use ferrule_base::{Duration, Instant, MacAddr, Rng, Secret};
use ferrule_control::Core;
use ferrule_control::mka::config::HELLO;
use ferrule_control::mka::{Cak, Command, Config, Kay, Order, PortState};
use ferrule_wire::Sci;
use ferrule_wire::mkpdu::Ckn;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Messages, the nanoseconds and the blocks of the heap that they took.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    pub messages: u64,
    pub nanos: u64,
    pub blocks: usize,
}

/// The participants.
pub struct Fleet {
    kays: Vec<Kay>,
    /// Participants of a LAN.
    group: usize,
    now: Instant,
    /// When each wants to be called; what waits in `due` beside it is out of date.
    wants: Vec<Option<Instant>>,
    due: BinaryHeap<Reverse<(Instant, usize)>>,
    /// Messages on their way, by their senders.
    wire: VecDeque<(usize, Vec<u8>)>,
    /// Participants whose controlled port came to be secured, and SAKs that came into use.
    pub secured: usize,
    pub in_use: usize,
    /// Each message is timed, which takes time of its own.
    pub is_timed: bool,
    pub sent: Tally,
    pub received: Tally,
}

fn config(participant: usize) -> Config {
    let [.., a, b, c] = participant.to_be_bytes();
    let sci = Sci::new(MacAddr([2, 0, 0, a, b, c]), 1);
    Config { rekey: Some(Duration::from_secs(24 * 3600)), ..Config::new(sci) }
}

/// The CAK of a LAN, of 128 bits.
fn cak(lan: usize) -> Cak {
    let mut key = vec![0; 16];
    Rng::new(lan as u64).fill(&mut key);
    let ckn = Ckn::new(&[&[0; 8][..], &lan.to_be_bytes()].concat());
    ckn.and_then(|ckn| Cak::new(ckn, Secret::new(key))).expect("16 octets")
}

impl Fleet {
    /// So many participants, in LANs of `group`, without CAKs.
    pub fn new(count: usize, group: usize) -> Self {
        Self {
            kays: (0..count).map(|n| Kay::new(config(n), Box::new(Rng::new(n as u64)))).collect(),
            group,
            now: Instant::from_secs(1),
            wants: vec![None; count],
            due: BinaryHeap::with_capacity(8 * count),
            wire: VecDeque::with_capacity(2 * count),
            secured: 0,
            in_use: 0,
            is_timed: false,
            sent: Tally::default(),
            received: Tally::default(),
        }
    }

    /// Participants.
    pub fn len(&self) -> usize {
        self.kays.len()
    }

    /// The fleet without its participants.
    pub fn into_rest(mut self) -> Self {
        self.kays = Vec::new();
        self
    }

    /// Gives every member its CAK within one hello time, in random order.
    pub fn join(&mut self) {
        let mut rng = Rng::new(20);
        let mut all: Vec<(Instant, usize)> = (0..self.len())
            .map(|n| (self.now + Duration::from_nanos(rng.below(HELLO.as_nanos() as u64)), n))
            .collect();
        all.sort_unstable();
        for (at, n) in all {
            self.advance(at);
            self.kays[n].handle_command(at, Command::Join(cak(n / self.group)));
            self.drain(n);
            self.look(n);
        }
    }

    /// Makes every key server distribute a new SAK at once.
    pub fn rekey(&mut self) {
        for n in 0..self.len() {
            self.kays[n].handle_command(self.now, Command::Rekey);
            self.drain(n);
            self.look(n);
        }
    }

    /// Some virtual time.
    pub fn run(&mut self, time: Duration) {
        self.advance(self.now + time);
    }

    fn advance(&mut self, until: Instant) {
        while let Some(&Reverse((at, n))) = self.due.peek().filter(|Reverse((at, _))| *at <= until)
        {
            self.due.pop();
            if self.wants[n] == Some(at) {
                self.now = self.now.max(at);
                self.call(n);
            }
        }
        self.now = until;
    }

    /// A participant's time has come. Its messages arrive at once.
    fn call(&mut self, n: usize) {
        let before = self.begin();
        self.kays[n].handle_timeout(self.now);
        self.drain(n);
        self.look(n);
        let sent = self.wire.len() as u64;
        self.sent = self.end(before, self.sent, sent);
        while let Some((from, frame)) = self.wire.pop_front() {
            let first = from - from % self.group;
            for to in (first..first + self.group).filter(|to| *to != from) {
                let before = self.begin();
                let taken = self.kays[to].handle_message(self.now, (), &frame);
                // (One that has not joined yet knows no CAK.)
                assert!(taken.is_ok() || self.secured < self.len(), "{taken:?}");
                self.drain(to);
                self.look(to);
                self.received = self.end(before, self.received, 1);
            }
        }
    }

    fn begin(&self) -> Option<(std::time::Instant, usize)> {
        self.is_timed.then(|| (std::time::Instant::now(), super::heap::taken()))
    }

    fn end(
        &self,
        before: Option<(std::time::Instant, usize)>,
        tally: Tally,
        messages: u64,
    ) -> Tally {
        let (nanos, blocks) = before.map_or((0, 0), |(time, taken)| {
            (time.elapsed().as_nanos() as u64, super::heap::taken() - taken)
        });
        Tally {
            messages: tally.messages + messages,
            nanos: tally.nanos + nanos,
            blocks: tally.blocks + blocks,
        }
    }

    /// Carries out orders, takes messages and news.
    fn drain(&mut self, n: usize) {
        let kay = &mut self.kays[n];
        while let Some((token, order)) = kay.poll_order() {
            match order {
                Order::Port(PortState::Secured) => self.secured += 1,
                Order::Transmit(_) => self.in_use += 1,
                _ => {}
            }
            kay.handle_answer(self.now, token, Ok(()));
        }
        while let Some(((), frame)) = kay.poll_transmit() {
            self.wire.push_back((n, frame));
        }
        while let Some(news) = kay.poll_news() {
            assert!(!news.is_failure(), "{news}");
        }
    }

    fn look(&mut self, n: usize) {
        let wants = self.kays[n].poll_timeout();
        if wants != self.wants[n] {
            self.wants[n] = wants;
            self.due.extend(wants.map(|at| Reverse((at, n))));
        }
    }
}
