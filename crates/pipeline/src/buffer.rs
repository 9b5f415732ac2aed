//! Packet buffers: one region of memory cut into chunks, each owned by one
//! [`Packet`].
//!
//! The rule that makes this sound: a chunk's number is in exactly one place at
//! a time: the pool's free list, a [`PoolCache`], a `Packet`, or (for ports that
//! share the region with the kernel) a ring to which the port gave it with
//! [`Packet::into_chunk`]. `Packet` is not `Clone`.
//!
//! The region outlives every packet. One count has an owner for each handle to the pool and
//! for each chunk that is not on the free list. Taking chunks off the list needs a handle;
//! they are added to the count, and subtracted only once they are on the list again. The
//! owner that brings the count to zero frees the memory: the last handle, or the last
//! packet if that is later. A chunk that stays with the kernel keeps the region mapped, on
//! purpose. Chunks that move between a cache and its packets do not touch the count.
//!
//! Metadata of the packets stand beside the chunks, in an array of cache lines: in the
//! chunks, which lie a power of two apart, all of them would fall into the same few sets of
//! the cache.

use crossbeam_queue::ArrayQueue;
use ferrule_base::{PortId, VrfId};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Octets from the start of a chunk to a fresh frame: room for every header that a node
/// puts in front, and the octets that AF_XDP leaves free there.
pub const HEAD_ROOM: usize = 256;

/// Chunks that a cache keeps at most before it gives half of them back, unless
/// the pool says otherwise.
const CACHE_MAX: usize = 512;

/// Metadata of a packet. Each field means one thing, wherever it is read;
/// which stage sets it stands in `ferrule_dataplane::graph`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Meta {
    /// Adjacency by which an IP packet or label stack leaves.
    pub adjacency: u32,
    /// Outbound SA that is to protect the packet.
    pub sa: u32,
    /// Inbound SA that the packet came out of.
    pub opened: u32,
    /// Hash over the flow, for sharing among workers and paths; 0: not computed.
    pub hash: u32,
    /// Port of arrival; of a finished frame, the port by which it leaves.
    pub port: PortId,
    /// Routing table.
    pub vrf: VrfId,
    /// Logical interface of arrival.
    pub iface: u16,
    /// EtherType of the first header in the data, once Ethernet is off.
    pub ethertype: u16,
    /// Offset of the transport header, or of the field that an ICMP error points at.
    pub offset: u16,
    /// Pseudowire, by number.
    pub pw: u16,
    /// Type (upper octet) and code of the ICMP error to be sent about the packet.
    pub icmp: u16,
    /// Octets that a packet on its path may have: told by an ICMP error, or cut to.
    pub limit: u16,
    /// Slot of the link header that a card keeps for the packet.
    pub link: u16,
    /// Number of times the packet was sent back to an earlier stage.
    pub turns: u8,
    /// Bits, see `ferrule_dataplane::graph`.
    pub flags: u8,
}

/// Position and length of the frame in its chunk. One word, so that both are always stored
/// and loaded together.
#[derive(Clone, Copy)]
struct Extent(u32);

impl Extent {
    const FRESH: Self = Self::new(HEAD_ROOM, 0);

    /// Both below 64 KiB.
    #[inline]
    const fn new(head: usize, len: usize) -> Self {
        Self(head as u32 | (len as u32) << 16)
    }

    #[inline]
    const fn head(self) -> usize {
        (self.0 & 0xffff) as usize
    }

    #[inline]
    const fn len(self) -> usize {
        (self.0 >> 16) as usize
    }
}

#[repr(C, align(64))]
struct Header {
    shared: NonNull<Shared>,
    chunk: *mut u8,
    extent: Extent,
    index: u32,
    /// Octets of the chunk.
    size: u16,
    /// Stage at which the packet goes on at another worker.
    stage: u8,
    meta: Meta,
}

const _: () = assert!(size_of::<Header>() == 64);

/// A piece of memory for a pool.
pub struct Region {
    base: NonNull<u8>,
    len: usize,
    release: Option<Box<dyn FnOnce(*mut u8, usize) + Send + Sync>>,
}

// SAFETY: a region is plain memory; the ownership of chunk numbers settles which thread may
// touch which chunk.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Zeroed memory from the allocator, aligned to 4 KiB.
    pub fn heap(len: usize) -> Self {
        assert!(len > 0, "a region has a size");
        let layout = Layout::from_size_align(len, 4096).expect("a sane size");
        // SAFETY: the layout's size is not zero.
        let Some(base) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
            handle_alloc_error(layout)
        };
        // SAFETY: the same pointer and layout as above.
        let release = move |p: *mut u8, _| unsafe { dealloc(p, layout) };
        Self { base, len, release: Some(Box::new(release)) }
    }

    /// Memory that the caller mapped.
    ///
    /// # Safety
    /// `len` zeroed octets at `base`, aligned to 4 KiB, are readable, writable
    /// and used by nobody else until `release` is called.
    pub unsafe fn mapped(
        base: NonNull<u8>,
        len: usize,
        release: impl FnOnce(*mut u8, usize) + Send + Sync + 'static,
    ) -> Self {
        assert_eq!(base.as_ptr() as usize % 4096, 0);
        Self { base, len, release: Some(Box::new(release)) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release(self.base.as_ptr(), self.len);
        }
    }
}

/// Number of owners of a pool's memory (see the module). In cache lines of its own: threads
/// that drop packets change it, and those that take them read the fields beside it.
#[repr(align(128))]
struct Owners(AtomicUsize);

/// Memory shared by the handles and packets of a pool. It is reached through one
/// pointer and copies of that, and never through a reference that could change it.
struct Shared {
    region: Region,
    /// One for each chunk; reached through pointers alone.
    headers: NonNull<[Header]>,
    chunk: usize,
    chunks: usize,
    cache_max: AtomicUsize,
    free: ArrayQueue<u32>,
    owners: Owners,
}

impl Shared {
    #[inline]
    fn header(&self, index: u32) -> NonNull<Header> {
        assert!((index as usize) < self.chunks);
        // SAFETY: in bounds by the line above.
        unsafe { self.headers.cast::<Header>().add(index as usize) }
    }

    /// Takes `count` owners away; the last ones take the pool with them. By pointer: as
    /// soon as they are taken away another thread may free the memory behind it, and a
    /// reference given to a function has to be good until the function is over.
    ///
    /// # Safety
    /// They were the caller's, and nothing is reached any more on their behalf.
    unsafe fn leave(shared: NonNull<Self>, count: usize) {
        // SAFETY: the owners that are to be taken away keep it until they are.
        let owners = unsafe { &(*shared.as_ptr()).owners.0 };
        // Accesses of each owner happen before this, and freeing happens after all of them.
        if owners.fetch_sub(count, Ordering::AcqRel) == count {
            // SAFETY: it is the pointer of the box in `Pool::new`, and no other copy of it
            // is used any more.
            drop(unsafe { Box::from_raw(shared.as_ptr()) });
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it came from a leaked box, and no packet is left.
        drop(unsafe { Box::from_raw(self.headers.as_ptr()) });
    }
}

/// A node's packet memory. Clones are handles to the same pool.
pub struct Pool(NonNull<Shared>);

// SAFETY: `Shared` is only read, but for its queue and counters, which are atomic; the
// thread that ends it may be any, as all that it holds may be dropped by any.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// Cuts `region` into chunks of `chunk` octets: a multiple of 64, more than
    /// [`HEAD_ROOM`], less than 64 KiB.
    pub fn new(region: Region, chunk: usize) -> Self {
        assert!(chunk > HEAD_ROOM && chunk < 1 << 16 && chunk.is_multiple_of(64));
        let chunks = region.len / chunk;
        assert!(chunks > 0 && chunks < u32::MAX as usize);
        let base = region.base;
        // The headers point to it, so that it has its place before it has its contents.
        let shared = NonNull::from(Box::leak(Box::<Shared>::new_uninit())).cast::<Shared>();
        let header = |index: usize| Header {
            shared,
            // SAFETY: within the region, as there are this many chunks.
            chunk: unsafe { base.add(index * chunk) }.as_ptr(),
            extent: Extent::FRESH,
            index: index as u32,
            size: chunk as u16,
            stage: 0,
            meta: Meta::default(),
        };
        let headers: Box<[Header]> = (0..chunks).map(header).collect();
        let free = ArrayQueue::new(chunks);
        for index in 0..chunks as u32 {
            free.push(index).expect("one place for each chunk");
        }
        let contents = Shared {
            region,
            headers: NonNull::from(Box::leak(headers)),
            chunk,
            chunks,
            cache_max: AtomicUsize::new(CACHE_MAX),
            free,
            owners: Owners(AtomicUsize::new(1)),
        };
        // SAFETY: its place was made above, and is not known elsewhere yet.
        unsafe { shared.write(contents) };
        Self(shared)
    }

    /// A pool of `chunks` chunks on the heap, of at least `chunk` octets: one
    /// cache line more, so that not all frames begin in the same few sets of the
    /// cache. (AF_XDP needs a power of two.)
    pub fn heap(chunks: usize, chunk: usize) -> Self {
        let chunk = if chunk.is_power_of_two() { chunk + 64 } else { chunk };
        Self::new(Region::heap(chunks * chunk), chunk)
    }

    fn shared(&self) -> &Shared {
        // SAFETY: it lives as long as one handle does.
        unsafe { self.0.as_ref() }
    }

    /// A worker's own stock of free chunks.
    pub fn cache(&self) -> PoolCache {
        let max = self.shared().cache_max.load(Ordering::Relaxed);
        PoolCache { pool: self.clone(), free: Vec::with_capacity(max), max }
    }

    /// Caches made from now on keep `max` chunks at most (4 at least): where a thousand
    /// nodes share a pool, no cache may hoard chunks that others wait for.
    pub fn limit_caches(&self, max: usize) {
        self.shared().cache_max.store(max.max(4), Ordering::Relaxed);
    }

    /// True if the packet belongs to this pool.
    pub fn owns(&self, packet: &Packet) -> bool {
        packet.header().shared == self.0
    }

    /// Chunks in all.
    pub fn chunks(&self) -> usize {
        self.shared().chunks
    }

    /// Octets of one chunk.
    pub fn chunk_size(&self) -> usize {
        self.shared().chunk
    }

    /// Chunks on the shared free list; those in caches are not counted.
    pub fn free(&self) -> usize {
        self.shared().free.len()
    }

    /// Start and size of the region, to register it with the kernel.
    pub fn region(&self) -> (NonNull<u8>, usize) {
        (self.shared().region.base, self.shared().region.len)
    }

    /// Takes back a chunk that [`Packet::into_chunk`] gave away, with the frame
    /// at `head..head + len` in it.
    ///
    /// # Safety
    /// The number came from `into_chunk` of a packet of this pool, is taken
    /// back once, and no other user (the kernel included) has the chunk any more.
    pub unsafe fn from_chunk(&self, index: u32, head: usize, len: usize) -> Packet {
        assert!(head + len <= self.chunk_size());
        let mut packet = Packet(self.shared().header(index));
        let header = packet.header_mut();
        header.extent = Extent::new(head, len);
        header.meta = Meta::default();
        packet
    }
}

impl Clone for Pool {
    fn clone(&self) -> Self {
        // Nothing follows from it: the handle that it is made of stays.
        self.shared().owners.0.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: this handle was an owner, and is gone.
        unsafe { Shared::leave(self.0, 1) };
    }
}

/// A worker's own stock of free chunks: no atomics as long as it neither runs
/// dry nor over.
pub struct PoolCache {
    pool: Pool,
    free: Vec<u32>,
    max: usize,
}

impl PoolCache {
    /// An empty packet with [`HEAD_ROOM`] in front, or nothing when the pool is
    /// used up.
    #[inline]
    pub fn packet(&mut self) -> Option<Packet> {
        if self.free.is_empty() {
            self.refill();
        }
        let index = self.free.pop()?;
        let mut packet = Packet(self.pool.shared().header(index));
        let header = packet.header_mut();
        header.extent = Extent::FRESH;
        header.meta = Meta::default();
        Some(packet)
    }

    /// A packet with these octets.
    #[inline]
    pub fn packet_from(&mut self, octets: &[u8]) -> Option<Packet> {
        let mut packet = self.packet()?;
        packet.append(octets.len())?.copy_from_slice(octets);
        Some(packet)
    }

    /// A copy of the octets and the metadata.
    pub fn copy_of(&mut self, packet: &Packet) -> Option<Packet> {
        let mut copy = self.packet_from(packet.data())?;
        *copy.meta_mut() = *packet.meta();
        Some(copy)
    }

    /// Takes a spent packet back. (Dropping it does the same, more slowly.)
    #[inline]
    pub fn recycle(&mut self, packet: Packet) {
        if !self.pool.owns(&packet) {
            return drop(packet);
        }
        self.free.push(packet.into_chunk());
        if self.free.len() >= self.max {
            self.spill(self.max / 2);
        }
    }

    /// The pool behind.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    #[cold]
    fn refill(&mut self) {
        let shared = self.pool.shared();
        self.free.extend(std::iter::from_fn(|| shared.free.pop()).take(self.max / 4));
        // Before any of them is handed out; until then the local handle keeps the pool.
        shared.owners.0.fetch_add(self.free.len(), Ordering::Relaxed);
    }

    #[cold]
    fn spill(&mut self, keep: usize) {
        let (shared, count) = (self.pool.shared(), self.free.len() - keep);
        for index in self.free.drain(keep..) {
            shared.free.push(index).expect("one place for each chunk");
        }
        // SAFETY: these chunks were owners, and are on the free list.
        unsafe { Shared::leave(self.pool.0, count) };
    }
}

impl Drop for PoolCache {
    fn drop(&mut self) {
        self.spill(0);
    }
}

/// One packet, the only owner of its chunk.
pub struct Packet(NonNull<Header>);

// SAFETY: the chunk has one owner, so it may move to another thread.
unsafe impl Send for Packet {}
// SAFETY: through `&Packet` the chunk is only read.
unsafe impl Sync for Packet {}

impl Packet {
    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: we own the chunk; its header was written by `Pool::new`.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn header_mut(&mut self) -> &mut Header {
        // SAFETY: as above, and `&mut self` makes it the only access.
        unsafe { self.0.as_mut() }
    }

    /// Octets of its chunk, head room included.
    #[inline]
    pub fn chunk_size(&self) -> usize {
        self.header().size.into()
    }

    /// The octets.
    #[inline]
    pub fn data(&self) -> &[u8] {
        let h = self.header();
        // SAFETY: head and length stay within the chunk (every function here
        // keeps that), which we own and which was zeroed at first.
        unsafe { std::slice::from_raw_parts(h.chunk.add(h.extent.head()), h.extent.len()) }
    }

    /// The octets, to change.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let h = self.header();
        // SAFETY: as in `data`, and `&mut self` makes it the only access.
        unsafe { std::slice::from_raw_parts_mut(h.chunk.add(h.extent.head()), h.extent.len()) }
    }

    /// Number of octets in the frame.
    #[inline]
    pub fn len(&self) -> usize {
        self.header().extent.len()
    }

    /// No octets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The packet's metadata.
    #[inline]
    pub fn meta(&self) -> &Meta {
        &self.header().meta
    }

    /// The packet's metadata, to be changed.
    #[inline]
    pub fn meta_mut(&mut self) -> &mut Meta {
        &mut self.header_mut().meta
    }

    /// Number of the stage at which the packet goes on at another worker.
    #[inline]
    pub fn stage(&self) -> u8 {
        self.header().stage
    }

    /// Sets the stage at which the packet goes on at another worker.
    #[inline]
    pub fn set_stage(&mut self, stage: u8) {
        self.header_mut().stage = stage;
    }

    /// Metadata and octets, both to be changed.
    #[inline]
    pub fn split(&mut self) -> (&mut Meta, &mut [u8]) {
        let h = self.header_mut();
        // SAFETY: as in `data_mut`; the metadata stands beside the chunks, so the two do
        // not overlap.
        let data =
            unsafe { std::slice::from_raw_parts_mut(h.chunk.add(h.extent.head()), h.extent.len()) };
        (&mut h.meta, data)
    }

    /// Octets free in front.
    #[inline]
    pub fn head_room(&self) -> usize {
        self.header().extent.head()
    }

    /// Octets free behind.
    #[inline]
    pub fn tail_room(&self) -> usize {
        self.chunk_size() - self.header().extent.head() - self.len()
    }

    /// Takes `count` octets off the front; false (and nothing done) if there
    /// are not as many.
    #[inline]
    pub fn strip(&mut self, count: usize) -> bool {
        let h = self.header_mut();
        let (head, len) = (h.extent.head(), h.extent.len());
        let fits = count <= len;
        if fits {
            h.extent = Extent::new(head + count, len - count);
        }
        fits
    }

    /// Puts `count` octets in front and returns them, with their old contents. Nothing if
    /// there is no room.
    #[inline]
    pub fn prepend(&mut self, count: usize) -> Option<&mut [u8]> {
        let h = self.header_mut();
        let (head, len) = (h.extent.head(), h.extent.len());
        h.extent = Extent::new(head.checked_sub(count)?, len + count);
        Some(&mut self.data_mut()[..count])
    }

    /// Puts `N` octets in front and returns them, with their old contents. Nothing if there
    /// is no room.
    #[inline(always)]
    pub fn front<const N: usize>(&mut self) -> Option<&mut [u8; N]> {
        self.prepend(N)?.first_chunk_mut()
    }

    /// Puts `count` octets behind and returns them, with their old contents. Nothing if
    /// there is no room.
    #[inline]
    pub fn append(&mut self, count: usize) -> Option<&mut [u8]> {
        if count > self.tail_room() {
            return None;
        }
        let h = self.header_mut();
        let (head, old) = (h.extent.head(), h.extent.len());
        h.extent = Extent::new(head, old + count);
        Some(&mut self.data_mut()[old..])
    }

    /// Puts octets in front and behind at once, and returns all there are now; the new ones
    /// have their old contents. Nothing if there is no room for both.
    #[inline(always)]
    pub fn grow(&mut self, front: usize, behind: usize) -> Option<&mut [u8]> {
        let h = self.header_mut();
        let (head, len) = (h.extent.head().checked_sub(front)?, front + h.extent.len() + behind);
        if head + len > usize::from(h.size) {
            return None;
        }
        h.extent = Extent::new(head, len);
        Some(self.data_mut())
    }

    /// Cuts the packet down to `len` octets and puts `FRONT` in front of them and `behind`
    /// behind: those in front, and the first `TAIL` behind, with their old contents. Nothing,
    /// and nothing done, if the packet is shorter, `behind` is less than `TAIL`, or there is
    /// no room.
    #[inline(always)]
    pub fn wrap<const FRONT: usize, const TAIL: usize>(
        &mut self,
        len: usize,
        behind: u16,
    ) -> Option<(&mut [u8; FRONT], &mut [u8; TAIL])> {
        let h = self.header_mut();
        let (head, behind) = (h.extent.head(), usize::from(behind));
        let from = head.checked_sub(FRONT)?;
        if len > h.extent.len() || behind < TAIL || head + len + behind > usize::from(h.size) {
            return None;
        }
        h.extent = Extent::new(from, FRONT + len + behind);
        // SAFETY: by the line above both lie within the chunk, which we own; there are `len`
        // octets between them.
        unsafe { Some((&mut *h.chunk.add(from).cast(), &mut *h.chunk.add(head + len).cast())) }
    }

    /// Cuts the packet down to `len` octets; longer stays as it is.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        let h = self.header_mut();
        h.extent = Extent::new(h.extent.head(), h.extent.len().min(len));
    }

    /// Cuts the packet down to the octets from `from` to `end`, which is not one of them; false
    /// (and nothing done) if it has not all of them.
    #[inline]
    pub fn keep(&mut self, from: usize, end: usize) -> bool {
        let h = self.header_mut();
        let (head, len) = (h.extent.head(), h.extent.len());
        let fits = from <= end && end <= len;
        if fits {
            h.extent = Extent::new(head + from, end - from);
        }
        fits
    }

    /// Makes it a fresh packet of `len` octets, as if just received, with their old
    /// contents. A longer one than the chunk is cut.
    #[inline]
    pub fn renew(&mut self, len: usize) {
        let len = len.min(self.chunk_size() - HEAD_ROOM);
        let h = self.header_mut();
        h.extent = Extent::new(HEAD_ROOM, len);
        h.meta = Meta::default();
    }

    /// Gives the chunk away, to a ring that the kernel reads. [`Pool::from_chunk`]
    /// takes it back; until then the number is all there is.
    #[inline]
    pub fn into_chunk(self) -> u32 {
        let index = self.header().index;
        std::mem::forget(self);
        index
    }

    /// Offset of the first octet in the pool's region.
    #[inline]
    pub fn region_offset(&self) -> usize {
        let h = self.header();
        h.index as usize * self.chunk_size() + h.extent.head()
    }
}

impl AsRef<[u8]> for Packet {
    fn as_ref(&self) -> &[u8] {
        self.data()
    }
}

impl AsMut<[u8]> for Packet {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        self.data_mut()
    }
}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packet({} octets, {:?})", self.len(), self.meta())
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        let Header { shared, index, .. } = *self.header();
        // SAFETY: the chunk is an owner, so the pool stays until the count is down.
        let free = unsafe { &(*shared.as_ptr()).free };
        free.push(index).expect("one place for each chunk");
        // SAFETY: the chunk was an owner, and is on the free list; from there on its header
        // is another's, and is not read.
        unsafe { Shared::leave(shared, 1) };
    }
}

mod prefetch;
#[cfg(test)]
mod tests;

pub use prefetch::{AHEAD, NEAR_MAX, prefetch, prefetch_at, prefetch_slice};
