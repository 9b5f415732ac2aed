//! Making and attaching to the interface.

use super::{HostSide, TunAddresses};
use crate::error::{Doing, OpenError, OpenFault};
use crate::link::request;
use crate::sys::check;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const TUN_F_CSUM: u32 = 1;
const TUN_F_TSO4: u32 = 2;
const TUN_F_TSO6: u32 = 4;
const TUN_F_TSO_ECN: u32 = 8;
/// Super-frames of UDP, since Linux 6.2.
const TUN_F_USO: u32 = 0x20 | 0x40;

/// Specification of a TAP or TUN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapSpec {
    /// Its name.
    pub name: String,
    /// A TUN, whose frames show these addresses; nothing: a TAP.
    pub tun: Option<TunAddresses>,
    /// Super-frames in both directions.
    pub offload: bool,
    /// The interface has several queues, of which this is one.
    pub several: bool,
    /// Addresses, MTU and routes for the host.
    pub host: HostSide,
}

impl TapSpec {
    /// One queue, with super-frames.
    pub fn new(name: impl Into<String>, tun: Option<TunAddresses>) -> Self {
        Self { name: name.into(), tun, offload: true, several: false, host: HostSide::default() }
    }
}

/// A TAP or TUN that is attached.
#[derive(Debug)]
pub struct TapOpened {
    pub(crate) fd: OwnedFd,
    pub(super) spec: TapSpec,
}

impl TapOpened {
    /// Attaches to the interface or makes it. One that is made here is down at first,
    /// unless the host is to have an address there, and goes with its last descriptor.
    pub fn new(spec: &TapSpec) -> Result<Self, OpenError> {
        let name = &spec.name;
        let mut r = request(name)?;
        let path = c"/dev/net/tun";
        let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
        // SAFETY: a live string; the descriptor that comes back is ours.
        let fd = check(unsafe { libc::open(path.as_ptr(), flags) });
        let fd = fd.doing(|| "opening /dev/net/tun".into()).map_err(|e| match e.fault {
            OpenFault::MissingInterface => OpenError { fault: OpenFault::Unsupported, ..e }
                .remedy("Load the tun module: `modprobe tun`."),
            _ => e,
        })?;
        // SAFETY: as above.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let kind = if spec.tun.is_some() { libc::IFF_TUN } else { libc::IFF_TAP };
        let queues = if spec.several { libc::IFF_MULTI_QUEUE } else { 0 };
        let flags = kind | queues | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        r.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: the command reads and writes one ifreq.
        let made = check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut r) });
        made.doing(|| format!("attaching to {name}")).map_err(|e| {
            match e.source.as_ref().and_then(io::Error::raw_os_error) {
                Some(libc::EINVAL) => e.remedy(
                    "An interface of that name is there, of another kind or with one queue \
                     instead of several: choose another name, or make it anew (`ip tuntap \
                     add … multi_queue`).",
                ),
                _ => e,
            }
        })?;
        set_offloads(&fd, spec.offload).doing(|| format!("setting the offloads of {name}"))?;
        spec.host.set(name)?;
        Ok(Self { fd, spec: spec.clone() })
    }

    /// The interface from a descriptor that another process attached as [`Self::new`] does.
    pub fn from_fd(spec: &TapSpec, fd: OwnedFd) -> Self {
        Self { fd, spec: spec.clone() }
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The descriptor, for another process.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

/// True if the interface of this file exists, in any network namespace.
pub(crate) fn has_interface(file: &OwnedFd) -> bool {
    // SAFETY: all zeros are a valid ifreq.
    let mut r: libc::ifreq = unsafe { std::mem::zeroed() };
    // SAFETY: the command writes one ifreq.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNGETIFF, &raw mut r) }).is_ok()
}

/// Tells the kernel the offloads that it may leave to the port: as many as it knows of.
fn set_offloads(fd: &OwnedFd, supers: bool) -> io::Result<()> {
    let tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    let wishes: &[u32] = if supers { &[tcp | TUN_F_USO, tcp] } else { &[TUN_F_CSUM] };
    let mut set = Ok(());
    for &offloads in wishes {
        let offloads = libc::c_ulong::from(offloads);
        // SAFETY: the command takes a number.
        set =
            check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, offloads) }).map(drop);
        // An older kernel does not know super-frames of UDP: it cuts them itself.
        match &set {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {}
            _ => return set,
        }
    }
    set
}
