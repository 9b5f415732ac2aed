//! A host of packets alone: it asks and answers ARP, answers echo requests,
//! sends and takes UDP datagrams. What a kernel does in the live demo.

use ferrule_base::{Instant, MacAddr};
use ferrule_pipeline::{Batch, PoolCache, Port};
use ferrule_wire::{EtherType, Protocol, arp, ethernet, icmpv4, ipv4, udp};
use std::collections::HashMap;
use std::net::Ipv4Addr;

/// The port that datagrams come from and go to.
const PORT: u16 = 40_954;
/// Neighbours that a host remembers.
const NEIGHBOURS_MAX: usize = 16;

/// One of the two hosts.
pub struct Host {
    /// Its end of the wire.
    pub port: Box<dyn Port>,
    /// Its buffers.
    pub cache: PoolCache,
    /// Its link address.
    pub mac: MacAddr,
    /// Its address.
    pub ip: Ipv4Addr,
    /// Where everything is sent: the other host, or the gateway.
    pub next_hop: Ipv4Addr,
    /// Who is where.
    pub neighbours: HashMap<Ipv4Addr, MacAddr>,
    /// The number of the last echo reply.
    pub echoed: Option<u16>,
    /// Datagrams taken.
    pub datagrams: u64,
    /// Octets of their payloads.
    pub octets: u64,
    /// Their payloads in order, if they are wanted.
    pub kept: Option<Vec<Vec<u8>>>,
}

impl Host {
    /// Takes what arrived and answers it. How many frames there were.
    pub fn turn(&mut self, now: Instant) -> usize {
        let mut batch = Batch::new();
        self.port.receive(now, &mut self.cache, &mut batch);
        let count = batch.len();
        for packet in batch.drain(..) {
            if let Some(answer) = self.take(packet.data()) {
                self.send(now, &answer);
            }
            self.cache.recycle(packet);
        }
        count
    }

    /// Sends a frame; false if wire or memory have no room.
    pub fn send(&mut self, now: Instant, frame: &[u8]) -> bool {
        let Some(packet) = self.cache.packet_from(frame) else { return false };
        let mut batch = Batch::new();
        batch.push(packet);
        self.port.transmit(now, &mut self.cache, &mut batch);
        match batch.pop() {
            None => true,
            Some(packet) => {
                self.cache.recycle(packet);
                false
            }
        }
    }

    /// Asks who has the next hop's address.
    pub fn ask(&mut self, now: Instant) {
        let (mac, ip) = (MacAddr::BROADCAST, self.next_hop);
        let question = self.arp(arp::Operation::Request, mac, (MacAddr::ZERO, ip));
        self.send(now, &question);
    }

    /// An echo request.
    pub fn echo(&self, to: Ipv4Addr, seq: u16) -> Option<Vec<u8>> {
        let mut message = vec![0; icmpv4::Header::LEN + 56];
        icmpv4::Repr::EchoRequest { ident: 1, seq }.emit(&mut message);
        icmpv4::fill_checksum(&mut message);
        self.packet(Protocol::ICMP, to, &message)
    }

    /// A datagram.
    pub fn datagram(&self, to: Ipv4Addr, payload: &[u8]) -> Option<Vec<u8>> {
        let mut datagram = vec![0; udp::Header::LEN];
        let len = u16::try_from(payload.len()).ok()?;
        udp::Repr { src: PORT, dst: PORT, payload_len: len }.emit(&mut datagram);
        datagram.extend_from_slice(payload);
        udp::fill_checksum(&ferrule_wire::Ends::V4(self.ip, to), &mut datagram);
        self.packet(Protocol::UDP, to, &datagram)
    }

    /// A frame with an IPv4 packet; nothing before the next hop is known.
    fn packet(&self, protocol: Protocol, to: Ipv4Addr, payload: &[u8]) -> Option<Vec<u8>> {
        let next_hop = *self.neighbours.get(&self.next_hop)?;
        let len = u16::try_from(payload.len()).ok()?;
        let header = ipv4::Repr::new(protocol, self.ip, to, len);
        let mut frame = vec![0; ethernet::Header::LEN + header.len()];
        let ethertype = EtherType::IPV4;
        ethernet::Repr { dst: next_hop, src: self.mac, ethertype }.emit(&mut frame);
        header.emit(&mut frame[ethernet::Header::LEN..]);
        frame.extend_from_slice(payload);
        Some(frame)
    }

    fn arp(
        &self,
        operation: arp::Operation,
        to: MacAddr,
        (target_mac, target_ip): (MacAddr, Ipv4Addr),
    ) -> Vec<u8> {
        let message = arp::Repr {
            operation,
            sender_mac: self.mac,
            sender_ip: self.ip,
            target_mac,
            target_ip,
        };
        let mut frame = vec![0; ethernet::Header::LEN + message.len()];
        let ethertype = EtherType::ARP;
        ethernet::Repr { dst: to, src: self.mac, ethertype }.emit(&mut frame);
        message.emit(&mut frame[ethernet::Header::LEN..]);
        frame
    }

    /// Takes a frame; the answer, if there is one.
    fn take(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let (link, payload) = ethernet::Repr::parse(frame).ok()?;
        if link.dst != self.mac && link.dst != MacAddr::BROADCAST {
            return None;
        }
        match link.ethertype {
            EtherType::ARP => self.take_arp(payload),
            EtherType::IPV4 => self.take_packet(payload),
            _ => None,
        }
    }

    fn take_arp(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let (message, _) = arp::Repr::parse(message).ok()?;
        if message.target_ip != self.ip {
            return None;
        }
        let known = self.neighbours.contains_key(&message.sender_ip);
        if known || self.neighbours.len() < NEIGHBOURS_MAX {
            self.neighbours.insert(message.sender_ip, message.sender_mac);
        }
        let sender = (message.sender_mac, message.sender_ip);
        let asks = message.operation == arp::Operation::Request;
        asks.then(|| self.arp(arp::Operation::Reply, message.sender_mac, sender))
    }

    fn take_packet(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let (header, payload) = ipv4::Repr::parse(packet).ok()?;
        if header.dst != self.ip || header.is_fragment() {
            return None;
        }
        match header.protocol {
            Protocol::ICMP => self.take_icmp(header.src, payload),
            Protocol::UDP if udp::checksum_ok(&header.ends(), payload) => {
                let (_, payload) = udp::Repr::parse(payload).ok()?;
                self.datagrams += 1;
                self.octets += payload.len() as u64;
                if let Some(kept) = &mut self.kept {
                    kept.push(payload.to_vec());
                }
                None
            }
            _ => None,
        }
    }

    fn take_icmp(&mut self, from: Ipv4Addr, message: &[u8]) -> Option<Vec<u8>> {
        match icmpv4::Repr::parse(message).ok()? {
            (icmpv4::Repr::EchoRequest { ident, seq }, payload) => {
                let mut reply = vec![0; icmpv4::Header::LEN];
                icmpv4::Repr::EchoReply { ident, seq }.emit(&mut reply);
                reply.extend_from_slice(payload);
                icmpv4::fill_checksum(&mut reply);
                self.packet(Protocol::ICMP, from, &reply)
            }
            (icmpv4::Repr::EchoReply { seq, .. }, _) => {
                self.echoed = Some(seq);
                None
            }
            _ => None,
        }
    }
}
