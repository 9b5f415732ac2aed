//! `ferrule init pe`: a provider edge with one Ethernet pseudowire (RFC 4448).
//!
//! ```text
//!   customer ── attachment [ PE ] core ── labels, control word ── other PE
//! ```

use super::config::{NodePlan, PortPlan, Text};

/// A provider edge.
#[derive(Clone, Debug)]
pub struct PePlan {
    /// The head.
    pub node: NodePlan,
    /// Towards the customer.
    pub attachment: PortPlan,
    /// Towards the provider's network.
    pub core: PortPlan,
    /// Our address there, with prefix length.
    pub core_address: String,
    /// The neighbour on the way to the other PE.
    pub via: String,
    /// The label that leads there; nothing: the neighbour is the other PE, or
    /// popping happens before it.
    pub transport: Option<u32>,
    /// The pseudowire's label here.
    pub label_in: u32,
    /// The pseudowire's label at the other PE.
    pub label_out: u32,
}

impl PePlan {
    /// The configuration.
    pub fn toml(&self) -> String {
        let mut out = Text::default();
        out.comment(&format!(
            "{}: a provider edge. Every frame of the attachment port crosses the provider's\n\
             network in a pseudowire, unseen by it.",
            self.node.name
        ));
        self.node.write(&mut out);
        self.attachment.write(&mut out, "towards the customer");
        out.gap().comment(
            "Ethernet, two labels and a control word around the customer's frame take 26\n\
             octets, a VLAN tag 4: the core needs an mtu larger than the customer's.",
        );
        self.core.write(&mut out, "towards the provider's network");
        out.gap().table("[[interface]]").text("name", "core").text("port", &self.core.name);
        out.plain("address", format!("[\"{}\"]", self.core_address));
        out.plain_why("mpls", true, "labelled packets are taken here");
        out.gap().comment("The way to the other PE.").table("[[lsp]]");
        out.text("name", "far").text("via", &self.via);
        if let Some(label) = self.transport {
            out.plain_why("labels", format!("[{label}]"), "the transport label");
        }
        out.gap().table("[[pseudowire]]").text("name", "customer");
        out.text("port", &self.attachment.name).text("lsp", "far");
        out.plain_why("label-in", self.label_in, "ours: what the other PE puts on");
        out.plain_why("label-out", self.label_out, "the other PE's");
        out.plain_why("control-word", true, "RFC 4385: no router mistakes a frame for IP");
        out.finish()
    }
}
