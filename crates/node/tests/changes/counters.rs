//! Counters go by the key, whatever becomes of names, SPIs and configurations.

use crate::net::{Net, ethernet, mac, udp4};
use crate::{HOST_A, data, gateway, know, pair, protect};
use ferrule_base::{Duration, MacAddr};
use ferrule_node::{
    BuildError, Counter, CounterStore, Incident, Reserved, Sender, StoreError, Volatile,
};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

/// Stable storage: it outlives the nodes that use it, knows some names alone if it is
/// told so, and may be full.
#[derive(Clone, Default)]
pub struct Disk(Arc<Mutex<Inner>>);

#[derive(Default)]
pub struct Inner {
    kept: Volatile,
    /// Counters with this in their name are missing.
    missing: Option<&'static str>,
    full: bool,
    writes: u64,
    /// Numbers of every key that were used before.
    used: u64,
    /// A reservation is complete only when the disk is told to be done.
    slow: bool,
    begun: Vec<([u8; 16], u64)>,
}

impl CounterStore for Disk {
    fn open(&mut self, name: &str, record: [u8; 16]) -> Result<Counter, StoreError> {
        let mut inner = self.0.lock().unwrap();
        if inner.missing.is_some_and(|missing| name.contains(missing)) {
            return Err(StoreError(format!("no counter for `{name}`")));
        }
        let kept = inner.kept.open(name, record)?;
        Ok(Counter { used: kept.used.max(inner.used), ..kept })
    }

    fn reserve(&mut self, record: [u8; 16], limit: u64) -> Result<(), StoreError> {
        let mut inner = self.0.lock().unwrap();
        inner.writes += 1;
        if inner.full {
            return Err(StoreError("no room".into()));
        }
        inner.kept.reserve(record, limit)
    }

    fn begin_reserve(&mut self, record: [u8; 16], limit: u64) -> Option<Result<(), StoreError>> {
        let mut inner = self.0.lock().unwrap();
        if inner.slow {
            inner.begun.push((record, limit));
            return None;
        }
        drop(inner);
        Some(self.reserve(record, limit))
    }

    fn poll_reserved(&mut self) -> Option<Reserved> {
        let mut inner = self.0.lock().unwrap();
        if inner.slow {
            return None;
        }
        let (record, limit) = inner.begun.pop()?;
        drop(inner);
        Some(Reserved { record, limit, done: self.reserve(record, limit) })
    }

    fn keep_edge(&mut self, record: [u8; 16], edge: u64) -> Result<(), StoreError> {
        self.0.lock().unwrap().kept.keep_edge(record, edge)
    }
}

/// Two tunnels: of each its name, the SPI it sends by, its key, and what is behind it.
type Two = [(&'static str, u32, &'static str); 2];

const FIRST: Two = [("t", 0x1001, "gcm:1"), ("u", 0x1002, "gcm:2")];

fn text(tunnels: Two, more: &str) -> String {
    let mut pairs = String::new();
    for (at, (name, spi, key)) in tunnels.into_iter().enumerate() {
        let out = format!("spi = {spi}, key = \"{key}\"");
        let inn = format!("spi = {}, key = \"gcm:{}\"", 0x2001 + at, 31 + at);
        pairs += &pair(name, 1, 2, [&out, &inn], "suite = \"aes-gcm-128\"");
        pairs += &protect(name, "10.1.0.0/24", &format!("10.2.{at}.0/24"));
    }
    gateway("a", 1, 2, &(pairs + more), "")
}

/// A node, and every nonce that was on its wire.
struct Site {
    net: Net,
    lan: crate::Host,
    wan: crate::Host,
    disk: Disk,
    seen: HashSet<(String, u64)>,
}

impl Site {
    fn new(disk: Disk) -> Self {
        Self::of(&text(FIRST, ""), disk)
    }

    fn of(text: &str, disk: Disk) -> Self {
        let mut net = Net::new();
        let node = net.node_on(text, Box::new(disk.clone()));
        let (lan, wan) = (net.host(node, "lan"), net.host(node, "wan"));
        net.settle();
        let mut this = Self { net, lan, wan, disk, seen: HashSet::new() };
        this.meet();
        this
    }

    fn meet(&mut self) {
        know(&mut self.net, &[(0, "192.0.2.2", MacAddr([2, 0, 0, 0, 0, 2]))]);
    }

    /// The process is killed and starts again, with the disk as it is.
    fn crash(&mut self, tunnels: Two) {
        let mut net = Net::new();
        let node = net.node_on(&text(tunnels, ""), Box::new(self.disk.clone()));
        (self.lan, self.wan) = (net.host(node, "lan"), net.host(node, "wan"));
        net.settle();
        self.net = net;
        self.meet();
    }

    /// Sends through both tunnels; no nonce may have been there before. Returns how many
    /// packets came out.
    fn send(&mut self, tunnels: Two, count: usize) -> usize {
        // The neighbour does not answer, so in the long run it is given up.
        self.meet();
        for number in 0..count {
            let to = [10, 2, (number % 2) as u8, 9];
            let packet = udp4([10, 1, 0, 9], to, (7, 9), 60, 0);
            self.lan.send(&ethernet(mac("a", "lan"), HOST_A, 0x0800, &packet));
            if number % 64 == 63 {
                self.net.settle();
            }
        }
        self.net.settle();
        let sent = data(&mut self.wan);
        let keys: HashMap<u32, &str> = tunnels.iter().map(|&(_, spi, key)| (spi, key)).collect();
        for frame in &sent {
            let spi = u32::from_be_bytes(frame[34..38].try_into().unwrap());
            let number = u64::from_be_bytes(frame[42..50].try_into().unwrap());
            let nonce = (keys[&spi].to_owned(), number);
            assert!(self.seen.insert(nonce), "{} sent number {number} twice", keys[&spi]);
        }
        sent.len()
    }
}

#[test]
fn counter_state_is_a_keys_whatever_tunnel_spi_and_name_it_has() {
    let swapped = [("t", 0x1001, "gcm:2"), ("u", 0x1002, "gcm:1")];
    let renamed = [("v", 0x1001, "gcm:1"), ("w", 0x1002, "gcm:2")];
    let other = [("t", 0x1009, "gcm:1"), ("u", 0x1001, "gcm:2")];
    let gone = [("t", 0x1001, "gcm:8"), ("u", 0x1002, "gcm:9")];
    let mut site = Site::new(Disk::default());
    let way = [FIRST, swapped, renamed, other, gone, FIRST, swapped, gone, renamed, FIRST];
    for (at, tunnels) in way.into_iter().enumerate() {
        site.net.apply(0, &text(tunnels, ""));
        site.net.settle();
        // Some for the first range alone, some for several.
        let count = if at % 2 == 0 { 10 } else { 1200 };
        assert_eq!(site.send(tunnels, count), count);
        if at % 3 == 2 {
            site.crash(tunnels);
            assert_eq!(site.send(tunnels, 300), 300);
        }
    }
    site.net.assert_conserved();
}

#[test]
fn after_an_apply_that_was_refused_the_keys_in_use_keep_their_records() {
    let mut site = Site::new(Disk::default());
    assert_eq!(site.send(FIRST, 20), 20);
    for round in 0..3 {
        // Both names with other keys, and then something that is not there.
        let bad = [("t", 0x1001, "gcm:8"), ("u", 0x1002, "gcm:9")];
        let more = pair(
            "missing",
            1,
            2,
            ["spi = 0x1007, key = \"gcm:17\"", "spi = 0x2007, key = \"gcm:18\""],
            "suite = \"aes-gcm-128\"",
        );
        site.disk.0.lock().unwrap().missing = Some("missing");
        let refused = site.net.try_apply(0, &text(bad, &more));
        assert!(matches!(refused, Err(BuildError::Counter(_))), "{refused:?}");
        assert!(!site.net.members[0].control.is_changing());
        site.disk.0.lock().unwrap().missing = None;
        // The keys in use are extended several times, and then all is lost but the disk.
        assert_eq!(site.send(FIRST, 3000), 3000, "round {round}");
        site.crash(FIRST);
        assert_eq!(site.send(FIRST, 100), 100);
    }
}

#[test]
fn a_key_that_the_other_end_sent_with_is_refused_to_send_with() {
    let mut site = Site::new(Disk::default());
    // The key of `in` becomes that of `out`: the other end used its numbers.
    let turned = text(FIRST, "").replace("gcm:31", "gcm:99").replace("gcm:1\"", "gcm:31\"");
    let refused = site.net.try_apply(0, &turned);
    let Err(BuildError::Unfit(what, remedy)) = refused else { panic!("{refused:?}") };
    assert!(what.contains("`esp-out-t-00001001`") && what.contains("twice"), "{what}");
    assert!(remedy.contains("ferrule init key"));
    assert_eq!(site.send(FIRST, 10), 10);
}

#[test]
fn a_counter_that_could_not_be_written_is_tried_again_and_people_are_told() {
    let mut site = Site::new(Disk::default());
    assert_eq!(site.send(FIRST, 20), 20);
    site.disk.0.lock().unwrap().full = true;
    let before = site.send(FIRST, 3000);
    assert!(before < 2 * 256, "{before}: no number without a record");
    assert_eq!(site.send(FIRST, 100), 0, "both have stopped");
    site.net.wait(Duration::from_secs(3));
    let failures = site.net.members[0].control.take_failures();
    assert_eq!(failures.len(), 1, "told once: {failures:?}");
    assert!(failures[0].contains("counter not written") && failures[0].contains("no room"));
    let writes = site.disk.0.lock().unwrap().writes;
    assert!((10..100).contains(&writes), "{writes}: again and again, not without pause");
    site.disk.0.lock().unwrap().full = false;
    site.net.wait(Duration::from_secs(1));
    assert_eq!(site.send(FIRST, 3000), 3000, "they go on by themselves");
    let failures = site.net.members[0].control.take_failures();
    assert_eq!(failures, ["counters are written again"]);
    site.crash(FIRST);
    assert_eq!(site.send(FIRST, 100), 100);
}

#[test]
fn a_slow_disk_holds_up_only_who_waits_for_its_numbers() {
    let mut site = Site::new(Disk::default());
    assert_eq!(site.send(FIRST, 20), 20);
    site.disk.0.lock().unwrap().slow = true;
    let before = site.send(FIRST, 3000);
    assert!(before < 2 * 256, "{before}: no number without a record");
    site.net.wait(Duration::from_secs(3));
    assert!(site.net.members[0].control.take_failures().is_empty(), "it is slow, not broken");
    assert_eq!(site.disk.0.lock().unwrap().begun.len(), 2, "each asked once");
    // The same keys under other names, with ranges of their own: writes still under way for
    // the old ones have no effect.
    let other = [("v", FIRST[0].1, FIRST[0].2), ("u", FIRST[1].1, FIRST[1].2)];
    site.net.apply(0, &text(other, ""));
    site.net.settle();
    site.disk.0.lock().unwrap().slow = false;
    site.net.wait(Duration::from_millis(10));
    assert_eq!(site.send(other, 3000), 3000);
    site.crash(other);
    assert_eq!(site.send(other, 100), 100);
}

/// A site whose keys have sent so many packets before, of 2^32, and what it says of SAs.
fn used(numbers: u64) -> (Site, impl Fn(&mut Site) -> Vec<(Sender, u64)>) {
    let disk = Disk::default();
    disk.0.lock().unwrap().used = numbers;
    let said = |site: &mut Site| {
        let incidents = site.net.members[0].control.take_incidents().into_iter();
        let expires = incidents.filter_map(|incident| match incident {
            Incident::SaExpires(sa, left) => Some((sa, left)),
            _ => None,
        });
        expires.collect()
    };
    let short = text(FIRST, "").replace("suite =", "esn = false\nsuite =");
    (Site::of(&short, disk), said)
}

#[test]
fn an_sa_with_few_numbers_left_is_told_of_once_and_one_with_none_is_known() {
    let most = u64::from(u32::MAX);
    let (mut site, said) = used(most / 4 * 3 - 2000);
    assert_eq!(site.send(FIRST, 200), 200);
    assert_eq!(said(&mut site), []);
    assert_eq!(site.send(FIRST, 2500) + site.send(FIRST, 2500), 5000);
    site.net.wait(Duration::from_secs(1));
    let mut told = said(&mut site);
    told.sort_by_key(|(sa, _)| sa.to_string());
    let names: Vec<_> = told.iter().map(|(sa, _)| sa.to_string()).collect();
    assert_eq!(names, ["tunnel t, SPI 0x00001001", "tunnel u, SPI 0x00001002"]);
    assert!(told.iter().all(|(_, left)| *left <= most / 4 && *left > most / 5), "{told:?}");
    assert_eq!(site.send(FIRST, 2000), 2000);
    assert_eq!(said(&mut site), [], "once");
    assert_eq!(site.net.members[0].control.has_last_numbers(0), None);
    // Ten packets each, and nothing more.
    let (mut site, said) = used(most - 10);
    assert_eq!(site.send(FIRST, 100), 20);
    assert_eq!(said(&mut site).iter().map(|(_, left)| *left).collect::<Vec<_>>(), [0, 0]);
    for sa in [0, 1] {
        let sender = site.net.members[0].control.has_last_numbers(sa);
        assert!(matches!(sender, Some(Sender::Tunnel { .. })), "{sender:?}");
    }
    assert!(
        site.net
            .drops(0)
            .iter()
            .any(|(reason, n)| { reason.name() == "esp-sequence-exhausted" && n == 80 })
    );
}

#[test]
fn an_sa_on_its_way_out_does_not_say_how_far_its_key_was_used() {
    let mut site = Site::new(Disk::default());
    assert_eq!(site.send(FIRST, 20), 20);
    let lease = |site: &mut Site| {
        let now = site.net.now;
        let report = site.net.members[0].workers[0].report(now);
        let sas = report.esp_out.iter().filter(|sa| sa.name == "t");
        sas.map(|sa| sa.lease).collect::<Vec<_>>()
    };
    let old = lease(&mut site);
    assert!(site.net.members[0].control.is_newest(old[0]));
    // The same key in an SA that is another one: the worker has not heard of it.
    let narrower = text(FIRST, "").replacen("suite =", "mtu = 1300\nsuite =", 1);
    site.net.apply(0, &narrower);
    assert!(site.net.members[0].control.is_changing());
    assert_eq!(lease(&mut site), old);
    assert!(!site.net.members[0].control.is_newest(old[0]), "its record is another's now");
    site.net.settle();
    let new = lease(&mut site);
    assert!(new.len() == 1 && new[0].record == old[0].record && new != old);
    assert!(site.net.members[0].control.is_newest(new[0]));
    assert_eq!(site.send(FIRST, 20), 20);
}

#[test]
fn extended_numbers_beyond_two_to_the_32_are_not_switched_off() {
    let disk = Disk::default();
    let beyond = 1 << 33;
    for key in ["gcm:1", "gcm:31"] {
        let record = record_of(key);
        let mut inner = disk.0.lock().unwrap();
        let way = if key == "gcm:1" { 0 } else { beyond };
        inner.kept.keep_edge(record, way).unwrap();
        inner.kept.reserve(record, beyond - way).unwrap();
    }
    let mut site = Site::new(disk);
    assert_eq!(site.send(FIRST, 10), 10);
    let short = text(FIRST, "").replacen("suite =", "esn = false\nsuite =", 1);
    let refused = site.net.try_apply(0, &short);
    let Err(BuildError::Unfit(what, remedy)) = refused else { panic!("{refused:?}") };
    assert!(what.contains("beyond 2^32") && remedy.contains("esn = true"), "{what}: {remedy}");
    assert!(!site.net.members[0].control.is_changing(), "nothing changed");
    // Only a received number is beyond.
    let fresh = short.replace("\"gcm:1\"", "\"gcm:77\"");
    let refused = site.net.try_apply(0, &fresh);
    let Err(BuildError::Unfit(what, _)) = refused else { panic!("{refused:?}") };
    assert!(what.contains("esp-in-t"), "{what}");
    assert_eq!(site.send(FIRST, 10), 10);
}

/// The record of a key of [`text`].
fn record_of(key: &str) -> [u8; 16] {
    let config = crate::net::config(&text(FIRST, ""));
    let all = ferrule_node::counters(&config, &[MacAddr::ZERO; 2]);
    let at = if key == "gcm:1" { 0 } else { 1 };
    all[at].fingerprint
}
