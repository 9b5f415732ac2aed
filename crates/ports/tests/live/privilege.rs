//! Each step works with the privileges it is documented to need: ports are opened by a
//! privileged thread, passed on, started and run by an unprivileged one.

use crate::net::{Runner, assert_whole, namespace, numbered, ours, sh};
use ferrule_pipeline::Pool;
use ferrule_ports::pass::{recv_fds, send_fds, socket_pair};
use ferrule_ports::xdp::XdpMode;
use ferrule_ports::{OpenFault, Opened, Opener, PortSpec, Umem, region};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;

const NOBODY: libc::c_long = 65534;

/// Takes every privilege from this thread, for good.
fn become_nobody() {
    // SAFETY: plain numbers; the raw calls concern this thread alone.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY), 0);
        assert_eq!(libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY), 0);
    }
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
}

const CAP_DAC_OVERRIDE: u32 = 1;
const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_BPF: u32 = 39;

/// Leaves this thread these capabilities and no other privilege.
fn keep_only(capabilities: &[u32]) {
    let bits = capabilities.iter().fold(0u64, |bits, c| bits | 1 << c);
    let (low, high) = (bits as u32, (bits >> 32) as u32);
    // Version 3 and this thread; effective, permitted, inheritable, twice.
    let (header, sets) = ([0x2008_0522u32, 0], [low, low, 0, high, high, 0]);
    // SAFETY: live places of the sizes that version 3 has; the raw calls
    // concern this thread alone.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0), 0);
        assert_eq!(libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY), 0);
        assert_eq!(libc::syscall(libc::SYS_capset, &header, &sets), 0);
    }
}

/// Opens in a thread that has only these capabilities. (The kernel gives back the queue
/// and the memory of a socket some time after it was closed: until then it says neither.)
fn opens_with(capabilities: &[u32], spec: &PortSpec) -> bool {
    let open = || {
        let (capabilities, spec) = (capabilities.to_vec(), spec.clone());
        let opened = std::thread::spawn(move || {
            keep_only(&capabilities);
            Opener::new().open(&spec).map(drop).map_err(|error| error.fault)
        });
        opened.join().unwrap()
    };
    let mut result = open();
    for _ in 0..20 {
        if matches!(result, Ok(()) | Err(OpenFault::NoPermission)) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        result = open();
    }
    assert!(matches!(result, Ok(()) | Err(OpenFault::NoPermission)), "{result:?}");
    result.is_ok()
}

/// The table of `ferrule_ports::open`, and that no line of it asks too much.
#[test]
fn opening_needs_the_capabilities_that_the_table_says() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    let tap = PortSpec::Tap(ferrule_ports::tap::TapSpec::new("tap9", None));
    // Most systems let every user open the device; some do not.
    let device = std::fs::metadata("/dev/net/tun").unwrap().permissions().mode();
    let device = if device & 0o006 == 0o006 { None } else { Some(CAP_DAC_OVERRIDE) };
    let table = [
        (xdp("va"), vec![CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF]),
        (packet("va"), vec![CAP_NET_RAW]),
        (tap, [Some(CAP_NET_ADMIN), device].into_iter().flatten().collect()),
    ];
    for (spec, needed) in table {
        assert!(opens_with(&needed, &spec), "{spec:?} wants more than {needed:?}");
        for i in 0..needed.len() {
            let mut fewer = needed.clone();
            fewer.remove(i);
            assert!(!opens_with(&fewer, &spec), "{spec:?} needs only {fewer:?}");
        }
    }
}

fn xdp(interface: &str) -> PortSpec {
    PortSpec::Xdp { interface: interface.into(), queue: 0, mode: XdpMode::Auto, budget: 256 }
}

fn packet(interface: &str) -> PortSpec {
    PortSpec::Packet { interface: interface.into(), promiscuous: true }
}

/// Opens here; a thread without privilege gets the descriptors and `work`s.
fn pass_on<T: Send + 'static>(
    specs: Vec<PortSpec>,
    work: impl FnOnce(Vec<Opened>) -> T + Send + 'static,
) -> T {
    let [ours, theirs] = socket_pair().unwrap();
    let mut opener = Opener::new();
    for spec in &specs {
        let fds: Vec<OwnedFd> = opener.open(spec).unwrap().into_fds().unwrap();
        let raw: Vec<_> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        send_fds(&ours, b"port", &raw).unwrap();
    }
    drop(opener);
    let worker = std::thread::spawn(move || {
        become_nobody();
        let mut opener = Opener::new();
        let opened = specs.iter().map(|spec| {
            let (_, fds) = recv_fds(&theirs, &mut [0; 8]).unwrap();
            opener.adopt(spec, fds).unwrap()
        });
        work(opened.collect())
    });
    worker.join().unwrap()
}

#[test]
fn ports_start_and_run_without_privilege_once_they_are_open() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    net.veth("vc", "vd");
    // 4 MiB: within the memlock limit of those without CAP_IPC_LOCK.
    let pool = region::pool(2048, 2048).unwrap().0;
    let memory = pool.clone();
    pass_on(vec![xdp("va"), xdp("vb"), packet("vc"), packet("vd")], move |opened| {
        let umem = Umem::new(&memory);
        let mut ports: Vec<_> = opened
            .into_iter()
            .map(|opened| Runner::new(opened.start(&umem).unwrap(), &memory))
            .collect();
        for pair in ports.chunks_mut(2) {
            let [a, b] = pair else { unreachable!("two and two") };
            a.send(&[numbered(3, 100)]);
            assert_eq!(b.expect(1, ours)[0].data(), numbered(3, 100));
            b.send(&[numbered(4, 100)]);
            assert_eq!(a.expect(1, ours)[0].data(), numbered(4, 100));
        }
    });
    assert_whole(&pool);
}

/// The program came with the first queue; for the second a socket is enough, and
/// is all that can be had: an interface takes one program.
#[test]
fn second_queue_is_opened_for_a_process_that_has_the_program() {
    let Some(_net) = namespace() else { return };
    let queues = "numrxqueues 2 numtxqueues 2";
    sh(&format!("ip link add name va {queues} type veth peer name vb {queues}"));
    sh("ip link set dev va up");
    sh("ip link set dev vb up");
    let spec = |queue| {
        let (mode, interface) = (XdpMode::Native, "va".to_owned());
        PortSpec::Xdp { interface, queue, mode, budget: 256 }
    };
    let (mut theirs, mut ours) = (Opener::new(), Opener::new());
    assert!(!ours.has_program("va").unwrap());
    let fds = theirs.open(&spec(0)).unwrap().into_fds().unwrap();
    let first = ours.adopt(&spec(0), fds).unwrap();
    assert!(ours.has_program("va").unwrap());
    assert!(theirs.open(&spec(1)).is_err(), "they have forgotten the program");
    let fds = vec![Opener::open_queue("va").unwrap()];
    let second = ours.adopt(&spec(1), fds).unwrap();
    let pool = region::pool(2048, 2048).unwrap().0;
    let umem = Umem::new(&pool);
    let ports = [first, second].map(|opened| opened.start(&umem).unwrap());
    drop(ports);
    assert!(!ours.has_program("va").unwrap(), "it went with its last port");
    assert!(ours.adopt(&spec(1), vec![Opener::open_queue("va").unwrap()]).is_err());
    assert_whole(&pool);
}

#[test]
fn tap_runs_without_privilege_once_it_is_open() {
    let Some(_net) = namespace() else { return };
    let pool = Pool::heap(64, 2048);
    let memory = pool.clone();
    sh("ip tuntap add dev tap9 mode tap");
    sh("ip link set dev tap9 up");
    pass_on(
        vec![PortSpec::Tap(ferrule_ports::tap::TapSpec::new("tap9", None))],
        move |mut opened| {
            let port = opened.remove(0).start(&Umem::new(&memory)).unwrap();
            let mut port = Runner::new(port, &memory);
            port.send(&[numbered(1, 60)]);
            assert_eq!(port.port.stats().tx.packets, 1);
        },
    );
    assert_whole(&pool);
}

#[test]
fn opening_without_privilege_is_refused_with_a_remedy() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    let refused = std::thread::spawn(|| {
        become_nobody();
        let specs = [
            xdp("va"),
            packet("va"),
            PortSpec::Tap(ferrule_ports::tap::TapSpec::new("tap9", None)),
        ];
        specs.map(|spec| Opener::new().open(&spec).unwrap_err())
    });
    for error in refused.join().unwrap() {
        assert_eq!(error.fault, OpenFault::NoPermission, "{error}");
        assert!(error.to_string().contains("CAP_NET_RAW"), "{error}");
    }
    let missing = Opener::new().open(&packet("vx")).unwrap_err();
    assert_eq!(missing.fault, OpenFault::MissingInterface);
}

#[test]
fn memory_beyond_the_memlock_limit_is_refused_with_a_remedy() {
    let Some(net) = namespace() else { return };
    net.veth("va", "vb");
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a live place.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    if limit.rlim_cur > 1 << 30 {
        return println!("needs a memlock limit");
    }
    let chunks = limit.rlim_cur as usize / 2048 + 4096;
    let error = pass_on(vec![xdp("va")], move |mut opened| {
        let pool = region::pool(chunks, 2048).unwrap().0;
        let error = opened.remove(0).start(&Umem::new(&pool)).err().unwrap();
        assert_whole(&pool);
        error
    });
    assert!(error.to_string().contains("memlock"), "{error}");
}
