//! Throughput of each kind of port over a veth pair: sending and receiving of every frame
//! on one thread, per second of its CPU time (a machine with other work would else show in
//! the figures). Needs root.

#[allow(dead_code)]
#[path = "../tests/live/net.rs"]
mod net;

use ferrule_pipeline::Pool;
use ferrule_ports::tap::TapSpec;
use ferrule_ports::xdp::{BUDGET, XdpMode};
use ferrule_ports::{Opener, PortSpec, Umem, region};
use net::{Net, Runner, numbered, ours, sh};
use std::time::{Duration, Instant};

/// Measuring time of each row.
const LONG: Duration = Duration::from_secs(1);
/// Frames that are sent before the other end looks.
const BURST: usize = 64;

fn cpu_time() -> Duration {
    // SAFETY: zeros are a valid time, which the kernel overwrites.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: a live place.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn xdp(name: &str, mode: XdpMode) -> PortSpec {
    PortSpec::Xdp { interface: name.into(), queue: 0, mode, budget: BUDGET }
}

fn packet(name: &str) -> PortSpec {
    PortSpec::Packet { interface: name.into(), promiscuous: true }
}

/// Nanoseconds of CPU time per frame, and the share that was lost.
fn measure(a: &mut Runner, b: &mut Runner, len: usize) -> (f64, f64) {
    let frame = numbered(7, len);
    let (begin, start) = (Instant::now(), cpu_time());
    let (mut sent, mut got) = (0u64, 0u64);
    while begin.elapsed() < LONG {
        a.send(&[&frame; BURST]);
        sent += BURST as u64;
        let mut idle = 0;
        while got < sent && idle < 3 {
            let mut batch = b.poll();
            let count = batch.iter().filter(|p| ours(p.data())).count();
            idle = if count == 0 { idle + 1 } else { 0 };
            got += count as u64;
            batch.drain(..).for_each(|p| b.cache.recycle(p));
        }
    }
    let time = (cpu_time() - start).as_nanos() as f64;
    (time / got as f64, 1.0 - got as f64 / sent as f64)
}

fn row(what: &str, pool: &Pool, specs: [PortSpec; 2], up: impl Fn(&Net), net: &Net) {
    let umem = Umem::new(pool);
    let mut opener = Opener::new();
    let [mut a, mut b] = specs
        .map(|spec| Runner::new(opener.open(&spec).unwrap().start(&umem).unwrap(), umem.pool()));
    up(net);
    for len in [64, 1500] {
        let (nanos, lost) = measure(&mut a, &mut b, len);
        let rate = 1000.0 / nanos;
        println!("{what:28} {len:5} octets {nanos:7.0} ns {rate:6.2} Mpps {lost:6.3} lost");
    }
}

fn main() {
    let Some(net) = net::namespace() else { return };
    let (pool, pages) = region::pool(8192, 2048).unwrap();
    net.veth("va", "vb");
    println!("pool in {pages:?} pages; one thread sends and receives");
    for mode in [XdpMode::Generic, XdpMode::Native] {
        row(&format!("AF_XDP {mode:?}"), &pool, ["va", "vb"].map(|v| xdp(v, mode)), |_| {}, &net);
    }
    row("AF_PACKET", &pool, ["va", "vb"].map(packet), |_| {}, &net);
    let mixed = [packet("va"), xdp("vb", XdpMode::Generic)];
    row("AF_PACKET to AF_XDP", &pool, mixed, |_| {}, &net);
    let taps = ["tap1", "tap2"].map(|name| PortSpec::Tap(TapSpec::new(name, None)));
    let bridge = |_: &Net| {
        sh("ip link add name br0 type bridge");
        for name in ["br0", "tap1", "tap2"] {
            sh(&format!("ip link set dev {name} up"));
        }
        sh("ip link set dev tap1 master br0");
        sh("ip link set dev tap2 master br0");
        std::thread::sleep(Duration::from_millis(200));
    };
    row("TAP over a bridge", &pool, taps, bridge, &net);
}
