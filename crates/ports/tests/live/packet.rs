//! AF_PACKET on veth pairs.

use crate::net::{
    Away, Net, Runner, assert_whole, between_stacks, carry_tcp, checksums_verify, namespace,
    numbered, ours, send_udp_from, sh,
};
use ferrule_pipeline::Pool;
use ferrule_ports::{Opener, PortSpec, Umem};

fn open(name: &str, pool: &Pool) -> Runner {
    let spec = PortSpec::Packet { interface: name.into(), promiscuous: true };
    let opened = Opener::new().open(&spec).unwrap();
    Runner::new(opened.start(&Umem::new(pool)).unwrap(), pool)
}

/// near ─ far, with a stack behind far that knows 10.7.0.1 at 02:..:01.
fn with_stack(net: &Net) -> Away {
    net.veth("near", "far");
    let away = net.away("far");
    away.sh("ip address add 10.7.0.2/24 dev far");
    away.sh("ip neigh add 10.7.0.1 lladdr 02:00:00:00:00:01 dev far");
    away
}

fn udp(frame: &[u8]) -> bool {
    frame[12..14] == [8, 0] && frame[23] == 17
}

#[test]
fn af_packet_carries_frames_both_ways_and_sees_none_of_its_own() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    let pool = Pool::heap(4096, 2048);
    let (mut a, mut b) = (open("va", &pool), open("vb", &pool));
    for round in 0..100u16 {
        let frames: Vec<_> =
            (0..50).map(|i| numbered(round * 50 + i, 60 + i as usize * 29)).collect();
        a.send(&frames);
        b.send(&frames);
        for end in [&mut a, &mut b] {
            let got = end.expect(50, ours);
            assert!(got.iter().zip(&frames).all(|(p, f)| p.data() == f), "in order, unchanged");
            got.into_iter().for_each(|p| end.cache.recycle(p));
        }
    }
    assert_eq!((a.port.stats().tx.packets, a.port.stats().rx_missed), (5000, 0));
    drop((a, b));
    assert_whole(&pool);
}

#[test]
fn af_packet_puts_vlan_tags_back() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    let pool = Pool::heap(512, 2048);
    let (mut a, mut b) = (open("va", &pool), open("vb", &pool));
    for tag in [[0x81, 0, 0x60, 7], [0x88, 0xa8, 0, 9]] {
        let mut frame = numbered(1, 200);
        frame.splice(12..12, tag);
        a.send(&[&frame]);
        let got = b.expect(1, |f| f[12..14] == tag[..2]);
        assert_eq!(got[0].data(), frame);
    }
}

#[test]
fn af_packet_finishes_checksums_that_a_local_stack_left() {
    let Some(net) = namespace() else { return };
    let away = with_stack(&net);
    let pool = Pool::heap(512, 2048);
    let mut near = open("near", &pool);
    send_udp_from(&away, "10.7.0.1:7777", b"left unfinished");
    let got = near.expect(1, udp);
    assert!(checksums_verify(got[0].data()), "{:02x?}", got[0].data());
}

/// Though the stacks send super-frames, the octets that arrive are those that were sent.
#[test]
fn af_packet_cuts_super_frames_of_a_local_stack() {
    let Some(net) = namespace() else { return };
    let away = between_stacks(&net);
    let offloads = String::from_utf8(away.sh("ethtool -k far").stdout).unwrap();
    assert!(offloads.contains("tcp-segmentation-offload: on"), "{offloads}");
    let pool = Pool::heap(4096, 2048);
    let (mut near, mut other) = (open("near", &pool), open("other", &pool));
    let longest = carry_tcp(&away, &mut near, &mut other);
    assert!(longest <= 1514, "{longest}");
    assert_eq!(near.port.stats().rx_missed, 0);
}

#[test]
fn af_packet_carries_jumbo_frames_in_larger_chunks() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    let pool = Pool::heap(512, 10240);
    let (mut a, mut b) = {
        sh("ip link set dev va mtu 9000");
        sh("ip link set dev vb mtu 9000");
        (open("va", &pool), open("vb", &pool))
    };
    let frames: Vec<_> = (0..20).map(|i| numbered(i, 9014)).collect();
    a.send(&frames);
    let got = b.expect(20, ours);
    assert!(got.iter().zip(&frames).all(|(p, f)| p.data() == f));
    drop(got);
    a.send(&[numbered(1, 9015)]);
    assert_eq!(a.port.stats().tx_failed, 1, "longer than the MTU");
    let small = Pool::heap(64, 2048);
    let mut c = open("vb", &small);
    a.send(&frames);
    c.poll();
    assert_eq!(c.port.stats().rx_missed, 20, "a chunk is too small: counted");
    assert_eq!(c.port.stats().missed.too_long, 20);
}

#[test]
fn a_port_is_not_up_on_another_device_of_the_same_name() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    let pool = Pool::heap(512, 2048);
    let mut port = open("va", &pool);
    port.poll();
    assert!(port.port.is_up());
    sh("ip link del dev va");
    net.veth("va", "vb");
    // The port looks ten times a second.
    std::thread::sleep(std::time::Duration::from_millis(200));
    port.poll();
    assert!(!port.port.is_up(), "its own device is gone");
}

#[test]
fn af_packet_fails_what_is_sent_while_the_interface_is_down_and_goes_on_after() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    let pool = Pool::heap(512, 2048);
    let (mut a, mut b) = (open("va", &pool), open("vb", &pool));
    crate::net::down_and_up("va", &mut a, &mut b);
    drop((a, b));
    assert_whole(&pool);
}
