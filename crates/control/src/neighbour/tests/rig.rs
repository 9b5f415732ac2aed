//! A core with one interface, its clock, and the messages of its neighbours.

use crate::neighbour::{Command, Discovery, Event, Fault, Interface, News, Order, Timer};
use crate::{Core, Refused};
use ferrule_base::{Duration, Instant, MacAddr};
use ferrule_wire::arp::{self, Operation};
use ferrule_wire::{EtherType, Protocol, ethernet, icmpv6, ipv6, mld, ndp};
use std::net::{IpAddr, Ipv6Addr};

pub(super) const IFACE: u16 = 4;
pub(super) const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
pub(super) const ALICE: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
pub(super) const MALLORY: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xbd]);

pub(super) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(super) fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

pub(super) fn interface() -> Interface {
    Interface {
        id: IFACE,
        mac: OWN,
        v4: vec![("10.0.0.1".parse().unwrap(), 24)],
        v6: vec![(v6("fe80::1"), 64), (v6("2001:db8::1"), 64)],
    }
}

/// Order or news of the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Order(Order),
    News(News),
}

pub(super) struct Rig {
    pub core: Discovery,
    pub now: Instant,
    pub sent: Vec<String>,
    pub events: Vec<Wish>,
    /// The data path has no room.
    pub is_full: bool,
}

impl Rig {
    /// With the interface up, its addresses announced.
    pub(super) fn new() -> Self {
        let mut rig = Self::bare();
        rig.command(Command::Interface(interface()));
        rig.pass(10_000);
        rig.sent.clear();
        // In the order of addresses.
        let v6 = interface().v6.into_iter().rev().map(|(own, _)| unique(&own.to_string()));
        assert_eq!(rig.events(), v6.collect::<Vec<_>>());
        rig
    }

    /// Without an interface.
    pub(super) fn bare() -> Self {
        let now = Instant::from_secs(100);
        let (sent, events) = (Vec::new(), Vec::new());
        Self { core: Discovery::new(), now, sent, events, is_full: false }
    }

    fn drain(&mut self) {
        while let Some((iface, frame)) = self.core.poll_transmit() {
            assert_eq!(iface, IFACE);
            self.sent.push(text(&frame));
        }
        while let Some((token, order)) = self.core.poll_order() {
            self.events.push(Wish::Order(order));
            let is_refused = self.is_full && matches!(order, Order::Set { .. });
            let answer = if is_refused { Err(Refused("no room".into())) } else { Ok(()) };
            self.core.handle_answer(self.now, token, answer);
        }
        self.events.extend(std::iter::from_fn(|| self.core.poll_news()).map(Wish::News));
    }

    pub(super) fn command(&mut self, command: Command) {
        self.core.handle_command(self.now, command);
        self.drain();
    }

    pub(super) fn resolve(&mut self, neighbour: &str) {
        self.core.handle_event(self.now, Event::Waits { iface: IFACE, ip: ip(neighbour) });
        self.drain();
    }

    pub(super) fn keep(&mut self, neighbour: &str) {
        self.command(Command::Keep { iface: IFACE, ip: ip(neighbour) });
    }

    pub(super) fn hear(&mut self, frame: &[u8]) -> Result<(), Fault> {
        let result = self.core.handle_message(self.now, IFACE, frame);
        self.drain();
        result
    }

    /// Lets time pass, with every timer at its time.
    pub(super) fn pass(&mut self, millis: u64) {
        let end = self.now + Duration::from_millis(millis);
        for _ in 0..10_000 {
            match self.core.poll_timeout() {
                Some(at) if at <= end => {
                    self.now = self.now.max(at);
                    self.core.handle_timeout(self.now);
                    self.drain();
                }
                _ => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!("timers without end");
    }

    pub(super) fn timer(&self) -> Option<Timer> {
        self.core.table.next().map(|(_, timer)| timer)
    }

    /// Frames sent since the last call.
    pub(super) fn sent(&mut self) -> Vec<String> {
        std::mem::take(&mut self.sent)
    }

    /// Orders and news since the last call.
    pub(super) fn events(&mut self) -> Vec<Wish> {
        std::mem::take(&mut self.events)
    }
}

pub(super) fn set(neighbour: &str, mac: MacAddr) -> Wish {
    Wish::Order(Order::Set { iface: IFACE, ip: ip(neighbour), mac })
}

pub(super) fn remove(neighbour: &str) -> Wish {
    Wish::Order(Order::Remove { iface: IFACE, ip: ip(neighbour) })
}

pub(super) fn unreachable(neighbour: &str) -> Wish {
    Wish::News(News::Unreachable { iface: IFACE, ip: ip(neighbour) })
}

pub(super) fn unique(own: &str) -> Wish {
    Wish::News(News::Unique { iface: IFACE, ip: own.parse().unwrap() })
}

pub(super) fn duplicate(own: &str) -> Wish {
    Wish::News(News::Duplicate { iface: IFACE, ip: ip(own) })
}

/// A frame in a line: receiver and contents; everything in it is checked.
fn text(frame: &[u8]) -> String {
    let (link, payload) = ethernet::Repr::parse(frame).unwrap();
    assert_eq!(link.src, OWN);
    if link.ethertype == EtherType::ARP {
        let (message, _) = arp::Repr::parse(payload).unwrap();
        assert_eq!(message.sender_mac, OWN);
        return format!("{}: {message}", link.dst);
    }
    let (header, message) = ipv6::Repr::parse(payload).unwrap();
    if let Some(message) = message.strip_prefix(&mld::ROUTER_ALERT) {
        let ends = ferrule_wire::Ends::V6(header.src, header.dst);
        assert!(icmpv6::checksum_ok(&ends, message));
        assert_eq!((header.next, header.hop_limit), (Protocol::HOP_BY_HOP, 1));
        assert_eq!(link.dst, ndp::group_mac(header.dst));
        let (message, _) = mld::Repr::parse(message).unwrap();
        return format!("{} > {}: {message}", header.src, header.dst);
    }
    assert!(icmpv6::checksum_ok(&header.ends(), message));
    assert_eq!(header.hop_limit, 255);
    let (message, _) = ndp::Repr::parse(message).unwrap();
    format!("{}: {} > {}: {message}", link.dst, header.src, header.dst)
}

pub(super) fn link(dst: MacAddr, src: MacAddr, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 14];
    ethernet::Repr { dst, src, ethertype }.emit(&mut out);
    out.extend(payload);
    out
}

/// An ARP message from `mac`: operation, sender, target.
pub(super) fn arp(operation: Operation, mac: MacAddr, sender: &str, target: &str) -> Vec<u8> {
    let message = arp::Repr {
        operation,
        sender_mac: mac,
        sender_ip: sender.parse().unwrap(),
        target_mac: OWN,
        target_ip: target.parse().unwrap(),
    };
    let mut body = vec![0; message.len()];
    message.emit(&mut body);
    let src = if mac.is_group() || mac == MacAddr::ZERO { ALICE } else { mac };
    link(OWN, src, EtherType::ARP, &body)
}

/// A neighbour discovery message as a packet in a frame.
pub(super) fn nd(src: &str, dst: &str, hop_limit: u8, message: &ndp::Repr) -> Vec<u8> {
    let mut header = ipv6::Repr::new(Protocol::ICMPV6, v6(src), v6(dst), message.len() as u16);
    header.hop_limit = hop_limit;
    let mut packet = vec![0; header.len() + message.len()];
    header.emit(&mut packet);
    message.emit(&mut packet[header.len()..]);
    icmpv6::fill_checksum(&header.ends(), &mut packet[header.len()..]);
    link(OWN, ALICE, EtherType::IPV6, &packet)
}

/// A listener discovery message as a packet in a frame to a group.
pub(super) fn listener(src: &str, dst: &str, hop_limit: u8, message: &mld::Repr) -> Vec<u8> {
    let len = mld::ROUTER_ALERT.len() + message.len();
    let mut header = ipv6::Repr::new(Protocol::HOP_BY_HOP, v6(src), v6(dst), len as u16);
    header.hop_limit = hop_limit;
    let mut packet = vec![0; header.len()];
    header.emit(&mut packet);
    packet.extend(mld::ROUTER_ALERT);
    let at = packet.len();
    packet.resize(at + message.len(), 0);
    message.emit(&mut packet[at..]);
    icmpv6::fill_checksum(&ferrule_wire::Ends::V6(v6(src), v6(dst)), &mut packet[at..]);
    link(ndp::group_mac(v6(dst)), ALICE, EtherType::IPV6, &packet)
}

pub(super) fn solicitation(target: &str, source_link: Option<MacAddr>) -> ndp::Repr {
    ndp::Repr::NeighbourSolicitation { target: v6(target), source_link }
}

/// An advertisement: solicited, override.
pub(super) fn advertisement(
    target: &str,
    [solicited, override_cache]: [bool; 2],
    target_link: Option<MacAddr>,
) -> ndp::Repr {
    let target = v6(target);
    ndp::Repr::NeighbourAdvertisement {
        target,
        router: false,
        solicited,
        override_cache,
        target_link,
    }
}
