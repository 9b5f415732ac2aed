//! Opening of ports: from a specification to a port, in two steps.
//!
//! ```text
//!   PortSpec ── Opener::open ──▶ Opened ── Opened::start ──▶ dyn Port
//!               with privilege     │         needs descriptors and the pool
//!                                  └─ into_fds ─▶ another process ─▶ Opener::adopt
//! ```
//!
//! | step | AF_XDP | AF_PACKET | TAP, TUN |
//! | --- | --- | --- | --- |
//! | open | CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF | CAP_NET_RAW | CAP_NET_ADMIN (or to own a persistent interface) and to be let to `/dev/net/tun` |
//! | start | memlock limit or CAP_IPC_LOCK | nothing | nothing |
//! | run | nothing | nothing | nothing |
//!
//! Capture files need no more than their permissions say.

use crate::error::{Doing, OpenError};
use crate::link::Link;
use crate::packet::{PacketOpened, PacketPort};
use crate::pcap::{Pace, PcapOpened, PcapPort};
use crate::tap::{TapOpened, TapPort, TapSpec};
use crate::xdp::{Program, Umem, XdpMode, XdpOpened, XdpPort};
use ferrule_pipeline::Port;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

/// Specification of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortSpec {
    /// AF_XDP on one queue of an interface.
    Xdp {
        /// The interface.
        interface: String,
        /// The receive queue.
        queue: u32,
        /// Position of the program in the receive path.
        mode: XdpMode,
        /// Chunks in the kernel's hands for receiving, at most
        /// ([`BUDGET`](crate::xdp::BUDGET) is a good number).
        budget: usize,
    },
    /// AF_PACKET on an interface.
    Packet {
        /// The interface.
        interface: String,
        /// Take frames to any address: right for all but end stations.
        promiscuous: bool,
    },
    /// A TAP or TUN, made if it is not there.
    Tap(TapSpec),
    /// Capture files.
    Pcap {
        /// Frames to receive.
        read: Option<PathBuf>,
        /// File for sent frames.
        write: Option<PathBuf>,
        /// Arrival rate of the frames.
        pace: Pace,
    },
}

impl PortSpec {
    /// The interface's name; nothing for files.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::Xdp { interface, .. } | Self::Packet { interface, .. } => Some(interface),
            Self::Tap(spec) => Some(&spec.name),
            Self::Pcap { .. } => None,
        }
    }
}

/// Opens ports and remembers which interfaces have the XDP program already: the
/// queues of one interface share it. An interface takes no second program, so
/// where another process opens for this one, it is asked for a mere socket if
/// the program is here ([`has_program`](Self::has_program),
/// [`open_queue`](Self::open_queue)).
#[derive(Default)]
pub struct Opener {
    programs: Vec<(u32, Weak<Program>)>,
}

impl Opener {
    /// An opener without open programs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Does the privileged steps.
    pub fn open(&mut self, spec: &PortSpec) -> Result<Opened, OpenError> {
        Ok(match spec {
            PortSpec::Xdp { interface, queue, mode, budget } => {
                let link = Link::by_name(interface)?;
                link.require_up()?;
                let program = self.program(&link, *mode)?;
                Opened::Xdp(XdpOpened::new(link, *queue, *budget, program)?)
            }
            PortSpec::Packet { interface, promiscuous } => {
                let opened = PacketOpened::new(Link::by_name(interface)?)?;
                Opened::Packet(opened, *promiscuous)
            }
            PortSpec::Tap(spec) => Opened::Tap(TapOpened::new(spec)?),
            PortSpec::Pcap { read, write, pace } => {
                Opened::Pcap(PcapOpened::new(read.as_deref(), write.as_deref())?, *pace)
            }
        })
    }

    /// The socket alone for another queue of an interface whose program another
    /// process has.
    pub fn open_queue(interface: &str) -> Result<OwnedFd, OpenError> {
        crate::xdp::open_socket(&Link::by_name(interface)?)
    }

    /// True if a port of this process owns the program on the interface.
    pub fn has_program(&mut self, interface: &str) -> Result<bool, OpenError> {
        Ok(self.remembered(&Link::by_name(interface)?).is_some())
    }

    /// True if no port of this process has a program on the interface of this index.
    pub fn has_let_go(&self, index: u32) -> bool {
        self.programs.iter().all(|(of, program)| *of != index || program.strong_count() == 0)
    }

    /// From another process's [`Opened::into_fds`] of a port of this
    /// specification, or of a queue from its [`open_queue`](Self::open_queue), in
    /// the same network namespace.
    pub fn adopt(&mut self, spec: &PortSpec, fds: Vec<OwnedFd>) -> Result<Opened, OpenError> {
        let PortSpec::Xdp { interface, queue, budget, .. } = spec else {
            return Opened::from_fds(spec, fds);
        };
        let link = Link::by_name(interface)?;
        let mut fds = fds.into_iter();
        let (socket, map, held) = (fds.next(), fds.next(), fds.next());
        let (program, socket) = match (socket, map, held) {
            (Some(socket), Some(map), Some(held)) => {
                let program = Arc::new(Program::from_fds(map, held));
                self.programs.push((link.index, Arc::downgrade(&program)));
                (Some(program), socket)
            }
            (Some(socket), None, None) => (self.remembered(&link), socket),
            _ => return Err(few(spec)),
        };
        let program = program.ok_or_else(|| few(spec))?;
        Ok(Opened::Xdp(XdpOpened { socket, program, link, queue: *queue, budget: *budget }))
    }

    fn program(&mut self, link: &Link, mode: XdpMode) -> Result<Arc<Program>, OpenError> {
        if let Some(program) = self.remembered(link) {
            return Ok(program);
        }
        let program = Arc::new(Program::attach(link, mode)?);
        self.programs.push((link.index, Arc::downgrade(&program)));
        Ok(program)
    }

    fn remembered(&mut self, link: &Link) -> Option<Arc<Program>> {
        self.programs.retain(|(_, program)| program.strong_count() > 0);
        let there = self.programs.iter().find(|(index, _)| *index == link.index);
        there.and_then(|(_, program)| program.upgrade())
    }
}

/// Another process sent fewer descriptors than the port needs.
fn few(spec: &PortSpec) -> OpenError {
    let error = io::Error::from(io::ErrorKind::InvalidData);
    OpenError::os(format!("descriptors are missing for {spec:?}"), error)
}

/// The interface of a port that was opened.
#[derive(Debug)]
pub struct Netdev {
    /// Its index.
    pub index: u32,
    /// Descriptor of a TAP or TUN, which lives on in another network namespace.
    file: Option<OwnedFd>,
}

impl Netdev {
    /// True if the port can still be used: the interface has this name here, or for a TAP
    /// or TUN exists in any namespace.
    pub fn is_there(&self, name: &str) -> bool {
        match &self.file {
            Some(file) => crate::tap::has_interface(file),
            None => Link::by_name(name).is_ok_and(|link| link.index == self.index),
        }
    }
}

/// A port whose privileged part is done.
#[derive(Debug)]
pub enum Opened {
    /// AF_XDP.
    Xdp(XdpOpened),
    /// AF_PACKET, and whether promiscuous.
    Packet(PacketOpened, bool),
    /// TAP or TUN.
    Tap(TapOpened),
    /// Capture files, and how fast frames arrive.
    Pcap(PcapOpened, Pace),
}

impl Opened {
    /// The index of its interface; nothing for files.
    pub fn index(&self) -> Option<u32> {
        match self {
            Self::Xdp(opened) => Some(opened.link.index),
            Self::Packet(opened, _) => Some(opened.link.index),
            Self::Tap(opened) => Link::by_name(opened.name()).ok().map(|link| link.index),
            Self::Pcap(..) => None,
        }
    }

    /// Handle by which to check that the interface still exists; nothing for files.
    pub fn netdev(&self) -> Option<Netdev> {
        let index = self.index()?;
        let file = match self {
            Self::Tap(opened) => opened.fd.try_clone().ok(),
            _ => None,
        };
        Some(Netdev { index, file })
    }

    /// Makes it a port on the node's memory. Needs no privilege, but AF_XDP's
    /// first port registers the memory, which counts against the memlock limit.
    pub fn start(self, umem: &Umem) -> Result<Box<dyn Port>, OpenError> {
        Ok(match self {
            Self::Xdp(opened) => Box::new(XdpPort::new(opened, umem)?),
            Self::Packet(opened, promiscuous) => Box::new(PacketPort::new(opened, promiscuous)?),
            Self::Tap(opened) => Box::new(TapPort::new(opened)?),
            Self::Pcap(opened, pace) => Box::new(PcapPort::new(opened, pace)?),
        })
    }

    /// The descriptors, in the order that [`Opener::adopt`] wants them, to be sent
    /// to another process and then closed.
    pub fn into_fds(self) -> Result<Vec<OwnedFd>, OpenError> {
        Ok(match self {
            Self::Xdp(XdpOpened { socket, program, .. }) => {
                let [map, link] = program.fds().doing(|| "copying descriptors".into())?;
                vec![socket, map, link]
            }
            Self::Packet(PacketOpened { rx, tx, .. }, _) => vec![rx, tx],
            Self::Tap(opened) => vec![opened.into_fd()],
            Self::Pcap(PcapOpened { read, write }, _) => {
                [read, write].into_iter().flatten().map(OwnedFd::from).collect()
            }
        })
    }

    /// Any kind but AF_XDP, whose program the opener keeps.
    fn from_fds(spec: &PortSpec, fds: Vec<OwnedFd>) -> Result<Self, OpenError> {
        let mut fds = fds.into_iter();
        let mut next = || fds.next().ok_or_else(|| few(spec));
        Ok(match spec {
            PortSpec::Xdp { .. } => return Err(few(spec)),
            PortSpec::Packet { interface, promiscuous } => {
                let link = Link::by_name(interface)?;
                Self::Packet(PacketOpened::from_fds(link, next()?, next()?), *promiscuous)
            }
            PortSpec::Tap(spec) => Self::Tap(TapOpened::from_fd(spec, next()?)),
            PortSpec::Pcap { read, write, pace } => {
                let mut file = |path: &Option<PathBuf>| {
                    path.as_ref().map(|_| next().map(File::from)).transpose()
                };
                Self::Pcap(PcapOpened { read: file(read)?, write: file(write)? }, *pace)
            }
        })
    }
}
