//! TAP and TUN, with the host's stack as peer.

use crate::net::{Runner, assert_whole, carry_tcp, checksums_verify, namespace, sh};
use ferrule_base::MacAddr;
use ferrule_pipeline::{Pool, PortStats};
use ferrule_ports::tap::{HostSide, TapSpec, TunAddresses};
use ferrule_ports::{OpenError, OpenFault, Opened, Opener, PortSpec, Umem};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

const NODE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn start(opened: Opened, pool: &Pool) -> Runner {
    Runner::new(opened.start(&Umem::new(pool)).unwrap(), pool)
}

fn open(spec: TapSpec) -> Result<Opened, OpenError> {
    Opener::new().open(&PortSpec::Tap(spec))
}

fn tap(name: &str, pool: &Pool) -> Runner {
    start(open(TapSpec::new(name, None)).unwrap(), pool)
}

fn tun_spec(name: &str) -> TapSpec {
    TapSpec::new(name, Some(TunAddresses { node: NODE, host: HOST }))
}

fn tun(name: &str, pool: &Pool) -> Runner {
    start(open(tun_spec(name)).unwrap(), pool)
}

/// Turns an echo request round: addresses, type, checksum.
fn echo(frame: &[u8]) -> Vec<u8> {
    let mut f = frame.to_vec();
    f.copy_within(6..12, 0);
    f[6..12].copy_from_slice(&NODE.0);
    let (from, to) = (frame[26..30].to_vec(), frame[30..34].to_vec());
    f[26..30].copy_from_slice(&to);
    f[30..34].copy_from_slice(&from);
    f[34] = 0;
    let sum = u32::from(f[36]) << 8 | u32::from(f[37]);
    let sum = sum + 0x0800;
    f[36..38].copy_from_slice(&((sum + (sum >> 16)) as u16).to_be_bytes());
    f
}

fn is_echo_request(f: &[u8]) -> bool {
    f[12..14] == [8, 0] && f[23] == 1 && f[34] == 8
}

/// The host pings us; it gets its answers.
fn answers_ping(runner: &mut Runner) {
    let mut ping = Command::new("ping")
        .args(["-c", "5", "-i", "0.05", "-W", "2", "-s", "1400", "10.8.0.2"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut answered = 0;
    while answered < 5 {
        // A slow machine brings several at once.
        for request in runner.expect(1, is_echo_request) {
            let answer = echo(request.data());
            runner.cache.recycle(request);
            runner.send(&[answer]);
            answered += 1;
        }
    }
    assert!(ping.wait().unwrap().success());
}

#[test]
fn tap_with_the_kernel_as_peer_that_pings() {
    let Some(_net) = namespace() else { return };
    let pool = Pool::heap(256, 2048);
    let mut port = tap("tap7", &pool);
    assert!(!port.port.is_up());
    sh("ip address add 10.8.0.1/24 dev tap7");
    sh("ip link set dev tap7 up");
    sh("ip neigh add 10.8.0.2 lladdr 02:00:00:00:00:01 dev tap7");
    answers_ping(&mut port);
    drop(port);
    assert_whole(&pool);
}

#[test]
fn tap_finishes_checksums_that_the_kernel_left() {
    let Some(_net) = namespace() else { return };
    let pool = Pool::heap(256, 2048);
    let mut port = tap("tap7", &pool);
    sh("ip address add 10.8.0.1/24 dev tap7");
    sh("ip link set dev tap7 up");
    sh("ip neigh add 10.8.0.2 lladdr 02:00:00:00:00:01 dev tap7");
    let socket = UdpSocket::bind("10.8.0.1:0").unwrap();
    for len in [1, 2, 100, 1472] {
        socket.send_to(&vec![7; len], "10.8.0.2:9").unwrap();
        let got = port.expect(1, |f| f[12..14] == [8, 0] && f[23] == 17);
        assert_eq!(got[0].len(), 14 + 28 + len);
        assert!(checksums_verify(got[0].data()));
    }
}

#[test]
fn tap_attaches_to_a_persistent_interface_and_says_when_it_cannot() {
    let Some(net) = namespace() else { return };
    sh("ip tuntap add dev tap8 mode tap");
    net.veth("va", "vb");
    let pool = Pool::heap(64, 2048);
    let port = tap("tap8", &pool);
    let again = open(TapSpec::new("tap8", None)).unwrap_err();
    assert_eq!(again.fault, OpenFault::Other, "{again}");
    drop(port);
    sh("ip link show dev tap8");
    let other = open(TapSpec::new("va", None)).unwrap_err();
    assert!(other.to_string().contains("another name"), "{other}");
}

#[test]
fn tun_shows_ethernet_and_answers_arp_for_those_behind() {
    let Some(_net) = namespace() else { return };
    let pool = Pool::heap(256, 2048);
    let mut port = tun("tun7", &pool);
    sh("ip address add 10.8.0.1/24 dev tun7");
    sh("ip link set dev tun7 up");
    answers_ping(&mut port);
    let mut arp = vec![0xff; 6];
    arp.extend(NODE.0);
    arp.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    arp.extend(NODE.0);
    arp.extend([10, 8, 0, 2, 0, 0, 0, 0, 0, 0, 10, 8, 0, 1]);
    port.send(&[arp]);
    let answer = port.expect(1, |f| f[12..14] == [8, 6]).remove(0);
    assert_eq!(answer.data()[..12], [NODE.0, HOST.0].concat());
    assert_eq!(answer.data()[20..32], [0, 2, 2, 0, 0, 0, 0, 2, 10, 8, 0, 1]);
    assert_eq!(answer.data()[32..42], [2, 0, 0, 0, 0, 1, 10, 8, 0, 2]);
    drop((answer, port));
    assert_whole(&pool);
}

/// stack 10.7.0.2 tun7 [ports] tun8 10.7.0.1 stack: 2 MB by TCP, there and counted.
fn tcp_between_tuns(offload: bool) -> Option<(usize, [PortStats; 2])> {
    let net = namespace()?;
    let pool = Pool::heap(512, 2048);
    let spec = |name: &str| TapSpec { offload, ..tun_spec(name) };
    let [mut near, mut home] = ["tun7", "tun8"].map(|name| start(open(spec(name)).unwrap(), &pool));
    let away = net.away("tun7");
    for (sh, own, other, dev) in [
        (&(|line: &str| away.sh(line)) as &dyn Fn(&str) -> _, "10.7.0.2", "10.7.0.1", "tun7"),
        (&|line: &str| sh(line), "10.7.0.1", "10.7.0.2", "tun8"),
    ] {
        sh(&format!("ip address add {own}/32 peer {other} dev {dev}"));
        sh(&format!("ip link set dev {dev} up"));
    }
    let longest = carry_tcp(&away, &mut near, &mut home);
    let stats = [near.port.stats(), home.port.stats()];
    drop((near, home));
    assert_whole(&pool);
    Some((longest, stats))
}

#[test]
fn super_frames_are_cut_on_read_and_segments_coalesced_on_write() {
    let Some((longest, [near, home])) = tcp_between_tuns(true) else { return };
    assert!(longest <= 1514, "no frame beyond the MTU entered: {longest}");
    for (what, supers) in [("cut on read", near.cut), ("coalesced on write", home.joined)] {
        let each = supers.segments / supers.frames.max(1);
        assert!(supers.frames > 10 && each >= 4, "{what}: {supers:?} {near:?} {home:?}");
    }
    assert_eq!([near.rx_refused, near.tx_failed, home.rx_refused, home.tx_failed], [0; 4]);
}

#[test]
fn without_offload_every_frame_passes_alone() {
    let Some((longest, stats)) = tcp_between_tuns(false) else { return };
    assert!(longest <= 1514);
    for stats in stats {
        assert_eq!((stats.cut, stats.joined), Default::default());
    }
}

#[test]
fn super_frames_of_udp_are_cut_on_read_where_the_kernel_makes_them() {
    let Some(_net) = namespace() else { return };
    let pool = Pool::heap(256, 2048);
    let mut port = tun("tun7", &pool);
    sh("ip address add 10.8.0.1/24 dev tun7");
    sh("ip link set dev tun7 up");
    let socket = UdpSocket::bind("10.8.0.1:0").unwrap();
    const UDP_SEGMENT: i32 = 103;
    let size: i32 = 1000;
    // SAFETY: the kernel reads one number.
    let set = unsafe {
        let (level, len) = (libc::IPPROTO_UDP, size_of::<i32>() as u32);
        libc::setsockopt(socket.as_raw_fd(), level, UDP_SEGMENT, (&raw const size).cast(), len)
    };
    assert_eq!(set, 0);
    let sent: Vec<u8> = (0..30_500u32).map(|i| (i >> 3) as u8).collect();
    socket.send_to(&sent, "10.8.0.2:9").unwrap();
    let got = port.expect(31, |f| f[12..14] == [8, 0] && f[23] == 17);
    assert!(got.iter().all(|p| checksums_verify(p.data())));
    let payload: Vec<u8> = got.iter().flat_map(|p| p.data()[42..].to_vec()).collect();
    assert!(payload == sent, "every octet in its place");
    // A kernel before 6.2 cuts them itself, and then there is nothing to count.
    let cut = port.port.stats().cut;
    assert!(matches!((cut.frames, cut.segments), (0, 0) | (1, 31)), "{cut:?}");
}

#[test]
fn tun_has_several_queues() {
    let Some(_net) = namespace() else { return };
    let pool = Pool::heap(512, 2048);
    let several = TapSpec { several: true, ..tun_spec("tun7") };
    let mut queues = [(); 3].map(|()| start(open(several.clone()).unwrap(), &pool));
    sh("ip address add 10.8.0.1/24 dev tun7");
    sh("ip link set dev tun7 up");
    // Many flows: the kernel spreads them, and each stays where it is.
    let sockets: Vec<UdpSocket> = (0..64).map(|_| UdpSocket::bind("10.8.0.1:0").unwrap()).collect();
    for round in 0..3u8 {
        for socket in &sockets {
            socket.send_to(&[round; 10], "10.8.0.2:9").unwrap();
        }
    }
    let mut seen: Vec<Vec<[u8; 2]>> = Vec::new();
    for queue in &mut queues {
        let mut ports = Vec::new();
        loop {
            let batch = queue.poll();
            if batch.is_empty() {
                break;
            }
            ports.extend(
                batch.iter().filter(|p| p.data()[23] == 17).map(|p| [p.data()[34], p.data()[35]]),
            );
        }
        seen.push(ports);
    }
    assert_eq!(seen.iter().map(Vec::len).sum::<usize>(), 192, "all came");
    assert!(seen.iter().filter(|ports| !ports.is_empty()).count() >= 2, "by more than one queue");
    for (i, ports) in seen.iter().enumerate() {
        let elsewhere = seen.iter().enumerate().filter(|(j, _)| *j != i);
        let mixed = elsewhere.flat_map(|(_, o)| o).any(|p| ports.contains(p));
        assert!(!mixed, "a flow came by two queues");
    }
    // Frames sent by any of them arrive.
    let socket = &sockets[0];
    socket.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
    for queue in &mut queues {
        queue.send(&[datagram(socket.local_addr().unwrap().port())]);
        assert_eq!(socket.recv(&mut [0; 100]).unwrap(), 4);
    }
    let other = open(tun_spec("tun7")).unwrap_err();
    assert!(other.to_string().contains("multi_queue"), "{other}");
}

/// Ethernet, IPv4 10.8.0.2 to 10.8.0.1, UDP without a checksum, four octets.
fn datagram(port: u16) -> Vec<u8> {
    let mut frame = [HOST.0, NODE.0].concat();
    frame.extend([8, 0, 0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0, 10, 8, 0, 2, 10, 8, 0, 1, 0, 9]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 12, 0, 0, 1, 2, 3, 4]);
    let sum: u32 = frame[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

#[test]
fn tun_is_set_up_for_the_host_with_address_mtu_and_routes() {
    let Some(_net) = namespace() else { return };
    sh("sysctl -qw net.ipv6.conf.default.disable_ipv6=0");
    let pool = Pool::heap(64, 2048);
    let host = HostSide {
        addresses: vec![("10.8.0.2".parse().unwrap(), 24), ("fd08::2".parse().unwrap(), 64)],
        routes: vec![("10.2.0.0".parse().unwrap(), 16), ("fd02::".parse().unwrap(), 64)],
        mtu: 1440,
    };
    let spec = TapSpec { host: host.clone(), ..tun_spec("tun7") };
    let said = |line: &str| String::from_utf8(sh(line).stdout).unwrap();
    // And again: addresses and routes that exist already are no error.
    for _ in 0..2 {
        let port = start(open(spec.clone()).unwrap(), &pool);
        assert!(port.port.is_up());
        assert!(said("ip link show dev tun7").contains("mtu 1440"));
        let addresses = said("ip address show dev tun7");
        assert!(
            addresses.contains("10.8.0.2/24") && addresses.contains("fd08::2/64"),
            "{addresses}"
        );
        // The link-local one is the kernel's, and may take its time.
        let mut own = addresses.lines().filter(|line| line.contains("scope global"));
        assert!(own.all(|line| !line.contains("tentative")), "{addresses}");
        let to = said("ip route get 10.2.3.4");
        assert!(to.contains("dev tun7") && to.contains("src 10.8.0.2"), "{to}");
        assert!(said("ip -6 route get fd02::9").contains("dev tun7"));
        let typed = host.commands("tun7");
        assert!(typed.contains("ip address add 10.8.0.2/24 dev tun7"), "{typed}");
    }
    let wrong = HostSide { mtu: 20, ..host };
    let error = open(TapSpec { host: wrong, ..tun_spec("tun7") }).unwrap_err();
    assert!(error.to_string().contains("ip link set tun7 mtu 20 up"), "{error}");
}
