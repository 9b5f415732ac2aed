//! Memory for a node's pool: mapped, in 2 MiB pages when the system has some
//! to give, else in 4 KiB pages.
//!
//! AF_XDP registers this memory with the kernel, which pins it. A fork must
//! not copy it (`MADV_DONTFORK`): the child has no business with packets.

use crate::sys::Map;
use ferrule_pipeline::{Pool, Region};
use std::io;

/// Octets of a huge page.
const HUGE: usize = 2 << 20;

/// Size of the pages that the memory consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// 2 MiB, from the reserved stock (`vm.nr_hugepages`).
    Huge,
    /// 4 KiB; the kernel may merge them by itself.
    Normal,
}

/// Maps at least `len` octets.
pub fn mapped(len: usize) -> io::Result<(Region, Pages)> {
    let huge = len.next_multiple_of(HUGE);
    let flags = libc::MAP_HUGETLB | libc::MAP_POPULATE;
    let (map, pages) = match Map::anonymous(huge, flags) {
        Ok(map) => (map, Pages::Huge),
        Err(_) => (Map::anonymous(len.next_multiple_of(4096), 0)?, Pages::Normal),
    };
    for advice in [libc::MADV_HUGEPAGE, libc::MADV_DONTFORK] {
        // SAFETY: advice on our own mapping. Its failure does no harm: the
        // memory is as good without it.
        unsafe { libc::madvise(map.base().as_ptr().cast(), map.len(), advice) };
    }
    let (base, len) = (map.base(), map.len());
    // SAFETY: fresh zeroed memory, on page boundaries, not referenced elsewhere and mapped
    // until `map` is dropped.
    Ok((unsafe { Region::mapped(base, len, move |_, _| drop(map)) }, pages))
}

/// A pool of at least `chunks` chunks of `chunk` octets in mapped memory.
pub fn pool(chunks: usize, chunk: usize) -> io::Result<(Pool, Pages)> {
    let (region, pages) = mapped(chunks * chunk)?;
    Ok((Pool::new(region, chunk), pages))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_pool_has_every_chunk_and_lets_the_memory_go() {
        let (pool, _) = pool(1000, 2048).unwrap();
        assert!(pool.chunks() >= 1000);
        let packet = pool.cache().packet_from(&[5; 1500]).unwrap();
        assert_eq!(packet.data(), [5; 1500]);
        drop(packet);
        assert_eq!(pool.free(), pool.chunks());
    }
}
