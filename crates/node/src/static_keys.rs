//! Keys of the configuration: the SAs and SecYs that it has, ordered of workers and cards.
//!
//! A change of configuration becomes a [`Plan`]. Counters are opened and reserved while
//! planning, so what is missing or does not fit changes nothing.
//!
//! ```text
//!   ended:  an inbound SA goes to another worker or stage with its key: it ends first,
//!           and says where its window stands
//!   wanted: SAs that are new, and those that stay and are changed in place
//!   gone:   the others, in rounds: an SA before the one that goes around it
//! ```
//!
//! Each of these is an order that its worker answers. A refused SA is not in use; people are
//! told, and the next configuration orders it again.

mod esp;
mod macsec;

use crate::compile::{Compiled, default_sci};
use crate::config::{Config, MacsecConfig, MacsecSaConfig, SaConfig, TunnelConfig};
use crate::control::BuildError;
use crate::incident::Sender;
use crate::instances::Instances;
use crate::leases::Leases;
use crate::message::{Change, Seat};
pub(crate) use esp::{EspPlan, Filling, StaticSas, changed_slots, inbound, max_of, outbound};
use ferrule_base::MacAddr;
use ferrule_dataplane::Lease;
pub(crate) use macsec::{MacsecPlan, StaticSecys};
use std::collections::HashSet;

/// Changes in their order.
pub(crate) type Changes = Vec<(Seat, Change)>;

/// Keys of the configuration that workers and cards have.
#[derive(Clone, Default)]
pub(crate) struct StaticKeys {
    pub secys: StaticSecys,
    pub sas: StaticSas,
    /// Instances of SAs were drawn.
    pub has_instances: bool,
}

/// A change, ready to be carried out.
#[derive(Default)]
pub(crate) struct Plan {
    pub macsec: MacsecPlan,
    pub esp: EspPlan,
    /// Leases of what is new.
    pub leases: Vec<Lease>,
    /// Where their numbers end.
    limits: Vec<([u8; 16], u64)>,
    /// Records out of which somebody takes numbers.
    senders: HashSet<[u8; 16]>,
    /// Instances of SAs whose keys a program gives, where a tunnel has such for the first time.
    pub instances: Option<Instances>,
}

/// A configuration and its tables.
#[derive(Clone, Copy)]
pub(crate) struct Version<'a> {
    pub config: &'a Config,
    pub compiled: &'a Compiled,
}

/// A counter that a configuration needs: its name and what it is bound to.
pub struct CounterId {
    /// A printable name, for people.
    pub id: String,
    /// Fingerprint of what makes the nonces: key and salt, or key and SCI.
    pub fingerprint: [u8; 16],
    /// Nonces are made here; else only a replay window is kept.
    pub sends: bool,
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

/// The fingerprint of a SAK where it makes nonces: with the SCI, or with what salt and
/// short SCI come to (IEEE 802.1AE clauses 14.5 to 14.8).
fn macsec_fingerprint(xpn: bool, sci: u64, sa: &MacsecSaConfig) -> [u8; 16] {
    let mut context = b"macsec".to_vec();
    if xpn {
        context.extend(b" xpn");
        let base = context.len();
        context.extend(sa.salt.expose());
        for (octet, s) in context[base..].iter_mut().zip(sa.ssci.to_be_bytes()) {
            *octet ^= s;
        }
    } else {
        context.extend(sci.to_be_bytes());
        context.extend(0_u32.to_be_bytes());
    }
    let print = ferrule_crypto::fingerprint(&sa.key, &context);
    context.fill(0);
    print
}

fn esp_out_id(t: &TunnelConfig, sa: &SaConfig) -> CounterId {
    let id = format!("esp-out-{}-{:08x}", t.name, sa.spi);
    CounterId { id, fingerprint: fingerprint(sa), sends: true }
}

fn esp_in_id(t: &TunnelConfig, sa: &SaConfig) -> CounterId {
    let id = format!("esp-in-{}-{:08x}", t.name, sa.spi);
    CounterId { id, fingerprint: fingerprint(sa), sends: false }
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
    CounterId { id, fingerprint: macsec_fingerprint(secy.entity.xpn, sci, sa), sends: way == "tx" }
}

/// Every counter that a configuration needs before it can run.
pub fn counters(config: &Config, macs: &[MacAddr]) -> Vec<CounterId> {
    let mut all = Vec::new();
    for tunnel in &config.tunnels {
        all.extend(tunnel.outbound.iter().map(|sa| esp_out_id(tunnel, sa)));
        all.extend(tunnel.inbound.iter().map(|sa| esp_in_id(tunnel, sa)));
    }
    for secy in &config.secys {
        let own = secy.sci.unwrap_or(default_sci(macs[secy.port]));
        all.extend(secy.transmit.iter().map(|sa| macsec_id(config, secy, "tx", own, sa)));
        let received = secy.receive.iter();
        all.extend(received.map(|sa| macsec_id(config, secy, "rx", sa.sci.unwrap_or(0), sa)));
    }
    all
}

/// The outbound SA that takes numbers out of a record.
pub(crate) fn sender(config: &Config, macs: &[MacAddr], record: [u8; 16]) -> Option<Sender> {
    let of_tunnel = config.tunnels.iter().find_map(|tunnel| {
        let sa = tunnel.outbound.iter().find(|sa| fingerprint(sa) == record)?;
        Some(Sender::Tunnel { name: tunnel.name.clone(), spi: sa.spi })
    });
    let of_secy = || {
        config.secys.iter().find_map(|secy| {
            let own = secy.sci.unwrap_or(default_sci(macs[secy.port]));
            let print =
                |sa: &&MacsecSaConfig| macsec_fingerprint(secy.entity.xpn, own, sa) == record;
            let sa = secy.transmit.iter().find(print)?;
            Some(Sender::Macsec { port: config.ports[secy.port].name.clone(), an: sa.an })
        })
    };
    of_tunnel.or_else(of_secy)
}

impl StaticKeys {
    /// Changes that lead from these keys, of the version `old`, to those of `new`.
    pub fn plan(
        &self,
        new: Version<'_>,
        macs: &[MacAddr],
        old: Version<'_>,
        leases: &mut Leases,
    ) -> Result<Plan, BuildError> {
        let mut plan = Plan::default();
        esp::Planner::new(new, old, &self.sas, leases, &mut plan).plan()?;
        macsec::plan(&self.secys, new, macs, leases, &mut plan)?;
        if !self.has_instances && new.config.tunnels.iter().any(|tunnel| tunnel.external) {
            plan.instances = Some(Instances::new(leases.instances()?));
        }
        leases.reserve(&plan.limits)?;
        Ok(plan)
    }

    /// The same without what this seat has: it has forgotten everything.
    pub fn without(&self, seat: Seat) -> Self {
        Self { secys: self.secys.without(seat), sas: self.sas.without(seat), ..*self }
    }
}

impl Plan {
    /// Records of all associations of the configuration, as far as it is planned.
    pub fn records(&self) -> impl Iterator<Item = [u8; 16]> {
        self.macsec.next.records().chain(self.esp.records())
    }

    /// A record that somebody takes numbers out of, and nobody else does.
    fn send(&mut self, id: &CounterId) -> Result<(), BuildError> {
        if self.senders.insert(id.fingerprint) {
            return Ok(());
        }
        let what = format!("`{}` would make the nonces of another association", id.id);
        Err(BuildError::Unfit(what, "make a key for each: `ferrule init key`"))
    }
}
