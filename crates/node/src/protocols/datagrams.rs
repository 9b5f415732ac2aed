//! Datagrams of keying programs: UDP at the ports that the configuration leaves to them, past
//! every policy (RFC 4301 section 4.4.1: traffic of key management).
//!
//! ```text
//!   worker ── UDP for this node, at such a port ──▶ kept ──▶ program
//!   worker ◀─ packet from such a port, past the policy ───── program
//! ```

use crate::punt::{Class, Exchange};
use ferrule_base::DropReason;
use ferrule_pipeline::Packet;
use ferrule_wire::checksum::Ends;
use ferrule_wire::{Protocol, ipv4, ipv6, udp};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Datagrams that wait for programs at most.
const WAITING_MAX: usize = 1024;

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
pub(crate) struct Datagrams {
    listens: bool,
    waiting: VecDeque<Datagram>,
    /// One came since somebody asked.
    has_news: bool,
    /// Identification of the next packet.
    ident: u16,
}

impl Datagrams {
    /// A program listens from now on, or none does any more.
    pub fn listen(&mut self, listens: bool) {
        self.listens = listens;
        if !listens {
            self.waiting.clear();
        }
    }

    /// The next datagram for programs.
    pub fn poll(&mut self) -> Option<Datagram> {
        self.waiting.pop_front()
    }

    /// True if a datagram came since the last call of [`take_news`](Self::take_news).
    pub const fn has_news(&self) -> bool {
        self.has_news
    }

    /// The same; from now on it is old.
    pub const fn take_news(&mut self) -> bool {
        std::mem::replace(&mut self.has_news, false)
    }

    /// Identification of the next packet that is sent.
    pub const fn next_ident(&mut self) -> u16 {
        self.ident = self.ident.wrapping_add(1);
        self.ident
    }

    /// Takes a datagram from a worker.
    pub fn handle_message(&mut self, packet: Packet, exchange: &mut Exchange) {
        if !self.listens {
            return exchange.drop(packet, DropReason::NoKeyingProgram);
        }
        if self.waiting.len() >= WAITING_MAX {
            return exchange.drop(packet, Class::Keying.full());
        }
        match read(&packet) {
            Some(datagram) => {
                self.waiting.push_back(datagram);
                self.has_news = true;
                exchange.consume(packet);
            }
            None => exchange.drop(packet, DropReason::Malformed),
        }
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
pub(crate) fn packet_of(datagram: &Datagram, ident: u16) -> Option<Vec<u8>> {
    let Datagram { local, remote, payload } = datagram;
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
