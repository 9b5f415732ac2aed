//! A host: what stands at the edge of a network, talks and counts.
//!
//! ```text
//!   tasks: ping, UDP source and sink, TCP source and sink, HTTP client and server, dialogues
//!     │ sockets
//!   smoltcp: ARP, ND, echo replies, ICMP, UDP, TCP
//!     │ frames
//!   card ── the station's one port
//! ```
//!
//! The stack's time has microseconds. Ours is rounded down for it, and a time
//! that it asks for is exact; what it times itself (retransmission, delayed
//! acknowledgement, silence after an unanswered ARP request) may be up to a
//! microsecond early. Sources do not go by the stack's time: a packet is given
//! to it, and leaves, at the very nanosecond of its [`Schedule`].
//!
//! Nothing here is random but the initial sequence numbers, which come from the
//! host's seed.

mod card;
mod datagram;
pub mod dialogue;
mod echo;
mod finder;
mod http;
pub mod payload;
mod result;
mod schedule;
mod stream;
mod task;
#[cfg(test)]
mod tests;

pub use http::digest;
pub use result::{Arrivals, CLASSES_US, Delivery, Http, Outcome, Ping, Spread, Tcp, Udp, rate};
pub use schedule::Schedule;

use crate::station::{Io, Station};
use card::{Card, Described, Wire};
use dialogue::{Behaviour, Dialogue, Party, Script, Speaker};
use ferrule_base::{Duration, Instant, Ledger, MacAddr};
use ferrule_pipeline::Packet;
use finder::Finder;
use smoltcp::iface::{Config, Interface, Route, SocketSet};
use smoltcp::time::Instant as StackTime;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr, IpEndpoint};
use std::any::Any;
use std::net::IpAddr;
use task::{Task, Turn};

/// Octets of an Ethernet header.
const ETHERNET: usize = 14;
/// Addresses of a host at most.
pub const ADDRESSES_MAX: usize = 7;
/// Traffic entries of a network at most: each has ports of its own.
pub const FLOWS_MAX: u32 = 512;
/// Local ports of a flow's clients.
const PORTS_PER_FLOW: u64 = 32;
/// Sinks and servers listen from here on.
const SERVICE_PORTS: u16 = 40_000;
/// Clients and sources send from here on.
const CLIENT_PORTS: u16 = 20_000;
/// Rounds of one visit at most; what is left is done a microsecond later.
const ROUNDS_MAX: usize = 256;
/// The least time between two visits that the host asks for.
const TICK: Duration = Duration::from_micros(1);

/// Addresses, routers and rate of a host.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Its link address.
    pub mac: MacAddr,
    /// Its addresses with prefix lengths, [`ADDRESSES_MAX`] at most.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Its default routers, one of each version at most.
    pub gateways: Vec<IpAddr>,
    /// Octets of its largest packet.
    pub mtu: usize,
    /// Rate of its card in bit/s; nothing: no limit.
    pub rate: Option<u64>,
    /// For initial sequence numbers.
    pub seed: u64,
}

/// Number of a traffic entry, and the other host.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// The number of the entry, below [`FLOWS_MAX`].
    pub number: u32,
    /// The other host's address.
    pub to: IpAddr,
}

/// A host.
pub struct Host {
    config: HostConfig,
    stack: Interface,
    sockets: SocketSet<'static>,
    card: Card,
    finder: Finder,
    tasks: Vec<(u32, Task)>,
    received: u64,
    timeout: Option<Instant>,
}

impl Host {
    /// A host without traffic. Addresses and routers beyond what a host can have
    /// are left out: who reads configurations has refused them.
    pub fn new(config: HostConfig) -> Self {
        let card = Card::new(config.mtu, config.rate);
        let address = HardwareAddress::Ethernet(EthernetAddress(config.mac.0));
        let mut setup = Config::new(address);
        setup.random_seed = config.seed;
        let mut stack = Interface::new(setup, &mut Described(config.mtu), StackTime::ZERO);
        stack.update_ip_addrs(|list| {
            for (ip, len) in config.addresses.iter().take(ADDRESSES_MAX) {
                let _ = list.push(IpCidr::new((*ip).into(), *len));
            }
        });
        stack.routes_mut().update(|list| {
            for gateway in &config.gateways {
                let _ = list.push(match gateway {
                    IpAddr::V4(ip) => Route::new_ipv4_gateway(*ip),
                    IpAddr::V6(ip) => Route::new_ipv6_gateway(*ip),
                });
            }
        });
        let sockets = SocketSet::new(Vec::new());
        let (finder, tasks) = (Finder::default(), Vec::new());
        Self { config, stack, sockets, card, finder, tasks, received: 0, timeout: None }
    }

    /// Configuration of the host.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }

    fn add(&mut self, flow: u32, make: impl FnOnce(&mut Turn<'_>) -> Task) {
        let (sockets, stack) = (&mut self.sockets, self.stack.context());
        let task = make(&mut Turn { now: Instant::ZERO, sockets, stack });
        self.timeout = task.due().into_iter().chain(self.timeout).min();
        self.tasks.push((flow, task));
    }

    /// Looks for the neighbour by which `to` is reached.
    fn find(&mut self, to: IpAddr) {
        let near = self.config.addresses.iter().find(|net| same_network(**net, to));
        let hop = match near {
            Some(_) => Some(to),
            None => self.config.gateways.iter().copied().find(|g| g.is_ipv4() == to.is_ipv4()),
        };
        let Some(hop) = hop else { return };
        let own = self.config.addresses.iter().find(|net| same_network(**net, hop));
        if let Some((own, _)) = own {
            self.finder.want(hop, *own);
            self.timeout = self.finder.due().into_iter().chain(self.timeout).min();
        }
    }

    /// Sends echo requests whose frames have `octets`, without FCS.
    pub fn ping(&mut self, flow: Flow, octets: usize, schedule: Schedule) {
        self.find(flow.to);
        let len = octets.saturating_sub(ETHERNET + ip_header(flow.to) + echo::ECHO);
        let Flow { number, to } = flow;
        self.add(number, |turn| {
            Task::Ping(echo::Pinger::new(number, to.into(), len, schedule, turn))
        });
    }

    /// Sends datagrams whose frames have `octets`, without FCS.
    pub fn send_datagrams(&mut self, flow: Flow, octets: usize, schedule: Schedule) {
        self.find(flow.to);
        let headers = ETHERNET + ip_header(flow.to) + datagram::HEADER;
        let len = octets.saturating_sub(headers);
        self.add(flow.number, |turn| {
            let ends = (client_port(flow.number), service(flow));
            Task::UdpSource(datagram::Source::new(flow.number, ends, len, schedule, turn))
        });
    }

    /// Counts the datagrams of a flow to this host at `flow.to`.
    pub fn count_datagrams(&mut self, flow: Flow) {
        let headers = ETHERNET + ip_header(flow.to) + datagram::HEADER;
        self.add(flow.number, |turn| {
            let port = service_port(flow.number);
            Task::UdpSink(datagram::Sink::new(flow.number, port, headers, turn))
        });
    }

    /// Sends a stream from `between.0` on: so many octets, and none after `between.1`.
    pub fn send_stream(
        &mut self,
        flow: Flow,
        between: (Instant, Instant),
        bytes: Option<u64>,
        window: usize,
    ) {
        self.find(flow.to);
        self.add(flow.number, |turn| {
            let ends = (client_port(flow.number), service(flow));
            Task::TcpSource(stream::Source::new(flow.number, ends, between, bytes, window, turn))
        });
    }

    /// Takes the stream of a flow to this host.
    pub fn take_stream(&mut self, flow: Flow, window: usize) {
        self.add(flow.number, |turn| {
            let port = service_port(flow.number);
            Task::TcpSink(stream::Sink::new(flow.number, port, window, turn))
        });
    }

    /// Fetches `count` bodies of `bytes` octets, one after the other, beginning
    /// none at `between.1` or later.
    pub fn fetch(
        &mut self,
        flow: Flow,
        between: (Instant, Instant),
        (bytes, count): (u64, u64),
        window: usize,
    ) {
        self.find(flow.to);
        self.add(flow.number, |turn| {
            let ends = (client_port(flow.number), service(flow));
            let wanted = (bytes, count);
            Task::HttpClient(http::Client::new(flow.number, ends, between, wanted, window, turn))
        });
    }

    /// Serves the fetches of a flow to this host.
    pub fn serve(&mut self, flow: Flow, window: usize) {
        self.add(flow.number, |turn| {
            Task::HttpServer(http::Server::new(service_port(flow.number), window, turn))
        });
    }

    /// Takes a party's part in a dialogue with the other host, which begins at `start`.
    pub fn converse(
        &mut self,
        flow: Flow,
        party: Party,
        start: Instant,
        script: Script,
        behaviour: &Behaviour,
    ) {
        self.find(flow.to);
        self.add(flow.number, |turn| {
            let ports = [dialogue_port(flow.number), client_port(flow.number)];
            let ends = (IpAddress::from(flow.to), ports);
            let who = (flow.number, party);
            Task::Speaker(Speaker::new(who, ends, start, script, behaviour, turn))
        });
    }

    /// Result of a flow's dialogue so far, as this host sees it.
    pub fn dialogue(&self, flow: u32) -> Option<Dialogue> {
        let mut own = self.tasks.iter().filter(|(number, _)| *number == flow);
        own.find_map(|(_, task)| match task {
            Task::Speaker(speaker) => Some(speaker.result()),
            _ => None,
        })
    }

    /// Allows fragmentation of this host's IPv4 packets: they leave without DF. Without this they
    /// carry it, as those of hosts do that discover the path MTU (RFC 1191).
    pub fn allow_fragments(&mut self) {
        self.card.may_be_cut = true;
    }

    /// Result that this host counted for a flow; nothing if it has no part in it, or the other host
    /// counts. (With both ends here, both counts are joined.)
    pub fn outcome(&self, flow: u32) -> Option<Outcome> {
        let own = self.tasks.iter().filter(|(number, _)| *number == flow);
        own.filter_map(|(_, task)| task.outcome()).reduce(Outcome::join)
    }

    /// Amount received without duplicates: packets, and octets of streams.
    pub fn delivered(&self) -> u64 {
        self.tasks.iter().map(|(_, task)| task.delivered()).sum()
    }

    /// Lets stack and tasks do all that can be done now.
    fn drive(&mut self, io: &mut Io<'_>, arrived: Option<Packet>) {
        let now = io.now;
        let stack_now = StackTime::from_micros((now.as_nanos() / 1000) as i64);
        self.card.release(now, io.sent);
        let mac = self.config.mac;
        if let Some(packet) = &arrived {
            self.finder.hear(now, packet.data());
        }
        // With nothing more to send of its own accord, a host need find nobody.
        let active = self.tasks.iter().any(|(_, task)| task.due().is_some());
        if active {
            self.finder.ask(now, mac, |frame| self.card.send(io, frame));
        }
        let mut wire = Wire { card: &mut self.card, io, arrived, spare: None };
        for _ in 0..ROUNDS_MAX {
            self.stack.poll(stack_now, &mut wire, &mut self.sockets);
            let (sockets, stack) = (&mut self.sockets, self.stack.context());
            let mut turn = Turn { now, sockets, stack };
            let mut moved = false;
            for (_, task) in &mut self.tasks {
                moved |= task.turn(&mut turn);
            }
            if !moved {
                break;
            }
        }
        if let Some(spare) = wire.spare.take() {
            wire.io.cache.recycle(spare);
        }
        let due: Vec<Instant> = self.tasks.iter().filter_map(|(_, task)| task.due()).collect();
        let find = self.finder.due().filter(|_| !due.is_empty());
        let asked = self.stack.poll_at(stack_now, &self.sockets).map(|at| {
            let micros = u64::try_from(at.total_micros()).unwrap_or(0);
            Instant::from_nanos(micros.saturating_mul(1000))
        });
        let due = due.into_iter().chain(find).chain(self.card.due());
        self.timeout = due.chain(asked).min().map(|at| if at <= now { now + TICK } else { at });
    }
}

impl Station for Host {
    fn receive(&mut self, io: &mut Io<'_>, _port: usize, packet: Packet) {
        self.received += 1;
        self.drive(io, Some(packet));
    }

    fn wake(&mut self, io: &mut Io<'_>) {
        self.drive(io, None);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.timeout
    }

    fn ledger(&self) -> Ledger {
        let received = self.received;
        let Card { made, sent, dropped, .. } = self.card;
        Ledger { received, made, sent, consumed: received, dropped, held: self.card.held() }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// True if an address is in the network of another with its prefix length.
pub(crate) fn same_network((own, len): (IpAddr, u8), to: IpAddr) -> bool {
    let equal = |a: u128, b: u128, bits: u32| {
        (a ^ b).checked_shr(bits.saturating_sub(u32::from(len))).is_none_or(|rest| rest == 0)
    };
    match (own, to) {
        (IpAddr::V4(a), IpAddr::V4(b)) => equal(a.to_bits().into(), b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => equal(a.to_bits(), b.to_bits(), 128),
        _ => false,
    }
}

/// Octets of an IP header without options.
const fn ip_header(to: IpAddr) -> usize {
    if to.is_ipv4() { 20 } else { 40 }
}

/// The shortest frame that ping and UDP can send to an address.
pub const fn frame_min(to: IpAddr) -> usize {
    ETHERNET + ip_header(to) + datagram::HEADER + payload::HEAD
}

fn service_port(flow: u32) -> u16 {
    SERVICE_PORTS + (flow % FLOWS_MAX) as u16
}

/// The first of a dialogue's connections.
fn dialogue_port(flow: u32) -> u16 {
    let number = (flow % FLOWS_MAX) as usize * dialogue::CONNECTIONS_MAX;
    SERVICE_PORTS + FLOWS_MAX as u16 + number as u16
}

fn client_port(flow: u32) -> u16 {
    CLIENT_PORTS + (flow % FLOWS_MAX) as u16 * PORTS_PER_FLOW as u16
}

fn service(flow: Flow) -> IpEndpoint {
    IpEndpoint::new(IpAddress::from(flow.to), service_port(flow.number))
}
