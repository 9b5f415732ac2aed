//! Network namespaces and veth pairs of a test's own, gone when it ends.

use ferrule_base::Instant;
use ferrule_pipeline::{Batch, Packet, Pool, PoolCache, Port};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant as Clock};

/// Longest that anything here waits.
pub const PATIENCE: Duration = Duration::from_secs(5);

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A namespace; this thread is in it until it is dropped.
pub struct Net {
    pub name: String,
    home: std::fs::File,
}

/// Runs a command line; if it fails, panics with its output.
pub fn sh(line: &str) -> Output {
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = Command::new(words[0]).args(&words[1..]).output().expect(words[0]);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn enter(namespace: &std::fs::File) {
    // SAFETY: moves this thread alone, into a namespace that the file names.
    let result = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
    assert_eq!(result, 0, "setns");
}

/// Moves this thread into a namespace of a test.
pub fn enter_named(name: &str) {
    enter(&std::fs::File::open(format!("/run/netns/{name}")).unwrap());
}

/// A namespace of our own, or nothing (and a word on it) without root.
pub fn namespace() -> Option<Net> {
    // SAFETY: a plain question.
    if unsafe { libc::geteuid() } != 0 {
        println!("needs root");
        return None;
    }
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("fp{}-{number}", std::process::id());
    sh(&format!("ip netns add {name}"));
    let home = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
    enter_named(&name);
    sh("sysctl -qw net.ipv6.conf.default.disable_ipv6=1 net.ipv6.conf.all.disable_ipv6=1");
    sh("ip link set lo up");
    Some(Net { name, home })
}

impl Net {
    /// A pair of interfaces here, both up.
    pub fn veth(&self, a: &str, b: &str) {
        sh(&format!("ip link add name {a} type veth peer name {b}"));
        sh(&format!("ip link set dev {a} up"));
        sh(&format!("ip link set dev {b} up"));
    }

    /// A second namespace with `far` in it; gone with the returned value.
    pub fn away(&self, far: &str) -> Away {
        let name = format!("{}-far", self.name);
        sh(&format!("ip netns add {name}"));
        sh(&format!("ip link set {far} netns {name}"));
        let away = Away { name };
        away.sh("sysctl -qw net.ipv6.conf.all.disable_ipv6=1");
        away.sh(&format!("ip link set {far} up"));
        away
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        enter(&self.home);
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

/// A namespace where commands run.
pub struct Away {
    pub name: String,
}

impl Away {
    pub fn sh(&self, line: &str) -> Output {
        sh(&format!("ip netns exec {} {line}", self.name))
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

/// A port with the resources that it runs on.
pub struct Runner {
    pub port: Box<dyn Port>,
    pub cache: PoolCache,
    start: Clock,
}

impl Runner {
    pub fn new(port: Box<dyn Port>, pool: &Pool) -> Self {
        Self { port, cache: pool.cache(), start: Clock::now() }
    }

    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    pub fn poll(&mut self) -> Batch {
        let mut batch = Batch::new();
        self.port.receive(self.now(), &mut self.cache, &mut batch);
        batch
    }

    /// Sends all of the frames, in as many calls as it takes.
    pub fn send<F: AsRef<[u8]>>(&mut self, frames: &[F]) {
        let start = Clock::now();
        let mut batch = Batch::new();
        for frame in frames {
            let packet = self.cache.packet_from(frame.as_ref()).expect("a chunk");
            batch.push(packet);
            while batch.is_full() {
                self.port.transmit(self.now(), &mut self.cache, &mut batch);
                assert!(start.elapsed() < PATIENCE, "the wire took nothing");
            }
        }
        while !batch.is_empty() {
            self.port.transmit(self.now(), &mut self.cache, &mut batch);
            assert!(start.elapsed() < PATIENCE, "the wire took nothing");
        }
    }

    /// Receives until `count` frames that `wanted` wants are here.
    pub fn expect(&mut self, count: usize, wanted: impl Fn(&[u8]) -> bool) -> Vec<Packet> {
        let start = Clock::now();
        let mut got = Vec::new();
        while got.len() < count {
            got.extend(self.poll().into_iter().filter(|p| wanted(p.data())));
            let stats = self.port.stats();
            assert!(start.elapsed() < PATIENCE, "{} of {count} came, {stats:?}", got.len());
        }
        got
    }
}

/// An EtherType that no stack answers.
pub const EXPERIMENT: [u8; 2] = [0x88, 0xb5];

/// Ethernet with a number, so that order shows.
pub fn numbered(number: u16, len: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 9]);
    frame.extend(EXPERIMENT);
    frame.extend(number.to_be_bytes());
    frame.resize(len, number as u8);
    frame
}

pub fn ours(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&EXPERIMENT)
}

/// Everything is back where it was.
pub fn assert_whole(pool: &Pool) {
    assert_eq!(pool.free(), pool.chunks(), "chunks were lost");
}

/// Sends one UDP datagram from a local stack elsewhere.
pub fn send_udp_from(away: &Away, to: &str, payload: &[u8]) {
    let (place, to, payload) = (away.name.clone(), to.to_owned(), payload.to_owned());
    let sender = std::thread::spawn(move || {
        enter_named(&place);
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.send_to(&payload, to).unwrap();
    });
    sender.join().unwrap();
}

/// IPv4 without options, TCP or UDP: does its checksum add up? Sums the plain
/// way, word by word.
pub fn checksums_verify(frame: &[u8]) -> bool {
    let ip = &frame[14..];
    let ip = &ip[..u16::from_be_bytes([ip[2], ip[3]]) as usize];
    let words = |octets: &[u8]| -> u32 {
        let mut even = octets.to_vec();
        even.resize(octets.len().next_multiple_of(2), 0);
        even.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum()
    };
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let transport = &ip[20..];
    let pseudo = words(&ip[12..20]) + u32::from(ip[9]) + transport.len() as u32;
    fold(fold(words(&ip[..20]))) == 0xffff && fold(fold(pseudo + words(transport))) == 0xffff
}

/// stack 10.7.0.2 far ─ near [ports] other ─ home 10.7.0.1 stack
pub fn between_stacks(net: &Net) -> Away {
    net.veth("near", "far");
    net.veth("other", "home");
    let away = net.away("far");
    away.sh("ip address add 10.7.0.2/24 dev far");
    sh("ip address add 10.7.0.1/24 dev home");
    away
}

/// The far stack sends 2 MB by TCP to the home stack, through two ports. The
/// longest frame that passed.
pub fn carry_tcp(away: &Away, near: &mut Runner, other: &mut Runner) -> usize {
    let listener = TcpListener::bind("10.7.0.1:7000").unwrap();
    let place = away.name.clone();
    let sent: Vec<u8> = (0..2_000_000u32).map(|i| ((i * 7) >> 3) as u8).collect();
    let copy = sent.clone();
    let sender = std::thread::spawn(move || {
        enter_named(&place);
        TcpStream::connect("10.7.0.1:7000").unwrap().write_all(&copy).unwrap();
    });
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut got).unwrap();
        got
    });
    let start = Clock::now();
    let mut longest = 0;
    while !reader.is_finished() {
        assert!(start.elapsed() < PATIENCE, "{:?} {:?}", near.port.stats(), other.port.stats());
        let mut pass = |from: &mut Runner, to: &mut Runner| {
            let mut batch = from.poll();
            longest = batch.iter().map(|p| p.len()).fold(longest, usize::max);
            to.port.transmit(to.now(), &mut from.cache, &mut batch);
        };
        pass(near, other);
        pass(other, near);
    }
    sender.join().unwrap();
    assert!(reader.join().unwrap() == sent, "what arrived is not what was sent");
    longest
}

/// Takes the interface of `a` down and up again: frames sent meanwhile fail (they neither
/// wait nor come later), and frames pass again afterwards.
pub fn down_and_up(name: &str, a: &mut Runner, b: &mut Runner) {
    let wait = |a: &mut Runner, up: bool| {
        let start = Clock::now();
        while a.port.is_up() != up {
            a.poll();
            assert!(start.elapsed() < PATIENCE, "up is not {up}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    wait(a, true);
    sh(&format!("ip link set dev {name} down"));
    wait(a, false);
    a.send(&vec![numbered(1, 60); 100]);
    assert_eq!(a.port.stats().tx_failed, 100);
    sh(&format!("ip link set dev {name} up"));
    wait(a, true);
    a.send(&[numbered(2, 60)]);
    assert_eq!(b.expect(1, ours)[0].data(), numbered(2, 60));
    b.send(&[numbered(3, 60)]);
    assert_eq!(a.expect(1, ours)[0].data(), numbered(3, 60));
}
