//! The nodes' configurations. The CEs and PEs are those of `ferrule init`, with
//! the demo's devices and addresses; P is written here.

use super::plan::{self, LIST, Place, Protect, Variant, end};
use crate::init::ce::{CePlan, SakPlan, SecyPlan};
use crate::init::config::{NodePlan, PortPlan, Text};
use crate::init::gateway::{GatewayPlan, SaPlan};
use crate::init::pe::PePlan;

/// SPIs, to CE2 and to CE1.
pub const SPIS: [u32; 2] = [0x1000_0102, 0x1000_0201];

/// Folder and driver of a node, and its interval of rekeying.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Folder of this variant's files.
    pub dir: String,
    /// Driver of all ports.
    pub driver: String,
    /// Seconds from one SAK to the next; 0: when packet numbers run out.
    pub rekey: u32,
}

impl Setting {
    fn node(&self, place: Place, keyed: bool) -> NodePlan {
        let name = place.name().to_owned();
        let file = |kind: &str| Some(format!("{}/{name}.{kind}", self.dir));
        let state = if keyed { file("state") } else { None };
        NodePlan { state, control: file("socket"), name }
    }

    fn port(&self, place: Place, device: &'static str, mtu: usize) -> PortPlan {
        PortPlan {
            name: device.into(),
            driver: self.driver.clone(),
            device: device.to_owned(),
            mac: Some(end(place, device).mac.to_owned()),
            mtu,
        }
    }

    /// The key file from one CE to the other.
    pub fn key(&self, from: usize) -> String {
        format!("{}/{}.key", self.dir, KEYS[from])
    }
}

/// The name of the CAK.
const CKN: &str = "64656d6f";

/// Key files by who sends with them; of MACsec the first is the CAK of both.
pub const KEYS: [&str; 2] = ["ce1-to-ce2", "ce2-to-ce1"];

/// The configuration of a node in a variant.
pub fn toml(place: Place, variant: &Variant, setting: &Setting) -> Option<String> {
    match place {
        Place::Host1 | Place::Host2 => None,
        Place::Ce1 => Some(ce(0, place, variant, setting)),
        Place::Ce2 => Some(ce(1, place, variant, setting)),
        Place::Pe1 => Some(pe(0, place, setting)),
        Place::Pe2 => Some(pe(1, place, setting)),
        Place::P => Some(p(setting)),
    }
}

fn ce(side: usize, place: Place, variant: &Variant, setting: &Setting) -> String {
    let secy = match variant.protect {
        Protect::Esp(suite) => return gateway(side, place, suite, setting),
        Protect::Nothing => None,
        Protect::Macsec(cipher) => {
            let (ckn, key) = (CKN.to_owned(), setting.key(0));
            let keys =
                SakPlan::Agreed { ckn, key, priority: 16 + side as u8, rekey: setting.rekey };
            let sci = format!("{}/1", end(place, "wan").mac);
            Some(SecyPlan { cipher: cipher.to_owned(), sci, keys })
        }
    };
    // A bridge takes frames that all members can send: the site's and, with
    // MACsec, 32 octets more. The device itself has room for a VLAN tag, too.
    let sealed = if secy.is_some() { 32 } else { 0 };
    let plan = CePlan {
        node: setting.node(place, false),
        lan: setting.port(place, "lan", plan::SITE_MTU),
        access: Some(plan::VLAN),
        uplink: setting.port(place, "wan", plan::SITE_MTU + sealed),
        secy,
    };
    plan.toml()
}

fn gateway(side: usize, place: Place, suite: &str, setting: &Setting) -> String {
    let other = 1 - side;
    let sa = |from: usize| SaPlan { spi: SPIS[from], key: setting.key(from) };
    let plan = GatewayPlan {
        node: setting.node(place, true),
        lan: setting.port(place, "lan", plan::SITE_MTU),
        vlan: Some(plan::VLAN),
        wan: setting.port(place, "wan", plan::ACCESS_MTU),
        lan_address: format!("{}/24", plan::LAN[side]),
        wan_address: format!("{}/24", plan::WAN[side]),
        local_net: plan::SITE[side].to_owned(),
        remote_net: plan::SITE[other].to_owned(),
        peer: plan::WAN[other].to_owned(),
        next_hop: None,
        suite: suite.to_owned(),
        sas: Some([sa(side), sa(other)]),
    };
    plan.toml()
}

fn pe(side: usize, place: Place, setting: &Setting) -> String {
    let (address, via) = [(plan::PE1_CORE, plan::P_LEFT), (plan::PE2_CORE, plan::P_RIGHT)][side];
    let labels = [plan::PW_PE1, plan::PW_PE2];
    let plan = PePlan {
        node: setting.node(place, false),
        attachment: setting.port(place, "ac", plan::ACCESS_MTU),
        core: setting.port(place, "core", plan::CORE_MTU),
        core_address: format!("{address}/30"),
        via: via.to_owned(),
        transport: Some([plan::TO_PE2, plan::TO_PE1][side]),
        label_in: labels[side],
        label_out: labels[1 - side],
    };
    if side == 1 {
        return plan.toml();
    }
    let (circuit, named) = ("[[pseudowire]]\n", format!("[[pseudowire]]\nacl-in = \"{LIST}\"\n"));
    plan.toml().replacen(circuit, &named, 1) + &plan::list()
}

/// The provider's router: it pops the transport label for the PE behind it.
fn p(setting: &Setting) -> String {
    let mut out = Text::default();
    out.comment(
        "p: a router of the provider. It knows two labels and nothing of customers:\n\
         penultimate-hop popping leaves the PE with the pseudowire's label alone.",
    );
    setting.node(Place::P, false).write(&mut out);
    for (device, why) in [("left", "towards pe1"), ("right", "towards pe2")] {
        setting.port(Place::P, device, plan::CORE_MTU).write(&mut out, why);
    }
    for (device, address) in [("left", plan::P_LEFT), ("right", plan::P_RIGHT)] {
        out.gap().table("[[interface]]").text("name", device).text("port", device);
        out.plain("address", format!("[\"{address}/30\"]")).plain("mpls", true);
    }
    for (label, via) in [(plan::TO_PE1, plan::PE1_CORE), (plan::TO_PE2, plan::PE2_CORE)] {
        out.gap().table("[[label]]").plain("label", label).plain("pop", true).text("via", via);
    }
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_node::config::Config;

    #[test]
    fn demo_configurations_are_taken_by_the_node_in_every_variant() {
        for driver in ["af-packet", "af-xdp"] {
            let setting = Setting { dir: "/x".into(), driver: driver.into(), rekey: 10 };
            for variant in plan::VARIANTS {
                let keys = plan::VARIANTS.iter().filter_map(|_| variant.key_for()).take(2);
                let keys: Vec<_> =
                    keys.map(|(kind, name)| kind.fresh(name).expect("random")).collect();
                for place in Place::NODES {
                    let text = toml(place, &variant, &setting).expect("a node");
                    let mut read = |path: &str| {
                        let at = (0..2).find(|&from| setting.key(from) == path);
                        Ok(at.and_then(|at| keys.get(at)).expect("a key of ours").clone())
                    };
                    let config = Config::parse(place.name(), &text, &mut read);
                    let config = config.unwrap_or_else(|e| panic!("{e}\n{text}"));
                    assert_eq!(config.ports.len(), 2);
                }
            }
        }
    }
}
