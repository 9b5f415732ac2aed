//! The demo without privilege: the same configurations, the same nodes, in one
//! process and one thread, on wires in memory. The hosts are a small model, so
//! there is no TCP; rates are of UDP datagrams, memory to memory.

mod host;
mod net;

use super::host::payload;
use super::plan::{VARIANTS, Variant};
use super::report::{Outcome, Row};
use super::traffic::{Delivery, Fetched, RoundTrips, median, sha256};
use super::wiretap::OnWire;
use crate::process::{Fault, Runner};
use ferrule_crypto::random;
use net::{Net, Sizes};
use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Echo requests.
const PINGS: u16 = 200;
/// Study's frames.
const STUDY_FRAMES: u32 = 1000;
/// Datagrams that are under way at once.
const WINDOW: u64 = 256;
/// Payload of a bulk datagram: a packet of 1500 octets.
const BULK_PAYLOAD: usize = 1472;
/// How long each way is loaded.
const BULK_TIME: Duration = Duration::from_millis(500);
/// Octets of the file.
const FILE_LEN: usize = 8 << 20;
/// What an answer may take. A turn of all nodes takes microseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// All variants.
pub fn run(runner: &Runner, say: &dyn Fn(&str)) -> Result<Outcome, Fault> {
    say("virtual wires: five nodes in one process, no root needed, no kernel involved");
    let mut rows = Vec::new();
    for variant in VARIANTS {
        say(&format!("{}: echo, the study's frame, bulk both ways, a file", variant.name));
        rows.push(Run { runner, net: Net::build(&variant)?, variant }.row()?);
    }
    Ok(Outcome { live: false, rows })
}

struct Run<'a> {
    runner: &'a Runner,
    net: Net,
    variant: Variant,
}

impl Run<'_> {
    fn row(&mut self) -> Result<Row, Fault> {
        self.meet()?;
        let rtt = self.round_trips()?;
        self.net.forget_sizes();
        let delivery = self.study_frames()?;
        let wires = [self.on_wire(0)?, self.on_wire(1)?];
        let throughput = [self.bulk(0)?, self.bulk(1)?];
        let file = Some(self.file()?);
        if let Some(failure) = self.net.failures().first() {
            return Err(Fault::failed(self.variant.name, failure));
        }
        let (tshark, captures) = ([None, None], Vec::new());
        Ok(Row { variant: self.variant, wires, rtt, delivery, throughput, file, tshark, captures })
    }

    /// Turns the network until something has come about.
    fn until(&mut self, what: &str, mut done: impl FnMut(&Net) -> bool) -> Result<(), Fault> {
        let begun = Instant::now();
        while !done(&self.net) {
            self.runner.check()?;
            self.net.turn();
            if begun.elapsed() > PATIENCE {
                let what = format!("{}: {what} within {PATIENCE:?}", self.variant.name);
                return Err(Fault::failed(what, ""));
            }
        }
        Ok(())
    }

    fn ip(&self, side: usize) -> Ipv4Addr {
        self.net.hosts[side].ip
    }

    /// The hosts learn their next hops.
    fn meet(&mut self) -> Result<(), Fault> {
        for side in 0..2 {
            let next_hop = self.net.hosts[side].next_hop;
            // The first question may come before a node is ready to carry it.
            for _ in 0..50 {
                let now = self.net.now();
                self.net.hosts[side].ask(now);
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_millis(20) {
                    self.net.turn();
                }
                if self.net.hosts[side].neighbours.contains_key(&next_hop) {
                    break;
                }
            }
            self.until("no answer to ARP", |net| {
                net.hosts[side].neighbours.contains_key(&next_hop)
            })?;
        }
        // The nodes, too, ask who is where before the first packet crosses.
        let frame = self.net.hosts[0].echo(self.ip(1), 0);
        self.send(0, frame);
        self.until("no echo", |net| net.hosts[0].echoed == Some(0))
    }

    fn send(&mut self, side: usize, frame: Option<Vec<u8>>) -> bool {
        let now = self.net.now();
        frame.is_some_and(|frame| self.net.hosts[side].send(now, &frame))
    }

    /// What all nodes need for a packet there and back, one at a time.
    fn round_trips(&mut self) -> Result<RoundTrips, Fault> {
        let mut times = Vec::new();
        for seq in 1..=PINGS {
            let frame = self.net.hosts[0].echo(self.ip(1), seq);
            let begun = Instant::now();
            self.send(0, frame);
            self.until("no echo", |net| net.hosts[0].echoed == Some(seq))?;
            times.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        let median_us = median(&times).unwrap_or_default();
        Ok(RoundTrips { sent: PINGS.into(), received: times.len(), median_us })
    }

    fn study_frames(&mut self) -> Result<Delivery, Fault> {
        self.net.hosts[1].kept = Some(Vec::new());
        let before = self.net.hosts[1].datagrams;
        for number in 0..STUDY_FRAMES {
            let frame = self.net.hosts[0].datagram(self.ip(1), &payload(number));
            self.send(0, frame);
            let expected = before + u64::from(number) + 1;
            self.until("a frame of the study's did not arrive", |net| {
                net.hosts[1].datagrams >= expected
            })?;
        }
        let kept = self.net.hosts[1].kept.take().unwrap_or_default();
        let whole = (0..STUDY_FRAMES).zip(&kept);
        let received = whole.filter(|(number, got)| super::host::number(got) == Some(*number));
        let received = received.count() as u32;
        let spoilt = kept.len() as u64 - u64::from(received);
        Ok(Delivery { sent: STUDY_FRAMES, received, spoilt })
    }

    fn on_wire(&self, link: usize) -> Result<OnWire, Fault> {
        let sizes: &Mutex<Sizes> = &self.net.sizes[link];
        let sizes = sizes.lock().map(|sizes| sizes.clone()).unwrap_or_default();
        OnWire::of(sizes, &self.variant)
    }

    /// Bits of UDP payload per second that reach the other host.
    fn bulk(&mut self, from: usize) -> Result<f64, Fault> {
        let to = 1 - from;
        let Some(frame) = self.net.hosts[from].datagram(self.ip(to), &[0x5a; BULK_PAYLOAD]) else {
            return Err(Fault::failed(self.variant.name, "the next hop is not known"));
        };
        let (first, octets) = (self.net.hosts[to].datagrams, self.net.hosts[to].octets);
        let (mut sent, begun) = (0, Instant::now());
        while begun.elapsed() < BULK_TIME {
            self.runner.check()?;
            while sent < self.net.hosts[to].datagrams - first + WINDOW {
                let now = self.net.now();
                if !self.net.hosts[from].send(now, &frame) {
                    break;
                }
                sent += 1;
            }
            self.net.turn();
        }
        let bits = (self.net.hosts[to].octets - octets) as f64 * 8.0;
        let rate = bits / begun.elapsed().as_secs_f64();
        self.until("not every datagram arrived", |net| net.hosts[to].datagrams == first + sent)?;
        Ok(rate)
    }

    /// A file from the second host to the first, in datagrams.
    fn file(&mut self) -> Result<Fetched, Fault> {
        let mut octets = vec![0; FILE_LEN];
        random::fill(&mut octets).map_err(|e| Fault::failed("a random file", e))?;
        self.net.hosts[0].kept = Some(Vec::new());
        let first = self.net.hosts[0].datagrams;
        let begun = Instant::now();
        for (number, chunk) in octets.chunks(BULK_PAYLOAD).enumerate() {
            let frame = self.net.hosts[1].datagram(self.ip(0), chunk);
            let sent = number as u64 + 1;
            if !self.send(1, frame) {
                return Err(Fault::failed(self.variant.name, "the wire has no room"));
            }
            self.until("a part of the file did not arrive", |net| {
                sent - (net.hosts[0].datagrams - first) < WINDOW
            })?;
        }
        let parts = octets.chunks(BULK_PAYLOAD).len() as u64;
        self.until("the end of the file did not arrive", |net| {
            net.hosts[0].datagrams - first == parts
        })?;
        let arrived = self.net.hosts[0].kept.take().unwrap_or_default().concat();
        let sha256 = [sha256(&octets), sha256(&arrived)];
        let (matches, seconds) = (sha256[0] == sha256[1], begun.elapsed().as_secs_f64());
        Ok(Fetched { bytes: arrived.len(), sha256, matches, seconds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demo_in_memory_carries_every_variant_with_the_studys_bytes() {
        let outcome = run(&Runner::unheeding(), &|_| {}).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(outcome.findings(), Vec::<String>::new());
        let bytes: Vec<_> = outcome.rows.iter().map(|row| row.wires[1].bytes).collect();
        assert_eq!(bytes, [1022, 1054, 1084, 1072]);
        let bytes: Vec<_> = outcome.rows.iter().map(|row| row.wires[0].bytes).collect();
        assert_eq!(bytes, [1026, 1058, 1088, 1076]);
        for row in &outcome.rows {
            assert_eq!(row.delivery.received, STUDY_FRAMES, "{}", row.variant.name);
            assert!(row.throughput.iter().all(|rate| *rate > 0.0));
        }
    }
}
