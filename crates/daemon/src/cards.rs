//! The cards in ports, as `show` and the metrics see them.

use crate::report::{DropView, drop_views};
use ferrule_dataplane::ipsec::Addresses;
use ferrule_node::ControlView;
use ferrule_node::card::CardReport;
use ferrule_node::config::{Config, PolicyAction, PolicyConfig};
use ferrule_node::message::WorkerReport;
use serde::{Deserialize, Serialize};

/// A card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardView {
    /// Its port.
    pub port: String,
    /// `up`, `empty` (it waits for tables) or `halted`.
    pub state: String,
    /// Times that it was reset.
    pub resets: u64,
    /// Security associations that it has, `out` and `in`, `tx` and `rx`.
    pub sas: Vec<String>,
    /// Its policy, in order.
    pub policy: Vec<String>,
    /// Frames taken from the wire.
    pub from_wire: u64,
    /// Frames given to the node.
    pub to_node: u64,
    /// Frames taken from the node.
    pub from_node: u64,
    /// Frames given to the wire.
    pub to_wire: u64,
    /// Packets sealed.
    pub sealed: u64,
    /// Packets opened.
    pub opened: u64,
    /// Frames inside.
    pub held: u64,
    /// Drops of the card; none of them is among the node's drops.
    pub drops: Vec<DropView>,
}

pub(crate) fn cards(control: &ControlView, workers: &[Box<WorkerReport>]) -> Vec<CardView> {
    let all = workers.iter().flat_map(|w| &w.cards);
    let mut cards: Vec<_> = all.map(|card| view(control, card)).collect();
    cards.sort_by(|a, b| a.port.cmp(&b.port));
    cards
}

fn view(control: &ControlView, card: &CardReport) -> CardView {
    let port = control.port_name(card.port);
    let crossed = &card.crossed;
    CardView {
        port: port.into(),
        state: card.state.into(),
        resets: card.resets,
        sas: sas(card),
        policy: policy(control.config(), port),
        from_wire: crossed.from_wire.packets,
        to_node: crossed.to_node.packets,
        from_node: crossed.from_node.packets,
        to_wire: crossed.to_wire.packets,
        sealed: card.work.sealed.packets,
        opened: card.work.opened.packets,
        held: card.held,
        drops: drop_views(&card.drops),
    }
}

fn sas(card: &CardReport) -> Vec<String> {
    let mut all = Vec::new();
    for (way, sas) in [("out", &card.esp_out), ("in", &card.esp_in)] {
        all.extend(sas.iter().map(|sa| format!("{} {way} 0x{:08x}", sa.name, sa.spi)));
    }
    let sent = card.secy_out.iter().flat_map(|(_, r)| r.sas.iter().map(|sa| ("tx", sa)));
    let received = card.secy_in.iter().flat_map(|(_, r)| r.sas.iter().map(|sa| ("rx", sa)));
    let secy = sent.chain(received);
    all.extend(secy.map(|(way, sa)| format!("macsec {way} {} an {}", sci(sa.sci), sa.an)));
    all
}

fn sci(sci: u64) -> String {
    crate::report::sci_text(sci)
}

/// The entries for the interfaces of a port where a card has a part in them.
fn policy(config: &Config, port: &str) -> Vec<String> {
    let sealed = config.left_to_cards();
    let of_port = |p: &&PolicyConfig| {
        let interface = &config.interfaces[p.interface];
        config.ports[interface.port].name == port && sealed[p.interface].0
    };
    let entry = |p: &PolicyConfig| {
        let nets = |list: &[Addresses]| match list {
            [] => "any".into(),
            list => list.iter().map(Addresses::to_string).collect::<Vec<_>>().join(", "),
        };
        let upper = p.traffic.upper(["local", "remote"]);
        let upper = if upper.is_empty() { upper } else { format!(" {upper}") };
        let action = match p.action {
            PolicyAction::Protect(t) if config.tunnels[t].is_inline() => {
                format!("protect by {}", config.tunnels[t].name)
            }
            PolicyAction::Protect(t) => {
                format!("protected above by {}, else discard", config.tunnels[t].name)
            }
            PolicyAction::Bypass => "bypass".into(),
            PolicyAction::Discard => "discard".into(),
        };
        let name = &config.interfaces[p.interface].name;
        format!(
            "{name}: {} to {}{upper}: {action}",
            nets(&p.traffic.local),
            nets(&p.traffic.remote)
        )
    };
    config.policies.iter().filter(of_port).map(entry).collect()
}
