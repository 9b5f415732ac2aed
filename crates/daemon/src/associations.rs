//! The SAs of IPsec: what each is, whose traffic it carries and what it counted.

use ferrule_base::{Duration, Instant};
use ferrule_dataplane::ipsec::{LifeView, Lifetimes, Mode, SaProtocol};
use ferrule_node::config::{Config, PolicyAction, TunnelConfig};
use ferrule_node::message::{SaReport, WorkerReport};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A security association of IPsec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct SaView {
    pub tunnel: String,
    /// `out` or `in`.
    pub way: String,
    pub spi: String,
    pub suite: String,
    pub local: String,
    pub remote: String,
    pub worker: u8,
    /// `esp` or `ah`.
    #[serde(default)]
    pub protocol: String,
    /// `tunnel` or `transport`.
    #[serde(default)]
    pub mode: String,
    /// In UDP (RFC 3948).
    #[serde(default)]
    pub udp: bool,
    /// The pair of SAs around it.
    #[serde(default)]
    pub then: Option<String>,
    /// Extended sequence numbers.
    #[serde(default)]
    pub esn: bool,
    /// Packets of the replay window; 0: replay is not checked.
    #[serde(default)]
    pub window: u32,
    /// Policy entries whose traffic it carries: what may come out of it.
    #[serde(default)]
    pub entries: usize,
    /// Out: the next sequence number. In: the highest one seen.
    pub number: u64,
    /// Out: the largest clear packet that the path carries now.
    #[serde(default)]
    pub mtu: Option<u16>,
    pub packets: u64,
    pub octets: u64,
    pub replays: u64,
    pub bad_icv: u64,
    pub refused: u64,
    /// Authentic, in UDP, from another address or port than that of the other end (RFC 3948).
    #[serde(default)]
    pub moved: u64,
    pub failed: u64,
    /// How much of its life is used, if that has bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub life: Option<LifetimeView>,
}

/// The life of an SA: its state, and what has bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct LifetimeView {
    /// `lives`, `soft` (it wants another in its place), or `over`.
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<BoundView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub octets: Option<BoundView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<BoundView>,
}

/// Use of a lifetime in one quantity, and its bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct BoundView {
    pub used: u64,
    pub soft: Option<u64>,
    pub hard: Option<u64>,
    /// Up to the hard bound.
    pub left: Option<u64>,
}

impl BoundView {
    /// Nothing where there is no bound.
    fn of(used: u64, soft: Option<u64>, hard: Option<u64>) -> Option<Self> {
        soft.or(hard)?;
        Some(Self { used, soft, hard, left: hard.map(|hard| hard.saturating_sub(used)) })
    }
}

impl LifetimeView {
    fn of(now: Instant, life: &LifeView) -> Self {
        let Lifetimes { soft, hard } = life.lifetimes;
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs());
        let age = life.since.map_or(0, |since| now.since(since).as_secs());
        let [packets, octets, seconds] = [
            BoundView::of(life.packets, soft.packets, hard.packets),
            BoundView::of(life.octets, soft.octets, hard.octets),
            BoundView::of(age, seconds(soft.time), seconds(hard.time)),
        ];
        let mut all = [packets, octets, seconds].into_iter().flatten();
        let state = match all.any(|of| of.soft.is_some_and(|soft| of.used >= soft)) {
            _ if life.is_over => "over",
            true => "soft",
            false => "lives",
        };
        Self { state: state.into(), packets, octets, seconds }
    }

    /// Quantities that are bounded, by name.
    pub fn bounds(&self) -> impl Iterator<Item = (&'static str, &BoundView)> {
        let all =
            [("packets", &self.packets), ("octets", &self.octets), ("seconds", &self.seconds)];
        all.into_iter().filter_map(|(of, bound)| Some((of, bound.as_ref()?)))
    }
}

/// A pair of SAs of the configuration, and the policy entries that name it.
type Pair<'a> = (&'a TunnelConfig, usize);

fn view(
    config: &Config,
    pair: Option<Pair<'_>>,
    (worker, now): (u8, Instant),
    way: &str,
    sa: &SaReport,
) -> SaView {
    let counted = SaView {
        tunnel: sa.name.clone(),
        way: way.into(),
        spi: format!("0x{:08x}", sa.spi),
        suite: sa.suite_name(),
        worker,
        number: sa.number,
        packets: sa.stats.packets,
        mtu: sa.mtu,
        octets: sa.stats.octets,
        replays: sa.stats.replays,
        bad_icv: sa.stats.bad_icv,
        refused: sa.stats.refused,
        moved: sa.stats.moved,
        failed: sa.stats.failed,
        life: sa.life.as_ref().map(|life| LifetimeView::of(now, life)),
        ..SaView::default()
    };
    let Some((t, entries)) = pair else { return counted };
    SaView {
        local: t.local.to_string(),
        remote: t.remote.to_string(),
        protocol: match t.protocol {
            SaProtocol::Esp => "esp".into(),
            SaProtocol::Ah => "ah".into(),
        },
        mode: match t.mode {
            Mode::Tunnel => "tunnel".into(),
            Mode::Transport => "transport".into(),
        },
        udp: t.encap.is_some(),
        then: t.then.map(|around| config.tunnels[around].name.clone()),
        esn: t.esn,
        window: t.window,
        entries,
        ..counted
    }
}

/// SAs in the order of their names.
pub(crate) fn sas(config: &Config, workers: &[Box<WorkerReport>]) -> Vec<SaView> {
    let mut entries = vec![0; config.tunnels.len()];
    for policy in &config.policies {
        if let PolicyAction::Protect(pair) = policy.action {
            entries[pair] += 1;
        }
    }
    let pairs = config.tunnels.iter().zip(entries);
    let pairs: HashMap<&str, Pair<'_>> = pairs.map(|(t, n)| (t.name.as_str(), (t, n))).collect();
    let mut all = Vec::new();
    let mut add = |w: &WorkerReport, way: &str, sas: &[SaReport]| {
        let by = (w.worker, w.now);
        let pair = |sa: &SaReport| pairs.get(sa.name.as_str()).copied();
        all.extend(sas.iter().map(|sa| view(config, pair(sa), by, way, sa)));
    };
    for w in workers {
        add(w, "out", &w.esp_out);
        add(w, "in", &w.esp_in);
        for card in &w.cards {
            add(w, "out", &card.esp_out);
            add(w, "in", &card.esp_in);
        }
    }
    all.sort_by(|a, b| (&a.tunnel, &b.way).cmp(&(&b.tunnel, &a.way)));
    all
}
