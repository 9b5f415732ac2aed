//! Messages between daemon and companion.
//!
//! ```text
//!   daemon, still root          daemon, as its user
//!   Grant … Grant Begin  ─────▶ Open ─────▶ …
//!                ◀───── Answer       ◀───── Answer and descriptors
//! ```
//!
//! The daemon names what may be opened before `Begin` and never again: an attacker who takes it
//! over later can ask for nothing else.

use ferrule_base::MacAddr;
use ferrule_node::config::{Config, Driver};
use ferrule_ports::tap::{HostSide, TapSpec, TunAddresses};
use ferrule_ports::{OpenError, OpenFault, Opened, Opener, PortSpec, xdp};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::os::fd::OwnedFd;

/// Octets of a message at most: the largest names 64 addresses and networks.
pub(super) const MESSAGE_MAX: usize = 8192;

/// One message to the companion.
#[derive(Serialize, Deserialize)]
pub(super) enum Message {
    /// This may be opened.
    Grant(Grant),
    /// End of the grants.
    Begin,
    /// Open this now.
    Open(Wanted),
}

/// Kinds of ports that need privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// AF_XDP.
    Xdp,
    /// AF_PACKET.
    Packet,
    /// TAP or TUN.
    Tap,
}

/// Leave to open ports on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Grant {
    /// The device.
    pub device: String,
    /// Kind of port; nothing: any.
    pub kind: Option<Kind>,
    /// Addresses and routes that the host may have at a TAP or TUN.
    pub host: Host,
}

/// Addresses and routes of the host at a TAP or TUN.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Host {
    pub addresses: Vec<(IpAddr, u8)>,
    pub routes: Vec<(IpAddr, u8)>,
}

impl Grant {
    /// Grants for a configuration: its ports, and the devices that it names for ports to come.
    pub fn all_of(config: &Config) -> Vec<Self> {
        let of_port = config.ports.iter().filter_map(|port| {
            let (kind, host) = match &port.driver {
                Driver::Xdp { .. } => (Kind::Xdp, Host::default()),
                Driver::Packet { .. } => (Kind::Packet, Host::default()),
                Driver::Tap(tap) | Driver::Tun(tap) => {
                    let (addresses, routes) = (tap.addresses.clone(), tap.routes.clone());
                    (Kind::Tap, Host { addresses, routes })
                }
                Driver::Pcap { .. } | Driver::Wire => return None,
            };
            Some(Self { device: port.driver.device()?.to_owned(), kind: Some(kind), host })
        });
        let named = config.devices.iter().map(|device| Self {
            device: device.clone(),
            kind: None,
            host: Host::default(),
        });
        of_port.chain(named).collect()
    }

    fn allows(&self, wanted: &Wanted) -> bool {
        let of_kind = self.kind.is_none_or(|kind| kind == wanted.kind());
        of_kind && self.device == wanted.device() && self.host.covers(wanted.host())
    }
}

impl Host {
    fn covers(&self, wanted: Option<&Self>) -> bool {
        wanted.is_none_or(|wanted| {
            wanted.addresses.iter().all(|a| self.addresses.contains(a))
                && wanted.routes.iter().all(|r| self.routes.contains(r))
        })
    }
}

/// A port as the companion is told of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Wanted {
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
        /// Of a TUN: link addresses of the node and of the host.
        tun: Option<([u8; 6], [u8; 6])>,
        offload: bool,
        several: bool,
        host: Host,
        mtu: u32,
    },
}

impl Wanted {
    /// Nothing for what needs no privilege.
    pub fn of(spec: &PortSpec) -> Option<Self> {
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
                let host = Host { addresses, routes };
                Self::Tap { device: name, tun, offload, several, host, mtu }
            }
            PortSpec::Pcap { .. } => return None,
        })
    }

    fn device(&self) -> &str {
        match self {
            Self::Xdp { device, .. }
            | Self::Packet { device }
            | Self::Queue { device }
            | Self::Tap { device, .. } => device,
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Xdp { .. } | Self::Queue { .. } => Kind::Xdp,
            Self::Packet { .. } => Kind::Packet,
            Self::Tap { .. } => Kind::Tap,
        }
    }

    fn host(&self) -> Option<&Host> {
        match self {
            Self::Tap { host, .. } => Some(host),
            _ => None,
        }
    }

    /// Does what needs privilege, for the daemon, if a grant allows it.
    pub fn open(self, grants: &[Grant], opener: &mut Opener) -> Result<Vec<OwnedFd>, OpenError> {
        if !grants.iter().any(|grant| grant.allows(&self)) {
            return Err(self.not_granted(grants));
        }
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
            Self::Tap { device, tun, offload, several, host, mtu } => {
                let tun = tun
                    .map(|(node, host)| TunAddresses { node: MacAddr(node), host: MacAddr(host) });
                let host = HostSide { addresses: host.addresses, routes: host.routes, mtu };
                PortSpec::Tap(TapSpec { name: device, tun, offload, several, host })
            }
        };
        opener.open(&spec).and_then(Opened::into_fds)
    }

    fn not_granted(&self, grants: &[Grant]) -> OpenError {
        let device = self.device();
        let is_known = grants.iter().any(|g| g.device == device);
        let is_host = self.host().is_some_and(|host| *host != Host::default());
        let (what, remedy) = if is_known && is_host {
            let what = format!("addresses or routes of the host at `{device}` that are new");
            (what, "Start the node again: as its user it changes nothing of the host's.".into())
        } else if is_known {
            let what = format!("`{device}` was opened with another driver when the node started");
            (what, format!("Start the node again, or with devices = [\"{device}\"] in [node]."))
        } else {
            let what = format!("`{device}` is not among the devices that the node started with");
            (what, format!("Start the node again, or with devices = [\"{device}\"] in [node]."))
        };
        OpenError { fault: OpenFault::NoPermission, what, remedy, source: None }
    }
}

/// Answer of the companion, beside the descriptors.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Done,
    Refused { missing: bool, permission: bool, what: String, remedy: String },
}

impl Answer {
    pub fn refusal(error: &OpenError) -> Self {
        let source = error.source.as_ref().map(|s| format!(": {s}")).unwrap_or_default();
        Self::Refused {
            missing: error.fault == OpenFault::MissingInterface,
            permission: error.fault == OpenFault::NoPermission,
            what: format!("{}{source}", error.what),
            remedy: error.remedy.clone(),
        }
    }

    pub fn into_result(self) -> Result<(), OpenError> {
        match self {
            Self::Done => Ok(()),
            Self::Refused { missing, permission, what, remedy } => {
                let fault = match (missing, permission) {
                    (true, _) => OpenFault::MissingInterface,
                    (_, true) => OpenFault::NoPermission,
                    _ => OpenFault::Other,
                };
                Err(OpenError { fault, what, remedy, source: None })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(device: &str, kind: Option<Kind>, addresses: &[&str], routes: &[&str]) -> Grant {
        let list = |texts: &[&str]| texts.iter().map(|t| prefix(t)).collect();
        let host = Host { addresses: list(addresses), routes: list(routes) };
        Grant { device: device.into(), kind, host }
    }

    fn prefix(text: &str) -> (IpAddr, u8) {
        let (address, len) = text.split_once('/').unwrap();
        (address.parse().unwrap(), len.parse().unwrap())
    }

    fn tap(device: &str, addresses: &[&str], routes: &[&str]) -> Wanted {
        let host = grant("", None, addresses, routes).host;
        let (device, tun) = (device.into(), None);
        Wanted::Tap { device, tun, offload: true, several: false, host, mtu: 1500 }
    }

    fn xdp(device: &str) -> Wanted {
        Wanted::Xdp { device: device.into(), queue: 3, mode: 0, budget: 64 }
    }

    #[test]
    fn companion_opens_what_was_granted_and_nothing_beside_it() {
        let grants = [
            grant("eth0", Some(Kind::Xdp), &[], &[]),
            grant("eth1", Some(Kind::Packet), &[], &[]),
            grant("host0", Some(Kind::Tap), &["192.0.2.1/24"], &["198.51.100.0/24"]),
            grant("spare", None, &[], &[]),
        ];
        let allowed = |wanted: &Wanted| grants.iter().any(|g| g.allows(wanted));
        let packet = |device: &str| Wanted::Packet { device: device.into() };
        let queue = |device: &str| Wanted::Queue { device: device.into() };
        for wanted in [
            xdp("eth0"),
            queue("eth0"),
            packet("eth1"),
            tap("host0", &["192.0.2.1/24"], &["198.51.100.0/24"]),
            tap("host0", &[], &[]),
            xdp("spare"),
            packet("spare"),
            tap("spare", &[], &[]),
        ] {
            assert!(allowed(&wanted), "{wanted:?}");
        }
        for wanted in [
            xdp("eth1"),
            queue("eth1"),
            packet("eth0"),
            packet("lo"),
            xdp("eth00"),
            xdp(""),
            tap("eth0", &[], &[]),
            tap("other", &[], &[]),
            tap("host0", &["192.0.2.2/24"], &[]),
            tap("host0", &["192.0.2.1/16"], &[]),
            tap("host0", &["192.0.2.1/24"], &["0.0.0.0/0"]),
            tap("spare", &["192.0.2.9/24"], &[]),
            tap("spare", &[], &["10.0.0.0/8"]),
        ] {
            assert!(!allowed(&wanted), "{wanted:?}");
            let refused = wanted.not_granted(&grants);
            assert_eq!(refused.fault, OpenFault::NoPermission);
        }
    }
}
