//! From a configured port to an open one, with privilege or by a companion
//! that kept it.
//!
//! ```text
//!   ferrule run ──spawn──▶ ferrule open-ports    (keeps its capabilities)
//!        │ becomes node.user                │
//!        │ ── "open af-packet eth3" ──────▶ │ socket(), XDP program
//!        │ ◀── descriptors (SCM_RIGHTS) ─── │
//!        └─ gone (even by kill -9) ───────▶ │ removes the socket file, ends
//! ```
//!
//! The companion is another process image: it has never seen a key, takes one
//! kind of request, and cannot be reached by anybody but the daemon.

use ferrule_base::MacAddr;
use ferrule_node::config::{Config, Driver, PortConfig, TapConfig, XdpMode};
use ferrule_ports::pass::{recv_fds, send_fds, socket_pair};
use ferrule_ports::tap::{HostSide, TapSpec, TunAddresses};
use ferrule_ports::{Link, OpenError, OpenFault, Opened, Opener, PortSpec, pcap, xdp};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The hidden command that a companion is started with.
pub const COMPANION: &str = "open-ports";

/// Octets of a message between daemon and companion at most.
const MESSAGE_MAX: usize = 4096;

/// The address of a port: as configured, the device's, or one made from the
/// names (a TAP's own address is that of the host behind it).
pub fn mac_of(config: &Config, port: &PortConfig) -> Result<MacAddr, OpenError> {
    match (&port.mac, &port.driver) {
        (Some(mac), _) => Ok(*mac),
        (None, Driver::Xdp { device, .. } | Driver::Packet { device }) => {
            Ok(Link::by_name(device)?.mac)
        }
        (None, _) => Ok(ferrule_node::made_mac(&config.name, &port.name)),
    }
}

/// The addresses of all ports; the error names the port by its index.
pub fn macs_of(config: &Config) -> Result<Vec<MacAddr>, (usize, OpenError)> {
    let each = config.ports.iter().enumerate();
    each.map(|(i, port)| mac_of(config, port).map_err(|e| (i, e))).collect()
}

/// Whether the device carries frames as long as the port is configured for.
pub fn check_mtu(port: &PortConfig) -> Result<(), OpenError> {
    let (Driver::Xdp { device, .. } | Driver::Packet { device }) = &port.driver else {
        return Ok(());
    };
    let link = Link::by_name(device)?;
    if port.mtu <= link.mtu as usize {
        return Ok(());
    }
    Err(OpenError {
        fault: OpenFault::Other,
        what: format!("mtu {} is configured, `{device}` carries {}", port.mtu, link.mtu),
        remedy: format!("`ip link set {device} mtu {}`, or a smaller mtu at the port.", port.mtu),
        source: None,
    })
}

/// Specification of a queue of a port; nothing for a wire of the laboratory.
fn spec_of(port: &PortConfig, queue: usize, mac: MacAddr, budget: usize) -> Option<PortSpec> {
    Some(match &port.driver {
        Driver::Xdp { device, queue: first, mode, .. } => {
            let mode = match mode {
                XdpMode::Auto => xdp::XdpMode::Auto,
                XdpMode::Native => xdp::XdpMode::Native,
                XdpMode::Generic => xdp::XdpMode::Generic,
            };
            let queue = first + queue as u32;
            PortSpec::Xdp { interface: device.clone(), queue, mode, budget }
        }
        Driver::Packet { device } => {
            PortSpec::Packet { interface: device.clone(), promiscuous: true }
        }
        Driver::Tap(tap) => PortSpec::Tap(tap_spec(tap, None, port.mtu)),
        Driver::Tun(tun) => {
            let mut host = mac;
            host.0[5] ^= 1;
            PortSpec::Tap(tap_spec(tun, Some(TunAddresses { node: mac, host }), port.mtu))
        }
        Driver::Pcap { read, write } => PortSpec::Pcap {
            read: read.as_ref().map(PathBuf::from),
            write: write.as_ref().map(PathBuf::from),
            pace: pcap::Pace::Fast,
        },
        Driver::Wire => return None,
    })
}

fn tap_spec(tap: &TapConfig, tun: Option<TunAddresses>, mtu: usize) -> TapSpec {
    let (addresses, routes) = (tap.addresses.clone(), tap.routes.clone());
    TapSpec {
        name: tap.device.clone(),
        tun,
        offload: tap.offload,
        several: tap.every_worker,
        host: HostSide { addresses, routes, mtu: mtu as u32 },
    }
}

/// A port as the companion is told of it.
#[derive(Serialize, Deserialize)]
enum Wanted {
    Xdp {
        device: String,
        queue: u32,
        mode: u8,
        budget: usize,
    },
    Packet {
        device: String,
    },
    /// Another queue of a device whose program the daemon has.
    Queue {
        device: String,
    },
    Tap {
        device: String,
        /// Of a TUN: the node's address and the host's.
        tun: Option<([u8; 6], [u8; 6])>,
        offload: bool,
        several: bool,
        addresses: Vec<(IpAddr, u8)>,
        routes: Vec<(IpAddr, u8)>,
        mtu: u32,
    },
}

impl Wanted {
    fn of(spec: &PortSpec) -> Option<Self> {
        Some(match spec.clone() {
            PortSpec::Xdp { interface, queue, mode, budget } => {
                let mode = match mode {
                    xdp::XdpMode::Auto => 0,
                    xdp::XdpMode::Native => 1,
                    xdp::XdpMode::Generic => 2,
                };
                Self::Xdp { device: interface, queue, mode, budget }
            }
            PortSpec::Packet { interface, .. } => Self::Packet { device: interface },
            PortSpec::Tap(TapSpec { name, tun, offload, several, host }) => {
                let tun = tun.map(|t| (t.node.0, t.host.0));
                let HostSide { addresses, routes, mtu } = host;
                Self::Tap { device: name, tun, offload, several, addresses, routes, mtu }
            }
            PortSpec::Pcap { .. } => return None,
        })
    }

    /// Does what needs privilege, for the daemon.
    fn open(self, opener: &mut Opener) -> Result<Vec<OwnedFd>, OpenError> {
        let spec = match self {
            Self::Queue { device } => return Opener::open_queue(&device).map(|fd| vec![fd]),
            Self::Xdp { device, queue, mode, budget } => {
                let mode = match mode {
                    1 => xdp::XdpMode::Native,
                    2 => xdp::XdpMode::Generic,
                    _ => xdp::XdpMode::Auto,
                };
                PortSpec::Xdp { interface: device, queue, mode, budget }
            }
            Self::Packet { device } => PortSpec::Packet { interface: device, promiscuous: true },
            Self::Tap { device, tun, offload, several, addresses, routes, mtu } => {
                let tun = tun
                    .map(|(node, host)| TunAddresses { node: MacAddr(node), host: MacAddr(host) });
                let host = HostSide { addresses, routes, mtu };
                PortSpec::Tap(TapSpec { name: device, tun, offload, several, host })
            }
        };
        opener.open(&spec).and_then(Opened::into_fds)
    }
}

/// What the companion says, beside the descriptors.
#[derive(Serialize, Deserialize)]
enum Answer {
    Opened,
    Refused { missing: bool, permission: bool, what: String, remedy: String },
}

/// Opens ports for one node.
pub struct Openings {
    opener: Opener,
    budget: usize,
    companion: Option<(OwnedFd, Child)>,
}

impl Openings {
    /// For a node with so many buffers, of which no port may hold too many.
    pub fn new(config: &Config) -> Self {
        let queues = config.ports.iter().map(|p| match p.driver {
            Driver::Xdp { every_worker: true, .. } => config.cores.len(),
            _ => 1,
        });
        let share = config.buffers / (2 * queues.sum::<usize>().max(1));
        let budget = share.next_power_of_two().clamp(64, xdp::BUDGET);
        Self { opener: Opener::new(), budget, companion: None }
    }

    /// Starts the companion. It also removes `socket` when the daemon is gone.
    pub fn start_companion(&mut self, socket: &str) -> io::Result<()> {
        let [ours, theirs] = socket_pair()?;
        let child = Command::new("/proc/self/exe")
            .args([COMPANION, socket])
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()?;
        self.companion = Some((ours, child));
        Ok(())
    }

    /// Does what needs privilege for a queue of a port.
    pub fn open(
        &mut self,
        port: &PortConfig,
        queue: usize,
        mac: MacAddr,
    ) -> Result<Opened, OpenError> {
        let Some(spec) = spec_of(port, queue, mac, self.budget) else {
            return Err(OpenError::unsupported(
                "a wire exists in one process with what is at its other end",
                "Give the port a driver: af-xdp, af-packet, tap or tun.",
            ));
        };
        let (Some((socket, _)), Some(mut wanted)) = (&self.companion, Wanted::of(&spec)) else {
            return self.opener.open(&spec);
        };
        if let Wanted::Xdp { device, .. } = &wanted
            && self.opener.has_program(device)?
        {
            wanted = Wanted::Queue { device: device.clone() };
        }
        self.opener.adopt(&spec, ask(socket, &wanted)?)
    }
}

impl Drop for Openings {
    fn drop(&mut self) {
        if let Some((socket, mut child)) = self.companion.take() {
            drop(socket);
            let _ = child.wait();
        }
    }
}

fn ask(socket: &OwnedFd, wanted: &Wanted) -> Result<Vec<OwnedFd>, OpenError> {
    let broken = |e| OpenError::os("asking the companion that opens ports", e);
    let request = serde_json::to_vec(wanted).map_err(|e| broken(e.into()))?;
    send_fds(socket, &request, &[]).map_err(broken)?;
    let mut octets = [0; MESSAGE_MAX];
    let (len, fds) = recv_fds(socket, &mut octets).map_err(broken)?;
    match serde_json::from_slice(&octets[..len]).map_err(|e| broken(e.into()))? {
        Answer::Opened => Ok(fds),
        Answer::Refused { missing, permission, what, remedy } => {
            let fault = match (missing, permission) {
                (true, _) => OpenFault::MissingInterface,
                (_, true) => OpenFault::NoPermission,
                _ => OpenFault::Other,
            };
            Err(OpenError { fault, what, remedy, source: None })
        }
    }
}

/// The companion's whole life: standard input is the daemon. Ends when the
/// daemon does.
pub fn serve(socket_file: Option<&str>) -> io::Result<()> {
    // A signal to the whole group is for the daemon, which then stops in peace.
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, std::sync::Arc::default())?;
    }
    let daemon = ferrule_ports::os::inherited()?;
    let mut opener = Opener::new();
    let mut octets = [0; MESSAGE_MAX];
    loop {
        let (len, _) = match recv_fds(&daemon, &mut octets) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            received => received?,
        };
        if len == 0 {
            break;
        }
        let Ok(wanted) = serde_json::from_slice::<Wanted>(&octets[..len]) else { break };
        let (answer, fds) = match wanted.open(&mut opener) {
            Ok(fds) => (Answer::Opened, fds),
            Err(e) => (refusal(&e), Vec::new()),
        };
        let raw: Vec<_> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        send_fds(&daemon, &serde_json::to_vec(&answer)?, &raw)?;
    }
    if let Some(file) = socket_file {
        let _ = std::fs::remove_file(file);
    }
    Ok(())
}

fn refusal(error: &OpenError) -> Answer {
    let source = error.source.as_ref().map(|s| format!(": {s}")).unwrap_or_default();
    Answer::Refused {
        missing: error.fault == OpenFault::MissingInterface,
        permission: error.fault == OpenFault::NoPermission,
        what: format!("{}{source}", error.what),
        remedy: error.remedy.clone(),
    }
}
