//! TAP and TUN: the host's own stack as neighbour.
//!
//! Frames pass with a virtio-net header in front. The kernel may leave
//! checksums to us (which saves it the work) but no segmentation, so frames are
//! never larger than the MTU.
//!
//! A TAP carries Ethernet. A TUN carries bare IP: its port puts an Ethernet
//! header in front with the addresses that it was given, takes it off again,
//! and answers the node's ARP requests in the name of whoever is behind.
//!
//! Making or attaching to the interface needs CAP_NET_ADMIN, unless it is
//! persistent and belongs to the user ([`TapOpened`]); the rest needs nothing.

use crate::error::{Doing, OpenError, OpenFault};
use crate::link::{Link, Watch, request};
use crate::offload::{VNET_LEN, VnetHeader};
use crate::sys::{check, check_len};
use ferrule_base::{Instant, MacAddr};
use ferrule_pipeline::{Batch, Packet, PoolCache, Port, PortStats};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The Ethernet addresses of a TUN's two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunAddresses {
    /// The node's port.
    pub node: MacAddr,
    /// Whatever is behind the TUN.
    pub host: MacAddr,
}

/// ARP answers that wait to be received, at most.
const ANSWERS_MAX: usize = 8;
const ETHERNET: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const ARP: [u8; 2] = [0x08, 0x06];

/// A TAP or TUN that is attached.
#[derive(Debug)]
pub struct TapOpened {
    pub(crate) fd: OwnedFd,
    pub(crate) name: String,
    pub(crate) tun: Option<TunAddresses>,
}

impl TapOpened {
    /// Attaches to the interface `name` or makes it: a TUN if addresses are
    /// given, else a TAP. One that is made here is down at first, and goes with
    /// its descriptor.
    pub fn new(name: &str, tun: Option<TunAddresses>) -> Result<Self, OpenError> {
        let mut r = request(name)?;
        let path = c"/dev/net/tun";
        let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
        // SAFETY: a live string; the descriptor that comes back is ours.
        let fd = check(unsafe { libc::open(path.as_ptr(), flags) });
        let fd = fd.doing(|| "opening /dev/net/tun".into()).map_err(|e| match e.fault {
            OpenFault::MissingInterface => OpenError { fault: OpenFault::Unsupported, ..e }
                .remedy("Load the tun module: `modprobe tun`."),
            _ => e,
        })?;
        // SAFETY: as above.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let kind = if tun.is_some() { libc::IFF_TUN } else { libc::IFF_TAP };
        r.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: the command reads and writes one ifreq.
        let made = check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut r) });
        made.doing(|| format!("attaching to {name}")).map_err(|e| {
            match e.source.as_ref().and_then(io::Error::raw_os_error) {
                Some(libc::EINVAL) => e.remedy(
                    "An interface of that name and another kind is there: choose another name.",
                ),
                _ => e,
            }
        })?;
        let offloads = libc::c_ulong::from(libc::TUN_F_CSUM);
        // SAFETY: the command takes a number.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, offloads) })
            .doing(|| format!("setting the offloads of {name}"))?;
        Ok(Self { fd, name: name.into(), tun })
    }

    /// From a descriptor that another process attached as [`Self::new`] does.
    pub fn from_fd(name: &str, tun: Option<TunAddresses>, fd: OwnedFd) -> Self {
        Self { fd, name: name.into(), tun }
    }
}

/// A TAP or TUN port.
pub struct TapPort {
    fd: OwnedFd,
    tun: Option<TunAddresses>,
    watch: Watch,
    answers: Vec<Packet>,
    looked: Instant,
    stats: PortStats,
}

impl TapPort {
    /// Ready to be polled; frames pass once the interface is up.
    pub fn new(opened: TapOpened) -> Result<Self, OpenError> {
        let TapOpened { fd, name, tun } = opened;
        Link::by_name(&name)?;
        Ok(Self {
            watch: Watch::new(&name, fd.as_raw_fd())?,
            fd,
            tun,
            answers: Vec::with_capacity(ANSWERS_MAX),
            looked: Instant::ZERO,
            stats: PortStats::default(),
        })
    }

    /// Reads one frame into the packet; an error when there is none.
    fn read(&self, packet: &mut Packet) -> io::Result<bool> {
        let mut vnet = VnetHeader::default();
        let mut spill = 0u8;
        let room = packet.tail_room();
        let Some(out) = packet.append(room) else { return Ok(false) };
        let parts = [
            libc::iovec { iov_base: (&raw mut vnet).cast(), iov_len: VNET_LEN },
            libc::iovec { iov_base: out.as_mut_ptr().cast(), iov_len: room },
            libc::iovec { iov_base: (&raw mut spill).cast(), iov_len: 1 },
        ];
        // SAFETY: three live places of the lengths given; any octets are a
        // valid virtio-net header.
        let got = unsafe { libc::readv(self.fd.as_raw_fd(), parts.as_ptr(), parts.len() as i32) };
        let len = check_len(got)?.saturating_sub(VNET_LEN);
        packet.truncate(len);
        let whole = len != 0 && len <= room && !vnet.is_super_frame();
        Ok(whole && vnet.finish(packet.data_mut()) && self.dress(packet))
    }

    /// Puts Ethernet in front of what came from a TUN.
    fn dress(&self, packet: &mut Packet) -> bool {
        let Some(addresses) = self.tun else { return true };
        let ethertype = match packet.data().first().map(|octet| octet >> 4) {
            Some(4) => IPV4,
            Some(6) => IPV6,
            _ => return false,
        };
        let Some(header) = packet.prepend(ETHERNET) else { return false };
        header[..6].copy_from_slice(&addresses.node.0);
        header[6..12].copy_from_slice(&addresses.host.0);
        header[12..].copy_from_slice(&ethertype);
        true
    }

    /// Takes Ethernet off what goes to a TUN. False if there is no IP in it.
    fn undress(&self, packet: &mut Packet) -> bool {
        if self.tun.is_none() {
            return true;
        }
        let ethertype = packet.data().get(12..14);
        (ethertype == Some(&IPV4) || ethertype == Some(&IPV6)) && packet.strip(ETHERNET)
    }

    /// Turns the node's ARP request into the answer (RFC 826).
    fn answer(&self, packet: &mut Packet) -> bool {
        let Some(addresses) = self.tun else { return false };
        let Some(arp) = packet.data_mut().first_chunk_mut::<42>() else { return false };
        // Ethernet, IPv4, lengths 6 and 4, request; not for one's own address.
        let request = arp[12..14] == ARP && arp[14..22] == [0, 1, 8, 0, 6, 4, 0, 1];
        if !request || arp[28..32] == arp[38..42] {
            return false;
        }
        let mut asker = [0; 4];
        asker.copy_from_slice(&arp[28..32]);
        arp[..6].copy_from_slice(&addresses.node.0);
        arp[6..12].copy_from_slice(&addresses.host.0);
        arp[21] = 2;
        arp[22..28].copy_from_slice(&addresses.host.0);
        arp.copy_within(38..42, 28);
        arp[32..38].copy_from_slice(&addresses.node.0);
        arp[38..42].copy_from_slice(&asker);
        true
    }

    fn write(&self, frame: &[u8]) -> io::Result<()> {
        let vnet = VnetHeader::default();
        let parts = [
            libc::iovec { iov_base: (&raw const vnet).cast_mut().cast(), iov_len: VNET_LEN },
            libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() },
        ];
        // SAFETY: two live places, which the kernel reads.
        let sent = unsafe { libc::writev(self.fd.as_raw_fd(), parts.as_ptr(), parts.len() as i32) };
        check_len(sent).map(drop)
    }
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
            let Some(mut packet) = cache.packet() else { return };
            let read = self.read(&mut packet);
            match read {
                Ok(true) => {
                    self.stats.rx.add(packet.len());
                    batch.push(packet);
                }
                Ok(false) => {
                    self.stats.rx_missed += 1;
                    cache.recycle(packet);
                }
                // Nothing there, or nobody up to send it.
                Err(_) => return cache.recycle(packet),
            }
        }
    }

    fn transmit(&mut self, _now: Instant, cache: &mut PoolCache, batch: &mut Batch) {
        for mut packet in batch.drain(..) {
            let len = packet.len();
            if self.answers.len() < ANSWERS_MAX && self.answer(&mut packet) {
                self.stats.tx.add(len);
                self.answers.push(packet);
                continue;
            }
            // A full queue or an interface that is down: the frame is lost, as
            // on a wire, and waiting would only make it late.
            if self.undress(&mut packet) && self.write(packet.data()).is_ok() {
                self.stats.tx.add(len);
            } else {
                self.stats.tx_failed += 1;
            }
            cache.recycle(packet);
        }
    }

    fn stats(&self) -> PortStats {
        self.stats
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (!self.answers.is_empty()).then_some(self.looked)
    }

    fn wait_fd(&self) -> Option<i32> {
        Some(self.fd.as_raw_fd())
    }

    fn is_up(&self) -> bool {
        self.watch.is_up()
    }
}
