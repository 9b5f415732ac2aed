//! News of network interfaces, from the kernel (rtnetlink(7), `RTMGRP_LINK`): interfaces
//! that came, changed or went. Listening needs no privilege.

use crate::error::{Doing, OpenError};
use netlink_packet_core::{NetlinkBuffer, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::LinkAttribute;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// `RTMGRP_LINK` of `linux/rtnetlink.h`.
const LINKS: u32 = 1;
/// Octets of one datagram at most: an interface is described in about one and a half KiB,
/// one with many virtual functions in more.
const DATAGRAM_MAX: usize = 64 << 10;
/// Datagrams that are read in one go at most.
const READS_MAX: usize = 256;

/// A change among the interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// This interface came, changed or went.
    Of {
        /// Its index.
        index: u32,
        /// Its name, if the message has it.
        name: Option<String>,
        /// True if the interface left, if only for another namespace.
        went: bool,
    },
    /// More news than the socket holds, or a message that cannot be read: check every
    /// interface.
    Lost,
}

/// A socket that hears of interfaces in this network namespace.
pub struct LinkNews {
    socket: Socket,
    datagram: Vec<u8>,
}

impl LinkNews {
    /// Hears everything from now on.
    pub fn new() -> Result<Self, OpenError> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.set_non_blocking(true)?;
            socket.bind(&SocketAddr::new(0, LINKS))?;
            Ok(socket)
        };
        let socket = open().doing(|| "listening for changes of interfaces".into())?;
        Ok(Self { socket, datagram: vec![0; DATAGRAM_MAX] })
    }

    /// Changes heard since the last call.
    pub fn take(&mut self) -> Vec<News> {
        let mut news = Vec::new();
        for _ in 0..READS_MAX {
            let mut free = &mut self.datagram[..];
            match self.socket.recv_from(&mut free, libc::MSG_TRUNC) {
                // Others than the kernel have nothing to say here.
                Ok((_, from)) if from.port_number() != 0 => {}
                Ok((len, _)) => match self.datagram.get(..len) {
                    Some(octets) => read(octets, &mut news),
                    None => news.push(News::Lost),
                },
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // The socket was full; later messages arrive again.
                Err(_) => news.push(News::Lost),
            }
        }
        news
    }
}

impl AsRawFd for LinkNews {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// The messages of one datagram.
fn read(datagram: &[u8], news: &mut Vec<News>) {
    let mut rest = datagram;
    while !rest.is_empty() {
        let len = NetlinkBuffer::new_checked(rest).map(|buffer| buffer.length() as usize);
        let Some(len) = len.ok().filter(|len| (1..=rest.len()).contains(len)) else {
            return news.push(News::Lost);
        };
        news.extend(one(&rest[..len]));
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
}

fn one(message: &[u8]) -> Option<News> {
    let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(message) else {
        return Some(News::Lost);
    };
    let (link, went) = match message.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => (link, false),
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => (link, true),
        _ => return None,
    };
    let name = link.attributes.into_iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name),
        _ => None,
    });
    Some(News::Of { index: link.header.index, name, went })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message as the kernel writes it: header, `struct ifinfomsg`, name.
    fn message(kind: u16, index: u32, name: &[u8]) -> Vec<u8> {
        let mut body = vec![0; 4];
        body.extend(index.to_ne_bytes());
        body.extend([0; 8]);
        body.extend((4 + name.len() as u16).to_ne_bytes());
        body.extend(3_u16.to_ne_bytes());
        body.extend(name);
        body.resize(body.len().next_multiple_of(4), 0);
        let mut octets = (16 + body.len() as u32).to_ne_bytes().to_vec();
        octets.extend(kind.to_ne_bytes());
        octets.extend([0; 10]);
        octets.extend(body);
        octets
    }

    fn heard(datagram: &[u8]) -> Vec<News> {
        let mut news = Vec::new();
        read(datagram, &mut news);
        news
    }

    fn of(index: u32, name: &str, went: bool) -> News {
        News::Of { index, name: Some(name.into()), went }
    }

    #[test]
    fn interfaces_that_come_and_go_are_heard_of_whatever_stands_beside_them() {
        const NEW: u16 = 16;
        const DEL: u16 = 17;
        let (first, second) = (message(NEW, 7, b"eth7\0"), message(DEL, 8, b"veth8\0"));
        let both = [&first[..], &second].concat();
        assert_eq!(heard(&both), [of(7, "eth7", false), of(8, "veth8", true)]);
        assert_eq!(heard(&first), [of(7, "eth7", false)]);
        assert_eq!(heard(&[]), []);
        // Cut within a message, nothing is made up, and the loss is known.
        for len in (1..both.len()).filter(|&len| len != first.len()) {
            let news = heard(&both[..len]);
            assert!(news.len() <= 2 && news.contains(&News::Lost), "{len}: {news:?}");
        }
        // A length that says nothing ends it.
        let mut empty = both.clone();
        empty[..4].copy_from_slice(&0_u32.to_ne_bytes());
        assert_eq!(heard(&empty), [News::Lost]);
    }

    #[test]
    fn socket_that_nobody_wrote_to_has_no_news() {
        let mut news = LinkNews::new().expect("everybody may listen");
        // Others of this namespace may say something meanwhile; it returns in any case.
        let _ = news.take();
    }
}
