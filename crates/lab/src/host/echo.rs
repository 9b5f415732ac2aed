//! Ping: echo requests by a schedule, and their round trips. Replies are given
//! by the other host's stack.

use super::payload::{HEAD, Head};
use super::result::{Arrivals, Ping};
use super::schedule::Schedule;
use super::task::Turn;
use ferrule_base::Instant;
use smoltcp::iface::SocketHandle;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::socket::icmp::{Endpoint, PacketBuffer, PacketMetadata, Socket};
use smoltcp::wire::{Icmpv4Packet, Icmpv4Repr, Icmpv6Packet, Icmpv6Repr, IpAddress, Ipv6Address};

/// Octets of an echo message's own header.
pub const ECHO: usize = 8;
/// Requests that wait for a neighbour at most, and replies that wait for us.
const QUEUE: usize = 16;

/// Sender of echo requests.
pub struct Pinger {
    flow: u32,
    to: IpAddress,
    /// Octets behind the header of the message.
    len: usize,
    schedule: Schedule,
    socket: SocketHandle,
    arrivals: Arrivals,
    result: Ping,
}

impl Pinger {
    pub fn new(
        flow: u32,
        to: IpAddress,
        len: usize,
        schedule: Schedule,
        turn: &mut Turn<'_>,
    ) -> Self {
        let len = len.max(HEAD);
        let buffer =
            || PacketBuffer::new(vec![PacketMetadata::EMPTY; QUEUE], vec![0; QUEUE * (len + ECHO)]);
        let mut socket = Socket::new(buffer(), buffer());
        // A socket that was just made is not bound yet, and the number is not zero.
        let _ = socket.bind(Endpoint::Ident(ident(flow)));
        let socket = turn.sockets.add(socket);
        let (arrivals, result) = (Arrivals::default(), Ping::default());
        Self { flow, to, len, schedule, socket, arrivals, result }
    }

    pub fn due(&self) -> Option<Instant> {
        self.schedule.due()
    }

    pub fn result(&self) -> Ping {
        let Arrivals { unique, duplicates, .. } = self.arrivals;
        Ping { sent: self.schedule.taken(), received: unique, duplicates, ..self.result }
    }

    pub fn turn(&mut self, turn: &mut Turn<'_>) -> bool {
        let socket = turn.sockets.get_mut::<Socket<'_>>(self.socket);
        let mut moved = false;
        while let Ok((message, from)) = socket.recv() {
            if let Some(head) = reply(message).filter(|h| h.flow == self.flow && from == self.to)
                && self.arrivals.take(head.number)
            {
                self.result.round_trip.add(turn.now - head.due);
            }
        }
        while let Some((number, due)) = self.schedule.take(turn.now) {
            let mut payload = vec![0; self.len];
            Head { flow: self.flow, number, due }.fill(&mut payload);
            let message = request(self.to, ident(self.flow), number as u16, &payload);
            match socket.send_slice(&message, self.to) {
                Ok(()) => moved = true,
                Err(_) => self.result.refused += 1,
            }
        }
        moved
    }
}

/// Echo identifier of a flow's pings.
fn ident(flow: u32) -> u16 {
    0x4000 | (flow as u16 & 0x3fff)
}

fn request(to: IpAddress, ident: u16, seq_no: u16, data: &[u8]) -> Vec<u8> {
    let sums = ChecksumCapabilities::ignored();
    let mut message = vec![0; ECHO + data.len()];
    match to {
        IpAddress::Ipv4(_) => Icmpv4Repr::EchoRequest { ident, seq_no, data }
            .emit(&mut Icmpv4Packet::new_unchecked(&mut message), &sums),
        IpAddress::Ipv6(to) => Icmpv6Repr::EchoRequest { ident, seq_no, data }.emit(
            &Ipv6Address::UNSPECIFIED,
            &to,
            &mut Icmpv6Packet::new_unchecked(&mut message),
            &sums,
        ),
    }
    message
}

/// Head of an echo reply's payload, of either version: they differ in the type alone.
fn reply(message: &[u8]) -> Option<Head> {
    let (header, payload) = message.split_at_checked(ECHO)?;
    matches!(header[0], 0 | 129).then(|| Head::read(payload)).flatten()
}
