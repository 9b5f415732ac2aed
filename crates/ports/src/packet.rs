//! AF_PACKET: works on every interface, also where XDP does not, and takes
//! jumbo frames.
//!
//! Receiving uses a TPACKET_V2 ring: a frame can be read as soon as it is there (TPACKET_V3
//! waits for its block to fill or for a timer of a millisecond or more, which would show in
//! every round trip). In front of each frame stands a virtio-net header that describes the
//! unfinished parts; the port finishes them. Frames larger than a slot, super-frames
//! mostly, come through the socket instead, in their place. The kernel takes VLAN tags out
//! of frames; they are put back.
//!
//! The host's own stack sees the frames as well: the interface should have no
//! address there, or two answer.
//!
//! Sending is one `sendmmsg` per batch past the queueing discipline, on a
//! second socket that receives nothing.
//!
//! Making the sockets needs CAP_NET_RAW ([`PacketOpened`]); ring, promiscuous
//! mode and bind then need nothing ([`PacketPort`]).

use crate::error::{Doing, OpenError};
use crate::link::{Link, Watch};
use crate::offload::{SUPER_FRAME_MAX, Segmenter, Tag, VNET_LEN, VnetHeader, restore_tag};
use crate::sys::{Map, check, check_len, enlarge, get, set, socket};
use ferrule_base::Instant;
use ferrule_pipeline::{BATCH, Batch, Packet, PoolCache, Port, PortStats};
use libc::SOL_PACKET;
use std::cell::Cell;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

const PACKET_ADD_MEMBERSHIP: i32 = 1;
const PACKET_RX_RING: i32 = 5;
const PACKET_STATISTICS: i32 = 6;
const PACKET_COPY_THRESH: i32 = 7;
const PACKET_VERSION: i32 = 10;
const PACKET_VNET_HDR: i32 = 15;
const PACKET_QDISC_BYPASS: i32 = 20;
const PACKET_IGNORE_OUTGOING: i32 = 23;
const PACKET_MR_PROMISC: u16 = 1;
const TPACKET_V2: i32 = 1;

const STATUS_KERNEL: u32 = 0;
const STATUS_USER: u32 = 1;
const STATUS_COPY: u32 = 1 << 1;
const STATUS_VLAN: u32 = 1 << 4;
const STATUS_TPID: u32 = 1 << 6;

/// Octets of the receive ring.
const RING_OCTETS: usize = 4 << 20;
/// A slot for frames up to 1.8 KiB, and the largest slot.
const SLOT_MIN: usize = 2048;
const SLOT_MAX: usize = 16384;
/// Octets of a slot that are not frame: header, address, virtio-net header.
const SLOT_HEADER: usize = 128;
/// Calls in a row that the wire may refuse before the frames are dropped.
const REFUSALS_MAX: u32 = 16;

/// `struct tpacket2_hdr`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Slot {
    status: u32,
    len: u32,
    captured: u32,
    mac: u16,
    net: u16,
    sec: u32,
    nsec: u32,
    vlan_tci: u16,
    vlan_tpid: u16,
    _pad: [u8; 4],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RingRequest {
    block_size: u32,
    blocks: u32,
    frame_size: u32,
    frames: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Statistics {
    packets: u32,
    drops: u32,
}

/// The privileged part of an AF_PACKET port: its sockets.
#[derive(Debug)]
pub struct PacketOpened {
    pub(crate) rx: OwnedFd,
    pub(crate) tx: OwnedFd,
    pub(crate) link: Link,
}

impl PacketOpened {
    /// Two sockets that receive nothing yet.
    pub fn new(link: Link) -> Result<Self, OpenError> {
        link.require_up()?;
        let make = |from: Option<u32>| {
            let made = socket(libc::AF_PACKET, libc::SOCK_RAW, 0).and_then(|made| {
                enlarge(&made);
                receive_from(&made, from).map(|()| made)
            });
            made.doing(|| format!("an AF_PACKET socket for {}", link.name))
        };
        Ok(Self { rx: make(Some(link.index))?, tx: make(None)?, link })
    }

    /// The sockets from descriptors that another process made: for receiving, for sending.
    pub fn from_fds(link: Link, rx: OwnedFd, tx: OwnedFd) -> Self {
        Self { rx, tx, link }
    }
}

/// Lets a socket receive from one interface, or from none, even if it is bound to another
/// later.
fn receive_from(fd: &OwnedFd, interface: Option<u32>) -> io::Result<()> {
    let step = |code: u32, jf, k| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let ret = |len| step(libc::BPF_RET | libc::BPF_K, 0, len);
    let ifindex = (libc::SKF_AD_OFF + libc::SKF_AD_IFINDEX) as u32;
    let (whole, nothing) = (u32::MAX, 0);
    let mut program = match interface {
        Some(index) => vec![
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, ifindex),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, index),
            ret(whole),
            ret(nothing),
        ],
        None => vec![ret(nothing)],
    };
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)?;
    set(fd, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, &1i32)
}

/// The receive ring: slots of one size, taken in turn.
struct Ring {
    map: Map,
    slot: usize,
    next: usize,
}

impl Ring {
    /// The next slot's status word, shared with the kernel.
    fn status(&self) -> &AtomicU32 {
        // SAFETY: within the ring, see `advance`; slots are aligned.
        unsafe { self.map.base().add(self.next * self.slot).cast().as_ref() }
    }

    /// The next slot, which is ours: its header and its octets.
    fn slot(&self) -> (Slot, &[u8]) {
        // SAFETY: within the ring; the kernel does not touch a slot while its
        // status says that it is ours. Any bits are a valid header.
        unsafe {
            let base = self.map.base().add(self.next * self.slot);
            (base.cast::<Slot>().read(), std::slice::from_raw_parts(base.as_ptr(), self.slot))
        }
    }

    /// Gives the slot back to the kernel and goes to the next one.
    fn advance(&mut self) {
        self.status().store(STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % (self.map.len() / self.slot);
    }
}

/// An AF_PACKET port.
pub struct PacketPort {
    rx: OwnedFd,
    tx: OwnedFd,
    ring: Ring,
    watch: Watch,
    segmenter: Segmenter,
    looked: Instant,
    refusals: u32,
    stats: PortStats,
    /// Frames that the kernel had no room for; reading resets the kernel's count.
    drops: Cell<u64>,
}

impl PacketPort {
    /// Makes the ring, binds to the interface, sets it promiscuous if asked.
    pub fn new(opened: PacketOpened, promiscuous: bool) -> Result<Self, OpenError> {
        let PacketOpened { rx, tx, link } = opened;
        let what = || format!("AF_PACKET on {}", link.name);
        let slot = (link.mtu as usize + SLOT_HEADER).next_power_of_two().clamp(SLOT_MIN, SLOT_MAX);
        let ring = Ring { map: set_up(&rx, slot).doing(what)?, slot, next: 0 };
        if promiscuous {
            set_promiscuous(&rx, link.index).doing(what)?;
        }
        bind(&rx, link.index, libc::ETH_P_ALL as u16).doing(what)?;
        set(&tx, SOL_PACKET, PACKET_QDISC_BYPASS, &1i32).doing(what)?;
        bind(&tx, link.index, 0).doing(what)?;
        Ok(Self {
            watch: Watch::new(&link.name, link.index, rx.as_raw_fd())?,
            rx,
            tx,
            ring,
            segmenter: Segmenter::new(),
            looked: Instant::ZERO,
            refusals: 0,
            stats: PortStats::default(),
            drops: Cell::new(0),
        })
    }

    /// Takes the frame of the next slot. False if it has to wait for a chunk.
    fn take(&mut self, cache: &mut PoolCache, batch: &mut Batch) -> bool {
        let (slot, octets) = self.ring.slot();
        let tag = tag(&slot);
        if slot.status & STATUS_COPY != 0 {
            self.take_copied(tag, cache, batch);
            return true;
        }
        let mac = slot.mac as usize;
        let parts = (slot.captured == slot.len).then_some(()).and_then(|()| {
            let vnet = octets.get(mac.checked_sub(VNET_LEN)?..mac)?;
            Some((vnet_header(vnet.try_into().ok()?), octets.get(mac..)?.get(..slot.len as usize)?))
        });
        let Some((vnet, frame)) = parts else {
            self.stats.miss_too_long();
            return true;
        };
        if vnet.is_super_frame() {
            self.segmenter.frame[..frame.len()].copy_from_slice(frame);
            self.stats.rx_refused += u64::from(!self.segmenter.start(frame.len(), vnet, tag));
            return true;
        }
        let Some(packet) = cache.packet() else { return false };
        match complete(packet, frame, vnet, tag) {
            Ok(packet) => {
                self.stats.rx.add(packet.len());
                batch.push(packet);
            }
            Err(packet) => {
                self.stats.miss_too_long();
                cache.recycle(packet);
            }
        }
        true
    }

    /// Takes a frame that was larger than a slot from the socket.
    fn take_copied(&mut self, tag: Option<Tag>, cache: &mut PoolCache, batch: &mut Batch) {
        let mut vnet = [0; VNET_LEN];
        let parts = [
            libc::iovec { iov_base: vnet.as_mut_ptr().cast(), iov_len: VNET_LEN },
            libc::iovec {
                iov_base: self.segmenter.frame.as_mut_ptr().cast(),
                iov_len: SUPER_FRAME_MAX,
            },
        ];
        // SAFETY: zeros are a valid message header.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (parts.as_ptr().cast_mut(), parts.len());
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: the message names two live places of the lengths given.
        let got = check_len(unsafe { libc::recvmsg(self.rx.as_raw_fd(), &mut message, flags) });
        let len = got.ok().and_then(|n| n.checked_sub(VNET_LEN));
        let Some(len) = len.filter(|&len| len <= SUPER_FRAME_MAX) else {
            self.stats.miss_too_long();
            return;
        };
        let vnet = vnet_header(vnet);
        if vnet.is_super_frame() {
            self.stats.rx_refused += u64::from(!self.segmenter.start(len, vnet, tag));
            return;
        }
        let frame = &self.segmenter.frame[..len];
        match cache.packet().map(|packet| complete(packet, frame, vnet, tag)) {
            Some(Ok(packet)) => {
                self.stats.rx.add(packet.len());
                batch.push(packet);
            }
            Some(Err(_)) => self.stats.miss_too_long(),
            None => self.stats.miss_no_buffer(),
        }
    }

    /// Takes the next segment of a super-frame. False if none can be had.
    fn take_segment(&mut self, cache: &mut PoolCache, batch: &mut Batch) -> bool {
        match self.segmenter.next(cache) {
            Some(Ok(packet)) => {
                self.stats.rx.add(packet.len());
                batch.push(packet);
            }
            Some(Err(_)) => self.stats.miss_too_long(),
            None => return false,
        }
        true
    }

    /// Sends the front of the batch. How many frames the kernel took.
    fn send(&self, batch: &Batch) -> io::Result<usize> {
        // SAFETY: zeros are valid in both.
        let mut parts: [libc::iovec; BATCH] = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for ((packet, part), message) in batch.iter().zip(&mut parts).zip(&mut messages) {
            part.iov_base = packet.data().as_ptr().cast_mut().cast();
            part.iov_len = packet.len();
            (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (part, 1);
        }
        let (list, count) = (messages.as_mut_ptr(), batch.len() as u32);
        // SAFETY: as many messages, each with one part, which the kernel reads.
        let sent =
            unsafe { libc::sendmmsg(self.tx.as_raw_fd(), list, count, libc::MSG_DONTWAIT as _) };
        check(sent).map(|n| n as usize)
    }

    /// Takes `count` frames off the batch as failed.
    fn fail(&mut self, count: usize, cache: &mut PoolCache, batch: &mut Batch) {
        self.stats.tx_failed += count as u64;
        batch.drain(..count).for_each(|packet| cache.recycle(packet));
    }
}

/// The frame in a chunk, with its checksum and its tag; the chunk alone if it
/// does not fit or cannot be completed.
fn complete(
    mut packet: Packet,
    frame: &[u8],
    vnet: VnetHeader,
    tag: Option<Tag>,
) -> Result<Packet, Packet> {
    let Some(room) = packet.append(frame.len()) else { return Err(packet) };
    room.copy_from_slice(frame);
    let done = vnet.finish(packet.data_mut()) && restore_tag(&mut packet, tag);
    if done { Ok(packet) } else { Err(packet) }
}

fn vnet_header(octets: [u8; VNET_LEN]) -> VnetHeader {
    // SAFETY: same size, and any octets are a valid header.
    unsafe { std::mem::transmute(octets) }
}

fn tag(slot: &Slot) -> Option<Tag> {
    let tpid = if slot.status & STATUS_TPID != 0 { slot.vlan_tpid } else { 0x8100 };
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), slot.vlan_tci.to_be_bytes());
    (slot.status & STATUS_VLAN != 0).then_some([a, b, c, d])
}

fn set_up(rx: &OwnedFd, slot: usize) -> io::Result<Map> {
    for (name, value) in [
        (PACKET_IGNORE_OUTGOING, 1),
        (PACKET_VERSION, TPACKET_V2),
        (PACKET_VNET_HDR, 1),
        (PACKET_COPY_THRESH, 1),
    ] {
        set(rx, SOL_PACKET, name, &value)?;
    }
    let block = 64 << 10;
    let request = RingRequest {
        block_size: block as u32,
        blocks: (RING_OCTETS / block) as u32,
        frame_size: slot as u32,
        frames: (RING_OCTETS / slot) as u32,
    };
    set(rx, SOL_PACKET, PACKET_RX_RING, &request)?;
    Map::of(rx.as_raw_fd(), RING_OCTETS, 0)
}

/// As long as the socket is open, the interface takes every frame.
fn set_promiscuous(rx: &OwnedFd, index: u32) -> io::Result<()> {
    let wish = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: PACKET_MR_PROMISC,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(rx, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &wish)
}

fn bind(socket: &OwnedFd, index: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: zeros are a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as i32;
    let (at, len) = (&raw const address, size_of::<libc::sockaddr_ll>() as libc::socklen_t);
    // SAFETY: a live address of its own kind.
    check(unsafe { libc::bind(socket.as_raw_fd(), at.cast(), len) }).map(drop)
}

impl Port for PacketPort {
    fn receive(&mut self, now: Instant, cache: &mut PoolCache, batch: &mut Batch) {
        self.watch.refresh(now);
        self.looked = now;
        while !batch.is_full() {
            if self.segmenter.is_busy() {
                if !self.take_segment(cache, batch) {
                    break;
                }
                continue;
            }
            let ready = self.ring.status().load(Ordering::Acquire) & STATUS_USER != 0;
            if !ready || !self.take(cache, batch) {
                break;
            }
            self.ring.advance();
        }
    }

    fn transmit(&mut self, _now: Instant, cache: &mut PoolCache, batch: &mut Batch) {
        while !batch.is_empty() {
            match self.send(batch) {
                Ok(count) => {
                    self.refusals = 0;
                    for packet in batch.drain(..count.min(batch.len())) {
                        self.stats.tx.add(packet.len());
                        cache.recycle(packet);
                    }
                }
                Err(e) => match e.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN | libc::ENOBUFS) if self.refusals < REFUSALS_MAX => {
                        self.refusals += 1;
                        return;
                    }
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::ENETDOWN | libc::ENXIO) => {
                        self.fail(batch.len(), cache, batch);
                    }
                    // This frame: too long, too short.
                    _ => self.fail(1, cache, batch),
                },
            }
        }
    }

    fn stats(&self) -> PortStats {
        // SAFETY: plain numbers.
        let kernel: io::Result<Statistics> =
            unsafe { get(self.rx.as_raw_fd(), SOL_PACKET, PACKET_STATISTICS) };
        self.drops.set(self.drops.get() + kernel.map_or(0, |k| u64::from(k.drops)));
        let mut stats = PortStats { cut: self.segmenter.cut_so_far(), ..self.stats };
        stats.rx_missed += self.drops.get();
        stats.missed.ring_full += self.drops.get();
        stats
    }

    /// Segments that wait do not make the socket readable.
    fn poll_timeout(&self) -> Option<Instant> {
        self.segmenter.is_busy().then_some(self.looked)
    }

    fn wait_fd(&self) -> Option<i32> {
        Some(self.rx.as_raw_fd())
    }

    fn is_up(&self) -> bool {
        self.watch.is_up()
    }
}
