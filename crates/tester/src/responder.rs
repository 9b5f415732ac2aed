//! Answers for the addresses behind a port: ARP (RFC 826) and neighbour
//! solicitations (RFC 4861 section 7.2), so that a router under test finds where
//! to send. Also asks for a router's own address before a test.

use ferrule_base::MacAddr;
use ferrule_pipeline::{Batch, PoolCache};
use ferrule_wire::{Ends, EtherType, Protocol, arp, ethernet, icmpv6, ipv6, ndp};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Answers that wait to be sent.
const WAITING_MAX: usize = 64;

/// Addresses that are at home behind a port, and the MAC address to send to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The first of them.
    pub first: IpAddr,
    /// Number of addresses that follow each other.
    pub count: u64,
    /// Link address that frames to them are sent to.
    pub mac: MacAddr,
}

impl Home {
    fn holds(&self, address: IpAddr) -> bool {
        let number = |address: IpAddr| match address {
            IpAddr::V4(a) => u128::from(a.to_bits()),
            IpAddr::V6(a) => a.to_bits(),
        };
        self.first.is_ipv4() == address.is_ipv4()
            && number(address)
                .checked_sub(number(self.first))
                .is_some_and(|n| n < u128::from(self.count))
    }
}

/// Answers for one port.
#[derive(Clone, Debug, Default)]
pub struct Responder {
    homes: Vec<Home>,
    waiting: VecDeque<Vec<u8>>,
}

impl Responder {
    /// For these addresses.
    pub fn new(homes: Vec<Home>) -> Self {
        Self { homes, waiting: VecDeque::new() }
    }

    fn mac(&self, address: IpAddr) -> Option<MacAddr> {
        self.homes.iter().find(|h| h.holds(address)).map(|h| h.mac)
    }

    /// A frame that is not the tester's.
    pub fn handle(&mut self, frame: &[u8]) {
        if self.homes.is_empty() || self.waiting.len() >= WAITING_MAX {
            return;
        }
        let Ok((eth, payload)) = ethernet::Repr::parse(frame) else { return };
        let answer = match eth.ethertype {
            EtherType::ARP => self.answer_arp(payload),
            EtherType::IPV6 => self.answer_solicitation(eth.src, payload),
            _ => None,
        };
        self.waiting.extend(answer);
    }

    fn answer_arp(&self, payload: &[u8]) -> Option<Vec<u8>> {
        let (request, _) = arp::Repr::parse(payload).ok()?;
        let mac = self.mac(request.target_ip.into())?;
        (request.operation == arp::Operation::Request).then(|| {
            let reply = arp::Repr {
                operation: arp::Operation::Reply,
                sender_mac: mac,
                sender_ip: request.target_ip,
                target_mac: request.sender_mac,
                target_ip: request.sender_ip,
            };
            arp_frame(mac, request.sender_mac, &reply)
        })
    }

    fn answer_solicitation(&self, from: MacAddr, payload: &[u8]) -> Option<Vec<u8>> {
        let (ip, message) = ipv6::Repr::parse(payload).ok()?;
        if ip.next != Protocol::ICMPV6 || ip.hop_limit != ndp::HOP_LIMIT {
            return None;
        }
        let (ndp::Repr::NeighbourSolicitation { target, .. }, _) =
            ndp::Repr::parse(message).ok()?
        else {
            return None;
        };
        let mac = self.mac(target.into())?;
        let reply = ndp::Repr::NeighbourAdvertisement {
            target,
            router: false,
            solicited: true,
            override_cache: true,
            target_link: Some(mac),
        };
        Some(ndp_frame(mac, from, target, ip.src, &reply))
    }

    /// Answers wait to be sent.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Puts answers that wait into `batch`.
    #[inline]
    pub fn poll(&mut self, cache: &mut PoolCache, batch: &mut Batch) {
        while !self.waiting.is_empty() && !batch.is_full() {
            let Some(frame) = self.waiting.pop_front() else { return };
            batch.extend(cache.packet_from(&frame));
        }
    }
}

fn arp_frame(src: MacAddr, dst: MacAddr, message: &arp::Repr) -> Vec<u8> {
    let mut frame = vec![0; crate::rate::FRAME_MIN];
    ethernet::Repr { dst, src, ethertype: EtherType::ARP }.emit(&mut frame);
    message.emit(&mut frame[ethernet::Header::LEN..]);
    frame
}

fn ndp_frame(
    src: MacAddr,
    dst: MacAddr,
    from: Ipv6Addr,
    to: Ipv6Addr,
    message: &ndp::Repr,
) -> Vec<u8> {
    let at = ethernet::Header::LEN + ipv6::Header::LEN;
    let mut frame = vec![0; at + message.len()];
    ethernet::Repr { dst, src, ethertype: EtherType::IPV6 }.emit(&mut frame);
    let mut ip = ipv6::Repr::new(Protocol::ICMPV6, from, to, message.len() as u16);
    ip.hop_limit = ndp::HOP_LIMIT;
    ip.emit(&mut frame[ethernet::Header::LEN..]);
    message.emit(&mut frame[at..]);
    icmpv6::fill_checksum(&Ends::V6(from, to), &mut frame[at..]);
    frame
}

/// The frame that asks for the MAC address of `wanted`; nothing for addresses of
/// two families.
pub fn question(mac: MacAddr, own: IpAddr, wanted: IpAddr) -> Option<Vec<u8>> {
    match (own, wanted) {
        (IpAddr::V4(own), IpAddr::V4(wanted)) => {
            let request = arp::Repr {
                operation: arp::Operation::Request,
                sender_mac: mac,
                sender_ip: own,
                target_mac: MacAddr::ZERO,
                target_ip: wanted,
            };
            Some(arp_frame(mac, MacAddr::BROADCAST, &request))
        }
        (IpAddr::V6(own), IpAddr::V6(wanted)) => {
            let group = ndp::solicited_node(wanted);
            let request =
                ndp::Repr::NeighbourSolicitation { target: wanted, source_link: Some(mac) };
            Some(ndp_frame(mac, ndp::group_mac(group), own, group, &request))
        }
        _ => None,
    }
}

/// The MAC address of `wanted`, if the frame tells it.
pub fn answer(frame: &[u8], wanted: IpAddr) -> Option<MacAddr> {
    let (eth, payload) = ethernet::Repr::parse(frame).ok()?;
    match (eth.ethertype, wanted) {
        (EtherType::ARP, IpAddr::V4(wanted)) => {
            let (message, _) = arp::Repr::parse(payload).ok()?;
            (message.sender_ip == wanted && wanted != Ipv4Addr::UNSPECIFIED)
                .then_some(message.sender_mac)
        }
        (EtherType::IPV6, IpAddr::V6(wanted)) => {
            let (ip, message) = ipv6::Repr::parse(payload).ok()?;
            if ip.next != Protocol::ICMPV6 || ip.hop_limit != ndp::HOP_LIMIT {
                return None;
            }
            match ndp::Repr::parse(message).ok()?.0 {
                ndp::Repr::NeighbourAdvertisement { target, target_link, .. } => {
                    (target == wanted).then_some(target_link.unwrap_or(eth.src))
                }
                _ => None,
            }
        }
        _ => None,
    }
}
