//! A look-aside engine that is killed, or hangs, under load in a node: no order
//! is lost, nothing leaves in clear, no number is used twice, every packet is
//! accounted for.

use crate::pair::{MARK, Pair, WAYS, Way};
use crate::places::{PLACES, Place, thread_with};
use ferrule_base::{DropReason, Duration};
use ferrule_crypto::Software;
use ferrule_engines::look_aside::{Cipher, Command, Own, Request};
use ferrule_pipeline::Packet;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[derive(Default)]
struct Hand {
    /// Every so manieth request fails; 0: none.
    every: AtomicUsize,
    count: AtomicUsize,
    hangs: AtomicBool,
    let_go: AtomicBool,
    failures: AtomicUsize,
}

/// Our own cipher, which now and then dies or hangs in the middle of a packet.
struct Frail(Own, Arc<Hand>);

impl Cipher<Packet> for Frail {
    fn obey(&mut self, command: Command) {
        Cipher::<Packet>::obey(&mut self.0, command);
    }

    fn run(&mut self, requests: &mut [Request<Packet>]) {
        let hand = &self.1;
        for request in requests {
            let every = hand.every.load(Ordering::SeqCst);
            let count = hand.count.fetch_add(1, Ordering::SeqCst);
            if every > 0 && count % every == every - 1 {
                let octets = request.buf.as_mut();
                octets.iter_mut().skip(60).step_by(2).for_each(|octet| *octet ^= 0xff);
                hand.failures.fetch_add(1, Ordering::SeqCst);
                if !hand.hangs.load(Ordering::SeqCst) {
                    panic!("told to");
                }
                while !hand.let_go.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            Cipher::<Packet>::run(&mut self.0, std::slice::from_mut(request));
        }
    }
}

fn under_load(way: Way, copies: usize, on_failure: &str, hangs: bool) {
    let tables = format!(
        "[look-aside]\ncopies = {copies}\nbatch = 16\non-failure = \"{on_failure}\"\n\
         deadline-ms = {}\n",
        if hangs { 100 } else { 60_000 }
    );
    let place = Place { tables: tables.leak(), ..PLACES[1] };
    let hand = Arc::new(Hand::default());
    let theirs = hand.clone();
    let mut pair = Pair::with(way, &place, move |config, pool, _| {
        let hand = theirs.clone();
        let cipher = move || Box::new(Frail(Own::new(Software::default()), hand.clone())) as _;
        thread_with(config, pool, cipher)
    });
    let says = format!("{way:?}, copies {copies}, {on_failure}, hangs {hangs}");
    hand.hangs.store(hangs, Ordering::SeqCst);
    hand.every.store(if hangs { 150 } else { 200 }, Ordering::SeqCst);
    let mut number = 0;
    let mut arrived = Vec::new();
    for burst in 0..6 {
        for _ in 0..100 {
            number += 1;
            pair.send(number, 48 + (number as usize * 37) % 1300);
        }
        pair.settle();
        if hangs && hand.failures.load(Ordering::SeqCst) > 0 {
            hand.every.store(0, Ordering::SeqCst);
        }
        if burst == 4 {
            hand.every.store(0, Ordering::SeqCst);
            hand.let_go.store(true, Ordering::SeqCst);
            // Longer than any pause before a new start.
            pair.net.wait(Duration::from_secs(1));
        }
        arrived.extend(pair.arrived());
    }
    assert!(hand.failures.load(Ordering::SeqCst) > 0, "{says}: it failed");
    assert!(arrived.is_sorted_by(|a, b| a.0 < b.0), "{says}: order");
    for (n, frame) in &arrived {
        let sent = pair.frame(*n, 48 + (*n as usize * 37) % 1300);
        assert_eq!(frame[36..], sent[36..], "{says}: packet {n} as it was sent");
    }
    let last: Vec<u32> = arrived.iter().map(|a| a.0).filter(|&n| n > 500).collect();
    assert_eq!(last.len(), 100, "{says}: after a new start all come through");
    let clear = |f: &Vec<u8>| f.windows(MARK.len()).any(|w| w == MARK);
    assert!(!pair.wire.iter().any(clear), "{says}: in clear");
    // SPI and sequence number, or SecTAG with packet number: the nonce.
    let at = if matches!(way, Way::Esp(..)) { 34..42 } else { 14..28 };
    let nonces: HashSet<_> = pair.wire.iter().map(|f| f[at.clone()].to_vec()).collect();
    assert_eq!(nonces.len(), pair.wire.len(), "{says}: no number twice");
    let (mut failed, mut other) = (0, 0);
    for node in 0..2 {
        let drops = pair.net.drops(node);
        failed += drops.get(DropReason::EngineFailed);
        other += drops.get(DropReason::EngineFull);
    }
    assert_eq!(arrived.len() as u64 + failed + other, u64::from(number), "{says}");
    if copies > 0 && on_failure == "software" {
        assert_eq!((failed, other), (0, 0), "{says}: every packet was here");
    }
    pair.net.assert_conserved();
}

#[test]
fn an_engine_killed_under_load_loses_no_order_and_no_secrecy() {
    for way in [WAYS[0], WAYS[2], WAYS[3]] {
        for copies in [0, 2] {
            for on_failure in ["software", "drop"] {
                under_load(way, copies, on_failure, false);
            }
        }
    }
}

#[test]
fn an_engine_that_hangs_under_load_loses_no_order_and_no_secrecy() {
    for way in [WAYS[0], WAYS[3]] {
        for copies in [0, 4] {
            for on_failure in ["software", "drop"] {
                under_load(way, copies, on_failure, true);
            }
        }
    }
}
