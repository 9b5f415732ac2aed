//! UDP one way: a source with a schedule, and a sink that counts what came.

use super::payload::{HEAD, Head};
use super::result::{Arrivals, Udp};
use super::schedule::Schedule;
use super::task::Turn;
use ferrule_base::Instant;
use smoltcp::iface::SocketHandle;
use smoltcp::socket::udp::{PacketBuffer, PacketMetadata, Socket};
use smoltcp::wire::IpEndpoint;

/// Octets of the header.
pub const HEADER: usize = 8;
/// Datagrams that wait for a neighbour or the card at most.
const QUEUE: usize = 64;
/// Octets of a datagram at most, for a sink.
const LARGEST: usize = 9216;

fn buffer(packets: usize, octets: usize) -> PacketBuffer<'static> {
    PacketBuffer::new(vec![PacketMetadata::EMPTY; packets], vec![0; octets])
}

/// Sender of a flow of datagrams.
pub struct Source {
    flow: u32,
    to: IpEndpoint,
    payload: Vec<u8>,
    schedule: Schedule,
    socket: SocketHandle,
    refused: u64,
}

impl Source {
    /// `len` counts octets behind the UDP header.
    pub fn new(
        flow: u32,
        (port, to): (u16, IpEndpoint),
        len: usize,
        schedule: Schedule,
        turn: &mut Turn<'_>,
    ) -> Self {
        let payload = vec![0; len.max(HEAD)];
        let mut socket = Socket::new(buffer(1, 0), buffer(QUEUE, QUEUE * payload.len()));
        // A socket that was just made is not bound yet, and the port is not zero.
        let _ = socket.bind(port);
        let socket = turn.sockets.add(socket);
        Self { flow, to, payload, schedule, socket, refused: 0 }
    }

    pub fn due(&self) -> Option<Instant> {
        self.schedule.due()
    }

    pub fn result(&self) -> Udp {
        Udp { sent: self.schedule.taken(), refused: self.refused, ..Udp::default() }
    }

    pub fn turn(&mut self, turn: &mut Turn<'_>) -> bool {
        let socket = turn.sockets.get_mut::<Socket<'_>>(self.socket);
        let mut moved = false;
        while let Some((number, due)) = self.schedule.take(turn.now) {
            Head { flow: self.flow, number, due }.fill(&mut self.payload);
            match socket.send_slice(&self.payload, self.to) {
                Ok(()) => moved = true,
                Err(_) => self.refused += 1,
            }
        }
        moved
    }
}

/// Receiver of a flow of datagrams, which counts them.
pub struct Sink {
    flow: u32,
    /// Octets of Ethernet, IP and UDP headers.
    headers: usize,
    socket: SocketHandle,
    arrivals: Arrivals,
    result: Udp,
}

impl Sink {
    pub fn new(flow: u32, port: u16, headers: usize, turn: &mut Turn<'_>) -> Self {
        let mut socket = Socket::new(buffer(4, 4 * LARGEST), buffer(1, 0));
        let _ = socket.bind(port);
        let socket = turn.sockets.add(socket);
        let (arrivals, result) = (Arrivals::default(), Udp::default());
        Self { flow, headers, socket, arrivals, result }
    }

    pub fn result(&self) -> Udp {
        let Arrivals { unique, duplicates, reordered, .. } = self.arrivals;
        Udp { received: unique, duplicates, reordered, ..self.result }
    }

    pub fn turn(&mut self, turn: &mut Turn<'_>) {
        let socket = turn.sockets.get_mut::<Socket<'_>>(self.socket);
        while let Ok((payload, _)) = socket.recv() {
            let Some(head) = Head::read(payload).filter(|head| head.flow == self.flow) else {
                self.result.broken += 1;
                continue;
            };
            if self.arrivals.take(head.number) {
                self.result.latency.add(turn.now - head.due);
                self.result.octets += (payload.len() + self.headers) as u64;
                let first = self.result.between.map_or(turn.now, |(first, _)| first);
                self.result.between = Some((first, turn.now));
            }
        }
    }
}
