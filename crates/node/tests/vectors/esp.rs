//! ESP sets: a gateway for each direction seals, another one opens.
//!
//! ```text
//!   make:  plain, one hop earlier ─▶ IP ─▶ policy ─▶ ESP out ─▶ frame = the capture's
//!   take:  the capture's frame ─▶ IP ─▶ ESP in ─▶ IP ─▶ plain, one hop later
//! ```
//!
//! In transport mode the packet is the sender's own and the receiver's:
//!
//! ```text
//!   make:  plain ─▶ policy ─▶ ESP out ─▶ frame = the capture's
//!   take:  the capture's frame ─▶ IP ─▶ ESP in ─▶ IP ─▶ plain, for the node itself
//! ```
//!
//! Four things may differ from the capture, and the report counts them: the IV
//! (the oracle seals again with the capture's), the outer identification, which
//! is the sender's to choose; the congestion mark, which Linux does not copy and
//! RFC 6040 does; the outer flow label, which Linux copies.

use crate::engine::Kind;
use crate::oracle::{self, Esp};
use crate::report::{Row, Way};
use crate::rig::Rig;
use crate::sidecar::{EspSa, Frame, Set};
use ferrule_base::{MacAddr, PortId, Secret, VrfId};
use ferrule_crypto::{KeySpec, Suite};
use ferrule_dataplane::Sequence;
use ferrule_dataplane::graph::{FLAG_LOCAL, Next};
use ferrule_dataplane::ipsec::{
    Action, Df, Encap, InboundConfig, InboundPlace, Mode, OutboundConfig, OutboundPlace, Outside,
    PolicyEntry, SaDirectory, Selector, Spd,
};
use ferrule_dataplane::route::{Route, TtlModel, Vrf};
use ferrule_pipeline::Meta;
use ferrule_wire::{Dscp, FromBytes, esp, ipv4, ipv6, ipv6ext, udp};
use std::collections::BTreeMap;
use std::net::IpAddr;

const ETHERNET: usize = 14;
const RED: PortId = PortId(0);
const BLACK: PortId = PortId(1);
/// The red side's own addresses, which no capture has.
const RED_HERE: MacAddr = MacAddr([2, 0, 0, 0xfe, 0, 1]);
const RED_THERE: MacAddr = MacAddr([2, 0, 0, 0xfe, 0, 2]);
const RED_MTU: u16 = 2000;

/// Link addresses of the gateways of one direction.
#[derive(serde::Deserialize)]
pub struct Peers {
    pub from_mac: String,
    pub to_mac: String,
}

/// Prefixes of both sides, as text: source and destination.
type Prefixes = Vec<[String; 2]>;

/// Runs a set.
pub fn run(set: &Set, kind: Kind, row: &mut Row) -> Result<(), String> {
    let sas: Vec<EspSa> = set.get("sas")?;
    let frames: Vec<Frame> = set.get("frames")?;
    let peers: BTreeMap<String, Peers> = set.get("peers")?;
    let mtu: u16 = set.get("black_mtu")?;
    let selectors: Option<BTreeMap<String, Prefixes>> = set.get("selectors")?;
    for sa in &sas {
        let frames = frames.iter().filter(|f| f.sa == sa.id);
        let suite = match supported(sa) {
            Ok(suite) => suite,
            Err(why) => {
                for _ in frames {
                    row.frame_not_yet(Way::Make, &why);
                    row.frame_not_yet(Way::Take, &why);
                }
                continue;
            }
        };
        let peers = peers.get(&sa.id).ok_or_else(|| format!("no peers for {}", sa.id))?;
        let selectors = selectors_of(selectors.as_ref(), &sa.id)?;
        let mut case = Case { kind, sa, suite, peers, mtu, selectors, gateways: None };
        for frame in frames {
            case.frame(set, frame, row)?;
        }
    }
    Ok(())
}

/// The suite, or the name of one that Ferrule does not have yet.
fn supported(sa: &EspSa) -> Result<Suite, String> {
    oracle::suite(sa).ok_or_else(|| match sa.auth.as_str() {
        "none" => sa.enc.clone(),
        auth => format!("{} {auth}", sa.enc),
    })
}

/// The policy of a direction; the other direction's, reversed.
fn selectors_of(
    all: Option<&BTreeMap<String, Prefixes>>,
    id: &str,
) -> Result<Vec<Selector>, String> {
    let any = || {
        vec![
            ["0.0.0.0/0".to_owned(), "0.0.0.0/0".to_owned()],
            ["::/0".to_owned(), "::/0".to_owned()],
        ]
    };
    let pairs = match all {
        None => any(),
        Some(all) => match (all.get(id), all.values().next()) {
            (Some(pairs), _) => pairs.clone(),
            (None, Some(pairs)) => pairs.iter().map(|[a, b]| [b.clone(), a.clone()]).collect(),
            (None, None) => any(),
        },
    };
    let prefix = |text: &str| -> Option<(IpAddr, u8)> {
        let (address, len) = text.split_once('/')?;
        Some((address.parse().ok()?, len.parse().ok()?))
    };
    let selector = |[src, dst]: &[String; 2]| Some(Selector::between(prefix(src)?, prefix(dst)?));
    pairs.iter().map(selector).collect::<Option<_>>().ok_or_else(|| "selectors".into())
}

/// One association and the two gateways at its ends.
struct Case<'a> {
    kind: Kind,
    sa: &'a EspSa,
    suite: Suite,
    peers: &'a Peers,
    mtu: u16,
    selectors: Vec<Selector>,
    /// Sender, receiver, and the number that comes next.
    gateways: Option<(Rig, Rig, u64)>,
}

impl Case<'_> {
    /// One packet, both ways.
    fn frame(&mut self, set: &Set, frame: &Frame, row: &mut Row) -> Result<(), String> {
        let each = frame.n.iter().map(|&n| set.frame(n).map(|f| &f.octets[..]));
        let captured: Vec<&[u8]> = each.collect::<Result<_, _>>()?;
        let n = *frame.n.first().ok_or("a packet without frames")?;
        let (mut sender, mut receiver) = match self.gateways.take() {
            Some((sender, receiver, next)) if next == frame.number => (sender, receiver),
            _ => (self.sender(frame.number)?, self.receiver(frame.number)?),
        };
        let made = self.make(&mut sender, frame, &captured, row);
        row.record(Way::Make, n, made);
        row.record(Way::Take, n, self.take(&mut receiver, frame, &captured));
        self.gateways = Some((sender, receiver, frame.number + 1));
        Ok(())
    }

    /// One packet, in fragments where they are on the wire: these are compared put
    /// together, for how long each is, is the sender's to choose.
    fn make(
        &self,
        sender: &mut Rig,
        frame: &Frame,
        captured: &[&[u8]],
        row: &mut Row,
    ) -> Result<(), String> {
        let outcome = match self.mode() {
            Mode::Tunnel => {
                let before = with_hops(&frame.plain.0, 1)?;
                sender.receive(RED, &ethernet(RED_HERE, RED_THERE, &before))
            }
            Mode::Transport => {
                let plain = &frame.plain.0;
                let ethertype = if self.sa.src.is_ipv4() { 0x0800 } else { 0x86dd };
                let adjacency = self.black(sender);
                let meta = Meta { adjacency, ethertype, flags: FLAG_LOCAL, ..Meta::default() };
                sender.inject_with(Next::Policy, meta, plain, None)
            }
        };
        if outcome.sent.iter().any(|(port, _)| *port != BLACK) {
            return Err("it left by the red port".into());
        }
        if (outcome.sent.len() > 1) != (captured.len() > 1) {
            let (made, drops) = (outcome.sent.len(), outcome.drops);
            return Err(format!("{made} frames for {}, dropped: {drops:?}", captured.len()));
        }
        let frames: Vec<&[u8]> = outcome.sent.iter().map(|(_, frame)| &frame[..]).collect();
        let (mut made, captured) = (whole(&frames)?, whole(captured)?);
        let (head, made_esp) = self.outer(&made)?;
        let (_, captured_esp) = self.outer(&captured)?;
        let retold = Esp::new(self.sa, self.suite).retell(made_esp, captured_esp, frame.number)?;
        if retold != made_esp {
            row.allow("IV");
        }
        made.truncate(head);
        made.extend(retold);
        level(&mut made, &captured, row)?;
        same(&made, &captured)
    }

    fn take(&self, receiver: &mut Rig, frame: &Frame, captured: &[&[u8]]) -> Result<(), String> {
        let transport = self.mode() == Mode::Transport;
        let stop = if transport { Some(Next::Local) } else { None };
        let (mut sent, mut drops) = (Vec::new(), Vec::new());
        for frame in captured {
            let outcome = receiver.inject(Next::Attach, BLACK, frame, stop);
            sent.extend(outcome.sent);
            drops.extend(outcome.drops);
        }
        let (port, taken) = sent.first().ok_or_else(|| format!("dropped: {drops:?}"))?;
        if transport {
            // The packets behind it are the node's answer.
            return same(taken, &frame.plain.0);
        }
        if *port != RED || sent.len() != 1 {
            return Err(format!("it left by the black port, or as {} packets", sent.len()));
        }
        let after = with_hops(&frame.plain.0, -1)?;
        same(taken, &ethernet(RED_THERE, RED_HERE, &after))
    }

    fn mode(&self) -> Mode {
        if self.sa.mode == "transport" { Mode::Transport } else { Mode::Tunnel }
    }

    /// Ports of ESP in UDP, as the sender and as the receiver sees them.
    fn encap(&self) -> Option<[Encap; 2]> {
        let [from, to] = self.sa.encap?;
        let encap = |local, remote| Encap { local, remote, keepalive: None };
        Some([encap(from, to), encap(to, from)])
    }

    /// The adjacency of the black side.
    fn black(&self, rig: &Rig) -> u32 {
        let of_black = |a: &ferrule_dataplane::route::Adjacency| a.iface == BLACK.0;
        rig.tables.adjacencies.iter().position(of_black).expect("a way out") as u32
    }

    /// Offset of ESP in a frame, and the octets from there on.
    fn outer<'f>(&self, frame: &'f [u8]) -> Result<(usize, &'f [u8]), String> {
        let (head, rest) = outer(frame)?;
        let udp = if self.sa.encap.is_some() { udp::Header::LEN } else { 0 };
        Ok((head + udp, rest.get(udp..).ok_or("no UDP header")?))
    }

    fn keys(&self) -> (KeySpec, Secret) {
        let key = Secret::new(self.sa.enc_key.0.clone());
        let mac_key = Secret::new(self.sa.auth_key.0.clone());
        (KeySpec::new(self.suite, key, mac_key), Secret::new(self.sa.salt.0.clone()))
    }

    fn spi(&self) -> Result<u32, String> {
        let octets = <[u8; 4]>::try_from(&self.sa.spi.0[..]).map_err(|_| "an SPI has 4 octets")?;
        Ok(u32::from_be_bytes(octets))
    }

    fn mac(text: &str) -> Result<MacAddr, String> {
        text.parse()
    }

    /// A gateway with a red and a black port; `here` and `there` on the black side.
    fn gateway(&self, here: &str, there: &str) -> Result<(Rig, u32, u32), String> {
        let mut rig = Rig::new(self.kind);
        rig.routed_port("red", RED_HERE, VrfId::GLOBAL, RED_MTU);
        rig.routed_port("black", Self::mac(here)?, VrfId::GLOBAL, self.mtu);
        let red = rig.adjacency(RED, RED_THERE, &[], TtlModel::Uniform)?;
        let black = rig.adjacency(BLACK, Self::mac(there)?, &[], TtlModel::Uniform)?;
        Ok((rig, red, black))
    }

    fn sender(&self, first: u64) -> Result<Rig, String> {
        let (mut rig, _, black) = self.gateway(&self.peers.from_mac, &self.peers.to_mac)?;
        rig.tables.vrfs.push(Vrf::new("", everywhere(black)).into());
        let entry = |s: &Selector| PolicyEntry::new(s.clone(), Action::Protect(0));
        let entries: Vec<_> = self.selectors.iter().map(entry).collect();
        rig.policy_at(BLACK, Spd::new(&entries).map_err(|e| format!("{e:?}"))?);
        rig.tables.sas.fill(0, 0, Some(OutboundPlace::default()));
        let (keys, salt) = self.keys();
        let flag = |name: &str| self.sa.flags.iter().any(|f| f == name);
        let outside = Outside {
            df: if flag("nopmtudisc") { Df::Clear } else { Df::Copy },
            dscp: if flag("dont-encap-dscp") { Dscp::new(0) } else { None },
            ..Outside::default()
        };
        let config = OutboundConfig {
            name: self.sa.id.as_str().into(),
            esn: self.sa.esn,
            adjacency: black,
            mtu: self.inner_mtu(),
            outside,
            mode: self.mode(),
            encap: self.encap().map(|[from, _]| from),
            ..OutboundConfig::tunnel(self.spi()?, (self.sa.src, self.sa.dst), keys, salt)
        };
        let max = if self.sa.esn { u64::MAX - 1 } else { u32::MAX.into() };
        let sequence = Sequence::unlimited(first, max);
        let placed = rig.esp_out.install_at(&mut rig.engine, 0, &config, sequence);
        placed.map_err(|e| e.to_string())?;
        Ok(rig)
    }

    fn receiver(&self, first: u64) -> Result<Rig, String> {
        let (mut rig, red, _) = self.gateway(&self.peers.to_mac, &self.peers.from_mac)?;
        let bits = if self.sa.dst.is_ipv4() { 32 } else { 128 };
        let own = ((self.sa.dst, bits), Route::Local);
        rig.tables.vrfs.push(Vrf::new("", everywhere(red).into_iter().chain([own])).into());
        let place = InboundPlace { spi: self.spi()?, worker: 0, index: 0 };
        let ports = self.encap().map(|[_, to]| to.local);
        let sas = SaDirectory::new(&[], &[place]).map_err(|e| e.to_string())?;
        (rig.tables.sas, rig.tables.udp_ports) = (sas.into(), ports.into_iter().collect());
        let (keys, salt) = self.keys();
        // Here the capture's source is the remote side.
        let turned = |s: &Selector| Selector::between(s.remote, s.local);
        let config = InboundConfig {
            name: self.sa.id.as_str().into(),
            esn: self.sa.esn,
            window: self.sa.window,
            selectors: self.selectors.iter().map(turned).collect(),
            mode: self.mode(),
            encap: self.encap().map(|[_, to]| to),
            ..InboundConfig::tunnel(self.spi()?, (self.sa.src, self.sa.dst), keys, salt)
        };
        let edge = first.saturating_sub(1);
        let placed = rig.esp_in.install_at(&mut rig.engine, 0, &config, edge);
        placed.map_err(|e| e.to_string())?;
        Ok(rig)
    }

    /// The longest clear packet whose sealed packet fits the black side.
    fn inner_mtu(&self) -> u16 {
        let head = if self.sa.src.is_ipv4() { ipv4::Header::LEN } else { ipv6::Header::LEN };
        let udp = if self.sa.encap.is_some() { udp::Header::LEN } else { 0 };
        let fixed = head + udp + esp::Header::LEN + self.suite.esp_iv_len() + self.suite.icv_len();
        let room = usize::from(self.mtu).saturating_sub(fixed);
        let align = self.suite.esp_align();
        let text = (room / align * align).saturating_sub(esp::TRAILER_LEN);
        let own = if self.mode() == Mode::Transport { head } else { 0 };
        (text + own) as u16
    }
}

/// Everything by one adjacency.
pub fn everywhere(adjacency: u32) -> [((IpAddr, u8), Route); 2] {
    let any = |text: &str| (text.parse().expect("an address"), 0);
    [(any("0.0.0.0"), Route::Via(adjacency)), (any("::"), Route::Via(adjacency))]
}

/// An IP packet in Ethernet.
pub fn ethernet(to: MacAddr, from: MacAddr, packet: &[u8]) -> Vec<u8> {
    let ethertype: [u8; 2] =
        if packet.first().is_some_and(|b| b >> 4 == 4) { [0x08, 0x00] } else { [0x86, 0xdd] };
    [&to.0[..], &from.0, &ethertype, packet].concat()
}

/// The packet with `more` hops left, its checksum made good.
pub fn with_hops(packet: &[u8], more: i8) -> Result<Vec<u8>, String> {
    let mut packet = packet.to_vec();
    let v4 = packet.first().is_some_and(|b| b >> 4 == 4);
    let hops = packet.get_mut(if v4 { 8 } else { 7 }).ok_or("no IP header")?;
    *hops = hops.checked_add_signed(more).ok_or("no hop limit to add to or take from")?;
    if v4 {
        checksum(&mut packet)?;
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

/// The frame that some frames are, put together if there are several fragments (RFC
/// 791 section 3.2, RFC 8200 section 4.5).
fn whole(frames: &[&[u8]]) -> Result<Vec<u8>, String> {
    let [first, ..] = frames else { return Err("nothing left".into()) };
    if frames.len() == 1 {
        return Ok(first.to_vec());
    }
    let (head, _) = outer(first)?;
    let v4 = first[ETHERNET] >> 4 == 4;
    // In IPv6 the fragment header is the last before what was cut.
    let kept = if v4 { head } else { head - ipv6ext::Header::LEN };
    let mut parts = Vec::new();
    for frame in frames {
        let (at, data) = fragment(frame)?;
        parts.push((at, data));
    }
    parts.sort_by_key(|&(at, _)| at);
    let mut packet = first[..kept].to_vec();
    let mut next = 0;
    for (at, data) in parts {
        if at != next {
            return Err(format!("a fragment at {at} where {next} comes next"));
        }
        next += data.len();
        packet.extend(data);
    }
    let len = packet.len() - ETHERNET;
    if v4 {
        packet[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&(len as u16).to_be_bytes());
        packet[ETHERNET + 6] &= 0xc0;
        packet[ETHERNET + 7] = 0;
        checksum(&mut packet[ETHERNET..])?;
    } else {
        let (h, payload) =
            ipv6::Header::ref_from_prefix(&first[ETHERNET..]).map_err(|_| "short")?;
        let front = ipv6ext::front_of(h.next(), payload, kept - ETHERNET - ipv6::Header::LEN);
        let field = ETHERNET + front.map_err(|e| e.to_string())?.field;
        packet[field] = first[kept];
        let len = (len - ipv6::Header::LEN) as u16;
        packet[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&len.to_be_bytes());
    }
    Ok(packet)
}

/// Offset of a fragment's data in its datagram, and the data.
fn fragment(frame: &[u8]) -> Result<(usize, &[u8]), String> {
    let packet = frame.get(ETHERNET..).unwrap_or_default();
    if packet.first().is_some_and(|b| b >> 4 == 4) {
        let (h, _) = ipv4::Header::ref_from_prefix(packet).map_err(|_| "short")?;
        let total = usize::from(h.total_len.get());
        let data = packet.get(h.header_len()..total).ok_or("short")?;
        return Ok((usize::from(h.fragment.get() & 0x1fff) * 8, data));
    }
    let (h, payload) = ipv6::Header::ref_from_prefix(packet).map_err(|_| "short")?;
    let upper = ipv6ext::walk(h.next(), payload).map_err(|e| e.to_string())?;
    let part = upper.fragment.ok_or("no fragment")?;
    let at = upper.fragment_at + ipv6ext::Header::LEN;
    let data = payload.get(at..usize::from(h.payload_len.get())).ok_or("short")?;
    Ok((usize::from(part.offset) * 8, data))
}

/// Offset of an IP packet's payload in a frame, and the payload.
fn outer(frame: &[u8]) -> Result<(usize, &[u8]), String> {
    let packet = frame.get(ETHERNET..).unwrap_or_default();
    let (head, total) = match packet.first().map(|b| b >> 4) {
        Some(4) => {
            let (h, _) = ipv4::Header::ref_from_prefix(packet).map_err(|_| "short")?;
            (h.header_len(), h.total_len.get().into())
        }
        Some(6) => {
            let (h, _) = ipv6::Header::ref_from_prefix(packet).map_err(|_| "short")?;
            let payload = packet.get(ipv6::Header::LEN..).unwrap_or_default();
            let upper = ipv6ext::walk(h.next(), payload).map_err(|e| e.to_string())?;
            let total = ipv6::Header::LEN + usize::from(h.payload_len.get());
            (ipv6::Header::LEN + upper.offset, total)
        }
        _ => return Err("not an IP packet".into()),
    };
    let esp = packet.get(head..total).ok_or("the outer lengths are wrong")?;
    Ok((ETHERNET + head, esp))
}

/// Takes over from the capture what may differ, and counts it.
fn level(made: &mut [u8], captured: &[u8], row: &mut Row) -> Result<(), String> {
    if made.len() != captured.len() {
        return Err(format!("{} octets instead of {}", made.len(), captured.len()));
    }
    let (made, captured) = (&mut made[ETHERNET..], &captured[ETHERNET..]);
    if made[0] >> 4 == 4 {
        if made[4..6] != captured[4..6] {
            made[4..6].copy_from_slice(&captured[4..6]);
            row.allow("identification");
        }
        if made[1] & 3 == 3 && captured[1] & 3 == 2 {
            made[1] = made[1] & !3 | 2;
            row.allow("congestion mark");
        }
        return checksum(made);
    }
    if made[1] & 0x30 == 0x30 && captured[1] & 0x30 == 0x20 {
        made[1] = made[1] & !0x30 | 0x20;
        row.allow("congestion mark");
    }
    let label = |p: &[u8]| [p[1] & 0x0f, p[2], p[3]];
    if label(made) != label(captured) {
        made[1] = made[1] & 0xf0 | captured[1] & 0x0f;
        made[2..4].copy_from_slice(&captured[2..4]);
        row.allow("flow label");
    }
    Ok(())
}

/// Equal, or where they begin to differ.
pub fn same(got: &[u8], expected: &[u8]) -> Result<(), String> {
    if got == expected {
        return Ok(());
    }
    let at = got.iter().zip(expected).take_while(|(a, b)| a == b).count();
    let near = |octets: &[u8]| {
        let part = octets.get(at..octets.len().min(at + 8)).unwrap_or_default();
        part.iter().map(|b| format!("{b:02x}")).collect::<String>()
    };
    let (len, want) = (got.len(), expected.len());
    Err(format!(
        "differs at octet {at}: {} instead of {} ({len} octets, expected {want})",
        near(got),
        near(expected)
    ))
}
