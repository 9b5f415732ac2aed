//! AF_XDP: frames straight into and out of the node's own chunks.
//!
//! The node's pool is the UMEM, one for all AF_XDP sockets of the node: the
//! first socket registers the memory, the others share it. Fill and completion
//! rings are each socket's own. In copy mode the kernel writes a received frame
//! 256 octets (XDP_PACKET_HEADROOM) into the chunk, which is just where
//! [`HEAD_ROOM`](ferrule_pipeline::HEAD_ROOM) puts it.
//!
//! ```text
//!               ┌────────── pool = UMEM ──────────┐
//!   fill ring ──┤ chunk │ chunk │ chunk │ …       ├── completion ring
//!               └───▲──────────────────┬──────────┘
//!        receive ring                 transmit ring
//! ```
//!
//! Privileges of each step (Linux 6.18): the socket needs CAP_NET_RAW; the program, its map
//! and its link CAP_BPF and CAP_NET_ADMIN ([`XdpOpened`]). Registering the memory counts
//! against the memlock limit without CAP_IPC_LOCK; rings, bind and the map entry need
//! nothing but the descriptors ([`XdpPort`]).

mod lent;
mod port;
mod program;
mod ring;

pub use lent::Lent;
pub use port::XdpPort;
pub use program::{Program, XdpMode};

use crate::error::{Doing, OpenError};
use crate::link::{Link, request};
use crate::sys::{enlarge, set, socket};
use ferrule_pipeline::Pool;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Chunks that a port keeps in the kernel's hands for receiving, unless the
/// configuration says otherwise.
pub const BUDGET: usize = 1024;

/// The privileged part of an AF_XDP port: the socket and the program.
#[derive(Debug)]
pub struct XdpOpened {
    pub(crate) socket: OwnedFd,
    pub(crate) program: Arc<Program>,
    pub(crate) link: Link,
    pub(crate) queue: u32,
    pub(crate) budget: usize,
}

impl XdpOpened {
    /// A socket for one queue of an interface whose program is already there.
    pub fn new(
        link: Link,
        queue: u32,
        budget: usize,
        program: Arc<Program>,
    ) -> Result<Self, OpenError> {
        let socket = open_socket(&link)?;
        Ok(Self { socket, program, link, queue, budget })
    }
}

/// A socket for any queue of an interface.
pub(crate) fn open_socket(link: &Link) -> Result<OwnedFd, OpenError> {
    link.require_up()?;
    let socket = socket(libc::AF_XDP, libc::SOCK_RAW, 0)
        .doing(|| format!("an AF_XDP socket for {}", link.name))?;
    enlarge(&socket);
    // A process that receives the socket cannot bind it elsewhere (since Linux 6.6).
    let name = request(&link.name)?.ifr_name;
    set(&socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &name)
        .doing(|| format!("tying a socket to {}", link.name))?;
    Ok(socket)
}

/// A bound socket, and the queue that it has.
struct Bound {
    socket: RawFd,
    link: u32,
    queue: u32,
}

/// A node's memory as its AF_XDP sockets see it.
#[derive(Clone)]
pub struct Umem {
    pool: Pool,
    /// Bound sockets; the next one borrows the memory from the first of them.
    bound: Arc<Mutex<Vec<Bound>>>,
}

impl Umem {
    /// The pool's chunks must be of 2048 or 4096 octets for AF_XDP (other ports
    /// take any).
    pub fn new(pool: &Pool) -> Self {
        Self { pool: pool.clone(), bound: Arc::default() }
    }

    /// The pool that this is.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The interface of this index is gone: the kernel has let go of its sockets, and
    /// none borrows from them any more.
    pub fn forget(&self, index: u32) {
        self.bound().retain(|bound| bound.link != index);
    }

    fn bound(&self) -> MutexGuard<'_, Vec<Bound>> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
