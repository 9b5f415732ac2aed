//! The system calls that more than one port makes, with their results as
//! `io::Result` and their resources freed by `Drop`.

use ferrule_base::Duration;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

/// A negative result is the error in `errno`.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The same for calls that return a length.
pub(crate) fn check_len(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// A new socket, closed on exec and never blocking.
pub(crate) fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: plain numbers; the descriptor that comes back is ours alone.
    let fd = check(unsafe { libc::socket(domain, kind, protocol) })?;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `setsockopt` with a plain value.
pub(crate) fn set<T: Copy>(fd: &impl AsRawFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    let value: *const T = value;
    // SAFETY: the kernel reads `len` octets of a live value.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value.cast(), len) }).map(drop)
}

/// Octets that may wait in a socket, each way.
const SOCKET_OCTETS: i32 = 4 << 20;

/// Lets a socket hold bursts: with privilege beyond the system's limit, else as
/// far as that goes.
pub(crate) fn enlarge(fd: &impl AsRawFd) {
    for (beyond, within) in
        [(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF), (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)]
    {
        if set(fd, libc::SOL_SOCKET, beyond, &SOCKET_OCTETS).is_err() {
            // Every value is accepted and cut down to the limit.
            let _ = set(fd, libc::SOL_SOCKET, within, &SOCKET_OCTETS);
        }
    }
}

/// `getsockopt` of a plain value.
///
/// # Safety
/// Any octets are a valid `T`.
pub(crate) unsafe fn get<T: Copy>(fd: RawFd, level: i32, name: i32) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` octets to a live place.
    check(unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &mut len) })?;
    // SAFETY: zeroed at first, and any octets will do, says the caller.
    Ok(unsafe { value.assume_init() })
}

/// Clears and returns a socket's pending error (0: none).
pub(crate) fn take_error(fd: RawFd) -> i32 {
    // SAFETY: an int has no invalid values.
    unsafe { get::<i32>(fd, libc::SOL_SOCKET, libc::SO_ERROR) }.unwrap_or(0)
}

/// Number of attempts to get a resource that is still in use, and the pause between them.
const BUSY_TRIES: usize = 100;
const BUSY_PAUSE: Duration = Duration::from_millis(4);

/// Asks again for a while if the answer is "busy": the kernel lets go of a
/// closed socket's queue a little later, and a process that was just forked
/// keeps copies of descriptors until it becomes another program.
pub(crate) fn patiently<T>(mut ask: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..BUSY_TRIES {
        match ask() {
            Err(e) if is_taken(&e) => std::thread::sleep(BUSY_PAUSE),
            answer => return answer,
        }
    }
    ask()
}

/// True if the resource is in use. (An XDP hook of the other mode is said to exist.)
pub(crate) fn is_taken(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

/// Returns when every reader in the kernel that began before has ended: entries taken out
/// of a map have no user then.
pub(crate) fn rcu_barrier() {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: no memory is named. Systems that reserve cores refuse; there the
    // close that follows waits.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
}

/// Memory shared with the kernel, unmapped on drop.
pub(crate) struct Map {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is plain memory; its owner settles the access to its parts.
unsafe impl Send for Map {}
// SAFETY: a shared map gives out its address only.
unsafe impl Sync for Map {}

impl Map {
    /// Maps `len` octets of the socket's memory at `offset`.
    pub(crate) fn of(fd: RawFd, len: usize, offset: i64) -> io::Result<Self> {
        let (prot, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        Self::new(len, prot, flags, fd, offset)
    }

    /// Maps `len` zeroed octets of its own.
    pub(crate) fn anonymous(len: usize, flags: i32) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
        Self::new(len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    }

    fn new(len: usize, prot: i32, flags: i32, fd: RawFd, offset: i64) -> io::Result<Self> {
        // SAFETY: a new mapping at a place of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, fd, offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { base, len })
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: our own mapping; every holder of pointers into it holds the map.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
