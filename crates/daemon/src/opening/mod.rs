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
//! The companion is another process image: it has never seen a key, and opens
//! what it was granted before the node became its user, nothing else.

mod companion;
mod confine;
mod message;

pub use companion::{COMMAND, serve};

use ferrule_base::MacAddr;
use ferrule_node::config::{Config, Driver, PortConfig, TapConfig, XdpMode};
use ferrule_ports::pass::{recv_fds, send_fds, socket_pair};
use ferrule_ports::tap::{HostSide, TapSpec, TunAddresses};
use ferrule_ports::{Link, OpenError, OpenFault, Opened, Opener, PortSpec, pcap, xdp};
use message::{Answer, Grant, MESSAGE_MAX, Message, Wanted};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

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

/// Checks that the device carries frames as long as the port is configured for.
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

/// Warning about a port that opens and yet loses frames.
pub fn remark(port: &PortConfig) -> Option<String> {
    let Driver::Xdp { device, mode: XdpMode::Generic, .. } = &port.driver else { return None };
    let link = Link::by_name(device).ok().filter(Link::is_veth)?;
    let whose = match link.far_end_makes_supers() {
        Some(false) => return None,
        Some(true) => "its far end makes them now",
        None => "unless `ethtool -K DEVICE tso off gso off` at its far end",
    };
    Some(format!(
        "port {}: mode = \"generic\" on the veth {device} loses a host's super-frames ({whose}): \
         leave mode out, or say mode = \"native\" or driver = \"af-packet\"",
        port.name
    ))
}

/// Warnings about the ports whose frames the host's stack receives, too, where a host is behind the
/// node: AF_PACKET takes copies.
pub fn stack_remarks(config: &Config) -> Vec<String> {
    let has_host = config.ports.iter().any(|port| {
        matches!(&port.driver, Driver::Tun(tap) | Driver::Tap(tap) if !tap.addresses.is_empty())
    });
    let of = |port: &PortConfig| match &port.driver {
        Driver::Packet { device } if has_host => {
            let set = |path: String| std::fs::read_to_string(path).is_ok_and(|n| n.trim() != "0");
            let filters = |of| set(format!("/proc/sys/net/ipv4/conf/{of}/rp_filter"));
            let without_ipv6 = set(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"));
            stack_remark(&port.name, device, [filters("all") || filters(device), without_ipv6])
        }
        _ => None,
    };
    config.ports.iter().filter_map(of).collect()
}

/// The warning, unless the device is kept from the host's stack: by IPv4, by IPv6.
fn stack_remark(port: &str, device: &str, kept_out: [bool; 2]) -> Option<String> {
    let places = [("ipv4", "rp_filter"), ("ipv6", "disable_ipv6")].into_iter().zip(kept_out);
    let open = places.filter(|(_, kept_out)| !kept_out);
    let all: Vec<String> =
        open.map(|((family, name), _)| format!("net.{family}.conf.{device}.{name}=1")).collect();
    (!all.is_empty()).then(|| {
        format!(
            "port {port}: the host's stack receives the frames of {device}, too, and takes those \
             for its own addresses past every policy: `sysctl -w {}`, on a device that nothing \
             else uses, or driver = \"af-xdp\"",
            all.join(" ")
        )
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

    /// Starts the companion, which may open what the configuration names as it is
    /// now. It also removes `left` when the daemon is gone.
    pub fn start_companion(&mut self, config: &Config, left: &[&Path]) -> Result<(), OpenError> {
        let failed = |e| OpenError::os("starting the companion that opens ports", e);
        let [ours, theirs] = socket_pair().map_err(failed)?;
        let child = Command::new("/proc/self/exe")
            .arg(COMMAND)
            .args(left)
            .current_dir("/")
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let (ours, _) = self.companion.insert((ours, child));
        for grant in Grant::all_of(config) {
            say(ours, &Message::Grant(grant))?;
        }
        ask(ours, &Message::Begin).map(drop)
    }

    /// True once no port is open by AF_XDP on the device of this index any more.
    pub fn has_let_go(&self, index: u32) -> bool {
        self.opener.has_let_go(index)
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
        let before = spec.interface().and_then(|name| Link::by_name(name).ok());
        let opened = self.opener.adopt(&spec, ask(socket, &Message::Open(wanted))?)?;
        match (before, opened.index()) {
            // The device may have been made anew meanwhile: the companion opened either.
            (Some(before), index) if index != Some(before.index) => {
                Err(OpenError::missing(&before.name))
            }
            _ => Ok(opened),
        }
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

fn broken(e: io::Error) -> OpenError {
    OpenError::os("asking the companion that opens ports", e)
}

fn say(socket: &OwnedFd, message: &Message) -> Result<(), OpenError> {
    let octets = serde_json::to_vec(message).map_err(|e| broken(e.into()))?;
    send_fds(socket, &octets, &[]).map_err(broken)
}

fn ask(socket: &OwnedFd, message: &Message) -> Result<Vec<OwnedFd>, OpenError> {
    say(socket, message)?;
    let mut octets = [0; MESSAGE_MAX];
    let (len, fds) = recv_fds(socket, &mut octets).map_err(broken)?;
    let answer: Answer = serde_json::from_slice(&octets[..len]).map_err(|e| broken(e.into()))?;
    answer.into_result().map(|()| fds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_the_hosts_stack_hears_is_told_of_with_its_remedy() {
        assert_eq!(stack_remark("up", "eth1", [true, true]), None);
        let said = stack_remark("up", "eth1", [true, false]).expect("a warning");
        assert!(said.contains("sysctl -w net.ipv6.conf.eth1.disable_ipv6=1`"), "{said}");
        let said = stack_remark("up", "eth1", [false, false]).expect("a warning");
        assert!(said.contains("net.ipv4.conf.eth1.rp_filter=1 net.ipv6.conf."), "{said}");
    }
}
