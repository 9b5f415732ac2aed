//! Sleeping until a frame comes, and running dry.

use crate::net::{Runner, assert_whole, namespace, numbered, ours, sh};
use ferrule_pipeline::{Batch, Pool};
use ferrule_ports::xdp::XdpMode;
use ferrule_ports::{Opener, PortSpec, Umem, region};
use std::time::{Duration, Instant};

fn kinds(name: &str) -> [PortSpec; 3] {
    let xdp = |mode| PortSpec::Xdp { interface: name.into(), queue: 0, mode, budget: 256 };
    let packet = PortSpec::Packet { interface: name.into(), promiscuous: false };
    [xdp(XdpMode::Generic), xdp(XdpMode::Native), packet]
}

fn start(spec: &PortSpec, pool: &Pool) -> Runner {
    let opened = Opener::new().open(spec).unwrap();
    Runner::new(opened.start(&Umem::new(pool)).unwrap(), pool)
}

/// Sleeps on the port's descriptor; false if nothing came in time.
fn sleep_on(port: &Runner, patience: Duration) -> bool {
    let fd = port.port.wait_fd().unwrap();
    let mut wait = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one live entry.
    unsafe { libc::poll(&mut wait, 1, patience.as_millis() as i32) == 1 }
}

/// As the daemon does: the other end sleeps until a frame comes.
#[test]
fn ports_wake_who_sleeps_on_them_at_once() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    let pool = region::pool(2048, 2048).unwrap().0;
    let sender = PortSpec::Packet { interface: "va".into(), promiscuous: false };
    for spec in kinds("vb") {
        let (mut a, mut b) = (start(&sender, &pool), start(&spec, &pool));
        let mut quickest = Duration::MAX;
        for i in 0..20 {
            assert!(!sleep_on(&b, Duration::ZERO), "{spec:?}: awake without a frame");
            let sleeper = std::thread::spawn(move || {
                assert!(sleep_on(&b, Duration::from_secs(2)), "slept through it");
                (Instant::now(), b)
            });
            std::thread::sleep(Duration::from_millis(5));
            let sent = Instant::now();
            a.send(&[numbered(i, 60)]);
            let (woken, back) = sleeper.join().unwrap();
            b = back;
            assert_eq!(b.expect(1, ours)[0].data(), numbered(i, 60));
            quickest = quickest.min(woken - sent);
        }
        println!("{quickest:?} {spec:?}");
        // A block or batch timer in the way would show as a millisecond or more.
        assert!(quickest < Duration::from_millis(1), "{quickest:?} {spec:?}");
    }
}

/// With no chunk free the port waits, counts frames that the kernel drops, and goes on when
/// there are chunks again.
#[test]
fn ports_survive_an_empty_pool() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    let outside = Pool::heap(512, 2048);
    for spec in kinds("vb") {
        let pool = region::pool(300, 2048).unwrap().0;
        let sender = PortSpec::Packet { interface: "va".into(), promiscuous: false };
        let (mut a, mut b) = (start(&sender, &outside), start(&spec, &pool));
        let hoard: Vec<_> = std::iter::from_fn(|| b.cache.packet()).collect();
        assert!(!hoard.is_empty());
        for _ in 0..20 {
            a.send(&vec![numbered(1, 60); 64]);
            let mut batch = Batch::new();
            b.port.receive(b.now(), &mut b.cache, &mut batch);
        }
        drop(hoard);
        let start = Instant::now();
        let mut last = None;
        // The frames that wait come first.
        while last != Some(2) {
            a.send(&[numbered(2, 60)]);
            for packet in b.poll().into_iter().filter(|p| ours(p.data())) {
                last = Some(packet.data()[15]);
            }
            assert!(start.elapsed() < Duration::from_secs(5), "{spec:?} {:?}", b.port.stats());
        }
        drop((a, b));
        assert_whole(&pool);
    }
}

#[test]
fn af_packet_counts_what_a_full_ring_lost() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    let pool = Pool::heap(8192, 2048);
    let [.., packet] = kinds("va");
    let [.., far] = kinds("vb");
    let (mut a, mut b) = (start(&packet, &pool), start(&far, &pool));
    let frames: Vec<_> = (0..4000).map(|i| numbered(i, 60)).collect();
    a.send(&frames); // b does not look
    let stats = b.port.stats();
    assert_eq!(stats, b.port.stats(), "asking twice counts once");
    let got = b.expect(4000 - stats.rx_missed as usize, ours).len();
    assert!(stats.rx_missed > 0 && got >= 2000, "{got} {stats:?}");
}

#[test]
fn tap_wakes_who_sleeps_on_it() {
    let Some(_net) = namespace() else { return };
    let pool = Pool::heap(64, 2048);
    let mut port = start(&PortSpec::Tap(ferrule_ports::tap::TapSpec::new("tap5", None)), &pool);
    sh("ip address add 10.8.0.1/24 dev tap5");
    sh("ip link set dev tap5 up");
    let socket = std::net::UdpSocket::bind("10.8.0.1:0").unwrap();
    while !port.poll().is_empty() {}
    sh("ip neigh add 10.8.0.2 lladdr 02:00:00:00:00:01 dev tap5");
    socket.send_to(b"wake up", "10.8.0.2:9").unwrap();
    assert!(sleep_on(&port, Duration::from_secs(2)));
    assert!(port.expect(1, |f| f.ends_with(b"wake up"))[0].len() == 49);
}
