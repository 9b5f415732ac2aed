//! Other ends of tunnels that are somewhere else than the configuration says: behind another
//! address translation (RFC 7296 section 2.23), or moved.
//!
//! ```text
//!   authentic packet from elsewhere ─▶ the tunnel follows? ─▶ all of its SAs move
//!   another configuration, another SA ─▶ moves there, too
//! ```

use super::Control;
use crate::config::{SaConfig, TunnelConfig};
use crate::incident::{Incident, SaName};
use crate::message::Seat;
use crate::sas::{Client, Sa};
use crate::static_keys::{Version, outbound};
use ferrule_base::Secret;
use ferrule_control::Refused;
use ferrule_crypto::KeySpec;
use ferrule_dataplane::ipsec::{Encap, Endpoints, Lifetimes, Mode, OutboundConfig};
use ferrule_dataplane::route::Route;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Where the other ends of tunnels that follow are, by slot.
#[derive(Default)]
pub(super) struct Peers(HashMap<u32, SocketAddr>);

impl Control {
    /// The other end of an inbound SA sent an authentic packet from another address: SAs of a
    /// tunnel that follows go there.
    pub(super) fn heard_elsewhere(&mut self, sa: Sa, from: SocketAddr) {
        let Some((slot, _)) = self.sas.slot_and_spi(sa) else { return };
        let Some(tunnel) = self.tunnel_of(slot).filter(|tunnel| tunnel.follows) else { return };
        let name = tunnel.name.clone();
        if self.external.peers.0.insert(slot, from) != Some(from) {
            self.incidents.push(Incident::PeerMoved { tunnel: name, address: from });
        }
        for sa in self.sas.of_slot(slot) {
            self.follow_peer(slot, sa);
        }
    }

    /// SAs of all tunnels whose other end is elsewhere go there, by the routes of now. Those
    /// that the configuration does not let follow any more stay where they are.
    pub(super) fn follow_peers(&mut self) {
        let follows = |control: &Self, slot| control.tunnel_of(slot).is_some_and(|t| t.follows);
        let mut peers = std::mem::take(&mut self.external.peers.0);
        peers.retain(|&slot, _| follows(self, slot));
        let slots: Vec<u32> = peers.keys().copied().collect();
        self.external.peers.0 = peers;
        for slot in slots {
            for sa in self.sas.of_slot(slot) {
                self.follow_peer(slot, sa);
            }
        }
    }

    /// An SA goes where the other end of its tunnel is, if that is known to be elsewhere.
    pub(super) fn follow_peer(&mut self, slot: u32, sa: Sa) {
        let Some(&at) = self.external.peers.0.get(&slot) else { return };
        let Some(tunnel) = self.tunnel_of(slot) else { return };
        let ports = tunnel.encap.map(|encap| (encap.local, at.port()));
        let ends = Endpoints { local: tunnel.local, remote: at.ip(), ports };
        if let Err(Refused(why)) = self.move_sa(sa, &ends, Client::Configuration) {
            let what = format!("{} does not follow: {why}", self.name_of(sa));
            self.incidents.push(Incident::Other(what));
        }
    }

    /// Orders other ends for an SA.
    pub(super) fn move_sa(
        &mut self,
        sa: Sa,
        ends: &Endpoints,
        client: Client,
    ) -> Result<(), Refused> {
        let found = self.sas.slot_and_spi(sa).zip(self.sas.seat(sa));
        let number = found.and_then(|((slot, _), _)| self.compiled.tunnel_of(slot));
        let (Some(((_, spi), seat)), Some(number)) = (found, number) else {
            return Err(Refused("there is no such SA".into()));
        };
        let adjacency = self.way_between(&self.config.tunnels[number], seat, ends)?;
        let directories = &self.shared.directories;
        match sa {
            Sa::Inbound(index) => self.sas.move_inbound(directories, index, *ends, client),
            Sa::Outbound(index) => {
                let config = self.moved(number, spi, ends, adjacency);
                self.sas.move_outbound(directories, index, &config, client);
            }
        }
        Ok(())
    }

    /// The adjacency by which sealed packets of a tunnel would leave between other ends, or why
    /// they cannot be its.
    fn way_between(
        &self,
        tunnel: &TunnelConfig,
        seat: Seat,
        ends: &Endpoints,
    ) -> Result<u32, Refused> {
        let Endpoints { local, remote, ports } = *ends;
        let refused = |why: String| Err(Refused(why));
        if tunnel.mode == Mode::Transport || tunnel.then.is_some() || matches!(seat, Seat::Card(_))
        {
            return refused(
                "an SA in transport mode, in another or of a card does not move".into(),
            );
        }
        let family = tunnel.local.is_ipv4();
        if (local.is_ipv4(), remote.is_ipv4()) != (family, family) {
            return refused("both ends stay in the address family of the tunnel".into());
        }
        if ports.is_some() != tunnel.encap.is_some() {
            return refused("ports are of ESP in UDP, which needs them".into());
        }
        let udp_ports = &self.tables.udp_ports;
        if ports.is_some_and(|(local, remote)| remote == 0 || !udp_ports.has(local)) {
            return refused("this node takes ESP in UDP at ports of its tunnels alone".into());
        }
        if self.route_to(local) != Some(Route::Local) {
            return refused(format!("{local} is no address of this node"));
        }
        match self.route_to(remote) {
            Some(Route::Via(adjacency)) => Ok(adjacency),
            _ => refused(format!("there is no route to {remote}")),
        }
    }

    pub(super) fn route_to(&self, address: IpAddr) -> Option<Route> {
        let vrf = self.tables.vrfs.first()?;
        match address {
            IpAddr::V4(address) => vrf.v4(address),
            IpAddr::V6(address) => vrf.v6(address),
        }
    }

    /// An outbound SA of a tunnel between other ends. Its keys and salt are where it is.
    fn moved(&self, number: usize, spi: u32, ends: &Endpoints, adjacency: u32) -> OutboundConfig {
        let version = Version { config: &self.config, compiled: &self.compiled };
        let tunnel = &self.config.tunnels[number];
        let nothing = || Secret::new(Vec::new());
        let keys = KeySpec::new(tunnel.suite, nothing(), nothing());
        let salt = Secret::new(vec![0; tunnel.suite.esp_salt_len()]);
        let (worker, fixed, lifetimes) = (0, true, Lifetimes::default());
        let config =
            outbound(version, number, &SaConfig { spi, keys, salt, worker, fixed, lifetimes });
        let encap = config.encap.zip(ends.ports);
        let encap = encap.map(|(encap, (local, remote))| Encap { local, remote, ..encap });
        let mtu = config.mtu.min(self.mtu_by(adjacency, tunnel));
        let (source, destination) = (ends.local, ends.remote);
        OutboundConfig { source, destination, encap, adjacency, mtu, ..config }
    }

    /// Octets of the largest clear packet of a tunnel that fits an adjacency once sealed.
    fn mtu_by(&self, adjacency: u32, tunnel: &TunnelConfig) -> u16 {
        let iface = self.tables.adjacencies.get(adjacency as usize).map(|way| way.iface);
        let mut interfaces = self.config.interfaces.iter();
        let by = |i: &&crate::config::InterfaceConfig| {
            self.shared.ifaces.get(&i.name).map(|iface| iface as u16) == iface
        };
        interfaces.find(by).map_or(u16::MAX, |i| tunnel.overhead().fits(i.mtu).max(68) as u16)
    }

    fn tunnel_of(&self, slot: u32) -> Option<&TunnelConfig> {
        self.compiled.tunnel_of(slot).map(|number| &self.config.tunnels[number])
    }

    /// Name of an SA of ESP or AH.
    pub(super) fn sa_name(&self, sa: Sa) -> Option<SaName> {
        let (slot, spi) = self.sas.slot_and_spi(sa)?;
        let tunnel = self.tunnel_of(slot)?;
        let (way, destination, peer) = match sa {
            Sa::Inbound(_) => ("in", tunnel.local, tunnel.remote),
            Sa::Outbound(_) => ("out", tunnel.remote, tunnel.remote),
        };
        let (tunnel, peer) = (tunnel.name.clone(), Some(peer));
        Some(SaName { tunnel, way, spi, destination, peer })
    }
}
