//! One host's part in one traffic entry.

use super::datagram;
use super::dialogue::Speaker;
use super::echo::Pinger;
use super::http;
use super::result::Outcome;
use super::stream;
use ferrule_base::Instant;
use smoltcp::iface::{Context, SocketSet};

/// Context that a part gets for its turn.
pub struct Turn<'a> {
    pub now: Instant,
    pub sockets: &'a mut SocketSet<'static>,
    pub stack: &'a mut Context,
}

/// A part.
pub enum Task {
    Ping(Pinger),
    UdpSource(datagram::Source),
    UdpSink(datagram::Sink),
    TcpSource(stream::Source),
    TcpSink(stream::Sink),
    HttpClient(http::Client),
    HttpServer(http::Server),
    Speaker(Speaker),
}

impl Task {
    /// Does what can be done now; true if the stack has something to send for it.
    pub fn turn(&mut self, turn: &mut Turn<'_>) -> bool {
        match self {
            Self::Ping(task) => task.turn(turn),
            Self::UdpSource(task) => task.turn(turn),
            Self::UdpSink(task) => {
                task.turn(turn);
                false
            }
            Self::TcpSource(task) => task.turn(turn),
            Self::TcpSink(task) => task.turn(turn),
            Self::HttpClient(task) => task.turn(turn),
            Self::HttpServer(task) => task.turn(turn),
            Self::Speaker(task) => task.turn(turn),
        }
    }

    /// Time at which it has something to do of its own accord.
    pub fn due(&self) -> Option<Instant> {
        match self {
            Self::Ping(task) => task.due(),
            Self::UdpSource(task) => task.due(),
            Self::TcpSource(task) => task.due(),
            Self::HttpClient(task) => task.due(),
            Self::Speaker(task) => task.due(),
            Self::UdpSink(_) | Self::TcpSink(_) | Self::HttpServer(_) => None,
        }
    }

    /// Amount received without duplicates: packets, or octets of a stream.
    pub fn delivered(&self) -> u64 {
        match self {
            Self::Ping(task) => task.result().received,
            Self::UdpSink(task) => task.result().received,
            Self::TcpSink(task) => task.result().received,
            Self::HttpClient(task) => task.received(),
            Self::Speaker(task) => task.received(),
            Self::UdpSource(_) | Self::TcpSource(_) | Self::HttpServer(_) => 0,
        }
    }

    /// Result so far; nothing if the other side counts.
    pub fn outcome(&self) -> Option<Outcome> {
        Some(match self {
            Self::Ping(task) => Outcome::Ping(task.result()),
            Self::UdpSource(task) => Outcome::Udp(task.result()),
            Self::UdpSink(task) => Outcome::Udp(task.result()),
            Self::TcpSource(task) => Outcome::Tcp(task.result()),
            Self::TcpSink(task) => Outcome::Tcp(task.result()),
            Self::HttpClient(task) => Outcome::Http(task.result()),
            Self::HttpServer(_) | Self::Speaker(_) => return None,
        })
    }
}
