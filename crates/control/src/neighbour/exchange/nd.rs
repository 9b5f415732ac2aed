//! Neighbour discovery (RFC 4861 section 7): solicitations, advertisements, and the
//! addresses learned from both.

use crate::neighbour::{Discovery, Fault, Own, State, is_station};
use ferrule_base::{Instant, MacAddr};
use ferrule_wire::ndp::{self, HOP_LIMIT, group_mac, solicited_node};
use ferrule_wire::{EtherType, Protocol, ethernet, icmpv6, ipv6};
use std::net::{IpAddr, Ipv6Addr};

/// Group of all nodes on the link.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// A message that passed the checks of RFC 4861 section 7.1, with its sender.
struct Heard {
    iface: u16,
    /// Link address of the frame's sender.
    link: MacAddr,
    src: Ipv6Addr,
    dst: Ipv6Addr,
}

impl Discovery {
    /// An IPv6 packet that should be neighbour discovery, or listener discovery.
    pub(in crate::neighbour) fn discovery(
        &mut self,
        now: Instant,
        iface: u16,
        link: MacAddr,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        let (header, message) = ipv6::Repr::parse(bytes).map_err(|_| Fault::Malformed)?;
        if header.next == Protocol::HOP_BY_HOP {
            return self.listeners(now, iface, &header, message);
        }
        if header.next != Protocol::ICMPV6 || !icmpv6::checksum_ok(&header.ends(), message) {
            return Err(Fault::Malformed);
        }
        if header.hop_limit != HOP_LIMIT {
            return Err(Fault::HopLimit);
        }
        let (repr, _) = ndp::Repr::parse(message).map_err(|_| Fault::Malformed)?;
        let heard = Heard { iface, link, src: header.src, dst: header.dst };
        match repr {
            ndp::Repr::NeighbourSolicitation { target, source_link } => {
                self.solicitation(now, &heard, target, source_link)
            }
            ndp::Repr::NeighbourAdvertisement {
                target,
                solicited,
                override_cache,
                target_link,
                ..
            } => {
                if solicited && heard.dst.is_multicast() {
                    return Err(Fault::Solicited);
                }
                self.advertisement(now, &heard, target, solicited, override_cache, target_link)
            }
            ndp::Repr::RouterSolicitation { .. }
            | ndp::Repr::RouterAdvertisement { .. }
            | ndp::Repr::Redirect { .. } => Err(Fault::Router),
        }
    }

    /// A solicitation arrived (RFC 4861 section 7.2.3, RFC 4862 section 5.4.3).
    fn solicitation(
        &mut self,
        now: Instant,
        heard: &Heard,
        target: Ipv6Addr,
        source_link: Option<MacAddr>,
    ) -> Result<(), Fault> {
        if target.is_multicast() {
            return Err(Fault::Address);
        }
        let iface = heard.iface;
        let key = (iface, IpAddr::V6(target));
        if heard.src.is_unspecified() {
            // Checks for a duplicate of an own address.
            if heard.dst != solicited_node(target) || source_link.is_some() {
                return Err(Fault::Unspecified);
            }
            if self.own.get(&key) == Some(&Own::Tentative) {
                self.duplicate(key);
            } else if self.is_ours(key) {
                self.advertise(iface, target, None);
            }
            return Ok(());
        }
        let sender = IpAddr::V6(heard.src);
        let interface = self.ifaces.get(&iface).ok_or(Fault::Interface)?;
        if !interface.on_link(sender) {
            return Err(Fault::OffLink);
        }
        if !interface.is_host(sender) {
            return Err(Fault::Address);
        }
        if source_link.is_some_and(|mac| !is_station(mac) || mac == interface.mac) {
            return Err(Fault::LinkAddress);
        }
        if self.own.contains_key(&(iface, sender)) {
            self.conflict(now, (iface, sender));
            return Ok(());
        }
        if !self.is_ours(key) {
            return Ok(());
        }
        if let Some(mac) = source_link {
            let known = self.table.state((iface, sender));
            let room = known.is_some() || self.table.has_room_for_heard();
            if room && known.and_then(State::mac) != Some(mac) {
                self.learn(now, (iface, sender), State::Stale(mac));
            }
        }
        self.advertise(iface, target, Some((heard.src, source_link.unwrap_or(heard.link))));
        Ok(())
    }

    /// An advertisement arrived (RFC 4861 section 7.2.5).
    fn advertisement(
        &mut self,
        now: Instant,
        heard: &Heard,
        target: Ipv6Addr,
        solicited: bool,
        override_cache: bool,
        target_link: Option<MacAddr>,
    ) -> Result<(), Fault> {
        let iface = heard.iface;
        let key = (iface, IpAddr::V6(target));
        let interface = self.ifaces.get(&iface).ok_or(Fault::Interface)?;
        if target.is_multicast() || !interface.is_host(IpAddr::V6(heard.src)) {
            return Err(Fault::Address);
        }
        if target_link.is_some_and(|mac| !is_station(mac) || mac == interface.mac) {
            return Err(Fault::LinkAddress);
        }
        match self.own.get(&key) {
            Some(Own::Tentative) => {
                self.duplicate(key);
                return Ok(());
            }
            Some(_) => {
                self.conflict(now, key);
                return Ok(());
            }
            None => {}
        }
        let Some(state) = self.table.state(key) else { return Ok(()) };
        let next = match (state.mac(), target_link) {
            (None, None) => return Ok(()),
            // An answer counts as one while a question is open.
            (None, Some(mac)) if solicited && matches!(state, State::Incomplete(_)) => {
                State::Reachable(mac)
            }
            (None, Some(mac)) => State::Stale(mac),
            (Some(old), new) => {
                let mac = new.unwrap_or(old);
                if mac != old && !override_cache {
                    match state {
                        State::Reachable(_) => State::Stale(old),
                        _ => return Ok(()),
                    }
                } else if mac != old {
                    State::Stale(mac)
                } else if solicited && matches!(state, State::Probe(..)) {
                    State::Reachable(mac)
                } else {
                    return Ok(());
                }
            }
        };
        self.learn(now, key, next);
        Ok(())
    }

    /// Asks who has `target`, from an address that is ours for sure.
    pub(super) fn solicit(&mut self, iface: u16, target: Ipv6Addr, known: Option<MacAddr>) {
        let Some(interface) = self.ifaces.get(&iface) else { return };
        let ours = |&a: &Ipv6Addr| self.is_ours((iface, IpAddr::V6(a)));
        let Some(src) = interface.sources_v6(target).find(ours) else { return };
        let message = ndp::Repr::NeighbourSolicitation { target, source_link: Some(interface.mac) };
        let (dst, mac) = match known {
            Some(mac) => (target, mac),
            None => {
                let group = solicited_node(target);
                (group, group_mac(group))
            }
        };
        self.send(iface, frame(interface.mac, mac, src, dst, &message));
    }

    /// Asks for other users of an own address (RFC 4862 section 5.4.2).
    pub(super) fn detect(&mut self, iface: u16, own: Ipv6Addr) {
        let Some(interface) = self.ifaces.get(&iface) else { return };
        let message = ndp::Repr::NeighbourSolicitation { target: own, source_link: None };
        let group = solicited_node(own);
        let bytes = frame(interface.mac, group_mac(group), Ipv6Addr::UNSPECIFIED, group, &message);
        self.send(iface, bytes);
    }

    /// Says that an address is ours: to the one who asked, or to all.
    pub(super) fn advertise(&mut self, iface: u16, own: Ipv6Addr, to: Option<(Ipv6Addr, MacAddr)>) {
        let Some(interface) = self.ifaces.get(&iface) else { return };
        let message = ndp::Repr::NeighbourAdvertisement {
            target: own,
            router: true,
            solicited: to.is_some(),
            override_cache: true,
            target_link: Some(interface.mac),
        };
        let (dst, mac) = to.unwrap_or((ALL_NODES, group_mac(ALL_NODES)));
        let frame = frame(interface.mac, mac, own, dst, &message);
        match to {
            Some(_) => self.answer(iface, frame),
            None => self.send(iface, frame),
        }
    }
}

/// Headers of a message.
pub(super) struct Frame {
    /// Own link address.
    pub mac: MacAddr,
    pub src: Ipv6Addr,
    pub dst: Ipv6Addr,
    pub hop_limit: u8,
}

impl Frame {
    /// A message of `len` octets to a group, in its packet in its frame; `front` stands
    /// before it, whose protocol is `next`.
    pub(super) fn around(
        &self,
        next: Protocol,
        front: &[u8],
        len: usize,
        emit: impl FnOnce(&mut [u8]),
    ) -> Vec<u8> {
        self.to(group_mac(self.dst), next, front, len, emit)
    }

    fn to(
        &self,
        link_dst: MacAddr,
        next: Protocol,
        front: &[u8],
        len: usize,
        emit: impl FnOnce(&mut [u8]),
    ) -> Vec<u8> {
        let link = ethernet::Repr { dst: link_dst, src: self.mac, ethertype: EtherType::IPV6 };
        let mut header = ipv6::Repr::new(next, self.src, self.dst, (front.len() + len) as u16);
        header.hop_limit = self.hop_limit;
        let mut out = vec![0; link.len() + header.len() + front.len() + len];
        link.emit(&mut out);
        let packet = &mut out[link.len()..];
        header.emit(packet);
        let (before, body) = packet[header.len()..].split_at_mut(front.len());
        before.copy_from_slice(front);
        emit(body);
        icmpv6::fill_checksum(&header.ends(), body);
        out
    }
}

/// A message of neighbour discovery in its packet in its frame.
fn frame(
    mac: MacAddr,
    link_dst: MacAddr,
    src: Ipv6Addr,
    dst: Ipv6Addr,
    message: &ndp::Repr,
) -> Vec<u8> {
    let frame = Frame { mac, src, dst, hop_limit: HOP_LIMIT };
    frame.to(link_dst, Protocol::ICMPV6, &[], message.len(), |body| message.emit(body))
}
