//! Configuration of the host's side of the interface: addresses, MTU, routes.
//!
//! Done by messages of rtnetlink (rtnetlink(7)), each of which the kernel acknowledges.
//! Addresses and routes that exist already are left as they are.

use crate::error::{OpenError, OpenFault};
use crate::link::Link;
use crate::sys::{check_len, socket};
use std::fmt::Write;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const NLMSG_ERROR: u16 = 2;
const REQUEST: u16 = 0x1 | 0x4;
const REPLACE: u16 = 0x100 | 0x400;
const IFLA_MTU: u16 = 4;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
/// No duplicate address detection: there is no other host on this link.
const IFA_F_NODAD: u32 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PREFSRC: u16 = 7;

/// Addresses, MTU and routes for the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSide {
    /// Its addresses, with the lengths of their prefixes; none: nothing is done.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Networks that it reaches here.
    pub routes: Vec<(IpAddr, u8)>,
    /// Octets of a packet at most.
    pub mtu: u32,
}

impl HostSide {
    /// Sets MTU, addresses and routes, and takes the interface up. The error names the
    /// commands to type where this process may not.
    pub fn set(&self, name: &str) -> Result<(), OpenError> {
        if self.addresses.is_empty() {
            return Ok(());
        }
        let link = Link::by_name(name)?;
        self.try_set(link.index).map_err(|(what, e)| {
            let error = OpenError::os(format!("{what} of {name}"), e);
            match error.fault {
                OpenFault::NoPermission => error.remedy(format!(
                    "Start as root, or type it and take host-address out: {}",
                    self.commands(name)
                )),
                _ => error.remedy(format!("See whether this works: {}", self.commands(name))),
            }
        })
    }

    fn try_set(&self, index: u32) -> Result<(), (&'static str, io::Error)> {
        let mut kernel = Kernel::new().map_err(|e| ("asking the kernel", e))?;
        kernel.set_link(index, self.mtu).map_err(|e| ("setting the MTU", e))?;
        for &(address, len) in &self.addresses {
            kernel.add_address(index, address, len).map_err(|e| ("setting the address", e))?;
        }
        for &(network, len) in &self.routes {
            let of = |a: &&(IpAddr, u8)| a.0.is_ipv4() == network.is_ipv4();
            let source = self.addresses.iter().find(of).map(|a| a.0);
            kernel.add_route(index, (network, len), source).map_err(|e| ("setting a route", e))?;
        }
        Ok(())
    }

    /// The same as a person types it.
    pub fn commands(&self, name: &str) -> String {
        let mut text = format!("`ip link set {name} mtu {} up", self.mtu);
        for (address, len) in &self.addresses {
            let _ = write!(text, "; ip address add {address}/{len} dev {name}");
        }
        for (network, len) in &self.routes {
            let _ = write!(text, "; ip route add {network}/{len} dev {name}");
        }
        text + "`"
    }
}

/// A conversation with the kernel.
struct Kernel {
    socket: OwnedFd,
    number: u32,
}

/// A message under construction.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: u16, body: &[u8]) -> Self {
        let mut octets = vec![0; 4];
        octets.extend(kind.to_ne_bytes());
        octets.extend((REQUEST | flags).to_ne_bytes());
        octets.extend([0; 8]);
        octets.extend(body);
        Self(octets)
    }

    fn with(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend((4 + value.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn with_address(self, kind: u16, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(a) => self.with(kind, &a.octets()),
            IpAddr::V6(a) => self.with(kind, &a.octets()),
        }
    }
}

fn family(address: IpAddr) -> u8 {
    (if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

impl Kernel {
    fn new() -> io::Result<Self> {
        let socket = socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
        Ok(Self { socket, number: 0 })
    }

    fn set_link(&mut self, index: u32, mtu: u32) -> io::Result<()> {
        // struct ifinfomsg: family, type, index, flags, which of them.
        let up = (libc::IFF_UP as u32).to_ne_bytes();
        let body = [[0; 4], index.to_ne_bytes(), up, up].concat();
        self.ask(Message::new(RTM_NEWLINK, 0, &body).with(IFLA_MTU, &mtu.to_ne_bytes()))
    }

    fn add_address(&mut self, index: u32, address: IpAddr, len: u8) -> io::Result<()> {
        // struct ifaddrmsg: family, length, flags, scope, index.
        let body = [[family(address), len, 0, 0], index.to_ne_bytes()].concat();
        let message = Message::new(RTM_NEWADDR, REPLACE, &body);
        let message = message.with_address(IFA_LOCAL, address).with_address(IFA_ADDRESS, address);
        self.ask(if address.is_ipv4() {
            message
        } else {
            message.with(IFA_FLAGS, &IFA_F_NODAD.to_ne_bytes())
        })
    }

    fn add_route(
        &mut self,
        index: u32,
        (network, len): (IpAddr, u8),
        source: Option<IpAddr>,
    ) -> io::Result<()> {
        // struct rtmsg: family, lengths, class, table, protocol, scope, type, flags.
        let (table, protocol, scope, unicast) = (254, 4, 253, 1);
        let body = [family(network), len, 0, 0, table, protocol, scope, unicast, 0, 0, 0, 0];
        let message = Message::new(RTM_NEWROUTE, REPLACE, &body);
        let message = message.with_address(RTA_DST, network).with(RTA_OIF, &index.to_ne_bytes());
        self.ask(match source {
            Some(source) => message.with_address(RTA_PREFSRC, source),
            None => message,
        })
    }

    /// Sends a message and waits for its acknowledgement.
    fn ask(&mut self, message: Message) -> io::Result<()> {
        let Message(mut octets) = message;
        self.number += 1;
        let len = (octets.len() as u32).to_ne_bytes();
        octets[..4].copy_from_slice(&len);
        octets[8..12].copy_from_slice(&self.number.to_ne_bytes());
        let fd = self.socket.as_raw_fd();
        // SAFETY: the kernel reads live octets. Its own socket answers before this
        // returns.
        check_len(unsafe { libc::send(fd, octets.as_ptr().cast(), octets.len(), 0) })?;
        let mut answer = [0u8; 512];
        // SAFETY: the kernel writes into a live place of the length given.
        let got = check_len(unsafe { libc::recv(fd, answer.as_mut_ptr().cast(), 512, 0) })?;
        let word = |at: usize| answer[..got].get(at..at + 4).and_then(|w| w.first_chunk().copied());
        let kind = word(4).map(|w| u16::from_ne_bytes([w[0], w[1]]));
        match (kind, word(8).map(u32::from_ne_bytes), word(16).map(i32::from_ne_bytes)) {
            (Some(NLMSG_ERROR), Some(number), Some(0)) if number == self.number => Ok(()),
            (Some(NLMSG_ERROR), _, Some(errno)) if errno != 0 => {
                Err(io::Error::from_raw_os_error(-errno))
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
