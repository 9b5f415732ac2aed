//! Security associations between configuration, counter store and workers.
//!
//! A change of configuration becomes a [`Plan`]. Counters are opened and reserved while
//! planning, so what is missing or does not fit changes nothing.
//!
//! ```text
//!   moved:  an inbound SA goes to another worker or stage with its key: it ends first,
//!           and says where its window stands
//!   before: what is new, and what stays and is changed in place
//!   after:  what is gone, in rounds: an SA before the one that goes around it
//! ```

mod esp;
mod macsec;

use crate::compile::{Compiled, Mark, default_sci};
use crate::config::{Config, MacsecConfig, MacsecSaConfig, SaConfig, TunnelConfig};
use crate::control::BuildError;
use crate::incident::Sender;
use crate::leases::Leases;
use crate::message::{Change, EspIn, EspOut, Seat};
use ferrule_base::{MacAddr, Secret};
use ferrule_dataplane::{Lease, macsec as secy};
use std::collections::{HashMap, HashSet};

/// An association that somebody has.
#[derive(Clone)]
struct Place {
    /// What makes it this one and no other.
    name: Mark,
    /// What may change while it stays the same.
    looks: Mark,
    /// What keeps its numbers.
    record: [u8; 16],
    seat: Seat,
    /// More of this index in other workers, and what keeps the numbers of each.
    also: Vec<(Seat, [u8; 16])>,
    /// The SAs that its packets go to, or come out of.
    around: Vec<u32>,
    /// Its numbers go beyond 2^32.
    wide: bool,
}

/// What workers and cards have.
#[derive(Clone, Default)]
pub(crate) struct Installed {
    esp_out: HashMap<u32, Place>,
    esp_in: HashMap<u32, Place>,
    secys: HashMap<u16, (secy::SecyConfig, Seat)>,
    transmit: HashMap<(u16, u8), Place>,
    receive: HashMap<(u16, u64, u8), Place>,
}

/// Changes in their order.
pub(crate) type Changes = Vec<(Seat, Change)>;

/// A change, ready to be carried out.
#[derive(Default)]
pub(crate) struct Plan {
    pub moved: Changes,
    pub before: Changes,
    pub after: Vec<Changes>,
    pub installed: Installed,
    /// What is changed in place once all of that is gone.
    pub last: Changes,
    /// Leases of what is new.
    pub leases: Vec<Lease>,
    /// Where their numbers end.
    limits: Vec<([u8; 16], u64)>,
    /// SecYs that lost all their associations at once.
    emptied: HashSet<u16>,
    /// Records out of which somebody takes numbers.
    senders: HashSet<[u8; 16]>,
}

/// A counter that a configuration needs: its name and what it is bound to.
pub struct CounterId {
    /// A printable name, for people.
    pub id: String,
    /// What makes the nonces: key and salt, or key and SCI.
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
        all.extend(tunnel.outbound().map(|sa| esp_out_id(tunnel, sa)));
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

/// The outbound SA that takes numbers out of a record.
pub(crate) fn sender(config: &Config, macs: &[MacAddr], record: [u8; 16]) -> Option<Sender> {
    let of_tunnel = config.tunnels.iter().find_map(|tunnel| {
        let sa = tunnel.outbound().find(|sa| fingerprint(sa) == record)?;
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

/// A mark of a key for names: of what is in no record, as an HMAC's key beside a
/// cipher's.
pub(crate) fn mark(key: &Secret) -> String {
    let print = ferrule_crypto::fingerprint(key, b"name");
    print.iter().take(8).map(|octet| format!("{octet:02x}")).collect()
}

impl Installed {
    /// What has to change to get from `old` to `config`.
    pub fn plan(
        config: &Config,
        macs: &[MacAddr],
        compiled: &Compiled,
        old: &Self,
        leases: &mut Leases,
    ) -> Result<Plan, BuildError> {
        let mut plan = Plan::default();
        let received = old.received();
        let mut planner = esp::Planner { config, compiled, old, received, leases, plan: &mut plan };
        for number in 0..config.tunnels.len() {
            planner.tunnel(number)?;
        }
        for secy in &config.secys {
            let mac = macs[secy.port];
            macsec::Planner { config, secy, mac, old, leases, plan: &mut plan }.secy(compiled)?;
        }
        leases.reserve(&plan.limits)?;
        plan.retire(old);
        Ok(plan)
    }

    /// The inbound SA of each record, and who has it; of several the first one.
    fn received(&self) -> HashMap<[u8; 16], (u32, Seat)> {
        let mut all: HashMap<[u8; 16], (u32, Seat)> = HashMap::new();
        for (&index, place) in &self.esp_in {
            let first = all.entry(place.record).or_insert((index, place.seat));
            if index < first.0 {
                *first = (index, place.seat);
            }
        }
        all
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

    /// The record that an outbound ESP SA takes its numbers out of.
    pub fn record_of_sender(&self, index: u32) -> Option<[u8; 16]> {
        self.esp_out.get(&index).map(|place| place.record)
    }

    /// The records of all that is installed.
    pub fn records(&self) -> HashSet<[u8; 16]> {
        let esp = self.esp_out.values().chain(self.esp_in.values());
        let macsec = self.transmit.values().chain(self.receive.values());
        let records = |place: &Place| {
            let also: Vec<_> = place.also.iter().map(|&(_, record)| record).collect();
            std::iter::once(place.record).chain(also)
        };
        esp.chain(macsec).flat_map(records).collect()
    }
}

impl Plan {
    /// A record that somebody takes numbers out of, and nobody else does.
    fn send(&mut self, id: &CounterId) -> Result<(), BuildError> {
        if self.senders.insert(id.fingerprint) {
            return Ok(());
        }
        let what = format!("`{}` would make the nonces of another association", id.id);
        Err(BuildError::Unfit(what, "make a key for each: `ferrule init key`"))
    }

    /// What the old configuration had and the new one has not. (An index or
    /// number that is in both has the same SA, or was given up before.)
    fn retire(&mut self, old: &Installed) {
        let out = without(&old.esp_out, &self.installed.esp_out);
        // SAs inside of another one go before it.
        let mut within: HashMap<u32, Vec<u32>> = HashMap::new();
        for (&index, place) in &out {
            place.around.iter().for_each(|&around| within.entry(around).or_default().push(index));
        }
        let rounds = ranks(&out, |index| within.get(&index).map_or(&[], Vec::as_slice));
        for (index, place) in &out {
            let seats = place.also.iter().map(|&(seat, _)| seat);
            for seat in std::iter::once(place.seat).chain(seats) {
                self.gone(rounds[index], seat, Change::EspOut(EspOut::Retire(*index)));
            }
        }
        let inn = without(&old.esp_in, &self.installed.esp_in);
        // Packets come out of those around one, which go first.
        let rounds = ranks(&inn, |index| &inn[&index].around);
        for (index, place) in &inn {
            self.gone(rounds[index], place.seat, Change::EspIn(EspIn::Retire(*index)));
        }
        for (&(secy, an), place) in &old.transmit {
            let emptied = self.emptied.contains(&secy);
            if !emptied && !self.installed.transmit.contains_key(&(secy, an)) {
                let change = secy::TxChange::Retire(secy, an);
                self.gone(0, place.seat, Change::SecyOut(change));
            }
        }
        for (&(secy, sci, an), place) in &old.receive {
            let emptied = self.emptied.contains(&secy);
            if !emptied && !self.installed.receive.contains_key(&(secy, sci, an)) {
                let change = secy::RxChange::Retire(secy, sci, an);
                self.gone(0, place.seat, Change::SecyIn(change));
            }
        }
        for (&secy, &(_, seat)) in &old.secys {
            if self.installed.secys.get(&secy).is_none_or(|new| new.1 != seat) {
                self.gone(0, seat, Change::SecyOut(secy::TxChange::Remove(secy)));
                self.gone(0, seat, Change::SecyIn(secy::RxChange::Remove(secy)));
            }
        }
    }

    fn gone(&mut self, round: usize, seat: Seat, change: Change) {
        if self.after.len() <= round {
            self.after.resize_with(round + 1, Vec::new);
        }
        self.after[round].push((seat, change));
    }
}

/// What is not in `new` any more.
fn without(old: &HashMap<u32, Place>, new: &HashMap<u32, Place>) -> HashMap<u32, Place> {
    let gone = old.iter().filter(|(index, _)| !new.contains_key(index));
    gone.map(|(&index, place)| (index, place.clone())).collect()
}

/// Number of retiring SAs that stand before each, in a row: `before` has those that
/// do at once. None stands before itself.
fn ranks<'a>(
    all: &'a HashMap<u32, Place>,
    before: impl Fn(u32) -> &'a [u32],
) -> HashMap<u32, usize> {
    let mut ranks: HashMap<u32, usize> = HashMap::with_capacity(all.len());
    let mut met = HashSet::with_capacity(all.len());
    let mut path: Vec<u32> = all.keys().copied().collect();
    while let Some(&index) = path.last() {
        let there = before(index).iter().filter(|index| all.contains_key(index));
        if met.insert(index) {
            // Its predecessors first, and then the SA once more.
            path.extend(there.filter(|index| !met.contains(index)));
            continue;
        }
        path.pop();
        let most = there.filter_map(|index| ranks.get(index)).max();
        let rank = most.map_or(0, |most| most + 1);
        ranks.entry(index).or_insert(rank);
    }
    ranks
}
