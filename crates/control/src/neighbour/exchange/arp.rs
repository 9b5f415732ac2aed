//! ARP (RFC 826): requests, replies, and the addresses learned from both.

use crate::neighbour::{Discovery, Fault, State, is_station};
use ferrule_base::{Instant, MacAddr};
use ferrule_wire::arp::{Operation, Repr};
use ferrule_wire::{EtherType, ethernet};
use std::net::{IpAddr, Ipv4Addr};

impl Discovery {
    /// An ARP message.
    ///
    /// 1. The sender is a station on this link, and not this node.
    /// 2. A sender that is known, or asks for this node, is learned; an answer
    ///    counts as one only while a question is open.
    /// 3. A question for an address of ours is answered.
    pub(in crate::neighbour) fn arp(
        &mut self,
        now: Instant,
        iface: u16,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        let (message, _) = Repr::parse(bytes).map_err(|_| Fault::Malformed)?;
        let interface = self.ifaces.get(&iface).ok_or(Fault::Interface)?;
        let (sender, mac) = (IpAddr::V4(message.sender_ip), message.sender_mac);
        if !is_station(mac) || mac == interface.mac {
            return Err(Fault::LinkAddress);
        }
        let target = (iface, IpAddr::V4(message.target_ip));
        let to_us = self.is_ours(target);
        let asks_us = to_us && message.operation == Operation::Request;
        if !message.sender_ip.is_unspecified() {
            if !interface.on_link(sender) {
                return Err(Fault::OffLink);
            }
            if !interface.is_host(sender) {
                return Err(Fault::Address);
            }
            if self.own.contains_key(&(iface, sender)) {
                self.conflict(now, (iface, sender));
                return Ok(());
            }
            let answer = message.operation == Operation::Reply && to_us;
            self.heard(now, iface, sender, mac, answer, asks_us);
        }
        if asks_us {
            self.arp_reply(iface, &message);
        }
        Ok(())
    }

    /// Learns the sender's link address from a message.
    fn heard(
        &mut self,
        now: Instant,
        iface: u16,
        sender: IpAddr,
        mac: MacAddr,
        answer: bool,
        asks_us: bool,
    ) {
        let key = (iface, sender);
        let state = match self.table.state(key) {
            None if asks_us && self.table.has_room_for_heard() => State::Stale(mac),
            None => return,
            Some(State::Incomplete(_)) if answer => State::Reachable(mac),
            Some(State::Probe(old, _)) if answer && old == mac => State::Reachable(mac),
            // Known as that already; its time runs on.
            Some(known) if known.mac() == Some(mac) => return,
            // The neighbour moved, or says so: to be asked soon.
            Some(_) => State::Stale(mac),
        };
        self.learn(now, key, state);
    }

    /// Asks who has `target`.
    pub(super) fn arp_request(&mut self, iface: u16, target: Ipv4Addr, known: Option<MacAddr>) {
        let Some(interface) = self.ifaces.get(&iface) else { return };
        let Some(source) = interface.source_v4(target) else { return };
        let message = Repr {
            operation: Operation::Request,
            sender_mac: interface.mac,
            sender_ip: source,
            target_mac: MacAddr::ZERO,
            target_ip: target,
        };
        self.send(iface, frame(known.unwrap_or(MacAddr::BROADCAST), &message));
    }

    fn arp_reply(&mut self, iface: u16, request: &Repr) {
        let Some(interface) = self.ifaces.get(&iface) else { return };
        let message = Repr {
            operation: Operation::Reply,
            sender_mac: interface.mac,
            sender_ip: request.target_ip,
            target_mac: request.sender_mac,
            target_ip: request.sender_ip,
        };
        self.answer(iface, frame(request.sender_mac, &message));
    }

    /// Announces an own address to the link (RFC 5227 section 2.3).
    pub(super) fn arp_announce(&mut self, iface: u16, own: Ipv4Addr) {
        let Some(interface) = self.ifaces.get(&iface) else { return };
        let message = Repr {
            operation: Operation::Request,
            sender_mac: interface.mac,
            sender_ip: own,
            target_mac: MacAddr::ZERO,
            target_ip: own,
        };
        self.send(iface, frame(MacAddr::BROADCAST, &message));
    }
}

/// The message in its frame.
fn frame(dst: MacAddr, message: &Repr) -> Vec<u8> {
    let link = ethernet::Repr { dst, src: message.sender_mac, ethertype: EtherType::ARP };
    let mut out = vec![0; link.len() + message.len()];
    link.emit(&mut out);
    message.emit(&mut out[link.len()..]);
    out
}
