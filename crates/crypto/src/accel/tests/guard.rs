//! Memory between two pages that may not be touched: an access outside ends the
//! process. For tests.

/// Room for packets with nothing in front and nothing behind.
pub(crate) struct Guarded {
    map: *mut u8,
    page: usize,
    len: usize,
}

impl Guarded {
    /// Room for `len` octets, rounded up to pages.
    pub fn new(len: usize) -> Self {
        // SAFETY: it only asks.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let len = len.next_multiple_of(page);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping of which nothing can be accessed yet.
        let map = unsafe {
            libc::mmap(std::ptr::null_mut(), len + 2 * page, libc::PROT_NONE, flags, -1, 0)
        };
        assert_ne!(map, libc::MAP_FAILED);
        let map = map.cast::<u8>();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: all but the first and the last page of the mapping.
        let done = unsafe { libc::mprotect(map.add(page).cast(), len, access) };
        assert_eq!(done, 0);
        Self { map, page, len }
    }

    /// `len` octets behind which is nothing, or else in front of which is nothing.
    pub fn slice(&mut self, len: usize, at_end: bool) -> &mut [u8] {
        let start = if at_end { self.len - len } else { 0 };
        &mut self.all()[start..start + len]
    }

    fn all(&mut self) -> &mut [u8] {
        // SAFETY: these pages are ours and can be accessed; they were zeros.
        unsafe { std::slice::from_raw_parts_mut(self.map.add(self.page), self.len) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, of which no reference is left.
        let done = unsafe { libc::munmap(self.map.cast(), self.len + 2 * self.page) };
        assert_eq!(done, 0);
    }
}

/// The guard itself: a child that reads one octet beyond must not live.
#[test]
fn a_guard_page_ends_what_reads_beyond() {
    const CHILD: &str = "FERRULE_TEST_READS_BEYOND";
    if let Ok(way) = std::env::var(CHILD) {
        let mut guarded = Guarded::new(4096);
        let at_end = way == "behind";
        let edge = guarded.slice(1, at_end).as_ptr();
        let beyond = if at_end { edge.wrapping_add(1) } else { edge.wrapping_sub(1) };
        // SAFETY: none; the test, in a process of its own, is that this faults.
        println!("read {}", unsafe { beyond.read_volatile() });
        return;
    }
    let own = "accel::tests::guard::a_guard_page_ends_what_reads_beyond";
    for way in ["behind", "in front"] {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", own])
            .env(CHILD, way)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("running 1 test"), "{way}: {text}");
        assert!(!output.status.success() && !text.contains("read "), "{way}: {text}");
    }
}
