//! Security associations between configuration, counter store and workers.
//!
//! A change of configuration becomes a [`Plan`]: what to install before the new
//! tables are in force, and what to retire afterwards. Counters are opened and
//! reserved while planning, so a missing counter changes nothing.

use crate::compile::{Compiled, default_sci};
use crate::config::{Config, MacsecConfig, MacsecSaConfig, Replay, SaConfig, TunnelConfig};
use crate::control::BuildError;
use crate::counter::{CounterStore, StoreError};
use crate::message::{Change, EspIn, EspOut, Seat};
use ferrule_base::{MacAddr, PortId, Secret, VrfId};
use ferrule_dataplane::{Sequence, ipsec, macsec};
use std::collections::HashMap;

/// Numbers of ESP without extended sequence numbers.
const ESP_MAX: u64 = u32::MAX as u64;
/// With them; the last number is left unused so that counting never wraps.
const ESN_MAX: u64 = u64::MAX - 1;

/// An association that somebody has: its counter's name, and who.
#[derive(Clone)]
struct Place {
    name: String,
    counter: String,
    seat: Seat,
}

impl Place {
    /// Whether it is not this one, or is elsewhere.
    fn differs(&self, name: &str, seat: Seat) -> bool {
        self.name != name || self.seat != seat
    }
}

/// What workers and cards have.
#[derive(Clone, Default)]
pub(crate) struct Installed {
    esp_out: HashMap<u32, Place>,
    esp_in: HashMap<u32, Place>,
    secys: HashMap<u16, (macsec::SecyConfig, Seat)>,
    transmit: HashMap<(u16, u8), Place>,
    receive: HashMap<(u16, u64, u8), Place>,
}

/// A change, ready to be carried out.
pub(crate) struct Plan {
    pub before: Vec<(Seat, Change)>,
    pub after: Vec<(Seat, Change)>,
    pub installed: Installed,
}

/// A counter that a configuration needs: its name and what it is bound to.
pub struct CounterId {
    /// A stable, printable name.
    pub id: String,
    /// Key and SPI or SCI.
    pub fingerprint: [u8; 16],
}

/// The fingerprint of a static ESP SA. In a counter mode the nonce is salt and
/// number: the SPI is not in it, so a key that comes back under another SPI goes
/// on with its counter.
pub(crate) fn fingerprint(sa: &SaConfig) -> [u8; 16] {
    let mut context = b"esp".to_vec();
    if !sa.keys.suite.is_counter_mode() {
        context.extend(sa.spi.to_be_bytes());
    }
    context.extend(sa.salt.expose());
    let print = ferrule_crypto::fingerprint(sa.keys.identity(), &context);
    context.fill(0);
    print
}

fn macsec_fingerprint(key: &Secret, sci: u64, sa: &MacsecSaConfig) -> [u8; 16] {
    let mut context = b"macsec".to_vec();
    context.extend(sci.to_be_bytes());
    context.extend(sa.ssci.to_be_bytes());
    ferrule_crypto::fingerprint(key, &context)
}

fn esp_out_id(t: &TunnelConfig) -> CounterId {
    let id = format!("esp-out-{}-{:08x}", t.name, t.outbound.spi);
    CounterId { id, fingerprint: fingerprint(&t.outbound) }
}

fn esp_in_id(t: &TunnelConfig, sa: &SaConfig) -> CounterId {
    let id = format!("esp-in-{}-{:08x}", t.name, sa.spi);
    CounterId { id, fingerprint: fingerprint(sa) }
}

fn macsec_id(
    config: &Config,
    secy: &MacsecConfig,
    way: &str,
    sci: u64,
    sa: &MacsecSaConfig,
) -> CounterId {
    let port = &config.ports[secy.port].name;
    let id = format!("macsec-{way}-{port}-{sci:016x}-{}", sa.an);
    CounterId { id, fingerprint: macsec_fingerprint(&sa.key, sci, sa) }
}

/// Every counter that a configuration needs before it can run.
pub fn counters(config: &Config, macs: &[MacAddr]) -> Vec<CounterId> {
    let mut all = Vec::new();
    for tunnel in &config.tunnels {
        all.push(esp_out_id(tunnel));
        all.extend(tunnel.inbound().map(|sa| esp_in_id(tunnel, sa)));
    }
    for secy in &config.secys {
        let own = secy.sci.unwrap_or(default_sci(macs[secy.port]));
        all.extend(secy.transmit.iter().map(|sa| macsec_id(config, secy, "tx", own, sa)));
        let received = secy.receive.iter();
        all.extend(received.map(|sa| macsec_id(config, secy, "rx", sa.sci.unwrap_or(0), sa)));
    }
    all
}

/// Opens a counter and reserves its first range.
fn sequence(
    store: &mut dyn CounterStore,
    id: &CounterId,
    step: u64,
    max: u64,
) -> Result<Sequence, BuildError> {
    let counter = store.open(&id.id, id.fingerprint).map_err(BuildError::Counter)?;
    let limit = counter.used.saturating_add(step).min(max);
    store.reserve(&id.id, limit).map_err(BuildError::Counter)?;
    Ok(Sequence::new(counter.used.saturating_add(1), limit, max).in_steps_of(step))
}

fn edge(store: &mut dyn CounterStore, id: &CounterId) -> Result<u64, BuildError> {
    Ok(store.open(&id.id, id.fingerprint).map_err(BuildError::Counter)?.edge)
}

impl Installed {
    /// What has to change to get from `old` to `config`.
    pub fn plan(
        config: &Config,
        macs: &[MacAddr],
        compiled: &Compiled,
        old: &Self,
        store: &mut dyn CounterStore,
    ) -> Result<Plan, BuildError> {
        let mut plan = Plan { before: Vec::new(), after: Vec::new(), installed: Self::default() };
        for number in 0..config.tunnels.len() {
            plan_tunnel(config, compiled, number, old, store, &mut plan)?;
        }
        for secy in &config.secys {
            plan_secy(config, macs, compiled, secy, old, store, &mut plan)?;
        }
        plan.retire(old);
        Ok(plan)
    }

    /// The same without what this one has: it has forgotten everything.
    pub fn without(&self, seat: Seat) -> Self {
        let mut rest = self.clone();
        rest.esp_out.retain(|_, place| place.seat != seat);
        rest.esp_in.retain(|_, place| place.seat != seat);
        rest.transmit.retain(|_, place| place.seat != seat);
        rest.receive.retain(|_, place| place.seat != seat);
        rest.secys.retain(|_, (_, at)| *at != seat);
        rest
    }

    /// Reserves numbers of an outbound ESP SA.
    pub fn reserve_esp(
        &self,
        index: u32,
        limit: u64,
        store: &mut dyn CounterStore,
    ) -> Result<(), StoreError> {
        self.esp_out.get(&index).map_or(Ok(()), |p| store.reserve(&p.counter, limit))
    }

    /// Reserves numbers of a transmit association.
    pub fn reserve_secy(
        &self,
        secy: u16,
        an: u8,
        limit: u64,
        store: &mut dyn CounterStore,
    ) -> Result<(), StoreError> {
        self.transmit.get(&(secy, an)).map_or(Ok(()), |p| store.reserve(&p.counter, limit))
    }

    /// Keeps the edge of an inbound ESP SA.
    pub fn keep_esp_edge(&self, index: u32, edge: u64, store: &mut dyn CounterStore) {
        if let Some(place) = self.esp_in.get(&index) {
            let _ = store.keep_edge(&place.counter, edge);
        }
    }

    /// Keeps the lowest acceptable number of a receive association.
    pub fn keep_secy_edge(
        &self,
        secy: u16,
        sci: u64,
        an: u8,
        lowest: u64,
        store: &mut dyn CounterStore,
    ) {
        if let Some(place) = self.receive.get(&(secy, sci, an)) {
            let _ = store.keep_edge(&place.counter, lowest);
        }
    }
}

impl Plan {
    /// What the old configuration had and the new one has not. (An index or
    /// number that is in both has the same SA, or was given up before.)
    fn retire(&mut self, old: &Installed) {
        for (&index, place) in &old.esp_out {
            if !self.installed.esp_out.contains_key(&index) {
                self.after.push((place.seat, Change::EspOut(EspOut::Retire(index))));
            }
        }
        for (&index, place) in &old.esp_in {
            if !self.installed.esp_in.contains_key(&index) {
                self.after.push((place.seat, Change::EspIn(EspIn::Retire(index))));
            }
        }
        for (&(secy, an), place) in &old.transmit {
            if !self.installed.transmit.contains_key(&(secy, an)) {
                let change = macsec::TxChange::Retire(secy, an);
                self.after.push((place.seat, Change::SecyOut(change)));
            }
        }
        for (&(secy, sci, an), place) in &old.receive {
            if !self.installed.receive.contains_key(&(secy, sci, an)) {
                let change = macsec::RxChange::Retire(secy, sci, an);
                self.after.push((place.seat, Change::SecyIn(change)));
            }
        }
        for (&secy, &(_, seat)) in &old.secys {
            if self.installed.secys.get(&secy).is_none_or(|new| new.1 != seat) {
                self.after.push((seat, Change::SecyOut(macsec::TxChange::Remove(secy))));
                self.after.push((seat, Change::SecyIn(macsec::RxChange::Remove(secy))));
            }
        }
    }
}

/// Who has an SA of a tunnel: the card of its port, or this worker.
fn seat_of(config: &Config, compiled: &Compiled, tunnel: &TunnelConfig, worker: usize) -> Seat {
    match config.card_of(tunnel) {
        Some(port) => Seat::Card(compiled.ports[port]),
        None => Seat::Worker(worker),
    }
}

fn plan_tunnel(
    config: &Config,
    compiled: &Compiled,
    number: usize,
    old: &Installed,
    store: &mut dyn CounterStore,
    plan: &mut Plan,
) -> Result<(), BuildError> {
    let tunnel = &config.tunnels[number];
    let (index, id) = (compiled.outbound[number], esp_out_id(tunnel));
    let name = crate::compile::outbound_name(config, tunnel);
    let seat = seat_of(config, compiled, tunnel, tunnel.outbound.worker);
    if old.esp_out.get(&index).is_none_or(|p| p.name != name) {
        let max = if tunnel.esn { ESN_MAX } else { ESP_MAX };
        let numbers = sequence(store, &id, config.reserve, max)?;
        let then = tunnel.then.map(|around| compiled.outbound[around]);
        let sa = Box::new(outbound(tunnel, compiled.ways[number], then));
        plan.before.push((seat, Change::EspOut(EspOut::Install(index, sa, numbers))));
    }
    plan.installed.esp_out.insert(index, Place { name, counter: id.id, seat });

    for (sa, &index) in tunnel.inbound().zip(&compiled.inbound[number]) {
        let id = esp_in_id(tunnel, sa);
        let selectors = &compiled.selectors[number];
        let name = crate::compile::inbound_name(config, &compiled.selectors, number, sa);
        let seat = seat_of(config, compiled, tunnel, sa.worker);
        if old.esp_in.get(&index).is_none_or(|p| p.name != name) {
            let edge = edge(store, &id)?;
            let inside = tunnel.then.and_then(|around| compiled.inbound[around].first().copied());
            let sa = Box::new(inbound(tunnel, sa, selectors, inside));
            plan.before.push((seat, Change::EspIn(EspIn::Install(index, sa, edge))));
        }
        plan.installed.esp_in.insert(index, Place { name, counter: id.id, seat });
    }
    Ok(())
}

fn outbound(t: &TunnelConfig, adjacency: u32, then: Option<u32>) -> ipsec::OutboundConfig {
    let SaConfig { spi, keys, salt, .. } = t.outbound.clone();
    ipsec::OutboundConfig {
        name: t.name.as_str().into(),
        esn: t.esn,
        adjacency,
        mtu: t.mtu as u16,
        protocol: t.protocol,
        mode: t.mode,
        outside: t.outside,
        encap: t.encap,
        tfc: t.tfc,
        dummies: t.dummies,
        learns: t.learns,
        fragment: t.fragment,
        clamp: t.clamp_mss,
        then,
        ah_align: t.ah_align,
        ..ipsec::OutboundConfig::tunnel(spi, (t.local, t.remote), keys, salt)
    }
}

fn inbound(
    t: &TunnelConfig,
    sa: &SaConfig,
    selectors: &[ipsec::Selector],
    inside: Option<u32>,
) -> ipsec::InboundConfig {
    let SaConfig { spi, keys, salt, .. } = sa.clone();
    ipsec::InboundConfig {
        name: t.name.as_str().into(),
        protocol: t.protocol,
        mode: t.mode,
        encap: t.encap,
        clamp: t.clamp_mss.then_some(t.mtu as u16),
        inside,
        esn: t.esn,
        window: t.window,
        selectors: selectors.to_vec(),
        vrf: VrfId(t.vrf as u16),
        ..ipsec::InboundConfig::tunnel(spi, (t.remote, t.local), keys, salt)
    }
}

fn plan_secy(
    config: &Config,
    macs: &[MacAddr],
    compiled: &Compiled,
    secy: &MacsecConfig,
    old: &Installed,
    store: &mut dyn CounterStore,
    plan: &mut Plan,
) -> Result<(), BuildError> {
    let port = compiled.ports[secy.port];
    let index = port.0;
    let seat = match secy.is_inline() {
        true => Seat::Card(port),
        false => Seat::Worker(config.ports[secy.port].worker),
    };
    let entity = secy_config(secy, port, macs[secy.port]);
    if !old.secys.get(&index).is_some_and(|o| o == &(entity.clone(), seat)) {
        let (tx, rx) = (entity.clone(), entity.clone());
        plan.before.push((seat, Change::SecyOut(macsec::TxChange::Install(index, tx))));
        plan.before.push((seat, Change::SecyIn(macsec::RxChange::Install(index, rx))));
    }
    for sa in &secy.transmit {
        let id = macsec_id(config, secy, "tx", entity.sci, sa);
        let name = format!("{} {:02x?} {}", id.id, id.fingerprint, secy.placement.name());
        if old.transmit.get(&(index, sa.an)).is_none_or(|p| p.differs(&name, seat)) {
            let numbers = sequence(store, &id, config.reserve, entity.pn_max())?;
            if let Some(place) = old.transmit.get(&(index, sa.an)) {
                let change = macsec::TxChange::Retire(index, sa.an);
                plan.before.push((place.seat, Change::SecyOut(change)));
            }
            let (an, key) = (sa.an, sa.key.clone());
            let place = secy.placement.place(sa.label.as_deref());
            let config = macsec::TxSaConfig { an, key, xpn: xpn(secy, sa), place };
            let change = macsec::TxChange::Sa(index, config, numbers);
            plan.before.push((seat, Change::SecyOut(change)));
        }
        plan.installed.transmit.insert((index, sa.an), Place { name, counter: id.id, seat });
    }
    for sa in &secy.receive {
        let sci = sa.sci.unwrap_or(0);
        let id = macsec_id(config, secy, "rx", sci, sa);
        let name = format!("{} {:02x?} {}", id.id, id.fingerprint, secy.placement.name());
        if old.receive.get(&(index, sci, sa.an)).is_none_or(|p| p.differs(&name, seat)) {
            let lowest_pn = edge(store, &id)?.max(1);
            if let Some(place) = old.receive.get(&(index, sci, sa.an)) {
                let change = macsec::RxChange::Retire(index, sci, sa.an);
                plan.before.push((place.seat, Change::SecyIn(change)));
            }
            let (an, key) = (sa.an, sa.key.clone());
            let place = secy.placement.place(sa.label.as_deref());
            let config = macsec::RxSaConfig { sci, an, key, xpn: xpn(secy, sa), lowest_pn, place };
            let change = macsec::RxChange::Sa(index, config);
            plan.before.push((seat, Change::SecyIn(change)));
        }
        plan.installed.receive.insert((index, sci, sa.an), Place { name, counter: id.id, seat });
    }
    // The first association listed is the one in use; the switch comes after
    // every receiver has its keys.
    if let Some(first) = secy.transmit.first() {
        let change = macsec::TxChange::Encode(index, first.an);
        plan.before.push((seat, Change::SecyOut(change)));
    }
    plan.installed.secys.insert(index, (entity, seat));
    Ok(())
}

fn xpn(secy: &MacsecConfig, sa: &MacsecSaConfig) -> Option<macsec::Xpn> {
    let salt = sa.salt.expose().try_into().ok()?;
    secy.xpn.then_some(macsec::Xpn { salt, ssci: sa.ssci })
}

fn secy_config(secy: &MacsecConfig, port: PortId, mac: MacAddr) -> macsec::SecyConfig {
    let sci = secy.sci.unwrap_or(default_sci(mac));
    macsec::SecyConfig {
        xpn: secy.xpn,
        encrypt: secy.encrypt,
        offset: secy.offset,
        send_sci: secy.send_sci,
        end_station: secy.end_station,
        replay: match secy.replay {
            Replay::Off => macsec::Replay::Off,
            Replay::Standard => macsec::Replay::Standard,
            Replay::Strict => macsec::Replay::Bitmap,
        },
        window: secy.window,
        clear_tags: secy.clear_tags,
        ..macsec::SecyConfig::new(port, sci, secy.suite)
    }
}
