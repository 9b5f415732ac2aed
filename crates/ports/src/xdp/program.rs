//! The XDP program that hands frames to AF_XDP sockets, and its map.
//!
//! Six instruction slots, assembled by hand, so that neither a compiler nor an
//! ELF loader is needed:
//!
//! ```text
//!   r2 = ctx->rx_queue_index
//!   r1 = map (two slots)
//!   r3 = XDP_PASS            a queue without a socket stays the kernel's
//!   call bpf_redirect_map
//!   exit
//! ```
//!
//! A BPF link holds the program to the interface: it goes when the last
//! descriptor of the link closes, so a daemon that dies leaves nothing behind.
//!
//! Making program, map and link needs CAP_BPF and CAP_NET_ADMIN; putting a
//! socket into the map needs the map's descriptor only.

use crate::error::{Doing, OpenError, OpenFault};
use crate::link::Link;
use crate::sys::{check, is_taken, patiently};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Position of the program in the receive path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// Native, with generic to fall back on.
    #[default]
    Auto,
    /// In the driver. On a veth it makes the kernel switch segmentation off at
    /// the far end, whose super-frames would not arrive otherwise.
    Native,
    /// Behind the driver, on socket buffers: works on every interface. Between two nodes
    /// on a veth it is the faster one; a host's TCP loses its super-frames there.
    Generic,
}

/// Queues that a map has room for.
const QUEUES: u32 = 64;

const BPF_MAP_CREATE: u32 = 0;
const BPF_MAP_UPDATE_ELEM: u32 = 2;
const BPF_MAP_DELETE_ELEM: u32 = 3;
const BPF_PROG_LOAD: u32 = 5;
const BPF_LINK_CREATE: u32 = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Offset of the receive queue's number in `struct xdp_md`.
const RX_QUEUE_INDEX: u16 = 16;
const XDP_PASS: i32 = 2;
const REDIRECT_MAP: i32 = 51;
/// A map's descriptor instead of a number, in a two-slot load.
const PSEUDO_MAP_FD: u8 = 1;

/// One slot: opcode, source and target register, offset, immediate.
const fn slot(code: u8, target: u8, source: u8, offset: u16, value: i32) -> u64 {
    code as u64
        | ((source << 4 | target) as u64) << 8
        | (offset as u64) << 16
        | (value as u32 as u64) << 32
}

fn instructions(map: RawFd) -> [u64; 6] {
    [
        slot(0x61, 2, 1, RX_QUEUE_INDEX, 0),  // ldx32 r2, [r1 + 16]
        slot(0x18, 1, PSEUDO_MAP_FD, 0, map), // ld64 r1, map
        0,                                    // its second half
        slot(0xb7, 3, 0, 0, XDP_PASS),        // mov r3, 2
        slot(0x85, 0, 0, 0, REDIRECT_MAP),    // call
        slot(0x95, 0, 0, 0, 0),               // exit
    ]
}

/// The front of `union bpf_attr`, by command. All padding is explicit and zero,
/// as the kernel demands.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

#[repr(C)]
struct MapElement {
    map: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    target: u32,
    attach: u32,
    flags: u32,
}

/// # Safety
/// `attr` is the attribute of `command`, and the data that it points to is alive.
unsafe fn bpf<T>(command: u32, attr: &T) -> io::Result<RawFd> {
    let attr: *const T = attr;
    // SAFETY: the kernel reads `size_of::<T>()` octets; the rest says the caller.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr, size_of::<T>()) };
    check(result as libc::c_int)
}

/// # Safety
/// As [`bpf`], and the command makes a descriptor.
unsafe fn bpf_fd<T>(command: u32, attr: &T) -> io::Result<OwnedFd> {
    // SAFETY: handed on.
    let fd = unsafe { bpf(command, attr)? };
    // SAFETY: a new descriptor of ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The program at one interface, and its map of queues to sockets.
#[derive(Debug)]
pub struct Program {
    map: OwnedFd,
    link: OwnedFd,
}

impl Program {
    /// Loads the program and puts it at the interface.
    pub fn attach(link: &Link, mode: XdpMode) -> Result<Self, OpenError> {
        let map = create_map().doing(|| "creating an XSKMAP".into())?;
        let program = load(&map).doing(|| "loading the XDP program".into())?;
        let put = |flags| patiently(|| create_link(&program, link.index, flags));
        let generic = || put(XDP_FLAGS_SKB_MODE);
        let native = || put(XDP_FLAGS_DRV_MODE);
        let attached = match mode {
            XdpMode::Native => native(),
            XdpMode::Generic => generic(),
            XdpMode::Auto => native().or_else(|_| generic()),
        };
        let what = || format!("attaching the XDP program to {}", link.name);
        let taken = attached.as_ref().is_err_and(is_taken);
        let attached = attached.doing(what).map_err(|e| match e.fault {
            OpenFault::Other if mode == XdpMode::Native && !taken => {
                e.remedy("Choose mode = \"generic\", or see whether the MTU is too large for XDP.")
            }
            _ => e,
        })?;
        Ok(Self { map, link: attached })
    }

    /// The program from descriptors that another process made: map, link.
    pub fn from_fds(map: OwnedFd, link: OwnedFd) -> Self {
        Self { map, link }
    }

    /// Copies of the descriptors, to pass on: map, link.
    pub fn fds(&self) -> io::Result<[OwnedFd; 2]> {
        Ok([self.map.try_clone()?, self.link.try_clone()?])
    }

    /// Sends the frames of `queue` to `socket` from now on.
    pub(crate) fn insert(&self, queue: u32, socket: RawFd) -> io::Result<()> {
        self.element(BPF_MAP_UPDATE_ELEM, queue, socket)
    }

    /// Leaves the frames of `queue` to the kernel.
    pub(crate) fn remove(&self, queue: u32) -> io::Result<()> {
        self.element(BPF_MAP_DELETE_ELEM, queue, 0)
    }

    fn element(&self, command: u32, key: u32, value: RawFd) -> io::Result<()> {
        let attr = MapElement {
            map: self.map.as_raw_fd() as u32,
            _pad: 0,
            key: (&raw const key) as u64,
            value: (&raw const value) as u64,
            flags: 0,
        };
        // SAFETY: key and value are 4 octets each, as the map was made with.
        unsafe { bpf(command, &attr) }.map(drop)
    }
}

fn create_map() -> io::Result<OwnedFd> {
    let attr = MapCreate {
        map_type: BPF_MAP_TYPE_XSKMAP,
        key_size: 4,
        value_size: 4,
        max_entries: QUEUES,
    };
    // SAFETY: the right attribute, without pointers.
    unsafe { bpf_fd(BPF_MAP_CREATE, &attr) }
}

fn load(map: &OwnedFd) -> io::Result<OwnedFd> {
    let code = instructions(map.as_raw_fd());
    let attr = ProgramLoad {
        kind: BPF_PROG_TYPE_XDP,
        count: code.len() as u32,
        instructions: code.as_ptr() as u64,
        license: c"Dual MIT/GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel: 0,
        flags: 0,
    };
    // SAFETY: the right attribute; code and licence outlive the call.
    unsafe { bpf_fd(BPF_PROG_LOAD, &attr) }
}

fn create_link(program: &OwnedFd, index: u32, flags: u32) -> io::Result<OwnedFd> {
    let attr =
        LinkCreate { program: program.as_raw_fd() as u32, target: index, attach: BPF_XDP, flags };
    // SAFETY: the right attribute, without pointers.
    unsafe { bpf_fd(BPF_LINK_CREATE, &attr) }
}
