//! Frames between the node and the interface.

use super::open::{TapOpened, TapSpec};
use super::{TunAddresses, answer};
use crate::coalesce::{self, Coalescer};
use crate::error::OpenError;
use crate::link::{Link, Watch};
use crate::offload::{Segmenter, VNET_LEN, VnetHeader};
use crate::sys::check_len;
use ferrule_base::Instant;
use ferrule_pipeline::{BATCH, Batch, Packet, PoolCache, Port, PortStats};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Answers that wait to be received, at most.
const ANSWERS_MAX: usize = 8;
const ETHERNET: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];

/// A TAP or TUN port.
pub struct TapPort {
    fd: OwnedFd,
    tun: Option<TunAddresses>,
    /// Frames to the host are joined into super-frames.
    joins: bool,
    watch: Watch,
    answers: Vec<Packet>,
    segmenter: Segmenter,
    coalescer: Coalescer,
    looked: Instant,
    stats: PortStats,
}

/// Result of a call of `readv`.
enum Read {
    /// A frame, in the packet.
    Frame,
    /// A super-frame, in the segmenter.
    Super,
    /// A frame larger than a chunk.
    TooLarge,
    /// A frame that contradicts its description.
    Refused,
}

impl TapPort {
    /// Ready to be polled; frames pass once the interface is up.
    pub fn new(opened: TapOpened) -> Result<Self, OpenError> {
        let TapOpened { fd, spec: TapSpec { name, tun, offload, .. } } = opened;
        let index = Link::by_name(&name)?.index;
        Ok(Self {
            watch: Watch::new(&name, index, fd.as_raw_fd())?,
            fd,
            tun,
            joins: offload,
            answers: Vec::with_capacity(ANSWERS_MAX),
            segmenter: Segmenter::new(),
            coalescer: Coalescer::new(),
            looked: Instant::ZERO,
            stats: PortStats::default(),
        })
    }

    /// Reads one frame into the packet, the octets that do not fit there into the
    /// segmenter's place behind it; an error when there is none.
    fn read(&mut self, packet: &mut Packet) -> io::Result<Read> {
        let mut vnet = VnetHeader::default();
        let room = packet.tail_room();
        let base = if self.tun.is_some() { ETHERNET } else { 0 };
        let Some(out) = packet.append(room) else { return Ok(Read::TooLarge) };
        let rest = self.segmenter.frame.get_mut(base + room..).unwrap_or_default();
        let parts = [
            libc::iovec { iov_base: (&raw mut vnet).cast(), iov_len: VNET_LEN },
            libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: room },
            libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() },
        ];
        // SAFETY: three live places of the lengths given; any octets are a
        // valid virtio-net header.
        let got = unsafe { libc::readv(self.fd.as_raw_fd(), parts.as_ptr(), parts.len() as i32) };
        let len = check_len(got)?.saturating_sub(VNET_LEN);
        packet.truncate(len);
        if vnet.is_super_frame() {
            return Ok(self.take_super(packet, len, vnet, base));
        }
        if len > room {
            return Ok(Read::TooLarge);
        }
        let whole = len != 0 && vnet.finish(packet.data_mut()) && self.dress(packet);
        Ok(if whole { Read::Frame } else { Read::Refused })
    }

    /// Puts the front of a super-frame where its rest is, behind Ethernet.
    fn take_super(&mut self, packet: &Packet, len: usize, vnet: VnetHeader, base: usize) -> Read {
        let front = packet.data();
        let Some(place) = self.segmenter.frame.get_mut(base..base + front.len()) else {
            return Read::Refused;
        };
        place.copy_from_slice(front);
        if let Some(addresses) = self.tun {
            let Some(header) = ethernet(addresses, front) else { return Read::Refused };
            self.segmenter.frame[..ETHERNET].copy_from_slice(&header);
        }
        let fits = base + len < self.segmenter.frame.len();
        match fits && self.segmenter.start(base + len, vnet.behind(base), None) {
            true => Read::Super,
            false => Read::Refused,
        }
    }

    /// Puts Ethernet in front of a packet from a TUN.
    fn dress(&self, packet: &mut Packet) -> bool {
        let Some(addresses) = self.tun else { return true };
        let Some(header) = ethernet(addresses, packet.data()) else { return false };
        let Some(place) = packet.prepend(ETHERNET) else { return false };
        place.copy_from_slice(&header);
        true
    }

    /// Octets of Ethernet in front of a frame that do not go to a TUN. Nothing if
    /// there is no IP behind them.
    fn undress(&self, frame: &[u8]) -> Option<usize> {
        if self.tun.is_none() {
            return Some(0);
        }
        let ethertype = frame.get(12..14);
        (ethertype == Some(&IPV4) || ethertype == Some(&IPV6)).then_some(ETHERNET)
    }

    /// Takes the questions for neighbours that are answered here out of a batch.
    fn answer_all(&mut self, batch: &mut Batch) {
        if self.tun.is_none() {
            return;
        }
        let mut at = 0;
        while let Some(packet) = batch.get_mut(at) {
            let len = packet.len();
            if let Some(tun) = self.tun
                && self.answers.len() < ANSWERS_MAX
                && answer::turn(tun, packet.data_mut())
            {
                self.stats.tx.add(len);
                self.answers.push(batch.remove(at));
            } else {
                at += 1;
            }
        }
    }

    /// Writes the frames of a group: one, or several as a super-frame. False if the
    /// interface does not take them.
    fn write(&self, batch: &mut Batch, group: coalesce::Group<'_>) -> bool {
        let count = group.count();
        let Some(first) = { group }.next() else { return true };
        let Some(bare) = self.undress(batch[first].data()) else { return false };
        let (mut headers, mut vnet) = (0, VnetHeader::default());
        if count > 1 {
            let Some((len, described)) = coalesce::join(batch, group) else { return false };
            (headers, vnet) = (len, described.without(bare));
        }
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut parts = [none; 1 + BATCH];
        parts[0] = libc::iovec { iov_base: (&raw const vnet).cast_mut().cast(), iov_len: VNET_LEN };
        for (part, at) in parts[1..].iter_mut().zip(group) {
            let data = batch[at].data();
            let octets = data.get(if at == first { bare } else { headers }..).unwrap_or_default();
            *part =
                libc::iovec { iov_base: octets.as_ptr().cast_mut().cast(), iov_len: octets.len() };
        }
        // SAFETY: as many live places, which the kernel reads.
        let sent = unsafe { libc::writev(self.fd.as_raw_fd(), parts.as_ptr(), 1 + count as i32) };
        check_len(sent).is_ok()
    }
}

/// The Ethernet header in front of an IP packet from the host.
fn ethernet(addresses: TunAddresses, packet: &[u8]) -> Option<[u8; ETHERNET]> {
    let ethertype = match packet.first()? >> 4 {
        4 => IPV4,
        6 => IPV6,
        _ => return None,
    };
    let mut header = [0; ETHERNET];
    header[..6].copy_from_slice(&addresses.node.0);
    header[6..12].copy_from_slice(&addresses.host.0);
    header[12..].copy_from_slice(&ethertype);
    Some(header)
}

impl Port for TapPort {
    fn receive(&mut self, now: Instant, cache: &mut PoolCache, batch: &mut Batch) {
        self.watch.refresh(now);
        self.looked = now;
        while !batch.is_full() {
            if let Some(answer) = self.answers.pop() {
                self.stats.rx.add(answer.len());
                batch.push(answer);
                continue;
            }
            if self.segmenter.is_busy() {
                match self.segmenter.next(cache) {
                    Some(Ok(packet)) => {
                        self.stats.rx.add(packet.len());
                        batch.push(packet);
                    }
                    Some(Err(_)) => self.stats.miss_too_long(),
                    None => return,
                }
                continue;
            }
            let Some(mut packet) = cache.packet() else { return };
            match self.read(&mut packet) {
                Ok(Read::Frame) => {
                    self.stats.rx.add(packet.len());
                    batch.push(packet);
                    continue;
                }
                Ok(Read::Super) => {}
                Ok(Read::TooLarge) => self.stats.miss_too_long(),
                Ok(Read::Refused) => self.stats.rx_refused += 1,
                // Nothing there, or the interface is down.
                Err(_) => return cache.recycle(packet),
            }
            cache.recycle(packet);
        }
    }

    fn transmit(&mut self, _now: Instant, cache: &mut PoolCache, batch: &mut Batch) {
        self.answer_all(batch);
        match self.joins {
            true => self.coalescer.arrange(batch),
            false => self.coalescer.line_up(batch),
        }
        for group in self.coalescer.groups() {
            // A full queue or an interface that is down: the frames are lost, as
            // on a wire, and waiting would only make them late.
            let written = self.write(batch, group);
            let count = group.count() as u64;
            if !written {
                self.stats.tx_failed += count;
                continue;
            }
            group.for_each(|at| self.stats.tx.add(batch[at].len()));
            if count > 1 {
                self.stats.joined.frames += 1;
                self.stats.joined.segments += count;
            }
        }
        batch.drain(..).for_each(|packet| cache.recycle(packet));
    }

    fn stats(&self) -> PortStats {
        PortStats { cut: self.segmenter.cut_so_far(), ..self.stats }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let waiting = !self.answers.is_empty() || self.segmenter.is_busy();
        waiting.then_some(self.looked)
    }

    fn wait_fd(&self) -> Option<i32> {
        Some(self.fd.as_raw_fd())
    }

    fn is_up(&self) -> bool {
        self.watch.is_up()
    }
}
