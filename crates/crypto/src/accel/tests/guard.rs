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

    /// `len` octets behind which is nothing.
    pub fn at_end(&mut self, len: usize) -> &mut [u8] {
        let start = self.len - len;
        &mut self.all()[start..]
    }

    /// `len` octets in front of which is nothing.
    pub fn at_start(&mut self, len: usize) -> &mut [u8] {
        &mut self.all()[..len]
    }

    fn all(&mut self) -> &mut [u8] {
        // SAFETY: these pages are ours and can be accessed; they were zeros.
        unsafe { std::slice::from_raw_parts_mut(self.map.add(self.page), self.len) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, which nobody has any more.
        let done = unsafe { libc::munmap(self.map.cast(), self.len + 2 * self.page) };
        assert_eq!(done, 0);
    }
}
