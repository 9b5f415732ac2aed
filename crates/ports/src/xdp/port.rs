//! One AF_XDP socket as a port.
//!
//! A call that receives takes back chunks that were sent, takes frames off the receive
//! ring, and puts as many fresh chunks on the fill ring. One that sends takes back chunks
//! that were sent, puts frames on the transmit ring, and makes one system call.
//!
//! [`Lent`] remembers the chunks that the kernel has, and their purpose.

use super::lent::{FRAME_MIN, Lent};
use super::ring::{Consumer, Producer};
use super::{Bound, Program, Umem, XdpOpened};
use crate::checksum;
use crate::error::{Doing, OpenError};
use crate::link::{Link, Watch};
use crate::sys::{check, get, patiently, rcu_barrier, set};
use ferrule_base::{Duration, Instant};
use ferrule_pipeline::{Batch, Packet, PoolCache, Port, PortStats};
use libc::SOL_XDP;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Entries of a ring at most.
const RING_MAX: usize = 1 << 14;
/// System calls per batch at most: the kernel may stop early at each.
const KICKS_MAX: usize = 4;
/// Time before the next attempt after frames stayed on the transmit ring.
const RETRY: Duration = Duration::from_millis(1);
/// Frames that one system call may send (the kernel's default is 32).
const TX_BUDGET: u32 = 256;
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;
struct Rings {
    fill: Producer<u64>,
    done: Consumer<u64>,
    rx: Consumer<libc::xdp_desc>,
    tx: Producer<libc::xdp_desc>,
}

/// An AF_XDP port.
pub struct XdpPort {
    /// Always there until `drop` unmaps them.
    rings: Option<Rings>,
    socket: RawFd,
    umem: Umem,
    program: Arc<Program>,
    queue: u32,
    watch: Watch,
    lent: Lent,
    budget: usize,
    ring: usize,
    /// Checksums may arrive unfinished: the far end is this very machine.
    finish: bool,
    retry: Option<Instant>,
    stats: PortStats,
}

impl XdpPort {
    /// Registers the memory if no other socket has, makes the rings, binds, and
    /// lets the frames come.
    pub fn new(opened: XdpOpened, umem: &Umem) -> Result<Self, OpenError> {
        let XdpOpened { socket, program, link, queue, budget } = opened;
        let chunk = umem.pool.chunk_size();
        if !matches!(chunk, 2048 | 4096) {
            return Err(OpenError::unsupported(
                format!("AF_XDP wants chunks of 2048 or 4096 octets, the pool has {chunk}"),
                "Choose driver = \"af-packet\" for jumbo frames.",
            ));
        }
        let ring = budget.clamp(1, RING_MAX).next_power_of_two();
        let memory = || format!("AF_XDP memory and rings for {}", link.name);
        let registers = umem.bound().is_empty();
        if registers {
            register(socket.as_raw_fd(), umem).doing(memory)?;
        }
        let rings = set_up(&socket, ring).doing(memory)?;
        let mut port = Self {
            rings: Some(rings),
            watch: Watch::new(&link.name, link.index, socket.as_raw_fd())?,
            socket: socket.into_raw_fd(),
            umem: umem.clone(),
            program,
            queue,
            lent: Lent::new(&umem.pool),
            budget: budget.clamp(1, RING_MAX),
            ring,
            finish: link.is_memory(),
            retry: None,
            stats: PortStats::default(),
        };
        port.fill(&mut umem.pool.cache());
        port.join(&link, registers).map_err(|e| {
            let no_queue = e.raw_os_error() == Some(libc::EINVAL);
            let error = OpenError::os(format!("binding AF_XDP to {} queue {queue}", link.name), e);
            match no_queue {
                true => error.remedy(format!(
                    "Each queue needs one to receive and one to send: `ethtool -l {}` has how \
                     many there are. Add some, or take a queue, or workers, that it has.",
                    link.name
                )),
                false => error,
            }
        })?;
        port.program
            .insert(queue, port.socket)
            .doing(|| format!("the map entry for {} queue {queue}", link.name))?;
        Ok(port)
    }

    /// Binds, with memory of its own if it `registered` some, else with that of the first
    /// bound socket. The lock is released while it waits for a queue to be free: the port
    /// that frees the queue by closing needs the lock, and may be the first.
    fn join(&self, link: &Link, mut registered: bool) -> io::Result<()> {
        let (socket, queue) = (self.socket, self.queue);
        patiently(|| {
            let mut bound = self.umem.bound();
            // With a queue's own socket the kernel would share more than memory.
            if bound.iter().any(|b| (b.link, b.queue) == (link.index, queue)) {
                return Err(io::Error::from_raw_os_error(libc::EBUSY));
            }
            let first = bound.first().map(|b| b.socket).filter(|_| !registered);
            if first.is_none() && !registered {
                register(socket, &self.umem)?;
                registered = true;
            }
            bind(socket, link, queue, first)?;
            bound.push(Bound { socket, link: link.index, queue });
            Ok(())
        })
    }

    fn rings(&mut self) -> &mut Rings {
        self.rings.as_mut().expect("there until drop")
    }

    /// Puts fresh chunks on the fill ring, up to the budget.
    fn fill(&mut self, cache: &mut PoolCache) {
        let room = self.rings().fill.room() as usize;
        for _ in 0..room.min(self.budget - self.lent.filling()) {
            // The kernel may have chunks of the registered memory only.
            let Some(address) = cache.packet().and_then(|packet| self.lent.fill(packet)) else {
                break;
            };
            self.rings().fill.write(address);
        }
        let (socket, rings) = (self.socket, self.rings());
        if rings.fill.publish() != 0 && rings.fill.needs_wakeup() {
            // SAFETY: no memory is named. The call tells the driver to look; its result has
            // no use here.
            unsafe {
                let nothing = std::ptr::null_mut();
                libc::recvfrom(
                    socket,
                    nothing,
                    0,
                    libc::MSG_DONTWAIT,
                    nothing.cast(),
                    nothing.cast(),
                )
            };
        }
    }

    /// Takes back the chunks of frames that were sent.
    fn reap(&mut self, cache: &mut PoolCache) {
        let count = self.rings().done.available();
        for _ in 0..count {
            let address = self.rings().done.read();
            if let Some(packet) = self.lent.sent(address) {
                cache.recycle(packet);
            }
        }
        if count != 0 {
            self.rings().done.release();
        }
    }

    /// Puts one frame on the transmit ring, for which there is room.
    fn post(&mut self, packet: Packet, cache: &mut PoolCache) {
        let packet = if self.umem.pool.owns(&packet) {
            Some(packet)
        } else {
            cache.copy_of(&packet).filter(|copy| self.umem.pool.owns(copy))
        };
        let frame = packet.filter(|p| p.len() >= FRAME_MIN);
        let len = frame.as_ref().map_or(0, Packet::len);
        let Some(addr) = frame.and_then(|frame| self.lent.send(frame)) else {
            self.stats.tx_failed += 1;
            return;
        };
        self.stats.tx.add(len);
        self.rings().tx.write(libc::xdp_desc { addr, len: len as u32, options: 0 });
    }

    /// Has the kernel send the frames on the transmit ring.
    fn kick(&mut self, now: Instant) {
        self.retry = None;
        for _ in 0..KICKS_MAX {
            let socket = self.socket;
            let tx = &self.rings().tx;
            if tx.in_ring() == 0 {
                return;
            }
            if tx.needs_wakeup() {
                // SAFETY: no memory is named.
                let sent = check_send(unsafe {
                    let nothing = std::ptr::null();
                    libc::sendto(socket, nothing, 0, libc::MSG_DONTWAIT, nothing.cast(), 0)
                });
                if !sent {
                    break;
                }
            }
        }
        if self.rings().tx.in_ring() != 0 {
            self.retry = Some(now + RETRY);
        }
    }

    fn close(&mut self) {
        // A socket that never got into the map is not in it: no harm.
        let _ = self.program.remove(self.queue);
        rcu_barrier();
        let mut bound = self.umem.bound();
        bound.retain(|b| b.socket != self.socket);
        // The mappings keep the socket alive: first they, then the descriptor.
        self.rings = None;
        // SAFETY: the descriptor is ours and not used again.
        drop(unsafe { OwnedFd::from_raw_fd(self.socket) });
        drop(bound);
        let mut cache = self.umem.pool.cache();
        self.lent.take_all(&mut cache);
    }
}

/// True if another attempt can help: the kernel stopped early, or dropped a frame and can
/// go on.
fn check_send(result: libc::ssize_t) -> bool {
    result >= 0
        || matches!(
            io::Error::last_os_error().raw_os_error(),
            Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR)
        )
}

/// Registers the pool's memory with a socket.
fn register(socket: RawFd, umem: &Umem) -> io::Result<()> {
    let (base, len) = umem.pool.region();
    let chunk = umem.pool.chunk_size();
    let memory = libc::xdp_umem_reg {
        addr: base.as_ptr() as u64,
        len: (len - len % chunk) as u64,
        chunk_size: chunk as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    set(&socket, SOL_XDP, libc::XDP_UMEM_REG, &memory)
}

fn set_up(socket: &OwnedFd, ring: usize) -> io::Result<Rings> {
    let fd = socket.as_raw_fd();
    let size = ring as u32;
    for name in [
        libc::XDP_UMEM_FILL_RING,
        libc::XDP_UMEM_COMPLETION_RING,
        libc::XDP_RX_RING,
        libc::XDP_TX_RING,
    ] {
        set(socket, SOL_XDP, name, &size)?;
    }
    // A help only, which older kernels do not know.
    let _ = set(socket, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &TX_BUDGET.min(size));
    // SAFETY: plain numbers.
    let at: libc::xdp_mmap_offsets = unsafe { get(fd, SOL_XDP, libc::XDP_MMAP_OFFSETS)? };
    Ok(Rings {
        fill: Producer::map(fd, size, libc::XDP_UMEM_PGOFF_FILL_RING as i64, &at.fr)?,
        done: Consumer::map(fd, size, libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64, &at.cr)?,
        rx: Consumer::map(fd, size, libc::XDP_PGOFF_RX_RING, &at.rx)?,
        tx: Producer::map(fd, size, libc::XDP_PGOFF_TX_RING, &at.tx)?,
    })
}

/// Binds; a socket that shares takes copy mode and wake-ups from the first.
fn bind(socket: RawFd, link: &Link, queue: u32, first: Option<RawFd>) -> io::Result<()> {
    let alone = libc::XDP_COPY | libc::XDP_USE_NEED_WAKEUP;
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: if first.is_some() { libc::XDP_SHARED_UMEM } else { alone },
        sxdp_ifindex: link.index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: first.unwrap_or(0) as u32,
    };
    let (at, len) = (&raw const address, size_of::<libc::sockaddr_xdp>() as libc::socklen_t);
    // SAFETY: a live address of its own kind.
    check(unsafe { libc::bind(socket, at.cast(), len) }).map(drop)
}

impl Port for XdpPort {
    fn receive(&mut self, now: Instant, cache: &mut PoolCache, batch: &mut Batch) {
        self.watch.refresh(now);
        self.reap(cache);
        if self.retry.is_some() {
            self.kick(now);
        }
        let room = batch.capacity() - batch.len();
        let count = room.min(self.rings().rx.available() as usize);
        for _ in 0..count {
            let desc = self.rings().rx.read();
            let frame = self.lent.received(desc.addr, desc.len, desc.options);
            let Some(mut packet) = frame else {
                self.stats.rx_missed += 1;
                self.stats.missed.invalid += 1;
                continue;
            };
            if self.finish {
                checksum::finish_if_left(packet.data_mut());
            }
            self.stats.rx.add(packet.len());
            batch.push(packet);
        }
        if count != 0 {
            self.rings().rx.release();
        }
        if self.lent.filling() < self.budget {
            self.fill(cache);
        }
    }

    fn transmit(&mut self, now: Instant, cache: &mut PoolCache, batch: &mut Batch) {
        self.reap(cache);
        if !self.watch.may_send() {
            self.stats.tx_failed += batch.len() as u64;
            return batch.drain(..).for_each(|packet| cache.recycle(packet));
        }
        let room = (self.ring - self.lent.sending()).min(self.rings().tx.room() as usize);
        for packet in batch.drain(..room.min(batch.len())) {
            self.post(packet, cache);
        }
        self.rings().tx.publish();
        self.kick(now);
    }

    fn stats(&self) -> PortStats {
        // SAFETY: plain numbers.
        let kernel: io::Result<libc::xdp_statistics> =
            unsafe { get(self.socket, SOL_XDP, libc::XDP_STATISTICS) };
        let Ok(kernel) = kernel else { return self.stats };
        // In copy mode a frame is dropped for one of two reasons: no buffer on the fill
        // ring, which is counted there too, or one that is shorter than the frame.
        let mut stats = self.stats;
        stats.rx_missed += kernel.rx_dropped + kernel.rx_ring_full;
        stats.missed.ring_full += kernel.rx_ring_full;
        stats.missed.no_buffer += kernel.rx_fill_ring_empty_descs.min(kernel.rx_dropped);
        stats.missed.too_long += kernel.rx_dropped.saturating_sub(kernel.rx_fill_ring_empty_descs);
        stats.tx_failed += kernel.tx_invalid_descs;
        stats
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.retry
    }

    fn wait_fd(&self) -> Option<i32> {
        Some(self.socket)
    }

    fn is_up(&self) -> bool {
        self.watch.is_up()
    }
}

impl Drop for XdpPort {
    fn drop(&mut self) {
        self.close();
    }
}
