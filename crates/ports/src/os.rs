//! Services of the operating system for a daemon, ports aside: pinning to a core, sleep and
//! wake-up, dropping of privileges.
//!
//! ```text
//!   worker: busy ─▶ nothing moved for a while ─▶ PollSet::wait(ports, Wake, timeout)
//!   others: Wake::wake ─────────────────────────────────▲
//! ```

use crate::sys::check;
use ferrule_base::Duration;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Ties the calling thread to one core.
pub fn pin(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: zeros are an empty set; the core was checked against its size;
    // the kernel reads the set, which lives.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        check(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)).map(drop)
    }
}

/// Wakes a thread that sleeps in [`PollSet::wait`]. Clones wake the same one.
#[derive(Debug)]
pub struct Wake(File);

impl Wake {
    /// A wake-up that has not been triggered yet.
    pub fn new() -> io::Result<Self> {
        // SAFETY: plain numbers; the descriptor that comes back is ours alone.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: as above.
        Ok(Self(unsafe { File::from_raw_fd(fd) }))
    }

    /// Another handle to it.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Wakes the thread that sleeps on it, or will.
    pub fn wake(&self) {
        // The one failure there is: the counter is full, so it is readable.
        let _ = (&self.0).write(&1_u64.to_ne_bytes());
    }

    /// Forgets that it was woken.
    pub fn clear(&self) {
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

impl AsRawFd for Wake {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Descriptors to sleep on.
#[derive(Default)]
pub struct PollSet(Vec<libc::pollfd>);

impl PollSet {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Wakes when `fd` can be read, or also when it can be written. Returns its place.
    pub fn add(&mut self, fd: RawFd, also_write: bool) -> usize {
        let events = libc::POLLIN | if also_write { libc::POLLOUT } else { 0 };
        self.0.push(libc::pollfd { fd, events, revents: 0 });
        self.0.len() - 1
    }

    /// Sleeps until something happens at a descriptor, or the time is over
    /// (`None`: no limit). A signal ends it, too.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let time = timeout.map(|d| libc::timespec {
            tv_sec: d.as_secs().min(i32::MAX as u64) as libc::time_t,
            tv_nsec: d.subsec_nanos().into(),
        });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let (list, count) = (self.0.as_mut_ptr(), self.0.len() as libc::nfds_t);
        // SAFETY: the list has `count` entries, and list and time live.
        match check(unsafe { libc::ppoll(list, count, time, std::ptr::null()) }) {
            Err(e) if e.kind() != io::ErrorKind::Interrupted => Err(e),
            Err(_) => {
                self.0.iter_mut().for_each(|entry| entry.revents = 0);
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    /// True if an event occurred at the descriptor in this place.
    pub fn is_ready(&self, place: usize) -> bool {
        self.0.get(place).is_some_and(|entry| entry.revents != 0)
    }
}

/// A user of the system, and the group it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// Its number.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
}

impl User {
    /// The user of this name, if there is one.
    pub fn by_name(name: &str) -> io::Result<Option<Self>> {
        let name = CString::new(name)?;
        let mut room = vec![0_u8; 16 << 10];
        // SAFETY: zeros are a valid record; every pointer names a live place of
        // the size that is told, and of the result only numbers are read.
        unsafe {
            let mut entry: libc::passwd = std::mem::zeroed();
            let mut found = std::ptr::null_mut();
            let (text, len) = (room.as_mut_ptr().cast(), room.len());
            match libc::getpwnam_r(name.as_ptr(), &mut entry, text, len, &mut found) {
                0 if found.is_null() => Ok(None),
                0 => Ok(Some(Self { uid: entry.pw_uid, gid: entry.pw_gid })),
                libc::ENOENT | libc::ESRCH => Ok(None),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
    }

    /// The user that this process runs as.
    pub fn current() -> Self {
        // SAFETY: plain questions.
        unsafe { Self { uid: libc::geteuid(), gid: libc::getegid() } }
    }

    /// True if this is root.
    pub fn is_root(self) -> bool {
        self.uid == 0
    }

    /// Becomes this user, for good: no other groups, no capabilities, and no
    /// program started from here gets any back. To be called before there are
    /// threads. Fails if a way back to root is left.
    pub fn become_for_good(self) -> io::Result<()> {
        let Self { uid, gid } = self;
        // SAFETY: plain numbers; an empty list of groups needs no pointer.
        unsafe {
            check(libc::setgroups(0, std::ptr::null()))?;
            check(libc::setresgid(gid, gid, gid))?;
            check(libc::setresuid(uid, uid, uid))?;
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
            if uid != 0 && libc::setuid(0) == 0 {
                return Err(io::Error::other("could become root again"));
            }
        }
        Ok(())
    }
}

/// The number of the group of this name, if there is one.
pub fn group_by_name(name: &str) -> io::Result<Option<u32>> {
    let name = CString::new(name)?;
    let mut room = vec![0_u8; 64 << 10];
    // SAFETY: as in `User::by_name`.
    unsafe {
        let mut entry: libc::group = std::mem::zeroed();
        let mut found = std::ptr::null_mut();
        let (text, len) = (room.as_mut_ptr().cast(), room.len());
        match libc::getgrnam_r(name.as_ptr(), &mut entry, text, len, &mut found) {
            0 if found.is_null() => Ok(None),
            0 => Ok(Some(entry.gr_gid)),
            libc::ENOENT | libc::ESRCH => Ok(None),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Memory of this process, where keys are, never goes into a core file, and no
/// process but root's reads it. Becoming another user makes it readable again.
pub fn hide_memory() -> io::Result<()> {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel reads a live value; plain numbers.
    unsafe {
        check(libc::setrlimit(libc::RLIMIT_CORE, &none))?;
        check(libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0)).map(drop)
    }
}

/// Large allocations are the kernel's again as soon as they are freed, and grow
/// without a copy. Of itself the allocator stops doing so after the first one.
pub fn return_large_allocations() {
    const FROM: libc::c_int = 1 << 20;
    // SAFETY: plain numbers. A refused setting stays as it was.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, FROM);
    }
}

/// Memory of this process, present and future, never goes to swap. It needs a limit as
/// [`allow_locked_memory`] sets it: under a smaller one memory would end there.
pub fn lock_memory() -> io::Result<()> {
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: plain numbers.
    check(unsafe { libc::mlockall(flags) }).map(drop)
}

/// From now on this process may have memory locked without CAP_IPC_LOCK: the
/// pool, when a port of AF_XDP is opened after privileges were given up. There is
/// no number to set instead: the kernel counts all processes of the user.
pub fn allow_locked_memory() -> io::Result<()> {
    let all = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel reads a live value.
    check(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &all) }).map(drop)
}

/// Another handle to standard input, as a socket that a parent handed over.
pub fn inherited() -> io::Result<OwnedFd> {
    use std::os::fd::AsFd;
    io::stdin().as_fd().try_clone_to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn poll_sleeps_until_woken_or_until_the_time_is_over() {
        let wake = Wake::new().unwrap();
        let mut set = PollSet::new();
        let place = set.add(wake.as_raw_fd(), false);
        let start = Instant::now();
        set.wait(Some(Duration::from_millis(20))).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(19) && !set.is_ready(place));
        let other = wake.try_clone().unwrap();
        let thread = std::thread::spawn(move || other.wake());
        set.wait(None).unwrap();
        assert!(set.is_ready(place));
        thread.join().unwrap();
        wake.clear();
        set.wait(Some(Duration::ZERO)).unwrap();
        assert!(!set.is_ready(place), "cleared");
    }

    #[test]
    fn a_thread_is_pinned_to_a_core_that_exists() {
        std::thread::spawn(|| {
            pin(0).unwrap();
            assert!(pin(libc::CPU_SETSIZE as usize).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn users_are_found_by_name() {
        assert_eq!(User::by_name("root").unwrap(), Some(User { uid: 0, gid: 0 }));
        assert_eq!(User::by_name("no-such-user-here").unwrap(), None);
        assert!(User::by_name("a\0b").is_err());
    }
}
