//! Key agreement of MACsec, for people: `ferrule show mka`.

use ferrule_control::mka::PortState;
use ferrule_control::mka::fault::Fault;
use ferrule_control::mka::view::{PeerView, SakView, View};
use ferrule_node::ControlView;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The MKA entity of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MkaView {
    /// The name of the port.
    pub port: String,
    /// The controlled port: `blocked`, `clear` or `secured`.
    pub state: String,
    /// SCI of the key server.
    pub server: Option<String>,
    /// Own member identifiers, by CKN.
    pub members: BTreeMap<String, String>,
    /// Live peers.
    pub peers: Vec<MkaPeer>,
    /// SAKs, the latest first.
    pub saks: Vec<MkaSak>,
    /// Reason why frames are not under a SAK that all peers have.
    pub trouble: Option<String>,
    /// MKPDUs: `sent`, `taken`, and those that were dropped, by reason.
    pub counters: BTreeMap<String, u64>,
}

/// A live peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MkaPeer {
    /// Secure channel.
    pub sci: String,
    /// CAK by which it is live.
    pub ckn: String,
    /// Key server priority.
    pub priority: u8,
    /// Reception under the latest SAK.
    pub receives: bool,
    /// Transmission under the latest SAK.
    pub transmits: bool,
}

/// A SAK.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MkaSak {
    /// Key identifier: the key server's member identifier and the key number.
    pub key: String,
    /// Association number.
    pub an: u8,
    /// Reception under this SAK.
    pub receives: bool,
    /// Transmission under this SAK.
    pub transmits: bool,
}

/// The MKA entities of a node.
pub fn views(control: &ControlView) -> Vec<MkaView> {
    control.mka().iter().map(|(port, view)| of(port, view)).collect()
}

fn of(port: &str, view: &View) -> MkaView {
    let state = match view.port {
        PortState::Blocked => "blocked",
        PortState::Clear => "clear",
        PortState::Secured => "secured",
    };
    let peer = |peer: &PeerView| MkaPeer {
        sci: peer.sci.to_string(),
        ckn: peer.ckn.to_string(),
        priority: peer.priority,
        receives: peer.receives,
        transmits: peer.transmits,
    };
    let sak = |sak: &SakView| MkaSak {
        key: sak.key.to_string(),
        an: sak.an,
        receives: sak.receives,
        transmits: sak.transmits,
    };
    let counts = &view.counts;
    let dropped = Fault::ALL.iter().map(|&fault| (fault.to_string(), counts.dropped(fault)));
    let dropped = dropped.filter(|(_, count)| *count > 0);
    let messages = [("sent".into(), counts.sent), ("taken".into(), counts.taken)];
    MkaView {
        port: port.into(),
        state: state.into(),
        server: view.server.map(|sci| sci.to_string()),
        members: view.own.iter().map(|(ckn, mi)| (ckn.to_string(), mi.to_string())).collect(),
        peers: view.peers.iter().map(peer).collect(),
        saks: view.saks.iter().map(sak).collect(),
        trouble: view.trouble(),
        counters: messages.into_iter().chain(dropped).collect(),
    }
}
