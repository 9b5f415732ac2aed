//! AF_XDP on veth pairs.

use crate::net::{
    Net, Runner, assert_whole, between_stacks, carry_tcp, namespace, numbered, ours, sh,
};
use ferrule_pipeline::Pool;
use ferrule_ports::xdp::{BUDGET, Program, Umem, XdpMode, XdpOpened, XdpPort};
use ferrule_ports::{Link, Opener, PortSpec, region};
use std::sync::Arc;

fn memory() -> Pool {
    region::pool(8192, 2048).unwrap().0
}

fn open(name: &str, mode: XdpMode, umem: &Umem) -> Runner {
    let link = Link::by_name(name).unwrap();
    let program = Arc::new(Program::attach(&link, mode).unwrap());
    let opened = XdpOpened::new(link, 0, BUDGET, program).unwrap();
    Runner::new(Box::new(XdpPort::new(opened, umem).unwrap()), umem.pool())
}

/// Thousands of frames each way, in order, and the memory is whole afterwards.
fn both_directions(_net: &Net, mode: XdpMode) {
    let pool = memory();
    let umem = Umem::new(&pool);
    let (mut a, mut b) = (open("va", mode, &umem), open("vb", mode, &umem));
    for round in 0..100u16 {
        let frames: Vec<_> =
            (0..50).map(|i| numbered(round * 50 + i, 60 + i as usize * 20)).collect();
        a.send(&frames);
        b.send(&frames);
        for end in [&mut a, &mut b] {
            let got = end.expect(50, ours);
            assert!(got.iter().zip(&frames).all(|(p, f)| p.data() == f), "in order, unchanged");
            got.into_iter().for_each(|p| end.cache.recycle(p));
        }
    }
    assert_eq!(a.port.stats().tx.packets, 5000);
    assert_eq!(b.port.stats().rx_missed, 0);
    assert!(a.port.is_up());
    drop((a, b));
    assert_whole(&pool);
}

#[test]
fn af_xdp_generic_carries_frames_both_ways() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    both_directions(&net, XdpMode::Generic);
}

#[test]
fn af_xdp_native_carries_frames_both_ways() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    both_directions(&net, XdpMode::Native);
}

/// a1 ─ a2 [node] b1 ─ b2: the frame goes out of the chunk it came into.
#[test]
fn af_xdp_two_ports_share_one_umem() {
    let Some(net) = namespace() else { return };
    net.veth("a1", "a2");
    net.veth("b1", "b2");
    let (pool, outside) = (memory(), memory());
    let (umem, other) = (Umem::new(&pool), Umem::new(&outside));
    let mode = XdpMode::Auto;
    let (mut left, mut right) = (open("a2", mode, &umem), open("b1", mode, &umem));
    let (mut source, mut sink) = (open("a1", mode, &other), open("b2", mode, &other));
    for round in 0..40u16 {
        let frames: Vec<_> = (0..64).map(|i| numbered(round * 64 + i, 1514)).collect();
        source.send(&frames);
        let mut moved = 0;
        while moved < 64 {
            let mut batch = left.poll();
            moved += batch.len();
            assert!(batch.iter().all(|p| pool.owns(p)));
            while !batch.is_empty() {
                right.port.transmit(right.now(), &mut left.cache, &mut batch);
            }
        }
        let got = sink.expect(64, ours);
        assert!(got.iter().zip(&frames).all(|(p, f)| p.data() == f));
    }
    drop((left, right, source, sink));
    assert_whole(&pool);
    assert_whole(&outside);
}

#[test]
fn af_xdp_memory_is_registered_anew_when_all_ports_have_gone() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    let pool = memory();
    let umem = Umem::new(&pool);
    for _ in 0..3 {
        let (first, second) = (open("va", XdpMode::Auto, &umem), open("vb", XdpMode::Auto, &umem));
        drop(first); // the one that registered the memory
        let mut again = open("va", XdpMode::Auto, &umem);
        again.send(&[numbered(1, 100)]);
        let mut second = second;
        assert_eq!(second.expect(1, ours)[0].data(), numbered(1, 100));
        drop((second, again));
        assert_whole(&pool);
    }
}

/// As `apply` does it: a worker closes the port while the next one for the queue is opened,
/// with memory that a third port registered, and then without a third port.
#[test]
fn af_xdp_queue_is_taken_over_while_another_thread_closes_it() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    let pool = memory();
    let umem = Umem::new(&pool);
    let program = Program::attach(&Link::by_name("va").unwrap(), XdpMode::Native).unwrap();
    let program = Arc::new(program);
    let port = || {
        let link = Link::by_name("va").unwrap();
        let opened = XdpOpened::new(link, 0, BUDGET, program.clone()).unwrap();
        XdpPort::new(opened, &umem).expect("it waits for the queue")
    };
    for with_third in [true, false] {
        let third = with_third.then(|| open("vb", XdpMode::Native, &umem));
        let mut last = port();
        for _ in 0..3 {
            let closing = std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(30));
                drop(last);
            });
            last = port();
            closing.join().unwrap();
        }
        drop((last, third));
        assert_whole(&pool);
    }
}

#[test]
fn af_xdp_stalled_port_takes_no_more_than_its_budget_and_counts_the_rest() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    let pool = memory();
    let umem = Umem::new(&pool);
    let (mut a, mut b) = (open("va", XdpMode::Auto, &umem), open("vb", XdpMode::Auto, &umem));
    let frames: Vec<_> = (0..3 * BUDGET as u16).map(|i| numbered(i, 60)).collect();
    a.send(&frames); // b does not look
    assert_eq!(b.port.stats().rx_missed, 2 * BUDGET as u64);
    assert_eq!(b.port.stats().missed.no_buffer, 2 * BUDGET as u64);
    b.expect(BUDGET, ours);
    a.send(&[numbered(7, 70)]);
    assert_eq!(b.expect(1, ours)[0].len(), 70, "it goes on");
    drop((a, b));
    assert_whole(&pool);
}

#[test]
fn af_xdp_finishes_checksums_that_a_local_stack_left() {
    let Some(net) = namespace() else { return };
    net.veth("near", "far");
    let away = net.away("far");
    away.sh("ip address add 10.7.0.2/24 dev far");
    away.sh("ip neigh add 10.7.0.1 lladdr 02:00:00:00:00:01 dev far");
    let pool = memory();
    let mut near = open("near", XdpMode::Auto, &Umem::new(&pool));
    crate::net::send_udp_from(&away, "10.7.0.1:7777", b"left unfinished");
    let got = near.expect(1, |f| f[12..14] == [8, 0] && f[23] == 17);
    assert!(crate::net::checksums_verify(got[0].data()), "{:02x?}", got[0].data());
}

/// Two queues of one interface: one program, one memory, a socket each. (Native
/// mode: generic mode forgets the queue on a veth.)
#[test]
fn af_xdp_queues_of_one_interface_share_its_program() {
    let Some(_net) = namespace() else { return };
    let queues = "numrxqueues 2 numtxqueues 2";
    sh(&format!("ip link add name va {queues} type veth peer name vb {queues}"));
    sh("ip link set dev va up");
    sh("ip link set dev vb up");
    let pool = memory();
    let umem = Umem::new(&pool);
    let mut opener = Opener::new();
    let mut start = |interface: &str, queue| {
        let (mode, interface) = (XdpMode::Native, interface.to_owned());
        let spec = PortSpec::Xdp { interface, queue, mode, budget: 512 };
        Runner::new(opener.open(&spec).unwrap().start(&umem).unwrap(), &pool)
    };
    let ends = [0, 1].map(|queue| (start("va", queue), start("vb", queue)));
    for (queue, (mut a, mut b)) in (0..).zip(ends) {
        a.send(&[numbered(queue, 64)]);
        assert_eq!(b.expect(1, ours)[0].data(), numbered(queue, 64));
    }
    assert_whole(&pool);
}

#[test]
fn af_xdp_fails_what_is_sent_while_the_interface_is_down_and_goes_on_after() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    for mode in [XdpMode::Generic, XdpMode::Native] {
        let pool = memory();
        let umem = Umem::new(&pool);
        let (mut a, mut b) = (open("va", mode, &umem), open("vb", mode, &umem));
        crate::net::down_and_up("va", &mut a, &mut b);
        drop((a, b));
        assert_whole(&pool);
    }
}

#[test]
fn af_xdp_counts_frames_larger_than_a_chunk_and_larger_chunks_take_them() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    sh("ip link set dev va mtu 3000");
    sh("ip link set dev vb mtu 3000");
    let (small, large) = (memory(), region::pool(4096, 4096).unwrap().0);
    let mut a = open("va", XdpMode::Auto, &Umem::new(&large));
    let mut b = open("vb", XdpMode::Auto, &Umem::new(&small));
    a.send(&[numbered(1, 1793), numbered(2, 1792)]);
    assert_eq!(b.expect(1, ours)[0].data(), numbered(2, 1792));
    assert_eq!((b.port.stats().rx_missed, b.port.stats().missed.too_long), (1, 1));
    drop(b);
    let mut b = open("vb", XdpMode::Auto, &Umem::new(&large));
    a.send(&[numbered(3, 3014)]);
    assert_eq!(b.expect(1, ours)[0].data(), numbered(3, 3014));
    drop((a, b));
    assert_whole(&small);
    assert_whole(&large);
}

#[test]
fn link_switches_its_own_offloads_off() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    assert_eq!(Link::by_name("va").unwrap().offloads_off().unwrap(), [""; 0]);
    let said = String::from_utf8(sh("ethtool -k va").stdout).unwrap();
    let names = ["tx-checksumming", "tx-tcp-segm", "tx-tcp6", "generic-segm", "generic-receive"];
    for name in names {
        let line = said.lines().find(|line| line.trim().starts_with(name)).unwrap();
        assert!(line.ends_with("off"), "{line}");
    }
}

#[test]
fn af_xdp_says_what_is_missing_or_down() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    sh("ip link set va down");
    let link = Link::by_name("va").unwrap();
    let error = link.require_up().unwrap_err().to_string();
    assert!(error.contains("ip link set va up"), "{error}");
    let odd = Pool::heap(16, 16384);
    sh("ip link set va up");
    let link = Link::by_name("va").unwrap();
    assert!(link.is_veth());
    let program = Arc::new(Program::attach(&link, XdpMode::Auto).unwrap());
    let opened = XdpOpened::new(link, 0, BUDGET, program).unwrap();
    let error = XdpPort::new(opened, &Umem::new(&odd)).err().unwrap();
    assert_eq!(error.fault, ferrule_ports::OpenFault::Unsupported);
}

/// A native program makes the kernel switch the far end's segmentation off, so
/// that a local stack there needs no `ethtool`.
#[test]
fn af_xdp_native_carries_tcp_of_local_stacks() {
    let Some(net) = namespace() else { return };
    let away = between_stacks(&net);
    let pool = memory();
    let umem = Umem::new(&pool);
    let mut near = open("near", XdpMode::Native, &umem);
    let mut other = open("other", XdpMode::Native, &umem);
    let longest = carry_tcp(&away, &mut near, &mut other);
    assert!(longest <= 1514, "{longest}");
    assert_eq!(near.port.stats().rx_missed, 0);
}
