//! Keys change under traffic, with workers that turn in any order.

use crate::net::{Host, Net};
use crate::{data, frame, gateway, pair, protect, two};
use ferrule_base::Rng;
use ferrule_node::BuildError;

const FLOWS: u16 = 16;

/// Outbound and inbound SAs of a stage: numbers of SPIs and keys.
#[derive(Clone, Copy)]
struct Stage {
    out: u8,
    inn: u8,
    also: Option<u8>,
}

/// An SA from node 1 has keys from one half of the numbers, those to it from the other.
fn way(from: u8, number: u8, pair: u8) -> String {
    let n = pair * 100 + number * 2 + (from - 1);
    format!("spi = {}, key = \"gcm:{}\"", 0x1000 + u32::from(n), 1 + n)
}

fn sas(name: &str, own: u8, at: Stage, which: u8, more: &str) -> String {
    let other = 3 - own;
    let (out, inn) = (way(own, at.out, which), way(other, at.inn, which));
    let also = at.also.map(|n| format!("also-in = [{{ {} }}]\n", way(other, n, which)));
    let more = format!("suite = \"aes-gcm-128\"\n{}{more}", also.unwrap_or_default());
    pair(name, own, other, [&out, &inn], &more)
}

fn text(own: u8, workers: u8, inner: Stage, outer: Option<Stage>) -> String {
    let net = |n: u8| format!("10.{n}.0.0/24");
    let then = if outer.is_some() { "then = \"outer\"" } else { "" };
    let mut pairs = sas("t", own, inner, 0, then) + &protect("t", &net(own), &net(3 - own));
    if let Some(outer) = outer {
        pairs += &sas("outer", own, outer, 1, "");
    }
    let name = if own == 1 { "a" } else { "b" };
    gateway(name, own, 3 - own, &pairs, &format!("workers = {workers}"))
}

/// The three states of one end on its way from one pair of SAs to the next: as
/// docs/rekey.md has them.
fn rekeys(number: u8) -> [Stage; 3] {
    let next = number + 1;
    [
        Stage { out: number, inn: number, also: Some(next) },
        Stage { out: next, inn: number, also: Some(next) },
        Stage { out: next, inn: next, also: None },
    ]
}

/// Traffic while things change.
struct Run {
    net: Net,
    a: Host,
    b: Host,
    rng: Rng,
    sent: usize,
    got: usize,
}

impl Run {
    fn new(net: Net, seed: u64, text: impl Fn(u8, u8) -> String) -> Self {
        let mut net = net;
        let (a, b) = two(&mut net, text);
        Self { net, a, b, rng: Rng::new(seed), sent: 0, got: 0 }
    }

    /// Frames come, and some of the workers and control parts turn, in any order.
    fn go_on(&mut self, rounds: u64) {
        for _ in 0..rounds {
            for _ in 0..self.rng.below(6) {
                self.a.send(&frame(self.rng.below(FLOWS.into()) as u16));
                self.sent += 1;
            }
            self.net.now += crate::net::STEP;
            let now = self.net.now;
            for _ in 0..self.rng.below(8) {
                let member = &mut self.net.members[self.rng.below(2) as usize];
                let who = self.rng.below(member.workers.len() as u64 + 1) as usize;
                match member.workers.get_mut(who) {
                    Some(worker) => {
                        worker.turn(now);
                    }
                    None => {
                        member.control.turn(now);
                    }
                }
            }
            self.got += data(&mut self.b).len();
        }
    }

    /// Takes an end from one pair of SAs to the next, and the other end too. The old pair
    /// is broken when nothing of it is under way any more.
    fn rekey(&mut self, number: u8, text: impl Fn(u8, Stage) -> String) {
        for stage in rekeys(number) {
            if stage.also.is_none() {
                self.go_on(300);
            }
            self.change(0, &text(1, stage));
            self.change(1, &text(2, stage));
            self.go_on(10);
        }
    }

    /// Puts a configuration in force while traffic goes on, to the end.
    fn change(&mut self, node: usize, text: &str) {
        self.net.apply(node, text);
        for _ in 0..1000 {
            self.go_on(4);
            if !self.net.members[node].control.is_changing() {
                return;
            }
        }
        panic!("a change does not come to an end");
    }

    fn finish(mut self, what: &str) {
        self.net.settle();
        self.got += data(&mut self.b).len();
        let drops = [0, 1].map(|node| self.net.drops(node).iter().collect::<Vec<_>>());
        let failures = [0, 1].map(|node| self.net.members[node].control.take_failures());
        assert_eq!(self.got, self.sent, "{what}: {drops:?} {failures:?}");
        assert!(self.sent > 500, "{}", self.sent);
        self.net.assert_conserved();
    }
}

fn engines() -> [fn() -> Net; 2] {
    [Net::new, Net::late]
}

#[test]
fn apply_of_fresh_keys_with_two_workers_loses_nothing() {
    for (make, workers) in engines().into_iter().flat_map(|m| [(m, 1), (m, 2), (m, 3)]) {
        for seed in 0..4 {
            let first = Stage { out: 0, inn: 0, also: None };
            let of = |own: u8, at: Stage| text(own, workers, at, None);
            let mut run = Run::new(make(), seed, |own, _| of(own, first));
            run.go_on(10);
            for number in 0..4 {
                run.rekey(number, of);
            }
            run.finish(&format!("{workers} workers, seed {seed}"));
        }
    }
}

#[test]
fn nested_sas_rekey_the_outer_or_the_inner_pair_alone_and_lose_nothing() {
    for (make, workers) in engines().into_iter().flat_map(|m| [(m, 1), (m, 2)]) {
        for seed in 0..4 {
            let first = Stage { out: 0, inn: 0, also: None };
            let of = |own: u8, inner: Stage, outer: Stage| text(own, workers, inner, Some(outer));
            let mut run = Run::new(make(), seed, |own, _| of(own, first, first));
            run.go_on(10);
            let mut inner = first;
            for number in 0..3 {
                run.rekey(number, |own, outer| of(own, inner, outer));
                let outer = rekeys(number)[2];
                run.rekey(number, |own, inner| of(own, inner, outer));
                inner = outer;
            }
            run.finish(&format!("{workers} workers, seed {seed}"));
        }
    }
}

#[test]
fn a_change_of_the_token_needs_a_restart() {
    let first = Stage { out: 0, inn: 0, also: None };
    let table =
        |token: &str| format!("[token]\nmodule = \"m\"\ntoken = \"{token}\"\npin-file = \"p\"\n");
    let with = |token: &str| text(1, 1, first, None) + &table(token);
    let mut net = Net::new();
    net.node(&with("one"));
    net.settle();
    net.apply(0, &with("one"));
    net.settle();
    for other in [with("two"), text(1, 1, first, None)] {
        let refused = net.try_apply(0, &other).unwrap_err();
        assert_eq!(refused, BuildError::NeedsRestart("[token]"));
        assert!(!net.members[0].control.is_changing());
    }
}

#[test]
fn a_second_change_waits_for_the_first_and_says_so() {
    let first = Stage { out: 0, inn: 0, also: None };
    let mut net = Net::new();
    let (_a, _b) = two(&mut net, |own, _| text(own, 2, first, None));
    let next = |also| text(1, 2, Stage { also: Some(also), ..first }, None);
    net.apply(0, &next(1));
    assert!(net.members[0].control.is_changing());
    let refused = net.try_apply(0, &next(2)).unwrap_err();
    assert_eq!(refused, BuildError::Changing);
    assert_eq!(refused.to_string(), "the change before this one is still under way");
    net.settle();
    assert!(!net.members[0].control.is_changing());
    net.apply(0, &next(2));
    net.settle();
}

#[test]
fn a_change_that_a_worker_does_not_take_up_is_told_and_goes_on_when_it_does() {
    let first = Stage { out: 0, inn: 0, also: None };
    let mut net = Net::new();
    let (_a, _b) = two(&mut net, |own, _| text(own, 2, first, None));
    net.apply(0, &text(1, 2, Stage { also: Some(1), ..first }, None));
    for _ in 0..6000 {
        net.now += ferrule_base::Duration::from_millis(1);
        let now = net.now;
        net.members[0].workers[0].turn(now);
        net.members[0].control.turn(now);
    }
    let said = net.members[0].control.take_failures();
    assert_eq!(said, ["a change of configuration waits for workers [1]"]);
    assert!(net.members[0].control.is_changing());
    net.settle();
    assert!(!net.members[0].control.is_changing());
}

#[test]
fn a_leap_of_the_clock_is_no_time_that_a_worker_had() {
    let first = Stage { out: 0, inn: 0, also: None };
    let mut net = Net::new();
    let (_a, _b) = two(&mut net, |own, _| text(own, 2, first, None));
    net.apply(0, &text(1, 2, Stage { also: Some(1), ..first }, None));
    let turn = |net: &mut Net, by| {
        net.now += ferrule_base::Duration::from_millis(by);
        let now = net.now;
        net.members[0].workers[0].turn(now);
        net.members[0].control.turn(now);
        net.members[0].control.take_failures()
    };
    // The machine slept for half a minute, twice.
    for leap in [30_000, 1, 30_000, 1] {
        assert!(turn(&mut net, leap).is_empty(), "nobody ran meanwhile");
    }
    // Awake, a worker that does not run is told of all the same, once.
    let said: Vec<String> = (0..4000).flat_map(|_| turn(&mut net, 1)).collect();
    assert_eq!(said, ["a change of configuration waits for workers [1]"]);
}
