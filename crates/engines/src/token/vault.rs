//! Memory for key stream: locked, left out of core files, wiped before it goes.
//!
//! Key stream decrypts the packets that it covers, even without the key. So it never meets
//! the swap device or a core file, each block is wiped once it is used, and all of it
//! before the memory is given back.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use zeroize::Zeroize;

/// One block of AES.
pub type Block = [u8; BLOCK];

/// Octets of a block of AES.
pub const BLOCK: usize = 16;

/// Blocks of key stream in memory of their own.
pub struct Vault {
    at: NonNull<Block>,
    blocks: usize,
    locked: bool,
}

// SAFETY: the mapping belongs to this value alone, and is reached through
// `&self` and `&mut self` as a slice.
unsafe impl Send for Vault {}
// SAFETY: as above; `&Vault` only reads.
unsafe impl Sync for Vault {}

impl Vault {
    /// Locked memory for so many blocks, all zero. Fails where the limit of
    /// locked memory (`ulimit -l`) is too low.
    pub fn locked(blocks: usize) -> io::Result<Self> {
        let mut vault = Self::map(blocks, None)?;
        vault.lock()?;
        Ok(vault)
    }

    /// The same, not locked: for a laboratory, whose keys are no secret.
    pub fn unlocked(blocks: usize) -> io::Result<Self> {
        Self::map(blocks, None)
    }

    /// A vault on a file, so that its contents can be inspected afterwards.
    #[cfg(test)]
    pub fn on_file(blocks: usize, file: BorrowedFd<'_>) -> io::Result<Self> {
        Self::map(blocks, Some(file))
    }

    fn map(blocks: usize, file: Option<BorrowedFd<'_>>) -> io::Result<Self> {
        use std::os::fd::AsRawFd;
        let len = blocks.max(1) * BLOCK;
        let (kind, fd) = match file {
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
            Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
        };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no
        // memory of ours; the result is looked at before it is used.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), len, access, kind, fd, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the range is the mapping just made; this is advice alone.
        unsafe { libc::madvise(at, len, libc::MADV_DONTDUMP) };
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, blocks, locked: false })
    }

    fn lock(&mut self) -> io::Result<()> {
        // SAFETY: the range is our own mapping.
        if unsafe { libc::mlock(self.at.as_ptr().cast(), self.octets()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        self.locked = true;
        Ok(())
    }

    /// True if the memory is locked, so that it is not swapped out.
    pub const fn is_locked(&self) -> bool {
        self.locked
    }

    const fn octets(&self) -> usize {
        if self.blocks == 0 { BLOCK } else { self.blocks * BLOCK }
    }
}

impl Deref for Vault {
    type Target = [Block];

    fn deref(&self) -> &[Block] {
        // SAFETY: the mapping holds `blocks` blocks, lives as long as `self`, and
        // began as zeros; octets have no alignment.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.blocks) }
    }
}

impl DerefMut for Vault {
    fn deref_mut(&mut self) -> &mut [Block] {
        // SAFETY: as above, and `&mut self` is the only way to it.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.blocks) }
    }
}

impl Drop for Vault {
    fn drop(&mut self) {
        self.as_flattened_mut().zeroize();
        // SAFETY: the range is our own mapping, and no slice of it is left. Unmapping
        // unlocks it.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.octets()) };
    }
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let locked = if self.locked { ", locked" } else { "" };
        write!(f, "Vault({} blocks{locked})", self.blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Seek};
    use std::os::fd::{AsFd, FromRawFd};

    #[test]
    fn key_stream_memory_is_locked() {
        let vault = Vault::locked(64).expect("the limit of locked memory is above a page");
        assert!(vault.is_locked());
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|l| l.starts_with("VmLck:")).unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(kib > 0, "{line}");
    }

    #[test]
    fn zeroizing_a_vault_wipes_its_memory_before_it_goes() {
        // SAFETY: the name is a C string; the descriptor is looked at below.
        let fd = unsafe { libc::memfd_create(c"vault".as_ptr(), 0) };
        assert!(fd >= 0);
        // SAFETY: the descriptor is new and has no other owner.
        let mut file = unsafe { File::from_raw_fd(fd) };
        file.set_len(4096).unwrap();
        let mut vault = Vault::on_file(256, file.as_fd()).unwrap();
        vault.iter_mut().for_each(|block| *block = [0xa5; BLOCK]);
        let mut seen = Vec::new();
        file.read_to_end(&mut seen).unwrap();
        assert_eq!(seen, [0xa5; 4096], "what is in the vault can be seen in the file");
        drop(vault);
        seen.clear();
        file.rewind().unwrap();
        file.read_to_end(&mut seen).unwrap();
        assert_eq!(seen, [0; 4096]);
    }
}
