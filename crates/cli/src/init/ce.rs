//! `ferrule init ce`: a customer edge that bridges its site to the provider, with
//! MACsec from here to the other site's edge.
//!
//! ```text
//!   site ── lan [ bridge ─ SecY ] uplink ── provider's pseudowire ── other site's edge
//! ```

use super::config::{NodePlan, PortPlan, Text};

/// A customer edge.
#[derive(Clone, Debug)]
pub struct CePlan {
    /// The head.
    pub node: NodePlan,
    /// Towards the site.
    pub lan: PortPlan,
    /// The VLAN that the site's untagged frames belong to.
    pub access: Option<u16>,
    /// Towards the provider.
    pub uplink: PortPlan,
    /// Nothing: frames go out as they are.
    pub secy: Option<SecyPlan>,
}

/// MACsec on the uplink.
#[derive(Clone, Debug)]
pub struct SecyPlan {
    /// The cipher suite.
    pub cipher: String,
    /// Our SCI.
    pub sci: String,
    /// SAKs.
    pub keys: SakPlan,
}

/// Origin of a SecY's SAKs.
#[derive(Clone, Debug)]
pub enum SakPlan {
    /// From key files.
    Static {
        /// Our key file.
        transmit: String,
        /// The other edge's SCI and key file.
        receive: (String, String),
        /// XPN: the short SCIs of both.
        ssci: Option<(u32, u32)>,
    },
    /// By MKA.
    Agreed {
        /// The name of the CAK.
        ckn: String,
        /// Its key file.
        key: String,
        /// Key server priority.
        priority: u8,
        /// Seconds after which there is a new SAK.
        rekey: u32,
    },
}

impl CePlan {
    /// The configuration.
    pub fn toml(&self) -> String {
        let mut out = Text::default();
        let how = if self.secy.is_some() { "under MACsec" } else { "in the clear" };
        out.comment(&format!(
            "{}: a customer edge. It bridges the site to the provider's pseudowire, {how}.",
            self.node.name
        ));
        self.node.write(&mut out);
        self.lan.write(&mut out, "towards our site");
        if self.secy.is_some() {
            out.gap().comment(
                "SecTAG and ICV take 32 octets of a frame. The device and the provider's port\n\
                 need this mtu and, for frames with a VLAN tag, 4 octets more:\n\
                 `ip link set DEVICE mtu …`.",
            );
        }
        self.uplink.write(&mut out, "towards the provider");
        self.bridge(&mut out);
        if let Some(secy) = &self.secy {
            secy.write(&mut out, &self.uplink.name);
        }
        out.finish()
    }

    fn bridge(&self, out: &mut Text) {
        out.gap().table("[[bridge]]").text("name", "site");
        out.table("[[bridge.member]]").text("port", &self.lan.name);
        if let Some(vlan) = self.access {
            out.plain_why("access", vlan, "untagged frames are this VLAN on the uplink");
        }
        out.table("[[bridge.member]]").text("port", &self.uplink.name);
    }
}

impl SecyPlan {
    fn write(&self, out: &mut Text, port: &str) {
        out.gap().comment(match self.keys {
            SakPlan::Static { .. } => {
                "Static SAKs, each for one direction; the state folder keeps every packet\n\
                 number from being used twice."
            }
            SakPlan::Agreed { .. } => {
                "Both edges have the CAK; MKA agrees on SAKs with it, and on new ones."
            }
        });
        out.table("[[macsec]]").text("port", port).text("cipher", &self.cipher);
        out.text_why("sci", &self.sci, "ours: an address and a port number");
        out.plain_why("send-sci", true, "in every frame, for a bridge may stand between");
        match &self.keys {
            SakPlan::Static { transmit, receive: (sci, key), ssci } => {
                out.table("[[macsec.transmit]]").text("key", transmit);
                ssci.iter().for_each(|(own, _)| _ = out.plain("ssci", own));
                out.table("[[macsec.receive]]").text_why("sci", sci, "the other edge's");
                out.text("key", key);
                ssci.iter().for_each(|(_, other)| _ = out.plain("ssci", other));
            }
            SakPlan::Agreed { ckn, key, priority, rekey } => {
                out.table("[macsec.mka]");
                out.plain_why("priority", priority, "the lower of the two is key server");
                out.plain_why("rekey", rekey, "seconds; a new SAK from the key server");
                out.table("[[macsec.mka.cak]]").text_why("ckn", ckn, "its name, at both edges");
                out.text("key", key);
            }
        }
    }
}
