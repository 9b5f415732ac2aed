//! Datagrams of keying programs: UDP at the ports that the configuration leaves to them, past
//! every policy (RFC 4301 section 4.4.1: traffic of key management).
//!
//! ```text
//!   worker ── UDP for this node, at such a port ──▶ kept ──▶ program
//!   worker ◀─ packet from such a port, past the policy ───── program
//! ```

use super::Control;
use crate::punt::Class;
use ferrule_base::{DropReason, VrfId};
use ferrule_control::Refused;
use ferrule_dataplane::graph::{FLAG_EXEMPT, FLAG_LOCAL, Next};
use ferrule_dataplane::route::Route;
use ferrule_pipeline::Packet;
use ferrule_wire::checksum::Ends;
use ferrule_wire::{EtherType, Protocol, ipv4, ipv6, udp};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Datagrams that wait for programs at most.
const WAITING_MAX: usize = 1024;
/// The worker that sends.
const WORKER: usize = 0;

/// A datagram between another host and a keying program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Address and port of this node.
    pub local: SocketAddr,
    /// Address and port of the other host.
    pub remote: SocketAddr,
    /// Octets behind the UDP header.
    pub payload: Vec<u8>,
}

/// Datagrams for programs, if any listens.
#[derive(Default)]
pub(super) struct Datagrams {
    listens: bool,
    waiting: VecDeque<Datagram>,
    /// Identification of the next packet.
    ident: u16,
}

impl Control {
    /// A program listens from now on, or none does any more.
    pub fn listen_for_datagrams(&mut self, listens: bool) {
        self.external.datagrams.listens = listens;
        if !listens {
            self.external.datagrams.waiting.clear();
        }
    }

    /// The next datagram for programs.
    pub fn poll_datagram(&mut self) -> Option<Datagram> {
        self.external.datagrams.waiting.pop_front()
    }

    /// Takes a datagram from a worker.
    pub(super) fn hear_datagram(&mut self, packet: Packet) {
        let datagrams = &mut self.external.datagrams;
        if !datagrams.listens {
            return self.exchange.drop(packet, DropReason::NoKeyingProgram);
        }
        if datagrams.waiting.len() >= WAITING_MAX {
            return self.exchange.drop(packet, Class::Keying.full());
        }
        match read(&packet) {
            Some(datagram) => {
                datagrams.waiting.push_back(datagram);
                self.exchange.consume(packet);
            }
            None => self.exchange.drop(packet, DropReason::Malformed),
        }
    }

    /// Sends a datagram of a program.
    pub fn send_datagram(&mut self, datagram: &Datagram) -> Result<(), Refused> {
        let Datagram { local, remote, payload } = datagram;
        let refused = |why: String| Err(Refused(why));
        if !self.config.keying_ports.contains(&local.port()) {
            return refused(format!("port {} is not one of keying-ports", local.port()));
        }
        if self.route_to(local.ip()) != Some(Route::Local) {
            return refused(format!("{} is no address of this node", local.ip()));
        }
        if remote.port() == 0 || !matches!(self.route_to(remote.ip()), Some(Route::Via(_))) {
            return refused(format!("there is no way to {remote}"));
        }
        self.external.datagrams.ident = self.external.datagrams.ident.wrapping_add(1);
        let octets = write(*local, *remote, payload, self.external.datagrams.ident);
        let packet = octets.and_then(|octets| self.exchange.make(&octets));
        let Some(mut packet) = packet else {
            return refused(format!("{} octets find no buffer", payload.len()));
        };
        let meta = packet.meta_mut();
        let v6 = local.is_ipv6();
        meta.ethertype = if v6 { EtherType::IPV6.0 } else { EtherType::IPV4.0 };
        (meta.vrf, meta.flags) = (VrfId::GLOBAL, FLAG_LOCAL | FLAG_EXEMPT);
        self.exchange.inject(&mut self.links, WORKER, Next::Ip, packet);
        Ok(())
    }
}

/// The datagram in an IP packet whose UDP header is at its offset.
fn read(packet: &Packet) -> Option<Datagram> {
    let data = packet.data();
    let (src, dst): (IpAddr, IpAddr) = match data.first()? >> 4 {
        4 => {
            let (header, _) = ipv4::Repr::parse(data).ok()?;
            (header.src.into(), header.dst.into())
        }
        _ => {
            let (header, _) = ipv6::Repr::parse(data).ok()?;
            (header.src.into(), header.dst.into())
        }
    };
    let datagram = data.get(usize::from(packet.meta().offset)..)?;
    let (header, payload) = udp::Repr::parse(datagram).ok()?;
    let (local, remote) = ((dst, header.dst).into(), (src, header.src).into());
    Some(Datagram { local, remote, payload: payload.to_vec() })
}

/// The IP packet of a datagram; nothing if it is too long, or between families.
fn write(local: SocketAddr, remote: SocketAddr, payload: &[u8], ident: u16) -> Option<Vec<u8>> {
    let header = udp::Repr {
        src: local.port(),
        dst: remote.port(),
        payload_len: u16::try_from(payload.len()).ok()?,
    };
    let len = u16::try_from(udp::Header::LEN + payload.len()).ok()?;
    let mut datagram = vec![0; usize::from(len)];
    header.emit(&mut datagram);
    datagram[udp::Header::LEN..].copy_from_slice(payload);
    let (mut packet, ends) = match (local.ip(), remote.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            len.checked_add(ipv4::Header::LEN as u16)?;
            let mut header = ipv4::Repr::new(Protocol::UDP, src, dst, len);
            header.ident = ident;
            let mut front = vec![0; header.len()];
            header.emit(&mut front);
            (front, Ends::V4(src, dst))
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = ipv6::Repr::new(Protocol::UDP, src, dst, len);
            let mut front = vec![0; ipv6::Header::LEN];
            header.emit(&mut front);
            (front, Ends::V6(src, dst))
        }
        _ => return None,
    };
    udp::fill_checksum(&ends, &mut datagram);
    packet.extend(datagram);
    Some(packet)
}
