//! `ferrule init gateway`: an ESP tunnel between two gateways.
//!
//! ```text
//!   site ── lan [ gateway ] wan ═══ ESP ═══ wan [ gateway ] lan ── other site
//! ```

use super::config::{NodePlan, PortPlan, Text};

/// A gateway.
#[derive(Clone, Debug)]
pub struct GatewayPlan {
    /// The head.
    pub node: NodePlan,
    /// Towards the site.
    pub lan: PortPlan,
    /// The site's VLAN on that port, taken beside untagged frames.
    pub vlan: Option<u16>,
    /// Towards the other gateway.
    pub wan: PortPlan,
    /// Our address in the site, with prefix length.
    pub lan_address: String,
    /// Our address outside, with prefix length.
    pub wan_address: String,
    /// The networks of the two sites.
    pub local_net: String,
    /// The other site's.
    pub remote_net: String,
    /// The other gateway.
    pub peer: String,
    /// The router on the way to it; nothing: it is on our own link.
    pub next_hop: Option<String>,
    /// Suite of ESP.
    pub suite: String,
    /// SAs to send and to receive with; none: a keying program gives them.
    pub sas: Option<[SaPlan; 2]>,
}

/// One direction of a tunnel.
#[derive(Clone, Debug)]
pub struct SaPlan {
    /// Its SPI.
    pub spi: u32,
    /// Its key file.
    pub key: String,
}

impl GatewayPlan {
    /// The configuration.
    pub fn toml(&self) -> String {
        let mut out = Text::default();
        out.comment(&format!(
            "{}: an ESP gateway between {} and {}.\n\
             All packets between the two are sealed with {}; nothing else passes.",
            self.node.name, self.local_net, self.remote_net, self.suite
        ));
        self.node.write(&mut out);
        self.lan.write(&mut out, "towards our site");
        self.wan.write(&mut out, "towards the other gateway");
        self.interfaces(&mut out);
        self.tunnel(&mut out);
        self.policy(&mut out);
        out.finish()
    }

    fn interfaces(&self, out: &mut Text) {
        out.gap().table("[[interface]]").text("name", "lan").text("port", &self.lan.name);
        if let Some(vlan) = self.vlan {
            out.plain("vlan", vlan);
            out.plain_why("untagged", true, "frames without tag are this VLAN's, too");
        }
        out.plain("address", format!("[\"{}\"]", self.lan_address));
        out.gap().table("[[interface]]").text("name", "wan").text("port", &self.wan.name);
        out.plain("address", format!("[\"{}\"]", self.wan_address));
        if let Some(next_hop) = &self.next_hop {
            out.gap().table("[[route]]");
            out.text_why(
                "prefix",
                format!("{}/{}", self.peer, host_len(&self.peer)),
                "the other gateway",
            );
            out.text("via", next_hop);
        }
        out.gap().table("[[route]]").text_why("prefix", &self.remote_net, "the other site");
        out.text("via", self.next_hop.as_ref().unwrap_or(&self.peer));
    }

    fn tunnel(&self, out: &mut Text) {
        let local = self.wan_address.split('/').next().unwrap_or_default();
        out.gap().comment(match self.sas {
            Some(_) => {
                "Static keys, each for one direction: RFC 8221 has its reasons against them;\n\
                 they are bearable because the state folder keeps every number from being\n\
                 used twice. Make new ones with `ferrule init key`."
            }
            None => {
                "SAs come from a keying program while the node runs: `ferrule sa`. With\n\
                 keying-ports in [node] it has UDP ports to the other gateway."
            }
        });
        out.table("[[tunnel]]").text("name", "site-to-site");
        out.text("local", local).text("remote", &self.peer).text("suite", &self.suite);
        let Some([out_sa, in_sa]) = &self.sas else {
            out.text("keying", "external");
            return;
        };
        for (head, sa, why) in [
            ("[tunnel.out]", out_sa, "the SPI that the other gateway knows us by"),
            ("[tunnel.in]", in_sa, "the SPI that we know the other gateway by"),
        ] {
            out.table(head);
            out.plain_why("spi", format!("{:#x}", sa.spi), why).text("key", &sa.key);
        }
    }

    fn policy(&self, out: &mut Text) {
        out.gap().comment("In order; what no entry matches is discarded.").table("[[policy]]");
        out.text("interface", "wan").text("action", "protect").text("tunnel", "site-to-site");
        out.text("local", &self.local_net).text("remote", &self.remote_net);
    }
}

/// The prefix length of a single address.
fn host_len(address: &str) -> u8 {
    if address.contains(':') { 128 } else { 32 }
}
