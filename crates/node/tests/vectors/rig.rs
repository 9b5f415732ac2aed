//! A worker's graph around hand-made tables: whole frames in, whole frames out.
//!
//! The stages and their order are those of a worker; in addition a test can stop packets at
//! a place and look at them.

use crate::engine::{AnyEngine, Kind};
use ferrule_base::{DropReason, Instant, MacAddr, PortId, VrfId};
use ferrule_crypto::{Engine, Jobs};
use ferrule_dataplane::graph::{Ctx, Next, Outputs, Stage, Tally};
use ferrule_dataplane::route::{Adjacency, Labels, TtlModel};
use ferrule_dataplane::tables::{Attach, Iface, IfaceKind, PortEntry, RoutedIface, Tables, Tag};
use ferrule_dataplane::{fragment, ipsec, link, macsec, mpls, route};
use ferrule_pipeline::{Batch, Meta, Pool, PoolCache};
use std::net::IpAddr;

/// Octets of a chunk: the largest datagram, once put together, and what a stack adds.
const CHUNK: usize = 8192;
const CHUNKS: usize = 256;
/// Passes before a packet that goes round is a failure.
const PASSES_MAX: usize = 32;

/// Result of one run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Frames that left, with their ports.
    pub sent: Vec<(PortId, Vec<u8>)>,
    /// Reasons of dropped packets.
    pub drops: Vec<DropReason>,
}

impl Outcome {
    /// The one frame that left.
    pub fn one(self) -> Result<(PortId, Vec<u8>), String> {
        match <[_; 1]>::try_from(self.sent) {
            Ok([frame]) => Ok(frame),
            Err(sent) => Err(format!("{} frames left, dropped: {:?}", sent.len(), self.drops)),
        }
    }
}

/// One node.
pub struct Rig {
    pub tables: Tables,
    pub engine: AnyEngine,
    pub esp_in: ipsec::EspIn,
    pub esp_out: ipsec::EspOut,
    pub ah_in: ipsec::AhIn,
    pub ah_out: ipsec::AhOut,
    pub secy_in: macsec::SecyIn,
    pub secy_out: macsec::SecyOut,
    attach: link::Attach,
    ip: route::Ip,
    reassemble: fragment::Reassemble,
    local: route::Local,
    icmp_error: route::IcmpError,
    policy: ipsec::Policy,
    mpls: mpls::Switch,
    output: link::Output,
    emit: link::Emit,
    now: Instant,
    cache: PoolCache,
    out: Outputs,
    tally: Tally,
}

impl Rig {
    pub fn new(kind: Kind) -> Self {
        Self {
            tables: Tables { workers: 1, ..Tables::default() },
            engine: AnyEngine::new(kind),
            now: Instant::ZERO,
            esp_in: ipsec::EspIn::default(),
            esp_out: ipsec::EspOut::default(),
            ah_in: ipsec::AhIn::default(),
            ah_out: ipsec::AhOut::default(),
            secy_in: macsec::SecyIn::default(),
            secy_out: macsec::SecyOut::default(),
            attach: link::Attach,
            ip: route::Ip::default(),
            reassemble: fragment::Reassemble::default(),
            local: route::Local::default(),
            icmp_error: route::IcmpError::default(),
            policy: ipsec::Policy,
            mpls: mpls::Switch::default(),
            output: link::Output,
            emit: link::Emit,
            cache: Pool::heap(CHUNKS, CHUNK).cache(),
            out: Outputs::new(),
            tally: Tally::default(),
        }
    }

    /// A port with one routed interface of the same number.
    pub fn routed_port(&mut self, name: &str, mac: MacAddr, vrf: VrfId, mtu: u16) -> PortId {
        let (port, iface) = (self.tables.ports.len() as u16, self.tables.ifaces.len() as u16);
        self.tables.ports.push(PortEntry {
            name: name.into(),
            mac,
            frame_max: CHUNK as u16,
            owner: 0,
            everywhere: false,
            secy: None,
            attach: Attach { untagged: Some(iface), ..Attach::default() },
        });
        let routed = RoutedIface {
            vrf,
            mac,
            mtu,
            v4: Vec::new(),
            v6: Vec::new(),
            mpls: true,
            policy: None,
            sources: None,
            clamp: None,
            has_card: false,
        };
        let kind = IfaceKind::Routed(routed);
        self.tables.ifaces.push(Iface::new(name, PortId(port), Tag::None, kind));
        PortId(port)
    }

    /// A way out by a port to the neighbour with this link address.
    pub fn adjacency(
        &mut self,
        port: PortId,
        mac: MacAddr,
        labels: &[u32],
        ttl: TtlModel,
    ) -> Result<u32, String> {
        // The address is never resolved: each neighbour has a number of its own.
        let number = self.tables.adjacencies.len() as u32;
        let address = IpAddr::from((0x0a_ff_00_00 + number).to_be_bytes());
        let neighbours = &self.tables.neighbours;
        let neighbour = neighbours.reserve(port.0, address).ok_or("no room for neighbours")?;
        neighbours.set(port.0, address, mac);
        let labels: Labels = labels.iter().copied().collect();
        let neighbour = Some(neighbour);
        self.tables.adjacencies.push(Adjacency {
            neighbour,
            labels,
            ttl,
            ..Adjacency::on_link(port.0)
        });
        Ok(number)
    }

    /// A policy at the boundary of a port's interface.
    pub fn policy_at(&mut self, port: PortId, policy: ipsec::Spd) {
        let number = self.tables.policies.len() as u16;
        self.tables.policies.push(policy.into());
        if let Some(IfaceKind::Routed(routed)) =
            self.tables.ifaces.get_mut(usize::from(port.0)).map(|i| &mut i.kind)
        {
            routed.policy = Some(number);
        }
    }

    /// A port with a SecY in front.
    pub fn secured_port(&mut self, name: &str, mac: MacAddr) -> PortId {
        let port = self.routed_port(name, mac, VrfId::GLOBAL, CHUNK as u16);
        let secured = self.tables.ports.iter().filter(|port| port.secy.is_some()).count();
        self.tables.ports[usize::from(port.0)].secy = Some(secured as u16);
        port
    }

    /// A frame arrives on `port`, which has no SecY.
    pub fn receive(&mut self, port: PortId, frame: &[u8]) -> Outcome {
        self.inject(Next::Attach, port, frame, None)
    }

    /// A frame of `port` at a place in the graph; it leaves by a port, or at
    /// `stop`.
    pub fn inject(
        &mut self,
        next: Next,
        port: PortId,
        frame: &[u8],
        stop: Option<Next>,
    ) -> Outcome {
        self.inject_with(next, Meta { port, ..Meta::default() }, frame, stop)
    }

    /// The same with all that is known about the packet there.
    pub fn inject_with(
        &mut self,
        next: Next,
        meta: Meta,
        frame: &[u8],
        stop: Option<Next>,
    ) -> Outcome {
        // Tests change the tables as they like in between.
        self.tables.compile();
        let mut packet = self.cache.packet_from(frame).expect("the pool has room");
        *packet.meta_mut() = meta;
        self.out.send(next, packet);
        let mut outcome = Outcome::default();
        for _ in 0..PASSES_MAX {
            for next in Next::ALL {
                let mut batch: Box<Batch> = Box::new(self.out.queue(next).drain(..).collect());
                if next == Next::Transmit || Some(next) == stop {
                    let frames = batch.drain(..).map(|p| (p.meta().port, p.data().to_vec()));
                    outcome.sent.extend(frames);
                }
                self.dispatch(next, &mut batch);
                assert!(batch.is_empty(), "{} left packets behind", next.name());
            }
            self.collect();
            let dropped = self.out.dropped().drain(..);
            outcome.drops.extend(dropped.map(|(_, reason)| reason));
        }
        assert_eq!(self.out.held(), 0, "a packet went round");
        outcome
    }

    /// Waits for jobs that the engine finishes later.
    fn collect(&mut self) {
        while let Some(due) = self.engine.poll_timeout() {
            self.now = self.now.max(due);
            let mut done = Jobs::new();
            self.engine.collect(self.now, &mut done);
            let mut ctx = Ctx {
                now: self.now,
                worker: 0,
                tables: &self.tables,
                cache: &mut self.cache,
                tally: &mut self.tally,
                out: &mut self.out,
            };
            self.secy_in.finish(&mut ctx, &mut done);
            self.esp_in.finish(&mut ctx, &mut done);
            self.esp_out.finish(&mut ctx, &mut done);
            self.ah_in.finish(&mut ctx, &mut done);
            self.ah_out.finish(&mut ctx, &mut done);
            self.secy_out.finish(&mut ctx, &mut done);
            assert!(done.is_empty(), "every job belongs to a stage");
        }
    }

    fn dispatch(&mut self, next: Next, batch: &mut Box<Batch>) {
        let mut ctx = Ctx {
            now: self.now,
            worker: 0,
            tables: &self.tables,
            cache: &mut self.cache,
            tally: &mut self.tally,
            out: &mut self.out,
        };
        match next {
            Next::Attach => self.attach.push(&mut ctx, batch),
            Next::Mpls => self.mpls.push(&mut ctx, batch),
            Next::Ip => self.ip.push(&mut ctx, batch),
            Next::Reassemble => self.reassemble.push(&mut ctx, batch),
            Next::Local => self.local.push(&mut ctx, batch),
            Next::EspIn => self.esp_in.push(&mut ctx, &mut self.engine, batch),
            Next::Policy => self.policy.push(&mut ctx, batch),
            Next::EspOut => self.esp_out.push(&mut ctx, &mut self.engine, batch),
            Next::AhIn => self.ah_in.push(&mut ctx, &mut self.engine, batch),
            Next::AhOut => self.ah_out.push(&mut ctx, &mut self.engine, batch),
            Next::IcmpError => self.icmp_error.push(&mut ctx, batch),
            Next::Output => self.output.push(&mut ctx, batch),
            Next::Emit => self.emit.push(&mut ctx, batch),
            Next::SecyIn => self.secy_in.push(&mut ctx, &mut self.engine, batch),
            Next::SecyOut => self.secy_out.push(&mut ctx, &mut self.engine, batch),
            // Nothing here bridges, crosses or asks for neighbours.
            _ => {
                for packet in batch.drain(..) {
                    ctx.out.drop(packet, DropReason::NotAttached);
                }
            }
        }
    }
}
