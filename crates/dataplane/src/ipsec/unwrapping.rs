//! Opening where an SA is more than a plain tunnel: transport mode (RFC 4303
//! section 3.1.1), ESP in UDP (RFC 3948), an SA around another.

use super::config::Mode;
use super::state::InboundSa;
use super::wrapping::{V4_PROTOCOL, patch};
use crate::mss;
use crate::tables::Tables;
use ferrule_base::{DropReason, VrfId};
use ferrule_crypto::Job;
use ferrule_pipeline::Packet;
use ferrule_wire::checksum::Ends;
use ferrule_wire::{EtherType, FromBytes, Protocol, esp, ipv4, ipv6, ipv6ext, udp};
use std::net::{IpAddr, SocketAddr};

/// A keepalive's one octet (RFC 3948 section 2.3).
pub(super) const KEEPALIVE: [u8; 1] = [0xff];

/// UDP ports of this node: those in which ESP comes (RFC 3948), or those of keying programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UdpPorts(Box<[u16]>);

impl FromIterator<u16> for UdpPorts {
    fn from_iter<I: IntoIterator<Item = u16>>(ports: I) -> Self {
        let mut ports: Vec<u16> = ports.into_iter().collect();
        ports.sort_unstable();
        ports.dedup();
        Self(ports.into())
    }
}

impl UdpPorts {
    /// True if there is none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True for one of them.
    pub fn has(&self, port: u16) -> bool {
        self.0.binary_search(&port).is_ok()
    }
}

/// Where ESP begins in a UDP datagram for this node, whose header is at `at`
/// (RFC 3948 section 2): on a port of ESP, and not behind the four zeros that mark
/// what is not ESP. A keepalive counts as ESP that is too short. The datagram is whole,
/// and its checksum right if it has one, as it must over IPv6 (RFC 8200 section 8.1).
#[inline(never)]
pub fn esp_in_udp(tables: &Tables, data: &[u8], at: usize) -> Result<Option<usize>, DropReason> {
    let datagram = data.get(at..).unwrap_or_default();
    let Ok((header, payload)) = udp::Header::ref_from_prefix(datagram) else { return Ok(None) };
    if !tables.udp_ports.has(header.dst.get()) || payload.starts_with(&[0; 4]) {
        return Ok(None);
    }
    check(data, datagram, header)?;
    Ok(Some(at + udp::Header::LEN))
}

/// True for a packet for this node, in the global table, with a datagram for a keying program,
/// which is whole and right. Its UDP header is at `at`.
#[inline(never)]
pub fn is_keying(tables: &Tables, packet: &Packet, at: usize) -> Result<bool, DropReason> {
    let datagram = packet.data().get(at..).unwrap_or_default();
    let Ok((header, _)) = udp::Header::ref_from_prefix(datagram) else { return Ok(false) };
    if packet.meta().vrf != VrfId::GLOBAL || !tables.keying_ports.has(header.dst.get()) {
        return Ok(false);
    }
    check(packet.data(), datagram, header).map(|()| true)
}

/// Length and checksum of the datagram in an IP packet.
fn check(data: &[u8], datagram: &[u8], header: &udp::Header) -> Result<(), DropReason> {
    if usize::from(header.len.get()) != datagram.len() {
        return Err(DropReason::Malformed);
    }
    match udp::checksum_ok(&ends(data).ok_or(DropReason::Malformed)?, datagram) {
        true => Ok(()),
        false => Err(DropReason::BadChecksum),
    }
}

/// The addresses of an IP packet of either version.
fn ends(data: &[u8]) -> Option<Ends> {
    match data.first()? >> 4 {
        4 => ipv4::Header::ref_from_prefix(data).ok().map(|(header, _)| header.ends()),
        _ => ipv6::Header::ref_from_prefix(data).ok().map(|(header, _)| header.ends()),
    }
}

/// Source of a datagram whose UDP header is at `at`.
fn source(data: &[u8], at: usize) -> Option<SocketAddr> {
    let (header, _) = udp::Header::ref_from_prefix(data.get(at..)?).ok()?;
    let address: IpAddr = match ends(data)? {
        Ends::V4(source, _) => source.into(),
        Ends::V6(source, _) => source.into(),
    };
    Some((address, header.src.get()).into())
}

impl InboundSa {
    /// Source of an opened packet that came in UDP.
    pub(super) fn source_of(&self, packet: &Packet) -> Option<SocketAddr> {
        self.udp?;
        let around = esp::Header::LEN + usize::from(self.shape.iv) + udp::Header::LEN;
        source(packet.data(), usize::from(packet.meta().offset).checked_sub(around)?)
    }

    /// Decapsulation of an authentic packet of an SA in UDP or in transport mode.
    #[inline(never)]
    pub(super) fn unwrap_special(
        &mut self,
        packet: &mut Packet,
        job: &Job<()>,
    ) -> Result<EtherType, DropReason> {
        let start = usize::from(packet.meta().offset);
        let esp = start.checked_sub(esp::Header::LEN + usize::from(self.shape.iv));
        let mut head = esp.ok_or(DropReason::Malformed)?;
        if self.udp.is_some() {
            head = head.checked_sub(udp::Header::LEN).ok_or(DropReason::Malformed)?;
            let from = source(packet.data(), head);
            self.base.stats.moved += u64::from(from != self.base.peer.address);
        }
        match self.mode {
            Mode::Tunnel => self.unwrap_tunnel(packet, job),
            Mode::Transport => self.unwrap_transport(packet, job, head, start),
        }
    }

    /// The packet as it was before it was sealed:
    /// 1. trailer; a dummy ends here;
    /// 2. its header moves up to what was sealed, and says again what follows;
    /// 3. where addresses were translated, the checksum is made good;
    /// 4. it is what this SA may carry.
    fn unwrap_transport(
        &self,
        packet: &mut Packet,
        job: &Job<()>,
        head: usize,
        start: usize,
    ) -> Result<EtherType, DropReason> {
        // 1
        let text = packet.data().get(start..job.text.end()).unwrap_or_default();
        let (len, next) = esp::parse_trailer(text).map_err(|_| DropReason::EspBadTrailer)?;
        if next == Protocol::NONE {
            return Err(DropReason::EspDummy);
        }
        // 2
        let data = packet.data_mut();
        let (version, field) = field_of(data, head)?;
        data.copy_within(..head, start - head);
        packet.strip(start - head);
        packet.truncate(head + len);
        let total = u16::try_from(head + len).map_err(|_| DropReason::EspBadTrailer)?;
        patch(packet.data_mut(), field, next, total).ok_or(DropReason::EspBadTrailer)?;
        // 3
        if self.udp.is_some() {
            make_good(packet.data_mut(), head, next);
        }
        if let Some(mtu) = self.base.clamp {
            mss::clamp(packet.data_mut(), mtu.into());
        }
        // 4
        if !self.base.selectors.admit(packet.data())? {
            return Err(DropReason::EspSelectorMismatch);
        }
        self.base.admits_error(packet.data())?;
        Ok(version)
    }
}

/// The version of an IP packet, and where it names what begins at `head`.
fn field_of(data: &[u8], head: usize) -> Result<(EtherType, usize), DropReason> {
    if data.first().is_some_and(|first| first >> 4 == 4) {
        return Ok((EtherType::IPV4, V4_PROTOCOL));
    }
    let (h, payload) = ipv6::Header::ref_from_prefix(data).map_err(|_| DropReason::Malformed)?;
    let len = head.checked_sub(ipv6::Header::LEN).ok_or(DropReason::Malformed)?;
    let front = ipv6ext::front_of(h.next(), payload, len).map_err(DropReason::from)?;
    Ok((EtherType::IPV6, front.field))
}

/// The checksum of TCP or UDP, wrong because it covers addresses that were
/// translated on the way (RFC 3948 section 3.1.2). What was sealed is authentic, so
/// it is made anew; where it is right, or not there, it stays.
fn make_good(packet: &mut [u8], head: usize, next: Protocol) {
    let Some((ends, next, head)) = upper(packet, head, next) else { return };
    let Some(segment) = packet.get_mut(head..) else { return };
    let at = match next {
        Protocol::TCP => 16,
        Protocol::UDP => 6,
        _ => return,
    };
    let len = segment.len();
    let len = if next == Protocol::UDP { udp_len(segment).unwrap_or(len) } else { len };
    let Some(segment) = segment.get_mut(..len) else { return };
    let Some(field) = segment.get(at..at + 2) else { return };
    let absent = next == Protocol::UDP && field == [0, 0] && matches!(ends, Ends::V4(..));
    if absent || ends.pseudo(next, len).with(segment).is_good() {
        return;
    }
    if let Some(field) = segment.get_mut(at..at + 2) {
        field.fill(0);
    }
    let sum = ends.pseudo(next, len).with(segment).finish();
    let sum = if sum == 0 && next == Protocol::UDP { 0xffff } else { sum };
    if let Some(field) = segment.get_mut(at..at + 2) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
}

/// The addresses, and the upper layer with where it begins.
fn upper(packet: &[u8], head: usize, next: Protocol) -> Option<(Ends, Protocol, usize)> {
    if packet.first()? >> 4 == 4 {
        let (h, _) = ipv4::Header::ref_from_prefix(packet).ok()?;
        return Some((h.ends(), next, head));
    }
    let (h, payload) = ipv6::Header::ref_from_prefix(packet).ok()?;
    let found = ipv6ext::walk(h.next(), payload).ok()?;
    found.fragment.is_none_or(|f| f.is_atomic()).then_some((
        h.ends(),
        found.protocol,
        ipv6::Header::LEN + found.offset,
    ))
}

/// The octets that a UDP header says, if there are as many.
fn udp_len(segment: &[u8]) -> Option<usize> {
    let (h, _) = udp::Header::ref_from_prefix(segment).ok()?;
    let len = usize::from(h.len.get());
    (len >= udp::Header::LEN && len <= segment.len()).then_some(len)
}
