//! AH sets: packets that are made must be the capture's octets, and captured ones are
//! taken.
//!
//! ```text
//!   make:  plain ─▶ AH out ─▶ packet = the capture's, put together if it was cut
//!   take:  the capture's frames ─▶ IP ─▶ reassembly ─▶ AH in ─▶ IP ─▶ plain
//! ```
//!
//! The ICV covers two things that are the sender's to choose: the identification of an
//! outer header, and the padding behind the ICV. Where they differ, another
//! implementation of AH, here, checks what was made and gives it the capture's instead;
//! the ICV that then belongs to it must be the capture's.

use crate::engine::Kind;
use crate::esp::{Peers, ethernet, everywhere, same, with_hops};
use crate::oracle::Esp;
use crate::report::{Row, Way};
use crate::rig::Rig;
use crate::sidecar::{EspSa, Frame, Set};
use ferrule_base::{MacAddr, PortId, Secret, VrfId};
use ferrule_crypto::{KeySpec, Suite, suite::Mac};
use ferrule_dataplane::Sequence;
use ferrule_dataplane::graph::Next;
use ferrule_dataplane::ipsec::{
    InboundConfig, InboundPlace, Mode, OutboundConfig, SaProtocol, Selector,
};
use ferrule_dataplane::route::{Route, TtlModel, Vrf};
use std::collections::BTreeMap;
use std::net::IpAddr;

const ETHERNET: usize = 14;
/// AH in front of its ICV.
const FIXED: usize = 12;
const RED: PortId = PortId(0);
const BLACK: PortId = PortId(1);
const RED_HERE: MacAddr = MacAddr([2, 0, 0, 0xfe, 0, 1]);
const RED_THERE: MacAddr = MacAddr([2, 0, 0, 0xfe, 0, 2]);

/// Runs a set.
pub fn run(set: &Set, kind: Kind, row: &mut Row) -> Result<(), String> {
    let sas: Vec<EspSa> = set.get("sas")?;
    let frames: Vec<Frame> = set.get("frames")?;
    let peers: BTreeMap<String, Peers> = set.get("peers")?;
    for sa in &sas {
        let mac = Mac::ALL.into_iter().find(|mac| mac.name() == sa.auth);
        let mac = mac.ok_or_else(|| format!("what is {}?", sa.auth))?;
        let peers = peers.get(&sa.id).ok_or_else(|| format!("no peers for {}", sa.id))?;
        let mut case = Case { kind, sa, mac, peers, nodes: None };
        for frame in frames.iter().filter(|f| f.sa == sa.id) {
            case.frame(set, frame, row)?;
        }
    }
    Ok(())
}

/// One association and the two nodes at its ends.
struct Case<'a> {
    kind: Kind,
    sa: &'a EspSa,
    mac: Mac,
    peers: &'a Peers,
    /// Sender, receiver, and the number that comes next.
    nodes: Option<(Rig, Rig, u64)>,
}

impl Case<'_> {
    fn tunnel(&self) -> bool {
        self.sa.mode == "tunnel"
    }

    /// One packet, both ways.
    fn frame(&mut self, set: &Set, frame: &Frame, row: &mut Row) -> Result<(), String> {
        let captured: Vec<&[u8]> = {
            let each = frame.n.iter().map(|&n| set.frame(n).map(|f| &f.octets[..]));
            each.collect::<Result<_, _>>()?
        };
        let first = *frame.n.first().ok_or("a packet without frames")?;
        // Padding after the ICV where IPv4 needs none: it shows in the length.
        let pad8 = packet_of(captured[0]).is_some_and(|p| p[0] >> 4 == 4)
            && whole(&captured)?.get(21).is_some_and(|&n| (usize::from(n) + 2) % 2 == 0);
        let (mut sender, mut receiver) = match self.nodes.take() {
            Some((sender, receiver, next)) if next == frame.number => (sender, receiver),
            _ => (self.sender(frame.number, pad8)?, self.receiver(frame.number)?),
        };
        let made = self.make(&mut sender, frame, &captured, row);
        row.record(Way::Make, first, made);
        row.record(Way::Take, first, self.take(&mut receiver, frame, &captured));
        self.nodes = Some((sender, receiver, frame.number + 1));
        Ok(())
    }

    fn make(
        &self,
        sender: &mut Rig,
        frame: &Frame,
        captured: &[&[u8]],
        row: &mut Row,
    ) -> Result<(), String> {
        let captured = whole(captured)?;
        let outcome = sender.inject(Next::AhOut, RED, &frame.plain.0, Some(Next::Output));
        let (_, mut made) = outcome.one()?;
        if made.len() != captured.len() {
            return Err(format!("{} octets instead of {}", made.len(), captured.len()));
        }
        let at = header_len(&made)?;
        let icv = at + FIXED..at + FIXED + self.mac.icv_len();
        if made.get(icv.clone()) != Some(&self.icv(&made, frame.number)?[..]) {
            return Err("another implementation finds the ICV wrong".into());
        }
        self.level(&mut made, &captured, row)?;
        let again = self.icv(&made, frame.number)?;
        made.get_mut(icv).ok_or("too short")?.copy_from_slice(&again);
        same(&made, &captured)
    }

    /// Takes over from the capture what may differ, and counts it.
    fn level(&self, made: &mut [u8], captured: &[u8], row: &mut Row) -> Result<(), String> {
        let at = header_len(made)?;
        let padding = at + FIXED + self.mac.icv_len()..at + ah_len(made, at)?;
        if made[padding.clone()] != captured[padding.clone()] {
            made[padding.clone()].copy_from_slice(&captured[padding]);
            row.allow("ICV padding");
        }
        if !self.tunnel() {
            return Ok(());
        }
        // The fields that are not under the ICV of a new header: class, label, DF.
        if made[0] >> 4 == 6 {
            if made[1..4] != captured[1..4] {
                made[..4].copy_from_slice(&captured[..4]);
                row.allow("flow label");
            }
            return Ok(());
        }
        if made[4..6] != captured[4..6] {
            made[4..6].copy_from_slice(&captured[4..6]);
            row.allow("identification");
        }
        if made[1] & 3 == 3 && captured[1] & 3 == 2 {
            made[1] = made[1] & !3 | 2;
            row.allow("congestion mark");
        }
        made[6..8].copy_from_slice(&captured[6..8]);
        checksum(made)
    }

    fn take(&self, receiver: &mut Rig, frame: &Frame, captured: &[&[u8]]) -> Result<(), String> {
        let stop = if self.tunnel() { None } else { Some(Next::Local) };
        let (mut sent, mut drops) = (Vec::new(), Vec::new());
        for frame in captured {
            let outcome = receiver.inject(Next::Attach, BLACK, frame, stop);
            sent.extend(outcome.sent);
            drops.extend(outcome.drops);
        }
        let [(port, taken)] = &sent[..] else {
            return Err(format!("{} packets came out, dropped: {drops:?}", sent.len()));
        };
        if !self.tunnel() {
            return same(taken, &frame.plain.0);
        }
        if *port != RED {
            return Err("it left by the black port".into());
        }
        same(taken, &ethernet(RED_THERE, RED_HERE, &with_hops(&frame.plain.0, -1)?))
    }

    /// The ICV of a packet with AH, by the words of RFC 4302 alone.
    fn icv(&self, packet: &[u8], number: u64) -> Result<Vec<u8>, String> {
        let at = header_len(packet)?;
        let mut covered = packet.to_vec();
        mute(covered.get_mut(..at).ok_or("too short")?)?;
        let icv = covered.get_mut(at + FIXED..at + FIXED + self.mac.icv_len());
        icv.ok_or("too short")?.fill(0);
        Ok(Esp::new(self.sa, Suite::Null(self.mac)).hash(self.mac, &covered, number))
    }

    fn keys(&self) -> (KeySpec, Secret) {
        let mac_key = Secret::new(self.sa.auth_key.0.clone());
        let none = || Secret::new(Vec::new());
        (KeySpec::new(Suite::Null(self.mac), none(), mac_key), none())
    }

    fn spi(&self) -> Result<u32, String> {
        let octets = <[u8; 4]>::try_from(&self.sa.spi.0[..]).map_err(|_| "an SPI has 4 octets")?;
        Ok(u32::from_be_bytes(octets))
    }

    fn mode(&self) -> Mode {
        if self.tunnel() { Mode::Tunnel } else { Mode::Transport }
    }

    /// A node with a red and a black port.
    fn node(&self, here: &str, there: &str) -> Result<(Rig, u32, u32), String> {
        let mut rig = Rig::new(self.kind);
        rig.routed_port("red", RED_HERE, VrfId::GLOBAL, 2000);
        rig.routed_port("black", here.parse()?, VrfId::GLOBAL, 1500);
        let red = rig.adjacency(RED, RED_THERE, &[], TtlModel::Uniform)?;
        let black = rig.adjacency(BLACK, there.parse()?, &[], TtlModel::Uniform)?;
        Ok((rig, red, black))
    }

    fn sender(&self, first: u64, pad8: bool) -> Result<Rig, String> {
        let (mut rig, _, black) = self.node(&self.peers.from_mac, &self.peers.to_mac)?;
        let (keys, salt) = self.keys();
        let config = OutboundConfig {
            protocol: SaProtocol::Ah,
            mode: self.mode(),
            esn: self.sa.esn,
            adjacency: black,
            ah_align: if pad8 { 8 } else { 4 },
            ..OutboundConfig::tunnel(self.spi()?, (self.sa.src, self.sa.dst), keys, salt)
        };
        let max = if self.sa.esn { u64::MAX - 1 } else { u32::MAX.into() };
        let sequence = Sequence::unlimited(first, max);
        let placed = rig.ah_out.install_at(&mut rig.engine, 0, &config, sequence);
        placed.map_err(|e| e.to_string())?;
        Ok(rig)
    }

    fn receiver(&self, first: u64) -> Result<Rig, String> {
        let (mut rig, red, _) = self.node(&self.peers.to_mac, &self.peers.from_mac)?;
        let bits = if self.sa.dst.is_ipv4() { 32 } else { 128 };
        let own = ((self.sa.dst, bits), Route::Local);
        rig.tables.vrfs.push(Vrf::new("", everywhere(red).into_iter().chain([own])).into());
        let place = InboundPlace { spi: self.spi()?, worker: 0, index: 0 };
        rig.tables.sas.add_inbound(&place).map_err(|e| e.to_string())?;
        let (keys, salt) = self.keys();
        let any = |text: &str| (text.parse::<IpAddr>().expect("an address"), 0);
        let all = |any| Selector::between(any, any);
        let config = InboundConfig {
            protocol: SaProtocol::Ah,
            mode: self.mode(),
            esn: self.sa.esn,
            window: self.sa.window,
            selectors: vec![all(any("0.0.0.0")), all(any("::"))],
            ..InboundConfig::tunnel(self.spi()?, (self.sa.src, self.sa.dst), keys, salt)
        };
        let placed = rig.ah_in.install_at(&mut rig.engine, 0, &config, first.saturating_sub(1));
        placed.map_err(|e| e.to_string())?;
        Ok(rig)
    }
}

/// The IP packet in a frame, without Ethernet's padding.
fn packet_of(frame: &[u8]) -> Option<&[u8]> {
    let packet = frame.get(ETHERNET..)?;
    let long = |at: usize| Some(usize::from(u16::from_be_bytes(*packet.get(at..)?.first_chunk()?)));
    let len = if packet.first()? >> 4 == 4 { long(2)? } else { 40 + long(4)? };
    packet.get(..len)
}

/// The packet that some frames are, put together if there are several.
fn whole(frames: &[&[u8]]) -> Result<Vec<u8>, String> {
    let parts: Option<Vec<&[u8]>> = frames.iter().map(|frame| packet_of(frame)).collect();
    let parts = parts.ok_or("no IP packet in a frame")?;
    let [first, ..] = parts[..] else { return Err("a packet without frames".into()) };
    if parts.len() == 1 {
        return Ok(first.to_vec());
    }
    let v4 = first[0] >> 4 == 4;
    // Makers cut outer packets without options; IPv6 has the fragment header behind.
    let (head, data) = if v4 { (20, 20) } else { (40, 48) };
    let mut packet = first[..head].to_vec();
    let offset = |p: &&[u8]| {
        let at = if v4 { 6 } else { 42 };
        let field = u16::from_be_bytes([p[at], p[at + 1]]);
        if v4 { (field & 0x1fff) * 8 } else { field & 0xfff8 }
    };
    let mut sorted = parts.clone();
    sorted.sort_by_key(offset);
    for part in sorted {
        packet.extend_from_slice(part.get(data..).ok_or("too short")?);
    }
    if v4 {
        let len = packet.len() as u16;
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        packet[6..8].fill(0);
        checksum(&mut packet)?;
    } else {
        packet[6] = first[40];
        let len = (packet.len() - 40) as u16;
        packet[4..6].copy_from_slice(&len.to_be_bytes());
    }
    Ok(packet)
}

/// Makes the checksum of an IPv4 header good.
fn checksum(packet: &mut [u8]) -> Result<(), String> {
    let len = usize::from(packet.first().ok_or("empty")? & 15) * 4;
    let header = packet.get_mut(..len).filter(|h| h.len() >= 20).ok_or("no IPv4 header")?;
    header[10..12].fill(0);
    let sum = ferrule_wire::checksum::checksum(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}

/// Octets in front of AH: IPv4 with options; IPv6 with hop-by-hop options, routing
/// headers and destination options.
fn header_len(packet: &[u8]) -> Result<usize, String> {
    if packet.first().is_some_and(|b| b >> 4 == 4) {
        return Ok(usize::from(packet[0] & 15) * 4);
    }
    let (mut next, mut at) = (*packet.get(6).ok_or("short")?, 40);
    while matches!(next, 0 | 43 | 60) {
        let header = packet.get(at..at + 2).ok_or("short")?;
        (next, at) = (header[0], at + (usize::from(header[1]) + 1) * 8);
    }
    if next == 51 { Ok(at) } else { Err(format!("protocol {next} instead of AH")) }
}

/// Octets of AH itself.
fn ah_len(packet: &[u8], at: usize) -> Result<usize, String> {
    Ok((usize::from(*packet.get(at + 1).ok_or("short")?) + 2) * 4)
}

/// Zeroes what routers may change (RFC 4302 section 3.3.3.1), for packets without source
/// routes: none of the sets has one.
fn mute(header: &mut [u8]) -> Result<(), String> {
    if header[0] >> 4 == 4 {
        for at in [1, 6, 7, 8, 10, 11] {
            header[at] = 0;
        }
        let mut at = 20;
        while at < header.len() && header[at] != 0 {
            if header[at] == 1 {
                at += 1;
                continue;
            }
            let len = usize::from(*header.get(at + 1).ok_or("short option")?).max(2);
            if ![130, 133, 134, 148, 149].contains(&header[at]) {
                header.get_mut(at..at + len).ok_or("long option")?.fill(0);
            }
            at += len;
        }
        return Ok(());
    }
    header[..4].copy_from_slice(&[0x60, 0, 0, 0]);
    header[7] = 0;
    let (mut next, mut at) = (header[6], 40);
    while at < header.len() {
        let end = at + (usize::from(header[at + 1]) + 1) * 8;
        let mut option = at + 2;
        while next != 43 && option < end {
            let len = if header[option] == 0 { 0 } else { usize::from(header[option + 1]) };
            if header[option] & 0x20 != 0 {
                header[option + 2..option + 2 + len].fill(0);
            }
            option += if header[option] == 0 { 1 } else { 2 + len };
        }
        (next, at) = (header[at], end);
    }
    Ok(())
}
