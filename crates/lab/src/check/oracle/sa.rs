//! The oracle's view of a device: its inbound SAs, read from the configuration, each with the model
//! of its receiver.

use super::Sealed;
use crate::check::window::{EspReceiver, Fate, SecyReceiver, SecyRule};
use ferrule_base::MacAddr;
use ferrule_node::config::{MacsecConfig, Replay, TunnelConfig};
use ferrule_node::{Config, CounterId, CounterStore};
use std::net::IpAddr;

/// An SA, as frames name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SaKey {
    /// Destination and SPI.
    Esp(IpAddr, u32),
    /// SCI and association number.
    Secy(u64, u8),
}

/// Counters that the model expects since the device started.
#[derive(Clone, Copy, Default)]
pub(super) struct Expect {
    pub accepted: u64,
    pub duplicate: u64,
    pub late: u64,
    pub altered: u64,
    pub uncertain: bool,
}

enum Model {
    Esp(EspReceiver),
    Secy(SecyReceiver),
}

/// Kind of a model, with its parameters.
#[derive(Clone, Copy)]
enum Start {
    Esp { window: u64 },
    Secy { rule: SecyRule, window: u64 },
}

impl Start {
    fn model(self, edge: u64) -> Model {
        match self {
            Self::Esp { window } => Model::Esp(EspReceiver::new(window, edge)),
            Self::Secy { rule, window } => {
                Model::Secy(SecyReceiver::new(rule, window, edge.max(1)))
            }
        }
    }

    /// An ESP receiver that does not check for replay guesses extended numbers
    /// from whatever came last: there is no rule to hold it to.
    fn expect(self) -> Expect {
        Expect { uncertain: matches!(self, Self::Esp { window: 0 }), ..Expect::default() }
    }
}

/// An inbound SA of a device.
pub(super) struct Inbound {
    pub name: String,
    pub key: SaKey,
    /// The other gateway of a tunnel.
    pub source: Option<IpAddr>,
    pub port: usize,
    /// The receiver finds the whole number by its window (RFC 4303 appendix A2).
    pub guesses: bool,
    /// The device no longer has it.
    pub is_gone: bool,
    pub expect: Expect,
    counter: CounterId,
    start: Start,
    model: Model,
}

impl Inbound {
    fn new(name: String, key: SaKey, port: usize, counter: CounterId, start: Start) -> Self {
        let (model, expect) = (start.model(0), start.expect());
        let (source, guesses, is_gone) = (None, false, false);
        Self { name, key, source, port, guesses, is_gone, expect, counter, start, model }
    }

    /// True for the same association on the same port, with the same counter.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.key, self.port) == (other.key, other.port)
            && self.counter.fingerprint == other.counter.fingerprint
    }

    /// An authentic packet arrives.
    pub fn receive(&mut self, number: u64) {
        let fate = match &mut self.model {
            Model::Esp(model) => model.receive(number),
            Model::Secy(model) => model.receive(number),
        };
        match fate {
            Fate::Accepted => self.expect.accepted += 1,
            Fate::Duplicate => self.expect.duplicate += 1,
            Fate::Late => self.expect.late += 1,
        }
    }

    /// Begins anew, where the window's edge was kept.
    pub fn restart(&mut self, store: &mut dyn CounterStore) {
        let kept = store.open(&self.counter.id, self.counter.fingerprint);
        self.model = self.start.model(kept.map_or(0, |counter| counter.edge));
        self.expect = self.start.expect();
    }
}

/// A device, as its configuration describes it.
pub(super) struct Known {
    pub name: String,
    pub macs: Vec<MacAddr>,
    /// By port: the SCI that it sends and the tags in front, if it has a SecY.
    pub secys: Vec<Option<(u64, u8)>>,
    /// By port: the tags of its routed interfaces; nothing: untagged.
    pub tags: Vec<Vec<Option<(u16, u16)>>>,
    pub inbound: Vec<Inbound>,
    /// Outbound SAs, each with the counter that numbers its packets.
    pub outbound: Vec<(SaKey, CounterId)>,
}

impl Known {
    /// Reads a configuration; its outbound SAs are entered in `sealed`.
    pub fn new(config: &Config, macs: &[MacAddr], sealed: &mut Sealed) -> Self {
        let mut known = Self {
            name: config.name.clone(),
            macs: macs.to_vec(),
            secys: vec![None; config.ports.len()],
            tags: vec![Vec::new(); config.ports.len()],
            inbound: Vec::new(),
            outbound: Vec::new(),
        };
        for interface in &config.interfaces {
            let Some(tags) = known.tags.get_mut(interface.port) else { continue };
            tags.push(interface.tag);
            if interface.untagged {
                tags.push(None);
            }
        }
        // They come in the order in which the configuration has the SAs.
        let mut counters = ferrule_node::counters(config, macs).into_iter();
        for tunnel in &config.tunnels {
            known.tunnel(config, tunnel, &mut counters, sealed);
        }
        for secy in &config.secys {
            known.secy(config, secy, &mut counters, sealed);
        }
        known
    }

    fn tunnel(
        &mut self,
        config: &Config,
        t: &TunnelConfig,
        counters: &mut impl Iterator<Item = CounterId>,
        sealed: &mut Sealed,
    ) {
        let port = config.interfaces.get(t.via.interface).map_or(usize::MAX, |i| i.port);
        let sent: Vec<_> = t.outbound.iter().zip(&mut *counters).collect();
        let received: Vec<_> = t.inbound.iter().zip(counters).collect();
        if config.secys.iter().any(|s| s.port == port) {
            return;
        }
        for (sa, counter) in sent {
            let outbound = SaKey::Esp(t.remote, sa.spi);
            sealed.entry(outbound);
            self.outbound.push((outbound, counter));
        }
        for (sa, counter) in received {
            let key = SaKey::Esp(t.local, sa.spi);
            let start = Start::Esp { window: t.window.into() };
            let new = Inbound::new(format!("tunnel {}", t.name), key, port, counter, start);
            self.inbound.push(Inbound { source: Some(t.remote), guesses: t.esn, ..new });
        }
    }

    fn secy(
        &mut self,
        config: &Config,
        s: &MacsecConfig,
        counters: &mut impl Iterator<Item = CounterId>,
        sealed: &mut Sealed,
    ) {
        let mac = self.macs.get(s.port).copied().unwrap_or_default();
        let own = s.sci.unwrap_or(ferrule_node::default_sci(mac));
        if let Some(secy) = self.secys.get_mut(s.port) {
            *secy = Some((own, s.entity.clear_tags));
        }
        for sa in &s.transmit {
            let Some(sent) = counters.next() else { return };
            sealed.entry(SaKey::Secy(own, sa.an));
            self.outbound.push((SaKey::Secy(own, sa.an), sent));
        }
        let rule = match s.entity.replay {
            Replay::Off => SecyRule::Off,
            Replay::Standard => SecyRule::Standard,
            Replay::Strict => SecyRule::Strict,
        };
        let start = Start::Secy { rule, window: s.entity.window.into() };
        let port = config.ports.get(s.port).map_or("?", |p| p.name.as_str());
        for sa in &s.receive {
            let Some(counter) = counters.next() else { return };
            let sci = sa.sci.unwrap_or(0);
            let name = format!("port {port}, SCI {sci:016x} AN {}", sa.an);
            let key = SaKey::Secy(sci, sa.an);
            self.inbound.push(Inbound::new(name, key, s.port, counter, start));
        }
    }
}
