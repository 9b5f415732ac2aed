//! `ferrule init host`: an ordinary host whose programs use the node by a TUN device,
//! with ESP to a gateway or to a peer, and the other end.
//!
//! ```text
//!   [ programs ── tun ── node ] uplink ═══ ESP ═══ wan [ gateway ] lan ── their network
//! ```

use super::config::{NodePlan, PortPlan, Text};
use super::gateway::SaPlan;

/// One end: the host, or what it talks to.
#[derive(Clone, Debug)]
pub struct HostPlan {
    /// The head.
    pub node: NodePlan,
    /// Towards the programs, or towards the other end's network.
    pub near: PortPlan,
    /// Address of the host at its TUN, with prefix length; nothing: this end has a network.
    pub tun: Option<String>,
    /// The node's own address on that side, with prefix length.
    pub near_address: String,
    /// Towards the other end.
    pub uplink: PortPlan,
    /// Our address there, with prefix length.
    pub uplink_address: String,
    /// The other end's address there.
    pub peer: String,
    /// The router on the way to it; nothing: it is on our own link.
    pub next_hop: Option<String>,
    /// Protected part at this end: a network, or one address.
    pub local: String,
    /// Protected part at the other end.
    pub remote: String,
    /// Transport mode, between the two addresses.
    pub transport: bool,
    /// Suite of ESP.
    pub suite: String,
    /// SA to send with.
    pub out_sa: SaPlan,
    /// SA to receive with.
    pub in_sa: SaPlan,
}

impl HostPlan {
    /// The configuration.
    pub fn toml(&self) -> String {
        let mut out = Text::default();
        let mode = if self.transport { "transport" } else { "tunnel" };
        out.comment(&format!(
            "{}: ESP in {mode} mode between {} and {}.\n\
             All packets between the two are sealed with {}; nothing else passes.",
            self.node.name, self.local, self.remote, self.suite
        ));
        self.node.write(&mut out);
        self.near(&mut out);
        self.uplink.write(&mut out, "towards the other end");
        out.comment("The node has this device for itself: the host has no address on it.");
        self.interfaces(&mut out);
        self.association(&mut out, mode);
        self.policy(&mut out, mode);
        out.finish()
    }

    fn near(&self, out: &mut Text) {
        let Some(address) = &self.tun else {
            return self.near.write(out, "towards our network");
        };
        self.near.write(out, "the host's own programs");
        out.comment("Set when the node starts; the device goes when it ends. The mtu above is\nwhat fits the uplink with ESP around it.");
        out.plain_why("host-address", format!("[\"{address}\"]"), "the host's");
        out.plain_why("host-route", format!("[\"{}\"]", self.remote), "what it reaches there");
    }

    fn interfaces(&self, out: &mut Text) {
        out.gap()
            .table("[[interface]]")
            .text("name", &self.near.name)
            .text("port", &self.near.name);
        out.plain("address", format!("[\"{}\"]", self.near_address));
        out.gap().table("[[interface]]").text("name", "uplink").text("port", &self.uplink.name);
        out.plain("address", format!("[\"{}\"]", self.uplink_address));
        let via = self.next_hop.as_ref().unwrap_or(&self.peer);
        if self.next_hop.is_some() {
            let len = if self.peer.contains(':') { 128 } else { 32 };
            out.gap().table("[[route]]");
            out.text_why("prefix", format!("{}/{len}", self.peer), "the other end")
                .text("via", via);
        }
        out.gap().table("[[route]]").text_why("prefix", &self.remote, "what is behind it");
        out.text("via", via);
    }

    fn association(&self, out: &mut Text, mode: &str) {
        let bare = |text: &str| text.split('/').next().unwrap_or_default().to_owned();
        let (local, remote) = match self.transport {
            true => (bare(&self.local), bare(&self.remote)),
            false => (bare(&self.uplink_address), self.peer.clone()),
        };
        out.gap().comment(
            "Static keys, each for one direction: RFC 8221 has its reasons against them;\n\
             they are bearable because the state folder keeps every number from being\n\
             used twice. Make new ones with `ferrule init key`.",
        );
        out.table(&format!("[[{mode}]]")).text("name", "site");
        out.text("local", local).text("remote", remote).text("suite", &self.suite);
        for (way, sa, why) in [
            ("out", &self.out_sa, "the SPI that the other end knows us by"),
            ("in", &self.in_sa, "the SPI that we know the other end by"),
        ] {
            out.table(&format!("[{mode}.{way}]"));
            out.plain_why("spi", format!("{:#x}", sa.spi), why).text("key", &sa.key);
        }
    }

    fn policy(&self, out: &mut Text, mode: &str) {
        out.gap().comment("In order; what no entry matches is discarded.").table("[[policy]]");
        out.text("interface", "uplink").text("action", "protect").text(mode, "site");
        if !self.transport {
            out.text("local", &self.local).text("remote", &self.remote);
        }
    }
}
