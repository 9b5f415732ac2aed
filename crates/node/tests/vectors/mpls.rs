//! MPLS sets: two VPNs with equal prefixes across three routers.
//!
//! ```text
//!   red  ─┐                                    ┌─ red
//!         ├─ pe1 ──── pe1-l1  p  pe2-l2 ── pe2 ┤
//!   blue ─┘  push       swap or pop       pop  └─ blue
//!            make          take          take
//! ```
//!
//! Each router is a node of its own and gets the frames that the capture's
//! router got, so a mistake shows where it was made. Linux counts the hop of an
//! outer label in that label alone; that is the pipe model of RFC 3443 for the
//! outer label, and configured so.

use crate::engine::Kind;
use crate::esp::{everywhere, same};
use crate::report::{Row, Way};
use crate::rig::Rig;
use crate::sidecar::{Captured, Set};
use ferrule_base::{MacAddr, PortId, VrfId};
use ferrule_dataplane::mpls::{Ilm, IlmAction, Lfib};
use ferrule_dataplane::route::{Labels, Route, TtlModel, Vrf};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::IpAddr;

const MTU: u16 = 2000;
/// TTL of a pushed label in the pipe model, here.
const PIPE_TTL: u8 = 255;

/// Labels that a router pushes on packets of a VPN.
#[derive(Debug, Deserialize)]
struct Push {
    vrf: String,
    in_port: String,
    prefixes: Vec<String>,
    /// The outermost first.
    labels: Vec<u32>,
    #[serde(flatten)]
    way: WayOut,
}

/// A router's action on a label.
#[derive(Debug, Deserialize)]
struct Incoming {
    op: String,
    then: Option<String>,
    #[serde(default)]
    out: Vec<u32>,
    vrf: Option<String>,
    #[serde(flatten)]
    way: Option<WayOut>,
}

#[derive(Clone, Debug, Deserialize)]
struct WayOut {
    port: String,
    src_mac: String,
    dst_mac: String,
}

#[derive(Debug, Deserialize)]
struct Router {
    push: Vec<Push>,
    ilm: BTreeMap<String, Incoming>,
}

/// The way of one packet: frame numbers hop by hop, and where it ended.
#[derive(Debug, Deserialize)]
struct Journey {
    n: Vec<usize>,
    end: String,
}

/// Runs a set.
pub fn run(set: &Set, kind: Kind, row: &mut Row) -> Result<(), String> {
    let routers: BTreeMap<String, Router> = set.get("routers")?;
    let wires: BTreeMap<String, String> = set.get("wires")?;
    let journeys: Vec<Journey> = set.get("frames")?;
    let propagate: bool = set.get("ttl_propagate")?;
    let default_ttl: u8 = set.get("default_ttl")?;
    let model = if propagate { TtlModel::Uniform } else { TtlModel::Pipe };
    let mut nodes = BTreeMap::new();
    for (name, router) in &routers {
        nodes.insert(name.as_str(), Node::new(kind, router, &wires, name, model)?);
    }
    for journey in &journeys {
        let mut from: Option<String> = None;
        for (i, &n) in journey.n.iter().enumerate() {
            let frame = set.frame(n)?;
            let expected = journey.n.get(i + 1).map(|&n| set.frame(n)).transpose()?;
            if expected.is_none() && journey.end != "ttl" {
                break;
            }
            let (router, port) = arrives(frame, from.as_deref(), &wires)?;
            let way = if i == 0 { Way::Make } else { Way::Take };
            let node = nodes.get_mut(router).ok_or_else(|| format!("no router {router}"))?;
            let pushed = (i == 0 && !propagate).then_some(default_ttl);
            row.record(way, n, node.hop(&port, frame, expected, &wires, pushed));
            from = Some(router.to_owned());
        }
    }
    Ok(())
}

/// The router and port at which a captured frame arrives: the port itself, or
/// where its wire leads if `from` has just sent it.
fn arrives<'a>(
    frame: &'a Captured,
    from: Option<&str>,
    wires: &'a BTreeMap<String, String>,
) -> Result<(&'a str, String), String> {
    let owner = |port: &'a str| port.split('-').next().unwrap_or_default();
    if from != Some(owner(&frame.port)) {
        return Ok((owner(&frame.port), frame.port.clone()));
    }
    let far = wires.get(&frame.port).ok_or_else(|| format!("no wire at {}", frame.port))?;
    Ok((owner(far), far.clone()))
}

/// One router.
struct Node {
    rig: Rig,
    ports: Vec<String>,
}

impl Node {
    fn new(
        kind: Kind,
        router: &Router,
        wires: &BTreeMap<String, String>,
        name: &str,
        model: TtlModel,
    ) -> Result<Self, String> {
        let mut node = Self { rig: Rig::new(kind), ports: Vec::new() };
        let mut vrfs = vec![String::new()];
        let named = router.push.iter().map(|p| &p.vrf);
        for vrf in named.chain(router.ilm.values().filter_map(|i| i.vrf.as_ref())) {
            if !vrfs.contains(vrf) {
                vrfs.push(vrf.clone());
            }
        }
        node.ports(router, wires, name, &vrfs)?;
        let mut routes: Vec<Vec<((IpAddr, u8), Route)>> = vrfs.iter().map(|_| Vec::new()).collect();
        for push in &router.push {
            let labels: Vec<u32> = push.labels.iter().rev().copied().collect();
            let adjacency = node.adjacency(&push.way, &labels, model)?;
            for prefix in &push.prefixes {
                routes[number(&vrfs, &push.vrf)].push((parse(prefix)?, Route::Via(adjacency)));
            }
        }
        let mut entries = Vec::new();
        for (label, incoming) in &router.ilm {
            let label: u32 = label.parse().map_err(|_| "a label is a number")?;
            let (action, ttl) = match (incoming.op.as_str(), &incoming.way, &incoming.vrf) {
                ("pop", Some(way), Some(vrf)) => {
                    let adjacency = node.adjacency(way, &[], TtlModel::Uniform)?;
                    let vrf = number(&vrfs, vrf);
                    routes[vrf].extend(everywhere(adjacency));
                    (IlmAction::Ip(VrfId(vrf as u16)), model)
                }
                ("pop", None, None) if incoming.then.as_deref() == Some("label") => {
                    (IlmAction::Ip(VrfId::GLOBAL), TtlModel::Pipe)
                }
                ("swap" | "pop", Some(way), None) => {
                    let adjacency = node.adjacency(way, &[], TtlModel::Uniform)?;
                    let labels: Labels = incoming.out.iter().rev().copied().collect();
                    (IlmAction::Forward(labels, adjacency), TtlModel::Pipe)
                }
                _ => return Err(format!("label {label}: unknown operation {}", incoming.op)),
            };
            entries.push((label, Ilm { action, ttl }));
        }
        node.rig.tables.lfib = Lfib::new(entries);
        node.rig.tables.vrfs =
            vrfs.iter().zip(routes).map(|(n, r)| Vrf::new(n, r).into()).collect();
        Ok(node)
    }

    /// Its ports: those of its own ways out, with their addresses.
    fn ports(
        &mut self,
        router: &Router,
        wires: &BTreeMap<String, String>,
        name: &str,
        vrfs: &[String],
    ) -> Result<(), String> {
        let ilm = router.ilm.values();
        let ways = ilm.filter_map(|i| i.way.as_ref()).chain(router.push.iter().map(|p| &p.way));
        let macs: BTreeMap<&str, &str> = ways.map(|w| (&*w.port, &*w.src_mac)).collect();
        let inside = wires.keys().filter(|p| p.split('-').next() == Some(name));
        let outside = router.push.iter().map(|p| &p.in_port);
        let mut ports: Vec<&String> = inside.chain(outside).collect();
        ports.sort();
        ports.dedup();
        for port in ports {
            let vrf = router.push.iter().find(|p| p.in_port == **port);
            let vrf = vrf.map_or(VrfId::GLOBAL, |p| VrfId(number(vrfs, &p.vrf) as u16));
            let mac = macs.get(port.as_str()).ok_or_else(|| format!("no address of {port}"))?;
            self.rig.routed_port(port, mac.parse()?, vrf, MTU);
            self.ports.push(port.clone());
        }
        Ok(())
    }

    fn port(&self, name: &str) -> Result<PortId, String> {
        let found = self.ports.iter().position(|p| p == name);
        found.map(|i| PortId(i as u16)).ok_or_else(|| format!("no port {name}"))
    }

    fn adjacency(&mut self, way: &WayOut, labels: &[u32], ttl: TtlModel) -> Result<u32, String> {
        let mac: MacAddr = way.dst_mac.parse()?;
        self.rig.adjacency(self.port(&way.port)?, mac, labels, ttl)
    }

    /// One frame through this router: the next of the capture, or its end. Labels that it
    /// pushes in the pipe model have the TTL `pushed`.
    fn hop(
        &mut self,
        port: &str,
        frame: &Captured,
        expected: Option<&Captured>,
        wires: &BTreeMap<String, String>,
        pushed: Option<u8>,
    ) -> Result<(), String> {
        let outcome = self.rig.receive(self.port(port)?, &frame.octets);
        let Some(expected) = expected else {
            return match outcome.sent.len() {
                0 if outcome.drops.len() == 1 => Ok(()),
                n => Err(format!("its TTL ended, but {n} frames left")),
            };
        };
        let (out, mut made) = outcome.one()?;
        if let Some(ttl) = pushed {
            retell(&mut made, ttl);
        }
        let out = self.ports.get(usize::from(out.0)).map_or("", String::as_str);
        let wire = wires.get(out).map_or("", String::as_str);
        if expected.port != out && expected.port != wire {
            return Err(format!("it left by {out}, not {}", expected.port));
        }
        same(&made, &expected.octets)
    }
}

/// A frame whose maker gives pushed labels another TTL in the pipe model than 255, which is
/// the maker's to choose (RFC 3443 section 3.2).
fn retell(frame: &mut [u8], ttl: u8) {
    for entry in frame.get_mut(14..).unwrap_or_default().chunks_exact_mut(4) {
        if entry[3] == PIPE_TTL {
            entry[3] = ttl;
        }
        if entry[2] & 1 != 0 {
            return;
        }
    }
}

#[test]
fn set_of_the_pipe_model_passes_whatever_ttl_its_maker_pushes() {
    let mut set = crate::own_set("mpls/l3vpn-pipe");
    assert!(crate::run(&set, crate::best()).passed());
    // Every label as if 64 had been pushed, and lived through as many hops.
    for frame in set.capture.iter_mut().filter(|f| f.octets.get(12..14) == Some(&[0x88, 0x47])) {
        for entry in frame.octets[14..].chunks_exact_mut(4) {
            entry[3] = entry[3].wrapping_sub(PIPE_TTL - 64);
            if entry[2] & 1 != 0 {
                break;
            }
        }
    }
    let row = crate::run(&set, crate::best());
    assert!(row.failed(), "the sidecar still says 255");
    set.json["default_ttl"] = 64.into();
    let row = crate::run(&set, crate::best());
    assert!(row.passed(), "{row:?}");
}

/// A VRF's number.
fn number(vrfs: &[String], name: &str) -> usize {
    vrfs.iter().position(|v| v == name).unwrap_or_default()
}

fn parse(prefix: &str) -> Result<(IpAddr, u8), String> {
    let parts = prefix.split_once('/');
    let read = parts.and_then(|(a, len)| Some((a.parse().ok()?, len.parse().ok()?)));
    read.ok_or_else(|| format!("{prefix} is no prefix"))
}
