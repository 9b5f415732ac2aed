//! Multicast listener discovery (RFC 3810): switches that forward groups only to who asked
//! for them are told that the node listens where others ask for its addresses (RFC 4861
//! section 7.2.1, RFC 4862 section 5.4.2).
//!
//! A group is reported when its first address comes, again a second later, as one message
//! may be lost, and in answer to queries, in the version of the query; version 2 is spoken
//! without being asked. When the last address of a group goes, its end is told.

use super::nd::Frame;
use crate::neighbour::config::{QUERY_DELAY_MAX, QUERY_DELAY_MIN, REPORT_AGAIN};
use crate::neighbour::{Discovery, Fault, Key, Own, Timer};
use ferrule_base::{Duration, Instant};
use ferrule_wire::mld::{HOP_LIMIT, QUERY, REPORTS_GROUP, ROUTER_ALERT, Record, Repr};
use ferrule_wire::ndp::solicited_node;
use ferrule_wire::{Protocol, icmpv6, ipv6};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

impl Discovery {
    /// The groups that the node is in on an interface. It leaves that of an address that
    /// another has.
    fn groups(&self, iface: u16) -> BTreeSet<Ipv6Addr> {
        let own = self.own.range((iface, IpAddr::from([0; 4]))..).take_while(|(k, _)| k.0 == iface);
        own.filter(|(_, state)| **state != Own::Duplicate)
            .filter_map(|((_, ip), _)| match ip {
                IpAddr::V6(own) => Some(solicited_node(*own)),
                IpAddr::V4(_) => None,
            })
            .collect()
    }

    /// An address of ours is new, or was a second ago: its group is reported.
    pub(in crate::neighbour) fn join(&mut self, (iface, ip): Key) {
        let IpAddr::V6(own) = ip else { return };
        let group = solicited_node(own);
        if self.groups(iface).contains(&group) {
            self.report(iface, REPORTS_GROUP, Repr::ReportV2 { record: Record::Joins, group });
        }
    }

    /// The same, and again a second later.
    pub(super) fn join_first(&mut self, now: Instant, key: Key) {
        self.join(key);
        self.table.wake(now + REPORT_AGAIN, Timer::Join(key));
    }

    /// An address is gone: so is its group, unless another address of ours has it, too.
    pub(super) fn leave(&mut self, (iface, ip): Key) {
        let IpAddr::V6(own) = ip else { return };
        let group = solicited_node(own);
        if !self.groups(iface).contains(&group) {
            self.report(iface, REPORTS_GROUP, Repr::ReportV2 { record: Record::Leaves, group });
        }
    }

    /// A message of listener discovery. Of others' reports nothing is kept. A query (RFC
    /// 3810 section 6.2) is answered once its delay has passed, of which every host takes
    /// another part.
    pub(super) fn listeners(
        &mut self,
        now: Instant,
        iface: u16,
        header: &ipv6::Repr,
        payload: &[u8],
    ) -> Result<(), Fault> {
        let message = payload.strip_prefix(&ROUTER_ALERT).ok_or(Fault::Malformed)?;
        if message.first() != Some(&QUERY) {
            return Ok(());
        }
        let ends = ferrule_wire::Ends::V6(header.src, header.dst);
        if !icmpv6::checksum_ok(&ends, message) {
            return Err(Fault::Malformed);
        }
        if header.hop_limit != HOP_LIMIT {
            return Err(Fault::HopLimit);
        }
        if !header.src.is_unicast_link_local() {
            return Err(Fault::OffLink);
        }
        let (Repr::Query { group, delay, v2 }, _) =
            Repr::parse(message).map_err(|_| Fault::Malformed)?
        else {
            return Ok(());
        };
        let asked = group.is_unspecified() || self.groups(iface).contains(&group);
        if !asked || self.queried.contains_key(&iface) {
            return Ok(());
        }
        let mac = self.ifaces.get(&iface).ok_or(Fault::Interface)?.mac.to_u64();
        let most = u64::from(Repr::delay_ms(delay, v2.is_some()));
        let part = mac.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        let delay = Duration::from_millis((most * part) >> 16);
        let delay = delay.clamp(QUERY_DELAY_MIN, QUERY_DELAY_MAX);
        self.queried.insert(iface, v2.is_some());
        self.table.wake(now + delay, Timer::Report(iface));
        Ok(())
    }

    /// A query is due to be answered.
    pub(in crate::neighbour) fn answer_query(&mut self, iface: u16) {
        let Some(version_2) = self.queried.remove(&iface) else { return };
        for group in self.groups(iface) {
            match version_2 {
                true => {
                    let record = Record::Listens;
                    self.report(iface, REPORTS_GROUP, Repr::ReportV2 { record, group });
                }
                false => self.report(iface, group, Repr::ReportV1 { group }),
            }
        }
    }

    /// Sends a message, from the link-local address if that is ours yet (RFC 3590).
    fn report(&mut self, iface: u16, dst: Ipv6Addr, message: Repr) {
        let Some(interface) = self.ifaces.get(&iface) else { return };
        let own =
            interface.v6.iter().map(|&(own, _)| own).filter(|own| own.is_unicast_link_local());
        let src = own.into_iter().find(|&own| self.is_ours((iface, IpAddr::V6(own))));
        let src = src.unwrap_or(Ipv6Addr::UNSPECIFIED);
        let frame = Frame { mac: interface.mac, src, dst, hop_limit: HOP_LIMIT };
        let bytes = frame.around(Protocol::HOP_BY_HOP, &ROUTER_ALERT, message.len(), |body| {
            message.emit(body);
        });
        self.send(iface, bytes);
    }
}
