//! A node of two routed ports and some VLANs, made by hand, whose stages are
//! run one at a time or from a frame that comes in to the frames that go out.
//!
//! ```text
//!  port 0: iface 0, vrf 0, 10.0.0.1/24, 2001:db8::1/64      hosts .2, ::2
//!  port 1: iface 1, vrf 0, 10.1.0.1/24, 2001:db8:1::1/64    router .2, ::2
//!          iface 2, VLAN 100, vrf 1, 172.16.0.1/24, MPLS taken
//! ```

use crate::fragment::Reassemble;
use crate::graph::{Ctx, Next, Outputs, Stage, Tally};
use crate::link::{Attach, Emit, Output};
use crate::route::{Adjacency, IcmpError, Ip, Local, Neighbours, Route, Vrf};
use crate::tables::{self, Iface, IfaceKind, PortEntry, RoutedIface, Tables, Tag};
use ferrule_base::{DropReason, Instant, MacAddr, PortId, VrfId};
use ferrule_pipeline::{Batch, Packet, Pool, PoolCache};
use ferrule_wire::{EtherType, Protocol, ethernet, ipv4, ipv6};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

pub(crate) const HOST: MacAddr = MacAddr([2, 0, 0, 0, 1, 2]);
pub(crate) const ROUTER: MacAddr = MacAddr([2, 0, 0, 0, 2, 2]);

/// Our address at a port.
pub(crate) fn own(port: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, port])
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Result for a packet.
pub(crate) enum Fate {
    Sent(Next, Packet),
    Dropped(DropReason),
    Handed(u8, Next),
}

impl std::fmt::Debug for Fate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sent(next, packet) => write!(f, "{} {:02x?}", next.name(), packet.data()),
            Self::Dropped(reason) => f.write_str(reason.name()),
            Self::Handed(worker, next) => write!(f, "worker {worker} {}", next.name()),
        }
    }
}

/// Packets with their metadata, in order, by the place where they ended.
pub(crate) type Told = BTreeMap<String, Vec<String>>;

pub(crate) fn tell(fates: Vec<Fate>, told: &mut Told) {
    for fate in fates {
        let (place, meta) = match &fate {
            Fate::Sent(next, packet) => (next.name().to_owned(), Some(*packet.meta())),
            other => (format!("{other:?}"), None),
        };
        told.entry(place).or_default().push(format!("{fate:?} {meta:?}"));
    }
}

pub(crate) struct Rig {
    pub tables: Tables,
    pub now: Instant,
    pub cache: PoolCache,
    pub tally: Tally,
    pub out: Outputs,
    pub attach: Attach,
    pub ip: Ip,
    pub reassemble: Reassemble,
    pub local: Local,
    pub error: IcmpError,
    pub output: Output,
    pub emit: Emit,
}

pub(crate) fn routed(vrf: u16, port: u8, v4: &str, v6: &[&str]) -> RoutedIface {
    RoutedIface {
        vrf: VrfId(vrf),
        mac: own(port),
        mtu: 1500,
        v4: vec![(v4.parse().unwrap(), 24)],
        v6: v6.iter().map(|a| (a.parse().unwrap(), 64)).collect(),
        mpls: false,
        policy: None,
        sources: None,
        clamp: None,
        has_card: false,
    }
}

fn iface(port: u16, tag: Tag, kind: IfaceKind) -> Iface {
    Iface::new("test", PortId(port), tag, kind)
}

fn port(number: u8, attach: tables::Attach) -> PortEntry {
    PortEntry {
        name: "test".into(),
        mac: own(number),
        frame_max: 1518,
        owner: 0,
        everywhere: false,
        secy: None,
        attach,
    }
}

pub(crate) fn adjacency(iface: u16, neighbour: Option<u32>) -> Adjacency {
    Adjacency { neighbour, ..Adjacency::on_link(iface) }
}

/// One stage of a rig, and the rest.
macro_rules! split {
    ($rig:ident, $stage:ident) => {
        (
            &mut $rig.$stage,
            Parts {
                tables: &$rig.tables,
                now: $rig.now,
                cache: &mut $rig.cache,
                tally: &mut $rig.tally,
                out: &mut $rig.out,
            },
        )
    };
}

impl Rig {
    pub(crate) fn new() -> Self {
        let neighbours = Neighbours::default();
        let router = neighbours.reserve(1, ip("10.1.0.2"));
        neighbours.set(0, ip("10.0.0.2"), HOST);
        neighbours.set(0, ip("2001:db8::2"), HOST);
        neighbours.set(1, ip("10.1.0.2"), ROUTER);
        let net = |text: &str, len, route| ((ip(text), len), route);
        let global = Vrf::new(
            "global",
            [
                net("10.0.0.0", 24, Route::Via(0)),
                net("10.0.0.1", 32, Route::Local),
                net("10.1.0.1", 32, Route::Local),
                net("10.9.0.0", 16, Route::Via(1)),
                net("10.9.9.0", 24, Route::Discard),
                net("169.254.0.0", 16, Route::Via(1)),
                net("2001:db8::", 64, Route::Via(0)),
                net("2001:db8::1", 128, Route::Local),
                net("fe80::1", 128, Route::Local),
                net("2001:db8:9::", 48, Route::Via(1)),
            ],
        );
        let mut vpn = routed(1, 1, "172.16.0.1", &["2001:db8:a::1"]);
        vpn.mpls = true;
        let tables = Tables {
            ports: vec![
                port(0, tables::Attach { untagged: Some(0), ..Default::default() }),
                port(
                    1,
                    tables::Attach {
                        untagged: Some(1),
                        tagged: vec![(tables::Attach::key(EtherType::VLAN.0, 100), 2)],
                        ..Default::default()
                    },
                ),
            ],
            ifaces: vec![
                iface(
                    0,
                    Tag::None,
                    IfaceKind::Routed(routed(0, 0, "10.0.0.1", &["fe80::1", "2001:db8::1"])),
                ),
                iface(
                    1,
                    Tag::None,
                    IfaceKind::Routed(routed(0, 1, "10.1.0.1", &["fe80::1", "2001:db8:1::1"])),
                ),
                iface(1, Tag::Tag(EtherType::VLAN.0, 100), IfaceKind::Routed(vpn)),
            ],
            vrfs: vec![global.into(), Vrf::default().into()],
            adjacencies: vec![adjacency(0, None), adjacency(1, router)],
            neighbours: Arc::new(neighbours),
            workers: 1,
            ..Tables::default()
        };
        Self {
            tables,
            now: Instant::from_secs(1),
            cache: Pool::heap(1024, 4096).cache(),
            tally: Tally::default(),
            out: Outputs::new(),
            attach: Attach,
            ip: Ip::default(),
            reassemble: Reassemble::default(),
            local: Local::default(),
            error: IcmpError::default(),
            output: Output,
            emit: Emit,
        }
    }

    pub(crate) fn routed(&mut self, iface: usize) -> &mut RoutedIface {
        match &mut self.tables.ifaces[iface].kind {
            IfaceKind::Routed(routed) => routed,
            _ => panic!("not routed"),
        }
    }

    pub(crate) fn packet(&mut self, octets: &[u8]) -> Packet {
        self.cache.packet_from(octets).unwrap()
    }

    /// A packet as it stands in front of `Ip`, from interface 0 in VRF 0.
    pub(crate) fn ip_packet(&mut self, octets: &[u8]) -> Packet {
        let mut packet = self.packet(octets);
        let v6 = octets.first().is_some_and(|b| b >> 4 == 6);
        packet.meta_mut().ethertype = if v6 { EtherType::IPV6.0 } else { EtherType::IPV4.0 };
        packet
    }

    pub(crate) fn attach(&mut self) -> (&mut dyn Stage, Parts<'_>) {
        split!(self, attach)
    }

    pub(crate) fn ip(&mut self) -> (&mut dyn Stage, Parts<'_>) {
        split!(self, ip)
    }

    pub(crate) fn error(&mut self) -> (&mut dyn Stage, Parts<'_>) {
        split!(self, error)
    }

    pub(crate) fn output(&mut self) -> (&mut dyn Stage, Parts<'_>) {
        split!(self, output)
    }

    /// Runs one stage over one packet.
    pub(crate) fn run(
        &mut self,
        stage: fn(&mut Self) -> (&mut dyn Stage, Parts<'_>),
        packet: Packet,
    ) -> Vec<Fate> {
        let mut batch = Box::new(Batch::new());
        batch.push(packet);
        self.run_all(stage, batch)
    }

    /// Runs one stage over a batch.
    pub(crate) fn run_all(
        &mut self,
        stage: fn(&mut Self) -> (&mut dyn Stage, Parts<'_>),
        mut batch: Box<Batch>,
    ) -> Vec<Fate> {
        self.tables.compile();
        let (stage, parts) = stage(self);
        let mut ctx = parts.ctx();
        stage.push(&mut ctx, &mut batch);
        assert!(batch.is_empty(), "a stage takes every packet");
        self.take()
    }

    pub(crate) fn run_attach(&mut self, packet: Packet) -> Vec<Fate> {
        self.run(Self::attach, packet)
    }

    pub(crate) fn run_ip(&mut self, packet: Packet) -> Vec<Fate> {
        self.run(Self::ip, packet)
    }

    pub(crate) fn run_reassemble(&mut self, packet: Packet) -> Vec<Fate> {
        self.run(|r| split!(r, reassemble), packet)
    }

    /// Lets the stage give up what waited too long.
    pub(crate) fn expire(&mut self) -> Vec<Fate> {
        let (stage, parts) = split!(self, reassemble);
        stage.expire(&mut parts.ctx());
        self.take()
    }

    pub(crate) fn run_local(&mut self, packet: Packet) -> Vec<Fate> {
        self.run(|r| split!(r, local), packet)
    }

    pub(crate) fn run_error(&mut self, packet: Packet) -> Vec<Fate> {
        self.run(|r| split!(r, error), packet)
    }

    pub(crate) fn run_output(&mut self, packet: Packet) -> Vec<Fate> {
        self.run(Self::output, packet)
    }

    /// Through `Output`; the pieces of what is cut there, once more.
    pub(crate) fn put_out(&mut self, packet: Packet) -> Vec<Fate> {
        let mut fates = Vec::new();
        for fate in self.run_output(packet) {
            match fate {
                Fate::Sent(Next::Output, piece) => fates.extend(self.run_output(piece)),
                fate => fates.push(fate),
            }
        }
        fates
    }

    pub(crate) fn run_emit(&mut self, packet: Packet) -> Vec<Fate> {
        self.run(|r| split!(r, emit), packet)
    }

    /// Collects the output of a stage.
    fn take(&mut self) -> Vec<Fate> {
        let mut fates = Vec::new();
        for next in Next::ALL {
            fates.extend(self.out.queue(next).drain(..).map(|p| Fate::Sent(next, p)));
        }
        fates.extend(self.out.dropped().drain(..).map(|(_, reason)| Fate::Dropped(reason)));
        fates.extend(self.out.all_handoffs().into_iter().map(|(w, next, _)| Fate::Handed(w, next)));
        fates
    }

    /// From a frame at a port through all stages of this folder to the end.
    pub(crate) fn frame(&mut self, port: u16, frame: &[u8]) -> Vec<Fate> {
        let mut packet = self.packet(frame);
        packet.meta_mut().port = PortId(port);
        let mut going = self.run_attach(packet);
        let mut fates = Vec::new();
        for _ in 0..100 {
            let Some(fate) = going.pop() else { return fates };
            match fate {
                Fate::Sent(Next::Ip, p) => going.extend(self.run_ip(p)),
                Fate::Sent(Next::Reassemble, p) => going.extend(self.run_reassemble(p)),
                Fate::Sent(Next::Local, p) => going.extend(self.run_local(p)),
                Fate::Sent(Next::IcmpError, p) => going.extend(self.run_error(p)),
                Fate::Sent(Next::Output, p) => going.extend(self.run_output(p)),
                Fate::Sent(Next::Emit, p) => going.extend(self.run_emit(p)),
                end => fates.push(end),
            }
        }
        panic!("a packet goes round for ever");
    }
}

/// The rig without its stages.
pub(crate) struct Parts<'a> {
    pub tables: &'a Tables,
    pub now: Instant,
    pub cache: &'a mut PoolCache,
    pub tally: &'a mut Tally,
    pub out: &'a mut Outputs,
}

impl<'a> Parts<'a> {
    pub(crate) fn ctx(self) -> Ctx<'a> {
        let Self { tables, now, cache, tally, out } = self;
        Ctx { now, worker: 0, tables, cache, tally, out }
    }
}

/// The one packet that was sent on, and where to.
#[track_caller]
pub(crate) fn sent(fates: Vec<Fate>) -> (Next, Packet) {
    let text = format!("{fates:?}");
    match <[Fate; 1]>::try_from(fates) {
        Ok([Fate::Sent(next, packet)]) => (next, packet),
        _ => panic!("{text}"),
    }
}

/// Drop reason of the only packet.
#[track_caller]
pub(crate) fn dropped(fates: Vec<Fate>) -> DropReason {
    match fates[..] {
        [Fate::Dropped(reason)] => reason,
        _ => panic!("{fates:?}"),
    }
}

/// An Ethernet frame.
pub(crate) fn frame(dst: MacAddr, src: MacAddr, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; ethernet::Header::LEN];
    ethernet::Repr { dst, src, ethertype }.emit(&mut out);
    out.extend(payload);
    out
}

/// An IPv4 packet.
pub(crate) fn v4(src: &str, dst: &str, protocol: Protocol, payload: &[u8]) -> Vec<u8> {
    let len = payload.len() as u16;
    let header = ipv4::Repr::new(protocol, src.parse().unwrap(), dst.parse().unwrap(), len);
    let mut out = vec![0; header.len()];
    header.emit(&mut out);
    out.extend(payload);
    out
}

/// An IPv6 packet.
pub(crate) fn v6(src: &str, dst: &str, next: Protocol, payload: &[u8]) -> Vec<u8> {
    let len = payload.len() as u16;
    let header = ipv6::Repr::new(next, src.parse().unwrap(), dst.parse().unwrap(), len);
    let mut out = vec![0; header.len()];
    header.emit(&mut out);
    out.extend(payload);
    out
}
